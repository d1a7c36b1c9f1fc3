/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises attention that a library also supports: softmax of scaled scores, without a mask or
 * with one by positions, and its derivative (plan.h, SDPA). The function may be written in any way:
 * its nodes are compared with the library's definition over residues (ir/exact.h), for a row of
 * random scores. Nodes treat all keys alike. So a few keys suffice, each of which stands for a
 * random number of equal keys, and the length of a row does not matter. Masks decide, which
 * residues cannot. So a mask may have at most two comparisons of sums of positions, and is checked
 * for every query at the positions where it changes. The scale is 1, a number of the kernel, or its
 * reciprocal. A kernel that the certificate (verify/plan_attend.c) could not prove is not
 * recognised. */
#include "codegen/cuda/cuda.h"

#include "ir/exact.h"

#include <math.h>
#include <string.h>

enum { MOST_KEYS = 1 << 16, MOST_QUERIES = 1 << 16, MOST_LOADS = 8, MOST_HEAD = 256 };
enum { DRAWS = 2, SEEN = 12, KEYS = 16 }; /* keys per row in a draw; keys from SEEN on are hidden,
                                           * if there is a mask */

typedef struct Attempt {
    const DtKernel *k;
    DtArena *arena;
    DtExact *value[KEYS];                /* by key, by node */
    DtExact score[2][KEYS], weight[KEYS]; /* weight: how many equal keys the key stands for */
    DtExact load[MOST_LOADS];            /* by number among row_of */
    uint32_t row_of[MOST_LOADS], n_rows; /* nodes that read one number for each query */
    DtExact scale;                       /* the same scale as a double */
    double number;
    uint32_t z;                          /* the index of the SCORE node that multiplies queries and
                                          * keys */
    bool causal;
    int64_t window;                      /* 0: none */
    DtExact m, l;                        /* the row's maximum and sum */
} Attempt;

static bool has_keys(const DtKernel *k, uint32_t node)
{
    return k->nodes.at[node].axes >> k->attend->keys & 1;
}

/* ---- a row ---- */

static bool is_map(const DtKNode *node, DtOpKind map)
{
    return node->kind == DT_KNODE_MAP && node->map == map;
}

static bool hides(const Attempt *t) { return t->causal || t->window; }
static bool shows(const Attempt *t, uint32_t key) { return key < SEEN || !hides(t); }

static uint32_t uncast(const DtKernel *k, uint32_t at)
{
    while (is_map(&k->nodes.at[at], DT_OP_CAST) && dt_dtype_is_float(k->nodes.at[at].dtype))
        at = k->nodes.at[at].args[0];
    return at;
}

/* For max(x, c) with c <= 1e-30 returns x, else DT_KNONE: the library's record is right only while
 * x is not below c. c = -1e30 bounds the maximum of a row, c = 1e-30 its sum; callers check later
 * that x is that. */
static uint32_t unbounded(const DtKernel *k, const DtKNode *node, bool *ret_max)
{
    for (uint32_t i = 0; i < 2; i++) {
        const DtKNode *bound = &k->nodes.at[uncast(k, node->args[i])];
        *ret_max = bound->number <= -1e30;
        if (bound->kind == DT_KNODE_CONST && bound->number <= 1e-30 &&
            !has_keys(k, node->args[1 - i]))
            return node->args[1 - i];
    }
    return DT_KNONE;
}

static DtExact reduce(const Attempt *t, const DtKNode *node)
{
    const bool most = node->reduce == DT_REDUCE_MAX;
    DtExact all = most ? dt_exact_lowest : dt_exact_number(0);
    for (uint32_t j = 0; j < KEYS; j++) {
        const DtExact x = t->value[j][node->args[0]];
        all = most ? dt_exact_max(all, x)
                   : dt_exact_map(DT_OP_ADD, all, dt_exact_map(DT_OP_MUL, t->weight[j], x));
    }
    return all;
}

