/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: evaluates functions on all ranks in lockstep: every rank has finished an op before any
 * begins the next. It defines the meaning of ops a second time, for residues instead of the
 * interpreter's doubles (ir/interp_*.c), with which tests compare it. */
#include "verify/box_internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <limits.h>

enum { MOST_TURNS = 1 << 16 }; /* the most iterations of a loop; the amount of work is bounded as
                                * well */

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* ---- maps: over lines of elements ---- */

/* One run of elements of a map: n elements, from x[i] on with step step[i] in each operand. */
typedef struct Line {
    DtResidue *to;
    const DtResidue *x[3];
    int64_t step[3], n;
} Line;

typedef struct MapOp MapOp;
typedef void Run(Box *b, const MapOp *map, const CertOp *op, Line line);
/* A kind of map and the functions that compute it. */
struct MapOp {
    const char *kind;
    uint32_t n_in;
    /* floats: for float operands; wholes: for integers and booleans; NULL: the kind is not defined
     * for them */
    Run *floats, *wholes;
};

#define EACH(line) for (int64_t i = 0; i < (line).n; i++)
#define X(line) ((line).x[0][i * (line).step[0]])
#define Y(line) ((line).x[1][i * (line).step[1]])
#define Z(line) ((line).x[2][i * (line).step[2]])
#define MAP(name, value)                                                    \
    static void name(Box *b, const MapOp *map, const CertOp *op, Line line) \
    {                                                                       \
        (void)b, (void)map, (void)op;                                       \
        EACH(line)                                                          \
        line.to[i] = value;                                                 \
    }

MAP(copy, X(line))
MAP(float_neg, dt_residue_neg(b->r, X(line)))
MAP(float_exp, dt_residue_exp(b->r, X(line)))
MAP(float_add, dt_residue_add(b->r, X(line), Y(line)))
MAP(float_sub, dt_residue_add(b->r, X(line), dt_residue_neg(b->r, Y(line))))
MAP(float_mul, dt_residue_mul(b->r, X(line), Y(line)))
MAP(float_max, dt_residue_max(b->r, X(line), Y(line)))
MAP(float_min, dt_residue_min(b->r, X(line), Y(line)))

/* operand 1 is the inverse that run_map has computed */
MAP(float_div, dt_residue_mul(b->r, X(line), Y(line)))

MAP(unknown, dt_residue_function(b->r, map->kind, X(line), X(line)))
MAP(unknown_of_two, dt_residue_function(b->r, map->kind, X(line), Y(line)))

/* Compares by eq, ne, lt or le. Comparisons with undefined or absent numbers give no decision. */
static DtResidue decided(const Box *b, const char *kind, DtResidue x, DtResidue y)
{
    if (x.p >= DT_RESIDUE_ABSENT || y.p >= DT_RESIDUE_ABSENT)
        return dt_residue_symbol(x.p > y.p ? x.p : y.p);
    const bool same = dt_residue_same(x, y);
    const bool holds = kind[0] == 'e'   ? same
                       : kind[0] == 'n' ? !same
                       : kind[1] == 't' ? !same && dt_residue_less(b->r, x, y)
                                        : same || dt_residue_less(b->r, x, y);
    return dt_residue_whole(holds);
}
MAP(float_compare, decided(b, map->kind, X(line), Y(line)))

static int64_t floor_divide(int64_t a, int64_t c)
{
    if (c == 0 || c == -1)
        return c ? (int64_t)-(uint64_t)a : 0;
    return dt_cert_down(a, c);
}

static int64_t floor_rest(int64_t a, int64_t c)
{
    return c == 0 ? a : (int64_t)((uint64_t)a - (uint64_t)floor_divide(a, c) * (uint64_t)c);
}

