/* SPDX-License-Identifier: Apache-2.0 */
/* A product with its epilogue (passes/lower/epilogue.c): one instruction whose note has all of
 * its ops. Pass `memory` has made sure that the library accepts the layouts of operands and
 * results (ir/joined.h). */
#include "codegen/emit.h"

#include "base/bug.h"
#include "plan/kinds.h"
#include "plan/notes.h"

#include <string.h>

static const DtOutput *output_of(const DtJoin *j, const DtValue *value)
{
    for (uint32_t r = 0; r < j->op->n_out; r++)
        if (j->op->func->results.at[r] == value)
            return &j->outputs[r];
    return NULL;
}

static const DtPlace *place_of(const DtJoin *j, const DtValue *value)
{
    const DtOutput *output = output_of(j, value);
    return output ? &output->place : &j->inner->places[value->id];
}

/* Returns the epilogue that the op's text names, as a number of DtPlanEpilogue. */
static uint32_t kind_of(const DtOp *op)
{
    uint32_t k = 0;
    while (k < DT_PLAN_EPILOGUES && strcmp(dt_kinds_epilogues[k].name, op->text) != 0)
        k++;
    return k;
}

static DtPlanGemm product_of(DtEmit *e, DtJoin *j)
{
    const DtFunc *func = j->op->func;
    DtView *views = DT_NEW_ARRAY(e->scratch, DtView, func->n_values + 1);
    DtJoinedProduct found;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        views[func->inputs.at[i]->id] = j->inner->places[func->inputs.at[i]->id].view;
    for (uint32_t r = 0; r < j->op->n_out; r++)
        views[func->results.at[r]->id] = j->outputs[r].place.view;
    if (!dt_joined_find(&dt_target_limits[e->target->kind], &j->parts, views, &found))
        DT_BUG("product `%s` with `%s` does not lie as its library takes it", func->name,
               j->op->text);
    const DtValue *const *in = (const DtValue *const *)j->parts.dot->in;
    const DtView *operands[2] = {&views[in[0]->id], &views[in[1]->id]},
                 *c = &views[j->parts.result->id];
    DtPlanGemm gemm = dt_gemm_of(&found.product, operands, c);
    gemm.accumulate = output_of(j, j->parts.result)->accumulate;
    gemm.matrix_row = found.matrix_row;
    gemm.matrix_col = j->parts.matrix ? 1 : 0;
    gemm.epilogue = !j->parts.sums ? kind_of(j->op)
                    : found.of_a   ? DT_PLAN_EPILOGUE_SUM_A
                                   : DT_PLAN_EPILOGUE_SUM_B;
    j->swapped = found.product.swapped;
    return gemm;
}

static void note_operand(DtEmit *e, const DtJoin *j, const DtValue *value)
{
    const DtOutput *output = output_of(j, value);
    const DtValue *old = j->parts.matrix;
    if (!output) {
        dt_note_read(e, value);
        return;
    }
    if (value != j->parts.result || !old || output_of(j, old) ||
        !dt_place_same(place_of(j, old), &output->place))
        old = NULL;
    dt_note_over(e, value, &output->place, output->accumulate ? DT_NOTE_ADDS : 0, old);
}

static void emit_joined(DtEmit *e, DtJoin *j)
{
    const DtPlanGemm gemm = product_of(e, j);
    const DtJoinedParts *parts = &j->parts;
    const DtValue *const operands[] = {parts->dot->in[j->swapped], parts->dot->in[!j->swapped],
                                       parts->result, parts->vector, parts->matrix};
    const DtFunc *func = j->op->func;
    const DtOp **ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n);
    DtEArg args[DT_COUNT(operands)];
    uint32_t n = 0, n_ops = 0;
    const size_t note = e->notes.len;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (!dt_op_is_inline(func->ops.at[i]->out[0]))
            ops[n_ops++] = func->ops.at[i];
    for (uint32_t i = 0; i < DT_COUNT(operands); i++)
        if (operands[i])
            args[n++] =
                dt_place_arg(e, place_of(j, operands[i]), output_of(j, operands[i]) != NULL);
    dt_inst_add(e, DT_INST_GEMM, dt_gemm_record(e, gemm), n, args, parts->dot);
    dt_note_do(e, ops, n_ops);
    for (uint32_t i = 0; i < DT_COUNT(operands); i++)
        if (operands[i])
            note_operand(e, j, operands[i]);
    dt_instead_emit(e, j, gemm, args, note);
}

void dt_epilogue_emit(DtEmit *e, const DtOp *op)
{
    DtScope *outer = e->scope;
    DtJoin joined = {.op = op,
                     .inner = dt_scope_new(e, op->func, NULL, outer->path),
                     .parts = dt_joined_parts(op)},
           *j = &joined;
    j->inner->op = op;
    j->outputs = DT_NEW_ARRAY(e->scratch, DtOutput, op->n_out);
    for (uint32_t i = 0; i < op->n_in; i++) {
        j->inner->places[op->func->inputs.at[i]->id] = *dt_copy_require(e, op->in[i]);
        j->inner->number[op->func->inputs.at[i]->id] = outer->number[op->in[i]->id];
    }
    for (uint32_t r = 0; r < op->n_out; r++) {
        j->outputs[r] = dt_output_of(e, op->out[r]);
        dt_output_take(e, &j->outputs[r]);
    }
    e->scope = j->inner;
    emit_joined(e, j);
    e->scope = outer;
    for (uint32_t r = 0; r < op->n_out; r++)
        dt_place_set(e, op->out[r], j->outputs[r].place);
}
