/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: how long each instruction of steps takes where it runs (profile.c). */
#ifndef DT_RUNTIME_PROFILE_H
#define DT_RUNTIME_PROFILE_H

#include "runtime/runtime.h"

/* The profile of a rank, for steps from `first` on; allocates all memory here. */
DtProfile *dt_profile_new(DtRank *rank, int64_t first);
/* Around an instruction; received: bytes from other ranks in it. */
void dt_profile_begin(DtProfile *profile);
void dt_profile_end(DtProfile *profile, uint32_t inst, uint64_t received);
/* Called after a step with its duration. */
void dt_profile_step(DtProfile *profile, double seconds);
/* The table, or one object of JSON; false if it could not be written. */
bool dt_profile_print(DtProfile *profile, bool json, FILE *out);

#endif
