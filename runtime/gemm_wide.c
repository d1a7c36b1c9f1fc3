/* SPDX-License-Identifier: Apache-2.0 */
/* Products that the library itself cannot do, on a library that multiplies f32 matrices: operands
 * of 16 bits, or with strides that no matrix of a library has (overlapping windows, rows that are
 * broadcast). Tiles of both operands are copied into dense f32 matrices, which is exact; the
 * library multiplies and adds up over the tiles of k in f32; the tile of the result is rounded
 * once, when it is complete. After Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication" (2008), with a library as the inner kernel.
 *
 * Tiles of one product have one size: edges are filled up with zeros, so that two records of the
 * library do (the first tile of k overwrites, the others add). */
#include "runtime/gemm_wide.h"

#include "runtime/reduce.h"

#include <string.h>

enum { MAX_MN = 512, MAX_K = 1024 };

/* A matrix operand: its strides in elements, and the layout of its tiles in scratch memory. */
typedef struct Side {
    uint32_t dtype;
    int64_t row, col;
    bool by_columns; /* tiles are stored column by column, as the operand is */
} Side;

typedef struct Wide {
    const DtPlanGemm *gemm;
    Side a, b;
    int64_t m, n, k; /* extents of a tile */
    uint32_t first, next; /* numbers of the library's records: one that overwrites, one that adds */
} Wide;

struct DtGemmWide {
    const DtGemmOps *ops;
    DtGemmLibrary *library;
    uint32_t n, next_record;
    Wide *products;
    float *a, *b, *c, *line; /* memory for one tile of A, B and C each, and for one row or column of
                              * a tile */
    int64_t a_size, b_size, c_size;
};

DtGemmWide *dt_gemm_wide_new(DtArena *memory, const DtGemmOps *ops, DtGemmLibrary *library,
                             uint32_t first_record, uint32_t n)
{
    DtGemmWide *wide = DT_NEW(memory, DtGemmWide);
    *wide = (DtGemmWide){.ops = ops, .library = library, .next_record = first_record,
                         .products = DT_NEW_ARRAY(memory, Wide, n + 1)};
    return wide;
}

/* Divides the length into equal tiles of at most `most`. */
static int64_t tile(int64_t extent, int64_t most)
{
    int64_t tiles = (extent + most - 1) / most;
    return (extent + tiles - 1) / tiles;
}

static bool prepare_record(DtGemmWide *wide, const Wide *w, bool accumulate, DtPlanGemm *record)
{
    *record = (DtPlanGemm){.accumulate = accumulate, .dtype_a = DT_PLAN_F32, .dtype_b = DT_PLAN_F32,
                           .dtype_c = DT_PLAN_F32, .m = w->m, .n = w->n, .k = w->k, .c_row = w->n,
                           .c_col = 1};
    record->a_row = w->a.by_columns ? 1 : w->k;
    record->a_col = w->a.by_columns ? w->m : 1;
    record->b_row = w->b.by_columns ? 1 : w->n;
    record->b_col = w->b.by_columns ? w->k : 1;
    return wide->ops->prepare(wide->library, wide->next_record++, record);
}

static int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }

bool dt_gemm_wide_prepare(DtGemmWide *wide, DtArena *memory, const DtPlanGemm *g,
                          uint32_t *ret_index)
{
    Wide *w = &wide->products[wide->n];
    if (!dt_kinds_is_float(g->dtype_a) || !dt_kinds_is_float(g->dtype_b) ||
        !dt_kinds_is_float(g->dtype_c))
        return false;
    *w = (Wide){.gemm = g, .a = {g->dtype_a, g->a_row, g->a_col, g->a_row == 1 && g->a_col != 1},
                .b = {g->dtype_b, g->b_row, g->b_col, g->b_row == 1 && g->b_col != 1},
                .m = tile(g->m, MAX_MN), .n = tile(g->n, MAX_MN), .k = tile(g->k, MAX_K)};
    /* OpenBLAS keeps a pointer to the record */
    DtPlanGemm *records = DT_NEW_ARRAY(memory, DtPlanGemm, 2);
    w->first = wide->next_record;
    if (!prepare_record(wide, w, false, &records[0]))
        return false;
    w->next = wide->next_record;
    if (w->k < g->k && !prepare_record(wide, w, true, &records[1]))
        return false;
    wide->a_size = larger(wide->a_size, w->m * w->k);
    wide->b_size = larger(wide->b_size, w->k * w->n);
    wide->c_size = larger(wide->c_size, w->m * w->n);
    *ret_index = wide->n++;
    return true;
}

void dt_gemm_wide_ready(DtGemmWide *wide, DtArena *memory)
{
    if (wide->n == 0)
        return;
    wide->a = DT_NEW_ARRAY(memory, float, wide->a_size);
    wide->b = DT_NEW_ARRAY(memory, float, wide->b_size);
    wide->c = DT_NEW_ARRAY(memory, float, wide->c_size);
    wide->line = DT_NEW_ARRAY(memory, float, MAX_K);
}

