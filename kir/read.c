/* SPDX-License-Identifier: Apache-2.0 */
/* The text of kernel IR: words between white space, comments as in C. Sections come in one order,
 * each with its count (docs/kernels.md). In a kernel that was read from any text, nodes refer only
 * to earlier nodes and to existing pointers and integers, and the product of extents fits in an
 * int64_t. */
#include "kir/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct DtKirImage {
    uint32_t n;
    DtKirKernel **kernels;
};

typedef struct Reader {
    const char *at, *end;
    uint32_t line;
    char word[80];   /* the kernel that was read last */
    const char *why; /* the error; NULL: none so far */
    DtKirKernel *k;
} Reader;

enum { MOST_KERNELS = 1 << 16, MOST_COUNT = 256, MOST_DEPTH = 1 << 16 };
static const int64_t most_points = (int64_t)1 << 48, most_offset = (int64_t)1 << 56;

static void fail(Reader *r, const char *why) { r->why = r->why ? r->why : why; }

/* ---- words ---- */

static void skip(Reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (r->end - r->at >= 4 && r->at[0] == '/' && r->at[1] == '*') {
            for (r->at += 2; r->end - r->at > 2 && !(r->at[0] == '*' && r->at[1] == '/'); r->at++)
                r->line += *r->at == '\n';
            r->at++; /* as do loops that call it */
            continue;
        }
        if (*r->at != ' ' && *r->at != '\n')
            return;
        r->line += *r->at == '\n';
    }
}

static const char *word(Reader *r)
{
    size_t n = 0;
    skip(r);
    while (r->at < r->end && *r->at != ' ' && *r->at != '\n' && *r->at && n < sizeof r->word - 1)
        r->word[n++] = *r->at++;
    r->word[n] = 0;
    if (n == sizeof r->word - 1)
        fail(r, "a word is too long");
    return r->word;
}

static bool at_end(Reader *r)
{
    skip(r);
    return r->at >= r->end || *r->at == 0;
}

static void expect(Reader *r, const char *what)
{
    if (strcmp(word(r), what) != 0)
        fail(r, "another section belongs here");
}

/* Reads an integer in low..high. */
static int64_t number(Reader *r, int64_t low, int64_t high)
{
    char *end;
    const char *text = word(r);
    const long long value = strtoll(text, &end, 10);
    if (!*text || *end || value < low || value > high) {
        fail(r, "a number is none, or out of bounds");
        return low;
    }
    return value;
}

static uint32_t count(Reader *r, uint32_t most) { return (uint32_t)number(r, 0, most); }
static bool flag(Reader *r) { return number(r, 0, 1); }

static uint64_t key(Reader *r)
{
    char *end;
    const char *text = word(r);
    const unsigned long long value = strtoull(text, &end, 16);
    if (!*text || *end)
        fail(r, "a key is no hexadecimal number");
    return value;
}

static float real(Reader *r)
{
    char *end;
    const char *text = word(r);
    const float value = strtof(text, &end);
    if (!*text || *end)
        fail(r, "a float is none");
    return value;
}

/* Reads a word and returns its index in a list of names; an unknown name is an error. */
static uint32_t one_of(Reader *r, const char *const *names, uint32_t n)
{
    const char *text = word(r);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fail(r, "a name is unknown");
    return 0;
}

/* Reads an index below n, or, if it is optional, `-`, for which it returns KIR_NONE. */
static uint32_t reference(Reader *r, uint32_t n, bool optional)
{
    skip(r);
    if (optional && r->at < r->end && *r->at == '-') {
        word(r);
        return KIR_NONE;
    }
    if (n == 0)
        fail(r, "there is nothing to refer to");
    return (uint32_t)number(r, 0, n ? n - 1 : 0);
}

static void coefficients(Reader *r, int64_t *ret_coef)
{
    for (uint32_t a = 0; a < r->k->n_axes; a++)
        ret_coef[a] = number(r, -most_offset, most_offset);
}

