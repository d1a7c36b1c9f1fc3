/* SPDX-License-Identifier: Apache-2.0 */
/* Executions of functions: a value of the program belongs to a frame, which is an entry for a
 * micro-batch, a call in another frame, or an iteration of a loop in one. The same execution
 * always has the same frame, so a gather that was prefetched for an iteration is there when the
 * iteration runs. A gather of stored parameters is the same in all micro-batches: it belongs to
 * a frame of none of them. */
#include "verify/plan_internal.h"

#include <string.h>

typedef struct PlanMakers {
    const CertFunc *func;
    const CertOp **maker;
    uint8_t *made_anew; /* as PlanFrame.made_anew; shared by all frames of the function */
    struct PlanMakers *next;
} PlanMakers;

static const PlanMakers *makers_of(PlanWalk *walk, const CertFunc *func)
{
    PlanMakers **at = &walk->makers[((uintptr_t)func >> 5) % DT_COUNT(walk->makers)];
    for (PlanMakers *known = *at; known; known = known->next)
        if (known->func == func)
            return known;
    PlanMakers *makers = DT_NEW(walk->arena, PlanMakers);
    makers->func = func;
    makers->maker = DT_NEW_ARRAY(walk->arena, const CertOp *, func->n_values + 1);
    makers->made_anew = DT_NEW_ARRAY(walk->arena, uint8_t, func->n_values + 1);
    makers->next = *at;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            makers->maker[func->ops.at[i]->first_out + k] = func->ops.at[i];
    return *at = makers;
}

static uint32_t hash(const PlanFrame *outer, const void *what, int64_t number)
{
    const uint64_t mixed =
        ((uint64_t)(uintptr_t)outer * 31 + (uint64_t)(uintptr_t)what) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((mixed + (uint64_t)number * 0xd1342543de82ef95u) >> 32);
}

static PlanFrame **place_of(const PlanWalk *walk, const PlanFrame *outer, const void *what,
                            int64_t number)
{
    return &walk->frames[hash(outer, what, number) & (walk->most_frames - 1)];
}

static const void *what_of(const PlanFrame *frame)
{
    return frame->kind == PLAN_ENTRY ? (const void *)frame->entry : (const void *)frame->op;
}

PlanFrame *dt_certplan_has_frame(const PlanWalk *walk, const PlanFrame *outer, const void *what,
                                 int64_t number)
{
    PlanFrame *frame = walk->most_frames ? *place_of(walk, outer, what, number) : NULL;
    while (frame && (frame->outer != outer || what_of(frame) != what || frame->number != number))
        frame = frame->next;
    return frame;
}

static void add(PlanWalk *walk, PlanFrame *frame)
{
    PlanFrame **at = place_of(walk, frame->outer, what_of(frame), frame->number);
    frame->next = *at;
    *at = frame;
}

static void make_room(PlanWalk *walk)
{
    const uint32_t n = walk->most_frames;
    PlanFrame **const old = walk->frames;
    if (walk->n_frames++ < n)
        return;
    walk->most_frames = n ? 4 * n : 64;
    walk->frames = DT_NEW_ARRAY(walk->scratch, PlanFrame *, walk->most_frames);
    for (uint32_t i = 0; i < n; i++)
        for (PlanFrame *frame = old[i], *next; frame; frame = next) {
            next = frame->next;
            add(walk, frame);
        }
}

