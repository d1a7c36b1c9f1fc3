/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of parameters, each with an optimizer of its own:
 *
 *   optimizer = adamw(lr = 3e-4, decay = 0.1)                       of all parameters that no other
 *                                                                   entry names
 *   tables = sgd(lr = 1e-2, params = ("wte", "wpe"))                of these
 *
 *   critic = adamw(lr = 1e-4, params = "d.*", loss = apart)         of these, to minimise `apart`
 *
 * What a call says of its group beside the optimizer's settings are the rows of schema GROUP. The
 * entry's name stands where settings are changed: `--set train.tables.lr=0.1`, `dtrun --set
 * tables.lr.base=0.1`. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

bool dt_config_is_group_option(const char *name)
{
    for (int k = 0; name && k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == DT_SCHEMA_GROUP && !strcmp(dt_config_keys[k].name, name))
            return true;
    return false;
}

bool dt_configgroup_is(const DtConfigHost *host, const DtEntry *entry)
{
    const DtExpr *call = dt_configargs_bare(entry->value);
    bool named = false;
    for (uint32_t i = 0; call && call->kind == DT_EXPR_CALL && i < call->args.n; i++)
        named = named || dt_config_is_group_option(call->args.at[i].name.text);
    return named && host->is_optimizer(host->context, call);
}

void dt_configgroup_patterns(const DtConfigHost *host, const DtConfigValue *value,
                             DtPatterns *ret_patterns)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n = 0;
    if (value->expr)
        dt_configargs_items(value->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const DtExpr *item = dt_configargs_bare(items[i]);
        if (item && item->kind == DT_EXPR_STRING)
            DT_PUSH(host->arena, *ret_patterns,
                    ((DtPattern){dt_intern_n(item->string, item->string_len), item->span}));
    }
}

/* ---- losses ---- */

/* Returns the number of the objective (a loss that steps minimise) that the call names; the first
 * call that names it adds it, with how often it is trained. Reports calls that say this
 * differently. */
static uint32_t objective_of(const DtConfigHost *host, const DtConfigValue *named,
                             const DtConfigValue *every, DtSpan span, DtTrainConfig *train)
{
    const char *loss = named->given ? dt_configargs_path(named->expr) : NULL;
    DtObjective objective = {.name = loss && strcmp(loss, "loss") ? loss : NULL,
                             .loss = loss ? loss : dt_intern("loss"),
                             .every = every->whole,
                             .span = loss ? named->span : span};
    if (named->given && (!loss || strchr(loss, '.')))
        dt_diag_report(host->diags, E0471, named->span, "`loss` names one value of this block");
    for (uint32_t i = 0; i < train->objectives.n; i++) {
        const DtObjective *other = &train->objectives.at[i];
        if (other->loss != objective.loss)
            continue;
        if (other->every != objective.every) {
            DtDiag *d = dt_diag_report(
                host->diags, E0471, every->given ? every->span : span,
                "`%s` is minimised in every step that is a multiple of %lld, and here of %lld",
                objective.loss, (long long)other->every, (long long)objective.every);
            dt_diag_label(d, other->span, "the other one");
            dt_diag_help(d, "write the same `every` in all calls with this loss");
        }
        return i;
    }
    if (train->objectives.n == DT_MAX_OBJECTIVES) {
        dt_diag_report(host->diags, E0471, objective.span, "there are at most %d losses",
                       DT_MAX_OBJECTIVES);
        return 0;
    }
    DT_PUSH(host->arena, train->objectives, objective);
    return train->objectives.n - 1;
}

static void check_objectives(const DtConfigHost *host, DtTrainConfig *train)
{
    if (train->objectives.n == 0) /* without an optimizer the program is only evaluated, with one
                                   * objective */
        DT_PUSH(host->arena, train->objectives,
                ((DtObjective){.loss = dt_intern("loss"), .every = 1, .span = train->span}));
    if (dt_train_always(train)->every == 1)
        return;
    DtDiag *d =
        dt_diag_report(host->diags, E0471, train->objectives.at[0].span,
                       "no loss is minimised in every step: the first step would do nothing");
    dt_diag_help(d, "leave out `every` where there is the least");
}

/* ---- groups ---- */

static void add_group(const DtConfigHost *host, DtName name, const DtExpr *expr,
                      DtTrainConfig *train, DtOptimizerCalls *ret_calls)
{
    const DtExpr *call = dt_configargs_bare(expr);
    DT_VEC(DtArg) mine = {0};
    DtConfigValues v;
    for (uint32_t i = 0; call->kind == DT_EXPR_CALL && i < call->args.n; i++)
        if (dt_config_is_group_option(call->args.at[i].name.text))
            DT_PUSH(host->arena, mine, call->args.at[i]);
    dt_configargs_read(host, DT_SCHEMA_GROUP, mine.at, mine.n, expr->span, &v);
    DtParamGroup group = {.name = name.text, .span = expr->span,
                          .own_norm = v.at[DT_KEY_GROUP_own_norm].whole != 0};
    group.objective =
        objective_of(host, &v.at[DT_KEY_GROUP_loss], &v.at[DT_KEY_GROUP_every], expr->span, train);
    dt_configgroup_patterns(host, &v.at[DT_KEY_GROUP_params], &group.params);
    DT_PUSH(host->arena, train->groups, group);
    DT_PUSH(host->arena, *ret_calls, expr);
    if (!train->optimizer.span.file)
        train->optimizer.span = expr->span;
}

static bool has_name(const DtTrainConfig *train, const char *name)
{
    for (uint32_t i = 0; i < train->groups.n; i++)
        if (train->groups.at[i].name == name)
            return true;
    return false;
}

/* Whether an entry of the block that is no group has this name, too, so that a setting on the
 * command line could mean either. */
static bool is_taken(const DtConfigHost *host, const DtItem *item, const char *name)
{
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        for (uint32_t k = 0; !entry->is_directive && k < entry->targets.n; k++)
            if (entry->targets.at[k].name.text && !strcmp(entry->targets.at[k].name.text, name) &&
                !dt_configgroup_is(host, entry))
                return true;
    }
    return false;
}

void dt_configgroup_read(const DtConfigHost *host, const DtItem *item, DtTrainConfig *train,
                         DtOptimizerCalls *ret_calls)
{
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (entry->is_directive || entry->targets.n != 1 || !entry->targets.at[0].name.text ||
            !entry->value)
            continue;
        const DtName name = entry->targets.at[0].name;
        const bool is_default = !strcmp(name.text, dt_config_keys[DT_KEY_TRAIN_optimizer].name);
        if (!is_default && !dt_configgroup_is(host, entry))
            continue;
        const bool taken = !is_default && is_taken(host, item, name.text);
        if (!taken && !has_name(train, name.text))
            add_group(host, name, entry->value, train, ret_calls);
        else if (!is_default) /* a second `optimizer` was reported with the other settings */
            dt_diag_report(host->diags, E0454, name.span, "`%s` is given twice", name.text);
    }
    check_objectives(host, train);
}
