/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU of NVIDIA: arenas are in its memory; instructions are started on one stream in their
 * order, and are done when host code gets something, which waits for everything before it. Data
 * put there, and scalars read back, go through host memory that the GPU accesses (cuda_host.h),
 * so the host is ahead of the GPU most of the time. Kernels are the plan's code for this GPU
 * (cuda_kernels.h), products are cuBLASLt's, attention may be cuDNN's. */
#include "runtime/device_cuda.h"

#include "base/page.h"
#include "runtime/cuda_attend.h"
#include "runtime/cuda_host.h"
#include "runtime/cuda_kernels.h"
#include "runtime/cuda_products.h"
#include "runtime/device.h"
#include "runtime/forms.h"
#include "runtime/position.h"

#include <string.h>

struct DtDeviceState {
    DtRank *rank;
    DtCudaDriver driver;
    int device, number, major, minor; /* number: of the GPU in this machine */
    bool is_retained;
    DtCudaStream *stream;
    DtDeviceAt step_at; /* here kernels find the number of the step */
    int64_t step;
    DtCudaKernels *kernels;
    DtCudaProducts *products;
    DtCudaHost *host;
    DtCudaAttends *attends; /* NULL: the plan's kernels do all attention */
    DtNcclWindows *windows; /* NULL without --windows */
    DT_VEC(uint64_t) arenas, lent; /* memory to free: that allocated by the driver, that allocated
                                    * by NCCL */
    DT_VEC(DtCudaGraphRun *) graphs;
    DtCudaEvent **stamps; /* for --profile; events are made when they are first needed */
    uint64_t marks;       /* the device's address of the slot's progress words; 0: the device
                           * cannot write there */
    int error;            /* the first error of the driver; 0: none */
};

/* Checks the result of a call of the driver. An error may come from earlier asynchronous work; then
 * the stream reports an error, too. */
static bool good(DtDeviceState *state, int error, const char *what)
{
    if (error == 0)
        return true;
    if (state->error == 0 && !dt_rank_has_failed(state->rank)) {
        const bool is_late = state->stream && state->driver.stream_query(state->stream) == error;
        dt_rank_fail(state->rank, DT_EXIT_FAILED, "the GPU failed to %s: %s%s",
                     is_late ? "do what was begun" : what,
                     dt_cuda_driver_error(&state->driver, error),
                     is_late ? dt_position_blame(state->rank) : "");
    }
    state->error = error;
    return false;
}

bool dt_device_cuda_good(DtRank *rank, int error, const char *what)
{
    return good(rank->device, error, what);
}

/* Asks the device for its error after a library could not begin its work. If the device has failed,
 * that is reported as the reason. */
static void ask(DtDeviceState *state)
{
    const int error = state->driver.stream_query(state->stream);
    good(state, error == DT_CUDA_NOT_READY ? 0 : error, "do what was begun");
}

/* ---- the device ---- */

static DtStatus choose_device(DtDeviceState *state)
{
    const DtCudaDriver *d = &state->driver;
    const DtRank *rank = state->rank;
    DtCudaContext *context = NULL;
    int n = 0, error = d->device_count(&n);
    if (error == 0 && n == 0)
        return dt_status_fail(DT_EXIT_FAILED, "this machine has a driver and no GPU");
    if (error == 0 && (uint32_t)n < rank->local.size && !rank->options->share_gpu)
        return dt_status_fail(DT_EXIT_FAILED,
                              rank->options->nodes > 1
                                  ? "this node has %u ranks and %d GPU%s"
                                  : "the plan has %u ranks and this machine %d GPU%s; with "
                                    "--share-gpu ranks share them",
                              rank->local.size, n, n == 1 ? "" : "s");
    if (error == 0)
        error = d->device(&state->device, state->number = (int)(rank->local.me % (uint32_t)n));
    if (error == 0)
        error = d->device_attribute(&state->major, DT_CUDA_CAPABILITY_MAJOR, state->device);
    if (error == 0)
        error = d->device_attribute(&state->minor, DT_CUDA_CAPABILITY_MINOR, state->device);
    if (error == 0)
        error = d->retain(&context, state->device);
    state->is_retained = error == 0;
    if (error == 0)
        error = d->set_current(context);
    if (error == 0)
        error = d->stream_new(&state->stream, DT_CUDA_STREAM_ALONE);
    return error == 0 ? DT_OK
                      : dt_status_fail(DT_EXIT_RETRY, "the GPU cannot be used: %s",
                                       dt_cuda_driver_error(d, error));
}

