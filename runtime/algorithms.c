/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/algorithms.h"

#include "runtime/runtime.h"

#include <string.h>

const DtChoice *dt_algorithms_find(const DtAlgorithms *choices, const uint8_t key[DT_DIGEST_BYTES])
{
    for (uint32_t i = 0; i < choices->n; i++)
        if (memcmp(choices->at[i].key, key, DT_DIGEST_BYTES) == 0)
            return &choices->at[i];
    return NULL;
}

DtAlgorithms dt_algorithms_copy(DtArena *arena, const DtAlgorithms *choices)
{
    DtAlgorithms copy = {NULL, choices->n};
    if (copy.n == 0)
        return copy;
    copy.at = DT_NEW_ARRAY(arena, DtChoice, copy.n);
    memcpy(copy.at, choices->at, copy.n * sizeof *copy.at);
    return copy;
}

/* Rank `from` sends the bytes to all others in parts that fit the buffer in the mapping. For each
 * part: it writes the part, all ranks read it, then the next part is written. */
bool dt_algorithms_tell(DtRank *rank, uint32_t from, void *bytes, size_t len)
{
    char *told = rank->shared->told;
    for (size_t done = 0; done < len && rank->n_ranks > 1; done += sizeof rank->shared->told) {
        const size_t left = len - done,
                     some = left < sizeof rank->shared->told ? left : sizeof rank->shared->told;
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
