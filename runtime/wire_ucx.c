/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by UCX, over whatever it finds between two hosts: InfiniBand, RoCE or TCP. Each message
 * is an active message whose header is the message's head. UCX says that one has come by calling
 * on_message: the bytes of a small one are there, those of a large one are fetched into the memory
 * of its receive (rendezvous).
 *
 * UCX has no order between active messages, and a wire needs none. A rank has a context, which
 * finds the interfaces, and each of its wires a worker, which one thread at a time uses. */
#include "runtime/ucx.h"
#include "runtime/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 1 /* the number of the handler */ };

/* What the wires of a rank share. The thread of the rank opens and closes it. */
typedef struct DtWireUcx {
    DtUcx ucx;
    DtUcpContext *context;
    uint32_t n_users;
} DtWireUcx;

typedef struct Engine {
    DtUcx ucx;
    DtWireUcx *shared; /* NULL: it could not be opened */
    DtUcpWorker *worker;
    DtUcpAddress *address;
    size_t address_bytes;
    int fd; /* readable when something may have come */
} Engine;

typedef struct End {
    DtUcpEp *ep;
} End;

static bool fail(DtWire *wire, const char *what, DtUcsStatus error)
{
    const Engine *engine = wire->engine;
    return dt_rank_fail(wire->rank, DT_EXIT_RETRY, "UCX cannot %s: %s", what,
                        engine->ucx.status_string(error));
}

/* ---- receiving ---- */

static void on_fetched(void *request, DtUcsStatus status, size_t length, void *user_data)
{
    DtWirePost *post = user_data;
    Engine *engine = post->wire->engine;
    (void)length;
    engine->ucx.request_free(request);
    if (status == 0)
        dt_wire_done(post);
    else
        dt_wire_lost(post->peer, ECONNRESET);
}

static void fetch(DtWire *wire, DtWirePost *post, void *descriptor)
{
    Engine *engine = wire->engine;
    if (!post) {
        engine->ucx.am_release(engine->worker, descriptor);
        return;
    }
    const DtUcpRequest how = {.mask = DT_UCP_OP_CALLBACK | DT_UCP_OP_USER_DATA,
                              .cb.recv_am = on_fetched,
                              .user_data = post};
    void *request = engine->ucx.am_recv(engine->worker, descriptor, post->at,
                                        (size_t)post->head.bytes, &how);
    if (!request)
        dt_wire_done(post);
    else if (dt_ucx_error(request))
        dt_wire_lost(post->peer, ECONNRESET);
}

/* Keeps a message that has no receive. Only a large one stays with UCX. */
static DtUcsStatus keep(DtWire *wire, DtWirePeer *peer, const DtWireHead *head, void *data,
                        bool is_large)
{
    DtWireEarly *early = dt_wire_early(wire, peer, head, is_large ? data : NULL);
    if (!early)
        return 0;
    if (!is_large)
        memcpy(early->bytes, data, (size_t)head->bytes);
    dt_wire_keep(peer, early);
    return is_large ? DT_UCS_IN_PROGRESS : 0;
}

static DtUcsStatus on_message(void *arg, const void *header, size_t header_bytes, void *data,
                              size_t bytes, const DtUcpAmParam *param)
{
    DtWire *wire = arg;
    const bool is_large = (param->attr & DT_UCP_AM_RNDV) != 0;
    DtWireHead head;
    bool is_over;
    if (header_bytes != sizeof head)
        return 0;
    memcpy(&head, header, sizeof head);
    if (head.from >= wire->rank->n_ranks || wire->number[head.from] == UINT32_MAX ||
        (uint64_t)head.bytes != bytes)
        return 0;
    DtWirePeer *peer = &wire->peers[wire->number[head.from]];
    if (!peer->end || head.token != peer->token) /* it has not joined yet, or is a stranger */
        return 0;
    DtWirePost *post = dt_wire_take(wire, peer, &head, &is_over);
    if (is_over || dt_rank_has_failed(wire->rank))
        return 0;
    if (!post)
        return keep(wire, peer, &head, data, is_large);
    if (is_large) {
        fetch(wire, post, data);
        return DT_UCS_IN_PROGRESS;
    }
    dt_wire_give(post, data);
    return 0;
}

