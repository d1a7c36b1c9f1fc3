/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: windows over a split axis, and their transpose.
 *
 * A rank's windows reach into the parts of its neighbours: its `halo`. It gets these edges by two
 * shifts, one from each side; what it gets around the ends of the mesh is replaced by the fill:
 *
 *     %y = window[a, w](%x)          %p = relabel(%x) a -> (@a, @a.part)   rank by rank
 *       lo = 1, stride = 1, n = 3    %l = shift(slice[@a.part](%p, last))
 *                                    %b = where(@a == 0, fill, %l)
 *                               ->   %r = shift reverse(slice[@a.part](%p, 0))
 *                                    %e = where(@a == last, fill, %r)
 *                                    %c = concat[@a.part](%b, %p, %e)
 *                                    %y = relabel(window[@a.part, w](%c)) (@a, @a.part) -> a
 *
 * (A part has a name of its own: with its edges it may be as long as `a` is elsewhere, where `pad`
 * rounds it up.) `fold` adds up in a part that is longer at both ends; the ends go home and are
 * added there. A part must hold whole strides, the windows as many as there are strides, and a halo
 * must not reach beyond the neighbours. A window for which that is not so is an error (E0597) where
 * its result is split by rule; where the result is whole, the operand is gathered. */
#include "passes/place/place_internal.h"

#include "base/intern.h"
#include "ir/shape.h"

typedef struct Halo {
    /* block: "@axis", one place per rank; part: "@axis.part", a rank's rows */
    const char *axis, *block, *part;
    uint16_t mesh;
    int64_t parts, rows, windows; /* rows, windows: of one rank's part */
    /* rows needed from the neighbours before and after; behind < 0: the last -behind rows are not
     * read */
    int64_t before, behind;
} Halo;

/* Returns the number of the axis along which op is a window or fold, if mesh axes split it in its
 * operand; else -1. */
static int split_axis(const DtOp *op, const DtType *x)
{
    if (op->kind != DT_OP_WINDOW && op->kind != DT_OP_FOLD)
        return -1;
    int a = dt_type_find(x, op->axes[0]);
    return a >= 0 && x->axes[a].n_split ? a : -1;
}

static bool in_order(const DtAxis *axis)
{
    for (uint32_t i = 1; i < axis->n_split; i++)
        if (axis->split[i] < axis->split[i - 1])
            return false;
    return true;
}

typedef struct Why {
    const char *reason, *fix;
} Why;

static const Why
    of_order =
        {"its parts do not lie in the order of the ranks",
         "list the mesh axes that split it in the order of the `mesh` line, without `order`"},
    of_time = {"micro-batches exchange nothing", "cut another axis into micro-batches"},
    of_count =
        {"its windows are not one per `stride`, so ranks would hold other parts of the result",
         "give the window a `pad` with which the result has one element per `stride`"},
    of_stride =
        {"each rank's part must be a multiple of `stride`",
         "choose an extent that is a multiple of ranks times stride, or split over fewer ranks"},
    of_length = {"each rank's part must be as long as what its windows read of a neighbour's",
                 "split over fewer ranks"},
    of_rank = {"the window has as many axes as a value can have, and needs one for the ranks",
               "merge two of its axes"};

/* Measures how far windows reach into the neighbours' parts, into ret. Returns NULL, or why ranks
 * cannot exchange these rows. */
static const Why *measure(const DtPlacer *p, const DtOp *op, const DtAxis *axis, Halo *ret)
{
    const DtRange *r = &op->ranges[0];
    const DtMesh *mesh = &p->module->mesh;
    const DtValue *lengths = op->kind == DT_OP_WINDOW ? op->in[0] : op->out[0],
                  *windows = op->kind == DT_OP_WINDOW ? op->out[0] : op->in[0];
    int64_t n = dt_type_extent(lengths->type, axis->name),
            count = dt_type_extent(windows->type, axis->name);
    Halo h = {.axis = axis->name, .block = dt_intern_printf("@%s", axis->name), .parts = 1};
    h.part = dt_intern_printf("%s.part", h.block);
    for (uint32_t i = 0; i < axis->n_split; i++) {
        h.parts *= mesh->axes[axis->split[i]].size;
        h.mesh |= (uint16_t)(1u << axis->split[i]);
    }
    if (axis->zigzag || !in_order(axis))
        return &of_order;
    if (h.mesh & p->time)
        return &of_time;
    if (count * r->step != n)
        return &of_count;
    if (n % (h.parts * r->step))
        return &of_stride;
    if (windows->type->rank == DT_MAX_RANK)
        return &of_rank;
    h.rows = n / h.parts;
    h.windows = h.rows / r->step;
    h.before = r->lo;
    h.behind = r->n - r->step - r->lo;
    if (h.before > h.rows || h.behind > h.rows || h.rows + h.behind < 1)
        return &of_length;
    *ret = h;
    return NULL;
}

