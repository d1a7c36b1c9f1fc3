/* SPDX-License-Identifier: Apache-2.0 */
/* --graph: an entry as graphs of the device. The first run of an entry is an ordinary one, in which libraries load
 * their code; the second is captured; later ones begin what was captured. Instructions that are the same in every run
 * (kernels, products, copies, zeroings whose arguments and guards do not contain the number of the step) are in graphs,
 * as many one after the other as there are; the others are begun between graphs, as without: reading data, exchanges
 * between ranks, kernels that draw random numbers. All graphs are on the stream of instructions, and queues of a
 * communicator wait for it and it for them by events outside of graphs, so order and overlap are what they were.
 *
 * Scalars of a step, and its number, are in memory of the device, so graphs see those that were put there. */
#ifndef DT_RUNTIME_GRAPHS_H
#define DT_RUNTIME_GRAPHS_H

#include "runtime/runtime.h"

/* A graph, or an instruction with the registers that it had, or scalars that are noted behind it (early.h). */
typedef struct DtGraphItem {
    bool is_graph, is_note;
    uint32_t graph, inst; /* inst: also the first of the graph */
    int64_t reg[DT_PLAN_REGS];
} DtGraphItem;

typedef struct DtGraphs {
    int64_t runs;
    bool is_open, is_said; /* one is being captured; dt_graphs_say has told of it */
    uint32_t first; /* instruction of that one */
    DT_VEC(DtGraphItem) items;
    uint32_t n_graphs, n_inside, n_outside;
} DtGraphs;

typedef enum DtGraphsWay { DT_GRAPHS_PLAIN, DT_GRAPHS_CAPTURE, DT_GRAPHS_REPLAY } DtGraphsWay;

/* --graph with options that it excludes, or on a device without graphs. */
DtStatus dt_graphs_check(const DtRunOptions *options, const DtDeviceOps *device);
/* How an entry is run now; counts it. graphs: NULL without --graph. */
DtGraphsWay dt_graphs_way(DtGraphs *graphs);
/* Before an instruction of a run that is captured: whether it goes into a graph, which is begun if none is open; else
 * the open one is closed and started. False in ret_good: the rank has failed. */
bool dt_graphs_takes(DtRank *rank, DtGraphs *graphs, uint32_t inst, const int64_t *reg, bool is_due, bool *ret_good);
/* Behind an instruction of a run that is captured: its scalars are noted, between graphs. False: the rank has
 * failed. */
bool dt_graphs_note(DtRank *rank, DtGraphs *graphs, uint32_t inst);
/* Closes and starts what is open. False: the rank has failed. */
bool dt_graphs_close(DtRank *rank, DtGraphs *graphs);
/* "step: 3 graphs of 40 instructions, 2 outside of them": of what was captured, a line each; once. */
void dt_graphs_say(DtRank *rank, DtText *ret_said);

#endif
