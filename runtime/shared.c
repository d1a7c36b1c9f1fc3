/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping that all ranks of one machine and the supervisor see: an anonymous memory file that
 * holds
 *
 *     DtShared | a DtSlot per rank | communicator area | rank 0's shared arenas | rank 1's ...
 *
 * Arenas start on pages; load.c maps each of them by itself, between guard pages. What ranks do
 * with header and slots is in shared_slot.c. */
#include "runtime/shared.h"

#include "base/page.h"
#include "runtime/comm_sync.h"
#include "runtime/nccl_links.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "DTSHARED";

void dt_shared_layout(const DtPlan *plan, DtSharedLayout *ret_layout)
{
    DtSharedLayout layout = {.slots = dt_shared_slots()};
    layout.comm = dt_page_up(layout.slots + (uint64_t)plan->meta->n_ranks * sizeof(DtSlot));
    layout.comm_bytes =
        dt_page_up(dt_sync_area((DtSyncWide)dt_comm_shm_bytes(plan) + dt_nccl_links_bytes(plan)));
    layout.arenas = layout.comm + layout.comm_bytes;
    for (uint32_t a = 0; a < plan->n_arenas; a++) {
        layout.arena[a] = layout.rank_bytes;
        if (plan->arenas[a].shared)
            layout.rank_bytes += dt_page_up((uint64_t)plan->arenas[a].bytes);
    }
    layout.total = layout.arenas + layout.rank_bytes * plan->meta->n_ranks;
    *ret_layout = layout;
}

DtStatus dt_shared_map(const DtPlan *plan, int fd, DtShared **ret_shared)
{
    DtSharedLayout layout;
    struct stat stat;
    dt_shared_layout(plan, &layout);
    if (fstat(fd, &stat) != 0 || (uint64_t)stat.st_size < layout.total)
        return dt_status_fail(DT_EXIT_FAILED, "the mapping of the ranks does not fit this plan");
    void *at = mmap(NULL, layout.arenas, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return dt_status_fail(DT_EXIT_RETRY, "cannot map the memory shared by the ranks: %s",
                              strerror(errno));
    DtShared *shared = at;
    if (memcmp(shared->magic, magic, sizeof magic) != 0 || shared->digest != plan->digest ||
        shared->n_ranks != plan->meta->n_ranks) {
        munmap(at, layout.arenas);
        return dt_status_fail(DT_EXIT_FAILED,
                              "this rank has another plan than the one that started it");
    }
    *ret_shared = shared;
    return DT_OK;
}

static DtStatus fill(const DtPlan *plan, int fd, uint64_t total, uint32_t attempt)
{
    void *at = mmap(NULL, dt_shared_slots(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return dt_status_fail(DT_EXIT_RETRY, "cannot map the memory shared by the ranks: %s",
                              strerror(errno));
    DtShared *shared = at;
    memcpy(shared->magic, magic, sizeof magic);
    shared->digest = plan->digest;
    shared->bytes = total;
    shared->n_ranks = plan->meta->n_ranks;
    shared->attempt = attempt;
    shared->supervisor = (int32_t)getpid();
    shared->meet_fd = -1;
    atomic_store(&shared->last_step, INT64_MAX);
    atomic_store(&shared->saved_step, -1);
    munmap(at, dt_shared_slots());
    return DT_OK;
}

DtStatus dt_shared_create(const DtPlan *plan, uint32_t attempt, int *ret_fd)
{
    DtSharedLayout layout;
    dt_shared_layout(plan, &layout);
    int fd = memfd_create("dtrun", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)layout.total) != 0) {
        DtStatus status = dt_status_fail(
            errno == EFBIG ? DT_EXIT_DOES_NOT_FIT : DT_EXIT_RETRY,
            "cannot create %llu bytes of shared memory: %s%s", (unsigned long long)layout.total,
            strerror(errno),
            errno == EFBIG ? "; `ulimit -f`, a limit for files, counts for it too" : "");
        if (fd >= 0)
            close(fd);
        return status;
    }
    DtStatus status = fill(plan, fd, layout.total, attempt);
    if (!dt_status_ok(&status)) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return DT_OK;
}

void dt_shared_unmap(const DtPlan *plan, DtShared *shared)
{
    DtSharedLayout layout;
    dt_shared_layout(plan, &layout);
    munmap(shared, layout.arenas);
}

char *dt_shared_comm(const DtPlan *plan, DtShared *shared)
{
    DtSharedLayout layout;
    dt_shared_layout(plan, &layout);
    return (char *)shared + layout.comm;
}
