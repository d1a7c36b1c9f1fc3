/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of a rank, for libraries that begin work on its stream (device_cuda.c). */
#ifndef DT_RUNTIME_DEVICE_CUDA_H
#define DT_RUNTIME_DEVICE_CUDA_H

#include "runtime/cuda_driver.h"
#include "runtime/nccl.h"
#include "runtime/runtime.h"

typedef struct DtCudaWork {
    const DtCudaDriver *driver;
    DtCudaStream *stream; /* of all instructions, in their order */
    int device;           /* number of the GPU in this machine */
    const DtNcclWindows *windows; /* NULL without --windows */
} DtCudaWork;

/* Of a rank whose device is dt_device_cuda, and is open. */
DtCudaWork dt_device_cuda_work(const DtRank *rank);
/* Whether a call of the driver has done what it was to ("record an event"); else the rank has failed. Every call may
 * say that something that was begun before has: the slot names the instruction then. */
bool dt_device_cuda_good(DtRank *rank, int error, const char *what);

#endif
