/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster block: machines, devices, links. */
#include "frontend/config_internal.h"

#include "base/intern.h"

static void read_link(const DtConfigHost *host, const DtConfigValue *value, DtLink *ret_link)
{
    DtConfigValues v;
    DtSchemaId schema;
    if (!value->expr || !dt_configargs_call(host, DT_CONFIG_LINK, value->expr, &schema, &v))
        return;
    ret_link->bytes_per_second = v.at[DT_KEY_LINK_bandwidth].number;
    ret_link->seconds = v.at[DT_KEY_LINK_latency].number;
}

static int64_t at_least_one(int64_t n) { return n > 0 ? n : 1; }

DtClusterConfig *dt_configcluster_read(const DtConfigHost *host, const DtItem *item)
{
    DtConfigValues v;
    DtClusterConfig *cluster = DT_NEW(host->arena, DtClusterConfig);
    cluster->name = item->name.text;
    cluster->span = item->span;
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (!entry->is_directive && entry->targets.n == 1 && entry->targets.at[0].name.text)
            continue;
        DtDiag *d =
            dt_diag_report(host->diags, E0459, entry->span, "a `cluster` block has settings only");
        dt_diag_help(d, "write `name = value`, such as `gpus = 8`");
    }
    dt_configargs_entries(host, DT_SCHEMA_CLUSTER, item->entries, item->name.span, &v);
    cluster->nodes = at_least_one(v.at[DT_KEY_CLUSTER_nodes].whole);
    cluster->gpus = at_least_one(v.at[DT_KEY_CLUSTER_gpus].whole);
    cluster->gpu = v.at[DT_KEY_CLUSTER_gpu].given ? v.at[DT_KEY_CLUSTER_gpu].word : NULL;
    if (!cluster->gpu)
        cluster->gpu = dt_intern("cpu");
    cluster->device = dt_confighardware_device(host, cluster->gpu);
    cluster->stack = dt_confighardware_stack(host, v.at[DT_KEY_CLUSTER_stack].word);
    read_link(host, &v.at[DT_KEY_CLUSTER_intra], &cluster->intra);
    read_link(host, &v.at[DT_KEY_CLUSTER_inter], &cluster->inter);
    int64_t devices;
    if (__builtin_mul_overflow(cluster->nodes, cluster->gpus, &devices) || devices > 1 << 24) {
        dt_diag_report(host->diags, E0452, item->name.span,
                       "a cluster has at most 16,777,216 devices");
        cluster->nodes = cluster->gpus = 1;
    }
    return cluster;
}
