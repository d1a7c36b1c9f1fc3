/* SPDX-License-Identifier: Apache-2.0 */
/* Where a pipeline is cut. The program's forward part is a chain of items: what precedes the first
 * named loop, its iterations, what lies between, ..., the rest with the loss; cuts fall between
 * items. Their costs are counted in flops: contractions 2mnk, everything else a fixed number per
 * byte that it reads or writes, since such ops run at the speed of memory. Where the nodes of a
 * cluster are of several kinds, an op costs a stage as many times more as it takes longer on its
 * device than on the fastest (cost/). Cuts are chosen such that the most expensive stage (with all
 * of its pieces) is as cheap as possible, and then the most expensive piece (ir/cuts.h).
 *   A model without loops is cut before named instances: a piece starts at the first op with that
 *   path. */
#include "passes/pipeline/stage.h"

#include "cost/cost.h"
#include "ir/cuts.h"

#include <math.h>
#include <string.h>

#define FLOPS_PER_BYTE \
    50.0 /* flops of a processor in the time of one byte; only ratios of costs matter */

/* ---- dependences ---- */

bool *dt_stage_ancestors(DtArena *arena, const DtFunc *func, const bool *wanted)
{
    bool *ops = DT_NEW_ARRAY(arena, bool, func->ops.n + 1);
    bool *values = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (wanted[i])
            values[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++)
            ops[i] = ops[i] || values[op->out[k]->id];
        for (uint32_t k = 0; ops[i] && k < op->n_in; k++)
            values[op->in[k]->id] = true;
    }
    return ops;
}

bool *dt_stage_forward_results(DtArena *arena, const DtEntryPoint *entry)
{
    bool *wanted = DT_NEW_ARRAY(arena, bool, entry->results.n + 1);
    for (uint32_t i = 0; i < entry->results.n; i++)
        wanted[i] =
            !entry->results.at[i].store || entry->results.at[i].store->kind != DT_STORE_GRAD;
    return wanted;
}

int32_t dt_stage_loop(const DtStager *s, const DtOp *op)
{
    for (uint32_t i = 0; op->kind == DT_OP_LOOP && i < s->loops.n; i++)
        if (s->loops.at[i].label == op->loop->label)
            return (int32_t)i;
    return -1;
}

/* ---- costs ---- */

static double bytes_of(const DtModule *module, const DtValue *value)
{
    return (double)dt_type_local_elements(value->type, &module->mesh) *
           (double)dt_dtype_size(value->type->dtype);
}

/* A cost in flops of the fastest device, on each kind of the cluster's nodes. */
typedef struct Cost { double at[DT_NODE_KINDS]; } Cost;

static Cost cost_of_func(const DtStager *s, const DtFunc *func);

static void add_cost(Cost *sum, Cost cost)
{
    for (int k = 0; k < DT_NODE_KINDS; k++)
        sum->at[k] += cost.at[k];
}

/* Returns the cost on each kind of nodes, given the cost on the fastest device and the seconds on
 * each kind (0: all nodes are alike). */
static Cost cost_by(double cost, const double seconds[DT_NODE_KINDS])
{
    double least = INFINITY;
    Cost ret;
    for (int k = 0; k < DT_NODE_KINDS; k++)
        least = seconds[k] > 0 ? fmin(least, seconds[k]) : least;
    for (int k = 0; k < DT_NODE_KINDS; k++)
        ret.at[k] = seconds[k] > 0 ? cost * seconds[k] / least : cost;
    return ret;
}

/* The cost model of nodes of that kind; false: all nodes are alike. */
static bool model_of(const DtStager *s, uint32_t kind, DtCostModel *ret_model)
{
    const DtClusterConfig *cluster = s->context->cluster;
    if (!cluster || cluster->n_kinds < 2 || kind >= cluster->n_kinds ||
        !cluster->kinds[kind].device)
        return false;
    *ret_model = (DtCostModel){.device = cluster->kinds[kind].device, .nodes = 1,
                               .ranks_per_node = 1};
    return true;
}

static int64_t shared_extent(const DtStager *s, const DtOp *op)
{
    const DtType *x = op->in[0]->type;
    int64_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++)
        if (!dt_op_has_axis(op, x->axes[i].name) &&
            dt_type_find(op->in[1]->type, x->axes[i].name) >= 0)
            n *= dt_type_local_extent(x, i, &s->module->mesh);
    return n;
}

