/* SPDX-License-Identifier: Apache-2.0 */
/* A module that is cut into pipeline stages (passes/pipeline/stage.c), and the order in which each
 * stage works.
 *
 *  - *Stage* s is all ranks whose coordinate on mesh axis `mesh` is s. Types never mention that
 *    mesh axis. The program's forward part is cut into consecutive *pieces* 0, 1, ... n_pieces - 1;
 *    stage_of[] says where each is. A stage has `chunks` = n_pieces / n_stages of them.
 *  - An entry of the program ("grad", "eval", "predict") becomes a *run*: per piece g entry points
 *    "grad.f<g>" (forward), "grad.b<g>" (backward) and, where the schedule separates them,
 *    "grad.w<g>" (gradients of parameters; then "b" computes the cotangents only). Each has
 *    DtEntryPoint.stage set and works on one micro-batch. Their sources are `input` ops (read on
 *    each stage that uses them; the micro-batch is that of the action) and `param` ops of stores:
 *    PARAM, STATE, SAVED, CHANNEL. Their results go to SAVED and GRAD stores, STATEs, and named
 *    results ("loss", on the stage of the last piece).
 *  - A SAVED store holds what an entry leaves for later actions of the same stage: for another
 *    entry of the micro-batch, or for a send. A CHANNEL store holds what the stage received;
 *    DtStore.of is the store of the sending stage from which it is copied: a SAVED store, or a
 *    CHANNEL store where a value passes through. Both kinds have `depth` slots, each of the store's
 *    type; micro-batch m uses slot m mod depth. No two micro-batches use a slot at the same time:
 *    the order of the stage's actions determines how large depth must be.
 *  - GRAD and named results accumulate over micro-batches as without a pipeline. "update" becomes
 *    one entry "update.<s>" per stage. "grad.prologue" becomes "grad.prologue.<s>" on the stages
 *    that read its results.
 *  - A parameter that several stages use is a PARAM store (with gradient and moments) on each of
 *    them, with equal paths. Each stage computes a term of its gradient. update.<s> sums the terms
 *    by an `all_reduce` over the pipeline's mesh axis, in which only the stages in DtOp.stages take
 *    part: operand and result have equal types, and terms are added in the order of stages. The sum
 *    of squares for the global norm is summed in the same way over all stages; the lowest stage
 *    with a shared parameter counts it.
 *  - A state that several stages use is a STATE store on each of them. The piece that computes its
 *    next value writes it to a NEXT store. update.<s> passes it on to the other stages by the same
 *    kind of sum, in which they add zeros.
 *  - A *class* consists of consecutive stages whose pieces are equal except for numbers that grow
 *    evenly from stage to stage. Its stores and entries exist once, for stages `stage` .. `stage` +
 *    `more`. On each further stage iterations begin first_step later (DtLoop, DtStore); depths[]
 *    has the number of slots on each stage; a CHANNEL store receives `of` if the stage before
 *    belongs to another class, else `within`. On every stage the entry is that of the piece at the
 *    same position among the stage's pieces. dt_pipeline_unfold makes one store and one entry per
 *    stage.
 *  - A loop that is cut runs iterations DtLoop.first .. first + count - 1 of its label; the stores
 *    of its parameters hold those iterations only: DtStore.first of DtStore.whole.
 *
 * The actions of a stage have one total order: the prologue; the period, `count` times, with
 * micro-batch numbers that grow by `step` each time; the epilogue. A channel has `slots` slots in
 * transit. SEND waits for a free slot and fills it from the slots of the sending stores. RECV waits
 * for the oldest full slot, copies it to the slots of the CHANNEL stores for its micro-batch, and
 * frees it. Sends of a channel are in the order of micro-batches, and so are its receives.
 *
 * After pass `order` a message may be in flight during other work. START_SEND begins a message, and
 * DONE_SEND of the same micro-batch waits for its end; likewise START_RECV and DONE_RECV. Each end
 * of a channel has one message in flight at a time. Until the message is done, no op writes the
 * slots that it reads, and no op touches the slots that it writes. Ranks that do one thing at a
 * time send at START_SEND and receive at DONE_RECV. The messages of a run that is `direct` need no
 * slots in transit: no stage waits for ever even if a message is transferred only once both of its
 * ends have begun it, and each end waits at its start until the transfer is over. */
