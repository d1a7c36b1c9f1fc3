/* SPDX-License-Identifier: Apache-2.0 */
/* From the stream of one entry to plan records: offsets for temporaries outside of frames, then
 * arguments, instructions, bodies, schedule.
 *
 * Offsets: buffers inside attention, and copies that an op may need, go into gaps between what
 * pass `memory` has placed. They are live from the first to the last item that touches them (a
 * loop counts as one long item for buffers that existed before it). Largest first, each takes
 * the lowest offset that overlaps no buffer that is live at the same time. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "base/hash.h"
#include "ir/frame.h"
#include "ir/pipeline.h"
#include "plan/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- offsets ---- */

static int larger_first(const void *a, const void *b)
{
    const DtFrameRange *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1)
                                : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Lists the memory ranges of temporaries that are in frames or (framed false) of the others. offset
 * of a range outside frames: the number of its buffer. */
static uint32_t list_ranges(const DtEmit *e, bool framed, DtFrameRange *ret_ranges)
{
    uint32_t n = 0;
    for (uint32_t i = e->entry_buffer; i < e->buffers.n; i++) {
        const DtBuffer *buffer = &e->buffers.at[i];
        if (!buffer->fixed && buffer->framed == framed && buffer->first != UINT32_MAX)
            ret_ranges[n++] = (DtFrameRange){.bytes = buffer->bytes,
                                             .offset = framed ? buffer->offset : i,
                                             .first = buffer->first, .last = buffer->last};
    }
    return n;
}

static void place_temporaries(DtEmit *e)
{
    const uint32_t most = e->buffers.n - e->entry_buffer;
    DtArena *arena = dt_arena_child(e->arena);
    DtFrameRange *ranges = DT_NEW_ARRAY(arena, DtFrameRange, (size_t)most + 1);
    uint32_t *buffers = DT_NEW_ARRAY(arena, uint32_t, (size_t)most + 1);
    const uint32_t n_framed = list_ranges(e, true, ranges),
                   n = list_ranges(e, false, ranges + n_framed);
    qsort(ranges + n_framed, n, sizeof *ranges, larger_first);
    for (uint32_t i = 0; i < n; i++)
        buffers[i] = (uint32_t)ranges[n_framed + i].offset;
    const int64_t bytes = dt_frame_fit(arena, ranges, n_framed + n, n_framed);
    for (uint32_t i = 0; i < n; i++)
        e->buffers.at[buffers[i]].offset = ranges[n_framed + i].offset;
    if (bytes > e->arena_bytes[e->temporaries])
        e->arena_bytes[e->temporaries] = bytes;
    dt_arena_free(arena);
}

/* ---- records ---- */

/* Doubles the hash table of spans and enters all spans again. Open addressing: a slot has 1 + the
 * number of a record, or 0 if it is empty. */
static void grow_span_slots(DtEmit *e)
{
    e->n_span_slots = e->n_span_slots ? 2 * e->n_span_slots : 256;
    e->span_slots = DT_NEW_ARRAY(e->arena, uint32_t, e->n_span_slots);
    for (uint32_t i = 0; i < e->plan->spans.n; i++) {
        uint32_t at =
            (uint32_t)dt_hash_bytes(&e->plan->spans.at[i], sizeof e->plan->spans.at[i], 0) &
            (e->n_span_slots - 1);
        while (e->span_slots[at])
            at = (at + 1) & (e->n_span_slots - 1);
        e->span_slots[at] = i + 1;
    }
}

uint32_t dt_finish_span(DtEmit *e, DtSpan span, const char *path, const char *text)
{
    const DtDiags *diags = e->module->diags;
    DtPlanSpan record = {.path = dt_write_str(e->plan, path ? path : ""),
                         .text = dt_write_str(e->plan, text ? text : "")};
    if (diags && span.file) {
        dt_diag_position(diags, span, &record.line, &record.column);
        record.file = dt_write_str(e->plan, dt_diag_path(diags, span.file));
    }
    uint64_t hash = dt_hash_bytes(&record, sizeof record, 0);
    if (2 * e->plan->spans.n >= e->n_span_slots)
        grow_span_slots(e);
    uint32_t at = (uint32_t)hash & (e->n_span_slots - 1);
    for (; e->span_slots[at]; at = (at + 1) & (e->n_span_slots - 1))
        if (memcmp(&e->plan->spans.at[e->span_slots[at] - 1], &record, sizeof record) == 0)
            return e->span_slots[at] - 1;
    DT_PUSH(e->plan->arena, e->plan->spans, record);
    e->span_slots[at] = e->plan->spans.n;
    return e->plan->spans.n - 1;
}

