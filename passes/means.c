/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers values, so that later passes need not say which serial value each of their values
 * equals.
 *
 *   %7 = mul(%x.3, %w.4) : f32[a]    =>    %7 = mul(%x.3, %w.4) : f32[a] means=52
 *
 * A pass that copies an op (dt_graph_copy) or an argument (dt_graph_arg_like) does nothing: the
 * copy has the op's number, wherever it is and however it is placed. Ops that a pass makes anew
 * have no number, unless the pass sets one.
 *
 * Requires: no later pass changes the meaning of the program. Establishes: DtValue.means is a
 * number in the text before it (ir/means.c). Breaks: nothing. */
#include "passes/passes.h"

bool dt_pass_means(DtModule *module, const DtPassContext *context)
{
    (void)context;
    dt_means_begin(module);
    return true;
}
