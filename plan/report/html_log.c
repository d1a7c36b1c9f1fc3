/* SPDX-License-Identifier: Apache-2.0 */
/* A log of dtrun as curves: losses, evaluations, seconds of steps, learning rates, by step. A
 * run that was resumed did some steps twice: the later ones count. Curves with many points are
 * thinned: the smallest and largest of adjacent points are kept, so that no spike is lost. */
#include "plan/report/html.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 1500, MOST_CURVES = 24, MOST_NAME = 60 };
static const int64_t MOST_BYTES = 1 << 28;

typedef struct Point { double step, value; } Point;
typedef struct Curve {
    char name[MOST_NAME + 1];
    const char *kind; /* "loss", "eval", "seconds", "lr", "norm" */
    DT_VEC(Point) points;
    int64_t odd;      /* the value is no number */
} Curve;

typedef struct Log {
    DtArena *arena;
    DT_VEC(Curve) curves;
    int64_t lines, steps;
    char model[MOST_NAME + 1];
    double ranks;
} Log;

static Curve *curve_of(Log *log, const char *kind, const char *name)
{
    for (uint32_t i = 0; i < log->curves.n; i++)
        if (!strcmp(log->curves.at[i].kind, kind) &&
            !strncmp(log->curves.at[i].name, name, MOST_NAME))
            return &log->curves.at[i];
    if (log->curves.n == MOST_CURVES)
        return NULL;
    Curve curve = {.kind = kind};
    snprintf(curve.name, sizeof curve.name, "%.*s", MOST_NAME, name);
    DT_PUSH(log->arena, log->curves, curve);
    return &log->curves.at[log->curves.n - 1];
}

static void add_point(Log *log, const char *kind, const char *name, double step,
                      const json_t *value)
{
    Curve *curve = value ? curve_of(log, kind, name) : NULL;
    if (!curve)
        return;
    while (curve->points.n && curve->points.at[curve->points.n - 1].step >= step)
        curve->points.n--;
    if (json_is_number(value))
        DT_PUSH(log->arena, curve->points, ((Point){step, json_number_value(value)}));
    else
        curve->odd++;
}

static void add_step(Log *log, const json_t *event, double step)
{
    const char *name;
    json_t *one;
    add_point(log, "loss", "loss", step, json_object_get(event, "loss"));
    add_point(log, "lr", "lr", step, json_object_get(event, "lr"));
    add_point(log, "norm", "norm", step, json_object_get(event, "grad_norm"));
    json_object_foreach(json_object_get(event, "losses"), name, one) {
        add_point(log, "loss", name, step, json_object_get(one, "loss"));
        add_point(log, "lr", name, step, json_object_get(one, "lr"));
    }
    add_point(log, "seconds", "seconds", step, json_object_get(event, "seconds"));
    log->steps++;
}

static void add_eval(Log *log, const json_t *event, double step)
{
    const char *name;
    json_t *one;
    add_point(log, "eval", "loss", step, json_object_get(event, "loss"));
    json_object_foreach(json_object_get(event, "losses"), name, one)
        add_point(log, "eval", name, step, one);
    json_object_foreach(json_object_get(event, "metrics"), name, one)
        add_point(log, "metric", name, step, one);
}

static void add_line(Log *log, const char *line, size_t len)
{
    json_t *event = json_loadb(line, len, 0, NULL);
    const char *kind = json_string_value(json_object_get(event, "event"));
    const double step = json_number_value(json_object_get(event, "step"));
    log->lines += kind != NULL;
    if (kind && !strcmp(kind, "step"))
        add_step(log, event, step);
    else if (kind && !strcmp(kind, "eval"))
        add_eval(log, event, step);
    else if (kind && !strcmp(kind, "start")) {
        const char *model = json_string_value(json_object_get(event, "model"));
        snprintf(log->model, sizeof log->model, "%.*s", MOST_NAME, model ? model : "");
        log->ranks = json_number_value(json_object_get(event, "ranks"));
    }
    json_decref(event);
}

/* ---- as JSON ---- */

static json_t *json_words(const char *words)
{
    DtText shown = {0};
    dt_text_add_visible(&shown, words, strlen(words));
    json_t *json = json_string(shown.at ? shown.at : "");
    dt_text_free(&shown);
    return json;
}

static void put_point(json_t *list, const Point *point)
{
    json_array_append_new(list, json_pack("[f, f]", point->step, point->value));
}

static json_t *json_points(const Curve *curve)
{
    json_t *list = json_array();
    const uint32_t n = curve->points.n, each = n <= MOST_POINTS ? 1 : 2 * n / MOST_POINTS + 1;
    for (uint32_t from = 0; from < n; from += each) {
        uint32_t least = from, most = from;
        for (uint32_t i = from; i < n && i < from + each; i++) {
            least = curve->points.at[i].value < curve->points.at[least].value ? i : least;
            most = curve->points.at[i].value > curve->points.at[most].value ? i : most;
        }
        put_point(list, &curve->points.at[least < most ? least : most]);
        if (least != most)
            put_point(list, &curve->points.at[least < most ? most : least]);
    }
    return list;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median of all values, before points are dropped. */
static double median_of(DtArena *arena, const Curve *curve)
{
    double *values = DT_NEW_ARRAY(arena, double, curve->points.n + 1);
    for (uint32_t i = 0; i < curve->points.n; i++)
        values[i] = curve->points.at[i].value;
    qsort(values, curve->points.n, sizeof *values, by_value);
    return curve->points.n ? values[curve->points.n / 2] : 0;
}

static json_t *json_log(const Log *log, const char *path)
{
    json_t *curves = json_array();
    const char *slash = strrchr(path, '/');
    for (uint32_t i = 0; i < log->curves.n; i++) {
        const Curve *curve = &log->curves.at[i];
        json_array_append_new(
            curves, json_pack("{s:s, s:o, s:o, s:I, s:I, s:f}", "kind", curve->kind, "name",
                              json_words(curve->name), "points", json_points(curve), "odd",
                              (json_int_t)curve->odd, "n", (json_int_t)curve->points.n, "median",
                              median_of(log->arena, curve)));
    }
    return json_pack("{s:o, s:o, s:f, s:o}", "name", json_words(slash ? slash + 1 : path), "model",
                     json_words(log->model), "ranks", log->ranks, "curves", curves);
}

DtStatus dt_html_log(const char *path, json_t **ret_json)
{
    DtArena *arena = dt_arena_new();
    Log log = {.arena = arena};
    char *text;
    size_t len;
    DtStatus status = dt_file_read(arena, path, MOST_BYTES, &text, &len);
    *ret_json = NULL;
    for (size_t at = 0; dt_status_ok(&status) && at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end ? (size_t)(end - text) - at : len - at;
        add_line(&log, text + at, n);
        at += n + 1;
    }
    if (dt_status_ok(&status) && !log.steps)
        status = dt_status_fail(
            DT_EXIT_IO, "%.200s has no steps: a log is what dtrun PLAN --log FILE writes", path);
    if (dt_status_ok(&status))
        *ret_json = json_log(&log, path);
    dt_arena_free(arena);
    return status;
}
