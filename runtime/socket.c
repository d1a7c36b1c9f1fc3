/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/socket.h"

#include "runtime/runtime.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, QUEUE = 4096 };

DtStatus dt_socket_parse(const char *text, DtMeet *ret_meet)
{
    const char *colon = strrchr(text, ':');
    const size_t len = colon ? (size_t)(colon - text) : 0;
    const bool is_bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
    char *end = NULL;
    const unsigned long port =
        colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (len == 0 || len >= sizeof ret_meet->host || port == 0 || port > 65535 || *end != '\0' ||
        (!is_bracketed && memchr(text, ':', len)))
        return dt_status_fail(
            DT_EXIT_USAGE,
            "`%.100s` is no place where machines can meet; one is HOST:PORT, as in "
            "node0:29500 or [fe80::1]:29500",
            text);
    memset(ret_meet, 0, sizeof *ret_meet);
    memcpy(ret_meet->host, text + is_bracketed, len - 2 * is_bracketed);
    ret_meet->port = (uint16_t)port;
    return DT_OK;
}

/* ---- begin ---- */

/* Sets the options of a connection: small messages are sent at once, and a peer that is gone is
 * noticed. */
static int prepare(int fd)
{
    const int one = 1, idle_s = 10, between_s = 5, times = 6, unsent_ms = 60000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static int listen_on(int family, uint16_t port)
{
    const int one = 1, zero = 0, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    const bool is_six = family == AF_INET6;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (is_six) /* IPv6 sockets accept IPv4 too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, is_six ? (void *)&six : (void *)&four, is_six ? sizeof six : sizeof four) == 0 &&
        listen(fd, QUEUE) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

DtStatus dt_socket_listen(uint16_t port, int *ret_fd, uint16_t *ret_port)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    int fd = listen_on(AF_INET6, port);
    if (fd < 0 && errno != EADDRINUSE)
        fd = listen_on(AF_INET, port);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "cannot listen on port %u for the other machines: %s",
                              port, strerror(errno));
    *ret_fd = fd;
    *ret_port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                               : ((struct sockaddr_in *)&at)->sin_port);
    return DT_OK;
}

int dt_socket_accept(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return fd < 0 ? -1 : prepare(fd);
}

void dt_socket_name(int fd, char *ret_name, size_t size)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char name[NI_MAXHOST] = "";
    if (getpeername(fd, (struct sockaddr *)&at, &len) != 0 ||
        getnameinfo((struct sockaddr *)&at, len, name, sizeof name, NULL, 0, NI_NUMERICHOST) != 0)
        name[0] = '\0';
    const bool is_four = strncmp(name, "::ffff:", 7) == 0; /* IPv4 over a socket of IPv6 */
    snprintf(ret_name, size, "%.60s", name + (is_four ? 7 : 0));
}

/* ---- waiting ---- */

/* Waits until the socket is ready for `events`, or for a short while. */
static DtSocketResult wait_for(int fd, short events, const DtSocketWait *wait)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    if (poll(&poll_fd, 1, LOOK_MS) > 0)
        return DT_SOCKET_OK;
    if (wait->is_over && wait->is_over(wait->context))
        return DT_SOCKET_OVER;
    errno = ETIMEDOUT;
    return wait->until_ns && dt_now_ns() > wait->until_ns ? DT_SOCKET_LATE : DT_SOCKET_OK;
}

static const char *why = "";

const char *dt_socket_why(void) { return why; }

/* Begins to connect to one address; -1: the reason is in errno. */
static int begin_address(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS)
        return fd < 0 ? -1 : prepare(fd);
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Tries once to connect to one address; -1: the reason is in errno. */
static int try_address(const struct addrinfo *at, const DtSocketWait *wait)
{
    const int fd = begin_address(at);
    int error = fd < 0 ? errno : 0;
    socklen_t len = sizeof error;
    const uint64_t patience = dt_now_ns() + 3000000000u;
    const DtSocketWait briefly = {wait->is_over, wait->context,
                                  wait->until_ns && wait->until_ns < patience ? wait->until_ns
                                                                              : patience};
    DtSocketResult result = DT_SOCKET_OK;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    while (!error && result == DT_SOCKET_OK && poll(&ready, 1, 0) == 0)
        result = wait_for(fd, POLLOUT, &briefly);
    if (!error && result != DT_SOCKET_OK)
        error = ETIMEDOUT;
    if (!error)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (!error)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

/* Looks up the addresses of a host; NULL: there are none. */
static struct addrinfo *find_addresses(const DtMeet *meet)
{
    char port[8];
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%u", meet->port);
    const int error =
        getaddrinfo(meet->host, port, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &found);
    if (error)
        why = gai_strerror(error);
    return error ? NULL : found;
}

bool dt_socket_begin(const DtMeet *meet, uint32_t tries, int *ret_fd)
{
    struct addrinfo *found = find_addresses(meet), *at = found;
    uint32_t n = 0;
    for (const struct addrinfo *each = found; each; each = each->ai_next)
        n++;
    for (uint32_t i = n ? tries % n : 0; i > 0; i--)
        at = at->ai_next;
    *ret_fd = at ? begin_address(at) : -1;
    if (at && *ret_fd < 0)
        why = strerror(errno);
    if (found)
        freeaddrinfo(found);
    return *ret_fd >= 0;
}

static int try_all(const DtMeet *meet, const DtSocketWait *wait)
{
    struct addrinfo *found = find_addresses(meet);
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = try_address(at, wait);
        why = fd < 0 ? strerror(errno) : "";
    }
    if (found)
        freeaddrinfo(found);
    return fd;
}

