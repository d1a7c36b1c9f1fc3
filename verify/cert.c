/* SPDX-License-Identifier: Apache-2.0 */
/* Entries and stores: what each entry point leaves in which store or under which name, in the serial program
 * and in the final one, and the comparison.
 *
 * Entries of the final program may be cut into pieces ("grad.f0", "grad.b0", one per pipeline stage), which hand
 * values to each other through `saved` and `channel` stores; entries are evaluated again and again until
 * what they read is known. The order in which a schedule runs them is checked elsewhere (queues, slots). An entry
 * of a class of stages is evaluated for each of them: the functions in it have been, so it costs little.
 *
 * A parameter, moment or state read is a source: the same in both programs. So only the update stores them, when all of
 * the step have read them, and where stages have copies, all of these. A gradient read by the update is what the
 * gradient entry left, as is the next value of a state. Of several losses each has its own gradient entry and its own
 * update ("grad@critic", "update@critic"), which begin with what those before left, in both programs. */
#include "verify/box.h"
#include "verify/internal.h"

#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char store_kind[] = "source", input_kind[] = "input of";

typedef struct Left {  /* what an entry leaves */
    const char *entry; /* "grad" of "grad.b0" */
    const char *key;   /* "param h.wq.w", or a name */
    CertValue value;
} Left;

typedef struct Part { /* what one entry adds to a gradient */
    const CertResult *result;
    const char *base;
    CertValue value;
    int32_t next; /* of the same store, or -1 */
} Part;

typedef struct Sum { /* over stages: number k among those of these stages in entries of this name */
    const char *entry;
    const char *stages;
    uint32_t number;
    CertNode **terms; /* by stage */
    CertNode *all;    /* once all of them are known */
    CertValue like;   /* how they all lie */
    int64_t total;    /* as CertValue.total, of one of them */
} Sum;

typedef struct Proof {
    CertState state;
    CertProgram program;
    struct Proof *serial;
    /* of each stage's stores, by place */
    CertValue *stored; /* what pieces left there, */
    const char **run;  /* and of which entry they are: others run on other data */
    int32_t *writers;  /* first of its parts, or -1 */
    const CertChannel **from;
    DT_VEC(Part) parts;
    DT_VEC(Sum) sums;
    DT_VEC(const char *) across; /* stage sets of the sums met in the entry being evaluated */
    uint32_t news;           /* terms that became known */
    const char *base;
    DT_VEC(Left) left;
} Proof;

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* "update", or of one of several losses "update@critic". */
static bool is_update(const char *base)
{
    const DtPlanName name = dt_plan_name(base);
    return name.run == DT_PLAN_UPDATE && !dt_plan_name_is_part(&name);
}

/* What entry grad adds up for the update: gradients, and the next values of states. */
static bool is_total(const CertStore *store) { return is(store->kind, "grad") || is(store->kind, "next"); }

static bool is_passed(const CertStore *store) { return is(store->kind, "saved") || is(store->kind, "channel"); }

static const char *loop_of(const CertStore *store) { return store->loops ? store->type->axes[0].name : NULL; }

/* "grad" of "grad.f0" and "grad.b1", "grad.prologue" of "grad.prologue.2". */
static const char *base_of(const CertProgram *program, const CertEntry *entry)
{
    if (!program->pipe || entry->stage < 0 || entry->is.number < 0)
        return entry->name;
    const size_t run = strcspn(entry->name, ".");
    return dt_intern_n(entry->name, entry->is.part == DT_PLAN_PROLOGUE ? run + strlen(".prologue") : run);
}

/* ---- stores of stages ---- */

static const CertStore *store_at(const Proof *p, int64_t store)
{
    return store >= 0 ? &p->program.stores.at[store] : NULL;
}

/* ---- sources ---- */

static bool known(const Proof *p, uint32_t place)
{
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next)
        if (!p->parts.at[i].value.node)
            return false;
    return p->writers[place] >= 0;
}

static CertNode *sum_up(Proof *p, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    return dt_certpack_sum(&p->state, shape, n, in);
}

static bool gradient(Proof *p, uint32_t place, CertValue *ret_value);

