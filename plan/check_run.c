/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's second half: the program. For each stage: walks the schedule of every entry (loops
 * nest and end, registers are set before they are read, the number of runs is bounded), collecting
 * for each body the range of every register over all places that run it; then evaluates each
 * argument of each instruction over those ranges and all mesh coordinates, in 128 bits, and
 * compares with what the instruction touches and what the stage has.
 *
 * The walk is one pass over the items. A register that is set inside a loop has no value when an
 * iteration begins, so nothing depends on the iteration before; then ranges follow from the loops
 * around a SET alone. */
#include "plan/check_internal.h"

#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

typedef struct Range {
    int64_t lo, hi;
} Range;
typedef struct Wide {
    DtWide lo, hi;
} Wide;

/* Registers of a body over all its runs on one stage. unset: bits of those without a value in one. */
typedef struct Hull {
    bool runs;
    uint32_t unset;
    Range reg[DT_PLAN_REGS];
} Hull;

/* The bodies that one stage runs. */
typedef struct Stage {
    uint32_t number;
    Hull *hulls;    /* by body */
    uint32_t *list; /* of those that run */
    uint32_t n;
    int64_t items; /* looked at so far, on all stages */
} Stage;

/* ---- schedules ---- */

typedef struct Nest {
    uint32_t entry, end; /* number of the entry, the item after its last */
    uint32_t n_open, open[DT_PLAN_MAX_DEPTH]; /* registers of the loops around us */
    Range reg[DT_PLAN_REGS];
    uint32_t unset;                      /* bits of registers without a value */
    int64_t runs[DT_PLAN_MAX_DEPTH + 1]; /* how often we come here, by depth */
    int64_t total;
    bool called; /* the items are another entry's */
} Nest;

static void widen(Stage *stage, uint32_t body, const Nest *nest)
{
    Hull *hull = &stage->hulls[body];
    if (!hull->runs)
        stage->list[stage->n++] = body;
    for (int r = 0; r < DT_PLAN_REGS; r++) {
        if (!hull->runs || nest->reg[r].lo < hull->reg[r].lo)
            hull->reg[r].lo = nest->reg[r].lo;
        if (!hull->runs || nest->reg[r].hi > hull->reg[r].hi)
            hull->reg[r].hi = nest->reg[r].hi;
    }
    hull->unset |= nest->unset;
    hull->runs = true;
}

static const int64_t limit = (int64_t)1 << 31;

static bool is_open(const Nest *nest, uint32_t reg)
{
    for (uint32_t i = 0; i < nest->n_open; i++)
        if (nest->open[i] == reg)
            return true;
    return false;
}

/* Registers that items from the LOOP at index up to its END set; ends that are missing are found later. */
static uint32_t set_within(const DtPlan *plan, uint32_t index, uint32_t end)
{
    uint32_t bits = 0;
    int64_t depth = 0;
    for (uint32_t i = index; i < end; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        depth += item->kind == DT_SCHED_LOOP;
        depth -= item->kind == DT_SCHED_END;
        if (depth <= 0)
            break;
        if (item->kind == DT_SCHED_SET && item->reg < DT_PLAN_REGS)
            bits |= 1u << item->reg;
    }
    return bits;
}

