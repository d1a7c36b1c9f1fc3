/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier accepts the sample module and refuses it after each of many single changes, one
 * for every field of ir.h that a pass could get wrong. */
#include "sample.h"

#include "base/intern.h"
#include "ir/irtext.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding things in the sample ---- */

static DtFunc *func(DtModule *m, const char *name) { return dt_graph_find(m, name); }
static DtFunc *layer(DtModule *m) { return func(m, "layer one"); }

/* Returns the first op of the given kind in the module. */
static DtOp *op(DtModule *m, DtOpKind kind)
{
    for (uint32_t i = 0; i < m->funcs.n; i++) {
        for (uint32_t k = 0; k < m->funcs.at[i]->ops.n; k++) {
            if (m->funcs.at[i]->ops.at[k]->kind == kind)
                return m->funcs.at[i]->ops.at[k];
        }
    }
    abort();
}

static const DtType *scalar(void) { return dt_type_scalar(DT_F32); }

/* Makes a type with contents that dt_type_make would not make, or at another address. */
static const DtType *forged(DtModule *m, uint8_t rank, const char *name, int64_t extent)
{
    DtType *type = dt_arena_alloc(m->arena, sizeof(DtType) + 20 * sizeof(DtAxis));
    type->dtype = DT_F32;
    type->rank = rank;
    for (int i = 0; i < 20; i++)
        type->axes[i] = (DtAxis){.name = i ? dt_intern_printf("x%d", i) : name, .extent = extent};
    return type;
}

static const char *not_interned(DtModule *m) { return dt_arena_strndup(m->arena, "b", 1); }

/* ---- changes ---- */

#define CHANGE(name, ...) \
    static void name(DtModule *m) { __VA_ARGS__; }

CHANGE(mesh_count, m->mesh.n = 17)
CHANGE(mesh_size, m->mesh.axes[1].size = 0)
CHANGE(mesh_name, m->mesh.axes[1].name = NULL)
CHANGE(mesh_same, m->mesh.axes[1].name = m->mesh.axes[2].name)
CHANGE(mesh_time, m->mesh.axes[1].is_time = true)
CHANGE(mesh_fewer, m->mesh.n = 2)

CHANGE(store_null, m->stores.at[1] = NULL)
CHANGE(store_index, m->stores.at[1]->index = 2)
CHANGE(store_kind, m->stores.at[0]->kind = (DtStoreKind)(DT_STORE_RINGBUF + 1))
CHANGE(store_path, m->stores.at[0]->path = NULL)
CHANGE(store_pattern, m->stores.at[0]->pattern = dt_intern("h.#.down.w"))
CHANGE(store_loops, m->stores.at[0]->n_loops = 0)
CHANGE(store_many_loops, m->stores.at[0]->n_loops = 3)
CHANGE(store_type, m->stores.at[0]->type = NULL)
CHANGE(store_rank, m->stores.at[0]->written_rank = 17)
CHANGE(store_owner, m->stores.at[1]->of = NULL)
CHANGE(store_extra_owner, m->stores.at[0]->of = m->stores.at[1])
CHANGE(store_owner_kind, m->stores.at[1]->of = m->stores.at[2])
CHANGE(store_owner_outside, DtStore *s = DT_NEW(m->arena, DtStore); *s = *m->stores.at[0];
       m->stores.at[1]->of = s)
CHANGE(store_init, m->stores.at[0]->init.kind = (DtInitKind)3)
CHANGE(store_init_range, m->stores.at[0]->init = ((DtInit){DT_INIT_UNIFORM, 1, 0}))
CHANGE(store_init_nan, m->stores.at[0]->init.a = NAN)
CHANGE(store_twice, m->stores.at[2]->kind = DT_STORE_MOMENT2)
CHANGE(store_pending, DtStore *s = m->stores.at[2];
       s->type = dt_type_make(DT_F32, 2, s->type->axes, 2, DT_REDUCE_SUM))

CHANGE(func_null, m->funcs.at[0] = NULL)
CHANGE(func_module, layer(m)->module = NULL)
CHANGE(func_name, layer(m)->name = NULL)
CHANGE(func_same_name, func(m, "block")->name = layer(m)->name)
CHANGE(func_twice, m->funcs.at[1] = m->funcs.at[0])
CHANGE(func_kind, layer(m)->kind = (DtFuncKind)(DT_FUNC_BRANCH + 1))
CHANGE(func_library, layer(m)->library = not_interned(m))
CHANGE(func_args, layer(m)->n_args = 2)
CHANGE(func_returns, layer(m)->n_returns = 2)
CHANGE(func_values, layer(m)->n_values = 5)
CHANGE(func_input_null, layer(m)->inputs.at[0] = NULL)
CHANGE(func_input_type, layer(m)->inputs.at[0]->type = NULL)
CHANGE(func_input_index, layer(m)->inputs.at[1]->index = 0)
CHANGE(func_input_op, layer(m)->inputs.at[1]->op = layer(m)->ops.at[0])
CHANGE(func_result_null, layer(m)->results.at[0] = NULL)
CHANGE(func_result_foreign, layer(m)->results.at[0] = func(m, "block")->inputs.at[1])
CHANGE(func_write_param, layer(m)->writes.at[0] = 0)
CHANGE(func_write_number, layer(m)->writes.at[0] = 2)
CHANGE(func_write_type, layer(m)->results.at[1] = layer(m)->inputs.at[0])
CHANGE(func_write_twice, DtFunc *f = layer(m); DT_PUSH(m->arena, f->results, f->results.at[1]);
       DT_PUSH(m->arena, f->writes, 1))
