/* SPDX-License-Identifier: Apache-2.0 */
/* Place: gives every value its placement on the mesh and inserts the reductions that makes necessary.
 *
 *     mesh data = 2; shard batch on data; micro batch = 4
 *     %x = input tokens : i32[batch, seq]        %x = input tokens : i32[batch/micro.data, seq]
 *     %l = reduce sum[batch, seq](%n) : f32  ->  %l = reduce sum[batch, seq](%n) : f32{sum micro, data}
 *     %y = exp(%l)                               %r = all_reduce[data](%l) ; %y = exp(%r)   (error if micro is pending)
 *
 * Placements follow the shard lines for the axes of model inputs; what is computed inherits them by the
 * shape rules (ir/shape.c), which know every op's local meaning. A sum over a split axis stays pending
 * through linear ops; at the first op that is not linear it is completed. Micro-batches are a split over
 * time, the major-most of the batch: nothing communicates over it but the one final sum of the entry's
 * results. A whole term that meets a pending sum is kept on the first rank and zero elsewhere, so that it
 * is added once.
 *
 * Requires: calls inlined but library calls; no placement. Establishes: types carry splits and pending sums;
 * module->mesh. Breaks: nothing. */
#include "base/intern.h"
#include "ir/shape.h"
#include "passes/passes.h"

#include <string.h>

typedef struct Rule { /* the mesh axes that split an axis, major first */
    const char *axis;
    uint8_t split[DT_MAX_SPLIT];
    uint8_t n;
} Rule;

typedef struct Known {
    const DtValue *from;
    DtValue *to;
} Known;

typedef struct Place {
    DtModule *module;
    const DtPassContext *context;
    DT_VEC(Rule) rules;
    uint16_t time;    /* bit of the time axis, 0 if there is one micro-batch */
    bool failed;
    DtFunc *top;      /* the copy of the entry being placed */
    DtFunc *prologue; /* what its data alone decide, for the whole batch before the first micro-batch; or NULL */
    DT_VEC(Known) clones;     /* values of top -> their copies in prologue */
    DT_VEC(Known) completed;  /* pending values of top -> the inputs of top that hold them complete */
    DT_VEC(DtEntryPoint) more; /* prologues of finished entries */
} Place;

static DtFunc *place_func(Place *p, const DtFunc *func, const DtType *const *types, uint32_t n_force, const DtType *const *force);

/* ---- rules ---- */

static const Rule *rule_of(const Place *p, const char *axis)
{
    for (uint32_t i = 0; i < p->rules.n; i++)
        if (p->rules.at[i].axis == axis)
            return &p->rules.at[i];
    return NULL;
}

static const DtType *by_rule(const Place *p, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    uint16_t used = 0;
    if (type->rank == 0)
        return type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < type->rank; i++) {
        const Rule *rule = rule_of(p, axes[i].name);
        if (!rule || axes[i].n_split || axes[i].extent == 1)
            continue;
        for (uint32_t s = 0; s < rule->n; s++)
            if (!(used >> rule->split[s] & 1)) {
                axes[i].split[axes[i].n_split++] = rule->split[s];
                used |= (uint16_t)(1u << rule->split[s]);
            }
    }
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

/* An axis made from a split one keeps the split wherever the name occurs later. */
static void learn(Place *p, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtAxis *axis = &type->axes[i];
        if (axis->n_split == 0 || rule_of(p, axis->name))
            continue;
        Rule rule = {.axis = axis->name, .n = axis->n_split};
        memcpy(rule.split, axis->split, axis->n_split);
        DT_PUSH(p->module->arena, p->rules, rule);
    }
}

/* ---- conversions ---- */

