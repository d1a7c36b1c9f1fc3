/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates nodes at up to 64 neighbouring points, and stores their values. All functions are those
 * of the prelude, the same C text that compiled kernels contain, so the bits are the same. */
#define dt_most dt_kir_most /* the prelude's variable for shortened loops */
#include "codegen/kernels/prelude.h"

#include "kir/internal.h"

#include <string.h>

static const uint8_t sizes[] = {
    [KIR_BOOL] = 1, [KIR_U8] = 1, [KIR_I32] = 4, [KIR_F32] = 4, [KIR_F16] = 2, [KIR_BF16] = 2};

bool dt_kir_is_float(KirDtype dtype) { return dtype >= KIR_F32; }

float dt_kir_round(KirDtype dtype, float x)
{
    return dtype == KIR_BF16  ? dt_from_bf16(dt_to_bf16(x))
           : dtype == KIR_F16 ? dt_from_f16(dt_to_f16(x))
                              : x;
}

int64_t dt_kir_affine(const DtKirKernel *k, int64_t base, const int64_t *coef)
{
    for (uint32_t a = 0; a < k->n_axes; a++)
        base = dt_kir_plus(base, dt_kir_times(coef[a], k->i[a]));
    return base;
}

/* ---- memory ---- */

/* Returns the address of an element of a pointer argument. Outside of the range that the kernel may
 * access, marks it as strayed and returns NULL. */
static char *element(DtKirKernel *k, uint32_t pointer, int64_t at)
{
    const int64_t size = sizes[k->pointer[pointer]], byte = dt_kir_times(at, size);
    const DtKirRange *range = k->call->ranges ? &k->call->ranges[pointer] : NULL;
    if (range && (byte < range->from || byte > range->to - size)) {
        k->strayed = true;
        return NULL;
    }
    return k->call->pointers[pointer] + byte;
}

static KirCell take(KirDtype dtype, const char *at)
{
    KirCell x = {.i = 0};
    uint16_t half;
    switch (dtype) {
    case KIR_BOOL: case KIR_U8: x.i = *(const uint8_t *)at; break;
    case KIR_I32: memcpy(&x.i, at, sizeof x.i); break;
    case KIR_F32: memcpy(&x.f, at, sizeof x.f); break;
    default:
        memcpy(&half, at, sizeof half);
        x.f = dtype == KIR_BF16 ? dt_from_bf16(half) : dt_from_f16(half);
    }
    return x;
}

KirCell dt_kir_get(DtKirKernel *k, uint32_t pointer, int64_t at)
{
    const char *from = element(k, pointer, at);
    return from ? take(k->pointer[pointer], from) : (KirCell){.i = 0};
}

void dt_kir_put(DtKirKernel *k, uint32_t pointer, int64_t at, KirCell x, bool is_float,
                bool accumulate)
{
    const KirDtype dtype = k->pointer[pointer];
    char *to = element(k, pointer, at);
    uint16_t half;
    if (!to)
        return;
    if (dt_kir_is_float(dtype) != is_float)
        x = is_float ? (KirCell){.i = dt_to_int(x.f)} : (KirCell){.f = (float)x.i};
    if (accumulate) {
        const KirCell old = take(dtype, to);
        x = dt_kir_is_float(dtype) ? (KirCell){.f = old.f + x.f}
                                   : (KirCell){.i = dt_iadd(old.i, x.i)};
    }
    switch (dtype) {
    case KIR_BOOL: case KIR_U8: *(uint8_t *)to = (uint8_t)x.i; break;
    case KIR_I32: memcpy(to, &x.i, sizeof x.i); break;
    case KIR_F32: memcpy(to, &x.f, sizeof x.f); break;
    default:
        half = dtype == KIR_BF16 ? dt_to_bf16(x.f) : dt_to_f16(x.f);
        memcpy(to, &half, sizeof half);
    }
}

void dt_kir_store(DtKirKernel *k, const KirStore *store, uint32_t w)
{
    const KirNode *node = &k->nodes[store->node];
    const int64_t at = dt_kir_affine(k, store->offset, store->stride),
                  step = store->stride[k->along];
    for (uint32_t l = 0; l < w && !k->strayed; l++)
        dt_kir_put(k, store->pointer, dt_kir_plus(at, dt_kir_times(l, step)), node->value[l],
                   dt_kir_is_float(node->dtype), store->accumulate);
}