CHANGE(func_fwd, layer(m)->fwd = DT_NEW(m->arena, DtFunc))
CHANGE(func_bwd_w, layer(m)->bwd_w = dt_graph_func(sample_module(m->arena), "g", DT_FUNC_FN))
CHANGE(func_fused, layer(m)->fused = dt_graph_func(sample_module(m->arena), "g", DT_FUNC_FN))
CHANGE(param_path, layer(m)->params.at[0].path = NULL)
CHANGE(param_pattern, layer(m)->params.at[0].pattern = dt_intern("#.up.w"))
CHANGE(param_loops, layer(m)->params.at[0].n_loops = 2)
CHANGE(param_rank, layer(m)->params.at[0].written_rank = 99)
CHANGE(param_init, layer(m)->params.at[0].init.a = -1)
CHANGE(entry_inputs, func(m, "grad")->kind = DT_FUNC_FN)
CHANGE(layer_as_entry, layer(m)->kind = DT_FUNC_ENTRY)

CHANGE(value_null, op(m, DT_OP_EXP)->out[0] = NULL)
CHANGE(value_op, op(m, DT_OP_EXP)->out[0]->op = op(m, DT_OP_LOG))
CHANGE(value_index, op(m, DT_OP_TOPK)->out[1]->index = 0)
CHANGE(value_id, op(m, DT_OP_EXP)->out[0]->id = 1000)
CHANGE(value_same_id, op(m, DT_OP_EXP)->out[0]->id = 0)
CHANGE(value_type, op(m, DT_OP_EXP)->out[0]->type = NULL)
CHANGE(value_other_type, op(m, DT_OP_EXP)->out[0]->type = scalar())
CHANGE(type_rank, op(m, DT_OP_EXP)->out[0]->type = forged(m, 17, dt_intern("a"), 1))
CHANGE(type_extent, op(m, DT_OP_EXP)->out[0]->type = forged(m, 1, dt_intern("a"), 0))
CHANGE(type_copy, op(m, DT_OP_EXP)->out[0]->type = forged(m, 1, dt_intern("a"), 3))
CHANGE(type_axis_name, op(m, DT_OP_EXP)->out[0]->type = forged(m, 1, not_interned(m), 3))
CHANGE(type_input, layer(m)->inputs.at[0]->type = forged(m, 17, dt_intern("a"), 1))

CHANGE(op_null, layer(m)->ops.at[3] = NULL)
CHANGE(op_kind, layer(m)->ops.at[3]->kind = DT_OP_COUNT)
CHANGE(op_other_kind, op(m, DT_OP_DOT)->kind = DT_OP_ADD)
CHANGE(op_span, op(m, DT_OP_EXP)->span.hi = 0)
CHANGE(op_path, op(m, DT_OP_EXP)->path = not_interned(m))
CHANGE(op_order, DtFunc *f = layer(m); DtOp *last = f->ops.at[f->ops.n - 2];
       f->ops.at[f->ops.n - 2] = f->ops.at[f->ops.n - 3]; f->ops.at[f->ops.n - 3] = last)
CHANGE(op_twice, layer(m)->ops.at[1] = layer(m)->ops.at[0])
CHANGE(in_null, op(m, DT_OP_ADD)->in[1] = NULL)
CHANGE(in_list, op(m, DT_OP_ADD)->in = NULL)
CHANGE(in_self, op(m, DT_OP_EXP)->in[0] = op(m, DT_OP_EXP)->out[0])
CHANGE(in_foreign, op(m, DT_OP_EXP)->in[0] = func(m, "block")->inputs.at[1])
CHANGE(in_count, op(m, DT_OP_ADD)->n_in = 1)
CHANGE(out_list, op(m, DT_OP_ADD)->out = NULL)
CHANGE(out_count, op(m, DT_OP_TOPK)->n_out = 1)
CHANGE(out_none, op(m, DT_OP_NEG)->n_out = 0)
CHANGE(axes_null, op(m, DT_OP_REDUCE)->axes = NULL)
CHANGE(axes_name, op(m, DT_OP_REDUCE)->axes[0] = not_interned(m))
CHANGE(axes_no_name, op(m, DT_OP_REDUCE)->axes[0] = NULL)
CHANGE(axes_other, op(m, DT_OP_REDUCE)->axes[0] = dt_intern("c"))
CHANGE(axes_extra, DtOp *o = op(m, DT_OP_EXP); o->axes = op(m, DT_OP_REDUCE)->axes; o->n_axes = 1)
CHANGE(axes2_null, op(m, DT_OP_SCATTER_ADD)->axes2 = NULL)
CHANGE(axes2_extra, DtOp *o = op(m, DT_OP_REDUCE); o->axes2 = o->axes; o->n_axes2 = 1)
CHANGE(ranges_null, op(m, DT_OP_SLICE)->ranges = NULL)
CHANGE(ranges_lo, op(m, DT_OP_SLICE)->ranges[0].lo = 4)
CHANGE(ranges_step, op(m, DT_OP_WINDOW)->ranges[0].step = 0)
CHANGE(ranges_extra, op(m, DT_OP_EXP)->ranges = op(m, DT_OP_SLICE)->ranges)
CHANGE(relabel_null, op(m, DT_OP_RELABEL)->relabels = NULL)
CHANGE(relabel_count, op(m, DT_OP_RELABEL)->relabels[0].n_to = 5)
CHANGE(relabel_name, op(m, DT_OP_RELABEL)->relabels[0].to[1] = NULL)
CHANGE(relabel_extent, op(m, DT_OP_RELABEL)->relabels[0].to_extent[1] = 3)
CHANGE(relabel_extra, DtOp *o = op(m, DT_OP_EXP); o->relabels = op(m, DT_OP_RELABEL)->relabels;
       o->n_relabels = 1)
