/* SPDX-License-Identifier: Apache-2.0 */
/* Products with epilogues: elementwise ops on a product's result, and sums of one of its
 * operands over the summed axis, that the library does in the same call. `fuse` makes one op of
 * them:
 *
 *     %2 = dot[k](%x, %w)                          func f.k0 : kernel {
 *     %3 = add(%2, %bias)                            %2 = dot[k](%0, %1)
 *     .. gelu of %3, written in any way              %3 = add(%2, %bias) ..
 *     return %3, %9                       =>       }
 *                                                  %3, %9 = fused(%x, %w, %bias) func=f.k0
 *                                                  text=bias_gelu_aux
 *
 * The ops are compared with a row of ir/epilogues.def over residues (ir/exact.h), so that the
 * form in which a layer or its derivative is written does not matter: sums, products, quotients,
 * tanh, and decisions by whether x + v is above zero, with the constants of the row. The
 * certificate compares anew, with a table and numbers of its own; ops that it would not accept
 * are not joined. Casts between floats are ignored, as in kernels.
 *
 * A vector is joined if it is in memory in the result's dtype, as rounded gains and biases are
 * (pass `narrow`). */
#include "passes/lower/fuse_internal.h"

#include "ir/exact.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 2, MOST_DEPTH = 3 };

/* Tensors that the ops read in addition to the product's operands (vector, matrix) and write in
 * addition to the result (aux). */
typedef struct Leaves {
    const DtValue *vector, *matrix, *aux;
    bool good;
} Leaves;

typedef struct Epilogues {
    const DtFusion *f;       /* producers and readers of values */
    const DtFunc *func;
    uint32_t allowed;        /* bits: values of DtEpilogue */
    bool *taken;             /* by position: the op is part of a product's epilogue already */
    /* the product that is examined */
    const DtOp *dot;
    bool *reached, *inside;  /* by position: reached: computed from the product; inside: among the
                              * ops being compared */
    uint32_t at[DT_EPILOGUE_OPS], n;           /* the product, and the ops reached from it */
    /* positions of the ops being compared, in the function's order */
    uint32_t tried[DT_EPILOGUE_OPS], n_tried;
    /* also compares ops that depend on the matrix alone, as in the derivative of a function at the
     * matrix */
    bool deep;
    DtExact *number;         /* by value id */
    DtExact sum;             /* x + v */
    int sign;                /* the sign of that sum: -1, 0 or 1 */
} Epilogues;

/* ---- the meaning of rows ---- */

typedef struct Row {
    const char *text;
    uint8_t vector, matrix;
    DtExact (*meaning)(DtExact x, DtExact v, DtExact m, int sign);
} Row;

/* Programs contain sqrt(2 / pi) rounded: to a double, perhaps computed by a division or two, or
 * to the usual ten digits. As f32 all of these are the same number. */
static const double root = 0.79788456080286535588, cubic = 0.044715;

/* A program has the root rounded: to a double, perhaps by a division or two, or to ten digits, as
 * is usual. Both are the same f32. */
static DtExact constant(double x)
{
    return dt_exact_number(fabs(x - root) <= 0x1p-50 || x == 0.7978845608 ? root : x);
}

static DtExact plus(DtExact x, DtExact y) { return dt_exact_map(DT_OP_ADD, x, y); }
static DtExact times(DtExact x, DtExact y) { return dt_exact_map(DT_OP_MUL, x, y); }
static DtExact by(double c, DtExact x) { return times(constant(c), x); }

static DtExact curve(DtExact x)
{
    const DtExact inner = by(root, plus(x, by(cubic, times(x, times(x, x)))));
    return dt_exact_map(DT_OP_TANH, inner, inner);
}

static DtExact gelu(DtExact x) { return by(0.5, times(x, plus(constant(1), curve(x)))); }

static DtExact gelu_slope(DtExact x)
{
    const DtExact one = constant(1), t = curve(x), inner = plus(one, by(3, by(cubic, times(x, x)))),
                  steep = dt_exact_map(DT_OP_SUB, one, times(t, t));
    return by(0.5, plus(plus(one, t), times(x, times(steep, by(root, inner)))));
}

static DtExact relu(DtExact x, int sign) { return sign > 0 ? x : constant(0); }

