/* SPDX-License-Identifier: Apache-2.0 */
/* Calls kernels of a text once for each way in which a plan calls them, with each address in memory of its own that is
 * exactly as long as the plan says, so that a sanitizer sees what lies outside. What comes out is looked at elsewhere
 * (cuda.c, which writes CALLS, and builds this with the text and the shim):
 *
 *   CALL(symbol, bytes of a block's memory, (lengths of memory, ..), (integers, ..)) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include CALLS

enum { MOST = 256 };

extern int dt_shim_room;

/* Words that are small whole numbers, so that many are indices of something, or floats, in turn by chance. */
static char *memory_of(int64_t bytes, uint32_t seed)
{
    char *at = malloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i += 4) {
        seed = seed * 1664525u + 1013904223u;
        const float number = (float)(int32_t)seed * 0x1p-31f;
        uint32_t word = seed >> 29;
        if (seed >> 20 & 1)
            memcpy(&word, &number, sizeof word);
        memcpy(at + i, &word, (size_t)(bytes - i < 4 ? bytes - i : 4));
    }
    return at;
}

typedef void Kernel(char *const *p, const long *q);

static void call(Kernel *kernel, int room, const int64_t *lengths, const long *integers)
{
    char *p[MOST];
    int n = 0;
    for (; lengths[n] >= 0; n++)
        p[n] = memory_of(lengths[n], (uint32_t)n);
    dt_shim_room = room;
    kernel(p, integers);
    for (int i = 0; i < n; i++)
        free(p[i]);
}

#define CALL(symbol, room, lengths, integers) void symbol(char *const *p, const long *q);
ALL_CALLS
#undef CALL

int main(void)
{
    int n = 0;
#define LIST(...) {__VA_ARGS__}
#define CALL(symbol, room, lengths, integers)      \
    {                                              \
        const int64_t bytes[] = LIST lengths;      \
        const long numbers[] = LIST integers;      \
        call(symbol, room, bytes, numbers);        \
        n++;                                       \
    }
    ALL_CALLS
    printf("%d calls\n", n);
    return 0;
}
