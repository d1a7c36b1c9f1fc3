/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: values that contain the local elements of several others one after the other (ZeRO).
 * The node of a bucket has two operands per member: the member's node, and a `place` with its
 * offset and layout, so that a value taken out is the one that was put in. A stack of buckets is
 * the bucket of the stacks. An elementwise op on a bucket works on its members: for each it is
 * the serial op on the members' nodes, which is found among the users of these. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdlib.h>

static const char place_kind[] = "place";

bool dt_certpack_is(const CertNode *node) { return node && node->kind == dt_certkind_tuple; }

/* Whether there is a bucket for each element of the axis. */
static bool is_iterations(const CertType *bucket, const char *axis)
{
    return strcmp(axis, "@bucket") != 0 && strcmp(axis, "@split") != 0 &&
           dt_certtext_axis(bucket, axis);
}

/* Returns text that describes the layout of a member of this type within one iteration's bucket.
 * The type keeps it for the next call. */
static const char *lies(const CertType *type, const CertType *bucket)
{
    CertType *notes = (CertType *)type;
    DtText text = {0};
    if (notes->lies && notes->lies_in == bucket)
        return notes->lies;
    dt_text_add(&text, "");
    for (uint32_t a = 0; a < type->rank; a++) {
        if (is_iterations(bucket, type->axes[a].name))
            continue;
        dt_text_printf(&text, " %s=%lld", type->axes[a].name, (long long)type->axes[a].extent);
        for (uint32_t s = 0; s < type->axes[a].n; s++)
            dt_text_printf(&text, "/%u", type->axes[a].split[s]);
        dt_text_add(&text, type->axes[a].zigzag ? "~" : "");
    }
    notes->lies = dt_intern_n(text.at, text.len);
    notes->lies_in = bucket;
    dt_text_free(&text);
    return notes->lies;
}

static CertNode *place(CertState *state, int64_t offset, const CertType *type,
                       const CertType *bucket)
{
    return dt_certnode_make(state->nodes,
                            (CertNode){.kind = place_kind, .lo = offset,
                                       .attributes = lies(type, bucket)});
}

static CertNode *bucket_of(CertState *state, uint32_t n, CertNode *const *in)
{
    return dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_tuple, .attributes = "",
                                                     .n_in = n, .in = in});
}

static int by_offset(const void *a, const void *b)
{
    const CertStore *x = *(const CertStore *const *)a, *y = *(const CertStore *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Returns how many elements a member has on a rank within the bucket of one iteration. */
static int64_t local_elements(const CertState *state, const CertType *type, const CertType *bucket)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < type->rank; a++)
        n *= is_iterations(bucket, type->axes[a].name)
                 ? 1
                 : dt_cert_local(state->program, &type->axes[a]);
    return n;
}

/* Whether a member has the same iterations, with the same splits, as its bucket. */
static bool has_iterations(const CertType *member, const CertType *bucket)
{
    bool has = true;
    for (uint32_t a = 0; has && a < bucket->rank; a++) {
        const CertAxis *axis = dt_certtext_axis(member, bucket->axes[a].name);
        has = !is_iterations(bucket, bucket->axes[a].name) ||
              (axis && dt_cert_same_axis(axis, &bucket->axes[a]));
    }
    return has;
}

CertNode *dt_certpack_store(CertState *state, int64_t bucket,
                            CertNode *(*source)(CertState *state, const CertStore *store))
{
    const CertProgram *program = state->program;
    DT_VEC(const CertStore *) members = {0};
    for (int i = program->stores.at[bucket].members; i >= 0; i = program->stores.at[i].before)
        DT_PUSH(state->arena, members, &program->stores.at[i]);
    qsort(members.at, members.n, sizeof members.at[0], by_offset);
    CertNode **in = DT_NEW_ARRAY(state->arena, CertNode *, 2 * members.n);
    const CertType *whole = program->stores.at[bucket].type;
    const CertAxis *flat = dt_certtext_axis(whole, dt_intern("@bucket"));
    int64_t end = 0;
    for (uint32_t i = 0; i < members.n; i++) {
        const CertStore *member = members.at[i];
        const int64_t n = local_elements(state, member->type, whole);
        if (!flat || member->at < end || n > flat->extent - member->at ||
            !has_iterations(member->type, whole))
            return NULL;
        end = member->at + n;
        in[2 * i] = place(state, member->at, member->type, whole);
        in[2 * i + 1] = source(state, member);
    }
    return bucket_of(state, 2 * members.n, in);
}

