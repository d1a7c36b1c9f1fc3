/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/choices.h"

#include "runtime/runtime.h"

#include <string.h>

const DtChoice *dt_choices_find(const DtChoices *choices, const uint8_t key[DT_DIGEST_BYTES])
{
    for (uint32_t i = 0; i < choices->n; i++)
        if (memcmp(choices->at[i].key, key, DT_DIGEST_BYTES) == 0)
            return &choices->at[i];
    return NULL;
}

DtChoices dt_choices_copy(DtArena *arena, const DtChoices *choices)
{
    DtChoices copy = {NULL, choices->n};
    if (copy.n == 0)
        return copy;
    copy.at = DT_NEW_ARRAY(arena, DtChoice, copy.n);
    memcpy(copy.at, choices->at, copy.n * sizeof *copy.at);
    return copy;
}

/* Part by part through the mapping: written, read by all, written again. */
bool dt_choices_tell(DtRank *rank, uint32_t from, void *bytes, size_t len)
{
    char *told = rank->shared->told;
    for (size_t done = 0; done < len && rank->n_ranks > 1; done += sizeof rank->shared->told) {
        const size_t left = len - done, some = left < sizeof rank->shared->told ? left : sizeof rank->shared->told;
        if (rank->rank == from)
            memcpy(told, (char *)bytes + done, some);
        if (!rank->comm_ops->barrier(rank->comm, &rank->world))
            return false;
        if (rank->rank != from)
            memcpy((char *)bytes + done, told, some);
        if (!rank->comm_ops->barrier(rank->comm, &rank->world))
            return false;
    }
    return true;
}
