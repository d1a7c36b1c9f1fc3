/* SPDX-License-Identifier: Apache-2.0 */
/* Sets every field of every record of a valid plan to hostile values, and repairs the checksums.
 * Then one of three things must happen: the reader refuses the plan; the field is in the list below
 * of those on which no memory access and no loop depends; or a walk through the plan on real memory
 * stays inside that memory. */
#include "plan_fixture.h"

#include "plan/check_internal.h"
#include "plan/fields.h"
#include "plan/read.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint64_t hostile[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   15,
                                   16,
                                   17,
                                   64,
                                   255,
                                   256,
                                   4095,
                                   4096,
                                   4097,
                                   65535,
                                   65536,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x100000000,
                                   (uint64_t)1 << 40,
                                   (uint64_t)1 << 62,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xfffffffffffffffe,
                                   0xffffffffffffffff,
                                   0x7ff0000000000000 /* inf */,
                                   0x7ff8000000000000 /* nan */};

/* Fields for which any value is harmless: numbers that are only shown, recorded or used in
 * arithmetic. */
static const char *const harmless[] = {
    "META source_digest", "META seed", "META steps", "META tokens", "META parameters",
    "META eval_every", "META eval_steps", "META save_every", "META save_keep", "META flops",
    "META model_flops", "KERN special", "SDPA scale", "PEAK bytes", "ATTN dtype", "DEVC value",
    "DEVC within", "PRED step", "PRED low", "PRED high", "PRED peak", "STOR init", "STOR init_a",
    "STOR init_b", "STOR key", "KERN flops", "KERN bytes", "READ sample", "READ source",
    "READ dtype", "READ from", "READ to", "READ lo", "READ hi", "READ rate", "READ mean_span",
    "READ mask_id", "INPT draw_lo", "INPT draw_hi", "INPT lo", "INPT hi", "INPT extent",
    "SETT value", "SPAN line", "SPAN column",
};

