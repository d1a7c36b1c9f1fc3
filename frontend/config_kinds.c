/* SPDX-License-Identifier: Apache-2.0 */
/* Values of configuration: one reader per kind of config.def. Each checks form and range, and says
 * what it wants when it gets something else. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

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

/* ---- one reader per kind; each reports and returns false ---- */

static bool wrong_kind(const DtConfigReading *r, const char *wants)
{
    DtDiag *d =
        dt_diag_report(r->host->diags, E0451, r->expr->span, "`%s` takes %s", r->key->name, wants);
    dt_diag_note(d, "%s: %s", r->key->name, r->key->help);
    return false;
}

static bool out_of_range(const DtConfigReading *r, const char *wants)
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

static bool read_number(const DtConfigReading *r, DtConfigNumber *ret_number)
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

static const int64_t MOST = (int64_t)1 << 46; /* the largest number that a plan may contain; no real
                                               * setting is larger */

static bool read_integer(const DtConfigReading *r, int64_t least)
{
    DtConfigNumber n = {0};
    if (!looks_numeric(r->expr))
        return wrong_kind(r, "an integer");
    if (!read_number(r, &n))
        return false;
    if (!n.is_integer)
        return wrong_kind(r, "an integer");
    if (n.whole < least)
        return out_of_range(r, least ? "at least 1" : "at least 0");
    return n.whole <= MOST || out_of_range(r, "at most 2^46");
}

/* Reads `prefetch`. Each iteration ahead costs memory for one more bucket, and one more gather
 * before the loop. A few iterations already hide all communication that can be hidden. */
static bool read_ahead(const DtConfigReading *r)
{
    return read_integer(r, 0) && (r->value->whole <= 64 || out_of_range(r, "at most 64"));
}

static bool read_real(const DtConfigReading *r, double lo, bool open, double hi, const char *wants)
{
    DtConfigNumber n = {0};
    if (!read_number(r, &n))
        return false;
    if (n.number < lo || (open && n.number == lo) || n.number > hi)
        return out_of_range(r, wants);
    return true;
}

static bool read_dtype(const DtConfigReading *r, bool floats)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const char *wants =
        floats ? "a float dtype: f32, bf16 or f16"
               : "the dtype of numbers in files: u8, u16, u32, i32, i64, f32, f16 or bf16";
    if (e->kind != DT_EXPR_DTYPE || !dt_dtype_parse(e->name.text, &r->value->dtype))
        return wrong_kind(r, wants);
    DtDtype d = r->value->dtype;
    bool fits = d == DT_F32 || d == DT_BF16 || d == DT_F16;
    if (!floats)
        fits = fits || d == DT_U8 || d == DT_U16 || d == DT_U32 || d == DT_I32 || d == DT_I64;
    return fits ? true : wrong_kind(r, wants);
}

static bool read_string(const DtConfigReading *r, const char *wants)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    if (e->kind != DT_EXPR_STRING)
        return wrong_kind(r, wants);
    if (!e->string_len || memchr(e->string, 0, e->string_len))
        return out_of_range(r, "a text of at least one character");
    r->value->word = dt_intern_n(e->string, e->string_len);
    return true;
}

/* A character that can stand between numbers: a comma, a semicolon, a bar, a blank, "\t". */
static bool read_letter(const DtConfigReading *r)
{
    static const char known[] = ",;|: \t";
    if (!read_string(r, "a character in quotes"))
        return false;
    const char *word = r->value->word;
    return (strlen(word) == 1 && strchr(known, *word)) ||
           out_of_range(r, "one of `,`, `;`, `|`, `:`, a blank and `\\t`");
}

/* Returns the word of which this one is a prefix, as `h100` of `h100-sxm`, or else the one that is
 * spelt most like it. Only the part before `-` is compared: `h101` is near `h100-sxm`, not near
 * `v100`. NULL if none is near. */
