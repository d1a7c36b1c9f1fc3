/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/newcomers.h"

#include "runtime/runtime.h"
#include "runtime/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t patience_ns = 5000000000u;
enum { AT_ONCE = 256, MOST_STRANGERS = 5 };

/* One of a list in the order of arrival. */
typedef struct Pending {
    struct Pending *next, *previous;
    int fd;
    uint64_t until_ns;
    DtChallenge challenge;
    size_t got; /* bytes of the hello */
    DtHello hello;
    char from[DT_HOST_BYTES];
} Pending;

struct DtNewcomers {
    uint8_t key[DT_DIGEST_BYTES];
    int listener, epoll;
    Pending waiting, ready, held; /* heads of circular lists */
    uint32_t n_waiting;
    char strangers[MOST_STRANGERS][DT_HOST_BYTES];
    uint32_t n_strangers, n_named;
};

/* ---- lists ---- */

static void append(Pending *list, Pending *one)
{
    one->previous = list->previous;
    one->next = list;
    list->previous->next = one;
    list->previous = one;
}

static void remove_from_list(Pending *one)
{
    one->previous->next = one->next;
    one->next->previous = one->previous;
}

static void drop(DtNewcomers *n, Pending *one)
{
    remove_from_list(one);
    n->n_waiting--;
    close(one->fd);
    free(one);
}

/* ---- begin and end ---- */

DtNewcomers *dt_newcomers_new(const uint8_t key[DT_DIGEST_BYTES], int listener)
{
    DtNewcomers *n = calloc(1, sizeof *n);
    struct epoll_event event = {.events = EPOLLIN};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!n || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) {
        if (epoll >= 0)
            close(epoll);
        close(listener);
        free(n);
        return NULL;
    }
    memcpy(n->key, key, sizeof n->key);
    n->listener = listener;
    n->epoll = epoll;
    n->waiting.next = n->waiting.previous = &n->waiting;
    n->ready.next = n->ready.previous = &n->ready;
    n->held.next = n->held.previous = &n->held;
    return n;
}

/* Those that were held are ready again. */
static void release(DtNewcomers *n)
{
    while (n->held.next != &n->held) {
        Pending *one = n->held.next;
        remove_from_list(one);
        append(&n->ready, one);
    }
}

void dt_newcomers_free(DtNewcomers *n)
{
    if (!n)
        return;
    while (n->waiting.next != &n->waiting)
        drop(n, n->waiting.next);
    release(n);
    while (n->ready.next != &n->ready) {
        n->n_waiting++;
        drop(n, n->ready.next);
    }
    close(n->epoll);
    close(n->listener);
    free(n);
}

int dt_newcomers_fd(const DtNewcomers *n) { return n->epoll; }

/* ---- what comes ---- */

/* Accepts one connection and sends it the challenge. False: nobody has connected. */
static bool accept_one(DtNewcomers *n, uint64_t now_ns)
{
    int fd = dt_socket_accept(n->listener);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && n->waiting.next != &n->waiting) {
        drop(n, n->waiting.next);
        fd = dt_socket_accept(n->listener);
    }
    if (fd < 0)
        return false;
    Pending *one = calloc(1, sizeof *one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    const DtStatus status = one ? dt_hello_challenge(&one->challenge) : DT_OK;
    if (!one || !dt_status_ok(&status) ||
        send(fd, &one->challenge, sizeof one->challenge, MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof one->challenge ||
        epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(one);
        close(fd);
        return true;
    }
    one->fd = fd;
    one->until_ns = now_ns + patience_ns;
    dt_socket_name(fd, one->from, sizeof one->from);
    append(&n->waiting, one);
    if (++n->n_waiting > DT_NEWCOMERS_MOST)
        drop(n, n->waiting.next);
    return true;
}

static void note_stranger(DtNewcomers *n, const char *from)
{
    for (uint32_t i = 0; i < n->n_strangers; i++)
        if (strcmp(n->strangers[i], from) == 0)
            return;
    if (n->n_strangers < MOST_STRANGERS)
        memcpy(n->strangers[n->n_strangers++], from, DT_HOST_BYTES);
}

/* Reads what one has sent of its hello. */
static void read_one(DtNewcomers *n, Pending *one)
{
    char *at = (char *)&one->hello;
    const ssize_t got =
        recv(one->fd, at + one->got, sizeof one->hello - one->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        drop(n, one);
        return;
    }
    one->got += (size_t)got;
    if (one->got < sizeof one->hello)
        return;
    if (!dt_hello_is_known(n->key, &one->challenge, &one->hello)) {
        note_stranger(n, one->from);
        drop(n, one);
        return;
    }
    epoll_ctl(n->epoll, EPOLL_CTL_DEL, one->fd, NULL);
    remove_from_list(one);
    n->n_waiting--;
    append(&n->ready, one);
}

void dt_newcomers_look(DtNewcomers *n, uint64_t now_ns)
{
    struct epoll_event events[AT_ONCE];
    while (n->waiting.next != &n->waiting && n->waiting.next->until_ns <= now_ns)
        drop(n, n->waiting.next);
    release(n);
    const int some = epoll_wait(n->epoll, events, AT_ONCE, 0);
    bool connects = false;
    for (int i = 0; i < some; i++) {
        connects = connects || !events[i].data.ptr;
        if (events[i].data.ptr)
            read_one(n, events[i].data.ptr);
    }
    for (int i = 0; connects && i < AT_ONCE; i++) /* last: it may drop one that sent something */
        connects = accept_one(n, now_ns);
}

bool dt_newcomers_take(DtNewcomers *n, DtNewcomer *ret_newcomer)
{
    Pending *one = n->ready.next;
    if (one == &n->ready)
        return false;
    *ret_newcomer = (DtNewcomer){.fd = one->fd, .hello = one->hello};
    memcpy(ret_newcomer->from, one->from, sizeof one->from);
    remove_from_list(one);
    free(one);
    return true;
}

void dt_newcomers_hold(DtNewcomers *n, const DtNewcomer *newcomer)
{
    Pending *one = calloc(1, sizeof *one);
    if (!one) {
        close(newcomer->fd);
        return;
    }
    *one = (Pending){.fd = newcomer->fd, .hello = newcomer->hello};
    memcpy(one->from, newcomer->from, sizeof one->from);
    append(&n->held, one);
}

const char *dt_newcomers_stranger(DtNewcomers *n)
{
    return n->n_named < n->n_strangers ? n->strangers[n->n_named++] : NULL;
}

bool dt_newcomers_answer(const DtNewcomers *n, const DtNewcomer *newcomer, uint32_t node,
                         const char *why)
{
    const DtWelcome welcome = dt_hello_welcome(n->key, &newcomer->hello, node, why);
    const bool sent = send(newcomer->fd, &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) ==
                      (ssize_t)sizeof welcome;
    if (!sent || why)
        close(newcomer->fd);
    return sent;
}
