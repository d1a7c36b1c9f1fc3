/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the plan that a run may change without compiling: --steps, and --set block.key=value.
 */
#include "runtime/runtime.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Where { COUNT_META, COUNT_TRAIN, REAL_TRAIN } Where;

/* A key and where the number lies that it sets: a count of META or TRAN, or a double of TRAN. */
typedef struct Setting {
    const char *key;
    Where where;
    size_t offset;
} Setting;

static const Setting settings[] = {
    {"train.steps", COUNT_META, offsetof(DtPlanMeta, steps)},
    {"eval.every", COUNT_META, offsetof(DtPlanMeta, eval_every)},
    {"eval.steps", COUNT_META, offsetof(DtPlanMeta, eval_steps)},
    {"save.every", COUNT_META, offsetof(DtPlanMeta, save_every)},
    {"save.keep", COUNT_META, offsetof(DtPlanMeta, save_keep)},
    {"lr.base", REAL_TRAIN, offsetof(DtPlanTrain, base)},
    {"lr.floor", REAL_TRAIN, offsetof(DtPlanTrain, floor)},
    {"lr.factor", REAL_TRAIN, offsetof(DtPlanTrain, factor)},
    {"lr.warmup", COUNT_TRAIN, offsetof(DtPlanTrain, warmup)},
    {"lr.total", COUNT_TRAIN, offsetof(DtPlanTrain, total)},
    {"lr.every", COUNT_TRAIN, offsetof(DtPlanTrain, every)},
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
    if (end == text || *end || errno || count < 0)
        return dt_status_fail(DT_EXIT_USAGE, "--set %s: `%.60s` is no count", setting->key, text);
    memcpy(base + setting->offset, &count, sizeof count);
    return DT_OK;
}

static DtStatus apply(const char *text, DtPlanMeta *meta, DtPlanTrain *train)
{
    char key[100];
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals - text >= (ptrdiff_t)sizeof key)
        return dt_status_fail(DT_EXIT_USAGE, "--set wants block.key=value, not `%.60s`", text);
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    for (size_t i = 0; i < DT_COUNT(settings); i++)
        if (strcmp(settings[i].key, key) == 0)
            return set(&settings[i], equals + 1, meta, train);
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
    if (options->steps >= 0)
        meta.steps = options->steps;
    if (train.schedule == DT_PLAN_LR_STEP_DECAY && train.every == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--set lr.every: the learning rate cannot decay every 0 steps");
    *ret_meta = meta;
    *ret_train = train;
    return DT_OK;
}
