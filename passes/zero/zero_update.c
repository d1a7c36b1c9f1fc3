/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites an entry that applies gradients so that it works on buckets.
 *
 * The update applies the same elementwise ops to all members of a bucket, and combines members only
 * in scalars (the sum of squares). So the pass emits one member's ops, on the rank's run of the
 * bucket, in place of all members' ops:
 *
 *   %m' = add(mul(%m, 0.9), mul(%dw, 0.1))       %g = reduce_scatter[data](%d)
 *                                                level 1; later ones store it so
 *   %s = reduce sum[a, b](mul(%dw, %dw))         %s = reduce sum[@bucket](mul(%g, %g))
 *                                                     : f32{sum data}
 *   %n = sqrt(add(%s, %s2))                 =>   %n = sqrt(all_reduce[data](add(%s, ..)))
 *                                                %m' = add(mul(%m, 0.9), mul(%g, 0.1)),
 *                                                %p' of shard[data](%p) likewise
 *                                                result all_gather[data](%p')    levels 1 and 2
 *
 * Values that depend on other members' tensors are *absent* from the new entry. The sum of an
 * absent scalar and another one becomes the other one.
 *
 * Ops that do not work element by element (a product of matrices) need their parameter whole; it is
 * the only member of its bucket. If the parameter is stacked, with a slice for each iteration of a
 * loop, each rank *owns* some iterations. An all-to-all, once for each value, gives the rank all
 * elements of its iterations, and the rank computes the ops for these. A second all-to-all turns
 * the result into runs if an op combines it with runs:
 *
 *   %x = dot[b](%m', %m')    =>   %q = unpack(all_to_all[data](%m')) : f32[h=8/data, a, b],
 *                                 %x = dot[b](%q, %q)
 *   %p' = sub(%p, %y)             %p' = sub(%p, all_to_all[data](pack(%y)))
 *
 * If the ranks cannot own equally many iterations (a parameter outside of loops has only one), or
 * an op combines several iterations, every rank gathers the value and computes the same:
 *
 *   %x = dot[b](%m', %m')       =>   %q = unpack(all_gather[data](%m')) , %x = dot[b](%q, %q)
 *   %p' = sub(%p, %y)                %p' = sub(%p, shard[data](pack(%y)))
 *
 * A sum over all elements needs no gather if the padding of the runs is zero: the ranks add the
 * sums of their runs. */
#include "passes/zero/zero_internal.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

/* How a rank holds a value: whole; as its run of a bucket; or, in a bucket that is dealt out by
 * iterations, as the whole slices of the iterations that it owns. */
typedef enum Shape { PLAIN, RUN, OWNED, ABSENT } Shape;

/* What is known of the padding after the members in a rank's run of a bucket: nothing, all zeros,
 * or all positive. */
typedef enum Fill { ANYTHING, ZERO, POSITIVE } Fill;

/* What replaces a value of the old update: the same values in another shape, or nothing. */
typedef struct Now {
    Shape shape;
    DtValue *value;   /* NULL: the value is absent */
    DtBucket *bucket; /* the bucket to which the run, or the owned elements, belong */
    Fill fill;        /* PADDING of a run */
    DtValue *as[ABSENT]; /* the value in other forms, made when first needed; else NULL */
} Now;

/* How ranks share the iterations of a bucket: those of loop number `loop` are divided over the
 * ranks of the first n of the bucket's mesh axes. n = 0: ranks cannot own equally many. */
typedef struct Deal {
    uint32_t loop, n;
} Deal;

typedef struct Update {
    DtBuckets *z;
    DtBuilder b;
    Now *now; /* by value id */
    DtBucket **of; /* by value id: the bucket from which the tensor is computed; NULL: none */
} Update;

_Noreturn static void fail(const DtOp *op, const char *why)
{
    DT_BUG("zero: `%s` in an update: %s", dt_op_info[op->kind].text, why);
}

/* ---- sums that are pending over the ranks that share a bucket ---- */

static DtValue *complete(Update *u, DtValue *x)
{
    return dt_zero_complete(&u->b, x, x->type->partial, dt_intern("gradients of `zero`"));
}

/* ---- sources ---- */

/* Reads the bucket of gradients, which is not split, and unpacks the member's gradient that op read
 * before. */
static Now take(Update *u, const DtBucket *bucket, const DtOp *op)
{
    DtStore *store = bucket->stores[DT_STORE_GRAD];
    DtValue *all = dt_graph_source(&u->b, DT_OP_PARAM, store->type, NULL, store);
    all->name = store->path;
    DtValue *x =
        dt_graph_unpack(&u->b, bucket->n_loops, all, op->store->bucket_offset, op->out[0]->type);
    x->name = op->out[0]->name;
    return (Now){.shape = PLAIN, .value = x};
}

static Now source(Update *u, const DtOp *op)
{
    DtBucket *bucket = u->z->of[op->store->index];
    if (bucket->plain)
        return take(u, bucket, op);
    const DtStore *member = op->store->kind == DT_STORE_PARAM ? op->store : op->store->of;
    if (bucket->members.at[bucket->leader] != member)
        return (Now){.shape = ABSENT, .bucket = bucket};
    DtStore *store = bucket->stores[op->store->kind];
    DtValue *x = dt_graph_source(&u->b, DT_OP_PARAM, store->type, NULL, store);
    x->name = store->path;
    x = dt_zero_move(&u->b, bucket, x, bucket->n_split[dt_zero_level(store->kind)], bucket->n_mesh,
                     dt_intern("gradients of `zero`"));
    const bool zero = op->store->kind == DT_STORE_GRAD || !bucket->filled;
    return (Now){.shape = RUN, .value = complete(u, x), .bucket = bucket,
                 .fill = zero ? ZERO : ANYTHING};
}

/* ---- runs, whole tensors, and those of some iterations ---- */

static Deal deal_of(const Update *u, const DtBucket *bucket)
{
    const DtMesh *mesh = &u->z->module->mesh;
    const DtType *member = bucket->members.at[0]->type;
    Deal best = {0};
    for (uint32_t l = 0; l < bucket->n_loops && bucket->members.n == 1; l++) {
        Deal deal = {.loop = l};
        for (int64_t ranks = 1; deal.n < bucket->n_mesh && deal.n < DT_ZERO_AT_ONCE; deal.n++) {
            const uint8_t axis = bucket->mesh[deal.n];
            ranks *= mesh->axes[axis].size;
            if (member->axes[l].n_split || member->axes[l].extent % ranks != 0 ||
                /* requires blocks in the order of ranks */
                (deal.n > 0 && axis < bucket->mesh[deal.n - 1]))
                break;
        }
        if (deal.n > best.n)
            best = deal;
    }
    return best;
}

/* Returns the type with the loop's axis split over the ranks that own its iterations. */
static const DtType *dealt(const DtBucket *bucket, Deal deal, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    const int at = dt_type_find(type, bucket->members.at[0]->type->axes[deal.loop].name);
    if (at < 0)
        return type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[at].n_split = (uint8_t)deal.n;
    memcpy(axes[at].split, bucket->mesh, deal.n);
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

static DtValue *convert(Update *u, DtOpKind kind, const DtBucket *bucket, Deal deal, DtValue *x,
                        const DtType *type, const char *why)
{
    uint16_t mesh = 0;
    for (uint32_t i = 0; i < deal.n; i++)
        mesh |= (uint16_t)(1u << bucket->mesh[i]);
    DtValue *y = dt_graph_comm(&u->b, kind, x, mesh, type);
    y->op->text = dt_intern(why);
    return y;
}

/* Returns the type of a bucket whose last (flat) axis is split by the first n of its mesh axes (n
 * may be 0). */
static const DtType *flat_over(const DtBucket *bucket, uint32_t n, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    DtAxis *flat = &axes[type->rank - 1];
    memset(flat->split, 0, sizeof flat->split);
    flat->n_split = (uint8_t)n;
    memcpy(flat->split, bucket->mesh, n);
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

static const char needed[] = "needed whole by the optimizer", updated[] = "updated by `zero`";

/* Returns a value as the old update had it; if a run of a bucket or owned iterations replaced it,
 * gathers and unpacks these, once. */
static DtValue *whole(Update *u, const DtValue *old)
{
    Now *now = &u->now[old->id];
    const DtBucket *bucket = now->bucket;
    if (now->shape != RUN && now->shape != OWNED)
        return now->value;
    if (!now->as[PLAIN] && now->shape == OWNED) {
        const DtType *type = now->value->type;
        const DtType *all = dealt(bucket, (Deal){.loop = deal_of(u, bucket).loop}, type);
        now->as[PLAIN] =
            convert(u, DT_OP_ALL_GATHER, bucket, deal_of(u, bucket), now->value, all, needed);
    } else if (!now->as[PLAIN]) {
        DtValue *x = dt_zero_move(&u->b, bucket, now->value, bucket->n_mesh, 0, dt_intern(needed));
        now->as[PLAIN] = dt_graph_unpack(&u->b, bucket->n_loops, x, 0,
                                         dt_type_with_dtype(old->type, x->type->dtype));
    }
    return now->as[PLAIN];
}

/* Returns the iterations that this rank owns of a value with the loop's axis; moves them there by
 * exchanges, once. */
static DtValue *owned(Update *u, const DtValue *old, const DtBucket *bucket)
{
    Now *now = &u->now[old->id];
    const Deal deal = deal_of(u, bucket);
    DtValue *x = now->value;
    if (now->shape == OWNED)
        return x;
    if (now->as[OWNED])
        return now->as[OWNED];
    if (now->shape == RUN) {
        x = dt_zero_move(&u->b, bucket, x, bucket->n_mesh, deal.n, dt_intern(needed));
        x = convert(u, DT_OP_ALL_TO_ALL, bucket, deal, x,
                    dealt(bucket, deal, flat_over(bucket, 0, x->type)), needed);
        x = dt_graph_unpack(&u->b, bucket->n_loops, x, 0,
                            dealt(bucket, deal, dt_type_with_dtype(old->type, x->type->dtype)));
    } else if (dealt(bucket, deal, x->type) != x->type) {
        x = convert(u, DT_OP_SHARD, bucket, deal, x, dealt(bucket, deal, x->type), needed);
    }
    return now->as[OWNED] = x;
}

/* Returns the rank's run of the bucket (the part of the flat axis that it has) for a tensor that
 * has the axes of the bucket's members; packs and splits it once. */
static DtValue *run(Update *u, const DtValue *old, DtBucket *bucket)
{
    Now *now = &u->now[old->id];
    const Deal deal = deal_of(u, bucket);
    const char *axes[DT_MAX_RANK];
    if (now->shape == RUN)
        return now->value;
    for (uint32_t i = 0; i < bucket->n_loops; i++)
        axes[i] = old->type->axes[i].name;
    if (!now->as[RUN]) {
        DtValue *x = complete(u, now->value);
        x = dt_graph_pack(&u->b, bucket->n_loops, axes, 1, &x, bucket->extent);
        if (now->shape == OWNED) {
            const DtType *back =
                flat_over(bucket, deal.n, dealt(bucket, (Deal){.loop = deal.loop}, x->type));
            x = convert(u, DT_OP_ALL_TO_ALL, bucket, deal, x, back, updated);
        }
        now->as[RUN] = dt_zero_move(&u->b, bucket, x, now->shape == OWNED ? deal.n : 0,
                                    bucket->n_mesh, dt_intern(updated));
    }
    return now->as[RUN];
}

/* Whether a type has one number for each iteration of the bucket's loops, or a single number. */
static bool is_factor(const DtBucket *bucket, const DtType *type)
{
    const DtType *member = bucket->members.at[0]->type;
    bool is = type->rank <= bucket->n_loops;
    for (uint32_t i = 0; is && i < type->rank; i++) {
        const int32_t at = dt_type_find(member, type->axes[i].name);
        is = at >= 0 && (uint32_t)at < bucket->n_loops;
    }
    return is;
}

/* Whether the op, one of whose operands is a rank's run of a bucket, can be done on runs: it is
 * elementwise, or a sum of squares whose padding is zero. */
static bool is_on_runs(const Update *u, const DtOp *op, const DtBucket *bucket)
{
    const DtType *member = bucket->members.at[0]->type;
    const Now *first = &u->now[op->in[0]->id];
    if (op->kind == DT_OP_REDUCE)
        return op->reduce == DT_REDUCE_SUM && !op->out[0]->type->rank && first->fill == ZERO &&
               op->in[0]->op->kind == DT_OP_MUL; /* the certificate knows of these that their
                                                  * padding is zero */
    bool can = dt_op_info[op->kind].op_class == DT_CLASS_MAP;
    for (uint32_t i = 0; can && i < op->n_in; i++) {
        const DtType *type = op->in[i]->type;
        can = u->now[op->in[i]->id].shape == RUN || is_factor(bucket, type) ||
              dt_zero_lie_alike(type, member);
    }
    return can;
}

static bool is_above_zero(const DtValue *x)
{
    return x->op && x->op->kind == DT_OP_CONST && x->op->number > 0;
}

/* Decides what the padding of the op's result is, from the padding of its operands. A scalar
 * operand has unknown padding, unless it is a constant. */
static Fill fill_of(const Update *u, const DtOp *op)
{
    Fill fill[DT_UPDATE_OPERANDS] = {ANYTHING};
    bool zero = true, runs = true;
    if (op->n_in > DT_COUNT(fill))
        return ANYTHING;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const Now *now = &u->now[op->in[i]->id];
        const bool is_whole = now->shape != RUN && op->in[i]->type->rank > 0;
        fill[i] = now->shape == RUN ? now->fill : is_whole ? ZERO : ANYTHING;
        runs = runs && (now->shape == RUN || is_whole);
        zero = zero && (fill[i] == ZERO || (now->shape != RUN && !is_whole));
    }
    switch (op->kind) {
    case DT_OP_MUL: return zero ? ZERO : ANYTHING;
    case DT_OP_DIV: return fill[0] == ZERO && fill[1] == POSITIVE ? ZERO : ANYTHING;
    case DT_OP_WHERE:
        if (fill[0] == ZERO)
            return fill[2];
        return fill[1] == fill[2] ? fill[1] : ANYTHING;
    case DT_OP_ADD:
        for (uint32_t i = 0; op->n_in == 2 && i < 2; i++)
            if (fill[i] == ZERO && is_above_zero(op->in[1 - i]))
                return POSITIVE;
        break;
    default: break;
    }
    return zero && runs && dt_op_keeps_zero(op) ? ZERO : ANYTHING;
}

/* ---- ops ---- */

static bool chooses(DtOpKind kind)
{
    return kind == DT_OP_ADD || kind == DT_OP_MAX || kind == DT_OP_MIN || kind == DT_OP_AND ||
           kind == DT_OP_OR;
}

static void set_all(Update *u, const DtOp *op, Now now)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        u->now[op->out[i]->id] = now;
}

/* Marks the results of an op with an absent operand as absent. If the op chooses between values, a
 * scalar operand that is there takes their place. */
static void skip(Update *u, const DtOp *op)
{
    Now now = {.shape = ABSENT};
    for (uint32_t i = 0; i < op->n_in; i++) {
        const Now *in = &u->now[op->in[i]->id];
        if (in->shape == RUN)
            fail(op, "the members of a bucket meet in tensors");
        if (in->shape == PLAIN && chooses(op->kind) && op->in[i]->type->rank == 0)
            now = *in;
    }
    set_all(u, op, now);
}

/* Replaces a collective of the serial update by one over the axes that are still pending in its
 * operand. Types do not show sums between pipeline stages: within a stage the term of the norm is
 * complete, as it is without buckets. */
static void copy_comm(Update *u, const DtOp *op)
{
    Now now = u->now[op->in[0]->id];
    if (op->stages && now.value->type->rank == 0)
        now.value = complete(u, now.value);
    const DtType *type = now.value->type;
    DtOp draft = *op;
    DtValue out = *op->out[0], *outs = &out;
    if (op->kind != DT_OP_ALL_REDUCE)
        fail(op, "the tensors of a bucket are converted");
    draft.mesh = op->stages ? op->mesh : type->partial & op->mesh;
    draft.out = &outs;
    out.type = dt_type_make(type->dtype, type->rank, type->axes,
                            (uint16_t)(type->partial & ~draft.mesh), (DtReduce)type->pending);
    if (draft.mesh)
        now.value = dt_graph_copy(&u->b, &draft, &now.value)->out[0];
    set_all(u, op, now);
}

/* Appends the op on the iterations that this rank owns, if it treats each iteration by itself; else
 * returns false. */
static bool copy_owned(Update *u, const DtOp *op, DtBucket *bucket)
{
    const Deal deal = deal_of(u, bucket);
    DtValue **in = DT_NEW_ARRAY(u->z->arena, DtValue *, op->n_in + 1);
    const DtType **wish = DT_NEW_ARRAY(u->z->arena, const DtType *, op->n_out + 1);
    const DtType **types = DT_NEW_ARRAY(u->z->arena, const DtType *, op->n_out + 1);
    DtOp draft = *op;
    for (uint32_t i = 0; i < op->n_out; i++)
        wish[i] = dealt(bucket, deal, op->out[i]->type);
    for (uint32_t i = 0; i < op->n_out; i++)
        if (!deal.n || wish[i] == op->out[i]->type) /* a reduction over the loop's axis would
                                                     * combine iterations */
            return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = owned(u, op->in[i], bucket);
    draft.in = in;
    if (dt_shape_check(&draft, &u->z->module->mesh, wish, types))
        return false;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (types[i] != wish[i])
            return false;
    DtValue *outs = DT_NEW_ARRAY(u->z->arena, DtValue, op->n_out + 1);
    DtValue **out = DT_NEW_ARRAY(u->z->arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        outs[i] = *op->out[i];
        outs[i].type = wish[i];
        out[i] = &outs[i];
    }
    draft.out = out;
    DtOp *copy = dt_graph_copy(&u->b, &draft, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        u->now[op->out[i]->id] = (Now){.shape = OWNED, .value = copy->out[i], .bucket = bucket};
    return true;
}

/* Appends the op on whole members, as the old update had them, since it cannot be done on runs or
 * owned iterations. */
static void copy_whole(Update *u, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(u->z->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = whole(u, op->in[i]);
    DtOp *copy = dt_graph_copy(&u->b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        u->now[op->out[i]->id] = (Now){.shape = PLAIN, .value = copy->out[i]};
}

/* Copies the op with the replaced operands; a reduction of a run is over all of its axes. */
static void copy_op(Update *u, const DtOp *op, DtBucket *bucket)
{
    DtValue **in = DT_NEW_ARRAY(u->z->arena, DtValue *, op->n_in + 1);
    const DtType **wish = DT_NEW_ARRAY(u->z->arena, const DtType *, op->n_out + 1);
    const DtType **types = DT_NEW_ARRAY(u->z->arena, const DtType *, op->n_out + 1);
    const char *axes[DT_MAX_RANK];
    DtOp draft = *op;
    const bool makes_run = bucket && op->kind != DT_OP_REDUCE;
    const Fill fill = makes_run ? fill_of(u, op) : ANYTHING;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const bool is_cut =
            makes_run && bucket->members.n == 1 && !is_factor(bucket, op->in[i]->type);
        in[i] = is_cut           ? run(u, op->in[i], bucket)
                : makes_run && u->now[op->in[i]->id].shape != RUN ? whole(u, op->in[i])
                                                                  : u->now[op->in[i]->id].value;
    }
    for (uint32_t i = 0; i < op->n_out; i++)
        wish[i] = op->out[i]->type;
    if (bucket && op->kind == DT_OP_REDUCE) {
        if (op->out[0]->type->rank)
            fail(op, "a tensor of a bucket is reduced to another tensor");
        draft.n_axes = in[0]->type->rank;
        draft.axes = axes;
        for (uint32_t i = 0; i < draft.n_axes; i++)
            axes[i] = in[0]->type->axes[i].name;
    } else if (bucket && dt_op_info[op->kind].op_class != DT_CLASS_MAP) {
        fail(op, "it is not elementwise");
    }
    draft.in = in;
    if (dt_shape_derive(&draft, &u->z->module->mesh, wish, types))
        for (uint32_t i = 0; i < op->n_in; i++)
            in[i] = complete(u, in[i]);
    DtOp *copy = dt_graph_copy(&u->b, &draft, in);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (makes_run)
            copy->out[i]->name = NULL;
        u->now[op->out[i]->id] = (Now){.shape = makes_run ? RUN : PLAIN,
                                       .value = copy->out[i],
                                       .bucket = makes_run ? bucket : NULL,
                                       .fill = fill};
    }
}

static void rewrite_op(Update *u, const DtOp *op)
{
    bool absent = false;
    DtBucket *bucket = NULL, *owner = NULL;
    u->b.span = op->span;
    u->b.path = op->path;
    if (op->kind == DT_OP_PARAM && u->z->of[op->store->index]) {
        u->now[op->out[0]->id] = source(u, op);
        return;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        const Now *in = &u->now[op->in[i]->id];
        absent = absent || in->shape == ABSENT;
        if (in->shape == RUN && bucket && bucket != in->bucket)
            fail(op, "two buckets meet in a tensor");
        if (in->shape == RUN)
            bucket = in->bucket;
        else if (in->shape == OWNED)
            owner = in->bucket;
    }
    const bool is_tensor = op->n_in && op->in[0]->type->rank > 0;
    if (absent)
        skip(u, op);
    else if (bucket ? bucket->members.n == 1 && !is_on_runs(u, op, bucket)
                    : owner || (is_tensor && dt_op_info[op->kind].op_class == DT_CLASS_COMM)) {
        if (!(bucket || owner) || !copy_owned(u, op, bucket ? bucket : owner))
            copy_whole(u, op);
    }
    else if (dt_op_info[op->kind].op_class == DT_CLASS_COMM)
        copy_comm(u, op);
    else
        copy_op(u, op, bucket);
}

/* If op is a product of a bucket's values, marks the bucket as one whose update every rank that
 * shares it does alike (DtBucket.alike). */
static void note_alike(Update *u, const DtOp *op)
{
    DtBucket *bucket = NULL;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]->type->rank && u->of[op->in[i]->id])
            bucket = u->of[op->in[i]->id];
    for (uint32_t i = 0; i < op->n_out; i++) {
        const Now *now = &u->now[op->out[i]->id];
        u->of[op->out[i]->id] = now->shape == RUN || now->shape == OWNED ? now->bucket : bucket;
        if (bucket && op->kind == DT_OP_DOT && now->shape == PLAIN)
            bucket->alike = true;
    }
}

/* Rewrites the old entry. Stores are zero after the members, except in buckets recorded as
 * filled. */
static void rewrite(Update *u, const DtFunc *func)
{
    u->b.func->ops.n = 0;
    u->now = DT_NEW_ARRAY(u->z->arena, Now, func->n_values + 1);
    u->of = DT_NEW_ARRAY(u->z->arena, DtBucket *, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        rewrite_op(u, func->ops.at[i]);
        note_alike(u, func->ops.at[i]);
    }
}

/* Records buckets in which some store has other values than zeros after the members. The
 * certificate knows all stores of a bucket by one path, so one such store marks the bucket. Returns
 * whether there are more of them now. */
static bool note_filled(Update *u, const DtEntryPoint *entry)
{
    bool more = false;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const Now *now = &u->now[entry->func->results.at[i]->id];
        if (!entry->results.at[i].store || now->shape != RUN || now->fill == ZERO ||
            now->bucket->filled)
            continue;
        now->bucket->filled = more = true;
    }
    return more;
}

void dt_zero_update(DtBuckets *z, DtEntryPoint *entry)
{
    const DtFunc *func = entry->func;
    Update update = {.z = z}, *u = &update;
    DtEntryPoint made = dt_entry_new(entry->kind, entry->objective, entry->part, entry->number);
    made.stage = entry->stage;
    made.more = entry->more;
    made.func = dt_graph_func(z->module, func->name, DT_FUNC_ENTRY);
    made.func->span = func->span;
    u->b = (DtBuilder){.func = made.func, .span = func->span};
    rewrite(u, func);
    /* Later steps read these values. No bucket's contents depend on another bucket's, so a second
     * rewrite is enough. */
    if (note_filled(u, entry))
        rewrite(u, func);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtEntryResult result = entry->results.at[i];
        Now now = u->now[func->results.at[i]->id];
        if (now.shape == ABSENT)
            continue;
        DtBucket *bucket =
            result.store && u->z->of[result.store->index] ? u->z->of[result.store->index] : NULL;
        if ((now.shape == PLAIN || now.shape == OWNED) && bucket) {
            now = (Now){.shape = RUN, .value = run(u, func->results.at[i], bucket),
                        .bucket = bucket};
        } else if (now.shape != PLAIN && !bucket) {
            now = (Now){.shape = PLAIN, .value = whole(u, func->results.at[i])};
        }
        if (now.shape == RUN) {
            u->b.span = result.store->span;
            uint32_t level = (uint32_t)dt_zero_level(result.store->kind);
            result.store = now.bucket->stores[result.store->kind];
            now.value =
                dt_zero_move(&u->b, now.bucket, now.value, now.bucket->n_mesh,
                             now.bucket->n_split[level], dt_intern("updated parameters of `zero`"));
        }
        dt_graph_return(made.func, now.value);
        DT_PUSH(z->module->arena, made.results, result);
    }
    dt_graph_sweep(made.func);
    dt_graph_renumber(made.func);
    *entry = made;
}
