/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's second half: the program. Walks every entry's schedule (loops nest and end,
 * registers are set once per nest, the number of runs is bounded), collecting for each body the
 * range of every register over all places that run it; then evaluates each argument of each
 * instruction over those ranges and all mesh coordinates, in 128 bits, and compares with what the
 * instruction touches. */
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

/* Registers of a body over all its runs. */
typedef struct Hull {
    bool runs;
    Range reg[DT_PLAN_REGS];
} Hull;

static Hull *hulls_of(const DtPlan *plan)
{
    return calloc(plan->n_bodies ? plan->n_bodies : 1, sizeof(Hull));
}

static void widen(Hull *hull, const Range reg[DT_PLAN_REGS])
{
    for (int r = 0; r < DT_PLAN_REGS; r++) {
        if (!hull->runs || reg[r].lo < hull->reg[r].lo)
            hull->reg[r].lo = reg[r].lo;
        if (!hull->runs || reg[r].hi > hull->reg[r].hi)
            hull->reg[r].hi = reg[r].hi;
    }
    hull->runs = true;
}

/* ---- schedules ---- */

typedef struct Nest {
    uint32_t n_open, open[DT_PLAN_MAX_DEPTH]; /* registers of the loops around us */
    Range reg[DT_PLAN_REGS];
    int64_t runs[DT_PLAN_MAX_DEPTH + 1]; /* how often we come here, by depth */
    int64_t total;
} Nest;

