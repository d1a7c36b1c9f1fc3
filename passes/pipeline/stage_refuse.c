/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnostics for pipelines that are impossible. */
#include "passes/pipeline/stage.h"

#include <stdarg.h>

DtDiag *dt_stage_refuse(DtStager *s, DtDiagCode code, DtSpan span, const char *format, ...)
{
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->failed = true;
    return dt_diag_report(s->diags, code, span.file ? span : s->line->span, "%s", text);
}
