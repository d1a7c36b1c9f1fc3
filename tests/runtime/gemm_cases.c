/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm_cases.h"

#include <stdbool.h>
#include <stdlib.h>

const DtPlanGemm gemm_cases[GEMM_CASES] = {
    {F32, .m = 5, .n = 7, .k = 3, .a_row = 3, .a_col = 1, .b_row = 7, .b_col = 1, .c_row = 7,
     .c_col = 1},
    {F32, .accumulate = 1, .m = 5, .n = 7, .k = 3, .a_row = 3, .a_col = 1, .b_row = 7, .b_col = 1,
     .c_row = 7, .c_col = 1},
    {F32, .m = 64, .n = 48, .k = 96, .a_row = 1, .a_col = 64, .b_row = 48, .b_col = 1, .c_row = 48,
     .c_col = 1},
    {F32, .accumulate = 1, .m = 33, .n = 65, .k = 17, .a_row = 17, .a_col = 1, .b_row = 1,
     .b_col = 17, .c_row = 65, .c_col = 1},
    {F32, .m = 16, .n = 16, .k = 16, .a_row = 1, .a_col = 16, .b_row = 1, .b_col = 16, .c_row = 1,
     .c_col = 16}, /* computes C transposed */
    {F32, .m = 8, .n = 8, .k = 8, .a_row = 20, .a_col = 1, .b_row = 30, .b_col = 1, .c_row = 40,
     .c_col = 1}, /* rows with gaps between them */
    {F32, .m = 1, .n = 9, .k = 4, .a_row = 4, .a_col = 1, .b_row = 9, .b_col = 1, .c_row = 9,
     .c_col = 1},
    {F32, .m = 9, .n = 1, .k = 4, .a_row = 4, .a_col = 1, .b_row = 1, .b_col = 1, .c_row = 1,
     .c_col = 1},
    {F32, .m = 3, .n = 4, .k = 1, .a_row = 1, .a_col = 1, .b_row = 4, .b_col = 1, .c_row = 4,
     .c_col = 1},
    /* heads inside of rows: [batch, seq, heads, head] times its transpose, for each sample and
     * head */
    {F32, .n_batch = 2, .m = 6, .n = 6, .k = 5, .batch = {2, 3}, .a_batch = {90, 5},
     .b_batch = {90, 5}, .c_batch = {108, 36}, .a_row = 15, .a_col = 1, .b_row = 1, .b_col = 15,
     .c_row = 6, .c_col = 1},
    {F32, .n_batch = 2, .accumulate = 1, .m = 6, .n = 5, .k = 6, .batch = {2, 3},
     .a_batch = {108, 36}, .b_batch = {90, 5}, .c_batch = {90, 5}, .a_row = 6, .a_col = 1,
     .b_row = 15, .b_col = 1, .c_row = 15, .c_col = 1},
    /* one weight for all samples of the batch */
    {F32, .n_batch = 1, .m = 4, .n = 8, .k = 8, .batch = {5}, .a_batch = {32}, .b_batch = {0},
     .c_batch = {32}, .a_row = 8, .a_col = 1, .b_row = 8, .b_col = 1, .c_row = 8, .c_col = 1},
    /* no unit stride, and broadcast rows: these run in the plain loops */
    {F32, .m = 4, .n = 4, .k = 4, .a_row = 2, .a_col = 9, .b_row = 4, .b_col = 1, .c_row = 4,
     .c_col = 1},
    {F32, .m = 4, .n = 4, .k = 4, .a_row = 0, .a_col = 1, .b_row = 4, .b_col = 1, .c_row = 4,
     .c_col = 1},
};

int64_t gemm_extent(const DtPlanGemm *g, int64_t rows, int64_t row, int64_t cols, int64_t col,
                    const int64_t *batch)
{
    int64_t last = (rows - 1) * row + (cols - 1) * col;
    for (uint32_t b = 0; b < g->n_batch; b++)
        last += (g->batch[b] - 1) * batch[b];
    return last + 1;
}