static void push_arg(DtEmit *e, const DtEArg *from)
{
    DtPlanArg arg = {.kind = from->kind, .written = from->written, .base = from->base,
                     .bytes = from->bytes};
    memcpy(arg.reg, from->reg, sizeof arg.reg);
    memcpy(arg.coord, from->coord, sizeof arg.coord);
    memcpy(arg.coord_axis, from->coord_axis, sizeof arg.coord_axis);
    if (from->kind == DT_ARG_ADDRESS) {
        const DtBuffer *buffer = &e->buffers.at[from->buffer];
        arg.arena = (uint8_t)buffer->arena;
        arg.base += buffer->offset;
    }
    DT_PUSH(e->plan->arena, e->plan->args, arg);
}

static double gemm_flops(const DtPlanGemm *g)
{
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    for (uint32_t i = 0; i < g->n_batch; i++)
        flops *= (double)g->batch[i];
    return flops;
}

/* The number of ranks that run the entry. */
static double ranks_of(const DtEmit *e)
{
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    return (double)e->plan->meta.at[0].n_ranks / (pipeline ? pipeline->n_stages : 1);
}

static void push_inst(DtEmit *e, const DtItem *item, double trips, bool counts)
{
    DtPlanInst inst = item->inst;
    inst.first_arg = e->plan->args.n;
    for (uint32_t i = 0; i < inst.n_args; i++)
        push_arg(e, &e->args.at[item->inst.first_arg + i]);
    inst.span = dt_finish_span(e, item->span, item->path, item->text);
    if (counts && inst.kind == DT_INST_GEMM)
        e->plan->meta.at[0].flops +=
            trips * item->share * gemm_flops(&e->plan->gemms.at[inst.ref]) * ranks_of(e);
    DT_PUSH(e->plan->arena, e->plan->insts, inst);
}

/* Returns a hash of a body's instructions and arguments that does not depend on where these are in
 * the plan, so that equal bodies have equal hashes. */
static uint64_t hash_body(const DtEmit *e, uint32_t first_inst, uint32_t n_insts,
                          uint32_t first_arg)
{
    const DtPlanBuilder *plan = e->plan;
    uint64_t hash = dt_hash_bytes(plan->args.at + first_arg,
                                  (plan->args.n - first_arg) * sizeof(DtPlanArg), n_insts);
    for (uint32_t i = 0; i < n_insts; i++) {
        DtPlanInst inst = plan->insts.at[first_inst + i];
        inst.first_arg -= first_arg;
        hash = dt_hash_bytes(&inst, sizeof inst, hash);
    }
    return hash;
}

static bool same_body(const DtEmit *e, const DtPlanBody *old, uint32_t first_inst, uint32_t n_insts,
                      uint32_t first_arg)
{
    const DtPlanBuilder *plan = e->plan;
    if (old->n_insts != n_insts)
        return false;
    uint32_t from = plan->insts.at[old->first_inst].first_arg;
    for (uint32_t i = 0; i < n_insts; i++) {
        DtPlanInst a = plan->insts.at[old->first_inst + i], b = plan->insts.at[first_inst + i];
        a.first_arg -= from;
        b.first_arg -= first_arg;
        if (memcmp(&a, &b, sizeof a) != 0)
            return false;
    }
    return memcmp(plan->args.at + from, plan->args.at + first_arg,
                  (plan->args.n - first_arg) * sizeof(DtPlanArg)) == 0;
}

/* Makes a body of the instructions from first_inst on, and returns its number. In a pipeline, if
 * there is an equal body already, removes the instructions and returns that one. */
