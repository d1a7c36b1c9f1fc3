/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a plan fits into memory (E0701), and which change would make it fit.
 *
 * Changes are not estimated: each is a line of the parallel block, with which the program is
 * compiled like any other, without kernels and proofs. Changes are tried from the smallest to
 * the largest: one line, then several; the diagnostic shows the first that fits as text. If none
 * does, `auto` looks for a layout. */
#include "cli/auto.h"
#include "cli/fit.h"

#include "codegen/target.h"

#include "plan/read.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"

#include <stdlib.h>
#include <string.h>

/* ---- devices ---- */

_Static_assert((int)DT_NODE_KINDS == (int)DT_COST_NODE_KINDS,
               "a model has the kinds that a cluster has");

bool dt_fit_model(const DtProgram *program, DtCostModel *ret_model)
{
    const DtClusterConfig *cluster = program->cluster;
    const DtDevices known = {program->devices.at, program->devices.n};
    const DtDevice *device = cluster ? cluster->kinds[0].device : dt_device_find(known, "cpu");
    for (uint32_t k = 1; cluster && device && k < cluster->n_kinds; k++)
        device = cluster->kinds[k].device ? device : NULL;
    if (!device)
        return false;
    *ret_model = (DtCostModel){.device = device, .nodes = 1, .ranks_per_node = INT64_MAX};
    if (!cluster)
        return true;
    ret_model->stack = cluster->stack;
    ret_model->nodes = cluster->nodes;
    ret_model->n_kinds = cluster->n_kinds > 1 ? cluster->n_kinds : 0;
    for (uint32_t k = 0; k < ret_model->n_kinds; k++)
        ret_model->kinds[k] = (DtCostNodes){cluster->kinds[k].device, cluster->kinds[k].nodes};
    ret_model->ranks_per_node = cluster->gpus;
    ret_model->link = (DtCostLink){cluster->intra.bytes_per_second, cluster->intra.seconds};
    ret_model->nic = (DtCostLink){cluster->inter.bytes_per_second, cluster->inter.seconds};
    return true;
}

static const char usual[] = "sm_90a";

/* Targets by the beginning of the name of the device, or of the one that it is like. Other GPUs get
 * code for compute capability 9.0. Code for 8.0 also runs on 8.9. NULL: there is no target. */
static const char *target_of(const DtNodeKind *kind)
{
    static const struct { const char *device, *target; } rows[] = {
        {"a100", "sm_80"}, {"l40", "sm_80"}, {"b200", "sm_100a"}, {"v100", NULL}, {"mi300", NULL},
    };
    const char *name = kind->device && kind->device->family ? kind->device->family : kind->gpu;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (!strncmp(name, rows[i].device, strlen(rows[i].device)))
            return rows[i].target;
    return usual;
}

static bool is_of_gpus(const DtClusterConfig *cluster)
{
    return cluster && cluster->kinds[0].device && cluster->kinds[0].device->is_gpu;
}

const char *dt_fit_target(DtArena *arena, const DtProgram *program)
{
    const DtClusterConfig *cluster = program->cluster;
    const char *targets = "";
    if (!is_of_gpus(cluster))
        return "cpu";
    for (uint32_t k = 0; k < cluster->n_kinds; k++) {
        const char *target = target_of(&cluster->kinds[k]);
        target = target ? target : usual;
        if (!strstr(targets, target))
            targets = dt_arena_printf(arena, "%s%s%s", targets, *targets ? "," : "", target);
    }
    return targets;
}

const char *dt_fit_lacks(const DtProgram *program)
{
    const DtClusterConfig *cluster = program->cluster;
    for (uint32_t k = 0; is_of_gpus(cluster) && k < cluster->n_kinds; k++)
        if (!target_of(&cluster->kinds[k]))
            return cluster->kinds[k].gpu;
    return NULL;
}

/* ---- changes ---- */

enum { MOST_LINES = 3, MOST_CHANGES = 48, MOST_OF_KIND = 6, SHOWN = 5 };

/* A line to write into the parallel block, and the line that it replaces (no file: it replaces
 * none). */
typedef struct Line { const char *text; DtSpan old; } Line;

typedef struct Change {
    Line line[MOST_LINES];
    uint32_t n;
    double bytes; /* of the worst stage */
    bool fits;
} Change;

