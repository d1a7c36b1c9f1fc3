/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning by magnitude: in groups (Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021:
 * of four neighbours along the axis that a product sums, two stay), or over a whole tensor (Han et
 * al., "Learning both Weights and Connections", 2015). Every rank reads the whole tensor from the
 * mapped checkpoint and decides for the elements that it holds, so the result does not depend on
 * the layout. */
#include "runtime/prune.h"

#include "base/half.h"
#include "plan/kinds.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NEIGHBOURS = 32 };

/* ---- the option ---- */

/* PATTERN=KEPT:OF, PATTERN=KEPT:OF/AXIS, or PATTERN=SHARE% */
typedef struct Option {
    const char *text;
    int pattern; /* length */
    DtPrune prune;
    const char *axis; /* NULL: the tensor's first one */
} Option;

static DtStatus no_option(const char *text)
{
    return dt_status_fail(DT_EXIT_USAGE,
                          "--prune takes PATTERN=2:4, PATTERN=2:4/AXIS or PATTERN=50%%, not "
                          "`%.100s`",
                          text);
}

static DtStatus read_option(const char *text, Option *ret_option)
{
    const char *what = strrchr(text, '=');
    char *end;
    *ret_option = (Option){.text = text};
    if (what == NULL || what == text)
        return no_option(text);
    ret_option->pattern = (int)(what++ - text);
    DtPrune *prune = &ret_option->prune;
    const double number = strtod(what, &end);
    if (end == what)
        return no_option(text);
    if (strcmp(end, "%") == 0) {
        prune->share = number / 100;
        return number > 0 && number < 100
                   ? DT_OK
                   : dt_status_fail(DT_EXIT_USAGE,
                                    "--prune %.100s: more than 0 %% and less than 100", text);
    }
    prune->kept = strtoll(what, &end, 10);
    if (end == what || *end != ':')
        return no_option(text);
    what = end + 1;
    prune->of = strtoll(what, &end, 10);
    if (end == what || (*end && *end != '/') || (*end == '/' && !end[1]))
        return no_option(text);
    ret_option->axis = *end == '/' ? end + 1 : NULL;
    if (prune->kept < 1 || prune->kept >= prune->of || prune->of > MOST_NEIGHBOURS)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--prune %.100s: of at most %d neighbours, at least one and not all "
                              "can stay",
                              text, MOST_NEIGHBOURS);
    return DT_OK;
}

DtStatus dt_prune_check(const char *option)
{
    Option read;
    return read_option(option, &read);
}

/* ---- the tensors ---- */

static bool matches(const Option *option, const char *name)
{
    char pattern[512];
    if (option->pattern >= (int)sizeof pattern)
        return false;
    snprintf(pattern, sizeof pattern, "%.*s", option->pattern, option->text);
    return fnmatch(pattern, name, FNM_NOESCAPE) == 0;
}

/* Finds the axis along which neighbours are compared. */
static DtStatus find_axis(const DtPlan *plan, const Option *option, const DtPlanStore *store,
                          const DtTensor *tensor, DtPrune *ret_prune)
{
    const DtPlanAxis *axes = &plan->axes[store->first_axis + store->n_loops];
    uint32_t at = 0;
    while (option->axis && at < tensor->n_axes &&
           strcmp(dt_plan_str(plan, axes[at].name), option->axis) != 0)
        at++;
    if (at >= tensor->n_axes)
        return dt_status_fail(DT_EXIT_USAGE, "--prune %.100s: `%.100s` has no axis%s%.60s",
                              option->text, tensor->name, option->axis ? " " : "",
                              option->axis ? option->axis : "");
    ret_prune->extent = tensor->extents[at];
    ret_prune->stride = 1;
    for (uint32_t a = at + 1; a < tensor->n_axes; a++)
        ret_prune->stride *= tensor->extents[a];
    if (ret_prune->extent % ret_prune->of == 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_USAGE,
                          "--prune %.100s: axis %.60s of `%.100s` has %lld elements, no multiple "
                          "of %lld; /AXIS names another one",
                          option->text, dt_plan_str(plan, axes[at].name), tensor->name,
                          (long long)ret_prune->extent, (long long)ret_prune->of);
}

/* What a pattern matches: tensors; those that are of copies, and the path of the first of these;
 * the path of a copy that has the tensor of its original. */
typedef struct Matched {
    uint32_t n, n_copies;
    const char *copy, *renamed;
} Matched;

static void count_match(const DtPlan *plan, Matched *matched, const DtTensor *tensor,
                        const DtPlanStore *store, bool originals)
{
    if (store->kind == DT_PLAN_AVERAGE && !dt_wanted_is_mean(plan, store))
        return; /* of a parameter that is counted */
    matched->n++;
    if (store->copy > 0 && matched->n_copies++ == 0)
        matched->copy = tensor->name - (originals ? store->copy : 0);
}

