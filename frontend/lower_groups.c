/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters by path: which are frozen, which keep their zeros, and to which group each other one
 * belongs. A loop's
 * parameters are called by their pattern (h.#.up.w), as --params and checkpoints do, or without the
 * number. */
#include "frontend/lower_train.h"

#include <fnmatch.h>
#include <string.h>

static const uint32_t NO_GROUP = UINT32_MAX;

bool dt_groups_match(const char *pattern, const char *of_all, const char *path)
{
    return fnmatch(pattern, of_all, FNM_NOESCAPE) == 0 || fnmatch(pattern, path, FNM_NOESCAPE) == 0;
}

static bool is_called(const DtStore *store, const char *pattern)
{
    return dt_groups_match(pattern, store->pattern, store->path);
}

/* Returns the path with `#` for each iteration number: h.#.up.w for h.0.up.w. */
static const char *of_all_iterations(DtLower *l, const char *path)
{
    char *all = dt_arena_strndup(l->arena, path, strlen(path)), *to = all;
    for (const char *at = path; *at;) {
        const size_t digits = at == path || at[-1] == '.' ? strspn(at, "0123456789") : 0;
        const bool number = digits && (at[digits] == '.' || !at[digits]);
        *to++ = number ? '#' : *at;
        at += number ? digits : 1;
    }
    *to = '\0';
    return all;
}

static void unknown_path(DtLower *l, const DtPattern *pattern, const char *why)
{
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->module->stores.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < l->module->stores.n; i++)
        if (l->module->stores.at[i]->kind == DT_STORE_PARAM)
            names[n++] = l->module->stores.at[i]->pattern;
    DtDiag *d = dt_diag_report(l->diags, E0201, pattern->span, "no parameter has the path `%s`",
                               pattern->text);
    const char *near = dt_text_nearest(pattern->text, names, n),
               *all = of_all_iterations(l, pattern->text);
    for (size_t i = 0; i < n; i++)
        near = fnmatch(all, names[i], FNM_NOESCAPE) == 0 ? all : near;
    if (near)
        dt_diag_help(d, "did you mean \"%s\"?", near);
    dt_diag_note(d, "`dtc --params` lists the paths; %s", why);
}

/* ---- checks of `frozen` ---- */

static bool check_any_trained(DtLower *l)
{
    const DtTrainConfig *train = l->program->train;
    bool any = false, trained = false;
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        any = any || store->frozen;
        trained = trained || (store->kind == DT_STORE_PARAM && !store->frozen);
    }
    if (!any || trained || !l->optimizers.n)
        return true;
    const DtSpan span = train->frozen.n    ? train->frozen.at[train->frozen.n - 1].span
                        : train->trained.n ? train->trained.at[0].span
                                           : train->span;
    DtDiag *d = dt_diag_report(l->diags, E0470, span,
                               "all parameters are frozen, so no step would change anything");
    dt_diag_help(d, "leave out of `frozen` what is to be trained; `dtc --params` lists the paths");
    return false;
}

/* Whether the value is certainly the input `kept` unchanged or, if kept is NULL, zero. */
static bool is_times(const DtValue *value, const DtValue *kept)
{
    const DtOp *op = value->op;
    if (!op || value == kept)
        return value == kept && kept;
    if (op->kind == DT_OP_CAST)
        return is_times(op->in[0], kept);
    if (op->kind == DT_OP_CONST)
        return !kept && op->number == 0;
    if (op->kind == DT_OP_ADD && kept)
        return (is_times(op->in[0], kept) && is_times(op->in[1], NULL)) ||
               (is_times(op->in[1], kept) && is_times(op->in[0], NULL));
    if (op->kind != DT_OP_MUL)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const DtOp *other = op->in[1 - i]->op;
        if (!kept && is_times(op->in[i], NULL))
            return true;
        if (kept && is_times(op->in[i], kept) && other && other->kind == DT_OP_CONST &&
            other->number == 1)
            return true;
    }
    return false;
}

/* Whether the new value of a state is certainly the old one, as with `rate = 0`. value: the result
 * of a call or loop. */
static bool keeps_state(const DtValue *value)
{
    while (value->op && value->op->func) {
        const DtFunc *func = value->op->func;
        if (value->index < func->n_returns || value->index >= func->results.n)
            return false;
        const DtValue *inner = func->results.at[value->index];
        if (!inner->op || !inner->op->func)
            return is_times(
                inner,
                func->inputs.at[func->n_args + func->writes.at[value->index - func->n_returns]]);
        value = inner;
    }
    return false;
}

/* Returns the text of `frozen` that names the first parameter of the layer with the state, if all
 * its parameters (at least one) are frozen; where no text of `frozen` does, one of `trained` or of
 * an `adapt` line, since that freezes it. Else NULL. */