/* What the serial program adds up in the store of this key, if it is this. */
static CertNode *as_serial(Proof *p, const CertStore *store, CertNode *node)
{
    CertValue value = {0};
    const CertProgram *serial = &p->serial->program;
    for (uint32_t i = 0; i < serial->stores.n; i++)
        if (serial->stores.at[i].key == store->key && gradient(p->serial, serial->stores.at[i].place, &value) &&
            value.node && dt_certsum_equal(&p->state, node, value.node, NULL))
            return value.node;
    return node;
}

static CertNode *members_as_serial(Proof *p, const CertStore *store, CertNode *node)
{
    CertNode **in = DT_NEW_ARRAY(p->state.arena, CertNode *, node->n_in);
    memcpy(in, node->in, node->n_in * sizeof in[0]);
    for (int i = store->members; i >= 0; i = p->program.stores.at[i].before)
        for (uint32_t k = 0; k < node->n_in; k += 2)
            if (in[k]->lo == p->program.stores.at[i].at)
                in[k + 1] = as_serial(p, &p->program.stores.at[i], in[k + 1]);
    return dt_certnode_make(p->state.nodes,
                            (CertNode){.kind = dt_certkind_tuple, .attributes = "", .n_in = node->n_in, .in = in});
}

/* The same of a gradient, or of the members of a bucket of them, which each of them asks again. */
static CertNode *total(CertState *state, int64_t number, CertNode *node)
{
    Proof *p = state->data;
    CertStore *store = &p->program.stores.at[number];
    if (!node || p->state.is_serial)
        return node;
    if (store->summed == node)
        return store->total;
    store->summed = node; /* all of the serial program is known by now */
    store->total = dt_certpack_is(node) ? members_as_serial(p, store, node) : as_serial(p, store, node);
    return store->total;
}

/* What the pieces add up in a gradient's store, once all of them are known. */
static bool gradient(Proof *p, uint32_t place, CertValue *ret_value)
{
    DT_VEC(CertNode *) nodes = {0};
    if (!known(p, place))
        return true;
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next) {
        *ret_value = p->parts.at[i].value;
        DT_PUSH(p->state.arena, nodes, ret_value->node);
    }
    const CertShape *shape = dt_certrange_all(&p->state, ret_value->type, ret_value->loop);
    ret_value->node = sum_up(p, shape, nodes.n, nodes.at);
    return ret_value->node || dt_cert_fail(&p->state, NULL, "two pieces leave a gradient that do not add up");
}

static bool add_part(Proof *p, const CertResult *result, CertValue value)
{
    uint32_t place = dt_cert_place(store_at(p, result->store), p->state.stage);
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next) {
        Part *part = &p->parts.at[i];
        const CertType *type = part->value.type;
        if (part->result == result)
            part->value = value;
        else if (part->value.node && (!dt_certrule_same(type, 0, type->partial, value.type) || !result->accumulate ||
                                      part->value.loop != value.loop || part->value.first != value.first))
            return dt_cert_fail(&p->state, NULL, "two pieces leave a gradient that do not add up");
    }
    return true;
}

/* Whether entries may leave a store together with those that are known: pieces of one entry add up a gradient, and each
 * loss's update may store a state. */
static bool may_leave(const Proof *p, const CertStore *store, const char *base, int32_t others)
{
    bool may = true;
    for (int32_t i = others; i >= 0; i = p->parts.at[i].next) {
        const char *other = p->parts.at[i].base;
        may = may && (is_total(store) ? other == base : other != base && is_update(base) && is_update(other));
    }
    return may;
}