static const char *const dtypes[] = {"bool", "u8", "i32", "f32", "f16", "bf16"};

static KirDtype dtype(Reader *r) { return (KirDtype)one_of(r, dtypes, KIR_DTYPES); }

/* Allocates zeroed memory for a list of n items, which may be empty; NULL after an error. */
static void *list(Reader *r, size_t n, size_t size)
{
    void *at = r->why ? NULL : calloc(n + 1, size);
    if (!at)
        fail(r, "memory is short");
    return at;
}

/* ---- nodes ---- */

static void read_number(Reader *r, KirNode *node)
{
    if (dt_kir_is_float(node->dtype))
        node->number = real(r);
    else
        node->integer = (uint32_t)(int32_t)number(r, INT32_MIN, INT32_MAX);
}

static void read_index(Reader *r, KirNode *node, KirIndex *index, uint32_t number_of_node)
{
    index->stride = number(r, -most_offset, most_offset);
    index->base = number(r, -most_offset, most_offset);
    coefficients(r, index->coef);
    index->div = number(r, 0, most_offset);
    index->mod = number(r, 0, most_offset);
    index->exact = flag(r);
    index->extent = number(r, -1, most_offset);
    index->node = reference(r, number_of_node, true);
    index->bases = reference(r, r->k->n_integers, true);
    for (uint32_t a = 0; a < r->k->n_axes; a++)
        node->axes |= (uint32_t)(index->coef[a] != 0) << a;
    if (r->why || index->node == KIR_NONE)
        return;
    const KirNode *of = &r->k->nodes[index->node];
    node->axes |= of->axes;
    node->after_rows = node->after_rows || of->after_rows;
    node->phase = of->phase > node->phase ? of->phase : node->phase;
}

static void read_load(Reader *r, KirNode *node, uint32_t number_of_node)
{
    node->dtype = dtype(r);
    node->pointer = reference(r, r->k->n_pointers, false);
    node->offset = number(r, -most_offset, most_offset);
    coefficients(r, node->coef);
    read_number(r, node);
    const uint32_t n = count(r, KIR_AXES);
    node->index = list(r, n, sizeof node->index[0]);
    for (uint32_t d = 0; d < n && !r->why; d++)
        read_index(r, node, &node->index[d], number_of_node);
    node->n_index = r->why ? 0 : n;
}

static void read_draw(Reader *r, KirNode *node)
{
    node->dtype = KIR_F32;
    node->key = key(r);
    node->draws = (uint32_t)number(r, 1, 4);
    node->n_more = count(r, sizeof node->more / sizeof node->more[0]);
    for (uint32_t i = 0; i < node->n_more; i++)
        node->more[i] = reference(r, r->k->n_integers, false);
    node->step = reference(r, r->k->n_integers, false);
    node->iteration = reference(r, r->k->n_integers, false);
    coefficients(r, node->coef);
}

/* Reads a node's arguments, and derives its axes, its phase, and whether it depends on a sum over
 * rows. */
static void read_arguments(Reader *r, KirNode *node, uint32_t n, uint32_t number_of_node)
{
    node->n_args = n;
    for (uint32_t i = 0; i < n && !r->why; i++) {
        node->args[i] = reference(r, number_of_node, false);
        if (r->why)
            return;
        const KirNode *arg = &r->k->nodes[node->args[i]];
        node->axes |= arg->axes;
        node->after_rows = node->after_rows || arg->after_rows;
        node->phase = arg->phase > node->phase ? arg->phase : node->phase;
    }
}

static void read_map(Reader *r, KirNode *node, uint32_t number_of_node)
{
#define X(name, n) #name,
    static const char *const names[] = {KIR_MAPS(X)};
#undef X
#define X(name, n) n,
    static const uint8_t arguments[] = {KIR_MAPS(X)};
#undef X
    node->map = (KirMap)one_of(r, names, KIR_MAP_KINDS);
    node->dtype = dtype(r);
    read_arguments(r, node, arguments[node->map], number_of_node);
}

