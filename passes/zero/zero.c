/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO (Rajbhandari et al., 2020): shards tensors that would be replicated along some mesh axes.
 *
 * Purpose: `zero n on axes` splits optimizer state (1), then gradients (2), then parameters (3)
 * over mesh axes on which a parameter is whole. The unit is a bucket: the local elements of several
 * parameters, one after another, padded, as one flat axis that the mesh axes split into equal runs
 * (ops pack and unpack, ir/shape_pack.c). Stacked parameters, of which each loop iteration has a
 * slice, form stacked buckets: one bucket per iteration. Buckets replace the stores of their
 * members, which remain as records of each member's offset (DtStore.bucket).
 *
 *   zero 1 on data      before                      after
 *   store w, b          f32[e, f], f32[f]           @bucket0 f32[@bucket=N], w and b inside
 *   their gradients     completed after backward    @bucket0 f32[@bucket=N]{sum data}
 *   their moments       f32[e, f], f32[f]           @bucket0 f32[@bucket=N/data]
 *   update              one per parameter           reduce_scatter, one per bucket, all_gather
 *
 * A parameter whose update is not elementwise (it uses the norm or rows of the parameter, or
 * multiplies matrices) has a bucket of its own, so that it can be gathered where the update needs
 * it whole.
 *
 * A bucket holds parameters that are alike to the update (dtypes, decay, splits, pending sums,
 * loops, pipeline stage), in the order in which backward completes their gradients, up to `bucket`
 * bytes of parameters (limit_of). The norm of the gradients counts each element once: sums
 * over runs are pending over the mesh axes of the bucket. zero_entry.c and zero_update.c rewrite
 * the entries; zero_lint.c reports `zero` lines that have no effect.
 *
 * A frozen parameter has no gradient. Level 3 splits it like others, in buckets of frozen
 * parameters that are read in the same loop; a lower level has nothing of it to split.
 *
 * If a step has one micro-batch, gradients that are summed over ranks and that no line splits are
 * in buckets, too; their parameters and moments are not (`plain`). Then one all-reduce completes a
 * whole bucket as soon as backward has computed it (`at_once`), at the same time as the rest of
 * backward.
 *
 *   no `zero` line      before                      after
 *   store w, b          f32[e, f], f32[f]           as they were
 *   their gradients     completed after backward    @bucket0 f32[@bucket=N], by one all_reduce
 *   update              one per parameter           the same, of what it unpacks
 *
 * Requires: placed values. Establishes: stores of trained parameters are in buckets, GRAD stores of
 * buckets that are not complete keep pending sums for the update to complete. Breaks: nothing. */
#include "passes/zero/zero_internal.h"

#include "base/hash.h"
#include "base/intern.h"
#include "ir/pipeline.h"
#include "ir/shape.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BYTES = 25 << 20, PART_BYTES = 1 << 20, ALIGN = 64 };
/* The largest number of pipeline stages for which each stage sums gradients over ranks during its
 * last backward. The last backward passes through all stages in turn, and the sums slow down each
 * of them; sums after it would run on all stages at once. So overlap pays only with few stages.
 * Simulated, a step of Megatron's 39 billion parameters in 2 stages takes 6 % less, 76 in 4 stages
 * 2 %, 146 in 8 stages 1 % more, 310 in 16 stages 7 % more (bench/auto.py). */
enum { MOST_STAGES = 4 };

/* A trained parameter, or a frozen one, and the properties that decide its bucket. */
typedef struct Member {
    DtStore *store;
    bool frozen;             /* it has no gradient and no moments: only level 3 splits it */
    uint64_t key;            /* hash of everything that members of a bucket have in common */
    uint32_t entry, op, at;  /* the entry, op and result that compute its gradient */
    uint16_t pending;
    /* alone: its update is not elementwise, so it has a bucket of its own */
    bool usable, alone;
    bool several;            /* summed only after the last micro-batch, since several entries or
                              * stages add to its gradient, or there are too many stages */
} Member;

typedef struct Zero {
    DtBuckets buckets;
    const DtParallelConfig *config;
    bool for_cpu;
    Member *members; /* by index of the parameter's store */
    /* by index of the parameter's store: the first store of its list, itself included */
    DtStore **tensors;
    DtStore **next;  /* by index of a store: the next store of the same parameter */
    uint16_t time;
} Zero;