static uint32_t push_body(DtEmit *e, const char *name, uint32_t first_inst, uint32_t first_arg)
{
    DtPlanBuilder *plan = e->plan;
    uint32_t n_insts = plan->insts.n - first_inst, n_args = plan->args.n - first_arg;
    uint64_t hash = hash_body(e, first_inst, n_insts, first_arg);
    for (uint32_t i = 0; e->module->pipeline && i < e->bodies.n; i++)
        if (e->bodies.at[i].hash == hash && e->bodies.at[i].n_args == n_args &&
            same_body(e, &plan->bodies.at[e->bodies.at[i].body], first_inst, n_insts, first_arg)) {
            plan->insts.n = first_inst;
            plan->args.n = first_arg;
            return e->bodies.at[i].body;
        }
    char text[64];
    snprintf(text, sizeof text, "%s.%u", name, plan->bodies.n);
    DtPlanBody body = {.name = dt_write_str(plan, text), .first_inst = first_inst,
                       .n_insts = n_insts};
    DT_PUSH(plan->arena, plan->bodies, body);
    DT_PUSH(e->arena, e->bodies, ((DtEBody){hash, plan->bodies.n - 1, n_args}));
    return plan->bodies.n - 1;
}

/* Finds the bodies that are second forms of products among the instructions from item `at` on, and
 * stores their numbers in the products. They precede the body with the products. */
static void push_forms(DtEmit *e, const char *name, uint32_t at)
{
    for (; at < e->items.n && e->items.at[at].kind == DT_ITEM_INST; at++) {
        const uint32_t first_inst = e->plan->insts.n, first_arg = e->plan->args.n;
        DtItem *product = &e->items.at[at];
        for (; at + 1 < e->items.n && e->items.at[at + 1].instead; at++)
            push_inst(e, &e->items.at[at + 1], 0, false);
        if (e->plan->insts.n > first_inst)
            product->inst.instead = 1 + push_body(e, name, first_inst, first_arg);
    }
}

/* Returns how often a step runs the entry: 1 / k times if it belongs to a loss that only every k-th
 * step minimises, else once. */
static double turns_of(const DtEmit *e, const char *name)
{
    const DtTrainConfig *train = e->program->train;
    for (uint32_t i = 0; train && i < train->objectives.n; i++) {
        const DtEntryPoint grad =
            dt_entry_new(DT_ENTRY_GRAD, train->objectives.at[i].name, DT_PART_WHOLE, -1);
        if (strcmp(dt_entry_run(&grad), name) == 0)
            return 1 / (double)train->objectives.at[i].every;
    }
    return 1;
}

/* Writes the PEAK of the entry whose record is the last one. A tensor outside of any layer's
 * instance gets the name of its function. */
static void push_peak(DtEmit *e)
{
    DtPlanPeak peak;
    const uint32_t item = dt_remarks_peak(e, &peak);
    if (peak.live == 0 || e->temporaries != DT_ARENA_ACTIVATIONS)
        return;
    peak.entry = e->plan->entries.n - 1;
    if (item < e->items.n) {
        const DtItem *at = &e->items.at[item];
        const char *path = at->path && *at->path ? at->path : dt_graph_defined(e->module, at->span);
        peak.span = dt_finish_span(e, at->span, path, at->text);
    }
    DT_PUSH(e->plan->arena, e->plan->peaks, peak);
}

