/* SPDX-License-Identifier: Apache-2.0 */
/* The names blocks of the program, and the weights to which adapters can be added, as records of
 * the plan, for runs that read and write files of other programs. No instruction depends on
 * them. */
#include "codegen/emit.h"

#include <string.h>

_Static_assert(DT_FILE_MOST == DT_PLAN_MAX_BYTES, "what the frontend accepts fits into records");

/* How many axes files have of a parameter: all but that of replicas, which all begin with an
 * import, and whose average an export has. Its name is compared as text: names are interned by
 * thread, and this one may not have made the type. */
static uint32_t axes_in_files(const DtType *type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        n += strcmp(type->axes[i].name, DT_REPLICA_AXIS) != 0;
    return n;
}

static void add_part(DtEmit *e, const DtFilePart *from)
{
    const uint32_t n = axes_in_files(from->store->type);
    DtPlanFilePart part = {
        .path = dt_write_str(e->plan, from->store->path), .n_axes = n, .first = from->first};
    memcpy(part.stride, from->stride, n * sizeof *part.stride);
    memcpy(part.count, from->count, n * sizeof *part.count);
    DT_PUSH(e->plan->arena, e->plan->parts, part);
}

/* The numbers of a list, with commas between; "": there is none. */
static DtPlanStr list_text(DtEmit *e, const DtFileHole *hole)
{
    DtText text = {0};
    for (uint32_t i = 0; i < hole->list.n; i++) {
        dt_text_add(&text, i ? "," : "");
        dt_text_integer(&text, hole->list.at[i]);
    }
    const DtPlanStr list = dt_write_str(e->plan, text.at ? text.at : "");
    dt_text_free(&text);
    return list;
}

static void add_tensor(DtEmit *e, const DtFileTensor *from)
{
    DtPlanFileTensor tensor = {.pattern = dt_write_str(e->plan, from->pattern),
                               .n_index = from->n_index,
                               .n_axes = from->n_axes,
                               .first_hole = e->plan->holes.n,
                               .n_holes = from->holes.n,
                               .first_part = e->plan->parts.n,
                               .n_parts = from->parts.n,
                               .span = dt_finish_span(e, from->span, NULL, from->pattern)};
    memcpy(tensor.extent, from->extent, from->n_axes * sizeof *tensor.extent);
    for (uint32_t i = 0; i < from->holes.n; i++) {
        const DtFileHole *made = &from->holes.at[i];
        DtPlanFileHole hole = {
            .list = list_text(e, made), .n_list = made->list.n, .first = made->first};
        memcpy(hole.factor, made->factor, from->n_index * sizeof *hole.factor);
        DT_PUSH(e->plan->arena, e->plan->holes, hole);
    }
    for (uint32_t i = 0; i < from->parts.n; i++)
        add_part(e, &from->parts.at[i]);
    DT_PUSH(e->plan->arena, e->plan->tensors, tensor);
}

void dt_names_emit(DtEmit *e)
{
    for (uint32_t i = 0; i < e->program->names.n; i++) {
        const DtFileNames *from = &e->program->names.at[i];
        DtPlanNames names = {.name = dt_write_str(e->plan, from->name),
                             .first_tensor = e->plan->tensors.n,
                             .n_tensors = from->tensors.n,
                             .first_rule = e->plan->rules.n,
                             .n_rules = from->rules.n,
                             .span = dt_finish_span(e, from->span, NULL, from->name),
                             .adapters = from->adapters,
                             .label = dt_write_str(e->plan, from->label)};
        for (uint32_t k = 0; k < from->tensors.n; k++)
            add_tensor(e, &from->tensors.at[k]);
        for (uint32_t k = 0; k < from->rules.n; k++) {
            const DtFileRule *rule = &from->rules.at[k];
            DtPlanRule record = {.kind = (uint32_t)rule->kind,
                                 .key = dt_write_str(e->plan, rule->key),
                                 .value = dt_write_str(e->plan, rule->value),
                                 .span = dt_finish_span(e, rule->span, NULL, rule->key)};
            DT_PUSH(e->plan->arena, e->plan->rules, record);
        }
        DT_PUSH(e->plan->arena, e->plan->names, names);
    }
    for (uint32_t i = 0; i < e->program->adapted.n; i++) {
        const DtAdapted *from = &e->program->adapted.at[i];
        DT_PUSH(e->plan->arena, e->plan->adapted,
                ((DtPlanAdapted){.weight = dt_write_str(e->plan, from->weight->path),
                                 .a = dt_write_str(e->plan, from->a->path),
                                 .b = dt_write_str(e->plan, from->b->path),
                                 .scale = from->scale}));
    }
}
