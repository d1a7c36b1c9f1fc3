/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of an entry: parameters, moments and states, which are equal in both programs; values
 * that other pieces pass on; sums over pieces and stages. Entries are evaluated repeatedly until
 * all of these are known. */
#include "verify/cert_proof.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

static const char store_kind[] = "source", input_kind[] = "input of";

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* Name without the piece or stage: "grad" of "grad.f0" and "grad.b1", "grad.prologue" of
 * "grad.prologue.2". */
const char *dt_certsource_base(const CertProgram *program, const CertEntry *entry)
{
    if (!program->pipe || entry->stage < 0 || entry->is.number < 0)
        return entry->name;
    const size_t run = strcspn(entry->name, ".");
    return dt_intern_n(entry->name,
                       entry->is.part == DT_PLAN_PROLOGUE ? run + strlen(".prologue") : run);
}

bool dt_certsource_is_known(const CertProof *p, uint32_t place)
{
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next)
        if (!p->parts.at[i].value.node)
            return false;
    return p->writers[place] >= 0;
}

const CertStore *dt_certsource_find(const CertProof *p, const char *key)
{
    const CertStore like = {.key = key}, *at = &like;
    const CertStore *const *found =
        bsearch(&at, p->by_key, p->program.stores.n, sizeof p->by_key[0], dt_cert_by_key);
    return found ? *found : NULL;
}

static CertNode *sum_up(CertProof *p, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    return dt_certpack_sum(&p->state, shape, n, in);
}

/* Returns the serial program's value in the store of this key if it equals the accumulated node;
 * otherwise the node itself. */
static CertNode *as_serial(CertProof *p, const CertStore *store, CertNode *node)
{
    CertValue value = {0};
    const CertStore *meant = dt_certsource_find(p->serial, store->key);
    const bool same = meant && dt_certsource_gradient(p->serial, meant->place, &value) &&
                      value.node && dt_certsum_equal(&p->state, node, value.node, NULL);
    return same ? value.node : node;
}

static CertNode *members_as_serial(CertProof *p, const CertStore *store, CertNode *node)
{
    CertNode **in = DT_NEW_ARRAY(p->state.arena, CertNode *, node->n_in);
    memcpy(in, node->in, node->n_in * sizeof in[0]);
    for (int i = store->members; i >= 0; i = p->program.stores.at[i].before)
        for (uint32_t k = 0; k < node->n_in; k += 2)
            if (in[k]->lo == p->program.stores.at[i].at)
                in[k + 1] = as_serial(p, &p->program.stores.at[i], in[k + 1]);
    return dt_certnode_make(
        p->state.nodes,
        (CertNode){.kind = dt_certkind_tuple, .attributes = "", .n_in = node->n_in, .in = in});
}

/* Returns the serial value that the accumulated node in this store equals; for a bucket, a bucket
 * of those of its members. The store keeps it for the next call. */
CertNode *dt_certsource_total(CertState *state, int64_t number, CertNode *node)
{
    CertProof *p = state->data;
    CertStore *store = &p->program.stores.at[number];
    if (!node || p->state.is_serial)
        return node;
    if (store->summed == node)
        return store->total;
    store->summed = node; /* the serial program is complete by now */
    store->total =
        dt_certpack_is(node) ? members_as_serial(p, store, node) : as_serial(p, store, node);
    return store->total;
}

/* Sets *ret_value to the sum of all pieces' terms in the store with this number; leaves it
 * unchanged while some term is not known. False after a problem. */
bool dt_certsource_gradient(CertProof *p, uint32_t place, CertValue *ret_value)
{
    DT_VEC(CertNode *) nodes = {0};
    if (!dt_certsource_is_known(p, place))
        return true;
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next) {
        const CertValue *part = &p->parts.at[i].value, before = *ret_value;
        *ret_value = *part;
        /* padding facts hold if they hold for all pieces, which must have the same members */
        for (uint32_t k = 0; nodes.n && k < CERT_FILLS; k++)
            if (before.fill[k] != CERT_ZERO || before.rest != part->rest)
                ret_value->fill[k] = CERT_ANYTHING;
        DT_PUSH(p->state.arena, nodes, ret_value->node);
    }
    const CertShape *shape = dt_certrange_all(&p->state, ret_value->type, ret_value->loop);
    ret_value->node = sum_up(p, shape, nodes.n, nodes.at);
    return ret_value->node ||
           dt_cert_fail(&p->state, NULL, "two pieces leave a gradient that do not add up");
}

bool dt_certsource_add(CertProof *p, const CertResult *result, CertValue value)
{
    uint32_t place = dt_cert_place(dt_certproof_store_at(p, result->store), p->state.stage);
    for (int32_t i = p->writers[place]; i >= 0; i = p->parts.at[i].next) {
        CertPart *part = &p->parts.at[i];
        const CertType *type = part->value.type;
        if (part->result == result)
            part->value = value;
        else if (part->value.node &&
                 (!dt_certrule_same(type, 0, type->partial, value.type) ||
                  !result->accumulate || !part->result->accumulate ||
                  part->value.loop != value.loop || part->value.first != value.first))
            return dt_cert_fail(&p->state, NULL, "two pieces leave a gradient that do not add up");
    }
    return true;
}

