/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a kernel, for prices (cost/): bytes that it reads and writes, each element of a
 * buffer once; arithmetic operations; and other operations that take a processor time, in units
 * of 35 instructions of a lane.
 *
 * How often an operation runs follows from the loop nest. A node is evaluated once for each
 * index of the axes outside of its own ones: a cosine of position and frequency is evaluated
 * again for each sample and head around them, and a value per row once per row. Each phase goes
 * over the row again and re-evaluates what it needs, expensive functions aside. Instructions
 * have lanes along one axis; where that axis is shorter, or a node lacks it, the instruction
 * takes as long, as it does where nothing runs along lanes (scans, top-k, sums by index). An
 * element that is not next to that of the previous lane (a stride, an index from memory) is read
 * or written by itself. */
#include "codegen/kernel_internal.h"

#include <stdlib.h>

enum { WIDTH = 8 };

static const struct { DtOpKind kind; double units; } dear_ops[] = {
#define DT_PRICE_OP(KIND, value, within) {DT_OP_##KIND, value},
#define DT_PRICE_CONSTANT(id, value, within, unit, ORIGIN, source, meaning)
#include "codegen/kernel_price.def"
#undef DT_PRICE_OP
#undef DT_PRICE_CONSTANT
};
static const struct {
#define DT_PRICE_OP(KIND, value, within)
#define DT_PRICE_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) double id;
#include "codegen/kernel_price.def"
#undef DT_PRICE_CONSTANT
} of = {
#define DT_PRICE_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) .id = value,
#include "codegen/kernel_price.def"
#undef DT_PRICE_OP
#undef DT_PRICE_CONSTANT
};

/* Converts a number of instructions of a lane to time, in the units of kernel_price.def. */
static double units(double instructions) { return instructions / of.unit; }

static double dear(const DtKernel *k, const DtKNode *node)
{
    const bool divides =
        node->map == DT_OP_MOD || node->map == DT_OP_FLOORDIV || node->map == DT_OP_DIV;
    if (node->kind == DT_KNODE_RNG)
        return node->draws > 1 && k->n_axes && k->extent[k->n_axes - 1] % node->draws == 0
                   ? of.draw_of_four
                   : of.draw_alone;
    if (node->kind == DT_KNODE_MAP && divides && !dt_dtype_is_float(node->dtype))
        return of.integer_division;
    for (size_t i = 0; node->kind == DT_KNODE_MAP && i < DT_COUNT(dear_ops); i++)
        if (dear_ops[i].kind == node->map)
            return dear_ops[i].units;
    return 0;
}

/* ---- loops ---- */

/* The axis that lanes run along, or n_axes: there are none. A sum by index has them if it adds up
 * whole rows. */
static uint32_t lanes_of(const DtKernel *k)
{
    bool rows = k->pattern == DT_KPATTERN_SCATTER && k->n_axes &&
                k->stores.at[0].stride[k->n_axes - 1] == 1;
    for (uint32_t t = 0; rows && t < k->n_target; t++)
        rows = !(k->nodes.at[k->target[t].node].axes >> (k->n_axes - 1) & 1);
    if ((k->special && !rows) || !k->n_axes)
        return k->n_axes;
    return k->pattern == DT_KPATTERN_COLUMN ? k->n_outer - 1 : k->n_axes - 1;
}

/* How often a node with these axes is evaluated; lanes: how many lanes that takes. A node that is
 * known after the rows only has loops of its own. */
static double times_of(const DtKernel *k, uint32_t axes, bool after_rows, double *ret_lanes)
{
    const uint32_t v = lanes_of(k);
    double times = 1, inside = 1;
    /* in the order of loops: a column's lanes are the innermost loop */
    for (uint32_t i = 0; i < k->n_axes; i++) {
        const uint32_t a = k->pattern != DT_KPATTERN_COLUMN || i < v ? i
                           : i + 1 < k->n_axes                       ? i + 1
                                                                     : v;
        inside *= after_rows && !(axes >> a & 1) ? 1 : (double)k->extent[a];
        times = axes >> a & 1 ? inside : times;
    }
    *ret_lanes = times * WIDTH;
    if (v < k->n_axes && axes >> v & 1)
        *ret_lanes =
            times / (double)k->extent[v] * (double)((k->extent[v] + WIDTH - 1) / WIDTH * WIDTH);
    return times;
}

