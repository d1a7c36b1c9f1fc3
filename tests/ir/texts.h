/* SPDX-License-Identifier: Apache-2.0 */
/* What tests compare with expected text; the caller frees it. */
#ifndef DT_TESTS_IR_TEXTS_H
#define DT_TESTS_IR_TEXTS_H

#include "base/diag.h"
#include "base/text.h"
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>

static inline char *module_text(const DtModule *module)
{
    DtText text = {0};
    dt_text_add(&text, "");
    dt_irtext_print(module, &text);
    return text.at;
}

static inline char *diags_text(const DtDiags *diags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    dt_diag_print(diags, stream, false);
    fclose(stream);
    return text;
}

#endif
