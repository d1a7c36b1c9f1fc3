/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of planmutants in instructions: where and how they read and write, what they compute, and
 * whether they run. */
#include "planmutants.h"

#include "plan/kinds.h"
#include "plan/notes.h"

#include <string.h>

bool mutant_offset(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    static const int64_t steps[] = {64, -64, 4, -4, 128, 1024, -1024, 4096};
    return arg && (arg->base += steps[below(8)], true);
}

/* Whether the argument is one of several results: perhaps nobody needs it (for example, what
 * attention saves in `eval`). */
static bool is_one_of_several(const DtPlanArg *changed)
{
    const DtPlanArg *arg = plan.args + (changed - RECORD(args, DtPlanArg, 0));
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        const DtPlanInst *inst = &plan.insts[i];
        uint32_t n = 0;
        if (arg < plan.args + inst->first_arg || arg >= plan.args + inst->first_arg + inst->n_args)
            continue;
        for (uint32_t k = 0; k < inst->n_args; k++)
            n += plan.args[inst->first_arg + k].written;
        return n > 1;
    }
    return false;
}

bool mutant_reuse(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS), *other = any_arg(DT_ARG_ADDRESS);
    if (!arg || !arg->written || !other || other->arena != arg->arena || other->base == arg->base)
        return false;
    if (is_one_of_several(arg))
        return false;
    arg->base = other->base;
    return true;
}

/* Returns the first argument that the instruction writes; NULL: none. */
static const DtPlanArg *written(const DtPlanInst *inst)
{
    for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++)
        if (plan.args[a].kind == DT_ARG_ADDRESS && plan.args[a].written)
            return &plan.args[a];
    return NULL;
}

/* A value that is written where an earlier instruction wrote the same kind of value is written
 * elsewhere. A reader then finds the earlier value, for example that of the previous block of
 * attention. */
bool mutant_stale(void)
{
    for (int i = 0; i < 400; i++) {
        const uint32_t at = below(plan.n_insts), back = 1 + below(4);
        const DtPlanBody *body = body_of(at);
        const DtPlanInst *inst = &plan.insts[at];
        const DtPlanArg *arg = body ? written(inst) : NULL, *other = any_arg(DT_ARG_ADDRESS);
        if (!arg || at < body->first_inst + back || is_one_of_several(COPY_OF(arg)) || !other)
            continue;
        const DtPlanInst *before = &plan.insts[at - back];
        if (before->kind != inst->kind || !written(before) || !same_place(written(before), arg) ||
            other->arena != arg->arena || other->base == arg->base)
            continue;
        ((DtPlanArg *)COPY_OF(arg))->base = other->base;
        return true;
    }
    return false;
}

/* A value is stored in other memory for all its readers until its memory is written again: this is
 * right if that other memory is free. */
bool mutant_moved(void)
{
    const uint32_t at = below(plan.n_insts);
    const DtPlanBody *body = body_of(at);
    const DtPlanArg *from = body ? written(&plan.insts[at]) : NULL, *to = any_arg(DT_ARG_ADDRESS);
    if (!from || !to || to->arena != from->arena)
        return false;
    const int64_t base = to->base + (below(2) ? 0 : to->bytes / 4 * below(4));
    bool again = false;
    for (uint32_t i = at; !again && i < body->first_inst + body->n_insts; i++)
        for (uint32_t a = plan.insts[i].first_arg;
             a < plan.insts[i].first_arg + plan.insts[i].n_args; a++) {
            if (!same_place(&plan.args[a], from))
                continue;
            again = again || (i > at && plan.args[a].written);
            if (!again)
                RECORD(args, DtPlanArg, a)->base = base;
        }
    return base != from->base;
}

bool mutant_stride(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    uint32_t r = below(DT_PLAN_REG_SLOTS);
    return arg && arg->reg[r] && change(&arg->reg[r]);
}

