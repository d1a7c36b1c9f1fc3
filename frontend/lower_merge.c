/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters can be added to the weights that they adapt. No line of the program declares it:
 * it follows from what the two functions compute in evaluation, where dropout is the identity.
 *
 *     instance    x w            perhaps plus parameters (a bias)
 *     adapter     y + c (x a) b
 *
 * If y is the instance's result for the same x, the adapter's result is that of the instance with
 * the weight w + c a b. The axes of w are those of x that products sum over, then those of the
 * result; a and b have the first and the second of these, and one axis more between them. So each
 * of the three is a matrix, row by row. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

/* Returns the value without ops that are the identity but for dtype and placement. */
static const DtValue *bare(const DtValue *value)
{
    while (value->op && (value->op->kind == DT_OP_CAST || value->op->kind == DT_OP_BIND))
        value = value->op->in[0];
    return value;
}

/* Returns the op that makes the value, if it is of the kind; else NULL. */
static const DtOp *made_by(const DtValue *value, DtOpKind kind)
{
    const DtOp *op = bare(value)->op;
    return op && op->kind == kind ? op : NULL;
}

/* Returns the function's parameter that the value is; NULL: it is none. */
static const DtFormalParam *param_of(const DtFunc *func, const DtValue *value)
{
    value = bare(value);
    if (value->op || value->index < func->n_args)
        return NULL;
    const DtFormalParam *param = &func->params.at[value->index - func->n_args];
    return param->is_state || param->n_loops ? NULL : param;
}

static bool is_arg(const DtFunc *func, const DtValue *value)
{
    value = bare(value);
    return !value->op && value->index < func->n_args;
}

/* Whether the op is the product of a tensor and a parameter, whose first axes are all those that
 * the product sums over; the others are no axes of the tensor. */
static bool is_product(const DtFunc *func, const DtOp *dot, const DtFormalParam **ret_param)
{
    const DtType *type = dot->in[1]->type, *of = dot->in[0]->type;
    *ret_param = param_of(func, dot->in[1]);
    if (!*ret_param || dot->n_axes > type->rank)
        return false;
    for (uint32_t a = 0; a < type->rank; a++) {
        bool summed = false, shared = false;
        for (uint32_t k = 0; k < dot->n_axes; k++)
            summed = summed || dot->axes[k] == type->axes[a].name;
        for (uint32_t k = 0; k < of->rank; k++)
            shared = shared || of->axes[k].name == type->axes[a].name;
        if (summed != (a < dot->n_axes) || shared != summed)
            return false;
    }
    return true;
}

/* ---- the two functions ---- */

/* Returns the product of an argument and the weight whose sum with parameters the function returns;
 * NULL: it returns something else. */
static const DtOp *product_of(const DtFunc *func, const DtFormalParam **ret_weight)
{
    const DtOp *dot, *sum;
    const DtValue *value = func->n_returns == 1 ? func->results.at[0] : NULL;
    while (value && (sum = made_by(value, DT_OP_ADD)) != NULL)
        value = param_of(func, sum->in[1])   ? sum->in[0]
                : param_of(func, sum->in[0]) ? sum->in[1]
                                             : NULL;
    dot = value ? made_by(value, DT_OP_DOT) : NULL;
    return dot && is_arg(func, dot->in[0]) && is_product(func, dot, ret_weight) ? dot : NULL;
}

/* Splits c z into its parts; c is 1 if the value is no such product. */
static const DtValue *without_factor(const DtValue *value, double *ret_factor)
{
    const DtOp *mul = made_by(value, DT_OP_MUL);
    *ret_factor = 1;
    for (uint32_t i = 0; mul && i < 2; i++) {
        const DtOp *number = made_by(mul->in[i], DT_OP_CONST);
        if (!number)
            continue;
        *ret_factor = number->number;
        return mul->in[1 - i];
    }
    return value;
}

/* Whether the function returns y + c (x a) b; returns the two products. */
static bool is_low_rank(const DtFunc *func, const DtOp *ret_products[2], double *ret_scale)
{
    const DtOp *sum = func->n_returns == 1 ? made_by(func->results.at[0], DT_OP_ADD) : NULL;
    if (!sum || func->n_args != 2)
        return false;
    const uint32_t y = bare(sum->in[0]) == func->inputs.at[1] ? 0 : 1;
    if (bare(sum->in[y]) != func->inputs.at[1])
        return false;
    ret_products[1] = made_by(without_factor(sum->in[1 - y], ret_scale), DT_OP_DOT);
    ret_products[0] = ret_products[1] ? made_by(ret_products[1]->in[0], DT_OP_DOT) : NULL;
    return ret_products[0] && bare(ret_products[0]->in[0]) == func->inputs.at[0];
}

