/* SPDX-License-Identifier: Apache-2.0 */
/* From a placed module to a plan: the interface of code generation. */
#ifndef DT_CODEGEN_CODEGEN_H
#define DT_CODEGEN_CODEGEN_H

#include "base/hostcc.h"
#include "ir/config.h"
#include "plan/logical.h"

typedef struct DtCodegenOptions {
    const char *target;      /* "cpu" (this machine) or another name of base/hostcc.h */
    const char *source;      /* path of the .dsl file, for messages */
    /* folder from which relative data paths count: relative to the plan's folder, or absolute */
    const char *source_folder;
    const char *compiler;    /* version text of dtc */
    uint64_t source_digest;
    double model_flops;      /* for META */
    bool no_kernels;         /* plan without machine code */
    /* without texts of kernels, which are then all different: a plan that is only priced */
    bool no_texts;
    bool unfused;            /* one kernel per op: the slow reference */
    /* NULL, or the target in whose order rows, and sums by index, are added up, so that both
     * targets give the same bits */
    const char *rows;
    /* attention as loops of products even where the target has kernels for it: for comparison */
    bool loops;
    /* emits everything anew instead of reusing earlier instructions (replay.c): slower, and the
     * same plan */
    bool anew;
    const DtLogicalTexts *logical; /* for the certificate */
    DtText *ret_c;           /* if not NULL: the C text of all kernels is appended */
    double *ret_host_seconds;/* if not NULL: time spent in the host compiler */
    uint32_t *ret_replayed;  /* if not NULL: how many stretches of instructions were reused */
} DtCodegenOptions;

/* Lowers entries "grad", "update", "eval", "predict" of program->module into builder. */
DtStatus dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options,
                         DtPlanBuilder *builder);

/* Reports ops of the placed module that the back end cannot execute; false if there are any. */
bool dt_codegen_check(const DtModule *module);

#endif