/* ---- sending ---- */

static void on_sent(void *request, DtUcsStatus status, void *user_data)
{
    DtWirePost *post = user_data;
    Engine *engine = post->wire->engine;
    engine->ucx.request_free(request);
    if (status == 0)
        dt_wire_done(post);
    else
        dt_wire_lost(post->peer, ECONNRESET);
}

static void send_post(DtWire *wire, DtWirePeer *peer, DtWirePost *post)
{
    Engine *engine = wire->engine;
    const End *end = peer->end;
    const DtUcpRequest how = {.mask = DT_UCP_OP_CALLBACK | DT_UCP_OP_USER_DATA | DT_UCP_OP_FLAGS,
                              .flags = post->head.asks ? DT_UCP_AM_SEND_RNDV : 0,
                              .cb.send = on_sent,
                              .user_data = post};
    void *request = engine->ucx.am_send(end->ep, MESSAGE, &post->head, sizeof post->head, post->at,
                                        (size_t)post->head.bytes, &how);
    if (!request)
        dt_wire_done(post);
    else if (dt_ucx_error(request))
        dt_wire_lost(peer, ECONNRESET);
}

static bool move(DtWire *wire, int ms)
{
    Engine *engine = wire->engine;
    bool any = false;
    while (engine->ucx.worker_progress(engine->worker))
        any = true;
    if (any || ms == 0 || engine->ucx.worker_arm(engine->worker) != 0)
        return any;
    struct pollfd ready = {.fd = engine->fd, .events = POLLIN};
    poll(&ready, 1, ms);
    while (engine->ucx.worker_progress(engine->worker))
        any = true;
    return any;
}

static uint32_t watch(DtWire *wire, struct pollfd *ret_polls)
{
    const Engine *engine = wire->engine;
    if (engine->ucx.worker_arm(engine->worker) != 0)
        return 0;
    *ret_polls = (struct pollfd){.fd = engine->fd, .events = POLLIN};
    return 1;
}

/* ---- open and close ---- */

static DtStatus cannot_start(const DtUcx *ucx, DtUcsStatus error)
{
    return dt_status_fail(DT_EXIT_FAILED, "UCX cannot start: %s", ucx->status_string(error));
}

static DtStatus open_context(DtRank *rank)
{
    const DtUcpParams params = {.mask = DT_UCP_PARAM_FEATURES | DT_UCP_PARAM_SHARED,
                                .features = DT_UCP_FEATURE_AM | DT_UCP_FEATURE_WAKEUP,
                                .shared = 1};
    DtWireUcx *shared = DT_NEW(rank->memory, DtWireUcx);
    const DtStatus status = dt_ucx_open(&shared->ucx);
    if (!dt_status_ok(&status))
        return status;
    const DtUcsStatus error = shared->ucx.init(DT_UCP_API_MAJOR, DT_UCP_API_MINOR, &params, NULL,
                                               &shared->context);
    if (error)
        return cannot_start(&shared->ucx, error);
    rank->ucx = shared;
    return DT_OK;
}

static void leave_context(DtRank *rank)
{
    if (--rank->ucx->n_users > 0)
        return;
    rank->ucx->ucx.cleanup(rank->ucx->context);
    rank->ucx = NULL;
}

static DtStatus open_worker(DtWire *wire, Engine *engine)
{
    const DtUcpWorkerParams how = {.mask = DT_UCP_WORKER_THREAD_MODE,
                                   .thread_mode = DT_UCP_SERIALIZED};
    const DtUcpAmHandler handler = {.mask = DT_UCP_AM_ID | DT_UCP_AM_FLAGS | DT_UCP_AM_CB |
                                            DT_UCP_AM_ARG,
                                    .id = MESSAGE,
                                    .flags = DT_UCP_AM_WHOLE,
                                    .cb = on_message,
                                    .arg = wire};
    DtUcsStatus error =
        engine->ucx.worker_create(engine->shared->context, &how, &engine->worker);
    if (error == 0)
        error = engine->ucx.worker_get_efd(engine->worker, &engine->fd);
    if (error == 0)
        error = engine->ucx.set_handler(engine->worker, &handler);
    if (error == 0)
        error = engine->ucx.worker_get_address(engine->worker, &engine->address,
                                               &engine->address_bytes);
    return error == 0 ? DT_OK : cannot_start(&engine->ucx, error);
}