int dt_zero_level(DtStoreKind kind)
{
    return kind == DT_STORE_PARAM ? 3 : kind == DT_STORE_GRAD ? 2 : 1;
}

bool dt_zero_lie_alike(const DtType *a, const DtType *b)
{
    bool alike = a->rank == b->rank;
    for (uint32_t i = 0; alike && i < a->rank; i++)
        alike = a->axes[i].name == b->axes[i].name && a->axes[i].extent == b->axes[i].extent &&
                a->axes[i].n_split == b->axes[i].n_split &&
                memcmp(a->axes[i].split, b->axes[i].split,
                       a->axes[i].n_split * sizeof a->axes[i].split[0]) == 0;
    return alike;
}

/* Whether the function reads gradients from stores, as an update does. */
static bool applies(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PARAM && func->ops.at[i]->store->kind == DT_STORE_GRAD)
            return true;
    return false;
}

/* ---- properties that members of a bucket share ---- */

static void mix(uint64_t *key, const void *bytes, size_t n)
{
    *key = dt_hash_bytes(bytes, n, *key);
}
static void mix_number(uint64_t *key, uint64_t number) { mix(key, &number, sizeof number); }

/* Whether the store's elements correspond to the parameter's. A state that lacks some of the
 * parameter's axes has others, and stays outside of buckets. */
static bool lies_alike(const DtStore *store)
{
    return dt_zero_lie_alike(store->type, store->of->type);
}

/* Returns the trained parameter to which a store belongs (itself, or as its gradient, moment or
 * master copy); NULL if there is none. */
static DtStore *owner_of(const DtStore *store)
{
    if (store->kind == DT_STORE_PARAM)
        return (DtStore *)(uintptr_t)store;
    bool belongs = store->of && store->of->kind == DT_STORE_PARAM &&
                   store->kind != DT_STORE_SAVED && store->kind != DT_STORE_CHANNEL &&
                   store->kind != DT_STORE_CODES && store->kind != DT_STORE_SCALES &&
                   lies_alike(store);
    return belongs ? store->of : NULL;
}

/* Links the stores of each parameter to a list (z->tensors, z->next). */
static void link_stores(Zero *z)
{
    const DtModule *module = z->buckets.module;
    z->tensors = DT_NEW_ARRAY(z->buckets.arena, DtStore *, module->stores.n + 1);
    z->next = DT_NEW_ARRAY(z->buckets.arena, DtStore *, module->stores.n + 1);
    for (uint32_t i = module->stores.n; i-- > 0;) {
        const DtStore *owner = owner_of(module->stores.at[i]);
        if (!owner)
            continue;
        z->next[i] = z->tensors[owner->index];
        z->tensors[owner->index] = module->stores.at[i];
    }
}

static void mix_op(Member *m, const DtOp *op, uint32_t operand)
{
    DtOpClass class = dt_op_info[op->kind].op_class;
    m->alone = m->alone || !(class == DT_CLASS_MAP || op->kind == DT_OP_ALL_REDUCE ||
                             (op->kind == DT_OP_REDUCE && op->out[0]->type->rank == 0));
    const uint64_t words[] = {op->kind, operand, op->mesh, (uint64_t)op->reduce};
    mix(&m->key, words, sizeof words);
    mix(&m->key, op->stages ? op->stages : "", op->stages ? strlen(op->stages) : 0);
    mix(&m->key, &op->number, sizeof op->number);
}

/* Adds an operand of an op, other than the member's own tensors, to the member's key: a number, or
 * a scalar that is the same for all members. Any other operand means that the parameter needs a
 * bucket of its own. */
static void mix_other(Member *m, const DtValue *other)
{
    m->alone = m->alone || other->type->rank > 0;
    const bool is_number = other->op && other->op->kind == DT_OP_CONST;
    mix_number(&m->key, is_number ? 0 : 1 + (uint64_t)other->id);
    if (is_number)
        mix(&m->key, &other->op->number, sizeof other->op->number);
}

static bool is_zero(const DtValue *value)
{
    return value->op && value->op->kind == DT_OP_CONST && value->op->number == 0;
}

