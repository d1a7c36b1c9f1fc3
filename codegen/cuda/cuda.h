/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the target "cuda" share. */
#ifndef DT_CODEGEN_CUDA_H
#define DT_CODEGEN_CUDA_H

#include "codegen/target.h"

/* print.c: appends the kernel's text; if lines are said, too, lint L0589 where few threads have much to do. */
size_t dt_cuda_print(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);

/* print.c: how it is started. */
DtPlanLaunch dt_cuda_launch(const DtKernel *kernel);

/* Texts around kernels: what a unit begins with on the device and on a processor, before the prelude (dt_prelude_c),
 * and what stands between that and the kernels. */
extern const char dt_cuda_device[], dt_cuda_host[], dt_cuda_lanes[], dt_cuda_wide[];
extern const char dt_cuda_attend[]; /* behind it, in units with attention */

/* attend_tile.c: NULL, or why attention of this form has no kernel. */
const char *dt_cuda_attends(const DtKernel *kernel);

#endif
