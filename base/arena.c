/* SPDX-License-Identifier: Apache-2.0 */
/* A bump allocator over a list of blocks. Blocks grow with the arena, so that a compilation makes
 * few. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct Block {
    struct Block *next;
    size_t size, used;
    _Alignas(16) char bytes[];
} Block;

struct DtArena {
    Block *first, *current;
    Block *spare; /* blocks of freed arenas; zeroed when reused */
    DtArena *parent;
    size_t used, peak;
};

enum { FIRST = 16384, SMALL = 256 << 10, LARGE = 2 << 20 };

void dt_arena_exhausted(size_t bytes)
{
    fprintf(stderr, "out of memory: the system refused %zu bytes (see `ulimit -v` too)\n", bytes);
    exit(1);
}

/* Blocks from SMALL on consist of whole large pages, if the system has them (a hint, which may
 * fail): the page faults of small pages would cost more time than the work in the memory. */
static bool is_mapped(size_t size) { return sizeof(Block) + size >= SMALL; }

static size_t mapped_bytes(size_t size)
{
    return (sizeof(Block) + size + LARGE - 1) / LARGE * LARGE;
}

static Block *map_block(size_t size)
{
    const size_t bytes = mapped_bytes(size), all = bytes + LARGE;
    char *at =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    const size_t before = -(uintptr_t)at % LARGE;
    if (before)
        munmap(at, before);
    munmap(at + before + bytes, all - before - bytes);
    (void)madvise(at + before, bytes, MADV_HUGEPAGE);
    return (Block *)(void *)(at + before);
}

static Block *block_new(size_t size)
{
    Block *block = is_mapped(size) ? map_block(size) : calloc(1, sizeof(Block) + size);
    if (!block)
        dt_arena_exhausted(size);
    block->size = is_mapped(size) ? mapped_bytes(size) - sizeof(Block) : size;
    return block;
}

static void block_free(Block *block)
{
    if (is_mapped(block->size))
        munmap(block, mapped_bytes(block->size));
    else
        free(block);
}

static void clear(Block *block)
{
    memset(block->bytes, 0, block->used);
    block->used = 0;
}

/* Returns a block for at least `need` bytes: a spare one, the smallest that has `wanted` bytes or
 * else the largest, if it is large enough; otherwise one of the parent arena, or a new one. */
static Block *block_for(DtArena *arena, size_t need, size_t wanted)
{
    Block **best = NULL;
    for (Block **at = &arena->spare; *at; at = &(*at)->next) {
        const size_t size = (*at)->size, found = best ? (*best)->size : 0;
        if (size >= need && (size < wanted ? size > found : found < wanted || size < found))
            best = at;
    }
    if (!best)
        return arena->parent ? block_for(arena->parent, need, wanted)
                             : block_new(need > wanted ? need : wanted);
    Block *block = *best;
    *best = block->next;
    block->next = NULL;
    clear(block);
    return block;
}

DtArena *dt_arena_child(DtArena *parent)
{
    DtArena *arena = calloc(1, sizeof *arena);
    if (!arena)
        dt_arena_exhausted(sizeof *arena);
    arena->parent = parent;
    arena->first = arena->current = block_for(arena, FIRST, FIRST);
    return arena;
}

DtArena *dt_arena_new(void) { return dt_arena_child(NULL); }

static void free_blocks(Block *block)
{
    for (Block *next; block; block = next) {
        next = block->next;
        block_free(block);
    }
}

/* Adds the blocks of the list to the spare blocks of the arena `to`. */
static void give_back(DtArena *to, Block *block)
{
    for (Block *next; block; block = next) {
        next = block->next;
        block->next = to->spare;
        to->spare = block;
    }
}

void dt_arena_free(DtArena *arena)
{
    if (!arena)
        return;
    if (arena->parent) {
        give_back(arena->parent, arena->first);
        give_back(arena->parent, arena->spare);
    } else {
        free_blocks(arena->first);
        free_blocks(arena->spare);
    }
    free(arena);
}

void dt_arena_reset(DtArena *arena)
{
    for (Block *block = arena->first; block; block = block->next)
        clear(block);
    arena->current = arena->first;
    arena->used = 0;
}

static size_t rounded(size_t bytes) { return bytes ? (bytes + 15) & ~(size_t)15 : 16; }

static void take(DtArena *arena, size_t bytes)
{
    arena->current->used += bytes;
    arena->used += bytes;
    if (arena->used > arena->peak)
        arena->peak = arena->used;
}

void *dt_arena_alloc(DtArena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) {
        fprintf(stderr, "out of memory: %zu bytes asked for\n", bytes);
        exit(1);
    }
    size_t need = rounded(bytes);
    while (arena->current->size - arena->current->used < need) {
        if (!arena->current->next || arena->current->next->size < need) {
            size_t size =
                arena->current->size < 8u << 20 ? arena->current->size * 2 : arena->current->size;
            Block *block = block_for(arena, need, size);
            block->next = arena->current->next;
            arena->current->next = block;
        }
        arena->current = arena->current->next;
    }
    void *at = arena->current->bytes + arena->current->used;
    take(arena, need);
    return at;
}

char *dt_arena_strndup(DtArena *arena, const char *text, size_t len)
{
    char *copy = dt_arena_alloc(arena, len + 1);
    if (len)
        memcpy(copy, text, len);
    return copy;
}

char *dt_arena_vprintf(DtArena *arena, const char *format, va_list args)
{
    char most[200]; /* a short text needs to be formatted only once */
    va_list second;
    va_copy(second, args);
    int len = vsnprintf(most, sizeof most, format, args);
    char *text = dt_arena_alloc(arena, (size_t)(len < 0 ? 0 : len) + 1);
    if (len > 0 && (size_t)len < sizeof most)
        memcpy(text, most, (size_t)len);
    else if (len > 0)
        vsnprintf(text, (size_t)len + 1, format, second);
    va_end(second);
    return text;
}

char *dt_arena_printf(DtArena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = dt_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

size_t dt_arena_used(const DtArena *arena) { return arena->used; }
size_t dt_arena_peak(const DtArena *arena) { return arena->peak; }

void *dt_arena_grow(DtArena *arena, void *items, uint32_t *cap, size_t item_bytes)
{
    if (*cap > UINT32_MAX / 2) {
        fputs("out of memory: a list of over 2^31 items\n", stderr);
        exit(1);
    }
    uint32_t old = *cap;
    *cap = old ? old * 2 : 8;
    const Block *block = arena->current;
    const size_t has = rounded(old * item_bytes), wants = rounded(*cap * item_bytes);
    if (old && (char *)items + has == block->bytes + block->used &&
        wants - has <= block->size - block->used) {
        take(arena, wants - has); /* grows in place: items are the newest allocation in the block */
        return items;
    }
    void *copy = dt_arena_alloc(arena, *cap * item_bytes);
    if (old)
        memcpy(copy, items, old * item_bytes);
    return copy;
}
