/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes attention on all ranks: what a checkpoint has; without one, whoever is faster on
 * rank 0's GPU, the library or the plan's own kernels. To find that, both run the kernels'
 * instructions, before the first step, on memory of its own that is given back, so that nothing of
 * the run is touched. Either all kernels that the library does are the library's or none is: what
 * counts is the sum of their times. */
#include "runtime/cuda_attend.h"

#include "base/hash.h"
#include "base/hostcache.h"
#include "runtime/cuda_choose.h"

#include <string.h>

enum { MOST_POINTERS = 256, MOST_INTEGERS = 256, PLACED = 256 };

typedef struct Kept {
    uint64_t library;
} Kept;

typedef struct Bench {
    DtRank *rank;
    DtCudaAttends *attends;
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    DtCudaEvent *from, *to;
    uint64_t memory;
    const DtPlanInst *inst; /* the instructions that are timed */
    DtDeviceAt pointers[MOST_POINTERS];
    int64_t integers[MOST_INTEGERS];
    uint32_t n_pointers;
} Bench;

typedef struct Times {
    double library, kernels;
} Times;

/* ---- one kernel ---- */

static const DtPlanInst *inst_of(const DtPlan *plan, uint32_t kernel)
{
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (plan->insts[i].kind == DT_INST_KERNEL && plan->insts[i].ref == kernel)
            return &plan->insts[i];
    return NULL;
}

/* Allocates memory for everything that the instruction accesses. */
static bool open_bench(Bench *b)
{
    const DtPlanArg *args = &b->rank->plan->args[b->inst->first_arg];
    uint64_t all = 0;
    uint32_t n_integers = 0;
    b->n_pointers = 0;
    for (uint32_t i = 0; i + b->inst->guards < b->inst->n_args; i++) {
        if (args[i].kind != DT_ARG_ADDRESS) {
            b->integers[n_integers++] = b->rank->arg_base[b->inst->first_arg + i];
            continue;
        }
        b->pointers[b->n_pointers++].at = all;
        all += ((uint64_t)args[i].bytes + PLACED - 1) / PLACED * PLACED;
    }
    if (b->driver->alloc(&b->memory, all) != 0) {
        b->memory = 0;
        return false;
    }
    for (uint32_t i = 0; i < b->n_pointers; i++)
        b->pointers[i].at += b->memory;
    return b->driver->set_bytes(b->memory, DT_CUDA_FILL, all, b->stream) == 0;
}

static void close_bench(Bench *b)
{
    b->driver->stream_wait(b->stream);
    if (b->memory)
        b->driver->free(b->memory);
    b->memory = 0;
}

static bool run(void *context)
{
    Bench *b = context;
    b->rank->device_ops->kernel(b->rank->device, b->inst, b->n_pointers, b->pointers, b->integers);
    return !dt_rank_has_failed(b->rank);
}

static double time_one(Bench *b, bool library)
{
    dt_cuda_attends_pause(b->attends, !library);
    const double seconds = dt_cuda_bench_time(b->driver, b->stream, b->from, b->to, run, b);
    dt_cuda_attends_pause(b->attends, false);
    atomic_fetch_add(&b->rank->slot->progress, 1);
    return seconds;
}

/* ---- all kernels ---- */

/* Times the library's attention and the plan's own kernels. False: there is not enough memory, or
 * the GPU cannot run them. */
static bool time_all(Bench *b, Times *ret_times)
{
    const DtPlan *plan = b->rank->plan;
    bool good = b->driver->event_new(&b->from, 0) == 0 && b->driver->event_new(&b->to, 0) == 0;
    *ret_times = (Times){0};
    for (uint32_t i = 0; good && i < plan->n_sdpas; i++) {
        b->inst = inst_of(plan, plan->sdpas[i].kernel);
        if (!b->inst || !dt_cuda_attends_has(b->attends, plan->sdpas[i].kernel))
            continue;
        good = open_bench(b);
        const double library = good ? time_one(b, true) : -1,
                     kernels = library >= 0 ? time_one(b, false) : -1;
        close_bench(b);
        good = library >= 0 && kernels >= 0;
        ret_times->library += library;
        ret_times->kernels += kernels;
    }
    if (b->from)
        b->driver->event_free(b->from);
    if (b->to)
        b->driver->event_free(b->to);
    return good;
}

