/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as CUDA: what nodes say (codegen/print.h) inside of loops over the items that a thread,
 * or a group of threads, has (tile.h). Text in the common subset of C and CUDA C++, which touches
 * the machine only by names of kernels/device.h; kernels/host.h has the same names for a processor.
 *
 *   points     for (r = ..; r < points; r += ..) { indices; [loads; for points of the thread] {
 *              nodes; stores } }
 *   rows       rows.c, with sums over them
 *   columns    for (r = ..; r < columns; r += ..) { indices; for inner { accumulate } stores }
 *   pieces     rows or columns, each in pieces, whose results go to the workspace; then a second
 *              kernel: for (r0 = ..; r0 < rows or columns; r0 += ..) { indices; lanes of pieces;
 *              combine; stores } (pieces.c)
 *   by index   scatter.c, in pieces, too
 *   others     for (r = ..; r < items; r += ..) { indices; scan, top-k or sum by index, one after
 *              the other } */
#include "codegen/cuda/attend_print.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/draws.h"
#include "codegen/cuda/items.h"
#include "codegen/cuda/pieces.h"
#include "codegen/cuda/rows.h"
#include "codegen/cuda/scatter.h"
#include "codegen/cuda/tile.h"
#include "codegen/cuda/wide.h"

#include <string.h>

#define line dt_print_line

static void open_items(DtPrint *c, const DtTile *tile)
{
    const char *u = c->k->pieces ? "u" : "r";
    line(c, "for (int64_t %s = DT_BLOCK * %u + DT_THREAD; %s < %lld; %s += DT_BLOCKS * %u) {", u,
         tile->threads, u, (long long)(tile->items * tile->pieces), u, tile->threads);
    c->depth++;
    if (c->k->pieces)
        dt_items_piece(c, tile, u, "");
    dt_items_indices(c, tile);
}

static void print_points(DtPrint *c, const DtTile *tile)
{
    open_items(c, tile);
    if (tile->rows <= 1)
        dt_print_skip(c, tile->vector == 1 ? UINT32_MAX : (1u << (c->k->n_axes - 1)) - 1);
    if (tile->vector == 1) {
        dt_items_stores(c);
        dt_print_close(c, 1);
        return;
    }
    /* nodes that all rows of the thread share */
    const uint32_t same = (1u << (c->k->n_axes - 1)) - 1;
    dt_draws_begin(c, tile);
    dt_items_need_stores(c);
    if (tile->rows > 1) {
        dt_print_define(c, same & ~(1u << tile->rows_axis), true);
        dt_draws_declare(c, tile);
        dt_draws_across(c, tile);
        line(c, "DT_UNROLL for (int d = 0; d < %u; d++) {", tile->rows);
        c->depth++;
        line(c, "const int64_t i%u = first + d; /* %s */", tile->rows_axis,
             c->k->axis[tile->rows_axis]);
    }
    dt_print_define(c, same, true);
    dt_draws_along(c, tile);
    dt_wide_take(c, tile->vector, UINT32_MAX, true);
    dt_items_elements(c, tile->vector);
    dt_items_stores(c);
    dt_print_close(c, 1);
    dt_wide_give(c, tile->vector, UINT32_MAX, true);
    dt_print_close(c, tile->rows > 1 ? 2 : 1);
}

/* Kernels whose order of work is part of their meaning: each thread does its items in the order of
 * the target "cpu". */
static void print_special(DtPrint *c, const DtTile *tile)
{
    open_items(c, tile);
    dt_print_special(c);
    dt_print_close(c, 1);
}

