/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of the target "cpu" share. */
#ifndef DT_CODEGEN_CPU_H
#define DT_CODEGEN_CPU_H

#include "codegen/target.h"

/* print.c: appends `void symbol(char *const *p, const int64_t *i) {...}` in canonical C
 * (docs/kernels.md), with comments that name the source lines. Returns the offset in ret_text of
 * the first character after the symbol: kernels with equal texts from there on are equal. */
size_t dt_print_c_kernel(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);

/* build.c: texts of kernels, in units, through the host compiler. */
DtStatus dt_cpu_build(struct DtEmit *e);

#endif
