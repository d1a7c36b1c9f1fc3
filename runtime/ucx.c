/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ucx.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define INSTEAD "it is in package libucx0. Without it, sockets do: --comm tcp"
#define NAME(RESULT, MEMBER, SYMBOL, ARGUMENTS) SYMBOL,

DtStatus dt_ucx_open(DtUcx *ret_ucx)
{
    static const char *const names[] = {DT_UCX(NAME)};
    const char *wanted = getenv("DT_UCX_LIBRARY");
    const char *file = wanted && wanted[0] ? wanted : "libucp.so.0";
    void **functions = (void **)ret_ucx;
    unsigned major, minor, release;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return dt_status_fail(DT_EXIT_FAILED, "cannot open UCX, %.200s (%.150s): " INSTEAD, file,
                              dlerror());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!(functions[i] = dlsym(library, names[i])))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "the UCX found here is too old, it has no function %s: a newer "
                                  "one than 1.10 will do; " INSTEAD,
                                  names[i]);
    if (access("/sys/class/net", R_OK) != 0)
        return dt_status_fail(DT_EXIT_FAILED,
                              "UCX finds the network in /sys/class/net, which is not there: mount "
                              "/sys, or use sockets: --comm tcp");
    ret_ucx->get_version(&major, &minor, &release);
    if (major != DT_UCP_API_MAJOR || minor < DT_UCP_API_MINOR)
        return dt_status_fail(DT_EXIT_FAILED,
                              "the UCX found here is version %u.%u, and this program needs %d.%d "
                              "or later; " INSTEAD,
                              major, minor, DT_UCP_API_MAJOR, DT_UCP_API_MINOR);
    return DT_OK;
}
#undef NAME