/* ---- loads ---- */

/* Returns the number that a constant has, or that a load gives where its index is not valid. */
static KirCell number_of(const KirNode *node)
{
    return dt_kir_is_float(node->dtype) ? (KirCell){.f = node->number}
                                        : (KirCell){.i = (int32_t)node->integer};
}

/* Computes the index of a load at w points from k->i on. Clears inside[l] for points where the
 * index is not valid. */
static void index_of(DtKirKernel *k, const KirIndex *index, uint32_t w, int64_t *ret_x,
                     bool *inside)
{
    const int64_t first = dt_kir_affine(k, index->base, index->coef), step = index->coef[k->along];
    const int64_t bases = index->bases == KIR_NONE ? 0 : k->call->integers[index->bases];
    for (uint32_t l = 0; l < w; l++) {
        int64_t x = dt_kir_plus(first, dt_kir_times(l, step));
        if (index->node != KIR_NONE) {
            x = dt_kir_plus(k->nodes[index->node].value[l].i, dt_kir_times(bases, -1));
        } else {
            const int64_t whole = x;
            x = index->div ? x / index->div : x;
            inside[l] =
                inside[l] && (!index->exact || !index->div || dt_kir_times(x, index->div) == whole);
            x = index->mod ? x % index->mod : x;
        }
        inside[l] = inside[l] && (index->extent < 0 || (x >= 0 && x < index->extent));
        ret_x[l] = x;
    }
}

static void load(DtKirKernel *k, KirNode *node, uint32_t w)
{
    const int64_t first = dt_kir_affine(k, node->offset, node->coef), step = node->coef[k->along];
    const KirDtype dtype = k->pointer[node->pointer];
    const KirCell outside = number_of(node);
    int64_t at[KIR_WIDTH], x[KIR_WIDTH];
    bool inside[KIR_WIDTH];
    for (uint32_t l = 0; l < w; l++) {
        at[l] = dt_kir_plus(first, dt_kir_times(l, step));
        inside[l] = true;
    }
    for (uint32_t d = 0; d < node->n_index; d++) {
        index_of(k, &node->index[d], w, x, inside);
        for (uint32_t l = 0; l < w; l++)
            at[l] = dt_kir_plus(at[l], dt_kir_times(node->index[d].stride, x[l]));
    }
    for (uint32_t l = 0; l < w; l++) {
        const char *from = inside[l] ? element(k, node->pointer, at[l]) : NULL;
        node->value[l] = from ? take(dtype, from) : outside;
    }
}

/* ---- maps ---- */

// clang-format off
#define EACH(to, expression)                                 \
    for (uint32_t l = 0; l < w; l++) {                       \
        const KirCell a = x[0][l], b = x[1][l], c = x[2][l]; \
        (void)a, (void)b, (void)c;                           \
        node->value[l].to = (expression);                    \
    }                                                        \
    break
#define FLOATS(name, expression) case KIR_##name: EACH(f, expression)
#define WHOLES(name, expression) case KIR_##name: EACH(i, expression)
// clang-format on

static void map_floats(KirNode *node, const KirCell *const x[3], uint32_t w)
{
    switch (node->map) {
        FLOATS(neg, -a.f);
        FLOATS(abs, __builtin_fabsf(a.f));
        FLOATS(floor, __builtin_floorf(a.f));
        FLOATS(exp, dt_exp(a.f));
        FLOATS(log, dt_log(a.f));
        FLOATS(sqrt, __builtin_sqrtf(a.f));
        FLOATS(rsqrt, dt_rsqrt(a.f));
        FLOATS(sin, dt_sin(a.f));
        FLOATS(cos, dt_cos(a.f));
        FLOATS(tanh, dt_tanh(a.f));
        FLOATS(erf, dt_erf(a.f));
        FLOATS(add, a.f + b.f);
        FLOATS(sub, a.f - b.f);
        FLOATS(mul, a.f * b.f);
        FLOATS(div, a.f / b.f);
        FLOATS(floordiv, dt_floordiv(a.f, b.f));
        FLOATS(mod, dt_mod(a.f, b.f));
        FLOATS(pow, dt_pow(a.f, b.f));
        FLOATS(max, dt_max(a.f, b.f));
        FLOATS(min, dt_min(a.f, b.f));
        WHOLES(lt, a.f < b.f);
        WHOLES(le, a.f <= b.f);
        WHOLES(eq, a.f == b.f);
        WHOLES(ne, a.f != b.f);
    default: break;
    }
}

