/* SPDX-License-Identifier: Apache-2.0 */
/* The stores of a stage: each has a record (one for a class of stages), with the axes of its
 * type and memory of its own, or its part of a bucket as the program says. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool dt_certplan_has_slots(const CertStore *store)
{
    return is(store->kind, "saved") || is(store->kind, "channel");
}

typedef struct Known {
    const char *path;
    int64_t first; /* the iteration of its loop with which it begins */
    uint32_t kind, record;
} Known;

static int by_path(const void *a, const void *b)
{
    const Known *x = a, *y = b;
    if (x->path != y->path)
        return (uintptr_t)x->path < (uintptr_t)y->path ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

const char *const dt_certplan_kinds[DT_PLAN_STORES] = {"param", "state", "grad", "moment1",
                                                       "moment2", "moment3", "moment4", "saved",
                                                       "channel", "master", "average", "next",
                                                       "cache", "codes", "scales"};

static uint32_t kind_of(const CertStore *store)
{
    uint32_t kind = 0;
    while (kind < DT_PLAN_STORES && !is(dt_certplan_kinds[kind], store->kind))
        kind++;
    return kind;
}

int64_t dt_certplan_first(const PlanWalk *walk, const DtPlanStore *record)
{
    const DtPlanAxis *axis = record->n_axes ? &walk->plan->axes[record->first_axis] : NULL;
    const int64_t behind = record->stage < 0 ? 0 : walk->stage - record->stage;
    return axis ? axis->first + behind * axis->step : 0;
}

static Known *list_records(PlanWalk *walk, uint32_t *ret_n)
{
    const DtPlan *plan = walk->plan;
    Known *known = DT_NEW_ARRAY(walk->scratch, Known, plan->n_stores + 1);
    *ret_n = 0;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (dt_plan_store_on(store, walk->stage))
            known[(*ret_n)++] = (Known){dt_intern(dt_plan_str(plan, store->path)),
                                        dt_certplan_first(walk, store), store->kind, i};
    }
    qsort(known, *ret_n, sizeof *known, by_path);
    return known;
}

static const DtPlanStore *find_record(const PlanWalk *walk, const Known *known, uint32_t n,
                                      const CertStore *store)
{
    Known key = {store->path, dt_cert_first(store, walk->stage), kind_of(store), 0};
    const Known *found = bsearch(&key, known, n, sizeof key, by_path);
    return found ? &walk->plan->stores[found->record] : NULL;
}

bool dt_certplan_axes(const PlanWalk *walk, const CertType *type, uint32_t first, uint32_t n,
                      uint32_t shared)
{
    const DtPlan *plan = walk->plan;
    bool good = n == type->rank;
    for (uint32_t i = 0; good && i < n; i++) {
        const CertAxis *axis = &type->axes[i];
        const DtPlanAxis *at = &plan->axes[first + i];
        good = is(dt_plan_str(plan, at->name), axis->name) &&
               at->local == dt_certplan_local(walk, type, i) &&
               (i < shared ? at->extent >= axis->logical : at->extent == axis->logical) &&
               ((i == 0 && shared) || (at->first == 0 && at->step == 0));
        uint32_t s = 0; /* records contain no split over time */
        for (uint32_t k = 0; good && k < axis->n; k++)
            if (axis->split[k] >= walk->first_device)
                good = at->split[s++] == axis->split[k] - walk->first_device + 1;
        good = good && (s == DT_PLAN_SPLITS || !at->split[s]);
    }
    return good;
}

/* Checks that the record has the store's dtype and axes, by which initial values and checkpoints
 * are cut, and its initial value. Stages share the iterations of a loop, so those axes may be
 * longer. */
static bool has_axes(PlanWalk *walk, const CertStore *store, const DtPlanStore *record)
{
    const uint32_t shared = store->stage >= 0 ? (uint32_t)store->loops : 0;
    const bool good =
        record->n_loops == store->loops && is(dt_kinds_name(record->dtype), store->type->dtype) &&
        dt_certplan_axes(walk, store->type, record->first_axis, record->n_axes, shared);
    walk->has_record[record - walk->plan->stores] = 1 + walk->stage;
    return good ? dt_certplan_begins(walk, store, record)
                : dt_certplan_fail(walk, "the record of store %s has other axes", store->path);
}

/* For a gradient that ranks share and whose memory has room for all of it, in which micro-batches
 * add up each rank's terms: records the type of that memory in walk->terms. False after a
 * problem. */
static bool has_terms(PlanWalk *walk, uint32_t number)
{
    const CertStore *store = &walk->program->stores.at[number];
    const CertAxis *flat = store->type->rank ? &store->type->axes[store->type->rank - 1] : NULL;
    if (!store->terms || walk->terms[number])
        return true;
    if (!is(store->kind, "grad") || !flat || !flat->n || flat->zigzag)
        return dt_certplan_fail(walk, "store %s is no gradient that ranks add up", store->path);
    CertType *all = DT_NEW(walk->arena, CertType);
    *all = *store->type;
    all->axes[all->rank - 1].n = 0;
    walk->terms[number] = all;
    return true;
}

