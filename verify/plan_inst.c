/* SPDX-License-Identifier: Apache-2.0 */
/* Walks one instruction: checks that it reads values where they are, that its ops have these as
 * operands, and records its results. */
#include "verify/plan_internal.h"

#include "plan/kinds.h"

#include <string.h>

enum { MOST = 256 }; /* the most ops and arguments of an instruction */

/* ---- the present instruction ---- */

typedef struct Doing {
    const DtPlanInst *inst;
    const CertOp *ops[MOST];
    uint32_t n_ops;
    const CertOp *redone[MOST]; /* the ops of these that were executed before */
    uint32_t n_redone;
    uint32_t read[MOST]; /* numbers of values */
    const DtPlanArg *from[MOST];
    PlanPlace first, second; /* places of the first two read values */
    PlanPlace more[PLAN_PRODUCT - 2]; /* places of the operands of an epilogue */
    uint32_t n_read, spare; /* spare: 1 + number of an argument that no op needs; 0: there is
                             * none */
    PlanAttend *attend;     /* the attention that a library may compute; NULL: none */
    PlanWrite *writes;
    uint32_t n_writes;
} Doing;

static const CertOp *op_of(const Doing *doing, const CertOp *op)
{
    for (uint32_t i = 0; op && i < doing->n_ops; i++)
        if (doing->ops[i] == op)
            return op;
    return NULL;
}

static bool holds(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, PlanPlace *ret_place)
{
    PlanFinds found;
    PlanPlace place;
    if (dt_certplan_is_there(walk, value, arg, ret_place))
        return true;
    const CertOp *op = walk->frame->maker[value];
    const bool elsewhere = dt_certplan_find(walk, walk->frame, value, NULL, &found) > 0;
    dt_certplan_arg(walk, arg, &place);
    dt_certplan_fail(walk, "an argument does not hold value %u (%s) of function %s%s: ", value,
                     op ? op->kind : "input", walk->frame->func->name,
                     elsewhere ? ", which lies elsewhere" : "");
    dt_certplan_say_there(walk, &place, walk->problem);
    return false;
}

static bool read_ops(PlanWalk *walk, Doing *doing)
{
    uint64_t n = dt_certplan_word(walk);
    if (n > MOST)
        return dt_certplan_fail(walk, "a note has too many ops");
    if (walk->behind && n)
        return dt_certplan_fail(walk, "an earlier iteration does more than to copy");
    for (uint64_t i = 0; i < n; i++) {
        const CertOp *op = dt_certplan_op(walk, dt_certplan_word(walk));
        if (!op)
            return false;
        bool is_done = walk->tiles.open ? walk->tiles.mark[op->first_out] == walk->tiles.block
                                      : walk->frame->done[op->first_out];
        if (is_done && !dt_certplan_is_ahead(op)) /* gathering again gives the same value */
            doing->redone[doing->n_redone++] = op;
        if (walk->tiles.open && !dt_certplan_is_output(walk, op->first_out) &&
            !dt_certplan_is_of_block(walk, op))
            return dt_certplan_fail(walk, "`%s` of a block of attention is not the block of it",
                                    op->kind);
        walk->frame->done[op->first_out] = true;
        if (walk->tiles.open)
            for (uint32_t k = 0; k < op->n_out; k++)
                walk->tiles.mark[op->first_out + k] = walk->tiles.block;
        doing->ops[doing->n_ops++] = op;
    }
    return true;
}

/* Sets write->place to where the note says a result is written: the argument's address, with the
 * axes of the value. */
bool dt_certplan_where(PlanWalk *walk, PlanWrite *write)
{
    const DtPlanArg *arg = write->arg;
    const CertType *type = dt_certplan_type(walk->frame, write->value);
    PlanPlace *place = &write->place;
    PlanPlace shape = {.rank = 0};
    dt_certplan_dense(walk, type, &shape);
    if (walk->tiles.open)
        dt_certplan_pack_block(walk, &shape);
    if (write->flags & DT_NOTE_IN_PLACE)
        write->old = dt_certplan_number(walk);
    if (!dt_certplan_layout(walk, type, write->flags, &shape))
        return false;
    if (dt_certplan_is_output(walk, write->value))
        return dt_certplan_output(walk, write->value, arg, write->flags, place);
    PlanPlace address;
    dt_certplan_arg(walk, arg, &address);
    *place = shape;
    dt_certplan_put(place, &address);
    return place->bytes == address.bytes ||
           dt_certplan_fail(walk, "value %u has %lld bytes where %lld are written", write->value,
                            (long long)place->bytes, (long long)address.bytes);
}

