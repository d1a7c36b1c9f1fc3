/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for the files of this process, which is removed with it. */
#ifndef DT_CLI_SCRATCH_H
#define DT_CLI_SCRATCH_H

#include "base/arena.h"

#include <sys/types.h>

typedef struct DtCliScratch {
    const char *path; /* NULL: no folder could be made */
    int lifeline;     /* the guard removes the folder once nobody has this open */
    pid_t guard;
} DtCliScratch;

/* A new folder in $TMPDIR, or in /tmp. */
DtCliScratch dt_cli_scratch_make(DtArena *arena);
/* Removes it and all that is in it. */
void dt_cli_scratch_remove(const DtCliScratch *scratch);

#endif