#define DT_EPILOGUE(NAME, text, vector, matrix, meaning)                  \
    static DtExact mean_##NAME(DtExact x, DtExact v, DtExact m, int sign) \
    {                                                                     \
        (void)v, (void)m, (void)sign;                                     \
        return meaning;                                                   \
    }
#include "ir/epilogues.def"
#undef DT_EPILOGUE

enum { NO, READ, WRITE };
static const Row rows[DT_EPILOGUES] = {
#define DT_EPILOGUE(NAME, text, vector, matrix, meaning) {text, vector, matrix, mean_##NAME},
#include "ir/epilogues.def"
#undef DT_EPILOGUE
};

static bool same_axes(const DtType *a, const DtType *b)
{
    for (uint32_t i = 0; i < a->rank; i++) {
        const int at = dt_type_find(b, a->axes[i].name);
        if (at < 0 || !dt_type_same_axis(&a->axes[i], &b->axes[at]))
            return false;
    }
    return a->rank == b->rank;
}

/* ---- the results of ops, as residues ---- */

static DtExact number_of(const Epilogues *e, const DtValue *value);

static bool is_zero(const DtValue *value)
{
    for (uint32_t depth = MOST_DEPTH; value->op && depth > 0 && value->op->kind == DT_OP_CAST;
         depth--)
        value = value->op->in[0];
    return value->op && value->op->kind == DT_OP_CONST && value->op->number == 0;
}

/* Evaluates a comparison or maximum of which one operand is zero and the other is x + v, whose sign
 * e->sign gives. Other operands give an unknown number. */
static DtExact decide(const Epilogues *e, const DtOp *op, DtExact a, DtExact b)
{
    const bool zero = is_zero(op->in[0]);
    const DtExact of = zero ? b : a;
    const int more = zero ? e->sign : -e->sign; /* the sign of b, the other operand */
    if (zero == is_zero(op->in[1]) || of.p != e->sum.p || of.q != e->sum.q)
        return dt_exact_unknown;
    return op->kind == DT_OP_MAX ? (more > 0 ? b : a)
                                 : dt_exact_number(op->kind == DT_OP_LT ? more > 0 : more >= 0);
}

/* Evaluates a cast: one of a float leaves its value, one of a boolean gives 1 or 0. Others give an
 * unknown number. */
static DtExact cast(const DtOp *op, DtExact x)
{
    const DtDtype from = op->in[0]->type->dtype;
    const bool is =
        dt_dtype_is_float(op->out[0]->type->dtype) && (dt_dtype_is_float(from) || from == DT_BOOL);
    return is ? x : dt_exact_unknown;
}

static DtExact compute(const Epilogues *e, const DtOp *op)
{
    DtExact in[3] = {dt_exact_unknown, dt_exact_unknown, dt_exact_unknown};
    if (op->kind == DT_OP_CONST)
        return constant(op->number);
    for (uint32_t i = 0; i < op->n_in && i < 3; i++)
        in[i] = number_of(e, op->in[i]);
    switch (op->kind) {
    case DT_OP_CAST: return cast(op, in[0]);
    case DT_OP_MAX:
    case DT_OP_LT:
    case DT_OP_LE: return decide(e, op, in[0], in[1]);
    case DT_OP_WHERE: return dt_exact_same(in[0], in[0]) ? in[in[0].p ? 1 : 2] : dt_exact_unknown;
    default: return dt_exact_map(op->kind, in[0], in[1]);
    }
}

/* Whether the value is computed by at most `depth` nested ops from constants alone. */
static bool is_constant(const DtOp *op, uint32_t depth)
{
    bool is = op->kind == DT_OP_CONST || (depth > 0 && dt_op_is_pointwise(op->kind));
    for (uint32_t i = 0; is && i < op->n_in; i++)
        is = op->in[i]->op && is_constant(op->in[i]->op, depth - 1);
    return is;
}

static DtExact number_of(const Epilogues *e, const DtValue *value)
{
    const uint32_t at = e->f->position[value->id];
    if (value->op && (at == UINT32_MAX || !e->inside[at]) && dt_op_is_inline(value))
        return is_constant(value->op, MOST_DEPTH) ? compute(e, value->op) : dt_exact_unknown;
    return e->number[value->id];
}

