/* SPDX-License-Identifier: Apache-2.0 */
/* A sum by index, of many points into few items: the gradient of a table of 50,257 rows of 768
 * elements, by 32,768 tokens. A block has some places of the indexed axes, and an item (an element
 * of a row) for each thread:
 *
 *   for chunks of the points {
 *       each thread reads some neighbouring ones, and counts those of the block's places
 *       if there are any, threads add up their counts, and each writes its own points, so that
 *       the list
 *       is in order
 *       for places of the block { for points of the list that go there { sum = sum + value } }
 *   }
 *
 * One block adds up a place, in the order of the points, as on a processor. Nothing is atomic, and
 * the bits are the same. All blocks read all indices, which are few compared with the rows.
 *
 * Few places would give few blocks. So if the result is small (FEW_RESULTS), points are cut into
 * pieces, by the kernel's own cut (kernel.h, DT_KPIECES_POINTS). Each block has a piece of them,
 * and writes its sums to the workspace. A second launch combines the pieces, and adds them to
 * the result. */
#include "codegen/cuda/scatter.h"

enum { EACH = 4, FEW_POINTS = 32, LEAST_THREADS = 128, MOST_THREADS = 768, MANY_THREADS = 512,
       RANGES = 1 << 12, WARP = 32, MOST_BLOCKS = 1 << 16 };
/* A sum in pieces: most elements of its result; least points of a piece; least and most pieces. */
enum { FEW_RESULTS = 1 << 14, LEAST_PIECE = 512, LEAST_PIECES = 4, MOST_PIECES = 256 };

#define line dt_print_line

static int64_t points_of(const DtKernel *k, uint32_t axes)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        n *= axes >> a & 1 ? k->extent[a] : 1;
    return n;
}

static uint32_t gone(const DtKernel *k, const DtTile *tile)
{
    return ((1u << k->n_axes) - 1) & ~tile->free;
}

static int64_t places_of(const DtKernel *k)
{
    int64_t n = 1;
    for (uint32_t t = 0; t < k->n_target && n <= INT32_MAX; t++)
        n *= k->target[t].extent;
    return n;
}

static int64_t item_blocks(const DtTile *tile)
{
    return (tile->items + tile->threads - 1) / tile->threads;
}

/* Returns the bits of the space's axes that number the items: those along which the result is
 * stored unchanged. */
static uint32_t free_of(const DtKernel *k)
{
    uint32_t free = 0;
    for (uint32_t a = 0; a < k->n_axes; a++)
        free |= (uint32_t)(k->stores.at[0].stride[a] != 0) << a;
    return free;
}

/* Whether all items share the same indices, so that one list of points serves the block. */
static bool is_listed(const DtKernel *k)
{
    const uint32_t free = free_of(k);
    const int64_t points = points_of(k, ((1u << k->n_axes) - 1) & ~free);
    bool good = k->pattern == DT_KPATTERN_SCATTER && points >= FEW_POINTS && points <= INT32_MAX &&
                places_of(k) <= INT32_MAX;
    for (uint32_t t = 0; t < k->n_target; t++)
        good = good && !(k->nodes.at[k->target[t].node].axes & free);
    return good;
}

int64_t dt_scatter_results(const DtKernel *k) { return places_of(k) * points_of(k, free_of(k)); }

void dt_scatter_pieces(DtKernel *k)
{
    if (!is_listed(k) || dt_scatter_results(k) > FEW_RESULTS)
        return;
    const int64_t points = points_of(k, ((1u << k->n_axes) - 1) & ~free_of(k));
    const int64_t most = points / LEAST_PIECE < MOST_PIECES ? points / LEAST_PIECE : MOST_PIECES;
    if (most < LEAST_PIECES)
        return;
    k->piece = (points + most - 1) / most;
    k->pieces = (points + k->piece - 1) / k->piece;
    k->pieces_of = DT_KPIECES_POINTS;
}

bool dt_scatter_tile(const DtKernel *k, DtTile *tile)
{
    const int64_t places = places_of(k);
    if (!is_listed(k))
        return false;
    const int64_t wanted = (tile->items + WARP - 1) / WARP * WARP;
    const int64_t threads = wanted > MOST_THREADS ? MANY_THREADS : wanted;
    tile->threads = (uint32_t)(threads < LEAST_THREADS ? LEAST_THREADS : threads);
    tile->places = (places + RANGES - 1) / RANGES;
    while ((places + tile->places - 1) / tile->places * item_blocks(tile) > MOST_BLOCKS)
        tile->places *= 2;
    tile->blocks = (places + tile->places - 1) / tile->places * item_blocks(tile) * tile->pieces;
    tile->shared = tile->threads * (1 + 2 * EACH) * (uint32_t)sizeof(int);
    return true;
}

