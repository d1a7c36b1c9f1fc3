/* SPDX-License-Identifier: Apache-2.0 */
/* A product and what its library does besides (passes/lower/epilogue.c): one instruction whose note has all its ops.
 * Where operands or results lie so that the library does not do it (rows of the vector's axes apart, a result in a
 * bucket whose columns are not neighbours), the ops are emitted one by one. */
#include "codegen/emit.h"

#include "plan/kinds.h"
#include "plan/notes.h"

#include <string.h>

typedef struct Joined {
    const DtOp *op, *dot;
    DtScope *inner;                /* of the op's function */
    uint32_t kind;                 /* DtPlanEpilogue */
    const DtValue *result, *vector, *matrix; /* in the function; vector, matrix: NULL, or as the kind says */
    DtOutput *outputs;             /* by result */
    DtPlanGemm gemm;
    bool swapped;
} Joined;

/* ---- what it is ---- */

static void find_parts(Joined *j)
{
    const DtFunc *func = j->op->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_DOT)
            j->dot = op;
        if (!dt_op_is_inline(op->out[0]))
            j->result = op->out[0];
    }
    const bool sums = strcmp(j->op->text, "sum") == 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (sums && op->kind == DT_OP_REDUCE)
            j->vector = op->out[0];
        for (uint32_t k = 0; !sums && op != j->dot && !dt_op_is_inline(op->out[0]) && k < op->n_in; k++)
            if (!op->in[k]->op)
                *(op->in[k]->type == j->result->type ? &j->matrix : &j->vector) = op->in[k];
    }
    if (sums)
        j->result = j->dot->out[0];
    for (uint32_t i = 0; !sums && i < func->results.n; i++)
        if (func->results.at[i] != j->result)
            j->matrix = func->results.at[i];
    for (uint32_t k = 0; k < DT_PLAN_EPILOGUES; k++)
        if (strcmp(dt_kinds_epilogues[k].name, j->op->text) == 0)
            j->kind = k;
}

/* ---- how it lies ---- */

static const DtOutput *output_of(const Joined *j, const DtValue *value)
{
    for (uint32_t r = 0; r < j->op->n_out; r++)
        if (j->op->func->results.at[r] == value)
            return &j->outputs[r];
    return NULL;
}

static const DtPlace *place_of(const Joined *j, const DtValue *value)
{
    const DtOutput *output = output_of(j, value);
    return output ? &output->place : &j->inner->places[value->id];
}

/* Whether view's elements are those of C's rows, or columns, one behind the other. */
static bool is_vector(const Joined *j, const DtView *view, bool columns)
{
    const DtView *c = &place_of(j, j->result)->view,
                 *of = &j->inner->places[j->dot->in[columns != j->swapped]->id].view;
    const int64_t step = columns ? j->gemm.c_col : j->gemm.c_row;
    int64_t n = 1;
    for (uint32_t d = 0; d < view->rank; d++) {
        const int in_c = dt_view_find(c, view->axis[d]);
        n *= view->extent[d];
        if (in_c < 0 || dt_view_find(of, view->axis[d]) < 0 ||
            (view->extent[d] > 1 && view->stride[d] * step != c->stride[in_c]))
            return false;
    }
    return n == (columns ? j->gemm.n : j->gemm.m);
}

/* Whether view lies as C does but for the distance of its rows. */
static bool is_matrix(Joined *j, const DtView *view)
{
    const DtView *c = &place_of(j, j->result)->view, *a = &j->inner->places[j->dot->in[j->swapped]->id].view;
    int64_t row = 0;
    if (view->dtype != c->dtype)
        return false;
    for (uint32_t d = 0; d < view->rank; d++) {
        const int in_c = dt_view_find(c, view->axis[d]);
        const bool in_a = dt_view_find(a, view->axis[d]) >= 0;
        if (in_c < 0 || (!in_a && view->extent[d] > 1 && view->stride[d] != c->stride[in_c]))
            return false;
        if (!in_a || view->extent[d] == 1)
            continue;
        const int64_t times = c->stride[in_c] / j->gemm.c_row; /* rows of C from one element of the axis to the next */
        if (view->stride[d] % times || (row && view->stride[d] / times != row))
            return false;
        row = view->stride[d] / times;
    }
    j->gemm.matrix_row = row ? row : j->gemm.n;
    j->gemm.matrix_col = 1;
    return j->gemm.matrix_row >= j->gemm.n;
}

