/* SPDX-License-Identifier: Apache-2.0 */
/* UCX without its headers: the functions of UCP that the runtime calls, by the names, types and
 * numbers of its API 1.11 and later (openucx.readthedocs.io; ucp/api/ucp.h). A test compares them
 * with the headers where these are installed. A DtUcsStatus is 0, or a negative
 * error. */
#ifndef DT_RUNTIME_UCX_H
#define DT_RUNTIME_UCX_H

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef int8_t DtUcsStatus; /* ucs_status_t is an enumeration of one byte */
typedef struct DtUcpContext DtUcpContext; /* ucp_context_h is a pointer to it, and so on */
typedef struct DtUcpWorker DtUcpWorker;
typedef struct DtUcpEp DtUcpEp;
typedef struct DtUcpAddress DtUcpAddress;

typedef struct DtUcpParams { /* ucp_params_t */
    uint64_t mask, features;
    size_t request_size;
    void (*request_init)(void *), (*request_cleanup)(void *);
    uint64_t tag_mask;
    int shared;
    size_t n_eps, n_local;
    const char *name;
} DtUcpParams;

typedef struct DtUcpWorkerParams { /* ucp_worker_params_t */
    uint64_t mask;
    int thread_mode;
    unsigned long cpus[16];
    unsigned events;
    void *user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t alignment;
    uint64_t client;
} DtUcpWorkerParams;

typedef struct DtUcpSockAddr { /* ucs_sock_addr_t */
    const void *at;
    uint32_t len;
} DtUcpSockAddr;

typedef struct DtUcpEpParams { /* ucp_ep_params_t */
    uint64_t mask;
    const DtUcpAddress *address;
    int err_mode;
    struct {
        void (*cb)(void *arg, DtUcpEp *ep, DtUcsStatus status);
        void *arg;
    } on_error;
    void *user_data;
    unsigned flags;
    DtUcpSockAddr sockaddr;
    void *request;
    const char *name;
    DtUcpSockAddr local;
} DtUcpEpParams;

typedef struct DtUcpRequest { /* ucp_request_param_t */
    uint32_t mask, flags;
    void *request;
    union {
        void (*send)(void *request, DtUcsStatus status, void *user_data);
        void (*recv_am)(void *request, DtUcsStatus status, size_t length, void *user_data);
    } cb;
    uint64_t datatype;
    void *user_data, *reply_buffer;
    int memory_type;
    void *recv_info, *memh;
} DtUcpRequest;

typedef struct DtUcpAmParam { /* ucp_am_recv_param_t */
    uint64_t attr;
    DtUcpEp *reply;
} DtUcpAmParam;

typedef struct DtUcpAmHandler { /* ucp_am_handler_param_t */
    uint64_t mask;
    unsigned id;
    uint32_t flags;
    DtUcsStatus (*cb)(void *arg, const void *header, size_t header_bytes, void *data,
                      size_t bytes, const DtUcpAmParam *param);
    void *arg;
} DtUcpAmHandler;

enum { /* UCP's enumerations */
    DT_UCP_API_MAJOR = 1,
    DT_UCP_API_MINOR = 11, /* the oldest that has all of this */
    DT_UCP_PARAM_FEATURES = 1 << 0,
    DT_UCP_PARAM_SHARED = 1 << 5, /* UCP_PARAM_FIELD_MT_WORKERS_SHARED */
    DT_UCP_FEATURE_WAKEUP = 1 << 4,
    DT_UCP_FEATURE_AM = 1 << 6,
    DT_UCP_WORKER_THREAD_MODE = 1 << 0,
    DT_UCP_SERIALIZED = 1, /* UCS_THREAD_MODE_SERIALIZED */
    DT_UCP_EP_ADDRESS = 1 << 0,
    DT_UCP_EP_ERR_MODE = 1 << 1,
    DT_UCP_EP_ERR_HANDLER = 1 << 2,
    DT_UCP_ERR_PEER = 1,
    DT_UCP_OP_CALLBACK = 1 << 1,
    DT_UCP_OP_USER_DATA = 1 << 2,
    DT_UCP_OP_FLAGS = 1 << 4,
    DT_UCP_CLOSE_FORCE = 1 << 0,
    DT_UCP_AM_ID = 1 << 0,
    DT_UCP_AM_FLAGS = 1 << 1,
    DT_UCP_AM_CB = 1 << 2,
    DT_UCP_AM_ARG = 1 << 3,
    DT_UCP_AM_WHOLE = 1 << 0,
    DT_UCP_AM_SEND_RNDV = 1 << 2, /* UCP_AM_SEND_FLAG_RNDV */
    DT_UCP_AM_RNDV = 1 << 17, /* UCP_AM_RECV_ATTR_FLAG_RNDV */
    DT_UCS_IN_PROGRESS = 1,
    DT_UCS_BUSY = -15,
    DT_UCS_LAST = -100
};

