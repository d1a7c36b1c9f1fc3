/* SPDX-License-Identifier: Apache-2.0 */
/* fuse: which ops share a kernel, and in which order all is computed. A group of several ops
 * becomes one op `fused`, whose function is what the kernel computes:
 *
 *     %1 = const() : f32[] number=2              func loss.k0 : kernel {
 *     %2 = mul(%x.0, %1) : f32[row, col]           arg %0 : f32[row, col]
 *     %3 = add(%2, %y.1) : f32[row, col]    =>     arg %1 : f32[row, col]
 *                                                  %2 = const() : f32[] number=2
 *     %3 = fused(%x.0, %y.1) func=loss.k0          %3 = mul(%0, %2) ...
 *
 * Its operands are what it reads from memory, its results what others read. What is made of
 * constants and positions only is computed again in each kernel. An op that stays alone is a kernel
 * of its own, a view, a product, or whatever else code generation makes of it; that groups
 * nothing.
 *
 * A called function with a product may be attention, which runs in tiles: it stays as it is, and
 * has a second function for where no tiles fit (DtFunc.fused). Random values that only such calls
 * read are drawn inside of them.
 *
 * requires that no later pass reads values inside of a group establishes each kernel is one op; ops
 * stand in the order in which they run breaks numbers of values. Each op says which one it had
 * (DtValue.final): the plan is proved
 *              against the program before this pass, and its notes (plan/notes.h) count as that one
 *              does */
#include "passes/lower/fuse.h"
#include "passes/passes.h"

#include "base/intern.h"
#include "ir/pipeline.h"
#include "passes/loops.h"

#include <string.h>

/* a kernel may be shared if temporaries grow by at most 1/SPARE of the memory in use */
enum { SPARE = 100 };

typedef DT_VEC(DtFunc *) Funcs;

typedef struct Fuse {
    DtArena *arena, *scratch;
    DtFunc *func;
    Funcs *made;        /* functions in their new order: each one's kernels, and then the
                         * function */
    uint32_t *group;    /* by position in func->ops: number of the op's group */
    DtFuseRows *rows;   /* by group */
    uint32_t *group_of; /* by value id: group of its op; UINT32_MAX: an input */
    bool *outside;      /* by value id: a result, or another group reads it */
    /* by value id: the result of a kernel that has taken the value's place in func; NULL: none
     * has */
    DtValue **now;
    /* by value id: the copy or argument that stands for the value in the kernel being made */
    DtValue **copy;
    DT_VEC(uint32_t) copied; /* ids of the values that have a copy */
    /* by value id: the groups that compute the value again instead of reading it */
    DtFuseRecompute **recomputed;
    DtValue *const **operands; /* by value id: the operands of the op that makes it, before kernels
                                * were made */
    bool *is_dead;      /* by position in func->ops: no op reads the op's results */
    uint32_t n_kernels;
} Fuse;

/* ---- one kernel ---- */

typedef struct Kernel {
    DtFunc *func;
    DtBuilder b;
    DT_VEC(DtValue *) in; /* values of func that the kernel reads */
} Kernel;

static void keep_copy(Fuse *f, const DtValue *value, DtValue *copy)
{
    f->copy[value->id] = copy;
    DT_PUSH(f->scratch, f->copied, value->id);
}

/* Returns the kernel's argument for a value that it reads from memory; adds the argument, and the
 * value to the kernel's operands, if there is none yet. */
static DtValue *argument(Fuse *f, Kernel *k, DtValue *value)
{
    if (!f->copy[value->id]) {
        keep_copy(f, value, dt_graph_arg_like(k->func, value->type, value));
        DT_PUSH(f->scratch, k->in, f->now[value->id] ? f->now[value->id] : value);
    }
    return f->copy[value->id];
}

static bool is_recomputed(const Fuse *f, const DtValue *value, uint32_t group)
{
    return dt_fuse_computes(f->recomputed[value->id], group);
}

