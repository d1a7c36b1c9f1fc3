/* SPDX-License-Identifier: Apache-2.0 */
/* Products that move into the streaming functions that read them.
 *
 * Purpose: keeps a large product out of memory. A function may stream over an axis of an argument
 * only if that argument is a product (`stream[c](z)`; the library's `xent`, whose z are logits).
 * The pass gives such a call a function that computes the product itself, block by block:
 *
 *   %z = dot[embed](%x, %w)                   =>    %l = call xent.product(%x, %w, %labels)
 *   %l = call xent(%z, %labels)
 *
 * The new function computes `finish` of the parts of all blocks, which each compile proves equal to
 * what the old one returns. Its gradient is the stated one, continued through the product. Blocks
 * of z are computed a second time in the backward part; in return no tensor of tokens times
 * vocabulary exists. (Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024.)
 *
 * A product at the end of a called function, such as the model, moves as well: a copy of that
 * function returns the product's operands in its place.
 *
 * A product moves if the layout has a line `stream` with the axis, or a rank would otherwise store
 * DT_ABSORB_BYTES or more of it for a micro-batch; and if nothing else reads it, it sums over one
 * axis, and the layout splits neither that axis nor the streamed one (ranks that split the
 * vocabulary exchange one number per row instead). All other calls lose the stream, and compute
 * what the function returns.
 *
 * Requires: a verified serial module. Establishes: DtStream.product is 0 everywhere;
 * DtModule.streamed. Breaks: nothing. */
#include "passes/passes.h"

#include "base/intern.h"
#include "ir/map.h"
#include "passes/loops.h"

#include <string.h>

/* Bytes of a product on one rank, for one micro-batch, from which on it moves by itself. Computing
 * the blocks a second time costs a third of the work of the product and its gradients. */
#define DT_ABSORB_BYTES ((double)(1 << 30))

/* A product that is an argument of a streaming call, by its operands. */
typedef struct Product {
    const DtOp *dot;
    const char *axis; /* the streamed axis, which one operand has */
    bool swapped;     /* the first operand has it */
} Product;

static const DtValue *of_rows(const Product *p) { return p->dot->in[p->swapped]; }
static const DtValue *of_axis(const Product *p) { return p->dot->in[!p->swapped]; }

/* ---- whether a product moves ---- */

static bool has_name(const char *const *names, uint32_t n, const char *name)
{
    bool has = false;
    for (uint32_t i = 0; i < n; i++)
        has = has || names[i] == name;
    return has;
}

static bool is_split(const DtParallelConfig *parallel, const char *axis)
{
    bool is = false;
    for (uint32_t i = 0; parallel && i < parallel->shards.n; i++)
        is = is || has_name(parallel->shards.at[i].axes, parallel->shards.at[i].n_axes, axis);
    return is;
}

static int64_t ranks_of(const DtParallelConfig *parallel, const DtShard *shard)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < shard->n_mesh; i++)
        for (uint32_t k = 0; k < parallel->mesh.n; k++)
            if (parallel->mesh.axes[k].name == shard->mesh[i])
                n *= parallel->mesh.axes[k].size;
    return n;
}

/* Returns the bytes of a value that a rank has of one micro-batch, by the layout's lines. */
static double bytes_of_rank(const DtParallelConfig *parallel, const DtType *type)
{
    double bytes = (double)dt_dtype_size(type->dtype);
    for (uint32_t i = 0; i < type->rank; i++) {
        bytes *= (double)type->axes[i].extent;
        for (uint32_t k = 0; parallel && k < parallel->shards.n; k++) {
            const DtShard *shard = &parallel->shards.at[k];
            for (uint32_t n = 0; shard->n_place == 0 && n < shard->n_axes; n++)
                if (shard->axes[n] == type->axes[i].name)
                    bytes /= (double)ranks_of(parallel, shard);
        }
        if (parallel && parallel->micro_axis == type->axes[i].name)
            bytes /= (double)parallel->micro;
    }
    return bytes;
}

static bool has_rows(const Product *p)
{
    const DtType *x = of_rows(p)->type;
    bool has = false;
    for (uint32_t i = 0; i < x->rank; i++)
        has = has || (dt_type_find(of_axis(p)->type, x->axes[i].name) < 0);
    return has;
}

