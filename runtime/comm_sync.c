/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for other ranks.
 *
 * A wait looks at its word about 200 times, then sleeps on it as a futex: spinning longer costs
 * more than sleeping as soon as there are more ranks than cores. A sleep lasts 20 ms at most; after
 * each the abort word, the phase of the rank waited for and the deadline are looked at, so no wait
 * outlives the failure of a rank, whoever forgot to wake whom. While it sleeps, the rank's slot
 * says for whom.
 *
 * sleepers saves the system call of a wake nobody needs: the one who sleeps announces itself, then
 * reads the word; the one who raises it changes the word, then reads sleepers; both in sequentially
 * consistent order, so at least one sees the other. */
#include "runtime/comm_sync.h"
#include "runtime/straggler.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 200, SLEEP_NS = 20000000 };

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void dt_sync_sleep(DtSyncWord *word, uint32_t old)
{
    const struct timespec time = {.tv_nsec = SLEEP_NS};
    atomic_fetch_add(&word->sleepers, 1);
    if (atomic_load(&word->value) == old)
        syscall(SYS_futex, &word->value, FUTEX_WAIT, old, &time, NULL, 0);
    atomic_fetch_sub(&word->sleepers, 1);
}

static DtSyncResult look_around(DtSyncWait *wait, uint32_t who, uint64_t began)
{
    const DtRank *rank = wait->rank;
    if (dt_rank_aborted(rank))
        return DT_SYNC_STOPPED;
    wait->lost = who;
    if (who < rank->n_ranks) {
        uint32_t phase = atomic_load_explicit(&dt_shared_slot(rank->plan, rank->shared, who)->phase,
                                              memory_order_acquire);
        if (phase == DT_PHASE_FAILED)
            return DT_SYNC_STOPPED;
        if (phase == DT_PHASE_DONE) /* perhaps because of an abort that came after the first look */
            return dt_rank_aborted(rank) ? DT_SYNC_STOPPED : DT_SYNC_LOST;
    }
    if (wait->deadline_ns > 0 && dt_now_ns() - began > wait->deadline_ns)
        return DT_SYNC_LATE;
    return DT_SYNC_OK;
}

/* The slow part of a wait. Meanwhile the rank's slot says that it waits, and for whom. */
static DtSyncResult wait_asleep(DtSyncWait *wait, DtSyncWord *word, uint32_t old)
{
    DtSlot *slot = wait->slot;
    uint64_t began = dt_now_ns(), delay = dt_straggler_delay(wait->rank);
    DtSyncResult result = DT_SYNC_OK;
    while (atomic_load_explicit(&word->value, memory_order_acquire) == old) {
        const uint64_t now = dt_now_ns();
        const uint32_t who = wait->who(wait->context);
        dt_shared_wait(slot, who, now);
        result = look_around(wait, who, began);
        /* Checks the word once more: a rank may raise the word and end between the two looks, and
         * then the wait has succeeded. */
        if (result != DT_SYNC_OK) {
            if (atomic_load_explicit(&word->value, memory_order_acquire) != old)
                result = DT_SYNC_OK;
            break;
        }
        delay = dt_straggler_delay(wait->rank);
        dt_sync_sleep(word, old);
    }
    dt_shared_go_on(slot);
    dt_straggler_woken(wait->rank, slot, delay);
    return result;
}

DtSyncWait dt_sync_new(const DtRank *rank, DtSyncWho *who, const void *context)
{
    double timeout = rank->options ? rank->options->timeout : 0;
    return (DtSyncWait){.rank = rank,
                        .slot = rank->slot,
                        .who = who,
                        .context = context,
                        .deadline_ns =
                            timeout > 0 && timeout < 1e9 ? (uint64_t)((timeout + 2) * 1e9) : 0};
}

DtSyncResult dt_sync_wait(DtSyncWait *wait, DtSyncWord *word, uint32_t old)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&word->value, memory_order_acquire) != old)
            return DT_SYNC_OK;
        pause_briefly();
    }
    return wait_asleep(wait, word, old);
}

bool dt_sync_report(DtRank *rank, DtSyncResult result, const DtSyncWait *wait, const char *what)
{
    switch (result) {
    case DT_SYNC_OK: return true;
    case DT_SYNC_STOPPED: return false;
    case DT_SYNC_LOST:
        return dt_rank_fail(rank, DT_EXIT_FAILED, "rank %u has ended while rank %u waits for it%s",
                            wait->lost, rank->rank, what);
    default:
        return dt_rank_fail(rank, DT_EXIT_RETRY,
                            "rank %u has waited for rank %u%s longer than --timeout allows",
                            rank->rank, wait->lost, what);
    }
}

bool dt_sync_look(void *far)
{
    const DtSyncFar *wait = far;
    dt_shared_wait(wait->rank->slot, wait->who, dt_now_ns());
    return dt_rank_aborted(wait->rank);
}

void dt_sync_raise(DtSyncWord *word)
{
    atomic_fetch_add(&word->value, 1);
    if (atomic_load(&word->sleepers) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint64_t dt_sync_area(DtSyncWide bytes)
{
    const uint64_t largest = (uint64_t)1 << 56;
    return bytes > largest ? largest : (uint64_t)bytes;
}

bool dt_sync_others_failed(const DtRank *rank)
{
    const uint64_t until_ns = dt_now_ns() + 3000000000u;
    while (!dt_rank_aborted(rank) && dt_now_ns() < until_ns)
        usleep(10000);
    return dt_rank_aborted(rank);
}
