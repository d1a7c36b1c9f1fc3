/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of configuration: matches `(lr = 3e-4, clip = 1.0)` and `steps = 100` with the rows of
 * config.def. No key is ever ignored: an unknown one is an error with the nearest spelling. What a
 * value may be is the matter of config_kinds.c. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

const DtConfigSchema dt_config_schemas[DT_SCHEMA_COUNT] = {
#define DT_CONFIG_SCHEMA(ID, CLASS, name, help) [DT_SCHEMA_##ID] = {DT_CONFIG_##CLASS, name, help},
#define DT_CONFIG_KEY(...)
#define DT_CONFIG_CHOICE(...)
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
};

const DtConfigKey dt_config_keys[DT_KEY_COUNT] = {
#define DT_CONFIG_SCHEMA(...)
#define DT_CONFIG_KEY(ID, key, KIND, preset, help) \
    [DT_KEY_##ID##_##key] = {DT_SCHEMA_##ID, #key, DT_KIND_##KIND, preset, help},
#define DT_CONFIG_CHOICE(...)
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
};

/* ---- small helpers ---- */

const DtExpr *dt_configargs_bare(const DtExpr *expr)
{
    while (expr && expr->kind == DT_EXPR_PAREN)
        expr = expr->a;
    return expr;
}

const char *dt_configargs_callee(const DtExpr *expr)
{
    expr = dt_configargs_bare(expr);
    if (!expr || expr->kind != DT_EXPR_CALL || !expr->a || expr->a->kind != DT_EXPR_NAME)
        return NULL;
    return expr->a->label.text ? NULL : expr->a->name.text;
}

DtSchemaId dt_configargs_find(DtConfigClass config_class, const char *name)
{
    if (!name)
        return DT_SCHEMA_COUNT;
    for (int i = 0; i < DT_SCHEMA_COUNT; i++)
        if (dt_config_schemas[i].config_class == config_class &&
            !strcmp(dt_config_schemas[i].name, name))
            return (DtSchemaId)i;
    return DT_SCHEMA_COUNT;
}

const char *dt_configargs_join(DtArena *arena, const char *const *words, size_t n)
{
    const char *list = "";
    for (size_t i = 0; i < n; i++) {
        const char *comma = i == 0 ? "" : i + 1 == n ? " or " : ", ";
        list = dt_arena_printf(arena, "%s%s`%s`", list, comma, words[i]);
    }
    return list;
}

size_t dt_configargs_names(DtConfigClass config_class, const char *ret_names[DT_SCHEMA_COUNT])
{
    size_t n = 0;
    for (int i = 0; i < DT_SCHEMA_COUNT; i++)
        if (dt_config_schemas[i].config_class == config_class)
            ret_names[n++] = dt_config_schemas[i].name;
    return n;
}

const char *dt_configargs_list(DtArena *arena, DtConfigClass config_class)
{
    const char *names[DT_SCHEMA_COUNT];
    size_t n = dt_configargs_names(config_class, names);
    return dt_configargs_join(arena, names, n);
}

void dt_configargs_suggest(DtDiag *diag, DtSpan span, const char *name, const char *const *names,
                           size_t n)
{
    const char *nearest = name ? dt_text_nearest(name, names, n) : NULL;
    if (nearest)
        dt_diag_fix(diag, span, nearest, "did you mean `%s`?", nearest);
}

void dt_configargs_items(const DtExpr *expr, DtExpr *const **ret_items, uint32_t *ret_n,
                         DtExpr **single)
{
    const DtExpr *bare = dt_configargs_bare(expr);
    if (bare && bare->kind == DT_EXPR_TUPLE) {
        *ret_items = bare->items.at;
        *ret_n = bare->items.n;
        return;
    }
    *single = (DtExpr *)(uintptr_t)bare;
    *ret_items = single;
    *ret_n = bare ? 1 : 0;
}

const char *dt_configargs_path(const DtExpr *expr)
{
    expr = dt_configargs_bare(expr);
    if (!expr)
        return NULL;
    if (expr->kind == DT_EXPR_NAME && !expr->label.text)
        return expr->name.text;
    if (expr->kind != DT_EXPR_FIELD)
        return NULL;
    const char *head = dt_configargs_path(expr->a);
    return head ? dt_intern_printf("%s.%s", head, expr->name.text) : NULL;
}

/* ---- sets of values ---- */

/* Sets the value of a setting that is not written to the preset in its row of the table, if there
 * is one. */
static void apply_preset(const DtConfigKey *key, DtConfigValue *ret_value)
{
    const char *preset = key->preset;
    if (!*preset || !strcmp(preset, "!"))
        return;
    ret_value->present = true;
    char *end;
    ret_value->number = strtod(preset, &end);
    ret_value->second = strtod(end, NULL);
    ret_value->whole = strcmp(preset, "true") ? (int64_t)ret_value->number : 1;
    if (!dt_dtype_parse(preset, &ret_value->dtype))
        ret_value->dtype = DT_F32;
    ret_value->word = dt_intern(preset);
}

static void apply_presets(DtSchemaId schema, DtConfigValues *ret_values)
{
    memset(ret_values, 0, sizeof *ret_values);
    for (int k = 0; k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == schema)
            apply_preset(&dt_config_keys[k], &ret_values->at[k]);
}

static size_t schema_keys(DtSchemaId schema, const char *ret_names[DT_KEY_COUNT],
                          DtKeyId *ret_first)
{
    size_t n = 0;
    for (int k = DT_KEY_COUNT; k-- > 0;)
        if (dt_config_keys[k].schema == schema)
            *ret_first = (DtKeyId)k;
    for (int k = 0; k < DT_KEY_COUNT; k++)
        if (dt_config_keys[k].schema == schema)
            ret_names[n++] = dt_config_keys[k].name;
    return n;
}

static bool unknown_key(const DtConfigHost *host, DtSchemaId schema, DtName name)
{
    const char *names[DT_KEY_COUNT];
    DtKeyId first = 0;
    size_t n = schema_keys(schema, names, &first);
    bool block = dt_config_schemas[schema].config_class == DT_CONFIG_BLOCK;
    DtDiag *d = dt_diag_report(host->diags, E0450, name.span, "`%s` is not %s of `%s`", name.text,
                               block ? "a setting" : "an option", dt_config_schemas[schema].name);
    if (n)
        dt_diag_note(d, "`%s` takes %s", dt_config_schemas[schema].name,
                     dt_configargs_join(host->arena, names, n));
    else
        dt_diag_note(d, "`%s` takes no options", dt_config_schemas[schema].name);
    dt_configargs_suggest(d, name.span, name.text, names, n);
    return false;
}

static bool set_key(const DtConfigHost *host, DtKeyId key, const DtExpr *expr, DtSpan span,
                    DtConfigValues *values)
{
    DtConfigValue *value = &values->at[key];
    if (value->given) {
        DtDiag *d = dt_diag_report(host->diags, E0454, span, "`%s` is given twice",
                                   dt_config_keys[key].name);
        dt_diag_label(d, value->span, "first here");
        return false;
    }
    DtConfigValue preset = *value;
    value->given = value->present = true;
    value->expr = expr;
    value->span = span;
    DtConfigReading reading = {host, &dt_config_keys[key], expr, value};
    if (dt_configkinds_read(&reading))
        return true;
    preset.given = true; /* the error was reported: later checks see the preset and report
                          * nothing */
    preset.span = span;
    *value = preset;
    return false;
}

static bool check_required(const DtConfigHost *host, DtSchemaId schema, DtSpan span,
                           const DtConfigValues *values)
{
    bool ok = true;
    for (int k = 0; k < DT_KEY_COUNT; k++) {
        const DtConfigKey *key = &dt_config_keys[k];
        if (key->schema != schema || strcmp(key->preset, "!") || values->at[k].given)
            continue;
        DtDiag *d = dt_diag_report(host->diags, E0453, span, "`%s` needs `%s`",
                                   dt_config_schemas[schema].name, key->name);
        dt_diag_note(d, "%s: %s", key->name, key->help);
        ok = false;
    }
    return ok;
}

/* Returns the number of the on/off key (from `first` on) that an argument without a value names, as
 * `unpaired` in `bin("a.bin", u8, unpaired)`; n if it names none. */
static size_t switch_alone(DtKeyId first, size_t n, const DtExpr *value)
{
    const DtExpr *bare = dt_configargs_bare(value);
    size_t k = 0;
    while (k < n && (!bare || bare->kind != DT_EXPR_NAME || bare->label.text ||
                     dt_config_keys[first + k].kind != DT_KIND_BOOLEAN ||
                     strcmp(dt_config_keys[first + k].name, bare->name.text)))
        k++;
    return k;
}

bool dt_configargs_read(const DtConfigHost *host, DtSchemaId schema, const DtArg *args,
                        uint32_t n_args, DtSpan span, DtConfigValues *ret_values)
{
    const char *names[DT_KEY_COUNT];
    DtKeyId first = 0;
    size_t n = schema_keys(schema, names, &first);
    bool ok = true;
    uint32_t position = 0;
    apply_presets(schema, ret_values);
    for (uint32_t i = 0; i < n_args; i++) {
        size_t k = 0;
        if (args[i].name.text) {
            while (k < n && strcmp(names[k], args[i].name.text))
                k++;
            if (k == n) {
                ok = unknown_key(host, schema, args[i].name);
                continue;
            }
        } else if ((k = switch_alone(first, n, args[i].value)) < n) {
            /* a switch is no positional argument */
        } else if ((k = position++) >= n) {
            DtDiag *d = dt_diag_report(host->diags, E0456, args[i].value->span,
                                       "`%s` takes at most %zu argument%s",
                                       dt_config_schemas[schema].name, n, n == 1 ? "" : "s");
            if (n)
                dt_diag_note(d, "they are, in order, %s",
                             dt_configargs_join(host->arena, names, n));
            ok = false;
            continue;
        }
        DtSpan at = args[i].name.text ? args[i].name.span : args[i].value->span;
        ok &= set_key(host, (DtKeyId)((size_t)first + k), args[i].value, at, ret_values);
    }
    return check_required(host, schema, span, ret_values) && ok;
}

bool dt_configargs_entries(const DtConfigHost *host, DtSchemaId schema, DtEntries entries,
                           DtSpan span, DtConfigValues *ret_values)
{
    const char *names[DT_KEY_COUNT];
    DtKeyId first = 0;
    size_t n = schema_keys(schema, names, &first);
    bool ok = true;
    apply_presets(schema, ret_values);
    for (uint32_t i = 0; i < entries.n; i++) {
        const DtEntry *entry = entries.at[i];
        if (entry->is_directive || entry->targets.n != 1 || !entry->targets.at[0].name.text)
            continue;
        DtName name = entry->targets.at[0].name;
        size_t k = 0;
        while (k < n && strcmp(names[k], name.text))
            k++;
        if (k == n) {
            if (schema != DT_SCHEMA_TRAIN)
                ok = unknown_key(host, schema, name);
            continue;
        }
        ok &= set_key(host, (DtKeyId)((size_t)first + k), entry->value, name.span, ret_values);
    }
    return check_required(host, schema, span, ret_values) && ok;
}

bool dt_configargs_call(const DtConfigHost *host, DtConfigClass config_class, const DtExpr *expr,
                        DtSchemaId *ret_schema, DtConfigValues *ret_values)
{
    const DtExpr *call = dt_configargs_bare(expr);
    *ret_schema = dt_configargs_find(config_class, dt_configargs_callee(call));
    if (*ret_schema == DT_SCHEMA_COUNT)
        return false;
    return dt_configargs_read(host, *ret_schema, call->args.at, call->args.n, call->span,
                              ret_values);
}
