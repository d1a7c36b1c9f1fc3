/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas of what is trained.
 *
 * Purpose: a line `local` or `gossip` lets ranks train parameters of their own. The serial program
 * says so by an axis that counts replicas, on parameters, states, and every value computed from
 * them or from samples; placement then splits that axis over ranks, as any other.
 *
 *   %w = param "w" : f32[embed, ffn]           %w = param "w" : f32["@replica"=2, embed, ffn]
 *   %x = input "x" : f32[batch=4, embed]   =>  %0 = input "x" : f32[batch=8, embed]
 *                                              %x = relabel(%0) : f32["@replica"=2, batch=4, embed]
 *   %l = call net(%x, %w) : f32[]              %1 = call net(%x, %w) : f32["@replica"=2]
 *   return %l                                  %l = div(reduce["@replica"](%1), 2)
 *
 * Every function that a replicated value reaches is copied once for each list of operand types.
 * Random draws get the axis, too. A value that follows from none of these (a mask of positions)
 * stays one for all replicas.
 *
 * The mean of parameters and states over replicas is a store AVERAGE, which evaluations and
 * predictions read. Micro-batches stay the first part of the batch: a micro-batch has an equal part
 * of each replica's samples.
 *
 * Requires: a verified serial module in which the axis of samples has the extent of one replica's
 * part; entry "loss". Establishes: see above. Breaks: nothing. */
#include "passes/replicas/replicas.h"

#include "base/intern.h"
#include "ir/map.h"

#include <string.h>

/* A function that was made for operands of these types. */
typedef struct Made {
    const DtFunc *from;
    const DtType *const *types;
    DtFunc *to;
} Made;

typedef struct Replicator {
    DtModule *module;
    DtArena *arena;
    const DtReplicas *replicas;
    DT_VEC(Made) made;
} Replicator;

static DtFunc *func_for(Replicator *r, DtFunc *func, const DtType *const *types,
                        const DtType *const *results);

/* ---- ops ---- */

static bool draws(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_RNG ||
            (func->ops.at[i]->func && draws(func->ops.at[i]->func)))
            return true;
    return false;
}

static const DtType **types_of(Replicator *r, uint32_t n, DtValue *const *in)
{
    const DtType **types = DT_NEW_ARRAY(r->arena, const DtType *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        types[i] = in[i]->type;
    return types;
}

/* A copy of the op that runs another function. */
static DtOp *copy_with(DtBuilder *b, const DtOp *op, DtFunc *func, DtValue *const *in)
{
    DtOp draft = *op;
    draft.func = func;
    return dt_graph_copy(b, &draft, in);
}

static const DtType *slice_of(const DtType *type)
{
    return dt_type_plain(type->dtype, type->rank - 1u, type->axes + 1);
}

/* Appends the loop with these operands. What it carries has the axis of replicas if the initial
 * value has it or the body's result does. */
static DtOp *copy_loop(Replicator *r, DtBuilder *b, const DtOp *op, DtValue **in)
{
    const DtLoop *loop = op->loop;
    const uint32_t n_whole = loop->n_carried + loop->n_invariant;
    const DtType **types = DT_NEW_ARRAY(r->arena, const DtType *, op->n_in + 2);
    const DtType **results = DT_NEW_ARRAY(r->arena, const DtType *, op->func->results.n + 1);
    for (uint32_t i = n_whole; i < op->n_in; i++)
        if (in[i]->type->axes[0].name != loop->axis)
            in[i] = dt_graph_reorder(
                b, in[i], dt_replicas_type(op->in[i]->type, 1, r->replicas->n));
    for (;;) {
        const uint32_t n_funcs = r->module->funcs.n, n_made = r->made.n;
        bool stable = true;
        types[0] = op->func->inputs.at[0]->type;
        for (uint32_t i = 0; i < op->n_in; i++)
            types[1 + i] = i < n_whole ? in[i]->type : slice_of(in[i]->type);
        DtFunc *body = func_for(r, op->func, types, NULL);
        for (uint32_t i = 0; i < loop->n_carried; i++)
            if (body->results.at[i]->type != in[i]->type) {
                in[i] = dt_graph_fit(b, in[i],
                                     dt_replicas_type(op->in[i]->type, 0, r->replicas->n));
                stable = stable && types[1 + i] == in[i]->type;
            }
        if (!stable) { /* the first attempt showed what is carried for each replica */
            r->module->funcs.n = n_funcs;
            r->made.n = n_made;
            continue;
        }
        for (uint32_t i = 0; i < loop->n_carried; i++)
            results[i] = in[i]->type;
        r->made.n = n_made;
        r->module->funcs.n = n_funcs;
        return copy_with(b, op, func_for(r, op->func, types, results), in);
    }
}

static DtOp *copy_op(Replicator *r, DtBuilder *b, const DtOp *op, DtValue **in)
{
    if (op->kind == DT_OP_LOOP)
        return copy_loop(r, b, op, in);
    if (op->kind == DT_OP_CALL)
        return copy_with(b, op, func_for(r, op->func, types_of(r, op->n_in, in), NULL), in);
    if (op->kind != DT_OP_RNG)
        return dt_replicas_copy(b, op, in);
    DtValue wished = *op->out[0], *out = &wished;
    wished.type = dt_replicas_type(wished.type, 0, r->replicas->n);
    DtOp draft = *op;
    draft.out = &out;
    return dt_graph_copy(b, &draft, in);
}

/* ---- functions ---- */

/* Copies the ops of a function; map: by value id, the operands' values. */
static void copy_ops(Replicator *r, DtBuilder *b, const DtFunc *func, DtValue **map)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->n_out && map[op->out[0]->id])
            continue; /* a source of an entry */
        DtValue **in = DT_NEW_ARRAY(r->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        b->span = op->span;
        b->path = op->path;
        DtOp *copy = copy_op(r, b, op, in);
        for (uint32_t k = 0; k < op->n_out; k++) {
            copy->out[k]->name = op->out[k]->name;
            map[op->out[k]->id] = copy->out[k];
        }
    }
}

