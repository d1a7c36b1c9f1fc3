/* SPDX-License-Identifier: Apache-2.0 */
/* Expansion.
 *
 * Purpose: what a program means and what ranks do is one thing for most ops. For ring calls
 * (ring.h) and ops along an axis in zigzag order (zigzag.h) it is two; here each becomes a call of
 * a function that says what ranks do, for the back end and the interpreter of all ranks.
 *
 *     %o = call[kseq](%q, %k, %v) func=attend.2 mesh={context}
 *     %t = shard(%x) : i32[batch, seq/context~] mesh={context}
 *  =>
 *     %o = call(%q, %k, %v) func=attend.2.ring
 *     %t = call(%x) func=shard.zigzag
 *
 * The certificate reads the program before this pass: that these functions do what is meant is one
 * of the things that it trusts and the interpreter tests.
 *
 * Requires: a placed program. Establishes: no ring calls; no op but relabels and elementwise ones
 * needs to know the order of a split. Breaks: nothing. */
#include "passes/passes.h"

#include "passes/ring.h"
#include "passes/zigzag.h"

/* op becomes the call of func with these operands, which has its results. */
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

/* Does so with ring calls (rings), or with ops along axes in zigzag order; true if there are any. */
static bool expand(DtModule *module, bool rings)
{
    bool any = false;
    for (uint32_t i = 0; i < module->funcs.n; i++) { /* new functions come behind */
        DtFunc *func = module->funcs.at[i];
        bool changed = false;
        for (uint32_t k = 0; k < func->ops.n; k++) {
            DtOp *op = func->ops.at[k];
            if (rings ? !dt_ring_is(op) : !dt_zigzag_is(op))
                continue;
            DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, op->n_in + 1);
            for (uint32_t j = 0; j < op->n_in; j++)
                in[j] = op->in[j];
            DtFunc *made = rings ? dt_ring_expand(op, module, in) : dt_zigzag_expand(op, module);
            become_call(op, made, in);
            any = changed = true;
        }
        if (changed) {
            dt_graph_sweep(func); /* masks that are made anew */
            dt_graph_renumber(func);
        }
    }
    return any;
}

void dt_pass_expand(DtModule *module, const DtPassContext *context)
{
    (void)context;
    const bool rings = expand(module, true); /* first: they look at how masks are made */
    if (expand(module, false) || rings)
        dt_inline_drop(module);
}