static DtValue *recompute(Fuse *f, Kernel *k, const DtValue *value, uint32_t group);

/* Operand i of an op in the kernel: the copy of a value computed in the kernel, an argument, or a
 * recomputed value. */
static DtValue *operand(Fuse *f, Kernel *k, const DtOp *op, uint32_t i, uint32_t group)
{
    DtValue *value = f->operands[op->out[0]->id][i];
    if (f->group_of[value->id] == group)
        return value;
    if ((dt_op_is_inline(value) && !dt_op_reads_elsewhere(op, i)) || is_recomputed(f, value, group))
        return recompute(f, k, value, group);
    return argument(f, k, value);
}

static DtValue *recompute(Fuse *f, Kernel *k, const DtValue *value, uint32_t group)
{
    if (f->copy[value->id])
        return f->copy[value->id];
    DtValue **in = DT_NEW_ARRAY(f->scratch, DtValue *, value->op->n_in + 1);
    for (uint32_t i = 0; i < value->op->n_in; i++)
        in[i] = operand(f, k, value->op, i, group);
    DtOp *op = dt_graph_copy(&k->b, value->op, in);
    op->span = value->op->span, op->path = value->op->path;
    keep_copy(f, value, op->out[0]);
    return op->out[0];
}

/* Moves the op into the kernel, with operands that are values of the kernel. Its results become
 * results of the kernel if other groups read them. */
static void move_op(Fuse *f, Kernel *k, DtOp *op, uint32_t group)
{
    DtValue **in = DT_NEW_ARRAY(f->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = operand(f, k, op, i, group);
    op->in = in;
    DT_PUSH(f->arena, k->func->ops, op);
    for (uint32_t i = 0; i < op->n_out; i++)
        if (f->outside[op->out[i]->id])
            dt_graph_return(k->func, op->out[i]);
}

static void make_kernel(Fuse *f, DtOp *const *ops, uint32_t n, uint32_t group)
{
    const char *name = dt_intern_printf("%s.k%u", f->func->name, f->n_kernels++);
    Kernel k = {.func = dt_graph_func(f->func->module, name, DT_FUNC_KERNEL)};
    k.b = (DtBuilder){.func = k.func};
    k.func->span = ops[n - 1]->span;
    f->copied.n = 0;
    for (uint32_t i = 0; i < n; i++)
        move_op(f, &k, ops[i], group);
    for (uint32_t i = 0; i < f->copied.n; i++)
        f->copy[f->copied.at[i]] = NULL;
    if (k.func->results.n == 0)
        return;
    DtBuilder b = {.func = f->func, .span = ops[n - 1]->span, .path = ops[n - 1]->path};
    DtOp *op = dt_graph_fused(&b, k.func, k.in.at);
    op->axes = f->rows[group].axes;
    op->n_axes = f->rows[group].n;
    for (uint32_t i = 0; f->rows[group].product && i < n; i++)
        ops[i]->copies = ops[i]->kind == DT_OP_DOT; /* code generation may do the product alone
                                                     * after all */
    op->text = f->rows[group].product ? dt_intern(f->rows[group].product) : NULL;
    for (uint32_t i = 0; i < op->n_out; i++) {
        op->out[i]->name = k.func->results.at[i]->name;
        op->out[i]->means = k.func->results.at[i]->means;
        f->now[k.func->results.at[i]->id] = op->out[i];
    }
    DT_PUSH(f->scratch, *f->made, k.func);
}

/* ---- one function ---- */

/* Marks a value as needed, and as stored in memory (f->outside) if another group computes it. If
 * `group` recomputes the value, marks the operands of its op instead. */
static void need(Fuse *f, const DtValue *value, uint32_t group, bool *needed)
{
    if (!is_recomputed(f, value, group)) {
        needed[value->id] = true;
        f->outside[value->id] = f->outside[value->id] || f->group_of[value->id] != group;
        return;
    }
    for (uint32_t i = 0; i < value->op->n_in; i++)
        need(f, value->op->in[i], group, needed);
}

/* Marks the values that are stored in memory, and those that no op needs any more because readers
 * recompute them. */
static void find_outside(Fuse *f)
{
    const DtFunc *func = f->func;
    bool *needed = DT_NEW_ARRAY(f->scratch, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        needed[func->results.at[i]->id] = f->outside[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        f->is_dead[i] = op->n_out == 1 && f->recomputed[op->out[0]->id] && !needed[op->out[0]->id];
        for (uint32_t j = 0; j < op->n_in && !f->is_dead[i]; j++)
            need(f, op->in[j], f->group[i], needed);
    }
}

static void keep_op(Fuse *f, DtOp *op)
{
    DtValue **in = op->in;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtValue *now = f->now[op->in[i]->id];
        if (now && in == op->in) {
            in = DT_NEW_ARRAY(f->arena, DtValue *, op->n_in);
            memcpy(in, op->in, op->n_in * sizeof *in);
        }
        if (now)
            in[i] = now;
    }
    op->in = in;
    DT_PUSH(f->arena, f->func->ops, op);
}

/* Removes cheap ops whose results no op reads any more, since their readers compute them again
 * inside kernels. */
static void drop_unread(Fuse *f)
{
    DtFunc *func = f->func;
    uint32_t *reads = DT_NEW_ARRAY(f->scratch, uint32_t, func->n_values + 1), kept = func->ops.n;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++)
            reads[func->ops.at[i]->in[j]->id]++;
    for (uint32_t i = 0; i < func->results.n; i++)
        reads[func->results.at[i]->id]++;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        DtOp *op = func->ops.at[i];
        const bool drops =
            op->n_out == 1 && reads[op->out[0]->id] == 0 && dt_op_is_inline(op->out[0]);
        for (uint32_t j = 0; drops && j < op->n_in; j++)
            reads[op->in[j]->id]--;
        if (!drops)
            func->ops.at[--kept] = op;
    }
    if (kept > 0)
        memmove(func->ops.at, func->ops.at + kept, (func->ops.n - kept) * sizeof *func->ops.at);
    func->ops.n -= kept;
}

