/* SPDX-License-Identifier: Apache-2.0 */
/* What a text of JSON contains: see jsonshape.h. */
#include "jsonshape.h"

#include <stdbool.h>

DtJsonShape dt_jsonshape_count(const char *text, uint64_t len)
{
    DtJsonShape shape = {.values = 1};
    uint64_t depth = 0;
    bool in_text = false;
    for (uint64_t i = 0; i < len; i++) {
        const char c = text[i];
        if (in_text && c == '\\') {
            i++;
        } else if (c == '"') {
            in_text = !in_text;
        } else if (!in_text && (c == '{' || c == '[')) {
            shape.brackets++;
            shape.values++;
            depth++;
            shape.depth = depth > shape.depth ? depth : shape.depth;
        } else if (!in_text && (c == '}' || c == ']')) {
            depth -= depth > 0;
        } else if (!in_text && c == ',') {
            shape.values++;
        }
    }
    return shape;
}
