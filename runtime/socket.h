/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the machines of a run, over TCP. Nothing but the look-up of a name blocks for
 * longer than a tenth of a second without asking whether it should still wait. A machine that
 * vanishes is noticed within a minute. */
#ifndef DT_RUNTIME_SOCKET_H
#define DT_RUNTIME_SOCKET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The address at which machines meet: "host:port", "10.0.0.1:29500", "[fe80::1]:29500". */
typedef struct DtMeet {
    char host[256];
    uint16_t port;
} DtMeet;
DtStatus dt_socket_parse(const char *text, DtMeet *ret_meet);

/* The limits of a wait: a time, and a condition. */
typedef struct DtSocketWait {
    bool (*is_over)(void *context); /* called regularly while one waits; NULL: no condition */
    void *context;
    uint64_t until_ns; /* of dt_now_ns(); 0: for ever */
} DtSocketWait;

typedef enum DtSocketResult {
    DT_SOCKET_OK,
    DT_SOCKET_CLOSED, /* closed by the other side, or broken by the network: errno, or 0 after an
                       * orderly end */
    DT_SOCKET_OVER,   /* is_over returned true */
    DT_SOCKET_LATE
} DtSocketResult;

/* Listens on all addresses of this machine. port 0: any free port; *ret_port is the one that was
 * used. */
DtStatus dt_socket_listen(uint16_t port, int *ret_fd, uint16_t *ret_port);
/* The address of this machine from which it reaches the place, as one of IPv6. */
DtStatus dt_socket_here(const DtMeet *meet, unsigned char ret_address[16]);
/* Sets the host to such an address. */
void dt_socket_text(const unsigned char address[16], DtMeet *ret_meet);
/* Accepts the next connection; -1: nobody has connected yet. */
int dt_socket_accept(int listener);
/* The address of the other side, without its port; "" if that is not known. */
void dt_socket_name(int fd, char *ret_name, size_t size);
/* Tries to connect again and again until somebody listens there. */
DtSocketResult dt_socket_connect(const DtMeet *meet, const DtSocketWait *wait, int *ret_fd);

/* Begins to connect, without waiting but for the look-up of the name; calls with tries 0, 1, .. use
 * all addresses of the host in turn. False: dt_socket_why. */
bool dt_socket_begin(const DtMeet *meet, uint32_t tries, int *ret_fd);

/* Sends or receives all of the bytes. */
DtSocketResult dt_socket_send(int fd, const void *bytes, size_t n, const DtSocketWait *wait);
DtSocketResult dt_socket_recv(int fd, void *bytes, size_t n, const DtSocketWait *wait);
/* Without waiting: whether something can be received or the other side has gone; and whether it has
 * gone. */
bool dt_socket_has(int fd);
bool dt_socket_has_gone(int fd);
/* Why the last attempt to connect failed. */
const char *dt_socket_why(void);
/* Raises the soft limit of open files towards the hard limit, so that the process can have n
 * sockets. */
void dt_socket_make_room(uint32_t n);

#endif
