/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas of a program: an axis DT_REPLICA_AXIS on all that differs between them (replicate.c),
 * and the entries in which they exchange parameters (mix.c). */
#ifndef DT_PASSES_REPLICAS_REPLICAS_H
#define DT_PASSES_REPLICAS_REPLICAS_H

#include "passes/passes.h"

/* The replicas of the program; NULL: its layout makes none. */
const DtReplicas *dt_replicas_of(const DtPassContext *context);
/* How many replicas the module has: 1 before pass `replicate`, or without such a line. */
int64_t dt_replicas_in(const DtModule *module);
/* Whether the type has the axis of replicas. */
bool dt_replicas_has(const DtType *type);
/* The extent of that axis. */
int64_t dt_replicas_count(const DtType *type);
/* The type with an axis of n replicas in front of axis number `at`; the type itself if it has
 * one. */
const DtType *dt_replicas_type(const DtType *type, uint32_t at, int64_t n);
/* The type of a store for each replica: loop axes, the replicas' axis, the other axes. */
const DtType *dt_replicas_stored(const DtStore *store, const DtType *type, int64_t n);
/* Copies an op with operands of which some have the axis of replicas, which the op's own operands
 * need not have. Its results have the axis, too; an op of no such operand is copied as it is. */
DtOp *dt_replicas_copy(DtBuilder *b, const DtOp *op, DtValue *const *in);
/* The mean of x over replicas; x itself if it has no such axis. */
DtValue *dt_replicas_mean(DtBuilder *b, DtValue *x);

#endif
