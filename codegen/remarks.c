/* SPDX-License-Identifier: Apache-2.0 */
/* Records for reports only: the shape of attention kernels, and the moment at which temporaries
 * need most memory.
 *
 * How many scores a mask leaves is found by evaluating it: the mask's nodes are evaluated on a
 * grid of queries and keys, for each pair of blocks that ranks can have; the rank with most work
 * counts, since the others wait for it. A mask that is read from memory, as in rings, is assumed
 * to hide nothing. */
#include "codegen/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- masks ---- */

enum { GRID = 24, MOST_BLOCKS = 16 };

typedef struct Mask {
    const DtEmit *e;
    const DtKernel *k;
    int64_t index[DT_MAX_RANK]; /* per space axis */
    int64_t block_q, block_k;   /* which of the ranks' blocks of queries, of keys */
    int64_t turn;               /* the step of a ring, in which ranks hold other blocks of keys */
    bool known;                 /* false: a node was met that cannot be evaluated here */
    bool turns;                 /* evaluation used the step of a ring */
} Mask;

/* The number of ranks that split the axis. */
static int64_t parts_of(const DtEmit *e, const DtAxis *axis)
{
    int64_t n = 1;
    for (uint32_t s = 0; s < axis->n_split; s++)
        n *= e->module->mesh.axes[axis->split[s]].is_time
                 ? 1
                 : e->module->mesh.axes[axis->split[s]].size;
    return n;
}

/* The index at which a rank's block begins. Axes other than that of keys are split as queries are,
 * including the axis of a ring's ranks. Other integers are taken as 0. */
static double integer_of(Mask *m, uint32_t number)
{
    if (number == DT_KNONE)
        return 0;
    const DtKInt *integer = &m->k->ints.at[number];
    double value = 0;
    if (integer->kind == DT_KINT_INDEX || integer->kind == DT_KINT_ITERATION) {
        m->turns = true;
        return (double)m->turn;
    }
    for (uint32_t i = 0; integer->kind == DT_KINT_BASES && i < integer->n; i++) {
        const DtAxis *axis = &integer->axis[i];
        const int64_t parts = parts_of(m->e, axis);
        const int64_t block =
            axis->name == m->k->axis[m->k->attend->keys] ? m->block_k : m->block_q;
        value += parts > 1 ? (double)(integer->multiplier[i] * (axis->extent / parts) * block) : 0;
    }
    return value;
}

static double value_of(Mask *m, uint32_t number)
{
    const DtKNode *node = &m->k->nodes.at[number];
    double x[4] = {0};
    for (uint32_t i = 0; i < node->n_args && i < 4; i++)
        x[i] = value_of(m, node->args[i]);
    if (node->kind == DT_KNODE_CONST)
        return node->number;
    if (node->kind == DT_KNODE_IOTA) {
        double sum = integer_of(m, node->integer);
        for (uint32_t a = 0; a < m->k->n_axes; a++)
            sum += (double)(node->coef[a] * m->index[a]);
        return sum;
    }
    if (node->kind == DT_KNODE_INT)
        return integer_of(m, node->integer);
    if (node->kind == DT_KNODE_MAP) {
        switch (node->map) {
        case DT_OP_ADD: return x[0] + x[1];
        case DT_OP_SUB: return x[0] - x[1];
        case DT_OP_MUL: return x[0] * x[1];
        case DT_OP_MOD: return x[0] - floor(x[0] / x[1]) * x[1];
        case DT_OP_FLOORDIV: return floor(x[0] / x[1]);
        case DT_OP_LT: return x[0] < x[1];
        case DT_OP_LE: return x[0] <= x[1];
        case DT_OP_EQ: return x[0] == x[1];
        case DT_OP_NE: return x[0] != x[1];
        case DT_OP_AND: return x[0] != 0 && x[1] != 0;
        case DT_OP_OR: return x[0] != 0 || x[1] != 0;
        case DT_OP_NOT: return x[0] == 0;
        case DT_OP_NEG: return -x[0];
        case DT_OP_MAX: return x[0] > x[1] ? x[0] : x[1];
        case DT_OP_MIN: return x[0] < x[1] ? x[0] : x[1];
        case DT_OP_WHERE: return x[0] != 0 ? x[1] : x[2];
        case DT_OP_CAST: return x[0];
        default: break;
        }
    }
    m->known = false;
    return 1;
}

/* Estimates the share of visible scores between two blocks, from the mask at a grid of points. */
static double share_of(Mask *m)
{
    const DtKAttend *a = m->k->attend;
    double seen = 0;
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID && m->known; j++) {
            m->index[a->queries] = (2 * i + 1) * m->k->extent[a->queries] / (2 * GRID);
            m->index[a->keys] = (2 * j + 1) * m->k->extent[a->keys] / (2 * GRID);
            seen += value_of(m, a->mask) != 0;
        }
    return seen / (GRID * GRID);
}