/* Whether the product is to move: a `stream` line names its axis, or it moved in a larger version
 * of the program, or it is large. */
static bool is_wanted(const DtModule *module, const DtParallelConfig *parallel, const Product *p)
{
    return has_name(module->streamed.at, module->streamed.n, p->axis) ||
           (parallel && has_name(parallel->streams.at, parallel->streams.n, p->axis)) ||
           (!(parallel && parallel->stores_products) &&
            bytes_of_rank(parallel, p->dot->out[0]->type) >= DT_ABSORB_BYTES);
}

/* Returns why the layout or the shape of the product keeps it where it is; NULL: it may move. */
static const char *why_not(const DtParallelConfig *parallel, const Product *p)
{
    if (p->dot->n_axes != 1)
        return "the product sums over several axes";
    if (dt_type_find(of_rows(p)->type, p->axis) >= 0 ||
        dt_type_find(of_axis(p)->type, p->axis) < 0 || !has_rows(p))
        return "the product has no operand with rows of its own and without that axis";
    if (is_split(parallel, p->axis))
        return "the layout splits that axis: ranks exchange one number for each row instead";
    if (is_split(parallel, p->dot->axes[0]))
        return "the layout splits the axis over which the product sums";
    return NULL;
}

/* Finds the product that makes the value, which the function reads once: an op of the function, or
 * of the functions that its calls end in. Returns why there is none that may move; NULL: there
 * is. */
static const char *find_product(const DtParallelConfig *parallel, const DtFunc *func,
                                const DtValue *value, const char *axis, Product *ret_product)
{
    const DtOp *op = value->op;
    if (dt_graph_reads(func, value) != 1)
        return "the product is read elsewhere, too";
    if (op && op->kind == DT_OP_CALL && !op->func->stream && !op->func->gradient)
        return find_product(parallel, op->func, op->func->results.at[value->index], axis,
                            ret_product);
    if (!op || op->kind != DT_OP_DOT)
        return "what it reads is no product";
    *ret_product = (Product){.dot = op, .axis = axis,
                             .swapped = dt_type_find(op->in[0]->type, axis) >= 0};
    return why_not(parallel, ret_product);
}

/* ---- the operands, where the product was ---- */

/* Puts the last op of the function where op number `at` is, and removes that op, whose results
 * nobody reads. */
static DtOp *take_place(DtFunc *func, uint32_t at)
{
    DtOp *op = func->ops.at[--func->ops.n];
    func->ops.at[at] = op;
    return op;
}

static uint32_t number_of(const DtFunc *func, const DtOp *op)
{
    uint32_t i = 0;
    while (func->ops.at[i] != op)
        i++;
    return i;
}

/* Removes the product that makes the value from the function, and from those that its calls end
 * in, by changing copies of them. ret: the product's operands in this function: rows, then the one
 * with the axis. */
static void take_operands(DtFunc *func, const DtValue *value, const Product *product,
                          DtValue **ret)
{
    DtOp *op = value->op;
    if (op->kind == DT_OP_DOT) {
        ret[0] = op->in[product->swapped];
        ret[1] = op->in[!product->swapped];
        return;
    }
    DtArena *arena = func->module->arena;
    DtFunc *callee = dt_loops_copy_func(op->func);
    DtValue *inner[2];
    take_operands(callee, callee->results.at[value->index], product, inner);
    DtValue **results = callee->results.at;
    const uint32_t n = callee->results.n, at = value->index;
    callee->results.at = NULL;
    callee->results.n = callee->results.cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        DT_PUSH(arena, callee->results, i == at ? inner[0] : results[i]);
        if (i == at)
            DT_PUSH(arena, callee->results, inner[1]);
    }
    callee->n_returns++;
    dt_graph_sweep(callee);
    DtBuilder b = {.func = func, .span = op->span, .path = op->path};
    dt_graph_call(&b, callee, op->text, op->in);
    DtOp *call = take_place(func, number_of(func, op));
    for (uint32_t i = 0; i < n; i++) {
        DtValue *now = call->out[i + (i > at)];
        now->name = i == at ? inner[0]->name : op->out[i]->name;
        if (i != at)
            dt_graph_replace(func, op->out[i], now);
    }
    ret[0] = call->out[at];
    ret[1] = call->out[at + 1];
}

