/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the plan that a run may change without compiling: --steps, and --set block.key=value.
 */
#include "runtime/runtime.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Where { COUNT_META, COUNT_TRAIN, REAL_TRAIN } Where;

/* A key and where the number lies that it sets: a count of META or TRAN, or a double of TRAN. schedules: bits of the
 * learning rates that depend on it. */
typedef struct Setting {
    const char *key;
    Where where;
    size_t offset;
    uint32_t schedules;
} Setting;

enum {
    COSINE = 1 << DT_PLAN_LR_WARMUP_COSINE,
    LINEAR = 1 << DT_PLAN_LR_WARMUP_LINEAR,
    DECAY = 1 << DT_PLAN_LR_STEP_DECAY,
    INVERSE = 1 << DT_PLAN_LR_INVERSE_SQRT,
    ANY = 1 << DT_PLAN_LR_CONSTANT | COSINE | LINEAR | DECAY | INVERSE
};

static const Setting settings[] = {
    {"train.steps", COUNT_META, offsetof(DtPlanMeta, steps), ANY},
    {"eval.every", COUNT_META, offsetof(DtPlanMeta, eval_every), ANY},
    {"eval.steps", COUNT_META, offsetof(DtPlanMeta, eval_steps), ANY},
    {"save.every", COUNT_META, offsetof(DtPlanMeta, save_every), ANY},
    {"save.keep", COUNT_META, offsetof(DtPlanMeta, save_keep), ANY},
    {"lr.base", REAL_TRAIN, offsetof(DtPlanTrain, base), ANY},
    {"lr.floor", REAL_TRAIN, offsetof(DtPlanTrain, floor), COSINE | LINEAR},
    {"lr.factor", REAL_TRAIN, offsetof(DtPlanTrain, factor), DECAY},
    {"lr.warmup", COUNT_TRAIN, offsetof(DtPlanTrain, warmup), COSINE | LINEAR | INVERSE},
    {"lr.total", COUNT_TRAIN, offsetof(DtPlanTrain, total), COSINE | LINEAR},
    {"lr.every", COUNT_TRAIN, offsetof(DtPlanTrain, every), DECAY},
};

static DtStatus unknown_key(const char *key)
{
    const char *keys[DT_COUNT(settings)];
    DtText list = {0};
    for (size_t i = 0; i < DT_COUNT(settings); i++) {
        keys[i] = settings[i].key;
        dt_text_printf(&list, "%s%s", i ? ", " : "", settings[i].key);
    }
    const char *nearest = dt_text_nearest(key, keys, DT_COUNT(settings));
    DtStatus status =
        nearest ? dt_status_fail(DT_EXIT_USAGE, "--set: no key `%.60s`; did you mean `%s`?", key,
                                 nearest)
                : dt_status_fail(
                      DT_EXIT_USAGE,
                      "--set: no key `%.60s`; there are %.300s. Everything else is fixed when "
                      "the plan is compiled",
                      key, list.at);
    dt_text_free(&list);
    return status;
}

static DtStatus set(const Setting *setting, const char *text, DtPlanMeta *meta, DtPlanTrain *train)
{
    char *end, *base = setting->where == COUNT_META ? (char *)meta : (char *)train;
    errno = 0;
    if (setting->where == REAL_TRAIN) {
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            return dt_status_fail(DT_EXIT_USAGE, "--set %s: `%.60s` is no number", setting->key,
                                  text);
        memcpy(base + setting->offset, &value, sizeof value);
        return DT_OK;
    }
    int64_t count = strtoll(text, &end, 10);
    if (end == text || *end || errno || count < 0 || count > DT_PLAN_MAX_BYTES)
        return dt_status_fail(DT_EXIT_USAGE, "--set %s: `%.60s` is no count", setting->key, text);
    memcpy(base + setting->offset, &count, sizeof count);
    return DT_OK;
}

static bool has_eval(const DtPlan *plan)
{
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (plan->readers[i].is_eval)
            return true;
    return false;
}

static DtStatus apply(const char *text, DtPlanMeta *meta, DtPlanTrain *train)
{
    char key[100];
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals - text >= (ptrdiff_t)sizeof key)
        return dt_status_fail(DT_EXIT_USAGE, "--set wants block.key=value, not `%.60s`", text);
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    for (size_t i = 0; i < DT_COUNT(settings); i++) {
        if (strcmp(settings[i].key, key) != 0)
            continue;
        if (!(settings[i].schedules >> train->schedule & 1))
            return dt_status_fail(DT_EXIT_USAGE, "--set %s: the learning rate of this plan does not depend on it",
                                  key);
        return set(&settings[i], equals + 1, meta, train);
    }
    return unknown_key(key);
}

DtStatus dt_settings_apply(const DtRunOptions *options, const DtPlan *plan, DtPlanMeta *ret_meta,
                           DtPlanTrain *ret_train)
{
    DtPlanMeta meta = *plan->meta;
    DtPlanTrain train = plan->n_train ? plan->train[0] : (DtPlanTrain){0};
    for (uint32_t i = 0; i < options->n_settings; i++) {
        DtStatus status = apply(options->settings[i], &meta, &train);
        if (!dt_status_ok(&status))
            return status;
    }
    if (options->steps > DT_PLAN_MAX_BYTES)
        return dt_status_fail(DT_EXIT_USAGE, "--steps can be at most 2^46");
    if (options->steps >= 0)
        meta.steps = options->steps;
    if (train.schedule == DT_PLAN_LR_STEP_DECAY && train.every == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--set lr.every: the learning rate cannot decay every 0 steps");
    if (meta.eval_every > 0 && !has_eval(plan))
        return dt_status_fail(DT_EXIT_USAGE, "eval.every: the plan has no held-out data: write "
                                             "`eval = every(200, data = ...)` in `train`");
    *ret_meta = meta;
    *ret_train = train;
    return DT_OK;
}
