/* SPDX-License-Identifier: Apache-2.0 */
/* Who knows the key of a run is let in, and nobody else: messages drawn at random, hellos with any
 * bit changed, repeated, or of another key; silent connections, which must not delay anybody; and
 * the file of the key. */
#include "runtime/greeting.h"
#include "runtime/key.h"
#include "runtime/newcomers.h"
#include "runtime/runtime.h"
#include "runtime/socket.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t key[DT_DIGEST_BYTES] = "the key of the run, 32 bytes ..",
                     other[DT_DIGEST_BYTES] = "the key of the run, 32 bytes .,";

static void setup(void) { signal(SIGPIPE, SIG_IGN); }

TestSuite(hello, .init = setup, .timeout = 60);

static uint64_t state = 7;

static uint8_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(state >> 56);
}

static DtHello hello_of(uint32_t node)
{
    DtHello hello = {.role = DT_ROLE_AGENT, .node = node};
    strcpy(hello.facts.host, "b");
    strcpy(hello.facts.value[DT_FACT_PLAN], "12");
    return hello;
}

static DtChallenge challenge_of(void)
{
    DtChallenge challenge;
    const DtStatus status = dt_hello_challenge(&challenge);
    cr_assert(dt_status_ok(&status));
    return challenge;
}

Test(hello, who_knows_the_key_is_known)
{
    const DtChallenge challenge = challenge_of();
    DtHello hello = hello_of(3);
    const DtStatus status = dt_hello_answer(key, &challenge, &hello);
    cr_assert(dt_status_ok(&status));
    cr_expect(dt_hello_is_known(key, &challenge, &hello));
    DtWelcome welcome = dt_hello_welcome(key, &hello, 0, NULL);
    cr_expect(dt_hello_is_welcome(key, &hello, &welcome) && !welcome.is_refused);
    welcome = dt_hello_welcome(key, &hello, 0, "no");
    cr_expect(dt_hello_is_welcome(key, &hello, &welcome) && welcome.is_refused);
    cr_expect_str_eq(welcome.text, "no");
}

