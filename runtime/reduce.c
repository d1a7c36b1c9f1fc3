/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions between ranks. The caller fixes the order of operands, so that sums
 * have the same bits on every run; elements are independent, so the compiler may vectorise
 * freely. */
#include "runtime/reduce.h"

#include "base/half.h"

#include <string.h>

#define LOOP(T, expression)                 \
    do {                                    \
        T *restrict a = into;               \
        const T *restrict b = from;         \
        for (int64_t i = 0; i < count; i++) \
            a[i] = (T)(expression);         \
    } while (0)

/* A row for each dtype and kind of addition (U: the unsigned type, whose sums wrap). NaN is found
 * by comparing a value with itself. */
#define FUNCTION(name, T, U)                                                           \
    static void name(DtPlanReduce reduce, void *into, const void *from, int64_t count) \
    {                                                                                  \
        switch (reduce) {                                                              \
        case DT_PLAN_MAX: LOOP(T, b[i] > a[i] || b[i] != b[i] ? b[i] : a[i]); break;   \
        case DT_PLAN_MIN: LOOP(T, b[i] < a[i] || b[i] != b[i] ? b[i] : a[i]); break;   \
        default: LOOP(T, (U)a[i] + (U)b[i]); break;                                    \
        }                                                                              \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtautological-compare"
FUNCTION(reduce_u8, uint8_t, uint8_t)
FUNCTION(reduce_u32, uint32_t, uint32_t)
FUNCTION(reduce_i32, int32_t, uint32_t)
FUNCTION(reduce_i64, int64_t, uint64_t)
FUNCTION(reduce_f32, float, float)
FUNCTION(reduce_f64, double, double)
#pragma GCC diagnostic pop

static void reduce_bool(DtPlanReduce reduce, void *into, const void *from, int64_t count)
{
    if (reduce == DT_PLAN_MIN)
        LOOP(uint8_t, a[i] && b[i]);
    else
        LOOP(uint8_t, a[i] || b[i]);
}

typedef void ReduceFunction(DtPlanReduce reduce, void *into, const void *from, int64_t count);

static ReduceFunction *const functions[DT_PLAN_DTYPES] = {
    [DT_PLAN_BOOL] = reduce_bool, [DT_PLAN_U8] = reduce_u8,   [DT_PLAN_U32] = reduce_u32,
    [DT_PLAN_I32] = reduce_i32,   [DT_PLAN_I64] = reduce_i64, [DT_PLAN_F32] = reduce_f32,
    [DT_PLAN_F64] = reduce_f64,
};

static bool is_half(DtPlanDtype dtype) { return dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16; }

bool dt_reduce_knows(DtPlanDtype dtype)
{
    return (uint32_t)dtype < DT_PLAN_DTYPES && (functions[dtype] != 0 || is_half(dtype));
}

/* ---- 16-bit floats: block by block through f32 ---- */

enum { BLOCK = 512 };

void dt_reduce_widen(DtPlanDtype dtype, float *to, const uint16_t *from, int64_t count)
{
    if (dtype == DT_PLAN_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = dt_half_from_bf16(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = dt_half_from_f16(from[i]);
}

void dt_reduce_narrow(DtPlanDtype dtype, uint16_t *to, const float *from, int64_t count)
{
    if (dtype == DT_PLAN_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = dt_half_to_bf16(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = dt_half_to_f16(from[i]);
}

void dt_reduce_convert(void *to, DtPlanDtype to_dtype, const void *from, DtPlanDtype from_dtype,
                       int64_t n)
{
    float some[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        if (from_dtype == DT_PLAN_F32)
            memcpy(some, (const float *)from + i, (size_t)count * sizeof *some);
        else
            dt_reduce_widen(from_dtype, some, (const uint16_t *)from + i, count);
        if (to_dtype == DT_PLAN_F32)
            memcpy((float *)to + i, some, (size_t)count * sizeof *some);
        else
            dt_reduce_narrow(to_dtype, (uint16_t *)to + i, some, count);
    }
}

static void reduce_halves(DtPlanDtype dtype, DtPlanReduce reduce, uint16_t *to,
                          const void *const *from, uint32_t n, int64_t count)
{
    float sum[BLOCK], next[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t some = count - i < BLOCK ? count - i : BLOCK;
        dt_reduce_widen(dtype, sum, (const uint16_t *)from[0] + i, some);
        for (uint32_t m = 1; m < n; m++) {
            dt_reduce_widen(dtype, next, (const uint16_t *)from[m] + i, some);
            reduce_f32(reduce, sum, next, some);
        }
        dt_reduce_narrow(dtype, to + i, sum, some);
    }
}

void dt_reduce_buffers(DtPlanDtype dtype, DtPlanReduce reduce, void *to, const void *const *from,
                       uint32_t n, int64_t count)
{
    if (is_half(dtype)) {
        reduce_halves(dtype, reduce, to, from, n, count);
        return;
    }
    memcpy(to, from[0], (size_t)(count * dt_kinds_size(dtype)));
    for (uint32_t m = 1; m < n; m++)
        functions[dtype](reduce, to, from[m], count);
}

/* ---- sums in parts ---- */

DtPlanDtype dt_reduce_wide(DtPlanDtype dtype) { return is_half(dtype) ? DT_PLAN_F32 : dtype; }

static void go_on_halves(DtPlanDtype dtype, DtPlanReduce reduce, float *acc, bool begins,
                         const void *const *from, uint32_t n, int64_t count)
{
    float next[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t some = count - i < BLOCK ? count - i : BLOCK;
        if (begins)
            dt_reduce_widen(dtype, acc + i, (const uint16_t *)from[0] + i, some);
        for (uint32_t m = begins; m < n; m++) {
            dt_reduce_widen(dtype, next, (const uint16_t *)from[m] + i, some);
            reduce_f32(reduce, acc + i, next, some);
        }
    }
}

void dt_reduce_go_on(DtPlanDtype dtype, DtPlanReduce reduce, void *acc, bool begins,
                     const void *const *from, uint32_t n, int64_t count)
{
    if (is_half(dtype)) {
        go_on_halves(dtype, reduce, acc, begins, from, n, count);
        return;
    }
    if (begins)
        memcpy(acc, from[0], (size_t)(count * dt_kinds_size(dtype)));
    for (uint32_t m = begins; m < n; m++)
        functions[dtype](reduce, acc, from[m], count);
}

void dt_reduce_round(DtPlanDtype dtype, void *to, const void *acc, int64_t count)
{
    if (is_half(dtype))
        dt_reduce_narrow(dtype, to, acc, count);
    else if (to != acc)
        memcpy(to, acc, (size_t)(count * dt_kinds_size(dtype)));
}
