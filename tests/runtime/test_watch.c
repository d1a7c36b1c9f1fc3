/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules of watch.c with histories made by hand: ten samples a second of three ranks. */
#include "runtime/watch.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 3 };
static DtWatch *watch;
static DtWatchSample ranks[N];
static uint64_t now_ns;

static void setup(void)
{
    watch = dt_watch_new(N, 0, false);
    now_ns = 1000000000u;
    for (int r = 0; r < N; r++)
        ranks[r] = (DtWatchSample){.alive = true,
                                   .state = 'S',
                                   .waits_for = UINT32_MAX,
                                   .phase = DT_PHASE_RUNNING,
                                   .progress = 7,
                                   .began_ns = now_ns,
                                   .usual_ns = 10000000};
}

static void teardown(void) { dt_watch_free(watch); }

TestSuite(watch, .init = setup, .fini = teardown);

static void wait_for(int rank, int other)
{
    ranks[rank].waiting = true;
    ranks[rank].waits_for = (uint32_t)other;
    ranks[rank].wait_began_ns = now_ns;
}

/* Takes samples for up to `seconds`; ranks that compute (state R) use processor time. Stops at the
 * first event. */
static DtWatchEvent play(double seconds)
{
    DtWatchEvent event = {.kind = DT_WATCH_NOTHING};
    for (int i = 0; i < (int)(seconds * 10) && event.kind == DT_WATCH_NOTHING; i++) {
        now_ns += 100000000u;
        for (int r = 0; r < N; r++) {
            ranks[r].cpu_ns += ranks[r].state == 'R' ? 50000000u : 0;
            ranks[r].wait_looked_ns =
                ranks[r].waiting && ranks[r].state == 'S' ? now_ns : ranks[r].wait_looked_ns;
        }
        event = dt_watch_step(watch, ranks, now_ns);
    }
    return event;
}

/* A host may wait for its device as long as the device makes progress. */
Test(watch, a_device_that_goes_on_is_progress)
{
    dt_watch_free(watch);
    watch = dt_watch_new(N, 2, false);
    for (int i = 0; i < 10; i++) {
        ranks[0].mark++;
        for (int r = 1; r < N; r++)
            ranks[r].progress++;
        cr_expect_eq(play(1).kind, DT_WATCH_NOTHING);
    }
    ranks[1].progress++;
    ranks[2].progress++;
    DtWatchEvent event = play(2);
    cr_expect_eq(event.kind, DT_WATCH_TIMEOUT);
    cr_expect_eq(event.rank, 0);
}

/* Rank 2 is on another machine, which says that it waits for rank 1. */
Test(watch, a_waiter_on_another_machine_counts)
{
    ranks[2].is_elsewhere = true;
    wait_for(2, 1);
    const DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_IDLE);
    cr_expect(event.rank == 1 && event.waiter == 2);
}

/* That one is never to blame here, and no cycle leads through it. */
Test(watch, a_rank_on_another_machine_is_judged_there)
{
    ranks[2].is_elsewhere = true;
    wait_for(2, 1);
    wait_for(1, 2);
    wait_for(0, 2);
    cr_expect_eq(play(20).kind, DT_WATCH_NOTHING);
}

/* A rank on another machine. */
Test(watch, a_stopped_rank_is_named_where_others_may_wait)
{
    ranks[1].state = 'T';
    cr_expect_eq(play(6).kind, DT_WATCH_NOTHING);
    dt_watch_free(watch);
    watch = dt_watch_new(N, 0, true);
    DtWatchEvent event = play(6);
    cr_expect_eq(event.kind, DT_WATCH_STOPPED);
    cr_expect_eq(event.rank, 1);
    cr_expect_eq(event.waiter, UINT32_MAX);
}

Test(watch, an_idle_rank_that_others_wait_for_is_named_within_five_seconds)
{
    wait_for(1, 0);
    wait_for(2, 0);
    DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_IDLE);
    cr_expect_eq(event.rank, 0);
    cr_expect_eq(event.waiter, 1);
    cr_expect(event.seconds >= 3 && event.seconds < 5, "after %g s", event.seconds);
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING, "once");
}

