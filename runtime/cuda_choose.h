/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured before the first step, and how. Algorithms of products (cuda_choose.c), the form
 * of each product with an epilogue (cuda_forms.c), and whether cuDNN or the plan's kernels compute
 * attention (cuda_attend_choose.c). Measurements run in memory of their own (cuda_bench.c). */
#ifndef DT_RUNTIME_CUDA_CHOOSE_H
#define DT_RUNTIME_CUDA_CHOOSE_H

#include "runtime/cuda_lt.h"

/* A later candidate replaces an earlier one only if its time is less than this share of the earlier
 * one's. */
#define DT_CUDA_MARGIN 0.98
#define DT_CUDA_FILL 0x3c /* the byte with which memory for measurements is filled: it makes small
                           * numbers in every dtype */

/* cuda_bench.c: new memory for the operands of a product, one after the other, and for what its
 * second form has in arena INSTEAD. */
typedef struct DtCudaBench {
    DtRank *rank;
    DtCudaProducts *products;
    uint32_t gemm;
    uint64_t memory, at[DT_GEMM_OPERANDS], instead;
    DtCudaEvent *from, *to;
} DtCudaBench;

/* False: there is not enough memory. It must be closed in either case. */
bool dt_cuda_bench_open(DtCudaBench *bench);
void dt_cuda_bench_close(DtCudaBench *bench);
/* Seconds that the GPU takes for the product by this algorithm; and for the second form, whose
 * product uses the given algorithm. Negative: the library or the GPU does not support it. */
double dt_cuda_bench_product(DtCudaBench *bench, const DtAlgorithm *algorithm);
double dt_cuda_bench_second(DtCudaBench *bench, const DtAlgorithm *algorithm);

/* Seconds that the GPU takes for one of many runs; negative: one of them failed, or the GPU did.
 * events: those that the measurement uses. */
typedef bool DtCudaRun(void *context);
double dt_cuda_bench_time(const DtCudaDriver *driver, DtCudaStream *stream, DtCudaEvent *from,
                          DtCudaEvent *to, DtCudaRun *run, void *context);

typedef struct DtChoosing {
    DtRank *rank;
    DtCudaProducts *products;
    DtArena *memory;        /* these are used until all algorithms are chosen */
    const char *kind;       /* a hash of the GPU and the library */
    int cache;              /* descriptor of the folder of stored choices, or -1 */
    DtChoice *table;        /* by record: the choice of this rank */
    DtText *said;
    uint32_t n_lost, n_unfit,
        n_untimed;          /* number of products whose algorithm is missing in the checkpoint, is
                             * invalid there, or could not be timed for lack of memory */
    uint32_t n_refused;     /* number of epilogues that the library cannot compute */
    uint32_t n_held, n_held_forms; /* algorithms and forms that the checkpoint has and options do
                                    * not ask for */
} DtChoosing;

/* cuda_forms.c: called after all algorithms are chosen; chooses a form for each product that has
 * two. False: the run must end. */
bool dt_cuda_forms_decide(DtChoosing *choosing);

#endif