PlanFrame *dt_certplan_frame(PlanWalk *walk, PlanFrameKind kind, PlanFrame *outer,
                             const CertFunc *func, const void *what, int64_t number)
{
    PlanFrame *frame = dt_certplan_has_frame(walk, outer, what, number);
    if (frame)
        return frame;
    const PlanMakers *makers = makers_of(walk, func);
    frame = DT_NEW(walk->scratch, PlanFrame);
    *frame = (PlanFrame){.kind = kind, .outer = outer, .func = func, .number = number,
                         .maker = makers->maker};
    if (kind == PLAN_ENTRY)
        frame->entry = what;
    else
        frame->op = what;
    frame->made_anew = kind == PLAN_CALL ? DT_NEW_ARRAY(walk->scratch, uint8_t, func->n_values + 1)
                                         : makers->made_anew;
    frame->regions = DT_NEW_ARRAY(walk->scratch, PlanRegion *, func->n_values + 1);
    frame->done = DT_NEW_ARRAY(walk->scratch, bool, func->n_values + 1);
    make_room(walk);
    add(walk, frame);
    return frame;
}

void dt_certplan_renumber(PlanWalk *walk, PlanFrame *frame, int64_t number)
{
    PlanFrame **at = place_of(walk, frame->outer, what_of(frame), frame->number);
    while (*at != frame)
        at = &(*at)->next;
    *at = frame->next;
    frame->number = number;
    add(walk, frame);
}

/* ---- values of a frame ---- */

static const CertOp *op_in(PlanWalk *walk, const PlanFrame *frame, uint64_t value)
{
    if (frame && value < frame->func->n_values && frame->maker[value] &&
        frame->maker[value]->first_out == value)
        return frame->maker[value];
    dt_certplan_fail(walk, "a note names no op");
    return NULL;
}

const CertOp *dt_certplan_op(PlanWalk *walk, uint64_t value)
{
    return op_in(walk, walk->frame, value);
}

const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value)
{
    const CertOp *op = frame->maker[value];
    return op ? op->types[value - op->first_out] : frame->func->args.at[value];
}

bool dt_certplan_is_inline(const PlanFrame *frame, uint32_t value)
{
    const CertOp *op = frame->maker[value];
    if (!op)
        return frame->kind == PLAN_CALL &&
               dt_certplan_is_inline(frame->outer, frame->op->in[value]);
    if (strcmp(op->kind, "rng") == 0) /* checked again, to get the number of the element */
        return true;
    if (strcmp(op->kind, "const") == 0 || strcmp(op->kind, "iota") == 0)
        return !op->types[0]->rank || !op->types[0]->axes[0].n || !op->types[0]->axes[0].zigzag;
    uint8_t *found = &frame->made_anew[value];
    bool is = *found != 1 && op->rule && op->rule->map;
    for (uint32_t i = 0; is && *found == 0 && i < op->n_in; i++)
        is = dt_certplan_is_inline(frame, op->in[i]);
    *found = is ? 2 : 1;
    return is;
}

/* ---- for messages ---- */

static void say_value(const PlanWalk *walk, const PlanRegion *region, DtText *text)
{
    for (uint32_t h = 0; h < walk->most_frames; h++)
        for (const PlanFrame *frame = walk->frames[h]; frame; frame = frame->next) {
            if (region->of < frame->regions || region->of >= frame->regions + frame->func->n_values)
                continue;
            const uint32_t value = (uint32_t)(region->of - frame->regions);
            dt_text_printf(text, "value %u (%s) of function %s", value,
                           frame->maker[value] ? frame->maker[value]->kind : "input",
                           frame->func->name);
            dt_certplan_say_frame(frame, text);
            return;
        }
    dt_text_add(text, "a value");
}

void dt_certplan_say_there(PlanWalk *walk, const PlanPlace *place, DtText *text)
{
    const PlanList *near = dt_certplan_near(walk, place);
    const PlanRegion *region = NULL;
    for (uint32_t i = 0; i < near->n; i++)
        if (near->at[i]->alive && dt_certplan_meets(walk, &near->at[i]->place, place))
            region = near->at[i];
    dt_text_add(text, !region ? "nothing is" : region->kind == PLAN_ZERO ? "zeros are" : "");
    if (region && region->kind == PLAN_STORE)
        dt_text_printf(text, "store %s is", walk->program->stores.at[region->id].path);
    if (region && region->kind == PLAN_INPUT)
        dt_text_printf(text, "input %s is", region->name ? region->name : "of another piece");
    if (region && (region->kind == PLAN_VALUE || region->kind == PLAN_ADDED)) {
        say_value(walk, region, text);
        dt_text_add(text, region->kind == PLAN_ADDED ? " was added" : " is");
    }
    dt_text_add(text, " there");
}

