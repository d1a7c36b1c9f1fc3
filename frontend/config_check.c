/* SPDX-License-Identifier: Apache-2.0 */
/* Directives against the program: every axis, loop, instance and function that a parallel block
 * names must occur in the lowered module. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <string.h>

/* The program, its names and the block that is checked against them. */
typedef struct Check {
    const DtConfigHost *host;
    DtConfigItems items;
    const DtProgram *program;
    DtConfigFacts facts;
} Check;

typedef DT_VEC(const char *) Words;

static bool has_word(const char *const *words, uint32_t n, const char *word)
{
    for (uint32_t i = 0; i < n; i++)
        if (words[i] == word)
            return true;
    return false;
}

/* ---- facts ---- */

static void add_word(DtArena *arena, Words *words, const char *word)
{
    if (word && !has_word(words->at, words->n, word))
        DT_PUSH(arena, *words, word);
}

static bool is_loop_axis(const DtConfigFacts *facts, const char *axis)
{
    for (uint32_t i = 0; i < facts->loops.n; i++)
        if (facts->loops.at[i].axis == axis)
            return true;
    return false;
}

static void add_axes(DtArena *arena, DtConfigFacts *facts, Words *axes, const DtType *type)
{
    for (uint32_t i = 0; type && i < type->rank; i++)
        if (!is_loop_axis(facts, type->axes[i].name))
            add_word(arena, axes, type->axes[i].name);
}

static void add_op(DtArena *arena, DtConfigFacts *facts, Words *labels, const DtOp *op)
{
    if (op->kind == DT_OP_CALL)
        add_word(arena, labels, op->text);
    if (op->kind == DT_OP_LOOP) {
        DtConfigLoop loop = {op->loop->label, op->loop->axis, op->loop->count, op->func};
        for (uint32_t i = 0; i < facts->loops.n; i++)
            if (facts->loops.at[i].label == loop.label && facts->loops.at[i].count == loop.count)
                return;
        DT_PUSH(arena, facts->loops, loop);
    }
}

static DtConfigFacts collect(DtArena *arena, const DtModule *module)
{
    DtConfigFacts facts = {0};
    Words axes = {0}, labels = {0}, functions = {0};
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            add_op(arena, &facts, &labels, module->funcs.at[i]->ops.at[k]);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtFunc *func = module->funcs.at[i];
        if (func->kind != DT_FUNC_ENTRY && func->kind != DT_FUNC_BODY)
            add_word(arena, &functions, dt_graph_source_name(func));
        for (uint32_t k = 0; k < func->inputs.n; k++)
            add_axes(arena, &facts, &axes, func->inputs.at[k]->type);
        for (uint32_t k = 0; k < func->ops.n; k++)
            for (uint32_t m = 0; m < func->ops.at[k]->n_out; m++)
                add_axes(arena, &facts, &axes, func->ops.at[k]->out[m]->type);
    }
    memcpy(&facts.axes, &axes, sizeof axes);
    memcpy(&facts.labels, &labels, sizeof labels);
    memcpy(&facts.functions, &functions, sizeof functions);
    return facts;
}

/* ---- messages ---- */

DtSpan dt_configcheck_operand(DtConfigItems items, DtSpan line, const char *name)
{
    for (uint32_t i = 0; i < items.n; i++)
        for (uint32_t k = 0; k < items.at[i]->entries.n; k++) {
            const DtEntry *entry = items.at[i]->entries.at[k];
            if (!entry->is_directive || entry->span.file != line.file || entry->span.lo != line.lo)
                continue;
            for (uint32_t m = 0; m < entry->operands.n; m++) {
                const DtNames *path = &entry->operands.at[m].path;
                for (uint32_t p = 0; p < path->n; p++)
                    if (path->at[p].text == name)
                        return path->at[p].span;
            }
        }
    return line;
}

/* Returns the expression for a name inside the options of a line, such as wq in `keep = (wq, wk)`;
 * NULL if it is not there. */
