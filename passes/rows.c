/* SPDX-License-Identifier: Apache-2.0 */
/* Entry "predict" for few samples at a time.
 *
 * Purpose: the program's batch is that of training. Predictions need no batch: the runtime runs the
 * entry once for every few samples. So logits of a batch times all positions and words, say, are
 * never in memory, and a single prompt costs one sample's work.
 *
 *   %x = input tokens [batch=32, seq]         =>  %x = input predict:tokens [batch=1, seq]
 *   %e = gather[vocab](%wte, %x) [batch=32..]     %e = gather[vocab](%wte, %x) [batch=1..]
 *
 * The pass first follows the axis that counts samples through the entry and the functions that it
 * calls: renamed, or as the slower part of a merged axis. Every op must compute the results of a
 * sample from that sample alone. If one does not (normalisation over the batch, places of a mixture
 * of experts that all samples compete for, parameters or draws with a row of the batch), the entry
 * keeps the whole batch. Then it is copied, with the functions that it calls, to types with fewer
 * samples, and its inputs get names of their own.
 *
 * How many samples: those that TRAIN.predict_rows says, else as many as have DT_ROWS_ELEMENTS
 * numbers in an input, so that products of small samples still have rows. It is the least number
 * from there on that divides the batch and that the layout's mesh axes and micro-batches divide;
 * the whole batch if there is none. Lint L0483 names a number that no entry can have.
 *
 * Requires: a verified serial module. Establishes: nothing. Breaks: nothing. */
#include "passes/passes.h"

#include "base/intern.h"
#include "passes/loops.h"

#include <string.h>

/* Numbers of an input that a pass reads at least. */
enum { DT_ROWS_ELEMENTS = 1024 };

/* A function, for inputs whose samples are along certain axes. */
typedef struct Instance {
    DtFunc *func;
    const char **axis; /* by value id: the axis that counts samples; NULL: all samples have it */
    DtFunc *made;      /* the copy; NULL: not made yet */
} Instance;

typedef struct Rows {
    DtModule *module;
    const DtPassContext *context;
    int64_t batch, rows;
    const char *first;             /* the axis that counts samples in the inputs */
    DT_VEC(const char *) carriers; /* all axes that count samples */
    DT_VEC(Instance *) instances;
    bool mixes;                    /* a result depends on several samples, or on their number */
} Rows;

static DtArena *arena_of(const Rows *r) { return r->module->arena; }

static bool names(const char *const *at, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (at[i] == name)
            return true;
    return false;
}

/* ---- which axis counts samples ---- */

static Instance *look(Rows *r, DtFunc *func, const char *const *axes);

/* Notes that the axis counts samples. */
static const char *carries(Rows *r, const char *axis)
{
    if (axis && !names(r->carriers.at, r->carriers.n, axis))
        DT_PUSH(arena_of(r), r->carriers, axis);
    return axis;
}

static const char *mixed(Rows *r)
{
    r->mixes = true;
    return NULL;
}

/* The axis of samples that the operands have in common. An operand without samples may not have an
 * axis of that name: it would have something for each row of the batch. */
static const char *common(Rows *r, const Instance *at, const DtOp *op)
{
    const char *axis = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const char *of = at->axis[op->in[i]->id];
        if (of && axis && of != axis)
            return mixed(r);
        axis = of ? of : axis;
    }
    for (uint32_t i = 0; axis && i < op->n_in; i++)
        if (!at->axis[op->in[i]->id] && dt_type_find(op->in[i]->type, axis) >= 0)
            return mixed(r);
    return axis;
}

/* The axis after a `relabel`: samples must stay the slower part of what they are merged into, or
 * be the slower part of what is split. */
static const char *relabelled(Rows *r, const DtOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *entry = &op->relabels[i];
        if (!names(entry->from, entry->n_from, axis))
            continue;
        if (entry->from[0] != axis || entry->n_to == 0 || entry->to_extent[0] % r->batch != 0)
            return mixed(r);
        return carries(r, entry->to[0]);
    }
    return axis;
}

