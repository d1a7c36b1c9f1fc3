/* SPDX-License-Identifier: Apache-2.0 */
/* Expands fields.def into tables. Every byte of a record belongs to exactly one field: the
 * assertions at the end compare sizes, so a field that was added to plan.h only does not compile.
 */
#include "plan/fields.h"

#include "plan/kinds.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "plans are little-endian and used in place");

static const int64_t dtype_sizes[DT_PLAN_DTYPES] = {1, 1, 2, 4, 4, 8, 2, 2, 4, 8};
static const char *const dtype_names[] = {"bool", "u8",  "u16",  "u32", "i32",
                                          "i64",  "f16", "bf16", "f32", "f64"};
static const char *const arena_names[] = {"params", "grads",   "optimizer", "activations",
                                          "inputs", "scalars", "workspace", "predict", "predicted",
                                          "instead", "cache"};
static const char *const store_names[] = {"param", "state", "grad", "moment1", "moment2", "moment3",
                                          "moment4", "saved", "channel", "master", "average",
                                          "next", "cache", "codes", "scales"};
static const char *const init_names[] = {"const", "normal", "uniform"};
static const char *const arg_names[] = {"address", "integer", "step"};
static const char *const inst_names[] = {
    "kernel",         "gemm",      "copy", "zero", "read",    "all_reduce", "all_gather",
    "reduce_scatter", "all_to_all", "shift", "shift_back", "send", "recv", "wait"};
static const char *const reduce_names[] = {"sum", "max", "min"};
static const char *const schedule_names[] = {"run", "loop", "end", "call", "set", "when"};
static const char *const sample_names[] = {"next_token", "mlm", "span_corruption", "images", "raw",
                                           "chat"};
static const char *const crop_names[] = {"whole", "centre", "random", "zoom"};
static const char *const rule_names[] = {"ignore", "initial", "config"};
static const char *const source_names[] = {"text", "bin", "npy", "images", "synthetic",
                                           "chat", "megatron", "csv"};