Test(hello, no_changed_bit_is_accepted)
{
    const DtChallenge challenge = challenge_of(), another = challenge_of();
    DtHello hello = hello_of(3), again;
    const DtStatus status = dt_hello_answer(key, &challenge, &hello);
    cr_assert(dt_status_ok(&status));
    const DtWelcome welcome = dt_hello_welcome(key, &hello, 0, "no");
    cr_expect(!dt_hello_is_known(key, &another, &hello), "a repeated hello");
    cr_expect(!dt_hello_is_known(other, &challenge, &hello), "another key");
    for (size_t bit = 0; bit < 8 * sizeof hello; bit++) {
        again = hello;
        ((uint8_t *)&again)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(!dt_hello_is_known(key, &challenge, &again), "bit %zu", bit);
    }
    for (size_t bit = 0; bit < 8 * sizeof welcome; bit++) {
        DtWelcome changed = welcome;
        ((uint8_t *)&changed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(!dt_hello_is_welcome(key, &hello, &changed), "bit %zu", bit);
    }
    for (int i = 0; i < 10000; i++) { /* several bytes, and pieces of other messages */
        again = hello;
        for (int k = draw() % 20; k >= 0; k--)
            ((uint8_t *)&again)[(draw() * 256 + draw()) % sizeof again] = draw();
        if (i % 3 == 0)
            memcpy(again.mac, welcome.mac, sizeof again.mac);
        cr_assert(memcmp(&again, &hello, sizeof hello) == 0 ||
                  !dt_hello_is_known(key, &challenge, &again));
    }
}

Test(hello, no_random_message_is_accepted)
{
    const DtChallenge challenge = challenge_of();
    const uint64_t magic = challenge.magic;
    DtHello hello;
    for (int i = 0; i < 100000; i++) {
        for (size_t k = 0; k < sizeof hello; k++)
            ((uint8_t *)&hello)[k] = draw();
        hello.magic = i % 2 ? magic : hello.magic;
        cr_assert(!dt_hello_is_known(key, &challenge, &hello));
    }
}

Test(hello, a_difference_names_both_hosts_and_values)
{
    DtFacts first = {.host = "a"}, second = {.host = "b"};
    char text[DT_WHY_BYTES];
    strcpy(first.value[DT_FACT_PLAN], "12");
    strcpy(first.value[DT_FACT_VERSION], "1.0");
    strcpy(second.value[DT_FACT_VERSION], "1.0");
    cr_expect(!dt_hello_differs(&first, &second, 4, text), "a plan that could not be read");
    strcpy(second.value[DT_FACT_PLAN], "13");
    cr_assert(dt_hello_differs(&first, &second, 4, text));
    cr_expect_str_eq(text, "node 4 on b has another plan than node 0 on a (13, there 12): all "
                           "nodes need the same file");
}

/* ---- connections ---- */

typedef struct Place {
    DtNewcomers *newcomers;
    DtMeet meet;
} Place;

static Place listen_here(void)
{
    int fd;
    Place place = {.meet = {.host = "127.0.0.1"}};
    const DtStatus status = dt_socket_listen(0, &fd, &place.meet.port);
    cr_assert(dt_status_ok(&status));
    place.newcomers = dt_newcomers_new(key, fd);
    cr_assert(place.newcomers);
    return place;
}

static int connect_to(const Place *place)
{
    int fd;
    const DtSocketWait wait = {.until_ns = dt_now_ns() + 5000000000u};
    cr_assert_eq(dt_socket_connect(&place->meet, &wait, &fd), DT_SOCKET_OK);
    return fd;
}

/* Greets from this process, too. Returns the state, and the newcomer if there is one. */
static DtGreetingState greet(Place *place, const uint8_t *with, const char *why, DtNewcomer *one)
{
    DtGreeting g;
    const DtHello hello = hello_of(2);
    const uint64_t until_ns = dt_now_ns() + 10000000000u;
    dt_greeting_begin(&g, connect_to(place), with, &hello, dt_now_ns());
    one->fd = -1;
    while (!dt_greeting_is_done(&g) && dt_now_ns() < until_ns) {
        struct pollfd look[] = {{.fd = g.fd, .events = dt_greeting_events(&g)},
                                {.fd = dt_newcomers_fd(place->newcomers), .events = POLLIN}};
        poll(look, 2, 100);
        dt_newcomers_look(place->newcomers, dt_now_ns());
        if (dt_newcomers_take(place->newcomers, one))
            cr_assert(dt_newcomers_answer(place->newcomers, one, 0, why));
        dt_greeting_step(&g, dt_now_ns());
    }
    close(g.fd);
    if (g.state == DT_GREETING_REFUSED)
        cr_expect_str_eq(g.text, why);
    return g.state;
}

Test(hello, over_connections)
{
    Place place = listen_here();
    DtNewcomer one;
    cr_expect_eq(greet(&place, key, NULL, &one), DT_GREETING_MET);
    cr_expect(one.fd >= 0 && one.hello.node == 2 && strcmp(one.from, "127.0.0.1") == 0);
    close(one.fd);
    cr_expect_eq(greet(&place, key, "not now", &one), DT_GREETING_REFUSED);
    cr_expect_eq(greet(&place, other, NULL, &one), DT_GREETING_STRANGER);
    cr_expect_eq(one.fd, -1);
    cr_expect_str_eq(dt_newcomers_stranger(place.newcomers), "127.0.0.1");
    cr_expect_null(dt_newcomers_stranger(place.newcomers), "each address once");
    dt_newcomers_free(place.newcomers);
}

/* A process that ends with the hello unread is gone, so who connects tries again; one that has read
 * the hello and closes is one with another key. */
Test(hello, a_reset_is_no_other_key)
{
    static const DtGreetingState wanted[] = {DT_GREETING_GONE, DT_GREETING_STRANGER};
    for (size_t reads = 0; reads < 2; reads++) {
        int ends[2];
        DtGreeting g;
        const DtHello mine = hello_of(2);
        const DtChallenge challenge = challenge_of();
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        dt_greeting_begin(&g, ends[0], key, &mine, dt_now_ns());
        cr_assert_eq(write(ends[1], &challenge, sizeof challenge), (ssize_t)sizeof challenge);
        cr_assert_eq(dt_greeting_step(&g, dt_now_ns()), DT_GREETING_WANTS_WELCOME);
        DtHello hello;
        if (reads)
            cr_assert_eq(recv(ends[1], &hello, sizeof hello, MSG_WAITALL), (ssize_t)sizeof hello);
        close(ends[1]);
        cr_expect_eq(dt_greeting_step(&g, dt_now_ns()), wanted[reads], "%s", g.text);
        close(ends[0]);
    }
}

/* 200 connections that say nothing, or half of a hello, and more that end at once. */
Test(hello, silent_strangers_delay_nobody)
{
    Place place = listen_here();
    DtNewcomer one;
    int fds[200];
    uint8_t bytes[sizeof(DtHello)];
    for (int i = 0; i < 200; i++) {
        fds[i] = connect_to(&place);
        memset(bytes, draw(), sizeof bytes);
        if (i % 2)
            cr_assert(send(fds[i], bytes, sizeof bytes / 2, MSG_NOSIGNAL) > 0);
        if (i % 4 == 0)
            dt_newcomers_look(place.newcomers, dt_now_ns());
    }
    const uint64_t began = dt_now_ns();
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(greet(&place, key, NULL, &one), DT_GREETING_MET);
        close(one.fd);
    }
    cr_expect_lt(dt_now_ns() - began, 1000000000u);
    char byte;
    dt_newcomers_look(place.newcomers, dt_now_ns() + 6000000000u); /* past their deadline */
    for (int i = 0; i < 200; i++) {
        while (recv(fds[i], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
        cr_expect(recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET, "%d stays", i);
        close(fds[i]);
    }
    dt_newcomers_free(place.newcomers);
}

/* A stranger gets the challenge, and not one byte more, whatever it sends. */
Test(hello, nothing_is_said_to_strangers)
{
    Place place = listen_here();
    DtNewcomer one;
    for (int i = 0; i < 2000; i++) {
        uint8_t bytes[2 * sizeof(DtHello)];
        DtHello hello = hello_of(1);
        DtChallenge challenge;
        const int fd = connect_to(&place);
        dt_newcomers_look(place.newcomers, dt_now_ns());
        cr_assert_eq(recv(fd, &challenge, sizeof challenge, MSG_WAITALL),
                     (ssize_t)sizeof challenge);
        const DtStatus status = dt_hello_answer(other, &challenge, &hello);
        cr_assert(dt_status_ok(&status));
        memcpy(bytes, &hello, sizeof hello);
        memcpy(bytes + sizeof hello, &hello, sizeof hello);
        for (int k = draw() % 4; k > 0; k--)
            bytes[(draw() * 256 + draw()) % sizeof bytes] = draw();
        const size_t n = i % 3 == 0 ? draw() : i % 3 == 1 ? sizeof hello : sizeof bytes;
        if (send(fd, bytes, n, MSG_NOSIGNAL) < 0)
            cr_assert(n == 0);
        if (i % 5 == 0)
            shutdown(fd, SHUT_WR);
        dt_newcomers_look(place.newcomers, dt_now_ns());
        cr_assert(!dt_newcomers_take(place.newcomers, &one));
        cr_assert(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0, "%d", i);
        close(fd);
    }
    dt_newcomers_free(place.newcomers);
}

/* ---- the key ---- */

static void write_text(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    cr_assert(fchmod(fd, mode) == 0);
    close(fd);
}

static int code_of_key(uint8_t ret_key[DT_DIGEST_BYTES])
{
    const DtStatus status = dt_key_find(ret_key);
    return status.code;
}

Test(hello, keys)
{
    uint8_t a[DT_DIGEST_BYTES], b[DT_DIGEST_BYTES];
    char folder[] = "/tmp/dt_key_XXXXXX", path[64];
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/dtrun/key", folder);
    setenv("XDG_CONFIG_HOME", folder, 1);
    unsetenv("DTRUN_KEY");
    cr_expect_eq(code_of_key(a), DT_EXIT_OK, "the first run writes a key");
    struct stat stat_;
    cr_expect(stat(path, &stat_) == 0 && (stat_.st_mode & 0777) == 0600);
    cr_expect_eq(code_of_key(b), DT_EXIT_OK);
    cr_expect(memcmp(a, b, sizeof a) == 0, "the next one reads it");
    write_text(path, "0123456789abcdef\n", 0640);
    cr_expect_eq(code_of_key(b), DT_EXIT_USAGE, "others may read it");
    write_text(path, "0123456789abcdef\n", 0600);
    cr_expect_eq(code_of_key(b), DT_EXIT_OK);
    setenv("DTRUN_KEY", "0123456789abcdef", 1);
    cr_expect_eq(code_of_key(a), DT_EXIT_OK);
    cr_expect(memcmp(a, b, sizeof a) == 0, "the same text is the same key");
    dt_key_hide();
    cr_expect_null(getenv("DTRUN_KEY"), "no child has it");
    cr_expect_eq(code_of_key(b), DT_EXIT_OK);
    cr_expect(memcmp(a, b, sizeof a) == 0 && strcmp(dt_key_given(), "0123456789abcdef") == 0);
    setenv("DTRUN_KEY", "0123456789abcde", 1);
    dt_key_hide();
    cr_expect_eq(code_of_key(a), DT_EXIT_USAGE, "too short");
    dt_key_derive(b, "heads", 1, a);
    dt_key_derive(b, "heads", 2, b);
    cr_expect(memcmp(a, b, sizeof a) != 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/dtrun", folder);
    rmdir(path);
    rmdir(folder);
}
