/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: chooses the positions to evaluate. Axes keep their number of blocks: those of ranks, and
 * those that a relabel makes. A few positions of each block are evaluated, the same ones in every
 * block. Integers along an axis are those of the program: position 4095 stays 4095, and windows and
 * offsets keep their sizes. Chosen are both ends of a block, and the positions where the use of
 * positions may change: the program's constants, and the positions before and after each.
 *
 * If no op names an axis, everything along it is elementwise: one element represents all, and more
 * draws serve as well as more elements. If an axis is only summed over, or renamed, two elements
 * suffice. Mesh axes that split only such axes, and over which nothing is communicated, keep one
 * rank, or two where random numbers are split. */
#include "verify/box_internal.h"

#include <stdlib.h>

enum { LEAST_PLACES = 5, ALL_PLACES = 20, MOST_PLACES = 48 };

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* ---- names ---- */

static BoxLens *lens_of(Box *b, const char *name)
{
    uint32_t i = 0;
    while (i < b->n_lenses && b->lenses[i].name != name)
        i++;
    if (i == BOX_NAMES)
        return NULL;
    if (i == b->n_lenses)
        b->lenses[b->n_lenses++] = (BoxLens){.name = name, .of = i};
    while (b->lenses[i].of != i)
        i = b->lenses[i].of;
    return &b->lenses[i];
}

static int64_t gcd(int64_t a, int64_t c)
{
    while (c) {
        const int64_t rest = a % c;
        a = c;
        c = rest;
    }
    return a;
}

static void join(Box *b, const char *x, const char *y)
{
    BoxLens *to = lens_of(b, x), *from = lens_of(b, y);
    if (!to || !from || to == from)
        return;
    from->of = (uint32_t)(to - b->lenses);
    to->unit = gcd(to->unit, from->unit);
    to->longest = to->longest > from->longest ? to->longest : from->longest;
    to->fixed |= from->fixed;
    to->position |= from->position;
    to->two |= from->two;
}

static bool note_type(Box *b, const CertProgram *program, const CertType *type)
{
    DT_PUSH(b->arena, b->types, type);
    if (type->partial && !is(type->pending, "sum") && !is(type->pending, "max") &&
        !is(type->pending, "min"))
        return dt_box_fail(b, NULL, "a pending reduction of another kind");
    for (uint32_t d = 0; d < type->rank; d++) {
        const CertAxis *axis = &type->axes[d];
        const int64_t local = dt_cert_local(program, axis);
        BoxLens *lens = lens_of(b, axis->name);
        if (!lens)
            return dt_box_fail(b, NULL, "too many axes");
        if (axis->n && axis->zigzag && local % 2)
            return dt_box_fail(b, NULL, "blocks in zigzag order that do not divide");
        lens->unit = gcd(lens->unit, axis->n && axis->zigzag ? local / 2 : local);
        lens->longest = lens->longest > axis->extent ? lens->longest : axis->extent;
        if (local < 1)
            return dt_box_fail(b, NULL, "an axis without elements");
    }
    return true;
}

typedef enum What { FIXED, POSITION, TWO } What;

static void note(Box *b, const char *name, What what)
{
    BoxLens *lens = lens_of(b, name);
    if (!lens)
        return;
    lens->fixed |= what == FIXED;
    lens->position |= what == POSITION;
    lens->two |= what == TWO;
}

/* ---- how ops use axes ---- */

static void note_relabel(Box *b, const CertRelabel *r)
{
    if (!r->n_from || !r->n_to)
        return;
    join(b, r->from[r->n_from - 1], r->to[r->n_to - 1]);
    if (r->n_from + r->n_to == 2) { /* with one position each, axes of equal length could not be
                                     * told apart */
        note(b, r->to[0], TWO);
        return;
    }
    note(b, r->to[r->n_to - 1], POSITION);
    for (uint32_t i = 0; i + 1 < r->n_from; i++)
        note(b, r->from[i], FIXED);
    for (uint32_t i = 0; i + 1 < r->n_to; i++)
        note(b, r->to[i], FIXED);
}

