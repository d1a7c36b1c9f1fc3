/* SPDX-License-Identifier: Apache-2.0 */
/* libcublasLt.so.13: products according to the documented meaning of descriptors and layouts, in
 * loops (standin.h). Columns are adjacent; D = alpha op(A) op(B) + beta C, for each of `batch`
 * matrices. Algorithms add up in different orders. */
#include "standin.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID = 7, UNSUPPORTED = 15, F32 = 0, F16 = 2, BF16 = 14, TF32 = 77, ALGO = 0x5a };

/* An algorithm: into how many parts the sum over k is divided; whether these are added in f32 or,
 * 0, in double; their reduction scheme; and the workspace. With the scheme OUTPUT_TYPE each part is
 * rounded to the type of D. */
enum { OUTPUT_TYPE = 4, ALGORITHMS = 5 };
static const struct {
    uint32_t parts, in_f32, sums;
    size_t workspace;
} algorithms[ALGORITHMS] = {
    {1, 0, 0, 0}, {1, 1, 0, 0}, {2, 1, 2, 1 << 20}, {2, 1, OUTPUT_TYPE, 1 << 20},
    {4, 1, 2, 64 << 20}};

/* Epilogues (cublasLtEpilogue_t): bits that are combined, except for the sums of operands. */
enum { PLAIN = 1, RELU = 2, BIAS = 4, GELU = 32, DGELU = 192, AUX = 128, SUM_A = 256, SUM_B = 512 };

typedef struct Desc {
    int32_t compute, scale, transposed[2];
    uint32_t epilogue;
    uint64_t bias, aux;
    int64_t lead; /* of aux */
} Desc;
typedef struct Layout {
    int32_t type, batch;
    uint64_t rows, columns;
    int64_t lead, stride;
} Layout;
typedef struct Preference {
    uint64_t workspace;
    uint32_t sums;       /* the reduction schemes that the caller allows */
    uint32_t aligned[4]; /* alignment in bytes of A, B, C, D */
} Preference;
typedef struct Proposal {
    uint64_t algo[8]; /* ALGO, the number of bytes of which operands must be multiples, number */
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} Proposal;

int cublasLtCreate(void **ret_handle) { return (*ret_handle = malloc(1)) ? OK : 3; }

int cublasLtDestroy(void *handle)
{
    free(handle);
    return OK;
}

int cublasLtMatmulDescCreate(Desc **ret_desc, int compute, int scale)
{
    *ret_desc = calloc(1, sizeof **ret_desc);
    **ret_desc = (Desc){.compute = compute, .scale = scale, .epilogue = PLAIN};
    return (compute == 68 || compute == TF32) && scale == F32 ? OK : INVALID;
}

int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, size_t bytes)
{
    void *const at[] = {[3] = &desc->transposed[0], [4] = &desc->transposed[1],
                        [7] = &desc->epilogue, [8] = &desc->bias, [11] = &desc->aux,
                        [12] = &desc->lead};
    const size_t sizes[] = {[3] = 4, [4] = 4, [7] = 4, [8] = 8, [11] = 8, [12] = 8};
    if (attribute < 0 || (size_t)attribute >= sizeof at / sizeof at[0] || !at[attribute] ||
        sizes[attribute] != bytes)
        return INVALID;
    memcpy(at[attribute], value, bytes);
    return OK;
}

int cublasLtMatmulDescDestroy(Desc *desc)
{
    free(desc);
    return OK;
}

int cublasLtMatrixLayoutCreate(Layout **ret_layout, int type, uint64_t rows, uint64_t columns,
                               int64_t lead)
{
    *ret_layout = calloc(1, sizeof **ret_layout);
    **ret_layout =
        (Layout){.type = type, .batch = 1, .rows = rows, .columns = columns, .lead = lead};
    return lead >= (int64_t)rows ? OK : INVALID;
}

int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes)
{
    if (attribute == 5 && bytes == sizeof layout->batch)
        memcpy(&layout->batch, value, bytes);
    else if (attribute == 6 && bytes == sizeof layout->stride)
        memcpy(&layout->stride, value, bytes);
    else
        return INVALID;
    return OK;
}

int cublasLtMatrixLayoutDestroy(Layout *layout)
{
    free(layout);
    return OK;
}

