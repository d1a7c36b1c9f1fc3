/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as canonical C: the same bits from gcc and clang, with any vector width. Explicit
 * loops, every reduction in fixed lanes and combined by a fixed tree, functions from the prelude,
 * no fast-math.
 *
 * ROW:     for outer { scalars of the row; for each phase { for inner { lanes }; combine } }
 * COLUMN:  for outer but the last { for chunks of lanes along the last outer axis { for inner {
 *          lanes } } }
 *
 * Where reductions are made in pieces, there is a loop over these around the inner ones, and t<k>
 * has their lanes.
 */
#include "codegen/cpu/cpu.h"
#include "codegen/cpu/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define line dt_print_line

enum { UNROLLED = 16 }; /* loops that are as short as this may become straight code */

/* Returns the text for how often a loop over the whole axis runs: "7", or the variable "e2" if a
 * check of the machine code may shorten the loop. */
const char *dt_print_c_extent(DtPrint *c, uint32_t axis)
{
    return c->loops->trips[axis] ? dt_arena_printf(c->arena, "e%u", axis)
                                 : dt_arena_printf(c->arena, "%lld", (long long)c->k->extent[axis]);
}

/* Prints the statement that combines a piece's result with its lane. at: index of the point of a
 * row, or of the column, "l"; lane: "piece % 16"; result: "s3[l]". */
static void piece_end(DtPrint *c, uint32_t k, const char *at, const char *lane, const char *result)
{
    const char *old = dt_arena_printf(c->arena, "t%u[%s][%s]", k, at, lane);
    line(c, "%s = %s;", old, dt_print_combine(c, &c->k->nodes.at[k], old, result));
}

/* Prints, after the last piece, the definition of each node that is reduced in pieces: the value to
 * which its lanes combine. */
static void define_pieces(DtPrint *c, const char *at)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_in_pieces(c, k)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "const %s n%u = %s_%u(t%u[%s]);", dt_print_register(node->dtype), k,
                 dt_print_reduce(node), DT_KPIECE_LANES, k, at);
            c->defined[k] = true;
        }
}

/* ---- sums over rows ---- */

static bool has_row_sums(const DtPrint *c)
{
    bool any = false;
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        any = any || dt_print_is_row_sum_store(c, s);
    return any;
}

static void open_row(DtPrint *c)
{
    for (uint32_t a = c->k->n_outer; a < c->k->n_axes; a++) {
        if (a + 1 == c->k->n_axes)
            line(c, "DT_LANES");
        dt_print_open(c, a);
    }
}

/* Prints, before the loop over rows, the variables of sums over rows and of their 16 lanes, and
 * sets them to the initial values. */
static void sums_begin(DtPrint *c)
{
    int64_t n;
    const char *at = dt_print_row_sum_element(c, &n);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_row_sum(c, k))
            line(c, "%s s%u[%lld], t%u[%lld][16];", dt_print_register(c->k->nodes.at[k].dtype), k,
                 (long long)n, k, (long long)n);
    open_row(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_row_sum(c, k)) {
            const char *identity = dt_print_identity(c, &c->k->nodes.at[k]);
            line(c, "s%u[%s] = %s;", k, at, identity);
            line(c, "for (int l = 0; l < 16; l++) t%u[%s][l] = %s;", k, at, identity);
        }
    dt_print_close(c, c->k->n_axes - c->k->n_outer);
}

/* Printed after each row: if it is the last row of its piece, adds the piece's sums to their lane
 * and clears them. */
static void sums_piece(DtPrint *c)
{
    int64_t stride[DT_MAX_RANK] = {0}, rows = 1, n;
    const char *at = dt_print_row_sum_element(c, &n);
    for (uint32_t a = c->k->n_outer; a-- > 0; rows *= c->k->extent[a])
        stride[a] = rows;
    line(c, "const int64_t row = %s;", dt_print_affine(c, 0, stride));
    line(c, "if (row %% %lld == %lld || row == %lld) {", (long long)c->k->piece,
         (long long)c->k->piece - 1, (long long)rows - 1);
    c->depth++;
    line(c, "const int64_t lane = row / %lld %% 16;", (long long)c->k->piece);
    open_row(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_is_row_sum(c, k)) {
            const char *sum = dt_arena_printf(c->arena, "s%u[%s]", k, at);
            piece_end(c, k, at, "lane", sum);
            line(c, "%s = %s;", sum, dt_print_identity(c, &c->k->nodes.at[k]));
        }
    dt_print_close(c, 1 + c->k->n_axes - c->k->n_outer);
}

