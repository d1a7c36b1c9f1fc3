/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of configuration: reads `(lr = 3e-4, clip = 1.0)` and `steps = 100` by the rows of config.def.
 * Each key has a kind; one reader per kind says what it wants when it gets something else. No key is ever
 * ignored: an unknown one is an error with the nearest spelling. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <math.h>
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

static const struct Choice {
    DtConfigKind kind;
    const char *word;
} choices[] = {
#define DT_CONFIG_SCHEMA(...)
#define DT_CONFIG_KEY(...)
#define DT_CONFIG_CHOICE(SET, word, meaning) {DT_KIND_CHOICE_##SET, word},
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
};

static const char *const gpus[] = {
#define DT_GPU(name, description, memory) name,
#include "base/gpus.def"
#undef DT_GPU
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

static const char *join_words(DtArena *arena, const char *const *words, size_t n)
{
    const char *list = "";
    for (size_t i = 0; i < n; i++) {
        const char *comma = i == 0 ? "" : i + 1 == n ? " or " : ", ";
        list = dt_arena_printf(arena, "%s%s`%s`", list, comma, words[i]);
    }
    return list;
}

static size_t class_names(DtConfigClass config_class, const char *ret_names[DT_SCHEMA_COUNT])
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
    size_t n = class_names(config_class, names);
    return join_words(arena, names, n);
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

/* ---- one reader per kind; each reports and returns false ---- */

typedef struct Reading {
    const DtConfigHost *host;
    const DtConfigKey *key;
    const DtExpr *expr;
    DtConfigValue *value;
} Reading;

static bool wrong_kind(const Reading *r, const char *wants)
{
    DtDiag *d =
        dt_diag_report(r->host->diags, E0451, r->expr->span, "`%s` is %s", r->key->name, wants);
    dt_diag_note(d, "%s: %s", r->key->name, r->key->help);
    return false;
}

static bool out_of_range(const Reading *r, const char *wants)
{
    DtDiag *d = dt_diag_report(r->host->diags, E0452, r->expr->span, "`%s` must be %s",
                               r->key->name, wants);
    dt_diag_note(d, "%s: %s", r->key->name, r->key->help);
    return false;
}

static bool looks_numeric(const DtExpr *e)
{
    e = dt_configargs_bare(e);
    return e->kind != DT_EXPR_STRING && e->kind != DT_EXPR_BOOL && e->kind != DT_EXPR_DTYPE &&
           e->kind != DT_EXPR_QUANTITY && e->kind != DT_EXPR_TUPLE && e->kind != DT_EXPR_ERROR;
}

static bool read_number(const Reading *r, DtConfigNumber *ret_number)
{
    if (!looks_numeric(r->expr))
        return wrong_kind(r, "a number");
    if (!r->host->constant(r->host->context, r->expr, ret_number))
        return false;
    r->value->whole = ret_number->whole;
    r->value->number = ret_number->number;
    if (!isfinite(ret_number->number))
        return out_of_range(r, "finite");
    return true;
}

static bool read_integer(const Reading *r, int64_t least)
{
    DtConfigNumber n;
    if (!looks_numeric(r->expr))
        return wrong_kind(r, "an integer");
    if (!read_number(r, &n))
        return false;
    if (!n.is_integer)
        return wrong_kind(r, "an integer");
    if (n.whole < least)
        return out_of_range(r, least ? "at least 1" : "at least 0");
    return true;
}

static bool read_real(const Reading *r, double lo, bool open, double hi, const char *wants)
{
    DtConfigNumber n;
    if (!read_number(r, &n))
        return false;
    if (n.number < lo || (open && n.number == lo) || n.number > hi)
        return out_of_range(r, wants);
    return true;
}

static bool read_pair(const Reading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    if (e->kind != DT_EXPR_TUPLE || e->items.n != 2)
        return wrong_kind(r, "a pair of numbers, such as (0.9, 0.999)");
    double both[2];
    for (int i = 0; i < 2; i++) {
        DtConfigNumber n;
        Reading item = *r;
        item.expr = e->items.at[i];
        if (!read_number(&item, &n))
            return false;
        if (n.number < 0 || n.number >= 1)
            return out_of_range(&item, "at least 0 and below 1");
        both[i] = n.number;
    }
    r->value->number = both[0];
    r->value->second = both[1];
    return true;
}

static bool read_dtype(const Reading *r, bool floats)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const char *wants =
        floats ? "a float dtype: f32, bf16 or f16" : "an integer dtype: u8, u16, u32 or i32";
    if (e->kind != DT_EXPR_DTYPE || !dt_dtype_parse(e->name.text, &r->value->dtype))
        return wrong_kind(r, wants);
    DtDtype d = r->value->dtype;
    bool fits = floats ? d == DT_F32 || d == DT_BF16 || d == DT_F16
                       : d == DT_U8 || d == DT_U16 || d == DT_U32 || d == DT_I32;
    return fits ? true : wrong_kind(r, wants);
}

