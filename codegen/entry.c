/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: stores and inputs get their memory, then every entry of the module becomes a
 * schedule.
 *
 *   step     for each micro-batch: read, loss and gradients; then sums over ranks
 *   update   states take their new values; the optimizer's step
 *   eval     read from the held-out part, loss
 *   predict  the model's results for the batch that lies in the inputs
 *   quantize parameters become codes and scales; eval@codes evaluates with these */
#include "codegen/emit.h"

#include "base/hash.h"
#include "base/intern.h"
#include "plan/kinds.h"
#include "plan/notes.h"

#include <stdio.h>
#include <string.h>

/* ---- axes, stores, inputs ---- */

static void plan_axes(DtEmit *e, const DtType *type, uint32_t *ret_first, uint32_t *ret_n)
{
    uint32_t first = dt_emit_first_device(&e->module->mesh);
    *ret_first = e->plan->axes.n;
    *ret_n = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        DtPlanAxis axis = {.name = dt_write_str(e->plan, type->axes[i].name),
                           .extent = dt_module_logical(e->module, &type->axes[i]),
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
    case DT_STORE_MOMENT1: case DT_STORE_MOMENT2: case DT_STORE_MOMENT3: case DT_STORE_MOMENT4:
    case DT_STORE_MASTER: case DT_STORE_AVERAGE: case DT_STORE_NEXT:
        return DT_ARENA_OPTIMIZER;
    case DT_STORE_CACHE: return DT_ARENA_CACHE;
    case DT_STORE_CODES: case DT_STORE_SCALES: return DT_ARENA_PREDICTED;
    default: return DT_ARENA_PARAMS;
    }
}

/* Sets e->is_bucket, and e->is_copy for all but the first store of a parameter that several stages
 * have, which counts once. */
static void mark_stores(DtEmit *e)
{
    const DtModule *module = e->module;
    uint32_t size = 16;
    while (size < 2 * module->stores.n)
        size *= 2;
    const DtStore **table = DT_NEW_ARRAY(e->arena, const DtStore *, size);
    e->is_bucket = DT_NEW_ARRAY(e->arena, bool, module->stores.n + 1);
    e->is_copy = DT_NEW_ARRAY(e->arena, bool, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->bucket)
            e->is_bucket[store->bucket->index] = true;
        if (store->kind != DT_STORE_PARAM)
            continue;
        uint32_t at =
            (uint32_t)dt_hash_bytes(&store->path, sizeof store->path, (uint64_t)store->first) &
            (size - 1);
        while (table[at] && (table[at]->path != store->path || table[at]->first != store->first))
            at = (at + 1) & (size - 1);
        e->is_copy[i] = module->pipeline && table[at];
        table[at] = store;
    }
}

/* Returns the buffer of a store that is no part of a bucket. The first call adds the buffer. */
static uint32_t memory_of(DtEmit *e, const DtStore *store)
{
    const DtType *type = dt_store_memory_type(store);
    int64_t bytes = dt_place_bytes(e, type);
    if (!e->stores[store->index].set)
        e->stores[store->index] =
            dt_place_dense(e, type, dt_place_fixed(e, store->path, arena_of(store), bytes));
    return e->stores[store->index].view.buffer;
}

enum { LOOK_BACK = 256 }; /* how many of the last records are searched for an equal one */

/* Records where the elements of a store are in its bucket; returns 1 + the number of the record. */
static uint32_t plan_pack(DtEmit *e, const DtStore *store)
{
    const DtType *bucket = store->bucket->type;
    const DtAxis *flat = &bucket->axes[bucket->rank - 1];
    uint32_t first = dt_emit_first_device(&e->module->mesh);
    DtPlanPack pack = {.extent = flat->extent, .offset = store->bucket_offset,
                       .n_split = flat->n_split,
                       .run = dt_type_local_extent(bucket, bucket->rank - 1u, &e->module->mesh)};
    for (uint32_t i = 0; i < flat->n_split; i++)
        pack.split[i] = (uint8_t)(flat->split[i] - first);
    for (uint32_t i = e->plan->packs.n; i-- > 0 && i + LOOK_BACK > e->plan->packs.n;)
        if (memcmp(&e->plan->packs.at[i], &pack, sizeof pack) == 0)
            return i + 1;
    DT_PUSH(e->plan->arena, e->plan->packs, pack);
    return e->plan->packs.n;
}

