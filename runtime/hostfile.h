/* SPDX-License-Identifier: Apache-2.0 */
/* Files that list hosts, one a line: `name`, `name slots=8`, or `name:8`, as Open MPI and MPICH
 * read them; # begins a comment. Slots are ranks. */
#ifndef DT_RUNTIME_HOSTFILE_H
#define DT_RUNTIME_HOSTFILE_H

#include "base/arena.h"
#include "base/status.h"

typedef struct DtHostFile {
    const char **names;
    uint32_t n;
    int64_t slots; /* on each host */
} DtHostFile;

/* Reads the file for a plan of n_ranks ranks. Hosts with equal numbers of slots, which together are
 * the ranks but for the last `spares` hosts; without slots each has an equal share. Fails with
 * DT_EXIT_USAGE otherwise. */
DtStatus dt_hostfile_read(DtArena *memory, const char *path, int64_t n_ranks, int64_t spares,
                          DtHostFile *ret_hosts);
/* The same from a text; name: of the file, for messages. */
DtStatus dt_hostfile_parse(DtArena *memory, const char *text, const char *name, int64_t n_ranks,
                           int64_t spares, DtHostFile *ret_hosts);

#endif
