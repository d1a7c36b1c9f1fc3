/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: the published answers of Philox-4x32-10, the distributions made from it, and the
 * keys and counters of sites: path, step, iteration, element by sorted axis names. */
#include "interp_fixture.h"

#include "base/hash.h"
#include "base/intern.h"
#include "base/philox.h"

#include <criterion/criterion.h>
#include <math.h>

/* The three lines "philox4x32 10" of kat_vectors, published with Random123. */
Test(interp_rng, philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        uint64_t key = cases[i].key[0] | (uint64_t)cases[i].key[1] << 32;
        uint64_t element = cases[i].counter[0] | (uint64_t)cases[i].counter[1] << 32;
        DtPhilox got = dt_philox(key, element, cases[i].counter[2], cases[i].counter[3]);
        for (int k = 0; k < 4; k++)
            cr_expect_eq(got.word[k], cases[i].want[k], "case %zu word %d is %08x", i, k,
                         got.word[k]);
    }
}

/* First four moments within five standard errors, no value outside [0, 1), all 16 bins populated
 * evenly. */
Test(interp_rng, uniform_moments)
{
    enum { N = 200000 };
    double sums[4] = {0};
    int bins[16] = {0};
    for (int i = 0; i < N; i++) {
        double u = dt_philox_uniform(dt_philox(42, (uint64_t)i, 3, 1));
        cr_assert(u >= 0 && u < 1 && u * 0x1p24 == floor(u * 0x1p24));
        for (int k = 0; k < 4; k++)
            sums[k] += pow(u, k + 1);
        bins[(int)(u * 16)]++;
    }
    for (int k = 1; k <= 4; k++) {
        double mean = 1.0 / (k + 1), deviation = sqrt(1.0 / (2 * k + 1) - mean * mean);
        cr_expect_float_eq(sums[k - 1] / N, mean, 5 * deviation / sqrt(N));
    }
    for (int k = 0; k < 16; k++)
        cr_expect(fabs(bins[k] - N / 16.0) < 5 * sqrt(N / 16.0), "bin %d has %d", k, bins[k]);
}

/* Moments 0, 1, 0, 3 within five standard errors (variances 1, 2, 15, 96), and the share within one
 * sigma. */
Test(interp_rng, normal_moments)
{
    enum { N = 200000 };
    static const double mean[] = {0, 1, 0, 3}, variance[] = {1, 2, 15, 96};
    double sums[4] = {0}, inside = 0;
    for (int i = 0; i < N; i++) {
        double x = dt_philox_normal(dt_philox(43, (uint64_t)i, 0, 0));
        cr_assert(isfinite(x));
        for (int k = 0; k < 4; k++)
            sums[k] += pow(x, k + 1);
        inside += fabs(x) < 1;
    }
    for (int k = 0; k < 4; k++)
        cr_expect_float_eq(sums[k] / N, mean[k], 5 * sqrt(variance[k] / N));
    cr_expect_float_eq(inside / N, 0.6826894921370859, 5 * sqrt(0.68 * 0.32 / N));
}

Test(interp_rng, element_is_row_major_over_sorted_names)
{
    const DtType *type = type_of(DT_F32, "seq=5 batch=3 embed=7");
    for (int i = 0; i < order_count(type); i++) {
        const DtType *order = reordered(type, i);
        int64_t at[3], want[] = {2, 6, 4}; /* batch, embed, seq */
        const char *names[] = {"batch", "embed", "seq"};
        for (int k = 0; k < 3; k++)
            at[dt_type_find(order, dt_intern(names[k]))] = want[k];
        cr_assert_eq(dt_interp_element(order, at), (2u * 7 + 6) * 5 + 4);
    }
    cr_assert_eq(dt_interp_element(dt_type_scalar(DT_F32), NULL), 0);
    const DtType *large = type_of(DT_F32, "a=4000000000 b=3");
    cr_assert_eq(dt_interp_element(large, (int64_t[]){3999999999, 2}), 11999999999u);
}

/* Returns the number that a site draws, computed from the definition in docs/language.md. */
static double draw(const char *path, uint64_t seed, uint64_t element, uint32_t step,
                   uint32_t iteration)
{
    const DtPhilox call = dt_philox(dt_hash_text(path, seed), element >> 2, step, iteration);
    return (double)(call.word[element & 3] >> 8) / 16777216;
}

/* The same element has the same number in every axis order; site, seed and step change it. */
Test(interp_rng, site_at_the_top)
{
    const DtType *type = type_of(DT_F32, "s=3 b=2");
    for (int i = 0; i < 2; i++) {
        Fixture *f = fixture_new();
        f->interp.seed = 11;
        f->interp.step = 5;
        DtTensor *got = run(f, dt_graph_rng(&f->b, reordered(type, i), "dropout#0"));
        for (uint64_t b = 0; b < 2; b++)
            for (uint64_t s = 0; s < 3; s++)
                cr_assert_eq(AT(got, P("b", (int64_t)b), P("s", (int64_t)s)),
                             draw("dropout#0", 11, b * 3 + s, 5, 0));
        DtTensor *other = run(f, dt_graph_rng(&f->b, reordered(type, i), "dropout#1"));
        cr_assert_neq(other->at[0], got->at[0]);
        fixture_free(f);
    }
}

