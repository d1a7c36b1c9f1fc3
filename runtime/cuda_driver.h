/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of NVIDIA GPUs without its header: the functions that the runtime calls, by the names
 * and types of the CUDA driver API (docs.nvidia.com/cuda/cuda-driver-api). All but GetErrorString
 * return 0 or an error. */
#ifndef DT_RUNTIME_CUDA_DRIVER_H
#define DT_RUNTIME_CUDA_DRIVER_H

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct DtCudaContext DtCudaContext;   /* CUcontext is a pointer to it, and so on */
typedef struct DtCudaStream DtCudaStream;
typedef struct DtCudaEvent DtCudaEvent;
typedef struct DtCudaModule DtCudaModule;
typedef struct DtCudaFunction DtCudaFunction;
typedef struct DtCudaGraph DtCudaGraph;
typedef struct DtCudaGraphRun DtCudaGraphRun; /* CUgraphExec: a graph that can be launched */

typedef struct DtCudaSide { /* describes a copy of rows */
    size_t x, y;
    int kind; /* DT_CUDA_ON_DEVICE */
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch; /* bytes from one row to the next */
} DtCudaSide;
typedef struct DtCudaRows { /* CUDA_MEMCPY2D */
    DtCudaSide from, to;
    size_t bytes, rows; /* bytes of a row; number of rows */
} DtCudaRows;

