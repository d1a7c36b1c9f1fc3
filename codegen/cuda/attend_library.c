/* SPDX-License-Identifier: Apache-2.0 */
/* Which attention a library has, too: softmax of scaled scores, with a mask by positions or none, and its derivative
 * (plan.h, SDPA). However the function is written, its nodes are compared with that by numbers: for a row of scores
 * drawn at random, on all keys of some queries, to six digits. Few functions of exponentials, sums and quotients
 * agree there and differ elsewhere, but masks are decisions: those may hold at most two comparisons of sums of
 * positions, and are looked at for every query where they change. What the certificate (verify/plan_attend.c) could
 * not prove of a mask is not taken for one. */
#include "codegen/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { MOST_KEYS = 1 << 16, MOST_QUERIES = 1 << 16, ROWS = 5, MOST_LOADS = 8, MOST_HEAD = 256 };

typedef struct Attempt {
    const DtKernel *k;
    DtArena *arena;
    double **value;                      /* by node: of each key, or one for a row */
    double *score[2];                    /* by key */
    double load[MOST_LOADS];             /* by pointer number among row_of */
    uint32_t row_of[MOST_LOADS], n_rows; /* nodes that read a number for each query */
    uint64_t random;
    double scale; /* NAN: not known yet */
    uint32_t z;   /* which score is that of queries and keys */
    bool causal;
    int64_t window; /* 0: none */
} Attempt;

static bool has_keys(const DtKernel *k, uint32_t node) { return k->nodes.at[node].axes >> k->attend->keys & 1; }

/* ---- a row ---- */

static double draw(Attempt *t, double from, double to)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * (double)(t->random >> 11) / 9007199254740992.0;
}

static double element(const Attempt *t, uint32_t node, int64_t key)
{
    return t->value[node][has_keys(t->k, node) ? key : 0];
}

static double position(const Attempt *t, const DtKNode *node, int64_t query, int64_t key)
{
    return (double)(node->coef[t->k->attend->queries] * query + node->coef[t->k->attend->keys] * key);
}

static void reduce(Attempt *t, uint32_t at)
{
    const DtKNode *node = &t->k->nodes.at[at];
    const int64_t n = t->k->extent[t->k->attend->keys];
    double all = element(t, node->args[0], 0);
    for (int64_t j = 1; j < n; j++) {
        const double x = element(t, node->args[0], j);
        all = node->reduce == DT_REDUCE_MAX ? fmax(all, x) : all + x;
    }
    t->value[at][0] = all;
}

static void evaluate(Attempt *t, uint32_t at, int64_t query, uint32_t *n_scores)
{
    static const double none = 0;
    const DtKNode *node = &t->k->nodes.at[at];
    const int64_t n = has_keys(t->k, at) ? t->k->extent[t->k->attend->keys] : 1;
    if (node->kind == DT_KNODE_REDUCE) {
        reduce(t, at);
        return;
    }
    if (node->kind == DT_KNODE_SCORE) {
        memcpy(t->value[at], t->score[(*n_scores)++], sizeof(double) * (size_t)n);
        return;
    }
    const double *from[4] = {&none, &none, &none, &none};
    int64_t step[4] = {0};
    for (uint32_t i = 0; i < node->n_args && node->kind == DT_KNODE_MAP; i++) {
        from[i] = t->value[node->args[i]];
        step[i] = has_keys(t->k, node->args[i]);
    }
    for (int64_t j = 0; j < n; j++) {
        const double x[] = {from[0][step[0] * j], from[1][step[1] * j], from[2][step[2] * j], from[3][step[3] * j]};
        t->value[at][j] = node->kind == DT_KNODE_MAP     ? dt_cuda_map(node, x)
                          : node->kind == DT_KNODE_CONST ? node->number
                          : node->kind == DT_KNODE_IOTA  ? position(t, node, query, j)
                                                         : t->value[at][0]; /* LOAD */
    }
}

static void try_row(Attempt *t, int64_t query)
{
    const DtKAttend *a = t->k->attend;
    uint32_t n_scores = 0;
    for (uint32_t s = 0; s < a->scores.n; s++)
        for (int64_t j = 0; j < t->k->extent[a->keys]; j++)
            t->score[s][j] = draw(t, -2, 2);
    for (uint32_t i = 0; i < t->n_rows; i++) { /* alike where the same is read */
        double number = draw(t, 0.5, 1.5);
        for (uint32_t o = 0; o < i; o++)
            if (t->k->nodes.at[t->row_of[o]].pointer == t->k->nodes.at[t->row_of[i]].pointer)
                number = t->load[o];
        t->load[i] = t->value[t->row_of[i]][0] = number;
    }
    for (uint32_t i = 0; i < t->k->nodes.n; i++)
        evaluate(t, i, query, &n_scores);
}