/* Whether several entries may leave results in one store: pieces of one entry add to a gradient,
 * each loss's update may store a state, and several entries go on with a text. */
static bool may_leave(const CertProof *p, const CertStore *store, const char *base, int32_t others)
{
    bool may = true;
    for (int32_t i = others; i >= 0; i = p->parts.at[i].next) {
        const char *other = p->parts.at[i].base;
        const bool updates = (dt_certproof_is_update(base) && dt_certproof_is_update(other)) ||
                             is(store->kind, "cache");
        may = may && (dt_certproof_is_total(store) ? other == base : other != base && updates);
    }
    return may;
}

/* Records which results go to each store: to a gradient's store several, to another one result of
 * one entry. */
bool dt_certsource_writers(CertProof *p)
{
    p->writers = DT_NEW_ARRAY(p->state.arena, int32_t, p->program.n_places);
    memset(p->writers, -1, p->program.n_places * sizeof p->writers[0]);
    for (uint32_t i = 0; i < p->program.entries.n; i++) {
        const CertEntry *entry = &p->program.entries.at[i];
        const char *base = dt_certsource_base(&p->program, entry);
        for (uint32_t k = 0; k < entry->results.n; k++) {
            const CertResult *result = &entry->results.at[k];
            const CertStore *store = dt_certproof_store_at(p, result->store);
            for (int64_t stage = entry->stage; store && stage <= entry->to; stage++) {
                int32_t *last =
                    dt_cert_has(store, stage) ? &p->writers[dt_cert_place(store, stage)] : NULL;
                if (!last || !may_leave(p, store, base, *last))
                    return dt_cert_fail(&p->state, NULL,
                                        "entry %s leaves `%s`, which is not of "
                                        "its stage, or which another leaves",
                                        entry->name, store->path);
                DT_PUSH(p->state.arena, p->parts,
                        ((CertPart){.result = result, .base = base, .next = *last}));
                *last = (int32_t)p->parts.n - 1;
            }
        }
    }
    return true;
}

static CertNode *store_node(CertState *state, const CertStore *store)
{
    const CertShape *shape = dt_certrange_all(state, store->type, dt_certproof_loop_of(store));
    return dt_certnode_leaf(state->nodes, store_kind, store->key, shape, 0);
}

/* The value that a stage finds in a store between pieces: the one that an entry of this stage, or
 * of the stage at the other end of a channel, has left there; NULL after a problem. */