/* Which results go to each store: to a gradient's several, to others one of an entry. */
static bool find_writers(Proof *p)
{
    p->writers = DT_NEW_ARRAY(p->state.arena, int32_t, p->program.n_places);
    memset(p->writers, -1, p->program.n_places * sizeof p->writers[0]);
    for (uint32_t i = 0; i < p->program.entries.n; i++) {
        const CertEntry *entry = &p->program.entries.at[i];
        const char *base = base_of(&p->program, entry);
        for (uint32_t k = 0; k < entry->results.n; k++) {
            const CertResult *result = &entry->results.at[k];
            const CertStore *store = store_at(p, result->store);
            for (int64_t stage = entry->stage; store && stage <= entry->to; stage++) {
                int32_t *last = dt_cert_has(store, stage) ? &p->writers[dt_cert_place(store, stage)] : NULL;
                if (!last || !may_leave(p, store, base, *last))
                    return dt_cert_fail(&p->state, NULL,
                                            "entry %s leaves `%s`, which is not of "
                                            "its stage, or which another leaves",
                                            entry->name, store->path);
                DT_PUSH(p->state.arena, p->parts, ((Part){.result = result, .base = base, .next = *last}));
                *last = (int32_t)p->parts.n - 1;
            }
        }
    }
    return true;
}

static CertNode *store_node(CertState *state, const CertStore *store)
{
    const CertShape *shape = dt_certrange_all(state, store->type, loop_of(store));
    return dt_certnode_leaf(state->nodes, store_kind, store->key, shape, 0);
}

/* What a stage finds in a store that pieces hand on: what the entry has left there, or the stage that a channel is
 * from; NULL after a problem. */
static const CertValue *passed(Proof *p, const CertOp *op, int64_t number, int64_t stage)
{
    const CertStore *store = store_at(p, number);
    for (uint32_t hops = 0; is(store->kind, "channel"); hops++) {
        const CertChannel *from = p->from[dt_cert_place(store, stage)];
        const CertStore *to = store;
        if (!from || hops > CERT_STAGES) {
            dt_cert_fail(&p->state, op, "a channel without sender");
            return NULL;
        }
        number = dt_cert_source(store, from->from);
        stage = from->from;
        store = number < p->program.stores.n ? store_at(p, number) : NULL;
        if (!store || !is_passed(store) || !dt_cert_has(store, stage) ||
            !dt_certrule_same(store->type, 0, to->type->partial, to->type)) {
            dt_cert_fail(&p->state, op, "a channel from another stage, or of another type");
            return NULL;
        }
    }
    uint32_t place = dt_cert_place(store, stage);
    if (p->run[place] && p->run[place] != p->base) {
        dt_cert_fail(&p->state, op, "a value that another entry of the program leaves");
        return NULL;
    }
    return &p->stored[place];
}

static bool param_source(Proof *p, const CertOp *op, CertValue *ret_value)
{
    int64_t stage = p->state.stage;
    if (op->store < 0 || op->store >= p->program.stores.n)
        return dt_cert_fail(&p->state, op, "a store that is not there");
    CertStore *store = &p->program.stores.at[op->store];
    if (!dt_certrule_same(store->type, 0, store->type->partial, op->types[0]))
        return dt_cert_fail(&p->state, op, "a store is read as another type than it has");
    if (!dt_cert_has(store, stage))
        return dt_cert_fail(&p->state, op, "a stage reads a store of another stage");
    if (is_passed(store)) {
        const CertValue *value = passed(p, op, op->store, stage);
        *ret_value = value ? *value : *ret_value;
        ret_value->type = op->types[0];
        return value != NULL;
    }
    if (is_total(store)) {
        bool ok = gradient(p, dt_cert_place(store, stage), ret_value);
        ret_value->node = total(&p->state, op->store, ret_value->node);
        ret_value->total = 1 + op->store;
        ret_value->type = op->types[0];
        return ok;
    }
    if (!store->node)
        store->node =
            store->members >= 0 ? dt_certpack_store(&p->state, op->store, store_node) : store_node(&p->state, store);
    ret_value->loop = loop_of(store);
    ret_value->first = dt_cert_first(store, stage);
    ret_value->node = store->node;
    memset(ret_value->fill, CERT_ZERO, sizeof ret_value->fill);
    return true;
}

static bool is_prologue(const char *entry, const char *of)
{
    const DtPlanName its = dt_plan_name(entry), run = dt_plan_name(of);
    return its.part == DT_PLAN_PROLOGUE && its.number < 0 && !dt_plan_name_is_part(&run) &&
           dt_plan_name_same_run(&its, &run);
}

