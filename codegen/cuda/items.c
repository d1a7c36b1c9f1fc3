/* SPDX-License-Identifier: Apache-2.0 */
/* Text that all loop patterns share about the item of a thread or of a group of threads. */
#include "codegen/cuda/items.h"

#define line dt_print_line

/* Prints the indices i0, i1, .. of the axes that number items, computed from the number r of the
 * item. */
void dt_items_indices(DtPrint *c, const DtTile *tile)
{
    int64_t inside = 1;
    uint32_t outermost = 0;
    while (outermost < c->k->n_axes && !(tile->free >> outermost & 1))
        outermost++;
    for (uint32_t a = c->k->n_axes; a-- > 0;) {
        /* the first of them */
        const bool several = a + 1 == c->k->n_axes && !tile->lanes && tile->vector > 1;
        const bool rows = tile->rows > 1 && a == tile->rows_axis && !tile->lanes;
        const long long extent = c->k->extent[a] / (several ? tile->vector : rows ? tile->rows : 1);
        if (!(tile->free >> a & 1))
            continue;
        const char *at =
            inside == 1 ? "r" : dt_arena_printf(c->arena, "r / %lld", (long long)inside);
        inside *= extent;
        if (several)
            line(c, "const int64_t j = %s %% %lld * %u, i%u = j; /* %s */", at, extent,
                 tile->vector, a, c->k->axis[a]);
        else if (rows)
            line(c, "const int64_t first = %s %% %lld * %u, i%u = first; /* %s */", at, extent,
                 tile->rows, a, c->k->axis[a]);
        else if (a == outermost)
            line(c, "const int64_t i%u = %s; /* %s */", a, at, c->k->axis[a]);
        else
            line(c, "const int64_t i%u = %s %% %lld; /* %s */", a, at, extent, c->k->axis[a]);
    }
}

/* Prints item and piece of group number u. `here` false at run time: the group has no row, and `to`
 * = `from` makes its piece empty. */
void dt_items_piece(DtPrint *c, const DtTile *tile, const char *u, const char *here)
{
    const long long items = (long long)tile->items, extent = c->k->extent[c->k->piece_axis],
                    of = c->k->piece;
    line(c, "const int64_t r = %s %% %lld, piece = %s / %lld, from = %lld * piece;", u, items, u,
         items, of);
    line(c, "const int64_t to = %spiece == %lld ? %lld : from + %lld;", here,
         (long long)tile->pieces - 1, extent, of);
}

/* Marks the nodes that stores need: all stores, or only those of sums over rows if the others are
 * done with the rows. */
void dt_items_need_stores(DtPrint *c)
{
    dt_print_forget(c);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_row_sum_store(c, s) == (c->k->pieces_of == DT_KPIECES_ROWS))
            dt_print_need(c, c->k->stores.at[s].node);
}

void dt_items_stores(DtPrint *c)
{
    dt_items_need_stores(c);
    dt_print_define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_row_sum_store(c, s) == (c->k->pieces_of == DT_KPIECES_ROWS))
            dt_print_store(c, &c->k->stores.at[s]);
}

/* Declares s<k> for the reductions of a phase, and sets all lanes to the initial value. lanes: how
 * many of them this thread has for each reduction. */
void dt_items_lanes(DtPrint *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s s%u[%u];", dt_print_register(node->dtype), k, lanes);
            line(c, "for (int l = 0; l < %u; l++) s%u[l] = %s;", lanes, k,
                 dt_print_identity(c, node));
        }
}

void dt_items_accumulate(DtPrint *c, uint32_t phase, const char *at)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase))
            dt_print_accumulate(c, k, at);
}

void dt_items_elements(DtPrint *c, uint32_t n)
{
    const uint32_t last = c->k->n_axes - 1;
    line(c, "DT_UNROLL for (int l = 0; l < %u; l++) {", n);
    c->depth++;
    line(c, "const int64_t i%u = j + l; /* %s */", last, c->k->axis[last]);
}
