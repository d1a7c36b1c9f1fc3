/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cudalib.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Returns DT_CUDA_LIBRARIES: folders, separated by colons, outside of which no library of CUDA is
 * opened; NULL: any folder is allowed. */
static const char *only_folders(void) { return getenv("DT_CUDA_LIBRARIES"); }

/* Opens the library from folders, a pattern that may match several versions of them. NULL: none has
 * it. */
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

static void *open_in_each(DtArena *arena, const DtCudaLib *library, const char *folders)
{
    void *handle = NULL;
    for (const char *at = folders; !handle && *at; at += strspn(at, ":")) {
        const size_t len = strcspn(at, ":");
        if (len)
            handle = open_in(arena, library, dt_arena_strndup(arena, at, len));
        at += len;
    }
    return handle;
}

static void *open_any(DtArena *arena, const DtCudaLib *library)
{
    if (only_folders())
        return open_in_each(arena, library, only_folders());
    static const struct {
        const char *variable, *folders;
    } places[] = {
        {"CUDA_HOME", "lib64"},
        {NULL, "/usr/local/cuda/lib64"},
        {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/*/lib"},
        {"CONDA_PREFIX", "lib"},
        {"CONDA_PREFIX", "lib/python3*/site-packages/nvidia/*/lib"},
        {"HOME", ".local/lib/python3*/site-packages/nvidia/*/lib"},
        {NULL, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib"},
        {NULL, "/usr/local/lib/python3*/site-packages/nvidia/*/lib"},
        {NULL, "/usr/lib/python3*/dist-packages/nvidia/*/lib"},
        {NULL, "/usr/lib/python3*/site-packages/nvidia/*/lib"},
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
    return handle;
}

/* Returns the library's versions as text, "13 or 12". */
static const char *versions_of(DtArena *arena, const DtCudaLib *library)
{
    const char *list = library->versions[0];
    for (uint32_t v = 1; library->versions[v]; v++)
        list = dt_arena_printf(arena, "%s or %s", list, library->versions[v]);
    return list;
}

static DtStatus open_or_say(DtArena *arena, const DtCudaLib *library, void **ret_handle)
{
    *ret_handle = open_any(arena, library);
    if (*ret_handle)
        return DT_OK;
    if (only_folders())
        return dt_status_fail(
            DT_EXIT_FAILED,
            "there is no lib%s.so.%s in the folders of DT_CUDA_LIBRARIES, `%s`, and nothing else "
            "is searched while it is set; it is in %s",
            library->name, versions_of(arena, library), only_folders(), library->packages);
    return dt_status_fail(
        DT_EXIT_FAILED,
        "there is no lib%s.so.%s: looked where the loader looks, in $CUDA_HOME/lib64, "
        "/usr/local/cuda/lib64, $CONDA_PREFIX/lib, and the Python packages of $VIRTUAL_ENV, "
        "$CONDA_PREFIX, ~/.local, /usr/local/lib and /usr/lib; it is in %s",
        library->name, versions_of(arena, library), library->packages);
}

DtStatus dt_cudalib_open(DtArena *arena, const DtCudaLib *library, uint32_t n,
                         const char *const *names, void **ret_functions)
{
    void *handle;
    DtStatus status = open_or_say(arena, library, &handle);
    if (!dt_status_ok(&status))
        return status;
    for (uint32_t i = 0; i < n; i++)
        if (!(ret_functions[i] = dlsym(handle, names[i])))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "the lib%s found here is too old: it has no function %s",
                                  library->name, names[i]);
    return DT_OK;
}

DtStatus dt_cudalib_find(DtArena *arena, const DtCudaLib *library, const char **ret_path)
{
    void *handle;
    struct link_map *map = NULL;
    DtStatus status = open_or_say(arena, library, &handle);
    if (dt_status_ok(&status))
        *ret_path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map
                        ? dt_arena_strndup(arena, map->l_name, strlen(map->l_name))
                        : "found";
    return status;
}
