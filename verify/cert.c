/* SPDX-License-Identifier: Apache-2.0 */
/* Entries and stores: what each entry point leaves in which store or under which name, in the serial program
 * and in the final one, and the comparison.
 *
 * Entries of the final program may be cut into pieces ("grad.f0", "grad.b0", one per pipeline stage), which hand
 * values to each other through `saved` and `channel` stores; entries are evaluated again and again until
 * what they read is known. The order in which a schedule runs them is checked elsewhere (queues, slots).
 *
 * A parameter, moment or state read is a source: the same in both programs. A gradient read by the update is what the
 * gradient entry left. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>

static const char store_kind[] = "source", input_kind[] = "input of";

typedef struct Left {  /* what an entry leaves */
    const char *entry; /* "grad" of "grad.b0" */
    const char *key;   /* "param h.wq.w", or a name */
    CertValue value;
} Left;

typedef struct Part { /* what one entry adds to a gradient */
    const CertResult *result;
    CertValue value;
    int32_t next; /* of the same store, or -1 */
} Part;

typedef struct Sum { /* over stages: number k among those of these stages in entries of this name */
    const char *entry;
    uint64_t stages;
    uint32_t number;
    CertValue *terms; /* by stage */
} Sum;

typedef struct Proof {
    CertState state;
    CertProgram program;
    CertValue *stored; /* by store: what the grad and other pieces left there */
    DT_VEC(Part) parts;
    int32_t *writers; /* by store: first of its parts, or -1 */
    DT_VEC(Sum) sums;
    DT_VEC(uint64_t) across; /* stage sets of the sums met in the entry being evaluated */
    uint32_t news;           /* terms that became known */
    const char *base;
    DT_VEC(Left) left;
} Proof;

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* What entry grad adds up for the update: gradients, and the next values of states. */
static bool is_total(const CertStore *store)
{
    return is(store->kind, "grad") || is(store->kind, "next");
}

static bool is_passed(const CertStore *store)
{
    return is(store->kind, "saved") || is(store->kind, "channel");
}

static const char *loop_of(const CertStore *store)
{
    return store->loops ? store->type->axes[0].name : NULL;
}

/* "grad" of "grad.f0" and "grad.b1", "grad.prologue" of "grad.prologue" and "grad.prologue.f0". */
static const char *base_of(const CertProgram *program, const CertEntry *entry)
{
    const char *dot = strrchr(entry->name, '.');
    if (!program->pipe || entry->stage < 0 || !dot)
        return entry->name;
    return dt_intern_n(entry->name, (size_t)(dot - entry->name));
}

/* ---- sources ---- */

static bool known(const Proof *p, int64_t store)
{
    for (int32_t i = p->writers[store]; i >= 0; i = p->parts.at[i].next)
        if (!p->parts.at[i].value.node)
            return false;
    return p->writers[store] >= 0;
}

/* What the pieces add up in a gradient's store, once all of them are known. */
static bool gradient(Proof *p, int64_t store, CertValue *ret_value)
{
    DT_VEC(CertNode *) nodes = {0};
    if (!known(p, store))
        return true;
    for (int32_t i = p->writers[store]; i >= 0; i = p->parts.at[i].next) {
        *ret_value = p->parts.at[i].value;
        DT_PUSH(p->state.arena, nodes, ret_value->node);
    }
    const CertShape *shape = dt_certnode_shape(p->state.nodes, ret_value->type, ret_value->loop);
    ret_value->node = dt_certpack_sum(&p->state, shape, nodes.n, nodes.at);
    return ret_value->node ||
           dt_certfunc_fail(&p->state, NULL, "two pieces leave a gradient that do not add up");
}

static bool add_part(Proof *p, const CertResult *result, CertValue value)
{
    for (int32_t i = p->writers[result->store]; i >= 0; i = p->parts.at[i].next) {
        Part *part = &p->parts.at[i];
        const CertType *type = part->value.type;
        if (part->result == result)
            part->value = value;
        else if (part->value.node &&
                 (!dt_certrule_same(type, 0, type->partial, value.type) || !result->accumulate ||
                  part->value.loop != value.loop || part->value.first != value.first))
            return dt_certfunc_fail(&p->state, NULL,
                                    "two pieces leave a gradient that do not add up");
    }
    return true;
}

/* Which results go to each gradient's store. */
static void find_writers(Proof *p)
{
    p->writers = DT_NEW_ARRAY(p->state.arena, int32_t, p->program.stores.n);
    for (uint32_t i = 0; i < p->program.stores.n; i++)
        p->writers[i] = -1;
    for (uint32_t i = 0; i < p->program.entries.n; i++)
        for (uint32_t k = 0; k < p->program.entries.at[i].results.n; k++) {
            const CertResult *result = &p->program.entries.at[i].results.at[k];
            if (result->store < 0 || !is_total(&p->program.stores.at[result->store]))
                continue;
            DT_PUSH(p->state.arena, p->parts,
                    ((Part){.result = result, .next = p->writers[result->store]}));
            p->writers[result->store] = (int32_t)p->parts.n - 1;
        }
}

