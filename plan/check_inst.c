/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: one instruction. Evaluates its arguments over the ranges of all registers and all
 * mesh coordinates, in 128 bits, and checks that it stays within the memory that the stage has. */
#include "plan/check_internal.h"

#include "base/pairs.h"
#include "plan/kinds.h"

#include <string.h>

/* ---- arguments ---- */

/* Adds to the range `sum` the range of coef * x for x in [lo, hi]. */
static void add_term(CheckWide *sum, int64_t coef, int64_t lo, int64_t hi)
{
    DtWide x = (DtWide)coef * lo, y = (DtWide)coef * hi;
    sum->lo += x < y ? x : y;
    sum->hi += x < y ? y : x;
}

/* The least and the largest coordinate that ranks of the stage have on a mesh axis. */
static CheckRange coordinates(const CheckInst *at, uint32_t axis)
{
    const DtPlan *plan = at->check->plan;
    if (plan->meta->pipeline == axis + 1)
        return (CheckRange){at->stage, at->stage};
    return (CheckRange){0, (int64_t)plan->mesh[axis].size - 1};
}

static bool arg_range(const CheckInst *at, uint32_t index, CheckWide *ret_range)
{
    Check *check = at->check;
    const DtPlan *plan = check->plan;
    const DtPlanArg *arg = &plan->args[index];
    CheckWide range = {arg->base, arg->base};
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++) {
        if (arg->reg[r] == 0)
            continue;
        if (at->hull->unset >> r & 1)
            return dt_check_fail(check, "ARGS", index, "register %d has no value", r);
        add_term(&range, arg->reg[r], at->hull->reg[r].lo, at->hull->reg[r].hi);
    }
    for (int c = 0; c < DT_PLAN_COORDS; c++) {
        if (arg->coord[c] == 0)
            continue;
        if (arg->coord_axis[c] >= plan->n_mesh)
            return dt_check_fail(check, "ARGS", index, "mesh axis %u of %u", arg->coord_axis[c],
                                 plan->n_mesh);
        CheckRange coord = coordinates(at, arg->coord_axis[c]);
        add_term(&range, arg->coord[c], coord.lo, coord.hi);
    }
    if (range.lo < INT64_MIN / 2 || range.hi > INT64_MAX / 2)
        return dt_check_fail(check, "ARGS", index, "its value may leave 63 bits");
    *ret_range = range;
    return true;
}

/* Whether no term of the address can overflow, which the runtime adds up in 64 bits. If each term
 * alone is small and the whole range fits in 63 bits, no partial sum overflows either. */
static bool terms_fit(const CheckInst *at, uint32_t index)
{
    const DtPlanArg *arg = &at->check->plan->args[index];
    const int64_t most = INT64_MAX / 16;
    bool fits = arg->base <= most && arg->base >= -most;
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++) {
        CheckWide term = {0, 0};
        if (arg->reg[r] == 0)
            continue;
        add_term(&term, arg->reg[r], at->hull->reg[r].lo, at->hull->reg[r].hi);
        fits = fits && term.lo >= -most && term.hi <= most;
    }
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0) {
            CheckWide term = {0, 0};
            CheckRange coord = coordinates(at, arg->coord_axis[c]);
            add_term(&term, arg->coord[c], coord.lo, coord.hi);
            fits = fits && term.lo >= -most && term.hi <= most;
        }
    return fits || dt_check_fail(at->check, "ARGS", index, "a term of its value is out of range");
}

/* Checks that argument i is an address range of at least `need` bytes inside its arena, for all
 * values of registers. unit: the alignment that the instruction needs; written: whether it writes;
 * shared: whether other ranks access it. */
