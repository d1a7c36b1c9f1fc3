/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: the diagnostics for layouts that are impossible. */
#include "passes/place/place_internal.h"

DtDiag *dt_placerefuse_at(DtPlacer *p, DtDiagCode code, DtSpan span, const char *reason)
{
    p->failed = true;
    return dt_diag_report(p->module->diags, code, span, "%s", reason);
}

void dt_placerefuse_call(DtDiag *diag, const DtOp *op)
{
    const DtCaller *call = op ? op->caller : NULL;
    while (call && call->outer && call->span.file == op->span.file)
        call = call->outer;
    if (call && call->span.file && call->span.file != op->span.file)
        dt_diag_label(diag, call->span, "called here");
}

bool dt_placerefuse_samples(DtPlacer *p, const DtOp *op)
{
    DtDiag *diag = dt_placerefuse_at(
        p, E0590, op->span,
        dt_arena_printf(p->module->arena,
                        "the loop `%s` goes along the samples, but `micro` cuts the batch in time",
                        op->loop->label));
    dt_diag_note(
        diag,
        "a micro-batch has a part of the samples only, so the loop would need those of others");
    dt_diag_help(diag, "loop over another axis, or drop `micro`");
    return false;
}