static bool is_harmless(const char *tag, const DtPlanField *field)
{
    char name[64];
    snprintf(name, sizeof name, "%.4s %s", tag, field->name);
    for (size_t i = 0; i < DT_COUNT(harmless); i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return field->kind == DT_FIELD_STR || field->kind == DT_FIELD_BLOB ||
           field->kind == DT_FIELD_BLOB_LEN;
}

/* Checks a changed plan that the reader accepted: it must stay inside its memory. If its arenas are
 * now too large to allocate here, they must contain the arenas that the walk of the unchanged plan
 * needs. */
static bool is_sound(const DtPlan *plan)
{
    int64_t total = 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        total += plan->arenas[a].bytes;
    return total > 1 << 26 || fixture_walk(plan, 1 << 26) > 0;
}

Test(check, hostile_values_in_every_field)
{
    DtArena *arena = dt_arena_new();
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(fixture_plan(arena), &bytes, &len);
    DtPlan base;
    DtStatus status = dt_read_bytes(bytes, len, &base);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    uint64_t refused = 0, walked = 0, free_fields = 0;
    for (int s = 0; s < DT_RECORDS; s++) {
        const DtPlanRecord *record = &dt_fields_records[s];
        size_t first = (size_t)((const uint8_t *)dt_fields_at(&base, record) - bytes);
        for (uint32_t i = 0; i < dt_fields_count(&base, record); i++)
            for (uint32_t f = 0; f < record->n_fields; f++)
                for (uint32_t e = 0; e < record->fields[f].count; e++)
                    for (size_t h = 0; h < DT_COUNT(hostile); h++) {
                        const DtPlanField *field = &record->fields[f];
                        uint8_t *at = bytes + first + (size_t)i * record->size;
                        uint8_t saved[512];
                        DtPlan plan;
                        memcpy(saved, at, record->size);
                        dt_fields_set(field, at, e, hostile[h]);
                        fixture_repair(bytes, len);
                        status = dt_read_bytes(bytes, len, &plan);
                        if (!dt_status_ok(&status))
                            refused++;
                        else if (is_harmless(record->tag, field))
                            free_fields++;
                        else {
                            walked++;
                            cr_assert(is_sound(&plan), "%s %u %s[%u] = %llx accepted", record->tag,
                                      i, field->name, e, (unsigned long long)hostile[h]);
                        }
                        memcpy(at, saved, record->size);
                    }
    }
    cr_log_info("refused %lu, walked %lu, free %lu", refused, walked, free_fields);
    cr_assert_gt(refused, 5000);
    cr_assert_gt(walked, 100);
    fixture_repair(bytes, len);
    status = dt_read_bytes(bytes, len, &base);
    cr_assert(dt_status_ok(&status), "the plan is not restored: %s", status.message);
    dt_arena_free(arena);
}

/* Single breaks with the message they must give, so that a mutation is refused for its own reason.
 */
typedef struct Break {
    const char *tag, *field;
    uint32_t index, element;
    uint64_t value;
    const char *message;
} Break;

static const Break breaks[] = {
    {"META", "n_ranks", 0, 0, 3, "but the mesh has 8"},
    {"MESH", "size", 0, 0, 0, "size 0"},
    {"META", "pipeline", 0, 0, 4, "no pipeline"},
    {"META", "pipeline", 0, 0, 0, "axes 4, stages 0"},
    {"GRUP", "mask", 0, 0, 8, "axes 8"},
    {"CHAN", "to", 0, 0, 2, "from stage 0 to 2 of 2"},
    {"CHAN", "to", 0, 0, 0, "no end at stage 1"},
    {"CHAN", "slots", 0, 0, 0, "0 slots"},
    {"CHAN", "bytes", 0, 0, 60, "16 elements in a slot of 60"},
    {"ASIZ", "bytes", 9, 0, 11000, "arena of 11000"},
    {"ASIZ", "bytes", 3, 0, 16385, "16385 bytes"},
    {"AREN", "bytes", 3, 0, 100, "ASIZ 3: 16384 bytes"},
    {"AREN", "shared", 1, 0, 0, "not shared"},
    {"AREN", "kind", 0, 0, 7, "STOR 0: arena 0 is there only to predict"},
    {"AREN", "kind", 3, 0, 8, "arena 3 is there only to predict"},
    {"AREN", "kind", 4, 0, 7, "arena 4 is there only to predict"},
    {"AREN", "kind", 5, 0, 7, "arena 5 is there only to predict"},
    {"AXIS", "local", 2, 0, 1, "do not fit its axes"},
    {"AXIS", "first", 0, 0, 3, "2 elements from 3 of 4"},
    {"STOR", "offset", 0, 0, 4000, "offset 4000"},
    {"STOR", "offset", 0, 0, 2, "offset 2"},
    {"STOR", "bytes", 0, 0, 8, "do not fit its axes"},
    {"STOR", "bytes", 1, 0, 128, "do not fit its bucket"},
    {"STOR", "pack", 1, 0, 2, "pack 2 of 1"},
    {"STOR", "copy", 0, 0, 1, "is a copy without a label"},
    {"STOR", "copy", 0, 0, 1000, "is a copy without a label"},
    {"STOR", "more", 0, 0, 1, "stage -1 and 1 more of 2"},
    {"STOR", "more", 1, 0, 1, "of other stages"},
    {"STOR", "more", 1, 0, 2, "stage 0 and 2 more of 2"},
    {"AXIS", "step", 0, 0, (int64_t)1 << 62, "a step of"},
    {"STOR", "pack", 0, 0, 1, NULL}, /* h.w is in the bytes of the bucket as well */
    {"PACK", "run", 0, 0, 0, "a run of 0"},
    {"PACK", "run", 0, 0, 16, "of 64"},
    {"PACK", "extent", 0, 0, 32, "of 32"},
    {"PACK", "offset", 0, 0, 33, "elements from 33 on of 64"},
    {"PACK", "split", 0, 0, 3, "mesh axis 3"},
    {"PACK", "n_split", 0, 0, 5, "5 mesh axes"},
    {"PACK", "n_split", 0, 0, 2, "mesh axis 0"},
    {"CODE", "binary_len", 0, 0, 1 << 20, "binary"},
    {"ARGS", "kind", 3, 0, 2 /* step */,
     "argument 3 is the number of the step, which is one of kernels only"},
    {"KERN", "n_integers", 0, 0, 3, "4 arguments instead of 5"},
    {"LNCH", "blocks", 0, 0, 0, "0 blocks"},
    {"LNCH", "threads", 0, 0, 1025, "1025 threads"},
    {"LNCH", "shared", 0, 0, 232449, "232449 bytes"},
    {"LNCH", "finish", 0, 0, 3, "3 blocks that finish with 0 bytes"},
    {"LNCH", "workspace", 0, 0, 64, "0 blocks that finish with 64 bytes"},
    {"REGS", "kernel", 0, 0, 1, "kernel 1 of 1, code unit 0 of 1"},
    {"REGS", "code", 0, 0, 1, "kernel 0 of 1, code unit 1 of 1"},
    {"REGS", "registers", 0, 0, 256, "256 registers"},
    {"REGS", "spilled", 0, 0, (1 << 19) + 1, "524289 bytes spilled"},
    {"SDPA", "kernel", 0, 0, 1, "is of kernel 1 of 1"},
    {"SDPA", "dtype", 0, 0, 8 /* f32 */, "a form that no attention has"},
    {"SDPA", "backward", 0, 0, 1, "part 4 is pointer -1 of 2"},
    {"SDPA", "causal", 0, 0, 2, "a form that no attention has"},
    {"SDPA", "heads", 0, 0, 0, "counts are out of range"},
    {"SDPA", "kv_heads", 0, 0, 3, "2 heads of 8, 3 of keys"},
    {"SDPA", "head", 0, 0, 12, "2 heads of 12, 1 of keys"},
    {"SDPA", "window", 0, 0, -1, "a form that no attention has"},
    {"SDPA", "workspace", 0, 0, ((uint64_t)1 << 32) + 1, "a form that no attention has"},
    {"SDPA", "pointer", 0, 3, 2, "part 3 is pointer 2 of 2"},
    {"SDPA", "pointer", 0, 3, 0, "parts 0 and 3 are pointer 0"},
    {"SDPA", "pointer", 0, 4, 1, "parts 3 and 4 are pointer 1"},
    {"SDPA", "pointer", 0, 0, 1, "parts 0 and 3 are pointer 1"},
    {"SDPA", "offset", 0, 0, -1, "part 0 lies at steps of -1"},
    {"SDPA", "of_row", 0, 9, 1, "part 9 lies at steps of 1"},
    {"SDPA", "of_row", 0, 1, 64, "part 1 of its record of SDPA is larger"},
    {"SDPA", "queries", 0, 0, 16, "part 0 of its record of SDPA is larger"},
    {"GEMM", "k", 0, 0, 9, "too few"},
    {"GEMM", "a_row", 0, 0, 9, "too few"},
    {"GEMM", "b_batch", 0, 0, 1, "too few"},
    {"GEMM", "c_row", 0, 0, 0, "coincide"},
    {"GEMM", "dtype_a", 0, 0, 4, "multiplies i32 and f32 into f32"},
    {"GEMM", "epilogue", 0, 0, 1, "`bias` of a product in batches"},
    {"GEMM", "epilogue", 0, 0, 99, "no kind has number 99"},
    {"GEMM", "matrix_row", 0, 0, 8, "stride 8 of an epilogue"},
    {"ARGS", "base", 0, 0, 900, "bytes 900 to 1028 of an arena of 1024"},
    {"ARGS", "reg", 5, 2, 1 << 20, NULL}, /* register 2 is never set, so it is 0 */
    {"ARGS", "reg", 5, 1, 1 << 20, "of an arena"},
    {"ARGS", "coord", 2, 0, 16, "reads rows"},
    {"ARGS", "written", 6, 0, 0, "says it is not"},
    {"INST", "count", 3, 0, 201, "too few"},
    {"INST", "count", 5, 0, 65, "too few"},
    {"INST", "dtype", 5, 0, 9, "too few"},
    {"INST", "ref", 6, 0, 3, "group 3 of 3"},
    {"SCHD", "count", 0, 0, 3, "reads rows 0 to 20"},
    {"SCHD", "count", 1, 0, 100, "of an arena"},
    {"SCHD", "count", 1, 0, 900000000, "more than"},
    {"SCHD", "reg", 1, 0, 0, "two nested loops"},
    {"SCHD", "kind", 4, 0, DT_SCHED_RUN, "does not end"},
    {"ENTR", "count", 0, 0, 4, "does not end"},
    {"ENTR", "first", 1, 0, 4, "ends no loop"},
    {"ENTR", "stage", 0, 0, 2, "stage 2 of 2"},
    {"ENTR", "stage", 4, 0, 0, "an entry occurs twice"},
    {"SCHD", "count", 7, 0, 70, NULL}, /* slots stay below 2 */
    {"SCHD", "count", 17, 0, 0, "of an arena"},
    {"SCHD", "count", 17, 0, 4, "of an arena"},
    {"SCHD", "count", 17, 0, 3, NULL},
    {"SCHD", "plus", 8, 0, 10, "sets register 6 out of 8"},
    {"SCHD", "plus", 11, 0, 1, "only SET adds"},
    {"SCHD", "reg", 10, 0, 6, NULL},
    {"SCHD", "reg", 10, 0, 8, "sets register 8"},
    {"SCHD", "body", 11, 0, 3, "cannot call entry 3"},
    {"SCHD", "body", 18, 0, 2, "cannot call entry 2"},
    {"BLOK", "group", 0, 0, 0, "mesh axis 1 moves it"},
    {"BLOK", "extent", 0, 1, 4, "blocks of 8 elements, not 6"},
    {"BLOK", "to_coord", 0, 1, 4, "too few"},
    {"BLOK", "from", 0, 0, 4, "too few"},
    {"INST", "guards", 3, 0, 0, "3 arguments instead of 2"},
    {"INST", "guards", 3, 0, 2, "guard 1 is no integer"},
    {"INST", "guards", 3, 0, 4, "4 guards"},
    {"INST", "guards", 5, 0, 1, "1 guards"},
    {"INST", "event", 0, 0, 1, "is no collective"},
    {"INST", "event", 16, 0, 0, "names no event"},
    {"INST", "event", 12, 0, 3, "events 2 to 2 of 1"},
    {"INST", "event_step", 5, 0, 1, "names no event"},
    {"GRUP", "queue", 0, 0, 0, "is started in queue 0"},
    {"GRUP", "queue", 0, 0, 4, "queue 4"},
    {"GRUP", "mask", 1, 0, 1, "do not make 4 ranks"},
    {"META", "events", 0, 0, 0, "events 0 to 0 of 0"},
    {"META", "events", 0, 0, 3, "3 events, where instructions name 1"},
    {"META", "events", 0, 0, 65537, "65537 events"},
    {"INST", "blocks", 9, 0, 2, "blocks 2 of 1"},
    {"INST", "blocks", 10, 0, 1, "only exchanges have blocks"},
    {"AXIS", "split", 2, 1, 2, "split by 2"},
    {"READ", "from", 0, 0, 0x3ff0000000000000, "part 1 to"},
    {"INPT", "row_elements", 0, 0, 9, "do not fit its axes"},
    {"INPT", "n_ranges", 0, 0, 5, "ranges of its values"},
    {"INPT", "lo", 0, 1, 9, "ranges of its values"},
    {"INPT", "hi", 0, 0, 99, "ranges of its values"},
    {"INPT", "hi", 0, 1, 98, "ranges of its values"},
    {"INPT", "draw_lo", 0, 0, 11, "ranges of its values"},
    {"INPT", "extent", 0, 0, (uint64_t)1 << 62, "ranges of its values"},
    {"INPT", "span", 0, 0, 1000, "span 1000"},
    {"SCAL", "offset", 0, 0, 62, "offset 62"},
    {"METR", "bytes", 0, 0, 8, "do not fit"},
    {"SHOW", "entry", 0, 0, 0, "of an entry that the plan lacks"},
    {"SHOW", "formula", 0, 0, 0, "there is no number `perplexity`"},
    {"SAVE", "iterations", 0, 0, 0, "out of range"},
    {"SAVE", "saved", 0, 0, -1, "out of range"},
    {"SAVE", "span", 0, 0, 1000, "span 1000"},
    {"PEAK", "entry", 0, 0, 1000, "of entry 1000"},
    {"PEAK", "span", 0, 0, 1000, "span 1000"},
    {"ATTN", "kernel", 0, 0, 1000, "is of kernel 1000"},
    {"ATTN", "keys", 0, 0, 0, "out of range"},
    {"ATTN", "visible", 0, 0, 0x4000000000000000, "2 of its scores"},
    {"NAMS", "n_tensors", 0, 0, 2, "FTEN"},
    {"NAMS", "n_rules", 0, 0, 2, "RULE"},
    {"NAMS", "span", 0, 0, 1000, "span 1000"},
    {"NAMS", "adapters", 0, 0, 2, "adapters 2"},
    {"ADPT", "scale", 0, 0, 0x7ff0000000000000, "scale is not finite"},
    {"FTEN", "n_index", 0, 0, 4, "4 of 3 axes make its names"},
    {"FTEN", "n_axes", 0, 0, 17, "1 of 17 axes"},
    {"FTEN", "n_axes", 0, 0, 2, "more extents than axes"},
    {"FTEN", "extent", 0, 0, 0, "extents that cannot be"},
    {"FTEN", "extent", 0, 0, 1 << 23, "extents that cannot be"},
    {"FTEN", "extent", 0, 2, (uint64_t)1 << 62, "extents that cannot be"},
    {"FTEN", "n_holes", 0, 0, 0, "0 numbers in a name with 1"},
    {"FTEN", "first_hole", 0, 0, 1, "HOLE"},
    {"FTEN", "n_parts", 0, 0, 2, "PART"},
    {"FTEN", "span", 0, 0, 1000, "span 1000"},
    {"HOLE", "first", 0, 0, -1, "numbers that no name has"},
    {"HOLE", "factor", 0, 0, -1, "numbers that no name has"},
    {"HOLE", "factor", 0, 0, (uint64_t)1 << 62, "numbers that no name has"},
    {"HOLE", "n_list", 0, 0, 1, "lists other than 1 numbers"},
    {"HOLE", "factor", 0, 1, 1, "a factor of no index"},
    {"PART", "n_axes", 0, 0, 17, "17 axes"},
    {"PART", "first", 0, 0, -1, "from element -1 on"},
    {"PART", "first", 0, 0, 1, "reaches beyond its tensor of 96 elements"},
    {"PART", "stride", 0, 1, 2, "reaches beyond its tensor"},
    {"PART", "stride", 0, 0, -1, "-1 apart"},
    {"PART", "stride", 0, 3, 1, "0 elements of axis 3, 1 apart"},
    {"PART", "count", 0, 2, 5, "reaches beyond its tensor"},
    {"PART", "count", 0, 0, 0, "0 elements of axis 0"},
    {"RULE", "span", 0, 0, 1000, "span 1000"},
    {"NOTE", "count", 0, 0, 4, "4 bytes from 0 of 3"},
    {"NOTE", "first", 0, 0, 2, "3 bytes from 2 of 3"},
};

Test(check, says_what_is_wrong)
{
    for (size_t i = 0; i < DT_COUNT(breaks); i++) {
        const Break *b = &breaks[i];
        DtArena *arena = dt_arena_new();
        uint8_t *bytes;
        size_t len;
        DtPlan plan;
        dt_write_bytes(fixture_plan(arena), &bytes, &len);
        DtStatus status = dt_read_bytes(bytes, len, &plan);
        const DtPlanRecord *record = dt_fields_find(b->tag);
        const DtPlanField *field = NULL;
        for (uint32_t f = 0; f < record->n_fields; f++)
            if (strcmp(record->fields[f].name, b->field) == 0)
                field = &record->fields[f];
        cr_assert_not_null(field, "%s %s", b->tag, b->field);
        size_t at = (size_t)((const uint8_t *)dt_fields_at(&plan, record) - bytes) +
                    b->index * record->size;
        dt_fields_set(field, bytes + at, b->element, b->value);
        fixture_repair(bytes, len);
        status = dt_read_bytes(bytes, len, &plan);
        if (b->message == NULL)
            cr_assert(dt_status_ok(&status), "%s %s: %s", b->tag, b->field, status.message);
        else
            cr_assert(strstr(status.message, b->message), "%s %u %s: '%s' lacks '%s'", b->tag,
                      b->index, b->field, status.message, b->message);
        dt_arena_free(arena);
    }
}

/* Sets of stages: only stages that exist, written in the only allowed form. */
Test(check, says_which_stages_a_group_cannot_have)
{
    static const struct {
        const char *stages, *message;
    } rows[] = {{"1", "stage 0 is not in group 2"}, {"2", "axes 4, stages 2"},
                {"0 to 1", "stages 0 to 1"}, {"1, 0", "stages 1, 0"}, {"0,1", "stages 0,1"},
                {"4294967296", "stages 4294967296"}, {"0 ", "stages 0 "}, {"none", "stages none"},
                {"0, 1", "axes 4 do not make 1 ranks"}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        DtArena *arena = dt_arena_new();
        DtPlanBuilder *b = fixture_plan(arena);
        uint8_t *bytes;
        size_t len;
        DtPlan plan;
        b->groups.at[2].stages = dt_write_str(b, rows[i].stages);
        dt_write_bytes(b, &bytes, &len);
        DtStatus status = dt_read_bytes(bytes, len, &plan);
        cr_expect(strstr(status.message, rows[i].message), "%s: '%s' lacks '%s'", rows[i].stages,
                  status.message, rows[i].message);
        dt_arena_free(arena);
    }
}

/* A record with several stages stands for one record for each stage, with its axes: a small file
 * could thus need much memory. */
Test(check, stores_of_several_stages_stay_few)
{
    for (uint32_t more = 0; more < 2; more++) { /* so many records are not wrong by themselves */
        DtArena *arena = dt_arena_new();
        DtPlanBuilder *b = fixture_plan(arena);
        uint8_t *bytes;
        size_t len;
        DtPlan plan;
        for (uint32_t s = 0; s < 2; s++) {
            b->stores.at[s].stage = 0;
            b->stores.at[s].more = more;
        }
        const DtPlanStore store = b->stores.at[0];
        while ((b->stores.n + 1) * 2 * (store.n_axes + 1u) <= DT_CHECK_MAX_COPIES)
            DT_PUSH(arena, b->stores, store);
        for (uint32_t too_many = 0; too_many < 2; too_many++) {
            dt_write_bytes(b, &bytes, &len);
            DtStatus status = dt_read_bytes(bytes, len, &plan);
            if (more && too_many)
                cr_assert(strstr(status.message, "become more than"), "%s", status.message);
            else
                cr_assert(dt_status_ok(&status), "%s", status.message);
            DT_PUSH(arena, b->stores, store);
        }
        dt_arena_free(arena);
    }
}

/* An iteration must set each register that it reads, before it reads it. */
Test(check, registers_are_set_before_they_are_read)
{
    DtArena *arena = dt_arena_new();
    DtPlanBuilder *b = fixture_plan(arena);
    uint8_t *bytes;
    size_t len;
    DtPlan plan;
    DtPlanSchedule set = b->schedule.at[10];
    cr_assert_eq(set.kind, DT_SCHED_SET);
    b->schedule.at[10] = b->schedule.at[11];
    b->schedule.at[11] = set;
    dt_write_bytes(b, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(strstr(status.message, "register 5 has no value"), "%s", status.message);
    dt_arena_free(arena);
}

/* Whether a plan with an entry of these items is accepted; message: the expected error. */
static void expect_entry(const DtPlanSchedule *items, uint32_t n, size_t row, const char *message)
{
    DtArena *arena = dt_arena_new();
    DtPlanBuilder *b = fixture_plan(arena);
    uint8_t *bytes;
    size_t len;
    DtPlan plan;
    DtPlanEntry entry = {.name = dt_write_str(b, "ahead"), .first = b->schedule.n, .count = n,
                         .stage = -1};
    for (uint32_t k = 0; k < n; k++)
        DT_PUSH(arena, b->schedule, items[k]);
    DT_PUSH(arena, b->entries, entry);
    DT_PUSH(arena, b->notes, ((DtPlanNote){0, 0}));
    dt_write_bytes(b, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    if (message)
        cr_expect(strstr(status.message, message), "row %zu: '%s' lacks '%s'", row, status.message,
                  message);
    else
        cr_expect(dt_status_ok(&status), "row %zu: %s", row, status.message);
    dt_arena_free(arena);
}

/* Items of a WHEN find its register within bounds; registers that these items set have no known
 * value after it. */
Test(check, guards_bound_registers)
{
    static const DtPlanSchedule items[] = {
        {.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = 100},
        {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2, .count = 2},
        {.kind = DT_SCHED_SET, .reg = 7, .body = 1, .step = 1, .first = 1, .count = 2},
        {.kind = DT_SCHED_RUN, .body = 0}, /* invalid for some values of register 1 */
        {.kind = DT_SCHED_SET, .reg = 6, .body = 5, .step = 1},
        {.kind = DT_SCHED_END, .reg = 1},
    };
    static const struct {
        uint32_t item;
        DtPlanSchedule to;
        const char *message;
    } rows[] = {
        {5, {.kind = DT_SCHED_END, .reg = 1}, NULL},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2, .count = 99}, "of an arena"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2, .first = 1, .count = 1}, NULL},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 1, .count = 2}, "of an arena"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2, .first = 100, .count = 1}, "never runs"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2}, "guards 2 items by register 1"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 9, .count = 2}, "guards 9 items"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 4, .count = 2}, "only RUN, SET and WHEN"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 10, .body = 2, .count = 2}, "by register 10"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 7, .body = 2, .count = 2},
         "register 7 is set where it guards"},
        {1, {.kind = DT_SCHED_WHEN, .reg = 6, .body = 2, .count = 2}, "register 6 has no value"},
        {2, {.kind = DT_SCHED_SET, .reg = 1, .body = 0, .step = 1}, "sets register 1"},
        {2, {.kind = DT_SCHED_SET, .reg = 7, .body = 7, .step = 1, .first = 1, .count = 2}, NULL},
        {2, {.kind = DT_SCHED_SET, .reg = 7, .body = 1, .step = 1}, "modulo 0"},
        {2, {.kind = DT_SCHED_SET, .reg = 5, .body = 1, .step = 1, .count = 2},
         "register 5 or 0 has no value"},
        {2, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 1, .first = 1, .count = 1}, NULL},
        {2, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 1, .first = 2, .count = 1}, "never runs"},
        {2, {.kind = DT_SCHED_WHEN, .reg = 1, .body = 2, .count = 1}, "guards 2 items"},
        {4, {.kind = DT_SCHED_CALL, .body = 0}, "two nested loops"},
        {5, {.kind = DT_SCHED_SET, .reg = 6, .body = 1, .step = 1}, "does not end"},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        DtPlanSchedule changed[DT_COUNT(items)];
        memcpy(changed, items, sizeof items);
        changed[rows[i].item] = rows[i].to;
        expect_entry(changed, DT_COUNT(items), i, rows[i].message);
    }
}

