/* SPDX-License-Identifier: Apache-2.0 */
/* From a group of ops to one kernel instruction: builds the kernel, prints it, shares the text with
 * equal kernels, and makes the instruction's arguments. */
#include "codegen/emit.h"

#include "base/bug.h"
#include "base/hash.h"
#include "base/intern.h"
#include "ir/pipeline.h"
#include "plan/notes.h"

#include <stdio.h>
#include <string.h>

typedef struct Views { /* context of the callbacks of the kernel builder */
    DtEmit *e;
} Views;

static const DtView *view_of(void *context, const DtValue *value)
{
    DtEmit *e = ((Views *)context)->e;
    DtPlace *place = dt_place_find(e, value);
    return place ? &place->view : NULL;
}

static bool is_index(void *context, const DtValue *value)
{
    const DtScope *scope = ((Views *)context)->e->scope;
    if (scope->func->kind == DT_FUNC_KERNEL) { /* an input of a kernel's function stands for the
                                                * op's operand */
        value = scope->op->in[value->index];
        scope = scope->parent;
    }
    return scope->loop && scope->func->inputs.n && scope->func->inputs.at[0] == value;
}

static const DtAxis *origin_of(void *context, const DtOp *iota)
{
    const DtEmit *e = ((Views *)context)->e;
    for (uint32_t i = 0; i < e->origins.n; i++)
        if (e->origins.at[i].iota == iota)
            return e->origins.at[i].axis;
    return NULL;
}

static const DtKDraw *draw_of(void *context, const DtOp *draw)
{
    const DtEmit *e = ((Views *)context)->e;
    for (uint32_t i = 0; i < e->draws.n; i++)
        if (e->draws.at[i].draw == draw)
            return &e->draws.at[i];
    return NULL;
}

/* Whether the load reads what the store overwrites: same buffer, same elements. */
static bool is_overwritten(const DtKernel *k, const DtKNode *load, const DtPlace *from,
                           const DtKStore *store, const DtPlace *to)
{
    bool same = load->n_index == 0 && load->offset == store->offset &&
                k->pattern != DT_KPATTERN_SCAN && k->pattern != DT_KPATTERN_TOPK &&
                k->pattern != DT_KPATTERN_SCATTER && from->view.dtype == to->view.dtype &&
                from->view.offset == to->view.offset &&
                memcmp(from->reg, to->reg, sizeof to->reg) == 0 &&
                memcmp(from->coord, to->coord, sizeof to->coord) == 0;
    for (uint32_t a = 0; a < k->n_axes; a++)
        same = same && (load->coef[a] == store->stride[a]);
    return same;
}

static const DtPlace *output_place(const DtKernel *k, const DtKStore *store,
                                   const DtOutput *outputs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (outputs[i].value == k->pointers.at[store->pointer].value)
            return &outputs[i].place;
    return NULL;
}

/* Marks stores of where(c, x, old) over old: where c is false, the place has the value already. A
 * step of text that is generated with a cache so writes the new positions alone. */
static void mark_kept(DtKernel *k, const DtOutput *outputs, uint32_t n, DtEmit *e)
{
    for (uint32_t s = 0; s < k->stores.n && !k->special && !k->attend; s++) {
        DtKStore *store = &k->stores.at[s];
        const DtKNode *node = &k->nodes.at[store->node];
        const DtPlace *to = output_place(k, store, outputs, n);
        if (node->kind != DT_KNODE_MAP || node->map != DT_OP_WHERE || store->accumulate || !to)
            continue;
        const DtKNode *old = &k->nodes.at[node->args[2]];
        if (old->kind != DT_KNODE_LOAD)
            continue;
        const DtPlace *from = dt_place_find(e, k->pointers.at[old->pointer].value);
        if (from && from->view.buffer == to->view.buffer && is_overwritten(k, old, from, store, to))
            store->only = node->args[0];
    }
}

/* Whether every read of an output's memory is at the index that is written: then the kernel may run
 * in place. */