static void define(DtPrint *c) { dt_print_define(c, UINT32_MAX, false); }

/* Prints the definitions of `at` and `place` for a point, which is skipped if an index is out of
 * range. */
static void print_place(DtPrint *c)
{
    const DtKernel *k = c->k;
    dt_print_forget(c);
    for (uint32_t t = 0; t < k->n_target; t++)
        dt_print_need(c, k->target[t].node);
    define(c);
    line(c, "int64_t place = 0;");
    for (uint32_t t = 0; t < k->n_target; t++) {
        dt_print_target(c, t);
        line(c, "place = place * %lld + t%u;", (long long)k->target[t].extent, t);
    }
    line(c, "if (place < low || place >= high) continue;");
}

/* Prints how the points of a chunk are listed: each thread counts those of the block's places, then
 * writes them after the points of the threads before it. */
static void print_list(DtPrint *c, const DtTile *tile)
{
    const uint32_t threads = tile->threads;
    line(c, "int n = 0, any = 0;");
    line(c, "for (int turn = 0; turn < 2; turn++) {");
    c->depth++;
    line(c, "int at = turn ? counts[DT_THREAD] - n : 0;");
    line(c, "for (int l = 0; l < %u; l++) {", EACH);
    c->depth++;
    line(c, "const int64_t g = from + DT_THREAD * %u + l;", EACH);
    line(c, "if (g >= last) break;");
    dt_print_indices(c, gone(c->k, tile), "g");
    print_place(c);
    line(c, "if (turn) list[at] = (int)g, to[at] = (int)(place - low);");
    line(c, "at++;");
    dt_print_close(c, 1);
    line(c, "if (turn) break;");
    line(c, "counts[DT_THREAD] = n = at;");
    line(c, "any = dt_block_any(n);");
    line(c, "if (!any) break;");
    line(c, "for (int d = 1; d < %u; d *= 2) {", threads);
    c->depth++;
    line(c, "const int before = DT_THREAD >= d ? counts[DT_THREAD - d] : 0;");
    line(c, "dt_block();");
    line(c, "counts[DT_THREAD] += before;");
    line(c, "dt_block();");
    dt_print_close(c, 2);
    line(c, "if (!any) continue;");
    line(c, "dt_block();");
    line(c, "const int all = counts[%u];", threads - 1);
}

/* Prints the definition of `at`, the address of the thread's item at a place that is given as a
 * text such as "low + own". */
static void print_address(DtPrint *c, const char *place)
{
    const DtKernel *k = c->k;
    const DtKStore *store = &k->stores.at[0];
    long long inside = 1;
    line(c, "int64_t at = %s;", dt_print_affine(c, store->offset, store->stride));
    for (uint32_t t = k->n_target; t-- > 0;) {
        line(c, "at += (%s) / %lld %% %lld * %lld;", place, inside, (long long)k->target[t].extent,
             (long long)k->target[t].stride);
        inside *= k->target[t].extent;
    }
}

/* Returns the text of the element of the workspace that holds a piece's sum for the thread's item
 * at that place. */
static const char *part(DtPrint *c, const DtTile *tile)
{
    const DtDtype dtype = c->k->pointers.at[c->k->stores.at[0].pointer].view->dtype;
    return dt_arena_printf(c->arena, "((%s *)w)[(piece * %lld + low + own) * %lld + r]",
                           dt_print_register(dtype), (long long)places_of(c->k),
                           (long long)tile->items);
}

static void print_sum(DtPrint *c, const DtTile *tile)
{
    const DtKStore *store = &c->k->stores.at[0];
    const DtDtype dtype = c->k->pointers.at[store->pointer].view->dtype;
    const bool pieces = c->k->pieces > 0, small = !pieces && (dtype == DT_F16 || dtype == DT_BF16);
    const char *name = dt_dtype_name(dtype);
    if (pieces)
        line(c, "%s sum = %s;", dt_print_register(dtype), part(c, tile));
    else if (small)
        line(c, "float sum = dt_from_%s(p%u[at]);", name, store->pointer);
    else
        line(c, "%s sum = p%u[at];", dt_print_register(dtype), store->pointer);
    line(c, "for (int x = first; x < all; x++) {");
    c->depth++;
    line(c, "if (to[x] != own) continue;");
    line(c, "const int64_t g = list[x];");
    dt_print_indices(c, gone(c->k, tile), "g");
    dt_print_forget(c);
    dt_print_need(c, store->node);
    define(c);
    if (small)
        line(c, "sum = dt_from_%s(dt_to_%s(sum + n%u));", name, name, store->node);
    else
        line(c, dt_dtype_is_float(dtype) ? "sum = sum + n%u;" : "sum = dt_iadd(sum, n%u);",
             store->node);
    dt_print_close(c, 1);
    if (pieces)
        line(c, "%s = sum;", part(c, tile));
    else if (small)
        line(c, "p%u[at] = dt_to_%s(sum);", store->pointer, name);
    else
        line(c, "p%u[at] = sum;", store->pointer);
}

