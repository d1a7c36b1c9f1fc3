/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernels, in the order of docs/kernels.md: it says to which lane each element goes,
 * and in which order lanes add up and are combined. */
#include "kir/internal.h"

#include <string.h>

bool dt_kir_next(DtKirKernel *k, uint32_t from, uint32_t to)
{
    for (uint32_t a = to; a-- > from;) {
        if (++k->i[a] < k->extent[a])
            return !k->strayed;
        k->i[a] = 0;
    }
    return false;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void store_all(DtKirKernel *k, uint32_t phase, bool points, uint32_t w)
{
    for (uint32_t s = 0; s < k->n_stores; s++)
        if (dt_kir_stores_at(k, s, phase, points))
            dt_kir_store(k, &k->stores[s], w);
}

/* Returns the row-major number of the present point (k->i) along axes from <= a < to. */
static int64_t place(const DtKirKernel *k, uint32_t from, uint32_t to)
{
    int64_t at = 0;
    for (uint32_t a = from; a < to; a++)
        at = at * k->extent[a] + k->i[a];
    return at;
}

/* ---- rows ---- */

/* Evaluates w points of a row from index k->i of the last axis on, and adds them to the row's
 * reductions and sums. lane: that of the first point. */
static void row_points(DtKirKernel *k, uint32_t phase, uint32_t lane, uint32_t w)
{
    dt_kir_eval(k, &k->points[phase], w);
    for (uint32_t n = 0; n < k->n_nodes; n++) {
        KirNode *node = &k->nodes[n];
        const KirCell *x = node->n_args ? k->nodes[node->args[0]].value : NULL;
        if (dt_kir_reduces_at(k, n, phase)) {
            for (uint32_t l = 0; l < w; l++)
                dt_kir_combine(node, &node->sum[lane + l], x[l]);
        } else if (dt_kir_adds_at(k, n, phase)) {
            const int64_t at = place(k, k->n_outer, k->n_axes);
            for (uint32_t l = 0; l < w; l++)
                dt_kir_combine(node, &node->sum[at + l], x[l]);
        }
    }
    store_all(k, phase, true, w);
}

/* Evaluates all points of a row and adds them to its reductions and sums; or those of a piece:
 * indices from..to of the axis that is cut. */
static void row_loops(DtKirKernel *k, uint32_t phase, int64_t from, int64_t to)
{
    const uint32_t last = k->n_axes - 1,
                   cut = k->pieces_of == KIR_OF_AXIS ? k->piece_axis : KIR_AXES;
    const int64_t first = cut == last ? from : 0, end = cut == last ? to : k->extent[last];
    /* rows that do not fill the lanes share them: each begins at the lane where the last ended */
    const bool shares = last > 0 && !k->in_pairs && k->n_lanes > KIR_LANES &&
                        k->extent[last] < k->n_lanes;
    do {
        if (cut < last && (k->i[cut] < from || k->i[cut] >= to)) {
            dt_kir_spend(k, 1);
            continue;
        }
        for (int64_t j = first; j < end && !k->strayed;) {
            const int64_t before = shares ? k->i[last - 1] * k->extent[last] : 0;
            const uint32_t lane = (uint32_t)((before + j - first) % k->n_lanes);
            const int64_t w = least(least(KIR_WIDTH, k->n_lanes - lane), end - j);
            k->i[last] = j;
            row_points(k, phase, lane, (uint32_t)w);
            j += w;
        }
        k->i[last] = 0;
    } while (dt_kir_next(k, k->first_inner, last));
}

static void begin_lanes(DtKirKernel *k, uint32_t phase, int64_t n)
{
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (dt_kir_reduces_at(k, i, phase))
            dt_kir_begin(&k->nodes[i], k->nodes[i].sum, n);
}

static void begin_pieces(DtKirKernel *k, int64_t n)
{
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (dt_kir_reduces_at(k, i, 0))
            dt_kir_begin(&k->nodes[i], k->nodes[i].pieces, n * KIR_LANES);
}

static void define(KirNode *node, KirCell x)
{
    node->value[0] = x;
    dt_kir_spread(node);
}

static void row_reduced(DtKirKernel *k, uint32_t phase)
{
    begin_lanes(k, phase, k->n_lanes);
    row_loops(k, phase, 0, INT64_MAX);
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (dt_kir_reduces_at(k, i, phase))
            define(&k->nodes[i], dt_kir_tree(k, &k->nodes[i], k->nodes[i].sum));
}

static void row_in_pieces(DtKirKernel *k)
{
    begin_pieces(k, 1);
    for (int64_t piece = 0; piece < k->pieces && !k->strayed; piece++) {
        const int64_t from = piece * k->piece;
        dt_kir_spend(k, k->n_lanes);
        begin_lanes(k, 0, k->n_lanes);
        row_loops(k, 0, from, least(from + k->piece, k->extent[k->piece_axis]));
        for (uint32_t i = 0; i < k->n_nodes; i++)
            if (dt_kir_reduces_at(k, i, 0))
                dt_kir_combine(&k->nodes[i], &k->nodes[i].pieces[piece % KIR_LANES],
                               dt_kir_tree(k, &k->nodes[i], k->nodes[i].sum));
    }
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (dt_kir_reduces_at(k, i, 0))
            define(&k->nodes[i], dt_kir_join(&k->nodes[i], k->nodes[i].pieces));
}

static bool has_points(const DtKirKernel *k, uint32_t phase, bool *ret_reduces)
{
    bool any = false;
    *ret_reduces = false;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        *ret_reduces = *ret_reduces || dt_kir_reduces_at(k, i, phase);
        any = any || dt_kir_adds_at(k, i, phase);
    }
    for (uint32_t s = 0; s < k->n_stores; s++)
        any = any || dt_kir_stores_at(k, s, phase, true);
    return k->n_axes > 0 && (any || *ret_reduces);
}