/* ---- kernels ---- */

static void run_attention(DtDeviceState *state, uint32_t kernel, const DtDeviceAt *pointers)
{
    const char *why;
    if (dt_cuda_attends_run(state->attends, kernel, pointers, &why))
        return;
    ask(state);
    if (state->error == 0)
        dt_rank_fail(state->rank, DT_EXIT_FAILED, "cuDNN failed to start attention: %s", why);
}

static void run_kernel(DtDeviceState *state, const DtPlanInst *inst, uint32_t n_pointers,
                       const DtDeviceAt *pointers, const int64_t *integers)
{
    const uint32_t kernel = inst->ref;
    if (dt_cuda_attends_has(state->attends, kernel))
        run_attention(state, kernel, pointers);
    else
        good(state, dt_cuda_kernels_start(state->kernels, kernel, n_pointers, pointers, integers),
             "start a kernel");
}

static DtDeviceAt put_step(DtDeviceState *state, int64_t number)
{
    if (number != state->step &&
        dt_cuda_host_put(state->host, state->step_at, &number, sizeof number))
        state->step = number;
    return state->step_at;
}

/* ---- memory ---- */

static DtStatus new_arena(DtDeviceState *state, uint64_t bytes, DtDeviceAt *ret_at)
{
    const DtCudaDriver *d = &state->driver;
    *ret_at = (DtDeviceAt){0};
    if (bytes == 0)
        return DT_OK;
    int error = d->alloc(&ret_at->at, bytes);
    if (error == 0) {
        DT_PUSH(state->rank->memory, state->arenas, ret_at->at);
        error = d->set_bytes(ret_at->at, 0, bytes, state->stream);
    }
    return error == 0 ? DT_OK
                      : dt_status_fail(DT_EXIT_DOES_NOT_FIT, "no %llu bytes on the GPU: %s",
                                       (unsigned long long)bytes, dt_cuda_driver_error(d, error));
}

static DtStatus new_window(DtDeviceState *state, uint64_t bytes, DtDeviceAt *ret_at)
{
    *ret_at = (DtDeviceAt){0};
    if (bytes == 0)
        return DT_OK;
    const int error = state->windows->alloc(&ret_at->at, bytes);
    if (error)
        return dt_status_fail(DT_EXIT_DOES_NOT_FIT,
                              "NCCL makes no window of %llu bytes on the GPU: %s",
                              (unsigned long long)bytes, state->windows->error_string(error));
    DT_PUSH(state->rank->memory, state->lent, ret_at->at);
    good(state, state->driver.set_bytes(ret_at->at, 0, bytes, state->stream), "clear memory");
    return dt_rank_has_failed(state->rank) ? state->rank->failure : DT_OK;
}

/* Looks up NCCL's functions for windows, if --windows is given, before any window is made. */
static DtStatus open_windows(DtDeviceState *state)
{
    DtRank *rank = state->rank;
    state->windows = rank->options->windows ? DT_NEW(rank->memory, DtNcclWindows) : NULL;
    return state->windows ? dt_nccl_open_windows(rank->memory, state->windows) : DT_OK;
}

static DtStatus new_workspace(DtDeviceState *state)
{
    DtDeviceAt at;
    const DtStatus status = new_arena(state, dt_cuda_kernels_bytes(state->rank->plan), &at);
    dt_cuda_kernels_place(state->kernels, at.at);
    /* zeroed: step 0 */
    return dt_status_ok(&status) ? new_arena(state, sizeof state->step, &state->step_at) : status;
}

/* Checks that all ranks that share the GPU fit into its memory. Some of them may have allocated
 * theirs already. */
