/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as CUDA: what nodes say (codegen/print.h) inside of loops over the items that a thread, or a group of
 * threads, has (tile.h). Text in the common subset of C and CUDA C++, which touches the machine only by names of
 * kernels/device.h; kernels/host.h has the same names for a processor.
 *
 *   points     for (r = ..; r < points; r += ..) { indices; [loads; for points of the thread] { nodes; stores } }
 *   rows       for (r0 = ..; r0 < rows; r0 += ..) { indices; for each phase { scalars; lanes; combine } }
 *   columns    for (r = ..; r < columns; r += ..) { indices; for inner { accumulate } stores }
 *   pieces     rows or columns, each in pieces, whose results go to the workspace; then a second kernel:
 *              for (r0 = ..; r0 < rows or columns; r0 += ..) { indices; lanes of pieces; combine; stores }
 *   sums       over rows: for (u0 = ..; u0 < pieces; u0 += ..) { for rows of the piece { rows }; results as of pieces }
 *   by index   scatter.c
 *   others     for (r = ..; r < items; r += ..) { indices; scan, top-k or sum by index, one after the other }
 *
 * In rows, a group of the last warp may have no row left. It goes along, since all threads of a warp combine lanes
 * together, but through no elements, and stores nothing. */
#include "codegen/cuda/attend_print.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/scatter.h"
#include "codegen/cuda/tile.h"
#include "codegen/cuda/wide.h"

#include <string.h>

#define line dt_print_line

/* i0 .. of the free axes, from the number r of the item. */
static void indices(DtPrint *c, const DtTile *tile)
{
    int64_t inside = 1;
    for (uint32_t a = c->k->n_axes; a-- > 0;) {
        const bool several = a + 1 == c->k->n_axes && !tile->lanes && tile->vector > 1; /* the first of them */
        const long long extent = c->k->extent[a] / (several ? tile->vector : 1);
        if (!(tile->free >> a & 1))
            continue;
        const char *at = inside == 1 ? "r" : dt_arena_printf(c->arena, "r / %lld", (long long)inside);
        inside *= extent;
        if (several)
            line(c, "const int64_t j = %s %% %lld * %u, i%u = j; /* %s */", at, extent, tile->vector, a, c->k->axis[a]);
        else if (inside == tile->items)
            line(c, "const int64_t i%u = %s; /* %s */", a, at, c->k->axis[a]);
        else
            line(c, "const int64_t i%u = %s %% %lld; /* %s */", a, at, extent, c->k->axis[a]);
    }
}

/* Item and piece of number u; in a row that is none, to ends it at once. */
static void piece_lines(DtPrint *c, const DtTile *tile, const char *u, const char *here)
{
    const long long items = (long long)tile->items, extent = c->k->extent[c->k->piece_axis], of = c->k->piece;
    line(c, "const int64_t r = %s %% %lld, piece = %s / %lld, from = %lld * piece;", u, items, u, items, of);
    line(c, "const int64_t to = %spiece == %lld ? %lld : from + %lld;", here, (long long)tile->pieces - 1, extent, of);
}

static void open_items(DtPrint *c, const DtTile *tile)
{
    const char *u = c->k->pieces ? "u" : "r";
    line(c, "for (int64_t %s = DT_BLOCK * %u + DT_THREAD; %s < %lld; %s += DT_BLOCKS * %u) {", u, tile->threads, u,
         (long long)(tile->items * tile->pieces), u, tile->threads);
    c->depth++;
    if (c->k->pieces)
        piece_lines(c, tile, u, "");
    indices(c, tile);
}

static uint32_t pieces_before(const DtPrint *c, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        n += dt_print_is_in_pieces(c, i);
    return n;
}

/* How many results reductions in pieces have: rows, columns, or elements of a row. */
static int64_t results_of(const DtPrint *c, const DtTile *tile)
{
    int64_t n = 1;
    for (uint32_t a = c->k->n_outer; a < c->k->n_axes; a++)
        n *= c->k->extent[a];
    return c->k->pieces_of_rows ? n : tile->items;
}

