/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: finds the positions at which a function may change its formula. Both functions are run on
 * the sources of integers: sums of positions along axes, numbers of a range (a loop iteration, a
 * block), and quotients and remainders of such sums, with constants (box_linear.c). Where two are
 * compared, their difference is zero at computable positions: those are the edges. An integer made
 * otherwise (a product of positions, a sum, a lookup) may depend on positions along some axes in
 * any way: if it decides, these axes are evaluated at all positions. A remainder that restarts
 * within a block is periodic, and so are decisions made of it: a whole period is evaluated at
 * each edge. Where that would be too much, or edges may be elsewhere, the result is doubtful
 * (box.c). */
#include "verify/box_internal.h"

#include <math.h>
#include <stdlib.h>

enum { LINEARS = 4, NESTED = 3, MOST_RANGES = 256, MOST_FACTOR = 8, MOST_OPS = 100000,
       MOST_EDGES = 4096, MOST_PERIOD = 8 };

/* The possible values of all elements of a tensor. Integers: one of some linear functions of
 * variables. Floats: a constant; or scale times one of these functions, plus shift; or unknown (n =
 * 0). */
typedef struct Value {
    uint32_t n;
    BoxLinear linear[LINEARS];
    bool is_number;
    double number, scale, shift;
} Value;

typedef struct Edges {
    Box *b;
    BoxVars vars;
    uint32_t ops, depth;
    /* in this round of the search, some axis was marked to be evaluated at all positions */
    bool fixed;
} Edges;

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* ---- edges ---- */

/* Marks all axes on which the linear function depends (e->fixed, BoxLens.fixed): they are then
 * evaluated at all positions. */
static void look_at_all(Edges *e, const BoxLinear *f)
{
    bool lens[BOX_NAMES] = {0};
    dt_boxlinear_depends(&e->vars, f, lens);
    for (uint32_t k = 0; k < e->b->n_lenses; k++)
        if (lens[k] && !e->b->lenses[k].fixed)
            e->b->lenses[k].fixed = e->fixed = true;
}

static void add_edge(Edges *e, int64_t at)
{
    for (uint32_t i = 0; i < e->b->places.n; i++)
        if (e->b->places.at[i] == at)
            return;
    if (e->b->places.n == MOST_EDGES)
        dt_box_large(e->b, NULL, "too many constants that positions meet");
    else
        DT_PUSH(e->b->arena, e->b->places, at);
}

static void cross(Edges *e, const BoxLinear *f, int depth);

static void cross_less(Edges *e, const BoxLinear *of, int64_t x, int depth)
{
    const BoxLinear c = dt_boxlinear_constant(x);
    BoxLinear less;
    if (dt_boxlinear_sum(of, &c, -1, &less))
        cross(e, &less, depth);
    else
        look_at_all(e, of);
}

/* Whether term i of f is the number of a block, with a factor such that f grows by whole blocks. */
static bool counts_blocks(const Edges *e, const BoxLinear *f, uint32_t i)
{
    const BoxVar *var = e->vars.at[f->term[i].var];
    return var->made == BOX_QUOTIENT && dt_boxlinear_is_of_blocks(&e->vars, &var->of, var->by) &&
           f->term[i].by % dt_boxlinear_unit(&e->vars, &var->of) == 0;
}

/* Whether another term of f varies along an axis of term i. Then f may be zero although neither
 * term is zero. */
static bool mixes(const Edges *e, const BoxLinear *f, uint32_t i)
{
    const uint64_t axes = counts_blocks(e, f, i) ? 0 : e->vars.at[f->term[i].var]->axes;
    bool mixes = false;
    for (uint32_t k = 0; k < f->n; k++)
        mixes =
            mixes || (k != i && axes & e->vars.at[f->term[k].var]->axes && !counts_blocks(e, f, k));
    return mixes;
}

/* Adds edges for term i of f, a quotient or a remainder: where this term makes f zero, and where
 * the term is 0 or 1. */
