/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/say.h"

#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

void dt_say(const char *format, ...)
{
    DtText line = {0};
    va_list args;
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    dt_text_add(&line, "dtrun: ");
    va_start(args, format);
    dt_text_vprintf(&line, format, args);
    va_end(args);
    dt_text_say(stderr, line.at);
    dt_text_free(&line);
}
