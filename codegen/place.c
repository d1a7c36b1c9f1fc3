/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of values. A buffer is a range of bytes; a place is a view of a buffer, and how its
 * address moves with the registers of loops. Renames, splits, slices, expansions and reorderings
 * make views, not copies. */
#include "codegen/emit.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

int64_t dt_place_bytes(const DtEmit *e, const DtType *type)
{
    return dt_type_local_elements(type, &e->module->mesh) * (int64_t)dt_dtype_size(type->dtype);
}

/* Bytes from the view's first element to the end of its last one. */
static int64_t span_of(const DtView *view)
{
    return dt_view_span(view) * (int64_t)dt_dtype_size(view->dtype);
}

int64_t dt_place_aligned(int64_t bytes)
{
    return (bytes + DT_PLAN_ALIGN - 1) / DT_PLAN_ALIGN * DT_PLAN_ALIGN;
}

uint32_t dt_place_buffer(DtEmit *e, const char *name, int64_t bytes)
{
    DtBuffer buffer = {.name = name, .bytes = bytes, .arena = e->temporaries, .first = UINT32_MAX};
    DT_PUSH(e->arena, e->buffers, buffer);
    return e->buffers.n - 1;
}

void dt_place_touch(DtEmit *e, uint32_t number)
{
    DtBuffer *buffer = &e->buffers.at[number];
    if (buffer->first == UINT32_MAX)
        buffer->first = e->items.n;
    buffer->last = e->items.n;
}

/* Extends the lives of buffers that a loop uses and that existed before it to the end of the loop,
 * since the next iteration reads them again. */
void dt_place_extend(DtEmit *e, uint32_t begin)
{
    for (uint32_t i = e->entry_buffer; i < e->buffers.n; i++) {
        DtBuffer *buffer = &e->buffers.at[i];
        if (buffer->first != UINT32_MAX && buffer->first < begin && buffer->last >= begin)
            buffer->last = e->items.n - 1;
    }
}

/* Stacked results are written slice by slice inside the loop: their live ranges begin with it. */
void dt_place_begin(DtEmit *e, const DtPlace *place)
{
    DtBuffer *buffer = &e->buffers.at[place->view.buffer];
    uint32_t position = e->items.n - 1;
    if (buffer->first == UINT32_MAX || buffer->first > position)
        buffer->first = position;
    if (buffer->first == position && buffer->last < position)
        buffer->last = position;
}

uint32_t dt_place_fixed(DtEmit *e, const char *name, DtPlanArenaKind arena, int64_t bytes)
{
    DtBuffer buffer = {.name = name, .bytes = bytes, .fixed = true, .arena = arena,
                       .first = UINT32_MAX};
    buffer.offset = e->arena_bytes[arena];
    e->arena_bytes[arena] += dt_place_aligned(bytes);
    DT_PUSH(e->arena, e->buffers, buffer);
    return e->buffers.n - 1;
}

DtPlace dt_place_dense(DtEmit *e, const DtType *type, uint32_t buffer)
{
    return (DtPlace){.set = true, .view = dt_view_dense(type, &e->module->mesh, buffer)};
}

DtPlace dt_place_temporary(DtEmit *e, const DtType *type, const char *name)
{
    return dt_place_dense(e, type, dt_place_buffer(e, name, dt_place_bytes(e, type)));
}

uint32_t dt_place_framed(DtEmit *e, const DtValue *value, const char *name, int64_t base,
                         int64_t bytes)
{
    const uint32_t number = dt_place_buffer(e, name, bytes);
    DtBuffer *buffer = &e->buffers.at[number];
    buffer->framed = value->at != 0;
    buffer->offset = base + value->at - 1;
    return number;
}

DtPlace dt_place_own(DtEmit *e, const DtValue *value)
{
    DtPlace place = {.set = true, .view = dt_view_own(value, &e->module->mesh, 0)};
    const int64_t bytes = span_of(&place.view);
    place.view.buffer = e->scope->framed
                            ? dt_place_framed(e, value, value->name, e->scope->base, bytes)
                            : dt_place_buffer(e, value->name, bytes);
    return place;
}

DtPlace dt_place_slice(DtEmit *e, const DtOp *loop, DtPlace place, uint32_t reg)
{
    DtView *view = &place.view;
    const int d = dt_view_find(view, loop->loop->axis);
    if (d < 0)
        DT_BUG("a stacked value of `%s` lacks the loop's axis", e->scope->func->name);
    place.reg[reg] += view->stride[d] * (int64_t)dt_dtype_size(view->dtype);
    dt_view_drop(view, (uint32_t)d);
    return place;
}

DtPlace *dt_place_find(DtEmit *e, const DtValue *value)
{
    DtPlace *place = &e->scope->places[value->id];
    return place->set ? place : NULL;
}

void dt_place_set(DtEmit *e, const DtValue *value, DtPlace place)
{
    place.set = true;
    e->scope->places[value->id] = place;
}