static void row(DtKirKernel *k)
{
    for (uint32_t phase = 0; phase <= k->last_phase; phase++) {
        bool reduces;
        dt_kir_eval(k, &k->scalars[phase], 1);
        for (uint32_t i = 0; i < k->scalars[phase].n; i++)
            dt_kir_spread(&k->nodes[k->scalars[phase].at[i]]);
        store_all(k, phase, false, 1);
        if (!has_points(k, phase, &reduces))
            continue;
        if (reduces && k->pieces_of == KIR_OF_AXIS)
            row_in_pieces(k);
        else if (reduces)
            row_reduced(k, phase);
        else
            row_loops(k, phase, 0, INT64_MAX);
    }
}

/* ---- sums over rows ---- */

static bool is_sum_over_rows(const KirNode *node)
{
    return node->kind == KIR_REDUCE && node->after_rows && node->live;
}

/* Adds the sums over the rows of a piece to the piece's lane, and sets them to zero for the next
 * piece. */
static void end_piece(DtKirKernel *k, int64_t piece)
{
    dt_kir_spend(k, k->n_row_sums);
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        KirNode *node = &k->nodes[i];
        if (!is_sum_over_rows(node))
            continue;
        for (int64_t e = 0; e < k->n_row_sums; e++)
            dt_kir_combine(node, &node->pieces[e * KIR_LANES + piece % KIR_LANES], node->sum[e]);
        dt_kir_begin(node, node->sum, k->n_row_sums);
    }
}

/* Combines the pieces of sums over rows, once all rows are done, and computes and stores the values
 * that depend on these sums. */
static void finish_rows(DtKirKernel *k)
{
    const uint32_t last = k->n_axes - 1;
    do {
        for (k->i[last] = 0; k->i[last] < k->extent[last] && !k->strayed; k->i[last] += KIR_WIDTH) {
            const uint32_t w = (uint32_t)least(KIR_WIDTH, k->extent[last] - k->i[last]);
            const int64_t at = place(k, k->n_outer, k->n_axes);
            for (uint32_t i = 0; i < k->n_nodes; i++)
                for (uint32_t l = 0; l < w && is_sum_over_rows(&k->nodes[i]); l++)
                    k->nodes[i].value[l] =
                        dt_kir_join(&k->nodes[i], &k->nodes[i].pieces[(at + l) * KIR_LANES]);
            dt_kir_eval(k, &k->final, w);
            for (uint32_t s = 0; s < k->n_stores; s++)
                if (k->nodes[k->stores[s].node].after_rows)
                    dt_kir_store(k, &k->stores[s], w);
        }
        k->i[last] = 0;
    } while (dt_kir_next(k, k->n_outer, last));
}

