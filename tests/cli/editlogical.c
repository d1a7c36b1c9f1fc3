/* SPDX-License-Identifier: Apache-2.0 */
/* editlogical PLAN TEXT FROM TO OUT: the plan with the first FROM of a text of its logical section
 * (serial, facts, placed, final) replaced by TO, and all checksums and digests right. Exit status
 * 1: the text does not contain FROM. */
#include "base/file.h"
#include "plan/fields.h"
#include "plan/logical.h"
#include "plan/read.h"

#include <stdio.h>
#include <string.h>

enum { MAX = 1 << 28 };

/* Returns a builder with the contents of the plan. */
static DtPlanBuilder *rebuild(DtArena *arena, const DtPlan *plan)
{
    DtPlanBuilder *b = dt_write_new(arena);
#define DT_PLAN_FIELD(tag, field, type)           \
    for (uint32_t i = 0; i < plan->n_##field; i++) \
        DT_PUSH(arena, b->field, plan->field[i]);
    DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    b->strings.n = 0;
    for (uint32_t i = 0; i < plan->n_strings; i++)
        DT_PUSH(arena, b->strings, plan->strings[i]);
    for (uint64_t i = 0; i < plan->n_blob; i++)
        DT_PUSH(arena, b->blob, plan->blob[i]);
    return b;
}

static const char *replace(DtArena *arena, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    return at ? dt_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from))
              : NULL;
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    DtPlan plan;
    DtLogicalTexts texts;
    char *file;
    size_t len;
    if (argc != 6)
        return 2;
    DtStatus status = dt_file_read(arena, argv[1], MAX, &file, &len);
    if (dt_status_ok(&status))
        status = dt_read_bytes((const uint8_t *)file, len, &plan);
    if (!dt_status_ok(&status) || !dt_logical_read(arena, &plan, &texts))
        return 1;
    const struct {
        const char *name, **text;
    } all[] = {{"serial", &texts.serial}, {"facts", &texts.facts}, {"placed", &texts.placed},
               {"final", &texts.final}};
    bool found = false;
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (strcmp(argv[2], all[i].name) == 0)
            found = (*all[i].text = replace(arena, *all[i].text, argv[3], argv[4])) != NULL;
    if (!found)
        return 1;
    DtPlanBuilder *builder = rebuild(arena, &plan);
    DtText notes = {.at = (char *)(uintptr_t)(plan.blob + plan.logical->notes),
                    .len = plan.logical->notes_len};
    builder->logical.n = 0;
    if (!dt_logical_write(builder, &texts, &notes))
        return 1;
    status = dt_write_file(builder, argv[5]);
    dt_arena_free(arena);
    return dt_status_ok(&status) ? 0 : 1;
}