CertNode *dt_certpack_member(CertState *state, const CertNode *node, int64_t offset,
                             const CertType *type, const CertType *bucket)
{
    const CertNode *want = place(state, offset, type, bucket);
    if (!has_iterations(type, bucket))
        return NULL;
    for (uint32_t i = 0; dt_certpack_is(node) && i < node->n_in; i += 2)
        if (node->in[i] == want)
            return node->in[i + 1];
    return NULL;
}

/* ---- pack and unpack ---- */

static bool is_split_alike(const CertAxis *a, const CertAxis *b)
{
    bool alike =
        a->extent == b->extent && a->n == b->n && a->zigzag == b->zigzag && a->padded == b->padded;
    for (uint32_t i = 0; alike && i < a->n; i++)
        alike = a->split[i] == b->split[i];
    return alike;
}

/* Whether pack or unpack may join a bucket of this type with a member: the bucket's elements are
 * all on this rank, one row per rank, on the ranks that have the member. Both have the op's axes,
 * which count iterations, with the same splits; the bucket has no other axes. */
static bool fits(const CertState *state, const CertOp *op, const CertType *bucket,
                 const CertType *member)
{
    const char *flat = dt_intern("@bucket"), *parts = dt_intern("@split");
    const CertAxis *axis = dt_certtext_axis(bucket, flat), *rows = dt_certtext_axis(bucket, parts);
    if (!axis || axis->n || (rows && dt_cert_local(state->program, rows) != 1))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const CertAxis *a = dt_certtext_axis(bucket, op->axes[i]),
                       *b = dt_certtext_axis(member, op->axes[i]);
        if (!a || !b || !is_split_alike(a, b))
            return false;
    }
    for (uint32_t a = 0; a < bucket->rank; a++) {
        bool known = bucket->axes[a].name == flat || bucket->axes[a].name == parts;
        for (uint32_t i = 0; i < op->n_axes; i++)
            known = known || bucket->axes[a].name == op->axes[i];
        if (!known)
            return false;
    }
    return bucket->split == member->split && bucket->partial == member->partial &&
           (!bucket->partial || bucket->pending == member->pending) &&
           bucket->dtype == member->dtype;
}

/* Returns the operands. Zeros among them that no loop has stacked get the iterations of the stacked
 * ones; a value without a stack contains all iterations. */
static const CertValue *covered(CertState *state, const CertOp *op, const char *stack,
                                const CertValue *in)
{
    CertValue *copy = DT_NEW_ARRAY(state->arena, CertValue, op->n_in);
    const CertValue *like = NULL;
    for (uint32_t i = 0; stack && i < op->n_in; i++)
        like = in[i].loop == stack && (!like || like->first == CERT_ANY) ? &in[i] : like;
    const int64_t first = like ? like->first : 0;
    memcpy(copy, in, op->n_in * sizeof *in);
    for (uint32_t i = 0; stack && i < op->n_in; i++)
        dt_certfunc_cover(state, stack, first, &copy[i]);
    for (uint32_t i = 0; !stack && i < op->n_in; i++)
        dt_certrange_close(state, &copy[i]);
    return copy;
}

bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    const char *stack = op->n_axes ? op->axes[0] : NULL;
    bool packs = dt_cert_is(op->kind, "pack"), zero = true;
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, 2 * op->n_in);
    int64_t offset = 0;
    state->values++;
    if (op->n_in < 1 || op->n_out != 1 || (!packs && op->n_in > 1))
        return dt_cert_fail(state, op, "a bucket of nothing");
    if (packs)
        in = covered(state, op, stack, in);
    *out = (CertValue){.type = op->types[0], .loop = stack, .first = in[0].first};
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertType *bucket = packs ? op->types[0] : in[i].type,
                       *member = packs ? in[i].type : op->types[0];
        if (!fits(state, op, bucket, member) || in[i].loop != stack || in[i].first != in[0].first ||
            dt_certpack_is(in[i].node) == packs)
            return dt_cert_fail(state, op, "a bucket lies otherwise than what is in it");
        zero = zero && dt_certpad_is_zero(state, &in[i]);
        const int64_t begin = packs ? offset : (int64_t)op->number;
        offset = begin + local_elements(state, member, bucket);
        if (begin < 0 || offset > local_elements(state, bucket, bucket))
            return dt_cert_fail(state, op, "a bucket is shorter than what is in it");
        if (!packs)
            break;
        nodes[2 * i] = place(state, begin, member, bucket);
        nodes[2 * i + 1] = in[i].node;
    }
    out->node = packs ? bucket_of(state, 2 * op->n_in, nodes)
                      : dt_certpack_member(state, in[0].node, (int64_t)op->number, op->types[0],
                                           in[0].type);
    memset(out->fill, zero ? CERT_ZERO : CERT_ANYTHING, sizeof out->fill);
    /* facts about the padding after the members */
    out->fill[CERT_REST] = out->fill[CERT_SURE] = CERT_ZERO;
    return out->node || dt_cert_fail(state, op, "no member of the bucket begins there and lies so");
}

/* Returns the bucket with `change` applied to each member; NULL if it returns NULL for one. */
CertNode *dt_certpack_each(CertState *state, CertNode *node,
                           CertNode *(*change)(void *data, CertNode *member), void *data)
{
    if (!dt_certpack_is(node))
        return change(data, node);
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, node->n_in);
    for (uint32_t k = 0; k < node->n_in; k++)
        nodes[k] = k % 2 ? change(data, node->in[k]) : node->in[k];
    return bucket_of(state, node->n_in, nodes);
}

/* ---- ops on buckets ---- */

/* Returns the attributes, as text, of a reduction over all axes of a member. */
static const char *all_axes(const CertShape *shape)
{
    DtText text = {0};
    dt_text_add(&text, "");
    for (uint32_t a = 0; a < shape->rank; a++)
        dt_text_printf(&text, " [%s]", shape->axes[a]);
    const char *axes = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return axes;
}

/* A reduction of the whole bucket is the sum of the members' reductions. Padding and the bytes
 * after the members must be zero. */
static bool reduce(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    const CertNode *bucket = in[0].node;
    const uint32_t n = bucket->n_in / 2;
    CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, n);
    const CertShape *shape = dt_certnode_shape(state->nodes, op->types[0]);
    if (op->n_axes != in[0].type->rank || !dt_cert_is(op->reduce, "sum"))
        return dt_cert_fail(state, op, "a bucket is reduced over some of its axes only");
    if (!dt_certpad_is_zero(state, &in[0]) || in[0].fill[CERT_REST] != CERT_ZERO)
        return dt_cert_fail(state, op, "a bucket is reduced whose padding may be other than 0");
    if (in[0].fill[CERT_SURE] != CERT_ZERO)
        DT_PUSH(state->arena, state->relied, ((CertRelied){in[0].rest, op}));
    for (uint32_t i = 0; i < n; i++) {
        CertNode *member = bucket->in[2 * i + 1];
        const bool zero = dt_certstep_is_zero(member);
        CertValue one = in[0];
        int64_t lo = 0, hi = 0;
        one.node = member;
        const bool some = dt_certrange_some(state, &one, &lo, &hi);
        terms[i] =
            zero ? dt_certnode_zeros(state->nodes, shape, member)
                 : dt_certnode_make(state->nodes, (CertNode){.kind = op->kind,
                                                             .attributes = all_axes(member->shape),
                                                             .shape = shape,
                                                             .n_in = 1,
                                                             .in = &member,
                                                             .lo = some ? lo : 0,
                                                             .hi = some ? hi : 0,
                                                             .over = some ? in[0].loop : NULL});
    }
    out->node = dt_certpack_sum(state, shape, n, terms);
    return true;
}

