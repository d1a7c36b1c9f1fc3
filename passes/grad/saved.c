/* SPDX-License-Identifier: Apache-2.0 */
/* What the forward part leaves to the backward part, and what the backward part computes again.
 *
 * The rule. A value is *free* if it depends, through cheap ops only, on constants, positions,
 * random draws (a draw repeats) and inputs of the function, which the caller hands over without a
 * copy. Any other value has a *root*: if its op is cheap, if those of its operands that are not
 * free share one root, and if that root is no larger than the value, it has the same root; else it
 * is its own root, and so is a result of the function that is itself needed. Cheap are scalar maps
 * and the axis operations that a kernel can read through.
 *   The backward function needs some values. The roots of those that are not free are saved, except
 * a root whose op is cheap and whose operands can all be had from other saved values. Everything
 * else that is needed is computed again, each op just before its first use.
 *
 *   h = x @embed w ; u = h + b ; y = gelu(u)   saves h; u and the inside of gelu come from it
 *
 * If the only reader of a value is a relabel that merges its axes in another order than they have
 * in memory, the relabel's result is saved: the op can write the value in that order, readers use
 * that order, and no copy is needed.
 *
 * Where the target's library adds the bias to the product (DtPassContext.epilogues), u lies in
 * memory, and is saved.
 *
 * Library functions that are differentiated as a whole (library.def) and functions that stream save
 * their inputs. If such a function states a gradient, it also saves the values read by that
 * gradient which lack the axis of the stream. It computes everything else again.
 *   In the body of a loop, what was carried in is saved like a computed value; the iteration,
 * invariants and stacked operands are handed over. A saved value that has an axis named like the
 * loop's own leaves the body under another name, since it will be stacked along that axis. */
#include "passes/grad/diff.h"

#include "base/intern.h"

static DtCell *cell_of(const DtReverse *r, const DtValue *value) { return r->cells.at[value->id]; }

static double bytes_of(const DtCell *cell)
{
    const DtType *type = cell->primal->type;
    return (double)dt_type_elements(type) * (double)dt_dtype_size(type->dtype);
}

static void root_of_op(DtReverse *r, const DtOp *op)
{
    bool shared = r->whole || dt_op_is_cheap(op->kind);
    DtCell *root = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtCell *in = cell_of(r, op->in[i]);
        if (in->is_free)
            continue;
        if (root != NULL && root != in->root)
            shared = false;
        root = in->root;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        DtCell *out = cell_of(r, op->out[i]);
        const bool rooted = shared && root != NULL && bytes_of(root) <= bytes_of(out);
        out->is_free = shared && root == NULL;
        out->root = rooted && !(out->is_result && out->needed) ? root : out;
    }
}

static void find_roots(DtReverse *r)
{
    const DtFunc *func = r->func;
    const DtLoop *loop = r->derivative->loop;
    for (uint32_t i = 0; i < r->cells.n; i++) {
        r->cells.at[i]->root = r->cells.at[i];
        r->cells.at[i]->is_free = r->whole;
    }
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        DtCell *cell = cell_of(r, func->inputs.at[i]);
        cell->is_input = cell->is_free = loop == NULL || i == 0 || i > loop->n_carried;
    }
    for (uint32_t i = loop != NULL ? loop->n_carried : 0; i < func->results.n; i++)
        cell_of(r, func->results.at[i])->is_result = true;
    for (uint32_t i = 0; i < func->ops.n; i++)
        root_of_op(r, func->ops.at[i]);
}

/* Whether the result of op, the value's only reader, can be saved in place of the value: gradients
 * need the value for nothing but computing that result. */
static bool can_move(const DtReverse *r, const DtOp *op, const DtCell *in)
{
    return in->root == in && cell_of(r, op->out[0])->root == in && !in->needed && !in->is_result &&
           in->primal->op && dt_graph_reads(r->func, in->primal) == 1;
}

static void move_root(DtReverse *r, DtCell *from, DtCell *to)
{
    for (uint32_t c = 0; c < r->cells.n; c++)
        if (r->cells.at[c]->root == from && r->cells.at[c] != from)
            r->cells.at[c]->root = to;
}

/* Whether the relabel merges axes that are not neighbours in that order in its operand, so that it
 * moves elements in memory. */
