/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

DtStatus dt_status_fail(int code, const char *format, ...)
{
    DtStatus status = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(status.message, sizeof status.message, format, args);
    va_end(args);
    return status;
}
