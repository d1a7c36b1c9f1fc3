/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/added.h"

#include "tokenizer/utf8.h"

#include <string.h>

void dt_added_begin(DtArena *memory, DtAdded *added)
{
    *added = (DtAdded){0};
    DT_PUSH(memory, added->nodes, ((DtAddedNode){0})); /* number 0 stands for no node */
    dt_charset_named(memory, "White_Space", strlen("White_Space"), &added->spaces);
    dt_charset_sort(&added->spaces);
}

/* The child of the node for the byte, which is made if there is none; node 0: a root. */
static uint32_t child_of(DtArena *memory, DtAdded *added, uint32_t node, uint8_t byte)
{
    uint32_t child = node ? added->nodes.at[node].child : added->roots[byte];
    while (child && added->nodes.at[child].byte != byte)
        child = added->nodes.at[child].sibling;
    if (child)
        return child;
    child = added->nodes.n;
    const DtAddedNode made = {.byte = byte, .sibling = node ? added->nodes.at[node].child : 0};
    DT_PUSH(memory, added->nodes, made);
    if (node)
        added->nodes.at[node].child = child;
    else
        added->roots[byte] = child;
    return child;
}

bool dt_added_add(DtArena *memory, DtAdded *added, const DtAddedToken *token)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < token->text.len; i++)
        node = child_of(memory, added, node, token->text.at[i]);
    if (added->nodes.at[node].token)
        return false;
    DT_PUSH(memory, added->tokens, *token);
    added->nodes.at[node].token = added->tokens.n;
    added->longest = token->text.len > added->longest ? token->text.len : added->longest;
    added->lstrips |= token->lstrip;
    return true;
}

/* The longest token that begins at `at`; 0: none does, else 1 + its index. */
static uint32_t longest_at(const DtAdded *added, const uint8_t *text, size_t len, size_t at)
{
    uint32_t node = added->roots[text[at]], found = 0;
    while (node) {
        found = added->nodes.at[node].token ? added->nodes.at[node].token : found;
        if (++at == len)
            break;
        node = added->nodes.at[node].child;
        while (node && added->nodes.at[node].byte != text[at])
            node = added->nodes.at[node].sibling;
    }
    return found;
}

bool dt_added_find(const DtAdded *added, const uint8_t *text, size_t len, size_t from, size_t to,
                   DtAddedMatch *ret_match)
{
    if (added->tokens.n == 0)
        return false;
    for (size_t at = from; at < to; at++) {
        const uint32_t found = added->roots[text[at]] ? longest_at(added, text, len, at) : 0;
        if (!found)
            continue;
        const DtAddedToken *token = &added->tokens.at[found - 1];
        *ret_match = (DtAddedMatch){token, at, at + token->text.len};
        return true;
    }
    return false;
}

size_t dt_added_space_before(const DtAdded *added, const uint8_t *text, size_t least, size_t end)
{
    while (end > least) {
        size_t at = end - 1;
        while (at > least && (text[at] & 0xc0) == 0x80)
            at--;
        if (!dt_charset_has(&added->spaces, dt_utf8_point(text + at)))
            break;
        end = at;
    }
    return end;
}

size_t dt_added_space_after(const DtAdded *added, const uint8_t *text, size_t first, size_t len)
{
    while (first < len && dt_charset_has(&added->spaces, dt_utf8_point(text + first)))
        first += dt_utf8_step(text[first]);
    return first;
}
