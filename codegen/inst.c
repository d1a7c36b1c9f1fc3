/* SPDX-License-Identifier: Apache-2.0 */
/* Appends instructions to the stream, and makes the groups of ranks that they name. */
#include "codegen/emit.h"

#include "ir/pipeline.h"

void dt_inst_add(DtEmit *e, DtPlanInstKind kind, uint32_t ref, uint32_t n, const DtEArg *args,
                 const DtOp *op)
{
    DtItem item = {
        .kind = DT_ITEM_INST,
        .inst = {
            .kind = (uint16_t)kind, .ref = ref, .n_args = (uint16_t)n, .first_arg = e->args.n}};
    if (op) {
        item.span = op->span;
        item.path = op->path;
        item.text = op->text ? op->text : dt_op_info[op->kind].text;
    }
    item.inst.n_args += (uint16_t)e->n_guards;
    item.inst.guards = (uint8_t)e->n_guards;
    item.share = e->n_guards ? e->share : 1;
    for (uint32_t i = 0; i < n; i++) {
        DT_PUSH(e->arena, e->args, args[i]);
        if (args[i].kind == DT_ARG_ADDRESS)
            dt_place_touch(e, args[i].buffer);
    }
    for (uint32_t i = 0; i < e->n_guards; i++)
        DT_PUSH(e->arena, e->args, e->guards[i]);
    DT_PUSH(e->arena, e->items, item);
}

void dt_inst_zero(DtEmit *e, const DtPlace *place)
{
    DtEArg arg = dt_place_arg(e, place, true);
    dt_inst_add(e, DT_INST_ZERO, 0, 1, &arg, NULL);
    e->items.at[e->items.n - 1].inst.count = arg.bytes;
}

uint32_t dt_inst_group(DtEmit *e, uint16_t mesh) { return dt_inst_stage_group(e, mesh, NULL); }

uint32_t dt_inst_stage_group(DtEmit *e, uint16_t mesh, const char *stages)
{
    const DtMesh *m = &e->module->mesh;
    uint32_t first = dt_emit_first_device(m);
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    if (pipeline && dt_stages_count(stages) == pipeline->n_stages)
        stages = NULL; /* all stages: the same as no list of stages */
    DtPlanGroup group = {.mask = (uint32_t)mesh >> first, .size = 1, .queue = 1};
    group.stages = stages ? dt_write_str(e->plan, stages) : 0;
    for (uint32_t i = first; i < m->n; i++)
        if (mesh >> i & 1)
            group.size *= pipeline && i == pipeline->mesh && stages ? dt_stages_count(stages)
                                                                    : (uint32_t)m->axes[i].size;
    for (uint32_t i = 0; i < e->plan->groups.n; i++)
        if (e->plan->groups.at[i].mask == group.mask &&
            e->plan->groups.at[i].stages == group.stages)
            return i;
    for (uint32_t i = 0; i < e->plan->groups.n; i++) { /* groups over the same mesh axes share a
                                                        * queue */
        const DtPlanGroup *other = &e->plan->groups.at[i];
        if (other->mask == group.mask) {
            group.queue = other->queue;
            break;
        }
        group.queue = other->queue < group.queue ? group.queue : other->queue + 1;
    }
    DT_PUSH(e->plan->arena, e->plan->groups, group);
    return e->plan->groups.n - 1;
}
