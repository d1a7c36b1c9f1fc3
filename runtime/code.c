/* SPDX-License-Identifier: Apache-2.0 */
/* Loads kernels for the processor. Either their kernel IR is interpreted, or their machine code
 * runs: each code unit is copied from the plan into a sealed memory file, which dlopen loads.
 * Nothing can change the code after that, and nothing is written to a disk. */
#include "runtime/code.h"

#include "kir/kir.h"

#include "base/hostcc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Code for another processor does not come here: rebuild.c compiles it again. */
static DtStatus check_target(const char *target)
{
    if (strcmp(target, "cpu") == 0 || !dt_hostcc_runs(target))
        return dt_status_fail(DT_EXIT_FAILED,
                              "the plan is for target `%.40s`, which this program cannot run; "
                              "compile it with --target=cpu",
                              target);
    return DT_OK;
}

static bool is_interpreted(const DtPlan *plan, uint32_t unit)
{
    return strcmp(dt_plan_str(plan, plan->codes[unit].target), "interpreted") == 0;
}

static DtStatus no_code(void)
{
    return dt_status_fail(DT_EXIT_FAILED,
                          "the plan has no machine code (it was compiled with --no-kernels); "
                          "compile it again without that option, or run it with --rebuild");
}

static DtStatus load_image(DtRank *rank, uint32_t unit)
{
    const DtPlanCode *code = &rank->plan->codes[unit];
    char why[200];
    if (code->binary_len == 0)
        return no_code();
    const char *text = (const char *)rank->plan->blob + code->binary;
    rank->images[unit] = dt_kir_read(text, code->binary_len, why, sizeof why);
    if (rank->images[unit])
        return DT_OK;
    return dt_status_fail(DT_EXIT_FAILED, "code unit %u is no kernel IR: %s", unit, why);
}

static int sealed_file(const void *bytes, uint64_t len)
{
    int fd = memfd_create("dtcode", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    const char *at = bytes;
    for (uint64_t left = len; left > 0;) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += n;
        left -= (uint64_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The file stays open while its code is loaded. The loader knows a library by its name, and the
 * name contains the number of the file: no other library can get that number. */
static DtStatus load_code(DtRank *rank, uint32_t unit, const void *bytes, uint64_t len)
{
    char name[64];
    if (len == 0)
        return no_code();
    rank->code_fds[unit] = sealed_file(bytes, len);
    if (rank->code_fds[unit] < 0)
        return dt_status_fail(DT_EXIT_RETRY, "cannot put code unit %u into memory: %s", unit,
                              strerror(errno));
    snprintf(name, sizeof name, "/proc/self/fd/%d", rank->code_fds[unit]);
    rank->codes[unit] = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (rank->codes[unit] == NULL) {
        const char *why = dlerror();
        return dt_status_fail(DT_EXIT_FAILED, "code unit %u cannot be loaded: %.300s", unit,
                              why ? why : "unknown");
    }
    return DT_OK;
}

DtStatus dt_code_load(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    DtRebuilt rebuilt = {0};
    DtStatus status = DT_OK;
    if (dt_rebuild_wanted(rank->options, plan))
        status = dt_rebuild_codes(plan, rank->memory, &rebuilt);
    if (!dt_status_ok(&status))
        return status;
    rank->codes = DT_NEW_ARRAY(rank->memory, void *, plan->n_codes + 1);
    rank->images = DT_NEW_ARRAY(rank->memory, DtKirImage *, plan->n_codes + 1);
    rank->code_fds = DT_NEW_ARRAY(rank->memory, int, plan->n_codes + 1);
    for (uint32_t i = 0; i < plan->n_codes; i++)
        rank->code_fds[i] = -1;
    for (uint32_t i = 0; i < plan->n_codes; i++) {
        const DtPlanCode *code = &plan->codes[i];
        if (!rebuilt.units && !is_interpreted(plan, i))
            status = check_target(dt_plan_str(plan, code->target));
        if (dt_status_ok(&status) && rebuilt.units)
            status = load_code(rank, i, rebuilt.units[i].at, rebuilt.units[i].len);
        else if (is_interpreted(plan, i))
            status = load_image(rank, i);
        else if (dt_status_ok(&status))
            status = load_code(rank, i, plan->blob + code->binary, code->binary_len);
        if (!dt_status_ok(&status))
            return status;
    }
    return DT_OK;
}

void dt_code_close(DtRank *rank)
{
    for (uint32_t i = 0; rank->codes && i < rank->plan->n_codes; i++) {
        if (rank->codes[i])
            dlclose(rank->codes[i]);
        dt_kir_free(rank->images[i]);
        if (rank->code_fds[i] >= 0)
            close(rank->code_fds[i]);
    }
}
