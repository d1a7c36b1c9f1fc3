/* SPDX-License-Identifier: Apache-2.0 */
/* Whether attention may see later positions.
 *
 * A cache has room for all positions of the window. Those after the present one hold zeros, or what
 * the same step computed for them, so nothing may depend on them. "predict" sees later tokens
 * there. For each value this file finds out, at points where the number of the key is larger than
 * that of the query ("hidden" points):
 *
 *   - whether the value is known there: false of a mask, -inf of masked scores, 0 of their
 *     exponentials
 *   - whether it is independent of what the cache has at hidden positions ("clean")
 *
 * Sums and maxima over keys are allowed for clean values, and products if a factor is 0 at hidden
 * points: the other one is a number, since the cache of a row is cleared when its text begins
 * (decode_value.c). Where the step itself computed infinities for later positions, 0 times these is
 * NaN here as in "predict". Masks are comparisons of iota[keys] + a with
 * iota[queries] + b, and what `and`, `or`, `not` and `where` make of them. */
#include "passes/decode/decode.h"

#include <math.h>

typedef struct Fact {
    bool known, clean;
    double value;
} Fact;

typedef struct Look {
    DtDecode *d;
    const char *axis; /* of keys */
    DtMap done;       /* Fact, by value */
} Look;

static const Fact dirty = {false, false, 0}, clean = {false, true, 0};

static Fact is(double value) { return (Fact){true, true, value}; }

/* The value outside of loops of which this one is a copy. */
static const DtValue *source_of(const DtDecode *d, const DtValue *v)
{
    for (const DtValue *outside; (outside = dt_map_find_pointer(&d->taken, v)) != NULL;)
        v = outside;
    return v;
}

/* ---- positions ---- */

/* keys times the number of the key, queries times that of the query, and a number. f32 computes it
 * without rounding. */
typedef struct Affine {
    bool is;
    double keys, queries, number;
} Affine;

/* A number which f32 adds to that of a position exactly. */
static Affine constant(double x)
{
    return (Affine){.is = fabs(x) < 1 << 20 && x * 8 == floor(x * 8), .number = x};
}

/* Whether a cast keeps whole numbers, and halves, as they are. */
static bool is_exact(const DtOp *cast)
{
    const DtDtype from = cast->in[0]->type->dtype, to = cast->out[0]->type->dtype;
    return to == DT_F32 || (to == DT_I32 && from == DT_I32);
}

static Affine affine(Look *look, const DtValue *v, uint32_t depth)
{
    const Affine none = {0};
    v = source_of(look->d, v);
    const DtOp *op = v->op;
    const bool is_query = dt_map_find_pointer(&look->d->queries, v) != NULL;
    if (is_query && dt_type_find(v->type, look->d->fresh) >= 0)
        return (Affine){.is = true, .queries = 1};
    if (!op || depth > 32)
        return none;
    Affine a = op->n_in > 0 ? affine(look, op->in[0], depth + 1) : none;
    Affine b = op->n_in > 1 ? affine(look, op->in[1], depth + 1) : none;
    switch (op->kind) {
    case DT_OP_CONST: return constant(op->number);
    case DT_OP_IOTA: return (Affine){.is = op->axes[0] == look->axis, .keys = 1};
    case DT_OP_RELABEL:
        if (v->type->rank == 1 && v->type->axes[0].name == look->axis &&
            op->in[0]->op && op->in[0]->op->kind == DT_OP_IOTA)
            return (Affine){.is = true, .keys = 1};
        a.is = a.is && op->n_relabels == 0;
        return a;
    case DT_OP_EXPAND: case DT_OP_BIND: case DT_OP_STOP: return a;
    case DT_OP_CAST: a.is = a.is && is_exact(op); return a;
    case DT_OP_NEG: return (Affine){a.is, -a.keys, -a.queries, -a.number};
    case DT_OP_ADD:
        return (Affine){a.is && b.is, a.keys + b.keys, a.queries + b.queries, a.number + b.number};
    case DT_OP_SUB:
        return (Affine){a.is && b.is, a.keys - b.keys, a.queries - b.queries, a.number - b.number};
    default: return none;
    }
}

/* The comparison at hidden points, where keys - queries >= 1. */
static Fact compare(Look *look, const DtOp *op, Fact otherwise)
{
    const Affine a = affine(look, op->in[0], 0), b = affine(look, op->in[1], 0);
    const double keys = a.keys - b.keys, number = a.number - b.number;
    if (!a.is || !b.is || keys != b.queries - a.queries)
        return otherwise;
    /* the difference is keys * (key - query) + number */
    const double least = keys > 0 ? keys + number : keys < 0 ? -INFINITY : number;
    const double most = keys > 0 ? INFINITY : keys < 0 ? keys + number : number;
    switch (op->kind) {
    case DT_OP_LT: return most < 0 ? is(1) : least >= 0 ? is(0) : otherwise;
    case DT_OP_LE: return most <= 0 ? is(1) : least > 0 ? is(0) : otherwise;
    case DT_OP_EQ: return most < 0 || least > 0 ? is(0) : otherwise;
    case DT_OP_NE: return most < 0 || least > 0 ? is(1) : otherwise;
    default: return otherwise;
    }
}