/* x, which is whole over these mesh axes, as a sum pending over them: x on the first rank, zero elsewhere. */
static DtValue *keep_first(Place *p, DtBuilder *b, DtValue *x, uint16_t bits)
{
    for (uint32_t m = 0; m < p->module->mesh.n; m++) {
        if (!(bits >> m & 1))
            continue;
        const DtMeshAxis *mesh = &p->module->mesh.axes[m];
        DtAxis axis = {.name = dt_intern_printf("@%s", mesh->name), .extent = mesh->size, .n_split = 1, .split = {(uint8_t)m}};
        DtValue *rank = dt_graph_iota(b, axis);
        DtValue *first = dt_graph_binary(b, DT_OP_EQ, rank, dt_graph_constant(b, DT_I32, 0));
        x = dt_graph_where(b, first, x, dt_graph_constant(b, x->type->dtype, 0));
        x = dt_graph_reduce(b, DT_REDUCE_SUM, x, 1, &axis.name);
    }
    return x;
}

static DtDiag *refuse(Place *p, DtDiagCode code, const DtOp *op, const char *reason)
{
    p->failed = true;
    return dt_diag_report(p->module->diags, code, op->span, "%s", reason);
}

/* Whether x depends on inputs of the program and constants only, through plain ops. */
static bool is_data_only(const DtValue *x)
{
    const DtOp *op = x->op;
    if (!op || op->kind == DT_OP_PARAM || op->kind == DT_OP_RNG || (op->kind == DT_OP_INPUT && op->text[0] == '@'))
        return false;
    DtOpClass class = dt_op_info[op->kind].op_class;
    if (class == DT_CLASS_STRUCT || class == DT_CLASS_COMM)
        return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!is_data_only(op->in[i]))
            return false;
    return true;
}