/* The axis of samples of an `expand`. One that repeats a value along the inputs' first axis gives
 * each sample a copy, so its result has samples like an input; NULL: it repeats along other axes
 * only. */
static const char *expanded(const Rows *r, const DtOp *op)
{
    const bool has = dt_type_find(op->in[0]->type, r->first) >= 0;
    return !has && dt_type_extent(op->out[0]->type, r->first) == r->batch ? r->first : NULL;
}

/* The axis of the op's results, which are made of operands with that axis of samples. */
static const char *kept(Rows *r, const DtOp *op, const char *axis)
{
    const bool is_gathered = op->kind == DT_OP_GATHER && names(op->axes, op->n_axes, axis);
    if (dt_op_is_pointwise(op->kind))
        return axis;
    if (op->kind == DT_OP_RELABEL)
        return relabelled(r, op, axis);
    const DtOpClass class = dt_op_info[op->kind].op_class;
    const bool is_known = class == DT_CLASS_AXIS || class == DT_CLASS_CONTRACT ||
                          class == DT_CLASS_INDEX;
    if (!is_known || is_gathered || dt_op_has_axis(op, axis) ||
        names(op->axes2, op->n_axes2, axis))
        return mixed(r);
    for (uint32_t i = 0; i < op->n_out; i++)
        if (dt_type_find(op->out[i]->type, axis) < 0)
            return mixed(r);
    return axis;
}

static void look_at_call(Rows *r, Instance *at, const DtOp *op)
{
    const char **axes = DT_NEW_ARRAY(arena_of(r), const char *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        axes[i] = at->axis[op->in[i]->id];
    const Instance *callee = look(r, op->func, axes);
    for (uint32_t i = 0; i < op->n_out; i++)
        at->axis[op->out[i]->id] = callee->axis[op->func->results.at[i]->id];
}

static void look_at_loop(Rows *r, Instance *at, const DtOp *op)
{
    const DtLoop *loop = op->loop;
    const char **axes = DT_NEW_ARRAY(arena_of(r), const char *, op->n_in + 2);
    axes[0] = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        axes[1 + i] = at->axis[op->in[i]->id];
        if (i >= loop->n_carried + loop->n_invariant && axes[1 + i] == loop->axis)
            mixed(r); /* iterations go through samples */
    }
    const Instance *body = look(r, op->func, axes);
    for (uint32_t i = 0; i < op->n_out; i++) {
        const char *axis = body->axis[op->func->results.at[i]->id];
        if (i < loop->n_carried && axis != axes[1 + i])
            mixed(r);
        at->axis[op->out[i]->id] = axis;
    }
}

static void look_at_op(Rows *r, Instance *at, const DtOp *op)
{
    const char *axis = NULL;
    if (op->kind == DT_OP_CALL) {
        look_at_call(r, at, op);
        return;
    }
    if (op->kind == DT_OP_LOOP) {
        look_at_loop(r, at, op);
        return;
    }
    if (op->kind == DT_OP_INPUT && op->text[0] != '@')
        axis = carries(r, op->out[0]->type->axes[0].name);
    else if (op->n_in > 0)
        axis = common(r, at, op);
    if (axis && op->n_in > 0)
        axis = kept(r, op, axis);
    else if (op->kind == DT_OP_EXPAND)
        axis = expanded(r, op);
    for (uint32_t i = 0; i < op->n_out; i++)
        at->axis[op->out[i]->id] = axis;
}