#ifndef DT_IR_PIPELINE_H
#define DT_IR_PIPELINE_H

#include "ir/ir.h"

/* the most stages, pieces per stage, micro-batches */
enum { DT_PIPELINE_STAGES = DT_STAGES_MOST, DT_PIPELINE_CHUNKS = 64, DT_PIPELINE_MICRO = 1 << 20 };

typedef enum DtActionKind {
    DT_ACTION_F,    /* forward pass of piece `unit` */
    DT_ACTION_B,    /* its backward pass; only the cotangents if the run has W actions */
    DT_ACTION_W,    /* the gradients of its parameters */
    DT_ACTION_SEND, /* message on channel `unit`, at the stage that sends */
    DT_ACTION_RECV, /* message on channel `unit`, at the stage that receives */
    DT_ACTION_START_SEND,
    DT_ACTION_START_RECV,
    DT_ACTION_DONE_SEND,
    DT_ACTION_DONE_RECV,
    DT_ACTION_KINDS
} DtActionKind;

typedef struct DtAction {
    uint32_t kind;  /* DtActionKind */
    uint32_t unit;  /* number of a piece, or of a channel of the run */
    int64_t micro;  /* inside a period: that of the first repetition */
    uint32_t twin;  /* F, B, W: which twin of the piece's entry runs */
} DtAction;

typedef DT_VEC(DtAction) DtActions;

/* The actions of a stage in a run. */
typedef struct DtStageActions {
    DtActions prologue, period, epilogue;
    int64_t count, step; /* count, step: repetitions of the period, and by how much micro-batches
                          * grow; count 0: there is no period */
} DtStageActions;

/* A channel from a piece to the next or previous one, on another stage. */
typedef struct DtChannel {
    uint32_t from_piece, to_piece; /* a backward channel if from_piece > to_piece */
    uint32_t from, to;             /* their stages, which differ */
    int64_t slots;                 /* slots for messages in transit */
    DT_VEC(DtStore *) stores;      /* CHANNEL stores of stage `to`; not empty */
} DtChannel;

/* The entries of a piece: numbers in DtModule.entries, -1 where there is none. twins, by
 * DtActionKind: the other twins of each entry, from number 1 on (DtEntryPoint.twin). Twins compute
 * the same results and differ in what they prefetch. */
typedef struct DtPieceEntries {
    int32_t f, b, w;
    DT_VEC(int32_t) twins[3];
} DtPieceEntries;

typedef struct DtPipelineRun {
    DtEntryKind kind;        /* kind of the program's entry: GRAD, EVAL, PREDICT */
    DtPieceEntries *pieces;  /* n_pieces of them */
    DT_VEC(DtChannel) channels;
    DtStageActions *stages;  /* n_stages of them */
    bool direct;             /* messages need no slots in transit */
} DtPipelineRun;

struct DtPipelineSchedule {
    const char *schedule;    /* "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v",
                              * "dualpipe_v" */
    uint8_t mesh;            /* number of the mesh axis */
    uint32_t n_stages, n_pieces;
    uint32_t *stage_of;      /* by piece: its stage */
    int64_t n_micro;         /* 1 without `micro` */
    DT_VEC(DtPipelineRun) runs;
};

/* The piece of an action (for a SEND: the sending piece, for a RECV: the receiving one). */
uint32_t dt_pipeline_piece(const DtPipelineRun *run, const DtAction *action);

