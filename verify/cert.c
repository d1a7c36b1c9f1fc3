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
#include <string.h>

typedef struct Left {  /* what an entry leaves */
    const char *entry; /* "grad" of "grad.b0" */
    const char *key;   /* "param h.wq.w", or a name */
    CertValue value;
    const CertResult *result;
} Left;

typedef struct Part { /* what one entry adds to a gradient */
    const CertResult *result;
    CertValue value;
    int32_t next; /* of the same store, or -1 */
} Part;

typedef struct Proof {
    CertState state;
    CertProgram program;
    CertValue *stored; /* by store: what the grad and other pieces left there */
    DT_VEC(Part) parts;
    int32_t *writers;        /* by store: first of its parts, or -1 */
    DT_VEC(CertValue) terms; /* of sums over stages: number of the sum * stages + stage */
    DT_VEC(uint64_t) across; /* stage sets of the sums met in the entry being evaluated */
    uint32_t news;           /* terms that became known */
    const char *base;
    DT_VEC(Left) left;
} Proof;

static const char *key_of(const CertStore *store)
{
    return dt_intern_printf("%s %s", store->kind, store->path);
}

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* What entry grad adds up for the update: gradients, and the next values of states. */
static bool is_total(const CertStore *store)
{
    return is(store->kind, "grad") || is(store->kind, "next");
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

/* What the pieces add up in a gradient's store, once all of them are known. */
static CertValue gradient(Proof *p, int store)
{
    CertValue sum = {0};
    DT_VEC(CertNode *) nodes = {0};
    for (int32_t i = p->writers[store]; i >= 0; i = p->parts.at[i].next) {
        sum = p->parts.at[i].value;
        if (!sum.node)
            return sum;
        DT_PUSH(p->state.arena, nodes, sum.node);
    }
    if (nodes.n)
        sum.node = dt_certpack_sum(&p->state, dt_certfunc_open(&p->state, sum.type, sum.loop),
                                   nodes.n, nodes.at);
    return sum;
}

static bool add_part(Proof *p, const CertResult *result, CertValue value)
{
    Part *own = NULL;
    for (int32_t i = p->writers[result->store]; i >= 0; i = p->parts.at[i].next) {
        Part *part = &p->parts.at[i];
        own = part->result == result ? part : own;
        if (part->result != result && part->value.node &&
            (!dt_certrule_same(part->value.type, value.type) || !result->accumulate ||
             part->value.loop != value.loop || part->value.first != value.first))
            return dt_certfunc_fail(&p->state, NULL,
                                    "two pieces leave a gradient that do not add up");
    }
    if (own)
        own->value = value;
    return true;
}

/* Which results go to each gradient's store. */
static void find_writers(Proof *p)
{
    p->writers = DT_NEW_ARRAY(p->state.arena, int32_t, p->program.stores.n + 1);
    for (uint32_t i = 0; i < p->program.stores.n; i++)
        p->writers[i] = -1;
    for (uint32_t i = 0; i < p->program.entries.n; i++)
        for (uint32_t k = 0; k < p->program.entries.at[i].results.n; k++) {
            const CertResult *result = &p->program.entries.at[i].results.at[k];
            if (result->store < 0 || (uint32_t)result->store >= p->program.stores.n ||
                !is_total(&p->program.stores.at[result->store]))
                continue;
            DT_PUSH(p->state.arena, p->parts,
                    ((Part){.result = result, .next = p->writers[result->store]}));
            p->writers[result->store] = (int32_t)p->parts.n - 1;
        }
}

static bool param_source(Proof *p, const CertOp *op, CertValue *ret_value)
{
    if (op->store < 0 || (uint32_t)op->store >= p->program.stores.n)
        return dt_certfunc_fail(&p->state, op, "a store that is not there");
    const CertStore *store = &p->program.stores.at[op->store];
    if (!dt_certrule_same(store->type, op->types[0]))
        return dt_certfunc_fail(&p->state, op, "a store is read as another type than it has");
    if (p->state.stage >= 0 && store->stage >= 0 && store->stage != p->state.stage)
        return dt_certfunc_fail(&p->state, op, "a stage reads a store of another stage");
    if (is(store->kind, "saved") || is(store->kind, "channel") || is_total(store)) {
        int number = op->store;
        for (uint32_t hops = 0; is(p->program.stores.at[number].kind, "channel");
             hops++) { /* also what is passed on */
            const CertStore *to = &p->program.stores.at[number];
            if (to->of < 0 || (uint32_t)to->of >= p->program.stores.n || hops > p->program.stores.n)
                return dt_certfunc_fail(&p->state, op, "a channel without sender");
            number = to->of;
            if (!dt_certrule_same(p->program.stores.at[number].type, to->type))
                return dt_certfunc_fail(&p->state, op,
                                        "a channel changes the type of what it carries");
        }
        *ret_value = is_total(store) ? gradient(p, op->store) : p->stored[number];
        ret_value->type = op->types[0];
        return true;
    }
    ret_value->loop = store->loops ? store->type->axes[0].name : NULL;
    ret_value->first = store->first;
    const CertStore **members;
    if (dt_certpack_members(&p->state, op->store, &members))
        ret_value->node = dt_certpack_store(&p->state, op->store);
    else
        ret_value->node =
            dt_certnode_make(p->state.nodes, "store", key_of(store),
                             dt_certfunc_open(&p->state, store->type, ret_value->loop), 0, NULL, 0);
    return true;
}

static bool source(CertState *state, const CertOp *op, CertValue *ret_value)
{
    Proof *p = state->data;
    if (is(op->kind, "param"))
        return param_source(p, op, ret_value);
    if (op->types[0]->partial)
        return dt_certfunc_fail(state, op, "an input with a pending reduction");
    if (op->text[0] == '@' && strchr(op->text, '.')) { /* what a prologue has left */
        for (uint32_t i = 0; i < p->left.n; i++)
            if (p->left.at[i].key == op->text) {
                ret_value->node = p->left.at[i].value.node;
                return true;
            }
        return true;
    }
    ret_value->node = dt_certnode_make(state->nodes, "input", op->text, op->types[0], 0, NULL, 0);
    return true;
}

static uint32_t n_stages(const CertProgram *program)
{
    for (uint32_t m = 0; m < program->n_mesh; m++)
        if (program->mesh[m] == program->pipe)
            return (uint32_t)program->size[m];
    return 1;
}

/* The sum over the stages of op->stages: known once every one of them has delivered its term. */
static bool across(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value)
{
    Proof *p = state->data;
    uint32_t stages = n_stages(&p->program), k = 0;
    CertNode **in = DT_NEW_ARRAY(state->arena, CertNode *, stages + 1);
    uint32_t n = 0;
    if (state->stage < 0 || (uint32_t)state->stage >= stages || stages > 64 ||
        !(op->stages >> state->stage & 1))
        return dt_certfunc_fail(state, op, "a sum over stages on a stage that is not one of them");
    if (!is(op->reduce, "sum"))
        return dt_certfunc_fail(state, op, "stages add up");
    if (!dt_certrule_same(x.type, op->types[0])) /* what is pending over ranks stays so */
        return dt_certfunc_fail(state, op, "a sum over stages changes the layout");
    for (uint32_t i = 0; i < p->across.n; i++) /* sums of the same stages correspond in order */
        k += p->across.at[i] == op->stages;
    DT_PUSH(state->arena, p->across, op->stages);
    CertNode *tag =
        dt_certnode_make(state->nodes, "across",
                         dt_intern_printf("%s %u %llx", p->base, k, (unsigned long long)op->stages),
                         op->types[0], 0, NULL, 0);
    while (p->terms.n < (tag->id + 1) * stages)
        DT_PUSH(state->arena, p->terms, ((CertValue){0}));
    CertValue *term = &p->terms.at[tag->id * stages + (uint32_t)state->stage];
    p->news += !term->node && x.node;
    *term = x;
    for (uint32_t s = 0; s < stages; s++) {
        if (!(op->stages >> s & 1))
            continue;
        in[n] = p->terms.at[tag->id * stages + s].node;
        if (!in[n++])
            return true;
    }
    ret_value->node = dt_certpack_sum(state, op->types[0], n, in);
    return true;
}

/* ---- entries ---- */

/* Micro-batches add a result up exactly if it is pending over time. */
static bool settle(Proof *p, const CertEntry *entry, const CertResult *result, CertValue *value)
{
    const CertStore *store = result->store >= 0 ? &p->program.stores.at[result->store] : NULL;
    uint16_t time = p->program.time & value->type->partial;
    bool passes = store && (is(store->kind, "saved") || is(store->kind, "channel"));
    if (time && !passes && (!result->accumulate || !is(value->type->pending, "sum")))
        return dt_certfunc_fail(&p->state, NULL,
                                "entry %s: a sum over micro-batches is not added up", entry->name);
    if (!time && p->program.time && result->accumulate)
        return dt_certfunc_fail(&p->state, NULL,
                                "entry %s: micro-batches add up what each of them holds whole",
                                entry->name);
    if (!store)
        return true;
    if (entry->stage >= 0 && store->stage >= 0 && store->stage != entry->stage)
        return dt_certfunc_fail(&p->state, NULL, "entry %s: a stage writes `%s` of another stage", entry->name,
                                store->path);
    if (!passes && store->loops && (value->loop != store->type->axes[0].name || value->first != store->first))
        return dt_certfunc_fail(&p->state, NULL, "entry %s: `%s` gets other iterations than its store holds", entry->name,
                                store->path);
    if (is_total(store)) {
        CertType *type = DT_NEW(p->state.arena, CertType);
        *type =
            *value
                 ->type; /* pending over ranks: completed at the end of the entry, or left so to the update */
        type->partial &= (uint16_t)~p->program.time;
        if (!store->type->partial)
            type->partial = 0;
        if (!dt_certrule_same(type, store->type))
            return dt_certfunc_fail(
                &p->state, NULL,
                "entry %s: the gradient of `%s` lies otherwise than its store says", entry->name,
                store->path);
    } else if (!dt_certrule_same(value->type, store->type) &&
               !(is(store->kind, "state") && !is(p->base, "update"))) {
        return dt_certfunc_fail(&p->state, NULL,
                                "entry %s: what goes to `%s` lies otherwise than the store says",
                                entry->name, store->path);
    }
    return true;
}

/* Notes what an entry leaves; of a bucket each member. */
static bool leave(Proof *p, const CertResult *result, const CertStore *store, CertValue value)
{
    const CertStore **members;
    uint32_t n = store ? dt_certpack_members(&p->state, result->store, &members) : 0;
    for (uint32_t i = 0; i < n; i++) {
        CertValue member = value;
        member.node = dt_certpack_lies(value.node, members[i])
                          ? dt_certpack_member(value.node, members[i]->at)
                          : NULL;
        if (!member.node)
            return dt_certfunc_fail(&p->state, NULL,
                                    "what goes to the bucket of `%s` does not hold it",
                                    members[i]->path);
        DT_PUSH(p->state.arena, p->left, ((Left){p->base, key_of(members[i]), member, result}));
    }
    if (n == 0)
        DT_PUSH(p->state.arena, p->left,
                ((Left){p->base, store ? key_of(store) : result->name, value, result}));
    return true;
}

static bool run_entry(Proof *p, const CertEntry *entry, bool *ret_complete)
{
    const CertFunc *func = dt_certtext_func(&p->program, entry->func);
    if (!func || func->n_args || func->results.n != entry->results.n)
        return dt_certfunc_fail(&p->state, NULL, "entry %s has no function of its results",
                                entry->name);
    CertValue *results = DT_NEW_ARRAY(p->state.arena, CertValue, entry->results.n + 1);
    p->state.stage = entry->stage;
    p->base = base_of(&p->program, entry);
    p->across.n = 0;
    if (!dt_certfunc_run(&p->state, func, "", NULL, results))
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
        if (store && (is(store->kind, "saved") || is(store->kind, "channel")))
            p->stored[result->store] = results[i];
        if (store && is_total(store) && !add_part(p, result, results[i]))
            return false;
        if (*ret_complete && !leave(p, result, store, results[i]))
            return false;
    }
    return true;
}

