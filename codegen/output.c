/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the memory for an op's results: where they are wanted (a store, the next iteration's
 * carried value, a slice of a stacked value), if nobody still reads the old contents; over an
 * operand that dies; else a temporary. */
#include "codegen/emit.h"

#include "base/bug.h"

/* Decides where an op writes the value: directly to where a reader wants it, if that memory is free
 * (the reader's request is then removed from the scope), else to a temporary. */
DtOutput dt_output_of(DtEmit *e, DtValue *value)
{
    const DtWanted *wanted = e->scope->wanted[value->id];
    DtOutput output = {.value = value};
    const bool direct =
        wanted && (!wanted->old || wanted->old == value->over) &&
        (!wanted->accumulate || dt_scope_reads(e, value) == (wanted->packed ? 1 : 0));
    if (direct) {
        output.place = wanted->place;
        output.accumulate = wanted->accumulate;
        output.old = wanted->old;
        output.wished = true;
        e->scope->wanted[value->id] = NULL;
    } else {
        output.place = dt_place_own(e, value);
    }
    return output;
}

DtPlace dt_output_write(DtEmit *e, DtValue *value, bool *ret_accumulate)
{
    DtOutput output = dt_output_of(e, value);
    *ret_accumulate = output.accumulate;
    dt_place_set(e, value, output.place);
    return output.place;
}

/* Whether a temporary's memory holds this value and nothing else, in the order of its type; rows
 * may have gaps between them. */
static bool is_whole(DtEmit *e, const DtValue *value, const DtPlace *place)
{
    DtPlace whole = dt_place_dense(e, value->type, place->view.buffer);
    for (uint32_t d = 0; d < whole.view.rank && place->view.rank == whole.view.rank; d++)
        if (place->view.stride[d] > whole.view.stride[d])
            whole.view.stride[d] = place->view.stride[d];
    return dt_place_same(place, &whole) &&
           e->buffers.at[place->view.buffer].bytes == dt_place_arg(e, place, false).bytes;
}

void dt_output_take(DtEmit *e, DtOutput *output)
{
    const DtValue *old = output->value->over;
    if (!old || output->wished)
        return;
    const DtPlace *place = dt_place_find(e, old);
    if (!place || e->buffers.at[place->view.buffer].fixed || !is_whole(e, old, place))
        DT_BUG("value %u of `%s` is said to take memory that it cannot take", output->value->id,
               e->scope->func->name);
    output->place = *place;
    output->old = old;
}