/* Records the axes of a store; the record of a parameter's axes serves its gradient and moments
 * too. */
static void store_axes(DtEmit *e, const DtStore *store, DtPlanStore *record)
{
    for (uint32_t i = e->axes.n; i-- > 0 && i + LOOK_BACK > e->axes.n;) {
        const DtEAxes *known = &e->axes.at[i];
        if (known->type != store->type || known->first != store->first ||
            known->step != store->first_step || known->whole != store->whole)
            continue;
        record->first_axis = known->at;
        record->n_axes = store->type->rank;
        return;
    }
    uint32_t n_axes;
    plan_axes(e, store->type, &record->first_axis, &n_axes);
    record->n_axes = (uint8_t)n_axes;
    DtPlanAxis *axes = e->plan->axes.at + record->first_axis;
    if (store->whole) {
        axes->extent = store->whole;
        axes->first = store->first;
        axes->step = store->first_step;
    }
    for (uint32_t i = e->axes.n; n_axes && i-- > 0 && i + LOOK_BACK > e->axes.n;) {
        uint32_t at = e->axes.at[i].at; /* the record of another type whose axes are equal */
        if (e->axes.at[i].type->rank != n_axes ||
            memcmp(e->plan->axes.at + at, axes, n_axes * sizeof *axes) != 0)
            continue;
        e->plan->axes.n = record->first_axis;
        record->first_axis = at;
        break;
    }
    DT_PUSH(e->arena, e->axes,
            ((DtEAxes){store->type, store->first, store->first_step, store->whole,
                       record->first_axis}));
}

/* Adds the record of a store, or of each member of a bucket; the bucket itself has no record. */
/* How many replicas the store has. */
static int64_t replicas_of(const DtType *type)
{
    const int64_t n = dt_type_extent(type, dt_intern(DT_REPLICA_AXIS));
    return n > 0 ? n : 1;
}

void dt_entry_store(DtEmit *e, const DtStore *store)
{
    const DtType *type = store->type;
    uint32_t buffer = memory_of(e, store->bucket ? store->bucket : store);
    if (e->is_bucket[store->index])
        return;
    e->store_record[store->index] = (int32_t)e->plan->stores.n;
    DtPlanStore record = {.path = dt_write_str(e->plan, store->path),
                          .pattern = dt_write_str(e->plan, store->pattern),
                          .kind = store->kind,
                          .dtype = type->dtype,
                          .n_loops = store->n_loops,
                          .of = store->of ? e->store_record[store->of->index] : -1,
                          .init = store->init.kind,
                          .arena = arena_of(store),
                          .init_a = store->init.a,
                          .init_b = store->init.b,
                          .key = dt_hash_text(store->path + store->copy, e->seed),
                          .offset = e->buffers.at[buffer].offset,
                          .bytes = e->buffers.at[buffer].bytes,
                          .saved = store->kind != DT_STORE_GRAD && store->kind != DT_STORE_NEXT &&
                                   store->kind != DT_STORE_CACHE && store->kind != DT_STORE_CODES &&
                                   store->kind != DT_STORE_SCALES,
                          .adapter = store->in_adapter,
                          .copy = store->copy};
    if (store->bucket)
        record.pack = plan_pack(e, store);
    record.span = dt_finish_span(e, store->span, NULL, store->path);
    record.stage = e->module->pipeline ? store->stage : DT_PLAN_NONE;
    record.more = store->more;
    store_axes(e, store, &record);
    if (store->kind == DT_STORE_PARAM && !e->is_copy[store->index])
        e->plan->meta.at[0].parameters +=
            (store->more + 1) * dt_type_elements(dt_module_logical_type(e->module, type)) /
            replicas_of(type);
    DT_PUSH(e->plan->arena, e->plan->stores, record);
}

static void add_input(DtEmit *e, const DtOp *op)
{
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == op->text)
            return;
    const DtType *type = op->out[0]->type;
    int64_t bytes = dt_place_bytes(e, type);
    bool scalar = op->text[0] == '@';
    uint32_t buffer =
        dt_place_fixed(e, op->text, scalar ? DT_ARENA_SCALARS : DT_ARENA_INPUTS, bytes);
    DT_PUSH(e->arena, e->inputs, ((DtEInput){op->text, dt_place_dense(e, type, buffer), type}));
}

