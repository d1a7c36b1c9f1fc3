/* SPDX-License-Identifier: Apache-2.0 */
/* A module becomes a plan, for the target in its table: first what all plans have (sizes,
 * groups, stores, readers), then the instructions of each entry. */
#include "codegen/emit.h"

#include "ir/pipeline.h"

#include <string.h>

/* The name of the model that entry "predict" runs: that of the train block, else the name of its
 * results without the number, as in "gpt2.0", "gpt2.1". */
static const char *model_name(const DtEmit *e)
{
    const DtTrainConfig *train = e->program->train;
    if (train && train->name)
        return train->name;
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtEntryPoint *entry = &e->module->entries.at[i];
        const char *name = entry->results.n ? entry->results.at[0].name : NULL;
        if (entry->kind == DT_ENTRY_PREDICT && name)
            return dt_arena_strndup(e->arena, name, strcspn(name, "."));
    }
    return "";
}

static void add_meta(DtEmit *e)
{
    const DtTrainConfig *train = e->program->train;
    const DtMesh *mesh = &e->module->mesh;
    const DtCodegenOptions *o = e->options;
    DtPlanMeta meta = {.source = dt_write_str(e->plan, o->source),
                       .compiler = dt_write_str(e->plan, o->compiler),
                       .target = dt_write_str(e->plan, e->target->machine(o->target)),
                       .source_folder = dt_write_str(e->plan, o->source_folder),
                       .source_digest = o->source_digest,
                       .model = dt_write_str(e->plan, model_name(e)),
                       .n_ranks = 1,
                       .n_micro = e->n_micro,
                       .model_flops = o->model_flops,
                       .seed = e->seed};
    for (uint32_t i = 0; i < mesh->n; i++) {
        if (mesh->axes[i].is_time)
            continue;
        meta.n_ranks *= (uint32_t)mesh->axes[i].size;
        DtPlanMeshAxis axis = {dt_write_str(e->plan, mesh->axes[i].name),
                               (uint32_t)mesh->axes[i].size};
        DT_PUSH(e->plan->arena, e->plan->mesh, axis);
    }
    if (train) {
        meta.steps = train->steps;
        meta.epochs = train->epochs;
        meta.eval_every = train->eval_every;
        meta.eval_steps = train->eval_steps;
        meta.eval_patience = train->eval_patience;
        meta.keep_best = train->keep_best;
        meta.ramp_from = train->ramp.from;
        meta.ramp_by = train->ramp.by;
        meta.ramp_over = train->ramp.over;
        if (train->replicas.mix != DT_MIX_NONE) {
            meta.mix_every = train->replicas.every;
            meta.mix_ways = dt_replicas_ways(&train->replicas);
        }
        meta.eval_rest = train->eval_rest;
        meta.draws = train->draws;
        meta.tf32 = train->precision.tf32;
        meta.save_every = train->save_every;
        meta.save_keep = train->save_keep;
        if (train->readers.n) {
            meta.batch = train->readers.at[0].types[0]->axes[0].extent;
            meta.tokens = dt_type_elements(train->readers.at[0].types[0]);
        }
    }
    if (e->module->pipeline)
        meta.pipeline = 1u + e->module->pipeline->mesh - dt_emit_first_device(mesh);
    DT_PUSH(e->plan->arena, e->plan->meta, meta);
}

/* ---- features that the back end does not have ---- */

static bool lacks(const DtModule *module, DtSpan span, const char *what)
{
    DtDiag *diag = dt_diag_report(module->diags, E0592, span, "%s is not implemented yet", what);
    dt_diag_help(diag, "`--parallel none` compiles the serial program");
    return false;
}

/* Whether loops are nested deeper than the plan has registers. open: loops around the function. */
static bool is_too_deep(const DtModule *module, const DtFunc *func, uint32_t open)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        uint32_t inside = open + (op->kind == DT_OP_LOOP);
        if (inside == DT_PLAN_REG_SLOTS) {
            DtDiag *diag = dt_diag_report(module->diags, E0592, op->span,
                                          "a loop in %u others is not implemented yet", open);
            dt_diag_note(diag, "a `ring` is a loop, too");
            dt_diag_help(diag, "write one out: `repeat` over a tuple is no loop");
            return true;
        }
        if (op->func && is_too_deep(module, op->func, inside))
            return true;
    }
    return false;
}

