/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR that is read and interpreted. Some kernels compute values that can be checked by hand.
 * Hostile texts are refused, or run within the memory that they are given. tests/codegen/cuda.c
 * checks that results equal those of printed kernels, bit by bit. */
#include "kir/kir.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD(form, axes, pointers, integers, pieces, special)                                  \
    "kernel k " form " " axes "\npointers " pointers "\nintegers " integers "\npieces " pieces \
    "\nlanes 16 halves\nspecial " special "\n"
#define TAIL "targets 0\nscores 0\nsums 0\n"

/* x - max(x) of each row of 3 x 5; and the sum of all rows, in pieces of two rows. */
static const char row[] = HEAD("row", "2 1 3 5", "3 f32 f32 f32", "0", "rows 0 2 2",
                               "0") "nodes 4\nload f32 0 0 5 1 0x0p+0 0\nreduce max f32 0 0 1\nmap "
                                    "sub f32 0 1\nreduce sum f32 0 1 2\n"
                                    "stores 2\n1 2 0 0 0 5 1\n2 3 0 0 0 0 1\n" TAIL;
/* The sum of each column of 3 x 5 in 16 bits, added to the old contents. */
static const char column[] = HEAD("column", "2 1 5 3", "2 bf16 f32", "0", "none 0 0 0",
                                  "0") "nodes 2\nload bf16 0 0 1 5 0x0p+0 0\nreduce sum f32 0 0 "
                                       "1\nstores 1\n1 1 0 1 0 1 0\n" TAIL;
/* Sums elements i + 2 of 5, in reverse order; outside, the value is 9. */
static const char scan[] =
    HEAD("scan", "1 0 5", "2 f32 f32", "1", "none 0 0 0",
         "1") "nodes 1\nload f32 0 0 0 0x1.2p+3 1  1 2 1 0 0 0 5 - -\nstores 1\n1 0 0 0 0 1\n" TAIL;
/* The 2 largest of 5 elements, and their indices. */
static const char topk[] =
    HEAD("topk", "1 0 5", "3 i32 i32 i32", "0", "none 0 0 0",
         "2") "nodes 1\nload i32 0 0 1 0 0\nstores 2\n1 0 0 0 0 1\n2 0 0 0 1 1\n" TAIL;
/* Writes element i of 5 to place index[i] - q0 of 3. */
static const char scatter[] =
    HEAD("scatter", "1 1 5", "3 f32 i32 f32", "1", "none 0 0 0",
         "0") "nodes 2\nload f32 0 0 1 0x0p+0 0\nload i32 1 0 1 0 0\nstores 1\n2 0 0 0 0 0\n"
              "targets 1\n1 0 3 1\nscores 0\nsums 0\n";
static const char scatter_pieces[] =
    HEAD("scatter", "1 1 5", "3 f32 i32 f32", "1", "points 0 3 2",
         "0") "nodes 2\nload f32 0 0 1 0x0p+0 0\nload i32 1 0 1 0 0\nstores 1\n2 0 0 0 0 0\n"
              "targets 1\n1 0 3 1\nscores 0\nsums 0\n";
/* Two queries and three keys of two elements: each query's sum of values weighted by scores, and
 * the gradients of all keys, query by query. */
static const char attend[] = HEAD(
    "attend", "2 1 2 3", "5 f32 f32 f32 f32 f32", "0", "none 0 0 0",
    "0") "nodes 2\nscore\nreduce sum f32 0 1 2\nstores 1\n4 1 0 0 0 0 1\ntargets 0\n"
         "scores 1\n0  0 2 0 1 2 0  1 2 0 1 0 2\n"
         "sums 2\n0 f32 1 0 0  1 2 0 1 0 2  2 2 0 1 2 0\n0 f32 0 0 0  0 2 0 1 2 0  3 2 0 1 0 2\n";
/* Elements q0 + i of a random draw in step q1, iteration q2. */
static const char draw[] =
    HEAD("row", "1 1 5", "1 f32", "3", "none 0 0 0",
         "0") "nodes 1\nrng 12345678 4 1 0 1 2 1\nstores 1\n0 0 0 0 0 1\n" TAIL;

