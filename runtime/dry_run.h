/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun --dry-run: says what this node would do, after all that the supervisor checks before ranks
 * start (preflight.h), and checks devices, memory and disk. No rank starts, and no node waits for
 * another. */
#ifndef DT_RUNTIME_DRY_RUN_H
#define DT_RUNTIME_DRY_RUN_H

#include "runtime/runtime.h"

/* Prints a line about this node, and one about checkpoints on the node that writes them. */
DtStatus dt_dryrun_say(const DtRunOptions *options, const DtPlan *plan, FILE *out);
/* The number of groups of the fastest mesh axis that have ranks on several nodes; 0: it stays
 * inside of nodes. That axis is the last of the mesh, along which ranks exchange most. */
uint32_t dt_dryrun_torn(const DtRunOptions *options, const DtPlan *plan);
/* Appends the note of torn groups, if there are any. */
void dt_dryrun_note(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes);

#endif