static DtStatus check_matched(const DtWanted *wanted, const Option *option, const Matched *matched)
{
    if (matched->n == 0 && matched->renamed)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--prune %.100s: `%.100s` is a copy, which begins with the value of "
                              "its original: name that, and the copy is pruned, too",
                              option->text, matched->renamed);
    if (matched->n == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--prune %.100s: no parameter of the plan has a path that matches "
                              "(`dtc --params` lists them)",
                              option->text);
    if (matched->n_copies == 0 || wanted->rank->rank != 0)
        return DT_OK;
    DtText note = {0};
    dt_text_printf(&note,
                   "dtrun: note: --prune %s prunes %u tensor%s, of which %u %s of copies (the "
                   "first: `%s`)",
                   option->text, matched->n, matched->n == 1 ? "" : "s", matched->n_copies,
                   matched->n_copies == 1 ? "is" : "are", matched->copy);
    dt_text_say(stderr, note.at);
    dt_text_free(&note);
    return DT_OK;
}

static DtStatus prune_by(DtArena *memory, const Option *option, const DtWanted *wanted,
                         bool originals, DtPrune **prunes)
{
    Matched matched = {0};
    for (uint32_t i = 0; i < wanted->n; i++) {
        const DtTensor *tensor = &wanted->tensors[i];
        const DtPlanStore *store = wanted->homes[i].store;
        if (store->kind == DT_PLAN_STATE || !dt_kinds_is_float(tensor->dtype))
            continue;
        if (originals && store->copy > 0 && matches(option, tensor->name - store->copy))
            matched.renamed = tensor->name - store->copy;
        if (!matches(option, tensor->name))
            continue;
        count_match(wanted->rank->plan, &matched, tensor, store, originals);
        prunes[i] = DT_NEW(memory, DtPrune);
        *prunes[i] = option->prune;
        DtStatus status = option->prune.of
                              ? find_axis(wanted->rank->plan, option, store, tensor, prunes[i])
                              : DT_OK;
        if (!dt_status_ok(&status))
            return status;
    }
    return check_matched(wanted, option, &matched);
}

DtStatus dt_prune_list(DtArena *memory, const DtRunOptions *options, const DtWanted *wanted,
                       bool originals, DtPrune ***ret_prunes)
{
    *ret_prunes = DT_NEW_ARRAY(memory, DtPrune *, wanted->n + 1);
    for (uint32_t p = 0; options && p < options->n_prune; p++) {
        Option option;
        DtStatus status = read_option(options->prune[p], &option);
        if (dt_status_ok(&status))
            status = prune_by(memory, &option, wanted, originals, *ret_prunes);
        if (!dt_status_ok(&status))
            return status;
    }
    return DT_OK;
}

/* ---- the elements ---- */

/* The magnitude of an element as the bits of an f32: they are ordered as the magnitudes are. */
static uint32_t magnitude(const DtTensor *tensor, int64_t i)
{
    const uint16_t *half = (const void *)tensor->at;
    const float *whole = (const void *)tensor->at;
    const float x = tensor->dtype == DT_PLAN_F32    ? whole[i]
                    : tensor->dtype == DT_PLAN_BF16 ? dt_half_from_bf16(half[i])
                                                    : dt_half_from_f16(half[i]);
    return dt_half_bits_of_float(x) & 0x7fffffff;
}

/* Returns the element whose magnitude has rank number `rank` (0: the smallest), in two rounds: the
 * upper 16 bits, then the lower ones of those elements that have these. */
static uint32_t of_rank(const DtTensor *tensor, int64_t n, int64_t rank)
{
    static _Thread_local int64_t counts[1 << 16];
    uint32_t upper = 0;
    for (int round = 0;; round++) {
        uint32_t at = 0;
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++) {
            const uint32_t bits = magnitude(tensor, i);
            if (round == 0)
                counts[bits >> 16]++;
            else if (bits >> 16 == upper)
                counts[bits & 0xffff]++;
        }
        while (rank >= counts[at])
            rank -= counts[at++];
        if (round == 1)
            return upper << 16 | at;
        upper = at;
    }
}

void dt_prune_measure(DtPrune *prune, const DtTensor *tensor)
{
    const int64_t n = tensor->bytes / dt_kinds_size(tensor->dtype);
    if (prune->of == 0 && n > 0)
        prune->least = of_rank(tensor, n, (int64_t)floor(prune->share * (double)n));
}

/* Whether the element is among the `kept` largest of its neighbours. */
static bool stays(const DtPrune *prune, const DtTensor *tensor, int64_t i)
{
    const int64_t place = i / prune->stride % prune->extent % prune->of;
    const int64_t first = i - place * prune->stride;
    const uint32_t mine = magnitude(tensor, i);
    int64_t larger = 0;
    for (int64_t k = 0; k < prune->of; k++) {
        const uint32_t other = magnitude(tensor, first + k * prune->stride);
        larger += other > mine || (other == mine && k < place);
    }
    return larger < prune->kept;
}

void dt_prune_piece(const DtPrune *prune, const DtTensor *tensor, DtPiece piece, void *values,
                    DtPlanDtype dtype)
{
    const size_t e = (size_t)dt_kinds_size(dtype);
    for (int64_t i = 0; i < piece.n; i++) {
        const int64_t at = piece.first + i;
        if (!(prune->of ? stays(prune, tensor, at) : magnitude(tensor, at) >= prune->least))
            memset((char *)values + (size_t)i * e, 0, e);
    }
}
