/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/file.h"

#include "verify/box.h"

#include <string.h>

bool dt_certfile_open(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts,
                      DtText *ret_problem)
{
    uint64_t code[4];
    if (!dt_logical_read(arena, plan, ret_texts)) {
        dt_text_add(
            ret_problem,
            "the plan does not say what it does: its logical section is missing or damaged");
        return false;
    }
    dt_logical_code(plan, code);
    if (memcmp(code, plan->logical->code, sizeof code) != 0) {
        dt_text_add(ret_problem,
                    "the plan's kernels (KERN, CODE) are not those that its notes speak of");
        return false;
    }
    return true;
}

bool dt_certfile_programs(DtArena *arena, const DtLogicalTexts *texts, DtCertCounts *ret_counts,
                          DtText *ret_problem)
{
    DtBoxCounts boxes = {0};
    const bool proved =
        dt_cert_prove(arena, texts->serial, texts->placed, ret_counts, ret_problem) &&
        dt_box_prove(arena, texts->placed, texts->final, &boxes, ret_problem);
    ret_counts->boxes = boxes.boxes;
    ret_counts->rounded = boxes.rounded;
    ret_counts->ring = boxes.ring;
    ret_counts->why = boxes.why;
    return proved;
}

bool dt_certfile_plan(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                      DtText *ret_problem)
{
    return dt_certplan_prove(arena, plan, texts->final, ret_problem) &&
           dt_certfile_facts(arena, plan, texts, ret_problem);
}

bool dt_certfile_prove(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtCertCounts *ret_counts, DtText *ret_problem)
{
    return dt_certfile_programs(arena, texts, ret_counts, ret_problem) &&
           dt_certfile_plan(arena, plan, texts, ret_problem);
}
