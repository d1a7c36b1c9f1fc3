/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: which functions can be one. The form that is looked for is that of the library's
 * `attend` as it is written, and of what differentiation makes of it; nothing here knows its ops by
 * position. */
#include "passes/ring_internal.h"

#include "base/intern.h"

#include <string.h>

enum { MOST_OPS = 256 }; /* of a mask that is made anew for every block */

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

/* left: ops that may still be looked at. */
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

/* Whether op sums, or takes the largest, over t. */
static bool reduces(const DtOp *op, const char *t)
{
    for (uint32_t i = 0; (op->kind == DT_OP_REDUCE || op->kind == DT_OP_DOT) && i < op->n_axes; i++)
        if (op->axes[i] == t)
            return true;
    return false;
}

/* By value id: what depends on `from`. */
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

/* Whether a value that has t, or another reduction over t, depends on the reduction. */
static bool is_inner(const DtRingForm *f, const DtValue *reduction, DtArena *arena)
{
    const bool *depends = dependents(f->func, reduction, arena);
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        if (depends[op->out[0]->id] && has(op->out[0], f->t))
            return true;
    }
    return false;
}

/* ---- degrees ---- */

static DtRingDegree degree_of_operand(const DtRingForm *f, const DtOp *op, uint32_t i)
{
    return f->degree[op->in[i]->id];
}

/* All alike, zeros aside. */
static DtRingDegree alike(const DtRingForm *f, const DtOp *op, uint32_t from)
{
    DtRingDegree all = {.known = true, .zero = true};
    for (uint32_t i = from; i < op->n_in; i++) {
        DtRingDegree d = degree_of_operand(f, op, i);
        if (!d.known)
            return d;
        if (d.zero)
            continue;
        if (!all.zero && (d.e != all.e || d.s != all.s))
            return (DtRingDegree){.known = false};
        all = d;
    }
    return all;
}

static bool is_plain(DtRingDegree d) { return d.known && d.e == 0 && d.s == 0; }

static DtRingDegree degree_of(const DtRingForm *f, const DtOp *op)
{
    const DtRingDegree none = {.known = false}, plain = {.known = true};
    DtRingDegree x = op->n_in ? degree_of_operand(f, op, 0) : plain;
    DtRingDegree y = op->n_in > 1 ? degree_of_operand(f, op, 1) : plain;
    switch (op->kind) {
    case DT_OP_CONST: return (DtRingDegree){.known = true, .zero = op->number == 0};
    case DT_OP_NEG:
    case DT_OP_CAST:
    case DT_OP_STOP:
    case DT_OP_EXPAND: return x;
    case DT_OP_RELABEL: return x;
    case DT_OP_ADD:
    case DT_OP_SUB: return alike(f, op, 0);
    case DT_OP_WHERE: return is_plain(x) ? alike(f, op, 1) : none;
    case DT_OP_MUL:
    case DT_OP_DOT:
        return x.known && y.known ? (DtRingDegree){true, x.zero || y.zero, (int8_t)(x.e + y.e),
                                                   (int8_t)(x.s + y.s)}
                                  : none;
    case DT_OP_DIV:
        return x.known && y.known
                   ? (DtRingDegree){true, x.zero, (int8_t)(x.e - y.e), (int8_t)(x.s - y.s)}
                   : none;
    case DT_OP_REDUCE:
        if (op->reduce == DT_REDUCE_SUM)
            return x;
        break;
    default: break;
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!is_plain(degree_of_operand(f, op, i)))
            return none;
    return plain;
}

/* exp(x - f(most)), x without the maximum. */
static bool is_exponential(const DtRingForm *f, const DtOp *op, const bool *after_most)
{
    const DtOp *sub = op->kind == DT_OP_EXP ? op->in[0]->op : NULL;
    return sub && sub->kind == DT_OP_SUB && !after_most[sub->in[0]->id] &&
           after_most[sub->in[1]->id] && !has(sub->in[1], f->t) &&
           (!f->shift || f->shift == sub->in[1]);
}

