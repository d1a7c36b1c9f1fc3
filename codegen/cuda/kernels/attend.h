/* SPDX-License-Identifier: Apache-2.0 */
/* Behind lanes.h, for attention: products of tiles that lie in memory of the block. A warp has 16 rows of the tile of
 * rows. Of each eight columns thread l has four sums: [0], [1] are row l / 4, columns 2 * (l % 4) and the next, [2],
 * [3] the same of row l / 4 + 8. On a device 16-bit floats go through tensor cores (mma.sync, m16n8k16): products are
 * exact and sums are in f32, in an order of the machine's own; all else adds product after product, in order. */
#ifdef DT_ON_HOST
#define DT_UNROLL
#define DT_SHARED dt_shim_shared
#define dt_block() dt_shim_block_wait(__LINE__)
#else
#define DT_UNROLL _Pragma("unroll")
extern __shared__ __attribute__((aligned(16))) char dt_shared_bytes[];
#define DT_SHARED dt_shared_bytes
#define dt_block() __syncthreads()
#endif

typedef struct __attribute__((aligned(16))) dt_16 { uint32_t w[4]; } dt_16;
DT_INLINE int64_t dt_least(int64_t a, int64_t b) { return a < b ? a : b; }
DT_INLINE int64_t dt_greatest(int64_t a, int64_t b) { return a > b ? a : b; }
DT_INLINE float dt_from_f32(float x) { return x; }
DT_INLINE float dt_to_f32(float x) { return x; }

/* DT_TILES(name, type): what follows, for a type of elements.
 * load: rows of `depth` elements, `step` apart, `left` of them, zeros behind: to rows of `ld`, `padded` elements of
 * each; vector: 16 bytes at a time if the address allows. nt: sums[c] += a[r][.] * b[c][.]; nn: sums[c] +=
 * a[r][.] * b[.][c]; n: columns / 8; a: of this warp's rows. */
