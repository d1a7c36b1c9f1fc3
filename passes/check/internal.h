/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the judge share. */
#ifndef DT_JUDGE_INTERNAL_H
#define DT_JUDGE_INTERNAL_H

#include "passes/check/judge.h"

/* A result of an entry of the placed module, with the sums completed that its store or metric
 * requires. */
typedef struct DtSettled {
    const char *name; /* the name of the result, or NULL; then it has a store */
    DtStore *store;
    const DtType *type;
    DtTensor **at; /* by rank; NULL on ranks of other pipeline stages */
} DtSettled;

/* The content of one slot of a SAVED or CHANNEL store (which keep values between actions of a
 * pipeline) while the ranks are simulated. */
typedef struct DtSlot {
    int64_t micro; /* the micro-batch whose values are in the slot; -1: none */
    DtTensor **at;
    bool sending;  /* a message that has started, and not ended, reads the slot */
} DtSlot;

/* An all_reduce over pipeline stages: the operands that ranks gave when they last reached it. */
typedef struct DtAcross {
    const char *stages;
    uint32_t ordinal; /* its number among the sums over the same stages, in each of their entries */
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
    DtTensor **serial; /* by number of the serial store; NULL: not written yet */
    DtTensor **before; /* their contents before the current entry */
    const DtEntryPoint *entry; /* the current entry of the serial program */
    /* not 0: parameters are perturbed in their last digits, differently for each number */
    uint32_t shakes;
    /* results of the current entry by number of shakes - 1; NULL: not computed yet */
    DtTensor ***reruns;
    DtTensor ***parts; /* by number of the placed store: parts by rank; NULL: not written yet */
    DtSlot **slots;    /* by number of the placed store: its `depth` slots, or NULL */
    /* by number of the placed store: contents of a ring buffer, by rank of the first micro-batch */
    DtTensor ***rings;
    /* by row of an entry that generates: where its new positions begin, and how many are meant;
     * NULL: none runs */
    int64_t *start, *count;
    int64_t micro;     /* the micro-batch of the action that is evaluated; -1: all at once */
    /* results of prologues, by name of the input that they become */
    DT_VEC(DtSettled) early;
    DT_VEC(DtSettled) named, stored; /* results of the current run */
    DT_VEC(DtAcross) across;
    DT_VEC(const DtOp *) met; /* all_reduce ops over stages met in the current entry */
    DtJudgement *out;
} DtJudge;

/* ---- life.c ---- */

/* A run up to the present event. is_life: each loss is taken in its own steps; else every step
 * takes all losses. */
typedef struct DtJudgeLife {
    const DtTrainConfig *train;
    bool is_life, began;
    int64_t number; /* the number of the current step, or the last one */
    double loss_scale;
    int64_t good;                       /* updates with finite gradients since the loss scale last
                                         * changed */
    int64_t updates[DT_MAX_OBJECTIVES]; /* updates made so far, by number of the objective */
    uint32_t taken;                     /* the losses that the event trains: bits by number of the
                                         * objective */
} DtJudgeLife;

/* Writes the sequence of events (steps, evaluations, a save and a resume) that a run goes through,
 * and returns their number, DT_JUDGE_EVENTS at most. saves: there is a folder for checkpoints, so
 * the run may save and resume. */
uint32_t dt_judge_life_script(const DtTrainConfig *train, bool saves, DtJudgeEvent *ret_script);
/* dt_judge_life_next is called before an event. dt_judge_life_went is called after it with what the
 * ranks reported; it returns NULL, or what is wrong. */
void dt_judge_life_next(DtJudgeLife *life, const DtJudgeEvent *event);
const char *dt_judge_life_went(DtJudgeLife *life, DtArena *arena, const DtJudgeEvent *event);

/* ---- held_out.c ---- */

/* Writes files for the held-out data of `train`, which are random numbers otherwise. Each has at
 * least so many samples. 0: the program has none, or this test does not cover them; ret_not: then
 * what the program writes for a reader that it does not cover, else NULL. longer: the stream ends
 * one number before a further window would be complete. */
uint32_t dt_judge_files(DtArena *arena, const DtTrainConfig *synthetic, const DtTrainConfig *train,
                        int64_t samples, bool longer, DtJudgeFile **ret_files,
                        const char **ret_not);
/* Fills a batch of an input that is read from one of the files; false: it is read from none. */
bool dt_judge_file_input(const DtJudgeFile *files, uint32_t n, const char *name, int64_t batch,
                         DtTensor *ret_tensor);

/* ---- memory.c ---- */

/* Gives all stores of both sides their initial values. */
void dt_judge_begin(DtJudge *j);
/* The ranks' parts of a serial value in that placed store. */
DtTensor **dt_judge_parts(DtJudge *j, const DtTensor *serial, const DtStore *placed);

