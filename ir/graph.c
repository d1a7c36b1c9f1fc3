/* SPDX-License-Identifier: Apache-2.0 */
/* Building modules, functions and ops. Every op is made by `make`, which copies what the caller
 * passed into the arena of the module, asks the shape rule of the kind for the result types, and
 * appends the op to its function. A broken rule is an error of the caller, not of the user: the
 * process aborts and shows the op, its span and its operands. The frontend asks ir/shape.h first
 * where a user's program may be wrong. */
#include "ir/ir.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/shape.h"

#include <stdlib.h>
#include <string.h>

/* ---- modules and functions ---- */

DtModule *dt_graph_module(DtArena *arena, DtDiags *diags)
{
    DtModule *module = DT_NEW(arena, DtModule);
    module->arena = arena;
    module->diags = diags;
    return module;
}

int64_t dt_module_logical(const DtModule *module, const DtAxis *axis)
{
    for (uint32_t i = 0; i < module->padded.n; i++)
        if (module->padded.at[i].name == axis->name &&
            module->padded.at[i].physical == axis->extent)
            return module->padded.at[i].logical;
    return axis->extent;
}

const DtType *dt_module_logical_type(const DtModule *module, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    if (!module->padded.n)
        return type;
    for (uint32_t i = 0; i < type->rank; i++) {
        axes[i] = (DtAxis){.name = type->axes[i].name};
        axes[i].extent = dt_module_logical(module, &type->axes[i]);
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* Returns the function of that name; NULL: there is none. */
DtFunc *dt_graph_find(const DtModule *module, const char *name)
{
    const char *interned = dt_intern(name);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        if (module->funcs.at[i]->name == interned)
            return module->funcs.at[i];
    }
    return NULL;
}

/* Adds an empty function called name, or name.1, name.2 ... if that is taken, to the module and
 * returns it. */
DtFunc *dt_graph_func(DtModule *module, const char *name, DtFuncKind kind)
{
    DtFunc *func = DT_NEW(module->arena, DtFunc);
    func->module = module;
    func->kind = kind;
    func->name = dt_intern(name);
    for (unsigned i = 1; dt_graph_find(module, func->name); i++)
        func->name = dt_intern_printf("%s.%u", name, i);
    DT_PUSH(module->arena, module->funcs, func);
    return func;
}

uint32_t dt_graph_number(const DtModule *module, const DtFunc *func)
{
    uint32_t number = 0;
    while (module->funcs.at[number] != func)
        number++;
    return number;
}

uint32_t dt_graph_reads(const DtFunc *func, const DtValue *value)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            n += func->ops.at[i]->in[k] == value;
    for (uint32_t i = 0; i < func->results.n; i++)
        n += func->results.at[i] == value;
    return n;
}

void dt_graph_replace(DtFunc *func, const DtValue *old, DtValue *value)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->in[k] == old)
                func->ops.at[i]->in[k] = value;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == old)
            func->results.at[i] = value;
}

const DtOp *dt_graph_put(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op && op->kind == DT_OP_RINGBUF_PUT && op->n_in == 2 && op->in && op->in[1] == value)
            return op;
    }
    return NULL;
}

bool dt_graph_is_slotted(const DtFunc *func, const DtValue *result)
{
    bool is = false;
    if (func->kind != DT_FUNC_BODY || !result->op || !result->op->starts)
        return false;
    for (uint32_t i = 0; !is && i < func->results.n; i++)
        is = func->results.at[i] == result;
    return is && dt_graph_put(func, result);
}

bool dt_graph_is_slotted_in(const DtValue *value)
{
    const DtOp *op = value->op;
    return op && op->kind == DT_OP_LOOP && op->func && value->index < op->func->results.n &&
           op->func->results.at[value->index] &&
           dt_graph_is_slotted(op->func, op->func->results.at[value->index]);
}

static _Noreturn void misuse(const DtFunc *func, const char *problem)
{
    DT_BUG("in function `%s`: %s", func->name, problem);
}

