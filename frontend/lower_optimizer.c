/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: an `fn` whose first two arguments are a parameter and its gradient, evaluated once
 * for every parameter that is trained, into a function of its own (DtUpdateRule), which the
 * optimizer's pass puts into entry "update".
 *
 *   fn sgd(p[...], g[...], grad_norm, lr, momentum = 0) -> [...] { state v[...] = zeros ... }
 *   optimizer = sgd(lr = 0.1)
 *
 * Further arguments are settings, which may depend on `rank`, and values of the step: `grad_norm`,
 * a tensor without axes, and scalars of the step (lower_scalars.c). States belong to the parameter:
 * `...` in their declaration stands for the same axes as in the parameter's. Everything is f32
 * here, and evaluated in place.
 *
 *   fn lamb[all](p[..., all], g[..., all], lr) -> [..., all] { .. sqrt(sum[all](p * p)) .. }
 *   fn adafactor[front, rows, cols](p[..., front, rows, cols], ..) ..
 *
 * Axis parameters stand for the axes in the parameter's declaration: the last one for the last
 * axis, and so on; the first one for all axes that are left, if any. Then `...` stands for the axes
 * of loops, each iteration of which has a parameter of its own. */
#include "frontend/foreign.h"
#include "frontend/lower_train.h"

#include "base/formula.h"
#include "base/intern.h"

#include <string.h>

typedef struct Rule {
    const DtExpr *call;
    const char *rate; /* prefix of its settings' names: "lr", "tables.lr" */
    const DtDef *def;
    const DtStore *store;
    DtFrame *frame;
    DtActivation act;
    DtScope scope;
    DtBound *bound;
    DtValue *norm;
    const DtType *result; /* what it makes */
    bool is_outer;    /* of the outer optimizer of a `local` line */
    bool keeps_zeros; /* elements of the parameter that are zero have no gradient, and stay zero */
} Rule;

static bool is_norm(const DtFormal *formal)
{
    return formal->name.text && !formal->init && !strcmp(formal->name.text, "grad_norm");
}

bool dt_optimizer_is_setting(const DtFormal *formal)
{
    return !formal->type.has_axes && !dt_scalars_fill(formal) && !is_norm(formal);
}

/* Whether the function is a rule of averages: its first argument is `average`. */
static bool is_average(const DtDef *def)
{
    const char *first = def->formals.n > 0 ? def->formals.at[0].name.text : NULL;
    return first && !strcmp(first, "average");
}

bool dt_optimizer_is_exchange(const DtDef *def)
{
    const char *first = def->formals.n > 0 ? def->formals.at[0].name.text : NULL;
    return first && !strcmp(first, "terms") && def->kind == DT_DEF_FN && def->axes.n > 0 &&
           def->formals.at[0].type.has_axes;
}

static bool may_be_rule(const DtDef *def)
{
    return def->kind == DT_DEF_FN && def->formals.n >= 2 && def->formals.at[0].type.has_axes &&
           def->formals.at[1].type.has_axes;
}

bool dt_optimizer_may_be(const DtDef *def)
{
    return may_be_rule(def) && !is_average(def) && !dt_optimizer_is_exchange(def);
}

static const DtDef *definition(const DtLower *l, const DtExpr *call)
{
    const DtGlobal *global =
        call && call->kind == DT_EXPR_CALL && call->a->kind == DT_EXPR_NAME && call->a->name.text
            ? dt_scope_meant(l, call->a)
            : NULL;
    return global && global->kind == DT_GLOBAL_DEF ? global->def : NULL;
}

bool dt_optimizer_is_call(void *context, const DtExpr *expr)
{
    const DtDef *def = definition(context, dt_report_bare(expr));
    bool has_rate = false;
    for (uint32_t i = 0; def && i < def->formals.n; i++)
        has_rate = has_rate ||
                   (def->formals.at[i].name.text && !strcmp(def->formals.at[i].name.text, "lr"));
    return has_rate && dt_optimizer_may_be(def);
}

/* ---- calls of optimizers ---- */

