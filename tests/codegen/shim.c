/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a CUDA kernel on a processor: each thread is a fiber. It runs until the threads of its
 * warp exchange values or wait for each other; then other threads run, in the order DT_SHIM_ORDER:
 * 0 ascending, 1 descending, 2 random. If the result of a kernel depends on the order of its
 * threads, which it must not, these orders give different results. Threads of a warp that do not
 * meet at one line are an error. Compiled into the shared object of the kernels
 * (codegen/cuda/kernels/host.h). With DT_SHIM_ADDRESS the address sanitizer is told which stack is
 * in use, and that memory of a block ends behind the dt_shim_room bytes that a launch has
 * (compilers name that sanitizer in different ways). With DT_SHIM_THREADS the thread sanitizer is
 * told what is in order: what all threads of a block, or of a warp, did before they waited for each
 * other, and what they do then; and launches. Not in order are blocks of one launch, and threads
 * that exchange values: that orders no memory on a device. Then this file is compiled without that
 * sanitizer, which would take the shim's own memory for the kernels'. */
#undef _FORTIFY_SOURCE /* without this, its longjmp regards a jump to another stack as an error */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifdef DT_SHIM_ADDRESS
void __sanitizer_start_switch_fiber(void **save, const void *stack, size_t size);
void __sanitizer_finish_switch_fiber(void *saved, const void **stack, size_t *size);
void __asan_poison_memory_region(const void *at, size_t size);
void __asan_unpoison_memory_region(const void *at, size_t size);
#endif

#ifdef DT_SHIM_THREADS
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *at);
void __tsan_release(void *at);
void __tsan_func_entry(void *from);
void __tsan_func_exit(void);
#endif

#ifndef DT_SHIM_ORDER
#define DT_SHIM_ORDER 0
#endif

typedef struct dt_shim_kernel {
    int blocks, threads;
    void (*thread)(char *const *, const long *);
} dt_shim_kernel;

int dt_shim_block, dt_shim_blocks, dt_shim_thread, dt_shim_room;
void dt_shim_launch(const dt_shim_kernel *kernel, char *const *p, const long *q);
void dt_shim_warp(int line);
void dt_shim_block_wait(int line);
int dt_shim_block_any(int x, int line);
float dt_shim_shuffle(float x, int from, int line);
void dt_shim_copy(void *to, const void *from, const void *aligned, int bytes);

enum { MOST = 1024, WARP = 32, STACK = 64 << 10, SOME_BLOCKS = 3, SHARED = 232448 };
/* What a thread does. WAITS: for its warp; STANDS: for its block. */
typedef enum State { READY, WAITS, STANDS, DONE } State;

/* Each block of a launch has its own memory and its own stacks. */
static char memory[SOME_BLOCKS][SHARED] __attribute__((aligned(128)));
char *dt_shim_shared = memory[0];

typedef struct Fiber {
    ucontext_t context; /* the context in which the fiber begins; under sanitizers also the one in
                         * which it stopped */
    jmp_buf left;       /* where it stopped: cheaper than a context, whose exchange makes two system
                         * calls */
    int begun;
    State state;        /* set only by set_state */
    int line, from; /* the line at which it waits; the thread whose value it wants */
    float gives;
    int meetings[2]; /* number of times that it has waited so far, for its warp and for its block */
} Fiber;

static Fiber fibers[MOST];
static char *stacks;
static uint64_t ready[MOST / 64]; /* one bit for each thread: whether its state is READY */
static ucontext_t home;
static jmp_buf home_left;
static const dt_shim_kernel *running;
static char *const *pointers;
static const long *integers;
static uint32_t chance = 12345;

/* ---- from fiber to fiber ---- */

