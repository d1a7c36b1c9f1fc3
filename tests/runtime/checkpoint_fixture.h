/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that only has stores, and a folder of its own, for tests of checkpoints. */
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
    bool trims; /* the rank has saved a checkpoint, and removes older ones */
    DtRank rank;
    DtDeviceAt arenas[2];
    char memory[2][FIXTURE_ARENA_BYTES];
} CheckpointFixture;

extern CheckpointFixture f;

/* The stores: one parameter, two parameters in loops (one of them in two loops), a state,
 * gradients, moments. */
void fixture_open(void);
void fixture_close(void); /* removes the folder */

DtPlanStr fixture_str(const char *text);
/* the list of extents ends with 0. */
#define AXES(...) ((const int64_t[]){__VA_ARGS__, 0})
void fixture_store(const char *path, const char *pattern, uint32_t kind, uint32_t dtype,
                   uint32_t n_loops, const int64_t *extents);

/* Fills all stores that are saved with bytes that depend on the mark. */
void fixture_fill(uint8_t mark);
bool fixture_holds(uint8_t mark);

/* From now on saves are in shares (saver.h), by a thread of the only rank. */
bool fixture_shares(void);

/* Loads as a run does; a failure is in f.rank.failure. */
bool fixture_save(const char *folder, int64_t steps);
bool fixture_load(const char *folder, bool weights_only, int64_t *ret_steps);

#endif
