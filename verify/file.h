/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of a plan file: proves the claims of its logical section (plan/logical.h) from
 * the file alone.
 *
 *   the placed program means the serial one                      verify/cert.h
 *   the final program means the placed one                       verify/box.h
 *   the instructions do what the final program says              verify/plan.h
 *   records of data, training and stores are the program's       dt_certfile_facts
 *   the kernels are those that the notes speak of                a digest
 *
 * Whether the serial program is the intended one, only its source can tell.
 *
 * The file may be made by anybody: all of this ends, with a verdict, for any bytes that passed
 * dt_check_plan. */
#ifndef DT_VERIFY_FILE_H
#define DT_VERIFY_FILE_H

#include "plan/logical.h"
#include "verify/cert.h"
#include "verify/plan.h"

/* Reads the texts of the logical section. False with a problem: there is no such section, or the
 * plan's kernels have another digest than it records. */
bool dt_certfile_open(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts,
                      DtText *ret_problem);

/* Compares the plan's records of data, training and stores, and its number of parameters, with the
 * facts in the texts. False with a problem. */
bool dt_certfile_facts(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtText *ret_problem);

/* Whether the final program computes what the serial one does; otherwise ret_problem says why
 * not. */
bool dt_certfile_programs(DtArena *arena, const DtLogicalTexts *texts, DtCertCounts *ret_counts,
                          DtText *ret_problem);

/* Proves that the instructions do what the final program says, and that the records are the
 * program's; otherwise ret_problem says why not. It says nothing of the serial program. */
bool dt_certfile_plan(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                      DtText *ret_problem);

/* Proves all of it: that the final program of these texts computes the serial one, and the plan the
 * final one. */
bool dt_certfile_prove(DtArena *arena, const DtPlan *plan, const DtLogicalTexts *texts,
                       DtCertCounts *ret_counts, DtText *ret_problem);

#endif