static DtValue *new_value(DtFunc *func, const DtType *type, DtOp *op, uint32_t index,
                          const char *name)
{
    DtValue *value = DT_NEW(func->module->arena, DtValue);
    *value =
        (DtValue){.type = type, .op = op, .index = index, .name = name, .id = func->n_values++};
    return value;
}

static DtValue *new_input(DtFunc *func, const DtType *type, const char *name)
{
    DtValue *value = new_value(func, type, NULL, func->inputs.n, name ? dt_intern(name) : NULL);
    DT_PUSH(func->module->arena, func->inputs, value);
    return value;
}

DtValue *dt_graph_arg(DtFunc *func, const DtType *type, const char *name)
{
    if (func->params.n)
        misuse(func, "an argument is added after a parameter");
    func->n_args++;
    return new_input(func, type, name);
}

DtValue *dt_graph_arg_like(DtFunc *func, const DtType *type, const DtValue *input)
{
    DtValue *value = dt_graph_arg(func, type, input->name);
    value->means = input->means;
    return value;
}

/* Adds a parameter to the function. Its value is named by the last part of the path. */
DtValue *dt_graph_param(DtFunc *func, const DtType *type, DtFormalParam param)
{
    const char *dot = strrchr(param.path, '.');
    DT_PUSH(func->module->arena, func->params, param);
    return new_input(func, type, dot ? dot + 1 : param.path);
}

void dt_graph_return(DtFunc *func, DtValue *value)
{
    if (func->writes.n)
        misuse(func, "a returned value is added after a write");
    DT_PUSH(func->module->arena, func->results, value);
    func->n_returns++;
}

void dt_graph_write(DtFunc *func, uint32_t param, DtValue *value)
{
    if (param >= func->params.n || !func->params.at[param].is_state)
        misuse(func, "what is written is not a state");
    DT_PUSH(func->module->arena, func->results, value);
    DT_PUSH(func->module->arena, func->writes, param);
}

/* ---- making ops ---- */

static void describe_place(const DtModule *module, DtSpan span, DtText *text)
{
    if (span.file == 0)
        return;
    uint32_t line = 0, column = 0;
    const char *path = module->diags ? dt_diag_path(module->diags, span.file) : NULL;
    if (path)
        dt_diag_position(module->diags, span, &line, &column);
    dt_text_printf(text, "\n  at %s:%u:%u (bytes %u-%u of file %u)", path ? path : "?", line,
                   column, span.lo, span.hi, span.file);
}

static _Noreturn void broken(const DtBuilder *b, const DtOp *op, const char *reason)
{
    DtText text = {0};
    dt_text_printf(&text, "%s\n  in `%s` of function `%s`%s%s", reason, dt_op_info[op->kind].text,
                   b->func->name, op->path ? ", layer " : "", op->path ? op->path : "");
    describe_place(b->func->module, op->span, &text);
    for (uint32_t i = 0; i < op->n_in && i < 32; i++) {
        dt_text_printf(&text, "\n  operand %u: %s ", i,
                       op->in[i] && op->in[i]->name ? op->in[i]->name : "");
        if (op->in[i])
            dt_type_print_extents(op->in[i]->type, &b->func->module->mesh, &text);
        else
            dt_text_printf(&text, "missing");
    }
    dt_text_printf(&text, "\n");
    dt_irtext_print_func(b->func, &text);
    DT_BUG("%s", text.at);
}

static const char **copy_names(DtArena *arena, uint32_t n, const char *const *names)
{
    if (n == 0)
        return NULL;
    const char **copy = DT_NEW_ARRAY(arena, const char *, n);
    for (uint32_t i = 0; i < n; i++)
        copy[i] = names[i] ? dt_intern(names[i]) : NULL;
    return copy;
}

static void *copy_bytes(DtArena *arena, const void *from, size_t bytes)
{
    if (!from || bytes == 0)
        return NULL;
    void *copy = dt_arena_alloc(arena, bytes);
    memcpy(copy, from, bytes);
    return copy;
}