/* ---- the function that computes the product ---- */

/* A copy of a function in which the product's operands, x and w, are inputs instead of z. */
typedef struct Copy {
    const Product *product;
    DtFunc *func;
    uint32_t z;       /* number of the input that was the product */
    DtValue **map;    /* by value id of the old function */
    DtValue *x, *w;
    DtBuilder b;
} Copy;

static Copy begin_copy(const Product *product, DtFunc *from, uint32_t z, const char *name)
{
    DtModule *module = from->module;
    Copy c = {.product = product, .z = z, .func = dt_graph_func(module, name, from->kind)};
    dt_graph_renumber(from);
    c.map = DT_NEW_ARRAY(module->arena, DtValue *, from->n_values + 1);
    c.b = (DtBuilder){.func = c.func, .span = product->dot->span};
    c.func->library = from->library;
    c.func->span = from->span;
    for (uint32_t i = 0; i < from->inputs.n; i++) {
        const DtValue *input = from->inputs.at[i];
        if (i != z) {
            c.map[input->id] = dt_graph_arg_like(c.func, input->type, input);
            continue;
        }
        c.x = dt_graph_arg(c.func, of_rows(product)->type, "x");
        c.w = dt_graph_arg(c.func, of_axis(product)->type, "w");
    }
    DtValue *in[] = {product->swapped ? c.w : c.x, product->swapped ? c.x : c.w};
    c.map[from->inputs.at[z]->id] = dt_graph_copy(&c.b, product->dot, in)->out[0];
    return c;
}

static DtOp *copy_op(Copy *c, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(c->func->module->arena, DtValue *, op->n_in + 1);
    for (uint32_t k = 0; k < op->n_in; k++)
        in[k] = c->map[op->in[k]->id];
    c->b.span = op->span;
    c->b.path = op->path;
    DtOp *copy = dt_graph_copy(&c->b, op, in);
    for (uint32_t k = 0; k < op->n_out; k++) {
        copy->out[k]->name = op->out[k]->name;
        c->map[op->out[k]->id] = copy->out[k];
    }
    return copy;
}

static DtFunc *copy_part(const Product *product, DtFunc *part, uint32_t z)
{
    Copy c = begin_copy(product, part, z, part->name);
    for (uint32_t i = 0; i < part->ops.n; i++)
        copy_op(&c, part->ops.at[i]);
    for (uint32_t i = 0; i < part->results.n; i++)
        dt_graph_return(c.func, c.map[part->results.at[i]->id]);
    return c.func;
}

/* Returns the cotangent of one operand of the product: a product of z's cotangent with the other
 * operand, summed over the axes that the operand lacks. */
static DtValue *cotangent(DtBuilder *b, DtValue *dz, DtValue *other, const DtType *type)
{
    const char *axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < dz->type->rank; i++) {
        const char *axis = dz->type->axes[i].name;
        if (dt_type_find(type, axis) < 0 && dt_type_find(other->type, axis) >= 0)
            axes[n++] = axis;
    }
    return dt_graph_fit(b, dt_graph_dot(b, dz, other, n, axes, type->dtype, type), type);
}

/* Returns the number of the first function's float inputs before input number z: the number of its
 * cotangent. */
static uint32_t number_of_cotangent(const DtFunc *func, uint32_t z)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < z; i++)
        n += dt_dtype_is_float(func->inputs.at[i]->type->dtype);
    return n;
}

/* Returns the stated gradient of the new function. c: that function, whose map has the values that
 * the old gradient reads. */
