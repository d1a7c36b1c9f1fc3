/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: decides which functions can be computed in a ring, from the clauses by which they say
 * how they stream (DtStream). */
#include "passes/place/ring_internal.h"

#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

enum { MOST_OPS = 256 }; /* of a mask that every block computes again */

DtOp *dt_ring_call(DtBuilder *b, DtFunc *func, const char *label, const char *axis, uint16_t mesh,
                   DtValue *const *in)
{
    const char *axes[] = {axis};
    DtOp draft = {.kind = DT_OP_CALL,
                  .func = func,
                  .text = label,
                  .n_in = func->inputs.n,
                  .n_axes = 1,
                  .axes = axes,
                  .mesh = mesh};
    return dt_graph_copy(b, &draft, in);
}

/* Whether the value is made of constants and positions by elementwise ops. left: how many ops the
 * search may still visit; false once there are none left. */
static bool is_positional(const DtValue *value, uint32_t *left)
{
    const DtOp *op = value->op;
    if (!op || *left == 0)
        return false;
    --*left;
    if (op->kind == DT_OP_CONST || op->kind == DT_OP_IOTA)
        return true;
    if (!dt_op_is_pointwise(op->kind))
        return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!is_positional(op->in[i], left))
            return false;
    return true;
}

bool dt_ring_is_positional(const DtValue *value)
{
    uint32_t left = MOST_OPS;
    return is_positional(value, &left);
}

/* ---- what depends on what ---- */

static bool has(const DtValue *value, const char *axis)
{
    return dt_type_find(value->type, axis) >= 0;
}

/* Whether op takes a sum or a maximum over t. */
static bool reduces(const DtOp *op, const char *t)
{
    for (uint32_t i = 0; (op->kind == DT_OP_REDUCE || op->kind == DT_OP_DOT) && i < op->n_axes; i++)
        if (op->axes[i] == t)
            return true;
    return false;
}

/* Returns, by value id, whether the value depends on `from`. */
static bool *dependents(const DtFunc *func, const DtValue *from, DtArena *arena)
{
    bool *depends = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    if (from)
        depends[from->id] = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            for (uint32_t r = 0; depends[op->in[k]->id] && r < op->n_out; r++)
                depends[op->out[r]->id] = true;
    }
    return depends;
}

/* Whether a value that has the keys' axis t depends on the reduction. */
static bool is_inner(const DtRingFacts *f, const DtValue *reduction, DtArena *arena)
{
    const bool *depends = dependents(f->func, reduction, arena);
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        if (depends[op->out[0]->id] && has(op->out[0], f->t))
            return true;
    }
    return false;
}

/* ---- all facts ---- */

static bool refuse(DtRingFacts *f, const char *reason)
{
    f->reason = reason;
    return false;
}

bool dt_ring_takes(const DtOp *op)
{
    return dt_op_is_pointwise(op->kind) || op->kind == DT_OP_CONST || op->kind == DT_OP_DOT ||
           op->kind == DT_OP_REDUCE || op->kind == DT_OP_RELABEL;
}

static bool is_supported(DtRingFacts *f, const DtOp *op)
{
    if (op->kind == DT_OP_IOTA)
        return op->axes[0] != f->t && !op->out[0]->type->axes[0].n_split;
    return dt_ring_takes(op) && !op->n_relabels;
}

/* ---- results that add up over blocks ---- */

static bool is_row(const DtRingFacts *f, const DtValue *value)
{
    for (uint32_t i = 0; i < f->n_rows; i++)
        if (f->rows[i] == value)
            return true;
    return !value->op || value->op->kind == DT_OP_CONST || value->op->kind == DT_OP_IOTA ||
           has(value, f->t);
}

/* Finds f->finals, the sums over t that the backward part returns, and f->rows, the values without
 * t that it reads with them. Refuses (returns false) other reductions over t, and sums that an op
 * with t reads. */
static bool find_sums(DtRingFacts *f, DtArena *arena)
{
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        if (!is_supported(f, op))
            return refuse(f, "it has an op that does not stream");
        if (reduces(op, f->t)) {
            if ((op->kind == DT_OP_REDUCE && op->reduce != DT_REDUCE_SUM) ||
                is_inner(f, op->out[0], arena) || f->n_finals == DT_COUNT(f->finals))
                return refuse(f, "its gradient does not only add up over the keys");
            f->finals[f->n_finals++] = op->out[0];
        }
        if (!has(op->out[0], f->t) && !reduces(op, f->t))
            continue;
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (is_row(f, op->in[k]))
                continue;
            if (f->n_rows == DT_COUNT(f->rows))
                return refuse(f, "it reads too many values without keys");
            f->rows[f->n_rows++] = op->in[k];
        }
    }
    return true;
}

/* Checks the function of a block's part: a ring can do all its ops, and it sums over no axis but t
 * that ranks split (by types, of its inputs; NULL: not known yet). False after a refusal. */