static const DtPattern *frozen_by(const DtLower *l, const DtStore *state)
{
    const DtTrainConfig *train = l->program->train;
    const char *dot = strrchr(state->path, '.');
    const size_t len = dot ? (size_t)(dot - state->path) + 1 : 0;
    const DtPattern *by = NULL;
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (store->kind != DT_STORE_PARAM || strncmp(store->path, state->path, len) != 0 ||
            strchr(store->path + len, '.'))
            continue;
        if (!store->frozen)
            return NULL;
        for (uint32_t k = 0; !by && k < train->frozen.n; k++)
            by = is_called(store, train->frozen.at[k].text) ? &train->frozen.at[k] : NULL;
        if (!by)
            by = train->trained.n ? &train->trained.at[0] : &l->adapters.at[0]->patterns.at[0];
    }
    return by;
}

static void lint_states(DtLower *l)
{
    const DtPattern *first = NULL;
    DtText paths = {0};
    uint32_t n = 0;
    for (uint32_t e = 0; e < l->module->entries.n; e++) {
        const DtEntryPoint *entry = &l->module->entries.at[e];
        for (uint32_t i = 0; entry->kind == DT_ENTRY_LOSS && i < entry->results.n; i++) {
            const DtStore *state = entry->results.at[i].store;
            const DtPattern *by =
                state && state->kind == DT_STORE_STATE ? frozen_by(l, state) : NULL;
            if (!by || keeps_state(entry->func->results.at[i]))
                continue;
            first = first ? first : by;
            if (n++ < 3)
                dt_text_printf(&paths, "%s`%s`", n > 1 ? ", " : "", state->pattern);
        }
    }
    if (n > 3)
        dt_text_printf(&paths, " and %u more", n - 3);
    if (n) {
        DtDiag *d = dt_diag_report(
            l->diags, L0473, first->span,
            "%s change%s in every step, though the parameters of the same layer are frozen",
            paths.at, n == 1 ? "s" : "");
        dt_diag_note(d, "parameters can be frozen, states cannot: states such as the running "
                        "statistics of a norm follow the data, and evaluation uses them");
        dt_diag_help(
            d, "to keep the statistics of the library's norms: `batchnorm[...](x, rate = 0)`");
    }
    dt_text_free(&paths);
}

/* Sets `frozen` of all parameters that a pattern of the list matches. Reports patterns that match
 * none. */
static void set_frozen(DtLower *l, const DtPatterns *patterns, bool frozen)
{
    for (uint32_t i = 0; i < patterns->n; i++) {
        bool any = false;
        for (uint32_t k = 0; k < l->module->stores.n; k++) {
            DtStore *store = l->module->stores.at[k];
            if (store->kind != DT_STORE_PARAM || !is_called(store, patterns->at[i].text))
                continue;
            store->frozen = frozen;
            any = true;
        }
        if (!any)
            unknown_path(l, &patterns->at[i],
                         frozen ? "a loop's iterations (#) are frozen together"
                                : "a loop's iterations (#) are trained together");
    }
}

/* ---- `keep_zeros` ---- */

bool dt_groups_keeps_zeros(const DtLower *l, const DtStore *store)
{
    const DtPatterns *patterns = &l->program->train->keep_zeros;
    for (uint32_t i = 0; i < patterns->n; i++)
        if (is_called(store, patterns->at[i].text))
            return true;
    return false;
}

/* Reports patterns that match no parameter, or one that begins with zeros and is trained: it would
 * never change. */
static void check_zeros(DtLower *l)
{
    const DtPatterns *patterns = &l->program->train->keep_zeros;
    for (uint32_t i = 0; i < patterns->n; i++) {
        bool any = false;
        for (uint32_t k = 0; k < l->module->stores.n; k++) {
            const DtStore *store = l->module->stores.at[k];
            if (store->kind != DT_STORE_PARAM || !is_called(store, patterns->at[i].text))
                continue;
            any = true;
            if (store->frozen || store->init.kind != DT_INIT_CONST || store->init.a != 0)
                continue;
            DtDiag *d = dt_diag_report(l->diags, E0477, patterns->at[i].span,
                                       "`%s` begins with zeros, and `keep_zeros` names it",
                                       store->pattern);
            dt_diag_note(d, "no step would change it");
            dt_diag_help(
                d, "name the matrices only, such as \"*.w\"; `dtc --params` lists the paths");
            return;
        }
        if (!any)
            unknown_path(l, &patterns->at[i], "a loop's iterations (#) are named together");
    }
}

/* ---- `quantize` ---- */

/* Lists the parameters that the calls of `quantize` name. Reports texts that name none, and
 * parameters that two calls name. */
