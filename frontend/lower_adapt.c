/* SPDX-License-Identifier: Apache-2.0 */
/* `adapt` lines of a train block: layers that wrap instances of other layers, by path.
 *
 *   adapt "*.wq", "*.wv" = lora(rank = 8, alpha = 16)
 *
 * Each call of an instance whose path matches is followed by a call of the adapter, whose arguments
 * are the value with which the instance was called and the instance's result. Its axis parameters
 * are those of the instance. So `wq:linear[embed, (heads, head)](x)` becomes
 *
 *   lora[embed, (heads, head)](x, wq(x), rank = 8, alpha = 16)
 *
 * with parameters at `wq.lora.a` and `wq.lora.b`. All that is ordinary program text: the rest of
 * the compiler knows of adapters only which parameters belong to them.
 *
 * A function that was lowered for one call may be called elsewhere only if the same lines match the
 * instances in it there. So a function remembers its instances, with paths that begin at it. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

/* ---- the lines ---- */

static void not_an_adapter(DtLower *l, DtSpan span, const DtDef *def, const char *what)
{
    DtDiag *d = dt_report_error(l, E0475, span, "%s", what);
    if (def)
        dt_diag_label(d, def->head.file ? def->head : def->name.span, "defined here");
    dt_diag_note(d, "an adapter is a layer whose first two arguments are what an instance is "
                    "called with and its result: `layer lora[from, to](x[..., from], y[..., to], "
                    "...)`");
}

/* Whether the layer can wrap others. Reports it if not. */
static bool check_layer(DtLower *l, const DtFunction *f, DtSpan span)
{
    const DtDef *def = f->def;
    if (!def || def->kind != DT_DEF_LAYER) {
        const char *name = def ? def->name.text : f->builtin ? f->builtin->name : "this";
        not_an_adapter(l, span, def, dt_arena_printf(l->arena, "`%s` is not a layer", name));
        return false;
    }
    if (f->has_axes) {
        not_an_adapter(l, span, def,
                       "the axes of an adapter are those of the instance that it wraps");
        return false;
    }
    if (def->formals.n >= 2 && !def->formals.at[0].init && !def->formals.at[1].init)
        return true;
    not_an_adapter(l, span, def,
                   dt_arena_printf(l->arena, "`%s` does not take a value and a result",
                                   def->name.text));
    return false;
}

/* Reads what the line says of the adapter's arguments. False after a report. */
static bool read_settings(DtLower *l, DtAdapter *adapter, const DtExpr *call)
{
    const DtDef *def = adapter->function.def;
    adapter->settings = DT_NEW_ARRAY(l->arena, DtBound, def->formals.n + 1);
    if (call->kind == DT_EXPR_CALL && !dt_call_place(l, def, call, 2, adapter->settings))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (adapter->settings[i].given) {
            not_an_adapter(l, adapter->settings[i].expr->span, def,
                           dt_arena_printf(l->arena, "`%s` is not a setting: each call gives it",
                                           def->formals.at[i].name.text));
            return false;
        }
    return true;
}

static void read_line(DtLower *l, const DtEntry *entry)
{
    const DtExpr *call = dt_report_bare(entry->value);
    const DtExpr *name = call->kind == DT_EXPR_CALL ? dt_report_bare(call->a) : call;
    DtVal callee = dt_val_error();
    if (dt_call_denotes(l, name) || name->kind == DT_EXPR_NAME)
        callee = dt_call_callee(l, name);
    else
        not_an_adapter(l, name->span, NULL, "an `adapt` line calls a layer");
    if (callee.kind != DT_VAL_FUNCTION || !check_layer(l, callee.function, name->span))
        return;
    DtAdapter *adapter = DT_NEW(l->arena, DtAdapter);
    *adapter = (DtAdapter){.function = *callee.function, .span = entry->span};
    for (uint32_t i = 0; i < entry->targets.n; i++) {
        const DtTarget *target = &entry->targets.at[i];
        DT_PUSH(l->arena, adapter->patterns,
                ((DtPattern){dt_intern_n(target->string, target->string_len), target->span}));
    }
    adapter->call = call;
    if (read_settings(l, adapter, call))
        DT_PUSH(l->arena, l->adapters, adapter);
}

void dt_adapt_read(DtLower *l, const DtItem *train)
{
    for (uint32_t i = 0; train && i < train->entries.n; i++)
        if (dt_config_is_adapt(train->entries.at[i]))
            read_line(l, train->entries.at[i]);
}

/* ---- which line has an instance ---- */