static const DtDef *callee(DtLower *l, const DtExpr *expr)
{
    const DtExpr *call = dt_report_bare(expr);
    const DtDef *def = definition(l, call);
    if (def && dt_optimizer_may_be(def))
        return def;
    const char *name =
        call->kind == DT_EXPR_CALL && call->a->kind == DT_EXPR_NAME ? call->a->name.text : NULL;
    DtSpan span = name ? call->a->span : expr->span;
    DtDiag *d =
        name ? dt_report_error(l, E0455, span, "`%s` is no optimizer", name)
             : dt_report_error(l, E0451, span, "`optimizer` takes a call: `adamw(lr = 1e-3)`");
    dt_diag_note(d, "an optimizer is an `fn` whose first arguments are a parameter and its "
                    "gradient: `p[...], g[...]`; "
                    "`dtc explain adamw` shows one");
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++)
        if (l->globals.at[i]->kind == DT_GLOBAL_DEF && dt_optimizer_may_be(l->globals.at[i]->def))
            names[n++] = l->globals.at[i]->name;
    if (name && !dt_foreign_help(d, DT_FOREIGN_OPTIMIZER, span, name))
        dt_report_nearest(l, d, span, name, names, n);
    return NULL;
}

/* Returns the function that `average = ...` calls; NULL after a report. */
static const DtDef *average_callee(DtLower *l, const DtExpr *expr)
{
    const DtExpr *call = dt_report_bare(expr);
    const DtDef *def = definition(l, call);
    if (def && may_be_rule(def) && is_average(def))
        return def;
    const char *name =
        call->kind == DT_EXPR_CALL && call->a->kind == DT_EXPR_NAME ? call->a->name.text : NULL;
    const DtSpan span = name ? call->a->span : expr->span;
    DtDiag *d = name ? dt_report_error(l, E0479, span, "`%s` is no rule of an average", name)
                     : dt_report_error(l, E0479, span, "`average` takes a call: `ema(0.999)`");
    dt_diag_note(d, "such a rule is an `fn` whose first arguments are the average so far and the "
                    "new parameter: `average[...], p[...]`; `dtc explain ema` shows one");
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++)
        if (l->globals.at[i]->kind == DT_GLOBAL_DEF && may_be_rule(l->globals.at[i]->def) &&
            is_average(l->globals.at[i]->def))
            names[n++] = l->globals.at[i]->name;
    if (name)
        dt_report_nearest(l, d, span, name, names, n);
    return NULL;
}

static DtDiag *argument_error(DtLower *l, const Rule *r, DtDiagCode code, DtSpan span,
                              const char *message)
{
    DtText list = {0};
    DtDiag *d = dt_report_error(l, code, span, "%s", message);
    for (uint32_t i = 0; i < r->def->formals.n; i++)
        if (dt_optimizer_is_setting(&r->def->formals.at[i]))
            dt_text_printf(&list, "%s%s%s", list.len ? ", " : "", r->def->formals.at[i].name.text,
                           r->def->formals.at[i].init ? " = ..." : "");
    dt_diag_note(d, "`%s` is given %s", r->def->name.text, list.at ? list.at : "nothing");
    dt_text_free(&list);
    return d;
}

static int32_t setting_named(DtLower *l, const Rule *r, const DtArg *arg)
{
    const char **names = DT_NEW_ARRAY(l->arena, const char *, r->def->formals.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < r->def->formals.n; i++) {
        if (!dt_optimizer_is_setting(&r->def->formals.at[i]))
            continue;
        if (r->def->formals.at[i].name.text == arg->name.text)
            return (int32_t)i;
        names[n++] = r->def->formals.at[i].name.text;
    }
    const char *message = dt_arena_printf(l->arena, "`%s` is not an option of `%s`", arg->name.text,
                                          r->def->name.text);
    DtDiag *d = argument_error(l, r, E0450, arg->name.span, message);
    if (!dt_foreign_help(d, DT_FOREIGN_ARGUMENT, arg->name.span, arg->name.text))
        dt_report_nearest(l, d, arg->name.span, arg->name.text, names, n);
    return -1;
}