/* Adds the scalars that the runtime writes when a step begins, whether an op reads them or not. */
static void add_scalars(DtEmit *e)
{
    const DtTrainConfig *train = e->program->train;
    const DtType *type = dt_type_scalar(DT_F32);
    for (uint32_t i = 0; train && i < train->settings.n; i++) {
        const DtStepSetting *s = &train->settings.at[i];
        DtPlanSetting record = {.name = dt_write_str(e->plan, s->name), .is_whole = s->is_whole,
                                .value = s->value};
        DT_PUSH(e->plan->arena, e->plan->settings, record);
    }
    for (uint32_t i = 0; train && i < train->objectives.n; i++) {
        const DtObjective *o = &train->objectives.at[i];
        const DtEntryPoint grad = dt_entry_new(DT_ENTRY_GRAD, o->name, DT_PART_WHOLE, -1),
                           update = dt_entry_new(DT_ENTRY_UPDATE, o->name, DT_PART_WHOLE, -1);
        DtPlanObjective record = {.loss = dt_write_str(e->plan, o->loss), .every = o->every,
                                  .rate = dt_write_str(e->plan, o->rate ? o->rate : ""),
                                  .step = dt_write_str(e->plan, dt_entry_run(&grad)),
                                  .update = dt_write_str(e->plan, dt_entry_run(&update))};
        DT_PUSH(e->plan->arena, e->plan->objectives, record);
    }
    for (uint32_t i = 0; train && i < train->shown.n; i++) {
        const DtShownValue *s = &train->shown.at[i];
        if (!s->runs)
            continue;
        DtPlanShow record = {.name = dt_write_str(e->plan, s->name),
                             .entry = dt_write_str(e->plan, s->entry),
                             .formula = dt_write_str(e->plan, s->formula)};
        DT_PUSH(e->plan->arena, e->plan->shows, record);
    }
    for (uint32_t i = 0; train && i < train->scalars.n; i++) {
        const DtStepScalar *s = &train->scalars.at[i];
        const uint32_t buffer =
            dt_place_fixed(e, s->name, DT_ARENA_SCALARS, dt_place_bytes(e, type));
        DtPlanScalar record = {.name = dt_write_str(e->plan, s->name),
                               .formula = dt_write_str(e->plan, s->formula),
                               .arena = DT_ARENA_SCALARS, .offset = e->buffers.at[buffer].offset};
        DT_PUSH(e->arena, e->inputs, ((DtEInput){s->name, dt_place_dense(e, type, buffer), type}));
        DT_PUSH(e->plan->arena, e->plan->scalars, record);
    }
}

static const DtEInput *find_input(const DtEmit *e, const char *name)
{
    for (uint32_t i = 0; i < e->inputs.n; i++)
        if (e->inputs.at[i].name == name)
            return &e->inputs.at[i];
    return NULL;
}

/* ---- readers ---- */

/* The type of an input that no entry uses: on each rank it has the samples that the reader's other
 * inputs have there. */
static const DtType *unused_type(const DtEmit *e, const DtReader *reader, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtEInput *used = find_input(e, reader->inputs[i]);
        if (!used)
            continue;
        memcpy(axes, type->axes, type->rank * sizeof axes[0]);
        axes[0] = used->type->axes[0];
        return dt_type_plain(type->dtype, type->rank, axes);
    }
    return type;
}

/* Inputs that no entry uses still get memory: the reader fills all of its inputs. */
static void add_reader_inputs(DtEmit *e, const DtReader *reader)
{
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        DtValue value = {.type = unused_type(e, reader, reader->types[i])};
        DtValue *out = &value;
        DtOp op = {.kind = DT_OP_INPUT, .text = reader->inputs[i], .out = &out, .n_out = 1};
        add_input(e, &op);
    }
}

_Static_assert((int)DT_INTSET_PIECES == (int)DT_PLAN_RANGES, "sets fit into records");