static bool in_place_is_safe(const DtKernel *k, const DtOutput *outputs, uint32_t n, DtEmit *e)
{
    for (uint32_t s = 0; s < k->stores.n; s++) {
        const DtKStore *store = &k->stores.at[s];
        const DtPlace *to = output_place(k, store, outputs, n);
        for (uint32_t i = 0; to && i < k->nodes.n; i++) {
            const DtKNode *node = &k->nodes.at[i];
            if (node->kind != DT_KNODE_LOAD)
                continue;
            const DtPlace *place = dt_place_find(e, k->pointers.at[node->pointer].value);
            if (dt_place_apart(place, to))
                continue;
            for (uint32_t o = 0; o < k->stores.n; o++) /* a later phase would read what this phase
                                                        * has overwritten */
                /* a sum over rows is stored in the phase of its terms */
                if (!k->nodes.at[store->node].after_rows &&
                    k->nodes.at[k->stores.at[o].node].phase > k->nodes.at[store->node].phase)
                    return false;
            if (!is_overwritten(k, node, place, store, to))
                return false;
        }
    }
    return true;
}

/* ---- integer arguments ---- */

static DtEArg bases_arg(DtEmit *e, const DtKInt *value)
{
    DtEArg arg = {.kind = DT_ARG_INTEGER};
    const DtMesh *mesh = &e->module->mesh;
    uint32_t n_coords = 0, first_device = dt_emit_first_device(mesh);
    for (uint32_t i = 0; i < value->n; i++) {
        int64_t block = value->axis[i].extent;
        for (uint32_t s = 0; s < value->axis[i].n_split; s++) {
            uint32_t m = value->axis[i].split[s];
            block /= mesh->axes[m].size;
            if (mesh->axes[m].is_time) {
                arg.reg[0] += value->multiplier[i] * block;
                continue;
            }
            uint32_t c = 0;
            while (c < n_coords && arg.coord_axis[c] != m - first_device)
                c++;
            if (c == DT_PLAN_COORDS)
                DT_BUG("an index depends on more than %d mesh axes", DT_PLAN_COORDS);
            if (c == n_coords)
                arg.coord_axis[n_coords++] = (uint8_t)(m - first_device);
            arg.coord[c] += value->multiplier[i] * block;
        }
    }
    return arg;
}

/* The factor of the stage in the number of the loop's first iteration. In a class it is the loop's
 * step, 0 for a loop that no stage cuts. Otherwise it is the number of iterations, so that
 * consecutive stages with equally many iterations share the instruction. */
static int64_t first_step(const DtEmit *e, const DtLoop *loop)
{
    if (!e->module->pipeline || loop->axis[0] == '@') /* loops made by the compiler are not cut into
                                                       * stages */
        return 0;
    return e->in_class ? loop->first_step : loop->count;
}

/* Adds stride times the number of the loop's first iteration, on the rank's stage, to arg. */
static void add_first(DtEmit *e, DtEArg *arg, const DtLoop *loop, int64_t stride)
{
    const int64_t step = first_step(e, loop);
    arg->base += stride * loop->first;
    if (step == 0)
        return;
    arg->coord_axis[0] =
        (uint8_t)(e->module->pipeline->mesh - dt_emit_first_device(&e->module->mesh));
    arg->coord[0] += stride * step;
    arg->base -= stride * step * e->class_first;
}

DtEArg dt_launch_integer(DtEmit *e, const DtKInt *value)
{
    DtEArg arg = {.kind = DT_ARG_INTEGER};
    int64_t stride = 1;
    switch (value->kind) {
    case DT_KINT_BASES: return bases_arg(e, value);
    case DT_KINT_STEP: arg.kind = DT_ARG_STEP; break;
    case DT_KINT_ELEMENT:
        arg.base = value->first * value->per_first;
        for (uint32_t i = 0; i < value->n_loops; i++)
            arg.reg[value->reg + i] += value->per_loop[i];
        break;
    case DT_KINT_INDEX: {
        const DtScope *scope = e->scope->loop ? e->scope : e->scope->parent; /* of a kernel */
        arg.reg[scope->reg] = 1;
        add_first(e, &arg, scope->loop, 1);
        break;
    }
    case DT_KINT_ITERATION:
        for (const DtScope *scope = e->scope; scope; scope = scope->parent) {
            if (!scope->loop) /* a call */
                continue;
            arg.reg[scope->reg] = stride;
            add_first(e, &arg, scope->loop, stride);
            stride *= scope->loop->count;
        }
        break;
    }
    return arg;
}