static DtExact map(const Attempt *t, const DtKNode *node, uint32_t key)
{
    const DtKernel *k = t->k;
    const DtExact *value = t->value[key];
    bool max;
    if (!dt_dtype_is_float(node->dtype))
        return dt_exact_unknown;
    if (node->map == DT_OP_WHERE)
        return value[node->args[shows(t, key) ? 1 : 2]];
    if (node->map == DT_OP_CAST)
        return dt_dtype_is_float(k->nodes.at[node->args[0]].dtype) ? value[node->args[0]]
                                                                   : dt_exact_unknown;
    if (node->map == DT_OP_MAX) {
        const uint32_t of = unbounded(k, node, &max);
        return of == DT_KNONE ? dt_exact_unknown : value[of];
    }
    return dt_exact_map(node->map, value[node->args[0]], value[node->args[node->n_args - 1]]);
}

static void evaluate(Attempt *t, uint32_t at, uint32_t *n_loads, uint32_t *n_scores)
{
    const DtKNode *node = &t->k->nodes.at[at];
    const DtExact row = node->kind == DT_KNODE_REDUCE  ? reduce(t, node)
                        : node->kind == DT_KNODE_LOAD  ? t->load[(*n_loads)++]
                        : node->kind == DT_KNODE_CONST ? dt_exact_number(node->number)
                                                       : dt_exact_unknown;
    for (uint32_t j = 0; j < KEYS; j++)
        t->value[j][at] = node->kind == DT_KNODE_SCORE ? t->score[*n_scores][j]
                          : node->kind == DT_KNODE_MAP ? map(t, node, j)
                                                       : row;
    *n_scores += node->kind == DT_KNODE_SCORE;
}

static void try_row(Attempt *t, uint64_t seed)
{
    uint32_t n_loads = 0, n_scores = 0;
    for (uint32_t j = 0; j < KEYS; j++) {
        t->score[0][j] = dt_exact_draw(seed++);
        t->score[1][j] = dt_exact_draw(seed++);
        t->weight[j] = dt_exact_draw(seed++);
    }
    for (uint32_t i = 0; i < t->n_rows; i++) { /* nodes that read the same pointer get the same
                                                * number */
        t->load[i] = dt_exact_draw(seed++);
        for (uint32_t o = 0; o < i; o++)
            if (t->k->nodes.at[t->row_of[o]].pointer == t->k->nodes.at[t->row_of[i]].pointer)
                t->load[i] = t->load[o];
    }
    for (uint32_t i = 0; i < t->k->nodes.n; i++)
        evaluate(t, i, &n_loads, &n_scores);
}

/* ---- softmax ---- */

static DtExact times(DtExact x, DtExact y) { return dt_exact_map(DT_OP_MUL, x, y); }
static DtExact minus(DtExact x, DtExact y) { return dt_exact_map(DT_OP_SUB, x, y); }

static bool sees(const Attempt *t, int64_t query, int64_t key)
{
    return (!t->causal || key <= query) && (t->window == 0 || query - key < t->window);
}

static DtExact power(const Attempt *t, uint32_t key)
{
    const DtExact x = minus(times(t->scale, t->score[t->z][key]), t->m);
    return shows(t, key) ? dt_exact_map(DT_OP_EXP, x, x) : dt_exact_number(0);
}

/* Sets t->m to the maximum of scale z over the keys that the row sees, and t->l to the sum of
 * exp(scale z - m). */
static void statistics(Attempt *t)
{
    t->m = dt_exact_lowest;
    t->l = dt_exact_number(0);
    for (uint32_t j = 0; j < KEYS; j++)
        t->m = shows(t, j) ? dt_exact_max(t->m, times(t->scale, t->score[t->z][j])) : t->m;
    for (uint32_t j = 0; j < KEYS; j++)
        t->l = dt_exact_map(DT_OP_ADD, t->l, times(t->weight[j], power(t, j)));
}

/* Whether the node is exp(scale z - m) / l for each key, where values bounded by max(x, c) are m or
 * l. */
static bool is_softmax(const Attempt *t, uint32_t node)
{
    bool is = true, max = false;
    for (uint32_t j = 0; j < KEYS && is; j++)
        is = dt_exact_same(t->value[j][node], dt_exact_map(DT_OP_DIV, power(t, j), t->l));
    for (uint32_t i = 0; i < t->k->nodes.n && is; i++) {
        const DtKNode *bounds = &t->k->nodes.at[i];
        const bool bounded = is_map(bounds, DT_OP_MAX) && dt_dtype_is_float(bounds->dtype);
        const uint32_t of = bounded ? unbounded(t->k, bounds, &max) : DT_KNONE;
        is = of == DT_KNONE || dt_exact_same(t->value[0][of], max ? t->m : t->l);
    }
    return is;
}