CHANGE(number_extra, op(m, DT_OP_EXP)->number = -0.0)
CHANGE(draws_extra, op(m, DT_OP_EXP)->draws = 4)
CHANGE(number_value, DtOp *o = op(m, DT_OP_CONST); o->out[0]->type = dt_type_scalar(DT_I32))
CHANGE(reduce_kind, op(m, DT_OP_REDUCE)->reduce = (DtReduce)3)
CHANGE(reduce_extra, op(m, DT_OP_EXP)->reduce = DT_REDUCE_MAX)
CHANGE(reverse_extra, op(m, DT_OP_EXP)->reverse = true)
CHANGE(text_extra, op(m, DT_OP_EXP)->text = dt_intern("x"))
CHANGE(text_input, op(m, DT_OP_INPUT)->text = NULL)
CHANGE(text_param, op(m, DT_OP_PARAM)->text = dt_intern("x"))
CHANGE(text_rng, op(m, DT_OP_RNG)->text = NULL)
CHANGE(text_interned, op(m, DT_OP_RNG)->text = not_interned(m))
CHANGE(store_ref_null, op(m, DT_OP_PARAM)->store = NULL)
CHANGE(store_ref_type, op(m, DT_OP_PARAM)->store = m->stores.at[4])
CHANGE(store_ref_outside, DtStore *s = DT_NEW(m->arena, DtStore); *s = *m->stores.at[0];
       op(m, DT_OP_PARAM)->store = s)
CHANGE(store_ref_extra, op(m, DT_OP_EXP)->store = m->stores.at[0])
CHANGE(func_ref_null, op(m, DT_OP_CALL)->func = NULL)
CHANGE(func_ref_other, op(m, DT_OP_CALL)->func = func(m, "kernel"))
CHANGE(func_ref_outside, op(m, DT_OP_CALL)->func = layer(sample_module(m->arena)))
CHANGE(func_ref_extra, op(m, DT_OP_EXP)->func = func(m, "kernel"))
CHANGE(func_cycle, DtOp *o = op(m, DT_OP_TANH); (void)o; DtFunc *k = func(m, "kernel");
       k->ops.at[0]->kind = DT_OP_CALL; k->ops.at[0]->func = k)
CHANGE(func_long_cycle, DtFunc *k = func(m, "kernel"); k->ops.at[0]->kind = DT_OP_CALL;
       k->ops.at[0]->func = func(m, "kernel.1"))
CHANGE(loop_null, op(m, DT_OP_LOOP)->loop = NULL)
CHANGE(loop_label, op(m, DT_OP_LOOP)->loop->label = NULL)
CHANGE(loop_axis, op(m, DT_OP_LOOP)->loop->axis = dt_intern("steps"))
CHANGE(loop_axis_null, op(m, DT_OP_LOOP)->loop->axis = NULL)
CHANGE(loop_count, op(m, DT_OP_LOOP)->loop->count = 3)
CHANGE(loop_carried, op(m, DT_OP_LOOP)->loop->n_carried = 2)
CHANGE(loop_invariant, op(m, DT_OP_LOOP)->loop->n_invariant = 0)
CHANGE(loop_stacked, op(m, DT_OP_LOOP)->loop->n_stacked = UINT32_MAX)
CHANGE(loop_stacked_out, op(m, DT_OP_LOOP)->loop->n_stacked_out = 0)
CHANGE(loop_body, op(m, DT_OP_LOOP)->func = layer(m))
CHANGE(loop_extra, op(m, DT_OP_EXP)->loop = op(m, DT_OP_LOOP)->loop)
CHANGE(comm_mesh, op(m, DT_OP_ALL_REDUCE)->mesh = 4)
CHANGE(comm_no_mesh, op(m, DT_OP_ALL_GATHER)->mesh = 0)
CHANGE(comm_mesh_number, op(m, DT_OP_SHIFT)->mesh = 1 << 9)
CHANGE(comm_mesh_extra, op(m, DT_OP_EXP)->mesh = 1)