static bool check_address(const CheckInst *at, uint32_t i, DtWide need, int64_t unit, bool written,
                          bool shared)
{
    const DtPlan *plan = at->check->plan;
    uint32_t index = at->inst->first_arg + i;
    const DtPlanArg *arg = &plan->args[index];
    CheckWide range;
    if (arg->kind != DT_ARG_ADDRESS)
        return dt_check_fail(at->check, "INST", at->index, "argument %u is no address", i);
    if (arg->arena >= plan->n_arenas)
        return dt_check_fail(at->check, "ARGS", index, "arena %u of %u", arg->arena,
                             plan->n_arenas);
    if (at->hull->trains && dt_plan_predicts(plan->arenas[arg->arena].kind))
        return dt_check_fail(at->check, "ARGS", index, "arena %u is there only to predict",
                             arg->arena);
    if (!at->is_second && plan->arenas[arg->arena].kind == DT_ARENA_INSTEAD)
        return dt_check_fail(at->check, "ARGS", index,
                             "arena %u is there only for products' second forms", arg->arena);
    if (!arg_range(at, index, &range) || !terms_fit(at, index))
        return false;
    int64_t size = dt_plan_arena_bytes(plan, arg->arena, at->stage);
    if (arg->bytes < 0 || range.lo < 0 || range.hi + arg->bytes > size)
        return dt_check_fail(
            at->check, "ARGS", index, "bytes %lld to %lld of an arena of %lld", (long long)range.lo,
            (long long)(range.hi + (arg->bytes > 0 ? arg->bytes : 0)), (long long)size);
    if (need < 0 || need > arg->bytes)
        return dt_check_fail(at->check, "INST", at->index, "argument %u has %lld bytes, too few", i,
                             (long long)arg->bytes);
    if (arg->written > 1 || (written && !arg->written))
        return dt_check_fail(at->check, "ARGS", index, "is written, but says it is not");
    if (shared && !plan->arenas[arg->arena].shared && plan->meta->n_ranks > 1)
        return dt_check_fail(at->check, "ARGS", index,
                             "other ranks read arena %u, which is not shared", arg->arena);
    bool aligned = arg->base % unit == 0;
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++)
        aligned = aligned && (arg->reg[r] == 0 || arg->reg[r] % unit == 0);
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        aligned = aligned && (arg->coord[c] == 0 || arg->coord[c] % unit == 0);
    return aligned ||
           dt_check_fail(at->check, "ARGS", index, "is not aligned to %lld bytes", (long long)unit);
}

static bool check_integer(const CheckInst *at, uint32_t i, CheckWide *ret_range)
{
    uint32_t index = at->inst->first_arg + i;
    const DtPlanArg *arg = &at->check->plan->args[index];
    if (arg->kind == DT_ARG_ADDRESS)
        return dt_check_fail(at->check, "INST", at->index, "argument %u is no integer", i);
    if (arg->written != 0 || arg->bytes != 0 || arg->arena != 0)
        return dt_check_fail(at->check, "ARGS", index, "an integer has no arena");
    if (arg->kind == DT_ARG_STEP) {
        if (at->inst->kind != DT_INST_KERNEL || i + at->inst->guards >= at->inst->n_args)
            return dt_check_fail(at->check, "INST", at->index,
                                 "argument %u is the number of the step, which is one of "
                                 "kernels only",
                                 i);
        *ret_range = (CheckWide){0, INT64_MAX / 2};
        return true;
    }
    return arg_range(at, index, ret_range) && terms_fit(at, index);
}

/* ---- one function per kind of instruction ---- */

static bool wants(const CheckInst *at, uint32_t n_args, uint32_t ref, uint32_t n_ref)
{
    const uint32_t has = (uint32_t)at->inst->n_args - at->inst->guards;
    if (has != n_args)
        return dt_check_fail(at->check, "INST", at->index, "%u arguments instead of %u", has,
                             n_args);
    if (ref >= n_ref)
        return dt_check_fail(at->check, "INST", at->index, "refers to record %u of %u", ref, n_ref);
    return true;
}

static bool check_kernel(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    CheckWide range;
    if (at->inst->ref >= plan->n_kernels)
        return dt_check_fail(at->check, "INST", at->index, "kernel %u of %u", at->inst->ref,
                             plan->n_kernels);
    const DtPlanKernel *kernel = &plan->kernels[at->inst->ref];
    if (!wants(at, kernel->n_pointers + kernel->n_integers, 0, 1))
        return false;
    for (uint32_t i = 0; i < kernel->n_pointers; i++)
        if (!check_address(at, i, 0, 1, false, false))
            return false;
    for (uint32_t i = 0; i < kernel->n_integers; i++)
        if (!check_integer(at, kernel->n_pointers + i, &range))
            return false;
    char why[DT_CHECK_WHY];
    return dt_check_attention(plan, at->inst, why) ||
           dt_check_fail(at->check, "INST", at->index, "%s", why);
}

