/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that generate with a cache: what they are, as text; without a line `generate` there are
 * none; both have the same caches, which no other entry reads. */
#include "golden.h"

#include "base/intern.h"
#include "frontend/lower.h"
#include "passes/passes.h"

#include <criterion/criterion.h>

static DtProgram *lower(DtArena *arena)
{
    const DtLowerOptions options = {.path = "tests/passes/programs/decode.dsl", .library = "lib"};
    DtProgram *program = dt_lower(arena, dt_diag_new(arena), &options);
    cr_assert(program != NULL);
    return program;
}

static bool run(DtProgram *program)
{
    const DtPassContext context = {.train = program->train};
    const bool changed = dt_pass_decode(program->module, &context);
    dt_verify_require(program->module, "decode");
    return changed;
}

Test(decode, golden)
{
    DtArena *arena = dt_arena_new();
    DtProgram *program = lower(arena);
    DtText text = {0};
    cr_assert(run(program));
    for (uint32_t i = 0; i < program->module->funcs.n; i++) {
        const char *name = program->module->funcs.at[i]->name;
        if (strncmp(name, "prefill", 7) == 0 || strncmp(name, "decode", 6) == 0)
            if (strcmp(name, "decoder") != 0)
                dt_irtext_print_func(program->module->funcs.at[i], &text);
    }
    golden_compare("passes/decode", &text);
    dt_text_free(&text);
    dt_arena_free(arena);
}

Test(decode, only_with_the_line)
{
    DtArena *arena = dt_arena_new();
    DtProgram *program = lower(arena);
    const uint32_t n = program->module->funcs.n;
    program->train->cached_rows = 0;
    cr_expect(!run(program));
    cr_expect_eq(program->module->funcs.n, n);
    cr_expect(dt_entry_whole(program->module, DT_ENTRY_DECODE, NULL) == NULL);
    dt_arena_free(arena);
}

/* How often ops of the function are the parameter of a cache. */
static uint32_t reads(const DtFunc *func)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        n += func->ops.at[i]->kind == DT_OP_PARAM &&
             func->ops.at[i]->store->kind == DT_STORE_CACHE;
    return n;
}

Test(decode, caches)
{
    DtArena *arena = dt_arena_new();
    DtProgram *program = lower(arena);
    uint32_t n = 0;
    cr_assert(run(program));
    for (uint32_t i = 0; i < program->module->stores.n; i++)
        n += program->module->stores.at[i]->kind == DT_STORE_CACHE;
    /* keys (and values) of attention, the loop, the window, the sum, the step back, the first */
    cr_expect_eq(n, 6);
    for (uint32_t i = 0; i < program->module->entries.n; i++) {
        const DtEntryPoint *entry = &program->module->entries.at[i];
        const bool goes_on = entry->kind == DT_ENTRY_PREFILL || entry->kind == DT_ENTRY_DECODE;
        uint32_t left = 0;
        for (uint32_t k = 0; k < entry->results.n; k++)
            left += entry->results.at[k].store &&
                    entry->results.at[k].store->kind == DT_STORE_CACHE;
        cr_expect_eq(reads(entry->func), goes_on ? n : 0);
        cr_expect_eq(left, goes_on ? n : 0);
    }
    dt_arena_free(arena);
}
