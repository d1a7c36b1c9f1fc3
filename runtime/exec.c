/* SPDX-License-Identifier: Apache-2.0 */
/* Runs an entry of the plan: walks its schedule, sets registers, runs bodies instruction by
 * instruction. Before each instruction the rank's slot says which one it is and how long it usually
 * takes, so that the supervisor can name it; after it, its duration goes into a running mean and
 * the trace. A device that runs instructions later writes its own progress there (position.h).
 * Nothing is allocated here. Nothing is checked here either: the reader of plans has checked
 * everything for all values of the registers. */
#include "plan/kinds.h"
#include "plan/name.h"
#include "runtime/compare.h"
#include "runtime/device.h"
#include "runtime/examine.h"
#include "runtime/readback.h"
#include "runtime/forms.h"
#include "runtime/graphs.h"
#include "runtime/position.h"
#include "runtime/profile.h"
#include "runtime/reading.h"
#include "runtime/shift.h"
#include "runtime/straggler.h"
#include "runtime/traffic.h"

#include <string.h>

typedef struct Exec {
    DtRank *rank;
    DtGraphs *captured; /* instructions are recorded in these graphs; NULL: they run at once */
    int64_t reg[DT_PLAN_REGS];
} Exec;

/* A RECV that was started, but that the communicator cannot begin by itself: the message is
 * received when an instruction waits for it. */
struct DtPending {
    bool is_there;
    uint32_t inst;
    int64_t reg[DT_PLAN_REGS]; /* the registers at that time */
};

/* Returns the number of the step from which random numbers are drawn; evaluations have numbers of
 * their own. */
static int64_t draws_of(const DtRank *rank)
{
    return rank->evaluates ? DT_EVAL_DRAWS + rank->eval_batch : rank->step;
}

static int64_t value_of(const Exec *exec, uint32_t index)
{
    const DtPlanArg *arg = &exec->rank->plan->args[index];
    if (arg->kind == DT_ARG_STEP)
        return exec->rank->step_at.at ? (int64_t)exec->rank->step_at.at : draws_of(exec->rank);
    int64_t value = exec->rank->arg_base[index];
    for (int r = 0; r < DT_PLAN_ARG_REGS; r++)
        value += arg->reg[r] * exec->reg[r];
    return value;
}

static DtPlaceAt place_of(const Exec *exec, uint32_t index)
{
    const DtPlanArg *arg = &exec->rank->plan->args[index];
    return dt_device_place(exec->rank, arg->arena, value_of(exec, index), arg->bytes);
}

static DtDeviceAt address_of(const Exec *exec, uint32_t index) { return place_of(exec, index).at; }

static void run_kernel(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    const DtPlanKernel *kernel = &rank->plan->kernels[inst->ref];
    DtDeviceAt pointers[256];
    int64_t integers[256];
    for (uint32_t i = 0; i < kernel->n_pointers; i++)
        pointers[i] = address_of(exec, inst->first_arg + i);
    for (uint32_t i = 0; i < kernel->n_integers; i++)
        integers[i] = value_of(exec, inst->first_arg + kernel->n_pointers + i);
    rank->device_ops->kernel(rank->device, inst, kernel->n_pointers, pointers, integers);
}

static bool run_read(Exec *exec, const DtPlanInst *inst)
{
    const uint32_t n = exec->rank->plan->readers[inst->ref].n_inputs;
    DtPlaceAt places[256];
    for (uint32_t i = 0; i < n; i++)
        places[i] = place_of(exec, inst->first_arg + i);
    return dt_reading_run(exec->rank, inst->ref, value_of(exec, inst->first_arg + n),
                          value_of(exec, inst->first_arg + n + 1), places);
}

static bool run_message(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    int64_t bytes = inst->count * dt_kinds_size(inst->dtype);
    int64_t tag = value_of(exec, inst->first_arg + 1);
    return (inst->kind == DT_INST_SEND ? rank->comm_ops->send : rank->comm_ops->recv)(
        rank->comm, inst->ref, place_of(exec, inst->first_arg), bytes, tag);
}

