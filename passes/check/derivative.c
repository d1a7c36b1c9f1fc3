/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that gradients are those of the loss, and that the update is that of the optimizer. Both
 * passes define the serial program, so no other check compares their results with anything.
 *
 * Gradients: along a random direction d over all parameters the loss changes by its forward
 * derivative (ir/tangent.h: other rules, forward, on the program before differentiation). That must
 * equal the inner product of d with the gradients. A parameter's part of d is as long as its
 * gradient is short (except for gradients below 1/1000 of all), so all have equal weight. A
 * gradient that is wrong by a part e of its norm then shows as about e / sqrt(elements), relative
 * to sqrt(parameters). The tolerance is 1e-10 of that, or the change of both when parameters change
 * in digit 13, up to 1e-5, as in compare.c. After an error, halves of the parameters are tested
 * until one parameter is found. `stop` needs no exception: its operand has no forward derivative by
 * definition. At corners both follow the language. A custom gradient is compared with its function;
 * a surrogate, which differs on purpose, is accepted.
 *
 * The update: each optimizer is computed again, in plain loops over tensors, from the stores'
 * values. */
#include "passes/check/internal.h"

#include "base/hash.h"
#include "base/intern.h"
#include "base/philox.h"
#include "ir/tangent.h"
#include "passes/replicas/replicas.h"

#include <math.h>
#include <string.h>

static const double tolerance = 1e-10, most_excused = 1e-5, least = 1e-3, shake = 2e-14;
enum { DRAW = 78, SHAKES = 2 };

static double norm(const DtTensor *tensor)
{
    double squares = 0;
    for (int64_t i = 0; tensor && i < dt_type_elements(tensor->type); i++)
        squares += tensor->at[i] * tensor->at[i];
    return sqrt(squares);
}

static DtStore *find_store(const DtModule *module, DtStoreKind kind, const DtStore *of)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == kind && module->stores.at[i]->of == of)
            return module->stores.at[i];
    return NULL;
}

/* ---- gradients ---- */

/* A trained parameter with its gradient, and its part of the direction along which the loss is
 * differentiated. */
typedef struct Learned {
    const DtStore *store; /* of the differentiated program */
    const DtTensor *gradient;
    DtTensor *along; /* the parameter's part of the direction */
} Learned;

typedef struct Along {
    DtJudge *j;
    const DtEntryPoint *entry; /* the entry that computed the gradients */
    DtArena *arena; /* freed after each run */
    Learned *params;
    uint32_t n, first, last; /* the direction moves parameters first <= i < last only */
    uint32_t shakes;
} Along;

static DtTensor *shaken(const Along *a, DtTensor *tensor)
{
    if (!a->shakes || !dt_dtype_is_float(tensor->type->dtype))
        return tensor;
    DtTensor *made = dt_interp_tensor(a->arena, tensor->type);
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        made->at[i] =
            tensor->at[i] * (1 + shake * (double)((i * 7 + (int64_t)a->shakes * 5) % 11 - 5));
    return made;
}

/* The store of the differentiated program that corresponds to this store of the program before. */
static const DtStore *same_store(const Along *a, const DtStore *store)
{
    const DtModule *serial = a->j->of->serial;
    for (uint32_t i = 0; i < serial->stores.n; i++)
        if (serial->stores.at[i]->kind == store->kind &&
            strcmp(serial->stores.at[i]->path, store->path) == 0)
            return serial->stores.at[i];
    return NULL;
}

/* The parameter's values in the dtype of that op's result: before pass `narrow` a parameter may be
 * stored wider than layers read it. */
static DtTensor *as_read(const Along *a, const DtTensor *tensor, const DtOp *op)
{
    DtTensor *made = DT_NEW(a->arena, DtTensor);
    *made = (DtTensor){.type = op->out[0]->type, .at = tensor->at};
    return made;
}