static void find_coded(DtLower *l, const DtCodedPattern *call, const DtPattern *pattern)
{
    DtTrainConfig *train = l->program->train;
    bool any = false;
    for (uint32_t k = 0; k < l->module->stores.n; k++) {
        DtStore *store = l->module->stores.at[k];
        const DtCodedWeight *other = NULL;
        if (store->kind != DT_STORE_PARAM || !is_called(store, pattern->text))
            continue;
        any = true;
        for (uint32_t i = 0; i < train->coded.n; i++)
            if (train->coded.at[i].param == store)
                other = &train->coded.at[i];
        if (!other) {
            DT_PUSH(l->arena, train->coded,
                    ((DtCodedWeight){store, call->bits, call->group, pattern->span}));
        } else if (other->bits != call->bits || other->group != call->group) {
            DtDiag *d = dt_diag_report(l->diags, E0480, pattern->span,
                                       "`%s` has codes of two kinds", store->pattern);
            dt_diag_label(d, other->span, "this names it, too");
            dt_diag_help(d, "`dtc --params` lists the paths; a text names all that match it");
            return;
        }
    }
    if (!any)
        unknown_path(l, pattern, "a loop's iterations (#) have codes together");
}

void dt_groups_quantize(DtLower *l)
{
    const DtTrainConfig *train = l->program->train;
    for (uint32_t i = 0; i < train->quantize.n; i++)
        for (uint32_t k = 0; k < train->quantize.at[i].params.n; k++)
            find_coded(l, &train->quantize.at[i], &train->quantize.at[i].params.at[k]);
}

void dt_groups_freeze(DtLower *l)
{
    const DtTrainConfig *train = l->program->train;
    const bool some = train->trains_some || l->adapters.n;
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        DtStore *store = l->module->stores.at[i];
        store->frozen = store->kind == DT_STORE_PARAM && some && !store->in_adapter;
    }
    set_frozen(l, &train->trained, false);
    set_frozen(l, &train->frozen, true);
    dt_copies_finish(l);
    check_zeros(l);
    if (check_any_trained(l))
        lint_states(l);
}

/* Puts the parameters that the pattern names into the group (ret_of, by number of the store).
 * Reports a pattern that names none, or a parameter of another group. */
static bool take(DtLower *l, uint32_t group, const DtPattern *pattern, uint32_t *ret_of)
{
    const DtTrainConfig *train = l->program->train;
    bool any = false, frozen = false;
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (store->kind != DT_STORE_PARAM || !is_called(store, pattern->text))
            continue;
        frozen = frozen || store->frozen;
        if (store->frozen)
            continue;
        any = true;
        if (ret_of[i] != NO_GROUP && ret_of[i] != group) {
            const DtParamGroup *other = &train->groups.at[ret_of[i]];
            DtDiag *d =
                dt_diag_report(l->diags, E0470, pattern->span, "`%s` is in `%s` and in `%s`",
                               store->pattern, other->name, train->groups.at[group].name);
            dt_diag_label(d, other->span, "it has this optimizer already");
            return false;
        }
        ret_of[i] = group;
    }
    if (any)
        return true;
    if (frozen)
        dt_diag_report(l->diags, E0470, pattern->span, "all parameters that `%s` names are frozen",
                       pattern->text);
    else
        unknown_path(l, pattern, "a loop's iterations (#) have one optimizer");
    return false;
}

/* Puts the parameters that no text names into the group without texts. Reports several such groups,
 * or parameters for which there is none. */
static bool take_rest(DtLower *l, uint32_t *ret_of)
{
    const DtTrainConfig *train = l->program->train;
    uint32_t rest = 0;
    while (rest < train->groups.n && train->groups.at[rest].params.n)
        rest++;
    for (uint32_t i = rest + 1; i < train->groups.n; i++) {
        if (train->groups.at[i].params.n)
            continue;
        DtDiag *d =
            dt_diag_report(l->diags, E0470, train->groups.at[i].span,
                           "`%s` does not say which parameters it has", train->groups.at[i].name);
        dt_diag_label(d, train->groups.at[rest].span, "this one has all that no other names");
        dt_diag_help(d, "add `params = (...)`; `dtc --params` lists the paths");
        return false;
    }
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (store->kind != DT_STORE_PARAM || store->frozen || ret_of[i] != NO_GROUP)
            continue;
        ret_of[i] = rest;
        if (rest < train->groups.n)
            continue;
        DtDiag *d = dt_diag_report(l->diags, E0470, train->optimizer.span, "`%s` is in no group",
                                   store->pattern);
        dt_diag_help(d, "`optimizer = ...` without `params` updates all parameters that no group "
                        "names; `frozen` "
                        "leaves them as they are");
        return false;
    }
    return true;
}

const uint32_t *dt_groups_find(DtLower *l)
{
    const DtTrainConfig *train = l->program->train;
    uint32_t *of = DT_NEW_ARRAY(l->arena, uint32_t, l->module->stores.n + 1);
    bool ok = true;
    for (uint32_t i = 0; i < l->module->stores.n; i++)
        of[i] = NO_GROUP;
    for (uint32_t g = 0; g < train->groups.n; g++)
        for (uint32_t k = 0; k < train->groups.at[g].params.n; k++)
            ok = take(l, g, &train->groups.at[g].params.at[k], of) && ok;
    return ok && take_rest(l, of) ? of : NULL;
}
