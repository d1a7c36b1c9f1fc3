/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/elastic.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 8, SAID = 4096, LOOK_NS = 100000000 };

/* One run of dtc. */
typedef struct Dtc {
    const sigset_t *signals;
    int code;
    char out[SAID], said[SAID]; /* the first bytes of both outputs */
} Dtc;

static DtStatus find_dtc(char ret_path[4096])
{
    char self[4000];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    snprintf(ret_path, 4096, "%.*s/dtc", slash ? (int)(slash - self) : 0, self);
    if (slash && access(ret_path, X_OK) == 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_FAILED,
                          "there is no dtc next to dtrun, which would compile the plan for fewer "
                          "ranks (%.300s)",
                          ret_path);
}

/* Waits for the process. A signal that ends the wait ends dtc, too. Returns its exit code. */
static int wait_for(pid_t pid, const sigset_t *signals)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    sigset_t none;
    int status;
    bool stopped = false;
    sigemptyset(&none);
    for (pid_t ended; (ended = waitpid(pid, &status, WNOHANG)) != pid;) {
        if (ended < 0 && errno != EINTR)
            return DT_EXIT_FAILED;
        const int signal = sigtimedwait(signals ? signals : &none, NULL, &look);
        if (signal > 0 && signal != SIGCHLD) {
            stopped = true;
            kill(pid, SIGTERM);
        }
    }
    return stopped              ? DT_EXIT_INTERRUPTED
           : WIFEXITED(status) ? WEXITSTATUS(status)
                                : DT_EXIT_RETRY;
}

static void read_output(int fd, char ret_text[SAID])
{
    const ssize_t n = pread(fd, ret_text, SAID - 1, 0);
    ret_text[n > 0 ? n : 0] = '\0';
    char *end = strchr(ret_text, '\0');
    while (end > ret_text && end[-1] == '\n')
        *--end = '\0';
}

static DtStatus run_dtc(Dtc *dtc, const char **words)
{
    extern char **environ;
    char path[4096];
    DtStatus status = find_dtc(path);
    if (!dt_status_ok(&status))
        return status;
    const int out = memfd_create("dtc", MFD_CLOEXEC), said = memfd_create("dtc", MFD_CLOEXEC);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    pid_t pid;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, said, 2);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    words[0] = path;
    const int error = out < 0 || said < 0
                          ? errno
                          : posix_spawn(&pid, path, &files, &how,
                                        (char *const *)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    if (error == 0) {
        dtc->code = wait_for(pid, dtc->signals);
        read_output(out, dtc->out);
        read_output(said, dtc->said);
    }
    if (out >= 0)
        close(out);
    if (said >= 0)
        close(said);
    if (error != 0)
        return dt_status_fail(DT_EXIT_RETRY, "cannot start %.300s: %s", path, strerror(error));
    return dtc->code == DT_EXIT_OK
               ? DT_OK
               : dt_status_fail(dtc->code, "%.600s",
                                *dtc->said ? dtc->said : "dtc was ended by a signal");
}

DtStatus dt_elastic_sizes(const char *plan, const sigset_t *signals, DtElasticSizes *ret_sizes)
{
    Dtc dtc = {.signals = signals};
    const char *words[] = {NULL, "recompile", "--json", "--", plan, NULL};
    const DtStatus status = run_dtc(&dtc, words);
    if (!dt_status_ok(&status))
        return status;
    json_t *root = json_loads(dtc.out, 0, NULL);
    ret_sizes->multiple = json_integer_value(json_object_get(root, "multiple_of"));
    ret_sizes->most = json_integer_value(json_object_get(root, "most"));
    json_decref(root);
    return ret_sizes->multiple >= 1
               ? DT_OK
               : dt_status_fail(DT_EXIT_FAILED, "dtc answers `%.200s`", dtc.out);
}

DtStatus dt_elastic_compile(const char *plan, int64_t least, int64_t most, const sigset_t *signals,
                            char ret_path[4096], int64_t *ret_ranks)
{
    DtElasticSizes sizes;
    DtStatus status = dt_elastic_sizes(plan, signals, &sizes);
    if (!dt_status_ok(&status))
        return status;
    int64_t ranks = most < sizes.most ? most : sizes.most;
    ranks -= ranks % sizes.multiple;
    status = dt_status_fail(DT_EXIT_FAILED,
                            "the layout can have multiples of %lld ranks, at most %lld, and there "
                            "are %lld; --elastic allows no fewer than %lld",
                            (long long)sizes.multiple, (long long)sizes.most, (long long)most,
                            (long long)least);
    for (int i = 0; i < TRIES && ranks >= 1 && ranks >= least; i++, ranks -= sizes.multiple) {
        char number[24];
        Dtc dtc = {.signals = signals};
        const char *words[] = {NULL,     "recompile", "--ranks", number, "-o",
                               ret_path, "--",        plan,      NULL};
        snprintf(number, sizeof number, "%lld", (long long)ranks);
        if (snprintf(ret_path, 4096, "%s.%s", plan, number) >= 4096)
            return dt_status_fail(DT_EXIT_IO, "the path of the plan is too long");
        *ret_ranks = ranks;
        status = run_dtc(&dtc, words);
        if (dt_status_ok(&status) || status.code == DT_EXIT_INTERRUPTED ||
            status.code == DT_EXIT_IO)
            return status;
    }
    return status;
}
