/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by attend.c, which prints attention, and attend_hidden.c, which says when a tile of it is left out. */
#ifndef DT_CODEGEN_CUDA_ATTEND_PRINT_H
#define DT_CODEGEN_CUDA_ATTEND_PRINT_H

#include "codegen/cuda/attend.h"
#include "codegen/print.h"

typedef struct DtAttendPrint {
    DtPrint *c;
    const DtAttendTile *tile;
    const DtRole *role;
    bool *have;      /* by node: w<k> is there */
    bool *reduces;   /* by node: a reduction along the columns of this role */
} DtAttendPrint;

/* Goes on with the next tile of columns where no row sees one; keep: but not past the last one if none was seen. */
void dt_attend_print_hidden(DtAttendPrint *a, bool keep);

/* Body of a kernel of attention. */
void dt_attend_print(DtPrint *c, const DtAttendTile *tile);
const char *dt_attend_element(DtDtype dtype); /* of names of functions: "bf16" */

#endif
