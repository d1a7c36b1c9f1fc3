/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, once per kernel, what its loops evaluate: nodes that depend on outer axes only are
 * evaluated once in a row, in the phase in which they are known; the others for each point of a
 * phase that needs them. */
#include "kir/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 1 << 26 };

typedef struct Preparing {
    DtKirKernel *k;
    uint32_t outer; /* bits: axes of the loops around a row; nodes that depend on these only are
                     * evaluated once per row */
    bool rows;      /* there are such loops */
    bool *seen;     /* by node: it was visited */
    int64_t cells;  /* bytes of scratch memory that the kernel may still use */
    bool failed;
} Preparing;

static KirCell *cells(Preparing *p, int64_t n, int64_t each)
{
    KirCell *at = NULL;
    if (n <= p->cells / each)
        at = calloc((size_t)(n * each) + 1, sizeof *at);
    p->cells -= at ? n * each : 0;
    p->failed = p->failed || !at;
    return at;
}

/* ---- liveness ---- */

static void live(DtKirKernel *k, uint32_t n)
{
    KirNode *node = &k->nodes[n];
    if (node->live)
        return;
    node->live = true;
    k->last_phase = node->phase > k->last_phase ? node->phase : k->last_phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        live(k, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != KIR_NONE)
            live(k, node->index[d].node);
}

static void find_live(DtKirKernel *k)
{
    for (uint32_t s = 0; s < k->n_stores; s++) {
        KirStore *store = &k->stores[s];
        live(k, store->node);
        store->axes = k->nodes[store->node].axes;
        store->phase = k->nodes[store->node].phase;
        for (uint32_t a = 0; a < k->n_axes; a++)
            store->axes |= (uint32_t)(store->stride[a] != 0) << a;
    }
    for (uint32_t t = 0; t < k->n_targets; t++)
        live(k, k->targets[t].node);
    for (uint32_t i = 0; i < k->n_sums; i++)
        live(k, k->sums[i].node);
}

bool dt_kir_reduces_at(const DtKirKernel *k, uint32_t n, uint32_t phase)
{
    const KirNode *node = &k->nodes[n];
    return node->kind == KIR_REDUCE && !node->after_rows && node->live &&
           k->nodes[node->args[0]].phase == phase;
}

bool dt_kir_adds_at(const DtKirKernel *k, uint32_t n, uint32_t phase)
{
    const KirNode *node = &k->nodes[n];
    return node->kind == KIR_REDUCE && node->after_rows && node->live && node->phase == phase;
}

bool dt_kir_stores_at(const DtKirKernel *k, uint32_t s, uint32_t phase, bool points)
{
    const KirStore *store = &k->stores[s];
    const bool of_points = store->axes >> k->first_inner;
    return of_points == points && store->phase == phase && !k->nodes[store->node].after_rows;
}

/* ---- lists of nodes ---- */

static bool is_scalar(const Preparing *p, uint32_t n)
{
    return p->rows && !(p->k->nodes[n].axes & ~p->outer);
}

static void need(Preparing *p, uint32_t n)
{
    const KirNode *node = &p->k->nodes[n];
    if (p->seen[n] || node->kind == KIR_REDUCE || is_scalar(p, n))
        return;
    p->seen[n] = true;
    for (uint32_t i = 0; i < node->n_args; i++)
        need(p, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != KIR_NONE)
            need(p, node->index[d].node);
}

/* Copies the visited nodes to the list, in order, and marks all nodes as not visited. */
static void take(Preparing *p, KirList *ret)
{
    const uint32_t n = p->k->n_nodes;
    ret->at = calloc(n + 1, sizeof ret->at[0]);
    p->failed = p->failed || !ret->at;
    for (uint32_t i = 0; i < n && ret->at; i++)
        if (p->seen[i])
            ret->at[ret->n++] = i;
    memset(p->seen, 0, n * sizeof p->seen[0]);
}

static void list_scalars(Preparing *p, uint32_t phase)
{
    const DtKirKernel *k = p->k;
    for (uint32_t i = 0; i < k->n_nodes; i++)
        p->seen[i] = k->nodes[i].live && is_scalar(p, i) && k->nodes[i].phase == phase &&
                     k->nodes[i].kind != KIR_REDUCE;
    take(p, &p->k->scalars[phase]);
}