static bool run_entries(Proof *p)
{
    uint32_t n = p->program.entries.n, left = n;
    bool *done = DT_NEW_ARRAY(p->state.arena, bool, n + 1);
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
    p->state = (CertState){.arena = arena,
                           .nodes = nodes,
                           .program = &p->program,
                           .problem = problem,
                           .stage = -1,
                           .source = source,
                           .across = across,
                           .data = p};
    if (!dt_certtext_read(arena, text, &p->program, problem))
        return false;
    p->stored = DT_NEW_ARRAY(arena, CertValue, p->program.stores.n + 1);
    for (uint32_t i = 0; i < p->program.entries.n; i++)
        for (uint32_t k = 0; k < p->program.entries.at[i].results.n; k++)
            if (p->program.entries.at[i].results.at[k].store >= (int)p->program.stores.n)
                return dt_certfunc_fail(&p->state, NULL,
                                        "a result goes to a store that is not there");
    for (uint32_t i = 0; i < p->program.stores.n; i++) {
        const CertStore *store = &p->program.stores.at[i];
        const CertStore *bucket = store->bucket >= 0 ? &p->program.stores.at[store->bucket] : NULL;
        if (bucket && (bucket->first != store->first || bucket->stage != store->stage ||
                       bucket->loops != store->loops || !is(bucket->kind, store->kind)))
            return dt_certfunc_fail(&p->state, NULL, "`%s` is not what its bucket is", store->path);
    }
    find_writers(p);
    return run_entries(p);
}

