/* SPDX-License-Identifier: Apache-2.0 */
/* --graph: runs an entry as graphs of the device. The first run of an entry is an ordinary one,
 * in which libraries load their code; the second is captured; later ones replay the graphs.
 * Consecutive instructions that are the same in every run (kernels, products, copies, zeroings
 * whose arguments and guards do not contain the number of the step) form a graph. The others run
 * between graphs as usual: reading data, exchanges between ranks, kernels that draw random
 * numbers. All graphs are on the stream of instructions, which synchronises with the queues of a
 * communicator by events outside of graphs, so order and overlap stay the same.
 *
 * Scalars of a step, and its number, are in device memory, so graphs see the values of the
 * present step. */
#ifndef DT_RUNTIME_GRAPHS_H
#define DT_RUNTIME_GRAPHS_H

#include "runtime/runtime.h"

/* One of three things that a run of an entry does: a graph; an instruction with the values of its
 * registers; or scalars that are read back after an instruction (readback.h). */
typedef struct DtGraphItem {
    bool is_graph, is_note;
    uint32_t graph, inst; /* number of the instruction; of a graph that of its first one */
    int64_t reg[DT_PLAN_REGS];
} DtGraphItem;

typedef struct DtGraphs {
    int64_t runs;
    bool is_open, is_said; /* a graph is being captured; dt_graphs_say has already reported */
    uint32_t first; /* first instruction of that graph */
    DT_VEC(DtGraphItem) items;
    uint32_t n_graphs, n_inside, n_outside;
} DtGraphs;

typedef enum DtGraphsWay { DT_GRAPHS_PLAIN, DT_GRAPHS_CAPTURE, DT_GRAPHS_REPLAY } DtGraphsWay;

/* Refuses --graph with options that it excludes, or on a device without graphs. */
DtStatus dt_graphs_check(const DtRunOptions *options, const DtDeviceOps *device);
/* How the entry runs this time; counts the run. graphs: NULL without --graph. */
DtGraphsWay dt_graphs_way(DtGraphs *graphs);
/* During a captured run, before an instruction: whether it goes into a graph, which is begun if
 * none is open; otherwise the open graph is closed and started. ret_good false: the rank has
 * failed. */
bool dt_graphs_takes(DtRank *rank, DtGraphs *graphs, uint32_t inst, const int64_t *reg, bool is_due,
                     bool *ret_good);
/* During a captured run, after an instruction: starts reading back its scalars, between graphs.
 * False: the rank has failed. */
bool dt_graphs_note(DtRank *rank, DtGraphs *graphs, uint32_t inst);
/* Closes and starts the open graph. False: the rank has failed. */
bool dt_graphs_close(DtRank *rank, DtGraphs *graphs);
/* Reports once what was captured, in a line for each entry: "step: 3 graphs of 40 instructions, 2
 * outside of them". */
void dt_graphs_say(DtRank *rank, DtText *ret_said);

#endif
