/* SPDX-License-Identifier: Apache-2.0 */
/* What changed in memory that the ranks of all nodes have equal after a meeting (cluster.c): a
 * header, and a part of each rank's slot. A list of changes is a sequence of records; equal changes
 * of ranks that follow each other are one record, so what all ranks publish alike costs the same
 * for any number of ranks. */
#ifndef DT_RUNTIME_CHANGES_H
#define DT_RUNTIME_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtChanges {
    uint8_t *at; /* len bytes */
    size_t len, room;
    bool is_short; /* there was no memory for all */
} DtChanges;

/* The memory that the records are about. Sizes are multiples of 4. */
typedef struct DtChangedMemory {
    char *header;
    size_t header_bytes, slot_bytes;
    char *(*slot)(void *context, uint32_t rank); /* the part of a rank's slot */
    void *context;
    uint32_t n_ranks;
} DtChangedMemory;

void dt_changes_free(DtChanges *changes);
/* Adds where `bytes` bytes differ from what they were before, which becomes equal to them. rank: of
 * the slot; UINT32_MAX: they are the header. */
void dt_changes_find(DtChanges *changes, uint32_t rank, const char *now, char *before,
                     size_t bytes);
/* Adds a list of another node. */
void dt_changes_add(DtChanges *changes, const uint8_t *list, size_t len);
/* Makes one record of records of neighbouring ranks that are alike. */
void dt_changes_join(DtChanges *changes);
/* Writes a list to memory. False: it is no list, or is about other memory; then it is written up to
 * there. */
bool dt_changes_apply(const DtChangedMemory *memory, const uint8_t *list, size_t len);
/* The most bytes that a list of all changes can have. */
uint64_t dt_changes_most(const DtChangedMemory *memory);

#endif
