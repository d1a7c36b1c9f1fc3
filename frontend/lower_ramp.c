/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with a part of the batch (`ramp`). Such a step runs fewer micro-batches, so a sum over the
 * batch has fewer terms. What the program divides by, `size[batch]`, must then be the samples of
 * the step:
 *
 *   loss   %n = const 2048; %loss = div(%sum, %n)        batch 64, seq 32
 *     =>   %n = mul(input @rows, const 32); ...          @rows: a scalar of the step
 *
 * Which constants follow the batch, and how, is seen by lowering the program twice more: with twice
 * the batch, and with the samples of the first step. Those that are proportional to the batch in
 * both are multiplied by the samples of the step, those that are inversely so are divided by them;
 * one that only doubles by chance, as `max(size[batch], 8)` may, is in no proportion with the first
 * step. Functions without parameters in which they stand (`mean`) are written out in
 * the entry. Everything else that follows the batch is refused: other axes, constants in layers and
 * loops, constants that follow it in another way. Evaluation takes whole batches and stays as it
 * is. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <math.h>
#include <string.h>

typedef enum Follows { FOLLOWS = 1, INVERSELY } Follows;

typedef struct Ramp {
    DtLower *l;
    const DtTrainConfig *train;
    const char *axis; /* of samples */
    int64_t batch;
    DtMap constants; /* ops that follow the batch -> a Follows */
    DtMap functions; /* that were compared -> whether such an op is in them, or in what they call */
    DtMap twins;     /* a value -> that of the other program */
    int64_t others;  /* the batch of the other program */
    DtMap few;       /* a value -> that of the program with the samples of the first step */
    bool is_first;   /* the other program is that one: its constants are only noted */
    DtBuilder b;
    DtValue *rows; /* the samples of the step */
    bool fails;
} Ramp;

/* The maps store pointers to these constants. */
static Follows kinds[] = {0, FOLLOWS, INVERSELY};
static bool truths[] = {false, true};

static void refuse(Ramp *r, DtSpan span, const char *what)
{
    if (r->fails)
        return;
    r->fails = true;
    DtDiag *d = dt_diag_report(r->l->diags, E0485, span, "%s", what);
    dt_diag_label(d, r->train->ramp.span, "steps take a part of `%s` here", r->axis);
}

/* ---- what follows the batch ---- */

static bool compare(Ramp *r, const DtFunc *a, const DtFunc *b);

static void compare_types(Ramp *r, const DtOp *op, const DtType *a, const DtType *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (uint32_t i = 0; same && i < a->rank; i++) {
        same = a->axes[i].name == b->axes[i].name;
        if (same && a->axes[i].extent != b->axes[i].extent && a->axes[i].name != r->axis)
            refuse(r, op->span,
                   dt_arena_printf(r->l->arena,
                                   "the extent of `%s` follows `%s`: a step with a part "
                                   "of the batch would need another one",
                                   a->axes[i].name, r->axis));
    }
    if (!same)
        refuse(r, op->span,
               dt_arena_printf(r->l->arena, "which axes this has follows `%s`", r->axis));
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-14 * fabs(a); }

/* How a number that is `other` with another batch follows the batch. */
static Follows follows(double number, double other, double batch, double others)
{
    return is_near(number * others, other * batch)   ? FOLLOWS
           : is_near(number * batch, other * others) ? INVERSELY
                                                     : 0;
}

/* Notes a constant that follows the batch; true: it does. */
static bool compare_constants(Ramp *r, const DtOp *a, const DtOp *b)
{
    if (r->is_first)
        return false;
    const DtValue *few = dt_map_find_pointer(&r->few, a->out[0]);
    const double x = a->number, with_few = few->op->number, twice = b->number;
    if ((x == with_few && x == twice) || (isnan(x) && isnan(with_few) && isnan(twice)))
        return false;
    const Follows how = follows(x, twice, (double)r->batch, (double)r->others);
    if (!how || how != follows(x, with_few, (double)r->batch, (double)r->train->ramp.from) ||
        !dt_dtype_is_float(a->out[0]->type->dtype))
        refuse(r, a->span,
               dt_arena_printf(r->l->arena,
                               "a number follows `%s`, but not as a factor or a divisor: it is %g, "
                               "%g with %lld samples, and %g with %lld",
                               r->axis, x, with_few, (long long)r->train->ramp.from, twice,
                               (long long)r->others));
    else
        dt_map_add_pointer(&r->constants, a, &kinds[how]);
    return true;
}

static bool are_twins(const Ramp *r, const DtValue *a, const DtValue *b)
{
    return dt_map_find_pointer(&r->twins, a) == b;
}

