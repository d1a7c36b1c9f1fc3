/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the places of a value: where an instruction left it, or where a view of an operand, a
 * slice of a stacked value or the parts of a bucket are. */
#include "verify/plan_internal.h"

#include <string.h>

enum { FEW = 16, MOST_NESTED = 4096 }; /* the most places of a value; the depth of views of views */

/* ---- views ---- */

/* Reorders the place's axes into the order of the type, and keeps their strides. False: an axis is
 * missing. */
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

/* Changes the place of an operand into that of a relabel's result: the digits of a row-major number
 * over the `from` axes become digits over the `to` axes. False: steps of that number have no single
 * stride. */
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
            if (below == 1) /* no axis longer than 1 so far, so any stride is right */
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

/* Moves the place to the part that belongs to a rank (and micro-batch), along each axis that the
 * op's result splits further. */
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
            if (m < walk->first_device && !walk->count[0])
                place->base += bytes * walk->reg[0];
            else
                dt_certplan_dealt(walk, m, bytes, place->reg, place->coord);
        }
    }
    return order_as(walk, y, place);
}

bool dt_certplan_run(const PlanWalk *walk, const CertType *x, const CertType *y, PlanPlace *place)
{
    const CertType *types[] = {y};
    const CertOp op = {.kind = "shard", .types = types};
    return shard(walk, &op, x, place);
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

/* Changes the place of a bucket into that of a tensor in it that begins at element `offset`. The
 * first `kept` axes are those of the bucket. */
static void part_of(const PlanWalk *walk, const CertType *type, uint32_t kept, int64_t offset,
                    PlanPlace *place)
{
    int64_t stride = place->stride[place->rank - 1];
    place->base += offset * stride * place->size;
    dt_certplan_take_axes(walk, type, kept, place);
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

/* Turns the place of an operand of type x into that of the op's result, a view of it; false: the
 * result is no view. */
typedef bool View(const PlanWalk *walk, const CertOp *op, const CertType *x, PlanPlace *place);

/* Returns the function that follows a view op from its operand's place to its result's; NULL: the
 * op is no view. ret_moves: the result may begin at another address than the operand. */
static View *view_of(const CertOp *op, bool *ret_moves)
{
    static const struct {
        const char *kind;
        View *view;
        bool moves;
    } views[] = {{"relabel", relabel, false}, {"expand", expand, false}, {"slice", slice, true},
                 {"stop", stop, false},       {"shard", shard, true},    {"unpack", unpack, true},
                 {"terms", expand, false}}; /* a rank has one term */
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

/* Whether the bucket's memory is zero after its first `used` elements: zeros were written there, or
 * it is a store, whose padding is zero. */
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

/* Appends an empty place to the list and returns it. */
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

/* Appends the places of a bucket whose members were written one by one, each at its place in the
 * same memory. */
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
            offset +=
                type->rank == op->n_axes ? 1 : want.stride[op->n_axes] * want.extent[op->n_axes];
            all = false;
            for (uint32_t f = 0; !all && f < part.n; f++)
                all = part.at[f].added == bucket.added && part.at[f].summed == bucket.summed &&
                      dt_certplan_alike(&part.at[f].place, &want);
            if (all)
                dt_certplan_log(walk, part.at[0].stamp);
        }
        if (all && has_rest(walk, &bucket.place, offset))
            *another(walk, found) = bucket;
    }
}

/* Whether part k of a concat is at its place `want` in the result. known: a place of that part that
 * was found before, which is then the only one that counts; NULL: searches. */
static bool has_part(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, uint32_t k,
                     const PlanFound *known, const PlanPlace *want)
{
    PlanFinds part = {.n = 0};
    if (!known)
        dt_certplan_find(walk, frame, op->in[k], want, &part);
    for (uint32_t i = 0; i < (known ? 1 : part.n); i++) {
        const PlanFound *at = known ? known : &part.at[i];
        if (!at->added && !at->summed && dt_certplan_alike(&at->place, want)) {
            dt_certplan_log(walk, at->stamp);
            return true;
        }
    }
    return false;
}