/* Where the workspace has result r of a piece. */
static const char *part(DtPrint *c, const DtTile *tile, uint32_t k)
{
    return dt_arena_printf(c->arena, "((%s *)w)[(%lld + piece) * %lld + r]",
                           dt_print_register(c->k->nodes.at[k].dtype), (long long)(pieces_before(c, k) * tile->pieces),
                           (long long)results_of(c, tile));
}

static uint64_t workspace_of(const DtPrint *c, const DtTile *tile)
{
    return pieces_before(c, c->k->nodes.n) * (uint64_t)(tile->pieces * results_of(c, tile)) * sizeof(float);
}

/* All, or those of sums over rows, if others are stored with the rows. */
static void need_stores(DtPrint *c)
{
    dt_print_forget(c);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_late_store(c, s) == c->k->pieces_of_rows)
            dt_print_need(c, c->k->stores.at[s].node);
}

static void all_stores(DtPrint *c)
{
    need_stores(c);
    dt_print_define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_late_store(c, s) == c->k->pieces_of_rows)
            dt_print_store(c, &c->k->stores.at[s]);
}

/* Those of a thread, from j on along the last axis. */
static void open_elements(DtPrint *c, uint32_t n)
{
    const uint32_t last = c->k->n_axes - 1;
    line(c, "DT_UNROLL for (int l = 0; l < %u; l++) {", n);
    c->depth++;
    line(c, "const int64_t i%u = j + l; /* %s */", last, c->k->axis[last]);
}

static void print_points(DtPrint *c, const DtTile *tile)
{
    open_items(c, tile);
    if (tile->vector == 1) {
        all_stores(c);
        dt_print_close(c, 1);
        return;
    }
    need_stores(c);
    dt_print_define(c, (1u << (c->k->n_axes - 1)) - 1, true); /* the same for all of the thread's */
    dt_wide_take(c, tile->vector, UINT32_MAX, true);
    open_elements(c, tile->vector);
    all_stores(c);
    dt_print_close(c, 1);
    dt_wide_give(c, tile->vector, UINT32_MAX, true);
    dt_print_close(c, 1);
}

/* Kernels whose order of work is part of their meaning: in each thread, that of the target "cpu". */
static void print_special(DtPrint *c, const DtTile *tile)
{
    open_items(c, tile);
    dt_print_special(c);
    dt_print_close(c, 1);
}

/* ---- reductions ---- */

/* lanes: of this thread. */
static void begin_lanes(DtPrint *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s s%u[%u];", dt_print_register(node->dtype), k, lanes);
            line(c, "for (int l = 0; l < %u; l++) s%u[l] = %s;", lanes, k, dt_print_identity(c, node));
        }
}

static void accumulate(DtPrint *c, uint32_t phase, const char *at)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase))
            dt_print_accumulate(c, k, at);
}

static void print_columns(DtPrint *c, const DtTile *tile)
{
    const DtKernel *k = c->k;
    open_items(c, tile);
    begin_lanes(c, 0, 1);
    for (uint32_t a = k->n_outer; a < k->n_axes; a++)
        dt_print_open(c, a);
    dt_print_forget(c);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (dt_print_reduces_at(c, n, 0))
            dt_print_need(c, k->nodes.at[n].args[0]);
    dt_print_define(c, UINT32_MAX, false);
    accumulate(c, 0, "0");
    dt_print_close(c, k->n_axes - k->n_outer);
    for (uint32_t n = 0; n < k->nodes.n && k->pieces; n++)
        if (dt_print_reduces_at(c, n, 0))
            line(c, "%s = s%u[0];", part(c, tile, n), n);
    for (uint32_t n = 0; n < k->nodes.n && !k->pieces; n++)
        if (dt_print_reduces_at(c, n, 0)) {
            line(c, "const %s n%u = s%u[0];", dt_print_register(k->nodes.at[n].dtype), n, n);
            c->defined[n] = true;
        }
    if (!k->pieces)
        all_stores(c);
    dt_print_close(c, 1);
}

