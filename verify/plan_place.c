/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and memory layouts of tensors. */
#include "verify/plan_internal.h"

#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

int64_t dt_certplan_local(const PlanWalk *walk, const CertType *type, uint32_t axis)
{
    return dt_cert_local(walk->program, &type->axes[axis]);
}

int64_t dt_certplan_size(const char *dtype)
{
    for (uint32_t d = 0; d < DT_PLAN_DTYPES; d++)
        if (strcmp(dt_kinds_name(d), dtype) == 0)
            return dt_kinds_size(d);
    return 1;
}

int64_t dt_certplan_pack(PlanPlace *place, uint32_t from, int64_t stride)
{
    for (uint32_t i = place->rank; i-- > from;) {
        place->stride[i] = stride;
        stride *= place->extent[i];
    }
    return stride;
}

void dt_certplan_put(PlanPlace *place, const PlanPlace *address)
{
    place->arena = address->arena;
    place->base = address->base;
    memcpy(place->reg, address->reg, sizeof address->reg);
    memcpy(place->coord, address->coord, sizeof address->coord);
}

void dt_certplan_take_axes(const PlanWalk *walk, const CertType *type, uint32_t from,
                           PlanPlace *place)
{
    place->rank = type->rank;
    for (uint32_t i = from; i < type->rank; i++) {
        place->axis[i] = type->axes[i].name;
        place->extent[i] = dt_certplan_local(walk, type, i);
    }
}

void dt_certplan_dense(const PlanWalk *walk, const CertType *type, PlanPlace *place)
{
    place->dtype = type->dtype;
    place->size = dt_certplan_size(type->dtype);
    dt_certplan_take_axes(walk, type, 0, place);
    place->bytes = dt_certplan_pack(place, 0, 1) * place->size;
}

void dt_certplan_raw(const PlanWalk *walk, const DtPlanArg *arg, PlanPlace *ret_place)
{
    *ret_place =
        (PlanPlace){.arena = arg->arena, .base = arg->base, .bytes = arg->bytes, .size = 1};
    memcpy(ret_place->reg, arg->reg, sizeof arg->reg);
    for (uint32_t c = 0; c < DT_PLAN_COORDS; c++) {
        uint32_t axis = arg->coord_axis[c];
        if (walk->plan->meta->pipeline && axis + 1 == walk->plan->meta->pipeline)
            ret_place->base += arg->coord[c] * walk->stage;
        else if (arg->coord[c] && walk->plan->mesh[axis].size > 1) /* else the coordinate is 0 */
            ret_place->coord[axis] += arg->coord[c];
    }
}

void dt_certplan_dealt(const PlanWalk *walk, uint32_t m, int64_t step, int64_t *reg, int64_t *coord)
{
    if (m < walk->first_device)
        reg[0] += step;
    else if (walk->plan->mesh[m - walk->first_device].size > 1)
        coord[m - walk->first_device] += step;
}

void dt_certplan_arg(const PlanWalk *walk, const DtPlanArg *arg, PlanPlace *ret_place)
{
    dt_certplan_raw(walk, arg, ret_place);
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        if (walk->count[r] == 0) {
            ret_place->base += ret_place->reg[r] * walk->reg[r];
            ret_place->reg[r] = 0;
        }
}

bool dt_certplan_spans(PlanPlace *place)
{
    int64_t span = 1;
    uint32_t order[CERT_RANK], n = 0;
    for (uint32_t d = 0; d < place->rank; d++) {
        uint32_t at = n;
        if (place->extent[d] == 1)
            continue;
        for (n++; at > 0 && place->stride[order[at - 1]] > place->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    bool apart = true;
    for (uint32_t i = 0; i < n; i++) {
        apart = apart && place->stride[order[i]] >= span;
        span += (place->extent[order[i]] - 1) * place->stride[order[i]];
    }
    place->bytes = span * place->size;
    return apart;
}

bool dt_certplan_same(const PlanPlace *a, const PlanPlace *b)
{
    return a->arena == b->arena && a->base == b->base && a->bytes == b->bytes &&
           memcmp(a->reg, b->reg, sizeof a->reg) == 0 &&
           memcmp(a->coord, b->coord, sizeof a->coord) == 0;
}

bool dt_certplan_alike(const PlanPlace *a, const PlanPlace *b)
{
    if (!dt_certplan_same(a, b) || a->rank != b->rank || a->dtype != b->dtype)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->axis[d] != b->axis[d] || a->extent[d] != b->extent[d] ||
            (a->extent[d] > 1 && a->stride[d] != b->stride[d]))
            return false;
    return true;
}

/* ---- overlaps ---- */

/* The least and the largest distance b - a over all registers and coordinates. */
static void distance(const PlanWalk *walk, const PlanPlace *a, const PlanPlace *b, int64_t *ret_lo,
                     int64_t *ret_hi)
{
    int64_t lo = b->base - a->base, hi = lo;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++) {
        int64_t most = (b->reg[r] - a->reg[r]) * (walk->count[r] > 0 ? walk->count[r] - 1 : 0);
        *(most < 0 ? &lo : &hi) += most;
    }
    for (uint32_t m = 0; m < walk->plan->n_mesh; m++) {
        int64_t most = (b->coord[m] - a->coord[m]) * (walk->plan->mesh[m].size - 1);
        *(most < 0 ? &lo : &hi) += most;
    }
    *ret_lo = lo;
    *ret_hi = hi;
}

