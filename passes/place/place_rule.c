/* SPDX-License-Identifier: Apache-2.0 */
/* Rule placement: the placement that the `shard` lines give a value.
 *
 * The lines are walked in order, and within a line its axes in the order written; each axis that
 * the value has takes those of the line's mesh axes that no earlier axis of this value took. So
 * `shard heads, ffn on tensor` before `shard seq on tensor` splits seq only where neither heads nor
 * ffn is. An axis of extent 1, or one that the mesh axis does not divide, stays whole. A limited
 * line counts only for values of its place. `micro` is the first line, so that time is the
 * major-most split of the batch.
 *
 * A renamed axis inherits no split. Axes that result from splitting or merging a split axis keep
 * its mesh axes, as if a further line at the end said so. */
#include "passes/place/place_internal.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

/* ---- places ---- */

typedef struct Part {
    const char *at;
    size_t len;
} Part;

/* Splits the last component off the first *n characters of a place, which is a path with dots, and
 * returns it; *n becomes the length of what is before. */
static Part last_part(const char *place, size_t *n)
{
    size_t end = *n, begin = end;
    while (begin > 0 && place[begin - 1] != '.')
        begin--;
    *n = begin > 0 ? begin - 1 : 0;
    return (Part){place + begin, end - begin};
}

static bool is_text(Part part, const char *text)
{
    return strlen(text) == part.len && memcmp(part.at, text, part.len) == 0;
}

/* Whether the component is a number, as "0" in "s.0.c1": the number of an unrolled loop's
 * iteration, which places in lines leave out. */
static bool is_number(Part part)
{
    for (size_t i = 0; i < part.len; i++)
        if (part.at[i] < '0' || part.at[i] > '9')
            return false;
    return part.len > 0;
}

/* Whether the text names the component: both `wq` and `linear` name "wq:linear". */
static bool is_part(Part part, const char *text)
{
    const char *colon = memchr(part.at, ':', part.len);
    if (!colon)
        return is_text(part, text);
    size_t label = (size_t)(colon - part.at);
    return is_text((Part){part.at, label}, text) ||
           is_text((Part){colon + 1, part.len - label - 1}, text);
}

static bool holds(const DtPlaceLine *line, const char *place)
{
    if (line->n_place == 0)
        return true;
    size_t left = place ? strlen(place) : 0;
    for (uint32_t i = line->n_place; i-- > 0;) {
        Part part = {0};
        do {
            if (left == 0)
                return false;
            part = last_part(place, &left);
        } while (is_number(part));
        if (!is_part(part, line->place[i]))
            return false;
    }
    return true;
}

bool dt_placerule_is_limited(const DtPlacer *p, const char *place)
{
    for (uint32_t i = 0; i < p->lines.n; i++)
        if (p->lines.at[i].n_place && holds(&p->lines.at[i], place))
            return true;
    return false;
}

/* ---- rules ---- */

bool dt_placerule_divides(const DtPlacer *p, const DtType *type, uint32_t a, uint32_t m)
{
    int64_t extent = type->axes[a].extent, parts = p->module->mesh.axes[m].size;
    for (uint32_t i = 0; i < type->axes[a].n_split; i++)
        extent /= p->module->mesh.axes[type->axes[a].split[i]].size;
    if (type->axes[a].n_split ? type->axes[a].zigzag
                              : dt_placerule_is_zigzag(p, type->axes[a].name, m))
        parts *= 2;
    return type->axes[a].n_split < DT_MAX_SPLIT && extent % parts == 0;
}

bool dt_placerule_is_zigzag(const DtPlacer *p, const char *axis, uint32_t m)
{
    for (uint32_t i = 0; i < p->n_written; i++)
        for (uint32_t k = 0; p->lines.at[i].zigzag && k < p->lines.at[i].n_axes; k++)
            for (uint32_t s = 0; p->lines.at[i].axes[k] == axis && s < p->lines.at[i].n_mesh; s++)
                if (p->lines.at[i].mesh[s] == m)
                    return true;
    return false;
}

const DtType *dt_placerule_stored(const DtPlacer *p, const DtType *type)
{
    for (uint32_t d = 0; d < type->rank; d++)
        while (type->axes[d].n_split && type->axes[d].zigzag)
            type = dt_placerule_with(p, type, type->axes[d].split[0], DT_PLACE_WHOLE);
    return type;
}

