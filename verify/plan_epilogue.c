/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues of products (plan/epilogues.def): the product's result is x, v is an element of a
 * vector, m one of a matrix. Proves that the ops of an instruction compute from these what this
 * file's own table says for the number of the epilogue, and that vector and matrix have the
 * record's layout.
 *
 * Ops are compared with the table over residues (plan_number.h), with random x, v and m. Sums,
 * products and quotients are exact, tanh is an unknown function, and constants are exact, except
 * for sqrt(2 / pi), which is no fraction. Ops may decide by whether x + v is above, at or below
 * zero: each case is tried. Rounding of intermediate values is not part of an op's meaning: a value
 * may be kept wider (language.md, dtypes, rule 6), even if the program has a cast, as kernels keep
 * it. */
#include "verify/plan_internal.h"
#include "verify/plan_number.h"

#include "plan/kinds.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 2, MOST_DEPTH = 3 };
__extension__ typedef __int128 Wide;

typedef struct Joined {
    PlanWalk *walk;
    const DtPlanGemm *gemm;
    const CertOp *dot, *const *ops;
    uint32_t n_ops, vector, matrix; /* numbers of the values of the vector and the matrix */
    bool has_vector, has_matrix;    /* whether the epilogue has them */
    DtResidues *r;
    int sign;                                    /* the sign of x + v in this case */
    DtResidue x, v, m, sum; /* the residues of the table in this draw; sum: x + v */
    DtResidue number[PLAN_PRODUCT_OPS];          /* by op: the value's residue */
} Joined;

/* ---- meanings ---- */

static const double root = 0.79788456080286535588, cubic = 0.044715; /* root: sqrt(2 / pi) */

/* Returns the residue of a constant of the program. Programs contain sqrt(2 / pi) rounded: to a
 * double, perhaps after a division or two, or to ten digits. As f32 all of these are the same
 * number, so they count as equal. */
static DtResidue constant(const Joined *j, double x)
{
    return dt_residue_number(j->r, fabs(x - root) <= 0x1p-50 || x == 0.7978845608 ? root : x);
}

static DtResidue plus(const Joined *j, DtResidue x, DtResidue y)
{
    return dt_residue_add(j->r, x, y);
}
static DtResidue times(const Joined *j, DtResidue x, DtResidue y)
{
    return dt_residue_mul(j->r, x, y);
}
static DtResidue by(const Joined *j, double c, DtResidue x) { return times(j, constant(j, c), x); }

/* Returns tanh(root (x + cubic x^3)), as in the approximation of gelu. */
static DtResidue curve(const Joined *j, DtResidue x)
{
    const DtResidue inner = by(j, root, plus(j, x, by(j, cubic, times(j, x, times(j, x, x)))));
    return dt_plannumber_map(j->r, "tanh", inner, inner);
}

static DtResidue gelu(const Joined *j, DtResidue x)
{
    return by(j, 0.5, times(j, x, plus(j, constant(j, 1), curve(j, x))));
}

/* Returns the derivative of gelu at x. tanh t has the derivative 1 - t^2 with respect to t. */
static DtResidue gelu_slope(const Joined *j, DtResidue x)
{
    const DtResidue one = constant(j, 1), t = curve(j, x),
                    inner = plus(j, one, by(j, 3, by(j, cubic, times(j, x, x)))),
                    steep = plus(j, one, dt_residue_neg(j->r, times(j, t, t)));
    return by(j, 0.5, plus(j, plus(j, one, t), times(j, x, times(j, steep, by(j, root, inner)))));
}