static DtStatus open_ucx(DtWire *wire)
{
    Engine *engine = DT_NEW(wire->rank->memory, Engine);
    wire->engine = engine;
    /* The runtime reports failures itself. Pieces of collectives go at once, without asking the
     * receiver: over TCP an all-reduce of 1 MB takes two thirds of the time so. A piece is one
     * segment, since UCX puts several together in memory that it takes from the system each time:
     * this halves the processor time of large sums. What the user sets stays. */
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("UCX_ERROR_SIGNALS", "", 0);
    setenv("UCX_RNDV_THRESH", "1m", 0);
    setenv("UCX_TCP_TX_SEG_SIZE", "260k", 0);
    setenv("UCX_TCP_RX_SEG_SIZE", "260k", 0);
    setenv("UCX_ZCOPY_THRESH", "16k", 0);
    const DtStatus status = wire->rank->ucx ? DT_OK : open_context(wire->rank);
    if (!dt_status_ok(&status))
        return status;
    engine->shared = wire->rank->ucx;
    engine->shared->n_users++;
    engine->ucx = engine->shared->ucx;
    return open_worker(wire, engine);
}

static const void *address(DtWire *wire, uint32_t *ret_bytes)
{
    const Engine *engine = wire->engine;
    *ret_bytes = (uint32_t)engine->address_bytes;
    return engine->address;
}

static void on_error(void *arg, DtUcpEp *ep, DtUcsStatus status)
{
    DtWirePost *to = arg;
    (void)ep, (void)status;
    dt_wire_lost(to->peer, ECONNRESET);
}

static bool join(DtWire *wire, DtWirePeer *peer, const void *at, uint32_t bytes)
{
    Engine *engine = wire->engine;
    End *end = DT_NEW(wire->rank->memory, End);
    DtWirePost *about = DT_NEW(wire->rank->memory, DtWirePost); /* for on_error */
    *about = (DtWirePost){.wire = wire, .peer = peer};
    const DtUcpEpParams params = {.mask = DT_UCP_EP_ADDRESS | DT_UCP_EP_ERR_MODE |
                                          DT_UCP_EP_ERR_HANDLER,
                                  .address = at,
                                  .err_mode = DT_UCP_ERR_PEER,
                                  .on_error = {on_error, about}};
    if (bytes == 0)
        return dt_rank_fail(wire->rank, DT_EXIT_RETRY, "rank %u has no address of UCX",
                            peer->rank);
    const DtUcsStatus error = engine->ucx.ep_create(engine->worker, &params, &end->ep);
    if (error)
        return fail(wire, "reach another rank", error);
    peer->end = end;
    return true;
}

static void close_ucx(DtWire *wire)
{
    Engine *engine = wire->engine;
    const DtUcpRequest how = {.mask = DT_UCP_OP_FLAGS, .flags = DT_UCP_CLOSE_FORCE};
    for (uint32_t p = 0; engine && p < wire->n_peers; p++) {
        End *end = wire->peers[p].end;
        void *request = end && end->ep ? engine->ucx.ep_close(end->ep, &how) : NULL;
        for (int i = 0; request && !dt_ucx_error(request) && i < 1000000 &&
                        engine->ucx.request_status(request) == DT_UCS_IN_PROGRESS;
             i++)
            engine->ucx.worker_progress(engine->worker);
        if (request && !dt_ucx_error(request))
            engine->ucx.request_free(request);
    }
    if (engine && engine->worker)
        engine->ucx.worker_destroy(engine->worker);
    if (engine && engine->shared)
        leave_context(wire->rank);
}

const DtWireOps dt_wire_ucx = {
    .name = "ucx",
    .open = open_ucx,
    .close = close_ucx,
    .address = address,
    .join = join,
    .send = send_post,
    .fetch = fetch,
    .move = move,
    .watch = watch,
};