/* The functions of a stream take the inputs of the function, or parts that it makes of them. */
static void look_at_stream(Rows *r, const DtStream *stream, const char *const *axes)
{
    const Instance *part = look(r, stream->part, axes);
    const uint32_t n = stream->part->results.n;
    const char **parts = DT_NEW_ARRAY(arena_of(r), const char *, 2 * n + stream->given.n + 1);
    for (uint32_t i = 0; i < 2 * n; i++)
        parts[i] = part->axis[stream->part->results.at[i % n]->id];
    if (stream->merge)
        look(r, stream->merge, parts);
    for (uint32_t i = 0; i < stream->given.n; i++)
        parts[n + i] = axes[stream->given.at[i]];
    if (stream->finish)
        look(r, stream->finish, parts);
}

/* The function for inputs with these axes of samples, which is looked at if it is new. */
static Instance *look(Rows *r, DtFunc *func, const char *const *axes)
{
    for (uint32_t k = 0; k < r->instances.n; k++) {
        Instance *known = r->instances.at[k];
        bool same = known->func == func;
        for (uint32_t i = 0; same && i < func->inputs.n; i++)
            same = known->axis[func->inputs.at[i]->id] == axes[i];
        if (same)
            return known;
    }
    Instance *at = DT_NEW(arena_of(r), Instance);
    dt_graph_renumber(func);
    *at = (Instance){.func = func,
                     .axis = DT_NEW_ARRAY(arena_of(r), const char *, func->n_values + 1)};
    memset(at->axis, 0, (func->n_values + 1) * sizeof at->axis[0]);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        at->axis[func->inputs.at[i]->id] = axes[i];
    for (uint32_t i = 0; i < func->ops.n && !r->mixes; i++)
        look_at_op(r, at, func->ops.at[i]);
    DT_PUSH(arena_of(r), r->instances, at);
    if (func->stream && func->stream->part && !r->mixes)
        look_at_stream(r, func->stream, axes);
    return at;
}

/* ---- how many ---- */

/* What divides the samples of a pass: the ranks of mesh axes that split them, and the parts into
 * which micro-batches cut them. */
static int64_t parts_of(const Rows *r)
{
    const DtParallelConfig *parallel = r->context->parallel;
    int64_t n = 1;
    for (uint32_t k = 0; parallel && k < parallel->mesh.n; k++) {
        bool splits = false;
        for (uint32_t i = 0; i < parallel->shards.n; i++) {
            const DtShard *shard = &parallel->shards.at[i];
            for (uint32_t a = 0; a < shard->n_axes; a++)
                splits = splits || (names(r->carriers.at, r->carriers.n, shard->axes[a]) &&
                                    names(shard->mesh, shard->n_mesh, parallel->mesh.axes[k].name));
        }
        n *= splits ? parallel->mesh.axes[k].size : 1;
    }
    if (parallel && names(r->carriers.at, r->carriers.n, parallel->micro_axis))
        n *= parallel->micro;
    return n;
}

/* The samples of a pass. numbers: those that a sample has in its largest input. */
static int64_t choose(const Rows *r, int64_t numbers)
{
    const DtTrainConfig *train = r->context->train;
    const int64_t parts = parts_of(r);
    /* judges compare entries that generate with a cache for two different samples */
    const int64_t least = train->predict_rows ? train->predict_rows
                          : train->is_smaller ? 2
                                              : (DT_ROWS_ELEMENTS + numbers - 1) / numbers;
    int64_t rows = parts;
    while (rows < r->batch && (rows < least || r->batch % rows != 0))
        rows += parts;
    return rows < r->batch ? rows : r->batch;
}

/* L0483: the entry has another number of samples than the program says, and not for rounding. */
static void lint(const Rows *r)
{
    const DtTrainConfig *train = r->context->train;
    const long long wish = train->predict_rows, batch = r->batch;
    if (!wish || train->is_smaller || (r->mixes ? wish == batch : wish <= batch))
        return;
    DtDiag *diag = dt_diag_report(r->module->diags, L0483, train->predict_span,
                                  "the model predicts %lld sample%s at a time, not %lld", batch,
                                  batch == 1 ? "" : "s", wish);
    if (r->mixes)
        dt_diag_note(diag, "the results of a sample depend on the other samples of its batch");
    else
        dt_diag_help(diag, "that is the whole batch; a larger one needs `-D %s=%lld`", r->first,
                     wish);
}

