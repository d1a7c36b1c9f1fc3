/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that others have opened to this node and that have not proved yet who they are
 * (hello.h). All are polled together, and each has a deadline of its own, so silent ones delay
 * nobody. If there are too many, this node closes
 * the oldest. */
#ifndef DT_RUNTIME_NEWCOMERS_H
#define DT_RUNTIME_NEWCOMERS_H

#include "runtime/hello.h"

enum { DT_NEWCOMERS_MOST = 4096 };

typedef struct DtNewcomers DtNewcomers;

/* One that knows the key. It waits for the welcome. */
typedef struct DtNewcomer {
    int fd;
    DtHello hello;
    char from[DT_HOST_BYTES]; /* its address, without the port */
} DtNewcomer;

/* Takes over the listening socket. NULL: no memory or descriptors. */
DtNewcomers *dt_newcomers_new(const uint8_t key[DT_DIGEST_BYTES], int listener);
void dt_newcomers_free(DtNewcomers *n);
/* A descriptor that can be read when dt_newcomers_look has something to do. Deadlines do not count:
 * look once a second, too. */
int dt_newcomers_fd(const DtNewcomers *n);
/* Handles what has come, without waiting. */
void dt_newcomers_look(DtNewcomers *n, uint64_t now_ns);
/* Hands out the next one that knows the key, whose descriptor is the caller's then. False: there is
 * none. */
bool dt_newcomers_take(DtNewcomers *n, DtNewcomer *ret_newcomer);
/* Gives it back: the next dt_newcomers_look hands it out again. */
void dt_newcomers_hold(DtNewcomers *n, const DtNewcomer *newcomer);
/* The address of one that sent a whole hello with another key, each once; NULL: there is none. */
const char *dt_newcomers_stranger(DtNewcomers *n);
/* Sends the welcome, or why it is refused; after the latter, or false, the descriptor is closed. */
bool dt_newcomers_answer(const DtNewcomers *n, const DtNewcomer *newcomer, uint32_t node,
                         const char *why);

#endif
