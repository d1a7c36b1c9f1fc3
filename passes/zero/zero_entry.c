/* SPDX-License-Identifier: Apache-2.0 */
/* An entry that reads parameters, and perhaps computes gradients, on buckets.
 *
 * A parameter is an `unpack` of its bucket. Level 3: the bucket is gathered where it is first
 * needed; a loop that takes slices of a stacked parameter takes the slice of the bucket instead,
 * and its body gathers it, so that one iteration's parameters are whole at a time:
 *
 *   %w = param h.w : f32[h, a, b]              %p = param h.@bucket0 : f32[h, @bucket/data]
 *   loop(%x, %w) { arg %w : f32[a, b] .. }  => loop(%x, %p) { arg %p : f32[@bucket/data]
 *                                                             %q = all_gather[data](%p)
 *                                                             %w = unpack(%q) : f32[a, b] .. }
 *
 * With `prefetch = k` such a gather says `ahead=k`: pass `order` does it k iterations before its
 * own, so that the buckets of k + 1 iterations are whole at a time. A loop gathers at most as far
 * ahead as it has iterations after the first. Of nested loops only the innermost one that gathers
 * does so ahead.
 *
 * The gradients of a bucket are packed behind the op that makes the last of them. Level 2: the
 * packed bucket is reduced and sharded there. If all gradients of a bucket are stacked results of
 * one loop and have no other readers, the loop's body does this, so that only one iteration's
 * gradients are whole at a time. */
#include "passes/zero/zero_internal.h"

#include "base/intern.h"

#include <string.h>

/* A bucket of parameters, or of their averages, in one function. */
typedef struct Held {
    DtBucket *bucket;
    const DtStore *store; /* of the bucket */
    DtValue *run;   /* the bucket as stored: a `param` op of the entry, or an input of a body */
    DtValue *whole; /* the gathered bucket; NULL: not gathered yet */
} Held;

/* A job: the gradients of a bucket, which become one value. */
typedef struct Job {
    DtBucket *bucket;
    DtValue **values;  /* by member: its gradient in the old function */
    uint32_t number;   /* by member: number of the gradient among the entry's results */
    const DtOp *after; /* the loop that computes all of them, or the op after which they are packed;
                        * NULL: they are packed at the end */
    bool inside;       /* by member: the value in the body of that loop */
    DtValue *result;
} Job;
typedef DT_VEC(Job *) Jobs;

/* A function while it is rewritten on buckets. */
typedef struct Scope {
    DtBuckets *z;
    const DtFunc *from;
    DtBuilder b;
    uint32_t depth;         /* number of loops around it */
    DtValue **map;          /* by id of the old values: the new value; NULL: not made yet, or made
                             * when it is first read */
    const DtStore **lazy;   /* by id of the old values: the parameter that the value is, not
                             * unpacked so far; or NULL */
    DT_VEC(Held) held;
    Jobs jobs;
} Scope;

static Scope new_scope(DtBuckets *z, const DtFunc *from, uint32_t depth)
{
    Scope s = {.z = z, .from = from, .depth = depth};
    s.b = (DtBuilder){.func = dt_graph_func(z->module, from->name, from->kind), .span = from->span};
    s.b.func->span = from->span;
    s.b.func->library = from->library;
    s.map = DT_NEW_ARRAY(z->arena, DtValue *, from->n_values + 1);
    s.lazy = DT_NEW_ARRAY(z->arena, const DtStore *, from->n_values + 1);
    return s;
}

/* ---- parameters ---- */

/* The store of the bucket in which a member's store is. */
static DtStore *bucket_store(const Scope *s, const DtStore *member)
{
    return s->z->of[member->index]->stores[member->kind];
}

/* Over how many of its mesh axes the bucket's store is split. */
static uint32_t splits_of(const DtBucket *bucket, const DtStore *store)
{
    return bucket->n_split[dt_zero_level(store->kind)];
}

static Held *held_of(Scope *s, DtBucket *bucket, DtStore *store)
{
    for (uint32_t i = 0; i < s->held.n; i++)
        if (s->held.at[i].store == store)
            return &s->held.at[i];
    Held held = {.bucket = bucket,
                 .store = store,
                 .run = dt_graph_source(&s->b, DT_OP_PARAM, store->type, NULL, store)};
    held.run->name = store->path;
    DT_PUSH(s->z->arena, s->held, held);
    return &s->held.at[s->held.n - 1];
}

