/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long a GPU takes for a product, in either of its forms, before the first step. It
 * uses memory of its own, which is freed afterwards, so it changes nothing that the run uses. */
#include "runtime/cuda_choose.h"

#include "plan/kinds.h"
#include "runtime/forms.h"

enum { ROUNDS = 3, MOST_TIMES = 32 };
static const double span = 1e-3; /* approximate seconds of one round of measurements */

/* ---- memory ---- */

static uint64_t span_of(const DtCudaMatrix *m, int64_t lead, int32_t batch, uint32_t dtype)
{
    const uint64_t elements =
        (uint64_t)(batch - 1) * (uint64_t)m->batch + (m->columns - 1) * (uint64_t)lead + m->rows;
    const uint64_t bytes = elements * (uint64_t)dt_kinds_size(dtype);
    return (bytes + 255) / 256 * 256;
}

bool dt_cuda_bench_open(DtCudaBench *b)
{
    const DtCudaDriver *d = b->products->driver;
    const DtPlanGemm *g = &b->products->plan->gemms[b->gemm];
    const DtCudaProduct *of = &b->products->rows[b->gemm].of;
    const DtCudaMatrix *a = of->left_is_b ? &of->right : &of->left,
                       *right = of->left_is_b ? &of->left : &of->right;
    const uint64_t longest = of->out.rows > of->out.columns ? of->out.rows : of->out.columns;
    const uint64_t bytes[DT_GEMM_OPERANDS] = {
        [DT_GEMM_A] = span_of(a, a->lead, of->batch, g->dtype_a),
        [DT_GEMM_B] = span_of(right, right->lead, of->batch, g->dtype_b),
        [DT_GEMM_C] = span_of(&of->out, of->out.lead, of->batch, g->dtype_c),
        [DT_GEMM_VECTOR] = (longest * 4 + 255) / 256 * 256,
        [DT_GEMM_MATRIX] =
            g->matrix_row ? span_of(&of->out, g->matrix_row, of->batch, g->dtype_c) : 0};
    const uint64_t instead = dt_forms_bytes(b->products->plan, b->gemm);
    uint64_t all = instead;
    for (int i = 0; i < DT_GEMM_OPERANDS; i++)
        all += bytes[i];
    if (d->alloc(&b->memory, all) != 0) {
        b->memory = 0;
        return false;
    }
    for (uint64_t i = 0, at = b->memory; i < DT_GEMM_OPERANDS; at += bytes[i++])
        b->at[i] = at;
    b->instead = b->memory + all - instead;
    return d->set_bytes(b->memory, DT_CUDA_FILL, all, b->products->stream) == 0 &&
           d->event_new(&b->from, 0) == 0 && d->event_new(&b->to, 0) == 0;
}

void dt_cuda_bench_close(DtCudaBench *b)
{
    const DtCudaDriver *d = b->products->driver;
    d->stream_wait(b->products->stream);
    if (b->from)
        d->event_free(b->from);
    if (b->to)
        d->event_free(b->to);
    if (b->memory)
        d->free(b->memory);
}

/* ---- the timed operations ---- */

typedef bool Run(DtCudaBench *b, const DtAlgorithm *algorithm);

static bool run_product(DtCudaBench *b, const DtAlgorithm *algorithm)
{
    return dt_cuda_products_begin(b->products, b->gemm, algorithm, b->at, true);
}

/* Returns the address of an argument of the second form: that of the product's operand with the
 * same memory, or else one in the memory that only second forms use. */
static uint64_t address_of(const DtCudaBench *b, const DtPlanInst *product, const DtPlanArg *arg)
{
    const DtEpilogueInfo *epilogue =
        &dt_kinds_epilogues[b->products->plan->gemms[b->gemm].epilogue];
    const int operand = dt_forms_operand(b->products->plan, product, arg);
    const bool is_matrix = operand > DT_GEMM_C && (operand > DT_GEMM_VECTOR || !epilogue->vector);
    return operand < 0 ? b->instead + (uint64_t)arg->base
                       : b->at[is_matrix ? DT_GEMM_MATRIX : operand];
}

