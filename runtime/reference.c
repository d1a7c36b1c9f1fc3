/* SPDX-License-Identifier: Apache-2.0 */
/* --reference FILE: compares the model's results with those of the program that wrote the
 * parameters. FILE is a safetensors file with input_ids, i64 or i32 [rows, positions], and logits,
 * f32 [rows, positions, vocabulary]. The entry "predict" runs at the plan's own shapes, for as many
 * rows at a time as a batch has; rows and positions that FILE does not have hold token 0, which no
 * earlier position of a causal model sees.
 *
 * At each position the error is |result - logits| / |logits|, Euclidean norms over the vocabulary.
 * Each rank adds up the squares of the elements that it has, of a sharded vocabulary, too, and all
 * add theirs. Where several ranks have the same elements, both norms grow alike. */
#include "runtime/reference.h"

#include "runtime/device.h"
#include "runtime/predict_files.h"
#include "runtime/rank.h"
#include "runtime/reduce.h"
#include "runtime/safetensors.h"

#include "base/tryread.h"
#include "plan/kinds.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SUMMED = 4096 }; /* numbers that ranks add at a time */

typedef struct Reference {
    const DtPlan *plan;
    const char *path;
    DtTensorFile file;
    const DtTensor *ids, *logits;
    const DtPlanInput *input;       /* [batch, seq] */
    const DtPlanMetric *output;     /* its axes and the vocabulary, in any order */
    uint32_t batch, seq, vocab;     /* which axis of the output is which */
    int64_t rows, positions, words; /* of the file */
    int64_t pass;                   /* rows at a time */
    float *sums; /* of each position: squares of the differences, then of the logits */
} Reference;

/* ---- what is compared ---- */

static DtStatus read_file(DtArena *memory, Reference *r)
{
    DtStatus status = dt_safetensors_open_foreign(memory, r->path, &r->file);
    if (!dt_status_ok(&status))
        return status;
    r->ids = dt_safetensors_find(&r->file, "input_ids");
    r->logits = dt_safetensors_find(&r->file, "logits");
    const bool good = r->ids && r->logits && r->ids->n_axes == 2 && r->logits->n_axes == 3 &&
                      (r->ids->dtype == DT_PLAN_I64 || r->ids->dtype == DT_PLAN_I32) &&
                      r->logits->dtype == DT_PLAN_F32 &&
                      r->ids->extents[0] == r->logits->extents[0] &&
                      r->ids->extents[1] == r->logits->extents[1];
    if (!good || r->logits->bytes == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%.300s needs input_ids, i64 or i32 [rows, positions], and logits, "
                              "f32 [rows, positions, vocabulary]",
                              r->path);
    r->rows = r->logits->extents[0];
    r->positions = r->logits->extents[1];
    r->words = r->logits->extents[2];
    return DT_OK;
}

static DtStatus find_input(Reference *r)
{
    for (uint32_t i = 0; i < r->plan->n_readers && r->input == NULL; i++)
        if (!r->plan->readers[i].is_eval)
            r->input = dt_predictfiles_input(
                r->plan, &r->plan->inputs[r->plan->readers[i].first_input]);
    const DtPlanAxis *axes = r->input ? &r->plan->axes[r->input->first_axis] : NULL;
    if (axes == NULL || r->input->n_axes != 2 || r->input->dtype != DT_PLAN_I32)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--reference needs a model whose first input is i32[batch, seq]");
    if (axes[1].local != axes[1].extent)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--reference needs axis `%s` whole on each rank; this plan splits it",
                              dt_plan_str(r->plan, axes[1].name));
    if (r->positions > axes[1].extent)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%.200s has %lld positions, and the plan %lld: compile the program "
                              "with -D %s=%lld, or more",
                              r->path, (long long)r->positions, (long long)axes[1].extent,
                              dt_plan_str(r->plan, axes[1].name), (long long)r->positions);
    r->pass = axes[0].local;
    for (uint32_t i = 0; i < DT_PLAN_SPLITS && axes[0].split[i]; i++)
        r->pass *= r->plan->mesh[axes[0].split[i] - 1].size;
    return DT_OK;
}

