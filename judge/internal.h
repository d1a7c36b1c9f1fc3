/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the judge share. */
#ifndef DT_JUDGE_INTERNAL_H
#define DT_JUDGE_INTERNAL_H

#include "judge/judge.h"

/* The parts of one value, by rank. */
typedef struct DtParts {
    const char *name; /* of an input that an earlier entry made */
    DtTensor **at;
} DtParts;

typedef struct DtJudge {
    const DtJudgeCase *of;
    DtArena *arena;
    const DtMesh *mesh;
    uint32_t n;    /* ranks, micro-batches included */
    uint16_t time; /* bit of the time axis, or 0 */
    uint32_t step;
    uint64_t seed;
    DtTensor **serial;     /* by number of the serial store; NULL: not yet written */
    DtParts *parts;        /* by number of the placed store; at NULL: not yet written */
    DT_VEC(DtParts) early; /* results of prologues, by name of the input that they are */
    DtJudgement *out;
} DtJudge;

/* A result of an entry of the placed module, complete over what its store or its metric is complete
 * over: parts of type `type`. */
typedef struct DtSettled {
    const DtType *type;
    DtTensor **at;
} DtSettled;

/* ---- ranked.c ---- */

void dt_judge_begin(DtJudge *j);

/* Runs an entry (and its prologue before it) on all ranks; ret_settled: one per result. False after a
 * problem. */
bool dt_judge_run(DtJudge *j, const char *entry, const DtEntryPoint **ret_entry,
                  DtSettled **ret_settled);

/* What the ranks hold of a store, as one tensor of the store's extents; NULL if they hold nothing. */
DtTensor *dt_judge_whole(DtJudge *j, const DtStore *store);

const DtEntryPoint *dt_judge_entry(const DtModule *module, const char *name);
/* The store of this kind and path, or NULL. */
DtStore *dt_judge_store(const DtModule *module, DtStoreKind kind, const char *path);

/* The first problem is kept: an empty text is filled, otherwise nothing happens; always false. */
bool dt_judge_problem(DtJudge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* " --> file:line:column", or "" if nothing is known. */
const char *dt_judge_line(const DtJudge *j, DtSpan span);
/* "data=1 tensor=0" */
const char *dt_judge_rank(const DtJudge *j, uint32_t rank);

/* ---- program.c ---- */

/* Lowers and runs all passes; NULL after errors in diags. */
DtProgram *dt_judge_place(DtArena *arena, DtDiags *diags, const DtJudgeProgram *task,
                          const DtLowerOptions *options);
/* The same program with gradients and update, and nothing else done to it. */
DtModule *dt_judge_serial(DtArena *arena, const DtJudgeProgram *task,
                          const DtLowerOptions *options);
/* About how many multiplications, or moved elements, all ranks together need for one step. */
double dt_judge_work(const DtModule *module);

/* ---- shrink.c ---- */

/* Options of a smaller program whose dims have at least `least` elements where they had more. */
DtLowerOptions dt_judge_shrink(DtArena *arena, const DtJudgeProgram *task, const DtProgram *program,
                               int64_t least, DtText *ret_shrunk);

#endif
