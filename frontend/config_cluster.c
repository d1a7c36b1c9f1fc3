/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster block: machines, devices, links. */
#include "frontend/config_internal.h"

#include "base/intern.h"
#include "cost/cost.h"

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

/* Reads value number i of a key whose value may be a list for kinds of nodes; a single value holds
 * for all of them. ret_n: the length of the list. False if the key is not given (its preset
 * counts), or is ill-formed. */
static bool read_at(const DtConfigHost *host, DtKeyId key, const DtConfigValue *value, uint32_t i,
                    uint32_t *ret_n, DtConfigValue *ret_value)
{
    DtExpr *const *items;
    DtExpr *single;
    *ret_value = *value;
    *ret_n = 1;
    if (!value->expr)
        return false;
    dt_configargs_items(value->expr, &items, ret_n, &single);
    const DtConfigReading reading = {host, &dt_config_keys[key], items[i < *ret_n ? i : 0],
                                     ret_value};
    return dt_configkinds_read(&reading);
}

static void add_kind(const DtConfigHost *host, const DtConfigValue *nodes, const DtConfigValue *gpu,
                     uint32_t i, DtClusterConfig *cluster)
{
    DtNodeKind *kind = &cluster->kinds[i];
    DtConfigValue value;
    uint32_t n;
    *kind = (DtNodeKind){.gpu = read_at(host, DT_KEY_CLUSTER_gpu, gpu, i, &n, &value)
                                    ? value.word
                                    : dt_intern("cpu")};
    kind->device = dt_confighardware_device(host, kind->gpu);
    read_at(host, DT_KEY_CLUSTER_nodes, nodes, i, &n, &value);
    kind->nodes = at_least_one(value.whole);
}

/* Reads `nodes = (4, 8)` together with `gpu = ("h100-sxm", "a100-80g")`, one of each for each kind
 * of node, into the cluster. Reports lists of different lengths. */
static void read_kinds(const DtConfigHost *host, const DtConfigValue *nodes,
                       const DtConfigValue *gpu, DtClusterConfig *cluster)
{
    DtConfigValue value;
    uint32_t n_nodes, n_gpus;
    read_at(host, DT_KEY_CLUSTER_nodes, nodes, 0, &n_nodes, &value);
    read_at(host, DT_KEY_CLUSTER_gpu, gpu, 0, &n_gpus, &value);
    const bool fits = n_gpus <= DT_NODE_KINDS && n_nodes == n_gpus;
    if (!fits) {
        DtDiag *d = n_nodes == n_gpus ? dt_diag_report(host->diags, E0452, gpu->span,
                                                       "a cluster has nodes of at most "
                                                       "%d kinds",
                                                       DT_NODE_KINDS)
                                      : dt_diag_report(host->diags, E0452, cluster->span,
                                                       "`nodes` says %u number%s, "
                                                       "`gpu` names %u device%s",
                                                       n_nodes, n_nodes == 1 ? "" : "s", n_gpus,
                                                       n_gpus == 1 ? "" : "s");
        dt_diag_help(d, "nodes of two kinds are `nodes = (4, 8); gpu = (\"h100-sxm\", "
                        "\"a100-80g\")`: four of the "
                        "first device, then eight of the second");
    }
    cluster->n_kinds = fits ? n_gpus : 1;
    for (uint32_t i = 0; i < cluster->n_kinds; i++) {
        const DtNodeKind *kind = &cluster->kinds[i], *first = &cluster->kinds[0];
        add_kind(host, nodes, gpu, i, cluster);
        if (kind->device && first->device && kind->device->is_gpu != first->device->is_gpu)
            dt_diag_report(host->diags, E0452, gpu->span,
                           "`%s` is a %s, `%s` a %s: a plan's ranks are all on GPUs or "
                           "all on processors",
                           first->gpu, first->device->is_gpu ? "GPU" : "processor", kind->gpu,
                           kind->device->is_gpu ? "GPU" : "processor");
        if (__builtin_add_overflow(cluster->nodes, kind->nodes, &cluster->nodes))
            cluster->nodes = INT64_MAX;
    }
}

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
    cluster->gpus = at_least_one(v.at[DT_KEY_CLUSTER_gpus].whole);
    read_kinds(host, &v.at[DT_KEY_CLUSTER_nodes], &v.at[DT_KEY_CLUSTER_gpu], cluster);
    cluster->stack = dt_confighardware_stack(host, v.at[DT_KEY_CLUSTER_stack].word);
    read_link(host, &v.at[DT_KEY_CLUSTER_intra], &cluster->intra);
    read_link(host, &v.at[DT_KEY_CLUSTER_inter], &cluster->inter);
    int64_t devices;
    if (__builtin_mul_overflow(cluster->nodes, cluster->gpus, &devices) || devices > 1 << 24) {
        dt_diag_report(host->diags, E0452, item->name.span,
                       "a cluster has at most 16,777,216 devices");
        cluster->nodes = cluster->gpus = cluster->kinds[0].nodes = cluster->n_kinds = 1;
    }
    return cluster;
}
