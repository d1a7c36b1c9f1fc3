/* SPDX-License-Identifier: Apache-2.0 */
/* A training step made of layers: stages and their messages as events, what data parallelism
 * exchanges, the optimizer, and the time of a step that is spent on nothing of these. */
#include "bench/costmodel/costmodel.h"

#include <math.h>

static const int64_t NODE = 8; /* number of devices of a node, in all published rows */

/* The data-parallel ranks on a node share its network cards. */
static double data_collective(const Setting *s, DtCostCollectiveKind kind, double bytes)
{
    const Row *row = s->row;
    const int64_t room = NODE / row->tensor > 0 ? NODE / row->tensor : 1;
    const int64_t per_node = row->data < room ? row->data : room;
    const DtCostCollective op = {kind, bytes, row->data, per_node,
                                 (row->data + per_node - 1) / per_node};
    return s->without == COLLECTIVES ? 0 : dt_cost_collective(&s->model, op);
}

static DtCostKind data_kind(const Row *row)
{
    return row->data * row->tensor > NODE ? DT_COST_KIND_NETWORK : DT_COST_KIND_LINK;
}

/* ---- without stages: parameters split over data-parallel ranks ---- */

/* Seconds of work while an exchange runs at the same time. */
static Time beside(const Setting *s, Time work, double exchange)
{
    const double compute = time_total(work);
    work.at[data_kind(s->row)] += beside_of(s, compute, exchange) - compute;
    return work;
}

/* The copies of a layer's parameters from the buffer into which they were gathered, or of its
 * gradients into the buffer in which they are summed. */
static Time copies(const Setting *s, double parameters, double bytes)
{
    Time t = {0};
    if (dt_cost_has(&s->model, DT_STACK_bucket_copies) && s->without != KERNELS)
        t.at[DT_COST_KIND_KERNEL] =
            dt_cost_kernel(&s->model, (DtCostKernel){.bytes = bytes * parameters});
    return t;
}

static Time split_step(const Setting *s)
{
    const Row *row = s->row;
    const Layer layer = layer_of(s), embedding = embedding_of(s), head = head_of(s);
    const double parameters = layer_parameters(row) / (double)row->tensor;
    const double gather = data_collective(s, DT_COST_ALL_GATHER, 2 * parameters);
    const double scatter = data_collective(s, DT_COST_REDUCE_SCATTER, 4 * parameters);
    const Time into = copies(s, parameters, 2 + 2), out = copies(s, parameters, 2 + 4);
    Time step = time_scale(beside(s, time_add(layer.forward, into), gather), (double)row->layers);
    const Time again = time_add(layer.backward, layer.recompute);
    const Time backward = beside(s, time_add(again, time_add(into, out)), gather + scatter);
    step = time_add(step, time_scale(backward, (double)row->layers));
    step = time_add(step, time_add(embedding.forward, embedding.backward));
    step = time_add(step, time_add(head.forward, head.backward));
    const double outer = outer_parameters(row) / (double)row->tensor;
    /* exchanges of the first and the last layer, which run beside no other work */
    step.at[data_kind(row)] += gather + scatter +
                               data_collective(s, DT_COST_ALL_GATHER, 2 * outer / 2);
    const double owned = (parameters * (double)row->layers + outer) / (double)row->data;
    step.at[DT_COST_KIND_KERNEL] +=
        s->without == OPTIMIZER ? 0 : dt_cost_optimizer(&s->model, owned, 0);
    return step;
}

/* ---- with stages ---- */

typedef struct Piece { Time forward, backward; } Piece;

static int64_t layers_of(const Row *row, int64_t piece, int64_t pieces)
{
    const int64_t all = row->layers + (row->trims_ends ? 2 : 0);
    const bool end = piece == 0 || piece == pieces - 1;
    return all / pieces - (row->trims_ends && end ? 1 : 0) +
           (row->trims_ends && pieces == 1 ? -1 : 0);
}

