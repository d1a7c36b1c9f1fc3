/* SPDX-License-Identifier: Apache-2.0 */
/* What is timed before the first step, and how: algorithms of products (cuda_choose.c) and which
 * form a product with an epilogue has (cuda_forms.c), and who computes attention
 * (cuda_attend_choose.c), on memory of its own (cuda_bench.c). */
#ifndef DT_RUNTIME_CUDA_CHOOSE_H
#define DT_RUNTIME_CUDA_CHOOSE_H

#include "runtime/cuda_lt.h"

/* A later candidate must take less than this share of the time of an earlier one. */
#define DT_CUDA_MARGIN 0.98
#define DT_CUDA_FILL 0x3c /* what memory to time on is filled with: small numbers in every dtype */

/* cuda_bench.c: operands of a product next to each other in new memory, and that of arena INSTEAD
 * for its second form. */
typedef struct DtCudaBench {
    DtRank *rank;
    DtCudaProducts *products;
    uint32_t gemm;
    uint64_t memory, at[DT_GEMM_OPERANDS], instead;
    DtCudaEvent *from, *to;
} DtCudaBench;

/* False: there is no room; to be closed in any case. */
bool dt_cuda_bench_open(DtCudaBench *bench);
void dt_cuda_bench_close(DtCudaBench *bench);
/* Seconds of the GPU for the product by the algorithm; for its second form, whose product uses the
 * given algorithm. Negative: the library or the GPU does not support it. */
double dt_cuda_bench_product(DtCudaBench *bench, const DtAlgorithm *algorithm);
double dt_cuda_bench_second(DtCudaBench *bench, const DtAlgorithm *algorithm);

/* Seconds of the GPU for one of many runs; negative: one failed, or the GPU did. Events: to use. */
typedef bool DtCudaRun(void *context);
double dt_cuda_bench_time(const DtCudaDriver *driver, DtCudaStream *stream, DtCudaEvent *from,
                          DtCudaEvent *to, DtCudaRun *run, void *context);

typedef struct DtChoosing {
    DtRank *rank;
    DtCudaProducts *products;
    DtArena *memory;        /* until all is chosen */
    const char *kind;       /* of the GPU and the library */
    int cache;              /* folder, or -1 */
    DtChoice *table;        /* by record: this rank's */
    DtText *said;
    uint32_t n_lost, n_unfit,
        n_untimed;          /* products that the checkpoint lacks, has wrong, that had no room */
    uint32_t n_refused;     /* epilogues that the library does not do */
    uint32_t n_held, n_held_forms; /* algorithms and forms that the checkpoint has and options do
                                    * not ask for */
} DtChoosing;

/* cuda_forms.c: after all algorithms are chosen, a form for each product that has two. False: the
 * run ends. */
bool dt_cuda_forms_decide(DtChoosing *choosing);

#endif
