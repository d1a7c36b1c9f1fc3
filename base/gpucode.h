/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code for GPUs of NVIDIA, as NVRTC takes them, and which GPU runs what. */
#ifndef DT_BASE_GPUCODE_H
#define DT_BASE_GPUCODE_H

#include <stdbool.h>

/* The targets of dtc, the most special first. */
enum { DT_GPUCODE_TARGETS = 6 };
extern const char *const dt_gpucode_targets[DT_GPUCODE_TARGETS];

/* Whether the name is "sm_90" or "compute_80", with an optional letter, and optionally
 * "-interpreted" (kernel IR instead of code); then its compute capability, 90, and the letter. */
bool dt_gpucode_read(const char *name, int *ret_capability, char *ret_letter, bool *ret_is_text);

/* How well code of that name runs on a GPU of capability major.minor: 3 is its own; 2 that of an
 * older GPU of its generation or family; 1 PTX, which the driver compiles when it loads it; 0 it
 * does not run. "sm_90a" runs on 9.0 alone, "sm_100f" on 10.0 and 10.3, "sm_80" on 8.0, 8.6 and
 * 8.9, "compute_80" on these and all later ones. */
int dt_gpucode_suits(const char *name, int major, int minor);

/* The target of dtc that suits the GPU best; NULL: none does. */
const char *dt_gpucode_for(int major, int minor);

#endif