/* ---- kernels of the plan ---- */

enum { MOST_ALIGNED = 16 }; /* bytes: the widest access of any target */

/* The largest power of two that divides all addresses which the argument may have: buffers begin at
 * multiples of DT_PLAN_ALIGN, and registers and coordinates are integers. */
static uint32_t align_of(const DtEArg *arg)
{
    uint64_t bits = MOST_ALIGNED | (uint64_t)arg->base;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        bits |= (uint64_t)arg->reg[r];
    for (uint32_t i = 0; i < DT_PLAN_COORDS; i++)
        bits |= (uint64_t)arg->coord[i];
    return (uint32_t)(bits & (~bits + 1));
}

/* Hash of a kernel's text without its comments, which are names of values and axes. */
static uint64_t hash_code(const char *text, uint64_t seed)
{
    for (const char *from = text; from;) {
        const char *comment = strstr(from, "/*"), *behind = comment ? strstr(comment, "*/") : NULL;
        seed = dt_hash_bytes(from, comment ? (size_t)(comment - from) : strlen(from), seed);
        from = behind ? behind + 2 : NULL;
    }
    return seed;
}

/* Prints the kernel's text, unless an earlier kernel has the same text; returns the number of the
 * kernel that has it. */
static uint32_t print_kernel(DtEmit *e, DtKernel *k)
{
    DtText text = {0};
    const char *symbol = dt_arena_printf(e->arena, "dt_k%u", e->kernel_hashes.n);
    k->symbol = e->target->says_lines ? "dt_k" : symbol; /* a new kernel is printed again with its
                                                          * own symbol */
    size_t body = e->target->print(k, e->module->diags, false, &text);
    uint64_t hash = hash_code(text.at + body, dt_hash_text(k->name, 0));
    /* hashes what differs by target, too, so that all targets number kernels alike */
    for (uint32_t i = 0; i < k->pointers.n; i++)
        hash = dt_hash_bytes(&k->pointers.at[i].align, sizeof k->pointers.at[i].align, hash);
    if (k->sdpa)
        hash = dt_hash_bytes(k->sdpa, sizeof *k->sdpa, hash);
    for (uint32_t i = 0; i < e->kernel_hashes.n; i++)
        if (e->kernel_hashes.at[i] == hash) {
            dt_text_free(&text);
            return i;
        }
    k->symbol = symbol;
    if (e->target->says_lines) {
        text.len = 0;
        e->target->print(k, e->module->diags, true, &text);
    }
    DT_PUSH(e->arena, e->kernel_hashes, hash);
    DT_PUSH(e->arena, e->kernel_texts, dt_arena_strndup(e->arena, text.at, text.len));
    dt_text_free(&text);
    return e->kernel_hashes.n - 1;
}

static uint32_t plan_kernel(DtEmit *e, DtKernel *k)
{
    if (e->options->no_texts) {
        k->symbol = dt_arena_printf(e->arena, "dt_k%u", e->plan->kernels.n);
        DT_PUSH(e->arena, e->kernel_texts, "");
    } else {
        const uint32_t number = print_kernel(e, k);
        if (number < e->plan->kernels.n)
            return number;
    }
    DT_PUSH(e->arena, e->kernel_spans, k->span);
    DtPlanKernel record = {.symbol = dt_write_str(e->plan, k->symbol),
                           .name = dt_write_str(e->plan, k->name), .n_pointers = k->pointers.n,
                           .n_integers = k->ints.n, .flops = k->flops, .bytes = k->bytes};
    record.special = k->special_flops;
    DT_PUSH(e->plan->arena, e->plan->kernels, record);
    dt_remarks_attention(e, k, e->plan->kernels.n - 1);
    if (k->sdpa) {
        DtPlanSdpa sdpa = *k->sdpa;
        sdpa.kernel = e->plan->kernels.n - 1;
        DT_PUSH(e->plan->arena, e->plan->sdpas, sdpa);
    }
    if (e->target->launch)
        DT_PUSH(e->plan->arena, e->plan->launches, e->target->launch(k));
    return e->plan->kernels.n - 1;
}

