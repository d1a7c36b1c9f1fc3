/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that read codes. A coded parameter is followed through calls, bodies of loops, casts
 * and renames to its readers. A copy of each function on the way takes codes and scales instead:
 *
 *   func linear(%x, %w)        =>    func linear(%x, %codes, %scales)
 *     %y = dot[a](%x, %w)              a product of codes for few rows, else
 *                                      %w = (the weights that the codes stand for)
 *                                      %y = dot[a](%x, %w)
 *
 * A lookup (gather) takes the codes and scales of its rows. Other readers, and functions that
 * stream, get all weights. */
#include "passes/codes/codes.h"

#include "base/intern.h"

#include <string.h>

/* A function that was made: which, for which coded inputs. */
typedef struct DtCodesMade {
    const DtFunc *from;
    DtCodesOf **of; /* by input */
    DtFunc *made;   /* NULL: its readers were looked at */
} DtCodesMade;

/* A function on the way. map, reads, restored: by value id of the old function, the new value; the
 * coded parameter that it is, or NULL; its weights, once something has needed them. */
typedef struct Scope {
    DtCodes *d;
    const DtFunc *from;
    DtBuilder b;
    DtValue **map, **restored;
    DtCodesRead **reads;
} Scope;

static DtCodesRead *copy_read(DtCodes *d, const DtCodesRead *read)
{
    DtCodesRead *copy = DT_NEW(d->arena, DtCodesRead);
    *copy = *read;
    return copy;
}

static DtCodesOf *coded(const DtCodes *d, const DtStore *store)
{
    if (store->kind == DT_STORE_AVERAGE)
        store = store->of;
    for (uint32_t i = 0; i < d->all.n; i++)
        if (d->all.at[i]->param == store)
            return d->all.at[i];
    return NULL;
}

static DtCodesRead *of_param(DtCodes *d, DtCodesOf *of, const DtStore *store)
{
    DtCodesRead *read = DT_NEW(d->arena, DtCodesRead);
    *read = (DtCodesRead){.of = of, .dtype = store->type->dtype};
    for (uint32_t i = 0; i < of->from->type->rank; i++)
        read->names[i] = of->from->type->axes[i].name;
    return read;
}

static bool has_axis(const DtOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == axis)
            return true;
    return false;
}

/* Whether op gives the same weights other names; sets those. */
static bool renames(const DtOp *op, DtCodesRead *read)
{
    const DtCodesRead before = *read;
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const DtRelabel *r = &op->relabels[e];
        if (r->n_from != 1 || r->n_to != 1)
            return false;
        for (uint32_t i = before.loops; i < before.of->from->type->rank; i++)
            if (before.names[i] == r->from[0])
                read->names[i] = r->to[0];
    }
    return true;
}

/* What op makes of the coded parameter, if that is the parameter itself; or NULL. */
static DtCodesRead *passed_on(DtCodes *d, const DtOp *op, const DtCodesRead *read)
{
    DtCodesRead *out = copy_read(d, read);
    if (op->kind == DT_OP_CAST && dt_dtype_is_float(op->out[0]->type->dtype))
        out->dtype = op->out[0]->type->dtype;
    else if (op->kind == DT_OP_RELABEL ? !renames(op, out)
                                       : op->kind != DT_OP_BIND && op->kind != DT_OP_STOP)
        return NULL;
    return out;
}

/* The number of the input of op's function that gets operand k; -1: the function takes weights. */
static int64_t input_of(const DtOp *op, uint32_t k)
{
    if (op->func && (op->func->stream || op->func->writes.n))
        return -1;
    if (op->kind == DT_OP_LOOP)
        return k < op->loop->n_carried ? -1 : (int64_t)k + 1;
    return op->kind == DT_OP_CALL ? (int64_t)k : -1;
}

/* The parameter as the function's input has it: a loop's body has a slice of a stacked one. */
static DtCodesRead *as_input(DtCodes *d, const DtOp *op, uint32_t k, const DtCodesRead *read)
{
    DtCodesRead *input = copy_read(d, read);
    if (op->kind == DT_OP_LOOP && k >= op->loop->n_carried + op->loop->n_invariant)
        input->loops++;
    input->codes = input->scales = NULL;
    return input;
}

/* ---- looking at readers ---- */