typedef struct Changes {
    DtCli *cli;
    const DtProgram *program;
    const DtPlan *plan;
    const char *path;
    DtArena *arena;
    DtCostModel model;
    Change at[MOST_CHANGES];
    uint32_t n, fits; /* fits: 1 + number of the first change with which the program fits; 0: none
                       * so far */
} Changes;

/* Compiles the program with the change and stores the memory of a rank, and whether it fits; 0
 * bytes: no plan results. */
static void look_at(const Changes *c, Change *change)
{
    DtLowerOptions options = dt_cli_lowering(c->cli, c->path);
    DtArena *arena = dt_arena_child(c->arena);
    const char **lines = DT_NEW_ARRAY(arena, const char *, options.n_lines + change->n);
    for (uint32_t i = 0; i < options.n_lines; i++)
        lines[i] = options.lines[i];
    for (uint32_t i = 0; i < change->n; i++)
        lines[options.n_lines + i] = change->line[i].text;
    options.lines = lines;
    options.n_lines += change->n;
    uint8_t *image;
    size_t len;
    DtPlan plan;
    DtStatus status = dt_cli_variant(c->cli, arena, &options, DT_VARIANT_STEP, &image, &len);
    if (dt_status_ok(&status))
        status = dt_read_bytes(image, len, &plan);
    if (dt_status_ok(&status)) {
        DtMemory memory;
        const double have = dt_nodes_worst(&plan, &c->model, true, &memory)->memory_bytes;
        change->bytes = (double)memory.reserved;
        change->fits = change->bytes <= have;
    }
    dt_arena_free(arena);
}

static void try_lines(Changes *c, uint32_t n, const Line *lines)
{
    Change *change = &c->at[c->n];
    if (c->n == MOST_CHANGES || c->fits)
        return;
    *change = (Change){.n = n};
    memcpy(change->line, lines, n * sizeof *lines);
    look_at(c, change);
    if (change->bytes == 0)
        return;
    c->n++;
    c->fits = change->fits ? c->n : 0;
}

/* ---- which there are ---- */

typedef struct Lines { Line at[MOST_OF_KIND]; uint32_t n; } Lines;

static void add(Lines *lines, const char *text, DtSpan old)
{
    if (lines->n < MOST_OF_KIND)
        lines->at[lines->n++] = (Line){text, old};
}

/* Returns the type of the first input of the training data, whose first axis counts samples; NULL:
 * no training. */
static const DtType *sample_type(const DtProgram *program)
{
    const DtTrainConfig *train = program->train;
    return train && train->readers.n ? train->readers.at[0].types[0] : NULL;
}

/* Returns the `shard` line of the layout that splits samples everywhere (not at one place); NULL:
 * none. */
static const DtShard *sample_line(const DtProgram *program)
{
    const DtParallelConfig *p = program->parallel;
    const DtType *type = sample_type(program);
    for (uint32_t i = 0; type && i < p->shards.n; i++)
        for (uint32_t a = 0; a < p->shards.at[i].n_axes; a++)
            if (p->shards.at[i].n_place == 0 && p->shards.at[i].axes[a] == type->axes[0].name)
                return &p->shards.at[i];
    return NULL;
}

static const char *join(DtArena *arena, const char *const *names, uint32_t n)
{
    const char *list = "";
    for (uint32_t i = 0; i < n; i++)
        list = dt_arena_printf(arena, "%s%s%s", list, i ? ", " : "", names[i]);
    return list;
}

/* Returns lines `zero` with levels above the present one, over the mesh axes that a `zero` line
 * names already, or else over those that split samples. */
static Lines zero_lines(const Changes *c)
{
    const DtParallelConfig *p = c->program->parallel;
    const DtShard *line = sample_line(c->program);
    const DtZero *zero = p->zeros.n ? &p->zeros.at[0] : NULL;
    const char *on = zero   ? join(c->arena, zero->on, zero->n_on)
                     : line ? join(c->arena, line->mesh, line->n_mesh)
                            : "";
    Lines lines = {.n = 0};
    for (int level = zero ? zero->level + 1 : 1; *on && level <= 3; level++)
        add(&lines, dt_arena_printf(c->arena, "zero %d on %s", level, on),
            zero ? zero->span : (DtSpan){0});
    return lines;
}

/* Returns lines that make twice, four times, ... as many micro-batches, as long as the samples
 * divide. */
