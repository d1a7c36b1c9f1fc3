/* SPDX-License-Identifier: Apache-2.0 */
/* The memory through which ranks load a checkpoint together, and the connections over which hosts
 * send each other what they have read (load_ring.c). It holds two windows of chunks: while some
 * ranks of a host still take tensors from one, the others read into the other. */
#ifndef DT_RUNTIME_LOAD_RING_H
#define DT_RUNTIME_LOAD_RING_H

#include "runtime/checkpoint.h"

typedef struct DtLoadRing DtLoadRing;

/* Collective: opens it. All ranks return the same status, unless the run is being ended. */
DtStatus dt_loadring_open(DtRank *rank, DtArena *memory, DtLoadRing **ret_ring);
/* Collective, unless the run is being ended. */
void dt_loadring_close(DtLoadRing *ring);

/* The most chunks of a window. */
int64_t dt_loadring_chunks(const DtLoadRing *ring);
uint32_t dt_loadring_hosts(const DtLoadRing *ring);
/* Begins the next window, of n chunks. */
void dt_loadring_begin(DtLoadRing *ring, int64_t n);
/* The chunks that this rank reads, of a window of n of them: first .. end - 1. */
void dt_loadring_mine(const DtLoadRing *ring, int64_t n, int64_t *ret_first, int64_t *ret_end);
/* The memory of a chunk of the window. */
char *dt_loadring_at(const DtLoadRing *ring, int64_t chunk);
/* Sends a chunk that this rank has read to another host. */
void dt_loadring_send(DtLoadRing *ring, int64_t chunk, int64_t bytes, uint32_t host);
/* A chunk that this host needs: receives it, if another host reads it and this rank is the one that
 * gets it. */
void dt_loadring_expect(DtLoadRing *ring, int64_t chunk, int64_t bytes);
/* Waits for all that is on its way. False: the run is being ended. */
bool dt_loadring_finish(DtLoadRing *ring);

#endif