static DtResidue meaning(const Joined *j)
{
    switch ((DtPlanEpilogue)j->gemm->epilogue) {
    case DT_PLAN_EPILOGUE_BIAS: return j->sum;
    case DT_PLAN_EPILOGUE_ADD:
    case DT_PLAN_EPILOGUE_BIAS_ADD: return plus(j, j->sum, j->m);
    case DT_PLAN_EPILOGUE_RELU:
    case DT_PLAN_EPILOGUE_BIAS_RELU: return j->sign > 0 ? j->sum : constant(j, 0);
    case DT_PLAN_EPILOGUE_GELU:
    case DT_PLAN_EPILOGUE_GELU_AUX:
    case DT_PLAN_EPILOGUE_BIAS_GELU:
    case DT_PLAN_EPILOGUE_BIAS_GELU_AUX: return gelu(j, j->sum);
    case DT_PLAN_EPILOGUE_DGELU: return times(j, j->x, gelu_slope(j, j->m));
    default: return dt_plannumber_unknown;
    }
}

/* ---- the values that ops compute ---- */

static DtResidue number_of(const Joined *j, uint32_t value);

static bool is_zero(const Joined *j, uint32_t value)
{
    const CertOp *op = j->walk->frame->maker[value];
    for (uint32_t depth = MOST_DEPTH; op && depth > 0 && strcmp(op->kind, "cast") == 0; depth--)
        op = j->walk->frame->maker[op->in[0]];
    return op && strcmp(op->kind, "const") == 0 && op->number == 0;
}

/* For two operands of which one is zero and the other x + v: returns whether the first one is less
 * (lt), or not more (le); for max, the larger one. Otherwise unknown. */
static DtResidue decide(const Joined *j, const CertOp *op, DtResidue a, DtResidue b)
{
    const bool zero = is_zero(j, op->in[0]);
    const DtResidue of = zero ? b : a;
    const int more = zero ? j->sign : -j->sign; /* the sign of b */
    if (zero == is_zero(j, op->in[1]) || of.p != j->sum.p || of.q != j->sum.q)
        return dt_plannumber_unknown;
    return strcmp(op->kind, "max") == 0
               ? (more > 0 ? b : a)
               : dt_residue_whole(strcmp(op->kind, "lt") == 0 ? more > 0 : more >= 0);
}

/* Returns the number of a cast: a float keeps its number, a boolean becomes 1 or 0; otherwise
 * unknown. */
static DtResidue cast(const Joined *j, const CertOp *op, DtResidue x)
{
    const char *from = dt_certplan_type(j->walk->frame, op->in[0])->dtype,
               *to = op->types[0]->dtype;
    if (!dt_plannumber_is_real(to) || dt_residue_is_symbol(x))
        return dt_plannumber_unknown;
    return dt_plannumber_is_real(from) ? x
           : strcmp(from, "bool") == 0 ? dt_residue_of_whole(j->r, (int64_t)x.p)
                                       : dt_plannumber_unknown;
}

/* Whether the value is computed from constants alone, by maps at most `depth` deep. */
static bool is_constant(const Joined *j, const CertOp *op, uint32_t depth)
{
    if (strcmp(op->kind, "const") == 0)
        return true;
    bool is = depth > 0 && op->rule && op->rule->map && op->n_in <= 3;
    for (uint32_t i = 0; is && i < op->n_in; i++) {
        const CertOp *of = j->walk->frame->maker[op->in[i]];
        is = of && is_constant(j, of, depth - 1);
    }
    return is;
}

static DtResidue compute(const Joined *j, const CertOp *op)
{
    const char *kind = op->kind;
    DtResidue in[3] = {dt_plannumber_unknown, dt_plannumber_unknown, dt_plannumber_unknown};
    if (strcmp(kind, "const") == 0)
        return constant(j, op->number);
    for (uint32_t i = 0; i < op->n_in && i < 3; i++)
        in[i] = number_of(j, op->in[i]);
    if (strcmp(kind, "cast") == 0)
        return cast(j, op, in[0]);
    if (strcmp(kind, "where") == 0)
        return dt_residue_is_symbol(in[0]) ? in[0] : in[in[0].p ? 1 : 2];
    if (strcmp(kind, "lt") == 0 || strcmp(kind, "le") == 0 || strcmp(kind, "max") == 0)
        return decide(j, op, in[0], in[1]);
    return dt_plannumber_map(j->r, kind, in[0], in[1]);
}

