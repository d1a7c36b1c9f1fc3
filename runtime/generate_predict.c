/* SPDX-License-Identifier: Apache-2.0 */
/* Logits of next tokens by the entry "predict", with the shapes of the plan: each step runs the
 * model over the whole window of every row, so nothing is kept between steps, and a row may begin
 * another text at any time. When a text is longer than the window, the window has its last tokens.
 *
 * A row is on the ranks that have its part of the batch. The first of them, on the stage that
 * computes the result, gives its logits. If ranks have parts of the vocabulary, all parts are
 * brought together as a sum: of ranks that have the same elements only the first contributes, the
 * others have zeros. The sum is one of integers, over the bits of the logits, so that it is exact.
 */
#include "runtime/data.h"
#include "runtime/device.h"
#include "runtime/generate.h"
#include "runtime/predict.h"
#include "runtime/predict_files.h"
#include "runtime/rank.h"
#include "runtime/reduce.h"

#include <string.h>

typedef struct Predict {
    const DtPlanMetric *output; /* logits: the input's axes and the vocabulary's, in any order */
    const DtPlanAxis *batch, *vocab;                   /* of the output */
    int64_t row_stride, position_stride, vocab_stride; /* elements of the output */
    int64_t steps;
    /* of a rank: */
    int32_t *values; /* of an input */
    float *logits;   /* [n_rows, vocab], and one more: pairs of them are added as integers */
} Predict;

/* ---- what the plan has ---- */

DtStatus dt_generatepredict_input(const DtPlan *plan, DtNext *ret_next)
{
    DtNext *next = ret_next;
    for (uint32_t i = 0; i < plan->n_readers && next->input == NULL; i++)
        if (!plan->readers[i].is_eval) {
            next->input =
                dt_predictfiles_input(plan, &plan->inputs[plan->readers[i].first_input]);
            next->reader = i;
        }
    if (next->input == NULL || next->input->n_axes != 2 || next->input->dtype != DT_PLAN_I32)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--generate needs a model whose first input is i32[batch, seq]");
    const DtPlanAxis *axis = &plan->axes[next->input->first_axis + 1];
    if (axis->local != axis->extent)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--generate needs axis `%s` whole on each rank; this plan splits it",
                              dt_plan_str(plan, axis->name));
    next->plan = plan;
    next->window = axis->local;
    next->n_rows = dt_predictfiles_pass(plan, next->input);
    return DT_OK;
}

/* The input that holds what `chat` says of each position besides the token: the number of its
 * document (2), or its place there (3). NULL: the data have none. */
static const DtPlanInput *chat_input(const DtNext *next, uint32_t number)
{
    const DtPlanReader *reader = &next->plan->readers[next->reader];
    return reader->sample == DT_PLAN_SAMPLE_CHAT && number < reader->n_inputs
               ? dt_predictfiles_input(next->plan,
                                       &next->plan->inputs[reader->first_input + number])
               : NULL;
}

/* Fails if the model reads an input that a prompt does not fill. */
static DtStatus check_inputs(const DtNext *next)
{
    const DtPlan *plan = next->plan;
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        bool filled = plan->inputs[i].name == next->input->name;
        for (uint32_t c = 2; c < 4; c++)
            filled |= chat_input(next, c) && plan->inputs[i].name == chat_input(next, c)->name;
        if (!filled && dt_predictfiles_reads(plan, &plan->inputs[i]))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--generate: the model also reads `%.60s`, which a prompt does "
                                  "not have",
                                  dt_predictfiles_name(plan, &plan->inputs[i]));
    }
    return DT_OK;
}

/* Checks that the prediction has the two axes of the input and one more. */
static DtStatus find_output(DtNext *next, Predict *p)
{
    const DtPlan *plan = next->plan;
    const DtPlanAxis *in = plan->axes + next->input->first_axis;
    p->output = dt_exec_metric(plan, "predict", NULL);
    if (p->output == NULL || p->output->n_axes != 3 ||
        !dt_kinds_is_float(p->output->dtype) || p->output->dtype == DT_PLAN_F64)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--generate needs a model whose result is [batch, seq, vocab], of "
                              "f32, bf16 or f16");
    const DtPlanAxis *out = plan->axes + p->output->first_axis;
    int64_t stride = 1;
    for (uint32_t a = 3; a-- > 0; stride *= out[a].local) {
        const bool is_batch = out[a].name == in[0].name;
        if (out[a].name == in[1].name && out[a].local < out[a].extent)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--generate needs axis `%s` whole on each rank; this plan splits "
                                  "it",
                                  dt_plan_str(plan, out[a].name));
        if (is_batch) {
            p->batch = &out[a];
            p->row_stride = stride;
        } else if (out[a].name == in[1].name)
            p->position_stride = stride;
        else {
            next->vocab = out[a].extent;
            p->vocab = &out[a];
            p->vocab_stride = stride;
        }
    }
    if (next->vocab == 0 || p->position_stride == 0 || p->row_stride == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--generate needs a model whose result is [batch, seq, vocab]");
    return DT_OK;
}

static DtStatus open(DtArena *memory, const DtPlan *plan, DtNext *ret_next)
{
    Predict *p = DT_NEW(memory, Predict);
    *ret_next = (DtNext){.ops = &dt_generatepredict_ops, .state = p};
    DtStatus status = dt_generatepredict_input(plan, ret_next);
    if (dt_status_ok(&status))
        status = check_inputs(ret_next);
    return dt_status_ok(&status) ? find_output(ret_next, p) : status;
}

