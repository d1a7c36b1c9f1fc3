/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of ops.def that every layer needs. */
#include "ir/ir.h"

const DtOpInfo dt_op_info[DT_OP_COUNT] = {
#define DT_OP(NAME, text, inputs, class, shape, factors, ...) \
    [DT_OP_##NAME] = {text, inputs, DT_CLASS_##class, factors},
#include "ops.def"
#undef DT_OP
};
