/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of `auto`: the layout that it chose and why not others, or why there is none. */
#include "cli/auto.h"

#include "plan/report/people.h"
#include "plan/report/price.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4 };

/* Returns why the trial's layout cannot be taken: there is no plan, or by how much it does not
 * fit. */
static const char *why_not(const DtAuto *a, const DtTrial *t)
{
    char bytes[32];
    if (t->seconds <= 0)
        return t->why;
    return dt_arena_printf(a->arena, "it does not fit, by %s a rank",
                           dt_people_bytes(bytes, (t->bytes - a->space.memory) / t->larger));
}

/* Reports that no layout was worth a trial: none compiles, or no extents divide. */
static void refuse_all(const DtAuto *a, DtSpan span, const DtSearch *search)
{
    DtDiag *d =
        dt_diag_report(a->cli->diags, E0513, span, "`auto` finds no layout for %lld devices",
                       (long long)a->space.devices);
    for (uint32_t i = 0; i < search->trials.n && i < SHOWN; i++)
        dt_diag_note(d, "tried: %s: %s",
                     dt_layout_say(a->arena, &a->space, &search->trials.at[i].layout),
                     why_not(a, &search->trials.at[i]));
    if (search->trials.n)
        return;
    if (search->why)
        dt_diag_note(d, "of %u that were compiled for their parts none will do; the first: %s",
                     search->n_cards, search->why);
    else if (search->n_layouts)
        dt_diag_note(d,
                     "of %u layouts all have stages, and what one iteration of a loop costs cannot "
                     "be told here",
                     search->n_layouts);
    else
        dt_diag_note(d,
                     "%s = %lld, axes of parameters, positions, experts and iterations of loops do "
                     "not divide over "
                     "so many ranks",
                     a->space.samples.name, (long long)a->space.samples.extent);
}

/* Returns the bytes of the smallest compiled plan, or the smallest estimate if none compiled:
 * compiled plans may have shown that the estimate is too low. */
static double least_bytes(const DtSearch *search)
{
    double bytes = INFINITY;
    for (uint32_t i = 0; i < search->trials.n; i++)
        if (search->trials.at[i].seconds > 0)
            bytes = fmin(bytes, search->trials.at[i].bytes);
    return isfinite(bytes) ? bytes : search->smallest.bytes;
}

/* Adds "take 4 devices at least, larger ones or a smaller model": as many as hold the permanent
 * memory of the model. */
static void help_memory(const DtAuto *a, DtDiag *d, double bytes)
{
    const int64_t least = dt_auto_least(a);
    const char *more = least > a->space.devices
                           ? dt_arena_printf(a->arena, "%lld devices at least", (long long)least)
                           : "more devices";
    dt_diag_help(d, "take %s, larger ones, or a smaller model", more);
    if (bytes > 0 && bytes <= a->space.memory * 0.97 / 0.92)
        dt_diag_help(d, "`auto (memory = 0.97)` uses more of each device than 0.92");
}

static void refuse_memory(const DtAuto *a, DtSpan span, const DtSearch *search)
{
    char need[32], have[32];
    const double bytes = least_bytes(search),
                 state = a->space.parameters * a->space.parameter_bytes;
    dt_people_bytes(have, a->space.memory);
    const bool alike = dt_cost_larger(&a->model, UINT32_MAX) == 1;
    DtDiag *d =
        bytes > 0
            ? dt_diag_report(a->cli->diags, E0701, span,
                             "no layout fits: the smallest needs about %s a rank, of %s",
                             dt_people_bytes(need, bytes), have)
            : dt_diag_report(a->cli->diags, E0701, span,
                             "no layout fits: parameters, gradients and "
                             "optimizer alone are %s, and %lld device%s ha%s %s%s to use",
                             dt_people_bytes(need, state), (long long)a->space.devices,
                             a->space.devices == 1 ? "" : "s", a->space.devices == 1 ? "s" : "ve",
                             have, a->space.devices == 1 ? "" : " each");
    for (uint32_t i = 0; i < search->trials.n && i < SHOWN; i++)
        dt_diag_note(d, "tried: %s: %s",
                     dt_layout_say(a->arena, &a->space, &search->trials.at[i].layout),
                     why_not(a, &search->trials.at[i]));
    if (!search->trials.n && bytes > 0)
        dt_diag_note(d, "that one: %s",
                     dt_layout_say(a->arena, &a->space, &search->smallest_layout));
    if (search->why)
        dt_diag_note(d, "some have no plan; the first: %s", search->why);
    if (!alike)
        dt_diag_note(d, "a rank on a smaller device than the largest counts as much of that one's "
                        "memory as it needs "
                        "of its own");
    help_memory(a, d, bytes);
}

