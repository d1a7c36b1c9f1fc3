/* SPDX-License-Identifier: Apache-2.0 */
/* The parallel block: directives to plain data. Checked here is what the block says by itself
 * (spelling, operands, ranges, uses of the mesh, devices of the cluster); what needs the program
 * (axes, loops, extents) is checked by config_check.c after the lowering. */
#include "frontend/config_internal.h"

#include "base/intern.h"
#include "frontend/foreign.h"

#include <string.h>

/* A parallel block while its lines are read. */
typedef struct Block {
    const DtConfigHost *host;
    const DtItem *item;
    DtParallelConfig *parallel;
    DtSpan micro_seen;
    uint32_t used;     /* bit per mesh axis that a directive names */
    bool used_unknown; /* a directive names a mesh axis that does not exist */
} Block;

static DtDiag *malformed(const Block *b, DtSpan span, DtSchemaId schema, const char *what)
{
    DtDiag *d = dt_diag_report(b->host->diags, E0511, span, "%s", what);
    dt_diag_note(d, "%s", dt_config_schemas[schema].help);
    return d;
}

/* Reads the number after `=` of an operand, which is at least 1; false after a report. */
static bool operand_number(const Block *b, const DtOperand *operand, DtSchemaId schema,
                           int64_t *ret_number)
{
    DtConfigNumber n = {0};
    *ret_number = 1;
    if (!operand->value) {
        malformed(b, operand->span, schema, "a number is missing here");
        return false;
    }
    if (!b->host->constant(b->host->context, operand->value, &n))
        return false;
    if (!n.is_integer || n.whole < 1) {
        dt_diag_report(b->host->diags, E0452, operand->value->span,
                       "this must be an integer of at least 1");
        return false;
    }
    *ret_number = n.whole;
    return true;
}

/* ---- mesh ---- */

static void add_mesh_axis(Block *b, const DtOperand *operand)
{
    DtMesh *mesh = &b->parallel->mesh;
    if (operand->path.n != 1) {
        malformed(b, operand->span, DT_SCHEMA_MESH, "a mesh axis is one name and its size");
        return;
    }
    DtName name = operand->path.at[0];
    for (uint32_t i = 0; i < mesh->n; i++)
        if (mesh->axes[i].name == name.text) {
            dt_diag_report(b->host->diags, E0505, name.span, "the mesh has two axes `%s`",
                           name.text);
            return;
        }
    if (mesh->n == DT_MAX_MESH - 1) {
        dt_diag_report(b->host->diags, E0505, name.span, "a mesh has at most %d axes",
                       DT_MAX_MESH - 1);
        return;
    }
    int64_t size;
    if (!operand_number(b, operand, DT_SCHEMA_MESH, &size))
        size = 0; /* size unknown: no errors about products are reported */
    mesh->axes[mesh->n++] = (DtMeshAxis){.name = name.text, .size = size};
}

static void read_mesh(Block *b, const DtEntry *entry)
{
    if (b->parallel->mesh_span.file) {
        DtDiag *d = dt_diag_report(b->host->diags, E0505, entry->span, "a second `mesh` line");
        dt_diag_label(d, b->parallel->mesh_span, "the first one");
        dt_diag_help(d, "one line lists all axes, slowest link first");
        return;
    }
    b->parallel->mesh_span = entry->span;
    if (entry->has_on)
        malformed(b, entry->span, DT_SCHEMA_MESH, "`mesh` takes no `on`");
    if (!entry->operands.n)
        malformed(b, entry->span, DT_SCHEMA_MESH, "`mesh` lists no axes");
    for (uint32_t i = 0; i < entry->operands.n; i++)
        add_mesh_axis(b, &entry->operands.at[i]);
}

/* ---- names after `on` ---- */

static void unknown_mesh_axis(Block *b, DtName name)
{
    b->used_unknown = true;
    const char *names[DT_MAX_MESH];
    const DtMesh *mesh = &b->parallel->mesh;
    for (uint32_t i = 0; i < mesh->n; i++)
        names[i] = mesh->axes[i].name;
    DtDiag *d =
        dt_diag_report(b->host->diags, E0504, name.span, "the mesh has no axis `%s`", name.text);
    if (mesh->n)
        dt_diag_label(d, b->parallel->mesh_span, "the mesh");
    else
        dt_diag_note(d, "this block has no `mesh` line");
    dt_configargs_suggest(d, name.span, name.text, names, mesh->n);
}

