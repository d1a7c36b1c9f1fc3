/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline stages.
 *
 * Purpose: cuts the program into consecutive pieces, puts them on the coordinates of a mesh axis,
 * and orders each stage's work by micro-batches.
 *
 *   pipeline h on pipe
 *   entry grad      %x = f(%tokens, %w) ; %y = loop h x 4 (%x, %hw) ; %l = g(%y, %labels, %v) ; ...
 *                   gradients
 *
 *     =>  entry grad.f0, stage 0       %x = f(%tokens, %w) ; %y = loop h x 2 (%x, %hw)
 *                                      result %y to saved y, to be sent ; what B needs to saved
 *                                      stores
 *         entry grad.f1, stage 1       %y = param channel y ; loop h x 2 from 2 ; %l = g(...)
 *         entry grad.b1, grad.b0       the same backward
 *         entry update.0, update.1
 *         stage 0                      0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 ...
 *
 * See stage.h for the steps and ir/pipeline.h for what comes out. Types stay as they are: no value
 * is split over the pipeline's mesh axis.
 *
 * Requires: a placed module, calls inlined but library calls. Establishes: module->pipeline; stores
 * and entries stand on stages. Breaks: entries called "grad", "update", "eval", "predict" are gone.
 */
#include "passes/pipeline/stage.h"

#include "base/intern.h"

#include <string.h>

/* ---- the frame ---- */

static bool make_pipeline(DtStager *s)
{
    DtModule *module = s->module;
    DtPipelineSchedule *pipeline = s->pipeline = DT_NEW(s->arena, DtPipelineSchedule);
    const int mesh = dt_mesh_find(&module->mesh, s->line->on);
    if (mesh < 0)
        return false; /* the frontend has reported the missing axis */
    pipeline->schedule = s->line->schedule;
    pipeline->mesh = (uint8_t)mesh;
    if (module->mesh.axes[mesh].size > DT_PIPELINE_STAGES || s->line->chunks > DT_PIPELINE_CHUNKS) {
        dt_stage_refuse(s, E0605, s->line->span, "a pipeline has at most %d stages and %d chunks",
                        DT_PIPELINE_STAGES, DT_PIPELINE_CHUNKS);
        return false;
    }
    pipeline->n_stages = (uint32_t)module->mesh.axes[mesh].size;
    pipeline->n_pieces = pipeline->n_stages * (uint32_t)s->line->chunks;
    pipeline->n_micro = s->context->parallel->micro > 1 ? s->context->parallel->micro : 1;
    pipeline->stage_of = DT_NEW_ARRAY(s->arena, uint32_t, pipeline->n_pieces);
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        pipeline->stage_of[i] = dt_schedule_stage(s->kind, pipeline->n_stages, i);
    s->whole = pipeline;
    s->loop_of = DT_NEW_ARRAY(s->arena, int32_t, module->stores.n + 1);
    s->copies = DT_NEW_ARRAY(s->arena, DtStageCopies, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        s->loop_of[i] = -1;
        module->stores.at[i]->stage = -1; /* only the copies on stages have a stage */
    }
    return true;
}

/* ---- parts that are not cut ---- */

/* Whether func reads a result of the prologue, through an input of the same name. */
static bool reads_result(const DtFunc *func, const DtEntryPoint *prologue)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < prologue->results.n; k++)
            if (func->ops.at[i]->kind == DT_OP_INPUT &&
                strcmp(func->ops.at[i]->text, prologue->results.at[k].name) == 0)
                return true;
    return false;
}

/* Adds entry "grad.prologue" to each stage that has entries which read results of the prologue. */
static void keep_prologue(DtStager *s, const DtEntryPoint *entry)
{
    const uint32_t n = s->entries.n;
    for (uint32_t stage = 0; stage < s->pipeline->n_stages; stage++) {
        bool reads = false;
        for (uint32_t i = 0; i < n; i++)
            reads = reads || (s->entries.at[i].stage == (int32_t)stage &&
                              reads_result(s->entries.at[i].func, entry));
        DtEntryPoint copy = *entry;
        dt_entry_set(&copy, entry->kind, entry->part, (int32_t)s->class_first[stage]);
        copy.stage = (int32_t)stage;
        if (reads)
            DT_PUSH(s->arena, s->entries, copy);
    }
}