Test(watch, a_stopped_rank_is_named_even_if_it_was_stopped_in_a_wait)
{
    wait_for(0, 1);
    ranks[0].state = 'T';
    wait_for(1, 0);
    wait_for(2, 0);
    DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_STOPPED);
    cr_expect_eq(event.rank, 0);
}

/* The machine was stopped for a minute and then goes on: this time does not count for anybody. */
Test(watch, an_instruction_that_was_stopped_with_the_watcher_is_not_slow)
{
    wait_for(1, 0);
    ranks[0].state = 'R';
    cr_expect_eq(play(1).kind, DT_WATCH_NOTHING);
    now_ns += 60000000000u;
    cr_expect_eq(play(1.5).kind, DT_WATCH_NOTHING);
    DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_SLOW);
    cr_expect_lt(event.seconds, 5);
}

Test(watch, nobody_is_named_who_holds_up_nobody)
{
    ranks[0].state = 'T';
    ranks[1].state = ranks[2].state = 'R';
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING);
}

Test(watch, progress_and_processor_time_each_excuse)
{
    wait_for(1, 0);
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(play(2.5).kind, DT_WATCH_NOTHING);
        ranks[0].progress++;
    }
    ranks[0].usual_ns = 0;
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(play(2.5).kind, DT_WATCH_NOTHING);
        ranks[0].cpu_ns += 25000000u;
    }
    ranks[0].state = 'R'; /* the rank would run if it got a core */
    for (int i = 0; i < 100; i++) {
        now_ns += 100000000u;
        cr_expect_eq(dt_watch_step(watch, ranks, now_ns).kind, DT_WATCH_NOTHING);
    }
}

/* A loop of short sleeps uses a little processor time, and may wait for a core at any look. */
Test(watch, a_rank_that_sleeps_and_looks_hangs)
{
    wait_for(1, 0);
    DtWatchEvent event = {.kind = DT_WATCH_NOTHING};
    for (int i = 0; i < 50 && event.kind == DT_WATCH_NOTHING; i++) {
        now_ns += 100000000u;
        ranks[0].cpu_ns += i % 5 ? 0 : 10000000u;
        ranks[0].state = i % 3 ? 'R' : 'S';
        ranks[0].sleeps = i % 3 ? (uint64_t)i * 10 : 0;
        ranks[1].wait_looked_ns = now_ns;
        event = dt_watch_step(watch, ranks, now_ns);
    }
    cr_expect(event.kind == DT_WATCH_IDLE && event.rank == 0 && event.waiter == 1);
}

Test(watch, work_outside_of_instructions_is_named)
{
    wait_for(1, 0);
    ranks[0].began_ns = ranks[0].usual_ns = 0;
    ranks[0].state = 'R';
    const DtWatchEvent event = play(5);
    cr_expect(event.kind == DT_WATCH_SLOW && event.rank == 0 && event.waiter == 1);
    cr_expect(event.seconds >= 3 && event.seconds < 5, "after %g s", event.seconds);
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING, "once");
    ranks[2].phase = DT_PHASE_LOADING;
    ranks[2].began_ns = 0;
    ranks[2].state = 'R';
    wait_for(1, 2);
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING, "loading may take its time");
}

Test(watch, a_process_that_does_not_end_is_named)
{
    ranks[0].phase = ranks[1].phase = DT_PHASE_DONE;
    ranks[1].state = 'R'; /* it returns its memory */
    cr_expect_eq(play(19).kind, DT_WATCH_NOTHING);
    const DtWatchEvent event = play(3);
    cr_expect(event.kind == DT_WATCH_OVER && event.rank == 0);
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING, "once");
}

Test(watch, the_root_of_a_chain_is_named_not_its_middle)
{
    wait_for(2, 1);
    wait_for(1, 0);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 0;
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING, "rank 1 waits and is not to blame");
    ranks[0].state = 'S';
    DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_IDLE);
    cr_expect_eq(event.rank, 0);
}