/* Whether all entries split an input in the same way, since it has one place in memory for all of
 * them. Reports the first one that differs. */
static bool splits_agree(const DtModule *module)
{
    DT_VEC(const DtOp *) inputs = {0}; /* the first of each name */
    for (uint32_t i = 0; i < module->entries.n; i++)
        for (uint32_t k = 0; k < module->entries.at[i].func->ops.n; k++) {
            const DtOp *op = module->entries.at[i].func->ops.at[k];
            if (op->kind != DT_OP_INPUT || op->text[0] == '@')
                continue;
            uint32_t j = 0;
            while (j < inputs.n && inputs.at[j]->text != op->text)
                j++;
            if (j == inputs.n) {
                DT_PUSH(module->arena, inputs, op);
            } else if (inputs.at[j]->out[0]->type != op->out[0]->type) {
                DtDiag *diag = dt_diag_report(
                    module->diags, E0592, inputs.at[j]->span,
                    "input `%s`, which is split otherwise for training than for `eval` or "
                    "`predict`, is not implemented yet",
                    op->text);
                dt_diag_help(diag, "a `shard` line for its samples' axis fixes how it is split");
                return false;
            }
        }
    return true;
}

/* Reports that the op needs a value of all micro-batches which cannot be assembled: micro-batches
 * put parts together only along the axis that counts the samples. */
static bool lacks_all_micro(const DtModule *module, const DtOp *op)
{
    const DtType *type = op->in[0]->type;
    const char *cut = NULL;
    for (uint32_t i = 0; i < type->rank; i++)
        for (uint32_t k = 0; k < type->axes[i].n_split; k++)
            cut = type->axes[i].split[k] == 0 ? type->axes[i].name : cut;
    if (!cut)
        return lacks(module, op->span, "a value of one micro-batch that needs all of them");
    DtDiag *diag = dt_diag_report(
        module->diags, E0592, op->span,
        "a result whose samples are called `%s`, of which each micro-batch has a part, is "
        "not implemented yet",
        cut);
    dt_diag_help(diag, "return it with the axis that counts the samples of the data, merged or "
                       "split inside of the "
                       "program as needed; or leave `micro` out");
    return false;
}

static bool runs(const DtModule *module, const DtOp *op)
{
    const bool waits = dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->mesh & 1 &&
                       module->mesh.n && module->mesh.axes[0].is_time && op->kind != DT_OP_SHARD;
    return !waits || lacks_all_micro(module, op);
}

bool dt_codegen_check(const DtModule *module)
{
    if (!splits_agree(module))
        return false;
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (is_too_deep(module, module->entries.at[i].func, 0))
            return false;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
            if (!runs(module, module->funcs.at[i]->ops.at[k]))
                return false;
        }
    return true;
}

void dt_codegen_begin(const DtProgram *program, const DtCodegenOptions *options,
                      DtPlanBuilder *builder, DtEmit *ret_emit)
{
    const DtModule *module = program->module;
    DtEmit *e = ret_emit;
    *e = (DtEmit){.program = program,
                  .module = module,
                  .options = options,
                  .target = dt_target_find(options->target),
                  .order_as = dt_target_find(options->rows ? options->rows : options->target),
                  .plan = builder,
                  .arena = module->arena,
                  .scratch = dt_arena_child(module->arena),
                  .seed = program->train ? program->train->seed : 0,
                  .n_micro = 1,
                  .trips = 1};
    if (dt_emit_first_device(&module->mesh))
        e->n_micro = (uint32_t)module->mesh.axes[0].size;
    e->stores = DT_NEW_ARRAY(e->arena, DtPlace, module->stores.n + 1);
    e->store_record = DT_NEW_ARRAY(e->arena, int32_t, module->stores.n + 1);
}

DtStatus dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options,
                         DtPlanBuilder *builder)
{
    DtEmit emit, *e = &emit;
    dt_codegen_begin(program, options, builder, e);
    add_meta(e);
    dt_entry_emit_all(e);
    dt_names_emit(e);
    dt_replay_free(e);
    dt_arena_free(e->scratch);
    return dt_finish_plan(e);
}
