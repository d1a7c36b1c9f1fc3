/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

enum { OK, INVALID = 1, MOST = 65536 };

typedef struct Node {
    StandinWork *work; /* or: */
    StandinTry *attempt;
    void *context;
    int after[2]; /* nodes for which it waits; -1: none */
} Node;

struct Graph {
    Node *nodes;
    int n;
    bool is_spoilt;
};

static Graph *active;

bool standin_is_capturing(void) { return active != NULL; }

int standin_spoil(int error)
{
    if (active)
        active->is_spoilt = true;
    return error;
}

/* ---- capturing ---- */

int cuGraphExecDestroy(Graph *graph)
{
    for (int i = 0; i < graph->n; i++)
        free(graph->nodes[i].context);
    free(graph->nodes);
    free(graph);
    return OK;
}

int standin_capture_begin(Capture *first)
{
    if (active || first->graph)
        return INVALID;
    *first = (Capture){active = calloc(1, sizeof *active), -1};
    active->nodes = calloc(MOST, sizeof *active->nodes);
    return OK;
}

static int add(Capture *capture, const Node *node)
{
    Graph *graph = capture->graph;
    if (graph->is_spoilt || graph->n == MOST)
        return CAPTURE_INVALIDATED;
    graph->nodes[graph->n] = *node;
    capture->tail = graph->n++;
    return OK;
}

int standin_capture_add(Capture *capture, StandinWork *work, StandinTry *attempt,
                        const void *context, size_t bytes)
{
    Node node = {work, attempt, malloc(bytes + 1), {capture->tail, -1}};
    memcpy(node.context, context, bytes);
    return add(capture, &node);
}

int standin_capture_join(Capture *capture, Graph *graph, int node)
{
    if (graph != active)
        return standin_spoil(CAPTURE_ISOLATION);
    if (!capture->graph) {
        *capture = (Capture){graph, node};
        return OK;
    }
    return add(capture, &(Node){.after = {capture->tail, node}});
}

static void find_before(const Graph *graph, int node, bool *seen)
{
    if (node < 0 || seen[node])
        return;
    seen[node] = true;
    find_before(graph, graph->nodes[node].after[0], seen);
    find_before(graph, graph->nodes[node].after[1], seen);
}

int standin_capture_end(Capture *first, Capture *const *captures, int n, Graph **ret_graph)
{
    Graph *graph = first->graph;
    if (!graph || graph != active)
        return CAPTURE_UNMATCHED;
    bool *seen = calloc(MOST, sizeof *seen), joined = true;
    find_before(graph, first->tail, seen);
    for (int i = 0; i < n; i++) {
        joined = joined &&
                 (captures[i]->graph != graph || captures[i]->tail < 0 || seen[captures[i]->tail]);
        *captures[i] = (Capture){NULL, -1};
    }
    free(seen);
    active = NULL;
    const int error = graph->is_spoilt ? CAPTURE_INVALIDATED : joined ? OK : CAPTURE_UNJOINED;
    *ret_graph = error ? NULL : graph;
    if (error)
        cuGraphExecDestroy(graph);
    return error;
}

/* ---- running ---- */

int cuGraphInstantiateWithFlags(Graph **ret_run, Graph *graph, unsigned long long flags)
{
    *ret_run = graph;
    return graph && !flags ? OK : INVALID;
}

typedef struct Run {
    const Graph *graph;
    bool *done;
    int *left;
} Run;

static bool is_ready(const Run *run, int i)
{
    const int *after = run->graph->nodes[i].after;
    return !run->done[i] && (after[0] < 0 || run->done[after[0]]) &&
           (after[1] < 0 || run->done[after[1]]);
}

/* Chooses one of the nodes that could run next: the first, the last, or a random one. */
static bool advance(const Run *run)
{
    static unsigned state = 1;
    const int n = run->graph->n;
    state = state * 1664525u + 1013904223u + (unsigned)standin_setting("chance=", 0);
    const int from = standin_setting("chance=", 0) ? (int)((state >> 8) % (unsigned)n) : n - 1;
    for (int k = 0; k < n; k++) {
        const int i = (from + n - k) % n;
        const Node *node = &run->graph->nodes[i];
        if (!is_ready(run, i) || (node->attempt && !node->attempt(node->context)))
            continue;
        if (node->work)
            node->work(node->context);
        run->done[i] = true;
        --*run->left;
        return true;
    }
    return false;
}

static bool do_run(const void *context)
{
    const Run *run = context;
    while (*run->left > 0)
        if (!advance(run))
            return false;
    free(run->done);
    free(run->left);
    return true;
}

int cuGraphLaunch(Graph *graph, Stream *stream)
{
    const Run run = {graph, calloc((size_t)graph->n + 1, sizeof(bool)), malloc(sizeof(int))};
    *run.left = graph->n;
    return standin_is_capturing() ? standin_spoil(CAPTURE_UNSUPPORTED)
                                  : standin_begin_try(stream, do_run, &run, sizeof run);
}

/* A graph that can be launched is in this stand-in the graph itself. */
int cuGraphDestroy(const Graph *graph) { return graph ? OK : INVALID; }
