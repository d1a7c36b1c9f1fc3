/* SPDX-License-Identifier: Apache-2.0 */
/* Plan files: equal plans have equal bytes, are read back, are written as text and read back; and
 * damaged files of every kind are refused. */
#include "plan_fixture.h"

#include "base/compress.h"
#include "base/hash.h"
#include "plan/fields.h"
#include "plan/origin.h"
#include "plan/read.h"
#include "plan/stages.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint8_t *bytes;
static size_t len;
static DtArena *arena;

static void setup(void)
{
    arena = dt_arena_new();
    dt_write_bytes(fixture_plan(arena), &bytes, &len);
}

static void teardown(void) { dt_arena_free(arena); }

TestSuite(planfile, .init = setup, .fini = teardown);

Test(planfile, reads_back_what_was_written)
{
    DtPlan plan;
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (int s = 0; s < DT_RECORDS; s++)
        cr_assert_gt(dt_fields_count(&plan, &dt_fields_records[s]), 0, "the fixture lacks %s",
                     dt_fields_records[s].tag);
    cr_assert_str_eq(dt_plan_str(&plan, plan.stores[0].pattern), "h.#.w");
    cr_assert_eq(plan.stores[0].key, 0x1234567890abcdef);
    cr_assert_eq(plan.blob[plan.codes[0].binary + 7], 255);
    cr_assert_eq(memcmp(plan.blob + plan.logical[0].notes, "\1\2\3", 3), 0);
    for (uint32_t i = 0; i + 8 < plan.n_strings; i++)
        cr_assert_neq(memcmp(plan.strings + i, "dropped", 7), 0,
                      "a string that nothing names was kept");
}

Test(planfile, same_plan_same_bytes)
{
    uint8_t *again;
    size_t again_len;
    DtArena *other = dt_arena_new();
    dt_write_bytes(fixture_plan(other), &again, &again_len);
    cr_assert_eq(again_len, len);
    cr_assert_eq(memcmp(again, bytes, len), 0);
    dt_arena_free(other);
}

Test(planfile, text_form_reads_back_to_the_same_bytes)
{
    DtPlan plan;
    DtText text = {0}, again_text = {0};
    uint8_t *again;
    size_t again_len;
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    dt_plantext_dump(&plan, &text);
    status = dt_plantext_read(arena, text.at, text.len, &again, &again_len);
    cr_assert(dt_status_ok(&status), "%s\n%s", status.message, text.at);
    cr_assert_eq(again_len, len);
    cr_assert_eq(memcmp(again, bytes, len), 0);
    status = dt_read_bytes(again, again_len, &plan);
    dt_plantext_dump(&plan, &again_text);
    cr_assert_str_eq(again_text.at, text.at);
    dt_text_free(&text);
    dt_text_free(&again_text);
}

Test(planfile, text_errors_name_the_line)
{
    static const char *const wrong[][2] = {
        {"plan 1\n", "first line"},
        {"plan 32a\n", "first line"},
        {"plan 32\nXXXX a=1\n", "line 2"},
        {"plan 32\n\nMETA model=\"a\n", "does not end"},
        {"plan 32\nMETA n_ranks=1 n_ranks=1\n", "twice"},
        {"plan 32\nMETA n_ranks=5000000000\n", "no number"},
        {"plan 32\nMETA reserved=1\n", "no field"},
        {"plan 32\nINST kind=jump\n", "no value"},
        {"plan 32\nARGS kind=address reg=(1, 2, 3, 4, 5, 6, 7, 8, 9)\n", "at most 8"},
        {"plan 32\nMETA flops=nan\n", "finite"},
        {"plan 32\nLOGI programs=text\n|a\n", "does not end"},
        {"plan 32\nLOGI programs=text\n:a\n.\n", "base64"},
        {"plan 32\n", "one META"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        uint8_t *made;
        size_t made_len;
        DtStatus status =
            dt_plantext_read(arena, wrong[i][0], strlen(wrong[i][0]), &made, &made_len);
        cr_assert(!dt_status_ok(&status), "accepted: %s", wrong[i][0]);
        cr_assert(strstr(status.message, wrong[i][1]), "%s -> %s", wrong[i][0], status.message);
    }
}

Test(planfile, every_flipped_byte_is_noticed)
{
    DtPlan plan;
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= 0x10;
        DtStatus status = dt_read_bytes(bytes, len, &plan);
        cr_assert(!dt_status_ok(&status), "byte %zu", i);
        bytes[i] ^= 0x10;
    }
}

Test(planfile, every_cut_is_noticed)
{
    DtPlan plan;
    for (size_t n = 0; n < len; n++) {
        uint8_t *exact = NULL;
        cr_assert_eq(posix_memalign((void **)&exact, 64, n ? n : 1), 0);
        memcpy(exact, bytes, n);
        DtStatus status = dt_read_bytes(exact, n, &plan);
        cr_assert(!dt_status_ok(&status), "cut to %zu", n);
        free(exact);
    }
}

Test(planfile, what_it_was_compiled_from)
{
    DtPlan plan;
    DtOrigin origin;
    const DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(dt_origin_read(arena, &plan, &origin));
    cr_assert_eq(origin.words.n, 2);
    cr_assert_str_eq(origin.words.at[1], "batch=8");
    cr_assert_str_eq(origin.block, "parallel p on c { }");
    cr_assert_eq(origin.files.n, 2);
    cr_assert_str_eq(origin.files.at[0].name, "net.dsl");
    cr_assert_str_eq(origin.files.at[0].text, "x\n");
    cr_assert(!origin.files.at[0].is_library && origin.files.at[1].is_library);
    cr_assert_eq(origin.files.at[1].len, 0);
}