/* Returns the path without the `#` of loops: h.attention.wq for h.#.attention.wq. */
static const char *without_numbers(const char *path)
{
    DtText text = {0};
    for (const char *at = path; *at; at++)
        if (*at == '#' && (at[1] == '.' || !at[1]) && (at == path || at[-1] == '.'))
            at += at[1] == '.';
        else
            dt_text_add_n(&text, at, 1);
    const char *plain = text.at ? dt_intern_n(text.at, text.len) : "";
    dt_text_free(&text);
    return plain;
}

/* Whether the pattern matches an instance, whose `called` is as in the program: its path, a colon,
 * its layer. A pattern without a colon is one of paths. */
static bool matches(const char *pattern, const char *called)
{
    const char *colon = strrchr(called, ':');
    const char *name =
        strchr(pattern, ':') ? called : dt_intern_n(called, (size_t)(colon - called));
    return dt_groups_match(pattern, name, without_numbers(name));
}

static const DtPattern *matching(const DtAdapter *adapter, const char *called)
{
    for (uint32_t i = 0; i < adapter->patterns.n; i++)
        if (matches(adapter->patterns.at[i].text, called))
            return &adapter->patterns.at[i];
    return NULL;
}

/* Returns the first line that matches the instance, in ret_second the next one; NULL: none. */
static const DtAdapter *adapter_for(const DtLower *l, const char *called,
                                    const DtAdapter **ret_second)
{
    const DtAdapter *first = NULL;
    *ret_second = NULL;
    for (uint32_t i = 0; i < l->adapters.n; i++) {
        if (*ret_second || !matching(l->adapters.at[i], called))
            continue;
        if (first)
            *ret_second = l->adapters.at[i];
        else
            first = l->adapters.at[i];
    }
    return first;
}

/* Returns an instance's path in the program and its layer: `h.#.attention.wq:linear`. */
static const char *called_in_program(const DtInstance *instance)
{
    return dt_intern_printf("%s%s:%s", instance->home->where, dt_call_known(instance),
                            instance->def->name.text);
}

static DtDiag *cannot_wrap(DtLower *l, const DtAdapter *adapter, const DtInstance *instance,
                           const char *why)
{
    const char *called = called_in_program(instance);
    const DtPattern *pattern = matching(adapter, called);
    DtDiag *d = dt_diag_report(l->diags, E0476, pattern ? pattern->span : adapter->span,
                               "`%s` cannot wrap `%s`: %s", adapter->function.def->name.text,
                               called, why);
    dt_diag_label(d, instance->span, "this instance");
    return d;
}

static bool check_fit(DtLower *l, const DtAdapter *adapter, const DtAdapter *second,
                      const DtInstance *instance)
{
    const DtDef *def = adapter->function.def;
    if (second) {
        DtDiag *d = cannot_wrap(l, adapter, instance, "two `adapt` lines match it");
        dt_diag_label(d, matching(second, called_in_program(instance))->span, "the other one");
        return false;
    }
    if (def->axes.n == instance->axes.n)
        return true;
    DtDiag *d = cannot_wrap(
        l, adapter, instance,
        dt_arena_printf(l->arena, "it has %u axis parameter%s, and `%s` %u", def->axes.n,
                        def->axes.n == 1 ? "" : "s", instance->def->name.text, instance->axes.n));
    dt_diag_help(d, "name instances of one layer: \"*:linear\" are all of `linear`");
    return false;
}

void dt_adapt_instance(DtLower *l, DtInstance *instance)
{
    const DtAdapter *second;
    const char *where = instance->home->where;
    if (!l->adapters.n || !where || instance->def->kind == DT_DEF_MODEL)
        return;
    const char *called = called_in_program(instance);
    const DtAdapter *adapter = adapter_for(l, called, &second);
    DtMerge *merge = adapter ? DT_NEW(l->arena, DtMerge) : NULL;
    DT_PUSH(l->arena, l->sites, ((DtSite){called, adapter, merge}));
    if (!adapter || !check_fit(l, adapter, second, instance))
        return;
    DtInstance *made = DT_NEW(l->arena, DtInstance);
    const DtFunction *f = &adapter->function;
    *made = (DtInstance){.def = f->def,
                         .axes = instance->axes,
                         .has_axes = instance->has_axes,
                         .label = f->label.text ? f->label : f->def->name,
                         .home = instance->home,
                         .span = adapter->span,
                         .copy = instance->copy,
                         .adapter_of = adapter,
                         .merge = merge};
    made->path = dt_intern_printf("%s.%s", instance->path, made->label.text);
    instance->adapter = made;
}

/* ---- functions that several calls share ---- */