/* Printed after all rows: combines the lanes, then computes and stores the values that depend on
 * the sums. */
static void sums_end(DtPrint *c)
{
    int64_t n;
    const char *at = dt_print_row_sum_element(c, &n);
    memset(c->defined, 0, c->k->nodes.n * sizeof c->defined[0]);
    memset(c->kept, 0, c->k->nodes.n * sizeof c->kept[0]); /* rows that were kept are gone */
    dt_print_c_draws_end(c, 0);
    open_row(c);
    define_pieces(c, at);
    dt_print_forget(c);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_row_sum_store(c, s))
            dt_print_need(c, c->k->stores.at[s].node);
    dt_print_define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (dt_print_is_row_sum_store(c, s))
            dt_print_store(c, &c->k->stores.at[s]);
    dt_print_close(c, c->k->n_axes - c->k->n_outer);
}

static void lanes_begin(DtPrint *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s s%u[%u];", dt_print_register(node->dtype), k, lanes);
            line(c, "for (int l = 0; l < %u; l++) s%u[l] = %s;", lanes, k,
                 dt_print_identity(c, node));
        }
}

/* Returns the call that combines the lanes s<k> to one value: in pairs of neighbours where the
 * order of a GPU is kept (row_threads), else by halves. */
static const char *tree(DtPrint *c, uint32_t k, uint32_t lanes)
{
    const char *name = dt_print_reduce(&c->k->nodes.at[k]);
    return c->k->row_threads ? dt_arena_printf(c->arena, "%s_pairs(s%u, %u)", name, k, lanes)
                             : dt_arena_printf(c->arena, "%s_%u(s%u)", name, lanes, k);
}

static void lanes_end(DtPrint *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "const %s n%u = %s;", dt_print_register(node->dtype), k, tree(c, k, lanes));
            c->defined[k] = true;
        }
}

/* ---- pieces ---- */

#define IN_TURN "piece % 16" /* the lane of the loop's piece */

/* Opens the loop over pieces, before which it declares and initialises the lanes that pieces are
 * combined in. points: how many results the pieces reduce to at once. */
static void pieces_begin(DtPrint *c, uint32_t points)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, 0)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s t%u[%u][16];", dt_print_register(node->dtype), k, points);
            line(c, "for (int l = 0; l < %u; l++) t%u[l / 16][l %% 16] = %s;", points * 16, k,
                 dt_print_identity(c, node));
        }
    const long long n = c->k->pieces;
    line(c, "for (int64_t piece = %s; piece < %lld; piece++) {",
         c->loops->piece_trips ? dt_arena_printf(c->arena, "%lld - pieces", n) : "0", n);
    c->depth++;
    line(c, "const int64_t from = %lld * piece, to = piece == %lld ? %lld : from + %lld;",
         (long long)c->k->piece, n - 1, (long long)c->k->extent[c->k->piece_axis],
         (long long)c->k->piece);
}

/* Whether store s writes the points along a row, and does so in that phase. */
static bool stores_at(const DtPrint *c, uint32_t s, uint32_t phase, uint32_t inner)
{
    return (c->store_axes[s] & inner) && c->store_phase[s] == phase &&
           !dt_print_is_row_sum_store(c, s);
}

static void need_point(DtPrint *c, uint32_t phase, uint32_t inner)
{
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase) || dt_print_adds_at(c, k, phase))
            dt_print_need(c, c->k->nodes.at[k].args[0]);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, inner))
            dt_print_need(c, c->k->stores.at[s].node);
}

/* Prints the code for one point of the space in a phase: reductions accumulate, stores are
 * written. */
