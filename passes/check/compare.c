/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training on both sides, and the comparison of everything that an entry leaves. */
#include "passes/check/internal.h"

#include "base/intern.h"
#include "ir/round.h"

#include <math.h>
#include <string.h>

/* Tolerance relative to a value's own norm; ret_least: for a gradient, the least norm to compare
 * with, relative to that of all gradients. */
static double tolerance_of(const DtJudgeCase *c, double *ret_least)
{
    *ret_least = c->rounds ? 0.05 : 1e-3;
    if (!c->rounds)
        return 1e-10;
    const DtDtype dtype = c->train ? c->train->precision.compute : DT_F32;
    return 16 * (dtype == DT_BF16 ? 0x1p-9 : dtype == DT_F16 ? 0x1p-12 : 0x1p-24);
}

/* shake: the relative size of a perturbation; SHAKES: how many perturbed runs there are; see
 * moves_by_itself. */
static const double shake = 2e-14;
enum { SHAKES = 4 };
/* Largest difference, relative to a value's norm, that may be excused as rounding, however much the
 * program magnifies roundings. */
static const double most_excused = 1e-5;

double dt_judge_tolerance(const DtJudge *j)
{
    double least;
    return tolerance_of(j->of, &least);
}

void dt_judge_round(const DtJudge *j, DtTensor *tensor)
{
    const int64_t n = j->of->rounds ? dt_type_elements(tensor->type) : 0;
    for (int64_t i = 0; i < n; i++)
        tensor->at[i] = dt_round_to(tensor->type->dtype, tensor->at[i]);
}

/* ---- the serial side ---- */

/* Returns a copy of the tensor in which each element is changed by a fraction of about `shake`. */
static DtTensor *shaken(const DtJudge *j, const DtTensor *tensor)
{
    DtTensor *made = dt_interp_tensor(j->arena, tensor->type);
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++) {
        const int64_t step = (i * 7 + (int64_t)j->shakes * 5) % 11 - 5; /* -5 ... 5 */
        made->at[i] = tensor->at[i] * (1 + shake * (double)step);
    }
    return made;
}

DtTensor *dt_judge_given(DtJudge *j, const DtOp *op)
{
    if (j->start)
        return dt_judge_fed(j, op);
    DtTensor *tensor = dt_interp_tensor(j->arena, op->out[0]->type);
    if (op->text[0] == '@') {
        tensor->at[0] = dt_judge_scalar(j->of->train, op->text, j->step);
        return isnan(tensor->at[0]) ? NULL : tensor;
    }
    if (!dt_judge_input(j->of->train, op->text, j->step, false, tensor))
        return NULL;
    dt_judge_round(j, tensor);
    return tensor;
}

static DtTensor *source(void *context, const DtOp *op)
{
    DtJudge *j = context;
    if (op->kind == DT_OP_PARAM) {
        const DtTensor *held = j->serial[op->store->index];
        const bool changes = j->shakes && held && dt_dtype_is_float(held->type->dtype);
        return changes ? shaken(j, held) : j->serial[op->store->index];
    }
    DtTensor *tensor = dt_judge_given(j, op);
    const bool changes =
        tensor && j->shakes && op->text[0] != '@' && dt_dtype_is_float(tensor->type->dtype);
    return changes ? shaken(j, tensor) : tensor;
}

static DtTensor **run_serial(DtJudge *j, const DtEntryPoint *entry)
{
    DtInterp interp = {.arena = j->arena,
                       .seed = j->seed,
                       .step = j->step,
                       .source = source,
                       .context = j,
                       .rounds = j->of->rounds,
                       .path = dt_entry_draws(entry)};
    DtTensor **results = DT_NEW_ARRAY(j->arena, DtTensor *, entry->results.n + 1);
    dt_interp_run(&interp, entry->func, NULL, results);
    return results;
}

/* ---- the measure ---- */

static double norm(const DtTensor *tensor)
{
    double squares = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        squares += tensor->at[i] * tensor->at[i];
    return sqrt(squares);
}

/* Returns the norm of all gradients among the entry's results, taken as one long vector. */
static double gradient_norm(const DtEntryPoint *entry, DtTensor *const *results)
{
    double squares = 0;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (store && store->kind == DT_STORE_GRAD)
            squares += pow(norm(results[i]), 2);
    }
    return sqrt(squares);
}

static bool same_extents(const DtType *a, const DtType *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->axes[i].name == b->axes[i].name && a->axes[i].extent == b->axes[i].extent;
    return same;
}

int64_t dt_judge_worst(const DtTensor *got, const DtTensor *want)
{
    int64_t worst = 0;
    double most = -1;
    for (int64_t i = 0; i < dt_type_elements(want->type); i++) {
        double difference = fabs(got->at[i] - want->at[i]);
        if (!(difference <= most)) {
            worst = i;
            most = difference;
        }
        if (isnan(difference))
            break;
    }
    return worst;
}