static bool run_collective(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    const DtCommOps *ops = rank->comm_ops;
    const DtRankGroup *group = &rank->groups[inst->ref];
    DtPlanDtype dtype = inst->dtype;
    DtPlaceAt first = inst->n_args > 0 ? place_of(exec, inst->first_arg) : (DtPlaceAt){0};
    DtPlaceAt from = inst->n_args > 1 ? place_of(exec, inst->first_arg + 1) : first;
    const DtRankBlocks *blocks = inst->blocks > 0 ? &rank->blocks[inst->blocks - 1] : NULL;
    switch (inst->kind) {
    case DT_INST_ALL_REDUCE:
        return ops->all_reduce(rank->comm, group, first, from, inst->count, dtype, inst->reduce);
    case DT_INST_ALL_GATHER:
        return ops->all_gather(rank->comm, group, first, from, blocks, inst->count, dtype);
    case DT_INST_REDUCE_SCATTER:
        return ops->reduce_scatter(rank->comm, group, first, from, blocks, inst->count, dtype,
                                   inst->reduce);
    case DT_INST_SHIFT:
    case DT_INST_SHIFT_BACK:
        return ops->shift(rank->comm, group, first, from, inst->count, dtype,
                          inst->round                        ? DT_SHIFT_PAIRS + inst->round - 1
                          : inst->kind == DT_INST_SHIFT_BACK ? DT_SHIFT_AFTER
                                                             : DT_SHIFT_BEFORE);
    default: return ops->all_to_all(rank->comm, group, first, from, blocks, inst->count, dtype);
    }
}

static bool run_gemm(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    const DtEpilogueInfo *epilogue = &dt_kinds_epilogues[rank->plan->gemms[inst->ref].epilogue];
    DtDeviceAt at[DT_GEMM_OPERANDS] = {{0}};
    uint32_t arg = inst->first_arg;
    for (uint32_t k = 0; k < DT_GEMM_OPERANDS; k++)
        if (k <= DT_GEMM_C || (k == DT_GEMM_VECTOR ? epilogue->vector : epilogue->matrix))
            at[k] = address_of(exec, arg++);
    return rank->device_ops->gemm(rank->device, inst->ref, at) ||
           dt_rank_fail(rank, DT_EXIT_FAILED, "the library for matrix products failed");
}

/* Returns the number of the event that the instruction names; -1: it names none. */
static int64_t event_of(const Exec *exec, const DtPlanInst *inst)
{
    return inst->event
               ? inst->event - 1 + (int64_t)inst->event_step * exec->reg[DT_PLAN_REG_RINGBUF]
               : -1;
}

/* The number of the argument that is the address of what this rank gives to others. */
static uint32_t given_of(const DtPlanInst *inst)
{
    return inst->first_arg + (inst->kind != DT_INST_SEND && inst->n_args > 1 ? 1 : 0);
}

/* Runs a collective or message, in its queue if the communicator has queues. */
static bool run_exchange(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    const DtCommOps *ops = rank->comm_ops;
    const bool is_message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
    if (inst->kind != DT_INST_RECV && inst->n_args - inst->guards > 0)
        dt_examine_given(rank, inst, place_of(exec, given_of(inst)));
    return (!ops->enter || ops->enter(rank->comm, inst)) &&
           (is_message ? run_message(exec, inst) : run_collective(exec, inst)) &&
           (!ops->leave || ops->leave(rank->comm, inst, event_of(exec, inst)));
}

/* Waits until a started operation has ended, or lets the device wait for it. */
static bool run_wait(Exec *exec, const DtPlanInst *inst)
{
    const DtCommOps *ops = exec->rank->comm_ops;
    return !ops->await || ops->await(exec->rank->comm, event_of(exec, inst));
}

static bool run_inst(Exec *exec, const DtPlanInst *inst)
{
    DtRank *rank = exec->rank;
    uint32_t at = inst->first_arg;
    switch (inst->kind) {
    case DT_INST_KERNEL: run_kernel(exec, inst); return true;
    case DT_INST_GEMM: return run_gemm(exec, inst);
    case DT_INST_COPY:
        rank->device_ops->copy(rank->device, address_of(exec, at), address_of(exec, at + 1),
                               inst->count);
        return true;
    case DT_INST_ZERO:
        rank->device_ops->zero(rank->device, address_of(exec, at), inst->count);
        return true;
    case DT_INST_READ: return run_read(exec, inst);
    case DT_INST_WAIT: return run_wait(exec, inst);
    default: return run_exchange(exec, inst);
    }
}

/* Runs the instruction, and compares its results with those of other computations (compare.c) or
 * looks for values that are not finite (examine.c). */
