/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of changes carry any change of memory, join what ranks have alike, and are refused when
 * they are damaged. */
#include "runtime/changes.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 300, HEADER = 400, SLOT = 120, PER_NODE = 4 };

typedef struct Memory {
    char header[HEADER], slots[RANKS][SLOT];
} Memory;

static uint64_t state = 11;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static char *slot_of(void *context, uint32_t rank)
{
    cr_assert_lt(rank, RANKS);
    return ((Memory *)context)->slots[rank];
}

static DtChangedMemory memory_of(Memory *m)
{
    return (DtChangedMemory){.header = m->header, .header_bytes = HEADER, .slot_bytes = SLOT,
                             .slot = slot_of, .context = m, .n_ranks = RANKS};
}

static void change_some(char *at, size_t bytes)
{
    for (uint32_t i = draw(6); i > 0; i--)
        at[draw((uint32_t)bytes)] = (char)draw(256);
}

/* Each node finds the changes of its ranks; their sum, joined, makes another memory equal. */
Test(changes, all_arrive)
{
    Memory *now = calloc(3, sizeof *now), *before = now + 1, *other = now + 2;
    for (int round = 0; round < 200; round++) {
        DtChanges all = {0};
        change_some(now->header, HEADER);
        for (uint32_t r = 0; r < RANKS; r++)
            if (draw(4) == 0)
                change_some(now->slots[r], SLOT);
        for (uint32_t r = RANKS; r-- > 0;) {
            DtChanges one = {0};
            dt_changes_find(&one, r, now->slots[r], before->slots[r], SLOT);
            dt_changes_add(&all, one.at, one.len);
            dt_changes_free(&one);
        }
        dt_changes_find(&all, UINT32_MAX, now->header, before->header, HEADER);
        dt_changes_join(&all);
        const DtChangedMemory memory = memory_of(other);
        cr_assert(!all.is_short && all.len <= dt_changes_most(&memory));
        cr_assert(dt_changes_apply(&memory, all.at, all.len));
        cr_assert(memcmp(now, other, sizeof *now) == 0 && memcmp(now, before, sizeof *now) == 0);
        dt_changes_free(&all);
    }
    free(now);
}

/* What all ranks publish alike is one record; nothing that has not changed is sent. */
Test(changes, equal_ones_are_one)
{
    Memory *now = calloc(3, sizeof *now), *before = now + 1, *other = now + 2;
    DtChanges all = {0}, none = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        memcpy(now->slots[r] + 8, "a kind of GPUs", 14);
        dt_changes_find(&all, r, now->slots[r], before->slots[r], SLOT);
    }
    dt_changes_join(&all);
    cr_expect_lt(all.len, 40);
    const DtChangedMemory memory = memory_of(other);
    cr_expect(dt_changes_apply(&memory, all.at, all.len));
    cr_expect(memcmp(now, other, sizeof *now) == 0);
    for (uint32_t r = 0; r < RANKS; r++)
        dt_changes_find(&none, r, now->slots[r], before->slots[r], SLOT);
    cr_expect_eq(none.len, 0);
    dt_changes_free(&all);
    free(now);
}

/* Lists of random bytes, and changed ones: they are refused, or write inside of the memory. */
Test(changes, damaged_lists)
{
    Memory *now = calloc(3, sizeof *now), *before = now + 1, *other = now + 2;
    DtChanges all = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        change_some(now->slots[r], SLOT);
        dt_changes_find(&all, r, now->slots[r], before->slots[r], SLOT);
    }
    const DtChangedMemory memory = memory_of(other);
    for (int i = 0; i < 20000; i++) {
        const size_t len = draw((uint32_t)all.len + 1);
        uint8_t *list = malloc(len ? len : 1); /* so that a sanitizer sees what is read past it */
        for (size_t k = 0; k < len; k++)
            list[k] = i % 3 ? all.at[k] : (uint8_t)draw(256);
        for (int k = draw(4); k > 0 && len > 0; k--)
            list[draw((uint32_t)len)] = (uint8_t)draw(256);
        dt_changes_apply(&memory, list, len);
        free(list);
    }
    cr_expect(dt_changes_apply(&memory, all.at, all.len));
    cr_expect(!dt_changes_apply(&memory, all.at, all.len - 1));
    dt_changes_free(&all);
    free(now);
}