CHANGE(ring_store, m->stores.at[0]->kind = DT_STORE_RINGBUF)
CHANGE(ring_twice, op(m, DT_OP_WHEN)->in[1] = op(m, DT_OP_RINGBUF)->out[0])
CHANGE(ring_gone, op(m, DT_OP_RINGBUF_GET)->in[0] = op(m, DT_OP_WHEN)->out[0])
CHANGE(ring_other, op(m, DT_OP_RINGBUF_TURN)->in[0] = op(m, DT_OP_TURN)->out[0])
CHANGE(ring_place, op(m, DT_OP_RINGBUF_PUT)->number = 60)
CHANGE(ring_end, op(m, DT_OP_RINGBUF_PUT)->number = 128)
CHANGE(ring_number, op(m, DT_OP_RINGBUF_GET)->number = NAN)
CHANGE(start_twice, op(m, DT_OP_DONE)->in[0] = op(m, DT_OP_SHIFT)->in[0])
CHANGE(start_never, op(m, DT_OP_SHIFT)->starts = false)
CHANGE(start_early, op(m, DT_OP_SHARD)->in[0] = op(m, DT_OP_SHIFT)->out[0])
CHANGE(start_extra, op(m, DT_OP_SHARD)->starts = true)
CHANGE(when_range, op(m, DT_OP_WHEN)->ranges->n = 3)
CHANGE(when_before, op(m, DT_OP_WHEN)->ranges->lo = -1)
CHANGE(when_never, op(m, DT_OP_WHEN)->ranges->n = 0)
CHANGE(when_always, op(m, DT_OP_WHEN)->ranges = NULL)
CHANGE(when_func, op(m, DT_OP_WHEN)->func = func(m, "block"))
CHANGE(when_no_func, op(m, DT_OP_WHEN)->func = NULL)
CHANGE(when_counter, op(m, DT_OP_WHEN)->in[0] = op(m, DT_OP_WHEN)->in[1])
CHANGE(when_of_extra, op(m, DT_OP_EXP)->of = DT_NEW(m->arena, DtAheadOf))
CHANGE(at_step, func(m, "fetch")->ops.at[0]->ranges->step = 2)
CHANGE(at_overflow, func(m, "fetch")->ops.at[0]->ranges->step = INT64_MIN)
CHANGE(at_axis, op(m, DT_OP_AT)->axes[0] = dt_intern("a"))
CHANGE(at_counter, func(m, "fetch")->kind = DT_FUNC_FN)
CHANGE(at_no_range, op(m, DT_OP_AT)->ranges = NULL)
CHANGE(turn_outside, func(m, "grad")->kind = DT_FUNC_LAYER)
CHANGE(entry_name, m->entries.at[0].name = NULL)
CHANGE(entry_same, m->entries.at[1].name = m->entries.at[0].name)
CHANGE(entry_func, m->entries.at[0].func = NULL)
CHANGE(entry_func_kind, m->entries.at[0].func = layer(m))
CHANGE(entry_func_outside, m->entries.at[0].func = sample_module(m->arena)->entries.at[0].func)
CHANGE(entry_results, m->entries.at[0].results.n = 1)
CHANGE(entry_result_both, m->entries.at[0].results.at[0].name = dt_intern("x"))
CHANGE(entry_result_none, m->entries.at[0].results.at[0].store = NULL)
CHANGE(entry_result_type, m->entries.at[0].results.at[0].store = m->stores.at[4])
CHANGE(entry_result_outside, DtStore *s = DT_NEW(m->arena, DtStore); *s = *m->stores.at[1];
       m->entries.at[0].results.at[0].store = s)
CHANGE(entry_store_twice, m->entries.at[1].results.at[1].store = m->stores.at[0])

#define ROW(name, message)   \
    {                        \
#name, name, message \
    }
