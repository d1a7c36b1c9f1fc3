/* SPDX-License-Identifier: Apache-2.0 */
/* A plan made by hand, with kernels compiled by the host compiler: linear regression y = x w over
 * two micro-batches, plain gradient descent, and a `predict` that says "the next letter". Data and
 * checkpoints are doubles (doubles.c): rows of the reader are functions of the sample number. */
#ifndef DT_TESTS_TINY_H
#define DT_TESTS_TINY_H

#include "plan/write.h"
#include "runtime/train.h"

enum {
    TINY_BATCH = 8,
    TINY_IN = 4,
    TINY_OUT = 3,
    TINY_WINDOW = 6,
    TINY_VOCAB = 128,
    TINY_HELD_OUT = 27
};

typedef struct Tiny {
    DtArena *arena;
    DtPlan plan;
    DtRunOptions options;
    int fd; /* descriptor of the mapping */
    DtRun run;
} Tiny;

/* Compiles a C text into the bytes of a shared object. */
void tiny_compile(DtArena *arena, const char *text, uint8_t **ret_bytes, size_t *ret_len);

/* Makes the plan's bytes. target: normally "cpu-v1". lr: learning rate. */
DtPlanBuilder *tiny_build(DtArena *arena, const char *target, double lr);

/* Reads the builder's bytes into tiny->plan as a checked plan; sets options for a quiet run. */
void tiny_open(Tiny *tiny, DtPlanBuilder *builder);
DtStatus tiny_load(Tiny *tiny); /* the rank is number 0 */
void tiny_close(Tiny *tiny);

/* Data in place of a reader: element `column` of a sample's x, and the weights from which the
 * targets are computed. */
float tiny_x(int64_t sample, int64_t column);
float tiny_truth(int64_t row, int64_t column);

extern int64_t tiny_saves, tiny_saved_step; /* what the replacement of checkpoints was asked for */

#endif
