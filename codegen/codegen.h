/* SPDX-License-Identifier: Apache-2.0 */
/* From a placed module to a plan for the CPU. */
#ifndef DT_CODEGEN_CODEGEN_H
#define DT_CODEGEN_CODEGEN_H

#include "base/hostcc.h"
#include "ir/config.h"
#include "plan/logical.h"

typedef struct DtCodegenOptions {
    const char *target;      /* "cpu" (this machine) or another name of base/hostcc.h */
    const char *source;      /* path of the .dsl file, for messages */
    const char *source_folder; /* from which relative data paths count: relative to the plan's folder, or absolute */
    const char *compiler;    /* version text of dtc */
    uint64_t source_digest;
    double model_flops;      /* of META */
    bool no_kernels;         /* plan without machine code */
    bool no_texts;           /* nor texts of kernels, each of which is one of its own: a plan to be priced */
    bool unfused;            /* one kernel per op: the slow reference */
    const char *rows;        /* NULL, or the target in whose order rows, and sums by index, are added up: its bits */
    bool loops;              /* attention in loops of products also where the target has kernels of it: to compare */
    bool anew;               /* nothing of what was emitted before is used again: slower, and the same plan */
    const DtLogicalTexts *logical; /* for the certificate */
    DtText *ret_c;           /* if not NULL: the C text of all kernels is appended */
    double *ret_host_seconds;/* if not NULL: time spent in the host compiler */
    uint32_t *ret_replayed;  /* if not NULL: stretches of instructions that were emitted again */
} DtCodegenOptions;

/* Lowers entries "grad", "update", "eval", "predict" of program->module into builder. */
DtStatus dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options, DtPlanBuilder *builder);

/* Reports what of the placed module the CPU back end cannot execute yet; false if there is such. */
bool dt_codegen_check(const DtModule *module);

#endif
