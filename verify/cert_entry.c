/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates each entry, on each stage of its class, repeatedly until everything that it reads is
 * known; records what it leaves, and checks that it may be stored there. */
#include "verify/cert_proof.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* Whether no other op of the step reads the store after this entry: results of an update, and what
 * a text keeps of its earlier positions. */
static bool is_final(const CertProof *p, const CertStore *store)
{
    return dt_certproof_is_update(p->base) ||
           (is(store->kind, "cache") && dt_plan_run_predicts(dt_plan_name(p->base).run));
}

/* Whether a result may be stored in its place. Micro-batches must accumulate it if and only if it
 * is pending over time. It must belong to the entry's stage, have the iterations and the layout of
 * its store, and have zero padding where others read that. */
static bool settle(CertProof *p, const CertEntry *entry, const CertResult *result,
                   const CertValue *value)
{
    const CertStore *store = dt_certproof_store_at(p, result->store);
    const CertType *type = value->type;
    uint16_t time = p->program.time & type->partial, partial = type->partial;
    const char *what = store ? store->path : result->name, *why = NULL;
    bool passes = store && dt_certproof_is_passed(store);
    if (store && dt_certproof_is_total(
                     store)) /* completed at the end of the entry, or left pending for the update */
        partial = store->type->partial ? partial & (uint16_t)~p->program.time : 0;
    if (time && !passes && (!result->accumulate || !is(type->pending, "sum")))
        why = "is a sum over micro-batches that is not added up";
    else if (result->accumulate && store && !dt_certproof_is_total(store))
        why = "is added to what its store holds, which it should replace";
    else if ((type->split & p->program.time) && !passes &&
             (store || !dt_plan_run_predicts(dt_plan_name(p->base).run)))
        why = "is split over micro-batches, and only the last one's part would be left";
    else if (!time && p->program.time && result->accumulate)
        why = "is added up by micro-batches of which each holds it whole";
    else if (store && store->loops && !passes &&
             (value->loop != store->type->axes[0].name ||
              value->first != dt_cert_first(store, p->state.stage)))
        why = "gets other iterations than its store holds";
    else if (store && !dt_certrule_same(type, 0, partial, store->type))
        why = "lies otherwise than its store says";
    else if (store && !passes && !dt_certproof_is_total(store) && !is_final(p, store))
        why = "is stored before all of the step have read it";
    else if (store ? !passes && !dt_certpad_is_zero(&p->state, value)
                   : type->padded && dt_plan_name(entry->name).part != DT_PLAN_PROLOGUE)
        why = "has padding that is not zero, or goes to the user with it";
    const bool zeros = value->fill[CERT_REST] == CERT_ZERO &&
                       (!value->rest || (store && value->rest == store->path));
    if (!why && store && !passes && !dt_certproof_is_total(store) && dt_certpack_is(value->node) &&
        !zeros)
        DT_PUSH(p->state.arena, p->filled, store->path);
    return !why || dt_cert_fail(&p->state, NULL, "entry %s: `%s` %s", entry->name, what, why);
}

static void leave_one(CertProof *p, const CertStore *store, const CertResult *result,
                      CertValue value)
{
    DT_PUSH(p->state.arena, p->left,
            ((CertLeft){p->base, store ? store->key : result->name, value}));
}

/* Records a result that an entry leaves; for a bucket, one result for each member. False after a
 * problem: the bucket holds other values than its members. */
static bool leave(CertProof *p, const CertResult *result, CertValue value)
{
    const CertStore *store = dt_certproof_store_at(p, result->store);
    if (!store || store->members < 0) {
        leave_one(p, store, result, value);
        return true;
    }
    uint32_t n = 0;
    for (int i = store->members; i >= 0; i = p->program.stores.at[i].before) {
        const CertStore *member = &p->program.stores.at[i];
        CertValue one = value;
        n++;
        one.node = dt_certpack_member(&p->state, value.node, member->at, member->type, store->type);
        if (!one.node)
            return dt_cert_fail(&p->state, NULL, "what goes to the bucket of `%s` does not hold it",
                                member->path);
        leave_one(p, member, result, one);
    }
    return value.node->n_in == 2 * n ||
           dt_cert_fail(&p->state, NULL, "what goes to the bucket `%s` holds more than its members",
                        store->path);
}

/* Whether it is worth evaluating the entry now: everything that it reads is known, or it takes part
 * in a sum over stages, whose term it may deliver before the rest is known. */
static bool is_worth(CertProof *p, const CertFunc *func)
{
    bool waits = false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        if ((op->mesh & p->program.pipe) && op->stages)
            return true;
        if (op->store < 0 || op->store >= p->program.stores.n)
            continue;
        const CertStore *store = dt_certproof_store_at(p, op->store);
        if (!dt_cert_has(store, p->state.stage))
            return true; /* its own check refuses it */
        if (dt_certproof_is_total(store))
            waits = waits || !dt_certsource_is_known(p, dt_cert_place(store, p->state.stage));
        if (dt_certproof_is_passed(store)) {
            const CertValue *value = dt_certsource_passed(p, op, op->store, p->state.stage);
            waits = waits || !value || !value->node;
        }
    }
    return !waits;
}

static void keep(CertProof *p, uint32_t place, CertValue value)
{
    p->stored[place] = value;
    p->run[place] = p->base;
}