static bool turns(const DtOp *op)
{
    bool does = false;
    for (uint32_t i = 0; op->kind == DT_OP_RELABEL && i < op->n_relabels; i++)
        for (uint32_t k = 1; k < op->relabels[i].n_from; k++)
            does = does || dt_type_find(op->in[0]->type, op->relabels[i].from[k]) !=
                               dt_type_find(op->in[0]->type, op->relabels[i].from[k - 1]) + 1;
    return does;
}

static void move_to_views(DtReverse *r)
{
    for (uint32_t i = 0; i < r->func->ops.n; i++) {
        const DtOp *op = r->func->ops.at[i];
        if (turns(op) && can_move(r, op, cell_of(r, op->in[0])))
            move_root(r, cell_of(r, op->in[0]), cell_of(r, op->out[0]));
    }
}

/* Saves x + bias, which a product's library writes, instead of the product x, if everything that is
 * needed of x goes through it. */
static void move_to_sums(DtReverse *r)
{
    const DtFunc *func = r->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtCell *in = NULL;
        for (uint32_t k = 0; op->kind == DT_OP_ADD && k < op->n_in; k++)
            if (op->in[k]->op && op->in[k]->op->kind == DT_OP_DOT &&
                op->in[k]->type == op->out[0]->type)
                in = cell_of(r, op->in[k]);
        if (in && can_move(r, op, in))
            move_root(r, in, cell_of(r, op->out[0]));
    }
}

/* Decides which values are saved for the backward function: those that it needs and cannot
 * recompute from inputs, constants and draws. Marks values as derived that cheap ops compute from
 * saved ones. */
static void choose_saved(DtReverse *r)
{
    find_roots(r);
    if (r->diff->adds && !r->whole)
        move_to_sums(r);
    if (!r->whole)
        move_to_views(r);
    for (uint32_t i = 0; i < r->kept.n; i++)
        cell_of(r, r->kept.at[i])->saved = true;
    for (uint32_t i = 0; i < r->cells.n; i++)
        if (r->cells.at[i]->needed && !r->cells.at[i]->is_free)
            r->cells.at[i]->root->saved = true;
    /* values that can be computed from other saved values */
    for (uint32_t i = 0; i < r->func->ops.n; i++) {
        const DtOp *op = r->func->ops.at[i];
        bool derivable = !r->whole && dt_op_is_cheap(op->kind);
        for (uint32_t k = 0; derivable && k < op->n_in; k++) {
            const DtCell *in = cell_of(r, op->in[k]);
            derivable = in->is_free || in->root->saved || in->root->derived;
        }
        for (uint32_t k = 0; derivable && k < op->n_out; k++) {
            DtCell *out = cell_of(r, op->out[k]);
            out->derived = out->saved;
            out->saved = false;
        }
    }
}

/* ---- the backward function ---- */

/* The name under which a saved value with the loop's axis leaves the body; NULL if it has no such
 * axis. */
static const char *renamed_axis(const DtReverse *r, const DtCell *cell)
{
    const DtLoop *loop = r->derivative->loop;
    if (loop == NULL || cell->is_input || dt_type_find(cell->primal->type, loop->axis) < 0)
        return NULL;
    return dt_intern_printf("%s.in.%s", loop->axis, loop->label != NULL ? loop->label : "loop");
}

/* Returns the type of a saved value outside the body: the loop's axis, if it has it, has another
 * name there. */
static const DtType *saved_type(const DtReverse *r, const DtCell *cell)
{
    const DtType *type = cell->primal->type;
    const char *name = renamed_axis(r, cell);
    if (name == NULL)
        return type;
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) {
        axes[i] = type->axes[i];
        if (axes[i].name == r->derivative->loop->axis)
            axes[i].name = name;
    }
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

static DtValue *make_saved(DtReverse *r, DtBuilder *b, DtCell *cell)
{
    cell->handed = dt_graph_arg(r->bwd, saved_type(r, cell), cell->primal->name);
    const char *name = renamed_axis(r, cell);
    if (name == NULL)
        return cell->handed;
    return dt_graph_rename(b, cell->handed, name, r->derivative->loop->axis, cell->primal->type);
}

static uint32_t index_of_op(const DtReverse *r, const DtOp *op)
{
    uint32_t i = 0;
    while (r->func->ops.at[i] != op)
        i++;
    return i;
}

/* Copies op into bwd. A call in a function that is differentiated as a whole becomes a call of the
 * callee's forward function, whose results include the extra values that the callee's backward
 * function needs. */
