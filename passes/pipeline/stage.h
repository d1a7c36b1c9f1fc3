/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stage pass share. An entry of the program goes through three forms:
 *
 *   the entry                  one function; a named loop is one op
 *   expanded (stage_ranges.c)  the same, every named loop cut into one op per range of its
 *                              iterations
 *   parts (stage_build.c)      per piece one function for F and one for B, values between them in
 *                              stores
 *
 * stage_cut.c decides where the cuts are, stage_class.c which stages are equal (from then on a
 * class of them counts as one stage, with the pieces of the first), stage_assign.c which piece and
 * phase each op of the expanded function belongs to, stage_store.c keeps the copies of stores per
 * stage, stage_update.c cuts the optimizer's entry. */
#ifndef DT_PASSES_STAGE_H
#define DT_PASSES_STAGE_H

#include "passes/passes.h"
#include "passes/pipeline/schedule.h"

/* A named loop and the ranges of its iterations: piece g has lo[g] .. hi[g] - 1. */
typedef struct DtStageLoop {
    const char *label, *axis;
    int64_t count;
    int64_t *lo, *hi; /* first and end iteration of each piece */
} DtStageLoop;

/* A copy of a parameter, state, gradient or moment on a stage. */
typedef struct DtStageCopy {
    DtStore *store; /* the copy; its `of` is set at the end */
    int32_t range;  /* the piece whose iterations it holds, -1: the store is not cut */
    DtValue *read;  /* what the stage's update reads it into; NULL: it does not, or not yet */
} DtStageCopy;
typedef DT_VEC(DtStageCopy) DtStageCopies;

typedef struct DtStager {
    DtModule *module;
    DtArena *arena;
    const DtPassContext *context;
    const DtPipeline *line;
    const DtScheduleKind *kind;
    DtPipelineSchedule *pipeline; /* stages are classes from dt_stage_classes on */
    DtPipelineSchedule *whole;    /* from then on, the schedule stage by stage */
    /* by class: its first stage, and the number of its other stages */
    uint32_t *class_first, *class_more;
    uint32_t *piece_first;        /* by piece: its number on the first stage of its class */
    bool *apart;                  /* by stage: the stage must be a class of its own */
    bool *differs, unequal;       /* differs: by class, its stages turned out to differ; unequal:
                                   * some class did */
    DtDiags *diags;
    DT_VEC(DtStageLoop) loops; /* in the order of the program; without loops of named cuts */
    uint32_t *
        segment_piece; /* per segment (the part before loop i; the part after the last one): its
                        * piece */
    int32_t *loop_of;  /* by store of the module: number of the loop by whose cuts it is cut, or
                        * -1 */
    DtStageCopies *copies;        /* by store of the module: its copies on stages */
    DT_VEC(DtStore *) slots;      /* SAVED and CHANNEL stores */
    DT_VEC(DtEntryPoint) entries; /* entries made so far */
    bool failed;
} DtStager;