static void find_library(PlanWalk *walk, Doing *doing)
{
    for (uint32_t i = 0; doing->inst->kind == DT_INST_KERNEL && i < walk->plan->n_sdpas; i++)
        if (walk->plan->sdpas[i].kernel == doing->inst->ref) {
            doing->attend = DT_NEW(walk->scratch, PlanAttend);
            doing->attend->of = &walk->plan->sdpas[i];
        }
}

/* If a library may compute the attention instead of the kernel: records value and place of argument
 * a for the part of the record that it is. */
static void know_part(const Doing *doing, uint32_t a, uint32_t value, const PlanPlace *place)
{
    for (uint32_t p = 0; doing->attend && p < DT_SDPA_PARTS; p++)
        if (doing->attend->of->pointer[p] == (int32_t)a) {
            doing->attend->value[p] = value;
            doing->attend->place[p] = *place;
        }
}

/* Whether only the library, but no op of the kernel, reads this argument. */
static bool is_spare(const Doing *doing, uint32_t a)
{
    return doing->attend && doing->attend->of->backward &&
           doing->attend->of->pointer[DT_SDPA_O] == (int32_t)a;
}

/* Whether a value that a kernel reads has the axes and strides for which the kernel was made. */
static bool lies_as(const PlanPlace *place, const PlanPlace *shape)
{
    bool same = place->rank == shape->rank;
    for (uint32_t d = 0; same && d < place->rank; d++)
        same = place->axis[d] == shape->axis[d] &&
               (place->extent[d] == 1 || place->stride[d] == shape->stride[d]);
    return same;
}

static bool read_args(PlanWalk *walk, Doing *doing)
{
    const DtPlanInst *inst = doing->inst;
    if (inst->n_args > MOST)
        return dt_certplan_fail(walk, "too many arguments");
    /* instructions other than kernels state the layout of their operands */
    const bool kernel = inst->kind == DT_INST_KERNEL;
    uint32_t n_written = 0;
    find_library(walk, doing);
    const uint32_t n_args = (uint32_t)inst->n_args - inst->guards;
    for (uint32_t a = 0; a < n_args; a++)
        n_written += walk->plan->args[inst->first_arg + a].written;
    doing->writes = DT_NEW_ARRAY(walk->scratch, PlanWrite, n_written);
    for (uint32_t a = 0; a < n_args; a++) {
        const DtPlanArg *arg = &walk->plan->args[inst->first_arg + a];
        if (arg->kind != DT_ARG_ADDRESS) {
            if (!dt_certplan_integer(walk, arg))
                return false;
            continue;
        }
        uint64_t word = dt_certplan_word(walk);
        uint32_t value = (uint32_t)(word / DT_NOTE_FLAGS), flags = (uint32_t)(word % DT_NOTE_FLAGS);
        if (word / DT_NOTE_FLAGS >= walk->frame->func->n_values)
            return dt_certplan_fail(walk, "a note names no value");
        if (arg->written) {
            PlanWrite *write = &doing->writes[doing->n_writes++];
            *write = (PlanWrite){.value = value, .flags = flags, .arg = arg};
            if (!dt_certplan_where(walk, write))
                return false;
            know_part(doing, a, value, &write->place);
            continue;
        }
        const CertType *type = dt_certplan_type(walk->frame, value);
        PlanPlace place, shape;
        dt_certplan_dense(walk, type, &shape);
        if (kernel && !dt_certplan_strides(walk, type, flags, &shape))
            return false;
        flags &= kernel ? ~(uint32_t)DT_NOTE_STRIDES : ~(uint32_t)0;
        if (flags == DT_NOTE_SPARE && is_spare(doing, a))
            doing->spare = doing->n_read + 1;
        else if (flags)
            return dt_certplan_fail(walk, "an argument that is read has a note of a result");
        if (!holds(walk, value, arg, &place))
            return false;
        if (kernel && !walk->tiles.open && !lies_as(&place, &shape))
            return dt_certplan_fail(walk, "a kernel reads value %u in another layout than it has",
                                    value);
        know_part(doing, a, value, &place);
        if (doing->n_read < 2)
            *(doing->n_read ? &doing->second : &doing->first) = place;
        else if (doing->n_read < PLAN_PRODUCT)
            doing->more[doing->n_read - 2] = place;
        doing->read[doing->n_read] = value;
        doing->from[doing->n_read++] = arg;
    }
    return true;
}