/* Reads the names of mesh axes after `on`, at most cap of them, and marks them as used; reports
 * unknown and repeated ones. Returns their number. */
static uint32_t read_on(Block *b, const DtEntry *entry, DtSchemaId schema, uint32_t cap,
                        const char **ret_names)
{
    uint32_t n = 0;
    if (!entry->has_on || !entry->on.n)
        malformed(b, entry->span, schema,
                  dt_arena_printf(b->host->arena, "`%s` needs `on` and a mesh axis",
                                  dt_config_schemas[schema].name));
    for (uint32_t i = 0; i < entry->on.n; i++) {
        DtName name = entry->on.at[i];
        int axis = dt_mesh_find(&b->parallel->mesh, name.text);
        bool twice = false;
        for (uint32_t k = 0; k < n; k++)
            twice |= ret_names[k] == name.text;
        if (axis < 0)
            unknown_mesh_axis(b, name);
        else if (twice)
            dt_diag_report(b->host->diags, E0512, name.span, "`%s` is named twice in this line",
                           name.text);
        else if (n == cap)
            malformed(b, name.span, schema,
                      cap == 1 ? "only one mesh axis can stand here" : "too many mesh axes");
        else
            ret_names[n++] = name.text;
        if (axis >= 0)
            b->used |= 1u << axis;
    }
    return n;
}

/* ---- shard ---- */

static bool same_place(const DtShard *shard, const DtNames *path)
{
    if (path->n - 1 != shard->n_place)
        return false;
    for (uint32_t i = 0; i + 1 < path->n; i++)
        if (shard->place[i] != path->at[i].text)
            return false;
    return true;
}

/* Adds an axis of a `shard` line to `line`. Axes that are limited to the same place form one
 * DtShard, so that the order within the line is kept; an axis of another place first pushes `line`
 * to the list. */
static void add_shard_axis(Block *b, const DtOperand *operand, const DtShard *base, DtShard *line)
{
    const DtNames *path = &operand->path;
    if (!path->n || operand->value) {
        malformed(b, operand->span, DT_SCHEMA_SHARD, "an axis is a name");
        return;
    }
    if (path->n > DT_COUNT(line->place)) {
        malformed(b, operand->span, DT_SCHEMA_SHARD, "a place has at most 7 names");
        return;
    }
    const char *axis = path->at[path->n - 1].text;
    for (uint32_t i = 0; i < line->n_axes; i++)
        if (line->axes[i] == axis && same_place(line, path)) {
            dt_diag_report(b->host->diags, E0512, operand->span, "`%s` is named twice in this line",
                           axis);
            return;
        }
    if (line->n_axes && (!same_place(line, path) || line->n_axes == DT_COUNT(line->axes))) {
        DT_PUSH(b->host->arena, b->parallel->shards, *line);
        *line = *base;
    }
    if (!line->n_axes)
        for (uint32_t i = 0; i + 1 < path->n; i++)
            line->place[line->n_place++] = path->at[i].text;
    line->axes[line->n_axes++] = axis;
}

static void read_shard(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    DtShard base = {.span = entry->span};
    dt_configargs_read(b->host, DT_SCHEMA_SHARD, entry->args.at, entry->args.n, entry->span, &v);
    base.pad = v.at[DT_KEY_SHARD_pad].whole;
    base.ring = v.at[DT_KEY_SHARD_ring].whole != 0;
    base.zigzag = v.at[DT_KEY_SHARD_order].word && !strcmp(v.at[DT_KEY_SHARD_order].word, "zigzag");
    base.n_mesh = read_on(b, entry, DT_SCHEMA_SHARD, DT_COUNT(base.mesh), base.mesh);
    if (!entry->operands.n)
        malformed(b, entry->span, DT_SCHEMA_SHARD, "`shard` names no axis");
    DtShard line = base;
    for (uint32_t i = 0; i < entry->operands.n; i++)
        add_shard_axis(b, &entry->operands.at[i], &base, &line);
    if (line.n_axes && line.n_mesh)
        DT_PUSH(b->host->arena, b->parallel->shards, line);
}