static bool open_loop(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    if (item->reg >= DT_PLAN_REGS || nest->n_open == DT_PLAN_MAX_DEPTH)
        return dt_check_fail(check, "SCHD", index, "loop of register %u at depth %u", item->reg,
                             nest->n_open);
    if (is_open(nest, item->reg))
        return dt_check_fail(check, "SCHD", index, "register %u counts two nested loops",
                             item->reg);
    if (item->count < 1 || item->count > DT_CHECK_MAX_RUNS || item->first < -limit ||
        item->first > limit || item->step < -limit || item->step > limit)
        return dt_check_fail(check, "SCHD", index, "%lld times from %lld by %lld",
                             (long long)item->count, (long long)item->first, (long long)item->step);
    int64_t last = item->first + (int64_t)item->step * (item->count - 1); /* below 2^62 */
    if (last < -(limit << 9) || last > limit << 9)
        return dt_check_fail(check, "SCHD", index, "counts to %lld", (long long)last);
    nest->reg[item->reg] =
        (Range){item->first < last ? item->first : last, item->first < last ? last : item->first};
    nest->unset |= set_within(check->plan, index, nest->end);
    nest->unset &= ~(1u << item->reg);
    nest->open[nest->n_open++] = item->reg;
    nest->runs[nest->n_open] = nest->runs[nest->n_open - 1] * item->count;
    if (nest->runs[nest->n_open] > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d times", DT_CHECK_MAX_RUNS);
    return true;
}

static bool end_loop(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    /* An END may name the register of its loop, for readers. */
    if (nest->n_open == 0 || item->body != 0 ||
        (item->reg != 0 && item->reg != nest->open[nest->n_open - 1]))
        return dt_check_fail(check, "SCHD", index, "ends no loop");
    uint32_t reg = nest->open[--nest->n_open];
    nest->reg[reg] = (Range){0, 0};
    nest->unset &= ~(1u << reg);
    return true;
}

static bool set_register(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    if (nest->called || item->reg >= DT_PLAN_REGS || item->body >= DT_PLAN_REGS ||
        item->plus >= DT_PLAN_REGS || is_open(nest, item->reg))
        return dt_check_fail(check, "SCHD", index, "sets register %u out of %u", item->reg,
                             item->body);
    if (item->count < 0 || item->count > limit || item->first < -limit || item->first > limit ||
        item->step < -limit || item->step > limit)
        return dt_check_fail(check, "SCHD", index, "%lld + %lld of a register, modulo %lld",
                             (long long)item->first, (long long)item->step, (long long)item->count);
    if ((item->step != 0 && nest->unset >> item->body & 1) ||
        (item->plus != 0 && nest->unset >> item->plus & 1))
        return dt_check_fail(check, "SCHD", index, "register %u or %u has no value", item->body,
                             item->plus);
    Range from = nest->reg[item->body]; /* below 2^40: times 2^31 it stays within 128 bits */
    Range plus = item->plus ? nest->reg[item->plus] : (Range){0, 0};
    DtWide x = (DtWide)item->step * from.lo + item->first,
           y = (DtWide)item->step * from.hi + item->first;
    Wide sum = {(x < y ? x : y) + plus.lo, (x < y ? y : x) + plus.hi};
    if (sum.lo < -((DtWide)limit << 9) || sum.hi > (DtWide)limit << 9)
        return dt_check_fail(check, "SCHD", index, "register %u leaves its range", item->reg);
    bool wraps = item->count != 0 && (sum.lo < 0 || sum.hi >= item->count);
    nest->reg[item->reg] =
        wraps ? (Range){0, item->count - 1} : (Range){(int64_t)sum.lo, (int64_t)sum.hi};
    nest->unset &= ~(1u << item->reg);
    return true;
}

static bool check_item(Check *check, uint32_t index, Nest *nest, Stage *stage);

static bool call_entry(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest,
                       Stage *stage)
{
    const DtPlan *plan = check->plan;
    if (nest->called || item->body >= nest->entry ||
        !dt_plan_on_stage(plan->entries[item->body].stage, stage->number))
        return dt_check_fail(check, "SCHD", index, "cannot call entry %u from entry %u", item->body,
                             nest->entry);
    const DtPlanEntry *entry = &plan->entries[item->body];
    Nest inner = *nest;
    inner.called = true;
    inner.end = entry->first + entry->count;
    for (uint32_t i = entry->first; i < inner.end; i++) {
        if (!check_item(check, i, &inner, stage))
            return false;
        if (inner.n_open < nest->n_open)
            return dt_check_fail(check, "SCHD", i, "ends no loop");
    }
    nest->total = inner.total;
    return inner.n_open == nest->n_open ||
           dt_check_fail(check, "SCHD", index, "a loop of the called entry does not end");
}

static bool check_item(Check *check, uint32_t index, Nest *nest, Stage *stage)
{
    const DtPlanSchedule *item = &check->plan->schedule[index];
    if (item->plus != 0 && item->kind != DT_SCHED_SET)
        return dt_check_fail(check, "SCHD", index, "only SET adds a register");
    if (++stage->items > DT_CHECK_MAX_ITEMS)
        return dt_check_fail(check, "SCHD", index, "the schedules have more than %d items",
                             DT_CHECK_MAX_ITEMS);
    if (item->kind == DT_SCHED_LOOP) {
        if (item->body != 0)
            return dt_check_fail(check, "SCHD", index, "a loop names a body");
        return open_loop(check, index, item, nest);
    }
    if (item->kind == DT_SCHED_SET)
        return set_register(check, index, item, nest);
    if (item->first != 0 || item->step != 0 || item->count != 0 ||
        (item->reg != 0 && item->kind != DT_SCHED_END))
        return dt_check_fail(check, "SCHD", index, "only loops count");
    if (item->kind == DT_SCHED_END)
        return end_loop(check, index, item, nest);
    if (item->kind == DT_SCHED_CALL)
        return call_entry(check, index, item, nest, stage);
    if (item->body >= check->plan->n_bodies)
        return dt_check_fail(check, "SCHD", index, "body %u of %u", item->body,
                             check->plan->n_bodies);
    nest->total += nest->runs[nest->n_open];
    if (nest->total > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d bodies", DT_CHECK_MAX_RUNS);
    widen(stage, item->body, nest);
    return true;
}

static bool check_entry_records(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_check_range(check, "ENTR", e, "schedule", entry->first, entry->count,
                            plan->n_schedule) ||
            !dt_check_stage(check, "ENTR", e, entry->stage))
            return false;
        for (uint32_t o = 0; o < e; o++) {
            const DtPlanEntry *other = &plan->entries[o];
            if ((other->stage < 0 || dt_plan_on_stage(entry->stage, (uint32_t)other->stage)) &&
                strcmp(dt_plan_str(plan, other->name), dt_plan_str(plan, entry->name)) == 0)
                return dt_check_fail(check, "ENTR", e, "an entry occurs twice");
        }
    }
    return true;
}