static DtOp *recompute(DtReverse *r, DtBuilder *b, const DtOp *op, DtValue *const *in)
{
    const DtDerivative *d = op->kind == DT_OP_CALL ? r->of_op[index_of_op(r, op)] : NULL;
    if (d == NULL || d->fwd == op->func)
        return dt_graph_copy(b, op, in);
    DtOp *call = dt_graph_call(b, d->fwd, op->text, in);
    for (uint32_t i = r->func->n_values; i < r->cells.n; i++)
        if (r->cells.at[i]->primal->op == op)
            r->cells.at[i]->made = call->out[r->cells.at[i]->primal->index];
    return call;
}

/* Returns the value of a cell in the backward function. Unless it is saved, appends the ops that
 * compute it again. */
static DtValue *materialise(DtReverse *r, DtCell *cell)
{
    if (cell->made != NULL)
        return cell->made;
    DtOp *op = cell->primal->op;
    DtBuilder b = {.func = r->bwd};
    if (op != NULL) {
        b.span = op->span;
        b.path = op->path;
    }
    if (cell->is_input || cell->saved)
        return cell->made = make_saved(r, &b, cell);
    DtValue **in = DT_NEW_ARRAY(r->diff->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = materialise(r, cell_of(r, op->in[i]));
    DtOp *copy = recompute(r, &b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++) {
        DtCell *out = cell_of(r, op->out[i]);
        if (out->made == NULL)
            out->made = copy->out[i];
    }
    return cell->made;
}

/* Returns the cell whose placeholder this input of bwd is; NULL for cotangents and values of
 * ops. */
static DtCell *behind(const DtReverse *r, const DtValue *value)
{
    if (value->op != NULL || value->index < r->n_seeds)
        return NULL;
    return r->placeholders.at[value->index - r->n_seeds];
}

static void find_needed(DtReverse *r)
{
    for (uint32_t i = 0; i < r->bwd->ops.n; i++) {
        const DtOp *op = r->bwd->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            DtCell *cell = behind(r, op->in[k]);
            if (cell != NULL)
                cell->needed = true;
        }
    }
    for (uint32_t i = 0; i < r->bwd->results.n; i++) {
        DtCell *cell = behind(r, r->bwd->results.at[i]);
        if (cell != NULL)
            cell->needed = true;
    }
}

static void replace_placeholders(DtReverse *r)
{
    DtFunc *bwd = r->bwd;
    const uint32_t n_ops = bwd->ops.n;
    DtOp **ops = bwd->ops.at;
    bwd->ops.at = NULL;
    bwd->ops.n = bwd->ops.cap = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        for (uint32_t k = 0; k < ops[i]->n_in; k++) {
            DtCell *cell = behind(r, ops[i]->in[k]);
            if (cell != NULL)
                ops[i]->in[k] = materialise(r, cell);
        }
        DT_PUSH(r->diff->arena, bwd->ops, ops[i]);
    }
    for (uint32_t i = 0; i < bwd->results.n; i++) {
        DtCell *cell = behind(r, bwd->results.at[i]);
        if (cell != NULL)
            bwd->results.at[i] = materialise(r, cell);
    }
}

/* Says where the forward function gets a saved value: an input, a result of func, or an extra
 * result, which are numbered after the results of func. Counts the extra ones in *n_extra. */
static DtSaved origin(const DtReverse *r, const DtCell *cell, uint32_t *n_extra)
{
    const DtFunc *func = r->func;
    if (cell->is_input)
        return (DtSaved){.is_input = true, .index = cell->primal->index};
    const DtLoop *loop = r->derivative->loop;
    for (uint32_t i = loop != NULL ? loop->n_carried : 0; i < func->results.n; i++)
        if (func->results.at[i] == cell->primal)
            return (DtSaved){.index = i};
    return (DtSaved){.index = func->results.n + (*n_extra)++};
}

/* Orders bwd's inputs: saved inputs of func, saved results and extras, cotangents. The
 * placeholders are removed. */
static uint32_t order_inputs(DtReverse *r)
{
    DtFunc *bwd = r->bwd;
    DtArena *arena = r->diff->arena;
    DtValue **seeds = bwd->inputs.at;
    uint32_t n_extra = 0;
    bwd->inputs.at = NULL;
    bwd->inputs.n = bwd->inputs.cap = 0;
    for (int input = 1; input >= 0; input--)
        for (uint32_t i = 0; i < r->cells.n; i++) {
            DtCell *cell = r->cells.at[i];
            if (cell->handed == NULL || cell->is_input != (input == 1))
                continue;
            DT_PUSH(arena, bwd->saved, origin(r, cell, &n_extra));
            DT_PUSH(arena, bwd->inputs, cell->handed);
        }
    for (uint32_t i = 0; i < r->n_seeds; i++)
        DT_PUSH(arena, bwd->inputs, seeds[i]);
    for (uint32_t i = 0; i < bwd->inputs.n; i++)
        bwd->inputs.at[i]->index = i;
    bwd->n_args = bwd->inputs.n;
    return n_extra;
}