/* The number of bytes from the first to the end of the last element of a strided operand. */
static DtWide span_bytes(const DtPlanGemm *gemm, int64_t rows, int64_t row, int64_t columns,
                         int64_t column, const int64_t *batch, uint32_t dtype)
{
    DtWide last = (DtWide)(rows - 1) * row + (DtWide)(columns - 1) * column;
    for (uint32_t b = 0; b < gemm->n_batch; b++)
        last += (DtWide)(gemm->batch[b] - 1) * batch[b];
    return last > DT_PLAN_MAX_BYTES ? -1 : (last + 1) * dt_kinds_size(dtype);
}

static bool check_gemm(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    if (at->inst->ref >= plan->n_gemms)
        return wants(at, 3, at->inst->ref, plan->n_gemms);
    const DtPlanGemm *gemm = &plan->gemms[at->inst->ref];
    const DtEpilogueInfo *epilogue = &dt_kinds_epilogues[gemm->epilogue];
    const uint32_t vector = epilogue->vector ? 1 : 0, matrix = epilogue->matrix ? 1 : 0;
    const int64_t unit = dt_kinds_size(gemm->dtype_c);
    if (!wants(at, 3 + vector + matrix, 0, 1))
        return false;
    DtWide a =
        span_bytes(gemm, gemm->m, gemm->a_row, gemm->k, gemm->a_col, gemm->a_batch, gemm->dtype_a);
    DtWide b =
        span_bytes(gemm, gemm->k, gemm->b_row, gemm->n, gemm->b_col, gemm->b_batch, gemm->dtype_b);
    DtWide c =
        span_bytes(gemm, gemm->m, gemm->c_row, gemm->n, gemm->c_col, gemm->c_batch, gemm->dtype_c);
    return check_address(at, 0, a, dt_kinds_size(gemm->dtype_a), false, false) &&
           check_address(at, 1, b, dt_kinds_size(gemm->dtype_b), false, false) &&
           check_address(at, 2, c, unit, true, false) &&
           (!vector ||
            check_address(at, 3,
                          (gemm->epilogue == DT_PLAN_EPILOGUE_SUM_A ? gemm->m : gemm->n) * unit,
                          unit, epilogue->vector == DT_EPILOGUE_WRITE, false)) &&
           (!matrix || check_address(at, 3 + vector,
                                     span_bytes(gemm, gemm->m, gemm->matrix_row, gemm->n,
                                                gemm->matrix_col, gemm->c_batch, gemm->dtype_c),
                                     unit, epilogue->matrix == DT_EPILOGUE_WRITE, false));
}

static bool check_copy(const CheckInst *at)
{
    bool copy = at->inst->kind == DT_INST_COPY;
    return wants(at, copy ? 2 : 1, at->inst->ref, 1) &&
           check_address(at, 0, at->inst->count, 1, true, false) &&
           (!copy || check_address(at, 1, at->inst->count, 1, false, false));
}

static bool check_read(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    if (at->inst->ref >= plan->n_readers)
        return dt_check_fail(at->check, "INST", at->index, "reader %u of %u", at->inst->ref,
                             plan->n_readers);
    const DtPlanReader *reader = &plan->readers[at->inst->ref];
    CheckWide first, rows;
    if (reader->part > 1)
        return dt_check_fail(at->check, "INST", at->index, "reads part %u of a mixture alone",
                             reader->part);
    if (!wants(at, reader->n_inputs + 2, 0, 1) || !check_integer(at, reader->n_inputs, &first) ||
        !check_integer(at, reader->n_inputs + 1, &rows))
        return false;
    if (rows.lo < 1 || first.lo < 0 || first.hi + rows.hi > plan->meta->batch)
        return dt_check_fail(at->check, "INST", at->index,
                             "reads rows %lld to %lld of a batch of %lld", (long long)first.lo,
                             (long long)(first.hi + rows.hi), (long long)plan->meta->batch);
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[reader->first_input + i];
        DtWide need = rows.hi * input->row_elements * dt_kinds_size(input->dtype);
        if (!check_address(at, i, need, dt_kinds_size(input->dtype), true, false))
            return false;
    }
    return true;
}

/* Checks a message: it fits in a slot of a channel that begins (SEND) or ends (RECV) at this
 * stage. */