static Cost cost_of_dot(const DtStager *s, const DtOp *op)
{
    const DtMesh *mesh = &s->module->mesh;
    const DtType *x = op->in[0]->type, *y = op->in[1]->type;
    double flops = 2 * (double)dt_type_local_elements(op->out[0]->type, mesh),
           seconds[DT_NODE_KINDS] = {0};
    int64_t sum = 1;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const int axis = dt_type_find(x, op->axes[i]);
        sum *= axis < 0 ? 1 : dt_type_local_extent(x, (uint32_t)axis, mesh);
    }
    flops *= (double)sum;
    DtCostProduct product = {.k = sum, .batch = shared_extent(s, op),
                             .dtype = x->dtype == DT_F32 ? DT_COST_F32 : DT_COST_F16};
    DtCostModel model;
    product.m = dt_type_local_elements(x, mesh) / (product.k * product.batch);
    product.n = dt_type_local_elements(y, mesh) / (product.k * product.batch);
    for (uint32_t k = 0; model_of(s, k, &model); k++)
        seconds[k] = dt_cost_product(&model, product);
    return cost_by(flops, seconds);
}

static Cost cost_of_bytes(const DtStager *s, double bytes)
{
    double seconds[DT_NODE_KINDS] = {0};
    DtCostModel model;
    for (uint32_t k = 0; model_of(s, k, &model); k++)
        seconds[k] = dt_cost_kernel(&model, (DtCostKernel){.bytes = bytes});
    return cost_by(bytes * FLOPS_PER_BYTE, seconds);
}

static Cost cost_of(const DtStager *s, const DtOp *op)
{
    if (op->kind == DT_OP_LOOP) {
        Cost cost = cost_of_func(s, op->func);
        for (int k = 0; k < DT_NODE_KINDS; k++)
            cost.at[k] *= (double)op->loop->count;
        return cost;
    }
    if (op->func)
        return cost_of_func(s, op->func);
    if (op->kind == DT_OP_DOT)
        return cost_of_dot(s, op);
    if (dt_op_info[op->kind].op_class == DT_CLASS_SOURCE)
        return (Cost){0};
    double bytes = 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        bytes += bytes_of(s->module, op->out[i]);
    return cost_of_bytes(s, bytes);
}

static Cost cost_of_func(const DtStager *s, const DtFunc *func)
{
    Cost cost = {0};
    for (uint32_t i = 0; i < func->ops.n; i++)
        add_cost(&cost, cost_of(s, func->ops.at[i]));
    return cost;
}

/* ---- stages ---- */

/* Returns, by stage, the kinds of nodes that its ranks are on, as bits. Nodes come in the order of
 * ranks. */
static const uint32_t *kinds_of_stages(const DtStager *s)
{
    const DtClusterConfig *cluster = s->context->cluster;
    const DtMesh *mesh = &s->module->mesh;
    const uint32_t n = s->pipeline->n_stages;
    uint32_t *kinds = DT_NEW_ARRAY(s->arena, uint32_t, n);
    int64_t stride = 1, ranks = 1, first = 0;
    for (uint32_t m = 0; m < mesh->n; m++) {
        ranks *= mesh->axes[m].is_time ? 1 : mesh->axes[m].size;
        stride *= m > s->pipeline->mesh && !mesh->axes[m].is_time ? mesh->axes[m].size : 1;
    }
    for (uint32_t k = 0; cluster && cluster->n_kinds > 1 && k < cluster->n_kinds; k++)
        for (const int64_t end = first + cluster->kinds[k].nodes * cluster->gpus;
             first < end && first < ranks; first++)
            kinds[first / stride % n] |= 1u << k;
    for (uint32_t i = 0; i < n; i++)
        kinds[i] = kinds[i] ? kinds[i] : 1;
    return kinds;
}

/* Returns the cost on the slowest of these kinds of nodes (bits). */
static double cost_on(const Cost *cost, uint32_t kinds)
{
    double most = 0;
    for (int k = 0; k < DT_NODE_KINDS; k++)
        most = kinds >> k & 1 ? fmax(most, cost->at[k]) : most;
    return most;
}

/* ---- items ---- */