static bool run_entry(CertProof *p, const CertEntry *entry, int64_t stage, bool *ret_complete)
{
    p->state.stage = stage;
    p->state.behind = stage - entry->stage;
    p->base = dt_certsource_base(&p->program, entry);
    if (!is_worth(p, entry->func))
        return p->state.problem->len == 0;
    CertValue *results = DT_NEW_ARRAY(p->state.arena, CertValue, entry->results.n);
    p->across.n = 0;
    if (!dt_certfunc_run(&p->state, entry->func, results))
        return false;
    *ret_complete = true;
    for (uint32_t i = 0; i < entry->results.n; i++)
        *ret_complete = *ret_complete && results[i].node;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const CertResult *result = &entry->results.at[i];
        const CertStore *store = dt_certproof_store_at(p, result->store);
        if (!results[i].node)
            continue;
        if (store && store->loops && !dt_certproof_is_passed(store))
            dt_certfunc_cover(&p->state, dt_certproof_loop_of(store), dt_cert_first(store, stage),
                              &results[i]);
        else if (store && !dt_certproof_is_passed(store))
            dt_certrange_close(&p->state, &results[i]);
        if (!settle(p, entry, result, &results[i]))
            return false;
        if (store && dt_certproof_is_passed(store))
            keep(p, dt_cert_place(store, stage), results[i]);
        else if (store && dt_certproof_is_total(store)
                     ? !dt_certsource_add(p, result, results[i])
                     : *ret_complete && !leave(p, result, results[i]))
            return false;
    }
    return true;
}

/* One entry on one stage of its class, and whether its evaluation is complete. */
typedef struct Task {
    const CertEntry *entry;
    int64_t stage;
    bool done;
} Task;

/* Checks that, in a program with a pipeline, an entry whose name has a number belongs to a
 * stage. */
static bool have_stages(CertProof *p)
{
    for (uint32_t i = 0; p->program.pipe && i < p->program.entries.n; i++) {
        const CertEntry *entry = &p->program.entries.at[i];
        if (entry->is.number >= 0 && entry->stage < 0)
            return dt_cert_fail(&p->state, NULL, "entry %s is of no stage", entry->name);
    }
    return true;
}

static bool run_entries(CertProof *p)
{
    DT_VEC(Task) tasks = {0};
    for (uint32_t i = 0; i < p->program.entries.n; i++)
        for (int64_t s = p->program.entries.at[i].stage; s <= p->program.entries.at[i].to; s++)
            DT_PUSH(p->state.arena, tasks, ((Task){&p->program.entries.at[i], s, false}));
    bool backwards = false;
    for (uint32_t idle = 0, left = tasks.n; idle < 3 && left;
         idle++) { /* forward pieces in ascending order, backward ones in descending order */
        for (uint32_t j = 0; j < tasks.n; j++) {
            Task *task = &tasks.at[backwards ? tasks.n - 1 - j : j];
            uint32_t news = p->news;
            if (task->done)
                continue;
            if (!run_entry(p, task->entry, task->stage, &task->done))
                return false;
            if (task->done || p->news != news)
                idle = 0;
            left -= task->done;
        }
        backwards = !backwards;
    }
    for (uint32_t i = 0; i < tasks.n; i++)
        if (!tasks.at[i].done)
            return dt_cert_fail(&p->state, NULL, "entry %s reads what no entry leaves",
                                tasks.at[i].entry->name);
    return true;
}

static bool find_channels(CertProof *p)
{
    p->from = DT_NEW_ARRAY(p->state.arena, const CertChannel *, p->program.n_places);
    for (uint32_t i = 0; i < p->program.channels.n; i++) {
        const CertChannel *channel = &p->program.channels.at[i];
        for (uint32_t k = 0; k < channel->stores.n; k++) {
            int64_t number = channel->stores.at[k];
            const CertStore *store = number >= 0 && number < p->program.stores.n
                                         ? dt_certproof_store_at(p, number)
                                         : NULL;
            if (!store || !is(store->kind, "channel") || !dt_cert_has(store, channel->to) ||
                p->from[dt_cert_place(store, channel->to)])
                return dt_cert_fail(&p->state, NULL,
                                    "a channel leads to a store of something else");
            p->from[dt_cert_place(store, channel->to)] = channel;
        }
    }
    return true;
}

/* Reads the program and evaluates all its entries. A second serial program is evaluated like the
 * first, and its values have no numbers. False after a problem. */
bool dt_certentry_begin(CertProof *p, CertProof *serial, CertMeant *meant, CertNodes *nodes,
                        bool is_serial, const char *text, DtText *problem)
{
    DtArena *arena = meant->arena;
    p->state = (CertState){.arena = arena,
                           .nodes = nodes,
                           .program = &p->program,
                           .problem = problem,
                           .stage = -1,
                           .source = dt_certsource_of,
                           .across = dt_certsource_across,
                           .data = p,
                           .total = dt_certsource_total,
                           .meant = meant,
                           .is_serial = is_serial,
                           .numbers = p == serial};
    if (!dt_certtext_read(arena, text, &p->program, problem))
        return false;
    dt_certrange_note(&p->program);
    p->program.whole = &serial->program;
    p->by_key = DT_NEW_ARRAY(arena, const CertStore *, p->program.stores.n + 1);
    for (uint32_t i = 0; i < p->program.stores.n; i++)
        p->by_key[i] = &p->program.stores.at[i];
    qsort(p->by_key, p->program.stores.n, sizeof p->by_key[0], dt_cert_by_key);
    p->serial = serial;
    if (p == serial) {
        meant->n = p->program.n_values;
        meant->by_number = DT_NEW_ARRAY(arena, CertMeaning *, meant->n);
    }
    p->stored = DT_NEW_ARRAY(arena, CertValue, p->program.n_places);
    p->run = DT_NEW_ARRAY(arena, const char *, p->program.n_places);
    return have_stages(p) && dt_certsource_writers(p) && find_channels(p) && run_entries(p);
}
