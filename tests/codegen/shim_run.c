/* SPDX-License-Identifier: Apache-2.0 */
/* Calls kernels of a text once for each way in which a plan calls them. With APART each address has
 * memory of its own, exactly as long as the plan says, so that a sanitizer notices accesses outside
 * of it. Without APART the addresses overlap as in the plan. cuda.c compares the results; it also
 * writes CALLS, and builds this file with the text and the shim:
 *
 *   CALL(symbol, bytes of a block's memory, ({arena, place, length}, ..), (integers, ..)) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include CALLS

enum { MOST = 256, ARENAS = 64, LINE = 128 };

typedef struct Range { int arena; long at, bytes; } Range; /* bytes -1 marks the end of the list */

extern int dt_shim_room;

/* Fills memory with words, some of which are small whole numbers (so that many are valid indices),
 * others floats, chosen at random. */
static void fill(char *at, int64_t bytes, uint32_t seed)
{
    for (int64_t i = 0; i < bytes; i += 4) {
        seed = seed * 1664525u + 1013904223u;
        const float number = (float)(int32_t)seed * 0x1p-31f;
        uint32_t word = seed >> 29;
        if (seed >> 20 & 1)
            memcpy(&word, &number, sizeof word);
        memcpy(at + i, &word, (size_t)(bytes - i < 4 ? bytes - i : 4));
    }
}

#ifdef APART
static void map(const Range *ranges, char **ret_p)
{
    for (int i = 0; ranges[i].bytes >= 0; i++)
        ret_p[i] = malloc((size_t)ranges[i].bytes);
}
static void unmap(const Range *ranges, char *const *p)
{
    for (int i = 0; ranges[i].bytes >= 0; i++)
        free(p[i]);
}
#else
static void map(const Range *ranges, char **ret_p)
{
    static char *arenas[ARENAS];
    static long lengths[ARENAS];
    for (const Range *r = ranges; r->bytes >= 0; r++) {
        if (r->arena >= ARENAS)
            abort();
        if (r->at + r->bytes > lengths[r->arena]) {
            free(arenas[r->arena]);
            lengths[r->arena] = (r->at + r->bytes + LINE - 1) / LINE * LINE;
            arenas[r->arena] = aligned_alloc(LINE, (size_t)lengths[r->arena]);
        }
    }
    for (int i = 0; ranges[i].bytes >= 0; i++)
        ret_p[i] = arenas[ranges[i].arena] + ranges[i].at;
}
static void unmap(const Range *ranges, char *const *p) { (void)ranges, (void)p; }
#endif

typedef void Kernel(char *const *p, const long *q);

static void call(Kernel *kernel, int room, const Range *ranges, const long *integers)
{
    char *p[MOST];
    map(ranges, p);
    for (int i = 0; ranges[i].bytes >= 0; i++)
        fill(p[i], ranges[i].bytes, (uint32_t)i);
    dt_shim_room = room;
    kernel(p, integers);
    unmap(ranges, p);
}

#define CALL(symbol, room, ranges, integers) void symbol(char *const *p, const long *q);
ALL_CALLS
#undef CALL

int main(void)
{
    int n = 0;
#define LIST(...) {__VA_ARGS__}
#define CALL(symbol, room, ranges, integers)       \
    {                                              \
        const Range memory[] = LIST ranges;        \
        const long numbers[] = LIST integers;      \
        call(symbol, room, memory, numbers);       \
        n++;                                       \
    }
    ALL_CALLS
    printf("%d calls\n", n);
    return 0;
}
