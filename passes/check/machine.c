/* SPDX-License-Identifier: Apache-2.0 */
/* Compares machine code with the interpreter: the values of real ranks after each event in the life
 * of a run (a step, an evaluation, a save, a resume) of the program, compiled as a plan, with the
 * serial program's. An evaluation, a save and a resume must not change a bit; one rank alone
 * resumes the same checkpoint. DtJudgeRunner runs the ranks; this file has the initial values and
 * the tolerance.
 *
 * Both compute on the same values, the interpreter in double precision, the ranks in the
 * program's dtypes. The tolerance is measured: the program runs again in its dtypes, with a
 * random error added to every rounding. That moves a value as far as its dtype, its condition
 * and the ops before it magnify roundings. So ranks may differ by a small multiple of it. Near
 * the edge of a decision (a maximum, a kink, a rounding to integers) both sides may be right.
 * That does not recur with other values, so a difference is only an error if other values show
 * it too. */
#include "passes/check/internal.h"

#include "base/formula.h"
#include "base/intern.h"
#include "base/pairs.h"
#include "ir/round.h"

#include <math.h>
#include <string.h>

/* NOISES: runs with noise, which measure how far rounding moves a value. TIMES: ranks may differ by
 * so many times the largest of these moves, since they add in another order and in blocks, whose
 * sums may be larger than any value of the program. */
enum { NOISES = 4, TIMES = 16 };
/* A difference of so many roundoffs of the norm counts as 0, for values of any size. */
enum { FREE = 4 };
/* A bound above this part of the value's norm would find no fault. */
static const double vague = 0.1;
/* Any power of two would do: in double precision nothing overflows. */
static const double usual_scale = 1024;
enum { TRIES = 3 };
/* The held-out data have this many batches and further samples; with two samples a batch, the rest
 * is a whole batch. */
enum { BATCHES = 2, REST = 2 };
/* Batch k of an evaluation uses the random numbers of step 2^31 + k. */
static const uint32_t EVAL_DRAWS = (uint32_t)1 << 31;

typedef struct Machine {
    DtArena *arena;
    const DtProgram *program;
    const DtModule *serial;
    DtJudgeMachine *out;
    uint64_t seed;
    uint32_t step, noise; /* step: the number of the step that is evaluated */
    DtJudgeLife life;
    uint32_t at;      /* number of the event in the script */
    uint32_t updates; /* bits of the objectives that the step updates */
    int64_t before;   /* the current objective's updates before the step, */
    int64_t made[DT_MAX_OBJECTIVES];
    bool evaluates;  /* inputs are held-out data */
    int64_t only;    /* if not -1: all samples of the batch are replaced by this one */
    int64_t batch, held_out; /* numbers of samples */
    DtJudgeFile *files; /* the files of held-out data; n_files 0: held-out data are synthetic */
    uint32_t n_files;
    DtTensor **held; /* by number of the serial store */
    DtTensor **saved; /* their values when the run was saved, */
    DtJudgeLife saved_life;
    DtInterp *interp;
} Machine;

/* A result of an entry of the plan without a store; is_shown: the run prints it under that name. */
typedef struct Named {
    const char *name, *entry;
    bool is_shown;
    DtTensor *value;
} Named;

/* The results of an event. */
typedef struct Left {
    DtTensor **stores; /* by number of the serial store */
    DT_VEC(Named) named;
} Left;

/* ---- values to begin with ---- */

static bool is_kept(const DtStore *store)
{
    return store->kind == DT_STORE_PARAM || store->kind == DT_STORE_STATE ||
           store->kind == DT_STORE_MASTER || store->kind == DT_STORE_AVERAGE ||
           (store->kind >= DT_STORE_MOMENT1 && store->kind <= DT_STORE_MOMENT4);
}

