/* SPDX-License-Identifier: Apache-2.0 */
/* The elementary functions of generated kernels: their errors against libm in double over dense
 * sweeps, with the bounds that the comments in kernels/prelude.h state, and equal bits from gcc and
 * clang, -O1 and -O3, and every instruction set level that this machine has. */
#include "base/arena.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/text.h"
#include "codegen/cuda/cuda.h"
#include "codegen/kernel.h"
#include "ir/round.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void Sweep(const float *x, const float *y, float *out, int64_t n);

enum { N = 1 << 20 };
static float xs[N], ys[N], out[N];

static void *compile(const char *compiler, const char *level, const char *march)
{
    static const char flags[] = "-x c - -std=gnu11 -w -shared -fPIC -fno-math-errno "
                                "-fno-trapping-math -ffp-contract=off -nostdlib";
    char folder[] = "/tmp/dt_preludeXXXXXX", path[64], command[512];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.so", folder);
    snprintf(command, sizeof command, "%s %s -march=%s %s -o %s", compiler, level, march, flags,
             path);
    FILE *to = popen(command, "w"), *from = fopen("tests/codegen/sweeps.h", "r");
    cr_assert(to && from);
    fputs(dt_prelude_c, to);
    fputs(dt_cuda_draws, to);
    for (int c; (c = fgetc(from)) != EOF;)
        fputc(c, to);
    fclose(from);
    cr_assert_eq(pclose(to), 0, "%s failed", command);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    unlink(path);
    rmdir(folder);
    return library;
}

static Sweep *function(void *library, const char *name)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "sweep_%s", name);
    void *address = dlsym(library, symbol);
    Sweep *sweep;
    cr_assert_not_null(address, "%s", symbol);
    memcpy(&sweep, &address, sizeof sweep);
    return sweep;
}

/* Fills `at` with numbers that are evenly spaced from..to. */
static void even(float *at, double from, double to)
{
    for (int i = 0; i < N; i++)
        at[i] = (float)(from + (to - from) * i / (N - 1));
}

/* Evenly spaced over all bit patterns from 0 to that of limit, with both signs if asked. */
static void patterns(float *at, float limit, bool signs)
{
    uint32_t top;
    memcpy(&top, &limit, 4);
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)((uint64_t)top * (uint32_t)i / (N - 1));
        if (signs && (i & 1))
            bits |= 0x80000000u;
        memcpy(&at[i], &bits, 4);
    }
}

/* Largest errors of out over the arguments where expected is a normal number of f32 or 0. */
static void errors(double (*expected)(double), double *ret_absolute, double *ret_relative)
{
    *ret_absolute = *ret_relative = 0;
    for (int i = 0; i < N; i++) {
        double want = expected((double)xs[i]), error = fabs((double)out[i] - want);
        if (fabs(want) > 3.4e38 || (want != 0 && fabs(want) < 1.18e-38) ||
            (xs[i] != 0 && fabs((double)xs[i]) < 1.18e-38))
            continue;
        if (!(error <= *ret_absolute))
            *ret_absolute = error;
        if (want != 0 && !(error / fabs(want) <= *ret_relative))
            *ret_relative = error / fabs(want);
    }
}

static double rsqrt(double x) { return 1 / sqrt(x); }

static const struct {
    const char *name;
    double (*exact)(double);
    double from, to, absolute, relative; /* 0: no bound is stated */
} claims[] = {
    {"exp", exp, -87.33, 88.72, 0, 1.2e-7},   {"exp", exp, -1, 1, 0, 1.2e-7},
    {"log", log, 1e-30, 1e30, 0, 2e-7},       {"log", log, 0.5, 2, 0, 2e-7},
    {"tanh", tanh, -10, 10, 1e-7, 2e-7},      {"tanh", tanh, -1, 1, 1e-7, 2e-7},
    {"erf", erf, -6, 6, 1e-7, 2.5e-7},        {"erf", erf, -1.5, 1.5, 1e-7, 2.5e-7},
    {"expm1", expm1, -87, 88, 0, 2.5e-7},     {"expm1", expm1, -1, 1, 0, 2.5e-7},
    {"sin", sin, -40, 40, 1.5e-7, 0},         {"sin", sin, -2147483000.0, 2147483000.0, 1.5e-7, 0},
    {"cos", cos, -40, 40, 1.5e-7, 0},         {"cos", cos, -2147483000.0, 2147483000.0, 1.5e-7, 0},
    {"rsqrt", rsqrt, 1e-3, 1e3, 0, 1.2e-7},
};