int cublasLtMatmulPreferenceCreate(Preference **ret_preference)
{
    *ret_preference = calloc(1, sizeof **ret_preference);
    **ret_preference = (Preference){.sums = 7, .aligned = {256, 256, 256, 256}};
    return OK;
}

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value,
                                         size_t bytes)
{
    if (attribute == 1 && bytes == sizeof preference->workspace)
        memcpy(&preference->workspace, value, bytes);
    else if (attribute == 3 && bytes == sizeof preference->sums)
        memcpy(&preference->sums, value, bytes);
    else if (attribute >= 5 && attribute <= 8 && bytes == sizeof preference->aligned[0])
        memcpy(&preference->aligned[attribute - 5], value, bytes);
    else
        return INVALID;
    return OK;
}

int cublasLtMatmulPreferenceDestroy(Preference *preference)
{
    free(preference);
    return OK;
}

/* Returns the number after a word of DT_STANDIN, for this GPU or for all. */
static long long setting(const char *name, long long otherwise)
{
    char own[32], all[32];
    snprintf(own, sizeof own, "%s%d=", name, standin_device());
    snprintf(all, sizeof all, "%s=", name);
    return standin_setting(own, standin_setting(all, otherwise));
}

/* Returns an extent of op(matrix), the matrix or its transpose. */
static uint64_t rows_of(const Layout *l, bool transposed)
{
    return transposed ? l->columns : l->rows;
}
static uint64_t columns_of(const Layout *l, bool transposed)
{
    return transposed ? l->rows : l->columns;
}

static bool fits(const Desc *desc, const Layout *a, const Layout *b, const Layout *d)
{
    const bool at = desc->transposed[0], bt = desc->transposed[1];
    return rows_of(a, at) == d->rows && columns_of(b, bt) == d->columns &&
           columns_of(a, at) == rows_of(b, bt) && a->batch == d->batch && b->batch == d->batch &&
           a->type == b->type && (d->type == a->type || d->type == F32) &&
           (desc->compute != TF32 || a->type == F32);
}

/* One epilogue that this library does not have, and one for which it is slow; `all`: every epilogue
 * except none. */
enum { ALL = 4096 };
static bool is_named(const char *name, uint32_t e)
{
    const long long which = setting(name, 0);
    return which == ALL ? e != PLAIN : which == e;
}

static bool does(const Desc *desc, const Layout *c, const Layout *d)
{
    const uint32_t e = desc->epilogue;
    if (is_named("refuses", e))
        return false;
    const uint32_t known = PLAIN | RELU | BIAS | GELU | AUX;
    const bool sums = e == SUM_A || e == SUM_B, pointwise = e == DGELU || !(e & ~known);
    if (!(sums || pointwise) || (e & AUX && !(e & GELU) && e != DGELU) ||
        (e != PLAIN && d->batch != 1))
        return false;
    if ((e & BIAS || sums) && (!desc->bias || desc->bias % (d->type == F32 ? 4 : 2)))
        return false;
    return c->type == d->type && c->rows == d->rows && c->columns == d->columns &&
           (!(e & AUX) || (desc->aux && desc->aux % 16 == 0 && desc->lead % 8 == 0 &&
                           desc->lead >= (int64_t)d->rows));
}

static bool is_gone(uint32_t number) { return number == setting("gone", -1); }

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Desc *desc, const Layout *a, const Layout *b,
                                   const Layout *c, const Layout *d, const Preference *preference,
                                   int n, Proposal *ret, int *ret_n)
{
    (void)handle;
    *ret_n = 0;
    if (n < 1 || !fits(desc, a, b, d) || !does(desc, c, d))
        return n < 1 ? INVALID : UNSUPPORTED;
    for (uint32_t number = 0; number < ALGORITHMS && *ret_n < n; number++) {
        if (algorithms[number].workspace > preference->workspace ||
            algorithms[number].sums & ~preference->sums || is_gone(number))
            continue;
        ret[*ret_n] = (Proposal){.algo = {ALGO, [5] = number},
                                 .workspace = algorithms[number].workspace};
        for (int k = 0; k < 4; k++)
            ret[*ret_n].algo[1 + k] = preference->aligned[k];
        (*ret_n)++;
    }
    return OK;
}

static bool is_known(const uint64_t *algo)
{
    for (int k = 1; k < 5; k++)
        if (algo[k] == 0 || algo[k] > 256)
            return false;
    return algo[0] == ALGO && algo[5] < ALGORITHMS && !algo[6] && !algo[7] &&
           !is_gone((uint32_t)algo[5]);
}