/* ---- gathers ahead ---- */

bool dt_certplan_is_ahead(const CertOp *op) { return op && op->ahead > 0; }

/* Whether only updates change the store. */
static bool is_kept(const PlanWalk *walk, int64_t store)
{
    const char *kind = store < 0 ? "" : walk->program->stores.at[store].kind;
    return strcmp(kind, "param") == 0 || strcmp(kind, "average") == 0;
}

/* Whether a value is the same in all micro-batches: it is a stored parameter or its average, or a
 * gather or part of one. */
static bool is_still(const PlanWalk *walk, const PlanFrame *frame, uint32_t value)
{
    static const char *const views[] = {"relabel", "slice", "stop", "unpack"};
    const CertOp *op = frame->maker[value];
    if (!op)
        return frame->kind == PLAN_BODY && value > frame->op->loop->carried &&
               is_still(walk, frame->outer, frame->op->in[value - 1]);
    if (strcmp(op->kind, "param") == 0)
        return is_kept(walk, op->store);
    bool view = dt_certplan_is_ahead(op);
    for (size_t i = 0; i < DT_COUNT(views); i++)
        view = view || strcmp(op->kind, views[i]) == 0;
    return view && is_still(walk, frame, op->in[0]);
}

static PlanFrame *of_any(PlanWalk *walk, const PlanFrame *frame)
{
    if (frame->kind == PLAN_ENTRY)
        return dt_certplan_frame(walk, PLAN_ENTRY, NULL, frame->func, frame->entry, PLAN_ANY);
    return dt_certplan_frame(walk, frame->kind, of_any(walk, frame->outer), frame->func, frame->op,
                             frame->number);
}

PlanFrame *dt_certplan_home(PlanWalk *walk, const PlanFrame *frame, uint32_t value)
{
    if (!dt_certplan_is_ahead(frame->maker[value]) || !is_still(walk, frame, value))
        return (PlanFrame *)(uintptr_t)frame;
    return of_any(walk, frame);
}

/* Whether func has the operands and results of the op, a plain call or a loop. */
bool dt_certplan_takes(const CertOp *op, const CertFunc *func, PlanFrameKind kind)
{
    const CertLoop *loop = op->loop;
    if (kind == PLAN_CALL)
        return op->n_in == func->n_args && op->n_out == func->results.n && !op->n_axes && !op->mesh;
    return loop && func->n_args == 1 + op->n_in && op->n_out == func->results.n &&
           op->n_in == loop->carried + loop->invariant + loop->stacked &&
           op->n_out == loop->carried + loop->stacked_out;
}

static int64_t ahead_of(const CertFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (dt_certplan_is_ahead(func->ops.at[i]))
            return func->ops.at[i]->ahead;
    return 0;
}

/* The iteration that the note names, counted from the first one that runs. */
static int64_t turn_of(const PlanFrame *now, bool named, bool inside, int64_t number, int64_t ahead)
{
    const CertLoop *loop = inside ? now->op->loop : NULL;
    const int64_t turn = !inside ? 0 : loop->reverse ? loop->count - 1 - now->number : now->number;
    return !named ? turn + number : inside ? turn + ahead - loop->count : number;
}