static bool lies_well(DtEmit *e, Joined *j)
{
    const DtPlace *places = j->inner->places;
    const DtView *c = &place_of(j, j->result)->view;
    const DtView operands[2] = {places[j->dot->in[0]->id].view, places[j->dot->in[1]->id].view};
    if (!dt_gemm_product(e, j->dot, operands, c, &j->gemm, &j->swapped) ||
        j->gemm.n_batch || j->gemm.c_col != 1)
        return false;
    if (strcmp(j->op->text, "sum") == 0) {
        const bool of_a = (j->vector->op->in[0] == j->dot->in[0]) != j->swapped;
        j->kind = of_a ? DT_PLAN_EPILOGUE_SUM_A : DT_PLAN_EPILOGUE_SUM_B;
    }
    j->gemm.epilogue = j->kind;
    j->gemm.accumulate = output_of(j, j->result)->accumulate;
    const DtView *vector = j->vector ? &place_of(j, j->vector)->view : NULL;
    return (!vector || (vector->dtype == c->dtype && is_vector(j, vector, j->kind != DT_PLAN_EPILOGUE_SUM_A))) &&
           (!j->matrix || is_matrix(j, &place_of(j, j->matrix)->view)) && e->target->joins(&j->gemm);
}

/* ---- the instruction ---- */

static void note_operand(DtEmit *e, const Joined *j, const DtValue *value)
{
    const DtOutput *output = output_of(j, value);
    const DtValue *old = j->matrix;
    if (!output) {
        dt_note_read(e, value);
        return;
    }
    if (value != j->result || !old || output_of(j, old) || !dt_place_same(place_of(j, old), &output->place))
        old = NULL;
    dt_note_over(e, value, &output->place, output->accumulate ? DT_NOTE_ADDS : 0, old);
}

static void emit_joined(DtEmit *e, const Joined *j)
{
    const DtValue *const operands[] = {j->dot->in[j->swapped], j->dot->in[!j->swapped], j->result, j->vector,
                                       j->matrix};
    const DtFunc *func = j->op->func;
    const DtOp **ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n);
    DtEArg args[DT_COUNT(operands)];
    uint32_t n = 0, n_ops = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (!dt_op_is_inline(func->ops.at[i]->out[0]))
            ops[n_ops++] = func->ops.at[i];
    for (uint32_t i = 0; i < DT_COUNT(operands); i++)
        if (operands[i])
            args[n++] = dt_place_arg(e, place_of(j, operands[i]), output_of(j, operands[i]) != NULL);
    dt_inst_add(e, DT_INST_GEMM, dt_gemm_record(e, j->gemm), n, args, j->dot);
    dt_note_do(e, ops, n_ops);
    for (uint32_t i = 0; i < DT_COUNT(operands); i++)
        if (operands[i])
            note_operand(e, j, operands[i]);
}

/* Its ops, one by one. */
static void emit_apart(DtEmit *e, const Joined *j, DtScope *outer)
{
    for (uint32_t i = 0; i < j->op->func->ops.n; i++)
        dt_emit_op(e, j->op->func->ops.at[i]);
    for (uint32_t r = 0; r < j->op->n_out; r++)
        outer->places[j->op->out[r]->id] = *dt_place_find(e, j->op->func->results.at[r]);
}

/* Only C, and nothing but sums of operands beside it, can be added to. */
static void refuse_sums(DtEmit *e, Joined *j, bool all)
{
    for (uint32_t r = 0; r < j->op->n_out; r++) {
        const bool is_c = j->op->func->results.at[r] == j->result && strcmp(j->op->text, "sum") == 0;
        if (j->outputs[r].wished && (all || (j->outputs[r].accumulate && !is_c)))
            dt_output_refuse(e, &j->outputs[r]);
    }
}

void dt_epilogue_emit(DtEmit *e, const DtOp *op)
{
    DtScope *outer = e->scope;
    Joined joined = {.op = op, .inner = dt_scope_new(e, op->func, NULL, outer->path)}, *j = &joined;
    find_parts(j);
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
    refuse_sums(e, j, false);
    const bool good = lies_well(e, j);
    if (!good)
        refuse_sums(e, j, true);
    e->scope = j->inner;
    if (good)
        emit_joined(e, j);
    else
        emit_apart(e, j, outer);
    e->scope = outer;
    for (uint32_t r = 0; good && r < op->n_out; r++)
        dt_place_set(e, op->out[r], j->outputs[r].place);
}