bool dt_placehalo_is(const DtOp *op, const DtType *x) { return split_axis(op, x) >= 0; }

const DtType *dt_placehalo_whole(const DtOp *op, const DtType *x)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++)
        axes[d] = x->axes[d];
    axes[split_axis(op, x)].n_split = 0;
    return dt_type_make(x->dtype, x->rank, axes, x->partial, (DtReduce)x->pending);
}

const char *dt_placehalo_derive(const DtPlacer *p, const DtOp *op, const DtType *x,
                                const DtType **out)
{
    const DtAxis *axis = &x->axes[split_axis(op, x)];
    Halo h;
    const Why *why = measure(p, op, axis, &h);
    if (why)
        return why->reason;
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < (*out)->rank; d++) {
        int64_t extent = (*out)->axes[d].extent;
        axes[d] = (*out)->axes[d].name == axis->name ? *axis : (*out)->axes[d];
        axes[d].extent = extent;
    }
    *out =
        dt_type_make((*out)->dtype, (*out)->rank, axes, (*out)->partial, (DtReduce)(*out)->pending);
    return NULL;
}

/* ---- making ---- */

static DtValue *cut(DtPlaceScope *s, const Halo *h, DtValue *x, int64_t lo, int64_t n)
{
    return lo == 0 && n == dt_type_extent(x->type, h->part)
               ? x
               : dt_graph_slice(&s->b, x, h->part, lo, 1, n);
}

/* Appends a relabel of x that cuts the axis into one part per rank of `rows` elements, or (merge)
 * puts the parts together again. */
static DtValue *parts(DtPlaceScope *s, const Halo *h, DtValue *x, bool merge, int64_t rows)
{
    DtRelabel entry = {.n_from = 1,
                       .n_to = 2,
                       .from = {h->axis},
                       .to = {h->block, h->part},
                       .to_extent = {h->parts, rows}};
    if (merge)
        entry = (DtRelabel){.n_from = 2,
                            .n_to = 1,
                            .from = {h->block, h->part},
                            .to = {h->axis},
                            .to_extent = {h->parts * rows}};
    return dt_graph_relabel(&s->b, x, 1, &entry, NULL);
}

/* Appends ops that replace x by `fill` on the first rank, or on the last one (last). */
static DtValue *but_at(DtPlaceScope *s, const Halo *h, DtValue *x, bool last, double fill)
{
    DtBuilder *b = &s->b;
    const DtAxis *axis = &x->type->axes[dt_type_find(x->type, h->block)];
    DtValue *end = dt_graph_constant(b, DT_I32, last ? (double)(h->parts - 1) : 0);
    DtValue *is_end = dt_graph_binary(b, DT_OP_EQ, dt_graph_iota(b, *axis), end);
    DtValue *in[3] = {is_end, dt_graph_constant(b, x->type->dtype, fill), x};
    return dt_graph_map(b, DT_OP_WHERE, 3, in, x->type);
}

/* Appends the exchange by which each rank gets x of the previous rank, or (back) of the next
 * one. */
static DtValue *shift(DtPlaceScope *s, const Halo *h, DtValue *x, bool back)
{
    DtValue *y = dt_graph_comm(&s->b, DT_OP_SHIFT, x, h->mesh, x->type);
    y->op->reverse = back;
    y->op->text = dt_intern_printf("halo of `%s`", h->axis);
    return y;
}