static void print_columns(DtPrint *c, const DtTile *tile)
{
    const DtKernel *k = c->k;
    open_items(c, tile);
    dt_items_lanes(c, 0, 1);
    for (uint32_t a = k->n_outer; a < k->n_axes; a++)
        dt_print_open(c, a);
    dt_print_forget(c);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (dt_print_reduces_at(c, n, 0))
            dt_print_need(c, k->nodes.at[n].args[0]);
    dt_print_define(c, UINT32_MAX, false);
    dt_items_accumulate(c, 0, "0");
    dt_print_close(c, k->n_axes - k->n_outer);
    for (uint32_t n = 0; n < k->nodes.n && k->pieces; n++)
        if (dt_print_reduces_at(c, n, 0))
            line(c, "%s = s%u[0];", dt_pieces_part(c, tile, n), n);
    for (uint32_t n = 0; n < k->nodes.n && !k->pieces; n++)
        if (dt_print_reduces_at(c, n, 0)) {
            line(c, "const %s n%u = s%u[0];", dt_print_register(k->nodes.at[n].dtype), n, n);
            c->defined[n] = true;
        }
    if (!k->pieces)
        dt_items_stores(c);
    dt_print_close(c, 1);
}

/* ---- a whole kernel ---- */

static uint32_t at_least_one(uint32_t n) { return n ? n : 1; } /* members of a struct */

/* suffix: of the symbol, where a kernel has two. */
static void head(DtPrint *c, const char *suffix, int64_t blocks, uint32_t threads)
{
    const DtKernel *k = c->k;
    const uint32_t pointers = k->pointers.n + (k->pieces != 0);
    c->depth = 0;
    line(c, "DT_KERNEL(%s%s, %lld, %u, %u, %u)", k->symbol, suffix, (long long)blocks, threads,
         at_least_one(pointers), at_least_one(k->ints.n));
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

/* Reports kernels that leave most of a GPU idle. */
static void lint(const DtKernel *k, const DtTile *tile, DtDiags *diags)
{
    const int64_t items = k->pieces_of == DT_KPIECES_ROWS ? 1 : tile->items;
    const long long threads = (long long)(tile->places ? tile->blocks * tile->threads
                                                       : items * tile->pieces * tile->group);
    const double each =
        k->pieces_of == DT_KPIECES_ROWS ? tile->each * (double)tile->items : tile->each;
    if (threads >= FEW_THREADS || each < LONG)
        return;
    DtDiag *diag = dt_diag_report(
        diags, L0589, k->span, "a kernel of %lld threads, each of which goes through %.0f elements",
        threads, each);
    dt_diag_note(diag, "kernel `%s`, for GPUs", k->name);
}

/* Prepares printing and marks live nodes; the caller frees c->arena. */
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
    const DtTile tile =
        dt_tile_of(kernel, c->live, kernel->pattern == DT_KPATTERN_ROW ? dt_rows_uses(c) : NULL);
    if (!tile.threads) /* the limits of the target leave no number of threads */
        dt_print_fail(c, "sums over rows that a block has no room for");
    return tile;
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
                                 .finish = kernel->pieces ? dt_pieces_blocks(&print, &tile) : 0,
                                 .workspace = dt_pieces_workspace(&print, &tile)};
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
             (unsigned long long)dt_pieces_workspace(c, &tile));
    head(c, kernel->pieces ? DT_PLAN_PIECES : "", tile.blocks, tile.threads);
    if (kernel->attend)
        dt_attend_print(c, &attend);
    else if (tile.places)
        dt_scatter_print(c, &tile);
    else if (kernel->special)
        print_special(c, &tile);
    else if (kernel->pieces_of == DT_KPIECES_ROWS)
        dt_rows_print_summed(c, &tile);
    else if (tile.lanes)
        dt_rows_print(c, &tile);
    else if (tile.free + 1 < 1u << kernel->n_axes)
        print_columns(c, &tile);
    else
        print_points(c, &tile);
    foot(c);
    if (kernel->pieces) {
        memset(c->defined, 0, kernel->nodes.n * sizeof c->defined[0]);
        memset(c->kept, 0, kernel->nodes.n * sizeof c->kept[0]);
        c->draw = dt_print_draw;
        head(c, DT_PLAN_FINISH, dt_pieces_blocks(c, &tile), tile.threads);
        if (kernel->pieces_of == DT_KPIECES_POINTS)
            dt_scatter_finish(c, &tile);
        else
            dt_pieces_print(c, &tile);
        foot(c);
    }
    if (kernel->sdpa && kernel->sdpa->pointer[DT_SDPA_MAX] >= 0)
        dt_cuda_statistic_print(c);
    dt_text_add(ret_text, "\n");
    dt_arena_free(c->arena);
    return body;
}