bool dt_certplan_ahead(PlanWalk *walk)
{
    PlanFrame *now = walk->frame, *outer = now;
    const uint64_t named = dt_certplan_word(walk);
    uint64_t number = dt_certplan_word(walk);
    const bool inside = now->kind == PLAN_BODY && walk->guard == 1 + now->reg;
    if (walk->tiles.open || walk->back || walk->problem->len || (!named && !inside) ||
        number > PLAN_BYTES)
        return dt_certplan_fail(walk, "a note of gathers ahead is out of place");
    if (inside)
        outer = now->outer;
    if (named && inside && number) { /* a loop of another piece */
        const CertEntry *entry = dt_certplan_piece(walk, (number - 1) / DT_NOTE_PHASES,
                                                   (uint32_t)((number - 1) % DT_NOTE_PHASES));
        if (!entry || !entry->func)
            return dt_certplan_fail(walk, "gathers ahead are of no piece");
        outer = dt_certplan_frame(walk, PLAN_ENTRY, NULL, entry->func, entry, PLAN_ANY);
        number = 0;
    }
    const CertOp *op = named ? op_in(walk, outer, named - 1) : now->op;
    const CertFunc *func =
        op && op->loop && op->func ? dt_certtext_func(walk->program, op->func) : NULL;
    if (!func || !dt_certplan_takes(op, func, PLAN_BODY))
        return dt_certplan_fail(walk, "gathers ahead are of no loop");
    int64_t turn = turn_of(now, named, inside, (int64_t)number, ahead_of(func));
    if (walk->skips)
        turn = 0;
    if (turn < 0 || turn >= op->loop->count)
        return dt_certplan_fail(walk, "gathers ahead are of iteration %lld of %lld",
                                (long long)turn, (long long)op->loop->count);
    if (op->loop->reverse)
        turn = op->loop->count - 1 - turn;
    walk->back = now;
    walk->frame = dt_certplan_frame(walk, PLAN_BODY, outer, func, op, turn);
    return true;
}

/* ---- results of earlier iterations ---- */

/* Makes the earlier iteration that a note names the current frame, until the next instruction is
 * done. False: it has not run. */
bool dt_certplan_behind(PlanWalk *walk)
{
    PlanFrame *now = walk->frame, *then;
    const uint64_t named = dt_certplan_word(walk), number = dt_certplan_word(walk);
    const bool inside = now->kind == PLAN_BODY && walk->guard == 1 + now->reg;
    if (walk->tiles.open || walk->back || walk->problem->len ||
        (named ? walk->guard != 0 : !inside) || number > PLAN_BYTES)
        return dt_certplan_fail(walk, "a note of an earlier iteration is out of place");
    const CertOp *op = named ? op_in(walk, now, named - 1) : now->op;
    if (!op || !op->loop)
        return dt_certplan_fail(walk, "an earlier iteration is of no loop");
    const int64_t turn = (int64_t)number, last = op->loop->count - 1;
    if (named)
        then = dt_certplan_has_frame(walk, now, op, op->loop->reverse ? last - turn : turn);
    else if (walk->skips)
        then = now;
    else
        then = dt_certplan_has_frame(walk, now->outer, op,
                                     now->number + (op->loop->reverse ? turn : -turn));
    if (!then)
        return dt_certplan_fail(walk, "an earlier iteration, %lld, did not run", (long long)turn);
    walk->back = now;
    walk->frame = then;
    walk->behind = true;
    return true;
}

/* ---- gathers that a piece expects ---- */

bool dt_certplan_assume(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                        const PlanPlace *place)
{
    const DtPlanName name = dt_certplan_at(walk);
    if (!walk->plan->meta->pipeline || !dt_plan_name_is_part(&name))
        return false;
    PlanFinds found;
    walk->trial = true;
    walk->trial_frame = NULL;
    const uint32_t n = dt_certplan_find(walk, frame, value, NULL, &found);
    walk->trial = false;
    if (n != 1 || !walk->trial_frame)
        return false;
    PlanPlace at = {.arena = place->arena, .base = place->base - found.at[0].place.base};
    dt_certplan_dense(walk, dt_certplan_type(walk->trial_frame, walk->trial_value), &at);
    return dt_certplan_finds(walk, walk->trial_frame, walk->trial_value, &at);
}