/* Fails if the model reads more than the tokens, which FILE does not have. */
static DtStatus check_others(const Reference *r)
{
    for (uint32_t i = 0; i < r->plan->n_inputs; i++) {
        const DtPlanInput *input = &r->plan->inputs[i];
        if (input->name != r->input->name && dt_predictfiles_reads(r->plan, input))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--reference gives the model `%.60s` only, and it also reads "
                                  "`%.60s`: compare with what --predict writes",
                                  dt_predictfiles_name(r->plan, r->input),
                                  dt_predictfiles_name(r->plan, input));
    }
    return DT_OK;
}

static DtStatus find_output(Reference *r)
{
    const DtPlan *plan = r->plan;
    const DtPlanAxis *in = plan->axes + r->input->first_axis;
    r->output = dt_exec_metric(plan, "predict", NULL);
    bool found[3] = {false};
    const DtPlanAxis *out = r->output ? plan->axes + r->output->first_axis : NULL;
    for (uint32_t a = 0; out && r->output->n_axes == 3 && a < 3; a++) {
        const char *name = dt_plan_str(plan, out[a].name);
        const int which = strcmp(name, dt_plan_str(plan, in[0].name)) == 0   ? 0
                          : strcmp(name, dt_plan_str(plan, in[1].name)) == 0 ? 1
                                                                             : 2;
        *(which == 0 ? &r->batch : which == 1 ? &r->seq : &r->vocab) = a;
        found[which] = true;
    }
    if (!found[0] || !found[1] || !found[2] || !dt_kinds_is_float(r->output->dtype))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--reference needs a model whose result is [batch, seq, vocab]");
    if (out[r->seq].local != out[r->seq].extent)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--reference needs axis `%s` whole on each rank; this plan splits it",
                              dt_plan_str(plan, out[r->seq].name));
    if (r->words > out[r->vocab].extent)
        return dt_status_fail(DT_EXIT_USAGE, "%.200s has logits of %lld tokens, and the model %lld",
                              r->path, (long long)r->words, (long long)out[r->vocab].extent);
    return DT_OK;
}

static DtStatus prepare(DtArena *memory, Reference *r)
{
    DtStatus status = read_file(memory, r);
    if (dt_status_ok(&status))
        status = find_input(r);
    if (dt_status_ok(&status))
        status = check_others(r);
    return dt_status_ok(&status) ? find_output(r) : status;
}

/* The number of the first of the file's logits that is not finite, or of all. */
typedef struct Search {
    const DtTensor *logits;
    int64_t at, n;
} Search;

static void search_logits(void *context)
{
    Search *search = context;
    float value;
    for (; search->at < search->n; search->at++) {
        memcpy(&value, search->logits->at + search->at * (int64_t)sizeof value, sizeof value);
        if (!isfinite(value))
            return;
    }
}

static DtStatus check_logits(const Reference *r)
{
    Search search = {r->logits, 0, r->rows * r->positions * r->words};
    const uint8_t *missing = dt_tryread(&r->file.view, search_logits, &search);
    if (missing)
        return dt_safetensors_cut(r->path, &r->file, missing);
    const int64_t number = search.at / r->words;
    return search.at == search.n
               ? DT_OK
               : dt_status_fail(
                     DT_EXIT_FAILED,
                     "%.300s is no reference: its logits at row %lld, position %lld are not finite",
                     r->path, (long long)(number / r->positions),
                     (long long)(number % r->positions));
}

DtStatus dt_reference_check(const DtPlan *plan, const char *path)
{
    DtArena *memory = dt_arena_new();
    Reference r = {.plan = plan, .path = path};
    DtStatus status = prepare(memory, &r);
    if (dt_status_ok(&status))
        status = check_logits(&r);
    dt_safetensors_close(&r.file);
    dt_arena_free(memory);
    return status;
}

/* The relative error that rounding explains. */
static double limit_of(const DtPlan *plan)
{
    for (uint32_t g = 0; g < plan->n_gemms; g++)
        if (plan->gemms[g].dtype_a != DT_PLAN_F32)
            return 5e-2;
    return plan->meta->tf32 ? 5e-3 : 1e-5;
}

/* ---- a pass ---- */

