/* SPDX-License-Identifier: Apache-2.0 */
/* The memory layout of a value on a rank: strides of its axes. How view ops change it, and the
 * layouts that passes choose for temporaries (DtLies). Extents and strides are those of a rank's
 * part. */
#ifndef DT_IR_VIEW_H
#define DT_IR_VIEW_H

#include "ir/ir.h"

/* A buffer and a stride for each axis of a value, in the order of its type. Renames, splits,
 * slices and reorderings of a value share its buffer. */
typedef struct DtView {
    uint32_t buffer;                 /* number of the buffer, which the user of views gives; several
                                      * views may share it */
    DtDtype dtype;
    uint8_t rank;
    int64_t offset;                  /* offset of the first element, in elements */
    const char *axis[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK];     /* local */
    int64_t stride[DT_MAX_RANK];     /* distance in elements; 0 for an expanded axis */
} DtView;

/* Returns the view of a value that is row-major in the order of type, without gaps. */
DtView dt_view_dense(const DtType *type, const DtMesh *mesh, uint32_t buffer);
/* Returns the view of a value's own memory: with the layout value->lies, or dense. */
DtView dt_view_own(const DtValue *value, const DtMesh *mesh, uint32_t buffer);
/* Whether two views of one type have equal strides; axes of extent 1 do not matter. */
bool dt_view_same_strides(const DtView *a, const DtView *b);
/* Returns the number of elements from the first one to the end of the last one. */
int64_t dt_view_span(const DtView *view);
int dt_view_find(const DtView *view, const char *axis); /* the axis with that name, -1: none */
/* stride of the axis with that name, 0: none */
int64_t dt_view_stride(const DtView *view, const char *axis);
/* Removes axis number d from the view, at index 0 of it. */
void dt_view_drop(DtView *view, uint32_t d);
/* The view of the result of a view op (DT_DATA_VIEW) on an operand with this view; false:
 * strides cannot describe it. For a `shard`, the offset of the rank's part depends on its
 * coordinates and is not in the view. */
bool dt_view_through(const DtOp *op, const DtMesh *mesh, DtView *view);
/* The view of the operand of a relabel whose result has this view; false: there is none. */
bool dt_view_behind(const DtOp *relabel, const DtMesh *mesh, DtView *view);
/* The view of operand number i of a concat whose result has this view. */
void dt_view_part(const DtOp *concat, uint32_t i, const DtMesh *mesh, DtView *view);
/* The part of a bucket with this view that holds a tensor of this type from element `offset` on.
 * The first `kept` axes are those of the bucket. */
void dt_view_in_bucket(const DtType *type, uint32_t kept, int64_t offset, const DtMesh *mesh,
                       DtView *view);

#endif
