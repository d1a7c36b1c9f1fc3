/* SPDX-License-Identifier: Apache-2.0 */
/* What a product does besides (plan/epilogues.def), proved of an instruction: its ops compute of the product's result
 * x, a vector's element v and a matrix's m what this file's own table says the number of the epilogue means, and the
 * vector and the matrix lie where the record says.
 *
 * Ops are compared with the table by numbers. They may be sums, products, quotients, hyperbolic tangents, maxima, and
 * decisions about whether one of x + v and m is above or below zero: few such functions do not agree to seven digits at
 * so many places and differ elsewhere. Rounding of what lies between the ops is not part of what they mean: a value may
 * be kept wider. */
#include "verify/plan_internal.h"
#include "verify/plan_number.h"

#include "plan/kinds.h"

#include <math.h>
#include <string.h>

enum { PLACES = 32, MOST_DEPTH = 3 };
__extension__ typedef __int128 Wide;

typedef struct Joined {
    PlanWalk *walk;
    const DtPlanGemm *gemm;
    const CertOp *dot, *const *ops;
    uint32_t n_ops, vector, matrix; /* numbers of values */
    bool has_vector, has_matrix;    /* that are read */
    double x, v, m, number[PLAN_PRODUCT_OPS]; /* number: by op */
} Joined;

/* ---- meanings ---- */

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
}

/* Its derivative, by the quotient over a short distance to either side: exact to ten digits. */
static double gelu_slope(double x)
{
    const double h = 1e-3;
    const double one = (gelu(x + h) - gelu(x - h)) / (2 * h), two = (gelu(x + 2 * h) - gelu(x - 2 * h)) / (4 * h);
    return (4 * one - two) / 3;
}

static double meaning(DtPlanEpilogue kind, double x, double v, double m)
{
    switch (kind) {
    case DT_PLAN_EPILOGUE_BIAS: return x + v;
    case DT_PLAN_EPILOGUE_ADD: return x + m;
    case DT_PLAN_EPILOGUE_BIAS_ADD: return x + v + m;
    case DT_PLAN_EPILOGUE_RELU: return fmax(x, 0);
    case DT_PLAN_EPILOGUE_BIAS_RELU: return fmax(x + v, 0);
    case DT_PLAN_EPILOGUE_GELU:
    case DT_PLAN_EPILOGUE_GELU_AUX: return gelu(x);
    case DT_PLAN_EPILOGUE_BIAS_GELU:
    case DT_PLAN_EPILOGUE_BIAS_GELU_AUX: return gelu(x + v);
    case DT_PLAN_EPILOGUE_DGELU: return x * gelu_slope(m);
    default: return NAN;
    }
}

/* ---- what ops compute ---- */

static double number_of(const Joined *j, uint32_t value);

static bool is_zero(const Joined *j, uint32_t value)
{
    const CertOp *op = j->walk->frame->maker[value];
    for (uint32_t depth = MOST_DEPTH; op && depth > 0 && strcmp(op->kind, "cast") == 0; depth--)
        op = j->walk->frame->maker[op->in[0]];
    return op && strcmp(op->kind, "const") == 0 && op->number == 0;
}

/* Decisions are whether x + v, or m, is above zero: others, such as of x + 1000, may be alike at all places. */
static double decide(const Joined *j, const CertOp *op, double a, double b)
{
    const bool zero = is_zero(j, op->in[0]);
    const double of = zero ? b : a;
    if (zero == is_zero(j, op->in[1]) || !(of == j->x + j->v || (j->has_matrix && of == j->m)))
        return NAN;
    return strcmp(op->kind, "lt") == 0 ? a < b : strcmp(op->kind, "le") == 0 ? a <= b : dt_plannumber_most(a, b);
}

static bool is_real(const CertType *type)
{
    return strcmp(type->dtype, "f32") == 0 || strcmp(type->dtype, "bf16") == 0 || strcmp(type->dtype, "f16") == 0;
}

/* Made of numbers alone, by few ops. */
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

static double compute(const Joined *j, const CertOp *op)
{
    const char *kind = op->kind;
    double in[3] = {0};
    if (strcmp(kind, "const") == 0)
        return op->number;
    for (uint32_t i = 0; i < op->n_in && i < 3; i++)
        in[i] = number_of(j, op->in[i]);
    if (op->n_in == 1)
        return strcmp(kind, "cast") == 0   ? (is_real(op->types[0]) ? in[0] : NAN)
               : strcmp(kind, "stop") == 0 ? in[0]
               : strcmp(kind, "neg") == 0  ? -in[0]
               : strcmp(kind, "tanh") == 0 ? tanh(in[0])
                                           : NAN;
    if (op->n_in == 3 && strcmp(kind, "where") == 0)
        return isnan(in[0]) ? NAN : in[0] != 0 ? in[1] : in[2];
    if (op->n_in != 2)
        return NAN;
    if (strcmp(kind, "lt") == 0 || strcmp(kind, "le") == 0 || strcmp(kind, "max") == 0)
        return decide(j, op, in[0], in[1]);
    return strcmp(kind, "add") == 0   ? in[0] + in[1]
           : strcmp(kind, "sub") == 0 ? in[0] - in[1]
           : strcmp(kind, "mul") == 0 ? in[0] * in[1]
           : strcmp(kind, "div") == 0 ? in[0] / in[1]
                                      : NAN;
}

