/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of the stand-in driver keep the rules that CUDA's driver has: work is recorded and not
 * run; streams join the capture by events, and must be joined to the first stream again; calls that
 * wait, ask for a state or allocate memory meanwhile are errors that end the capture. */
#include "runtime/cuda_driver.h"

#include <criterion/criterion.h>

enum { BYTES = 16, UNSUPPORTED = 900, INVALIDATED = 901, UNJOINED = 904, ISOLATION = 905,
       CAPTURED = 907 };

typedef struct Machine {
    DtArena *arena;
    DtCudaDriver d;
    DtCudaStream *first, *second;
    DtCudaEvent *fork, *join;
    uint64_t at;
} Machine;

static Machine begin(void)
{
    Machine m = {.arena = dt_arena_new()};
    const DtStatus status = dt_cuda_driver_open(m.arena, &m.d);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(m.d.stream_new(&m.first, 0) | m.d.stream_new(&m.second, 0) |
                     m.d.event_new(&m.fork, 2) | m.d.event_new(&m.join, 2) |
                     m.d.alloc(&m.at, BYTES),
                 0);
    m.d.set_bytes(m.at, 0, BYTES, m.first);
    cr_assert_eq(m.d.stream_wait(m.first), 0);
    cr_assert_eq(m.d.capture_begin(m.first, DT_CUDA_CAPTURE_OWN), 0);
    return m;
}

static void set(const Machine *m, DtCudaStream *stream, uint64_t byte, unsigned char value)
{
    m->d.set_bytes(m->at + byte, value, 1, stream);
}

static unsigned char byte_of(const Machine *m, int i)
{
    unsigned char bytes[BYTES];
    cr_assert_eq(m->d.get(bytes, m->at, BYTES, m->first) | m->d.stream_wait(m->first), 0);
    return bytes[i];
}

static DtCudaGraphRun *end(const Machine *m)
{
    DtCudaGraph *graph = NULL;
    DtCudaGraphRun *run = NULL;
    cr_assert_eq(m->d.capture_end(m->first, &graph), 0);
    cr_assert_eq(m->d.graph_make(&run, graph, 0), 0);
    return run;
}

/* run: NULL if there is no graph. */
static void finish(Machine *m, DtCudaGraphRun *run)
{
    cr_expect_eq(m->d.stream_wait(m->first) | m->d.stream_wait(m->second), 0);
    cr_expect_eq(run ? m->d.graph_run_free(run) : 0, 0);
    cr_expect_eq(m->d.event_free(m->fork) | m->d.event_free(m->join) | m->d.free(m->at), 0);
    m->d.stream_free(m->first);
    m->d.stream_free(m->second);
    dt_arena_free(m->arena);
}

static void expect_end(Machine *m, int error)
{
    DtCudaGraph *graph = NULL;
    cr_expect_eq(m->d.capture_end(m->first, &graph), error);
    cr_expect_null(graph);
    finish(m, NULL); /* the streams continue after it */
}

Test(graph, does_nothing_while_it_is_captured)
{
    Machine m = begin();
    set(&m, m.first, 0, 7);
    DtCudaGraphRun *run = end(&m);
    cr_expect_eq(byte_of(&m, 0), 0);
    for (unsigned char i = 1; i < 4; i++) {
        m.d.graph_run(run, m.first);
        cr_expect_eq(byte_of(&m, 0), 7);
        set(&m, m.first, 0, i);
    }
    cr_expect_eq(byte_of(&m, 0), 3);
    finish(&m, run);
}

/* Two streams that fork and join: work without an order may run in any order, work with an order
 * keeps it. */
Test(graph, runs_in_the_order_of_events)
{
    Machine m = begin();
    set(&m, m.first, 0, 1);
    m.d.event_record(m.fork, m.first);
    cr_assert_eq(m.d.stream_follow(m.second, m.fork, 0), 0);
    m.d.copy(m.at + 1, m.at, 1, m.second); /* 1 */
    m.d.event_record(m.join, m.second);
    set(&m, m.first, 2, 5);
    cr_assert_eq(m.d.stream_follow(m.first, m.join, 0), 0);
    m.d.copy(m.at + 3, m.at + 1, 1, m.first);
    DtCudaGraphRun *run = end(&m);
    m.d.graph_run(run, m.second);
    cr_assert_eq(m.d.stream_wait(m.second), 0);
    cr_expect_eq(byte_of(&m, 1), 1);
    cr_expect_eq(byte_of(&m, 2), 5);
    cr_expect_eq(byte_of(&m, 3), 1);
    finish(&m, run);
}

/* Without the fork's order the copy runs first, sooner or later. */
Test(graph, tries_other_orders)
{
    Machine m = begin();
    m.d.event_record(m.fork, m.first);
    m.d.stream_follow(m.second, m.fork, 0);
    set(&m, m.first, 0, 1);
    m.d.copy(m.at + 1, m.at, 1, m.second); /* it waits for nothing */
    m.d.event_record(m.join, m.second);
    m.d.stream_follow(m.first, m.join, 0);
    DtCudaGraphRun *run = end(&m);
    m.d.graph_run(run, m.first);
    cr_expect_eq(byte_of(&m, 1), 0, "the copy did not come before what it reads");
    finish(&m, run);
}

Test(graph, has_to_be_joined)
{
    Machine m = begin();
    m.d.event_record(m.fork, m.first);
    m.d.stream_follow(m.second, m.fork, 0);
    set(&m, m.second, 0, 1);
    expect_end(&m, UNJOINED);
}

Test(graph, waits_for_nothing_outside)
{
    Machine m = begin();
    m.d.event_record(m.fork, m.second); /* a stream that is not captured */
    cr_expect_eq(m.d.stream_follow(m.first, m.fork, 0), ISOLATION);
    expect_end(&m, INVALIDATED);
}

Test(graph, is_spoilt_by_waiting)
{
    Machine m = begin();
    set(&m, m.first, 0, 1);
    cr_expect_eq(m.d.stream_wait(m.first), UNSUPPORTED);
    expect_end(&m, INVALIDATED);
}

Test(graph, is_spoilt_by_asking)
{
    Machine m = begin();
    m.d.event_record(m.fork, m.first);
    cr_expect_eq(m.d.event_query(m.fork), CAPTURED);
    expect_end(&m, INVALIDATED);
}

Test(graph, is_spoilt_by_allocating)
{
    Machine m = begin();
    uint64_t at;
    cr_expect_eq(m.d.alloc(&at, 1), UNSUPPORTED);
    expect_end(&m, INVALIDATED);
}