/* Number of blocks into which ranks split the keys' axis; keys false: the queries' axis. */
static int64_t blocks_of(const DtEmit *e, const DtKernel *k, bool keys, bool *ret_zigzag)
{
    int64_t blocks = 1;
    for (uint32_t i = 0; i < k->ints.n; i++)
        for (uint32_t j = 0; k->ints.at[i].kind == DT_KINT_BASES && j < k->ints.at[i].n; j++) {
            const DtAxis *axis = &k->ints.at[i].axis[j];
            if ((axis->name == k->axis[k->attend->keys]) != keys)
                continue;
            blocks = parts_of(e, axis) > blocks ? parts_of(e, axis) : blocks;
            *ret_zigzag = *ret_zigzag || axis->zigzag;
        }
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

/* The mean share of visible scores over a rank's blocks of keys and the steps of a ring. */
static double share_of_rank(Mask *m, int64_t keys, int64_t ranks)
{
    double sum = 0;
    int64_t n = 0;
    m->turn = 1;
    do {
        for (m->block_k = 0; m->block_k < keys; m->block_k++, n++)
            sum += share_of(m);
    } while (m->turns && ++m->turn < ranks);
    return sum / (double)n;
}

static double visible(const DtEmit *e, const DtKernel *k)
{
    Mask m = {.e = e, .k = k, .known = true};
    double most = 0, all = 0;
    bool zigzag = false;
    if (k->attend->mask == DT_KNONE)
        return 1;
    const int64_t queries = blocks_of(e, k, false, &zigzag), keys = blocks_of(e, k, true, &zigzag);
    for (m.block_q = 0; m.block_q < queries; m.block_q++) {
        const double share = share_of_rank(&m, keys, queries);
        most = share > most ? share : most;
        all += share / (double)queries;
    }
    return !m.known ? 1 : zigzag ? all : most;
}

/* ---- kernels ---- */

void dt_remarks_attention(DtEmit *e, const DtKernel *k, uint32_t kernel)
{
    DtPlanAttention record = {.kernel = kernel, .heads = 1, .kv_heads = 1};
    if (k->pattern != DT_KPATTERN_ATTEND || k->attend->scores.n == 0)
        return;
    const DtKScore *score = &k->attend->scores.at[0];
    for (uint32_t a = 0; a < k->attend->queries; a++) {
        record.heads *= k->extent[a];
        record.kv_heads *= score->key.stride[a] ? k->extent[a] : 1;
    }
    record.head = score->query.depth;
    record.queries = k->extent[k->attend->queries];
    record.keys = k->extent[k->attend->keys];
    record.dtype = (uint32_t)score->dtype;
    record.backward = k->attend->scores.n > 1;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        record.dropout = record.dropout || k->nodes.at[i].kind == DT_KNODE_RNG;
    record.visible = visible(e, k);
    for (uint32_t i = 0; i < k->pointers.n && i < 64; i++)
        record.wide |= (uint64_t)(k->pointers.at[i].value->type->dtype == DT_F32) << i;
    DT_PUSH(e->plan->arena, e->plan->attentions, record);
}

/* ---- memory ---- */

typedef struct Touch { uint32_t at; int64_t bytes; } Touch;

static int in_order(const void *a, const void *b)
{
    const Touch *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->bytes < 0) - (y->bytes < 0); /* at one position, buffers that begin come before
                                             * buffers that end */
}

static void add_largest(const DtBuffer *buffer, DtPlanPeak *peak)
{
    const size_t n = DT_COUNT(peak->bytes);
    size_t to = n;
    while (to > 0 && buffer->bytes > peak->bytes[to - 1])
        to--;
    if (to == n)
        return;
    memmove(&peak->bytes[to + 1], &peak->bytes[to], (n - to - 1) * sizeof *peak->bytes);
    peak->bytes[to] = buffer->bytes;
}

/* Returns the item at which the live temporaries have most bytes, the first of equal ones.
 * *ret_live gets these bytes. */
static uint32_t find_peak(DtEmit *e, int64_t *ret_live)
{
    DtArena *arena = dt_arena_child(e->arena);
    Touch *touches = DT_NEW_ARRAY(arena, Touch, 2 * (e->buffers.n - e->entry_buffer) + 1);
    uint32_t n = 0, at = 0;
    int64_t live = 0;
    for (uint32_t i = e->entry_buffer; i < e->buffers.n; i++) {
        const DtBuffer *b = &e->buffers.at[i];
        if (b->fixed || b->first == UINT32_MAX)
            continue;
        touches[n++] = (Touch){b->first, b->bytes};
        touches[n++] = (Touch){b->last, -b->bytes};
    }
    qsort(touches, n, sizeof *touches, in_order);
    *ret_live = 0;
    for (uint32_t i = 0; i < n; i++) {
        live += touches[i].bytes;
        if (live > *ret_live) {
            *ret_live = live;
            at = touches[i].at;
        }
    }
    dt_arena_free(arena);
    return at;
}

uint32_t dt_remarks_peak(DtEmit *e, DtPlanPeak *ret_peak)
{
    DtPlanPeak *peak = ret_peak;
    *peak = (DtPlanPeak){.entry = 0};
    const uint32_t at = find_peak(e, &peak->live);
    uint32_t item = at; /* the position of an instruction, or of the first one inside a loop */
    while (item + 1 < e->items.n && e->items.at[item].kind != DT_ITEM_INST)
        item++;
    for (uint32_t i = e->entry_buffer; i < e->buffers.n; i++) {
        const DtBuffer *b = &e->buffers.at[i];
        if (!b->fixed && b->first <= at && at <= b->last)
            add_largest(b, peak);
    }
    return item;
}
