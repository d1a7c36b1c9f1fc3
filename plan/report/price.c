/* SPDX-License-Identifier: Apache-2.0 */
/* Prices instructions with cost/: shapes come from their records, and the ranks of a group from
 * the mesh, whose last axis fills the devices of a node first. */
#include "plan/report/price.h"

#include "plan/kinds.h"
#include "plan/report/nodes.h"
#include "plan/report/report.h"

const DtTimeRow dt_price_times[DT_TIMES] = {
#define DT_TIME(id, name, meaning) {name, meaning},
#include "plan/report/times.def"
#undef DT_TIME
};

/* ---- where ranks are ---- */

enum { MOST_MEMBERS = 1 << 20 }; /* the most ranks that are visited one by one */

/* Returns the distance in rank numbers between neighbours on the mesh axis. */
static int64_t stride_of(const DtPlan *plan, uint32_t axis)
{
    int64_t stride = 1;
    for (uint32_t m = axis + 1; m < plan->n_mesh; m++)
        stride *= plan->mesh[m].size;
    return stride;
}

DtSpread dt_price_spread(const DtPlan *plan, uint32_t mask, int64_t node)
{
    DtSpread spread = {.ranks = 1};
    int64_t counts[DT_PLAN_MAX_RANK] = {0};
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        spread.ranks *= mask >> m & 1 ? plan->mesh[m].size : 1;
    int64_t here = 0, last = -1;
    /* in ascending order of their ranks */
    for (int64_t i = 0; i < spread.ranks && i < MOST_MEMBERS; i++) {
        int64_t rank = 0, rest = i;
        for (uint32_t m = plan->n_mesh; m-- > 0;)
            if (mask >> m & 1) {
                counts[m] = rest % plan->mesh[m].size;
                rest /= plan->mesh[m].size;
                rank += counts[m] * stride_of(plan, m);
            }
        const int64_t on = node > 0 ? rank / node : 0;
        here = on == last ? here + 1 : 1;
        spread.nodes += on != last;
        spread.per_node = here > spread.per_node ? here : spread.per_node;
        last = on;
    }
    return spread;
}

bool dt_price_crosses(const DtPlan *plan, const DtPlanChannel *channel, int64_t node)
{
    if (!plan->meta->pipeline || channel->from == channel->to || node <= 0)
        return false;
    const int64_t stride = stride_of(plan, plan->meta->pipeline - 1);
    const int64_t away = ((int64_t)channel->to - channel->from) * stride,
                  from = channel->from * stride;
    for (int64_t i = 0; i < stride; i++) /* the ranks of the first block of the stage */
        if ((from + i) / node != (from + i + away) / node)
            return true;
    return false;
}

/* ---- instructions ---- */

static DtCostDtype dtype_of(uint32_t dtype)
{
    return dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16 ? DT_COST_F16 : DT_COST_F32;
}

/* Returns the dtype in which a product is priced; only products of f32 by the library are ever in
 * tf32. */
static DtCostDtype product_of(const DtPlan *plan, const DtPlanGemm *g)
{
    return dt_kinds_tf32(plan, g) ? DT_COST_TF32 : dtype_of(g->dtype_a);
}

static double peak_of(const DtPlan *plan, const DtDevice *device, uint32_t dtype)
{
    const bool rounds = plan->meta->tf32 && dtype == DT_PLAN_F32 && device->flops[DT_COST_TF32] > 0;
    return device->flops[rounds ? DT_COST_TF32 : dtype_of(dtype)];
}

double dt_price_peak(const DtPlan *plan, const DtCostModel *model, uint32_t dtype)
{
    double sum = 0;
    for (uint32_t k = 0; k < model->n_kinds; k++)
        sum +=
            (double)dt_nodes_ranks(plan, model, k) * peak_of(plan, model->kinds[k].device, dtype);
    return model->n_kinds ? sum / plan->meta->n_ranks : peak_of(plan, model->device, dtype);
}

const char *dt_price_product(const DtPlan *plan, uint32_t dtype)
{
    return plan->meta->tf32 && dtype == DT_PLAN_F32 ? "tf32" : dt_kinds_name(dtype);
}

static double epilogue_bytes(const DtPlanGemm *g)
{
    const DtEpilogueInfo *info = &dt_kinds_epilogues[g->epilogue];
    return info->matrix != DT_EPILOGUE_NO
               ? (double)g->m * (double)g->n * (double)dt_kinds_size(g->dtype_c)
               : 0;
}

