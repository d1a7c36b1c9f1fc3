/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the lowering share about train blocks. Private to frontend/.
 *
 *   lower_scalars.c    numbers that are known when a step begins: schedules
 *   lower_ramp.c       steps with a part of the batch
 *   lower_shown.c      losses and metrics as expressions of sums
 *   lower_groups.c     parameters by path: which are frozen, which have what optimizer
 *   lower_adapt.c      `adapt` lines: layers that wrap instances by path
 *   lower_merge.c      adapters that can be added to weights
 *   lower_optimizer.c  what optimizers do to each parameter */
#ifndef DT_FRONTEND_LOWER_TRAIN_H
#define DT_FRONTEND_LOWER_TRAIN_H

#include "frontend/lower_internal.h"

/* ---- lower_scalars.c ---- */

/* Between begin and end, expressions give numbers that are known when a step begins (schedules),
 * for this train block. */
void dt_scalars_begin(DtLower *l, DtTrainConfig *train, DtSpan span);
void dt_scalars_end(DtLower *l);
/* Evaluates a learning rate: a number that is known when a step begins. A run may set its constants
 * as "KEY.name". An error value after a report. */
DtVal dt_scalars_rate(DtLower *l, const char *key, const DtExpr *expr);
/* Returns the name of the scalar for the value, as "@lr", under which it is added to the train
 * block; NULL after a report. */
const char *dt_scalars_name(DtLower *l, const DtValue *value);
/* If all operands are scalars of the step or constants, makes their frame the present one, so that
 * the result is made there. Returns the frame to restore; NULL: nothing changed. */
DtFrame *dt_scalars_enter(DtLower *l, const DtVal *v, uint32_t n);
bool dt_scalars_are_computed(const DtLower *l); /* whether the present frame is that of scalars */
/* dt_scalars_fill: whether the step supplies this argument, since its name is `step` or `updates`.
 * dt_scalars_given returns its value then. */
bool dt_scalars_fill(const DtFormal *formal);
DtVal dt_scalars_given(DtLower *l, const DtFormal *formal);
/* The same for an outer optimizer of replicas, whose updates are counted. */
DtVal dt_scalars_outer(DtLower *l, const DtFormal *formal);
/* Returns the number of steps of the whole run, which is known when the run begins: `total = steps`
 * in a schedule. */
DtVal dt_scalars_steps(DtLower *l);
/* Turns the constant numbers among the arguments of a call into settings that a run may change. */
void dt_scalars_keep_settings(DtLower *l, const char *key, const DtDef *def, DtBound *bound);
/* Evaluates an `if` whose condition depends on the step. */
DtVal dt_scalars_choose(DtLower *l, const DtVal *condition, const DtExpr *expr);

/* ---- lower_ramp.c ---- */

/* For a block with a ramp: makes numbers of the losses' entries that follow the batch follow the
 * samples of the step. twice, few: the program with twice the batch, and with the samples of the
 * first step. Reports what cannot. */
void dt_ramp_make(DtLower *l, DtTrainConfig *train, const DtModule *twice, const DtModule *few);

/* ---- lower_shown.c ---- */

/* Fills train->shown. Where a loss or a metric is an expression of sums, the entries return the
 * sums in its place, and the runtime evaluates the expression once they are added up. */
void dt_shown_make(DtLower *l, DtTrainConfig *train);

/* ---- lower_copies.c ---- */

/* Freezes the parameters of copies, and shares those that no step could tell from their originals.
 * Reports a copy of an instance that nothing calls. */
void dt_copies_finish(DtLower *l);

/* ---- lower_groups.c ---- */

/* Lists the parameters that inference reads as codes in the train block's `coded`. */
void dt_groups_quantize(DtLower *l);
/* Marks the stores of the parameters that `frozen` names as frozen. */
void dt_groups_freeze(DtLower *l);
/* Whether `keep_zeros` names the parameter. */
bool dt_groups_keeps_zeros(const DtLower *l, const DtStore *store);
/* Returns, by index of its store, the group of each trained parameter; NULL after a report. */
const uint32_t *dt_groups_find(DtLower *l);

