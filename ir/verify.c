/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: every rule of ir.h and ops.def, checked on a whole module. It runs after every
 * pass, so it is linear in the size of the module, and it trusts no pointer or count that it has
 * not compared. A problem is one line:
 *
 *   function `f`, 1:120-134: result 0 is f32[b=8] where its rule gives f32[b=4]: %2 = exp ... */
#include "ir/verify_internal.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/irtext.h"
#include "ir/map.h"

#include <string.h>

/* ---- modules ---- */

static bool check_mesh(DtVerify *v)
{
    const DtMesh *mesh = &v->module->mesh;
    if (mesh->n > DT_MAX_MESH)
        return dt_verify_fail(v, (DtSpan){0}, "the mesh has %u axes", mesh->n);
    for (uint32_t i = 0; i < mesh->n; i++) {
        const DtMeshAxis *axis = &mesh->axes[i];
        if (!dt_verify_name(v, (DtSpan){0}, "a mesh axis", axis->name))
            return false;
        if (axis->size < 1 || axis->size > INT32_MAX)
            return dt_verify_fail(v, (DtSpan){0}, "mesh axis `%s` has size %lld", axis->name,
                                  (long long)axis->size);
        if (axis->is_time && i > 0)
            return dt_verify_fail(v, (DtSpan){0}, "mesh axis `%s` is time but not the first",
                                  axis->name);
        for (uint32_t k = 0; k < i; k++) {
            if (mesh->axes[k].name == axis->name)
                return dt_verify_fail(v, (DtSpan){0}, "two mesh axes are called `%s`", axis->name);
        }
    }
    return true;
}

static void check_owner(DtVerify *v, const DtStore *store)
{
    bool received = store->kind == DT_STORE_CHANNEL;
    bool needs = store->kind != DT_STORE_PARAM && store->kind != DT_STORE_STATE &&
                 store->kind != DT_STORE_SAVED && store->kind != DT_STORE_RINGBUF &&
                 store->kind != DT_STORE_CACHE;
    const DtStore *of = store->of;
    if (needs != (of != NULL)) {
        dt_verify_fail(v, store->span, "store `%s` %s", store->path,
                       needs ? "belongs to no other store" : "has an owner");
        return;
    }
    if (!of)
        return;
    bool fits = received ? of->kind == DT_STORE_SAVED || of->kind == DT_STORE_CHANNEL
                : store->kind == DT_STORE_NEXT ? of->kind == DT_STORE_STATE
                                               : of->kind == DT_STORE_PARAM ||
                                                     (store->kind == DT_STORE_AVERAGE &&
                                                      of->kind == DT_STORE_STATE);
    if (of->index >= v->module->stores.n || v->module->stores.at[of->index] != of || !fits)
        dt_verify_fail(v, store->span,
                       "store `%s` belongs to something that is no %s of the module", store->path,
                       received                       ? "sent store"
                       : store->kind == DT_STORE_NEXT ? "state"
                                                      : "parameter");
}

/* Checks a store's bucket: it has the store's kind, dtype and loops, and room for all stores in
 * it. */
static void check_bucket(DtVerify *v, const DtStore *store)
{
    const DtStore *bucket = store->bucket;
    if (!bucket)
        return;
    bool ok = bucket->index < v->module->stores.n &&
              v->module->stores.at[bucket->index] == bucket && bucket->type && !bucket->bucket &&
              bucket->kind == store->kind && bucket->type->dtype == store->type->dtype &&
              bucket->n_loops == store->n_loops && bucket->type->rank > bucket->n_loops;
    int64_t n = dt_type_local_elements(store->type, &v->module->mesh);
    for (uint32_t i = 0; ok && i < store->n_loops; i++) {
        ok = store->type->axes[i].extent == bucket->type->axes[i].extent;
        n /= store->type->axes[i].extent;
    }
    if (!ok || store->bucket_offset < 0 || n < 0 ||
        store->bucket_offset > bucket->type->axes[bucket->type->rank - 1].extent - n)
        dt_verify_fail(v, store->span, "store `%s` does not fit its bucket", store->path);
}

/* The key that no two stores share; the path is interned. */
typedef struct StoreKey {
    const char *path;
    int64_t first;
    int32_t kind, stage;
} StoreKey;

static const StoreKey *store_key(DtVerify *v, const DtStore *store)
{
    StoreKey *key = DT_NEW(v->scratch, StoreKey);
    *key = (StoreKey){store->path, store->first, (int32_t)store->kind,
                      v->module->pipeline ? store->stage : 0};
    return key;
}

