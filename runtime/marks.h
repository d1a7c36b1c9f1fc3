/* SPDX-License-Identifier: Apache-2.0 */
/* Where a device is that does instructions after the host has begun them. In front of an instruction the device itself
 * writes its number into the rank's slot (DtDeviceOps.mark), when all that was begun before is done: so the number is
 * that of the first instruction that is not done, also for others, and when the host waits in the driver for ever.
 *
 * A mark costs a device about as much as the start of a small kernel. Where instructions are short, one mark stands for
 * several of them: for as many as take a tenth of a millisecond, by the time between two runs of an entry; in graphs,
 * whose marks cannot change any more, for 32. What the host does itself, exchanges and waits have their own always. */
#ifndef DT_RUNTIME_MARKS_H
#define DT_RUNTIME_MARKS_H

#include "runtime/runtime.h"

/* Of a rank, for those that it puts. */
typedef struct DtMarks {
    uint32_t count, since, every_log; /* since: instructions from the last mark on */
    uint32_t n_insts;                 /* of the entry's run, so far */
    const char *entry;                /* whose runs are timed: the first that had a run */
    uint64_t began_ns;                /* of that entry's last run */
} DtMarks;

/* What the device has not done yet begins with this instruction, or one of the n_insts - 1 that follow it. */
typedef struct DtMarked {
    uint32_t inst, n_insts;
    int64_t step;
} DtMarked;

/* Once, before the first entry. */
void dt_marks_open(DtRank *rank);
/* Before an entry, each of its instructions, and behind it. is_captured: it goes into a graph. */
void dt_marks_entry(DtRank *rank, const char *entry);
void dt_marks_inst(DtRank *rank, uint32_t inst, bool is_captured);
void dt_marks_end(DtRank *rank);
/* Where a graph begins or ends: the next instruction has a mark of its own. */
void dt_marks_break(DtRank *rank);
/* False: nothing that has a mark is on its way. */
bool dt_marks_read(const DtPlan *plan, const DtSlot *slot, DtMarked *ret_marked);
/* Of a rank whose device has failed at what was begun earlier: its slot says which instruction that is, and what is
 * returned says the rest, to be put behind the message. */
const char *dt_marks_blame(DtRank *rank);

#endif