static void draw(Epilogues *e, const Leaves *leaves, uint64_t seed)
{
    const DtExact v = leaves->vector ? dt_exact_draw(seed) : constant(0),
                  x = e->sign ? dt_exact_draw(seed + 1) : dt_exact_map(DT_OP_NEG, v, v);
    e->sum = plus(x, v);
    e->number[e->dot->out[0]->id] = x;
    if (leaves->vector)
        e->number[leaves->vector->id] = v;
    if (leaves->matrix)
        e->number[leaves->matrix->id] = dt_exact_draw(seed + 2);
    for (uint32_t i = 0; i < e->n_tried; i++) {
        const DtOp *op = e->func->ops.at[e->tried[i]];
        e->number[op->out[0]->id] = compute(e, op);
    }
}

/* Whether the compared ops compute the row's function of x (the product's result), v (the vector)
 * and m (the matrix), and x + v in aux. Evaluates both in exact arithmetic on random numbers, for
 * each sign of x + v. */
static bool means(Epilogues *e, const Row *row, const Leaves *leaves, const DtValue *result)
{
    uint32_t products = 0;
    for (uint32_t i = 0; i < e->n_tried; i++) {
        const DtOpKind kind = e->func->ops.at[e->tried[i]]->kind;
        products += kind == DT_OP_MUL || kind == DT_OP_DIV;
    }
    if (products > DT_EXACT_PRODUCTS)
        return false;
    for (uint32_t d = 0; d < 3 * DRAWS; d++) {
        const DtExact zero = constant(0);
        e->sign = (int)(d % 3) - 1;
        draw(e, leaves, 3 * d);
        const DtExact x = e->number[e->dot->out[0]->id],
                      v = leaves->vector ? e->number[leaves->vector->id] : zero,
                      m = leaves->matrix ? e->number[leaves->matrix->id] : zero;
        if (!dt_exact_same(e->number[result->id], row->meaning(x, v, m, e->sign)) ||
            (leaves->aux && !dt_exact_same(e->number[leaves->aux->id], e->sum)))
            return false;
    }
    return true;
}

/* ---- which ops ---- */

/* Whether the op that makes the value is to be among the compared ops: it is computed from the
 * product, or (deep) from the matrix alone. No product may have taken it, and there must be room
 * for it. */
static bool goes_inside(const Epilogues *e, const DtValue *value)
{
    const uint32_t at = e->f->position[value->id];
    if (at == UINT32_MAX || e->taken[at] || e->n_tried == DT_EPILOGUE_OPS - 1)
        return false;
    return e->reached[at] ||
           (e->deep && !e->f->is_result[value->id] && dt_op_is_pointwise(value->op->kind) &&
            !dt_op_is_inline(value) && same_axes(value->type, e->dot->out[0]->type));
}

/* Adds the ops between the product and value to the compared ops (e->tried, e->inside), and the
 * values that they read from elsewhere to leaves. */
static void mark(Epilogues *e, const DtValue *value, Leaves *leaves)
{
    const uint32_t at = e->f->position[value->id];
    const DtType *whole = e->dot->out[0]->type;
    if (value == e->dot->out[0] || (at != UINT32_MAX && e->inside[at]))
        return;
    if (goes_inside(e, value)) {
        uint32_t to = e->n_tried++;
        e->inside[at] = true;
        for (; to > 0 && e->tried[to - 1] > at; to--)
            e->tried[to] = e->tried[to - 1];
        e->tried[to] = at;
        for (uint32_t i = 0; i < value->op->n_in; i++)
            mark(e, value->op->in[i], leaves);
        return;
    }
    if (dt_op_is_inline(value))
        return;
    const DtValue **leaf = same_axes(value->type, whole) ? &leaves->matrix : &leaves->vector;
    leaves->good = leaves->good && (!*leaf || *leaf == value);
    *leaf = value;
}

/* If other ops read the value, which a compared op makes, it has to be written to memory next to
 * the result (leaves->aux). There can be only one of these. */
static void look_outside(const Epilogues *e, const DtValue *value, Leaves *leaves)
{
    bool outside = e->f->is_result[value->id];
    for (uint32_t i = e->f->reader[value->id]; i < e->f->reader[value->id + 1]; i++)
        outside = outside || !e->inside[e->f->readers[i]];
    if (!outside)
        return;
    leaves->good = leaves->good && !leaves->aux;
    leaves->aux = value;
}

/* Whether the vector has exactly the axes that the result has of one operand of the product, the
 * innermost axis of the result among them. */