static bool reads_recomputed(const Fuse *f, const DtOp *op, uint32_t group)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (is_recomputed(f, op->in[i], group))
            return true;
    return false;
}

/* Sorts the ops by groups: ops before ret_end[g] are in groups up to g. */
static DtOp **sort_ops(Fuse *f, uint32_t n_groups, uint32_t *ret_end)
{
    const DtFunc *func = f->func;
    DtOp **ops = DT_NEW_ARRAY(f->scratch, DtOp *, func->ops.n + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        ret_end[f->group[i] + 1] += !f->is_dead[i];
    for (uint32_t g = 0; g < n_groups; g++)
        ret_end[g + 1] += ret_end[g];
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (!f->is_dead[i])
            ops[ret_end[f->group[i]]++] = func->ops.at[i];
    return ops;
}

/* Bytes by which temporaries may grow to allow a common kernel: a percent of the memory of stores,
 * and of values that loops save for their backward loops. */
static int64_t find_spare(const DtModule *module)
{
    const int64_t stages = module->pipeline ? module->pipeline->n_stages : 1;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        const int64_t one = dt_type_local_elements(dt_store_memory_type(store), &module->mesh) *
                            (int64_t)dt_dtype_size(store->type->dtype) *
                            (store->depth > 1 ? store->depth : 1);
        bytes += store->stage < 0 || !module->pipeline ? one : one / stages * (store->more + 1);
    }
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
            const DtOp *op = module->funcs.at[i]->ops.at[k];
            for (uint32_t j = 0; op->kind == DT_OP_LOOP && j < op->n_in; j++)
                if (j >= op->loop->n_carried + op->loop->n_invariant && op->in[j]->op &&
                    op->in[j]->op->kind == DT_OP_LOOP)
                    bytes += dt_type_local_elements(op->in[j]->type, &module->mesh) *
                             (int64_t)dt_dtype_size(op->in[j]->type->dtype);
        }
    return bytes / SPARE;
}

