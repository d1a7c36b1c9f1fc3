/* SPDX-License-Identifier: Apache-2.0 */
/* Expansion.
 *
 * Purpose: ranks execute most ops of a placed program as they are written. Ring calls (ring.h),
 * which include relays (relay.h), and ops along an axis in zigzag order (zigzag.h) only say what
 * the result is. Here each of these becomes a call of a function that says what every rank does,
 * for the back end and the interpreter of all ranks.
 *
 *     %o = call[kseq](%q, %k, %v) func=attend.2 mesh={context}
 *     %t = shard(%x) : i32[batch, seq/context~] mesh={context}
 *  =>
 *     %o = call(%q, %k, %v) func=attend.2.ring
 *     %t = call(%x) func=shard.zigzag
 *
 * Masks made of positions in zigzag order are made inside the library calls that take them: outside
 * they would be as large as the scores.
 *
 * The certificate reads the program before this pass; a separate proof shows that each new function
 * equals the op that it replaces, by evaluating both (verify/box.h).
 *
 * Requires: a placed program. Establishes: no ring calls; only relabels and elementwise ops are
 * left along axes in zigzag order. Breaks: nothing. */
#include "passes/passes.h"

#include "passes/place/relay.h"
#include "passes/place/ring.h"
#include "passes/place/zigzag.h"

/* Turns op into a call of func with these operands; the results stay op's. */
static void become_call(DtOp *op, DtFunc *func, DtValue **in)
{
    const char *text = op->kind == DT_OP_CALL ? op->text : NULL;
    *op = (DtOp){.kind = DT_OP_CALL,
                 .span = op->span,
                 .path = op->path,
                 .caller = op->caller,
                 .aliases = op->aliases,
                 .recomputed = op->recomputed,
                 .in = in,
                 .n_in = func->inputs.n,
                 .out = op->out,
                 .n_out = op->n_out,
                 .func = func,
                 .text = text};
}

/* ---- masks along an axis in zigzag order ---- */

typedef struct Lift {
    DtBuilder b;                           /* adds ops to the new function */
    const DtValue *positions[DT_MAX_RANK]; /* the positions found, one value per axis */
    DtValue *inputs[DT_MAX_RANK];          /* the inputs of the new function that replace them */
    uint32_t n;
} Lift;

static bool in_zigzag(const DtValue *value)
{
    if (!value->op || dt_zigzag_is(value->op))
        return value->op != NULL;
    for (uint32_t i = 0; i < value->op->n_in; i++)
        if (in_zigzag(value->op->in[i]))
            return true;
    return false;
}

static bool is_lifted(const DtValue *value)
{
    return dt_ring_is_positional(value) && in_zigzag(value);
}

/* Whether op calls a library or streaming function with an operand (a mask) computed from positions
 * that the call could compute itself. Computed before the call, a mask would be as large as the
 * scores. */
static bool lifts(const DtOp *op)
{
    bool any = false;
    for (uint32_t i = 0;
         op->kind == DT_OP_CALL && (op->func->library || op->func->stream) && i < op->n_in; i++)
        any = any || is_lifted(op->in[i]);
    return any;
}

static void find_positions(Lift *lift, const DtValue *value)
{
    bool known = value->op->kind != DT_OP_IOTA;
    for (uint32_t i = 0; i < lift->n; i++)
        known = known || lift->positions[i]->op->axes[0] == value->op->axes[0];
    if (!known && lift->n < DT_COUNT(lift->positions))
        lift->positions[lift->n++] = value;
    for (uint32_t i = 0; i < value->op->n_in; i++)
        find_positions(lift, value->op->in[i]);
}

static DtValue *copy_inside(Lift *lift, const DtValue *value)
{
    const DtOp *op = value->op;
    DtValue *in[4];
    for (uint32_t i = 0; op->kind == DT_OP_IOTA && i < lift->n; i++)
        if (lift->positions[i]->op->axes[0] == op->axes[0])
            return lift->inputs[i];
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = copy_inside(lift, op->in[i]);
    return dt_graph_copy(&lift->b, op, in)->out[0];
}