static void copy_relabels(DtArena *arena, DtOp *op)
{
    op->relabels = copy_bytes(arena, op->relabels, op->n_relabels * sizeof(DtRelabel));
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        DtRelabel *r = &op->relabels[e];
        for (uint32_t i = 0; i < r->n_from && i < DT_COUNT(r->from); i++)
            r->from[i] = dt_intern(r->from[i]);
        for (uint32_t i = 0; i < r->n_to && i < DT_COUNT(r->to); i++)
            r->to[i] = dt_intern(r->to[i]);
    }
}

/* Sets the extent of a single `to` axis, if it is 0, to the product of those of the `from` axes. */
static void fill_extents(const DtType *x, DtRelabel *r)
{
    if (r->n_to != 1 || r->to_extent[0] != 0)
        return;
    r->to_extent[0] = 1;
    for (uint32_t i = 0; i < r->n_from && i < DT_COUNT(r->from); i++) {
        int64_t extent = dt_type_extent(x, r->from[i]);
        r->to_extent[0] *= extent > 0 ? extent : 1;
    }
}

/* Appends a copy of draft, with its own arrays and the result types of its shape rule. wish as in
 * ir/shape.h; loose: wishes that do not fit are dropped. */
static DtOp *make(DtBuilder *b, const DtOp *draft, uint32_t n_in, DtValue *const *in,
                  const DtType *const *wish, bool loose)
{
    DtArena *arena = b->func->module->arena;
    DtOp *op = DT_NEW(arena, DtOp);
    *op = *draft;
    op->span = b->span;
    op->path = b->path;
    op->n_in = n_in;
    op->in = copy_bytes(arena, in, n_in * sizeof in[0]);
    for (uint32_t i = 0; i < n_in; i++) {
        if (!in[i])
            broken(b, op, "an operand is NULL");
    }
    op->axes = copy_names(arena, op->n_axes, op->axes);
    op->axes2 = copy_names(arena, op->n_axes2, op->axes2);
    op->ranges = copy_bytes(arena, op->ranges, dt_shape_ranges(op) * sizeof(DtRange));
    copy_relabels(arena, op);
    for (uint32_t i = 0; i < op->n_relabels && n_in; i++)
        fill_extents(in[0]->type, &op->relabels[i]);
    op->loop = copy_bytes(arena, op->loop, sizeof(DtLoop));
    op->of = copy_bytes(arena, op->of, sizeof(DtAheadOf));
    op->n_out = dt_shape_results(op);
    op->out = op->n_out ? DT_NEW_ARRAY(arena, DtValue *, op->n_out) : NULL;
    const DtType *few[8],
        **types = op->n_out > DT_COUNT(few) ? DT_NEW_ARRAY(arena, const DtType *, op->n_out) : few;
    const DtMesh *mesh = &b->func->module->mesh;
    const char *reason =
        loose ? dt_shape_derive(op, mesh, wish, types) : dt_shape_check(op, mesh, wish, types);
    if (reason)
        broken(b, op, reason);
    for (uint32_t i = 0; i < op->n_out; i++) {
        op->out[i] = new_value(b->func, types[i], op, i, NULL);
        op->out[i]->means = draft->out && i < draft->n_out ? draft->out[i]->means : 0;
        op->out[i]->final = draft->out && i < draft->n_out ? draft->out[i]->final : 0;
        op->out[i]->made_anew = op->kind == DT_OP_RNG && draft->out ? draft->out[i]->made_anew : 0;
    }
    DT_PUSH(arena, b->func->ops, op);
    return op;
}

static DtValue *make_one(DtBuilder *b, const DtOp *draft, uint32_t n_in, DtValue *const *in,
                         const DtType *wish)
{
    DtOp *op = make(b, draft, n_in, in, &wish, false);
    return op->n_out ? op->out[0] : NULL;
}

/* ---- sources ---- */

DtValue *dt_graph_constant(DtBuilder *b, DtDtype dtype, double number)
{
    DtOp op = {.kind = DT_OP_CONST, .number = number};
    return make_one(b, &op, 0, NULL, dt_type_scalar(dtype));
}

DtValue *dt_graph_iota(DtBuilder *b, DtAxis axis)
{
    DtOp op = {.kind = DT_OP_IOTA, .n_axes = 1, .axes = &axis.name};
    return make_one(b, &op, 0, NULL, dt_type_plain(DT_I32, 1, &axis));
}

