/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of attention that can be evaluated by themselves (attend_library.c), and masks that few
 * points tell apart. */
#include "codegen/cuda/cuda.h"

#include <math.h>

static bool has_keys(const DtKernel *k, uint32_t node)
{
    return k->nodes.at[node].axes >> k->attend->keys & 1;
}

static bool is_row_load(const DtKernel *k, const DtKNode *node)
{
    return node->kind == DT_KNODE_LOAD && !(node->axes >> k->attend->keys & 1) &&
           node->n_index == 0 && node->dtype == DT_F32;
}

static bool is_tried(const DtKernel *k, const DtKNode *node)
{
    static const DtOpKind maps[] = {DT_OP_ADD, DT_OP_SUB, DT_OP_MUL, DT_OP_DIV, DT_OP_NEG,
                                    DT_OP_EXP, DT_OP_MAX, DT_OP_WHERE, DT_OP_CAST, DT_OP_LT,
                                    DT_OP_LE, DT_OP_AND, DT_OP_OR, DT_OP_NOT};
    bool known =
        node->kind == DT_KNODE_CONST || node->kind == DT_KNODE_SCORE || is_row_load(k, node) ||
        (node->kind == DT_KNODE_IOTA && node->integer == DT_KNONE) ||
        (node->kind == DT_KNODE_REDUCE && !node->after_rows && node->reduce != DT_REDUCE_MIN);
    for (size_t i = 0; node->kind == DT_KNODE_MAP && i < sizeof maps / sizeof maps[0]; i++)
        known = known || (node->map == maps[i] &&
                          (node->map != DT_OP_CAST || dt_dtype_is_float(node->dtype)));
    return known;
}

/* Whether the node is computed from positions by sums, differences, products, negations and maxima
 * alone; adds to n_keys how often the position of the key occurs in it. */
static bool is_position(const DtKernel *k, uint32_t at, uint32_t *n_keys)
{
    static const DtOpKind maps[] = {DT_OP_ADD, DT_OP_SUB, DT_OP_MUL, DT_OP_NEG, DT_OP_MAX};
    const DtKNode *node = &k->nodes.at[at];
    bool is =
        node->dtype == DT_I32 && (node->kind == DT_KNODE_CONST || node->kind == DT_KNODE_IOTA);
    *n_keys += node->kind == DT_KNODE_IOTA && has_keys(k, at);
    for (size_t i = 0;
         node->kind == DT_KNODE_MAP && node->dtype == DT_I32 && i < sizeof maps / sizeof maps[0];
         i++)
        is = is || node->map == maps[i];
    for (uint32_t i = 0; i < node->n_args && is && *n_keys <= 2; i++)
        is = is_position(k, node->args[i], n_keys);
    return is;
}

/* The mask may have at most two comparisons, of positions of queries and keys only. The key occurs
 * in one place of each, so a comparison that holds for two keys holds between them. */
bool dt_cuda_is_simple(const DtKernel *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        uint32_t n_keys = 0;
        if (!is_tried(k, node) ||
            (node->kind == DT_KNODE_IOTA && node->axes & ((1u << k->attend->queries) - 1)))
            return false;
        if (node->kind != DT_KNODE_MAP || (node->map != DT_OP_LT && node->map != DT_OP_LE))
            continue;
        n++;
        if (!is_position(k, node->args[0], &n_keys) || !is_position(k, node->args[1], &n_keys) ||
            n_keys > 1)
            return false;
    }
    return n <= 2;
}

double dt_cuda_map(const DtKNode *node, const double x[4])
{
    switch (node->map) {
    case DT_OP_ADD: return x[0] + x[1];
    case DT_OP_SUB: return x[0] - x[1];
    case DT_OP_MUL: return x[0] * x[1];
    case DT_OP_DIV: return x[0] / x[1];
    case DT_OP_NEG: return -x[0];
    case DT_OP_EXP: return exp(x[0]);
    case DT_OP_MAX: return fmax(x[0], x[1]);
    case DT_OP_WHERE: return x[0] != 0 ? x[1] : x[2];
    case DT_OP_CAST: return x[0];
    case DT_OP_LT: return x[0] < x[1];
    case DT_OP_LE: return x[0] <= x[1];
    case DT_OP_AND: return x[0] != 0 && x[1] != 0;
    case DT_OP_OR: return x[0] != 0 || x[1] != 0;
    case DT_OP_NOT: return x[0] == 0;
    default: return NAN;
    }
}