static double number_of(const Joined *j, uint32_t value)
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
    return op && is_constant(j, op, MOST_DEPTH) ? compute(j, op) : NAN;
}

/* The ops make `result` and, unless that is none of theirs, `kept`. */
static bool computes(Joined *j, uint32_t result, int64_t kept)
{
    for (uint32_t p = 0; p < PLACES; p++) {
        j->x = p == 0 ? 0 : (p & 1 ? 1 : -1) * pow(10, p / 8.0 - 3);
        j->v = j->has_vector ? 2 * sin(7.0 * p + 2) : 0;
        j->m = j->has_matrix ? 5 * cos(2.0 * p) : 0;
        for (uint32_t i = 0; i < j->n_ops; i++)
            if (j->ops[i] != j->dot)
                j->number[i] = compute(j, j->ops[i]);
        const double want = meaning((DtPlanEpilogue)j->gemm->epilogue, j->x, j->v, j->m), sum = j->x + j->v;
        if (!dt_plannumber_near(number_of(j, result), want, 1 + fabs(want)) ||
            (kept >= 0 && !dt_plannumber_near(number_of(j, (uint32_t)kept), sum, 1 + fabs(sum))))
            return false;
    }
    return true;
}

/* ---- where it lies ---- */

/* Element i of the vector belongs to column i of C, or to row i. */
static bool is_vector(const PlanPlace *vector, const PlanPlace *of, const PlanPlace *c, int64_t step, int64_t n)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < vector->rank; d++) {
        if (dt_certplan_axis(of, vector->axis[d]) < 0 || dt_certplan_axis(c, vector->axis[d]) < 0 ||
            (vector->extent[d] > 1 && vector->stride[d] * step != dt_certplan_stride(c, vector->axis[d])))
            return false;
        elements *= vector->extent[d];
    }
    return elements == n && strcmp(vector->dtype, c->dtype) == 0;
}

/* It has C's axes, and lies as C does but that rows are matrix_row apart. */
static bool is_matrix(const DtPlanGemm *g, const PlanPlace *matrix, const PlanPlace *a, const PlanPlace *c)
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
            found = found || (type->axes[i].name == of->axes[k].name && type->axes[i].extent == of->axes[k].extent);
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
    bool good = strcmp(sum->kind, "reduce") == 0 && (!sum->reduce || strcmp(sum->reduce, "sum") == 0) &&
                sum->in[0] == operand && sum->n_axes == dot->n_axes && p->written[1] == sum->first_out;
    for (uint32_t i = 0; good && i < sum->n_axes; i++) {
        bool found = false;
        for (uint32_t k = 0; k < dot->n_axes; k++)
            found = found || dot->axes[k] == sum->axes[i];
        good = found;
    }
    return good && p->n_read == 2 && p->n_written == 2 &&
           is_vector(&p->to[1], &p->from[of_a ? 0 : 1], &p->to[0], of_a ? g->c_row : g->c_col, of_a ? g->m : g->n);
}

static bool maps(PlanWalk *walk, const DtPlanGemm *g, const CertOp *dot, const CertOp *const *ops, uint32_t n_ops,
                 const PlanProduct *p)
{
    const DtEpilogueInfo *info = &dt_kinds_epilogues[g->epilogue];
    const uint32_t vector = info->vector ? 1 : 0, matrix = info->matrix == DT_EPILOGUE_READ ? 1 : 0;
    const bool keeps = info->matrix == DT_EPILOGUE_WRITE;
    Joined j = {.walk = walk, .gemm = g, .dot = dot, .ops = ops, .n_ops = n_ops, .has_vector = vector,
                .has_matrix = matrix};
    if (p->n_read != 2 + vector + matrix || p->n_written != (keeps ? 2u : 1u) || n_ops > PLAN_PRODUCT_OPS)
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

const CertOp *dt_certplan_joined(PlanWalk *walk, const DtPlanGemm *g, const CertOp *const *ops, uint32_t n_ops,
                                 const PlanProduct *p)
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
        return n_ops == 2 && other && p->written[0] == dot->first_out && sums(g, dot, other, p) ? dot : NULL;
    return !g->accumulate && maps(walk, g, dot, ops, n_ops, p) ? dot : NULL;
}