static bool walk_entries(Check *check, Stage *stage)
{
    const DtPlan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_plan_on_stage(entry->stage, stage->number))
            continue;
        Nest nest = {.entry = e, .end = entry->first + entry->count, .runs = {1}};
        for (uint32_t i = 0; i < entry->count; i++)
            if (!check_item(check, entry->first + i, &nest, stage))
                return false;
        if (nest.n_open != 0)
            return dt_check_fail(check, "ENTR", e, "a loop does not end within the entry");
    }
    return true;
}

/* ---- arguments ---- */

/* Extends sum by all of coef x [lo, hi]. */
static void add_term(Wide *sum, int64_t coef, int64_t lo, int64_t hi)
{
    DtWide x = (DtWide)coef * lo, y = (DtWide)coef * hi;
    sum->lo += x < y ? x : y;
    sum->hi += x < y ? y : x;
}

/* An instruction being checked. */
typedef struct Inst {
    Check *check;
    const DtPlanInst *inst;
    uint32_t index, stage;
    const Hull *hull;
} Inst;

/* Least and largest coordinate of the stage's ranks on a mesh axis. */
static Range coordinates(const Inst *at, uint32_t axis)
{
    const DtPlan *plan = at->check->plan;
    if (plan->meta->pipeline == axis + 1)
        return (Range){at->stage, at->stage};
    return (Range){0, (int64_t)plan->mesh[axis].size - 1};
}