static const struct {
    const char *name;
    void (*change)(DtModule *m);
    const char *message;
} changes[] = {
    ROW(mesh_count, "the mesh has 17 axes"),
    ROW(mesh_size, "has size 0"),
    ROW(mesh_name, "has no name"),
    ROW(mesh_same, "two mesh axes are called"),
    ROW(mesh_time, "is time but not the first"),
    ROW(mesh_fewer, "mesh axis that does not exist"),
    ROW(store_null, "store 1 is missing"),
    ROW(store_index, "store 1 is missing"),
    ROW(store_kind, "store 0 is missing"),
    ROW(store_path, "a path has no name"),
    ROW(store_pattern, "does not fit path"),
    ROW(store_loops, "with 0 loops"),
    ROW(store_many_loops, "stacked over 3 loops"),
    ROW(store_type, "has no type"),
    ROW(store_rank, "written rank of 17"),
    ROW(store_owner, "belongs to no other store"),
    ROW(store_extra_owner, "has an owner"),
    ROW(store_owner_kind, "belongs to something"),
    ROW(store_owner_outside, "belongs to something"),
    ROW(store_init, "initialiser is not a known one"),
    ROW(store_init_range, "no valid range"),
    ROW(store_init_nan, "not a known one"),
    ROW(store_twice, "two stores of one kind"),
    ROW(store_pending, "has a pending reduction"),
    ROW(func_null, "function 0 is missing"),
    ROW(func_module, "function 0 is missing"),
    ROW(func_name, "has no name"),
    ROW(func_same_name, "another function has the same name"),
    ROW(func_twice, "listed twice"),
    ROW(func_kind, "no known kind"),
    ROW(func_library, "not interned"),
    ROW(func_args, "2 arguments and 2 parameters"),
    ROW(func_returns, "2 returned and 1 written"),
    ROW(func_values, "only 5 are given out"),
    ROW(func_input_null, "an input is missing"),
    ROW(func_input_type, "an input has no type"),
    ROW(func_input_index, "does not know where it is defined"),
    ROW(func_input_op, "does not know where it is defined"),
    ROW(func_result_null, "a result is missing"),
    ROW(func_result_foreign, "result 0 is not a value of the function"),
    ROW(func_write_param, "does not go to a state"),
    ROW(func_write_number, "does not go to a state"),
    ROW(func_write_type, "another type than its state"),
    ROW(func_write_twice, "state 1 is written twice"),
    ROW(func_fwd, "a derivative is a function outside"),
    ROW(func_bwd_w, "a derivative is a function outside"),
    ROW(func_fused, "its fused form is a function outside"),
    ROW(param_path, "a path has no name"),
    ROW(param_pattern, "does not fit path"),
    ROW(param_loops, "stacked over 2"),
    ROW(param_rank, "written rank of 99"),
    ROW(param_init, "no valid range"),
    ROW(entry_inputs, "stands outside an entry function"),
    ROW(layer_as_entry, "inputs or writes of its own"),
    ROW(value_null, "value 0 is missing"),
    ROW(value_op, "does not know where"),
    ROW(value_index, "does not know where"),
    ROW(value_id, "has number 1000"),
    ROW(value_same_id, "two values have the number 0"),
    ROW(value_type, "has no type"),
    ROW(value_other_type, "other axes"),
    ROW(type_rank, "16 axes at most"),
    ROW(type_extent, "no extent"),
    ROW(type_copy, "a type that is not interned"),
    ROW(type_axis_name, "axis whose name is not interned"),
    ROW(type_input, "16 axes at most"),
    ROW(op_null, "an op is missing"),
    ROW(op_kind, "of no known kind"),
    ROW(op_other_kind, "`add` has axes"),
    ROW(op_span, "ends before it begins"),
    ROW(op_path, "not interned"),
    ROW(op_order, "not defined before its use"),
    ROW(op_twice, "two values have the number"),
    ROW(in_null, "operand 1 is missing"),
    ROW(in_list, "list of operands is missing"),
    ROW(in_self, "operand 0 is not defined before its use"),
    ROW(in_foreign, "operand 0 is not defined before its use"),
    ROW(in_count, "`add` takes 2 operands and got 1"),
    ROW(out_list, "list of results is missing"),
    ROW(out_count, "has 1 results, not 2"),
    ROW(out_none, "has 0 results, not 1"),
    ROW(axes_null, "list of axes or relabel entries is missing"),
    ROW(axes_name, "not interned"),
    ROW(axes_no_name, "an axis has no name"),
    ROW(axes_other, "does not have"),
    ROW(axes_extra, "`exp` has axes"),
    ROW(axes2_null, "is missing"),
    ROW(axes2_extra, "has a second list of axes"),
    ROW(ranges_null, "no ranges"),
    ROW(ranges_lo, "which has 4"),
    ROW(ranges_step, "not possible"),
    ROW(ranges_extra, "`exp` has ranges"),
    ROW(relabel_null, "is missing"),
    ROW(relabel_count, "more than 4 axes"),
    ROW(relabel_name, "has no name"),
    ROW(relabel_extent, "into 6"),
    ROW(relabel_extra, "`exp` has relabel entries"),
    ROW(number_extra, "`exp` has a number"),
    ROW(draws_extra, "`exp` has draws"),
    ROW(number_value, "not a value of i32"),
    ROW(reduce_kind, "no known kind"),
    ROW(reduce_extra, "`exp` has a reduction"),
    ROW(reverse_extra, "`exp` has reverse"),
    ROW(text_extra, "`exp` has text"),
    ROW(text_input, "no name"),
    ROW(text_param, "does not name the path"),
    ROW(text_rng, "names no site"),
    ROW(text_interned, "not interned"),
    ROW(store_ref_null, "does not name the path"),
    ROW(store_ref_type, "does not name the path"),
    ROW(store_ref_outside, "store outside its module"),
    ROW(store_ref_extra, "`exp` has a store"),
    ROW(func_ref_null, "has 2 results, not 0"),
    ROW(func_ref_other, "has 2 results, not 1"),
    ROW(func_ref_outside, "function outside its module"),
    ROW(func_ref_extra, "`exp` has a function"),
    ROW(func_cycle, "calls itself"),
    ROW(func_long_cycle, "calls itself"),
    ROW(loop_null, "results, not 0"),
    ROW(loop_label, "has no name"),
    ROW(loop_axis, "operand 2 of `loop`"),
    ROW(loop_axis_null, "has no name"),
    ROW(loop_count, "operand 2 of `loop`"),
    ROW(loop_carried, "results, not 3"),
    ROW(loop_invariant, "wanted are 2, 3 and 2"),
    ROW(loop_stacked, "`loop` has 3 operands"),
    ROW(loop_stacked_out, "results, not 1"),
    ROW(loop_body, "its body 3 inputs"),
    ROW(loop_extra, "`exp` has a loop"),
    ROW(comm_mesh, "does not lead"),
    ROW(comm_no_mesh, "names no mesh axes"),
    ROW(comm_mesh_number, "do not exist"),
    ROW(comm_mesh_extra, "`exp` has mesh axes"),
    ROW(ring_store, "is a ring buffer, or has the type of one"),
    ROW(ring_twice, "a ring buffer that has gone on"),
    ROW(ring_gone, "a ring buffer that has gone on"),
    ROW(ring_other, "which is no ring buffer"),
    ROW(ring_place, "has no place in a slot"),
    ROW(start_twice, "`shift` is started and done 0 times"),
    ROW(start_never, "`done` of what was not started"),
    ROW(start_early, "`shard` reads what is not done"),
    ROW(start_extra, "`shard` has a start"),
    ROW(ring_end, "has no place in a slot"),
    ROW(ring_number, "has no place in a slot"),
    ROW(when_range, "takes no element"),
    ROW(when_before, "no range"),
    ROW(when_never, "no range"),
    ROW(when_always, "the operand that stays otherwise"),
    ROW(when_func, "has 1 results, not 2"),
    ROW(when_no_func, "has 1 results, not 0"),
    ROW(when_counter, "no i32 scalar"),
    ROW(when_of_extra, "a loop that it gathers for"),
    ROW(at_step, "takes no element"),
    ROW(at_overflow, "takes no element"),
    ROW(at_axis, "whose leading axis is not"),
    ROW(at_counter, "no `when` has looked at"),
    ROW(at_no_range, "has an axis and a range"),
    ROW(turn_outside, "outside an entry function"),
    ROW(entry_name, "has no name"),
    ROW(entry_same, "two entry points"),
    ROW(entry_func, "no entry function"),
    ROW(entry_func_kind, "no entry function"),
    ROW(entry_func_outside, "no entry function"),
    ROW(entry_results, "places 1 of 2 results"),
    ROW(entry_result_both, "one of both"),
    ROW(entry_result_none, "one of both"),
    ROW(entry_result_type, "another type than store"),
    ROW(entry_result_outside, "store outside the module"),
    ROW(entry_store_twice, "stores `h.up.w` twice"),
};

