/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people: a few digits and a unit. */
#include "plan/report/people.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Prints three digits; from 100 on no fraction. */
static void digits(char *buf, size_t room, double value, const char *unit)
{
    const double size = fabs(value);
    const int behind = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
    snprintf(buf, room, "%.*f%s%s", behind, value, *unit ? " " : "", unit);
}

static const char *scaled(char buf[32], double value, double step, const char *const *units, int n)
{
    int unit = 0;
    while (unit + 1 < n && fabs(value) >= step * 0.9995) {
        value /= step;
        unit++;
    }
    if (unit == 0 && value == floor(value)) /* a count, which has no fraction */
        snprintf(buf, 32, "%.0f%s%s", value, *units[0] ? " " : "", units[0]);
    else
        digits(buf, 32, value, units[unit]);
    return buf;
}

const char *dt_people_bytes(char buf[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return scaled(buf, bytes, 1024, units, 6);
}

const char *dt_people_flops(char buf[32], double flops)
{
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP",
                                        "EFLOP", "ZFLOP"};
    return scaled(buf, flops, 1000, units, 8);
}

const char *dt_people_count(char buf[32], double count)
{
    static const char *const units[] = {"", "k", "M", "B", "T"};
    return scaled(buf, count, 1000, units, 5);
}

const char *dt_people_seconds(char buf[32], double seconds)
{
    static const struct { double least, unit; const char *name; } rows[] = {
        {2 * 86400, 86400, "days"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}, {0.9995, 1, "s"},
        {0.9995e-3, 1e-3, "ms"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (seconds >= rows[i].least) {
            digits(buf, 32, seconds / rows[i].unit, rows[i].name);
            return buf;
        }
    digits(buf, 32, seconds * 1e6, "us");
    return buf;
}

const char *dt_people_share(char buf[32], double part, double whole)
{
    snprintf(buf, 32, "%.1f %%", whole > 0 ? 100 * part / whole : 0);
    return buf;
}

bool dt_people_read(const char *text, double *ret_count)
{
    static const char letters[] = "kMBT";
    char *end;
    const double number = strtod(text, &end);
    double unit = 1;
    if (end == text || !isfinite(number) || number <= 0)
        return false;
    if (*end) {
        const char *letter = strchr(letters, *end == 'K' ? 'k' : *end == 'G' ? 'B' : *end);
        if (!letter || end[1])
            return false;
        unit = pow(1000, (double)(letter - letters + 1));
    }
    *ret_count = number * unit;
    return true;
}