static bool check_message(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    bool sends = inst->kind == DT_INST_SEND;
    CheckWide tag;
    if (!wants(at, 2, inst->ref, plan->n_channels))
        return false;
    const DtPlanChannel *channel = &plan->channels[inst->ref];
    if ((sends ? channel->from : channel->to) != at->stage)
        return dt_check_fail(at->check, "INST", at->index, "channel %u has no end at stage %u",
                             inst->ref, at->stage);
    if (inst->count < 0 || inst->count > channel->bytes / dt_kinds_size(inst->dtype))
        return dt_check_fail(at->check, "INST", at->index, "%lld elements in a slot of %lld bytes",
                             (long long)inst->count, (long long)channel->bytes);
    int64_t unit = dt_kinds_size(inst->dtype);
    return check_address(at, 0, (DtWide)inst->count * unit, unit, !sends, false) &&
           check_integer(at, 1, &tag);
}

/* Returns the number of bytes from a buffer's start to the end of its last block, for the member
 * whose blocks are last. */
static DtWide blocks_reach(const DtPlan *plan, const DtPlanBlocks *blocks, const int64_t *strides,
                           const int64_t *coords, int64_t unit)
{
    DtWide last = 0;
    for (uint32_t d = 0; d < blocks->n_dims; d++)
        last += (DtWide)(blocks->extent[d] - 1) * strides[d];
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (coords[c])
            last += (DtWide)coords[c] * (plan->mesh[blocks->coord_axis[c]].size - 1);
    return last > DT_PLAN_MAX_BYTES ? -1 : (last + 1) * unit;
}

/* Checks gathers, scatters and all-to-alls: the memory of their blocks must be inside of both
 * buffers. */
static bool check_exchange(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    int64_t unit = dt_kinds_size(inst->dtype), size = plan->groups[inst->ref].size;
    DtWide part = (DtWide)inst->count * unit, to = part, from = part;
    if (inst->blocks > 0) {
        if (inst->blocks > plan->n_blocks || plan->blocks[inst->blocks - 1].group != inst->ref)
            return dt_check_fail(at->check, "INST", at->index, "blocks %u of %u, of its group",
                                 inst->blocks, plan->n_blocks);
        const DtPlanBlocks *blocks = &plan->blocks[inst->blocks - 1];
        DtWide elements = 1;
        for (uint32_t d = 0; d < blocks->n_dims && elements <= DT_PLAN_MAX_BYTES; d++)
            elements *= blocks->extent[d];
        if (elements != inst->count)
            return dt_check_fail(at->check, "INST", at->index, "blocks of %lld elements, not %lld",
                                 (long long)elements, (long long)inst->count);
        to = blocks_reach(plan, blocks, blocks->to, blocks->to_coord, unit);
        from = blocks_reach(plan, blocks, blocks->from, blocks->from_coord, unit);
    } else {
        to *= inst->kind == DT_INST_REDUCE_SCATTER ? 1 : size;
        from *= inst->kind == DT_INST_ALL_GATHER ? 1 : size;
    }
    return wants(at, 2, 0, 1) && check_address(at, 0, to, unit, true, false) &&
           check_address(at, 1, from, unit, false, true);
}

/* Checks collectives: their arguments are written or read in multiples of `count` elements. */
static bool check_collective(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    if (inst->ref >= plan->n_groups)
        return dt_check_fail(at->check, "INST", at->index, "group %u of %u", inst->ref,
                             plan->n_groups);
    const char *stages = dt_plan_str(plan, plan->groups[inst->ref].stages);
    if (*stages && !dt_stages_has(stages, at->stage))
        return dt_check_fail(at->check, "INST", at->index, "stage %u is not in group %u", at->stage,
                             inst->ref);
    if (inst->count < 0 || inst->count > DT_PLAN_MAX_BYTES)
        return dt_check_fail(at->check, "INST", at->index, "%lld elements", (long long)inst->count);
    int64_t unit = dt_kinds_size(inst->dtype);
    DtWide part = (DtWide)inst->count * unit;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE:
        return wants(at, inst->n_args == 2 ? 2 : 1, 0, 1) &&
               check_address(at, 0, part, unit, true, true) &&
               (inst->n_args == 1 || check_address(at, 1, part, unit, false, true));
    case DT_INST_ALL_GATHER:
    case DT_INST_REDUCE_SCATTER:
    case DT_INST_ALL_TO_ALL: return check_exchange(at);
    case DT_INST_SHIFT:
    case DT_INST_SHIFT_BACK:
        return wants(at, 2, 0, 1) && check_address(at, 0, part, unit, true, false) &&
               check_address(at, 1, part, unit, false, true);
    default: return wants(at, 0, 0, 1);
    }
}

