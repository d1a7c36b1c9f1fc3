/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a rank out of a plan: its place in the mesh, its memory, its machine code.
 *
 * Every arena lies by itself between two inaccessible pages, so that a kernel that runs over an
 * end stops at once. Shared arenas are pieces of the ranks' common mapping, mapped here for this
 * rank and for all its peers. A device with memory of its own makes arenas there. */
#include "base/page.h"
#include "plan/stages.h"
#include "runtime/blocks.h"
#include "runtime/device.h"
#include "runtime/readback.h"
#include "runtime/forms.h"
#include "runtime/generate.h"
#include "runtime/graphs.h"
#include "runtime/position.h"
#include "runtime/memory.h"
#include "runtime/cluster.h"
#include "runtime/rank.h"
#include "runtime/reading.h"
#include "runtime/same_library.h"
#include "runtime/saver.h"
#include "runtime/windows.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20 };

/* ---- memory ---- */

/* Maps zeroed memory of that size between two guard pages; if fd >= 0, memory of the file from
 * `offset` on. */
static char *map_arena(DtRank *rank, uint64_t bytes, int fd, uint64_t offset)
{
    const uint64_t inner = dt_page_up(bytes), page = dt_page_bytes();
    char *outer =
        mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (outer == MAP_FAILED)
        return NULL;
    rank->maps[rank->n_maps++] = (struct DtRankMap){outer, inner + 2 * page};
    if (inner == 0)
        return outer + page;
    int flags = MAP_FIXED | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    char *at =
        mmap(outer + page, inner, PROT_READ | PROT_WRITE, flags, fd, fd >= 0 ? (off_t)offset : 0);
    if (at == MAP_FAILED)
        return NULL;
    if (fd < 0 && inner >= 2 * HUGE)
        madvise(at, inner, MADV_HUGEPAGE); /* only a hint: it may fail */
    return at;
}

/* Returns the bytes of those arenas of a rank of the stage that grow with the rows of generated
 * text. */
static uint64_t bytes_of_rows(const DtRunOptions *options, const DtPlan *plan, uint32_t stage)
{
    uint64_t bytes = 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        if (dt_plan_grows_with_rows(plan->arenas[a].kind))
            bytes += dt_rank_arena(options, plan, a, stage);
    return bytes;
}

/* Checks that all ranks fit. A rank that gets more than the machine has, or than this container may
 * use, would be killed later. */
DtStatus dt_load_fits(const DtRunOptions *options, const DtPlan *plan)
{
    const DtDeviceOps *device;
    const DtCommOps *comm;
    DtStatus status = dt_load_choose(options, plan, &device, &comm);
    if (!dt_status_ok(&status) || device->arena) /* such a device checks its own memory */
        return status;
    bool contained = false;
    uint64_t machine = dt_memory_limit("", &contained);
    uint64_t left = machine, most = 0, of_rows = 0;
    const uint32_t first = dt_cluster_first(options, plan),
                   n_ranks = dt_cluster_ranks(options, plan);
    const int64_t rows = dt_generatecached_rows(plan);
    char need[32], have[32], fewer[80] = "";
    bool fits = true;
    for (uint32_t r = first; r < first + n_ranks; r++) {
        const uint32_t stage = dt_rank_stage(plan, r);
        const uint64_t bytes = dt_memory_arenas(options, plan, stage);
        fits = fits && bytes <= left;
        left -= fits ? bytes : 0;
        of_rows = bytes > most ? bytes_of_rows(options, plan, stage) : of_rows;
        most = bytes > most ? bytes : most;
    }
    if (fits)
        return DT_OK;
    if (rows > 1 && of_rows > most / 2)
        snprintf(fewer, sizeof fewer, "fewer texts at a time than `rows = %lld`, ",
                 (long long)rows);
    return dt_status_fail(DT_EXIT_DOES_NOT_FIT,
                          "%u ranks need %s each; this %s %s. Compile with %smore micro-batches, a "
                          "smaller batch, or run on more machines",
                          n_ranks, dt_text_bytes(need, (double)most),
                          contained ? "container (control group) may use" : "machine has",
                          dt_text_bytes(have, (double)machine), fewer);
}