static void cross_inner(Edges *e, const BoxLinear *f, uint32_t i, int depth)
{
    const BoxVar *var = e->vars.at[f->term[i].var];
    const BoxLinear rest = dt_boxlinear_without(f, i);
    const int64_t at = dt_cert_down(-f->plus, f->term[i].by),
                  step = var->made == BOX_QUOTIENT ? var->by : 1,
                  turn = var->made == BOX_QUOTIENT ? 1 : var->by;
    int64_t zero;
    e->b->doubtful = e->b->doubtful || mixes(e, f, i);
    if (depth == 0 || __builtin_mul_overflow(at, step, &zero) || llabs(zero) > INT32_MAX ||
        llabs(var->by) > INT32_MAX) {
        look_at_all(e, f);
        return;
    }
    for (int64_t k = 0; k < 2; k++) {
        cross_less(e, &var->of, zero + k * step * turn, depth - 1);
        cross_less(e, &var->of, k * step * turn, depth - 1);
        if (var->made == BOX_QUOTIENT)
            cross_less(e, &var->of, zero - step * k, depth - 1);
    }
    cross(e, &rest, depth - 1);
}

/* Adds the positions where by * position + plus is zero modulo the unit: in all blocks. */
static void add_roots(Edges *e, int64_t unit, int64_t by, int64_t plus)
{
    for (int64_t k = 0; k < llabs(by); k++)
        add_edge(e, dt_cert_down(-(plus + k * unit), by));
}

/* Adds edges for f, a sum of positions and of numbers of ranges: for each of these that does not
 * count blocks. */
static void cross_position(Edges *e, const BoxLinear *f, uint32_t position)
{
    const int64_t unit = dt_boxsmall_lens(e->b, e->vars.at[f->term[position].var]->axis)->unit,
                  by = f->term[position].by;
    int64_t turns = 1, plus;
    bool good = llabs(by) <= MOST_FACTOR && llabs(f->plus) < INT64_MAX / 4;
    for (uint32_t i = 0; good && i < f->n; i++) {
        const BoxVar *var = e->vars.at[f->term[i].var];
        good = llabs(f->term[i].by) <= INT32_MAX &&
               (var->made == BOX_POSITION || llabs(var->lo) <= INT32_MAX);
        if (var->made == BOX_RANGE && f->term[i].by % (unit * llabs(by)))
            good = good && var->n <= MOST_RANGES && (turns *= var->n) <= MOST_RANGES;
    }
    if (!good) {
        look_at_all(e, f);
        return;
    }
    for (int64_t turn = 0; turn < turns; turn++) {
        int64_t number = turn;
        plus = f->plus;
        for (uint32_t i = 0; i < f->n; i++) {
            const BoxVar *var = e->vars.at[f->term[i].var];
            if (var->made != BOX_RANGE || f->term[i].by % (unit * llabs(by)) == 0)
                continue;
            plus += f->term[i].by * (var->lo + number % var->n);
            number /= var->n;
        }
        add_roots(e, unit, by, plus);
    }
}

/* Adds edges for a decision that depends on the sign of f. For further positions in f it suffices
 * to find the roots with these at the first position of a block, where they are evaluated. */
static void cross(Edges *e, const BoxLinear *f, int depth)
{
    uint32_t position = f->n;
    for (uint32_t i = 0; i < f->n; i++) {
        const BoxVar *var = e->vars.at[f->term[i].var];
        if (var->made == BOX_QUOTIENT || var->made == BOX_REST) {
            cross_inner(e, f, i, depth);
            return;
        }
        if (var->made == BOX_ANYTHING) {
            const BoxLinear one = dt_boxlinear_of(f->term[i].var),
                            rest = dt_boxlinear_without(f, i);
            look_at_all(e, &one);
            dt_boxsmall_constant(e->b, dt_cert_down(-f->plus, f->term[i].by));
            cross(e, &rest, depth);
            return;
        }
        if (var->made == BOX_POSITION &&
            (position == f->n || llabs(f->term[i].by) < llabs(f->term[position].by)))
            position = i;
    }
    if (position < f->n)
        cross_position(e, f, position);
}

