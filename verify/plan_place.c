/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, how tensors lie, and where a value is: where an instruction left it, or where a view of an operand, a
 * slice of a stacked value or the parts of a bucket are. */
#include "verify/plan_internal.h"

#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16, MOST_NESTED = 4096 }; /* places of a value; what a value may be of in turn */

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

/* The axes from number `from` on are those of the type. */
static void take_axes(const PlanWalk *walk, const CertType *type, uint32_t from, PlanPlace *place)
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
    take_axes(walk, type, 0, place);
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
        else if (arg->coord[c])
            ret_place->coord[axis] += arg->coord[c];
    }
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

/* The least and largest b - a over all registers and coordinates. */
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

/* Bytes from the first to behind the last element within one step of this stride. */
static int64_t inner_span(const PlanPlace *p, int64_t stride)
{
    int64_t span = 1;
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->extent[d] > 1 && p->stride[d] * p->size < stride)
            span += (p->extent[d] - 1) * p->stride[d];
    return span * p->size;
}

/* Whether rows of this stride are at multiples of it. */
static bool in_rows(const PlanPlace *p, int64_t stride)
{
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->extent[d] > 1 && p->stride[d] * p->size > stride && p->stride[d] * p->size % stride)
            return false;
    return true;
}

/* Whether both are rows of one matrix, at a constant distance, in different columns. */
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

/* ---- views ---- */

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

/* The tensor's axes in the order of its type, with these strides. */
static bool order_as(const PlanWalk *walk, const CertType *type, PlanPlace *place)
{
    PlanPlace old = *place;
    place->rank = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        int d = dt_certplan_axis(&old, type->axes[i].name);
        if (d < 0 || old.extent[d] != dt_certplan_local(walk, type, i))
            return false;
        place->axis[i] = old.axis[d];
        place->extent[i] = old.extent[d];
        place->stride[i] = old.stride[d];
    }
    dt_certplan_spans(place);
    return true;
}

static void add_axis(PlanPlace *place, const char *axis, int64_t extent, int64_t stride)
{
    place->axis[place->rank] = axis;
    place->extent[place->rank] = extent;
    place->stride[place->rank++] = stride;
}

static bool drop_axis(PlanPlace *place, int d)
{
    if (d < 0)
        return false;
    place->rank--;
    for (uint32_t i = (uint32_t)d; i < place->rank; i++) {
        place->axis[i] = place->axis[i + 1];
        place->extent[i] = place->extent[i + 1];
        place->stride[i] = place->stride[i + 1];
    }
    return true;
}

/* Digits of a row-major number over `from` become digits over `to`, if that number counts even steps. */
static bool relabel(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    const CertType *type = op->types[0];
    (void)x;
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const CertRelabel *entry = &op->relabels[e];
        int64_t stride = 1, below = 1;
        for (uint32_t i = entry->n_from; i-- > 0;) {
            int d = dt_certplan_axis(place, entry->from[i]);
            if (d < 0)
                return false;
            if (i == entry->n_from - 1)
                stride = place->stride[d];
            else if (place->extent[d] > 1 && place->stride[d] != stride * below)
                return false;
            below *= place->extent[d];
        }
        for (uint32_t i = 0; i < entry->n_from; i++)
            drop_axis(place, dt_certplan_axis(place, entry->from[i]));
        for (uint32_t i = entry->n_to; i-- > 0;) {
            const CertAxis *axis = dt_certtext_axis(type, entry->to[i]);
            if (!axis || place->rank == CERT_RANK)
                return false;
            int64_t extent = dt_certplan_local(walk, type, (uint32_t)(axis - type->axes));
            add_axis(place, axis->name, extent, stride);
            stride *= extent;
        }
    }
    return order_as(walk, type, place);
}

static bool slice(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    (void)x;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        int d = dt_certplan_axis(place, op->axes[i]);
        if (d < 0 || i >= op->n_ranges)
            return false;
        place->base += op->ranges[i].lo * place->stride[d] * place->size;
        place->stride[d] *= op->ranges[i].step;
        place->extent[d] = op->ranges[i].n;
    }
    return order_as(walk, op->types[0], place);
}

