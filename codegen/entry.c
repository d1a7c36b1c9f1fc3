/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: stores and inputs get their memory, then every entry of the module becomes a schedule.
 *
 *   step     for each micro-batch: read, loss and gradients; then sums over ranks
 *   update   states take their new values; the optimizer's step
 *   eval     read from the held-out part, loss
 *   predict  the model's results for the batch that lies in the inputs */
#include "codegen/emit.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static uint32_t first_device(const DtMesh *mesh) { return mesh->n && mesh->axes[0].is_time ? 1 : 0; }

/* ---- axes, stores, inputs ---- */

static void plan_axes(DtEmit *e, const DtType *type, uint32_t *ret_first, uint32_t *ret_n)
{
    uint32_t first = first_device(&e->module->mesh);
    *ret_first = e->plan->axes.n;
    *ret_n = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        DtPlanAxis axis = {.name = dt_write_str(e->plan, type->axes[i].name), .extent = type->axes[i].extent,
                           .local = dt_type_local_extent(type, i, &e->module->mesh)};
        for (uint32_t s = 0, n = 0; s < type->axes[i].n_split; s++)
            if (type->axes[i].split[s] >= first)
                axis.split[n++] = (uint8_t)(type->axes[i].split[s] - first + 1);
        DT_PUSH(e->plan->arena, e->plan->axes, axis);
    }
}

static DtPlanArenaKind arena_of(const DtStore *store)
{
    switch (store->kind) {
    case DT_STORE_GRAD: return DT_ARENA_GRADS;
    case DT_STORE_MOMENT1: case DT_STORE_MOMENT2: return DT_ARENA_OPTIMIZER;
    default: return DT_ARENA_PARAMS;
    }
}

static void plan_store(DtEmit *e, const DtStore *store)
{
    const DtType *type = store->type;
    int64_t bytes = dt_type_local_elements(type, &e->module->mesh) * (int64_t)dt_dtype_size(type->dtype);
    uint32_t buffer = dt_place_fixed(e, store->path, arena_of(store), bytes);
    e->stores[store->index] = dt_place_dense(e, type, buffer);
    DtPlanStore record = {.path = dt_write_str(e->plan, store->path), .pattern = dt_write_str(e->plan, store->pattern),
                          .kind = store->kind, .dtype = type->dtype, .n_loops = store->n_loops,
                          .of = store->of ? (int32_t)store->of->index : -1, .init = store->init.kind,
                          .arena = arena_of(store), .init_a = store->init.a, .init_b = store->init.b,
                          .key = dt_hash_text(store->path, e->seed), .offset = e->buffers.at[buffer].offset,
                          .bytes = bytes, .saved = store->kind != DT_STORE_GRAD};
    record.span = dt_finish_span(e, store->span, NULL, store->path);
    plan_axes(e, type, &record.first_axis, &record.n_axes);
    DT_PUSH(e->plan->arena, e->plan->stores, record);
    if (store->kind == DT_STORE_PARAM)
        e->plan->meta.at[0].parameters += dt_type_elements(type);
}

static void add_input(DtEmit *e, const DtOp *op)
{
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == op->text)
            return;
    const DtType *type = op->out[0]->type;
    int64_t bytes = dt_type_local_elements(type, &e->module->mesh) * (int64_t)dt_dtype_size(type->dtype);
    bool scalar = op->text[0] == '@';
    uint32_t buffer = dt_place_fixed(e, op->text, scalar ? DT_ARENA_SCALARS : DT_ARENA_INPUTS, bytes);
    DT_PUSH(e->arena, e->inputs, ((DtEInput){op->text, dt_place_dense(e, type, buffer), type}));
    if (!scalar || strchr(op->text, '.')) /* "@grad.prologue.0": written by the plan itself */
        return;
    DtPlanScalar record = {.arena = DT_ARENA_SCALARS, .offset = e->buffers.at[buffer].offset};
    record.kind = strcmp(op->text, "@lr") == 0 ? DT_SCALAR_LR : strcmp(op->text, "@bias1") == 0 ? DT_SCALAR_BIAS1 : DT_SCALAR_BIAS2;
    DT_PUSH(e->plan->arena, e->plan->scalars, record);
}

static const DtEInput *find_input(const DtEmit *e, const char *name)
{
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == name)
            return &e->inputs.at[i];
    return NULL;
}