static const DtStore *master_of(const DtModule *module, const DtStore *param)
{
    for (uint32_t i = 0; param->kind == DT_STORE_PARAM && i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_MASTER &&
            strcmp(module->stores.at[i]->path, param->path) == 0)
            return module->stores.at[i];
    return NULL;
}

/* The initial value of a store, rounded to its dtype. A parameter's is its master copy, rounded
 * again. */
static DtTensor *initial(const Machine *m, const DtStore *store, uint32_t attempt)
{
    const DtStore *master = master_of(m->serial, store);
    DtTensor *tensor = dt_interp_tensor(m->arena, store->type);
    dt_judge_initial(store, m->seed, attempt, tensor);
    for (int64_t i = 0; i < dt_type_elements(store->type); i++) {
        const double wide =
            master ? dt_round_to(master->type->dtype, tensor->at[i]) : tensor->at[i];
        tensor->at[i] = dt_round_to(store->type->dtype, wide);
    }
    return tensor;
}

static DtTensor **all_initial(const Machine *m, uint32_t attempt)
{
    DtTensor **tensors = DT_NEW_ARRAY(m->arena, DtTensor *, m->serial->stores.n + 1);
    for (uint32_t i = 0; i < m->serial->stores.n; i++)
        if (is_kept(m->serial->stores.at[i]))
            tensors[i] = initial(m, m->serial->stores.at[i], attempt);
    return tensors;
}

/* ---- the interpreter's side ---- */

/* Replaces all samples of the batch by sample m->only. */
static void repeat_sample(const Machine *m, DtTensor *tensor)
{
    const int64_t batch = tensor->type->axes[0].extent,
                  row = dt_type_elements(tensor->type) / batch;
    for (int64_t i = 0; i < batch; i++)
        memmove(tensor->at + i * row, tensor->at + m->only * row, sizeof(double) * (size_t)row);
}

static DtTensor *source(void *context, const DtOp *op)
{
    Machine *m = context;
    DtTensor *tensor = dt_interp_tensor(m->arena, op->out[0]->type);
    const bool is_scalar = op->kind == DT_OP_INPUT && op->text[0] == '@';
    if (op->kind == DT_OP_PARAM) {
        const DtTensor *held = m->held[op->store->index];
        if (!held)
            return NULL;
        memcpy(tensor->at, held->at, sizeof(double) * (size_t)dt_type_elements(tensor->type));
    } else if (is_scalar) {
        const DtJudgeWhen when = {.step = m->step,
                                  .updates = (double)m->before + 1,
                                  .loss_scale = usual_scale,
                                  .own_rates = m->life.is_life};
        tensor->at[0] = dt_judge_scalar_when(m->program->train, op->text, &when);
        return isnan(tensor->at[0]) ? NULL : tensor;
    } else {
        const bool is_file = m->evaluates && dt_judge_file_input(m->files, m->n_files, op->text,
                                                                 m->step, tensor);
        if (!is_file &&
            !dt_judge_input(m->program->train, op->text, m->step, m->evaluates, tensor))
            return NULL;
        if (m->only >= 0)
            repeat_sample(m, tensor);
    }
    if (m->noise && dt_dtype_is_float(tensor->type->dtype))
        dt_interp_move(m->interp, tensor);
    return tensor;
}

static void run_entry(Machine *m, DtEntryKind kind, const char *objective, Left *left)
{
    const DtEntryPoint *entry = dt_entry_whole(m->serial, kind, objective);
    if (!entry)
        return;
    DtInterp interp = {.arena = m->arena, .seed = m->seed, .source = source, .context = m,
                       .step = m->step + (m->evaluates ? EVAL_DRAWS : 0), .noise = m->noise,
                       .path = dt_entry_draws(entry), .n_moved = (uint64_t)m->step << 32};
    DtTensor **results = DT_NEW_ARRAY(m->arena, DtTensor *, entry->results.n + 1);
    m->interp = &interp;
    dt_interp_run(&interp, entry->func, NULL, results);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        if (result->store) {
            left->stores[result->store->index] = results[i];
            continue;
        }
        DT_PUSH(m->arena, left->named,
                ((Named){.name = result->name, .entry = dt_entry_run(entry), .value = results[i]}));
    }
    for (uint32_t i = 0; i < m->serial->stores.n; i++)
        m->held[i] = left->stores[i] ? left->stores[i] : m->held[i];
}

