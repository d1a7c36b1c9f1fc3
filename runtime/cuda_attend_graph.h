/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as graphs of cuDNN's backend API, without its header: its functions, the enumeration
 * values that they take, and the graphs for an SDPA record. Names and numbers are those of
 * docs.nvidia.com/deeplearning/cudnn, backend API. */
#ifndef DT_RUNTIME_CUDA_ATTEND_GRAPH_H
#define DT_RUNTIME_CUDA_ATTEND_GRAPH_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/kinds.h"
#include "plan/plan.h"
#include "runtime/cuda_driver.h"

typedef struct DtCudnnHandle DtCudnnHandle; /* cudnnHandle_t is a pointer to it, and so on */
typedef struct DtCudnnDesc DtCudnnDesc;

/* F(name in C, name in the library, result, arguments) */
#define DT_CUDNN(F)                                                                               \
    F(version, "cudnnGetVersion", size_t, (void))                                                 \
    F(last_error, "cudnnGetLastErrorString", void, (char *ret_text, size_t bytes))                \
    F(create, "cudnnCreate", int, (DtCudnnHandle * *ret_handle))                                  \
    F(destroy, "cudnnDestroy", int, (DtCudnnHandle * handle))                                     \
    F(set_stream, "cudnnSetStream", int, (DtCudnnHandle * handle, DtCudaStream * stream))         \
    F(desc_new, "cudnnBackendCreateDescriptor", int, (int type, DtCudnnDesc **ret_desc))          \
    F(desc_free, "cudnnBackendDestroyDescriptor", int, (DtCudnnDesc * desc))                      \
    F(desc_set, "cudnnBackendSetAttribute", int,                                                  \
      (DtCudnnDesc * desc, int attribute, int type, int64_t n, const void *values))               \
    F(desc_get, "cudnnBackendGetAttribute", int,                                                  \
      (DtCudnnDesc * desc, int attribute, int type, int64_t n, int64_t *ret_n, void *ret_values)) \
    F(desc_done, "cudnnBackendFinalize", int, (DtCudnnDesc * desc))                               \
    F(execute, "cudnnBackendExecute", int,                                                        \
      (DtCudnnHandle * handle, DtCudnnDesc * plan, DtCudnnDesc * operands))

typedef struct DtCudnn {
#define DT_CUDNN_MEMBER(NAME, SYMBOL, RESULT, ARGUMENTS) RESULT(*NAME) ARGUMENTS;
    DT_CUDNN(DT_CUDNN_MEMBER)
#undef DT_CUDNN_MEMBER
} DtCudnn;

/* The device for which graphs are planned: that of a handle or, without one, that of a
 * DEVICEPROP descriptor. */
typedef struct DtCudnnDevice {
    DtCudnnHandle *handle;
    DtCudnnDesc *properties;
    int capability; /* compute capability times 10: 90 means 9.0 */
} DtCudnnDevice;

/* Operands of graphs: those of the record, by DtPlanSdpaPart; then the statistic m + log l, the
 * sums of do . o and, for some engines, dq in f32, with the queries of one head adjacent, all in
 * the workspace; then numbers in host memory. */
enum {
    DT_SDPA_STATISTIC = DT_SDPA_PARTS, DT_SDPA_DOT, DT_SDPA_DQ_SUMS, DT_SDPA_SCALE, DT_SDPA_HIDDEN,
    DT_SDPA_ONE, DT_SDPA_WINDOW, DT_SDPA_OPERANDS
};

typedef struct DtSdpaGraph {
    DtCudnnDesc *plan;
    bool uses[DT_SDPA_OPERANDS];
    uint64_t workspace, sums; /* bytes of the plan's own workspace, and of the operand
                               * DT_SDPA_DQ_SUMS; sums 0: the graph has no such operand */
} DtSdpaGraph;

/* The descriptors of a graph, which are freed together. */
typedef struct DtCudnnDescs {
    const DtCudnn *cudnn;
    DtArena *arena;
    DT_VEC(DtCudnnDesc *) made;
} DtCudnnDescs;

/* Builds the graph, with the first plan that the library proposes within the record's workspace and
 * that always adds in one order or, if there is none, with an engine and knobs that are known to do
 * so on that device and version. False: there is no usable plan at all; ret_why is the library's
 * message. */
bool dt_sdpa_graph(DtCudnnDescs *descs, const DtCudnnDevice *device, const DtPlanSdpa *record,
                   DtSdpaGraph *ret_graph, const char **ret_why);
/* operands: by their numbers; addresses of device memory, but for numbers those of host memory. */
bool dt_sdpa_execute(const DtCudnn *cudnn, DtCudnnHandle *handle, const DtSdpaGraph *graph,
                     void *const operands[DT_SDPA_OPERANDS], void *workspace);
/* the library's message about the last call that failed */
const char *dt_cudnn_error(const DtCudnn *cudnn, DtArena *arena);
void dt_cudnn_descs_free(DtCudnnDescs *descs);

#endif