/* ---- rows ---- */

/* Stores along the row, or once for it, in that phase. */
static bool stores_at(const DtPrint *c, uint32_t s, uint32_t phase, bool along)
{
    const uint32_t inner = ((1u << c->k->n_axes) - 1) & ~((1u << c->k->n_outer) - 1);
    return c->store_phase[s] == phase && ((c->store_axes[s] & inner) != 0) == along && !dt_print_is_late_store(c, s);
}

/* Values of the row, and stores of them: by one thread, when the others have read what may lie there. */
static void row_scalars(DtPrint *c, const DtTile *tile, uint32_t phase)
{
    const uint32_t outer = (1u << c->k->n_outer) - 1;
    bool stores = false;
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->live[k] && !(c->k->nodes.at[k].axes & ~outer) && c->k->nodes.at[k].phase == phase)
            dt_print_need(c, k);
    dt_print_define(c, outer, true);
    for (uint32_t s = 0; s < c->k->stores.n && !dt_print_in_pieces(c, c->k->piece_axis); s++)
        stores = stores || stores_at(c, s, phase, false);
    if (!stores)
        return;
    line(c, "dt_warp();");
    line(c, "if (here && DT_THREAD %% %u == 0) {", tile->group);
    c->depth++;
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, false))
            dt_print_store(c, &c->k->stores.at[s]);
    dt_print_close(c, 1);
}

/* Marks what the points of a row need in that phase; false: nothing happens there. */
static bool need_points(DtPrint *c, uint32_t phase, bool *ret_reduces)
{
    bool any = false;
    *ret_reduces = false;
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            dt_print_need(c, c->k->nodes.at[k].args[0]);
            *ret_reduces = any = true;
        } else if (dt_print_adds_at(c, k, phase)) {
            dt_print_need(c, c->k->nodes.at[k].args[0]);
            any = true;
        }
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, true)) {
            dt_print_need(c, c->k->stores.at[s].node);
            any = true;
        }
    return any;
}

static void row_points(DtPrint *c, const DtTile *tile, uint32_t phase)
{
    const uint32_t last = c->k->n_axes - 1;
    const bool whole = c->k->extent[last] % tile->vector == 0, pieces = dt_print_in_pieces(c, last);
    for (uint32_t a = c->k->n_outer; a < last; a++)
        dt_print_open(c, a);
    line(c, "for (int64_t j = %s%u * (DT_THREAD %% %u); j < %s; j += %u) {", pieces ? "from + " : "", tile->vector,
         tile->group, pieces ? "to" : "n", tile->lanes);
    c->depth++;
    line(c, "const int64_t i%u = j%s;", last, whole ? "" : pieces ? ", left = to - j" : ", left = n - j");
    dt_wide_take(c, tile->vector, phase, whole);
    open_elements(c, tile->vector);
    if (!whole) {
        line(c, "if (l < left) {");
        c->depth++;
    }
    dt_print_define(c, UINT32_MAX, false);
    accumulate(c, phase, "l");
    int64_t n;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_adds_at(c, k, phase))
            dt_print_accumulate(c, k, dt_print_late_element(c, &n));
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, true))
            dt_print_store(c, &c->k->stores.at[s]);
    dt_print_close(c, whole ? 1 : 2);
    dt_wide_give(c, tile->vector, phase, whole);
    dt_print_close(c, 1 + last - c->k->n_outer);
}

static void combine_lanes(DtPrint *c, const DtTile *tile, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    line(c, "const %s n%u = %s_group(s%u, %u, %u);", dt_print_register(node->dtype), k, dt_print_reduce(node), k,
         tile->group, tile->vector);
    c->defined[k] = true;
}

