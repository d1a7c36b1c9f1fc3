/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC without its header: a dozen functions of a library that is opened at run time, so that the project builds and
 * passes its tests without CUDA. No GPU and no driver are needed to compile. */
#include "base/nvrtc.h"

#include "base/cudalib.h"
#include "base/digest.h"
#include "base/hostcache.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Program Program; /* nvrtcProgram is a pointer to it */

/* Names of the library, and their types; a status is 0 or an error. */
#define FUNCTIONS(F)                                                                             \
    F(Version, int, (int *major, int *minor))                                                    \
    F(GetErrorString, const char *, (int status))                                                \
    F(CreateProgram, int, (Program * *program, const char *text, const char *name, int n_headers, \
                           const char *const *headers, const char *const *names))                \
    F(DestroyProgram, int, (Program * *program))                                                 \
    F(CompileProgram, int, (Program * program, int n_options, const char *const *options))       \
    F(GetProgramLogSize, int, (Program * program, size_t *ret_size))                             \
    F(GetProgramLog, int, (Program * program, char *ret_log))                                    \
    F(GetCUBINSize, int, (Program * program, size_t *ret_size))                                  \
    F(GetCUBIN, int, (Program * program, char *ret_cubin))

enum { INVALID_OPTION = 5 };

/* How texts are compiled, besides for which machine. */
#define OPTIONS "--fmad=false", "--device-as-default-execution-space", "--std=c++17", "--ptxas-options=-v"
#define SPLIT "--split-compile=2" /* kernels by two threads; the code depends on how many, so it is fixed */

typedef struct Nvrtc {
#define MEMBER(NAME, TYPE, ARGUMENTS) TYPE(*NAME) ARGUMENTS;
    FUNCTIONS(MEMBER)
#undef MEMBER
} Nvrtc;

/* ---- the library ---- */

static DtStatus open_nvrtc(DtArena *arena, Nvrtc *ret)
{
    static const char *const versions[] = {"13", "12", NULL};
    static const DtCudaLib library = {"nvrtc", versions,
                                      "package cuda-nvrtc-13-0 of NVIDIA's repository, or nvidia-cuda-nvrtc of PyPI"};
#define NAME(MEMBER, TYPE, ARGUMENTS) "nvrtc" #MEMBER,
    static const char *const names[] = {FUNCTIONS(NAME)};
#undef NAME
    return dt_cudalib_open(arena, &library, sizeof names / sizeof names[0], names, (void **)ret);
}

static const char *version_of(DtArena *arena, const Nvrtc *nvrtc)
{
    int major = 0, minor = 0;
    nvrtc->Version(&major, &minor);
    return dt_arena_printf(arena, "NVRTC %d.%d", major, minor);
}

const char *dt_nvrtc_version(DtArena *arena, DtStatus *ret_status)
{
    Nvrtc nvrtc;
    *ret_status = open_nvrtc(arena, &nvrtc);
    return dt_status_ok(ret_status) ? version_of(arena, &nvrtc) : NULL;
}

/* ---- one text ---- */

static const char *log_of(DtArena *arena, const Nvrtc *nvrtc, Program *program)
{
    size_t size = 0;
    if (nvrtc->GetProgramLogSize(program, &size) != 0)
        return "";
    char *log = dt_arena_alloc(arena, size + 1);
    return nvrtc->GetProgramLog(program, log) == 0 ? log : "";
}

/* Registers and spills, which the assembler says by kernel:
 *
 *   ptxas info    : Compiling entry function 'dt_k0' for 'sm_90a'
 *   ptxas info    : Function properties for dt_k0
 *       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *   ptxas info    : Used 10 registers, ..  */
static void read_log(DtArena *arena, const char *log, DtNvrtcResult *ret)
{
    static const char entry[] = "Compiling entry function '";
    uint32_t n = 0;
    for (const char *at = log; (at = strstr(at, entry)); at++)
        n++;
    ret->kernels = DT_NEW_ARRAY(arena, DtNvrtcKernel, n + 1);
    for (const char *at = log; (at = strstr(at, entry)); at++) {
        DtNvrtcKernel kernel = {.symbol = NULL};
        const char *name = at + strlen(entry), *end = strstr(name, entry);
        kernel.symbol = dt_arena_strndup(arena, name, strcspn(name, "'"));
        const char *spill = strstr(name, "bytes stack frame, "), *used = strstr(name, "Used ");
        if (spill && (!end || spill < end))
            sscanf(spill, "bytes stack frame, %u", &kernel.spilled);
        if (used && (!end || used < end))
            sscanf(used, "Used %u", &kernel.registers);
        ret->kernels[ret->n_kernels++] = kernel;
    }
}