static void point(DtPrint *c, uint32_t phase, uint32_t inner, bool lanes)
{
    int64_t n;
    need_point(c, phase, inner);
    dt_print_define(c, UINT32_MAX, false);
    for (uint32_t k = 0; lanes && k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, phase))
            dt_print_accumulate(c, k, "l");
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_adds_at(c, k, phase))
            dt_print_accumulate(c, k, dt_print_row_sum_element(c, &n));
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, inner))
            dt_print_store(c, &c->k->stores.at[s]);
}

/* Whether an int shall hold the index along that axis: a needed position is computed from it, and
 * the extent allows an int. */
static bool counts_along(const DtPrint *c, uint32_t axis)
{
    bool any = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        any = any || (c->needed[k] && c->k->nodes.at[k].kind == DT_KNODE_IOTA &&
                      c->k->nodes.at[k].coef[axis]);
    return any && c->k->extent[axis] <= INT32_MAX;
}

/* A loop over n lanes along an axis, from index `first` on. */
static void lanes_open(DtPrint *c, uint32_t axis, const char *first, const char *n)
{
    const bool from_0 = strcmp(first, "0") == 0;
    line(c, "for (int l = 0; l < %s; l++) {", n);
    c->depth++;
    line(c, "const int64_t i%u = %s%sl; /* %s */", axis, from_0 ? "" : first, from_0 ? "" : " + ",
         c->k->axis[axis]);
    if (c->k->extent[axis] <= INT32_MAX)
        c->lane =
            from_0 ? "l"
                   : dt_arena_printf(c->arena, strchr(first, ' ') ? "(int)(%s) + l" : "(int)%s + l",
                                     first);
    c->lane_axis = axis;
}

static void lanes_close(DtPrint *c)
{
    c->lane = NULL;
    dt_print_close(c, 1);
}

/* Prints the code for n points of the row, from index `first` on. */
static void row_lanes(DtPrint *c, uint32_t phase, uint32_t inner, bool reduces, const char *first,
                      uint32_t n)
{
    const uint32_t last = c->k->n_axes - 1;
    dt_print_c_draws_lanes(c, first, n);
    line(c, "DT_LANES");
    lanes_open(c, last, first, dt_arena_printf(c->arena, "%u", n));
    point(c, phase, inner, reduces);
    lanes_close(c);
}

/* Marks the loads whose elements of neighbouring rows, along the last axis, are no neighbours. */
static void choose_spread(DtPrint *c, uint8_t state)
{
    const uint32_t last = c->k->n_axes - 1;
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        if (c->live[k] && node->kind == DT_KNODE_LOAD && node->axes >> (last - 1) &&
            node->coef[last - 1] != node->coef[last] * c->k->extent[last])
            c->kept[k] = state;
    }
}

/* Prints a loop that copies load k, for `turns` rows from index j on, to a row c<k> with an element
 * for each lane. */
static void spread(DtPrint *c, uint32_t k, uint32_t turns)
{
    const uint32_t last = c->k->n_axes - 1, row = last - 1;
    const long long n = (long long)c->k->extent[last];
    line(c, "%s c%u[%lld];", dt_print_register(c->k->nodes.at[k].dtype), k, turns * n);
    line(c, "for (int64_t i%u = j; i%u < j + %u; i%u++) {", row, row, turns, row);
    c->depth++;
    line(c, "for (int64_t i%u = 0; i%u < %lld; i%u++) {", last, last, n, last);
    c->depth++;
    dt_print_forget(c);
    dt_print_need(c, k);
    dt_print_define(c, UINT32_MAX, false);
    dt_print_close(c, 2);
}

/* Prints the loop over rows along the last axis that share lanes, `turns` of them at a time. A load
 * whose elements are no neighbours in all of them, such as the scale of a group, is copied first:
 * each in a loop of its own, since gcc makes short vectors of several copies in one. */
