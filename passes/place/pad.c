/* SPDX-License-Identifier: Apache-2.0 */
/* Padding.
 *
 * Purpose: rounds the extents of the axes that a `shard` line with `(pad = n)` names up to a
 * multiple of n and of the line's ranks, and ensures that elements after the logical extent (the
 * padding) never change a result.
 *
 *   vocab = 50257, shard vocab on tensor (pad = 128):
 *   %m = reduce max[vocab](%x)   =>   %c = lt(iota[vocab=50304], 50257)
 *                                     %y = where(%c, %x, -inf) ; %m = reduce max[vocab](%y)
 *
 * Values whose axis has the logical extent get the physical one. An op that reduces, contracts,
 * gathers from or scatters along a padded axis reads the identity of its reduction in the padding,
 * which a `where` puts there. For other ops the padding may hold anything, even NaN. Parameters,
 * gradients, moments and states have zeros as padding, so ops that read a parameter outside of
 * loops need no `where`. An op without such a rule (it slices, renames, scans or windows the axis,
 * or is a library kernel) gets its operands without padding, and its result is padded again: this
 * is correct, but no rank has only a part of the axis there. Inputs and outputs of the program keep
 * their logical extents. For each value and identity there is one `where`.
 *
 * Requires: inlined entries, before anything is placed. Establishes: DtModule.padded, and types
 * with physical extents, also of stores. Breaks: nothing. */
#include "passes/passes.h"

#include <math.h>
#include <string.h>

/* A value of one function whose padding was replaced by the identity of a reduction (0 for a
 * sum). */
typedef struct Masked {
    const DtValue *of;
    uint64_t axes; /* bits: axes of its type whose padding is replaced */
    DtReduce fill;
    DtValue *value;
} Masked;

typedef struct Padder {
    DtModule *module;
    DtArena *arena;
    DT_VEC(DtFunc *) done;
} Padder;

typedef struct Scope {
    Padder *p;
    DtFunc *func;
    DtBuilder b;
    DT_VEC(Masked) masked;
    DtValue **now; /* by id of the old values: the value in the new function */
    bool *zero;    /* by id of the old values: the new value has zeros as padding */
    bool *positive; /* by id of the old values: the padding of the new value is above zero */
} Scope;

/* ---- extents ---- */

static const DtPadded *padding_of(const DtModule *module, const DtAxis *axis)
{
    for (uint32_t i = 0; i < module->padded.n; i++)
        if (module->padded.at[i].name == axis->name &&
            module->padded.at[i].physical == axis->extent)
            return &module->padded.at[i];
    return NULL;
}

static const DtType *physical(const DtModule *module, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) {
        axes[i] = type->axes[i];
        for (uint32_t k = 0; k < module->padded.n; k++)
            if (module->padded.at[k].name == axes[i].name &&
                module->padded.at[k].logical == axes[i].extent)
                axes[i].extent = module->padded.at[k].physical;
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

static uint64_t padded_axes(const DtModule *module, const DtType *type)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (padding_of(module, &type->axes[i]))
            bits |= 1ull << i;
    return bits;
}

static uint64_t bits_of(const DtType *type, const char *const *axes, uint32_t n)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < n; i++)
        if (dt_type_find(type, axes[i]) >= 0)
            bits |= 1ull << dt_type_find(type, axes[i]);
    return bits;
}

/* ---- masks and cuts ---- */

static DtValue *identity(DtBuilder *b, DtDtype dtype, DtReduce fill)
{
    double number = dt_dtype_is_float(dtype) ? INFINITY : 2147483647.0;
    if (fill == DT_REDUCE_SUM)
        return dt_graph_constant(b, dtype, 0);
    return dt_graph_constant(b, dtype,
                             fill == DT_REDUCE_MIN      ? number
                             : dt_dtype_is_float(dtype) ? -INFINITY
                                                        : -2147483648.0);
}

/* Returns a value equal to `value`, whose padding along these axes (bits) is the identity of the
 * reduction `fill`; made once for each. */
