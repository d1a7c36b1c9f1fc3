/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of pipeline stages, as text: "0, 2 to 5", rising, three or more in a row as first to last.
 * So a set has one text however many stages there are, IR and plan show it, and files hold it. No
 * set: NULL or "". */
#ifndef DT_BASE_STAGES_H
#define DT_BASE_STAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { DT_STAGES_MOST = 1024 }; /* of a pipeline */

/* Returns the set of the stages with has[stage], of n; interned. NULL if there is none. */
const char *dt_stages_of(const bool *has, uint32_t n);
/* Returns the set of stages first .. first + more. */
const char *dt_stages_range(uint32_t first, uint32_t more);
bool dt_stages_has(const char *set, uint32_t stage);
uint32_t dt_stages_count(const char *set);
bool dt_stages_same(const char *a, const char *b);
/* Whether all of first .. first + more are members. */
bool dt_stages_has_all(const char *set, uint32_t first, uint32_t more);
/* Whether the text is a set of stages below n, written as dt_stages_of writes it. */
bool dt_stages_is_valid(const char *set, uint32_t n);

#endif