static bool run_compared(Exec *exec, uint32_t index)
{
    DtRank *rank = exec->rank;
    const DtPlanInst *inst = &rank->plan->insts[index];
    DtPlaceAt places[256];
    uint32_t n = 0;
    while (n < inst->n_args && n < 256 &&
           rank->plan->args[inst->first_arg + n].kind == DT_ARG_ADDRESS) {
        places[n] = place_of(exec, inst->first_arg + n);
        n++;
    }
    if (rank->examine)
        dt_examine_before(rank, index, n, places);
    if (rank->compare && !dt_compare_before(rank->compare, index, n, places))
        return false;
    if (!run_inst(exec, inst))
        return false;
    if (rank->examine)
        dt_examine_after(rank, index, n, places);
    return !rank->compare || dt_compare_after(rank->compare, index, n, places);
}

/* Runs the instruction, and publishes its progress for other ranks, traces and profiles. */
static bool run_watched(Exec *exec, uint32_t index)
{
    DtRank *rank = exec->rank;
    uint64_t began = dt_now_ns();
    DtSlot *slot = rank->slot;
    atomic_store_explicit(&slot->usual_ns, rank->usual_ns[index], memory_order_relaxed);
    atomic_store_explicit(&slot->began_ns, began, memory_order_relaxed);
    atomic_store_explicit(&slot->inst, index, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->progress, 1, memory_order_release);
    const DtPlanInst *inst = &rank->plan->insts[index];
    dt_position_inst(rank, index, exec->captured && exec->captured->is_open);
    const uint64_t before = rank->trace || rank->profile ? dt_traffic_of(rank, inst) : 0;
    if (rank->profile)
        dt_profile_begin(rank->profile);
    const bool looks = rank->compare || rank->examine, computes = inst->kind < DT_INST_READ;
    if (!computes)
        dt_straggler_end(rank);
    if (looks ? !run_compared(exec, index) : !run_inst(exec, inst))
        return false;
    if (!exec->captured || !exec->captured->is_open)
        dt_readback_note(rank, index);
    if (rank->options->sync && rank->device_ops->wait)
        rank->device_ops->wait(rank->device);
    if (dt_rank_has_failed(rank)) /* this must happen before the slot shows another
                                        * instruction */
        return false;
    if (rank->profile)
        dt_profile_end(rank->profile, index, dt_traffic_of(rank, inst) - before);
    uint64_t ended = dt_now_ns(), took = ended - began, usual = rank->usual_ns[index];
    if (computes)
        rank->computed_ns += took;
    else
        dt_straggler_begin(rank);
    rank->usual_ns[index] = usual == 0 ? took + 1 : usual + took / 8 - usual / 8 + 1;
    if (rank->trace)
        dt_trace_inst(rank->trace, index, began, ended, dt_traffic_of(rank, inst) - before);
    return true;
}

/* Whether all guards of the instruction are at least 0. */
static bool is_due(const Exec *exec, const DtPlanInst *inst)
{
    for (uint32_t i = inst->n_args - inst->guards; i < inst->n_args; i++)
        if (value_of(exec, inst->first_arg + i) < 0)
            return false;
    return true;
}

static bool expect_message(Exec *exec, uint32_t index)
{
    struct DtPending *pending = &exec->rank->pending[exec->rank->plan->insts[index].event - 1];
    if (pending->is_there)
        return dt_rank_fail(exec->rank, DT_EXIT_FAILED,
                            "two messages are received under one event");
    *pending = (struct DtPending){.is_there = true, .inst = index};
    memcpy(pending->reg, exec->reg, sizeof pending->reg);
    return true;
}

/* Runs a WAIT. If the message was not received when it was started, since the communicator cannot,
 * it is received here, with the registers of that time. */
static bool await(Exec *exec, uint32_t index)
{
    struct DtPending *pending =
        &exec->rank->pending[event_of(exec, &exec->rank->plan->insts[index])];
    if (!pending->is_there)
        return run_watched(exec, index);
    Exec then = {.rank = exec->rank};
    memcpy(then.reg, pending->reg, sizeof then.reg);
    pending->is_there = false;
    return run_watched(&then, pending->inst);
}

/* Whether the communicator can begin to receive the message asynchronously. */
static bool starts(const DtRank *rank, const DtPlanInst *inst)
{
    return rank->comm_ops->starts && rank->comm_ops->starts(rank->comm, inst->ref);
}