/* Elements of a tensor of the file, from number `first` on. */
static DtStatus read_some(const Reference *r, const DtTensor *tensor, int64_t first, int64_t n,
                          void *to)
{
    const int64_t size = dt_kinds_size(tensor->dtype);
    const uint8_t *missing =
        dt_tryread_copy(&r->file.view, to, tensor->at + first * size, (size_t)(n * size));
    return missing ? dt_safetensors_cut(r->path, &r->file, missing) : DT_OK;
}

static DtStatus read_id(const Reference *r, int64_t row, int64_t position, int32_t *ret_id)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    const bool is_wide = r->ids->dtype == DT_PLAN_I64;
    DtStatus status = read_some(r, r->ids, row * r->positions + position, 1,
                                is_wide ? (void *)&wide : (void *)&narrow);
    const int64_t id = is_wide ? wide : narrow;
    const int64_t most = r->plan->axes[r->output->first_axis + r->vocab].extent;
    if (dt_status_ok(&status) && (id < 0 || id >= most))
        return dt_status_fail(DT_EXIT_FAILED, "%.300s has token %lld, of a vocabulary of %lld",
                              r->path, (long long)id, (long long)most);
    *ret_id = (int32_t)id;
    return status;
}

/* The tokens of rows first .. of the file into this rank's part of the input. */
static DtStatus write_input(const Reference *r, const DtRank *rank, DtArena *memory, int64_t first)
{
    const DtPlanAxis *axes = r->plan->axes + r->input->first_axis;
    const int64_t start = first + dt_rank_axis_start(r->plan, rank->coord, &axes[0]);
    const int64_t n = axes[0].local * axes[1].local, bytes = n * (int64_t)sizeof(int32_t);
    int32_t *ids = DT_NEW_ARRAY(memory, int32_t, n);
    for (int64_t b = 0; b < axes[0].local && start + b < r->rows; b++)
        for (int64_t s = 0; s < r->positions; s++) {
            DtStatus status = read_id(r, start + b, s, &ids[b * axes[1].local + s]);
            if (!dt_status_ok(&status))
                return status;
        }
    dt_device_put(rank, dt_device_place(rank, r->input->arena, r->input->offset, bytes), ids,
                  bytes);
    return DT_OK;
}

static float element(uint32_t dtype, const char *at, int64_t number)
{
    float value;
    if (dtype == DT_PLAN_F32)
        memcpy(&value, at + number * (int64_t)sizeof value, sizeof value);
    else
        dt_reduce_widen(dtype, &value, (const uint16_t *)(const void *)at + number, 1);
    return value;
}

/* Adds the squares of this rank's elements of one position: from number `at` of the result on. */
static void add_position(Reference *r, const char *result, int64_t at, int64_t step,
                         const float *right, int64_t words, int64_t number)
{
    double differences = 0, logits = 0;
    for (int64_t v = 0; v < words; v++) {
        const double x = element(r->output->dtype, result, at + v * step), y = right[v];
        differences += (x - y) * (x - y);
        logits += y * y;
    }
    r->sums[2 * number] += (float)differences;
    r->sums[2 * number + 1] += (float)logits;
}

static DtStatus read_output(Reference *r, const DtRank *rank, DtArena *memory, int64_t first)
{
    const DtPlanAxis *axes = r->plan->axes + r->output->first_axis;
    int64_t stride[3] = {axes[1].local * axes[2].local, axes[2].local, 1};
    const int64_t row = first + dt_rank_axis_start(r->plan, rank->coord, &axes[r->batch]);
    const int64_t word = dt_rank_axis_start(r->plan, rank->coord, &axes[r->vocab]);
    int64_t words = r->words - word < axes[r->vocab].local ? r->words - word : axes[r->vocab].local;
    float *right = DT_NEW_ARRAY(memory, float, axes[r->vocab].local + 1);
    DtStatus status = DT_OK;
    words = words > 0 ? words : 0;
    DtLent lent = dt_device_lend(
        rank, dt_device_place(rank, r->output->arena, r->output->offset, r->output->bytes));
    for (int64_t b = 0; b < axes[r->batch].local && row + b < r->rows; b++)
        for (int64_t s = 0; s < r->positions && dt_status_ok(&status); s++) {
            const int64_t number = (row + b) * r->positions + s;
            status = read_some(r, r->logits, number * r->words + word, words, right);
            add_position(r, lent.at, b * stride[r->batch] + s * stride[r->seq], stride[r->vocab],
                         right, words, number);
        }
    dt_device_back(rank, &lent, false);
    return status;
}

