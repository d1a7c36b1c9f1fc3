/* SPDX-License-Identifier: Apache-2.0 */
/* A sum by index, of many points into few items: the gradient of a table of 50,257 rows of 768 elements, by 32,768
 * tokens. A block has some places of the indexed axes, and an item (an element of a row) for each thread:
 *
 *   for chunks of the points {
 *       each thread looks at some neighbouring ones, and counts those of the block's places
 *       if there are any, counts are added up over threads: where each writes its own, so that the list is in order
 *       for places of the block { for points of the list that go there { sum = sum + value } }
 *   }
 *
 * A place is added up by one block, in the order of the points, as on a processor: nothing is atomic, and the bits are
 * the same. All blocks read all indices, which are few beside the rows. */
#include "codegen/cuda/scatter.h"

enum { EACH = 4, FEW_POINTS = 32, LEAST_THREADS = 128, MOST_THREADS = 768, MANY_THREADS = 512, RANGES = 1 << 12,
       WARP = 32, MOST_BLOCKS = 1 << 16 };

#define line dt_print_line

static int64_t points_of(const DtKernel *k, uint32_t axes)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        n *= axes >> a & 1 ? k->extent[a] : 1;
    return n;
}

static uint32_t gone(const DtKernel *k, const DtTile *tile) { return ((1u << k->n_axes) - 1) & ~tile->free; }

static int64_t places_of(const DtKernel *k)
{
    int64_t n = 1;
    for (uint32_t t = 0; t < k->n_target && n <= INT32_MAX; t++)
        n *= k->target[t].extent;
    return n;
}

static int64_t item_blocks(const DtTile *tile) { return (tile->items + tile->threads - 1) / tile->threads; }

bool dt_scatter_tile(const DtKernel *k, DtTile *tile)
{
    const int64_t points = points_of(k, gone(k, tile)), places = places_of(k);
    bool good = k->form == DT_KFORM_SCATTER && points >= FEW_POINTS && points <= INT32_MAX && places <= INT32_MAX;
    for (uint32_t t = 0; t < k->n_target; t++)
        good = good && !(k->nodes.at[k->target[t].node].axes & tile->free);
    if (!good)
        return false;
    const int64_t wanted = (tile->items + WARP - 1) / WARP * WARP;
    const int64_t threads = wanted > MOST_THREADS ? MANY_THREADS : wanted;
    tile->threads = (uint32_t)(threads < LEAST_THREADS ? LEAST_THREADS : threads);
    tile->places = (places + RANGES - 1) / RANGES;
    while ((places + tile->places - 1) / tile->places * item_blocks(tile) > MOST_BLOCKS)
        tile->places *= 2;
    tile->blocks = (places + tile->places - 1) / tile->places * item_blocks(tile);
    tile->shared = tile->threads * (1 + 2 * EACH) * (uint32_t)sizeof(int);
    return true;
}

/* i<a> of these axes, of point number `number` of them. */
static void indices(DtPrint *c, uint32_t axes, const char *number)
{
    long long inside = 1;
    for (uint32_t a = c->k->n_axes; a-- > 0;) {
        if (!(axes >> a & 1))
            continue;
        line(c, "const int64_t i%u = %s / %lld %% %lld; /* %s */", a, number, inside, (long long)c->k->extent[a],
             c->k->axis[a]);
        inside *= c->k->extent[a];
    }
}

static void define(DtPrint *c) { dt_print_define(c, UINT32_MAX, false); }

/* at and place of a point, or the next one. */
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

/* Of a chunk: first each thread counts the points of the block's places, then it writes them down behind those of the
 * threads before it. */
