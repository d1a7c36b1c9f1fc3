/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of kinds in plans equal those of the compiler. */
#include "ir/config.h"
#include "plan/kinds.h"
#include "plan/name.h"

#include <criterion/criterion.h>

#define SAME(a, b) cr_assert_eq((int)(a), (int)(b), #a " is not " #b)

Test(kinds, equal_the_compilers)
{
    SAME(DT_PLAN_BOOL, DT_BOOL);
    SAME(DT_PLAN_U8, DT_U8);
    SAME(DT_PLAN_U16, DT_U16);
    SAME(DT_PLAN_U32, DT_U32);
    SAME(DT_PLAN_I32, DT_I32);
    SAME(DT_PLAN_I64, DT_I64);
    SAME(DT_PLAN_F16, DT_F16);
    SAME(DT_PLAN_BF16, DT_BF16);
    SAME(DT_PLAN_F32, DT_F32);
    SAME(DT_PLAN_F64, DT_F64);
    SAME(DT_PLAN_DTYPES, DT_DTYPE_COUNT);
    SAME(DT_PLAN_SUM, DT_REDUCE_SUM);
    SAME(DT_PLAN_MAX, DT_REDUCE_MAX);
    SAME(DT_PLAN_MIN, DT_REDUCE_MIN);
    SAME(DT_PLAN_PARAM, DT_STORE_PARAM);
    SAME(DT_PLAN_STATE, DT_STORE_STATE);
    SAME(DT_PLAN_GRAD, DT_STORE_GRAD);
    SAME(DT_PLAN_MOMENT1, DT_STORE_MOMENT1);
    SAME(DT_PLAN_MOMENT2, DT_STORE_MOMENT2);
    SAME(DT_PLAN_MOMENT3, DT_STORE_MOMENT3);
    SAME(DT_PLAN_MOMENT4, DT_STORE_MOMENT4);
    SAME(DT_PLAN_SAVED, DT_STORE_SAVED);
    SAME(DT_PLAN_CHANNEL, DT_STORE_CHANNEL);
    SAME(DT_PLAN_MASTER, DT_STORE_MASTER);
    SAME(DT_PLAN_NEXT, DT_STORE_NEXT);
    SAME(DT_PLAN_CODES, DT_STORE_CODES);
    SAME(DT_PLAN_SCALES, DT_STORE_SCALES);
    SAME(DT_PLAN_CONST, DT_INIT_CONST);
    SAME(DT_PLAN_NORMAL, DT_INIT_NORMAL);
    SAME(DT_PLAN_UNIFORM, DT_INIT_UNIFORM);
    SAME(DT_PLAN_TEXT, DT_SOURCE_TEXT);
    SAME(DT_PLAN_BIN, DT_SOURCE_BIN);
    SAME(DT_PLAN_NPY, DT_SOURCE_NPY);
    SAME(DT_PLAN_IMAGES, DT_SOURCE_IMAGES);
    SAME(DT_PLAN_SYNTHETIC, DT_SOURCE_SYNTHETIC);
    SAME(DT_PLAN_CHAT, DT_SOURCE_CHAT);
    SAME(DT_PLAN_CSV, DT_SOURCE_CSV);
    SAME(DT_PLAN_NEXT_TOKEN, DT_SAMPLE_NEXT_TOKEN);
    SAME(DT_PLAN_MLM, DT_SAMPLE_MLM);
    SAME(DT_PLAN_SPAN_CORRUPTION, DT_SAMPLE_SPAN_CORRUPTION);
    SAME(DT_PLAN_SAMPLE_IMAGES, DT_SAMPLE_IMAGES);
    SAME(DT_PLAN_RAW, DT_SAMPLE_RAW);
}

Test(kinds, names_of_entries)
{
    static const struct {
        const char *name;
        DtPlanRun run;
        DtPlanPart part;
        int32_t number, twin;
        const char *objective;
    } rows[] = {
        {"step", DT_PLAN_STEP, DT_PLAN_WHOLE, -1, 0, ""},
        {"grad", DT_PLAN_STEP, DT_PLAN_WHOLE, -1, 0, ""},
        {"loss", DT_PLAN_LOSS, DT_PLAN_WHOLE, -1, 0, ""},
        {"update.2", DT_PLAN_UPDATE, DT_PLAN_WHOLE, 2, 0, ""},
        {"grad.prologue", DT_PLAN_STEP, DT_PLAN_PROLOGUE, -1, 0, ""},
        {"eval.prologue.12", DT_PLAN_EVAL, DT_PLAN_PROLOGUE, 12, 0, ""},
        {"grad.f0", DT_PLAN_STEP, DT_PLAN_F, 0, 0, ""},
        {"grad.b31.2", DT_PLAN_STEP, DT_PLAN_B, 31, 2, ""},
        {"predict.f999999999", DT_PLAN_PREDICT, DT_PLAN_F, 999999999, 0, ""},
        /* it is not a number of the loss */
        {"grad@net2.w7", DT_PLAN_STEP, DT_PLAN_W, 7, 0, "net2"},
        {"update@critic", DT_PLAN_UPDATE, DT_PLAN_WHOLE, -1, 0, "critic"},
    };
    static const char *const none[] = {"", "steps", "updates", "grad@", "grad.", "grad.f",
                                       "grad.x1", "grad.f01", "grad.f1.", "grad.f1.0",
                                       "grad.f1.2.3", "grad.2.1", "eval2", "grad.prologues",
                                       "grad.prologue.f0", "grad.f1000000000"};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const DtPlanName name = dt_plan_name(rows[i].name);
        cr_expect(name.run == rows[i].run && name.part == rows[i].part &&
                      name.number == rows[i].number && name.twin == rows[i].twin &&
                      name.n_objective == strlen(rows[i].objective) &&
                      !strncmp(name.n_objective ? name.objective : "", rows[i].objective,
                               name.n_objective),
                  "%s", rows[i].name);
        cr_expect_eq(dt_plan_name_is_part(&name), strchr(rows[i].name, '.') != NULL);
    }
    for (size_t i = 0; i < DT_COUNT(none); i++)
        cr_expect_eq(dt_plan_name(none[i]).run, DT_PLAN_NO_RUN, "%s", none[i]);
    const DtPlanName near = dt_plan_name("grad@near.f1"), far = dt_plan_name("grad@far.f1"),
                     step = dt_plan_name("step@near"), all = dt_plan_name("grad.f1");
    cr_expect(dt_plan_name_same_run(&near, &step));
    cr_expect(!dt_plan_name_same_run(&near, &far));
    cr_expect(!dt_plan_name_same_run(&near, &all));
    SAME(DT_PLAN_WHOLE, DT_PART_WHOLE);
    SAME(DT_PLAN_PROLOGUE, DT_PART_PROLOGUE);
    SAME(DT_PLAN_F, DT_PART_F);
    SAME(DT_PLAN_B, DT_PART_B);
    SAME(DT_PLAN_W, DT_PART_W);
    SAME(DT_PLAN_STEP, DT_ENTRY_GRAD);
    SAME(DT_PLAN_UPDATE, DT_ENTRY_UPDATE);
    SAME(DT_PLAN_EVAL, DT_ENTRY_EVAL);
    SAME(DT_PLAN_PREDICT, DT_ENTRY_PREDICT);
    SAME(DT_PLAN_PREFILL, DT_ENTRY_PREFILL);
    SAME(DT_PLAN_DECODE, DT_ENTRY_DECODE);
    SAME(DT_PLAN_QUANTIZE, DT_ENTRY_QUANTIZE);
}