/* Assigns each op to a group; returns the number of groups. */
static uint32_t find_groups(DtFunc *func, const DtPassContext *context, int64_t spare,
                            DtArena *scratch, Fuse *ret_fuse)
{
    const uint32_t n = func->n_values + 1, n_ops = func->ops.n;
    Fuse *f = ret_fuse;
    *f = (Fuse){.arena = func->module->arena, .scratch = scratch, .func = func};
    f->group = DT_NEW_ARRAY(scratch, uint32_t, n_ops + 1);
    f->group_of = DT_NEW_ARRAY(scratch, uint32_t, n);
    f->outside = DT_NEW_ARRAY(scratch, bool, n);
    f->now = DT_NEW_ARRAY(scratch, DtValue *, n);
    f->copy = DT_NEW_ARRAY(scratch, DtValue *, n);
    f->rows = DT_NEW_ARRAY(scratch, DtFuseRows, n_ops + 1);
    f->recomputed = DT_NEW_ARRAY(scratch, DtFuseRecompute *, n);
    f->operands = DT_NEW_ARRAY(scratch, DtValue *const *, n);
    f->is_dead = DT_NEW_ARRAY(scratch, bool, n_ops + 1);
    return dt_fuse_group(func, &dt_target_limits[context->target], context->epilogues, spare,
                         scratch, f->group, f->rows, f->recomputed);
}

static void fuse_func(DtFunc *func, const DtPassContext *context, int64_t spare, DtArena *scratch,
                      Funcs *made)
{
    Fuse fuse, *f = &fuse;
    DtFuseCopied *copied;
    const uint32_t n_copied = dt_fuse_copy_known(func, scratch, &copied);
    uint32_t n_groups = find_groups(func, context, spare, scratch, f);
    if (!dt_fuse_keeps_copies(func, copied, n_copied, f->group)) {
        dt_fuse_drop_copies(func, copied, n_copied);
        n_groups = find_groups(func, context, spare, scratch, f);
    }
    f->made = made;
    const uint32_t n = func->n_values + 1, n_ops = func->ops.n;
    uint32_t *end = DT_NEW_ARRAY(scratch, uint32_t, n_groups + 1), first = 0, first_made = made->n;
    memset(f->group_of, 0xff, n * sizeof *f->group_of);
    for (uint32_t i = 0; i < n_ops; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const uint32_t id = func->ops.at[i]->out[k]->id;
            f->operands[id] = func->ops.at[i]->in;
            f->group_of[id] = f->group[i];
        }
    find_outside(f);
    const DtFuseRecord *record = dt_fuse_record(func, scratch);
    DtOp **ops = sort_ops(f, n_groups, end);
    memset(&func->ops, 0, sizeof func->ops);
    for (uint32_t g = 0; g < n_groups; first = end[g++])
        if (end[g] - first == 1 && !reads_recomputed(f, ops[first], g))
            keep_op(f, ops[first]);
        else if (end[g] > first)
            make_kernel(f, ops + first, end[g] - first, g);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (f->now[func->results.at[i]->id])
            func->results.at[i] = f->now[func->results.at[i]->id];
    dt_fuse_check(record, func);
    while (first_made < made->n)
        dt_graph_renumber(made->at[first_made++]);
    dt_graph_renumber(func);
    drop_unread(f);
    DT_PUSH(scratch, *made, func);
}

/* ---- all functions ---- */

static void number_ops(const DtFunc *func)
{
    uint32_t n = func->inputs.n;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            func->ops.at[i]->out[k]->final = 1 + n++;
}

static bool has_product(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_DOT)
            return true;
    return false;
}

