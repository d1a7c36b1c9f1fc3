/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several hosts must compute products with the same build of the library: others add in
 * another order, so copies of parameters would drift apart. */
#ifndef DT_RUNTIME_SAME_LIBRARY_H
#define DT_RUNTIME_SAME_LIBRARY_H

#include "runtime/runtime.h"

/* All ranks call it once the library is loaded and ranks can meet. Fails with DT_EXIT_USAGE, and
 * names the first rank that differs from rank 0, both hosts and both builds. */
DtStatus dt_samelibrary_check(DtRank *rank);

#endif