/* For an all_reduce in place, which has one argument: records it as read and checks that it holds
 * the operand. */
static bool read_in_place(PlanWalk *walk, Doing *doing)
{
    if (doing->inst->kind != DT_INST_ALL_REDUCE || doing->inst->n_args != 1 || doing->n_ops != 1)
        return true;
    if (doing->ops[0]->n_in != 1)
        return dt_certplan_fail(walk, "`%s` is no collective", doing->ops[0]->kind);
    doing->read[0] = doing->ops[0]->in[0];
    doing->from[0] = &walk->plan->args[doing->inst->first_arg];
    doing->n_read = 1;
    return holds(walk, doing->read[0], doing->from[0], &doing->first);
}

static bool is_read(const Doing *doing, uint32_t value)
{
    for (uint32_t i = 0; i < doing->n_read; i++)
        if (doing->read[i] == value)
            return true;
    return false;
}

/* Checks each operand of the instruction's ops: another op of the instruction makes it, the
 * instruction reads it, it is made of constants, or it is the number of the iteration. */
static bool has_operands(PlanWalk *walk, const Doing *doing)
{
    const PlanFrame *frame = walk->frame;
    for (uint32_t i = 0; i < doing->n_ops; i++)
        for (uint32_t k = 0; k < doing->ops[i]->n_in; k++) {
            uint32_t value = doing->ops[i]->in[k];
            if (!op_of(doing, frame->maker[value]) && !is_read(doing, value) &&
                !dt_certplan_is_inline(frame, value) && !(frame->kind == PLAN_BODY && value == 0))
                return dt_certplan_fail(walk, "operand %u of `%s` is not read", k,
                                        doing->ops[i]->kind);
        }
    return true;
}

/* An op may be executed a second time only in a kernel, element by element, for the kernel's own
 * use. */
static bool is_done_once(PlanWalk *walk, const Doing *doing)
{
    for (uint32_t i = 0; i < doing->n_redone; i++) {
        const CertOp *op = doing->redone[i];
        bool alone = doing->inst->kind == DT_INST_KERNEL && op->rule && op->rule->map;
        for (uint32_t w = 0; w < doing->n_writes; w++)
            alone = alone && op_of(doing, walk->frame->maker[doing->writes[w].value]) != op;
        if (!alone)
            return dt_certplan_fail(walk, "`%s` is done twice", op->kind);
    }
    return true;
}

/* Checks that every value that is read is an operand of the ops; otherwise the instruction would
 * compute something else. */
static bool needs_reads(PlanWalk *walk, const Doing *doing)
{
    for (uint32_t r = 0; r < doing->n_read && doing->n_ops; r++) {
        bool needed = r + 1 == doing->spare;
        for (uint32_t i = 0; i < doing->n_ops; i++)
            for (uint32_t k = 0; k < doing->ops[i]->n_in; k++)
                needed = needed || doing->ops[i]->in[k] == doing->read[r];
        if (!needed)
            return dt_certplan_fail(walk, "value %u is read for no op", doing->read[r]);
    }
    return true;
}

static bool makes(PlanWalk *walk, const Doing *doing, uint32_t value)
{
    if (doing->n_ops
            ? op_of(doing, walk->frame->maker[value]) != NULL
            : is_read(doing, value) || dt_certplan_is_inline(walk->frame, value) ||
                  /* the iteration's number needs no memory */
                  (walk->frame->kind == PLAN_BODY && value == 0))
        return true;
    return dt_certplan_fail(walk, "value %u is written, which the ops do not make", value);
}

