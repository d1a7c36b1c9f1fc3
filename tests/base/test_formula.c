/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas: their values, how variants are chosen, and texts that are no formula. */
#include "base/formula.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const DtFormulaSetting settings[] = {{"lr.base", 0.5}, {"lr.warmup", 4}};
static const DtFormulaStep at = {.step = 6, .updates = 3, .loss_scale = 8, .settings = settings,
                                 .n_settings = 2};

static double value(const char *text)
{
    DtFormulaProblem problem;
    double result;
    cr_assert(dt_formula_value(text, dt_formula_step, &at, &result, &problem), "%s: %s", text,
              problem.text);
    return result;
}

Test(formula, values)
{
    static const struct {
        const char *text;
        double want;
    } cases[] = {
        {"1e-3", 1e-3}, {" -2 ", -2}, {"inf", INFINITY}, {"step", 6}, {"updates", 3},
        {"loss_scale", 8}, {"lr.base", 0.5}, {"add(step, 1)", 7},
        {"sub(1, pow(0.9, updates))", 1 - 0.729}, {"mul(3, 4)", 12}, {"div(1, 4)", 0.25},
        {"floordiv(-7, 2)", -4}, {"mod(-7, 4)", 1}, {"max(2, 3)", 3}, {"min(2, 3)", 2},
        {"neg(2)", -2}, {"abs(-2)", 2}, {"floor(-1.5)", -2}, {"exp(0)", 1}, {"log(1)", 0},
        {"sqrt(9)", 3}, {"rsqrt(4)", 0.5}, {"sin(0)", 0}, {"cos(0)", 1}, {"tanh(0)", 0},
        {"erf(0)", 0}, {"where(lt(step, lr.warmup), 1, 2)", 2}, {"where(le(6, step), 1, 2)", 1},
        {"where(eq(1, 2), 1, 2)", 2}, {"where(and(ne(1, 2), not(lt(2, 1))), 1, 2)", 1},
        {"where(or(lt(2, 1), lt(1, 2)), 1, 2)", 1},
        {"where(lt(step, 9), 5, refuse(\"never, (ever\"))", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got = value(cases[i].text);
        cr_expect(got == cases[i].want || fabs(got - cases[i].want) < 1e-15, "%s: %g",
                  cases[i].text, got);
    }
}

/* A formula that refuses its settings gives another result than a text that is no formula. */
Test(formula, refuses)
{
    DtFormulaProblem problem;
    double result;
    cr_assert_not(dt_formula_value("where(lt(lr.warmup, 4), 1, add(1, refuse(\"too long\")))",
                                   dt_formula_step, &at, &result, &problem));
    cr_expect(problem.is_refused && isnan(result));
    cr_expect_str_eq(problem.text, "too long");
}

Test(formula, no_formulas)
{
    static const char *const wrong[] = {"", "(", "1 2", "add(1)", "add(1, 2, 3)", "add(1, 2", "lr",
                                        "lr.bas", "lr.base.x", "sum(1, 2)", "where(1, 2)",
                                        "refuse(1)", "refuse(\"open", "-", "step(1)", "@"};
    DtFormulaProblem problem;
    double result;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_not(dt_formula_value(wrong[i], dt_formula_step, &at, &result, &problem), "`%s`",
                      wrong[i]);
        cr_expect(problem.text[0] && !problem.is_refused, "`%s`", wrong[i]);
    }
}

/* Texts as a hostile file may contain them. */
Test(formula, deep_and_long)
{
    static char deep[2 * DT_FORMULA_LENGTH];
    DtFormulaProblem problem;
    double result;
    for (size_t i = 0; i < 1000; i++)
        memcpy(deep + 4 * i, "neg(", 5);
    cr_expect_not(dt_formula_value(deep, dt_formula_step, &at, &result, &problem));
    memset(deep, ' ', sizeof deep - 1);
    cr_expect_not(dt_formula_value(deep, dt_formula_step, &at, &result, &problem));
}
