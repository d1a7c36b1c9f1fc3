/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks for oneDNN and OpenBLAS without the allocator. Executing a primitive makes and drops
 * blocks each time; oneDNN's C interface offers no way around that, whatever the scratchpad mode
 * is. OpenBLAS does so for small products on AVX-512 (0.3.29). So this program supplies what they
 * call, and after the first steps every request is served from what was dropped before:
 *
 *   operator new, operator delete   C++ objects of at most 224 bytes (replacing them is part of the
 *                                   C++ standard): in lists by size, per thread. Larger ones go to
 *                                   malloc
 *   posix_memalign, free            buffers of its code "gemm:jit", 17 KB to some MB: in a table.
 *                                   What is not in it goes to the allocator
 *   malloc                          within calls of OpenBLAS the same buffers
 *
 * The program must export these symbols (meson: export_dynamic). Sanitizers bring functions of
 * their own; their builds use those. */
#include "runtime/new_pool.h"

#include "base/arena.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { STEP = 64, CLASSES = 16 }; /* up to 1024 bytes */

/* Precedes each block and keeps blocks aligned to 16 bytes. */
typedef struct Head {
    struct Head *next;
    size_t class; /* CLASSES: the block came from malloc and is not kept */
} Head;

_Static_assert(sizeof(Head) == 16, "blocks stay aligned");

static _Thread_local Head *kept[CLASSES];

void *dt_new_pool_take(size_t bytes) __asm__("_Znwm");
void dt_new_pool_drop(void *block) __asm__("_ZdlPv");
void dt_new_pool_drop_sized(void *block, size_t bytes) __asm__("_ZdlPvm");

void *dt_new_pool_take(size_t bytes)
{
    size_t class = bytes == 0 ? 0 : (bytes - 1) / STEP;
    Head *head = class < CLASSES ? kept[class] : NULL;
    if (head) {
        kept[class] = head->next;
        return head + 1;
    }
    size_t room = class < CLASSES ? (class + 1) * STEP : bytes;
    head = room <= SIZE_MAX - sizeof *head ? malloc(room + sizeof *head) : NULL;
    if (head == NULL)
        dt_arena_exhausted(bytes); /* C++ would throw an exception here, but no caller could catch
                                    * it */
    head->class = class < CLASSES ? class : CLASSES;
    return head + 1;
}

void dt_new_pool_drop(void *block)
{
    if (block == NULL)
        return;
    Head *head = (Head *)block - 1;
    if (head->class == CLASSES) {
        free(head);
        return;
    }
    head->next = kept[head->class];
    kept[head->class] = head;
}

void dt_new_pool_drop_sized(void *block, size_t bytes)
{
    (void)bytes;
    dt_new_pool_drop(block);
}

/* ---- buffers ---- */

enum { LINE = 64, N_BUFFERS = 1 << 14, LARGEST = 1 << 30, SIZES = 31 };

/* A buffer of 1 << size bytes that posix_memalign once returned; at: NULL if this place of the
 * table is empty. */
typedef struct Buffer {
    void *at;
    struct Buffer *next; /* the next of the free buffers of its size */
    uint8_t size;
    bool taken;
} Buffer;

/* Hash table by address, with linear probing; entries are never removed. Code that oneDNN generates
 * is in such buffers too: tens of them for each shape of a product, for the lifetime of the
 * process. */
static Buffer buffers[N_BUFFERS];
static Buffer *unused[SIZES];
static _Atomic(uint32_t) n_buffers;
static atomic_flag busy = ATOMIC_FLAG_INIT;

extern void __libc_free(void *block);

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        continue;
}

static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

/* Returns the place of the buffer in the table, or the place where it would be stored. */
static Buffer *find_buffer(const void *at)
{
    uint32_t i = (uint32_t)(((uintptr_t)at / LINE * 0x9e3779b97f4a7c15u) >> 40) % N_BUFFERS;
    while (buffers[i].at && buffers[i].at != at)
        i = (i + 1) % N_BUFFERS;
    return &buffers[i];
}

static void *take_buffer(size_t align, uint8_t size)
{
    Buffer *found = NULL;
    lock();
    for (Buffer **at = &unused[size]; *at && !found; at = found ? at : &(*at)->next)
        if ((uintptr_t)(*at)->at % align == 0) {
            found = *at;
            *at = found->next;
            found->taken = true;
        }
    unlock();
    return found ? found->at : NULL;
}

static void add_buffer(void *at, uint8_t size)
{
    lock();
    Buffer *buffer = find_buffer(at);
    /* if the table is full, the buffer is not recorded, and goes back to the allocator when it is
     * freed */
    if (buffer->at == NULL && n_buffers < N_BUFFERS / 2) {
        *buffer = (Buffer){.at = at, .size = size, .taken = true};
        n_buffers++;
    } else if (buffer->at && buffer->taken) { /* a stale entry, of a block that realloc has moved
                                               * away */
        buffer->size = size;
    }
    unlock();
}

int posix_memalign(void **ret_at, size_t align, size_t bytes)
{
    uint8_t size = 0;
    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0)
        return EINVAL;
    if (bytes > LARGEST || align > LARGEST)
        return (*ret_at = aligned_alloc(align, bytes)) ? 0 : ENOMEM;
    while ((size_t)1 << size < bytes || (size_t)1 << size < align || (size_t)1 << size < LINE)
        size++;
    void *at = take_buffer(align, size);
    if (at == NULL && (at = aligned_alloc(align > LINE ? align : LINE, (size_t)1 << size)) != NULL)
        add_buffer(at, size);
    if (at == NULL)
        return ENOMEM;
    *ret_at = at;
    return 0;
}

/* A buffer that was passed to realloc may have left an entry whose address now belongs to
 * another block: it is valid if that has the same size. */
void free(void *block)
{
    bool is_ours = false;
    if (block && (uintptr_t)block % LINE == 0 && n_buffers > 0) {
        lock();
        Buffer *buffer = find_buffer(block);
        is_ours =
            buffer->at && buffer->taken && malloc_usable_size(block) >= (size_t)1 << buffer->size;
        if (is_ours) {
            buffer->taken = false;
            buffer->next = unused[buffer->size];
            unused[buffer->size] = buffer;
        }
        unlock();
    }
    if (!is_ours)
        __libc_free(block);
}

/* ---- malloc ---- */

extern void *__libc_malloc(size_t bytes);

static _Thread_local bool serves;

void dt_new_pool_begin(void) { serves = true; }
void dt_new_pool_end(void) { serves = false; }

void *dt_new_pool_serve(size_t bytes)
{
    void *at = NULL;
    return serves && posix_memalign(&at, LINE, bytes) == 0 ? at : NULL;
}

/* A weak symbol: tests that count allocations define their own. */
__attribute__((weak)) void *malloc(size_t bytes)
{
    void *at = dt_new_pool_serve(bytes);
    return at ? at : __libc_malloc(bytes);
}

#else

void dt_new_pool_begin(void) {}
void dt_new_pool_end(void) {}

void *dt_new_pool_serve(size_t bytes)
{
    (void)bytes;
    return NULL;
}

#endif

void dt_new_pool_link(void) {}