static DtTensor *source(void *context, const DtOp *op)
{
    Along *a = context;
    if (op->kind == DT_OP_PARAM) {
        const DtStore *store = same_store(a, op->store);
        return store ? as_read(a, shaken(a, a->j->serial[store->index]), op) : NULL;
    }
    DtTensor *tensor = dt_interp_tensor(a->arena, op->out[0]->type);
    if (op->text[0] == '@') {
        tensor->at[0] = dt_judge_scalar(a->j->of->train, op->text, a->j->step);
        return tensor;
    }
    return dt_judge_input(a->j->of->train, op->text, a->j->step, false, tensor) ? tensor : NULL;
}

static DtTensor *direction(void *context, const DtOp *op)
{
    Along *a = context;
    for (uint32_t i = a->first; i < a->last; i++)
        if (op->store->kind == DT_STORE_PARAM &&
            strcmp(a->params[i].store->path, op->store->path) == 0)
            return as_read(a, a->params[i].along, op);
    return NULL;
}

static double loss_scale(const DtJudge *j)
{
    const DtPrecision *p = &j->of->train->precision;
    return p->dynamic_loss_scale ? dt_judge_scalar(j->of->train, DT_LOSS_SCALE_INPUT, j->step)
           : p->loss_scale > 0   ? p->loss_scale
                                 : 1;
}

/* The derivative of the loss along the direction, times the loss scale, as gradients have it. */
static double forward(Along *a)
{
    const DtEntryPoint *loss = dt_entry_whole(a->j->of->loss, DT_ENTRY_LOSS, a->entry->objective);
    DtArena *outer = a->arena;
    a->arena = dt_arena_new();
    DtInterp interp = {
        .arena = a->arena, .seed = a->j->seed, .step = a->j->step, .source = source, .context = a,
        .path = dt_entry_draws(a->entry)};
    DtTangents tangents = {.interp = &interp, .direction = direction, .context = a};
    DtTensor **results = DT_NEW_ARRAY(a->arena, DtTensor *, 2 * loss->results.n + 1);
    dt_tangent_run(&tangents, loss->func, NULL, NULL, results, results + loss->results.n);
    const DtTensor *moves = results[loss->results.n];
    /* the loss is the mean over replicas, each of which has the gradient of its own */
    const double n = (double)dt_replicas_in(a->j->of->serial);
    const double by = moves ? moves->at[0] * loss_scale(a->j) * n : 0;
    dt_arena_free(a->arena);
    a->arena = outer;
    return by;
}

static double inner(const Along *a, DtTensor *const *gradients)
{
    double sum = 0;
    for (uint32_t i = a->first; i < a->last; i++) {
        const DtTensor *gradient = gradients ? gradients[i] : a->params[i].gradient;
        for (int64_t k = 0; k < dt_type_elements(gradient->type); k++)
            sum += gradient->at[k] * a->params[i].along->at[k];
    }
    return sum;
}

/* Computes the gradients again, from parameters changed in their last digits, and returns their
 * inner product with the direction. */
static double inner_of_shaken(Along *a, const DtEntryPoint *entry)
{
    DtArena *outer = a->arena;
    a->arena = dt_arena_new();
    DtInterp interp = {
        .arena = a->arena, .seed = a->j->seed, .step = a->j->step, .source = source, .context = a,
        .path = dt_entry_draws(a->entry)};
    DtTensor **results = DT_NEW_ARRAY(a->arena, DtTensor *, entry->results.n + 1);
    DtTensor **gradients = DT_NEW_ARRAY(a->arena, DtTensor *, a->n + 1);
    dt_interp_run(&interp, entry->func, NULL, results);
    for (uint32_t i = 0; i < entry->results.n; i++)
        for (uint32_t k = 0; k < a->n; k++)
            if (entry->results.at[i].store && entry->results.at[i].store->kind == DT_STORE_GRAD &&
                entry->results.at[i].store->of == a->params[k].store)
                gradients[k] = results[i];
    const double sum = inner(a, gradients);
    dt_arena_free(a->arena);
    a->arena = outer;
    return sum;
}

/* Returns the most by which either derivative along the direction (forward, or by gradients)
 * changes when parameters are perturbed in their last digits, as in compare.c. */