/* ---- a step ---- */

static bool begin(DtNext *next, DtNextRow *rows)
{
    Predict *p = next->state;
    (void)rows;
    if (p->logits)
        return true;
    if (!dt_exec_has(next->rank, "predict"))
        return dt_rank_fail(next->rank, DT_EXIT_USAGE, "the plan has no entry `predict`");
    const int64_t local = next->plan->axes[next->input->first_axis].local;
    p->values = DT_NEW_ARRAY(next->rank->memory, int32_t, local * next->window);
    p->logits = DT_NEW_ARRAY(next->rank->memory, float, next->n_rows * next->vocab + 1);
    return true;
}

/* The value of an input at a position of a row: of the token ids (0), of the documents' numbers (2)
 * or of the places in them (3). */
static int32_t value_at(const DtNext *next, uint32_t number, const DtNextRow *row, int64_t at)
{
    const int64_t n = row && row->tokens ? row->n : 0;
    const int64_t used = n < next->window ? n : next->window;
    if (number == 0)
        return at < used ? (int32_t)row->tokens[n - used + at] : 0;
    return number == 2 ? (at < used ? 0 : -1) : at < used ? (int32_t)at : 0;
}

/* Fills this rank's part of an input. */
static void write_input(const DtNext *next, const DtNextRow *rows, uint32_t number,
                        const DtPlanInput *input)
{
    Predict *p = next->state;
    DtRank *rank = next->rank;
    const DtPlanAxis *axis = &next->plan->axes[input->first_axis];
    const int64_t start = dt_rank_axis_start(next->plan, rank->coord, axis);
    const int64_t bytes = axis->local * next->window * (int64_t)sizeof *p->values;
    for (int64_t r = 0; r < axis->local; r++)
        for (int64_t at = 0; at < next->window; at++)
            p->values[r * next->window + at] =
                value_at(next, number, start + r < next->n_rows ? &rows[start + r] : NULL, at);
    dt_device_put(rank, dt_device_place(rank, input->arena, input->offset, bytes), p->values,
                  bytes);
}

/* Copies the logits after the last token of a row that this rank has: its part of the vocabulary,
 * to their places among all. local: the row's number here. */
static void copy_logits(const DtNext *next, const DtNextRow *row, int64_t local, float *logits)
{
    const Predict *p = next->state;
    const int64_t start = dt_rank_axis_start(next->plan, next->rank->coord, p->vocab);
    const int64_t left = next->vocab - start, n = left < p->vocab->local ? left : p->vocab->local;
    const int64_t e = dt_kinds_size(p->output->dtype), span = ((n - 1) * p->vocab_stride + 1) * e;
    const int64_t last = (row->n < next->window ? row->n : next->window) - 1;
    const int64_t first =
        p->output->offset + (local * p->row_stride + last * p->position_stride) * e;
    if (n <= 0)
        return;
    DtLent lent =
        dt_device_lend(next->rank, dt_device_place(next->rank, p->output->arena, first, span));
    for (int64_t v = 0; v < n; v++) {
        const char *from = lent.at + v * p->vocab_stride * e;
        if (p->output->dtype == DT_PLAN_F32)
            memcpy(&logits[start + v], from, sizeof *logits);
        else
            dt_reduce_widen(p->output->dtype, &logits[start + v],
                            (const uint16_t *)(const void *)from, 1);
    }
    dt_device_back(next->rank, &lent, false);
}

/* Brings the logits of rows that are ready to the ranks that choose. */
static bool read_logits(DtNext *next, DtNextRow *rows)
{
    Predict *p = next->state;
    DtRank *rank = next->rank;
    const int64_t start = dt_rank_axis_start(next->plan, rank->coord, p->batch);
    const bool gives = dt_predict_gives(rank, p->output);
    const bool is_spread = p->vocab->local < p->vocab->extent;
    if (is_spread)
        memset(p->logits, 0, (size_t)(next->n_rows * next->vocab + 1) * sizeof *p->logits);
    for (int64_t r = 0; r < next->n_rows; r++) {
        const bool here = gives && rows[r].ready && r >= start && r < start + p->batch->local;
        float *logits = p->logits + r * next->vocab;
        if (here)
            copy_logits(next, &rows[r], r - start, logits);
        rows[r].logits = is_spread ? (rank->rank == 0 && rows[r].ready ? logits : NULL)
                         : here    ? logits
                                   : NULL;
    }
    return !is_spread ||
           dt_rank_add_up(rank, (int64_t *)(void *)p->logits, (next->n_rows * next->vocab + 1) / 2);
}

static bool step(DtNext *next, DtNextRow *rows)
{
    Predict *p = next->state;
    DtRank *rank = next->rank;
    write_input(next, rows, 0, next->input);
    for (uint32_t c = 2; c < 4; c++)
        if (chat_input(next, c))
            write_input(next, rows, c, chat_input(next, c));
    rank->evaluates = true;
    rank->eval_batch = p->steps++;
    if (!dt_exec_entry(rank, "predict"))
        return false;
    for (int64_t r = 0; r < next->n_rows; r++)
        rows[r].ready = rows[r].tokens != NULL;
    return read_logits(next, rows);
}

const DtNextOps dt_generatepredict_ops = {open, begin, step, .joins = true};
