/* SPDX-License-Identifier: Apache-2.0 */
/* A libcuda.so.1 whose functions do nothing and report success. cuDNN makes plans for a device from
 * its properties alone, but it needs a driver to load the code that it has compiled. */
#include <stddef.h>
#include <string.h>

static long thing[64];
static int yes(void) { return 0; }

static int give(void **ret_thing)
{
    *ret_thing = thing;
    return 0;
}

static int version(int *ret_version)
{
    *ret_version = 13000;
    return 0;
}

static int one(int *ret_n)
{
    *ret_n = 1;
    return 0;
}

static int none(int *ret_n)
{
    *ret_n = 0;
    return 0;
}

static int table(const void **ret_table)
{
    static const long empty[8] = {16}; /* bytes */
    *ret_table = empty;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **ret_function, int wanted, unsigned long long flags,
                        int *ret_status);

#define GIVES(F)                                                                             \
    F(cuModuleLoadData)                                                                      \
    F(cuModuleLoadDataEx)                                                                    \
    F(cuModuleGetFunction)                                                                   \
    F(cuModuleGetGlobal) F(cuLibraryLoadData) F(cuLibraryLoadFromFile) F(cuLibraryGetKernel) \
        F(cuKernelGetFunction) F(cuLibraryGetModule) F(cuCtxGetCurrent)                      \
            F(cuDevicePrimaryCtxRetain) F(cuStreamGetCtx)
#define AGREES(F)                                                                             \
    F(cuGetErrorName)                                                                         \
    F(cuGetErrorString)                                                                       \
    F(cuCtxGetLimit)                                                                          \
    F(cuCtxPopCurrent) F(cuCtxPushCurrent) F(cuLinkCreate) F(cuLinkAddData) F(cuLinkComplete) \
        F(cuLinkDestroy) F(cuLaunchKernel) F(cuLaunchCooperativeKernel) F(cuLaunchKernelEx)   \
            F(cuDeviceGet) F(cuLibraryUnload) F(cuKernelSetAttribute)                         \
                F(cuOccupancyMaxPotentialClusterSize)
#define COUNTS(F)                 \
    F(cuKernelGetAttribute, none) \
    F(cuFuncGetAttribute, none) F(cuDeviceGetCount, one) F(cuDriverGetVersion, version)

#define GIVE(NAME) \
    int NAME(void **ret_thing) { return give(ret_thing); }
#define AGREE(NAME) \
    int NAME(void) { return 0; }
#define COUNT(NAME, WHAT) \
    int NAME(int *ret_n) { return WHAT(ret_n); }
GIVES(GIVE)
AGREES(AGREE)
COUNTS(COUNT)

typedef int Function(void);

int cuGetProcAddress_v2(const char *name, void **ret_function, int wanted, unsigned long long flags,
                        int *ret_status)
{
#define ROW(NAME) {#NAME, (Function *)NAME},
#define ROW_OF(NAME, WHAT) ROW(NAME)
    static const struct {
        const char *name;
        Function *function;
    } known[] = {GIVES(ROW) COUNTS(ROW_OF){"cuGetProcAddress", (Function *)cuGetProcAddress_v2},
                 {"cuGetExportTable", (Function *)table}};
    Function *found = yes;
    (void)wanted, (void)flags;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            found = known[i].function;
    memcpy(ret_function, &found, sizeof found);
    if (ret_status)
        *ret_status = 0;
    return 0;
}
