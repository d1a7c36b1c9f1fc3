/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks for oneDNN without the allocator. Executing a primitive makes and drops blocks each time; its C
 * interface offers no way around that, whatever the scratchpad mode is. So this program supplies what oneDNN
 * calls, and after the first steps every request is served from what was dropped before:
 *
 *   operator new, operator delete   C++ objects of at most 224 bytes (replacing them is part of the C++
 *                                   standard): in lists by size, per thread. Larger ones go to malloc
 *   posix_memalign, free            buffers of its code "gemm:jit", 17 KB to some MB: in a table. What is not
 *                                   in it goes to the allocator
 *
 * The program must export these symbols (meson: export_dynamic). Sanitizers bring functions of their own; their
 * builds use those. */
#include "runtime/new_pool.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { STEP = 64, CLASSES = 16 }; /* up to 1024 bytes */

/* In front of each block; keeps blocks aligned to 16 bytes. */
typedef struct Head {
    struct Head *next;
    size_t class; /* CLASSES: from malloc, not kept */
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
    if (head == NULL) {
        fputs("no memory left\n", stderr); /* C++ would throw; nobody here could catch */
        abort();
    }
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

enum { LINE = 64, N_BUFFERS = 256, LARGEST = 1 << 30 };

/* A buffer that posix_memalign gave out once. bytes: a power of two, 0 until the entry is complete. */
typedef struct Buffer {
    void *at;
    _Atomic(size_t) bytes;
    atomic_bool taken;
} Buffer;

static Buffer buffers[N_BUFFERS];
static _Atomic(uint32_t) n_buffers; /* entries begun; may be larger than N_BUFFERS */

extern void __libc_free(void *block);

static uint32_t count_buffers(void)
{
    uint32_t n = atomic_load_explicit(&n_buffers, memory_order_acquire);
    return n < N_BUFFERS ? n : N_BUFFERS;
}

static void *take_buffer(size_t align, size_t bytes)
{
    for (uint32_t i = 0, n = count_buffers(); i < n; i++) {
        Buffer *buffer = &buffers[i];
        bool taken = false;
        if (atomic_load_explicit(&buffer->bytes, memory_order_acquire) == bytes &&
            (uintptr_t)buffer->at % align == 0 &&
            atomic_compare_exchange_strong(&buffer->taken, &taken, true))
            return buffer->at;
    }
    return NULL;
}

static void add_buffer(void *at, size_t bytes)
{
    uint32_t i = atomic_load(&n_buffers) < N_BUFFERS ? atomic_fetch_add(&n_buffers, 1) : N_BUFFERS;
    if (i >= N_BUFFERS)
        return; /* the table is full: it goes back to the allocator */
    buffers[i].at = at;
    atomic_store(&buffers[i].taken, true);
    atomic_store_explicit(&buffers[i].bytes, bytes, memory_order_release);
}

int posix_memalign(void **ret_at, size_t align, size_t bytes)
{
    size_t size = align > LINE ? align : LINE;
    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0)
        return EINVAL;
    if (bytes > LARGEST || align > LARGEST)
        return (*ret_at = aligned_alloc(align, bytes)) ? 0 : ENOMEM;
    while (size < bytes)
        size *= 2;
    void *at = take_buffer(align, size);
    if (at == NULL && (at = aligned_alloc(align > LINE ? align : LINE, size)) != NULL)
        add_buffer(at, size);
    if (at == NULL)
        return ENOMEM;
    *ret_at = at;
    return 0;
}

/* A buffer that somebody gave to realloc may have left an entry behind, whose address is now another block's:
 * it counts if that is as large. */
void free(void *block)
{
    for (uint32_t i = 0, n = (uintptr_t)block % LINE == 0 && block ? count_buffers() : 0; i < n; i++) {
        Buffer *buffer = &buffers[i];
        size_t bytes = atomic_load_explicit(&buffer->bytes, memory_order_acquire);
        if (bytes > 0 && buffer->at == block && malloc_usable_size(block) >= bytes) {
            atomic_store_explicit(&buffer->taken, false, memory_order_release);
            return;
        }
    }
    __libc_free(block);
}

#endif

void dt_new_pool_link(void) {}
