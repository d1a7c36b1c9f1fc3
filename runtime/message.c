/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/message.h"

#include "base/status.h"

#include <string.h>

/* The bytes before the text: length of all, kind, node, attempt, code, port, flags, nodes, ranks,
 * form, token. */
enum { HEAD = 48, WORDS = 10 };

static void put(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (8 * i));
}

static uint32_t get(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

size_t dt_message_write(const DtMessage *m, uint8_t ret_bytes[DT_MESSAGE_MOST])
{
    const size_t text = m->kind == DT_MESSAGE_PIECE ? m->n_bytes
                                                    : strnlen(m->text, DT_MESSAGE_TEXT - 1),
                 n = HEAD + text;
    const uint32_t words[WORDS] = {(uint32_t)n, (uint32_t)m->kind, m->node,  m->attempt,
                                   (uint32_t)m->code, m->port, m->flags, m->nodes, m->ranks,
                                   m->form};
    for (int i = 0; i < WORDS; i++)
        put(ret_bytes + 4 * i, words[i]);
    put(ret_bytes + 40, (uint32_t)m->token);
    put(ret_bytes + 44, (uint32_t)(m->token >> 32));
    memcpy(ret_bytes + HEAD, m->text, text);
    return n;
}

/* An exit code of another node: what is none becomes one that says that trying again may help. */
static int32_t code_of(DtMessageKind kind, uint32_t word)
{
    const bool is_failure = kind == DT_MESSAGE_FAILED;
    return word > 255 || (word == 0 && is_failure) ? DT_EXIT_RETRY : (int32_t)word;
}

static void copy_text(const uint8_t *from, size_t n, char *ret_text)
{
    for (size_t i = 0; i < n; i++)
        ret_text[i] = (from[i] < ' ' && from[i] != '\n') || from[i] == 127 ? '?' : (char)from[i];
    ret_text[n] = '\0';
}

int dt_message_read(const uint8_t *bytes, size_t n, DtMessage *ret_message)
{
    if (n < 8)
        return 0;
    const uint32_t length = get(bytes), kind = get(bytes + 4);
    if (length < HEAD || length >= DT_MESSAGE_MOST || kind == 0 || kind >= DT_MESSAGE_KINDS)
        return -1;
    if (n < length)
        return 0;
    const uint32_t port = get(bytes + 20), flags = get(bytes + 24);
    if (port > UINT16_MAX || flags > DT_MESSAGE_FLAGS)
        return -1;
    ret_message->kind = (DtMessageKind)kind;
    ret_message->node = get(bytes + 8);
    ret_message->attempt = get(bytes + 12);
    ret_message->code = code_of(ret_message->kind, get(bytes + 16));
    ret_message->port = (uint16_t)port;
    ret_message->flags = flags;
    ret_message->nodes = get(bytes + 28);
    ret_message->ranks = get(bytes + 32);
    ret_message->form = get(bytes + 36);
    ret_message->token = get(bytes + 40) | (uint64_t)get(bytes + 44) << 32;
    ret_message->n_bytes = length - HEAD;
    if (ret_message->kind == DT_MESSAGE_PIECE)
        memcpy(ret_message->text, bytes + HEAD, length - HEAD);
    else
        copy_text(bytes + HEAD, length - HEAD, ret_message->text);
    return (int)length;
}