/* Returns the place with its axes in the order of those of `order`; the place itself if the two
 * have different axes. */
static PlanPlace in_order(const PlanPlace *place, const PlanPlace *order)
{
    PlanPlace turned = *place;
    for (uint32_t d = 0; d < order->rank && place->rank == order->rank; d++) {
        const int from = dt_certplan_axis(place, order->axis[d]);
        if (from < 0)
            return *place;
        turned.axis[d] = place->axis[from];
        turned.extent[d] = place->extent[from];
        turned.stride[d] = place->stride[from];
    }
    return turned;
}

/* Whether all parts of a concat are in `whole`, each after the one before it along the axis.
 * first, second: their places; second may be NULL. Parts may be concats again, so nothing is
 * searched twice. */
static bool has_parts(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, uint32_t axis,
                      const PlanFound *first, const PlanFound *second, const PlanPlace *whole)
{
    int64_t before = 0;
    for (uint32_t k = 0; k < op->n_in; k++) {
        PlanPlace want = *whole, own;
        dt_certplan_dense(walk, dt_certplan_type(frame, op->in[k]), &own);
        /* the axes of a part may be in another order */
        const int along = dt_certplan_axis(&own, whole->axis[axis]);
        if (along < 0)
            return false;
        want.base += before * want.stride[axis] * want.size;
        want.extent[axis] = own.extent[along];
        before += own.extent[along];
        want = in_order(&want, &own);
        dt_certplan_spans(&want);
        if (!has_part(walk, frame, op, k, k == 0 ? first : k == 1 ? second : NULL, &want))
            return false;
    }
    return before == whole->extent[axis];
}

/* Appends the places of a concat whose parts were written one by one, next to each other. If the
 * first part has one element along the axis, the place of the second part shows the stride. */
static void find_concat(PlanWalk *walk, const PlanFrame *frame, const CertOp *op,
                        const PlanPlace *at, PlanFinds *found)
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
        whole.place = in_order(&whole.place, &shape);
        const bool is_one = whole.place.extent[axis] == 1 && op->n_in > 1;
        if (is_one && !second.n)
            dt_certplan_find(walk, frame, op->in[1], NULL, &second);
        whole.place.extent[axis] = shape.extent[axis];
        for (uint32_t k = 0; k < (is_one ? second.n : 1); k++) {
            const int64_t away = is_one ? second.at[k].place.base - whole.place.base : 0;
            if (is_one && (away <= 0 || away % whole.place.size))
                continue;
            if (is_one)
                whole.place.stride[axis] = away / whole.place.size;
            if (dt_certplan_spans(&whole.place) &&
                has_parts(walk, frame, op, (uint32_t)axis, &first.at[i],
                          is_one ? &second.at[k] : NULL, &whole.place))
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
        const CertType *all = op->store >= 0 ? walk->terms[op->store] : NULL;
        dt_certplan_dense(walk, all ? all : op->types[0], &place);
        if (place.bytes == region->place.bytes &&
            (!all || dt_certplan_run(walk, all, op->types[0], &place)))
            *another(walk, found) = (PlanFound){
                .place = place, .stamp = region->stamp, .of = op->store >= 0 ? region : NULL};
    }
}

static void find_all(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                     PlanFinds *found);

/* Keeps, of the places found from index `from` on, those with the loop's axis, and narrows them to
 * the slice of iteration `number`. */
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

/* Appends the places of an input of a body or a called function: those of the operand in the outer
 * function or, for a carried value, of the iteration before. */
