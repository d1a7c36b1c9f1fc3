/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a schedule together with its notes: functions as frames, loops iteration by iteration, so
 * that each instruction is checked with its actual addresses. Only loops over blocks of attention
 * are walked once, with their registers left open: first everything that any of their iterations
 * may overwrite counts as unknown. */
#include "verify/plan_internal.h"

#include <string.h>

/* ---- calls ---- */

static bool is_one_of(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }

static void land(PlanWalk *walk, const CertOp *moved);

static bool leave(PlanWalk *walk)
{
    PlanFrame *frame = walk->frame;
    if (walk->back) {
        const CertOp *moved = walk->behind && !walk->guard ? walk->frame->op : NULL;
        walk->frame = walk->back;
        walk->back = NULL;
        walk->behind = false;
        if (moved)
            land(walk, moved);
        return true;
    }
    if (!frame || frame->kind != PLAN_CALL || walk->tiles.open)
        return dt_certplan_fail(walk, "a note returns from no call");
    walk->frame = frame->outer;
    return true;
}

/* Reads from the note an op of the present frame (*ret_op) and the function that it calls or
 * repeats, which is returned; NULL after a problem. */
static const CertFunc *callee(PlanWalk *walk, PlanFrameKind kind, const char *what,
                              const CertOp **ret_op)
{
    const CertOp *op = *ret_op = dt_certplan_op(walk, dt_certplan_word(walk));
    if (!op)
        return NULL;
    const CertFunc *func =
        op->func && is_one_of(op, what) ? dt_certtext_func(walk->program, op->func) : NULL;
    if (!func || !dt_certplan_takes(op, func, kind) || walk->tiles.open || walk->back ||
        walk->frame->done[op->first_out]) {
        dt_certplan_fail(walk, "`%s` is no %s, or is done twice", op->kind, what);
        return NULL;
    }
    walk->frame->done[op->first_out] = true;
    return func;
}

static void call(PlanWalk *walk)
{
    const CertOp *op;
    const CertFunc *func = callee(walk, PLAN_CALL, "call", &op);
    if (func)
        walk->frame = dt_certplan_frame(walk, PLAN_CALL, walk->frame, func, op, 0);
}

/* Reads a note that the next instruction copies the initial value of a carried value; the note of
 * the copy itself gives the place. */
static void carry(PlanWalk *walk)
{
    const CertOp *op = dt_certplan_op(walk, dt_certplan_word(walk));
    dt_certplan_word(walk);
    if (op && !is_one_of(op, "loop"))
        dt_certplan_fail(walk, "a note of a carried value is of no loop");
}

/* Reads notes RETURN until the present frame is `frame`. False after a problem. */
static bool return_to(PlanWalk *walk, const PlanFrame *frame)
{
    while (walk->frame != frame && walk->note < walk->end && *walk->note == DT_NOTE_RETURN &&
           !walk->problem->len) {
        walk->note++;
        leave(walk);
    }
    return !walk->problem->len;
}

/* Reads notes up to one that describes an item or instruction, and returns its kind; DT_NOTE_KINDS:
 * there is none, or a failure. */
DtNoteKind dt_certplan_note(PlanWalk *walk)
{
    while (walk->note < walk->end && !walk->problem->len) {
        DtNoteKind kind = (DtNoteKind)dt_certplan_word(walk);
        if (kind != DT_NOTE_ENTRY && !walk->frame &&
            (kind <= DT_NOTE_LOOP || (kind >= DT_NOTE_TILES && kind <= DT_NOTE_DO) ||
             kind == DT_NOTE_AHEAD || kind == DT_NOTE_BEHIND)) {
            dt_certplan_fail(walk, "a note is of no function");
            break;
        }
        switch (kind) {
        case DT_NOTE_ENTRY: dt_certplan_begin(walk); break;
        case DT_NOTE_CALL: call(walk); break;
        case DT_NOTE_RETURN: leave(walk); break;
        case DT_NOTE_CARRY: carry(walk); break;
        case DT_NOTE_AHEAD: dt_certplan_ahead(walk); break;
        case DT_NOTE_BEHIND: dt_certplan_behind(walk); break;
        case DT_NOTE_BLOCK: dt_certplan_block(walk); break;
        case DT_NOTE_TILES:
            if (dt_certplan_tiles(walk) && walk->tiles.n_loops)
                return kind; /* a loop is next */
            break;
        default: return kind;
        }
    }
    return DT_NOTE_KINDS;
}