Test(watch, ranks_that_wait_for_each_other)
{
    wait_for(0, 1);
    wait_for(1, 2);
    wait_for(2, 0);
    cr_expect_eq(play(5).kind, DT_WATCH_CYCLE);
}

/* Rank 1 waits for rank 0, which writes a file and makes no visible progress. Then rank 0 wakes it
 * and waits for it. One sample sees rank 1 before it gets a core, which may take a minute. */
Test(watch, a_rank_that_was_woken_and_has_no_core_waits_in_no_cycle)
{
    for (int r = 0; r < 2; r++) {
        ranks[r].phase = DT_PHASE_SAVING;
        ranks[r].reads_or_writes = true;
    }
    wait_for(1, 0);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 0;
    cr_expect_eq(play(4.1).kind, DT_WATCH_NOTHING);
    ranks[0].state = 'S';
    wait_for(0, 1);
    ranks[1].state = 'R';
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING);
    ranks[1].state = 'S'; /* it looks, and finds that it must wait on */
    cr_expect_eq(play(1).kind, DT_WATCH_CYCLE);
}

/* A rank waits for others while another one works. The moment at which the worker goes on must not
 * look like the end of a long standstill. */
Test(watch, a_wait_is_no_lack_of_progress)
{
    dt_watch_free(watch);
    watch = dt_watch_new(N, 20, false);
    wait_for(1, 0);
    wait_for(2, 1);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 0;
    for (int i = 0; i < 40; i++) {
        ranks[0].progress++;
        cr_expect_eq(play(1).kind, DT_WATCH_NOTHING);
    }
    ranks[0].progress++;
    ranks[1].waiting = false;
    ranks[1].usual_ns = 0;
    ranks[1].state = 'R';
    cr_expect_eq(play(19).kind, DT_WATCH_NOTHING);
}

/* A rank that had no core for a long time and then sleeps for a moment has not slept for a long
 * time. */
Test(watch, a_moment_of_sleep_is_no_hang)
{
    wait_for(1, 0);
    ranks[0].state = 'R';
    for (int i = 0; i < 100; i++) {
        now_ns += 100000000u;
        ranks[1].wait_looked_ns = now_ns;
        cr_expect_eq(dt_watch_step(watch, ranks, now_ns).kind, DT_WATCH_NOTHING);
    }
    ranks[0].state = 'S';
    cr_expect_eq(play(2.9).kind, DT_WATCH_NOTHING);
    cr_expect_eq(play(0.3).kind, DT_WATCH_IDLE);
}

Test(watch, a_computing_rank_is_slow_after_ten_times_its_usual_duration)
{
    wait_for(1, 0);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 500000000u;
    DtWatchEvent event = play(4.9);
    cr_expect_eq(event.kind, DT_WATCH_NOTHING, "not before");
    event = play(2);
    cr_expect_eq(event.kind, DT_WATCH_SLOW);
    cr_expect(event.seconds > 5 && event.seconds < 5.5, "after %g s", event.seconds);
    cr_expect_eq(play(600).kind, DT_WATCH_NOTHING, "once, and never worse");
    ranks[0].progress++;
    ranks[0].began_ns = now_ns;
    cr_expect_eq(play(6).kind, DT_WATCH_SLOW, "again in the next instruction");
}

Test(watch, short_instructions_are_not_slow_for_noise)
{
    wait_for(1, 0);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 1000;
    cr_expect_eq(play(2.9).kind, DT_WATCH_NOTHING);
    cr_expect_eq(play(1).kind, DT_WATCH_SLOW);
}

Test(watch, a_rank_at_a_disk_is_named_but_may_go_on)
{
    wait_for(1, 0);
    ranks[0].state = 'D';
    DtWatchEvent event = play(5);
    cr_expect_eq(event.kind, DT_WATCH_OUTSIDE);
    cr_expect_eq(play(60).kind, DT_WATCH_NOTHING);
    ranks[0].progress++;
    ranks[0].state = 'S';
    ranks[0].reads_or_writes = true;
    cr_expect_eq(play(5).kind, DT_WATCH_OUTSIDE);
    ranks[0].state = 'T';
    cr_expect_eq(play(5).kind, DT_WATCH_STOPPED, "stopped on top of it");
}