static const char *const texts[] = {row, column, scan, topk, scatter, scatter_pieces, attend, draw};
enum {
    TEXTS = sizeof texts / sizeof texts[0],
    POINTERS = 5,
    BYTES = 64,
    INTEGERS = 3,
    MOST = 1 << 16
};

typedef struct Memory {
    char *at[POINTERS];
    DtKirRange ranges[POINTERS];
    int64_t integers[INTEGERS];
} Memory;

/* Each pointer has its own memory of that many bytes, so that a sanitizer notices accesses outside
 * of it. */
static Memory new_memory(size_t bytes)
{
    Memory m = {.integers = {1, 2, 3}};
    for (int i = 0; i < POINTERS; i++) {
        m.at[i] = calloc(bytes, 1);
        m.ranges[i] = (DtKirRange){0, (int64_t)bytes};
    }
    return m;
}

static void free_memory(Memory *m)
{
    for (int i = 0; i < POINTERS; i++)
        free(m->at[i]);
}

static bool run(const char *text, const Memory *m)
{
    char why[200] = "";
    DtKirImage *image = dt_kir_read(text, strlen(text), why, sizeof why);
    cr_assert(image, "%s", why);
    DtKirKernel *kernel = dt_kir_find(image, "k");
    const DtKirCall call = {.pointers = m->at, .integers = m->integers, .ranges = m->ranges};
    cr_assert(kernel && !dt_kir_find(image, "other") && dt_kir_pointers(kernel) <= POINTERS);
    const bool stays = dt_kir_run(kernel, &call);
    dt_kir_free(image);
    return stays;
}

static void put(Memory *m, int pointer, int n, const float *from)
{
    memcpy(m->at[pointer], from, (size_t)n * sizeof *from);
}

static void expect(const Memory *m, int pointer, int n, const float *wanted)
{
    float got;
    for (int i = 0; i < n; i++) {
        memcpy(&got, m->at[pointer] + (size_t)i * sizeof got, sizeof got);
        cr_expect_eq(got, wanted[i], "element %d of pointer %d is %g, not %g", i, pointer,
                     (double)got, (double)wanted[i]);
    }
}

Test(kir, rows_with_sums_over_them)
{
    Memory m = new_memory(BYTES);
    put(&m, 0, 15, (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 1, 1, 1, 1});
    cr_assert(run(row, &m));
    expect(&m, 1, 15, (float[]){-4, -3, -2, -1, 0, -3, -2, -1, 0, -9, 0, 0, 0, 0, 0});
    expect(&m, 2, 5, (float[]){8, 10, 12, 14, 6});
    free_memory(&m);
}

Test(kir, columns_are_added_to_what_is_there)
{
    Memory m = new_memory(BYTES);
    for (int i = 0; i < 15; i++)
        memcpy(m.at[0] + 2 * i, &(uint16_t){0x4000}, 2); /* 2 */
    put(&m, 1, 5, (float[]){1, 2, 3, 4, 5});
    cr_assert(run(column, &m));
    expect(&m, 1, 5, (float[]){7, 8, 9, 10, 11});
    free_memory(&m);
}

Test(kir, scans_and_largest)
{
    Memory m = new_memory(BYTES);
    int found[4];
    put(&m, 0, 5, (float[]){1, 2, 3, 4, 5});
    cr_assert(run(scan, &m));
    expect(&m, 1, 5, (float[]){30, 27, 23, 18, 9});
    memcpy(m.at[0], (int[]){3, 8, -1, 8, 2}, 20);
    cr_assert(run(topk, &m));
    memcpy(found, m.at[1], 8);
    memcpy(found + 2, m.at[2], 8);
    cr_expect(found[0] == 8 && found[1] == 8 && found[2] == 1 && found[3] == 3);
    free_memory(&m);
}

Test(kir, sums_by_index)
{
    for (int i = 0; i < 2; i++) {
        Memory m = new_memory(BYTES);
        put(&m, 0, 5, (float[]){1, 2, 4, 8, 16});
        memcpy(m.at[1], (int[]){1, 3, 1, 4, 0}, 20); /* the indices are reduced by 1: 4 and 0 are
                                                      * then outside */
        cr_assert(run(i ? scatter_pieces : scatter, &m));
        expect(&m, 2, 4, (float[]){5, 0, 2, 0});
        free_memory(&m);
    }
}