/* ---- pipeline ---- */

static void read_cuts(const Block *b, const DtConfigValue *value, DtPipeline *ret_pipeline)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    if (!value->expr)
        return;
    dt_configargs_items(value->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const DtExpr *item = dt_configargs_bare(items[i]);
        DtConfigNumber number = {0};
        bool full = ret_pipeline->n_cuts == DT_COUNT(ret_pipeline->cuts) ||
                    ret_pipeline->n_named_cuts == DT_COUNT(ret_pipeline->named_cuts);
        if (full) {
            dt_diag_report(b->host->diags, E0606, item->span, "a pipeline has at most %d cuts",
                           DT_STAGES_MOST);
            return;
        }
        if (item->kind == DT_EXPR_STRING && item->string_len) {
            ret_pipeline->named_cuts[ret_pipeline->n_named_cuts++] =
                dt_intern_n(item->string, item->string_len);
            continue;
        }
        if (!b->host->constant(b->host->context, item, &number))
            return;
        int64_t last = ret_pipeline->n_cuts ? ret_pipeline->cuts[ret_pipeline->n_cuts - 1] : -1;
        if (!number.is_integer || number.whole <= last) {
            dt_diag_report(b->host->diags, E0606, item->span,
                           "cuts are increasing numbers of iterations");
            return;
        }
        ret_pipeline->cuts[ret_pipeline->n_cuts++] = number.whole;
    }
    if (ret_pipeline->n_cuts && ret_pipeline->n_named_cuts)
        dt_diag_report(b->host->diags, E0606, value->expr->span,
                       "cuts are either all numbers or all names");
}

/* Reads the number of chunks per rank, whose preset and limits depend on the schedule; reports a
 * number that the schedule cannot have. */
static void read_chunks(const Block *b, const DtConfigValue *value, const DtEntry *entry,
                        DtPipeline *ret_pipeline)
{
    const char *s = ret_pipeline->schedule;
    bool two = !strcmp(s, "zb_v") || !strcmp(s, "dualpipe_v"),
         many = !strcmp(s, "interleaved_1f1b");
    int64_t chunks = value->given && value->whole ? value->whole : two || many ? 2 : 1;
    ret_pipeline->chunks = chunks;
    if ((two && chunks == 2) || (many && chunks >= 2) || (!two && !many && chunks == 1))
        return;
    DtSpan span = value->given ? value->span : entry->span;
    DtDiag *d = dt_diag_report(b->host->diags, E0604, span,
                               "schedule `%s` cannot have %lld chunk%s per rank", s,
                               (long long)chunks, chunks == 1 ? "" : "s");
    if (two)
        dt_diag_note(d, "its stages go there and back: exactly 2");
    else if (many)
        dt_diag_note(d, "interleaving needs at least 2");
    else
        dt_diag_help(
            d, "several chunks need `schedule = \"interleaved_1f1b\"`, or leave `chunks` out");
    ret_pipeline->chunks = two || many ? 2 : 1;
}

/* Returns the path of an operand as one text: `attend.heads`. */
static const char *path_of(const DtOperand *operand)
{
    const char *path = operand->path.at[0].text;
    for (uint32_t i = 1; i < operand->path.n; i++)
        path = dt_intern_printf("%s.%s", path, operand->path.at[i].text);
    return path;
}