static void shared_lanes(DtPrint *c, uint32_t phase, uint32_t inner, uint32_t turns)
{
    const uint32_t last = c->k->n_axes - 1, row = last - 1;
    const bool pieces = dt_print_in_pieces(c, row);
    const long long n = (long long)c->k->extent[last];
    line(c, "for (int64_t j = %s; j + %u <= %s; j += %u) { /* %s */", pieces ? "from" : "0", turns,
         pieces ? "to" : dt_print_c_extent(c, row), turns, c->k->axis[row]);
    c->depth++;
    choose_spread(c, DT_PRINT_KEEP);
    c->kept_at = dt_arena_printf(c->arena, "%lld * (i%u - j) + i%u", n, row, last);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->kept[k] == DT_PRINT_KEEP)
            spread(c, k, turns);
    choose_spread(c, DT_PRINT_KEPT);
    c->kept_at = "l";
    line(c, "const int64_t i%u = j;", row);
    line(c, "DT_LANES");
    lanes_open(c, last, "0", dt_arena_printf(c->arena, "%lld", turns * n));
    point(c, phase, inner, true);
    lanes_close(c);
    dt_print_close(c, 1);
    choose_spread(c, DT_PRINT_ANEW);
}

/* Prints the loops over the inner axes for one phase, the last one in lanes. most: the number of
 * lanes that a reduction has. */
static void inner_loops(DtPrint *c, uint32_t phase, uint32_t first_inner, uint32_t inner,
                        bool reduces, uint32_t most)
{
    const uint32_t last = c->k->n_axes - 1, lanes = reduces ? most : DT_PRINT_LANES;
    const long long n = (long long)c->k->extent[last], rest = n % lanes;
    need_point(c, phase, inner);
    const bool whole = !reduces && !dt_print_c_draws_along(c);
    const uint32_t turns = reduces ? dt_kernel_row_turns(c->k) : 1;
    if (turns > 1) {
        for (uint32_t a = first_inner; a + 1 < last; a++)
            dt_print_open(c, a);
        shared_lanes(c, phase, inner, turns);
        dt_print_close(c, last - 1 - first_inner);
        return;
    }
    for (uint32_t a = first_inner; a < last; a++) {
        dt_print_open(c, a);
        dt_print_c_draws_axis(c, a, NULL, true);
    }
    c->narrow = n <= UNROLLED;
    if (whole) {
        line(c, "DT_LANES");
        if (counts_along(c, last))
            lanes_open(c, last, "0", dt_print_c_extent(c, last));
        else
            dt_print_open(c, last);
        point(c, phase, inner, false);
        lanes_close(c);
    }
    const bool pieces = dt_print_in_pieces(c, last);
    if (!whole && n >= lanes) {
        line(c, "for (int64_t j = %s; j + %u <= %s; j += %u) {", pieces ? "from" : "0", lanes,
             pieces ? "to" : dt_print_c_extent(c, last), lanes);
        c->depth++;
        row_lanes(c, phase, inner, reduces, "j", lanes);
        dt_print_close(c, 1);
    }
    if (!whole && rest) {
        if (pieces) {
            line(c, "if (to == %lld) {", n);
            c->depth++;
        }
        need_point(c, phase, inner);
        c->narrow = rest <= UNROLLED;
        row_lanes(c, phase, inner, reduces,
                  c->loops->trips[last] ? dt_arena_printf(c->arena, "e%u - %lld", last, rest)
                                 : dt_arena_printf(c->arena, "%lld", n - rest),
                  (uint32_t)rest);
        dt_print_close(c, pieces);
    }
    dt_print_close(c, last - first_inner);
    dt_print_c_draws_end(c, first_inner);
}

/* Marks the nodes that node k depends on in all phases up to its own. Records the first and last
 * phase in which a costly node is used. */
static void uses(DtPrint *c, uint32_t k, uint32_t phase, uint8_t *first, uint8_t *last)
{
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->kind == DT_KNODE_REDUCE || (first[k] <= phase && phase <= last[k]))
        return; /* this phase is within the recorded range already, for the operands too */
    if (first[k] > phase)
        first[k] = (uint8_t)phase;
    if (last[k] < phase)
        last[k] = (uint8_t)phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        uses(c, node->args[i], phase, first, last);
}

enum { KEEP_ELEMENTS = 4096 }; /* a row of a dear node kept on the stack: 16 KiB */

/* Chooses the nodes that are computed once and kept in a row on the stack: those with a costly
 * function which several phases use, if the row is short. */