static Lines micro_lines(const Changes *c)
{
    const DtParallelConfig *p = c->program->parallel;
    const DtType *type = sample_type(c->program);
    const DtShard *line = sample_line(c->program);
    int64_t ranks = 1;
    for (uint32_t i = 0; line && i < line->n_mesh; i++)
        for (uint32_t m = 0; m < p->mesh.n; m++)
            ranks *= p->mesh.axes[m].name == line->mesh[i] ? p->mesh.axes[m].size : 1;
    Lines lines = {.n = 0};
    for (int64_t n = 2 * p->micro;
         type && n <= type->axes[0].extent && type->axes[0].extent % (n * ranks) == 0; n *= 2)
        add(&lines, dt_arena_printf(c->arena, "micro %s = %lld", type->axes[0].name, (long long)n),
            p->micro_span);
    return lines;
}

/* Returns the span of the layout's line that decides which values the loop keeps. */
static DtSpan remat_line(const DtParallelConfig *p, const char *loop)
{
    for (uint32_t i = 0; i < p->remats.n; i++) {
        const char *dot = strrchr(p->remats.at[i].loop, '.');
        if (!strcmp(dot ? dot + 1 : p->remats.at[i].loop, loop))
            return p->remats.at[i].span;
    }
    return (DtSpan){0};
}

/* Returns a line `remat` for each loop that saves values for its backward loop; with it only the
 * inputs of an iteration are kept. */
static Lines remat_lines(const Changes *c)
{
    Lines lines = {.n = 0};
    for (uint32_t i = 0; i < c->plan->n_saved; i++) {
        const char *loop = dt_plan_str(c->plan, c->plan->saved[i].loop);
        const char *line = dt_arena_printf(c->arena, "remat %s", loop);
        bool repeated = c->plan->saved[i].saved == 0;
        for (uint32_t k = 0; k < lines.n; k++)
            repeated = repeated || !strcmp(lines.at[k].text, line);
        if (!repeated)
            add(&lines, line, remat_line(c->program->parallel, loop));
    }
    return lines;
}

/* Tries one change, then two of different kinds, then three; within each kind from the least to the
 * most. */
static void try_all(Changes *c)
{
    const Lines zero = zero_lines(c), micro = micro_lines(c), remat = remat_lines(c);
    const Lines *const kinds[] = {&zero, &micro, &remat};
    for (uint32_t k = 0; k < DT_COUNT(kinds); k++)
        for (uint32_t i = 0; i < kinds[k]->n; i++)
            try_lines(c, 1, &kinds[k]->at[i]);
    for (uint32_t i = 0; i < zero.n; i++)
        for (uint32_t r = 0; r < remat.n; r++)
            try_lines(c, 2, (const Line[]){zero.at[i], remat.at[r]});
    for (uint32_t m = 0; m < micro.n; m++)
        for (uint32_t r = 0; r < remat.n; r++)
            try_lines(c, 2, (const Line[]){micro.at[m], remat.at[r]});
    for (uint32_t i = 0; i < zero.n; i++)
        for (uint32_t m = 0; m < micro.n; m++)
            try_lines(c, 2, (const Line[]){zero.at[i], micro.at[m]});
    for (uint32_t m = 0; zero.n && m < micro.n; m++)
        for (uint32_t r = 0; r < remat.n; r++)
            try_lines(c, 3, (const Line[]){zero.at[zero.n - 1], micro.at[m], remat.at[r]});
}

/* ---- the diagnostic ---- */

static void note_memory(DtArena *arena, DtDiag *diag, const DtMemory *m)
{
    const char *list = "", *beside = "";
    char buf[32];
    for (int k = 0; k < DT_ARENA_KINDS; k++)
        if (dt_plan_is_usual((uint32_t)k) && m->arenas[k] >= 1 << 20)
            list = dt_arena_printf(arena, "%s%s%s %s", list, *list ? ", " : "", dt_memory_kinds[k],
                                   dt_people_bytes(buf, (double)m->arenas[k]));
    for (int k = 0; k < DT_OVERHEADS; k++)
        if (m->overheads[k])
            beside = dt_arena_printf(arena, "%s%s%s %s", beside, *beside ? ", " : "",
                                     dt_memory_overheads[k].name,
                                     dt_people_bytes(buf, (double)m->overheads[k]));
    if (*list)
        dt_diag_note(diag, "%s", list);
    dt_diag_note(diag, "in addition to the program's memory: %s", beside);
}

