/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of dtrun for the person who has started it (say.c). */
#ifndef DT_RUNTIME_SAY_H
#define DT_RUNTIME_SAY_H

/* Prints "dtrun: ", the text and a newline to the standard error, by a single write, so that lines
 * of several processes do not mix. On a terminal it erases the progress line first. */
void dt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
