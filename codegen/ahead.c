/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers ahead of their iterations: all_gathers in the body of a loop that say `ahead=k` (passes/zero.c).
 *
 *   RUN    gathers of iterations 0 .. k - 1, into slots 0 .. k - 1
 *   LOOP   i
 *     WHEN   i + k is an iteration
 *       SET    ring = (i + k) mod (k + 1)
 *       RUN    its gathers, into slot ring
 *     SET    ring = i mod (k + 1)
 *     RUN    everything else, which reads slot ring
 *   END
 *
 * A slot holds all that an iteration gathers. It is free again when its iteration ends, which is before the gathers of
 * the iteration k + 1 behind it: so k + 1 slots do, and nothing is copied. In a loop that runs backwards the iterations
 * count down, and so do the slots. */
#include "codegen/emit.h"

#include "plan/notes.h"

#include <string.h>

static bool is_ahead(const DtOp *op) { return op->kind == DT_OP_ALL_GATHER && op->ahead > 0; }

/* Whether anything but another gather ahead reads the value: then it lies in the ring. */
static bool is_kept(const DtFunc *body, const DtValue *value)
{
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_in; k++)
            if (body->ops.at[i]->in[k] == value && !is_ahead(body->ops.at[i]))
                return true;
    return false;
}

/* The iteration's number in its loop, which the loop's register holds. */
static int64_t number_of(const DtLoop *loop, int64_t iteration)
{
    return loop->reverse ? loop->count - 1 - iteration : iteration;
}

static void push_item(DtEmit *e, DtPlanSchedule item)
{
    DT_PUSH(e->arena, e->events, ((DtEvent){.kind = DT_EVENT_ITEM, .loop = item}));
}

/* Memory of the ring; where in it each of the gathered values lies. */
static void place_ring(DtEmit *e, DtAhead *ahead, const DtFunc *body)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        if (!is_ahead(op))
            continue;
        ahead->depth = op->ahead + 1;
        DT_PUSH(e->arena, ahead->ops, op);
        if (is_kept(body, op->out[0]))
            bytes += dt_place_aligned(dt_place_bytes(e, op->out[0]->type));
    }
    if (ahead->ops.n == 0)
        return;
    uint32_t buffer = dt_place_buffer(e, "gathered ahead", bytes * ahead->depth);
    int64_t at = 0;
    ahead->places = DT_NEW_ARRAY(e->arena, DtPlace, ahead->ops.n);
    for (uint32_t i = 0; i < ahead->ops.n; i++) {
        const DtValue *value = ahead->ops.at[i]->out[0];
        if (!is_kept(body, value))
            continue;
        ahead->places[i] = dt_place_dense(e, value->type, buffer);
        ahead->places[i].view.offset = at / (int64_t)dt_dtype_size(value->type->dtype);
        ahead->places[i].reg[DT_PLAN_REG_RING] = bytes;
        at += dt_place_aligned(dt_place_bytes(e, value->type));
    }
}

/* Moves the address by as much as this register's having another value does. */
static void move(DtPlace *place, uint32_t reg, int64_t by)
{
    place->view.offset += place->reg[reg] * by / (int64_t)dt_dtype_size(place->view.dtype);
}

/* The gathers of an iteration, in a scope of its own: what they read and where they write is moved as fix says. */
static void emit_gathers(DtEmit *e, const DtOp *loop, const DtAhead *ahead, const DtScope *inner, int64_t iteration, bool later)
{
    DtScope *outer = e->scope, *scope = dt_emit_scope(e, loop->func, loop->loop, inner->path);
    scope->reg = inner->reg;
    int64_t fixed = number_of(loop->loop, iteration), shift = loop->loop->reverse ? -iteration : iteration;
    for (uint32_t i = 0; i < loop->func->inputs.n; i++) {
        DtPlace *place = &scope->places[loop->func->inputs.at[i]->id];
        *place = inner->places[loop->func->inputs.at[i]->id];
        move(place, scope->reg, later ? shift : fixed);
        if (!later)
            place->reg[scope->reg] = 0;
    }
    DtWanted *wanted = DT_NEW_ARRAY(e->scratch, DtWanted, ahead->ops.n);
    for (uint32_t i = 0; i < ahead->ops.n; i++) {
        wanted[i] = (DtWanted){.set = true, .place = ahead->places[i]};
        if (!ahead->places[i].set)
            continue;
        if (!later) {
            move(&wanted[i].place, DT_PLAN_REG_RING, fixed % ahead->depth);
            wanted[i].place.reg[DT_PLAN_REG_RING] = 0;
        }
        scope->wanted[ahead->ops.at[i]->out[0]->id] = &wanted[i];
    }
    dt_note_ahead(e, later ? NULL : loop, (uint32_t)iteration);
    e->scope = scope;
    for (uint32_t i = 0; i < ahead->ops.n; i++)
        dt_exchange_emit(e, ahead->ops.at[i], 0);
    dt_note_op(e, DT_NOTE_RETURN, NULL);
    e->scope = outer;
}

DtAhead *dt_ahead_begin(DtEmit *e, const DtOp *loop, DtScope *inner)
{
    DtAhead *ahead = DT_NEW(e->scratch, DtAhead);
    place_ring(e, ahead, loop->func);
    for (uint32_t i = 0; i < ahead->ops.n; i++)
        if (ahead->places[i].set)
            inner->places[ahead->ops.at[i]->out[0]->id] = ahead->places[i];
    for (int64_t i = 0; i + 1 < ahead->depth; i++)
        emit_gathers(e, loop, ahead, inner, i, false);
    return ahead;
}

void dt_ahead_iterate(DtEmit *e, const DtOp *loop, const DtAhead *ahead, const DtScope *inner)
{
    if (ahead->ops.n == 0)
        return;
    const int64_t by = ahead->depth - 1, down = loop->loop->reverse ? by : 0;
    DtPlanSchedule set = {.kind = DT_SCHED_SET, .reg = DT_PLAN_REG_RING, .body = inner->reg, .step = 1,
                          .first = (int32_t)(by - 2 * down), .count = (int32_t)ahead->depth};
    push_item(e, (DtPlanSchedule){.kind = DT_SCHED_WHEN, .reg = (uint8_t)inner->reg, .body = 2, .first = (int32_t)down,
                                  .count = (int32_t)(loop->loop->count - by)});
    push_item(e, set);
    emit_gathers(e, loop, ahead, inner, by, true);
    set.first = 0;
    push_item(e, set);
}

bool dt_ahead_is_done(const DtOp *op) { return is_ahead(op); }
