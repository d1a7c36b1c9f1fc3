/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC without its header: a dozen functions of a library that is opened at run time, so that the
 * project builds and passes its tests without CUDA. No GPU and no driver are needed to compile.
 *
 * * NVRTC holds a lock for most of a compilation (two threads that compile take as long as one), so
 * several texts are compiled in as many processes. */
#include "base/nvrtc.h"

#include "base/apart.h"
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
    F(GetPTXSize, int, (Program * program, size_t *ret_size))                                    \
    F(GetPTX, int, (Program * program, char *ret_ptx))                                           \
    F(GetCUBINSize, int, (Program * program, size_t *ret_size))                                  \
    F(GetCUBIN, int, (Program * program, char *ret_cubin))

enum { INVALID_OPTION = 5 };

/* Options of every compilation; the option for the machine is added. */
#define OPTIONS \
    "--fmad=false", "--device-as-default-execution-space", "--std=c++17", "--ptxas-options=-v"
#define MINIMAL "--minimal" /* no textures, surfaces and runtime functions, which are declared in
                             * each text else */

typedef struct Nvrtc {
#define MEMBER(NAME, TYPE, ARGUMENTS) TYPE(*NAME) ARGUMENTS;
    FUNCTIONS(MEMBER)
#undef MEMBER
} Nvrtc;

/* ---- the library ---- */

