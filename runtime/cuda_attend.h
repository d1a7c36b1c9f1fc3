/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on a GPU by cuDNN, for kernels of the plan that cuDNN can replace (plan.h, SDPA). */
#ifndef DT_RUNTIME_CUDA_ATTEND_H
#define DT_RUNTIME_CUDA_ATTEND_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

typedef struct DtCudaAttends DtCudaAttends;

/* Prepares cuDNN for the SDPA records of a plan on a device of that capability (90: 9.0); its work
 * goes to the stream. wish: --attention. By default, records that cuDNN cannot do stay with the
 * plan's own kernels (NULL: all of them), and ret_why gives the reason; with --attention cudnn that
 * is an error. */
DtStatus dt_cuda_attends_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                              DtCudaStream *stream, int capability, DtAttention wish,
                              DtCudaAttends **ret_attends, const char **ret_why);
uint64_t dt_cuda_attends_bytes(const DtCudaAttends *attends);   /* bytes of its workspace */
const char *dt_cuda_attends_name(const DtCudaAttends *attends); /* "cudnn 9.19.0" */
/* Sets the workspace, and the kernel that converts a record's statistic. */
void dt_cuda_attends_place(DtCudaAttends *attends, uint64_t workspace);
void dt_cuda_attends_statistic(DtCudaAttends *attends, uint32_t record, DtCudaFunction *function);

/* Whether cuDNN runs in place of that kernel. */
bool dt_cuda_attends_has(const DtCudaAttends *attends, uint32_t kernel);
/* False: the call failed; ret_why is the library's message. */
bool dt_cuda_attends_run(DtCudaAttends *attends, uint32_t kernel, const DtDeviceAt *pointers,
                         const char **ret_why);
/* While cuDNN is paused, the plan's own kernels run. */
void dt_cuda_attends_pause(DtCudaAttends *attends, bool pause);

/* cuda_attend_choose.c: decides for all ranks who computes attention (DtRank.attention): as
 * --attention and the checkpoint say or, if they do not, whoever takes less time on rank 0 for all
 * kernels that the library does, each once, or did in an earlier run on such a GPU (gpu: its kind).
 * attends: NULL if the library does none. ret_said: a line of the times. False: the run ends. */
bool dt_cuda_attends_agree(DtRank *rank, DtCudaAttends **attends, const DtCudaDriver *driver,
                           DtCudaStream *stream, const char *gpu, DtText *ret_said);
void dt_cuda_attends_close(DtCudaAttends *attends);

#endif
