/* SPDX-License-Identifier: Apache-2.0 */
/* Before the prelude, on the device: the machine's names for what kernels say. Compiled by NVRTC,
 * without headers; functions are the device's (--device-as-default-execution-space), and nothing is
 * contracted (--fmad=false). */
#ifndef DT_HOST /* host.h stands before it */
#define __builtin_fmaf __fmaf_rn
#define __builtin_fma __fma_rn
#define __builtin_floor floor
#define __builtin_floorf floorf
#define __builtin_sqrtf __fsqrt_rn
#define __builtin_fabsf fabsf
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define DT_LANES

/* A kernel with so many threads per block. Its one argument is n pointers and m integers. The bound
 * of one block per multiprocessor is given, since ptxas would otherwise spill registers to fit
 * more. */
#define DT_KERNEL(name, blocks, threads, n, m)                                                  \
    struct name##_arguments { char *p[n]; long q[m]; };                                         \
    extern "C" __global__ void __launch_bounds__(threads, 1) name(const name##_arguments arguments)
/* A kernel in two launches, which are DT_KERNEL(name##_pieces, ..) and DT_KERNEL(name##_finish,
 * ..). */
#define DT_PIECES(name, n, bytes)
#define DT_ARGUMENTS char *const *p = arguments.p; const long *q = arguments.q;
#define DT_BLOCK ((long)blockIdx.x)
#define DT_BLOCKS ((long)gridDim.x)
#define DT_THREAD ((int)threadIdx.x)

/* Casts by instructions of the machine, in place of the prelude's: equal values, except for the
 * bits of a NaN. */
#define DT_OWN_CASTS
static __device__ int dt_ipick(int c, int a, int b) { return c ? a : b; }
static __device__ float dt_pick(int c, float a, float b) { return c ? a : b; }
static __device__ float dt_from_bf16(unsigned short h)
{
    return __uint_as_float((unsigned)h << 16);
}
static __device__ unsigned short dt_to_bf16(float x)
{
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
static __device__ float dt_from_f16(unsigned short h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
static __device__ unsigned short dt_to_f16(float x)
{
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

/* In memory of the device, so that a launch which is kept in a graph sees that of each step. */
#define DT_STEP_LIES_THERE
static __device__ unsigned dt_step(long at)
{
    return (unsigned)__ldg((const unsigned long long *)at);
}

extern __shared__ __attribute__((aligned(16))) float dt_row_sums[];
#define DT_SUMS dt_row_sums
#define DT_UNROLL _Pragma("unroll")

static __device__ void dt_load(unsigned *v, const void *p, int bytes)
{
    if (bytes >= 16) {
        const uint4 x = *(const uint4 *)p;
        v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
    } else if (bytes >= 8) {
        const uint2 x = *(const uint2 *)p;
        v[0] = x.x, v[1] = x.y;
    } else {
        v[0] = *(const unsigned *)p;
    }
}
static __device__ void dt_store(void *p, const unsigned *v, int bytes)
{
    if (bytes >= 16)
        *(uint4 *)p = make_uint4(v[0], v[1], v[2], v[3]);
    else if (bytes >= 8)
        *(uint2 *)p = make_uint2(v[0], v[1]);
    else
        *(unsigned *)p = v[0];
}

/* All threads of a warp, or of a block, get there; whether x is not 0 in one of the block. */
#define dt_warp() __syncwarp()
#define dt_block() __syncthreads()
#define dt_block_any(x) __syncthreads_or(x)
static __device__ float dt_shuffle(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
static __device__ float dt_first(float x, int group)
{
    return __shfl_sync(0xffffffffu, x, 0, group);
}
static __device__ int dt_ishuffle(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
static __device__ int dt_ifirst(int x, int group) { return __shfl_sync(0xffffffffu, x, 0, group); }
#endif