Test(verify, accepts_the_sample)
{
    DtArena *arena = dt_arena_new();
    DtText problems = {0};
    cr_expect(dt_verify_module(sample_module(arena), &problems), "%s", problems.at);
    cr_expect_eq(problems.len, 0);
    cr_expect(dt_verify_module(dt_graph_module(arena, NULL), &problems));
    dt_text_free(&problems);
    dt_arena_free(arena);
}

Test(verify, refuses_every_change)
{
    for (size_t i = 0; i < DT_COUNT(changes); i++) {
        DtArena *arena = dt_arena_new();
        DtModule *module = sample_module(arena);
        changes[i].change(module);
        DtText problems = {0};
        dt_text_add(&problems, "");
        cr_expect_not(dt_verify_module(module, &problems), "%s was not found", changes[i].name);
        cr_expect(strstr(problems.at, changes[i].message), "%s\nwanted: %s\ngot: %s",
                  changes[i].name, changes[i].message, problems.at);
        dt_text_free(&problems);
        dt_arena_free(arena);
    }
}

/* The sample has a mesh, and a `bind`, which may be read and printed, but no pass may leave it in a
 * module. */
Test(verify, marks_in_a_placed_program_abort, .signal = SIGABRT)
{
    dt_verify_require(sample_module(dt_arena_new()), "a pass");
}

Test(verify, programs_without_marks_are_handed_on)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = sample_module(arena);
    op(module, DT_OP_BIND)->text = NULL;
    op(module, DT_OP_BIND)->kind = DT_OP_STOP;
    dt_verify_require(module, "a pass");
    dt_arena_free(arena);
}

/* Each problem is reported on one line, with function, span and op. */
Test(verify, problems_are_located)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = sample_module(arena);
    op(module, DT_OP_EXP)->out[0]->type =
        dt_type_with_dtype(op(module, DT_OP_EXP)->out[0]->type, DT_BF16);
    DtText problems = {0};
    cr_expect_not(dt_verify_module(module, &problems));
    cr_expect_str_eq(problems.at,
                     "function `layer one`, 1:7-8: result 0 is bf16[a=3, b=4] where its rule gives "
                     "f32[a=3, b=4]: %6 = exp(%x.0) : bf16[a=3, b=4] path=attention.wq @1:7-8\n");
    dt_text_free(&problems);
    dt_arena_free(arena);
}

/* Of many problems all are found; only the first are written. */
Test(verify, many_problems)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_graph_module(arena, NULL);
    DtFunc *f = dt_graph_func(module, "f", DT_FUNC_FN);
    DtBuilder b = {.func = f};
    DtValue *x = dt_graph_arg(f, scalar(), "x");
    for (int i = 0; i < 80; i++)
        dt_graph_unary(&b, DT_OP_EXP, x)->type = dt_type_scalar(DT_I32);
    DtText problems = {0};
    cr_expect_not(dt_verify_module(module, &problems));
    cr_expect(strstr(problems.at, "and 30 more problems\n"), "%s", problems.at);
    dt_text_free(&problems);
    dt_arena_free(arena);
}

/* Pending sums: errors that only a placed module can have. */
Test(verify, states_and_gradients_may_be_pending)
{
    static const char text[] = "mesh micro=2 time\nstore 0 : param f32[a=3] path=w "
                               "pattern=w\nstore 1 : grad f32[a=3] path=w pattern=w of=0\n"
                               "store 2 : state f32[a=3] path=s pattern=s\n"
                               "func e : entry { %x = input() : f32[b=4/micro, a=3] text=x %g = "
                               "reduce[b](%x) : f32[a=3]{sum micro}\n"
                               "  %h = add(%g, %g) : f32[a=3]{sum micro} return %g, %h }\n"
                               "entry grad : e { result store=1 accumulate result store=2 }\n";
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    DtModule *module = dt_irtext_read(arena, diags, text, sizeof text - 1);
    if (!module)
        dt_diag_print(diags, stderr, false);
    cr_assert(module);
    DtText problems = {0};
    module->entries.at[0].results.at[0].accumulate = false;
    cr_expect_not(dt_verify_module(module, &problems),
                  "a pending gradient is stored as if it were whole");
    dt_text_free(&problems);
    dt_arena_free(arena);
}