static bool run_one(Exec *exec, uint32_t index)
{
    const DtPlanInst *inst = &exec->rank->plan->insts[index];
    if (inst->kind == DT_INST_RECV && inst->event && !starts(exec->rank, inst))
        return expect_message(exec, index);
    return inst->kind == DT_INST_WAIT ? await(exec, index) : run_watched(exec, index);
}

/* Runs an instruction, as a part of a graph or between two graphs. */
static bool capture_one(Exec *exec, uint32_t index)
{
    const bool due = is_due(exec, &exec->rank->plan->insts[index]),
               was_open = exec->captured->is_open;
    bool good;
    const bool inside = dt_graphs_takes(exec->rank, exec->captured, index, exec->reg, due, &good);
    if (!was_open || !inside)
        dt_position_break(exec->rank);
    if (!good || !due)
        return good;
    if (!inside)
        return run_one(exec, index);
    return run_watched(exec, index) && (!dt_readback_has(exec->rank, index) ||
                                        dt_graphs_note(exec->rank, exec->captured, index));
}

/* Runs an instruction. If it is a product that uses its second form in this run, runs the
 * instructions of that form instead, which have only one form each. */
static bool run_body(Exec *exec, const DtPlanBody *body) // NOLINT(misc-no-recursion)
{
    const DtPlan *plan = exec->rank->plan;
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const uint32_t index = body->first_inst + i;
        const DtPlanInst *inst = &plan->insts[index];
        if (dt_forms_is_second(exec->rank, inst)) {
            if (!run_body(exec, &plan->bodies[inst->instead - 1]))
                return false;
        } else if (exec->captured ? !capture_one(exec, index)
                                  : is_due(exec, inst) && !run_one(exec, index)) {
            return false;
        }
    }
    return !dt_rank_aborted(exec->rank);
}

/* Starts the graphs of an entry, and what runs between them, in order. Other ranks see the first
 * instruction of a graph while the graph runs. */
static bool replay(DtRank *rank, const DtGraphs *graphs)
{
    Exec exec = {.rank = rank};
    for (uint32_t i = 0; i < graphs->items.n && !dt_rank_aborted(rank); i++) {
        const DtGraphItem *item = &graphs->items.at[i];
        memcpy(exec.reg, item->reg, sizeof exec.reg);
        if (item->is_note) {
            dt_readback_note(rank, item->inst);
            continue;
        }
        if (!item->is_graph) {
            if (is_due(&exec, &rank->plan->insts[item->inst]) && !run_one(&exec, item->inst))
                return false;
            continue;
        }
        atomic_store_explicit(&rank->slot->usual_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&rank->slot->began_ns, dt_now_ns(), memory_order_relaxed);
        atomic_store_explicit(&rank->slot->inst, item->inst, memory_order_relaxed);
        atomic_fetch_add_explicit(&rank->slot->progress, 1, memory_order_release);
        if (!rank->device_ops->replay(rank->device, item->graph))
            return false;
        dt_position_break(rank);
    }
    return !dt_rank_aborted(rank);
}

static void set_register(Exec *exec, const DtPlanSchedule *item)
{
    int64_t value = item->step * exec->reg[item->body] + item->first;
    if (item->plus != 0)
        value += exec->reg[item->plus];
    if (item->count != 0) /* the remainder that is not negative */
        value = (value % item->count + item->count) % item->count;
    exec->reg[item->reg] = value;
}

/* Runs items of the schedule up to the END that closes this level. A step of a ramp runs the last
 * micro-batches only: the last one completes sums, and samples are those of the last rows.
 * *ret_after is the index of that item (or `end`). */
static bool run_items(Exec *exec, uint32_t at, uint32_t end, uint32_t *ret_after)
{
    const DtPlan *plan = exec->rank->plan;
    for (; at < end && plan->schedule[at].kind != DT_SCHED_END; at++) {
        const DtPlanSchedule *item = &plan->schedule[at];
        if (item->kind == DT_SCHED_RUN) {
            if (!run_body(exec, &plan->bodies[item->body]))
                return false;
            continue;
        }
        uint32_t after = at;
        if (item->kind == DT_SCHED_SET) {
            set_register(exec, item);
            continue;
        }
        if (item->kind == DT_SCHED_WHEN) {
            int64_t at_reg = exec->reg[item->reg] - item->first;
            at += at_reg >= 0 && at_reg < item->count ? 0 : item->body;
            continue;
        }
        if (item->kind == DT_SCHED_CALL) {
            const DtPlanEntry *entry = &plan->entries[item->body];
            if (!run_items(exec, entry->first, entry->first + entry->count, &after))
                return false;
            continue;
        }
        const bool is_micro = item->reg == 0 && item->count > 1;
        for (int64_t i = is_micro ? exec->rank->left_out : 0; i < item->count; i++) {
            exec->reg[item->reg] = item->first + i * item->step;
            if (!run_items(exec, at + 1, end, &after))
                return false;
        }
        exec->reg[item->reg] = 0;
        at = after;
    }
    *ret_after = at;
    return true;
}

