/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the schedules of all stages together: every piece runs once per micro-batch and finds
 * that micro-batch's values in its slots, channels deliver what was sent, stages meet in
 * collectives, and none waits for ever.
 *
 * They are run twice. First as on ranks without asynchronous messages: a message is sent where
 * it is started, into a slot of its channel, and received where it is waited for; in between
 * nothing writes the slot that it leaves, and nothing touches the slot that it fills. Then as on
 * devices with queues: direct channels have no slots, a message is transferred once both of its
 * ends have begun, and what a stage has started blocks everything after it, in whatever queue
 * that is. The second run only checks for deadlocks. */
#include "verify/plan_pipe.h"

#include <string.h>

typedef struct Action {
    uint32_t kind : 8,
        index : 24; /* DT_SCHED_CALL for the call of an entry, or 128 + DtPlanInstKind for an
                     * instruction on a channel or group */
    uint32_t micro;
    uint16_t slot[DT_PLAN_N_SLOTS];
    uint32_t event; /* SENDS, RECEIVES: under which it is started, 0: it is not only that */
} Action;
enum { SENDS = 128 + DT_INST_SEND, RECEIVES = 128 + DT_INST_RECV, MEETS = 128 + DT_INST_ALL_REDUCE,
       AWAITS = 128 + DT_INST_WAIT, /* waits for a message; index: its event */
       MOST_ACTIONS = 1 << 24, MOST_ITEMS = 1 << 27 };

/* A channel: the micro-batches of the messages that were sent and not yet received, in order. */
typedef struct Queue {
    uint32_t *micro, n, first;
    uint32_t begun[2]; /* with queues: number of messages that its receiving and its sending end
                        * have begun */
    Action open[2];    /* the message that each end has started and not yet waited for; kind 0:
                        * none */
} Queue;

/* What is in a slot. */
enum { COMES = -2 };
typedef struct HeldSlot {
    int32_t micro;   /* the micro-batch that it holds; -1: none; COMES: one is being received into
                      * it */
    uint32_t leaves; /* messages in flight that read it */
} HeldSlot;
typedef DT_VEC(HeldSlot) Held; /* by slot */

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* How far a stage has come in the schedule of an entry. */
typedef struct Course {
    uint32_t at, end, inst; /* range of items; instructions of the present item's body that are
                             * done */
    uint32_t n_open, n, n_items; /* number of open loops; of actions and of items so far */
    struct {
        uint32_t item;
        int64_t left; /* iterations that are left, including the present one */
    } open[DT_PLAN_MAX_DEPTH];
    int64_t reg[DT_PLAN_REGS];
    bool waits; /* the action `now` must still be done */
    Action now;
} Course;

/* An action between stages: a message, the end of one, or (meets) a sum over stages. */
typedef struct Step {
    uint32_t number : 26; /* number of the channel, or of the group */
    uint32_t sends : 1, ends : 1, meets : 1;
} Step;
typedef DT_VEC(Step) StepList;

struct PlanRun {
    Course *courses; /* courses, by stage */
    Queue *queues;   /* queues, by channel */
    Held *held;      /* slots, by store on each stage */
    StepList *steps; /* by stage: its actions between stages, for the second run */
    uint8_t **left; /* by stage: which gathers for other pieces were done; NULL: the stage has not
                     * begun */
};

static bool set_register(PlanWalk *walk, Course *course, uint32_t reg, int64_t value)
{
    course->reg[reg] = value;
    bool is_slot = reg >= DT_PLAN_REG_SLOTS && reg < DT_PLAN_REG_SLOTS + DT_PLAN_N_SLOTS;
    return !is_slot || (value >= 0 && value < walk->pipe->depth[reg - DT_PLAN_REG_SLOTS]) ||
           dt_certplan_fail(walk, "slot %lld", (long long)value);
}

static bool act(PlanWalk *walk, Course *course, uint32_t kind, uint32_t index, uint32_t event)
{
    Action *action = &course->now;
    if (course->reg[0] < 0 || course->reg[0] > INT32_MAX || index > 0xffffff)
        return dt_certplan_fail(walk, "action %u of micro-batch %lld", index,
                                (long long)course->reg[0]);
    *action = (Action){.kind = kind & 255, .index = index & 0xffffff,
                       .micro = (uint32_t)course->reg[0], .event = event};
    for (uint32_t g = 0; g < DT_PLAN_N_SLOTS; g++)
        action->slot[g] = (uint16_t)course->reg[DT_PLAN_REG_SLOTS + g];
    return ++course->n <= MOST_ACTIONS ||
           dt_certplan_fail(walk, "the schedule has more than %d actions", MOST_ACTIONS);
}