static DtStatus load_arenas(DtRank *rank, int shared_fd)
{
    const DtPlan *plan = rank->plan;
    DtSharedLayout layout;
    dt_shared_layout(plan, &layout);
    DtStatus status = DT_OK;
    rank->arenas = DT_NEW_ARRAY(rank->memory, DtDeviceAt, plan->n_arenas + 1);
    rank->peer_arenas =
        DT_NEW_ARRAY(rank->memory, char *, (size_t)plan->n_arenas * rank->n_ranks + 1);
    rank->maps = DT_NEW_ARRAY(rank->memory, struct DtRankMap,
                              (size_t)plan->n_arenas * (rank->n_ranks + 1) + 1);
    for (uint32_t a = 0; a < plan->n_arenas && rank->device_ops->arena && dt_status_ok(&status);
         a++) {
        const bool is_window = rank->options->windows && dt_windows_touch(plan, a);
        status = (is_window ? rank->device_ops->window : rank->device_ops->arena)(
            rank->device, dt_rank_arena(rank->options, plan, a, rank->stage), &rank->arenas[a]);
    }
    if (rank->device_ops->arena)
        return status;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        for (uint32_t r = 0; r < rank->n_ranks; r++) {
            const bool shared = plan->arenas[a].shared != 0 && rank->device_ops->is_host;
            if (r != rank->rank && !shared)
                continue;
            uint64_t bytes = dt_rank_arena(rank->options, plan, a, dt_rank_stage(plan, r));
            char *at = map_arena(rank, bytes, shared ? shared_fd : -1,
                                 layout.arenas + r * layout.rank_bytes + layout.arena[a]);
            if (at == NULL)
                return dt_status_fail(
                    DT_EXIT_DOES_NOT_FIT, "rank %u: no %lld bytes for arena `%s`: %s", rank->rank,
                    (long long)bytes, dt_plan_str(plan, plan->arenas[a].name), strerror(errno));
            if (shared)
                rank->peer_arenas[(size_t)r * plan->n_arenas + a] = at;
            if (r == rank->rank)
                rank->arenas[a] = rank->device_ops->address ? rank->device_ops->address(at)
                                                            : dt_device_at(at);
        }
    return DT_OK;
}

bool dt_load_instead(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t a = 0; a < plan->n_arenas; a++) {
        const uint64_t bytes = (uint64_t)dt_plan_arena_bytes(plan, a, rank->stage);
        DtStatus status = DT_OK;
        if (plan->arenas[a].kind != DT_ARENA_INSTEAD || bytes == 0 ||
            dt_rank_arena(rank->options, plan, a, rank->stage) > 0)
            continue;
        if (rank->device_ops->arena)
            status = rank->device_ops->arena(rank->device, bytes, &rank->arenas[a]);
        else
            rank->arenas[a] = dt_device_at(map_arena(rank, bytes, -1, 0));
        if (!dt_status_ok(&status) || rank->arenas[a].at == 0)
            return dt_rank_fail(rank, DT_EXIT_DOES_NOT_FIT,
                                "kernels that do epilogues of products need %llu bytes",
                                (unsigned long long)bytes);
        rank->memory_bytes += bytes;
        atomic_store(&rank->slot->memory, rank->memory_bytes);
    }
    return true;
}

/* ---- the rank ---- */

static void place_in_mesh(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    dt_rank_coordinates(plan, rank->rank, rank->coord);
    rank->stage = dt_rank_stage(plan, rank->rank);
    rank->groups = DT_NEW_ARRAY(rank->memory, DtRankGroup, plan->n_groups + 1);
    for (uint32_t g = 0; g < plan->n_groups; g++)
        rank->groups[g] = dt_rank_group(plan, rank->memory, rank->coord, &plan->groups[g]);
    rank->world = dt_rank_group(plan, rank->memory, rank->coord,
                                &(DtPlanGroup){.mask = (1u << plan->n_mesh) - 1});
    rank->local = rank->world;
    if (dt_cluster_several(rank->options)) {
        const uint32_t first = dt_cluster_first(rank->options, plan),
                       n = dt_cluster_ranks(rank->options, plan);
        uint32_t *ranks = DT_NEW_ARRAY(rank->memory, uint32_t, n);
        for (uint32_t i = 0; i < n; i++)
            ranks[i] = first + i;
        rank->local = (DtRankGroup){.size = n, .me = rank->rank - first, .ranks = ranks};
    }
    rank->blocks = dt_blocks_resolve(rank);
    rank->arg_base = DT_NEW_ARRAY(rank->memory, int64_t, plan->n_args + 1);
    for (uint32_t i = 0; i < plan->n_args; i++) {
        const DtPlanArg *arg = &plan->args[i];
        rank->arg_base[i] = arg->base;
        for (int c = 0; c < DT_PLAN_COORDS; c++)
            if (arg->coord[c] != 0)
                rank->arg_base[i] += arg->coord[c] * rank->coord[arg->coord_axis[c]];
    }
}

/* The communicator that the options name; if they name none: NCCL if each rank has a GPU of its
 * own, else `shm` on one host, and UCX between hosts. NULL: there is none of that name. */