/* A rank's (and micro-batch's) part of each axis that the op splits. */
static bool shard(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    const CertType *y = op->types[0];
    for (uint32_t i = 0; i < y->rank; i++) {
        int d = dt_certplan_axis(place, y->axes[i].name);
        const CertAxis *before = dt_certtext_axis(x, y->axes[i].name);
        if (d < 0 || !before || (y->axes[i].zigzag && y->axes[i].n != before->n))
            return false;
        for (uint32_t s = before->n; s < y->axes[i].n; s++) {
            uint32_t m = y->axes[i].split[s];
            place->extent[d] /= walk->program->size[m];
            int64_t bytes = place->extent[d] * place->stride[d] * place->size;
            if (m >= walk->first_device)
                place->coord[m - walk->first_device] += bytes;
            else if (walk->count[0])
                place->reg[0] += bytes;
            else
                place->base += bytes * walk->reg[0];
        }
    }
    return order_as(walk, y, place);
}

static bool expand(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    const CertType *type = op->types[0];
    (void)x;
    for (uint32_t i = 0; i < type->rank; i++)
        if (dt_certplan_axis(place, type->axes[i].name) < 0)
            add_axis(place, type->axes[i].name, dt_certplan_local(walk, type, i), 0);
    return order_as(walk, type, place);
}

/* The tensor from an element of a bucket on; the first kept axes are the bucket's. */
static void part_of(const PlanWalk *walk, const CertType *type, uint32_t kept, int64_t offset,
                    PlanPlace *place)
{
    int64_t stride = place->stride[place->rank - 1];
    place->base += offset * stride * place->size;
    take_axes(walk, type, kept, place);
    dt_certplan_pack(place, kept, stride);
    dt_certplan_spans(place);
}

static bool unpack(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    (void)x;
    part_of(walk, op->types[0], op->n_axes, (int64_t)op->number, place);
    return true;
}

static bool stop(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place)
{
    (void)walk, (void)op, (void)x, (void)place;
    return true;
}

/* ---- where values are ---- */

/* How the result of an op lies in the memory of its operand, of type x; false: it does not. */
typedef bool View(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place);

/* ret_moves: it may begin elsewhere than its operand. */
static View *view_of(const CertOp *op, bool *ret_moves)
{
    static const struct {
        const char *kind;
        View *view;
        bool moves;
    } views[] = {{"relabel", relabel, false}, {"expand", expand, false}, {"slice", slice, true},
                 {"stop", stop, false},       {"shard", shard, true},    {"unpack", unpack, true}};
    for (size_t i = 0; i < DT_COUNT(views); i++)
        if (strcmp(op->kind, views[i].kind) == 0) {
            *ret_moves = views[i].moves;
            return views[i].view;
        }
    return NULL;
}

bool dt_certplan_is_view(const CertOp *op)
{
    bool moves;
    return view_of(op, &moves) != NULL;
}

/* Behind its parts a bucket is zero: zeroed here, or a store's, which are zero where nothing is packed. */
static bool has_rest(PlanWalk *walk, const PlanPlace *bucket, int64_t used)
{
    PlanPlace rest = *bucket;
    uint32_t flat = rest.rank - 1;
    if (used == rest.extent[flat])
        return true;
    rest.base += used * rest.stride[flat] * rest.size;
    rest.extent[flat] -= used;
    dt_certplan_spans(&rest);
    for (uint32_t i = 0; i < walk->n_kept; i++)
        if (dt_certplan_contains(walk, &walk->kept[i]->place, bucket))
            return true;
    return dt_certplan_is_zero(walk, &rest, walk->depth, false);
}

/* A place more, not filled in. */
static PlanFound *another(PlanWalk *walk, PlanFinds *found)
{
    if (found->n == found->cap) {
        PlanFound *more = DT_NEW_ARRAY(walk->scratch, PlanFound, 2 * (size_t)found->cap);
        memcpy(more, found->at, found->n * sizeof *more);
        found->at = more;
        found->cap *= 2;
    }
    return &found->at[found->n++];
}

/* A bucket is where its parts are, if all of them are in one. */
static void find_pack(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, const PlanPlace *at,
                      PlanFinds *found)
{
    PlanFinds first, part;
    dt_certplan_find(walk, frame, op->in[0], at, &first);
    for (uint32_t i = 0; i < first.n; i++) {
        PlanFound bucket = first.at[i];
        int64_t offset = 0;
        bool all = true;
        dt_certplan_dense(walk, op->types[0], &bucket.place);
        for (uint32_t k = 0; k < op->n_axes && k < first.at[i].place.rank; k++)
            bucket.place.stride[k] = first.at[i].place.stride[k];
        dt_certplan_spans(&bucket.place);
        for (uint32_t k = 0; all && k < op->n_in; k++) {
            const CertType *type = dt_certplan_type(frame, op->in[k]);
            PlanPlace want = bucket.place;
            part_of(walk, type, op->n_axes, offset, &want);
            want.dtype = type->dtype;
            dt_certplan_find(walk, frame, op->in[k], &want, &part);
            offset += type->rank == op->n_axes ? 1 : want.stride[op->n_axes] * want.extent[op->n_axes];
            all = false;
            for (uint32_t f = 0; !all && f < part.n; f++)
                all = part.at[f].added == bucket.added && dt_certplan_alike(&part.at[f].place, &want);
            if (all)
                dt_certplan_log(walk, part.at[0].stamp);
        }
        if (all && has_rest(walk, &bucket.place, offset))
            *another(walk, found) = bucket;
    }
}