/* Finds parameters whose update uses a sum of their own elements, other than as a term of a sum
 * over all parameters (the norm). If all ranks have such a sum, only one of them adds it to the
 * total: where(iota == 0, sum, 0), summed over the ranks. sums: by value, the parameter that it is
 * a sum of; several: of more than one. */
static void read_sums(const DtOp *op, Member *several, Member **sums)
{
    const bool adds = op->kind == DT_OP_ADD || op->kind == DT_OP_ALL_REDUCE ||
                      op->kind == DT_OP_REDUCE || (op->kind == DT_OP_WHERE && is_zero(op->in[2]));
    /* a norm, perhaps of one parameter */
    const bool is_norm = op->kind == DT_OP_SQRT && op->gradients;
    Member *of = NULL;
    for (uint32_t k = 0; k < op->n_in; k++) {
        Member *m = sums[op->in[k]->id];
        if (!m)
            continue;
        m->alone = m->alone || !(adds || is_norm);
        of = of && m != of ? several : m;
    }
    if (adds)
        sums[op->out[0]->id] = of;
}

/* Adds to each parameter's key the ops of the update on its tensors, so that parameters with the
 * same update have equal keys. Finds those that need a bucket of their own. */
static void read_update(Zero *z, const DtFunc *func)
{
    Member several = {0}, **sums = DT_NEW_ARRAY(z->buckets.arena, Member *, func->n_values + 1);
    /* By value: whether it is a tensor computed from this parameter's. */
    Member **of = DT_NEW_ARRAY(z->buckets.arena, Member *, func->n_values + 1);
    /* The number of the value among the values computed from the parameter's tensors. */
    uint32_t *number = DT_NEW_ARRAY(z->buckets.arena, uint32_t, func->n_values + 1);
    uint32_t *made = DT_NEW_ARRAY(z->buckets.arena, uint32_t, z->buckets.module->stores.n + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        Member *owner = NULL;
        /* an op with a number: its result belongs to the bucket of the other operand */
        if (op->kind == DT_OP_PARAM && owner_of(op->store) && op->out[0]->type->rank > 0) {
            owner = &z->members[owner_of(op->store)->index];
            mix_number(&owner->key, (uint64_t)op->store->kind);
        }
        for (uint32_t k = 0; k < op->n_in; k++) {
            Member *m = of[op->in[k]->id];
            if (!m)
                continue;
            mix_op(m, op, k);
            mix_number(&m->key, number[op->in[k]->id]);
            for (uint32_t other = 0; other < op->n_in; other++)
                if (!of[op->in[other]->id])
                    mix_other(m, op->in[other]);
            owner = op->kind == DT_OP_REDUCE ? NULL : m;
        }
        read_sums(op, &several, sums);
        if (op->kind == DT_OP_REDUCE && of[op->in[0]->id])
            sums[op->out[0]->id] = of[op->in[0]->id];
        for (uint32_t k = 0; owner && k < op->n_out; k++) {
            of[op->out[k]->id] = owner;
            number[op->out[k]->id] = ++made[owner - z->members];
        }
    }
}

/* Records for each parameter the entry, the op and the result that are its gradient. */
static void read_gradients(Zero *z, uint32_t number)
{
    const DtEntryPoint *entry = &z->buckets.module->entries.at[number];
    /* By value: 1 + the position of its op. */
    uint32_t *number_of = DT_NEW_ARRAY(z->buckets.arena, uint32_t, entry->func->n_values + 1);
    for (uint32_t i = 0; i < entry->func->ops.n; i++)
        for (uint32_t k = 0; k < entry->func->ops.at[i]->n_out; k++)
            number_of[entry->func->ops.at[i]->out[k]->id] = i + 1;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (!store || store->kind != DT_STORE_GRAD || !owner_of(store))
            continue;
        Member *m = &z->members[store->of->index];
        const DtValue *value = entry->func->results.at[i];
        uint16_t pending = value->type->partial & (uint16_t)~z->time;
        bool repeated = m->store != NULL;
        const DtPipelineSchedule *pipeline = z->buckets.module->pipeline;
        m->several = m->several || (pipeline && (repeated || pipeline->n_stages > MOST_STAGES));
        m->usable = repeated ? m->usable && m->pending == pending : store->of->type->rank > 0;
        m->store = store->of;
        m->pending = pending;
        m->entry = number;
        m->at = value->index;
        m->op = value->op ? number_of[value->id] : 0;
        mix_number(&m->key, number);
        mix_number(&m->key, pending);
        if (value->op && value->op->kind == DT_OP_LOOP && store->n_loops)
            mix_number(&m->key, m->op); /* all of them come from one loop, in which they can be
                                         * packed */
    }
}