/* Whether `n` axes of x from number `i` on are those of y from number `k` on. */
static bool same_axes(const DtType *x, uint32_t i, const DtType *y, uint32_t k, uint32_t n)
{
    bool same = i + n <= x->rank && k + n <= y->rank;
    for (uint32_t a = 0; same && a < n; a++)
        same = x->axes[i + a].name == y->axes[k + a].name &&
               x->axes[i + a].extent == y->axes[k + a].extent;
    return same;
}

/* Whether w, a, b are matrices of the same axes: w[from, to], a[from, r], b[r, to]. */
static bool are_matrices(const DtOp *base, const DtOp *const products[2])
{
    const DtType *w = base->in[1]->type, *a = products[0]->in[1]->type,
                 *b = products[1]->in[1]->type;
    const uint32_t n = base->n_axes;
    return n > 0 && n < w->rank && products[0]->n_axes == n && products[1]->n_axes == 1 &&
           a->rank == n + 1 && b->rank == w->rank - n + 1 && same_axes(w, 0, a, 0, n) &&
           same_axes(a, n, b, 0, 1) && same_axes(w, n, b, 1, w->rank - n);
}

/* Returns the function that the call which makes the value calls; NULL: no call makes it. */
static const DtFunc *callee(const DtVal *val)
{
    const DtOp *call = val->kind == DT_VAL_TENSOR ? val->tensor.value->op : NULL;
    return call && call->kind == DT_OP_CALL ? call->func : NULL;
}

void dt_merge_note(DtLower *l, DtMerge *merge, const DtVal *base, const DtVal *adapted)
{
    const DtFunc *plain = callee(base), *adapter = callee(adapted);
    const DtFormalParam *weight, *a, *b;
    const DtOp *products[2], *product;
    double scale;
    if (l->training)
        return;
    const bool was = merge->is_met;
    merge->is_met = true;
    if (!plain || !adapter || !(product = product_of(plain, &weight)) ||
        !is_low_rank(adapter, products, &scale) || !is_product(adapter, products[0], &a) ||
        !is_product(adapter, products[1], &b) || !are_matrices(product, products) ||
        (was && (merge->weight != dt_intern(weight->path) || merge->scale != scale))) {
        merge->weight = NULL;
        return;
    }
    merge->weight = dt_intern(weight->path);
    merge->a = dt_intern(a->path);
    merge->b = dt_intern(b->path);
    merge->scale = scale;
}

/* ---- after all entries ---- */

/* Returns the parameter `name` of the instance at the path. */
static const DtStore *find(const DtLower *l, const char *path, const char *name)
{
    const char *wanted = dt_intern_printf("%s.%s", path, name);
    for (uint32_t i = 0; i < l->module->stores.n; i++)
        if (!strcmp(l->module->stores.at[i]->pattern, wanted))
            return l->module->stores.at[i];
    return NULL;
}

void dt_merge_finish(DtLower *l)
{
    for (uint32_t i = 0; i < l->sites.n; i++) {
        const DtSite *site = &l->sites.at[i];
        bool good = site->merge && site->merge->weight, known = false;
        for (uint32_t k = 0; good && k < l->sites.n; k++) {
            const DtMerge *other = l->sites.at[k].merge;
            if (l->sites.at[k].called != site->called || !other || !other->is_met)
                continue;
            known = known || (k < i && other->weight);
            good = other->weight == site->merge->weight && other->scale == site->merge->scale;
        }
        if (!good || known)
            continue;
        const DtFunction *f = &site->adapter->function;
        const char *path = dt_intern_n(site->called, strcspn(site->called, ":"));
        const char *adapter =
            dt_intern_printf("%s.%s", path, f->label.text ? f->label.text : f->def->name.text);
        const DtAdapted adapted = {.weight = find(l, path, site->merge->weight),
                                   .a = find(l, adapter, site->merge->a),
                                   .b = find(l, adapter, site->merge->b),
                                   .scale = site->merge->scale};
        if (adapted.weight && adapted.a && adapted.b)
            DT_PUSH(l->arena, l->program->adapted, adapted);
    }
}