/* Whether leading dimensions are multiples of 16 bytes. */
static bool is_aligned(const DtPlanGemm *g)
{
    const int64_t each = 16 / dt_kinds_size(g->dtype_a),
                  strides[] = {g->a_row == 1 ? g->a_col : g->a_row,
                               g->b_row == 1 ? g->b_col : g->b_row};
    return strides[0] % each == 0 && strides[1] % each == 0;
}

static DtCostProduct product(const DtPlan *plan, const DtPlanGemm *g)
{
    DtCostProduct op = {.m = g->m, .n = g->n, .k = g->k, .batch = 1, .dtype = product_of(plan, g),
                        .result_bytes = (double)dt_kinds_size(g->dtype_c),
                        .accumulates = g->accumulate, .extra_bytes = epilogue_bytes(g),
                        .is_unaligned = !is_aligned(g)};
    for (uint32_t i = 0; i < g->n_batch; i++)
        op.batch *= g->batch[i];
    return op;
}

static const DtPlanAttention *attention_of(const DtPlan *plan, uint32_t kernel)
{
    uint32_t lo = 0, hi = plan->n_attentions;
    while (lo < hi) {
        const uint32_t at = (lo + hi) / 2;
        if (plan->attentions[at].kernel < kernel)
            lo = at + 1;
        else
            hi = at;
    }
    return lo < plan->n_attentions && plan->attentions[lo].kernel == kernel ? &plan->attentions[lo]
                                                                            : NULL;
}

static DtCostOp kernel(const DtPlan *plan, uint32_t number)
{
    const DtPlanKernel *k = &plan->kernels[number];
    const DtPlanAttention *a = attention_of(plan, number);
    if (a)
        return (DtCostOp){.kind = DT_COST_OP_ATTENTION,
                          .attention = {.batch = 1, .heads = a->heads, .kv_heads = a->kv_heads,
                                        .head = a->head, .queries = a->queries, .keys = a->keys,
                                        .visible = a->visible, .dtype = dtype_of(a->dtype),
                                        .backward = a->backward, .dropout = a->dropout}};
    const bool two = plan->n_launches && plan->launches[number].finish;
    return (DtCostOp){.kind = DT_COST_OP_KERNEL,
                      .kernel = {.bytes = k->bytes, .flops = k->flops, .special = k->special,
                                 .kernels = two ? 2 : 1}};
}

bool dt_price_op(const DtPlan *plan, const DtPlanInst *inst, DtCostOp *ret_op)
{
    const double bytes = (double)inst->count;
    switch (inst->kind) {
    case DT_INST_GEMM:
        *ret_op = (DtCostOp){.kind = DT_COST_OP_PRODUCT,
                             .product = product(plan, &plan->gemms[inst->ref])};
        return true;
    case DT_INST_KERNEL: *ret_op = kernel(plan, inst->ref); return true;
    case DT_INST_COPY: /* each element of four bytes is read and written by a lane */
        *ret_op = (DtCostOp){.kind = DT_COST_OP_KERNEL,
                             .kernel = {.bytes = 2 * bytes, .flops = bytes / 2}};
        return true;
    case DT_INST_ZERO:
        *ret_op = (DtCostOp){.kind = DT_COST_OP_KERNEL,
                             .kernel = {.bytes = bytes, .flops = bytes / 4}};
        return true;
    default: return false;
    }
}

/* Returns the seconds of a product. If it accumulates over micro-batches, a stack (the software
 * that is priced) may add in a separate kernel. */
static double product_seconds(const DtCostModel *model, DtCostOp op)
{
    const DtCostProduct *p = &op.product;
    const double bytes = 3 * p->result_bytes * (double)p->m * (double)p->n * (double)p->batch;
    if (!p->accumulates || !dt_cost_has(model, DT_STACK_gradient_pass))
        return dt_cost_op(model, &op);
    op.product.accumulates = false;
    return dt_cost_op(model, &op) + dt_cost_kernel(model, (DtCostKernel){.bytes = bytes});
}

