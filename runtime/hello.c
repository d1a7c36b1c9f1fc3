/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hello.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const uint64_t magic = 0x344f4c4c45485444u; /* "DTHELLO4" */

/* Names of facts as they follow "node 1 on host h has", and how to make them equal. */
static const struct {
    const char *name, *fix;
} rows[DT_FACTS] = {
    [DT_FACT_PLAN] = {"another plan", "all nodes need the same file"},
    [DT_FACT_NODES] = {"another number of nodes", "all nodes need the same options, but for "
                                                  "--node"},
    [DT_FACT_OPTIONS] = {"other options", "all nodes need the same ones, but for --node"},
    [DT_FACT_VERSION] = {"another version of dtrun", "all nodes need the same"},
    [DT_FACT_BUILD] = {"another build of dtrun", "all nodes need the same program"},
    [DT_FACT_PROCESSOR] = {"another instruction set", "kernels compute the same bits on all "
                                                      "nodes only for one: compile the plan with "
                                                      "--target of the smallest"},
    [DT_FACT_DATA] = {"other data", "all nodes need the same files"},
};

/* ---- digests ---- */

/* What one side signs: which message it is, the other side's number, and the message. */
typedef struct Signed {
    uint64_t what;
    uint8_t nonce[DT_NONCE_BYTES];
    uint8_t message[sizeof(DtHello) > sizeof(DtWelcome) ? sizeof(DtHello) : sizeof(DtWelcome)];
} Signed;

enum { HELLO = 1, WELCOME = 2 };

static void sign_hello(const uint8_t *key, const DtChallenge *challenge, const DtHello *hello,
                       uint8_t ret_mac[DT_DIGEST_BYTES])
{
    Signed all = {.what = HELLO};
    memcpy(all.nonce, challenge->nonce, sizeof all.nonce);
    memcpy(all.message, hello, offsetof(DtHello, mac));
    dt_digest_keyed(key, &all, sizeof all, ret_mac);
}

/* The welcome's digest covers the hello's, and so both numbers. */
static void sign_welcome(const uint8_t *key, const DtHello *hello, const DtWelcome *welcome,
                         uint8_t ret_mac[DT_DIGEST_BYTES])
{
    Signed all = {.what = WELCOME};
    memcpy(all.nonce, hello->mac, sizeof all.nonce);
    memcpy(all.message, welcome, offsetof(DtWelcome, mac));
    dt_digest_keyed(key, &all, sizeof all, ret_mac);
}

static DtStatus draw(uint8_t *ret_bytes, size_t n)
{
    return getrandom(ret_bytes, n, 0) == (ssize_t)n
               ? DT_OK
               : dt_status_fail(DT_EXIT_RETRY, "no random number to greet other nodes: %s",
                                strerror(errno));
}

/* ---- messages ---- */

DtStatus dt_hello_challenge(DtChallenge *ret_challenge)
{
    ret_challenge->magic = magic;
    return draw(ret_challenge->nonce, sizeof ret_challenge->nonce);
}

DtStatus dt_hello_answer(const uint8_t key[DT_DIGEST_BYTES], const DtChallenge *challenge,
                         DtHello *hello)
{
    if (challenge->magic != magic)
        return dt_status_fail(DT_EXIT_USAGE, "it is no dtrun of this version");
    hello->magic = magic;
    const DtStatus status = draw(hello->nonce, sizeof hello->nonce);
    sign_hello(key, challenge, hello, hello->mac);
    return status;
}

bool dt_hello_is_known(const uint8_t key[DT_DIGEST_BYTES], const DtChallenge *challenge,
                       DtHello *hello)
{
    uint8_t mac[DT_DIGEST_BYTES];
    sign_hello(key, challenge, hello, mac);
    if (hello->magic != magic || !dt_digest_is_equal(mac, hello->mac))
        return false;
    hello->facts.host[DT_HOST_BYTES - 1] = '\0';
    for (int i = 0; i < DT_FACTS; i++)
        hello->facts.value[i][DT_FACT_BYTES - 1] = '\0';
    return true;
}

DtWelcome dt_hello_welcome(const uint8_t key[DT_DIGEST_BYTES], const DtHello *hello, uint32_t node,
                           const char *why)
{
    DtWelcome welcome = {.magic = magic, .is_refused = why != NULL, .node = node};
    if (why)
        snprintf(welcome.text, sizeof welcome.text, "%s", why);
    sign_welcome(key, hello, &welcome, welcome.mac);
    return welcome;
}

bool dt_hello_is_welcome(const uint8_t key[DT_DIGEST_BYTES], const DtHello *hello,
                         DtWelcome *welcome)
{
    uint8_t mac[DT_DIGEST_BYTES];
    sign_welcome(key, hello, welcome, mac);
    if (welcome->magic != magic || !dt_digest_is_equal(mac, welcome->mac))
        return false;
    welcome->text[sizeof welcome->text - 1] = '\0';
    return true;
}

bool dt_hello_differs(const DtFacts *first, const DtFacts *facts, uint32_t node,
                      char ret_text[DT_WHY_BYTES])
{
    for (int i = 0; i < DT_FACTS; i++) {
        const char *a = first->value[i], *b = facts->value[i];
        if (!*a || !*b || strcmp(a, b) == 0)
            continue;
        snprintf(ret_text, DT_WHY_BYTES,
                 "node %u on %s has %s than node 0 on %s (%s, there %s): %s", node, facts->host,
                 rows[i].name, first->host, b, a, rows[i].fix);
        return true;
    }
    return false;
}