static bool read_string(const Reading *r, const char *wants)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    if (e->kind != DT_EXPR_STRING)
        return wrong_kind(r, wants);
    if (!e->string_len || memchr(e->string, 0, e->string_len))
        return out_of_range(r, "a text of at least one character");
    r->value->word = dt_intern_n(e->string, e->string_len);
    return true;
}

static bool read_word(const Reading *r, const char *const *words, size_t n, DtDiagCode code)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const char *word = NULL;
    if (e->kind == DT_EXPR_STRING && e->string_len)
        word = dt_intern_n(e->string, e->string_len);
    if (e->kind == DT_EXPR_NAME && !e->label.text)
        word = e->name.text;
    const char *list = join_words(r->host->arena, words, n);
    if (!word)
        return wrong_kind(r, dt_arena_printf(r->host->arena, "one of %s", list));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(words[i], word)) {
            r->value->word = dt_intern(word);
            return true;
        }
    DtDiag *d = dt_diag_report(r->host->diags, code, r->expr->span, "`%s` is not a value of `%s`",
                               word, r->key->name);
    dt_diag_note(d, "it is one of %s", list);
    const char *nearest = dt_text_nearest(word, words, n);
    if (nearest) {
        bool quoted = e->kind == DT_EXPR_STRING;
        dt_diag_fix(d, e->span, dt_arena_printf(r->host->arena, quoted ? "\"%s\"" : "%s", nearest),
                    "did you mean `%s`?", nearest);
    }
    return false;
}

static bool read_choice(const Reading *r)
{
    const char *words[DT_COUNT(choices)];
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(choices); i++)
        if (choices[i].kind == r->key->kind)
            words[n++] = choices[i].word;
    return read_word(r, words, n, r->key->kind == DT_KIND_CHOICE_SCHEDULE ? E0603 : E0455);
}

