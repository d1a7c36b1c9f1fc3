/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cudalib.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>

/* Of a pattern of folders, each version of the library there. */
static void *open_in(DtArena *arena, const DtCudaLib *library, const char *folders)
{
    void *handle = NULL;
    for (uint32_t v = 0; !handle && library->versions[v]; v++) {
        glob_t found;
        const char *pattern =
            dt_arena_printf(arena, "%s/lib%s.so.%s", folders, library->name, library->versions[v]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; !handle && i < found.gl_pathc; i++)
            handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return handle;
}

DtStatus dt_cudalib_open(DtArena *arena, const DtCudaLib *library, void **ret_handle)
{
    static const struct {
        const char *variable, *folders;
    } places[] = {
        {"CUDA_HOME", "lib64"},
        {NULL, "/usr/local/cuda/lib64"},
        {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/*/lib"},
        {"HOME", ".local/lib/python3*/site-packages/nvidia/*/lib"},
    };
    void *handle = NULL;
    for (uint32_t v = 0; !handle && library->versions[v]; v++)
        handle = dlopen(dt_arena_printf(arena, "lib%s.so.%s", library->name, library->versions[v]),
                        RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !handle && i < sizeof places / sizeof places[0]; i++) {
        const char *variable = places[i].variable, *value = variable ? getenv(variable) : NULL;
        if (!variable)
            handle = open_in(arena, library, places[i].folders);
        else if (value && value[0])
            handle =
                open_in(arena, library, dt_arena_printf(arena, "%s/%s", value, places[i].folders));
    }
    *ret_handle = handle;
    return handle
               ? DT_OK
               : dt_status_fail(
                     DT_EXIT_FAILED,
                     "there is no lib%s.so.%s: looked where the loader looks, in $CUDA_HOME/lib64, "
                     "/usr/local/cuda/lib64 and the Python packages of $VIRTUAL_ENV and ~/.local; "
                     "it is in %s",
                     library->name, library->versions[0], library->packages);
}

DtStatus dt_cudalib_find(void *handle, const DtCudaLib *library, const char *name,
                         void **ret_function)
{
    *ret_function = dlsym(handle, name);
    return *ret_function ? DT_OK
                         : dt_status_fail(DT_EXIT_FAILED,
                                          "the lib%s found here is too old: it has no function %s",
                                          library->name, name);
}