/* Makes members of frozen parameters, which are read and never updated. Those outside of loops, and
 * those in each loop, may share buckets: the text of their path before the number of the innermost
 * loop is in the key. */
static void read_frozen(Zero *z)
{
    const DtModule *module = z->buckets.module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        DtStore *store = module->stores.at[i];
        if (store->kind != DT_STORE_PARAM || !store->frozen || store->type->rank == 0)
            continue;
        const char *mark = strrchr(store->pattern, '#');
        z->members[i] = (Member){.store = store, .frozen = true, .usable = true,
                                 .entry = UINT32_MAX};
        mix_number(&z->members[i].key, UINT32_MAX);
        if (mark && store->n_loops)
            mix(&z->members[i].key, store->pattern, (size_t)(mark - store->pattern));
    }
}

/* Whether a `zero 3` line splits parameters. */
static bool splits_params(const DtParallelConfig *config)
{
    bool any = false;
    for (uint32_t i = 0; i < config->zeros.n; i++)
        any = any || config->zeros.at[i].level == 3;
    return any;
}

static uint16_t splits_of(const DtType *type)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        bits |= dt_shape_split_bits(&type->axes[i]);
    return bits;
}

static void mix_stores(Zero *z)
{
    const DtModule *module = z->buckets.module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i], *owner = owner_of(store);
        Member *m = owner ? &z->members[owner->index] : NULL;
        if (!m || !m->store || (z->config->zeros.n == 0 && store->kind != DT_STORE_GRAD))
            continue;
        const uint64_t words[] = {store->kind, store->type->dtype, splits_of(store->type),
                                  store->n_loops, (uint64_t)store->stage, store->more,
                                  (uint64_t)store->first, (uint64_t)store->first_step,
                                  (uint64_t)store->whole};
        mix(&m->key, words, sizeof words);
        for (uint32_t a = 0; a < store->n_loops; a++) {
            mix_number(&m->key, (uint64_t)(uintptr_t)store->type->axes[a].name);
            mix_number(&m->key, (uint64_t)store->type->axes[a].extent);
        }
    }
}