/* ---- softmax ---- */

static bool same(double x, double y) { return fabs(x - y) <= 1e-6 * fmax(1e-3, fmax(fabs(x), fabs(y))); }

static bool sees(const Attempt *t, int64_t query, int64_t key)
{
    return (!t->causal || key <= query) && (t->window == 0 || query - key < t->window);
}

/* Finds what is not known yet of the mask in row p of probabilities; false: it is none of those here. */
static bool find_mask(Attempt *t, const double *p, int64_t query, bool first)
{
    const int64_t n = t->k->extent[t->k->attend->keys];
    int64_t from = 0, to = n - 1;
    while (from < n && p[from] <= 0)
        from++;
    while (to > from && p[to] <= 0)
        to--;
    if (from == n)
        return false;
    if (first) { /* the last query but one, which sees neither the last key nor, in a window, the first ones */
        t->causal = to < n - 1;
        t->window = from > 0 ? query - from + 1 : 0;
    }
    for (int64_t j = 0; j < n; j++)
        if ((p[j] > 0) != sees(t, query, j))
            return false;
    return true;
}

/* From two keys that the row sees. */
static bool find_scale(Attempt *t, const double *p)
{
    const int64_t n = t->k->extent[t->k->attend->keys];
    int64_t i = 0;
    while (i < n && p[i] <= 0)
        i++;
    if (i + 1 >= n || p[i + 1] <= 0)
        return false;
    t->scale = (float)(log(p[i] / p[i + 1]) / (t->score[t->z][i] - t->score[t->z][i + 1]));
    return isfinite(t->scale);
}

/* Whether p is exp(scale z - s) where the row sees the key; ret_s. */
static bool is_softmax(const Attempt *t, const double *p, int64_t query, double *ret_s)
{
    const double *z = t->score[t->z];
    bool is = true, any = false;
    for (int64_t j = 0; j < t->k->extent[t->k->attend->keys] && is; j++) {
        if (!sees(t, query, j))
            continue;
        const double s = t->scale * z[j] - log(p[j]);
        is = !any || same(s, *ret_s);
        *ret_s = any ? *ret_s : s;
        any = true;
    }
    return is && any;
}

/* The maximum of a row and the sum of exp(z - m). */
static void statistics(const Attempt *t, int64_t query, double *ret_m, double *ret_l)
{
    const int64_t n = t->k->extent[t->k->attend->keys];
    *ret_m = -INFINITY;
    *ret_l = 0;
    for (int64_t j = 0; j < n; j++)
        *ret_m = sees(t, query, j) ? fmax(*ret_m, t->scale * t->score[t->z][j]) : *ret_m;
    for (int64_t j = 0; j < n; j++)
        *ret_l += sees(t, query, j) ? exp(t->scale * t->score[t->z][j] - *ret_m) : 0;
}

/* ---- forward ---- */

static bool is_forward(const DtKernel *k)
{
    const DtKAttend *a = k->attend;
    return a->scores.n == 1 && a->sums.n == 1 && a->sums.at[0].over_keys &&
           a->sums.at[0].of.depth == a->scores.at[0].key.depth &&
           (k->stores.n == 0 || (k->stores.n == 2 && a->paired));
}

/* What the stores leave: m and l, in either order. */
static bool leaves(const Attempt *t, double m, double l, uint32_t *max)
{
    for (*max = 0; *max < 2 && t->k->stores.n; ++*max) {
        const uint32_t of_m = t->k->stores.at[*max].node, of_l = t->k->stores.at[1 - *max].node;
        if (!has_keys(t->k, of_m) && !has_keys(t->k, of_l) && same(t->value[of_m][0], m) &&
            same(t->value[of_l][0], l))
            return true;
    }
    return t->k->stores.n == 0;
}

static bool forward_row(Attempt *t, int64_t query, bool first, uint32_t *ret_max)
{
    const double *p = t->value[t->k->attend->sums.at[0].node];
    double m, l, s = 0;
    try_row(t, query);
    if ((first && !find_scale(t, p)) || !find_mask(t, p, query, first) || !is_softmax(t, p, query, &s))
        return false;
    statistics(t, query, &m, &l);
    return same(s, m + log(l)) && leaves(t, m, l, ret_max);
}

