/* SPDX-License-Identifier: Apache-2.0 */
/* Behind the prelude: 64 or 16 lanes to one, of which each thread of a group has as many as its vector. By halves, as
 * the prelude's DT_TREE does it: lanes of another thread first, then one's own; the group's first thread has the lower
 * lanes at every step, and its result is everybody's. All threads of the warp get here. */
#define DT_GROUP(type, name, combine, shuffle, first)                                           \
    DT_INLINE type name##_group(type *s, int group, int vector)                                 \
    {                                                                                           \
        for (int m = group / 2; m >= 1; m /= 2)                                                 \
            for (int l = 0; l < vector; l++) s[l] = combine(s[l], shuffle(s[l], m));            \
        for (int w = vector / 2; w >= 1; w /= 2)                                                \
            for (int l = 0; l < w; l++) s[l] = combine(s[l], s[l + w]);                         \
        return first(s[0], group);                                                              \
    }
DT_GROUP(float, dt_sum, dt_add, dt_shuffle, dt_first)
DT_GROUP(float, dt_max, dt_max, dt_shuffle, dt_first)
DT_GROUP(float, dt_min, dt_min, dt_shuffle, dt_first)
DT_GROUP(int, dt_isum, dt_iadd, dt_ishuffle, dt_ifirst)
DT_GROUP(int, dt_imax, dt_imax, dt_ishuffle, dt_ifirst)
DT_GROUP(int, dt_imin, dt_imin, dt_ishuffle, dt_ifirst)