/* The type of an iteration's slice inside `depth` loops. */
static const DtType *slice_type(const DtType *type, uint32_t depth)
{
    return dt_type_make(type->dtype, type->rank - depth, type->axes + depth, type->partial,
                        (DtReduce)type->pending);
}

/* Marks the gathers of a bucket's slice in a loop's body as running some iterations ahead
 * (DtOp.ahead). */
static void mark_ahead(const Scope *s, const Held *held)
{
    for (DtValue *value = held->whole; !held->run->op && value != held->run;
         value = value->op->in[0])
        value->op->ahead = s->z->ahead;
}

static DtValue *unpacked(Scope *s, const DtStore *store)
{
    DtBucket *bucket = s->z->of[store->index];
    uint32_t kept = bucket->n_loops - s->depth;
    Held *held = held_of(s, bucket, bucket_store(s, store));
    if (!held->whole) {
        held->whole = dt_zero_move(&s->b, bucket, held->run, splits_of(bucket, store), 0,
                                   dt_intern(store->kind == DT_STORE_PARAM
                                                 ? "parameters of `zero 3`"
                                                 : "averages of `zero`"));
        mark_ahead(s, held);
    }
    DtValue *value = dt_graph_unpack(&s->b, kept, held->whole, store->bucket_offset,
                                     slice_type(store->type, s->depth));
    value->name = store->path;
    return value;
}

static DtValue *value_of(Scope *s, const DtValue *value)
{
    if (!s->map[value->id] && s->lazy[value->id])
        s->map[value->id] = unpacked(s, s->lazy[value->id]);
    return s->map[value->id];
}

/* Whether a loop may take the bucket's slice instead of this operand. */
static bool is_sliced(const Scope *s, const DtValue *value)
{
    const DtStore *store = s->lazy[value->id];
    if (!store || s->map[value->id])
        return false;
    const DtBucket *bucket = s->z->of[store->index];
    return splits_of(bucket, store) > 0 && bucket->n_loops > s->depth;
}

/* ---- gradients ---- */

/* Whether all gradients of the job are stacked results of one loop, with the bucket as their only
 * reader. */
static bool of_one_loop(const Scope *s, const Job *job)
{
    const DtOp *loop = job->values[0]->op;
    if (!loop || loop->kind != DT_OP_LOOP || job->bucket->n_loops == s->depth ||
        (job->bucket->n_split[2] == 0 && !job->bucket->plain))
        return false;
    for (uint32_t i = 0; i < job->bucket->members.n; i++)
        if (job->values[i]->op != loop || job->values[i]->index < loop->loop->n_carried ||
            dt_graph_reads(s->from, job->values[i]) != 1)
            return false;
    return true;
}

static void add_job(Scope *s, Job *job)
{
    job->inside = of_one_loop(s, job);
    uint32_t last = 0;
    for (uint32_t i = 0; i < s->from->ops.n; i++)
        for (uint32_t k = 0; k < job->bucket->members.n; k++)
            if (job->values[k]->op == s->from->ops.at[i])
                last = i + 1;
    job->after = last ? s->from->ops.at[last - 1] : NULL;
    DT_PUSH(s->z->arena, s->jobs, job);
}

static void pack(Scope *s, Job *job)
{
    DtBucket *bucket = job->bucket;
    uint32_t n = bucket->members.n, kept = bucket->n_loops - s->depth;
    DtValue **in = DT_NEW_ARRAY(s->z->arena, DtValue *, n);
    const char *axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        in[i] = value_of(s, job->values[i]);
    for (uint32_t i = 0; i < kept; i++)
        axes[i] = in[0]->type->axes[i].name;
    DtValue *whole = dt_graph_pack(&s->b, kept, axes, n, in, bucket->extent);
    whole->name = bucket->stores[DT_STORE_GRAD]->path;
    const char *why =
        dt_intern(bucket->plain                      ? "gradients"
                  : bucket->at_once || bucket->terms ? "gradients of `zero`"
                                                     : "gradients of `zero 2` or `3`");
    job->result = dt_zero_move(&s->b, bucket, whole, 0, bucket->n_split[2], why);
    if (bucket->plain && bucket->at_once)
        job->result = dt_zero_complete(&s->b, job->result, bucket->pending, why);
}