static void plan_values(DtEmit *e, const DtInputRange *range, DtPlanInput *input)
{
    input->draw_lo = range->lo;
    input->draw_hi = range->hi;
    if (!range->axis)
        return;
    /* no allowed value: the range 0 .. -1 */
    input->n_ranges = range->allowed.n ? range->allowed.n : 1;
    memcpy(input->lo, range->allowed.lo, sizeof input->lo);
    memcpy(input->hi, range->allowed.hi, sizeof input->hi);
    input->indexed = dt_write_str(e->plan, range->axis);
    input->extent = range->extent;
    input->span = dt_finish_span(e, range->span, NULL, "index");
}

_Static_assert((int)DT_CHAT_PACK == DT_PLAN_CHAT_PACK && (int)DT_CHAT_ALL == DT_PLAN_CHAT_ALL &&
                   (int)DT_CHAT_DROP == DT_PLAN_CHAT_DROP &&
                   (int)DT_CHAT_PAIRS == DT_PLAN_CHAT_PAIRS &&
                   (int)DT_SPECIALS == (int)DT_PLAN_SPECIALS,
               "one meaning of the bits");
_Static_assert((int)DT_CROP_ZOOM == DT_PLAN_CROP_ZOOM && (int)DT_IMAGE_FLIP == DT_PLAN_IMAGE_FLIP &&
                   (int)DT_IMAGE_STRETCH == DT_PLAN_IMAGE_STRETCH,
               "one meaning of the words");

/* range: the values that the input may have; NULL: nothing is known of them. */
static void plan_input(DtEmit *e, const char *name, const DtInputRange *range)
{
    const DtEInput *in = find_input(e, name);
    const DtBuffer *buffer = &e->buffers.at[in->place.view.buffer];
    DtPlanInput input = {.name = dt_write_str(e->plan, in->name), .dtype = in->type->dtype,
                         .row_elements = dt_type_elements(in->type) / in->type->axes[0].extent,
                         .arena = buffer->arena, .offset = buffer->offset};
    plan_axes(e, in->type, &input.first_axis, &input.n_axes);
    if (range)
        plan_values(e, range, &input);
    DT_PUSH(e->plan->arena, e->plan->inputs, input);
}

static void plan_reader(DtEmit *e, const DtReader *reader, bool is_eval)
{
    const DtSource *source = &reader->source;
    const char *folder = source->folder ? source->folder : "";
    const char *tokenizer = source->tokenizer ? source->tokenizer : "";
    const char *template = source->template ? source->template : "";
    DtPlanReader record = {.sample = reader->kind,
                           .source = source->kind,
                           .glob = dt_write_str(e->plan, source->glob ? source->glob : ""),
                           .folder = dt_write_str(e->plan, folder),
                           .dtype = source->dtype,
                           .is_eval = is_eval,
                           .first_input = e->plan->inputs.n,
                           .n_inputs = reader->n_inputs,
                           .from = source->from,
                           .to = source->to,
                           .lo = source->lo,
                           .hi = source->hi,
                           .rate = reader->rate,
                           .mean_span = reader->mean_span,
                           .mask_id = reader->mask_id,
                           .start_id = reader->start_id,
                           .end_id = reader->end_id,
                           .weight = reader->weight,
                           .n_special = reader->n_special,
                           .part = reader->part,
                           .raw = source->raw,
                           .unpaired = source->unpaired,
                           .tokenizer = dt_write_str(e->plan, tokenizer),
                           .end = dt_write_str(e->plan, source->end ? source->end : ""),
                           .template = dt_write_str(e->plan, template),
                           .chat = source->chat,
                           .columns = dt_write_str(e->plan, source->columns ? source->columns : ""),
                           .separator = (uint8_t)source->separator,
                           .crop = source->image.crop,
                           .image = source->image.flip * DT_IMAGE_FLIP +
                                    source->image.stretch * DT_IMAGE_STRETCH,
                           .resize = source->image.resize,
                           .pad = source->image.pad,
                           .pixels = source->image.pixels,
                           .header = source->header,
                           .span = dt_finish_span(e, reader->span, NULL, "reader")};
    memcpy(record.special, reader->special, sizeof record.special);
    memcpy(record.mean, source->image.mean, sizeof record.mean);
    memcpy(record.std, source->image.std, sizeof record.std);
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        plan_input(e, reader->inputs[i], &reader->ranges[i]);
    DT_PUSH(e->plan->arena, e->plan->readers, record);
}