const char *dt_judge_coordinates(DtArena *arena, const DtType *type, int64_t element)
{
    const char *text = "";
    for (uint32_t i = type->rank; i-- > 0;) {
        text =
            dt_arena_printf(arena, "%s %lld%s%s", type->axes[i].name,
                            (long long)(element % type->axes[i].extent), *text ? ", " : "", text);
        element /= type->axes[i].extent;
    }
    return *text ? dt_arena_printf(arena, "[%s]", text) : "";
}

/* Returns the lowest rank that holds an element (its row-major number) of a value of this placed
 * type. */
static uint32_t holder_of(const DtJudge *j, const DtType *type, int64_t element)
{
    uint32_t rank = 0;
    for (uint32_t i = type->rank; i-- > 0;) {
        dt_ranks_find(&type->axes[i], j->mesh, element % type->axes[i].extent, rank, &rank);
        element /= type->axes[i].extent;
    }
    return rank;
}

/* A value as the serial program computes it (`want`) and as the ranks do (`got`). */
typedef struct Pair {
    const char *what; /* "gradient of `h.attention.wq.w`" */
    DtSpan span;
    const DtTensor *want;
    DtTensor *got;
    const DtType *placed; /* how ranks hold it */
    double all;           /* norm of all gradients if the value is a gradient; else 0 */
    uint32_t number;      /* its number among the entry's results */
} Pair;

static double distance(const DtTensor *a, const DtTensor *b)
{
    double squares = 0;
    for (int64_t i = 0; i < dt_type_elements(a->type); i++)
        squares += pow(a->at[i] - b->at[i], 2);
    return sqrt(squares);
}

/* Returns the norm of all stores of the serial program before the current entry, as one long
 * vector. */
static double norm_of_all(const DtJudge *j)
{
    double squares = 0;
    for (uint32_t i = 0; i < j->of->serial->stores.n; i++)
        squares += j->before[i] ? pow(norm(j->before[i]), 2) : 0;
    return sqrt(squares);
}

/* How far the value moves in the serial program if parameters and samples change in their last
 * digits, by some hundred roundoffs each. That is more than another order of additions changes
 * anywhere in the program, and the program magnifies both alike on the way to this value. The
 * largest of several runs. */
static double moves_by_itself(DtJudge *j, const Pair *p)
{
    DtTensor **after = j->serial;
    double most = 0;
    if (!j->reruns) {
        j->reruns = DT_NEW_ARRAY(j->arena, DtTensor **, SHAKES);
        j->serial = j->before;
        for (j->shakes = 1; j->shakes <= SHAKES; j->shakes++)
            j->reruns[j->shakes - 1] = run_serial(j, j->entry);
        j->shakes = 0;
        j->serial = after;
    }
    for (uint32_t i = 0; i < SHAKES; i++)
        most = fmax(most, distance(j->reruns[i][p->number], p->want));
    return most;
}

/* Whether a difference above the tolerance is still rounding. Deep stacks of normalisations magnify
 * roundings, so a value may differ by as much as it moves by itself (and most_excused). Some values
 * are zero apart from rounding, such as the mean of centred values. Their norm is no measure; the
 * difference must be below the roundings of the program's other values. ret_most: the accepted
 * difference relative to the norm, or 0. */
static bool is_rounding(DtJudge *j, const Pair *p, double difference, double scale,
                        double *ret_most)
{
    const bool is_zero = difference <= 1e-10 * norm_of_all(j);
    *ret_most = 0;
    if (j->of->rounds)
        return false;
    const double most = moves_by_itself(j, p);
    *ret_most = most / scale;
    return (is_zero && difference <= 100 * most) || difference <= fmin(most, most_excused * scale);
}