/* An iteration finds the value of the ring's register that the previous one set, even if guards are
 * in between; it finds no other register's value. */
Test(check, the_ring_keeps_its_value)
{
    static const struct {
        uint32_t reg;
        int32_t count, slot;
        const char *message;
    } rows[] = {
        {7, 3, 2, NULL},
        {7, 3, 0, NULL},
        {7, 3, 3, "never runs"},
        {7, 2, 2, "never runs"},
        {7, 0, 0, "modulo 0"},
        {6, 3, 2, "register 6 has no value"},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const uint8_t reg = (uint8_t)rows[i].reg;
        const DtPlanSchedule items[] = {
            {.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = 100},
            {.kind = DT_SCHED_WHEN, .reg = reg, .body = 1, .first = rows[i].slot, .count = 1},
            {.kind = DT_SCHED_SET, .reg = 5, .body = 1, .step = 1},
            {.kind = DT_SCHED_WHEN, .reg = 1, .body = 1, .first = 1, .count = 9},
            {.kind = DT_SCHED_SET, .reg = reg, .body = reg, .step = 1, .first = 1,
             .count = rows[i].count},
            {.kind = DT_SCHED_END, .reg = 1},
        };
        expect_entry(items, DT_COUNT(items), i, rows[i].message);
    }
}

/* After its loop a register is 0, and so it is in the next iteration of an outer loop. */
Test(check, registers_of_loops_become_0)
{
    for (int32_t value = 0; value < 4; value++) {
        const DtPlanSchedule items[] = {
            {.kind = DT_SCHED_SET, .reg = 6, .first = 2},
            {.kind = DT_SCHED_LOOP, .reg = 1, .step = 1, .count = 2},
            {.kind = DT_SCHED_WHEN, .reg = 6, .body = 1, .first = value, .count = 1},
            {.kind = DT_SCHED_SET, .reg = 5, .body = 1, .step = 1},
            {.kind = DT_SCHED_LOOP, .reg = 6, .step = 1, .count = 9},
            {.kind = DT_SCHED_END, .reg = 6},
            {.kind = DT_SCHED_END, .reg = 1},
        };
        expect_entry(items, DT_COUNT(items), (size_t)value, value < 3 ? NULL : "never runs");
    }
}

Test(check, a_valid_plan_is_walked)
{
    DtArena *arena = dt_arena_new();
    uint8_t *bytes;
    size_t len;
    DtPlan plan;
    dt_write_bytes(fixture_plan(arena), &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_gt(fixture_walk(&plan, 1 << 26), 1000);
    dt_arena_free(arena);
}