/* Whether a plan with this text in its section is read. */
static bool reads_origin(const char *text, size_t n)
{
    DtOrigin origin;
    DtPlanOrigin record = {0};
    uint8_t *small;
    size_t small_len;
    dt_compress(arena, text, n, &small, &small_len);
    record.text_len = small_len;
    const DtPlan plan = {.origins = &record, .n_origins = 1, .blob = small, .n_blob = small_len};
    return dt_origin_read(arena, &plan, &origin);
}

Test(planfile, what_it_was_compiled_from_may_be_damaged)
{
    static const char good[] = "--dim\0a=1\0\0block\0program\0net.dsl\0" "3\0abc";
    const size_t n = sizeof good - 1;
    cr_assert(reads_origin(good, n));
    for (size_t cut = 0; cut < n; cut++)
        cr_assert(!reads_origin(good, cut), "cut to %zu", cut);
    static const char *const bad[] = {"program", "net.dsl", "3"}, *const other[] = {"programs", "",
                                                                                    "-3"};
    for (size_t i = 0; i < 3; i++) {
        char text[64] = "\0\0";
        size_t at = 2;
        for (size_t k = 0; k < 3; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s", k == i ? other[k] : bad[k]) +
                  1;
        memcpy(text + at, "abc", 3);
        cr_assert(!reads_origin(text, at + 3), "%s", other[i]);
    }
    static const char library[] = "\0\0library\0std.dsl\0" "0\0";
    cr_assert(!reads_origin(library, sizeof library - 1), "the first file is the program");
}

Test(planfile, unknown_sections_are_skipped_unless_critical)
{
    DtPlan plan;
    DtPlanHeader header;
    memcpy(&header, bytes, sizeof header);
    for (uint32_t s = 0; s < header.n_sections; s++) {
        DtPlanSection *section = (DtPlanSection *)(void *)(bytes + sizeof header) + s;
        if (memcmp(section->tag, "LOGI", 4) != 0)
            continue;
        memcpy(section->tag, "ZZZZ", 4);
        fixture_repair(bytes, len);
        DtStatus status = dt_read_bytes(bytes, len, &plan);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        section->critical = 1;
        fixture_repair(bytes, len);
        status = dt_read_bytes(bytes, len, &plan);
        cr_assert(!dt_status_ok(&status));
        return;
    }
    cr_assert_fail("no LOGI section");
}

Test(planfile, other_versions_are_to_be_compiled_again)
{
    DtPlan plan;
    DtPlanHeader header;
    DtPlanSection *section = (DtPlanSection *)(void *)(bytes + sizeof header);
    section->record_size += 8;
    fixture_repair(bytes, len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(strstr(status.message, " bytes: compile it again"), "%s", status.message);
    memcpy(&header, bytes, sizeof header);
    header.version++;
    memcpy(bytes, &header, sizeof header);
    status = dt_read_bytes(bytes, len, &plan);
    cr_assert(strstr(status.message, ": compile it again"), "%s", status.message);
}

Test(planfile, files)
{
    char path[] = "/tmp/dt_planXXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    DtStatus status = dt_write_file(fixture_plan(arena), path);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    DtPlanFile file;
    status = dt_read_file(path, &file);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(file.plan.n_insts, 17);
    dt_read_close(&file);
    unlink(path);
    status = dt_read_file(path, &file);
    cr_assert_eq(status.code, DT_EXIT_IO);
}

/* The record of a parameter of stages 1 to 3 comes after its moment's, between stores of single
 * stages. */
Test(stages, one_record_per_stage)
{
    const DtPlanAxis axes[] = {{.extent = 8, .local = 8},
                               {.extent = 12, .local = 2, .first = 3, .step = 2},
                               {.extent = 5, .local = 5}};
    const DtPlanStore stores[] = {{.of = -1, .stage = 0, .first_axis = 0, .n_axes = 1},
                                  {.of = 2, .stage = 1, .more = 2, .first_axis = 1, .n_axes = 2,
                                   .n_loops = 1},
                                  {.of = -1, .stage = 1, .more = 2, .first_axis = 1, .n_axes = 2,
                                   .n_loops = 1},
                                  {.of = 0, .stage = 0, .first_axis = 0, .n_axes = 1}};
    const DtPlan plan = {.axes = axes, .n_axes = 3, .stores = stores, .n_stores = 4};
    DtArena *memory = dt_arena_new();
    const DtPlan *all = dt_stages_expand(memory, &plan);
    cr_assert_eq(all->n_stores, 8);
    for (uint32_t k = 0; k < 3; k++) {
        const DtPlanStore *moment = &all->stores[1 + k], *param = &all->stores[4 + k];
        cr_expect(param->stage == 1 + (int32_t)k && param->more == 0 && param->of == -1);
        cr_expect(moment->stage == 1 + (int32_t)k && moment->more == 0 &&
                  moment->of == 4 + (int32_t)k);
        cr_expect_eq(param->first_axis, moment->first_axis);
        cr_expect_eq(all->axes[param->first_axis].first, 3 + 2 * k);
        cr_expect_eq(all->axes[param->first_axis].step, 0);
        cr_expect_eq(all->axes[param->first_axis + 1].extent, 5);
    }
    cr_expect(all->stores[7].of == 0 && all->stores[7].first_axis == 0);
    cr_expect_eq(dt_stages_expand(memory, all), all, "there is nothing left to write out");
    dt_arena_free(memory);
}