#ifdef DT_SHIM_ADDRESS
static const void *home_stack;
static size_t home_size;
static void leave(void **ret_saved, const void *stack, size_t size)
{
    __sanitizer_start_switch_fiber(ret_saved, stack, size);
}
static void arrive(void *saved, const void **ret_stack, size_t *ret_size)
{
    __sanitizer_finish_switch_fiber(saved, ret_stack, ret_size);
}
static void limit_room(void)
{
    dt_shim_shared = memory[dt_shim_block];
    __asan_unpoison_memory_region(dt_shim_shared, SHARED);
    memset(dt_shim_shared, 0xff, SHARED); /* NaN */
    __asan_poison_memory_region(dt_shim_shared + dt_shim_room, (size_t)(SHARED - dt_shim_room));
}
#else
static const void *const home_stack;
static const size_t home_size;
static void leave(void **ret_saved, const void *stack, size_t size)
{
    (void)ret_saved, (void)stack, (void)size;
}
static void arrive(void *saved, const void **ret_stack, size_t *ret_size)
{
    (void)saved, (void)ret_stack, (void)ret_size;
}
static void limit_room(void)
{
    dt_shim_shared = memory[dt_shim_block];
    memset(dt_shim_shared, 0xff, SHARED); /* NaN */
}
#endif

static char *stack_of(int thread)
{
    return stacks + ((size_t)dt_shim_block * MOST + (size_t)thread) * STACK;
}

/* ---- order of accesses, for the thread sanitizer ---- */

#ifdef DT_SHIM_THREADS
enum { NO_SYNC = 1 };
static void *home_thread, *threads[SOME_BLOCKS][MOST];
static char began, ended, meetings[2][SOME_BLOCKS][MOST][2];

/* Tells the sanitizer that accesses from here on belong to this thread, or to `home` if it is
 * negative. */
static void becomes(int thread)
{
    if (!home_thread)
        home_thread = __tsan_get_current_fiber();
    if (thread >= 0 && !threads[dt_shim_block][thread])
        threads[dt_shim_block][thread] = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(thread < 0 ? home_thread : threads[dt_shim_block][thread], NO_SYNC);
}

/* Returns the object by which a warp or block meets. There are two in turn: some threads are
 * already in the next meeting before the others have left this one. */
static char *place_of(int thread, int whole)
{
    return &meetings[whole][dt_shim_block][whole ? 0 : thread / WARP]
                    [fibers[thread].meetings[whole] % 2];
}
static void comes(int thread, int whole) { __tsan_release(place_of(thread, whole)); }
static void goes(int thread, int whole)
{
    __tsan_acquire(place_of(thread, whole));
    fibers[thread].meetings[whole]++;
}
/* These four tell the sanitizer that each block is ordered after the beginning of its launch, and
 * the end of the launch after each block. */
static void begins(void) { __tsan_release(&began); }
static void has_begun(void) { __tsan_acquire(&began); }
static void ends(void) { __tsan_release(&ended); }
static void has_ended(void) { __tsan_acquire(&ended); }
/* The sanitizer regards an access in this function as one of its caller. */
static void enters(void *from) { __tsan_func_entry(from); }
static void leaves(void) { __tsan_func_exit(); }
#else
static void becomes(int thread) { (void)thread; }
static void comes(int thread, int whole) { (void)thread, (void)whole; }
static void goes(int thread, int whole) { (void)thread, (void)whole; }
static void begins(void) {}
static void has_begun(void) {}
static void ends(void) {}
static void has_ended(void) {}
static void enters(void *from) { (void)from; }
static void leaves(void) {}
#endif

static void set_state(int thread, State state)
{
    const uint64_t bit = (uint64_t)1 << thread % 64;
    fibers[thread].state = state;
    ready[thread / 64] = state == READY ? ready[thread / 64] | bit : ready[thread / 64] & ~bit;
}

/* ---- there and back ---- */