/* ---- backward ---- */

typedef struct Backward {
    uint32_t dq, dk, dv;    /* numbers of sums */
    uint32_t max, sum, dot; /* numbers of row_of */
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

/* Which numbers of the row are m and l, those with m + log l = s. */
static bool find_statistic(const Attempt *t, double s, Backward *b)
{
    for (b->max = 0; b->max < t->n_rows; b->max++)
        for (b->sum = 0; b->sum < t->n_rows; b->sum++)
            if (same(s, t->load[b->max] + log(t->load[b->sum])))
                return true;
    return false;
}

/* The gradient of the scores: scale p (dp - dot). */
static bool is_slope(const Attempt *t, const double *p, const double *ds, Backward *b, bool first)
{
    const double *dp = t->score[1 - t->z];
    for (b->dot = first ? 0 : b->dot; b->dot < t->n_rows; b->dot++) {
        bool is = t->k->nodes.at[t->row_of[b->dot]].pointer == t->k->attend->dot;
        for (int64_t j = 0; j < t->k->extent[t->k->attend->keys] && is; j++)
            is = same(ds[j], t->scale * p[j] * (dp[j] - t->load[b->dot]));
        if (is || !first)
            return is;
    }
    return false;
}

static bool backward_row(Attempt *t, int64_t query, bool first, Backward *b)
{
    const DtKAttend *a = t->k->attend;
    const double *p = t->value[a->sums.at[b->dv].node], *ds = t->value[a->sums.at[b->dk].node];
    double s = 0;
    try_row(t, query);
    return (!first || find_scale(t, p)) && find_mask(t, p, query, first) && is_softmax(t, p, query, &s) &&
           (first ? find_statistic(t, s, b) : same(s, t->load[b->max] + log(t->load[b->sum]))) &&
           is_slope(t, p, ds, b, first) && a->sums.at[b->dq].node == a->sums.at[b->dk].node;
}

/* ---- all rows ---- */

/* The mask's node for one query and key. */
static double mask_of(const Attempt *t, uint32_t at, int64_t query, int64_t key)
{
    const DtKNode *node = &t->k->nodes.at[at];
    double x[4] = {0};
    for (uint32_t i = 0; i < node->n_args && node->kind == DT_KNODE_MAP; i++)
        x[i] = mask_of(t, node->args[i], query, key);
    return node->kind == DT_KNODE_MAP     ? dt_cuda_map(node, x)
           : node->kind == DT_KNODE_CONST ? node->number
           : node->kind == DT_KNODE_IOTA  ? position(t, node, query, key)
                                          : NAN;
}

/* Every row, where what it sees begins and ends. */
static bool masks_all(const Attempt *t)
{
    const DtKAttend *a = t->k->attend;
    const int64_t queries = t->k->extent[a->queries], keys = t->k->extent[a->keys];
    for (int64_t i = 0; i < queries; i++) {
        const int64_t last = t->causal && i < keys ? i : keys - 1,
                      first = t->window && i >= t->window ? i - t->window + 1 : 0;
        const int64_t near[] = {0, first - 1, first, (first + last) / 2, last, last + 1, keys - 1};
        if (first > last) /* it sees nothing */
            return false;
        for (size_t j = 0; j < sizeof near / sizeof near[0] && a->mask != DT_KNONE; j++)
            if (near[j] >= 0 && near[j] < keys && (mask_of(t, a->mask, i, near[j]) != 0) != sees(t, i, near[j]))
                return false;
    }
    return true;
}

static bool has_comparisons(const DtKernel *k)
{
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].kind == DT_KNODE_IOTA)
            return true;
    return false;
}

/* Queries to try: the last but one, which shows most of a mask, the first and the last one, others. */
static int64_t query_of(Attempt *t, uint32_t number)
{
    const int64_t n = t->k->extent[t->k->attend->queries], special[] = {n - 2, 0, n - 1};
    return number < DT_COUNT(special) ? special[number] : (int64_t)draw(t, 0, (double)n);
}

static bool try_forward(Attempt *t, uint32_t *ret_max)
{
    for (uint32_t r = 0; r < ROWS; r++)
        if (!forward_row(t, query_of(t, r), r == 0, ret_max))
            return false;
    return masks_all(t);
}

static bool try_backward(Attempt *t, Backward *b)
{
    for (uint32_t other = 0; other < 4; other++) { /* which score, which sum is which */
        Backward attempt = other & 1 ? (Backward){.dq = b->dq, .dk = b->dv, .dv = b->dk} : *b;
        bool good = true;
        t->z = other >> 1;
        for (uint32_t r = 0; r < ROWS && good; r++)
            good = backward_row(t, query_of(t, r), r == 0, &attempt);
        if (good) {
            *b = attempt;
            return masks_all(t);
        }
    }
    return false;
}