static void rows(DtKirKernel *k)
{
    const bool summed = k->pieces_of == KIR_OF_ROWS;
    int64_t n = 0;
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (is_sum_over_rows(&k->nodes[i])) {
            dt_kir_begin(&k->nodes[i], k->nodes[i].sum, k->n_row_sums);
            dt_kir_begin(&k->nodes[i], k->nodes[i].pieces, k->n_row_sums * KIR_LANES);
        }
    do {
        row(k);
        n++;
        if (summed && n % k->piece == 0)
            end_piece(k, n / k->piece - 1);
    } while (dt_kir_next(k, 0, k->first_inner));
    if (summed && n % k->piece != 0)
        end_piece(k, n / k->piece);
    if (summed && k->n_axes > 0 && !k->strayed)
        finish_rows(k);
}

/* ---- columns ---- */

/* Evaluates w neighbouring columns and adds their points to the columns' reductions; only indices
 * from..to of the inner axis that is cut. */
static void column_loops(DtKirKernel *k, int64_t from, int64_t to, uint32_t w)
{
    begin_lanes(k, 0, KIR_WIDTH);
    do {
        if (k->pieces_of == KIR_OF_AXIS &&
            (k->i[k->piece_axis] < from || k->i[k->piece_axis] >= to)) {
            dt_kir_spend(k, 1);
            continue;
        }
        dt_kir_eval(k, &k->points[0], w);
        for (uint32_t i = 0; i < k->n_nodes; i++)
            for (uint32_t l = 0; l < w && dt_kir_reduces_at(k, i, 0); l++)
                dt_kir_combine(&k->nodes[i], &k->nodes[i].sum[l],
                               k->nodes[k->nodes[i].args[0]].value[l]);
    } while (dt_kir_next(k, k->n_outer, k->n_axes));
}

static void column_chunk(DtKirKernel *k, uint32_t w)
{
    const bool cut = k->pieces_of == KIR_OF_AXIS;
    begin_pieces(k, KIR_WIDTH);
    for (int64_t piece = 0; piece < (cut ? k->pieces : 1) && !k->strayed; piece++) {
        column_loops(k, piece * k->piece, (piece + 1) * k->piece, w);
        for (uint32_t i = 0; i < k->n_nodes; i++)
            for (uint32_t l = 0; l < w && cut && dt_kir_reduces_at(k, i, 0); l++)
                dt_kir_combine(&k->nodes[i], &k->nodes[i].pieces[l * KIR_LANES + piece % KIR_LANES],
                               k->nodes[i].sum[l]);
    }
    for (uint32_t i = 0; i < k->n_nodes; i++)
        for (uint32_t l = 0; l < w && dt_kir_reduces_at(k, i, 0); l++)
            k->nodes[i].value[l] =
                cut ? dt_kir_join(&k->nodes[i], &k->nodes[i].pieces[l * KIR_LANES])
                    : k->nodes[i].sum[l];
    dt_kir_eval(k, &k->final, w);
    for (uint32_t s = 0; s < k->n_stores; s++)
        dt_kir_store(k, &k->stores[s], w);
}

static void columns(DtKirKernel *k)
{
    const uint32_t v = k->along = k->n_outer - 1;
    do {
        for (k->i[v] = 0; k->i[v] < k->extent[v] && !k->strayed; k->i[v] += KIR_WIDTH)
            column_chunk(k, (uint32_t)least(KIR_WIDTH, k->extent[v] - k->i[v]));
        k->i[v] = 0;
    } while (dt_kir_next(k, 0, v));
}

/* ---- scans, top-k ---- */

