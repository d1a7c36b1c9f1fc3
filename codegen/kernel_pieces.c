/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which reductions of a kernel are computed in pieces (kernel.h), and how many pieces
 * there are. Only extents decide, equally for all targets, since results depend on it; but a
 * piece of a row has a multiple of the elements that lanes process at once. */
#include "codegen/kernel_internal.h"

/* COLUMN_PIECE: the least points of a piece of a column, or of a row. ENOUGH_COLUMNS, ENOUGH_ROWS:
 * so many pieces keep any machine busy. */
enum { MANY_LANES = 64, SOME_LANES = 32, FEW_LANES = 16 };
enum { COLUMN_PIECE = 64, ENOUGH_COLUMNS = 1 << 17, ENOUGH_ROWS = 1 << 14, LEAST_PIECES = 4 };
/* The same for sums over rows. MOST_ELEMENTS: of all pieces of all sums together. */
enum { ROWS_PIECE = 16, ENOUGH_PIECES = 1024, MOST_ELEMENTS = 1 << 24 };

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static int64_t less(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t more(int64_t a, int64_t b) { return a < b ? b : a; }

static int64_t points(const DtKernel *k, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t a = from; a < to; a++)
        n *= k->extent[a];
    return n;
}

static uint32_t sums_after_rows(const DtKernel *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        n += k->nodes.at[i].kind == DT_KNODE_REDUCE && k->nodes.at[i].after_rows;
    return n;
}

static void cut_rows(DtKernel *k, uint32_t sums)
{
    const int64_t elements = sums * points(k, k->n_outer, k->n_axes),
                  rows = points(k, 0, k->n_outer);
    const int64_t most = more(less(MOST_ELEMENTS / elements, ENOUGH_PIECES), 1);
    k->piece = more(up(rows, most), ROWS_PIECE);
    k->pieces = up(rows, k->piece);
    k->pieces_of = DT_KPIECES_ROWS;
}

/* Whether the kernel has nothing but reductions of values that are read or computed per point,
 * and values made of these. */
static bool only_reduces(const DtKernel *k)
{
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].phase > 1)
            return false;
    for (uint32_t i = 0; i < k->stores.n; i++) {
        if (k->nodes.at[k->stores.at[i].node].axes >> k->n_outer)
            return false;
        for (uint32_t a = k->n_outer; a < k->n_axes; a++)
            if (k->stores.at[i].stride[a])
                return false;
    }
    return k->n_outer < k->n_axes;
}

static bool reads_bytes(const DtKernel *k)
{
    bool any = false;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        any = any || (k->nodes.at[i].kind == DT_KNODE_LOAD && k->nodes.at[i].dtype == DT_U8);
    return any;
}

uint32_t dt_kernel_row_turns(const DtKernel *k)
{
    if (k->row_threads || k->pattern != DT_KPATTERN_ROW || k->n_axes < k->n_outer + 2 ||
        !reads_bytes(k) || !only_reduces(k) || sums_after_rows(k))
        return 1;
    const uint32_t last = k->n_axes - 1;
    const int64_t row = k->extent[last];
    int64_t turns = row == FEW_LANES || row == SOME_LANES ? MANY_LANES / row : 1;
    while (k->extent[last - 1] % turns != 0)
        turns /= 2;
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        const bool is_plain = node->kind == DT_KNODE_LOAD ? node->n_index == 0
                                                          : node->kind == DT_KNODE_MAP ||
                                                                node->kind == DT_KNODE_REDUCE;
        if (!is_plain && node->axes >> (last - 1))
            return 1;
    }
    return (uint32_t)turns;
}

/* Cuts the inner axis that gives most pieces. Leaves the kernel as it is if there would be fewer
 * than LEAST_PIECES. */
static void cut_axis(DtKernel *k, int64_t row_unit)
{
    const bool columns = k->pattern == DT_KPATTERN_COLUMN;
    const int64_t enough = (columns ? ENOUGH_COLUMNS : ENOUGH_ROWS) / points(k, 0, k->n_outer);
    const int64_t most =
        less(points(k, k->n_outer, k->n_axes) / (columns ? COLUMN_PIECE : DT_KROW_PIECE), enough);
    if (most < LEAST_PIECES)
        return;
    for (uint32_t a = k->n_outer; a < k->n_axes; a++) {
        const int64_t unit = columns              ? 1
                             : a + 1 == k->n_axes ? row_unit
                             : a + 2 == k->n_axes ? dt_kernel_row_turns(k)
                                                  : 1;
        const int64_t piece = up(up(k->extent[a], most), unit) * unit,
                      pieces = up(k->extent[a], piece);
        if (pieces <= k->pieces)
            continue;
        k->pieces_of = DT_KPIECES_AXIS;
        k->piece_axis = a;
        k->piece = piece;
        k->pieces = pieces;
    }
    if (k->pieces < LEAST_PIECES) {
        k->pieces_of = DT_KPIECES_NONE;
        k->pieces = k->piece = 0;
    }
}

void dt_kernel_pieces(DtKernel *k, int64_t unit)
{
    const uint32_t sums = sums_after_rows(k);
    if (sums)
        cut_rows(k, sums);
    else if (only_reduces(k))
        cut_axis(k, unit);
}

uint32_t dt_kernel_row_lanes(const DtKernel *k)
{
    if (k->row_threads)
        return k->row_threads * k->row_each;
    const int64_t row = k->n_axes ? k->extent[k->n_axes - 1] : 0;
    const uint32_t turns = dt_kernel_row_turns(k);
    const bool bytes = reads_bytes(k);
    return turns > 1                             ? turns * (uint32_t)row
           : row >= (bytes ? MANY_LANES : 128)   ? MANY_LANES
           : row == SOME_LANES && bytes          ? SOME_LANES
                                                 : FEW_LANES;
}