#define DT_TILES(name, type)                                                                                          \
    DT_INLINE void dt_load_##name(type *to, int ld, int rows, int depth, int padded, const type *p, int64_t step,     \
                                  int64_t along, int64_t left, int vector, int threads)                               \
    {                                                                                                                 \
        const int each = 16 / (int)sizeof(type), pieces = padded / each;                                              \
        if (vector && ((uint64_t)p & 15) == 0)                                                                        \
            for (int i = DT_THREAD; i < rows * pieces; i += threads) {                                                \
                const int r = i / pieces, c = i % pieces * each;                                                      \
                dt_16 x = {{0, 0, 0, 0}};                                                                             \
                if (r < left && c < depth) x = *(const dt_16 *)(p + r * step + c);                                    \
                *(dt_16 *)(to + r * ld + c) = x;                                                                      \
            }                                                                                                         \
        else                                                                                                          \
            for (int i = DT_THREAD; i < rows * padded; i += threads) {                                                \
                const int r = i / padded, c = i % padded;                                                             \
                to[r * ld + c] = r < left && c < depth ? p[r * step + c * along] : (type)0;                           \
            }                                                                                                         \
    }                                                                                                                 \
    /* b's columns are `across` apart, what is summed `down` */                                                       \
    DT_INLINE void dt_plain_##name(float (*sums)[4], int n, const type *a, int lda, const type *b, int across,        \
                                   int down, int depth)                                                               \
    {                                                                                                                 \
        const int g = DT_THREAD % 32 / 4, q = DT_THREAD % 4 * 2;                                                      \
        for (int k = 0; k < depth; k++) {                                                                             \
            const float x = dt_from_##name(a[g * lda + k]), y = dt_from_##name(a[(g + 8) * lda + k]);                 \
            DT_UNROLL for (int c = 0; c < n; c++) {                                                                   \
                const float v = dt_from_##name(b[(8 * c + q) * across + k * down]),                                   \
                            w = dt_from_##name(b[(8 * c + q + 1) * across + k * down]);                               \
                sums[c][0] = dt_fma(x, v, sums[c][0]);                                                                \
                sums[c][1] = dt_fma(x, w, sums[c][1]);                                                                \
                sums[c][2] = dt_fma(y, v, sums[c][2]);                                                                \
                sums[c][3] = dt_fma(y, w, sums[c][3]);                                                                \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    DT_INLINE void dt_plain_nt_##name(float (*sums)[4], int n, const type *a, int lda, const type *b, int ldb,        \
                                      int depth)                                                                      \
    {                                                                                                                 \
        dt_plain_##name(sums, n, a, lda, b, ldb, 1, depth);                                                           \
    }                                                                                                                 \
    DT_INLINE void dt_plain_nn_##name(float (*sums)[4], int n, const type *a, int lda, const type *b, int ldb,        \
                                      int depth)                                                                      \
    {                                                                                                                 \
        dt_plain_##name(sums, n, a, lda, b, 1, ldb, depth);                                                           \
    }
DT_TILES(f32, float)
DT_TILES(bf16, unsigned short)
DT_TILES(f16, unsigned short)
#define dt_nt_f32 dt_plain_nt_f32
#define dt_nn_f32 dt_plain_nn_f32

#ifdef DT_ON_HOST
#define dt_nt_bf16 dt_plain_nt_bf16
#define dt_nn_bf16 dt_plain_nn_bf16
#define dt_nt_f16 dt_plain_nt_f16
#define dt_nn_f16 dt_plain_nn_f16
#else
/* Four 8 x 8 matrices; each thread gives the address of one of their rows. */
DT_INLINE void dt_matrices(uint32_t *to, const unsigned short *row)
{
    asm volatile("{ .reg .u64 a; .reg .u32 b; cvta.to.shared.u64 a, %4; cvt.u32.u64 b, a;\n"
                 "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [b]; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(row) : "memory");
}
DT_INLINE void dt_matrices_turned(uint32_t *to, const unsigned short *row)
{
    asm volatile("{ .reg .u64 a; .reg .u32 b; cvta.to.shared.u64 a, %4; cvt.u32.u64 b, a;\n"
                 "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [b]; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(row) : "memory");
}
#define DT_TENSOR(name)                                                                                               \
    DT_INLINE void dt_mma_##name(float *d, const uint32_t *a, uint32_t b0, uint32_t b1)                               \
    {                                                                                                                 \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #name "." #name ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
            "{%8, %9}, {%0, %1, %2, %3};"                                                                             \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                          \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                          \
    }                                                                                                                 \
    DT_INLINE void dt_nt_##name(float (*sums)[4], int n, const unsigned short *a, int lda, const unsigned short *b,   \
                                int ldb, int depth)                                                                   \
    {                                                                                                                 \
        const int l = DT_THREAD % 32;                                                                                 \
        DT_UNROLL for (int k = 0; k < depth; k += 16) {                                                               \
            uint32_t x[4], y[4];                                                                                      \
            dt_matrices(x, a + l % 16 * lda + k + l / 16 * 8);                                                        \
            DT_UNROLL for (int c = 0; c < n; c += 2) {                                                                \
                dt_matrices(y, b + (8 * c + l / 16 * 8 + l % 8) * ldb + k + l / 8 % 2 * 8);                           \
                dt_mma_##name(sums[c], x, y[0], y[1]);                                                                \
                dt_mma_##name(sums[c + 1], x, y[2], y[3]);                                                            \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    DT_INLINE void dt_nn_##name(float (*sums)[4], int n, const unsigned short *a, int lda, const unsigned short *b,   \
                                int ldb, int depth)                                                                   \
    {                                                                                                                 \
        const int l = DT_THREAD % 32;                                                                                 \
        DT_UNROLL for (int k = 0; k < depth; k += 16) {                                                               \
            uint32_t x[4], y[4];                                                                                      \
            dt_matrices(x, a + l % 16 * lda + k + l / 16 * 8);                                                        \
            DT_UNROLL for (int c = 0; c < n; c += 2) {                                                                \
                dt_matrices_turned(y, b + (k + l / 8 % 2 * 8 + l % 8) * ldb + 8 * c + l / 16 * 8);                    \
                dt_mma_##name(sums[c], x, y[0], y[1]);                                                                \
                dt_mma_##name(sums[c + 1], x, y[2], y[3]);                                                            \
            }                                                                                                         \
        }                                                                                                             \
    }
DT_TENSOR(bf16)
DT_TENSOR(f16)
#endif

/* Four threads have the columns of a row. */
#define DT_QUAD(type, name, combine, shuffle)                                                                         \
    DT_INLINE type name##_quad(type x) { x = combine(x, shuffle(x, 1)); return combine(x, shuffle(x, 2)); }
DT_QUAD(float, dt_sum, dt_add, dt_shuffle)
DT_QUAD(float, dt_max, dt_max, dt_shuffle)
DT_QUAD(float, dt_min, dt_min, dt_shuffle)
DT_QUAD(int, dt_isum, dt_iadd, dt_ishuffle)
DT_QUAD(int, dt_imax, dt_imax, dt_ishuffle)
DT_QUAD(int, dt_imin, dt_imin, dt_ishuffle)