Test(prelude, errors_are_as_stated)
{
    void *library = compile("cc", "-O3", "native");
    for (uint32_t i = 0; i < DT_COUNT(claims); i++) {
        double absolute, relative;
        even(xs, claims[i].from, claims[i].to);
        function(library, claims[i].name)(xs, ys, out, N);
        errors(claims[i].exact, &absolute, &relative);
        cr_expect(!claims[i].absolute || absolute <= claims[i].absolute, "%s: absolute error %g",
                  claims[i].name, absolute);
        cr_expect(!claims[i].relative || relative <= claims[i].relative, "%s: relative error %g",
                  claims[i].name, relative);
    }
}

/* The same, over all exponents. */
Test(prelude, errors_over_all_magnitudes)
{
    void *library = compile("cc", "-O3", "native");
    static const struct {
        const char *name;
        double (*exact)(double);
        float limit;
        bool signs;
        double absolute, relative;
    } wide[] = {
        {"exp", exp, 88.7f, false, 0, 1.2e-7},     {"log", log, 3.4e38f, false, 0, 2e-7},
        {"tanh", tanh, 3.4e38f, true, 1e-7, 2e-7}, {"erf", erf, 3.4e38f, true, 1e-7, 2.5e-7},
        {"sin", sin, 2.1e9f, true, 1.5e-7, 0},     {"cos", cos, 2.1e9f, true, 1.5e-7, 0},
    };
    for (uint32_t i = 0; i < DT_COUNT(wide); i++) {
        double absolute, relative;
        patterns(xs, wide[i].limit, wide[i].signs);
        function(library, wide[i].name)(xs, ys, out, N);
        errors(wide[i].exact, &absolute, &relative);
        cr_expect(!wide[i].absolute || absolute <= wide[i].absolute, "%s: absolute error %g",
                  wide[i].name, absolute);
        cr_expect(!wide[i].relative || relative <= wide[i].relative, "%s: relative error %g",
                  wide[i].name, relative);
    }
}

/* Values outside of the sweeps: infinities, NaN with any payload bits, signed zeros, values beyond
 * the range. */
Test(prelude, ends)
{
    void *library = compile("cc", "-O3", "native");
    static const struct { const char *name; uint32_t x, out; } ends[] = {
        {"exp", 0x7f800000, 0x7f800000}, {"exp", 0xff800000, 0}, {"exp", 0x80000000, 0x3f800000},
        {"exp", 0x42b17218, 0x7f800000}, {"exp", 0xc2aeac50, 0}, {"exp", 0xc2aeac4f, 0x00800026},
        {"tanh", 0x7f800000, 0x3f800000}, {"tanh", 0xff800000, 0xbf800000},
        {"tanh", 0x80000000, 0x80000000}, {"tanh", 0, 0}, {"tanh", 1, 1},
        {"tanh", 0x80000001, 0x80000001}, {"erf", 0x7f800000, 0x3f800000},
        {"erf", 0xff800000, 0xbf800000}, {"erf", 0x80000000, 0x80000000},
    };
    for (uint32_t i = 0; i < DT_COUNT(ends); i++) {
        uint32_t got;
        memcpy(&xs[0], &ends[i].x, 4);
        function(library, ends[i].name)(xs, ys, out, 1);
        memcpy(&got, &out[0], 4);
        cr_expect_eq(got, ends[i].out, "%s of %08x is %08x, not %08x", ends[i].name, ends[i].x, got,
                     ends[i].out);
    }
    static const char *const bounded[] = {"tanh", "erf", "exp"};
    for (uint32_t f = 0; f < DT_COUNT(bounded); f++) {
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t nan = 0x7f800001u + i * 7 % 0x7fffff;
            memcpy(&xs[i], &nan, 4);
        }
        function(library, bounded[f])(xs, ys, out, N);
        for (uint32_t i = 0; i < N; i++)
            cr_assert(isnan(out[i]), "%s of a NaN, number %u, is %g", bounded[f], i,
                      (double)out[i]);
        if (strcmp(bounded[f], "exp") == 0)
            continue;
        even(xs, -12, 12);
        function(library, bounded[f])(xs, ys, out, N);
        for (int i = 0; i < N; i++)
            cr_assert(fabsf(out[i]) <= 1, "%s of %.9g is %.9g", bounded[f], (double)xs[i],
                      (double)out[i]);
    }
}