/* The contents of a serial store as one tensor of its type: from all placed stores of its kind
 * and path, taken out of buckets, with the iterations of each pipeline stage; gradients on
 * several stages are added. NULL after a problem. ret_placed: one of those stores. */
DtTensor *dt_judge_whole(DtJudge *j, const DtStore *serial, const DtStore **ret_placed);

/* ---- codes.c ---- */

/* Checks codes and scales of the serial program, and that `results`, those of entry "predict", are
 * what "predict" as it was lowered computes for these samples, from weights that the codes stand
 * for. */
bool dt_judge_predicted(DtJudge *j, DtTensor *const *results);

/* ---- compare.c ---- */

/* Fills an input of the serial program; NULL: the program has no such input. */
DtTensor *dt_judge_given(DtJudge *j, const DtOp *op);

/* Rounds the tensor like a buffer of its dtype, if the judge rounds. */
void dt_judge_round(const DtJudge *j, DtTensor *tensor);
/* The largest difference of equal values, relative to their norm. */
double dt_judge_tolerance(const DtJudge *j);
/* Runs an entry on both sides and compares the results; both go on with those of the ranks. */
bool dt_judge_entry(DtJudge *j, DtEntryKind kind, const char *objective);

/* ---- generation.c ---- */

/* The contents of an input of an entry that generates with a cache; NULL: it is none. */
DtTensor *dt_judge_fed(DtJudge *j, const DtOp *input);
/* Compares what such entries compute, position by position, with the results of the serial entry
 * "predict". */
bool dt_judge_generation(DtJudge *j, DtTensor *const *predicted);

/* ---- derivative.c ---- */

/* Compare the results of the serial entry "grad" with the derivative of the loss, and those of
 * "update" with the optimizer's formulas. They report a problem of the serial program and return
 * false if the two differ. */
bool dt_judge_gradients(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results);
bool dt_judge_update(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results);

/* ---- derivative_func.c ---- */

/* The innermost function whose own backward function is wrong; NULL: none. */
const DtFunc *dt_judge_wrong_function(DtJudge *j);

/* ---- ranked.c ---- */

/* Runs an entry of the program with its prologue: named results are in j->named afterwards, the
 * others in stores. False after a problem. */
bool dt_judge_run(DtJudge *j, DtEntryKind kind, const char *objective);

/* dt_judge_evaluate evaluates an entry on the ranks with coordinates at[] on the mesh axes of
 * `fixed`, and writes result i on a rank to raw[i * n + rank]. dt_judge_settle stores the results
 * once all ranks are evaluated. */
void dt_judge_evaluate(DtJudge *j, const DtEntryPoint *entry, uint16_t fixed, const int64_t *at,
                       DtTensor **raw);
bool dt_judge_settle(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw);
/* Keeps the contents that the entry left in ring buffers (raw, as from dt_judge_evaluate), so that
 * the next run of the entry begins with them. */
void dt_judge_keep_rings(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw);
/* Moves the named results of a prologue to j->early, from which its entry reads them as inputs. */
void dt_judge_keep_early(DtJudge *j);

/* Records the text in j->out->problem unless an earlier problem is there; always returns false. */
bool dt_judge_problem(DtJudge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Formats the place in the program as "\n --> file:line:column", or "" if nothing is known. */
const char *dt_judge_line(const DtJudge *j, DtSpan span);
/* Names the rank by its coordinates on the mesh, as "data=1 tensor=0". */
const char *dt_judge_rank(const DtJudge *j, uint32_t rank);

/* ---- staged.c ---- */

/* Like dt_judge_run, for an entry that a pipeline has cut into parts for its stages. */
bool dt_judge_run_staged(DtJudge *j, DtEntryKind kind);
/* The value of a SAVED or CHANNEL store for the current micro-batch. */
DtTensor *dt_judge_slot(DtJudge *j, const DtStore *store, uint32_t rank);
/* Returns the sum of an all_reduce over pipeline stages, of the terms that stages have computed so
 * far, and records `in` as the term of this rank. */
DtTensor *dt_judge_across(void *judge, const DtOp *op, const DtTensor *in, uint32_t rank);

/* ---- program.c ---- */

/* Lowers the program, runs all passes and writes out each pipeline stage by itself. NULL if there
 * are errors in diags. */
DtProgram *dt_judge_place(DtArena *arena, DtDiags *diags, const DtLowerOptions *options);
/* The same program with gradients and update, but without any further pass. */
DtModule *dt_judge_serial(DtArena *arena, const DtLowerOptions *options);
DtProgram *dt_judge_serial_program(DtArena *arena, const DtLowerOptions *options,
                                   uint32_t epilogues);

/* ---- shrink.c ---- */

/* Options for a smaller program; dims keep at least `least` elements if they had more. */
DtLowerOptions dt_judge_shrink(DtArena *arena, const DtJudgeProgram *task, const DtProgram *program,
                               int64_t least, DtText *ret_shrunk);

#endif
