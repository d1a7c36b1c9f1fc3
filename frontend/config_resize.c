/* SPDX-License-Identifier: Apache-2.0 */
/* Another number of ranks for a layout: rewrites the syntax tree of its parallel block and of its
 * cluster, as `--set` does, so that the new sizes are checked like those of the file.
 *
 *   mesh data = 8               becomes   mesh data = 6
 *   shard batch on data                   shard batch on data (pad = 1)     if it is padded
 *   micro batch = 2                       micro batch = 3
 *   nodes = 2; gpus = 4                   nodes = 2; gpus = 3
 *
 * The rewritten numbers have the places of those that they replace, so no file is added. */
#include "frontend/config.h"

#include "base/intern.h"

#include <string.h>

static DtExpr *number(DtArena *arena, int64_t integer, DtSpan span)
{
    DtExpr *expr = DT_NEW(arena, DtExpr);
    expr->kind = DT_EXPR_INT;
    expr->integer = integer;
    expr->span = span;
    return expr;
}

static void resize_mesh(DtArena *arena, const DtResize *resize, DtEntry *entry)
{
    for (uint32_t i = 0; i < entry->operands.n; i++) {
        DtOperand *operand = &entry->operands.at[i];
        for (uint32_t k = 0; operand->path.n == 1 && k < resize->n_mesh; k++)
            if (operand->path.at[0].text == resize->mesh[k])
                operand->value = number(arena, resize->size[k], operand->span);
    }
}

/* Whether the line splits the axis of samples of all values. */
static bool shards_samples(const DtResize *resize, const DtEntry *entry)
{
    for (uint32_t i = 0; i < entry->operands.n; i++)
        if (entry->operands.at[i].path.n == 1 &&
            entry->operands.at[i].path.at[0].text == resize->samples)
            return true;
    return false;
}

static void pad_line(DtArena *arena, DtEntry *entry)
{
    const char *pad = dt_intern("pad");
    for (uint32_t i = 0; i < entry->args.n; i++)
        if (entry->args.at[i].name.text == pad)
            return;
    const DtArg arg = {.name = {pad, entry->span}, .value = number(arena, 1, entry->span)};
    DT_PUSH(arena, entry->args, arg);
}

static DtEntry *add_micro(DtArena *arena, const DtResize *resize, DtItem *item)
{
    DtEntry *entry = DT_NEW(arena, DtEntry);
    DtOperand operand = {.span = item->span};
    const DtName name = {resize->samples, item->span};
    DT_PUSH(arena, operand.path, name);
    DT_PUSH(arena, entry->operands, operand);
    entry->is_directive = true;
    entry->verb = (DtName){dt_intern("micro"), item->span};
    entry->span = item->span;
    DT_PUSH(arena, item->entries, entry);
    return entry;
}

static void resize_parallel(DtArena *arena, const DtResize *resize, DtItem *item)
{
    DtEntry *micro = NULL;
    for (uint32_t i = 0; i < item->entries.n; i++) {
        DtEntry *entry = item->entries.at[i];
        const char *verb = entry->is_directive ? entry->verb.text : NULL;
        if (!verb)
            continue;
        if (!strcmp(verb, "mesh"))
            resize_mesh(arena, resize, entry);
        if (!strcmp(verb, "shard") && resize->pads && shards_samples(resize, entry))
            pad_line(arena, entry);
        if (!strcmp(verb, "micro") && entry->operands.n == 1)
            micro = entry;
    }
    if (!micro && resize->micro > 1)
        micro = add_micro(arena, resize, item);
    if (micro)
        micro->operands.at[0].value = number(arena, resize->micro, micro->span);
}

static void set_count(DtArena *arena, DtItem *item, const char *name, int64_t count)
{
    DtEntry *entry = NULL;
    for (uint32_t i = 0; i < item->entries.n && !entry; i++)
        if (!item->entries.at[i]->is_directive && item->entries.at[i]->targets.n == 1 &&
            item->entries.at[i]->targets.at[0].name.text == name)
            entry = item->entries.at[i];
    if (!entry) {
        entry = DT_NEW(arena, DtEntry);
        entry->span = item->span;
        const DtTarget target = {.name = {name, item->span}, .span = item->span};
        DT_PUSH(arena, entry->targets, target);
        DT_PUSH(arena, item->entries, entry);
    }
    entry->value = number(arena, count, entry->span);
}

void dt_configresize_apply(DtArena *arena, const DtResize *resize, DtConfigItems items)
{
    for (uint32_t i = 0; i < items.n; i++) {
        DtItem *item = items.at[i];
        if (item->kind == DT_ITEM_PARALLEL && item->name.text == resize->parallel)
            resize_parallel(arena, resize, item);
        if (item->kind == DT_ITEM_CLUSTER && item->name.text == resize->cluster) {
            set_count(arena, item, dt_intern("nodes"), resize->nodes);
            set_count(arena, item, dt_intern("gpus"), resize->gpus);
        }
    }
}
