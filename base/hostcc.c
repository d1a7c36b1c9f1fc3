/* SPDX-License-Identifier: Apache-2.0 */
/* The host C compiler: kernels go in by standard input and come out as shared objects that name no
 * path, time or build id, so that equal texts give equal bytes. The objects are written to files
 * without a name, so that nothing is left behind however this program ends; other linkers than
 * GNU's put theirs in place by a rename, which such files do not have. Results are kept in a cache
 * (hostcache.c).
 *
 * * Compilers have faults, and the text of a kernel fixes its bits; so each text is built twice, as
 * it will run and plainly (not optimized, by another compiler if there is one), and both builds are
 * run beside each other (hostrun.c). Where they differ, the unit is built without vectorisation,
 * which must agree with the plain build; the caller says so. That happens once: the cache keeps
 * what came out. */
#include "base/hostcc.h"

#include "base/digest.h"
#include "base/hostcache.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { LEAST_ROOM = 8 << 20 }; /* bytes of temporary files that are always enough for a compiler */

/* Flags that every build has, after those of the target and of the flavour. */
static const char *const flags[] = {"-x", "c", "-", "-std=gnu11", "-w", "-shared", "-fPIC",
                                    "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
                                    "-fno-asynchronous-unwind-tables", "-fno-ident",
                                    "-fvisibility=default", "-nostdlib", "-fuse-ld=bfd",
                                    "-Wl,--build-id=none", "-Wl,-s"};

/* The kinds of builds: FAST is the code that will run, PLAIN the code to compare it with, SAFE the
 * replacement for wrong code. */
typedef enum Flavour { FAST, PLAIN, SAFE } Flavour;
static const char *const flavour_flags[][4] = {
    [FAST] = {"-O3"},
    [PLAIN] = {"-O0"},
    [SAFE] = {"-O2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-DDT_LANES="}};

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