/* ---- loops ---- */

static uint32_t end_of(const DtPlan *plan, uint32_t at)
{
    uint32_t depth = 0;
    for (;; at++) {
        if (plan->schedule[at].kind == DT_SCHED_LOOP)
            depth++;
        if (plan->schedule[at].kind == DT_SCHED_END && --depth == 0)
            return at;
    }
}

/* Calls `each` for every write of items from .. to - 1, which are in loops over blocks, with these
 * loops' registers open. */
typedef void PlanEach(PlanWalk *walk, const PlanPlace *written);
static void each_write(PlanWalk *walk, uint32_t from, uint32_t to, PlanEach *each)
{
    const DtPlan *plan = walk->plan;
    int64_t kept[DT_PLAN_REGS];
    memcpy(kept, walk->count, sizeof kept);
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        if (item->kind == DT_SCHED_LOOP)
            walk->count[item->reg] = item->count;
        if (item->kind != DT_SCHED_RUN)
            continue;
        const DtPlanBody *body = &plan->bodies[item->body];
        for (uint32_t k = 0; k < body->n_insts; k++) {
            const DtPlanInst *inst = &plan->insts[body->first_inst + k];
            for (uint32_t a = 0; a < inst->n_args; a++) {
                const DtPlanArg *arg = &plan->args[inst->first_arg + a];
                PlanPlace place;
                if (arg->kind != DT_ARG_ADDRESS || !arg->written)
                    continue;
                dt_certplan_arg(walk, arg, &place);
                each(walk, &place);
            }
        }
    }
    memcpy(walk->count, kept, sizeof kept);
}

static void spoil(PlanWalk *walk, const PlanPlace *written)
{
    dt_certplan_spoil(walk, written, true);
}

/* Forgets everything that was written inside a loop over blocks when it ends, since nothing tells
 * to which block it belongs. */
static void forget(PlanWalk *walk)
{
    for (uint32_t a = 0; a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = walk->memory[a].n;
             i-- > 0 && walk->memory[a].at[i]->stamp > walk->opened;) {
            PlanRegion *region = walk->memory[a].at[i];
            if (!region->alive || region->depth <= walk->depth)
                continue;
            if (region->kind == PLAN_ADDED &&
                dt_certplan_is_zero(walk, &region->place, walk->depth, false) &&
                !dt_certplan_is_added(walk, &region->place, walk->depth))
                dt_certplan_spoil(walk, &region->place, false);
            region->alive = false;
        }
}

static bool walk_items(PlanWalk *walk, uint32_t from, uint32_t to);

/* Takes the cost of one iteration from the budget: one instruction, and more if its function needs
 * much memory. False after a problem: the budget is used up. */
static bool may_iterate(PlanWalk *walk, const CertFunc *func)
{
    const uint64_t cost = 1 + (func ? func->n_values / 8 : 0);
    walk->budget -= cost < walk->budget ? cost : walk->budget;
    return walk->budget || dt_certplan_fail(walk, "loops repeat more than can be followed");
}

/* Walks the items of a loop over an axis of attention once, with its register open: for all
 * blocks. */