DtValue *dt_graph_rng(DtBuilder *b, const DtType *type, const char *site)
{
    DtOp op = {.kind = DT_OP_RNG, .text = dt_intern(site), .draws = 4};
    return make_one(b, &op, 0, NULL, type);
}

/* Appends a source. DT_OP_PARAM: it reads `store`, text NULL means the store's path; DT_OP_INPUT:
 * text is its name. */
DtValue *dt_graph_source(DtBuilder *b, DtOpKind kind, const DtType *type, const char *text,
                         DtStore *store)
{
    const char *name = text ? text : store ? store->path : NULL;
    DtOp op = {.kind = kind, .text = name ? dt_intern(name) : NULL, .store = store};
    return make_one(b, &op, 0, NULL, type);
}

/* ---- maps ---- */

DtValue *dt_graph_map(DtBuilder *b, DtOpKind kind, uint32_t n, DtValue *const *in,
                      const DtType *wish)
{
    DtOp op = {.kind = kind};
    return make_one(b, &op, n, in, wish);
}

DtValue *dt_graph_unary(DtBuilder *b, DtOpKind kind, DtValue *x)
{
    return dt_graph_map(b, kind, 1, &x, NULL);
}

DtValue *dt_graph_binary(DtBuilder *b, DtOpKind kind, DtValue *x, DtValue *y)
{
    return dt_graph_map(b, kind, 2, (DtValue *[]){x, y}, NULL);
}

DtValue *dt_graph_where(DtBuilder *b, DtValue *c, DtValue *x, DtValue *y)
{
    return dt_graph_map(b, DT_OP_WHERE, 3, (DtValue *[]){c, x, y}, NULL);
}

/* Returns x cast to the dtype; x itself if it has that dtype. */
DtValue *dt_graph_cast(DtBuilder *b, DtValue *x, DtDtype dtype)
{
    if (x->type->dtype == dtype)
        return x;
    return dt_graph_map(b, DT_OP_CAST, 1, &x, dt_type_with_dtype(x->type, dtype));
}

/* ---- axis operations ---- */

DtValue *dt_graph_relabel(DtBuilder *b, DtValue *x, uint32_t n, const DtRelabel *entries,
                          const DtType *wish)
{
    DtOp op = {.kind = DT_OP_RELABEL, .n_relabels = n, .relabels = (DtRelabel *)(uintptr_t)entries};
    return make_one(b, &op, 1, &x, wish);
}

DtValue *dt_graph_rename(DtBuilder *b, DtValue *x, const char *from, const char *to,
                         const DtType *wish)
{
    DtRelabel entry = {.n_from = 1, .n_to = 1, .from = {from}, .to = {to}};
    entry.to_extent[0] = dt_type_extent(x->type, from);
    return entry.to_extent[0] < 0 ? x : dt_graph_relabel(b, x, 1, &entry, wish);
}

DtValue *dt_graph_reorder(DtBuilder *b, DtValue *x, const DtType *order)
{
    bool equal = x->type->rank == order->rank;
    for (uint32_t i = 0; equal && i < order->rank; i++)
        equal = x->type->axes[i].name == order->axes[i].name;
    return equal ? x : dt_graph_relabel(b, x, 0, NULL, order);
}

DtValue *dt_graph_slice(DtBuilder *b, DtValue *x, const char *axis, int64_t lo, int64_t step,
                        int64_t n)
{
    DtRange range = {.lo = lo, .step = step, .n = n};
    DtOp op = {.kind = DT_OP_SLICE, .n_axes = 1, .axes = &axis, .ranges = &range};
    return make_one(b, &op, 1, &x, NULL);
}

DtValue *dt_graph_pad(DtBuilder *b, DtValue *x, const char *axis, int64_t lo, int64_t hi,
                      int64_t step, double fill)
{
    DtRange range = {.lo = lo, .hi = hi, .step = step};
    DtOp op = {.kind = DT_OP_PAD, .n_axes = 1, .axes = &axis, .ranges = &range, .number = fill};
    return make_one(b, &op, 1, &x, NULL);
}

