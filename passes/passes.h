/* SPDX-License-Identifier: Apache-2.0 */
/* The passes: functions from a module to the same module, one per row of passes.def, run in that
 * order. Each opens with its purpose, an example, and what it requires, establishes and breaks; the
 * verifier runs after every one. */
#ifndef DT_PASSES_PASSES_H
#define DT_PASSES_PASSES_H

#include "ir/config.h"
#include "ir/target.h"

/* Input of a pass besides the module. */
typedef struct DtPassContext {
    const DtTrainConfig *train;       /* the train block; NULL: the program has none */
    const DtParallelConfig *parallel; /* the layout; NULL: one rank */
    const DtClusterConfig *cluster;   /* the cluster; NULL: this machine */
    DtTargetKind target; /* the target for which the program is lowered */
    /* bit set of DtEpilogue: epilogues that the library computes with a product (dt_target_limits
     * has the target's) */
    uint32_t epilogues;
    bool inline_streams; /* calls of streaming functions are inlined too: for tests */
    bool unfused;    /* every op is a kernel of its own: slow, the reference for tests */
    /* pipeline stages are cut one by one instead of by class (stage_class.c): for tests */
    bool each_stage;
} DtPassContext;

/* Whether the library adds biases to products in the same call; a product's bias must be in memory
 * then. */
static inline bool dt_pass_joins_biases(const DtPassContext *context)
{
    return context && context->epilogues >> DT_EPILOGUE_BIAS & 1;
}

/* The input of entries "grad" and "update" that holds the loss scale of the step, if it is
 * dynamic. */
#define DT_LOSS_SCALE_INPUT "@loss_scale"

/* False: the pass left the module as it was. */
typedef bool DtPassRun(DtModule *module, const DtPassContext *context);

/* How the certificate treats a pass; passes of one kind are adjacent, in this order. See
 * passes.def. */
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

/* Called after each pass, for printing, timing and verification. May be NULL. */
typedef void DtPassObserver(void *data, const DtPass *pass, const DtModule *module, bool changed);

/* Runs all passes in order. */
void dt_passes_run(DtModule *module, const DtPassContext *context, DtPassObserver *observer,
                   void *data);

/* The pass of that name, or NULL. */
const DtPass *dt_passes_find(const char *name);

/* Whether pass is the last one of its kind, so that the program after it is the one that the
 * certificate reads. */
bool dt_pass_is_last(const DtPass *pass);

#define DT_PASS(NAME, FUNCTION, PROOF, PURPOSE) DtPassRun FUNCTION;
#include "passes/passes.def"
#undef DT_PASS

/* ---- parts of passes that others use ---- */

/* Makes func->fwd and func->bwd, its forward and backward functions, for all float arguments and
 * parameters of func and all float results that depend on them. Returns func->bwd; NULL if no
 * result depends on a float input. */
DtFunc *dt_differentiate_func(DtFunc *func);

/* Splits a backward function in two, bwd->primal->bwd_x and ->bwd_w, so that gradients of weights
 * can be computed later (see wgrad.c). is_weight[i]: the cotangent of input i of the primal belongs
 * to bwd_w. */
void dt_wgrad_func(DtFunc *bwd, const bool *is_weight);

/* Adds a store of this kind and dtype to the module that belongs to `of`. Everything else is copied
 * from `of`, the initial value too. */
DtStore *dt_optimizer_beside(DtModule *module, DtStore *of, DtStoreKind kind, DtDtype dtype);
/* Makes a function read averages in place of the parameters and states that have them. */
void dt_optimizer_read_averages(DtModule *module, DtFunc *func);

/* Whether library.def has a derivative of the function as a whole, so that its ops are not
 * differentiated one by one. */
bool dt_library_is_whole(const DtFunc *func);

/* Inlines all calls in one function, in functions that it calls and in bodies of its loops. */
void dt_inline_calls(DtFunc *func, const DtPassContext *context);
/* Whether calls of func stay calls, because the target has a kernel for the function. */
bool dt_inline_keeps(const DtPassContext *context, const DtFunc *func);

/* Removes functions that no entry reaches, and sorts the others so that callees come before
 * callers. */
void dt_inline_drop(DtModule *module);

/* Merges equal ops of one function and removes dead ones; returns how many were removed. */
uint32_t dt_cse_func(DtFunc *func);
/* Whether two ops, of one function or of two, compute the same from the same operands, so that one
 * can replace the other. */
bool dt_cse_same(const DtOp *a, const DtOp *b);
/* Returns, by value id, the first value that equals the value although another op makes it; NULL if
 * there is none. */
DtValue **dt_cse_equals(const DtFunc *func, DtArena *arena);

#endif