/* Begins the next iteration of the innermost loop, or leaves the loop after its last one. False
 * after a problem. */
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
    int64_t value = item->step * course->reg[item->body] +
                    (item->plus ? course->reg[item->plus] : 0) + item->first;
    if (item->count)
        value = (value % item->count + item->count) % item->count;
    return set_register(walk, course, item->reg, value);
}

/* Whether the instruction is an action between stages: a message, a wait for one, or a sum over
 * stages. */
static bool is_between(const PlanWalk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    return dt_certplan_is_message(walk, inst) ||
           (inst->kind == DT_INST_ALL_REDUCE &&
            plan->groups[inst->ref].mask >> (plan->meta->pipeline - 1) & 1);
}

/* Follows the schedule up to the next call or action between stages, which becomes course->now.
 * False: there is none, or after a failure. */
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
            return act(walk, course, DT_SCHED_CALL, item->body, 0);
        } else if (item->kind == DT_SCHED_RUN) {
            const DtPlanBody *body = &plan->bodies[item->body];
            while (course->inst < body->n_insts) {
                const DtPlanInst *inst = &plan->insts[body->first_inst + course->inst++];
                if (is_between(walk, inst))
                    return act(walk, course, 128u + inst->kind,
                               inst->kind == DT_INST_WAIT ? inst->event : inst->ref, inst->event);
            }
            course->inst = 0;
        }
    }
    return false;
}

/* Returns the slot of the store (its number `place` over all stages) that the action's slot
 * registers select. */
static HeldSlot *slot_at(PlanWalk *walk, uint32_t place, const Action *action)
{
    struct PlanPipe *pipe = walk->pipe;
    Held *held = &pipe->run->held[place];
    uint32_t slot = pipe->places[place] ? action->slot[pipe->places[place] - DT_PLAN_REG_SLOTS] : 0;
    while (held->n <= slot)
        DT_PUSH(walk->arena, *held, ((HeldSlot){.micro = -1}));
    return &held->at[slot];
}

static void list_slots(PlanWalk *walk, Piece *piece)
{
    for (uint32_t i = 0; i < piece->uses.n; i++) {
        const Uses *uses = &piece->uses.at[i];
        if (uses->name)
            continue;
        Slot slot = {uses->store,
                     dt_cert_place(&walk->program->stores.at[uses->store], piece->stage)};
        if (uses->written)
            DT_PUSH(walk->arena, piece->writes, slot);
        else
            DT_PUSH(walk->arena, piece->reads, slot);
    }
}

/* Checks that values which other pieces gathered for this one are there; removes those that it
 * overwrites, and adds those that it gathers for others. Sets the ring's slot. */
static bool takes_ring(PlanWalk *walk, const Piece *piece, Course *course)
{
    const struct PlanPipe *pipe = walk->pipe;
    const uint64_t ring = (uint64_t)course->reg[DT_PLAN_REG_RINGBUF];
    if (piece->turns.n > 1 && ring >= piece->turns.n)
        return dt_certplan_fail(walk, "%s begins with slot %llu of a ring", piece->of->name,
                                (unsigned long long)ring);
    const Turn *turn = piece->turns.at[piece->turns.n > 1 ? ring : 0];
    uint8_t *left = pipe->run->left[piece->stage];
    if (turn->finds.n + turn->leaves.n && !left)
        left = pipe->run->left[piece->stage] =
            DT_NEW_ARRAY(walk->arena, uint8_t, pipe->gathered.n + 1);
    for (uint32_t i = 0; i < turn->finds.n; i++)
        if (!left[turn->finds.at[i]])
            return dt_certplan_fail(walk, "%s does not find what was gathered ahead",
                                    piece->of->name);
    for (uint32_t i = 0; left && i < pipe->gathered.n; i++)
        left[i] = left[i] && !dt_certplan_loses(walk, turn, &pipe->gathered.at[i]);
    for (uint32_t i = 0; i < turn->leaves.n; i++)
        left[turn->leaves.at[i]] = 1;
    if (piece->turns.n > 1 || turn->begins)
        course->reg[DT_PLAN_REG_RINGBUF] = turn->ring;
    return true;
}