static void scan(DtKirKernel *k)
{
    KirNode *node = &k->nodes[k->stores[0].node];
    int64_t inner = 1;
    for (uint32_t a = k->n_outer; a < k->n_axes; a++)
        inner *= k->extent[a];
    do {
        KirCell sum = {.i = 0};
        for (int64_t n = 0; n < inner && !k->strayed; n++) {
            int64_t rest = k->special ? inner - 1 - n : n;
            for (uint32_t a = k->n_axes; a-- > k->n_outer; rest /= k->extent[a])
                k->i[a] = rest % k->extent[a];
            dt_kir_eval(k, &k->points[0], 1);
            dt_kir_combine(&(KirNode){.reduce = KIR_SUM, .dtype = node->dtype}, &sum,
                           node->value[0]);
            node->value[0] = sum;
            dt_kir_store(k, &k->stores[0], 1);
        }
        for (uint32_t a = k->n_outer; a < k->n_axes; a++)
            k->i[a] = 0;
    } while (dt_kir_next(k, 0, k->n_outer));
}

/* Returns an element of top-k as a float, by which it is compared. */
static float float_of(const KirNode *node, KirCell x)
{
    return dt_kir_is_float(node->dtype) ? x.f : (float)x.i;
}

/* Returns the index of the largest element after the one that was chosen last (last_at; -1: none
 * yet); -1 if there is none. ret_best: the element. */
static int64_t choose(DtKirKernel *k, const KirNode *node, KirCell last, int64_t last_at,
                      KirCell *ret_best)
{
    const uint32_t a = k->n_outer;
    int64_t best_at = -1;
    ret_best->i = 0;
    for (k->i[a] = 0; k->i[a] < k->extent[a] && !k->strayed; k->i[a] += KIR_WIDTH) {
        const uint32_t w = (uint32_t)least(KIR_WIDTH, k->extent[a] - k->i[a]);
        dt_kir_eval(k, &k->points[0], w);
        for (uint32_t l = 0; l < w; l++) {
            const float x = float_of(node, node->value[l]);
            const int64_t at = k->i[a] + l;
            if ((last_at < 0 || dt_kir_before(float_of(node, last), last_at, x, at)) &&
                (best_at < 0 || dt_kir_before(x, at, float_of(node, *ret_best), best_at))) {
                *ret_best = node->value[l];
                best_at = at;
            }
        }
    }
    return best_at;
}

static void topk(DtKirKernel *k)
{
    KirNode *node = &k->nodes[k->stores[0].node];
    const uint32_t a = k->n_outer;
    do {
        KirCell last = {.i = 0}, best;
        int64_t last_at = -1;
        for (int64_t r = 0; r < k->special && !k->strayed; r++) {
            last_at = choose(k, node, last, last_at, &best);
            last = best;
            k->i[a] = r;
            for (uint32_t s = 0; s < k->n_stores; s++) {
                const KirStore *store = &k->stores[s];
                const bool is_float = !store->indices && dt_kir_is_float(node->dtype);
                const int64_t at = dt_kir_affine(k, store->offset, store->stride);
                dt_kir_put(k, store->pointer, at,
                           store->indices ? (KirCell){.i = (int32_t)last_at} : best, is_float,
                           store->accumulate);
            }
        }
        k->i[a] = 0;
    } while (dt_kir_next(k, 0, a));
}

/* ---- sums by index ---- */

/* Finds where the point in lane l adds: *ret_at: its offset in the result; ret_place: the row-major
 * number of its indices. False if an index is out of range, so that it adds nowhere. */
static bool find_target(const DtKirKernel *k, uint32_t l, int64_t *ret_at, int64_t *ret_place)
{
    *ret_at = *ret_place = 0;
    for (uint32_t t = 0; t < k->n_targets; t++) {
        const KirTarget *target = &k->targets[t];
        const int64_t bases = target->bases == KIR_NONE ? 0 : k->call->integers[target->bases];
        const int64_t at = (int64_t)((uint64_t)k->nodes[target->node].value[l].i - (uint64_t)bases);
        if (at < 0 || at >= target->extent)
            return false;
        *ret_at = dt_kir_plus(*ret_at, dt_kir_times(at, target->stride));
        *ret_place = dt_kir_plus(dt_kir_times(*ret_place, target->extent), at);
    }
    return true;
}

