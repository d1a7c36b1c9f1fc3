/* SPDX-License-Identifier: Apache-2.0 */
/* Types for tests, from short texts. */
#ifndef DT_TESTS_TYPE_TEXT_H
#define DT_TESTS_TYPE_TEXT_H

#include "ir/ir.h"

/* "b=2 s=3" */
const DtType *type_of(DtDtype dtype, const char *axes);
DtAxis axis_of(const char *name, int64_t extent);
/* How it lies, without extents: f32[batch/data, embed]{sum model}. */
void print_placement(const DtType *type, const DtMesh *mesh, DtText *text);
/* The axes of type in their k-th order. */
const DtType *reordered(const DtType *type, int k);

#endif