bool dt_place_is_dense(const DtPlace *place, const DtType *type, const DtMesh *mesh)
{
    DtView dense = dt_view_dense(type, mesh, place->view.buffer);
    if (place->view.rank != dense.rank)
        return false;
    for (uint32_t d = 0; d < dense.rank; d++)
        if (place->view.axis[d] != dense.axis[d] ||
            (place->view.stride[d] != dense.stride[d] && dense.extent[d] > 1))
            return false;
    return true;
}

bool dt_place_same(const DtPlace *a, const DtPlace *b)
{
    const DtView *x = &a->view, *y = &b->view;
    return x->buffer == y->buffer && x->offset == y->offset && x->dtype == y->dtype &&
           memcmp(a->reg, b->reg, sizeof a->reg) == 0 &&
           memcmp(a->coord, b->coord, sizeof a->coord) == 0 && dt_view_same_strides(x, y);
}

void dt_place_key(const DtPlace *place, DtText *key)
{
    const DtView *view = &place->view;
    const int64_t numbers[] = {place->set, view->rank, view->dtype, view->offset};
    dt_text_add_n(key, (const char *)numbers, sizeof numbers);
    dt_text_add_n(key, (const char *)view->axis, view->rank * sizeof *view->axis);
    dt_text_add_n(key, (const char *)view->extent, view->rank * sizeof *view->extent);
    dt_text_add_n(key, (const char *)view->stride, view->rank * sizeof *view->stride);
    dt_text_add_n(key, (const char *)place->reg, sizeof place->reg);
    dt_text_add_n(key, (const char *)place->coord, sizeof place->coord);
}

static int64_t begin_of(const DtView *view)
{
    return view->offset * (int64_t)dt_dtype_size(view->dtype);
}

bool dt_place_apart(const DtPlace *a, const DtPlace *b)
{
    const int64_t from_a = begin_of(&a->view), from_b = begin_of(&b->view);
    const bool together = memcmp(a->reg, b->reg, sizeof a->reg) == 0 &&
                          memcmp(a->coord, b->coord, sizeof a->coord) == 0;
    return a->view.buffer != b->view.buffer || (together && (from_a + span_of(&a->view) <= from_b ||
                                                             from_b + span_of(&b->view) <= from_a));
}

/* A rank's part of each axis that the op splits begins where the rank's coordinates say. False if
 * they are more than an argument can depend on. */
static bool move_by_rank(const DtEmit *e, const DtOp *op, DtPlace *place)
{
    const DtMesh *mesh = &e->module->mesh;
    const DtType *x = op->in[0]->type, *y = op->out[0]->type;
    uint32_t first_device = dt_emit_first_device(mesh), n = 0;
    for (uint32_t i = 0; i < y->rank; i++) {
        int d = dt_view_find(&place->view, y->axes[i].name);
        int64_t part = dt_type_local_extent(x, i, mesh);
        for (uint32_t s = x->axes[i].n_split; s < y->axes[i].n_split; s++) {
            uint32_t m = y->axes[i].split[s];
            part /= mesh->axes[m].size;
            int64_t bytes =
                part * place->view.stride[d] * (int64_t)dt_dtype_size(place->view.dtype);
            if (mesh->axes[m].is_time)
                place->reg[0] += bytes;
            else
                place->coord[m - first_device] += bytes;
        }
    }
    for (uint32_t m = 0; m < DT_MAX_MESH; m++)
        n += place->coord[m] != 0;
    return n <= DT_PLAN_COORDS;
}

DtPlace dt_place_in_bucket(DtEmit *e, const DtPlace *bucket, const DtType *type, uint32_t kept,
                           int64_t offset)
{
    DtPlace part = *bucket;
    dt_view_in_bucket(type, kept, offset, &e->module->mesh, &part.view);
    return part;
}

bool dt_place_view_of(DtEmit *e, const DtOp *op, const DtPlace *in, DtPlace *ret_place)
{
    *ret_place = *in;
    return (op->kind != DT_OP_SHARD || move_by_rank(e, op, ret_place)) &&
           dt_view_through(op, &e->module->mesh, &ret_place->view);
}

DtPlace dt_place_run(DtEmit *e, const DtPlace *place, const DtType *from, const DtType *to)
{
    DtValue all = {.type = from}, mine = {.type = to}, *in = &all, *out = &mine;
    const DtOp shard = {.kind = DT_OP_SHARD, .in = &in, .out = &out, .n_in = 1, .n_out = 1};
    DtPlace run;
    if (!dt_place_view_of(e, &shard, place, &run))
        DT_BUG("a run depends on more than %d mesh axes", DT_PLAN_COORDS);
    return run;
}

DtEArg dt_place_arg(DtEmit *e, const DtPlace *place, bool written)
{
    const DtView *view = &place->view;
    (void)e;
    DtEArg arg = {.kind = DT_ARG_ADDRESS, .written = written, .buffer = view->buffer,
                  .base = begin_of(view), .bytes = span_of(view)};
    memcpy(arg.reg, place->reg, sizeof arg.reg);
    for (uint32_t m = 0, n = 0; m < DT_MAX_MESH; m++)
        if (place->coord[m] && n < DT_PLAN_COORDS) {
            arg.coord_axis[n] = (uint8_t)m;
            arg.coord[n++] = place->coord[m];
        }
    return arg;
}
