/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars of the step: numbers that are known when a step begins, from its number and settings of
 * the train block. A learning-rate schedule is a function of them.
 *
 * They are lowered like other values, into a function of their own (l->scalars) whose inputs are
 * `step`, `updates` and the settings, and then written down as formulas (base/formula.h), which the
 * run evaluates in double precision. The constants that the outermost call of a setting is given
 * stay settings of the run: `lr = wsd(base = 0.1, ...)` has lr.base, which `dtrun --set` may
 * change. */
#include "frontend/lower_train.h"

#include "base/formula.h"
#include "base/intern.h"

#include <math.h>
#include <string.h>

/* ---- what formulas begin with ---- */

static DtVal leaf(DtLower *l, const char *name)
{
    DtFrame *frame = l->scalars;
    for (uint32_t i = 0; i < frame->func->ops.n; i++) {
        const DtOp *op = frame->func->ops.at[i];
        if (op->kind == DT_OP_INPUT && strcmp(op->text, name) == 0)
            return (DtVal){.kind = DT_VAL_TENSOR, .weak = true, .tensor = {op->out[0], frame}};
    }
    DtValue *value =
        dt_graph_source(&frame->b, DT_OP_INPUT, dt_type_scalar(DT_F32), dt_intern(name), NULL);
    return (DtVal){.kind = DT_VAL_TENSOR, .weak = true, .tensor = {value, frame}};
}

bool dt_scalars_are_computed(const DtLower *l)
{
    return l->scalars && l->now && l->now->frame == l->scalars;
}

bool dt_scalars_fill(const DtFormal *formal)
{
    return formal->name.text && !formal->init && !formal->type.has_axes &&
           (!strcmp(formal->name.text, "step") || !strcmp(formal->name.text, "updates"));
}

DtVal dt_scalars_given(DtLower *l, const DtFormal *formal) { return leaf(l, formal->name.text); }

/* An outer optimizer runs after every n-th step, so the number of its update is floor(step / n) +
 * 1. */
DtVal dt_scalars_outer(DtLower *l, const DtFormal *formal)
{
    DtVal step = leaf(l, "step");
    if (strcmp(formal->name.text, "step") == 0)
        return step;
    DtBuilder *b = &l->scalars->b;
    DtValue *one = dt_graph_constant(b, DT_F32, 1),
            *n = dt_graph_constant(b, DT_F32, (double)l->program->parallel->replicas.every);
    DtValue *count =
        dt_graph_unary(b, DT_OP_FLOOR, dt_graph_binary(b, DT_OP_DIV, step.tensor.value, n));
    count = dt_graph_binary(b, DT_OP_ADD, count, one);
    return (DtVal){.kind = DT_VAL_TENSOR, .weak = true, .tensor = {count, l->scalars}};
}

DtVal dt_scalars_steps(DtLower *l) { return leaf(l, "steps"); }

static DtVal setting(DtLower *l, const char *name, const DtVal *constant)
{
    DtTrainConfig *train = l->reading;
    for (uint32_t i = 0; i < train->settings.n; i++)
        if (strcmp(train->settings.at[i].name, name) == 0)
            return leaf(l, name); /* a setting of the same name that belongs to another parameter */
    DtStepSetting made = {.name = dt_intern(name),
                          .value = dt_val_number(constant),
                          .is_whole = constant->kind == DT_VAL_INT};
    DT_PUSH(l->arena, train->settings, made);
    return leaf(l, name);
}

static bool is_number(const DtVal *v) { return v->kind == DT_VAL_INT || v->kind == DT_VAL_FLOAT; }

void dt_scalars_keep_settings(DtLower *l, const char *key, const DtDef *def, DtBound *bound)
{
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        const DtExpr *preset = dt_report_bare(formal->init);
        const bool literal =
            preset && (preset->kind == DT_EXPR_INT || preset->kind == DT_EXPR_FLOAT);
        if (!bound[i].given && literal)
            bound[i] = (DtBound){.val = dt_expr_eval(l, preset), .given = true};
        if (bound[i].given && formal->name.text && is_number(&bound[i].val))
            bound[i].val =
                setting(l, dt_intern_printf("%s.%s", key, formal->name.text), &bound[i].val);
    }
}

