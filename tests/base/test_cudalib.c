/* SPDX-License-Identifier: Apache-2.0 */
/* Where CUDA's libraries are looked for. */
#include "base/cudalib.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const versions[] = {"7", NULL};
static const DtCudaLib library = {"dt_nowhere", versions, "no package"};
static DtArena *arena;

static void setup(void)
{
    arena = dt_arena_new();
    unsetenv("VIRTUAL_ENV");
    unsetenv("CONDA_PREFIX");
    unsetenv("DT_CUDA_LIBRARIES");
    setenv("HOME", "/nowhere", 1);
}

static void teardown(void) { dt_arena_free(arena); }

TestSuite(cudalib, .init = setup, .fini = teardown);

Test(cudalib, says_all_places)
{
    static const char *const places[] = {"where the loader looks", "$CUDA_HOME/lib64",
                                         "/usr/local/cuda/lib64", "$CONDA_PREFIX/lib",
                                         "$VIRTUAL_ENV", "~/.local", "/usr/local/lib",
                                         "/usr/lib; it is in no package"};
    const char *path;
    const DtStatus status = dt_cudalib_find(arena, &library, &path);
    cr_assert_eq(status.code, DT_EXIT_FAILED);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        cr_expect(strstr(status.message, places[i]), "%s is not in: %s", places[i], status.message);
}

/* Makes a file with the library's name in this folder; it is another library. */
static void expect_in(const char *variable, const char *below)
{
    char folder[] = "/tmp/dtcudalibXXXXXX";
    struct link_map *map;
    void *handle = dlopen("libm.so.6", RTLD_NOW);
    const char *path;
    cr_assert(handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && mkdtemp(folder));
    setenv(variable, folder, 1);
    char at[300];
    snprintf(at, sizeof at, "%s/%s/", folder, below);
    for (char *slash = at + strlen(folder); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(at, 0700);
        *slash = '/';
    }
    const char *file = dt_arena_printf(arena, "%slibdt_nowhere.so.7", at);
    cr_assert_eq(symlink(map->l_name, file), 0);
    const DtStatus status = dt_cudalib_find(arena, &library, &path);
    cr_expect(dt_status_ok(&status), "%s: %s", variable, status.message);
    unlink(file);
    for (char *slash; strlen(at) > strlen(folder) && (slash = strrchr(at, '/'));) {
        *slash = '\0';
        rmdir(at);
    }
}

Test(cudalib, is_found_in_conda) { expect_in("CONDA_PREFIX", "lib"); }
Test(cudalib, is_found_in_packages_of_conda)
{
    expect_in("CONDA_PREFIX", "lib/python3.12/site-packages/nvidia/nowhere/lib");
}
Test(cudalib, is_found_in_packages_of_an_environment)
{
    expect_in("VIRTUAL_ENV", "lib/python3.12/site-packages/nvidia/nowhere/lib");
}
Test(cudalib, is_found_in_named_folders) { expect_in("DT_CUDA_LIBRARIES", ""); }

Test(cudalib, is_found_nowhere_else_if_folders_are_named)
{
    static const char *const none[] = {"", ":", "/nowhere:/dev/null"};
    static const char *const math_versions[] = {"6", NULL};
    /* the loader can now find the library */
    static const DtCudaLib math = {"m", math_versions, "no package"};
    const char *path;
    DtStatus status = dt_cudalib_find(arena, &math, &path);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        setenv("DT_CUDA_LIBRARIES", none[i], 1);
        status = dt_cudalib_find(arena, &math, &path);
        cr_expect_eq(status.code, DT_EXIT_FAILED);
        cr_expect(strstr(status.message, "DT_CUDA_LIBRARIES"), "%s", status.message);
    }
}