/* ---- readers ---- */

/* Inputs that no entry uses still get a place: the reader fills all of its own. */
static void add_reader_inputs(DtEmit *e, const DtReader *reader)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        DtValue value = {.type = reader->types[i]};
        DtValue *out = &value;
        DtOp op = {.kind = DT_OP_INPUT, .text = reader->inputs[i], .out = &out, .n_out = 1};
        add_input(e, &op);
    }
}

static void plan_reader(DtEmit *e, const DtReader *reader, bool is_eval)
{
    const DtSource *source = &reader->source;
    const char *folder = source->folder ? source->folder : "";
    DtPlanReader record = {.sample = reader->kind, .source = source->kind,
                           .glob = dt_write_str(e->plan, source->glob ? source->glob : ""),
                           .folder = dt_write_str(e->plan, folder), .dtype = source->dtype, .is_eval = is_eval,
                           .first_input = e->plan->inputs.n, .n_inputs = reader->n_inputs, .from = source->from,
                           .to = source->to, .lo = source->lo, .hi = source->hi, .rate = reader->rate,
                           .mean_span = reader->mean_span, .mask_id = reader->mask_id,
                           .span = dt_finish_span(e, reader->span, NULL, "reader")};
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtEInput *in = find_input(e, reader->inputs[i]);
        const DtBuffer *buffer = &e->buffers.at[in->place.view.buffer];
        DtPlanInput input = {.name = dt_write_str(e->plan, in->name), .dtype = in->type->dtype,
                             .row_elements = dt_type_elements(in->type) / in->type->axes[0].extent,
                             .arena = buffer->arena, .offset = buffer->offset};
        plan_axes(e, in->type, &input.first_axis, &input.n_axes);
        DT_PUSH(e->plan->arena, e->plan->inputs, input);
    }
    DT_PUSH(e->plan->arena, e->plan->readers, record);
}

static void emit_reads(DtEmit *e, bool eval)
{
    for (uint32_t r = 0; r < e->plan->readers.n; r++) {
        const DtPlanReader *reader = &e->plan->readers.at[r];
        DtEArg args[10];
        uint32_t n = 0;
        const DtType *type = NULL;
        if (reader->is_eval != eval)
            continue;
        for (uint32_t i = 0; i < reader->n_inputs; i++) {
            const DtTrainConfig *train = e->program->train;
            const DtReader *from = eval ? &train->eval_readers.at[r - train->readers.n] : &train->readers.at[r];
            const DtEInput *in = find_input(e, from->inputs[i]);
            type = in->type;
            args[n++] = dt_place_arg(e, &in->place, true);
        }
        DtKInt base = {.kind = DT_KINT_BASES, .n = 1, .axis = {type->axes[0]}, .multiplier = {1}};
        args[n++] = dt_launch_integer(e, &base);
        args[n++] = (DtEArg){.kind = DT_ARG_INTEGER, .base = dt_type_local_extent(type, 0, &e->module->mesh)};
        dt_emit_inst(e, DT_INST_READ, r, n, args, NULL);
    }
}

/* ---- results ---- */

static void plan_metric(DtEmit *e, const char *name, const char *entry, const DtType *type, uint32_t buffer)
{
    DtPlanMetric metric = {.name = dt_write_str(e->plan, name), .entry = dt_write_str(e->plan, entry), .dtype = type->dtype,
                           .arena = e->buffers.at[buffer].arena, .offset = e->buffers.at[buffer].offset,
                           .bytes = e->buffers.at[buffer].bytes};
    plan_axes(e, type, &metric.first_axis, &metric.n_axes);
    DT_PUSH(e->plan->arena, e->plan->metrics, metric);
}

static const DtValue *param_value(const DtFunc *func, const DtStore *store)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PARAM && func->ops.at[i]->store == store)
            return func->ops.at[i]->out[0];
    return NULL;
}

/* A state's new value waits beside it until the step's update is applied. */
static DtPlace shadow_of(DtEmit *e, const DtStore *store)
{
    if (!e->shadows[store->index].set) {
        int64_t bytes = dt_type_local_elements(store->type, &e->module->mesh) * (int64_t)dt_dtype_size(store->type->dtype);
        e->shadows[store->index] = dt_place_dense(e, store->type, dt_place_fixed(e, store->path, DT_ARENA_OPTIMIZER, bytes));
    }
    return e->shadows[store->index];
}