static bool arg_range(const Inst *at, uint32_t index, Wide *ret_range)
{
    Check *check = at->check;
    const DtPlan *plan = check->plan;
    const DtPlanArg *arg = &plan->args[index];
    Wide range = {arg->base, arg->base};
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++) {
        if (arg->reg[r] != 0 && at->hull->unset >> r & 1)
            return dt_check_fail(check, "ARGS", index, "register %d has no value", r);
        add_term(&range, arg->reg[r], at->hull->reg[r].lo, at->hull->reg[r].hi);
    }
    for (int c = 0; c < DT_PLAN_COORDS; c++) {
        if (arg->coord[c] == 0)
            continue;
        if (arg->coord_axis[c] >= plan->n_mesh)
            return dt_check_fail(check, "ARGS", index, "mesh axis %u of %u", arg->coord_axis[c],
                                 plan->n_mesh);
        Range coord = coordinates(at, arg->coord_axis[c]);
        add_term(&range, arg->coord[c], coord.lo, coord.hi);
    }
    if (range.lo < INT64_MIN / 2 || range.hi > INT64_MAX / 2)
        return dt_check_fail(check, "ARGS", index, "its value may leave 63 bits");
    *ret_range = range;
    return true;
}

/* Every partial sum of an address fits 63 bits when its terms do; they do if the whole range does
 * and no term alone leaves it, which the runtime relies on when it adds in 64 bits. */
static bool terms_fit(const Inst *at, uint32_t index)
{
    const DtPlanArg *arg = &at->check->plan->args[index];
    const int64_t most = INT64_MAX / 16;
    bool fits = arg->base <= most && arg->base >= -most;
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++) {
        Wide term = {0, 0};
        add_term(&term, arg->reg[r], at->hull->reg[r].lo, at->hull->reg[r].hi);
        fits = fits && term.lo >= -most && term.hi <= most;
    }
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0) {
            Wide term = {0, 0};
            Range coord = coordinates(at, arg->coord_axis[c]);
            add_term(&term, arg->coord[c], coord.lo, coord.hi);
            fits = fits && term.lo >= -most && term.hi <= most;
        }
    return fits || dt_check_fail(at->check, "ARGS", index, "a term of its value is out of range");
}

/* Argument i is an address range of at least need bytes inside its arena for all registers; unit:
 * the alignment that the instruction needs; written: whether it writes; shared: whether peers read
 * it. */
static bool check_address(const Inst *at, uint32_t i, DtWide need, int64_t unit, bool written,
                          bool shared)
{
    const DtPlan *plan = at->check->plan;
    uint32_t index = at->inst->first_arg + i;
    const DtPlanArg *arg = &plan->args[index];
    Wide range;
    if (arg->kind != DT_ARG_ADDRESS)
        return dt_check_fail(at->check, "INST", at->index, "argument %u is no address", i);
    if (arg->arena >= plan->n_arenas)
        return dt_check_fail(at->check, "ARGS", index, "arena %u of %u", arg->arena,
                             plan->n_arenas);
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
        aligned = aligned && arg->reg[r] % unit == 0;
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        aligned = aligned && arg->coord[c] % unit == 0;
    return aligned ||
           dt_check_fail(at->check, "ARGS", index, "is not aligned to %lld bytes", (long long)unit);
}

static bool check_integer(const Inst *at, uint32_t i, Wide *ret_range)
{
    uint32_t index = at->inst->first_arg + i;
    const DtPlanArg *arg = &at->check->plan->args[index];
    if (arg->kind == DT_ARG_ADDRESS)
        return dt_check_fail(at->check, "INST", at->index, "argument %u is no integer", i);
    if (arg->written != 0 || arg->bytes != 0 || arg->arena != 0)
        return dt_check_fail(at->check, "ARGS", index, "an integer has no arena");
    if (arg->kind == DT_ARG_STEP) {
        *ret_range = (Wide){0, INT64_MAX / 2};
        return true;
    }
    return arg_range(at, index, ret_range) && terms_fit(at, index);
}

/* ---- one function per kind of instruction ---- */

static bool wants(const Inst *at, uint32_t n_args, uint32_t ref, uint32_t n_ref)
{
    if (at->inst->n_args != n_args)
        return dt_check_fail(at->check, "INST", at->index, "%u arguments instead of %u",
                             at->inst->n_args, n_args);
    if (ref >= n_ref)
        return dt_check_fail(at->check, "INST", at->index, "refers to record %u of %u", ref, n_ref);
    return true;
}

static bool check_kernel(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    Wide range;
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
    return true;
}