static void refuse(DtCodes *d, DtCodesOf *of, const DtOp *op)
{
    if (!d->strict || of->failed)
        return;
    of->failed = true;
    DtDiag *diag = dt_diag_report(d->module->diags, E0480, of->wish->span,
                                  "`%s` is read by more than products and lookups",
                                  of->param->pattern);
    dt_diag_label(diag, op->span, "this needs the weights themselves");
    dt_diag_help(diag, "name other parameters, such as \"*.w\"; `dtc --params` lists the paths");
}

static bool is_lookup(const DtOp *op, uint32_t k)
{
    return op->kind == DT_OP_GATHER && k == 0;
}

static void look_at(DtCodes *d, const DtOp *op, uint32_t k, const DtCodesRead *read)
{
    DtCodesOf *of = read->of;
    if (is_lookup(op, k)) {
        for (uint32_t i = read->loops; i < of->from->type->rank; i++)
            of->looked_up[i] = of->looked_up[i] || has_axis(op, read->names[i]);
        return;
    }
    if (op->kind != DT_OP_DOT || op->in[0] == op->in[1]) {
        refuse(d, of, op);
        return;
    }
    of->products++;
    for (uint32_t i = read->loops; i < of->from->type->rank; i++)
        of->summed[i] += has_axis(op, read->names[i]);
}

static void look(DtCodes *d, DtFunc *func, DtCodesRead *const *inputs)
{
    DtCodesRead **reads = DT_NEW_ARRAY(d->arena, DtCodesRead *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        reads[func->inputs.at[i]->id] = inputs ? inputs[i] : NULL;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtCodesOf *of = op->kind == DT_OP_PARAM ? coded(d, op->store) : NULL;
        if (of) {
            of->from = op->store;
            reads[op->out[0]->id] = of_param(d, of, op->store);
        }
        DtCodesRead **given =
            op->func ? DT_NEW_ARRAY(d->arena, DtCodesRead *, op->func->inputs.n + 1) : NULL;
        bool any = false;
        for (uint32_t k = 0; k < op->n_in; k++) {
            const DtCodesRead *read = reads[op->in[k]->id];
            if (!read)
                continue;
            const int64_t input = input_of(op, k);
            DtCodesRead *out = op->n_out == 1 && !op->func ? passed_on(d, op, read) : NULL;
            if (out)
                reads[op->out[0]->id] = out;
            else if (input >= 0)
                given[input] = as_input(d, op, k, read);
            else
                look_at(d, op, k, read);
            any = any || input >= 0;
        }
        if (any)
            look(d, op->func, given);
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtValue *result = func->results.at[i];
        if (reads[result->id] && func->ops.n)
            refuse(d, reads[result->id]->of, func->ops.at[func->ops.n - 1]);
    }
}

void dt_codesfunc_look(DtCodes *d, DtFunc *func)
{
    dt_graph_renumber(func);
    look(d, func, NULL);
}

/* ---- the copy ---- */

/* The new value of an old one; weights that codes stand for are computed when they are first
 * needed. as_is: in the order in which they are computed, not in that of the old type. */
static DtValue *value_of(Scope *s, const DtValue *old, bool as_is)
{
    const DtCodesRead *read = s->reads[old->id];
    if (!read)
        return s->map[old->id];
    DtValue **restored = &s->restored[old->id];
    if (!*restored)
        *restored = dt_codesvalue_restore(&s->b, read);
    return as_is ? *restored : dt_graph_reorder(&s->b, *restored, old->type);
}

static DtFunc *make(DtCodes *d, DtFunc *from, DtCodesRead *const *inputs);

/* Operands of a call or loop: codes and scales where its function takes those. */
static void copy_struct(Scope *s, const DtOp *op)
{
    DtCodes *d = s->d;
    DtCodesRead **given = DT_NEW_ARRAY(d->arena, DtCodesRead *, op->func->inputs.n + 1);
    DtValue **in = DT_NEW_ARRAY(d->arena, DtValue *, 2 * op->n_in + 1);
    DtOp draft = *op;
    DtLoop loop = op->loop ? *op->loop : (DtLoop){0};
    uint32_t n = 0;
    bool any = false;
    for (uint32_t k = 0; k < op->n_in; k++) {
        const DtCodesRead *read = s->reads[op->in[k]->id];
        const int64_t input = read ? input_of(op, k) : -1;
        if (input < 0) {
            in[n++] = value_of(s, op->in[k], false);
            continue;
        }
        any = true;
        given[input] = as_input(d, op, k, read);
        in[n++] = read->codes;
        in[n++] = read->scales;
        if (k >= loop.n_carried + loop.n_invariant)
            loop.n_stacked++;
        else
            loop.n_invariant++;
    }
    draft.func = any ? make(d, op->func, given) : op->func;
    DtOp *copy;
    if (op->kind == DT_OP_LOOP) {
        copy = dt_graph_loop(&s->b, draft.func, loop, in);
    } else {
        copy = dt_graph_call(&s->b, draft.func, op->text, in);
        copy->caller = op->caller;
        copy->aliases = op->aliases;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        copy->out[i]->name = op->out[i]->name;
        s->map[op->out[i]->id] = copy->out[i];
    }
}