DtDiag *dt_stage_refuse(DtStager *s, DtDiagCode code, DtSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline uint32_t dt_stage_of(const DtStager *s, uint32_t piece)
{
    return s->pipeline->stage_of[piece];
}

/* ---- stage_cut.c ---- */

/* Returns, by op of func, whether one of the values marked in `wanted` depends on the op's
 * results. */
bool *dt_stage_ancestors(DtArena *arena, const DtFunc *func, const bool *wanted);
/* Returns, by result of the entry, true if it is no gradient, so that the forward part computes
 * it. */
bool *dt_stage_forward_results(DtArena *arena, const DtEntryPoint *entry);
/* Returns the number of the named loop of which op is a forward or backward loop; -1 if there is
 * none. */
int32_t dt_stage_loop(const DtStager *s, const DtOp *op);
/* Finds the named loops in the first entry that is cut, and distributes their iterations over
 * pieces; false after a diagnostic. */
bool dt_stage_cut(DtStager *s, const DtEntryPoint *entry);

/* ---- stage_class.c ---- */

/* Joins stages whose pieces are equally long ranges of the same loops into classes: s->pipeline
 * and the ranges of loops are by class from then on. */
void dt_stage_classes(DtStager *s);
/* Records that the stages of this class differ, if it has several; the pass then starts over with
 * other classes. */
void dt_stage_differ(DtStager *s, uint32_t class);
/* Splits classes whose stages differ: first separates the stages in which loops begin or end; if
 * they still differ, separates all. */
void dt_stage_take_apart(DtStager *s);
/* Returns by how many iterations the piece's range of a loop begins later on each next stage of its
 * class. */
int64_t dt_stage_step(const DtStager *s, const DtStageLoop *loop, uint32_t piece);
/* Makes ret_run, the run stage by stage, of the run by classes; entries remain those of the
 * classes. Finds what CHANNEL stores receive within their class. */
void dt_stage_unfold(DtStager *s, const DtPipelineRun *run, DtPipelineRun *ret_run);
/* Translates an action of a class's run to the action of the unfolded run on one of the class's
 * stages. */
DtAction dt_stage_action_on(const DtStager *s, const DtPipelineRun *run,
                            const DtPipelineRun *unfolded, DtAction action, uint32_t stage);
/* Replaces class numbers in stores, entries and sums over stages by stage numbers. */
void dt_stage_settle_classes(DtStager *s);

/* ---- stage_ranges.c ---- */

typedef struct DtExpandedResult {
    DtValue *value;
    DtEntryResult to; /* store: as in the module before the pass */
    int32_t range;    /* the piece whose iterations the result has; -1: all iterations */
    uint32_t piece;   /* the piece that computes it; set by dt_stage_assign */
} DtExpandedResult;

/* An entry with the loops of a pipeline written out as a loop per piece. place[i]: the piece that
 * op i of func belongs to by its position in the program's forward part. */
typedef struct DtExpanded {
    DtFunc *func;
    DT_VEC(uint32_t) place;
    DT_VEC(bool) fixed; /* fixed[i]: place[i] is final, since op i is part of a cut loop */
    DT_VEC(DtExpandedResult) results;
} DtExpanded;

/* dt_stage_find_stacked sets loop_of for the stores that the named loops of an entry read iteration
 * by iteration. It is called for all entries before any is cut: one entry may have a gradient for a
 * parameter that only another one reads, and all must cut it alike. */
void dt_stage_find_stacked(DtStager *s, const DtEntryPoint *entry);
bool dt_stage_ranges(DtStager *s, const DtEntryPoint *entry, DtExpanded *ret_expanded);
/* Whether the value is a constant 0 of any shape and dtype. */
bool dt_stage_is_zero(const DtValue *value);
/* Copies op; its results have `axis` with this extent instead of extent `from`. */
DtOp *dt_stage_copy_range(DtBuilder *b, const DtOp *op, DtValue *const *in, const char *axis,
                          int64_t from, int64_t extent);

/* ---- stage_assign.c ---- */

/* Where an op goes. NONE: nowhere, since it is dead. ANY: to every part that reads it, which
 * recomputes it. F, B: to the forward or backward part of a piece. */
typedef enum DtHome { DT_HOME_NONE, DT_HOME_ANY, DT_HOME_F, DT_HOME_B } DtHome;

typedef struct DtOpHome {
    DtHome home;
    uint32_t piece; /* F, B */
} DtOpHome;

/* Whether pieces that read an op's results compute them again. NO: one piece computes them. FREE:
 * they are made of constants, positions and draws. PARAM: they are views of parameters. */
typedef enum DtRecompute { DT_RECOMPUTE_NO, DT_RECOMPUTE_FREE, DT_RECOMPUTE_PARAM } DtRecompute;
/* Decides for an op whether its readers compute it again. of_value: by value id, the decisions for
 * its operands. */
DtRecompute dt_stage_recompute(const DtOp *op, const uint8_t *of_value);

/* Assignment of the ops of an expanded function to pieces. */
typedef struct DtAssigned {
    DT_VEC(DtOpHome) ops;   /* per op of the function */
    DT_VEC(uint32_t) op_of; /* by value: number of its op */
} DtAssigned;

/* Assigns each op of the expanded entry to a piece. Also splits gradients that are sums over
 * several pieces into one result per piece. False after a diagnostic. */
bool dt_stage_assign(DtStager *s, DtExpanded *e, DtAssigned *ret_assigned);

/* ---- stage_build.c ---- */

bool dt_stage_build(DtStager *s, DtEntryKind kind, const DtExpanded *e, const DtAssigned *a);

/* ---- stage_store.c ---- */

/* Returns the copy of a store on that stage, and makes it at the first call. piece: the one whose
 * iterations it holds if the store is cut. */
DtStore *dt_stage_copy(DtStager *s, const DtStore *from, uint32_t stage, uint32_t piece);
/* dt_stage_find_copy returns the store's copy on that stage with the iterations of piece `range`;
 * NULL if there is none. dt_stage_slot makes a SAVED or CHANNEL store there. */
DtStageCopy *dt_stage_find_copy(const DtStager *s, const DtStore *from, uint32_t stage,
                                int32_t range);
DtStore *dt_stage_slot(DtStager *s, DtStoreKind kind, const char *path, const DtType *type,
                       uint32_t stage, DtStore *of);
/* Puts all copies and slots into the module: by the stores that they are copies of, then by stages
 * and pieces. */
void dt_stage_settle_stores(DtStager *s);

/* ---- stage_update.c ---- */

bool dt_stage_update(DtStager *s, const DtEntryPoint *entry);

#endif
