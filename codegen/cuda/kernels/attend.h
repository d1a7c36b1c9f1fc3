/* SPDX-License-Identifier: Apache-2.0 */
/* Follows lanes.h, for attention: products of tiles in shared memory. A warp has 16 rows of the
 * tile of rows. Of each eight columns thread l has four elements: [0], [1] are row l / 4,
 * columns 2 * (l % 4) and the next, [2], [3] the same of row l / 4 + 8. On a device products of
 * 16-bit floats use tensor cores (mma.sync, m16n8k16), with exact products and sums in f32, in
 * the machine's own order; everything else adds product after product, in order. An operand that
 * was computed from scores stays in registers on a device, two elements in each. */
#ifdef DT_ON_HOST
#define DT_SHARED dt_shim_shared
#define DT_EACH_BLOCK(block, n) \
    for (int block = (int)DT_BLOCK; block < (n); block += (int)DT_BLOCKS)
#else
extern __shared__ __attribute__((aligned(16))) char dt_shared_bytes[];
#define DT_SHARED dt_shared_bytes
/* The blocks of a launch, n in number: each has one turn. There is no loop in which fewer blocks
 * take several turns: the compiler would compute values that do not depend on the turn in advance,
 * for each kind of block, and fill registers with them. */
#define DT_EACH_BLOCK(block, n) \
    if (DT_BLOCKS != (n))       \
        __trap();               \
    for (int block = (int)DT_BLOCK, block##_turns = 1; block##_turns; block##_turns = 0)
#endif

DT_INLINE int64_t dt_least(int64_t a, int64_t b) { return a < b ? a : b; }
DT_INLINE int64_t dt_greatest(int64_t a, int64_t b) { return a > b ? a : b; }
DT_INLINE float dt_from_f32(float x) { return x; }
DT_INLINE float dt_to_f32(float x) { return x; }

/* DT_TILES(name, type): what follows, for a type of elements.
 * load: rows of `depth` elements, `step` apart, `left` of them, zeros behind: to rows of `ld`,
 * `padded` elements of each; vector: 16 aligned bytes at a time. nt: sums[c] += a[r][.] * b[c][.];
 * nn: sums[c] += a[r][.] * b[.][c]; n: columns / 8; a: of this warp's rows. */
#define DT_TILES(name, type)                                                                      \
    DT_INLINE void dt_load_##name(type *to, int ld, int rows, int depth, int padded,              \
                                  const type *p, int64_t step, int64_t along, int64_t left,       \
                                  int vector, int threads)                                        \
    {                                                                                             \
        const int each = vector ? 16 / (int)sizeof(type) : 1, pieces = padded / each;             \
        const int even = threads % pieces == 0; /* a thread has pieces of one column */           \
        const int n = even ? rows : rows * pieces, by = even ? threads / pieces : threads;        \
        const int first = even ? DT_THREAD / pieces : DT_THREAD;                                  \
        for (int i = 0; i < n; i += by) {                                                         \
            const int at = i + first, r = even ? at : at / pieces,                                \
                      c = (even ? DT_THREAD : at) % pieces * each;                                \
            if (n % by && at >= n)                                                                \
                break;                                                                            \
            const int is = r < left && c < depth;                                                 \
            if (vector) {                                                                         \
                uint32_t x[4] = {0, 0, 0, 0};                                                     \
                if (is)                                                                           \
                    dt_load(x, p + r * step + c, 16);                                             \
                dt_store(to + r * ld + c, x, 16);                                                 \
            } else {                                                                              \
                to[r * ld + c] = is ? p[r * step + c * along] : (type)0;                          \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    /* b's columns are `across` elements apart, the summed elements `down` */                     \
    DT_INLINE void dt_plain_##name(float(*sums)[4], int n, const type *a, int lda, const type *b, \
                                   int across, int down, int depth)                               \
    {                                                                                             \
        const int g = DT_THREAD % 32 / 4, q = DT_THREAD % 4 * 2;                                  \
        for (int k = 0; k < depth; k++) {                                                         \
            const float x = dt_from_##name(a[g * lda + k]),                                       \
                        y = dt_from_##name(a[(g + 8) * lda + k]);                                 \
            DT_UNROLL for (int c = 0; c < n; c++)                                                 \
            {                                                                                     \
                const float v = dt_from_##name(b[(8 * c + q) * across + k * down]),               \
                            w = dt_from_##name(b[(8 * c + q + 1) * across + k * down]);           \
                sums[c][0] = dt_fma(x, v, sums[c][0]);                                            \
                sums[c][1] = dt_fma(x, w, sums[c][1]);                                            \
                sums[c][2] = dt_fma(y, v, sums[c][2]);                                            \
                sums[c][3] = dt_fma(y, w, sums[c][3]);                                            \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    DT_INLINE void dt_plain_nt_##name(float(*sums)[4], int n, const type *a, int lda,             \
                                      const type *b, int ldb, int depth)                          \
    {                                                                                             \
        dt_plain_##name(sums, n, a, lda, b, ldb, 1, depth);                                       \
    }                                                                                             \
    DT_INLINE void dt_plain_nn_##name(float(*sums)[4], int n, const type *a, int lda,             \
                                      const type *b, int ldb, int depth)                          \
    {                                                                                             \
        dt_plain_##name(sums, n, a, lda, b, 1, ldb, depth);                                       \
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
#define dt_coarse_exp(x) dt_exp(x)
#define dt_coarse_div(x, y) ((x) / (y))
#define dt_coarse_max(x, y) dt_max(x, y)
#define dt_coarse_min(x, y) dt_min(x, y)

/* MADE: a tile of values computed from scores; PUT: an element of it. at: offset in bytes of such
 * tiles, of 16 rows and ld elements a row for each warp; pair: the thread's value in the previous
 * column, for each of its rows. */
#define DT_MADE_16(m, at, ld, cols) \
    unsigned short *const m = (unsigned short *)(DT_SHARED + at) + warp * 16 * ld
#define DT_PUT_16(name, m, ld, pair, x) \
    m[(lane / 4 + 8 * h) * ld + 8 * u + 2 * (lane % 4) + j] = dt_to_##name(x), (void)pair
#else
/* e^x for 16-bit scores: relative error below 2^-20, for results of at least 2^-126; smaller ones
 * become 0. For maxima zeros of either sign are equal. */
DT_INLINE float dt_coarse_exp(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
DT_INLINE float dt_coarse_div(float x, float y)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(y));
    return x * r;
}
DT_INLINE float dt_coarse_max(float x, float y)
{
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}
DT_INLINE float dt_coarse_min(float x, float y)
{
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}

#define DT_MADE_16(m, at, ld, cols) uint32_t m[cols / 8][2]
#define DT_PUT_16(name, m, ld, pair, x) dt_put_##name(m[u], pair, h, j, x)

DT_INLINE uint32_t dt_shared_address(const void *p)
{
    uint32_t a;
    asm("{ .reg .u64 b; cvta.to.shared.u64 b, %1; cvt.u32.u64 %0, b; }" : "=r"(a) : "l"(p));
    return a;
}
/* Four 8 x 8 matrices; each thread gives the address of one of their rows. */
DT_INLINE void dt_matrices(uint32_t *to, uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}
DT_INLINE void dt_matrices_turned(uint32_t *to, uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}
#define DT_TENSOR(name)                                                                           \
    DT_INLINE void dt_mma_##name(float *d, const uint32_t *a, uint32_t b0, uint32_t b1)           \
    {                                                                                             \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #name "." #name                              \
            ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "                                           \
            "{%8, %9}, {%0, %1, %2, %3};"                                                         \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                      \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                      \
    }                                                                                             \
    DT_INLINE void dt_nt_##name(float(*sums)[4], int n, const unsigned short *a, int lda,         \
                                const unsigned short *b, int ldb, int depth)                      \
    {                                                                                             \
        const int l = DT_THREAD % 32;                                                             \
        const uint32_t own = dt_shared_address(a + l % 16 * lda + l / 16 * 8);                    \
        const uint32_t other = dt_shared_address(b + (l / 16 * 8 + l % 8) * ldb + l / 8 % 2 * 8); \
        /* four at a time: loads in advance for more of them would fill registers */              \
        _Pragma("unroll 4") for (int k = 0; k < depth; k += 16)                                   \
        {                                                                                         \
            uint32_t x[4], y[4];                                                                  \
            dt_matrices(x, own + 2 * k);                                                          \
            DT_UNROLL for (int c = 0; c < n; c += 2)                                              \
            {                                                                                     \
                dt_matrices(y, other + 2 * (8 * c * ldb + k));                                    \
                dt_mma_##name(sums[c], x, y[0], y[1]);                                            \
                dt_mma_##name(sums[c + 1], x, y[2], y[3]);                                        \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    DT_INLINE void dt_put_##name(uint32_t *m, float *pair, int h, int j, float x)                 \
    {                                                                                             \
        if (j == 0)                                                                               \
            pair[h] = x;                                                                          \
        else                                                                                      \
            asm("cvt.rn." #name "x2.f32 %0, %1, %2;" : "=r"(m[h]) : "f"(x), "f"(pair[h]));        \
    }                                                                                             \
    DT_INLINE void dt_nn_##name(float(*sums)[4], int n, const uint32_t(*m)[2], int ldm,           \
                                const unsigned short *b, int ldb, int depth)                      \
    {                                                                                             \
        const int l = DT_THREAD % 32;                                                             \
        const uint32_t other = dt_shared_address(b + (l / 8 % 2 * 8 + l % 8) * ldb + l / 16 * 8); \
        (void)ldm;                                                                                \
        DT_UNROLL for (int k = 0; k < depth; k += 16)                                             \
        {                                                                                         \
            const uint32_t x[4] = {m[k / 8][0], m[k / 8][1], m[k / 8 + 1][0], m[k / 8 + 1][1]};   \
            uint32_t y[4];                                                                        \
            DT_UNROLL for (int c = 0; c < n; c += 2)                                              \
            {                                                                                     \
                dt_matrices_turned(y, other + 2 * (k * ldb + 8 * c));                             \
                dt_mma_##name(sums[c], x, y[0], y[1]);                                            \
                dt_mma_##name(sums[c + 1], x, y[2], y[3]);                                        \
            }                                                                                     \
        }                                                                                         \
    }
DT_TENSOR(bf16)
DT_TENSOR(f16)
#endif

/* With 32-bit elements such a tile is in shared memory on GPUs, too. */
#define DT_MADE_32(m, at, ld, cols) float *const m = (float *)(DT_SHARED + at) + warp * 16 * ld
#define DT_PUT_32(name, m, ld, pair, x) \
    m[(lane / 4 + 8 * h) * ld + 8 * u + 2 * (lane % 4) + j] = (x), (void)pair

/* Combines the values of the four threads that share a row of a tile. */
#define DT_QUAD(type, name, combine, shuffle) \
    DT_INLINE type name##_quad(type x)        \
    {                                         \
        x = combine(x, shuffle(x, 1));        \
        return combine(x, shuffle(x, 2));     \
    }
DT_QUAD(float, dt_sum, dt_add, dt_shuffle)
DT_QUAD(float, dt_max, dt_max, dt_shuffle)
DT_QUAD(float, dt_min, dt_min, dt_shuffle)
DT_QUAD(int, dt_isum, dt_iadd, dt_ishuffle)
DT_QUAD(int, dt_imax, dt_imax, dt_ishuffle)
DT_QUAD(int, dt_imin, dt_imin, dt_ishuffle)