static Piece piece_of(const Setting *s, int64_t piece, int64_t pieces, const Layer part[3])
{
    const double n = (double)layers_of(s->row, piece, pieces);
    Piece p = {time_scale(part[0].forward, n),
               time_scale(time_add(part[0].backward, part[0].recompute), n)};
    for (int outer = 1; outer <= 2; outer++)
        if (piece == (outer == 1 ? 0 : pieces - 1)) {
            p.forward = time_add(p.forward, part[outer].forward);
            p.backward = time_add(p.backward, part[outer].backward);
        }
    return p;
}

/* A message of activations: each rank of a tensor-parallel group sends a part of it, and the
 * receivers gather the parts. */
static double message_of(const Setting *s)
{
    const Row *row = s->row;
    const double bytes = 2.0 * (double)(row->micro * row->seq) * (double)row->hidden;
    const bool crosses = row->tensor * row->data * row->stages > NODE;
    const DtCostCollective gather = {DT_COST_ALL_GATHER, bytes, row->tensor, row->tensor, 1};
    if (row->stages == 1 || s->without == MESSAGES)
        return 0;
    double seconds = dt_cost_message(&s->model, bytes / (double)row->tensor, crosses);
    if (!row->sequence_parallel)
        seconds += dt_cost_collective(&s->model, gather);
    return seconds;
}

static Time staged_work(const Setting *s, double message)
{
    enum { MOST = 512 };
    const Row *row = s->row;
    const int64_t pieces = row->stages * row->chunks, m = row->batch / (row->data * row->micro);
    const Layer part[3] = {layer_of(s), embedding_of(s), head_of(s)};
    double forward[MOST], backward[MOST], weight[MOST];
    Time mean = {0};
    const bool waits = row->chunks > 1 && dt_cost_has(&s->model, DT_STACK_waited_messages);
    for (int64_t i = 0; i < pieces && i < MOST; i++) {
        const Piece p = piece_of(s, i, pieces, part);
        forward[i] = time_total(p.forward) + (waits ? message : 0);
        weight[i] = row->schedule == ZB_H1 ? p.backward.weight : 0;
        backward[i] = time_total(p.backward) - weight[i] + (waits ? message : 0);
        mean = time_add(
            mean, time_scale(time_add(p.forward, p.backward), (double)m / (double)row->stages));
    }
    mean.at[DT_COST_KIND_MESSAGE] += row->stages > 1 ? 2 * message * (double)(m * row->chunks) : 0;
    const Schedule schedule = row->chunks > 1 ? INTERLEAVED : row->schedule;
    const Pipeline p = {schedule, row->stages, row->chunks, m, forward, backward, weight,
                        waits ? 0 : message};
    const double seconds =
        s->without == BUBBLE || row->stages == 1 ? time_total(mean) : pipeline_run(p);
    return time_scale(mean, seconds / time_total(mean));
}

static Time staged_step(const Setting *s)
{
    const Row *row = s->row;
    Time step = staged_work(s, message_of(s));
    const double tensor = (double)row->tensor, outer = outer_parameters(row) / tensor;
    const double owned =
        layer_parameters(row) * (double)row->layers / (double)row->stages / tensor + outer;
    if (row->data > 1)
        step.at[data_kind(row)] += data_collective(s, DT_COST_ALL_REDUCE, 2 * owned);
    /* the embedding, which the first and the last stage share */
    if (row->stages > 1 && s->without != COLLECTIVES) {
        const DtCostCollective tied = {DT_COST_ALL_REDUCE, 2 * outer, 2, 1, 2};
        step.at[DT_COST_KIND_NETWORK] += dt_cost_collective(&s->model, tied);
    }
    step.at[DT_COST_KIND_KERNEL] +=
        s->without == OPTIMIZER ? 0 : dt_cost_optimizer(&s->model, owned, 0);
    return step;
}

Time step_of(const Setting *s)
{
    if (s->row->what != STEP) {
        const Layer layer = layer_of(s);
        return s->row->what == FORWARD ? layer.forward : time_add(layer.backward, layer.recompute);
    }
    Time step = s->row->zero == 3 ? split_step(s) : staged_step(s);
    if (s->without != FIXED)
        step.at[DT_COST_KIND_FIXED] +=
            dt_cost_step_fixed(&s->model, s->row->gpus, time_total(step));
    return step;
}