bool mutant_length(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    return arg && (arg->bytes += below(2) ? 64 : -4, true);
}

bool mutant_coordinate(void)
{
    DtPlanArg *arg = any_arg(below(2) ? DT_ARG_ADDRESS : DT_ARG_INTEGER);
    uint32_t c = below(2);
    if (arg && arg->coord[c] && below(3) == 0 && plan.n_mesh > 1)
        return arg->coord_axis[c] = (uint8_t)((arg->coord_axis[c] + 1u) % plan.n_mesh), true;
    return arg && arg->coord[c] && change(&arg->coord[c]);
}

bool mutant_peer(void)
{
    DtPlanInst *inst = any_inst(DT_INST_SEND, DT_INST_RECV);
    uint32_t other = below(plan.n_channels);
    return inst && other != inst->ref && (inst->ref = other, true);
}

/* Whether the instruction has a note and the schedule runs it once. */
static bool has_note(uint32_t inst)
{
    return spans[inst].count == 1 && spans[inst].end > spans[inst].first;
}

static void cut_note(uint32_t from, uint32_t to)
{
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes;
    for (uint32_t i = 0; i < plan.n_notes; i++) {
        DtPlanNote *note = RECORD(notes, DtPlanNote, i);
        if (from < note->first || to > note->first + note->count)
            continue;
        memmove(notes + from, notes + to, note->first + note->count - to);
        note->count -= to - from;
    }
}

const DtPlanBody *body_of(uint32_t inst)
{
    for (uint32_t b = 0; b < plan.n_bodies; b++)
        if (inst >= plan.bodies[b].first_inst &&
            inst < plan.bodies[b].first_inst + plan.bodies[b].n_insts)
            return &plan.bodies[b];
    return NULL;
}

bool mutant_drop(void)
{
    uint32_t at = below(plan.n_insts);
    const DtPlanBody *body = body_of(at);
    bool silent = plan.insts[at].kind == DT_INST_ZERO || plan.insts[at].kind == DT_INST_READ ||
                  plan.insts[at].kind == DT_INST_WAIT;
    if (!body || body->n_insts < 2 || (!silent && !has_note(at)))
        return false;
    uint32_t last = body->first_inst + body->n_insts - 1;
    memmove(RECORD(insts, DtPlanInst, at), RECORD(insts, DtPlanInst, at + 1),
            (last - at) * sizeof(DtPlanInst));
    ((DtPlanBody *)COPY_OF(body))->n_insts--;
    if (!silent)
        cut_note(spans[at].first, spans[at].end);
    return true;
}

/* Makes an instruction do the same as the one before it. */
bool mutant_double(void)
{
    uint32_t at = below(plan.n_insts - 1);
    const DtPlanBody *body = body_of(at);
    if (!body || at + 1 >= body->first_inst + body->n_insts || !has_note(at) || !has_note(at + 1) ||
        spans[at].end != spans[at + 1].first)
        return false;
    uint32_t mine = spans[at].end - spans[at].first,
             theirs = spans[at + 1].end - spans[at + 1].first;
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes;
    if (mine > theirs)
        return false;
    *RECORD(insts, DtPlanInst, at + 1) = plan.insts[at];
    memcpy(notes + spans[at + 1].first, notes + spans[at].first, mine);
    cut_note(spans[at + 1].first + mine, spans[at + 1].end);
    return true;
}

bool mutant_swap(void)
{
    uint32_t at = below(plan.n_insts - 1);
    const DtPlanBody *body = body_of(at);
    if (!body || at + 1 >= body->first_inst + body->n_insts || !has_note(at) || !has_note(at + 1) ||
        spans[at].end != spans[at + 1].first)
        return false;
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes, kept[4096];
    uint32_t mine = spans[at].end - spans[at].first,
             theirs = spans[at + 1].end - spans[at + 1].first;
    if (mine > sizeof kept)
        return false;
    memcpy(kept, notes + spans[at].first, mine);
    memmove(notes + spans[at].first, notes + spans[at + 1].first, theirs);
    memcpy(notes + spans[at].first + theirs, kept, mine);
    *RECORD(insts, DtPlanInst, at) = plan.insts[at + 1];
    *RECORD(insts, DtPlanInst, at + 1) = plan.insts[at];
    return true;
}

