/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: values that hold the local elements of several others one after the other (ZeRO). The node of a bucket is
 * a `tuple` of its members' nodes; its attributes say where each member begins and how it lies, so that what is
 * taken out is what was put in. A stack of tuples is the tuple of the stacks, and an op that works element by
 * element on a tuple works on its members. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool dt_certpack_is(const CertNode *node) { return node && is(node->kind, "tuple"); }

/* "@128[embed/1 head]": the offset and the layout of a member; loop: an axis to leave out. */
static void member_text(DtText *text, long long offset, const CertType *type, const char *loop)
{
    dt_text_printf(text, "@%lld[", offset);
    for (uint32_t a = 0; a < type->rank; a++) {
        if (type->axes[a].name == loop)
            continue;
        dt_text_printf(text, " %s=%lld", type->axes[a].name, (long long)type->axes[a].extent);
        for (uint32_t s = 0; s < type->axes[a].n; s++)
            dt_text_printf(text, "/%u", type->axes[a].split[s]);
    }
    dt_text_add(text, "]");
}

static CertNode *tuple(CertState *state, const char *attributes, uint32_t n,
                       CertNode *const *members)
{
    return dt_certnode_make(state->nodes, "tuple", attributes, NULL, n, members, 0);
}

static int by_offset(const void *a, const void *b)
{
    const CertStore *x = *(const CertStore *const *)a, *y = *(const CertStore *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

uint32_t dt_certpack_members(const CertState *state, int bucket, const CertStore ***ret_members)
{
    DT_VEC(const CertStore *) members = {0};
    for (int i = state->program->stores.at[bucket].members; i >= 0;
         i = state->program->stores.at[i].before)
        DT_PUSH(state->arena, members, &state->program->stores.at[i]);
    if (members.n)
        qsort(members.at, members.n, sizeof members.at[0], by_offset);
    *ret_members = members.at;
    return members.n;
}

CertNode *dt_certpack_store(CertState *state, int bucket)
{
    const CertStore **members;
    uint32_t n = dt_certpack_members(state, bucket, &members);
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, n + 1);
    DtText text = {0};
    dt_text_add(&text, "");
    for (uint32_t i = 0; i < n; i++) {
        const char *loop = members[i]->loops ? members[i]->type->axes[0].name : NULL;
        nodes[i] = dt_certnode_make(state->nodes, "store",
                                    dt_intern_printf("%s %s", members[i]->kind, members[i]->path),
                                    dt_certfunc_open(state, members[i]->type, loop), 0, NULL, 0);
        member_text(&text, members[i]->at, members[i]->type, loop);
    }
    CertNode *node = tuple(state, dt_intern_n(text.at, text.len), n, nodes);
    dt_text_free(&text);
    return node;
}

bool dt_certpack_lies(const CertNode *node, const CertStore *member)
{
    DtText text = {0};
    if (!dt_certpack_is(node))
        return false;
    member_text(&text, member->at, member->type, member->loops ? member->type->axes[0].name : NULL);
    bool lies = strstr(node->attributes, text.at) != NULL;
    dt_text_free(&text);
    return lies;
}

CertNode *dt_certpack_member(const CertNode *node, long long offset)
{
    const char *at = node->attributes;
    for (uint32_t i = 0; i < node->n_in; i++) {
        long long have = -1;
        if (sscanf(at, "@%lld", &have) == 1 && have == offset)
            return node->in[i];
        at = strchr(at, ']');
        if (!at++)
            return NULL;
    }
    return NULL;
}

/* ---- pack and unpack ---- */

static uint16_t bits_of(const CertType *type, const char *but)
{
    uint16_t bits = 0;
    for (uint32_t a = 0; a < type->rank; a++)
        for (uint32_t s = 0; s < type->axes[a].n && type->axes[a].name != but; s++)
            bits |= (uint16_t)(1u << type->axes[a].split[s]);
    return bits;
}

/* A bucket whose elements are all here, beside a member that lies on the same ranks. stack: a whole axis that both
 * have, for one bucket per iteration. */
static bool fits(const CertType *bucket, const CertType *member, const char *stack)
{
    const char *flat = dt_intern("@bucket"), *parts = dt_intern("@split");
    const CertAxis *axis = dt_certtext_axis(bucket, flat);
    if (!axis || axis->n)
        return false;
    if (stack) {
        const CertAxis *a = dt_certtext_axis(bucket, stack), *b = dt_certtext_axis(member, stack);
        if (!a || !b || a->n || b->n || a->extent != b->extent)
            return false;
    }
    for (uint32_t a = 0; a < bucket->rank; a++)
        if (bucket->axes[a].name != flat && bucket->axes[a].name != parts &&
            bucket->axes[a].name != stack)
            return false;
    return bits_of(bucket, NULL) == bits_of(member, NULL) && bucket->partial == member->partial &&
           (!bucket->partial || bucket->pending == member->pending) &&
           bucket->dtype == member->dtype;
}

static int64_t local_elements(const CertState *state, const CertType *type)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < type->rank; a++) {
        int64_t extent = type->axes[a].extent;
        for (uint32_t s = 0; s < type->axes[a].n; s++)
            extent /= state->program->size[type->axes[a].split[s]];
        n *= extent;
    }
    return n;
}

