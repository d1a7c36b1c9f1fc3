/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: the operands of a draw. Floats are random, and many of them are equal in half of the
 * draws; where floats are compared, a few more draws have constants of the box among them
 * (ties). Integers take in turn all values that may matter: evaluated positions, values outside
 * of all axes, constants of the box. A float that becomes an integer is an unpredictable
 * decision: it becomes one of these integers, always the same one for the same float. */
#include "verify/box_internal.h"

enum {
    LEAST_DRAWS = 3,
    DECISIONS = 40,
    BOOL_DRAWS = 100,
    MOST_DRAWS = 1500,
    LEAST_INTEGERS = 9, /* draws, where operands are some */
    MOST_INTEGERS = 4096,
    CASTS = 1 << 10,
    MOST_CASTS = 1 << 16,
};

struct BoxCast {
    DtResidue x;
    int64_t whole;
    BoxCast *next;
};

/* ---- integers ---- */

static void add_integer(Box *b, int64_t x) { DT_PUSH(b->arena, b->integers, x); }

static bool is_prime(uint32_t n)
{
    for (uint32_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return true;
}

static bool is_integer(const CertType *type)
{
    return !dt_cert_is_float(type->dtype) && !dt_cert_is(type->dtype, "bool");
}

/* The integers of a draw: evaluated positions (each rank has both ends of its blocks), then values
 * outside of all axes, and constants of the program. */
bool dt_boxdraw_begin(Box *b, const CertFunc *func)
{
    bool needed = b->becomes_whole;
    for (uint32_t i = 0; i < func->n_args; i++)
        needed = needed || is_integer(func->args.at[i]);
    for (uint32_t i = 0; i < b->n_lenses; i++) {
        const BoxLens *lens = &b->lenses[i];
        const bool looks = needed && lens->of == i && lens->position && lens->k;
        const int64_t n = looks ? lens->longest / lens->unit * lens->k : 0;
        if (n > MOST_INTEGERS)
            return dt_box_large(b, NULL, "axis `%s`", lens->name);
        for (int64_t k = 0; k < n; k++)
            add_integer(b, dt_boxsmall_true(lens, k));
    }
    for (int64_t k = -1; k < 8; k++)
        add_integer(b, k);
    add_integer(b, INT32_MIN);
    add_integer(b, INT32_MAX);
    for (uint32_t i = 0; i < b->n_lenses; i++)
        if (b->lenses[i].of == i && b->lenses[i].position) {
            add_integer(b, b->lenses[i].longest);
            add_integer(b, b->lenses[i].longest + 1);
            add_integer(b, -b->lenses[i].longest);
        }
    for (uint32_t i = 0; i < b->constants.n; i++)
        for (int64_t k = -1; k <= 1; k++)
            add_integer(b, b->constants.at[i] + k);
    if (b->integers.n > MOST_INTEGERS)
        return dt_box_large(b, NULL, "it works with too many positions and constants");
    while (!is_prime(b->integers.n)) /* so that steps through the list reach every integer */
        add_integer(b, b->integers.at[b->integers.n / 2]);
    return true;
}

bool dt_boxdraw_whole(Box *b, DtResidue x, int64_t *ret_whole)
{
    BoxCast **slot = &b->casts[dt_residue_mix(x.p, x.q) % CASTS];
    for (const BoxCast *c = *slot; c; c = c->next)
        if (c->x.p == x.p && c->x.q == x.q) {
            *ret_whole = c->whole;
            return true;
        }
    if (b->second)
        return dt_box_fail(
            b, NULL, "a number becomes an integer that does not become one on the other side");
    if (b->n_casts == MOST_CASTS)
        return dt_box_large(b, NULL, "too many numbers become integers");
    BoxCast *c = DT_NEW(b->scratch, BoxCast);
    const uint64_t n = b->n_casts++;
    *c = (BoxCast){x, b->integers.at[((b->number % 2 ? n / 2 : n) + b->number / 2) % b->integers.n],
                   *slot};
    *slot = c;
    *ret_whole = c->whole;
    return true;
}

/* ---- operands ---- */

static uint64_t whole_elements(const BoxShape *shape)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < shape->rank; k++)
        n *= (uint64_t)shape->axes[k].extent;
    return n;
}