bool dt_adapt_fits(const DtLower *l, const DtMemo *memo, const char *where)
{
    if (!l->adapters.n)
        return true;
    if (memo->in_adapter != (where == NULL))
        return false;
    for (uint32_t i = 0; i < memo->sites.n; i++) {
        const DtSite *site = &memo->sites.at[i];
        const DtAdapter *second;
        const char *called = dt_intern_printf("%s%s", where, site->called);
        if (adapter_for(l, called, &second) != site->adapter)
            return false;
    }
    return true;
}

void dt_adapt_repeat(DtLower *l, const DtMemo *memo, const char *where)
{
    for (uint32_t i = 0; where && i < memo->sites.n; i++) {
        const DtSite *site = &memo->sites.at[i];
        DT_PUSH(l->arena, l->sites,
                ((DtSite){dt_intern_printf("%s%s", where, site->called), site->adapter,
                          site->merge}));
    }
}

DtSites dt_adapt_sites(DtLower *l, uint32_t first, const char *where)
{
    DtSites sites = {0};
    for (uint32_t i = first; where && i < l->sites.n; i++) {
        const DtSite *site = &l->sites.at[i];
        const size_t len = strlen(where);
        if (!strncmp(site->called, where, len))
            DT_PUSH(l->arena, sites,
                    ((DtSite){dt_intern(site->called + len), site->adapter, site->merge}));
    }
    return sites;
}

/* ---- calls ---- */

/* Returns the only tensor among the arguments of a call; NULL if there are none or several. */
static const DtBound *sole_tensor(const DtDef *def, const DtBound *bound)
{
    const DtBound *sole = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < def->formals.n; i++)
        if (bound[i].val.kind == DT_VAL_TENSOR) {
            sole = &bound[i];
            n++;
        }
    return n == 1 ? sole : NULL;
}

/* Sets an argument of the adapter that has no default and that the line does not give: it is the
 * instance's parameter of that name. False after a report. */
static bool take_param(DtLower *l, const DtInstance *instance, const DtAdapter *adapter, uint32_t i,
                       DtBound *ret_bound)
{
    const DtName name = adapter->function.def->formals.at[i].name;
    DtFrame *home = instance->home;
    const DtFrameParam *param =
        dt_frame_find(home, dt_intern_printf("%s.%s", instance->path, name.text));
    if (!param) {
        DtDiag *d = dt_diag_report(l->diags, E0475, adapter->span,
                                   "the argument `%s` of `%s` is missing", name.text,
                                   adapter->function.def->name.text);
        dt_diag_label(d, instance->span, "this instance has no parameter `%s` either", name.text);
        return false;
    }
    DtValue *value = dt_frame_import(l, l->now->frame, param->value, home);
    *ret_bound = (DtBound){.val = dt_val_of(l, value, false), .given = true};
    return true;
}

DtVal dt_adapt_call(DtLower *l, DtInstance *instance, const DtBound *bound, DtVal result)
{
    const DtAdapter *adapter = instance->adapter->adapter_of;
    const DtDef *def = adapter->function.def;
    const DtBound *x = sole_tensor(instance->def, bound);
    if (dt_val_is_error(&result))
        return result;
    if (!x || result.kind != DT_VAL_TENSOR) {
        cannot_wrap(l, adapter, instance,
                    x ? "it has several results, or none"
                      : "it is called with several tensors, or with none");
        return dt_val_error();
    }
    DtFunction f = adapter->function;
    DtBound *args = DT_NEW_ARRAY(l->arena, DtBound, def->formals.n + 1);
    memcpy(args, adapter->settings, def->formals.n * sizeof *args);
    args[0] = (DtBound){.val = x->val, .given = true};
    args[1] = (DtBound){.val = result, .given = true};
    f.axes = instance->axes;
    f.has_axes = instance->has_axes;
    for (uint32_t i = 2; i < def->formals.n; i++)
        if (!args[i].given && !def->formals.at[i].init &&
            !take_param(l, instance, adapter, i, &args[i]))
            return dt_val_error();
    const DtVal adapted = dt_memo_call(l, &f, instance->adapter, adapter->call, args);
    dt_merge_note(l, instance->adapter->merge, &result, &adapted);
    return adapted;
}

/* ---- after all entries ---- */

static const char *label_of(const DtAdapter *adapter)
{
    const DtFunction *f = &adapter->function;
    return f->label.text ? f->label.text : f->def->name.text;
}

