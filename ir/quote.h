/* SPDX-License-Identifier: Apache-2.0 */
/* Names in text form: bare where possible, else between quotes with C-like escapes. */
#ifndef DT_IR_QUOTE_H
#define DT_IR_QUOTE_H

#include "base/text.h"

/* Adds name bare if it can be (a letter or `_`, then letters, digits and `_ . @ # $`), else quoted
 * ("a b", "1x", "", "\x0a"). NULL is added as "?". */
void dt_quote_add(DtText *text, const char *name);
/* Adds name between quotes in any case. */
void dt_quote_add_string(DtText *text, const char *name);
/* Like dt_quote_add, in a place where a dot is a separator: quotes a name that contains one. */
void dt_quote_add_part(DtText *text, const char *name);

#endif
