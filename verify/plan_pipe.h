/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a pipeline's pieces once their entries are walked (plan_pipe.c), for running them (plan_run.c). */
#ifndef DT_VERIFY_PLAN_PIPE_H
#define DT_VERIFY_PLAN_PIPE_H

#include "verify/plan_internal.h"

/* A result that a piece adds to. */
typedef struct Adds {
    PlanPlace place;
    uint32_t sum;
    int store;
    const CertType *type;
    bool adds;  /* false: it sets it */
    bool parts; /* its last micro-batch sums over ranks what all added */
} Adds;

/* A slot that a piece reads or writes, or (name) a result of the stage's prologue that it reads. */
typedef struct Uses {
    int store;
    bool written;
    const char *name;
    PlanPlace place;
} Uses;

typedef struct Slot { /* of a store: its place on the stage */
    int store;
    uint32_t place;
} Slot;

/* What is gathered of stored parameters for a piece by another one: a value of an iteration of its loop. */
typedef struct Gathered {
    const CertEntry *entry;
    const CertOp *loop;
    int64_t number;
    uint32_t value;
    PlanPlace place;
} Gathered;

/* A piece that begins with a slot of the ring: what it finds and leaves (numbers of Gathered), what it writes, and with
 * which slot it ends. */
typedef struct Turn {
    DT_VEC(uint32_t) finds, leaves;
    DT_VEC(PlanRange) written;
    int64_t ring;
    bool begins; /* with a slot that it says itself: this is the turn for any slot of others */
} Turn;

typedef struct Piece {
    uint32_t stage, entry;
    const CertEntry *of;
    DT_VEC(Adds) adds;
    DT_VEC(Uses) uses;
    DT_VEC(uint64_t) begun, left; /* events of collectives that it starts; of those, it does not wait for */
    DT_VEC(Turn *) turns; /* by slot of the ring; one, if it has none, or begins it itself */
    bool meets;       /* other stages */
    struct Piece *main; /* the first entry of the stage that is this piece */
    uint8_t *ran; /* main's, by micro-batch */
    bool listed;      /* once it has run: */
    DT_VEC(Slot) reads, writes;
} Piece;

typedef struct Met { /* of a function: sums over these stages, so far */
    const PlanFrame *frame;
    const char *stages;
    uint32_t n;
} Met;

struct PlanPipe {
    DT_VEC(Piece *) pieces;
    Piece *now;
    DT_VEC(Piece *) called; /* by the schedule that is walked */
    DT_VEC(int) slots;      /* stores with slots in it, each once */
    int64_t depth[DT_PLAN_N_SLOTS]; /* numbers that registers of slots have are below these */
    uint8_t *shared;        /* by metric */
    uint32_t n_shared;      /* metrics up to the last one of those */
    DT_VEC(uint64_t) ended; /* events that the schedule has waited for since its last call */
    DT_VEC(Met) met;        /* in the entry that is walked */
    int *carries;           /* by channel: the store that receives, -1: not known */
    uint32_t *message;      /* by event from 1 on: 1 + the end of a channel (2 x number, + 1: it sends) which alone
                             * has it; 0: no message has; PLAN_MANY: several have */
    int32_t *places; /* of stores with slots, by stage: the register of the slot, 0: there is one */
    Piece **by_entry; /* by plan entry */
    struct PlanRun *run; /* plan_run.c */
    DT_VEC(Gathered) gathered;
};

#define PLAN_MANY UINT32_MAX

/* Whether what was gathered is written over. */
bool dt_certplan_loses(const PlanWalk *walk, const Turn *turn, const Gathered *gathered);

#endif