/* ---- values ---- */

static Value integer(const BoxLinear linear) { return (Value){.n = 1, .linear = {linear}}; }

static Value integer_of(uint32_t var) { return integer(dt_boxlinear_of(var)); }

/* An unknown integer that may depend on the axes of n given values. */
static Value anything(Edges *e, uint32_t n, const Value *const *of)
{
    BoxVar var = {.made = BOX_ANYTHING};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < of[i]->n; k++) {
            dt_boxlinear_depends(&e->vars, &of[i]->linear[k], var.lens);
            var.axes |= dt_boxlinear_axes(&e->vars, &of[i]->linear[k]);
        }
    return integer_of(dt_boxlinear_new(&e->vars, var));
}

static void push(Edges *e, Value *to, const BoxLinear *linear)
{
    if (to->n < LINEARS) {
        to->linear[to->n++] = *linear;
        return;
    }
    const Value more = {.n = 1, .linear = {*linear}}, *both[] = {to, &more};
    *to = anything(e, 2, both);
}

static Value sum_of(Edges *e, const Value *x, const Value *y, int64_t by)
{
    Value sum = {0};
    const Value *both[] = {x, y};
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < y->n; k++) {
            BoxLinear linear;
            if (!dt_boxlinear_sum(&x->linear[i], &y->linear[k], by, &linear))
                return anything(e, 2, both);
            push(e, &sum, &linear);
        }
    return sum;
}

static bool is_constant(const Value *x, int64_t *ret_constant)
{
    *ret_constant = x->linear[0].plus;
    return x->n == 1 && x->linear[0].n == 0;
}

static Value product_of(Edges *e, const Value *x, const Value *y)
{
    const Value zero = {.n = 1}, *both[] = {x, y};
    int64_t by;
    if (is_constant(y, &by))
        return sum_of(e, &zero, x, by);
    if (is_constant(x, &by))
        return sum_of(e, &zero, y, by);
    return anything(e, 2, both);
}

static void decide(Edges *e, const Value *x, const Value *y)
{
    const Value apart = sum_of(e, x, y, -1);
    for (uint32_t i = 0; i < apart.n; i++)
        cross(e, &apart.linear[i], NESTED);
}

static Value either_of(Edges *e, const Value *x, const Value *y)
{
    Value both = *x;
    for (uint32_t i = 0; i < y->n; i++)
        push(e, &both, &y->linear[i]);
    both.scale = x->scale;
    both.shift = x->shift;
    return both;
}

/* For a remainder modulo m that restarts within a block: makes b->period a multiple of m, so that a
 * whole period is evaluated at each edge. If the period would be too long, the box becomes
 * doubtful. */
static void repeat(Edges *e, int64_t m)
{
    const int64_t period = e->b->period;
    int64_t both = period;
    while (both % m && both <= MOST_PERIOD)
        both += period;
    if (both <= MOST_PERIOD)
        e->b->period = both;
    else
        e->b->doubtful = true;
}

/* Returns the quotient or remainder of x by the constant y, and adds edges where it begins anew. It
 * is unknown if y is no positive constant. */
static Value divided(Edges *e, const Value *x, const Value *y, BoxMade made)
{
    const Value *both[] = {x, y};
    Value all = {0};
    int64_t m, lo, hi;
    if (!is_constant(y, &m) || m < 1 || m > INT32_MAX)
        return anything(e, 2, both);
    for (uint32_t i = 0; i < x->n; i++) {
        const BoxLinear *f = &x->linear[i];
        BoxVar var = {.made = made, .of = *f, .by = m, .axes = dt_boxlinear_axes(&e->vars, f)};
        dt_boxlinear_depends(&e->vars, f, var.lens);
        if (f->n == 0) {
            const int64_t quotient = dt_cert_down(f->plus, m);
            const BoxLinear number =
                dt_boxlinear_constant(made == BOX_QUOTIENT ? quotient : f->plus - quotient * m);
            push(e, &all, &number);
            continue;
        }
        if (dt_boxlinear_range(&e->vars, f, &lo, &hi)) {
            lo = dt_cert_down(lo, m);
            var = (BoxVar){.made = BOX_RANGE, .lo = made == BOX_REST ? 0 : lo,
                           .n = made == BOX_REST ? m : dt_cert_down(hi, m) - lo + 1};
        } else {
            cross(e, f, NESTED);
            cross_less(e, f, m, NESTED);
            if (made == BOX_REST && var.axes && !dt_boxlinear_is_of_blocks(&e->vars, f, m))
                repeat(e, m);
        }
        const BoxLinear linear = dt_boxlinear_of(dt_boxlinear_new(&e->vars, var));
        push(e, &all, &linear);
    }
    return all;
}

