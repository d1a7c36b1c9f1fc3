/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in pieces: the workspace for results of pieces, and the second launch, which combines
 * them. */
#include "codegen/cuda/pieces.h"

#include "codegen/cuda/items.h"
#include "codegen/cuda/scatter.h"

#define line dt_print_line

uint32_t dt_pieces_before(const DtPrint *c, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        n += dt_print_is_in_pieces(c, i);
    return n;
}

/* How many results the reductions in pieces have: the number of rows, of columns, or of elements of
 * a row. */
int64_t dt_pieces_results(const DtPrint *c, const DtTile *tile)
{
    int64_t n = 1;
    if (c->k->pieces_of == DT_KPIECES_POINTS)
        return dt_scatter_results(c->k);
    for (uint32_t a = c->k->n_outer; a < c->k->n_axes; a++)
        n *= c->k->extent[a];
    return c->k->pieces_of == DT_KPIECES_ROWS ? n : tile->items;
}

/* Returns the text of the element of the workspace that holds result r of the present piece, for
 * node k. */
const char *dt_pieces_part(DtPrint *c, const DtTile *tile, uint32_t k)
{
    const char *type = dt_print_register(c->k->nodes.at[k].dtype);
    return dt_arena_printf(c->arena, "((%s *)w)[(%lld + piece) * %lld + r]", type,
                           (long long)(dt_pieces_before(c, k) * tile->pieces),
                           (long long)dt_pieces_results(c, tile));
}

uint64_t dt_pieces_workspace(const DtPrint *c, const DtTile *tile)
{
    const uint32_t n =
        c->k->pieces_of == DT_KPIECES_POINTS ? 1 : dt_pieces_before(c, c->k->nodes.n);
    return n * (uint64_t)(tile->pieces * dt_pieces_results(c, tile)) * sizeof(float);
}

static void combine_pieces(DtPrint *c, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    line(c, "const %s n%u = %s_group(s%u, %u);", dt_print_register(node->dtype), k,
         dt_print_reduce(node), k, DT_KPIECE_LANES);
    c->defined[k] = true;
}

/* The second kernel: threads as many as lanes combine the pieces of a result. */
void dt_pieces_print(DtPrint *c, const DtTile *tile)
{
    const uint32_t at_once = tile->threads / DT_KPIECE_LANES, all = (1u << c->k->n_axes) - 1;
    const long long items = (long long)dt_pieces_results(c, tile);
    const DtTile results = {.items = items,
                            .lanes = DT_KPIECE_LANES,
                            .group = DT_KPIECE_LANES,
                            .vector = 1,
                            .free = c->k->pieces_of == DT_KPIECES_ROWS ? all & ~tile->free
                                                                       : tile->free};
    c->known = results.free;
    c->wide = c->wide_stores = NULL; /* a thread has one element */
    line(c, "for (int64_t r0 = DT_BLOCK * %u; r0 < %lld; r0 += DT_BLOCKS * %u) {", at_once, items,
         at_once);
    c->depth++;
    line(c, "const int64_t r1 = r0 + DT_THREAD / %u;", DT_KPIECE_LANES);
    line(c, "const int here = r1 < %lld;", items);
    line(c, "const int64_t r = here ? r1 : %lld;", items - 1);
    dt_items_indices(c, &results);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k))
            line(c, "%s s%u = %s;", dt_print_register(c->k->nodes.at[k].dtype), k,
                 dt_print_identity(c, &c->k->nodes.at[k]));
    line(c, "for (int64_t piece = DT_THREAD %% %u; piece < %lld; piece += %u) {", DT_KPIECE_LANES,
         (long long)tile->pieces, DT_KPIECE_LANES);
    c->depth++;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k)) {
            const char *lane = dt_arena_printf(c->arena, "s%u", k);
            line(c, "%s = %s;", lane,
                 dt_print_combine(c, &c->k->nodes.at[k], lane, dt_pieces_part(c, tile, k)));
        }
    dt_print_close(c, 1);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k))
            combine_pieces(c, k);
    line(c, "if (here && DT_THREAD %% %u == 0) {", DT_KPIECE_LANES);
    c->depth++;
    dt_items_stores(c);
    dt_print_close(c, 2);
}

uint32_t dt_pieces_blocks(const DtPrint *c, const DtTile *tile)
{
    return (uint32_t)dt_tile_blocks(dt_pieces_results(c, tile), tile->threads / DT_KPIECE_LANES);
}