static bool compare(DtJudge *j, DtJudgeRow *row, const Pair *p)
{
    if (!same_extents(p->want->type, p->got->type))
        return dt_judge_problem(j, "entry %s: %s has other axes than in the serial program%s",
                                row->entry, p->what, dt_judge_line(j, p->span));
    double least, tolerance = tolerance_of(j->of, &least);
    double reference = norm(p->want), scale = fmax(reference, least * p->all);
    double difference = distance(p->got, p->want),
           relative = difference > 0 ? difference / scale : difference;
    row->values++;
    row->elements += dt_type_elements(p->want->type);
    row->zeros += reference == 0;
    double most = 0;
    if (isfinite(reference) && difference > tolerance * scale &&
        is_rounding(j, p, difference, scale, &most)) {
        row->zeros += reference != 0 && relative > most_excused;
        if (relative <= most_excused) {
            row->magnified++;
            row->most = fmax(row->most, relative);
        }
        return true;
    }
    if (!(relative <= row->worst)) {
        row->worst = relative;
        row->where = p->what;
    }
    if (isfinite(reference) && difference <= tolerance * scale)
        return true;
    j->out->not_finite = !isfinite(reference);
    if (!isfinite(reference))
        return dt_judge_problem(
            j,
            "entry %s: %s is not finite in the serial program, which proves nothing; "
            "-D may give extents that do better%s",
            row->entry, p->what, dt_judge_line(j, p->span));
    if (relative <= most) {
        j->out->not_stable |= !j->out->problem.len;
        return dt_judge_problem(j,
                                "entry %s, step %u: %s differs by %.3g of its norm, and by %.3g in "
                                "the serial program if parameters and "
                                "samples change in digit 13, which proves nothing; -D may give "
                                "extents that do better%s",
                                row->entry, j->step, p->what, relative, most,
                                dt_judge_line(j, p->span));
    }
    int64_t element = dt_judge_worst(p->got, p->want);
    return dt_judge_problem(
        j,
        "entry %s, step %u: %s differs by %.3g of its norm: %.17g%s on rank %s, serially %.17g%s",
        row->entry, j->step, p->what, relative, p->got->at[element],
        dt_judge_coordinates(j->arena, p->want->type, element),
        dt_judge_rank(j, holder_of(j, p->placed, element)), p->want->at[element],
        dt_judge_line(j, p->span));
}

static DtJudgeRow *row_of(DtJudge *j, const char *entry)
{
    for (uint32_t i = 0; i < j->out->rows.n; i++)
        if (strcmp(j->out->rows.at[i].entry, entry) == 0)
            return &j->out->rows.at[i];
    DT_PUSH(j->arena, j->out->rows, ((DtJudgeRow){.entry = entry}));
    return &j->out->rows.at[j->out->rows.n - 1];
}

const char *dt_judge_describe(DtArena *arena, const DtStore *store)
{
    static const char *const kinds[] = {[DT_STORE_PARAM] = "parameter",
                                        [DT_STORE_STATE] = "state",
                                        [DT_STORE_GRAD] = "gradient of",
                                        [DT_STORE_MOMENT1] = "first moment of",
                                        [DT_STORE_MOMENT2] = "second moment of",
                                        [DT_STORE_MOMENT3] = "third moment of",
                                        [DT_STORE_MOMENT4] = "fourth moment of",
                                        [DT_STORE_MASTER] = "master copy of",
                                        [DT_STORE_AVERAGE] = "average of",
                                        [DT_STORE_NEXT] = "next value of",
                                        [DT_STORE_CODES] = "codes of",
                                        [DT_STORE_SCALES] = "scales of",
                                        [DT_STORE_CACHE] = "cache"};
    return dt_arena_printf(arena, "%s `%s`", kinds[store->kind], store->path);
}

/* ---- entries ---- */

/* Sets pair->got and pair->placed to what the ranks have computed for a serial result, and its
 * placed type. Reports a problem and returns false if the placed program has no such result. */
static bool find_counterpart(DtJudge *j, const char *entry, const DtEntryResult *result, Pair *pair)
{
    const DtStore *store;
    if (result->store) {
        pair->got = dt_judge_whole(j, result->store, &store);
        pair->placed = store ? store->type : NULL;
        return pair->got != NULL;
    }
    for (uint32_t i = 0; i < j->named.n; i++) {
        const DtSettled *settled = &j->named.at[i];
        if (strcmp(settled->name, result->name) != 0)
            continue;
        pair->got = dt_ranks_join(j->arena, settled->at, settled->type, j->mesh);
        pair->placed = settled->type;
        return true;
    }
    return dt_judge_problem(j, "entry %s: the placed program has no %s%s", entry, pair->what,
                            dt_judge_line(j, pair->span));
}

bool dt_judge_entry(DtJudge *j, DtEntryKind kind, const char *objective)
{
    const DtEntryPoint *serial = dt_entry_whole(j->of->serial, kind, objective);
    if (!serial)
        return true;
    DtTensor **results = run_serial(j, serial);
    if ((kind == DT_ENTRY_GRAD && j->step == 0 && !dt_judge_gradients(j, serial, results)) ||
        (kind == DT_ENTRY_UPDATE && !dt_judge_update(j, serial, results)) ||
        (kind == DT_ENTRY_PREDICT && !dt_judge_predicted(j, results)))
        return false;
    j->entry = serial;
    j->reruns = NULL;
    memcpy(j->before, j->serial, j->of->serial->stores.n * sizeof *j->before);
    if (!dt_judge_run(j, kind, objective))
        return false;
    for (uint32_t i = 0; i < serial->results.n; i++)
        if (serial->results.at[i].store)
            j->serial[serial->results.at[i].store->index] = results[i];
    double all = gradient_norm(serial, results);
    bool good = true;
    DtJudgeRow *row = row_of(j, serial->name);
    for (uint32_t i = 0; i < serial->results.n; i++) {
        const DtEntryResult *result = &serial->results.at[i];
        Pair pair = {.what =
                         result->store ? dt_judge_describe(j->arena, result->store) : result->name,
                     .span = result->store ? result->store->span : serial->func->span,
                     .want = results[i],
                     .number = i,
                     .all = result->store && result->store->kind == DT_STORE_GRAD ? all : 0};
        good &= find_counterpart(j, serial->name, result, &pair) && compare(j, row, &pair);
        if (good && result->store)
            j->serial[result->store->index] = pair.got;
    }
    return good && !j->out->problem.len;
}

