/* SPDX-License-Identifier: Apache-2.0 */
/* Whole programs in the interpreter: source text through the lowering, parameters with their
 * initial values plus noise, inputs by name. */
#ifndef DT_TESTS_PROGRAM_RUN_H
#define DT_TESTS_PROGRAM_RUN_H

#include "gradcheck.h"

#include "ir/config.h"

typedef struct Program {
    char path[80], dims[160]; /* "batch=2 seq=4" */
    int integers;             /* values of integer inputs are in [0, integers) */
} Program;

typedef struct Run {
    DtArena *arena, *scratch; /* scratch: tensors of one evaluation */
    DtDiags *diags;
    DtModule *module;
    DtInterp interp;
    DtTensor **stores;
    const DtProgram *program;
    int integers;
    double loss_scale; /* value of "@loss_scale" */
} Run;

/* The serial program; fails the test if it is rejected. precision: "mixed(...)" instead of the
 * program's own, NULL: its own. */
const DtProgram *lower(DtArena *arena, DtDiags *diags, const Program *p, const char *precision);

/* Makes the arenas, lowers the program, and makes an interpreter that reads run->stores.
 * init_stores fills these once all stores exist. */
void run_begin(Run *run, const Program *p);
void run_begin_in(Run *run, const Program *p, const char *precision);
void run_end(Run *run);
void init_stores(Run *run);

const DtEntryPoint *entry(const Run *run, const char *name);

/* Returns all results of the entry; tensors are allocated in the arena. */
DtTensor **evaluate(Run *run, const DtFunc *func, DtArena *arena);

#endif