static void read_pipeline(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    DtPipeline pipeline = {.span = entry->span};
    if (b->parallel->pipelines.n) {
        DtDiag *d = dt_diag_report(b->host->diags, E0607, entry->span, "a second `pipeline` line");
        dt_diag_label(d, b->parallel->pipelines.at[0].span, "the first one");
        dt_diag_help(d, "one line names all loops in order: `pipeline e, d on pipe`");
        return;
    }
    dt_configargs_read(b->host, DT_SCHEMA_PIPELINE, entry->args.at, entry->args.n, entry->span, &v);
    pipeline.schedule = v.at[DT_KEY_PIPELINE_schedule].word;
    uint32_t n_on = read_on(b, entry, DT_SCHEMA_PIPELINE, 1, &pipeline.on);
    for (uint32_t i = 0; i < entry->operands.n; i++) {
        const DtOperand *operand = &entry->operands.at[i];
        if (!operand->path.n || operand->value || pipeline.n_loops == DT_COUNT(pipeline.loops))
            malformed(b, operand->span, DT_SCHEMA_PIPELINE,
                      "`pipeline` names up to 8 loops by their labels or paths");
        else
            pipeline.loops[pipeline.n_loops++] = path_of(operand);
    }
    if (!entry->operands.n)
        malformed(b, entry->span, DT_SCHEMA_PIPELINE, "`pipeline` names no loop");
    read_chunks(b, &v.at[DT_KEY_PIPELINE_chunks], entry, &pipeline);
    read_cuts(b, &v.at[DT_KEY_PIPELINE_cuts], &pipeline);
    if (n_on && pipeline.n_loops)
        DT_PUSH(b->host->arena, b->parallel->pipelines, pipeline);
}

/* ---- micro, zero, remat, auto ---- */

static void read_micro(Block *b, const DtEntry *entry)
{
    if (b->micro_seen.file) {
        DtDiag *d = dt_diag_report(b->host->diags, E0511, entry->span, "a second `micro` line");
        dt_diag_label(d, b->micro_seen, "the first one");
        return;
    }
    b->micro_seen = entry->span;
    if (entry->has_on || entry->args.n || entry->operands.n != 1 ||
        entry->operands.at[0].path.n != 1) {
        DtDiag *d =
            malformed(b, entry->span, DT_SCHEMA_MICRO, "`micro` takes one axis and a number");
        dt_diag_help(d, "write `micro batch = 4`");
        return;
    }
    int64_t n;
    if (!operand_number(b, &entry->operands.at[0], DT_SCHEMA_MICRO, &n))
        return;
    b->parallel->micro_axis = entry->operands.at[0].path.at[0].text;
    b->parallel->micro = n;
    b->parallel->micro_span = entry->span;
}

static void read_zero(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    DtZero zero = {.span = entry->span};
    dt_configargs_read(b->host, DT_SCHEMA_ZERO, entry->args.at, entry->args.n, entry->span, &v);
    zero.prefetch = v.at[DT_KEY_ZERO_prefetch].whole;
    zero.bucket_bytes = v.at[DT_KEY_ZERO_bucket].whole;
    zero.offload_host =
        v.at[DT_KEY_ZERO_offload].word && !strcmp(v.at[DT_KEY_ZERO_offload].word, "host");
    zero.n_on = read_on(b, entry, DT_SCHEMA_ZERO, DT_COUNT(zero.on), zero.on);
    const DtOperand *level = entry->operands.n ? &entry->operands.at[0] : NULL;
    if (entry->operands.n != 1 || level->path.n || level->value || level->integer < 1 ||
        level->integer > 3) {
        DtDiag *d = dt_diag_report(b->host->diags, E0518, level ? level->span : entry->span,
                                   "`zero` has levels 1, 2 and 3");
        dt_diag_note(d, "1 splits optimizer state, 2 also gradients, 3 also parameters");
        return;
    }
    zero.level = (int)level->integer;
    for (uint32_t i = 0; i < b->parallel->zeros.n; i++)
        for (uint32_t k = 0; k < b->parallel->zeros.at[i].n_on; k++)
            for (uint32_t m = 0; m < zero.n_on; m++)
                if (b->parallel->zeros.at[i].on[k] == zero.on[m]) {
                    DtDiag *d = dt_diag_report(b->host->diags, E0518, entry->span,
                                               "two `zero` lines on `%s`", zero.on[m]);
                    dt_diag_label(d, b->parallel->zeros.at[i].span, "the first one");
                    return;
                }
    if (zero.n_on)
        DT_PUSH(b->host->arena, b->parallel->zeros, zero);
}