static void note_peak(DtArena *arena, DtDiag *diag, const DtPlan *plan, const DtMemory *m)
{
    const DtPlanPeak *peak = dt_memory_peak(plan, m->stage);
    char buf[32];
    if (!peak || peak->span >= plan->n_spans)
        return;
    const DtPlanSpan *span = &plan->spans[peak->span];
    const char *path = dt_plan_str(plan, span->path), *list = "";
    for (size_t i = 0; i < DT_COUNT(peak->bytes) && peak->bytes[i] > peak->live / 20; i++)
        list = dt_arena_printf(arena, "%s%s%s", list, i ? ", " : "",
                               dt_people_bytes(buf, (double)peak->bytes[i]));
    if (m->in_flight)
        dt_diag_note(diag, "micro-batches in flight keep %s of activations",
                     dt_people_bytes(buf, (double)m->in_flight));
    dt_diag_note(diag, "temporaries are most, %s, at %s:%u%s%s; the largest tensors then have %s",
                 dt_people_bytes(buf, (double)peak->live), dt_plan_str(plan, span->file),
                 span->line, *path ? " " : "", path, list);
}

static const char *lines_of(DtArena *arena, const Change *change, const char *between)
{
    const char *text = change->line[0].text;
    for (uint32_t i = 1; i < change->n; i++)
        text = dt_arena_printf(arena, "%s%s%s", text, between, change->line[i].text);
    return text;
}

static int by_bytes(const void *a, const void *b)
{
    const Change *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* An edit of the source: the text that is written at, or over, this span. */
typedef struct Edit { DtSpan span; const char *text; } Edit;

static int by_place(const void *a, const void *b)
{
    const Edit *x = a, *y = b;
    if (x->span.file != y->span.file)
        return x->span.file < y->span.file ? -1 : 1;
    return x->span.lo < y->span.lo ? -1 : x->span.lo > y->span.lo;
}

/* Lists the edits of a change in the order of the text. Lines without an old one are written before
 * the mesh; the others replace their old line. */
static uint32_t edits_of(DtArena *arena, const Change *change, DtSpan mesh, Edit *ret_edits)
{
    const char *front = "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < change->n; i++) {
        if (change->line[i].old.file)
            ret_edits[n++] = (Edit){change->line[i].old, change->line[i].text};
        else
            front = dt_arena_printf(arena, "%s%s; ", front, change->line[i].text);
    }
    if (*front)
        ret_edits[n++] = (Edit){{mesh.file, mesh.lo, mesh.lo}, front};
    qsort(ret_edits, n, sizeof *ret_edits, by_place);
    return n;
}

/* Merges edits of one source line, so that it is shown once with all of them; returns how many
 * edits remain. */
static uint32_t join_edits(const Changes *c, uint32_t n, Edit *edits)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        Edit *last = kept ? &edits[kept - 1] : NULL;
        size_t len;
        const char *source = dt_diag_source(c->cli->diags, edits[i].span.file, &len);
        const bool same = last && source && last->span.file == edits[i].span.file &&
                          !memchr(source + last->span.hi, '\n', edits[i].span.lo - last->span.hi);
        if (!same) {
            edits[kept++] = edits[i];
            continue;
        }
        last->text = dt_arena_printf(c->arena, "%s%.*s%s", last->text,
                                     (int)(edits[i].span.lo - last->span.hi),
                                     source + last->span.hi, edits[i].text);
        last->span.hi = edits[i].span.hi;
    }
    return kept;
}

static void fix(const Changes *c, const Change *change, DtDiag *diag)
{
    Edit edits[MOST_LINES + 1];
    char buf[32];
    const uint32_t n =
        join_edits(c, edits_of(c->arena, change, c->program->parallel->mesh_span, edits), edits);
    dt_diag_fix(diag, edits[0].span, edits[0].text, "this fits: %s",
                dt_people_bytes(buf, change->bytes));
    for (uint32_t i = 1; i < n; i++)
        dt_diag_fix(diag, edits[i].span, edits[i].text, "and with it");
}

/* Suggests what helps where no line does: the layout that `auto` finds, if it did not choose the
 * present one, or more devices. */