static bool fits_vector(const DtOp *dot, const DtValue *vector, const DtType *result)
{
    const DtType *type = vector->type;
    for (uint32_t k = 0; k < 2; k++) {
        const DtType *of = dot->in[k]->type;
        uint32_t n = 0, found = 0;
        for (uint32_t i = 0; i < of->rank; i++) {
            if (dt_op_has_axis(dot, of->axes[i].name))
                continue;
            const int at = dt_type_find(type, of->axes[i].name);
            found += at >= 0 && dt_type_same_axis(&type->axes[at], &of->axes[i]);
            n++;
        }
        if (n == type->rank && found == n && n > 0)
            return dt_type_find(type, result->axes[result->rank - 1].name) >= 0;
    }
    return false;
}

static bool fits(const Epilogues *e, const Leaves *leaves, const DtValue *result)
{
    const DtType *type = result->type;
    if (!leaves->good || !same_axes(type, e->dot->out[0]->type) || !dt_dtype_is_float(type->dtype))
        return false;
    return (!leaves->matrix || leaves->matrix->type == type) &&
           (!leaves->aux || leaves->aux->type == type) &&
           (!leaves->vector || (leaves->vector->type->dtype == type->dtype &&
                                fits_vector(e->dot, leaves->vector, type)));
}

/* Whether the value is in memory in any case, because it is a result or an op that is no kernel
 * reads it. */
static bool stays(const Epilogues *e, const DtValue *value)
{
    bool lies = e->f->is_result[value->id];
    for (uint32_t i = e->f->reader[value->id]; !lies && i < e->f->reader[value->id + 1]; i++) {
        const DtOp *op = e->func->ops.at[e->f->readers[i]];
        lies = !dt_op_is_pointwise(op->kind) && op->kind != DT_OP_REDUCE;
    }
    return lies;
}

static void forget(Epilogues *e)
{
    for (uint32_t i = 0; i < e->n_tried; i++)
        e->inside[e->tried[i]] = false;
    e->n_tried = 0;
}

/* The row of ir/epilogues.def that the ops up to the one at `end` compute, or NULL. Leaves these
 * ops marked as compared. */
static const Row *match(Epilogues *e, uint32_t end, bool deep)
{
    const DtValue *result = e->func->ops.at[end]->out[0];
    Leaves leaves = {.good = true};
    forget(e);
    e->deep = deep;
    mark(e, result, &leaves);
    look_outside(e, e->dot->out[0], &leaves);
    for (uint32_t i = 0; i < e->n_tried; i++)
        if (e->tried[i] != end)
            look_outside(e, e->func->ops.at[e->tried[i]]->out[0], &leaves);
    if (!fits(e, &leaves, result))
        return NULL;
    const bool lies = stays(e, result);
    for (uint32_t r = 0; r < DT_EPILOGUES; r++) {
        const Row *row = &rows[r];
        const bool operands = (row->vector == READ) == (leaves.vector != NULL) &&
                              (row->matrix == READ) == (leaves.matrix != NULL) &&
                              (row->matrix == WRITE) == (leaves.aux != NULL);
        if (e->allowed >> r & 1 && operands && (lies || row->matrix == READ) &&
            means(e, row, &leaves, result))
            return row;
    }
    return NULL;
}

/* Lists in e->at the ops that are computed from the product element by element, as many as there is
 * room for, and marks them as reached. */
static void reach(Epilogues *e, uint32_t first)
{
    e->n = 0;
    e->at[e->n++] = first;
    for (uint32_t i = 0; i < e->n && e->n < DT_EPILOGUE_OPS; i++) {
        const DtValue *value = e->func->ops.at[e->at[i]]->out[0];
        for (uint32_t k = e->f->reader[value->id]; k < e->f->reader[value->id + 1]; k++) {
            const uint32_t at = e->f->readers[k];
            const DtOp *op = e->func->ops.at[at];
            if (e->reached[at] || e->taken[at] || !dt_op_is_pointwise(op->kind) || op->n_out != 1 ||
                !same_axes(op->out[0]->type, e->dot->out[0]->type) || e->n == DT_EPILOGUE_OPS)
                continue;
            e->reached[at] = true;
            uint32_t to = e->n++;
            for (; to > i + 1 && e->at[to - 1] > at; to--) /* keeps the order of the function */
                e->at[to] = e->at[to - 1];
            e->at[to] = at;
        }
    }
}