/* Adds edges where a float computed from positions equals a constant, which may be between two
 * integers, or another such float of the same scale. */
static void decide_float(Edges *e, const Value *x, const Value *y)
{
    const double zero = x->n ? ((y->n ? y->shift : y->number) - x->shift) / x->scale : 0;
    const bool known = y->n ? y->scale == x->scale : y->is_number;
    if (!x->n || !(known && dt_box_is_whole(zero)))
        return;
    const Value none = {.n = 1}, apart = sum_of(e, x, y->n ? y : &none, -1);
    for (uint32_t i = 0; i < apart.n; i++) {
        cross_less(e, &apart.linear[i], (int64_t)floor(zero), NESTED);
        cross_less(e, &apart.linear[i], (int64_t)ceil(zero), NESTED);
    }
}

/* ---- ops ---- */

static bool is_float(const CertType *type) { return dt_cert_is_float(type->dtype); }

static bool decides(const char *kind)
{
    static const char *const kinds[] = {"lt", "le", "eq", "ne", "max", "min"};
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (is(kinds[i], kind))
            return true;
    return false;
}

/* Records which lens each renamed axis uses; returns the value of the result, which is that of
 * x. */
static Value relabelled(Edges *e, const CertOp *op, const Value *x)
{
    Value y = *x;
    for (uint32_t i = 0; i < y.n; i++)
        for (uint32_t t = 0; t < y.linear[i].n; t++) {
            const BoxVar *var = e->vars.at[y.linear[i].term[t].var];
            for (uint32_t r = 0; r < op->n_relabels && var->made == BOX_POSITION; r++)
                for (uint32_t k = 0; k < op->relabels[r].n_from; k++)
                    if (op->relabels[r].from[k] == var->axis && op->relabels[r].n_to) {
                        y.linear[i].term[t].var = dt_boxlinear_position(
                            &e->vars, op->relabels[r].to[op->relabels[r].n_to - 1]);
                        r = op->n_relabels;
                        break;
                    }
        }
    return y;
}

static Value source_of(Edges *e, const CertOp *op)
{
    const CertType *type = op->types[0];
    if (is(op->kind, "iota") && op->n_axes == 1)
        return integer_of(dt_boxlinear_position(&e->vars, op->axes[0]));
    if (!is(op->kind, "const"))
        return is_float(type) ? (Value){0} : anything(e, 0, NULL);
    if (is_float(type))
        return (Value){.is_number = true, .number = op->number};
    return dt_box_is_whole(op->number) ? integer(dt_boxlinear_constant((int64_t)op->number))
                                       : anything(e, 0, NULL);
}

/* Returns the value of an integer after it is stored in the dtype: unknown if the dtype may be too
 * small for it. */
static Value held(Edges *e, const CertType *type, const Value *x)
{
    const bool whole = is(type->dtype, "i32"),
               holds = whole || is(type->dtype, "i64") ||
                       (is_float(type) && !dt_boxnumber_narrows("f32", type->dtype));
    for (uint32_t i = 0; i < x->n; i++)
        if (x->linear[i].n &&
            (!holds || (whole && dt_boxlinear_most(&e->vars, &x->linear[i]) > INT32_MAX / 2)))
            return anything(e, 1, &x);
    return *x;
}

/* The value after a cast. A float becomes an unknown integer; casting to boolean tells whether the
 * value is 0. */