static DtResidue number_of(const Joined *j, uint32_t value)
{
    const CertOp *op = j->walk->frame->maker[value];
    if (value == j->dot->first_out)
        return j->x;
    if (j->has_vector && value == j->vector)
        return j->v;
    if (j->has_matrix && value == j->matrix)
        return j->m;
    for (uint32_t i = 0; op && i < j->n_ops; i++)
        if (j->ops[i] == op)
            return j->number[i];
    return op && is_constant(j, op, MOST_DEPTH) ? compute(j, op) : dt_plannumber_unknown;
}

static void draw(Joined *j, uint64_t seed)
{
    const DtResidue zero = {0};
    j->v = j->has_vector ? dt_residue_random(j->r, 3 * seed) : zero;
    j->m = j->has_matrix ? dt_residue_random(j->r, 3 * seed + 1) : zero;
    j->x = j->sign ? dt_residue_random(j->r, 3 * seed + 2) : dt_residue_neg(j->r, j->v);
    j->sum = plus(j, j->x, j->v);
    for (uint32_t i = 0; i < j->n_ops; i++)
        j->number[i] = dt_plannumber_unknown;
    for (uint32_t i = 0; i < j->n_ops; i++)
        if (j->ops[i] != j->dot)
            j->number[i] = compute(j, j->ops[i]);
}

/* Whether the ops compute what the epilogue's table says for `result` and for `kept` (-1: not one
 * of the results), in all draws and for each sign of x + v. */
static bool computes(Joined *j, uint32_t result, int64_t kept)
{
    for (uint32_t d = 0; d < 3 * DRAWS; d++) {
        j->sign = (int)(d % 3) - 1;
        draw(j, d);
        if (!dt_plannumber_same(number_of(j, result), meaning(j)) ||
            (kept >= 0 && !dt_plannumber_same(number_of(j, (uint32_t)kept), j->sum)))
            return false;
    }
    return true;
}

/* ---- its layout ---- */

/* Whether element i of the vector belongs to column i of C, or to row i. */
static bool is_vector(const PlanPlace *vector, const PlanPlace *of, const PlanPlace *c,
                      int64_t step, int64_t n)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < vector->rank; d++) {
        if (dt_certplan_axis(of, vector->axis[d]) < 0 || dt_certplan_axis(c, vector->axis[d]) < 0 ||
            (vector->extent[d] > 1 &&
             vector->stride[d] * step != dt_certplan_stride(c, vector->axis[d])))
            return false;
        elements *= vector->extent[d];
    }
    return elements == n && strcmp(vector->dtype, c->dtype) == 0;
}

/* Whether the matrix has C's axes and layout, except that its rows are matrix_row apart. */
static bool is_matrix(const DtPlanGemm *g, const PlanPlace *matrix, const PlanPlace *a,
                      const PlanPlace *c)
{
    for (uint32_t d = 0; d < matrix->rank; d++) {
        const int at = dt_certplan_axis(c, matrix->axis[d]);
        if (at < 0 || c->extent[at] != matrix->extent[d])
            return false;
        const bool is_row = dt_certplan_axis(a, matrix->axis[d]) >= 0;
        const Wide have = (Wide)matrix->stride[d] * (is_row ? g->c_row : g->c_col),
                       want = (Wide)c->stride[at] * (is_row ? g->matrix_row : g->matrix_col);
        if (matrix->extent[d] > 1 && have != want)
            return false;
    }
    return matrix->rank == c->rank && strcmp(matrix->dtype, c->dtype) == 0;
}

static bool has_axes(const CertType *type, const CertType *of)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        bool found = false;
        for (uint32_t k = 0; k < of->rank; k++)
            found = found || (type->axes[i].name == of->axes[k].name &&
                              type->axes[i].extent == of->axes[k].extent);
        if (!found)
            return false;
    }
    return type->rank == of->rank;
}

