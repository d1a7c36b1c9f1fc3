/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: which events the trial has, and how the run's state must change with each,
 * apart from the values of tensors. Written from the manual (docs/checkpoints.md, language.md),
 * without sight of the runtime: which losses a step takes, which number an update has, how the loss
 * scale moves, and that an evaluation, a save and a resume leave steps, updates and scale as they
 * were.
 *
 * The script has the first and last steps of the run and of its warm-up, a step that a loss leaves
 * out and one that it takes. After the second step the run is saved and resumed, and all held-out
 * data are evaluated after a further step, before the next. A program with a dynamic loss scale
 * then has a step whose gradients overflow, which changes nothing; one after it, in which the scale
 * must not grow; and one in which it must. */
#include "passes/check/internal.h"

#include <math.h>
#include <string.h>

enum { MOST_NUMBERS = 10, PATIENCE = 2000 /* good updates before the scale grows */ };
static const double overflows = 0x1p60, usual = 1024;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Adds a step's number to `numbers`, which ascend, unless the run has no such step, the number is
 * there already, or the list is full. Returns the new count. */
static uint32_t add_number(const DtTrainConfig *train, double number, int64_t *numbers, uint32_t n)
{
    uint32_t at = 0;
    if (!(number >= 0) || number >= (double)dt_train_steps(train) || n == MOST_NUMBERS)
        return n;
    while (at < n && numbers[at] < (int64_t)number)
        at++;
    if (at < n && numbers[at] == (int64_t)number)
        return n;
    memmove(numbers + at + 1, numbers + at, (n - at) * sizeof *numbers);
    numbers[at] = (int64_t)number;
    return n + 1;
}

static uint32_t choose_numbers(const DtTrainConfig *train, int64_t *ret_numbers)
{
    uint32_t n = add_number(train, 0, ret_numbers, 0);
    n = add_number(train, (double)dt_train_steps(train) - 1, ret_numbers, n);
    n = add_number(train, 1, ret_numbers, n);
    n = add_number(train, 2, ret_numbers, n); /* the step after the resume */
    for (uint32_t i = 0; i < train->objectives.n; i++)
        for (int k = 1; k <= 2 && train->objectives.at[i].every > 1; k++)
            n = add_number(train, (double)train->objectives.at[i].every - k, ret_numbers, n);
    for (int k = 1; k <= 2 && train->replicas.mix != DT_MIX_NONE; k++)
        n = add_number(train, (double)train->replicas.every - k, ret_numbers, n);
    for (uint32_t i = 0; i < train->settings.n; i++)
        for (int k = 0; k <= 1 && ends_with(train->settings.at[i].name, ".warmup"); k++)
            n = add_number(train, train->settings.at[i].value - k, ret_numbers, n);
    return n;
}

/* After which steps the run is saved and resumed, and after which it is evaluated. */
enum { RESUMED = 2, EVALUATED = 3 };

static bool evaluates(const DtTrainConfig *train)
{
    return train->eval_every > 0 && train->eval_readers.n > 0;
}

uint32_t dt_judge_life_script(const DtTrainConfig *train, bool saves, DtJudgeEvent *ret_script)
{
    static const DtJudgeEvent scaled[] = {{.loss_scale = 0x1p60, .good = PATIENCE - 1},
                                          {.loss_scale = 1024, .good = -1},
                                          {.loss_scale = 0, .good = PATIENCE - 1},
                                          {.loss_scale = 0, .good = -1}};
    int64_t numbers[MOST_NUMBERS] = {0};
    const uint32_t steps = choose_numbers(train, numbers);
    uint32_t n = 0;
    for (uint32_t i = 0; i < steps; i++) {
        ret_script[n++] =
            (DtJudgeEvent){.number = numbers[i], .loss_scale = i ? 0 : usual, .good = i ? -1 : 0};
        if (saves && i + 1 == (steps < RESUMED ? steps : RESUMED)) {
            ret_script[n++] = (DtJudgeEvent){.kind = DT_JUDGE_SAVE};
            ret_script[n++] = (DtJudgeEvent){.kind = DT_JUDGE_RESUME};
        }
        if (evaluates(train) && i + 1 == (steps < EVALUATED ? steps : EVALUATED))
            ret_script[n++] = (DtJudgeEvent){.kind = DT_JUDGE_EVALUATE};
    }
    for (uint32_t i = 0; train->precision.dynamic_loss_scale && i < DT_COUNT(scaled); i++) {
        ret_script[n] = scaled[i];
        ret_script[n++].number = dt_train_steps(train) + i;
    }
    return n;
}