static Value cast_of(Edges *e, const CertType *from, const CertType *to, const Value *x)
{
    const Value zero = {.n = 1};
    const bool to_bool = is(to->dtype, "bool"), decides = to_bool && !is(from->dtype, "bool");
    if (decides && is_float(from))
        decide_float(e, x, &(Value){.is_number = true});
    else if (decides)
        decide(e, x, &zero);
    if (is_float(from) && !is_float(to) && !to_bool)
        return anything(e, 0, NULL);
    if (is(from->dtype, "bool") || to_bool)
        return anything(e, 1, &x);
    Value made = held(e, to, x);
    if (!is_float(from)) {
        made.scale = 1;
        made.shift = 0;
    }
    return made;
}

static bool is_logic(const char *kind)
{
    return is(kind, "not") || is(kind, "and") || is(kind, "or");
}

static Value integers_of(Edges *e, const CertOp *op, const CertType *const *types,
                         const Value *const *in)
{
    const char *kind = op->kind;
    const Value zero = {.n = 1};
    if (op->n_in == 2 && decides(kind))
        decide(e, in[0], in[1]);
    for (uint32_t i = 0; i < op->n_in && is_logic(kind); i++)
        if (!is(types[i]->dtype, "bool"))
            decide(e, in[i], &zero);
    if (is(kind, "add") || is(kind, "sub"))
        return sum_of(e, in[0], in[1], is(kind, "add") ? 1 : -1);
    if (is(kind, "mul"))
        return product_of(e, in[0], in[1]);
    if (is(kind, "floordiv") || is(kind, "mod"))
        return divided(e, in[0], in[1], is(kind, "mod") ? BOX_REST : BOX_QUOTIENT);
    if (is(kind, "max") || is(kind, "min"))
        return either_of(e, in[0], in[1]);
    if (is(kind, "neg"))
        return sum_of(e, &zero, in[0], -1);
    if (is(kind, "abs")) {
        const Value less = sum_of(e, &zero, in[0], -1);
        decide(e, in[0], &zero);
        return either_of(e, in[0], &less);
    }
    return anything(e, op->n_in, in);
}

static bool stays(const CertOp *op)
{
    static const char *const kinds[] = {"stop", "bind", "expand", "shift", "all_gather",
                                        "all_to_all", "reduce_scatter", "all_reduce", "shard"};
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (is(kinds[i], op->kind))
            return true;
    return false;
}

/* Whether f grows faster than positions do, so that the element after the first position of a block
 * is not the next position. */
static bool skips(const Edges *e, const BoxLinear *f)
{
    bool skips = false;
    for (uint32_t i = 0; i < f->n; i++)
        skips = skips ||
                (e->vars.at[f->term[i].var]->made == BOX_POSITION && llabs(f->term[i].by) > 1);
    return skips;
}

/* Whether an index f may lead to positions that are not evaluated: it does not advance as positions
 * do, block by block, and it is not computed from operands. */
static bool strays(const Edges *e, const BoxLinear *f)
{
    bool steps = f->n == 0, strays = false;
    for (uint32_t i = 0; i < f->n; i++) {
        const BoxVar *var = e->vars.at[f->term[i].var];
        const bool divided = var->made == BOX_REST || var->made == BOX_QUOTIENT,
                   free = var->made != BOX_RANGE && !var->axes;
        steps = steps || free || var->made == BOX_POSITION || var->made == BOX_REST;
        strays = strays || (divided && !free &&
                            !dt_boxlinear_is_of_blocks(&e->vars, &var->of, var->by));
    }
    return strays || !steps;
}

/* The result of a lookup is unknown. Adds edges where the index leaves the axis or enters another
 * block. */