/* Returns how many bytes the elements within one step of this stride span, from the first to the
 * end of the last one. */
static int64_t inner_span(const PlanPlace *p, int64_t stride)
{
    int64_t span = 1;
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->extent[d] > 1 && p->stride[d] * p->size < stride)
            span += (p->extent[d] - 1) * p->stride[d];
    return span * p->size;
}

/* Whether all axes with a larger stride step by multiples of this stride: the place consists of
 * rows that begin at such multiples. */
static bool in_rows(const PlanPlace *p, int64_t stride)
{
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->extent[d] > 1 && p->stride[d] * p->size > stride && p->stride[d] * p->size % stride)
            return false;
    return true;
}

/* Whether both places are in different columns of one matrix with rows of this stride. */
static bool side_by_side(const PlanPlace *a, const PlanPlace *b, int64_t d)
{
    for (uint32_t i = 0; i < a->rank; i++) {
        int64_t stride = a->stride[i] * a->size, r;
        if (a->extent[i] < 2 || stride == 0 || !in_rows(a, stride) || !in_rows(b, stride))
            continue;
        int64_t mine = inner_span(a, stride), theirs = b->rank ? inner_span(b, stride) : b->bytes;
        r = d % stride < 0 ? d % stride + stride : d % stride;
        if (r >= mine && r + theirs <= stride)
            return true;
    }
    return false;
}

bool dt_certplan_meets(const PlanWalk *walk, const PlanPlace *a, const PlanPlace *b)
{
    int64_t lo, hi;
    if (a->arena != b->arena)
        return false;
    distance(walk, a, b, &lo, &hi);
    if (lo >= a->bytes || hi + b->bytes <= 0)
        return false;
    return lo != hi || (!side_by_side(a, b, lo) && !side_by_side(b, a, -lo));
}

bool dt_certplan_contains(const PlanWalk *walk, const PlanPlace *outer, const PlanPlace *inner)
{
    int64_t lo, hi;
    distance(walk, outer, inner, &lo, &hi);
    return outer->arena == inner->arena && lo >= 0 && hi + inner->bytes <= outer->bytes;
}

/* ---- axes ---- */

int dt_certplan_axis(const PlanPlace *place, const char *axis)
{
    for (uint32_t d = 0; d < place->rank; d++)
        if (place->axis[d] == axis)
            return (int)d;
    return -1;
}

int64_t dt_certplan_stride(const PlanPlace *place, const char *axis)
{
    int d = dt_certplan_axis(place, axis);
    return d < 0 ? 0 : place->stride[d];
}

static int by_step(const void *a, const void *b)
{
    const PlanIndex *x = a, *y = b;
    for (int i = 2; i >= 0; i--)
        if (x->step[i] != y->step[i])
            return x->step[i] > y->step[i] ? -1 : 1;
    return 0;
}

uint32_t dt_certplan_runs(PlanIndex *at, uint32_t n)
{
    uint32_t used = 0;
    if (n)
        qsort(at, n, sizeof *at, by_step);
    for (uint32_t i = 0; i < n; i++) {
        PlanIndex next = at[i], *last = used ? &at[used - 1] : NULL;
        bool run = last != NULL;
        for (uint32_t k = 0; run && k < 3; k++)
            run = last->step[k] == next.step[k] * next.extent;
        if (run) {
            next.extent *= last->extent;
            *last = next;
        } else if (next.extent > 1) {
            at[used++] = next;
        }
    }
    return used;
}

/* Lists the indices along which three tensors are walked, each axis of any of them once; returns
 * their number. */
static uint32_t indices_of(const PlanPlace *const *places, PlanIndex *ret_at)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t d = 0; d < places[p]->rank; d++) {
            const char *axis = places[p]->axis[d];
            PlanIndex index = {.extent = places[p]->extent[d]};
            bool known = false;
            for (uint32_t q = 0; q < 3; q++) {
                known = known || (q < p && dt_certplan_axis(places[q], axis) >= 0);
                index.step[q] = dt_certplan_stride(places[q], axis);
            }
            if (!known)
                ret_at[n++] = index;
        }
    return dt_certplan_runs(ret_at, n);
}

static uint32_t described(const DtPlanGemm *g, PlanIndex *ret_at)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_batch; i++)
        ret_at[n++] = (PlanIndex){g->batch[i], {g->a_batch[i], g->b_batch[i], g->c_batch[i]}};
    ret_at[n++] = (PlanIndex){g->m, {g->a_row, 0, g->c_row}};
    ret_at[n++] = (PlanIndex){g->n, {0, g->b_col, g->c_col}};
    ret_at[n++] = (PlanIndex){g->k, {g->a_col, g->b_row, 0}};
    return dt_certplan_runs(ret_at, n);
}

bool dt_certplan_is_product(const DtPlanGemm *gemm, const PlanPlace *const *places)
{
    PlanIndex have[3 * CERT_RANK], want[3 * CERT_RANK];
    const uint32_t n = described(gemm, have);
    return n == indices_of(places, want) && memcmp(have, want, n * sizeof have[0]) == 0;
}