static DtStatus fits(const DtDeviceState *state, uint64_t bytes)
{
    const DtRank *rank = state->rank;
    size_t left = 0, total = 0;
    int n = 1;
    char need[32], have[32];
    state->driver.device_count(&n);
    const uint32_t sharing = (rank->local.size + (uint32_t)n - 1) / (uint32_t)n;
    if (state->driver.memory_info(&left, &total) != 0 ||
        (bytes <= left && bytes <= total / sharing))
        return DT_OK;
    const size_t most = left < total / sharing ? left : total / sharing;
    return dt_status_fail(
        DT_EXIT_DOES_NOT_FIT,
        "a rank needs %s on its GPU, which has %s for each of %u rank%s. Compile with more "
        "micro-batches, a smaller batch, or for more GPUs",
        dt_text_bytes(need, (double)bytes), dt_text_bytes(have, (double)most), sharing,
        sharing == 1 ? "" : "s");
}

/* Chooses the library or the plan's kernels for attention. Their memory is added to the rank's. */
static DtStatus choose_attention(DtDeviceState *state)
{
    DtRank *rank = state->rank;
    /* bytes that the plan's own kernels need */
    const bool compares = rank->options->record || rank->options->compare;
    const DtAttention wish = compares ? DT_ATTENTION_GENERATED : rank->options->attention;
    const char *why = NULL;
    DtStatus status =
        dt_cuda_attends_open(rank->memory, rank->plan, &state->driver, state->stream,
                             10 * state->major + state->minor, wish, &state->attends, &why);
    if (!dt_status_ok(&status))
        return status;
    const uint64_t bytes = dt_cuda_attends_bytes(state->attends);
    status = fits(state, rank->memory_bytes + bytes);
    if (!dt_status_ok(&status) && bytes > 0 && wish == DT_ATTENTION_TIMED) {
        why = dt_arena_printf(rank->memory, "with its workspace %s", status.message);
        dt_cuda_attends_close(state->attends);
        state->attends = NULL;
        status = fits(state, rank->memory_bytes);
    }
    rank->memory_bytes += dt_cuda_attends_bytes(state->attends);
    if (rank->plan->n_attentions > 0)
        rank->attention =
            state->attends && bytes > 0 ? dt_cuda_attends_name(state->attends) : "generated";
    if (why && rank->rank == 0 && dt_status_ok(&status))
        dt_text_say(stderr,
                    dt_arena_printf(rank->memory,
                                    "dtrun: note: attention by the plan's own kernels%s: %s",
                                    state->attends && bytes > 0 ? " in part" : "", why));
    return status;
}

/* Prepares the library's attention: loads the kernels that convert row statistics, and allocates
 * its workspace. */
static DtStatus prepare_attention(DtDeviceState *state)
{
    const DtPlan *plan = state->rank->plan;
    DtDeviceAt at;
    DtStatus status = DT_OK;
    for (uint32_t i = 0; state->attends && i < plan->n_sdpas && dt_status_ok(&status); i++) {
        const DtPlanSdpa *s = &plan->sdpas[i];
        DtCudaFunction *function = NULL;
        if (s->pointer[DT_SDPA_MAX] < 0)
            continue;
        status = dt_cuda_kernels_beside(state->kernels, s->kernel, DT_PLAN_STATISTIC, &function);
        dt_cuda_attends_statistic(state->attends, i, function);
    }
    if (!state->attends || !dt_status_ok(&status))
        return status;
    status = new_arena(state, dt_cuda_attends_bytes(state->attends), &at);
    dt_cuda_attends_place(state->attends, at.at);
    return status;
}

static bool is_idle(void *context)
{
    const DtDeviceState *state = context;
    /* no message here: the caller that waits reports the error */
    return state->driver.stream_query(state->stream) != DT_CUDA_NOT_READY;
}

/* Waits for the GPU; false: it failed. An exchange between GPUs may never end, and the driver would
 * then block for ever, even in copies to memory of this process. So the communicator is waited for
 * first. */
static bool is_free(DtDeviceState *state)
{
    const DtRank *rank = state->rank;
    return !rank->comm || !rank->comm_ops->wait || rank->comm_ops->wait(rank->comm, is_idle, state);
}

