/* SPDX-License-Identifier: Apache-2.0 */
/* Extents against the mesh of the chosen layout: an axis that a shard line splits must be a
 * multiple of the ranks that split it. Looks at the values whose placement the rules fix
 * (parameters, inputs, arguments and results of layers); each gets its mesh axes as the language
 * says: lines in order, axes in the order of the line, mesh axes that no earlier axis of the value
 * took. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

enum { NEAR = 1 << 16 }; /* how many numbers of micro-batches are tried for a fix */

typedef struct Extents {
    const DtConfigHost *host;
    DtConfigItems items;
    const DtProgram *program;
    const DtParallelConfig *parallel;
    DT_VEC(const char *) reported; /* axes with an error so far */
} Extents;

static bool was_reported(Extents *e, const char *axis)
{
    for (uint32_t i = 0; i < e->reported.n; i++)
        if (e->reported.at[i] == axis)
            return true;
    DT_PUSH(e->host->arena, e->reported, axis);
    return false;
}

static int mesh_index(const DtMesh *mesh, const char *name)
{
    for (uint32_t i = 0; i < mesh->n; i++)
        if (mesh->axes[i].name == name)
            return (int)i;
    return -1;
}

/* Returns " = 29 x 1733" or " is prime" for messages; "" for a number that has no divisor below
 * 2^20 and is too large to be proved prime. */
static const char *factors(DtArena *arena, int64_t n)
{
    const int64_t most = 1 << 20;
    const char *text = "";
    if (n < 2)
        return "";
    const bool is_small = n < most * most;
    for (int64_t f = 2; f * f <= n && f < most; f++)
        for (; n % f == 0; n /= f)
            text = dt_arena_printf(arena, "%s%s%lld", text, *text ? " x " : "", (long long)f);
    if (!*text)
        return is_small ? " is prime" : "";
    return n > 1 ? dt_arena_printf(arena, " = %s x %lld", text, (long long)n)
                 : dt_arena_printf(arena, " = %s", text);
}

/* Returns the expression that a dim line binds to name; NULL if it is no dim. */
static const DtExpr *dim_value(const Extents *e, const char *name)
{
    for (uint32_t i = 0; i < e->items.n; i++)
        for (uint32_t k = 0; k < e->items.at[i]->binds.n; k++)
            if (e->items.at[i]->binds.at[k].name.text == name)
                return e->items.at[i]->binds.at[k].value;
    return NULL;
}

static void label_dim(const Extents *e, DtDiag *d, const DtAxis *axis)
{
    const DtExpr *value = dim_value(e, axis->name);
    if (value)
        dt_diag_label(d, value->span, "%lld%s", (long long)axis->extent,
                      factors(e->host->arena, axis->extent));
    else
        dt_diag_note(d, "%lld%s", (long long)axis->extent,
                     factors(e->host->arena, axis->extent));
}

/* Returns a multiple of ranks to pad to: of a round number, too, if that adds at most one
 * percent. */
static int64_t pad_for(int64_t extent, int64_t ranks)
{
    static const int64_t round[] = {128, 64, 8};
    for (size_t i = 0; i < DT_COUNT(round); i++) {
        int64_t unit = dt_config_lcm(ranks, round[i]), padded = (extent + unit - 1) / unit * unit;
        if ((padded - extent) * 100 <= extent)
            return unit;
    }
    return ranks;
}

/* How mesh axes split an axis of a value. */
typedef struct Cut {
    int64_t extent;        /* extent with the axis' padding */
    int64_t ranks;         /* number of ranks that split it */
    const char *mesh;      /* names of the mesh axes that split it, for messages */
    const DtShard *line;   /* the last line that splits it */
    bool zigzag, padded;
} Cut;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Help for an axis with fewer elements than ranks, such as heads of keys and values: give a part of
 * the ranks a mesh axis of its own, and split the axis by that. */
static void help_two_axes(DtDiag *d, const DtAxis *axis, const Cut *cut)
{
    const int64_t parts = common_divisor(cut->extent, cut->ranks);
    const char *mesh = cut->line->n_mesh == 1 ? cut->line->mesh[0] : NULL;
    if (!mesh || cut->zigzag || parts < 2 || parts == cut->ranks)
        return;
    dt_diag_help(
        d,
        "make two mesh axes of it, `mesh %s = %lld, %s2 = %lld`: split `%s` over the first, "
        "`shard %s on %s`, and over both what divides over both, `shard ... on %s, %s2`",
        mesh, (long long)parts, mesh, (long long)(cut->ranks / parts), axis->name, axis->name, mesh,
        mesh, mesh);
}