static bool pack(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in + 1);
    DtText text = {0};
    const char *stack = op->n_axes ? op->axes[0] : NULL;
    int64_t offset = 0;
    dt_text_add(&text, "");
    *out = (CertValue){.type = op->types[0]};
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!fits(op->types[0], in[i].type, stack) || in[i].loop != stack ||
            (i && in[i].first != in[0].first)) {
            dt_text_free(&text);
            return dt_certfunc_fail(state, op,
                                    "a bucket lies otherwise than what is packed into it");
        }
        nodes[i] = in[i].node;
        member_text(&text, offset, in[i].type, stack);
        offset += local_elements(state, in[i].type) / (stack ? in[i].type->axes[0].extent : 1);
    }
    out->loop = stack;
    out->first = in[0].first;
    out->node = tuple(state, dt_intern_n(text.at, text.len), op->n_in, nodes);
    dt_text_free(&text);
    return true;
}

static bool unpack(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    long long offset = (long long)op->number;
    DtText text = {0};
    const char *stack = op->n_axes ? op->axes[0] : NULL;
    if (!dt_certpack_is(in[0].node) || !fits(in[0].type, op->types[0], stack) ||
        in[0].loop != stack)
        return dt_certfunc_fail(state, op, "what is unpacked is no bucket that is whole here");
    member_text(&text, offset, op->types[0], stack);
    bool lies = strstr(in[0].node->attributes, text.at) != NULL;
    dt_text_free(&text);
    *out = (CertValue){.type = op->types[0],
                       .node = dt_certpack_member(in[0].node, offset),
                       .loop = in[0].loop,
                       .first = in[0].first};
    return (lies && out->node) ||
           dt_certfunc_fail(state, op, "no member of the bucket begins there and lies so");
}

bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    state->values++;
    if (op->n_in < 1 || op->n_out != 1)
        return dt_certfunc_fail(state, op, "a bucket of nothing");
    return is(op->kind, "pack") ? pack(state, op, in, out) : unpack(state, op, in, out);
}

/* ---- ops on buckets ---- */

/* A reduction of the whole bucket: the sum of the members' reductions. Padding must be zero, as it is in a
 * product. */
