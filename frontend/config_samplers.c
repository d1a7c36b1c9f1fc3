/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers that make more of a window of tokens than its next ones: `mlm` and `span_corruption`.
 * Their tokens, masks and sentinels must fit the inputs, and the axes that these index. */
#include "frontend/config_internal.h"

#include "base/spans.h"

#include <string.h>

void dt_configsamplers_read(const DtConfigHost *host, DtSchemaId schema, const DtConfigValues *v,
                            DtReader *ret_reader)
{
    DtReader *r = ret_reader;
    if (schema == DT_SCHEMA_NEXT_TOKEN)
        r->kind = DT_SAMPLE_NEXT_TOKEN;
    if (schema == DT_SCHEMA_MLM) {
        r->kind = DT_SAMPLE_MLM;
        r->rate = v->at[DT_KEY_MLM_rate].number;
        r->mask_id = v->at[DT_KEY_MLM_mask_id].whole;
        const DtConfigValue *special = &v->at[DT_KEY_MLM_special];
        int64_t ids[DT_SPECIALS + 1];
        const uint32_t n = dt_configkinds_naturals(host, special->expr, ids, DT_SPECIALS + 1);
        r->n_special = n < DT_SPECIALS ? n : DT_SPECIALS;
        memcpy(r->special, ids, r->n_special * sizeof *ids);
        if (n > DT_SPECIALS)
            dt_diag_report(host->diags, E0452, special->span,
                           "`special` takes at most %d tokens; those that a tokenizer calls "
                           "special need not be there",
                           (int)DT_SPECIALS);
    }
    if (schema == DT_SCHEMA_SPAN_CORRUPTION) {
        const DtConfigValue *sentinel = &v->at[DT_KEY_SPAN_CORRUPTION_sentinel];
        r->kind = DT_SAMPLE_SPAN_CORRUPTION;
        r->rate = v->at[DT_KEY_SPAN_CORRUPTION_rate].number;
        r->mean_span = v->at[DT_KEY_SPAN_CORRUPTION_mean_span].number;
        r->mask_id = sentinel->given ? sentinel->whole : -1;
        r->start_id = v->at[DT_KEY_SPAN_CORRUPTION_start_id].whole;
        r->end_id = v->at[DT_KEY_SPAN_CORRUPTION_end_id].whole;
    }
}

bool dt_configsamplers_has_tokens(const DtReader *reader, uint32_t input)
{
    switch (reader->kind) {
    case DT_SAMPLE_CHAT: return input < 2;
    case DT_SAMPLE_MLM: return input == 0 || input == 3;
    case DT_SAMPLE_SPAN_CORRUPTION: return input < 3;
    default: return true;
    }
}

/* ---- checks ---- */

static const char *sampler_name(const DtReader *r)
{
    return r->kind == DT_SAMPLE_MLM ? "mlm" : "span_corruption";
}

/* The number of positions of an input's samples. */
static int64_t row_of(const DtReader *r, uint32_t input) { return r->types[input]->axes[1].extent; }

/* Checks that inputs first .. end - 1 have as many positions as `first`. */
static bool check_rows(const DtConfigHost *host, const DtReader *r, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (row_of(r, i) == row_of(r, first))
            continue;
        dt_diag_report(host->diags, E0814, r->span,
                       "`%s` has %lld positions and `%s` %lld; `%s` fills both alike",
                       r->inputs[first], (long long)row_of(r, first), r->inputs[i],
                       (long long)row_of(r, i), sampler_name(r));
        return false;
    }
    return true;
}

static bool is_in(const DtIntSet *set, int64_t value)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (value >= set->lo[i] && value < set->hi[i])
            return true;
    return false;
}

/* Checks that the program can use a token that the sampler puts into an input. fix: the size that
 * the axis needs. */
static bool check_token(const DtConfigHost *host, const DtReader *r, uint32_t input,
                        const char *what, int64_t id)
{
    const DtInputRange *range = &r->ranges[input];
    if (!range->axis || is_in(&range->allowed, id))
        return true;
    DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                               "%s %lld is outside `%s` of %lld, which `%s` indexes", what,
                               (long long)id, range->axis, (long long)range->extent,
                               r->inputs[input]);
    dt_diag_label(d, range->span, "`%s` is the index here", r->inputs[input]);
    if (id >= range->extent)
        dt_diag_help(d, "`%s` needs at least %lld; bytes of text take ids 0 to 255", range->axis,
                     (long long)id + 1);
    return false;
}

