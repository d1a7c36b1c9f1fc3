/* SPDX-License-Identifier: Apache-2.0 */
/* Behind the prelude: lanes to one. All threads of the warp get here; the result of a group's first thread, which has
 * the lower lanes at every step, is everybody's.
 *
 *   group    16 lanes, one each, by halves, as the prelude's DT_TREE does it
 *   near     lanes of a group, of which each thread has as many as its vector, by pairs, as DT_PAIRS does it
 *   warps    results of so many warps, which lie in memory of the block, in each warp by pairs */
#define DT_GROUP(type, name, combine, shuffle, first)                                           \
    DT_INLINE type name##_group(type s, int group)                                              \
    {                                                                                           \
        for (int m = group / 2; m >= 1; m /= 2) s = combine(s, shuffle(s, m));                  \
        return first(s, group);                                                                 \
    }                                                                                           \
    DT_INLINE type name##_near(type *s, int group, int vector)                                  \
    {                                                                                           \
        for (int w = 1; w < vector; w *= 2)                                                     \
            for (int l = 0; l < vector; l += 2 * w) s[l] = combine(s[l], s[l + w]);             \
        for (int m = 1; m < group; m *= 2) s[0] = combine(s[0], shuffle(s[0], m));              \
        return first(s[0], group);                                                              \
    }                                                                                           \
    DT_INLINE type name##_warps(const type *s, int warps)                                       \
    {                                                                                           \
        const int lane = DT_THREAD % 32;                                                        \
        type x = s[lane < warps ? lane : 0];                                                    \
        for (int m = 1; m < warps; m *= 2) {                                                    \
            const type y = shuffle(x, m);                                                       \
            if ((lane / m ^ 1) * m < warps) x = combine(x, y);                                  \
        }                                                                                       \
        return first(x, 32);                                                                    \
    }
DT_GROUP(float, dt_sum, dt_add, dt_shuffle, dt_first)
DT_GROUP(float, dt_max, dt_max, dt_shuffle, dt_first)
DT_GROUP(float, dt_min, dt_min, dt_shuffle, dt_first)
DT_GROUP(int, dt_isum, dt_iadd, dt_ishuffle, dt_ifirst)
DT_GROUP(int, dt_imax, dt_imax, dt_ishuffle, dt_ifirst)
DT_GROUP(int, dt_imin, dt_imin, dt_ishuffle, dt_ifirst)