/* ---- the form ---- */

static bool refuse(DtRingForm *f, const char *reason)
{
    f->reason = reason;
    return false;
}

/* Whether value follows from root and constants alone, by elementwise ops. */
static bool follows(const DtValue *value, const DtValue *root)
{
    if (value == root)
        return true;
    if (!value->op ||
        (value->op->kind != DT_OP_CONST && dt_op_info[value->op->kind].op_class != DT_CLASS_MAP))
        return false;
    for (uint32_t i = 0; i < value->op->n_in; i++)
        if (!follows(value->op->in[i], root))
            return false;
    return true;
}

static bool is_supported(DtRingForm *f, const DtOp *op)
{
    bool known =
        dt_op_is_pointwise(op->kind) || op->kind == DT_OP_CONST || op->kind == DT_OP_DOT || op->kind == DT_OP_REDUCE ||
        (op->kind == DT_OP_RELABEL && op->n_relabels == 0) ||
        (op->kind == DT_OP_IOTA && op->axes[0] != f->t && !op->out[0]->type->axes[0].n_split);
    return known && op->n_out == 1;
}

/* Maximum, sum and their neighbours, with the degrees of all values. */
static bool find_softmax(DtRingForm *f, DtArena *arena)
{
    const DtFunc *func = f->func;
    const bool *after_most = dependents(func, NULL, arena);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        f->degree[func->inputs.at[i]->id].known = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const DtValue *value = op->out[0];
        if (!is_supported(f, op))
            return refuse(f, "it has an op that does not stream");
        f->degree[value->id] = degree_of(f, op);
        if (is_exponential(f, op, after_most)) {
            f->shift = op->in[0]->op->in[1];
            f->degree[value->id] = (DtRingDegree){.known = true, .e = 1};
        }
        DtRingDegree of = op->n_in ? degree_of_operand(f, op, 0) : (DtRingDegree){0};
        if (op->kind == DT_OP_REDUCE && reduces(op, f->t) && op->reduce != DT_REDUCE_SUM) {
            if (f->most || op->reduce != DT_REDUCE_MAX || op->n_axes != 1)
                return refuse(f, "it has another maximum over the keys than that of a softmax");
            f->most = value;
            after_most = dependents(func, value, arena);
            f->degree[value->id].known = false;
        } else if (op->kind == DT_OP_REDUCE && reduces(op, f->t) && !f->sum && of.known &&
                   of.e == 1 && of.s == 0 && op->n_axes == 1) {
            f->sum = value;
            f->degree[value->id].known = false;
        } else if (op->kind == DT_OP_DIV && f->sum && !f->scale && of.known && of.e == 1 &&
                   follows(op->in[1], f->sum)) {
            f->scale = op->in[1];
            f->degree[f->scale->id] = (DtRingDegree){.known = true, .s = 1};
            f->degree[value->id] = degree_of(f, op);
        }
    }
    return (f->most && f->sum && f->scale && f->shift && follows(f->shift, f->most)) ||
           refuse(f, "its softmax over the keys was not found");
}

static bool streams(const DtRingForm *f, const DtValue *row)
{
    DtRingDegree d = f->degree[row->id];
    for (uint32_t i = 0; i < f->most->type->rank; i++)
        if (!has(row, f->most->type->axes[i].name))
            return false;
    return d.known && d.e == 1;
}