/* ---- loops ---- */

static void copy_ops(Scope *s);

typedef struct NewLoop {
    const DtOp *op;
    Jobs jobs;                 /* jobs whose gradients the body packs */
    bool *is_slice; /* by operand of the loop: whether the slice of a bucket replaces it */
    DT_VEC(DtValue *) in;      /* by operand and result of the new loop */
    /* stores of members, one of each bucket's store that the new loop takes as one of its last
     * stacked operands */
    DT_VEC(const DtStore *) sliced;
} NewLoop;

static bool packs(const NewLoop *loop, uint32_t result)
{
    for (uint32_t i = 0; i < loop->jobs.n; i++)
        for (uint32_t k = 0; k < loop->jobs.at[i]->bucket->members.n; k++)
            if (loop->jobs.at[i]->values[k]->index == result)
                return true;
    return false;
}

static void add_sliced(Scope *s, NewLoop *loop, const DtStore *member)
{
    for (uint32_t i = 0; i < loop->sliced.n; i++)
        if (bucket_store(s, loop->sliced.at[i]) == bucket_store(s, member))
            return;
    DT_PUSH(s->z->arena, loop->sliced, member);
}

/* Builds the body of the new loop. Its arguments: those that remain, then a slice of each bucket;
 * its results: those that remain, then one packed bucket per job. */
static DtFunc *new_body(Scope *outer, NewLoop *loop)
{
    const DtOp *op = loop->op;
    const DtFunc *body = op->func;
    DtArena *arena = outer->z->arena;
    Scope s = new_scope(outer->z, body, outer->depth + 1);
    for (uint32_t i = 0; i < body->inputs.n; i++) {
        const DtValue *input = body->inputs.at[i];
        if (i && loop->is_slice[i - 1])
            s.lazy[input->id] = outer->lazy[op->in[i - 1]->id];
        else
            s.map[input->id] = dt_graph_arg_like(s.b.func, input->type, input);
    }
    for (uint32_t i = 0; i < loop->sliced.n; i++) {
        const DtStore *store = bucket_store(&s, loop->sliced.at[i]);
        Held held = {.bucket = s.z->of[loop->sliced.at[i]->index],
                     .store = store,
                     .run = dt_graph_arg(s.b.func, slice_type(store->type, s.depth), store->path)};
        DT_PUSH(arena, s.held, held);
    }
    for (uint32_t i = 0; i < loop->jobs.n; i++) {
        Job *inner = DT_NEW(arena, Job);
        *inner = (Job){.bucket = loop->jobs.at[i]->bucket};
        inner->values = DT_NEW_ARRAY(arena, DtValue *, inner->bucket->members.n);
        for (uint32_t k = 0; k < inner->bucket->members.n; k++)
            inner->values[k] = body->results.at[loop->jobs.at[i]->values[k]->index];
        add_job(&s, inner);
    }
    copy_ops(&s);
    for (uint32_t i = 0; i < body->results.n; i++)
        if (i < op->loop->n_carried || !packs(loop, i))
            dt_graph_return(s.b.func, value_of(&s, body->results.at[i]));
    for (uint32_t i = 0; i < loop->jobs.n; i++)
        dt_graph_return(s.b.func, s.jobs.at[i]->result);
    dt_graph_sweep(s.b.func);
    dt_graph_renumber(s.b.func);
    return s.b.func;
}

/* ---- bodies that loops share ---- */

/* Whether both gradients have the same layout and are summed in the same way. */
static bool packs_alike(const DtBucket *a, const DtBucket *b)
{
    bool alike = a->members.n == b->members.n && a->extent == b->extent &&
                 a->n_loops == b->n_loops && a->plain == b->plain && a->terms == b->terms &&
                 a->at_once == b->at_once && a->pending == b->pending &&
                 a->n_split[2] == b->n_split[2] &&
                 memcmp(a->mesh, b->mesh, a->n_split[2] * sizeof a->mesh[0]) == 0;
    for (uint32_t i = 0; alike && i < a->members.n; i++)
        alike = a->members.at[i]->type->dtype == b->members.at[i]->type->dtype;
    return alike;
}