static void find_input(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                       PlanFinds *found)
{
    if (frame->kind == PLAN_CALL) {
        find_all(walk, frame->outer, frame->op->in[value], at, found);
        return;
    }
    if (frame->kind == PLAN_ENTRY || value == 0)
        return;
    const CertLoop *loop = frame->op->loop;
    const uint32_t from = found->n;
    const bool carried = value < 1 + loop->carried,
               whole = value < 1 + loop->carried + loop->invariant;
    if (carried && frame->number != (loop->reverse ? loop->count - 1 : 0)) {
        if (frame->before)
            find_all(walk, frame->before, frame->func->results.at[value - 1], at, found);
        return;
    }
    find_all(walk, frame->outer, frame->op->in[value - 1], whole ? at : NULL, found);
    if (!whole)
        slice_of(loop, frame->number, from, found);
}

/* Appends the places of a result of a call or loop: those of the result of its function, or of the
 * last iteration. Stacked results are not found here: they are recorded when the loop ends. */
static void find_made(PlanWalk *walk, const PlanFrame *frame, const CertOp *op, uint32_t number,
                      const PlanPlace *at, PlanFinds *found)
{
    const CertLoop *loop = op->loop;
    if (!op->func || (loop && number >= loop->carried))
        return;
    const PlanFrame *inner =
        dt_certplan_has_frame(walk, frame, op, !loop || loop->reverse ? 0 : loop->count - 1);
    if (inner)
        find_all(walk, inner, inner->func->results.at[number], at, found);
}

/* Appends the places of the result of a reduce_scatter of accumulated terms: once the terms are
 * summed over ranks, it is at its part of their memory. Only a result with memory for all terms has
 * such a place (dt_certplan_place_result). */
static void find_terms(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                       PlanFinds *found)
{
    uint32_t n = found->n, from = n;
    find_all(walk, frame, value, at, found);
    for (uint32_t i = from; i < found->n; i++)
        if (found->at[i].added)
            found->at[n++] = found->at[i];
    found->n = n;
}

/* Appends places of a value that no instruction wrote as this value: in a store, in the outer
 * function, or as a view of another value. */
static void find_behind(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                        PlanFinds *found)
{
    const CertOp *op = frame->maker[value];
    bool moves = false;
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
    } else if (strcmp(op->kind, "reduce_scatter") == 0) {
        find_terms(walk, frame, op->in[0], at, found);
    } else if (view) {
        uint32_t n = found->n, from = n;
        find_all(walk, frame, op->in[0], moves ? NULL : at, found);
        for (uint32_t i = from; i < found->n; i++)
            if (view(walk, op, dt_certplan_type(frame, op->in[0]), &found->at[i].place))
                found->at[n++] = found->at[i];
        found->n = n;
    }
}

static void add_region(PlanWalk *walk, const PlanRegion *region, const PlanPlace *at,
                       PlanFinds *found)
{
    if (region->alive &&
        (!at || (region->place.arena == at->arena && region->place.base == at->base)))
        *another(walk, found) =
            (PlanFound){region->place, region->kind == PLAN_ADDED, region->summed, region->stamp,
                        region->arg, NULL};
}

/* Appends all places of a value. A copy adds a place; the old one stays until another value is
 * written there. If there are many, they are found through the index of memory. */
static void find_all(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                     PlanFinds *found)
{
    frame = dt_certplan_home(walk, frame, value);
    if (walk->nested == MOST_NESTED)
        return;
    if (walk->trial && frame->outer && frame->outer->number == PLAN_ANY &&
        frame->outer->kind == PLAN_ENTRY && dt_certplan_is_ahead(frame->maker[value])) {
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

uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                          const PlanPlace *at, PlanFinds *ret_found)
{
    ret_found->n = 0;
    ret_found->cap = DT_COUNT(ret_found->few);
    ret_found->at = ret_found->few;
    find_all(walk, frame, value, at, ret_found);
    uint32_t n = 0;
    for (uint32_t i = 0; i < ret_found->n; i++) {
        const PlanFound *found = &ret_found->at[i];
        if (!found->of || !dt_certplan_in_hole(walk, found->of, &found->place))
            ret_found->at[n++] = *found;
    }
    return ret_found->n = n;
}