static void choose_kept(DtPrint *c, uint32_t first_inner, uint32_t inner)
{
    uint32_t n = c->k->nodes.n;
    uint8_t *first = dt_arena_alloc(c->arena, n + 1), *last = dt_arena_alloc(c->arena, n + 1);
    memset(first, 255, n);
    if (first_inner + 1 != c->k->n_axes || c->k->extent[first_inner] > KEEP_ELEMENTS)
        return;
    for (uint32_t k = 0; k < n; k++)
        if (c->live[k] && c->k->nodes.at[k].kind == DT_KNODE_REDUCE)
            uses(c, c->k->nodes.at[k].args[0], c->k->nodes.at[c->k->nodes.at[k].args[0]].phase,
                 first, last);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if ((c->store_axes[s] & inner) && !dt_print_is_row_sum_store(c, s))
            uses(c, c->k->stores.at[s].node, c->store_phase[s], first, last);
    for (uint32_t k = 0; k < n; k++)
        if (dt_print_is_dear(&c->k->nodes.at[k]) && !dt_print_c_is_across(c, k) &&
            (c->k->nodes.at[k].axes & inner) && first[k] < last[k]) {
            c->kept[k] = DT_PRINT_KEEP;
            c->loops->keep_phase[k] = first[k];
            line(c, "%s c%u[%lld];", dt_print_register(c->k->nodes.at[k].dtype), k,
                 (long long)c->k->extent[first_inner]);
        }
}

static void row_scalars(DtPrint *c, uint32_t phase, uint32_t outer, uint32_t inner)
{
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->live[k] && !(c->k->nodes.at[k].axes & ~outer) && c->k->nodes.at[k].phase == phase)
            dt_print_need(c, k);
    dt_print_define(c, outer, true);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (!(c->store_axes[s] & inner) && c->store_phase[s] == phase &&
            !dt_print_is_row_sum_store(c, s))
            dt_print_store(c, &c->k->stores.at[s]);
}

static bool phase_has_points(const DtPrint *c, uint32_t phase, uint32_t inner, bool *ret_reduces)
{
    bool any = false;
    *ret_reduces = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        *ret_reduces = *ret_reduces || dt_print_reduces_at(c, k, phase);
        any = any || dt_print_adds_at(c, k, phase);
    }
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        any = any || stores_at(c, s, phase, inner);
    return any || *ret_reduces;
}

static void row_pieces_end(DtPrint *c, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_reduces_at(c, k, 0))
            piece_end(c, k, "0", IN_TURN, tree(c, k, lanes));
    dt_print_close(c, 1);
    define_pieces(c, "0");
}

static void print_row(DtPrint *c)
{
    const DtKernel *k = c->k;
    const bool has_inner = k->n_outer < k->n_axes, in_pieces = dt_print_in_pieces(c, k->piece_axis);
    uint32_t first_inner = has_inner ? k->n_outer : k->n_axes ? k->n_axes - 1 : 0;
    uint32_t outer = (1u << first_inner) - 1, inner = ((1u << k->n_axes) - 1) & ~outer;
    const uint32_t lanes = dt_kernel_row_lanes(k);
    if (has_row_sums(c))
        sums_begin(c);
    for (uint32_t a = 0; a < first_inner; a++) {
        dt_print_open(c, a);
        dt_print_c_draws_axis(c, a, NULL, false);
    }
    choose_kept(c, first_inner, inner);
    for (uint32_t phase = 0; phase <= c->last_phase; phase++) {
        bool reduces;
        row_scalars(c, phase, outer, inner);
        if (outer)
            dt_print_skip(c, outer);
        if (!phase_has_points(c, phase, inner, &reduces))
            continue;
        if (in_pieces && reduces)
            pieces_begin(c, 1);
        if (reduces)
            lanes_begin(c, phase, lanes);
        if (k->n_axes == first_inner) /* a scalar space has no inner loop */
            point(c, phase, inner, false);
        else
            inner_loops(c, phase, first_inner, inner, reduces, lanes);
        for (uint32_t n = 0; n < k->nodes.n; n++)
            if (c->kept[n] == DT_PRINT_KEEP && c->loops->keep_phase[n] == phase)
                c->kept[n] = DT_PRINT_KEPT;
        if (reduces && in_pieces)
            row_pieces_end(c, lanes);
        else if (reduces)
            lanes_end(c, phase, lanes);
    }
    if (has_row_sums(c))
        sums_piece(c);
    dt_print_close(c, first_inner);
    if (has_row_sums(c))
        sums_end(c);
}