float *gemm_numbers(int64_t n, uint32_t seed)
{
    float *at = malloc((size_t)n * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return at;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Makes an operand of g whose axes (batches, rows, columns) are in memory in some order, with rows
 * or columns innermost, and perhaps gaps after it; it may lack some batch axes. */
static void lay_out(const DtPlanGemm *g, int64_t rows, int64_t cols, bool may_lack, uint32_t *seed,
                    int64_t *batch, int64_t *row, int64_t *col)
{
    int64_t *strides[DT_PLAN_MAX_BATCH + 2], extents[DT_PLAN_MAX_BATCH + 2];
    uint32_t n = 0;
    bool transposed = draw(seed, 3) == 0;
    strides[n] = transposed ? col : row, extents[n++] = transposed ? cols : rows;
    for (uint32_t d = 0; d < g->n_batch; d++) {
        batch[d] = 0;
        if (!may_lack || draw(seed, 3) > 0)
            strides[n] = &batch[d], extents[n++] = g->batch[d];
    }
    int64_t next = transposed ? rows : cols;
    *(transposed ? row : col) = 1;
    if (draw(seed, 4) == 0)
        next += 3;
    for (uint32_t left = n; left > 0; left--) {
        uint32_t which = draw(seed, left);
        *strides[which] = next;
        next *= extents[which];
        strides[which] = strides[left - 1], extents[which] = extents[left - 1];
    }
}

DtPlanGemm gemm_draw(uint32_t *seed)
{
    DtPlanGemm g = {F32, .accumulate = draw(seed, 2), .n_batch = 1 + draw(seed, 3)};
    uint32_t most = draw(seed, 4) ? 9 : 70;
    g.m = 1 + draw(seed, most), g.n = 1 + draw(seed, most), g.k = 1 + draw(seed, most);
    for (uint32_t d = 0; d < g.n_batch; d++)
        g.batch[d] = 1 + draw(seed, 4);
    lay_out(&g, g.m, g.k, true, seed, g.a_batch, &g.a_row, &g.a_col);
    lay_out(&g, g.k, g.n, true, seed, g.b_batch, &g.b_row, &g.b_col);
    lay_out(&g, g.m, g.n, false, seed, g.c_batch, &g.c_row, &g.c_col);
    return g;
}

DtPlanGemm gemm_draw_joined(uint32_t *seed, DtPlanEpilogue epilogue, uint32_t dtype,
                            uint32_t dtype_c)
{
    DtPlanGemm g = {.dtype_a = dtype, .dtype_b = dtype, .dtype_c = dtype_c, .epilogue = epilogue};
    g.m = 1 + draw(seed, 40), g.n = 1 + draw(seed, 40), g.k = 1 + draw(seed, 40);
    g.accumulate = dt_kinds_epilogues[epilogue].vector == DT_EPILOGUE_WRITE ? draw(seed, 2) : 0;
    lay_out(&g, g.m, g.k, true, seed, g.a_batch, &g.a_row, &g.a_col);
    lay_out(&g, g.k, g.n, true, seed, g.b_batch, &g.b_row, &g.b_col);
    const int64_t rows = (g.n + 7) / 8 * 8;
    g.c_row = rows + 8 * draw(seed, 2), g.c_col = 1;
    g.matrix_col = dt_kinds_epilogues[epilogue].matrix ? 1 : 0;
    g.matrix_row = g.matrix_col ? rows + 8 * draw(seed, 2) : 0;
    return g;
}

void gemm_extents(const DtPlanGemm *g, int64_t ret_extents[5])
{
    const DtEpilogueInfo *info = &dt_kinds_epilogues[g->epilogue];
    ret_extents[0] = gemm_extent(g, g->m, g->a_row, g->k, g->a_col, g->a_batch);
    ret_extents[1] = gemm_extent(g, g->k, g->b_row, g->n, g->b_col, g->b_batch);
    ret_extents[2] = gemm_extent(g, g->m, g->c_row, g->n, g->c_col, g->c_batch);
    ret_extents[3] = !info->vector ? 0 : g->epilogue == DT_PLAN_EPILOGUE_SUM_A ? g->m : g->n;
    ret_extents[4] =
        info->matrix ? gemm_extent(g, g->m, g->matrix_row, g->n, g->matrix_col, g->c_batch) : 0;
}