/* How the copy streams. A call of the part that the function has is of the same copy. */
static const DtStream *copy_stream(Replicator *r, const DtFunc *func, DtFunc *copy)
{
    DtStream *stream = DT_NEW(r->arena, DtStream);
    *stream = *func->stream;
    if (stream->part)
        stream->part =
            func_for(r, stream->part, types_of(r, copy->inputs.n, copy->inputs.at), NULL);
    const uint32_t n = stream->part ? stream->part->results.n : 0;
    const DtType **types = DT_NEW_ARRAY(r->arena, const DtType *, 2 * n + copy->inputs.n + 1);
    const DtType **results = DT_NEW_ARRAY(r->arena, const DtType *, copy->results.n + 1);
    for (uint32_t i = 0; i < n; i++)
        types[i] = types[n + i] = stream->part->results.at[i]->type;
    if (stream->merge)
        stream->merge = func_for(r, stream->merge, types, types);
    for (uint32_t i = 0; i < stream->given.n; i++)
        types[n + i] = copy->inputs.at[stream->given.at[i]]->type;
    for (uint32_t i = 0; i < stream->takes.n; i++)
        if (stream->takes.at[i] >= 0)
            results[stream->takes.at[i]] = copy->results.at[i]->type;
    if (stream->finish)
        stream->finish = func_for(r, stream->finish, types, results);
    return stream;
}

/* The stated gradient of the copy. map: by value id of func, the copy's values. */
static const DtCustomGradient *copy_gradient(Replicator *r, const DtFunc *func, DtFunc *copy,
                                             DtValue *const *map)
{
    DtCustomGradient *gradient = DT_NEW(r->arena, DtCustomGradient);
    DtFunc *stated = func->gradient->func;
    const DtType **types = DT_NEW_ARRAY(r->arena, const DtType *, stated->inputs.n + 1);
    const DtType **results = DT_NEW_ARRAY(r->arena, const DtType *, stated->results.n + 1);
    uint32_t n = 0, n_results = 0;
    *gradient = (DtCustomGradient){.is_surrogate = func->gradient->is_surrogate};
    for (uint32_t i = 0; i < copy->n_returns; i++)
        if (dt_dtype_is_float(copy->results.at[i]->type->dtype))
            types[n++] = copy->results.at[i]->type;
    for (uint32_t i = 0; i < func->gradient->captured.n; i++) {
        DtValue *captured = map[func->gradient->captured.at[i]->id];
        DT_PUSH(r->arena, gradient->captured, captured);
        types[n++] = captured->type;
    }
    for (uint32_t i = 0; i < copy->inputs.n; i++)
        if (dt_dtype_is_float(copy->inputs.at[i]->type->dtype))
            results[n_results++] = copy->inputs.at[i]->type;
    gradient->func = func_for(r, stated, types, results);
    return gradient;
}

/* The type that the function's result i must have: that of `results`, or that of the state whose
 * next value it is; NULL: any. */
static const DtType *wanted(const DtFunc *func, uint32_t i, const DtType *const *types,
                            const DtType *const *results)
{
    if (results && results[i])
        return results[i];
    return i < func->n_returns ? NULL : types[func->n_args + func->writes.at[i - func->n_returns]];
}