static bool source(CertState *state, const CertOp *op, CertValue *ret_value)
{
    Proof *p = state->data;
    const CertType *type = op->types[0];
    if (is(op->kind, "param"))
        return param_source(p, op, ret_value);
    if (type->partial || type->padded)
        return dt_cert_fail(state, op, "an input with a pending reduction or padding");
    if (op->text[0] == '@' && strchr(op->text, '.')) { /* what a prologue has left */
        for (uint32_t i = 0; i < p->left.n; i++)
            if (p->left.at[i].key == op->text && is_prologue(p->left.at[i].entry, p->base)) {
                ret_value->node = p->left.at[i].value.node;
                return true;
            }
        return true;
    }
    ret_value->node =
        dt_certnode_leaf(state->nodes, input_kind, op->text, dt_certnode_shape(state->nodes, type), 0);
    return true;
}

static uint32_t n_stages(const CertProgram *program)
{
    for (uint32_t m = 0; m < program->n_mesh; m++)
        if (program->pipe >> m & 1)
            return (uint32_t)program->size[m];
    return 1;
}

static Sum *sum_of(Proof *p, const char *stages)
{
    Sum sum = {.entry = p->base, .stages = stages};
    for (uint32_t i = 0; i < p->across.n; i++) /* sums of the same stages correspond in order */
        sum.number += dt_stages_same(p->across.at[i], stages);
    DT_PUSH(p->state.arena, p->across, stages);
    for (uint32_t i = 0; i < p->sums.n; i++)
        if (p->sums.at[i].entry == sum.entry && p->sums.at[i].number == sum.number &&
            dt_stages_same(p->sums.at[i].stages, stages))
            return &p->sums.at[i];
    sum.terms = DT_NEW_ARRAY(p->state.arena, CertNode *, n_stages(&p->program));
    DT_PUSH(p->state.arena, p->sums, sum);
    return &p->sums.at[p->sums.n - 1];
}

/* The sum over the stages of op->stages: known once every one of them has delivered its term. */
static bool across(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value)
{
    Proof *p = state->data;
    uint32_t stages = n_stages(&p->program), n = 0;
    if (state->stage < 0 || state->stage >= stages || !dt_stages_is_valid(op->stages, stages) ||
        !dt_stages_has(op->stages, (uint32_t)state->stage))
        return dt_cert_fail(state, op, "a sum over stages on a stage that is not one of them");
    if (!is(op->reduce, "sum") || (x.node && !dt_certpad_is_zero(state, &x)))
        return dt_cert_fail(state, op, "stages add up");
    if (!dt_certrule_same(x.type, 0, x.type->partial, op->types[0])) /* what is pending stays so */
        return dt_cert_fail(state, op, "a sum over stages changes the layout");
    Sum *sum = sum_of(p, op->stages);
    *ret_value = x;
    ret_value->type = op->types[0];
    if (x.node)
        x.node = dt_certpack_moved(state, op, x.node, x.total);
    if (x.node) {
        const bool zero = dt_certstep_is_zero(x.node); /* of whatever iterations */
        if (!sum->like.node || (!zero && dt_certstep_is_zero(sum->like.node)))
            sum->like = x;
        if (sum->like.type != x.type || (!zero && (sum->like.loop != x.loop || sum->like.first != x.first)))
            return dt_cert_fail(state, op, "stages add up values that lie otherwise");
        ret_value->loop = sum->like.loop;
        ret_value->first = sum->like.first;
        sum->total = x.total ? x.total : sum->total;
        p->news += !sum->terms[state->stage];
        sum->terms[state->stage] = x.node;
    }
    ret_value->node = sum->all;
    for (uint32_t s = 0; s < stages && !sum->all; s++)
        if (!sum->terms[s] && dt_stages_has(op->stages, s))
            return true;
    if (sum->all)
        return true;
    CertNode **in = DT_NEW_ARRAY(p->state.arena, CertNode *, stages);
    for (uint32_t s = 0; s < stages; s++)
        if (dt_stages_has(op->stages, s))
            in[n++] = sum->terms[s];
    sum->all = ret_value->node = sum_up(p, dt_certrange_all(state, op->types[0], sum->like.loop), n, in);
    if (sum->total)
        sum->all = ret_value->node = total(state, sum->total - 1, sum->all);
    return ret_value->node || dt_cert_fail(state, op, "stages add up what does not");
}