static DtValue *masked(Scope *s, DtValue *value, uint64_t axes, DtReduce fill)
{
    axes &= padded_axes(s->p->module, value->type);
    if (!axes)
        return value;
    for (uint32_t i = 0; i < s->masked.n; i++)
        if (s->masked.at[i].of == value && s->masked.at[i].axes == axes &&
            s->masked.at[i].fill == fill)
            return s->masked.at[i].value;
    DtBuilder *b = &s->b;
    const DtType *bools = dt_type_with_dtype(value->type, DT_BOOL);
    DtValue *condition = NULL;
    for (uint32_t i = 0; i < value->type->rank; i++) {
        if (!(axes >> i & 1))
            continue;
        const DtAxis *axis = &value->type->axes[i];
        DtValue *at = dt_graph_iota(b, *axis);
        DtValue *end =
            dt_graph_constant(b, DT_I32, (double)padding_of(s->p->module, axis)->logical);
        DtValue *in = dt_graph_expand(
            b, dt_graph_binary(b, DT_OP_LT, at, dt_graph_expand(b, end, at->type)), bools);
        condition = condition ? dt_graph_binary(b, DT_OP_AND, condition, in) : in;
    }
    DtValue *other = dt_graph_expand(b, identity(b, value->type->dtype, fill), value->type);
    DtValue *made = dt_graph_where(b, condition, value, other);
    DT_PUSH(s->p->arena, s->masked, ((Masked){value, axes, fill, made}));
    return made;
}

static DtValue *cut(Scope *s, DtValue *value)
{
    const DtType *type = value->type;
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtPadded *padded = padding_of(s->p->module, &type->axes[i]);
        if (padded)
            value = dt_graph_slice(&s->b, value, padded->name, 0, 1, padded->logical);
    }
    return value;
}

static DtValue *padded(Scope *s, DtValue *value)
{
    const DtType *type = value->type, *wish = physical(s->p->module, type);
    for (uint32_t i = 0; i < type->rank; i++)
        if (wish->axes[i].extent != type->axes[i].extent)
            value = dt_graph_pad(&s->b, value, type->axes[i].name, 0,
                                 wish->axes[i].extent - type->axes[i].extent, 1, 0);
    return value;
}

/* ---- rules ---- */

static bool names_padded(const DtModule *module, const DtType *type, const char *const *axes,
                         uint32_t n)
{
    return (padded_axes(module, type) & bits_of(type, axes, n)) != 0;
}

static bool relabels_padded(const DtModule *module, const DtOp *op, const DtType *in,
                            const DtType *out)
{
    for (uint32_t i = 0; i < op->n_relabels; i++)
        if (names_padded(module, in, op->relabels[i].from, op->relabels[i].n_from) ||
            names_padded(module, out, op->relabels[i].to, op->relabels[i].n_to))
            return true;
    return false;
}

/* Whether the op computes the same on physical extents (with padding), given operands as operand()
 * returns them. */
static bool has_rule(const Scope *s, const DtOp *op)
{
    const DtModule *module = s->p->module;
    const DtType *out = op->n_out ? physical(module, op->out[0]->type) : NULL;
    const DtType *in = op->n_in ? s->now[op->in[0]->id]->type : NULL;
    switch (op->kind) {
    case DT_OP_INPUT:
    case DT_OP_CALL: return false;
    case DT_OP_FLOORDIV:
    case DT_OP_MOD: return dt_dtype_is_float(out->dtype); /* integer division by padding could be a
                                                           * division by 0 */
    case DT_OP_RELABEL: return !relabels_padded(module, op, in, out);
    case DT_OP_SLICE:
    case DT_OP_PAD:
    case DT_OP_CONCAT:
    case DT_OP_WINDOW:
    case DT_OP_FOLD:
    case DT_OP_SCAN:
    case DT_OP_TOPK:
        return !names_padded(module, in, op->axes, op->n_axes) &&
               !names_padded(module, out, op->axes, op->n_axes);
    default: return true;
    }
}

/* Returns operand k of op with physical extents. If op sums or reduces over padding of the operand,
 * or looks up in it, that padding is the identity of its reduction. */
static DtValue *operand(Scope *s, const DtOp *op, uint32_t k)
{
    DtValue *value = s->now[op->in[k]->id];
    const bool zero = s->zero[op->in[k]->id];
    uint64_t axes = 0;
    DtReduce fill = DT_REDUCE_SUM;
    if (op->kind == DT_OP_DOT || op->kind == DT_OP_REDUCE || (op->kind == DT_OP_GATHER && k == 0))
        axes = bits_of(value->type, op->axes, op->n_axes);
    if (op->kind == DT_OP_SCATTER_ADD && k == 0)
        axes = bits_of(value->type, op->axes2, op->n_axes2);
    if (op->kind == DT_OP_REDUCE)
        fill = op->reduce;
    return zero && fill == DT_REDUCE_SUM ? value : masked(s, value, axes, fill);
}