/* ---- forward ---- */

static bool is_forward(const DtKernel *k)
{
    const DtKAttend *a = k->attend;
    return a->scores.n == 1 && a->sums.n == 1 && a->sums.at[0].over_keys &&
           a->sums.at[0].of.depth == a->scores.at[0].key.depth &&
           (k->stores.n == 0 || (k->stores.n == 2 && a->paired));
}

/* Whether the kernel stores m and l and nothing else, or stores nothing. *max: the number of the
 * store of m. */
static bool leaves(const Attempt *t, uint32_t *max)
{
    for (*max = 0; *max < 2 && t->k->stores.n; ++*max) {
        const uint32_t of_m = t->k->stores.at[*max].node, of_l = t->k->stores.at[1 - *max].node;
        if (!has_keys(t->k, of_m) && !has_keys(t->k, of_l) &&
            dt_exact_same(t->value[0][of_m], t->m) && dt_exact_same(t->value[0][of_l], t->l))
            return true;
    }
    return t->k->stores.n == 0;
}

static bool is_forward_row(Attempt *t, uint32_t *ret_max)
{
    statistics(t);
    return is_softmax(t, t->k->attend->sums.at[0].node) && leaves(t, ret_max);
}

/* ---- backward ---- */

typedef struct Backward {
    uint32_t dq, dk, dv;    /* indices of the SUM nodes that make dq, dk and dv */
    uint32_t max, sum, dot; /* indices in row_of of the row's maximum, sum and `dot` */
} Backward;

static bool is_backward(const DtKernel *k, Backward *ret)
{
    const DtKAttend *a = k->attend;
    uint32_t n = 0;
    *ret = (Backward){.dq = 0};
    if (a->scores.n != 2 || a->sums.n != 3 || k->stores.n || a->dot == DT_KNONE)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        if (a->sums.at[i].over_keys)
            ret->dq = i;
        else if (n++ == 0)
            ret->dk = i;
        else
            ret->dv = i;
    }
    return n == 2;
}

/* Whether ds is the gradient of the scores, scale p (dp - dot), where `dot` is a number that the
 * kernel reads for each row. b->dot gets its index. */
static bool is_slope(const Attempt *t, uint32_t p, uint32_t ds, Backward *b)
{
    bool is = true;
    b->dot = 0;
    while (b->dot < t->n_rows && t->k->nodes.at[t->row_of[b->dot]].pointer != t->k->attend->dot)
        b->dot++;
    for (uint32_t j = 0; j < KEYS && is && b->dot < t->n_rows; j++) {
        const DtExact less = minus(t->score[1 - t->z][j], t->load[b->dot]);
        is = dt_exact_same(t->value[j][ds], times(t->scale, times(t->value[j][p], less)));
    }
    return is && b->dot < t->n_rows;
}

/* Finds which two of the numbers that are read per row are m and l, and sets b->max and b->sum.
 * False if no two of them make p a softmax. */
static bool is_backward_row(Attempt *t, Backward *b)
{
    const DtKAttend *a = t->k->attend;
    const uint32_t p = a->sums.at[b->dv].node, ds = a->sums.at[b->dk].node;
    if (a->sums.at[b->dq].node != ds || !is_slope(t, p, ds, b))
        return false;
    for (b->max = 0; b->max < t->n_rows; b->max++)
        for (b->sum = 0; b->sum < t->n_rows; b->sum++) {
            t->m = t->load[b->max];
            t->l = t->load[b->sum];
            if (b->max != b->sum && is_softmax(t, p))
                return true;
        }
    return false;
}

/* Evaluates the mask's node `at` for one query and key. NaN: it is neither a map, a constant nor a
 * position. */
