/* SPDX-License-Identifier: Apache-2.0 */
/* How a value lies on a rank: in which strides its axes run through memory. What a view op makes of it, and what a pass
 * says of a temporary (DtLies). Extents and strides are those of a rank's part. */
#ifndef DT_IR_VIEW_H
#define DT_IR_VIEW_H

#include "ir/ir.h"

/* Where a value lies: a buffer and a stride for each of its axes, in the order of its type. Renames, splits, slices and
 * reorderings of a value share its buffer. */
typedef struct DtView {
    uint32_t buffer;                 /* number given by the frame; several views may share it */
    DtDtype dtype;
    uint8_t rank;
    int64_t offset;                  /* elements */
    const char *axis[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK];     /* local */
    int64_t stride[DT_MAX_RANK];     /* elements; 0 for an expanded axis */
} DtView;

/* Row-major in the order of type, without gaps. */
DtView dt_view_dense(const DtType *type, const DtMesh *mesh, uint32_t buffer);
/* As value->lies says, or dense. */
DtView dt_view_own(const DtValue *value, const DtMesh *mesh, uint32_t buffer);
/* Whether two views of one type have equal strides, but along axes of extent 1. */
bool dt_view_same_strides(const DtView *a, const DtView *b);
/* Elements from the first to behind the last. */
int64_t dt_view_span(const DtView *view);
int dt_view_find(const DtView *view, const char *axis); /* -1: it has none */
int64_t dt_view_stride(const DtView *view, const char *axis); /* 0: it has none */
/* Without its axis number d: one place along it. */
void dt_view_drop(DtView *view, uint32_t d);
/* The result of an op that moves nothing (DT_DATA_VIEW) where its operand lies as view says; false: no strides can say
 * it. Of a `shard` the rank's part begins where its coordinates say, which is not in the view. */
bool dt_view_through(const DtOp *op, const DtMesh *mesh, DtView *view);
/* Where the operand of a relabel lies if its result lies as view says; false: nowhere. */
bool dt_view_behind(const DtOp *relabel, const DtMesh *mesh, DtView *view);
/* Operand number i of a concat whose result lies as view says. */
void dt_view_part(const DtOp *concat, uint32_t i, const DtMesh *mesh, DtView *view);
/* The part of a bucket that lies as view says, with a tensor of this type, from element `offset` on. The first kept
 * axes are those of the bucket. */
void dt_view_in_bucket(const DtType *type, uint32_t kept, int64_t offset, const DtMesh *mesh, DtView *view);

#endif