/* ---- as text ---- */

static bool print(DtLower *l, const DtValue *value, DtText *text);

static bool no_formula(DtLower *l, const DtOp *op)
{
    dt_report_error(
        l, E0401, op->span,
        "what is computed when a step begins are numbers made of numbers, and this is none");
    return false;
}

static bool print_call(DtLower *l, const DtOp *op, DtText *text)
{
    const char *name = dt_op_info[op->kind].text;
    if (!dt_formula_has(name, op->n_in))
        return no_formula(l, op);
    dt_text_printf(text, "%s(", name);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (i)
            dt_text_add(text, ", ");
        if (!print(l, op->in[i], text))
            return false;
    }
    dt_text_add(text, ")");
    return true;
}

/* Appends a scalar as text of a formula. Formulas are computed in double precision, so casts
 * between floats, and to floats, are left out. False after a report. */
static bool print(DtLower *l, const DtValue *value, DtText *text)
{
    const DtOp *op = value->op;
    if (text->len > DT_FORMULA_LENGTH || value->type->rank)
        return no_formula(l, op);
    switch (op->kind) {
    case DT_OP_CONST: dt_text_double(text, op->number); return true;
    case DT_OP_INPUT: dt_text_add(text, op->text); return true;
    case DT_OP_STOP: return print(l, op->in[0], text);
    case DT_OP_CAST:
        if (dt_dtype_is_float(value->type->dtype))
            return print(l, op->in[0], text);
        return no_formula(l, op);
    default: return print_call(l, op, text);
    }
}

static const char *formula_of(DtLower *l, const DtValue *value)
{
    DtText text = {0};
    bool ok = print(l, value, &text);
    if (ok && text.len > DT_FORMULA_LENGTH)
        ok = no_formula(l, value->op);
    const char *formula = ok ? dt_intern_n(text.at, text.len) : NULL;
    dt_text_free(&text);
    return formula;
}

/* ---- one setting ---- */

DtVal dt_builtin_refuse(DtLower *l, DtBuiltinCall *c)
{
    const DtVal *why = &c->val[0];
    if (why->kind != DT_VAL_STRING || memchr(why->string->string, '"', why->string->string_len)) {
        dt_report_error(l, E0204, c->arg[0]->span,
                        "`refuse` takes a text in quotes, without quotes inside");
        return dt_val_error();
    }
    const char *said = dt_intern_n(why->string->string, why->string->string_len);
    if (dt_scalars_are_computed(l) && l->in_branch)
        return leaf(l, dt_intern_printf("refuse(\"%s\")", said));
    DtDiag *d = dt_report_error(l, E0457, c->expr->span, "%s", said);
    if (l->updated && l->rank_counts)
        dt_diag_note(d, "this is for the parameter `%s`, which is declared with %lld ax%s",
                     l->updated->pattern, (long long)*l->rank, *l->rank == 1 ? "is" : "es");
    return dt_val_error();
}

DtVal dt_scalars_choose(DtLower *l, const DtVal *condition, const DtExpr *expr)
{
    l->in_branch++;
    DtVal a = dt_expr_eval(l, expr->b), b = dt_expr_eval(l, expr->c);
    l->in_branch--;
    const DtVal both[2] = {a, b};
    if (!dt_val_check(l, &a, expr->b) || !dt_val_check(l, &b, expr->c))
        return dt_val_error();
    bool weak;
    DtDtype dtype = dt_val_join(both, 2, false, &weak);
    DtValue *value = dt_graph_where(&l->now->frame->b, dt_val_tensor(l, condition),
                                    dt_val_use(l, &a, dtype), dt_val_use(l, &b, dtype));
    return dt_val_of(l, value, weak);
}

