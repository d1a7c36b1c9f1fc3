/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison with the results of the program that wrote the parameters (`dtrun --reference FILE`,
 * reference.c). */
#ifndef DT_RUNTIME_REFERENCE_H
#define DT_RUNTIME_REFERENCE_H

#include "runtime/runtime.h"

/* Before ranks start: whether the file's tensors fit the plan's input and result, and its logits
 * are finite. */
DtStatus dt_reference_check(const DtPlan *plan, const char *path);
/* Compares, and prints the largest error. False if it is larger than rounding explains, or after
 * another failure. */
bool dt_reference_run(DtRank *rank);

#endif
