/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules of all stages, run together: every piece runs once per micro-batch, finds in its slots what belongs to
 * that micro-batch, channels deliver what was sent, stages meet where all of them come, and none waits for ever. */
#include "verify/plan_pipe.h"

#include <string.h>

typedef struct Action {
    uint32_t kind : 8,
        index : 24; /* DT_SCHED_CALL of an entry, or 128 + DtPlanInstKind of a channel or group */
    uint32_t micro;
    uint16_t slot[DT_PLAN_N_SLOTS];
} Action;
enum { SENDS = 128 + DT_INST_SEND, RECEIVES = 128 + DT_INST_RECV, MEETS = 128 + DT_INST_ALL_REDUCE,
       MOST_ACTIONS = 1 << 24, MOST_ITEMS = 1 << 27 };

typedef struct Queue {
    uint32_t *micro, n, first;
} Queue;

typedef DT_VEC(int32_t) Held; /* by slot: the micro-batch that is there, -1: none */

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* A stage on its way through the schedule of an entry. */
typedef struct Course {
    uint32_t at, end, inst; /* items; instructions of the item's body behind us */
    uint32_t n_open, n, n_items; /* loops around us; actions and items so far */
    struct {
        uint32_t item;
        int64_t left; /* iterations, with the present one */
    } open[DT_PLAN_MAX_DEPTH];
    int64_t reg[DT_PLAN_REGS];
    bool waits; /* `now` is still to be done */
    Action now;
} Course;

struct PlanRun {
    Course *courses; /* by stage */
    Queue *queues;   /* by channel */
    Held *held;      /* by store, on each stage */
    uint8_t **left; /* by stage: which of what was gathered for other pieces is there; NULL: none yet */
};

static bool set_register(PlanWalk *walk, Course *course, uint32_t reg, int64_t value)
{
    course->reg[reg] = value;
    bool is_slot = reg >= DT_PLAN_REG_SLOTS && reg < DT_PLAN_REG_SLOTS + DT_PLAN_N_SLOTS;
    return !is_slot || (value >= 0 && value < DT_PLAN_MAX_SLOTS) ||
           dt_certplan_fail(walk, "slot %lld", (long long)value);
}

static bool act(PlanWalk *walk, Course *course, uint32_t kind, uint32_t index)
{
    Action *action = &course->now;
    if (course->reg[0] < 0 || course->reg[0] > INT32_MAX || index > 0xffffff)
        return dt_certplan_fail(walk, "action %u of micro-batch %lld", index, (long long)course->reg[0]);
    *action = (Action){.kind = kind & 255, .index = index & 0xffffff, .micro = (uint32_t)course->reg[0]};
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        action->slot[g] = (uint16_t)course->reg[DT_PLAN_REG_SLOTS + g];
    return ++course->n <= MOST_ACTIONS ||
           dt_certplan_fail(walk, "the schedule has more than %d actions", MOST_ACTIONS);
}

/* The next iteration of the innermost loop, if there is one. */
static bool end_iteration(PlanWalk *walk, Course *course)
{
    const DtPlanSchedule *loop = &walk->plan->schedule[course->open[course->n_open - 1].item];
    if (--course->open[course->n_open - 1].left == 0) {
        course->n_open--;
        course->reg[loop->reg] = 0;
        return true;
    }
    course->at = course->open[course->n_open - 1].item;
    return set_register(walk, course, loop->reg, course->reg[loop->reg] + loop->step);
}

static bool set_by(PlanWalk *walk, Course *course, const DtPlanSchedule *item)
{
    int64_t value = item->step * course->reg[item->body] + (item->plus ? course->reg[item->plus] : 0) + item->first;
    if (item->count)
        value = (value % item->count + item->count) % item->count;
    return set_register(walk, course, item->reg, value);
}

/* It waits for, or sends to, other stages. */
static bool is_between(const DtPlan *plan, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV ||
           (inst->kind == DT_INST_ALL_REDUCE && plan->groups[inst->ref].mask >> (plan->meta->pipeline - 1) & 1);
}

