/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas: a recursive walk over the text that computes as it reads. */
#include "base/formula.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 200 };

typedef struct Walk {
    const char *at;
    DtFormulaLookup *lookup;
    const void *context;
    DtFormulaProblem *problem;
    uint32_t depth;
} Walk;

/* ---- operations ---- */

static double add(const double *x) { return x[0] + x[1]; }
static double sub(const double *x) { return x[0] - x[1]; }
static double mul(const double *x) { return x[0] * x[1]; }
static double divide(const double *x) { return x[0] / x[1]; }
static double floordiv(const double *x) { return floor(x[0] / x[1]); }
static double mod(const double *x) { return x[0] - floor(x[0] / x[1]) * x[1]; }
static double power(const double *x) { return pow(x[0], x[1]); }
static double larger(const double *x) { return x[0] > x[1] ? x[0] : x[1]; }
static double smaller(const double *x) { return x[0] < x[1] ? x[0] : x[1]; }
static double lt(const double *x) { return x[0] < x[1]; }
static double le(const double *x) { return x[0] <= x[1]; }
static double eq(const double *x) { return x[0] == x[1]; }
static double ne(const double *x) { return x[0] != x[1]; }
static double both(const double *x) { return x[0] != 0 && x[1] != 0; }
static double either(const double *x) { return x[0] != 0 || x[1] != 0; }
static double opposite(const double *x) { return x[0] == 0; }
static double absolute(const double *x) { return fabs(x[0]); }
static double whole(const double *x) { return floor(x[0]); }
static double exponential(const double *x) { return exp(x[0]); }
static double logarithm(const double *x) { return log(x[0]); }
static double root(const double *x) { return sqrt(x[0]); }
static double reciprocal_root(const double *x) { return 1 / sqrt(x[0]); }
static double sine(const double *x) { return sin(x[0]); }
static double cosine(const double *x) { return cos(x[0]); }
static double tangent(const double *x) { return tanh(x[0]); }
static double error(const double *x) { return erf(x[0]); }
static double negative(const double *x) { return -x[0]; }

/* The operations, by the names that ops have in IR text (ir/ops.def). */
static const struct Operation {
    const char *name;
    uint32_t n;
    double (*run)(const double *x); /* NULL: `where`, whose operands are evaluated on demand */
} operations[] = {
    {"add", 2, add},           {"sub", 2, sub},      {"mul", 2, mul},    {"div", 2, divide},
    {"floordiv", 2, floordiv}, {"mod", 2, mod},      {"pow", 2, power},  {"max", 2, larger},
    {"min", 2, smaller},       {"lt", 2, lt},        {"le", 2, le},      {"eq", 2, eq},
    {"ne", 2, ne},             {"and", 2, both},     {"or", 2, either},  {"not", 1, opposite},
    {"abs", 1, absolute},      {"floor", 1, whole},  {"exp", 1, exponential}, {"log", 1, logarithm},
    {"sqrt", 1, root},         {"rsqrt", 1, reciprocal_root}, {"sin", 1, sine}, {"cos", 1, cosine},
    {"tanh", 1, tangent},      {"erf", 1, error},    {"neg", 1, negative}, {"where", 3, NULL},
};

static const struct Operation *find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strlen(operations[i].name) == len && memcmp(operations[i].name, name, len) == 0)
            return &operations[i];
    return NULL;
}

bool dt_formula_has(const char *operation, uint32_t n)
{
    const struct Operation *found = find(operation, strlen(operation));
    return found && found->n == n;
}

/* ---- reading ---- */

__attribute__((format(printf, 2, 3))) static bool fail(Walk *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->problem->text, sizeof w->problem->text, format, args);
    va_end(args);
    return false;
}

static void skip_blanks(Walk *w) { w->at += strspn(w->at, " "); }

