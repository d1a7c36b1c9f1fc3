/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpucode.h"

#include <criterion/criterion.h>
#include <string.h>

/* For a GPU of compute capability major.minor: the best target of dtc, and how well code for some
 * targets suits it. */
Test(gpucode, suits)
{
    static const struct {
        int major, minor;
        const char *target;
        int sm_80, sm_90a, sm_100a, sm_100f, sm_120, compute_80;
    } gpus[] = {{8, 0, "sm_80", 3, 0, 0, 0, 0, 1},    {8, 6, "sm_80", 2, 0, 0, 0, 0, 1},
                {8, 9, "sm_80", 2, 0, 0, 0, 0, 1},    {9, 0, "sm_90a", 0, 3, 0, 0, 0, 1},
                {10, 0, "sm_100a", 0, 0, 3, 3, 0, 1}, {10, 3, "sm_100f", 0, 0, 0, 2, 0, 1},
                {12, 0, "sm_120", 0, 0, 0, 0, 3, 1},  {12, 1, "sm_120", 0, 0, 0, 0, 2, 1},
                {11, 0, "compute_80", 0, 0, 0, 0, 0, 1}, {7, 5, NULL, 0, 0, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        const int major = gpus[i].major, minor = gpus[i].minor;
        const char *target = dt_gpucode_for(major, minor);
        cr_expect(target == gpus[i].target ||
                      (target && gpus[i].target && strcmp(target, gpus[i].target) == 0),
                  "%d.%d: %s", major, minor, target ? target : "none");
        cr_expect_eq(dt_gpucode_suits("sm_80", major, minor), gpus[i].sm_80);
        cr_expect_eq(dt_gpucode_suits("sm_90a", major, minor), gpus[i].sm_90a);
        cr_expect_eq(dt_gpucode_suits("sm_100a", major, minor), gpus[i].sm_100a);
        cr_expect_eq(dt_gpucode_suits("sm_100f", major, minor), gpus[i].sm_100f);
        cr_expect_eq(dt_gpucode_suits("sm_120", major, minor), gpus[i].sm_120);
        cr_expect_eq(dt_gpucode_suits("compute_80", major, minor), gpus[i].compute_80);
    }
}

Test(gpucode, knows_other_names)
{
    static const char *const names[] = {"", "cpu", "sm_", "sm_9", "sm_90ab", "compute_80a", "90"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_eq(dt_gpucode_suits(names[i], 9, 0), 0, "%s", names[i]);
    cr_expect_eq(dt_gpucode_suits("sm_90a-interpreted", 9, 0), 3);
    cr_expect_eq(dt_gpucode_suits("sm_90a-interpreted", 8, 0), 0);
    cr_expect_eq(dt_gpucode_suits("sm_90a-other", 9, 0), 0);
}
