/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of the target "cuda" share. */
#ifndef DT_CODEGEN_CUDA_H
#define DT_CODEGEN_CUDA_H

#include "codegen/target.h"

struct DtPrint;

/* print.c: appends the kernel's text. lines: with comments of source lines, and lint L0589 if few
 * threads have much work. */
size_t dt_cuda_print(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);

/* print.c: blocks, threads and shared memory with which the kernel is launched. */
DtPlanLaunch dt_cuda_launch(const DtKernel *kernel);

/* Texts around kernels: the beginning of a unit on the device and on a processor, which precedes
 * the prelude (dt_prelude_c), and the text between the prelude and the kernels. */
extern const char dt_cuda_device[], dt_cuda_host[], dt_cuda_lanes[], dt_cuda_wide[],
    dt_cuda_draws[];
extern const char dt_cuda_attend[]; /* follows these in units with attention */

/* attend_tile.c: NULL, or why this attention has no kernel. */
const char *dt_cuda_attends(const DtKernel *kernel);

/* attend_library.c: the description of attention for cuDNN, or NULL. attend_laid.c: the strides of
 * its tensors in cuDNN's layout. */
const DtPlanSdpa *dt_cuda_library(const DtKernel *kernel, DtArena *arena);
typedef struct DtCudaPart { /* The rows of one operand or result; depth 0: one number per query. */
    DtKRows rows;
    bool is_there, of_keys, of_kv; /* of_keys: it has a row for each key; of_kv: it lacks the axis
                                    * of query heads that share a head of keys */
} DtCudaPart;
bool dt_cuda_lay(const DtKernel *kernel, const DtCudaPart parts[DT_SDPA_PARTS],
                 DtPlanSdpa *ret_sdpa);
/* attend_simple.c: whether all nodes can be evaluated over residues, with few comparisons, of
 * positions alone; and the value of a MAP node for these arguments. */
bool dt_cuda_is_simple(const DtKernel *k);
double dt_cuda_map(const DtKNode *node, const double x[4]);
/* attend_statistic.c: prints the kernel that converts between a library's statistic of rows and m
 * and l. */
void dt_cuda_statistic_print(struct DtPrint *c);

#endif