typedef struct Item {
    int32_t loop; /* number of the loop; -1: ops outside of named loops */
    int64_t iteration;
    uint32_t segment; /* loop -1: number of the segment */
    Cost cost;
} Item;

typedef DT_VEC(Item) ItemList;

static bool is_named(const DtStager *s, const DtOp *op)
{
    for (uint32_t i = 0; op->kind == DT_OP_LOOP && i < s->line->n_loops; i++)
        if (s->line->loops[i] == op->loop->label || s->line->loops[i] == op->loop->axis)
            return true;
    return false;
}

static void add_loop(DtStager *s, const DtOp *op)
{
    DtStageLoop loop = {.label = op->loop->label, .axis = op->loop->axis, .count = op->loop->count};
    loop.lo = DT_NEW_ARRAY(s->arena, int64_t, s->pipeline->n_pieces);
    loop.hi = DT_NEW_ARRAY(s->arena, int64_t, s->pipeline->n_pieces);
    if (dt_stage_loop(s, op) >= 0) {
        DtDiag *diag = dt_stage_refuse(
            s, E0592, op->span,
            "cutting loop `%s`, which runs twice, into stages is not implemented yet", loop.label);
        dt_diag_help(
            diag,
            "one call runs it once: with `dim view = 2`, `f(stack[view](x, y))` in place of `f(x)` "
            "and "
            "`f(y)`, then `[view = 0]` and `[view = 1]` of its result; or name another loop in the "
            "`pipeline` line");
        return;
    }
    DT_PUSH(s->arena, s->loops, loop);
}

/* Returns what an op between loops costs its piece: nothing if its readers recompute it. recompute:
 * by value id, the decision for operands; set here for the op's results. */
static Cost cost_between(const DtStager *s, const DtOp *op, uint8_t *recompute)
{
    const DtRecompute own = dt_stage_recompute(op, recompute);
    for (uint32_t i = 0; i < op->n_out; i++)
        recompute[op->out[i]->id] = (uint8_t)own;
    return own == DT_RECOMPUTE_NO ? cost_of(s, op) : (Cost){0};
}

/* Lists what a cut can come between: each iteration of the entry's named loops, and the parts
 * between the loops that have a cost. */
static void list_items(DtStager *s, const DtEntryPoint *entry, ItemList *ret_items)
{
    const DtFunc *func = entry->func;
    const bool *forward =
        dt_stage_ancestors(s->arena, func, dt_stage_forward_results(s->arena, entry));
    uint8_t *recompute = DT_NEW_ARRAY(s->arena, uint8_t, func->n_values + 1);
    Cost between = {0};
    for (uint32_t i = 0; i < func->ops.n && !s->failed; i++) {
        const DtOp *op = func->ops.at[i];
        const bool named = is_named(s, op);
        const Cost cost = named ? (Cost){0} : cost_between(s, op, recompute);
        if (!forward[i])
            continue;
        if (!named) {
            add_cost(&between, cost);
            continue;
        }
        if (between.at[0] > 0)
            DT_PUSH(s->arena, *ret_items,
                    ((Item){.loop = -1, .segment = s->loops.n, .cost = between}));
        between = (Cost){0};
        add_loop(s, op);
        for (int64_t k = 0; k < op->loop->count; k++)
            DT_PUSH(s->arena, *ret_items,
                    ((Item){.loop = (int32_t)s->loops.n - 1,
                            .iteration = k,
                            .cost = cost_of_func(s, op->func)}));
    }
    if (between.at[0] > 0)
        DT_PUSH(s->arena, *ret_items, ((Item){.loop = -1, .segment = s->loops.n, .cost = between}));
}

/* ---- cutting ---- */

/* Cuts the items into pieces so that all stages have about the same work. ret_first[g]: the first
 * item of piece g. */
