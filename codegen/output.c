/* SPDX-License-Identifier: Apache-2.0 */
/* Where an op writes its results: where they are wanted (a store, the next iteration's carried value, a slice of a
 * stacked value), if nobody still reads what lies there; over an operand that dies; else in a temporary. */
#include "codegen/emit.h"

/* Where the op at position `at` may write value at once; a temporary if it cannot write where it is wanted. */
DtOutput dt_output_of(DtEmit *e, DtValue *value, uint32_t at)
{
    const DtWanted *wanted = e->scope->wanted[value->id];
    DtOutput output = {.value = value};
    bool direct = wanted && (!wanted->old || dt_scope_last_read(e, wanted->old) <= at) &&
                  (!wanted->accumulate || dt_scope_uses(e, value) == (wanted->packed ? 1 : 0));
    if (direct) {
        output.place = wanted->place;
        output.accumulate = wanted->accumulate;
        output.old = wanted->old;
        output.wished = true;
        e->scope->wanted[value->id] = NULL;
    } else {
        output.place = dt_layout_temporary(e, value);
    }
    return output;
}

DtPlace dt_output_write(DtEmit *e, DtValue *value, uint32_t at, bool *ret_accumulate)
{
    DtOutput output = dt_output_of(e, value, at);
    *ret_accumulate = output.accumulate;
    dt_place_set(e, value, output.place);
    return output.place;
}

void dt_output_refuse(DtEmit *e, DtOutput *output)
{
    if (output->reuses) {
        *output =
            (DtOutput){.value = output->value, .place = dt_layout_temporary(e, output->value)};
        return;
    }
    DtWanted *wanted = DT_NEW(e->scratch, DtWanted);
    *wanted = (DtWanted){
        .set = true, .accumulate = output->accumulate, .place = output->place, .old = output->old};
    e->scope->wanted[output->value->id] = wanted;
    output->place = dt_layout_temporary(e, output->value);
    output->accumulate = false;
}

DtOutput dt_output_apart(DtEmit *e, DtValue *value, uint32_t at)
{
    DtOutput output = dt_output_of(e, value, at);
    if (output.old && dt_scope_last_read(e, output.old) >= at)
        dt_output_refuse(e, &output);
    return output;
}

/* ---- memory of operands ---- */

/* Whether a temporary is the value and nothing else, in the order of its type; between rows there may be gaps. */
static bool is_whole(DtEmit *e, const DtValue *value, const DtPlace *place)
{
    DtPlace whole = dt_place_dense(e, value->type, place->view.buffer);
    for (uint32_t d = 0; d < whole.view.rank && place->view.rank == whole.view.rank; d++)
        if (place->view.stride[d] > whole.view.stride[d])
            whole.view.stride[d] = place->view.stride[d];
    return dt_place_same(place, &whole) &&
           e->buffers.at[place->view.buffer].bytes == dt_place_arg(e, place, false).bytes;
}

bool dt_output_dies(DtEmit *e, const DtValue *value, uint32_t at)
{
    const DtPlace *place = dt_place_find(e, value);
    if (!place || !value->op || e->buffers.at[place->view.buffer].fixed)
        return false;
    const DtRead *read = dt_scope_reads(e, value);
    const bool held = read->held > at && !(e->scope->func->ops.at[at]->starts && read->n == 1);
    return is_whole(e, value, place) && dt_scope_root(value) == value && read->last == at && !held;
}

bool dt_output_is_fresh(const DtEmit *e, const DtOutput *output)
{
    const DtBuffer *buffer = &e->buffers.at[output->place.view.buffer];
    return !output->old && !output->wished && !buffer->fixed && buffer->first == UINT32_MAX;
}

/* An operand of the same type that dies here: its memory can take the result, if the kernel turns out to
 * read it only where it writes. */
static const DtValue *dying_operand(DtEmit *e, const DtOp *op, uint32_t at, const DtType *type)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]->type == type && dt_output_dies(e, op->in[i], at))
            return op->in[i];
    return NULL;
}

void dt_output_reuse(DtEmit *e, const DtOp *op, uint32_t at, DtOutput *outputs, uint32_t n_outputs)
{
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (!dt_output_is_fresh(e, &outputs[i]))
            continue; /* where it goes was somebody's wish */
        const DtValue *dying = dying_operand(e, op, at, outputs[i].value->type);
        bool taken = false;
        for (uint32_t j = 0; dying && j < n_outputs; j++)
            taken = taken || outputs[j].old == dying;
        if (!dying || taken)
            continue;
        outputs[i].place = *dt_place_find(e, dying);
        outputs[i].old = dying;
        outputs[i].reuses = true;
    }
}