/* Only a shift may be of pairs, in a round that its group has. */
static bool check_round(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    const int64_t rounds = inst->kind == DT_INST_SHIFT && inst->ref < plan->n_groups
                               ? dt_pairs_rounds(plan->groups[inst->ref].size)
                               : 0;
    return inst->round <= rounds ||
           dt_check_fail(at->check, "INST", at->index, "round %u of %lld", inst->round,
                         (long long)rounds);
}

/* Instructions that other ranks wait for must have no guards. */
static bool check_guards(const CheckInst *at)
{
    const DtPlanInst *inst = at->inst;
    CheckWide range;
    if (inst->guards > inst->n_args ||
        (inst->guards && inst->kind != DT_INST_KERNEL && inst->kind != DT_INST_GEMM &&
         inst->kind != DT_INST_COPY && inst->kind != DT_INST_ZERO))
        return dt_check_fail(at->check, "INST", at->index, "%u guards", inst->guards);
    for (uint32_t i = inst->n_args - inst->guards; i < inst->n_args; i++) {
        if (at->check->plan->args[inst->first_arg + i].kind != DT_ARG_INTEGER)
            return dt_check_fail(at->check, "INST", at->index, "guard %u is no integer", i);
        if (!check_integer(at, i, &range))
            return false;
    }
    return true;
}

/* Checks the event of an instruction: it exists for each slot of the ring. A started collective
 * must have a queue other than 0; a started message has that of its channel. */
static bool check_event(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    const bool collective = inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_SHIFT_BACK;
    if (inst->event == 0)
        return (inst->event_step == 0 && inst->kind != DT_INST_WAIT) ||
               dt_check_fail(at->check, "INST", at->index, "names no event");
    const bool message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
    if (!collective && !message && inst->kind != DT_INST_WAIT)
        return dt_check_fail(at->check, "INST", at->index,
                             "has an event, but is no collective or message");
    if (message &&
        (inst->event_step || (inst->ref < plan->n_channels && !plan->channels[inst->ref].direct)))
        return dt_check_fail(at->check, "INST", at->index,
                             "is started, but its channel is not direct");
    if (collective && inst->ref < plan->n_groups && plan->groups[inst->ref].queue == 0)
        return dt_check_fail(at->check, "INST", at->index, "is started in queue 0");
    if (inst->event_step && at->hull->unset >> DT_PLAN_REG_RINGBUF & 1)
        return dt_check_fail(at->check, "INST", at->index, "register %d has no value",
                             DT_PLAN_REG_RINGBUF);
    const CheckRange *slots = &at->hull->reg[DT_PLAN_REG_RINGBUF];
    CheckWide range = {inst->event, inst->event};
    if (inst->event_step)
        add_term(&range, inst->event_step, slots->lo, slots->hi);
    if (range.lo < 1 || range.hi > plan->meta->events)
        return dt_check_fail(at->check, "INST", at->index, "events %lld to %lld of %u",
                             (long long)range.lo - 1, (long long)range.hi - 1, plan->meta->events);
    if (at->check->events < (int64_t)range.hi)
        at->check->events = (int64_t)range.hi;
    return true;
}

bool dt_check_inst(const CheckInst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    if (!dt_check_range(at->check, "INST", at->index, "arguments", inst->first_arg, inst->n_args,
                        plan->n_args))
        return false;
    if (inst->span != 0 && inst->span >= plan->n_spans)
        return dt_check_fail(at->check, "INST", at->index, "span %u of %u", inst->span,
                             plan->n_spans);
    if (inst->blocks > 0 && inst->kind != DT_INST_ALL_GATHER &&
        inst->kind != DT_INST_REDUCE_SCATTER && inst->kind != DT_INST_ALL_TO_ALL)
        return dt_check_fail(at->check, "INST", at->index, "only exchanges have blocks");
    if (!check_round(at) || !check_guards(at) || !check_event(at))
        return false;
    switch (inst->kind) {
    case DT_INST_KERNEL: return check_kernel(at);
    case DT_INST_GEMM: return check_gemm(at);
    case DT_INST_COPY:
    case DT_INST_ZERO: return check_copy(at);
    case DT_INST_READ: return check_read(at);
    case DT_INST_SEND:
    case DT_INST_RECV: return check_message(at);
    case DT_INST_WAIT: return wants(at, 0, at->inst->ref, 1);
    default: return check_collective(at);
    }
}