#define WHOLE(name, value)                                                                       \
    static int64_t name##_of(uint64_t x, uint64_t y)                                             \
    {                                                                                            \
        (void)y;                                                                                 \
        return (int64_t)(value);                                                                 \
    }                                                                                            \
    static void name(Box *b, const MapOp *map, const CertOp *op, Line line)                      \
    {                                                                                            \
        (void)b;                                                                                 \
        const uint32_t last = map->n_in - 1;                                                     \
        EACH(line)                                                                               \
        {                                                                                        \
            const DtResidue x = X(line), y = line.x[last][i * line.step[last]];                  \
            line.to[i] = dt_box_is_odd(x) || dt_box_is_odd(y)                                    \
                             ? dt_box_odd_of(x, y)                                               \
                             : dt_residue_whole(                                                 \
                                   dt_boxnumber_wrap(op->types[0]->dtype, name##_of(x.p, y.p))); \
        }                                                                                        \
    }

WHOLE(whole_neg, -x)
WHOLE(whole_abs, (int64_t)x < 0 ? -x : x)
WHOLE(whole_not, x == 0)
WHOLE(whole_add, x + y)
WHOLE(whole_sub, x - y)
WHOLE(whole_mul, x *y)
WHOLE(whole_div, floor_divide((int64_t)x, (int64_t)y))
WHOLE(whole_mod, floor_rest((int64_t)x, (int64_t)y))
WHOLE(whole_max, (int64_t)x > (int64_t)y ? x : y)
WHOLE(whole_min, (int64_t)x < (int64_t)y ? x : y)
WHOLE(whole_lt, (int64_t)x < (int64_t)y)
WHOLE(whole_le, (int64_t)x <= (int64_t)y)
WHOLE(whole_eq, x == y)
WHOLE(whole_ne, x != y)
WHOLE(whole_and, x && y)
WHOLE(whole_or, x || y)

/* Returns the integer that a float is cast to: the draw decides it, the same for the same float. */
static DtResidue cast_float(Box *b, const char *to, DtResidue x)
{
    int64_t whole = 0;
    if (b->rounds && dt_boxnumber_narrows(b->from, to))
        return dt_boxnumber_rounded(b, to, x);
    if (dt_cert_is_float(to) || x.p >= DT_RESIDUE_ABSENT)
        return x;
    if (is(to, "bool"))
        return dt_residue_whole(x.p != 0);
    return dt_boxdraw_whole(b, x, &whole) ? dt_residue_whole(dt_boxnumber_wrap(to, whole))
                                          : dt_residue_symbol(DT_RESIDUE_UNDEFINED);
}
static DtResidue cast_whole(const Box *b, const char *to, DtResidue x)
{
    if (dt_box_is_odd(x))
        return x;
    if (!dt_cert_is_float(to))
        return dt_residue_whole(dt_boxnumber_wrap(to, (int64_t)x.p));
    if (dt_boxnumber_narrows("f32", to))
        return dt_residue_number(b->r, dt_boxnumber_nearest(to, (double)(int64_t)x.p));
    return dt_residue_of_whole(b->r, (int64_t)x.p);
}
MAP(float_cast, cast_float(b, op->types[0]->dtype, X(line)))
MAP(whole_cast, cast_whole(b, op->types[0]->dtype, X(line)))
MAP(choose, dt_box_is_odd(X(line)) ? X(line) : X(line).p ? Y(line) : Z(line))

static const MapOp maps[] = {
    {"neg", 1, float_neg, whole_neg},     {"abs", 1, unknown, whole_abs},
    {"floor", 1, unknown, NULL},          {"exp", 1, float_exp, NULL},
    {"log", 1, unknown, NULL},            {"sqrt", 1, unknown, NULL},
    {"rsqrt", 1, unknown, NULL},          {"sin", 1, unknown, NULL},
    {"cos", 1, unknown, NULL},            {"tanh", 1, unknown, NULL},
    {"erf", 1, unknown, NULL},            {"not", 1, NULL, whole_not},
    {"stop", 1, copy, copy},              {"bind", 1, copy, copy},
    {"expand", 1, copy, copy},            {"cast", 1, float_cast, whole_cast},
    {"add", 2, float_add, whole_add},     {"sub", 2, float_sub, whole_sub},
    {"mul", 2, float_mul, whole_mul},     {"div", 2, float_div, NULL},
    {"floordiv", 2, unknown_of_two, whole_div}, {"mod", 2, unknown_of_two, whole_mod},
    {"pow", 2, unknown_of_two, NULL},     {"max", 2, float_max, whole_max},
    {"min", 2, float_min, whole_min},     {"lt", 2, float_compare, whole_lt},
    {"le", 2, float_compare, whole_le},   {"eq", 2, float_compare, whole_eq},
    {"ne", 2, float_compare, whole_ne},   {"and", 2, NULL, whole_and},
    {"or", 2, NULL, whole_or},            {"where", 3, NULL, choose}};

static const MapOp *find_map(const char *kind)
{
    for (size_t i = 0; i < DT_COUNT(maps); i++)
        if (maps[i].kind[0] == kind[0] && is(maps[i].kind, kind))
            return &maps[i];
    return NULL;
}

/* ---- maps: all elements ---- */

/* The loops of a map over its result: extents, and the step of each operand, by loop. */
typedef struct Walk {
    uint32_t rank;
    int64_t extent[CERT_RANK], step[3][CERT_RANK];
} Walk;

/* Sets *w to the loops over the result's elements. Neighbouring axes along which all operands move
 * evenly become one loop. */
static bool walk_of(Box *b, const CertOp *op, const BoxShape *to, BoxTensor *const *in, Walk *w)
{
    uint32_t seen[3] = {0};
    w->rank = 0;
    for (uint32_t d = 0; d < to->rank; d++) {
        const BoxAxis *axis = &to->axes[d];
        int64_t step[3] = {0};
        for (uint32_t i = 0; i < op->n_in; i++) {
            const BoxAxis *own = dt_boxsmall_axis(in[i]->shape, axis->name);
            seen[i] += own != NULL;
            if (own && own->local != axis->local)
                return dt_box_fail(b, op, "axis `%s` has two lengths", axis->name);
            step[i] = dt_boxsmall_stride(in[i]->shape, axis->name);
        }
        bool merges = w->rank > 0;
        for (uint32_t i = 0; merges && i < op->n_in; i++)
            merges = w->step[i][w->rank - 1] == step[i] * axis->local;
        const uint32_t at = merges ? w->rank - 1 : w->rank++;
        w->extent[at] = merges ? w->extent[at] * axis->local : axis->local;
        for (uint32_t i = 0; i < op->n_in; i++)
            w->step[i][at] = step[i];
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        if (seen[i] != in[i]->shape->rank)
            return dt_box_fail(b, op, "an operand has an axis that the result lacks");
    return true;
}

static void run_lines(Box *b, const MapOp *map, const CertOp *op, const Walk *w, Line line,
                      Run *run)
{
    int64_t at[CERT_RANK] = {0}, offset[3] = {0};
    const uint32_t last = w->rank ? w->rank - 1 : 0;
    line.n = w->rank ? w->extent[last] : 1;
    const DtResidue *x[3] = {line.x[0], line.x[1], line.x[2]};
    for (;;) {
        for (uint32_t i = 0; i < op->n_in; i++) {
            line.x[i] = x[i] + offset[i];
            line.step[i] = w->rank ? w->step[i][last] : 0;
        }
        run(b, map, op, line);
        line.to += line.n;
        uint32_t d = last;
        while (d-- > 0) {
            for (uint32_t i = 0; i < op->n_in; i++)
                offset[i] += w->step[i][d];
            if (++at[d] < w->extent[d])
                break;
            for (uint32_t i = 0; i < op->n_in; i++)
                offset[i] -= w->step[i][d] * w->extent[d];
            at[d] = 0;
        }
        if (d == UINT32_MAX)
            return;
    }
}

/* Makes a tensor of the inverses of all elements of x, since often many elements are divided by
 * one. False: too much work. */
static bool invert(Box *b, const BoxTensor *x, BoxTensor *ret_inverse)
{
    const int64_t n = x->shape->n * b->ranks;
    if (!dt_boxsmall_afford(b, x->shape->n, 1))
        return false;
    *ret_inverse = (BoxTensor){x->shape, DT_NEW_ARRAY(b->scratch, DtResidue, n)};
    dt_residue_inverses(b->r, (size_t)n, x->at, ret_inverse->at);
    return true;
}

static bool run_map(Box *b, const MapOp *map, const CertOp *op, BoxTensor *const *in,
                    BoxTensor *out)
{
    Walk walk;
    BoxTensor inverse;
    if (op->n_in != map->n_in || op->n_out != 1)
        return dt_box_fail(b, op, "`%s` has other operands", op->kind);
    const BoxShape *first = in[0]->shape, *last = in[op->n_in - 1]->shape;
    const bool where = map->n_in == 3, floats = first->is_float;
    Run *run = floats ? map->floats : map->wholes;
    b->from = dt_boxnumber_is_exact(b, op) ? op->types[0]->dtype : first->type->dtype;
    const bool makes =
        is(op->kind, "cast") || out->shape->is_bool || out->shape->is_float == floats;
    const bool fits = where ? first->is_bool && last->is_float == out->shape->is_float
                            : last->is_float == floats && makes;
    if (!run || !fits || (where && in[1]->shape->is_float != last->is_float))
        return dt_box_fail(b, op, "`%s` of such numbers", op->kind);
    if (!walk_of(b, op, out->shape, in, &walk) || (run == float_div && !invert(b, in[1], &inverse)))
        return false;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        Line line = {.to = out->at + rank * out->shape->n};
        for (uint32_t i = 0; i < op->n_in; i++)
            line.x[i] =
                (run == float_div && i == 1 ? &inverse : in[i])->at + rank * in[i]->shape->n;
        run_lines(b, map, op, &walk, line, run);
    }
    return !b->problem->len; /* false: a condition was no decision */
}

/* ---- sources ---- */

static bool run_const(Box *b, const CertOp *op, BoxTensor *out)
{
    if (!out->shape->is_float && !dt_box_is_whole(op->number))
        return dt_box_fail(b, op, "an integer that is none");
    const DtResidue x = dt_boxnumber_constant(b, out->shape, op->number);
    for (int64_t i = 0; i < out->shape->n * b->ranks; i++)
        out->at[i] = x;
    return true;
}

static bool run_iota(Box *b, const CertOp *op, BoxTensor *out)
{
    const BoxShape *shape = out->shape;
    if (shape->rank != 1 || shape->is_float || op->n_axes != 1 ||
        op->axes[0] != shape->axes[0].name)
        return dt_box_fail(b, op, "positions along another axis");
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        for (int64_t i = 0; i < shape->n; i++)
            out->at[rank * shape->n + i] = dt_residue_whole(dt_boxsmall_true(
                shape->axes[0].lens, dt_boxsmall_global(b, &shape->axes[0], rank, i)));
    return true;
}

/* Fills ret_order with the numbers of the shape's axes, sorted by the axes' names. */
static void sort_axes(const BoxShape *shape, uint32_t *ret_order)
{
    for (uint32_t d = 0; d < shape->rank; d++) {
        uint32_t at = d;
        for (; at > 0 && strcmp(shape->axes[ret_order[at - 1]].name, shape->axes[d].name) > 0; at--)
            ret_order[at] = ret_order[at - 1];
        ret_order[at] = d;
    }
}

/* Fills the tensor with random numbers. Each depends on the site, the iteration, the number of the
 * element in the whole tensor, and the attributes, which say how many elements a call of the
 * generator gives. */
static bool run_rng(Box *b, const CertOp *op, BoxTensor *out)
{
    const BoxShape *shape = out->shape;
    const char *site = dt_intern_printf("%s%s%s", b->path, *b->path ? "." : "", op->text);
    const DtResidue drawn =
        dt_residue_function(b->r, site, dt_residue_whole(0), dt_residue_whole(0));
    const uint64_t key = dt_residue_mix(dt_hash_text(op->attributes, drawn.p), b->iteration);
    uint32_t order[CERT_RANK];
    sort_axes(shape, order);
    if (!shape->is_float)
        return dt_box_fail(b, op, "random integers");
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        for (int64_t i = 0; i < shape->n; i++) {
            uint64_t element = 0;
            for (uint32_t k = 0; k < shape->rank; k++) {
                const BoxAxis *axis = &shape->axes[order[k]];
                const int64_t at =
                    dt_boxsmall_global(b, axis, rank, i / shape->stride[order[k]] % axis->local);
                element =
                    element * (uint64_t)axis->whole + (uint64_t)dt_boxsmall_true(axis->lens, at);
            }
            out->at[rank * shape->n + i] = dt_residue_random(b->r, dt_residue_mix(key, element));
        }
    return true;
}

/* ---- calls and loops ---- */

static bool run_call(Box *b, const CertProgram *program, const CertOp *op, BoxTensor *const *in,
                     BoxTensor **out)
{
    const CertFunc *func = dt_certtext_func(program, op->func);
    const char *path = b->path;
    const bool ring = op->n_axes || op->mesh;
    BoxTensor *args[64];
    if (!func || func->n_args != op->n_in || func->results.n != op->n_out ||
        op->n_in > DT_COUNT(args))
        return dt_box_fail(b, op, "a call of another function");
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertType *want = func->args.at[i];
        args[i] = in[i];
        if (dt_boxsmall_same_type(in[i]->shape->type, want))
            continue;
        if (!ring || !(args[i] = dt_boxmove_to(b, op, in[i], want, op->mesh, false)))
            return dt_box_fail(b, op, "an operand that lies otherwise than the function takes it");
    }
    if (op->text)
        b->path = dt_intern_printf("%s%s%s", path, *path ? "." : "", op->text);
    if (!dt_boxrun_func(b, program, func, args, out))
        return false;
    b->path = path;
    for (uint32_t i = 0; i < op->n_out; i++) {
        const CertType *made = out[i]->shape->type;
        if (dt_boxsmall_same_type(made, op->types[i]))
            continue;
        /* else every rank of the ring has the whole, and takes its block */
        const bool reduces = made->partial & op->mesh;
        if (!ring ||
            !(out[i] = dt_boxmove_to(b, op, out[i], op->types[i], reduces ? op->mesh : 0, reduces)))
            return dt_box_fail(b, op, "a result that lies otherwise than the function makes it");
        if (b->follows && reduces)
            dt_boxnumber_hop(b, out[i], op->mesh & made->partial);
    }
    return true;
}

/* Whether `whole` is the type `one` with the loop's axis in front, with as many places as the loop
 * has iterations. */
static bool is_stacked(Box *b, const CertLoop *loop, const CertType *whole, const CertType *one)
{
    const BoxShape *all = dt_boxsmall_shape(b, whole), *part = dt_boxsmall_shape(b, one);
    bool same = is(whole->dtype, one->dtype) && whole->rank == one->rank + 1 &&
                whole->axes[0].name == loop->axis && whole->axes[0].n == 0 &&
                all->axes[0].local == loop->count && whole->partial == one->partial &&
                (!one->partial || is(whole->pending, one->pending)) &&
                all->n == part->n * loop->count;
    for (uint32_t d = 0; same && d < one->rank; d++) {
        const CertAxis *x = &whole->axes[d + 1], *y = &one->axes[d];
        same = x->name == y->name && x->extent == y->extent && x->logical == y->logical &&
               x->n == y->n && memcmp(x->split, y->split, x->n) == 0 &&
               (!x->n || x->zigzag == y->zigzag);
    }
    return same;
}

/* Copies one iteration's slice out of a stacked value (the source has one axis more), or into
 * it. */
static void copy_place(const Box *b, const BoxTensor *from, BoxTensor *to, int64_t place)
{
    const bool out = from->shape->rank > to->shape->rank;
    const int64_t n = out ? to->shape->n : from->shape->n;
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        memcpy(to->at + rank * to->shape->n + (out ? 0 : place * n),
               from->at + rank * from->shape->n + (out ? place * n : 0),
               (size_t)n * sizeof to->at[0]);
}

/* Whether operands and results of the loop fit those of its body; reports a reason if not. */
static bool loop_fits(Box *b, const CertOp *op, const CertFunc *body, BoxTensor *const *in)
{
    const CertLoop *loop = op->loop;
    const int64_t kept = loop->carried + loop->invariant;
    if (!body || kept + loop->stacked != (int64_t)op->n_in ||
        loop->carried + loop->stacked_out != (int64_t)op->n_out || body->n_args != op->n_in + 1 ||
        body->results.n != op->n_out || body->args.at[0]->rank || loop->count < 1)
        return dt_box_fail(b, op, "a loop of this form");
    if (loop->count > MOST_TURNS)
        return dt_box_large(b, op, "a loop with more than %d iterations", MOST_TURNS);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertType *have = in[i]->shape->type, *want = body->args.at[1 + i];
        if (i < kept ? !dt_boxsmall_same_type(have, want) : !is_stacked(b, loop, have, want))
            return dt_box_fail(b, op,
                               "a loop's operand that lies otherwise than its body takes it");
    }
    for (uint32_t i = 0; i < loop->carried; i++)
        if (!dt_boxsmall_same_type(in[i]->shape->type, op->types[i]))
            return dt_box_fail(b, op, "a loop's result of another type");
    return true;
}