static bool is_part(DtRingFacts *f, const DtFunc *part, const DtType *const *types)
{
    if (part->results.n > DT_RING_PARTS)
        return refuse(f, "its parts are too many values");
    for (uint32_t i = 0; i < part->ops.n; i++) {
        const DtOp *op = part->ops.at[i];
        if (!is_supported(f, op))
            return refuse(f, "it has an op that does not stream");
        for (uint32_t k = 0; k < op->n_axes && op->kind != DT_OP_IOTA; k++)
            for (uint32_t j = 0; types && op->axes[k] != f->t && j < part->inputs.n; j++) {
                const int d = dt_type_find(types[j], op->axes[k]);
                if (d >= 0 && types[j]->axes[d].n_split)
                    return refuse(f, "it sums over another axis that ranks have parts of");
            }
    }
    return true;
}

static bool find_facts(const DtFunc *func, const char *t, const DtType *const *types,
                       DtArena *arena, DtRingFacts *f)
{
    *f = (DtRingFacts){.func = func, .t = t, .stream = func->stream};
    if (!f->stream)
        return refuse(f,
                      "it does not say how it streams: `stream`, and for its gradient `gradient`");
    if (f->stream->axis != t)
        return refuse(f, "it streams over another axis");
    if (f->stream->is_ordered)
        return refuse(f, "as a `scan` it merges blocks in their order, and in a ring each rank "
                         "begins with its own");
    if (func->results.n > DT_RING_RESULTS)
        return refuse(f, "it has too many results");
    return f->stream->part ? is_part(f, f->stream->part, types) : find_sums(f, arena);
}

bool dt_ring_facts(const DtFunc *func, const char *t, DtArena *arena, DtRingFacts *ret_facts)
{
    return find_facts(func, t, NULL, arena, ret_facts);
}

const bool *dt_ring_functions(const DtModule *module)
{
    bool *is = DT_NEW_ARRAY(module->arena, bool, module->funcs.n + 1);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtStream *stream = module->funcs.at[i]->stream;
        for (uint32_t k = 0; stream && stream->part && k < module->funcs.n; k++)
            is[k] = is[k] || module->funcs.at[k] == stream->part ||
                    module->funcs.at[k] == stream->merge || module->funcs.at[k] == stream->finish;
    }
    return is;
}

const DtStream *dt_ring_without_parts(DtArena *arena, const DtStream *stream)
{
    DtStream *made = DT_NEW(arena, DtStream);
    made->axis = stream->axis;
    return made;
}

/* ---- placements ---- */

bool dt_ring_is_major(const DtAxis *axis, uint16_t mesh)
{
    for (uint32_t s = 1; s < axis->n_split; s++)
        if ((mesh >> axis->split[s] & 1) && !(mesh >> axis->split[s - 1] & 1))
            return false;
    return true;
}

/* Whether types have room for the axes that ring_build.c adds: one for ranks, and one for blocks in
 * operands and results that have all keys. parts: axes for the mesh axes one by one. */
static bool has_room(const DtFunc *func, const char *t, uint32_t parts)
{
    bool room = true;
    for (uint32_t i = 0; i < func->ops.n; i++)
        room = room && func->ops.at[i]->out[0]->type->rank < DT_MAX_RANK;
    for (uint32_t i = 0; i < func->inputs.n + func->results.n; i++) {
        const DtValue *value = i < func->inputs.n ? func->inputs.at[i]
                                                  : func->results.at[i - func->inputs.n];
        room = room && value->type->rank + (has(value, t) ? 2u : 1u) + parts <= DT_MAX_RANK;
    }
    return room;
}

/* Returns the mesh axes that split a value of this unplaced type, if the axes of the same names in
 * func's inputs are split as in types. */
static uint16_t bits_of(const DtType *type, const DtFunc *func, const DtType *const *types)
{
    uint16_t bits = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        for (uint32_t i = 0; i < func->inputs.n; i++) {
            const int k = dt_type_find(types[i], type->axes[d].name);
            if (k >= 0)
                bits |= dt_shape_split_bits(&types[i]->axes[k]);
        }
    return bits;
}

const char *dt_ring_refuses(const DtFunc *func, const char *axis, const DtType *const *types,
                            uint16_t mesh, DtArena *arena)
{
    DtRingFacts facts;
    bool major = true;
    uint32_t parts = 0; /* in addition to the part that has_room counts */
    for (uint32_t i = 0; i < func->inputs.n; i++)
        for (uint32_t d = 0; d < types[i]->rank; d++)
            major = major && dt_ring_is_major(&types[i]->axes[d], mesh);
    for (uint32_t bits = mesh & (mesh - 1u); bits; bits &= bits - 1)
        parts++;
    if (func->inputs.n > DT_RING_INPUTS)
        return "it has too many arguments";
    if (!has_room(func, axis, major ? parts : parts + DT_MAX_SPLIT - 1))
        return "it has values of too many axes";
    if (!find_facts(func, axis, types, arena, &facts))
        return facts.reason;
    for (uint32_t i = 0; facts.stream->part && i < facts.stream->part->results.n; i++)
        if ((bits_of(facts.stream->part->results.at[i]->type, func, types) & mesh) != mesh)
            return "a part lacks the axis that the ranks share the results by";
    return NULL;
}