/* Where each result of the entry goes. */
static void wanted_results(DtEmit *e, const DtEntryPoint *entry, const char *name, DtWanted *ret_wanted)
{
    const DtFunc *func = entry->func;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        const DtType *type = func->results.at[i]->type;
        DtWanted *wanted = &ret_wanted[i];
        wanted->set = true;
        wanted->accumulate = result->accumulate && e->n_micro > 1;
        if (result->store && result->store->kind == DT_STORE_STATE && strcmp(name, "update") != 0) {
            wanted->place = shadow_of(e, result->store);
        } else if (result->name && result->name[0] == '@') {
            wanted->place = find_input(e, result->name)->place;
        } else if (result->store) {
            wanted->place = e->stores[result->store->index];
            wanted->old = param_value(func, result->store);
        } else {
            int64_t bytes = dt_type_local_elements(type, &e->module->mesh) * (int64_t)dt_dtype_size(type->dtype);
            bool predicts = strcmp(entry->name, "predict") == 0; /* tensors, which lie among the activations */
            uint32_t buffer = predicts && type->rank ? dt_place_buffer(e, result->name, bytes)
                                     : dt_place_fixed(e, result->name, DT_ARENA_SCALARS, bytes);
            wanted->place = dt_place_dense(e, type, buffer);
            if (!predicts) /* emit_predict names them in their order, once they have their place */
                plan_metric(e, result->name, name, type, buffer);
        }
    }
}

static void all_reduce(DtEmit *e, const DtPlace *place, const DtType *type, uint16_t mesh)
{
    DtEArg arg = dt_place_arg(e, place, true);
    dt_emit_inst(e, DT_INST_ALL_REDUCE, dt_emit_mesh_group(e, mesh), 1, &arg, NULL);
    DtPlanInst *inst = &e->events.at[e->events.n - 1].inst;
    inst->count = arg.bytes / (int64_t)dt_dtype_size(type->dtype);
    inst->dtype = (uint16_t)type->dtype;
    inst->reduce = type->pending;
}

/* Sums over ranks of what is still partial; gradients lie side by side and go as one. */
static void complete_results(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted)
{
    uint16_t time = first_device(&e->module->mesh) ? 1 : 0;
    DtPlace run = {0};
    uint16_t run_mesh = 0;
    const DtType *run_type = NULL;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtType *type = entry->func->results.at[i]->type;
        uint16_t mesh = (uint16_t)(type->partial & ~time);
        if (!mesh)
            continue;
        const DtStore *store = entry->results.at[i].store;
        if (!store || store->kind != DT_STORE_GRAD || type->dtype != DT_F32 || type->pending != DT_REDUCE_SUM) {
            all_reduce(e, &wanted[i].place, type, mesh);
            continue;
        }
        DtBuffer *buffer = &e->buffers.at[wanted[i].place.view.buffer];
        DtBuffer *first = run.set ? &e->buffers.at[run.view.buffer] : NULL;
        int64_t end = buffer->offset + (buffer->bytes + DT_PLAN_ALIGN - 1) / DT_PLAN_ALIGN * DT_PLAN_ALIGN;
        if (first && run_mesh == mesh && buffer->offset == first->offset + run.view.extent[0] * 4) {
            run.view.extent[0] = (end - first->offset) / 4;
            continue;
        }
        if (run.set)
            all_reduce(e, &run, run_type, run_mesh);
        run = (DtPlace){.set = true, .view = {.buffer = wanted[i].place.view.buffer, .dtype = DT_F32, .rank = 1,
                                              .extent = {(end - buffer->offset) / 4}, .stride = {1}}};
        run_mesh = mesh;
        run_type = type;
    }
    if (run.set)
        all_reduce(e, &run, run_type, run_mesh);
}

/* ---- entries ---- */

static void emit_body(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted)
{
    e->scope = dt_emit_scope(e, entry->func, NULL, "");
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtWanted **slot = &e->scope->wanted[entry->func->results.at[i]->id];
        if (!*slot && wanted[i].set)
            *slot = &wanted[i];
    }
    dt_emit_func(e);
    dt_emit_deliver(e, entry->results.n, wanted);
    e->scope = NULL;
}