/* Sets ret_key to a digest of everything that the times depend on: GPU, library, and the kernels
 * with their records. */
static void key_of(const Bench *b, const char *gpu, uint8_t ret_key[DT_DIGEST_BYTES])
{
    const DtPlan *plan = b->rank->plan;
    const char *library = dt_cuda_attends_name(b->attends);
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_add(&digest, "attention", 10);
    dt_digest_add(&digest, gpu, strlen(gpu) + 1);
    dt_digest_add(&digest, library, strlen(library) + 1);
    for (uint32_t i = 0; i < plan->n_sdpas; i++) {
        DtPlanSdpa record = plan->sdpas[i];
        const char *name = dt_plan_str(plan, plan->kernels[record.kernel].name);
        const bool is_there = dt_cuda_attends_has(b->attends, record.kernel);
        dt_digest_add(&digest, name, strlen(name) + 1);
        dt_digest_add(&digest, &plan->launches[record.kernel],
                      sizeof plan->launches[record.kernel]);
        dt_digest_add(&digest, &is_there, sizeof is_there);
        record.kernel = 0;
        dt_digest_add(&digest, &record, sizeof record);
    }
    dt_digest_end(&digest, ret_key);
}

static bool find_kept(DtArena *memory, int cache, const uint8_t key[DT_DIGEST_BYTES],
                      bool *ret_library)
{
    const char *bytes;
    size_t len;
    Kept kept;
    if (!dt_hostcache_find(memory, cache, key, &bytes, &len) || len != sizeof kept)
        return false;
    memcpy(&kept, bytes, sizeof kept);
    *ret_library = kept.library == 1;
    return kept.library <= 1;
}

static bool choose(Bench *b, DtArena *memory, int cache, const char *gpu, DtText *ret_said)
{
    static const char *const names[] = {"the plan's own kernels", "the library"};
    uint8_t key[DT_DIGEST_BYTES];
    bool library = true;
    Times times;
    key_of(b, gpu, key);
    if (find_kept(memory, cache, key, &library)) {
        dt_text_printf(ret_said, "attention: by %s; kept from an earlier run\n", names[library]);
        return library;
    }
    if (!time_all(b, &times)) {
        dt_text_printf(ret_said, "attention: by the library; the GPU has no room to time it\n");
        return true;
    }
    library = times.kernels >= DT_CUDA_MARGIN * times.library;
    dt_hostcache_keep(memory, cache, key, &(Kept){library}, sizeof(Kept));
    dt_text_printf(ret_said,
                   "attention: by %s; %.1f us by the library, %.1f us by the plan's own kernels\n",
                   names[library], times.library * 1e6, times.kernels * 1e6);
    return library;
}

static bool is_faster(Bench *b, const char *gpu, DtText *ret_said)
{
    DtArena *memory = dt_arena_new();
    const char *why;
    int cache = -1;
    dt_hostcache_open(memory, &cache, &why);
    const bool library = choose(b, memory, cache, gpu, ret_said);
    dt_hostcache_close(cache);
    dt_arena_free(memory);
    return library;
}

/* ---- all ranks ---- */

static void generate(DtRank *rank, DtCudaAttends **attends)
{
    dt_cuda_attends_close(*attends);
    *attends = NULL;
    rank->attention = "generated";
}

/* `--attention timed --resume`: the user asks for times, whatever the checkpoint has. A restart
 * that loads a checkpoint which this run has saved keeps what that has. */
static bool times_anew(const DtRank *rank)
{
    const DtRunOptions *options = rank->options;
    return options->attention == DT_ATTENTION_TIMED && options->attention_given &&
           !options->algorithms_first &&
           (rank->shared->attempt == 0 || !atomic_load(&rank->shared->has_saved));
}

/* Takes the plan's own kernels if the checkpoint that the run continues from has them, unless
 * --attention says otherwise. */
