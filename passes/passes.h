/* SPDX-License-Identifier: Apache-2.0 */
/* The passes: functions from a module to the same module, one per row of passes.def, run in that
 * order. Each opens with its purpose, an example, and what it requires, establishes and breaks; the
 * verifier runs after every one. */
#ifndef DT_PASSES_PASSES_H
#define DT_PASSES_PASSES_H

#include "ir/config.h"
#include "ir/target.h"

/* What a pass may look at besides the module. */
typedef struct DtPassContext {
    const DtTrainConfig *train;       /* NULL: no train block */
    const DtParallelConfig *parallel; /* NULL: one rank */
    const DtClusterConfig *cluster;   /* NULL: this machine; its links */
    DtTargetKind target; /* what the program is lowered for */
    uint32_t epilogues;  /* what products are joined with, bits of DtEpilogue (dt_target_limits has the target's) */
    bool inline_streams; /* calls of functions that stream do not outlive inlining: for tests */
    bool unfused;    /* every op is a kernel of its own: slow, the reference that tests compare with */
    bool each_stage; /* stages of a pipeline are cut one by one, not by classes (stage_class.c): for tests */
} DtPassContext;

/* Whether products add the biases behind them, which lie in memory for that. */
static inline bool dt_pass_joins_biases(const DtPassContext *context)
{
    return context && context->epilogues >> DT_EPILOGUE_BIAS & 1;
}

/* The input of entries "grad" and "update" that holds the loss scale of the step, if it is dynamic. */
#define DT_LOSS_SCALE_INPUT "@loss_scale"

/* False: the module is as it was. */
typedef bool DtPassRun(DtModule *module, const DtPassContext *context);

/* What the certificate says of a pass; passes of one kind stand together, in this order. See passes.def. */
typedef enum DtPassProof {
    DT_PASS_MEANING, DT_PASS_PROVED, DT_PASS_BOXED, DT_PASS_LOWERED
} DtPassProof;

typedef struct DtPass {
    const char *name;
    DtPassRun *run;
    DtPassProof proof;
    const char *purpose; /* one line, for --list-passes */
} DtPass;

extern const DtPass dt_passes[];
extern const uint32_t dt_n_passes;

/* Called after each pass: printing, timing, verifying what it has changed. May be NULL. */
typedef void DtPassObserver(void *data, const DtPass *pass, const DtModule *module, bool changed);

/* Runs all passes in order. */
void dt_passes_run(DtModule *module, const DtPassContext *context, DtPassObserver *observer,
                   void *data);

/* The pass of that name, or NULL. */
const DtPass *dt_passes_find(const char *name);

/* Whether pass is the last one of its kind: then what it has made is what its column speaks of. */
bool dt_pass_is_last(const DtPass *pass);

#define DT_PASS(NAME, FUNCTION, PROOF, PURPOSE) DtPassRun FUNCTION;
#include "passes/passes.def"
#undef DT_PASS

/* ---- parts of passes that others use ---- */

/* Makes func->fwd and func->bwd with respect to all its float arguments and parameters and all its
 * float results that depend on them. Returns bwd, NULL if no result depends on a float input. */
DtFunc *dt_differentiate_func(DtFunc *func);

/* Makes bwd->primal->bwd_x and ->bwd_w from a bwd: see wgrad.c. is_weight[i]: the cotangent of
 * input i of the primal belongs to bwd_w. */
void dt_wgrad_func(DtFunc *bwd, const bool *is_weight);

/* Whether library.def has it: it is differentiated as a whole. */
bool dt_library_is_whole(const DtFunc *func);

/* Inlines all calls in one function, and in what it calls and loops over. */
void dt_inline_calls(DtFunc *func, const DtPassContext *context);
/* Whether calls of func stay: the target has a kernel for it. */
bool dt_inline_keeps(const DtPassContext *context, const DtFunc *func);

/* Keeps the functions that an entry reaches, callees before callers. */
void dt_inline_drop(DtModule *module);

/* Merges equal ops of one function and removes dead ones; returns how many went. */
uint32_t dt_cse_func(DtFunc *func);
/* Whether both ops, which stand in one function or in two, make the same of the same operands, and may be one op. */
bool dt_cse_same(const DtOp *a, const DtOp *b);
/* By value id: the first value that is equal, which another op makes; NULL: there is none. */
DtValue **dt_cse_equals(const DtFunc *func, DtArena *arena);

#endif
