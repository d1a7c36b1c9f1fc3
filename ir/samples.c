/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of an entry are sums of one term per sample. Numbers that are shown are expressions
 * of such sums (frontend/lower_shown.c), and the runtime adds sums up over batches and over the
 * samples behind the last whole batch (runtime/evaluate.c).
 *
 * The answer comes from placement: give each sample a rank of its own, and let the shape rules
 * (shape.c) derive the placement of each value. If the rules refuse an op, it needs several samples
 * at once (a maximum over the batch, a quotient of two sums, statistics over groups of samples),
 * and so do values computed from its results. If a value comes out as a pending sum, each rank
 * holds the term of its sample. A term that no sample changes (a penalty on the parameters) may
 * stand beside the sum. */
#include "ir/samples.h"
#include "ir/shape.h"

#include <string.h>

typedef struct Samples {
    DtArena *scratch;
    DtMesh mesh;                 /* one rank per sample */
    DT_VEC(const char *) axes;   /* names of axes that count samples */
    bool draws;                  /* random numbers were met */
} Samples;

/* Types by value, with samples split over the mesh of one rank per sample; NULL: the value needs
 * several samples at once. */

static const DtType *split_type(Samples *s, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    bool found = false;
    for (uint32_t i = 0; i < type->rank; i++) {
        axes[i] = type->axes[i];
        axes[i].n_split = 0;
        for (uint32_t k = 0; k < s->axes.n && !found; k++)
            if (axes[i].name == s->axes.at[k] && axes[i].extent % s->mesh.axes[0].size == 0) {
                axes[i].n_split = 1;
                axes[i].split[0] = 0;
                found = true;
            }
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* Records names of split axes, which count samples, in s->axes. */
static void learn(Samples *s, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        bool known = type->axes[i].n_split == 0;
        for (uint32_t k = 0; k < s->axes.n; k++)
            known |= s->axes.at[k] == type->axes[i].name;
        if (!known)
            DT_PUSH(s->scratch, s->axes, type->axes[i].name);
    }
}

static const DtType *with_partial(const DtType *type, uint16_t partial)
{
    return dt_type_make(type->dtype, type->rank, type->axes, partial, DT_REDUCE_SUM);
}

static bool is_whole(const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].n_split)
            return false;
    return !type->partial;
}

/* Changes an op that adds a whole term to a pending sum (x + sum is a constant plus a sum of terms)
 * so that the shape rules accept it. False: op is no such addition. */
static bool join_sum(DtOp *op)
{
    bool sum_like = op->kind == DT_OP_ADD || op->kind == DT_OP_SUB || op->kind == DT_OP_WHERE ||
                    op->kind == DT_OP_CONCAT;
    uint32_t first = op->kind == DT_OP_WHERE ? 1 : 0;
    bool joined = false;
    for (uint32_t i = first; sum_like && i < op->n_in; i++) {
        const DtType *type = op->in[i]->type;
        if (type->partial && type->pending == DT_REDUCE_SUM)
            continue;
        if (!is_whole(type))
            return false;
        op->in[i]->type = with_partial(type, 1);
        joined = true;
    }
    return joined;
}

static const DtType **type_func(Samples *s, const DtFunc *func, const DtType *const *inputs);

static void return_types(const DtFunc *func, const DtType *const *types, const DtType **ret_results)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = types[func->results.at[i]->id];
}

static const DtType *without_axis(const DtType *type, const char *axis)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name != axis)
            axes[n++] = type->axes[i];
    return dt_type_make(type->dtype, n, axes, type->partial, (DtReduce)type->pending);
}

static const DtType *with_axis(const DtType *type, const DtAxis *axis)
{
    DtAxis axes[DT_MAX_RANK];
    axes[0] = *axis;
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i + 1] = type->axes[i];
    return dt_type_make(type->dtype, type->rank + 1, axes, type->partial, (DtReduce)type->pending);
}

/* Derives the types of a loop's results, again until they are stable: a carried value has the same
 * type in all iterations, and one that becomes a partial sum inside (each rank has one term) is one
 * from the start. False: a result needs several samples at once, or there is no stable type. */
static bool type_loop(Samples *s, const DtOp *op, const DtType **out)
{
    const DtLoop *loop = op->loop;
    const DtType **in = DT_NEW_ARRAY(s->scratch, const DtType *, op->n_in + 1);
    const DtType **results = DT_NEW_ARRAY(s->scratch, const DtType *, op->n_out + 1);
    in[0] = op->func->inputs.at[0]->type;
    for (uint32_t i = 0; i < op->n_in; i++)
        in[1 + i] = i < loop->n_carried + loop->n_invariant
                        ? op->in[i]->type
                        : without_axis(op->in[i]->type, loop->axis);
    for (bool stable = false; !stable;) { /* ends, since sums only ever become pending */
        stable = true;
        return_types(op->func, type_func(s, op->func, in), results);
        for (uint32_t i = 0; i < op->n_out; i++)
            if (!results[i])
                return false;
        for (uint32_t i = 0; i < loop->n_carried; i++) {
            if (results[i] == in[1 + i])
                continue;
            if (!is_whole(in[1 + i]) || !results[i]->partial)
                return false;
            in[1 + i] = with_partial(in[1 + i], 1);
            stable = false;
        }
    }
    DtAxis axis = {.name = loop->axis, .extent = loop->count};
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = i < loop->n_carried ? results[i] : with_axis(results[i], &axis);
    return true;
}