static void map_wholes(KirNode *node, const KirCell *const x[3], uint32_t w)
{
    switch (node->map) {
        WHOLES(neg, dt_isub(0, a.i));
        WHOLES(abs, dt_iabs(a.i));
        WHOLES(floor, a.i);
        WHOLES(not, !a.i);
        WHOLES(add, dt_iadd(a.i, b.i));
        WHOLES(sub, dt_isub(a.i, b.i));
        WHOLES(mul, dt_imul(a.i, b.i));
        WHOLES(floordiv, dt_ifloordiv(a.i, b.i));
        WHOLES(mod, dt_imod(a.i, b.i));
        WHOLES(max, dt_imax(a.i, b.i));
        WHOLES(min, dt_imin(a.i, b.i));
        WHOLES(lt, a.i < b.i);
        WHOLES(le, a.i <= b.i);
        WHOLES(eq, a.i == b.i);
        WHOLES(ne, a.i != b.i);
        WHOLES(and, a.i & b.i);
        WHOLES(or, a.i | b.i);
    default: break;
    }
}

static void cast(KirNode *node, bool from_float, const KirCell *const x[3], uint32_t w)
{
    const bool to_float = dt_kir_is_float(node->dtype);
    for (uint32_t l = 0; l < w; l++) {
        const KirCell a = x[0][l];
        if (node->dtype == KIR_BOOL)
            node->value[l].i = from_float ? a.f != 0 : a.i != 0;
        else if (node->dtype == KIR_U8)
            node->value[l].i =
                from_float ? dt_imin(dt_imax(dt_to_int(a.f), 0), 255) : (int)((unsigned)a.i & 255);
        else if (to_float)
            node->value[l].f = from_float ? a.f : (float)a.i;
        else
            node->value[l].i = from_float ? dt_to_int(a.f) : a.i;
    }
}

static void map(DtKirKernel *k, KirNode *node, uint32_t w)
{
    const KirCell *x[3] = {node->value, node->value, node->value};
    const bool floats = dt_kir_is_float(k->nodes[node->args[0]].dtype);
    for (uint32_t i = 0; i < node->n_args; i++)
        x[i] = k->nodes[node->args[i]].value;
    if (node->map == KIR_stop)
        memcpy(node->value, x[0], w * sizeof(KirCell));
    else if (node->map == KIR_cast)
        cast(node, floats, x, w);
    else if (node->map == KIR_where)
        for (uint32_t l = 0; l < w; l++)
            node->value[l].i =
                dt_ipick(x[0][l].i, x[1][l].i, x[2][l].i); /* this copies the bits of floats too */
    else
        (floats ? map_floats : map_wholes)(node, x, w);
}

/* ---- others ---- */

static void draw(DtKirKernel *k, KirNode *node, uint32_t w)
{
    const int64_t *q = k->call->integers, step = node->coef[k->along];
    int64_t first = dt_kir_affine(k, 0, node->coef);
    const int64_t at = q[node->step];
    uint64_t there = (uint64_t)at;
    if (k->call->step_lies_there)
        memcpy(&there, (const char *)(uintptr_t)at,
               sizeof there); // NOLINT(performance-no-int-to-ptr)
    const uint32_t number = (uint32_t)there, iteration = (uint32_t)q[node->iteration];
    for (uint32_t i = 0; i < node->n_more; i++)
        first = dt_kir_plus(first, q[node->more[i]]);
    for (uint32_t l = 0; l < w; l++) {
        const uint64_t element_of = (uint64_t)dt_kir_plus(first, dt_kir_times(l, step));
        node->value[l].f = node->draws == 4 ? dt_draw_4(node->key, element_of, number, iteration)
                                            : dt_draw_1(node->key, element_of, number, iteration);
    }
}

