/* SPDX-License-Identifier: Apache-2.0 */
/* Where a value that is not finite comes from. Such a value spreads within a step to all ranks, so
 * the loss says nothing about its origin.
 *
 * In every step a rank looks at what it gives to others, just before it gives it: one pass over
 * memory that the exchange is about to read. It notes the time of the first value that is not
 * finite. The rank with the earliest note is where the value came from.
 *
 * A step that is repeated because of such a value is examined instruction by instruction: one that
 * writes it, although it reads none, made it. Types of a kernel's operands follow from its source
 * in the plan, which declares them.
 *
 * Infinities below zero do not count: masks and the neutral element of a maximum are such. */
#include "runtime/examine.h"

#include "kir/kir.h"
#include "plan/kinds.h"
#include "runtime/checkpoint.h"
#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* instead of a dtype (DT_PLAN_F32, F16, BF16): no floats, or not known */
enum { NO_FLOATS = UINT8_MAX };

struct DtExamine {
    uint8_t **dtypes; /* by kernel: of its addresses; NULL: not looked up yet */
    char *buffer;     /* the bytes of one place */
    uint64_t room;
    DtArena *memory; /* of dtypes */
    bool is_clean;   /* the present instruction reads no value that is not finite */
};

/* ---- values ---- */

static uint8_t float_of(uint32_t dtype)
{
    return dt_kinds_is_float(dtype) && dt_kinds_size(dtype) <= 4 ? (uint8_t)dtype : NO_FLOATS;
}

/* Whether one of n values is no number, or infinite above zero. */
static bool has_bad(uint8_t dtype, const char *at, int64_t n)
{
    const size_t size = (size_t)dt_kinds_size(dtype);
    const uint32_t mask = dtype == DT_PLAN_F32    ? 0x7f800000u
                          : dtype == DT_PLAN_BF16 ? 0x7f80u
                                                  : 0x7c00u;
    const uint32_t below = mask | (dtype == DT_PLAN_F32 ? 0x80000000u : 0x8000u);
    if (!dt_wanted_is_spoilt(dtype, at, n)) /* fast, as it does not stop */
        return false;
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = 0;
        memcpy(&x, at + (size_t)i * size, size);
        if ((x & mask) == mask && x != below)
            return true;
    }
    return false;
}

static void note(DtRank *rank, uint32_t inst)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* ranks of several hosts compare it */
    rank->first_bad.ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    rank->first_bad.inst = inst;
}

void dt_examine_given(DtRank *rank, const DtPlanInst *inst, DtPlaceAt from)
{
    enum { SOME = 4096 }; /* few enough to stay in a cache */
    const uint8_t dtype = float_of(inst->dtype);
    if (rank->first_bad.ns || rank->examine || dtype == NO_FLOATS || !rank->device_ops->is_host)
        return;
    const char *at = (const char *)(uintptr_t)from.at.at;
    const int64_t size = dt_kinds_size(dtype), n = from.bytes / size;
    for (int64_t i = 0; i < n; i += SOME) {
        const int64_t some = n - i < SOME ? n - i : SOME;
        if (has_bad(dtype, at + i * size, some)) {
            note(rank, (uint32_t)(inst - rank->plan->insts));
            return;
        }
    }
}

/* ---- types of operands ---- */

/* Returns where the kernel's function begins in the source text; NULL: it is not there. */
static const char *find_function(const char *source, const char *symbol)
{
    static const char *const heads[] = {"void %s(", "DT_KERNEL(%s,",
                                        "DT_KERNEL(%s" DT_PLAN_PIECES ","};
    for (size_t i = 0; i < DT_COUNT(heads); i++) {
        DtText head = {0};
        dt_text_printf(&head, heads[i], symbol);
        const char *at = strstr(source, head.at);
        dt_text_free(&head);
        if (at)
            return at;
    }
    return NULL;
}

/* Reads `float *p3 = (float *)p[3];` of a kernel's source: the dtypes of its n addresses. */
static void read_dtypes(const char *function, bool has_f16, uint32_t n, uint8_t *ret_dtypes)
{
    for (uint32_t i = 0; i < n && function; i++) {
        char name[24];
        snprintf(name, sizeof name, " *p%u = (", i);
        const char *at = strstr(function, name);
        if (!at)
            continue;
        const size_t before = (size_t)(at - function);
        const bool is_float = before >= 5 && strncmp(at - 5, "float", 5) == 0;
        const bool is_half = before >= 14 && strncmp(at - 14, "unsigned short", 14) == 0;
        if (is_float || is_half)
            ret_dtypes[i] = is_float ? DT_PLAN_F32 : has_f16 ? DT_PLAN_F16 : DT_PLAN_BF16;
    }
}

/* Whether the plan has floats of the smaller range. It has one kind of 16 bits, or both; a value of
 * bf16 that f16 takes for infinite is above 2^120. */
static bool has_f16(const DtPlan *plan)
{
    bool has = false;
    for (uint32_t g = 0; g < plan->n_gemms; g++)
        has = has || plan->gemms[g].dtype_a == DT_PLAN_F16 || plan->gemms[g].dtype_c == DT_PLAN_F16;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        has = has || plan->stores[s].dtype == DT_PLAN_F16;
    return has;
}