static DtFunc *copy_func(Replicator *r, DtFunc *func, const DtType *const *types,
                         const DtType *const *results)
{
    dt_graph_renumber(func);
    DtFunc *copy = dt_graph_func(r->module, func->name, func->kind);
    DtBuilder b = {.func = copy};
    DtValue **map = DT_NEW_ARRAY(r->arena, DtValue *, func->n_values + 1);
    copy->library = func->library;
    copy->span = func->span;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        map[func->inputs.at[i]->id] =
            i < func->n_args ? dt_graph_arg_like(copy, types[i], func->inputs.at[i])
                             : dt_graph_param(copy, types[i], func->params.at[i - func->n_args]);
    copy_ops(r, &b, func, map);
    b.span = func->span;
    b.path = NULL;
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtType *want = wanted(func, i, types, results);
        DtValue *value = map[func->results.at[i]->id];
        dt_graph_return(copy, want ? dt_graph_fit(&b, value, want) : value);
    }
    copy->n_returns = func->n_returns;
    for (uint32_t i = 0; i < func->writes.n; i++)
        DT_PUSH(r->arena, copy->writes, func->writes.at[i]);
    dt_graph_renumber(copy);
    if (func->stream)
        copy->stream = copy_stream(r, func, copy);
    if (func->gradient)
        copy->gradient = copy_gradient(r, func, copy, map);
    return copy;
}

/* Returns the function for operands of these types, some of which have the axis of replicas;
 * results: the types that its results must have, NULL: any. */
static DtFunc *func_for(Replicator *r, DtFunc *func, const DtType *const *types,
                        const DtType *const *results)
{
    const uint32_t n = func->inputs.n;
    bool any = draws(func);
    for (uint32_t i = 0; i < n; i++)
        any = any || dt_replicas_has(types[i]);
    for (uint32_t i = 0; results && i < func->results.n; i++)
        any = any || (results[i] && results[i] != func->results.at[i]->type);
    if (!any)
        return func;
    for (uint32_t i = 0; !results && i < r->made.n; i++)
        if (r->made.at[i].from == func &&
            memcmp(r->made.at[i].types, types, n * sizeof *types) == 0)
            return r->made.at[i].to;
    const DtType **kept = DT_NEW_ARRAY(r->arena, const DtType *, n + 1);
    memcpy(kept, types, n * sizeof *types);
    DtFunc *copy = copy_func(r, func, kept, results);
    if (!results)
        DT_PUSH(r->arena, r->made, ((Made){func, kept, copy}));
    return copy;
}

/* ---- entries ---- */

/* Appends what reads the samples of all replicas, and gives each its own. */
static DtValue *read_samples(Replicator *r, DtBuilder *b, const DtOp *op)
{
    const DtType *own = op->out[0]->type;
    const DtType *type = dt_replicas_type(own, 0, r->replicas->n);
    const char *samples = own->axes[0].name, *axis = dt_intern(DT_REPLICA_AXIS);
    const int64_t n = r->replicas->n, batch = own->axes[0].extent, m = r->replicas->micro;
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, own->axes, own->rank * sizeof axes[0]);
    axes[0].extent *= n;
    DtValue *all = dt_graph_source(b, DT_OP_INPUT, dt_type_plain(own->dtype, own->rank, axes),
                                   op->text, NULL);
    all->name = op->out[0]->name;
    if (m == 1) {
        const DtRelabel cut = {.n_from = 1, .from = {samples}, .n_to = 2, .to = {axis, samples},
                               .to_extent = {n, batch}};
        return dt_graph_relabel(b, all, 1, &cut, type);
    }
    const char *step = dt_intern("@micro"), *each = dt_intern("@each");
    const DtRelabel cut = {.n_from = 1, .from = {samples}, .n_to = 3, .to = {step, axis, each},
                           .to_extent = {m, n, batch / m}},
                    join = {.n_from = 2, .from = {step, each}, .n_to = 1, .to = {samples},
                            .to_extent = {batch}};
    return dt_graph_relabel(b, dt_graph_relabel(b, all, 1, &cut, NULL), 1, &join, type);
}

/* The samples of all replicas in the order in which read_samples got them; a result that has no
 * axis of samples is the mean over replicas. */
static DtValue *join_samples(Replicator *r, DtBuilder *b, DtValue *x)
{
    const char *samples = r->replicas->samples, *axis = dt_intern(DT_REPLICA_AXIS);
    const char *step = dt_intern("@micro"), *each = dt_intern("@each");
    const int64_t n = r->replicas->n, m = r->replicas->micro;
    const int at = dt_type_find(x->type, samples);
    if (at < 0 || !dt_replicas_has(x->type))
        return dt_replicas_mean(b, x);
    const int64_t batch = x->type->axes[at].extent;
    const DtRelabel cut = {.n_from = 1, .from = {samples}, .n_to = 2, .to = {step, each},
                           .to_extent = {m, batch / m}},
                    join = {.n_from = 3, .from = {step, axis, each}, .n_to = 1, .to = {samples},
                            .to_extent = {n * batch}},
                    both = {.n_from = 2, .from = {axis, samples}, .n_to = 1, .to = {samples},
                            .to_extent = {n * batch}};
    return m == 1 ? dt_graph_relabel(b, x, 1, &both, NULL)
                  : dt_graph_relabel(b, dt_graph_relabel(b, x, 1, &cut, NULL), 1, &join, NULL);
}

