/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda_host.h"

#include "runtime/device_cuda.h"

#include <string.h>

enum {
    PIECES = 512,
    ALIGN = 256,
    PUT_ROOM = 4 << 20, /* size of the ring for `put`: for scalars, and pieces of larger data */
    PUT_PIECE = PUT_ROOM / 4,
    CELL = 8
};
static const int64_t lend_most = (int64_t)1 << 30;

/* Pieces are in the order in which they were taken, from the oldest on, and wrap around at the end
 * of the ring. */
typedef struct Piece {
    uint64_t begin, end;
    /* sent: the copy was started, and `done` is recorded after it. Neither sent nor dropped: the
     * caller is still writing to the piece */
    bool is_sent, is_free;
    DtCudaEvent *done;
} Piece;

typedef struct Ring {
    char *memory;
    uint64_t room;
    uint32_t first, n;
    Piece pieces[PIECES];
} Ring;

struct DtCudaHost {
    DtRank *rank;
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    Ring puts, lends;
    char *cells;
    DtCudaEvent *noted[DT_DEVICE_CELLS];
};

/* ---- waiting ---- */

typedef struct Awaited {
    const DtCudaDriver *driver;
    DtCudaEvent *event;
} Awaited;

static bool has_passed(void *context)
{
    const Awaited *awaited = context;
    /* no message here: the caller that waits reports the error */
    return awaited->driver->event_query(awaited->event) != DT_CUDA_NOT_READY;
}

/* Waits for work on the stream. An exchange between GPUs may never end, so a communicator with such
 * exchanges waits itself before the driver is asked. */
static bool await(DtCudaHost *host, DtCudaEvent *event)
{
    const DtRank *rank = host->rank;
    Awaited awaited = {host->driver, event};
    const bool is_free = !rank->comm || !rank->comm_ops->wait ||
                         rank->comm_ops->wait(rank->comm, has_passed, &awaited);
    return is_free &&
           dt_device_cuda_good(host->rank, host->driver->event_wait(event), "do what was begun");
}

static bool record(DtCudaHost *host, DtCudaEvent **event)
{
    return (*event ||
            dt_device_cuda_good(host->rank, host->driver->event_new(event, DT_CUDA_EVENT_NO_TIME),
                                "make an event")) &&
           dt_device_cuda_good(host->rank, host->driver->event_record(*event, host->stream),
                               "record an event");
}

/* ---- a ring ---- */

static DtStatus ring_open(DtCudaHost *host, Ring *ring, int64_t room)
{
    char text[32];
    void *memory = NULL;
    const int error = room ? host->driver->host_alloc(&memory, (size_t)room, 0) : 0;
    if (error)
        return dt_status_fail(
            DT_EXIT_DOES_NOT_FIT, "no %s of the machine's memory for what goes to the GPU: %s",
            dt_text_bytes(text, (double)room), dt_cuda_driver_error(host->driver, error));
    ring->memory = memory;
    ring->room = (uint64_t)room;
    return DT_OK;
}

static void ring_close(DtCudaHost *host, Ring *ring)
{
    for (uint32_t i = 0; i < PIECES; i++)
        if (ring->pieces[i].done)
            host->driver->event_free(ring->pieces[i].done);
    if (ring->memory)
        host->driver->host_free(ring->memory);
}

static Piece *piece_at(Ring *ring, uint32_t i) { return &ring->pieces[(ring->first + i) % PIECES]; }

/* Frees the oldest pieces whose copies are done. */
static void forget(const DtCudaHost *host, Ring *ring)
{
    while (ring->n > 0) {
        const Piece *oldest = piece_at(ring, 0);
        if (!oldest->is_free &&
            (!oldest->is_sent || host->driver->event_query(oldest->done) == DT_CUDA_NOT_READY))
            return;
        ring->first = (ring->first + 1) % PIECES;
        ring->n--;
    }
}

/* The offset at which the next piece can begin. */
static bool find_room(Ring *ring, uint64_t bytes, uint64_t *ret_begin)
{
    *ret_begin = 0;
    if (ring->n == 0)
        return bytes <= ring->room;
    if (ring->n == PIECES)
        return false;
    const Piece *oldest = piece_at(ring, 0), *newest = piece_at(ring, ring->n - 1);
    const bool is_around = newest->begin < oldest->begin;
    if (!is_around && bytes > ring->room - newest->end)
        return bytes <= oldest->begin;
    *ret_begin = newest->end;
    return !is_around || bytes <= oldest->begin - newest->end;
}

