/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people: three digits and a unit (people.c). Each fills buf and returns it. */
#ifndef DT_REPORT_PEOPLE_H
#define DT_REPORT_PEOPLE_H

#include "base/text.h"

const char *dt_people_bytes(char buf[32], double bytes);     /* for example 218 GiB */
const char *dt_people_flops(char buf[32], double flops);     /* for example 15.2 PFLOP */
const char *dt_people_count(char buf[32], double count);     /* for example 1.30 M */
/* for example 3.42 s, 12.3 ms, 2.50 min, 3.10 h, 9.00 days */
const char *dt_people_seconds(char buf[32], double seconds);
const char *dt_people_share(char buf[32], double part, double whole); /* for example 41.2 % */

/* Reads a count with an optional letter k, M, B or T: "300B", "1.5e12", "20M"; false: the text is
 * no such count. */
bool dt_people_read(const char *text, double *ret_count);

#endif
