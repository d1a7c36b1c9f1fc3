/* SPDX-License-Identifier: Apache-2.0 */
/* The side of a hello (hello.h) that connects. It never waits: dt_greeting_step does what can be
 * done now. */
#ifndef DT_RUNTIME_GREETING_H
#define DT_RUNTIME_GREETING_H

#include "runtime/hello.h"

typedef enum DtGreetingState {
    DT_GREETING_CONNECTS, /* the first three: not done yet */
    DT_GREETING_WANTS_CHALLENGE,
    DT_GREETING_WANTS_WELCOME,
    DT_GREETING_MET,
    DT_GREETING_REFUSED,  /* by a program of this run; the text says why */
    DT_GREETING_STRANGER, /* the other side has another key, or is no dtrun */
    DT_GREETING_GONE      /* the connection ended, or nobody answers: try again later */
} DtGreetingState;

typedef struct DtGreeting {
    DtGreetingState state;
    int fd;             /* the caller's */
    uint64_t until_ns;
    size_t got;
    const uint8_t *key; /* stays the caller's */
    DtHello hello;
    DtChallenge challenge;
    DtWelcome welcome;
    char text[512];     /* after REFUSED, STRANGER and GONE */
    int error;          /* after GONE: errno of the connection, or 0 */
} DtGreeting;

/* fd: connected, or about to be. hello: role, node, port and facts. */
void dt_greeting_begin(DtGreeting *g, int fd, const uint8_t key[DT_DIGEST_BYTES],
                       const DtHello *hello, uint64_t now_ns);
DtGreetingState dt_greeting_step(DtGreeting *g, uint64_t now_ns);
/* Whether the state is one of the last four. */
static inline bool dt_greeting_is_done(const DtGreeting *g) { return g->state >= DT_GREETING_MET; }
/* What poll should wait for. */
short dt_greeting_events(const DtGreeting *g);

#endif