static CertNode *store_node(CertState *state, const CertStore *store)
{
    const CertShape *shape = dt_certnode_shape(state->nodes, store->type, loop_of(store));
    return dt_certnode_make(state->nodes,
                            (CertNode){.kind = store_kind, .shape = shape,
                                       .attributes = dt_intern_printf("%s %s", store->kind,
                                                                      store->path)});
}

/* The store whose value a store that pieces hand on has; -1 after a problem. */
static int64_t sender_of(Proof *p, const CertOp *op, int64_t store)
{
    const CertStore *stores = p->program.stores.at, *to = &stores[store];
    for (uint32_t hops = 0; is(to->kind, "channel"); hops++, to = &stores[store]) {
        store = to->of;
        if (store < 0 || store >= p->program.stores.n || hops > p->program.stores.n)
            dt_certfunc_fail(&p->state, op, "a channel without sender");
        else if (!dt_certrule_same(stores[store].type, 0, to->type->partial, to->type))
            dt_certfunc_fail(&p->state, op, "a channel changes the type of what it carries");
        if (p->state.problem->len)
            return -1;
    }
    return store;
}

static bool param_source(Proof *p, const CertOp *op, CertValue *ret_value)
{
    if (op->store < 0 || op->store >= p->program.stores.n)
        return dt_certfunc_fail(&p->state, op, "a store that is not there");
    const CertStore *store = &p->program.stores.at[op->store];
    if (!dt_certrule_same(store->type, 0, store->type->partial, op->types[0]))
        return dt_certfunc_fail(&p->state, op, "a store is read as another type than it has");
    if (p->state.stage >= 0 && store->stage >= 0 && store->stage != p->state.stage)
        return dt_certfunc_fail(&p->state, op, "a stage reads a store of another stage");
    if (is_total(store) || is_passed(store)) {
        int64_t from = is_passed(store) ? sender_of(p, op, op->store) : op->store;
        if (from >= 0 && is_passed(store))
            *ret_value = p->stored[from];
        bool ok = from >= 0 && (is_passed(store) || gradient(p, from, ret_value));
        ret_value->type = op->types[0];
        return ok;
    }
    ret_value->loop = loop_of(store);
    ret_value->first = store->first;
    ret_value->node = store->members >= 0 ? dt_certpack_store(&p->state, op->store, store_node)
                                          : store_node(&p->state, store);
    memset(ret_value->fill, CERT_ZERO, sizeof ret_value->fill);
    return true;
}

static bool source(CertState *state, const CertOp *op, CertValue *ret_value)
{
    Proof *p = state->data;
    const CertType *type = op->types[0];
    if (is(op->kind, "param"))
        return param_source(p, op, ret_value);
    if (type->partial || type->padded)
        return dt_certfunc_fail(state, op, "an input with a pending reduction or padding");
    if (op->text[0] == '@' && strchr(op->text, '.')) { /* what a prologue has left */
        for (uint32_t i = 0; i < p->left.n; i++)
            if (p->left.at[i].key == op->text) {
                ret_value->node = p->left.at[i].value.node;
                return true;
            }
        return true;
    }
    ret_value->node = dt_certnode_make(
        state->nodes, (CertNode){.kind = input_kind, .attributes = op->text,
                                 .shape = dt_certnode_shape(state->nodes, type, NULL)});
    return true;
}

static uint32_t n_stages(const CertProgram *program)
{
    for (uint32_t m = 0; m < program->n_mesh; m++)
        if (program->pipe >> m & 1)
            return (uint32_t)program->size[m];
    return 1;
}

static Sum *sum_of(Proof *p, uint64_t stages)
{
    Sum sum = {.entry = p->base, .stages = stages};
    for (uint32_t i = 0; i < p->across.n; i++) /* sums of the same stages correspond in order */
        sum.number += p->across.at[i] == stages;
    DT_PUSH(p->state.arena, p->across, stages);
    for (uint32_t i = 0; i < p->sums.n; i++)
        if (p->sums.at[i].entry == sum.entry && p->sums.at[i].stages == stages &&
            p->sums.at[i].number == sum.number)
            return &p->sums.at[i];
    sum.terms = DT_NEW_ARRAY(p->state.arena, CertValue, n_stages(&p->program));
    DT_PUSH(p->state.arena, p->sums, sum);
    return &p->sums.at[p->sums.n - 1];
}