/* ---- arguments ---- */

/* Evaluates a setting of an optimizer's call and binds it to its formal. A constant rate becomes a
 * setting of the run, too: `lr.base`. False after a report. */
static bool evaluate(DtLower *l, Rule *r, uint32_t at, const DtArg *arg)
{
    const char *name = r->def->formals.at[at].name.text;
    const bool is_rate = !strcmp(name, "lr");
    if (r->bound[at].given) {
        argument_error(l, r, E0454, arg->name.text ? arg->name.span : arg->value->span,
                       dt_arena_printf(l->arena, "`%s` is given twice", name));
        return false;
    }
    DtVal v = is_rate ? dt_scalars_rate(l, r->rate, arg->value) : dt_expr_eval(l, arg->value);
    r->bound[at] = (DtBound){.val = v, .expr = arg->value, .given = true};
    return !dt_val_is_error(&v);
}

static bool bind_settings(DtLower *l, Rule *r)
{
    uint32_t at = 0;
    bool ok = true;
    const DtExpr *call = dt_report_bare(r->call);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const DtArg *arg = &call->args.at[i];
        if (dt_config_is_group_option(arg->name.text))
            continue;
        while (at < r->def->formals.n && !dt_optimizer_is_setting(&r->def->formals.at[at]))
            at++;
        if (!arg->name.text && at == r->def->formals.n) {
            argument_error(l, r, E0456, arg->value->span,
                           dt_arena_printf(l->arena, "`%s` has fewer settings", r->def->name.text));
            return false;
        }
        const int32_t found = arg->name.text ? setting_named(l, r, arg) : (int32_t)at++;
        ok = found >= 0 && evaluate(l, r, (uint32_t)found, arg) && ok;
    }
    for (uint32_t i = 0; ok && i < r->def->formals.n; i++) {
        const DtFormal *formal = &r->def->formals.at[i];
        if (dt_scalars_fill(formal))
            r->bound[i] = (DtBound){.val = r->is_outer ? dt_scalars_outer(l, formal)
                                                       : dt_scalars_given(l, formal),
                                    .given = true};
        else if (is_norm(formal))
            r->bound[i] = (DtBound){.val = {.kind = DT_VAL_TENSOR, .tensor = {r->norm, r->frame}},
                                    .given = true};
        else if (!r->bound[i].given && !formal->init) {
            argument_error(
                l, r, E0453, call->span,
                dt_arena_printf(l->arena, "`%s` needs `%s`", r->def->name.text, formal->name.text));
            ok = false;
        }
    }
    return ok;
}

/* ---- one parameter ---- */

/* Returns value where the parameter is not zero, else zero. */
static DtValue *where_not_zero(const Rule *r, DtValue *value)
{
    DtBuilder *b = &r->frame->b;
    DtValue *zero = dt_graph_constant(b, DT_F32, 0);
    DtValue *kept = dt_graph_binary(b, DT_OP_NE, r->bound[0].val.tensor.value, zero);
    return dt_graph_where(b, kept, value, zero);
}

/* The type of the terms of the parameter's gradient: an axis after those of loops. */
static const DtType *terms_of(const DtLower *l, const DtType *type, uint32_t n_loops)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= type->rank; i++) {
        if (i == n_loops)
            axes[n++] = (DtAxis){.name = dt_intern(DT_WORKER_AXIS),
                                 .extent = l->program->parallel->compress.workers};
        if (i < type->rank)
            axes[n++] = type->axes[i];
    }
    return dt_type_plain(type->dtype, n, axes);
}