static void report_shard(Extents *e, const DtAxis *axis, const Cut *cut)
{
    const DtShard *line = cut->line;
    const int64_t blocks = cut->zigzag ? 2 * cut->ranks : cut->ranks;
    DtSpan span = dt_configcheck_operand(e->items, line->span, axis->name);
    if (was_reported(e, axis->name) ||
        dt_diag_has_at(e->host->diags, E0508, span)) /* the axis is a loop's */
        return;
    DtDiag *d = dt_diag_report(e->host->diags, E0502, span,
                               "`%s` (%lld%s) does not divide over %s (%lld %s)", axis->name,
                               (long long)cut->extent, cut->padded ? " with its padding" : "",
                               cut->mesh, (long long)blocks, cut->zigzag ? "blocks" : "ranks");
    dt_diag_caret(d, "split requested here");
    label_dim(e, d, axis);
    help_two_axes(d, axis, cut);
    int64_t unit = pad_for(axis->extent, blocks), padded = (axis->extent + unit - 1) / unit * unit;
    if (cut->padded) {
        dt_diag_help(d, "`pad = %lld`", (long long)unit);
        return;
    }
    if (padded > INT32_MAX) { /* positions are i32 */
        dt_diag_help(d, "an extent that is a multiple of %lld", (long long)blocks);
        return;
    }
    size_t len;
    const char *source = dt_diag_source(e->host->diags, line->span.file, &len);
    bool has_options =
        line->span.hi <= len && line->span.hi > 0 && source[line->span.hi - 1] == ')';
    uint32_t at = has_options ? line->span.hi - 1 : line->span.hi;
    const char *insert = dt_arena_printf(
        e->host->arena, has_options ? ", pad = %lld" : " (pad = %lld)", (long long)unit);
    dt_diag_fix(d, (DtSpan){line->span.file, at, at}, insert,
                "pad with %lld masked elements (%.*f%% of the axis)",
                (long long)(padded - axis->extent),
                padded - axis->extent < axis->extent / 10 ? 2 : 0,
                100.0 * (double)(padded - axis->extent) / (double)axis->extent);
}

static void fix_micro(Extents *e, DtDiag *d, const DtAxis *axis, int64_t n, int64_t each)
{
    dt_diag_fix(d, e->parallel->micro_span,
                dt_arena_printf(e->host->arena, "micro %s = %lld", axis->name, (long long)n),
                "%lld micro-batch%s of %lld sample%s on a rank", (long long)n, n == 1 ? "" : "es",
                (long long)each, each == 1 ? "" : "s");
}

static void report_micro(Extents *e, const DtAxis *axis, int64_t ranks)
{
    if (was_reported(e, axis->name))
        return;
    DtSpan span = e->parallel->micro_span;
    DtDiag *d =
        ranks == 1
            ? dt_diag_report(e->host->diags, E0502, span,
                             "`%s` (%lld) does not divide into %lld micro-batches", axis->name,
                             (long long)axis->extent, (long long)e->parallel->micro)
            : dt_diag_report(
                  e->host->diags, E0502, span,
                  "`%s` (%lld) does not divide into %lld micro-batches on %lld ranks each",
                  axis->name, (long long)axis->extent, (long long)e->parallel->micro,
                  (long long)ranks);
    label_dim(e, d, axis);
    if (axis->extent % ranks != 0)
        return;
    const int64_t most = axis->extent / ranks; /* with this many micro-batches each has one
                                                * sample */
    const int64_t micro = e->parallel->micro < most ? e->parallel->micro : most;
    for (int64_t n = micro; n > 0 && n > micro - NEAR; n--)
        if (most % n == 0) {
            fix_micro(e, d, axis, n, most / n);
            break;
        }
    for (int64_t n = e->parallel->micro; n <= most && n - e->parallel->micro < NEAR; n++)
        if (most % n == 0) {
            fix_micro(e, d, axis, n, most / n);
            break;
        }
}

/* Whether the line applies at this place (a function's name, or a parameter's path): it is general,
 * or limited to the place. */
