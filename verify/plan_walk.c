/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a schedule along with its notes: functions as frames, and loops once, as an induction.
 * Before a body is walked, whatever any of its iterations may overwrite is gone, but for first values
 * of carried inputs, and zeros, which sums look at again; at its end carried results must lie where
 * the inputs did, and slices of stacked results must survive the iterations after theirs. */
#include "verify/plan_internal.h"

#include <stdarg.h>
#include <string.h>

bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
{
    va_list args;
    if (walk->problem->len)
        return false;
    const DtPlan *plan = walk->plan;
    if (walk->at_entry)
        dt_text_printf(walk->problem, "entry %s", dt_plan_str(plan, walk->at_entry->name));
    else
        dt_text_add(walk->problem, "plan");
    if (plan->meta->pipeline && walk->stage < dt_plan_stages(plan)) /* stores of a class have its first one's names */
        dt_text_printf(walk->problem, " of stage %u", walk->stage);
    if (walk->inst) {
        const DtPlanSpan *span = plan->n_spans ? &plan->spans[walk->inst->span] : NULL;
        dt_text_printf(walk->problem, ", INST %u", (uint32_t)(walk->inst - plan->insts));
        if (span && span->line)
            dt_text_printf(walk->problem, " (%s line %u)", dt_plan_str(plan, span->text),
                           span->line);
    }
    dt_text_add(walk->problem, ": ");
    va_start(args, format);
    dt_text_vprintf(walk->problem, format, args);
    va_end(args);
    return false;
}

/* ---- notes ---- */

uint64_t dt_certplan_word(PlanWalk *walk)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (walk->note == walk->end) {
            dt_certplan_fail(walk, "the notes end");
            return 0;
        }
        uint8_t byte = *walk->note++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    dt_certplan_fail(walk, "a note is too large");
    return 0;
}

int64_t dt_certplan_signed(PlanWalk *walk)
{
    uint64_t value = dt_certplan_word(walk);
    return value & 1 ? (int64_t) ~(value >> 1) : (int64_t)(value >> 1);
}

const CertOp *dt_certplan_op(PlanWalk *walk, uint64_t value)
{
    const PlanFrame *frame = walk->frame;
    if (frame && value < frame->func->n_values && frame->maker[value] &&
        frame->maker[value]->first_out == value)
        return frame->maker[value];
    dt_certplan_fail(walk, "a note names no op");
    return NULL;
}

/* ---- frames ---- */

const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value)
{
    const CertOp *op = frame->maker[value];
    return op ? op->types[value - op->first_out] : frame->func->args.at[value];
}

