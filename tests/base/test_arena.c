/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas hand out zeroed, aligned memory that does not overlap, also after a reset; interning gives
 * one pointer per text. */
#include "base/arena.h"
#include "base/intern.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_zero(const unsigned char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i])
            return false;
    return true;
}

Test(arena, zeroed_aligned_disjoint)
{
    enum { N = 2000 };
    DtArena *arena = dt_arena_new();
    unsigned char *at[N];
    size_t size[N], total = 0;
    for (int round = 0; round < 3; round++) {
        srand(7);
        for (int i = 0; i < N; i++) {
            size[i] = i % 500 == 499 ? 1 << 20 : (size_t)(rand() % 900);
            at[i] = dt_arena_alloc(arena, size[i]);
            total += size[i];
            cr_assert_eq((uintptr_t)at[i] % 16, 0);
            cr_assert(is_zero(at[i], size[i]), "round %d, block %d", round, i);
            memset(at[i], 1 + i % 255, size[i]);
        }
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < size[i]; j++)
                cr_assert_eq(at[i][j], 1 + i % 255);
        cr_assert_geq(dt_arena_used(arena) * (size_t)(round + 1), total);
        dt_arena_reset(arena);
        cr_assert_eq(dt_arena_used(arena), 0);
    }
    cr_assert_geq(dt_arena_peak(arena), total / 3);
    dt_arena_free(arena);
}

/* Freed memory of a child goes back to the parent and is zeroed; memory of other children does not
 * change. */
Test(arena, children)
{
    DtArena *arena = dt_arena_new();
    unsigned char *kept = dt_arena_alloc(arena, 1000);
    memset(kept, 7, 1000);
    for (int round = 0; round < 20; round++) {
        DtArena *child = dt_arena_child(arena), *inner = dt_arena_child(child);
        for (size_t size = 10; size < (size_t)1 << 21; size *= 3) {
            unsigned char *a = dt_arena_alloc(child, size), *b = dt_arena_alloc(inner, size);
            cr_assert(is_zero(a, size) && is_zero(b, size), "round %d, %zu bytes", round, size);
            memset(a, 1, size);
            memset(b, 2, size);
            cr_assert(a + size <= b || b + size <= a);
        }
        dt_arena_free(inner);
        unsigned char *again = dt_arena_alloc(child, 1 << 20),
                      *own = dt_arena_alloc(arena, 1 << 18);
        cr_assert(is_zero(again, 1 << 20) && is_zero(own, 1 << 18), "round %d", round);
        memset(again, 3, 1 << 20);
        memset(own, 4, 1 << 18);
        dt_arena_free(child);
        cr_assert_eq(own[0], 4);
        cr_assert_eq(own[(1 << 18) - 1], 4);
    }
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(kept[i], 7);
    dt_arena_free(arena);
}

Test(arena, free_of_null) { dt_arena_free(NULL); }

Test(arena, too_much_ends_the_process, .exit_code = 1)
{
    DtArena *arena = dt_arena_new();
    dt_arena_alloc(arena, SIZE_MAX - 4);
}

Test(arena, vec_grows)
{
    DtArena *arena = dt_arena_new();
    DT_VEC(uint64_t) list = {0};
    for (uint64_t i = 0; i < 10000; i++)
        DT_PUSH(arena, list, i * i);
    cr_assert_eq(list.n, 10000);
    for (uint64_t i = 0; i < list.n; i++)
        cr_assert_eq(list.at[i], i * i);
    dt_arena_free(arena);
}

/* A list grows in place if nothing was allocated after it. Otherwise it moves to new memory, and
 * its old elements stay as they were. */
Test(arena, vec_grows_in_place)
{
    DtArena *arena = dt_arena_new();
    DT_VEC(uint32_t) list = {0}, other = {0};
    for (uint32_t i = 0; i < 8; i++)
        DT_PUSH(arena, list, i);
    const uint32_t *first = list.at;
    DT_PUSH(arena, list, 8);
    cr_assert_eq(list.at, first);
    for (uint32_t i = 0; i < 1000; i++) {
        DT_PUSH(arena, list, i + 9);
        DT_PUSH(arena, other, 2 * i);
    }
    cr_assert_neq(list.at, first);
    uint32_t *zeroed = DT_NEW_ARRAY(arena, uint32_t, 100000);
    for (uint32_t i = 0; i < 100000; i++)
        cr_assert_eq(zeroed[i], 0);
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert(list.at[i + 9] == i + 9 && other.at[i] == 2 * i);
    dt_arena_free(arena);
}

Test(arena, texts)
{
    DtArena *arena = dt_arena_new();
    char *copy = dt_arena_strndup(arena, "abcdef", 3);
    cr_assert_str_eq(copy, "abc");
    cr_assert_str_eq(dt_arena_strndup(arena, NULL, 0), "");
    cr_assert_str_eq(dt_arena_printf(arena, "%s-%d", copy, 42), "abc-42");
    char *wide = dt_arena_printf(arena, "%*d", 100000, 7);
    cr_assert_eq(strlen(wide), 100000);
    cr_assert_eq(wide[99999], '7');
    dt_arena_free(arena);
}

Test(intern, one_pointer_per_text)
{
    enum { N = 50000 };
    const char **all = calloc(N, sizeof *all);
    char buf[32];
    for (int i = 0; i < N; i++)
        all[i] = dt_intern_printf("name%d", i);
    for (int i = 0; i < N; i++) {
        snprintf(buf, sizeof buf, "name%d", i);
        cr_assert_eq(dt_intern(buf), all[i]);
        cr_assert_str_eq(all[i], buf);
    }
    free(all);
    cr_assert_eq(dt_intern_n("heads, head", 5), dt_intern("heads"));
    cr_assert_neq(dt_intern(""), NULL);
    cr_assert_neq(dt_intern_n("a\0b", 3), dt_intern("a"));
}

static void *intern_beside(void *data)
{
    const char **ret = data;
    ret[0] = dt_intern("of a thread");
    for (int i = 0; i < 5000; i++)
        dt_intern_printf("name%d of a thread", i);
    ret[1] = dt_intern("of a thread");
    bool same = ret[0] == ret[1] && strcmp(ret[0], "of a thread") == 0;
    dt_intern_forget();
    return same ? data : NULL;
}

/* Two threads at once, each with its own table. */
Test(intern, each_thread_its_own)
{
    const char *of_thread[2], *own = dt_intern("of a thread");
    pthread_t thread;
    void *good;
    cr_assert_eq(pthread_create(&thread, NULL, intern_beside, of_thread), 0);
    for (int i = 0; i < 5000; i++)
        dt_intern_printf("name%d", i);
    cr_assert_eq(pthread_join(thread, &good), 0);
    cr_assert_not_null(good);
    cr_assert_eq(dt_intern("of a thread"), own);
    cr_assert_neq(of_thread[0], own);
}