static bool begin(Attempt *t)
{
    const DtKernel *k = t->k;
    const int64_t keys = k->extent[k->attend->keys];
    t->value = DT_NEW_ARRAY(t->arena, double *, k->nodes.n + 1);
    for (uint32_t s = 0; s < 2; s++)
        t->score[s] = DT_NEW_ARRAY(t->arena, double, keys);
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        t->value[i] = DT_NEW_ARRAY(t->arena, double, has_keys(k, i) ? keys : 1);
        if (k->nodes.at[i].kind != DT_KNODE_LOAD)
            continue;
        if (t->n_rows == MOST_LOADS)
            return false;
        t->row_of[t->n_rows++] = i;
    }
    return true;
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

/* Whether it sums over just those heads that share one of these keys. */
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
    const DtCudaPart parts[DT_SDPA_PARTS] = {
        [DT_SDPA_Q] = part_of(&z->query, false, false),   [DT_SDPA_K] = part_of(&z->key, true, true),
        [DT_SDPA_V] = part_of(&dp->key, true, true),      [DT_SDPA_O] = part_of(&a->result, false, false),
        [DT_SDPA_MAX] = part_of(&of_m, false, false),     [DT_SDPA_SUM] = part_of(&of_l, false, false),
        [DT_SDPA_DO] = part_of(&dp->query, false, false), [DT_SDPA_DQ] = part_of(&dq->to, false, false),
        [DT_SDPA_DK] = part_of(&dk->to, true, true),      [DT_SDPA_DV] = part_of(&dv->to, true, true)};
    const DtKRows *const twice[][2] = {{&dq->of, &z->key}, {&dk->of, &z->query}, {&dv->of, &dp->query}};
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++) /* the products are of what the scores are of */
        if (memcmp(twice[i][0], twice[i][1], sizeof(DtKRows)) != 0)
            return false;
    return sums_shared(k, dk, &z->key) && sums_shared(k, dv, &dp->key) && dt_cuda_lay(k, parts, s);
}

/* Elements of 16 bits throughout, of one type; nothing is added to what is there. */
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

/* Backward a library that adds up dq in one order keeps the gradients of all scores, and dk and dv of each head of
 * queries before it adds them up over those that share a head of keys. */
static double workspace_of(const DtPlanSdpa *s)
{
    enum { FURTHER = 4096 };
    const double heads = (double)(s->batch * s->heads), scores = (double)up(s->queries, 64) * (double)up(s->keys, 128),
                 each = s->heads > s->kv_heads ? 2.0 * (double)(s->keys * s->head) : 0;
    return FURTHER + (s->backward ? 2 * heads * (scores + each) : 0);
}

const DtPlanSdpa *dt_cuda_library(const DtKernel *kernel, DtArena *arena)
{
    const DtKAttend *a = kernel->attend;
    DtPlanSdpa *s = DT_NEW(arena, DtPlanSdpa);
    Attempt attempt = {.k = kernel, .arena = dt_arena_new(), .random = 14, .scale = NAN}, *t = &attempt;
    DtDtype dtype;
    Backward b;
    uint32_t max = 0;
    bool good = is_plain(kernel, &dtype) && dt_cuda_is_simple(kernel) && kernel->extent[a->keys] <= MOST_KEYS &&
                kernel->extent[a->queries] <= MOST_QUERIES && kernel->extent[a->queries] > 1 &&
                a->scores.at[0].key.depth <= MOST_HEAD && a->scores.at[0].key.depth % 8 == 0 &&
                (a->mask != DT_KNONE || !has_comparisons(kernel)) && begin(t);
    if (good && is_forward(kernel))
        good = try_forward(t, &max) && lay_forward(t, max, s);
    else
        good = good && is_backward(kernel, &b) && try_backward(t, &b) && lay_backward(t, &b, s);
    s->backward = a->scores.n > 1;
    s->dtype = (uint32_t)dtype;
    s->causal = t->causal;
    s->window = t->window;
    s->scale = t->scale;
    good = good && workspace_of(s) <= (double)DT_PLAN_SDPA_WORKSPACE_MOST;
    s->workspace = good ? (uint64_t)workspace_of(s) : 0;
    dt_arena_free(t->arena);
    return good ? s : NULL;
}