/* Targets of one machine from low to high: the code of one runs where a higher one is native. */
static const Target targets[] = {{"cpu-v1", X86_64, {"-march=x86-64"}},
                                 {"cpu-v2", X86_64, {"-march=x86-64-v2"}},
                                 {"cpu-v3", X86_64, {"-march=x86-64-v3"}},
                                 {"cpu-v4", X86_64,
                                  {"-march=x86-64-v4", "-mprefer-vector-width=512"}},
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
    if (!(HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") &&
          HAS("avx512vl")))
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

/* Starts a program and returns its process; in and out: descriptors of its standard input and
 * output. kept: a descriptor that the program has too, under its number; -1: none. */
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
    int error =
        posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
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

/* Sets *ret_version to the first line of `cc --version`. */
static DtStatus version_of(DtArena *arena, const char *cc, const char **ret_version)
{
    const char *argv[] = {cc, "--version", NULL};
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
        return dt_status_fail(
            DT_EXIT_IO,
            "cannot run the C compiler `%s`%s%s; install gcc or clang, or name one in DT_CC",
            argv[0], pid < 0 ? ": " : "", pid < 0 ? strerror(error) : "");
    text[strcspn(text, "\n")] = 0;
    *ret_version = dt_arena_strndup(arena, text, strlen(text));
    return DT_OK;
}

/* ---- texts ---- */

const char *dt_hostcc_name(DtArena *arena, const DtHostTask *task, const char *symbol)
{
    const char *mark = dt_arena_printf(arena, " */\nvoid %s(", symbol);
    for (uint32_t i = 0; i < task->n; i++) {
        const char *end = strstr(task->texts[i], mark), *from = end;
        while (from && from > task->texts[i] && from[-1] != '\n')
            from--;
        if (from && end - from > 3)
            return dt_arena_strndup(arena, from + 3, (size_t)(end - from - 3));
    }
    return symbol;
}

/* ---- builds ---- */

typedef struct Build {
    uint32_t unit;
    Flavour flavour;
    const char *cc;
    pid_t pid;
    int in, object;
    bool refused;
    DtHostBytes out;
} Build;

typedef struct Unit {
    uint8_t key[DT_DIGEST_BYTES];
    DtHostBytes fast, plain;
    uint8_t *verdicts;              /* DtHostVerdict, by call of the task */
    uint32_t n_wrong, n_not_compared;
} Unit;

typedef struct Work {
    DtArena *arena;
    const DtHostTask *task;
    DtHostResult *result;
    const Target *target;
    bool compares;
    const char *plain_cc, *plain_version; /* the compiler of the plain builds */
    int cache;
    Unit *units;
    DT_VEC(const char *) wrong;
} Work;

static void close_files(const Build *build)
{
    if (build->in >= 0)
        close(build->in);
    if (build->object >= 0)
        close(build->object);
}

static DtStatus begin(const Work *work, Build *build)
{
    const char *argv[DT_COUNT(flags) + 12];
    uint32_t n = 0;
    argv[n++] = build->cc;
    for (size_t i = 0; i < DT_COUNT(work->target->flags) && work->target->flags[i]; i++)
        argv[n++] = work->target->flags[i];
    for (size_t i = 0; i < DT_COUNT(flavour_flags[0]) && flavour_flags[build->flavour][i]; i++)
        argv[n++] = flavour_flags[build->flavour][i];
    for (uint32_t i = 0; i < DT_COUNT(flags); i++)
        argv[n++] = flags[i];
    build->in = text_file(work->task->texts[build->unit]);
    build->object = build->in < 0 ? -1 : memfd_create("dtc-object", MFD_CLOEXEC);
    argv[n++] = "-o";
    argv[n++] = dt_arena_printf(work->arena, "/proc/self/fd/%d", build->object);
    argv[n] = NULL;
    build->pid = build->object < 0 ? -1 : start(argv, build->in, 2, build->object);
    if (build->pid >= 0)
        return DT_OK;
    DtStatus status = dt_status_fail(DT_EXIT_IO, "cannot start the C compiler `%s`: %s", argv[0],
                                     strerror(errno));
    close_files(build);
    return status;
}

/* Reads the object that the compiler has written into build->out. */
static DtStatus take(DtArena *arena, Build *build)
{
    struct stat stat_of;
    size_t len = fstat(build->object, &stat_of) == 0 ? (size_t)stat_of.st_size : 0, got = 0;
    uint8_t *bytes = dt_arena_alloc(arena, len + 1);
    for (ssize_t n = 1; got < len && n > 0; got += n > 0 ? (size_t)n : 0)
        n = pread(build->object, bytes + got, len - got, (off_t)got);
    if (!len || got < len)
        return dt_status_fail(DT_EXIT_IO, "the C compiler `%s` has written no object", build->cc);
    build->out = (DtHostBytes){bytes, len};
    return DT_OK;
}

/* Returns the error that the compiler gave no object. It keeps temporary files in a folder that may
 * be full, which this then says. */
static DtStatus refused(const Build *build)
{
    const char *folder = getenv("TMPDIR");
    struct statvfs disk;
    folder = folder && *folder ? folder : "/tmp";
    if (statvfs(folder, &disk) == 0 && ((uint64_t)disk.f_bavail * disk.f_frsize < LEAST_ROOM ||
                                        (disk.f_files > 0 && disk.f_favail == 0)))
        return dt_status_fail(
            DT_EXIT_IO,
            "the C compiler `%s` has no room for its temporary files in %.300s; free some space on "
            "that disk, or set TMPDIR",
            build->cc, folder);
    return dt_status_fail(DT_EXIT_FAILED,
                          "the C compiler `%s` refused a generated unit; `dtc --emit=c` prints it",
                          build->cc);
}

static DtStatus end(const Work *work, Build *build)
{
    DtStatus status = finished(build->pid) ? take(work->arena, build) : refused(build);
    close_files(build);
    build->refused = !dt_status_ok(&status);
    return build->flavour == PLAIN ? DT_OK : status; /* a failed plain build is no error: the other
                                                      * compiler may succeed */
}

/* Runs the builds in order, at most two at once; returns the first error. */
static DtStatus run_builds(const Work *work, Build *builds, uint32_t n)
{
    DtStatus status = DT_OK, other;
    uint32_t begun = 0;
    for (uint32_t ended = 0; ended < n; ended++) {
        for (; dt_status_ok(&status) && begun < n && begun < ended + 2; begun++)
            status = begin(work, &builds[begun]);
        if (ended >= begun || builds[ended].pid < 0)
            break;
        other = end(work, &builds[ended]);
        if (dt_status_ok(&status))
            status = other;
    }
    return status;
}

static void add_build(Build *list, uint32_t *n, uint32_t unit, Flavour flavour, const char *cc)
{
    list[(*n)++] = (Build){.unit = unit, .flavour = flavour, .cc = cc, .pid = -1, .in = -1,
                           .object = -1};
}

/* ---- comparing ---- */

/* Chooses the compiler of plain builds: DT_CC_CHECK; else clang if the compiler is gcc, and gcc if
 * it is clang, if installed; else the compiler itself. */
static void choose_other(Work *work)
{
    const char *named = getenv("DT_CC_CHECK"), *version = work->result->version;
    const char *other = named && named[0] ? named : strstr(version, "clang") ? "gcc" : "clang";
    DtStatus status = version_of(work->arena, other, &work->plain_version);
    work->plain_cc = other;
    if (!dt_status_ok(&status)) {
        work->plain_cc = compiler();
        work->plain_version = version;
    }
}

static bool is_wanted(const char *target)
{
    const char *named = getenv("DT_CC_CHECK");
    return dt_hostcc_runs(target) && !(named && strcmp(named, "none") == 0);
}

static DtStatus compare(const Work *work, const uint32_t *units, uint32_t n, bool safe,
                        const Build *safes, bool *ret_unloadable)
{
    DtHostPair *pairs = DT_NEW_ARRAY(work->arena, DtHostPair, n + 1);
    *ret_unloadable = false;
    for (uint32_t i = 0; i < n; i++) {
        const Unit *unit = &work->units[units[i]];
        pairs[i] = (DtHostPair){.text = work->task->texts[units[i]],
                                .plain = unit->plain,
                                .fast = safe ? safes[i].out : unit->fast,
                                .calls = work->task->calls,
                                .n_calls = work->task->n_calls,
                                .unit = units[i],
                                .verdicts = unit->verdicts};
    }
    DtStatus status = dt_hostrun_compare(pairs, n);
    for (uint32_t i = 0; i < n; i++)
        *ret_unloadable = *ret_unloadable || pairs[i].unloadable;
    return status;
}

/* Returns how many kernels of the unit have the verdict; *ret_first becomes the name of the first
 * one. */
static uint32_t count(const Work *work, uint32_t unit, DtHostVerdict verdict,
                      const char **ret_first)
{
    uint32_t n = 0;
    *ret_first = NULL;
    for (uint32_t i = 0; i < work->task->n_calls; i++)
        if (work->task->calls[i].unit == unit && work->units[unit].verdicts[i] == verdict) {
            if (!*ret_first)
                *ret_first = work->task->calls[i].symbol;
            n++;
        }
    return n;
}

static void note_wrong(Work *work, uint32_t unit)
{
    for (uint32_t i = 0; i < work->task->n_calls; i++) {
        const DtHostCall *call = &work->task->calls[i];
        if (call->unit != unit || work->units[unit].verdicts[i] != DT_HOST_DIFFERS)
            continue;
        bool known = false; /* the list has each kernel once, though several calls may name it */
        for (uint32_t k = 0; k < work->wrong.n; k++)
            known = known || strcmp(work->wrong.at[k], call->symbol) == 0;
        if (known)
            continue;
        DT_PUSH(work->arena, work->wrong,
                dt_arena_strndup(work->arena, call->symbol, strlen(call->symbol)));
        work->units[unit].n_wrong++;
    }
}

/* Builds units with a wrong kernel again, without vectorisation, and compares those builds. */
static DtStatus mend(Work *work, const uint32_t *units, uint32_t n)
{
    Build *builds = DT_NEW_ARRAY(work->arena, Build, n + 1);
    uint32_t *wrong = DT_NEW_ARRAY(work->arena, uint32_t, n + 1), n_wrong = 0, made = 0;
    const char *first;
    bool unloadable;
    for (uint32_t i = 0; i < n; i++)
        if (count(work, units[i], DT_HOST_DIFFERS, &first)) {
            note_wrong(work, units[i]);
            add_build(builds, &made, units[i], SAFE, compiler());
            wrong[n_wrong++] = units[i];
        }
    DtStatus status = run_builds(work, builds, made);
    if (dt_status_ok(&status))
        status = compare(work, wrong, n_wrong, true, builds, &unloadable);
    for (uint32_t i = 0; dt_status_ok(&status) && i < n_wrong; i++) {
        work->units[wrong[i]].fast = builds[i].out;
        if (count(work, wrong[i], DT_HOST_DIFFERS, &first))
            status = dt_status_fail(
                DT_EXIT_FAILED,
                "kernel `%s` computes one thing as `%s` builds it and another as `%s` does, and "
                "not only where it is vectorised; name another compiler in DT_CC",
                dt_hostcc_name(work->arena, work->task, first), work->result->version,
                work->plain_version);
    }
    return status;
}

static DtStatus look_at_faults(Work *work, const uint32_t *units, uint32_t n)
{
    const char *first;
    for (uint32_t i = 0; i < n; i++) {
        if (count(work, units[i], DT_HOST_FAULT, &first))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "internal error: kernel `%s` touches memory that is not its own",
                                  dt_hostcc_name(work->arena, work->task, first));
        work->units[units[i]].n_not_compared = count(work, units[i], DT_HOST_NO_ROOM, &first);
    }
    return DT_OK;
}