/* Whether operand k is zero wherever the result has padding. An operand that lacks the padded axis
 * is repeated along it, so it is not zero there; scalar factors do not matter. */
static bool is_zero_operand(const Scope *s, const DtOp *op, uint32_t k, const DtType *out)
{
    const DtValue *value = s->now[op->in[k]->id];
    if (!s->zero[op->in[k]->id])
        return false;
    if (dt_op_info[op->kind].op_class != DT_CLASS_MAP)
        return true;
    if (value->type->rank == 0 && op->kind == DT_OP_MUL)
        return true;
    if (value->op && value->op->kind == DT_OP_CONST && value->op->number == 0)
        return true;
    for (uint32_t i = 0; i < out->rank; i++)
        if (padding_of(s->p->module, &out->axes[i]) &&
            dt_type_find(value->type, out->axes[i].name) < 0)
            return false;
    return true;
}

/* Whether the op adds a constant above zero to a value whose padding is zero. */
static bool is_positive(const Scope *s, const DtOp *op)
{
    for (uint32_t k = 0; op->kind == DT_OP_ADD && k < 2; k++) {
        const DtOp *number = op->in[k]->op;
        if (number && number->kind == DT_OP_CONST && number->number > 0 &&
            is_zero_operand(s, op, 1 - k, op->out[0]->type))
            return true;
    }
    return false;
}

static bool is_zero(const Scope *s, const DtOp *op, const DtValue *out)
{
    if (op->kind == DT_OP_PARAM || !padded_axes(s->p->module, out->type))
        return true;
    if (op->kind == DT_OP_DIV)
        return is_zero_operand(s, op, 0, out->type) && s->positive[op->in[1]->id];
    bool zero = dt_op_keeps_zero(op);
    /* from operand 1 on: the branches */
    for (uint32_t k = op->kind == DT_OP_WHERE; k < op->n_in; k++)
        zero = zero && is_zero_operand(s, op, k, out->type);
    return zero;
}

/* ---- functions ---- */

static void pad_func(Padder *p, DtFunc *func);

static void pad_op(Scope *s, DtOp *op)
{
    Padder *p = s->p;
    s->b.span = op->span;
    s->b.path = op->path;
    const bool rule = has_rule(s, op);
    if (op->kind == DT_OP_LOOP)
        pad_func(p, op->func);
    DtValue **in = DT_NEW_ARRAY(p->arena, DtValue *, op->n_in + 1);
    for (uint32_t k = 0; k < op->n_in; k++)
        in[k] = rule ? operand(s, op, k) : cut(s, s->now[op->in[k]->id]);
    bool zero[DT_MAX_RANK] = {false};
    for (uint32_t k = 0; k < op->n_out; k++) {
        if (rule)
            op->out[k]->type = physical(p->module, op->out[k]->type);
        if (k < DT_MAX_RANK)
            zero[k] = !rule || is_zero(s, op, op->out[k]);
    }
    if (op->n_out)
        s->positive[op->out[0]->id] = is_positive(s, op);
    if (op->n_in)
        memcpy(op->in, in, op->n_in * sizeof *in);
    DT_PUSH(p->arena, s->func->ops, op);
    for (uint32_t k = 0; k < op->n_out; k++) {
        const uint32_t id = op->out[k]->id;
        s->now[id] = rule ? op->out[k] : padded(s, op->out[k]);
        s->zero[id] = k < DT_MAX_RANK && zero[k];
    }
}

static Scope open_scope(Padder *p, DtFunc *func)
{
    dt_graph_renumber(func);
    Scope s = {.p = p, .func = func, .b = {.func = func}};
    s.now = DT_NEW_ARRAY(p->arena, DtValue *, func->n_values + 1);
    s.zero = DT_NEW_ARRAY(p->arena, bool, func->n_values + 1);
    s.positive = DT_NEW_ARRAY(p->arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        DtValue *input = func->inputs.at[i];
        input->type = physical(p->module, input->type);
        s.now[input->id] = input;
        s.zero[input->id] = !padded_axes(p->module, input->type);
    }
    return s;
}

/* Replaces the function's results by padded ones. Results of an entry lose their padding unless
 * they go to a store; in stores padding is zero. */