static const DtPlanEntry *find_entry(const DtPlan *plan, uint32_t stage, const char *name)
{
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (dt_plan_on_stage(plan->entries[e].stage, stage) &&
            strcmp(dt_plan_str(plan, plan->entries[e].name), name) == 0)
            return &plan->entries[e];
    return NULL;
}

void dt_exec_open(DtRank *rank)
{
    rank->pending = DT_NEW_ARRAY(rank->memory, struct DtPending, rank->plan->meta->events + 1);
    if (rank->options->graph)
        rank->graphs = DT_NEW_ARRAY(rank->memory, DtGraphs, rank->plan->n_entries + 1);
}

bool dt_exec_has(const DtRank *rank, const char *entry)
{
    return find_entry(rank->plan, rank->stage, entry) != NULL;
}

static bool run_entry(DtRank *rank, const DtPlanEntry *entry)
{
    /* while a ramp lasts, steps have other micro-batches than those of a graph */
    const bool has_graphs = rank->graphs && !rank->examine && rank->left_out == 0;
    DtGraphs *graphs = has_graphs ? &rank->graphs[entry - rank->plan->entries] : NULL;
    const DtGraphsWay way = dt_graphs_way(graphs);
    if (way == DT_GRAPHS_REPLAY)
        return replay(rank, graphs);
    Exec exec = {.rank = rank, .captured = way == DT_GRAPHS_CAPTURE ? graphs : NULL};
    uint32_t after;
    return run_items(&exec, entry->first, entry->first + entry->count, &after) &&
           (!exec.captured || dt_graphs_close(rank, graphs));
}

bool dt_exec_entry(DtRank *rank, const char *name)
{
    const DtPlanEntry *entry = find_entry(rank->plan, rank->stage, name);
    if (entry == NULL)
        return dt_rank_fail(rank, DT_EXIT_FAILED, "the plan has no entry `%s`", name);
    if (dt_rank_has_failed(rank)) /* earlier asynchronous work has failed on the device */
        return false;
    uint64_t began = dt_now_ns();
    atomic_store(&rank->slot->step, rank->step);
    dt_position_entry(rank, name);
    dt_readback_begin(rank, name);
    dt_reading_begin(rank);
    if (rank->device_ops->step)
        rank->step_at = rank->device_ops->step(rank->device, draws_of(rank));
    dt_straggler_begin(rank);
    bool good = (!rank->compare || dt_compare_entry(rank->compare)) && run_entry(rank, entry);
    dt_straggler_end(rank);
    if (good)
        dt_position_end(rank);
    if (good) /* a failure after this belongs to no instruction */
        atomic_store_explicit(&rank->slot->inst, UINT32_MAX, memory_order_relaxed);
    if (good && rank->trace)
        dt_trace_step(rank->trace, name, rank->step, began, dt_now_ns());
    return good;
}

const DtPlanMetric *dt_exec_metric(const DtPlan *plan, const char *entry, const char *name)
{
    for (uint32_t m = 0; m < plan->n_metrics; m++)
        if (strcmp(dt_plan_str(plan, plan->metrics[m].entry), entry) == 0 &&
            (name == NULL || strcmp(dt_plan_str(plan, plan->metrics[m].name), name) == 0))
            return &plan->metrics[m];
    return NULL;
}

double dt_exec_scalar(const DtRank *rank, const DtPlanMetric *metric)
{
    union {
        float narrow;
        double wide;
        int32_t whole;
    } value = {0};
    const bool is_wide = metric->dtype == DT_PLAN_F64;
    const int64_t bytes = is_wide ? (int64_t)sizeof value.wide : (int64_t)sizeof value.narrow;
    if (!dt_readback_get(rank, metric, &value, bytes))
        dt_device_get(rank, &value, dt_device_place(rank, metric->arena, metric->offset, bytes),
                      bytes);
    return is_wide                        ? value.wide
           : metric->dtype == DT_PLAN_I32 ? (double)value.whole
                                          : (double)value.narrow;
}