/* Whether memory rules out all layouts: some compile but do not fit, or the smallest estimate is
 * too large already. */
static bool is_too_large(const DtAuto *a, const DtSearch *search)
{
    if (a->space.memory <= 0)
        return false;
    for (uint32_t i = 0; i < search->trials.n; i++)
        if (search->trials.at[i].seconds > 0)
            return true;
    return !search->trials.n && search->n_layouts > 0 &&
           (search->n_cards == 0 || search->smallest.bytes > a->space.memory);
}

int dt_auto_refuse(const DtAuto *a, const DtProgram *program, const DtSearch *search)
{
    const DtSpan span = program->parallel->auto_span;
    const bool too_large = is_too_large(a, search);
    if (too_large)
        refuse_memory(a, span, search);
    else
        refuse_all(a, span, search);
    dt_cli_report(a->cli);
    return too_large ? DT_EXIT_DOES_NOT_FIT : DT_EXIT_DIAGNOSTICS;
}

/* Returns how many seconds more than the best layout the trial spends on one purpose. Waiting for
 * collectives and being slowed down by them count together: layouts trade one for the other. */
static double more_for(const DtTrial *t, const DtTrial *best, int kind)
{
    const double more = t->spent[kind] - best->spent[kind];
    return kind == DT_TIME_SLOWED ? 0
           : kind == DT_TIME_COLLECTIVES
               ? more + t->spent[DT_TIME_SLOWED] - best->spent[DT_TIME_SLOWED]
               : more;
}

/* Adds the purpose on which this layout spends most more time than the best one, by their
 * simulations. */
static void say_more(const DtAuto *a, const DtTrial *t, const DtTrial *best, DtText *text)
{
    char buf[32];
    int most = 0;
    for (int k = 1; k < DT_TIMES; k++)
        most = more_for(t, best, k) > more_for(t, best, most) ? k : most;
    const double recomputed = a->space.remats[t->layout.remat].recomputed -
                              a->space.remats[best->layout.remat].recomputed;
    dt_text_printf(text, ": %s %s more%s\n",
                   most == DT_TIME_COLLECTIVES ? "exposed collectives and what they slow"
                                               : dt_price_times[most].name,
                   dt_people_seconds(buf, more_for(t, best, most)),
                   most == DT_TIME_PRODUCTS && recomputed > 0 ? ", computed again" : "");
}

/* Adds why the best layout was taken and not this one, which needs as little, or so little less
 * that it does not count. */
static void say_alike(const DtTrial *t, const DtTrial *best, double less, const char *alike,
                      DtText *text)
{
    char share[32];
    if (less < 0.0005)
        dt_text_add(text, alike);
    else
        dt_text_printf(text, ", %s less, too little to count", dt_people_share(share, less, 1));
    dt_text_add(text, dt_layout_parts(&best->layout) < dt_layout_parts(&t->layout)
                          ? ", and less simple\n"
                          : "\n");
}

static void say_other(const DtAuto *a, const DtTrial *t, const DtTrial *best, DtText *text)
{
    char buf[32], share[32];
    const double longer = t->seconds / best->seconds - 1, larger = t->bytes / best->bytes - 1;
    dt_text_printf(text, "auto: not %s: ", dt_layout_say(a->arena, &a->space, &t->layout));
    if (t->why) {
        dt_text_printf(text, "%s\n", why_not(a, t));
    } else if (a->space.wants_memory) {
        dt_text_printf(text, "%s a rank", dt_people_bytes(buf, t->bytes / t->larger));
        if (larger < 0.0005)
            say_alike(t, best, -larger, ", as small", text);
        else
            dt_text_printf(text, ", %s more\n", dt_people_share(share, larger, 1));
    } else if (longer < 0.0005) {
        dt_text_printf(text, "%s", dt_people_seconds(buf, t->seconds));
        say_alike(t, best, -longer, ", as fast", text);
    } else {
        dt_text_printf(text, "%s, %s longer", dt_people_seconds(buf, t->seconds),
                       dt_people_share(share, longer, 1));
        say_more(a, t, best, text);
    }
}

static void say_others(const DtAuto *a, const DtSearch *search, DtText *text)
{
    for (uint32_t i = 0, n = 0; i < search->trials.n && n < SHOWN; i++)
        if (!dt_layout_same(&search->trials.at[i].layout, &search->best.layout)) {
            say_other(a, &search->trials.at[i], &search->best, text);
            n++;
        }
}