static void begin(DtLower *l, Rule *r)
{
    const bool exchanges = dt_optimizer_is_exchange(r->def);
    const DtType *type = dt_type_with_dtype(r->store->type, DT_F32);
    r->result = type;
    if (exchanges)
        type = terms_of(l, type, r->store->n_loops);
    /* numbered here, so that the module need not search for a free name */
    const char *name = r->def->name.text;
    if (l->n_rules++)
        name = dt_intern_printf("%s.%u", name, l->n_rules - 1);
    r->frame = dt_frame_new(l, l->scalars, name, DT_FUNC_LAYER, r->call->span);
    r->frame->is_rule = true;
    r->scope.frame = l->scalars;
    r->act = (DtActivation){.scope = &r->scope, .frame = l->scalars};
    r->bound = DT_NEW_ARRAY(l->arena, DtBound, r->def->formals.n + 1);
    for (uint32_t i = 0; i < (exchanges ? 1u : 2u); i++) {
        DtValue *value = dt_frame_arg(l, r->frame, type, r->def->formals.at[i].name.text);
        r->bound[i] = (DtBound){.val = {.kind = DT_VAL_TENSOR, .tensor = {value, r->frame}},
                                .given = true};
    }
    if (r->keeps_zeros && !exchanges)
        r->bound[1].val.tensor.value = where_not_zero(r, r->bound[1].val.tensor.value);
    if (!exchanges)
        r->norm = dt_frame_arg(l, r->frame, dt_type_scalar(DT_F32), "grad_norm");
    l->now = &r->act;
}

static bool check_states(DtLower *l, const Rule *r)
{
    if (r->frame->params.n > 0 && is_average(r->def)) {
        dt_report_error(l, E0479, r->frame->params.at[0].formal.span,
                        "the rule of an average has no states: the average is the only one");
        return false;
    }
    for (uint32_t i = 0; i < r->frame->params.n; i++) {
        const DtFrameParam *p = &r->frame->params.at[i];
        if (p->new_value)
            continue;
        DtDiag *d =
            dt_report_error(l, E0469, p->formal.span,
                            "the state `%s` of an optimizer is never assigned", p->formal.path);
        dt_diag_note(d, "what no step changes needs no state");
        return false;
    }
    if (r->frame->params.n <= DT_MAX_MOMENTS)
        return true;
    dt_report_error(l, E0469, r->frame->params.at[DT_MAX_MOMENTS].formal.span,
                    "an optimizer has at most %d states for each parameter", DT_MAX_MOMENTS);
    return false;
}

static bool give_result(DtLower *l, Rule *r, DtVal *v)
{
    const DtType *type = r->result;
    if (!dt_val_check(l, v, r->call))
        return false;
    DtValue *value = dt_val_use(l, v, DT_F32);
    if (!dt_type_same_axes(value->type, type)) {
        DtDiag *d = dt_report_error(
            l, E0469, r->call->span, "`%s` makes %s of a parameter that is %s", r->def->name.text,
            dt_report_axes(l, value->type, true), dt_report_axes(l, type, true));
        dt_diag_label(d, r->def->head, "it returns what the parameter becomes");
        return false;
    }
    value = dt_graph_reorder(&r->frame->b, value, type);
    const bool keeps = r->keeps_zeros && !dt_optimizer_is_exchange(r->def);
    dt_graph_return(r->frame->func, keeps ? where_not_zero(r, value) : value);
    return true;
}

/* Checks that the ops of the update can be copied one by one for each parameter, as
 * passes/grad/optimizer.c does: no loops or other functions, and no draws but in an exchange, since
 * `zero` cuts what an optimizer computes into runs of elements. Reports an op that cannot be. */
static bool check_ops(DtLower *l, const Rule *r)
{
    const DtFunc *func = r->frame->func;
    const bool draws = dt_memo_draws(func) && !dt_optimizer_is_exchange(r->def);
    const char *what = draws ? "draws random numbers" : NULL;
    for (uint32_t i = 0; !what && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP)
            what = "has a loop";
        else if (op->n_in > DT_UPDATE_OPERANDS)
            what = "has an operation of too many operands";
    }
    for (uint32_t i = 0; !what && i < r->frame->params.n; i++)
        if (r->frame->params.at[i].value->type->dtype != DT_F32)
            what = "has a state that is no f32";
    if (!what)
        return true;
    DtDiag *d =
        dt_report_error(l, E0469, r->call->span, "the optimizer `%s` %s", r->def->name.text, what);
    dt_diag_label(d, r->def->head, "defined here");
    dt_diag_note(d, "an optimizer computes with sums, products and functions of its arguments, "
                    "states and settings");
    return false;
}