static const char *meant_word(DtArena *arena, const char *word, const char *const *words, size_t n)
{
    char *lower = dt_arena_strndup(arena, word, strlen(word));
    const char **parts = DT_NEW_ARRAY(arena, const char *, 2 * n);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < n; i++) {
        if (!strncmp(words[i], lower, strlen(lower)))
            return words[i];
        parts[i] = words[i];
        parts[n + i] = dt_arena_strndup(arena, words[i], strcspn(words[i], "-"));
    }
    const char *nearest = dt_text_nearest(lower, parts, 2 * n);
    for (size_t i = 0; i < n; i++)
        if (nearest == parts[i] || nearest == parts[n + i])
            return words[i];
    return NULL;
}

static bool read_word(const DtConfigReading *r, const char *const *words, size_t n, DtDiagCode code)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const char *word = NULL;
    if (e->kind == DT_EXPR_STRING && e->string_len)
        word = dt_intern_n(e->string, e->string_len);
    if (e->kind == DT_EXPR_NAME && !e->label.text)
        word = e->name.text;
    const char *list = dt_configargs_join(r->host->arena, words, n);
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
    const char *nearest = meant_word(r->host->arena, word, words, n);
    if (nearest) {
        bool quoted = e->kind == DT_EXPR_STRING ||
                      nearest[strspn(nearest, "abcdefghijklmnopqrstuvwxyz_0123456789")];
        dt_diag_fix(d, e->span, dt_arena_printf(r->host->arena, quoted ? "\"%s\"" : "%s", nearest),
                    "did you mean `%s`?", nearest);
    }
    return false;
}

static bool read_choice(const DtConfigReading *r)
{
    const char *words[DT_COUNT(choices)];
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(choices); i++)
        if (choices[i].kind == r->key->kind)
            words[n++] = choices[i].word;
    return read_word(r, words, n, r->key->kind == DT_KIND_CHOICE_SCHEDULE ? E0603 : E0455);
}

/* Reads the name of a device or a stack that the program or the library defines. */
static bool read_known(const DtConfigReading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const bool gpu = r->key->kind == DT_KIND_GPU;
    const char *word = e->kind == DT_EXPR_STRING && e->string_len
                           ? dt_intern_n(e->string, e->string_len)
                       : e->kind == DT_EXPR_NAME ? e->name.text
                                                 : NULL;
    const void *known = !word ? NULL
                        : gpu ? (const void *)dt_confighardware_device(r->host, word)
                              : (const void *)dt_confighardware_stack(r->host, word);
    const char **names;
    if (known)
        return read_word(r, &word, 1, gpu ? E0516 : E0525);
    const uint32_t n =
        dt_confighardware_names(r->host, gpu ? DT_ITEM_DEVICE : DT_ITEM_STACK, &names);
    return read_word(r, names, n, gpu ? E0516 : E0525);
}

/* Reads a number of operations per second with its unit, as 312TFLOP/s. */
static bool read_flops(const DtConfigReading *r)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
    const DtExpr *e = dt_configargs_bare(r->expr);
    double factor = 0;
    for (size_t i = 0; i < DT_COUNT(units) && e->kind == DT_EXPR_QUANTITY; i++)
        if (!strcmp(units[i].unit, e->unit))
            factor = units[i].factor;
    if (factor == 0)
        return wrong_kind(r, "operations per second, such as 312TFLOP/s");
    r->value->number = e->number * factor;
    return (r->value->number > 0 && isfinite(r->value->number)) || out_of_range(r, "above 0");
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

static bool read_quantity(const DtConfigReading *r)
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

/* Reads a number, or a time in seconds; constants.def has the constant's unit, and
 * config_hardware.c checks it. */
static bool read_measure(const DtConfigReading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    const double factor = e->kind == DT_EXPR_QUANTITY ? unit_factor(e->unit, false, true) : 0;
    if (factor == 0)
        return read_real(r, 0, false, 1e30, "at least 0");
    r->value->number = e->number * factor;
    r->value->second = 1; /* it is a time */
    return isfinite(r->value->number) || out_of_range(r, "finite");
}