static void check_store(DtVerify *v, DtMap *names, uint32_t i)
{
    const DtStore *store = v->module->stores.at[i];
    if (!store || (unsigned)store->kind > DT_STORE_RINGBUF || store->index != i) {
        dt_verify_fail(v, (DtSpan){0},
                       "store %u is missing, of no known kind, or has another number", i);
        return;
    }
    if (!dt_verify_path(v, store->span, store->path, store->pattern, store->type, store->n_loops))
        return;
    check_owner(v, store);
    check_bucket(v, store);
    dt_verify_init(v, store->span, &store->init);
    bool slots = store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL;
    if (store->type->partial && store->kind != DT_STORE_GRAD && !slots)
        dt_verify_fail(v, store->span, "store `%s` has a pending reduction", store->path);
    if (store->written_rank > DT_MAX_RANK)
        dt_verify_fail(v, store->span, "store `%s` has a written rank of %u", store->path,
                       store->written_rank);
    if (slots != (store->depth > 0))
        dt_verify_fail(v, store->span, "store `%s` has %lld slots", store->path,
                       (long long)store->depth);
    if (store->whole && (store->n_loops == 0 || store->first < 0 ||
                         store->first + store->type->axes[0].extent > store->whole))
        dt_verify_fail(v, store->span, "store `%s` holds iterations that its loop lacks",
                       store->path);
    if ((store->kind == DT_STORE_RINGBUF) != dt_type_is_ringbuf(store->type))
        dt_verify_fail(v, store->span,
                       "store `%s` is a ring buffer, or has the type of one, but not both",
                       store->path);
    if (store->terms && (store->kind != DT_STORE_GRAD || store->bucket || !store->type->rank ||
                         store->type->axes[store->type->rank - 1].n_split == 0))
        dt_verify_fail(v, store->span,
                       "store `%s` has terms, and is no bucket of gradients that ranks share",
                       store->path);
    const StoreKey *key = store_key(v, store);
    if (dt_map_find(names, (const char *)key, sizeof *key))
        dt_verify_fail(v, store->span, "two stores of one kind are called `%s`", store->path);
    else
        dt_map_add(names, (const char *)key, sizeof *key, (void *)(uintptr_t)key);
}

/* Checks that functions have different names; fills v->funcs. */
static void check_func_names(DtVerify *v)
{
    DtMap names = {.arena = v->scratch};
    for (uint32_t i = 0; i < v->module->funcs.n; i++) {
        DtFunc *func = v->module->funcs.at[i];
        v->func = NULL;
        if (!func || func->module != v->module) {
            dt_verify_fail(v, (DtSpan){0}, "function %u is missing or belongs to another module",
                           i);
            continue;
        }
        v->func = func;
        if (dt_verify_has_func(v, func))
            dt_verify_fail(v, func->span, "the function is listed twice");
        else
            dt_map_add(&v->funcs, (const char *)&v->module->funcs.at[i], sizeof func,
                       (void *)((uintptr_t)i + 1));
        if (!dt_verify_name(v, func->span, "the function", func->name))
            continue;
        if (dt_map_find(&names, func->name, strlen(func->name)))
            dt_verify_fail(v, func->span, "another function has the same name");
        else
            dt_map_add(&names, func->name, strlen(func->name), func);
    }
    v->func = NULL;
}

static bool result_fits(const DtEntryResult *result, const DtType *type)
{
    if (!result->store || type == result->store->type)
        return true;
    return (result->accumulate || result->store->kind == DT_STORE_STATE ||
            result->store->kind == DT_STORE_NEXT) &&
           dt_verify_may_be_stored(type, result->store->type);
}

/* Checks a result of an entry. written: by store, 1 + number of the entry that stored it last,
 * which this updates. */
static void check_entry_result(DtVerify *v, const DtEntryPoint *entry, uint32_t i,
                               uint32_t *written)
{
    const DtEntryResult *result = &entry->results.at[i];
    const DtStore *store = result->store;
    const DtSpan span = entry->func->span;
    if ((store != NULL) == (result->name != NULL)) {
        dt_verify_fail(v, span,
                       "result %u of entry `%s` goes to a store or has a name, one of both", i,
                       entry->name);
        return;
    }
    if (!store) {
        dt_verify_name(v, span, "a result", result->name);
        return;
    }
    if (store->index >= v->module->stores.n || v->module->stores.at[store->index] != store) {
        dt_verify_fail(v, span, "result %u of entry `%s` goes to a store outside the module", i,
                       entry->name);
        return;
    }
    uint32_t stamp = (uint32_t)(entry - v->module->entries.at) + 1;
    if (written[store->index] == stamp)
        dt_verify_fail(v, span, "entry `%s` stores `%s` twice", entry->name, store->path);
    written[store->index] = stamp;
    const DtOp *op = entry->func->results.at[i]->op;
    const bool done = op && op->kind == DT_OP_DONE && op->in && op->in[0];
    const DtOp *late = dt_op_late(done ? op->in[0] : entry->func->results.at[i]);
    const bool slotted = done && dt_graph_is_slotted_in(op->in[0]);
    if ((late || slotted) && !result->accumulate)
        dt_verify_fail(v, span, "result %u of entry `%s` is a %s that adds nothing up", i,
                       entry->name, late ? "late sum" : "sum in slots");
    if (late && store->terms != (late->kind == DT_OP_REDUCE_SCATTER))
        dt_verify_fail(v, span,
                       "result %u of entry `%s` is a late sum that store `%s` has no memory for", i,
                       entry->name, store->path);
    if (!result_fits(result, entry->func->results.at[i]->type))
        dt_verify_fail(v, span, "result %u of entry `%s` has another type than store `%s`", i,
                       entry->name, store->path);
}