/* The arguments are settings of the function, which lower_optimizer.c reads. */
static void read_compress(Block *b, const DtEntry *entry)
{
    DtCompress *c = &b->parallel->compress;
    if (c->function) {
        DtDiag *d = dt_diag_report(b->host->diags, E0512, entry->span, "a second `compress` line");
        dt_diag_label(d, c->span, "the first one");
        return;
    }
    const DtOperand *operand = entry->operands.n == 1 ? &entry->operands.at[0] : NULL;
    if (!operand || operand->path.n != 1 || operand->value) {
        malformed(b, entry->span, DT_SCHEMA_COMPRESS, "`compress` names one function");
        return;
    }
    *c = (DtCompress){.function = operand->path.at[0].text, .workers = 1, .span = entry->span};
    c->n_on = read_on(b, entry, DT_SCHEMA_COMPRESS, DT_COUNT(c->on), c->on);
    for (uint32_t i = 0; i < c->n_on; i++)
        c->workers *= b->parallel->mesh.axes[dt_mesh_find(&b->parallel->mesh, c->on[i])].size;
}

/* Reads the mesh axes of a `local` or `gossip` line. */
static void read_replicas(Block *b, const DtEntry *entry, DtSchemaId schema, DtMix mix,
                          int64_t every)
{
    DtReplicas *r = &b->parallel->replicas;
    if (r->mix != DT_MIX_NONE) {
        DtDiag *d = dt_diag_report(b->host->diags, E0512, entry->span,
                                   "replicas are mixed in one way");
        dt_diag_label(d, r->span, "the first line");
        return;
    }
    *r = (DtReplicas){.mix = mix, .every = every, .n = 1, .span = entry->span};
    r->n_on = read_on(b, entry, schema, DT_COUNT(r->on), r->on);
    for (uint32_t i = 0; i < r->n_on; i++)
        r->n *= b->parallel->mesh.axes[dt_mesh_find(&b->parallel->mesh, r->on[i])].size;
}

/* lower_optimizer.c reads the outer optimizer. */
static void read_local(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    dt_configargs_read(b->host, DT_SCHEMA_LOCAL, entry->args.at, entry->args.n, entry->span, &v);
    const DtOperand *operand = entry->operands.n == 1 ? &entry->operands.at[0] : NULL;
    if (!operand || operand->path.n || operand->value || operand->integer < 1) {
        malformed(b, entry->span, DT_SCHEMA_LOCAL, "`local` takes a number of steps");
        return;
    }
    read_replicas(b, entry, DT_SCHEMA_LOCAL, DT_MIX_AVERAGE, operand->integer);
}

static void read_gossip(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    dt_configargs_read(b->host, DT_SCHEMA_GOSSIP, entry->args.at, entry->args.n, entry->span, &v);
    const DtOperand *operand = entry->operands.n == 1 ? &entry->operands.at[0] : NULL;
    const char *word =
        operand && operand->path.n == 1 && !operand->value ? operand->path.at[0].text : "";
    const DtMix mix = !strcmp(word, "ring")    ? DT_MIX_RING
                      : !strcmp(word, "pairs") ? DT_MIX_PAIRS
                                               : DT_MIX_NONE;
    if (mix == DT_MIX_NONE)
        malformed(b, entry->span, DT_SCHEMA_GOSSIP, "`gossip` is over a `ring` or in `pairs`");
    else
        read_replicas(b, entry, DT_SCHEMA_GOSSIP, mix, v.at[DT_KEY_GOSSIP_every].whole);
}

static uint32_t read_path_list(const Block *b, const DtConfigValue *value, uint32_t cap,
                               const char **ret_paths)
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n, out = 0;
    if (!value->expr)
        return 0;
    dt_configargs_items(value->expr, &items, &n, &single);
    for (uint32_t i = 0; i < n; i++) {
        const char *path = dt_configargs_path(items[i]);
        if (!path)
            continue; /* an error was reported with the argument */
        if (out == cap) {
            dt_diag_report(b->host->diags, E0511, items[i]->span, "at most %u names can stand here",
                           cap);
            return out;
        }
        ret_paths[out++] = path;
    }
    return out;
}