static void combine(DtPrint *c, const DtTile *tile, uint32_t phase)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase))
            combine_lanes(c, tile, k);
}

static void row_phases(DtPrint *c, const DtTile *tile)
{
    indices(c, tile);
    for (uint32_t phase = 0; phase <= c->last_phase && !(dt_print_in_pieces(c, c->k->piece_axis) && phase); phase++) {
        bool reduces;
        row_scalars(c, tile, phase);
        if (!need_points(c, phase, &reduces))
            continue;
        begin_lanes(c, phase, tile->vector);
        row_points(c, tile, phase);
        combine(c, tile, phase);
        for (uint32_t k = 0; k < c->k->nodes.n; k++)
            if (dt_print_is_in_pieces(c, k) && dt_print_reduces_at(c, k, phase))
                line(c, "if (here && DT_THREAD %% %u == 0) %s = n%u;", tile->group, part(c, tile, k), k);
    }
}

static void print_rows(DtPrint *c, const DtTile *tile)
{
    const uint32_t rows = tile->threads / tile->group;
    const long long items = (long long)(tile->items * tile->pieces);
    line(c, "for (int64_t r0 = DT_BLOCK * %u; r0 < %lld; r0 += DT_BLOCKS * %u) {", rows, items, rows);
    c->depth++;
    line(c, "const int64_t r1 = r0 + DT_THREAD / %u;", tile->group);
    line(c, "const int here = r1 < %lld;", items);
    line(c, "const int64_t %s = here ? r1 : %lld, n = here ? %lld : 0;", c->k->pieces ? "u" : "r", items - 1,
         (long long)c->k->extent[c->k->n_axes - 1]);
    if (c->k->pieces)
        piece_lines(c, tile, "u", "!here ? from : ");
    row_phases(c, tile);
    dt_print_close(c, 1);
}

/* For each sum over rows, a loop of the group over its elements, and what is done with element s<k>[r]. */
static void each_sum(DtPrint *c, const DtTile *tile, bool ends)
{
    line(c, "for (int64_t r = DT_THREAD %% %u; r < %lld; r += %u) {", tile->group, (long long)results_of(c, tile),
         tile->group);
    c->depth++;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k) && ends)
            line(c, "if (u1 < %lld) %s = s%u[r];", (long long)tile->pieces, part(c, tile, k), k);
        else if (dt_print_is_in_pieces(c, k))
            line(c, "s%u[r] = %s;", k, dt_print_identity(c, &c->k->nodes.at[k]));
    dt_print_close(c, 1);
}

/* Rows with sums over them: a group goes through a piece of the rows, one after the other. */
static void print_summed_rows(DtPrint *c, const DtTile *tile)
{
    const uint32_t at_once = tile->threads / tile->group, sums = pieces_before(c, c->k->nodes.n);
    const long long pieces = (long long)tile->pieces, rows = (long long)tile->items, of = (long long)c->k->piece;
    line(c, "for (int64_t u0 = DT_BLOCK * %u; u0 < %lld; u0 += DT_BLOCKS * %u) {", at_once, pieces, at_once);
    c->depth++;
    line(c, "const int64_t u1 = u0 + DT_THREAD / %u, piece = u1 < %lld ? u1 : %lld, from = %lld * piece;", tile->group,
         pieces, pieces - 1, of);
    line(c, "const int64_t to = u1 >= %lld ? from : piece == %lld ? %lld : from + %lld;", pieces, pieces - 1, rows, of);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k)) {
            const char *type = dt_print_register(c->k->nodes.at[k].dtype);
            line(c, "%s *s%u = (%s *)DT_SUMS + (DT_THREAD / %u * %u + %u) * %lld;", type, k, type, tile->group, sums,
                 pieces_before(c, k), (long long)results_of(c, tile));
        }
    each_sum(c, tile, false);
    line(c, "dt_warp();");
    line(c, "for (int64_t r1 = from; r1 < from + %lld; r1++) {", of);
    c->depth++;
    line(c, "const int here = r1 < to;");
    line(c, "const int64_t r = here ? r1 : %lld, n = here ? %lld : 0;", rows - 1,
         (long long)c->k->extent[c->k->n_axes - 1]);
    row_phases(c, tile);
    dt_print_close(c, 1);
    line(c, "dt_warp();");
    each_sum(c, tile, true);
    dt_print_close(c, 1);
}