/* Orders parameters so that those of one path come together, in the order of stores. */
static int by_path(const void *a, const void *b)
{
    const DtStore *x = *(const DtStore *const *)a, *y = *(const DtStore *const *)b;
    if (x->path != y->path)
        return (uintptr_t)x->path < (uintptr_t)y->path ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Makes the keys unique of parameters whose update does not work element by element, so that each
 * has a bucket of its own. */
static void part_alone(Zero *z)
{
    const DtModule *module = z->buckets.module;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (z->members[i].store && z->members[i].alone)
            mix_number(&z->members[i].key, i);
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (z->members[i].several)
            mix_number(&z->members[i].key, 1);
}

/* A parameter on several pipeline stages has a bucket of its own, since stages can only add up
 * buckets with equal contents. It has none if some stage does not compute its gradient, and adds
 * zeros of the parameter's own type instead. */
static void part_shared(Zero *z)
{
    const DtModule *module = z->buckets.module;
    const DtStore **params = DT_NEW_ARRAY(z->buckets.arena, const DtStore *, module->stores.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->stores.n && module->pipeline; i++)
        if (module->stores.at[i]->kind == DT_STORE_PARAM)
            params[n++] = module->stores.at[i];
    qsort(params, n, sizeof *params, by_path);
    for (uint32_t i = 0, first = 0; i < n; i++) {
        first = params[first]->path == params[i]->path ? first : i;
        for (uint32_t k = first; k < n && params[k]->path == params[i]->path; k++) {
            if (i == k || params[i]->path != params[k]->path ||
                params[i]->first != params[k]->first)
                continue;
            Member *m = &z->members[params[i]->index], *other = &z->members[params[k]->index];
            m->key = dt_hash_text(params[i]->path, m->key);
            m->several = other->several = true;
            m->usable = m->usable && other->store && other->usable && m->pending == other->pending;
            other->usable = other->usable && m->usable;
        }
    }
}

/* ---- buckets ---- */

static int by_completion(const void *a, const void *b)
{
    const Member *x = *(Member *const *)a, *y = *(Member *const *)b;
    if (x->entry != y->entry)
        return x->entry < y->entry ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->store->index < y->store->index ? -1 : x->store->index > y->store->index;
}

/* Whether gradients of the parameter are summed over ranks in the dtype in which they are
 * stored. */
static bool crosses(const Zero *z, const DtStore *param)
{
    const DtDtype crossing = z->buckets.module->crossing;
    bool as_is = true;
    for (const DtStore *each = z->tensors[param->index]; each; each = z->next[each->index])
        as_is = as_is && (each->kind != DT_STORE_GRAD || !dt_dtype_is_float(crossing) ||
                          each->type->dtype == crossing);
    return as_is;
}

/* Chooses the mesh axes that split the bucket's stores: axes of `zero` lines over which the
 * parameter is whole, those of the highest level first, in the order of the mesh within a level. If
 * gradients do not accumulate, one exchange reduces and shards a gradient where it is computed, so
 * that it overlaps with the rest of backward. With several micro-batches the last one does so,
 * unless nested loops or several pieces of a pipeline compute the gradient. */
static void choose_mesh(const Zero *z, DtBucket *bucket, const Member *member)
{
    const DtStore *param = member->store;
    const uint16_t taken = splits_of(param->type);
    const DtMesh *mesh = &z->buckets.module->mesh;
    uint16_t bits = 0;
    for (int level = 3; level >= 1; level--) {
        uint16_t wanted = 0;
        for (uint32_t i = 0; i < z->config->zeros.n; i++)
            for (uint32_t k = 0;
                 z->config->zeros.at[i].level == level && k < z->config->zeros.at[i].n_on; k++)
                wanted |= (uint16_t)(1u << dt_mesh_find(mesh, z->config->zeros.at[i].on[k]));
        for (uint8_t m = 0; m < mesh->n; m++)
            if ((wanted & ~taken) >> m & 1)
                bucket->mesh[bucket->n_mesh++] = m;
        bucket->n_split[level] = bucket->n_mesh;
        if (member->frozen) { /* lower levels split nothing of it */
            bucket->n_split[2] = bucket->n_split[1] = bucket->n_mesh;
            break;
        }
    }
    for (uint32_t i = 0; i < bucket->n_mesh; i++)
        bits |= (uint16_t)(1u << bucket->mesh[i]);
    bucket->plain = bucket->n_mesh == 0;
    const bool by_one =
        bucket->n_split[2] == 0 && bucket->pending &&
        (bucket->plain || (bits == bucket->pending && bucket->n_mesh <= DT_ZERO_AT_ONCE));
    bucket->at_once = by_one && z->buckets.once;
    bucket->terms = by_one && !z->buckets.once && !bucket->plain && bucket->n_loops <= 1 &&
                    !member->several && crosses(z, param);
    if (bucket->at_once || bucket->terms)
        bucket->n_split[2] = bucket->n_mesh;
}

static int64_t length_of(const Zero *z, const DtStore *store)
{
    int64_t n = dt_type_local_elements(store->type, &z->buckets.module->mesh);
    for (uint32_t a = 0; a < store->n_loops; a++)
        n /= store->type->axes[a].extent;
    return n;
}

/* Returns the most bytes of parameters in a bucket of this mesh: what a `zero` line says, or else
 * DEFAULT_BYTES, and more where so many ranks share a bucket that a rank's part would be smaller
 * than PART_BYTES, and a link's latency longer than the time in which it is sent. */
static int64_t limit_of(const Zero *z, const DtBucket *bucket)
{
    const DtMesh *mesh = &z->buckets.module->mesh;
    int64_t limit = 0, ranks = 1;
    uint16_t over = bucket->pending;
    for (uint32_t i = 0; i < bucket->n_mesh; i++)
        over |= (uint16_t)(1u << bucket->mesh[i]);
    for (uint8_t m = 0; m < mesh->n; m++)
        ranks *= over >> m & 1 ? mesh->axes[m].size : 1;
    for (uint32_t i = 0; i < z->config->zeros.n; i++)
        if (z->config->zeros.at[i].bucket_bytes > limit)
            limit = z->config->zeros.at[i].bucket_bytes;
    if (limit)
        return limit;
    return ranks * PART_BYTES > DEFAULT_BYTES ? ranks * PART_BYTES : DEFAULT_BYTES;
}

/* Whether the bucket replaces stores of this kind. */
static bool holds(const DtBucket *bucket, const DtStore *store)
{
    return !bucket->plain || store->kind == DT_STORE_GRAD;
}

static void put_member(Zero *z, DtBucket *bucket, DtStore *store)
{
    DtBuckets *b = &z->buckets;
    int64_t n = length_of(z, store);
    for (DtStore *each = z->tensors[store->index]; each; each = z->next[each->index]) {
        if (!holds(bucket, each))
            continue;
        b->of[each->index] = bucket;
        each->bucket_offset = bucket->extent;
    }
    DT_PUSH(b->arena, bucket->members, store);
    bucket->extent += n;
    bucket->bytes += n * (int64_t)dt_dtype_size(store->type->dtype);
}

/* Adds members, in the order in which backward completes their gradients, each to the last bucket
 * with its key that has room, or to a new one. */
static void fill_buckets(Zero *z, Member **list, uint32_t n)
{
    DtBuckets *b = &z->buckets;
    DT_VEC(uint64_t) keys = {0};
    for (uint32_t i = 0; i < n; i++) {
        DtStore *store = list[i]->store;
        int64_t bytes = length_of(z, store) * (int64_t)dt_dtype_size(store->type->dtype);
        DtBucket *bucket = NULL;
        for (uint32_t k = 0; k < b->list.n; k++)
            if (keys.at[k] == list[i]->key)
                bucket = b->list.at[k];
        if (!bucket || bucket->bytes + bytes > limit_of(z, bucket)) {
            bucket = DT_NEW(b->arena, DtBucket);
            *bucket = (DtBucket){.index = b->list.n,
                                 .pending = list[i]->pending,
                                 .n_loops = store->n_loops,
                                 .span = store->span};
            choose_mesh(z, bucket, list[i]);
            if (bucket->plain &&
                (list[i]->frozen || !bucket->pending ||
                 (z->buckets.module->pipeline && list[i]->several)))
                continue; /* the parameter's own splits use all of these mesh axes already */
            DT_PUSH(b->arena, b->list, bucket);
            DT_PUSH(b->arena, keys, list[i]->key);
        }
        put_member(z, bucket, store);
    }
}

/* ---- stores ---- */

/* Returns the type of the bucket's store that replaces stores like this one of a member. */
static const DtType *store_type(const Zero *z, const DtBucket *bucket, const DtStore *like)
{
    const DtMesh *mesh = &z->buckets.module->mesh;
    DtAxis axes[DT_MAX_RANK], split = {.name = dt_intern("@split"), .extent = 1};
    DtAxis flat = {.name = dt_intern("@bucket"), .extent = bucket->extent};
    uint32_t n = bucket->n_loops, level = (uint32_t)dt_zero_level(like->kind);
    uint16_t bits = splits_of(like->type);
    uint16_t partial =
        like->kind == DT_STORE_GRAD && !bucket->at_once && !bucket->plain ? bucket->pending : 0;
    memcpy(axes, like->type->axes, n * sizeof axes[0]);
    for (uint8_t m = 0; m < mesh->n; m++)
        if (bits >> m & 1) {
            split.split[split.n_split++] = m;
            split.extent *= mesh->axes[m].size;
        }
    if (split.n_split)
        axes[n++] = split;
    for (uint32_t i = 0; i < bucket->n_split[level]; i++) {
        flat.split[flat.n_split++] = bucket->mesh[i];
        partial &= (uint16_t)~(1u << bucket->mesh[i]);
    }
    axes[n++] = flat;
    return dt_type_make(like->type->dtype, n, axes, partial, DT_REDUCE_SUM);
}

/* Returns the path of a bucket: that of the loops of its members and "@bucket" with its number, as
 * "h.#.@bucket0" for "h.#.attention.w". marks: keeps the `#`. */
static const char *bucket_path(const DtBucket *bucket, const char *pattern, uint32_t number,
                               bool marks)
{
    DtText text = {0};
    uint32_t loops = 0;
    dt_text_add(&text, "");
    for (const char *at = pattern; loops < bucket->n_loops && *at; at++) {
        bool mark = *at == '#';
        loops += mark;
        if (!mark || marks)
            dt_text_add_n(&text, at, 1);
        if (mark && at[1] == '.') {
            at++;
            if (marks)
                dt_text_add(&text, ".");
        }
    }
    dt_text_printf(&text, "%s@bucket%u", marks && loops && text.at[text.len - 1] == '#' ? "." : "",
                   number);
    const char *path = dt_intern(text.at);
    dt_text_free(&text);
    return path;
}

static void make_stores(Zero *z, DtBucket *bucket, uint32_t number)
{
    DtModule *module = z->buckets.module;
    const DtMesh *mesh = &module->mesh;
    int64_t unit = 1;
    for (uint32_t i = 0; i < bucket->n_mesh; i++)
        unit *= mesh->axes[bucket->mesh[i]].size;
    /* every rank's run begins at an aligned element */
    unit *= ALIGN / (int64_t)dt_dtype_size(bucket->members.at[0]->type->dtype);
    bucket->extent = (bucket->extent + unit - 1) / unit * unit;
    for (DtStore *like = z->tensors[bucket->members.at[0]->index]; like;
         like = z->next[like->index]) {
        if (!holds(bucket, like))
            continue;
        DtStore *store = DT_NEW(module->arena, DtStore);
        *store = (DtStore){.kind = like->kind,
                           .type = store_type(z, bucket, like),
                           .n_loops = like->n_loops,
                           .stage = like->stage,
                           .more = like->more,
                           .first = like->first,
                           .first_step = like->first_step,
                           .whole = like->whole,
                           .terms = bucket->terms && like->kind == DT_STORE_GRAD,
                           .span = like->span,
                           .index = module->stores.n};
        store->path = bucket_path(bucket, like->pattern, number, false);
        store->pattern = bucket_path(bucket, like->pattern, number, true);
        bucket->stores[like->kind] = store;
        DT_PUSH(module->arena, module->stores, store);
    }
    for (uint32_t k = 0; k < DT_ZERO_KINDS; k++)
        if (bucket->stores[k] && k != DT_STORE_PARAM)
            bucket->stores[k]->of =
                bucket->plain ? bucket->members.at[0] : bucket->stores[DT_STORE_PARAM];
    for (uint32_t i = 0; i < bucket->members.n; i++)
        for (DtStore *each = z->tensors[bucket->members.at[i]->index]; each;
             each = z->next[each->index])
            if (holds(bucket, each))
                each->bucket = bucket->stores[each->kind];
}

/* ---- unsupported cases ---- */

static uint16_t mesh_bits(const Zero *z)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < z->config->zeros.n; i++)
        for (uint32_t k = 0; k < z->config->zeros.at[i].n_on; k++)
            bits |= (uint16_t)(1u << dt_mesh_find(&z->buckets.module->mesh,
                                                  z->config->zeros.at[i].on[k]));
    return bits;
}

