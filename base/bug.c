/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bug.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void dt_bug(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: internal error: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n  found at %s:%d; please report it, with the program\n", file, line);
    abort();
}
