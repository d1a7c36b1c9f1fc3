/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the plan that a run may change without compiling: --steps, and --set block.key=value.
 */
#include "runtime/runtime.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A setting that changes a number of META: its key, and the number's place in META. */
static const struct Count {
    const char *key;
    size_t offset;
} counts[] = {
    {"train.steps", offsetof(DtPlanMeta, steps)}, {"eval.every", offsetof(DtPlanMeta, eval_every)},
    {"eval.steps", offsetof(DtPlanMeta, eval_steps)},
    {"eval.patience", offsetof(DtPlanMeta, eval_patience)},
    {"save.every", offsetof(DtPlanMeta, save_every)},
    {"save.keep", offsetof(DtPlanMeta, save_keep)},
};

static const char epochs_key[] = "train.epochs";

static DtStatus unknown_key(const DtPlan *plan, const char *key)
{
    const char *keys[DT_COUNT(counts) + 1 + DT_PLAN_MAX_SETTINGS];
    DtText list = {0};
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(counts); i++)
        keys[n++] = counts[i].key;
    keys[n++] = epochs_key;
    for (uint32_t i = 0; i < plan->n_settings; i++)
        keys[n++] = dt_plan_str(plan, plan->settings[i].name);
    for (size_t i = 0; i < n; i++)
        dt_text_printf(&list, "%s%s", i ? ", " : "", keys[i]);
    const char *nearest = dt_text_nearest(key, keys, n);
    DtStatus status =
        nearest ? dt_status_fail(DT_EXIT_USAGE,
                                 "--set: this plan has no key `%.60s`; did you mean `%.60s`?", key,
                                 nearest)
                : dt_status_fail(DT_EXIT_USAGE,
                                 "--set: this plan has no key `%.60s`; there are %.300s. "
                                 "Everything else is fixed when "
                                 "the plan is compiled",
                                 key, list.at);
    dt_text_free(&list);
    return status;
}

static DtStatus read_real(const char *key, const char *text, double *ret_value)
{
    char *end;
    *ret_value = strtod(text, &end);
    if (end == text || *end || !isfinite(*ret_value))
        return dt_status_fail(DT_EXIT_USAGE, "--set %s: `%.60s` is no number", key, text);
    return DT_OK;
}

static DtStatus read_count(const char *key, const char *text, int64_t *ret_count)
{
    char *end;
    errno = 0;
    *ret_count = strtoll(text, &end, 10);
    if (end == text || *end || errno || *ret_count < 0 || *ret_count > DT_PLAN_MAX_BYTES)
        return dt_status_fail(DT_EXIT_USAGE, "--set %s: `%.60s` is no count", key, text);
    return DT_OK;
}

static DtStatus set_formula(const char *key, const char *text, bool is_whole, double *ret_value)
{
    int64_t count = 0;
    if (!is_whole)
        return read_real(key, text, ret_value);
    DtStatus status = read_count(key, text, &count);
    if (dt_status_ok(&status))
        *ret_value = (double)count;
    return status;
}

static bool has_eval(const DtPlan *plan)
{
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (plan->readers[i].is_eval)
            return true;
    return false;
}

static DtStatus apply(const char *text, const DtPlan *plan, DtPlanMeta *meta,
                      DtRunSettings *settings)
{
    char key[100];
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals - text >= (ptrdiff_t)sizeof key)
        return dt_status_fail(DT_EXIT_USAGE, "--set wants block.key=value, not `%.60s`", text);
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    for (size_t i = 0; i < DT_COUNT(counts); i++) {
        int64_t count = 0;
        if (strcmp(counts[i].key, key) != 0)
            continue;
        DtStatus status = read_count(key, equals + 1, &count);
        if (dt_status_ok(&status))
            memcpy((char *)meta + counts[i].offset, &count, sizeof count);
        if (counts[i].offset == offsetof(DtPlanMeta, steps))
            meta->epochs = 0;
        return status;
    }
    if (strcmp(key, epochs_key) == 0) {
        DtStatus status = read_real(key, equals + 1, &meta->epochs);
        if (dt_status_ok(&status) && !(meta->epochs > 0 && meta->epochs <= 1e9))
            return dt_status_fail(DT_EXIT_USAGE, "--set %s: %g is not above 0 and at most 1e9", key,
                                  meta->epochs);
        meta->steps = 0;
        return status;
    }
    for (uint32_t i = 0; i < settings->n; i++)
        if (strcmp(settings->at[i].name, key) == 0) {
            settings->given[i] = true;
            return set_formula(key, equals + 1, plan->settings[i].is_whole, &settings->at[i].value);
        }
    return unknown_key(plan, key);
}