/* Bytes from the first to the last element of a strided operand. */
static DtWide span_bytes(const DtPlanGemm *gemm, int64_t rows, int64_t row, int64_t columns,
                         int64_t column, const int64_t *batch, uint32_t dtype)
{
    DtWide last = (DtWide)(rows - 1) * row + (DtWide)(columns - 1) * column;
    for (uint32_t b = 0; b < gemm->n_batch; b++)
        last += (DtWide)(gemm->batch[b] - 1) * batch[b];
    return last > DT_CHECK_MAX_BYTES ? -1 : (last + 1) * dt_kinds_size(dtype);
}

static bool check_gemm(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    if (!wants(at, 3, at->inst->ref, plan->n_gemms))
        return false;
    const DtPlanGemm *gemm = &plan->gemms[at->inst->ref];
    DtWide a =
        span_bytes(gemm, gemm->m, gemm->a_row, gemm->k, gemm->a_col, gemm->a_batch, gemm->dtype_a);
    DtWide b =
        span_bytes(gemm, gemm->k, gemm->b_row, gemm->n, gemm->b_col, gemm->b_batch, gemm->dtype_b);
    DtWide c =
        span_bytes(gemm, gemm->m, gemm->c_row, gemm->n, gemm->c_col, gemm->c_batch, gemm->dtype_c);
    return check_address(at, 0, a, dt_kinds_size(gemm->dtype_a), false, false) &&
           check_address(at, 1, b, dt_kinds_size(gemm->dtype_b), false, false) &&
           check_address(at, 2, c, dt_kinds_size(gemm->dtype_c), true, false);
}

static bool check_copy(const Inst *at)
{
    bool copy = at->inst->kind == DT_INST_COPY;
    return wants(at, copy ? 2 : 1, at->inst->ref, 1) &&
           check_address(at, 0, at->inst->count, 1, true, false) &&
           (!copy || check_address(at, 1, at->inst->count, 1, false, false));
}

