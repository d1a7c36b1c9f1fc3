/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the prelude: four neighbouring elements of a draw. They take one call of the generator,
 * or two if the first element is not the first of its call, as a rank's part may begin inside a
 * call. All threads take the same branch. */
DT_INLINE void dt_draw_four(float *to, uint64_t key, uint64_t element, uint32_t step,
                            uint32_t iteration)
{
    const int behind = (int)(element & 3);
    const dt_words v = dt_philox(key, element >> 2, step, iteration);
    if (behind == 0) {
        to[0] = dt_unit(v.a), to[1] = dt_unit(v.b), to[2] = dt_unit(v.c), to[3] = dt_unit(v.d);
        return;
    }
    const dt_words w = dt_philox(key, (element >> 2) + 1, step, iteration);
    to[0] = dt_unit(behind == 1 ? v.b : behind == 2 ? v.c : v.d);
    to[1] = dt_unit(behind == 1 ? v.c : behind == 2 ? v.d : w.a);
    to[2] = dt_unit(behind == 1 ? v.d : behind == 2 ? w.a : w.b);
    to[3] = dt_unit(behind == 1 ? w.a : behind == 2 ? w.b : w.c);
}
/* One of four values in registers. */
DT_INLINE float dt_of_four(const float *u, int d)
{
    return d < 2 ? d < 1 ? u[0] : u[1] : d < 3 ? u[2] : u[3];
}