static bool find_rows(DtRingForm *f, DtArena *arena)
{
    bool keyed = false;
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        const DtValue *value = op->out[0];
        if (!reduces(op, f->t) || value == f->most || value == f->sum)
            continue;
        const bool inner = is_inner(f, value, arena);
        if (inner ? f->n_rows == DT_COUNT(f->rows) : f->n_finals == DT_COUNT(f->finals))
            return refuse(f, "it reduces too often over the keys");
        if (inner)
            f->rows[f->n_rows++] = value;
        else
            f->finals[f->n_finals++] = value;
    }
    for (uint32_t i = 0; i < f->func->results.n; i++)
        keyed = keyed || has(f->func->results.at[i], f->t);
    for (uint32_t i = 0; i < f->n_rows; i++)
        for (uint32_t k = 0; k < f->n_rows; k++)
            if (i != k && dependents(f->func, f->rows[i], arena)[f->rows[k]->id])
                return refuse(f, "it reduces over the keys what depends on another reduction");
    f->once = f->n_rows == 0 && !keyed;
    const DtValue *const *streamed = f->once ? f->finals : f->rows;
    for (uint32_t i = 0; i < (f->once ? f->n_finals : f->n_rows); i++)
        if (!streams(f, streamed[i]))
            return refuse(f, "what it reduces over the keys is not linear in the softmax");
    return true;
}

/* ---- without a softmax ---- */

static bool is_row(const DtRingForm *f, const DtValue *value)
{
    for (uint32_t i = 0; i < f->n_rows; i++)
        if (f->rows[i] == value)
            return true;
    return !value->op || value->op->kind == DT_OP_CONST || value->op->kind == DT_OP_IOTA ||
           has(value, f->t);
}

/* Sums over t that nothing with t reads, made of rows. */
static bool find_sums(DtRingForm *f, DtArena *arena)
{
    for (uint32_t i = 0; i < f->func->ops.n; i++) {
        const DtOp *op = f->func->ops.at[i];
        if (!is_supported(f, op))
            return refuse(f, "it has an op that does not stream");
        if (reduces(op, f->t)) {
            if ((op->kind == DT_OP_REDUCE && op->reduce != DT_REDUCE_SUM) ||
                is_inner(f, op->out[0], arena) || f->n_finals == DT_COUNT(f->finals))
                return false;
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
    return f->sums = f->n_finals > 0;
}

bool dt_ring_form(const DtFunc *func, const char *t, DtArena *arena, DtRingForm *ret_form)
{
    *ret_form = (DtRingForm){.func = func, .t = t};
    ret_form->degree = DT_NEW_ARRAY(arena, DtRingDegree, func->n_values + 1);
    if (find_softmax(ret_form, arena))
        return find_rows(ret_form, arena);
    DtRingForm sums = {.func = func, .t = t};
    if (ret_form->most || !find_sums(&sums, arena))
        return false;
    *ret_form = sums;
    return true;
}

/* ---- placements ---- */

bool dt_ring_is_major(const DtAxis *axis, uint16_t mesh)
{
    for (uint32_t s = 1; s < axis->n_split; s++)
        if ((mesh >> axis->split[s] & 1) && !(mesh >> axis->split[s - 1] & 1))
            return false;
    return true;
}

/* Whether values have room for the axes that ring_build.c gives them: one for the ranks, and one for
 * the blocks of what enters or leaves with all keys; parts: for the mesh axes one by one. */
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

const char *dt_ring_refuses(const DtFunc *func, const char *axis, const DtType *const *types,
                            uint16_t mesh, DtArena *arena)
{
    DtRingForm form;
    bool major = true;
    uint32_t parts = 0; /* beside the one that has_room counts */
    for (uint32_t i = 0; i < func->inputs.n; i++)
        for (uint32_t d = 0; d < types[i]->rank; d++)
            major = major && dt_ring_is_major(&types[i]->axes[d], mesh);
    for (uint32_t bits = mesh & (mesh - 1u); bits; bits &= bits - 1)
        parts++;
    if (func->inputs.n > DT_RING_INPUTS)
        return "it has too many arguments";
    if (!has_room(func, axis, major ? parts : parts + DT_MAX_SPLIT - 1))
        return "it has values of too many axes";
    return dt_ring_form(func, axis, arena, &form) ? NULL : form.reason;
}
