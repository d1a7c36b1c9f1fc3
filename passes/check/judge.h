/* SPDX-License-Identifier: Apache-2.0 */
/* The judge: does a program, placed by all passes, compute what the serial program computes? Both
 * are evaluated in double precision, the serial one as differentiated and no further, the placed
 * one by all ranks in lockstep (ir/interp_ranks.h), with the same parameters, inputs and random
 * draws: loss, every gradient, states, updated parameters and moments over several steps, then
 * "eval" and "predict".
 *
 * The measure of a tensor: |difference| <= 1e-10 max(|serial|, 1e-3 |all gradients|), in Euclidean
 * norms (the second term for gradients only: some true gradients are zero). Doubles carry 53 bits,
 * so rounding gives about 1e-16 times the square root of the number of terms; a gradient counted
 * twice, a missing reduction or a wrong random draw gives 1e-3 or more. A program that magnifies
 * roundings (a deep stack of normalisations over few samples) may exceed that, on evidence: by what
 * the serial program, run again on parameters and samples changed in their last digits, misses
 * itself, up to 1e-5. A value that is zero but for rounding (the mean of what was centred) counts
 * as zero on the same evidence. Steps begin alike on both sides, so that nothing is magnified from
 * one to the next.
 *
 * The serial program's own gradients are compared with forward derivatives of the loss along a
 * random direction, its update with the formulas of the optimizer (derivative.c).
 *
 * Then machine code: what real ranks hold after each step against the interpreter (machine.c),
 * within a multiple of what random roundings do to the serial program.
 *
 * With `rounds` both sides round every result to its dtype, as generated code does or may do. A sum
 * over ranks is then rounded where the serial one is not, so values may differ by 16 units of the
 * roundoff of what the program computes in (bf16: 2^-9), gradients by as much of 1/20 of all
 * gradients. */
#ifndef DT_JUDGE_JUDGE_H
#define DT_JUDGE_JUDGE_H

#include "frontend/lower.h"
#include "ir/interp_ranks.h"

/* What the comparison of one entry found. */
typedef struct DtJudgeRow {
    const char *entry;
    uint32_t values; /* tensors that were compared */
    uint32_t zeros;  /* tensors that are zero in the serial program, apart from rounding: these
                      * prove little */
    int64_t elements;
    double worst;      /* largest relative difference */
    const char *where; /* name of the value; NULL without any difference */
    uint32_t magnified; /* tensors that differ by more than 1e-10, but less than the serial
                         * program's own result under changed parameters */
    double most;        /* the largest of these differences, relative */
} DtJudgeRow;

typedef struct DtJudgement {
    DT_VEC(DtJudgeRow) rows;
    uint32_t ranks, micro; /* that were evaluated */
    DtText problem; /* the first value that differs, with its DSL line and ranks; empty: none */
    bool not_finite; /* it is not finite in the serial program, which proves nothing */
    const DtLowerOptions *options; /* of the program that was compared, perhaps a smaller one */
    double work; /* of a step of it: multiplications and moved elements of all ranks, about */
    bool not_serial; /* it is the serial program itself that is wrong: its gradients or its
                      * update */
    bool not_stated; /* the reason: a gradient that the program states is wrong */
    uint32_t learned;  /* parameters whose gradients were compared with forward derivatives of the
                        * loss; 0: none were */
    double derivative; /* the difference of the two derivatives along a random direction, relative
                        * to the part of one parameter */
    uint32_t updated;  /* values that the update left and that were compared with the optimizer's
                        * formulas */
    uint32_t coded;    /* parameters whose codes were compared with weights, and "predict" with
                        * what it computes from the weights that they stand for */
    double update;     /* the largest difference, relative to the largest element of its tensor */
    /* logits of generated positions that were compared with those of "predict"; the largest
     * difference of a step, relative to their norm */
    uint32_t generated;
    double generation;
    /* a difference above the bound is no larger than the change of the serial result when
     * parameters are perturbed in digit 13, so it proves nothing */
    bool not_stable;
} DtJudgement;

/* Two modules of one program. train: of both; NULL if the program has none ("predict" is
 * compared). */
typedef struct DtJudgeCase {
    DtArena *arena;
    const DtModule *serial; /* differentiated, with entry "update"; nothing placed */
    const DtModule *placed;
    /* before it was differentiated, as gradients are judged by; NULL: they are not */
    const DtModule *loss;
    const DtTrainConfig *train;
    uint32_t steps;
    bool rounds;
} DtJudgeCase;