/* Whether a step along axis a moves the node's address by one element, or not at all. */
static bool is_beside(const DtKernel *k, const DtKNode *node, uint32_t a)
{
    int64_t step = node->coef[a];
    for (uint32_t d = 0; d < node->n_index; d++) {
        const DtKIndex *index = &node->index[d];
        if (index->node != DT_KNONE ? k->nodes.at[index->node].axes >> a & 1
                                    : index->coef[a] && (index->div || index->mod))
            return false;
        step += index->node == DT_KNONE ? index->stride * index->coef[a] : 0;
    }
    return step == 0 || step == 1;
}

/* Number of reductions of each row, without sums over rows. */
static uint32_t reductions_of(const DtKernel *k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        n += k->nodes.at[i].kind == DT_KNODE_REDUCE && !k->nodes.at[i].after_rows;
    return n;
}

/* A loop that is shorter than an instruction becomes straight code, and lanes run along the axis
 * around it; but not if it adds up a row. */
static bool has_outer_lanes(const DtKernel *k)
{
    const uint32_t v = lanes_of(k);
    return k->pattern == DT_KPATTERN_ROW && v > 0 && v < k->n_axes && k->extent[v] < WIDTH &&
                   k->extent[v - 1] >= WIDTH &&
           !reductions_of(k);
}

static bool is_scattered(const DtKernel *k, const DtKNode *node)
{
    const uint32_t v = lanes_of(k);
    return v < k->n_axes && !is_beside(k, node, v) &&
           !(has_outer_lanes(k) && is_beside(k, node, v - 1));
}

/* Instructions of an operation: a choice is made by masks, as are edges; 16 bits are widened when
 * they are read. */
static double instructions(const DtKernel *k, const DtKNode *node)
{
    const uint32_t v = lanes_of(k);
    bool edges = false;
    for (uint32_t d = 0; d < node->n_index && v < k->n_axes; d++)
        edges = edges || node->index[d].node != DT_KNONE || node->index[d].coef[v];
    if (node->kind == DT_KNODE_LOAD)
        return 1 + (node->dtype == DT_BF16 || node->dtype == DT_F16 ? of.widen : 0) +
               (edges ? of.edge : 0);
    return node->map == DT_OP_WHERE                           ? of.choice
           : node->map == DT_OP_MAX || node->map == DT_OP_MIN ? of.extreme
                                                              : 1;
}

/* ---- phases ---- */

/* Marks node n and its operands as needed in that phase. Reductions of earlier phases are already
 * computed. */
static void need(const DtKernel *k, uint32_t n, uint32_t phase, uint32_t *phases)
{
    const DtKNode *node = &k->nodes.at[n];
    if (node->kind == DT_KNODE_REDUCE || phases[n] >> phase & 1)
        return;
    phases[n] |= 1u << phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        need(k, node->args[i], phase, phases);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            need(k, node->index[d].node, phase, phases);
}

/* Sets phases, by node, to the bit set of the phases that evaluate the node. */
static void find_phases(const DtKernel *k, uint32_t *phases)
{
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        if (k->attend)
            phases[i] = 1;
        else if (node->kind == DT_KNODE_REDUCE)
            need(k, node->args[0], k->nodes.at[node->args[0]].phase & 31, phases);
    }
    for (uint32_t s = 0; s < k->stores.n; s++)
        need(k, k->stores.at[s].node, k->nodes.at[k->stores.at[s].node].phase & 31, phases);
    for (uint32_t t = 0; t < k->n_target; t++)
        need(k, k->target[t].node, 0, phases);
}