static DtValue *clone_data(Place *p, DtBuilder *b, const DtValue *x)
{
    for (uint32_t i = 0; i < p->clones.n; i++)
        if (p->clones.at[i].from == x)
            return p->clones.at[i].to;
    const DtOp *op = x->op;
    DtValue **in = DT_NEW_ARRAY(p->module->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = clone_data(p, b, op->in[i]);
    b->span = op->span;
    b->path = op->path;
    DtOp *copy = dt_graph_copy(b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        DT_PUSH(p->module->arena, p->clones, ((Known){op->out[i], copy->out[i]}));
    return copy->out[x->index];
}

/* x, pending over time, as an input that the entry's prologue has completed: a pass over all micro-batches
 * that computes only what the data alone decide (the number of masked tokens, say). */
static DtValue *before_all(Place *p, DtBuilder *b, DtValue *x)
{
    for (uint32_t i = 0; i < p->completed.n; i++)
        if (p->completed.at[i].from == x)
            return p->completed.at[i].to;
    if (!p->prologue)
        p->prologue = dt_graph_func(p->module, dt_intern_printf("%s.prologue", p->top->name), DT_FUNC_ENTRY);
    DtBuilder ahead = {.func = p->prologue, .span = b->span, .path = b->path};
    dt_graph_return(p->prologue, clone_data(p, &ahead, x));
    const DtType *whole = dt_type_make(x->type->dtype, x->type->rank, x->type->axes, 0, DT_REDUCE_SUM);
    const char *name = dt_intern_printf("@%s.%u", p->prologue->name, p->completed.n);
    DtValue *input = dt_graph_source(b, DT_OP_INPUT, whole, name, NULL);
    DT_PUSH(p->module->arena, p->completed, ((Known){x, input}));
    return input;
}

static void not_yet(Place *p, DtSpan span, const char *what)
{
    p->failed = true;
    DtDiag *diag = dt_diag_report(p->module->diags, E0592, span, "%s is not implemented yet", what);
    dt_diag_help(diag, "compile without it: `--parallel none` gives the serial program, and a block with `mesh` and "
                       "`shard batch on ...` gives data parallelism");
}

/* Ranks cannot add 16-bit floats yet. */
static bool can_reduce(Place *p, DtDtype dtype, DtSpan span)
{
    if (!dt_dtype_is_float(dtype) || dt_dtype_size(dtype) >= 4)
        return true;
    not_yet(p, span, dt_arena_printf(p->module->arena, "a sum of %s values over ranks", dt_dtype_name(dtype)));
    return false;
}

/* Completes the pending reduction of x over the ranks; over time only what the data
 * alone decide can be known in between. */
static DtValue *complete(Place *p, DtBuilder *b, DtValue *x, const DtOp *user)
{
    uint16_t bits = x->type->partial;
    if ((bits & p->time) && b->func == p->top && x->type->pending == DT_REDUCE_SUM && is_data_only(x))
        return before_all(p, b, x);
    if (bits & p->time) {
        DtDiag *diag = refuse(p, E0590, user, dt_arena_printf(p->module->arena,
            "`%s` needs a sum over the whole batch, but `micro` cuts the batch in time", dt_op_info[user->kind].text));
        dt_diag_note(diag, "a sum over micro-batches is complete only when the last one has run");
        dt_diag_help(diag, "take statistics over groups of samples: `x[batch -> (pool, each)]`, then sum over `each`; or drop `micro`");
        return NULL;
    }
    if (!can_reduce(p, x->type->dtype, user->span))
        return NULL;
    const DtType *type = dt_type_make(x->type->dtype, x->type->rank, x->type->axes, 0, DT_REDUCE_SUM);
    DtValue *whole = dt_graph_comm(b, DT_OP_ALL_REDUCE, x, bits, type);
    whole->op->reduce = (DtReduce)x->type->pending;
    whole->name = x->name;
    return whole;
}

/* The mesh axes that split the axes of type. */
static uint16_t split_bits(const DtType *type)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        for (uint32_t s = 0; s < type->axes[i].n_split; s++)
            bits |= (uint16_t)(1u << type->axes[i].split[s]);
    return bits;
}

static bool is_sum_like(const DtOp *op)
{
    return op->kind == DT_OP_ADD || op->kind == DT_OP_SUB || op->kind == DT_OP_WHERE || op->kind == DT_OP_CONCAT;
}

/* Changes operands until the op's rule accepts them: whole terms beside pending sums are kept on the first
 * rank; other pending operands are completed. */
static bool convert(Place *p, DtBuilder *b, const DtOp *op, DtValue **in)
{
    uint32_t first = op->kind == DT_OP_WHERE ? 1 : 0;
    uint16_t bits = 0;
    bool sums = is_sum_like(op);
    for (uint32_t i = 0; i < op->n_in; i++) {
        sums = sums && !(in[i]->type->partial && (i < first || in[i]->type->pending != DT_REDUCE_SUM));
        bits |= in[i]->type->partial;
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        sums = sums && !(split_bits(in[i]->type) & bits); /* every rank has other elements: none may drop them */
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint16_t have = in[i]->type->partial;
        if (sums && i >= first)
            in[i] = keep_first(p, b, in[i], (uint16_t)(bits & ~have));
        else if (have && !(in[i] = complete(p, b, in[i], op)))
            return false;
    }
    return true;
}

/* ---- ops ---- */

/* The copy of op on placed operands, NULL after a diagnostic. */
static DtOp *place_op(Place *p, DtBuilder *b, const DtOp *op, DtValue **in)
{
    DtOp draft = *op;
    const DtType *wish[8], *types[8];
    DtValue *wished[8];
    uint32_t n = op->n_out < 8 ? op->n_out : 8;
    draft.in = in;
    for (uint32_t i = 0; i < n; i++) {
        wish[i] = by_rule(p, op->out[i]->type);
        wished[i] = DT_NEW(p->module->arena, DtValue);
        *wished[i] = *op->out[i];
        wished[i]->type = wish[i];
    }
    const char *reason = dt_shape_derive(&draft, &p->module->mesh, wish, types);
    if (reason) {
        char *why = dt_arena_strndup(p->module->arena, reason, strlen(reason));
        if (!convert(p, b, op, in))
            return NULL;
        reason = dt_shape_derive(&draft, &p->module->mesh, wish, types);
        if (reason) {
            DtDiag *diag = refuse(p, E0591, op, dt_arena_printf(p->module->arena,
                "`%s` cannot be computed in this layout: %s", dt_op_info[op->kind].text, why));
            dt_diag_note(diag, "only layouts that split the batch over `data` axes and over micro-batches are implemented so far");
            return NULL;
        }
    }
    draft.out = wished; /* their types are the wishes of the copy */
    DtOp *copy = dt_graph_copy(b, &draft, in);
    for (uint32_t i = 0; i < copy->n_out; i++) {
        copy->out[i]->name = op->out[i]->name;
        learn(p, copy->out[i]->type);
    }
    return copy;
}

static const DtType *without_axis(const DtType *type, const char *axis)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name != axis)
            axes[n++] = type->axes[i];
    return dt_type_make(type->dtype, n, axes, type->partial, (DtReduce)type->pending);
}

