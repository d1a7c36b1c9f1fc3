/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folder of std.dsl: ../share/dtc next to the installed program, else the sources that
 * it was built from. DTC_LIBRARY in the environment takes precedence. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool holds_library(DtArena *arena, const char *folder)
{
    return access(dt_arena_printf(arena, "%s/std.dsl", folder), R_OK) == 0;
}

const char *dt_cli_library(DtArena *arena)
{
    char self[4096];
    const char *chosen = getenv("DTC_LIBRARY");
    if (chosen && *chosen)
        return chosen;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    if (slash) {
        const char *folder = dt_arena_printf(arena, "%.*s/../share/dtc", (int)(slash - self), self);
        if (holds_library(arena, folder))
            return folder;
    }
    return holds_library(arena, DT_LIBRARY_FOLDER) ? DT_LIBRARY_FOLDER : NULL;
}