/* Derives the types of op's results if its operands have the types that draft->in gives. False: the
 * shape rules refuse that. */
static bool type_op(Samples *s, DtOp *draft, const DtType **out)
{
    s->draws = s->draws || draft->kind == DT_OP_RNG;
    if (draft->kind == DT_OP_LOOP)
        return type_loop(s, draft, out);
    if (draft->kind == DT_OP_CALL) {
        const DtType **in = DT_NEW_ARRAY(s->scratch, const DtType *, draft->n_in + 1);
        for (uint32_t i = 0; i < draft->n_in; i++)
            in[i] = draft->in[i]->type;
        return_types(draft->func, type_func(s, draft->func, in), out);
        return true;
    }
    const DtType **wish = DT_NEW_ARRAY(s->scratch, const DtType *, draft->n_out + 1);
    for (uint32_t i = 0; i < draft->n_out; i++)
        wish[i] =
            draft->kind == DT_OP_PARAM ? draft->out[i]->type : split_type(s, draft->out[i]->type);
    return !dt_shape_derive(draft, &s->mesh, wish, out) ||
           (join_sum(draft) && !dt_shape_derive(draft, &s->mesh, wish, out));
}

/* Derives the types of the results of one op of func from those of its operands. */
static void type_one(Samples *s, const DtOp *op, const DtType **types)
{
    DtOp draft = *op;
    DtValue *in = DT_NEW_ARRAY(s->scratch, DtValue, op->n_in + 1);
    DtValue **pointers = DT_NEW_ARRAY(s->scratch, DtValue *, op->n_in + 1);
    const DtType **out = DT_NEW_ARRAY(s->scratch, const DtType *, op->n_out + 1);
    bool known = true;
    for (uint32_t k = 0; k < op->n_in; k++) {
        in[k] = *op->in[k];
        in[k].type = types[op->in[k]->id];
        pointers[k] = &in[k];
        known = known && in[k].type;
    }
    draft.in = pointers;
    known = known && type_op(s, &draft, out);
    for (uint32_t k = 0; k < op->n_out; k++) {
        types[op->out[k]->id] = known ? out[k] : NULL;
        if (known && out[k])
            learn(s, out[k]);
    }
}

static const DtType **type_func(Samples *s, const DtFunc *func, const DtType *const *inputs)
{
    const DtType **types = DT_NEW_ARRAY(s->scratch, const DtType *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        types[func->inputs.at[i]->id] = inputs[i];
    for (uint32_t i = 0; i < func->ops.n; i++)
        type_one(s, func->ops.at[i], types);
    return types;
}

/* Returns the axis that counts the samples of all inputs of data, which is their first axis; NULL
 * if they differ. */
static const DtAxis *sample_axis(const DtFunc *entry)
{
    const DtAxis *axis = NULL;
    for (uint32_t i = 0; i < entry->ops.n; i++) {
        const DtOp *op = entry->ops.at[i];
        if (op->kind != DT_OP_INPUT || op->text[0] == '@') /* a scalar of the step */
            continue;
        const DtType *type = op->out[0]->type;
        if (type->rank == 0 || (axis && !dt_type_same_axis(axis, &type->axes[0])))
            return NULL;
        axis = &type->axes[0];
    }
    return axis;
}

static DtSampled kind_of(const DtType *type)
{
    if (!type)
        return DT_SAMPLED_JOINT;
    return is_whole(type)                                      ? DT_SAMPLED_WHOLE
           : type->partial && type->pending == DT_REDUCE_SUM ? DT_SAMPLED_SUM
           : type->partial                                     ? DT_SAMPLED_JOINT
                                                               : DT_SAMPLED_EACH;
}

const uint8_t *dt_samples_of(const DtFunc *entry, DtArena *arena, bool *ret_draws)
{
    const DtAxis *axis = sample_axis(entry);
    uint8_t *kinds = DT_NEW_ARRAY(arena, uint8_t, entry->n_values + 1);
    *ret_draws = false;
    memset(kinds, DT_SAMPLED_JOINT, entry->n_values + 1);
    if (!axis)
        return kinds;
    Samples s = {.scratch = dt_arena_child(entry->module->arena),
                 .mesh = {.n = 1, .axes = {{.name = "samples", .size = axis->extent}}}};
    DT_PUSH(s.scratch, s.axes, axis->name);
    const DtType **types = type_func(&s, entry, NULL);
    for (uint32_t i = 0; i < entry->n_values; i++)
        kinds[i] = (uint8_t)kind_of(types[i]);
    *ret_draws = s.draws;
    dt_arena_free(s.scratch);
    return kinds;
}

bool dt_samples_add_up(const DtFunc *entry)
{
    bool draws, sums = entry->results.n > 0;
    const uint8_t *kinds = dt_samples_of(entry, entry->module->arena, &draws);
    for (uint32_t i = 0; sums && i < entry->results.n; i++)
        sums = kinds[entry->results.at[i]->id] <= DT_SAMPLED_SUM;
    return sums && !draws;
}