Test(watch, timeout_ends_what_computes_and_spares_who_waits)
{
    dt_watch_free(watch);
    watch = dt_watch_new(N, 20, false);
    wait_for(1, 0);
    wait_for(2, 0);
    ranks[0].state = 'R';
    ranks[0].usual_ns = 0;
    cr_expect_eq(play(19).kind, DT_WATCH_NOTHING);
    DtWatchEvent event = play(2);
    cr_expect_eq(event.kind, DT_WATCH_TIMEOUT);
    cr_expect_eq(event.rank, 0);
}

Test(watch, a_gap_in_the_watching_does_not_count)
{
    wait_for(1, 0);
    cr_expect_eq(play(1).kind, DT_WATCH_NOTHING);
    now_ns += 3600000000000u; /* the machine was suspended */
    cr_expect_eq(play(1).kind, DT_WATCH_NOTHING);
    cr_expect_eq(play(2).kind, DT_WATCH_IDLE);
}

Test(watch, samples_of_processes)
{
    static DtSlot slot;
    DtPlan plan = {0};
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    usleep(100000);
    DtWatchSample sample = dt_watch_sample(&plan, &slot, child);
    cr_expect(sample.alive);
    cr_expect_eq(sample.state, 'S');
    kill(child, SIGSTOP);
    usleep(100000);
    cr_expect_eq(dt_watch_sample(&plan, &slot, child).state, 'T');
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cr_expect_not(dt_watch_sample(&plan, &slot, 0).alive);

    child = fork();
    if (child == 0)
        for (volatile unsigned i = 0;; i++)
            ;
    for (int i = 0; i < 100 && dt_watch_sample(&plan, &slot, child).cpu_ns < 30000000u; i++)
        usleep(50000);
    cr_expect_geq(dt_watch_sample(&plan, &slot, child).cpu_ns, 30000000u);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void *spin(void *context)
{
    atomic_store((_Atomic int *)context, (int)gettid());
    for (volatile unsigned i = 0;; i++)
        ;
    return NULL;
}

/* A rank that waits for a thread of its own is judged by that; one that reads, by all threads. */
Test(watch, samples_of_threads)
{
    static DtSlot slot;
    DtPlan plan = {0};
    _Atomic int *worker =
        mmap(NULL, sizeof *worker, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, spin, (void *)worker);
        for (;;)
            pause();
    }
    atomic_store(&slot.phase, DT_PHASE_LOADING);
    for (int i = 0; i < 100 && dt_watch_sample(&plan, &slot, child).cpu_ns < 30000000u; i++)
        usleep(50000);
    cr_expect_geq(dt_watch_sample(&plan, &slot, child).cpu_ns, 30000000u);
    atomic_store(&slot.phase, DT_PHASE_RUNNING);
    DtWatchSample sample = dt_watch_sample(&plan, &slot, child);
    cr_expect(sample.state == 'S' && sample.cpu_ns < 30000000u);
    atomic_store(&slot.worker, atomic_load(worker));
    sample = dt_watch_sample(&plan, &slot, child);
    cr_expect(sample.state == 'R' && sample.cpu_ns >= 30000000u);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* How often a process has gone to sleep, which counts while it waits for a core. */
Test(watch, samples_of_a_loop_that_sleeps)
{
    static DtSlot slot;
    DtPlan plan = {0};
    uint64_t sleeps = 0;
    pid_t child = fork();
    if (child == 0)
        for (;;) {
            usleep(1000);
            for (volatile unsigned i = 0; i < 1000000; i++)
                ;
        }
    for (int i = 0; i < 200 && sleeps == 0; i++) {
        usleep(20000);
        sleeps = dt_watch_sample(&plan, &slot, child).sleeps;
    }
    cr_expect_gt(sleeps, 0u);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
