/* SPDX-License-Identifier: Apache-2.0 */
/* Header and slots of the mapping of local ranks, which needs nothing of what else is in it: a rank's slot, and who
 * ended the run first. */
#include "runtime/runtime.h"

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
