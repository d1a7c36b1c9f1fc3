/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one JSON object a line, flushed, so that it is whole up to the last line at any time.
 * Nobody else writes to the file meanwhile (outputs.c). A full disk ends the log, not the run,
 * which fails when it is through.
 *
 *     {"event": "start", "step": 0, "model": "gpt2", "ranks": 2, ...}
 *     {"event": "step", "step": 1, "loss": 4.17, "grad_norm": 2.3, "lr": 1e-05, "seconds": 0.02,
 *      "samples_per_second": 800, "tokens_per_second": 51200, ...}   (no tokens: none of them)
 *     also "predicted_seconds": 0.018, "mfu": 0.41 (if the plan predicts them), "goodput": 0.93
 *     {"event": "step", "step": 1,
 *      "losses": {"critic": {"loss": 1.38, "grad_norm": 0.4, "lr": 1e-05}, ...}, ...}
 *     {"event": "eval", "step": 200, "loss": 2.51, "samples": 1742,
 *      "metrics": {"accuracy": 0.43}}
 *     {"event": "eval", "step": 200, "losses": {"critic": 1.2, "maker": 0.8}, "samples": 1742}
 *     {"event": "traffic", "step": 200, "steps": 200,
 *      "groups": [{"axes": ["data"], "ranks": 2, "received": 80000}], ...} */
#include "runtime/comm_mark.h"

#include "plan/report/report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct DtLog {
    FILE *file;
    const char *path;
    DtStatus failure; /* error number of the first line that could not be written */
};

DtStatus dt_log_open(const char *path, bool empties, DtLog **ret_log)
{
    FILE *file = fopen(path, "ae");
    if (file == NULL)
        return dt_status_fail(DT_EXIT_IO, "cannot write the log %.300s: %s", path, strerror(errno));
    /* EINVAL: the file is a pipe or a device, which cannot be synced */
    if (empties && ftruncate(fileno(file), 0) != 0 && errno != EINVAL) {
        fclose(file);
        return dt_status_fail(DT_EXIT_IO, "cannot empty the log %.300s: %s", path, strerror(errno));
    }
    DtLog *log = malloc(sizeof *log);
    if (log == NULL) {
        fclose(file);
        return dt_status_fail(DT_EXIT_RETRY, "no memory for the log");
    }
    *log = (DtLog){.file = file, .path = path, .failure = DT_OK};
    *ret_log = log;
    return DT_OK;
}

static void put(DtLog *log, json_t *object)
{
    if (dt_status_ok(&log->failure)) {
        json_dumpf(object, log->file, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        fputc('\n', log->file);
        if (fflush(log->file) != 0 || ferror(log->file))
            log->failure = dt_status_fail(DT_EXIT_IO, "the log %.300s is not complete: %s",
                                          log->path, strerror(errno));
    }
    json_decref(object);
}

/* JSON has no infinities: they become null. */
static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static const char *comm_of(const DtRank *rank)
{
    return rank->n_ranks > 1 && rank->comm_ops ? rank->comm_ops->name : NULL;
}

/* The order in which ranks' terms are added, where it is not that of the members: NCCL has its
 * own. */
static const char *sums_of(const DtRank *rank)
{
    bool any = false;
    for (uint32_t g = 0; g < rank->plan->n_groups; g++)
        any = any || rank->groups[g].size > DT_COMM_IN_ORDER;
    return any && rank->comm_ops != &dt_comm_nccl
               ? "member order; in groups of more than 64 ranks, a ring's, which begins behind the "
                 "owner of an element"
               : NULL;
}

void dt_log_start(DtLog *log, const DtRank *rank, int64_t first_step)
{
    const DtPlan *plan = rank->plan;
    char digest[20];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)plan->digest);
    put(log,
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:s*, s:s*, "
                  "s:s*}",
                  "event", "start", "step", (json_int_t)first_step, "model",
                  dt_plan_str(plan, plan->meta->model), "source",
                  dt_plan_str(plan, plan->meta->source), "plan", digest, "ranks",
                  (json_int_t)rank->n_ranks, "steps", (json_int_t)rank->meta.steps, "batch",
                  (json_int_t)rank->meta.batch, "parameters", (json_int_t)rank->meta.parameters,
                  "memory", (json_int_t)rank->memory_bytes, "seed", (json_int_t)rank->meta.seed,
                  "gemm", rank->gemm_library, "plain_gemms", (json_int_t)rank->n_plain_gemms,
                  "attention", rank->attention, "comm", comm_of(rank), "sums", sums_of(rank)));
}

static void put_metrics(json_t *object, const DtShown *shown)
{
    json_t *metrics = shown->n > shown->n_losses ? json_object() : NULL;
    for (uint32_t i = shown->n_losses; i < shown->n; i++)
        json_object_set_new(metrics, shown->name[i], real(shown->value[i]));
    if (metrics)
        json_object_set_new(object, "metrics", metrics);
}

static void put_norm(json_t *object, const DtLossReport *loss)
{
    if (!(loss->grad_norm < 0)) /* it is written even if it is not a number, as in a step that is
                                 * skipped */
        json_object_set_new(object, "grad_norm", real(loss->grad_norm));
    json_object_set_new(object, "lr", real(loss->lr));
}