void dt_judge_life_next(DtJudgeLife *life, const DtJudgeEvent *event)
{
    const bool follows = life->began && event->number == life->number + 1;
    life->taken = 0;
    if (event->kind != DT_JUDGE_TRAIN)
        return;
    for (uint32_t i = 0; !follows && i < life->train->objectives.n; i++)
        life->updates[i] =
            event->number / (life->is_life ? life->train->objectives.at[i].every : 1);
    life->began = true;
    life->number = event->number;
    life->loss_scale = event->loss_scale > 0 ? event->loss_scale : life->loss_scale;
    life->good = event->good >= 0 ? event->good : life->good;
    for (uint32_t i = 0; i < life->train->objectives.n; i++)
        if (!life->is_life || (event->number + 1) % life->train->objectives.at[i].every == 0)
            life->taken |= 1u << i;
}

static void update(DtJudgeLife *life, uint32_t objective, bool skipped)
{
    if (skipped) {
        life->loss_scale /= 2;
        life->good = 0;
        return;
    }
    life->updates[objective]++;
    if (++life->good < PATIENCE)
        return;
    life->good = 0;
    life->loss_scale *= life->loss_scale < overflows ? 2 : 1;
}

/* Returns how the reported numbers of finished steps and updates differ from the expected ones;
 * NULL if they do not. */
static const char *counts_went(const DtJudgeLife *life, DtArena *arena, const DtJudgeEvent *event)
{
    if (event->steps_after != life->number + 1)
        return dt_arena_printf(arena, "leaves a run of %lld steps; it should be %lld",
                               (long long)event->steps_after, (long long)life->number + 1);
    for (uint32_t i = 0; i < life->train->objectives.n; i++)
        if (event->updates_after[i] != life->updates[i])
            return dt_arena_printf(
                arena, "leaves %lld updates of `%s`; it should be %lld",
                (long long)event->updates_after[i], life->train->objectives.at[i].loss,
                (long long)life->updates[i]);
    return NULL;
}

const char *dt_judge_life_went(DtJudgeLife *life, DtArena *arena, const DtJudgeEvent *event)
{
    const bool scales = life->train->precision.dynamic_loss_scale;
    const bool must_skip = scales && life->train->precision.compute == DT_F16 && life->taken;
    const double scale = life->loss_scale;
    if (event->taken != life->taken)
        return dt_arena_printf(arena, "takes other losses than their `every` says");
    if (event->skipped && (!scales || scale < overflows))
        return dt_arena_printf(arena, "is skipped, with a loss scale of %g", scale);
    if (!event->skipped && must_skip && scale >= overflows)
        return dt_arena_printf(arena, "is not skipped, though a loss scale of %g overflows f16",
                               scale);
    for (uint32_t i = 0; i < life->train->objectives.n; i++)
        if (life->taken >> i & 1)
            update(life, i, event->skipped >> i & 1);
    if (!life->began)
        return NULL;
    if (scales && (event->loss_scale_after != life->loss_scale || event->good_after != life->good))
        return dt_arena_printf(
            arena,
            "begins with a loss scale of %g and leaves one of %g after %lld good updates; "
            "it should be %g after %lld",
            scale, event->loss_scale_after, (long long)event->good_after, life->loss_scale,
            (long long)life->good);
    return counts_went(life, arena, event);
}