/* Prints the range of points that the block adds up: all of them, or those of its piece. */
static void print_piece(DtPrint *c, const DtTile *tile, long long blocks)
{
    const long long points = (long long)points_of(c->k, gone(c->k, tile)),
                    of = (long long)c->k->piece;
    if (!c->k->pieces) {
        line(c, "const int64_t from0 = 0, last = %lld;", points);
        return;
    }
    line(c, "const int64_t piece = b / %lld, from0 = piece * %lld;", blocks, of);
    line(c, "const int64_t last = piece == %lld ? %lld : from0 + %lld;",
         (long long)tile->pieces - 1, points, of);
    line(c, "for (int own = 0; own < high - low && r1 < %lld; own++) %s = 0;",
         (long long)tile->items, part(c, tile));
}

void dt_scatter_print(DtPrint *c, const DtTile *tile)
{
    const long long places = (long long)places_of(c->k), items = (long long)tile->items;
    const long long across = (long long)item_blocks(tile),
                    blocks = (long long)(tile->blocks / tile->pieces);
    const uint32_t threads = tile->threads;
    c->known = (1u << c->k->n_axes) - 1;
    line(c, "int *const counts = (int *)DT_SUMS, *const list = counts + %u, *const to = list + %u;",
         threads, EACH * threads);
    line(c, "for (int64_t b = DT_BLOCK; b < %lld; b += DT_BLOCKS) {", (long long)tile->blocks);
    c->depth++;
    line(c,
         "const int64_t low = b %% %lld / %lld * %lld, end = low + %lld, high = end < %lld ? end : "
         "%lld;",
         blocks, across, (long long)tile->places, (long long)tile->places, places, places);
    line(c, "const int64_t r1 = b %% %lld * %u + DT_THREAD, r = r1 < %lld ? r1 : %lld;", across,
         threads, items, items - 1);
    dt_print_indices(c, tile->free, "r");
    print_piece(c, tile, blocks);
    line(c, "for (int64_t from = from0; from < last; from += %u) {", EACH * threads);
    c->depth++;
    print_list(c, tile);
    line(c, "for (int own = 0; own < high - low && r1 < %lld; own++) {", items);
    c->depth++;
    line(c, "int first = 0;");
    line(c, "while (first < all && to[first] != own) first++;");
    line(c, "if (first == all) continue;");
    if (!c->k->pieces)
        print_address(c, "low + own");
    print_sum(c, tile);
    dt_print_close(c, 1);
    line(c, "dt_block();");
    dt_print_close(c, 2);
}

void dt_scatter_finish(DtPrint *c, const DtTile *tile)
{
    const DtKStore *store = &c->k->stores.at[0];
    const DtDtype dtype = c->k->pointers.at[store->pointer].view->dtype;
    const char *type = dt_print_register(dtype),
               *sum = dt_dtype_is_float(dtype) ? "dt_sum" : "dt_isum";
    const long long results = (long long)dt_scatter_results(c->k), items = (long long)tile->items;
    const uint32_t at_once = tile->threads / DT_KPIECE_LANES;
    line(c, "for (int64_t x0 = DT_BLOCK * %u; x0 < %lld; x0 += DT_BLOCKS * %u) {", at_once, results,
         at_once);
    c->depth++;
    line(c, "const int64_t x1 = x0 + DT_THREAD / %u, x = x1 < %lld ? x1 : %lld;", DT_KPIECE_LANES,
         results, results - 1);
    line(c, "%s s = 0;", type);
    line(c, "for (int64_t piece = DT_THREAD %% %u; piece < %lld; piece += %u)", DT_KPIECE_LANES,
         (long long)tile->pieces, DT_KPIECE_LANES);
    line(c, "    s = %s(s, ((%s *)w)[piece * %lld + x]);",
         dt_dtype_is_float(dtype) ? "dt_add" : "dt_iadd", type, results);
    line(c, "const %s n%u = %s_group(s, %u);", type, store->node, sum, DT_KPIECE_LANES);
    line(c, "if (x1 >= %lld || DT_THREAD %% %u != 0) continue;", results, DT_KPIECE_LANES);
    line(c, "const int64_t r = x %% %lld;", items);
    dt_print_indices(c, tile->free, "r");
    print_address(c, dt_arena_printf(c->arena, "x / %lld", items));
    dt_print_scatter_add(c);
    dt_print_close(c, 1);
}