/* Whether two ops compute the same, but for constants and for extents, which follow from types. */
static bool is_same(const Ramp *r, const DtOp *a, const DtOp *b)
{
    bool same = a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out &&
                a->n_axes == b->n_axes && a->reduce == b->reduce && a->reverse == b->reverse &&
                !a->ranges == !b->ranges && !a->loop == !b->loop &&
                (a->kind == DT_OP_CONST || a->number == b->number);
    const uint32_t n_ranges =
        !a->ranges ? 0 : a->kind == DT_OP_WINDOW || a->kind == DT_OP_FOLD ? 1 : a->n_axes;
    for (uint32_t i = 0; same && i < a->n_in; i++)
        same = are_twins(r, a->in[i], b->in[i]);
    for (uint32_t i = 0; same && i < a->n_axes; i++)
        same = a->axes[i] == b->axes[i];
    for (uint32_t i = 0; same && i < n_ranges; i++)
        same = a->ranges[i].lo == b->ranges[i].lo && a->ranges[i].hi == b->ranges[i].hi &&
               a->ranges[i].step == b->ranges[i].step;
    return same && (!a->loop || a->loop->count == b->loop->count);
}

static bool compare_ops(Ramp *r, const DtOp *a, const DtOp *b)
{
    if (!is_same(r, a, b)) {
        refuse(r, a->span,
               dt_arena_printf(r->l->arena, "what is computed here follows `%s`", r->axis));
        return false;
    }
    for (uint32_t k = 0; k < a->n_out; k++) {
        compare_types(r, a, a->out[k]->type, b->out[k]->type);
        dt_map_add_pointer(&r->twins, a->out[k], b->out[k]);
    }
    if (a->kind == DT_OP_CONST)
        return compare_constants(r, a, b);
    return a->func && b->func && compare(r, a->func, b->func);
}

/* Whether the function has a constant that follows the batch. */
static bool compare(Ramp *r, const DtFunc *a, const DtFunc *b)
{
    bool any = false;
    const bool *known = dt_map_find_pointer(&r->functions, a);
    if (known)
        return *known;
    bool same = a->ops.n == b->ops.n && a->inputs.n == b->inputs.n && a->results.n == b->results.n;
    for (uint32_t i = 0; same && i < a->inputs.n; i++)
        dt_map_add_pointer(&r->twins, a->inputs.at[i], b->inputs.at[i]);
    for (uint32_t i = 0; same && i < a->ops.n && !r->fails; i++)
        any |= compare_ops(r, a->ops.at[i], b->ops.at[i]);
    for (uint32_t i = 0; same && i < a->results.n && !r->fails; i++)
        same = are_twins(r, a->results.at[i], b->results.at[i]);
    if (!same)
        refuse(r, a->span,
               dt_arena_printf(r->l->arena, "what is computed here follows `%s`", r->axis));
    if (!r->fails && a->gradient && b->gradient)
        any |= compare(r, a->gradient->func, b->gradient->func);
    if (!r->fails && a->stream && b->stream) {
        DtFunc *const parts[][2] = {{a->stream->part, b->stream->part},
                                    {a->stream->merge, b->stream->merge},
                                    {a->stream->finish, b->stream->finish}};
        for (size_t i = 0; i < DT_COUNT(parts); i++)
            if (parts[i][0] && parts[i][1])
                any |= compare(r, parts[i][0], parts[i][1]);
    }
    dt_map_add_pointer(&r->functions, a, &truths[any]);
    return any;
}

/* ---- the entry ---- */

/* The number that a constant is in this step. */
static DtValue *scaled(Ramp *r, const DtOp *op)
{
    const Follows *how = dt_map_find_pointer(&r->constants, op);
    const bool inverse = *how == INVERSELY;
    const double batch = (double)r->batch;
    DtValue *number =
        dt_graph_constant(&r->b, DT_F32, inverse ? op->number * batch : op->number / batch);
    DtValue *value = inverse ? dt_graph_binary(&r->b, DT_OP_DIV, number, r->rows)
                             : dt_graph_binary(&r->b, DT_OP_MUL, r->rows, number);
    return dt_graph_cast(&r->b, value, op->out[0]->type->dtype);
}

static bool is_plain(const DtFunc *func)
{
    bool plain = func->kind == DT_FUNC_FN && !func->params.n && !func->gradient && !func->stream;
    for (uint32_t i = 0; plain && i < func->ops.n; i++)
        plain = func->ops.at[i]->kind != DT_OP_LOOP && func->ops.at[i]->kind != DT_OP_RNG;
    return plain;
}

static bool is_touched(const Ramp *r, const DtFunc *func)
{
    const bool *known = func ? dt_map_find_pointer(&r->functions, func) : NULL;
    return known && *known;
}

/* The constant in a function that follows the batch, for a message. */
static const DtOp *first_in(const Ramp *r, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (dt_map_find_pointer(&r->constants, op))
            return op;
        const DtOp *inside = is_touched(r, op->func) ? first_in(r, op->func) : NULL;
        if (inside)
            return inside;
    }
    return NULL;
}