static DtValue *make_window(DtPlaceScope *s, const DtOp *op, const Halo *h, DtValue *x)
{
    const DtRange *range = &op->ranges[0], inside = {.step = range->step, .n = range->n};
    DtValue *part = parts(s, h, x, false, h->rows), *in[3];
    uint32_t n = 0;
    if (h->before > 0) {
        DtValue *edge = shift(s, h, cut(s, h, part, h->rows - h->before, h->before), false);
        in[n++] = but_at(s, h, edge, false, op->number);
    }
    in[n++] = h->behind < 0 ? cut(s, h, part, 0, h->rows + h->behind) : part;
    if (h->behind > 0)
        in[n++] = but_at(s, h, shift(s, h, cut(s, h, part, 0, h->behind), true), true, op->number);
    DtValue *longer = n > 1 ? dt_graph_concat(&s->b, h->part, n, in) : in[0];
    DtValue *y = dt_graph_window(&s->b, longer, h->part, op->axes[1], inside, 0);
    return parts(s, h, y, true, h->windows);
}

/* Sends the gradient of rows that a rank had from a neighbour back to it, and pads it to that
 * rank's part, at the edge; ranks at the ends get zeros. */
static DtValue *home(DtPlaceScope *s, const Halo *h, DtValue *edge, bool back, int64_t lo,
                     int64_t hi)
{
    edge = shift(s, h, but_at(s, h, edge, !back, 0), back);
    return lo + hi ? dt_graph_pad(&s->b, edge, h->part, lo, hi, 1, 0) : edge;
}

static DtValue *make_fold(DtPlaceScope *s, const DtOp *op, const Halo *h, DtValue *x)
{
    const DtRange *range = &op->ranges[0], inside = {.step = range->step, .n = range->n};
    int64_t own = h->behind < 0 ? h->rows + h->behind : h->rows;
    DtValue *part = parts(s, h, x, false, h->windows);
    DtValue *sum =
        dt_graph_fold(&s->b, part, h->part, op->axes[1], inside, h->before + h->rows + h->behind);
    DtValue *y = cut(s, h, sum, h->before, own);
    if (own < h->rows)
        y = dt_graph_pad(&s->b, y, h->part, 0, h->rows - own, 1, 0);
    if (h->before > 0) {
        DtValue *edge = home(s, h, cut(s, h, sum, 0, h->before), true, h->rows - h->before, 0);
        y = dt_graph_binary(&s->b, DT_OP_ADD, y, edge);
    }
    if (h->behind > 0) {
        DtValue *edge = cut(s, h, sum, h->before + h->rows, h->behind);
        y = dt_graph_binary(&s->b, DT_OP_ADD, y, home(s, h, edge, false, 0, h->rows - h->behind));
    }
    return parts(s, h, y, true, h->rows);
}

DtOp *dt_placehalo_make(DtPlaceScope *s, const DtOp *op, DtValue *x)
{
    Halo h;
    measure(s->p, op, &x->type->axes[split_axis(op, x->type)], &h);
    DtValue *y = op->kind == DT_OP_WINDOW ? make_window(s, op, &h, x) : make_fold(s, op, &h, x);
    return y->op;
}

/* ---- refusing ---- */

bool dt_placehalo_check(DtPlaceScope *s, const DtOp *op, const DtType *before, const DtType *after)
{
    int a = split_axis(op, before);
    if (op->kind != DT_OP_WINDOW || a < 0)
        return true;
    const DtAxis *axis = &before->axes[a];
    const DtType *rule = dt_placerule_of(s->p, op->out[0]->type, NULL, 0);
    int d = dt_type_find(rule, axis->name);
    Halo h;
    const Why *why = measure(s->p, op, axis, &h);
    uint16_t lost = (uint16_t)(dt_shape_split_bits(axis) & ~dt_shape_split_bits(&after->axes[a]));
    if (!why || !(lost & dt_shape_split_bits(&rule->axes[d])))
        return true;
    DtArena *arena = s->p->module->arena;
    DtDiag *diag = dt_placerefuse_at(
        s->p, E0597, op->span,
        dt_arena_printf(arena, "`window` along `%s`, which is split: %s", axis->name, why->reason));
    dt_placerefuse_call(diag, op);
    const DtRange *r = &op->ranges[0];
    long long rows = dt_type_local_extent(before, (uint32_t)a, &s->p->module->mesh);
    dt_diag_note(
        diag,
        "`%s` has %lld elements here, %lld on each of %lld ranks; windows of %lld, stride %lld",
        axis->name, (long long)axis->extent, rows, (long long)axis->extent / rows, (long long)r->n,
        (long long)r->step);
    dt_diag_help(diag, "%s; or split another axis", why->fix);
    return false;
}
