/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and metrics as expressions of sums over samples.
 *
 * A batch is a part of what is measured: micro-batches are parts of a batch, and an evaluation has
 * many batches. A quotient of sums, or the exponential of a mean, is another number when each part
 * computes its own and the results are averaged. So the entry gives the sums, which add up over
 * micro-batches, ranks and batches, and the run evaluates the expression once, in double precision:
 *
 *   eval   %loss = div(%ce, %n)   =>   results loss.0 = %ce, loss.1 = %n
 *          loss: div(loss.0, loss.1)
 *   step   %ppl = exp(%loss)      =>   result loss                         ppl: exp(loss)
 *
 * The expression ends where a value is a sum of one term per sample (ir/samples.c), or no sample
 * changes it. A sum over a few classes of such expressions is written out, element by element, so
 * that a balanced accuracy has the sums of each class. What cannot be taken apart (a maximum over
 * the batch, what a layer returns) stays a number of the batch, which the expression reads next to
 * the sums. A loss of a step stays as it is, since gradients are derived from it. */
#include "frontend/lower_train.h"

#include "base/formula.h"
#include "base/intern.h"
#include "ir/samples.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 32, MOST_AXES = 4 }; /* most terms of a sum that is written out */

/* One element of a value: its index along each summed axis. */
typedef struct Element {
    const DtValue *of;
    const char *axes[MOST_AXES]; /* by sum around it; NULL: the value lacks the sum's axis */
    int64_t at[MOST_AXES];
    DtValue *value;
} Element;

typedef struct Shown {
    DtLower *l;
    DtBuilder b;
    const uint8_t *kinds; /* by id: the DtSampled of the first n_kinds values */
    uint32_t n_kinds;
    DT_VEC(DtValue *) values; /* results that the entry will return, before states */
    DT_VEC(const char *) names;
    DT_VEC(DtValue *) calls; /* results of calls that were copied into the entry .. */
    /* .. and the copies of the functions' results, by number in `calls` */
    DT_VEC(DtValue *) bodies;
    DT_VEC(Element) elements; /* values that were taken out of sums with axes */
    uint32_t n_axes;          /* the axes of the sums around the present expression, ... */
    const char *axes[MOST_AXES];
    int64_t at[MOST_AXES]; /* ... and the present index along each */
    DtText formula;
    const char *name; /* the prefix of result names for the present formula */
    uint32_t n_parts; /* number of results made for it */
    bool adds;        /* the formula reads a sum over samples */
    bool fails;       /* the formula is longer than a run accepts */
} Shown;

static void look_again(Shown *s)
{
    bool draws;
    s->kinds = dt_samples_of(s->b.func, s->l->arena, &draws);
    s->n_kinds = s->b.func->n_values;
}

static DtSampled kind_of(const Shown *s, const DtValue *value)
{
    return (DtSampled)s->kinds[value->id];
}

/* ---- functions that are written out ---- */

/* Whether the ops of a function can be copied into the entry: it has no parameters, loops or
 * draws. */
static bool is_plain(const DtFunc *func)
{
    bool plain = func->kind == DT_FUNC_FN && !func->params.n;
    for (uint32_t i = 0; plain && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        plain = op->kind != DT_OP_LOOP && op->kind != DT_OP_RNG &&
                (op->kind != DT_OP_CALL || is_plain(op->func));
    }
    return plain;
}

/* Appends a copy of the called function's ops to the entry, for shown values alone: gradients are
 * derived from the call itself. */
