/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of the devices for which cuDNN makes plans here (devices.h). */
#include "devices.h"

#include "base/cudalib.h"

#include <stdio.h>

enum { DEVICE = 38, DEVICE_JSON = 2702, IS_CHAR = 24 };

const PlannerDevice planner_devices[PLANNER_DEVICES] = {
    {"NVIDIA A100-SXM4-80GB", 80, 108, 166912, PLANNER_OLDEST, 0},
    {"NVIDIA H200", 90, 132, 232448, PLANNER_OLDEST, 92500},
    {"NVIDIA B200", 100, 148, 232448, 91801, 91801},
    {"NVIDIA RTX PRO 6000 Blackwell", 120, 188, 101376, PLANNER_OLDEST, 0},
};

bool planner_open(DtArena *arena, DtCudnn *ret_cudnn)
{
    static const char *const versions[] = {"9", NULL};
    static const DtCudaLib lib = {"cudnn", versions, ""};
#define NAME(MEMBER, SYMBOL, RESULT, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_CUDNN(NAME)};
#undef NAME
    DtStatus status =
        dt_cudalib_open(arena, &lib, sizeof names / sizeof names[0], names, (void **)ret_cudnn);
    return dt_status_ok(&status) && ret_cudnn->version() >= PLANNER_OLDEST;
}

DtCudnnDesc *planner_properties(const DtCudnn *cudnn, const PlannerDevice *device)
{
    DtCudnnDesc *desc = NULL;
    char text[1200];
    const int n = snprintf(
        text, sizeof text,
        "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
        "\"deviceVer\": %d, "
        "\"driverVer\": 13000, \"multiProcessorCount\": %d, \"regsPerBlock\": 65536, "
        "\"smClockRateKHz\": 1980000, "
        "\"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, \"warpSize\": 32, "
        "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %d, "
        "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"pciDeviceId\": 0, "
        "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "
        "\"isTccDriver\": 0, "
        "\"supportCoopLaunch\": 1, \"cudaDeviceId\": 0, \"totalGlobalMem\": 80000000000, "
        "\"deviceName\": \"%s\"}",
        10 * device->capability, device->processors, device->shared, device->name);
    const bool good = cudnn->desc_new(DEVICE, &desc) == 0 &&
                      cudnn->desc_set(desc, DEVICE_JSON, IS_CHAR, n, text) == 0 &&
                      cudnn->desc_done(desc) == 0;
    return good ? desc : NULL;
}