/* Gives each called function that contains a product a copy to be fused (DtFunc.fused), whose loops
 * have bodies of their own. */
static void copy_called(const DtFunc *func)
{
    for (uint32_t k = 0; k < func->ops.n; k++) {
        const DtOp *op = func->ops.at[k];
        if (op->kind != DT_OP_CALL || op->func->fused || op->func->params.n ||
            !has_product(op->func))
            continue;
        op->func->fused = dt_loops_copy_func(op->func);
        op->func->fused->name = dt_intern_printf("%s.fused", op->func->name);
        op->func->fused->library = NULL;
    }
}

/* Whether op computes its result from drawn values alone, element by element. */
static bool is_of_draws(const DtOp *op, const bool *drawn)
{
    bool any = op->kind == DT_OP_RNG;
    for (uint32_t i = 0; dt_op_is_pointwise(op->kind) && i < op->n_in; i++) {
        if (!drawn[op->in[i]->id] && !dt_op_is_inline(op->in[i]))
            return false;
        any = any || drawn[op->in[i]->id];
    }
    return any && op->n_out == 1;
}

/* Random values that only calls read which may run in tiles (attention) are drawn by the reader,
 * block by block: a dropout mask of weights has the size of all scores. */
static void draw_in_tiles(const DtFunc *func, DtArena *scratch)
{
    bool *drawn = DT_NEW_ARRAY(scratch, bool, func->n_values + 1),
         *kept = DT_NEW_ARRAY(scratch, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (is_of_draws(func->ops.at[i], drawn))
            drawn[func->ops.at[i]->out[0]->id] = true;
    for (uint32_t i = 0; i < func->results.n; i++)
        kept[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        const bool redrawn = op->n_out == 1 && drawn[op->out[0]->id] && !kept[op->out[0]->id];
        const bool tiles = op->kind == DT_OP_CALL && op->func->fused && !op->n_axes;
        for (uint32_t k = 0; !redrawn && !tiles && k < op->n_in; k++)
            kept[op->in[k]->id] = true;
        if (redrawn)
            op->out[0]->made_anew = 2;
    }
}

/* Fuses the ops of a called function's copy and of the bodies of its loops, which follow it in the
 * module, into kernels. */
static void fuse_called(DtFunc *called, const DtPassContext *context, int64_t spare,
                        DtArena *scratch, Funcs *made)
{
    const DtModule *module = called->module;
    uint32_t first = 0, end;
    while (module->funcs.at[first] != called)
        first++;
    for (end = first + 1; end < module->funcs.n && module->funcs.at[end]->kind == DT_FUNC_BODY;
         end++) {}
    while (end-- > first)
        fuse_func(module->funcs.at[end], context, spare, scratch, made);
}

bool dt_pass_fuse(DtModule *module, const DtPassContext *context)
{
    if (context->unfused)
        return false;
    DtArena *scratch = dt_arena_child(module->arena);
    Funcs made = {0};
    const uint32_t n = module->funcs.n;
    const int64_t bytes = find_spare(module);
    for (uint32_t i = 0; i < n; i++)
        number_ops(module->funcs.at[i]);
    for (uint32_t i = 0; i < n; i++)
        copy_called(module->funcs.at[i]);
    for (uint32_t i = 0; i < n; i++)
        draw_in_tiles(module->funcs.at[i], scratch);
    for (uint32_t i = 0; i < n; i++) {
        DtFunc *func = module->funcs.at[i];
        if (func->fused) {
            fuse_called(func->fused, context, bytes, scratch, &made);
            DT_PUSH(scratch, made, func);
        } else {
            fuse_func(func, context, bytes, scratch, &made);
        }
    }
    module->funcs.n = 0;
    for (uint32_t i = 0; i < made.n; i++)
        DT_PUSH(module->arena, module->funcs, made.at[i]);
    dt_arena_free(scratch);
    return true;
}
