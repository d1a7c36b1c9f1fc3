/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the prelude: neighbouring elements in words of 32 bits, loaded and stored 16 bytes at a
 * time (wide.c). Their number and indices are compile-time constants, so words stay in registers.
 * dt_load and dt_store, of 4, 8 or 16 aligned bytes, belong to the machine. */
DT_INLINE void dt_take(uint32_t *v, const void *p, int bytes)
{
    for (int i = 0; i < bytes; i += 16) dt_load(v + i / 4, (const char *)p + i, bytes - i);
}
DT_INLINE void dt_give(void *p, const uint32_t *v, int bytes)
{
    for (int i = 0; i < bytes; i += 16) dt_store((char *)p + i, v + i / 4, bytes - i);
}

DT_INLINE unsigned char dt_get1(const uint32_t *v, int l)
{
    return (unsigned char)(v[l / 4] >> 8 * (l % 4));
}
DT_INLINE unsigned short dt_get2(const uint32_t *v, int l)
{
    return (unsigned short)(v[l / 2] >> 16 * (l % 2));
}
DT_INLINE int dt_get4(const uint32_t *v, int l) { return (int)v[l]; }
DT_INLINE float dt_getf(const uint32_t *v, int l) { return dt_bits_float((int)v[l]); }
/* In ascending order: the first element of a word clears the others. */
DT_INLINE void dt_put1(uint32_t *v, int l, int x)
{
    v[l / 4] = l % 4 ? v[l / 4] | (uint32_t)(unsigned char)x << 8 * (l % 4) : (unsigned char)x;
}
DT_INLINE void dt_put2(uint32_t *v, int l, unsigned short x)
{
    v[l / 2] = l % 2 ? v[l / 2] | (uint32_t)x << 16 : x;
}
DT_INLINE void dt_put4(uint32_t *v, int l, int x) { v[l] = (uint32_t)x; }
DT_INLINE void dt_putf(uint32_t *v, int l, float x) { v[l] = (uint32_t)dt_float_bits(x); }

/* The same at the end of a row, where `left` of the n elements exist: loads give zeros for the
 * others, and stores leave them unchanged. */
#define DT_SOME(size, type)                                                                     \
    DT_INLINE void dt_take_some##size(uint32_t *v, const void *p, int n, int64_t left)          \
    {                                                                                           \
        if (left >= n) {                                                                        \
            dt_take(v, p, n * size);                                                            \
            return;                                                                             \
        }                                                                                       \
        DT_UNROLL for (int l = 0; l < n; l++)                                                   \
            dt_put##size(v, l, l < left ? ((const type *)p)[l] : 0);                            \
    }                                                                                           \
    DT_INLINE void dt_give_some##size(void *p, const uint32_t *v, int n, int64_t left)          \
    {                                                                                           \
        if (left >= n) {                                                                        \
            dt_give(p, v, n * size);                                                            \
            return;                                                                             \
        }                                                                                       \
        DT_UNROLL for (int l = 0; l < n; l++)                                                   \
            if (l < left) ((type *)p)[l] = (type)dt_get##size(v, l);                            \
    }
DT_SOME(1, unsigned char)
DT_SOME(2, unsigned short)
DT_SOME(4, int)