/* Whether the formula gives a valid rate in the first step; reports it if not. */
static bool check_value(DtLower *l, const char *key, const DtExpr *expr, const char *formula)
{
    DT_VEC(DtFormulaSetting) settings = {0};
    for (uint32_t i = 0; i < l->reading->settings.n; i++) {
        const DtStepSetting *s = &l->reading->settings.at[i];
        DT_PUSH(l->arena, settings, ((DtFormulaSetting){s->name, s->value}));
    }
    DtFormulaStep step = {.updates = 1,
                          .loss_scale = 1,
                          .steps = (double)dt_train_steps(l->reading),
                          .rows = (double)dt_train_batch(l->reading),
                          .settings = settings.at,
                          .n_settings = settings.n};
    DtFormulaProblem problem;
    double value;
    if (!dt_formula_value(formula, dt_formula_step, &step, &value, &problem)) {
        dt_report_error(l, E0457, expr->span, "%s", problem.text);
        return false;
    }
    if (isfinite(value) && value >= 0)
        return true;
    DtDiag *d = dt_report_error(l, E0457, expr->span, "`%s` is %g in the first step", key, value);
    dt_diag_note(d, "it is a finite number, at least 0");
    return false;
}

DtVal dt_scalars_rate(DtLower *l, const char *key, const DtExpr *expr)
{
    l->setting_key = key;
    DtVal v = dt_expr_eval(l, expr);
    l->setting_key = NULL;
    if (is_number(&v))
        v = setting(l, dt_intern_printf("%s.base", key), &v);
    if (!dt_val_check(l, &v, expr))
        return dt_val_error();
    const DtType *type = v.kind == DT_VAL_TENSOR ? v.tensor.value->type : NULL;
    if (!type || type->rank || type->dtype == DT_BOOL) {
        DtDiag *d = dt_report_error(l, E0402, expr->span, "`%s` is a number, and this is %s", key,
                                    dt_report_type(l, &v));
        dt_diag_note(d, "a constant, or a schedule: `dtc explain warmup_cosine`");
        return dt_val_error();
    }
    const char *formula = formula_of(l, v.tensor.value);
    if (!formula || !check_value(l, key, expr, formula))
        return dt_val_error();
    v.tensor.value->name = key;
    return v;
}

const char *dt_scalars_name(DtLower *l, const DtValue *value)
{
    DtTrainConfig *train = l->reading;
    const char *formula = formula_of(l, value);
    DtText name = {0};
    if (!formula)
        return NULL;
    for (uint32_t i = 0; i < train->scalars.n; i++)
        if (train->scalars.at[i].formula == formula)
            return train->scalars.at[i].name;
    dt_text_printf(&name, "@%s", value->name ? value->name : "scalar");
    for (char *dot = name.at; *dot; dot++)
        *dot = *dot == '.' ? '_' : *dot;
    const char *free = dt_intern(name.at);
    for (uint32_t i = 0, n = 2; i < train->scalars.n; i++)
        if (train->scalars.at[i].name == free) {
            free = dt_intern_printf("%s%u", name.at, n++);
            i = UINT32_MAX; /* starts again with the first input */
        }
    dt_text_free(&name);
    DT_PUSH(l->arena, train->scalars, ((DtStepScalar){free, formula}));
    return free;
}

void dt_scalars_begin(DtLower *l, DtTrainConfig *train, DtSpan span)
{
    l->scalars = dt_frame_new(l, NULL, "scalars", DT_FUNC_FN, span);
    l->reading = train;
}

void dt_scalars_end(DtLower *l)
{
    l->scalars = NULL;
    l->reading = NULL;
}

DtFrame *dt_scalars_enter(DtLower *l, const DtVal *v, uint32_t n)
{
    bool any = false;
    if (!l->scalars || !l->now || l->now->frame == l->scalars)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].kind == DT_VAL_TENSOR && v[i].tensor.frame != l->scalars)
            return NULL;
        any = any || v[i].kind == DT_VAL_TENSOR;
    }
    DtFrame *frame = l->now->frame;
    if (any)
        l->now->frame = l->scalars;
    return any ? frame : NULL;
}