static const DtExpr *find_path(const DtExpr *e, const char *path)
{
    e = dt_configargs_bare(e);
    if (!e)
        return NULL;
    if (dt_configargs_path(e) == path)
        return e;
    for (uint32_t i = 0; e->kind == DT_EXPR_TUPLE && i < e->items.n; i++)
        if (dt_configargs_path(e->items.at[i]) == path)
            return e->items.at[i];
    return NULL;
}

static DtSpan option_span(const Check *c, DtSpan line, const char *path)
{
    for (uint32_t i = 0; i < c->items.n; i++)
        for (uint32_t k = 0; k < c->items.at[i]->entries.n; k++) {
            const DtEntry *entry = c->items.at[i]->entries.at[k];
            if (!entry->is_directive || entry->span.file != line.file || entry->span.lo != line.lo)
                continue;
            for (uint32_t m = 0; m < entry->args.n; m++) {
                const DtExpr *at = find_path(entry->args.at[m].value, path);
                if (at)
                    return at->span;
            }
        }
    return line;
}

static const DtConfigLoop *find_loop(const Check *c, const char *name)
{
    const DtConfigLoop *by_axis = NULL;
    uint32_t n_by_axis = 0;
    for (uint32_t i = 0; i < c->facts.loops.n; i++) {
        const DtConfigLoop *loop = &c->facts.loops.at[i];
        if (loop->label == name)
            return loop;
        if (loop->axis == name) {
            by_axis = loop;
            n_by_axis++;
        }
    }
    return n_by_axis == 1 ? by_axis : NULL;
}

static void unknown_loop(const Check *c, DtSpan line, const char *name)
{
    DtSpan span = dt_configcheck_operand(c->items, line, name);
    const char **names = DT_NEW_ARRAY(c->host->arena, const char *, c->facts.loops.n + 1);
    const char *list = "";
    for (uint32_t i = 0; i < c->facts.loops.n; i++) {
        names[i] = c->facts.loops.at[i].label;
        list = dt_arena_printf(c->host->arena, "%s%s`%s`", list, i ? ", " : "", names[i]);
    }
    DtDiag *d = dt_diag_report(c->host->diags, E0601, span, "the program has no loop `%s`", name);
    if (c->facts.loops.n)
        dt_diag_note(d, "its loops are %s", list);
    else
        dt_diag_note(d, "it has no `repeat` that stays a loop (one over a tuple is unrolled)");
    dt_configargs_suggest(d, span, name, names, c->facts.loops.n);
}

/* ---- axes and places ---- */

static void check_axis(const Check *c, DtSpan line, const char *axis, const char *verb)
{
    if (has_word(c->facts.axes.at, c->facts.axes.n, axis))
        return;
    DtSpan span = dt_configcheck_operand(c->items, line, axis);
    const DtConfigLoop *loop = find_loop(c, axis);
    if (loop) {
        DtDiag *d = dt_diag_report(c->host->diags, E0508, span,
                                   "`%s` is a loop of %lld iterations, not an axis of a tensor",
                                   axis, (long long)loop->count);
        dt_diag_help(d, "write `pipeline %s on ...` to give ranks different iterations",
                     loop->label);
        return;
    }
    DtDiag *d = dt_diag_report(c->host->diags, E0507, span,
                               "no value of the program has an axis `%s`", axis);
    dt_diag_note(d, "the `%s` line would have no effect", verb);
    dt_configargs_suggest(d, span, axis, c->facts.axes.at, c->facts.axes.n);
}

/* Whether a place names a function, layer or instance of the program, or ends the path of a
 * parameter. */
static bool place_exists(const Check *c, const DtShard *shard)
{
    const char *last = shard->place[shard->n_place - 1];
    for (uint32_t i = 0; i < c->facts.labels.n; i++) {
        /* "s.0.c1" of an unrolled loop */
        const char *label = c->facts.labels.at[i], *dot = strrchr(label, '.');
        if (!strcmp(dot ? dot + 1 : label, last))
            return true;
    }
    if (has_word(c->facts.functions.at, c->facts.functions.n, last))
        return true;
    for (uint32_t i = 0; i < c->facts.loops.n; i++)
        if (c->facts.loops.at[i].label == last)
            return true;
    for (uint32_t i = 0; i < c->program->module->stores.n; i++) {
        const char *path = c->program->module->stores.at[i]->path;
        const char *dot = strrchr(path, '.');
        if (!strcmp(dot ? dot + 1 : path, last))
            return true;
    }
    return false;
}