/* ---- pieces ---- */

/* The second kernel: threads as many as lanes combine the pieces of a result. */
static void print_pieces(DtPrint *c, const DtTile *tile)
{
    const uint32_t at_once = tile->threads / DT_KPIECE_LANES, all = (1u << c->k->n_axes) - 1;
    const long long items = (long long)results_of(c, tile);
    const DtTile results = {.items = items, .lanes = DT_KPIECE_LANES, .group = DT_KPIECE_LANES, .vector = 1,
                            .free = c->k->pieces_of_rows ? all & ~tile->free : tile->free};
    c->known = results.free;
    c->wide = c->wide_stores = NULL; /* a thread has one element */
    line(c, "for (int64_t r0 = DT_BLOCK * %u; r0 < %lld; r0 += DT_BLOCKS * %u) {", at_once, items, at_once);
    c->depth++;
    line(c, "const int64_t r1 = r0 + DT_THREAD / %u;", DT_KPIECE_LANES);
    line(c, "const int here = r1 < %lld;", items);
    line(c, "const int64_t r = here ? r1 : %lld;", items - 1);
    indices(c, &results);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k))
            line(c, "%s s%u[1] = {%s};", dt_print_register(c->k->nodes.at[k].dtype), k,
                 dt_print_identity(c, &c->k->nodes.at[k]));
    line(c, "for (int64_t piece = DT_THREAD %% %u; piece < %lld; piece += %u) {", DT_KPIECE_LANES,
         (long long)tile->pieces, DT_KPIECE_LANES);
    c->depth++;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k)) {
            const char *lane = dt_arena_printf(c->arena, "s%u[0]", k);
            line(c, "%s = %s;", lane, dt_print_combine(c, &c->k->nodes.at[k], lane, part(c, tile, k)));
        }
    dt_print_close(c, 1);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k))
            combine_lanes(c, &results, k);
    line(c, "if (here && DT_THREAD %% %u == 0) {", DT_KPIECE_LANES);
    c->depth++;
    all_stores(c);
    dt_print_close(c, 2);
}

/* ---- a whole kernel ---- */

static uint32_t at_least_one(uint32_t n) { return n ? n : 1; } /* members of a struct */

/* suffix: of the symbol, where a kernel has two. */
static void head(DtPrint *c, const char *suffix, int64_t blocks, uint32_t threads)
{
    const DtKernel *k = c->k;
    const uint32_t pointers = k->pointers.n + (k->pieces != 0);
    c->depth = 0;
    line(c, "DT_KERNEL(%s%s, %lld, %u, %u, %u)", k->symbol, suffix, (long long)blocks, threads, at_least_one(pointers),
         at_least_one(k->ints.n));
    line(c, "{");
    c->depth++;
    line(c, "DT_ARGUMENTS");
    if (k->pieces)
        line(c, "char *w = p[%u]; /* workspace */", k->pointers.n);
    dt_print_arguments(c);
}

static void foot(DtPrint *c)
{
    c->depth = 0;
    line(c, "}");
}

enum { FEW_THREADS = 8192, LONG = 256 };