static bool reduce(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    const CertNode *bucket = in[0].node;
    CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, bucket->n_in + 1);
    const CertAxis *loop = in[0].loop ? dt_certtext_axis(in[0].type, in[0].loop) : NULL;
    if (op->n_axes != in[0].type->rank || !is(op->reduce, "sum"))
        return dt_certfunc_fail(state, op, "a bucket is reduced over some of its axes only");
    for (uint32_t i = 0; i < bucket->n_in; i++) {
        CertNode *member = bucket->in[i];
        DtText text = {0};
        if (!is(member->kind, "mul"))
            return dt_certfunc_fail(state, op,
                                    "a bucket is reduced whose padding may be other than 0");
        dt_text_add(&text, op->attributes);
        for (uint32_t a = 0; a < member->rank; a++)
            dt_text_printf(&text, " [%s]", member->axes[a]);
        if (loop)
            dt_text_printf(&text, " over=%lld:%lld", (long long)in[0].first,
                           (long long)(in[0].first + loop->extent));
        terms[i] = dt_certnode_make(state->nodes, "reduce", text.at, op->types[0], 1, &member, 0);
        dt_text_free(&text);
    }
    out->node = dt_certnode_sum(state->nodes, op->types[0], bucket->n_in, terms);
    return true;
}

bool dt_certpack_map(CertState *state, const CertOp *op, const char *attributes,
                     const CertValue *in, uint32_t index, CertValue *out)
{
    const CertNode *first = NULL;
    CertNode **members, **parts = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in + 1);
    if (is(op->kind, "reduce"))
        return reduce(state, op, in, out);
    for (uint32_t i = 0; i < op->n_in; i++) {
        bool tuples = dt_certpack_is(in[i].node);
        if (tuples && first && first->attributes != in[i].node->attributes)
            return dt_certfunc_fail(state, op, "`%s` of buckets with other members", op->kind);
        if (!tuples && in[i].type->rank)
            return dt_certfunc_fail(state, op, "`%s` of a bucket and something else", op->kind);
        first = tuples ? in[i].node : first;
    }
    members = DT_NEW_ARRAY(state->arena, CertNode *, first->n_in + 1);
    for (uint32_t k = 0; k < first->n_in; k++) {
        CertType type = dt_certnode_type(first->in[k]);
        type.dtype = op->types[index]->dtype;
        for (uint32_t i = 0; i < op->n_in; i++)
            parts[i] = dt_certpack_is(in[i].node) ? in[i].node->in[k] : in[i].node;
        members[k] = is(op->kind, "add")    ? dt_certnode_sum(state->nodes, &type, op->n_in, parts)
                     : is(op->kind, "cast") ? dt_certnode_cast(state->nodes, &type, parts[0])
                                            : dt_certnode_make(state->nodes, op->kind, attributes,
                                                               &type, op->n_in, parts, index);
    }
    out->node = tuple(state, first->attributes, first->n_in, members);
    return true;
}

/* The tuple of what change makes of the members. */
CertNode *dt_certpack_each(CertState *state, const CertNode *node,
                           CertNode *(*change)(void *data, CertNode *member), void *data)
{
    CertNode **members = DT_NEW_ARRAY(state->arena, CertNode *, node->n_in + 1);
    for (uint32_t i = 0; i < node->n_in; i++)
        members[i] = change(data, node->in[i]);
    return tuple(state, node->attributes, node->n_in, members);
}

CertNode *dt_certpack_sum(CertState *state, const CertType *type, uint32_t n, CertNode *const *in)
{
    CertNode **members, **terms = DT_NEW_ARRAY(state->arena, CertNode *, n + 1);
    if (!dt_certpack_is(in[0]))
        return dt_certnode_sum(state->nodes, type, n, in);
    members = DT_NEW_ARRAY(state->arena, CertNode *, in[0]->n_in + 1);
    for (uint32_t k = 0; k < in[0]->n_in; k++) {
        CertType member = dt_certnode_type(in[0]->in[k]);
        member.dtype = type->dtype;
        for (uint32_t i = 0; i < n; i++) {
            if (in[i]->attributes != in[0]->attributes || in[i]->n_in != in[0]->n_in)
                return dt_certnode_sum(state->nodes, type, n, in);
            terms[i] = in[i]->in[k];
        }
        members[k] = dt_certnode_sum(state->nodes, &member, n, terms);
    }
    return tuple(state, in[0]->attributes, in[0]->n_in, members);
}