/* ---- printed values ---- */

typedef struct Names {
    const Left *left;
    const char *entry;
    double batches;
} Names;

static bool look_up(const void *context, const char *name, size_t len, double *ret_value)
{
    const Names *names = context;
    if (len == 7 && memcmp(name, "batches", len) == 0) {
        *ret_value = names->batches;
        return true;
    }
    for (uint32_t i = 0; i < names->left->named.n; i++) {
        const Named *named = &names->left->named.at[i];
        if (named->is_shown || named->value->type->rank ||
            strcmp(named->entry, names->entry) != 0 || strlen(named->name) != len ||
            memcmp(named->name, name, len) != 0)
            continue;
        *ret_value = named->value->at[0];
        return true;
    }
    return false;
}

/* Adds to left's named results the losses and metrics that the run prints, which are expressions of
 * the entry's results. */
static void add_shown(Machine *m, const char *entry, double batches, Left *left)
{
    const Names names = {left, entry, batches};
    const DtTrainConfig *train = m->program->train;
    for (uint32_t i = 0; i < train->shown.n; i++) {
        const DtShownValue *shown = &train->shown.at[i];
        Named made = {shown->name, entry, true,
                      dt_interp_tensor(m->arena, dt_type_plain(DT_F32, 0, NULL))};
        DtFormulaProblem problem;
        if (strcmp(shown->entry, entry) != 0)
            continue;
        if (shown->formula[0]
                ? dt_formula_value(shown->formula, look_up, &names, made.value->at, &problem)
                : look_up(&names, shown->name, strlen(shown->name), made.value->at))
            DT_PUSH(m->arena, left->named, made);
    }
}

/* ---- events ---- */

/* After a step whose number is a multiple of what the layout says, replicas exchange parameters: by
 * the entry of the drawn way, if there are several. */
static void mix(Machine *m, Left *left)
{
    const DtReplicas *replicas = &m->program->train->replicas;
    const int64_t ways = dt_replicas_ways(replicas);
    if (replicas->mix == DT_MIX_NONE || (m->step + 1) % replicas->every != 0)
        return;
    const int64_t way = dt_pairs_draw(m->seed, m->step, ways);
    run_entry(m, DT_ENTRY_MIX, ways > 1 ? dt_intern_printf("%lld", (long long)way) : NULL, left);
}

static void run_step(Machine *m, Left *left)
{
    uint32_t number = 0;
    const DtEntryPoint *grad = NULL;
    for (; (grad = dt_entry_next(m->serial, DT_ENTRY_GRAD, grad)); number++) {
        if (!(m->updates >> number & 1))
            continue;
        m->before = m->made[number];
        run_entry(m, DT_ENTRY_GRAD, grad->objective, left);
        run_entry(m, DT_ENTRY_UPDATE, grad->objective, left);
        add_shown(m, dt_entry_run(grad), 1, left);
    }
    mix(m, left);
}

/* Evaluates a batch and adds `weight` times its results to those of earlier batches in left. only:
 * if not -1, all samples of the batch are replaced by this one. */
static void add_batch(Machine *m, uint32_t number, int64_t only, double weight, Left *left)
{
    Left batch = {.stores = left->stores};
    m->step = number;
    m->only = only;
    run_entry(m, DT_ENTRY_EVAL, NULL, &batch);
    m->only = -1;
    for (uint32_t i = 0; i < batch.named.n; i++) {
        Named named = batch.named.at[i];
        const double value = named.value->at[0] * weight;
        named.value = dt_interp_tensor(m->arena, named.value->type);
        if (left->named.n < batch.named.n)
            DT_PUSH(m->arena, left->named, named);
        left->named.at[i].value->at[0] += value;
    }
}