static void give(const DtPlacer *p, DtPlaceLine *line, DtAxis *axis, uint16_t *used)
{
    int64_t left = axis->extent;
    for (uint32_t i = 0; i < axis->n_split; i++)
        left /= p->module->mesh.axes[axis->split[i]].size;
    for (uint32_t i = 0; i < line->n_mesh; i++) {
        uint8_t m = line->mesh[i];
        int64_t size = p->module->mesh.axes[m].size;
        if (*used >> m & 1 || left % (line->zigzag ? 2 * size : size) != 0)
            continue;
        if (axis->n_split == DT_MAX_SPLIT) {
            line->overflows = axis->name;
            return;
        }
        left /= size;
        axis->zigzag = line->zigzag;
        axis->split[axis->n_split++] = m;
        *used |= (uint16_t)(1u << m);
        line->gives = true;
    }
}

const DtType *dt_placerule_of(const DtPlacer *p, const DtType *type, const char *place,
                              uint32_t n_loops)
{
    DtAxis axes[DT_MAX_RANK];
    uint16_t used = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        axes[d] = (DtAxis){.name = type->axes[d].name, .extent = type->axes[d].extent};
    for (uint32_t i = 0; i < p->lines.n; i++) {
        DtPlaceLine *line = &p->lines.at[i];
        if (!holds(line, place))
            continue;
        for (uint32_t k = 0; k < line->n_axes; k++)
            for (uint32_t d = n_loops; d < type->rank; d++)
                if (axes[d].name == line->axes[k]) {
                    line->is_used = true;
                    if (axes[d].extent > 1)
                        give(p, line, &axes[d], &used);
                }
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

bool dt_placerule_check_fits(DtPlacer *p)
{
    for (uint32_t i = 0; i < p->n_written; i++) {
        const DtPlaceLine *line = &p->lines.at[i];
        if (!line->overflows)
            continue;
        DtDiag *diag = dt_placerefuse_at(
            p, E0592, line->span,
            dt_arena_printf(p->module->arena,
                            "`%s` over more than %d mesh axes is not implemented yet",
                            line->overflows, DT_MAX_SPLIT));
        dt_diag_note(diag, "the mesh axes of all lines count together, and micro-batches as one");
        dt_diag_help(diag, "join mesh axes: one of size 4 instead of two of size 2");
        return false;
    }
    return true;
}

/* Reports a line without a place that splits no value, and the earlier line that has taken its
 * axis. */
static void lint_taken(const DtPlacer *p, const DtPlaceLine *line)
{
    const DtPlaceLine *before = NULL;
    for (uint32_t i = 0; i < p->n_written && &p->lines.at[i] != line && !before; i++)
        for (uint32_t k = 0; k < p->lines.at[i].n_axes; k++)
            if (p->lines.at[i].axes[k] == line->axes[0] && p->lines.at[i].span.file)
                before = &p->lines.at[i];
    DtDiag *diag = dt_diag_report(p->module->diags, L0596, line->span,
                                  "this line has no effect: it splits no value");
    if (before)
        dt_diag_label(diag, before->span, "an earlier line for `%s`", line->axes[0]);
    dt_diag_note(diag, "a value's axis takes the mesh axes of a line that no earlier line, and no "
                       "axis before it, has "
                       "taken for this value, and that divide what is left of its extent");
}

void dt_placerule_check_used(const DtPlacer *p)
{
    for (uint32_t i = 0; i < p->n_written; i++) {
        const DtPlaceLine *line = &p->lines.at[i];
        if (line->n_place == 0 && !line->gives && line->span.file && !line->ring &&
            !dt_diag_errors(p->module->diags))
            lint_taken(p, line);
        if (line->n_place == 0 || line->is_used)
            continue;
        DtDiag *diag = dt_diag_report(
            p->module->diags, L0596, line->span, "this line has no effect: nothing of `%s` has %s",
            line->place[line->n_place - 1], line->n_axes == 1 ? "this axis" : "one of these axes");
        dt_diag_note(diag, "a limited line holds for arguments and results of calls of a function, "
                           "layer or instance, and for a parameter, not for what is inside");
    }
}

static bool is_named(const DtPlacer *p, const char *axis)
{
    for (uint32_t i = 0; i < p->lines.n; i++)
        for (uint32_t k = 0; k < p->lines.at[i].n_axes; k++)
            if (p->lines.at[i].axes[k] == axis)
                return true;
    return false;
}

bool dt_placerule_is_inherited(const DtPlacer *p, const char *axis, uint32_t m)
{
    for (uint32_t i = p->n_written; i < p->lines.n; i++)
        for (uint32_t s = 0; p->lines.at[i].axes[0] == axis && s < p->lines.at[i].n_mesh; s++)
            if (p->lines.at[i].mesh[s] == m)
                return true;
    return false;
}

/* If micro-batches split the axis, adds its name to the line for `micro`, so that values with that
 * name of the samples' axis are split, too. */
static void learn_time(DtPlacer *p, const DtAxis *axis)
{
    DtPlaceLine *line = &p->lines.at[0];
    const bool cut = p->time && axis->n_split > 0 && p->time >> axis->split[0] & 1;
    for (uint32_t i = 0; cut && i < line->n_axes; i++)
        if (line->axes[i] == axis->name)
            return;
    if (cut && line->n_axes < DT_COUNT(line->axes))
        line->axes[line->n_axes++] = axis->name;
}

void dt_placerule_learn(DtPlacer *p, const DtOp *op, const DtType *type)
{
    if (op->kind != DT_OP_RELABEL)
        return;
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const DtRelabel *r = &op->relabels[e];
        for (uint32_t i = 0; r->n_from + r->n_to > 2 && i < r->n_to; i++) {
            int d = dt_type_find(type, r->to[i]);
            if (d >= 0 && is_named(p, r->to[i]))
                learn_time(p, &type->axes[d]);
            if (d < 0 || type->axes[d].n_split == 0 || is_named(p, r->to[i]))
                continue;
            DtPlaceLine line = {.axes = {r->to[i]}, .n_axes = 1, .n_mesh = type->axes[d].n_split};
            memcpy(line.mesh, type->axes[d].split, line.n_mesh);
            DT_PUSH(p->module->arena, p->lines, line);
        }
    }
}

/* How early the lines give mesh axis m to this axis, by line and position in it; mesh axes that no
 * line gives come last, in the order of the mesh. */
static uint32_t order_of(const DtPlacer *p, const char *axis, uint32_t m)
{
    for (uint32_t i = 0; i < p->lines.n; i++)
        for (uint32_t k = 0; k < p->lines.at[i].n_axes; k++)
            for (uint32_t s = 0; p->lines.at[i].axes[k] == axis && s < p->lines.at[i].n_mesh; s++)
                if (p->lines.at[i].mesh[s] == m)
                    return i * DT_MAX_SPLIT + s;
    return UINT32_MAX - DT_MAX_MESH + m;
}

/* Whether mesh axis a comes before b among those that split the axis, in the order of lines. */
static bool is_major(const DtPlacer *p, const char *axis, uint32_t a, uint32_t b)
{
    return order_of(p, axis, a) < order_of(p, axis, b);
}

static bool has_axis(const DtType *const *in, uint32_t n, const char *axis)
{
    for (uint32_t i = 0; i < n; i++)
        if (dt_type_find(in[i], axis) >= 0)
            return true;
    return false;
}

const DtType *dt_placerule_wish(const DtPlacer *p, const DtOp *op, uint32_t i,
                                const DtType *const *in)
{
    const DtType *plain = op->out[i]->type;
    if (op->kind != DT_OP_EXPAND && op->kind != DT_OP_SCATTER_ADD)
        return dt_placerule_of(p, plain, NULL, 0);
    uint16_t used = (uint16_t)(in[0]->partial | dt_placerule_bits(in[0]));
    DtAxis axes[DT_MAX_RANK];
    const DtType *rule = dt_placerule_of(p, plain, NULL, 0);
    for (uint32_t d = 0; d < rule->rank; d++) {
        axes[d] = rule->axes[d];
        axes[d].n_split = 0;
        for (uint32_t s = 0; s < rule->axes[d].n_split; s++)
            if (!(used >> rule->axes[d].split[s] & 1) &&
                !has_axis(in, op->kind == DT_OP_EXPAND, axes[d].name))
                axes[d].split[axes[d].n_split++] = rule->axes[d].split[s];
    }
    return dt_type_plain(plain->dtype, plain->rank, axes);
}

/* ---- states ---- */

int dt_placerule_state(const DtType *type, uint32_t m)
{
    if (type->partial >> m & 1)
        return DT_PLACE_PENDING;
    for (uint32_t d = 0; d < type->rank; d++)
        for (uint32_t s = 0; s < type->axes[d].n_split; s++)
            if (type->axes[d].split[s] == m)
                return (int)d;
    return DT_PLACE_WHOLE;
}

uint16_t dt_placerule_bits(const DtType *type)
{
    uint16_t bits = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        bits |= dt_shape_split_bits(&type->axes[d]);
    return bits;
}

const DtType *dt_placerule_project(const DtType *type, uint32_t m)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < type->rank; d++) {
        axes[d] = (DtAxis){.name = type->axes[d].name,
                           .extent = type->axes[d].extent,
                           .zigzag = type->axes[d].zigzag};
        if (dt_shape_split_bits(&type->axes[d]) >> m & 1)
            axes[d].split[axes[d].n_split++] = (uint8_t)m;
    }
    return dt_type_make(type->dtype, type->rank, axes, type->partial & (uint16_t)(1u << m),
                        (DtReduce)type->pending);
}

