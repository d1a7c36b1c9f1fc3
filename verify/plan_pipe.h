/* SPDX-License-Identifier: Apache-2.0 */
/* What plan_pipe.c finds out about the pieces of a pipeline by walking their entries; plan_run.c
 * then runs the schedules of all stages with it. */
#ifndef DT_VERIFY_PLAN_PIPE_H
#define DT_VERIFY_PLAN_PIPE_H

#include "verify/plan_internal.h"

/* A result to which a piece adds. */
typedef struct Adds {
    PlanPlace place;
    uint32_t sum;
    int store;
    const CertType *type;
    bool adds;  /* false: the piece overwrites it */
    bool parts; /* its last micro-batch sums over ranks the terms of all micro-batches */
} Adds;

/* A slot that a piece reads or writes, or (with name) a result of the stage's prologue that it
 * reads. */
typedef struct Uses {
    int store;
    bool written;
    const char *name;
    PlanPlace place;
} Uses;

typedef struct Slot { /* a store with slots, and its place on the stage */
    int store;
    uint32_t place;
} Slot;

/* A gather of stored parameters that another piece does in advance: a value of one iteration of
 * this piece's loop. */
typedef struct Gathered {
    const CertEntry *entry;
    const CertOp *loop;
    int64_t number;
    uint32_t value;
    PlanPlace place;
} Gathered;

/* One execution of a piece that begins with a certain slot of the ring: the gathers that it expects
 * and that it leaves (numbers of Gathered), the memory that it writes, and the slot with which it
 * ends. */
typedef struct Turn {
    DT_VEC(uint32_t) finds, leaves;
    DT_VEC(PlanRange) written;
    int64_t ring;
    bool begins; /* it sets its first slot itself: then one record serves for all slots */
} Turn;

typedef struct Piece {
    uint32_t stage, entry;
    const CertEntry *of;
    DT_VEC(Adds) adds;
    DT_VEC(Uses) uses;
    /* events of collectives that it starts; of these, the ones it does not wait for */
    DT_VEC(uint64_t) begun, left;
    /* by slot of the ring; one record if it uses no ring or sets its slot itself */
    DT_VEC(Turn *) turns;
    bool meets;       /* it exchanges with other stages */
    struct Piece *main; /* the first entry of the stage that is this piece */
    uint8_t *ran; /* of `main`, by micro-batch */
    bool listed;      /* it has run, and `reads` and `writes` are complete: */
    DT_VEC(Slot) reads, writes;
} Piece;

typedef struct Met { /* per function: how many sums over these stages were met so far */
    const PlanFrame *frame;
    const char *stages;
    uint32_t n;
} Met;

struct PlanPipe {
    DT_VEC(Piece *) pieces;
    Piece *now;
    DT_VEC(Piece *) called; /* by the schedule being walked */
    DT_VEC(int) slots;      /* stores with slots in it, each once */
    int64_t depth[DT_PLAN_N_SLOTS]; /* registers of slots have values below these */
    uint8_t *shared;        /* by metric */
    uint32_t n_shared;      /* number of metrics up to the last shared one */
    DT_VEC(uint64_t) ended; /* events for which the schedule has waited since its last call */
    DT_VEC(Met) met;        /* in the entry being walked */
    int *carries;           /* by channel: the store that receives, -1: not known */
    /* by event from 1 on: 1 + the end of a channel (2 x number, + 1: the sender) that alone uses
     * it; 0: no message does; PLAN_MANY: several do */
    uint32_t *message;
    /* for stores with slots, by stage: the register that selects the slot, 0 if there is one
     * slot */
    int32_t *places;
    Piece **by_entry; /* by plan entry */
    struct PlanRun *run; /* plan_run.c */
    DT_VEC(Gathered) gathered;
};

#define PLAN_MANY UINT32_MAX

/* Whether the gathered value is overwritten. */
bool dt_certplan_loses(const PlanWalk *walk, const Turn *turn, const Gathered *gathered);

#endif
