/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's own kernels on a GPU: which code suits this GPU, and how its kernels are started. */
#ifndef DT_RUNTIME_CUDA_KERNELS_H
#define DT_RUNTIME_CUDA_KERNELS_H

#include "base/status.h"
#include "plan/plan.h"
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

/* The GPU for which kernels are loaded: the driver's number of it, and its capability (9.0). */
typedef struct DtCudaTarget {
    int device, major, minor;
} DtCudaTarget;

typedef struct DtCudaKernels DtCudaKernels;
/* Loads all kernels of the rank's plan, from the code that runs best on this GPU or, with
 * --rebuild, from their text, which NVRTC compiles. Their work goes to the stream. Errors: the plan
 * has no code for this GPU, the driver does not load it, or a kernel needs more than this GPU has.
 * The caller must close *ret_kernels even after a failure. */
DtStatus dt_cuda_kernels_open(const DtRank *rank, const DtCudaDriver *driver, DtCudaStream *stream,
                              DtCudaTarget target, DtCudaKernels **ret_kernels);
void dt_cuda_kernels_close(DtCudaKernels *kernels);

/* Bytes of the memory that holds values between the two launches of a kernel. All kernels share it,
 * since they run one after the other. The other function sets its address. */
uint64_t dt_cuda_kernels_bytes(const DtPlan *plan);
void dt_cuda_kernels_place(DtCudaKernels *kernels, uint64_t workspace);

/* Starts a kernel with its arguments' values; returns the driver's error, 0: none. */
int dt_cuda_kernels_start(const DtCudaKernels *kernels, uint32_t kernel, uint32_t n_pointers,
                          const DtDeviceAt *pointers, const int64_t *integers);
/* Looks up a function that stands beside a kernel in its code: its symbol is that of the kernel
 * with this suffix. */
DtStatus dt_cuda_kernels_beside(const DtCudaKernels *kernels, uint32_t kernel, const char *suffix,
                                DtCudaFunction **ret_function);

#endif
