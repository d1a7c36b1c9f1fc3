/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program that is cut into pipeline stages, all stages in turn in one interpreter, by the
 * actions of its schedule: values wait in the slots of their stores, channels hold what is in
 * transit. For comparison it also runs the same program in one piece, micro-batch by
 * micro-batch. */
#ifndef DT_TESTS_STAGE_DRIVER_H
#define DT_TESTS_STAGE_DRIVER_H

#include "frontend/lower.h"
#include "ir/interp.h"
#include "passes/passes.h"
#include "passes/pipeline/schedule.h"

typedef struct Layout {
    const char *path, *dims; /* "batch=2 seq=4" */
    int integers;            /* values of integer inputs are in [0, integers) */
    const char *loops;       /* "e d" */
    const char *schedule;
    uint32_t stages, chunks;
    int64_t micro;
    int64_t cuts[4]; /* -1: before the first iteration */
    const char *named[4];
    bool kernels; /* calls of attend are not inlined */
} Layout;

typedef struct Staged {
    const Layout *layout;
    DtArena *arena;
    DtDiags *diags;
    DtModule *whole, *cut; /* the reference, and the pass's result; cut NULL: the pass refused it */
    DtParallelConfig parallel;
} Staged;

/* Makes both modules. context and diags must live as long as the result. */
Staged *stage_program(const Layout *layout);
/* Cuts the program twice: `whole` stage by stage, `cut` by classes of stages. */
Staged *stage_classes(const Layout *layout);
void stage_free(Staged *p);

/* Runs a step, then eval and predict, in both modules. Fails the test if results differ by more
 * than 1e-10 of the norm. */
void stage_compare(Staged *p);

#endif
