/* SPDX-License-Identifier: Apache-2.0 */
/* Values get the number by which later passes say what they mean.
 *
 *   %7 = mul(%x.3, %w.4) : f32[a]    =>    %7 = mul(%x.3, %w.4) : f32[a] means=52
 *
 * A pass that copies an op (dt_graph_copy) or an argument (dt_graph_arg_like) has nothing to do: the copy means what
 * the op means, wherever it stands and however it is placed. What a pass makes anew means nothing, unless the pass says
 * so.
 *
 * Requires: no pass behind this one changes what the program means. An op that stands where a call was means what it
 * did in the function. Establishes: DtValue.means is a number in the text
 * before it (ir/means.c). Breaks: nothing. */
#include "passes/passes.h"

bool dt_pass_means(DtModule *module, const DtPassContext *context)
{
    (void)context;
    dt_means_begin(module);
    return true;
}