Test(prelude, powers)
{
    void *library = compile("cc", "-O3", "native");
    double worst = 0;
    patterns(xs, 3.4e38f, false);
    for (int i = 0; i < N; i++)
        ys[i] = (float)((double)(i * 2654435761u % 40001u) / 1000 - 20);
    function(library, "pow")(xs, ys, out, N);
    for (int i = 0; i < N; i++) {
        double want = pow((double)xs[i], (double)ys[i]);
        if (xs[i] < 1.2e-38f || want > 3.4e38 || want < 1.2e-38)
            continue;
        double error = fabs((double)out[i] - want) / want;
        if (!(error <= worst))
            worst = error;
    }
    cr_expect_leq(worst, 1.5e-7, "relative error %g", worst);
}

Test(prelude, remainders_and_floors_are_exact)
{
    void *library = compile("cc", "-O3", "native");
    for (int i = 0; i < N; i++) {
        xs[i] = (float)((double)(i * 2654435761u % 2000003u) / 64 - 15000);
        ys[i] = (float)(((int)(i * 40503u % 4001u) - 2000) / 16.0);
        if (ys[i] == 0)
            ys[i] = 0.3f;
    }
    function(library, "mod")(xs, ys, out, N);
    for (int i = 0; i < N; i++) {
        double rest = fmod((double)xs[i], (double)ys[i]);
        if (rest != 0 && (rest < 0) != (ys[i] < 0))
            rest += (double)ys[i];
        cr_assert_eq(out[i], (float)rest, "%.9g mod %.9g is %.9g, not %.9g", (double)xs[i],
                     (double)ys[i], (double)out[i], rest);
    }
    function(library, "floordiv")(xs, ys, out, N);
    for (int i = 0; i < N; i++)
        cr_assert_eq(out[i], (float)floor((double)xs[i] / (double)ys[i]));
}

Test(prelude, conversions)
{
    void *library = compile("cc", "-O3", "native");
    patterns(xs, 3.4e38f, true);
    xs[0] = NAN, xs[1] = INFINITY, xs[2] = -INFINITY, xs[3] = 2147483648.0f, xs[4] = -2147483648.0f,
    xs[5] = 2147483520.0f;
    xs[6] = 65519.0f, xs[7] = 65520.0f, xs[8] = 0x1p-25f, xs[9] = 0x1.8p-25f,
    xs[10] = 3.3961776e38f, xs[11] = -0.0f;
    function(library, "to_int")(xs, ys, out, N);
    for (int i = 0; i < N; i++) {
        int32_t got;
        double x = (double)xs[i];
        memcpy(&got, &out[i], 4);
        cr_assert_eq(got,
                     isnan(x)             ? 0
                     : x >= 2147483647    ? INT32_MAX
                     : x <= -2147483648.0 ? INT32_MIN
                                          : (int32_t)x,
                     "%g", x);
    }
    static const struct { const char *name; DtDtype dtype; } halves[] = {{"bf16", DT_BF16},
                                                                         {"f16", DT_F16}};
    for (int h = 0; h < 2; h++) {
        function(library, halves[h].name)(xs, ys, out, N);
        for (int i = 0; i < N; i++) {
            double want = dt_round_to(halves[h].dtype, (double)xs[i]);
            cr_assert((isnan(want) && isnan(out[i])) ||
                          ((double)out[i] == want && !signbit(out[i]) == !signbit(want)),
                      "%s of %.9g is %.9g, not %.9g", halves[h].name, (double)xs[i], (double)out[i],
                      want);
        }
    }
}