static double moves_by_itself(Along *a, const DtEntryPoint *entry, double backward, double forwards)
{
    double most = 0;
    for (a->shakes = 1; a->shakes <= SHAKES; a->shakes++) {
        most = fmax(most, fabs(inner_of_shaken(a, entry) - backward));
        most = fmax(most, fabs(forward(a) - forwards));
    }
    a->shakes = 0;
    return most;
}

/* Computes the derivative of the loss along the direction twice, by gradients and forward, for
 * parameters first <= i < last. True if both differ by no more than the tolerance or than rounding
 * explains. ret_relative: their difference, relative to the part of one parameter. */
static bool agrees(Along *a, const DtEntryPoint *entry, double *ret_backward, double *ret_forward,
                   double *ret_relative)
{
    const double scale = sqrt((double)(a->last - a->first));
    *ret_backward = inner(a, NULL);
    *ret_forward = forward(a);
    const double difference = fabs(*ret_backward - *ret_forward);
    *ret_relative = difference / scale;
    return difference <= tolerance * scale ||
           (difference <= most_excused * scale &&
            difference <= moves_by_itself(a, entry, *ret_backward, *ret_forward));
}

/* Draws each parameter's part of the direction: random numbers, scaled to length 1 and divided by
 * the norm of the parameter's gradient. */
static void draw(Along *a)
{
    double squares = 0;
    for (uint32_t i = 0; i < a->n; i++)
        squares += pow(norm(a->params[i].gradient), 2);
    const double all = squares > 0 ? sqrt(squares) : 1;
    for (uint32_t i = 0; i < a->n; i++) {
        Learned *param = &a->params[i];
        const uint64_t key = dt_hash_text(param->store->path, a->j->seed);
        param->along = dt_interp_tensor(a->arena, param->store->type);
        for (int64_t k = 0; k < dt_type_elements(param->store->type); k++)
            param->along->at[k] = dt_philox_normal(dt_philox(key, (uint64_t)k, DRAW, 0));
        const double by = 1 / (norm(param->along) * fmax(norm(param->gradient), least * all));
        for (int64_t k = 0; k < dt_type_elements(param->store->type); k++)
            param->along->at[k] *= by;
    }
}

static bool find_wrong(Along *a, const DtEntryPoint *entry)
{
    double backward, forwards, relative;
    while (a->last - a->first > 1) {
        const uint32_t last = a->last, middle = (a->first + last) / 2;
        a->last = middle;
        if (agrees(a, entry, &backward, &forwards, &relative)) {
            a->first = middle;
            a->last = last;
        }
    }
    agrees(a, entry, &backward, &forwards, &relative);
    const DtStore *store = a->params[a->first].store;
    const DtFunc *func = dt_judge_wrong_function(a->j);
    const DtFunc *before = func ? dt_graph_find(a->j->of->loss, func->name) : NULL;
    const char *blamed = "";
    a->j->out->not_stated = before && before->gradient;
    if (a->j->out->not_stated)
        blamed = dt_arena_printf(
            a->j->arena,
            "\nthe gradient that `%s` states is not its derivative%s\n"
            "if it is meant to differ, write `surrogate` instead of `gradient`",
            dt_graph_source_name(func), dt_judge_line(a->j, before->gradient->func->span));
    else if (func)
        blamed = dt_arena_printf(a->j->arena,
                                 "\nand `%s` alone, on random numbers, has a wrong derivative%s",
                                 dt_graph_source_name(func), dt_judge_line(a->j, func->span));
    a->j->out->not_serial = true;
    return dt_judge_problem(a->j,
                            "the gradient of `%s` is not the derivative of the loss: along a "
                            "random direction the loss moves by "
                            "%.17g, and the gradient says %.17g%s%s",
                            store->path, forwards, backward, dt_judge_line(a->j, store->span),
                            blamed);
}