/* Makes plain builds by the compiler itself, for units where the other compiler has made none that
 * can be used. */
static DtStatus build_plain_here(Work *work, const uint32_t *units, uint32_t n)
{
    Build *builds = DT_NEW_ARRAY(work->arena, Build, n + 1);
    uint32_t made = 0;
    work->plain_cc = compiler();
    work->plain_version = work->result->version;
    for (uint32_t i = 0; i < n; i++)
        add_build(builds, &made, units[i], PLAIN, work->plain_cc);
    DtStatus status = run_builds(work, builds, made);
    for (uint32_t i = 0; dt_status_ok(&status) && i < made; i++) {
        work->units[builds[i].unit].plain = builds[i].out;
        if (builds[i].refused)
            status = dt_status_fail(DT_EXIT_FAILED,
                                    "the C compiler `%s` refused a generated unit with -O0",
                                    builds[i].cc);
    }
    return status;
}

static DtStatus compare_missing(Work *work, const uint32_t *units, uint32_t n)
{
    bool unloadable = false;
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < n; i++)
        unloadable = unloadable || !work->units[units[i]].plain.at;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (unloadable)
            status = build_plain_here(work, units, n);
        if (dt_status_ok(&status))
            status = compare(work, units, n, false, NULL, &unloadable);
        if (!dt_status_ok(&status) || !unloadable)
            break;
    }
    if (dt_status_ok(&status) && unloadable)
        status =
            dt_status_fail(DT_EXIT_FAILED, "generated kernels as `%s` builds them cannot be loaded",
                           work->plain_version);
    if (dt_status_ok(&status))
        status = look_at_faults(work, units, n);
    return dt_status_ok(&status) ? mend(work, units, n) : status;
}

