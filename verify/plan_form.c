/* SPDX-License-Identifier: Apache-2.0 */
/* Products with an epilogue that have a second form (plan.h, INST). A plan is walked twice: once
 * each such product does what its first form says, once what its second form says. A run may mix
 * the two, since a form cannot be told from the other one by what it leaves: both write the same
 * values, laid out alike, to the same arguments of the product, and the second form touches nothing
 * else that others do (plan/check_instead.c). */
#include "verify/plan_internal.h"

/* Reads the note of the first form and appends its writes to the list, without executing it. */
static bool read_first(PlanWalk *walk, const DtPlanInst *inst, PlanWrites *ret)
{
    if (dt_certplan_note(walk) != DT_NOTE_DO)
        return dt_certplan_fail(walk, "a product has no note");
    for (uint64_t n = dt_certplan_word(walk); n > 0 && !walk->problem->len; n--)
        dt_certplan_word(walk);
    for (uint32_t a = 0; a < inst->n_args && !walk->problem->len; a++) {
        const DtPlanArg *arg = &walk->plan->args[inst->first_arg + a];
        const uint64_t word = dt_certplan_word(walk);
        PlanWrite write = {.value = (uint32_t)(word / DT_NOTE_FLAGS),
                           .flags = (uint32_t)(word % DT_NOTE_FLAGS),
                           .arg = arg};
        if (word / DT_NOTE_FLAGS >= walk->frame->func->n_values)
            return dt_certplan_fail(walk, "a note names no value");
        if (!arg->written)
            continue;
        if (!dt_certplan_where(walk, &write))
            return false;
        DT_PUSH(walk->scratch, *ret, write);
    }
    return !walk->problem->len;
}

/* Whether both places have the same address and length. */
static bool is_same(const PlanPlace *a, const PlanPlace *b)
{
    return a->arena == b->arena && a->base == b->base && a->bytes == b->bytes &&
           memcmp(a->reg, b->reg, sizeof a->reg) == 0 &&
           memcmp(a->coord, b->coord, sizeof a->coord) == 0;
}

/* Whether the instructions of the second form leave the wanted value in the argument of the
 * product. A sum must be written exactly once; for other values the last write counts. */
static bool leaves(const PlanWalk *walk, const PlanWrite *wanted)
{
    const uint32_t sums = DT_NOTE_ADDS | DT_NOTE_ZEROED;
    const PlanWrite *last = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->form->n; i++)
        if (is_same(&walk->form->at[i].place, &wanted->place)) {
            last = &walk->form->at[i];
            n++;
        }
    return last && last->value == wanted->value &&
           dt_certplan_alike(&last->place, &wanted->place) &&
           (last->flags & sums) == (wanted->flags & sums) && (n == 1 || !(last->flags & sums));
}

/* Whether a write of the second form is to a place that the first form writes, or to memory that
 * only second forms use. Reports a problem if not. */
static bool is_inside(const PlanWalk *walk, const PlanWrites *first, const PlanWrite *write)
{
    bool found = walk->plan->arenas[write->place.arena].kind == DT_ARENA_INSTEAD;
    for (uint32_t i = 0; !found && i < first->n; i++)
        found = is_same(&first->at[i].place, &write->place);
    return found;
}

static bool do_second(PlanWalk *walk, const DtPlanInst *product, const PlanWrites *first)
{
    const DtPlanBody *body = &walk->plan->bodies[product->instead - 1];
    PlanWrites writes = {0};
    walk->form = &writes;
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const DtPlanInst *inst = &walk->plan->insts[body->first_inst + i];
        walk->inst = inst;
        if (walk->note == walk->end || *walk->note != DT_NOTE_DO)
            return dt_certplan_fail(walk, "an instruction of a product's second form has no note");
        if (!dt_certplan_inst(walk, inst, dt_certplan_note(walk)))
            return false;
    }
    bool good = true;
    for (uint32_t i = 0; good && i < writes.n; i++)
        good = is_inside(walk, first, &writes.at[i]);
    for (uint32_t i = 0; good && i < first->n; i++)
        good = leaves(walk, &first->at[i]);
    walk->form = NULL;
    walk->inst = product;
    return good || dt_certplan_fail(
                       walk, "a product's second form does not leave what its first form does");
}

bool dt_certplan_forms(PlanWalk *walk, const DtPlanInst *inst)
{
    if (dt_certplan_note(walk) != DT_NOTE_FORMS || !walk->frame)
        return dt_certplan_fail(walk, "a product with two forms has no note of both");
    const uint64_t m = dt_certplan_word(walk), n = dt_certplan_word(walk);
    const uint64_t left = (uint64_t)(walk->end - walk->note);
    if (m > left || n > left - m)
        return dt_certplan_fail(walk, "the notes of a product's forms have no end");
    if (walk->tiles.open || walk->back || walk->guard || walk->last || walk->actions)
        return dt_certplan_fail(walk, "a product with two forms is out of place");
    const uint8_t *second = walk->note + m, *behind = second + n;
    PlanWrites writes = {0};
    if (walk->second ? !read_first(walk, inst, &writes)
                     : !dt_certplan_inst(walk, inst, dt_certplan_note(walk)))
        return false;
    if (walk->note != second)
        return dt_certplan_fail(walk, "the note of a product's first form has another length");
    if (walk->second && (!do_second(walk, inst, &writes) || walk->note != behind))
        return dt_certplan_fail(walk, "the notes of a product's second form have another length");
    walk->note = behind;
    return true;
}