/* F(result, name in C, name in the library, arguments) */
#define DT_UCX(F)                                                                                 \
    F(void, get_version, "ucp_get_version", (unsigned *major, unsigned *minor, unsigned *release)) \
    F(DtUcsStatus, init, "ucp_init_version",                                                      \
      (unsigned major, unsigned minor, const DtUcpParams *params, const void *config,             \
       DtUcpContext **ret_context))                                                               \
    F(void, cleanup, "ucp_cleanup", (DtUcpContext * context))                                     \
    F(DtUcsStatus, worker_create, "ucp_worker_create",                                            \
      (DtUcpContext * context, const DtUcpWorkerParams *params, DtUcpWorker **ret_worker))        \
    F(void, worker_destroy, "ucp_worker_destroy", (DtUcpWorker * worker))                         \
    F(DtUcsStatus, worker_get_address, "ucp_worker_get_address",                                  \
      (DtUcpWorker * worker, DtUcpAddress **ret_address, size_t *ret_bytes))                      \
    F(DtUcsStatus, worker_get_efd, "ucp_worker_get_efd", (DtUcpWorker * worker, int *ret_fd))     \
    F(DtUcsStatus, worker_arm, "ucp_worker_arm", (DtUcpWorker * worker))                          \
    F(unsigned, worker_progress, "ucp_worker_progress", (DtUcpWorker * worker))                   \
    F(DtUcsStatus, set_handler, "ucp_worker_set_am_recv_handler",                                 \
      (DtUcpWorker * worker, const DtUcpAmHandler *handler))                                      \
    F(DtUcsStatus, ep_create, "ucp_ep_create",                                                    \
      (DtUcpWorker * worker, const DtUcpEpParams *params, DtUcpEp **ret_ep))                      \
    F(void *, ep_close, "ucp_ep_close_nbx", (DtUcpEp * ep, const DtUcpRequest *param))            \
    F(void *, am_send, "ucp_am_send_nbx",                                                         \
      (DtUcpEp * ep, unsigned id, const void *header, size_t header_bytes, const void *data,      \
       size_t bytes, const DtUcpRequest *param))                                                  \
    F(void *, am_recv, "ucp_am_recv_data_nbx",                                                    \
      (DtUcpWorker * worker, void *descriptor, void *to, size_t bytes,                            \
       const DtUcpRequest *param))                                                                \
    F(void, am_release, "ucp_am_data_release", (DtUcpWorker * worker, void *data))                \
    F(DtUcsStatus, request_status, "ucp_request_check_status", (void *request))                   \
    F(void, request_free, "ucp_request_free", (void *request))                                    \
    F(const char *, status_string, "ucs_status_string", (DtUcsStatus status))

typedef struct DtUcx {
#define DT_UCX_MEMBER(RESULT, NAME, SYMBOL, ARGUMENTS) RESULT(*NAME) ARGUMENTS;
    DT_UCX(DT_UCX_MEMBER)
#undef DT_UCX_MEMBER
} DtUcx;

/* Loads the library: libucp.so.0, or the file that DT_UCX_LIBRARY names. Errors: there is none, or
 * it is too old; the message names the package. */
DtStatus dt_ucx_open(DtUcx *ret_ucx);

/* Of a result of am_send, am_recv or ep_close, which is NULL, a request, or an error: the error, 0
 * if it is none. */
static inline DtUcsStatus dt_ucx_error(const void *result)
{
    const intptr_t value = (intptr_t)result;
    return value < 0 && value >= DT_UCS_LAST ? (DtUcsStatus)value : 0;
}

#endif
