/* SPDX-License-Identifier: Apache-2.0 */
/* While rank 0 saves, it reads memory of other ranks. It cannot access that memory directly: arenas
 * that no collective uses are private memory of a rank, since the system can map private memory in
 * large pages. So rank 0 asks for it, and the other ranks serve it. Each has a box in the
 * mapping:
 *
 *     the asker      writes what it wants, raises `asked`, waits for `answered`, takes the bytes
 *     the other one  waits for `asked`, copies the bytes into its box, raises `answered`
 *
 * until the asker releases it. There is one asker at a time. */
#include "runtime/fetch.h"

#include "runtime/device.h"

#include "runtime/comm_sync.h"

#include <string.h>

enum { PIECE = 1 << 18 };

typedef struct Box {
    DtSyncWord asked, answered;
    int64_t offset, bytes; /* bytes 0: the last request */
    uint32_t arena;
    _Alignas(64) char data[PIECE];
} Box;

struct DtFetch {
    DtRank *rank;
    Box *boxes;    /* by rank */
    uint32_t seen; /* number of requests that this rank has seen */
};

uint64_t dt_fetch_bytes(const DtPlan *plan)
{
    return dt_sync_area((DtSyncWide)plan->meta->n_ranks * sizeof(Box));
}

DtFetch *dt_fetch_open(DtRank *rank, char *area)
{
    DtFetch *fetch = DT_NEW(rank->memory, DtFetch);
    *fetch = (DtFetch){.rank = rank, .boxes = (Box *)(void *)area};
    return fetch;
}

static uint32_t who_is_peer(const void *context) { return *(const uint32_t *)context; }

static bool wait_while(DtFetch *fetch, uint32_t peer, DtSyncWord *word, uint32_t old)
{
    DtSyncWait wait = dt_sync_new(fetch->rank, who_is_peer, &peer);
    const DtSyncResult result = dt_sync_wait(&wait, word, old);
    return dt_sync_report(fetch->rank, result, &wait, "");
}

/* ---- asking ---- */

static bool ask(DtFetch *fetch, uint32_t peer, uint32_t arena, int64_t offset, int64_t bytes,
                char *to)
{
    Box *box = &fetch->boxes[peer];
    const uint32_t before = atomic_load_explicit(&box->answered.value, memory_order_relaxed);
    box->arena = arena;
    box->offset = offset;
    box->bytes = bytes;
    dt_sync_raise(&box->asked);
    if (!wait_while(fetch, peer, &box->answered, before))
        return false;
    memcpy(to, box->data, (size_t)bytes);
    return true;
}

bool dt_fetch_get(DtFetch *fetch, uint32_t peer, uint32_t arena, int64_t offset, int64_t bytes,
                  void *ret_bytes)
{
    const DtRank *rank = fetch->rank;
    const char *mapped = rank->peer_arenas[(size_t)peer * rank->plan->n_arenas + arena];
    if (peer == rank->rank) {
        dt_device_get(rank, ret_bytes, dt_device_place(rank, arena, offset, bytes), bytes);
        return true;
    }
    if (mapped != NULL) {
        memcpy(ret_bytes, mapped + offset, (size_t)bytes);
        return true;
    }
    for (int64_t done = 0; done < bytes; done += PIECE) {
        const int64_t n = bytes - done < PIECE ? bytes - done : PIECE;
        if (!ask(fetch, peer, arena, offset + done, n, (char *)ret_bytes + done))
            return false;
    }
    return true;
}

void dt_fetch_release(DtFetch *fetch)
{
    for (uint32_t r = 0; r < fetch->rank->n_ranks; r++)
        if (r != fetch->rank->rank) {
            fetch->boxes[r].bytes = 0;
            dt_sync_raise(&fetch->boxes[r].asked);
        }
}

/* ---- answering ---- */

bool dt_fetch_serve(DtFetch *fetch, uint32_t asker)
{
    const DtRank *rank = fetch->rank;
    Box *box = &fetch->boxes[rank->rank];
    for (;;) {
        if (!wait_while(fetch, asker, &box->asked, fetch->seen))
            return false;
        fetch->seen++;
        if (box->bytes == 0)
            return true;
        dt_device_get(rank, box->data, dt_device_place(rank, box->arena, box->offset, box->bytes),
                      box->bytes);
        dt_sync_raise(&box->answered);
    }
}
