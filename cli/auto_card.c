/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a card: the time of the parts of a step, from the schedule of its entry: the part before
 * the loops, each loop, and the part after them; forward loops come in order, then backward
 * loops in reverse.
 *
 * The prices of a part's instructions are added up as if they ran one after the other. How much
 * of them overlaps is known from the simulation for the whole step only: all parts are shortened
 * by the same factor. */
#include "cli/auto.h"

#include "plan/report/memory.h"
#include "plan/report/simulate.h"

#include <string.h>

enum { MOST_LOOPS = 2 * DT_SPACE_LOOPS };
/* This share of the time of fused kernels is common to all layouts of a class; the rest is in
 * kernels that only some layouts have, where pieces meet. */
static const double KERNELS = 0.9;

typedef struct Part { double all, work, products; } Part;

typedef struct Reader {
    const DtPlan *plan;
    const DtPrice *prices;
    Part loops[MOST_LOOPS], between[MOST_LOOPS + 1], once; /* between[i]: the part before loop i;
                                                            * the last one: after all loops */
    int64_t counts[MOST_LOOPS];
    uint32_t n_loops;
    bool too_many;
} Reader;

static void add_body(const Reader *r, uint32_t number, double times, Part *part)
{
    const DtPlanBody *body = &r->plan->bodies[number];
    for (uint32_t i = body->first_inst; i < body->first_inst + body->n_insts; i++) {
        const DtPrice *price = &r->prices[i];
        const bool product = price->time == DT_TIME_PRODUCTS;
        part->all += times * price->seconds;
        part->work += product || price->time == DT_TIME_ATTENTION ? times * price->seconds
                      : price->time == DT_TIME_KERNELS            ? times * price->seconds * KERNELS
                                                                  : 0;
        part->products += product ? times * price->seconds : 0;
    }
}

/* Adds the time of an entry's instructions to its loops and to the parts between them. Register
 * 0 counts micro-batches, the next register layers; work of the last micro-batch alone counts
 * once. */
static void read_entry(Reader *r, uint32_t number)
{
    const DtPlanEntry *entry = &r->plan->entries[number];
    double times[DT_PLAN_MAX_DEPTH + 2] = {1};
    uint32_t depth = 0, last_end = 0, opened[DT_PLAN_MAX_DEPTH + 2];
    bool in_micro = r->plan->meta->n_micro == 1, in_loop = false;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *item = &r->plan->schedule[i];
        if (item->kind == DT_SCHED_WHEN && item->reg == 0)
            last_end = i + item->body + 1;
        if (item->kind == DT_SCHED_LOOP) {
            opened[++depth] = i;
            in_micro = in_micro || item->reg == 0;
            const bool layers = in_micro && item->reg == 1;
            if (layers && r->n_loops < MOST_LOOPS)
                r->counts[r->n_loops] = item->count;
            r->too_many = r->too_many || (layers && r->n_loops == MOST_LOOPS);
            in_loop = in_loop || layers;
            times[depth] = item->reg == 0 || layers ? 1 : times[depth - 1] * item->count;
        } else if (item->kind == DT_SCHED_END) {
            const DtPlanSchedule *loop = &r->plan->schedule[opened[depth--]];
            if (loop->reg == 0 && r->plan->meta->n_micro > 1)
                in_micro = false;
            if (loop->reg == 1 && in_loop) {
                in_loop = false;
                r->n_loops += r->n_loops < MOST_LOOPS;
            }
        } else if (item->kind == DT_SCHED_RUN) {
            const bool once = !in_micro || i < last_end;
            const bool in_known = in_loop && r->n_loops < MOST_LOOPS;
            Part *part = once       ? &r->once
                         : in_known ? &r->loops[r->n_loops]
                                    : &r->between[r->n_loops];
            const double turns = once && in_known ? (double)r->counts[r->n_loops] : 1;
            add_body(r, item->body, times[depth] * turns, part);
        }
    }
}

static bool find_entry(const DtPlan *plan, DtPlanStr name, uint32_t *ret_entry)
{
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (!strcmp(dt_plan_str(plan, plan->entries[e].name), dt_plan_str(plan, name))) {
            *ret_entry = e;
            return true;
        }
    return false;
}

/* Whether the loops are those of the search space: in order, then in reverse order (backward). */
static bool is_palindrome(const Reader *r, const DtSpace *space)
{
    const uint32_t n = space->n_loops;
    bool good = !r->too_many && r->n_loops == 2 * n && n > 0 && r->plan->n_objectives == 1;
    for (uint32_t i = 0; good && i < n; i++)
        good = r->counts[i] == space->loops[i].count &&
               r->counts[2 * n - 1 - i] == space->loops[i].count;
    return good;
}