static bool is_done(DtDeviceState *state)
{
    return is_free(state) &&
           good(state, state->driver.stream_wait(state->stream), "do what was begun");
}

static void wait(DtDeviceState *state) { is_done(state); }

static void put(DtDeviceState *state, DtDeviceAt to, const void *from, int64_t bytes)
{
    dt_cuda_host_put(state->host, to, from, bytes);
}

static char *lend(DtDeviceState *state, int64_t bytes)
{
    return dt_cuda_host_lend(state->host, bytes);
}

static void send(DtDeviceState *state, char *lent, DtDeviceAt to, int64_t bytes)
{
    dt_cuda_host_send(state->host, lent, to, bytes);
}

static void drop(DtDeviceState *state, char *lent) { dt_cuda_host_drop(state->host, lent); }

static void note(DtDeviceState *state, uint32_t cell, DtDeviceAt from, int64_t bytes)
{
    dt_cuda_host_note(state->host, cell, from, bytes);
}

static void noted(DtDeviceState *state, uint32_t cell, void *to, int64_t bytes)
{
    dt_cuda_host_noted(state->host, cell, to, bytes);
}

static void get(DtDeviceState *state, void *to, DtDeviceAt from, int64_t bytes)
{
    if (bytes <= 0)
        return;
    memset(to, 0, (size_t)bytes); /* what the caller reads if the copy fails */
    if (is_free(state) &&
        good(state, state->driver.get(to, from.at, (size_t)bytes, state->stream), "give bytes"))
        is_done(state);
}

/* Copies between places that overlap, in pieces that are no longer than the distance of the
 * places. */
static void copy(DtDeviceState *state, DtDeviceAt to, DtDeviceAt from, int64_t bytes)
{
    const bool down = to.at < from.at;
    const uint64_t way = down ? from.at - to.at : to.at - from.at,
                   n = bytes > 0 ? (uint64_t)bytes : 0;
    const uint64_t piece = way < n ? way : n;
    for (uint64_t done = 0; piece > 0 && done < n;) {
        const uint64_t some = n - done < piece ? n - done : piece,
                       at = down ? done : n - done - some;
        good(state, state->driver.copy(to.at + at, from.at + at, (size_t)some, state->stream),
             "copy");
        done += some;
    }
}

static void zero(DtDeviceState *state, DtDeviceAt to, int64_t bytes)
{
    if (bytes > 0)
        good(state, state->driver.set_bytes(to.at, 0, (size_t)bytes, state->stream),
             "clear memory");
}

static bool run_gemm(DtDeviceState *state, uint32_t gemm, const DtDeviceAt at[DT_GEMM_OPERANDS])
{
    uint64_t there[DT_GEMM_OPERANDS];
    for (uint32_t k = 0; k < DT_GEMM_OPERANDS; k++)
        there[k] = at[k].at;
    if (!dt_cuda_products_does(state->products, gemm))
        return dt_rank_fail(state->rank, DT_EXIT_FAILED,
                            "cuBLASLt does not do product %u of the plan on this device, and this "
                            "instruction has no second form",
                            gemm);
    if (dt_cuda_products_run(state->products, gemm, there))
        return true;
    ask(state);
    return false;
}

/* Allocates memory for values inside second forms of products, if chosen forms need it. */
static bool make_room(DtDeviceState *state)
{
    DtRank *rank = state->rank;
    const DtPlan *plan = rank->plan;
    bool needs = false;
    for (uint32_t i = 0; i < plan->n_gemms; i++)
        needs = needs || (rank->second[i] && dt_forms_bytes(plan, i) > 0);
    for (uint32_t a = 0; needs && a < plan->n_arenas; a++) {
        const uint64_t bytes = (uint64_t)dt_plan_arena_bytes(plan, a, rank->stage);
        if (plan->arenas[a].kind != DT_ARENA_INSTEAD || rank->arenas[a].at)
            continue;
        const DtStatus status = new_arena(state, bytes, &rank->arenas[a]);
        if (!dt_status_ok(&status))
            return dt_rank_fail(rank, status.code,
                                "kernels that do epilogues of products need memory: %.400s",
                                status.message);
        rank->memory_bytes += bytes;
        atomic_store(&rank->slot->memory, rank->memory_bytes);
    }
    return true;
}

