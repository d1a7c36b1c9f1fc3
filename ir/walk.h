/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over index spaces of named axes: an odometer whose wheels have names, and the strides of
 * tensors along them. */
#ifndef DT_IR_WALK_H
#define DT_IR_WALK_H

#include "ir/ir.h"

enum { DT_WALK_AXES = 2 * DT_MAX_RANK };

typedef struct DtWalk {
    uint32_t rank;
    const char *name[DT_WALK_AXES];
    int64_t extent[DT_WALK_AXES];
    int64_t at[DT_WALK_AXES]; /* the present index along each axis; 0 everywhere at first */
} DtWalk;

/* Appends the axes of type in memory order; an axis that is there already must have the same
 * extent. False if there are too many axes or an extent differs. */
bool dt_walk_add(DtWalk *walk, const DtType *type);
bool dt_walk_add_axis(DtWalk *walk, const char *name, int64_t extent);
int dt_walk_find(const DtWalk *walk, const char *name); /* the axis of that name, or -1 */

/* Moves to the next place, last axis fastest; false (and back at the first place) after the last
 * one. No extent is 0, so `do ... while (dt_walk_next(&walk))` visits every place once. */
bool dt_walk_next(DtWalk *walk);
int64_t dt_walk_places(const DtWalk *walk);

/* The distance in elements between neighbours along axis number `axis` in a tensor of type. */
int64_t dt_walk_stride(const DtType *type, uint32_t axis);
/* ret_strides[i]: stride of type along axis i of the walk, 0 where it has no such axis. */
void dt_walk_strides(const DtWalk *walk, const DtType *type, int64_t ret_strides[DT_WALK_AXES]);
/* strides: of DT_WALK_AXES (a plain pointer, since gcc 14 misjudges rows of an array of arrays). */
int64_t dt_walk_offset(const DtWalk *walk, const int64_t *strides);

#endif