/* Whether the function is linear in its first n inputs, judging by its ops. */
static bool is_linear(DtArena *arena, const DtFunc *func, uint32_t n)
{
    bool *moves = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < n; i++)
        moves[func->inputs.at[i]->id] = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        uint32_t moving = 0;
        for (uint32_t k = 0; k < op->n_in; k++) {
            moving += moves[op->in[k]->id];
            if (moves[op->in[k]->id] && !dt_op_is_linear(op, k))
                return false;
        }
        const bool product = op->kind == DT_OP_MUL || op->kind == DT_OP_DOT;
        /* an added operand must not depend on the input: its derivative must be 0 */
        for (uint32_t k = 0; moving && !product && k < op->n_in; k++) {
            const DtOp *made = op->in[k]->op;
            const bool adds = dt_op_is_linear(op, k) && (op->kind != DT_OP_DIV || k == 0);
            if (adds && !moves[op->in[k]->id] &&
                !(made && made->kind == DT_OP_CONST && made->number == 0))
                return false;
        }
        if (product && moving > 1)
            return false;
        for (uint32_t k = 0; moving && k < op->n_out; k++)
            moves[op->out[k]->id] = true;
    }
    return true;
}

bool dt_judge_gradients(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results)
{
    if (!j->of->loss || j->of->rounds)
        return true;
    Along along = {.j = j, .entry = entry, .arena = j->arena}, *a = &along;
    a->params = DT_NEW_ARRAY(j->arena, Learned, entry->results.n + 1);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (store && store->kind == DT_STORE_GRAD)
            a->params[a->n++] = (Learned){.store = store->of, .gradient = results[i]};
        if (store && store->kind == DT_STORE_GRAD && !isfinite(norm(results[i])))
            return true; /* compare.c reports it */
    }
    for (uint32_t i = 0; i < j->of->loss->funcs.n; i++) {
        const DtCustomGradient *stated = j->of->loss->funcs.at[i]->gradient;
        if (!stated || !stated->is_surrogate)
            continue;
        dt_graph_renumber(stated->func);
        if (!is_linear(j->arena, stated->func, stated->func->inputs.n - stated->captured.n))
            return true; /* forward derivatives do not support the op: gradients are not checked */
        if (!stated->func->bwd)
            dt_differentiate_func(stated->func);
    }
    double backward, forwards, relative;
    a->last = a->n;
    draw(a);
    if (a->n && !agrees(a, entry, &backward, &forwards, &relative))
        return find_wrong(a, entry);
    j->out->learned += a->n;
    j->out->derivative = fmax(j->out->derivative, a->n ? relative : 0);
    return true;
}

/* ---- the update ---- */

typedef struct Reference {
    DtJudge *j;
    const DtEntryPoint *entry;
    DtTensor *const *results;
    double unscale, norm; /* unscale: the reciprocal of the loss scale */
    int64_t replica;      /* the one that is computed, if there are several */
} Reference;

/* What the replica has of a tensor: all of one that is the same for all replicas. */
static const DtTensor *of_replica(const Reference *r, const DtTensor *x)
{
    const int at = dt_type_find(x->type, dt_intern(DT_REPLICA_AXIS));
    DtAxis axes[DT_MAX_RANK];
    int64_t inner = 1;
    if (at < 0)
        return x;
    for (uint32_t a = 0, n = 0; a < x->type->rank; a++)
        if ((int)a != at) {
            axes[n++] = x->type->axes[a];
            inner *= (int)a > at ? x->type->axes[a].extent : 1;
        }
    DtTensor *part = dt_interp_tensor(
        r->j->arena, dt_type_plain(x->type->dtype, x->type->rank - 1u, axes));
    const int64_t n = x->type->axes[at].extent;
    for (int64_t i = 0; i < dt_type_elements(part->type); i++)
        part->at[i] = x->at[(i / inner * n + r->replica) * inner + i % inner];
    return part;
}

static const DtTensor *held(const Reference *r, const DtStore *store)
{
    return store ? r->j->serial[store->index] : NULL;
}

static const DtTensor *result_of(const Reference *r, const DtStore *store)
{
    for (uint32_t i = 0; store && i < r->entry->results.n; i++)
        if (r->entry->results.at[i].store == store)
            return r->results[i];
    return NULL;
}

/* Compares one value after the update with the expected one, relative to `size`, and counts it in
 * the judgement. Reports a problem and returns false if they differ by more than the tolerance. */