/* ---- entries ---- */

/* Whether a result may go where it does: micro-batches add it up exactly if it is pending over time, it is of the
 * entry's stage, holds the iterations of its store, lies as that, and has zeros as padding where others read it. */
static bool settle(Proof *p, const CertEntry *entry, const CertResult *result, const CertValue *value)
{
    const CertStore *store = store_at(p, result->store);
    const CertType *type = value->type;
    uint16_t time = p->program.time & type->partial, partial = type->partial;
    const char *what = store ? store->path : result->name, *why = NULL;
    bool passes = store && is_passed(store);
    if (store && is_total(store)) /* completed at the end of the entry, or left so to the update */
        partial = store->type->partial ? partial & (uint16_t)~p->program.time : 0;
    if (time && !passes && (!result->accumulate || !is(type->pending, "sum")))
        why = "is a sum over micro-batches that is not added up";
    else if (!time && p->program.time && result->accumulate)
        why = "is added up by micro-batches of which each holds it whole";
    else if (store && store->loops && !passes &&
             (value->loop != store->type->axes[0].name || value->first != dt_cert_first(store, p->state.stage)))
        why = "gets other iterations than its store holds";
    else if (store && !dt_certrule_same(type, 0, partial, store->type))
        why = "lies otherwise than its store says";
    else if (store && !passes && !is_total(store) && !is_update(p->base))
        why = "is stored before all of the step have read it";
    else if (store ? !passes && !dt_certpad_is_zero(&p->state, value) : type->padded != 0)
        why = "has padding that is not zero, or goes to the user with it";
    return !why || dt_cert_fail(&p->state, NULL, "entry %s: `%s` %s", entry->name, what, why);
}

static void leave_one(Proof *p, const CertStore *store, const CertResult *result, CertValue value)
{
    DT_PUSH(p->state.arena, p->left, ((Left){p->base, store ? store->key : result->name, value}));
}

/* Notes what an entry leaves; of a bucket each member. */
static bool leave(Proof *p, const CertResult *result, CertValue value)
{
    const CertStore *store = store_at(p, result->store);
    if (!store || store->members < 0) {
        leave_one(p, store, result, value);
        return true;
    }
    for (int i = store->members; i >= 0; i = p->program.stores.at[i].before) {
        const CertStore *member = &p->program.stores.at[i];
        CertValue one = value;
        one.node = dt_certpack_member(&p->state, value.node, member->at, member->type, store->type);
        if (!one.node)
            return dt_cert_fail(&p->state, NULL, "what goes to the bucket of `%s` does not hold it", member->path);
        leave_one(p, member, result, one);
    }
    return true;
}

/* Whether the entry reads only what is known, or may deliver a term of a sum over stages before that. */
static bool is_worth(Proof *p, const CertFunc *func)
{
    bool waits = false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        if ((op->mesh & p->program.pipe) && op->stages)
            return true;
        if (op->store < 0 || op->store >= p->program.stores.n)
            continue;
        const CertStore *store = store_at(p, op->store);
        if (!dt_cert_has(store, p->state.stage))
            return true; /* refused there */
        if (is_total(store))
            waits = waits || !known(p, dt_cert_place(store, p->state.stage));
        if (is_passed(store)) {
            const CertValue *value = passed(p, op, op->store, p->state.stage);
            waits = waits || !value || !value->node;
        }
    }
    return !waits;
}

static void keep(Proof *p, uint32_t place, CertValue value)
{
    p->stored[place] = value;
    p->run[place] = p->base;
}

static bool run_entry(Proof *p, const CertEntry *entry, int64_t stage, bool *ret_complete)
{
    p->state.stage = stage;
    p->state.behind = stage - entry->stage;
    p->base = base_of(&p->program, entry);
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
        const CertStore *store = store_at(p, result->store);
        if (!results[i].node)
            continue;
        if (store && store->loops && !is_passed(store))
            dt_certfunc_cover(&p->state, loop_of(store), dt_cert_first(store, stage), &results[i]);
        else if (store && !is_passed(store))
            dt_certrange_close(&p->state, &results[i]);
        if (!settle(p, entry, result, &results[i]))
            return false;
        if (store && is_passed(store))
            keep(p, dt_cert_place(store, stage), results[i]);
        else if (store && is_total(store) ? !add_part(p, result, results[i])
                                          : *ret_complete && !leave(p, result, results[i]))
            return false;
    }
    return true;
}