static void copy_plain(Scope *s, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(s->d->arena, DtValue *, op->n_in + 1);
    for (uint32_t k = 0; k < op->n_in; k++)
        in[k] = value_of(s, op->in[k], op->kind == DT_OP_DOT);
    DtOp *copy = dt_graph_copy(&s->b, op, in);
    copy->caller = op->caller;
    copy->aliases = op->aliases;
    for (uint32_t i = 0; i < op->n_out; i++)
        s->map[op->out[i]->id] = copy->out[i];
}

/* Codes or scales under the names that op gives to the weights. */
static DtValue *renamed(Scope *s, const DtOp *op, DtValue *x)
{
    for (uint32_t e = 0; op->kind == DT_OP_RELABEL && e < op->n_relabels; e++)
        x = dt_graph_rename(&s->b, x, op->relabels[e].from[0], op->relabels[e].to[0], NULL);
    return x;
}

/* How many rows of x meet the weights. */
static int64_t rows_of(const DtOp *dot, const DtType *weight)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < dot->out[0]->type->rank; i++) {
        const DtAxis *axis = &dot->out[0]->type->axes[i];
        rows *= dt_type_find(weight, axis->name) < 0 ? axis->extent : 1;
    }
    return rows;
}

/* The product of codes in place of `dot`, if it has few rows and sums the groups; else NULL. */
static DtValue *product(Scope *s, const DtOp *dot)
{
    for (uint32_t k = 0; k < 2; k++) {
        const DtCodesRead *read = s->reads[dot->in[k]->id];
        if (read && !s->reads[dot->in[1 - k]->id] &&
            has_axis(dot, read->names[read->of->axis]) &&
            rows_of(dot, dot->in[k]->type) <= DT_CODES_ROWS)
            return dt_codesvalue_product(&s->b, read, dot, s->map[dot->in[1 - k]->id]);
    }
    return NULL;
}

/* The rows of a lookup, if it takes whole groups; else NULL. */
static DtValue *lookup(Scope *s, const DtOp *op)
{
    const DtCodesRead *read = s->reads[op->in[0]->id];
    if (!read || has_axis(op, read->names[read->of->axis]))
        return NULL;
    DtValue **index = DT_NEW_ARRAY(s->d->arena, DtValue *, op->n_axes + 1);
    for (uint32_t i = 0; i < op->n_axes; i++)
        index[i] = value_of(s, op->in[1 + i], false);
    DtCodesRead rows = *read;
    rows.codes = dt_graph_gather(&s->b, read->codes, op->n_axes, op->axes, index);
    rows.scales = dt_graph_gather(&s->b, read->scales, op->n_axes, op->axes, index);
    return dt_graph_reorder(&s->b, dt_codesvalue_restore(&s->b, &rows), op->out[0]->type);
}

static void copy_op(Scope *s, const DtOp *op)
{
    s->b.span = op->span;
    s->b.path = op->path;
    DtCodesOf *of = op->kind == DT_OP_PARAM ? coded(s->d, op->store) : NULL;
    if (of) {
        DtCodesRead *read = of_param(s->d, of, op->store);
        read->codes = dt_graph_source(&s->b, DT_OP_PARAM, of->codes->type, op->text, of->codes);
        read->scales = dt_graph_source(&s->b, DT_OP_PARAM, of->scales->type, op->text, of->scales);
        s->reads[op->out[0]->id] = read;
        return;
    }
    const DtCodesRead *read = op->n_in ? s->reads[op->in[0]->id] : NULL;
    DtCodesRead *out = read && op->n_out == 1 && !op->func ? passed_on(s->d, op, read) : NULL;
    DtValue *made = NULL;
    if (out) {
        out->codes = renamed(s, op, read->codes);
        out->scales = renamed(s, op, read->scales);
        s->reads[op->out[0]->id] = out;
        return;
    }
    if (op->kind == DT_OP_DOT)
        made = product(s, op);
    else if (op->kind == DT_OP_GATHER)
        made = lookup(s, op);
    if (made) {
        made->name = op->out[0]->name;
        s->map[op->out[0]->id] = made;
    } else if (op->func) {
        copy_struct(s, op);
    } else {
        copy_plain(s, op);
    }
}

