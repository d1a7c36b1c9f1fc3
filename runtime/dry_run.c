/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry_run.h"

#include "base/file.h"
#include "runtime/cluster.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/rank.h"
#include "runtime/spread.h"

#include <string.h>
#include <unistd.h>

/* ---- groups of the fastest axis ---- */

/* The last mesh axis along which there is more than one rank; 1: there is none. Neighbouring ranks
 * differ in it. */
static int64_t fastest(const DtPlan *plan, const char **ret_name)
{
    for (uint32_t m = plan->n_mesh; m-- > 0;)
        if (plan->mesh[m].size > 1) {
            *ret_name = dt_plan_str(plan, plan->mesh[m].name);
            return plan->mesh[m].size;
        }
    return 1;
}

uint32_t dt_dryrun_torn(const DtRunOptions *options, const DtPlan *plan)
{
    const char *name;
    const uint32_t size = (uint32_t)fastest(plan, &name), ranks = plan->meta->n_ranks,
                   nodes = dt_cluster_hosts(options);
    uint32_t torn = 0;
    for (uint32_t first = 0; first + size <= ranks; first += size)
        torn += dt_spread_node(ranks, nodes, first) !=
                dt_spread_node(ranks, nodes, first + size - 1);
    return torn;
}

void dt_dryrun_note(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes)
{
    const char *name = "";
    const int64_t size = fastest(plan, &name);
    const uint32_t torn = dt_cluster_several(options) && options->node == 0
                              ? dt_dryrun_torn(options, plan)
                              : 0;
    if (torn > 0)
        dt_text_printf(ret_notes,
                       "%snote: %u group%s of mesh axis `%s`, of %lld ranks, leave%s a host of %u "
                       "ranks: the axis that is written last should stay inside of hosts, whose "
                       "links are faster",
                       ret_notes->len > 0 ? "\ndtrun: " : "", torn, torn == 1 ? "" : "s", name,
                       (long long)size, torn == 1 ? "s" : "", dt_cluster_ranks(options, plan));
}

/* ---- what a node needs ---- */

static uint64_t most_memory(const DtRunOptions *options, const DtPlan *plan)
{
    uint64_t most = 0;
    const uint32_t first = dt_cluster_first(options, plan);
    for (uint32_t r = first; r < first + dt_cluster_ranks(options, plan); r++) {
        const uint64_t bytes = dt_memory_arenas(options, plan, dt_rank_stage(plan, r));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Bytes of parameters, states and moments, as a checkpoint has them. */
static double bytes_of_checkpoint(const DtPlan *plan)
{
    double bytes = 0;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        double n = (double)dt_kinds_size(store->dtype);
        if (store->kind != DT_PLAN_PARAM && store->kind != DT_PLAN_MASTER && !store->saved)
            continue;
        for (uint32_t a = 0; a < store->n_axes; a++)
            n *= (double)plan->axes[store->first_axis + a].extent;
        bytes += n;
    }
    return bytes;
}

static DtStatus check_disk(const DtRunOptions *options, const DtPlan *plan, FILE *out)
{
    const char *folder = options->save ? options->save : options->resume;
    char need[32], have[32];
    if (options->node > 0 || !folder || options->eval || dt_run_predicts(options))
        return DT_OK;
    int64_t room;
    const double bytes = bytes_of_checkpoint(plan);
    const bool known = dt_file_free_above(folder, &room);
    fprintf(out, "a checkpoint in %s has %s; its disk has room for %s\n", folder,
            dt_text_bytes(need, bytes), known ? dt_text_bytes(have, (double)room) : "?");
    return !known || (double)room >= bytes
               ? DT_OK
               : dt_status_fail(DT_EXIT_IO,
                                "the disk of %.300s has room for %s, and a checkpoint has %s",
                                folder, dt_text_bytes(have, (double)room),
                                dt_text_bytes(need, bytes));
}

static DtStatus check_devices(const DtRunOptions *options, const DtPlan *plan,
                              const DtDeviceOps *device, char ret_text[64])
{
    int n = 0;
    const uint32_t ranks = dt_cluster_ranks(options, plan);
    if (device != &dt_device_cuda) {
        snprintf(ret_text, 64, "device %s, %ld processors", device->name,
                 sysconf(_SC_NPROCESSORS_ONLN));
        return DT_OK;
    }
    const DtStatus status = dt_cuda_count(&n);
    snprintf(ret_text, 64, "device cuda, %d GPU%s", n, n == 1 ? "" : "s");
    if (!dt_status_ok(&status) || options->share_gpu || (uint32_t)n >= ranks)
        return status;
    return dt_status_fail(DT_EXIT_FAILED, "there are %u ranks here and %d GPUs; --share-gpu lets "
                                          "several ranks use one",
                          ranks, n);
}

DtStatus dt_dryrun_say(const DtRunOptions *options, const DtPlan *plan, FILE *out)
{
    const DtDeviceOps *device;
    const DtCommOps *comm;
    char devices[64] = "", memory[32], where[320] = "";
    const uint32_t first = dt_cluster_first(options, plan),
                   ranks = dt_cluster_ranks(options, plan);
    DtStatus status = dt_supervisor_fits(options, plan);
    if (dt_status_ok(&status))
        status = dt_load_choose(options, plan, &device, &comm);
    if (dt_status_ok(&status))
        status = check_devices(options, plan, device, devices);
    if (!dt_status_ok(&status))
        return status;
    if (dt_cluster_several(options))
        snprintf(where, sizeof where, "node %lld of %lld, ", (long long)options->node,
                 (long long)options->nodes);
    fprintf(out, "%sranks %u to %u; %s; %s for each rank; communication by %s\n", where, first,
            first + ranks - 1, devices,
            dt_text_bytes(memory, (double)most_memory(options, plan)), comm->name);
    status = check_disk(options, plan, out);
    fflush(out);
    return status;
}