static void take(DtAxis *axis, uint32_t m)
{
    uint8_t n = 0;
    for (uint32_t s = 0; s < axis->n_split; s++)
        if (axis->split[s] != m)
            axis->split[n++] = axis->split[s];
    axis->n_split = n;
}

const DtType *dt_placerule_with(const DtPlacer *p, const DtType *type, uint32_t m, int state)
{
    DtAxis axes[DT_MAX_RANK];
    uint16_t bit = (uint16_t)(1u << m), partial = type->partial & (uint16_t)~bit;
    if (type->rank)
        memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t d = 0; d < type->rank; d++)
        take(&axes[d], m);
    if (state == DT_PLACE_PENDING)
        partial |= bit;
    if (state >= 0) {
        DtAxis *axis = &axes[state];
        uint32_t at = axis->n_split++;
        if (at == 0)
            axis->zigzag = dt_placerule_is_zigzag(p, axis->name, m);
        for (; at > 0 && is_major(p, axis->name, m, axis->split[at - 1]); at--)
            axis->split[at] = axis->split[at - 1];
        axis->split[at] = (uint8_t)m;
    }
    return dt_type_make(type->dtype, type->rank, axes, partial,
                        type->partial ? (DtReduce)type->pending : DT_REDUCE_SUM);
}

