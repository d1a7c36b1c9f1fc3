/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters from files of other programs (`dtrun --import DIR`, import.c). */
#ifndef DT_RUNTIME_IMPORT_H
#define DT_RUNTIME_IMPORT_H

#include "runtime/runtime.h"

/* Before ranks start: whether the folder fits a names block of the plan. adapters: it has those
 * alone, and peft wrote it. ret_list: one line for
 * each tensor or value that does not (import_names.c). */
DtStatus dt_importnames_check(const DtPlan *plan, const char *folder, const char *label,
                              const char *names,
                              bool adapters, DtText *ret_list);
/* Replaces the initial values of this rank's parameters and states. initialises: they do not have
 * these yet; those that are replaced are not drawn. False after a failure. */
bool dt_import_load(DtRank *rank, bool initialises);
/* Replaces the values of adapters by those of --adapters. False after a failure. */
bool dt_import_adapters(DtRank *rank);

/* The label of LABEL=DIR, and DIR. */
const char *dt_import_label(DtArena *memory, const char *import, const char **ret_folder);

#endif