static bool run_iteration(Box *b, const CertProgram *program, const CertOp *op,
                          const CertFunc *body, BoxTensor *const *in, BoxTensor **args,
                          BoxTensor **out, int64_t place)
{
    const CertLoop *loop = op->loop;
    const uint32_t kept = (uint32_t)(loop->carried + loop->invariant);
    BoxTensor **made = DT_NEW_ARRAY(b->scratch, BoxTensor *, op->n_out + 1);
    args[0] = dt_boxsmall_tensor(b, body->args.at[0]);
    for (uint32_t rank = 0; args[0] && rank < b->ranks; rank++)
        args[0]->at[rank] = dt_residue_whole(loop->first + place);
    for (uint32_t i = kept; i < op->n_in; i++) {
        if (!(args[1 + i] = dt_boxsmall_tensor(b, body->args.at[1 + i])))
            return false;
        copy_place(b, in[i], args[1 + i], place);
    }
    if (!args[0] || !dt_boxrun_func(b, program, body, args, made))
        return false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        const CertType *type = made[i]->shape->type;
        const bool carried = i < loop->carried;
        if (carried ? !dt_boxsmall_same_type(type, body->args.at[1 + i])
                    : !is_stacked(b, loop, op->types[i], type))
            return dt_box_fail(b, op, "a loop whose body leaves something else than it takes");
        if (carried)
            args[1 + i] = made[i];
        else
            copy_place(b, made[i], out[i], place);
    }
    return true;
}

