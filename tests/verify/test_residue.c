/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers with which boxes are compared: the laws on which a softmax in parts relies hold for
 * them, and no others. */
#include "verify/residue.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <sys/random.h>

static DtResidues r;
static bool no_entropy;

/* Replaces the function of the C library. */
int getentropy(void *to, size_t n)
{
    if (no_entropy || getrandom(to, n, 0) != (ssize_t)n) {
        errno = ENOSYS;
        return -1;
    }
    return 0;
}

static DtResidue some(uint64_t i) { return dt_residue_random(&r, i); }
static DtResidue sub(DtResidue x, DtResidue y)
{
    return dt_residue_add(&r, x, dt_residue_neg(&r, y));
}
static bool same(DtResidue x, DtResidue y) { return x.p == y.p && x.q == y.q; }

static void begin(void)
{
    cr_assert(dt_residue_begin(&r));
    cr_assert(dt_residue_know(&r, -1e30));
    cr_assert(dt_residue_know(&r, 1e-30));
    dt_residue_draw(&r, 1, 2);
}

TestSuite(residues, .init = begin);

/* If the random numbers could be foreseen, they would prove nothing. */
Test(residues, without_random_numbers_there_are_none)
{
    DtResidues none;
    no_entropy = true;
    cr_assert_not(dt_residue_begin(&none));
}

Test(residues, more_constants_than_can_be_ordered_are_refused)
{
    bool all = true;
    for (int i = 0; i < DT_RESIDUE_KNOWN; i++)
        all = dt_residue_know(&r, i + 2) && all;
    cr_assert_not(all);
    cr_assert(dt_residue_know(&r, 1e-30)); /* this number is known */
    cr_assert(dt_residue_know(&r, -INFINITY));
}

/* Tests by trial division whether it is prime; q is too large for that, so it is tested by Fermat's
 * test with other bases than those with which it was chosen. */
Test(residues, the_fields_are_fields)
{
    cr_assert_eq(r.p.m, 2 * r.q.m + 1);
    cr_assert_geq(r.q.m, UINT64_C(1) << 60);
    for (uint64_t i = 1; i < 50; i++) {
        const DtResidue x = some(i), one = dt_residue_number(&r, 1);
        cr_assert(same(dt_residue_mul(&r, x, dt_residue_inverse(&r, x, true)), one));
    }
}

Test(residues, inverses_of_many_are_those_of_each)
{
    DtResidue x[20], inverse[20];
    for (uint64_t i = 0; i < 20; i++)
        x[i] = i % 5 == 0   ? dt_residue_number(&r, 0)
               : i % 5 == 1 ? dt_residue_exp(&r, some(i))
               : i == 7     ? dt_residue_symbol(DT_RESIDUE_ABSENT)
               : i == 8     ? dt_residue_symbol(DT_RESIDUE_LOWEST)
                            : some(i);
    dt_residue_inverses(&r, 20, x, inverse);
    for (int i = 0; i < 20; i++)
        cr_assert(same(inverse[i], dt_residue_inverse(&r, x[i], true)), "%d", i);
}

Test(residues, constants_are_fractions)
{
    const DtResidue tenth = dt_residue_number(&r, 0.1), half = dt_residue_number(&r, 0.5);
    cr_assert(same(dt_residue_add(&r, half, half), dt_residue_of_whole(&r, 1)));
    cr_assert(
        same(dt_residue_mul(&r, half, dt_residue_of_whole(&r, -6)), dt_residue_number(&r, -3)));
    /* the double that is nearest to 0.1 is not one tenth */
    cr_assert(
        !same(dt_residue_mul(&r, tenth, dt_residue_of_whole(&r, 10)), dt_residue_of_whole(&r, 1)));
    const DtResidue large =
        dt_residue_mul(&r, dt_residue_number(&r, 0x1p50), dt_residue_number(&r, 0x1p30));
    cr_assert(same(dt_residue_number(&r, 0x1p80), large));
}

