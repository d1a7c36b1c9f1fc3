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
        if (!reader->types[i] || reader->types[i]->dtype != DT_I32 || !outside.n ||
            !dt_configsamplers_has_tokens(reader, i))
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

/* What the last source said of its tokenizer. */
typedef struct Last {
    const char *path, *end;
    uint32_t n_ids; /* 0: the file is not there, or was reported */
} Last;

static const char *path_of(const DtConfigHost *host, const DtSource *source)
{
    const char *folder = source->folder, *path = source->tokenizer;
    if (*path != '/' && folder && strcmp(folder, ".") != 0)
        path = dt_arena_printf(host->arena, "%s/%s", folder, path);
    return dt_tokenizer_path(host->arena, path);
}

/* Reads the tokenizer of a source, unless it is that of the last one. */
static void look(const DtConfigHost *host, const DtSource *source, Last *last)
{
    DtTokenizer *tokenizer;
    const char *path = path_of(host, source);
    if (last->path && strcmp(path, last->path) == 0 && source->end == last->end)
        return;
    *last = (Last){path, source->end, 0};
    if (access(path, R_OK) != 0)
        return;
    const DtStatus status = dt_tokenizer_open(path, source->end, &tokenizer);
    if (!dt_status_ok(&status)) {
        dt_diag_report(host->diags, E0813, source->span, "%s", status.message);
        return;
    }
    last->n_ids = dt_tokenizer_ids(tokenizer);
    dt_tokenizer_close(tokenizer);
}

static void check_reader(const DtConfigHost *host, const DtReader *reader, Last *last)
{
    const DtSource *source = &reader->source;
    if (source->tokenizer) {
        look(host, source, last);
        if (last->n_ids > 0)
            check_ids(host, reader, last->n_ids);
    } else if (source->end) {
        dt_diag_report(host->diags, E0813, source->span,
                       "`end` is a token, and this text has no tokenizer");
    }
}

void dt_configtokens_check(const DtConfigHost *host, const DtTrainConfig *train)
{
    Last last = {0};
    for (uint32_t i = 0; i < train->readers.n; i++)
        check_reader(host, &train->readers.at[i], &last);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        check_reader(host, &train->eval_readers.at[i], &last);
}