/* Whether some axes have different splits in the two types. */
static void note_moved(Box *b, const CertType *from, const CertType *to)
{
    for (uint32_t d = 0; d < from->rank; d++) {
        const CertAxis *axis = dt_certtext_axis(to, from->axes[d].name);
        if (axis && !dt_cert_same_split(axis, &from->axes[d]))
            note(b, axis->name, POSITION);
    }
}

/* Types and makers of the values of the function being recorded. */
typedef struct Collect {
    const CertType **types; /* by value: its type */
    const CertOp **ops;     /* by value: the op that makes it; NULL: an argument */
} Collect;

static bool is_float_type(const CertType *type) { return dt_cert_is_float(type->dtype); }

/* Whether an op of this kind compares two floats. With decides, max and min do not count, since
 * their results are no decisions. */
static bool is_order(const char *kind, bool decides)
{
    static const char *const kinds[] = {"lt", "le", "eq", "ne", "max", "min"};
    for (size_t i = 0; i < DT_COUNT(kinds) - (decides ? 2 : 0); i++)
        if (is(kinds[i], kind))
            return true;
    return false;
}

void dt_boxsmall_constant(Box *b, int64_t x)
{
    for (uint32_t i = 0; i < b->constants.n; i++)
        if (b->constants.at[i] == x)
            return;
    DT_PUSH(b->arena, b->constants, x);
}

/* For an op that draws random numbers: each depends on the position in the whole tensor. So two
 * positions are evaluated along each axis, and mesh axes that split one keep two ranks. */
static void note_draws(Box *b, const CertProgram *program, const CertType *type)
{
    for (uint32_t d = 0; d < type->rank; d++) {
        const CertAxis *axis = &type->axes[d];
        note(b, axis->name, TWO);
        for (uint32_t s = 0; s < axis->n; s++)
            if (b->size[axis->split[s]] == 1 && program->size[axis->split[s]] > 1)
                b->size[axis->split[s]] = 2;
    }
}

/* If op decides by comparing floats, adds the type of its larger operand before expansion to
 * b->decided: each element of it gives one decision. */
static void note_decision(Box *b, const Collect *c, const CertOp *op)
{
    const bool reduces = is(op->kind, "reduce") && op->reduce && !is(op->reduce, "sum"),
               decides = reduces || is(op->kind, "topk") || is(op->kind, "abs") ||
                         is_order(op->kind, false) ||
                         (is(op->kind, "cast") && is(op->types[0]->dtype, "bool"));
    const CertType *larger = NULL;
    for (uint32_t i = 0; i < op->n_in && decides; i++) {
        uint32_t value = op->in[i];
        while (c->ops[value] && is(c->ops[value]->kind, "expand") && c->ops[value]->n_in == 1)
            value = c->ops[value]->in[0];
        const CertType *type = reduces ? op->types[0] : c->types[value];
        if (is_float_type(c->types[value]) && (!larger || type->rank > larger->rank))
            larger = type;
    }
    if (larger)
        DT_PUSH(b->arena, b->decided, larger);
}

/* Whether the op's result has the elements of its operand, perhaps with another sign or dtype, but
 * no new numbers. */
static bool is_copy(const CertOp *op)
{
    static const char *const kinds[] = {"expand", "stop", "bind", "relabel", "cast", "neg"};
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (is(kinds[i], op->kind))
            return op->n_in == 1;
    return false;
}

/* If the value is a constant, adds it to the constants with which floats may be compared. False
 * after a reason: there are too many. */
static bool know(Box *b, const Collect *c, uint32_t value)
{
    const CertOp *op = c->ops[value];
    double sign = 1;
    for (; op && is_copy(op); op = c->ops[op->in[0]])
        sign = is(op->kind, "neg") ? -sign : sign;
    if (!op || !is(op->kind, "const") ||
        dt_residue_know(b->r, sign * dt_boxnumber_nearest(op->types[0]->dtype, op->number)))
        return true;
    return dt_box_fail(b, op, "more than %d constants that numbers are compared with",
                       DT_RESIDUE_KNOWN);
}

/* Records the constants of the op: all integers; floats in comparisons and in arguments of
 * functions. */