/* Writes the ops of a called function into the entry; ret: what stands for its results. */
static void write_out(Ramp *r, const DtOp *call, DtValue *const *in, DtValue **ret)
{
    const DtFunc *func = call->func;
    if (call->kind != DT_OP_CALL || !is_plain(func)) {
        const DtOp *op = first_in(r, func);
        refuse(r, op ? op->span : call->span,
               dt_arena_printf(r->l->arena, "a number in %s follows `%s`",
                               call->kind == DT_OP_LOOP ? "a loop" : "a layer", r->axis));
        memcpy(ret, call->out, call->n_out * sizeof *ret);
        return;
    }
    DtValue **now = DT_NEW_ARRAY(r->l->arena, DtValue *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        now[func->inputs.at[i]->id] = in[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue **operands = DT_NEW_ARRAY(r->l->arena, DtValue *, op->n_in + 1);
        DtValue **made = DT_NEW_ARRAY(r->l->arena, DtValue *, op->n_out + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            operands[k] = now[op->in[k]->id];
        r->b.span = op->span;
        r->b.path = call->path;
        if (dt_map_find_pointer(&r->constants, op))
            made[0] = scaled(r, op);
        else if (is_touched(r, op->func))
            write_out(r, op, operands, made);
        else
            memcpy(made, dt_graph_copy(&r->b, op, operands)->out, op->n_out * sizeof *made);
        for (uint32_t k = 0; k < op->n_out; k++)
            now[op->out[k]->id] = made[k];
    }
    for (uint32_t i = 0; i < call->n_out; i++)
        ret[i] = now[func->results.at[i]->id];
}

static void rewrite_op(Ramp *r, DtOp *op, DtValue **now)
{
    DtValue **made = DT_NEW_ARRAY(r->l->arena, DtValue *, op->n_out + 1);
    for (uint32_t k = 0; k < op->n_in; k++)
        op->in[k] = now[op->in[k]->id];
    memcpy(made, op->out, op->n_out * sizeof *made);
    r->b.span = op->span;
    r->b.path = op->path;
    if (dt_map_find_pointer(&r->constants, op))
        made[0] = scaled(r, op);
    else if (is_touched(r, op->func))
        write_out(r, op, op->in, made);
    else
        DT_PUSH(r->l->arena, r->b.func->ops, op);
    for (uint32_t k = 0; k < op->n_out; k++) {
        if (!made[k]->name)
            made[k]->name = op->out[k]->name;
        now[op->out[k]->id] = made[k];
    }
}

static void rewrite(Ramp *r, DtFunc *func)
{
    dt_graph_renumber(func);
    DtValue **now = DT_NEW_ARRAY(r->l->arena, DtValue *, func->n_values + 1);
    const uint32_t n = func->ops.n;
    DtOp **ops = DT_NEW_ARRAY(r->l->arena, DtOp *, n + 1);
    memcpy(ops, func->ops.at, n * sizeof *ops);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        now[func->inputs.at[i]->id] = func->inputs.at[i];
    func->ops.n = 0;
    r->b = (DtBuilder){.func = func, .span = r->train->ramp.span};
    r->rows = dt_graph_source(&r->b, DT_OP_INPUT, dt_type_scalar(DT_F32), DT_ROWS_INPUT, NULL);
    for (uint32_t i = 0; i < n; i++)
        rewrite_op(r, ops[i], now);
    for (uint32_t i = 0; i < func->results.n; i++)
        func->results.at[i] = now[func->results.at[i]->id];
    dt_graph_sweep(func);
    dt_graph_renumber(func);
}

/* ---- all ---- */

/* Compares the loss of an entry with that of the programs with other batches. */
static bool compare_entries(Ramp *r, const DtFunc *loss, const DtFunc *few, const DtFunc *twice)
{
    const DtMap none = {.arena = r->l->arena};
    r->constants = r->functions = r->twins = none;
    r->is_first = true;
    compare(r, loss, few);
    r->is_first = false;
    r->few = r->twins;
    r->functions = r->twins = none;
    return !r->fails && compare(r, loss, twice) && !r->fails;
}

void dt_ramp_make(DtLower *l, DtTrainConfig *train, const DtModule *twice, const DtModule *few)
{
    const DtType *type = train->readers.at[0].types[0];
    Ramp r = {.l = l,
              .train = train,
              .axis = type->axes[0].name,
              .batch = type->axes[0].extent,
              .others = 2 * type->axes[0].extent};
    bool any = false;
    for (uint32_t i = 0; i < l->module->entries.n && !r.fails; i++) {
        const DtEntryPoint *entry = &l->module->entries.at[i];
        if (entry->kind != DT_ENTRY_LOSS)
            continue;
        if (!compare_entries(&r, entry->func, few->entries.at[i].func, twice->entries.at[i].func))
            continue;
        rewrite(&r, entry->func);
        any = true;
    }
    if (any)
        DT_PUSH(l->arena, train->scalars, ((DtStepScalar){dt_intern(DT_ROWS_INPUT), "rows"}));
}
