/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of a rank, for libraries that begin work on its stream (device_cuda.c). */
#ifndef DT_RUNTIME_DEVICE_CUDA_H
#define DT_RUNTIME_DEVICE_CUDA_H

#include "runtime/cuda_driver.h"
#include "runtime/nccl.h"
#include "runtime/runtime.h"

typedef struct DtCudaWork {
    const DtCudaDriver *driver;
    DtCudaStream *stream; /* stream on which all instructions run, in their order */
    int device;           /* number of the GPU in this machine */
    const DtNcclWindows *windows; /* NULL without --windows */
} DtCudaWork;

/* For a rank whose device is dt_device_cuda and has been opened. */
DtCudaWork dt_device_cuda_work(const DtRank *rank);
/* Checks the status of a driver call (what: "record an event"); on failure the rank has failed. The
 * error may be that of earlier asynchronous work; then the slot names its instruction. */
bool dt_device_cuda_good(DtRank *rank, int error, const char *what);

#endif