static bool walk_tiles(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    PlanTiles *tiles = &walk->tiles;
    if (!tiles->open || tiles->n_open == tiles->n_loops || item->reg == 0 ||
        item->reg >= DT_PLAN_REG_SLOTS || walk->taken[item->reg] || item->first != 0 ||
        item->step != 1 || item->count != tiles->counts[tiles->n_open])
        return dt_certplan_fail(walk, "a loop is not one over an axis of attention");
    const uint8_t *note = walk->note;
    if (tiles->n_open == 0 && dt_certmemo_repeats(walk, note, at, end))
        return !walk->problem->len;
    uint32_t number = tiles->n_open++;
    tiles->regs[number] = item->reg;
    walk->taken[item->reg] = true;
    if (number == 0) {
        walk->opened = ++walk->clock;
        walk->holes.n = 0;
        dt_certmemo_begin(walk, note);
    }
    walk->open[item->reg] = walk->depth + 1;
    walk->count[item->reg] = item->count;
    each_write(walk, at + 1, end, spoil);
    walk->depth++;
    if (!walk_items(walk, at + 1, end))
        return false;
    if (tiles->open && walk->note < walk->end && *walk->note == DT_NOTE_BLOCK) {
        walk->note++;
        dt_certplan_block(walk);
    }
    if (walk->problem->len || tiles->open)
        return dt_certplan_fail(walk, "the blocks of attention have no end");
    if (number == 0)
        dt_certmemo_end(walk, at, end);
    walk->depth--;
    if (number == 0 && !dt_certplan_untile(walk))
        return false;
    forget(walk);
    dt_certplan_widen(walk, item->reg);
    walk->taken[item->reg] = false;
    walk->open[item->reg] = 0;
    walk->count[item->reg] = 0;
    return true;
}

static bool walk_micro(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    const uint8_t *notes = walk->note;
    const int64_t kept = walk->count[0];
    PlanRepeat repeat;
    if (item->reg != 0 || item->first != 0 || item->step != 1 || !walk->first_device ||
        item->count != walk->program->size[0] || walk->taken[0])
        return dt_certplan_fail(walk, "the loop over micro-batches runs %d times", item->count);
    walk->count[0] = 0;
    walk->taken[0] = true;
    dt_certplan_watch(walk, &repeat, at, end);
    for (int64_t t = 0; t < item->count; t++) {
        if (!may_iterate(walk, NULL))
            return false;
        walk->reg[0] = t;
        walk->note = notes;
        dt_certplan_turn(walk, &repeat);
        if (!walk_items(walk, at + 1, end))
            return false;
        PlanFrame *entry = walk->entries.n ? walk->entries.at[walk->entries.n - 1] : NULL;
        if (!return_to(walk, entry) ||
            (entry && entry->number == t && !dt_certplan_finish(walk, entry)))
            return false;
        t += dt_certplan_repeats(walk, &repeat, t);
    }
    dt_certplan_watched(walk, &repeat);
    walk->reg[0] = 0;
    walk->taken[0] = false;
    walk->count[0] = kept;
    return true;
}

/* ---- the results of loops ---- */

/* Records the slices of a stacked result, which are `step` bytes apart, as one value whose first
 * axis is the loop's. */
static void leave_slices(PlanWalk *walk, const CertOp *op, uint32_t number, const PlanFound *slice,
                         int64_t step)
{
    PlanPlace place = slice->place;
    if (place.rank == CERT_RANK)
        return;
    memmove(place.axis + 1, place.axis, place.rank * sizeof *place.axis);
    memmove(place.extent + 1, place.extent, place.rank * sizeof *place.extent);
    memmove(place.stride + 1, place.stride, place.rank * sizeof *place.stride);
    place.axis[0] = op->loop->axis;
    place.extent[0] = op->loop->count;
    place.stride[0] = step / place.size;
    place.rank++;
    dt_certplan_spans(&place);
    PlanRegion *region =
        dt_certplan_define(walk, walk->frame, op->first_out + number, &place, slice->added);
    region->arg = slice->arg;
    region->summed = slice->summed;
}

static bool is_at(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanFound *like,
                  int64_t base)
{
    PlanFinds found;
    PlanPlace place = like->place;
    place.base = base;
    const uint32_t n = dt_certplan_find(walk, frame, value, &place, &found);
    for (uint32_t k = 0; k < n; k++)
        if (found.at[k].added == like->added && found.at[k].summed == like->summed &&
            dt_certplan_alike(&found.at[k].place, &place)) {
            dt_certplan_log(walk, found.at[k].stamp);
            return true;
        }
    return false;
}