static void check_place(const Check *c, const DtShard *shard)
{
    if (!shard->n_place || place_exists(c, shard))
        return;
    const char *last = shard->place[shard->n_place - 1];
    DtSpan span = dt_configcheck_operand(c->items, shard->span, last);
    Words known = {0};
    for (uint32_t i = 0; i < c->facts.labels.n; i++)
        add_word(c->host->arena, &known, c->facts.labels.at[i]);
    for (uint32_t i = 0; i < c->facts.functions.n; i++)
        add_word(c->host->arena, &known, c->facts.functions.at[i]);
    DtDiag *d =
        dt_diag_report(c->host->diags, E0509, span,
                       "the program has no function, layer, instance or parameter `%s`", last);
    dt_configargs_suggest(d, span, last, known.at, known.n);
}

/* Returns a function that streams over the axis (NULL: over any axis); NULL if there is none. */
static const DtFunc *find_streamed(const Check *c, const char *axis)
{
    const DtModule *module = c->program->module;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtStream *stream = module->funcs.at[i]->stream;
        if (stream && !stream->product && (!axis || stream->axis == axis))
            return module->funcs.at[i];
    }
    return NULL;
}

static void check_ring(const Check *c, const DtShard *shard)
{
    for (uint32_t i = 0; shard->ring && i < shard->n_axes; i++) {
        if (find_streamed(c, shard->axes[i]) ||
            !has_word(c->facts.axes.at, c->facts.axes.n, shard->axes[i]))
            continue;
        DtDiag *d = dt_diag_report(c->host->diags, E0517,
                                   dt_configcheck_operand(c->items, shard->span, shard->axes[i]),
                                   "nothing streams over `%s`", shard->axes[i]);
        dt_diag_note(d, "`ring` replaces the gather of an axis that a function streams over, as "
                        "`attend` over keys");
        const DtFunc *other = find_streamed(c, NULL);
        if (other)
            dt_diag_help(d,
                         "leave `(ring = true)` out, or write it on the line of `%s`, over which "
                         "`%s` streams",
                         other->stream->axis, other->library ? other->library : other->name);
        else
            dt_diag_help(
                d, "leave `(ring = true)` out: the axis is gathered where a call needs it whole");
    }
}

static bool shares(const char *const *a, uint32_t n_a, const char *const *b, uint32_t n_b)
{
    for (uint32_t i = 0; i < n_a; i++)
        if (has_word(b, n_b, a[i]))
            return true;
    return false;
}

/* Reports a line limited to a place that has no effect, since an earlier general line gives the
 * same axis the same mesh axis. */
static void check_order(const Check *c, const DtParallelConfig *p, uint32_t at)
{
    const DtShard *limited = &p->shards.at[at];
    if (!limited->n_place)
        return;
    for (uint32_t i = 0; i < at; i++) {
        const DtShard *general = &p->shards.at[i];
        if (general->n_place ||
            !shares(limited->axes, limited->n_axes, general->axes, general->n_axes))
            continue;
        DtDiag *d = dt_diag_report(c->host->diags, L0514, limited->span,
                                   "this line comes too late to override a general one");
        dt_diag_label(d, general->span, "lines are tried in order, and this one comes first");
        dt_diag_help(d, "move the limited line up");
        return;
    }
}

/* ---- remat ---- */

/* Does a path name something in func, at any depth? Its parts are calls (labels or functions) and
 * loops, each inside the one before; the last may also be a value. */
static bool occurs(const DtFunc *func, const char *const *parts, uint32_t n, uint32_t depth)
{
    if (depth > 64)
        return false;
    for (uint32_t i = 0; n == 1 && i < func->inputs.n; i++)
        if (func->inputs.at[i]->name == parts[0])
            return true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; n == 1 && k < op->n_out; k++)
            if (op->out[k]->name == parts[0])
                return true;
        if (!op->func)
            continue;
        bool fits = op->kind == DT_OP_LOOP
                        ? op->loop->label == parts[0]
                        : op->text == parts[0] || dt_graph_source_name(op->func) == parts[0];
        if (fits && n == 1 && op->kind == DT_OP_CALL)
            return true;
        if ((fits && n > 1 && occurs(op->func, parts + 1, n - 1, depth + 1)) ||
            occurs(op->func, parts, n, depth + 1))
            return true;
    }
    return false;
}

