/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as the code of kernels, for every target: the runtime interprets it on processors, a
 * stand-in of the driver in place of a GPU (kir/kir.h). Rows dt_target_interpreted of processors
 * and of GPUs stand beside those that they resemble in all but this. */
#ifndef DT_CODEGEN_INTERPRETED_H
#define DT_CODEGEN_INTERPRETED_H

#include "codegen/target.h"

/* The text of a kernel (docs/kernels.md, section 7), as DtTargetRow.print. */
size_t dt_interpreted_print(const DtKernel *kernel, DtDiags *diags, bool lines, DtText *ret_text);
/* One unit, whose code is its text. */
DtStatus dt_interpreted_build(struct DtEmit *e);

#endif