static bool run_second_inst(DtCudaBench *b, const DtPlanInst *product, const DtPlanInst *inst,
                            const DtAlgorithm *algorithm)
{
    const DtPlan *plan = b->products->plan;
    DtDeviceAt pointers[256];
    int64_t integers[256];
    uint64_t at[DT_GEMM_OPERANDS] = {0};
    uint32_t n_pointers = 0, n_integers = 0;
    for (uint32_t i = 0; i + inst->guards < inst->n_args; i++) {
        const DtPlanArg *arg = &plan->args[inst->first_arg + i];
        if (arg->kind == DT_ARG_ADDRESS)
            pointers[n_pointers++].at = address_of(b, product, arg);
        else
            integers[n_integers++] = b->rank->arg_base[inst->first_arg + i];
    }
    if (inst->kind == DT_INST_KERNEL) {
        b->rank->device_ops->kernel(b->rank->device, inst, n_pointers, pointers, integers);
        return !dt_rank_has_failed(b->rank);
    }
    for (uint32_t i = 0; i < n_pointers && i < DT_GEMM_VECTOR; i++)
        at[i] = pointers[i].at;
    return dt_cuda_products_begin(b->products, inst->ref, algorithm, at, true);
}

static bool run_second(DtCudaBench *b, const DtAlgorithm *algorithm)
{
    const DtPlan *plan = b->products->plan;
    const DtPlanInst *product = dt_forms_of(plan, b->gemm);
    const DtPlanBody *body = &plan->bodies[product->instead - 1];
    bool good = true;
    for (uint32_t i = 0; good && i < body->n_insts; i++)
        good = run_second_inst(b, product, &plan->insts[body->first_inst + i], algorithm);
    return good;
}

/* ---- times ---- */

typedef struct Clock {
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    DtCudaEvent *from, *to;
    DtCudaRun *run;
    void *context;
} Clock;

/* Returns the mean seconds of n runs; negative: the library or the GPU cannot do it. */
static double time_runs(const Clock *c, int n)
{
    const DtCudaDriver *d = c->driver;
    float ms = -1;
    bool good = d->event_record(c->from, c->stream) == 0;
    for (int i = 0; good && i < n; i++)
        good = c->run(c->context);
    good = d->event_record(c->to, c->stream) == 0 && good;
    good = d->stream_wait(c->stream) == 0 && good && d->event_elapsed(&ms, c->from, c->to) == 0;
    return good ? (double)ms * 1e-3 / n : -1;
}

/* The first run is not timed, since libraries load their code in it. */
double dt_cuda_bench_time(const DtCudaDriver *driver, DtCudaStream *stream, DtCudaEvent *from,
                          DtCudaEvent *to, DtCudaRun *run, void *context)
{
    const Clock clock = {driver, stream, from, to, run, context};
    const double first = time_runs(&clock, 1), one = first < 0 ? first : time_runs(&clock, 1);
    const int n = one <= span / MOST_TIMES ? MOST_TIMES : one >= span ? 1 : (int)(span / one);
    double least = one;
    for (int i = 0; i < ROUNDS && least >= 0; i++) {
        const double seconds = time_runs(&clock, n);
        least = seconds < least ? seconds : least;
    }
    return least;
}

typedef struct Timed {
    DtCudaBench *bench;
    const DtAlgorithm *algorithm;
    Run *run;
} Timed;

static bool run_timed(void *context)
{
    const Timed *timed = context;
    return timed->run(timed->bench, timed->algorithm);
}

static double time_of(DtCudaBench *b, Run *run, const DtAlgorithm *algorithm)
{
    Timed timed = {b, algorithm, run};
    return dt_cuda_bench_time(b->products->driver, b->products->stream, b->from, b->to, run_timed,
                              &timed);
}

double dt_cuda_bench_product(DtCudaBench *bench, const DtAlgorithm *algorithm)
{
    return time_of(bench, run_product, algorithm);
}

double dt_cuda_bench_second(DtCudaBench *bench, const DtAlgorithm *algorithm)
{
    return time_of(bench, run_second, algorithm);
}
