/* SPDX-License-Identifier: Apache-2.0 */
/* A loss per valid label is 0 / 0 if no label is valid. The plan does not say which values of an
 * input count as valid. But two kinds of data without any valid value are easy to recognise: every
 * integer is outside of the axis that the input indexes (for example, all labels are -1), or many
 * values of the input are all equal (a mask of zeros). When a loss is not a number, the rank that
 * fails reads the samples again to find such an input. */
#include "runtime/idle_inputs.h"

#include "plan/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 16, MOST_SAMPLES = 1 << 16, MANY = 8 };

/* The values of an input that have been read so far. */
typedef struct Seen {
    char *row;
    int64_t bytes; /* bytes of the row */
    char first[8]; /* the first value of the row */
    int64_t n;     /* number of values */
    bool all_outside, all_same;
} Seen;

static void look(const DtPlanInput *input, Seen *seen, bool is_first_row)
{
    const int64_t width = dt_kinds_size(input->dtype);
    if (is_first_row)
        memcpy(seen->first, seen->row, (size_t)width);
    seen->n += seen->bytes / width;
    for (int64_t at = 0; at < seen->bytes; at += width) {
        int32_t value = 0;
        if (input->dtype == DT_PLAN_I32)
            memcpy(&value, seen->row + at, sizeof value);
        seen->all_same = seen->all_same && memcmp(seen->row + at, seen->first, (size_t)width) == 0;
        seen->all_outside = seen->all_outside && (value < 0 || value >= input->extent);
    }
}

static void explain(const DtPlan *plan, const DtPlanInput *input, const Seen *seen,
                    const char *where, DtText *ret_why)
{
    const char *name = dt_plan_str(plan, input->name);
    int32_t value = 0;
    memcpy(&value, seen->first, sizeof value);
    dt_text_printf(ret_why, ": ");
    if (seen->all_outside && !seen->all_same)
        dt_text_printf(ret_why, "every value of `%s` in %s lies outside `%s` of %lld", name, where,
                       dt_plan_str(plan, input->indexed), (long long)input->extent);
    else if (input->dtype == DT_PLAN_I32)
        dt_text_printf(ret_why, "every value of `%s` in %s is %d", name, where, value);
    else
        dt_text_printf(ret_why, "all values of `%s` in %s are the same", name, where);
    dt_text_printf(
        ret_why,
        ", so the loss may divide by a count of 0: look at the data of `%s`, and at which of its "
        "values the program leaves out",
        name);
}

/* Reads the samples with the rank's reader. False: they cannot be read. */
static bool look_at(DtRank *rank, uint32_t number, int64_t first, int64_t n, Seen *seen)
{
    const DtPlan *plan = rank->plan;
    const DtPlanReader *reader = &plan->readers[number];
    char *rows[MOST_INPUTS];
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        rows[i] = seen[i].row;
    for (int64_t k = 0; k < n; k++) {
        const DtStatus status = dt_data_read(rank->readers[number], (first + k) / plan->meta->batch,
                                             (first + k) % plan->meta->batch, 1, rows);
        if (!dt_status_ok(&status))
            return false;
        for (uint32_t i = 0; i < reader->n_inputs; i++)
            look(&plan->inputs[reader->first_input + i], &seen[i], k == 0);
    }
    return true;
}

static void look_through(DtRank *rank, uint32_t number, const char *where, int64_t first, int64_t n,
                         DtText *ret_why)
{
    const DtPlan *plan = rank->plan;
    const DtPlanReader *reader = &plan->readers[number];
    const DtPlanInput *inputs = &plan->inputs[reader->first_input];
    Seen seen[MOST_INPUTS] = {0};
    bool ok = reader->n_inputs <= MOST_INPUTS;
    for (uint32_t i = 0; ok && i < reader->n_inputs; i++) {
        const int64_t bytes = inputs[i].row_elements * dt_kinds_size(inputs[i].dtype);
        const bool indexes = inputs[i].dtype == DT_PLAN_I32 && inputs[i].extent > 0;
        seen[i] = (Seen){.row = malloc((size_t)bytes + 1),
                         .bytes = bytes,
                         .all_same = true,
                         .all_outside = indexes};
        ok = seen[i].row != NULL;
    }
    ok = ok && look_at(rank, number, first, n, seen);
    for (uint32_t i = 0; i < reader->n_inputs && i < MOST_INPUTS; i++) {
        if (ok && ret_why->len == 0 &&
            (seen[i].all_outside || (seen[i].all_same && seen[i].n >= MANY)))
            explain(plan, &inputs[i], &seen[i], where, ret_why);
        free(seen[i].row);
    }
}

void dt_idle_inputs(DtRank *rank, bool is_eval, int64_t first, int64_t n, DtText *ret_why)
{
    const DtPlan *plan = rank->plan;
    char where[80] = "this batch";
    if (is_eval && n > MOST_SAMPLES)
        snprintf(where, sizeof where, "the first %d samples of the held-out data", MOST_SAMPLES);
    else if (is_eval)
        snprintf(where, sizeof where, "the held-out data");
    n = n < MOST_SAMPLES ? n : MOST_SAMPLES;
    for (uint32_t i = 0; i < plan->n_readers && n > 0; i++) {
        if ((bool)plan->readers[i].is_eval != is_eval || plan->readers[i].part > 1)
            continue;
        DtStatus status = DT_OK;
        if (!rank->readers[i])
            status = dt_data_open_block(rank->options, plan, is_eval, rank->readers);
        if (dt_status_ok(&status))
            look_through(rank, i, where, first, n, ret_why);
    }
}