static const DtType *with_partial(const DtType *type, uint16_t bits)
{
    return dt_type_make(type->dtype, type->rank, type->axes, bits, DT_REDUCE_SUM);
}

/* The placement of carried values is a fixed point: a value that becomes pending inside is pending from the
 * start. */
static DtOp *place_loop(Place *p, DtBuilder *b, const DtOp *op, DtValue **in)
{
    const DtLoop *loop = op->loop;
    uint32_t n = op->func->inputs.n;
    const DtType **types = DT_NEW_ARRAY(p->module->arena, const DtType *, n + 1);
    DtFunc *body = NULL;
    types[0] = op->func->inputs.at[0]->type;
    for (uint32_t i = 0; i < op->n_in; i++)
        types[1 + i] = i < loop->n_carried + loop->n_invariant ? in[i]->type : without_axis(in[i]->type, loop->axis);
    for (bool stable = false; !stable && !p->failed;) { /* ends: bits of types are only ever added */
        stable = true;
        body = place_func(p, op->func, types, loop->n_carried, types + 1);
        for (uint32_t i = 0; body && i < loop->n_carried; i++) {
            uint16_t bits = body->results.at[i]->type->partial;
            if ((bits | types[1 + i]->partial) == types[1 + i]->partial)
                continue;
            types[1 + i] = with_partial(types[1 + i], bits | types[1 + i]->partial);
            stable = false;
        }
    }
    if (p->failed)
        return NULL;
    for (uint32_t i = 0; i < loop->n_carried; i++)
        in[i] = keep_first(p, b, in[i], (uint16_t)(types[1 + i]->partial & ~in[i]->type->partial));
    DtOp *copy = dt_graph_loop(b, body, *loop, in);
    for (uint32_t i = 0; i < copy->n_out; i++)
        copy->out[i]->name = op->out[i]->name;
    return copy;
}

static DtOp *place_call(Place *p, DtBuilder *b, const DtOp *op, DtValue **in)
{
    const DtType **types = DT_NEW_ARRAY(p->module->arena, const DtType *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (in[i]->type->partial && !(in[i] = complete(p, b, in[i], op)))
            return NULL;
        types[i] = in[i]->type;
    }
    DtFunc *func = place_func(p, op->func, types, 0, NULL);
    return func ? dt_graph_call(b, func, op->text, in) : NULL;
}

/* ---- functions ---- */

static void place_source(Place *p, DtBuilder *b, const DtOp *op, DtValue **map)
{
    const DtType *type = op->kind == DT_OP_INPUT ? by_rule(p, op->out[0]->type) : op->out[0]->type;
    for (uint32_t d = 1; op->kind == DT_OP_INPUT && d < type->rank; d++)
        if (type->axes[d].n_split) {
            DtDiag *diag = refuse(p, E0592, op, dt_arena_printf(p->module->arena,
                "splitting axis `%s` of input `%s` is not implemented yet", type->axes[d].name, op->text));
            dt_diag_note(diag, "readers fill whole samples: only the sample axis, the first, can be split so far");
            return;
        }
    DtValue *value = dt_graph_source(b, op->kind, type, op->text, op->store);
    value->name = op->out[0]->name;
    map[op->out[0]->id] = value;
}