static bool not_yet(const Zero *z, const char *what)
{
    DtDiag *diag = dt_diag_report(z->buckets.module->diags, E0592, z->config->zeros.at[0].span,
                                  "%s is not implemented yet", what);
    dt_diag_help(diag, "leave `zero` out, or let `shard` lines split the parameters");
    return false;
}

/* Whether all parameters that `zero` lines name can be in buckets; a scalar need not. Parameters
 * that cannot are completed without buckets. */
static bool check_members(Zero *z)
{
    const DtModule *module = z->buckets.module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        Member *m = &z->members[i];
        bool many = m->store && __builtin_popcount(splits_of(m->store->type)) > DT_MAX_SPLIT;
        m->usable = m->usable && !many;
        if (z->config->zeros.n && m->store && m->store->type->rank > 0 && many)
            return not_yet(z, dt_arena_printf(z->buckets.arena,
                                              "`zero` of `%s`, which so many mesh axes split,",
                                              m->store->path));
    }
    return true;
}

/* ---- gathers ahead of their iterations ---- */

/* Returns how many iterations ahead gathers should run: the largest `prefetch` of the `zero 3`
 * lines; 0 if there is none. */
static uint32_t wanted_ahead(const DtParallelConfig *config)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < config->zeros.n; i++) {
        const DtZero *line = &config->zeros.at[i];
        if (line->level == 3 && line->prefetch > most)
            most = line->prefetch;
    }
    return most < INT32_MAX ? (uint32_t)most : INT32_MAX;
}

