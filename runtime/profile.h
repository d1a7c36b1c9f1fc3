/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: measures how long each instruction of a step takes (profile.c). */
#ifndef DT_RUNTIME_PROFILE_H
#define DT_RUNTIME_PROFILE_H

#include "runtime/runtime.h"

/* Makes the profile of a rank, for steps from `first` on; allocates all memory here. */
DtProfile *dt_profile_new(DtRank *rank, int64_t first);
/* The two are called before and after an instruction. received: bytes that it got from other
 * ranks. */
void dt_profile_begin(DtProfile *profile);
void dt_profile_end(DtProfile *profile, uint32_t inst, uint64_t received);
/* Called after a step with its duration. */
void dt_profile_step(DtProfile *profile, double seconds);
/* Prints the table, or one JSON object, with the goodput of the run. False: it could not be
 * written. */
bool dt_profile_print(DtProfile *profile, bool json, double goodput, FILE *out);

#endif