/* The values that the loop packs, and the results of its body from which they come. */
static DtPackedBody packed_of(Scope *s, const NewLoop *loop)
{
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < loop->jobs.n; i++)
        n += loop->jobs.at[i]->bucket->members.n;
    const DtBucket **buckets = DT_NEW_ARRAY(s->z->arena, const DtBucket *, loop->jobs.n + 1);
    uint32_t *results = DT_NEW_ARRAY(s->z->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < loop->jobs.n; i++) {
        buckets[i] = loop->jobs.at[i]->bucket;
        for (uint32_t k = 0; k < buckets[i]->members.n; k++)
            results[at++] = loop->jobs.at[i]->values[k]->index;
    }
    return (DtPackedBody){.from = loop->op->func, .buckets = buckets, .results = results,
                          .n = loop->jobs.n};
}

static bool same_packed(const DtPackedBody *a, const DtPackedBody *b)
{
    uint32_t n = 0;
    bool same = a->from == b->from && a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        same = packs_alike(a->buckets[i], b->buckets[i]);
        n += a->buckets[i]->members.n;
    }
    return same && memcmp(a->results, b->results, n * sizeof *a->results) == 0;
}

/* The loop's new body. Late sums (order_late.c) are equal in all pieces of a pipeline, so these
 * share bodies. If reductions run on in the next iteration (order_carry.c), each loop needs a body
 * of its own. */
static DtFunc *body_of(Scope *s, NewLoop *loop)
{
    bool shares = loop->sliced.n == 0 && s->z->module->pipeline;
    for (uint32_t i = 0; i < loop->jobs.n; i++)
        shares = shares && (loop->jobs.at[i]->bucket->plain || loop->jobs.at[i]->bucket->terms);
    if (!shares)
        return new_body(s, loop);
    DtPackedBody packed = packed_of(s, loop);
    for (uint32_t i = 0; i < s->z->packed.n; i++)
        if (same_packed(&s->z->packed.at[i], &packed))
            return s->z->packed.at[i].made;
    packed.made = new_body(s, loop);
    DT_PUSH(s->z->arena, s->z->packed, packed);
    return packed.made;
}

static void copy_op(Scope *s, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(s->z->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = value_of(s, op->in[i]);
    DtOp *copy = dt_graph_copy(&s->b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        s->map[op->out[i]->id] = copy->out[i];
}

static void copy_loop(Scope *s, const DtOp *op)
{
    const DtLoop *old = op->loop;
    NewLoop loop = {.op = op, .is_slice = DT_NEW_ARRAY(s->z->arena, bool, op->n_in + 1)};
    for (uint32_t i = 0; i < s->jobs.n; i++)
        if (s->jobs.at[i]->inside && s->jobs.at[i]->after == op)
            DT_PUSH(s->z->arena, loop.jobs, s->jobs.at[i]);
    for (uint32_t i = 0; i < op->n_in; i++) {
        loop.is_slice[i] = i >= old->n_carried + old->n_invariant && is_sliced(s, op->in[i]);
        if (loop.is_slice[i])
            add_sliced(s, &loop, s->lazy[op->in[i]->id]);
        else
            DT_PUSH(s->z->arena, loop.in, value_of(s, op->in[i]));
    }
    if (loop.jobs.n == 0 && loop.sliced.n == 0) {
        copy_op(s, op);
        return;
    }
    DtLoop made = *old;
    made.n_stacked = loop.in.n + loop.sliced.n - old->n_carried - old->n_invariant;
    DtFunc *body = body_of(s, &loop);
    made.n_stacked_out = body->results.n - old->n_carried;
    for (uint32_t i = 0; i < loop.sliced.n; i++) {
        const DtStore *member = loop.sliced.at[i];
        DtBucket *bucket = s->z->of[member->index];
        DT_PUSH(s->z->arena, loop.in, held_of(s, bucket, bucket_store(s, member))->run);
    }
    DtOp *copy = dt_graph_loop(&s->b, body, made, loop.in.at);
    uint32_t at = 0;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i >= old->n_carried && packs(&loop, i))
            continue;
        copy->out[at]->name = op->out[i]->name;
        s->map[op->out[i]->id] = copy->out[at++];
    }
    for (uint32_t i = 0; i < loop.jobs.n; i++)
        loop.jobs.at[i]->result = copy->out[at++];
}