/* Whether all parts of a concat lie in `whole`, each behind the one before it along the axis. */
static bool has_parts(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, uint32_t axis, const PlanPlace *whole)
{
    PlanFinds part;
    int64_t before = 0;
    for (uint32_t k = 0; k < op->n_in; k++) {
        PlanPlace want = *whole, own;
        bool is_there = false;
        dt_certplan_dense(walk, dt_certplan_type(frame, op->in[k]), &own);
        want.base += before * want.stride[axis] * want.size;
        want.extent[axis] = own.extent[axis];
        before += own.extent[axis];
        dt_certplan_spans(&want);
        dt_certplan_find(walk, frame, op->in[k], &want, &part);
        for (uint32_t i = 0; !is_there && i < part.n; i++) {
            is_there = !part.at[i].added && !part.at[i].summed && dt_certplan_alike(&part.at[i].place, &want);
            if (is_there)
                dt_certplan_log(walk, part.at[i].stamp);
        }
        if (!is_there)
            return false;
    }
    return before == whole->extent[axis];
}

/* Joined values are one. Of a first part of one element, the second says the stride of the axis. */
static void find_concat(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, const PlanPlace *at, PlanFinds *found)
{
    PlanFinds first, second = {.n = 0};
    PlanPlace shape;
    dt_certplan_dense(walk, op->types[0], &shape);
    const int axis = dt_certplan_axis(&shape, op->axes[0]);
    dt_certplan_find(walk, frame, op->in[0], at, &first);
    if (axis < 0 || first.n == 0)
        return;
    for (uint32_t i = 0; i < first.n; i++) {
        PlanFound whole = first.at[i];
        if (whole.place.rank != shape.rank || whole.added || whole.summed)
            continue;
        const bool is_one = whole.place.extent[axis] == 1 && op->n_in > 1;
        const uint32_t n = is_one ? dt_certplan_find(walk, frame, op->in[1], NULL, &second) : 1;
        whole.place.extent[axis] = shape.extent[axis];
        for (uint32_t k = 0; k < n; k++) {
            const int64_t away = is_one ? second.at[k].place.base - whole.place.base : 0;
            if (is_one && (away <= 0 || away % whole.place.size))
                continue;
            if (is_one)
                whole.place.stride[axis] = away / whole.place.size;
            if (dt_certplan_spans(&whole.place) && has_parts(walk, frame, op, (uint32_t)axis, &whole.place))
                *another(walk, found) = whole;
        }
    }
}

static void find_source(PlanWalk *walk, const CertOp *op, PlanFinds *found)
{
    const PlanRegion *region = op->store >= 0 ? walk->of_store[op->store] : walk->inputs;
    for (; region; region = region->next) {
        if (!region->alive || (op->store < 0 && region->name != op->text))
            continue;
        PlanPlace place = region->place;
        dt_certplan_dense(walk, op->types[0], &place);
        if (place.bytes == region->place.bytes)
            *another(walk, found) = (PlanFound){.place = place, .stamp = region->stamp};
    }
}

static void find_all(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at, PlanFinds *found);

/* Only what lies there from number `from` on that has the loop's axis: its slice of an iteration. */
static void slice_of(const CertLoop *loop, int64_t number, uint32_t from, PlanFinds *found)
{
    uint32_t n = from;
    for (uint32_t i = from; i < found->n; i++) {
        PlanPlace *place = &found->at[i].place;
        int d = dt_certplan_axis(place, loop->axis);
        if (d < 0)
            continue;
        place->base += number * place->stride[d] * place->size;
        drop_axis(place, d);
        dt_certplan_spans(place);
        found->at[n++] = found->at[i];
    }
    found->n = n;
}

