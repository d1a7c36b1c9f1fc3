/* SPDX-License-Identifier: Apache-2.0 */
/* Reuses stretches of instructions that were emitted before, with other buffers.
 *
 * The pieces of a pipeline contain layers of one body, whose instructions are mostly blocks of
 * attention. These depend only on what the caller puts into the key: the positions of operands
 * within their buffers, and which buffers are equal. So an equal key gives the same
 * instructions, notes and temporaries, with other buffers. Only the number of a loop's iteration
 * is not part of a key: a stretch with an instruction that uses it is not remembered. */
#include "codegen/emit.h"

#include "base/hash.h"

#include <string.h>

struct DtReplayed {
    uint64_t hash;
    DtText key;
    uint32_t n_known, n_new, n_items; /* buffers that the key names; temporaries that the stretch
                                       * made */
    DtBuffer *buffers;                 /* the temporaries that the stretch made */
    DtItem *items;                   /* first_arg of an item counts in args */
    DtEArg *args;                      /* buffer: its number in the key, or that of a temporary
                                        * after those */
    const char *notes;
    size_t n_notes;
};

void dt_replay_add(DtReplay *replay, const void *bytes, size_t n)
{
    dt_text_add_n(&replay->key, bytes, n);
}

void dt_replay_buffer(DtEmit *e, DtReplay *replay, uint32_t buffer)
{
    uint32_t number = 0;
    while (number < replay->buffers.n && replay->buffers.at[number] != buffer)
        number++;
    if (number == replay->buffers.n)
        DT_PUSH(e->scratch, replay->buffers, buffer);
    dt_replay_add(replay, &number, sizeof number);
}

void dt_replay_place(DtEmit *e, DtReplay *replay, const DtPlace *place)
{
    dt_replay_buffer(e, replay, place->view.buffer);
    dt_place_key(place, &replay->key);
}

void dt_replay_guards(const DtEmit *e, DtReplay *replay)
{
    dt_replay_add(replay, &e->n_guards, sizeof e->n_guards);
    dt_replay_add(replay, &e->share, sizeof e->share);
    for (uint32_t i = 0; i < e->n_guards; i++) {
        const DtEArg *guard = &e->guards[i];
        dt_replay_add(replay, &guard->base, sizeof guard->base);
        dt_replay_add(replay, guard->reg, sizeof guard->reg);
        dt_replay_add(replay, guard->coord_axis, sizeof guard->coord_axis);
        dt_replay_add(replay, guard->coord, sizeof guard->coord);
    }
}

static void emit_recorded(DtEmit *e, const DtReplay *replay, const struct DtReplayed *old)
{
    const uint32_t first = e->buffers.n;
    for (uint32_t i = 0; i < old->n_new; i++) {
        DT_PUSH(e->arena, e->buffers, old->buffers[i]);
        e->buffers.at[first + i].arena = e->temporaries;
    }
    for (uint32_t i = 0; i < old->n_items; i++) {
        DtItem item = old->items[i];
        const DtEArg *args = old->args + item.inst.first_arg;
        item.inst.first_arg = e->args.n;
        for (uint32_t a = 0; a < item.inst.n_args; a++) {
            DtEArg arg = args[a];
            if (arg.kind == DT_ARG_ADDRESS) {
                arg.buffer = arg.buffer < old->n_known ? replay->buffers.at[arg.buffer]
                                                       : first + arg.buffer - old->n_known;
                dt_place_touch(e, arg.buffer);
            }
            DT_PUSH(e->arena, e->args, arg);
        }
        DT_PUSH(e->arena, e->items, item);
    }
    dt_text_add_n(&e->notes, old->notes, old->n_notes);
}

bool dt_replay_repeat(DtEmit *e, DtReplay *replay)
{
    replay->hash = dt_hash_bytes(replay->key.at, replay->key.len, 0);
    replay->item = e->items.n;
    replay->arg = e->args.n;
    replay->buffer = e->buffers.n;
    replay->note = e->notes.len;
    for (uint32_t i = 0; !e->options->anew && i < e->replayed.n; i++) {
        const struct DtReplayed *old = e->replayed.at[i];
        if (old->hash != replay->hash || old->key.len != replay->key.len ||
            memcmp(old->key.at, replay->key.at, old->key.len) != 0)
            continue;
        emit_recorded(e, replay, old);
        if (e->options->ret_replayed)
            ++*e->options->ret_replayed;
        dt_text_free(&replay->key);
        return true;
    }
    return false;
}

/* Replaces the buffer by its number in the key or in the list of temporaries; false: it is in
 * neither. */
static bool number_of(const DtReplay *replay, uint32_t *buffer)
{
    for (uint32_t i = 0; i < replay->buffers.n; i++)
        if (replay->buffers.at[i] == *buffer) {
            *buffer = i;
            return true;
        }
    if (*buffer < replay->buffer)
        return false;
    *buffer += replay->buffers.n - replay->buffer;
    return true;
}

/* Whether the argument depends on the number of a loop's iteration. */
static bool counts(const DtEArg *arg)
{
    bool found = arg->base != 0;
    for (uint32_t r = 1; r < DT_PLAN_ARG_REGS; r++)
        found = found || arg->reg[r] != 0;
    return found;
}

static bool keep_item(const DtEmit *e, const DtReplay *replay, struct DtReplayed *kept,
                      const DtItem *item)
{
    DtItem *copy = &kept->items[kept->n_items++];
    *copy = *item;
    copy->inst.first_arg -= replay->arg;
    for (uint32_t a = 0; a < item->inst.n_args; a++) {
        DtEArg *arg = &kept->args[copy->inst.first_arg + a];
        const bool guards = a >= (uint32_t)item->inst.n_args - item->inst.guards;
        *arg = e->args.at[item->inst.first_arg + a];
        if (arg->kind == DT_ARG_ADDRESS ? !number_of(replay, &arg->buffer) : !guards && counts(arg))
            return false;
    }
    return item->kind == DT_ITEM_INST;
}

void dt_replay_end(DtEmit *e, DtReplay *replay)
{
    const uint32_t n_items = e->items.n - replay->item, n_args = e->args.n - replay->arg;
    struct DtReplayed *kept = DT_NEW(e->arena, struct DtReplayed);
    kept->hash = replay->hash;
    kept->n_known = replay->buffers.n;
    kept->n_new = e->buffers.n - replay->buffer;
    kept->n_notes = e->notes.len - replay->note;
    kept->items = DT_NEW_ARRAY(e->arena, DtItem, n_items);
    kept->args = DT_NEW_ARRAY(e->arena, DtEArg, n_args);
    kept->buffers = DT_NEW_ARRAY(e->arena, DtBuffer, kept->n_new);
    kept->notes = dt_arena_strndup(e->arena, e->notes.at + replay->note, kept->n_notes);
    bool good = true;
    for (uint32_t i = 0; i < kept->n_new; i++) {
        kept->buffers[i] = e->buffers.at[replay->buffer + i];
        kept->buffers[i].first = UINT32_MAX;
        good = good && !kept->buffers[i].fixed;
    }
    for (uint32_t i = 0; good && i < n_items; i++)
        good = keep_item(e, replay, kept, &e->items.at[replay->item + i]);
    if (good) {
        kept->key = replay->key;
        DT_PUSH(e->arena, e->replayed, kept);
    } else {
        dt_text_free(&replay->key);
    }
}

void dt_replay_free(DtEmit *e)
{
    for (uint32_t i = 0; i < e->replayed.n; i++)
        dt_text_free(&e->replayed.at[i]->key);
    e->replayed.n = 0;
}
