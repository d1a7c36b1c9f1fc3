/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: evaluates rows (one for each index of the shared axes and queries) along the keys.
 * Sums are added in the order of keys, or of queries; a GPU's tiles add in another order, so
 * results agree within rounding only. The mask of a kernel only says which tiles may be skipped:
 * nodes give the same results without these keys. */
#include "kir/internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t keys_of(const DtKirKernel *k) { return k->n_axes - 1; }

static float dot(DtKirKernel *k, const KirRows *query, const KirRows *key, int64_t key_at)
{
    const uint32_t keys = keys_of(k);
    const int64_t here = k->i[keys];
    const int64_t q = dt_kir_affine(k, query->offset, query->stride);
    k->i[keys] = key_at;
    const int64_t of = dt_kir_affine(k, key->offset, key->stride);
    k->i[keys] = here;
    float sum = 0;
    for (uint32_t d = 0; d < query->depth && !k->strayed; d++)
        sum += dt_kir_get(k, query->pointer, dt_kir_plus(q, dt_kir_times(d, query->along))).f *
               dt_kir_get(k, key->pointer, dt_kir_plus(of, dt_kir_times(d, key->along))).f;
    return sum;
}

static void make_scores(DtKirKernel *k, uint32_t w)
{
    for (uint32_t i = 0; i < k->n_scores; i++)
        for (uint32_t l = 0; l < w; l++)
            k->nodes[k->scores[i].node].value[l].f =
                dot(k, &k->scores[i].query, &k->scores[i].key, k->i[keys_of(k)] + l);
}

/* Returns the row-major number of the present point (k->i) along these axes (bits). */
static int64_t place(const DtKirKernel *k, uint32_t axes)
{
    int64_t at = 0;
    for (uint32_t a = 0; a < k->n_axes; a++)
        at = axes >> a & 1 ? at * k->extent[a] + k->i[a] : at;
    return at;
}

/* Returns the axes (bits) that a sum over queries leaves. */
static uint32_t left_by(const DtKirKernel *k, const KirSum *sum)
{
    const uint32_t all = (1u << k->n_axes) - 1, queries = 1u << (keys_of(k) - 1);
    return all & ~(sum->away | queries);
}

/* Adds x times a row of the operand, at the present point, to the row of the sum for that point. */
static void add_row(DtKirKernel *k, const KirSum *sum, float x)
{
    float *to = sum->sums + (sum->over_keys ? 0 : place(k, left_by(k, sum)) * sum->to.depth);
    const int64_t of = dt_kir_affine(k, sum->of.offset, sum->of.stride);
    x = dt_kir_round(sum->dtype, x);
    for (uint32_t d = 0; d < sum->of.depth && !k->strayed; d++)
        to[d] +=
            x * dt_kir_get(k, sum->of.pointer, dt_kir_plus(of, dt_kir_times(d, sum->of.along))).f;
}

/* Adds the point in lane l to all reductions and sums of this phase. */
static void add_point(DtKirKernel *k, uint32_t phase, uint32_t l)
{
    for (uint32_t n = 0; n < k->n_nodes; n++) {
        KirNode *node = &k->nodes[n];
        if (dt_kir_reduces_at(k, n, phase))
            dt_kir_combine(node, &node->sum[0], k->nodes[node->args[0]].value[l]);
        else if (dt_kir_adds_at(k, n, phase))
            dt_kir_combine(node, &node->sum[place(k, node->axes)],
                           k->nodes[node->args[0]].value[l]);
    }
    for (uint32_t i = 0; i < k->n_sums; i++)
        if (k->nodes[k->sums[i].node].phase == phase)
            add_row(k, &k->sums[i], k->nodes[k->sums[i].node].value[l].f);
}

static void row_points(DtKirKernel *k, uint32_t phase)
{
    const uint32_t keys = keys_of(k);
    for (int64_t j = 0; j < k->extent[keys] && !k->strayed; j += KIR_WIDTH) {
        const uint32_t w =
            (uint32_t)(k->extent[keys] - j < KIR_WIDTH ? k->extent[keys] - j : KIR_WIDTH);
        k->i[keys] = j;
        make_scores(k, w);
        dt_kir_eval(k, &k->points[phase], w);
        for (uint32_t s = 0; s < k->n_stores; s++)
            if (dt_kir_stores_at(k, s, phase, true))
                dt_kir_store(k, &k->stores[s], w);
        for (uint32_t l = 0; l < w; l++) {
            k->i[keys] = j + l;
            add_point(k, phase, l);
        }
    }
    k->i[keys] = 0;
}

