/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on a GPU by cuDNN, where a kernel of the plan is attention that it has (plan.h, SDPA). */
#ifndef DT_RUNTIME_CUDA_ATTEND_H
#define DT_RUNTIME_CUDA_ATTEND_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

typedef struct DtCudaAttends DtCudaAttends;

/* Plans for all records of a plan that the library has on a device of that generation; their work goes to the stream.
 * wish: --attention. Without one, what cannot be is left to the plan's own kernels: NULL, or a record less, and
 * ret_why says why; where cudnn is wished for, that is an error. */
DtStatus dt_cuda_attends_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver, DtCudaStream *stream,
                              int generation, DtAttention wish, DtCudaAttends **ret_attends, const char **ret_why);
uint64_t dt_cuda_attends_bytes(const DtCudaAttends *attends);   /* of its workspace */
const char *dt_cuda_attends_name(const DtCudaAttends *attends); /* "cudnn 9.19.0" */
/* Where the workspace is, and the kernel that a record's statistic needs. */
void dt_cuda_attends_place(DtCudaAttends *attends, uint64_t workspace);
void dt_cuda_attends_statistic(DtCudaAttends *attends, uint32_t record, DtCudaFunction *function);

/* Whether it runs instead of that kernel. */
bool dt_cuda_attends_has(const DtCudaAttends *attends, uint32_t kernel);
/* False: ret_why says what the library says. */
bool dt_cuda_attends_run(DtCudaAttends *attends, uint32_t kernel, const DtDeviceAt *pointers, const char **ret_why);
void dt_cuda_attends_close(DtCudaAttends *attends);

#endif