/* Whether an operand that the instruction reads at this place is the value that the write says it
 * overwrites in place. */
static bool overwrites(const PlanWalk *walk, const Doing *doing, const PlanWrite *write,
                       const PlanPlace *from)
{
    PlanPlace place;
    for (uint32_t r = 0; write->flags & DT_NOTE_IN_PLACE && r < doing->n_read; r++) {
        dt_certplan_arg(walk, doing->from[r], &place);
        if (doing->read[r] == write->old && dt_certplan_same(&place, from))
            return true;
    }
    return false;
}

/* Checks that no value is overwritten before it is read, except in place. */
static bool keeps_apart(PlanWalk *walk, const Doing *doing)
{
    PlanPlace from;
    for (uint32_t w = 0; w < doing->n_writes; w++) {
        const PlanWrite *write = &doing->writes[w];
        for (uint32_t r = 0; r < doing->n_read; r++) {
            dt_certplan_arg(walk, doing->from[r], &from);
            if (dt_certplan_meets(walk, &write->place, &from) &&
                !(dt_certplan_same(&write->place, &from) && overwrites(walk, doing, write, &from)))
                return dt_certplan_fail(walk, "result %u overlaps operand %u", write->value,
                                        doing->read[r]);
        }
        for (uint32_t o = 0; o < w; o++)
            if (dt_certplan_meets(walk, &write->place, &doing->writes[o].place))
                return dt_certplan_fail(walk, "results %u and %u overlap", write->value,
                                        doing->writes[o].value);
    }
    return true;
}

static bool apply(PlanWalk *walk, const Doing *doing)
{
    for (uint32_t w = 0; w < doing->n_writes; w++) {
        const PlanWrite *write = &doing->writes[w];
        bool adds = write->flags & DT_NOTE_ADDS, zeroed = !adds && write->flags & DT_NOTE_ZEROED;
        if (!makes(walk, doing, write->value))
            return false;
        if (dt_certplan_is_output(walk, write->value))
            continue; /* the bucket is there once all its parts are */
        if (!dt_certplan_may_write(walk, &write->place))
            return false;
        dt_certplan_beside(walk, &write->place);
        if ((adds || zeroed) && (!dt_certplan_is_zero(walk, &write->place, walk->depth, zeroed) ||
                                 dt_certplan_is_added(walk, &write->place, walk->depth)))
            return dt_certplan_fail(walk, "value %u is added to memory that is not zero",
                                    write->value);
        if (adds)
            dt_certplan_wrote(walk, &write->place);
        else
            dt_certplan_spoil(walk, &write->place, false);
        const PlanStarted started = {.frame = walk->frame, .value = write->value,
                                     .to = write->place, .from = doing->first, .to_arg = write->arg,
                                     .from_arg = doing->from[0]};
        if (!doing->inst->event)
            dt_certplan_define_by(walk, walk->frame, write->value, &write->place, adds, write->arg);
        else if (!dt_certplan_start(walk, doing->inst, started))
            return false;
    }
    return !walk->problem->len;
}

/* ---- by kind ---- */

/* Whether the instruction calls a kernel that is named after its first ops (as many as begin within
 * its first 60 letters). */
enum { KERNEL_NAME = 60 };

static bool is_named(const char *name, const Doing *doing)
{
    size_t len = 0;
    for (uint32_t i = 0; i < doing->n_ops && len < KERNEL_NAME; i++) {
        const size_t n = strlen(doing->ops[i]->kind);
        if ((i && name[len++] != '+') || strncmp(name + len, doing->ops[i]->kind, n))
            return false;
        len += n;
    }
    return !name[len];
}

