/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: integers that functions compute, as linear functions of variables. A variable is a
 * position along an axis, a number of a range, the quotient or remainder of a linear function, or
 * an integer about which nothing is known (BoxMade). box_edge.c computes with them to find the
 * positions where functions change their formula. */
#include "verify/box_internal.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_VARS = 1 << 14 };

bool dt_boxlinear_is_thin(const BoxLens *lens)
{
    return lens->position && !lens->fixed && lens->unit > 2;
}

double dt_boxlinear_most(const BoxVars *vars, const BoxLinear *f)
{
    double most = fabs((double)f->plus);
    for (uint32_t i = 0; i < f->n; i++)
        most += vars->at[f->term[i].var]->most * fabs((double)f->term[i].by);
    return most;
}

uint32_t dt_boxlinear_new(BoxVars *vars, BoxVar var)
{
    BoxVar *made = DT_NEW(vars->b->scratch, BoxVar);
    if (vars->n == MOST_VARS) {
        dt_box_large(vars->b, NULL, "too many integers");
        return 0;
    }
    var.most = var.made == BOX_POSITION   ? (double)dt_boxsmall_lens(vars->b, var.axis)->longest
               : var.made == BOX_RANGE    ? fabs((double)var.lo) + (double)var.n
               : var.made == BOX_QUOTIENT ? dt_boxlinear_most(vars, &var.of) / (double)var.by + 1
               : var.made == BOX_REST     ? (double)var.by
                                          : 0;
    *made = var;
    DT_PUSH(vars->b->scratch, *vars, made);
    return vars->n - 1;
}

uint32_t dt_boxlinear_position(BoxVars *vars, const char *axis)
{
    BoxVar var = {.made = BOX_POSITION, .axis = axis};
    for (uint32_t i = 0; i < vars->n; i++)
        if (vars->at[i]->made == BOX_POSITION && vars->at[i]->axis == axis)
            return i;
    const BoxLens *lens = dt_boxsmall_lens(vars->b, axis);
    if (!lens)
        return dt_boxlinear_new(vars, (BoxVar){.made = BOX_ANYTHING});
    if (!dt_boxlinear_is_thin(lens)) {
        var = (BoxVar){.made = BOX_RANGE, .n = lens->longest};
    } else {
        var.lens[lens - vars->b->lenses] = true;
        var.axes = UINT64_C(1) << vars->n % 64;
    }
    return dt_boxlinear_new(vars, var);
}

void dt_boxlinear_depends(const BoxVars *vars, const BoxLinear *f, bool *lens)
{
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t k = 0; k < vars->b->n_lenses; k++)
            lens[k] = lens[k] || vars->at[f->term[i].var]->lens[k];
}

uint64_t dt_boxlinear_axes(const BoxVars *vars, const BoxLinear *f)
{
    uint64_t axes = 0;
    for (uint32_t i = 0; i < f->n; i++)
        axes |= vars->at[f->term[i].var]->axes;
    return axes;
}

bool dt_boxlinear_sum(const BoxLinear *x, const BoxLinear *y, int64_t by, BoxLinear *ret_sum)
{
    BoxLinear sum = *x;
    int64_t plus;
    bool fits = !__builtin_mul_overflow(y->plus, by, &plus) &&
                !__builtin_add_overflow(sum.plus, plus, &sum.plus);
    for (uint32_t i = 0; fits && i < y->n; i++) {
        uint32_t k = 0;
        int64_t term;
        while (k < sum.n && sum.term[k].var != y->term[i].var)
            k++;
        if (__builtin_mul_overflow(y->term[i].by, by, &term) || k == BOX_TERMS)
            return false;
        if (k == sum.n) {
            sum.term[k].var = y->term[i].var;
            sum.term[k].by = 0;
            sum.n++;
        }
        fits = !__builtin_add_overflow(sum.term[k].by, term, &sum.term[k].by);
        if (fits && sum.term[k].by == 0)
            sum.term[k] = sum.term[--sum.n];
    }
    *ret_sum = sum;
    return fits && llabs(sum.plus) < INT64_MAX / 4;
}

BoxLinear dt_boxlinear_without(const BoxLinear *f, uint32_t term)
{
    BoxLinear rest = *f;
    rest.term[term] = rest.term[--rest.n];
    return rest;
}

bool dt_boxlinear_range(const BoxVars *vars, const BoxLinear *f, int64_t *ret_lo, int64_t *ret_hi)
{
    *ret_lo = *ret_hi = f->plus;
    for (uint32_t i = 0; i < f->n; i++) {
        const BoxVar *var = vars->at[f->term[i].var];
        const int64_t by = f->term[i].by;
        if (var->made != BOX_RANGE || llabs(by) > INT32_MAX || llabs(var->lo) > INT32_MAX ||
            var->n > INT32_MAX)
            return false;
        const int64_t first = by * var->lo, last = by * (var->lo + var->n - 1);
        *ret_lo += first < last ? first : last;
        *ret_hi += first < last ? last : first;
    }
    return true;
}

int64_t dt_boxlinear_unit(const BoxVars *vars, const BoxLinear *f)
{
    bool lens[BOX_NAMES] = {0};
    int64_t unit = 0;
    uint32_t n = 0;
    dt_boxlinear_depends(vars, f, lens);
    for (uint32_t k = 0; k < vars->b->n_lenses; k++)
        if (lens[k] && n++ == 0)
            unit = vars->b->lenses[k].unit;
    return n == 1 ? unit : 0;
}

bool dt_boxlinear_is_of_blocks(const BoxVars *vars, const BoxLinear *f, int64_t m)
{
    const int64_t unit = dt_boxlinear_unit(vars, f);
    return unit && m % unit == 0;
}