void dt_finish_entry(DtEmit *e, const char *name)
{
    DtPlanEntry entry = {.name = dt_write_str(e->plan, name), .first = e->plan->schedule.n,
                         .stage = e->module->pipeline ? e->stage : DT_PLAN_NONE};
    double trips[DT_PLAN_MAX_DEPTH + 2] = {e->trips * turns_of(e, name)};
    const bool counts = dt_plan_name(name).run == DT_PLAN_STEP;
    /* positions of the WHEN items that are open */
    uint32_t depth = 0, n_open = 0, open[DT_PLAN_MAX_DEPTH + 2];
    place_temporaries(e);
    for (uint32_t i = 0; i < e->items.n; i++) {
        const DtItem *item = &e->items.at[i];
        if (item->kind == DT_ITEM_CLOSE) {
            const uint32_t when = open[--n_open];
            e->plan->schedule.at[when].body = e->plan->schedule.n - when - 1;
            continue;
        }
        if (item->kind != DT_ITEM_INST) {
            if (item->loop.kind == DT_SCHED_WHEN)
                open[n_open++] = e->plan->schedule.n;
            if (n_open == DT_COUNT(open))
                DT_BUG("conditions in one another");
            DT_PUSH(e->plan->arena, e->plan->schedule, item->loop);
            if (item->kind == DT_ITEM_LOOP) {
                trips[depth + 1] = trips[depth] * (double)item->loop.count;
                depth++;
            } else if (item->kind == DT_ITEM_END) {
                depth--;
            }
            continue;
        }
        push_forms(e, name, i);
        uint32_t first_inst = e->plan->insts.n, first_arg = e->plan->args.n;
        for (; i < e->items.n && e->items.at[i].kind == DT_ITEM_INST; i++)
            if (!e->items.at[i].instead)
                push_inst(e, &e->items.at[i], trips[depth], counts);
        i--;
        DtPlanSchedule run = {.kind = DT_SCHED_RUN,
                              .body = push_body(e, name, first_inst, first_arg)};
        DT_PUSH(e->plan->arena, e->plan->schedule, run);
    }
    entry.count = e->plan->schedule.n - entry.first;
    DT_PUSH(e->plan->arena, e->plan->entries, entry);
    push_peak(e);
    DT_PUSH(e->plan->arena, e->plan->notes, ((DtPlanNote){(uint32_t)e->all_notes.len,
                                                          (uint32_t)e->notes.len}));
    dt_text_add_n(&e->all_notes, e->notes.at ? e->notes.at : "", e->notes.len);
}

/* ---- arguments ---- */

/* Finds the instruction's arguments among those kept so far, and keeps them if no equal sequence is
 * there; returns the first. slots: a hash table like that of spans, of 1 + number of an instruction
 * whose arguments are kept. */
static uint32_t keep_args(DtPlanBuilder *plan, uint32_t inst, uint32_t *slots, uint32_t n_slots,
                          uint32_t *n_kept)
{
    const DtPlanInst *insts = plan->insts.at;
    const uint32_t first = insts[inst].first_arg, n = insts[inst].n_args;
    const size_t bytes = n * sizeof(DtPlanArg);
    uint32_t at = (uint32_t)dt_hash_bytes(plan->args.at + first, bytes, n) & (n_slots - 1);
    for (; slots[at]; at = (at + 1) & (n_slots - 1)) {
        const DtPlanInst *old = &insts[slots[at] - 1];
        if (old->n_args == n &&
            memcmp(plan->args.at + old->first_arg, plan->args.at + first, bytes) == 0)
            return old->first_arg;
    }
    slots[at] = inst + 1;
    memmove(plan->args.at + *n_kept, plan->args.at + first, bytes);
    *n_kept += n;
    return *n_kept - n;
}

/* Lets instructions with equal arguments share them, since stages of a pipeline differ in few.
 * Arguments are in the order of instructions, so kept ones move to lower indices. */
static void share_args(DtEmit *e)
{
    DtPlanBuilder *plan = e->plan;
    uint32_t n_slots = 16, n_kept = 0;
    while (n_slots < 2 * plan->insts.n)
        n_slots *= 2;
    uint32_t *slots = DT_NEW_ARRAY(e->arena, uint32_t, n_slots);
    for (uint32_t i = 0; i < plan->insts.n; i++)
        if (plan->insts.at[i].n_args)
            plan->insts.at[i].first_arg = keep_args(plan, i, slots, n_slots, &n_kept);
        else
            plan->insts.at[i].first_arg = n_kept;
    plan->args.n = n_kept;
}

/* True if other ranks read or write the arena in place: it holds an operand of a collective, or the
 * result of a reduction. The others stay private memory of their rank, which the system can map in
 * large pages. */
