/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that say why a program is not proved, and where. */
#include "verify/internal.h"

#include <stdarg.h>

bool dt_cert_fail(CertState *state, const CertOp *op, const char *format, ...)
{
    va_list args;
    uint32_t line = 1;
    if (state->problem->len)
        return false;
    va_start(args, format);
    dt_text_vprintf(state->problem, format, args);
    va_end(args);
    if (!op)
        return false;
    for (const char *c = state->program->text; c < op->at; c++)
        line += *c == '\n';
    const char *end = op->at + strcspn(op->at, "\n"), *span = end;
    while (span > op->at && *span != ' ')
        span--;
    dt_text_printf(state->problem, " (function %s, line %u of the program %.*s)",
                   state->func ? state->func->name : "?", line, (int)(end - span), span);
    return false;
}