/* Whether an entry that predicts reads the samples of a step; others have inputs of their own. */
static bool reads_samples(const DtEntryPoint *entry)
{
    bool reads = false;
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const DtOp *op = entry->func->ops.at[i];
        reads = reads || (op->kind == DT_OP_INPUT && op->text[0] != '@' &&
                          !dt_entry_input(entry->kind, op->text));
    }
    return reads;
}

/* Gives the entry's values the axis of replicas. Results that are shown are means over them. */
static void replicate_entry(Replicator *r, DtEntryPoint *entry)
{
    DtFunc *func = entry->func;
    dt_graph_renumber(func);
    DtFunc *copy = dt_graph_func(r->module, func->name, DT_FUNC_ENTRY);
    DtBuilder b = {.func = copy};
    DtValue **map = DT_NEW_ARRAY(r->arena, DtValue *, func->n_values + 1);
    copy->span = func->span;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        b.span = op->span;
        b.path = op->path;
        if (op->kind == DT_OP_PARAM) {
            map[op->out[0]->id] =
                dt_graph_source(&b, DT_OP_PARAM, op->store->type, op->text, op->store);
            map[op->out[0]->id]->name = op->out[0]->name;
        }
        if (op->kind == DT_OP_INPUT && op->text[0] != '@')
            map[op->out[0]->id] = read_samples(r, &b, op);
    }
    copy_ops(r, &b, func, map);
    b.span = func->span;
    b.path = NULL;
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        DtValue *value = map[func->results.at[i]->id];
        dt_graph_return(copy, store ? dt_graph_fit(&b, value, store->type)
                              : dt_entry_predicts(entry->kind) ? join_samples(r, &b, value)
                                                               : dt_replicas_mean(&b, value));
    }
    copy->n_returns = copy->results.n;
    dt_graph_renumber(copy);
    entry->func = copy;
}

/* ---- the order of functions ---- */

typedef struct Sorted {
    DT_VEC(DtFunc *) at;
    DtMap known;
} Sorted;

static void sort_in(DtFunc *func, Sorted *sorted)
{
    if (!func || dt_map_find_pointer(&sorted->known, func))
        return;
    dt_map_add_pointer(&sorted->known, func, func);
    for (uint32_t i = 0; i < func->ops.n; i++)
        sort_in(func->ops.at[i]->func, sorted);
    if (func->stream) {
        sort_in(func->stream->part, sorted);
        sort_in(func->stream->merge, sorted);
        sort_in(func->stream->finish, sorted);
    }
    if (func->gradient)
        sort_in(func->gradient->func, sorted);
    sort_in(func->meant, sorted);
    DT_PUSH(sorted->known.arena, sorted->at, func);
}

/* Keeps the functions that entries reach, callees before callers. */
static void sort_functions(Replicator *r)
{
    Sorted sorted = {.known.arena = r->arena};
    for (uint32_t i = 0; i < r->module->entries.n; i++)
        sort_in(r->module->entries.at[i].func, &sorted);
    r->module->funcs.at = sorted.at.at;
    r->module->funcs.n = sorted.at.n;
    r->module->funcs.cap = sorted.at.cap;
    for (uint32_t i = 0; i < r->module->entries.n; i++)
        r->module->entries.at[i].func->name = dt_intern(r->module->entries.at[i].name);
}

/* ---- the pass ---- */

static void replicate_stores(Replicator *r)
{
    const uint32_t n = r->module->stores.n;
    for (uint32_t i = 0; i < n; i++) {
        DtStore *store = r->module->stores.at[i];
        if (store->frozen || (store->kind != DT_STORE_PARAM && store->kind != DT_STORE_STATE))
            continue;
        dt_optimizer_beside(r->module, store, DT_STORE_AVERAGE, DT_F32);
        store->type = dt_replicas_stored(store, store->type, r->replicas->n);
    }
}

bool dt_pass_replicate(DtModule *module, const DtPassContext *context)
{
    Replicator r = {.module = module, .arena = module->arena,
                    .replicas = dt_replicas_of(context)};
    if (!r.replicas || !dt_entry_next(module, DT_ENTRY_LOSS, NULL))
        return false;
    replicate_stores(&r);
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].kind != DT_ENTRY_LOSS)
            dt_optimizer_read_averages(module, module->entries.at[i].func);
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (reads_samples(&module->entries.at[i]))
            replicate_entry(&r, &module->entries.at[i]);
    sort_functions(&r);
    return true;
}
