/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of operations, and the order of sums. Each communicator that adds by itself, `shm` and
 * those of several hosts, asks here in which order, so all of them compute the same bits:
 *
 *   up to 64 members   m0 + m1 + m2 + ..., from left to right, for every element
 *   more               the same along a ring: for the elements of member c, c+1 + c+2 + ... + c.
 *                      So each of hundreds of members begins some elements and ends others, and no
 *                      member has to wait until all others have added all of theirs */
#include "runtime/comm_mark.h"

DtCommMark dt_comm_mark(const DtRank *rank, uint32_t group, uint64_t sequence, int64_t bytes)
{
    return (DtCommMark){.attempt = rank->shared->attempt,
                        .stage = rank->stage,
                        .inst = atomic_load_explicit(&rank->slot->inst, memory_order_relaxed),
                        .group = group,
                        .step = rank->step,
                        .sequence = sequence,
                        .bytes = bytes};
}

bool dt_comm_mark_same(const DtCommMark *a, const DtCommMark *b)
{
    return a->attempt == b->attempt && a->group == b->group && a->step == b->step &&
           a->sequence == b->sequence && a->bytes == b->bytes &&
           (a->stage != b->stage || a->inst == b->inst);
}

/* "rank 3 at all-reduce 17 of group 0, 400 bytes, step 5, instruction 12" */
static const char *text_of(DtArena *memory, uint32_t rank, const DtCommMark *mark, const char *what)
{
    const char *at = mark->inst == UINT32_MAX
                         ? "no instruction"
                         : dt_arena_printf(memory, "instruction %u", mark->inst);
    return dt_arena_printf(memory,
                           "rank %u at %s %llu of group %u, %lld bytes, step %lld, %s, attempt %u",
                           rank, what, (unsigned long long)mark->sequence, mark->group,
                           (long long)mark->bytes, (long long)mark->step + 1, at, mark->attempt);
}

bool dt_comm_mark_fail(DtRank *rank, const DtCommMark *mine, const char *what, uint32_t other,
                       const DtCommMark *theirs, const char *other_what)
{
    DtArena *memory = dt_arena_new();
    dt_rank_fail(rank, DT_EXIT_FAILED, "ranks %u and %u are at different collectives: %s; %s",
                 rank->rank, other, text_of(memory, rank->rank, mine, what),
                 text_of(memory, other, theirs, other_what));
    dt_arena_free(memory);
    return false;
}

int64_t dt_comm_mark_chunk(int64_t count, int64_t element, uint32_t members)
{
    enum { LINE = 64 };
    const int64_t line = LINE / element, size = members;
    const int64_t chunk = ((count + size - 1) / size + line - 1) / line * line;
    return chunk > 0 ? chunk : line;
}

uint32_t dt_comm_mark_first(uint32_t members, uint32_t owner)
{
    return members > DT_COMM_IN_ORDER ? (owner + 1) % members : 0;
}