static uint8_t dtype_of_kir(const char *name)
{
    for (uint32_t d = 0; d < DT_PLAN_DTYPES; d++)
        if (strcmp(name, dt_kinds_name(d)) == 0)
            return float_of(d);
    return NO_FLOATS;
}

static const uint8_t *dtypes_of(DtRank *rank, uint32_t kernel)
{
    struct DtExamine *x = rank->examine;
    const DtPlanKernel *k = &rank->plan->kernels[kernel];
    const DtPlanCode *code = &rank->plan->codes[k->code];
    const char *symbol = dt_plan_str(rank->plan, k->symbol);
    if (x->dtypes[kernel])
        return x->dtypes[kernel];
    uint8_t *dtypes = x->dtypes[kernel] = dt_arena_alloc(x->memory, k->n_pointers + 1);
    memset(dtypes, NO_FLOATS, k->n_pointers + 1);
    const DtKirKernel *kir =
        rank->images && rank->images[k->code] ? dt_kir_find(rank->images[k->code], symbol) : NULL;
    for (uint32_t i = 0; kir && i < k->n_pointers; i++)
        dtypes[i] = dtype_of_kir(dt_kir_dtype(kir, i));
    if (kir || code->source_len == 0)
        return dtypes;
    char *source = dt_arena_alloc(x->memory, code->source_len + 1);
    memcpy(source, (const char *)rank->plan->blob + code->source, code->source_len);
    source[code->source_len] = '\0';
    read_dtypes(find_function(source, symbol), has_f16(rank->plan), k->n_pointers, dtypes);
    return dtypes;
}

/* The dtype of the floats at address number `arg` of the instruction. */
static uint8_t dtype_of(DtRank *rank, const DtPlanInst *inst, uint32_t arg)
{
    const DtPlan *plan = rank->plan;
    const DtPlanGemm *gemm = inst->kind == DT_INST_GEMM ? &plan->gemms[inst->ref] : NULL;
    if (inst->kind == DT_INST_KERNEL)
        return arg < plan->kernels[inst->ref].n_pointers ? dtypes_of(rank, inst->ref)[arg]
                                                         : NO_FLOATS;
    if (gemm)
        return float_of(arg == DT_GEMM_A   ? gemm->dtype_a
                        : arg == DT_GEMM_B ? gemm->dtype_b
                                           : gemm->dtype_c);
    if (inst->kind == DT_INST_READ && arg < plan->readers[inst->ref].n_inputs)
        return float_of(plan->inputs[plan->readers[inst->ref].first_input + arg].dtype);
    return NO_FLOATS;
}

/* ---- instructions ---- */

void dt_examine_open(DtRank *rank)
{
    DtArena *memory = dt_arena_new();
    struct DtExamine *x = DT_NEW(memory, struct DtExamine);
    x->memory = memory;
    x->dtypes = DT_NEW_ARRAY(memory, uint8_t *, rank->plan->n_kernels + 1);
    rank->first_bad = (DtFirstBad){0};
    rank->examine = x;
}

void dt_examine_close(DtRank *rank)
{
    DtArena *memory = rank->examine->memory;
    free(rank->examine->buffer);
    rank->examine = NULL;
    dt_arena_free(memory);
}

/* Whether the place has a value that is not finite. Without the memory to look at it: true. */
static bool is_bad(DtRank *rank, const DtPlanInst *inst, uint32_t arg, DtPlaceAt place)
{
    struct DtExamine *x = rank->examine;
    const uint8_t dtype = dtype_of(rank, inst, arg);
    const uint64_t bytes = (uint64_t)place.bytes;
    if (dtype == NO_FLOATS)
        return false;
    if (x->room < bytes) {
        free(x->buffer);
        x->buffer = malloc(bytes);
        x->room = x->buffer ? bytes : 0;
    }
    if (x->room < bytes)
        return true;
    dt_device_get(rank, x->buffer, place, place.bytes);
    return has_bad(dtype, x->buffer, place.bytes / dt_kinds_size(dtype));
}

static bool is_written(const DtRank *rank, const DtPlanInst *inst, uint32_t arg)
{
    return rank->plan->args[inst->first_arg + arg].written;
}

/* What an instruction adds to is not looked at. It may have such values of the first run; or those
 * of another rank, which has noticed them earlier. */
void dt_examine_before(DtRank *rank, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    struct DtExamine *x = rank->examine;
    const DtPlanInst *inst = &rank->plan->insts[index];
    x->is_clean = rank->first_bad.ns == 0 && inst->kind <= DT_INST_READ;
    for (uint32_t i = 0; i < n && x->is_clean; i++)
        x->is_clean = is_written(rank, inst, i) || !is_bad(rank, inst, i, places[i]);
}

void dt_examine_after(DtRank *rank, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    struct DtExamine *x = rank->examine;
    const DtPlanInst *inst = &rank->plan->insts[index];
    for (uint32_t i = 0; i < n && x->is_clean; i++) {
        x->is_clean = !is_written(rank, inst, i) || !is_bad(rank, inst, i, places[i]);
        if (!x->is_clean && x->buffer)
            note(rank, index);
    }
}
