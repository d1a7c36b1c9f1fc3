/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the stand-in driver: what streams would have begun while one of them is captured, by
 * the rules of the CUDA driver API (Stream Management, Graph Management). A stream that waits for a
 * captured event belongs to the capture from then on; all of them have to be joined to the first
 * before it ends. Calls that wait for work or ask for its state, allocate memory or load code
 * invalidate the capture. There is one capture at a time. */
#ifndef DT_TESTS_STANDIN_GRAPH_H
#define DT_TESTS_STANDIN_GRAPH_H

#include "standin.h"

enum {
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907
};

typedef struct Graph Graph;

/* The state of a stream in a capture: its next work comes after node `tail`; -1: it may come first.
 * graph NULL: the stream is not captured. */
typedef struct Capture {
    Graph *graph;
    int tail;
} Capture;

bool standin_is_capturing(void);
int standin_spoil(int error); /* an error of the present capture, if there is one; returns error */
int standin_capture_begin(Capture *first);
/* captures: the states of all n streams. */
int standin_capture_end(Capture *first, Capture *const *captures, int n, Graph **ret_graph);
int standin_capture_add(Capture *capture, StandinWork *work, StandinTry *attempt,
                        const void *context, size_t bytes);
/* From now on, work of the stream also comes after this node of the graph. */
int standin_capture_join(Capture *capture, Graph *graph, int node);

#endif
