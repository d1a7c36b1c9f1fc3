/* SPDX-License-Identifier: Apache-2.0 */
/* Which sizes a layout has for another number of ranks. Mesh axes along which ranks only have other
 * samples (data parallel, ZeRO) get other sizes; tensor, pipeline, expert and context axes keep
 * theirs. The batch stays: each rank has more samples of it, in as many more micro-batches that no
 * micro-batch of a rank has more samples than before; or fewer micro-batches, where that does not
 * compile; or, where the ranks do not divide the batch, a batch that is padded in memory. */
#include "cli/cli.h"

#include "base/intern.h"

#include <math.h>
#include <string.h>

typedef struct Layout {
    const DtParallelConfig *parallel;
    const DtClusterConfig *cluster;
    const char *samples;
    int64_t batch, ranks; /* ranks: of the plan's layout */
    bool splits[DT_MAX_MESH]; /* the mesh axis splits the axis of samples */
    bool frees[DT_MAX_MESH];  /* and nothing else */
    uint32_t n_free;
    int64_t fixed, splits_fixed; /* products of the sizes of axes that stay: of all, of those that
                                  * split samples */
} Layout;

/* Whether a line of the block uses the mesh axis for anything but samples. */
static bool has_other_use(const Layout *layout, const char *axis)
{
    const DtParallelConfig *p = layout->parallel;
    for (uint32_t i = 0; i < p->compress.n_on; i++)
        if (p->compress.on[i] == axis)
            return true; /* each of its ranks keeps an error of its own */
    for (uint32_t i = 0; i < p->replicas.n_on; i++)
        if (p->replicas.on[i] == axis)
            return true; /* each has parameters of its own */
    for (uint32_t i = 0; i < p->pipelines.n; i++)
        if (p->pipelines.at[i].on == axis)
            return true;
    for (uint32_t i = 0; i < p->shards.n; i++) {
        const DtShard *shard = &p->shards.at[i];
        for (uint32_t m = 0; m < shard->n_mesh; m++)
            for (uint32_t a = 0; shard->mesh[m] == axis && a < shard->n_axes; a++)
                if (shard->axes[a] != layout->samples || shard->ring || shard->zigzag)
                    return true;
    }
    return false;
}

static bool splits_samples(const Layout *layout, const char *axis)
{
    for (uint32_t i = 0; i < layout->parallel->shards.n; i++) {
        const DtShard *shard = &layout->parallel->shards.at[i];
        for (uint32_t m = 0; m < shard->n_mesh; m++)
            for (uint32_t a = 0; shard->mesh[m] == axis && a < shard->n_axes; a++)
                if (shard->axes[a] == layout->samples && !shard->n_place)
                    return true;
    }
    return false;
}

/* Reads the layout of the program; returns an exit code. */
static int read_layout(const DtCli *cli, const DtProgram *program, Layout *ret_layout)
{
    const DtTrainConfig *train = program->train;
    if (!train || !train->readers.n || !program->parallel || !program->cluster)
        return dt_cli_fail(DT_EXIT_FAILED,
                           "%s is of one rank, and so has no layout that could have another size",
                           cli->old_path);
    if (program->cluster->n_kinds > 1)
        return dt_cli_fail(DT_EXIT_FAILED,
                           "cluster `%s` has nodes of several kinds, and nothing says of which "
                           "kinds the ranks are: compile the program for them",
                           program->cluster->name);
    const DtType *samples = train->readers.at[0].types[0];
    *ret_layout = (Layout){.parallel = program->parallel, .cluster = program->cluster,
                           .samples = samples->axes[0].name, .batch = samples->axes[0].extent,
                           .ranks = 1, .fixed = 1, .splits_fixed = 1};
    const DtMesh *mesh = &program->parallel->mesh;
    for (uint32_t m = 0; m < mesh->n; m++) {
        const bool splits = splits_samples(ret_layout, mesh->axes[m].name);
        ret_layout->splits[m] = splits;
        ret_layout->frees[m] = splits && !has_other_use(ret_layout, mesh->axes[m].name);
        ret_layout->n_free += ret_layout->frees[m];
        ret_layout->ranks *= mesh->axes[m].size;
        if (!ret_layout->frees[m])
            ret_layout->fixed *= mesh->axes[m].size;
        if (splits && !ret_layout->frees[m])
            ret_layout->splits_fixed *= mesh->axes[m].size;
    }
    return DT_EXIT_OK;
}

/* ---- sizes of the mesh ---- */

/* A way in which the free axes make the wanted product. distance: sum of |log(new / old)|. */
typedef struct Mesh {
    int64_t size[DT_MAX_MESH];
    double distance;
} Mesh;

enum { MESHES = 4 };

typedef struct Meshes {
    Mesh at[MESHES];
    uint32_t n;
} Meshes;