/* ---- copies ---- */

static const DtType *fewer(const Rows *r, const DtType *type, const char *axis)
{
    DtAxis axes[DT_MAX_RANK];
    const int at = axis ? dt_type_find(type, axis) : -1;
    if (at < 0)
        return type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[at].extent = axes[at].extent / r->batch * r->rows;
    return dt_type_plain(type->dtype, type->rank, axes);
}

static DtFunc *copy(Rows *r, Instance *at);

/* The copy of a function for inputs with these axes. */
static DtFunc *copy_of(Rows *r, DtFunc *func, const char *const *axes)
{
    return func ? copy(r, look(r, func, axes)) : NULL;
}

static const DtStream *copy_stream(Rows *r, const Instance *at)
{
    const DtStream *of = at->func->stream;
    DtStream *stream = DT_NEW(arena_of(r), DtStream);
    const uint32_t n = of->part ? of->part->results.n : 0;
    const char **axes = DT_NEW_ARRAY(arena_of(r), const char *, at->func->inputs.n + 1);
    const char **parts = DT_NEW_ARRAY(arena_of(r), const char *, 2 * n + of->given.n + 1);
    *stream = *of;
    for (uint32_t i = 0; i < at->func->inputs.n; i++)
        axes[i] = at->axis[at->func->inputs.at[i]->id];
    if (!of->part)
        return stream;
    const Instance *part = look(r, of->part, axes);
    for (uint32_t i = 0; i < 2 * n; i++)
        parts[i] = part->axis[of->part->results.at[i % n]->id];
    stream->part = copy_of(r, of->part, axes);
    stream->merge = copy_of(r, of->merge, parts);
    for (uint32_t i = 0; i < of->given.n; i++)
        parts[n + i] = axes[of->given.at[i]];
    stream->finish = copy_of(r, of->finish, parts);
    return stream;
}

/* The function that an op calls, or the body of its loop. */
static DtFunc *copy_callee(Rows *r, const Instance *at, const DtOp *op)
{
    const char **axes = DT_NEW_ARRAY(arena_of(r), const char *, op->n_in + 2);
    const uint32_t first = op->kind == DT_OP_LOOP;
    axes[0] = NULL;
    for (uint32_t i = 0; i < op->n_in; i++)
        axes[first + i] = at->axis[op->in[i]->id];
    return copy_of(r, op->func, axes);
}