static char *take(DtCudaHost *host, Ring *ring, int64_t bytes)
{
    const uint64_t wanted = ((uint64_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t begin;
    forget(host, ring);
    while (!find_room(ring, wanted, &begin)) {
        const Piece *oldest = ring->n ? piece_at(ring, 0) : NULL;
        if (!oldest || !oldest->is_sent || !await(host, oldest->done))
            return NULL;
        forget(host, ring);
    }
    Piece *piece = piece_at(ring, ring->n++);
    *piece = (Piece){.begin = begin, .end = begin + wanted, .done = piece->done};
    return ring->memory + begin;
}

static Piece *find(Ring *ring, const char *taken)
{
    uint32_t i = ring->n - 1;
    while (ring->memory + piece_at(ring, i)->begin != taken || piece_at(ring, i)->is_free ||
           piece_at(ring, i)->is_sent)
        i--;
    return piece_at(ring, i);
}

static bool send(DtCudaHost *host, Ring *ring, const char *taken, DtDeviceAt to, int64_t bytes)
{
    Piece *piece = find(ring, taken);
    if (!dt_device_cuda_good(host->rank,
                             host->driver->put(to.at, taken, (size_t)bytes, host->stream),
                             "take bytes") ||
        !record(host, &piece->done))
        return false;
    piece->is_sent = true;
    return true;
}

/* ---- begin and end ---- */

DtStatus dt_cuda_host_open(DtRank *rank, const DtCudaDriver *driver, DtCudaStream *stream,
                           int64_t lends, DtCudaHost **ret_host)
{
    DtCudaHost *host = DT_NEW(rank->memory, DtCudaHost);
    void *cells = NULL;
    *host = (DtCudaHost){.rank = rank, .driver = driver, .stream = stream};
    *ret_host = host;
    DtStatus status = ring_open(host, &host->puts, PUT_ROOM);
    /* There must be room for the data that are being copied and for the next ones. If there is no
     * room, data are copied by `puts` instead, and the GPU may have to wait for them. */
    const DtStatus lending =
        ring_open(host, &host->lends, lends < lend_most / 2 ? 2 * lends : lend_most);
    if (!dt_status_ok(&lending) && rank->rank == 0)
        dt_text_say(stderr,
                    dt_arena_printf(rank->memory, "dtrun: note: data are not read ahead: %s",
                                    lending.message));
    const int error =
        dt_status_ok(&status) ? driver->host_alloc(&cells, (size_t)DT_DEVICE_CELLS * CELL, 0) : 0;
    host->cells = cells;
    return error == 0 ? status
                      : dt_status_fail(DT_EXIT_DOES_NOT_FIT,
                                       "no memory of the machine that the GPU writes: %s",
                                       dt_cuda_driver_error(driver, error));
}

void dt_cuda_host_close(DtCudaHost *host)
{
    ring_close(host, &host->puts);
    ring_close(host, &host->lends);
    for (uint32_t i = 0; i < DT_DEVICE_CELLS; i++)
        if (host->noted[i])
            host->driver->event_free(host->noted[i]);
    if (host->cells)
        host->driver->host_free(host->cells);
}

/* ---- to the GPU ---- */

bool dt_cuda_host_put(DtCudaHost *host, DtDeviceAt to, const void *from, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const int64_t some = bytes - done < PUT_PIECE ? bytes - done : PUT_PIECE;
        char *at = take(host, &host->puts, some);
        if (!at)
            return false;
        memcpy(at, (const char *)from + done, (size_t)some);
        if (!send(host, &host->puts, at, (DtDeviceAt){to.at + (uint64_t)done}, some))
            return false;
        done += some;
    }
    return true;
}

char *dt_cuda_host_lend(DtCudaHost *host, int64_t bytes)
{
    return bytes > 0 ? take(host, &host->lends, bytes) : NULL;
}

bool dt_cuda_host_send(DtCudaHost *host, char *lent, DtDeviceAt to, int64_t bytes)
{
    return send(host, &host->lends, lent, to, bytes);
}

void dt_cuda_host_drop(DtCudaHost *host, char *lent) { find(&host->lends, lent)->is_free = true; }

/* ---- from the GPU ---- */

bool dt_cuda_host_note(DtCudaHost *host, uint32_t cell, DtDeviceAt from, int64_t bytes)
{
    const int error =
        host->driver->get(host->cells + (size_t)cell * CELL, from.at, (size_t)bytes, host->stream);
    return dt_device_cuda_good(host->rank, error, "give bytes") && record(host, &host->noted[cell]);
}

bool dt_cuda_host_noted(DtCudaHost *host, uint32_t cell, void *to, int64_t bytes)
{
    const bool good = await(host, host->noted[cell]);
    if (good)
        memcpy(to, host->cells + (size_t)cell * CELL, (size_t)bytes);
    else
        memset(to, 0, (size_t)bytes);
    return good;
}