static void count(DtKirKernel *k, KirNode *node, uint32_t w)
{
    const int64_t step = node->coef[k->along];
    int64_t first = node->integer == KIR_NONE ? 0 : k->call->integers[node->integer];
    first = dt_kir_affine(k, first, node->coef);
    for (uint32_t l = 0; l < w; l++)
        node->value[l].i = (int32_t)(uint32_t)(uint64_t)dt_kir_plus(first, dt_kir_times(l, step));
}

static void constant(DtKirKernel *k, KirNode *node, uint32_t w)
{
    const KirCell x = node->kind == KIR_INT
                          ? (KirCell){.i = (int32_t)k->call->integers[node->integer]}
                          : number_of(node);
    for (uint32_t l = 0; l < w; l++)
        node->value[l] = x;
}

void dt_kir_eval(DtKirKernel *k, const KirList *list, uint32_t w)
{
    dt_kir_spend(k, w);
    for (uint32_t i = 0; i < list->n && !k->strayed; i++) {
        KirNode *node = &k->nodes[list->at[i]];
        switch (node->kind) {
        case KIR_CONST:
        case KIR_INT: constant(k, node, w); break;
        case KIR_IOTA: count(k, node, w); break;
        case KIR_RNG: draw(k, node, w); break;
        case KIR_LOAD: load(k, node, w); break;
        case KIR_MAP: map(k, node, w); break;
        default: break; /* computed where their terms are */
        }
    }
}

void dt_kir_spread(KirNode *node)
{
    for (uint32_t l = 1; l < KIR_WIDTH; l++)
        node->value[l] = node->value[0];
}

/* ---- reductions ---- */

void dt_kir_begin(const KirNode *node, KirCell *cells, int64_t n)
{
    const bool is_float = dt_kir_is_float(node->dtype);
    KirCell x = {.i = 0};
    if (node->reduce != KIR_SUM && is_float)
        x.f = node->reduce == KIR_MAX ? -__builtin_inff() : __builtin_inff();
    else if (node->reduce != KIR_SUM)
        x.i = node->reduce == KIR_MAX ? INT32_MIN : INT32_MAX;
    for (int64_t i = 0; i < n; i++)
        cells[i] = x;
}

void dt_kir_combine(const KirNode *node, KirCell *to, KirCell x)
{
    if (dt_kir_is_float(node->dtype))
        to->f = node->reduce == KIR_SUM   ? to->f + x.f
                : node->reduce == KIR_MAX ? dt_max(to->f, x.f)
                                          : dt_min(to->f, x.f);
    else
        to->i = node->reduce == KIR_SUM   ? dt_iadd(to->i, x.i)
                : node->reduce == KIR_MAX ? dt_imax(to->i, x.i)
                                          : dt_imin(to->i, x.i);
}

KirCell dt_kir_tree(const DtKirKernel *k, const KirNode *node, KirCell *lanes)
{
    for (uint32_t n = k->n_lanes; n > 1;) {
        const uint32_t half = k->in_pairs ? (n + 1) / 2 : n / 2;
        for (uint32_t l = 0; l < half; l++) {
            const uint32_t with = k->in_pairs ? 2 * l + 1 : l + half;
            lanes[l] = k->in_pairs ? lanes[2 * l] : lanes[l];
            if (with < n)
                dt_kir_combine(node, &lanes[l], lanes[with]);
        }
        n = half;
    }
    return lanes[0];
}

KirCell dt_kir_join(const KirNode *node, const KirCell *pieces)
{
    KirCell lanes[KIR_LANES];
    memcpy(lanes, pieces, sizeof lanes);
    for (uint32_t half = KIR_LANES / 2; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; l++)
            dt_kir_combine(node, &lanes[l], lanes[l + half]);
    return lanes[0];
}

bool dt_kir_before(float a, int64_t i, float b, int64_t j) { return dt_before(a, i, b, j); }