/* ---- the pass ---- */

static bool cut_entry(DtStager *s, const DtEntryPoint *entry)
{
    DtExpanded expanded;
    DtAssigned assigned;
    return dt_stage_ranges(s, entry, &expanded) && dt_stage_assign(s, &expanded, &assigned) &&
           dt_stage_build(s, entry->kind, &expanded, &assigned);
}

static bool cut_entries(DtStager *s)
{
    static const DtEntryKind kinds[] = {DT_ENTRY_GRAD, DT_ENTRY_EVAL, DT_ENTRY_PREDICT};
    const DtEntryPoint *entries[DT_COUNT(kinds)];
    uint32_t n = 0;
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if ((entries[n] = dt_entry_whole(s->module, kinds[i], NULL)))
            n++;
    if (n > 0 && !dt_stage_cut(s, entries[0]))
        return false;
    if (n > 0)
        dt_stage_classes(s);
    for (uint32_t i = 0; i < n; i++)
        dt_stage_find_stacked(s, entries[i]);
    for (uint32_t i = 0; i < n; i++)
        if (!cut_entry(s, entries[i]) || s->unequal)
            return false;
    for (uint32_t i = 0; i < s->module->entries.n; i++) {
        const DtEntryPoint *entry = &s->module->entries.at[i];
        if (entry->part == DT_PART_PROLOGUE)
            keep_prologue(s, entry);
    }
    const DtEntryPoint *update = dt_entry_whole(s->module, DT_ENTRY_UPDATE, NULL);
    return !update || dt_stage_update(s, update);
}

/* Cuts all entries into stages, those of one class as one. Diagnostics are kept only if every stage
 * is a class of its own (by_stage), since a class of several stages may be the reason for an
 * error. */
static bool cut_by(DtModule *module, const DtPassContext *context, bool *apart, bool by_stage,
                   DtStager *ret_stager)
{
    const DtPipeline *line = &context->parallel->pipelines.at[0];
    const uint32_t n_funcs = module->funcs.n;
    DtStager *s = ret_stager;
    *s = (DtStager){
        .module = module, .arena = module->arena, .context = context, .line = line, .apart = apart};
    s->diags = by_stage ? module->diags : dt_diag_new(module->arena);
    s->kind = dt_schedule_find(line->schedule);
    if (make_pipeline(s) && cut_entries(s) && !s->unequal)
        return true;
    module->funcs.n = n_funcs; /* the functions that remain are verified */
    return false;
}

static bool cut_by_classes(DtModule *module, const DtPassContext *context, DtStager *ret_stager)
{
    bool *apart = DT_NEW_ARRAY(module->arena, bool, DT_PIPELINE_STAGES);
    while (!context->each_stage) {
        if (cut_by(module, context, apart, false, ret_stager))
            return true;
        if (!ret_stager->unequal)
            break;
        dt_stage_take_apart(ret_stager);
    }
    memset(apart, true, DT_PIPELINE_STAGES * sizeof *apart);
    return cut_by(module, context, apart, true, ret_stager);
}

bool dt_pass_stage(DtModule *module, const DtPassContext *context)
{
    if (!context->parallel || context->parallel->pipelines.n == 0 || module->mesh.n == 0)
        return false;
    DtStager s;
    if (!cut_by_classes(module, context, &s))
        return true;
    dt_stage_settle_stores(&s);
    dt_stage_settle_classes(&s);
    module->entries.at = s.entries.at;
    module->entries.n = s.entries.n;
    module->entries.cap = s.entries.cap;
    module->pipeline = s.whole;
    dt_inline_drop(module);
    return true;
}