static void balance(const DtStager *s, const ItemList *items, int64_t *ret_first)
{
    const DtPipelineSchedule *pipeline = s->pipeline;
    const uint32_t *kinds = kinds_of_stages(s), p = pipeline->n_stages;
    DtCutsRun *runs = DT_NEW_ARRAY(s->arena, DtCutsRun, items->n);
    double *load = DT_NEW_ARRAY(s->arena, double, p),
           *size = DT_NEW_ARRAY(s->arena, double, pipeline->n_pieces);
    DtCuts cuts = {.runs = runs, .stage_step = 1, .n_pieces = pipeline->n_pieces, .n_stages = p,
                   .stage_of = pipeline->stage_of};
    uint32_t n = 0;
    for (uint32_t i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (i == 0 || item->loop < 0 || item->loop != item[-1].loop) {
            double *cost = DT_NEW_ARRAY(s->arena, double, p);
            for (uint32_t k = 0; k < p; k++)
                cost[k] = cost_on(&item->cost, kinds[k]);
            runs[n++] = (DtCutsRun){.cost = cost};
        }
        runs[n - 1].count++;
    }
    cuts.n_runs = n;
    dt_cuts_find(&cuts, ret_first, load, size);
}

/* Cuts where the program says, as in cuts = (3, 6): after so many iterations, counted through all
 * loops. ret_first[g]: the first item of piece g. False after a diagnostic if a cut makes an empty
 * piece. */
static bool cut_at(DtStager *s, const ItemList *items, int64_t *ret_first)
{
    int64_t iterations = 0;
    uint32_t piece = 0;
    for (uint32_t i = 0; i < items->n && piece < s->line->n_cuts; i++) {
        const bool is_iteration = items->at[i].loop >= 0;
        if (is_iteration && i > 0 && iterations == 0 && s->line->cuts[piece] == 0)
            ret_first[++piece] = i;
        iterations += is_iteration;
        if (is_iteration && i + 1 < items->n && piece < s->line->n_cuts &&
            iterations == s->line->cuts[piece])
            ret_first[++piece] = i + 1;
    }
    if (piece < s->line->n_cuts)
        dt_stage_refuse(s, E0606, s->line->span, "a cut after %lld iterations leaves nothing %s it",
                        (long long)s->line->cuts[piece],
                        s->line->cuts[piece] == 0 ? "before" : "behind");
    return piece == s->line->n_cuts;
}

static void set_pieces(DtStager *s, const ItemList *items, const int64_t *first)
{
    uint32_t piece = 0, filled = 0;
    for (uint32_t i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        while (piece + 1 < s->pipeline->n_pieces && first[piece + 1] <= i)
            piece++;
        if (item->loop < 0) {
            for (; filled <= item->segment; filled++)
                s->segment_piece[filled] = piece;
            continue;
        }
        DtStageLoop *loop = &s->loops.at[item->loop];
        for (; filled <= (uint32_t)item->loop;
             filled++) /* segments before the loop that cost nothing */
            s->segment_piece[filled] = piece;
        if (loop->hi[piece] == 0)
            loop->lo[piece] = item->iteration;
        loop->hi[piece] = item->iteration + 1;
    }
    for (; filled <= s->loops.n; filled++)
        s->segment_piece[filled] = piece;
}

static bool has_room(DtStager *s, const ItemList *items)
{
    const uint32_t n = s->pipeline->n_pieces, p = s->pipeline->n_stages;
    if (items->n >= n)
        return true;
    DtDiag *diag =
        dt_stage_refuse(s, E0605, s->line->span,
                        "%u parts of the program cannot be cut into %u pieces", items->n, n);
    dt_diag_note(diag, "pieces are cut between the iterations of the named loops and at their "
                       "ends; none may be empty");
    if (items->n / p > 1)
        dt_diag_help(diag, "the largest `chunks` that works is %u", items->n / p);
    else
        dt_diag_help(diag, "at most %u stages", items->n / (n / p));
    return false;
}

bool dt_stage_cut(DtStager *s, const DtEntryPoint *entry)
{
    const uint32_t n = s->pipeline->n_pieces;
    ItemList items = {0};
    int64_t *first = DT_NEW_ARRAY(s->arena, int64_t, n + 1);
    if (s->line->n_named_cuts) { /* stage_ranges.c finds these cuts by paths */
        s->segment_piece = DT_NEW_ARRAY(s->arena, uint32_t, 1);
        return true;
    }
    list_items(s, entry, &items);
    s->segment_piece = DT_NEW_ARRAY(s->arena, uint32_t, s->loops.n + 1);
    if (s->failed || !has_room(s, &items))
        return false;
    if (s->line->n_cuts && !cut_at(s, &items, first))
        return false;
    if (!s->line->n_cuts)
        balance(s, &items, first);
    set_pieces(s, &items, first);
    return true;
}