DtValue *dt_graph_concat(DtBuilder *b, const char *axis, uint32_t n, DtValue *const *in)
{
    DtOp op = {.kind = DT_OP_CONCAT, .n_axes = 1, .axes = &axis};
    return make_one(b, &op, n, in, NULL);
}

/* Returns x expanded to the axes of type; if x has all of them, it is only reordered like type. */
DtValue *dt_graph_expand(DtBuilder *b, DtValue *x, const DtType *type)
{
    if (x->type->rank == type->rank)
        return dt_graph_reorder(b, x, type);
    DtOp op = {.kind = DT_OP_EXPAND};
    return make_one(b, &op, 1, &x, type);
}

DtValue *dt_graph_terms(DtBuilder *b, DtValue *x, const char *axis, const DtType *type)
{
    DtOp op = {.kind = DT_OP_TERMS, .n_axes = 1, .axes = &axis};
    return make_one(b, &op, 1, &x, type);
}

DtValue *dt_graph_fit(DtBuilder *b, DtValue *x, const DtType *type)
{
    const char *axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->type->rank; i++)
        if (dt_type_find(type, x->type->axes[i].name) < 0)
            axes[n++] = x->type->axes[i].name;
    if (n > 0)
        x = dt_graph_reduce(b, DT_REDUCE_SUM, x, n, axes);
    if (x->type->dtype != type->dtype)
        x = dt_graph_cast(b, x, type->dtype);
    if (x->type->rank < type->rank)
        x = dt_graph_expand(b, x, type);
    return dt_graph_reorder(b, x, type);
}

/* range: lo, hi: padding; step: stride; n: length of a window. */
DtValue *dt_graph_window(DtBuilder *b, DtValue *x, const char *axis, const char *w, DtRange range,
                         double fill)
{
    const char *axes[] = {axis, w};
    DtOp op = {.kind = DT_OP_WINDOW, .n_axes = 2, .axes = axes, .ranges = &range, .number = fill};
    return make_one(b, &op, 1, &x, NULL);
}

/* Returns the type of x without axis w, and with `extent` along axis, as a wish; the op's rule
 * reports errors. */
static const DtType *fold_type(const DtType *x, const char *axis, const char *w, int64_t extent)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->axes[i].name == w)
            continue;
        axes[rank] = x->axes[i];
        if (x->axes[i].name == axis)
            axes[rank].extent = extent > 0 ? extent : 1;
        rank++;
    }
    return dt_type_plain(x->dtype, rank, axes);
}

DtValue *dt_graph_fold(DtBuilder *b, DtValue *x, const char *axis, const char *w, DtRange range,
                       int64_t extent)
{
    const char *axes[] = {dt_intern(axis), dt_intern(w)};
    DtOp op = {.kind = DT_OP_FOLD, .n_axes = 2, .axes = axes, .ranges = &range};
    return make_one(b, &op, 1, &x, fold_type(x->type, axes[0], axes[1], extent));
}

/* ---- contractions and indexing ---- */

/* wish NULL: the result has the op's default order of axes. */
DtValue *dt_graph_dot(DtBuilder *b, DtValue *x, DtValue *y, uint32_t n_axes,
                      const char *const *axes, DtDtype result, const DtType *wish)
{
    DtOp op = {.kind = DT_OP_DOT, .n_axes = n_axes, .axes = (const char **)(uintptr_t)axes};
    if (wish)
        return make_one(b, &op, 2, (DtValue *[]){x, y}, dt_type_with_dtype(wish, result));
    const DtType *dtype =
        dt_type_scalar(result); /* only the dtype of the wish fits: its order of axes is dropped */
    return make(b, &op, 2, (DtValue *[]){x, y}, &dtype, true)->out[0];
}

DtValue *dt_graph_reduce(DtBuilder *b, DtReduce kind, DtValue *x, uint32_t n_axes,
                         const char *const *axes)
{
    DtOp op = {.kind = DT_OP_REDUCE,
               .n_axes = n_axes,
               .axes = (const char **)(uintptr_t)axes,
               .reduce = kind};
    return make_one(b, &op, 1, &x, NULL);
}