static double unit_factor(const char *unit, bool rate, bool seconds)
{
    static const struct {
        const char *name;
        double factor;
    } bytes[] =
        {
            {"B", 1},           {"KB", 1e3},           {"MB", 1e6},
            {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
            {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
        },
      times[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    if (!unit)
        return 0;
    size_t len = strlen(unit);
    if (seconds) {
        for (size_t i = 0; i < DT_COUNT(times); i++)
            if (!strcmp(times[i].name, unit))
                return times[i].factor;
        return 0;
    }
    bool per_second = len > 2 && !strcmp(unit + len - 2, "/s");
    if (per_second != rate)
        return 0;
    if (rate)
        len -= 2;
    for (size_t i = 0; i < DT_COUNT(bytes); i++)
        if (strlen(bytes[i].name) == len && !memcmp(bytes[i].name, unit, len))
            return bytes[i].factor;
    return 0;
}

static bool read_quantity(const Reading *r)
{
    bool rate = r->key->kind == DT_KIND_BANDWIDTH, seconds = r->key->kind == DT_KIND_SECONDS;
    const char *wants = rate      ? "bytes per second, such as 450GB/s"
                        : seconds ? "a time, such as 2us"
                                  : "a number of bytes, such as 25MiB";
    const DtExpr *e = dt_configargs_bare(r->expr);
    double factor = e->kind == DT_EXPR_QUANTITY ? unit_factor(e->unit, rate, seconds) : 0;
    if (factor == 0)
        return wrong_kind(r, wants);
    r->value->number = e->number * factor;
    if (!(r->value->number >= 0 && r->value->number < 9e18) || (rate && r->value->number == 0))
        return out_of_range(r, rate ? "above 0" : "at least 0");
    r->value->whole = (int64_t)r->value->number;
    return true;
}

static bool read_scale(const Reading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    if (e->kind == DT_EXPR_NAME && !strcmp(e->name.text, "dynamic")) {
        r->value->word = e->name.text;
        return true;
    }
    return read_real(r, 0, true, HUGE_VAL, "above 0");
}

static bool read_paths(const Reading *r)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    dt_configargs_items(r->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++)
        if (!dt_configargs_path(items[i]))
            return wrong_kind(r, "a name or a list of names, such as (attend, gate)");
    return true;
}

/* A value that a class of functions gives: only its shape is checked here; the reader of the block goes on. */
static bool read_class(const Reading *r, DtConfigClass config_class)
{
    const char *name = dt_configargs_callee(r->expr);
    if (dt_configargs_find(config_class, name) != DT_SCHEMA_COUNT)
        return true;
    DtArena *arena = r->host->arena;
    const DtExpr *bare = dt_configargs_bare(r->expr);
    const char *list = dt_configargs_list(arena, config_class);
    if (!name && bare->kind == DT_EXPR_NAME &&
        dt_configargs_find(config_class, bare->name.text) != DT_SCHEMA_COUNT)
        return wrong_kind(r, dt_arena_printf(arena, "a call: write `%s(...)`", bare->name.text));
    if (!name)
        return wrong_kind(r, dt_arena_printf(arena, "a call of %s", list));
    DtDiag *d = dt_diag_report(r->host->diags, E0455, bare->a->span,
                               "`%s` cannot be the value of `%s`", name, r->key->name);
    dt_diag_note(d, "it takes a call of %s", list);
    const char *names[DT_SCHEMA_COUNT];
    size_t n = class_names(config_class, names);
    dt_configargs_suggest(d, bare->a->span, name, names, n);
    return false;
}

static bool read_rate(const Reading *r)
{
    if (dt_configargs_callee(r->expr) &&
        dt_configargs_find(DT_CONFIG_RATE, dt_configargs_callee(r->expr)) == DT_SCHEMA_COUNT) {
        const char *names[DT_SCHEMA_COUNT];
        size_t n = class_names(DT_CONFIG_RATE, names);
        if (dt_text_nearest(dt_configargs_callee(r->expr), names, n))
            return read_class(r, DT_CONFIG_RATE);
    }
    if (dt_configargs_find(DT_CONFIG_RATE, dt_configargs_callee(r->expr)) != DT_SCHEMA_COUNT)
        return true;
    return read_real(r, 0, false, HUGE_VAL, "at least 0");
}

static bool read_value(const Reading *r)
{
    if (!r->expr || r->expr->kind == DT_EXPR_ERROR)
        return false;
    switch (r->key->kind) {
    case DT_KIND_NATURAL: return read_integer(r, 0);
    case DT_KIND_COUNT: return read_integer(r, 1);
    case DT_KIND_NUMBER: return read_real(r, -HUGE_VAL, false, HUGE_VAL, "a number");
    case DT_KIND_NONNEGATIVE: return read_real(r, 0, false, HUGE_VAL, "at least 0");
    case DT_KIND_POSITIVE: return read_real(r, 0, true, HUGE_VAL, "above 0");
    case DT_KIND_FRACTION: return read_real(r, 0, false, 1, "between 0 and 1");
    case DT_KIND_PAIR: return read_pair(r);
    case DT_KIND_BOOLEAN: {
        const DtExpr *e = dt_configargs_bare(r->expr);
        if (e->kind != DT_EXPR_BOOL)
            return wrong_kind(r, "true or false");
        r->value->whole = e->integer;
        return true;
    }
    case DT_KIND_STRING: return read_string(r, "a text in quotes");
    case DT_KIND_FLOATTYPE: return read_dtype(r, true);
    case DT_KIND_INTTYPE: return read_dtype(r, false);
    case DT_KIND_SCALE: return read_scale(r);
    case DT_KIND_BANDWIDTH:
    case DT_KIND_SECONDS:
    case DT_KIND_BYTES: return read_quantity(r);
    case DT_KIND_GPU: return read_word(r, gpus, DT_COUNT(gpus), E0516);
    case DT_KIND_CONDITION:
    case DT_KIND_AUGMENT:
    case DT_KIND_CUTS:
    case DT_KIND_SAMPLERS: return true;
    case DT_KIND_PATHS: return read_paths(r);
    case DT_KIND_CHOICE_ORDER:
    case DT_KIND_CHOICE_SCHEDULE:
    case DT_KIND_CHOICE_OFFLOAD:
    case DT_KIND_CHOICE_GOAL: return read_choice(r);
    case DT_KIND_OPTIMIZER: return read_class(r, DT_CONFIG_OPTIMIZER);
    case DT_KIND_RATE: return read_rate(r);
    case DT_KIND_MIXED: return read_class(r, DT_CONFIG_MIXED);
    case DT_KIND_EVAL: return read_class(r, DT_CONFIG_EVAL);
    case DT_KIND_SAVE: return read_class(r, DT_CONFIG_SAVE);
    case DT_KIND_LINK: return read_class(r, DT_CONFIG_LINK);
    case DT_KIND_SOURCE: return read_class(r, DT_CONFIG_SOURCE);
    }
    return false;
}

/* ---- sets of values ---- */

/* The value a row gives when nothing is written; the table is the only place where it stands. */
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
                     join_words(host->arena, names, n));
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
    Reading reading = {host, &dt_config_keys[key], expr, value};
    if (read_value(&reading))
        return true;
    preset.given = true; /* reported: later checks see the preset and stay silent */
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
        } else if ((k = position++) >= n) {
            DtDiag *d = dt_diag_report(host->diags, E0456, args[i].value->span,
                                       "`%s` takes at most %zu argument%s",
                                       dt_config_schemas[schema].name, n, n == 1 ? "" : "s");
            if (n)
                dt_diag_note(d, "they are, in order, %s", join_words(host->arena, names, n));
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