/* ---- reading the configuration ---- */

static bool not_yet(DtPlacer *p, DtSpan span, const char *what)
{
    p->failed = true;
    DtDiag *diag = dt_diag_report(p->module->diags, E0592, span, "%s is not implemented yet", what);
    dt_diag_help(diag, "compile without it: `--parallel none` gives the serial program");
    return false;
}

/* Whether the axis is the first one of some input: it counts samples. */
static bool is_sample_axis(const DtModule *module, const char *axis)
{
    for (uint32_t e = 0; e < module->entries.n; e++)
        for (uint32_t i = 0; i < module->entries.at[e].func->ops.n; i++) {
            const DtOp *op = module->entries.at[e].func->ops.at[i];
            if (op->kind == DT_OP_INPUT && op->out[0]->type->rank &&
                op->out[0]->type->axes[0].name == axis)
                return true;
        }
    return false;
}

static bool is_of_store(const DtPlacer *p, const char *axis)
{
    for (uint32_t i = 0; i < p->module->stores.n; i++)
        if (dt_type_find(p->module->stores.at[i]->type, axis) >= 0)
            return true;
    return false;
}

static bool add_line(DtPlacer *p, const DtShard *shard)
{
    DtPlaceLine line = {.n_place = shard->n_place, .n_axes = shard->n_axes, .span = shard->span};
    line.ring = shard->ring;
    line.zigzag = shard->zigzag;
    memcpy(line.place, shard->place, sizeof line.place);
    memcpy(line.axes, shard->axes, sizeof line.axes);
    for (uint32_t i = 0; i < shard->n_mesh; i++) {
        int number = dt_mesh_find(&p->module->mesh, shard->mesh[i]);
        if (number >= 0)
            line.mesh[line.n_mesh++] = (uint8_t)number;
    }
    DT_PUSH(p->module->arena, p->lines, line);
    return true;
}