static double draw(uint64_t element, uint32_t per_call, int i)
{
    return dt_philox_draw(0x123456789abcdefull, element, per_call, 7, (uint32_t)(i % 13));
}

Test(prelude, draws_are_philox)
{
    void *library = compile("cc", "-O3", "native");
    function(library, "draw_1")(xs, ys, out, 4096);
    for (int i = 0; i < 4096; i++)
        cr_assert_eq((double)out[i], draw((uint64_t)i * 0x10001, 1, i));
    function(library, "draw_4")(xs, ys, out, 4096);
    for (int i = 0; i < 4096; i++)
        cr_assert_eq((double)out[i], draw((uint64_t)i * 0x10001, 4, i));
    function(library, "draw")(xs, ys, out, 4096);
    for (int i = 0; i < 4096; i++)
        cr_assert_eq((double)out[i],
                     draw((uint64_t)(i % 1024) * 0x40004 + (uint64_t)(i / 1024), 4, i % 1024));
    function(library, "draw_four")(xs, ys, out, 4096); /* the elements begin at any element of a
                                                        * call */
    for (int i = 0; i < 4096; i++)
        cr_assert_eq((double)out[i],
                     draw((uint64_t)(i / 4) * 0x10001 + (uint64_t)(i % 4), 4, i / 4));
}

/* ---- equal bits ---- */

static const char *const names[] = {"exp", "log", "tanh", "erf", "sin", "cos", "rsqrt", "pow",
                                    "mod", "floordiv", "max", "min", "to_int", "bf16", "f16",
                                    "rows", "draw_1", "draw_4", "draw", "draw_four"};

static uint64_t bits_of(void *library, const char *name)
{
    memset(out, 0, sizeof out);
    function(library, name)(xs, ys, out, N);
    for (int i = 0; strcmp(name, "to_int") != 0 && i < N; i++)
        if (isnan(out[i]))
            out[i] = NAN; /* the function does not promise the sign of NaN */
    return dt_hash_bytes(out, sizeof out, 0);
}

static bool found(const char *compiler)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", compiler);
    return system(command) == 0;
}

Test(prelude, equal_bits_from_all_compilers)
{
    static const char *const compilers[] = {"gcc", "clang"}, *const levels[] = {"-O1", "-O3"};
    const struct { const char *march; bool here;
    } levels_of_machine[] = {
#if defined(__x86_64__)
        {"x86-64-v3", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
        {"x86-64-v4", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")},
#else
        {"native", true},
#endif
    };
    uint64_t first[DT_COUNT(names)] = {0};
    uint32_t n = 0;
    patterns(ys, 50, true);
    for (int i = 0; i < N; i++)
        xs[i] = ys[(i * 40503u + 77u) % N];
    xs[0] = INFINITY, ys[1] = INFINITY, xs[2] = -INFINITY, xs[4] = 3e38f;
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t l = 0; l < 2; l++)
            for (uint32_t m = 0; m < DT_COUNT(levels_of_machine); m++) {
                if (!found(compilers[c]) || !levels_of_machine[m].here) {
                    fprintf(stderr, "skipped: %s -march=%s is not available here\n", compilers[c],
                            levels_of_machine[m].march);
                    continue;
                }
                void *library = compile(compilers[c], levels[l], levels_of_machine[m].march);
                for (uint32_t k = 0; k < DT_COUNT(names); k++) {
                    uint64_t bits = bits_of(library, names[k]);
                    if (n == 0)
                        first[k] = bits;
                    cr_expect_eq(bits, first[k], "%s differs: %s %s -march=%s", names[k],
                                 compilers[c], levels[l], levels_of_machine[m].march);
                }
                n++;
                dlclose(library);
            }
    cr_assert_geq(n, 2, "fewer than two ways to compile on this machine");
}
