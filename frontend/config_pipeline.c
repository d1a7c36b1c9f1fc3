/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline line against the program: which loops it names, and whether they make enough
 * pieces.
 *
 * The loops that can be cut are those that no other loop surrounds, in whatever model or layer they
 * are written. Such a loop is known by its path, the labels of the instances around it and its own
 * (`encoder.h`). A line names it by that path, by any end of the path (`h`) or by its dim, provided
 * that this names no other loop. The line then gets the whole path, which the loop has once calls
 * are inlined. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

enum { DEEPEST = 64 };

/* A loop of the program. */
typedef struct Loop {
    const char *path, *axis;
    const char *around; /* path of the outermost loop that contains it; NULL: none does */
    int64_t count;
} Loop;

typedef DT_VEC(Loop) Loops;

typedef struct Check {
    const DtConfigHost *host;
    DtConfigItems items;
    const DtProgram *program;
    const DtConfigFacts *facts;
    const DtPipeline *line;
    Loops loops;
} Check;

/* ---- the program's loops ---- */

static const char *join(const char *prefix, const char *label)
{
    if (!label || !*label)
        return prefix;
    return *prefix ? dt_intern_printf("%s.%s", prefix, label) : label;
}

static void add_loop(Check *c, Loop loop)
{
    for (uint32_t i = 0; i < c->loops.n; i++)
        if (c->loops.at[i].path == loop.path)
            return;
    DT_PUSH(c->host->arena, c->loops, loop);
}

static void list_loops(Check *c, const DtFunc *func, const char *prefix, const char *around,
                       int depth)
{
    for (uint32_t i = 0; depth < DEEPEST && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool is_loop = op->kind == DT_OP_LOOP;
        if (!op->func)
            continue;
        const char *path = join(prefix, is_loop ? op->loop->label : op->text);
        if (is_loop)
            add_loop(c, (Loop){path, op->loop->axis, around, op->loop->count});
        list_loops(c, op->func, path, is_loop && !around ? path : around, depth + 1);
    }
}

/* ---- names ---- */

typedef enum Match { NONE, AXIS, END, PATH } Match; /* in ascending order of quality */

static Match match(const Loop *loop, const char *name)
{
    const size_t n = strlen(name), len = strlen(loop->path);
    if (loop->path == name)
        return PATH;
    if (len > n && loop->path[len - n - 1] == '.' && strcmp(loop->path + len - n, name) == 0)
        return END;
    return loop->axis == name ? AXIS : NONE;
}

/* Returns the loops whose names match best. Loops inside others count only if no other loop
 * matches. */
static Loops find(const Check *c, const char *name)
{
    Loops found = {0};
    Match best = NONE;
    for (int inner = 0; inner < 2 && found.n == 0; inner++)
        for (uint32_t i = 0; i < c->loops.n; i++) {
            const Match how = match(&c->loops.at[i], name);
            if (how == NONE || how < best || (c->loops.at[i].around != NULL) != inner)
                continue;
            if (how > best)
                found.n = 0;
            best = how;
            DT_PUSH(c->host->arena, found, c->loops.at[i]);
        }
    return found;
}

static DtSpan span_of(const Check *c, const char *name)
{
    const char *dot = strchr(name, '.'), *last = strrchr(name, '.');
    const char *first = dot ? dt_intern_n(name, (size_t)(dot - name)) : name;
    DtSpan span = dt_configcheck_operand(c->items, c->line->span, first);
    if (last)
        span.hi = dt_configcheck_operand(c->items, c->line->span, dt_intern(last + 1)).hi;
    return span;
}

static const char *list_of(const Check *c, const Loops *loops)
{
    const char *list = "";
    for (uint32_t i = 0; i < loops->n; i++)
        list = dt_arena_printf(c->host->arena, "%s%s`%s`", list, i ? ", " : "", loops->at[i].path);
    return list;
}

static void reject_unknown(const Check *c, const char *name)
{
    const DtSpan span = span_of(c, name);
    Loops outer = {0};
    const char **names = DT_NEW_ARRAY(c->host->arena, const char *, c->loops.n + 1);
    for (uint32_t i = 0; i < c->loops.n; i++)
        if (!c->loops.at[i].around) {
            names[outer.n] = c->loops.at[i].path;
            DT_PUSH(c->host->arena, outer, c->loops.at[i]);
        }
    DtDiag *d = dt_diag_report(c->host->diags, E0601, span, "the program has no loop `%s`", name);
    if (outer.n)
        dt_diag_note(d, "its loops are %s", list_of(c, &outer));
    else
        dt_diag_note(d, "it has no `repeat` that stays a loop (one over a tuple is unrolled)");
    dt_configargs_suggest(d, span, name, names, outer.n);
}

