/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: derives group, count, dtype, reduction and exchanged blocks from the types and
 * places of operand and result, and compares them with the instruction. */
#include "verify/plan_internal.h"

#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

typedef struct Blocks {
    /* along each axis, the stride of a block in the memory that is read ([1]) and written ([2]) */
    PlanIndex at[CERT_RANK];
    uint32_t n;
    /* by mesh axis: by how much the coordinate moves the block there */
    int64_t to[CERT_MESH], from[CERT_MESH];
} Blocks;

static PlanIndex block(int64_t extent, int64_t to, int64_t from)
{
    return (PlanIndex){extent, {0, from, to}};
}

const char *dt_certplan_reduction(const DtPlanInst *inst)
{
    static const char *const reduces[] = {"sum", "max", "min"};
    return reduces[inst->reduce];
}

bool dt_certplan_group(PlanWalk *walk, const DtPlanInst *inst, uint32_t mask, const char *stages)
{
    const DtPlanGroup *group = &walk->plan->groups[inst->ref];
    const char *members = dt_plan_str(walk->plan, group->stages);
    if (dt_stages_count(stages) == dt_plan_stages(walk->plan))
        stages = NULL; /* all stages */
    return (group->mask == mask && dt_stages_same(members, stages)) ||
           dt_certplan_fail(walk, "group %u is of mesh axes %x, stages %.40s, not %x, %.40s",
                            inst->ref, group->mask, *members ? members : "all", mask,
                            stages ? stages : "all");
}

/* Adds to coords, for each mesh axis that splits `longer` and not the same axis on the other side
 * of the collective, by how many elements its coordinate shifts a rank's block. n_shorter: number
 * of splits on the other side; stride: of the axis in the other side's memory, in elements. */
static void add_moves(const PlanWalk *walk, const CertAxis *longer, uint32_t n_shorter,
                      int64_t stride, int64_t *coords)
{
    int64_t step = longer->extent;
    for (uint32_t s = 0; s < longer->n; s++) {
        step /= walk->program->size[longer->split[s]];
        if (s >= n_shorter && longer->split[s] >= walk->first_device)
            coords[longer->split[s] - walk->first_device] += step * stride;
    }
}

static bool wanted_blocks(PlanWalk *walk, const CertOp *op, const PlanPlace *to,
                          const PlanPlace *from, Blocks *ret_blocks)
{
    const CertType *x = dt_certplan_type(walk->frame, op->in[0]), *y = op->types[0];
    *ret_blocks = (Blocks){.n = 0};
    for (uint32_t i = 0; i < x->rank; i++) {
        const CertAxis *a = &x->axes[i], *b = dt_certtext_axis(y, a->name);
        bool zigzag = b && ((a->n && a->zigzag) || (b->n && b->zigzag));
        if (!b || x->rank != y->rank || (zigzag && a->n != b->n))
            return false;
        int64_t mine = dt_certplan_local(walk, x, i),
                theirs = dt_certplan_local(walk, y, (uint32_t)(b - y->axes));
        int64_t there = dt_certplan_stride(to, a->name), here = dt_certplan_stride(from, a->name);
        ret_blocks->at[ret_blocks->n++] = block(mine < theirs ? mine : theirs, there, here);
        add_moves(walk, a, b->n, there, ret_blocks->to);
        add_moves(walk, b, a->n, here, ret_blocks->from);
    }
    ret_blocks->n = dt_certplan_runs(ret_blocks->at, ret_blocks->n);
    return true;
}

