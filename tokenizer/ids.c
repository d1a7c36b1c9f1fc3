/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/ids.h"

#include "base/arena.h"

#include <stdlib.h>

void dt_ids_room(DtIds *ids, size_t n)
{
    if (ids->cap - ids->n >= n)
        return;
    ids->cap = 2 * ids->cap + n + 64;
    ids->at = realloc(ids->at, ids->cap * sizeof *ids->at);
    if (!ids->at)
        dt_arena_exhausted(ids->cap * sizeof *ids->at);
}