/* ---- claims ---- */

static bool is_claimed(const Left *left)
{
    return strncmp(left->key, "saved ", 6) != 0 && strncmp(left->key, "channel ", 8) != 0 &&
           left->key[0] != '@';
}

/* The iterations that the final program's parts of one result cover, together. */
static bool covers(Proof *final, const Left *serial)
{
    int64_t need = 0, reached = 0;
    const CertAxis *axis =
        serial->value.loop ? dt_certtext_axis(serial->value.type, serial->value.loop) : NULL;
    need = axis ? axis->extent : 1;
    for (bool more = true; more && reached < need;) {
        more = false;
        for (uint32_t i = 0; i < final->left.n; i++) {
            const Left *left = &final->left.at[i];
            if (left->key != serial->key || left->entry != serial->entry)
                continue;
            const CertAxis *part = axis && left->value.loop
                                       ? dt_certtext_axis(left->value.type, left->value.loop)
                                       : NULL;
            int64_t lo = part ? left->value.first : 0, hi = part ? lo + part->extent : need;
            if (lo <= reached && hi > reached) {
                reached = hi;
                more = true;
            }
        }
    }
    return reached >= need;
}

static bool claim(Proof *final, const Left *serial, DtCertCounts *counts)
{
    bool total = strncmp(serial->key, "grad ", 5) == 0 || strncmp(serial->key, "next ", 5) == 0;
    if (total) /* compared where the update uses it: stages hold parts of a tied one's */
        return true;
    for (uint32_t i = 0; i < final->left.n; i++) {
        const Left *left = &final->left.at[i];
        if (left->key != serial->key || left->entry != serial->entry)
            continue;
        if (left->value.node != serial->value.node) {
            dt_certfunc_fail(&final->state, NULL,
                             "entry %s: `%s` is not what the serial program computes",
                             serial->entry, serial->key);
            dt_certnode_differ(left->value.node, serial->value.node, final->state.problem);
            return false;
        }
        if (is(serial->entry, "update") && left->value.type->partial)
            return dt_certfunc_fail(&final->state, NULL, "entry %s: `%s` stays pending",
                                    serial->entry, serial->key);
        counts->claims++;
    }
    return covers(final, serial) ||
           dt_certfunc_fail(&final->state, NULL,
                            "entry %s: `%s` is not computed, or not for all iterations",
                            serial->entry, serial->key);
}

bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem)
{
    CertNodes *nodes = dt_certnode_table(arena);
    Proof *a = DT_NEW(arena, Proof), *b = DT_NEW(arena, Proof);
    *ret_counts = (DtCertCounts){0};
    if (!begin(a, arena, nodes, serial, ret_problem) || !begin(b, arena, nodes, final, ret_problem))
        return false;
    for (uint32_t i = 0; i < a->left.n; i++)
        if (is_claimed(&a->left.at[i]) && !claim(b, &a->left.at[i], ret_counts))
            return false;
    ret_counts->values = b->state.values;
    return true;
}