Test(kir, attention)
{
    Memory m = new_memory(BYTES);
    put(&m, 0, 4, (float[]){1, 0, 0, 1});
    put(&m, 1, 6, (float[]){1, 2, 3, 4, 5, 6});
    cr_assert(run(attend, &m));
    expect(&m, 2, 4, (float[]){35, 44, 44, 56});
    expect(&m, 3, 6, (float[]){1, 2, 3, 4, 5, 6});
    expect(&m, 4, 3, (float[]){3, 7, 11});
    free_memory(&m);
}

Test(kir, the_number_of_the_step_is_an_argument_or_lies_there)
{
    Memory m = new_memory(BYTES);
    uint64_t step = 2;
    float here[5];
    char why[200];
    cr_assert(run(draw, &m));
    memcpy(here, m.at[0], sizeof here);
    for (int i = 0; i < 5; i++)
        cr_expect(here[i] >= 0 && here[i] < 1 && (i == 0 || here[i] != here[i - 1]));
    DtKirImage *image = dt_kir_read(draw, strlen(draw), why, sizeof why);
    const int64_t integers[] = {1, (int64_t)(uintptr_t)&step, 3};
    for (step = 1; step < 3; step++) {
        cr_assert(
            dt_kir_run(dt_kir_find(image, "k"), &(DtKirCall){m.at, integers, m.ranges, true, 0}));
        cr_expect_eq(memcmp(m.at[0], here, sizeof here) == 0, step == 2);
    }
    dt_kir_free(image);
    free_memory(&m);
}

Test(kir, nothing_outside_of_an_argument_is_touched)
{
    for (int i = 0; i < TEXTS; i++) { /* all of these have 5 elements of 2 bytes somewhere */
        Memory m = new_memory(7);
        cr_expect(!run(texts[i], &m), "text %d", i);
        free_memory(&m);
    }
}

/* ---- hostile texts ---- */

static uint32_t chance = 1;
static uint32_t random_below(uint32_t n)
{
    chance = chance * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)chance * n >> 32);
}

/* Replaces one word of the text; loops stay short. */
static char *edited(const char *text, bool extreme)
{
    static const char *const words[] = {"-1",   "0",      "1",     "2",      "3",   "5",   "15",
                                        "16",   "17",     "64",    "65",     "-",   "f32", "i32",
                                        "bf16", "map",    "load",  "reduce", "row", "sum", "axis",
                                        "rows", "points", "pairs", "nan"};
    static const char *const ends[] = {"9223372036854775807",
                                       "-9223372036854775808",
                                       "72057594037927936",
                                       "4294967295",
                                       "281474976710656",
                                       "99999999999999999999",
                                       "65536",
                                       "8192"};
    char *copy = malloc(strlen(text) + 64);
    size_t n = 0, starts[400];
    for (size_t i = 0; text[i] && n < 400; i++)
        if (text[i] > ' ' && (i == 0 || text[i - 1] <= ' '))
            starts[n++] = i;
    const size_t at = starts[random_below((uint32_t)n)], len = strcspn(text + at, " \n");
    const char *word = extreme ? ends[random_below(sizeof ends / sizeof ends[0])]
                               : words[random_below(sizeof words / sizeof words[0])];
    memcpy(copy, text, at);
    strcpy(copy + at, word);
    strcat(copy, text + at + len);
    return copy;
}

static bool run_hostile(const char *text, size_t len)
{
    char why[200] = "";
    DtKirImage *image = dt_kir_read(text, len, why, sizeof why);
    DtKirKernel *kernel = image ? dt_kir_find(image, "k") : NULL;
    cr_assert(image || why[0]);
    if (kernel && dt_kir_pointers(kernel) <= POINTERS && dt_kir_integers(kernel) <= INTEGERS) {
        Memory m = new_memory(BYTES);
        (void)dt_kir_run(kernel, &(DtKirCall){m.at, m.integers, m.ranges, false, MOST});
        free_memory(&m);
    }
    dt_kir_free(image);
    return image != NULL;
}