/* The samples that an evaluation covers: whole batches, and samples after them, if a sample has a
 * term of its own in all results. */
static int64_t covered(const Machine *m, const DtJudgeEvent *event, int64_t held_out,
                       int64_t *ret_rest)
{
    const int64_t whole = held_out / m->batch;
    const bool all = event->batches == 0 || event->batches > whole;
    *ret_rest = all && m->program->train->eval_rest ? held_out - whole * m->batch : 0;
    return all ? whole : event->batches;
}

/* An evaluation: the mean over all samples, each of which counts once. In whole batches a result is
 * the mean over the batch. Each further sample is evaluated by itself, as a batch of one. */
static void run_evaluation(Machine *m, const DtJudgeEvent *event, Left *left)
{
    int64_t rest;
    const int64_t whole = covered(m, event, m->held_out, &rest), samples = whole * m->batch + rest;
    const uint32_t step = m->step;
    for (int64_t i = 0; i < whole; i++)
        add_batch(m, (uint32_t)i, -1, (double)m->batch / (double)samples, left);
    for (int64_t i = 0; i < rest; i++)
        add_batch(m, (uint32_t)whole, i, 1 / (double)samples, left);
    m->step = step;
    add_shown(m, "eval", (double)samples / (double)m->batch, left);
}

/* Evaluates an event, beginning with the values in m->held, which it leaves unchanged. */
static void run_once(Machine *m, uint32_t noise, const DtJudgeEvent *event, Left *ret_left)
{
    DtTensor **before = m->held;
    *ret_left = (Left){.stores = DT_NEW_ARRAY(m->arena, DtTensor *, m->serial->stores.n + 1)};
    m->held = DT_NEW_ARRAY(m->arena, DtTensor *, m->serial->stores.n + 1);
    memcpy(m->held, before, m->serial->stores.n * sizeof *before);
    m->noise = noise;
    m->evaluates = event->kind == DT_JUDGE_EVALUATE;
    const bool saves = event->kind == DT_JUDGE_SAVE;
    if ((m->evaluates || saves) && m->program->train->replicas.mix != DT_MIX_NONE)
        run_entry(m, DT_ENTRY_MIX, dt_intern(DT_ENTRY_AVERAGE), ret_left);
    if (m->evaluates)
        run_evaluation(m, event, ret_left);
    else if (event->kind == DT_JUDGE_TRAIN)
        run_step(m, ret_left);
    m->held = before;
}

/* ---- the measure ---- */

/* An event of the serial program; its runs with noise are made when a value first needs them. */
typedef struct Step {
    Machine *m;
    const DtJudgeEvent *event;
    Left exact;
    Left *noisy;
} Step;

/* Names a value that an event leaves: the value of a store, or a named result. */
typedef struct Where {
    const DtStore *store;
    uint32_t name;
} Where;

static const DtTensor *value_at(const Left *left, const Where *where)
{
    return where->store ? left->stores[where->store->index] : left->named.at[where->name].value;
}

static double norm_of(const DtTensor *tensor)
{
    double squares = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        squares += tensor->at[i] * tensor->at[i];
    return sqrt(squares);
}

static double distance(const DtTensor *a, const DtTensor *b)
{
    double squares = 0;
    for (int64_t i = 0; i < dt_type_elements(a->type); i++)
        squares += pow(a->at[i] - b->at[i], 2);
    return sqrt(squares);
}

/* Returns the largest distance by which the runs with noise, which are made at the first call,
 * change the value. */