bool mutant_group(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_SHIFT_BACK);
    uint32_t other = below(plan.n_groups);
    if (inst && below(3) == 0 && plan.n_groups > 0) {
        DtPlanGroup *record = RECORD(groups, DtPlanGroup, inst->ref);
        record->mask = 1u << below(plan.n_mesh);
        record->size = plan.mesh[__builtin_ctz(record->mask)].size;
        return record->mask != plan.groups[inst->ref].mask && !(record->stages = 0);
    }
    return inst && other != inst->ref && (inst->ref = other, true);
}

bool mutant_count(void)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    return inst->count > 1 && (inst->count = below(2) ? inst->count / 2 : inst->count - 1, true);
}

bool mutant_reduce(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_REDUCE_SCATTER);
    return inst && inst->kind != DT_INST_ALL_GATHER &&
           (inst->reduce = (uint16_t)((inst->reduce + 1 + below(2)) % 3), true);
}

bool mutant_dtype(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_RECV);
    return inst && (inst->dtype = (uint16_t)((inst->dtype + 1 + below(8)) % 10), true);
}

bool mutant_blocks(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_GATHER, DT_INST_ALL_TO_ALL);
    if (!inst)
        return false;
    if (below(2))
        return plan.n_blocks && (inst->blocks = below(plan.n_blocks + 1), true);
    if (!inst->blocks)
        return false;
    DtPlanBlocks *record = RECORD(blocks, DtPlanBlocks, inst->blocks - 1);
    uint32_t d = below(record->n_dims ? record->n_dims : 1), c = below(2);
    int64_t *const fields[] = {&record->to[d], &record->from[d], &record->to_coord[c],
                               &record->from_coord[c]};
    int64_t *field = fields[below(4)];
    return *field && change(field);
}

/* Returns the GEMM without what means nothing: strides of dimensions with extent 1. */
static DtPlanGemm meant(const DtPlanGemm *gemm)
{
    DtPlanGemm g = *gemm;
    if (g.m == 1)
        g.a_row = g.c_row = 0;
    if (g.n == 1)
        g.b_col = g.c_col = 0;
    if (g.k == 1)
        g.a_col = g.b_row = 0;
    for (uint32_t i = 0; i < DT_PLAN_MAX_BATCH; i++)
        if (i >= g.n_batch || g.batch[i] == 1)
            g.a_batch[i] = g.b_batch[i] = g.c_batch[i] = 0;
    return g;
}

bool mutant_product(void)
{
    DtPlanInst *inst = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    if (!inst)
        return false;
    const DtPlanGemm old = meant(&plan.gemms[inst->ref]);
    const bool other = below(2);
    if (other)
        inst->ref = below(plan.n_gemms);
    DtPlanGemm *gemm = RECORD(gemms, DtPlanGemm, inst->ref), now;
    int64_t *const strides[] = {&gemm->a_row, &gemm->a_col, &gemm->b_row,
                                &gemm->b_col, &gemm->c_row, &gemm->a_batch[0]};
    int64_t *field = strides[below(6)];
    if (!other && (!*field || !change(field)))
        return false;
    now = meant(gemm);
    return memcmp(&old, &now, sizeof old) != 0;
}

