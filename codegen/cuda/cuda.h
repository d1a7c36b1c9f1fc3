/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the target "cuda" share. */
#ifndef DT_CODEGEN_CUDA_H
#define DT_CODEGEN_CUDA_H

#include "codegen/target.h"

struct DtPrint;

/* print.c: appends the kernel's text; if lines are said, too, lint L0589 where few threads have much to do. */
size_t dt_cuda_print(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);

/* print.c: how it is started. */
DtPlanLaunch dt_cuda_launch(const DtKernel *kernel);

/* Texts around kernels: what a unit begins with on the device and on a processor, before the prelude (dt_prelude_c),
 * and what stands between that and the kernels. */
extern const char dt_cuda_device[], dt_cuda_host[], dt_cuda_lanes[], dt_cuda_wide[],
    dt_cuda_draws[];
extern const char dt_cuda_attend[]; /* behind it, in units with attention */

/* attend_tile.c: NULL, or why attention of this form has no kernel. */
const char *dt_cuda_attends(const DtKernel *kernel);

/* attend_library.c: what attention is to cuDNN, or NULL. attend_laid.c: where its tensors lie, as cuDNN has it. */
const DtPlanSdpa *dt_cuda_library(const DtKernel *kernel, DtArena *arena);
typedef struct DtCudaPart { /* rows of one part, or values of queries alone: depth 0 */
    DtKRows rows;
    bool is_there, of_keys, of_kv; /* a row for each key; without heads of queries that share one */
} DtCudaPart;
bool dt_cuda_lay(const DtKernel *kernel, const DtCudaPart parts[DT_SDPA_PARTS], DtPlanSdpa *ret_sdpa);
/* attend_simple.c: whether all nodes can be evaluated, and comparisons among them are few and of positions alone; and
 * what a MAP node makes of its arguments. */
bool dt_cuda_is_simple(const DtKernel *k);
double dt_cuda_map(const DtKNode *node, const double x[4]);
/* attend_statistic.c: the kernel that makes the statistic of m and l or, forward, m and l of it. */
void dt_cuda_statistic_print(struct DtPrint *c);

#endif
