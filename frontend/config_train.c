/* SPDX-License-Identifier: Apache-2.0 */
/* The train block: optimizer, learning rate, precision, steps, evaluation, checkpoints. A train
 * block is also a program (source assignments and statements up to `loss`); those entries belong to
 * the lowering, here they are only looked at to find settings that were misspelt and would
 * otherwise be taken for values that nobody uses. */
#include "frontend/config_internal.h"

#include "base/intern.h"
#include "frontend/foreign.h"

#include <string.h>

/* ---- which entries are settings ---- */

static bool is_plain(const DtEntry *entry)
{
    if (entry->is_directive || entry->targets.n != 1)
        return false;
    const DtTarget *t = &entry->targets.at[0];
    return t->name.text && !t->type.has_axes && !t->type.dtype;
}

static bool is_key(const char *name)
{
    for (int k = 0; k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == DT_SCHEMA_TRAIN && !strcmp(dt_config_keys[k].name, name))
            return true;
    return false;
}

/* Whether the expression is a call that makes no tensor (an optimizer, a mixed precision), so that
 * assigning it is a setting. */
static bool is_setting_call(const DtConfigHost *host, const DtExpr *value)
{
    static const DtConfigClass classes[] = {DT_CONFIG_MIXED, DT_CONFIG_EVAL};
    const char *callee = value ? dt_configargs_callee(value) : NULL;
    for (size_t i = 0; callee && i < DT_COUNT(classes); i++)
        if (dt_configargs_find(classes[i], callee) != DT_SCHEMA_COUNT)
            return true;
    return value && host->is_optimizer(host->context, value);
}

bool dt_config_is_adapt(const DtEntry *entry)
{
    return entry->is_directive && entry->verb.text && !strcmp(entry->verb.text, "adapt") &&
           entry->targets.n && entry->value;
}

bool dt_config_is_setting(const DtConfigHost *host, const DtEntry *entry)
{
    if (entry->is_directive)
        return true; /* dt_configtrain_read reports it */
    return is_plain(entry) &&
           (is_key(entry->targets.at[0].name.text) || is_setting_call(host, entry->value));
}

/* ---- misspelt settings ---- */

void dt_config_mentioned(const DtExpr *e, DtMap *ret_names)
{
    if (!e)
        return;
    if (e->kind == DT_EXPR_NAME && e->name.text &&
        !dt_map_find(ret_names, e->name.text, strlen(e->name.text)))
        dt_map_add(ret_names, e->name.text, strlen(e->name.text), ret_names);
    dt_config_mentioned(e->a, ret_names);
    dt_config_mentioned(e->b, ret_names);
    dt_config_mentioned(e->c, ret_names);
    for (uint32_t i = 0; i < e->items.n; i++)
        dt_config_mentioned(e->items.at[i], ret_names);
    for (uint32_t i = 0; i < e->args.n; i++)
        dt_config_mentioned(e->args.at[i].value, ret_names);
    for (uint32_t i = 0; i < e->subs.n; i++) {
        dt_config_mentioned(e->subs.at[i].index, ret_names);
        dt_config_mentioned(e->subs.at[i].end, ret_names);
    }
}

/* Whether the block minimises a loss of the name `loss`: some optimizer's call names no loss, which
 * means `loss`, or there is no optimizer's call. False for any other name. */
static bool is_minimised(const DtConfigHost *host, const DtItem *item, const char *name)
{
    bool others = false, any = false;
    for (uint32_t i = 0; !strcmp(name, "loss") && i < item->entries.n; i++) {
        const DtExpr *call = dt_configargs_bare(item->entries.at[i]->value);
        bool named = false;
        if (!call || call->kind != DT_EXPR_CALL || !host->is_optimizer(host->context, call))
            continue;
        for (uint32_t k = 0; k < call->args.n; k++)
            named = named ||
                    (call->args.at[k].name.text && !strcmp(call->args.at[k].name.text, "loss"));
        any = true;
        others = others || !named;
    }
    return !strcmp(name, "loss") && (others || !any);
}