static bool open_loop(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    if (item->reg >= DT_PLAN_REGS || nest->n_open == DT_PLAN_MAX_DEPTH)
        return dt_check_fail(check, "SCHD", index, "loop of register %u at depth %u", item->reg,
                             nest->n_open);
    for (uint32_t i = 0; i < nest->n_open; i++)
        if (nest->open[i] == item->reg)
            return dt_check_fail(check, "SCHD", index, "register %u counts two nested loops",
                                 item->reg);
    const int64_t limit = (int64_t)1 << 31;
    if (item->count < 1 || item->count > DT_CHECK_MAX_RUNS || item->first < -limit ||
        item->first > limit || item->step < -limit || item->step > limit)
        return dt_check_fail(check, "SCHD", index, "%lld times from %lld by %lld",
                             (long long)item->count, (long long)item->first, (long long)item->step);
    int64_t last = item->first + item->step * (item->count - 1); /* below 2^62 */
    if (last < -(limit << 9) || last > limit << 9)
        return dt_check_fail(check, "SCHD", index, "counts to %lld", (long long)last);
    nest->reg[item->reg] =
        (Range){item->first < last ? item->first : last, item->first < last ? last : item->first};
    nest->open[nest->n_open++] = item->reg;
    nest->runs[nest->n_open] = nest->runs[nest->n_open - 1] * item->count;
    if (nest->runs[nest->n_open] > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d times", DT_CHECK_MAX_RUNS);
    return true;
}

static bool check_item(Check *check, uint32_t index, Nest *nest, Hull *hulls)
{
    const DtPlanSchedule *item = &check->plan->schedule[index];
    if (item->kind == DT_SCHED_LOOP) {
        if (item->body != 0)
            return dt_check_fail(check, "SCHD", index, "a loop names a body");
        return open_loop(check, index, item, nest);
    }
    if (item->first != 0 || item->step != 0 || item->count != 0 ||
        (item->reg != 0 && item->kind != DT_SCHED_END))
        return dt_check_fail(check, "SCHD", index, "only loops count");
    if (item->kind == DT_SCHED_END) {
        /* An END may name the register of its loop, for readers. */
        if (nest->n_open == 0 || item->body != 0 ||
            (item->reg != 0 && item->reg != nest->open[nest->n_open - 1]))
            return dt_check_fail(check, "SCHD", index, "ends no loop");
        nest->reg[nest->open[--nest->n_open]] = (Range){0, 0};
        return true;
    }
    if (item->body >= check->plan->n_bodies)
        return dt_check_fail(check, "SCHD", index, "body %u of %u", item->body,
                             check->plan->n_bodies);
    nest->total += nest->runs[nest->n_open];
    if (nest->total > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d bodies", DT_CHECK_MAX_RUNS);
    widen(&hulls[item->body], nest->reg);
    return true;
}

static bool check_entries(Check *check, Hull *hulls)
{
    const DtPlan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_check_range(check, "ENTR", e, "schedule", entry->first, entry->count,
                            plan->n_schedule))
            return false;
        for (uint32_t other = 0; other < e; other++)
            if (strcmp(dt_plan_str(plan, plan->entries[other].name),
                       dt_plan_str(plan, entry->name)) == 0)
                return dt_check_fail(check, "ENTR", e, "an entry occurs twice");
        Nest nest = {.runs = {1}};
        for (uint32_t i = 0; i < entry->count; i++)
            if (!check_item(check, entry->first + i, &nest, hulls))
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

static bool arg_range(Check *check, uint32_t index, const Hull *hull, Wide *ret_range)
{
    const DtPlan *plan = check->plan;
    const DtPlanArg *arg = &plan->args[index];
    Wide range = {arg->base, arg->base};
    for (int r = 0; r < DT_PLAN_REGS; r++)
        add_term(&range, arg->reg[r], hull->reg[r].lo, hull->reg[r].hi);
    for (int c = 0; c < DT_PLAN_COORDS; c++) {
        if (arg->coord[c] == 0)
            continue;
        if (arg->coord_axis[c] >= plan->n_mesh)
            return dt_check_fail(check, "ARGS", index, "mesh axis %u of %u", arg->coord_axis[c],
                                 plan->n_mesh);
        add_term(&range, arg->coord[c], 0, (int64_t)plan->mesh[arg->coord_axis[c]].size - 1);
    }
    if (range.lo < INT64_MIN / 2 || range.hi > INT64_MAX / 2)
        return dt_check_fail(check, "ARGS", index, "its value may leave 63 bits");
    *ret_range = range;
    return true;
}

/* An instruction being checked. */
typedef struct Inst {
    Check *check;
    const DtPlanInst *inst;
    uint32_t index;
    const Hull *hull;
} Inst;

/* Every partial sum of an address fits 63 bits when its terms do; they do if the whole range does
 * and no term alone leaves it, which the runtime relies on when it adds in 64 bits. */
static bool terms_fit(Check *check, uint32_t index, const Hull *hull)
{
    const DtPlanArg *arg = &check->plan->args[index];
    const int64_t limit = INT64_MAX / 16;
    bool fits = arg->base <= limit && arg->base >= -limit;
    for (int r = 0; r < DT_PLAN_REGS; r++) {
        Wide term = {0, 0};
        add_term(&term, arg->reg[r], hull->reg[r].lo, hull->reg[r].hi);
        fits = fits && term.lo >= -limit && term.hi <= limit;
    }
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0) {
            Wide term = {0, 0};
            add_term(&term, arg->coord[c], 0,
                     (int64_t)check->plan->mesh[arg->coord_axis[c]].size - 1);
            fits = fits && term.lo >= -limit && term.hi <= limit;
        }
    return fits || dt_check_fail(check, "ARGS", index, "a term of its value is out of range");
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
    if (!arg_range(at->check, index, at->hull, &range) || !terms_fit(at->check, index, at->hull))
        return false;
    int64_t size = plan->arenas[arg->arena].bytes;
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
    for (int r = 0; r < DT_PLAN_REGS; r++)
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
    return arg_range(at->check, index, at->hull, ret_range) &&
           terms_fit(at->check, index, at->hull);
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

/* Collectives: arguments are written or read in multiples of count elements. */
static bool check_collective(const Inst *at)
{
    const DtPlan *plan = at->check->plan;
    const DtPlanInst *inst = at->inst;
    if (inst->ref >= plan->n_groups)
        return dt_check_fail(at->check, "INST", at->index, "group %u of %u", inst->ref,
                             plan->n_groups);
    if (inst->count < 0 || inst->count > DT_CHECK_MAX_BYTES)
        return dt_check_fail(at->check, "INST", at->index, "%lld elements", (long long)inst->count);
    int64_t unit = dt_kinds_size(inst->dtype), size = plan->groups[inst->ref].size;
    DtWide part = (DtWide)inst->count * unit, whole = part * size;
    Wide peer;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE:
    case DT_INST_BROADCAST:
        return wants(at, 1, 0, 1) && check_address(at, 0, part, unit, true, true);
    case DT_INST_ALL_GATHER:
        return wants(at, 2, 0, 1) && check_address(at, 0, whole, unit, true, false) &&
               check_address(at, 1, part, unit, false, true);
    case DT_INST_REDUCE_SCATTER:
        return wants(at, 2, 0, 1) && check_address(at, 0, part, unit, true, false) &&
               check_address(at, 1, whole, unit, false, true);
    case DT_INST_SEND:
    case DT_INST_RECV:
        if (!wants(at, 2, 0, 1) ||
            !check_address(at, 0, part, unit, inst->kind == DT_INST_RECV, false) ||
            !check_integer(at, 1, &peer))
            return false;
        return (peer.lo >= 0 && peer.hi < size) ||
               dt_check_fail(at->check, "INST", at->index, "peer %lld to %lld of %lld",
                             (long long)peer.lo, (long long)peer.hi, (long long)size);
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
    switch (inst->kind) {
    case DT_INST_KERNEL: return check_kernel(at);
    case DT_INST_GEMM: return check_gemm(at);
    case DT_INST_COPY:
    case DT_INST_ZERO: return check_copy(at);
    case DT_INST_READ: return check_read(at);
    case DT_INST_ATTEND_FWD:
    case DT_INST_ATTEND_BWD:
        return dt_check_fail(at->check, "INST", at->index,
                             "attention instructions are not part of version 1");
    default: return check_collective(at);
    }
}

bool dt_check_run(Check *check)
{
    const DtPlan *plan = check->plan;
    Hull *hulls = hulls_of(plan);
    if (hulls == NULL)
        return dt_check_fail(check, "BODY", plan->n_bodies, "no memory left for checking");
    bool good = check_entries(check, hulls);
    for (uint32_t b = 0; good && b < plan->n_bodies; b++) {
        const DtPlanBody *body = &plan->bodies[b];
        good = dt_check_range(check, "BODY", b, "instructions", body->first_inst, body->n_insts,
                              plan->n_insts);
        for (uint32_t i = 0; good && i < body->n_insts; i++) {
            uint32_t index = body->first_inst + i;
            good = check_inst(&(Inst){check, &plan->insts[index], index, &hulls[b]});
        }
    }
    free(hulls);
    return good;
}
