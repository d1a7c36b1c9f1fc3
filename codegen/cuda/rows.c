/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: each has a group of threads, of a warp or a whole block.
 *
 *   for (r0 = ..; r0 < rows; r0 += ..) { indices; for each phase { scalars; elements of the thread;
 *   combine lanes } } sums over rows: for (u0 = ..; u0 < pieces; u0 += ..) { for rows of the piece
 *   { as above }; results as of pieces }
 *
 * A group of the last block may have no row left. It goes along, since all threads of a warp
 * combine lanes together, but through no elements, and stores nothing; nor does it read what a row
 * has one of, since the group that has the last row may be writing it. */
#include "codegen/cuda/rows.h"

#include "codegen/cuda/draws.h"
#include "codegen/cuda/items.h"
#include "codegen/cuda/pieces.h"
#include "codegen/cuda/wide.h"

#include <string.h>

#define line dt_print_line

enum { WARP = 32 };

/* Prints a barrier of all threads that have the row. */
static void meet(DtPrint *c, const DtTile *tile)
{
    line(c, tile->group > WARP ? "dt_block();" : "dt_warp();");
}

/* Whether store s is done in that phase, for each point along the row or (along false) once for the
 * row. */
static bool stores_at(const DtPrint *c, uint32_t s, uint32_t phase, bool along)
{
    const uint32_t inner = ((1u << c->k->n_axes) - 1) & ~((1u << c->k->n_outer) - 1);
    return c->store_phase[s] == phase && ((c->store_axes[s] & inner) != 0) == along &&
           !dt_print_is_row_sum_store(c, s);
}

/* Whether all groups of a block always have a row, so that they reach barriers together. */
static bool all_are_here(const DtPrint *c, const DtTile *tile)
{
    const int64_t groups = tile->threads / tile->group;
    return c->k->pieces_of == DT_KPIECES_ROWS
               ? tile->pieces % groups == 0 && tile->items % c->k->piece == 0
               : tile->items * tile->pieces % groups == 0;
}

/* Prints how the values of the row are computed and stored. One thread stores, after the others
 * have read the memory that it overwrites. */
static void row_scalars(DtPrint *c, const DtTile *tile, uint32_t phase)
{
    const uint32_t outer = (1u << c->k->n_outer) - 1;
    bool stores = false;
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->live[k] && !(c->k->nodes.at[k].axes & ~outer) && c->k->nodes.at[k].phase == phase)
            dt_print_need(c, k);
    c->where = all_are_here(c, tile) ? NULL : "here";
    dt_print_define(c, outer, true);
    c->where = NULL;
    for (uint32_t s = 0; s < c->k->stores.n && !dt_print_in_pieces(c, c->k->piece_axis); s++)
        stores = stores || stores_at(c, s, phase, false);
    if (!stores)
        return;
    meet(c, tile);
    line(c, "if (here && DT_THREAD %% %u == 0) {", tile->group);
    c->depth++;
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, false))
            dt_print_store(c, &c->k->stores.at[s]);
    dt_print_close(c, 1);
}

/* Marks the nodes that the points of a row need in this phase; false: there are none. *ret_reduces:
 * whether a reduction along the row is among their readers. */
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
    if (tile->hold == DT_HOLD_REGISTERS)
        line(c, "if (j < n) {");
    else
        line(c, "for (int64_t j = %s%u * (DT_THREAD %% %u); j < %s; j += %u) {",
             pieces ? "from + " : "", tile->vector, tile->group, pieces ? "to" : "n", tile->lanes);
    c->depth++;
    line(c, "const int64_t i%u = j%s;", last,
         whole    ? ""
         : pieces ? ", left = to - j"
                  : ", left = n - j");
    dt_wide_take(c, tile->vector, phase, whole);
    dt_items_elements(c, tile->vector);
    if (!whole) {
        line(c, "if (l < left) {");
        c->depth++;
    }
    dt_print_define(c, UINT32_MAX, false);
    dt_items_accumulate(c, phase, "l");
    int64_t n;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_adds_at(c, k, phase))
            dt_print_accumulate(
                c, k, tile->hold == DT_HOLD_REGISTERS ? "l" : dt_print_row_sum_element(c, &n));
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, true))
            dt_print_store(c, &c->k->stores.at[s]);
    dt_print_close(c, whole ? 1 : 2);
    dt_wide_give(c, tile->vector, phase, whole);
    dt_print_close(c, 1 + last - c->k->n_outer);
}

/* Prints how the lanes of each thread are combined to one value in all threads: within warps by
 * exchange, then, if a row has several warps, through shared memory. Successive exchanges use
 * alternate halves of it. */