/* Reads true, false, or a text, which means true and says from where that is known. */
static bool read_flag(const DtConfigReading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    r->value->whole = e->kind == DT_EXPR_BOOL ? e->integer : 1;
    if (e->kind == DT_EXPR_BOOL)
        return true;
    return read_string(r, "true, false, or a text that says where it is known from");
}

static bool read_scale(const DtConfigReading *r)
{
    const DtExpr *e = dt_configargs_bare(r->expr);
    if (e->kind == DT_EXPR_NAME && !strcmp(e->name.text, "dynamic")) {
        r->value->word = e->name.text;
        return true;
    }
    return read_real(r, 0x1p-126, false, 0x1p126,
                     "from 1.2e-38 to 8.5e37: it and its inverse are f32");
}

static bool read_paths(const DtConfigReading *r)
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

static bool read_texts(const DtConfigReading *r)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    dt_configargs_items(r->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const DtExpr *item = dt_configargs_bare(items[i]);
        if (!item || item->kind != DT_EXPR_STRING || memchr(item->string, '\n', item->string_len))
            return wrong_kind(r, "a text or a list of texts, such as (\"wte\", \"h.*\")");
    }
    return true;
}

/* Checks one value, or a list: one for each kind of node, integers. The reader of the block reads
 * the list again and keeps the values. */
static bool read_kinds(const DtConfigReading *r)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    bool good = true;
    dt_configargs_items(r->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const DtConfigReading one = {r->host, r->key, items[i], r->value};
        const bool integers = r->key->kind != DT_KIND_GPU;
        good = (integers ? read_integer(&one, r->key->kind == DT_KIND_NODES) : read_known(&one)) &&
               good;
    }
    return good;
}

uint32_t dt_configkinds_naturals(const DtConfigHost *host, const DtExpr *expr, int64_t *ret_numbers,
                                 uint32_t cap)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n = 0;
    if (expr)
        dt_configargs_items(expr, &items, &n, &single);
    for (uint32_t i = 0; i < n && i < cap; i++) {
        DtConfigNumber number = {0};
        host->constant(host->context, items[i], &number);
        ret_numbers[i] = number.whole;
    }
    return n;
}

static bool read_class(const DtConfigReading *r, DtConfigClass config_class);

/* Checks that a value is a call of one of a class, or a list of such calls. */
static bool read_calls(const DtConfigReading *r, DtConfigClass config_class)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    bool good = true;
    dt_configargs_items(r->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++)
        good = read_class(&(DtConfigReading){r->host, r->key, items[i], r->value}, config_class) &&
               good;
    return good;
}

/* Checks that a value is a call of one of a class of functions; the reader of the block reads the
 * call. */
static bool read_class(const DtConfigReading *r, DtConfigClass config_class)
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
    if (!name && config_class == DT_CONFIG_MIXED &&
        bare->kind == DT_EXPR_DTYPE) { /* `precision = bf16` */
        DtDiag *d = dt_diag_report(r->host->diags, E0451, r->expr->span, "`%s` takes a call of %s",
                                   r->key->name, list);
        dt_diag_note(d, "%s: %s", r->key->name, r->key->help);
        dt_diag_fix(d, bare->span, dt_arena_printf(arena, "mixed(compute = %s)", bare->name.text),
                    "layers compute in %s, parameters and the optimizer stay in f32",
                    bare->name.text);
        return false;
    }
    if (!name)
        return wrong_kind(r, dt_arena_printf(arena, "a call of %s", list));
    DtDiag *d =
        dt_diag_report(r->host->diags, config_class == DT_CONFIG_SOURCE ? E0801 : E0455,
                       bare->a->span, "`%s` cannot be the value of `%s`", name, r->key->name);
    dt_diag_note(d, "it takes a call of %s", list);
    const char *names[DT_SCHEMA_COUNT];
    size_t n = dt_configargs_names(config_class, names);
    dt_configargs_suggest(d, bare->a->span, name, names, n);
    return false;
}