static bool is_kernel(PlanWalk *walk, const Doing *doing)
{
    PlanKnown *known = &walk->kernels[doing->inst - walk->plan->insts];
    if (known->note == walk->note && known->entry == walk->at_entry)
        return true;
    const char *name = dt_plan_str(walk->plan, walk->plan->kernels[doing->inst->ref].name);
    const bool casts = doing->n_read == 1 && doing->n_writes == 1 &&
                       doing->first.dtype != doing->writes[0].place.dtype,
               good =
                   doing->n_ops ? is_named(name, doing) : !strcmp(name, casts ? "cast" : "expand");
    *known = (PlanKnown){walk->note, walk->at_entry};
    if (doing->attend) {
        doing->attend->ops = doing->ops;
        doing->attend->n_ops = doing->n_ops;
        if (!dt_certplan_attends(walk, doing->attend))
            return false;
    }
    return good ||
           dt_certplan_fail(walk, "kernel `%s` does not do what it is called after: `%s`", name,
                            doing->n_ops ? doing->ops[0]->kind
                            : casts      ? "cast"
                                         : "expand");
}

static const CertOp *joined(PlanWalk *walk, const Doing *doing)
{
    const DtPlanGemm *g = &walk->plan->gemms[doing->inst->ref];
    if (!g->epilogue)
        return doing->n_ops == 1 && strcmp(doing->ops[0]->kind, "dot") == 0 && doing->n_read == 2 &&
                       doing->n_writes == 1
                   ? doing->ops[0]
                   : NULL;
    PlanProduct p = {.n_read = doing->n_read, .n_written = doing->n_writes,
                     .from = {doing->first, doing->second}};
    if (doing->n_read > PLAN_PRODUCT || doing->n_writes > PLAN_PRODUCT || doing->n_read < 2 ||
        !doing->n_writes)
        return NULL;
    for (uint32_t i = 0; i < doing->n_read; i++) {
        p.read[i] = doing->read[i];
        if (i >= 2)
            p.from[i] = doing->more[i - 2];
    }
    for (uint32_t i = 0; i < doing->n_writes; i++) {
        p.written[i] = doing->writes[i].value;
        p.to[i] = doing->writes[i].place;
        if (i && doing->writes[i].flags & (DT_NOTE_ADDS | DT_NOTE_ZEROED))
            return NULL; /* a product can only add to C */
    }
    return dt_certplan_joined(walk, g, doing->ops, doing->n_ops, &p);
}

/* The contraction's summed, row and column axes must be those that the descriptor's strides walk
 * along. */
static bool is_gemm(PlanWalk *walk, const Doing *doing)
{
    const DtPlanGemm *g = &walk->plan->gemms[doing->inst->ref];
    const CertOp *dot = joined(walk, doing);
    if (!dot)
        return dt_certplan_fail(
            walk, g->epilogue ? "a matrix product does not do to its result what its ops do"
                              : "a matrix product is none of two values");
    const PlanPlace *const places[3] = {&doing->first, &doing->second, &doing->writes[0].place};
    const bool same = dt_certplan_is_product(g, places);
    bool order = (doing->read[0] == dot->in[0] && doing->read[1] == dot->in[1]) ||
                 (doing->read[0] == dot->in[1] && doing->read[1] == dot->in[0]);
    bool adds = doing->writes[0].flags & (DT_NOTE_ADDS | DT_NOTE_ZEROED);
    bool dtypes = strcmp(dt_kinds_name(g->dtype_a), doing->first.dtype) == 0 &&
                  strcmp(dt_kinds_name(g->dtype_b), doing->second.dtype) == 0 &&
                  strcmp(dt_kinds_name(g->dtype_c), doing->writes[0].place.dtype) == 0;
    return (same && order && dtypes && g->accumulate == adds) ||
           dt_certplan_fail(walk, "GEMM %u is not the contraction%s", doing->inst->ref,
                            !same     ? ": other extents or strides"
                            : !dtypes ? ": other dtypes"
                                      : "");
}

static bool is_copy(PlanWalk *walk, const Doing *doing)
{
    PlanPlace from = doing->first;
    if (doing->n_ops || doing->n_read != 1 || doing->n_writes != 1 ||
        doing->read[0] != doing->writes[0].value)
        return dt_certplan_fail(walk, "a copy is of no value");
    const PlanPlace *to = &doing->writes[0].place;
    int64_t elements = 1;
    dt_certplan_put(&from, to);
    for (uint32_t d = 0; d < to->rank; d++)
        elements *= to->extent[d];
    return (dt_certplan_alike(&from, to) && elements * to->size == to->bytes &&
            doing->inst->count == to->bytes &&
            !(doing->writes[0].flags & (DT_NOTE_ADDS | DT_NOTE_ZEROED))) ||
           dt_certplan_fail(walk, "a copy of %lld bytes is not the value as it lies",
                            (long long)doing->inst->count);
}

