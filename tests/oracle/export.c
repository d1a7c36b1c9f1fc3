/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a safetensors file of doubles: the length of the header, the header (JSON), the numbers.
 * Integers and booleans are written as doubles too. The names of a tensor's axes are in the
 * metadata, under the tensor's name. */
#include "oracle.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct Export {
    json_t *header, *metadata;
    DtText data;
} Export;

static void add(Export *e, DtArena *arena, const char *kind, const char *name,
                const DtTensor *tensor)
{
    const DtType *type = tensor->type;
    const size_t bytes = (size_t)dt_type_elements(type) * sizeof(double);
    json_t *shape = json_array();
    DtText axes = {0};
    dt_text_add(&axes, "");
    for (uint32_t i = 0; i < type->rank; i++) {
        json_array_append_new(shape, json_integer(type->axes[i].extent));
        dt_text_printf(&axes, "%s%s", i ? " " : "", type->axes[i].name);
    }
    const char *key = dt_arena_printf(arena, "%s/%s", kind, name);
    json_object_set_new(e->metadata, key, json_string(axes.at));
    json_object_set_new(e->header, key,
                        json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F64", "shape", shape,
                                  "data_offsets", (json_int_t)e->data.len,
                                  (json_int_t)(e->data.len + bytes)));
    dt_text_add_n(&e->data, (const char *)tensor->at, bytes);
    dt_text_free(&axes);
}

static void write_file(Export *e, const char *path)
{
    json_object_set_new(e->header, "__metadata__", e->metadata);
    char *header = json_dumps(e->header, JSON_COMPACT);
    uint64_t len = strlen(header);
    DtText file = {0};
    dt_text_add_n(&file, (const char *)&len,
                  sizeof len); /* little-endian, as the machines we run on */
    dt_text_add(&file, header);
    dt_text_add_n(&file, e->data.at, e->data.len);
    DtStatus status = dt_file_write(path, file.at, file.len);
    if (!dt_status_ok(&status))
        oracle_fail("%s", status.message);
    dt_text_free(&file);
    free(header);
}

static void add_value(Export *e, DtArena *arena, const char *name, double value)
{
    DtTensor *tensor = dt_interp_tensor(arena, dt_type_scalar(DT_F32));
    tensor->at[0] = value;
    add(e, arena, "value", name, tensor);
}

void export_write(const Sample *s, const Outcome *outcome, const char *path)
{
    Export e = {.header = json_object(), .metadata = json_object()};
    const DtModule *module = s->program->module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const char *kind = outcome_kind(s, module->stores.at[i]);
        if (case_is_given(module->stores.at[i]) && strcmp(kind, OUTCOME_ROUNDED) != 0)
            add(&e, s->arena, kind, module->stores.at[i]->path, s->stores[i]);
    }
    for (uint32_t i = 0; i < s->inputs.n; i++)
        add(&e, s->arena, "input", s->inputs.at[i].name, s->inputs.at[i].tensor);
    for (uint32_t i = 0; i < outcome->list.n; i++) {
        const Result *r = &outcome->list.at[i];
        if (strcmp(outcome_kind(s, r->store), OUTCOME_ROUNDED) == 0)
            continue;
        if (r->store->kind == DT_STORE_GRAD)
            for (int64_t k = 0; k < dt_type_elements(r->tensor->type); k++)
                r->tensor->at[k] /= s->scale;
        add(&e, s->arena, "result", r->name, r->tensor);
    }
    for (uint32_t i = 0; i < outcome->predicted.n; i++)
        add(&e, s->arena, "result", outcome->predicted.at[i].name, outcome->predicted.at[i].tensor);
    add_value(&e, s->arena, "loss", outcome->loss);
    add_value(&e, s->arena, "norm", outcome->norm);
    add_value(&e, s->arena, "eval", outcome->eval);
    json_object_set_new(e.metadata, "case", json_string(s->of->name));
    json_object_set_new(e.metadata, "seed", json_sprintf("%llu", (unsigned long long)s->seed));
    json_object_set_new(e.metadata, "step", json_sprintf("%u", s->step));
    json_object_set_new(e.metadata, "lr", json_sprintf("%.17g", oracle_lr));
    json_object_set_new(e.metadata, "roundoff", json_sprintf("%.17g", s->roundoff));
    write_file(&e, path);
    json_decref(e.header);
    dt_text_free(&e.data);
}