static double moves(Step *s, const Where *where)
{
    double most = 0;
    if (!s->noisy) {
        s->noisy = DT_NEW_ARRAY(s->m->arena, Left, NOISES);
        for (uint32_t i = 0; i < NOISES; i++)
            run_once(s->m, i + 1, s->event, &s->noisy[i]);
    }
    for (uint32_t i = 0; i < NOISES; i++) {
        const double by = distance(value_at(&s->noisy[i], where), value_at(&s->exact, where));
        most = isfinite(by) ? fmax(most, by) : INFINITY;
    }
    return most;
}

static bool problem(Machine *m, const Where *where, const char *what, const DtTensor *got,
                    const DtTensor *want, double difference, double allowed)
{
    const int64_t at = dt_judge_worst(got, want);
    const double norm = norm_of(want);
    const DtSpan span = where->store ? where->store->span : (DtSpan){0};
    if (m->out->problem.len)
        return false;
    dt_text_printf(&m->out->problem,
                   "step %u: %s differs by %.3g of its norm, roundings account for %.3g: %.9g%s by "
                   "the plan's machine "
                   "code, %.9g by the interpreter",
                   m->step + 1, what, difference / norm, allowed / norm, got->at[at],
                   dt_judge_coordinates(m->arena, want->type, at), want->at[at]);
    if (span.file && m->serial->diags) {
        uint32_t line, column;
        dt_diag_position(m->serial->diags, span, &line, &column);
        dt_text_printf(&m->out->problem, "\n  --> %s:%u:%u",
                       dt_diag_path(m->serial->diags, span.file), line, column);
    }
    return false;
}

static bool compare(Step *s, const Where *where, const char *what, const DtTensor *got)
{
    Machine *m = s->m;
    const DtTensor *want = value_at(&s->exact, where);
    const double norm = norm_of(want), difference = distance(got, want);
    double allowed = FREE * dt_interp_roundoff(want->type->dtype) * norm;
    m->out->values++;
    /* ranks have left the range of their dtype before, and noise did so too */
    if (!isfinite(norm)) {
        m->out->vague++;
        return true;
    }
    if (!(difference <= allowed))
        allowed += TIMES * moves(s, where);
    const bool is_vague = norm != 0 && !(allowed <= vague * norm);
    m->out->vague += is_vague;
    if (!(difference <= allowed) && !isinf(allowed))
        return problem(m, where, what, got, want, difference, allowed);
    if (norm > 0 && !is_vague && difference > m->out->worst * norm) {
        m->out->worst = difference / norm;
        m->out->where = what;
    }
    return true;
}

/* ---- steps ---- */

static bool compare_scalars(Step *s, const DtJudgeTrial *trial)
{
    Machine *m = s->m;
    bool good = true;
    for (uint32_t i = 0; i < s->exact.named.n; i++) {
        const Where where = {.name = i};
        const Named *named = &s->exact.named.at[i];
        DtTensor *got = dt_interp_tensor(m->arena, named->value->type);
        if (named->value->type->rank == 0 &&
            trial->scalar(trial, m->at, named->entry, named->name, named->is_shown, got->at))
            good &= compare(s, &where,
                            dt_arena_printf(m->arena, "%s%s", named->name,
                                            m->evaluates ? " of held-out data" : ""),
                            got);
    }
    return good;
}

static const char *why_kept(const Machine *m, const DtJudgeEvent *event)
{
    switch (event->kind) {
    case DT_JUDGE_EVALUATE: return "an evaluation changes nothing";
    case DT_JUDGE_SAVE: return "a save changes nothing";
    case DT_JUDGE_RESUME: return "this is a resume";
    default: return m->updates ? "no update writes it" : "the step is skipped";
    }
}