static DtStatus compile(DtArena *arena, const Nvrtc *nvrtc, Program *program, const char *machine, DtNvrtcResult *ret)
{
    const char *const options[] = {dt_arena_printf(arena, "--gpu-architecture=%s", machine), OPTIONS, SPLIT};
    const int n = (int)DT_COUNT(options);
    int status = nvrtc->CompileProgram(program, n, options);
    if (status == INVALID_OPTION) /* older versions do not know the last one */
        status = nvrtc->CompileProgram(program, n - 1, options);
    const char *log = log_of(arena, nvrtc, program);
    if (status != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s refused generated kernels for %s (%s): %.400s", ret->version, machine,
                              nvrtc->GetErrorString(status), log);
    if (nvrtc->GetCUBINSize(program, &ret->len) != 0 || ret->len == 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s has made no code for %s", ret->version, machine);
    char *cubin = dt_arena_alloc(arena, ret->len);
    if (nvrtc->GetCUBIN(program, cubin) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s has made no code for %s", ret->version, machine);
    ret->cubin = (const uint8_t *)cubin;
    read_log(arena, log, ret);
    return DT_OK;
}

DtStatus dt_nvrtc_compile(DtArena *arena, const char *text, const char *machine, DtNvrtcResult *ret_result)
{
    Nvrtc nvrtc;
    Program *program = NULL;
    *ret_result = (DtNvrtcResult){.version = NULL};
    DtStatus status = open_nvrtc(arena, &nvrtc);
    if (!dt_status_ok(&status))
        return status;
    ret_result->version = version_of(arena, &nvrtc);
    if (nvrtc.CreateProgram(&program, text, "kernels.cu", 0, NULL, NULL) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s takes no program", ret_result->version);
    status = compile(arena, &nvrtc, program, machine, ret_result);
    nvrtc.DestroyProgram(&program);
    return status;
}

/* ---- the cache: what the assembler said of kernels, a line each, a zero, and the code ---- */

/* What the compiler makes of a text is the same each time; it is kept beside what the host compiler makes. */
static void find_key(const char *text, const char *machine, const char *version, uint8_t ret_key[DT_DIGEST_BYTES])
{
    const char *const parts[] = {"kernels and cubin", version, machine, OPTIONS, SPLIT, text};
    DtDigest digest;
    dt_digest_begin(&digest);
    for (size_t i = 0; i < DT_COUNT(parts); i++)
        dt_digest_add(&digest, parts[i], strlen(parts[i]) + 1);
    dt_digest_end(&digest, ret_key);
}

static void keep(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES], const DtNvrtcResult *result)
{
    DtText head = {0};
    for (uint32_t i = 0; i < result->n_kernels; i++)
        dt_text_printf(&head, "%s %u %u\n", result->kernels[i].symbol, result->kernels[i].registers,
                       result->kernels[i].spilled);
    const size_t len = head.len + 1;
    char *all = dt_arena_alloc(arena, len + result->len);
    memcpy(all, head.at ? head.at : "", len);
    memcpy(all + len, result->cubin, result->len);
    dt_hostcache_keep(arena, folder, key, all, len + result->len);
    dt_text_free(&head);
}

static bool read_kernels(DtArena *arena, const char *head, DtNvrtcResult *ret)
{
    uint32_t n = 0;
    for (const char *at = head; (at = strchr(at, '\n')); at++)
        n++;
    ret->kernels = DT_NEW_ARRAY(arena, DtNvrtcKernel, n + 1);
    for (const char *at = head; *at; at = strchr(at, '\n') + 1) {
        DtNvrtcKernel *kernel = &ret->kernels[ret->n_kernels];
        const size_t name = strcspn(at, " ");
        if (sscanf(at + name, "%u %u\n", &kernel->registers, &kernel->spilled) != 2 || !strchr(at, '\n'))
            return false;
        kernel->symbol = dt_arena_strndup(arena, at, name);
        ret->n_kernels++;
    }
    return true;
}

static bool find(DtArena *arena, int folder, const uint8_t key[DT_DIGEST_BYTES], DtNvrtcResult *ret)
{
    const char *kept;
    size_t len;
    if (!dt_hostcache_find(arena, folder, key, &kept, &len))
        return false;
    const char *end = memchr(kept, 0, len);
    if (!end || end + 1 == kept + len || !read_kernels(arena, kept, ret))
        return false;
    ret->len = len - (size_t)(end + 1 - kept);
    uint8_t *cubin = dt_arena_alloc(arena, ret->len); /* aligned, as a driver may want it */
    memcpy(cubin, end + 1, ret->len);
    ret->cubin = cubin;
    return true;
}

DtStatus dt_nvrtc_build(DtArena *arena, const char *text, const char *machine, DtNvrtcResult *ret_result)
{
    uint8_t key[DT_DIGEST_BYTES];
    const char *why;
    int folder;
    DtStatus status = DT_OK;
    *ret_result = (DtNvrtcResult){.version = dt_nvrtc_version(arena, &status)};
    if (!dt_status_ok(&status))
        return status;
    find_key(text, machine, ret_result->version, key);
    dt_hostcache_open(arena, &folder, &why);
    if (!find(arena, folder, key, ret_result)) {
        status = dt_nvrtc_compile(arena, text, machine, ret_result);
        if (dt_status_ok(&status))
            keep(arena, folder, key, ret_result);
    }
    dt_hostcache_close(folder);
    return status;
}