Test(kir, edited_texts_are_refused_or_stay_in_their_memory)
{
    uint32_t taken = 0, refused = 0;
    for (int i = 0; i < 40000; i++) {
        const bool extreme = i % 4 == 3;
        char *first = edited(texts[i % TEXTS], extreme),
             *text = i % 3 ? edited(first, extreme && i % 2) : strdup(first);
        *(run_hostile(text, strlen(text)) ? &taken : &refused) += 1;
        free(first);
        free(text);
    }
    cr_expect(taken > 2000 && refused > 2000, "%u were taken, %u refused", taken, refused);
}

/* A loop over more points than anybody would wait for. An access out of bounds ends the kernel at
 * once; if there is none, the limit on points does. */
Test(kir, a_kernel_ends_where_it_strays)
{
    static const struct Long {
        const char *text;
        bool outside;
    } longs[] = {
        {HEAD("row", "1 1 140737488355328", "2 f32 f32", "0", "none 0 0 0",
              "0") "nodes 1\nload f32 0 0 1 0x0p+0 0\nstores 1\n1 0 0 0 0 1\n" TAIL,
         true},
        {HEAD("topk", "1 0 140737488355328", "2 i32 i32", "0", "none 0 0 0",
              "2") "nodes 1\nload i32 0 0 1 0 0\nstores 1\n1 0 0 0 0 1\n" TAIL,
         true},
        {HEAD("row", "2 1 2 70368744177664", "2 f32 f32", "0", "rows 0 2 2",
              "0") "nodes 1\nload f32 0 0 0 1 0x0p+0 0\nstores 1\n1 0 0 0 0 0 1\n" TAIL,
         true},
        {HEAD("row", "2 1 2 70368744177664", "2 f32 f32", "0", "axis 1 140737488355328 1",
              "0") "nodes 2\nload f32 0 0 0 0 0x0p+0 0\nreduce sum f32 0 0 1\nstores 1\n1 1 0 0 0 "
                   "1 0\n" TAIL,
         false},
        {HEAD("scatter", "1 1 140737488355328", "2 f32 i32", "0", "none 0 0 0",
              "0") "nodes 2\nload f32 0 0 0 0x0p+0 0\nload i32 1 0 0 0 0\nstores 1\n0 0 0 0 0 0\n"
                   "targets 3\n1 - 140737488355328 0\n1 - 140737488355328 0\n1 - 140737488355328 "
                   "0\nscores 0\nsums 0\n",
         false},
    };
    for (size_t i = 0; i < sizeof longs / sizeof longs[0]; i++) {
        Memory m = new_memory(BYTES);
        char why[200] = "";
        DtKirImage *image = dt_kir_read(longs[i].text, strlen(longs[i].text), why, sizeof why);
        cr_assert(image, "%zu: %s", i, why);
        const DtKirCall call = {m.at, m.integers, m.ranges, false, longs[i].outside ? 0 : MOST};
        memcpy(m.at[1], (int[]){3}, 4);
        cr_expect(!dt_kir_run(dt_kir_find(image, "k"), &call), "text %zu", i);
        dt_kir_free(image);
        free_memory(&m);
    }
}

/* The index with which a piece begins would not fit into int64_t. */
Test(kir, pieces_of_too_many_elements_are_refused)
{
    static const char *const pieces[] = {"axis 1 2 3", "axis 1 65536 281474976710656"};
    for (int i = 0; i < 2; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel k row 2 1 3 5\npointers 2 f32 f32\nintegers 0\npieces %s\n"
                 "lanes 16 halves\nspecial 0\nnodes 2\nload f32 0 0 5 1 0x0p+0 0\n"
                 "reduce sum f32 0 0 1\nstores 1\n1 1 0 0 0 1 0\n" TAIL,
                 pieces[i]);
        cr_expect_eq(run_hostile(text, strlen(text)), i == 0, "%s", pieces[i]);
    }
}

Test(kir, texts_that_end_early_are_refused)
{
    for (int i = 0; i < TEXTS; i++)
        for (size_t len = 1; len + 2 < strlen(texts[i]); len++) {
            char *text = malloc(len); /* the text has no terminating zero */
            memcpy(text, texts[i], len);
            cr_expect(!run_hostile(text, len), "%zu bytes of text %d", len, i);
            free(text);
        }
}