/* Sets how far ahead the gathers of a function run. In nested loops only the innermost one gathers
 * ahead, at most by its number of iterations. count: iterations of the loop whose body func is, 0:
 * it is an entry. True if func or a loop in it gathers ahead. */
static bool settle_ahead(DtFunc *func, int64_t count, bool *ret_nested)
{
    bool inside = false, here = false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->loop)
            inside =
                settle_ahead(func->ops.at[i]->func, func->ops.at[i]->loop->count, ret_nested) ||
                inside;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        if (op->ahead == 0)
            continue;
        *ret_nested = *ret_nested || inside;
        op->ahead = inside || count < 2 ? 0 : op->ahead < count ? op->ahead : (uint32_t)(count - 1);
        here = here || op->ahead;
    }
    return inside || here;
}

static void make_buckets(Zero *z)
{
    DtModule *module = z->buckets.module;
    uint32_t n = 0;
    Member **list = DT_NEW_ARRAY(z->buckets.arena, Member *, module->stores.n + 1);
    z->members = DT_NEW_ARRAY(z->buckets.arena, Member, module->stores.n + 1);
    z->buckets.of = DT_NEW_ARRAY(z->buckets.arena, DtBucket *, module->stores.n + 1);
    link_stores(z);
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (!applies(module->entries.at[i].func))
            read_gradients(z, i);
    for (uint32_t i = 0; z->config->zeros.n && i < module->entries.n; i++)
        if (applies(module->entries.at[i].func))
            read_update(z, module->entries.at[i].func);
    if (splits_params(z->config))
        read_frozen(z);
    mix_stores(z);
    part_shared(z);
    part_alone(z);
    if (!check_members(z))
        return;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (z->members[i].store && z->members[i].usable)
            list[n++] = &z->members[i];
    qsort(list, n, sizeof *list, by_completion);
    fill_buckets(z, list, n);
    for (uint32_t i = 0; i < z->buckets.list.n; i++)
        make_stores(z, z->buckets.list.at[i], i);
    dt_zero_lint_cuts(&z->buckets, z->config);
}