/* Returns the loop that the name means; NULL after a diagnostic if there is none, if there are
 * several, or if it is inside of another loop. */
static const Loop *resolve(const Check *c, const char *name)
{
    const Loops found = find(c, name);
    if (found.n == 0) {
        reject_unknown(c, name);
        return NULL;
    }
    if (found.n > 1) {
        DtDiag *d = dt_diag_report(c->host->diags, E0601, span_of(c, name),
                                   "`%s` names %u loops: %s", name, found.n, list_of(c, &found));
        dt_diag_help(d, "name them by these paths");
        return NULL;
    }
    if (found.at[0].around) {
        DtDiag *d = dt_diag_report(c->host->diags, E0601, span_of(c, name),
                                   "loop `%s` stands inside of loop `%s`", found.at[0].path,
                                   found.at[0].around);
        dt_diag_note(d,
                     "a pipeline is cut between iterations of loops that no other one surrounds");
        dt_diag_help(d, "write `pipeline %s on %s`", found.at[0].around, c->line->on);
        return NULL;
    }
    return &found.at[0];
}

/* ---- pieces ---- */

static int64_t mesh_size(const DtParallelConfig *p, const char *name)
{
    for (uint32_t i = 0; i < p->mesh.n; i++)
        if (p->mesh.axes[i].name == name)
            return p->mesh.axes[i].size;
    return 1;
}

static void check_cuts(const Check *c, int64_t pieces, int64_t total)
{
    const DtPipeline *line = c->line;
    uint32_t n = line->n_cuts + line->n_named_cuts;
    if (n && n != pieces - 1)
        dt_diag_report(c->host->diags, E0606, line->span, "%lld pieces need %lld cut%s, not %u",
                       (long long)pieces, (long long)pieces - 1, pieces == 2 ? "" : "s", n);
    for (uint32_t i = 0; i < line->n_cuts; i++)
        if (line->cuts[i] > total) {
            dt_diag_report(c->host->diags, E0606, line->span,
                           "a cut after %lld iterations: there are %lld", (long long)line->cuts[i],
                           (long long)total);
            return;
        }
}

/* Refuses a pipeline with more pieces than are possible. The parts before, between and after the
 * loops may be pieces of their own, unless they are empty; only the stage pass knows that
 * (stage_cut.c). */
static void check_pieces(const Check *c, int64_t stages, int64_t total)
{
    const DtPipeline *line = c->line;
    const int64_t pieces = stages * line->chunks, parts = total + line->n_loops + 1;
    if (line->n_named_cuts > 0 || pieces <= parts) {
        check_cuts(c, pieces, total);
        return;
    }
    DtDiag *d =
        dt_diag_report(c->host->diags, E0605, line->span,
                       "%lld iterations and what stands around them cannot be cut into %lld pieces",
                       (long long)total, (long long)pieces);
    dt_diag_note(d,
                 "%lld ranks with %lld chunk%s each; what precedes the first loop and what follows "
                 "the last one may "
                 "be pieces of their own",
                 (long long)stages, (long long)line->chunks, line->chunks == 1 ? "" : "s");
    if (total / stages > 1)
        dt_diag_help(d, "with an iteration in each piece, the largest `chunks` is %lld",
                     (long long)(total / stages));
    else
        dt_diag_help(d, "with an iteration in each piece, at most %lld stages",
                     (long long)(total / line->chunks));
}

/* ---- the line ---- */

static bool has_label(const Check *c, const char *label)
{
    for (uint32_t i = 0; i < c->facts->labels.n; i++)
        if (c->facts->labels.at[i] == label)
            return true;
    return false;
}

static bool check_named_cuts(const Check *c)
{
    bool known = true;
    for (uint32_t i = 0; i < c->line->n_named_cuts; i++) {
        const char *cut = c->line->named_cuts[i], *dot = strrchr(cut, '.');
        if (has_label(c, dt_intern(dot ? dot + 1 : cut)) || has_label(c, cut))
            continue;
        dt_diag_report(c->host->diags, E0606, c->line->span,
                       "there is no instance `%s` to cut before", cut);
        known = false;
    }
    return known;
}

static bool is_model(const Check *c, const char *name)
{
    if (strcmp(name, "model") == 0)
        return true;
    for (uint32_t i = 0; i < c->program->module->funcs.n; i++) {
        const DtFunc *func = c->program->module->funcs.at[i];
        if (func->kind == DT_FUNC_MODEL && dt_graph_source_name(func) == name)
            return true;
    }
    return false;
}

/* Replaces the names of loops in the line by their full paths, and returns the iterations of all of
 * them; -1 after a diagnostic. */