static bool recorded_blocks(PlanWalk *walk, const DtPlanInst *inst, Blocks *ret_blocks)
{
    const DtPlan *plan = walk->plan;
    *ret_blocks = (Blocks){.n = inst->count > 1, .at = {block(inst->count, 1, 1)}};
    if (inst->blocks == 0) { /* blocks one after the other, in the order of members */
        int64_t *moves = inst->kind == DT_INST_ALL_GATHER ? ret_blocks->to : ret_blocks->from,
                step = inst->count;
        if (inst->kind == DT_INST_ALL_TO_ALL)
            return false;
        for (uint32_t m = plan->n_mesh; m-- > 0;)
            if (plan->groups[inst->ref].mask >> m & 1) {
                moves[m] = step;
                step *= plan->mesh[m].size;
            }
        return true;
    }
    const DtPlanBlocks *record = &plan->blocks[inst->blocks - 1];
    ret_blocks->n = record->n_dims;
    int64_t count = 1;
    for (uint32_t d = 0; d < record->n_dims; d++) {
        ret_blocks->at[d] = block(record->extent[d], record->to[d], record->from[d]);
        count *= record->extent[d];
    }
    for (uint32_t c = 0; c < DT_PLAN_COORDS; c++) {
        ret_blocks->to[record->coord_axis[c]] += record->to_coord[c];
        ret_blocks->from[record->coord_axis[c]] += record->from_coord[c];
    }
    ret_blocks->n = dt_certplan_runs(ret_blocks->at, ret_blocks->n);
    return record->group == inst->ref && count == inst->count;
}

static bool exchanges(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from)
{
    Blocks want, have;
    bool good = wanted_blocks(walk, op, to, from, &want) && recorded_blocks(walk, inst, &have);
    good = good && want.n == have.n && memcmp(want.at, have.at, want.n * sizeof want.at[0]) == 0;
    for (uint32_t m = 0; good && m < walk->plan->n_mesh;
         m++) /* along an axis of size 1 nothing moves */
        good = walk->plan->mesh[m].size == 1 ||
               (want.to[m] == have.to[m] && want.from[m] == have.from[m]);
    return good || dt_certplan_fail(walk, "`%s` exchanges other blocks", op->kind);
}

/* Checks that the instruction moves the whole tensor: both places have the same layout, without
 * gaps, and the instruction its number of elements and dtype. */
static bool moves_all(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from)
{
    int64_t elements = 1;
    bool good = to->rank == from->rank && to->dtype == from->dtype;
    for (uint32_t d = 0; good && d < to->rank; d++) {
        elements *= to->extent[d];
        good = to->axis[d] == from->axis[d] && to->extent[d] == from->extent[d] &&
               (to->extent[d] == 1 || to->stride[d] == from->stride[d]);
    }
    return (good && elements == inst->count && elements * to->size == to->bytes) ||
           dt_certplan_fail(walk, "`%s` of %lld elements is not of the whole value", op->kind,
                            (long long)inst->count);
}

bool dt_certplan_comm(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from)
{
    static const struct {
        const char *kind;
        DtPlanInstKind inst;
        bool blocks, reduces;
    } rows[] = {{"all_reduce", DT_INST_ALL_REDUCE, false, true},
                {"all_gather", DT_INST_ALL_GATHER, true, false},
                {"reduce_scatter", DT_INST_REDUCE_SCATTER, true, true},
                {"all_to_all", DT_INST_ALL_TO_ALL, true, false},
                {"shift", DT_INST_SHIFT, false, false},
                {"shift", DT_INST_SHIFT_BACK, false, false},
                {"partner", DT_INST_SHIFT, false, false},
                {"partner", DT_INST_SHIFT_BACK, false, false}};
    size_t row = 0;
    bool back = strstr(op->attributes, "reverse") != NULL;
    while (row < DT_COUNT(rows) &&
           (rows[row].inst != (DtPlanInstKind)inst->kind || strcmp(rows[row].kind, op->kind) != 0))
        row++;
    if (row == DT_COUNT(rows) || back != (inst->kind == DT_INST_SHIFT_BACK))
        return dt_certplan_fail(walk, "`%s` is not `%s`", dt_kinds_inst(inst->kind), op->kind);
    const bool is_partner = strcmp(op->kind, "partner") == 0;
    if (is_partner ? inst->round != op->number : inst->round != 0)
        return dt_certplan_fail(walk, "`%s` is of another round", op->kind);
    const CertType *x = dt_certplan_type(walk->frame, op->in[0]);
    const char *reduce = rows[row].reduces && x->partial && x->pending ? x->pending : "sum";
    if (strcmp(dt_kinds_name(inst->dtype), to->dtype) != 0 || to->dtype != from->dtype ||
        strcmp(dt_certplan_reduction(inst), reduce) != 0)
        return dt_certplan_fail(walk, "`%s` of %s by %s", op->kind, dt_kinds_name(inst->dtype),
                                dt_certplan_reduction(inst));
    if (!dt_certplan_group(walk, inst, (uint32_t)op->mesh >> walk->first_device, op->stages))
        return false;
    if (!dt_certplan_across(walk, op))
        return false;
    return rows[row].blocks ? exchanges(walk, op, inst, to, from)
                            : moves_all(walk, op, inst, to, from);
}