static void copy_op(Rows *r, const Instance *at, DtBuilder *b, const DtOp *op, DtValue **map)
{
    DtArena *arena = arena_of(r);
    DtOp draft = *op;
    DtValue **in = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    DtValue *outs = DT_NEW_ARRAY(arena, DtValue, op->n_out + 1);
    draft.out = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    draft.relabels = DT_NEW_ARRAY(arena, DtRelabel, op->n_relabels + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = map[op->in[i]->id];
    for (uint32_t i = 0; i < op->n_out; i++) {
        outs[i] = *op->out[i];
        outs[i].type = fewer(r, op->out[i]->type, at->axis[op->out[i]->id]);
        draft.out[i] = &outs[i];
    }
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        draft.relabels[i] = op->relabels[i];
        const char *axis = at->axis[op->in[0]->id];
        if (axis && op->relabels[i].n_from && op->relabels[i].from[0] == axis)
            draft.relabels[i].to_extent[0] =
                op->relabels[i].to_extent[0] / r->batch * r->rows;
    }
    if (op->kind == DT_OP_INPUT && op->text[0] != '@')
        draft.text = dt_intern_printf("%s:%s", dt_entry_kind_name(DT_ENTRY_PREDICT), op->text);
    if (op->kind == DT_OP_CALL || op->kind == DT_OP_LOOP)
        draft.func = copy_callee(r, at, op);
    b->span = op->span;
    b->path = op->path;
    DtOp *made = dt_graph_copy(b, &draft, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        map[op->out[i]->id] = made->out[i];
}

static DtFunc *copy(Rows *r, Instance *at)
{
    DtFunc *of = at->func;
    bool differs = of->kind == DT_FUNC_ENTRY;
    for (uint32_t i = 0; i < of->n_values; i++)
        differs = differs || at->axis[i];
    if (at->made || !differs)
        return at->made ? at->made : of;
    DtFunc *func = at->made = dt_graph_func(r->module, of->name, of->kind);
    DtBuilder b = {.func = func};
    DtValue **map = DT_NEW_ARRAY(arena_of(r), DtValue *, of->n_values + 1);
    func->library = of->library;
    func->span = of->span;
    for (uint32_t i = 0; i < of->inputs.n; i++) {
        const DtValue *input = of->inputs.at[i];
        const DtType *type = fewer(r, input->type, at->axis[input->id]);
        map[input->id] = i < of->n_args ? dt_graph_arg_like(func, type, input)
                                        : dt_graph_param(func, type, of->params.at[i - of->n_args]);
    }
    for (uint32_t i = 0; i < of->ops.n; i++)
        copy_op(r, at, &b, of->ops.at[i], map);
    for (uint32_t i = 0; i < of->results.n; i++)
        DT_PUSH(arena_of(r), func->results, map[of->results.at[i]->id]);
    func->n_returns = of->n_returns;
    for (uint32_t i = 0; i < of->writes.n; i++)
        DT_PUSH(arena_of(r), func->writes, of->writes.at[i]);
    if (of->stream)
        func->stream = copy_stream(r, at);
    dt_graph_sweep(func); /* ops that only a stated gradient reads */
    return func;
}

/* ---- the entry ---- */

/* Finds the batch. Returns the numbers that a sample has in its largest input; 0: the inputs have
 * no batch in common. */
static int64_t find_batch(Rows *r, const DtFunc *func)
{
    int64_t numbers = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_INPUT || op->text[0] == '@')
            continue;
        const DtType *type = op->out[0]->type;
        if (type->rank == 0 || (r->batch && type->axes[0].extent != r->batch))
            return 0;
        r->batch = type->axes[0].extent;
        r->first = r->first ? r->first : type->axes[0].name;
        const int64_t n = dt_type_elements(type) / r->batch;
        numbers = n > numbers ? n : numbers;
    }
    return numbers;
}

/* Looks at the entry: each result must have the axis of samples where it has one of that name. */
static Instance *look_at_entry(Rows *r, DtFunc *func)
{
    Instance *entry = look(r, func, NULL);
    for (uint32_t i = 0; i < func->results.n && !r->mixes; i++) {
        const DtValue *result = func->results.at[i];
        for (uint32_t k = 0; !entry->axis[result->id] && k < r->carriers.n; k++)
            if (dt_type_find(result->type, r->carriers.at[k]) >= 0)
                mixed(r);
    }
    return entry;
}

bool dt_pass_rows(DtModule *module, const DtPassContext *context)
{
    DtEntryPoint *predict = dt_entry_whole(module, DT_ENTRY_PREDICT, NULL);
    Rows r = {.module = module, .context = context};
    const bool trains = context && context->train && predict;
    const int64_t numbers = trains ? find_batch(&r, predict->func) : 0;
    if (numbers == 0)
        return false;
    Instance *entry = look_at_entry(&r, predict->func);
    r.rows = r.mixes ? r.batch : choose(&r, numbers);
    lint(&r);
    if (r.rows == r.batch)
        return false;
    DtFunc *of = predict->func;
    const char *name = of->name;
    of->name = dt_intern_printf("%s.batch", name);
    predict->func = copy(&r, entry);
    predict->func->name = name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        if (module->funcs.at[i] != of)
            module->funcs.at[n++] = module->funcs.at[i];
    module->funcs.n = n;
    return true;
}
