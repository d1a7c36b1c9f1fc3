/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/position.h"

#include "plan/kinds.h"

#include <string.h>

/* A mark has three parts: the number of the instruction + 1 (0: none); the number of instructions
 * for which the mark stands, as a power of two; and a counter, so that two marks of the same
 * instruction differ. */
enum { INST_BITS = 24, EVERY_BITS = 4, GRAPH_EVERY_LOG = 5, MOST_LOG = 6 };
static const uint64_t APART_NS = 100000;

void dt_position_open(DtRank *rank)
{
    if (rank->device_ops->mark && !rank->options->sync &&
        rank->plan->n_insts < (1u << INST_BITS) - 1)
        rank->position = DT_NEW(rank->memory, DtPosition);
}

static void put(DtRank *rank, uint32_t inst, uint32_t every_log)
{
    DtPosition *marks = rank->position;
    const uint32_t count = marks->count++ << (INST_BITS + EVERY_BITS);
    rank->device_ops->mark(rank->device, DT_MARK_INST, count | every_log << INST_BITS | (inst + 1));
    marks->since = 0;
}

/* Adapts the number of instructions for which a mark stands, by the time from one run of the entry
 * to the next, which contains everything that the device did. */
static void adapt(DtPosition *marks, uint64_t now_ns)
{
    const uint64_t each = marks->n_insts ? (now_ns - marks->began_ns) / marks->n_insts : APART_NS;
    marks->every_log = 0;
    while (marks->every_log < MOST_LOG && each << marks->every_log < APART_NS)
        marks->every_log++;
}

void dt_position_entry(DtRank *rank, const char *entry)
{
    DtPosition *marks = rank->position;
    if (!marks)
        return;
    if (!marks->entry || strcmp(marks->entry, entry) == 0) {
        const uint64_t now = dt_now_ns();
        if (marks->entry)
            adapt(marks, now);
        marks->entry = entry;
        marks->began_ns = now;
        marks->n_insts = 0;
    }
    marks->since = 0;
    rank->device_ops->mark(rank->device, DT_MARK_STEP, (uint32_t)rank->step);
}

/* Whether the instruction runs on the stream of instructions, so that nothing else tells how far it
 * is. */
static bool is_work(const DtPlanInst *inst)
{
    return inst->kind == DT_INST_KERNEL || inst->kind == DT_INST_GEMM ||
           inst->kind == DT_INST_COPY || inst->kind == DT_INST_ZERO;
}

void dt_position_inst(DtRank *rank, uint32_t inst, bool is_captured)
{
    DtPosition *marks = rank->position;
    if (!marks)
        return;
    const bool is_alone = !is_work(&rank->plan->insts[inst]);
    const uint32_t every_log = is_alone ? 0 : is_captured ? GRAPH_EVERY_LOG : marks->every_log;
    marks->n_insts++;
    if (is_alone || marks->since == 0 || marks->since >= 1u << every_log)
        put(rank, inst, every_log);
    marks->since = is_alone ? 0 : marks->since + 1;
}

void dt_position_break(DtRank *rank)
{
    if (rank->position)
        rank->position->since = 0;
}

void dt_position_end(DtRank *rank)
{
    if (rank->position)
        put(rank, UINT32_MAX, 0);
}

bool dt_position_read(const DtPlan *plan, const DtSlot *slot, DtPositionAt *ret_marked)
{
    const uint32_t mark = atomic_load(&slot->marks[DT_MARK_INST]),
                   inst = mark & ((1u << INST_BITS) - 1);
    if (inst == 0 || inst > plan->n_insts)
        return false;
    *ret_marked = (DtPositionAt){.inst = inst - 1,
                             .n_insts = 1u << (mark >> INST_BITS & ((1u << EVERY_BITS) - 1)),
                             .step = atomic_load(&slot->marks[DT_MARK_STEP])};
    return true;
}

const char *dt_position_blame(DtRank *rank)
{
    DtPositionAt marked;
    const bool goes_beside =
        rank->comm_ops && rank->comm_ops->enter && rank->plan->meta->events > 0;
    if (rank->options->sync)
        return "";
    if (!rank->position || !dt_position_read(rank->plan, rank->slot, &marked))
        return rank->slot->marks[DT_MARK_INST] /* all instructions are done */
                   ? ""
                   : ". It may be an instruction before this one; --sync names the one that it is";
    atomic_store(&rank->slot->inst, marked.inst);
    atomic_store(&rank->slot->step, marked.step);
    if (marked.n_insts > 1)
        return dt_arena_printf(
            rank->memory,
            ". It is one of %u instructions from this one on%s; --sync names the one that it is",
            marked.n_insts, goes_beside ? ", or an exchange that goes on beside them" : "");
    return goes_beside ? ". It may be an exchange that goes on beside this instruction; --sync "
                         "names the one that it is"
                       : "";
}