/* The sum over the stages of op->stages: known once every one of them has delivered its term. */
static bool across(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value)
{
    Proof *p = state->data;
    uint32_t stages = n_stages(&p->program), n = 0;
    CertNode *in[64];
    if (state->stage < 0 || state->stage >= stages || stages > 64 ||
        !(op->stages >> state->stage & 1) || (stages < 64 && op->stages >> stages))
        return dt_certfunc_fail(state, op, "a sum over stages on a stage that is not one of them");
    if (!is(op->reduce, "sum") || (x.node && !dt_certpad_is_zero(state, &x)))
        return dt_certfunc_fail(state, op, "stages add up");
    if (!dt_certrule_same(x.type, 0, x.type->partial, op->types[0])) /* what is pending stays so */
        return dt_certfunc_fail(state, op, "a sum over stages changes the layout");
    Sum *sum = sum_of(p, op->stages);
    p->news += !sum->terms[state->stage].node && x.node;
    sum->terms[state->stage] = x;
    *ret_value = x;
    ret_value->type = op->types[0];
    ret_value->node = NULL;
    for (uint32_t s = 0; s < stages; s++) {
        if (!(op->stages >> s & 1))
            continue;
        in[n] = sum->terms[s].node;
        if (!in[n++])
            return true;
    }
    ret_value->node =
        dt_certpack_sum(state, dt_certnode_shape(state->nodes, op->types[0], NULL), n, in);
    return ret_value->node || dt_certfunc_fail(state, op, "stages add up what does not");
}

/* ---- entries ---- */

/* Whether a result may go where it does: micro-batches add it up exactly if it is pending over time, it is of the
 * entry's stage, holds the iterations of its store, lies as that, and has zeros as padding where others read it. */
static bool settle(Proof *p, const CertEntry *entry, const CertResult *result,
                   const CertValue *value)
{
    const CertStore *store = result->store >= 0 ? &p->program.stores.at[result->store] : NULL;
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
    else if (store && entry->stage >= 0 && store->stage >= 0 && store->stage != entry->stage)
        why = "is of another stage";
    else if (store && store->loops && !passes &&
             (value->loop != store->type->axes[0].name || value->first != store->first))
        why = "gets other iterations than its store holds";
    else if (store && !dt_certrule_same(type, 0, partial, store->type) &&
             !(is(store->kind, "state") && !is(p->base, "update")))
        why = "lies otherwise than its store says";
    else if (store ? !passes && !dt_certpad_is_zero(&p->state, value) : type->padded != 0)
        why = "has padding that is not zero, or goes to the user with it";
    return !why ||
           dt_certfunc_fail(&p->state, NULL, "entry %s: `%s` %s", entry->name, what, why);
}

static void leave_one(Proof *p, const CertStore *store, const CertResult *result, CertValue value)
{
    const char *key = store ? dt_intern_printf("%s %s", store->kind, store->path) : result->name;
    DT_PUSH(p->state.arena, p->left, ((Left){p->base, key, value}));
}

/* Notes what an entry leaves; of a bucket each member. */
static bool leave(Proof *p, const CertResult *result, CertValue value)
{
    const CertStore *store = result->store >= 0 ? &p->program.stores.at[result->store] : NULL;
    if (!store || store->members < 0) {
        leave_one(p, store, result, value);
        return true;
    }
    for (int i = store->members; i >= 0; i = p->program.stores.at[i].before) {
        const CertStore *member = &p->program.stores.at[i];
        CertValue one = value;
        one.node = dt_certpack_member(&p->state, value.node, member->at, member->type,
                                      loop_of(member));
        if (!one.node)
            return dt_certfunc_fail(&p->state, NULL,
                                    "what goes to the bucket of `%s` does not hold it",
                                    member->path);
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
        const CertStore *store = &p->program.stores.at[op->store];
        if (is_total(store))
            waits = waits || !known(p, op->store);
        else if (is_passed(store)) {
            int64_t from = sender_of(p, op, op->store);
            waits = waits || (from >= 0 && !p->stored[from].node);
        }
    }
    return !waits;
}

static bool run_entry(Proof *p, const CertEntry *entry, bool *ret_complete)
{
    if (!is_worth(p, entry->func))
        return p->state.problem->len == 0;
    CertValue *results = DT_NEW_ARRAY(p->state.arena, CertValue, entry->results.n);
    p->state.stage = entry->stage;
    p->base = base_of(&p->program, entry);
    p->across.n = 0;
    if (!dt_certfunc_run(&p->state, entry->func, results))
        return false;
    *ret_complete = true;
    for (uint32_t i = 0; i < entry->results.n; i++)
        *ret_complete = *ret_complete && results[i].node;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const CertResult *result = &entry->results.at[i];
        const CertStore *store = result->store >= 0 ? &p->program.stores.at[result->store] : NULL;
        if (!results[i].node)
            continue;
        if (!settle(p, entry, result, &results[i]))
            return false;
        if (store && is_passed(store))
            p->stored[result->store] = results[i];
        else if (store && is_total(store)
                     ? !add_part(p, result, results[i])
                     : *ret_complete && !leave(p, result, results[i]))
            return false;
    }
    return true;
}

