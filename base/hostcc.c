/* SPDX-License-Identifier: Apache-2.0 */
/* The host C compiler: kernels go in by standard input and come out as shared objects that name no path,
 * time or build id, so that equal texts give equal bytes. The objects are written to files without a name, so that
 * nothing is left behind however this program ends; other linkers than GNU's put theirs in place by a rename, which
 * such files do not have. Results are kept in a private cache (0700, owner
 * checked), each entry with its digest; an entry that does not verify is compiled again. */
#include "base/hostcc.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *const flags[] = {"-x", "c", "-", "-std=gnu11", "-O3", "-w", "-shared", "-fPIC", "-fno-math-errno",
                                    "-fno-trapping-math", "-ffp-contract=off", "-fno-asynchronous-unwind-tables",
                                    "-fno-ident", "-fvisibility=default", "-nostdlib", "-fuse-ld=bfd",
                                    "-Wl,--build-id=none", "-Wl,-s"};

static const char *compiler(void)
{
    const char *cc = getenv("DT_CC");
    return cc && cc[0] ? cc : "cc";
}

/* ---- targets ---- */

typedef struct Target {
    const char *name;
    enum { X86_64, ARM64, OTHER } machine;
    const char *flags[2];
} Target;

/* Those of one machine from low to high: code for one runs where a higher one is native. */
static const Target targets[] = {{"cpu-v1", X86_64, {"-march=x86-64"}},
                                 {"cpu-v2", X86_64, {"-march=x86-64-v2"}},
                                 {"cpu-v3", X86_64, {"-march=x86-64-v3"}},
                                 {"cpu-v4", X86_64, {"-march=x86-64-v4", "-mprefer-vector-width=512"}},
                                 {"cpu-arm64", ARM64, {"-march=armv8-a"}},
                                 {"cpu-other", OTHER, {NULL}}};