/* Keeps the nearest ones; of equally near ones those that were found first. */
static void keep_mesh(Meshes *meshes, const Mesh *mesh)
{
    uint32_t at = 0;
    while (at < meshes->n && meshes->at[at].distance <= mesh->distance + 1e-9)
        at++;
    if (at == MESHES)
        return;
    meshes->n += meshes->n < MESHES;
    for (uint32_t i = meshes->n - 1; i > at; i--)
        meshes->at[i] = meshes->at[i - 1];
    meshes->at[at] = *mesh;
}

/* Tries all sizes of axes m, m - 1, ..., 0 whose product over the free ones is `left`. Inner axes,
 * which have the fastest links, keep their sizes first. */
static void find_meshes(const Layout *layout, Mesh *mesh, int m, int64_t left, Meshes *meshes)
{
    if (m < 0) {
        if (left == 1)
            keep_mesh(meshes, mesh);
        return;
    }
    const int64_t old = layout->parallel->mesh.axes[m].size;
    const double distance = mesh->distance;
    mesh->size[m] = old;
    if (!layout->frees[m]) {
        find_meshes(layout, mesh, m - 1, left, meshes);
        return;
    }
    if (left % old == 0)
        find_meshes(layout, mesh, m - 1, left / old, meshes);
    for (int64_t size = left; size >= 1; size--) {
        if (left % size != 0 || size == old)
            continue;
        mesh->size[m] = size;
        mesh->distance = distance + fabs(log((double)size / (double)old));
        find_meshes(layout, mesh, m - 1, left / size, meshes);
        mesh->distance = distance;
    }
}

/* ---- what to try ---- */

/* Sets the nodes and devices of a cluster of so many ranks: whole nodes if they divide the ranks,
 * else the largest part of a node that does. */
static void place_ranks(const Layout *layout, int64_t ranks, DtResize *resize)
{
    resize->gpus = layout->cluster->gpus;
    while (ranks % resize->gpus != 0)
        resize->gpus--;
    resize->nodes = ranks / resize->gpus;
}

static void add_size(DtCliSizes *sizes, const DtResize *base, int64_t micro, bool pads)
{
    if (sizes->n == DT_CLI_SIZES)
        return;
    DtResize *resize = &sizes->at[sizes->n++];
    *resize = *base;
    resize->micro = micro;
    resize->pads = pads;
}

/* Adds the numbers of micro-batches for one mesh that splits the samples into so many parts. */
static void add_micros(const Layout *layout, const DtResize *base, int64_t parts,
                       DtCliSizes *sizes)
{
    const int64_t micro = layout->parallel->micro < 1 ? 1 : layout->parallel->micro;
    int64_t old_parts = layout->splits_fixed;
    for (uint32_t m = 0; m < layout->parallel->mesh.n; m++)
        old_parts *= layout->frees[m] ? layout->parallel->mesh.axes[m].size : 1;
    const int64_t each = (layout->batch + old_parts * micro - 1) / (old_parts * micro);
    const int64_t own = (layout->batch + parts - 1) / parts; /* samples of a rank in a step */
    const int64_t enough = (own + each - 1) / each;
    const uint32_t before = sizes->n;
    for (int64_t n = enough; layout->batch % parts == 0 && n <= own; n++)
        if (own % n == 0 && sizes->n < before + 3)
            add_size(sizes, base, n, false);
    for (int64_t n = enough - 1; layout->batch % parts == 0 && n >= 1; n--)
        if (own % n == 0 && sizes->n < before + 5)
            add_size(sizes, base, n, false);
    if (layout->batch % parts != 0)
        add_size(sizes, base, 1, true);
}

int dt_cli_sizes(const DtCli *cli, const DtProgram *program, int64_t ranks, DtCliSizes *ret_sizes)
{
    Layout layout;
    Meshes meshes = {0};
    Mesh mesh = {0};
    *ret_sizes = (DtCliSizes){0};
    const int code = read_layout(cli, program, &layout);
    if (code != DT_EXIT_OK)
        return code;
    const DtMesh *old = &layout.parallel->mesh;
    ret_sizes->fixed = layout.fixed;
    ret_sizes->ranks = layout.ranks;
    ret_sizes->most = layout.n_free ? layout.fixed * (layout.batch / layout.splits_fixed)
                                    : layout.fixed;
    if (ranks < 1 || ranks % layout.fixed != 0 || ranks > ret_sizes->most)
        return DT_EXIT_OK;
    find_meshes(&layout, &mesh, (int)old->n - 1, ranks / layout.fixed, &meshes);
    for (uint32_t i = 0; i < meshes.n; i++) {
        DtResize resize = {.parallel = layout.parallel->name, .cluster = layout.cluster->name,
                           .n_mesh = old->n, .samples = layout.samples};
        int64_t parts = 1;
        for (uint32_t m = 0; m < old->n; m++) {
            resize.mesh[m] = old->axes[m].name;
            resize.size[m] = meshes.at[i].size[m];
            parts *= layout.splits[m] ? meshes.at[i].size[m] : 1;
        }
        place_ranks(&layout, ranks, &resize);
        add_micros(&layout, &resize, parts, ret_sizes);
    }
    return DT_EXIT_OK;
}
