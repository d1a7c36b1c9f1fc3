/* SPDX-License-Identifier: Apache-2.0 */
/* Before the prelude, on a processor: the same names, for the shim that runs a block's threads as
 * fibers (tests/codegen/shim.c). A kernel becomes a function like those of the target "cpu". */
typedef struct dt_shim_kernel {
    int blocks, threads;
    void (*thread)(char *const *, const long *);
} dt_shim_kernel;
void dt_shim_launch(const dt_shim_kernel *kernel, char *const *p, const long *q);
void dt_shim_warp(int line);
void dt_shim_block_wait(int line);
int dt_shim_block_any(int x, int line);
float dt_shim_shuffle(float x, int from, int line);
extern int dt_shim_block, dt_shim_blocks, dt_shim_thread;
extern char *dt_shim_shared; /* memory of the block */
#define DT_LANES
#define DT_ON_HOST

#define DT_KERNEL(name, blocks, threads, n, m)                                                  \
    const int name##_counts[2] = {n, m};                                                        \
    static void name##_thread(char *const *p, const long *q);                                   \
    void name(char *const *p, const long *q)                                                    \
    {                                                                                           \
        static const dt_shim_kernel kernel = {blocks, threads, name##_thread};                  \
        dt_shim_launch(&kernel, p, q);                                                          \
    }                                                                                           \
    static void name##_thread(char *const *p, const long *q)
/* A kernel in two launches as one function; n addresses without that of the workspace. */
#define DT_PIECES(name, n, bytes)                                                               \
    void name##_pieces(char *const *p, const long *q);                                          \
    void name##_finish(char *const *p, const long *q);                                          \
    void name(char *const *p, const long *q)                                                    \
    {                                                                                           \
        static char workspace[bytes];                                                           \
        char *all[n + 1];                                                                       \
        for (int i = 0; i < n; i++) all[i] = p[i];                                              \
        for (long i = 0; i < bytes; i++) workspace[i] = -1; /* NaN */                           \
        all[n] = workspace;                                                                     \
        name##_pieces(all, q);                                                                  \
        name##_finish(all, q);                                                                  \
    }
#define DT_ARGUMENTS
#define DT_BLOCK ((long)dt_shim_block)
#define DT_BLOCKS ((long)dt_shim_blocks)
#define DT_THREAD dt_shim_thread

#ifndef DT_STEP_BY_VALUE
#define DT_STEP_LIES_THERE
static inline unsigned dt_step(long at) { return (unsigned)*(const unsigned long long *)at; }
#endif

#define DT_SUMS dt_shim_shared
#define DT_UNROLL
/* an error if that is not aligned */
void dt_shim_copy(void *to, const void *from, const void *aligned, int bytes);
#define dt_load(v, p, bytes) dt_shim_copy(v, p, p, bytes)
#define dt_store(p, v, bytes) dt_shim_copy(p, v, p, bytes)

#define dt_warp() dt_shim_warp(__LINE__)
#define dt_block() dt_shim_block_wait(__LINE__)
#define dt_block_any(x) dt_shim_block_any(x, __LINE__)
#define dt_shuffle(x, mask) dt_shim_shuffle(x, DT_THREAD ^ (mask), __LINE__)
#define dt_first(x, group) dt_shim_shuffle(x, DT_THREAD / (group) * (group), __LINE__)
#define dt_ishuffle(x, mask) dt_float_bits(dt_shuffle(dt_bits_float(x), mask))
#define dt_ifirst(x, group) dt_float_bits(dt_first(dt_bits_float(x), group))