static void unknown_setting(const DtConfigHost *host, const DtEntry *entry)
{
    const DtName name = entry->targets.at[0].name;
    const char *names[DT_KEY_COUNT];
    size_t n = 0;
    for (int k = 0; k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == DT_SCHEMA_TRAIN)
            names[n++] = dt_config_keys[k].name;
    const char *nearest = dt_text_nearest(name.text, names, n);
    DtDiag *d = dt_diag_report(host->diags, E0450, name.span,
                               "`%s` is not a setting of `train`, and nothing uses it", name.text);
    if (dt_foreign_help(d, DT_FOREIGN_SETTING, name.span, name.text))
        return;
    if (nearest)
        dt_diag_fix(d, name.span, nearest, "did you mean `%s`?", nearest);
    else
        dt_diag_note(
            d, "`train` takes `optimizer`, `precision`, `steps`, `epochs`, `ramp`, "
               "`seed`, `metrics`, `frozen`, `trained`, `keep_zeros`, `eval` and `save`; other "
               "names are values");
}

/* Reports an entry of a train block that means nothing: a directive, or a name that is no setting
 * and that nothing reads. used: names that some entry mentions. */
static void check_entry(const DtConfigHost *host, const DtItem *item, const DtEntry *entry,
                        const DtMap *used)
{
    if (dt_config_is_adapt(entry))
        return;
    if (entry->is_directive) {
        const char *const adapt = "adapt";
        const bool is_adapt = entry->verb.text && dt_text_nearest(entry->verb.text, &adapt, 1);
        DtDiag *d = dt_diag_report(host->diags, E0459, entry->span,
                                   is_adapt
                                       ? "an `adapt` line has paths of instances in quotes, and "
                                         "the layer that wraps them"
                                       : "a `train` block has no directives but `adapt`");
        if (is_adapt)
            dt_diag_help(d, "such as `adapt \"*.wq\", \"*.wv\" = lora(rank = 8, alpha = 16)`");
        else if (dt_configargs_find(DT_CONFIG_VERB, entry->verb.text) != DT_SCHEMA_COUNT)
            dt_diag_help(d, "`%s` belongs in a `parallel` block", entry->verb.text);
        else
            dt_diag_help(d, "write `%s = ...`", entry->verb.text ? entry->verb.text : "name");
        return;
    }
    if (!is_plain(entry))
        return;
    DtName name = entry->targets.at[0].name;
    if (is_key(name.text) || is_minimised(host, item, name.text) ||
        dt_map_find(used, name.text, strlen(name.text)) || dt_configgroup_is(host, entry))
        return;
    const DtExpr *value = dt_configargs_bare(entry->value);
    bool literal = value && (value->kind == DT_EXPR_INT || value->kind == DT_EXPR_FLOAT ||
                             value->kind == DT_EXPR_BOOL || value->kind == DT_EXPR_STRING);
    if (literal || is_setting_call(host, value))
        unknown_setting(host, entry);
    else if (!dt_config_is_source(entry)) {
        DtDiag *d = dt_diag_report(host->diags, L0464, name.span, "`%s` is computed and never used",
                                   name.text);
        dt_diag_note(d, "a `train` block optimises `loss`, or what its optimizers name; other "
                        "values only serve to "
                        "compute that");
        dt_diag_help(d, "to see it beside the loss: `metrics = %s`", name.text);
    }
}

/* ---- precision ---- */

static void check_precision(const DtConfigHost *host, const DtConfigValues *v, const DtPrecision *p)
{
    const DtConfigValue *master = &v->at[DT_KEY_MIXED_master];
    if (p->has_master && dt_dtype_size(p->master) <= dt_dtype_size(p->params)) {
        DtDiag *d = dt_diag_report(host->diags, E0458, master->span,
                                   "the master copy (%s) is not wider than the parameters (%s)",
                                   dt_dtype_name(p->master), dt_dtype_name(p->params));
        dt_diag_help(d,
                     "leave `master` out: the optimizer then works on the parameters themselves");
    }
    if (!p->has_master && dt_dtype_size(p->params) < 4) {
        const DtConfigValue *params = &v->at[DT_KEY_MIXED_params];
        uint32_t end = params->expr ? params->expr->span.hi : params->span.hi;
        DtDiag *d = dt_diag_report(host->diags, L0463, params->span,
                                   "parameters in %s lose small updates", dt_dtype_name(p->params));
        dt_diag_fix(d, (DtSpan){params->span.file, end, end}, ", master = f32",
                    "let the optimizer work on a wide copy");
    }
    if (p->compute == DT_F16 && !p->dynamic_loss_scale && !v->at[DT_KEY_MIXED_loss_scale].given) {
        DtDiag *d = dt_diag_report(host->diags, L0462, v->at[DT_KEY_MIXED_compute].span,
                                   "small gradients become zero in f16");
        dt_diag_help(d, "add `loss_scale = dynamic`, or compute in bf16");
    }
}

