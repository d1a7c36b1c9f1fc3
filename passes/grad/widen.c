/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients are not rounded on their way to a wider dtype.
 *
 * Purpose: the gradient of a parameter that a layer reads in 16 bits is a product of that dtype,
 * which is cast to that of `grads`: it would be rounded, lie in memory until it is cast, and be
 * written again. A product accumulates in f32 anyway, so it can return the f32 sum; so can a sum
 * that was rounded:
 *
 *   %4 = dot[b](%x, %dy) : bf16[k, n]    =>    %4 = dot[b](%x, %dy) : f32[k, n]
 *   %5 = cast(%4) : f32[k, n]
 *
 * The same holds for a sum by index (the gradient of a table whose rows are looked up), which would
 * be rounded at each addition, and for sums of such values (a table that is both looked up and
 * multiplied).
 *
 * Through functions and loops: a result of a function can be wide if it is a product, a rounded
 * sum, a sum by index, a sum of these, or a wide result of a function that it calls; and if in
 * every caller only a cast, or a wide result, reads it. All results are candidates at first; those
 * that fail are removed until nothing changes. Only values that entries "grad" write to stores of
 * gradients are considered.
 *
 * Requires: entry "grad". Establishes: see above. Breaks: nothing; gradients lose a rounding
 * (docs/language.md, dtypes). */
#include "passes/passes.h"
#include "passes/place/ring.h"

typedef struct Widen {
    DtModule *module;
    bool **reached; /* by function, by result: whether it is a gradient */
    bool **result;  /* by function, by result: whether it has 16 bits and can be wide */
    bool changed;
} Widen;

static bool is_narrow(const DtType *type)
{
    return dt_dtype_is_float(type->dtype) && dt_dtype_size(type->dtype) < dt_dtype_size(DT_F32);
}

static bool widens(const DtOp *op)
{
    return op->kind == DT_OP_CAST && op->out[0]->type->dtype == DT_F32 &&
           is_narrow(op->in[0]->type);
}

/* Returns the flag for result `index` of the function that op calls, or of the loop's body; NULL if
 * op has no function, or carries the result to the next iteration. */
static bool *inner(const Widen *w, const DtOp *op, uint32_t index)
{
    if (op->kind != DT_OP_CALL && (op->kind != DT_OP_LOOP || index < op->loop->n_carried))
        return NULL;
    return &w->result[dt_graph_number(w->module, op->func)][index];
}

/* If the value, a gradient, is a result of a call or loop, marks that result in the called
 * function, and so on inside of that. Casts on the way are skipped. */
static void reach(Widen *w, const DtValue *value)
{
    while (value->op && value->op->kind == DT_OP_CAST)
        value = value->op->in[0];
    const DtOp *op = value->op;
    if (!op || !inner(w, op, value->index))
        return;
    const uint32_t f = dt_graph_number(w->module, op->func);
    if (w->reached[f][value->index])
        return;
    w->reached[f][value->index] = true;
    reach(w, op->func->results.at[value->index]);
}

/* ---- which results can be wide ---- */

/* Whether the value, which has 16 bits and a single reader, can be computed in f32 instead: by a
 * product, a sum, a scatter_add, a call, or by leaving out a cast. */
static bool can_be_wide(const Widen *w, const DtFunc *func, const DtValue *value)
{
    const DtOp *op = value->op;
    if (!op || !is_narrow(value->type) || dt_graph_reads(func, value) != 1)
        return false;
    const bool *result = inner(w, op, value->index);
    if (result)
        return *result;
    switch (op->kind) {
    case DT_OP_ADD: return can_be_wide(w, func, op->in[0]) && can_be_wide(w, func, op->in[1]);
    case DT_OP_CAST: return op->in[0]->type->dtype == DT_F32;
    case DT_OP_SCATTER_ADD: return op->n_axes2 > 0;
    default: return op->kind == DT_OP_DOT;
    }
}

/* Whether result `index` of op has no reader but a cast, or is itself a wide result of func. */
static bool is_cast_only(const Widen *w, uint32_t f, const DtOp *op, uint32_t index)
{
    const DtFunc *func = w->module->funcs.at[f];
    const DtValue *value = op->out[index];
    if (dt_graph_reads(func, value) > 1)
        return false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->in[k] == value)
                return widens(func->ops.at[i]);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return w->result[f][i];
    return true;
}

static void cross_out(Widen *w, bool *state)
{
    w->changed = w->changed || *state;
    *state = false;
}