/* Whether the slice of each iteration is the same number of bytes after the previous one. */
static bool is_stacked(PlanWalk *walk, const CertOp *op, uint32_t value, const PlanRepeat *repeat,
                       const PlanFound *first, int64_t step)
{
    const CertLoop *loop = op->loop;
    if (first->place.bytes > step || step % first->place.size)
        return false;
    for (int64_t t = 1; t < loop->count; t++) {
        if (repeat->to && t >= repeat->from && t < repeat->to)
            continue;
        const int64_t number = loop->reverse ? loop->count - 1 - t : t,
                      away = loop->reverse ? -t : t;
        const PlanFrame *frame = dt_certplan_has_frame(walk, walk->frame, op, number);
        if (!frame || !is_at(walk, frame, value, first, first->place.base + away * step))
            return false;
    }
    return true;
}

/* Marks the sums that overlap a stacked sum as dead: its slices are now parts of the whole, and
 * count only there. */
static void take_over(PlanWalk *walk, const CertOp *op, uint32_t number)
{
    for (PlanRegion *whole = walk->frame->regions[op->first_out + number]; whole;
         whole = whole->next) {
        const PlanList *near = whole->kind == PLAN_ADDED && whole->alive
                                   ? dt_certplan_near(walk, &whole->place)
                                   : NULL;
        for (uint32_t i = 0; near && i < near->n; i++)
            if (near->at[i] != whole && near->at[i]->kind == PLAN_ADDED &&
                dt_certplan_meets(walk, &near->at[i]->place, &whole->place))
                near->at[i]->alive = false;
    }
}

/* Records at the end of a loop where result i lies as a whole, if the slices that its iterations
 * made lie at a constant distance in memory. False: no such place was found. */
static bool leave_stacked(PlanWalk *walk, const CertOp *op, const CertFunc *func, uint32_t i,
                          const PlanRepeat *repeat)
{
    bool any = false;
    const CertLoop *loop = op->loop;
    const int64_t last = loop->count - 1;
    const PlanFrame *first = dt_certplan_has_frame(walk, walk->frame, op, loop->reverse ? last : 0),
                    *second =
                        dt_certplan_has_frame(walk, walk->frame, op, loop->reverse ? last - 1 : 1);
    PlanFinds a, b = {.n = 0};
    const uint32_t value = func->results.at[i];
    if (!first)
        return false;
    dt_certplan_find(walk, first, value, NULL, &a);
    if (second)
        dt_certplan_find(walk, second, value, NULL, &b);
    for (uint32_t k = 0; k < a.n; k++) {
        PlanFound *slice = &a.at[k];
        dt_certplan_log(walk, slice->stamp);
        if (loop->count == 1 && (slice->added || !slice->summed)) {
            leave_slices(walk, op, i, slice, slice->place.bytes);
            any = true;
        }
        for (uint32_t n = 0; n < b.n && loop->count > 1; n++) {
            const int64_t step =
                (b.at[n].place.base - slice->place.base) * (loop->reverse ? -1 : 1);
            if ((slice->summed && !slice->added) ||
                !is_stacked(walk, op, value, repeat, slice, step))
                continue;
            PlanFound least = *slice;
            least.place.base -= loop->reverse ? last * step : 0;
            leave_slices(walk, op, i, &least, step);
            any = true;
        }
    }
    take_over(walk, op, i);
    return any;
}

/* Whether the slice of some iteration is still in flight. */
static bool is_awaited(const PlanWalk *walk, const PlanStack *stack)
{
    for (uint32_t i = 0; i < walk->started.n; i++) {
        const PlanStarted *started = &walk->started.at[i];
        if (started->frame->kind == PLAN_BODY && started->frame->op == stack->op &&
            !(started->sum && walk->plan->meta->pipeline) &&
            started->frame->outer == stack->frame &&
            started->value == stack->func->results.at[stack->number])
            return true;
    }
    return false;
}