/* Whether func->bwd is refuted, on random numbers, by forward derivatives of func: along
 * directions of the inputs marked in moves. False without a test if evaluating func takes more than
 * `most` products. */
bool dt_judge_refutes(const DtFunc *func, const bool *moves, double most);

/* Whether two functions of the same inputs compute the same from random numbers, in double
 * precision. NOT_TRIED: evaluating them takes more than `most` products, or no result is finite. */
typedef enum DtJudgeAlike { DT_JUDGE_ALIKE, DT_JUDGE_UNLIKE, DT_JUDGE_NOT_TRIED } DtJudgeAlike;
DtJudgeAlike dt_judge_alike(const DtFunc *x, const DtFunc *y, double most);

/* Whether the serial and the placed module agree; ret_judgement has the details (free its
 * problem). */
bool dt_judge_compare(const DtJudgeCase *c, DtJudgement *ret_judgement);

/* ---- programs (program.c, shrink.c) ---- */

/* A program with the options with which it is compiled and compared. */
typedef struct DtJudgeProgram {
    const DtLowerOptions *options;
    uint32_t steps;
    bool as_it_is; /* never shrink */
    bool rounds;
    /* the epilogues of products in machine code (DtPassContext): with these, biases may have
     * rounded copies */
    uint32_t epilogues;
} DtJudgeProgram;

typedef enum DtJudgeVerdict {
    DT_JUDGE_EQUAL,
    DT_JUDGE_DIFFERS, /* ret_judgement->problem */
    DT_JUDGE_REJECTED /* the program has errors: in diags */
} DtJudgeVerdict;

/* Lowers the program twice, runs all passes on one copy, and compares the two. A program that takes
 * too long to interpret is made smaller first: mesh axes and micro-batches become 2, dims the
 * smallest extents with which it still compiles and splits the same axes; -D and --set overrule.
 * ret_shrunk lists the changes, and is empty without any. */
DtJudgeVerdict dt_judge_program(DtArena *arena, DtDiags *diags, const DtJudgeProgram *task,
                                DtJudgement *ret_judgement, DtText *ret_shrunk);

/* dt_judge_describe names a store as "first moment of `h.attention.wq.w`"; dt_judge_coordinates
 * names an element of it as "[batch 3, seq 0]". */
const char *dt_judge_describe(DtArena *arena, const DtStore *store);
const char *dt_judge_coordinates(DtArena *arena, const DtType *type, int64_t element);
/* The element with the largest difference between two tensors of one type; the first NaN, if there
 * is one. */
int64_t dt_judge_worst(const DtTensor *got, const DtTensor *want);

/* Writes the table of compared entries as text for people. */
void dt_judge_print(const DtJudgement *judgement, DtText *ret_text);

/* ---- machine code (machine.c) ---- */

/* The moment for which a scalar of the step (a rate, a loss scale) is evaluated. */
typedef struct DtJudgeWhen {
    double step, updates; /* from 0; the number of the update, from 1 */
    double loss_scale;
    bool own_rates; /* own_rates: the program's rates and loss scale; else a large rate and a scale
                     * that never change */
} DtJudgeWhen;

typedef enum DtJudgeEventKind {
    DT_JUDGE_TRAIN,    /* TRAIN: a step */
    DT_JUDGE_EVALUATE, /* over several batches of held-out data */
    DT_JUDGE_SAVE,
    DT_JUDGE_RESUME    /* the ranks lose all that they hold, and load the newest checkpoint */
} DtJudgeEventKind;

/* An event in the life of a run, and what the ranks report of it (the same as in plan/trial.h). */
typedef struct DtJudgeEvent {
    DtJudgeEventKind kind;
    uint32_t batches;  /* EVALUATE: number of batches; 0: all held-out data */
    int64_t number;    /* TRAIN: the number of the step, */
    double loss_scale; /* the loss scale before it (0: unchanged), */
    int64_t good;      /* and the number of good updates since the scale changed (-1: unchanged) */
    double loss_scale_after;
    int64_t good_after;
    int64_t steps_after; /* finished steps */
    int64_t updates_after[DT_MAX_OBJECTIVES];
    uint32_t taken, skipped; /* losses that the step took, and skipped: bits by number of the
                              * objective */
} DtJudgeEvent;

enum { DT_JUDGE_EVENTS = 24 };