/* The losses by name. With several, each step minimises only some of them (`taken`); the others are
 * left out. */
static json_t *losses_json(const DtStepReport *report)
{
    json_t *losses = json_object();
    for (uint32_t i = 0, n = 0; i < report->n_losses && n < report->shown.n_losses; i++) {
        if (!report->losses[i].taken)
            continue;
        json_t *one = json_pack("{s:o}", "loss", real(report->losses[i].loss));
        put_norm(one, &report->losses[i]);
        json_object_set_new(losses, report->shown.name[n++], one);
    }
    return losses;
}

/* What the plan predicts for a step, the MFU that the step reached, and the goodput so far. */
static void put_predicted(json_t *object, const DtStepReport *report, const DtPlan *plan)
{
    const DtPlanPrediction *p = plan->n_predictions ? plan->predictions : NULL;
    const double peak = p ? p->peak * plan->meta->n_ranks : 0;
    if (p && p->step > 0)
        json_object_set_new(object, "predicted_seconds", real(p->step));
    if (peak > 0 && plan->meta->model_flops > 0 && report->seconds > 0)
        json_object_set_new(object, "mfu",
                            real(plan->meta->model_flops / (report->seconds * peak)));
    if (report->goodput > 0)
        json_object_set_new(object, "goodput", real(report->goodput));
}

void dt_log_step(DtLog *log, const DtStepReport *report, const DtPlan *plan)
{
    const bool several = report->n_losses > 1;
    json_t *object = json_pack("{s:s, s:I}", "event", "step", "step", (json_int_t)report->step);
    json_object_set_new(object, several ? "losses" : "loss",
                        several ? losses_json(report) : real(report->losses[0].loss));
    put_metrics(object, &report->shown);
    if (!several)
        put_norm(object, &report->losses[0]);
    json_object_set_new(object, "seconds", real(report->seconds));
    if (plan->meta->ramp_by > 0)
        json_object_set_new(object, "batch", json_integer((json_int_t)report->rows));
    /* number of tokens per second */
    const double steps = report->seconds > 0 ? 1 / report->seconds : 0;
    const double samples = (double)report->rows;
    json_object_set_new(object, "samples_per_second", real(samples * steps));
    if (dt_report_has_tokens(plan))
        json_object_set_new(
            object, "tokens_per_second",
            real((double)plan->meta->tokens / (double)plan->meta->batch * samples * steps));
    put_predicted(object, report, plan);
    json_object_set_new(object, "memory", json_integer((json_int_t)report->memory));
    if (report->scale.is_dynamic) {
        json_object_set_new(object, "loss_scale", real(report->scale.factor));
        json_object_set_new(object, "skipped", json_integer((json_int_t)report->scale.skipped));
    }
    put(log, object);
}

void dt_log_eval(DtLog *log, int64_t step, const DtShown *shown, int64_t samples)
{
    const bool several = shown->n_losses > 1;
    json_t *losses = several ? json_object() : real(shown->value[0]);
    for (uint32_t i = 0; several && i < shown->n_losses; i++)
        json_object_set_new(losses, shown->name[i], real(shown->value[i]));
    json_t *object = json_pack("{s:s, s:I, s:o, s:I}", "event", "eval", "step", (json_int_t)step,
                               several ? "losses" : "loss", losses, "samples", (json_int_t)samples);
    put_metrics(object, shown);
    put(log, object);
}

void dt_log_event(DtLog *log, const char *event, int64_t step, const char *text)
{
    json_t *object = json_pack("{s:s, s:I}", "event", event, "step", (json_int_t)step);
    json_t *string = json_string(text);
    /* null: the text is not UTF-8 */
    json_object_set_new(object, "text", string ? string : json_null());
    put(log, object);
}

void dt_log_traffic(DtLog *log, const DtRank *rank, const DtTraffic *traffic)
{
    const DtPlan *plan = rank->plan;
    json_t *groups = json_array(), *channels = json_array();
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        json_t *axes = json_array();
        for (uint32_t m = 0; m < plan->n_mesh; m++)
            if (plan->groups[g].mask >> m & 1)
                json_array_append_new(axes, json_string(dt_plan_str(plan, plan->mesh[m].name)));
        json_array_append_new(groups, json_pack("{s:o, s:i, s:I}", "axes", axes, "ranks",
                                                (int)plan->groups[g].size, "received",
                                                (json_int_t)traffic->sums[g]));
    }
    for (uint32_t c = 0; c < plan->n_channels; c++)
        json_array_append_new(channels,
                              json_integer((json_int_t)traffic->sums[plan->n_groups + c]));
    put(log,
        json_pack("{s:s, s:I, s:I, s:o, s:o}", "event", "traffic", "step", (json_int_t)rank->step,
                  "steps", (json_int_t)traffic->steps, "groups", groups, "channels", channels));
}

DtStatus dt_log_close(DtLog *log)
{
    const DtStatus failure = log->failure;
    fclose(log->file);
    free(log);
    return failure;
}
