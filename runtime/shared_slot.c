/* SPDX-License-Identifier: Apache-2.0 */
/* The header and the slots of the mapping of a machine's ranks: a rank's slot, its waits, and which
 * rank ended the run first. This code needs no other part of the mapping. */
#include "runtime/shared.h"

#include "base/page.h"

uint64_t dt_shared_slots(void) { return dt_page_up(sizeof(DtShared)); }

DtSlot *dt_shared_slot(const DtPlan *plan, DtShared *shared, uint32_t rank)
{
    (void)plan;
    return (DtSlot *)(void *)((char *)shared + dt_shared_slots()) + rank;
}

void dt_shared_abort(DtShared *shared, int64_t by)
{
    uint32_t zero = 0;
    atomic_compare_exchange_strong(&shared->abort, &zero, (uint32_t)(by + 2));
}

int64_t dt_shared_aborter(DtShared *shared)
{
    uint32_t word = atomic_load(&shared->abort);
    return word >= 2 ? (int64_t)word - 2 : DT_BY_SUPERVISOR;
}

void dt_shared_wait(DtSlot *slot, uint32_t who, uint64_t now_ns)
{
    /* Stored with release, so that a process that reads these values no longer sees the previous
     * wait. */
    atomic_store_explicit(&slot->waits_for, who, memory_order_release);
    atomic_store_explicit(&slot->wait_looked_ns, now_ns, memory_order_release);
    if (!dt_shared_waits(slot))
        atomic_store_explicit(&slot->wait_began_ns, now_ns, memory_order_release);
}

void dt_shared_go_on(DtSlot *slot)
{
    atomic_store_explicit(&slot->wait_began_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->waits_for, UINT32_MAX, memory_order_relaxed);
}

bool dt_shared_waits(const DtSlot *slot)
{
    return atomic_load_explicit(&slot->wait_began_ns, memory_order_acquire) != 0;
}