bool dt_configkinds_read(const DtConfigReading *r)
{
    if (!r->expr || r->expr->kind == DT_EXPR_ERROR)
        return false;
    switch (r->key->kind) {
    case DT_KIND_NATURAL: return read_integer(r, 0);
    case DT_KIND_AHEAD: return read_ahead(r);
    case DT_KIND_COUNT: return read_integer(r, 1);
    case DT_KIND_NUMBER: return read_real(r, -HUGE_VAL, false, HUGE_VAL, "a number");
    case DT_KIND_NONNEGATIVE: return read_real(r, 0, false, HUGE_VAL, "at least 0");
    case DT_KIND_POSITIVE: return read_real(r, 0, true, HUGE_VAL, "above 0");
    case DT_KIND_FRACTION: return read_real(r, 0, false, 1, "between 0 and 1");
    case DT_KIND_BOOLEAN: {
        const DtExpr *e = dt_configargs_bare(r->expr);
        const bool alone =
            e->kind == DT_EXPR_NAME && !strcmp(e->name.text, r->key->name); /* `unpaired` */
        if (e->kind != DT_EXPR_BOOL && !alone)
            return wrong_kind(r, "true or false");
        r->value->whole = alone || e->integer;
        return true;
    }
    case DT_KIND_STRING: return read_string(r, "a text in quotes");
    case DT_KIND_LETTER: return read_letter(r);
    case DT_KIND_FLOATTYPE: return read_dtype(r, true);
    case DT_KIND_DATATYPE: return read_dtype(r, false);
    case DT_KIND_SCALE: return read_scale(r);
    case DT_KIND_BANDWIDTH:
    case DT_KIND_SECONDS:
    case DT_KIND_BYTES: return read_quantity(r);
    case DT_KIND_FLOPS: return read_flops(r);
    case DT_KIND_MEASURE: return read_measure(r);
    case DT_KIND_ESTIMATE:
        return dt_configargs_callee(r->expr) ? read_class(r, DT_CONFIG_ESTIMATE) : read_measure(r);
    case DT_KIND_FLAG: return read_flag(r);
    case DT_KIND_STACK: return read_known(r);
    case DT_KIND_NATURALS:
    case DT_KIND_NODES:
    case DT_KIND_GPU: return read_kinds(r);
    case DT_KIND_OPTIMIZER: /* read where it is used, by the language */
    case DT_KIND_NUMBERS:
    case DT_KIND_CUTS:
    case DT_KIND_COUNTS:
    case DT_KIND_SAMPLERS: return true;
    case DT_KIND_PATHS: return read_paths(r);
    case DT_KIND_TEXTS: return read_texts(r);
    case DT_KIND_CHOICE_ORDER:
    case DT_KIND_CHOICE_SCHEDULE:
    case DT_KIND_CHOICE_OFFLOAD:
    case DT_KIND_CHOICE_GOAL:
    case DT_KIND_CHOICE_MATMUL:
    case DT_KIND_CHOICE_DRAWS:
    case DT_KIND_CHOICE_TEMPLATE:
    case DT_KIND_CHOICE_TRAINS:
    case DT_KIND_CHOICE_LONG:
    case DT_KIND_CHOICE_CROP: return read_choice(r);
    case DT_KIND_MIXED: return read_class(r, DT_CONFIG_MIXED);
    case DT_KIND_EVAL: return read_class(r, DT_CONFIG_EVAL);
    case DT_KIND_SAVE: return read_class(r, DT_CONFIG_SAVE);
    case DT_KIND_GENERATE: return read_class(r, DT_CONFIG_GENERATE);
    case DT_KIND_RAMP: return read_class(r, DT_CONFIG_RAMP);
    case DT_KIND_CODES: return read_calls(r, DT_CONFIG_CODES);
    case DT_KIND_LINK: return read_class(r, DT_CONFIG_LINK);
    case DT_KIND_SOURCE: return read_class(r, DT_CONFIG_SOURCE);
    }
    return false;
}