/* The values that readers give to an input of "predict"; NULL: its name is of another entry. */
static const DtInputRange *range_of(const DtTrainConfig *train, const char *name)
{
    const char *base = dt_entry_input(DT_ENTRY_PREDICT, name);
    for (uint32_t r = 0; base && r < train->readers.n; r++)
        for (uint32_t i = 0; i < train->readers.at[r].n_inputs; i++)
            if (strcmp(train->readers.at[r].inputs[i], base) == 0)
                return &train->readers.at[r].ranges[i];
    return NULL;
}

/* Records the inputs that entries have for themselves ("decode:tokens"): the runtime writes them,
 * no reader does. */
static void plan_own_inputs(DtEmit *e, const DtTrainConfig *train)
{
    for (uint32_t i = 0; train && i < e->inputs.n; i++) {
        const char *name = e->inputs.at[i].name;
        if (strchr(name, ':'))
            plan_input(e, name, range_of(train, name));
    }
}

/* Whether the function has an input that the reader fills; func NULL: any has. */
static bool reads_for(const DtReader *reader, const DtFunc *func)
{
    for (uint32_t i = 0; func && i < func->ops.n; i++)
        for (uint32_t k = 0; func->ops.at[i]->kind == DT_OP_INPUT && k < reader->n_inputs; k++)
            if (func->ops.at[i]->text == reader->inputs[k])
                return true;
    return func == NULL;
}

void dt_entry_reads(DtEmit *e, const DtFunc *func, bool eval)
{
    for (uint32_t r = 0; r < e->plan->readers.n; r++) {
        const DtPlanReader *reader = &e->plan->readers.at[r];
        DtEArg args[10];
        uint32_t n = 0;
        const DtType *type = NULL;
        if (reader->is_eval != eval || reader->part > 1)
            continue;
        const DtTrainConfig *train = e->program->train;
        const DtReader *from =
            eval ? &train->eval_readers.at[r - train->readers.n] : &train->readers.at[r];
        if (!reads_for(from, func))
            continue;
        for (uint32_t i = 0; i < reader->n_inputs; i++) {
            const DtEInput *in = find_input(e, from->inputs[i]);
            type = in->type;
            args[n++] = dt_place_arg(e, &in->place, true);
        }
        DtKInt base = {.kind = DT_KINT_BASES, .n = 1, .axis = {type->axes[0]}, .multiplier = {1}};
        args[n++] = dt_launch_integer(e, &base);
        args[n++] = (DtEArg){.kind = DT_ARG_INTEGER,
                             .base = dt_type_local_extent(type, 0, &e->module->mesh)};
        dt_inst_add(e, DT_INST_READ, r, n, args, NULL);
    }
}

/* ---- results ---- */

void dt_entry_metric(DtEmit *e, const char *name, const char *entry, const DtType *type,
                     uint32_t buffer)
{
    DtPlanMetric metric = {.name = dt_write_str(e->plan, name),
                           .entry = dt_write_str(e->plan, entry),
                           .dtype = type->dtype,
                           .arena = e->buffers.at[buffer].arena,
                           .offset = e->buffers.at[buffer].offset,
                           .bytes = e->buffers.at[buffer].bytes};
    metric.stage = e->module->pipeline && type->rank ? e->stage : DT_PLAN_NONE;
    plan_axes(e, type, &metric.first_axis, &metric.n_axes);
    DT_PUSH(e->plan->arena, e->plan->metrics, metric);
}

/* The value that the function reads from the store; NULL: it does not read the store. */
static const DtValue *read_of(const DtFunc *func, const DtStore *store)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_PARAM && func->ops.at[i]->store == store)
            return func->ops.at[i]->out[0];
    return NULL;
}

/* Sets ret_wanted, by result of the entry, to the memory that the result shall be written to: a
 * store, a scalar, or memory of its own. */