static void look_at_all(Widen *w)
{
    for (w->changed = true; w->changed;) {
        w->changed = false;
        for (uint32_t f = 0; f < w->module->funcs.n; f++) {
            const DtFunc *func = w->module->funcs.at[f];
            for (uint32_t i = 0; i < func->results.n; i++)
                if (w->result[f][i] && !can_be_wide(w, func, func->results.at[i]))
                    cross_out(w, &w->result[f][i]);
            for (uint32_t i = 0; i < func->ops.n; i++)
                for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
                    bool *result = inner(w, func->ops.at[i], k);
                    if (result && *result && !is_cast_only(w, f, func->ops.at[i], k))
                        cross_out(w, result);
                }
        }
    }
}

/* Marks the values that entries "grad" write to stores of gradients, and the results of calls and
 * loops from which they come. */
static void reach_gradients(Widen *w)
{
    for (const DtEntryPoint *grad = NULL; (grad = dt_entry_next(w->module, DT_ENTRY_GRAD, grad));) {
        const uint32_t top = dt_graph_number(w->module, grad->func);
        for (uint32_t i = 0; i < grad->results.n; i++)
            if (grad->results.at[i].store && grad->results.at[i].store->kind == DT_STORE_GRAD) {
                w->reached[top][i] = true;
                reach(w, grad->func->results.at[i]);
            }
    }
}

/* ---- doing it ---- */

/* Returns the value in f32: an operand of a cast that rounded it, or the value itself with a new
 * dtype. Operands of sums are widened as well. */
static DtValue *wide(DtValue *value)
{
    DtOp *op = value->op;
    if (op->kind == DT_OP_CAST)
        return op->in[0];
    for (uint32_t i = 0; op->kind == DT_OP_ADD && i < op->n_in; i++)
        op->in[i] = wide(op->in[i]);
    value->type = dt_type_with_dtype(value->type, DT_F32);
    return value;
}

/* Whether the value is a result of func that was marked as a gradient (a caller passes it on, or an
 * entry writes it to a store). */
static bool is_gradient(const Widen *w, uint32_t f, const DtValue *value)
{
    const DtFunc *func = w->module->funcs.at[f];
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value && w->reached[f][i])
            return true;
    return false;
}

/* Removes casts to f32 of values that the function can compute in f32, and widens its marked
 * results. Returns whether anything changed. */
static bool widen_func(const Widen *w, uint32_t f)
{
    DtFunc *func = w->module->funcs.at[f];
    bool any = false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!widens(op) || !can_be_wide(w, func, op->in[0]) ||
            !(inner(w, op->in[0]->op, op->in[0]->index) || is_gradient(w, f, op->out[0])))
            continue;
        dt_graph_replace(func, op->out[0], wide(op->in[0]));
        any = true;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (w->result[f][i] && is_narrow(func->results.at[i]->type)) {
            func->results.at[i] = wide(func->results.at[i]);
            any = true;
        }
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) { /* results that no op reads */
            const bool *result = inner(w, func->ops.at[i], k);
            DtValue *value = func->ops.at[i]->out[k];
            if (result && *result)
                value->type = dt_type_with_dtype(value->type, DT_F32);
        }
    return any;
}

bool dt_pass_widen(DtModule *module, const DtPassContext *context)
{
    if (!dt_entry_next(module, DT_ENTRY_GRAD, NULL))
        return false;
    Widen w = {.module = module};
    w.reached = DT_NEW_ARRAY(module->arena, bool *, module->funcs.n + 1);
    w.result = DT_NEW_ARRAY(module->arena, bool *, module->funcs.n + 1);
    for (uint32_t f = 0; f < module->funcs.n; f++) {
        w.reached[f] = DT_NEW_ARRAY(module->arena, bool, module->funcs.at[f]->results.n + 1);
        w.result[f] = DT_NEW_ARRAY(module->arena, bool, module->funcs.at[f]->results.n + 1);
    }
    const bool *streams = dt_ring_functions(module);
    reach_gradients(&w);
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->results.n; i++)
            w.result[f][i] = module->funcs.at[f]->kind != DT_FUNC_ENTRY && w.reached[f][i] &&
                             is_narrow(module->funcs.at[f]->results.at[i]->type) &&
                             !dt_inline_keeps(context, module->funcs.at[f]) && !streams[f];
    look_at_all(&w);
    bool *any = DT_NEW_ARRAY(module->arena, bool, module->funcs.n + 1), changed = false;
    for (uint32_t f = 0; f < module->funcs.n; f++)
        changed = (any[f] = widen_func(&w, f)) || changed;
    for (uint32_t f = 0; f < module->funcs.n; f++)
        if (any[f]) {
            dt_graph_sweep(module->funcs.at[f]);
            dt_graph_renumber(module->funcs.at[f]);
        }
    return changed;
}
