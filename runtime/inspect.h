/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint is: dtc inspect (inspect.c). */
#ifndef DT_RUNTIME_INSPECT_H
#define DT_RUNTIME_INSPECT_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

/* Describes the checkpoint at `path`, or the newest one in that folder, as text or as one JSON
 * object. verifies: compares the digests of all bytes, too. DT_EXIT_IO: there is none, or it is
 * damaged; then the message says where, and ret_text has what is known of it. */
DtStatus dt_inspect(const char *path, bool verifies, bool json, DtText *ret_text);

#endif