static void help_by_auto(const Changes *c, DtDiag *diag)
{
    DtAutoWould would;
    char seconds[32], state[32];
    if (c->cli->block || !dt_auto_would(c->cli, c->program, c->path, &would)) {
        dt_diag_help(diag, "split parameters or positions over more ranks (`shard`, `pipeline`), "
                           "or take more devices");
    } else if (would.line) {
        dt_diag_help(diag, "`auto` fits, %s a step: %s", dt_people_seconds(seconds, would.seconds),
                     would.line);
    } else if (would.least > would.devices) {
        dt_diag_note(diag, "no layout fits: parameters, gradients and optimizer alone are %s",
                     dt_people_bytes(state, would.state));
        dt_diag_help(diag, "take %lld such devices at least, larger ones, or a smaller model",
                     (long long)would.least);
    } else {
        dt_diag_note(diag, "`auto` finds no layout that fits these devices");
        dt_diag_help(diag, "take more devices, larger ones, or a smaller model");
    }
}

/* Adds the first change that fits as a fix, then lists other changes that were tried, or the best
 * of them if none fits. */
static void help(const Changes *c, DtDiag *diag)
{
    char buf[32];
    Change first = {.n = 0}, sorted[MOST_CHANGES];
    if (c->fits) {
        first = c->at[c->fits - 1];
        fix(c, &first, diag);
    }
    memcpy(sorted, c->at, c->n * sizeof *sorted);
    qsort(sorted, c->n, sizeof *sorted, by_bytes);
    const char *list = "";
    for (uint32_t i = 0, n = 0; i < c->n && n < SHOWN; i++) {
        if (c->fits && sorted[i].bytes == first.bytes)
            continue;
        list = dt_arena_printf(c->arena, "%s%s`%s` %s", list, n++ ? ", " : "",
                               lines_of(c->arena, &sorted[i], "; "),
                               dt_people_bytes(buf, sorted[i].bytes));
    }
    if (*list)
        dt_diag_help(diag, "%s: %s",
                     c->fits ? "not enough by themselves"
                             : "these lines are not enough, the smallest "
                               "first",
                     list);
    if (!c->fits)
        help_by_auto(c, diag);
}

bool dt_fit_check(DtCli *cli, const DtProgram *program, const char *path, const DtPlan *plan)
{
    /* a user who compiles for processors will run the plan on another machine */
    const bool for_cpu = cli->target && dt_target_is_cpu(cli->target);
    Changes changes = {.cli = cli, .program = program, .plan = plan, .path = path,
                       .arena = cli->arena};
    DtMemory worst;
    char need[32], has[32];
    if (for_cpu || !dt_fit_model(program, &changes.model) || !changes.model.device->is_gpu)
        return true;
    const DtDevice *device = dt_nodes_worst(plan, &changes.model, true, &worst);
    if (device->memory_bytes == 0 || (double)worst.reserved <= device->memory_bytes)
        return true;
    const DtParallelConfig *p = program->parallel;
    const DtSpan span = p && p->mesh_span.file ? p->mesh_span : program->cluster->span;
    DtDiag *diag = dt_diag_report(
        cli->diags, E0701, span, "a rank%s needs %s; %s has %s",
        dt_plan_stages(plan) > 1 ? dt_arena_printf(cli->arena, " of stage %u", worst.stage) : "",
        dt_people_bytes(need, (double)worst.reserved), device->name,
        dt_people_bytes(has, device->memory_bytes));
    note_memory(cli->arena, diag, &worst);
    note_peak(cli->arena, diag, plan, &worst);
    if (!p)
        return false;
    try_all(&changes);
    help(&changes, diag);
    return false;
}

bool dt_fit_check_program(DtCli *cli, const DtProgram *program, const char *path)
{
    DtCostModel model;
    DtArena *arena = dt_arena_child(cli->arena);
    const DtLowerOptions options = dt_cli_lowering(cli, path);
    bool fits = true;
    uint8_t *image;
    size_t len;
    DtPlan plan;
    if (dt_fit_model(program, &model) && model.device->is_gpu && !dt_target_is_cpu(cli->target)) {
        DtStatus status = dt_cli_variant(cli, arena, &options, DT_VARIANT_PLAN, &image, &len);
        if (dt_status_ok(&status))
            status = dt_read_bytes(image, len, &plan);
        fits = !dt_status_ok(&status) || dt_fit_check(cli, program, path, &plan);
    }
    dt_arena_free(arena);
    return fits;
}
