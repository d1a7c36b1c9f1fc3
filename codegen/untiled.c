/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming functions that get no tiles: their ops are emitted one by one, and the values that
 * they make for each query and key are in memory as a whole. The result is right, but a lint
 * reports it: a program that fits in memory with tiles may not fit without. */
#include "codegen/emit.h"

enum { LEAST = 1 << 20 }; /* bytes from which on a lint is reported */

static double bytes_of(const DtEmit *e, const DtType *type)
{
    return (double)dt_type_local_elements(type, &e->module->mesh) *
           (double)dt_dtype_size(type->dtype);
}

/* The largest value that the ops write. */
static const DtValue *largest(const DtEmit *e, const DtFunc *kernels)
{
    const DtValue *most = NULL;
    for (uint32_t i = 0; i < kernels->ops.n; i++) {
        const DtOp *op = kernels->ops.at[i];
        const bool makes = op->kind == DT_OP_FUSED || dt_op_info[op->kind].data == DT_DATA_MAKE;
        for (uint32_t k = 0; makes && k < op->n_out; k++)
            if (!dt_op_is_inline(op->out[k]) &&
                (!most || bytes_of(e, op->out[k]->type) > bytes_of(e, most->type)))
                most = op->out[k];
    }
    return most;
}

bool dt_untiled_is_reported(DtEmit *e, const DtFunc *func)
{
    for (uint32_t i = 0; i < e->refused.n; i++) {
        const DtSpan *known = &e->refused.at[i]->span, *span = &func->span;
        if (e->refused.at[i] == func || /* "predict" has copies for fewer samples */
            (span->hi && known->file == span->file && known->lo == span->lo &&
             known->hi == span->hi))
            return true;
    }
    DT_PUSH(e->arena, e->refused, func);
    return false;
}

void dt_untiled_report(DtEmit *e, const DtOp *call, const DtFunc *kernels, const DtTileWhy *why)
{
    const DtValue *value = largest(e, kernels);
    double given = 0;
    for (uint32_t i = 0; i < kernels->inputs.n; i++)
        given += bytes_of(e, kernels->inputs.at[i]->type);
    for (uint32_t i = 0; i < kernels->results.n; i++)
        given += bytes_of(e, kernels->results.at[i]->type);
    if (!e->module->diags || e->options->unfused || !value || bytes_of(e, value->type) < LEAST ||
        bytes_of(e, value->type) <= given || dt_untiled_is_reported(e, call->func))
        return;
    char size[32];
    DtDiag *diag = dt_diag_report(e->module->diags, L0585, call->span,
                                  "`%s` is not computed block by block, and keeps %s at once",
                                  dt_graph_source_name(call->func),
                                  dt_text_bytes(size, bytes_of(e, value->type)));
    dt_diag_label(diag, value->op->span, "this");
    if (why->at)
        dt_diag_label(diag, why->at->span, "%s", why->why);
    else
        dt_diag_note(diag, "%s", why->why);
}