/* ---- collectives in flight ----
 * A started collective may run at any time up to the WAIT for its event. So until then no
 * instruction may write its operand or its result, or read its result. Then ranks compute the same
 * as in the order of instructions, however queues run. */

static uint64_t event_of(const PlanWalk *walk, const DtPlanInst *inst)
{
    return inst->event + (uint64_t)inst->event_step * (uint64_t)walk->reg[DT_PLAN_REG_RINGBUF];
}

bool dt_certplan_start(PlanWalk *walk, const DtPlanInst *inst, PlanStarted started)
{
    started.event = event_of(walk, inst);
    started.stamp = ++walk->clock;
    if (walk->tiles.open)
        return dt_certplan_fail(walk, "a collective is started in a block of attention");
    if (dt_certplan_has_message(walk, started.event))
        return dt_certplan_fail(walk, "event %llu is a message's",
                                (unsigned long long)started.event - 1);
    for (uint32_t i = 0; i < walk->started.n; i++)
        if (walk->started.at[i].event == started.event)
            return dt_certplan_fail(walk, "event %llu is still waited for",
                                    (unsigned long long)started.event - 1);
    DT_PUSH(walk->arena, walk->started, started);
    dt_certplan_began(walk, started.event, false);
    return true;
}

bool dt_certplan_wait(PlanWalk *walk, const DtPlanInst *inst)
{
    if (walk->tiles.open || walk->guard)
        return dt_certplan_fail(walk, "a wait is out of place");
    if (dt_certplan_is_message(walk, inst))
        return dt_certplan_came(walk);
    if (dt_certplan_has_message(walk, event_of(walk, inst)))
        return dt_certplan_fail(walk, "a wait is for a message in some slot");
    for (uint32_t i = 0; i < walk->started.n; i++) {
        const PlanStarted started = walk->started.at[i];
        if (started.event != event_of(walk, inst))
            continue;
        walk->started.at[i] = walk->started.at[--walk->started.n];
        dt_certplan_log(walk, started.stamp);
        if (started.sum)
            dt_certplan_summed(walk, &started.to, started.sum);
        else
            dt_certplan_define_by(walk, started.frame, started.value, &started.to, false,
                                  started.to_arg);
        return true;
    }
    dt_certplan_log(walk, 0);
    if (dt_certplan_has_called(walk))
        dt_certplan_ended(walk, event_of(walk, inst));
    return true;
}

bool dt_certplan_is_still(PlanWalk *walk, const PlanPlace *written)
{
    for (uint32_t i = 0; i < walk->started.n; i++) {
        const PlanStarted *started = &walk->started.at[i];
        const bool to = dt_certplan_meets(walk, &started->to, written);
        if (to || dt_certplan_meets(walk, &started->from, written))
            return dt_certplan_fail(
                walk, "what is written meets the %s of value %u (%s), which is not done",
                to ? "result" : "operand", started->value,
                started->frame->maker[started->value] ? started->frame->maker[started->value]->kind
                                                      : "input");
    }
    return true;
}

/* Hands sums over ranks that a piece has started and not waited for to plan_pipe.c, which checks
 * them after all pieces: no other op uses their memory. Removes them from walk->started. */
static void leave_sums(PlanWalk *walk)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->started.n; i++)
        if (walk->plan->meta->pipeline && walk->started.at[i].sum)
            dt_certplan_began(walk, walk->started.at[i].event, true);
        else
            walk->started.at[n++] = walk->started.at[i];
    walk->started.n = n;
}

bool dt_certplan_landed(PlanWalk *walk)
{
    leave_sums(walk);
    if (walk->started.n == 0)
        return true;
    const PlanStarted *started = &walk->started.at[0];
    const CertOp *op = started->frame->maker[started->value];
    return dt_certplan_fail(walk, "value %u (%s) is started and not done", started->value,
                            op ? op->kind : "input");
}