/* With draws=1 an element has the first word of its own call, as initialisers have. */
Test(interp_rng, one_element_from_a_call)
{
    const DtType *type = type_of(DT_F32, "a=11");
    Fixture *f = fixture_new();
    DtValue *x = dt_graph_rng(&f->b, type, "dropout#0");
    x->op->draws = 1;
    DtTensor *got = run(f, x);
    for (uint64_t i = 0; i < 11; i++)
        cr_assert_eq(got->at[i], dt_philox_uniform(dt_philox(
                                     dt_hash_text("dropout#0", f->interp.seed), i, 0, 0)));
    fixture_free(f);
}

/* Returns layer(), which draws from a site. A call of it labelled `mlp` is in the body of loop `h`,
 * which is inside loop `o`. */
static DtFunc *drawing_layer(Fixture *f)
{
    DtFunc *layer = dt_graph_func(f->module, "layer", DT_FUNC_LAYER);
    DtBuilder b = {.func = layer};
    dt_graph_return(layer, dt_graph_rng(&b, dt_type_scalar(DT_F32), "dropout#0"));
    return layer;
}

static DtFunc *loop_body(Fixture *f, DtBuilder *ret_builder)
{
    DtFunc *body = dt_graph_func(f->module, "body", DT_FUNC_BODY);
    *ret_builder = (DtBuilder){.func = body};
    dt_graph_arg(body, dt_type_scalar(DT_I32), "i");
    return body;
}

static DtValue *stacking_loop(DtBuilder *b, DtFunc *body, const char *label, int64_t count,
                              bool reverse)
{
    DtLoop loop = {.label = dt_intern(label),
                   .axis = dt_intern(label),
                   .count = count,
                   .reverse = reverse,
                   .n_stacked_out = 1};
    return dt_graph_loop(b, body, loop, (DtValue *[]){NULL})->out[0];
}

/* Path: labels joined with dots, loops without number. Iteration: row-major over the loops,
 * whichever way they run, so that a backward loop repeats the draws of the forward one. */
Test(interp_rng, path_and_iteration_in_nested_loops)
{
    Fixture *f = fixture_new();
    f->interp.seed = 3;
    DtFunc *layer = drawing_layer(f);
    DtBuilder inner, outer;
    DtFunc *inner_body = loop_body(f, &inner);
    dt_graph_return(inner_body, dt_graph_call(&inner, layer, "mlp", (DtValue *[]){NULL})->out[0]);
    DtFunc *outer_body = loop_body(f, &outer);
    dt_graph_return(outer_body, stacking_loop(&outer, inner_body, "h", 3, true));
    DtTensor *got = run(f, stacking_loop(&f->b, outer_body, "o", 2, false));
    for (uint32_t o = 0; o < 2; o++)
        for (uint32_t h = 0; h < 3; h++)
            cr_assert_eq(AT(got, P("o", o), P("h", h)),
                         draw("o.h.mlp.dropout#0", 3, 0, 0, o * 3 + h));
    /* the same layer is called after the loops: path and iteration are those of the top level
     * again */
    DtValue *after = dt_graph_call(&f->b, layer, "head", (DtValue *[]){NULL})->out[0];
    cr_assert_eq(run(f, after)->at[0], draw("head.dropout#0", 3, 0, 0, 0));
    DtValue *plain = dt_graph_call(&f->b, layer, NULL, (DtValue *[]){NULL})->out[0];
    cr_assert_eq(run(f, plain)->at[0], draw("dropout#0", 3, 0, 0, 0));
    fixture_free(f);
}

/* A stacked parameter: each iteration is drawn as if it stood alone, elements by sorted names. */
Test(interp_rng, initial_values)
{
    Fixture *f = fixture_new();
    DtStore store = {.path = dt_intern("h.attention.wq.w"),
                     .type = type_of(DT_F32, "layers=3 embed=4 a=2"),
                     .n_loops = 1,
                     .init = {.kind = DT_INIT_NORMAL, .a = 0.02}};
    DtTensor *got = dt_interp_tensor(f->arena, store.type);
    dt_interp_init(&store, 9, got);
    uint64_t key = dt_hash_text("h.attention.wq.w", 9);
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t e = 0; e < 4; e++)
            for (uint32_t a = 0; a < 2; a++) {
                double want = 0.02 * dt_philox_normal(dt_philox(key, a * 4 + e, 0, l));
                cr_assert_eq(AT(got, P("layers", l), P("embed", e), P("a", a)), want);
            }
    store.init = (DtInit){.kind = DT_INIT_UNIFORM, .a = -3, .b = 5};
    dt_interp_init(&store, 9, got);
    for (int i = 0; i < 24; i++)
        cr_assert(got->at[i] >= -3 && got->at[i] < 5);
    cr_assert_eq(got->at[0], -3 + 8 * dt_philox_uniform(dt_philox(key, 0, 0, 0)));
    store.init = (DtInit){.kind = DT_INIT_CONST, .a = 1};
    dt_interp_init(&store, 9, got);
    for (int i = 0; i < 24; i++)
        cr_assert_eq(got->at[i], 1);
    fixture_free(f);
}