/* ---- COLUMN ---- */

static void column_chunk(DtPrint *c, uint32_t v, uint32_t lanes)
{
    const DtKernel *k = c->k;
    const char *width = dt_arena_printf(c->arena, "%u", lanes);
    c->narrow = lanes <= UNROLLED;
    if (k->pieces)
        pieces_begin(c, lanes);
    lanes_begin(c, 0, lanes);
    need_point(c, 0, 0);
    for (uint32_t a = k->n_outer; a < k->n_axes; a++) {
        dt_print_open(c, a);
        dt_print_c_draws_axis(c, a, width, true);
    }
    dt_print_c_draws_lanes(c, "j", lanes);
    line(c, "DT_LANES");
    lanes_open(c, v, "j", width);
    point(c, 0, 0, true);
    lanes_close(c);
    dt_print_close(c, k->n_axes - k->n_outer);
    dt_print_c_draws_end(c, v);
    if (k->pieces) {
        line(c, "for (int l = 0; l < %s; l++) {", width);
        c->depth++;
        for (uint32_t n = 0; n < k->nodes.n; n++)
            if (dt_print_reduces_at(c, n, 0))
                piece_end(c, n, "l", IN_TURN, dt_arena_printf(c->arena, "s%u[l]", n));
        dt_print_close(c, 2);
    }
    dt_print_forget(c);
    for (uint32_t s = 0; s < k->stores.n; s++)
        dt_print_need(c, k->stores.at[s].node);
    dt_print_c_draws_lanes(c, "j", lanes);
    line(c, "DT_LANES");
    lanes_open(c, v, "j", width);
    if (k->pieces)
        define_pieces(c, "l");
    for (uint32_t n = 0; n < k->nodes.n && !k->pieces; n++)
        if (dt_print_reduces_at(c, n, 0)) {
            line(c, "const %s n%u = s%u[l];", dt_print_register(k->nodes.at[n].dtype), n, n);
            c->defined[n] = true;
        }
    dt_print_define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < k->stores.n; s++)
        dt_print_store(c, &k->stores.at[s]);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (dt_print_reduces_at(c, n, 0))
            c->defined[n] = false;
    lanes_close(c);
    dt_print_c_draws_end(c, v);
}

static void print_column(DtPrint *c)
{
    const DtKernel *k = c->k;
    uint32_t v = k->n_outer - 1;
    long long n = (long long)k->extent[v];
    const uint32_t lanes = DT_PRINT_LANES;
    for (uint32_t a = 0; a < v; a++)
        dt_print_open(c, a);
    if (n >= lanes) {
        line(c, "for (int64_t j = 0; j + %u <= %s; j += %u) {", lanes, dt_print_c_extent(c, v),
             lanes);
        c->depth++;
        column_chunk(c, v, lanes);
        dt_print_close(c, 1);
    }
    if (n % lanes) {
        line(c, "{");
        c->depth++;
        if (c->loops->trips[v])
            line(c, "const int64_t j = e%u - %lld;", v, n % lanes);
        else
            line(c, "const int64_t j = %lld;", n - n % lanes);
        column_chunk(c, v, (uint32_t)(n % lanes));
        dt_print_close(c, 1);
    }
    dt_print_close(c, v);
}

/* ---- long axes ---- */

/* The check of machine code (base/hostcc.c) runs kernels with dt_most = SHORT. A kernel with more
 * than FULL points reads the trip counts of its longest loops from dt_trips. Along the vectorised
 * axis the count is in steps of LANES, so that the compiler still knows the remainder and the
 * checked code is the code that will run. */
enum { FULL = 1 << 16, LANES = DT_PRINT_LANES, SHORT = 2 };

int64_t dt_print_c_vector_axis(const DtKernel *k)
{
    return k->pattern == DT_KPATTERN_ROW      ? (int64_t)k->n_axes - 1
           : k->pattern == DT_KPATTERN_COLUMN ? (int64_t)k->n_outer - 1 : -1;
}