static void fill_parts(const Reader *r, const DtSpace *space, DtCard *card)
{
    const uint32_t n = space->n_loops;
    for (uint32_t i = 0; i < n; i++) {
        const Part *forward = &r->loops[i], *backward = &r->loops[2 * n - 1 - i];
        card->loops[i] = (DtCardTime){.forward = forward->all, .backward = backward->all,
                                      .weights = forward->products,
                                      .work = forward->work + backward->work};
    }
    card->front = (DtCardTime){.forward = r->between[0].all, .backward = r->between[2 * n].all,
                               .work = r->between[0].work + r->between[2 * n].work};
    for (uint32_t i = 1; i < 2 * n; i++) { /* a third of the head's time is forward, two thirds are
                                            * backward */
        card->back.forward += r->between[i].all / 3;
        card->back.backward += r->between[i].all * 2 / 3;
        card->back.work += r->between[i].work;
    }
}

static void fill_whole(const Reader *r, DtCard *card)
{
    for (uint32_t i = 0; i <= r->n_loops; i++) {
        const double times = i < r->n_loops ? (double)r->counts[i] : 0;
        const Part *loop = &r->loops[i < r->n_loops ? i : 0];
        card->back.backward += r->between[i].all + times * loop->all;
        card->back.work += r->between[i].work + times * loop->work;
    }
}

static void scale(DtCard *card, const DtSpace *space, double by)
{
    DtCardTime *const times[] = {&card->front, &card->back};
    for (uint32_t i = 0; i < space->n_loops + 2; i++) {
        DtCardTime *t = i < space->n_loops ? &card->loops[i] : times[i - space->n_loops];
        t->forward *= by;
        t->backward *= by;
        t->weights *= by;
    }
    card->once *= by;
    card->update *= by;
}

/* ---- memory ---- */

/* Returns the loop of the search space that the store's parameter is in; n_loops: it is in none. */
static uint32_t loop_of(const DtPlan *plan, const DtPlanStore *store, const DtSpace *space)
{
    const char *path = dt_plan_str(plan, store->path);
    uint32_t i = 0;
    for (; i < space->n_loops && store->n_loops; i++) {
        const size_t n = strlen(space->loops[i].path);
        if (!strncmp(path, space->loops[i].path, n) && path[n] == '.')
            return i;
    }
    return space->n_loops;
}

/* Whether the mesh axis of experts splits the store, so that ranks of experts have parts of it. */
static bool is_of_experts(const DtPlan *plan, const DtPlanStore *store, const DtSpace *space)
{
    for (uint32_t a = store->first_axis; a < store->first_axis + store->n_axes; a++)
        for (uint32_t i = 0; i < DT_PLAN_SPLITS && plan->axes[a].split[i]; i++)
            if (!strcmp(dt_plan_str(plan, plan->mesh[plan->axes[a].split[i] - 1].name),
                        space->mesh[DT_ROLE_EXPERT]))
                return true;
    return false;
}

/* Whether another store with a smaller number has the same bucket. Stores of a bucket all have its
 * address and bytes, so only the first one counts. */
static bool is_counted(const DtPlan *plan, uint32_t number)
{
    const DtPlanStore *store = &plan->stores[number];
    for (uint32_t i = 0; store->pack && i < number; i++)
        if (plan->stores[i].pack && plan->stores[i].arena == store->arena &&
            plan->stores[i].offset == store->offset)
            return true;
    return false;
}

/* Returns the most bytes of temporaries that are live at once in entries that update parameters, or
 * in the other ones of training. */
static double peak_of(const DtPlan *plan, bool updates)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->n_peaks; i++) {
        bool is_update = false;
        for (uint32_t o = 0; o < plan->n_objectives; o++) {
            uint32_t entry;
            is_update |= find_entry(plan, plan->objectives[o].update, &entry) &&
                         entry == plan->peaks[i].entry;
        }
        if (is_update == updates && plan->peaks[i].live > most)
            most = plan->peaks[i].live;
    }
    return (double)most;
}