/* Sanitizers can follow exchanges of contexts, but not jumps between stacks. */
#if defined DT_SHIM_ADDRESS || defined DT_SHIM_THREADS
static void switch_home(Fiber *me) { swapcontext(&me->context, &home); }
static void switch_to(Fiber *it) { swapcontext(&home, &it->context); }
#else
static void switch_home(Fiber *me)
{
    if (_setjmp(me->left) == 0)
        _longjmp(home_left, 1);
}
static void switch_to(Fiber *it)
{
    if (_setjmp(home_left) != 0)
        return;
    if (it->begun)
        _longjmp(it->left, 1);
    it->begun = 1;
    setcontext(&it->context);
}
#endif

static void to_home(int me)
{
    void *saved = NULL;
    becomes(-1);
    leave(fibers[me].state == DONE ? NULL : &saved, home_stack, home_size);
    switch_home(&fibers[me]);
    arrive(saved, NULL, NULL);
}

static void to_fiber(int it)
{
    void *saved = NULL;
    becomes(it);
    leave(&saved, stack_of(it), STACK);
    switch_to(&fibers[it]);
    arrive(saved, NULL, NULL);
}

static void run(void)
{
#ifdef DT_SHIM_ADDRESS
    arrive(NULL, &home_stack, &home_size);
#endif
    has_begun();
    running->thread(pointers, integers);
    ends();
    set_state(dt_shim_thread, DONE);
    to_home(dt_shim_thread);
}

/* ---- functions that threads call ---- */

static float wait_for_warp(float x, int from, int line)
{
    const int me = dt_shim_thread;
    set_state(me, WAITS);
    fibers[me].line = line;
    fibers[me].from = from;
    fibers[me].gives = x;
    to_home(me);
    return fibers[fibers[me].from].gives;
}

void dt_shim_warp(int line)
{
    comes(dt_shim_thread, 0);
    (void)wait_for_warp(0, dt_shim_thread, line);
    goes(dt_shim_thread, 0);
}

float dt_shim_shuffle(float x, int from, int line) { return wait_for_warp(x, from, line); }

void dt_shim_block_wait(int line)
{
    const int me = dt_shim_thread;
    set_state(me, STANDS);
    fibers[me].line = line;
    comes(me, 1);
    to_home(me);
    goes(me, 1);
}

/* Returns whether x is not 0 in any thread of the block. None continues before all have stored
 * their x, and none stores another one before all have read the result. */
int dt_shim_block_any(int x, int line)
{
    static int any, going;
    if (going == 0)
        any = 0;
    any |= x;
    going++;
    dt_shim_block_wait(line);
    const int came_to = any;
    if (--going == 0)
        any = 0;
    dt_shim_block_wait(-line); /* waits until all have read their values */
    return came_to;
}

static void fail(const char *what, int thread)
{
    fprintf(stderr, "shim: %s: block %d, thread %d, line %d\n", what, dt_shim_block, thread,
            fibers[thread].line);
    abort();
}

void dt_shim_copy(void *to, const void *from, const void *aligned, int bytes)
{
    const int n = bytes < 16 ? bytes : 16;
    if ((uintptr_t)aligned % (uintptr_t)n)
        fail("an access of 16 bytes is not aligned", dt_shim_thread);
    enters(__builtin_return_address(0));
    memcpy(to, from, (size_t)n);
    leaves();
}

/* Lets the threads of a warp continue if all of them wait. Values stay valid until each thread has
 * continued and waits again, because no thread waits twice before that. While values are being
 * read, the threads of the warp continue one by one. */
static void let_go(int warp)
{
    static float given[WARP];
    for (int i = 0; i < WARP; i++)
        if (fibers[warp + i].state == READY)
            return;
    for (int i = 0; i < WARP; i++) {
        if (fibers[warp + i].state == DONE)
            fail("others of its warp wait for a thread that has ended", warp + i);
        if (fibers[warp + i].line != fibers[warp].line)
            fail("threads of a warp wait at different lines", warp + i);
        if (fibers[warp + i].from / WARP * WARP != warp)
            fail("a value is wanted of another warp", warp + i);
        given[i] = fibers[fibers[warp + i].from].gives;
    }
    for (int i = 0; i < WARP; i++) { /* each thread reads the value that it wanted */
        fibers[warp + i].gives = given[i];
        fibers[warp + i].from = warp + i;
        set_state(warp + i, READY);
    }
}