static bool path_occurs(const DtFunc *body, const char *path)
{
    const char *parts[16];
    uint32_t n = 0;
    for (const char *at = path; n < DT_COUNT(parts);) {
        const char *dot = strchr(at, '.');
        parts[n++] = dt_intern_n(at, dot ? (size_t)(dot - at) : strlen(at));
        if (!dot)
            return occurs(body, parts, n, 0);
        at = dot + 1;
    }
    return false;
}

/* Whether some loop with that label has a value of this path in its body. */
static bool occurs_in_loop(const Check *c, const char *label, const char *path)
{
    const DtModule *module = c->program->module;
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++) {
            const DtOp *op = module->funcs.at[f]->ops.at[i];
            if (op->kind == DT_OP_LOOP && op->loop->label == label && path_occurs(op->func, path))
                return true;
        }
    return false;
}

/* Lists the paths that could be meant by a misspelt one: all names of the program, each after the
 * part before its last dot. */
static Words remat_names(const Check *c, const char *path)
{
    DtArena *arena = c->host->arena;
    const DtModule *module = c->program->module;
    const char *dot = strrchr(path, '.');
    const int n = dot ? (int)(dot + 1 - path) : 0;
    Words last = {0}, whole = {0};
    for (uint32_t k = 0; k < c->facts.labels.n; k++)
        add_word(arena, &last, c->facts.labels.at[k]);
    for (uint32_t k = 0; k < c->facts.functions.n; k++)
        add_word(arena, &last, c->facts.functions.at[k]);
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++)
            for (uint32_t k = 0; k < module->funcs.at[f]->ops.at[i]->n_out; k++)
                add_word(arena, &last, module->funcs.at[f]->ops.at[i]->out[k]->name);
    for (uint32_t k = 0; k < last.n; k++)
        add_word(arena, &whole, dt_intern_printf("%.*s%s", n, path, last.at[k]));
    return whole;
}

static void check_kept(const Check *c, const DtRemat *remat, const char *label,
                       const char *const *paths, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (occurs_in_loop(c, label, paths[i]))
            continue;
        DtSpan span = option_span(c, remat->span, paths[i]);
        DtDiag *d = dt_diag_report(c->host->diags, E0519, span,
                                   "the body of loop `%s` has no value, instance or function `%s`",
                                   remat->loop, paths[i]);
        Words known = remat_names(c, paths[i]), fitting = {0};
        for (uint32_t k = 0; k < known.n; k++)
            if (occurs_in_loop(c, label, known.at[k]))
                add_word(c->host->arena, &fitting, known.at[k]);
        dt_configargs_suggest(d, span, paths[i], fitting.at, fitting.n);
    }
}

static void check_remat(const Check *c, const DtRemat *remat)
{
    const char *dot = strrchr(remat->loop, '.');
    const DtConfigLoop *loop = find_loop(c, dot ? dt_intern(dot + 1) : remat->loop);
    if (!loop || (dot && !dt_configpipeline_knows(c->host, c->program, remat->loop))) {
        unknown_loop(c, remat->span, remat->loop);
        return;
    }
    check_kept(c, remat, loop->label, remat->keep, remat->n_keep);
    check_kept(c, remat, loop->label, remat->drop, remat->n_drop);
}

/* ---- the program ---- */

bool dt_configcheck_concerns(const DtLowerOptions *options, const DtProgram *program,
                             const DtParallelConfig *p)
{
    const bool one = options->parallel || program->trains.n > 1;
    return !one || p == program->parallel;
}