static void read_precision(const DtConfigHost *host, const DtConfigValue *value,
                           DtPrecision *ret_precision)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr)
        return;
    dt_configargs_call(host, DT_CONFIG_MIXED, value->expr, &schema, &v);
    if (schema != DT_SCHEMA_MIXED)
        return;
    ret_precision->span = value->expr->span;
    ret_precision->compute = v.at[DT_KEY_MIXED_compute].dtype;
    ret_precision->params = v.at[DT_KEY_MIXED_params].dtype;
    ret_precision->grads = v.at[DT_KEY_MIXED_grads].dtype;
    ret_precision->has_master = v.at[DT_KEY_MIXED_master].present;
    if (ret_precision->has_master)
        ret_precision->master = v.at[DT_KEY_MIXED_master].dtype;
    ret_precision->reduce =
        v.at[DT_KEY_MIXED_reduce].present ? v.at[DT_KEY_MIXED_reduce].dtype : ret_precision->grads;
    ret_precision->tf32 =
        v.at[DT_KEY_MIXED_matmul].word && !strcmp(v.at[DT_KEY_MIXED_matmul].word, "tf32");
    ret_precision->dynamic_loss_scale = v.at[DT_KEY_MIXED_loss_scale].given &&
                                        v.at[DT_KEY_MIXED_loss_scale].word &&
                                        !strcmp(v.at[DT_KEY_MIXED_loss_scale].word, "dynamic");
    if (v.at[DT_KEY_MIXED_loss_scale].number > 0)
        ret_precision->loss_scale = v.at[DT_KEY_MIXED_loss_scale].number;
    check_precision(host, &v, ret_precision);
}

/* ---- data, evaluation, checkpoints ---- */

/* The reader of source assignment number i of the block, the first of a mixture; NULL: there are
 * not so many. */
static const DtReader *assignment(const DtTrainConfig *train, uint32_t i)
{
    for (uint32_t r = 0; r < train->readers.n; r++)
        if (train->readers.at[r].part < 2 && i-- == 0)
            return &train->readers.at[r];
    return NULL;
}

static void read_eval(const DtConfigHost *host, const DtConfigValue *value, DtTrainConfig *train)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr || !dt_configargs_call(host, DT_CONFIG_EVAL, value->expr, &schema, &v))
        return;
    train->eval_every = v.at[DT_KEY_EVAL_interval].whole;
    train->eval_steps = v.at[DT_KEY_EVAL_steps].whole;
    train->eval_patience = v.at[DT_KEY_EVAL_patience].whole;
    train->keep_best = v.at[DT_KEY_EVAL_keep_best].whole != 0;
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    dt_configargs_items(v.at[DT_KEY_EVAL_data].expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        DtReaders read;
        if (!dt_configsource_read(host, items[i], items[i]->span, &read))
            continue;
        const DtReader *twin = assignment(train, i);
        for (uint32_t k = 0; k < read.n; k++) {
            DtReader *reader = &read.at[k];
            if (twin) {
                reader->n_inputs = twin->n_inputs;
                memcpy(reader->inputs, twin->inputs, sizeof reader->inputs);
            }
            DT_PUSH(host->arena, train->eval_readers, *reader);
        }
        if (twin && twin->kind != read.at[0].kind) {
            DtDiag *d = dt_diag_report(host->diags, E0808, items[i]->span,
                                       "evaluation reads other samples than training");
            dt_diag_label(d, twin->span, "the training data has another sampler");
        }
    }
    uint32_t wants = 0;
    while (assignment(train, wants))
        wants++;
    if (n != wants) {
        DtDiag *d = dt_diag_report(host->diags, E0808, v.at[DT_KEY_EVAL_data].span,
                                   "evaluation has %u data source%s, training has %u", n,
                                   n == 1 ? "" : "s", wants);
        dt_diag_note(
            d,
            "`data` gives one source for each source assignment of the block, in the same order");
    }
}