static bool note_constants(Box *b, const Collect *c, const CertOp *op)
{
    if (is(op->kind, "const") && op->n_out == 1 && !is_float_type(op->types[0]) &&
        dt_box_is_whole(op->number))
        dt_boxsmall_constant(b, (int64_t)op->number);
    note_decision(b, c, op);
    b->compares = b->compares || is(op->kind, "topk");
    for (uint32_t i = 0; i < op->n_out; i++)
        b->few = b->few || dt_boxnumber_narrows("f32", op->types[i]->dtype);
    for (uint32_t i = 0; i < op->n_in && op->n_out == 1 && !dt_boxnumber_is_exact(b, op); i++)
        if (dt_boxnumber_narrows(
                is(op->kind, "dot") || dt_boxnumber_is_sum(op) ? "f32" : c->types[op->in[i]]->dtype,
                op->types[0]->dtype))
            b->narrows[b->second] = true;
    if (is(op->kind, "cast") && op->n_in == 1 && is_float_type(c->types[op->in[0]]) &&
        !is_float_type(op->types[0]))
        *(is(op->types[0]->dtype, "bool") ? &b->compares : &b->becomes_whole) = true;
    for (uint32_t i = 0; i < op->n_in && op->n_in == 2 && is_order(op->kind, false); i++) {
        if (!is_float_type(c->types[op->in[!i]]))
            continue;
        b->compares = b->compares || is_order(op->kind, true);
        if (!know(b, c, op->in[i]))
            return false;
    }
    for (uint32_t i = 0; i < op->n_in && op->func; i++)
        if (is_float_type(c->types[op->in[i]]) && !know(b, c, op->in[i]))
            return false;
    return true;
}

/* Whether a cast only undoes the widening by a sum: it casts back to the dtype of the summed
 * values, and each rank has one element of the summed axes. */
static bool is_taken_back(const CertProgram *program, const Collect *c, const CertOp *op)
{
    const CertOp *sum = is(op->kind, "cast") && op->n_in == 1 ? c->ops[op->in[0]] : NULL;
    const CertType *of =
        sum && is(sum->kind, "reduce") && is(sum->reduce, "sum") ? c->types[sum->in[0]] : NULL;
    bool one = of && is(of->dtype, op->types[0]->dtype);
    for (uint32_t i = 0; one && i < sum->n_axes; i++) {
        const CertAxis *axis = dt_certtext_axis(of, sum->axes[i]);
        one = axis && dt_cert_local(program, axis) == 1;
    }
    return one;
}

static bool note_op(Box *b, const CertProgram *program, const Collect *c, const CertOp *op)
{
    static const char *const all[] = {"slice", "pad", "concat", "window", "fold", "scan", "topk"};
    bool whole = op->loop != NULL;
    for (size_t i = 0; i < DT_COUNT(all); i++)
        whole = whole || is(op->kind, all[i]);
    const bool looks =
        is(op->kind, "iota") || is(op->kind, "gather") || is(op->kind, "scatter_add");
    for (uint32_t i = 0; i < op->n_axes; i++)
        note(b, op->axes[i], whole ? FIXED : looks ? POSITION : TWO);
    for (uint32_t i = 0; i < op->n_axes2; i++)
        note(b, op->axes2[i], TWO);
    for (uint32_t i = 0; i < op->n_relabels; i++)
        note_relabel(b, &op->relabels[i]);
    if (op->loop)
        note(b, op->loop->axis, FIXED);
    if (is(op->kind, "rng") && op->n_out == 1)
        note_draws(b, program, op->types[0]);
    if (op->mesh && op->n_in == 1 && op->n_out == 1)
        note_moved(b, c->types[op->in[0]], op->types[0]);
    if (is_taken_back(program, c, op))
        DT_PUSH(b->arena, b->exact, op);
    if (!note_constants(b, c, op))
        return false;
    for (uint32_t m = 0; m < program->n_mesh; m++)
        if (op->mesh >> m & 1)
            b->size[m] = program->size[m];
    const CertFunc *func = op->func ? dt_certtext_func(program, op->func) : NULL;
    if (op->func && !func)
        return dt_box_fail(b, op, "there is no function `%s`", op->func);
    if (!func)
        return true;
    const uint32_t skip = op->loop ? 1 : 0; /* the number of the iteration is no value of the
                                             * body */
    if (func->n_args != op->n_in + skip || func->results.n != op->n_out)
        return dt_box_fail(b, op, "`%s` has other operands or results", func->name);
    for (uint32_t i = 0; i < op->n_in; i++)
        note_moved(b, c->types[op->in[i]], func->args.at[i + skip]);
    return dt_boxsmall_collect(b, program, func);
}