void dt_entry_wanted(DtEmit *e, const DtEntryPoint *entry, const char *name, DtWanted *ret_wanted)
{
    const DtFunc *func = entry->func;
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        const DtType *type = func->results.at[i]->type;
        DtWanted *wanted = &ret_wanted[i];
        if (result->store && result->store->kind == DT_STORE_RINGBUF)
            continue; /* a ring buffer is written where it is */
        wanted->set = true;
        wanted->accumulate = result->accumulate && (e->n_micro > 1 || e->module->pipeline);
        if (result->name && result->name[0] == '@') {
            wanted->place = find_input(e, result->name)->place;
        } else if (result->store) {
            wanted->place = e->stores[result->store->index];
            wanted->old = read_of(func, result->store);
        } else {
            int64_t bytes = dt_place_bytes(e, type);
            if (e->module->pipeline) {
                wanted->place = dt_pipeline_named(e, name, result->name, type);
                continue;
            }
            const DtValue *value = func->results.at[i];
            /* tensors that `predict` returns are among the temporaries */
            bool predicts = dt_entry_predicts(entry->kind);
            uint32_t buffer = predicts && type->rank
                                  ? dt_place_framed(e, value, result->name, 0, bytes)
                                  : dt_place_fixed(e, result->name, DT_ARENA_SCALARS, bytes);
            wanted->place = dt_place_dense(e, type, buffer);
            if (!predicts) /* emit_predict names results in their order, after all have places */
                dt_entry_metric(e, result->name, name, type, buffer);
        }
    }
}

/* Emits sums over ranks of results that are still partial; adjacent gradients go as one
 * collective. */
void dt_entry_complete(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted)
{
    uint16_t time = dt_emit_first_device(&e->module->mesh) ? 1 : 0;
    DtPlace run = {0};
    uint16_t run_mesh = 0;
    DT_VEC(const DtStore *) stores = {0}; /* the stores of the run of gradients so far */
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtType *type = entry->func->results.at[i]->type;
        const DtStore *store = entry->results.at[i].store;
        uint16_t later = store ? store->type->partial : 0; /* the update completes these sums */
        uint16_t mesh = (uint16_t)(type->partial & ~time & ~later);
        if (!mesh)
            continue;
        if (!store || store->kind != DT_STORE_GRAD || type->dtype != DT_F32 ||
            type->pending != DT_REDUCE_SUM) {
            dt_exchange_sum(e, &wanted[i].place, &wanted[i].place, mesh, (DtReduce)type->pending,
                            NULL);
            dt_note_sum(e, 1, &store);
            continue;
        }
        DtBuffer *buffer = &e->buffers.at[wanted[i].place.view.buffer];
        DtBuffer *first = run.set ? &e->buffers.at[run.view.buffer] : NULL;
        int64_t end = buffer->offset + dt_place_aligned(buffer->bytes);
        if (first && run_mesh == mesh && buffer->offset == first->offset + run.view.extent[0] * 4) {
            run.view.extent[0] = (end - first->offset) / 4;
            DT_PUSH(e->arena, stores, store);
            continue;
        }
        if (run.set) {
            dt_exchange_sum(e, &run, &run, run_mesh, DT_REDUCE_SUM, NULL);
            dt_note_sum(e, stores.n, stores.at);
        }
        stores.n = 0;
        DT_PUSH(e->arena, stores, store);
        run = (DtPlace){.set = true,
                        .view = {.buffer = wanted[i].place.view.buffer, .dtype = DT_F32, .rank = 1,
                                 .extent = {(end - buffer->offset) / 4}, .stride = {1}}};
        run_mesh = mesh;
    }
    if (!run.set)
        return;
    dt_exchange_sum(e, &run, &run, run_mesh, DT_REDUCE_SUM, NULL);
    dt_note_sum(e, stores.n, stores.at);
}

/* ---- entries ---- */

void dt_entry_body(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted)
{
    e->scope = dt_scope_new(e, entry->func, NULL, dt_entry_draws(entry));
    e->scope->framed = true;
    dt_note_entry(e, entry, wanted);
    dt_scope_want(e->scope, entry->results.n, wanted);
    dt_emit_func(e);
    dt_scope_check(e, entry->results.n, wanted);
    e->scope = NULL;
    dt_arena_reset(e->scratch);
}

void dt_entry_begin(DtEmit *e, DtEntryKind kind)
{
    e->items.n = e->args.n = 0; /* items of earlier entries are records of the plan already */
    e->notes.len = 0;
    e->entry_buffer = e->buffers.n; /* temporaries of an entry are its own */
    e->temporaries = dt_entry_temporaries(kind);
}