/* Whether the store belongs to an adapter. */
static bool is_in_adapter(const DtLower *l, const DtStore *store)
{
    for (uint32_t i = 0; i < l->sites.n; i++) {
        const DtSite *site = &l->sites.at[i];
        const size_t len = strcspn(site->called, ":");
        const char *pattern = store->pattern + store->copy;
        if (!site->adapter || strncmp(pattern, site->called, len) || pattern[len] != '.')
            continue;
        const char *label = label_of(site->adapter);
        const char *rest = pattern + len + 1;
        if (!strncmp(rest, label, strlen(label)) && rest[strlen(label)] == '.')
            return true;
    }
    return false;
}

/* Returns the label of an instance, or the text after the last dot of a pattern. */
static const char *last_part(const char *path)
{
    const size_t len = strcspn(path, ":");
    size_t first = len;
    while (first > 0 && path[first - 1] != '.')
        first--;
    return dt_intern_n(path + first, len - first);
}

/* Proposes the pattern with the nearest label in place of its own. */
static void help_near(DtLower *l, DtDiag *d, const DtPattern *pattern)
{
    const char **labels = DT_NEW_ARRAY(l->arena, const char *, l->sites.n + 1);
    const char *last = last_part(pattern->text);
    for (uint32_t i = 0; i < l->sites.n; i++)
        labels[i] = last_part(l->sites.at[i].called);
    const char *near = dt_text_nearest(last, labels, l->sites.n);
    const size_t before = strlen(pattern->text) - strlen(last);
    if (near && near != last && !strchr(pattern->text, ':'))
        dt_diag_fix(
            d, pattern->span,
            dt_arena_printf(l->arena, "\"%.*s%s\"", (int)before, pattern->text, near),
            "did you mean `%s`?", near);
}

/* Adds to the report which instances there are, or that the pattern matches parameters. */
static void note_paths(DtLower *l, DtDiag *d, const DtPattern *pattern)
{
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (!dt_groups_match(pattern->text, store->pattern, store->path))
            continue;
        dt_diag_note(d, "`%s` is a parameter: adapters wrap calls of layers, such as `linear`",
                     store->pattern);
        return;
    }
    DtText text = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->sites.n && n < 6; i++) {
        bool before = false;
        for (uint32_t k = 0; k < i; k++)
            before = before || l->sites.at[k].called == l->sites.at[i].called;
        if (!before)
            dt_text_printf(&text, "%s`%s`", n++ ? ", " : "", l->sites.at[i].called);
    }
    if (n)
        dt_diag_note(d, "instances are %s%s", text.at, n == 6 ? ", ..." : "");
    dt_text_free(&text);
}

static bool matches_any(const DtLower *l, const DtPattern *pattern)
{
    for (uint32_t i = 0; i < l->sites.n; i++)
        if (matches(pattern->text, l->sites.at[i].called))
            return true;
    return false;
}

/* Reports an instance that contains an instance or a loop with the label of its adapter, since the
 * parameters of both would have paths of the adapter. */
static void check_labels(DtLower *l)
{
    for (uint32_t i = 0; i < l->sites.n; i++) {
        const DtSite *site = &l->sites.at[i];
        if (!site->adapter)
            continue;
        const char *label = label_of(site->adapter);
        const char *path = dt_intern_printf("%.*s.%s", (int)strcspn(site->called, ":"),
                                            site->called, label);
        for (uint32_t k = 0; k < l->sites.n; k++) {
            const char *other = l->sites.at[k].called;
            const size_t len = strlen(path);
            if (strncmp(other, path, len) != 0 || (other[len] != ':' && other[len] != '.'))
                continue;
            DtDiag *d = dt_diag_report(l->diags, E0476, site->adapter->span,
                                       "`%s` cannot wrap `%s`: that has a `%s` of its own",
                                       site->adapter->function.def->name.text, site->called, path);
            dt_diag_help(d, "give the adapter another label: `adapter:%s(..)`",
                         site->adapter->function.def->name.text);
            return;
        }
    }
}

void dt_adapt_finish(DtLower *l)
{
    check_labels(l);
    for (uint32_t i = 0; i < l->module->stores.n; i++)
        l->module->stores.at[i]->in_adapter = is_in_adapter(l, l->module->stores.at[i]);
    for (uint32_t i = 0; i < l->adapters.n; i++) {
        const DtPatterns *patterns = &l->adapters.at[i]->patterns;
        for (uint32_t k = 0; k < patterns->n; k++) {
            const DtPattern *pattern = &patterns->at[k];
            if (matches_any(l, pattern))
                continue;
            DtDiag *d = dt_diag_report(l->diags, E0201, pattern->span,
                                       "no instance of a layer has the path `%s`", pattern->text);
            help_near(l, d, pattern);
            note_paths(l, d, pattern);
        }
    }
}