static void combine(DtPrint *c, const DtTile *tile, uint32_t phase)
{
    const bool blocks = tile->group > WARP;
    const char *const value = blocks ? "b" : "n";
    uint32_t slot = 0;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase))
            line(c, "const %s %s%u = %s_near(s%u, %u, %u);",
                 dt_print_register(c->k->nodes.at[k].dtype), value, k,
                 dt_print_reduce(&c->k->nodes.at[k]), k, blocks ? WARP : tile->group, tile->vector);
    for (uint32_t k = 0; k < c->k->nodes.n && blocks; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const char *type = dt_print_register(c->k->nodes.at[k].dtype);
            line(c, "%s *g%u = (%s *)DT_SUMS + (turn * %u + %u) * %u;", type, k, type, tile->slots,
                 slot++, WARP);
            line(c, "if (DT_THREAD %% %u == 0) g%u[DT_THREAD / %u] = b%u;", WARP, k, WARP, k);
        }
    if (slot)
        line(c, "dt_block();");
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            if (blocks)
                line(c, "const %s n%u = %s_warps(g%u, %u);", dt_print_register(node->dtype), k,
                     dt_print_reduce(node), k, tile->group / WARP);
            c->defined[k] = true;
        }
    if (slot)
        line(c, "turn ^= 1;");
}

const uint32_t *dt_rows_uses(DtPrint *c)
{
    uint32_t *uses = DT_NEW_ARRAY(c->arena, uint32_t, c->k->nodes.n + 1);
    for (uint32_t phase = 0; phase <= c->last_phase; phase++) {
        bool reduces;
        need_points(c, phase, &reduces);
        for (uint32_t k = 0; k < c->k->nodes.n; k++)
            uses[k] += c->needed[k];
    }
    return uses;
}

/* Prints the calls for the draws of the row, or of four rows if this is the first of them. */
static void make_draws(DtPrint *c, const DtTile *tile)
{
    dt_draws_along(c, tile);
    if (tile->rows == 1)
        return;
    line(c, "const int d = (int)(i%u %% %u);", tile->rows_axis, tile->rows);
    line(c, "if (d == 0) {");
    c->depth++;
    dt_draws_across(c, tile);
    dt_print_close(c, 1);
}

/* Decides which values all phases of a row share: loads that are made once, and costly values that
 * are computed once; prints the registers that hold them. */
static void begin_row(DtPrint *c, const DtTile *tile)
{
    const uint32_t n = c->k->nodes.n, last = c->k->n_axes - 1, *uses = dt_rows_uses(c);
    const bool registers = tile->hold == DT_HOLD_REGISTERS;
    c->held = dt_arena_alloc(c->arena, n + 1);
    c->held_in_block = !registers;
    c->kept_at = "l";
    for (uint32_t k = 0; k < n && tile->hold; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        if (uses[k] > 1 && c->wide[k])
            c->held[k] = DT_HELD_NEXT;
        if (uses[k] > 1 && registers && dt_print_is_dear(node) && !dt_draws_has(c, k) &&
            (node->axes >> last & 1)) {
            c->kept[k] = DT_PRINT_KEEP;
            line(c, "%s c%u[%u];", dt_print_register(node->dtype), k, tile->vector);
        }
    }
    if (registers) {
        line(c, "const int64_t j = %u * (DT_THREAD %% %u);", tile->vector, tile->group);
        dt_wide_hold(c, tile->vector);
        make_draws(c, tile);
    }
}

/* Marks the held loads and kept values that this phase needed as available to later phases. */
static void end_phase(DtPrint *c, const bool *needed)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        if (needed[k] && c->held[k])
            c->held[k] = DT_HELD_THERE;
        if (needed[k] && c->kept[k])
            c->kept[k] = DT_PRINT_KEPT;
    }
}

static void row_phases(DtPrint *c, const DtTile *tile)
{
    bool *needed = dt_arena_alloc(c->arena, c->k->nodes.n + 1);
    dt_items_indices(c, tile);
    begin_row(c, tile);
    for (uint32_t phase = 0;
         phase <= c->last_phase && !(dt_print_in_pieces(c, c->k->piece_axis) && phase); phase++) {
        bool reduces;
        row_scalars(c, tile, phase);
        if (!need_points(c, phase, &reduces))
            continue;
        memcpy(needed, c->needed, c->k->nodes.n);
        dt_items_lanes(c, phase, tile->vector);
        row_points(c, tile, phase);
        end_phase(c, needed);
        combine(c, tile, phase);
        for (uint32_t k = 0; k < c->k->nodes.n; k++)
            if (dt_print_is_in_pieces(c, k) && dt_print_reduces_at(c, k, phase))
                line(c, "if (here && DT_THREAD %% %u == 0) %s = n%u;", tile->group,
                     dt_pieces_part(c, tile, k), k);
    }
}

/* Prints declarations of the block's shared memory, before the loop over rows. */
static void open_rows(DtPrint *c, const DtTile *tile)
{
    const uint32_t *uses = dt_rows_uses(c);
    uint32_t at = tile->held_at;
    dt_draws_begin(c, tile);
    if (tile->group > WARP && tile->slots)
        line(c, "int turn = 0;");
    for (uint32_t k = 0; k < c->k->nodes.n && tile->hold == DT_HOLD_BLOCK; k++)
        if (uses[k] > 1 && c->wide[k]) {
            const char *type = dt_print_type(c, c->k->nodes.at[k].dtype);
            line(c, "%s *h%u = (%s *)((char *)DT_SUMS + %u);", type, k, type, at);
            at += (uint32_t)dt_tile_held_bytes(c->k, k, tile->vector);
        }
}

