/* SPDX-License-Identifier: Apache-2.0 */
/* What a save does besides copying and writing bytes: the folder, the space on the disk, the
 * manifest, the rename (save.c). save.c also has the plain way in which rank 0 gathers and writes
 * everything; saver.c the one in which ranks write shares while training goes on. */
#ifndef DT_RUNTIME_SAVE_H
#define DT_RUNTIME_SAVE_H

#include "runtime/shares.h"

/* A save on rank 0. */
typedef struct DtSave {
    DtArena *memory;
    const char *folder;
    char path[4096], temporary[4096];
    DtManifest manifest;
    bool is_best; /* its loss is the lowest */
    DtShared *shared;
} DtSave;

/* Takes what the manifest needs from the rank, whose state may change afterwards. memory: for as
 * long as the save lasts. */
void dt_save_describe(const DtRank *rank, DtArena *memory, const char *folder, int64_t steps,
                      DtSave *ret_save);
/* Makes the folder in which files are written, unless the disk has too little space. */
DtStatus dt_save_prepare(DtSave *save, const DtShares *shares);
/* Once all files are synced: writes the manifest, and puts the folder in its place. digests: of the
 * chunks of all files, one after the other. status: whether the files are written; if not, only
 * removes them. Returns the status of the save. */
DtStatus dt_save_commit(DtSave *save, const DtShares *shares,
                        const uint8_t (*digests)[DT_DIGEST_BYTES], DtStatus status);
/* The number of the first chunk of a file among those of all files. */
int64_t dt_save_first_chunk(const DtShares *shares, uint32_t file);

/* Whether n values of a tensor may be saved: a parameter, moment or state that is not finite may
 * not, unless its initial value is infinite (for example a running minimum). */
bool dt_save_is_sound(const DtPlanStore *store, const void *values, int64_t n);
/* The failure of a save with such values. */
DtStatus dt_save_unsound(const DtPlanStore *store, const char *name);
/* The failure as a run reports it, which says what became of the earlier checkpoints. */
DtStatus dt_save_failed(int64_t steps, const DtStatus *why);

#endif