uint64_t dt_gemm_wide_bytes(const DtGemmWide *wide)
{
    return wide->n ? (uint64_t)(wide->a_size + wide->b_size + wide->c_size + MAX_K) * sizeof(float)
                   : 0;
}

/* ---- copies ---- */

static float element(const char *from, int64_t at, uint32_t dtype)
{
    float value;
    if (dtype == DT_PLAN_F32)
        return ((const float *)(const void *)from)[at];
    dt_reduce_widen(dtype, &value, (const uint16_t *)(const void *)from + at, 1);
    return value;
}

/* Converts n elements that are `stride` apart. */
static void gather(float *to, const char *from, int64_t at, int64_t stride, int64_t n,
                   uint32_t dtype)
{
    if (stride == 1 && dtype == DT_PLAN_F32)
        memcpy(to, from + at * 4, (size_t)n * sizeof *to);
    else if (stride == 1)
        dt_reduce_widen(dtype, to, (const uint16_t *)(const void *)from + at, n);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = element(from, at + i * stride, dtype);
}

/* Copies rows x cols elements of the operand, from element `at` on, into a tile of full_rows x
 * full_cols, padded with zeros. */
static void pack(float *to, const Side *side, const char *from, int64_t at, int64_t rows,
                 int64_t cols, int64_t full_rows, int64_t full_cols)
{
    int64_t n = side->by_columns ? cols : rows, full_n = side->by_columns ? full_cols : full_rows;
    int64_t run = side->by_columns ? rows : cols,
            full_run = side->by_columns ? full_rows : full_cols;
    int64_t step = side->by_columns ? side->col : side->row,
            stride = side->by_columns ? side->row : side->col;
    for (int64_t i = 0; i < n; i++) {
        gather(to + i * full_run, from, at + i * step, stride, run, side->dtype);
        memset(to + i * full_run + run, 0, (size_t)(full_run - run) * sizeof *to);
    }
    memset(to + n * full_run, 0, (size_t)((full_n - n) * full_run) * sizeof *to);
}

/* Writes the finished tile to its place in C. */
static void deliver(const DtGemmWide *wide, const Wide *w, char *c, int64_t at, int64_t rows,
                    int64_t cols)
{
    const DtPlanGemm *g = w->gemm;
    bool dense = g->c_col == 1 && g->dtype_c != DT_PLAN_F32;
    for (int64_t i = 0; i < rows; i++) {
        float *from = wide->c + i * w->n;
        int64_t to = at + i * g->c_row;
        if (g->accumulate) {
            gather(wide->line, c, to, g->c_col, cols, g->dtype_c);
            for (int64_t j = 0; j < cols; j++)
                from[j] += wide->line[j];
        }
        if (dense)
            dt_reduce_narrow(g->dtype_c, (uint16_t *)(void *)c + to, from, cols);
        for (int64_t j = 0; !dense && j < cols; j++)
            if (g->dtype_c == DT_PLAN_F32)
                ((float *)(void *)c)[to + j * g->c_col] = from[j];
            else
                dt_reduce_narrow(g->dtype_c, (uint16_t *)(void *)c + to + j * g->c_col, from + j,
                                 1);
    }
}

/* ---- the step ---- */

static int64_t rest(int64_t extent, int64_t at, int64_t tile_size)
{
    return extent - at < tile_size ? extent - at : tile_size;
}

static bool tile_product(DtGemmWide *wide, const Wide *w, const char *a, const char *b,
                         const DtGemmBatch *at, int64_t i, int64_t j)
{
    const DtPlanGemm *g = w->gemm;
    int64_t rows = rest(g->m, i, w->m), cols = rest(g->n, j, w->n);
    for (int64_t k = 0; k < g->k; k += w->k) {
        int64_t sums = rest(g->k, k, w->k);
        pack(wide->a, &w->a, a, at->a + i * g->a_row + k * g->a_col, rows, sums, w->m, w->k);
        if (i == 0 || w->k < g->k) /* otherwise the tile of the previous rows still contains the
                                    * sums */
            pack(wide->b, &w->b, b, at->b + k * g->b_row + j * g->b_col, sums, cols, w->k, w->n);
        if (!wide->ops->run(wide->library, k == 0 ? w->first : w->next, wide->a, wide->b, wide->c))
            return false;
    }
    return true;
}

bool dt_gemm_wide_run(DtGemmWide *wide, uint32_t index, const void *a, const void *b, void *c)
{
    const Wide *w = &wide->products[index];
    const DtPlanGemm *g = w->gemm;
    DtGemmBatch at = dt_gemm_batch(g, g->n_batch);
    do {
        for (int64_t j = 0; j < g->n; j += w->n)
            for (int64_t i = 0; i < g->m; i += w->m) {
                if (!tile_product(wide, w, a, b, &at, i, j))
                    return false;
                deliver(wide, w, c, at.c + i * g->c_row + j * g->c_col, rest(g->m, i, w->m),
                        rest(g->n, j, w->n));
            }
    } while (dt_gemm_batch_next(&at));
    return true;
}