static const DtCommOps *named_comm(const DtRunOptions *options, const DtPlan *plan, bool is_gpu)
{
    static const DtCommOps *const all[] = {&dt_comm_shm, &dt_comm_nccl, &dt_comm_ucx,
                                           &dt_comm_tcp};
    const bool has_gpus = is_gpu && !options->share_gpu && plan->meta->n_ranks > 1;
    for (size_t i = 0; options->comm && i < DT_COUNT(all); i++)
        if (strcmp(options->comm, all[i]->name) == 0)
            return all[i];
    if (options->comm)
        return NULL;
    return has_gpus ? &dt_comm_nccl : dt_cluster_several(options) ? &dt_comm_ucx : &dt_comm_shm;
}

/* Chooses the communicator, and checks that it suits the device and the number of hosts. */
static DtStatus choose_comm(const DtRunOptions *options, const DtPlan *plan,
                            const DtDeviceOps *device, const DtCommOps **ret_comm)
{
    const bool is_gpu = device == &dt_device_cuda, several = dt_cluster_several(options);
    const DtCommOps *comm = named_comm(options, plan, is_gpu);
    *ret_comm = comm ? comm : &dt_comm_shm;
    if (!comm)
        return dt_status_fail(DT_EXIT_USAGE,
                              "this program has no communicator `%.60s`, only `shm`; `nccl`, "
                              "between GPUs; and `ucx` and `tcp`, between processors of "
                              "several hosts",
                              options->comm);
    if (several && (device == &dt_device_apart || (is_gpu && comm != &dt_comm_nccl)))
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--nodes %lld: ranks of several machines are on processors, or have a GPU each and "
            "talk by NCCL; those on shared GPUs, and on device `%s`, talk through memory of one "
            "machine",
            (long long)options->nodes, device->name);
    if (comm == &dt_comm_nccl && !is_gpu)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--comm nccl is for GPUs, and this plan runs on device `%s`",
                              device->name);
    if (several && comm == &dt_comm_shm)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--comm shm is for ranks of one machine, and --nodes says %lld",
                              (long long)options->nodes);
    if ((comm == &dt_comm_ucx || comm == &dt_comm_tcp) && (!several || is_gpu))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--comm %s is for ranks on processors of several machines: --nodes",
                              comm->name);
    return DT_OK;
}

DtStatus dt_load_choose(const DtRunOptions *options, const DtPlan *plan,
                        const DtDeviceOps **ret_device, const DtCommOps **ret_comm)
{
    static const DtDeviceOps *const devices[] = {&dt_device_cpu, &dt_device_cuda, &dt_device_apart};
    *ret_device = options->device ? NULL : devices[plan->n_launches > 0];
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (options->device && strcmp(options->device, devices[i]->name) == 0)
            *ret_device = devices[i];
    if (!*ret_device)
        return dt_status_fail(DT_EXIT_USAGE,
                              "this program has no device `%.60s`, only `cpu`, `cuda` and, for "
                              "tests, `apart`: the CPU "
                              "with memory of its own",
                              options->device);
    if ((*ret_device == &dt_device_cuda) != (plan->n_launches > 0) && plan->n_kernels > 0)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has code for %s, and none for device `%s`: compile it with --target=%s",
            dt_plan_str(plan, plan->meta->target), (*ret_device)->name,
            plan->n_launches ? "cpu" : "sm_90a");
    if (plan->meta->tf32 && *ret_device != &dt_device_cuda)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan's products are in tf32 (`matmul = tf32`), and device `%s` has none: compile "
            "the program without",
            (*ret_device)->name);
    if (options->share_gpu && !(*ret_device)->arena)
        return dt_status_fail(DT_EXIT_USAGE, "--share-gpu says nothing of device `%s`",
                              (*ret_device)->name);
    if (options->algorithms_first && !(*ret_device)->choose)
        return dt_status_fail(DT_EXIT_USAGE, "--algorithms says nothing of device `%s`",
                              (*ret_device)->name);
    if ((*ret_device)->arena && options->gemm != DT_GEMM_DEFAULT)
        return dt_status_fail(
            DT_EXIT_USAGE, "--gemm chooses a library of the processor, and device `%s` has its own",
            (*ret_device)->name);
    if (*ret_device != &dt_device_cuda && options->attention != DT_ATTENTION_TIMED)
        return dt_status_fail(DT_EXIT_USAGE, "--attention says nothing of device `%s`",
                              (*ret_device)->name);
    if (options->rebuild && strstr(dt_plan_str(plan, plan->meta->target), "interpreted"))
        return dt_status_fail(DT_EXIT_USAGE, "--rebuild compiles kernels from their text, and this "
                              "plan's are interpreted: compile the program for another target");
    if ((*ret_device)->arena && *ret_device != &dt_device_cuda && options->rebuild)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--rebuild compiles kernels for this processor, and device `%s` has its "
            "own: compile the program again",
            (*ret_device)->name);
    DtStatus status = dt_graphs_check(options, *ret_device);
    if (dt_status_ok(&status))
        status = choose_comm(options, plan, *ret_device, ret_comm);
    if (dt_status_ok(&status) && options->windows && *ret_comm != &dt_comm_nccl)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--windows is for ranks that talk by NCCL, and those of this run %s",
                              plan->meta->n_ranks > 1 ? "talk by `shm`" : "are one");
    return status;
}