static void write_out(Shown *s, const DtOp *call)
{
    const DtFunc *func = call->func;
    DtValue **now = DT_NEW_ARRAY(s->l->arena, DtValue *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        now[func->inputs.at[i]->id] = call->in[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(s->l->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = now[op->in[k]->id];
        s->b.span = op->span;
        s->b.path = call->path;
        const DtOp *copy = dt_graph_copy(&s->b, op, in);
        for (uint32_t k = 0; k < op->n_out; k++)
            now[op->out[k]->id] = copy->out[k];
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        DT_PUSH(s->l->arena, s->calls, call->out[i]);
        DT_PUSH(s->l->arena, s->bodies, now[func->results.at[i]->id]);
    }
    look_again(s);
}

/* Returns the value or, for a result of a call, the copy of the value that the called function
 * returns (which is made at the first call). */
static DtValue *written_out(Shown *s, DtValue *value)
{
    while (kind_of(s, value) == DT_SAMPLED_JOINT && value->op->kind == DT_OP_CALL &&
           is_plain(value->op->func)) {
        uint32_t i = 0;
        while (i < s->calls.n && s->calls.at[i] != value)
            i++;
        if (i == s->calls.n)
            write_out(s, value->op);
        else
            value = s->bodies.at[i];
    }
    return value;
}

/* ---- the expression ---- */

/* Whether a formula would read the name as something other than a result: infinity, or the number
 * of batches (plan/show.c). */
static bool means_another(const char *name)
{
    return strcmp(name, "inf") == 0 || strcmp(name, "batches") == 0;
}

/* Whether one of the sums inside of the sum over axis number i is over an axis of the same name. */
static bool is_hidden(const Shown *s, uint32_t i)
{
    for (uint32_t k = i + 1; k < s->n_axes; k++)
        if (s->axes[k] == s->axes[i])
            return true;
    return false;
}

/* Returns the element of the value at the present indices of the sums around it; NULL if its axes
 * differ from those of the sums. */
static DtValue *element_of(Shown *s, DtValue *value)
{
    Element wanted = {.of = value};
    for (uint32_t i = 0; i < s->n_axes; i++)
        if (dt_type_find(value->type, s->axes[i]) >= 0 && !is_hidden(s, i)) {
            wanted.axes[i] = s->axes[i];
            wanted.at[i] = s->at[i];
        }
    for (uint32_t i = 0; i < s->elements.n; i++)
        if (s->elements.at[i].of == value &&
            !memcmp(s->elements.at[i].axes, wanted.axes, sizeof wanted.axes) &&
            !memcmp(s->elements.at[i].at, wanted.at, sizeof wanted.at))
            return s->elements.at[i].value;
    wanted.value = value;
    s->b.span = value->op->span;
    for (uint32_t i = 0; i < s->n_axes; i++) {
        if (!wanted.axes[i])
            continue;
        DtValue *index = dt_graph_constant(&s->b, DT_I32, (double)wanted.at[i]);
        wanted.value = dt_graph_gather(&s->b, wanted.value, 1, &s->axes[i], &index);
    }
    if (wanted.value->type->rank)
        return NULL;
    DT_PUSH(s->l->arena, s->elements, wanted);
    return wanted.value;
}

/* Appends the name of a result to the formula, and adds the result to the entry if it is new. */
static void add_part(Shown *s, DtValue *value)
{
    const DtSampled kind = kind_of(s, value);
    s->adds = s->adds || kind == DT_SAMPLED_SUM;
    if (s->n_axes) {
        value = kind == DT_SAMPLED_SUM || kind == DT_SAMPLED_WHOLE ? element_of(s, value) : NULL;
        s->fails = s->fails || !value;
        if (s->fails)
            return;
    }
    for (uint32_t i = 0; i < s->values.n; i++)
        if (s->values.at[i] == value && !means_another(s->names.at[i])) {
            dt_text_add(&s->formula, s->names.at[i]);
            return;
        }
    const char *name = dt_intern_printf("%s.%u", s->name, s->n_parts++);
    dt_text_add(&s->formula, name);
    DT_PUSH(s->l->arena, s->values, value);
    DT_PUSH(s->l->arena, s->names, name);
}

static bool is_number(const DtValue *value)
{
    while (value->op->kind == DT_OP_CAST)
        value = value->op->in[0];
    return value->op->kind == DT_OP_CONST;
}

/* Whether the cast changes no number in a formula: casts to floats and casts of booleans do not;
 * others round. */
static bool is_same_number(const DtOp *op)
{
    return op->kind == DT_OP_STOP ||
           (op->kind == DT_OP_CAST &&
            (dt_dtype_is_float(op->out[0]->type->dtype) || op->in[0]->type->dtype == DT_BOOL));
}

static void add_value(Shown *s, DtValue *value);

static void add_call(Shown *s, const DtOp *op)
{
    dt_text_printf(&s->formula, "%s(", dt_op_info[op->kind].text);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (i)
            dt_text_add(&s->formula, ", ");
        add_value(s, op->in[i]);
    }
    dt_text_add(&s->formula, ")");
}

static DtValue *as_number(DtValue *value)
{
    while (value->op && is_same_number(value->op))
        value = value->op->in[0];
    return value;
}

/* Whether the value is a sum over samples divided by the number of its terms (`mean`), computed in
 * the entry or in a function that it calls. */
static bool is_mean(const Shown *s, const DtValue *value)
{
    const DtOp *op = value->op;
    const bool is_call = op->kind == DT_OP_CALL;
    if (is_call)
        op = as_number(op->func->results.at[value->index])->op;
    if (!op || op->kind != DT_OP_DIV || !is_number(op->in[1]))
        return false;
    const DtOp *sum = as_number(op->in[0])->op, *count = as_number(op->in[1])->op;
    return sum && sum->kind == DT_OP_REDUCE && count->kind == DT_OP_CONST &&
           count->number * (double)dt_type_elements(sum->out[0]->type) ==
               (double)dt_type_elements(sum->in[0]->type) &&
           (is_call || kind_of(s, sum->in[0]) == DT_SAMPLED_EACH);
}

/* Appends a bounded denominator, max(sum, 1), to the formula; false if the value is none. The bound
 * is meant for the sum over all batches, but sums in formulas are means over `batches`. The bound
 * of a mean stays as it is. */
static bool add_bounded(Shown *s, DtValue *value)
{
    const DtOp *op = as_number(value)->op;
    if (op->kind != DT_OP_MAX || is_number(op->in[0]) == is_number(op->in[1]))
        return false;
    const uint32_t number = is_number(op->in[1]);
    const DtValue *bounded = as_number(written_out(s, op->in[!number]));
    if (kind_of(s, bounded) != DT_SAMPLED_SUM || is_mean(s, bounded))
        return false;
    dt_text_add(&s->formula, "div(max(mul(");
    add_value(s, op->in[!number]);
    dt_text_add(&s->formula, ", batches), ");
    add_value(s, op->in[number]);
    dt_text_add(&s->formula, "), batches)");
    return true;
}

/* Returns the operation of formulas that joins the elements of a reduction over axes that count no
 * samples; NULL if there are too many elements. */
static const char *joins_few(const Shown *s, const DtOp *op)
{
    static const char *const names[] = {
        [DT_REDUCE_SUM] = "add", [DT_REDUCE_MAX] = "max", [DT_REDUCE_MIN] = "min"};
    const int64_t all = dt_type_elements(op->in[0]->type),
                  left = dt_type_elements(op->out[0]->type);
    if (op->kind != DT_OP_REDUCE || op->n_axes > MOST_AXES - s->n_axes ||
        all / left > MOST_ELEMENTS || (size_t)op->reduce >= DT_COUNT(names))
        return NULL;
    return names[op->reduce];
}

/* Appends a reduction over axes that count no samples as text: `add(add(first, second), third)`. */
static void add_elements(Shown *s, const DtOp *op, const char *joins)
{
    const DtType *type = op->in[0]->type;
    const uint32_t outer = s->n_axes;
    const int64_t n = dt_type_elements(type) / dt_type_elements(op->out[0]->type);
    for (int64_t i = 1; i < n; i++)
        dt_text_printf(&s->formula, "%s(", joins);
    for (int64_t i = 0; i < n && !s->fails; i++) {
        int64_t rest = i;
        s->n_axes = outer + op->n_axes;
        for (uint32_t a = op->n_axes; a-- > 0;) {
            const int64_t extent = dt_type_extent(type, op->axes[a]);
            s->axes[outer + a] = op->axes[a];
            s->at[outer + a] = rest % extent;
            rest /= extent;
        }
        if (i)
            dt_text_add(&s->formula, ", ");
        add_value(s, op->in[0]);
        if (i)
            dt_text_add(&s->formula, ")");
    }
    s->n_axes = outer;
}

/* Appends a reduction to the formula, element by element. If an element cannot be taken apart, or
 * the text becomes too long, appends the reduction as one number of the batch instead. */
static void add_reduced(Shown *s, const DtOp *op, const char *joins)
{
    const uint32_t n = s->values.n, n_parts = s->n_parts;
    const size_t len = s->formula.len;
    const bool adds = s->adds;
    add_elements(s, op, joins);
    if (!s->fails)
        return;
    s->values.n = s->names.n = n;
    s->n_parts = n_parts;
    s->formula.len = len;
    s->adds = adds;
    s->fails = false;
    add_part(s, op->out[0]);
}

static void add_value(Shown *s, DtValue *value)
{
    value = written_out(s, value);
    const DtOp *op = value->op;
    s->fails = s->fails || s->formula.len > DT_FORMULA_LENGTH;
    if (s->fails)
        return;
    if (op->kind == DT_OP_CONST && !isnan(op->number))
        dt_text_double(&s->formula, op->number);
    else if (kind_of(s, value) != DT_SAMPLED_JOINT)
        add_part(s, value);
    else if (is_same_number(op))
        add_value(s, op->in[0]);
    else if (op->kind == DT_OP_DIV && dt_dtype_is_float(value->type->dtype)) {
        dt_text_add(&s->formula, "div(");
        add_value(s, op->in[0]);
        dt_text_add(&s->formula, ", ");
        DtValue *below = written_out(s, op->in[1]);
        if (kind_of(s, below) != DT_SAMPLED_JOINT || !add_bounded(s, below))
            add_value(s, below);
        dt_text_add(&s->formula, ")");
    } else if (op->kind == DT_OP_REDUCE && joins_few(s, op)) {
        add_reduced(s, op, joins_few(s, op));
    } else if (op->n_out == 1 && dt_op_info[op->kind].op_class == DT_CLASS_MAP &&
               dt_formula_has(dt_op_info[op->kind].text, op->n_in))
        add_call(s, op);
    else
        add_part(s, value);
}

static bool any_number(const void *context, const char *name, size_t len, double *ret_value)
{
    (void)context, (void)name, (void)len;
    *ret_value = 1;
    return true;
}

/* Whether a run can evaluate the formula, which may be too long or nested too deeply. */
static bool is_formula(const Shown *s)
{
    DtFormulaProblem problem;
    double value;
    return !s->fails && dt_formula_value(s->formula.at, any_number, NULL, &value, &problem);
}

/* Returns the formula for a result of the entry, and adds the results that the formula reads; "" if
 * the result is shown as it is. */
static const char *formula_of(Shown *s, DtValue *value)
{
    const uint32_t n = s->values.n;
    s->formula.len = 0;
    s->n_parts = 0;
    s->adds = s->fails = false;
    if (kind_of(s, value) == DT_SAMPLED_JOINT)
        add_value(s, value);
    if (s->adds && is_formula(s))
        return dt_intern_n(s->formula.at, s->formula.len);
    s->values.n = s->names.n = n;
    DT_PUSH(s->l->arena, s->values, value);
    DT_PUSH(s->l->arena, s->names, s->name);
    return "";
}

/* ---- entries ---- */

/* Replaces the entry's losses and metrics by the results that formulas read; the results for states
 * follow these. */
static void replace_results(Shown *s, DtEntryPoint *entry)
{
    DtFunc *func = entry->func;
    DtEntryPoint made = {.func = func};
    for (uint32_t i = 0; i < s->values.n; i++) {
        s->b.span = s->values.at[i]->op->span;
        if (s->values.at[i]->type->dtype !=
            DT_I32) /* the sum itself is a result: counts are added before they are rounded */
            s->values.at[i] = dt_graph_cast(&s->b, s->values.at[i], DT_F32);
        DT_PUSH(s->l->arena, made.results, ((DtEntryResult){.name = dt_intern(s->names.at[i])}));
    }
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (entry->results.at[i].store) {
            DT_PUSH(s->l->arena, s->values, func->results.at[i]);
            DT_PUSH(s->l->arena, made.results, entry->results.at[i]);
        }
    func->results.n = 0;
    for (uint32_t i = 0; i < s->values.n; i++)
        DT_PUSH(s->l->arena, func->results, s->values.at[i]);
    func->n_returns = func->results.n;
    entry->results.n = 0;
    for (uint32_t i = 0; i < made.results.n; i++)
        DT_PUSH(s->l->arena, entry->results, made.results.at[i]);
    dt_graph_sweep(func);
    dt_graph_renumber(func);
}

static bool is_loss(const DtTrainConfig *train, const char *name)
{
    for (uint32_t i = 0; i < train->objectives.n; i++)
        if (!strcmp(train->objectives.at[i].loss, name))
            return true;
    return false;
}

/* An evaluation that no plan has is still placed, to be compared with the serial program. So it
 * returns sums too: micro-batches refuse the logarithm of a mean (E0590). */
static void show_entry(DtLower *l, DtTrainConfig *train, DtEntryPoint *entry)
{
    const DtEntryPoint run =
        dt_entry_new(entry->kind == DT_ENTRY_LOSS ? DT_ENTRY_GRAD : entry->kind, entry->objective,
                     DT_PART_WHOLE, -1);
    Shown s = {.l = l, .b = {.func = entry->func}};
    look_again(&s);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtShownValue shown = {
            .name = entry->results.at[i].name, .entry = dt_entry_run(&run), .formula = "",
            .runs = entry->kind == DT_ENTRY_LOSS || train->eval_readers.n > 0};
        if (!shown.name)
            continue;
        s.name = shown.name;
        if (entry->kind == DT_ENTRY_LOSS && is_loss(train, shown.name)) {
            DT_PUSH(l->arena, s.values, entry->func->results.at[i]);
            DT_PUSH(l->arena, s.names, shown.name);
        } else {
            shown.formula = formula_of(&s, entry->func->results.at[i]);
        }
        DT_PUSH(l->arena, train->shown, shown);
    }
    replace_results(&s, entry);
    dt_text_free(&s.formula);
}

void dt_shown_make(DtLower *l, DtTrainConfig *train)
{
    for (uint32_t i = 0; i < l->module->entries.n; i++) {
        DtEntryPoint *entry = &l->module->entries.at[i];
        if (entry->kind == DT_ENTRY_LOSS || entry->kind == DT_ENTRY_EVAL)
            show_entry(l, train, entry);
    }
}