/* ---- functions ---- */

static DtCodesMade *find(DtCodes *d, const DtFunc *from, DtCodesOf **of)
{
    for (uint32_t i = 0; i < d->made.n; i++)
        if (d->made.at[i]->from == from &&
            memcmp(d->made.at[i]->of, of, (from->inputs.n + 1) * sizeof *of) == 0)
            return d->made.at[i];
    return NULL;
}

/* The type of codes or scales as a function inside of loops has them. */
static const DtType *input_type(const DtCodesRead *read, bool scales)
{
    const DtType *type = dt_codesvalue_type(read->of, scales), *whole = read->of->from->type;
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < type->rank; i++) {
        const int at = dt_type_find(whole, axes[i].name);
        axes[i].name = at < 0 ? axes[i].name : read->names[at];
    }
    return dt_type_plain(type->dtype, type->rank - read->loops, axes + read->loops);
}

/* Adds the input `i` of the old function; a coded one as codes and scales. */
static void add_input(Scope *s, uint32_t i, DtCodesRead *read)
{
    DtFunc *func = s->b.func;
    const DtFunc *from = s->from;
    const DtValue *old = from->inputs.at[i];
    const bool is_param = i >= from->n_args;
    DtValue **to[] = {read ? &read->codes : &s->map[old->id], read ? &read->scales : NULL};
    for (uint32_t k = 0; k < (read ? 2 : 1); k++) {
        const DtType *type = old->type;
        if (read)
            type = input_type(read, k == 1);
        const char *part = !read ? "" : k ? "@scales" : "@codes";
        if (is_param) {
            DtFormalParam formal = from->params.at[i - from->n_args];
            formal.path = dt_intern_printf("%s%s", formal.path, part);
            formal.pattern = dt_intern_printf("%s%s", formal.pattern, part);
            *to[k] = dt_graph_param(func, type, formal);
        } else {
            *to[k] =
                read ? dt_graph_arg(func, type, old->name) : dt_graph_arg_like(func, type, old);
        }
    }
    s->reads[old->id] = read;
}

static Scope begin(DtCodes *d, DtFunc *from)
{
    dt_graph_renumber(from);
    Scope s = {.d = d, .from = from, .b.func = dt_graph_func(d->module, from->name, from->kind)};
    s.b.func->library = from->library;
    s.b.func->span = from->span;
    s.map = DT_NEW_ARRAY(d->arena, DtValue *, from->n_values + 1);
    s.restored = DT_NEW_ARRAY(d->arena, DtValue *, from->n_values + 1);
    s.reads = DT_NEW_ARRAY(d->arena, DtCodesRead *, from->n_values + 1);
    return s;
}

static DtFunc *finish(Scope *s)
{
    DtFunc *func = s->b.func;
    for (uint32_t i = 0; i < s->from->ops.n; i++)
        copy_op(s, s->from->ops.at[i]);
    for (uint32_t i = 0; i < s->from->results.n; i++)
        dt_graph_return(func, value_of(s, s->from->results.at[i], false));
    dt_graph_sweep(func);
    dt_graph_renumber(func);
    return func;
}

static DtFunc *make(DtCodes *d, DtFunc *from, DtCodesRead *const *inputs)
{
    DtCodesOf **of = DT_NEW_ARRAY(d->arena, DtCodesOf *, from->inputs.n + 1);
    for (uint32_t i = 0; i < from->inputs.n; i++)
        of[i] = inputs[i] ? inputs[i]->of : NULL;
    DtCodesMade *known = find(d, from, of);
    if (known)
        return known->made;
    Scope s = begin(d, from);
    for (uint32_t i = 0; i < from->inputs.n; i++)
        add_input(&s, i, inputs[i]);
    known = DT_NEW(d->arena, DtCodesMade);
    *known = (DtCodesMade){.from = from, .of = of, .made = finish(&s)};
    DT_PUSH(d->arena, d->made, known);
    return known->made;
}

DtFunc *dt_codesfunc_make(DtCodes *d, DtFunc *func)
{
    Scope s = begin(d, func);
    return finish(&s);
}