static bool check_value(Reference *r, const DtStore *store, const char *name, int64_t element,
                        double got, double want, double size)
{
    const double difference = fabs(got - want) / fmax(size, 1e-30);
    r->j->out->update = fmax(r->j->out->update, difference);
    r->j->out->updated++;
    if (difference <= tolerance)
        return true;
    if (!isfinite(want)) {
        r->j->out->not_finite = true;
        return dt_judge_problem(
            r->j, "step %u: the formulas of the optimizer leave %g in %s%s, which proves nothing%s",
            r->j->step, want, store ? dt_judge_describe(r->j->arena, store) : name,
            store ? dt_judge_coordinates(r->j->arena, store->type, element) : "",
            store ? dt_judge_line(r->j, store->span) : "");
    }
    r->j->out->not_serial = true;
    return dt_judge_problem(
        r->j,
        "step %u: the update leaves %.17g in %s%s, and the formulas of the optimizer say %.17g%s",
        r->j->step, got, store ? dt_judge_describe(r->j->arena, store) : name,
        store ? dt_judge_coordinates(r->j->arena, store->type, element) : "", want,
        store ? dt_judge_line(r->j, store->span) : "");
}

static bool check_store(Reference *r, const DtStore *store, const double *want)
{
    const DtTensor *got = result_of(r, store);
    if (!got)
        return dt_judge_problem(r->j, "the update leaves nothing in %s",
                                dt_judge_describe(r->j->arena, store));
    double most = 0;
    got = of_replica(r, got);
    for (int64_t i = 0; i < dt_type_elements(got->type); i++)
        most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; i < dt_type_elements(got->type); i++)
        if (!check_value(r, store, NULL, i, got->at[i], want[i], most))
            return false;
    return true;
}

static DtTensor *number(const Reference *r, double value)
{
    DtTensor *tensor = dt_interp_tensor(r->j->arena, dt_type_scalar(DT_F32));
    tensor->at[0] = value;
    return tensor;
}

/* A tensor in f32 with the elements that the replica has of x, times a factor. */
static DtTensor *times(const Reference *r, const DtTensor *x, double factor)
{
    x = of_replica(r, x);
    DtTensor *tensor = dt_interp_tensor(r->j->arena, dt_type_with_dtype(x->type, DT_F32));
    for (int64_t i = 0; i < dt_type_elements(x->type); i++)
        tensor->at[i] = x->at[i] * factor;
    return tensor;
}

static const DtUpdateRule *rule_of(const Reference *r, const DtStore *param)
{
    const DtOptimizer *o = &r->j->of->train->optimizer;
    for (uint32_t i = 0; i < o->rules.n; i++)
        if (strcmp(o->rules.at[i].param->path, param->path) == 0)
            return &o->rules.at[i];
    return NULL;
}

/* The terms of a gradient along the axis of ranks, as the interpreters take them. */
static DtTensor *terms_of(const Reference *r, const DtTensor *g, const DtType *type)
{
    DtTensor *terms = dt_interp_tensor(r->j->arena, type);
    const int w = dt_type_find(type, dt_intern(DT_WORKER_AXIS));
    const int64_t n = type->axes[w].extent, all = dt_type_elements(g->type);
    int64_t inner = 1;
    for (uint32_t a = (uint32_t)w + 1; a < type->rank; a++)
        inner *= type->axes[a].extent;
    for (int64_t i = 0; i < all; i++)
        for (int64_t k = 0; k < n; k++)
            terms->at[(i / inner * n + k) * inner + i % inner] =
                g->at[i] * dt_interp_share(k, n);
    return terms;
}

/* Returns the gradient of a parameter divided by the loss scale, after its exchange if the layout
 * has a `compress` line. ret_exchange: its rule, or NULL; ret_out: its results. */
