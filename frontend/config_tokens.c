/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer of a source of text against the program: all of its ids must be inside the axes
 * that the inputs index. Its file need not be there when the program is compiled. */
#include "frontend/config_internal.h"

#include "tokenizer/tokenizer.h"

#include <string.h>
#include <unistd.h>

/* Reports an id of the tokenizer that an input must not have. */
static void check_ids(const DtConfigHost *host, const DtReader *reader, uint32_t n_ids)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtInputRange *range = &reader->ranges[i];
        DtIntSet ids = dt_intset_range(0, n_ids), outside = dt_intset_others(&range->allowed);
        outside = dt_intset_common(&ids, &outside);
        if (!reader->types[i] || reader->types[i]->dtype != DT_I32 || !outside.n)
            continue;
        DtDiag *d = dt_diag_report(host->diags, E0813, reader->source.span,
                                   "ids of the tokenizer, such as %lld, are outside `%s` of %lld",
                                   (long long)outside.hi[outside.n - 1] - 1, range->axis,
                                   (long long)range->extent);
        dt_diag_label(d, range->span, "`%s` is the index here", reader->inputs[i]);
        dt_diag_help(d, "its largest id is %u: `%s` needs at least %u", n_ids - 1, range->axis,
                     n_ids);
        return;
    }
}

void dt_configtokens_check(const DtConfigHost *host, const DtReader *reader)
{
    const DtSource *source = &reader->source;
    DtTokenizer *tokenizer;
    if (!source->tokenizer) {
        if (source->end)
            dt_diag_report(host->diags, E0813, source->span,
                           "`end` is a token, and this text has no tokenizer");
        return;
    }
    const bool beside = *source->tokenizer == '/' || !source->folder || !strcmp(source->folder, ".");
    const char *path = source->tokenizer;
    if (!beside)
        path = dt_arena_printf(host->arena, "%s/%s", source->folder, path);
    path = dt_tokenizer_path(host->arena, path);
    if (access(path, R_OK) != 0)
        return;
    const DtStatus status = dt_tokenizer_open(path, source->end, &tokenizer);
    if (!dt_status_ok(&status)) {
        dt_diag_report(host->diags, E0813, source->span, "%s", status.message);
        return;
    }
    check_ids(host, reader, dt_tokenizer_ids(tokenizer));
    dt_tokenizer_close(tokenizer);
}