static bool is_exchange(PlanWalk *walk, const Doing *doing)
{
    if (doing->n_ops != 1 || doing->n_read != 1 || doing->n_writes != 1 ||
        doing->read[0] != doing->ops[0]->in[0])
        return dt_certplan_fail(walk, "a collective is not of one value");
    if (doing->writes[0].flags & (DT_NOTE_ADDS | DT_NOTE_ZEROED))
        return dt_certplan_fail(walk, "a collective writes its result, it adds to nothing");
    return dt_certplan_comm(walk, doing->ops[0], doing->inst, &doing->writes[0].place,
                            &doing->first);
}

/* Several kernels of one name differ in extents and strides. The note says which of them the
 * instruction runs. */
static bool is_noted_kernel(PlanWalk *walk, const Doing *doing)
{
    return dt_certplan_word(walk) == doing->inst->ref ||
           dt_certplan_fail(walk, "kernel %u is another one", doing->inst->ref);
}

static bool do_inst(PlanWalk *walk, const DtPlanInst *inst)
{
    Doing *doing = &(Doing){.inst = inst};
    if (!read_ops(walk, doing) || (inst->kind == DT_INST_KERNEL && !is_noted_kernel(walk, doing)) ||
        !read_args(walk, doing) || !read_in_place(walk, doing) || !is_done_once(walk, doing) ||
        !has_operands(walk, doing) || !needs_reads(walk, doing) || !keeps_apart(walk, doing))
        return false;
    bool good = inst->kind == DT_INST_KERNEL ? is_kernel(walk, doing)
                : inst->kind == DT_INST_GEMM ? is_gemm(walk, doing)
                : inst->kind == DT_INST_COPY ? is_copy(walk, doing)
                                             : is_exchange(walk, doing);
    if (!good || !apply(walk, doing))
        return false;
    for (uint32_t i = 0; walk->form && i < doing->n_writes; i++)
        DT_PUSH(walk->scratch, *walk->form, doing->writes[i]);
    return true;
}

static bool zero(PlanWalk *walk, const DtPlanInst *inst)
{
    PlanPlace place;
    dt_certplan_arg(walk, &walk->plan->args[inst->first_arg], &place);
    if (place.bytes != inst->count)
        return dt_certplan_fail(walk, "%lld bytes of %lld are zeroed", (long long)inst->count,
                                (long long)place.bytes);
    if (dt_certplan_has_called(walk))
        return dt_certplan_fail(walk, "memory is zeroed behind pieces");
    dt_certplan_spoil(walk, &place, false);
    dt_certplan_hold(walk, PLAN_ZERO, &place);
    dt_certplan_beside(walk, &place);
    return dt_certplan_may_write(walk, &place);
}

/* Whether the instruction copies a result of an earlier iteration (note BEHIND), without an op of
 * that iteration. */
static bool copies(const PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind)
{
    return walk->behind && kind == DT_NOTE_DO &&
           (inst->kind == DT_INST_KERNEL || inst->kind == DT_INST_COPY);
}

static bool noted(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind)
{
    if (walk->behind && !copies(walk, inst, kind))
        return dt_certplan_fail(walk, "an earlier iteration does more than to copy");
    if (walk->back ? kind != DT_NOTE_DO || inst->guards : walk->guard && kind != DT_NOTE_PART)
        return dt_certplan_fail(walk, "what a guard lets run is no gather ahead");
    if (inst->event && kind != DT_NOTE_DO && kind != DT_NOTE_PART && kind != DT_NOTE_MOVE)
        return dt_certplan_fail(walk, "a sum over ranks is started, but not waited for");
    switch (kind) {
    case DT_NOTE_DO: return do_inst(walk, inst);
    case DT_NOTE_SUM: return dt_certplan_sum(walk, inst);
    case DT_NOTE_PART: return dt_certplan_part(walk, inst);
    case DT_NOTE_SHARE: return dt_certplan_share(walk, inst);
    case DT_NOTE_MOVE: return dt_certplan_move(walk, inst);
    default: return dt_certplan_fail(walk, "an instruction has no note");
    }
}