/* A random mask. In half of the draws each line of the mask is all true or all false; in the other
 * half each element is random. Every second draw has the opposite of the draw before, so that each
 * element takes both values. */
static bool draw_bool(const Box *b, const BoxShape *shape, uint32_t argument, const int64_t *at)
{
    const uint64_t tries = b->seed - b->number,
                   seed =
                       dt_residue_mix(dt_residue_mix(b->r->hash + b->number / 2, tries), argument);
    const bool turned = b->number % 2;
    uint64_t hash = seed;
    for (uint32_t k = 0; k < shape->rank; k++)
        hash = dt_residue_mix(hash, (uint64_t)at[k]);
    if (b->number / 2 % 2)
        return (hash >> 32 & 1) != turned;
    for (uint32_t a = 0; a < shape->rank; a++) {
        uint64_t line = dt_residue_mix(seed, a);
        for (uint32_t k = 0; k < shape->rank; k++)
            line = k == a ? line : dt_residue_mix(line, (uint64_t)at[k]);
        if (line % 8 < 2)
            return (line % 8 == 1) != turned;
    }
    return (hash % (2 + b->number / 2 % 3) != 0) != turned;
}

static DtResidue draw_number(const Box *b, const BoxShape *shape, uint64_t hash)
{
    const DtResidue x = dt_residue_random(b->r, hash);
    return b->rounds ? dt_boxnumber_of_dtype(b, shape->type->dtype, x) : x;
}

/* Element number `linear` of a float operand in a draw with constants among operands: over n_known
 * + 1 draws the element takes each constant, and a random number. In the first draw all operands
 * are equal. */
static DtResidue draw_tie(const Box *b, const BoxShape *shape, uint32_t argument, uint64_t hash,
                          uint64_t linear)
{
    const uint64_t which = (linear + argument + b->number) % (b->r->n_known + 1);
    if (b->number == 0)
        return draw_number(b, shape, dt_residue_mix(b->seed, linear & 1));
    return which < b->r->n_known ? dt_residue_number(b->r, b->r->known[which])
                                 : draw_number(b, shape, hash);
}

/* An integer of the list for an element. Over all draws each element takes each integer twice; in
 * the first half of the draws all operands are equal. In every third draw elements take one of two
 * integers at random, so that many elements are equal. */
static uint64_t number_of_integer(const Box *b, const BoxShape *shape, uint32_t argument,
                                  uint64_t linear)
{
    const uint64_t n = whole_elements(shape), step = (n + 1) % b->integers.n ? n + 1 : n,
                   moved = (b->number - b->number / 3) * step;
    if (b->number % 3 == 2)
        return dt_residue_mix(b->seed,
                              dt_residue_mix(dt_residue_mix(b->seed, argument), linear) & 1) %
               b->integers.n;
    return (linear + moved + 7 * argument * (moved / b->integers.n)) % b->integers.n;
}

static DtResidue draw_one(const Box *b, const BoxShape *shape, uint32_t argument, uint64_t seed,
                          const int64_t *at)
{
    uint64_t hash = seed, linear = 0;
    for (uint32_t k = 0; k < shape->rank; k++) {
        hash = dt_residue_mix(hash, (uint64_t)at[k]);
        linear = linear * (uint64_t)shape->axes[k].extent + (uint64_t)at[k];
    }
    if (shape->is_bool)
        return dt_residue_whole(draw_bool(b, shape, argument, at));
    if (!shape->is_float)
        return dt_residue_whole(b->integers.at[number_of_integer(b, shape, argument, linear)]);
    if (b->ties)
        return draw_tie(b, shape, argument, hash, linear);
    /* a few bits only, so that some numbers are equal */
    hash = b->number % 2 && hash % 2 ? dt_residue_mix(seed, hash >> 8 & 3) : hash;
    return draw_number(b, shape, hash);
}