/* Numbers of a file that held-out data are read from (held_out.c). */
typedef struct DtJudgeFile {
    const char *name; /* as the program has it */
    DtDtype dtype;    /* of the numbers in the file */
    double *numbers;
    int64_t n;
    const DtReader *reader; /* it has `samples` windows of `row` numbers, from number `first` on */
    int64_t row, first, samples;
} DtJudgeFile;

/* A trial: events that real ranks go through, beginning with given values. */
typedef struct DtJudgeTrial {
    const DtModule *serial; /* the serial program, whose stores begin with `initial` */
    DtTensor **initial;     /* by number of the store, in the store's dtype; NULL: no step reads its
                             * first value */
    double lr;              /* the rate of all steps, unless is_life is set */
    bool is_life;           /* a life: the program's own rates; each loss is taken in its own
                             * steps */
    int64_t held_out;       /* number of held-out samples */
    /* another layout resumes the previous trial's checkpoint; else the program's layout runs */
    bool is_resumed;
    /* files in place of the program's; n 0: synthetic data everywhere; else training data are
     * synthetic */
    const DtJudgeFile *files;
    uint32_t n_files;
    uint32_t events;
    DtJudgeEvent script[DT_JUDGE_EVENTS];
    /* results */
    uint32_t ranks;
    DtTensor ***after; /* [event][number of the store]; NULL: the plan has none */
    /* The value of a scalar after an event, by the plan's entry ("step", "update", "eval"); for an
     * evaluation the mean over its samples. shown: the run prints it under that name. False: there
     * is no such scalar. */
    bool (*scalar)(const struct DtJudgeTrial *trial, uint32_t event, const char *entry,
                   const char *name, bool shown, double *ret_value);
    void *data; /* first argument of `scalar` */
} DtJudgeTrial;

/* A function that compiles the program of the options to a plan and runs it, with synthetic data.
 * It returns false if the plan was not run, or failed. */
typedef struct DtJudgeRunner {
    bool (*run)(struct DtJudgeRunner *runner, DtArena *arena, const DtLowerOptions *options,
                DtJudgeTrial *trial);
    bool saves;  /* there is a folder for checkpoints */
    bool failed; /* the last run failed after it had begun */
} DtJudgeRunner;

typedef struct DtJudgeMachine {
    uint32_t ranks, steps, values; /* what was compared: each value after each step */
    uint32_t life, skipped;        /* steps of the life, and how many of them the loss scale
                                    * skipped */
    uint32_t resumed, other;       /* how often the run was resumed: in the same layout, in another
                                    * one, which has `other` ranks */
    uint32_t evaluated;            /* samples that the life evaluated */
    uint32_t windows;              /* windows of files that were evaluated */
    const char *no_files;          /* held-out data for which there were no files: "csv(..)"; NULL:
                                    * there were, or the program needs none */
    uint32_t vague;                /* values that roundings change by a tenth or more: their
                                    * comparison proves little */
    double worst;                  /* the largest difference of the other values, relative to the
                                    * value's norm */
    const char *where;             /* name of the value; NULL without any difference */
    DtText problem;                /* free it */
} DtJudgeMachine;

/* Whether the machine code of a program that dt_judge_program found equal computes the serial
 * program. REJECTED: the runner refused it. */
DtJudgeVerdict dt_judge_machine(DtArena *arena, const DtJudgeProgram *task,
                                const DtLowerOptions *options, DtJudgeRunner *runner,
                                DtJudgeMachine *ret_machine);

/* ---- values (values.c) ---- */

/* Fills the tensor with a store's initial value for trials: its own initial value plus noise, so
 * that no gain is 1 and no bias 0. The noise depends only on the kind, path and extents of the
 * store, and on draw. */
void dt_judge_initial(const DtStore *store, uint64_t seed, uint32_t draw, DtTensor *ret_tensor);

/* Fills the tensor with the whole batch of an input in a step, as the runtime draws synthetic data;
 * eval: with held-out data. False if no reader fills that input. */
bool dt_judge_input(const DtTrainConfig *train, const char *name, uint32_t step, bool eval,
                    DtTensor *ret_tensor);

/* A scalar of the step ("@lr", "@bias1" ...); NaN: there is none of that name. */
double dt_judge_scalar(const DtTrainConfig *train, const char *name, uint32_t step);
double dt_judge_scalar_when(const DtTrainConfig *train, const char *name, const DtJudgeWhen *when);

#endif
