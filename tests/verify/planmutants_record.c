/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of planmutants in records that no instruction names: stores, data, training, initial
 * values, kernels, texts. Of a `record` below any field is changed, but for those that are free
 * (names, spans, costs) and numbers of records, of which another may say the same. */
#include "planmutants.h"

#include "plan/fields.h"

#include <string.h>

static const struct {
    const char *tag, *free;
} records[] = {
    {"META", " model source compiler target source_folder source_digest flops model_flops "},
    {"SETT", " "},
    {"STOR", " first_axis span stage pack more "},
    {"READ", " first_input span "},
    {"INPT", " first_axis span "},
    {"SCAL", " "},
    {"METR", " first_axis stage "},
    {"SHOW", " "},
    {"KERN", " name span flops bytes special "},
    {"CODE", " "},
};

static bool is_free(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

/* Returns another value: a similar one, or that of another record. */
static uint64_t changed(const DtPlanField *field, uint64_t value, uint64_t other)
{
    double number;
    switch (field->kind) {
    case DT_FIELD_F64:
        memcpy(&number, &value, sizeof number);
        number = below(2) ? number + 1 : number * 0.5;
        memcpy(&value, &number, sizeof value);
        return value;
    case DT_FIELD_ENUM:
    case DT_FIELD_ENUM16:
    case DT_FIELD_ENUM8: return (value + 1 + below(field->n_names)) % field->n_names;
    case DT_FIELD_STR: return other;
    case DT_FIELD_HEX: return value ^ UINT64_C(1) << below(64);
    default: return below(3) ? value + 1 : below(2) ? value - 1 : other;
    }
}

bool mutant_record(void)
{
    const uint32_t r = below(DT_COUNT(records));
    const DtPlanRecord *record = dt_fields_find(records[r].tag);
    const uint32_t n = dt_fields_count(&plan, record), at = below(n);
    const DtPlanField *field = &record->fields[below(record->n_fields)];
    if (n == 0 || field->kind == DT_FIELD_RESERVED || is_free(records[r].free, field->name))
        return false;
    const uint8_t *first = dt_fields_at(&plan, record);
    uint8_t *to = copy + (first - bytes) + (size_t)at * record->size;
    const uint64_t value = dt_fields_get(field, to, 0);
    const uint64_t other = dt_fields_get(field, first + (size_t)below(n) * record->size, 0);
    dt_fields_set(field, to, 0, changed(field, value, other));
    return dt_fields_get(field, to, 0) != value;
}

bool mutant_code(void)
{
    const DtPlanKernel *a = &plan.kernels[below(plan.n_kernels)],
                       *b = &plan.kernels[below(plan.n_kernels)];
    const DtPlanCode *code = &plan.codes[below(plan.n_codes)];
    uint8_t *kernels = copy + ((const uint8_t *)plan.kernels - bytes),
            *blob = copy + (plan.blob - bytes);
    if (!plan.n_codes || !code->source_len)
        return false;
    if (below(2)) { /* an instruction calls another record's function */
        memcpy(kernels + (size_t)(a - plan.kernels) * sizeof *a, b, sizeof *b);
        return a != b;
    }
    const uint64_t len = code->source_len + code->binary_len, at = below(len);
    blob[at < code->source_len ? code->source + at : code->binary + at - code->source_len] ^= 1;
    return true;
}

bool mutant_text(void)
{
    const DtPlanLogical *logical = plan.logical;
    uint8_t *blob = copy + (plan.blob - bytes);
    blob[logical->programs + below(logical->programs_len)] ^= (uint8_t)(1u << below(8));
    return true;
}

bool mutant_store(void)
{
    uint32_t a = below(plan.n_stores), b = below(plan.n_stores);
    DtPlanStore *x = RECORD(stores, DtPlanStore, a);
    if (!plan.n_stores || plan.stores[a].arena != plan.stores[b].arena ||
        plan.stores[a].offset == plan.stores[b].offset)
        return false;
    x->offset = plan.stores[b].offset;
    return true;
}

bool mutant_metric(void)
{
    DtPlanMetric *at = RECORD(metrics, DtPlanMetric, below(plan.n_metrics));
    return plan.n_metrics && (at->offset += below(2) ? 64 : -64, true);
}

/* Fields of a store. */
bool mutant_axis(void)
{
    const DtPlanStore *at = &plan.stores[below(plan.n_stores)];
    if (!plan.n_stores || !at->n_axes)
        return false;
    uint32_t number = below(at->n_axes);
    DtPlanAxis *record = RECORD(axes, DtPlanAxis, at->first_axis + number);
    if (at->stage >= 0 && number < at->n_loops)
        return false; /* only checkpoints show how many iterations a loop that stages share has */
    if (below(2) && plan.n_mesh)
        return record->split[0] = (uint8_t)below(plan.n_mesh + 1u), true;
    int64_t *const fields[] = {&record->local, &record->extent};
    return change(fields[below(2)]);
}