/* What an input of a body or of a called function is outside, or in the iteration before. */
static void find_input(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at, PlanFinds *found)
{
    if (frame->kind == PLAN_CALL) {
        find_all(walk, frame->outer, frame->op->in[value], at, found);
        return;
    }
    if (frame->kind == PLAN_ENTRY || value == 0)
        return;
    const CertLoop *loop = frame->op->loop;
    const uint32_t from = found->n;
    const bool carried = value < 1 + loop->carried, whole = value < 1 + loop->carried + loop->invariant;
    if (carried && frame->number != (loop->reverse ? loop->count - 1 : 0)) {
        if (frame->before)
            find_all(walk, frame->before, frame->func->results.at[value - 1], at, found);
        return;
    }
    find_all(walk, frame->outer, frame->op->in[value - 1], whole ? at : NULL, found);
    if (!whole)
        slice_of(loop, frame->number, from, found);
}

/* What a call or a loop makes is what its function, or the last iteration, does; what it stacks is put together at its
 * end. */
static void find_made(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, uint32_t number, const PlanPlace *at,
                      PlanFinds *found)
{
    const CertLoop *loop = op->loop;
    if (!op->func || (loop && number >= loop->carried))
        return;
    const PlanFrame *inner =
        dt_certplan_has_frame(walk, frame, op, !loop || loop->reverse ? 0 : loop->count - 1);
    if (inner)
        find_all(walk, inner, inner->func->results.at[number], at, found);
}

/* Where the value lies without having been written as itself: where a store or the outer function has it, or in the
 * memory of what it is a view of. */
static void find_behind(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at, PlanFinds *found)
{
    const CertOp *op = frame->maker[value];
    bool moves;
    View *view = op ? view_of(op, &moves) : NULL;
    if (!op) {
        find_input(walk, frame, value, at, found);
    } else if (op->func) {
        find_made(walk, frame, op, value - op->first_out, at, found);
    } else if (strcmp(op->kind, "param") == 0 || strcmp(op->kind, "input") == 0) {
        find_source(walk, op, found);
    } else if (strcmp(op->kind, "pack") == 0) {
        find_pack(walk, frame, op, at, found);
    } else if (strcmp(op->kind, "concat") == 0) {
        find_concat(walk, frame, op, at, found);
    } else if (view) {
        uint32_t n = found->n, from = n;
        find_all(walk, frame, op->in[0], moves ? NULL : at, found);
        for (uint32_t i = from; i < found->n; i++)
            if (view(walk, op, dt_certplan_type(frame, op->in[0]), &found->at[i].place))
                found->at[n++] = found->at[i];
        found->n = n;
    }
}

static void add_region(PlanWalk *walk, const PlanRegion *region, const PlanPlace *at, PlanFinds *found)
{
    if (region->alive && (!at || (region->place.arena == at->arena && region->place.base == at->base)))
        *another(walk, found) =
            (PlanFound){region->place, region->kind == PLAN_ADDED, region->summed, region->stamp, region->arg};
}

/* A copy of a value leaves it where it was, too: each place counts until something else is written there. Where there
 * are many, memory says which of them begin at an address. */
static void find_all(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at, PlanFinds *found)
{
    frame = dt_certplan_home(walk, frame, value);
    if (walk->nested == MOST_NESTED)
        return;
    if (walk->trial && frame->outer && frame->outer->number == PLAN_ANY && frame->outer->kind == PLAN_ENTRY &&
        dt_certplan_is_ahead(frame->maker[value])) {
        PlanFound *guess = another(walk, found);
        *guess = (PlanFound){.added = false};
        dt_certplan_dense(walk, dt_certplan_type(frame, value), &guess->place);
        walk->trial_frame = (PlanFrame *)(uintptr_t)frame;
        walk->trial_value = value;
        return;
    }
    const PlanRegion *region = frame->regions[value];
    for (uint32_t n = 0; region && at && n < FEW; n++)
        region = region->next;
    const PlanList *near = region && at ? dt_certplan_near(walk, at) : NULL;
    for (uint32_t i = 0; near && i < near->n; i++)
        if (near->at[i]->of == &frame->regions[value])
            add_region(walk, near->at[i], at, found);
    for (region = near ? NULL : frame->regions[value]; region; region = region->next)
        add_region(walk, region, at, found);
    walk->nested++;
    find_behind(walk, frame, value, at, found);
    walk->nested--;
}

uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                          PlanFinds *ret_found)
{
    ret_found->n = 0;
    ret_found->cap = DT_COUNT(ret_found->few);
    ret_found->at = ret_found->few;
    find_all(walk, frame, value, at, ret_found);
    return ret_found->n;
}