static void check_parallel(const Check *c, const DtParallelConfig *p)
{
    for (uint32_t i = 0; i < p->shards.n; i++) {
        for (uint32_t k = 0; k < p->shards.at[i].n_axes; k++)
            check_axis(c, p->shards.at[i].span, p->shards.at[i].axes[k], "shard");
        check_place(c, &p->shards.at[i]);
        check_ring(c, &p->shards.at[i]);
        check_order(c, p, i);
    }
    if (p->micro_axis)
        check_axis(c, p->micro_span, p->micro_axis, "micro");
    for (uint32_t i = 0; i < p->pipelines.n; i++)
        dt_configpipeline_check(c->host, c->items, c->program, &c->facts, p, &p->pipelines.at[i]);
    for (uint32_t i = 0; i < p->remats.n; i++)
        check_remat(c, &p->remats.at[i]);
    for (uint32_t i = 0; i < p->streams.n && !p->stores_products; i++)
        check_axis(c, p->stream_span, p->streams.at[i], "stream");
}

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* Checks that each step of the ramp takes whole micro-batches. */
static void check_ramp(const Check *c)
{
    const DtTrainConfig *train = c->program->train;
    const DtParallelConfig *p = c->program->parallel;
    const DtRampConfig *ramp = train ? &train->ramp : NULL;
    if (!ramp || !ramp->by)
        return;
    const char *axis = train->readers.n ? train->readers.at[0].types[0]->axes[0].name : "batch";
    const int64_t batch = dt_train_batch(train), n = p ? p->micro : 1;
    const int64_t each = n > 0 && batch % n == 0 ? batch / n : batch;
    if (ramp->from > batch || (batch - ramp->from) % ramp->by != 0) {
        DtDiag *d =
            dt_diag_report(c->host->diags, E0485, ramp->span,
                           "steps from %lld samples on, %lld more each time, do not come to "
                           "`%s`, which is %lld",
                           (long long)ramp->from, (long long)ramp->by, axis, (long long)batch);
        dt_diag_note(d, "`by` divides what is between `from` and the batch");
        return;
    }
    if (ramp->from % each != 0 || ramp->by % each != 0) {
        const int64_t fits = common(common(ramp->from, ramp->by), batch);
        DtDiag *d = dt_diag_report(c->host->diags, E0485, ramp->span,
                                   "a step of %lld samples, and %lld more, has no whole number of "
                                   "micro-batches, which have %lld",
                                   (long long)ramp->from, (long long)ramp->by, (long long)each);
        if (p && p->micro_span.file)
            dt_diag_label(d, p->micro_span, "micro-batches are made here");
        dt_diag_help(d, "in the `parallel` block: `micro %s = %lld`", axis,
                     (long long)(batch / fits));
    }
    for (uint32_t i = 0; p && i < p->pipelines.n; i++) {
        DtDiag *d = dt_diag_report(c->host->diags, E0592, ramp->span,
                                   "a ramp of the batch with a pipeline is not implemented");
        dt_diag_label(d, p->pipelines.at[i].span,
                      "stages have a schedule for one number of "
                      "micro-batches");
        dt_diag_help(d,
                     "compile the first part of the training with a smaller `%s`, and go on with "
                     "`dtrun --resume`, which begins with the next sample",
                     axis);
    }
}

void dt_configcheck_program(const DtConfigHost *host, DtConfigItems items, DtProgram *program)
{
    Check c = {.host = host, .items = items, .program = program};
    if (!program->module)
        return;
    c.facts = collect(host->arena, program->module);
    for (uint32_t i = 0; i < program->parallels.n; i++)
        if (dt_configcheck_concerns(host->options, program, program->parallels.at[i]))
            check_parallel(&c, program->parallels.at[i]);
    dt_configextents_check(host, items, program);
    check_ramp(&c);
    dt_configdata_check(host, program);
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i]->kind == DT_ITEM_NAMES)
            dt_confignames_check(host, items.at[i], program);
    dt_configadapters_derive(host, program);
    const DtTrainConfig *train = program->train;
    if (train && (!train->optimizer.span.file || !dt_train_steps(train))) {
        const char *lacks = train->optimizer.span.file ? "`steps` or `epochs`" : "`optimizer`";
        DtDiag *d =
            dt_diag_report(host->diags, L0465, train->span, "this train block sets no %s", lacks);
        dt_diag_note(d, "it can be checked and evaluated, but not trained");
    }
}