/* Opens the library. newest: the newest of its major versions that is allowed; 0: any. */
static DtStatus open_nvrtc(DtArena *arena, int newest, Nvrtc *ret)
{
    static const char *const versions[] = {"13", "12", NULL};
    const DtCudaLib library = {
        "nvrtc", &versions[newest == 12],
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
    *ret_status = open_nvrtc(arena, 0, &nvrtc);
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

static DtStatus compile(DtArena *arena, const Nvrtc *nvrtc, Program *program, const char *machine,
                        DtNvrtcResult *ret)
{
    const char *const options[] = {dt_arena_printf(arena, "--gpu-architecture=%s", machine),
                                   OPTIONS, MINIMAL};
    const int n = (int)DT_COUNT(options);
    int status = nvrtc->CompileProgram(program, n, options);
    if (status == INVALID_OPTION) /* older versions do not know the last one */
        status = nvrtc->CompileProgram(program, n - 1, options);
    const char *log = log_of(arena, nvrtc, program);
    if (status != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s refused generated kernels for %s (%s): %.400s",
                              ret->version, machine, nvrtc->GetErrorString(status), log);
    const bool is_text = strncmp(machine, "compute_", 8) == 0; /* PTX */
    if ((is_text ? nvrtc->GetPTXSize : nvrtc->GetCUBINSize)(program, &ret->len) != 0 ||
        ret->len == 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s has made no code for %s", ret->version, machine);
    char *cubin = dt_arena_alloc(arena, ret->len);
    if ((is_text ? nvrtc->GetPTX : nvrtc->GetCUBIN)(program, cubin) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s has made no code for %s", ret->version, machine);
    ret->cubin = (const uint8_t *)cubin;
    read_log(arena, log, ret);
    return DT_OK;
}

static DtStatus compile_by(DtArena *arena, const char *text, const char *machine, int newest,
                           DtNvrtcResult *ret_result)
{
    Nvrtc nvrtc;
    Program *program = NULL;
    *ret_result = (DtNvrtcResult){.version = NULL};
    DtStatus status = open_nvrtc(arena, newest, &nvrtc);
    if (!dt_status_ok(&status))
        return status;
    ret_result->version = version_of(arena, &nvrtc);
    if (nvrtc.CreateProgram(&program, text, "kernels.cu", 0, NULL, NULL) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "%s takes no program", ret_result->version);
    status = compile(arena, &nvrtc, program, machine, ret_result);
    nvrtc.DestroyProgram(&program);
    return status;
}

DtStatus dt_nvrtc_compile(DtArena *arena, const char *text, const char *machine,
                          DtNvrtcResult *ret_result)
{
    return compile_by(arena, text, machine, 0, ret_result);
}

/* ---- the cache: the assembler's messages on kernels, one per line, a zero, and the code ---- */

/* Computes the key in the cache, next to the host compiler's. The compiler's output for a text,
 * machine and version is always the same. */
static void find_key(DtArena *arena, const char *text, const char *machine, const char *version,
                     uint8_t ret_key[DT_DIGEST_BYTES])
{
    const char *const parts[] = {"kernels and cubin", version, machine, OPTIONS, MINIMAL,
                                 dt_hostcache_code(arena, text)};
    DtDigest digest;
    dt_digest_begin(&digest);
    for (size_t i = 0; i < DT_COUNT(parts); i++)
        dt_digest_add(&digest, parts[i], strlen(parts[i]) + 1);
    dt_digest_end(&digest, ret_key);
}

static void write_result(const DtNvrtcResult *result, DtText *ret_bytes)
{
    for (uint32_t i = 0; i < result->n_kernels; i++)
        dt_text_printf(ret_bytes, "%s %u %u\n", result->kernels[i].symbol,
                       result->kernels[i].registers, result->kernels[i].spilled);
    dt_text_add_n(ret_bytes, "", 1);
    dt_text_add_n(ret_bytes, (const char *)result->cubin, result->len);
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
        if (sscanf(at + name, "%u %u\n", &kernel->registers, &kernel->spilled) != 2 ||
            !strchr(at, '\n'))
            return false;
        kernel->symbol = dt_arena_strndup(arena, at, name);
        ret->n_kernels++;
    }
    return true;
}

/* Reads the bytes of write_result into *ret; false: something else wrote them. */
static bool read_result(DtArena *arena, const char *bytes, size_t len, DtNvrtcResult *ret)
{
    const char *end = memchr(bytes, 0, len);
    if (!end || end + 1 == bytes + len || !read_kernels(arena, bytes, ret))
        return false;
    ret->len = len - (size_t)(end + 1 - bytes);
    uint8_t *cubin = dt_arena_alloc(arena, ret->len); /* aligned, as a driver may want it */
    memcpy(cubin, end + 1, ret->len);
    ret->cubin = cubin;
    return true;
}

/* Finds the library's version, which is part of the cache's key, and opens the cache's folder. */
static DtStatus begin_build(DtArena *arena, int newest, const char **ret_version, int *ret_folder)
{
    const char *why;
    Nvrtc nvrtc;
    DtStatus status = open_nvrtc(arena, newest, &nvrtc);
    *ret_version = dt_status_ok(&status) ? version_of(arena, &nvrtc) : NULL;
    if (dt_status_ok(&status))
        dt_hostcache_open(arena, ret_folder, &why);
    return status;
}

static bool find(DtArena *arena, int folder, const char *version, DtNvrtcJob *job)
{
    const char *kept;
    size_t len;
    job->result = (DtNvrtcResult){.version = version};
    find_key(arena, job->text, job->machine, version, job->key);
    return dt_hostcache_find(arena, folder, job->key, &kept, &len) &&
           read_result(arena, kept, len, &job->result);
}

DtStatus dt_nvrtc_build(DtArena *arena, const char *text, const char *machine, int newest,
                        DtNvrtcResult *ret_result)
{
    DtNvrtcJob job = {.text = text, .machine = machine};
    const char *version;
    int folder;
    DtStatus status = begin_build(arena, newest, &version, &folder);
    if (!dt_status_ok(&status))
        return status;
    if (!find(arena, folder, version, &job)) {
        DtText bytes = {0};
        status = compile_by(arena, text, machine, newest, &job.result);
        if (dt_status_ok(&status)) {
            write_result(&job.result, &bytes);
            dt_hostcache_keep(arena, folder, job.key, bytes.at, bytes.len);
        }
        dt_text_free(&bytes);
    }
    dt_hostcache_close(folder);
    *ret_result = job.result;
    return status;
}

/* ---- several texts ---- */

/* Compiles one text in a child process, and appends the result to ret_bytes. */
static DtStatus compile_job(DtArena *arena, const void *task, DtText *ret_bytes)
{
    const DtNvrtcJob *job = task;
    DtNvrtcResult result;
    const DtStatus status = dt_nvrtc_compile(arena, job->text, job->machine, &result);
    if (dt_status_ok(&status))
        write_result(&result, ret_bytes);
    return status;
}

/* For qsort: longer texts come first, equally long ones by number. */
static int by_length(const void *a, const void *b)
{
    const DtNvrtcJob *x = *(const DtNvrtcJob *const *)a, *y = *(const DtNvrtcJob *const *)b;
    const size_t m = strlen(x->text), n = strlen(y->text);
    return m < n ? 1 : m > n ? -1 : x < y ? -1 : 1;
}

static DtStatus compile_missing(DtArena *arena, int folder, DtNvrtcJob **jobs, uint32_t n)
{
    DtApartBytes *made = DT_NEW_ARRAY(arena, DtApartBytes, n + 1);
    qsort(jobs, n, sizeof jobs[0], by_length); /* longest texts first, so that no long compilation
                                                * starts last */
    DtStatus status = dt_apart_run(arena, "compiles kernels", compile_job,
                                   (const void *const *)jobs, n, dt_apart_processors(), made);
    for (uint32_t i = 0; i < n && dt_status_ok(&status); i++) {
        dt_hostcache_keep(arena, folder, jobs[i]->key, made[i].at, made[i].len);
        if (!read_result(arena, (const char *)made[i].at, made[i].len, &jobs[i]->result))
            status = dt_status_fail(DT_EXIT_FAILED, "%s has made no code for %s",
                                    jobs[i]->result.version, jobs[i]->machine);
    }
    return status;
}

DtStatus dt_nvrtc_build_all(DtArena *arena, DtNvrtcJob *jobs, uint32_t n)
{
    DtNvrtcJob **missing = DT_NEW_ARRAY(arena, DtNvrtcJob *, n + 1);
    uint32_t n_missing = 0;
    const char *version;
    int folder;
    DtStatus status = begin_build(arena, 0, &version, &folder);
    if (!dt_status_ok(&status))
        return status;
    for (uint32_t i = 0; i < n; i++)
        if (!find(arena, folder, version, &jobs[i]))
            missing[n_missing++] = &jobs[i];
    if (n_missing)
        status = compile_missing(arena, folder, missing, n_missing);
    dt_hostcache_close(folder);
    return status;
}