static double mask_of(const Attempt *t, uint32_t at, int64_t query, int64_t key)
{
    const DtKNode *node = &t->k->nodes.at[at];
    double x[4] = {0};
    for (uint32_t i = 0; i < node->n_args && node->kind == DT_KNODE_MAP; i++)
        x[i] = mask_of(t, node->args[i], query, key);
    return node->kind == DT_KNODE_MAP     ? dt_cuda_map(node, x)
           : node->kind == DT_KNODE_CONST ? node->number
           : node->kind == DT_KNODE_IOTA  ? (double)(node->coef[t->k->attend->queries] * query +
                                                    node->coef[t->k->attend->keys] * key)
                                          : NAN;
}

/* Compares the mask with t's causal mask or window for every row, at the positions around the first
 * and the last visible key. */
static bool masks_all(const Attempt *t, uint32_t mask)
{
    const DtKAttend *a = t->k->attend;
    const int64_t queries = t->k->extent[a->queries], keys = t->k->extent[a->keys];
    for (int64_t i = 0; i < queries; i++) {
        const int64_t last = t->causal && i < keys ? i : keys - 1,
                      first = t->window && i >= t->window ? i - t->window + 1 : 0;
        const int64_t near[] = {0, first - 1, first, (first + last) / 2, last, last + 1, keys - 1};
        if (first > last) /* it sees nothing */
            return false;
        for (size_t j = 0; j < sizeof near / sizeof near[0]; j++)
            if (near[j] >= 0 && near[j] < keys &&
                (mask_of(t, mask, i, near[j]) != 0) != sees(t, i, near[j]))
                return false;
    }
    return true;
}

/* Finds the kind of mask from the last query but one: a causal mask hides the last key from it, a
 * window also the first ones. Every `where` of the kernel must use this mask. */
static bool find_mask(Attempt *t)
{
    const DtKAttend *a = t->k->attend;
    const int64_t n = t->k->extent[a->keys], query = t->k->extent[a->queries] - 2;
    int64_t from = 0, to = n - 1;
    bool good = true;
    while (a->mask != DT_KNONE && from < n && mask_of(t, a->mask, query, from) == 0)
        from++;
    while (a->mask != DT_KNONE && to > from && mask_of(t, a->mask, query, to) == 0)
        to--;
    t->causal = to < n - 1;
    t->window = from > 0 ? query - from + 1 : 0;
    for (uint32_t i = 0; i < t->k->nodes.n && good; i++)
        if (is_map(&t->k->nodes.at[i], DT_OP_WHERE) && t->k->nodes.at[i].args[0] != a->mask)
            good = masks_all(t, t->k->nodes.at[i].args[0]);
    return good && from < n && (a->mask == DT_KNONE || masks_all(t, a->mask));
}

/* Whether the forward kernel is the library's with this scale, in all draws. */
static bool try_forward(Attempt *t, uint32_t *ret_max)
{
    bool good = true;
    for (uint32_t d = 0; d < DRAWS && good; d++) {
        try_row(t, (uint64_t)d << 32);
        good = is_forward_row(t, ret_max);
    }
    return good;
}

static bool try_backward(Attempt *t, Backward *b)
{
    for (uint32_t other = 0; other < 4; other++) { /* tries both assignments of scores and of
                                                    * sums */
        Backward attempt = other & 1 ? (Backward){.dq = b->dq, .dk = b->dv, .dv = b->dk} : *b;
        bool good = true;
        t->z = other >> 1;
        for (uint32_t d = 0; d < DRAWS && good; d++) {
            try_row(t, (uint64_t)d << 32);
            good = is_backward_row(t, &attempt);
        }
        if (good) {
            *b = attempt;
            return true;
        }
    }
    return false;
}

/* Sets candidate i for the scale: 1, then each constant of the kernel and its reciprocal. False if
 * node i is no constant. */
static bool take_scale(Attempt *t, uint32_t i)
{
    const DtKNode *node = i ? &t->k->nodes.at[(i - 1) / 2] : NULL;
    const DtExact one = dt_exact_number(1), x = dt_exact_number(node ? node->number : 1);
    const bool over = i && (i - 1) % 2;
    if (node && (node->kind != DT_KNODE_CONST || !isfinite(node->number) || node->number == 0))
        return false;
    t->scale = over ? dt_exact_map(DT_OP_DIV, one, x) : x;
    t->number = !node ? 1 : over ? 1 / node->number : node->number;
    return true;
}