/* A copy of func on inputs of these types. The first n_force results become pending as far as force says. */
static DtFunc *place_func(Place *p, const DtFunc *func, const DtType *const *types, uint32_t n_force,
                          const DtType *const *force)
{
    DtFunc *copy = dt_graph_func(p->module, func->name, func->kind);
    if (func->kind == DT_FUNC_ENTRY)
        p->top = copy;
    DtValue **map = DT_NEW_ARRAY(p->module->arena, DtValue *, func->n_values + 1);
    DtBuilder b = {.func = copy};
    copy->library = func->library;
    copy->span = func->span;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        map[func->inputs.at[i]->id] = i < func->n_args ? dt_graph_arg(copy, types[i], func->inputs.at[i]->name)
                                                       : dt_graph_param(copy, types[i], func->params.at[i - func->n_args]);
    for (uint32_t i = 0; i < func->ops.n && !p->failed; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(p->module->arena, DtValue *, op->n_in + 1);
        b.span = op->span;
        b.path = op->path;
        for (uint32_t j = 0; j < op->n_in; j++)
            in[j] = map[op->in[j]->id];
        if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT) {
            place_source(p, &b, op, map);
            continue;
        }
        if (op->kind == DT_OP_BIND) {
            map[op->out[0]->id] = in[0];
            continue;
        }
        DtOp *placed = op->kind == DT_OP_LOOP ? place_loop(p, &b, op, in)
                       : op->kind == DT_OP_CALL ? place_call(p, &b, op, in) : place_op(p, &b, op, in);
        for (uint32_t j = 0; placed && j < op->n_out; j++)
            map[op->out[j]->id] = placed->out[j];
    }
    if (p->failed)
        return NULL;
    for (uint32_t i = 0; i < func->results.n; i++) {
        DtValue *value = map[func->results.at[i]->id];
        if (i < n_force)
            value = keep_first(p, &b, value, (uint16_t)(force[i]->partial & ~value->type->partial));
        dt_graph_return(copy, value);
    }
    copy->n_returns = func->n_returns;
    copy->writes.n = 0;
    for (uint32_t i = 0; i < func->writes.n; i++)
        DT_PUSH(p->module->arena, copy->writes, func->writes.at[i]);
    return copy;
}

/* ---- entries ---- */

/* A gradient that every micro-batch holds whole (of a term without batch) is added once, not m times. */
static void settle_results(Place *p, DtEntryPoint *entry)
{
    DtBuilder b = {.func = entry->func};
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtEntryResult *result = &entry->results.at[i];
        DtValue *value = entry->func->results.at[i];
        bool is_grad = result->store && result->store->kind == DT_STORE_GRAD;
        if ((value->type->partial & ~p->time) && !can_reduce(p, value->type->dtype, entry->func->span))
            return;
        if (value->type->partial && value->type->pending != DT_REDUCE_SUM && result->store) {
            b.span = value->op ? value->op->span : entry->func->span; /* what is pending at the end, is added */
            value = value->op ? complete(p, &b, value, value->op) : NULL;
            if (!value)
                return;
            entry->func->results.at[i] = value;
        }
        if (is_grad && p->time && !(value->type->partial & p->time))
            entry->func->results.at[i] = value = keep_first(p, &b, value, p->time);
        result->accumulate = (value->type->partial & p->time) != 0 || (is_grad && !p->time);
    }
}

/* The prologue of the entry just placed becomes an entry of its own, "grad.prologue", whose results are the
 * inputs of the same names. */
static void finish_prologue(Place *p, const char *entry)
{
    if (!p->prologue)
        return;
    DtEntryPoint point = {.name = dt_intern_printf("%s.prologue", entry), .func = p->prologue};
    for (uint32_t i = 0; i < p->completed.n; i++)
        DT_PUSH(p->module->arena, point.results, ((DtEntryResult){.name = p->completed.at[i].to->op->text, .accumulate = true}));
    DT_PUSH(p->module->arena, p->more, point);
    p->prologue = NULL;
    p->clones.n = p->completed.n = 0;
}

/* ---- the mesh and what is not there yet ---- */