static bool check_read(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    if (at->inst->ref >= plan->n_readers)
        return dt_check_fail(at->check, "INST", at->index, "reader %u of %u", at->inst->ref,
                             plan->n_readers);
    const DtPlanReader *reader = &plan->readers[at->inst->ref];
    Wide first, rows;
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

/* A message of at most a slot of a channel that begins (SEND) or ends (RECV) at this stage. */
static bool check_message(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    bool sends = inst->kind == DT_INST_SEND;
    Wide tag;
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

/* Bytes from a buffer's start to the end of the last block in it. */
static DtWide blocks_reach(const DtPlan *plan, const DtPlanBlocks *blocks, const int64_t *strides,
                           const int64_t *coords, int64_t unit)
{
    DtWide last = 0;
    for (uint32_t d = 0; d < blocks->n_dims; d++)
        last += (DtWide)(blocks->extent[d] - 1) * strides[d];
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (coords[c])
            last += (DtWide)coords[c] * (plan->mesh[blocks->coord_axis[c]].size - 1);
    return last > DT_CHECK_MAX_BYTES ? -1 : (last + 1) * unit;
}

/* Gathers, scatters and all-to-alls: what the blocks need of the two buffers. */
static bool check_exchange(const Inst *at)
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
        for (uint32_t d = 0; d < blocks->n_dims && elements <= DT_CHECK_MAX_BYTES; d++)
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

/* Collectives: arguments are written or read in multiples of count elements. */
static bool check_collective(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    if (inst->ref >= plan->n_groups)
        return dt_check_fail(at->check, "INST", at->index, "group %u of %u", inst->ref,
                             plan->n_groups);
    uint64_t stages = plan->groups[inst->ref].stages;
    if (stages != 0 && !(stages >> at->stage & 1)) /* then there are at most 64 */
        return dt_check_fail(at->check, "INST", at->index, "stage %u is not in group %u", at->stage,
                             inst->ref);
    if (inst->count < 0 || inst->count > DT_CHECK_MAX_BYTES)
        return dt_check_fail(at->check, "INST", at->index, "%lld elements", (long long)inst->count);
    int64_t unit = dt_kinds_size(inst->dtype);
    DtWide part = (DtWide)inst->count * unit;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE:
        return wants(at, inst->n_args == 2 ? 2 : 1, 0, 1) &&
               check_address(at, 0, part, unit, true, true) &&
               (inst->n_args == 1 || check_address(at, 1, part, unit, false, true));
    case DT_INST_BROADCAST:
        return wants(at, 1, 0, 1) && check_address(at, 0, part, unit, true, true);
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

static bool check_inst(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    if (!dt_check_range(at->check, "INST", at->index, "arguments", inst->first_arg, inst->n_args,
                        plan->n_args))
        return false;
    if (inst->span != 0 && inst->span >= plan->n_spans)
        return dt_check_fail(at->check, "INST", at->index, "span %u of %u", inst->span,
                             plan->n_spans);
    if (inst->seconds < 0)
        return dt_check_fail(at->check, "INST", at->index, "takes negative time");
    if (inst->blocks > 0 && inst->kind != DT_INST_ALL_GATHER &&
        inst->kind != DT_INST_REDUCE_SCATTER && inst->kind != DT_INST_ALL_TO_ALL)
        return dt_check_fail(at->check, "INST", at->index, "only exchanges have blocks");
    switch (inst->kind) {
    case DT_INST_KERNEL: return check_kernel(at);
    case DT_INST_GEMM: return check_gemm(at);
    case DT_INST_COPY:
    case DT_INST_ZERO: return check_copy(at);
    case DT_INST_READ: return check_read(at);
    case DT_INST_SEND:
    case DT_INST_RECV: return check_message(at);
    default: return check_collective(at);
    }
}

static bool check_body(Check *check, uint32_t b, uint32_t stage, const Hull *hull)
{
    const DtPlan *plan = check->plan;
    const DtPlanBody *body = &plan->bodies[b];
    for (uint32_t i = 0; i < body->n_insts; i++) {
        uint32_t index = body->first_inst + i;
        if (!check_inst(&(Inst){check, &plan->insts[index], index, stage, hull}))
            return false;
    }
    return true;
}

/* All bodies that a stage runs; ret_ran[b] becomes true for them. */
static bool check_stage(Check *check, Stage *stage, bool *ret_ran)
{
    if (!walk_entries(check, stage))
        return false;
    for (uint32_t i = 0; i < stage->n; i++)
        if (!check_body(check, stage->list[i], stage->number, &stage->hulls[stage->list[i]]))
            return false;
    for (uint32_t i = 0; i < stage->n; i++) {
        stage->hulls[stage->list[i]] = (Hull){.runs = false};
        ret_ran[stage->list[i]] = true;
    }
    stage->n = 0;
    return true;
}

static bool check_all(Check *check, Stage *stage, bool *ran)
{
    const DtPlan *plan = check->plan;
    const Hull still = {.runs = true};
    for (uint32_t b = 0; b < plan->n_bodies; b++)
        if (!dt_check_range(check, "BODY", b, "instructions", plan->bodies[b].first_inst,
                            plan->bodies[b].n_insts, plan->n_insts))
            return false;
    if (!check_entry_records(check))
        return false;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++) {
        stage->number = s;
        if (!check_stage(check, stage, ran))
            return false;
    }
    /* What nobody runs is still looked at by reports. */
    for (uint32_t b = 0; b < plan->n_bodies; b++)
        if (!ran[b] && !check_body(check, b, 0, &still))
            return false;
    return true;
}

bool dt_check_run(Check *check)
{
    const DtPlan *plan = check->plan;
    size_t n = (size_t)plan->n_bodies + 1;
    Stage stage = {.hulls = calloc(n, sizeof(Hull)), .list = calloc(n, sizeof(uint32_t))};
    bool *ran = calloc(n, sizeof *ran);
    bool good = stage.hulls != NULL && stage.list != NULL && ran != NULL
                    ? check_all(check, &stage, ran)
                    : dt_check_fail(check, "BODY", plan->n_bodies, "no memory left for checking");
    free(stage.hulls);
    free(stage.list);
    free(ran);
    return good;
}