static bool applies(const DtShard *line, const char *place)
{
    if (!line->n_place)
        return true;
    if (!place)
        return false;
    const char *last = line->place[line->n_place - 1], *dot = strrchr(place, '.');
    return !strcmp(dot ? dot + 1 : place, last);
}

/* Adds to the cut those mesh axes of the line that do not split an earlier axis of the value, and
 * marks them in *taken (bits). */
static void give(const Extents *e, const DtShard *line, uint32_t *taken, Cut *cut)
{
    for (uint32_t m = 0; m < line->n_mesh; m++) {
        int index = mesh_index(&e->parallel->mesh, line->mesh[m]);
        if (index < 0 || *taken >> index & 1)
            continue;
        *taken |= 1u << index;
        cut->ranks *= e->parallel->mesh.axes[index].size;
        cut->mesh = dt_arena_printf(e->host->arena, "%s%s`%s`", cut->mesh, *cut->mesh ? ", " : "",
                                    line->mesh[m]);
        cut->line = line;
        cut->zigzag = cut->zigzag || line->zigzag;
    }
}

/* Returns the axis before any line splits it, with its padding, which belongs to the axis, not to
 * the line that splits it. */
static Cut cut_of(const Extents *e, const DtAxis *axis)
{
    const int64_t unit = dt_config_pad_unit(e->parallel, axis->name);
    return (Cut){.extent = unit > 1 && unit >= INT32_MAX - axis->extent
                               ? 0 /* pass `pad` reports that this is too large */
                               : (axis->extent + unit - 1) / unit * unit,
                 .ranks = 1, .mesh = "", .padded = unit > 1};
}

static void check_type(Extents *e, const DtType *type, const char *place)
{
    uint32_t taken = 0;
    Cut cuts[DT_MAX_RANK];
    for (uint32_t a = 0; a < type->rank; a++)
        cuts[a] = cut_of(e, &type->axes[a]);
    for (uint32_t i = 0; i < e->parallel->shards.n; i++) {
        const DtShard *line = &e->parallel->shards.at[i];
        for (uint32_t k = 0; k < line->n_axes; k++) {
            int at = dt_type_find(type, line->axes[k]);
            if (at < 0 || type->axes[at].extent == 1)
                continue;
            if (applies(line, place))
                give(e, line, &taken, &cuts[at]);
        }
    }
    for (uint32_t a = 0; a < type->rank; a++)
        if (cuts[a].line && cuts[a].extent % (cuts[a].zigzag ? 2 * cuts[a].ranks : cuts[a].ranks))
            report_shard(e, &type->axes[a], &cuts[a]);
    int at = e->parallel->micro_axis ? dt_type_find(type, e->parallel->micro_axis) : -1;
    int64_t parts;
    if (at < 0 || type->axes[at].extent == 1)
        return;
    if (__builtin_mul_overflow(e->parallel->micro, cuts[at].ranks, &parts) ||
        type->axes[at].extent % parts)
        report_micro(e, &type->axes[at], cuts[at].ranks);
}

/* Whether the product of the mesh's sizes is below 2^31. */
static bool mesh_is_sane(const DtMesh *mesh)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < mesh->n; i++)
        if (__builtin_mul_overflow(product, mesh->axes[i].size, &product))
            return false;
    return product < (int64_t)1 << 31;
}

void dt_configextents_check(const DtConfigHost *host, DtConfigItems items, const DtProgram *program)
{
    Extents e = {.host = host, .items = items, .program = program, .parallel = program->parallel};
    const DtModule *module = program->module;
    if (!e.parallel || !mesh_is_sane(&e.parallel->mesh))
        return;
    for (uint32_t i = 0; i < module->stores.n; i++)
        check_type(&e, module->stores.at[i]->type, module->stores.at[i]->path);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtFunc *func = module->funcs.at[i];
        bool bound = func->kind == DT_FUNC_LAYER || func->kind == DT_FUNC_MODEL;
        for (uint32_t k = 0; bound && k < func->n_args; k++)
            check_type(&e, func->inputs.at[k]->type, dt_graph_source_name(func));
        for (uint32_t k = 0; bound && k < func->n_returns; k++)
            check_type(&e, func->results.at[k]->type, dt_graph_source_name(func));
        for (uint32_t k = 0; k < func->ops.n; k++)
            if (func->ops.at[k]->kind == DT_OP_INPUT)
                check_type(&e, func->ops.at[k]->out[0]->type, NULL);
    }
}
