/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about one value, and the rules by which a map's facts follow from those of its operands.
 *
 * Rules look at the elements of one place alone: `where(c, a, b)` has the bad elements of a where c
 * may be true, and those of b where it may be false; `y < 3` is true for the roots below 3, if y is
 * the root. ranges.c walks the program and knows which roots there are; nothing here does. */
#include "ir/ranges_fact.h"

#include <math.h>

DtFact dt_fact_nothing(uint32_t root)
{
    return (DtFact){.root = root, .is = dt_intset_none, .yes = dt_intset_all,
                    .no = dt_intset_all, .bad = dt_intset_none};
}

bool dt_fact_says_nothing(const DtFact *f)
{
    return !f->is.n && !f->bad.n && dt_intset_equal(&f->yes, &dt_intset_all) &&
           dt_intset_equal(&f->no, &dt_intset_all);
}

bool dt_fact_same(const DtFact *a, const DtFact *b)
{
    if (!a || !b)
        return a == b;
    return a->root == b->root && a->exact == b->exact && a->shift == b->shift &&
           dt_intset_equal(&a->is, &b->is) && a->sums == b->sums &&
           dt_intset_equal(&a->yes, &b->yes) && dt_intset_equal(&a->no, &b->no) &&
           dt_intset_equal(&a->bad, &b->bad);
}

void dt_fact_add_bad(DtFact *fact, const DtIntSet *bad, const DtOp *by, uint32_t index)
{
    if (!fact->bad.n) {
        fact->by = by;
        fact->index = index;
    }
    fact->bad = dt_intset_union(&fact->bad, bad);
}

/* ---- constants ---- */

bool dt_fact_constant(const DtValue *value, double *ret_number)
{
    const DtOp *op = value->op;
    for (; op && (op->kind == DT_OP_CAST || op->kind == DT_OP_EXPAND || op->kind == DT_OP_STOP);
         op = op->in[0]->op) {}
    if (!op || op->kind != DT_OP_CONST)
        return false;
    *ret_number = op->number;
    return true;
}

/* Whether the value is an integer constant of moderate size. */
static bool whole_of(const DtValue *value, int64_t *ret_whole)
{
    double number;
    if (!dt_fact_constant(value, &number) || number != floor(number) || fabs(number) > 0x1p53)
        return false;
    *ret_whole = (int64_t)number;
    return true;
}

/* ---- maps ---- */

/* Returns the facts of a map's operand in relation to one root. Of a constant it is known whether
 * it is 0; of other values without facts nothing is known. */
static DtFact operand(const DtValue *value, const DtFact *fact, uint32_t root)
{
    DtFact result = fact && fact->root == root ? *fact : dt_fact_nothing(root);
    double number;
    if (!fact && dt_fact_constant(value, &number)) {
        result.yes = number != 0 ? dt_intset_all : dt_intset_none;
        result.no = number != 0 ? dt_intset_none : dt_intset_all;
    }
    return result;
}

/* Rules of maps. Each begins with the operands' bad elements and no other facts. */
typedef void Rule(const DtOp *op, const DtFact *in, DtFact *out);

static void rule_same(const DtOp *op, const DtFact *in, DtFact *out)
{
    DtDtype from = op->in[0]->type->dtype, to = op->out[0]->type->dtype;
    bool whole = !dt_dtype_is_float(to) && to != DT_BOOL;
    if (whole || from == to) {
        out->is = in->is;
        out->exact = in->exact;
        out->shift = in->shift;
    }
    out->yes = in->yes; /* 0 is cast to 0 */
    if (from == DT_BOOL || from == to)
        out->no = in->no;
}

static void rule_neg(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    out->yes = in->yes;
    out->no = in->no;
}

static void rule_not(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    out->yes = in->no;
    out->no = in->yes;
}

static void rule_and(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    out->yes = dt_intset_common(&in[0].yes, &in[1].yes);
    out->no = dt_intset_union(&in[0].no, &in[1].no);
}

static void rule_or(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    out->yes = dt_intset_union(&in[0].yes, &in[1].yes);
    out->no = dt_intset_common(&in[0].no, &in[1].no);
}

/* A product is 0 if one factor is 0, and then does not depend on the other factor. */
static void rule_mul(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    DtIntSet first = dt_intset_common(&in[0].bad, &in[1].yes),
             second = dt_intset_common(&in[1].bad, &in[0].yes);
    out->bad = dt_intset_union(&first, &second);
    out->yes = dt_intset_common(&in[0].yes, &in[1].yes);
}

static DtIntSet chosen(const DtIntSet *a, const DtIntSet *where_a, const DtIntSet *b,
                       const DtIntSet *where_b)
{
    DtIntSet first = dt_intset_common(a, where_a), second = dt_intset_common(b, where_b);
    return dt_intset_union(&first, &second);
}