static void check_mlm(const DtConfigHost *host, const DtReader *r)
{
    const DtInputRange *range = &r->ranges[0];
    if (!check_rows(host, r, 0, r->n_inputs))
        return;
    if (r->rate <= 0)
        dt_diag_report(host->diags, E0452, r->span, "`rate` must be above 0 for `mlm`");
    if (range->lo < range->hi) {
        check_token(host, r, 0, "the mask token", r->mask_id);
        return;
    }
    DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                               "`mlm` puts random tokens in some places, and nothing says how "
                               "many there are: `%s` indexes no axis",
                               r->inputs[0]);
    dt_diag_help(d, "a model looks tokens up in a table, as `word[vocab = %s]` does", r->inputs[0]);
}

/* Checks that the tokens of the source, as far as they are known, are no sentinels. */
static void check_sentinels(const DtConfigHost *host, const DtReader *r, int64_t spans)
{
    const int64_t last = r->mask_id - spans + 1,
                  ids = r->source.kind == DT_SOURCE_TEXT && !r->source.tokenizer ? 128 : 0;
    if (last >= ids)
        return;
    DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                               "the %lld sentinels are tokens %lld down to %lld, which %s",
                               (long long)spans, (long long)r->mask_id, (long long)last,
                               last < 0 ? "are too few" : "text has as well");
    const int64_t before = ids ? 256 : 0;
    dt_diag_help(d, "with %lld tokens in front of them, `%s` needs %lld", (long long)before,
                 r->ranges[0].axis ? r->ranges[0].axis : "vocab", (long long)(before + spans));
}

static void check_room(const DtConfigHost *host, const DtReader *r, const DtSpanNumbers *n)
{
    const int64_t room = row_of(r, 1);
    if (room >= n->target)
        return;
    DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                               "a target takes %lld tokens, and `%s` has %lld positions",
                               (long long)n->target, r->inputs[1], (long long)room);
    dt_diag_note(d,
                 "of %lld tokens, %lld in %lld spans are removed: `%s` gets %lld, the target each "
                 "span after its sentinel, and an end token",
                 (long long)n->tokens, (long long)n->noise, (long long)n->spans, r->inputs[0],
                 (long long)n->source);
    dt_diag_help(d, "`dim %s = %lld`", r->types[1]->axes[1].name, (long long)n->target);
}

static void check_spans(const DtConfigHost *host, DtReader *r)
{
    DtSpanNumbers n;
    if (!check_rows(host, r, 1, r->n_inputs))
        return;
    if (!dt_spans_fit(row_of(r, 0), r->rate, r->mean_span, &n)) {
        DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                                   "no window of tokens leaves %lld if a part of %g is removed in "
                                   "spans of %g",
                                   (long long)row_of(r, 0), r->rate, r->mean_span);
        dt_diag_note(d, "`rate` is between 0 and 1, `mean_span` at least 1, and a sample has a "
                        "token between two spans");
        return;
    }
    if (r->mask_id < 0)
        r->mask_id = r->ranges[0].extent - 1;
    if (r->mask_id < 0) {
        DtDiag *d = dt_diag_report(host->diags, E0814, r->span,
                                   "`sentinel` is missing: `%s` indexes no axis, so there is no "
                                   "last token",
                                   r->inputs[0]);
        dt_diag_help(d, "`sentinel = 32099` as in T5: the first sentinel, the others count down");
        return;
    }
    check_room(host, r, &n);
    check_sentinels(host, r, n.spans);
    if (check_token(host, r, 0, "the first sentinel", r->mask_id))
        check_token(host, r, 1, "the first sentinel", r->mask_id);
    check_token(host, r, 0, "the end token", r->end_id);
    check_token(host, r, 1, "the start token", r->start_id);
}

void dt_configsamplers_check(const DtConfigHost *host, DtReader *reader)
{
    const bool masks = reader->kind == DT_SAMPLE_MLM;
    const uint32_t wants = masks ? 5 : 4;
    if ((!masks && reader->kind != DT_SAMPLE_SPAN_CORRUPTION) || reader->n_inputs != wants)
        return;
    for (uint32_t i = 0; i < wants; i++)
        if (!reader->types[i] || reader->types[i]->rank != 2)
            return; /* E0803 says so */
    if (masks)
        check_mlm(host, reader);
    else
        check_spans(host, reader);
}
