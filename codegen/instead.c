/* SPDX-License-Identifier: Apache-2.0 */
/* The second form of a product with an epilogue, for where the library has no such epilogue, or a
 * slow one: the product alone, and a kernel that does the rest (plan.h, INST):
 *
 *     gemm[bias_gelu_aux] A, B, C, v, m     =>     gemm A, B, C;  kernel C, v -> C, m
 *
 * The kernel reads the product's result where it writes its own. Where that memory still holds the
 * matrix that the epilogue reads, or where the result is narrower than the product, the product
 * goes to arena INSTEAD. */
#include "codegen/emit.h"

#include "plan/kinds.h"

/* The lengths of the streams of items, arguments and notes at one moment; setting them back removes
 * everything that was added since. */
typedef struct Mark {
    uint32_t items, args;
    size_t notes;
} Mark;

static const DtOutput *output_of(const DtJoin *j, const DtValue *value)
{
    for (uint32_t r = 0; r < j->op->n_out; r++)
        if (j->op->func->results.at[r] == value)
            return &j->outputs[r];
    return NULL;
}

/* Returns the place of a value that the fused op reads. NULL: there is no such value, or it is an
 * output. */
static const DtPlace *place_of(const DtJoin *j, const DtValue *value)
{
    return value && !output_of(j, value) ? &j->inner->places[value->id] : NULL;
}

/* Returns the place for the result of the product alone: that of its value if other ops read it;
 * else C's, or other memory with the layout of C. */
static DtPlace product_place(DtEmit *e, const DtJoin *j, const DtPlace *c)
{
    const DtPlace *vector = place_of(j, j->parts.vector), *matrix = place_of(j, j->parts.matrix);
    const DtDtype dtype = j->parts.dot->out[0]->type->dtype;
    const DtOutput *own = output_of(j, j->parts.dot->out[0]);
    DtPlace place = {.set = true, .view = c->view};
    if (own)
        return own->place;
    if (dtype == c->view.dtype && (!vector || dt_place_apart(vector, c)) &&
        (!matrix || dt_place_apart(matrix, c)))
        return *c;
    place.view.dtype = dtype;
    place.view.offset = 0;
    const int64_t bytes = dt_place_arg(e, &place, true).bytes, room = dt_place_aligned(bytes);
    const DtBuffer buffer = {.name = "product",
                             .bytes = bytes,
                             .fixed = true,
                             .arena = DT_ARENA_INSTEAD,
                             .first = UINT32_MAX};
    DT_PUSH(e->arena, e->buffers, buffer);
    place.view.buffer = e->buffers.n - 1;
    if (e->arena_bytes[DT_ARENA_INSTEAD] < room)
        e->arena_bytes[DT_ARENA_INSTEAD] = room;
    return place;
}

static void emit_product(DtEmit *e, const DtJoin *j, const DtEArg *args, const DtPlace *to)
{
    const DtOp *dot = j->parts.dot;
    const DtOutput *c = output_of(j, dot->out[0]);
    const DtEArg mine[] = {args[0], args[1], dt_place_arg(e, to, true)};
    dt_inst_add(e, DT_INST_GEMM, 0, DT_COUNT(mine), mine, dot);
    dt_note_do(e, &dot, 1);
    dt_note_read(e, dot->in[j->swapped]);
    dt_note_read(e, dot->in[!j->swapped]);
    dt_note_write(e, dot->out[0], to, c && c->accumulate ? DT_NOTE_ADDS : 0);
}

/* Emits all ops of the epilogue but the product as a kernel. */
static bool emit_kernel(DtEmit *e, const DtJoin *j)
{
    const DtFunc *func = j->op->func;
    const DtOp **ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n);
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, j->op->n_out);
    uint32_t n_ops = 0, n_outputs = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i] != j->parts.dot && !dt_op_is_inline(func->ops.at[i]->out[0]))
            ops[n_ops++] = func->ops.at[i];
    for (uint32_t r = 0; r < j->op->n_out; r++) {
        if (func->results.at[r] == j->parts.dot->out[0])
            continue;
        outputs[n_outputs] = j->outputs[r];
        outputs[n_outputs++].value = func->results.at[r];
    }
    return dt_launch_kernel(e, ops, n_ops, outputs, n_outputs);
}

static bool emit_form(DtEmit *e, const DtJoin *j, DtPlanGemm gemm, const DtEArg *args)
{
    const DtPlace to = product_place(e, j, &output_of(j, j->parts.result)->place);
    const DtTargetLimits *limits = &dt_target_limits[e->target->kind];
    const uint32_t first = e->items.n;
    if (!dt_target_multiplies(limits, (DtDtype)gemm.dtype_a, (DtDtype)gemm.dtype_b, to.view.dtype))
        return false;
    emit_product(e, j, args, &to);
    j->inner->places[j->parts.dot->out[0]->id] = to;
    if (!emit_kernel(e, j))
        return false;
    for (uint32_t i = first; i < e->items.n; i++)
        e->items.at[i].instead = true;
    /* The derivative's matrix is the product itself here, so its row stride becomes C's. */
    const bool is_kept = j->parts.matrix == j->parts.dot->out[0];
    gemm.c_row = is_kept ? gemm.matrix_row : gemm.c_row;
    gemm.epilogue = DT_PLAN_EPILOGUE_NONE;
    gemm.matrix_row = gemm.matrix_col = 0;
    gemm.dtype_c = to.view.dtype;
    e->items.at[first].inst.ref = dt_gemm_record(e, gemm);
    return true;
}

/* Does nothing where the epilogue adds a matrix, which a library's product does itself, or where
 * guards are in force: such a product has one form. */
void dt_instead_emit(DtEmit *e, const DtJoin *j, DtPlanGemm gemm, const DtEArg *args, size_t note)
{
    const Mark mark = {e->items.n, e->args.n, e->notes.len};
    if (gemm.epilogue == DT_PLAN_EPILOGUE_NONE || gemm.epilogue == DT_PLAN_EPILOGUE_ADD ||
        e->n_guards)
        return;
    if (emit_form(e, j, gemm, args)) {
        dt_note_forms(e, note, mark.notes);
        return;
    }
    e->items.n = mark.items;
    e->args.n = mark.args;
    e->notes.len = mark.notes;
}