/* Finds the memory of a store from its own record or, for a bucket, from that of its first member.
 * False after a problem. */
static bool place_store(PlanWalk *walk, const Known *known, uint32_t n, uint32_t number,
                        uint32_t member)
{
    const CertStore *store = &walk->program->stores.at[number],
                    *named = &walk->program->stores.at[member];
    const DtPlanStore *record = find_record(walk, known, n, named);
    if (!record)
        return dt_certplan_fail(walk, "store %s has no record", named->path);
    PlanPlace *place = &walk->stores[number];
    if (!has_terms(walk, number))
        return false;
    *place = (PlanPlace){.arena = record->arena, .base = record->offset};
    dt_certplan_dense(walk, walk->terms[number] ? walk->terms[number] : store->type, place);
    if (named == store && record->pack)
        return dt_certplan_fail(walk, "the record of store %s puts it into a bucket", store->path);
    if (named == store && !has_axes(walk, store, record))
        return false;
    return place->bytes == record->bytes ||
           dt_certplan_fail(walk, "store %s has %lld bytes of %lld", named->path,
                            (long long)record->bytes, (long long)place->bytes);
}

/* Checks a member of a bucket: it has a record of its own, which gives its place in the bucket. */
static bool is_member(PlanWalk *walk, const Known *known, uint32_t n, uint32_t number)
{
    const DtPlan *plan = walk->plan;
    const CertStore *store = &walk->program->stores.at[number],
                    *bucket = &walk->program->stores.at[store->bucket];
    const CertAxis *flat = &bucket->type->axes[bucket->type->rank - 1];
    const DtPlanStore *record = find_record(walk, known, n, store);
    const PlanPlace *place = &walk->stores[store->bucket];
    const DtPlanPack *pack = record && record->pack ? &plan->packs[record->pack - 1] : NULL;
    bool good = pack && record->arena == place->arena && record->offset == place->base &&
                record->bytes == place->bytes && pack->offset == store->at &&
                pack->extent == flat->extent && pack->n_split == flat->n &&
                pack->run == dt_certplan_local(walk, bucket->type, bucket->type->rank - 1);
    for (uint32_t s = 0; good && s < flat->n; s++)
        good = pack->split[s] == flat->split[s] - walk->first_device;
    return good ? has_axes(walk, store, record)
                : dt_certplan_fail(walk, "store %s is not where its bucket has it", store->path);
}

static int by_address(const void *a, const void *b)
{
    const PlanPlace *x = &(*(PlanRegion *const *)a)->place, *y = &(*(PlanRegion *const *)b)->place;
    if (x->arena != y->arena)
        return x->arena < y->arena ? -1 : 1;
    return x->base < y->base ? -1 : x->base > y->base;
}

/* Finds the memory of the stage's stores (walk->stores), and checks that no two overlap. */
bool dt_certplan_stores(PlanWalk *walk)
{
    const CertProgram *program = walk->program;
    uint32_t n;
    const Known *known = list_records(walk, &n);
    walk->n_kept = 0;
    for (uint32_t i = 0; i < program->stores.n; i++) {
        const CertStore *store = &program->stores.at[i];
        const PlanPlace before = walk->stores[i];
        walk->stores[i].bytes = 0;
        if (dt_certplan_has_slots(store) || store->bucket >= 0 ||
            !dt_cert_has(store, walk->stage))
            continue;
        if (!place_store(walk, known, n, i, store->members >= 0 ? (uint32_t)store->members : i))
            return false;
        bool before_too = walk->stage && dt_cert_has(store, walk->stage - 1);
        if (!before_too || !dt_certplan_same(&before, &walk->stores[i]))
            walk->alike_from = walk->stage;
        PlanRegion *region = &walk->regions[i];
        *region = (PlanRegion){.kind = PLAN_STORE, .place = walk->stores[i], .id = i};
        walk->kept[walk->n_kept++] = region;
    }
    for (uint32_t i = 0; i < program->stores.n; i++)
        if (program->stores.at[i].bucket >= 0 &&
            dt_cert_has(&program->stores.at[i], walk->stage) &&
            !is_member(walk, known, n, i))
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (walk->has_record[known[i].record] != 1 + walk->stage)
            return dt_certplan_fail(walk, "the record of %s is of no store of the program",
                                    known[i].path);
    qsort(walk->kept, walk->n_kept, sizeof *walk->kept, by_address);
    for (uint32_t i = 1; i < walk->n_kept; i++) {
        const PlanPlace *a = &walk->kept[i - 1]->place, *b = &walk->kept[i]->place;
        if (a->arena == b->arena && b->base < a->base + a->bytes)
            return dt_certplan_fail(walk, "stores %s and %s overlap",
                                    program->stores.at[walk->kept[i - 1]->id].path,
                                    program->stores.at[walk->kept[i]->id].path);
    }
    return true;
}