/* Runs the entries "grad" and "update" of every loss once, including losses that `every` would
 * leave out of this step, and each exchange of replicas. Returns false at the first problem. */
static bool run_step(DtJudge *j)
{
    bool good = true;
    for (const DtEntryPoint *grad = NULL;
         good && (grad = dt_entry_next(j->of->serial, DT_ENTRY_GRAD, grad));)
        good = dt_judge_entry(j, DT_ENTRY_GRAD, grad->objective) &&
               dt_judge_entry(j, DT_ENTRY_UPDATE, grad->objective);
    for (const DtEntryPoint *mix = NULL;
         good && (mix = dt_entry_next(j->of->serial, DT_ENTRY_MIX, mix));)
        good = dt_judge_entry(j, DT_ENTRY_MIX, mix->objective);
    return good;
}

bool dt_judge_compare(const DtJudgeCase *c, DtJudgement *ret_judgement)
{
    DtJudge judge = {.of = c, .arena = c->arena, .mesh = &c->placed->mesh, .out = ret_judgement},
            *j = &judge;
    *ret_judgement = (DtJudgement){.micro = 1};
    j->n = ret_judgement->ranks = dt_ranks_count(j->mesh);
    j->seed = c->train ? c->train->seed : 0;
    if (j->mesh->n && j->mesh->axes[0].is_time) {
        j->time = 1;
        ret_judgement->micro = (uint32_t)j->mesh->axes[0].size;
        ret_judgement->ranks /= ret_judgement->micro;
    }
    dt_judge_begin(j);
    bool good = true;
    for (j->step = 0; good && c->train && j->step < c->steps; j->step++)
        good = run_step(j);
    if (!good || !dt_judge_entry(j, DT_ENTRY_QUANTIZE, NULL) ||
        !dt_judge_entry(j, DT_ENTRY_EVAL, NULL) ||
        !dt_judge_entry(j, DT_ENTRY_EVAL, dt_intern(DT_ENTRY_CODES)) ||
        !dt_judge_entry(j, DT_ENTRY_PREDICT, NULL))
        return false;
    const DtEntryPoint *predict = dt_entry_whole(c->serial, DT_ENTRY_PREDICT, NULL);
    const bool generates = dt_entry_whole(c->serial, DT_ENTRY_DECODE, NULL) != NULL;
    return !generates || dt_judge_generation(j, run_serial(j, predict));
}

void dt_judge_print(const DtJudgement *judgement, DtText *ret_text)
{
    dt_text_printf(ret_text, "%-10s %8s %8s %12s  %s\n", "entry", "values", "all zero", "elements",
                   "largest difference");
    for (uint32_t i = 0; i < judgement->rows.n; i++) {
        const DtJudgeRow *row = &judgement->rows.at[i];
        dt_text_printf(ret_text, "%-10s %8u %8u %12lld  %.2g%s%s\n", row->entry, row->values,
                       row->zeros, (long long)row->elements, row->worst,
                       row->where ? " of the norm of " : "", row->where ? row->where : "");
        if (row->magnified)
            dt_text_printf(ret_text,
                           "           and %u of them by up to %.2g, less than the serial program "
                           "moves if parameters "
                           "and samples change in digit 13\n",
                           row->magnified, row->most);
    }
    if (judgement->learned)
        dt_text_printf(
            ret_text,
            "gradients: those of the loss, by forward derivatives along a random direction over %u "
            "parameters, but for %.2g\n",
            judgement->learned, judgement->derivative);
    if (judgement->coded)
        dt_text_printf(ret_text,
                       "codes: of %u parameters, at most half a scale from the weights; predict "
                       "computes from them what it does from the weights that they stand for\n",
                       judgement->coded);
    if (judgement->generated && !judgement->problem.len)
        dt_text_printf(ret_text, "generation: equal to predict at %u positions, but for %.2g\n",
                       judgement->generated, judgement->generation);
    if (judgement->updated)
        dt_text_printf(
            ret_text,
            "update: %u values are what the formulas of the optimizer say, but for %.2g\n",
            judgement->updated, judgement->update);
}