/* A function that streams, with its part, merge and finish functions. */
static const char stream[] =
    "func f : fn stream=t part=p merge=m finish=q given=(1) takes=(0) {\n"
    "  arg %x : f32[a=3, t=4]\n  arg %y : f32[a=3]\n"
    "  %s = reduce[t](%x) : f32[a=3]\n  %r = mul(%s, %y) : f32[a=3]\n  return %r\n}\n"
    "func p : fn {\n"
    "  arg %x : f32[a=3, t=4]\n  arg %y : f32[a=3]\n"
    "  %s = reduce[t](%x) : f32[a=3]\n  return %s\n}\n"
    "func m : fn {\n"
    "  arg %s : f32[a=3]\n  arg %z : f32[a=3]\n"
    "  %r = add(%s, %z) : f32[a=3]\n  return %r\n}\n"
    "func q : fn {\n"
    "  arg %s : f32[a=3]\n  arg %y : f32[a=3]\n"
    "  %r = mul(%s, %y) : f32[a=3]\n  return %r\n}\n";

/* Replaces the last `old` in the text. The verifier must report a problem that contains these
 * words; NULL: it must report none. */
static void check_change(const char *from, const char *old, const char *new, const char *words)
{
    DtArena *arena = dt_arena_new();
    const char *at = NULL;
    for (const char *next = from; (next = strstr(next, old)); next++)
        at = next;
    cr_assert_not_null(at);
    const char *text =
        dt_arena_printf(arena, "%.*s%s%s", (int)(at - from), from, new, at + strlen(old));
    DtModule *module = dt_irtext_parse(arena, dt_diag_new(arena), text, strlen(text));
    DtText problems = {0};
    cr_assert_not_null(module, "%s", text);
    const bool good = dt_verify_module(module, &problems);
    cr_expect_eq(good, words == NULL, "%s: %s", new, problems.at);
    cr_expect(!words || (problems.at && strstr(problems.at, words)), "%s: %s", new, problems.at);
    dt_text_free(&problems);
    dt_arena_free(arena);
}

static void check_stream(const char *old, const char *new, const char *words)
{
    check_change(stream, old, new, words);
}

/* A loop's body has a frame of its own; a function that is called once shares that of its caller.
 * Each value has 64 bytes. */
Test(verify, frames_have_room_for_what_is_in_use)
{
    static const char text[] =
        "mesh d=2\nfunc body : body frame=128 {\n  arg %i : i32[]\n  arg %x : f32[a=16]\n"
        "  %b1 = exp(%x) : f32[a=16] at(%b1=0)\n  %b2 = neg(%b1) : f32[a=16] at(%b2=64)\n  return "
        "%b2\n}\n"
        "func once : fn {\n  arg %x : f32[a=16]\n"
        "  %o1 = exp(%x) : f32[a=16] at(%o1=0)\n  %o2 = neg(%o1) : f32[a=16]\n  return %o2\n}\n"
        "func e : entry frame=320 {\n  %x = input() : f32[a=16] text=x\n  %q = input() : "
        "f32[b=2/d, a=16] text=q\n"
        "  %e1 = neg(%x) : f32[a=16] at(%e1=0)\n"
        "  %y = loop(%e1) : f32[a=16] func=body loop(label=h axis=layers count=3 carried=1) "
        "at(%y=64) base=128\n"
        "  %z = call(%y) : f32[a=16] func=once at(%z=128)\n  %p = reduce[b](%q) : f32[a=16]{sum d} "
        "at(%p=0)\n"
        "  %f = start all_reduce(%p) : f32[a=16] mesh={d}\n  %w = add(%y, %z) : f32[a=16] "
        "at(%w=192)\n"
        "  %g = done(%f) : f32[a=16] at(%g=256)\n  %h = add(%g, %w) : f32[a=16]\n  return %h\n}\n"
        "entry grad : e { result name=h }\n";
    check_change(text, "base=128", "base=128", NULL);
    check_change(text, "%b2=64", "%b2=0", "lies where");
    check_change(text, "%b2=64", "%b2=96", "lies at 96");
    check_change(text, "body frame=128", "body frame=64", "in a frame of 64 bytes");
    check_change(text, "base=128", "base=64", "`body` lies where `y` is in use");
    check_change(text, "base=128", "base=256", "in a frame of 320 bytes");
    check_change(text, "%o1=0", "%o1=64", "`o1` lies where `y` is in use");
    check_change(text, "%o1=0", "%o1=128", "`z` is in use");
    /* the sum still reads this memory */
    check_change(text, "%w=192", "%w=0", "`w` lies where `p` is in use");
    check_change(text, "%w=192", "%w=256", "in use");                     /* and writes to it */
    check_change(text, "entry frame=320", "entry", "a frame that it does not have");
}