static void read_reduce(Reader *r, KirNode *node, uint32_t number_of_node)
{
    static const char *const names[] = {"sum", "max", "min"};
    node->reduce = (KirReduce)one_of(r, names, KIR_REDUCES);
    node->dtype = dtype(r);
    read_arguments(r, node, 1, number_of_node);
    if (node->after_rows)
        fail(r, "a sum is of sums over rows");
    node->after_rows = flag(r);
    if (node->after_rows && r->k->pattern != KIR_ATTEND &&
        (r->k->pattern != KIR_ROW || r->k->n_outer == r->k->n_axes))
        fail(r, "a sum over rows has no rows");
    node->axes = (uint32_t)number(r, 0, (1 << KIR_AXES) - 1) & ((1u << r->k->n_axes) - 1);
    node->phase += !node->after_rows;
}

static void read_node(Reader *r, uint32_t n)
{
    static const char *const names[] = {"const", "iota", "int",    "rng",
                                        "load",  "map",  "reduce", "score"};
    KirNode *node = &r->k->nodes[n];
    node->kind = (KirNodeKind)one_of(r, names, KIR_NODES);
    switch (node->kind) {
    case KIR_CONST:
        node->dtype = dtype(r);
        read_number(r, node);
        break;
    case KIR_IOTA:
        node->dtype = KIR_I32;
        node->integer = reference(r, r->k->n_integers, true);
        coefficients(r, node->coef);
        break;
    case KIR_INT:
        node->dtype = KIR_I32;
        node->integer = reference(r, r->k->n_integers, false);
        break;
    case KIR_RNG: read_draw(r, node); break;
    case KIR_LOAD: read_load(r, node, n); break;
    case KIR_MAP: read_map(r, node, n); break;
    case KIR_REDUCE: read_reduce(r, node, n); break;
    default: node->dtype = KIR_F32; node->axes = (1u << r->k->n_axes) - 1;
    }
    for (uint32_t a = 0; a < r->k->n_axes; a++)
        node->axes |= (uint32_t)(node->coef[a] != 0) << a;
}

/* ---- a kernel ---- */

static void read_space(Reader *r)
{
    static const char *const patterns[] = {"row", "column", "scan", "topk", "scatter", "attend"};
    DtKirKernel *k = r->k;
    int64_t points = 1;
    snprintf(k->symbol, sizeof k->symbol, "%.63s", word(r));
    k->pattern = (KirPattern)one_of(r, patterns, KIR_PATTERNS);
    k->n_axes = count(r, KIR_AXES);
    k->n_outer = count(r, k->n_axes);
    for (uint32_t a = 0; a < k->n_axes; a++) {
        k->extent[a] = number(r, 1, most_points);
        if (k->extent[a] > most_points / points)
            fail(r, "a space has too many points");
        else
            points *= k->extent[a];
    }
    if (((k->pattern == KIR_COLUMN || k->pattern == KIR_ATTEND) && k->n_outer == 0) ||
        ((k->pattern == KIR_TOPK || k->pattern == KIR_ATTEND) && k->n_outer + 1 != k->n_axes))
        fail(r, "a space lacks an axis of its form");
    expect(r, "pointers");
    k->n_pointers = count(r, KIR_MOST_POINTERS);
    for (uint32_t i = 0; i < k->n_pointers; i++)
        k->pointer[i] = dtype(r);
    expect(r, "integers");
    k->n_integers = count(r, MOST_COUNT);
}