static void copy_ops(Scope *s)
{
    for (uint32_t i = 0; i < s->from->ops.n; i++) {
        const DtOp *op = s->from->ops.at[i];
        s->b.span = op->span;
        s->b.path = op->path;
        if (op->kind == DT_OP_PARAM && s->z->of[op->store->index])
            s->lazy[op->out[0]->id] = op->store;
        else if (op->kind == DT_OP_LOOP)
            copy_loop(s, op);
        else
            copy_op(s, op);
        for (uint32_t k = 0; k < s->jobs.n; k++)
            if (!s->jobs.at[k]->inside && s->jobs.at[k]->after == op)
                pack(s, s->jobs.at[k]);
    }
    for (uint32_t k = 0; k < s->jobs.n; k++)
        if (!s->jobs.at[k]->result)
            pack(s, s->jobs.at[k]);
}

/* ---- entries ---- */

/* The buckets of the entry's gradients, in their order. */
static DtBucket **buckets_of(const DtBuckets *z, const DtEntryPoint *entry, uint32_t *ret_n)
{
    DtBucket **list = DT_NEW_ARRAY(z->arena, DtBucket *, entry->results.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        DtBucket *bucket = store && store->kind == DT_STORE_GRAD ? z->of[store->index] : NULL;
        uint32_t at = 0;
        while (bucket && at < n && list[at]->index < bucket->index)
            at++;
        if (!bucket || (at < n && list[at] == bucket))
            continue;
        memmove(list + at + 1, list + at, (n++ - at) * sizeof *list);
        list[at] = bucket;
    }
    *ret_n = n;
    return list;
}

/* Finds the gradients of a bucket among the results of the entry. */
static Job *job_of(Scope *s, const DtEntryPoint *entry, DtBucket *bucket)
{
    Job *job = DT_NEW(s->z->arena, Job);
    *job = (Job){.bucket = bucket};
    job->values = DT_NEW_ARRAY(s->z->arena, DtValue *, bucket->members.n);
    for (uint32_t i = entry->results.n; i-- > 0;) {
        const DtStore *store = entry->results.at[i].store;
        if (!store || store->kind != DT_STORE_GRAD || s->z->of[store->index] != bucket)
            continue;
        for (uint32_t k = 0; k < bucket->members.n; k++)
            if (bucket->members.at[k] == store->of)
                job->values[k] = entry->func->results.at[i];
        job->number = i;
    }
    return job;
}

void dt_zero_entry(DtBuckets *z, DtEntryPoint *entry)
{
    Scope s = new_scope(z, entry->func, 0);
    uint32_t n_buckets;
    DtBucket **buckets = buckets_of(z, entry, &n_buckets);
    for (uint32_t i = 0; i < n_buckets; i++)
        add_job(&s, job_of(&s, entry, buckets[i]));
    copy_ops(&s);
    DtEntryPoint made = dt_entry_new(entry->kind, entry->objective, entry->part, entry->number);
    made.func = s.b.func;
    made.stage = entry->stage;
    made.more = entry->more;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtEntryResult result = entry->results.at[i];
        DtBucket *bucket =
            result.store && result.store->kind == DT_STORE_GRAD ? z->of[result.store->index] : NULL;
        DtValue *value = bucket ? NULL : value_of(&s, entry->func->results.at[i]);
        for (uint32_t k = 0; bucket && k < s.jobs.n; k++)
            if (s.jobs.at[k]->bucket == bucket && s.jobs.at[k]->number == i)
                value = s.jobs.at[k]->result;
        if (!value)
            continue; /* the gradient of another member of a bucket, which is packed with the first
                       * one */
        if (bucket)
            result.store = bucket->stores[DT_STORE_GRAD];
        dt_graph_return(made.func, value);
        DT_PUSH(z->module->arena, made.results, result);
    }
    dt_graph_sweep(made.func);
    dt_graph_renumber(made.func);
    *entry = made;
}