bool dt_boxsmall_collect(Box *b, const CertProgram *program, const CertFunc *func)
{
    Collect c = {DT_NEW_ARRAY(b->arena, const CertType *, func->n_values + 1),
                 DT_NEW_ARRAY(b->arena, const CertOp *, func->n_values + 1)};
    for (uint32_t i = 0; i < b->funcs.n; i++)
        if (b->funcs.at[i] == func)
            return true;
    DT_PUSH(b->arena, b->funcs, func);
    if (b->depth++ == BOX_DEPTH)
        return dt_box_fail(b, NULL, "functions call each other too deep");
    for (uint32_t i = 0; i < func->n_args; i++) {
        c.types[i] = func->args.at[i];
        if (!note_type(b, program, c.types[i]))
            return false;
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++) {
            c.types[op->first_out + k] = op->types[k];
            c.ops[op->first_out + k] = op;
            if (!note_type(b, program, op->types[k]))
                return false;
        }
        if (!note_op(b, program, &c, op))
            return false;
    }
    b->depth--;
    return true;
}

/* ---- the choice ---- */

static int by_number(const void *a, const void *c)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)c;
    return x < y ? -1 : x > y;
}

static void add_place(BoxLens *lens, int64_t at)
{
    at = (at % lens->unit + lens->unit) % lens->unit;
    for (int64_t i = 0; i < lens->k; i++)
        if (lens->at[i] == at)
            return;
    if (lens->k <= MOST_PLACES)
        lens->at[lens->k++] = at;
}

/* Sets, for each evaluated position, how many positions of the unit it stands for in sums. The
 * numbers are random, so that a function cannot rely on anything but that a sum has all positions
 * of the unit. The result is the true sum for operands that are equal at that many positions. */
static void choose_weights(Box *b, BoxLens *lens)
{
    int64_t left = lens->unit - lens->k;
    if (left == 0)
        return;
    lens->weight = DT_NEW_ARRAY(b->arena, int64_t, lens->k);
    lens->factor = DT_NEW_ARRAY(b->arena, DtResidue, lens->k);
    for (int64_t i = 0; i < lens->k; i++) {
        const uint64_t site = (uint64_t)((lens - b->lenses) * 64 + i),
                       hash = dt_residue_mix(b->r->hash ^ (uint64_t)lens->unit, site);
        const int64_t more = i + 1 < lens->k ? (int64_t)(hash % (uint64_t)(left + 1)) : left;
        lens->weight[i] = 1 + more;
        lens->factor[i] = dt_residue_of_whole(b->r, 1 + more);
        left -= more;
    }
}

/* Chooses the evaluated positions: at each edge (b->places) all positions of a period, and a few
 * random ones. False: there are too many. */
static bool choose_places(Box *b, BoxLens *lens, int64_t period)
{
    const int64_t fair = ALL_PLACES / (lens->longest / lens->unit),
                  least = fair < LEAST_PLACES ? fair : LEAST_PLACES;
    lens->at = DT_NEW_ARRAY(b->arena, int64_t, MOST_PLACES + 1);
    lens->k = 0;
    add_place(lens, 0);
    add_place(lens, -1);
    for (int64_t d = 1; d < period; d++) {
        add_place(lens, d);
        add_place(lens, -1 - d);
    }
    for (uint32_t i = 0; i < b->places.n; i++) /* multiples of the unit count as its first place */
        for (int64_t d = -period; d <= period && b->places.at[i] % lens->unit; d++)
            add_place(lens, b->places.at[i] + d);
    /* all positions: a random choice would often leave one out */
    for (int64_t i = 0; lens->unit <= least && i < lens->unit; i++)
        add_place(lens, i);
    /* chosen at random, at least one */
    const int64_t wanted = lens->k < least ? least : lens->k + 1;
    for (int64_t i = 0; i < LEAST_PLACES && lens->k < wanted; i++)
        add_place(lens, (int64_t)(dt_residue_mix(b->r->hash, (uint64_t)(lens->unit + i)) >> 1));
    if (lens->k > MOST_PLACES)
        return false;
    qsort(lens->at, (size_t)lens->k, sizeof lens->at[0], by_number);
    choose_weights(b, lens);
    return true;
}