const CertValue *dt_certsource_passed(CertProof *p, const CertOp *op, int64_t number, int64_t stage)
{
    const CertStore *store = dt_certproof_store_at(p, number);
    for (uint32_t hops = 0; is(store->kind, "channel"); hops++) {
        const CertChannel *from = p->from[dt_cert_place(store, stage)];
        const CertStore *to = store;
        if (!from || hops > CERT_STAGES) {
            dt_cert_fail(&p->state, op, "a channel without sender");
            return NULL;
        }
        number = dt_cert_source(store, from->from);
        stage = from->from;
        store = number < p->program.stores.n ? dt_certproof_store_at(p, number) : NULL;
        if (!store || !dt_certproof_is_passed(store) || !dt_cert_has(store, stage) ||
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

static bool param_source(CertProof *p, const CertOp *op, CertValue *ret_value)
{
    int64_t stage = p->state.stage;
    if (op->store < 0 || op->store >= p->program.stores.n)
        return dt_cert_fail(&p->state, op, "a store that is not there");
    CertStore *store = &p->program.stores.at[op->store];
    if (!dt_certrule_same(store->type, 0, store->type->partial, op->types[0]))
        return dt_cert_fail(&p->state, op, "a store is read as another type than it has");
    if (!dt_cert_has(store, stage))
        return dt_cert_fail(&p->state, op, "a stage reads a store of another stage");
    if (!dt_certproof_is_passed(store) && ((store->type->split & p->program.time) ||
                                           (store->type->partial && !dt_certproof_is_total(store))))
        return dt_cert_fail(
            &p->state, op,
            "a store of which ranks hold terms of a sum, or micro-batches a part each");
    if (dt_certproof_is_passed(store)) {
        const CertValue *value = dt_certsource_passed(p, op, op->store, stage);
        *ret_value = value ? *value : *ret_value;
        ret_value->type = op->types[0];
        return value != NULL;
    }
    if (dt_certproof_is_total(store)) {
        bool ok = dt_certsource_gradient(p, dt_cert_place(store, stage), ret_value);
        ret_value->node = dt_certsource_total(&p->state, op->store, ret_value->node);
        ret_value->total = 1 + op->store;
        ret_value->type = op->types[0];
        return ok;
    }
    if (!store->node)
        store->node = store->members >= 0 ? dt_certpack_store(&p->state, op->store, store_node)
                                          : store_node(&p->state, store);
    if (!store->node)
        return dt_cert_fail(
            &p->state, op,
            "a bucket whose members overlap, end behind it, or have other iterations");
    ret_value->loop = dt_certproof_loop_of(store);
    ret_value->first = dt_cert_first(store, stage);
    ret_value->node = store->node;
    memset(ret_value->fill, CERT_ZERO, sizeof ret_value->fill);
    ret_value->fill[CERT_SURE] = CERT_ANYTHING;
    ret_value->rest = store->members >= 0 ? store->path : NULL;
    return true;
}

static bool is_prologue(const char *entry, const char *of)
{
    const DtPlanName its = dt_plan_name(entry), run = dt_plan_name(of);
    return its.part == DT_PLAN_PROLOGUE && its.number < 0 && !dt_plan_name_is_part(&run) &&
           dt_plan_name_same_run(&its, &run);
}

bool dt_certsource_of(CertState *state, const CertOp *op, CertValue *ret_value)
{
    CertProof *p = state->data;
    const CertType *type = op->types[0];
    if (is(op->kind, "param"))
        return param_source(p, op, ret_value);
    const bool is_left = op->text[0] == '@' && strchr(op->text, '.'); /* a result of a prologue */
    if (type->partial || (type->padded && !is_left))
        return dt_cert_fail(state, op, "an input with a pending reduction or padding");
    if (is_left) {
        for (uint32_t i = 0; i < p->left.n; i++)
            if (p->left.at[i].key == op->text && is_prologue(p->left.at[i].entry, p->base)) {
                const CertValue *left = &p->left.at[i].value;
                ret_value->node = left->node; /* complete after the prologue */
                memcpy(ret_value->fill, left->fill, sizeof left->fill);
                return dt_certrule_same(p->left.at[i].value.type, 0, 0, type) ||
                       dt_cert_fail(state, op, "what a prologue has left is read as another type");
            }
        return true;
    }
    ret_value->node = dt_certnode_leaf(state->nodes, input_kind, op->text,
                                       dt_certnode_shape(state->nodes, type), 0);
    return true;
}

uint32_t dt_certsource_stages(const CertProgram *program)
{
    for (uint32_t m = 0; m < program->n_mesh; m++)
        if (program->pipe >> m & 1)
            return (uint32_t)program->size[m];
    return 1;
}

static CertAcross *sum_of(CertProof *p, const char *stages)
{
    CertAcross sum = {.entry = p->base, .stages = stages};
    for (uint32_t i = 0; i < p->across.n; i++) /* sums over the same stages correspond by their
                                                * order */
        sum.number += dt_stages_same(p->across.at[i], stages);
    DT_PUSH(p->state.arena, p->across, stages);
    for (uint32_t i = 0; i < p->sums.n; i++)
        if (p->sums.at[i].entry == sum.entry && p->sums.at[i].number == sum.number &&
            dt_stages_same(p->sums.at[i].stages, stages))
            return &p->sums.at[i];
    sum.terms = DT_NEW_ARRAY(p->state.arena, CertNode *, dt_certsource_stages(&p->program));
    DT_PUSH(p->state.arena, p->sums, sum);
    return &p->sums.at[p->sums.n - 1];
}

/* Adds this stage's term x to the sum over the stages of op->stages. Sets *ret_value to the sum
 * once all of them have delivered their terms. False after a problem. */
bool dt_certsource_across(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value)
{
    CertProof *p = state->data;
    uint32_t stages = dt_certsource_stages(&p->program), n = 0;
    if (state->stage < 0 || state->stage >= stages || !dt_stages_is_valid(op->stages, stages) ||
        !dt_stages_has(op->stages, (uint32_t)state->stage))
        return dt_cert_fail(state, op, "a sum over stages on a stage that is not one of them");
    if (!is(op->reduce, "sum") || op->mesh != state->program->pipe)
        return dt_cert_fail(state, op, "what is reduced over stages is a sum, over them alone");
    if (x.node && (!dt_certpad_is_zero(state, &x) ||
                   (dt_certpack_is(x.node) && x.fill[CERT_SURE] != CERT_ZERO)))
        return dt_cert_fail(state, op, "stages add up padding that may be other than 0");
    /* reductions must stay pending */
    if (!dt_certrule_same(x.type, 0, x.type->partial, op->types[0]))
        return dt_cert_fail(state, op, "a sum over stages changes the layout");
    CertAcross *sum = sum_of(p, op->stages);
    *ret_value = x;
    ret_value->type = op->types[0];
    if (x.node)
        x.node = dt_certpack_moved(state, op, x.node, x.total);
    if (x.node) {
        const bool zero = dt_certstep_is_zero(x.node); /* a store without loops has no range of
                                                        * iterations */
        if (!sum->like.node || (!zero && dt_certstep_is_zero(sum->like.node)))
            sum->like = x;
        if (sum->like.type != x.type ||
            (!zero && (sum->like.loop != x.loop || sum->like.first != x.first)))
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
    sum->all = ret_value->node =
        sum_up(p, dt_certrange_all(state, op->types[0], sum->like.loop), n, in);
    if (sum->total)
        sum->all = ret_value->node = dt_certsource_total(state, sum->total - 1, sum->all);
    return ret_value->node || dt_cert_fail(state, op, "stages add up what does not");
}