/* Records the stacked results of loops whose slices are now all complete and not in flight. moved:
 * a loop whose stacked result one slice was just copied to; NULL: none. */
static void land(PlanWalk *walk, const CertOp *moved)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->stacks.n; i++) {
        PlanStack *stack = &walk->stacks.at[i];
        PlanFrame *frame = walk->frame;
        const bool skips = stack->left && stack->op != moved,
                   awaited = !skips && is_awaited(walk, stack);
        walk->frame = stack->frame;
        stack->waited = stack->waited || awaited;
        if (!skips && !awaited)
            stack->left |=
                leave_stacked(walk, stack->op, stack->func, stack->number, &stack->repeat);
        walk->frame = frame;
        if (stack->waited)
            walk->stacks.at[n++] = *stack;
    }
    walk->stacks.n = n;
}

static bool walk_body(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    PlanFrame *outer = walk->frame;
    const CertOp *op;
    const CertFunc *func = callee(walk, PLAN_BODY, "loop", &op);
    if (!func)
        return false;
    const CertLoop *loop = op->loop;
    if (item->count != loop->count || item->first != (loop->reverse ? loop->count - 1 : 0) ||
        item->step != (loop->reverse ? -1 : 1) || item->reg == 0 ||
        item->reg >= DT_PLAN_REG_SLOTS || walk->taken[item->reg])
        return dt_certplan_fail(walk, "register %u runs %d times from %d, the loop %lld times",
                                item->reg, item->count, item->first, (long long)loop->count);
    const uint8_t *notes = walk->note;
    PlanFrame *before = NULL;
    PlanRepeat repeat;
    walk->taken[item->reg] = true;
    dt_certplan_watch(walk, &repeat, at, end);
    for (int64_t t = 0; t < loop->count; t++) {
        if (!may_iterate(walk, func))
            return false;
        walk->note = notes;
        walk->reg[item->reg] = loop->reverse ? loop->count - 1 - t : t;
        PlanFrame *body = walk->frame =
            dt_certplan_frame(walk, PLAN_BODY, outer, func, op, walk->reg[item->reg]);
        body->reg = item->reg;
        body->before = before;
        before = body;
        dt_certplan_turn(walk, &repeat);
        if (!walk_items(walk, at + 1, end) || !return_to(walk, body))
            return false;
        if (walk->frame != body || walk->back)
            return dt_certplan_fail(walk, "a loop ends inside a call");
        t += dt_certplan_repeats(walk, &repeat, t);
    }
    dt_certplan_watched(walk, &repeat);
    walk->frame = outer;
    walk->reg[item->reg] = 0;
    walk->taken[item->reg] = false;
    for (uint32_t i = (uint32_t)loop->carried; i < func->results.n; i++)
        DT_PUSH(walk->scratch, walk->stacks, ((PlanStack){outer, op, func, i, false, false,
                                                          repeat}));
    land(walk, NULL);
    return true;
}

static bool walk_loop(PlanWalk *walk, uint32_t at, uint32_t end)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    if (item->reg >= DT_PLAN_REG_PERIOD) { /* a loop over actions of a pipeline, which plan_run.c
                                            * walks in order */
        walk->actions++;
        bool good = walk_items(walk, at + 1, end);
        walk->actions--;
        return good;
    }
    if (walk->actions)
        return dt_certplan_fail(walk, "a loop of register %u is among what a pipeline repeats",
                                item->reg);
    if (walk->tiles.open && walk->tiles.n_open < walk->tiles.n_loops)
        return walk_tiles(walk, at, end);
    switch (dt_certplan_note(walk)) {
    case DT_NOTE_LOOP: return walk_body(walk, at, end);
    case DT_NOTE_MICRO: return walk_micro(walk, at, end);
    case DT_NOTE_TILES: return walk_tiles(walk, at, end);
    default: return dt_certplan_fail(walk, "a loop has no note");
    }
}

