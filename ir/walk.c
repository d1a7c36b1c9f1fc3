/* SPDX-License-Identifier: Apache-2.0 */
/* The odometer of the interpreter. Nothing here knows about ops. */
#include "ir/walk.h"

int dt_walk_find(const DtWalk *walk, const char *name)
{
    for (uint32_t i = 0; i < walk->rank; i++)
        if (walk->name[i] == name)
            return (int)i;
    return -1;
}

bool dt_walk_add_axis(DtWalk *walk, const char *name, int64_t extent)
{
    int found = dt_walk_find(walk, name);
    if (found >= 0)
        return walk->extent[found] == extent;
    if (walk->rank == DT_WALK_AXES)
        return false;
    walk->name[walk->rank] = name;
    walk->extent[walk->rank] = extent;
    walk->at[walk->rank] = 0;
    walk->rank++;
    return true;
}

bool dt_walk_add(DtWalk *walk, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (!dt_walk_add_axis(walk, type->axes[i].name, type->axes[i].extent))
            return false;
    return true;
}

bool dt_walk_next(DtWalk *walk)
{
    for (uint32_t i = walk->rank; i-- > 0;) {
        if (++walk->at[i] < walk->extent[i])
            return true;
        walk->at[i] = 0;
    }
    return false;
}

int64_t dt_walk_places(const DtWalk *walk)
{
    int64_t places = 1;
    for (uint32_t i = 0; i < walk->rank; i++)
        places *= walk->extent[i];
    return places;
}

int64_t dt_walk_stride(const DtType *type, uint32_t axis)
{
    int64_t stride = 1;
    for (uint32_t i = axis + 1; i < type->rank; i++)
        stride *= type->axes[i].extent;
    return stride;
}

void dt_walk_strides(const DtWalk *walk, const DtType *type, int64_t ret_strides[DT_WALK_AXES])
{
    for (uint32_t i = 0; i < walk->rank; i++) {
        int axis = dt_type_find(type, walk->name[i]);
        ret_strides[i] = axis < 0 ? 0 : dt_walk_stride(type, (uint32_t)axis);
    }
}

int64_t dt_walk_offset(const DtWalk *walk, const int64_t *strides)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < walk->rank; i++)
        offset += walk->at[i] * strides[i];
    return offset;
}