/* ---- contents of the cache: this struct, the other compiler, symbols of wrong kernels, the object
 * ---- */

typedef struct Kept {
    uint32_t compared, n_not_compared, n_wrong, names; /* names: bytes */
} Kept;

static void add_flags(DtDigest *digest, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n && list[i]; i++)
        dt_digest_add(digest, list[i], strlen(list[i]) + 1);
}

/* Sets the unit's key in the cache: a digest of all that the object depends on, the compiler, its
 * flags and the text without comments. */
static void find_key(Work *work, uint32_t unit)
{
    DtDigest digest;
    const char *const parts[] = {"kernels 3", work->result->version, work->target->name};
    const char *code = dt_hostcache_code(work->arena, work->task->texts[unit]);
    dt_digest_begin(&digest);
    add_flags(&digest, parts, DT_COUNT(parts));
    add_flags(&digest, work->target->flags, DT_COUNT(work->target->flags));
    add_flags(&digest, flavour_flags[FAST], DT_COUNT(flavour_flags[FAST]));
    add_flags(&digest, flavour_flags[SAFE], DT_COUNT(flavour_flags[SAFE]));
    add_flags(&digest, flags, DT_COUNT(flags));
    dt_digest_add(&digest, code, strlen(code));
    dt_digest_end(&digest, work->units[unit].key);
}

static bool from_cache(Work *work, uint32_t number)
{
    Unit *unit = &work->units[number];
    const char *at, *name;
    uint32_t texts = 0;
    size_t len;
    Kept kept;
    if (!dt_hostcache_find(work->arena, work->cache, unit->key, &at, &len) || len < sizeof kept)
        return false;
    memcpy(&kept, at, sizeof kept);
    if ((work->compares && !kept.compared) || kept.names > len - sizeof kept)
        return false;
    name = at + sizeof kept;
    for (uint32_t i = 0; i < kept.names; i++) /* texts, each with its end */
        texts += name[i] == 0;
    if (texts != (kept.n_wrong ? kept.n_wrong + 1 : 0))
        return false;
    if (kept.n_wrong)
        work->plain_version = name;
    for (uint32_t i = 0; i < kept.n_wrong; i++)
        DT_PUSH(work->arena, work->wrong, name += strlen(name) + 1);
    unit->n_not_compared = kept.n_not_compared;
    unit->fast = (DtHostBytes){(const uint8_t *)at + sizeof kept + kept.names,
                               len - sizeof kept - kept.names};
    return true;
}