DtValue *dt_graph_scan(DtBuilder *b, DtValue *x, uint32_t n_axes, const char *const *axes,
                       bool reverse)
{
    DtOp op = {.kind = DT_OP_SCAN,
               .n_axes = n_axes,
               .axes = (const char **)(uintptr_t)axes,
               .reverse = reverse};
    return make_one(b, &op, 1, &x, NULL);
}

void dt_graph_topk(DtBuilder *b, DtValue *x, const char *axis, DtAxis c, DtValue **ret_values,
                   DtValue **ret_indices)
{
    const char *axes[] = {axis, c.name};
    DtOp op = {.kind = DT_OP_TOPK, .n_axes = 2, .axes = axes};
    /* a wish that gives the extent of c */
    const DtType *extent = dt_type_plain(x->type->dtype, 1, &c);
    DtOp *made = make(b, &op, 1, &x, (const DtType *[]){extent, NULL}, true);
    *ret_values = made->out[0];
    *ret_indices = made->out[1];
}

static DtValue **with_operand(DtBuilder *b, DtValue *x, uint32_t n, DtValue *const *index)
{
    DtValue **in = DT_NEW_ARRAY(b->func->module->arena, DtValue *, n + 1);
    in[0] = x;
    for (uint32_t i = 0; i < n; i++)
        in[i + 1] = index[i];
    return in;
}

DtValue *dt_graph_gather(DtBuilder *b, DtValue *x, uint32_t n, const char *const *axes,
                         DtValue *const *index)
{
    DtOp op = {.kind = DT_OP_GATHER, .n_axes = n, .axes = (const char **)(uintptr_t)axes};
    return make_one(b, &op, n + 1, with_operand(b, x, n, index), NULL);
}

/* The result has the axes `axes` and the others of x; in the order of wish, if it is given. */
DtValue *dt_graph_scatter_add(DtBuilder *b, DtValue *x, uint32_t n, const DtAxis *axes,
                              DtValue *const *index, uint32_t n_summed, const char *const *summed,
                              const DtType *wish)
{
    const char *names[DT_MAX_RANK] = {0};
    for (uint32_t i = 0; i < n && i < DT_MAX_RANK; i++)
        names[i] = axes[i].name;
    DtOp op = {.kind = DT_OP_SCATTER_ADD,
               .n_axes = n,
               .axes = names,
               .n_axes2 = n_summed,
               .axes2 = (const char **)(uintptr_t)summed};
    DtValue **in = with_operand(b, x, n, index);
    if (wish)
        return make_one(b, &op, n + 1, in, wish);
    /* a wish that gives the extents */
    const DtType *targets = dt_type_plain(x->type->dtype, n, axes);
    return make(b, &op, n + 1, in, &targets, true)->out[0];
}

/* ---- structure and communication ---- */

/* Appends a call; in: func->inputs.n operands. */
DtOp *dt_graph_call(DtBuilder *b, DtFunc *func, const char *label, DtValue *const *in)
{
    DtOp op = {.kind = DT_OP_CALL, .func = func, .text = label ? dt_intern(label) : NULL};
    return make(b, &op, func->inputs.n, in, NULL, false);
}

DtOp *dt_graph_fused(DtBuilder *b, DtFunc *kernel, DtValue *const *in)
{
    DtOp op = {.kind = DT_OP_FUSED, .func = kernel};
    return make(b, &op, kernel->inputs.n, in, NULL, false);
}

/* Appends a loop; in: its carried, invariant and stacked operands, in this order. */
DtOp *dt_graph_loop(DtBuilder *b, DtFunc *body, DtLoop loop, DtValue *const *in)
{
    loop.label = dt_intern(loop.label);
    loop.axis = dt_intern(loop.axis);
    DtOp op = {.kind = DT_OP_LOOP, .func = body, .loop = &loop};
    return make(b, &op, loop.n_carried + loop.n_invariant + loop.n_stacked, in, NULL, false);
}