Test(residues, exponentials_of_sums_are_products)
{
    for (uint64_t i = 0; i < 50; i++) {
        const DtResidue x = some(i), y = some(i + 100);
        const DtResidue product = dt_residue_mul(&r, dt_residue_exp(&r, x), dt_residue_exp(&r, y));
        cr_assert(same(dt_residue_exp(&r, dt_residue_add(&r, x, y)), product));
        cr_assert_eq(product.q, DT_RESIDUE_NONE);
        cr_assert_neq(dt_residue_exp(&r, dt_residue_mul(&r, x, y)).p, product.p);
        cr_assert_neq(dt_residue_exp(&r, x).p, dt_residue_function(&r, "tanh", x, x).p);
    }
    cr_assert_eq(dt_residue_exp(&r, dt_residue_number(&r, 0)).p, dt_residue_number(&r, 1).p);
}

/* sum(exp(x)) = exp(m) sum(exp(x - m)) for any m, also for one that is not the maximum */
Test(residues, what_a_softmax_subtracts_cancels)
{
    DtResidue all = {.q = DT_RESIDUE_NONE}, rest = all;
    const DtResidue m = some(1000);
    for (uint64_t i = 0; i < 10; i++) {
        all = dt_residue_add(&r, all, dt_residue_exp(&r, some(i)));
        rest = dt_residue_add(&r, rest, dt_residue_exp(&r, sub(some(i), m)));
    }
    cr_assert(same(all, dt_residue_mul(&r, rest, dt_residue_exp(&r, m))));
}

Test(residues, the_order_is_one)
{
    for (uint64_t i = 0; i < 50; i++) {
        const DtResidue x = some(i), y = some(i + 100), z = some(i + 200);
        cr_assert(same(dt_residue_max(&r, x, y), dt_residue_max(&r, y, x)));
        const DtResidue first = dt_residue_max(&r, dt_residue_max(&r, x, y), z);
        cr_assert(same(first, dt_residue_max(&r, x, dt_residue_max(&r, y, z))));
        cr_assert(same(dt_residue_min(&r, x, dt_residue_max(&r, x, y)), x));
        cr_assert(same(dt_residue_max(&r, x, dt_residue_number(&r, -INFINITY)), x));
    }
    cr_assert(dt_residue_less(&r, dt_residue_number(&r, -1e30), dt_residue_number(&r, 0)));
    cr_assert(dt_residue_less(&r, dt_residue_number(&r, 0), dt_residue_number(&r, 1e-30)));
}

/* The order of residues says nothing: it is another one in another draw, and exp does not preserve
 * it. */
Test(residues, the_order_says_nothing)
{
    uint32_t turned = 0, grows = 0;
    for (uint64_t i = 0; i < 200; i++) {
        const DtResidue x = some(i), y = some(i + 1000);
        dt_residue_draw(&r, 1, 2);
        const bool less = dt_residue_less(&r, x, y);
        grows += less == dt_residue_less(&r, dt_residue_exp(&r, x), dt_residue_exp(&r, y));
        dt_residue_draw(&r, 2, 2);
        turned += less != dt_residue_less(&r, x, y);
    }
    cr_assert(turned > 50 && turned < 150, "%u of 200", turned);
    cr_assert(grows > 50 && grows < 150, "%u of 200", grows);
}

Test(residues, what_is_undefined_stays_so)
{
    const DtResidue zero = dt_residue_number(&r, 0), x = some(1);
    const DtResidue none = dt_residue_inverse(&r, zero, true),
                    low = dt_residue_number(&r, -INFINITY);
    cr_assert_eq(none.p, DT_RESIDUE_UNDEFINED);
    cr_assert_eq(dt_residue_mul(&r, none, zero).p, DT_RESIDUE_UNDEFINED);
    cr_assert_eq(dt_residue_max(&r, none, x).p, DT_RESIDUE_UNDEFINED);
    cr_assert_eq(sub(low, low).p, DT_RESIDUE_UNDEFINED);
    cr_assert_eq(dt_residue_mul(&r, low, x).p, DT_RESIDUE_UNDEFINED);
    cr_assert_eq(dt_residue_exp(&r, low).p, 0);
    cr_assert_eq(dt_residue_add(&r, low, x).p, DT_RESIDUE_LOWEST);
}