/* Names the scalars of the step that the update reads (rule->scalars), which are inputs of its
 * function. False after a report. */
static bool name_scalars(DtLower *l, const Rule *r, DtUpdateRule *rule)
{
    DtParamGroup *group = &l->program->train->groups.at[rule->group];
    const uint32_t n = r->frame->captures.n;
    rule->scalars = DT_NEW_ARRAY(l->arena, const char *, n + 1);
    rule->n_scalars = n;
    for (uint32_t i = 0; i < n; i++) {
        const DtCapture *capture = &r->frame->captures.at[i];
        rule->scalars[i] = dt_scalars_name(l, capture->outer);
        if (!rule->scalars[i])
            return false;
        if (!r->is_outer && capture->outer->name && strcmp(capture->outer->name, r->rate) == 0)
            group->rate = rule->scalars[i];
        capture->inner->name = rule->scalars[i];
    }
    return true;
}

/* Checks that no setting of the optimizer has the name of a setting for groups, which would hide
 * it; reports one and returns false. */
static bool check_names(DtLower *l, const DtExpr *call, const DtDef *def)
{
    for (uint32_t i = 2; i < def->formals.n; i++) {
        const char *name = def->formals.at[i].name.text;
        if (!dt_config_is_group_option(name))
            continue;
        DtDiag *d = dt_report_error(l, E0469, call->span, "the optimizer `%s` calls a setting `%s`",
                                    def->name.text, name);
        dt_diag_label(d, def->formals.at[i].name.span, "it needs another name");
        dt_diag_note(
            d,
            "`%s` in a call says something of the parameters, whatever the optimizer: `dtc explain "
            "optimizer`",
            name);
        return false;
    }
    return true;
}

/* Prepends to ret_names the axes that the last entry of the parameter's declaration before axis
 * `end` stands for; returns the first of them. */
static uint32_t add_entry(DtLower *l, const DtStore *store, uint32_t end, DtAxisNames *ret_names)
{
    uint32_t first = end;
    while (first > store->n_loops && !(store->begins >> (--first - store->n_loops) & 1))
        continue;
    for (uint32_t i = first; i < end; i++)
        DT_PUSH(l->arena, *ret_names, store->type->axes[i].name);
    return first;
}

/* Returns the axes of the parameter for each axis parameter of the optimizer: the entries of its
 * declaration from the last on, and all others for the first. The first of an exchange is the axis
 * of terms. */
static DtAxisLists axes_of(DtLower *l, const DtDef *def, const DtStore *store, DtSpan span)
{
    DtAxisLists lists = {0};
    uint32_t end = store->type->rank;
    for (uint32_t i = 0; i < def->axes.n; i++)
        DT_PUSH(l->arena, lists, ((DtAxisList){.span = span}));
    const uint32_t first = dt_optimizer_is_exchange(def) ? 1 : 0;
    if (first)
        DT_PUSH(l->arena, lists.at[0].names, dt_intern(DT_WORKER_AXIS));
    for (uint32_t i = def->axes.n; i-- > first + 1;)
        end = add_entry(l, store, end, &lists.at[i].names);
    for (uint32_t i = store->n_loops; first < def->axes.n && i < end; i++)
        DT_PUSH(l->arena, lists.at[first].names, store->type->axes[i].name);
    return lists;
}