static void read_metrics(const DtConfigHost *host, const DtConfigValue *value, DtTrainConfig *train)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n = 0;
    if (value->expr)
        dt_configargs_items(value->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = dt_configargs_path(items[i]);
        const char *wrong = NULL;
        for (uint32_t k = 0; k < train->n_metrics; k++)
            if (train->metrics[k] == name)
                wrong = "is named twice";
        for (uint32_t k = 0; k < train->objectives.n; k++)
            if (train->objectives.at[k].loss == name)
                wrong = "is always shown";
        if (name && strchr(name, '.'))
            wrong = "is a path; a metric is a value of this block";
        if (!wrong && train->n_metrics == DT_COUNT(train->metrics))
            wrong = "is one metric too many: there are at most 16";
        if (wrong)
            dt_diag_report(host->diags, E0408, items[i]->span, "`%s` %s", name, wrong);
        if (!name || wrong)
            continue;
        train->metric_spans[train->n_metrics] = items[i]->span;
        train->metrics[train->n_metrics++] = name;
    }
}

static void read_save(const DtConfigHost *host, const DtConfigValue *value, DtTrainConfig *train)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr || !dt_configargs_call(host, DT_CONFIG_SAVE, value->expr, &schema, &v))
        return;
    train->save_every = v.at[DT_KEY_SAVE_interval].whole;
    train->save_keep = v.at[DT_KEY_SAVE_keep].whole;
}

static void read_generate(const DtConfigHost *host, const DtConfigValue *value,
                          DtTrainConfig *train)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr || !dt_configargs_call(host, DT_CONFIG_GENERATE, value->expr, &schema, &v))
        return;
    train->cached_rows = v.at[DT_KEY_GENERATE_rows].whole;
    train->cached_chunk = v.at[DT_KEY_GENERATE_chunk].whole;
    train->cached_span = value->span;
}

static void read_ramp(const DtConfigHost *host, const DtConfigValue *value, DtTrainConfig *train)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr || !dt_configargs_call(host, DT_CONFIG_RAMP, value->expr, &schema, &v))
        return;
    train->ramp = (DtRampConfig){.from = v.at[DT_KEY_RAMP_from].whole,
                                 .by = v.at[DT_KEY_RAMP_by].whole,
                                 .over = v.at[DT_KEY_RAMP_over].whole,
                                 .span = value->expr->span};
}

/* Reads the calls of `quantize`: patterns, bits and groups. */
static void read_quantize(const DtConfigHost *host, const DtConfigValue *value,
                          DtTrainConfig *train)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n = 0;
    if (value->expr)
        dt_configargs_items(value->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        DtConfigValues v;
        DtSchemaId schema;
        if (!dt_configargs_call(host, DT_CONFIG_CODES, items[i], &schema, &v))
            continue;
        const bool is_8 = schema == DT_SCHEMA_INT8;
        const DtConfigValue *group = &v.at[is_8 ? DT_KEY_INT8_group : DT_KEY_INT4_group];
        DtCodedPattern made = {.bits = is_8 ? 8 : 4, .group = group->whole,
                               .span = items[i]->span};
        dt_configgroup_patterns(host, &v.at[is_8 ? DT_KEY_INT8_params : DT_KEY_INT4_params],
                                &made.params);
        if (!is_8 && made.group % 2 != 0)
            dt_diag_report(host->diags, E0452, group->span,
                           "a group of `int4` has two codes in a byte, so `group` is even");
        else
            DT_PUSH(host->arena, train->quantize, made);
    }
}