static bool choose(DtDeviceState *state, DtText *ret_said)
{
    const DtCudaDriver *d = &state->driver;
    char name[80] = "", gpu[160];
    int units = 0;
    d->device_name(name, sizeof name, state->device);
    d->device_attribute(&units, DT_CUDA_MULTIPROCESSORS, state->device);
    snprintf(gpu, sizeof gpu, "%s, sm_%d%d, %d multiprocessors", name, state->major, state->minor,
             units);
    return dt_cuda_attends_agree(state->rank, &state->attends, d, state->stream, gpu, ret_said) &&
           dt_cuda_products_choose(state->rank, state->products, gpu, ret_said) && make_room(state);
}

/* ---- graphs ---- */

static bool capture(DtDeviceState *state)
{
    return good(state, state->driver.capture_begin(state->stream, DT_CUDA_CAPTURE_OWN),
                "begin a graph");
}

static bool captured(DtDeviceState *state, uint32_t *ret_graph)
{
    const DtCudaDriver *d = &state->driver;
    DtCudaGraph *graph = NULL;
    DtCudaGraphRun *run = NULL;
    const bool ended = good(state, d->capture_end(state->stream, &graph), "capture a graph") &&
                       good(state, d->graph_make(&run, graph, 0), "make a graph");
    if (graph)
        d->graph_free(graph);
    if (!ended)
        return false;
    *ret_graph = state->graphs.n;
    DT_PUSH(state->rank->memory, state->graphs, run);
    return true;
}

static bool replay(DtDeviceState *state, uint32_t graph)
{
    return good(state, state->driver.graph_run(state->graphs.at[graph], state->stream),
                "start a graph");
}

/* ---- how far it is (position.h) ---- */

/* The start of the page with the slot's progress words, which never cross a page boundary;
 * cuMemHostRegister needs it. */
static char *page_of_marks(const DtDeviceState *state)
{
    const uintptr_t at = (uintptr_t)state->rank->slot->marks;
    return (char *)(at - at % dt_page_bytes());
}

/* Whether the driver can write words in the order of a stream: on some systems this is switched
 * off. */
static bool writes_words(const DtDeviceState *state, uint64_t at)
{
    const DtCudaDriver *d = &state->driver;
    return d->write_word(state->stream, at, 0, 0) == 0 && d->stream_wait(state->stream) == 0;
}

/* Lets the device write its progress words into the rank's slot. If this fails, only the message
 * about a fault is less precise. */
static void map_marks(DtDeviceState *state)
{
    const DtCudaDriver *d = &state->driver;
    char *page = page_of_marks(state);
    uint64_t at = 0;
    if (d->host_map(page, dt_page_bytes(), DT_CUDA_HOST_SEEN) != 0)
        return;
    const uint64_t offset = (uint64_t)((char *)state->rank->slot->marks - page);
    if (d->host_address(&at, page, 0) == 0 && at != 0 && writes_words(state, at + offset))
        state->marks = at + offset;
    else
        d->host_unmap(page);
}

static void mark(DtDeviceState *state, uint32_t which, uint32_t value)
{
    if (state->marks)
        good(state,
             state->driver.write_word(state->stream, state->marks + which * sizeof value, value, 0),
             "write how far it is");
}

/* ---- times ---- */

static void stamp(DtDeviceState *state, uint32_t number)
{
    const DtCudaDriver *d = &state->driver;
    if (!state->stamps)
        state->stamps = DT_NEW_ARRAY(state->rank->memory, DtCudaEvent *, DT_DEVICE_STAMPS);
    if (!state->stamps[number] &&
        !good(state, d->event_new(&state->stamps[number], 0), "make an event"))
        return;
    good(state, d->event_record(state->stamps[number], state->stream), "record an event");
}

/* Sets ret_seconds to the times of the stamps. Each is measured from the previous stamp: the driver
 * returns times as floats, which are precise only over short spans. */