static const char *const epilogue_names[] = {
#define DT_PLAN_EPILOGUE(NAME, text, vector, matrix) text,
#include "plan/epilogues.def"
#undef DT_PLAN_EPILOGUE
};
const DtEpilogueInfo dt_kinds_epilogues[DT_PLAN_EPILOGUES] = {
#define DT_PLAN_EPILOGUE(NAME, text, vector, matrix) \
    {text, DT_EPILOGUE_##vector, DT_EPILOGUE_##matrix},
#include "plan/epilogues.def"
#undef DT_PLAN_EPILOGUE
};

#define N(names) (sizeof(names) / sizeof((names)[0]))
_Static_assert(N(dtype_names) == DT_PLAN_DTYPES && N(arena_names) == DT_ARENA_KINDS &&
                   N(store_names) == DT_PLAN_STORES && N(init_names) == DT_PLAN_INITS,
               "one name each");
_Static_assert(N(inst_names) == DT_INST_KINDS && N(reduce_names) == DT_PLAN_REDUCES &&
                   N(schedule_names) == DT_SCHED_KINDS,
               "one name each");
_Static_assert(N(rule_names) == DT_RULE_KINDS, "one name each");
_Static_assert(N(crop_names) == DT_PLAN_CROPS, "one name each");
_Static_assert(N(sample_names) == DT_PLAN_SAMPLES && N(source_names) == DT_PLAN_SOURCES,
               "one name each");

/* The size of one element, by kind; fields of several elements are arrays of it. RESERVED: the
 * field's own size. */
#define SIZE_U8(field)       1u
#define SIZE_U16(field)      2u
#define SIZE_U32(field)      4u
#define SIZE_I32(field)      4u
#define SIZE_U64(field)      8u
#define SIZE_I64(field)      8u
#define SIZE_F64(field)      8u
#define SIZE_STR(field)      4u
#define SIZE_ENUM(field)     4u
#define SIZE_ENUM16(field)   2u
#define SIZE_ENUM8(field)    1u
#define SIZE_HEX(field)      8u
#define SIZE_BLOB(field)     8u
#define SIZE_BLOB_LEN(field) 8u
#define SIZE_RESERVED(field) ((uint32_t)sizeof(field))

#define ROW(record, member, kind, names, n)                  \
    {#member,                                                \
     DT_FIELD_##kind,                                        \
     (uint32_t)offsetof(DtPlan##record, member),             \
     (uint32_t)SIZE_##kind(((DtPlan##record *)0)->member),   \
     (uint32_t)(sizeof(((DtPlan##record *)0)->member) /      \
                SIZE_##kind(((DtPlan##record *)0)->member)), \
     names,                                                  \
     n},
#define F(record, member, kind)        ROW(record, member, kind, NULL, 0)
#define E(record, member, kind, names) ROW(record, member, kind, names, N(names))

#define RECORD(section, type, ...) static const DtPlanField fields_##section[] = {__VA_ARGS__};
#include "plan/fields.def"
#undef RECORD
#undef F
#undef E

/* asserts that the members' sizes add up to the record's */
#define F(record, member, kind)        +sizeof(((DtPlan##record *)0)->member)
#define E(record, member, kind, names) +sizeof(((DtPlan##record *)0)->member)
#define RECORD(section, type, ...) \
    _Static_assert(0 __VA_ARGS__ == sizeof(type), "fields.def lists every field of " #type);
#include "plan/fields.def"
#undef RECORD
#undef F
#undef E

#define DT_PLAN_FIELD(tag, section, type) \
    {tag,                                 \
     #section,                            \
     sizeof(type),                        \
     N(fields_##section),                 \
     fields_##section,                    \
     offsetof(DtPlan, section),           \
     offsetof(DtPlan, n_##section)},
const DtPlanRecord dt_fields_records[DT_RECORDS] = {DT_PLAN_SECTIONS(DT_PLAN_FIELD)};
#undef DT_PLAN_FIELD

int64_t dt_kinds_size(uint32_t dtype) { return dtype < DT_PLAN_DTYPES ? dtype_sizes[dtype] : 0; }
bool dt_kinds_is_float(uint32_t dtype)
{
    return dtype == DT_PLAN_F32 || dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16;
}

const char *dt_kinds_name(uint32_t dtype)
{
    return dtype < DT_PLAN_DTYPES ? dtype_names[dtype] : "?";
}

bool dt_kinds_tf32(const DtPlan *plan, const DtPlanGemm *gemm)
{
    return plan->meta->tf32 && gemm->dtype_a == DT_PLAN_F32 && gemm->dtype_b == DT_PLAN_F32;
}

const char *dt_kinds_inst(uint32_t kind) { return kind < DT_INST_KINDS ? inst_names[kind] : "?"; }

const DtPlanRecord *dt_fields_find(const char *tag)
{
    for (size_t i = 0; i < DT_RECORDS; i++)
        if (memcmp(dt_fields_records[i].tag, tag, 4) == 0)
            return &dt_fields_records[i];
    return NULL;
}

const void *dt_fields_at(const DtPlan *plan, const DtPlanRecord *record)
{
    const void *at;
    memcpy(&at, (const char *)plan + record->at, sizeof at);
    return at;
}

uint32_t dt_fields_count(const DtPlan *plan, const DtPlanRecord *record)
{
    uint32_t n;
    memcpy(&n, (const char *)plan + record->n, sizeof n);
    return n;
}

uint64_t dt_fields_get(const DtPlanField *field, const void *record, uint32_t index)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)record + field->offset + (size_t)index * field->size, field->size);
    if (field->kind == DT_FIELD_I32)
        value = (uint64_t)(int64_t)(int32_t)(uint32_t)value;
    return value;
}

void dt_fields_set(const DtPlanField *field, void *record, uint32_t index, uint64_t value)
{
    memcpy((char *)record + field->offset + (size_t)index * field->size, &value, field->size);
}
