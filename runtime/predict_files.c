/* SPDX-License-Identifier: Apache-2.0 */
/* What --predict reads and --out writes. The plan does not list which of its inputs the model
 * reads: an input counts if an instruction of the entry "predict" touches it. Results are named
 * MODEL.0, MODEL.1 and so on, and are asked for by number. */
#include "runtime/predict_files.h"

#include "runtime/predict.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Begins the names of inputs that "predict" has for itself (passes/rows.c). */
#define OWN "predict:"

/* ---- inputs ---- */

const char *dt_predictfiles_name(const DtPlan *plan, const DtPlanInput *input)
{
    const char *name = dt_plan_str(plan, input->name);
    return strncmp(name, OWN, sizeof OWN - 1) == 0 ? name + sizeof OWN - 1 : name;
}

const DtPlanInput *dt_predictfiles_input(const DtPlan *plan, const DtPlanInput *input)
{
    const char *name = dt_plan_str(plan, input->name);
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const char *own = dt_predictfiles_name(plan, &plan->inputs[i]);
        if (own != dt_plan_str(plan, plan->inputs[i].name) && strcmp(own, name) == 0)
            return &plan->inputs[i];
    }
    return input;
}

static bool touches(const DtPlan *plan, const DtPlanBody *body, const DtPlanInput *input,
                    int64_t bytes)
{
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[body->first_inst + i];
        for (uint32_t a = 0; a < inst->n_args; a++) {
            const DtPlanArg *arg = &plan->args[inst->first_arg + a];
            if (arg->kind == DT_ARG_ADDRESS && arg->arena == input->arena &&
                arg->base < input->offset + bytes && arg->base + arg->bytes > input->offset)
                return true;
        }
    }
    return false;
}

static bool entry_touches(const DtPlan *plan, const DtPlanEntry *entry, const DtPlanInput *input,
                          int64_t bytes)
{
    for (uint32_t i = 0; i < entry->count; i++) {
        const DtPlanSchedule *item = &plan->schedule[entry->first + i];
        if (item->kind == DT_SCHED_RUN && touches(plan, &plan->bodies[item->body], input, bytes))
            return true;
        if (item->kind == DT_SCHED_CALL &&
            entry_touches(plan, &plan->entries[item->body], input, bytes))
            return true;
    }
    return false;
}

bool dt_predictfiles_reads(const DtPlan *plan, const DtPlanInput *input)
{
    int64_t bytes = dt_kinds_size(input->dtype);
    for (uint32_t a = 0; a < input->n_axes; a++)
        bytes *= plan->axes[input->first_axis + a].local;
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (strcmp(dt_plan_str(plan, plan->entries[e].name), "predict") == 0 &&
            entry_touches(plan, &plan->entries[e], input, bytes))
            return true;
    return false;
}

static const char *name_of(const DtPredict *p, uint32_t column)
{
    return dt_plan_str(p->plan, p->columns[column].input->name);
}

/* Lists the inputs that the model reads, each once: training and held-out data fill the same
 * ones. */
static void find_inputs(DtArena *memory, DtPredict *p)
{
    const DtPlan *plan = p->plan;
    p->columns = DT_NEW_ARRAY(memory, DtColumn, plan->n_inputs + 1);
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const char *name = dt_predictfiles_name(plan, &plan->inputs[i]);
        bool is_new = dt_predictfiles_reads(plan, &plan->inputs[i]);
        for (uint32_t c = 0; c < p->n_columns; c++)
            is_new &= strcmp(name, name_of(p, c)) != 0;
        if (!is_new)
            continue;
        DtPlanInput *input = DT_NEW(memory, DtPlanInput); /* readers and messages have its name */
        *input = plan->inputs[i];
        input->name = (DtPlanStr)(name - plan->strings);
        p->columns[p->n_columns++].input = input;
    }
}

static DtStatus refuse_name(const DtPredict *p, const char *option)
{
    DtText names = {0};
    for (uint32_t c = 0; c < p->n_columns; c++)
        dt_text_printf(&names, "%s`%s`", c ? ", " : "", name_of(p, c));
    DtStatus status = dt_status_fail(
        DT_EXIT_USAGE,
        "--predict %.200s: %s %.200s: say which, --predict NAME=FILE", option,
        p->n_columns > 1 ? "the model reads" : "the model reads only", names.at ? names.at : "");
    dt_text_free(&names);
    return status;
}

/* Length of the name in NAME=FILE; 0: there is none. */
static size_t name_length(const char *option)
{
    size_t n = 0;
    while (isalnum((unsigned char)option[n]) || option[n] == '_')
        n++;
    return option[n] == '=' ? n : 0;
}

static DtStatus take_option(DtPredict *p, const char *option)
{
    const size_t n = name_length(option);
    for (uint32_t c = 0; c < p->n_columns; c++) {
        const char *name = name_of(p, c);
        if (n == 0 ? p->n_columns > 1 : strlen(name) != n || strncmp(name, option, n) != 0)
            continue;
        if (p->columns[c].path)
            return dt_status_fail(DT_EXIT_USAGE, "--predict: `%.60s` has two files, %.150s and "
                                                 "%.150s",
                                  name, p->columns[c].path, option + (n ? n + 1 : 0));
        p->columns[c].path = option + (n ? n + 1 : 0);
        return DT_OK;
    }
    return refuse_name(p, option);
}