/* Lets the threads of the block continue if all of them wait for the block. */
static void let_block_go(int n)
{
    for (int i = 0; i < n; i++)
        if (fibers[i].state == READY || fibers[i].state == WAITS)
            return;
    for (int i = 0; i < n; i++) {
        if (fibers[i].state == DONE)
            fail("others of its block wait for a thread that has ended", i);
        if (fibers[i].line != fibers[0].line)
            fail("threads of a block wait at different lines", i);
    }
    for (int i = 0; i < n; i++)
        set_state(i, READY);
}

/* Returns the first thread from `from` to n - 1 that is ready; -1: there is none. */
static int first_ready(int from, int n)
{
    for (int word = from / 64; word * 64 < n; word++) {
        const uint64_t here =
            ready[word] & (word == from / 64 ? ~(uint64_t)0 << from % 64 : ~(uint64_t)0);
        if (here)
            return word * 64 + __builtin_ctzll(here);
    }
    return -1;
}

static int last_ready(int n)
{
    for (int word = (n - 1) / 64; word >= 0; word--)
        if (ready[word])
            return word * 64 + 63 - __builtin_clzll(ready[word]);
    return -1;
}

/* Returns which of the n threads runs next; -1: none is ready. */
static int next_of(int n)
{
    if (DT_SHIM_ORDER == 0)
        return first_ready(0, n);
    if (DT_SHIM_ORDER == 1)
        return last_ready(n);
    chance = chance * 1664525u + 1013904223u;
    const int from = (int)((chance >> 8) % (uint32_t)n), next = first_ready(from, n);
    return next >= 0 ? next : first_ready(0, n);
}

static void run_block(int n)
{
    limit_room();
    begins();
    for (int i = 0; i < n; i++) {
        set_state(i, READY);
        fibers[i].begun = 0;
        fibers[i].meetings[0] = fibers[i].meetings[1] = 0;
        getcontext(&fibers[i].context);
        fibers[i].context.uc_stack.ss_sp = stack_of(i);
        fibers[i].context.uc_stack.ss_size = STACK;
        fibers[i].context.uc_link = NULL;
        makecontext(&fibers[i].context, run, 0);
    }
    for (int at; (at = next_of(n)) >= 0;) {
        dt_shim_thread = at;
        to_fiber(at);
        if (fibers[at].state == WAITS)
            let_go(at / WARP * WARP);
        else
            for (int i = at / WARP * WARP; i < at / WARP * WARP + WARP; i++)
                if (fibers[i].state == WAITS)
                    let_go(at / WARP * WARP);
        if (fibers[at].state == STANDS)
            let_block_go(n);
    }
    for (int i = 0; i < n; i++)
        if (fibers[i].state != DONE)
            fail("it waits for others, which do not come", i);
}

void dt_shim_launch(const dt_shim_kernel *kernel, char *const *p, const long *q)
{
    if (!stacks)
        stacks = malloc((size_t)SOME_BLOCKS * MOST * STACK);
    if (!stacks || kernel->threads > MOST || kernel->threads % WARP)
        abort();
    running = kernel, pointers = p, integers = q;
    /* more blocks are not needed: the kernel's loops over items do the rest */
    dt_shim_blocks = kernel->blocks < SOME_BLOCKS ? kernel->blocks : SOME_BLOCKS;
    for (int i = 0; i < dt_shim_blocks; i++) {
        dt_shim_block = DT_SHIM_ORDER == 1 ? dt_shim_blocks - 1 - i : i;
        run_block(kernel->threads);
    }
    has_ended();
}