static bool begin(Attempt *t)
{
    const DtKernel *k = t->k;
    uint32_t sums = 0, products = 0;
    for (uint32_t j = 0; j < KEYS; j++)
        t->value[j] = DT_NEW_ARRAY(t->arena, DtExact, k->nodes.n + 1);
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        sums += k->nodes.at[i].kind == DT_KNODE_REDUCE;
        products += is_map(&k->nodes.at[i], DT_OP_MUL) || is_map(&k->nodes.at[i], DT_OP_DIV);
        if (k->nodes.at[i].kind != DT_KNODE_LOAD)
            continue;
        if (t->n_rows == MOST_LOADS)
            return false;
        t->row_of[t->n_rows++] = i;
    }
    return sums + 2 < SEEN && products <= DT_EXACT_PRODUCTS && find_mask(t);
}

/* ---- the record ---- */

static DtKRows row_rows(const DtKernel *k, uint32_t pointer, int64_t offset, const int64_t *stride)
{
    DtKRows rows = {.pointer = pointer, .offset = offset};
    memcpy(rows.stride, stride, sizeof rows.stride[0] * k->n_axes);
    return rows;
}

static DtCudaPart part_of(const DtKRows *rows, bool of_keys, bool of_kv)
{
    return (DtCudaPart){.rows = *rows, .is_there = true, .of_keys = of_keys, .of_kv = of_kv};
}

static bool lay_forward(const Attempt *t, uint32_t max, DtPlanSdpa *s)
{
    const DtKernel *k = t->k;
    const DtKScore *score = &k->attend->scores.at[0];
    const DtKSum *sum = &k->attend->sums.at[0];
    DtCudaPart parts[DT_SDPA_PARTS] = {[DT_SDPA_Q] = part_of(&score->query, false, false),
                                       [DT_SDPA_K] = part_of(&score->key, true, true),
                                       [DT_SDPA_V] = part_of(&sum->of, true, true),
                                       [DT_SDPA_O] = part_of(&sum->to, false, false)};
    for (uint32_t i = 0; i < k->stores.n; i++) {
        const DtKStore *store = &k->stores.at[i];
        const DtKRows rows = row_rows(k, store->pointer, store->offset, store->stride);
        parts[i == max ? DT_SDPA_MAX : DT_SDPA_SUM] = part_of(&rows, false, false);
        if (store->accumulate)
            return false;
    }
    return dt_cuda_lay(k, parts, s);
}

/* Whether the sum adds up exactly the query heads that share one head of these keys. */
static bool sums_shared(const DtKernel *k, const DtKSum *sum, const DtKRows *keys)
{
    bool does = true;
    for (uint32_t a = 0; a < k->attend->queries && does; a++)
        does = k->extent[a] == 1 || (sum->away >> a & 1) == (keys->stride[a] == 0);
    return does;
}

static bool lay_backward(const Attempt *t, const Backward *b, DtPlanSdpa *s)
{
    const DtKernel *k = t->k;
    const DtKAttend *a = k->attend;
    const DtKScore *z = &a->scores.at[t->z], *dp = &a->scores.at[1 - t->z];
    const DtKNode *m = &k->nodes.at[t->row_of[b->max]], *l = &k->nodes.at[t->row_of[b->sum]];
    const DtKSum *dq = &a->sums.at[b->dq], *dk = &a->sums.at[b->dk], *dv = &a->sums.at[b->dv];
    const DtKRows of_m = row_rows(k, m->pointer, m->offset, m->coef),
                  of_l = row_rows(k, l->pointer, l->offset, l->coef);
    const DtCudaPart parts[DT_SDPA_PARTS] = {[DT_SDPA_Q] = part_of(&z->query, false, false),
                                             [DT_SDPA_K] = part_of(&z->key, true, true),
                                             [DT_SDPA_V] = part_of(&dp->key, true, true),
                                             [DT_SDPA_O] = part_of(&a->result, false, false),
                                             [DT_SDPA_MAX] = part_of(&of_m, false, false),
                                             [DT_SDPA_SUM] = part_of(&of_l, false, false),
                                             [DT_SDPA_DO] = part_of(&dp->query, false, false),
                                             [DT_SDPA_DQ] = part_of(&dq->to, false, false),
                                             [DT_SDPA_DK] = part_of(&dk->to, true, true),
                                             [DT_SDPA_DV] = part_of(&dv->to, true, true)};
    const DtKRows *const twice[][2] = {{&dq->of, &z->key}, {&dk->of, &z->query},
                                       {&dv->of, &dp->query}};
    /* the products have the operands of the scores */
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++)
        if (memcmp(twice[i][0], twice[i][1], sizeof(DtKRows)) != 0)
            return false;
    return sums_shared(k, dk, &z->key) && sums_shared(k, dv, &dp->key) && dt_cuda_lay(k, parts, s);
}

