/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that has stores and nothing else, and a folder of its own: what checkpoints are made
 * of. */
#ifndef DT_TESTS_CHECKPOINT_FIXTURE_H
#define DT_TESTS_CHECKPOINT_FIXTURE_H

#include "runtime/checkpoint.h"

enum { FIXTURE_ARENA_BYTES = 4096 };

typedef struct CheckpointFixture {
    char folder[64], text[4096];
    uint32_t n_text;
    DtPlanMeta meta;
    DtPlanStore stores[16];
    DtPlanAxis axes[32];
    DtPlan plan;
    DtSlot slot;
    DtShared shared;
    bool trims; /* it has saved, and removes older ones */
    DtRank rank;
    DtDeviceAt arenas[2];
    char memory[2][FIXTURE_ARENA_BYTES];
} CheckpointFixture;

extern CheckpointFixture f;

/* One parameter, two in loops, one of them of two, a state, gradients, moments. */
void fixture_open(void);
void fixture_close(void); /* removes the folder */

DtPlanStr fixture_str(const char *text);
/* extents end with 0. */
#define AXES(...) ((const int64_t[]){__VA_ARGS__, 0})
void fixture_store(const char *path, const char *pattern, uint32_t kind, uint32_t dtype,
                   uint32_t n_loops, const int64_t *extents);

/* All saved stores get bytes that depend on the mark. */
void fixture_fill(uint8_t mark);
bool fixture_holds(uint8_t mark);

/* As a run does; a failure is in f.rank.failure. */
bool fixture_save(const char *folder, int64_t steps);
bool fixture_load(const char *folder, bool weights_only, int64_t *ret_steps);

#endif