/* Puts a micro-batch into the slot, or (COMES) reserves it for one. */
static bool put(PlanWalk *walk, HeldSlot *slot, const char *path, int64_t micro)
{
    if (slot->leaves || slot->micro == COMES)
        return dt_certplan_fail(walk, "%s is written while a message is on its way %s that slot",
                                path, slot->leaves ? "from" : "to");
    slot->micro = (int32_t)micro;
    return true;
}

/* Whether the micro-batch may run now: if the piece sums the terms of all micro-batches over ranks
 * in the last one, all others must have run. */
static bool is_last(const PlanWalk *walk, const Piece *piece, uint32_t micro)
{
    bool sums = false, last = true;
    for (uint32_t i = 0; i < piece->adds.n; i++)
        sums = sums || piece->adds.at[i].parts;
    for (uint32_t i = 0; sums && micro + 1 == dt_certplan_n_micro(walk) && i < micro; i++)
        last = last && piece->main->ran[i];
    return last;
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
        if (slot_at(walk, piece->reads.at[i].place, action)->micro != (int32_t)action->micro)
            return dt_certplan_fail(walk, "%s of micro-batch %u reads %s of another",
                                    piece->of->name, action->micro,
                                    walk->program->stores.at[piece->reads.at[i].store].path);
    for (uint32_t i = 0; i < piece->writes.n; i++) {
        const Slot *slot = &piece->writes.at[i];
        if (!put(walk, slot_at(walk, slot->place, action),
                 walk->program->stores.at[slot->store].path, action->micro))
            return false;
    }
    if (!piece->main->ran)
        piece->main->ran = DT_NEW_ARRAY(walk->arena, uint8_t, dt_certplan_n_micro(walk));
    if (action->micro >= dt_certplan_n_micro(walk) || piece->main->ran[action->micro]++)
        return dt_certplan_fail(walk, "%s runs twice for micro-batch %u", piece->of->name,
                                action->micro);
    return is_last(walk, piece, action->micro) ||
           dt_certplan_fail(walk, "%s sums over ranks before all micro-batches have run",
                            piece->of->name);
}

typedef enum Outcome { DONE, WAITS, WRONG } Outcome;

/* A message and its channel, for a SEND, a RECV, or the end of either. */
typedef struct Message {
    const Action *action;
    const DtPlanChannel *channel;
    Queue *queue;
    HeldSlot *slot;
    const char *path;
    bool sends;
} Message;

static Outcome send(PlanWalk *walk, const Message *m)
{
    Queue *queue = m->queue;
    if (queue->n == m->channel->slots)
        return WAITS;
    if (m->slot->micro != (int32_t)m->action->micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is sent, which is not there", m->path,
                         m->action->micro);
        return WRONG;
    }
    queue->micro[(queue->first + queue->n++) % m->channel->slots] = m->action->micro;
    m->slot->leaves += m->action->event != 0;
    return DONE;
}

static Outcome receive(PlanWalk *walk, const Message *m)
{
    Queue *queue = m->queue;
    if (queue->n == 0)
        return WAITS;
    if (queue->micro[queue->first] != m->action->micro) {
        dt_certplan_fail(walk, "%s of micro-batch %u is received as that of %u", m->path,
                         queue->micro[queue->first], m->action->micro);
        return WRONG;
    }
    queue->first = (queue->first + 1) % m->channel->slots;
    queue->n--;
    return put(walk, m->slot, m->path, m->action->micro) ? DONE : WRONG;
}

/* Ends a message that was started: its slot may be written again (sender), or holds the micro-batch
 * (receiver). */
static Outcome end_message(PlanWalk *walk, const Message *m)
{
    if (m->sends) {
        m->slot->leaves--;
        return DONE;
    }
    if (m->queue->n == 0)
        return WAITS;
    m->slot->micro = -1;
    return receive(walk, m);
}