/* Whether the pattern matches the path of all iterations, h.#.up.w, or the path without numbers. */
bool dt_groups_match(const char *pattern, const char *of_all, const char *path);

/* ---- lower_adapt.c ---- */

struct DtAdapter {
    DtPatterns patterns;
    DtFunction function; /* the layer, with its label */
    const DtExpr *call;  /* right side of the line: the place of all calls of the adapter */
    DtBound *settings;   /* by number of its formal: what the line gives */
    DtSpan span;
};

/* Reads the `adapt` lines of the train block into l->adapters. */
void dt_adapt_read(DtLower *l, const DtItem *train);
/* Gives an instance that was just made its adapter, if the path of one matches. */
void dt_adapt_instance(DtLower *l, DtInstance *instance);
/* Returns the result of a call of the instance, wrapped by its adapter. bound: the arguments of the
 * call. */
DtVal dt_adapt_call(DtLower *l, DtInstance *instance, const DtBound *bound, DtVal result);
/* Whether a function may be called for an instance at `where`: the same adapters wrap its instances
 * there. */
bool dt_adapt_fits(const DtLower *l, const DtMemo *memo, const char *where);
/* Adds the memo's instances, for a call at `where`, to l->sites. */
void dt_adapt_repeat(DtLower *l, const DtMemo *memo, const char *where);
/* Returns the instances met since l->sites had `first`, with paths that begin at `where`. */
DtSites dt_adapt_sites(DtLower *l, uint32_t first, const char *where);
/* Marks the stores of adapters, and reports `adapt` lines that match no instance. */
void dt_adapt_finish(DtLower *l);

/* ---- lower_merge.c ---- */

/* What the calls of an adapter in evaluation showed: whether it can be added to a weight. Paths
 * begin at the instance, or at the adapter. */
struct DtMerge {
    bool is_met;        /* there was such a call */
    const char *weight; /* NULL: it cannot be added, or was not met */
    const char *a, *b;
    double scale;
};

/* Looks at a call of the adapter. base: the instance's result, which the adapter was called with;
 * adapted: the adapter's. */
void dt_merge_note(DtLower *l, DtMerge *merge, const DtVal *base, const DtVal *adapted);
/* Lists in the program the weights to which adapters can be added. */
void dt_merge_finish(DtLower *l);

/* ---- lower_replicas.c ---- */

/* The axis that counts samples, if the layout makes replicas; "": the block reads none; NULL: it
 * makes none. */
const char *dt_lowerreplicas_samples(const DtLower *l, const DtItem *train);
/* Gives the dim of that axis, with this extent, the one that it has in each replica. Before entries
 * are lowered. dim NULL: there is none. */
void dt_lowerreplicas_share(DtLower *l, const char *axis, DtGlobal *dim, int64_t extent);
/* Reports what replicas cannot have. */
void dt_lowerreplicas_check(DtLower *l);
/* Gives the readers the samples of all replicas again, once the program is lowered. */
void dt_lowerreplicas_read_all(DtProgram *program);
/* The call of the outer optimizer of a `local` line; NULL: there is none. */
const DtExpr *dt_lowerreplicas_outer(const DtLower *l);
/* The last line of the chosen layout that begins with the word; NULL: there is none. */
const DtEntry *dt_lowerreplicas_line(const DtLower *l, const char *verb);

/* ---- lower_optimizer.c ---- */

/* Lowers the update rules of the train block's optimizers for every trained parameter. */
void dt_optimizer_lower(DtLower *l);
/* Whether expr is a call of an optimizer; context: the DtLower. */
bool dt_optimizer_is_call(void *context, const DtExpr *expr);
/* Whether the definition can be an optimizer: an `fn` of a parameter and its gradient. */
bool dt_optimizer_may_be(const DtDef *def);
/* Whether the function is what a `compress` line can name: its first argument is `terms`. */
bool dt_optimizer_is_exchange(const DtDef *def);
/* Whether the optimizer's caller supplies this argument. */
bool dt_optimizer_is_setting(const DtFormal *formal);

#endif