DtSocketResult dt_socket_connect(const DtMeet *meet, const DtSocketWait *wait, int *ret_fd)
{
    while ((*ret_fd = try_all(meet, wait)) < 0) {
        if (wait->is_over && wait->is_over(wait->context))
            return DT_SOCKET_OVER;
        if (wait->until_ns && dt_now_ns() > wait->until_ns)
            return DT_SOCKET_LATE;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
    return DT_SOCKET_OK;
}

/* Asks the system by which address it would send a datagram there; nothing is sent. */
static bool find_here(const struct addrinfo *to, unsigned char ret_address[16])
{
    struct sockaddr_storage here;
    socklen_t len = sizeof here;
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool good = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                      getsockname(fd, (struct sockaddr *)&here, &len) == 0;
    if (good && here.ss_family == AF_INET6)
        memcpy(ret_address, &((struct sockaddr_in6 *)&here)->sin6_addr, 16);
    if (good && here.ss_family == AF_INET) {
        memset(ret_address, 0, 10);
        memset(ret_address + 10, 0xff, 2); /* an address of IPv4 in one of IPv6 */
        memcpy(ret_address + 12, &((struct sockaddr_in *)&here)->sin_addr, 4);
    }
    if (fd >= 0)
        close(fd);
    return good;
}

DtStatus dt_socket_here(const DtMeet *meet, unsigned char ret_address[16])
{
    char port[8];
    struct addrinfo *found = NULL;
    bool good = false;
    snprintf(port, sizeof port, "%u", meet->port);
    const int error =
        getaddrinfo(meet->host, port, &(struct addrinfo){.ai_socktype = SOCK_DGRAM}, &found);
    for (const struct addrinfo *at = found; !error && at && !good; at = at->ai_next)
        good = find_here(at, ret_address);
    if (!error)
        freeaddrinfo(found);
    return good ? DT_OK
                : dt_status_fail(DT_EXIT_RETRY, "this machine has no address that reaches %.200s",
                                 meet->host);
}

void dt_socket_text(const unsigned char address[16], DtMeet *ret_meet)
{
    struct in6_addr six;
    memcpy(&six, address, sizeof six);
    if (IN6_IS_ADDR_V4MAPPED(&six)) /* works where the system has no IPv6, too */
        inet_ntop(AF_INET, address + 12, ret_meet->host, sizeof ret_meet->host);
    else
        inet_ntop(AF_INET6, address, ret_meet->host, sizeof ret_meet->host);
}

/* ---- bytes ---- */

/* Whether the result n of a call that moves bytes means that the connection is broken. */
static bool is_broken(ssize_t n)
{
    return n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

DtSocketResult dt_socket_send(int fd, const void *bytes, size_t n, const DtSocketWait *wait)
{
    const char *at = bytes;
    while (n > 0) {
        const ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (is_broken(sent))
            return DT_SOCKET_CLOSED;
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
            continue;
        }
        const DtSocketResult result = wait_for(fd, POLLOUT, wait);
        if (result != DT_SOCKET_OK)
            return result;
    }
    return DT_SOCKET_OK;
}

DtSocketResult dt_socket_recv(int fd, void *bytes, size_t n, const DtSocketWait *wait)
{
    char *at = bytes;
    while (n > 0) {
        const ssize_t got = recv(fd, at, n, 0);
        if (got == 0)
            errno = 0;
        if (got == 0 || is_broken(got))
            return DT_SOCKET_CLOSED;
        if (got > 0) {
            at += got;
            n -= (size_t)got;
            continue;
        }
        const DtSocketResult result = wait_for(fd, POLLIN, wait);
        if (result != DT_SOCKET_OK)
            return result;
    }
    return DT_SOCKET_OK;
}

bool dt_socket_has(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

bool dt_socket_has_gone(int fd)
{
    char byte;
    return dt_socket_has(fd) && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

void dt_socket_make_room(uint32_t n)
{
    struct rlimit limit;
    if (n > 256 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