static void fill_memory(const DtPlan *plan, bool is_gpu, const DtSpace *space, DtCard *card)
{
    static const DtPlanArenaKind kinds[] = {DT_ARENA_PARAMS, DT_ARENA_GRADS, DT_ARENA_OPTIMIZER};
    DtMemory memory;
    double saved = 0;
    dt_memory_worst(plan, is_gpu, &memory);
    for (int k = 0; k < 3; k++)
        card->rest[k] = (double)memory.arenas[kinds[k]];
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        const uint32_t loop = loop_of(plan, store, space);
        const bool in_loop = loop < space->n_loops, of_experts = is_of_experts(plan, store, space);
        for (int k = 0; k < 3; k++) {
            if (plan->arenas[store->arena].kind != kinds[k] || is_counted(plan, i))
                continue;
            const double each =
                (double)store->bytes / (in_loop ? (double)space->loops[loop].count : 1);
            if (in_loop) {
                card->state[loop][k] += each;
                card->rest[k] -= (double)store->bytes;
            }
            if (of_experts)
                *(in_loop ? &card->experts[loop][k] : &card->rest_experts[k]) += each;
        }
    }
    for (int k = 0; k < 3; k++)
        card->rest[k] = card->rest[k] > 0 ? card->rest[k] : 0;
    for (uint32_t i = 0; i < plan->n_saved; i++)
        for (uint32_t l = 0; l < space->n_loops; l++)
            if (!strcmp(dt_plan_str(plan, plan->saved[i].loop), space->loops[l].path)) {
                card->saved[l] += (double)plan->saved[i].saved;
                saved += (double)plan->saved[i].saved * (double)plan->saved[i].iterations;
            }
    const double activations = (double)memory.arenas[DT_ARENA_ACTIVATIONS];
    const double updating = peak_of(plan, true), other = peak_of(plan, false);
    const double held = updating > other ? activations * other / updating : activations;
    card->temporaries = held > saved ? held - saved : 0;
    card->updating = updating;
    card->beside = (double)memory.reserved - activations;
    card->communicator = is_gpu ? (double)dt_memory_overheads[DT_OVERHEAD_COMMUNICATOR].bytes : 0;
    for (int k = 0; k < 3; k++)
        card->beside -= (double)memory.arenas[kinds[k]];
}

/* Reads the card of a plan on nodes of one kind: the times and bytes from which the search
 * estimates layouts. */
static void read_card(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                      const DtSpace *space, DtCard *ret_card)
{
    const DtPrices prices = dt_price_plan(arena, plan, model);
    Reader r = {.plan = plan, .prices = prices[0]};
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    DtSimulation sim;
    DtCard *card = ret_card;
    *card = (DtCard){.once = 0};
    dt_simulate(arena, plan, model, prices, &options, &sim);
    double listed = 0;
    for (uint32_t o = 0; o < plan->n_objectives; o++) {
        uint32_t entry;
        Reader update = {.plan = plan, .prices = r.prices};
        if (find_entry(plan, plan->objectives[o].step, &entry))
            read_entry(&r, entry);
        if (find_entry(plan, plan->objectives[o].update, &entry))
            read_entry(&update, entry);
        card->update += update.once.all + update.between[0].all;
        for (uint32_t i = 0; i < update.n_loops; i++)
            card->update +=
                update.between[i + 1].all + update.loops[i].all * (double)update.counts[i];
    }
    card->once = r.once.all;
    card->has_parts = is_palindrome(&r, space);
    if (card->has_parts)
        fill_parts(&r, space, card);
    else
        fill_whole(&r, card);
    double micro =
        card->front.forward + card->front.backward + card->back.forward + card->back.backward;
    for (uint32_t i = 0; i < space->n_loops; i++)
        micro += (card->loops[i].forward + card->loops[i].backward) * (double)space->loops[i].count;
    listed = micro * plan->meta->n_micro + card->once + card->update;
    if (listed > 0)
        scale(card, space, (sim.seconds - sim.fixed) / listed);
    fill_memory(plan, model->device->is_gpu, space, card);
    if (card->has_parts)
        dt_auto_read_delayed(arena, plan, space, card);
}

/* ---- nodes of several kinds ---- */

/* Records how much slower the part is on nodes of kind k (`other`) than on the first kind, and the
 * least ratio of their work. */
static void compare_part(DtCardTime *first, const DtCardTime *other, uint32_t k, DtCard *card)
{
    const double whole = first->forward + first->backward;
    first->slower[k] = whole > 0 ? (other->forward + other->backward) / whole : 0;
    if (first->work > 0 && (card->least[k] == 0 || other->work < card->least[k] * first->work))
        card->least[k] = other->work / first->work;
}

void dt_auto_read_card(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                       const DtSpace *space, DtCard *ret_card)
{
    DtCard *card = ret_card;
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++) {
        const DtCostModel one = dt_cost_on(model, k);
        DtCard other;
        read_card(arena, plan, &one, space, &other);
        if (k == 0)
            *card = other;
        for (uint32_t i = 0; i < space->n_loops; i++)
            compare_part(&card->loops[i], &other.loops[i], k, card);
        compare_part(&card->front, &other.front, k, card);
        compare_part(&card->back, &other.back, k, card);
        card->once = other.once > card->once ? other.once : card->once;
        card->update = other.update > card->update ? other.update : card->update;
    }
}
