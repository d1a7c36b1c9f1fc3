/* SPDX-License-Identifier: Apache-2.0 */
/* The plan certificate: an independent check that a plan's instructions are the final program,
 * whose text verify/cert.h proves to mean the serial one. It reads that text, the plan's records,
 * and its notes (plan/notes.h), and knows nothing of the code generator. The schedule of each entry
 * is run, loops iteration by iteration (except those that repeat earlier ones), on memory that
 * holds names of values:
 *
 *  - a value that an instruction reads is at the place that it reads: the argument's address,
 *    length and steps per coordinate are those of a place of the value, for this iteration and
 *    micro-batch, and no later write may overlap it;
 *  - every op whose value is needed was executed once, on its operands, before the value is used;
 *  - a collective has the group, count, dtype, reduction and blocks of its op;
 *  - stores, slots and named results hold the entry's results at its end, and other stores what
 *    they held;
 *  - on all stages of a pipeline together: slots hold the micro-batch that is read, channels pair,
 *    queues drain.
 *
 * No statement of a note is used unless the checks confirm it. What is trusted: that a kernel
 * computes the ops that its note lists, on arguments with the layout in the note (tests compare
 * kernels with the interpreter), also where it overwrites an operand; that attention may be cut
 * into blocks of queries, with keys up to the last one that the mask leaves; that skipped
 * iterations repeat the ones before them (the argument is in plan_repeat.c); that the ops named in
 * notes and text agree with their meaning (the other certificate). */
#ifndef DT_VERIFY_PLAN_H
#define DT_VERIFY_PLAN_H

#include "base/text.h"
#include "plan/plan.h"

#include <stdbool.h>

/* True if the plan computes the final program (NUL-terminated IR text). Otherwise ret_problem says
 * where it does not (entry, instruction, source line). The plan has passed dt_check_plan. */
bool dt_certplan_prove(DtArena *arena, const DtPlan *plan, const char *final, DtText *ret_problem);

/* The same, for tests. whole: walks all iterations, including those that repeat earlier ones.
 * ret_notes (may be NULL): by instruction the bytes of its note, and whether it is in one place of
 * the schedules (1). */
typedef struct DtCertSpan {
    uint32_t first, end, count;
} DtCertSpan;
bool dt_certplan_trace(DtArena *arena, const DtPlan *plan, const char *final, bool whole,
                       DtCertSpan *ret_notes, DtText *ret_problem);

#endif
