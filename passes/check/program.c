/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a verdict: one program, lowered twice, once to stay serial and once to run all
 * passes. */
#include "passes/check/internal.h"

#include "base/bug.h"
#include "ir/pipeline.h"
#include "passes/passes.h"

#include <string.h>

static const double too_much = 2e8; /* multiplications: some seconds */

/* ---- making modules ---- */

static DtPassContext context_of(const DtProgram *program)
{
    return (DtPassContext){.train = program->train,
                           .parallel = program->parallel};
}

static void after_pass(void *data, const DtPass *pass, const DtModule *module, bool changed)
{
    (void)data;
    if (changed)
        dt_verify_require(module, pass->name);
}

DtProgram *dt_judge_place(DtArena *arena, DtDiags *diags, const DtLowerOptions *options)
{
    DtProgram *program = dt_lower(arena, diags, options);
    if (!program)
        return NULL;
    DtPassContext context = context_of(program);
    dt_passes_run(program->module, &context, after_pass, NULL);
    if (dt_diag_errors(diags))
        return NULL;
    dt_pipeline_unfold(program->module);
    dt_verify_require(program->module, "writing out classes of stages");
    return program;
}

DtProgram *dt_judge_serial_program(DtArena *arena, const DtLowerOptions *options,
                                   uint32_t epilogues)
{
    DtProgram *program = dt_lower(arena, dt_diag_new(arena), options);
    if (!program)
        DT_BUG("a program is accepted once and refused the second time");
    DtPassContext laid = context_of(program);
    program->parallel = NULL;
    program->module->streamed.n = 0;
    DtPassContext context = context_of(program);
    context.epilogues = epilogues;
    for (uint32_t i = 0; dt_passes[i].proof == DT_PASS_MEANING; i++) /* ranks divide samples */
        dt_passes[i].run(program->module, dt_passes[i].run == dt_pass_rows ? &laid : &context);
    dt_verify_require(program->module, "differentiation");
    return program;
}

/* The program as lowered, with entry "loss", of all replicas. NULL: it has none. */
static const DtModule *loss_of(DtArena *arena, const DtLowerOptions *options)
{
    const DtProgram *program = dt_lower(arena, dt_diag_new(arena), options);
    if (!program || !dt_entry_next(program->module, DT_ENTRY_LOSS, NULL))
        return NULL;
    const DtPassContext laid = context_of(program);
    dt_pass_replicate(program->module, &laid);
    return program->module;
}

DtModule *dt_judge_serial(DtArena *arena, const DtLowerOptions *options)
{
    return dt_judge_serial_program(arena, options, 0)->module;
}

/* ---- work ---- */

static double local_elements(const DtType *type, const DtMesh *mesh)
{
    return (double)dt_type_local_elements(type, mesh);
}

static double work_of(const DtFunc *func, const DtMesh *mesh)
{
    double work = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->func) {
            work += work_of(op->func, mesh) * (op->loop ? (double)op->loop->count : 1);
            continue;
        }
        double elements = 0, factor = 1;
        for (uint32_t k = 0; k < op->n_in; k++)
            elements += local_elements(op->in[k]->type, mesh);
        for (uint32_t k = 0; k < op->n_out; k++)
            elements += local_elements(op->out[k]->type, mesh);
        for (uint32_t k = 0; op->kind == DT_OP_DOT && k < op->n_axes; k++)
            factor *= (double)dt_type_local_extent(
                op->in[0]->type, (uint32_t)dt_type_find(op->in[0]->type, op->axes[k]), mesh);
        work +=
            op->kind == DT_OP_DOT ? local_elements(op->out[0]->type, mesh) * factor : elements * 4;
    }
    return work;
}

/* About how many multiplications, or moved elements, all ranks together need for one step. */
static double work_of_step(const DtModule *module)
{
    double work = 0;
    for (uint32_t i = 0; i < module->entries.n; i++)
        work += work_of(module->entries.at[i].func, &module->mesh);
    return work * dt_ranks_count(&module->mesh);
}

/* ---- the verdict ---- */

DtJudgeVerdict dt_judge_program(DtArena *arena, DtDiags *diags, const DtJudgeProgram *task,
                                DtJudgement *ret_judgement, DtText *ret_shrunk)
{
    DtLowerOptions options = *task->options;
    options.synthetic = true;
    DtJudgeProgram synthetic = *task;
    synthetic.options = &options;
    *ret_judgement = (DtJudgement){0};
    DtProgram *program = dt_judge_place(arena, diags, &options);
    if (!program)
        return DT_JUDGE_REJECTED;
    const DtProgram *original = program;
    options.streams = original->module->streamed.at;
    options.n_streams = original->module->streamed.n;
    for (int64_t least = 4; program && least > 0 && !task->as_it_is; least -= 2) {
        if (work_of_step(program->module) <= too_much)
            break;
        ret_shrunk->len = 0;
        options = dt_judge_shrink(arena, &synthetic, original, least, ret_shrunk);
        program = dt_judge_place(arena, diags, &options);
    }
    if (!program)
        return DT_JUDGE_REJECTED;
    DtJudgeCase c = {.arena = arena,
                     .serial = dt_judge_serial(arena, &options),
                     .placed = program->module,
                     .loss = loss_of(arena, &options),
                     .train = program->train,
                     .steps = task->steps,
                     .rounds = task->rounds};
    const bool equal = dt_judge_compare(&c, ret_judgement);
    DtLowerOptions *compared = DT_NEW(arena, DtLowerOptions);
    *compared = options;
    ret_judgement->options = compared;
    ret_judgement->work = work_of_step(program->module);
    return equal ? DT_JUDGE_EQUAL : DT_JUDGE_DIFFERS;
}