int cublasLtMatmulAlgoCheck(void *handle, const Desc *desc, const Layout *a, const Layout *b,
                            const Layout *c, const Layout *d, const uint64_t *algo, Proposal *ret)
{
    if (!handle || !is_known(algo) || !fits(desc, a, b, d) || !does(desc, c, d))
        return INVALID;
    ret->workspace = algorithms[algo[5]].workspace;
    ret->state = OK;
    return OK;
}

int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algo, int attribute, void *ret_value,
                                         size_t bytes, size_t *ret_written)
{
    const uint32_t value = attribute == 0   ? (uint32_t)algo[5]
                           : attribute == 2 ? algorithms[algo[5]].parts
                           : attribute == 3 ? algorithms[algo[5]].sums
                                            : 0;
    if (attribute < 0 || attribute > 8 || bytes != (attribute < 7 ? 4 : 2))
        return INVALID;
    memcpy(ret_value, &value, bytes);
    *ret_written = bytes;
    return OK;
}

int cublasLtGetProperty(int type, int *ret_value)
{
    const int version[] = {13, 1, (int)standin_setting("patch=", 0)};
    if (type < 0 || type > 2)
        return INVALID;
    *ret_value = version[type];
    return OK;
}

static double load(const char *at, int type, int64_t i)
{
    if (type == F32)
        return ((const float *)(const void *)at)[i];
    const uint16_t bits = ((const uint16_t *)(const void *)at)[i];
    return type == BF16 ? dt_half_from_bf16(bits) : dt_half_from_f16(bits);
}

static void store(char *at, int type, int64_t i, double value)
{
    if (type == F32)
        ((float *)(void *)at)[i] = (float)value;
    else
        ((uint16_t *)(void *)at)[i] =
            type == BF16 ? dt_half_to_bf16((float)value) : dt_half_to_f16((float)value);
}

typedef struct Product {
    Desc desc;
    Layout a, b, c, d;
    float alpha, beta;
    uint64_t at_a, at_b, at_c, at_d;
    uint32_t number; /* number of the algorithm */
} Product;

static char *memory(const Layout *l, uint64_t at)
{
    const int64_t last =
        (l->batch - 1) * l->stride + (int64_t)(l->columns - 1) * l->lead + (int64_t)l->rows;
    return standin_memory(at, (size_t)(last * (l->type == F32 ? 4 : 2)));
}

/* Rounds to 10 bits of mantissa, ties away from zero, like cvt.rna.tf32.f32. */
static double to_tf32(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isfinite(narrow))
        bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&narrow, &bits, sizeof bits);
    return narrow;
}

static double element(const Layout *l, const char *at, bool transposed, int64_t batch, int64_t i,
                      int64_t j)
{
    return load(at, l->type, batch * l->stride + (transposed ? j + i * l->lead : i + j * l->lead));
}

/* Returns an element of an operand, converted to the compute type. */
static double factor(const Product *p, const Layout *l, const char *at, bool transposed,
                     int64_t batch, int64_t i, int64_t j)
{
    const double value = element(l, at, transposed, batch, i, j);
    return p->desc.compute == TF32 ? to_tf32(value) : value;
}

static double gelu_inside(double x) { return 0.79788456080286535588 * (x + 0.044715 * x * x * x); }

/* Applies the epilogue to the sum of row i and column j. */
static double finish(const Product *p, double x, int64_t i, int64_t j)
{
    const uint32_t e = p->desc.epilogue;
    const size_t unit = p->d.type == F32 ? 4 : 2;
    const int64_t at = i + j * p->desc.lead;
    const int64_t last = (int64_t)(p->d.columns - 1) * p->desc.lead + (int64_t)p->d.rows;
    char *aux = e & AUX ? standin_memory(p->desc.aux, (size_t)last * unit) : NULL;
    if (e & BIAS && e != DGELU)
        x += load(standin_memory(p->desc.bias, p->d.rows * unit), p->d.type, i);
    if (e == DGELU) {
        const double u = load(aux, p->d.type, at), t = tanh(gelu_inside(u));
        return x * (0.5 * (1 + t) +
                    0.5 * u * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * u * u));
    }
    if (e & AUX)
        store(aux, p->d.type, at, x);
    if (e & RELU)
        return x > 0 || isnan(x) ? x : 0;
    return e & GELU ? 0.5 * x * (1 + tanh(gelu_inside(x))) : x;
}