static bool has_addresses(PlanWalk *walk, const DtPlanInst *inst)
{
    for (uint32_t a = 0; a < inst->n_args; a++) {
        const DtPlanArg *arg = &walk->plan->args[inst->first_arg + a];
        if (arg->kind != DT_ARG_ADDRESS)
            continue;
        for (uint32_t r = DT_PLAN_REG_SLOTS; r < DT_PLAN_ARG_REGS; r++)
            if (!dt_certplan_steps(walk, r, arg->reg[r]))
                return dt_certplan_fail(walk, "slots of %lld bytes", (long long)arg->reg[r]);
        walk->moves = walk->moves || dt_certplan_stage_step(walk, arg) != 0;
    }
    return true;
}

bool dt_certplan_inst(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind)
{
    const uint8_t *begin = walk->note - 1, *notes = walk->plan->blob + walk->plan->logical->notes;
    if (!has_addresses(walk, inst))
        return false;
    if (walk->actions && !dt_certplan_is_message(walk, inst))
        return dt_certplan_fail(walk, "what a pipeline repeats is no transfer");
    if (inst->guards && inst->kind == DT_INST_ZERO)
        return dt_certplan_fail(walk, "memory is zeroed under guards");
    if (walk->last && kind != DT_NOTE_PART)
        return dt_certplan_fail(walk, "the last micro-batch does more than others");
    if (walk->guard && inst->kind != DT_INST_ALL_GATHER && kind != DT_NOTE_PART &&
        !copies(walk, inst, kind))
        return dt_certplan_fail(walk, "what a guard lets run is no gather");
    if (walk->budget == 0)
        return dt_certplan_fail(walk, "loops repeat more than can be followed");
    walk->budget--;
    switch (inst->kind) {
    case DT_INST_ZERO: return zero(walk, inst);
    case DT_INST_READ: return dt_certplan_read(walk, inst);
    case DT_INST_WAIT: return dt_certplan_wait(walk, inst);
    default: break;
    }
    bool good = dt_certplan_guards(walk, inst) && noted(walk, inst, kind);
    if (walk->spans) {
        DtCertSpan *span = &walk->spans[inst - walk->plan->insts];
        const DtCertSpan now = {(uint32_t)(begin - notes), (uint32_t)(walk->note - notes),
                                span->count};
        const bool same = span->count && span->first == now.first && span->end == now.end;
        *span = now;
        span->count += !same;
    }
    return good;
}

bool dt_certplan_skip(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind)
{
    if (kind == DT_NOTE_PART && !walk->back) {
        dt_certplan_word(walk);
        return !walk->problem->len;
    }
    const bool may = walk->behind ? copies(walk, inst, kind) : inst->kind == DT_INST_ALL_GATHER;
    if (kind != DT_NOTE_DO || !walk->back || !may)
        return dt_certplan_fail(walk, "what a guard lets run is no gather");
    for (uint64_t n = dt_certplan_word(walk); n > 0 && !walk->problem->len; n--)
        dt_certplan_word(walk);
    if (inst->kind == DT_INST_KERNEL) /* finds out which op it is */
        dt_certplan_word(walk);
    for (uint32_t a = 0; a < inst->n_args && !walk->problem->len; a++) {
        if (walk->plan->args[inst->first_arg + a].kind != DT_ARG_ADDRESS)
            return dt_certplan_fail(walk, "a guard holds back what counts iterations");
        const uint64_t word = dt_certplan_word(walk), value = word / DT_NOTE_FLAGS;
        if (value >= walk->frame->func->n_values)
            return dt_certplan_fail(walk, "a note names no value");
        const uint32_t rank = dt_certplan_type(walk->frame, (uint32_t)value)->rank,
                       more = (word & DT_NOTE_IN_PLACE ? 1 : 0) +
                              (word & DT_NOTE_STRIDES ? rank : 0) + (word & DT_NOTE_DTYPE ? 1 : 0);
        for (uint32_t i = 0; i < more; i++)
            dt_certplan_word(walk);
    }
    return !walk->problem->len;
}