/* ---- all of it ---- */

static bool sums(const DtPlanGemm *g, const CertOp *dot, const CertOp *sum, const PlanProduct *p)
{
    const bool of_a = g->epilogue == DT_PLAN_EPILOGUE_SUM_A;
    const uint32_t operand = p->read[of_a ? 0 : 1];
    bool good = strcmp(sum->kind, "reduce") == 0 &&
                (!sum->reduce || strcmp(sum->reduce, "sum") == 0) && sum->in[0] == operand &&
                sum->n_axes == dot->n_axes && p->written[1] == sum->first_out;
    for (uint32_t i = 0; good && i < sum->n_axes; i++) {
        bool found = false;
        for (uint32_t k = 0; k < dot->n_axes; k++)
            found = found || dot->axes[k] == sum->axes[i];
        good = found;
    }
    return good && p->n_read == 2 && p->n_written == 2 &&
           is_vector(&p->to[1], &p->from[of_a ? 0 : 1], &p->to[0], of_a ? g->c_row : g->c_col,
                     of_a ? g->m : g->n);
}

static bool maps(PlanWalk *walk, const DtPlanGemm *g, const CertOp *dot, const CertOp *const *ops,
                 uint32_t n_ops, const PlanProduct *p)
{
    const DtEpilogueInfo *info = &dt_kinds_epilogues[g->epilogue];
    const uint32_t vector = info->vector ? 1 : 0, matrix = info->matrix == DT_EPILOGUE_READ ? 1 : 0;
    const bool keeps = info->matrix == DT_EPILOGUE_WRITE;
    Joined j = {.walk = walk, .gemm = g, .dot = dot, .ops = ops, .n_ops = n_ops,
                .has_vector = vector, .has_matrix = matrix, .r = dt_plannumber_begin(walk)};
    if (!j.r || p->n_read != 2 + vector + matrix || p->n_written != (keeps ? 2u : 1u) ||
        n_ops > PLAN_PRODUCT_OPS || !dt_plannumber_is_low(ops, n_ops))
        return false;
    j.vector = vector ? p->read[2] : 0;
    j.matrix = matrix ? p->read[2 + vector] : 0;
    const CertType *type = walk->frame->maker[dot->first_out]->types[0];
    for (uint32_t i = 0; i < n_ops; i++)
        if (!has_axes(ops[i]->types[0], type))
            return false;
    const PlanPlace *lies = matrix ? &p->from[2 + vector] : &p->to[1];
    return (!vector || is_vector(&p->from[2], &p->from[1], &p->to[0], g->c_col, g->n)) &&
           (!info->matrix || is_matrix(g, lies, &p->from[0], &p->to[0])) &&
           computes(&j, p->written[0], keeps ? (int64_t)p->written[1] : -1);
}

const CertOp *dt_certplan_joined(PlanWalk *walk, const DtPlanGemm *g, const CertOp *const *ops,
                                 uint32_t n_ops, const PlanProduct *p)
{
    const CertOp *dot = NULL, *other = NULL;
    for (uint32_t i = 0; i < n_ops; i++)
        if (strcmp(ops[i]->kind, "dot") == 0)
            dot = dot ? dot : ops[i];
        else
            other = ops[i];
    const bool plain = g->n_batch == 0 && g->c_col == 1;
    if (!dot || g->epilogue >= DT_PLAN_EPILOGUES || !plain)
        return NULL;
    if (dt_kinds_epilogues[g->epilogue].vector == DT_EPILOGUE_WRITE)
        return n_ops == 2 && other && p->written[0] == dot->first_out && sums(g, dot, other, p)
                   ? dot
                   : NULL;
    return !g->accumulate && maps(walk, g, dot, ops, n_ops, p) ? dot : NULL;
}