static void to_cache(Work *work, uint32_t number, uint32_t first_wrong)
{
    const Unit *unit = &work->units[number];
    DtText text = {0};
    Kept kept = {work->compares, unit->n_not_compared, unit->n_wrong, 0};
    dt_text_add_n(&text, (const char *)&kept, sizeof kept);
    if (unit->n_wrong)
        dt_text_add_n(&text, work->plain_version, strlen(work->plain_version) + 1);
    for (uint32_t i = 0; i < unit->n_wrong; i++)
        dt_text_add_n(&text, work->wrong.at[first_wrong + i],
                      strlen(work->wrong.at[first_wrong + i]) + 1);
    kept.names = (uint32_t)(text.len - sizeof kept);
    memcpy(text.at, &kept, sizeof kept);
    dt_text_add_n(&text, (const char *)unit->fast.at, unit->fast.len);
    dt_hostcache_keep(work->arena, work->cache, unit->key, text.at, text.len);
    dt_text_free(&text);
}

/* ---- all of it ---- */

static DtStatus compile_missing(Work *work, const uint32_t *units, uint32_t n)
{
    Build *builds = DT_NEW_ARRAY(work->arena, Build, 2 * n + 1);
    uint32_t made = 0, first_wrong = work->wrong.n;
    if (work->compares)
        choose_other(work);
    for (uint32_t i = 0; i < n; i++) {
        add_build(builds, &made, units[i], FAST, compiler());
        if (work->compares)
            add_build(builds, &made, units[i], PLAIN, work->plain_cc);
        work->units[units[i]].verdicts = dt_arena_alloc(work->arena, work->task->n_calls + 1);
    }
    DtStatus status = run_builds(work, builds, made);
    for (uint32_t i = 0; dt_status_ok(&status) && i < made; i++)
        *(builds[i].flavour == FAST ? &work->units[builds[i].unit].fast
                                    : &work->units[builds[i].unit].plain) = builds[i].out;
    if (dt_status_ok(&status) && work->compares)
        status = compare_missing(work, units, n);
    for (uint32_t i = 0; dt_status_ok(&status) && i < n; i++) {
        to_cache(work, units[i], first_wrong);
        first_wrong += work->units[units[i]].n_wrong;
    }
    return status;
}

static void tell(Work *work)
{
    DtHostResult *result = work->result;
    result->wrong = work->wrong.at;
    result->n_wrong = work->wrong.n;
    result->other = work->wrong.n ? work->plain_version : NULL;
    for (uint32_t i = 0; i < work->task->n; i++) {
        result->units[i] = work->units[i].fast;
        result->n_not_compared += work->units[i].n_not_compared;
    }
    if (result->n_not_compared)
        result->why_not = "this process may not have the address space that they reach over";
    if (!dt_hostcc_runs(work->task->target)) {
        result->n_not_compared = work->task->n_calls;
        result->why_not = dt_arena_printf(work->arena, "this processor, %s, cannot run code for %s",
                                          dt_hostcc_native(), work->target->name);
    }
}

DtStatus dt_hostcc_compile(DtArena *arena, const DtHostTask *task, DtHostResult *ret_result)
{
    Work work = {.arena = arena, .task = task, .result = ret_result,
                 .target = find_target(task->target)};
    uint32_t *missing = DT_NEW_ARRAY(arena, uint32_t, task->n + 1), n_missing = 0;
    *ret_result = (DtHostResult){.units = DT_NEW_ARRAY(arena, DtHostBytes, task->n + 1)};
    DtStatus status = version_of(arena, compiler(), &ret_result->version);
    if (!dt_status_ok(&status))
        return status;
    if (!work.target)
        return dt_status_fail(DT_EXIT_FAILED, "there is no target %s", task->target);
    work.compares = is_wanted(task->target);
    work.units = DT_NEW_ARRAY(arena, Unit, task->n + 1);
    dt_hostcache_open(arena, &work.cache, &ret_result->no_cache);
    for (uint32_t i = 0; i < task->n; i++) {
        find_key(&work, i);
        if (!from_cache(&work, i))
            missing[n_missing++] = i;
    }
    status = n_missing ? compile_missing(&work, missing, n_missing) : DT_OK;
    dt_hostcache_close(work.cache);
    if (dt_status_ok(&status))
        tell(&work);
    return status;
}