/* Emits one pass over all micro-batches of a batch, then the sums over ranks of its results. */
void dt_entry_pass(DtEmit *e, const DtEntryPoint *entry, const char *name, bool eval)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    dt_entry_wanted(e, entry, name, wanted);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (wanted[i].accumulate)
            dt_inst_zero(e, &wanted[i].place);
    if (e->n_micro > 1) {
        DtItem loop = {.kind = DT_ITEM_LOOP,
                       .loop = {.kind = DT_SCHED_LOOP, .step = 1, .count = e->n_micro}};
        DT_PUSH(e->arena, e->items, loop);
        dt_note_op(e, DT_NOTE_MICRO, NULL);
        e->micro_loop = e->items.n;
    }
    const DtTrainConfig *train = e->program->train;
    /* with several losses, reads only the inputs of this loss */
    dt_entry_reads(e, train && train->objectives.n > 1 ? entry->func : NULL, eval);
    dt_entry_body(e, entry, wanted);
    if (e->n_micro > 1) {
        DT_PUSH(e->arena, e->items, ((DtItem){.kind = DT_ITEM_END,
                                              .loop = {.kind = DT_SCHED_END}}));
        dt_place_extend(e, e->micro_loop);
        e->micro_loop = 0;
    }
    dt_entry_complete(e, entry, wanted);
}

/* Emits "step" or "eval": first the sums that depend on the data alone (its prologue), then the
 * pass over all micro-batches. */
static void emit_batch(DtEmit *e, const DtEntryPoint *entry, bool eval)
{
    const char *name = dt_entry_run(entry);
    dt_entry_begin(e, entry->kind);
    const DtEntryPoint *prologue =
        dt_entry_find(e->module, entry->kind, entry->objective, DT_PART_PROLOGUE, -1);
    if (prologue)
        dt_entry_pass(e, prologue, prologue->name, eval);
    dt_entry_pass(e, entry, name, eval);
    dt_finish_entry(e, name);
}

void dt_entry_update(DtEmit *e, const DtEntryPoint *entry)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    dt_entry_begin(e, entry->kind);
    dt_entry_wanted(e, entry, dt_entry_run(entry), wanted);
    dt_entry_body(e, entry, wanted);
    dt_finish_entry(e, dt_entry_run(entry));
}

/* Emits "predict", which computes the outputs for the batch in the inputs, or for one micro-batch
 * if there are several. */
static void emit_predict(DtEmit *e, const DtEntryPoint *entry)
{
    DtWanted *wanted = DT_NEW_ARRAY(e->arena, DtWanted, entry->results.n + 1);
    dt_entry_begin(e, entry->kind);
    dt_entry_wanted(e, entry, entry->name, wanted);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (wanted[i].accumulate)
            dt_inst_zero(e, &wanted[i].place);
    dt_entry_body(e, entry, wanted);
    dt_entry_complete(e, entry, wanted);
    for (uint32_t i = 0; i < entry->results.n; i++)
        /* kept to the end: the runtime reads it after the entry */
        e->buffers.at[wanted[i].place.view.buffer].last = e->items.n;
    dt_finish_entry(e, entry->name);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (!entry->results.at[i].store)
            dt_entry_metric(e, entry->results.at[i].name, entry->name,
                            entry->func->results.at[i]->type, wanted[i].place.view.buffer);
}

void dt_entry_emit_all(DtEmit *e)
{
    const DtTrainConfig *train = e->program->train;
    mark_stores(e);
    for (uint32_t i = 0; !e->module->pipeline && i < e->module->stores.n; i++)
        if (e->module->stores.at[i]->kind != DT_STORE_RINGBUF)
            dt_entry_store(e, e->module->stores.at[i]);
    add_scalars(e);
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
    plan_own_inputs(e, train);
    if (e->module->pipeline) {
        dt_pipeline_emit(e);
        return;
    }
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        const DtEntryPoint *entry = &e->module->entries.at[i];
        if (entry->part != DT_PART_WHOLE)
            continue; /* a prologue is emitted with its entry */
        if (entry->kind == DT_ENTRY_GRAD)
            emit_batch(e, entry, false);
        else if (dt_entry_updates(entry->kind))
            dt_entry_update(e, entry);
        else if (entry->kind == DT_ENTRY_EVAL && train && train->eval_readers.n)
            emit_batch(e, entry, true);
        else if (dt_entry_predicts(entry->kind))
            emit_predict(e, entry);
    }
}
