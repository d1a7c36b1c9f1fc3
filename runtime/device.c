/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

#include <string.h>

static const uint32_t of_host = UINT32_MAX; /* arena of a place that is memory of this process, not
                                             * of the device */

DtPlaceAt dt_device_place(const DtRank *rank, uint32_t arena, int64_t offset, int64_t bytes)
{
    return (DtPlaceAt){{rank->arenas[arena].at + (uint64_t)offset}, arena, offset, bytes};
}

DtPlaceAt dt_device_of_host(void *at, int64_t bytes)
{
    return (DtPlaceAt){dt_device_at(at), of_host, 0, bytes};
}

DtPlaceAt dt_device_from(DtPlaceAt place, int64_t by)
{
    return (DtPlaceAt){{place.at.at + (uint64_t)by}, place.arena, place.offset + by,
                       place.bytes - by};
}

char *dt_device_seen(const DtRank *rank, DtPlaceAt place)
{
    if (place.arena != of_host && !rank->device_ops->is_host)
        return NULL;
    return (char *)(uintptr_t)place.at.at; // NOLINT(performance-no-int-to-ptr)
}

void dt_device_put(const DtRank *rank, DtPlaceAt to, const void *from, int64_t bytes)
{
    char *seen = dt_device_seen(rank, to);
    if (seen)
        memcpy(seen, from, (size_t)bytes);
    else
        rank->device_ops->put(rank->device, to.at, from, bytes);
}

void dt_device_get(const DtRank *rank, void *to, DtPlaceAt from, int64_t bytes)
{
    const char *seen = dt_device_seen(rank, from);
    if (seen)
        memcpy(to, seen, (size_t)bytes);
    else
        rank->device_ops->get(rank->device, to, from.at, bytes);
}

void dt_device_copy(const DtRank *rank, DtPlaceAt to, DtPlaceAt from, int64_t bytes)
{
    const char *seen = dt_device_seen(rank, from);
    char *wanted = dt_device_seen(rank, to);
    if (seen)
        dt_device_put(rank, to, seen, bytes);
    else if (wanted)
        dt_device_get(rank, wanted, from, bytes);
    else
        rank->device_ops->copy(rank->device, to.at, from.at, bytes);
}

/* ---- copies for host code ---- */

struct DtLending {
    char *at;
    int64_t room, used;
    uint32_t n; /* the piece of memory that is lent now */
};

/* Bytes of all places that the instruction passes to host code. */
static int64_t lent_by(const DtPlan *plan, const DtPlanInst *inst)
{
    int64_t bytes = 0;
    if (inst->kind < DT_INST_READ || inst->kind == DT_INST_WAIT)
        return 0;
    for (uint32_t i = 0; i < inst->n_args; i++) {
        const DtPlanArg *arg = &plan->args[inst->first_arg + i];
        bytes += arg->kind == DT_ARG_ADDRESS
                     ? (arg->bytes + DT_PLAN_ALIGN) / DT_PLAN_ALIGN * DT_PLAN_ALIGN
                     : 0;
    }
    return bytes;
}

static int64_t most_lent(const DtRank *rank, bool reads, bool exchanges)
{
    const DtPlan *plan = rank->plan;
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->n_insts && !rank->device_ops->is_host; i++) {
        const bool counts = plan->insts[i].kind == DT_INST_READ ? reads : exchanges;
        const int64_t bytes = counts ? lent_by(plan, &plan->insts[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t dt_device_reads(const DtRank *rank) { return most_lent(rank, true, false); }

/* Collectives use this memory unless the devices of ranks exchange data directly. */
DtLending *dt_device_lending_new(DtRank *rank)
{
    DtLending *lending = DT_NEW(rank->memory, DtLending);
    lending->room = most_lent(rank, !rank->device_ops->lend, !rank->comm_ops->enter);
    if (lending->room)
        lending->at = dt_arena_alloc(rank->memory, (size_t)lending->room);
    return lending;
}

bool dt_device_lend_ahead(const DtRank *rank, int64_t bytes, DtLent *ret_lent)
{
    const DtDeviceOps *ops = rank->device_ops;
    *ret_lent = (DtLent){.is_copy = true, .is_staged = true, .place.bytes = bytes};
    ret_lent->at = ops->lend ? ops->lend(rank->device, bytes) : NULL;
    return ret_lent->at != NULL;
}

static DtLent lend_copy(const DtRank *rank, DtPlaceAt place)
{
    DtLent lent = {.at = dt_device_seen(rank, place), .place = place};
    DtLending *lending = rank->lending;
    const int64_t wanted = (place.bytes + DT_PLAN_ALIGN) / DT_PLAN_ALIGN * DT_PLAN_ALIGN;
    if (lent.at)
        return lent;
    lent.is_copy = true;
    if (lending && wanted <= lending->room - lending->used) {
        lent.at = lending->at + lending->used;
        lending->used += wanted;
        lending->n++;
        return lent;
    }
    lent.own = dt_arena_new(); /* used for loading, saving and generating */
    lent.at = dt_arena_alloc(lent.own, (size_t)place.bytes + 1);
    return lent;
}

DtLent dt_device_lend_new(const DtRank *rank, DtPlaceAt place)
{
    DtLent lent;
    if (dt_device_seen(rank, place) || !dt_device_lend_ahead(rank, place.bytes, &lent))
        return lend_copy(rank, place);
    lent.place = place;
    return lent;
}

DtLent dt_device_lend(const DtRank *rank, DtPlaceAt place)
{
    DtLent lent = lend_copy(rank, place);
    if (lent.is_copy)
        dt_device_get(rank, lent.at, place, place.bytes);
    return lent;
}

void dt_device_back(const DtRank *rank, DtLent *lent, bool written)
{
    if (!lent->is_copy)
        return;
    if (lent->is_staged) {
        if (written)
            rank->device_ops->send(rank->device, lent->at, lent->place.at, lent->place.bytes);
        else
            rank->device_ops->drop(rank->device, lent->at);
        return;
    }
    if (written)
        dt_device_put(rank, lent->place, lent->at, lent->place.bytes);
    if (lent->own)
        dt_arena_free(lent->own);
    else if (--rank->lending->n == 0)
        rank->lending->used = 0;
}