static void pad_results(Scope *s, const DtEntryPoint *entry)
{
    for (uint32_t i = 0; i < s->func->results.n; i++) {
        const uint32_t id = s->func->results.at[i]->id;
        DtValue *value = s->now[id];
        if (value->op) {
            s->b.span = value->op->span;
            s->b.path = value->op->path;
        }
        if (entry && !entry->results.at[i].store)
            value = cut(s, value);
        else if (entry && !s->zero[id])
            value = masked(s, value, ~0ull, DT_REDUCE_SUM);
        s->func->results.at[i] = value;
    }
}

static void pad_ops(Padder *p, DtFunc *func, const DtEntryPoint *entry)
{
    Scope s = open_scope(p, func);
    DtOp **ops = func->ops.at;
    const uint32_t n = func->ops.n;
    func->ops.at = NULL;
    func->ops.n = func->ops.cap = 0;
    for (uint32_t i = 0; i < n; i++)
        pad_op(&s, ops[i]);
    pad_results(&s, entry);
    dt_graph_sweep(func);
    dt_graph_renumber(func);
}

/* Pads a function, unless it was padded already: several loops may run one body. */
static void pad_func(Padder *p, DtFunc *func)
{
    for (uint32_t i = 0; i < p->done.n; i++)
        if (p->done.at[i] == func)
            return;
    DT_PUSH(p->arena, p->done, func);
    pad_ops(p, func, NULL);
}

/* ---- the lines ---- */

/* Whether some value has an axis of that name and extent. */
static bool occurs(const DtModule *module, const char *name, int64_t extent)
{
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtFunc *func = module->funcs.at[i];
        for (uint32_t k = 0; k < func->ops.n; k++)
            for (uint32_t r = 0; r < func->ops.at[k]->n_out; r++)
                if (dt_type_extent(func->ops.at[k]->out[r]->type, name) == extent)
                    return true;
    }
    return false;
}

static bool refuse(DtModule *module, const DtShard *line, const char *axis, const char *why)
{
    DtDiag *diag = dt_diag_report(module->diags, E0592, line->span,
                                  "`pad` of `%s`, %s, is not implemented yet", axis, why);
    dt_diag_help(diag, "choose an extent that the ranks divide, or compile without the line");
    return false;
}

/* Returns the extent of the axis without padding: the largest that values have, which is that of
 * its dim. */
static int64_t extent_of(const DtModule *module, const char *name)
{
    int64_t extent = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        int64_t here = dt_type_extent(module->stores.at[i]->type, name);
        extent = here > extent ? here : extent;
    }
    for (uint32_t i = 0; i < module->funcs.n && !extent; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
            const DtOp *op = module->funcs.at[i]->ops.at[k];
            int64_t here = op->n_out ? dt_type_extent(op->out[0]->type, name) : -1;
            extent = here > extent ? here : extent;
        }
    return extent;
}

static bool add_axis(DtModule *module, const DtParallelConfig *c, const DtShard *line,
                     const char *axis)
{
    const int64_t unit = dt_config_pad_unit(c, axis), extent = extent_of(module, axis);
    if (extent <= 1 || extent % unit == 0)
        return true;
    if (c->micro > 1 && c->micro_axis == axis)
        return refuse(module, line, axis, "which micro-batches cut");
    if (unit > INT32_MAX || extent > INT32_MAX - unit) /* positions are i32 */
        return refuse(module, line, axis, "to more than 2147483647 elements");
    for (uint32_t i = 0; i < module->padded.n; i++)
        if (module->padded.at[i].name == axis)
            return true;
    DtPadded padded_axis = {axis, extent, (extent + unit - 1) / unit * unit};
    while (occurs(module, axis, padded_axis.physical))
        padded_axis.physical += unit;
    DT_PUSH(module->arena, module->padded, padded_axis);
    return true;
}

bool dt_pass_pad(DtModule *module, const DtPassContext *context)
{
    Padder p = {.module = module, .arena = module->arena};
    const DtParallelConfig *c = context ? context->parallel : NULL;
    for (uint32_t i = 0; c && i < c->shards.n; i++)
        for (uint32_t k = 0; c->shards.at[i].pad && k < c->shards.at[i].n_axes; k++)
            if (!add_axis(module, c, &c->shards.at[i], c->shards.at[i].axes[k])) {
                module->padded.n = 0; /* leaves the module as it was */
                return true;
            }
    if (!module->padded.n)
        return false;
    for (uint32_t i = 0; i < module->stores.n; i++)
        module->stores.at[i]->type = physical(module, module->stores.at[i]->type);
    for (uint32_t i = 0; i < module->entries.n; i++)
        pad_ops(&p, module->entries.at[i].func, &module->entries.at[i]);
    return true;
}