static void take_first(Box *b, BoxLens *lens, int64_t k)
{
    lens->k = k;
    lens->at = DT_NEW_ARRAY(b->arena, int64_t, k + 1);
    for (int64_t i = 0; i < k; i++)
        lens->at[i] = i;
    if (lens->two)
        choose_weights(b, lens);
}

/* Returns one unit for all axes along which positions matter: the greatest common divisor of
 * theirs. Then positions along several axes can be equal. */
static int64_t common_unit(const Box *b)
{
    int64_t unit = 0;
    for (uint32_t i = 0; i < b->n_lenses; i++)
        if (b->lenses[i].of == i && b->lenses[i].position && !b->lenses[i].fixed)
            unit = gcd(unit, b->lenses[i].unit);
    return unit;
}

/* Decides how many ranks are kept: mesh axes that split axes whose positions matter keep their
 * size, other mesh axes keep one rank. False after a reason: there are too many ranks. */
static bool keep_mesh(Box *b)
{
    int64_t ranks = 1;
    for (uint32_t i = 0; i < b->types.n; i++)
        for (uint32_t d = 0; d < b->types.at[i]->rank; d++) {
            const CertAxis *axis = &b->types.at[i]->axes[d];
            const BoxLens *lens = lens_of(b, axis->name);
            for (uint32_t s = 0; s < axis->n && (lens->fixed || lens->position); s++)
                b->size[axis->split[s]] = b->whole_size[axis->split[s]];
        }
    for (uint32_t m = 0; m < b->n_mesh; m++)
        if ((ranks *= b->size[m]) > BOX_RANKS)
            return dt_box_fail(b, NULL, "it is over more than %d ranks", BOX_RANKS);
    b->ranks = (uint32_t)ranks;
    return true;
}

/* Sets the unit of each lens, within which positions are chosen. It depends on which axes are
 * evaluated at all positions, so it is set again when another axis becomes one of these. */
static void choose_units(Box *b)
{
    for (uint32_t i = 0; i < b->n_lenses; i++)
        /* no value has the axis, but ops name it */
        b->lenses[i].unit = b->lenses[i].own < 1 ? 1 : b->lenses[i].own;
    const int64_t common = common_unit(b);
    for (uint32_t i = 0; i < b->n_lenses; i++) {
        BoxLens *lens = &b->lenses[i];
        if (lens->of == i && lens->position && !lens->fixed && lens->unit > 2 && common > 2)
            lens->unit = common;
    }
}

/* Finds the positions where a function may change its form (b->places). Axes where they cannot be
 * found are marked to be evaluated whole, after which the search is repeated. False after a
 * reason. */
static bool find_edges(Box *b, const CertProgram *const *programs, const CertFunc *const *funcs)
{
    for (bool changed = true; changed;) {
        bool thin = false;
        changed = false;
        choose_units(b);
        b->places.n = 0;
        b->period = 1;
        for (uint32_t i = 0; i < b->n_lenses; i++)
            thin = thin || (b->lenses[i].of == i && b->lenses[i].position && !b->lenses[i].fixed);
        for (uint32_t i = 0; i < 2 && thin; i++)
            if (!dt_boxedge_find(b, programs[i], funcs[i], &changed))
                return false;
    }
    return true;
}