/* Another epilogue with as many operands; or the rows of its matrix get another distance. */
bool mutant_epilogue(void)
{
    DtPlanInst *inst = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    DtPlanGemm *gemm = inst ? RECORD(gemms, DtPlanGemm, inst->ref) : NULL;
    if (!gemm || !gemm->epilogue)
        return false;
    if (gemm->matrix_row && gemm->m > 1 && below(2))
        return gemm->matrix_row += 1 + below(8), true;
    const DtEpilogueInfo *info = &dt_kinds_epilogues[gemm->epilogue];
    const uint32_t other = 1 + below(DT_PLAN_EPILOGUES - 1), old = gemm->epilogue;
    if (dt_kinds_epilogues[other].vector != info->vector ||
        dt_kinds_epilogues[other].matrix != info->matrix)
        return false;
    gemm->epilogue = other;
    return other != old;
}

/* Wrong values in what a library is told about a kernel of attention: the scale, by much or by
 * 2^-40 of it; what a query sees; extents, strides, where a part begins, which argument it is. */
bool mutant_sdpa(void)
{
    const uint32_t at = below(plan.n_sdpas), part = below(DT_SDPA_PARTS),
                   other = below(DT_SDPA_PARTS);
    if (!plan.n_sdpas)
        return false;
    DtPlanSdpa *s = RECORD(sdpas, DtPlanSdpa, at);
    int64_t *const extents[] = {&s->batch, &s->heads, &s->kv_heads, &s->queries, &s->keys,
                                &s->head},
                  *const strides[] = {&s->of_row[part],
                                      s->heads > 1 ? &s->of_head[part] : &s->of_row[part],
                                      s->batch > 1 ? &s->of_batch[part] : &s->of_row[part]};
    int64_t *stride = strides[below(3)];
    switch (below(9)) {
    case 0:
        return s->scale *= 1 + (below(2) ? 1 : -1) * 1.0 / (double)(UINT64_C(1) << below(41)),
               s->scale != 0;
    case 1: return s->causal ^= 1u, true;
    case 2:
        return s->window +=
               s->window ? 1 - 2 * (int64_t)below(2) : 1 + below((uint64_t)s->keys - 1),
               s->keys > 1;
    case 3: return change(extents[below(6)]);
    case 4: return s->pointer[part] >= 0 && (*stride += below(2) ? 8 : *stride, true);
    case 5: return s->pointer[part] >= 0 && (s->offset[part] += 8, true);
    case 6: return s->dtype = below(4), true;
    case 7: return s->backward ^= 1u, true;
    default: {
        const int32_t kept = s->pointer[part];
        s->pointer[part] = s->pointer[other];
        s->pointer[other] = kept;
        return kept >= 0 && s->pointer[part] >= 0 && other != part;
    }
    }
}

/* ---- notes that are longer ---- */

/* Adds a byte to the bytes of the notes, before this one. */
static void insert_byte(uint32_t before, uint8_t byte)
{
    const uint32_t first = (uint32_t)((const uint8_t *)plan.blob - bytes + plan.logical->notes);
    DtPlanHeader *header = (DtPlanHeader *)copy;
    DtPlanSection *sections = (DtPlanSection *)(header + 1);
    memmove(copy + first + before + 1, copy + first + before, copy_len - first - before);
    copy[first + before] = byte;
    copy_len++;
    header->length++;
    for (uint32_t i = 0; i < header->n_sections; i++)
        if (memcmp(sections[i].tag, "BLOB", 4) == 0)
            sections[i].count++, sections[i].length++;
    RECORD(logical, DtPlanLogical, 0)->notes_len++;
    for (uint32_t i = 0; i < plan.n_notes; i++) {
        DtPlanNote *note = RECORD(notes, DtPlanNote, i);
        const bool behind = note->first >= before + (note->first == before && note->count == 0);
        if (note->first < before && before <= note->first + note->count)
            note->count++;
        else if (behind)
            note->first++;
    }
}

/* Returns the position after n words of the note. */
static uint32_t skip_words(uint32_t at, uint32_t n)
{
    const uint8_t *notes = (const uint8_t *)plan.blob + plan.logical->notes;
    for (; n; at++)
        n -= !(notes[at] & 0x80);
    return at;
}

