/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the target "cpu" share. */
#ifndef DT_CODEGEN_CPU_H
#define DT_CODEGEN_CPU_H

#include "codegen/target.h"

/* build.c: texts of kernels, in units, through the host compiler. */
DtStatus dt_cpu_build(struct DtEmit *e);

#endif