static Value looked_up(Edges *e, const CertOp *op, const Value *const *in)
{
    for (uint32_t i = 1; i < op->n_in; i++)
        for (uint32_t k = 0; k < in[i]->n; k++) {
            const BoxLinear *f = &in[i]->linear[k];
            BoxLinear where = dt_boxlinear_constant(0);
            if (i <= op->n_axes)
                where = dt_boxlinear_of(dt_boxlinear_position(&e->vars, op->axes[i - 1]));
            cross(e, f, NESTED);
            if (f->n == 0)
                add_edge(e, f->plus);
            if (skips(e, f)) {
                look_at_all(e, f);
                look_at_all(e, &where);
            }
            e->b->doubtful =
                e->b->doubtful || (dt_boxlinear_axes(&e->vars, &where) && strays(e, f));
        }
    return is_float(op->types[0]) ? (Value){0} : anything(e, op->n_in, in);
}

/* The value of a float computed from positions and constants by a sum, or a product with a
 * constant; other floats are unknown. */
static Value float_of(Edges *e, const CertOp *op, const Value *x, const Value *y)
{
    const bool adds = is(op->kind, "add") || is(op->kind, "sub"), divides = is(op->kind, "div");
    const double sign = is(op->kind, "sub") || is(op->kind, "neg") ? -1 : 1, number = y->number;
    Value made = *x;
    if (op->n_in == 1 && is(op->kind, "neg")) {
        made.scale = -x->scale;
        made.shift = -x->shift;
        return made;
    }
    /* the constant is the second operand */
    if (op->n_in == 2 && !x->n && x->is_number && y->n && !divides) {
        made = float_of(e, op, y, x);
        made.scale *= adds ? sign : 1;
        made.shift *= adds ? sign : 1;
        return made;
    }
    if (op->n_in != 2 || !x->n)
        return (Value){0};
    if (adds && y->n && y->scale == x->scale) {
        made = sum_of(e, x, y, (int64_t)sign);
        made.scale = x->scale;
        made.shift = x->shift + sign * y->shift;
        return made;
    }
    if (!y->is_number || !(adds || is(op->kind, "mul") || divides) || (!adds && number == 0))
        return (Value){0};
    made.scale = adds ? x->scale : divides ? x->scale / number : x->scale * number;
    made.shift = adds ? x->shift + sign * number : divides ? x->shift / number : x->shift * number;
    return made;
}

/* Whether both floats are the same function (scale and shift) of integers computed from
 * positions. */
static bool is_alike(const Value *x, const Value *y)
{
    return x->n && y->n && x->scale == y->scale && x->shift == y->shift;
}

static Value value_of(Edges *e, const CertOp *op, const CertType *const *types,
                      const Value *const *in)
{
    const bool floats = op->n_in && is_float(types[0]);
    if (op->n_in == 0)
        return source_of(e, op);
    if (stays(op) && op->n_in == 1)
        return *in[0];
    if (is(op->kind, "relabel") && op->n_in == 1)
        return relabelled(e, op, in[0]);
    if (is(op->kind, "cast") && op->n_in == 1)
        return cast_of(e, types[0], op->types[0], in[0]);
    if (is(op->kind, "where") && op->n_in == 3)
        return is_float(types[1]) && !is_alike(in[1], in[2]) ? (Value){0}
                                                             : either_of(e, in[1], in[2]);
    if (is(op->kind, "gather") || is(op->kind, "scatter_add"))
        return looked_up(e, op, in);
    if (floats && op->n_in == 2 && decides(op->kind)) {
        decide_float(e, in[0], in[1]);
        if (!in[0]->n)
            decide_float(e, in[1], in[0]);
    }
    if (floats)
        return is_float(op->types[0]) ? float_of(e, op, in[0], in[op->n_in - 1])
                                      : anything(e, op->n_in, in);
    const Value made = integers_of(e, op, types, in);
    return held(e, op->types[0], &made);
}

/* A sum over an axis of which few positions are evaluated also counts the other positions. So an
 * unknown sum (reduce, scatter_add) is recorded as dependent on that axis. */