static bool run_loop(Box *b, const CertProgram *program, const CertOp *op, BoxTensor *const *in,
                     BoxTensor **out)
{
    const CertFunc *body = dt_certtext_func(program, op->func);
    const CertLoop *loop = op->loop;
    const char *path = b->path;
    const uint64_t iteration = b->iteration;
    if (!loop_fits(b, op, body, in))
        return false;
    BoxTensor **args = DT_NEW_ARRAY(b->scratch, BoxTensor *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        args[1 + i] = in[i];
    for (uint32_t i = (uint32_t)loop->carried; i < op->n_out; i++)
        if (!(out[i] = dt_boxsmall_tensor(b, op->types[i])))
            return false;
    b->path = dt_intern_printf("%s%s%s", path, *path ? "." : "", loop->label);
    for (int64_t k = 0; k < loop->count; k++) {
        const int64_t place = loop->reverse ? loop->count - 1 - k : k;
        b->iteration = iteration * (uint64_t)loop->count + (uint64_t)(loop->first + place);
        if (!run_iteration(b, program, op, body, in, args, out, place))
            return false;
    }
    for (uint32_t i = 0; i < loop->carried; i++)
        out[i] = args[1 + i];
    b->path = path;
    b->iteration = iteration;
    return true;
}

/* ---- functions ---- */

static bool run_topk(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor **out)
{
    for (uint32_t i = 0; i < op->n_out && i < 2; i++)
        if (!(out[i] = dt_boxsmall_tensor(b, op->types[i])))
            return false;
    return (op->n_out == 2 && dt_boxaxis_topk(b, op, in, out)) ||
           dt_box_fail(b, op, "`%s` of another form", op->kind);
}

static bool run_any(Box *b, const CertProgram *program, const CertOp *op, BoxTensor *const *in,
                    BoxTensor **out)
{
    if (op->stages)
        return dt_box_fail(b, op, "`%s` over stages", op->kind);
    if (!dt_box_knows_attributes(op))
        return dt_box_fail(b, op, "`%s` with an attribute that it is not known to have", op->kind);
    if (op->loop)
        return run_loop(b, program, op, in, out);
    if (is(op->kind, "call"))
        return run_call(b, program, op, in, out);
    const MapOp *map = find_map(op->kind);
    DtBoxOp *other = map ? NULL : dt_boxmove_op(op);
    if (!is(op->reduce, "sum") && !is(op->reduce, "max") && !is(op->reduce, "min"))
        return dt_box_fail(b, op, "a reduction of another kind");
    if (is(op->kind, "topk"))
        return run_topk(b, op, in, out);
    if (op->n_out != 1 || !(out[0] = dt_boxsmall_tensor(b, op->types[0])))
        return dt_box_fail(b, op, "`%s` has other results", op->kind);
    if (!dt_boxnumber_count(b, op, in, out[0]->shape))
        return false;
    if (map)
        return run_map(b, map, op, in, out[0]);
    if (is(op->kind, "const") && op->n_in == 0)
        return run_const(b, op, out[0]);
    if (is(op->kind, "iota") && op->n_in == 0)
        return run_iota(b, op, out[0]);
    if (is(op->kind, "rng") && op->n_in == 0)
        return run_rng(b, op, out[0]);
    if (!other)
        return dt_box_fail(b, op, "`%s` is not known to boxes", op->kind);
    return other(b, op, in, out[0]) || dt_box_fail(b, op, "`%s` of another form", op->kind);
}

static bool run_op(Box *b, const CertProgram *program, const CertOp *op, BoxTensor *const *in,
                   BoxTensor **out)
{
    if (!run_any(b, program, op, in, out))
        return false;
    for (uint32_t i = 0; b->follows && i < op->n_out; i++)
        dt_boxnumber_follow(b, out[i], false);
    return true;
}

bool dt_boxrun_func(Box *b, const CertProgram *program, const CertFunc *func, BoxTensor *const *in,
                    BoxTensor **ret_results)
{
    if (b->depth == BOX_DEPTH || (b->left -= (int64_t)func->n_values + 1) < 0)
        return dt_box_fail(b, NULL, "functions call each other too deep, or too often");
    b->depth++;
    BoxTensor **values = DT_NEW_ARRAY(b->scratch, BoxTensor *, func->n_values + 1);
    BoxTensor **operands = DT_NEW_ARRAY(b->scratch, BoxTensor *, func->most_in + 1);
    for (uint32_t i = 0; i < func->n_args; i++)
        values[i] = in[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            operands[k] = values[op->in[k]];
        if (!run_op(b, program, op, operands, values + op->first_out))
            return false;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = values[func->results.at[i]];
    b->depth--;
    return true;
}