/* Goes on up to the next action; false: there is none, or a failure. */
static bool go_on(PlanWalk *walk, Course *course)
{
    const DtPlan *plan = walk->plan;
    for (bool good = true; good && course->at < course->end; course->at++) {
        const DtPlanSchedule *item = &plan->schedule[course->at];
        if (++course->n_items > MOST_ITEMS)
            return dt_certplan_fail(walk, "the schedule has more than %d items", MOST_ITEMS);
        if (item->kind == DT_SCHED_SET) {
            good = set_by(walk, course, item);
        } else if (item->kind == DT_SCHED_LOOP) {
            course->open[course->n_open].item = course->at;
            course->open[course->n_open++].left = item->count;
            good = set_register(walk, course, item->reg, item->first);
        } else if (item->kind == DT_SCHED_END) {
            good = end_iteration(walk, course);
        } else if (item->kind == DT_SCHED_CALL) {
            course->at++;
            return act(walk, course, DT_SCHED_CALL, item->body);
        } else if (item->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[item->body];
            while (course->inst < body->n_insts) {
                const DtPlanInst *inst = &plan->insts[body->first_inst + course->inst++];
                if (is_between(plan, inst))
                    return act(walk, course, 128u + inst->kind, inst->ref);
            }
            course->inst = 0;
        }
    }
    return false;
}

/* The slot of the store at this place that the registers say. */
static int32_t *slot_at(PlanWalk *walk, uint32_t place, const Action *action)
{
    struct PlanPipe *pipe = walk->pipe;
    Held *held = &pipe->run->held[place];
    uint32_t slot = pipe->places[place] ? action->slot[pipe->places[place] - DT_PLAN_REG_SLOTS] : 0;
    while (held->n <= slot)
        DT_PUSH(walk->arena, *held, -1);
    return &held->at[slot];
}

static void list_slots(PlanWalk *walk, Piece *piece)
{
    for (uint32_t i = 0; i < piece->uses.n; i++) {
        const Uses *uses = &piece->uses.at[i];
        if (uses->name)
            continue;
        Slot slot = {uses->store, dt_cert_place(&walk->program->stores.at[uses->store], piece->stage)};
        if (uses->written)
            DT_PUSH(walk->arena, piece->writes, slot);
        else
            DT_PUSH(walk->arena, piece->reads, slot);
    }
}

/* What others gathered for it is there; and what it leaves to others. */
static bool takes_ring(PlanWalk *walk, const Piece *piece, Course *course)
{
    const struct PlanPipe *pipe = walk->pipe;
    const uint64_t ring = (uint64_t)course->reg[DT_PLAN_REG_RINGBUF];
    if (piece->turns.n > 1 && ring >= piece->turns.n)
        return dt_certplan_fail(walk, "%s begins with slot %llu of a ring", piece->of->name, (unsigned long long)ring);
    const Turn *turn = piece->turns.at[piece->turns.n > 1 ? ring : 0];
    uint8_t *left = pipe->run->left[piece->stage];
    if (turn->finds.n + turn->leaves.n && !left)
        left = pipe->run->left[piece->stage] = DT_NEW_ARRAY(walk->arena, uint8_t, pipe->gathered.n + 1);
    for (uint32_t i = 0; i < turn->finds.n; i++)
        if (!left[turn->finds.at[i]])
            return dt_certplan_fail(walk, "%s does not find what was gathered ahead", piece->of->name);
    for (uint32_t i = 0; left && i < pipe->gathered.n; i++)
        left[i] = left[i] && !dt_certplan_loses(walk, turn, &pipe->gathered.at[i]);
    for (uint32_t i = 0; i < turn->leaves.n; i++)
        left[turn->leaves.at[i]] = 1;
    if (piece->turns.n > 1 || turn->begins)
        course->reg[DT_PLAN_REG_RINGBUF] = turn->ring;
    return true;
}

