/* SPDX-License-Identifier: Apache-2.0 */
/* The position of a device that runs instructions after the host has started them. Before an
 * instruction the device writes its number into the rank's slot (DtDeviceOps.mark), once all
 * earlier work is done. The number is therefore that of the first unfinished instruction, and
 * other processes can read it even while the host waits in the driver for ever.
 *
 * A mark costs a device about as much as the start of a small kernel. Where instructions are
 * short, one mark therefore stands for several: for as many as take a tenth of a millisecond,
 * judged by the time between two runs of an entry; in graphs, whose marks are fixed, for 32.
 * Work of the host itself, exchanges and waits always have marks of their own. */
#ifndef DT_RUNTIME_POSITION_H
#define DT_RUNTIME_POSITION_H

#include "runtime/runtime.h"

/* State of a rank that writes marks. */
typedef struct DtPosition {
    uint32_t count, since, every_log; /* since: number of instructions after the last mark */
    uint32_t n_insts;                 /* number of instructions so far in this run of the entry */
    const char *entry;                /* the entry whose runs are timed: the one that ran first */
    uint64_t began_ns;                /* when the last run of that entry started */
} DtPosition;

/* The device's position: the first unfinished instruction is `inst`, or one of the n_insts - 1
 * instructions that follow it. */
typedef struct DtPositionAt {
    uint32_t inst, n_insts;
    int64_t step;
} DtPositionAt;

/* Called once, before the first entry. */
void dt_position_open(DtRank *rank);
/* Called before an entry, before each of its instructions, and after it. is_captured: it goes
 * into a graph. */
void dt_position_entry(DtRank *rank, const char *entry);
void dt_position_inst(DtRank *rank, uint32_t inst, bool is_captured);
void dt_position_end(DtRank *rank);
/* Called at the beginning or the end of a graph: the next instruction gets a mark of its own. */
void dt_position_break(DtRank *rank);
/* False: no instruction with a mark is unfinished. */
bool dt_position_read(const DtPlan *plan, const DtSlot *slot, DtPositionAt *ret_marked);
/* Called when the device has failed in work that was started earlier: stores the failed instruction
 * in the slot, and returns text for the end of the message. */
const char *dt_position_blame(DtRank *rank);

#endif