static DtTensor *gradient_of(const Reference *r, const DtStore *grad,
                             const DtUpdateRule **ret_exchange, DtTensor ***ret_out)
{
    const DtOptimizer *o = &r->j->of->train->optimizer;
    const DtModule *serial = r->j->of->serial;
    DtTensor *g = times(r, held(r, grad), r->unscale);
    *ret_exchange = NULL;
    for (uint32_t i = 0; i < o->exchanges.n; i++)
        if (strcmp(o->exchanges.at[i].param->path, grad->of->path) == 0)
            *ret_exchange = &o->exchanges.at[i];
    if (!*ret_exchange)
        return g;
    const DtFunc *func = (*ret_exchange)->func;
    const uint32_t first = rule_of(r, grad->of)->func->params.n;
    DtInterp interp = {.arena = r->j->arena, .seed = r->j->seed, .step = r->j->step,
                       .path = dt_entry_draws(r->entry)};
    DtTensor **in = DT_NEW_ARRAY(r->j->arena, DtTensor *, func->inputs.n + 1);
    uint32_t n = 1;
    *ret_out = DT_NEW_ARRAY(r->j->arena, DtTensor *, func->results.n + 1);
    in[0] = terms_of(r, g, func->inputs.at[0]->type);
    for (uint32_t i = 0; i < (*ret_exchange)->n_scalars; i++)
        in[n++] = number(
            r, dt_judge_scalar(r->j->of->train, (*ret_exchange)->scalars[i], r->j->step));
    for (uint32_t i = 0; i < func->params.n; i++)
        in[n++] = times(r, held(r, find_store(serial, (DtStoreKind)(DT_STORE_MOMENT1 + first + i),
                                              grad->of)), 1);
    dt_interp_run(&interp, func, in, *ret_out);
    return (*ret_out)[0];
}

/* Whether the entry has a `param` op that reads the store. */
static bool is_read(const Reference *r, const DtStore *store)
{
    const DtFunc *func = r->entry->func;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PARAM && func->ops.at[i]->store == store)
            return true;
    return false;
}

/* Returns the norm of a group's gradients divided by the loss scale; NULL: of all gradients that
 * the entry reads. */
static double norm_of(const Reference *r, const DtParamGroup *group)
{
    const DtModule *serial = r->j->of->serial;
    const DtUpdateRule *exchange;
    DtTensor **out;
    double squares = 0;
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const DtStore *grad = serial->stores.at[i];
        if (!is_read(r, grad))
            continue;
        const DtUpdateRule *rule =
            grad->kind == DT_STORE_GRAD && group ? rule_of(r, grad->of) : NULL;
        if (grad->kind == DT_STORE_GRAD &&
            (!group || (rule && &r->j->of->train->groups.at[rule->group] == group)))
            squares += pow(norm(gradient_of(r, grad, &exchange, &out)), 2);
    }
    return sqrt(squares);
}

/* Runs the rule of averages on the average before the step and the new parameter, and compares its
 * result with the one that the update left. */
static bool update_average(Reference *r, const DtStore *param, DtTensor *new)
{
    const DtOptimizer *optimizer = &r->j->of->train->optimizer;
    const DtUpdateRule *rule = NULL;
    for (uint32_t i = 0; i < optimizer->averages.n; i++)
        if (strcmp(optimizer->averages.at[i].param->path, param->path) == 0)
            rule = &optimizer->averages.at[i];
    if (!rule)
        return true;
    const DtStore *average = find_store(r->j->of->serial, DT_STORE_AVERAGE, param);
    if (!average)
        return dt_judge_problem(r->j, "the average of %s is missing",
                                dt_judge_describe(r->j->arena, param));
    DtInterp interp = {.arena = r->j->arena};
    DtTensor **in = DT_NEW_ARRAY(r->j->arena, DtTensor *, rule->func->inputs.n + 1), *out;
    in[0] = times(r, held(r, average), 1);
    in[1] = new;
    in[2] = number(r, r->norm);
    for (uint32_t i = 0; i < rule->n_scalars; i++)
        in[3 + i] = number(r, dt_judge_scalar(r->j->of->train, rule->scalars[i], r->j->step));
    dt_interp_run(&interp, rule->func, in, &out);
    return check_store(r, average, out->at);
}

