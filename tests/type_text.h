/* SPDX-License-Identifier: Apache-2.0 */
/* Makes types for tests from short texts. */
#ifndef DT_TESTS_TYPE_TEXT_H
#define DT_TESTS_TYPE_TEXT_H

#include "ir/ir.h"

/* the text is like "b=2 s=3" */
const DtType *type_of(DtDtype dtype, const char *axes);
DtAxis axis_of(const char *name, int64_t extent);
/* How the type is split, without extents: f32[batch/data, embed]{sum model}. */
void print_placement(const DtType *type, const DtMesh *mesh, DtText *text);
/* The axes of the type in their k-th order. */
const DtType *reordered(const DtType *type, int k);

#endif