/* Adds each point of the space, in row-major order, to the element that its indices choose, so that
 * the terms of an element are added in that order. */
static void scatter(DtKirKernel *k)
{
    const KirStore *store = &k->stores[0];
    const KirNode *node = &k->nodes[store->node];
    int64_t at, number;
    do {
        dt_kir_eval(k, &k->points[0], 1);
        if (find_target(k, 0, &at, &number))
            dt_kir_put(k, store->pointer, dt_kir_affine(k, at, store->stride), node->value[0],
                       dt_kir_is_float(node->dtype), true);
    } while (dt_kir_next(k, 0, k->n_axes));
}

/* Sets the indices of these axes (bits) to those of the point with this row-major number. */
static void set_point(DtKirKernel *k, uint32_t axes, int64_t number)
{
    for (uint32_t a = k->n_axes; a-- > 0;)
        if (axes >> a & 1) {
            k->i[a] = number % k->extent[a];
            number /= k->extent[a];
        }
}

static void add_piece(DtKirKernel *k, uint32_t kept, int64_t from, int64_t to, int64_t items)
{
    const KirNode *node = &k->nodes[k->stores[0].node];
    const KirNode sum = {.reduce = KIR_SUM, .dtype = node->dtype};
    int64_t at, number;
    for (int64_t g = from; g < to && !k->strayed; g++)
        for (int64_t r = 0; r < items && !k->strayed; r++) {
            set_point(k, ~kept, g);
            set_point(k, kept, r);
            dt_kir_eval(k, &k->points[0], 1);
            if (find_target(k, 0, &at, &number))
                dt_kir_combine(&sum, &k->by_index[number * items + r], node->value[0]);
        }
}

static void scatter_pieces(DtKirKernel *k)
{
    const KirStore *store = &k->stores[0];
    KirNode *node = &k->nodes[store->node];
    const KirNode sum = {.reduce = KIR_SUM, .dtype = node->dtype};
    const uint32_t kept = dt_kir_kept(k);
    int64_t items = 1, points = 1, n = 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        *(kept >> a & 1 ? &items : &points) *= k->extent[a];
    for (uint32_t t = 0; t < k->n_targets; t++)
        n *= k->targets[t].extent;
    n *= items;
    KirCell *lanes = k->by_index + n;
    dt_kir_begin(&sum, lanes, n * KIR_LANES);
    for (int64_t piece = 0; piece < k->pieces && !k->strayed; piece++) {
        const int64_t from = piece * k->piece;
        dt_kir_spend(k, n);
        dt_kir_begin(&sum, k->by_index, n);
        add_piece(k, kept, from, piece + 1 == k->pieces ? points : least(points, from + k->piece),
                  items);
        for (int64_t x = 0; x < n; x++)
            dt_kir_combine(&sum, &lanes[x * KIR_LANES + piece % KIR_LANES], k->by_index[x]);
    }
    for (int64_t x = 0; x < n && !k->strayed; x++) {
        set_point(k, kept, x % items);
        int64_t at = dt_kir_affine(k, store->offset, store->stride), rest = x / items;
        for (uint32_t t = k->n_targets; t-- > 0; rest /= k->targets[t].extent)
            at = dt_kir_plus(at, dt_kir_times(rest % k->targets[t].extent, k->targets[t].stride));
        dt_kir_put(k, store->pointer, at, dt_kir_join(&sum, &lanes[x * KIR_LANES]),
                   dt_kir_is_float(node->dtype), true);
    }
}

bool dt_kir_run(DtKirKernel *k, const DtKirCall *call)
{
    k->call = call;
    k->along = k->n_axes ? k->n_axes - 1 : 0;
    k->strayed = false;
    k->spent = 0;
    memset(k->i, 0, sizeof k->i);
    switch (k->pattern) {
    case KIR_ROW: rows(k); break;
    case KIR_COLUMN: columns(k); break;
    case KIR_SCAN: scan(k); break;
    case KIR_TOPK: topk(k); break;
    case KIR_SCATTER: (k->pieces_of == KIR_OF_POINTS ? scatter_pieces : scatter)(k); break;
    default: dt_kir_attend(k);
    }
    return !k->strayed;
}