/* ---- the forward function ---- */

static DtOp *forward_op(DtReverse *r, DtBuilder *b, uint32_t index, DtValue *const *in)
{
    const DtOp *op = r->func->ops.at[index];
    const DtDerivative *d = r->of_op[index];
    if (d == NULL || d->fwd == op->func)
        return dt_graph_copy(b, op, in);
    if (op->kind == DT_OP_CALL)
        return dt_graph_call(b, d->fwd, op->text, in);
    DtLoop loop = *op->loop;
    loop.n_stacked_out += d->fwd->results.n - op->func->results.n;
    return dt_graph_loop(b, d->fwd, loop, in);
}

static void forward_ops(DtReverse *r, DtFunc *fwd)
{
    DtBuilder b = {.func = fwd};
    for (uint32_t i = 0; i < r->func->ops.n; i++) {
        const DtOp *op = r->func->ops.at[i];
        b.span = op->span;
        b.path = op->path;
        DtValue **in = DT_NEW_ARRAY(r->diff->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = cell_of(r, op->in[k])->forward;
        const DtOp *copy = forward_op(r, &b, i, in);
        for (uint32_t k = 0; k < op->n_out; k++) {
            cell_of(r, op->out[k])->forward = copy->out[k];
            copy->out[k]->name = op->out[k]->name;
        }
        for (uint32_t k = r->func->n_values; r->of_op[i] != NULL && k < r->cells.n; k++)
            if (r->cells.at[k]->primal->op == op)
                r->cells.at[k]->forward = copy->out[r->cells.at[k]->primal->index];
    }
}

static bool forward_differs(const DtReverse *r, uint32_t n_extra)
{
    bool differs = false;
    for (uint32_t i = 0; i < r->func->ops.n; i++)
        differs = differs || (r->of_op[i] != NULL && r->of_op[i]->fwd != r->func->ops.at[i]->func);
    return n_extra > 0 || (differs && !r->whole);
}

static DtFunc *build_forward(DtReverse *r)
{
    DtFunc *func = r->func;
    DtFunc *fwd =
        dt_graph_func(r->diff->module, dt_intern_printf("%s.fwd", func->name), func->kind);
    fwd->span = func->span;
    fwd->primal = func;
    fwd->library = r->whole ? func->library : NULL;
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        DtValue *input = func->inputs.at[i];
        cell_of(r, input)->forward = dt_graph_arg(fwd, input->type, input->name);
    }
    forward_ops(r, fwd);
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_graph_return(fwd, cell_of(r, func->results.at[i])->forward);
    for (uint32_t i = 0; i < r->cells.n; i++) {
        DtCell *cell = r->cells.at[i];
        if (cell->handed == NULL || cell->is_input)
            continue;
        const DtSaved from = r->bwd->saved.at[cell->handed->index];
        const char *name = renamed_axis(r, cell);
        DtBuilder b = {.func = fwd, .span = func->span};
        if (name != NULL)
            cell->forward = dt_graph_rename(&b, cell->forward, r->derivative->loop->axis, name,
                                            saved_type(r, cell));
        if (from.index >= func->results.n)
            dt_graph_return(fwd, cell->forward);
    }
    fwd->n_returns = fwd->results.n;
    dt_graph_renumber(fwd);
    return fwd;
}

void dt_saved_settle(DtReverse *r)
{
    dt_graph_sweep(r->bwd);
    find_needed(r);
    choose_saved(r);
    replace_placeholders(r);
    if (r->whole)
        for (uint32_t i = 0; i < r->cells.n; i++)
            if (r->cells.at[i]->is_input || r->cells.at[i]->saved)
                materialise(r, r->cells.at[i]);
    const uint32_t n_extra = order_inputs(r);
    r->derivative->fwd = forward_differs(r, n_extra) ? build_forward(r) : r->func;
    dt_graph_sweep(r->bwd);
    dt_graph_renumber(r->bwd);
}