static bool take(Walk *w, char c)
{
    skip_blanks(w);
    if (*w->at != c)
        return fail(w, "`%c` is missing before `%.20s`", c, w->at);
    w->at++;
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

static bool term(Walk *w, bool runs, double *ret_value);

/* Reads `refuse("text")` and, where it is evaluated, fails with that text. */
static bool refuse(Walk *w, bool runs, double *ret_value)
{
    *ret_value = NAN;
    if (!take(w, '(') || !take(w, '"'))
        return false;
    const size_t len = strcspn(w->at, "\"");
    const char *said = w->at;
    w->at += len;
    if (!take(w, '"') || !take(w, ')'))
        return false;
    w->problem->is_refused = runs;
    return !runs || fail(w, "%.*s", (int)(len < 199 ? len : 199), said);
}

static bool operation(Walk *w, const struct Operation *of, bool runs, double *ret_value)
{
    double x[3] = {0};
    if (!take(w, '('))
        return false;
    for (uint32_t i = 0; i < of->n; i++) {
        const bool chosen = of->run || i == 0 || (x[0] != 0) == (i == 1);
        if ((i && !take(w, ',')) || !term(w, runs && chosen, &x[i]))
            return false;
    }
    *ret_value = of->run ? of->run(x) : x[0] != 0 ? x[1] : x[2];
    return take(w, ')');
}

static bool word(Walk *w, bool runs, double *ret_value)
{
    const char *name = w->at;
    while (is_word(*w->at))
        w->at++;
    const size_t len = (size_t)(w->at - name);
    skip_blanks(w);
    if (*w->at == '(' && len == 6 && memcmp(name, "refuse", 6) == 0)
        return refuse(w, runs, ret_value);
    if (*w->at == '(') {
        const struct Operation *of = find(name, len);
        return of ? operation(w, of, runs, ret_value)
                  : fail(w, "there is no operation `%.*s`", (int)(len % 40), name);
    }
    if (len == 3 && memcmp(name, "inf", 3) == 0) {
        *ret_value = INFINITY;
        return true;
    }
    return w->lookup(w->context, name, len, ret_value) ||
           fail(w, "there is no number `%.*s`", (int)(len % 60), name);
}

static bool term(Walk *w, bool runs, double *ret_value)
{
    bool ok;
    skip_blanks(w);
    if (++w->depth > DEPTH)
        return fail(w, "it is nested more than %d deep", DEPTH);
    if ((*w->at >= 'a' && *w->at <= 'z') || (*w->at >= 'A' && *w->at <= 'Z') || *w->at == '_') {
        ok = word(w, runs, ret_value);
    } else {
        char *end;
        *ret_value = strtod(w->at, &end);
        ok = end != w->at || fail(w, "`%.20s` is no number", w->at);
        w->at = end;
    }
    w->depth--;
    return ok;
}

bool dt_formula_value(const char *text, DtFormulaLookup *lookup, const void *context,
                      double *ret_value, DtFormulaProblem *ret_problem)
{
    Walk walk = {.at = text, .lookup = lookup, .context = context, .problem = ret_problem},
         *w = &walk;
    *ret_problem = (DtFormulaProblem){.is_refused = false};
    *ret_value = NAN;
    if (strnlen(text, DT_FORMULA_LENGTH + 1) > DT_FORMULA_LENGTH)
        return fail(w, "it is longer than %d bytes", DT_FORMULA_LENGTH);
    if (!term(w, true, ret_value))
        return false;
    skip_blanks(w);
    return !*w->at || fail(w, "`%.20s` is left over", w->at);
}

/* ---- names of a run ---- */

bool dt_formula_step(const void *context, const char *name, size_t len, double *ret_value)
{
    const DtFormulaStep *s = context;
    const DtFormulaSetting own[] = {{"step", s->step},
                                    {"updates", s->updates},
                                    {"loss_scale", s->loss_scale},
                                    {"steps", s->steps},
                                    {"rows", s->rows}};
    const uint32_t n = sizeof own / sizeof own[0];
    for (uint32_t i = 0; i < n + s->n_settings; i++) {
        const DtFormulaSetting *one = i < n ? &own[i] : &s->settings[i - n];
        if (strlen(one->name) == len && memcmp(one->name, name, len) == 0) {
            *ret_value = one->value;
            return true;
        }
    }
    return false;
}