static DtStatus load_parts(DtRank *rank, int shared_fd)
{
    DtStatus status = dt_shared_map(rank->plan, shared_fd, &rank->shared);
    if (!dt_status_ok(&status))
        return status;
    /* from here on failures are reported in the slot */
    rank->slot = dt_shared_slot(rank->plan, rank->shared, rank->rank);
    atomic_store(&rank->slot->inst, UINT32_MAX);
    atomic_store(&rank->slot->waits_for, UINT32_MAX);
    atomic_store(&rank->slot->pid, (int32_t)getpid());
    if (gethostname(rank->slot->host, sizeof rank->slot->host - 1) != 0)
        rank->slot->host[0] = '\0';
    atomic_store(&rank->slot->phase, DT_PHASE_LOADING);
    place_in_mesh(rank);
    status = dt_load_choose(rank->options, rank->plan, &rank->device_ops, &rank->comm_ops);
    if (dt_status_ok(&status))
        status = dt_settings_apply(rank->options, rank->plan, &rank->meta, &rank->settings);
    rank->ramp = dt_ramp_open(&rank->meta);
    if (rank->options->trial) { /* its steps take the batch, as the interpreter's do */
        rank->ramp.from = rank->ramp.batch;
        rank->ramp.by = 0;
    }
    if (dt_status_ok(&status))
        status = dt_load_fits(rank->options, rank->plan);
    rank->memory_bytes = dt_memory_arenas(rank->options, rank->plan, rank->stage);
    if (dt_status_ok(&status) && rank->comm_ops->memory)
        rank->memory_bytes += rank->comm_ops->memory(rank);
    if (dt_status_ok(&status))
        status = rank->device_ops->open(rank, &rank->device);
    dt_position_open(rank);
    if (dt_status_ok(&status))
        status = load_arenas(rank, shared_fd);
    if (dt_status_ok(&status)) {
        rank->lending = dt_device_lending_new(rank);
        dt_readback_open(rank);
        dt_reading_open(rank);
    }
    if (dt_status_ok(&status))
        status = rank->comm_ops->open(rank, &rank->comm);
    if (dt_status_ok(&status))
        atomic_store(&rank->slot->memory, rank->memory_bytes);
    return dt_status_ok(&status) ? dt_samelibrary_check(rank) : status;
}

DtStatus dt_load_rank(const DtRunOptions *options, const DtPlan *plan, uint32_t number,
                      int shared_fd, DtRank *ret_rank)
{
    DtRank *rank = ret_rank;
    *rank = (DtRank){.options = options,
                     .plan = plan,
                     .rank = number,
                     .n_ranks = plan->meta->n_ranks,
                     .memory = dt_arena_new(),
                     .failure = DT_OK};
    rank->plan = dt_stages_expand(rank->memory, plan);
    rank->usual_ns = DT_NEW_ARRAY(rank->memory, uint64_t, plan->n_insts + 1);
    rank->readers = DT_NEW_ARRAY(rank->memory, DtData *, plan->n_readers + 1);
    dt_exec_open(rank);
    dt_forms_open(rank);
    rank->shared_fd = shared_fd;
    DtStatus status = load_parts(rank, shared_fd);
    if (!dt_status_ok(&status)) {
        dt_rank_fail_status(rank, &status);
        dt_load_close(rank);
    }
    return status;
}

void dt_load_close(DtRank *rank)
{
    for (uint32_t i = 0; i < rank->plan->n_readers; i++)
        if (rank->readers[i])
            dt_data_close(rank->readers[i]);
    if (rank->schedstat > 0)
        close(rank->schedstat);
    dt_saver_close(rank);
    if (rank->comm)
        rank->comm_ops->close(rank->comm);
    if (rank->device)
        rank->device_ops->close(rank->device);
    for (uint32_t i = 0; i < rank->n_maps; i++)
        munmap(rank->maps[i].at, rank->maps[i].len);
    if (rank->shared)
        dt_shared_unmap(rank->plan, rank->shared);
    DtArena *memory = rank->memory;
    const DtStatus failure = rank->failure;
    *rank = (DtRank){.failure = failure, .has_failed = !dt_status_ok(&failure)};
    dt_arena_free(memory);
}