/* Checks that the event left the store's bits unchanged. */
static bool compare_kept(Machine *m, const DtJudgeEvent *event, const DtStore *store,
                         const DtTensor *got)
{
    const DtTensor *want = m->held[store->index];
    const size_t bytes = sizeof(double) * (size_t)dt_type_elements(got->type);
    if (!want || memcmp(got->at, want->at, bytes) == 0)
        return true;
    const int64_t at = dt_judge_worst(got, want);
    if (!m->out->problem.len)
        dt_text_printf(
            &m->out->problem,
            "step %u: %s is %.9g%s by the plan's machine code and was %.9g before, though %s",
            m->step + 1, dt_judge_describe(m->arena, store), got->at[at],
            dt_judge_coordinates(m->arena, want->type, at), want->at[at], why_kept(m, event));
    return false;
}

/* Compares what the ranks report of an event (losses taken and skipped, counts, loss scale) with
 * what the program says, and sets m->step and m->updates for the event. Records a problem and
 * returns false if they differ. */
static bool compare_course(Machine *m, const DtJudgeEvent *event)
{
    static const char *const called[] = {"", "an evaluation after ", "a save after ",
                                         "a resume after "};
    dt_judge_life_next(&m->life, event);
    m->step = (uint32_t)m->life.number;
    memcpy(m->made, m->life.updates, sizeof m->made);
    m->updates = event->taken & ~event->skipped;
    m->out->skipped += event->skipped != 0;
    const char *wrong = dt_judge_life_went(&m->life, m->arena, event);
    if (wrong && !m->out->problem.len)
        dt_text_printf(&m->out->problem, "%sstep %u %s", called[event->kind], m->step + 1, wrong);
    return wrong == NULL;
}

/* Sets the values of both sides to those of the ranks, for the next event. */
static void go_on(Machine *m, const DtJudgeTrial *trial, uint32_t at)
{
    const uint32_t n = m->serial->stores.n;
    for (uint32_t i = 0; i < n; i++)
        m->held[i] = trial->after[at][i] ? trial->after[at][i] : m->held[i];
    if (trial->script[at].kind != DT_JUDGE_SAVE)
        return;
    m->saved = DT_NEW_ARRAY(m->arena, DtTensor *, n + 1);
    memcpy(m->saved, m->held, n * sizeof *m->held);
    m->saved_life = m->life;
}

/* Compares everything that event number `at` of the script left on the ranks with the serial
 * program; false after a problem. */
static bool compare_event(Machine *m, const DtJudgeTrial *trial, uint32_t at)
{
    const DtJudgeEvent *event = &trial->script[at];
    Step step = {.m = m, .event = event};
    bool good = compare_course(m, event);
    if (!good)
        return false;
    m->at = at;
    run_once(m, 0, event, &step.exact);
    for (uint32_t i = 0; i < m->serial->stores.n; i++) {
        const Where where = {.store = m->serial->stores.at[i]};
        DtTensor *got = trial->after[at][i];
        if (!got || !is_kept(where.store))
            continue;
        good &= step.exact.stores[i]
                    ? compare(&step, &where, dt_judge_describe(m->arena, where.store), got)
                    : compare_kept(m, event, where.store, got);
    }
    good &= compare_scalars(&step, trial);
    go_on(m, trial, at);
    return good;
}

static bool compare_all(Machine *m, const DtJudgeTrial *trial)
{
    bool good = true;
    for (uint32_t at = 0; good && at < trial->events; at++)
        good = compare_event(m, trial, at);
    return good;
}

/* ---- trials ---- */

static bool evaluates(const Machine *m)
{
    const DtTrainConfig *train = m->program->train;
    return train->eval_every > 0 && train->eval_readers.n > 0;
}

static void write_script(const Machine *m, const DtJudgeRunner *runner, DtJudgeTrial *trial)
{
    const DtTrainConfig *train = m->program->train;
    trial->is_life = m->life.is_life;
    trial->lr = dt_judge_scalar(train, "@lr", 0);
    trial->held_out = m->held_out;
    trial->files = m->files;
    trial->n_files = m->n_files;
    if (trial->n_files) {
        trial->script[trial->events++] = (DtJudgeEvent){.kind = DT_JUDGE_EVALUATE};
        return;
    }
    if (trial->is_life) {
        trial->events = dt_judge_life_script(train, runner->saves, trial->script);
        return;
    }
    for (uint32_t i = 0; i < m->out->steps; i++)
        trial->script[trial->events++] =
            (DtJudgeEvent){.number = i, .loss_scale = i ? 0 : usual_scale, .good = -1};
    if (evaluates(m))
        trial->script[trial->events++] =
            (DtJudgeEvent){.kind = DT_JUDGE_EVALUATE, .batches = BATCHES};
}