/* ---- items that set and guard ---- */

/* Whether the instructions belong to a piece, or to an entry that is no schedule of pieces. */
static bool is_run_once(const PlanWalk *walk)
{
    const DtPlanName name = dt_certplan_at(walk);
    return !walk->plan->meta->pipeline || dt_plan_name_is_part(&name);
}

/* Follows a SET in the schedule of a stage: forgets memory whose address depends on the register
 * (plan_run.c follows its values). */
static bool set_action(PlanWalk *walk, uint32_t reg)
{
    if (is_run_once(walk) || (reg != 0 && reg < DT_PLAN_REG_SLOTS) || reg == DT_PLAN_REG_RINGBUF ||
        walk->taken[0])
        return dt_certplan_fail(walk, "register %u is set", reg);
    for (uint32_t a = 0; reg < DT_PLAN_ARG_REGS && a < DT_COUNT(walk->memory); a++)
        for (uint32_t i = 0; i < walk->memory[a].n; i++) {
            PlanRegion *region = walk->memory[a].at[i];
            bool moves = region->place.reg[reg] != 0;
            for (const PlanHole *hole = region->holes; hole; hole = hole->next)
                moves = moves || hole->place.reg[reg] != 0;
            region->alive = region->alive && !moves;
        }
    return true;
}

/* A SET of the ring's slot, which must advance by one; not allowed inside of blocks of attention,
 * which are walked once, or not at all (plan_memo.c). */
static bool set(PlanWalk *walk, const DtPlanSchedule *item)
{
    if (item->reg != DT_PLAN_REG_RINGBUF)
        return set_action(walk, item->reg);
    if (walk->back)
        return_to(walk, walk->back);
    if (!is_run_once(walk) || walk->actions || walk->depth || walk->guard > 1 || walk->last ||
        item->plus || item->count < 1 || (item->step && item->body != DT_PLAN_REG_RINGBUF))
        return dt_certplan_fail(walk, "register %u is set", item->reg);
    const int64_t value = item->step * walk->reg[DT_PLAN_REG_RINGBUF] + item->first;
    walk->reg[DT_PLAN_REG_RINGBUF] = (value % item->count + item->count) % item->count;
    return true;
}

/* Called before an item without a note: ends attention in blocks whose loops have all ended, if its
 * last note follows. */
static void end_tiles(PlanWalk *walk)
{
    if (!walk->back && walk->tiles.open && walk->tiles.n_loops == 0 && walk->note < walk->end &&
        *walk->note == DT_NOTE_BLOCK) {
        walk->note++;
        dt_certplan_block(walk);
    }
}

static bool walk_inst(PlanWalk *walk, const DtPlanInst *inst)
{
    walk->inst = inst;
    if (inst->kind == DT_INST_WAIT)
        end_tiles(walk);
    if (inst->instead)
        return dt_certplan_forms(walk, inst);
    const bool silent =
        inst->kind == DT_INST_ZERO || inst->kind == DT_INST_READ || inst->kind == DT_INST_WAIT;
    if (!dt_certplan_inst(walk, inst, silent ? 0 : dt_certplan_note(walk)))
        return false;
    if (inst->kind == DT_INST_WAIT)
        land(walk, NULL);
    return true;
}

static void skip_inst(PlanWalk *walk, const DtPlanInst *inst)
{
    walk->inst = inst;
    dt_certplan_skip(walk, inst, dt_certplan_note(walk));
}

/* Skips the notes of instructions that a guard does not run. They must be gathers ahead. */
static void skip(PlanWalk *walk, uint32_t from, uint32_t to)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = from; i < to && !walk->problem->len; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        const DtPlanBody *body = item->kind == DT_SCHED_RUN ? &plan->bodies[item->body] : NULL;
        for (uint32_t k = 0; body && k < body->n_insts && !walk->problem->len; k++)
            skip_inst(walk, &plan->insts[body->first_inst + k]);
        if (item->kind == DT_SCHED_WHEN) {
            const uint32_t kept = walk->guard;
            walk->guard = 1u + item->reg;
            skip(walk, i + 1, i + 1 + item->body);
            walk->guard = kept;
            i += item->body;
        }
    }
}

