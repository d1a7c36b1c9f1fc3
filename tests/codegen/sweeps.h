/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled after codegen/kernels/prelude.h, by several compilers: applies every function of the
 * prelude to an array, in loops of the same form as in generated kernels. */
#define SWEEP(name, expression)                                                                \
    void sweep_##name(const float *restrict xs, const float *restrict ys, float *restrict out, \
                      int64_t n)                                                               \
    {                                                                                          \
        DT_LANES                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const float x = xs[i], y = ys[i];                                                  \
            (void)y;                                                                           \
            out[i] = (float)(expression);                                                      \
        }                                                                                      \
    }
SWEEP(exp, dt_exp(x))
SWEEP(log, dt_log(x))
SWEEP(tanh, dt_tanh(x))
SWEEP(erf, dt_erf(x))
SWEEP(expm1, dt_expm1(x))
SWEEP(sin, dt_sin(x))
SWEEP(cos, dt_cos(x))
SWEEP(rsqrt, dt_rsqrt(x))
SWEEP(pow, dt_pow(x, y))
SWEEP(mod, dt_mod(x, y))
SWEEP(floordiv, dt_floordiv(x, y))
SWEEP(max, dt_max(x, y))
SWEEP(min, dt_min(x, y))
SWEEP(to_int, dt_bits_float(dt_to_int(x)))
SWEEP(bf16, dt_from_bf16(dt_to_bf16(x)))
SWEEP(f16, dt_from_f16(dt_to_f16(x)))

/* A layer norm, a softmax with cross entropy and a column sum in the form of generated kernels. */
void sweep_rows(const float *xs, const float *ys, float *out, int64_t n)
{
    const int64_t columns = 200;
    for (int64_t r = 0; r < n / columns; r++) {
        const float *x = xs + r * columns, *y = ys + r * columns;
        float s[64], m[64], d[64];
        for (int l = 0; l < 64; l++) s[l] = 0, m[l] = -__builtin_inff(), d[l] = 0;
        for (int64_t j = 0; j + 64 <= columns; j += 64) {
            DT_LANES
            for (int l = 0; l < 64; l++) {
                s[l] = s[l] + x[j + l] * y[j + l];
                m[l] = dt_max(m[l], x[j + l]);
            }
        }
        for (int l = 0; l < columns % 64; l++) {
            s[l] = s[l] + x[columns - columns % 64 + l] * y[columns - columns % 64 + l];
            m[l] = dt_max(m[l], x[columns - columns % 64 + l]);
        }
        const float sum = dt_sum_64(s), most = dt_max_64(m);
        for (int64_t j = 0; j + 64 <= columns; j += 64) {
            DT_LANES
            for (int l = 0; l < 64; l++) d[l] = d[l] + dt_exp(x[j + l] - most);
        }
        const float total = dt_sum_64(d);
        DT_LANES
        for (int64_t j = 0; j < columns; j++)
            out[r * columns + j] =
                dt_exp(x[j] - most) / total + sum * dt_rsqrt(total) - dt_log(total);
    }
}

/* Random draws: one call for each element; one call for four elements; all four results of one
 * call. */
void sweep_draw_1(const float *xs, const float *ys, float *out, int64_t n)
{
    (void)xs, (void)ys;
    DT_LANES
    for (int64_t i = 0; i < n; i++)
        out[i] = dt_draw_1(0x123456789abcdefull, (uint64_t)i * 0x10001ull, 7, (uint32_t)(i % 13));
}
void sweep_draw_4(const float *xs, const float *ys, float *out, int64_t n)
{
    (void)xs, (void)ys;
    DT_LANES
    for (int64_t i = 0; i < n; i++)
        out[i] = dt_draw_4(0x123456789abcdefull, (uint64_t)i * 0x10001ull, 7, (uint32_t)(i % 13));
}
void sweep_draw(const float *xs, const float *ys, float *out, int64_t n)
{
    (void)xs, (void)ys;
    DT_LANES
    for (int64_t i = 0; i < n / 4; i++)
        dt_draw(out + i, n / 4, 0x123456789abcdefull, (uint64_t)i * 0x40004ull, 7,
                (uint32_t)(i % 13));
}
void sweep_draw_four(const float *xs, const float *ys, float *out, int64_t n)
{
    (void)xs, (void)ys;
    for (int64_t i = 0; i < n / 4; i++) {
        float four[4];
        dt_draw_four(four, 0x123456789abcdefull, (uint64_t)i * 0x10001ull, 7, (uint32_t)(i % 13));
        for (int d = 0; d < 4; d++)
            out[4 * i + d] = dt_of_four(four, d);
    }
}
