/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of a plan file: what its logical section says of it (plan/logical.h), proved from
 * the file alone.
 *
 *   the placed program means the serial one                      verify/cert.h
 *   the final program means the placed one                       verify/box.h
 *   the instructions do what the final program says              verify/plan.h
 *   records of data, training and stores are the program's       dt_certfile_facts
 *   the kernels are those that the notes speak of                a digest
 *
 * That the serial program is the one that was meant, only its source says.
 *
 * The file may be made by anybody: all of this ends, with a verdict, for any bytes that passed
 * dt_check_plan. */
#ifndef DT_VERIFY_FILE_H
#define DT_VERIFY_FILE_H

#include "plan/logical.h"
#include "verify/cert.h"
#include "verify/plan.h"

/* The texts; false if there are none, or the kernels are others. */
bool dt_certfile_open(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts,
                      DtText *ret_problem);

/* Records against facts, and the number of parameters. */
bool dt_certfile_facts(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtText *ret_problem);

/* Whether the final program means the serial one. */
bool dt_certfile_programs(DtArena *arena, const DtLogicalTexts *texts, DtCertCounts *ret_counts,
                          DtText *ret_problem);

/* All that the plan has to be if its final program means the serial one. */
bool dt_certfile_plan(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                      DtText *ret_problem);

/* All that it has to be, its texts being these. */
bool dt_certfile_prove(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtCertCounts *ret_counts, DtText *ret_problem);

#endif