/* Lowers a call of a rule for one parameter of a group. */
static bool lower_rule(DtLower *l, uint32_t group, const DtExpr *call, const DtDef *def,
                       const DtStore *store)
{
    Rule *r = DT_NEW(l->arena, Rule);
    DtOptimizer *optimizer = &l->program->train->optimizer;
    const bool is_outer = call == dt_lowerreplicas_outer(l);
    const char *name = is_outer          ? "outer"
                       : is_average(def) ? "average"
                                         : l->program->train->groups.at[group].name;
    const int64_t rank = store->written_rank;
    const DtFunction function = {
        .def = def, .axes = axes_of(l, def, store, call->span), .has_axes = def->axes.n > 0,
        .span = call->span};
    *r = (Rule){.call = call, .def = def, .store = store, .is_outer = is_outer,
                .keeps_zeros = dt_groups_keeps_zeros(l, store)};
    r->rate = strcmp(name, "optimizer") == 0 ? "lr" : dt_intern_printf("%s.lr", name);
    begin(l, r);
    l->rank = &rank;
    l->updated = store;
    l->rank_counts = false;
    bool ok = bind_settings(l, r);
    r->act.frame = r->scope.frame = r->frame;
    DtVal result =
        ok ? dt_memo_call(l, &function, NULL, dt_report_bare(call), r->bound) : dt_val_error();
    l->rank = NULL;
    l->updated = NULL;
    ok = ok && !dt_val_is_error(&result) && give_result(l, r, &result) && check_states(l, r);
    if (!ok)
        return false;
    DtUpdateRule rule = {.param = store, .group = group, .func = r->frame->func};
    if (!check_ops(l, r))
        return false;
    if (!name_scalars(l, r, &rule))
        return false;
    dt_frame_finish(l, r->frame);
    dt_graph_renumber(rule.func);
    if (is_outer)
        DT_PUSH(l->arena, optimizer->outers, rule);
    else if (dt_optimizer_is_exchange(def))
        DT_PUSH(l->arena, optimizer->exchanges, rule);
    else if (is_average(def))
        DT_PUSH(l->arena, optimizer->averages, rule);
    else
        DT_PUSH(l->arena, optimizer->rules, rule);
    return true;
}

/* Checks that a parameter has room for the states of its optimizer and of its exchange. */
static bool fits_states(DtLower *l, const DtOptimizer *optimizer)
{
    const uint32_t i = optimizer->exchanges.n - 1;
    if (optimizer->rules.at[i].func->params.n + optimizer->exchanges.at[i].func->params.n <=
        DT_MAX_MOMENTS)
        return true;
    dt_report_error(l, E0469, l->program->parallel->compress.span,
                    "an optimizer and `compress` have at most %d states for each parameter",
                    DT_MAX_MOMENTS);
    return false;
}

/* Checks that a parameter has room for the states of the outer optimizer and, after them, for the
 * parameter after the last average. */
static bool fits_outer(DtLower *l, const DtOptimizer *optimizer)
{
    const DtUpdateRule *rule = &optimizer->outers.at[optimizer->outers.n - 1];
    if (rule->func->params.n < DT_MAX_MOMENTS)
        return true;
    dt_report_error(l, E0469, l->program->parallel->replicas.span,
                    "an outer optimizer has at most %d states for each parameter",
                    DT_MAX_MOMENTS - 1);
    return false;
}

/* What a program calls beside its optimizers, and the functions; NULL: it does not. average: rule
 * of averages; exchange: of a `compress` line; outer: optimizer of a `local` line. */
typedef struct Called {
    const DtExpr *average, *exchange, *outer;
    const DtDef *average_def, *exchange_def, *outer_def;
} Called;

/* Lowers all rules for one parameter. */
static bool lower_param(DtLower *l, uint32_t group, const DtDef *optimizer, const Called *called,
                        const DtStore *store)
{
    const DtOptimizer *all = &l->program->train->optimizer;
    return lower_rule(l, group, l->optimizers.at[group], optimizer, store) &&
           (!called->average ||
            lower_rule(l, group, called->average, called->average_def, store)) &&
           (!called->exchange ||
            (lower_rule(l, group, called->exchange, called->exchange_def, store) &&
             fits_states(l, all))) &&
           (!called->outer || (lower_rule(l, group, called->outer, called->outer_def, store) &&
                               fits_outer(l, all)));
}