/* What leaves a GPU idle is said. */
static void lint(const DtKernel *k, const DtTile *tile, DtDiags *diags)
{
    const int64_t items = k->pieces_of_rows ? 1 : tile->items;
    const long long threads = (long long)(tile->places ? tile->blocks * tile->threads
                                                       : items * tile->pieces * tile->group);
    const double each = k->pieces_of_rows ? tile->each * (double)tile->items : tile->each;
    if (threads >= FEW_THREADS || each < LONG)
        return;
    DtDiag *diag = dt_diag_report(diags, L0589, k->span,
                                  "a kernel of %lld threads, each of which goes through %.0f elements", threads,
                                  each);
    dt_diag_note(diag, "kernel `%s`, for GPUs", k->name);
}

/* Ready to print, with what is computed at all; the caller frees c->arena. */
static DtTile begin(const DtKernel *kernel, DtText *text, DtPrint *c, DtAttendTile *ret_attend)
{
    dt_print_begin(kernel, text, c);
    if (kernel->attend) {
        const char *why = dt_attend_tile(kernel, ret_attend);
        if (why)
            dt_print_fail(c, why);
        return (DtTile){.threads = ret_attend->threads, .blocks = ret_attend->blocks};
    }
    *ret_attend = (DtAttendTile){.shared = 0};
    if (kernel->special)
        dt_print_special_live(c);
    const DtTile tile = dt_tile_of(kernel, c->live);
    if (!tile.threads) /* limits of the target leave none */
        dt_print_fail(c, "sums over rows that a block has no room for");
    return tile;
}

static uint32_t finish_blocks(const DtPrint *c, const DtTile *tile)
{
    return (uint32_t)dt_tile_blocks(results_of(c, tile), tile->threads / DT_KPIECE_LANES);
}

DtPlanLaunch dt_cuda_launch(const DtKernel *kernel)
{
    DtPrint print;
    DtText text = {0};
    DtAttendTile attend;
    const DtTile tile = begin(kernel, &text, &print, &attend);
    const DtPlanLaunch launch = {.blocks = (uint32_t)tile.blocks,
                                 .threads = tile.threads,
                                 .shared = kernel->attend ? attend.shared : tile.shared,
                                 .finish = kernel->pieces ? finish_blocks(&print, &tile) : 0,
                                 .workspace = workspace_of(&print, &tile)};
    dt_arena_free(print.arena);
    dt_text_free(&text);
    return launch;
}

size_t dt_cuda_print(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text)
{
    DtPrint print, *c = &print;
    DtAttendTile attend;
    const DtTile tile = begin(kernel, ret_text, c, &attend);
    c->lines = lines ? diags : NULL;
    c->known = tile.free;
    if (tile.lanes || tile.vector > 1)
        dt_wide_choose(c, tile.vector);
    if (lines && !kernel->attend)
        lint(kernel, &tile, diags);
    dt_print_title(c, diags);
    const size_t body = ret_text->len;
    if (kernel->pieces)
        line(c, "DT_PIECES(%s, %u, %llu)", kernel->symbol, kernel->pointers.n,
             (unsigned long long)workspace_of(c, &tile));
    head(c, kernel->pieces ? DT_PLAN_PIECES : "", tile.blocks, tile.threads);
    if (kernel->attend)
        dt_attend_print(c, &attend);
    else if (tile.places)
        dt_scatter_print(c, &tile);
    else if (kernel->special)
        print_special(c, &tile);
    else if (kernel->pieces_of_rows)
        print_summed_rows(c, &tile);
    else if (tile.lanes)
        print_rows(c, &tile);
    else if (tile.free + 1 < 1u << kernel->n_axes)
        print_columns(c, &tile);
    else
        print_points(c, &tile);
    foot(c);
    if (kernel->pieces) {
        memset(c->defined, 0, kernel->nodes.n * sizeof c->defined[0]);
        head(c, DT_PLAN_FINISH, finish_blocks(c, &tile), tile.threads);
        print_pieces(c, &tile);
        foot(c);
    }
    if (kernel->sdpa && kernel->sdpa->pointer[DT_SDPA_MAX] >= 0)
        dt_cuda_statistic_print(c);
    dt_text_add(ret_text, "\n");
    dt_arena_free(c->arena);
    return body;
}
