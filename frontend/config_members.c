/* SPDX-License-Identifier: Apache-2.0 */
/* Members of config.json that a names block compares with the program:
 *
 *     config "rms_norm_eps" = 1e-5
 *     config "rope_parameters.rope_theta", "rope_theta" = theta
 *     config "layer_types.{h}" = if h % 4 == 3 then "full_attention" else "sliding_attention"
 *
 * A key with the label of a loop in braces stands for one key with each number of its iterations,
 * and in the value the label is that number. Each key becomes a rule: the keys, and the allowed
 * values as a JSON array (base/modelconfig.h compares them). */
#include "frontend/config_names.h"

#include "base/intern.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_ITERATIONS = 1 << 14 };

static bool reject(const DtMapping *m, DtSpan span, const char *what)
{
    dt_diag_report(m->host->diags, E0467, span, "%s", what);
    return false;
}

/* ---- values ---- */

static void add_json_text(DtText *text, const char *bytes, uint32_t len)
{
    dt_text_add(text, "\"");
    for (uint32_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\' || c < 0x20)
            dt_text_printf(text, "\\u%04x", c);
        else
            dt_text_add_n(text, &bytes[i], 1);
    }
    dt_text_add(text, "\"");
}

/* Appends one value as JSON. False after a report. */
static bool add_value(const DtMapping *m, const DtExpr *expr, DtText *text)
{
    DtConfigNumber number = {.takes_truth = true};
    expr = dt_configsides_chosen(m, expr);
    if (expr == NULL)
        return false;
    if (expr->kind == DT_EXPR_STRING) {
        add_json_text(text, expr->string, expr->string_len);
        return true;
    }
    if (dt_configsides_is_none(expr)) {
        dt_text_add(text, "null");
        return true;
    }
    if (!m->host->constant(m->host->context, expr, &number))
        return false;
    if (number.is_truth)
        dt_text_add(text, number.whole ? "true" : "false");
    else if (number.is_integer)
        dt_text_printf(text, "%" PRId64, number.whole);
    else if (!isfinite(number.number))
        return reject(m, expr->span, "a number of config.json is finite");
    else {
        const size_t before = text->len;
        dt_text_double(text, number.number);
        if (!strpbrk(text->at + before, ".e")) /* a reader of JSON takes 1 for an integer */
            dt_text_add(text, ".0");
    }
    return true;
}

/* Appends the alternatives of a value as a JSON array. False after a report. */
static bool add_values(const DtMapping *m, const DtExpr *expr, DtText *text)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    const DtExpr *value = dt_configsides_chosen(m, expr);
    bool good = value != NULL;
    dt_configargs_items(value, &items, &n, &single);
    for (uint32_t i = 0; i < n && good; i++) {
        dt_text_add(text, i ? "," : "[");
        good = add_value(m, items[i], text);
    }
    dt_text_add(text, "]");
    return good;
}

/* Returns a copy of the expression with the number for the name. */
static DtExpr *with_number(const DtMapping *m, const DtExpr *expr, const char *name, int64_t number)
{
    if (!expr)
        return NULL;
    DtExpr *copy = DT_NEW(m->host->arena, DtExpr);
    *copy = *expr;
    if (expr->kind == DT_EXPR_NAME && expr->name.text == name && !expr->label.text) {
        copy->kind = DT_EXPR_INT;
        copy->integer = number;
        copy->name.text = NULL;
    }
    copy->a = with_number(m, expr->a, name, number);
    copy->b = with_number(m, expr->b, name, number);
    copy->c = with_number(m, expr->c, name, number);
    copy->items = (DtExprs){0};
    for (uint32_t i = 0; i < expr->items.n; i++)
        DT_PUSH(m->host->arena, copy->items, with_number(m, expr->items.at[i], name, number));
    return copy;
}

/* ---- keys ---- */

/* Returns the label in the braces of a key (interned); "" if it has none, NULL after a report. */
static const char *label_of(const DtMapping *m, const DtTarget *target)
{
    const char *open = memchr(target->string, '{', target->string_len);
    const char *end = target->string + target->string_len;
    const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
    if (!open)
        return "";
    const char *label = close ? dt_intern_n(open + 1, (size_t)(close - open - 1)) : "";
    const int64_t n = close ? dt_configsides_iterations(m, label) : 0;
    if (n > 0 && n <= MOST_ITERATIONS)
        return label;
    reject(m, target->name.span,
           n > 0 ? "the loop has more iterations than a list of config.json may have here"
                 : "braces in a key hold the label of a loop that has parameters");
    return NULL;
}

/* Appends the key, with the number for the braces. */
static void add_key(const DtTarget *target, int64_t number, DtText *text)
{
    const char *at = target->string, *end = at + target->string_len;
    const char *open = memchr(at, '{', target->string_len);
    if (open) {
        dt_text_add_n(text, at, (size_t)(open - at));
        dt_text_printf(text, "%" PRId64, number);
        at = (const char *)memchr(open, '}', (size_t)(end - open)) + 1;
    }
    dt_text_add_n(text, at, (size_t)(end - at));
}

static bool read_rule(DtMapping *m, const DtEntry *entry, const DtExpr *value, int64_t number)
{
    DtText keys = {0}, values = {0};
    for (uint32_t i = 0; i < entry->targets.n; i++) {
        dt_text_add(&keys, i ? ", " : "");
        add_key(&entry->targets.at[i], number, &keys);
    }
    const bool good = add_values(m, value, &values);
    if (good)
        DT_PUSH(m->host->arena, m->made.rules,
                ((DtFileRule){DT_FILE_CONFIG, dt_intern_n(keys.at ? keys.at : "", keys.len),
                              dt_intern_n(values.at, values.len), entry->span}));
    dt_text_free(&keys);
    dt_text_free(&values);
    return good;
}

void dt_configmembers_read(DtMapping *m, const DtEntry *entry)
{
    const char *label = "";
    for (uint32_t i = 0; i < entry->targets.n; i++) {
        const char *own = label_of(m, &entry->targets.at[i]);
        if (!own)
            return;
        if (*own && *label && own != label) {
            reject(m, entry->targets.at[i].name.span, "all keys of a line have the same loop");
            return;
        }
        label = *own ? own : label;
    }
    if (!*label) {
        read_rule(m, entry, entry->value, 0);
        return;
    }
    const int64_t n = dt_configsides_iterations(m, label);
    for (int64_t i = 0; i < n; i++)
        if (!read_rule(m, entry, with_number(m, entry->value, label, i), i))
            return;
}