static void begin_entry(DtEmit *e)
{
    e->entry_event = e->events.n;
    e->entry_buffer = 0;
    for (uint32_t i = 0; i < e->buffers.n; i++)
        e->buffers.at[i].first = UINT32_MAX, e->buffers.at[i].last = 0;
}

/* One pass over all micro-batches of a batch; then sums over ranks. */
static void emit_pass(DtEmit *e, const DtEntryPoint *entry, const char *name, bool eval)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    wanted_results(e, entry, name, wanted);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (wanted[i].accumulate)
            dt_emit_zero(e, &wanted[i].place);
    if (e->n_micro > 1) {
        DtEvent loop = {.kind = DT_EVENT_LOOP, .loop = {.kind = DT_SCHED_LOOP, .step = 1, .count = e->n_micro}};
        DT_PUSH(e->arena, e->events, loop);
    }
    emit_reads(e, eval);
    emit_body(e, entry, wanted);
    if (e->n_micro > 1)
        DT_PUSH(e->arena, e->events, ((DtEvent){.kind = DT_EVENT_END, .loop = {.kind = DT_SCHED_END}}));
    complete_results(e, entry, wanted);
}

/* "step" and "eval": what the data alone decide, then all micro-batches. */
static void emit_batch(DtEmit *e, const DtEntryPoint *entry, const char *name, bool eval)
{
    begin_entry(e);
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtEntryPoint *other = &e->module->entries.at[i];
        size_t len = strlen(entry->name);
        if (strncmp(other->name, entry->name, len) == 0 && strcmp(other->name + len, ".prologue") == 0)
            emit_pass(e, other, other->name, eval);
    }
    emit_pass(e, entry, name, eval);
    dt_finish_entry(e, name);
}

static void emit_update(DtEmit *e, const DtEntryPoint *entry)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    begin_entry(e);
    for (uint32_t i = 0; i < e->module->stores.n; i++)
        if (e->shadows[i].set) {
            DtEArg args[2] = {dt_place_arg(e, &e->stores[i], true), dt_place_arg(e, &e->shadows[i], false)};
            dt_emit_inst(e, DT_INST_COPY, 0, 2, args, NULL);
            e->events.at[e->events.n - 1].inst.count = args[0].bytes;
        }
    wanted_results(e, entry, "update", wanted);
    emit_body(e, entry, wanted);
    dt_finish_entry(e, "update");
}

/* "predict": the batch (with micro-batches: one of them) that lies in the inputs. */
static void emit_predict(DtEmit *e, const DtEntryPoint *entry)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    begin_entry(e);
    wanted_results(e, entry, entry->name, wanted);
    emit_body(e, entry, wanted);
    complete_results(e, entry, wanted);
    for (uint32_t i = 0; i < entry->results.n; i++)
        e->buffers.at[wanted[i].place.view.buffer].last = e->events.n; /* read when the entry has run */
    dt_finish_entry(e, entry->name);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (!entry->results.at[i].store)
            plan_metric(e, entry->results.at[i].name, entry->name, entry->func->results.at[i]->type,
                        wanted[i].place.view.buffer);
}

void dt_entry_emit_all(DtEmit *e)
{
    const DtTrainConfig *train = e->program->train;
    for (uint32_t i = 0; i < e->module->stores.n; i++)
        plan_store(e, e->module->stores.at[i]);
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtFunc *func = e->module->entries.at[i].func;
        for (uint32_t j = 0; j < func->ops.n; j++)
            if (func->ops.at[j]->kind == DT_OP_INPUT)
                add_input(e, func->ops.at[j]);
    }
    for (uint32_t i = 0; train && i < train->readers.n; i++)
        add_reader_inputs(e, &train->readers.at[i]);
    for (uint32_t i = 0; train && i < train->readers.n; i++)
        plan_reader(e, &train->readers.at[i], false);
    for (uint32_t i = 0; train && i < train->eval_readers.n; i++)
        plan_reader(e, &train->eval_readers.at[i], true);
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtEntryPoint *entry = &e->module->entries.at[i];
        if (strcmp(entry->name, "grad") == 0)
            emit_batch(e, entry, "step", false);
        else if (strcmp(entry->name, "update") == 0)
            emit_update(e, entry);
        else if (strcmp(entry->name, "eval") == 0 && train && train->eval_readers.n)
            emit_batch(e, entry, "eval", true);
        else if (strcmp(entry->name, "predict") == 0)
            emit_predict(e, entry);
    }
}