/* Gradients that micro-batches accumulate on each rank, and the last one shards. */
Test(verify, late_sums_are_where_their_terms_are)
{
    static const char text[] =
        "mesh micro=2 time, d=2\nstore 0 : param f32[a=4] path=w pattern=w init=const(0, 0)\n"
        "store 1 : grad f32[b=4/d] path=w pattern=w init=const(0, 0) of=0 terms\n"
        "func e : entry {\n  %x = input() : f32[b=4, a=8/micro.d] text=x\n"
        "  %t = reduce[a](%x) : f32[b=4]{sum micro d}\n"
        "  %s = start late reduce_scatter(%t) : f32[b=4/d]{sum micro} mesh={d}\n"
        "  %g = done(%s) : f32[b=4/d]{sum micro}\n  return %g\n}\n"
        "entry grad : e { result store=1 accumulate }\n";
    check_change(text, "start late", "start late", NULL);
    check_change(text, " accumulate", "", "adds nothing up");
    check_change(text, " terms", "", "has no memory for");
    check_change(text, "grad f32[b=4/d]", "grad f32[b=4]", "has terms, and is no bucket");
    check_change(text, "grad f32[b=4/d] path=w pattern=w init=const(0, 0) of=0",
                 "state f32[b=4/d] path=w pattern=w", "has terms, and is no bucket");
}

/* Sums that are still in progress after their iteration, and arrive in the slot of their
 * operand. */
Test(verify, sums_in_slots_are_added_up)
{
    static const char text[] =
        "mesh micro=2 time, d=2\nstore 0 : param f32[h=3, b=16] path=w pattern=w.# loops=1 "
        "init=const(0, 0)\n"
        "store 1 : grad f32[h=3, b=16/d] path=w pattern=w.# loops=1 init=const(0, 0) of=0\n"
        "func l : body {\n  arg %i : i32[]\n  arg %x : f32[b=16, a=8/micro.d]\n"
        "  arg %r : u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, \"@slot\"=128]\n"
        "  %r1 = ringbuf_turn(%r) : u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, "
        "\"@slot\"=128]\n"
        "  %t = reduce[a](%x) : f32[b=16]{sum micro d}\n"
        "  %r2 = ringbuf_put(%r1, %t) : u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, "
        "\"@slot\"=128]\n"
        "  %q = ringbuf_get(%r2) : f32[b=16]{sum micro d}\n"
        "  %s = start reduce_scatter(%q) : f32[b=16/d]{sum micro} mesh={d}\n"
        "  %r3 = ringbuf_put(%r2, %s) : u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, "
        "\"@slot\"=128] "
        "number=64\n"
        "  return %x, %r3, %s\n}\n"
        "func e : entry {\n  %x = input() : f32[b=16, a=8/micro.d] text=x\n"
        "  %r = ringbuf() : u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, "
        "\"@slot\"=128]\n"
        "  %y, %z, %g = loop(%x, %r) : f32[b=16, a=8/micro.d], "
        "u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, \"@slot\"=128], f32[h=3, "
        "b=16/d]{sum micro} "
        "func=l loop(label=h axis=h count=3 carried=2 stacked_out=1)\n"
        "  %d = done(%g) : f32[h=3, b=16/d]{sum micro}\n  return %d\n}\n"
        "entry grad : e { result store=1 accumulate }\n";
    check_change(text, "done(%g)", "done(%g)", NULL);
    check_change(text, "  return %x, %r3, %s\n",
                 "  %r4 = ringbuf_put(%r3, %s) : "
                 "u8[\"@ringbuf\"=2, \"@on.micro\"=2/micro, \"@on.d\"=2/d, \"@slot\"=128]\n"
                 "  return %x, %r4, %s\n", "of what is in a slot already");
    check_change(text, " accumulate", "", "sum in slots that adds nothing up");
    check_change(text, "  return %d\n}\n",
                 "  %f = add(%d, %d) : f32[h=3, b=16/d]{sum micro}\n  return %f\n}\n",
                 "is not just a result of its entry");
}

Test(verify, what_a_stream_is_made_of_fits)
{
    static const char types[] = "parts or results of other types";
    check_stream("q : fn", "q : fn", NULL);
    check_stream("f32[a=3]\n  %r = add(%s, %z) : f32[a=3]",
                 "f32[b=3]\n  %r = add(%s, %z) : f32[a=3, b=3]", types);
    check_stream("%s : f32[a=3]\n  arg %y : f32[a=3]\n  %r = mul(%s, %y) : f32[a=3]",
                 "%s : bf16[a=3]\n  arg %y : bf16[a=3]\n  %r = mul(%s, %y) : bf16[a=3]", types);
    check_stream("[a=3, t=4]\n  arg %y : f32[a=3]\n  %s", "[a=3, t=2]\n  arg %y : f32[a=3]\n  %s",
                 types);
    check_stream("  %r = mul(%s, %y) : f32[a=3]\n  return %r\n}\n",
                 "  %r = mul(%s, %y) : f32[a=3]\n  %t = reduce[a](%r) : f32[]\n  return %t\n}\n",
                 types);
    check_stream("given=(1)", "given=(2)", "does not fit it");
    check_stream("takes=(0)", "takes=(1)", "does not fit it");
}

Test(verify, a_stream_does_not_lead_back)
{
    check_stream("  %s = reduce[t](%x) : f32[a=3]\n  return %s\n",
                 "  %s = call(%x, %y) : f32[a=3] func=f\n  return %s\n", "calls itself");
    check_stream("  %r = mul(%s, %y) : f32[a=3]\n  return",
                 "  %r = call(%s, %y) : f32[a=3] func=q\n  return", "calls itself");
}