/* Resumes the trial's checkpoint under another layout, runs one step after it, and compares the
 * results. */
static bool run_resumed(Machine *m, const DtLowerOptions *options, DtJudgeRunner *runner,
                        DtJudgeTrial *trial)
{
    DtJudgeTrial other = *trial;
    uint32_t at = 0;
    while (at < trial->events && trial->script[at].kind != DT_JUDGE_RESUME)
        at++;
    /* another layout has no replicas, and would not go on with them */
    if (at == trial->events || trial->ranks == 1 ||
        m->program->train->replicas.mix != DT_MIX_NONE)
        return true;
    other.is_resumed = true;
    other.events = 0;
    for (; at < trial->events && other.events < 2; at++)
        other.script[other.events++] = trial->script[at];
    if (!runner->run(runner, m->arena, options, &other))
        return !runner->failed; /* one rank may not suffice for the program */
    m->out->other = other.ranks;
    m->held = m->saved;
    m->life = m->saved_life;
    m->out->resumed++;
    return compare_all(m, &other);
}

static void count_events(Machine *m, const DtJudgeTrial *trial)
{
    int64_t rest;
    m->out->steps = 0;
    for (uint32_t i = 0; i < trial->events; i++) {
        const DtJudgeEvent *event = &trial->script[i];
        m->out->steps += event->kind == DT_JUDGE_TRAIN;
        m->out->resumed += event->kind == DT_JUDGE_RESUME;
        if (event->kind != DT_JUDGE_EVALUATE)
            continue;
        const int64_t whole = covered(m, event, m->held_out, &rest);
        m->out->evaluated = (uint32_t)(whole * m->batch + rest);
    }
}

static DtJudgeVerdict try_once(Machine *m, const DtLowerOptions *options, DtJudgeRunner *runner,
                               uint32_t attempt)
{
    DtJudgeTrial trial = {.serial = m->serial, .initial = all_initial(m, attempt)};
    dt_text_free(&m->out->problem);
    *m->out = (DtJudgeMachine){.steps = m->out->steps};
    write_script(m, runner, &trial);
    if (!runner->run(runner, m->arena, options, &trial))
        return DT_JUDGE_REJECTED;
    count_events(m, &trial);
    m->out->ranks = trial.ranks;
    m->life = (DtJudgeLife){.train = m->program->train, .is_life = trial.is_life};
    m->held = DT_NEW_ARRAY(m->arena, DtTensor *, m->serial->stores.n + 1);
    memcpy(m->held, trial.initial, m->serial->stores.n * sizeof *m->held);
    if (!compare_all(m, &trial))
        return DT_JUDGE_DIFFERS;
    if (run_resumed(m, options, runner, &trial))
        return DT_JUDGE_EQUAL;
    return runner->failed ? DT_JUDGE_REJECTED : DT_JUDGE_DIFFERS;
}

/* Runs the trial with up to three sets of initial values. The plan is wrong if values differ with
 * two of them, since one may differ by rounding. */
static DtJudgeVerdict try_values(Machine *m, const DtLowerOptions *options, DtJudgeRunner *runner)
{
    DtJudgeVerdict verdict = DT_JUDGE_DIFFERS;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < TRIES && verdict != DT_JUDGE_REJECTED; i++) {
        verdict = try_once(m, options, runner, i);
        wrong += verdict == DT_JUDGE_DIFFERS;
        if (wrong == 0 || wrong == 2 || i + 1 - wrong == 2)
            break;
    }
    return verdict;
}