/* Whether an operand has only axes that count iterations: one number for each bucket of the stack,
 * or one for all. */
static bool is_factor(const CertType *type, const CertType *bucket)
{
    bool is = true;
    for (uint32_t a = 0; a < type->rank; a++)
        is = is && is_iterations(bucket, type->axes[a].name);
    return is;
}

bool dt_certpack_map(CertState *state, const CertOp *op, const CertValue *in, uint32_t index,
                     CertValue *out)
{
    const CertNode *first = NULL;
    if (dt_cert_is(op->kind, "reduce"))
        return reduce(state, op, in, out);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertNode *node = dt_certpack_is(in[i].node) ? in[i].node : NULL;
        bool same = !node || !first || node->n_in == first->n_in;
        for (uint32_t k = 0; node && first && same && k < node->n_in; k += 2)
            same = node->in[k] == first->in[k];
        if (!same || (!node && !is_factor(in[i].type, op->types[index])))
            return dt_cert_fail(state, op, "`%s` of a bucket and something else", op->kind);
        first = node ? node : first;
    }
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, first->n_in),
             **parts = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in);
    for (uint32_t k = 1; k < first->n_in; k += 2) {
        for (uint32_t i = 0; i < op->n_in; i++)
            parts[i] = dt_certpack_is(in[i].node) ? in[i].node->in[k] : in[i].node;
        const CertShape *shape =
            dt_certnode_cast_shape(state->nodes, first->in[k]->shape, op->types[index]->dtype);
        nodes[k - 1] = first->in[k - 1];
        CertNode *same = dt_certpad_selected(op, parts, shape->rank);
        const bool is_same = same && same->shape->dtype == shape->dtype;
        nodes[k] = is_same           ? same
                   : op->rule->moves ? dt_certstep_moved(state, op, parts[0], in[0].total)
                                     : dt_certstep_member(state, op, shape, parts, index);
    }
    out->node = dt_certnode_make(
        state->nodes, (CertNode){.kind = dt_certkind_tuple, .attributes = "", .n_in = first->n_in,
                                 .in = nodes});
    return true;
}

typedef struct Moved {
    CertState *state;
    const CertOp *op;
    int64_t total;
} Moved;

static CertNode *moved(void *data, CertNode *member)
{
    const Moved *m = data;
    return dt_certstep_moved(m->state, m->op, member, m->total);
}

CertNode *dt_certpack_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total)
{
    Moved data = {state, op, total};
    return dt_certpack_each(state, x, moved, &data);
}

CertNode *dt_certpack_sum(CertState *state, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    if (!dt_certpack_is(in[0])) {
        /* operands that are zero do not count */
        CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, n);
        uint32_t left = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!dt_certstep_is_zero(in[i]))
                terms[left++] = in[i];
        if (left < 2)
            return left ? terms[0] : in[0];
        return dt_certnode_make(state->nodes, (CertNode){.kind = dt_intern("add"),
                                                         .attributes = dt_certkind_sum,
                                                         .shape = shape,
                                                         .n_in = left,
                                                         .in = terms});
    }
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, in[0]->n_in),
             **terms = DT_NEW_ARRAY(state->arena, CertNode *, n);
    for (uint32_t k = 0; k < in[0]->n_in; k++) {
        for (uint32_t i = 0; i < n; i++) {
            if (!dt_certpack_is(in[i]) || in[i]->n_in != in[0]->n_in ||
                (k % 2 == 0 && in[i]->in[k] != in[0]->in[k]))
                return NULL;
            terms[i] = in[i]->in[k];
        }
        nodes[k] = k % 2 ? dt_certpack_sum(state, terms[0]->shape, n, terms) : in[0]->in[k];
    }
    return dt_certnode_make(state->nodes,
                            (CertNode){.kind = dt_certkind_tuple, .attributes = "",
                                       .n_in = in[0]->n_in, .in = nodes});
}