/* An entry on one stage of its class. */
typedef struct Task {
    const CertEntry *entry;
    int64_t stage;
    bool done;
} Task;

static bool run_entries(Proof *p)
{
    DT_VEC(Task) tasks = {0};
    for (uint32_t i = 0; i < p->program.entries.n; i++)
        for (int64_t s = p->program.entries.at[i].stage; s <= p->program.entries.at[i].to; s++)
            DT_PUSH(p->state.arena, tasks, ((Task){&p->program.entries.at[i], s, false}));
    bool backwards = false;
    for (uint32_t idle = 0, left = tasks.n; idle < 3 && left;
         idle++) { /* forward pieces are in order, backward ones the other way */
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
            return dt_cert_fail(&p->state, NULL, "entry %s reads what no entry leaves", tasks.at[i].entry->name);
    return true;
}

static bool find_channels(Proof *p)
{
    p->from = DT_NEW_ARRAY(p->state.arena, const CertChannel *, p->program.n_places);
    for (uint32_t i = 0; i < p->program.channels.n; i++) {
        const CertChannel *channel = &p->program.channels.at[i];
        for (uint32_t k = 0; k < channel->stores.n; k++) {
            int64_t number = channel->stores.at[k];
            const CertStore *store = number >= 0 && number < p->program.stores.n ? store_at(p, number) : NULL;
            if (!store || !is(store->kind, "channel") || !dt_cert_has(store, channel->to) ||
                p->from[dt_cert_place(store, channel->to)])
                return dt_cert_fail(&p->state, NULL, "a channel leads to a store of something else");
            p->from[dt_cert_place(store, channel->to)] = channel;
        }
    }
    return true;
}

/* Of a serial program after another one: is_serial, and its values have no numbers. */
static bool begin(Proof *p, Proof *serial, CertMeant *meant, CertNodes *nodes, bool is_serial, const char *text,
                  DtText *problem)
{
    DtArena *arena = meant->arena;
    p->state = (CertState){.arena = arena,
                           .nodes = nodes,
                           .program = &p->program,
                           .problem = problem,
                           .stage = -1,
                           .source = source,
                           .across = across,
                           .data = p,
                           .total = total,
                           .meant = meant,
                           .is_serial = is_serial,
                           .numbers = p == serial};
    if (!dt_certtext_read(arena, text, &p->program, problem))
        return false;
    dt_certrange_note(&p->program);
    p->program.whole = &serial->program;
    p->serial = serial;
    if (p == serial) {
        meant->n = p->program.n_values;
        meant->by_number = DT_NEW_ARRAY(arena, CertMeaning *, meant->n);
    }
    p->stored = DT_NEW_ARRAY(arena, CertValue, p->program.n_places);
    p->run = DT_NEW_ARRAY(arena, const char *, p->program.n_places);
    return find_writers(p) && find_channels(p) && run_entries(p);
}

/* ---- claims ---- */

/* By entry, key, first iteration. */
static int by_key(const void *a, const void *b)
{
    const Left *x = a, *y = b;
    if (x->key != y->key)
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    if (x->entry != y->entry)
        return (uintptr_t)x->entry < (uintptr_t)y->entry ? -1 : 1;
    return x->value.first < y->value.first ? -1 : x->value.first > y->value.first;
}

/* Where what has this entry and key begins. */
static uint32_t find_left(const Proof *p, const Left *like)
{
    Left want = *like;
    uint32_t lo = 0, hi = p->left.n;
    want.value.first = INT64_MIN;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (by_key(&p->left.at[middle], &want) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Where value stands along an axis of the iterations of its node; NULL: nowhere. */
static void stands(const CertValue *value, const char *loop, int64_t *ret_lo, int64_t *ret_hi)
{
    const CertAxis *axis = loop ? dt_certtext_axis(value->type, loop) : NULL;
    *ret_lo = value->loop == loop && value->first != CERT_ANY ? value->first : 0;
    *ret_hi = *ret_lo + (axis ? axis->logical : 1);
}

/* One result of the serial program: every part that the final one leaves is it, and together they cover its iterations
 * and no others. */
static bool claim(Proof *final, const Left *serial, DtCertCounts *counts)
{
    const CertValue *want = &serial->value;
    int64_t reached = INT64_MIN, need = 0, lo, hi;
    for (uint32_t i = find_left(final, serial); i < final->left.n; i++) {
        const Left *left = &final->left.at[i];
        const CertValue *have = &left->value;
        if (left->key != serial->key || left->entry != serial->entry)
            break;
        if (!dt_certsum_equal(&final->state, have->node, want->node, NULL)) {
            dt_cert_fail(&final->state, NULL, "entry %s: `%s` is not what the serial program computes",
                             serial->entry, serial->key);
            dt_certnode_differ(have->node, want->node, final->state.problem);
            return false;
        }
        if (is_update(serial->entry) && have->type->partial)
            return dt_cert_fail(&final->state, NULL, "entry %s: `%s` stays pending", serial->entry, serial->key);
        counts->claims++;
        const char *loop = want->loop ? want->loop : have->loop;
        stands(want, loop, &lo, &need);
        reached = reached == INT64_MIN ? lo : reached;
        const int64_t first = lo;
        stands(have, loop, &lo, &hi);
        if (lo < first || hi > need || (have->loop && have->loop != loop))
            return dt_cert_fail(&final->state, NULL, "entry %s: `%s` has other iterations than it should",
                                    serial->entry, serial->key);
        reached = lo <= reached && hi > reached ? hi : reached;
    }
    return reached == need ||
           dt_cert_fail(&final->state, NULL, "entry %s: `%s` is not computed, or not for all iterations",
                            serial->entry, serial->key);
}

/* The final program leaves nothing that the serial one does not. */
static bool leaves_no_more(Proof *final, const Proof *serial)
{
    for (uint32_t i = 0; i < final->left.n; i++) {
        const Left *left = &final->left.at[i];
        uint32_t at = find_left(serial, left);
        if (left->key[0] != '@' &&
            (at == serial->left.n || serial->left.at[at].key != left->key || serial->left.at[at].entry != left->entry))
            return dt_cert_fail(&final->state, NULL, "entry %s leaves `%s`, which the serial program does not",
                                    left->entry, left->key);
    }
    return true;
}

static void sort_left(Proof *p)
{
    if (p->left.n)
        qsort(p->left.at, p->left.n, sizeof p->left.at[0], by_key);
}

int dt_cert_by_key(const void *a, const void *b)
{
    const char *x = (*(const CertStore *const *)a)->key, *y = (*(const CertStore *const *)b)->key;
    return x == y ? 0 : (uintptr_t)x < (uintptr_t)y ? -1 : 1;
}

/* What the first step finds in stores, and later ones what was left there: the same ones, beginning with the same. */
static bool begins_alike(Proof *final, const Proof *serial)
{
    uint32_t n = serial->program.stores.n;
    const CertStore **known = DT_NEW_ARRAY(final->state.arena, const CertStore *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        known[i] = &serial->program.stores.at[i];
    qsort(known, n, sizeof known[0], dt_cert_by_key);
    for (uint32_t i = 0; i < final->program.stores.n; i++) {
        const CertStore *store = &final->program.stores.at[i];
        if (is_passed(store) || is_total(store) || store->members >= 0)
            continue;
        const CertStore *const *found = bsearch(&store, known, n, sizeof known[0], dt_cert_by_key);
        if (!found || (*found)->init != store->init || (*found)->pattern != store->pattern)
            return dt_cert_fail(&final->state, NULL, "`%s` begins otherwise than in the serial program",
                                    store->key);
    }
    return true;
}

/* How often an update stores what has this key. */
static int64_t times_left(const Proof *final, const char *update, const char *key)
{
    const Left like = {.entry = update, .key = key};
    int64_t n = 0;
    for (uint32_t i = find_left(final, &like);
         i < final->left.n && final->left.at[i].key == key && final->left.at[i].entry == update; i++)
        n++;
    return n;
}

/* Stages have copies of a store: an update stores all or none. What it stores is the serial program's. */
static bool keeps_copies(Proof *final)
{
    const CertProgram *program = &final->program;
    uint32_t n = 0;
    const CertStore **by_key = DT_NEW_ARRAY(final->state.arena, const CertStore *, program->stores.n + 1);
    for (uint32_t i = 0; i < program->stores.n; i++)
        if (!is_passed(&program->stores.at[i]) && !is_total(&program->stores.at[i]))
            by_key[n++] = &program->stores.at[i];
    qsort(by_key, n, sizeof by_key[0], dt_cert_by_key);
    for (uint32_t i = 0, next; i < n; i = next) {
        int64_t copies = 0;
        for (next = i; next < n && by_key[next]->key == by_key[i]->key; next++)
            copies += by_key[next]->stage < 0 ? n_stages(program) : by_key[next]->to - by_key[next]->stage + 1;
        const char *last = NULL; /* stages' entries have one base */
        for (uint32_t e = 0; e < program->entries.n; e++) {
            const char *base = base_of(program, &program->entries.at[e]);
            const int64_t left = is_update(base) && base != last ? times_left(final, base, by_key[i]->key) : 0;
            last = base;
            if (left && left != copies)
                return dt_cert_fail(&final->state, NULL, "`%s` is stored on %lld of %lld stages that have it",
                                        by_key[i]->key, (long long)left, (long long)copies);
        }
    }
    return true;
}

/* Which values of the serial program are gradients, if these may cross ranks in another dtype. */
static bool note_gradients(Proof *serial)
{
    bool good = true;
    for (uint32_t i = 0; good && serial->program.crossing && i < serial->program.stores.n; i++) {
        const CertStore *store = &serial->program.stores.at[i];
        CertValue value = {0};
        if (is(store->kind, "grad") && (good = gradient(serial, store->place, &value)) && value.node)
            dt_certstep_gradient(&serial->state, value.node);
    }
    return good;
}

/* Gradients, and what the next step's states add up to, are compared where the update uses them: stages hold parts of a
 * tied one's. What pieces and prologues leave to others is none of the program's results. */
static bool prove_meant(CertMeant *meant, const char *serial, const char *final, bool is_serial,
                        DtCertCounts *ret_counts, DtText *ret_problem)
{
    DtArena *arena = meant->arena;
    CertNodes *nodes = dt_certnode_table(arena);
    Proof *a = DT_NEW(arena, Proof), *b = DT_NEW(arena, Proof);
    *ret_counts = (DtCertCounts){0};
    if (!begin(a, a, meant, nodes, true, serial, ret_problem))
        return false;
    meant->known = dt_certnode_count(nodes);
    if (!note_gradients(a))
        return false;
    const bool ran = begin(b, a, meant, nodes, is_serial, final, ret_problem);
    if (ran && meant->news) {
        b->state.func = meant->news_in;
        return dt_cert_fail(&b->state, meant->news, "`%s` makes what nothing in the plan's program does",
                                meant->news->kind);
    }
    if (!ran)
        return false;
    sort_left(a);
    sort_left(b);
    for (uint32_t i = 0; i < a->left.n; i++)
        if (a->left.at[i].key[0] != '@' && !claim(b, &a->left.at[i], ret_counts))
            return false;
    ret_counts->values = b->state.values;
    return leaves_no_more(b, a) && keeps_copies(b) && begins_alike(b, a);
}

static bool prove(DtArena *arena, const char *serial, const char *final, bool is_serial, DtCertCounts *ret_counts,
                  DtText *ret_problem)
{
    CertMeant meant = {.arena = arena};
    const bool good = prove_meant(&meant, serial, final, is_serial, ret_counts, ret_problem);
    if (meant.boxes)
        dt_box_end(meant.boxes);
    return good;
}

bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts, DtText *ret_problem)
{
    return prove(arena, serial, final, false, ret_counts, ret_problem);
}

bool dt_cert_same(DtArena *arena, const char *serial, const char *other, DtText *ret_problem)
{
    DtCertCounts counts;
    return prove(arena, serial, other, true, &counts, ret_problem);
}
