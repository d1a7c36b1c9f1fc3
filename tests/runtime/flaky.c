/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun on a faulty machine, for plans of target `interpreted`: this is linked in place of two
 * functions of dtrun, and of nothing else.
 *
 *   FLAKY_NAN="RANK STEP KERNEL FILE"  that kernel of "step" in that step (counted from 1; modulo
 *                                      the number of kernels) leaves NaN in its first result, if
 *                                      FILE exists, which is removed: so it happens once
 *   FLAKY_SLOW="RANK SHARE FIRST"      from step FIRST on each kernel of that rank takes 1 / SHARE
 *                                      as long as it does
 *   FLAKY_HANG="RANK HOW FILE"         while FILE exists, the next kernel of that rank does not
 *                                      end: it `sleeps`, `looks` again and again, or `spins` */
#include "kir/internal.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned rank, wanted_kernel, kernel, n_kernels;
static long long step, wanted_step, slow_from;
static double share = 1;
static bool in_step, is_armed;
static char file[4000], hang_how[8], hang_file[4000];

static void read_wishes(const DtRank *of)
{
    unsigned who;
    const char *nan_of = getenv("FLAKY_NAN"), *slow = getenv("FLAKY_SLOW"),
               *hang = getenv("FLAKY_HANG");
    if (hang && (sscanf(hang, "%u %7s %3999s", &who, hang_how, hang_file) != 3 || who != of->rank))
        hang_file[0] = '\0';
    rank = of->rank;
    if (nan_of &&
        sscanf(nan_of, "%u %lld %u %3999s", &who, &wanted_step, &wanted_kernel, file) == 4)
        is_armed = who == rank;
    if (slow && sscanf(slow, "%u %lf %lld", &who, &share, &slow_from) == 3 && who != rank)
        share = 1;
}

bool __real_dt_exec_entry(DtRank *of, const char *name);
bool __wrap_dt_exec_entry(DtRank *of, const char *name);
bool __wrap_dt_exec_entry(DtRank *of, const char *name)
{
    if (step == 0)
        read_wishes(of);
    step = of->step + 1;
    in_step = strcmp(name, "step") == 0;
    kernel = 0;
    const bool good = __real_dt_exec_entry(of, name);
    if (in_step)
        n_kernels = kernel;
    in_step = false;
    return good;
}

static void spoil(const DtKirKernel *k, const DtKirCall *call)
{
    const KirStore *store = k->stores;
    if (k->n_stores == 0 || !dt_kir_is_float(k->pointer[store->pointer])) {
        wanted_kernel++; /* the next one */
        return;
    }
    is_armed = false;
    if (unlink(file) != 0)
        return;
    const float nan_value = NAN;
    const unsigned short half = 0x7fff;
    char *to = call->pointers[store->pointer];
    if (k->pointer[store->pointer] == KIR_F32)
        memcpy(to + 4 * store->offset, &nan_value, 4);
    else
        memcpy(to + 2 * store->offset, &half, 2);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void hang_on(void)
{
    while (access(hang_file, F_OK) == 0)
        if (strcmp(hang_how, "spins") != 0)
            usleep(strcmp(hang_how, "looks") == 0 ? 1000 : 1000000000);
}

bool __real_dt_kir_run(DtKirKernel *k, const DtKirCall *call);
bool __wrap_dt_kir_run(DtKirKernel *k, const DtKirCall *call);
bool __wrap_dt_kir_run(DtKirKernel *k, const DtKirCall *call)
{
    const double began = now();
    const bool good = __real_dt_kir_run(k, call);
    if (hang_file[0])
        hang_on();
    if (share < 1 && step >= slow_from)
        for (const double until = began + (now() - began) / share; now() < until;) {}
    if (is_armed && in_step && step == wanted_step && n_kernels > 0 &&
        kernel % n_kernels == wanted_kernel % n_kernels)
        spoil(k, call);
    kernel++;
    return good;
}