static void read_remat(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    DtRemat remat = {.span = entry->span};
    dt_configargs_read(b->host, DT_SCHEMA_REMAT, entry->args.at, entry->args.n, entry->span, &v);
    remat.n_keep = read_path_list(b, &v.at[DT_KEY_REMAT_keep], DT_COUNT(remat.keep), remat.keep);
    remat.n_drop = read_path_list(b, &v.at[DT_KEY_REMAT_drop], DT_COUNT(remat.drop), remat.drop);
    if (remat.n_keep && remat.n_drop)
        malformed(b, entry->span, DT_SCHEMA_REMAT, "`keep` and `drop` exclude each other");
    if (entry->has_on)
        malformed(b, entry->span, DT_SCHEMA_REMAT, "`remat` takes no `on`");
    if (!entry->operands.n)
        malformed(b, entry->span, DT_SCHEMA_REMAT, "`remat` names no loop");
    for (uint32_t i = 0; i < entry->operands.n; i++) {
        const DtOperand *operand = &entry->operands.at[i];
        if (!operand->path.n || operand->value) {
            malformed(b, operand->span, DT_SCHEMA_REMAT, "a loop is named by its label or path");
            continue;
        }
        remat.loop = path_of(operand);
        for (uint32_t k = 0; k < b->parallel->remats.n; k++)
            if (b->parallel->remats.at[k].loop == remat.loop) {
                DtDiag *d = dt_diag_report(b->host->diags, E0512, operand->span,
                                           "`remat` of `%s` twice", remat.loop);
                dt_diag_label(d, b->parallel->remats.at[k].span, "the first one");
            }
        DT_PUSH(b->host->arena, b->parallel->remats, remat);
    }
}

static void read_stream(Block *b, const DtEntry *entry)
{
    DtParallelConfig *p = b->parallel;
    p->stream_span = entry->span;
    if (entry->has_on || entry->args.n || !entry->operands.n) {
        DtDiag *d = malformed(b, entry->span, DT_SCHEMA_STREAM, "`stream` takes axes, or `none`");
        dt_diag_help(d, "write `stream vocab`");
        return;
    }
    for (uint32_t i = 0; i < entry->operands.n; i++) {
        const DtOperand *operand = &entry->operands.at[i];
        if (operand->path.n != 1 || operand->value) {
            malformed(b, operand->span, DT_SCHEMA_STREAM, "`stream` takes axes, or `none`");
            continue;
        }
        const char *axis = operand->path.at[0].text;
        p->stores_products = p->stores_products || axis == dt_intern("none");
        DT_PUSH(b->host->arena, p->streams, axis);
    }
    if (p->stores_products && p->streams.n > 1)
        malformed(b, entry->span, DT_SCHEMA_STREAM,
                  "`none` excludes axes, and other `stream` lines");
}

/* Reads a size such as `64`, or `(64, 1024)` for each kind of node, into ret_counts. */
static void read_counts(const Block *b, const DtConfigValue *value, int64_t ret_counts[2])
{
    DtExpr *const *items;
    DtExpr *single;
    uint32_t n;
    DtConfigNumber number[2] = {0};
    if (!value->expr)
        return;
    dt_configargs_items(value->expr, &items, &n, &single);
    bool good = n == 1 || n == 2;
    for (uint32_t i = 0; good && i < n; i++) {
        if (!b->host->constant(b->host->context, items[i], &number[i]))
            return;
        good = number[i].is_integer && number[i].whole >= 1 && number[i].whole <= 1 << 20;
    }
    if (!good || number[0].whole > number[n - 1].whole) {
        dt_diag_report(b->host->diags, E0452, value->expr->span,
                       "this must be a number of devices, or (least, most)");
        return;
    }
    ret_counts[0] = number[0].whole;
    ret_counts[1] = number[n - 1].whole;
}