/* Whether the action is at the sending end of a channel. */
static inline bool dt_pipeline_is_send(uint32_t kind)
{
    return kind == DT_ACTION_SEND || kind == DT_ACTION_START_SEND || kind == DT_ACTION_DONE_SEND;
}

/* Whether a rank that has no asynchronous messages sends (receives) in this action. */
static inline bool dt_pipeline_gives(uint32_t kind)
{
    return kind == DT_ACTION_SEND || kind == DT_ACTION_START_SEND;
}
static inline bool dt_pipeline_takes(uint32_t kind)
{
    return kind == DT_ACTION_RECV || kind == DT_ACTION_DONE_RECV;
}

/* The entry that an action of this kind calls, -1: the piece has none. */
int32_t dt_pipeline_entry(const DtPieceEntries *entries, uint32_t kind);

/* The same, for the twin that the action names. */
int32_t dt_pipeline_called(const DtPipelineRun *run, const DtAction *action);

/* Whether two actions are equal, micro-batches aside. */
static inline bool dt_pipeline_same(const DtAction *a, const DtAction *b)
{
    return a->kind == b->kind && a->unit == b->unit && a->twin == b->twin;
}

/* Whether a store or entry of stages stage .. stage + more belongs to stage s. */
static inline bool dt_pipeline_on(int32_t stage, uint32_t more, int64_t s)
{
    return stage < 0 || (s >= stage && s <= (int64_t)stage + more);
}

/* The piece of `stage` at the position that `piece` has among the pieces of its own stage. */
uint32_t dt_pipeline_like(const DtPipelineSchedule *pipeline, uint32_t piece, uint32_t stage);

/* The path of a class's slot on one of its stages: it ends in the number of its piece. */
const char *dt_pipeline_slot_path(const DtPipelineSchedule *pipeline, const char *path,
                                  uint32_t stage);

/* The store of the sending stage that a channel copies to this store. */
DtStore *dt_pipeline_source(const DtChannel *channel, const DtStore *store);

static inline int64_t dt_pipeline_depth(const DtStore *store, int64_t stage)
{
    return store->depths ? store->depths[stage - store->stage] : store->depth;
}

/* Makes one store and one entry per stage out of every class (pipeline_unfold.c). Afterwards
 * `more` is 0 everywhere. */
void dt_pipeline_unfold(DtModule *module);

/* Prints an action as schedules are written in the literature: 0F3, 0SEND_F3 (piece 0 sends the
 * result of its F of micro-batch 3), 1RECV_F3, 1B3, 1SEND_B3, 0RECV_B3, 1W3, 0START_RECV_B4,
 * 0DONE_RECV_B4. */
void dt_pipeline_print_action(const DtPipelineRun *run, const DtAction *action, DtText *ret_text);

/* A repetition: the first n actions occur `count` times in a row, `step` micro-batches later
 * each time. */
typedef struct DtActionTurns {
    uint32_t n, count;
    int64_t step;
} DtActionTurns;

/* The longest such repetition at the beginning of n > 0 actions; count 1: there is none. */
DtActionTurns dt_pipeline_turns(const DtAction *actions, uint32_t n);

/* All actions of a stage: `[0F0 0SEND_F0]*3+1 (0F3 0SEND_F3 0RECV_B0 0B0)*6+1 [0RECV_B6
 * 0B6]*3+1`: the period in parentheses, repetitions in brackets. Reads back: false, with the
 * reason, if text is not of that kind or names a channel that the run lacks. */
void dt_pipeline_print_actions(const DtPipelineRun *run, const DtStageActions *actions,
                               DtText *ret_text);
bool dt_pipeline_read_actions(DtArena *arena, const DtPipelineRun *run, const char *text,
                              DtStageActions *ret_actions, const char **ret_problem);

/* Action number i (from 0) of a stage, with its micro-batch. */
int64_t dt_pipeline_count(const DtStageActions *actions);
DtAction dt_pipeline_at(const DtStageActions *actions, int64_t i);

#endif