static bool lower_rules(DtLower *l, const DtDef *const *defs, const Called *called)
{
    const uint32_t *group_of = dt_groups_find(l);
    bool ok = group_of != NULL;
    for (uint32_t i = 0; ok && i < l->module->stores.n; i++)
        if (l->module->stores.at[i]->kind == DT_STORE_PARAM && !l->module->stores.at[i]->frozen)
            ok = lower_param(l, group_of[i], defs[group_of[i]], called, l->module->stores.at[i]);
    return ok;
}

/* Sets for each objective the rate that runs show: that of the group `optimizer`, or of the first
 * group. */
static void show_rates(DtTrainConfig *train)
{
    for (uint32_t i = 0; i < train->groups.n; i++) {
        const DtParamGroup *group = &train->groups.at[i];
        DtObjective *objective = &train->objectives.at[group->objective];
        if (group->rate && (!objective->rate || strcmp(group->name, "optimizer") == 0))
            objective->rate = group->rate;
    }
}

/* Returns the `compress` line of the layout as a call of its function; NULL: there is none. */
static const DtExpr *compress_call(DtLower *l)
{
    const DtParallelConfig *parallel = l->program->parallel;
    const DtEntry *line =
        parallel && parallel->compress.function ? dt_lowerreplicas_line(l, "compress") : NULL;
    if (!line)
        return NULL;
    DtExpr *call = DT_NEW(l->arena, DtExpr), *name = DT_NEW(l->arena, DtExpr);
    *name = (DtExpr){.kind = DT_EXPR_NAME, .span = line->operands.at[0].span,
                     .name = line->operands.at[0].path.at[0]};
    *call = (DtExpr){.kind = DT_EXPR_CALL, .span = line->span, .a = name};
    for (uint32_t i = 0; i < line->args.n; i++)
        DT_PUSH(l->arena, call->args, line->args.at[i]);
    return call;
}

/* Returns the function that a `compress` line names; NULL after a report. */
static const DtDef *exchange_callee(DtLower *l, const DtExpr *call)
{
    const DtDef *def = definition(l, call);
    if (def && dt_optimizer_is_exchange(def))
        return def;
    const char *name = call->a->name.text;
    DtDiag *d = dt_report_error(l, E0481, call->a->span, "`%s` exchanges no gradients", name);
    dt_diag_note(d, "`compress` names an `fn` whose first argument is the term of each rank, "
                    "`terms[..., worker, all]`, and whose result is the gradient; `int8` of "
                    "training.dsl is one");
    const char **names = DT_NEW_ARRAY(l->arena, const char *, l->globals.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < l->globals.n; i++)
        if (l->globals.at[i]->kind == DT_GLOBAL_DEF &&
            dt_optimizer_is_exchange(l->globals.at[i]->def))
            names[n++] = l->globals.at[i]->name;
    dt_report_nearest(l, d, call->a->span, name, names, n);
    return NULL;
}

void dt_optimizer_lower(DtLower *l)
{
    const uint32_t funcs = l->module->funcs.n;
    const DtDef **defs = DT_NEW_ARRAY(l->arena, const DtDef *, l->optimizers.n + 1);
    bool ok = true;
    for (uint32_t i = 0; i < l->optimizers.n; i++) {
        defs[i] = callee(l, l->optimizers.at[i]);
        ok = defs[i] && check_names(l, l->optimizers.at[i], defs[i]) && ok;
    }
    Called called = {.average = l->average, .exchange = compress_call(l),
                     .outer = dt_lowerreplicas_outer(l)};
    called.average_def = called.average ? average_callee(l, called.average) : NULL;
    called.exchange_def = called.exchange ? exchange_callee(l, called.exchange) : NULL;
    called.outer_def = called.outer ? callee(l, called.outer) : NULL;
    ok = ok && (!called.average || called.average_def) &&
         (!called.exchange || called.exchange_def) &&
         (!called.outer ||
          (called.outer_def && check_names(l, called.outer, called.outer_def)));
    dt_scalars_begin(l, l->program->train, l->program->train->optimizer.span);
    l->training = true;
    if (ok)
        lower_rules(l, defs, &called);
    show_rates(l->program->train);
    l->now = NULL;
    dt_scalars_end(l);
    l->module->funcs.n = funcs;
}