static void stamps(DtDeviceState *state, uint32_t n, double *ret_seconds)
{
    float ms = 0;
    for (uint32_t i = 0; i < n; i++)
        ret_seconds[i] = 0;
    if (!is_done(state))
        return;
    for (uint32_t i = 1; i < n; i++) {
        good(state, state->driver.event_elapsed(&ms, state->stamps[i - 1], state->stamps[i]),
             "tell a time");
        ret_seconds[i] = ret_seconds[i - 1] + (double)ms * 1e-3;
    }
}

/* ---- begin and end ---- */

static DtStatus open_cuda(DtRank *rank, DtDeviceState **ret_state)
{
    DtDeviceState *state = DT_NEW(rank->memory, DtDeviceState);
    state->rank = rank;
    DtStatus status = dt_cuda_driver_open(rank->memory, &state->driver);
    if (!dt_status_ok(&status))
        return status;
    *ret_state = state;
    rank->memory_bytes += dt_cuda_products_bytes(rank->plan) + dt_cuda_kernels_bytes(rank->plan);
    status = choose_device(state);
    if (dt_status_ok(&status))
        status = open_windows(state);
    if (dt_status_ok(&status))
        status = choose_attention(state);
    if (dt_status_ok(&status))
        status = dt_cuda_kernels_open(rank, &state->driver, state->stream,
                                      (DtCudaTarget){state->device, state->major, state->minor},
                                      &state->kernels);
    if (dt_status_ok(&status))
        status = prepare_attention(state);
    if (dt_status_ok(&status))
        status = new_workspace(state);
    if (dt_status_ok(&status))
        status = dt_cuda_products_open(rank->memory, rank->plan, &state->driver, state->stream,
                                       &state->products);
    rank->gemm_library = "cublaslt";
    if (dt_status_ok(&status))
        status = dt_cuda_host_open(rank, &state->driver, state->stream, dt_device_reads(rank),
                                   &state->host);
    if (dt_status_ok(&status))
        map_marks(state);
    return status;
}

static void close_cuda(DtDeviceState *state)
{
    const DtCudaDriver *d = &state->driver;
    if (state->stream)
        d->stream_wait(state->stream); /* waits: no work may still use the memory that is freed
                                        * next */
    if (state->products)
        dt_cuda_products_close(state->products);
    if (state->host)
        dt_cuda_host_close(state->host);
    dt_cuda_attends_close(state->attends);
    if (state->kernels)
        dt_cuda_kernels_close(state->kernels);
    for (uint32_t i = 0; i < state->graphs.n; i++)
        d->graph_run_free(state->graphs.at[i]);
    for (uint32_t i = 0; i < state->arenas.n; i++)
        d->free(state->arenas.at[i]);
    for (uint32_t i = 0; i < state->lent.n; i++)
        state->windows->free(state->lent.at[i]);
    for (uint32_t i = 0; state->stamps && i < DT_DEVICE_STAMPS; i++)
        if (state->stamps[i])
            d->event_free(state->stamps[i]);
    if (state->marks)
        d->host_unmap(page_of_marks(state));
    if (state->stream)
        d->stream_free(state->stream);
    if (state->is_retained)
        d->release(state->device);
}

DtCudaWork dt_device_cuda_work(const DtRank *rank)
{
    const DtDeviceState *state = rank->device;
    return (DtCudaWork){.driver = &state->driver,
                        .stream = state->stream,
                        .device = state->number,
                        .windows = state->windows};
}

const DtDeviceOps dt_device_cuda = {.name = "cuda",
                                    .open = open_cuda,
                                    .close = close_cuda,
                                    .arena = new_arena,
                                    .window = new_window,
                                    .kernel = run_kernel,
                                    .gemm = run_gemm,
                                    .step = put_step,
                                    .choose = choose,
                                    .copy = copy,
                                    .zero = zero,
                                    .put = put,
                                    .get = get,
                                    .lend = lend,
                                    .send = send,
                                    .drop = drop,
                                    .note = note,
                                    .noted = noted,
                                    .wait = wait,
                                    .capture = capture,
                                    .captured = captured,
                                    .replay = replay,
                                    .mark = mark,
                                    .stamp = stamp,
                                    .stamps = stamps};