static uint32_t repeats(const DtKernel *k, const DtKNode *node, uint32_t phases)
{
    uint32_t n = 0;
    if (node->kind == DT_KNODE_REDUCE)
        return 1;
    if (dear(k, node) >= 1 || node->axes < 1u << k->n_outer)
        return phases != 0;
    for (; phases; phases &= phases - 1)
        n++;
    return n;
}

/* ---- sums ---- */

static double bytes_of(const DtKernel *k, const DtMesh *mesh)
{
    double bytes = 0;
    for (uint32_t i = 0; i < k->pointers.n; i++)
        bytes += (double)(dt_type_local_elements(k->pointers.at[i].value->type, mesh) *
                          (int64_t)dt_dtype_size(k->pointers.at[i].value->type->dtype));
    return bytes;
}

static void add_node(DtKernel *k, const DtKNode *node, uint32_t phases)
{
    const bool reduces = node->kind == DT_KNODE_REDUCE,
               works = node->kind == DT_KNODE_MAP || reduces;
    const uint32_t n = repeats(k, node, phases);
    double lanes;
    const double times =
        n * times_of(k, reduces ? UINT32_MAX : node->axes, node->after_rows && !reduces, &lanes);
    lanes *= n;
    k->flops += works ? times : 0;
    k->special_flops +=
        dear(k, node) * lanes + (works ? units(instructions(k, node) * lanes - times) : 0);
    if (node->kind == DT_KNODE_LOAD)
        k->special_flops +=
            is_scattered(k, node) ? of.scattered * times : units(instructions(k, node) * lanes);
}

static void add_store(DtKernel *k, const DtKStore *store)
{
    const uint32_t axes = k->nodes.at[store->node].axes, v = lanes_of(k);
    double lanes;
    const double times = times_of(k, axes, k->nodes.at[store->node].after_rows, &lanes);
    const bool alone = v < k->n_axes && axes >> v & 1 && store->stride[v] != 1 &&
                       !(has_outer_lanes(k) && store->stride[v - 1] == 1);
    const DtDtype dtype = k->pointers.at[store->pointer].value->type->dtype;
    const double each = dtype == DT_BF16 || dtype == DT_F16 ? of.store_16
                        : store->accumulate                 ? of.store_sum
                                                            : 1;
    k->special_flops += alone ? of.scattered * times : units(each * lanes);
}

/* Adds the work around the loops over rows: reductions initialise their lanes and combine them. */
static void add_rows(DtKernel *k)
{
    const bool reduces = k->n_outer < k->n_axes;
    const double each =
        reduces ? of.combine * dt_kernel_row_lanes(k) : 0;
    const uint32_t outer = reduces ? k->n_outer : k->n_axes ? k->n_axes - 1 : 0;
    double lanes;
    if (k->pattern == DT_KPATTERN_ROW)
        k->special_flops += units(of.row * WIDTH + reductions_of(k) * each) *
                            times_of(k, (1u << outer) - 1, false, &lanes);
}

/* Adds the time of a scan, top-k or sum by index, which works on one element at a time. */
static void add_in_turn(DtKernel *k)
{
    double lanes;
    const DtType *type = k->special->out[0]->type;
    const double rounds =
        k->pattern == DT_KPATTERN_TOPK ? (double)dt_type_extent(type, k->special->axes[1]) : 1;
    k->special_flops += of.serial * rounds * times_of(k, UINT32_MAX, false, &lanes);
}

void dt_kernel_price(DtKernel *k, const DtMesh *mesh)
{
    uint32_t *phases = calloc(k->nodes.n + 1, sizeof *phases);
    if (!phases)
        dt_arena_exhausted((k->nodes.n + 1) * sizeof *phases);
    find_phases(k, phases);
    for (uint32_t i = 0; i < k->nodes.n; i++)
        add_node(k, &k->nodes.at[i], phases[i]);
    free(phases);
    for (uint32_t s = 0; s < k->stores.n; s++)
        add_store(k, &k->stores.at[s]);
    add_rows(k);
    if (k->special && lanes_of(k) == k->n_axes)
        add_in_turn(k);
    k->bytes = bytes_of(k, mesh);
}