DtOp *dt_graph_when(DtBuilder *b, DtFunc *branch, const DtRange *range, const DtAheadOf *of,
                    DtValue *const *in)
{
    DtOp op = {.kind = DT_OP_WHEN, .func = branch, .ranges = (DtRange *)(uintptr_t)range,
               .of = (DtAheadOf *)(uintptr_t)of};
    return make(b, &op, branch->inputs.n, in, NULL, false);
}

DtValue *dt_graph_ringbuf(DtBuilder *b, const DtType *type, DtValue *ringbuf)
{
    return make_one(b, &(DtOp){.kind = DT_OP_RINGBUF}, ringbuf ? 1 : 0, &ringbuf, type);
}

DtValue *dt_graph_ringbuf_put(DtBuilder *b, DtValue *ringbuf, DtValue *value, int64_t byte)
{
    DtValue *in[] = {ringbuf, value};
    return make_one(b, &(DtOp){.kind = DT_OP_RINGBUF_PUT, .number = (double)byte}, 2, in, NULL);
}

DtValue *dt_graph_ringbuf_get(DtBuilder *b, DtValue *ringbuf, int64_t byte, const DtType *type)
{
    return make_one(b, &(DtOp){.kind = DT_OP_RINGBUF_GET, .number = (double)byte}, 1, &ringbuf,
                    type);
}

DtValue *dt_graph_ringbuf_turn(DtBuilder *b, DtValue *ringbuf)
{
    return make_one(b, &(DtOp){.kind = DT_OP_RINGBUF_TURN}, 1, &ringbuf, NULL);
}

DtValue *dt_graph_turn(DtBuilder *b)
{
    return make_one(b, &(DtOp){.kind = DT_OP_TURN}, 0, NULL, NULL);
}

static DtValue *make_same(DtBuilder *b, DtOpKind kind, DtValue *x)
{
    DtValue *value = make_one(b, &(DtOp){.kind = kind}, 1, &x, NULL);
    value->name = x->name, value->means = x->means;
    /* an input of the function has no op; its own number counts */
    value->final = x->op || x->final ? dt_op_made(x)->final : 1 + x->index;
    return value;
}

DtValue *dt_graph_done(DtBuilder *b, DtValue *started) { return make_same(b, DT_OP_DONE, started); }
DtValue *dt_graph_copied(DtBuilder *b, DtValue *x) { return make_same(b, DT_OP_COPY, x); }

DtValue *dt_graph_at(DtBuilder *b, DtValue *x, DtValue *index, int64_t lo, int64_t step)
{
    const char *axis = x->type->rank ? x->type->axes[0].name : NULL;
    DtRange range = {.lo = lo, .step = step};
    DtOp op = {.kind = DT_OP_AT, .axes = &axis, .n_axes = 1, .ranges = &range};
    DtValue *in[] = {x, index};
    return make_one(b, &op, index ? 2 : 1, in, NULL);
}

DtValue *dt_graph_pack(DtBuilder *b, uint32_t n_kept, const char *const *kept, uint32_t n,
                       DtValue *const *in, int64_t extent)
{
    DtOp op = {.kind = DT_OP_PACK, .n_axes = n_kept, .axes = (const char **)(uintptr_t)kept};
    DtAxis bucket = {.name = dt_intern("@bucket"), .extent = extent};
    /* a wish that gives the extent */
    const DtType *wish = dt_type_plain(in[0]->type->dtype, 1, &bucket);
    return make(b, &op, n, in, &wish, true)->out[0];
}

DtValue *dt_graph_unpack(DtBuilder *b, uint32_t n_kept, DtValue *x, int64_t offset,
                         const DtType *type)
{
    const char *kept[DT_MAX_RANK] = {0};
    for (uint32_t i = 0; i < n_kept; i++)
        kept[i] = type->axes[i].name;
    DtOp op = {.kind = DT_OP_UNPACK, .n_axes = n_kept, .axes = kept, .number = (double)offset};
    return make_one(b, &op, 1, &x,
                    dt_type_make(type->dtype, type->rank, type->axes, x->type->partial,
                                 (DtReduce)x->type->pending));
}