/* Writes (or adds, if the sum accumulates) a row of a sum to its place in the result. */
static void put_row(DtKirKernel *k, const KirSum *sum, const float *from)
{
    const int64_t to = dt_kir_affine(k, sum->to.offset, sum->to.stride);
    for (uint32_t d = 0; d < sum->to.depth && !k->strayed; d++)
        dt_kir_put(k, sum->to.pointer, dt_kir_plus(to, dt_kir_times(d, sum->to.along)),
                   (KirCell){.f = from[d]}, true, sum->accumulate);
}

static void row(DtKirKernel *k)
{
    for (uint32_t i = 0; i < k->n_sums; i++)
        if (k->sums[i].over_keys)
            memset(k->sums[i].sums, 0, k->sums[i].to.depth * sizeof(float));
    for (uint32_t phase = 0; phase <= k->last_phase; phase++) {
        dt_kir_eval(k, &k->scalars[phase], 1);
        for (uint32_t i = 0; i < k->scalars[phase].n; i++)
            dt_kir_spread(&k->nodes[k->scalars[phase].at[i]]);
        for (uint32_t s = 0; s < k->n_stores; s++)
            if (dt_kir_stores_at(k, s, phase, false))
                dt_kir_store(k, &k->stores[s], 1);
        for (uint32_t i = 0; i < k->n_nodes; i++)
            if (dt_kir_reduces_at(k, i, phase))
                dt_kir_begin(&k->nodes[i], k->nodes[i].sum, 1);
        row_points(k, phase);
        for (uint32_t i = 0; i < k->n_nodes; i++)
            if (dt_kir_reduces_at(k, i, phase)) {
                k->nodes[i].value[0] = k->nodes[i].sum[0];
                dt_kir_spread(&k->nodes[i]);
            }
    }
    for (uint32_t i = 0; i < k->n_sums; i++)
        if (k->sums[i].over_keys)
            put_row(k, &k->sums[i], k->sums[i].sums);
}

/* Moves the indices of these axes (bits) to the next point. False after the last one, when all of
 * them are 0 again, or after an error. */
static bool next_of(DtKirKernel *k, uint32_t axes)
{
    for (uint32_t a = k->n_axes; a-- > 0;) {
        if (!(axes >> a & 1))
            continue;
        if (++k->i[a] < k->extent[a])
            return !k->strayed;
        k->i[a] = 0;
    }
    return false;
}

static void finish(DtKirKernel *k)
{
    for (uint32_t i = 0; i < k->n_sums; i++) {
        const KirSum *sum = &k->sums[i];
        const uint32_t left = left_by(k, sum);
        if (sum->over_keys)
            continue;
        do
            put_row(k, sum, sum->sums + place(k, left) * sum->to.depth);
        while (next_of(k, left));
    }
    for (uint32_t s = 0; s < k->n_stores; s++) {
        KirNode *node = &k->nodes[k->stores[s].node];
        if (!node->after_rows || node->kind != KIR_REDUCE)
            continue;
        do {
            node->value[0] = node->sum[place(k, node->axes)];
            dt_kir_store(k, &k->stores[s], 1);
        } while (next_of(k, node->axes));
    }
}

void dt_kir_attend(DtKirKernel *k)
{
    for (uint32_t i = 0; i < k->n_sums; i++) {
        KirSum *sum = &k->sums[i];
        int64_t rows = 1;
        for (uint32_t a = 0; a < k->n_axes; a++)
            rows *= !sum->over_keys && left_by(k, sum) >> a & 1 ? k->extent[a] : 1;
        memset(sum->sums, 0, (size_t)(rows * sum->to.depth) * sizeof(float));
    }
    for (uint32_t n = 0; n < k->n_nodes; n++) {
        KirNode *node = &k->nodes[n];
        int64_t cells = 1;
        for (uint32_t a = 0; a < k->n_axes; a++)
            cells *= node->axes >> a & 1 ? k->extent[a] : 1;
        if (node->kind == KIR_REDUCE && node->after_rows && node->live)
            dt_kir_begin(node, node->sum, cells);
    }
    do
        row(k);
    while (dt_kir_next(k, 0, keys_of(k)));
    if (!k->strayed)
        finish(k);
}