/* F(name in C, name in the library, arguments) */
#define DT_CUDA_DRIVER(F)                                                                          \
    F(init, "cuInit", (unsigned flags))                                                            \
    F(driver_version, "cuDriverGetVersion", (int *ret_version))                                    \
    F(error_string, "cuGetErrorString", (int error, const char **ret_text))                        \
    F(device_count, "cuDeviceGetCount", (int *ret_count))                                          \
    F(device, "cuDeviceGet", (int *ret_device, int ordinal))                                       \
    F(device_name, "cuDeviceGetName", (char *ret_name, int bytes, int device))                     \
    F(device_attribute, "cuDeviceGetAttribute", (int *ret_value, int attribute, int device))       \
    F(retain, "cuDevicePrimaryCtxRetain", (DtCudaContext * *ret_context, int device))              \
    F(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    F(set_current, "cuCtxSetCurrent", (DtCudaContext * context))                                   \
    F(memory_info, "cuMemGetInfo_v2", (size_t * ret_free, size_t * ret_total))                     \
    F(alloc, "cuMemAlloc_v2", (uint64_t * ret_at, size_t bytes))                                   \
    F(free, "cuMemFree_v2", (uint64_t at))                                                         \
    F(put, "cuMemcpyHtoDAsync_v2",                                                                 \
      (uint64_t to, const void *from, size_t bytes, DtCudaStream *stream))                         \
    F(get, "cuMemcpyDtoHAsync_v2", (void *to, uint64_t from, size_t bytes, DtCudaStream *stream))  \
    F(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (uint64_t to, uint64_t from, size_t bytes, DtCudaStream * stream))                           \
    F(copy_rows, "cuMemcpy2DAsync_v2", (const DtCudaRows *rows, DtCudaStream *stream))             \
    F(set_bytes, "cuMemsetD8Async",                                                                \
      (uint64_t to, unsigned char value, size_t bytes, DtCudaStream *stream))                      \
    F(host_alloc, "cuMemHostAlloc", (void **ret_at, size_t bytes, unsigned flags))                 \
    F(host_free, "cuMemFreeHost", (void *at))                                                      \
    F(host_map, "cuMemHostRegister_v2", (void *at, size_t bytes, unsigned flags))                  \
    F(host_unmap, "cuMemHostUnregister", (void *at))                                               \
    F(host_address, "cuMemHostGetDevicePointer_v2", (uint64_t * ret_at, void *at, unsigned flags)) \
    F(write_word, "cuStreamWriteValue32_v2",                                                       \
      (DtCudaStream * stream, uint64_t to, uint32_t value, unsigned flags))                        \
    F(stream_new, "cuStreamCreate", (DtCudaStream * *ret_stream, unsigned flags))                  \
    F(stream_free, "cuStreamDestroy_v2", (DtCudaStream * stream))                                  \
    F(stream_query, "cuStreamQuery", (DtCudaStream * stream))                                      \
    F(stream_wait, "cuStreamSynchronize", (DtCudaStream * stream))                                 \
    F(stream_follow, "cuStreamWaitEvent",                                                          \
      (DtCudaStream * stream, DtCudaEvent * event, unsigned flags))                                \
    F(capture_begin, "cuStreamBeginCapture_v2", (DtCudaStream * stream, int mode))                 \
    F(capture_end, "cuStreamEndCapture", (DtCudaStream * stream, DtCudaGraph * *ret_graph))        \
    F(graph_make, "cuGraphInstantiateWithFlags",                                                   \
      (DtCudaGraphRun * *ret_run, DtCudaGraph * graph, unsigned long long flags))                  \
    F(graph_run, "cuGraphLaunch", (DtCudaGraphRun * run, DtCudaStream * stream))                   \
    F(graph_free, "cuGraphDestroy", (DtCudaGraph * graph))                                         \
    F(graph_run_free, "cuGraphExecDestroy", (DtCudaGraphRun * run))                                \
    F(event_new, "cuEventCreate", (DtCudaEvent * *ret_event, unsigned flags))                      \
    F(event_free, "cuEventDestroy_v2", (DtCudaEvent * event))                                      \
    F(event_record, "cuEventRecord", (DtCudaEvent * event, DtCudaStream * stream))                 \
    F(event_query, "cuEventQuery", (DtCudaEvent * event))                                          \
    F(event_wait, "cuEventSynchronize", (DtCudaEvent * event))                                     \
    F(event_elapsed, "cuEventElapsedTime", (float *ret_ms, DtCudaEvent *from, DtCudaEvent *to))    \
    F(module_load, "cuModuleLoadData", (DtCudaModule * *ret_module, const void *image))            \
    F(module_free, "cuModuleUnload", (DtCudaModule * module))                                      \
    F(module_function, "cuModuleGetFunction",                                                      \
      (DtCudaFunction * *ret_function, DtCudaModule * module, const char *name))                   \
    F(function_set, "cuFuncSetAttribute", (DtCudaFunction * function, int attribute, int value))   \
    F(launch, "cuLaunchKernel",                                                                    \
      (DtCudaFunction * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       DtCudaStream *stream, void **parameters, void **extra))

typedef struct DtCudaDriver {
#define DT_CUDA_MEMBER(NAME, SYMBOL, ARGUMENTS) int(*NAME) ARGUMENTS;
    DT_CUDA_DRIVER(DT_CUDA_MEMBER)
#undef DT_CUDA_MEMBER
    int version; /* version times 1000: 13000 is CUDA 13.0 */
} DtCudaDriver;

enum { /* attributes of devices and functions */
    DT_CUDA_MULTIPROCESSORS = 16,
    DT_CUDA_CACHE_BYTES = 38, /* bytes of the second-level cache */
    DT_CUDA_CAPABILITY_MAJOR = 75,
    DT_CUDA_CAPABILITY_MINOR = 76,
    DT_CUDA_SHARED_BYTES = 97, /* the most shared memory that a block may request */
    DT_CUDA_HOST_SEEN = 2, /* the device can write into memory of the host */
    DT_CUDA_FUNCTION_SHARED = 8,
    DT_CUDA_STREAM_ALONE = 1, /* a stream that does not wait for the default stream */
    DT_CUDA_EVENT_NO_TIME = 2,
    DT_CUDA_CAPTURE_OWN = 1, /* while a thread captures a graph, it may not call functions that
                              * cannot be captured; other threads, such as NCCL's, may */
    DT_CUDA_ON_DEVICE = 2,
    DT_CUDA_STUB = 34,      /* an error: the library is only the toolkit's stub for linking, not the
                             * driver */
    DT_CUDA_NOT_READY = 600 /* result of a query: the work is not done yet */
};

/* Loads and initialises the driver. Errors: there is no driver, it is too old, or it cannot be
 * initialised. */
DtStatus dt_cuda_driver_open(DtArena *arena, DtCudaDriver *ret_driver);
/* The versions of CUDA's libraries that work with this driver, as numbers in their sonames, the
 * best one first. A driver of CUDA 12 cannot run libraries of CUDA 13. */
const char *const *dt_cuda_driver_libraries(const DtCudaDriver *driver);
/* Returns the driver's name of an error. */
const char *dt_cuda_driver_error(const DtCudaDriver *driver, int error);

#endif
