/* SPDX-License-Identifier: Apache-2.0 */
/* What plan_pipe.c finds out about the pieces of a pipeline by walking their entries; plan_run.c
 * uses it to run the schedules of all stages. */
#ifndef DT_VERIFY_PLAN_PIPE_H
#define DT_VERIFY_PLAN_PIPE_H

#include "verify/plan_internal.h"

/* A result of the run to which a piece adds, or that it sets. */
typedef struct Adds {
    PlanPlace place;
    uint32_t sum;
    int store;
    const CertType *type;
    bool adds;  /* false: the piece overwrites it */
    bool parts; /* in its last micro-batch the piece sums the terms of all micro-batches over
                 * ranks */
} Adds;

/* A slot that a piece reads or writes, or (with name) a result of the stage's prologue that it
 * reads. */
typedef struct Uses {
    int store;
    bool written;
    const char *name;
    PlanPlace place;
} Uses;

/* A store with slots that a piece reads or writes, and its number among the stores of all
 * stages. */
typedef struct Slot {
    int store;
    uint32_t place;
} Slot;

/* A gather of stored parameters that another piece runs in advance: value `value` of iteration
 * `number` of a loop of `entry`. */
typedef struct Gathered {
    const CertEntry *entry;
    const CertOp *loop;
    int64_t number;
    uint32_t value;
    PlanPlace place;
} Gathered;

/* What a piece does if its ring buffer begins with a certain slot. finds, leaves: indices into
 * PlanPipe.gathered of the gathers that it expects, and of those that it makes for others; written:
 * the memory that it writes; ring: the slot with which it ends. */
typedef struct Turn {
    DT_VEC(uint32_t) finds, leaves;
    DT_VEC(PlanRange) written;
    int64_t ring;
    bool begins; /* the piece sets the slot itself, so one record serves for all slots */
} Turn;

typedef struct Piece {
    uint32_t stage, entry;
    const CertEntry *of;
    DT_VEC(Adds) adds;
    DT_VEC(Uses) uses;
    /* begun: events of the collectives that the piece starts; left: those still in flight at its
     * end */
    DT_VEC(uint64_t) begun, left;
    /* by slot with which the ring buffer begins; one record if the piece has no ring buffer or sets
     * its slot itself */
    DT_VEC(Turn *) turns;
    bool meets;       /* the piece takes part in messages or in sums over stages */
    struct Piece *main; /* the first entry of the stage that is the same piece */
    uint8_t *ran; /* of the piece `main`, by micro-batch: it has run */
    bool listed;      /* reads and writes are complete, which they are from its first run on */
    DT_VEC(Slot) reads, writes;
} Piece;

/* How many sums over these stages an execution of a function has reached so far. */
typedef struct Met {
    const PlanFrame *frame;
    const char *stages;
    uint32_t n;
} Met;

struct PlanPipe {
    DT_VEC(Piece *) pieces;
    Piece *now;
    DT_VEC(Piece *) called; /* what follows is for the schedule being walked */
    DT_VEC(int) slots;      /* stores with slots of pieces in that schedule, each once */
    int64_t depth[DT_PLAN_N_SLOTS]; /* by slot register: its values are below this */
    uint8_t *shared;        /* by metric: a sum over stages has given it to all stages */
    uint32_t n_shared;      /* number of metrics up to the last one that stages share */
    DT_VEC(uint64_t) ended; /* events that the schedule has waited for since its last CALL */
    DT_VEC(Met) met;        /* what follows is for the entry being walked */
    int *carries; /* by channel: index in program->stores of the CertStore that receives its
                   * messages; -1: no message was seen yet */
    /* by event from 1 on: 1 + the end of the channel (2 x its number, + 1 for the sender) that uses
     * it; 0: no message uses it; PLAN_MANY: several do */
    uint32_t *message;
    /* for stores with slots, by stage: the register that selects the slot, 0 if there is one
     * slot */
    int32_t *places;
    Piece **by_entry; /* by entry of the plan */
    struct PlanRun *run; /* shared with plan_run.c */
    DT_VEC(Gathered) gathered;
};

#define PLAN_MANY UINT32_MAX

/* Whether something that the piece writes (turn->written) overlaps the gathered value. */
bool dt_certplan_loses(const PlanWalk *walk, const Turn *turn, const Gathered *gathered);

#endif