static Outcome run_message(PlanWalk *walk, uint32_t stage, Course *course)
{
    struct PlanPipe *pipe = walk->pipe;
    const bool ends = course->now.kind == AWAITS;
    const uint32_t end = ends ? pipe->message[course->now.index] - 1 : 0;
    Message m = {.sends = ends ? end & 1 : course->now.kind == SENDS};
    const uint32_t number = ends ? end / 2 : course->now.index;
    if (number >= walk->plan->n_channels || pipe->carries[number] < 0)
        return WRONG;
    m.channel = &walk->plan->channels[number];
    m.queue = &pipe->run->queues[number];
    Action *open = &m.queue->open[m.sends];
    if ((m.sends ? m.channel->from : m.channel->to) != stage || (open->kind != 0) != ends ||
        (ends && open->event != course->now.index)) {
        dt_certplan_fail(
            walk,
            "a message of channel %u begins before the last one is waited for, or ends without "
            "beginning",
            number);
        return WRONG;
    }
    m.action = ends ? open : &course->now;
    const CertStore *to = &walk->program->stores.at[pipe->carries[number]],
                    *store = m.sends
                                 ? &walk->program->stores.at[dt_cert_source(to, m.channel->from)]
                                 : to;
    m.path = to->path;
    m.slot = slot_at(walk, dt_cert_place(store, stage), m.action);
    if (!m.queue->micro)
        m.queue->micro = DT_NEW_ARRAY(walk->arena, uint32_t, m.channel->slots + 1);
    const bool starts = m.action->event != 0;
    Outcome outcome = DONE;
    if (ends)
        outcome = end_message(walk, &m);
    else if (m.sends)
        outcome = send(walk, &m);
    else if (starts)
        outcome = put(walk, m.slot, m.path, COMES) ? DONE : WRONG;
    else
        outcome = receive(walk, &m);
    if (outcome == DONE)
        *open = ends || !starts ? (Action){.kind = 0} : course->now;
    if (outcome == DONE)
        DT_PUSH(walk->arena, pipe->run->steps[stage],
                ((Step){.number = number, .sends = m.sends, .ends = ends}));
    return outcome;
}

static bool is_of(const char *stages, uint32_t stage)
{
    return !*stages || dt_stages_has(stages, stage);
}

/* Lets a stage arrive at a sum over stages. Once all stages of the group have arrived they all
 * continue; until then the stage waits. */
static Outcome meet(PlanWalk *walk, uint32_t stage, uint32_t group)
{
    const DtPlan *plan = walk->plan;
    Course *courses = walk->pipe->run->courses;
    const char *stages = dt_plan_str(plan, plan->groups[group].stages);
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++)
        if (s != stage && is_of(stages, s) &&
            !(courses[s].waits && courses[s].now.kind == MEETS && courses[s].now.index == group))
            return WAITS;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++) {
        courses[s].waits = courses[s].waits && !is_of(stages, s);
        if (is_of(stages, s))
            DT_PUSH(walk->arena, walk->pipe->run->steps[s], ((Step){.number = group, .meets = 1}));
    }
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
    return run_message(walk, stage, course);
}

/* Runs the stage until it waits, fails (WRONG) or has finished (DONE). Sets *moved if it did
 * anything. */
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

/* Checks that every message was received, and every started operation waited for. */
static bool is_empty(PlanWalk *walk, const char *name)
{
    for (uint32_t c = 0; c < walk->plan->n_channels; c++) {
        const Queue *queue = &walk->pipe->run->queues[c];
        if (queue->n || queue->open[0].kind || queue->open[1].kind)
            return dt_certplan_fail(walk, "channel %u of `%s` is never emptied", c, name);
    }
    return true;
}

/* Runs the entries of this name on all stages together, until all have finished. False after a
 * problem: the stages wait for each other, for example. */
static bool run_stages(PlanWalk *walk, const char *name)
{
    const DtPlan *plan = walk->plan;
    const uint32_t n = dt_plan_stages(plan);
    uint32_t done = 0;
    struct PlanRun *run = walk->pipe->run = DT_NEW(walk->arena, struct PlanRun);
    run->steps = DT_NEW_ARRAY(walk->arena, StepList, n + 1);
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
    walk->stage = n; /* by all stages */
    if (done < n)
        return dt_certplan_fail(walk, "the stages of `%s` wait for each other", name);
    return is_empty(walk, name);
}

/* ---- with queues ---- */

/* The second run: a stage advances through its actions between stages. */
typedef struct Drain {
    PlanWalk *walk;
    uint32_t *at; /* by stage: number of its next action */
    bool *begun;  /* by stage: it has begun its next action */
    DT_VEC(uint32_t) ready; /* stages that may be able to go on */
} Drain;

static bool is_at(const Drain *d, uint32_t stage, uint32_t group)
{
    const StepList *steps = &d->walk->pipe->run->steps[stage];
    const Step *step = &steps->at[d->at[stage]];
    return d->at[stage] < steps->n && step->meets && step->number == group;
}

/* Whether all stages of the group have reached the sum; if so, moves the other stages past it, and
 * makes them ready. */