/* A product rounds an f32 result to 16 bits; its readers read 16 bits. */
bool mutant_narrow(void)
{
    const uint8_t *notes = (const uint8_t *)plan.blob + plan.logical->notes;
    const DtPlanInst *found = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    const uint32_t at = found ? (uint32_t)(found - RECORD(insts, DtPlanInst, 0)) : 0;
    if (!found || !has_note(at))
        return false;
    const DtPlanInst *inst = &plan.insts[at];
    const DtPlanGemm *gemm = &plan.gemms[inst->ref];
    /* the words DO, 1, the op, A, B */
    const uint32_t word = skip_words(spans[at].first, 2 + 1 + 2);
    const DtPlanArg *to = &plan.args[inst->first_arg + 2];
    uint32_t half = 0;
    while (strcmp(dt_kinds_name(half), "bf16") != 0)
        half++;
    if (gemm->epilogue || strcmp(dt_kinds_name(gemm->dtype_c), "f32") != 0 || notes[word] & 31)
        return false;
    copy[(const uint8_t *)plan.blob - bytes + plan.logical->notes + word] |= DT_NOTE_DTYPE;
    insert_byte(skip_words(word, 1), (uint8_t)half);
    RECORD(gemms, DtPlanGemm, inst->ref)->dtype_c = half;
    for (uint32_t a = 0; a < plan.n_args; a++)
        if (same_place(&plan.args[a], to) && plan.args[a].bytes == to->bytes)
            RECORD(args, DtPlanArg, a)->bytes /= 2;
    return true;
}

bool mutant_accumulate(void)
{
    DtPlanInst *inst = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    return inst && (RECORD(gemms, DtPlanGemm, inst->ref)->accumulate ^= 1u, true);
}

bool mutant_kernel(void)
{
    DtPlanInst *inst = any_inst(DT_INST_KERNEL, DT_INST_KERNEL);
    uint32_t other = below(plan.n_kernels);
    if (!inst || other == inst->ref ||
        plan.kernels[other].n_pointers != plan.kernels[inst->ref].n_pointers ||
        plan.kernels[other].n_integers != plan.kernels[inst->ref].n_integers ||
        strcmp(dt_plan_str(&plan, plan.kernels[other].name),
               dt_plan_str(&plan, plan.kernels[inst->ref].name)) == 0)
        return false;
    inst->ref = other;
    return true;
}

/* Exchanges two arguments of an instruction: two that it reads, or two that it writes. */
static bool exchange(bool written)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    if (inst->n_args < 2)
        return false;
    uint32_t a = inst->first_arg + below(inst->n_args), b = inst->first_arg + below(inst->n_args);
    DtPlanArg *x = RECORD(args, DtPlanArg, a), *y = RECORD(args, DtPlanArg, b), kept = *x;
    if (x->kind != y->kind || x->written != written || y->written != written ||
        memcmp(x, y, sizeof *x) == 0)
        return false;
    *x = *y;
    *y = kept;
    return true;
}

bool mutant_operands(void) { return exchange(false); }
bool mutant_results(void) { return exchange(true); }

/* A block of attention runs in other iterations, or an instruction of it runs in all of them. */
bool mutant_guard(void)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    if (!inst->guards)
        return false;
    DtPlanArg *arg = RECORD(args, DtPlanArg, inst->first_arg + inst->n_args - 1u);
    switch (below(3)) {
    case 0: return inst->guards--, inst->n_args--, true;
    case 1: return arg->base += below(2) ? 1 : -1, true;
    default: return arg->coord[0] = -arg->coord[0], arg->coord[0] != 0;
    }
}

bool mutant_integer(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_INTEGER);
    uint32_t r = below(DT_PLAN_ARG_REGS);
    return arg && (below(2) && arg->reg[r] ? change(&arg->reg[r])
                                           : (arg->base += below(2) ? 1 : -1, true));
}