static void keep(DtRank *rank, DtCudaAttends **attends)
{
    const char *saved = rank->saved_attention;
    if (saved && rank->attention && strcmp(saved, "generated") == 0 && !times_anew(rank) &&
        strcmp(rank->attention, "generated") != 0 && rank->options->attention == DT_ATTENTION_TIMED)
        generate(rank, attends);
}

/* Prints that attention is now computed otherwise than in the checkpoint: its library is another
 * one or missing, or the user asks for something else. */
static void note_change(DtRank *rank)
{
    const char *saved = rank->saved_attention;
    if (!saved || !rank->attention || strcmp(saved, rank->attention) == 0)
        return;
    const bool library = strcmp(rank->attention, "generated") != 0;
    if (rank->rank == 0)
        dt_text_say(stderr, dt_arena_printf(
                                rank->memory,
                                "dtrun: note: attention is computed by %s (%s), and was by %s "
                                "when the checkpoint was saved: it rounds otherwise than before",
                                library ? "the library" : "the plan's own kernels", rank->attention,
                                saved));
}

/* Returns a hash of the library's version and of the kernels that it replaces on this rank. */
static uint64_t hash_of(const DtRank *rank, const DtCudaAttends *attends)
{
    const DtPlan *plan = rank->plan;
    uint64_t hash = dt_hash_text(rank->attention, 1);
    for (uint32_t i = 0; i < plan->n_sdpas; i++)
        hash = dt_hash_text(dt_cuda_attends_has(attends, plan->sdpas[i].kernel) ? "library" : "",
                            hash + i);
    return hash;
}

/* Attention of a library rounds differently from the plan's kernels. So either all ranks use it,
 * for the same kernels, or none does, which is an error if --attention asked for it. False: the run
 * must end. */
static bool agree(DtRank *rank, DtCudaAttends **attends)
{
    if (rank->n_ranks == 1 || rank->plan->n_sdpas == 0 || !rank->attention)
        return true;
    atomic_store(&rank->slot->attention, hash_of(rank, *attends));
    if (!rank->comm_ops->barrier(rank->comm, &rank->world))
        return false;
    uint32_t other = 1;
    const uint64_t first = atomic_load(&dt_shared_slot(rank->plan, rank->shared, 0)->attention);
    while (other < rank->n_ranks &&
           atomic_load(&dt_shared_slot(rank->plan, rank->shared, other)->attention) == first)
        other++;
    if (other == rank->n_ranks || rank->options->attention == DT_ATTENTION_CUDNN)
        return true;
    if (rank->rank == 0)
        dt_text_say(stderr,
                    dt_arena_printf(
                        rank->memory,
                        "dtrun: note: attention by the plan's own kernels on all ranks: what rank "
                        "%u would use is not what rank 0 would, %s, or not for the same kernels",
                        other, rank->attention));
    generate(rank, attends);
    return true;
}

/* Times the library and the plan's own kernels on rank 0, which decides for all, where nothing else
 * says who computes attention: neither an option nor a checkpoint (which counts unless --attention
 * timed is given), whose run had the library where it does not name one. False: the run ends. */
static bool time_both(Bench *b, DtCudaAttends **attends, const char *gpu, DtText *ret_said)
{
    DtRank *rank = b->rank;
    const DtRunOptions *options = rank->options;
    uint64_t library = 1;
    if (!rank->attention || strcmp(rank->attention, "generated") == 0 ||
        (rank->resumes && !times_anew(rank)) || options->attention != DT_ATTENTION_TIMED ||
        options->algorithms_first)
        return true;
    if (rank->rank == 0)
        library = is_faster(b, gpu, ret_said);
    if (dt_rank_has_failed(rank) || !dt_algorithms_tell(rank, 0, &library, sizeof library))
        return false;
    if (!library)
        generate(rank, attends);
    return true;
}

bool dt_cuda_attends_agree(DtRank *rank, DtCudaAttends **attends, const DtCudaDriver *driver,
                           DtCudaStream *stream, const char *gpu, DtText *ret_said)
{
    keep(rank, attends);
    if (!agree(rank, attends))
        return false;
    Bench bench = {.rank = rank, .attends = *attends, .driver = driver, .stream = stream};
    if (!time_both(&bench, attends, gpu, ret_said))
        return false;
    note_change(rank);
    return true;
}