static void note_summed(Edges *e, const CertOp *op, Value *out)
{
    for (uint32_t i = 0; i < op->n_axes + op->n_axes2 && out->n == 1 && out->linear[0].n == 1;
         i++) {
        const BoxLens *lens =
            dt_boxsmall_lens(e->b, i < op->n_axes ? op->axes[i] : op->axes2[i - op->n_axes]);
        BoxVar *var = e->vars.at[out->linear[0].term[0].var];
        if (lens && var->made == BOX_ANYTHING &&
            (is(op->kind, "reduce") || is(op->kind, "scatter_add")))
            var->lens[lens - e->b->lenses] = true;
    }
}

/* ---- functions ---- */

static bool walk(Edges *e, const CertProgram *program, const CertFunc *func, const Value *in,
                 Value *out);

/* Values that a loop carries are unknown. */
static bool walk_call(Edges *e, const CertProgram *program, const CertOp *op, const CertFunc *func,
                      const Value *const *in, Value *out)
{
    Value *args = DT_NEW_ARRAY(e->b->scratch, Value, func->n_args + 1);
    const uint32_t skip = op->loop ? 1 : 0;
    if (op->loop)
        args[0] = integer_of(dt_boxlinear_new(
            &e->vars,
            (BoxVar){.made = BOX_RANGE, .lo = op->loop->first, .n = op->loop->count}));
    for (uint32_t i = 0; i < op->n_in; i++) {
        args[i + skip] = *in[i];
        if (op->loop && i < op->loop->carried) {
            BoxVar var = {.made = BOX_ANYTHING};
            for (uint32_t k = 0; k < e->b->n_lenses; k++)
                var.lens[k] = dt_boxlinear_is_thin(&e->b->lenses[k]);
            args[i + skip] = is_float(func->args.at[i + skip])
                                 ? (Value){0}
                                 : integer_of(dt_boxlinear_new(&e->vars, var));
        }
    }
    return walk(e, program, func, args, out);
}

static bool walk(Edges *e, const CertProgram *program, const CertFunc *func, const Value *in,
                 Value *out)
{
    Value *values = DT_NEW_ARRAY(e->b->scratch, Value, func->n_values + 1);
    const CertType **types = DT_NEW_ARRAY(e->b->scratch, const CertType *, func->n_values + 1);
    const Value **operands = DT_NEW_ARRAY(e->b->scratch, const Value *, func->most_in + 1);
    const CertType **of = DT_NEW_ARRAY(e->b->scratch, const CertType *, func->most_in + 1);
    if (e->depth++ == BOX_DEPTH || (e->ops += func->ops.n) > MOST_OPS)
        return dt_box_fail(e->b, NULL, "functions call each other too deep, or too often");
    for (uint32_t i = 0; i < func->n_args; i++) {
        values[i] = in[i];
        types[i] = func->args.at[i];
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        const CertFunc *called = op->func ? dt_certtext_func(program, op->func) : NULL;
        for (uint32_t k = 0; k < op->n_in; k++) {
            operands[k] = &values[op->in[k]];
            of[k] = types[op->in[k]];
        }
        for (uint32_t k = 0; k < op->n_out; k++)
            types[op->first_out + k] = op->types[k];
        if (called && !walk_call(e, program, op, called, operands, values + op->first_out))
            return false;
        if (!called)
            for (uint32_t k = 0; k < op->n_out; k++) {
                values[op->first_out + k] = value_of(e, op, of, operands);
                note_summed(e, op, &values[op->first_out + k]);
            }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        out[i] = values[func->results.at[i]];
    e->depth--;
    return !e->b->problem->len;
}

bool dt_boxedge_find(Box *b, const CertProgram *program, const CertFunc *func, bool *ret_changed)
{
    Edges *e = DT_NEW(b->scratch, Edges);
    *e = (Edges){.b = b, .vars = {.b = b}};
    Value *in = DT_NEW_ARRAY(b->scratch, Value, func->n_args + 1),
          *out = DT_NEW_ARRAY(b->scratch, Value, func->results.n + 1);
    for (uint32_t i = 0; i < func->n_args; i++)
        in[i] = is_float(func->args.at[i]) ? (Value){0} : anything(e, 0, NULL);
    const bool good = walk(e, program, func, in, out);
    *ret_changed = *ret_changed || e->fixed;
    return good;
}