PlanFrame *dt_certplan_push(PlanWalk *walk, PlanFrameKind kind, const CertFunc *func,
                            const CertOp *op)
{
    PlanFrame *frame = DT_NEW(walk->scratch, PlanFrame);
    *frame = (PlanFrame){.kind = kind,
                         .func = func,
                         .op = op,
                         .outer = kind == PLAN_ENTRY ? NULL : walk->frame,
                         .sign = 1,
                         .depth = walk->depth};
    frame->maker = DT_NEW_ARRAY(walk->scratch, const CertOp *, func->n_values + 1);
    frame->made_anew = DT_NEW_ARRAY(walk->scratch, uint8_t, func->n_values + 1);
    frame->regions = DT_NEW_ARRAY(walk->scratch, PlanRegion *, func->n_values + 1);
    frame->done = DT_NEW_ARRAY(walk->scratch, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            frame->maker[func->ops.at[i]->first_out + k] = func->ops.at[i];
    walk->frame = frame;
    return frame;
}

static bool is_one_of(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }

bool dt_certplan_is_inline(const PlanFrame *frame, uint32_t value)
{
    const CertOp *op = frame->maker[value];
    if (!op)
        return frame->kind == PLAN_CALL &&
               dt_certplan_is_inline(frame->outer, frame->op->in[value]);
    if (is_one_of(op, "const") || is_one_of(op, "iota"))
        return !op->types[0]->rank || !op->types[0]->axes[0].n || !op->types[0]->axes[0].zigzag;
    uint8_t *found = &frame->made_anew[value];
    bool is = *found != 1 && op->rule && op->rule->map;
    for (uint32_t i = 0; is && *found == 0 && i < op->n_in; i++)
        is = dt_certplan_is_inline(frame, op->in[i]);
    *found = is ? 2 : 1;
    return is;
}

/* The results of a call are its function's. */
static bool leave(PlanWalk *walk)
{
    PlanFrame *frame = walk->frame;
    if (frame && frame->kind == PLAN_AHEAD)
        return dt_certplan_gathered(walk);
    if (!frame || frame->kind != PLAN_CALL || walk->tiles.open)
        return dt_certplan_fail(walk, "a note returns from no call");
    walk->frame = frame->outer;
    for (uint32_t i = 0; i < frame->func->results.n; i++) {
        PlanFinds found;
        uint32_t n = dt_certplan_find(walk, frame, frame->func->results.at[i], NULL, &found);
        for (uint32_t k = 0; k < n; k++)
            dt_certplan_define(walk, frame->outer, frame->op->first_out + i, &found.at[k].place,
                               found.at[k].added);
    }
    return true;
}

/* Whether func has the operands and results of the op, a plain call or a loop. */
static bool takes(const CertOp *op, const CertFunc *func, PlanFrameKind kind)
{
    const CertLoop *loop = op->loop;
    if (kind == PLAN_CALL)
        return op->n_in == func->n_args && op->n_out == func->results.n && !op->n_axes && !op->mesh;
    return loop && func->n_args == 1 + op->n_in && op->n_out == func->results.n &&
           op->n_in == loop->carried + loop->invariant + loop->stacked &&
           op->n_out == loop->carried + loop->stacked_out;
}

static bool enter(PlanWalk *walk, PlanFrameKind kind, const char *what)
{
    const CertOp *op = dt_certplan_op(walk, dt_certplan_word(walk));
    if (!op)
        return false;
    const CertFunc *func =
        op->func && is_one_of(op, what) ? dt_certtext_func(walk->program, op->func) : NULL;
    if (!func || !takes(op, func, kind) || walk->tiles.open || walk->frame->done[op->first_out])
        return dt_certplan_fail(walk, "`%s` is no %s, or is done twice", op->kind, what);
    walk->frame->done[op->first_out] = true;
    dt_certplan_push(walk, kind, func, op);
    return true;
}

static bool carry(PlanWalk *walk)
{
    const CertOp *op = dt_certplan_op(walk, dt_certplan_word(walk));
    uint64_t number = dt_certplan_word(walk);
    if (!op || !is_one_of(op, "loop") || number != walk->carried.n ||
        (number && walk->carry_op != op))
        return dt_certplan_fail(walk, "a note of a carried value is out of order");
    walk->carry_op = op;
    walk->carries = true;
    return true;
}

/* Notes up to the one of an item or instruction, whose kind is returned; DT_NOTE_KINDS: none, or a failure. only:
 * as long as they are of this kind. */
DtNoteKind dt_certplan_note(PlanWalk *walk, DtNoteKind only)
{
    while (walk->note < walk->end && !walk->problem->len) {
        const uint8_t *before = walk->note;
        DtNoteKind kind = (DtNoteKind)dt_certplan_word(walk);
        if (only != DT_NOTE_KINDS && kind != only) {
            walk->note = before;
            break;
        }
        if (kind != DT_NOTE_ENTRY && !walk->frame &&
            (kind <= DT_NOTE_LOOP || (kind >= DT_NOTE_TILES && kind <= DT_NOTE_DO) || kind == DT_NOTE_AHEAD)) {
            dt_certplan_fail(walk, "a note is of no function");
            break;
        }
        switch (kind) {
        case DT_NOTE_ENTRY: dt_certplan_begin(walk); break;
        case DT_NOTE_CALL: enter(walk, PLAN_CALL, "call"); break;
        case DT_NOTE_RETURN: leave(walk); break;
        case DT_NOTE_CARRY: carry(walk); break;
        case DT_NOTE_AHEAD: dt_certplan_ahead(walk); break;
        case DT_NOTE_BLOCK: dt_certplan_block(walk); break;
        case DT_NOTE_TILES:
            if (dt_certplan_tiles(walk) && walk->tiles.n_loops)
                return kind; /* loops come next */
            break;
        default: return kind;
        }
    }
    return DT_NOTE_KINDS;
}

/* ---- loops ---- */

uint32_t dt_certplan_end(const DtPlan *plan, uint32_t at)
{
    uint32_t depth = 0;
    for (;; at++) {
        if (plan->schedule[at].kind == DT_SCHED_LOOP)
            depth++;
        if (plan->schedule[at].kind == DT_SCHED_END && --depth == 0)
            return at;
    }
}

bool dt_certplan_each_write(PlanWalk *walk, uint32_t from, uint32_t to, PlanEach *each, const void *data)
{
    const DtPlan *plan = walk->plan;
    int64_t kept[DT_PLAN_REGS];
    bool good = true;
    memcpy(kept, walk->count, sizeof kept);
    for (uint32_t i = from; good && i < to; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        if (item->kind == DT_SCHED_LOOP ||
            (item->kind == DT_SCHED_SET && item->reg == DT_PLAN_REG_RING))
            walk->count[item->reg] = item->count;
        if (item->kind != DT_SCHED_RUN)
            continue;
        const DtPlanBody *body = &plan->bodies[item->body];
        for (uint32_t k = 0; k < body->n_insts; k++) {
            const DtPlanInst *inst = &plan->insts[body->first_inst + k];
            for (uint32_t a = 0; good && a < inst->n_args; a++) {
                const DtPlanArg *arg = &plan->args[inst->first_arg + a];
                PlanPlace place;
                if (arg->kind != DT_ARG_ADDRESS || !arg->written)
                    continue;
                dt_certplan_arg(walk, arg, &place);
                good = each(walk, &place, data);
            }
        }
    }
    memcpy(walk->count, kept, sizeof kept);
    return good;
}

static bool spoil(PlanWalk *walk, const PlanPlace *written, const void *data)
{
    (void)data;
    dt_certplan_spoil(walk, written, true);
    return true;
}

typedef struct Slice {
    const PlanPlace *place;
    uint32_t reg;
} Slice;

/* Whether a write in any iteration leaves the slices of other ones alone: it stays inside its own slice's step, or
 * outside of all. */
static bool spares(PlanWalk *walk, const PlanPlace *written, const void *data)
{
    const Slice *slice = data;
    int64_t step = slice->place->reg[slice->reg];
    PlanPlace hull = *slice->place;
    if (written->arena != hull.arena)
        return true;
    if (written->reg[slice->reg] == step) {
        PlanPlace around = hull;
        around.base -= step - hull.bytes;
        around.bytes = 2 * step - hull.bytes;
        around.rank = 0;
        if (dt_certplan_contains(walk, &around, written))
            return true;
    }
    hull.bytes += step * (walk->count[slice->reg] - 1);
    hull.reg[slice->reg] = 0;
    hull.rank = 0;
    return !dt_certplan_meets(walk, &hull, written);
}

/* Forgets what was written inside the loop that ends. */
static void forget(PlanWalk *walk, bool micro)
{
    for (uint32_t a = 0; a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = 0; i < walk->memory[a].n; i++) {
            PlanRegion *region = walk->memory[a].at[i];
            if (!region->alive || region->depth <= walk->depth)
                continue;
            bool stays = micro && !region->place.reg[0] &&
                         (region->kind == PLAN_VALUE || region->kind == PLAN_ADDED);
            if (region->kind == PLAN_ADDED) {
                bool zero = dt_certplan_is_zero(walk, &region->place, walk->depth, false);
                stays = stays && zero;
                if (!stays && zero && !dt_certplan_is_added(walk, &region->place, walk->depth))
                    dt_certplan_spoil(walk, &region->place, false);
            }
            region->alive = stays;
            region->depth = walk->depth;
        }
}

/* Holes of all iterations. */
void dt_certplan_widen(PlanWalk *walk, uint32_t reg)
{
    for (uint32_t a = 0; a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = 0; i < walk->memory[a].n; i++)
            for (PlanHole *hole = walk->memory[a].at[i]->holes; hole; hole = hole->next) {
                int64_t most = hole->place.reg[reg] * (walk->count[reg] - 1);
                hole->place.base += most < 0 ? most : 0;
                hole->place.bytes += most < 0 ? -most : most;
                hole->place.rank = most ? 0 : hole->place.rank;
                hole->place.reg[reg] = 0;
            }
}

static void open_loop(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    walk->open[item->reg] = walk->depth + 1;
    walk->count[item->reg] = item->count;
    dt_certplan_each_write(walk, at + 1, end, spoil, NULL);
    walk->depth++;
}

static void close_loop(PlanWalk *walk, const DtPlanSchedule *item, bool micro)
{
    forget(walk, micro);
    dt_certplan_widen(walk, item->reg);
    walk->open[item->reg] = 0;
    walk->count[item->reg] = 0;
}

static bool walk_items(PlanWalk *walk, uint32_t from, uint32_t to);

static bool walk_micro(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    if (item->reg != 0 || item->first != 0 || item->step != 1 || !walk->first_device ||
        item->count != walk->program->size[0])
        return dt_certplan_fail(walk, "the loop over micro-batches runs %d times", item->count);
    open_loop(walk, at, end);
    if (!dt_certplan_begin_micro(walk, at) || !walk_items(walk, at + 1, end))
        return false;
    dt_certplan_note(walk, DT_NOTE_RETURN);
    if (!dt_certplan_end_micro(walk))
        return false;
    walk->depth--;
    close_loop(walk, item, true);
    return !walk->problem->len;
}

/* The results of a loop where the body left them; before what it wrote is forgotten. */
typedef struct Left {
    uint32_t value;
    PlanPlace place;
    bool added;
} Left;
typedef DT_VEC(Left) Lefts;

static bool leave_carried(PlanWalk *walk, PlanFrame *body, Lefts *lefts)
{
    for (uint32_t i = 0; i < body->op->loop->carried; i++) {
        PlanFinds found;
        uint32_t n = dt_certplan_find(walk, body, body->func->results.at[i], &body->carried[i]->place, &found);
        bool there = false;
        for (uint32_t k = 0; k < n; k++)
            there = there || (!found.at[k].added &&
                              dt_certplan_alike(&found.at[k].place, &body->carried[i]->place));
        if (!there)
            return dt_certplan_fail(
                walk, "carried result %u of the loop is not where the next iteration reads it", i);
        DT_PUSH(walk->arena, *lefts,
                ((Left){body->op->first_out + i, body->carried[i]->place, false}));
    }
    return true;
}

static bool leave_stacked(PlanWalk *walk, PlanFrame *body, uint32_t at, uint32_t end, Lefts *lefts)
{
    const CertLoop *loop = body->op->loop;
    for (uint32_t i = loop->carried; i < body->func->results.n; i++) {
        PlanFinds found;
        uint32_t n = dt_certplan_find(walk, body, body->func->results.at[i], NULL, &found);
        for (uint32_t k = 0; k < n; k++) {
            PlanPlace *place = &found.at[k].place;
            int64_t step = place->reg[body->reg];
            Slice slice = {place, body->reg};
            if (step < place->bytes || step % place->size || place->rank == CERT_RANK ||
                !dt_certplan_each_write(walk, at + 1, end, spares, &slice))
                continue;
            place->reg[body->reg] = 0;
            memmove(place->axis + 1, place->axis, place->rank * sizeof *place->axis);
            memmove(place->extent + 1, place->extent, place->rank * sizeof *place->extent);
            memmove(place->stride + 1, place->stride, place->rank * sizeof *place->stride);
            place->axis[0] = loop->axis;
            place->extent[0] = loop->count;
            place->stride[0] = step / place->size;
            place->rank++;
            dt_certplan_spans(place);
            DT_PUSH(walk->arena, *lefts, ((Left){body->op->first_out + i, *place, found.at[k].added}));
        }
    }
    return true;
}

/* Inputs that are carried lie where the instructions before the loop put their first values. */
static bool take_carried(PlanWalk *walk, PlanFrame *body)
{
    const CertLoop *loop = body->op->loop;
    if (walk->carried.n != loop->carried || (loop->carried && walk->carry_op != body->op))
        return dt_certplan_fail(walk, "the loop's carried values have no first values");
    body->carried = DT_NEW_ARRAY(walk->arena, PlanRegion *, loop->carried + 1);
    for (uint32_t i = 0; i < loop->carried; i++)
        if (!walk->carried.at[i]->alive)
            return dt_certplan_fail(walk, "first value %u of the loop was overwritten", i);
    return true;
}

static bool walk_body(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    PlanFrame *outer = walk->frame;
    if (!enter(walk, PLAN_BODY, "loop"))
        return false;
    PlanFrame *body = walk->frame;
    const CertLoop *loop = body->op->loop;
    body->reg = item->reg;
    if (item->count != loop->count || item->first != (loop->reverse ? loop->count - 1 : 0) ||
        item->step != (loop->reverse ? -1 : 1) || item->reg == 0 || item->reg >= DT_PLAN_REG_SLOTS ||
        walk->open[item->reg])
        return dt_certplan_fail(walk, "register %u runs %d times from %d, the loop %lld times",
                                item->reg, item->count, item->first, (long long)loop->count);
    if (!take_carried(walk, body) || !dt_certplan_begin_ring(walk, body, at))
        return false;
    open_loop(walk, at, end);
    for (uint32_t i = 0; i < loop->carried; i++)
        body->carried[i] =
            dt_certplan_define(walk, body, 1 + i, &walk->carried.at[i]->place, false);
    walk->carried.n = 0;
    if (!walk_items(walk, at + 1, end))
        return false;
    dt_certplan_note(walk, DT_NOTE_RETURN);
    if (walk->frame != body)
        return dt_certplan_fail(walk, "a loop ends inside a call");
    Lefts lefts = {0};
    if (!leave_carried(walk, body, &lefts) || !leave_stacked(walk, body, at, end, &lefts) ||
        !dt_certplan_end_ring(walk, body))
        return false;
    walk->depth--;
    walk->frame = outer;
    for (uint32_t i = 0; i < lefts.n; i++)
        dt_certplan_define(walk, outer, lefts.at[i].value, &lefts.at[i].place, lefts.at[i].added);
    close_loop(walk, item, false);
    return true;
}

/* A loop over an axis of attention. */
static bool walk_tiles(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    PlanTiles *tiles = &walk->tiles;
    if (!tiles->open || tiles->n_open == tiles->n_loops || item->reg == 0 ||
        item->reg >= DT_PLAN_REG_SLOTS || walk->open[item->reg] || item->first != 0 ||
        item->step != 1 || item->count != tiles->counts[tiles->n_open])
        return dt_certplan_fail(walk, "a loop is not one over an axis of attention");
    uint32_t number = tiles->n_open++;
    tiles->regs[number] = item->reg;
    open_loop(walk, at, end);
    if (!walk_items(walk, at + 1, end))
        return false;
    dt_certplan_note(walk, DT_NOTE_BLOCK);
    if (tiles->open)
        return dt_certplan_fail(walk, "the blocks of attention have no end");
    walk->depth--;
    if (number == 0 && !dt_certplan_untile(walk))
        return false;
    close_loop(walk, item, false);
    return true;
}

static bool walk_loop(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    if (item->reg >= DT_PLAN_REG_PERIOD) { /* of actions, which are in order on their own */
        walk->actions++;
        bool good = walk_items(walk, at + 1, end);
        walk->actions--;
        return good;
    }
    if (walk->actions)
        return dt_certplan_fail(walk, "a loop of register %u is among what a pipeline repeats", item->reg);
    if (walk->tiles.open && walk->tiles.n_open < walk->tiles.n_loops)
        return walk_tiles(walk, at, end);
    switch (dt_certplan_note(walk, DT_NOTE_KINDS)) {
    case DT_NOTE_LOOP: return walk_body(walk, at, end);
    case DT_NOTE_MICRO: return walk_micro(walk, at, end);
    case DT_NOTE_TILES: return walk_tiles(walk, at, end);
    default: return dt_certplan_fail(walk, "a loop has no note");
    }
}

static bool walk_items(PlanWalk *walk, uint32_t from, uint32_t to)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        walk->inst = NULL;
        if (item->kind == DT_SCHED_LOOP) {
            uint32_t end = dt_certplan_end(plan, i);
            if (!walk_loop(walk, i, end))
                return false;
            i = end;
        } else if (item->kind == DT_SCHED_CALL) {
            if (!dt_certplan_has_used(walk) || !dt_certplan_called(walk, item))
                return false;
        } else if (item->kind == DT_SCHED_SET) {
            if (!dt_certplan_set(walk, item))
                return false;
        } else if (item->kind == DT_SCHED_WHEN) {
            if (!dt_certplan_when(walk, item) || !walk_items(walk, i + 1, i + 1 + item->body) ||
                !dt_certplan_end_when(walk))
                return false;
            i += item->body;
        } else if (item->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[item->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                if (!dt_certplan_inst(walk, &plan->insts[body->first_inst + k]))
                    return false;
            walk->inst = NULL;
        }
    }
    return !walk->problem->len;
}

bool dt_certplan_walk(PlanWalk *walk, const DtPlanEntry *entry, const DtPlanNote *notes)
{
    walk->note = walk->plan->blob + walk->plan->logical->notes + notes->first;
    walk->end = walk->note + notes->count;
    if (!walk_items(walk, entry->first, entry->first + entry->count))
        return false;
    dt_certplan_note(walk, DT_NOTE_KINDS);
    if (walk->tiles.open)
        return dt_certplan_fail(walk, "the blocks of attention have no end");
    return !walk->problem->len &&
           (walk->note == walk->end || dt_certplan_fail(walk, "a note has no instruction"));
}