static bool run_piece(PlanWalk *walk, Piece *piece, Course *course)
{
    const Action *action = &course->now;
    if (!takes_ring(walk, piece, course))
        return false;
    if (!piece->listed)
        list_slots(walk, piece);
    piece->listed = true;
    for (uint32_t i = 0; i < piece->reads.n; i++)
        if (*slot_at(walk, piece->reads.at[i].place, action) != (int32_t)action->micro)
            return dt_certplan_fail(walk, "%s of micro-batch %u reads %s of another", piece->of->name, action->micro,
                                    walk->program->stores.at[piece->reads.at[i].store].path);
    for (uint32_t i = 0; i < piece->writes.n; i++)
        *slot_at(walk, piece->writes.at[i].place, action) = (int32_t)action->micro;
    if (!piece->main->ran)
        piece->main->ran = DT_NEW_ARRAY(walk->arena, uint8_t, dt_certplan_n_micro(walk));
    if (action->micro >= dt_certplan_n_micro(walk) || piece->main->ran[action->micro]++)
        return dt_certplan_fail(walk, "%s runs twice for micro-batch %u", piece->of->name,
                                action->micro);
    return true;
}

typedef enum Outcome { DONE, WAITS, WRONG } Outcome;

static Outcome send(PlanWalk *walk, Queue *queue, uint32_t slots, const char *path, int32_t *slot,
                    uint32_t micro)
{
    if (queue->n == slots)
        return WAITS;
    if (*slot != (int32_t)micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is sent, which is not there", path, micro);
        return WRONG;
    }
    queue->micro[(queue->first + queue->n++) % slots] = micro;
    return DONE;
}

static Outcome receive(PlanWalk *walk, Queue *queue, uint32_t slots, const char *path, int32_t *slot,
                       uint32_t micro)
{
    if (queue->n == 0)
        return WAITS;
    if (queue->micro[queue->first] != micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is received as that of %u", path,
                         queue->micro[queue->first], micro);
        return WRONG;
    }
    queue->first = (queue->first + 1) % slots;
    queue->n--;
    *slot = (int32_t)micro;
    return DONE;
}

static bool is_of(uint64_t stages, uint32_t stage) { return !stages || (stage < 64 && stages >> stage & 1); }

/* All stages of the group go on when the last of them comes. */
static Outcome meet(PlanWalk *walk, uint32_t stage, uint32_t group)
{
    const DtPlan *plan = walk->plan;
    Course *courses = walk->pipe->run->courses;
    const uint64_t stages = plan->groups[group].stages;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        if (s != stage && is_of(stages, s) &&
            !(courses[s].waits && courses[s].now.kind == MEETS && courses[s].now.index == group))
            return WAITS;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        courses[s].waits = courses[s].waits && !is_of(stages, s);
    return is_of(stages, stage) ? DONE : WRONG;
}

static Outcome run_action(PlanWalk *walk, uint32_t stage, Course *course)
{
    struct PlanPipe *pipe = walk->pipe;
    const Action *action = &course->now;
    if (action->kind == DT_SCHED_CALL) {
        Piece *piece = pipe->by_entry[action->index];
        return piece && piece->stage == stage && run_piece(walk, piece, course) ? DONE : WRONG;
    }
    if (action->kind == MEETS)
        return meet(walk, stage, action->index);
    const DtPlanChannel *channel = &walk->plan->channels[action->index];
    Queue *queue = &pipe->run->queues[action->index];
    const int number = pipe->carries[action->index];
    if (number < 0)
        return WRONG;
    const CertStore *to = &walk->program->stores.at[number];
    bool sends = action->kind == SENDS;
    const CertStore *store = sends ? &walk->program->stores.at[dt_cert_source(to, channel->from)] : to;
    int32_t *slot = slot_at(walk, dt_cert_place(store, stage), action);
    if (!queue->micro)
        queue->micro = DT_NEW_ARRAY(walk->arena, uint32_t, channel->slots + 1);
    return (sends ? send : receive)(walk, queue, channel->slots, to->path, slot, action->micro);
}

