/* SPDX-License-Identifier: Apache-2.0 */
/* The present layouts of values, as views and as strides. */
#include "passes/lower/memory.h"

#include <string.h>

const int64_t dt_memory_unknown[] = {0};

DtView dt_memory_strided(const DtMemory *m, const DtType *type, const int64_t *strides)
{
    DtView view = dt_view_dense(type, &m->func->module->mesh, 0);
    if (strides && strides != dt_memory_unknown)
        memcpy(view.stride, strides, view.rank * sizeof *view.stride);
    return view;
}

DtView dt_memory_view(const DtMemory *m, const DtValue *value)
{
    return dt_memory_strided(m, value->type, m->at[value->id]);
}

const int64_t *dt_memory_strides(const DtMemory *m, const DtType *type, const DtView *view)
{
    const DtView dense = dt_view_dense(type, &m->func->module->mesh, 0);
    if (view->rank != type->rank ||
        !memcmp(view->stride, dense.stride, type->rank * sizeof *dense.stride))
        return NULL;
    int64_t *strides = DT_NEW_ARRAY(m->kept, int64_t, type->rank);
    memcpy(strides, view->stride, type->rank * sizeof *strides);
    return strides;
}