void dt_boxdraw_argument(Box *b, uint32_t i, BoxTensor *x)
{
    const BoxShape *shape = x->shape;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        uint64_t seed = dt_residue_mix(dt_residue_mix(b->r->hash, b->seed), i);
        for (uint32_t m = 0; m < b->n_mesh; m++)
            if (shape->partial >> m & 1)
                seed = dt_residue_mix(seed, (uint64_t)dt_boxsmall_coordinate(b, rank, m));
        for (int64_t k = 0; k < shape->n; k++) {
            int64_t at[CERT_RANK] = {0};
            for (uint32_t a = 0; a < shape->rank; a++)
                at[a] = dt_boxsmall_global(b, &shape->axes[a], rank,
                                           k / shape->stride[a] % shape->axes[a].local);
            x->at[rank * shape->n + k] = draw_one(b, shape, i, seed, at);
        }
    }
}

/* ---- draws ---- */

void dt_boxdraw_next(Box *b, uint64_t seed, uint32_t number, bool ties)
{
    /* all combinations, and each integer in one of them twice as often */
    const uint32_t order = number % (b->r->n_known + 3);
    b->seed = seed;
    b->number = number;
    b->ties = ties;
    b->n_casts = 0;
    b->depth = 0;
    dt_arena_reset(b->scratch);
    b->casts = DT_NEW_ARRAY(b->scratch, BoxCast *, b->becomes_whole ? CASTS : 1);
    dt_residue_draw(b->r, seed, order < 2 ? b->r->n_known + 1 : order - 2);
}

/* The number of draws in which each op that decides by comparing floats does so DECISIONS times; an
 * op that decides by other integers is met in half of them. */
static uint64_t draws_of_decisions(Box *b)
{
    uint64_t fewest = DECISIONS;
    for (uint32_t i = 0; i < b->decided.n; i++) {
        const uint64_t n = whole_elements(dt_boxsmall_shape(b, b->decided.at[i]));
        fewest = n < fewest ? n : fewest;
    }
    return b->decided.n ? (DECISIONS + fewest - 1) / fewest : 0;
}

/* The number of draws. It is at least one for each order of constants and other numbers; more if
 * few ranks have rows of their own, or few elements decide. Integer arguments, and floats that
 * become integers, must take each integer twice, and in combination. Elements of masks give one bit
 * in two draws. ret_ties: further draws, enough that each element equals each constant, or one of
 * many elements does. */
bool dt_boxdraw_count(Box *b, const CertFunc *func, uint32_t *ret_wanted, uint32_t *ret_ties)
{
    const bool compares = b->r->n_known > 1; /* 0 is always an order */
    uint64_t wanted = compares ? (b->r->n_known + 3) * b->multiple : LEAST_DRAWS,
             fewest = MOST_DRAWS;
    const uint64_t decisions = draws_of_decisions(b);
    wanted = decisions > wanted ? decisions : wanted;
    if (b->becomes_whole && wanted < 4 * b->integers.n)
        wanted = 4 * b->integers.n;
    for (uint32_t i = 0; i < func->n_args; i++) {
        const BoxShape *shape = dt_boxsmall_shape(b, func->args.at[i]);
        const uint64_t n = whole_elements(shape),
                       each = shape->is_float  ? 0
                              : shape->is_bool ? BOOL_DRAWS
                                               : LEAST_INTEGERS + 3 * (b->integers.n / n);
        wanted = each > wanted ? each : wanted;
        fewest = shape->is_float && n < fewest ? n : fewest;
    }
    *ret_wanted = (uint32_t)wanted;
    *ret_ties = b->compares ? 2 + (uint32_t)(b->r->n_known / fewest) : 0;
    return wanted <= MOST_DRAWS || dt_box_large(b, NULL, "too many integers to be tried");
}