/* ---- values ---- */

static Fact look_at(Look *look, const DtValue *v);

static bool equals(Fact fact, double value) { return fact.known && fact.value == value; }

static Fact where(const Fact *f)
{
    if (f[0].known)
        return f[0].value != 0 ? f[1] : f[2];
    if (f[1].known && f[2].known && f[1].value == f[2].value)
        return f[1];
    return f[0].clean && f[1].clean && f[2].clean ? clean : dirty;
}

static Fact cast(const DtOp *op, Fact f)
{
    const DtDtype to = op->out[0]->type->dtype;
    if (f.known && to == DT_BOOL)
        return is(f.value != 0);
    if (f.known && to == DT_I32 && f.value != trunc(f.value))
        return clean;
    return !f.known || f.value == 0 || fabs(f.value) >= 1 ? f : clean; /* else it may become 0 */
}

/* The result of a map of single elements. f: of its operands. */
static Fact map(Look *look, const DtOp *op, const Fact *f)
{
    bool all_clean = true;
    for (uint32_t i = 0; i < op->n_in; i++)
        all_clean = all_clean && f[i].clean;
    const Fact otherwise = all_clean ? clean : dirty;
    const bool infinite = op->n_in > 0 && equals(f[0], -INFINITY);
    switch (op->kind) {
    case DT_OP_WHERE: return where(f);
    case DT_OP_LT: case DT_OP_LE: case DT_OP_EQ: case DT_OP_NE:
        return compare(look, op, otherwise);
    case DT_OP_AND:
        return equals(f[0], 0) || equals(f[1], 0)   ? is(0)
               : equals(f[0], 1) && equals(f[1], 1) ? is(1)
                                                    : otherwise;
    case DT_OP_OR:
        return equals(f[0], 1) || equals(f[1], 1)   ? is(1)
               : equals(f[0], 0) && equals(f[1], 0) ? is(0)
                                                    : otherwise;
    case DT_OP_NOT: return f[0].known ? is(!f[0].value) : otherwise;
    case DT_OP_MUL: return equals(f[0], 0) || equals(f[1], 0) ? is(0) : otherwise;
    case DT_OP_DIV: /* not by what a cache has at hidden positions: it may be 0 */
        return equals(f[0], 0) && f[1].clean ? is(0) : otherwise;
    case DT_OP_ADD: return infinite || equals(f[1], -INFINITY) ? is(-INFINITY) : otherwise;
    case DT_OP_SUB: return infinite ? is(-INFINITY) : otherwise;
    case DT_OP_EXP: return infinite ? is(0) : otherwise;
    case DT_OP_CAST: return cast(op, f[0]);
    case DT_OP_BIND: case DT_OP_STOP: case DT_OP_EXPAND: return f[0];
    default: return otherwise;
    }
}

static Fact compute(Look *look, const DtValue *v)
{
    const DtOp *op = v->op;
    const bool has = dt_type_find(v->type, look->axis) >= 0;
    if (op && op->kind == DT_OP_CONST)
        return is(op->number);
    if (!has)
        return clean; /* sums over keys were looked at when they were made */
    if (!op || op->kind == DT_OP_PARAM)
        return op && op->store->kind != DT_STORE_CACHE ? clean : dirty;
    Fact facts[4] = {clean, clean, clean, clean};
    bool all_clean = true;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const Fact fact = look_at(look, op->in[i]);
        all_clean = all_clean && fact.clean;
        if (i < 4)
            facts[i] = fact;
    }
    if (dt_op_is_pointwise(op->kind))
        return map(look, op, facts);
    if (op->kind == DT_OP_RELABEL)
        return facts[0];
    return all_clean && op->kind != DT_OP_LOOP ? clean : dirty;
}

static Fact look_at(Look *look, const DtValue *v)
{
    v = source_of(look->d, v);
    Fact *fact = dt_map_find_pointer(&look->done, v);
    if (fact)
        return *fact;
    const Fact made = compute(look, v);
    fact = DT_NEW(look->done.arena, Fact);
    *fact = made;
    dt_map_add_pointer(&look->done, v, fact);
    return made;
}

bool dt_decode_sees_later(DtDecode *d, const char *axis, uint32_t n, DtValue *const *in)
{
    Look look = {.d = d, .axis = axis, .done.arena = d->module->arena};
    bool all_clean = true, is_zero = false;
    for (uint32_t i = 0; i < n; i++) {
        const Fact fact = look_at(&look, in[i]);
        all_clean = all_clean && fact.clean;
        is_zero = is_zero || equals(fact, 0);
    }
    return !all_clean && !is_zero;
}