bool dt_pass_zero(DtModule *module, const DtPassContext *context)
{
    if (!context->parallel || module->mesh.n == 0)
        return false;
    /* what each rank has of a gradient stays apart from what others have */
    if (context->parallel->compress.function && context->parallel->zeros.n == 0)
        return false;
    Zero zero = {.buckets = {.module = module, .arena = dt_arena_child(module->arena)},
                 .config = context->parallel, .for_cpu = context->target == DT_TARGET_CPU};
    zero.time = module->mesh.axes[0].is_time ? 1 : 0;
    zero.buckets.once = !module->pipeline && !(zero.time && module->mesh.axes[0].size > 1);
    zero.buckets.ahead = wanted_ahead(context->parallel);
    dt_zero_lint_offload(&zero.buckets, zero.config, zero.for_cpu);
    if (context->parallel->compress.function)
        not_yet(&zero, "`zero` with `compress`");
    else if (__builtin_popcount(mesh_bits(&zero)) > DT_MAX_SPLIT)
        not_yet(&zero, "`zero` on more than 4 mesh axes");
    else
        make_buckets(&zero);
    for (uint32_t i = 0; zero.buckets.list.n && i < module->entries.n; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if (applies(entry->func))
            dt_zero_update(&zero.buckets, entry);
        else
            dt_zero_entry(&zero.buckets, entry);
    }
    dt_zero_lint_alike(&zero.buckets, zero.config);
    bool any = false, nested = false;
    for (uint32_t i = 0; i < module->entries.n; i++)
        any = settle_ahead(module->entries.at[i].func, 0, &nested) || any;
    dt_zero_lint_ahead(&zero.buckets, zero.config, zero.for_cpu, any, nested);
    if (zero.buckets.list.n)
        dt_inline_drop(module);
    dt_arena_free(zero.buckets.arena);
    return true;
}
