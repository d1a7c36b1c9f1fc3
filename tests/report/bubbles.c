/* SPDX-License-Identifier: Apache-2.0 */
/* The bubble of a plan whose pieces take given times:  bubbles PLAN F B W MESSAGE  (milliseconds)
 * Prints 1 - m (F + B + W) / step; a stage has one piece, and all else but messages takes no time.
 * Where a piece has no W, B has its time; where it has no B, since nobody wants what that makes, W
 * has. */
#include "plan/read.h"
#include "plan/report/simulate.h"
#include "tests/report/alike.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the first body that the entry runs; -1: it runs none. */
static int64_t body_of(const DtPlan *plan, const DtPlanEntry *entry)
{
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++)
        if (plan->schedule[i].kind == DT_SCHED_RUN)
            return plan->schedule[i].body;
    return -1;
}

/* Whether a piece has an entry of that kind that runs something. */
static int has(const DtPlan *plan, char kind, const char *piece)
{
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const char *name = dt_plan_str(plan, plan->entries[e].name);
        if (strncmp(name, "grad.", 5) == 0 && name[5] == kind && strcmp(name + 6, piece) == 0)
            return body_of(plan, &plan->entries[e]) >= 0;
    }
    return 0;
}

static void price_pieces(const DtPlan *plan, const double *times, DtPrice *prices)
{
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const char *name = dt_plan_str(plan, plan->entries[e].name);
        const int64_t body = body_of(plan, &plan->entries[e]);
        if (strncmp(name, "grad.", 5) != 0 || body < 0 || !strchr("fbw", name[5]))
            continue;
        double seconds = times[name[5] == 'f' ? 0 : name[5] == 'b' ? 1 : 2];
        seconds += name[5] == 'b' && !has(plan, 'w', name + 6) ? times[2] : 0;
        seconds += name[5] == 'w' && !has(plan, 'b', name + 6) ? times[1] : 0;
        prices[plan->bodies[body].first_inst].seconds = seconds;
    }
}

int main(int argc, char **argv)
{
    DtPlanFile file;
    double times[4], all = 0;
    if (argc != 6)
        return 2;
    const DtStatus status = dt_read_file(argv[1], &file);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "%s\n", status.message);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        times[i] = atof(argv[2 + i]) * 1e-3;
        all += i < 3 ? times[i] : 0;
    }
    const DtPlan *plan = &file.plan;
    DtArena *arena = dt_arena_new();
    DtDevice device = dt_device_new("test");
    device.at[DT_COST_share].value = device.at[DT_COST_step].value =
        device.at[DT_COST_jitter].value = 0;
    const DtCostModel model = {.device = &device, .nodes = 1, .ranks_per_node = 1};
    DtPrice *prices = DT_NEW_ARRAY(arena, DtPrice, plan->n_insts + 1);
    price_pieces(plan, times, prices);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (plan->insts[i].kind == DT_INST_SEND)
            prices[i].seconds = times[3];
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    DtSimulation sim;
    dt_simulate(arena, plan, &model, prices_alike(arena, plan, prices), &options, &sim);
    printf("%.4f\n", 1 - plan->meta->n_micro * all / sim.seconds);
    dt_arena_free(arena);
    dt_read_close(&file);
    return sim.estimated;
}
