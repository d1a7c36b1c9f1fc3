/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of the messages between agents: any bytes are messages, a part of one, or refused.
 * What is read is in range, and written again it reads the same. The agents of a tree of three
 * nodes hear each message. */
#include "runtime/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"tests/fuzz/corpus/*.message", NULL};

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "fuzz_message: %s\n", what);
    abort();
}

static void forget(void *context, uint32_t neighbour, const DtMessage *message)
{
    (void)context;
    (void)neighbour;
    check(message->kind > 0 && message->kind < DT_MESSAGE_KINDS, "an agent sends no message");
}

static void begin(DtAgent *agents)
{
    for (uint32_t i = 0; i < 3; i++) {
        dt_agent_init(&agents[i], 100, i, 8);
        agents[i].send = forget;
        for (uint32_t k = agents[i].first; k < agents[i].n; k++)
            dt_agent_meet(&agents[i], k, "h", 1);
    }
}

/* Reads from a copy of exactly n bytes, so that a sanitizer sees a read past its end. */
static int read_from(const uint8_t *data, size_t n, DtMessage *m)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, data, n);
    const int used = dt_message_read(copy, n, m);
    free(copy);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    DtAgent agents[3];
    begin(agents);
    for (size_t at = 0; at < size;) {
        DtMessage m, again;
        uint8_t bytes[DT_MESSAGE_MOST];
        const int n = read_from(data + at, size - at, &m);
        if (n <= 0)
            break;
        check((size_t)n <= size - at && n <= DT_MESSAGE_MOST, "more bytes than there are");
        check(m.code >= 0 && m.code <= 255 && m.kind > 0 && m.kind < DT_MESSAGE_KINDS, "range");
        check(memchr(m.text, 0, sizeof m.text) != NULL, "a text without an end");
        const size_t written = dt_message_write(&m, bytes);
        check(dt_message_read(bytes, written, &again) == (int)written, "it does not read back");
        check(strcmp(m.text, again.text) == 0 && m.kind == again.kind && m.code == again.code &&
                  m.token == again.token && m.flags == again.flags && m.node == again.node,
              "it reads back as another one");
        for (uint32_t i = 0; i < 3; i++)
            dt_agent_hear(&agents[i], agents[i].first + m.node % (agents[i].n - agents[i].first),
                          &m, at + 2);
        at += (size_t)n;
    }
    return 0;
}