/* Whether all elements have one 16-bit dtype, and nothing is added to earlier contents. */
static bool is_plain(const DtKernel *k, DtDtype *ret_dtype)
{
    const DtKAttend *a = k->attend;
    const DtDtype dtype = a->scores.n ? a->scores.at[0].dtype : DT_F32;
    bool is = dtype == DT_BF16 || dtype == DT_F16;
    for (uint32_t i = 0; i < a->scores.n; i++)
        is = is && a->scores.at[i].dtype == dtype;
    for (uint32_t i = 0; i < a->sums.n; i++)
        is = is && a->sums.at[i].dtype == dtype && !a->sums.at[i].accumulate &&
             k->pointers.at[a->sums.at[i].to.pointer].view->dtype == dtype;
    *ret_dtype = dtype;
    return is;
}

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Backward a library that adds up dq in one order keeps the gradients of all scores, and dk and dv
 * of each head of queries before it adds them up over those that share a head of keys. Newer
 * versions also do without the former, with dq, dk and dv in f32 and some words for each 64
 * queries. */
static double workspace_of(const DtPlanSdpa *s)
{
    enum { FURTHER = 4096 };
    const double heads = (double)(s->batch * s->heads),
                 scores = (double)up(s->queries, 64) * (double)up(s->keys, 128),
                 each = s->heads > s->kv_heads ? 2.0 * (double)(s->keys * s->head) : 0,
                 rows = 4 * (double)(s->queries * s->head) + (double)up(s->queries, 64) / 8,
                 all = FURTHER + 2 * heads * (scores + each),
                 linear = FURTHER + heads * (rows + 4 * each);
    return !s->backward                                                 ? FURTHER
           : all > linear && all <= (double)DT_PLAN_SDPA_WORKSPACE_MOST ? all
                                                                        : linear;
}

const DtPlanSdpa *dt_cuda_library(const DtKernel *kernel, DtArena *arena)
{
    const DtKAttend *a = kernel->attend;
    DtPlanSdpa *s = DT_NEW(arena, DtPlanSdpa);
    Attempt attempt = {.k = kernel, .arena = dt_arena_new()}, *t = &attempt;
    DtDtype dtype;
    Backward b = {.dq = 0};
    uint32_t max = 0;
    bool good = is_plain(kernel, &dtype) && dt_cuda_is_simple(kernel) &&
                kernel->extent[a->keys] <= MOST_KEYS &&
                kernel->extent[a->queries] <= MOST_QUERIES && kernel->extent[a->queries] > 1 &&
                a->scores.at[0].key.depth <= MOST_HEAD && a->scores.at[0].key.depth % 8 == 0 &&
                begin(t);
    const bool forward = good && is_forward(kernel),
               backward = good && !forward && is_backward(kernel, &b);
    good = false;
    for (uint32_t i = 0; (forward || backward) && !good && i <= 2 * kernel->nodes.n; i++)
        good = take_scale(t, i) && (forward ? try_forward(t, &max) : try_backward(t, &b));
    good = good && (forward ? lay_forward(t, max, s) : lay_backward(t, &b, s));
    s->backward = a->scores.n > 1;
    s->dtype = (uint32_t)dtype;
    s->causal = t->causal;
    s->window = t->window;
    s->scale = t->number;
    good = good && workspace_of(s) <= (double)DT_PLAN_SDPA_WORKSPACE_MOST;
    s->workspace = good ? (uint64_t)workspace_of(s) : 0;
    dt_arena_free(t->arena);
    return good ? s : NULL;
}