static void check_supported(Place *p, const DtParallelConfig *c)
{
    if (c->is_auto)
        not_yet(p, c->auto_span, "`auto` (the search for a layout)");
    for (uint32_t i = 0; i < c->pipelines.n; i++)
        not_yet(p, c->pipelines.at[i].span, "`pipeline`");
    for (uint32_t i = 0; i < c->zeros.n; i++)
        not_yet(p, c->zeros.at[i].span, "`zero`");
    for (uint32_t i = 0; i < c->remats.n; i++)
        not_yet(p, c->remats.at[i].span, "`remat`");
}

static int mesh_number(const DtMesh *mesh, const char *name)
{
    for (uint32_t i = 0; i < mesh->n; i++)
        if (mesh->axes[i].name == name)
            return (int)i;
    return -1;
}

static bool is_of_parameter(const Place *p, const char *axis)
{
    for (uint32_t i = 0; i < p->module->stores.n; i++)
        if (dt_type_find(p->module->stores.at[i]->type, axis) >= 0)
            return true;
    return false;
}

static void add_shard(Place *p, const DtShard *shard)
{
    if (shard->n_place || shard->ring || shard->zigzag || shard->pad) {
        not_yet(p, shard->span, "a `shard` line with a place or options");
        return;
    }
    for (uint32_t i = 0; i < shard->n_axes; i++) {
        if (is_of_parameter(p, shard->axes[i])) {
            not_yet(p, shard->span, "splitting an axis of a parameter (tensor parallelism)");
            return;
        }
        Rule *rule = NULL;
        for (uint32_t r = 0; r < p->rules.n; r++)
            if (p->rules.at[r].axis == shard->axes[i])
                rule = &p->rules.at[r];
        if (!rule) {
            DT_PUSH(p->module->arena, p->rules, ((Rule){.axis = shard->axes[i]}));
            rule = &p->rules.at[p->rules.n - 1];
        }
        for (uint32_t m = 0; m < shard->n_mesh; m++) {
            int number = mesh_number(&p->module->mesh, shard->mesh[m]);
            if (number >= 0 && rule->n == DT_MAX_SPLIT) {
                not_yet(p, shard->span, "splitting an axis this often");
                return;
            }
            if (number >= 0)
                rule->split[rule->n++] = (uint8_t)number;
        }
    }
}

static void make_mesh(Place *p, const DtParallelConfig *c)
{
    DtMesh *mesh = &p->module->mesh;
    *mesh = (DtMesh){.n = 0};
    if (c->micro > 1 && is_of_parameter(p, c->micro_axis)) {
        not_yet(p, c->micro_span, "cutting an axis of a parameter into micro-batches");
        return;
    }
    if (c->micro > 1) {
        mesh->axes[mesh->n++] = (DtMeshAxis){.name = dt_intern("micro"), .size = c->micro, .is_time = true};
        p->time = 1;
        Rule rule = {.axis = c->micro_axis, .n = 1, .split = {0}};
        DT_PUSH(p->module->arena, p->rules, rule);
    }
    for (uint32_t i = 0; i < c->mesh.n && mesh->n < DT_MAX_MESH; i++)
        mesh->axes[mesh->n++] = c->mesh.axes[i];
    for (uint32_t i = 0; i < c->shards.n; i++)
        add_shard(p, &c->shards.at[i]);
}

void dt_pass_place(DtModule *module, const DtPassContext *context)
{
    Place place = {.module = module, .context = context}, *p = &place;
    const DtParallelConfig *config = context->parallel;
    if (!config)
        return;
    check_supported(p, config);
    if (p->failed)
        return;
    make_mesh(p, config);
    for (uint32_t i = 0; i < module->entries.n && !p->failed; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if (strcmp(entry->name, "update") == 0)
            continue;
        DtFunc *func = place_func(p, entry->func, NULL, 0, NULL);
        if (!func)
            return;
        DtFunc *whole = entry->func;
        entry->func = func;
        settle_results(p, entry);
        if (p->failed) { /* what is left behind is verified */
            entry->func = whole;
            return;
        }
        dt_graph_sweep(func);
        finish_prologue(p, entry->name);
    }
    for (uint32_t i = 0; i < p->more.n; i++)
        DT_PUSH(module->arena, module->entries, p->more.at[i]);
}