static bool is_shared(const DtEmit *e, uint32_t arena)
{
    for (uint32_t i = 0; i < e->plan->insts.n; i++) {
        const DtPlanInst *inst = &e->plan->insts.at[i];
        if (inst->kind < DT_INST_ALL_REDUCE || inst->kind == DT_INST_SEND ||
            inst->kind == DT_INST_RECV)
            continue;
        /* these collectives write `to` on its own rank only */
        bool own = inst->kind >= DT_INST_ALL_GATHER && inst->kind <= DT_INST_SHIFT_BACK;
        for (uint32_t a = own ? 1 : 0; a < inst->n_args; a++) {
            const DtPlanArg *arg = &e->plan->args.at[inst->first_arg + a];
            if (arg->kind == DT_ARG_ADDRESS && arg->arena == arena)
                return true;
        }
    }
    return false;
}

static void add_arenas(DtEmit *e)
{
    static const char *const names[DT_EMIT_ARENAS] = {"parameters", "gradients", "optimizer",
                                                      "activations", "inputs", "scalars",
                                                      "workspace", "predict", "predicted",
                                                      "instead", "in flight", "in flight 2"};
    const DtPipelineSchedule *pipeline = e->module->pipeline;
    uint32_t n = pipeline ? DT_EMIT_ARENAS : DT_ARENA_KINDS;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = i < DT_ARENA_KINDS ? i : DT_ARENA_ACTIVATIONS;
        DtPlanArena arena = {.name = dt_write_str(e->plan, names[i]),
                             .kind = kind,
                             .shared = is_shared(e, i),
                             .bytes = e->arena_bytes[i]};
        for (uint32_t s = 0; pipeline && s < pipeline->n_stages; s++)
            if (dt_pipeline_arena(e, i, s) > arena.bytes)
                arena.bytes = dt_pipeline_arena(e, i, s);
        DT_PUSH(e->plan->arena, e->plan->arenas, arena);
    }
    for (uint32_t s = 0; pipeline && s < pipeline->n_stages; s++)
        for (uint32_t i = 0; i < n; i++)
            DT_PUSH(e->plan->arena, e->plan->sizes,
                    ((DtPlanArenaSize){dt_pipeline_arena(e, i, s)}));
}

/* Refuses plans that need more memory than any machine has. */
static DtStatus check_arenas(const DtEmit *e)
{
    char need[32], most[32], advice[120] = "split the model over more ranks, or use more "
                                           "micro-batches or a smaller batch";
    const DtTrainConfig *train = e->program->train;
    double total = 0, of_rows = 0;
    for (uint32_t i = 0; i < e->plan->arenas.n; i++) {
        const DtPlanArena *arena = &e->plan->arenas.at[i];
        total += (double)arena->bytes;
        of_rows += dt_plan_grows_with_rows(arena->kind) ? (double)arena->bytes : 0;
    }
    if (total <= (double)DT_PLAN_MAX_BYTES)
        return DT_OK;
    if (train && train->cached_rows > 1 && of_rows > total / 2)
        snprintf(advice, sizeof advice, "generate fewer texts at a time than `rows = %lld`",
                 (long long)train->cached_rows);
    return dt_status_fail(DT_EXIT_DOES_NOT_FIT, "a rank needs %s, and a plan holds at most %s: %s",
                          dt_text_bytes(need, total),
                          dt_text_bytes(most, (double)DT_PLAN_MAX_BYTES), advice);
}

DtStatus dt_finish_plan(DtEmit *e)
{
    add_arenas(e);
    DtStatus status = check_arenas(e);
    if (e->module->pipeline)
        share_args(e);
    dt_stacked_records(e);
    if (dt_status_ok(&status) && e->options->ret_c)
        for (uint32_t i = 0; i < e->kernel_texts.n; i++)
            dt_text_add(e->options->ret_c, e->kernel_texts.at[i]);
    if (dt_status_ok(&status))
        status = e->target->build(e);
    if (dt_status_ok(&status) && e->options->logical &&
        !dt_logical_write(e->plan, e->options->logical, &e->all_notes))
        status = dt_status_fail(DT_EXIT_DOES_NOT_FIT, "the program's text is too long for a plan");
    dt_text_free(&e->notes);
    dt_text_free(&e->all_notes);
    return status;
}
