/* SPDX-License-Identifier: Apache-2.0 */
/* How two programs of a run find out over a connection that both know the key of the run (key.h),
 * and that they run the same. The key is never sent. Three messages of fixed sizes:
 *
 *     who listens  -> who connects   DtChallenge: a random number
 *     who connects -> who listens    DtHello: its own random number, which node it is, its facts,
 *                                    and a keyed digest of this and both numbers
 *     who listens  -> who connects   DtWelcome: welcome or why not, and a keyed digest of it and
 *                                    both numbers
 *
 * Nobody without the key learns more than a random number: who listens closes the connection after
 * a hello whose digest is wrong. An old message is worth nothing, since each side's number is in
 * the other's digest. What follows on the connection is neither encrypted nor signed: the key keeps
 * out strangers that connect, not those who can change packets on the way.
 *
 * These functions neither wait nor send; newcomers.h and greeting.h do. Hosts have the byte order
 * of x86. */
#ifndef DT_RUNTIME_HELLO_H
#define DT_RUNTIME_HELLO_H

#include "base/digest.h"
#include "base/status.h"

/* What all nodes must have in common (hello.c has names and fixes). */
typedef enum DtFact {
    DT_FACT_PLAN,
    DT_FACT_NODES,
    DT_FACT_OPTIONS,
    DT_FACT_VERSION,
    DT_FACT_BUILD,
    DT_FACT_PROCESSOR,
    DT_FACT_DATA,
    DT_FACTS
} DtFact;

enum { DT_FACT_BYTES = 48, DT_HOST_BYTES = 64, DT_NONCE_BYTES = 32, DT_WHY_BYTES = 480 };

/* Values as text; "": not known, which agrees with everything. */
typedef struct DtFacts {
    char host[DT_HOST_BYTES];
    char value[DT_FACTS][DT_FACT_BYTES];
} DtFacts;

/* Who connects: an agent of a node; one that cannot start, and says why in the message after the
 * welcome; the first rank of a node; any rank, whose number is in the place of the node's. */
typedef enum DtRole { DT_ROLE_AGENT = 1, DT_ROLE_REFUSES, DT_ROLE_HEAD, DT_ROLE_RANK } DtRole;

typedef struct DtChallenge {
    uint64_t magic;
    uint8_t nonce[DT_NONCE_BYTES];
} DtChallenge;

typedef struct DtHello {
    uint64_t magic;
    uint32_t role, node;
    uint32_t port; /* where it listens for others; 0: it does not */
    uint32_t form; /* to a parent: the formation of which both are (message.h) */
    DtFacts facts;
    uint8_t nonce[DT_NONCE_BYTES], mac[DT_DIGEST_BYTES];
} DtHello;

typedef struct DtWelcome {
    uint64_t magic;
    uint32_t is_refused, node; /* node: of the one that answers */
    char text[DT_WHY_BYTES];   /* why it is refused */
    uint8_t mac[DT_DIGEST_BYTES];
} DtWelcome;

/* Fails if the system has no random numbers. */
DtStatus dt_hello_challenge(DtChallenge *ret_challenge);
/* Completes a hello whose role, node, port and facts are filled in. */
DtStatus dt_hello_answer(const uint8_t key[DT_DIGEST_BYTES], const DtChallenge *challenge,
                         DtHello *hello);
/* Whether who sent the hello knows the key. Texts in it end with 0 then. */
bool dt_hello_is_known(const uint8_t key[DT_DIGEST_BYTES], const DtChallenge *challenge,
                       DtHello *hello);
/* why: NULL, or why it is refused. */
DtWelcome dt_hello_welcome(const uint8_t key[DT_DIGEST_BYTES], const DtHello *hello, uint32_t node,
                           const char *why);
bool dt_hello_is_welcome(const uint8_t key[DT_DIGEST_BYTES], const DtHello *hello,
                         DtWelcome *welcome);

/* Whether the facts of node `node` differ from those of node 0. Then ret_text names
 * both hosts and values, and the fix. */
bool dt_hello_differs(const DtFacts *first, const DtFacts *facts, uint32_t node,
                      char ret_text[DT_WHY_BYTES]);

#endif
