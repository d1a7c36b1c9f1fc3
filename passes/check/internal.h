/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the judge share. */
#ifndef DT_JUDGE_INTERNAL_H
#define DT_JUDGE_INTERNAL_H

#include "passes/check/judge.h"

/* A result of an entry of the placed module: complete over what its store or its metric is complete over. */
typedef struct DtSettled {
    const char *name; /* or */
    DtStore *store;
    const DtType *type;
    DtTensor **at; /* by rank; NULL on ranks of other pipeline stages */
} DtSettled;

/* A place of a SAVED or CHANNEL store. */
typedef struct DtSlot {
    int64_t micro; /* whose values it holds; -1: nobody's */
    DtTensor **at;
    bool sending;  /* by a message that was started */
} DtSlot;

/* An all_reduce over pipeline stages: what each rank gave when it last got there. */
typedef struct DtAcross {
    const char *stages;
    uint32_t ordinal; /* among those over the same stages, in each of their entries */
    DtTensor **at;
} DtAcross;

typedef struct DtJudge {
    const DtJudgeCase *of;
    DtArena *arena;
    const DtMesh *mesh;
    uint32_t n;    /* ranks, micro-batches included */
    uint16_t time; /* bit of the time axis, or 0 */
    uint32_t step;
    uint64_t seed;
    DtTensor **serial; /* by number of the serial store; NULL: not yet written */
    DtTensor **before; /* the same before the entry at hand */
    const DtEntryPoint *entry; /* of the serial program, at hand */
    uint32_t shakes;   /* not 0: parameters are read a little changed, differently for each number */
    DtTensor ***again; /* results of the entry at hand by number of shakes - 1; NULL: not asked for yet */
    DtTensor ***parts; /* by number of the placed store: parts by rank; NULL: not yet written */
    DtSlot **slots;    /* by number of the placed store: its `depth` slots, or NULL */
    DtTensor ***rings; /* by number of the placed store: what a ring holds, by rank of the first micro-batch */
    int64_t micro;     /* of the action of a pipeline; -1: all at once */
    DT_VEC(DtSettled) early;         /* results of prologues, by name of the input that they are */
    DT_VEC(DtSettled) named, stored; /* results of the run at hand */
    DT_VEC(DtAcross) across;
    DT_VEC(const DtOp *) met; /* all_reduce ops over stages in the entry at hand */
    DtJudgement *out;
} DtJudge;

/* ---- memory.c ---- */

/* Gives all stores of both sides their initial values. */
void dt_judge_begin(DtJudge *j);

/* What the ranks hold of a serial store, as one tensor of its type: of all placed stores of its kind and path,
 * taken out of buckets, with the iterations of each pipeline stage; gradients on several stages add up. NULL after
 * a problem. ret_placed: one of those stores. */
DtTensor *dt_judge_whole(DtJudge *j, const DtStore *serial, const DtStore **ret_placed);

/* ---- compare.c ---- */

/* What a buffer of the tensor's dtype holds of it, if the judge rounds. */
void dt_judge_round(const DtJudge *j, DtTensor *tensor);

/* ---- derivative.c ---- */

/* Whether what the serial entries "grad" and "update" leave is what the loss and the optimizer say; false after a
 * problem, which is the serial program's. */
bool dt_judge_gradients(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results);
bool dt_judge_update(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results);

/* ---- derivative_func.c ---- */

/* The innermost function whose backward function is wrong by itself; NULL: none is. */
const DtFunc *dt_judge_wrong_function(DtJudge *j);

/* ---- ranked.c ---- */

/* Runs an entry of the program, with its prologue: its named results are in j->named afterwards, the others in the
 * stores. False after a problem. */
bool dt_judge_run(DtJudge *j, DtEntryKind kind, const char *objective);

/* Parts of an entry: evaluation on the ranks with coordinates at[] on the mesh axes of `fixed` (raw[i * n + rank] is
 * result i), then what becomes of the results when all have been evaluated. */
void dt_judge_evaluate(DtJudge *j, const DtEntryPoint *entry, uint16_t fixed, const int64_t *at,
                       DtTensor **raw);
bool dt_judge_settle(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw);
/* Rings stay where they are for the next entry. */
void dt_judge_keep_rings(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw);
/* The named results of a prologue become inputs of the entry that it belongs to. */
void dt_judge_keep_early(DtJudge *j);

/* The first problem is kept: an empty text is filled, otherwise nothing happens; always false. */
bool dt_judge_problem(DtJudge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "\n  --> file:line:column", or "" if nothing is known. */
const char *dt_judge_line(const DtJudge *j, DtSpan span);
/* "data=1 tensor=0" */
const char *dt_judge_rank(const DtJudge *j, uint32_t rank);

/* ---- staged.c ---- */

/* dt_judge_run of an entry that a pipeline has cut. */
bool dt_judge_run_staged(DtJudge *j, DtEntryKind kind);
/* The value of a SAVED or CHANNEL store for the micro-batch at hand. */
DtTensor *dt_judge_slot(DtJudge *j, const DtStore *store, uint32_t rank);
/* The sum over the stages of an all_reduce, as far as it is known. */
DtTensor *dt_judge_across(void *judge, const DtOp *op, const DtTensor *in, uint32_t rank);

/* ---- program.c ---- */

/* Lowers and runs all passes; NULL after errors in diags. */
DtProgram *dt_judge_place(DtArena *arena, DtDiags *diags, const DtLowerOptions *options);
/* The same program with gradients and update, and nothing else done to it. */
DtModule *dt_judge_serial(DtArena *arena, const DtLowerOptions *options);
DtProgram *dt_judge_serial_program(DtArena *arena, const DtLowerOptions *options, uint32_t epilogues);

/* ---- shrink.c ---- */

/* Options of a smaller program whose dims have at least `least` elements where they had more. */
DtLowerOptions dt_judge_shrink(DtArena *arena, const DtJudgeProgram *task, const DtProgram *program,
                               int64_t least, DtText *ret_shrunk);

#endif