/* No rank is at fault if a file cannot be read or the model's results are others. */
static bool file_fails(DtRank *rank, const DtStatus *status)
{
    atomic_store(&rank->slot->by_data, 1);
    return dt_rank_fail_status(rank, status);
}

static bool run_pass(Reference *r, DtRank *rank, int64_t first)
{
    DtArena *memory = dt_arena_new();
    DtStatus status = write_input(r, rank, memory, first);
    const bool has_run = dt_status_ok(&status) && dt_exec_entry(rank, "predict");
    if (has_run && dt_plan_on_stage(r->output->stage, rank->stage))
        status = read_output(r, rank, memory, first);
    dt_arena_free(memory);
    return dt_status_ok(&status) ? has_run : file_fails(rank, &status);
}

/* ---- the verdict ---- */

static bool add_over_ranks(Reference *r, DtRank *rank)
{
    const int64_t n = 2 * r->rows * r->positions;
    for (int64_t i = 0; i < n && rank->n_ranks > 1; i += SUMMED) {
        const int64_t some = n - i < SUMMED ? n - i : SUMMED;
        DtPlaceAt place = dt_device_of_host(r->sums + i, some * (int64_t)sizeof *r->sums);
        if (!rank->comm_ops->all_reduce(rank->comm, &rank->world, place, place, some, DT_PLAN_F32,
                                        DT_PLAN_SUM))
            return false;
    }
    return true;
}

static bool judge(const Reference *r, DtRank *rank)
{
    const double limit = limit_of(r->plan);
    int64_t worst = 0, wrong = 0, wrong_first = 0;
    double most = -1;
    for (int64_t i = 0; i < r->rows * r->positions; i++) {
        const double logits = r->sums[2 * i + 1];
        double error = sqrt(r->sums[2 * i] / fmax(logits, 1e-30));
        if (!isfinite(error) || !isfinite(logits)) /* also of results that are no numbers */
            error = INFINITY;
        if (error > most) {
            most = error;
            worst = i;
        }
        wrong += error > limit;
        wrong_first += error > limit && i % r->positions == 0;
    }
    if (wrong == 0 && rank->rank == 0)
        printf("%s: the results agree at %lld positions; the largest relative error is %.2g, of "
               "at most %.0e\n",
               r->path, (long long)(r->rows * r->positions), most, limit);
    if (wrong == 0)
        return fflush(stdout) == 0 ||
               dt_rank_fail(rank, DT_EXIT_IO, "cannot write the result: %s", strerror(errno));
    const DtStatus status = dt_status_fail(
        DT_EXIT_FAILED,
        "the model does not give the logits of %.150s: %lld of %lld positions differ; the relative "
        "error is %.2g at row %lld, position %lld, and rounding explains %.0e. %s",
        r->path, (long long)wrong, (long long)(r->rows * r->positions), most,
        (long long)(worst / r->positions), (long long)(worst % r->positions), limit,
        wrong_first || r->positions == 1
            ? "Compare epsilons, activations, scales, and parameters of equal shape"
            : "Position 0 is right: compare rotary angles, masks and windows");
    return file_fails(rank, &status);
}

bool dt_reference_run(DtRank *rank)
{
    Reference r = {.plan = rank->plan, .path = rank->options->reference};
    if (!dt_exec_has(rank, "predict"))
        return dt_rank_fail(rank, DT_EXIT_USAGE, "the plan has no entry `predict`");
    DtStatus status = prepare(rank->memory, &r);
    bool good = dt_status_ok(&status) || file_fails(rank, &status);
    if (good)
        r.sums = DT_NEW_ARRAY(rank->memory, float, 2 * r.rows * r.positions);
    rank->evaluates = true;
    for (int64_t first = 0; good && first < r.rows; first += r.pass) {
        rank->eval_batch = first / r.pass;
        good = run_pass(&r, rank, first);
    }
    good = good && add_over_ranks(&r, rank) && judge(&r, rank);
    dt_safetensors_close(&r.file);
    return good;
}