/* Runs the optimizer's function, as it was lowered, on the values before the step, and compares its
 * results with what the update left in the parameter, its master copy and its moments. False after
 * a problem. */
static bool update_param(Reference *r, const DtStore *param, const DtStore *grad)
{
    const DtModule *serial = r->j->of->serial;
    const DtStore *master = find_store(serial, DT_STORE_MASTER, param);
    const DtUpdateRule *rule = rule_of(r, param);
    if (!rule)
        return dt_judge_problem(r->j, "the optimizer has no rule for %s",
                                dt_judge_describe(r->j->arena, param));
    const DtFunc *func = rule->func;
    DtInterp interp = {.arena = r->j->arena};
    DtTensor **in = DT_NEW_ARRAY(r->j->arena, DtTensor *, func->inputs.n + 1),
             **out = DT_NEW_ARRAY(r->j->arena, DtTensor *, func->results.n + 1), **exchanged;
    const DtUpdateRule *exchange;
    const DtStore *moments[DT_MAX_MOMENTS];
    uint32_t n = 3;
    in[0] = times(r, held(r, master ? master : param), 1);
    in[1] = gradient_of(r, grad, &exchange, &exchanged);
    const DtParamGroup *group = &r->j->of->train->groups.at[rule->group];
    in[2] = number(r, group->own_norm ? norm_of(r, group) : r->norm);
    for (uint32_t i = 0; i < rule->n_scalars; i++)
        in[n++] = number(r, dt_judge_scalar(r->j->of->train, rule->scalars[i], r->j->step));
    for (uint32_t i = 0; i < func->params.n; i++) {
        moments[i] = find_store(serial, (DtStoreKind)(DT_STORE_MOMENT1 + i), param);
        if (!moments[i])
            return dt_judge_problem(r->j, "a state of %s is missing",
                                    dt_judge_describe(r->j->arena, param));
        in[n++] = times(r, held(r, moments[i]), 1);
    }
    dt_interp_run(&interp, func, in, out);
    bool ok = check_store(r, param, out[0]->at) &&
              (!master || check_store(r, master, out[0]->at)) && update_average(r, param, out[0]);
    for (uint32_t i = 0; ok && i < func->writes.n; i++)
        ok = check_store(r, moments[func->writes.at[i]], out[1 + i]->at);
    for (uint32_t i = 0; ok && exchange && i < exchange->func->writes.n; i++) {
        const uint32_t which = func->params.n + exchange->func->writes.at[i];
        ok = check_store(r, find_store(serial, (DtStoreKind)(DT_STORE_MOMENT1 + which), param),
                         exchanged[1 + i]->at);
    }
    return ok;
}

/* Compares what the update leaves in one replica. */
static bool update_replica(Reference *r)
{
    const DtModule *serial = r->j->of->serial;
    r->norm = norm_of(r, NULL);
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const DtStore *store = serial->stores.at[i];
        if (!is_read(r, store))
            continue;
        if (store->kind == DT_STORE_GRAD && !update_param(r, store->of, store))
            return false;
        if (store->kind == DT_STORE_NEXT &&
            !check_store(r, store->of, of_replica(r, held(r, store))->at))
            return false;
    }
    return true;
}

bool dt_judge_update(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *results)
{
    const DtModule *serial = j->of->serial;
    Reference reference = {.j = j, .entry = entry, .results = results}, *r = &reference;
    if (j->of->rounds)
        return true;
    r->unscale = 1 / loss_scale(r->j);
    const int64_t n = dt_replicas_in(serial);
    double squares = 0;
    for (r->replica = 0; r->replica < n; r->replica++)
        squares += pow(norm_of(r, NULL), 2) / (double)n;
    if (!isfinite(squares))
        return true;
    for (r->replica = 0; r->replica < n; r->replica++)
        if (!update_replica(r))
            return false;
    const double all = sqrt(squares);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (!entry->results.at[i].store && strcmp(entry->results.at[i].name, "grad_norm") == 0 &&
            !check_value(r, NULL, "`grad_norm`", 0, results[i]->at[0], all, all))
            return false;
    return true;
}