static bool evaluate(const DtPlan *plan, const DtPlanScalar *scalar, const DtFormulaStep *step,
                     double *ret_value, DtFormulaProblem *ret_problem)
{
    return dt_formula_value(dt_plan_str(plan, scalar->formula), dt_formula_step, step, ret_value,
                            ret_problem);
}

double dt_settings_scalar(const DtPlan *plan, const DtPlanScalar *scalar,
                          const DtRunSettings *settings, int64_t step, int64_t updates,
                          double loss_scale, int64_t rows)
{
    const DtFormulaStep at = {.step = (double)step,
                              .updates = (double)updates,
                              .loss_scale = loss_scale,
                              .steps = (double)settings->steps,
                              .rows = (double)rows,
                              .settings = settings->at,
                              .n_settings = settings->n};
    DtFormulaProblem problem;
    double value;
    return evaluate(plan, scalar, &at, &value, &problem) ? value : NAN;
}

DtStatus dt_settings_take_steps(const DtPlan *plan, int64_t steps, DtRunSettings *settings)
{
    settings->steps = steps;
    const DtFormulaStep first = {.updates = 1,
                                 .loss_scale = 1,
                                 .steps = (double)steps,
                                 .rows = (double)plan->meta->batch,
                                 .settings = settings->at,
                                 .n_settings = settings->n};
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        DtFormulaProblem problem;
        const char *name = dt_plan_str(plan, plan->scalars[i].name);
        double value;
        if (!evaluate(plan, &plan->scalars[i], &first, &value, &problem))
            return dt_status_fail(DT_EXIT_USAGE, "%.60s: %s", name + 1, problem.text);
    }
    return DT_OK;
}

/* Checks that --steps is no larger than plans allow, and that no --set gives another length. */
static DtStatus check_length(const DtRunOptions *options)
{
    if (options->steps > DT_PLAN_MAX_BYTES)
        return dt_status_fail(DT_EXIT_USAGE, "--steps can be at most 2^46");
    for (uint32_t i = 0; i < options->n_settings && options->steps >= 0; i++)
        if (strncmp(options->settings[i], "train.steps=", 12) == 0 ||
            strncmp(options->settings[i], "train.epochs=", 13) == 0)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--steps and --set %.60s both say how long the run is: give one",
                                  options->settings[i]);
    return DT_OK;
}

DtStatus dt_settings_apply(const DtRunOptions *options, const DtPlan *plan, DtPlanMeta *ret_meta,
                           DtRunSettings *ret_settings)
{
    DtPlanMeta meta = *plan->meta;
    DtRunSettings *settings = ret_settings;
    DtStatus status = check_length(options);
    if (!dt_status_ok(&status))
        return status;
    settings->n = plan->n_settings;
    memset(settings->given, 0, sizeof settings->given);
    for (uint32_t i = 0; i < plan->n_settings; i++)
        settings->at[i] = (DtFormulaSetting){dt_plan_str(plan, plan->settings[i].name),
                                             plan->settings[i].value};
    for (uint32_t i = 0; i < options->n_settings; i++) {
        status = apply(options->settings[i], plan, &meta, settings);
        if (!dt_status_ok(&status))
            return status;
    }
    if (options->steps >= 0) {
        meta.steps = options->steps;
        meta.epochs = 0;
    }
    if (meta.eval_every > 0 && !has_eval(plan))
        return dt_status_fail(DT_EXIT_USAGE, "eval.every: the plan has no held-out data: write "
                                             "`eval = every(200, data = ...)` in `train`");
    *ret_meta = meta;
    /* a trial takes steps of its own, whose formulas are compared with dtc's */
    const bool is_plans = options->trial || options->eval || dt_run_predicts(options);
    const DtPlanMeta *of = is_plans ? plan->meta : &meta;
    /* a run of 0 steps computes no formula, and a schedule that ends with it would refuse 0 */
    const bool is_assumed = of->epochs > 0 || of->steps == 0;
    const int64_t steps = is_assumed ? DT_PLAN_STEPS_ASSUMED : of->steps;
    return dt_settings_take_steps(plan, steps, settings);
}