static void read_order(Reader *r)
{
    static const char *const of[] = {"none", "axis", "rows", "points"}, *const trees[] = {"halves",
                                                                                          "pairs"};
    DtKirKernel *k = r->k;
    expect(r, "pieces");
    k->pieces_of = (KirPieces)one_of(r, of, KIR_PIECES);
    k->piece_axis = count(r, KIR_AXES);
    k->pieces = number(r, 0, most_points);
    k->piece = number(r, 0, most_points);
    if (k->pieces_of != KIR_WHOLE && (k->pieces == 0 || k->piece == 0))
        fail(r, "pieces are none");
    else if (k->pieces != 0 && k->piece > most_points / k->pieces)
        fail(r, "there are too many pieces");
    if (k->pieces_of == KIR_OF_AXIS && (k->piece_axis < k->n_outer || k->piece_axis >= k->n_axes))
        fail(r, "pieces are of no inner axis");
    if ((k->pieces_of == KIR_OF_POINTS && k->pattern != KIR_SCATTER) ||
        (k->pieces_of == KIR_OF_AXIS && k->pattern != KIR_ROW && k->pattern != KIR_COLUMN) ||
        (k->pieces_of == KIR_OF_ROWS && k->pattern != KIR_ROW))
        fail(r, "pieces are none of the form");
    expect(r, "lanes");
    k->n_lanes = (uint32_t)number(r, 1, KIR_MOST_LANES);
    k->in_pairs = one_of(r, trees, 2) == 1;
    if (!k->in_pairs && k->n_lanes != 16 && k->n_lanes != 32 && k->n_lanes != 64)
        fail(r, "halves are of 16, 32 or 64 lanes");
    expect(r, "special");
    k->special = number(r, 0, most_points);
}

static void read_rows(Reader *r, KirRows *rows)
{
    rows->pointer = reference(r, r->k->n_pointers, false);
    rows->depth = (uint32_t)number(r, 1, MOST_DEPTH);
    rows->offset = number(r, -most_offset, most_offset);
    rows->along = number(r, -most_offset, most_offset);
    coefficients(r, rows->stride);
}

static void read_attention(Reader *r)
{
    DtKirKernel *k = r->k;
    expect(r, "scores");
    const uint32_t n_scores = count(r, MOST_COUNT);
    k->scores = list(r, n_scores, sizeof k->scores[0]);
    for (uint32_t i = 0; i < n_scores && !r->why; i++) {
        KirScore *score = &k->scores[k->n_scores++];
        score->node = reference(r, k->n_nodes, false);
        read_rows(r, &score->query);
        read_rows(r, &score->key);
        if (!r->why &&
            (k->nodes[score->node].kind != KIR_SCORE || score->query.depth != score->key.depth))
            fail(r, "a score is none");
    }
    expect(r, "sums");
    const uint32_t n_sums = count(r, MOST_COUNT);
    k->sums = list(r, n_sums, sizeof k->sums[0]);
    for (uint32_t i = 0; i < n_sums && !r->why; i++) {
        KirSum *sum = &k->sums[k->n_sums++];
        sum->node = reference(r, k->n_nodes, false);
        sum->dtype = dtype(r);
        sum->over_keys = flag(r);
        sum->accumulate = flag(r);
        sum->away = (uint32_t)number(r, 0, (1 << KIR_AXES) - 1);
        read_rows(r, &sum->of);
        read_rows(r, &sum->to);
        if (sum->of.depth != sum->to.depth)
            fail(r, "rows of a sum differ");
    }
}

static void read_stores(Reader *r)
{
    DtKirKernel *k = r->k;
    expect(r, "stores");
    k->n_stores = count(r, MOST_COUNT);
    k->stores = list(r, k->n_stores, sizeof k->stores[0]);
    for (uint32_t i = 0; i < k->n_stores && !r->why; i++) {
        KirStore *store = &k->stores[i];
        store->pointer = reference(r, k->n_pointers, false);
        store->node = reference(r, k->n_nodes, false);
        store->offset = number(r, -most_offset, most_offset);
        store->accumulate = flag(r);
        store->indices = flag(r);
        coefficients(r, store->stride);
    }
    expect(r, "targets");
    k->n_targets = count(r, KIR_AXES);
    k->targets = list(r, k->n_targets, sizeof k->targets[0]);
    for (uint32_t i = 0; i < k->n_targets && !r->why; i++) {
        KirTarget *target = &k->targets[i];
        target->node = reference(r, k->n_nodes, false);
        target->bases = reference(r, k->n_integers, true);
        target->extent = number(r, 1, most_points);
        target->stride = number(r, -most_offset, most_offset);
    }
    if (k->n_stores == 0 &&
        (k->pattern == KIR_SCAN || k->pattern == KIR_TOPK || k->pattern == KIR_SCATTER))
        fail(r, "nothing is stored");
}