static DtStatus open_inputs(const DtRunOptions *options, DtPredict *p)
{
    for (uint32_t c = 0; c < p->n_columns; c++) {
        DtColumn *column = &p->columns[c];
        if (!column->path)
            return dt_status_fail(DT_EXIT_USAGE, "the model also reads `%.60s`: --predict "
                                                 "%.60s=FILE.npy",
                                  name_of(p, c), name_of(p, c));
        DtStatus status =
            dt_data_open_file(options, p->plan, column->input, column->path, &column->data);
        if (!dt_status_ok(&status))
            return status;
        const int64_t samples = dt_data_samples(column->data);
        if (c > 0 && samples != p->samples)
            return dt_status_fail(DT_EXIT_IO,
                                  "%.150s has %lld samples, and %.150s has %lld: sample k of one "
                                  "belongs to sample k of the other",
                                  column->path, (long long)samples, p->columns[0].path,
                                  (long long)p->samples);
        p->samples = samples;
    }
    return DT_OK;
}

int64_t dt_predictfiles_pass(const DtPlan *plan, const DtPlanInput *input)
{
    const DtPlanAxis *axis = &plan->axes[input->first_axis];
    int64_t pass = axis->local;
    for (uint32_t i = 0; i < DT_PLAN_SPLITS && axis->split[i]; i++)
        pass *= plan->mesh[axis->split[i] - 1].size;
    return pass < axis->extent ? pass : axis->extent;
}

/* ---- results ---- */

/* How NumPy calls the elements that the file has; NULL: there is no such file. */
static const char *numpy_name(uint32_t dtype)
{
    static const char *const names[DT_PLAN_DTYPES] = {
        [DT_PLAN_BOOL] = "|b1", [DT_PLAN_U8] = "|u1",   [DT_PLAN_U16] = "<u2",
        [DT_PLAN_U32] = "<u4",  [DT_PLAN_I32] = "<i4",  [DT_PLAN_I64] = "<i8",
        [DT_PLAN_F16] = "<f4",  [DT_PLAN_BF16] = "<f4", [DT_PLAN_F32] = "<f4",
        [DT_PLAN_F64] = "<f8"};
    return dtype < DT_PLAN_DTYPES ? names[dtype] : NULL;
}

/* The result of that number, the last part of its name; NULL: there is none. */
static const DtPlanMetric *find_result(const DtPlan *plan, int64_t number)
{
    for (uint32_t m = 0; m < plan->n_metrics; m++) {
        const char *dot = strrchr(dt_plan_str(plan, plan->metrics[m].name), '.');
        if (strcmp(dt_plan_str(plan, plan->metrics[m].entry), "predict") == 0 &&
            (number < 0 || (dot && atoll(dot + 1) == number)))
            return &plan->metrics[m];
    }
    return NULL;
}

static int64_t count_results(const DtPlan *plan)
{
    int64_t n = 0;
    for (uint32_t m = 0; m < plan->n_metrics; m++)
        n += strcmp(dt_plan_str(plan, plan->metrics[m].entry), "predict") == 0;
    return n;
}

/* Finds the result that --out [NUMBER=]FILE asks for. */
static DtStatus take_result(DtPredict *p, const char *option, DtResult *ret_result)
{
    const size_t n = strspn(option, "0123456789");
    const bool is_numbered = n > 0 && n < 10 && option[n] == '=';
    DtResult *r = ret_result;
    *r = (DtResult){.metric = find_result(p->plan, is_numbered ? atoll(option) : -1),
                    .path = option + (is_numbered ? n + 1 : 0)};
    if (!r->metric)
        return dt_status_fail(DT_EXIT_USAGE, "--out %.200s: the model has %lld results, from 0 on",
                              option, (long long)count_results(p->plan));
    if (r->path[0] == '\0')
        return dt_status_fail(DT_EXIT_USAGE, "--out %.200s: there is no file name", option);
    const DtPlanAxis *axes = &p->plan->axes[r->metric->first_axis];
    const DtPlanAxis *batch = &p->plan->axes[p->columns[0].input->first_axis];
    while (r->batch < r->metric->n_axes && axes[r->batch].name != batch->name)
        r->batch++;
    if (r->batch == r->metric->n_axes || !numpy_name(r->metric->dtype))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--out %.200s: result `%.60s` of the model has no axis `%.60s`, so "
                              "samples have no results of their own",
                              option, dt_plan_str(p->plan, r->metric->name),
                              dt_plan_str(p->plan, batch->name));
    r->width = numpy_name(r->metric->dtype)[2] - '0';
    return DT_OK;
}

