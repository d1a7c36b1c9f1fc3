/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says about a collective or a message that it has reached (comm_mark.c). The other
 * ranks compare it with what they have reached themselves, so that ranks at different operations of
 * equal size fail instead of computing nonsense. */
#ifndef DT_RUNTIME_COMM_MARK_H
#define DT_RUNTIME_COMM_MARK_H

#include "runtime/runtime.h"

typedef struct DtCommMark {
    uint32_t attempt; /* of the run */
    uint32_t stage;   /* of the rank */
    uint32_t inst;    /* the instruction; UINT32_MAX: none, since no entry is running */
    uint32_t group;   /* number of the group in the plan; that of the group of all ranks is next */
    int64_t step;
    uint64_t sequence; /* number of the collective in its group, from 1 */
    int64_t bytes;     /* of one block of elements */
} DtCommMark;

/* The most members whose terms are added in member order. In larger groups the order of an element
 * begins with the member after its owner and ends with the owner, as on a ring (comm_mark.c). */
enum { DT_COMM_IN_ORDER = 64 };

/* The mark of the instruction that the rank runs now. */
DtCommMark dt_comm_mark(const DtRank *rank, uint32_t group, uint64_t sequence, int64_t bytes);

/* Whether both ranks are at the same operation. Instructions are compared between ranks of one
 * stage only: other stages have other instructions. */
bool dt_comm_mark_same(const DtCommMark *a, const DtCommMark *b);

/* Fails the rank, and names both ranks and what they are at. Returns false. what, other_what: the
 * operation of the rank, and of the other one. */
bool dt_comm_mark_fail(DtRank *rank, const DtCommMark *mine, const char *what, uint32_t other,
                       const DtCommMark *theirs, const char *other_what);

/* The number of elements that one member of an all-reduce of `count` elements owns: a multiple of
 * a cache line. Element i belongs to member i / this. */
int64_t dt_comm_mark_chunk(int64_t count, int64_t element, uint32_t members);

/* The member whose term is the first one of an element that the member `owner` owns. The others
 * follow in member order, and member 0 follows the last one. */
uint32_t dt_comm_mark_first(uint32_t members, uint32_t owner);

#endif