static int64_t trips_of(const DtKernel *k, uint32_t axis)
{
    if (axis == dt_print_c_vector_axis(k))
        return k->extent[axis] / LANES;
    return k->extent[axis] > UNROLLED ? k->extent[axis] : 0;
}

static void choose_trips(DtPrint *c)
{
    const DtKernel *k = c->k;
    double points = 1;
    if (k->row_threads) /* in the order of another target: lanes are others */
        return;
    if (k->pattern == DT_KPATTERN_TOPK)
        points = (double)dt_type_extent(k->special->out[0]->type, k->special->axes[1]);
    for (uint32_t a = 0; a < k->n_axes; a++)
        points *= (double)k->extent[a];
    c->loops->piece_trips = k->pieces > SHORT && k->pieces_of != DT_KPIECES_ROWS && points > FULL;
    if (c->loops->piece_trips)
        points *= SHORT / (double)k->pieces;
    while (points > FULL) {
        uint32_t best = k->n_axes;
        for (uint32_t a = 0; a < k->n_axes; a++)
            if (!c->loops->trips[a] && !dt_print_in_pieces(c, a) && trips_of(k, a) > SHORT &&
                (best == k->n_axes || trips_of(k, a) > trips_of(k, best)))
                best = a;
        if (best == k->n_axes)
            return;
        points *= SHORT / (double)trips_of(k, best);
        c->loops->trips[best] = true;
    }
}

static void trips_lines(DtPrint *c)
{
    const DtKernel *k = c->k;
    if (c->loops->piece_trips)
        line(c, "const int64_t pieces = dt_trips(%lld);", (long long)k->pieces);
    for (uint32_t a = 0; a < k->n_axes; a++) {
        const long long trips = (long long)trips_of(k, a), rest = k->extent[a] % LANES;
        if (!c->loops->trips[a])
            continue;
        if (a != dt_print_c_vector_axis(k))
            line(c, "const int64_t e%u = dt_trips(%lld); /* %s */", a, trips, k->axis[a]);
        else if (rest)
            line(c, "const int64_t e%u = %d * dt_trips(%lld) + %lld; /* %s */", a, LANES, trips,
                 rest, k->axis[a]);
        else
            line(c, "const int64_t e%u = %d * dt_trips(%lld); /* %s */", a, LANES, trips,
                 k->axis[a]);
    }
}

/* ---- a whole kernel ---- */

/* Returns the offset of the text after comments and the symbol, which two kernels with equal code
 * may have different. */
static size_t head(DtPrint *c, const DtDiags *diags)
{
    const DtKernel *k = c->k;
    dt_print_title(c, diags);
    dt_text_printf(c->out, "void %s", k->symbol);
    size_t body = c->out->len;
    line(c, "(char *const *p, const int64_t *q)");
    line(c, "{");
    c->depth++;
    dt_print_arguments(c);
    return body;
}

size_t dt_print_c_kernel(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text)
{
    DtPrint print, *c = &print;
    (void)lines;
    dt_print_begin(kernel, ret_text, c);
    const uint32_t n = kernel->nodes.n + 1;
    struct DtPrintLoops loops = {.keep_phase = dt_arena_alloc(c->arena, n),
                                 .draw_axis = dt_arena_alloc(c->arena, n),
                                 .drawn = dt_arena_alloc(c->arena, n * sizeof(bool))};
    c->loops = &loops;
    c->draw = dt_print_c_draw;
    c->extent = dt_print_c_extent;
    if (kernel->special)
        dt_print_special_live(c);
    c->narrow = kernel->n_axes && kernel->extent[kernel->n_axes - 1] <= UNROLLED;
    choose_trips(c);
    size_t body = head(c, diags);
    trips_lines(c);
    dt_print_c_draws_begin(c);
    switch (kernel->pattern) {
    case DT_KPATTERN_ROW: print_row(c); break;
    case DT_KPATTERN_COLUMN: print_column(c); break;
    default: dt_print_special(c); break;
    }
    c->depth = 0;
    line(c, "}");
    dt_text_add(ret_text, "\n");
    dt_arena_free(c->arena);
    return body;
}