/* Computes the sums over k of A's rows, or of B's columns. */
static void sum_operand(const Product *p, const char *from)
{
    const bool left = p->desc.epilogue == SUM_A;
    const Layout *l = left ? &p->a : &p->b;
    const int64_t n = (int64_t)(left ? p->d.rows : p->d.columns),
                  inner = (int64_t)columns_of(&p->a, p->desc.transposed[0]);
    char *bias = standin_memory(p->desc.bias, (size_t)n * (p->d.type == F32 ? 4 : 2));
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum +=
                element(l, from, p->desc.transposed[left ? 0 : 1], 0, left ? i : k, left ? k : i);
        store(bias, p->d.type, i, sum);
    }
}

typedef struct Line { /* a row of op(A) and a column of op(B) */
    const Product *p;
    const char *a, *b;
    int64_t batch, i, j;
} Line;

static double sum_from(const Line *l, int64_t from, int64_t to)
{
    const Product *p = l->p;
    const bool at = p->desc.transposed[0], bt = p->desc.transposed[1],
               in_f32 = algorithms[p->number].in_f32;
    double sum = 0;
    for (int64_t k = from; k < to; k++) {
        sum += factor(p, &p->a, l->a, at, l->batch, l->i, k) *
               factor(p, &p->b, l->b, bt, l->batch, k, l->j);
        sum = in_f32 ? (float)sum : sum;
    }
    return sum;
}

static double sum_in_parts(const Line *l, int64_t inner)
{
    const Product *p = l->p;
    const int64_t parts = algorithms[p->number].parts;
    double sum = sum_from(l, 0, inner / parts);
    for (int64_t i = 1; i < parts; i++) {
        double part = sum_from(l, i * inner / parts, (i + 1) * inner / parts);
        if (algorithms[p->number].sums == OUTPUT_TYPE) {
            char rounded[4];
            store(rounded, p->d.type, 0, part);
            part = load(rounded, p->d.type, 0);
        }
        sum = (float)(sum + part);
    }
    return sum;
}

/* The algorithm that is fastest on the GPU: on the GPU's clock all others take a second longer. */
static uint32_t fastest(void) { return (uint32_t)setting("fast", 0); }

static void multiply(const void *context)
{
    const Product *p = context;
    if (p->number != fastest())
        standin_spend(1);
    if (is_named("slow", p->desc.epilogue))
        standin_spend(10);
    const char *a = memory(&p->a, p->at_a), *b = memory(&p->b, p->at_b),
               *c = p->beta != 0 ? memory(&p->c, p->at_c) : NULL;
    char *d = memory(&p->d, p->at_d);
    const int64_t inner = (int64_t)columns_of(&p->a, p->desc.transposed[0]);
    for (int64_t batch = 0; batch < p->d.batch; batch++)
        for (int64_t j = 0; j < (int64_t)p->d.columns; j++)
            for (int64_t i = 0; i < (int64_t)p->d.rows; i++) {
                double sum = sum_in_parts(&(Line){p, a, b, batch, i, j}, inner);
                const int64_t to = batch * p->d.stride + i + j * p->d.lead;
                const int64_t from = batch * p->c.stride + i + j * p->c.lead;
                sum = p->alpha * sum + (p->beta != 0 ? p->beta * load(c, p->c.type, from) : 0);
                store(d, p->d.type, to, finish(p, sum, i, j));
            }
    if (p->desc.epilogue == SUM_A || p->desc.epilogue == SUM_B)
        sum_operand(p, p->desc.epilogue == SUM_A ? a : b);
}

int cublasLtMatmul(void *handle, const Desc *desc, const float *alpha, uint64_t a,
                   const Layout *a_layout, uint64_t b, const Layout *b_layout, const float *beta,
                   uint64_t c, const Layout *c_layout, uint64_t d, const Layout *d_layout,
                   const uint64_t *algo, uint64_t workspace, size_t bytes, Stream *stream)
{
    if (!handle || !fits(desc, a_layout, b_layout, d_layout) || !does(desc, c_layout, d_layout) ||
        !is_known(algo) || bytes < algorithms[algo[5]].workspace ||
        a % algo[1] || b % algo[2] || c % algo[3] || d % algo[4])
        return INVALID;
    standin_memory(workspace, bytes);
    const bool is_stubborn = standin_device() == standin_setting("stubborn=", -1);
    const uint32_t number = is_stubborn ? fastest() : (uint32_t)algo[5];
    const Product p = {*desc, *a_layout, *b_layout, *c_layout, *d_layout, *alpha, *beta, a, b, c, d,
                       number};
    return standin_begin(stream, multiply, &p, sizeof p);
}