DtValue *dt_graph_partner(DtBuilder *b, DtValue *x, const char *axis, bool reverse, int64_t number,
                          uint16_t mesh)
{
    DtOp op = {.kind = DT_OP_PARTNER, .n_axes = 1, .axes = &axis, .reverse = reverse,
               .number = (double)number, .mesh = mesh};
    return make_one(b, &op, 1, &x, NULL);
}

DtValue *dt_graph_comm(DtBuilder *b, DtOpKind kind, DtValue *x, uint16_t mesh, const DtType *result)
{
    DtOp op = {.kind = kind, .mesh = mesh};
    DtValue *y = make_one(b, &op, 1, &x, result);
    y->means = x->means;
    return y;
}

DtOp *dt_graph_copy(DtBuilder *b, const DtOp *op, DtValue *const *in)
{
    DtArena *arena = b->func->module->arena;
    const DtType **wish = DT_NEW_ARRAY(arena, const DtType *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        wish[i] = op->out[i]->type;
    DtOp *copy = make(b, op, op->n_in, in, wish, true);
    copy->base = 0;
    for (uint32_t i = 0; i < op->n_out && i < copy->n_out; i++)
        copy->out[i]->name = op->out[i]->name;
    return copy;
}

DtOp *dt_graph_clone(DtArena *arena, const DtOp *op, DtValue **map)
{
    DtOp *copy = DT_NEW(arena, DtOp);
    *copy = *op;
    copy->in = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    copy->out = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        copy->in[i] = map[op->in[i]->id];
    for (uint32_t i = 0; i < op->n_out; i++) {
        copy->out[i] = map[op->out[i]->id] = DT_NEW(arena, DtValue);
        *copy->out[i] = *op->out[i];
        copy->out[i]->op = copy;
        copy->out[i]->over = op->out[i]->over ? map[op->out[i]->over->id] : NULL;
    }
    return copy;
}

/* ---- tidying ---- */

/* Whether the op must stay: some result is read, or it is a sum over stages, at which other stages
 * wait. */
static bool is_used(const DtOp *op, const unsigned char *used)
{
    if (op->stages)
        return true;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (used[op->out[i]->id])
            return true;
    return false;
}

uint32_t dt_graph_sweep(DtFunc *func)
{
    unsigned char *used = calloc(func->n_values + 1, 1);
    if (!used)
        misuse(func, "out of memory");
    for (uint32_t i = 0; i < func->results.n; i++)
        used[func->results.at[i]->id] = 1;
    uint32_t kept = func->ops.n;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        DtOp *op = func->ops.at[i];
        if (!is_used(op, used))
            continue;
        for (uint32_t k = 0; k < op->n_in; k++)
            used[op->in[k]->id] = 1;
        func->ops.at[--kept] = op; /* collects the ops that are kept at the end of the array */
    }
    if (kept > 0)
        memmove(func->ops.at, func->ops.at + kept, (func->ops.n - kept) * sizeof func->ops.at[0]);
    func->ops.n -= kept;
    free(used);
    return kept;
}

/* Numbers the function's values in order of definition (DtValue.id, DtFunc.n_values). */
void dt_graph_renumber(DtFunc *func)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        func->inputs.at[i]->id = next++;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            func->ops.at[i]->out[k]->id = next++;
    }
    func->n_values = next;
}

const char *dt_graph_defined(const DtModule *module, DtSpan span)
{
    for (uint32_t i = 0; i < module->defined.n; i++) {
        const DtDefined *d = &module->defined.at[i];
        if (d->span.file == span.file && d->span.lo <= span.lo && span.lo < d->span.hi)
            return d->name;
    }
    return "";
}

const char *dt_graph_source_name(const DtFunc *func)
{
    if (func->library)
        return func->library;
    const char *end = func->name ? strpbrk(func->name, ".#$") : NULL;
    return end ? dt_intern_n(func->name, (size_t)(end - func->name)) : func->name;
}

const DtType *dt_store_memory_type(const DtStore *store)
{
    const DtType *type = store->type;
    DtAxis axes[DT_MAX_RANK];
    if (!store->terms)
        return type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[type->rank - 1].n_split = 0;
    memset(axes[type->rank - 1].split, 0, sizeof axes[0].split);
    return dt_type_plain(type->dtype, type->rank, axes);
}