static void print_list(DtPrint *c, const DtTile *tile, long long points)
{
    const uint32_t threads = tile->threads;
    line(c, "int n = 0, any = 0;");
    line(c, "for (int turn = 0; turn < 2; turn++) {");
    c->depth++;
    line(c, "int at = turn ? counts[DT_THREAD] - n : 0;");
    line(c, "for (int l = 0; l < %u; l++) {", EACH);
    c->depth++;
    line(c, "const int64_t g = from + DT_THREAD * %u + l;", EACH);
    line(c, "if (g >= %lld) break;", points);
    indices(c, gone(c->k, tile), "g");
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

/* Where the result has the thread's item of that place. */
static void print_address(DtPrint *c)
{
    const DtKernel *k = c->k;
    const DtKStore *store = &k->stores.at[0];
    long long inside = 1;
    line(c, "int64_t at = %s;", dt_print_affine(c, store->offset, store->stride));
    for (uint32_t t = k->n_target; t-- > 0;) {
        line(c, "at += (low + own) / %lld %% %lld * %lld;", inside, (long long)k->target[t].extent,
             (long long)k->target[t].stride);
        inside *= k->target[t].extent;
    }
}

static void print_sum(DtPrint *c, const DtTile *tile)
{
    const DtKStore *store = &c->k->stores.at[0];
    const DtDtype dtype = c->k->pointers.at[store->pointer].view->dtype;
    const bool small = dtype == DT_F16 || dtype == DT_BF16;
    const char *name = dt_dtype_name(dtype);
    if (small)
        line(c, "float sum = dt_from_%s(p%u[at]);", name, store->pointer);
    else
        line(c, "%s sum = p%u[at];", dt_print_register(dtype), store->pointer);
    line(c, "for (int x = first; x < all; x++) {");
    c->depth++;
    line(c, "if (to[x] != own) continue;");
    line(c, "const int64_t g = list[x];");
    indices(c, gone(c->k, tile), "g");
    dt_print_forget(c);
    dt_print_need(c, store->node);
    define(c);
    if (small)
        line(c, "sum = dt_from_%s(dt_to_%s(sum + n%u));", name, name, store->node);
    else
        line(c, dtype == DT_F32 ? "sum = sum + n%u;" : "sum = dt_iadd(sum, n%u);", store->node);
    dt_print_close(c, 1);
    if (small)
        line(c, "p%u[at] = dt_to_%s(sum);", store->pointer, name);
    else
        line(c, "p%u[at] = sum;", store->pointer);
}

void dt_scatter_print(DtPrint *c, const DtTile *tile)
{
    const long long places = (long long)places_of(c->k), items = (long long)tile->items;
    const long long points = (long long)points_of(c->k, gone(c->k, tile)), across = (long long)item_blocks(tile);
    const uint32_t threads = tile->threads;
    c->known = (1u << c->k->n_axes) - 1;
    line(c, "int *const counts = (int *)DT_SUMS, *const list = counts + %u, *const to = list + %u;", threads,
         EACH * threads);
    line(c, "for (int64_t b = DT_BLOCK; b < %lld; b += DT_BLOCKS) {", (long long)tile->blocks);
    c->depth++;
    line(c, "const int64_t low = b / %lld * %lld, end = low + %lld, high = end < %lld ? end : %lld;", across,
         (long long)tile->places, (long long)tile->places, places, places);
    line(c, "const int64_t r1 = b %% %lld * %u + DT_THREAD, r = r1 < %lld ? r1 : %lld;", across, threads, items,
         items - 1);
    indices(c, tile->free, "r");
    line(c, "for (int64_t from = 0; from < %lld; from += %u) {", points, EACH * threads);
    c->depth++;
    print_list(c, tile, points);
    line(c, "for (int own = 0; own < high - low && r1 < %lld; own++) {", items);
    c->depth++;
    line(c, "int first = 0;");
    line(c, "while (first < all && to[first] != own) first++;");
    line(c, "if (first == all) continue;");
    print_address(c);
    print_sum(c, tile);
    dt_print_close(c, 1);
    line(c, "dt_block();");
    dt_print_close(c, 2);
}