static const DtCustomGradient *copy_gradient(const Copy *c, const DtFunc *from)
{
    DtArena *arena = from->module->arena;
    DtFunc *old = from->gradient->func;
    Copy g = {.func = dt_graph_func(from->module, old->name, old->kind)};
    dt_graph_renumber(old);
    g.map = DT_NEW_ARRAY(arena, DtValue *, old->n_values + 1);
    g.b = (DtBuilder){.func = g.func, .span = old->span};
    g.func->span = old->span;
    for (uint32_t i = 0; i < old->inputs.n; i++)
        g.map[old->inputs.at[i]->id] =
            dt_graph_arg_like(g.func, old->inputs.at[i]->type, old->inputs.at[i]);
    DtValue *x = dt_graph_arg(g.func, c->x->type, "x"), *w = dt_graph_arg(g.func, c->w->type, "w");
    for (uint32_t i = 0; i < old->ops.n; i++)
        copy_op(&g, old->ops.at[i]);
    const uint32_t at = number_of_cotangent(from, c->z);
    g.b.span = c->product->dot->span;
    for (uint32_t i = 0; i < old->results.n; i++) {
        DtValue *result = g.map[old->results.at[i]->id];
        if (i != at) {
            dt_graph_return(g.func, result);
            continue;
        }
        dt_graph_return(g.func, cotangent(&g.b, result, w, x->type));
        dt_graph_return(g.func, cotangent(&g.b, result, x, w->type));
    }
    DtCustomGradient *gradient = DT_NEW(arena, DtCustomGradient);
    *gradient = (DtCustomGradient){.func = g.func, .is_surrogate = from->gradient->is_surrogate};
    for (uint32_t i = 0; i < from->gradient->captured.n; i++)
        DT_PUSH(arena, gradient->captured, c->map[from->gradient->captured.at[i]->id]);
    DT_PUSH(arena, gradient->captured, c->x);
    DT_PUSH(arena, gradient->captured, c->w);
    return gradient;
}

static DtStream *copy_stream(const Copy *c, const DtFunc *from)
{
    DtArena *arena = from->module->arena;
    DtStream *stream = DT_NEW(arena, DtStream);
    *stream = *from->stream;
    stream->product = 0;
    stream->part = copy_part(c->product, from->stream->part, c->z);
    stream->given.at = NULL;
    stream->given.n = stream->given.cap = 0;
    for (uint32_t i = 0; i < from->stream->given.n; i++) {
        const uint32_t given = from->stream->given.at[i];
        DT_PUSH(arena, stream->given, given + (given > c->z));
    }
    return stream;
}

/* Returns from the new function what `finish` computes from the parts of all blocks: a copy of it,
 * since differentiation removes the clauses that only rings use. */
static void return_finished(Copy *c, const DtStream *stream, DtValue *const *parts)
{
    const uint32_t n = stream->part->results.n;
    DtValue *const *finished = NULL;
    if (stream->finish) {
        DtValue **given = DT_NEW_ARRAY(c->func->module->arena, DtValue *, n + stream->given.n + 1);
        for (uint32_t i = 0; i < n; i++)
            given[i] = parts[i];
        for (uint32_t i = 0; i < stream->given.n; i++)
            given[n + i] = c->func->inputs.at[stream->given.at[i]];
        finished = dt_graph_call(&c->b, dt_loops_copy_func(stream->finish), NULL, given)->out;
    }
    for (uint32_t i = 0; i < stream->takes.n; i++) {
        const int32_t takes = stream->takes.at[i];
        dt_graph_return(c->func, takes >= 0 ? finished[takes] : parts[-1 - takes]);
    }
}

static DtFunc *absorbing(const Product *product, DtFunc *from)
{
    const uint32_t z = from->stream->product - 1;
    Copy c = begin_copy(product, from, z, dt_intern_printf("%s.product", from->name));
    DtStream *stream = copy_stream(&c, from);
    DtOp *parts = dt_graph_call(&c.b, stream->part, NULL, c.func->inputs.at);
    for (uint32_t i = 0; i < from->ops.n; i++) {
        const DtOp *op = from->ops.at[i];
        if (op->kind != DT_OP_CALL || op->func != from->stream->part) {
            copy_op(&c, op);
            continue;
        }
        for (uint32_t k = 0; k < op->n_out; k++)
            c.map[op->out[k]->id] = parts->out[k];
    }
    return_finished(&c, stream, parts->out);
    c.func->stream = stream;
    if (from->gradient)
        c.func->gradient = copy_gradient(&c, from);
    return c.func;
}