/* Checks a line in zigzag order: none of its axes counts samples, and no other line splits one into
 * plain blocks. Reports an error and returns false otherwise. */
static bool check_zigzag(DtPlacer *p, const DtPlaceLine *line)
{
    for (uint32_t k = 0; k < line->n_axes; k++) {
        for (uint32_t i = 0; i < p->lines.n; i++)
            for (uint32_t j = 0; &p->lines.at[i] != line && j < p->lines.at[i].n_axes; j++)
                if (p->lines.at[i].axes[j] == line->axes[k] && !p->lines.at[i].zigzag)
                    return not_yet(p, line->span,
                                   dt_intern_printf("the zigzag order of `%s`, which another line "
                                                    "splits into blocks,",
                                                    line->axes[k]));
        if (is_sample_axis(p->module, line->axes[k]))
            return not_yet(p, line->span,
                           dt_intern_printf("the zigzag order of samples (`%s`)", line->axes[k]));
    }
    return true;
}

/* Sets p->seconds: seconds per byte over each mesh axis. The inner mesh axes whose ranks fit into a
 * node use the links inside of it. */
static void find_speeds(DtPlacer *p, const DtClusterConfig *cluster)
{
    const DtMesh *mesh = &p->module->mesh;
    int64_t ranks = 1, node = cluster && cluster->gpus > 0 ? cluster->gpus : INT64_MAX;
    for (uint32_t m = mesh->n; m-- > 0;) {
        ranks *= mesh->axes[m].size;
        double speed = !cluster        ? 0
                       : ranks <= node ? cluster->intra.bytes_per_second
                                       : cluster->inter.bytes_per_second;
        p->seconds[m] = 1 / (speed > 0 ? speed : 10e9);
    }
}

/* The terms of gradients that a `compress` line exchanges: one for each rank. */
static void add_workers(DtPlacer *p, const DtCompress *compress)
{
    DtPlaceLine line = {.axes = {dt_intern(DT_WORKER_AXIS)}, .n_axes = 1};
    for (uint32_t i = 0; i < compress->n_on; i++)
        line.mesh[line.n_mesh++] = (uint8_t)dt_mesh_find(&p->module->mesh, compress->on[i]);
    DT_PUSH(p->module->arena, p->lines, line);
}

/* The replicas, and samples where these are of all replicas: a part for each rank. */
static void add_replicas(DtPlacer *p, const DtReplicas *replicas)
{
    DtPlaceLine line = {.axes = {dt_intern(DT_REPLICA_AXIS), replicas->samples}, .n_axes = 2};
    for (uint32_t i = 0; i < replicas->n_on; i++)
        line.mesh[line.n_mesh++] = (uint8_t)dt_mesh_find(&p->module->mesh, replicas->on[i]);
    DT_PUSH(p->module->arena, p->lines, line);
}

bool dt_placerule_read(DtPlacer *p, const DtParallelConfig *c)
{
    DtMesh *mesh = &p->module->mesh;
    *mesh = (DtMesh){.n = 0};
    if (c->is_auto)
        DT_BUG("a layout that `auto` leaves open");
    if (c->micro > 1 && is_of_store(p, c->micro_axis))
        return not_yet(p, c->micro_span, "cutting an axis of a parameter into micro-batches");
    if (c->micro > 1) {
        mesh->axes[mesh->n++] =
            (DtMeshAxis){.name = dt_intern("micro"), .size = c->micro, .is_time = true};
        p->time = 1;
        DtPlaceLine line = {.axes = {c->micro_axis}, .n_axes = 1, .n_mesh = 1};
        DT_PUSH(p->module->arena, p->lines, line);
    }
    for (uint32_t i = 0; i < c->mesh.n && mesh->n < DT_MAX_MESH; i++)
        mesh->axes[mesh->n++] = c->mesh.axes[i];
    if (c->compress.function)
        add_workers(p, &c->compress);
    if (c->replicas.mix != DT_MIX_NONE)
        add_replicas(p, &c->replicas);
    for (uint32_t i = 0; i < c->shards.n; i++)
        if (!add_line(p, &c->shards.at[i]))
            return false;
    p->n_written = p->lines.n;
    for (uint32_t i = 0; i < p->lines.n; i++)
        if (p->lines.at[i].zigzag && !check_zigzag(p, &p->lines.at[i]))
            return false;
    find_speeds(p, p->context->cluster);
    return true;
}
