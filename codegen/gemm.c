/* SPDX-License-Identifier: Apache-2.0 */
/* A contraction as a call of the library of products (ir/product.h). Copies of operands that pay
 * off are ops of the program (pass `memory`), except where the product has `copies` set. */
#include "codegen/emit.h"

#include "plan/notes.h"

#include <string.h>

_Static_assert((int)DT_PRODUCT_BATCH == (int)DT_PLAN_MAX_BATCH, "products fit into records");

uint32_t dt_gemm_record(DtEmit *e, DtPlanGemm gemm)
{
    for (uint32_t i = 0; i < e->plan->gemms.n; i++)
        if (memcmp(&e->plan->gemms.at[i], &gemm, sizeof gemm) == 0)
            return i;
    DT_PUSH(e->plan->arena, e->plan->gemms, gemm);
    return e->plan->gemms.n - 1;
}

DtPlanGemm dt_gemm_of(const DtProduct *p, const DtView *const operands[2], const DtView *c)
{
    DtPlanGemm g = {.n_batch = p->n_batch, .dtype_a = operands[p->swapped]->dtype,
                    .dtype_b = operands[!p->swapped]->dtype, .dtype_c = c->dtype, .m = p->m,
                    .n = p->n, .k = p->k, .a_row = p->a_row, .a_col = p->a_col, .b_row = p->b_row,
                    .b_col = p->b_col, .c_row = p->c_row, .c_col = p->c_col};
    memcpy(g.batch, p->batch, sizeof g.batch);
    memcpy(g.a_batch, p->a_batch, sizeof g.a_batch);
    memcpy(g.b_batch, p->b_batch, sizeof g.b_batch);
    memcpy(g.c_batch, p->c_batch, sizeof g.c_batch);
    return g;
}

void dt_gemm_straighten(DtEmit *e, const DtOp *op, DtPlace operands[2], const DtPlace *out)
{
    const DtTargetLimits *limits = &dt_target_limits[e->target->kind];
    const DtView now[2] = {operands[0].view, operands[1].view};
    DtView copies[2];
    DtProduct product;
    if (dt_product_find(limits, op, &now[0], &now[1], &out->view, &product))
        return;
    const uint32_t chosen = dt_product_straighten(limits, op, now, &out->view, copies);
    for (uint32_t i = 0; i < 2; i++)
        if (chosen >> i & 1) {
            operands[i] = dt_place_temporary(e, op->in[i]->type, op->in[i]->name);
            copies[i].buffer = operands[i].view.buffer;
            operands[i].view = copies[i];
            dt_copy_value(e, op->in[i], &operands[i], false);
        }
}

/* Returns in how many multiplications each element of the operand x takes part. */
static int64_t uses_of(const DtView *x, const DtView *c)
{
    int64_t uses = 1;
    for (uint32_t d = 0; d < c->rank; d++)
        uses *= dt_view_find(x, c->axis[d]) >= 0 ? 1 : c->extent[d];
    return uses;
}

/* Reports lint L0587 unless the contraction is cheap as a kernel: a kernel reads its operands again
 * for each product, which costs little where these are few or small. */
void dt_gemm_say(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out)
{
    enum { LEAST = 1 << 20 };
    const DtTargetLimits *limits = &dt_target_limits[e->target->kind];
    const DtView *a = &operands[0].view, *b = &operands[1].view, *c = &out->view;
    double work = 1;
    for (uint32_t d = 0; d < c->rank; d++)
        work *= (double)c->extent[d];
    for (uint32_t d = 0; d < a->rank; d++)
        work *= dt_op_has_axis(op, a->axis[d]) ? (double)a->extent[d] : 1;
    if (!e->module->diags || !op->span.file || work < LEAST || uses_of(a, c) < limits->copy_pays ||
        uses_of(b, c) < limits->copy_pays)
        return;
    for (uint32_t i = 0; i < e->no_products.n; i++)
        if (memcmp(&e->no_products.at[i], &op->span, sizeof op->span) == 0)
            return;
    DT_PUSH(e->arena, e->no_products, op->span);
    if (!dt_target_multiplies(limits, a->dtype, b->dtype, c->dtype))
        dt_diag_report(e->module->diags, L0587, op->span,
                       "a contraction of %.3g products that no library does: of %s and %s into %s",
                       work, dt_dtype_name(a->dtype), dt_dtype_name(b->dtype),
                       dt_dtype_name(c->dtype));
    else
        dt_diag_report(e->module->diags, L0587, op->span,
                       "a contraction of %.3g products that no library does: how its operands lie "
                       "is no product of "
                       "matrices",
                       work);
}

bool dt_gemm_emit(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out,
                  bool accumulate)
{
    const DtView *const views[2] = {&operands[0].view, &operands[1].view};
    DtProduct product;
    if (!dt_product_find(&dt_target_limits[e->target->kind], op, views[0], views[1], &out->view,
                         &product))
        return false;
    const bool swapped = product.swapped;
    DtPlanGemm gemm = dt_gemm_of(&product, views, &out->view);
    gemm.accumulate = accumulate;
    DtEArg args[3] = {dt_place_arg(e, &operands[swapped], false),
                      dt_place_arg(e, &operands[!swapped], false), dt_place_arg(e, out, true)};
    dt_inst_add(e, DT_INST_GEMM, dt_gemm_record(e, gemm), 3, args, op);
    dt_note_do(e, &op, 1);
    dt_note_read(e, op->in[swapped]);
    dt_note_read(e, op->in[!swapped]);
    dt_note_write(e, op->out[0], out, accumulate ? DT_NOTE_ADDS : 0);
    return true;
}