static bool join(Drain *d, uint32_t stage, uint32_t group)
{
    const char *stages = dt_plan_str(d->walk->plan, d->walk->plan->groups[group].stages);
    const uint32_t n = dt_plan_stages(d->walk->plan);
    for (uint32_t s = 0; s < n; s++)
        if (is_of(stages, s) && !is_at(d, s, group))
            return false;
    for (uint32_t s = 0; s < n; s++)
        if (is_of(stages, s) && s != stage) {
            d->at[s]++;
            DT_PUSH(d->walk->arena, d->ready, s);
        }
    return true;
}

/* Whether the stage can go on after a message, which it begins if it has not. It goes on once the
 * other end has begun it too, or the channel has room. */
static bool pass(Drain *d, uint32_t stage, Step step)
{
    if (step.ends)
        return true;
    const DtPlanChannel *channel = &d->walk->plan->channels[step.number];
    uint32_t *begun = d->walk->pipe->run->queues[step.number].begun, other = !step.sends,
             own = step.sends;
    const uint32_t room = channel->direct || !step.sends ? 0 : channel->slots;
    if (!d->begun[stage]) {
        begun[own]++;
        DT_PUSH(d->walk->arena, d->ready, step.sends ? channel->to : channel->from);
    }
    d->begun[stage] = begun[other] + room < begun[own];
    return !d->begun[stage];
}

/* Runs the stage until it waits for another one, or to the end. */
static void drain_stage(Drain *d, uint32_t stage)
{
    const StepList *steps = &d->walk->pipe->run->steps[stage];
    while (d->at[stage] < steps->n) {
        const Step step = steps->at[d->at[stage]];
        if (!(step.meets ? join(d, stage, step.number) : pass(d, stage, step)))
            return;
        d->at[stage]++;
    }
}

/* Whether all stages finish if messages need both ends (the second run). Reports a problem if some
 * wait for each other for ever. */
static bool drains(PlanWalk *walk, const char *name)
{
    const uint32_t n = dt_plan_stages(walk->plan);
    Drain d = {.walk = walk, .at = DT_NEW_ARRAY(walk->arena, uint32_t, n + 1),
               .begun = DT_NEW_ARRAY(walk->arena, bool, n + 1)};
    for (uint32_t s = 0; s < n; s++) {
        drain_stage(&d, s);
        while (d.ready.n)
            drain_stage(&d, d.ready.at[--d.ready.n]);
    }
    for (uint32_t s = 0; s < n; s++)
        if (d.at[s] < walk->pipe->run->steps[s].n)
            return dt_certplan_fail(walk, "with queues, the stages of `%s` wait for each other",
                                    name);
    return true;
}

/* Checks that every piece of the program is in the plan and ran once for every micro-batch (in
 * "predict": for one). */
static bool ran_all(PlanWalk *walk, DtPlanRun run)
{
    for (uint32_t e = 0; e < walk->program->entries.n; e++) {
        const CertEntry *entry = &walk->program->entries.at[e];
        int64_t n = 0;
        if (entry->is.run != run || entry->is.n_objective || entry->is.part == DT_PLAN_PROLOGUE ||
            !dt_plan_name_is_part(&entry->is))
            continue;
        for (uint32_t i = 0; i < walk->pipe->pieces.n; i++) {
            const Piece *piece = walk->pipe->pieces.at[i];
            if (piece->of != entry || !piece->ran)
                continue;
            n++;
            for (uint32_t m = 0; m < (run == DT_PLAN_PREDICT ? 1 : dt_certplan_n_micro(walk)); m++)
                if (!piece->ran[m])
                    return dt_certplan_fail(walk, "`%s` does not run %s of micro-batch %u",
                                            dt_certplan_names[run], entry->name, m);
        }
        if (n != entry->to - entry->stage + 1)
            return dt_certplan_fail(walk, "`%s` runs %s on %lld stages", dt_certplan_names[run],
                                    entry->name, (long long)n);
    }
    return true;
}

bool dt_certplan_queues(PlanWalk *walk)
{
    static const DtPlanRun runs[] = {DT_PLAN_STEP, DT_PLAN_EVAL, DT_PLAN_PREDICT, DT_PLAN_UPDATE};
    for (size_t i = 0; walk->plan->meta->pipeline && i < DT_COUNT(runs); i++) {
        const char *name = dt_certplan_names[runs[i]];
        bool there = false;
        for (uint32_t e = 0; e < walk->plan->n_entries; e++)
            there = there || is(dt_plan_str(walk->plan, walk->plan->entries[e].name), name);
        if (there && (!run_stages(walk, name) || !drains(walk, name) ||
                      (runs[i] != DT_PLAN_UPDATE && !ran_all(walk, runs[i]))))
            return false;
    }
    return true;
}