/* Replaces call number `at` of the function by one that computes the product. */
static void absorb(DtFunc *func, uint32_t at, const Product *product)
{
    DtOp *call = func->ops.at[at];
    const uint32_t z = call->func->stream->product - 1;
    DtModule *module = func->module;
    if (!has_name(module->streamed.at, module->streamed.n, product->axis))
        DT_PUSH(module->arena, module->streamed, product->axis);
    DtFunc *callee = absorbing(product, call->func);
    DtValue *operands[2];
    take_operands(func, call->in[z], product, operands);
    DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, call->n_in + 2);
    for (uint32_t i = 0; i < call->n_in; i++)
        in[i + (i > z)] = i == z ? operands[0] : call->in[i];
    in[z + 1] = operands[1];
    DtBuilder b = {.func = func, .span = call->span, .path = call->path};
    dt_graph_call(&b, callee, call->text, in);
    DtOp *made = take_place(func, at);
    for (uint32_t i = 0; i < call->n_out; i++) {
        made->out[i]->name = call->out[i]->name;
        dt_graph_replace(func, call->out[i], made->out[i]);
    }
    dt_graph_sweep(func);
}

/* ---- the other calls ---- */

/* Removes the clauses of functions whose argument is no product, and the functions of the module
 * that only these clauses name. */
static void drop_streams(DtModule *module)
{
    DtMap dropped = {.arena = module->arena}, kept = {.arena = module->arena};
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        DtFunc *func = module->funcs.at[i];
        if (!func->stream || !func->stream->product)
            continue;
        DtFunc *of[] = {func->stream->part, func->stream->merge, func->stream->finish,
                        func->gradient ? func->gradient->func : NULL};
        for (uint32_t k = 0; k < DT_COUNT(of); k++)
            if (of[k])
                dt_map_add_pointer(&dropped, of[k], of[k]);
        func->stream = NULL;
        func->gradient = NULL;
        dt_graph_sweep(func);
    }
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtStream *stream = module->funcs.at[i]->stream;
        DtFunc *of[] = {stream ? stream->merge : NULL, stream ? stream->finish : NULL};
        for (uint32_t k = 0; k < DT_COUNT(of); k++)
            if (of[k] && !dt_map_find_pointer(&kept, of[k]))
                dt_map_add_pointer(&kept, of[k], of[k]);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        DtFunc *func = module->funcs.at[i];
        if (!dt_map_find_pointer(&dropped, func) || dt_map_find_pointer(&kept, func))
            module->funcs.at[n++] = func;
    }
    module->funcs.n = n;
}

/* ---- the pass ---- */

/* Reports axes of `stream` lines along which no product moved. why: the last reason; NULL: no
 * function streams over a product. */
static void report_unused(const DtModule *module, const DtParallelConfig *parallel,
                          const char *why)
{
    for (uint32_t i = 0; i < parallel->streams.n && !parallel->stores_products; i++) {
        const char *axis = parallel->streams.at[i];
        if (has_name(module->streamed.at, module->streamed.n, axis) || !module->diags)
            continue;
        DtDiag *d = dt_diag_report(module->diags, E0527, parallel->stream_span,
                                   "no function computes a product over `%s` by itself", axis);
        dt_diag_note(d, "%s", why ? why : "no function streams over a product, as `xent` does");
        dt_diag_help(d, "leave the line out");
    }
}

/* Moves the products of the function's calls. Returns why the last call keeps its argument, if one
 * does that a `stream` line names. */
static const char *absorb_all(DtFunc *func, const DtParallelConfig *parallel)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_CALL || !op->func->stream || !op->func->stream->product)
            continue;
        const DtStream *stream = op->func->stream;
        Product product;
        const char *why =
            find_product(parallel, func, op->in[stream->product - 1], stream->axis, &product);
        if (why && parallel && has_name(parallel->streams.at, parallel->streams.n, stream->axis))
            last = why;
        if (!why && is_wanted(func->module, parallel, &product)) {
            absorb(func, i, &product);
            i = UINT32_MAX; /* the function has changed, and is looked at again */
        }
    }
    return last;
}

bool dt_pass_absorb(DtModule *module, const DtPassContext *context)
{
    const DtParallelConfig *parallel = context ? context->parallel : NULL;
    const char *why = NULL;
    bool any = false;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        any = any || (module->funcs.at[i]->stream && module->funcs.at[i]->stream->product);
    for (uint32_t f = 0; any && f < module->funcs.n; f++) {
        const char *last = absorb_all(module->funcs.at[f], parallel);
        why = last ? last : why;
    }
    if (parallel)
        report_unused(module, parallel, why);
    if (any)
        drop_streams(module);
    return any;
}