static DtPrice price_of_op(const DtCostModel *model, const DtPlanInst *inst, const DtCostOp *op)
{
    static const DtTime times[] = {[DT_COST_OP_PRODUCT] = DT_TIME_PRODUCTS,
                                   [DT_COST_OP_KERNEL] = DT_TIME_KERNELS,
                                   [DT_COST_OP_ATTENTION] = DT_TIME_ATTENTION};
    static const DtCostKind kinds[] = {[DT_COST_OP_PRODUCT] = DT_COST_KIND_PRODUCT,
                                       [DT_COST_OP_KERNEL] = DT_COST_KIND_KERNEL,
                                       [DT_COST_OP_ATTENTION] = DT_COST_KIND_ATTENTION};
    const bool copies = inst->kind == DT_INST_COPY || inst->kind == DT_INST_ZERO;
    const double seconds =
        op->kind == DT_COST_OP_PRODUCT ? product_seconds(model, *op) : dt_cost_op(model, op);
    return (DtPrice){seconds, copies ? DT_TIME_COPIES : times[op->kind], kinds[op->kind]};
}

/* Returns the price of a collective for the bytes of the whole tensor; `count` is that of one
 * block, except for all-reduces. */
static DtPrice collective(const DtCostModel *model, const DtPlanInst *inst, const DtSpread *spreads)
{
    const DtSpread spread = spreads[inst->ref];
    const double block = (double)inst->count * (double)dt_kinds_size(inst->dtype);
    const DtPrice price = {.time = DT_TIME_COLLECTIVES,
                           .cost = spread.nodes > 1 ? DT_COST_KIND_NETWORK : DT_COST_KIND_LINK};
    DtCostCollective op = {.bytes = block * (double)spread.ranks, .ranks = spread.ranks,
                           .per_node = spread.per_node, .nodes = spread.nodes};
    DtPrice ret = price;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE: op.kind = DT_COST_ALL_REDUCE; op.bytes = block; break;
    case DT_INST_ALL_GATHER: op.kind = DT_COST_ALL_GATHER; break;
    case DT_INST_REDUCE_SCATTER: op.kind = DT_COST_REDUCE_SCATTER; break;
    case DT_INST_ALL_TO_ALL: op.kind = DT_COST_ALL_TO_ALL; break;
    default:
        ret.seconds = spread.ranks > 1 ? dt_cost_message(model, block, spread.nodes > 1) : 0;
        return ret;
    }
    ret.seconds = dt_cost_collective(model, op);
    return ret;
}

int64_t dt_price_read_bytes(const DtPlan *plan, const DtPlanInst *inst)
{
    int64_t bytes = 0;
    for (uint32_t i = inst->first_arg; i < inst->first_arg + inst->n_args; i++)
        bytes += plan->args[i].kind == DT_ARG_ADDRESS ? plan->args[i].bytes : 0;
    return bytes;
}

/* Returns the seconds in which a processor reads inputs; a GPU copies them while it computes. */
static double read(const DtPlan *plan, const DtCostModel *model, const DtPlanInst *inst)
{
    const DtDevice *device = model->device;
    return device->is_gpu || device->host_rate <= 0
               ? 0
               : (double)dt_price_read_bytes(plan, inst) / device->host_rate;
}

static DtPrice price_of(const DtPlan *plan, const DtCostModel *model, const DtPlanInst *inst,
                        const DtSpread *spreads)
{
    const double bytes = (double)inst->count;
    DtCostOp op;
    if (dt_price_op(plan, inst, &op))
        return price_of_op(model, inst, &op);
    switch (inst->kind) {
    case DT_INST_SEND: {
        const DtPlanChannel *channel = &plan->channels[inst->ref];
        const double message = bytes * (double)dt_kinds_size(inst->dtype);
        const double seconds =
            channel->from == channel->to
                ? dt_cost_kernel(model, (DtCostKernel){.bytes = 2 * message})
                : dt_cost_message(model, message,
                                  dt_price_crosses(plan, channel, model->ranks_per_node));
        return (DtPrice){seconds, DT_TIME_MESSAGES, DT_COST_KIND_MESSAGE};
    }
    case DT_INST_RECV: return (DtPrice){0, DT_TIME_BUBBLE, DT_COST_KIND_MESSAGE};
    case DT_INST_READ: return (DtPrice){read(plan, model, inst), DT_TIME_COPIES,
                                        DT_COST_KIND_KERNEL};
    case DT_INST_WAIT: return (DtPrice){0, DT_TIME_COPIES, DT_COST_KIND_KERNEL};
    default: return collective(model, inst, spreads);
    }
}