static void read_sources(const DtConfigHost *host, const DtItem *item, DtTrainConfig *train)
{
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (!dt_config_is_source(entry))
            continue;
        DtReaders read;
        const bool ok = dt_configsource_read(host, entry->value, entry->span, &read);
        const uint32_t room = (uint32_t)DT_COUNT(read.at->inputs);
        if (entry->targets.n > room) {
            dt_diag_report(host->diags, E0802, entry->span, "a source fills at most %u inputs",
                           room);
            continue;
        }
        for (uint32_t r = 0; ok && r < read.n; r++) {
            for (uint32_t t = 0; t < entry->targets.n; t++)
                read.at[r].inputs[t] = entry->targets.at[t].name.text;
            read.at[r].n_inputs = entry->targets.n;
            DT_PUSH(host->arena, train->readers, read.at[r]);
        }
    }
}

/* Reads how long training takes: `steps` or `epochs`. */
static void read_length(const DtConfigHost *host, const DtConfigValue *steps,
                        const DtConfigValue *epochs, DtTrainConfig *train)
{
    train->steps = steps->whole;
    train->epochs = epochs->given ? epochs->number : 0;
    if (!steps->given || !epochs->given)
        return;
    DtDiag *d = dt_diag_report(host->diags, E0454, epochs->span,
                               "`steps` and `epochs` both say how long training takes");
    dt_diag_label(d, steps->span, "the other one");
    dt_diag_help(d, "leave one of them out; `dtrun --steps N` takes the place of either");
}

DtTrainConfig *dt_configtrain_read(const DtConfigHost *host, const DtItem *item,
                                   DtOptimizerCalls *ret_calls)
{
    DtConfigValues v;
    DtTrainConfig *train = DT_NEW(host->arena, DtTrainConfig);
    train->name = item->name.text;
    train->span = item->span;
    train->precision = (DtPrecision){.compute = DT_F32,
                                     .params = DT_F32,
                                     .master = DT_F32,
                                     .grads = DT_F32,
                                     .reduce = DT_F32,
                                     .loss_scale = 1};
    DtMap used = {.arena = host->arena};
    for (uint32_t i = 0; i < item->entries.n; i++)
        dt_config_mentioned(item->entries.at[i]->value, &used);
    for (uint32_t i = 0; i < item->entries.n; i++)
        check_entry(host, item, item->entries.at[i], &used);
    dt_configargs_entries(host, DT_SCHEMA_TRAIN, item->entries, item->span, &v);
    dt_configgroup_read(host, item, train, ret_calls);
    read_precision(host, &v.at[DT_KEY_TRAIN_precision], &train->precision);
    if (train->precision.dynamic_loss_scale)
        DT_PUSH(host->arena, train->scalars, ((DtStepScalar){dt_intern("@loss_scale"),
                                                             "loss_scale"}));
    read_sources(host, item, train);
    read_length(host, &v.at[DT_KEY_TRAIN_steps], &v.at[DT_KEY_TRAIN_epochs], train);
    read_ramp(host, &v.at[DT_KEY_TRAIN_ramp], train);
    train->seed = (uint64_t)v.at[DT_KEY_TRAIN_seed].whole;
    train->draws_one =
        v.at[DT_KEY_TRAIN_draws].word && !strcmp(v.at[DT_KEY_TRAIN_draws].word, "one");
    read_eval(host, &v.at[DT_KEY_TRAIN_eval], train);
    read_save(host, &v.at[DT_KEY_TRAIN_save], train);
    read_generate(host, &v.at[DT_KEY_TRAIN_generate], train);
    train->predict_rows = v.at[DT_KEY_TRAIN_predict_rows].whole;
    train->predict_span = v.at[DT_KEY_TRAIN_predict_rows].span;
    read_quantize(host, &v.at[DT_KEY_TRAIN_quantize], train);
    dt_configgroup_patterns(host, &v.at[DT_KEY_TRAIN_frozen], &train->frozen);
    dt_configgroup_patterns(host, &v.at[DT_KEY_TRAIN_trained], &train->trained);
    dt_configgroup_patterns(host, &v.at[DT_KEY_TRAIN_keep_zeros], &train->keep_zeros);
    train->trains_some = v.at[DT_KEY_TRAIN_trained].given;
    read_metrics(host, &v.at[DT_KEY_TRAIN_metrics], train);
    return train;
}