static void rule_where(const DtOp *op, const DtFact *in, DtFact *out)
{
    (void)op;
    const DtFact *c = &in[0], *a = &in[1], *b = &in[2];
    DtIntSet bad = chosen(&a->bad, &c->yes, &b->bad, &c->no);
    out->bad = dt_intset_union(&c->bad, &bad);
    out->yes = chosen(&a->yes, &c->yes, &b->yes, &c->no);
    out->no = chosen(&a->no, &c->yes, &b->no, &c->no);
    /* with different shifts only the first branch's part is kept */
    bool same = !a->is.n || !b->is.n || a->shift == b->shift;
    out->is = chosen(&a->is, &c->yes, same ? &b->is : &dt_intset_none, &c->no);
    out->shift = a->is.n ? a->shift : b->shift;
    out->exact = a->exact && b->exact && same;
}

/* The root plus or minus a constant. */
static void rule_add(const DtOp *op, const DtFact *in, DtFact *out)
{
    bool minus = op->kind == DT_OP_SUB;
    uint32_t x = in[0].is.n || minus ? 0 : 1;
    int64_t by;
    if (!in[x].is.n || !whole_of(op->in[1 - x], &by) ||
        __builtin_add_overflow(in[x].shift, minus ? -by : by, &out->shift))
        return;
    out->is = in[x].is;
    out->exact = in[x].exact;
}

/* max(x, c) and min(x, c) are x on one side of c. */
static void rule_bound(const DtOp *op, const DtFact *in, DtFact *out)
{
    uint32_t x = in[0].is.n ? 0 : 1;
    int64_t bound;
    if (!in[x].is.n)
        return;
    DtIntSet side = dt_intset_all;
    if (whole_of(op->in[1 - x], &bound)) {
        bound -= in[x].shift;
        side = op->kind == DT_OP_MAX ? dt_intset_range(bound, INT64_MAX)
                                     : dt_intset_range(INT64_MIN, bound + 1);
    }
    out->is = dt_intset_common(&in[x].is, &side);
    out->shift = in[x].shift;
}

/* Returns the roots for which x < c (or, with `most` 1, x <= c), where x is the root plus shift;
 * with `second`, those for which c < x. */
static DtIntSet side_of(bool second, int64_t most, double constant, int64_t shift)
{
    double c = second ? floor(constant) : ceil(constant);
    int64_t bound = (int64_t)c - shift;
    if (second) /* c < x: from c + 1 on; c <= x: from the least integer that is not below c */
        return dt_intset_range(most && c == constant ? bound : bound + 1, INT64_MAX);
    return dt_intset_range(INT64_MIN, most && c == constant ? bound + 1 : bound);
}

static void rule_compare(const DtOp *op, const DtFact *in, DtFact *out)
{
    uint32_t x = in[0].exact ? 0 : 1;
    double c;
    if (!in[x].exact || !dt_fact_constant(op->in[1 - x], &c) || !(fabs(c) <= 0x1p53))
        return;
    DtIntSet yes;
    if (op->kind == DT_OP_LT || op->kind == DT_OP_LE)
        yes = side_of(x == 1, op->kind == DT_OP_LE, c, in[x].shift);
    else if (c == floor(c))
        yes = dt_intset_range((int64_t)c - in[x].shift, (int64_t)c - in[x].shift + 1);
    else
        yes = dt_intset_none;
    DtIntSet no = dt_intset_others(&yes);
    out->yes = op->kind == DT_OP_NE ? no : yes;
    out->no = op->kind == DT_OP_NE ? yes : no;
}

static Rule *const rules[DT_OP_COUNT] = {
    [DT_OP_STOP] = rule_same,   [DT_OP_BIND] = rule_same,  [DT_OP_CAST] = rule_same,
    [DT_OP_EXPAND] = rule_same, [DT_OP_NEG] = rule_neg,    [DT_OP_NOT] = rule_not,
    [DT_OP_AND] = rule_and,     [DT_OP_OR] = rule_or,      [DT_OP_MUL] = rule_mul,
    [DT_OP_ADD] = rule_add,     [DT_OP_SUB] = rule_add,    [DT_OP_MAX] = rule_bound,
    [DT_OP_MIN] = rule_bound,   [DT_OP_LT] = rule_compare, [DT_OP_LE] = rule_compare,
    [DT_OP_EQ] = rule_compare,  [DT_OP_NE] = rule_compare, [DT_OP_WHERE] = rule_where,
};

DtFact dt_fact_map(const DtOp *op, DtFact *const *in, uint32_t root)
{
    DtFact facts[3], out;
    out = dt_fact_nothing(root);
    for (uint32_t i = 0; i < op->n_in && i < DT_COUNT(facts); i++) {
        facts[i] = operand(op->in[i], in[i], root);
        if (facts[i].bad.n)
            dt_fact_add_bad(&out, &facts[i].bad, facts[i].by, facts[i].index);
    }
    if (rules[op->kind])
        rules[op->kind](op, facts, &out);
    return out;
}