/* As far as the stage comes. DONE: to the end. */
static Outcome run_stage(PlanWalk *walk, uint32_t stage, Course *course, bool *moved)
{
    walk->stage = stage;
    for (;;) {
        if (!course->waits && !go_on(walk, course))
            return walk->problem->len ? WRONG : DONE;
        const Outcome outcome = run_action(walk, stage, course);
        if (outcome == WRONG)
            dt_certplan_fail(walk, "the schedule of stage %u runs what is not its own", stage);
        course->waits = outcome == WAITS;
        *moved = *moved || outcome == DONE;
        if (outcome != DONE)
            return outcome;
    }
}

/* Runs the entries of this name on all stages. */
static bool run_stages(PlanWalk *walk, const char *name)
{
    const DtPlan *plan = walk->plan;
    const uint32_t n = dt_plan_stages(plan);
    uint32_t done = 0;
    struct PlanRun *run = walk->pipe->run = DT_NEW(walk->arena, struct PlanRun);
    run->courses = DT_NEW_ARRAY(walk->arena, Course, n + 1);
    for (uint32_t i = 0; i < plan->n_entries; i++) {
        const DtPlanEntry *entry = &plan->entries[i];
        for (uint32_t s = 0; s < n && is(dt_plan_str(plan, entry->name), name); s++)
            if (dt_plan_on_stage(entry->stage, s))
                run->courses[s] = (Course){.at = entry->first, .end = entry->first + entry->count};
    }
    run->queues = DT_NEW_ARRAY(walk->arena, Queue, plan->n_channels + 1);
    run->left = DT_NEW_ARRAY(walk->arena, uint8_t *, n + 1);
    run->held = DT_NEW_ARRAY(walk->arena, Held, walk->program->n_places + 1);
    for (bool moved = true; moved && done < n;) {
        moved = false;
        done = 0;
        for (uint32_t s = 0; s < n; s++) {
            const Outcome outcome = run_stage(walk, s, &run->courses[s], &moved);
            if (outcome == WRONG)
                return false;
            done += outcome == DONE;
        }
    }
    walk->stage = n; /* of all of them */
    if (done < n)
        return dt_certplan_fail(walk, "the stages of `%s` wait for each other", name);
    for (uint32_t c = 0; c < plan->n_channels; c++)
        if (run->queues[c].n)
            return dt_certplan_fail(walk, "channel %u of `%s` is never emptied", c, name);
    return true;
}

/* Every piece of the program is in the plan and ran for every micro-batch (in "predict": for one). */
static bool ran_all(PlanWalk *walk, const char *run, const char *name)
{
    for (uint32_t e = 0; e < walk->program->entries.n; e++) {
        const CertEntry *entry = &walk->program->entries.at[e];
        size_t len = strlen(run);
        int64_t n = 0;
        if (strncmp(entry->name, run, len) != 0 || entry->name[len] != '.' ||
            strstr(entry->name, ".prologue"))
            continue;
        for (uint32_t i = 0; i < walk->pipe->pieces.n; i++) {
            const Piece *piece = walk->pipe->pieces.at[i];
            if (piece->of != entry || !piece->ran)
                continue;
            n++;
            for (uint32_t m = 0; m < (is(run, "predict") ? 1 : dt_certplan_n_micro(walk)); m++)
                if (!piece->ran[m])
                    return dt_certplan_fail(walk, "`%s` does not run %s of micro-batch %u", name,
                                            entry->name, m);
        }
        if (n != entry->to - entry->stage + 1)
            return dt_certplan_fail(walk, "`%s` runs %s on %lld stages", name, entry->name,
                                    (long long)n);
    }
    return true;
}

bool dt_certplan_queues(PlanWalk *walk)
{
    static const char *const names[][2] = {
        {"step", "grad"}, {"eval", "eval"}, {"predict", "predict"}, {"update", ""}};
    for (size_t i = 0; walk->plan->meta->pipeline && i < DT_COUNT(names); i++) {
        bool there = false;
        for (uint32_t e = 0; e < walk->plan->n_entries; e++)
            there = there || is(dt_plan_str(walk->plan, walk->plan->entries[e].name), names[i][0]);
        if (there && (!run_stages(walk, names[i][0]) || (names[i][1][0] && !ran_all(walk, names[i][1], names[i][0]))))
            return false;
    }
    return true;
}