static void list_points(Preparing *p, uint32_t phase)
{
    const DtKirKernel *k = p->k;
    const bool is_row = k->pattern == KIR_ROW || k->pattern == KIR_ATTEND;
    for (uint32_t i = 0; i < k->n_nodes; i++)
        if (dt_kir_reduces_at(k, i, phase) || dt_kir_adds_at(k, i, phase))
            need(p, k->nodes[i].args[0]);
    for (uint32_t s = 0; s < k->n_stores && is_row; s++)
        if (dt_kir_stores_at(k, s, phase, true))
            need(p, k->stores[s].node);
    for (uint32_t i = 0; i < k->n_sums; i++)
        if (k->nodes[k->sums[i].node].phase == phase)
            need(p, k->sums[i].node);
    for (uint32_t i = 0; i < k->n_nodes; i++) /* scans, top-k, sums by index: one phase evaluates
                                               * everything */
        if (!is_row && k->pattern != KIR_COLUMN && k->nodes[i].live)
            need(p, i);
    take(p, &p->k->points[phase]);
}

static void list_final(Preparing *p)
{
    const DtKirKernel *k = p->k;
    p->rows = false;
    for (uint32_t s = 0; s < k->n_stores; s++)
        if (k->pattern == KIR_COLUMN || k->nodes[k->stores[s].node].after_rows)
            need(p, k->stores[s].node);
    take(p, &p->k->final);
}

/* ---- memory ---- */

static int64_t elements(const DtKirKernel *k, uint32_t axes)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        n *= axes >> a & 1 ? k->extent[a] : 1;
    return n;
}

static void make_room_for_sum(Preparing *p, KirNode *node)
{
    const DtKirKernel *k = p->k;
    const int64_t n = k->pattern == KIR_COLUMN   ? KIR_WIDTH
                      : k->pattern == KIR_ATTEND ? elements(k, node->after_rows ? node->axes : 0)
                      : node->after_rows      ? k->n_row_sums
                                              : k->n_lanes;
    node->sum = cells(p, n, 1);
    node->pieces = cells(p,
                         k->pattern == KIR_ROW && !node->after_rows ? 1
                         : k->pattern == KIR_ATTEND                 ? 0
                                                                 : n,
                         KIR_LANES);
}

static void make_room(Preparing *p)
{
    DtKirKernel *k = p->k;
    int64_t places = 1;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        k->nodes[i].value = cells(p, KIR_WIDTH, 1);
        if (k->nodes[i].kind == KIR_REDUCE && k->nodes[i].live)
            make_room_for_sum(p, &k->nodes[i]);
    }
    for (uint32_t i = 0; i < k->n_sums; i++) {
        KirSum *sum = &k->sums[i];
        const uint32_t keys = 1u << (k->n_axes - 1), queries = keys >> 1;
        const int64_t n = sum->over_keys ? 1 : elements(k, ~(sum->away | queries));
        sum->sums = (float *)cells(p, n, sum->to.depth);
    }
    for (uint32_t t = 0; t < k->n_targets && k->pieces_of == KIR_OF_POINTS; t++) {
        p->failed = p->failed || k->targets[t].extent > MOST_CELLS / places;
        places *= p->failed ? 1 : k->targets[t].extent;
    }
    if (k->pieces_of == KIR_OF_POINTS) {
        const int64_t items = elements(k, dt_kir_kept(k));
        p->failed = p->failed || items > MOST_CELLS / places;
        k->by_index = p->failed ? NULL : cells(p, places * items, 1 + KIR_LANES);
    }
}

/* Returns the axes (bits) of the result of a sum by index that no index chooses: those along which
 * the result has a stride. */
uint32_t dt_kir_kept(const DtKirKernel *k)
{
    uint32_t axes = 0;
    for (uint32_t a = 0; a < k->n_axes; a++)
        axes |= (uint32_t)(k->stores[0].stride[a] != 0) << a;
    return axes;
}

bool dt_kir_prepare(DtKirKernel *k)
{
    Preparing p = {.k = k, .cells = MOST_CELLS, .seen = calloc(k->n_nodes + 1, sizeof(bool))};
    const bool is_row = k->pattern == KIR_ROW || k->pattern == KIR_ATTEND;
    const bool has_inner = k->n_outer < k->n_axes;
    find_live(k);
    k->first_inner = has_inner ? k->n_outer : k->n_axes ? k->n_axes - 1 : 0;
    p.outer = (1u << k->first_inner) - 1;
    p.rows = is_row;
    k->n_row_sums = elements(k, ~((1u << k->n_outer) - 1));
    k->scalars = calloc(k->last_phase + 1u, sizeof k->scalars[0]);
    k->points = calloc(k->last_phase + 1u, sizeof k->points[0]);
    if (!p.seen || !k->scalars || !k->points) {
        free(p.seen);
        return false;
    }
    for (uint32_t phase = 0; phase <= k->last_phase; phase++) {
        if (is_row)
            list_scalars(&p, phase);
        list_points(&p, phase);
    }
    list_final(&p);
    make_room(&p);
    free(p.seen);
    return !p.failed;
}
