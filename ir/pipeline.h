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
 *  - SAVED: what an entry leaves for later actions of the same stage: another entry of the
 *    micro-batch, or a send. CHANNEL: what a stage received; DtStore.of is the store of the sending
 *    stage that is copied: SAVED, or CHANNEL where a value passes through. Both kinds have `depth`
 *    slots, each of the store's type; micro-batch m uses slot m mod depth. No slot is in use by two
 *    micro-batches: depth is what the stage's order of actions needs.
 *  - GRAD and named results accumulate over micro-batches as without a pipeline. "update" becomes
 *    one entry "update.<s>" per stage. "grad.prologue" becomes "grad.prologue.<s>" on the stages
 *    that read its results.
 *  - A parameter that several stages use is a PARAM store (and gradient and moments) on each, with
 *    equal path. Their gradients are parts of one sum; update.<s> adds them with an `all_reduce`
 *    whose mesh is the pipeline's axis alone and whose DtOp.stages are the members: its operand's
 *    and result's types are equal, only the members take part, and they add in order of their
 *    stages. The sum of squares of the global norm is added in the same way over all stages; of a
 *    parameter on several stages the lowest one counts.
 *  - A state that several stages use is a STATE store on each. The piece that makes its next value
 *    leaves it in a NEXT store; update.<s> gets it from there by the same kind of sum, to which the
 *    other stages give zeros.
 *  - A *class* is consecutive stages whose pieces are equal but for numbers that grow evenly from
 *    stage to stage. Its stores and entries exist once, for `stage` .. `stage` + `more`: iterations
 *    begin first_step later (DtLoop, DtStore) on each, slots are as many as depths[] says, a
 *    CHANNEL store receives `of` where the stage before is of another class, and `within` from a
 *    stage of its own. An entry is that of the piece with the same place among the pieces of each
 *    stage. dt_pipeline_unfold makes one store and one entry per stage of them.
 *  - A loop that is cut runs iterations DtLoop.first .. first + count - 1 of its label; the stores
 *    of its parameters hold those iterations only: DtStore.first of DtStore.whole.
 *
 * A stage's actions are one total order: prologue; period, count times, each micro-batch number
 * step larger than the time before; epilogue. A channel has `slots` places in transit: SEND waits
 * for a free one and fills it from the sending stores' slots, RECV waits for the oldest full one,
 * copies it to the CHANNEL stores' slots of its micro-batch and frees it. Sends of a channel are in
 * the order of micro-batches, as are its receives.
 *
 * After pass `order` a message may be in flight during other work: START_SEND begins what
 * DONE_SEND of the same
 * micro-batch waits for, and so does START_RECV for DONE_RECV; one at a time at each end of a
 * channel. Until it is done nothing writes the slots that are read, and nothing touches those that
 * are written. Ranks that do one thing at a time send where it is started and receive where it has
 * to be done. The messages of a run that is `direct` need no places in transit: no stage waits for
 * ever if each of them goes once both of its ends have begun, which begin it where it is started
 * and do nothing else until it has gone. */
#ifndef DT_IR_PIPELINE_H
#define DT_IR_PIPELINE_H

#include "ir/ir.h"

/* at most */
enum { DT_PIPELINE_STAGES = DT_STAGES_MOST, DT_PIPELINE_CHUNKS = 64, DT_PIPELINE_MICRO = 1 << 20 };

typedef enum DtActionKind {
    DT_ACTION_F,    /* forward of piece `unit` */
    DT_ACTION_B,    /* its backward; only the cotangents if the run has W actions */
    DT_ACTION_W,    /* its gradients of parameters */
    DT_ACTION_SEND, /* channel `unit`; on the stage that it is from */
    DT_ACTION_RECV, /* channel `unit`; on the stage that it leads to */
    DT_ACTION_START_SEND,
    DT_ACTION_START_RECV,
    DT_ACTION_DONE_SEND,
    DT_ACTION_DONE_RECV,
    DT_ACTION_KINDS
} DtActionKind;

typedef struct DtAction {
    uint32_t kind;  /* DtActionKind */
    uint32_t unit;  /* a piece, or a channel of the run */
    int64_t micro;  /* in a period: of its first repetition */
    uint32_t twin;  /* F, B, W: number of the twin of the piece's entry */
} DtAction;

typedef DT_VEC(DtAction) DtActions;

/* The actions of a stage in a run. */
typedef struct DtStageActions {
    DtActions prologue, period, epilogue;
    int64_t count, step; /* count, step: of the period; count 0: there is no period */
} DtStageActions;

/* A channel from a piece to the next or previous one, on another stage. */
typedef struct DtChannel {
    uint32_t from_piece, to_piece; /* a backward channel if from_piece > to_piece */
    uint32_t from, to;             /* their stages, which differ */
    int64_t slots;                 /* slots for messages in transit */
    DT_VEC(DtStore *) stores;      /* CHANNEL stores of stage `to`; not empty */
} DtChannel;

/* The entries of a piece: numbers in DtModule.entries, -1 where there is none. twins, by
 * DtActionKind: the other twins of each entry, from number 1 on (DtEntryPoint.twin). They have
 * the same results and the same meaning, but prefetch differently. */
typedef struct DtPieceEntries {
    int32_t f, b, w;
    DT_VEC(int32_t) twins[3];
} DtPieceEntries;

typedef struct DtPipelineRun {
    DtEntryKind kind;        /* kind of the entry that was cut: GRAD, EVAL, PREDICT */
    DtPieceEntries *pieces;  /* n_pieces */
    DT_VEC(DtChannel) channels;
    DtStageActions *stages;  /* n_stages */
    bool direct;             /* messages need no slots in transit */
} DtPipelineRun;

struct DtPipelineSchedule {
    const char *schedule;    /* "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v",
                              * "dualpipe_v" */
    uint8_t mesh;            /* number of the mesh axis */
    uint32_t n_stages, n_pieces;
    uint32_t *stage_of;      /* per piece */
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

/* Whether a rank without asynchronous messages sends, or receives, in this action. */
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

/* The same for the twin of the action. */
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