static void choose(Box *b, BoxLens *lens)
{
    lens->weight = NULL;
    for (int64_t period = b->period; lens->position && !lens->fixed && lens->unit > 2; period = 1) {
        if (choose_places(b, lens, period))
            return;
        if (period == 1)
            break;
        b->doubtful = true;
    }
    if (lens->fixed || lens->position) {
        lens->fixed = true;
        lens->unit = 1;
        take_first(b, lens, 1); /* all positions */
        return;
    }
    int64_t k = lens->two ? 2 : b->multiple;
    k = k < lens->unit ? k : lens->unit;
    b->multiple = lens->two ? b->multiple : b->multiple / (uint32_t)k;
    take_first(b, lens, k);
}

bool dt_boxsmall_decide(Box *b, const CertProgram *const *programs, const CertFunc *const *funcs)
{
    for (uint32_t i = 0; i < b->n_lenses; i++) {
        b->lenses[i].own = b->lenses[i].unit;
        b->lenses[i].fixed |= b->whole && b->lenses[i].position;
    }
    if (!find_edges(b, programs, funcs) || !keep_mesh(b))
        return false;
    /* 0 is always evaluated; otherwise one row of random numbers is as good as many */
    const bool compares = b->r->n_known > 1;
    b->multiple = !compares ? 1 : b->ranks <= 3 ? 4 : b->ranks <= 8 ? 2 : 1;
    for (uint32_t i = 0; i < b->n_lenses; i++)
        if (b->lenses[i].of == i)
            choose(b, &b->lenses[i]);
    return true;
}

/* ---- shapes ---- */

bool dt_boxsmall_same_type(const CertType *a, const CertType *c)
{
    if (a == c)
        return true;
    bool same = is(a->dtype, c->dtype) && a->rank == c->rank && a->partial == c->partial &&
                (!a->partial || is(a->pending, c->pending));
    for (uint32_t d = 0; same && d < a->rank; d++) {
        const CertAxis *x = &a->axes[d], *y = &c->axes[d];
        same = x->name == y->name && x->extent == y->extent && x->logical == y->logical &&
               x->n == y->n && memcmp(x->split, y->split, x->n) == 0 &&
               (!x->n || x->zigzag == y->zigzag);
    }
    return same;
}

const BoxLens *dt_boxsmall_lens(const Box *b, const char *name)
{
    uint32_t i = 0;
    while (i < b->n_lenses && b->lenses[i].name != name)
        i++;
    while (i < b->n_lenses && b->lenses[i].of != i)
        i = b->lenses[i].of;
    return i < b->n_lenses ? &b->lenses[i] : NULL;
}

const BoxShape *dt_boxsmall_shape(Box *b, const CertType *type)
{
    const BoxShape **slot = &b->shapes[(uintptr_t)type / 64 % DT_COUNT(b->shapes)];
    for (const BoxShape *s = *slot; s; s = s->next)
        if (s->type == type)
            return s;
    BoxShape *shape = DT_NEW(b->arena, BoxShape);
    *shape = (BoxShape){.type = type, .rank = type->rank, .n = 1, .next = *slot};
    shape->is_float = is_float_type(type);
    shape->is_bool = is(type->dtype, "bool");
    for (uint32_t m = 0; m < b->n_mesh; m++)
        if (b->size[m] > 1)
            shape->partial |= (uint16_t)(type->partial & 1u << m);
    for (uint32_t d = type->rank; d-- > 0;) {
        const CertAxis *from = &type->axes[d];
        BoxAxis *axis = &shape->axes[d];
        *axis = (BoxAxis){.name = from->name, .lens = dt_boxsmall_lens(b, from->name),
                          .zigzag = from->zigzag};
        int64_t local = from->extent;
        for (uint32_t s = 0; s < from->n; s++) {
            local /= b->whole_size[from->split[s]];
            if (b->size[from->split[s]] > 1)
                axis->split[axis->n++] = from->split[s];
        }
        axis->local = axis->extent = local / axis->lens->unit * axis->lens->k;
        for (uint32_t s = 0; s < axis->n; s++)
            axis->extent *= b->size[axis->split[s]];
        axis->whole = from->logical;
        shape->stride[d] = shape->n;
        if (__builtin_mul_overflow(shape->n, axis->local, &shape->n))
            shape->n = INT64_MAX / 2;
    }
    *slot = shape;
    return shape;
}