static void read_kernel(Reader *r)
{
    DtKirKernel *k = r->k;
    expect(r, "kernel");
    read_space(r);
    if (!r->why)
        read_order(r);
    expect(r, "nodes");
    const uint32_t n = count(r, KIR_MOST_NODES);
    k->nodes = list(r, n, sizeof k->nodes[0]);
    for (uint32_t i = 0; i < n && !r->why; i++) {
        k->n_nodes = i + 1; /* listed before it is read, so that its memory is freed after an
                             * error */
        read_node(r, i);
    }
    if (!r->why)
        read_stores(r);
    if (!r->why)
        read_attention(r);
    if (!r->why && !dt_kir_prepare(k))
        fail(r, "a kernel needs more memory than it may have");
}

static void free_kernel(DtKirKernel *k)
{
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        free(k->nodes[i].index);
        free(k->nodes[i].value);
        free(k->nodes[i].sum);
        free(k->nodes[i].pieces);
    }
    for (uint32_t p = 0; k->scalars && p <= k->last_phase; p++)
        free(k->scalars[p].at);
    for (uint32_t p = 0; k->points && p <= k->last_phase; p++)
        free(k->points[p].at);
    for (uint32_t i = 0; i < k->n_sums; i++)
        free(k->sums[i].sums);
    free(k->scalars);
    free(k->points);
    free(k->final.at);
    free(k->by_index);
    free(k->nodes);
    free(k->stores);
    free(k->targets);
    free(k->scores);
    free(k->sums);
    free(k);
}

void dt_kir_free(DtKirImage *image)
{
    for (uint32_t i = 0; image && i < image->n; i++)
        free_kernel(image->kernels[i]);
    if (image)
        free(image->kernels);
    free(image);
}

DtKirImage *dt_kir_read(const char *text, size_t len, char *ret_why, size_t size)
{
    Reader r = {.at = text, .end = text + len, .line = 1};
    DtKirImage *image = calloc(1, sizeof *image);
    if (!image)
        fail(&r, "memory is short");
    while (!r.why && !at_end(&r)) {
        DtKirKernel **grown = image->n < MOST_KERNELS
                                  ? realloc(image->kernels, (image->n + 1) * sizeof *image->kernels)
                                  : NULL;
        image->kernels = grown ? grown : image->kernels;
        r.k = grown ? calloc(1, sizeof *r.k) : NULL;
        if (!r.k) {
            fail(&r, "there are too many kernels");
            break;
        }
        image->kernels[image->n++] = r.k;
        read_kernel(&r);
    }
    if (!r.why)
        return image;
    snprintf(ret_why, size, "line %u, at `%.40s`: %s", r.line, r.word, r.why);
    dt_kir_free(image);
    return NULL;
}

DtKirKernel *dt_kir_find(const DtKirImage *image, const char *symbol)
{
    for (uint32_t i = 0; i < image->n; i++)
        if (strcmp(image->kernels[i]->symbol, symbol) == 0)
            return image->kernels[i];
    return NULL;
}

uint32_t dt_kir_pointers(const DtKirKernel *kernel) { return kernel->n_pointers; }
uint32_t dt_kir_integers(const DtKirKernel *kernel) { return kernel->n_integers; }
const char *dt_kir_dtype(const DtKirKernel *kernel, uint32_t pointer)
{
    return dtypes[kernel->pointer[pointer]];
}
bool dt_kir_is_in_pieces(const DtKirKernel *kernel) { return kernel->pieces_of != KIR_WHOLE; }
