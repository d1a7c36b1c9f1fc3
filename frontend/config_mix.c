/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of sources: `mix(0.7 * text("web.txt"), 0.3 * text("code.txt"))`. Each source becomes
 * a reader of its own; readers of one mixture follow each other and fill the same inputs. */
#include "frontend/config_internal.h"

#include <math.h>
#include <string.h>

bool dt_configmix_is(const DtExpr *expr)
{
    const char *callee = dt_configargs_callee(expr);
    return callee && !strcmp(callee, "mix");
}

static const DtExpr *product(const DtExpr *expr)
{
    const DtExpr *bare = dt_configargs_bare(expr);
    return bare && bare->kind == DT_EXPR_BINARY && bare->op == DT_OPR_MUL ? bare : NULL;
}

bool dt_configmix_part(const DtConfigHost *host, const DtArg *arg, double *ret_weight,
                       const DtExpr **ret_source)
{
    const DtExpr *times = product(arg->value);
    const bool first = times && dt_config_is_reader(dt_configargs_callee(times->a));
    const DtExpr *weight = !times ? NULL : first ? times->b : times->a;
    DtConfigNumber number = {.number = 1};
    *ret_source = !times ? arg->value : first ? times->a : times->b;
    if (dt_configmix_is(*ret_source)) {
        DtDiag *d = dt_diag_report(host->diags, E0815, (*ret_source)->span,
                                   "a source of `mix` is no mixture");
        dt_diag_help(d, "write its sources in this `mix`, each with the product of both weights");
        return false;
    }
    const char *callee = dt_configargs_callee(*ret_source);
    if (dt_configargs_find(DT_CONFIG_SAMPLER, callee) != DT_SCHEMA_COUNT) {
        DtDiag *d = dt_diag_report(host->diags, E0815, (*ret_source)->span,
                                   "`mix` takes sources, and `%s` is a sampler", callee);
        dt_diag_help(d, "the sampler stands around the mixture: `%s(mix(...))`", callee);
        return false;
    }
    if (arg->name.text || dt_configargs_find(DT_CONFIG_SOURCE, callee) == DT_SCHEMA_COUNT) {
        DtDiag *d = dt_diag_report(host->diags, E0815, arg->value->span,
                                   "`mix` takes sources with weights, and this is none");
        dt_diag_note(d, "a source is `text`, `bin`, `npy`, `megatron`, `csv`, `synthetic` or "
                        "`chat`, with one constant in front of or after it");
        dt_diag_help(d, "`mix(0.7 * text(\"a.txt\"), 0.3 * text(\"b.txt\"))`");
        return false;
    }
    if (weight && !host->constant(host->context, weight, &number))
        return false;
    *ret_weight = number.number;
    if (number.number > 0 && number.number < 1e30)
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0815, weight->span,
                               "a weight must be above 0 and below 1e30, not %g", number.number);
    if (number.number <= 0)
        dt_diag_help(d, "leave out a source from which no sample should come");
    return false;
}

/* Reports what the sources of a mixture cannot be. */
bool dt_configmix_check(const DtConfigHost *host, const DtExpr *mix, const DtReader *parts,
                        uint32_t n)
{
    bool streams = true, chats = true;
    for (uint32_t i = 0; i < n; i++) {
        const DtSourceKind kind = parts[i].source.kind;
        chats = chats && kind == DT_SOURCE_CHAT;
        streams = streams && parts[i].kind != DT_SAMPLE_RAW && kind != DT_SOURCE_CHAT &&
                  kind != DT_SOURCE_IMAGES;
    }
    if (n > 1 && (streams || chats))
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0815, mix->span,
                               n < 2 ? "`mix` takes at least two sources"
                                     : "`mix` takes token streams inside of a sampler, or "
                                       "conversations");
    if (n > 1)
        dt_diag_help(d, "`next_token(mix(...))`, or `chat(...)` for each source");
    return false;
}

void dt_configmix_check_train(const DtConfigHost *host, const DtTrainConfig *train)
{
    for (uint32_t i = 0; i < train->readers.n; i++) {
        const DtReader *reader = &train->readers.at[i];
        if (reader->part != 1 || !(train->epochs > 0))
            continue;
        DtDiag *d = dt_diag_report(host->diags, E0815, reader->span,
                                   "`epochs` counts passes over the data, and each source of a "
                                   "mixture has passes of its own");
        dt_diag_help(d, "say how many `steps` the training takes");
        return;
    }
    for (uint32_t i = 0; i < train->eval_readers.n; i++) {
        const DtReader *reader = &train->eval_readers.at[i];
        if (reader->part != 1)
            continue;
        DtDiag *d = dt_diag_report(host->diags, E0815, reader->span,
                                   "held-out data is read once from beginning to end, and a "
                                   "mixture has no end");
        dt_diag_help(d, "name one source; its pattern may match several files");
        return;
    }
}
