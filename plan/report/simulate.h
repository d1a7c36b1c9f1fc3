/* SPDX-License-Identifier: Apache-2.0 */
/* The step of a plan as it runs: all stages of a pipeline, each with its queues (simulate.c). */
#ifndef DT_REPORT_SIMULATE_H
#define DT_REPORT_SIMULATE_H

#include "plan/report/price.h"

/* What a queue of a stage did for a while. */
typedef enum DtSliceKind {
    DT_SLICE_PIECE, /* an entry that the step calls: forward, backward or gradients of a piece for a micro-batch */
    DT_SLICE_INST   /* an instruction, where they are kept */
} DtSliceKind;
typedef struct DtSlice {
    double begin, end;   /* seconds since the step began */
    uint32_t stage, queue;
    uint32_t what;       /* PIECE: entry of the plan; INST: number of the instruction */
    int32_t micro;       /* micro-batch */
    uint8_t kind;
} DtSlice;

/* A message from a stage to another one. */
typedef struct DtFlow {
    double sent, received; /* when sending ended and when the receiver went on with it */
    uint32_t channel;
    int32_t micro;
} DtFlow;

/* What the time of one stage went to; sums up to the step's. */
typedef struct DtStageTime {
    double time[DT_TIMES];
    double *exposed; /* by group of the plan: queue 0 waited for its collectives */
    double *beside;  /* by group: its collectives ran beside other work, or were waited for: all of their time */
    double end;      /* when its part of the step was done */
} DtStageTime;

typedef struct DtSimulation {
    double seconds;          /* of a step, with what is fixed; the mean where losses take turns */
    double low, high;        /* four times of five it takes between these */
    double fixed;            /* of it, what no instruction is */
    DtStageTime *stages;     /* by stage */
    uint32_t n_stages, busiest; /* busiest: the stage that waits least for the others */
    double cost[DT_COST_KINDS]; /* of the busiest stage, by what is uncertain; what it waits for, in the same shares */
    DtSlice *slices; uint32_t n_slices;
    DtFlow *flows; uint32_t n_flows;
    bool stuck;              /* its stages wait for each other for ever: no proved plan is so */
    bool estimated;          /* a loop had so many different iterations that not all of them were run */
} DtSimulation;

typedef struct DtSimulateOptions {
    bool slices;             /* keep slices of pieces and messages */
    bool insts;              /* and of instructions, the first time that something runs */
    uint32_t objective;      /* keep those of this loss */
    uint32_t most;           /* keep so many, 0: 100,000 */
} DtSimulateOptions;

/* prices: of every instruction on every stage. The plan must have passed dt_check_plan. All results lie in the
 * arena. */
void dt_simulate(DtArena *arena, const DtPlan *plan, const DtCostModel *model, DtPrices prices,
                 const DtSimulateOptions *options, DtSimulation *ret_simulation);

#endif