const char *dt_hostcc_native(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    if (!(HAS("sse4.2") && HAS("ssse3") && HAS("popcnt")))
        return "cpu-v1";
    if (!(HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2")))
        return "cpu-v2";
    if (!(HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl")))
        return "cpu-v3";
#undef HAS
    return "cpu-v4";
#elif defined(__aarch64__)
    return "cpu-arm64";
#else
    return "cpu-other";
#endif
}

static const Target *find_target(const char *name)
{
    if (strcmp(name, "cpu") == 0)
        name = dt_hostcc_native();
    for (size_t i = 0; i < DT_COUNT(targets); i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}

uint32_t dt_hostcc_targets(const char **ret_names)
{
    const Target *here = find_target("cpu");
    uint32_t n = 0;
    ret_names[n++] = "cpu";
    for (size_t i = 0; i < DT_COUNT(targets) && n < DT_HOSTCC_TARGETS; i++)
        if (targets[i].machine == here->machine)
            ret_names[n++] = targets[i].name;
    return n;
}

bool dt_hostcc_known(const char *target) { return find_target(target) != NULL; }

bool dt_hostcc_runs(const char *target)
{
    const Target *it = find_target(target), *here = find_target("cpu");
    return it && it->machine == here->machine && it <= here;
}

/* ---- running it ---- */

static int text_file(const char *text)
{
    int fd = memfd_create("dtc-unit", MFD_CLOEXEC);
    size_t len = strlen(text), done = 0;
    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n < 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* kept: a descriptor that the program has too, under its number; -1: none. */
static pid_t start(const char *const *argv, int in, int out, int kept)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&actions, in, 0);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (kept >= 0)
        posix_spawn_file_actions_adddup2(&actions, kept, kept);
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = error;
    return error ? -1 : pid;
}

static bool finished(pid_t pid)
{
    int state;
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

/* First line of `cc --version`. */
static DtStatus version_of(DtArena *arena, const char **ret_version)
{
    const char *argv[] = {compiler(), "--version", NULL};
    char text[256] = {0};
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return dt_status_fail(DT_EXIT_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = start(argv, -1, pipes[1], -1);
    close(pipes[1]);
    ssize_t n = pid < 0 ? -1 : read(pipes[0], text, sizeof text - 1);
    int error = errno;
    char rest[512];
    while (n > 0 && read(pipes[0], rest, sizeof rest) > 0)
        ;
    close(pipes[0]);
    if (pid < 0 || !finished(pid) || n <= 0)
        return dt_status_fail(DT_EXIT_IO,
                              "cannot run the C compiler `%s`%s%s; install gcc or clang, or name one in DT_CC", argv[0],
                              pid < 0 ? ": " : "", pid < 0 ? strerror(error) : "");
    text[strcspn(text, "\n")] = 0;
    *ret_version = dt_arena_strndup(arena, text, strlen(text));
    return DT_OK;
}

/* ---- cache ---- */

/* The cache folder, or NULL if there is none that is ours alone. */
static const char *cache_folder(DtArena *arena)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *path = base && base[0] == '/' ? dt_arena_printf(arena, "%s/dtc", base)
                       : home && home[0] == '/' ? dt_arena_printf(arena, "%s/.cache/dtc", home) : NULL;
    struct stat stat_of;
    if (!path)
        return NULL;
    DtStatus status = dt_file_make_folder(path);
    if (!dt_status_ok(&status) || stat(path, &stat_of) != 0 || stat_of.st_uid != geteuid())
        return NULL;
    if ((stat_of.st_mode & 0077) && chmod(path, 0700) != 0)
        return NULL;
    return path;
}

static bool from_cache(DtArena *arena, const char *path, uint8_t **ret_binary, size_t *ret_len)
{
    char *text;
    size_t len;
    if (access(path, R_OK) != 0)
        return false;
    DtStatus status = dt_file_read(arena, path, 256u << 20, &text, &len);
    uint64_t digest;
    if (!dt_status_ok(&status) || len < sizeof digest)
        return false;
    memcpy(&digest, text, sizeof digest);
    if (digest != dt_hash_bytes(text + sizeof digest, len - sizeof digest, 1))
        return false;
    *ret_binary = (uint8_t *)text + sizeof digest;
    *ret_len = len - sizeof digest;
    return true;
}

/* A full or read-only disk only costs the next compilation its time. */
static void to_cache(DtArena *arena, const char *path, const uint8_t *binary, size_t len)
{
    uint64_t digest = dt_hash_bytes(binary, len, 1);
    uint8_t *bytes = dt_arena_alloc(arena, len + sizeof digest);
    memcpy(bytes, &digest, sizeof digest);
    memcpy(bytes + sizeof digest, binary, len);
    (void)dt_file_write(path, bytes, len + sizeof digest);
}

/* Comments, which name source lines, make no other binary: a file that moved, or lines that shifted, are found again.
 * Generated units have no strings. */
static const char *without_comments(DtArena *arena, const char *text)
{
    char *code = dt_arena_strndup(arena, text, strlen(text)), *to = code;
    for (const char *at = code, *end; *at;) {
        if (at[0] == '/' && at[1] == '*' && (end = strstr(at + 2, "*/")) != NULL)
            at = end + 2;
        else
            *to++ = *at++;
    }
    *to = 0;
    return code;
}

/* ---- units ---- */

typedef struct Unit {
    const char *text, *cached;
    pid_t pid;
    int in, object;
} Unit;

static void close_files(const Unit *unit)
{
    if (unit->in >= 0)
        close(unit->in);
    if (unit->object >= 0)
        close(unit->object);
}

static DtStatus begin(DtArena *arena, const char *target, Unit *unit)
{
    const char *argv[DT_COUNT(flags) + 6];
    uint32_t n = 0;
    argv[n++] = compiler();
    const Target *it = find_target(target);
    for (size_t i = 0; it && i < DT_COUNT(it->flags) && it->flags[i]; i++)
        argv[n++] = it->flags[i];
    for (uint32_t i = 0; i < DT_COUNT(flags); i++)
        argv[n++] = flags[i];
    unit->in = text_file(unit->text);
    unit->object = unit->in < 0 ? -1 : memfd_create("dtc-object", MFD_CLOEXEC);
    argv[n++] = "-o";
    argv[n++] = dt_arena_printf(arena, "/proc/self/fd/%d", unit->object);
    argv[n] = NULL;
    unit->pid = unit->object < 0 ? -1 : start(argv, unit->in, 2, unit->object);
    if (unit->pid >= 0)
        return DT_OK;
    DtStatus status =
        dt_status_fail(DT_EXIT_IO, "cannot start the C compiler `%s`: %s", argv[0], strerror(errno));
    close_files(unit);
    return status;
}

/* What the compiler has written. */
static DtStatus take(DtArena *arena, const Unit *unit, uint8_t **ret_binary, size_t *ret_len)
{
    struct stat stat_of;
    size_t len = fstat(unit->object, &stat_of) == 0 ? (size_t)stat_of.st_size : 0, got = 0;
    uint8_t *bytes = dt_arena_alloc(arena, len + 1);
    for (ssize_t n = 1; got < len && n > 0; got += n > 0 ? (size_t)n : 0)
        n = pread(unit->object, bytes + got, len - got, (off_t)got);
    if (!len || got < len)
        return dt_status_fail(DT_EXIT_IO, "the C compiler `%s` has written no object", compiler());
    *ret_binary = bytes;
    *ret_len = len;
    return DT_OK;
}

static DtStatus end(DtArena *arena, Unit *unit, uint8_t **ret_binary, size_t *ret_len)
{
    DtStatus status = finished(unit->pid)
                          ? take(arena, unit, ret_binary, ret_len)
                          : dt_status_fail(DT_EXIT_FAILED,
                                           "the C compiler `%s` refused a generated unit; `dtc --emit=c` prints it",
                                           compiler());
    close_files(unit);
    return status;
}

static DtStatus compile_missing(DtArena *arena, const char *target, uint32_t n, Unit *units, uint8_t **ret_binary,
                                size_t *ret_len)
{
    DtStatus status = DT_OK, other;
    for (uint32_t i = 0; dt_status_ok(&status) && i < n;) {
        uint32_t running[2], n_running = 0;
        for (; dt_status_ok(&status) && i < n && n_running < 2; i++) {
            if (ret_binary[i])
                continue;
            status = begin(arena, target, &units[i]);
            if (dt_status_ok(&status))
                running[n_running++] = i;
        }
        for (uint32_t r = 0; r < n_running; r++) {
            uint32_t u = running[r];
            other = end(arena, &units[u], &ret_binary[u], &ret_len[u]);
            if (dt_status_ok(&status))
                status = other;
            if (dt_status_ok(&other) && units[u].cached)
                to_cache(arena, units[u].cached, ret_binary[u], ret_len[u]);
        }
    }
    return status;
}

DtStatus dt_hostcc_compile(DtArena *arena, const char *target, uint32_t n, const char *const *texts,
                           uint8_t **ret_binary, size_t *ret_len, const char **ret_version)
{
    DtStatus status = version_of(arena, ret_version);
    if (!dt_status_ok(&status))
        return status;
    const Target *it = find_target(target);
    if (!it)
        return dt_status_fail(DT_EXIT_FAILED, "there is no target %s", target);
    Unit *units = DT_NEW_ARRAY(arena, Unit, n + 1);
    const char *cache = cache_folder(arena);
    DtText key = {0};
    dt_text_printf(&key, "%s\n%s\n", *ret_version, it->name);
    for (uint32_t i = 0; i < DT_COUNT(flags); i++)
        dt_text_printf(&key, "%s ", flags[i]);
    uint64_t seed = dt_hash_text(key.at, 0);
    dt_text_free(&key);
    for (uint32_t i = 0; i < n; i++) {
        units[i].text = texts[i];
        ret_binary[i] = NULL;
        if (!cache)
            continue;
        const char *code = without_comments(arena, texts[i]);
        units[i].cached = dt_arena_printf(arena, "%s/%016llx%016llx", cache,
                                          (unsigned long long)dt_hash_text(code, seed),
                                          (unsigned long long)dt_hash_text(code, seed ^ 0x9E3779B97F4A7C15u));
        from_cache(arena, units[i].cached, &ret_binary[i], &ret_len[i]);
    }
    return compile_missing(arena, target, n, units, ret_binary, ret_len);
}