static void join(Epilogues *e, const char *text, uint32_t n, const uint32_t *at, DtFuseProduct *ret)
{
    *ret = (DtFuseProduct){.text = text};
    for (uint32_t i = 0; i < n; i++) {
        e->taken[at[i]] = true;
        ret->ops[ret->n++] = at[i];
    }
}

/* Finds the row of ir/epilogues.def that covers the most ops after the product at position `first`.
 * ret_product: the product with these ops. False if no row fits. */
static bool join_maps(Epilogues *e, uint32_t first, DtFuseProduct *ret_product)
{
    uint32_t ops[DT_EPILOGUE_OPS], n = 0;
    const char *text = NULL;
    reach(e, first);
    for (uint32_t end = 1; end < e->n; end++) {
        const Row *row = match(e, e->at[end], false);
        if (!row && !(row = match(e, e->at[end], true)))
            continue;
        text = row->text;
        n = 0;
        for (uint32_t i = 0; i < e->n_tried; i++) {
            if (n == i && e->tried[i] > first)
                ops[n++] = first;
            ops[n++] = e->tried[i];
        }
    }
    forget(e);
    for (uint32_t i = 0; i < e->n; i++)
        e->reached[e->at[i]] = false;
    if (text)
        join(e, text, n, ops, ret_product);
    return text != NULL;
}

/* Whether op sums an operand over the same axes as the product does. */
static bool sums_operand(const DtOp *dot, const DtValue *operand, const DtOp *op)
{
    bool same = op->kind == DT_OP_REDUCE && op->reduce == DT_REDUCE_SUM && op->in[0] == operand &&
                op->n_axes == dot->n_axes && op->out[0]->type->dtype == dot->out[0]->type->dtype &&
                op->out[0]->type->rank > 0;
    for (uint32_t i = 0; same && i < dot->n_axes; i++)
        same = dt_op_has_axis(op, dot->axes[i]);
    return same;
}

static bool join_sum(Epilogues *e, uint32_t first, DtFuseProduct *ret_product)
{
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t id = e->dot->in[k]->id;
        for (uint32_t i = e->f->reader[id]; i < e->f->reader[id + 1]; i++) {
            const uint32_t at = e->f->readers[i];
            if (e->taken[at] || !sums_operand(e->dot, e->dot->in[k], e->func->ops.at[at]))
                continue;
            join(e, "sum", 2, at < first ? (uint32_t[]){at, first} : (uint32_t[]){first, at},
                 ret_product);
            return true;
        }
    }
    return false;
}

/* ---- all ---- */

/* A product without batch axes: each axis of the result belongs to one operand. Products of
 * convolutions are excluded: pass `memory` chooses the layout that is best for products alone. */
static bool is_plain(const DtOp *op)
{
    if (op->kind != DT_OP_DOT)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const DtValue *operand = dt_op_viewed(op->in[k]);
        if (operand->op && operand->op->kind == DT_OP_WINDOW)
            return false;
    }
    for (uint32_t i = 0; i < op->in[0]->type->rank; i++) {
        const DtAxis *axis = &op->in[0]->type->axes[i];
        if (!dt_op_has_axis(op, axis->name) && dt_type_find(op->in[1]->type, axis->name) >= 0)
            return false;
    }
    return op->out[0]->type->rank > 0;
}

uint32_t dt_epilogue_find(const DtFusion *f, uint32_t allowed, DtFuseProduct **ret_products)
{
    const DtFunc *func = f->func;
    Epilogues epilogues = {.f = f, .func = func, .allowed = allowed}, *e = &epilogues;
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; allowed && i < func->ops.n; i++)
        most += is_plain(func->ops.at[i]);
    *ret_products = DT_NEW_ARRAY(f->arena, DtFuseProduct, most + 1);
    if (!most)
        return 0;
    e->number = DT_NEW_ARRAY(f->arena, DtExact, func->n_values + 1);
    e->taken = DT_NEW_ARRAY(f->arena, bool, func->ops.n + 1);
    e->reached = DT_NEW_ARRAY(f->arena, bool, func->ops.n + 1);
    e->inside = DT_NEW_ARRAY(f->arena, bool, func->ops.n + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        e->dot = func->ops.at[i];
        if (is_plain(e->dot))
            n += join_maps(e, i, &(*ret_products)[n]) || join_sum(e, i, &(*ret_products)[n]);
    }
    return n;
}