/* Makes a copy of the called function that computes its masks itself, from positions that it takes
 * as operands. ret_in: the operands of the new call. */
static DtFunc *lift_positions(const DtOp *op, DtModule *module, DtValue **ret_in)
{
    const DtFunc *func = op->func;
    DtFunc *made = dt_graph_func(module, func->name, func->kind);
    Lift lift = {.b = {.func = made, .span = op->span, .path = op->path}};
    DtValue **map = DT_NEW_ARRAY(module->arena, DtValue *, func->n_values + 1);
    uint32_t n = 0;
    made->library = func->library;
    made->span = func->span;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtValue *input = func->inputs.at[i];
        if (is_lifted(op->in[i])) {
            find_positions(&lift, op->in[i]);
            continue;
        }
        map[input->id] = dt_graph_arg(made, input->type, input->name);
        ret_in[n++] = op->in[i];
    }
    for (uint32_t i = 0; i < lift.n; i++) {
        lift.inputs[i] =
            dt_graph_arg(made, lift.positions[i]->type, lift.positions[i]->op->axes[0]);
        ret_in[n++] = lift.positions[i]->op->out[0];
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        if (is_lifted(op->in[i]))
            map[func->inputs.at[i]->id] = copy_inside(&lift, op->in[i]);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *inner = func->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, inner->n_in + 1);
        for (uint32_t k = 0; k < inner->n_in; k++)
            in[k] = map[inner->in[k]->id];
        lift.b.span = inner->span;
        DtOp *copy = dt_graph_copy(&lift.b, inner, in);
        for (uint32_t k = 0; k < inner->n_out; k++)
            map[inner->out[k]->id] = copy->out[k];
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_graph_return(made, map[func->results.at[i]->id]);
    return made;
}

/* ---- all ops ---- */

typedef bool Is(const DtOp *op);
typedef DtFunc *Make(const DtOp *op, DtModule *module, DtValue **ret_in);

static DtFunc *make_zigzag(const DtOp *op, DtModule *module, DtValue **ret_in)
{
    (void)ret_in; /* the call has op's operands */
    return dt_zigzag_expand(op, module);
}

/* Turns each op of the module for which is() is true into a call of the function that make()
 * builds; returns whether there were any. */
static bool expand(DtModule *module, Is *is, Make *make)
{
    bool any = false;
    for (uint32_t i = 0; i < module->funcs.n; i++) { /* new functions are appended */
        DtFunc *func = module->funcs.at[i];
        bool changed = false;
        for (uint32_t k = 0; k < func->ops.n; k++) {
            DtOp *op = func->ops.at[k];
            if (!is(op))
                continue;
            DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, op->n_in + DT_MAX_RANK);
            for (uint32_t j = 0; j < op->n_in; j++)
                in[j] = op->in[j];
            become_call(op, make(op, module, in), in);
            any = changed = true;
        }
        if (changed) {
            dt_graph_sweep(func); /* masks that are made anew */
            dt_graph_renumber(func);
        }
    }
    return any;
}

bool dt_pass_expand(DtModule *module, const DtPassContext *context)
{
    (void)context;
    bool any = expand(module, dt_relay_is, dt_relay_expand);
    /* rings and masks are recognised by how masks are computed, so zigzag order is expanded after
     * them */
    any = expand(module, dt_ring_is, dt_ring_expand) || any;
    any = expand(module, lifts, lift_positions) || any;
    any = expand(module, dt_zigzag_is, make_zigzag) || any;
    for (uint32_t i = 0; i < module->funcs.n; i++) { /* only rings need `part` */
        DtFunc *func = module->funcs.at[i];
        any = any || (func->stream && func->stream->part);
        if (func->stream)
            func->stream = dt_ring_without_parts(module->arena, func->stream);
    }
    if (any)
        dt_inline_drop(module);
    return any;
}