static DtStatus find_results(DtArena *memory, const DtRunOptions *options, DtPredict *p)
{
    p->results = DT_NEW_ARRAY(memory, DtResult, options->n_out + 1);
    for (uint32_t i = 0; i < options->n_out; i++) {
        DtStatus status = take_result(p, options->out[i], &p->results[i]);
        if (!dt_status_ok(&status))
            return status;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(p->results[k].path, p->results[i].path) == 0)
                return dt_status_fail(DT_EXIT_USAGE, "--out: two results for %.300s",
                                      p->results[i].path);
        p->n_results++;
    }
    return DT_OK;
}

/* ---- all of it ---- */

DtStatus dt_predictfiles_open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                              DtPredict *ret_predict)
{
    DtPredict *p = ret_predict;
    *p = (DtPredict){.plan = plan};
    find_inputs(memory, p);
    if (p->n_columns == 0 || count_results(plan) == 0)
        return dt_status_fail(DT_EXIT_USAGE, "--predict: the program has no model that makes "
                                             "results of inputs");
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < options->n_predict && dt_status_ok(&status); i++)
        status = take_option(p, options->predict[i]);
    if (dt_status_ok(&status))
        status = find_results(memory, options, p);
    p->pass = dt_predictfiles_pass(plan, p->columns[0].input);
    return dt_status_ok(&status) ? open_inputs(options, p) : status;
}

void dt_predictfiles_close(DtPredict *p)
{
    for (uint32_t c = 0; c < p->n_columns; c++)
        if (p->columns[c].data)
            dt_data_close(p->columns[c].data);
    for (uint32_t i = 0; i < p->n_results; i++)
        if (p->results[i].is_open)
            dt_file_writer_abandon(&p->results[i].writer);
}

/* Appends the shape of the file as Python writes it: "(60, 10)", "(60,)". */
static void add_shape(const DtPredict *p, const DtResult *result, DtText *text)
{
    dt_text_printf(text, "(%lld,", (long long)p->samples);
    for (uint32_t a = 0, n = 1; a < result->metric->n_axes; a++)
        if (a != result->batch)
            dt_text_printf(text, "%s%lld", n++ == 1 ? " " : ", ",
                           (long long)p->plan->axes[result->metric->first_axis + a].extent);
    dt_text_add(text, ")");
}

/* Appends NumPy's header, padded so that the elements are aligned to 64 bytes. */
static void add_header(const DtPredict *p, const DtResult *result, DtText *text)
{
    enum { BEFORE = 10, ALIGNED = 64 };
    DtText header = {0};
    dt_text_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': ",
                   numpy_name(result->metric->dtype));
    add_shape(p, result, &header);
    dt_text_add(&header, ", }");
    while ((BEFORE + header.len + 1) % ALIGNED != 0)
        dt_text_add(&header, " ");
    const char before[BEFORE] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0,
                                 (char)((header.len + 1) & 255), (char)((header.len + 1) >> 8)};
    dt_text_add_n(text, before, sizeof before);
    dt_text_printf(text, "%s\n", header.at);
    dt_text_free(&header);
}

DtStatus dt_predictfiles_create(DtPredict *p)
{
    for (uint32_t i = 0; i < p->n_results; i++) {
        DtResult *result = &p->results[i];
        DtText header = {0};
        DtStatus status = dt_file_writer_open(&result->writer, result->path);
        result->is_open = dt_status_ok(&status);
        add_header(p, result, &header);
        if (dt_status_ok(&status))
            status = dt_file_writer_append(&result->writer, header.at, header.len);
        dt_text_free(&header);
        if (!dt_status_ok(&status))
            return status;
    }
    return DT_OK;
}

DtStatus dt_predictfiles_commit(DtPredict *p)
{
    for (uint32_t i = 0; i < p->n_results; i++) {
        p->results[i].is_open = false;
        DtStatus status = dt_file_writer_commit(&p->results[i].writer);
        if (!dt_status_ok(&status))
            return status;
    }
    return DT_OK;
}

void dt_predictfiles_say(const DtPredict *p)
{
    for (uint32_t i = 0; i < p->n_results; i++) {
        const DtResult *result = &p->results[i];
        DtText shape = {0};
        add_shape(p, result, &shape);
        fprintf(stderr, "%s: %s of %lld samples, %s%s\n", result->path,
                dt_plan_str(p->plan, result->metric->name), (long long)p->samples,
                numpy_name(result->metric->dtype) + 1, shape.at);
        dt_text_free(&shape);
    }
}

DtStatus dt_predict_check(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes)
{
    DtArena *memory = dt_arena_new();
    DtPredict p;
    DtStatus status = dt_predictfiles_open(memory, options, plan, &p);
    for (uint32_t c = 0; c < p.n_columns && dt_status_ok(&status); c++)
        status = dt_data_look(p.columns[c].data, ret_notes);
    for (uint32_t i = 0; i < p.n_results && options->node == 0 && dt_status_ok(&status); i++)
        status = dt_file_may_make(p.results[i].path, false);
    dt_predictfiles_close(&p);
    dt_arena_free(memory);
    return status;
}