/* ---- stages ---- */

typedef struct Pricer {
    const DtPlan *plan;
    const DtCostModel *model;
    const DtSpread *spreads;
    const uint32_t *kinds; /* by stage, a set of bits: kinds of its nodes */
    uint32_t all;          /* the same for all stages together */
} Pricer;

/* Returns, as bits, the kinds of nodes that take part in an instruction of a stage. */
static uint32_t kinds_in(const Pricer *p, const DtPlanInst *inst, uint32_t stage)
{
    const DtPlanChannel *channel =
        inst->kind == DT_INST_SEND ? &p->plan->channels[inst->ref] : NULL;
    const uint32_t pipeline = p->plan->meta->pipeline;
    if (channel)
        return p->kinds[channel->from] | p->kinds[channel->to];
    if (pipeline && dt_report_is_collective(inst) &&
        p->plan->groups[inst->ref].mask >> (pipeline - 1) & 1)
        return p->all;
    return p->kinds[stage];
}

/* Returns the price on the slowest of these kinds of nodes. */
static DtPrice slowest(const Pricer *p, const DtPlanInst *inst, uint32_t kinds)
{
    DtPrice price = {.seconds = 0};
    bool some = false;
    for (uint32_t k = 0; k < dt_cost_kinds(p->model); k++) {
        const DtCostModel one = dt_cost_on(p->model, k);
        const DtPrice other = kinds >> k & 1 ? price_of(p->plan, &one, inst, p->spreads) : price;
        price = (kinds >> k & 1 && !some) || other.seconds > price.seconds ? other : price;
        some = some || kinds >> k & 1;
    }
    return price;
}

static const DtPrice *price_stage(DtArena *arena, const Pricer *p, uint32_t stage)
{
    const DtPlan *plan = p->plan;
    DtPrice *prices = DT_NEW_ARRAY(arena, DtPrice, plan->n_insts + 1);
    DtPrice *gemms = DT_NEW_ARRAY(arena, DtPrice, plan->n_gemms + 1);
    DtPrice *kernels = DT_NEW_ARRAY(arena, DtPrice, plan->n_kernels + 1);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        DtPrice *known = inst->kind == DT_INST_GEMM     ? &gemms[inst->ref]
                         : inst->kind == DT_INST_KERNEL ? &kernels[inst->ref]
                                                        : &prices[i];
        if (known == &prices[i] || known->seconds == 0)
            *known = slowest(p, inst, kinds_in(p, inst, stage));
        prices[i] = *known;
    }
    return prices;
}

DtPrices dt_price_plan(DtArena *arena, const DtPlan *plan, const DtCostModel *model)
{
    const uint32_t n = dt_plan_stages(plan);
    const DtPrice **prices = DT_NEW_ARRAY(arena, const DtPrice *, n);
    DtSpread *spreads = DT_NEW_ARRAY(arena, DtSpread, plan->n_groups + 1);
    uint32_t *kinds = DT_NEW_ARRAY(arena, uint32_t, n);
    Pricer p = {plan, model, spreads, kinds, 0};
    for (uint32_t g = 0; g < plan->n_groups; g++)
        spreads[g] = dt_price_spread(plan, plan->groups[g].mask, model->ranks_per_node);
    for (uint32_t s = 0; s < n; s++)
        p.all |= kinds[s] = dt_nodes_of(plan, model, s);
    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t before = 0; before < s && !prices[s]; before++)
            prices[s] = kinds[before] == kinds[s] ? prices[before] : NULL;
        if (!prices[s])
            prices[s] = price_stage(arena, &p, s);
    }
    return prices;
}

typedef struct Work { const DtPlan *plan; double flops[DT_PLAN_DTYPES]; } Work;

static void add_work(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Work *work = context;
    if (inst->kind == DT_INST_GEMM)
        work->flops[work->plan->gemms[inst->ref].dtype_a] +=
            (double)runs * ranks * dt_report_gemm_flops(&work->plan->gemms[inst->ref]);
}

uint32_t dt_price_dtype(const DtPlan *plan)
{
    Work work = {.plan = plan};
    uint32_t most = DT_PLAN_F32;
    dt_report_visit_step(plan, add_work, &work);
    for (uint32_t d = 0; d < DT_PLAN_DTYPES; d++)
        most = work.flops[d] > work.flops[most] ? d : most;
    return most;
}
