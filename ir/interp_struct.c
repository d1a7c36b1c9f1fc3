/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: ops with functions inside (call, fused, loop) and
 * collectives, which a single rank can only take as the identity. Calls and loops keep the instance
 * path and the iteration number, from which sites of random numbers have their key and counter. */
#include "ir/interp_eval.h"

#include <math.h>
#include <string.h>

/* ---- call ---- */

/* Returns the instance path inside a call with this label. Models and library functions (label
 * NULL) have no path segment. */
const char *dt_interp_push(const DtInterp *interp, const char *label)
{
    const char *path = interp->path ? interp->path : "";
    if (!label || !*label)
        return path;
    return *path ? dt_arena_printf(interp->arena, "%s.%s", path, label) : label;
}

static void check_arguments(const DtInterp *interp, const DtOp *op, uint32_t n_in, uint32_t n_out)
{
    const DtFunc *func = op->func;
    if (!func || func->inputs.n != n_in || func->results.n != n_out)
        dt_interp_fail(interp, op,
                       "the function has %u inputs and %u results, %u and %u are wanted",
                       func ? func->inputs.n : 0, func ? func->results.n : 0, n_in, n_out);
}

/* Runs a call or `fused`. The latter replaces the ops of its function, so it adds no segment to
 * their paths. */
void dt_eval_call(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    check_arguments(interp, op, op->n_in, op->n_out);
    const char *outer = interp->path;
    if (op->kind == DT_OP_CALL)
        interp->path = dt_interp_push(interp, op->text);
    dt_interp_run(interp, op->func, in, out);
    interp->path = outer;
}

/* ---- loop ---- */

DtTensor *dt_interp_slice(DtInterp *interp, const DtOp *op, const DtTensor *whole,
                          const DtType *slice, int64_t iteration)
{
    const DtType *type = whole->type;
    bool same = type->rank == slice->rank + 1 && type->axes[0].extent == op->loop->count &&
                type->axes[0].name == op->loop->axis && type->dtype == slice->dtype;
    for (uint32_t i = 0; same && i < slice->rank; i++)
        same = slice->axes[i].name == type->axes[i + 1].name &&
               slice->axes[i].extent == type->axes[i + 1].extent;
    if (!same)
        dt_interp_fail(interp, op, "a stacked value is not the body's with axis `%s` in front",
                       op->loop->axis);
    DtTensor *tensor = DT_NEW(interp->arena, DtTensor);
    tensor->type = slice;
    tensor->at = whole->at + iteration * dt_type_elements(slice);
    return tensor;
}

static void loop_iteration(DtInterp *interp, const DtOp *op, DtTensor *const *carried,
                           DtTensor *const *in, DtTensor *const *stacked_out, int64_t iteration,
                           DtTensor **ret_carried)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    DtTensor **inputs = DT_NEW_ARRAY(interp->arena, DtTensor *, body->inputs.n);
    DtTensor **results = DT_NEW_ARRAY(interp->arena, DtTensor *, body->results.n + 1);
    uint32_t n = 0;
    inputs[n++] = dt_interp_tensor(interp->arena, dt_type_scalar(DT_I32));
    inputs[0]->at[0] = (double)(loop->first + iteration);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        inputs[n++] = carried[i];
    for (uint32_t i = 0; i < loop->n_invariant; i++)
        inputs[n++] = in[loop->n_carried + i];
    for (uint32_t i = 0; i < loop->n_stacked; i++, n++)
        inputs[n] = dt_interp_slice(interp, op, in[n - 1], body->inputs.at[n]->type, iteration);
    dt_interp_run(interp, body, inputs, results);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        ret_carried[i] = results[i];
    for (uint32_t i = 0; i < loop->n_stacked_out; i++) {
        const DtTensor *made = results[loop->n_carried + i];
        DtTensor *to = dt_interp_slice(interp, op, stacked_out[i], made->type, iteration);
        memcpy(to->at, made->at, sizeof(double) * (size_t)dt_type_elements(made->type));
    }
}

void dt_eval_loop(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtLoop *loop = op->loop;
    if (!loop || loop->count < 1 ||
        op->n_in != loop->n_carried + loop->n_invariant + loop->n_stacked ||
        op->n_out != loop->n_carried + loop->n_stacked_out)
        dt_interp_fail(interp, op, "the loop's counts are not those of its operands and results");
    check_arguments(interp, op, op->n_in + 1, op->n_out);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        out[i] = in[i];
    for (uint32_t i = loop->n_carried; i < op->n_out; i++)
        out[i] = dt_interp_tensor(interp->arena, op->out[i]->type);
    const char *outer_path = interp->path;
    uint32_t outer_iteration = interp->iteration;
    const int64_t outer_turn = interp->turn;
    interp->path = dt_interp_push(interp, loop->label);
    for (int64_t k = 0; k < loop->count; k++) {
        int64_t iteration = loop->reverse ? loop->count - 1 - k : k;
        interp->turn = k;
        interp->iteration =
            outer_iteration * (uint32_t)loop->count + (uint32_t)(loop->first + iteration);
        loop_iteration(interp, op, out, in, out + loop->n_carried, iteration, out);
    }
    interp->path = outer_path;
    interp->iteration = outer_iteration;
    interp->turn = outer_turn;
}

/* ---- collectives ---- */

/* Returns the number of ranks that the op's mesh axes span. */
static int64_t ranks_of(const DtInterp *interp, const DtOp *op)
{
    const DtMesh *mesh = &interp->func->module->mesh;
    int64_t ranks = 1;
    for (uint32_t i = 0; i < DT_MAX_MESH; i++) {
        if (!(op->mesh >> i & 1))
            continue;
        if (i >= mesh->n)
            dt_interp_fail(interp, op, "mesh axis %u does not exist", i);
        ranks *= mesh->axes[i].size;
    }
    return ranks;
}

void dt_eval_comm(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    if (op->kind == DT_OP_SHIFT)
        dt_interp_fail(interp, op, "the serial interpreter has no other rank to talk to");
    if (op->stages && interp->across) {
        const DtTensor *sum = interp->across(interp->context, op, in[0]);
        memcpy(out[0]->at, sum->at, sizeof(double) * (size_t)dt_type_elements(out[0]->type));
        return;
    }
    int64_t ranks = ranks_of(interp, op);
    if (ranks != 1)
        dt_interp_fail(interp, op, "a collective over %lld ranks in the serial interpreter",
                       (long long)ranks);
    dt_interp_spread(interp, op, in[0], out[0]);
}