static void read_auto(Block *b, const DtEntry *entry)
{
    DtConfigValues v;
    dt_configargs_read(b->host, DT_SCHEMA_AUTO, entry->args.at, entry->args.n, entry->span, &v);
    if (entry->operands.n || entry->has_on)
        malformed(b, entry->span, DT_SCHEMA_AUTO, "`auto` takes options in parentheses only");
    b->parallel->is_auto = true;
    b->parallel->auto_goal = v.at[DT_KEY_AUTO_minimise].word;
    if (b->parallel->auto_goal && !strcmp(b->parallel->auto_goal, "gpu_hours"))
        b->parallel->auto_goal = "device_hours";
    b->parallel->auto_memory = v.at[DT_KEY_AUTO_memory].number;
    if (b->parallel->auto_memory <= 0)
        dt_diag_report(b->host->diags, E0452, v.at[DT_KEY_AUTO_memory].span,
                       "this must be above 0 and at most 1");
    read_counts(b, &v.at[DT_KEY_AUTO_gpus], b->parallel->auto_gpus);
    b->parallel->auto_span = entry->span;
}

/* The lowering has chosen the block already (dt_configset_default). */
static void read_default(const Block *b, const DtEntry *entry)
{
    if (entry->operands.n || entry->has_on || entry->args.n)
        malformed(b, entry->span, DT_SCHEMA_DEFAULT, "`default` stands alone");
}

/* ---- the block ---- */

static void unknown_directive(const Block *b, const DtEntry *entry)
{
    const char *names[DT_SCHEMA_COUNT];
    size_t n = 0;
    for (int i = 0; i < DT_SCHEMA_COUNT; i++)
        if (dt_config_schemas[i].config_class == DT_CONFIG_VERB)
            names[n++] = dt_config_schemas[i].name;
    DtDiag *d = dt_diag_report(b->host->diags, E0506, entry->verb.span,
                               "there is no directive `%s`", entry->verb.text);
    dt_diag_note(d, "a directive is %s", dt_configargs_list(b->host->arena, DT_CONFIG_VERB));
    if (!dt_foreign_help(d, DT_FOREIGN_LAYOUT, (DtSpan){0}, entry->verb.text))
        dt_configargs_suggest(d, entry->verb.span, entry->verb.text, names, n);
}

static void read_directive(Block *b, const DtEntry *entry)
{
    switch (dt_configargs_find(DT_CONFIG_VERB, entry->verb.text)) {
    case DT_SCHEMA_MESH: break; /* the mesh was read before other directives */
    case DT_SCHEMA_SHARD: read_shard(b, entry); break;
    case DT_SCHEMA_PIPELINE: read_pipeline(b, entry); break;
    case DT_SCHEMA_MICRO: read_micro(b, entry); break;
    case DT_SCHEMA_ZERO: read_zero(b, entry); break;
    case DT_SCHEMA_COMPRESS: read_compress(b, entry); break;
    case DT_SCHEMA_LOCAL: read_local(b, entry); break;
    case DT_SCHEMA_GOSSIP: read_gossip(b, entry); break;
    case DT_SCHEMA_REMAT: read_remat(b, entry); break;
    case DT_SCHEMA_STREAM: read_stream(b, entry); break;
    case DT_SCHEMA_AUTO: read_auto(b, entry); break;
    case DT_SCHEMA_DEFAULT: read_default(b, entry); break;
    default: unknown_directive(b, entry); break;
    }
}

/* Reports lines that split values or parameters by the pipeline's mesh axis, whose ranks hold
 * different layers. */
static void check_pipeline_axis(const Block *b)
{
    const DtParallelConfig *p = b->parallel;
    for (uint32_t i = 0; i < p->pipelines.n; i++) {
        const char *on = p->pipelines.at[i].on;
        for (uint32_t k = 0; k < p->shards.n; k++)
            for (uint32_t m = 0; m < p->shards.at[k].n_mesh; m++)
                if (p->shards.at[k].mesh[m] == on) {
                    DtDiag *d = dt_diag_report(b->host->diags, E0602, p->shards.at[k].span,
                                               "`%s` is the pipeline's mesh axis", on);
                    dt_diag_label(d, p->pipelines.at[i].span, "its ranks hold different layers");
                }
        for (uint32_t k = 0; k < p->zeros.n; k++)
            for (uint32_t m = 0; m < p->zeros.at[k].n_on; m++)
                if (p->zeros.at[k].on[m] == on) {
                    DtDiag *d = dt_diag_report(b->host->diags, E0602, p->zeros.at[k].span,
                                               "`%s` is the pipeline's mesh axis", on);
                    dt_diag_label(d, p->pipelines.at[i].span,
                                  "its ranks hold different parameters, there is nothing to split");
                }
    }
}

