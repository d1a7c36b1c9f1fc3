/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator of the process, replaced by one that counts its calls in `calls`. For one file of a
 * program with the runtime (whose posix_memalign, in new_pool.c, calls aligned_alloc), and not for
 * builds with sanitizers, which have allocators of their own. */
#ifndef DT_TESTS_COUNT_CALLS_H
#define DT_TESTS_COUNT_CALLS_H

#include "runtime/new_pool.h"

#include <stdatomic.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *at, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static atomic_long calls;

void *malloc(size_t bytes)
{
    void *at = dt_new_pool_serve(bytes);
    if (at)
        return at;
    calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    calls++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *at, size_t bytes)
{
    calls++;
    return __libc_realloc(at, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    calls++;
    return __libc_memalign(align, bytes);
}

#endif