static int64_t count_iterations(const Check *c, DtPipeline *line)
{
    int64_t total = 0;
    bool known = true;
    for (uint32_t i = 0; i < line->n_loops; i++) {
        const Loop *loop = resolve(c, line->loops[i]);
        for (uint32_t k = 0; loop && k < i; k++)
            if (line->loops[k] == loop->path) {
                dt_diag_report(c->host->diags, E0512, span_of(c, line->loops[i]),
                               "loop `%s` is named twice", loop->path);
                loop = NULL;
            }
        if (loop)
            line->loops[i] = loop->path;
        total += loop ? loop->count : 0;
        known = known && loop != NULL;
    }
    return known ? total : -1;
}

/* Whether the line names the model, and not loops, as a line does that cuts before layers
 * (instances) of the model. */
static bool names_model(const Check *c)
{
    bool model = c->line->n_named_cuts > 0;
    for (uint32_t i = 0; i < c->line->n_loops; i++)
        model = model && find(c, c->line->loops[i]).n == 0 && is_model(c, c->line->loops[i]);
    return model;
}

bool dt_configpipeline_knows(const DtConfigHost *host, const DtProgram *program, const char *path)
{
    Check c = {.host = host, .program = program};
    for (uint32_t i = 0; i < program->module->entries.n; i++)
        list_loops(&c, program->module->entries.at[i].func, "", NULL, 0);
    for (uint32_t i = 0; i < c.loops.n; i++)
        if (!c.loops.at[i].around && match(&c.loops.at[i], path) >= END)
            return true;
    return false;
}

/* Adds a help with a number of micro-batches: the smallest one that is at least `wanted` and
 * divides the samples of a rank, or else the largest possible one. */
static void help_micro(const Check *c, DtDiag *d, const DtParallelConfig *p, int64_t wanted)
{
    const DtTrainConfig *train = c->program->train;
    if (!train || !train->readers.n || !train->readers.at[0].n_inputs)
        return;
    const DtAxis *samples = &train->readers.at[0].types[0]->axes[0];
    int64_t each = samples->extent, best = 1;
    for (uint32_t i = 0; i < p->shards.n; i++)
        for (uint32_t a = 0; a < p->shards.at[i].n_axes && p->shards.at[i].n_place == 0; a++)
            for (uint32_t m = 0;
                 p->shards.at[i].axes[a] == samples->name && m < p->shards.at[i].n_mesh; m++)
                each /= mesh_size(p, p->shards.at[i].mesh[m]);
    for (int64_t n = 1; n <= each && n <= 1 << 16 && best < wanted; n++)
        best = each % n == 0 ? n : best;
    if (best > p->micro)
        dt_diag_help(d, "`micro %s = %lld`", samples->name, (long long)best);
    if (best < wanted)
        dt_diag_note(d,
                     "a rank has %lld samples of a step, so there are at most so many "
                     "micro-batches: with a larger "
                     "`%s` there can be more",
                     (long long)each, samples->name);
}

void dt_configpipeline_check(const DtConfigHost *host, DtConfigItems items,
                             const DtProgram *program, const DtConfigFacts *facts,
                             const DtParallelConfig *p, DtPipeline *line)
{
    Check c = {.host = host, .items = items, .program = program, .facts = facts, .line = line};
    if (program->train && program->train->objectives.n > 1) {
        DtDiag *d = dt_diag_report(host->diags, E0592, line->span,
                                   "a pipeline for several losses is not there yet");
        dt_diag_label(d, program->train->objectives.at[1].span, "the second one");
        dt_diag_note(d, "each loss runs other parts of the model in its turn, and stages have a "
                        "schedule for one");
        dt_diag_help(d,
                     "split samples and parameters over the ranks instead: `shard batch on %s`, "
                     "`zero 3 on %s`",
                     line->on, line->on);
        return;
    }
    const int64_t stages = mesh_size(p, line->on);
    for (uint32_t i = 0; i < program->module->entries.n; i++)
        list_loops(&c, program->module->entries.at[i].func, "", NULL, 0);
    const bool model = names_model(&c);
    const int64_t total = model ? INT64_MAX : count_iterations(&c, line);
    if (check_named_cuts(&c) && total >= 0) {
        if (model)
            check_cuts(&c, stages * line->chunks, total);
        else
            check_pieces(&c, stages, total);
    }
    if (p->micro < stages) {
        DtDiag *d =
            dt_diag_report(host->diags, L0608, line->span,
                           "%lld stages with %lld micro-batch%s: stages wait for each other",
                           (long long)stages, (long long)p->micro, p->micro == 1 ? "" : "es");
        help_micro(&c, d, p, 4 * stages);
    }
}
