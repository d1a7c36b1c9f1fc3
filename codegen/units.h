/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels of a plan are spread over units of code, each of which is compiled apart. */
#ifndef DT_CODEGEN_UNITS_H
#define DT_CODEGEN_UNITS_H

#include "codegen/emit.h"

enum { DT_UNITS_MOST = 8 };

typedef struct DtUnits {
    uint32_t n;   /* at least 1 */
    uint32_t *of; /* the unit of each kernel */
} DtUnits;

/* Assigns each kernel to one of at most `most` units (DT_UNITS_MOST or fewer), each of about
 * `bytes` bytes of kernels without their comments. The result depends on the kernels' texts alone,
 * so that a plan's bytes do not depend on the machine that compiles it. */
DtUnits dt_units_spread(DtEmit *e, uint32_t most, size_t bytes);

/* Appends the kernels of the unit to its prelude, and moves the text into the arena. */
const char *dt_units_text(DtEmit *e, const DtUnits *units, uint32_t unit, DtText *prelude);

#endif