/* Adds changes of the hardware that would make the chosen layout faster: links, memory. */
static void say_wishes(DtAuto *a, const DtSearch *search, DtText *text)
{
    char seconds[32], bytes[32];
    double links[2];
    static const char *const names[] = {"links inside a node", "network"};
    dt_auto_links(a, &search->best.layout, &links[0], &links[1]);
    for (int i = 0; i < 2; i++)
        if (links[i] > 0 && links[i] < 0.99 * search->best.seconds)
            dt_text_printf(text, "auto: with twice the %s this one takes %s\n", names[i],
                           dt_people_seconds(seconds, links[i]));
    if (search->larger.seconds > 0)
        dt_text_printf(text, "auto: with %s more a rank about %s: %s\n",
                       dt_people_bytes(bytes, search->larger.bytes - a->space.memory),
                       dt_people_seconds(seconds, search->larger.seconds),
                       dt_layout_say(a->arena, &a->space, &search->larger_layout));
}

static void say_text(DtAuto *a, const DtSearch *search, double took)
{
    char s[32], low[32], high[32], bytes[32], have[32], gap[32], time[32];
    const DtTrial *best = &search->best;
    const double largest = a->model.device->memory_bytes * dt_cost_larger(&a->model, 1);
    DtText text = {0};
    dt_text_printf(
        &text,
        "auto: %u layouts; parts of %u compiled, %u priced that may fit, %u simulated, in %s\n",
        search->n_layouts, search->n_cards, search->n_fit, search->trials.n,
        dt_people_seconds(time, took));
    dt_text_add(&text, a->cli->block);
    dt_text_printf(&text, "auto: a step takes %s (%s to %s)", dt_people_seconds(s, best->seconds),
                   dt_people_seconds(low, best->low), dt_people_seconds(high, best->high));
    dt_text_printf(&text, ", a rank %s", dt_people_bytes(bytes, best->bytes / best->larger));
    if (a->space.memory > 0)
        dt_text_printf(&text, " of %s", dt_people_bytes(have, largest / best->larger));
    if (a->space.wants_memory)
        dt_text_add(&text, "\n");
    else if (search->bound <= 0)
        dt_text_add(&text, "; of some layouts no bound is known\n");
    else if (isfinite(search->bound))
        dt_text_printf(&text, "; no layout of these is faster by more than %s\n",
                       dt_people_share(gap, dt_search_gap(search), 1));
    else
        dt_text_add(&text, "; no other that may fit is left\n");
    say_others(a, search, &text);
    if (!a->space.wants_memory)
        say_wishes(a, search, &text);
    fputs(text.at, stderr);
    dt_text_free(&text);
}

/* Returns one trial as a JSON object, for programs that read the search's result. */
static json_t *trial_json(const DtAuto *a, const DtTrial *t)
{
    json_t *object = json_object();
    json_object_set_new(object, "layout",
                        json_string(dt_layout_say(a->arena, &a->space, &t->layout)));
    json_object_set_new(object, "step", t->seconds > 0 ? json_real(t->seconds) : json_null());
    json_object_set_new(object, "estimate", json_real(t->estimate.seconds));
    json_object_set_new(object, "bound", json_real(t->estimate.bound));
    json_object_set_new(object, "estimated_bytes", json_real(t->estimate.bytes));
    json_object_set_new(object, "bytes",
                        t->seconds > 0 ? json_real(t->bytes / t->larger) : json_null());
    json_object_set_new(object, "refused", t->why ? json_string(t->why) : json_null());
    return object;
}

static void say_json(const DtAuto *a, const DtSearch *search, double took)
{
    const DtTrial *best = &search->best;
    json_t *whole = json_object(), *object = trial_json(a, best), *trials = json_array();
    for (uint32_t i = 0; i < search->trials.n; i++)
        json_array_append_new(trials, trial_json(a, &search->trials.at[i]));
    json_object_set_new(object, "block", json_string(a->cli->block));
    json_object_set_new(object, "low", json_real(best->low));
    json_object_set_new(object, "high", json_real(best->high));
    json_object_set_new(object, "devices", json_integer(a->space.devices));
    json_object_set_new(object, "layouts", json_integer(search->n_layouts));
    const bool known = !a->space.wants_memory && search->bound > 0;
    json_object_set_new(object, "gap", known ? json_real(dt_search_gap(search)) : json_null());
    json_object_set_new(object, "seconds", json_real(took));
    json_object_set_new(object, "trials", trials);
    json_object_set_new(whole, "auto", object);
    char *text = json_dumps(whole, JSON_SORT_KEYS | JSON_COMPACT);
    if (text)
        fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(whole);
}

void dt_auto_say(DtAuto *a, const DtSearch *search, double took)
{
    if (a->cli->json)
        say_json(a, search, took);
    else
        say_text(a, search, took);
}