static void check_entry(DtVerify *v, const DtEntryPoint *entry, uint32_t *written)
{
    if (!dt_verify_name(v, (DtSpan){0}, "an entry point", entry->name))
        return;
    if (!entry->func || !dt_verify_has_func(v, entry->func) || entry->func->kind != DT_FUNC_ENTRY) {
        dt_verify_fail(v, (DtSpan){0}, "entry `%s` has no entry function of the module",
                       entry->name);
        return;
    }
    if (entry->results.n != entry->func->results.n) {
        dt_verify_fail(v, entry->func->span, "entry `%s` places %u of %u results", entry->name,
                       entry->results.n, entry->func->results.n);
        return;
    }
    for (uint32_t i = 0; i < entry->results.n; i++)
        check_entry_result(v, entry, i, written);
}

static void check_entries(DtVerify *v)
{
    DtMap names = {.arena = v->scratch};
    uint32_t *written = DT_NEW_ARRAY(v->scratch, uint32_t, v->module->stores.n + 1);
    for (uint32_t i = 0; i < v->module->entries.n; i++) {
        const char *name = v->module->entries.at[i].name;
        check_entry(v, &v->module->entries.at[i], written);
        if (name && dt_map_find(&names, name, strlen(name)))
            dt_verify_fail(v, (DtSpan){0}, "two entry points are called `%s`", name);
        else if (name)
            dt_map_add(&names, name, strlen(name), (void *)(uintptr_t)name);
    }
}

/* The checks run in stages, since each stage relies on earlier ones. */
static void check_module(DtVerify *v)
{
    const DtModule *module = v->module;
    DtMap names = {.arena = v->scratch};
    if (!check_mesh(v))
        return;
    for (uint32_t i = 0; i < module->stores.n; i++)
        check_store(v, &names, i);
    check_func_names(v);
    if (v->n_problems)
        return;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        v->func = module->funcs.at[i];
        dt_verify_interface(v, v->func);
    }
    if (v->n_problems)
        return;
    v->starts_rings = dt_verify_starts_rings(module);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        v->func = module->funcs.at[i];
        dt_verify_body(v, v->func);
    }
    v->func = NULL;
    if (v->n_problems)
        return;
    dt_verify_cycles(v);
    check_entries(v);
    if (!v->n_problems)
        dt_verify_frames(v);
    if (!v->n_problems)
        dt_verify_pipeline(v);
}

bool dt_verify_module(const DtModule *module, DtText *ret_problems)
{
    DtVerify v = {.module = module, .problems = ret_problems,
                  .scratch = dt_arena_child(module->arena)};
    v.funcs.arena = v.types.arena = v.scratch;
    check_module(&v);
    if (v.n_problems > DT_VERIFY_MAX)
        dt_text_printf(ret_problems, "and %u more problems\n", v.n_problems - DT_VERIFY_MAX);
    dt_arena_free(v.scratch);
    return v.n_problems == 0;
}

/* A module has a mesh once values are placed; from then on no marks for placement are left. */
static bool is_without_marks(const DtModule *module, DtText *ret_problems)
{
    DtVerify v = {.module = module, .problems = ret_problems};
    for (uint32_t i = 0; module->mesh.n > 0 && i < module->funcs.n; i++) {
        v.func = module->funcs.at[i];
        for (uint32_t k = 0; k < v.func->ops.n; k++)
            if (v.func->ops.at[k]->kind == DT_OP_BIND)
                dt_verify_fail(&v, v.func->ops.at[k]->span,
                               "a `bind` is left, and the program is placed");
    }
    return v.n_problems == 0;
}

void dt_verify_require(const DtModule *module, const char *after)
{
    DtText problems = {0};
    if (!dt_verify_module(module, &problems) || !is_without_marks(module, &problems))
        DT_BUG("the program is broken after %s\n%s", after, problems.at ? problems.at : "");
    dt_text_free(&problems);
}