static void check_unused(const Block *b)
{
    const DtMesh *mesh = &b->parallel->mesh;
    if (b->parallel->is_auto || b->used_unknown)
        return;
    for (uint32_t i = 0; i < mesh->n; i++) {
        if (b->used >> i & 1 || mesh->axes[i].size <= 1)
            continue;
        DtDiag *d = dt_diag_report(b->host->diags, E0503, b->parallel->mesh_span,
                                   "no directive uses mesh axis `%s`", mesh->axes[i].name);
        dt_diag_note(d, "its %lld ranks would all do the same work", (long long)mesh->axes[i].size);
        dt_diag_help(d, "split something over it, such as `shard batch on %s`", mesh->axes[i].name);
    }
    if (!mesh->n && !b->parallel->mesh_span.file) {
        DtDiag *d = dt_diag_report(b->host->diags, E0505, b->item->name.span,
                                   "this block has no `mesh` line");
        dt_diag_help(d, "add `mesh data = n`, n being the number of devices, or `auto`");
    }
}

DtParallelConfig *dt_configparallel_read(const DtConfigHost *host, const DtItem *item)
{
    DtParallelConfig *parallel = DT_NEW(host->arena, DtParallelConfig);
    Block b = {.host = host, .item = item, .parallel = parallel};
    parallel->name = item->name.text;
    parallel->cluster = item->on.text;
    parallel->micro = 1;
    parallel->span = item->span;
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (entry->is_directive && entry->verb.text && !strcmp(entry->verb.text, "mesh"))
            read_mesh(&b, entry);
    }
    for (uint32_t i = 0; i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (entry->is_directive && entry->targets.n == 0) {
            read_directive(&b, entry);
            continue;
        }
        DtDiag *d = dt_diag_report(host->diags, E0459, entry->span,
                                   "a `parallel` block has directives only");
        dt_diag_note(d, "a directive is %s", dt_configargs_list(host->arena, DT_CONFIG_VERB));
    }
    check_pipeline_axis(&b);
    check_unused(&b);
    return parallel;
}

/* Returns the sizes of a mesh and their product as text: "2 x 8 = 16". */
static const char *product_text(DtArena *arena, const DtMesh *mesh, int64_t product)
{
    const char *text = "";
    for (uint32_t i = 0; i < mesh->n; i++)
        text =
            dt_arena_printf(arena, "%s%s%lld", text, i ? " x " : "", (long long)mesh->axes[i].size);
    return mesh->n > 1 ? dt_arena_printf(arena, "%s = %lld", text, (long long)product) : text;
}

void dt_configparallel_check(const DtConfigHost *host, const DtParallelConfig *parallel,
                             const DtClusterConfig *cluster)
{
    const DtMesh *mesh = &parallel->mesh;
    int64_t product = 1, devices = cluster ? cluster->nodes * cluster->gpus : 0;
    if (!cluster || !parallel->mesh_span.file || !mesh->n)
        return;
    for (uint32_t i = 0; i < mesh->n; i++)
        if (__builtin_mul_overflow(product, mesh->axes[i].size, &product))
            product = INT64_MAX;
    if (product == devices || product == 0)
        return;
    DtDiag *d =
        dt_diag_report(host->diags, E0501, parallel->mesh_span,
                       "the mesh has %s ranks, cluster `%s` has %lld devices",
                       product_text(host->arena, mesh, product), cluster->name, (long long)devices);
    dt_diag_label(d, cluster->span, "%lld node%s with %lld device%s each",
                  (long long)cluster->nodes, cluster->nodes == 1 ? "" : "s",
                  (long long)cluster->gpus, cluster->gpus == 1 ? "" : "s");
    dt_diag_help(d, "every device is a rank: change the mesh or the cluster so that they agree");
}
