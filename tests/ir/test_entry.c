/* SPDX-License-Identifier: Apache-2.0 */
/* Names of entry points are written and read back; wrong ones are refused. */
#include "base/intern.h"
#include "ir/ir.h"

#include <criterion/criterion.h>

Test(entry, names_are_read_back)
{
    static const struct {
        DtEntryKind kind;
        const char *objective;
        DtEntryPart part;
        int32_t number;
        const char *name;
    } cases[] = {
        {DT_ENTRY_LOSS, NULL, DT_PART_WHOLE, -1, "loss"},
        {DT_ENTRY_GRAD, NULL, DT_PART_PROLOGUE, -1, "grad.prologue"},
        {DT_ENTRY_GRAD, NULL, DT_PART_PROLOGUE, 2, "grad.prologue.2"},
        {DT_ENTRY_UPDATE, NULL, DT_PART_WHOLE, 0, "update.0"},
        {DT_ENTRY_EVAL, NULL, DT_PART_F, 10, "eval.f10"},
        {DT_ENTRY_GRAD, NULL, DT_PART_B, 0, "grad.b0"},
        {DT_ENTRY_GRAD, NULL, DT_PART_W, 3, "grad.w3"},
        {DT_ENTRY_PREDICT, NULL, DT_PART_WHOLE, -1, "predict"},
        {DT_ENTRY_UPDATE, "critic", DT_PART_WHOLE, -1, "update@critic"},
        {DT_ENTRY_GRAD, "critic", DT_PART_PROLOGUE, -1, "grad@critic.prologue"},
        {DT_ENTRY_GRAD, "critic", DT_PART_F, 3, "grad@critic.f3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *objective = cases[i].objective ? dt_intern(cases[i].objective) : NULL;
        DtEntryPoint made = dt_entry_new(cases[i].kind, objective, cases[i].part, cases[i].number),
                     read;
        cr_expect_str_eq(made.name, cases[i].name);
        cr_assert(dt_entry_read(cases[i].name, &read), "%s", cases[i].name);
        cr_expect(read.kind == made.kind && read.part == made.part && read.number == made.number,
                  "%s", made.name);
        cr_expect_eq(read.objective, objective);
    }
}

Test(entry, other_names_are_refused)
{
    static const char *const names[] = {"", "x", "gra", "gradient", "grad.", "grad.f", "grad.f01",
                                        "grad.f-1", "grad.f1x", "grad.x1", "update.", "update.1.2",
                                        "update.1e2", "grad.prologue.", "grad.prologuex",
                                        "grad.f1234567890", "grad@", "grad@.prologue", "@x",
                                        "x@grad"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        DtEntryPoint read;
        cr_expect_not(dt_entry_read(names[i], &read), "%s", names[i]);
    }
}