static bool run_entries(Proof *p)
{
    uint32_t n = p->program.entries.n, left = n;
    bool *done = DT_NEW_ARRAY(p->state.arena, bool, n);
    bool backwards = false;
    for (uint32_t idle = 0; idle < 3 && left;
         idle++) { /* forward pieces are in order, backward ones the other way */
        for (uint32_t j = 0; j < n; j++) {
            uint32_t i = backwards ? n - 1 - j : j, news = p->news;
            bool complete = false;
            if (done[i])
                continue;
            if (!run_entry(p, &p->program.entries.at[i], &complete))
                return false;
            if (complete || p->news != news)
                idle = 0;
            done[i] = complete;
            left -= complete;
        }
        backwards = !backwards;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!done[i])
            return dt_certfunc_fail(&p->state, NULL, "entry %s reads what no entry leaves",
                                    p->program.entries.at[i].name);
    return true;
}

static bool begin(Proof *p, DtArena *arena, CertNodes *nodes, const char *text, DtText *problem)
{
    p->state = (CertState){.arena = arena, .nodes = nodes, .program = &p->program,
                           .problem = problem, .stage = -1, .source = source, .across = across,
                           .data = p};
    if (!dt_certtext_read(arena, text, &p->program, problem))
        return false;
    p->stored = DT_NEW_ARRAY(arena, CertValue, p->program.stores.n);
    for (uint32_t i = 0; i < p->program.stores.n; i++) {
        const CertStore *store = &p->program.stores.at[i];
        const CertStore *bucket = store->bucket >= 0 ? &p->program.stores.at[store->bucket] : NULL;
        if (bucket && (bucket->first != store->first || bucket->stage != store->stage ||
                       bucket->loops != store->loops || bucket->members < 0 ||
                       !is(bucket->kind, store->kind)))
            return dt_certfunc_fail(&p->state, NULL, "`%s` is not what its bucket is", store->path);
    }
    find_writers(p);
    return run_entries(p);
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

/* One result of the serial program: every part that the final one leaves is it, and they cover its iterations. */
static bool claim(Proof *final, const Left *serial, DtCertCounts *counts)
{
    const CertValue *want = &serial->value;
    const CertAxis *axis = want->loop ? dt_certtext_axis(want->type, want->loop) : NULL;
    int64_t need = axis ? axis->extent : 1, reached = 0;
    for (uint32_t i = find_left(final, serial); i < final->left.n; i++) {
        const Left *left = &final->left.at[i];
        const CertValue *have = &left->value;
        if (left->key != serial->key || left->entry != serial->entry)
            break;
        if (have->node != want->node) {
            dt_certfunc_fail(&final->state, NULL,
                             "entry %s: `%s` is not what the serial program computes",
                             serial->entry, serial->key);
            dt_certnode_differ(have->node, want->node, final->state.problem);
            return false;
        }
        if (is(serial->entry, "update") && have->type->partial)
            return dt_certfunc_fail(&final->state, NULL, "entry %s: `%s` stays pending",
                                    serial->entry, serial->key);
        counts->claims++;
        const CertAxis *part = axis && have->loop ? dt_certtext_axis(have->type, have->loop) : NULL;
        int64_t lo = part ? have->first : 0, hi = part ? lo + part->extent : need;
        reached = lo <= reached && hi > reached ? hi : reached;
    }
    return reached >= need ||
           dt_certfunc_fail(&final->state, NULL,
                            "entry %s: `%s` is not computed, or not for all iterations",
                            serial->entry, serial->key);
}

/* Gradients, and what the next step's states add up to, are compared where the update uses them: stages hold parts of a
 * tied one's. What pieces and prologues leave to others is none of the program's results. */
bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem)
{
    CertNodes *nodes = dt_certnode_table(arena);
    Proof *a = DT_NEW(arena, Proof), *b = DT_NEW(arena, Proof);
    *ret_counts = (DtCertCounts){0};
    if (!begin(a, arena, nodes, serial, ret_problem) || !begin(b, arena, nodes, final, ret_problem))
        return false;
    if (b->left.n)
        qsort(b->left.at, b->left.n, sizeof b->left.at[0], by_key);
    for (uint32_t i = 0; i < a->left.n; i++)
        if (a->left.at[i].key[0] != '@' && !claim(b, &a->left.at[i], ret_counts))
            return false;
    ret_counts->values = b->state.values;
    return true;
}