/* Runs a trial with the program's own rates, evaluations and a resume (a life), after the trial of
 * plain steps at one large rate, and adds its counts to m->out. */
static DtJudgeVerdict try_life(Machine *m, const DtLowerOptions *options, DtJudgeRunner *runner)
{
    DtJudgeMachine life = {0}, *out = m->out;
    m->out = &life;
    m->life.is_life = true;
    const DtJudgeVerdict verdict = try_values(m, options, runner);
    m->out = out;
    out->problem = life.problem;
    out->life = life.steps;
    out->skipped = life.skipped;
    out->resumed = life.resumed;
    out->other = life.other;
    out->evaluated = life.evaluated;
    out->values += life.values;
    out->vague += life.vague;
    if (life.worst > out->worst) {
        out->worst = life.worst;
        out->where = life.where;
    }
    return verdict;
}

/* Runs a trial whose held-out data are in files, if the program reads any from files. */
static DtJudgeVerdict try_files(Machine *m, const DtProgram *real, bool longer,
                                const DtLowerOptions *options, DtJudgeRunner *runner)
{
    m->n_files = dt_judge_files(m->arena, m->program->train, real->train, m->held_out, longer,
                                &m->files, &m->out->no_files);
    if (!m->n_files)
        return DT_JUDGE_EQUAL;
    DtJudgeMachine files = {0}, *out = m->out;
    m->held_out = m->files[0].samples;
    m->out = &files;
    const DtJudgeVerdict verdict = try_values(m, options, runner);
    m->out = out;
    if (verdict == DT_JUDGE_REJECTED && !runner->failed) {
        out->no_files = "this layout"; /* on one rank it is not always possible */
        return DT_JUDGE_EQUAL;
    }
    out->problem = files.problem;
    out->values += files.values;
    out->windows = files.evaluated;
    return verdict;
}

/* Tries files that end with a window, and files that end just before one, if the program reads
 * any. */
static DtJudgeVerdict try_all_files(Machine *m, const DtLowerOptions *options,
                                    DtJudgeRunner *runner)
{
    DtLowerOptions own = *options;
    own.synthetic = false;
    const DtProgram *real =
        evaluates(m) && runner->saves ? dt_lower(m->arena, dt_diag_new(m->arena), &own) : NULL;
    if (!real || !real->train) {
        m->out->no_files = evaluates(m) ? "this program" : NULL;
        return DT_JUDGE_EQUAL;
    }
    const int64_t samples = m->held_out;
    DtJudgeVerdict verdict = try_files(m, real, false, options, runner);
    m->held_out = samples;
    return verdict == DT_JUDGE_EQUAL ? try_files(m, real, true, options, runner) : verdict;
}

DtJudgeVerdict dt_judge_machine(DtArena *arena, const DtJudgeProgram *task,
                                const DtLowerOptions *options, DtJudgeRunner *runner,
                                DtJudgeMachine *ret_machine)
{
    Machine machine = {.arena = arena, .out = ret_machine}, *m = &machine;
    *ret_machine = (DtJudgeMachine){.steps = task->steps};
    m->program = dt_judge_serial_program(arena, options, task->epilogues);
    m->serial = m->program->module;
    if (!m->program->train)
        return DT_JUDGE_REJECTED;
    m->seed = m->program->train->seed;
    m->only = -1;
    if (evaluates(m)) {
        m->batch = m->program->train->eval_readers.at[0].types[0]->axes[0].extent;
        m->held_out = BATCHES * m->batch + (m->batch > REST ? REST : m->batch - 1);
    }
    DtJudgeVerdict verdict = try_values(m, options, runner);
    if (verdict == DT_JUDGE_EQUAL)
        verdict = try_life(m, options, runner);
    return verdict == DT_JUDGE_EQUAL ? try_all_files(m, options, runner) : verdict;
}