/* Called before an item without a note: reads the notes RETURN and ENTRY in front of the next
 * instructions, and leaves or begins frames accordingly. */
static void settle(PlanWalk *walk)
{
    while (!walk->back && !walk->tiles.open && walk->note < walk->end && !walk->problem->len &&
           (*walk->note == DT_NOTE_RETURN || *walk->note == DT_NOTE_ENTRY)) {
        const bool returns = *walk->note++ == DT_NOTE_RETURN;
        if (returns && !walk->frame)
            dt_certplan_fail(walk, "a note is of no function");
        else if (returns)
            leave(walk);
        else
            dt_certplan_begin(walk);
    }
}

/* Whether a guard selects the last micro-batch. A piece is walked once, for any micro-batch. Under
 * this guard it only sums over ranks the terms of all micro-batches (PART), so the guarded items
 * are walked as if in the last one. */
static bool is_last_guard(const PlanWalk *walk, const DtPlanSchedule *item)
{
    return walk->plan->meta->pipeline && item->reg == 0 && walk->count[0] && !walk->guard &&
           item->count == 1 && (uint32_t)item->first + 1 == dt_certplan_n_micro(walk);
}

static bool when(PlanWalk *walk, uint32_t at)
{
    const DtPlanSchedule *item = &walk->plan->schedule[at];
    const uint32_t kept = walk->guard, end = at + 1 + item->body;
    end_tiles(walk);
    settle(walk);
    const PlanFrame *frame = walk->frame;
    if (!is_run_once(walk) || walk->tiles.open || walk->back || walk->last || !frame)
        return dt_certplan_fail(walk, "a guard is out of place");
    if (is_last_guard(walk, item)) {
        walk->last = true;
        walk->guard = 1;
        const bool good = walk_items(walk, at + 1, end);
        walk->last = false;
        walk->guard = kept;
        return good &&
               (walk->frame == frame || dt_certplan_fail(walk, "a guard ends in another function"));
    }
    if (walk->count[item->reg] || !walk->taken[item->reg])
        return dt_certplan_fail(walk, "a guard is out of place");
    const int64_t value = walk->reg[item->reg];
    walk->guard = 1u + item->reg;
    if (value >= item->first && value < (int64_t)item->first + item->count) {
        if (!walk_items(walk, at + 1, end))
            return false;
    } else {
        walk->skips = true;
        skip(walk, at + 1, end);
        walk->skips = false;
    }
    walk->guard = kept;
    return return_to(walk, frame) &&
           (walk->frame == frame || dt_certplan_fail(walk, "a guard ends in a gather"));
}

static bool walk_items(PlanWalk *walk, uint32_t from, uint32_t to)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        walk->inst = NULL;
        if (item->kind == DT_SCHED_LOOP) {
            uint32_t end = end_of(plan, i);
            if (!walk_loop(walk, i, end))
                return false;
            i = end;
        } else if (item->kind == DT_SCHED_CALL) {
            if (!dt_certplan_called(walk, item))
                return false;
        } else if (item->kind == DT_SCHED_SET) {
            if (!set(walk, item))
                return false;
        } else if (item->kind == DT_SCHED_WHEN) {
            if (!when(walk, i))
                return false;
            i += item->body;
        } else if (item->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[item->body];
            for (uint32_t k = 0; k < body->n_insts; k++)
                if (!walk_inst(walk, &plan->insts[body->first_inst + k]))
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
    dt_certplan_note(walk);
    if (walk->tiles.open)
        return dt_certplan_fail(walk, "the blocks of attention have no end");
    return !walk->problem->len && dt_certplan_landed(walk) &&
           (walk->note == walk->end || dt_certplan_fail(walk, "a note has no instruction"));
}
