/* SPDX-License-Identifier: Apache-2.0 */
/* Checks after each pass that the module is well formed, and that a pass which reports that it
 * changed nothing has changed nothing. data: a DtText, empty before the first pass, which the
 * caller frees. */
#ifndef DT_TESTS_AFTER_PASS_H
#define DT_TESTS_AFTER_PASS_H

#include "ir/irtext.h"
#include "passes/passes.h"

#include <criterion/criterion.h>
#include <string.h>

static inline void after_pass(void *data, const DtPass *pass, const DtModule *module, bool changed)
{
    DtText problems = {0}, now = {0}, *before = data;
    cr_assert(dt_verify_module(module, &problems), "after %s: %s", pass->name, problems.at);
    dt_irtext_print(module, &now);
    cr_assert(changed || !before->len || strcmp(before->at, now.at) == 0,
              "%s has changed the program", pass->name);
    dt_text_free(&problems);
    dt_text_free(before);
    *before = now;
}

#endif
