/* SPDX-License-Identifier: Apache-2.0 */
/* An independent check of the memory plan: the entry's items are run in order, with all loops
 * unrolled, over a map that says for every byte of the activation arena which buffer wrote it last.
 * It is an error if a buffer wrote a byte and reads it after another buffer has written there.
 * (Bytes that were never written are found by the NaN fill: bench_run.) */
#include "bench.h"

#include "codegen/emit.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct Memory {
    const DtEmit *e;
    uint32_t *owner;        /* by byte of the arena: buffer + 1 */
    uint8_t **wrote;        /* by buffer, then by byte: whether the buffer has written there */
    int64_t reg[DT_PLAN_ARG_REGS];
    uint32_t clashes;
} Memory;

static void touch(Memory *m, const DtEArg *arg, uint32_t item)
{
    const DtBuffer *buffer = &m->e->buffers.at[arg->buffer];
    if (arg->kind != DT_ARG_ADDRESS || buffer->arena != DT_ARENA_ACTIVATIONS)
        return;
    int64_t at = arg->base;
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++)
        at += arg->reg[r] * m->reg[r];
    if (at < 0 || at + arg->bytes > buffer->bytes) {
        m->clashes++;
        fprintf(stderr, "item %u reaches outside buffer %u\n", item, arg->buffer);
        return;
    }
    for (int64_t i = at; i < at + arg->bytes; i++) {
        uint32_t *owner = &m->owner[buffer->offset + i];
        if (!arg->written && m->wrote[arg->buffer][i] && *owner != arg->buffer + 1) {
            if (m->clashes++ < 5)
                fprintf(stderr,
                        "item %u reads byte %lld of buffer %u (%s), which buffer %u (%s) has "
                        "overwritten\n",
                        item, (long long)i, arg->buffer, buffer->name ? buffer->name : "",
                        *owner - 1,
                        m->e->buffers.at[*owner - 1].name ? m->e->buffers.at[*owner - 1].name : "");
            return;
        }
        if (arg->written) {
            *owner = arg->buffer + 1;
            m->wrote[arg->buffer][i] = 1;
        }
    }
}

/* Reads come before writes within one instruction. */
static void run_item(Memory *m, const DtItem *item, uint32_t number)
{
    for (int written = 0; written < 2; written++)
        for (uint32_t i = 0; i < item->inst.n_args; i++) {
            const DtEArg *arg = &m->e->args.at[item->inst.first_arg + i];
            if (arg->kind == DT_ARG_ADDRESS && arg->written == written)
                touch(m, arg, number);
        }
}

static uint32_t run_items(Memory *m, uint32_t at, uint32_t end)
{
    for (; at < end && m->e->items.at[at].kind != DT_ITEM_END; at++) {
        const DtItem *item = &m->e->items.at[at];
        if (item->kind == DT_ITEM_INST) {
            run_item(m, item, at);
            continue;
        }
        uint32_t after = at;
        for (int64_t i = 0; i < item->loop.count; i++) {
            m->reg[item->loop.reg] = item->loop.first + i * item->loop.step;
            after = run_items(m, at + 1, end);
        }
        m->reg[item->loop.reg] = 0;
        at = after;
    }
    return at;
}

void bench_check_memory(Bench *t, bool unfused)
{
    DtProgram program = {.module = t->module, .train = &t->train};
    DtCodegenOptions options = {.target = "cpu", .source = "", .source_folder = "", .compiler = "",
                                .unfused = unfused};
    DtEmit emit;
    dt_codegen_begin(&program, &options, dt_write_new(t->arena), &emit);
    DT_PUSH(t->arena, emit.plan->meta, ((DtPlanMeta){.n_ranks = 1, .n_micro = 1}));
    dt_entry_emit_all(&emit);
    Memory m = {.e = &emit};
    m.owner = DT_NEW_ARRAY(t->arena, uint32_t, emit.arena_bytes[DT_ARENA_ACTIVATIONS] + 1);
    m.wrote = DT_NEW_ARRAY(t->arena, uint8_t *, emit.buffers.n + 1);
    for (uint32_t i = 0; i < emit.buffers.n; i++)
        m.wrote[i] = DT_NEW_ARRAY(t->arena, uint8_t, emit.buffers.at[i].bytes + 1);
    uint32_t end = run_items(&m, 0, emit.items.n);
    cr_assert_eq(end, emit.items.n, "an END without its LOOP");
    cr_assert_eq(m.clashes, 0, "%s: the memory plan lets buffers overwrite each other",
                 unfused ? "unfused" : "fused");
    dt_text_free(&emit.notes);
    dt_text_free(&emit.all_notes);
    dt_arena_free(emit.scratch);
}
