/* SPDX-License-Identifier: Apache-2.0 */
/* Counting bytes: what this rank receives on each group and channel of the plan while steps and
 * their updates run. Evaluations and checkpoints are not counted, so the sums of all ranks are
 * those of `dtc --report`, times the steps. */
#include "runtime/traffic.h"

#include "runtime/device.h"

#include <string.h>

static uint32_t count(const DtPlan *plan) { return plan->n_groups + plan->n_channels; }

static uint64_t received(const DtRank *rank, uint32_t i)
{
    uint32_t groups = rank->plan->n_groups;
    return i < groups ? rank->comm_ops->received(rank->comm, &rank->groups[i])
                      : rank->comm_ops->channel_received(rank->comm, i - groups);
}

uint64_t dt_traffic_of(const DtRank *rank, const DtPlanInst *inst)
{
    if (inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV)
        return received(rank, rank->plan->n_groups + inst->ref);
    return inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_SHIFT_BACK
               ? received(rank, inst->ref)
               : 0;
}

void dt_traffic_open(DtTraffic *traffic, const DtRank *rank)
{
    *traffic = (DtTraffic){.n = count(rank->plan),
                           .before = DT_NEW_ARRAY(rank->memory, uint64_t, count(rank->plan) + 1),
                           .sums = DT_NEW_ARRAY(rank->memory, uint64_t, count(rank->plan) + 1)};
}

void dt_traffic_begin(DtTraffic *traffic, const DtRank *rank)
{
    for (uint32_t i = 0; i < traffic->n; i++)
        traffic->before[i] = received(rank, i);
}

void dt_traffic_end(DtTraffic *traffic, const DtRank *rank)
{
    for (uint32_t i = 0; i < traffic->n; i++)
        traffic->sums[i] += received(rank, i) - traffic->before[i];
    traffic->steps++;
}

bool dt_traffic_join(DtTraffic *traffic, DtRank *rank)
{
    const DtPlaceAt place = dt_device_of_host(traffic->sums, (int64_t)(8 * traffic->n));
    return rank->n_ranks == 1 || traffic->n == 0 ||
           rank->comm_ops->all_reduce(rank->comm, &rank->world, place, place, traffic->n,
                                      DT_PLAN_I64, DT_PLAN_SUM);
}