bool dt_boxsmall_afford(Box *b, int64_t n, int64_t terms)
{
    int64_t all;
    if (__builtin_mul_overflow(n, terms, &all) || all > b->left / b->ranks)
        return dt_box_large(b, NULL, "axes whose positions cannot be left out");
    b->left -= all * b->ranks;
    return true;
}

BoxTensor *dt_boxsmall_tensor(Box *b, const CertType *type)
{
    const BoxShape *shape = dt_boxsmall_shape(b, type);
    if (!dt_boxsmall_afford(b, shape->n, 1))
        return NULL;
    BoxTensor *x = DT_NEW(b->scratch, BoxTensor);
    *x = (BoxTensor){shape, DT_NEW_ARRAY(b->scratch, DtResidue, shape->n * b->ranks)};
    return x;
}

const BoxAxis *dt_boxsmall_axis(const BoxShape *shape, const char *name)
{
    for (uint32_t d = 0; d < shape->rank; d++)
        if (shape->axes[d].name == name)
            return &shape->axes[d];
    return NULL;
}

int64_t dt_boxsmall_stride(const BoxShape *shape, const char *name)
{
    const BoxAxis *axis = dt_boxsmall_axis(shape, name);
    return axis ? shape->stride[axis - shape->axes] : 0;
}

/* ---- ranks ---- */

static uint32_t stride_of(const Box *b, uint32_t mesh)
{
    int64_t stride = 1;
    for (uint32_t m = mesh + 1; m < b->n_mesh; m++)
        stride *= b->size[m];
    return (uint32_t)stride;
}

int64_t dt_boxsmall_coordinate(const Box *b, uint32_t rank, uint32_t mesh)
{
    return rank / stride_of(b, mesh) % b->size[mesh];
}

uint32_t dt_boxsmall_move(const Box *b, uint32_t rank, uint32_t mesh, int64_t coordinate)
{
    return (uint32_t)(rank +
                      (coordinate - dt_boxsmall_coordinate(b, rank, mesh)) * stride_of(b, mesh));
}

bool dt_boxsmall_together(const Box *b, uint16_t mesh, uint32_t a, uint32_t c)
{
    for (uint32_t m = 0; m < b->n_mesh; m++)
        if (!(mesh >> m & 1) && dt_boxsmall_coordinate(b, a, m) != dt_boxsmall_coordinate(b, c, m))
            return false;
    return true;
}

/* ---- positions ---- */

int64_t dt_boxsmall_global(const Box *b, const BoxAxis *axis, uint32_t rank, int64_t local)
{
    int64_t part = 0, parts = 1, half = axis->local / 2;
    for (uint32_t s = 0; s < axis->n; s++) {
        part = part * b->size[axis->split[s]] + dt_boxsmall_coordinate(b, rank, axis->split[s]);
        parts *= b->size[axis->split[s]];
    }
    if (!axis->n || !axis->zigzag)
        return part * axis->local + local;
    return local < half ? part * half + local : (2 * parts - 1 - part) * half + local - half;
}

int64_t dt_boxsmall_find(const Box *b, const BoxAxis *axis, int64_t global, uint32_t rank,
                         uint32_t *ret_holder)
{
    int64_t part = global / axis->local, local = global % axis->local;
    if (axis->n && axis->zigzag) {
        const int64_t half = axis->local / 2, block = global / half,
                      parts = axis->extent / axis->local;
        part = block < parts ? block : 2 * parts - 1 - block;
        local = global % half + (block < parts ? 0 : half);
    }
    for (uint32_t s = axis->n; s-- > 0;) {
        const int64_t size = b->size[axis->split[s]];
        rank = dt_boxsmall_move(b, rank, axis->split[s], part % size);
        part /= size;
    }
    *ret_holder = rank;
    return local;
}

int64_t dt_boxsmall_true(const BoxLens *lens, int64_t global)
{
    return global / lens->k * lens->unit + lens->at[global % lens->k];
}

int64_t dt_boxsmall_of_true(const BoxLens *lens, int64_t position)
{
    const int64_t rest = position % lens->unit;
    for (int64_t i = 0; i < lens->k; i++)
        if (lens->at[i] == rest)
            return position / lens->unit * lens->k + i;
    return -1;
}