static const char *name_of(const DtKernelInput *input, DtArena *arena)
{
    DtText text = {0};
    for (uint32_t i = 0; i < input->n_ops && text.len < 60; i++)
        dt_text_printf(&text, "%s%s", i ? "+" : "", dt_op_info[input->ops[i]->kind].text);
    const char *name = dt_arena_strndup(arena, text.at, text.len);
    dt_text_free(&text);
    return name;
}

/* Writes the note: the kernel's ops and the values of its arguments. */
static void note_kernel(DtEmit *e, const DtKernel *k, uint32_t number, const DtKernelInput *input,
                        const DtOutput *outputs)
{
    dt_note_do(e, input->ops, e->copied ? 0 : input->n_ops);
    dt_note_words(e, 1, (int64_t[]){number});
    for (uint32_t i = 0; i < k->pointers.n; i++) {
        const DtKPointer *pointer = &k->pointers.at[i];
        const DtOutput *output = outputs;
        const DtValue *old = NULL;
        uint32_t flags = 0;
        if (!pointer->written) {
            const bool spare =
                k->attend && k->attend->dot != DT_KNONE && i == k->attend->result.pointer;
            dt_note_read_as(e, e->copied ? e->copied : pointer->value, pointer->view,
                            spare ? DT_NOTE_SPARE : 0);
            continue;
        }
        while (output->value != pointer->value)
            output++;
        for (uint32_t r = 0; r < k->pointers.n; r++)
            if (!k->pointers.at[r].written &&
                dt_place_same(dt_place_find(e, k->pointers.at[r].value), &output->place))
                old = e->copied ? e->copied : k->pointers.at[r].value;
        if (output->accumulate)
            flags |= DT_NOTE_ADDS;
        else if (k->pattern == DT_KPATTERN_SCATTER)
            flags |= DT_NOTE_ZEROED;
        if (output->block)
            flags |= DT_NOTE_OF_BLOCK;
        dt_note_over(e, e->copied ? e->copied : pointer->value, &output->place, flags, old);
    }
    for (uint32_t i = 0; i < k->ints.n; i++)
        dt_note_integer(e, &k->ints.at[i]);
}

/* Returns the input of the kernel builder for these ops and outputs. It points to `views`, which
 * must outlive it. */
static DtKernelInput input_of(DtEmit *e, Views *views, const DtOp *const *ops, uint32_t n_ops,
                              const DtOutput *outputs, uint32_t n_outputs)
{
    DtKOutput *wanted = DT_NEW_ARRAY(e->scratch, DtKOutput, n_outputs + 1);
    for (uint32_t i = 0; i < n_outputs; i++)
        wanted[i] = (DtKOutput){outputs[i].value, &outputs[i].place.view, outputs[i].accumulate};
    const DtOp *fused = e->scope->func->kind == DT_FUNC_KERNEL ? e->scope->op : NULL;
    return (DtKernelInput){.module = e->module,
                           .arena = e->scratch,
                           .seed = e->seed,
                           .path = e->scope->path,
                           .view = view_of,
                           .is_index = is_index,
                           .origin = origin_of,
                           .draw = draw_of,
                           .context = views,
                           .ops = ops,
                           .n_ops = n_ops,
                           .rows = fused ? fused->axes : e->rows ? &e->rows : NULL,
                           .n_rows = fused ? fused->n_axes : e->rows ? 1 : 0,
                           .outputs = wanted,
                           .n_outputs = n_outputs,
                           .attention = e->attention,
                           .choose_order = e->order_as->order};
}

