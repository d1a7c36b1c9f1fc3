/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the prelude: combines lanes to one value. All threads of the warp call these. All threads
 * get the result of the group's first thread, which has the lower lanes at every step.
 *
 *   group    16 lanes, one per thread, by halves, like the prelude's DT_TREE
 *   near     lanes of a group, of which each thread has as many as its vector, by pairs, like
 *   DT_PAIRS
 *   warps    results of several warps, in shared memory, combined in each warp by pairs */
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