void dt_rows_print(DtPrint *c, const DtTile *tile)
{
    const uint32_t rows = tile->threads / tile->group;
    const long long items = (long long)(tile->items * tile->pieces);
    open_rows(c, tile);
    line(c, "for (int64_t r0 = DT_BLOCK * %u; r0 < %lld; r0 += DT_BLOCKS * %u) {", rows, items,
         rows);
    c->depth++;
    line(c, "const int64_t r1 = r0 + DT_THREAD / %u;", tile->group);
    line(c, "const int here = r1 < %lld;", items);
    const char *number = c->k->pieces ? "u" : tile->rows > 1 ? "r4" : "r";
    line(c, "const int64_t %s = here ? r1 : %lld, n = here ? %lld : 0;", number, items - 1,
         (long long)c->k->extent[c->k->n_axes - 1]);
    if (tile->rows > 1) {
        dt_draws_declare(c, tile);
        line(c, "for (int64_t r = %u * r4; r < %u * r4 + %u; r++) {", tile->rows, tile->rows,
             tile->rows);
        c->depth++;
    }
    if (c->k->pieces)
        dt_items_piece(c, tile, "u", "!here ? from : ");
    row_phases(c, tile);
    dt_print_close(c, tile->rows > 1 ? 2 : 1);
}

/* Opens (or with `ends` closes), for each sum over rows, a loop over the elements that this thread
 * or its group adds up; s<k>[at] is element r. */
static void each_sum(DtPrint *c, const DtTile *tile, bool ends)
{
    const bool registers = tile->hold == DT_HOLD_REGISTERS;
    const long long results = (long long)dt_pieces_results(c, tile),
                    pieces = (long long)tile->pieces;
    const char *at = registers ? "l" : "r";
    if (registers)
        line(c, "DT_UNROLL for (int l = 0; l < %u; l++) {", tile->vector);
    else
        line(c, "for (int64_t r = DT_THREAD %% %u; r < %lld; r += %u) {", tile->group, results,
             tile->group);
    c->depth++;
    if (registers && ends)
        line(c, "const int64_t r = %u * (DT_THREAD %% %u) + l;", tile->vector, tile->group);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k) && ends)
            line(c, "if (u1 < %lld && r < %lld) %s = s%u[%s];", pieces, results,
                 dt_pieces_part(c, tile, k), k, at);
        else if (dt_print_is_in_pieces(c, k))
            line(c, "s%u[%s] = %s;", k, at, dt_print_identity(c, &c->k->nodes.at[k]));
    dt_print_close(c, 1);
}

/* Declares the registers or shared memory of sums over rows. */
static void declare_sums(DtPrint *c, const DtTile *tile)
{
    const uint32_t sums = dt_pieces_before(c, c->k->nodes.n);
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const char *type = dt_print_register(c->k->nodes.at[k].dtype);
        if (dt_print_is_in_pieces(c, k) && tile->hold == DT_HOLD_REGISTERS)
            line(c, "%s s%u[%u];", type, k, tile->vector);
        else if (dt_print_is_in_pieces(c, k))
            line(c, "%s *s%u = (%s *)DT_SUMS + %zu + (DT_THREAD / %u * %u + %u) * %lld;", type, k,
                 type, tile->sums_at / sizeof(float), tile->group, sums, dt_pieces_before(c, k),
                 (long long)dt_pieces_results(c, tile));
    }
}

/* Prints a kernel that also sums over rows: a group of threads loops over the rows of a piece. */
void dt_rows_print_summed(DtPrint *c, const DtTile *tile)
{
    const uint32_t at_once = tile->threads / tile->group;
    const long long pieces = (long long)tile->pieces, rows = (long long)tile->items,
                    of = (long long)c->k->piece;
    open_rows(c, tile);
    line(c, "for (int64_t u0 = DT_BLOCK * %u; u0 < %lld; u0 += DT_BLOCKS * %u) {", at_once, pieces,
         at_once);
    c->depth++;
    line(c,
         "const int64_t u1 = u0 + DT_THREAD / %u, piece = u1 < %lld ? u1 : %lld, from = %lld * "
         "piece;",
         tile->group, pieces, pieces - 1, of);
    line(c, "const int64_t to = u1 >= %lld ? from : piece == %lld ? %lld : from + %lld;", pieces,
         pieces - 1, rows, of);
    declare_sums(c, tile);
    dt_draws_declare(c, tile);
    each_sum(c, tile, false);
    if (tile->hold != DT_HOLD_REGISTERS)
        meet(c, tile);
    line(c, "for (int64_t r1 = from; r1 < from + %lld; r1++) {", of);
    c->depth++;
    line(c, "const int here = r1 < to;");
    line(c, "const int64_t r = here ? r1 : %lld, n = here ? %lld : 0;", rows - 1,
         (long long)c->k->extent[c->k->n_axes - 1]);
    row_phases(c, tile);
    dt_print_close(c, 1);
    if (tile->hold != DT_HOLD_REGISTERS)
        meet(c, tile);
    each_sum(c, tile, true);
    dt_print_close(c, 1);
}