const char *dt_launch_refuses(DtEmit *e, const DtOp *const *ops, uint32_t n_ops,
                              const DtOutput *outputs, uint32_t n_outputs)
{
    Views views = {e};
    const DtKernelInput input = input_of(e, &views, ops, n_ops, outputs, n_outputs);
    const DtKernel *k = dt_kernel_build(&input);
    return k ? e->target->attends(k) : "it is not made of rows of queries and keys";
}

/* Looks for a library call that may replace the kernel. If there is none, the kernel does not take
 * the arguments that only the library would read. */
static void find_library(DtEmit *e, DtKernel *k)
{
    if (!k->attend || !e->target->library)
        return;
    if (!e->options->no_texts) /* a plan without texts of kernels is never run */
        k->sdpa = e->target->library(k, e->arena);
    if (k->sdpa || k->attend->dot == DT_KNONE)
        return;
    k->attend->dot = DT_KNONE;
    k->pointers.n--; /* the result is the last one */
}

bool dt_launch_kernel(DtEmit *e, const DtOp *const *ops, uint32_t n_ops, const DtOutput *outputs,
                      uint32_t n_outputs)
{
    Views views = {e};
    const DtKernelInput input = input_of(e, &views, ops, n_ops, outputs, n_outputs);
    DtKernel *k = dt_kernel_build(&input);
    find_library(e, k);
    if (!in_place_is_safe(k, outputs, n_outputs, e))
        return false;
    mark_kept(k, outputs, n_outputs, e);
    k->name = name_of(&input, e->arena);
    uint32_t n_args = k->pointers.n + k->ints.n;
    DtEArg *args = DT_NEW_ARRAY(e->scratch, DtEArg, n_args + 1);
    for (uint32_t i = 0; i < k->pointers.n; i++) {
        const DtKPointer *pointer = &k->pointers.at[i];
        const DtPlace *place = dt_place_find(e, pointer->value);
        for (uint32_t o = 0; pointer->written && o < n_outputs; o++)
            if (outputs[o].value == pointer->value)
                place = &outputs[o].place;
        args[i] = dt_place_arg(e, place, pointer->written);
        /* other kernels with this text may have other addresses */
        k->pointers.at[i].align = e->repeats ? 0 : align_of(&args[i]);
    }
    for (uint32_t i = 0; i < k->ints.n; i++)
        args[k->pointers.n + i] = dt_launch_integer(e, &k->ints.at[i]);
    if (k->pattern == DT_KPATTERN_SCATTER && !outputs[0].accumulate) {
        DtEArg target = dt_place_arg(e, &outputs[0].place, true);
        dt_inst_add(e, DT_INST_ZERO, 0, 1, &target, ops[0]);
        e->items.at[e->items.n - 1].inst.count = target.bytes;
    }
    const uint32_t number = e->launched = e->like ? e->like - 1 : plan_kernel(e, k);
    dt_inst_add(e, DT_INST_KERNEL, number, n_args, args, ops[n_ops - 1]);
    note_kernel(e, k, number, &input, outputs);
    return true;
}

/* Emits the ops of op's function in a scope whose inputs have the places of op's operands. */
bool dt_launch_fused(DtEmit *e, const DtOp *op, const DtOutput *outputs, uint32_t n_outputs)
{
    const DtFunc *func = op->func;
    DtScope *outer = e->scope, *inner = dt_scope_new(e, func, NULL, outer->path);
    const DtOp **ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n);
    DtOutput *inside = DT_NEW_ARRAY(e->scratch, DtOutput, n_outputs);
    uint32_t n_ops = 0;
    inner->op = op;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtPlace *place = dt_place_find(e, op->in[i]);
        if (place)
            inner->places[func->inputs.at[i]->id] = *place;
        inner->number[func->inputs.at[i]->id] = outer->number[op->in[i]->id];
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (!dt_op_is_inline(func->ops.at[i]->out[0]))
            ops[n_ops++] = func->ops.at[i];
    for (uint32_t i = 0; i < n_outputs; i++) {
        inside[i] = outputs[i];
        inside[i].value = func->results.at[outputs[i].value->index];
    }
    e->scope = inner;
    const bool done = dt_launch_kernel(e, ops, n_ops, inside, n_outputs);
    e->scope = outer;
    return done;
}
