/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/elastic.h"

#include "base/file.h"
#include "plan/read.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID = 4096, NICE = 19 };

/* One run of dtc. */
typedef struct Dtc {
    pid_t pid; /* 0: it does not run. It and what it starts are a process group */
    int out, said;
} Dtc;

struct DtElastic {
    const char *plan;
    uint32_t most;
    uint64_t *digests; /* [most + 1]: of the plans that have been made; 0: of none */
    Dtc dtc;
    uint32_t ranks; /* for which dtc makes a plan */
    bool is_ahead;
};

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

/* ---- a process ---- */

static void close_outputs(Dtc *dtc)
{
    if (dtc->out >= 0)
        close(dtc->out);
    if (dtc->said >= 0)
        close(dtc->said);
    dtc->pid = 0;
}

/* Starts dtc with these words, of which the first is filled in here. */
static DtStatus begin(Dtc *dtc, const char **words)
{
    extern char **environ;
    char path[4096];
    DtStatus status = find_dtc(path);
    if (!dt_status_ok(&status))
        return status;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    dtc->out = memfd_create("dtc", MFD_CLOEXEC);
    dtc->said = memfd_create("dtc", MFD_CLOEXEC);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&files, dtc->out, 1);
    posix_spawn_file_actions_adddup2(&files, dtc->said, 2);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    words[0] = path;
    const int error = dtc->out < 0 || dtc->said < 0
                          ? errno
                          : posix_spawn(&dtc->pid, path, &files, &how,
                                        (char *const *)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    if (error == 0)
        return DT_OK;
    close_outputs(dtc);
    return dt_status_fail(DT_EXIT_RETRY, "cannot start %.300s: %s", path, strerror(error));
}

static void read_output(int fd, char ret_text[SAID])
{
    const ssize_t n = pread(fd, ret_text, SAID - 1, 0);
    ret_text[n > 0 ? n : 0] = '\0';
    char *end = strchr(ret_text, '\0');
    while (end > ret_text && end[-1] == '\n')
        *--end = '\0';
}

/* Takes the end of dtc, if it has ended; waits: waits for that. ret_out: what it printed. */
static bool take_end(Dtc *dtc, bool waits, char ret_out[SAID], DtStatus *ret_status)
{
    char said[SAID];
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(dtc->pid, &status, waits ? 0 : WNOHANG);
    while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return false;
    read_output(dtc->out, ret_out);
    read_output(dtc->said, said);
    close_outputs(dtc);
    const bool exited = ended > 0 && WIFEXITED(status);
    *ret_status = exited && WEXITSTATUS(status) == DT_EXIT_OK
                      ? DT_OK
                      : dt_status_fail(exited ? WEXITSTATUS(status) : DT_EXIT_RETRY, "%.450s",
                                       *said ? said : "dtc was ended by a signal");
    return true;
}

static void end(Dtc *dtc)
{
    char out[SAID];
    DtStatus status;
    if (dtc->pid == 0)
        return;
    kill(-dtc->pid, SIGTERM);
    take_end(dtc, true, out, &status);
}

/* ---- sizes ---- */

DtStatus dt_elastic_sizes(const char *plan, DtElasticSizes *ret_sizes)
{
    Dtc dtc = {.pid = 0};
    char out[SAID];
    const char *words[] = {NULL, "recompile", "--json", "--", plan, NULL};
    DtStatus status = begin(&dtc, words);
    if (dt_status_ok(&status))
        take_end(&dtc, true, out, &status);
    if (!dt_status_ok(&status))
        return status;
    json_t *root = json_loads(out, 0, NULL);
    ret_sizes->multiple = json_integer_value(json_object_get(root, "multiple_of"));
    ret_sizes->most = json_integer_value(json_object_get(root, "most"));
    json_decref(root);
    return ret_sizes->multiple >= 1 ? DT_OK
                                    : dt_status_fail(DT_EXIT_FAILED, "dtc answers `%.200s`", out);
}

/* ---- plans ---- */

DtElastic *dt_elastic_open(const char *plan, uint32_t most)
{
    DtElastic *e = calloc(1, sizeof *e);
    if (e)
        *e = (DtElastic){.plan = plan, .most = most,
                         .digests = calloc((size_t)most + 1, sizeof *e->digests)};
    if (e && e->digests)
        return e;
    free(e);
    return NULL;
}

void dt_elastic_close(DtElastic *e)
{
    if (!e)
        return;
    end(&e->dtc);
    free(e->digests);
    free(e);
}

void dt_elastic_path(const DtElastic *e, uint32_t ranks, char ret_path[4096])
{
    if (ranks == e->most)
        snprintf(ret_path, 4096, "%s", e->plan);
    else
        snprintf(ret_path, 4096, "%.4080s.%u", e->plan, ranks);
}

static DtStatus begin_plan(DtElastic *e, uint32_t ranks)
{
    char number[24], path[4096];
    const char *words[] = {NULL, "recompile", "--ranks", number, "-o",
                           path, "--",        e->plan,   NULL};
    if (strlen(e->plan) > 4000)
        return dt_status_fail(DT_EXIT_IO, "the path of the plan is too long");
    snprintf(number, sizeof number, "%u", ranks);
    dt_elastic_path(e, ranks, path);
    e->ranks = ranks;
    return begin(&e->dtc, words);
}

/* Notes the digest of the plan that dtc has written. */
static DtStatus note_plan(DtElastic *e)
{
    char path[4096];
    DtPlanFile file;
    dt_elastic_path(e, e->ranks, path);
    DtStatus status = dt_read_file(path, &file);
    if (!dt_status_ok(&status))
        return status;
    if (file.plan.meta->n_ranks != e->ranks)
        status = dt_status_fail(DT_EXIT_FAILED, "%.300s is not for %u ranks", path, e->ranks);
    else
        e->digests[e->ranks] = file.plan.digest;
    dt_read_close(&file);
    return status;
}

DtElasticState dt_elastic_get(DtElastic *e, uint32_t ranks, bool is_ahead, DtStatus *ret_why)
{
    char out[SAID];
    *ret_why = DT_OK;
    if (ranks == e->most || e->digests[ranks])
        return DT_ELASTIC_READY;
    if (e->dtc.pid && e->ranks != ranks && is_ahead)
        return DT_ELASTIC_BUSY;
    if (e->dtc.pid && e->ranks != ranks)
        end(&e->dtc);
    if (e->dtc.pid && e->is_ahead && !is_ahead) { /* not all users may do that */
        setpriority(PRIO_PGRP, (id_t)e->dtc.pid, 0);
        e->is_ahead = false;
    }
    if (!e->dtc.pid) {
        *ret_why = begin_plan(e, ranks);
        if (!dt_status_ok(ret_why))
            return DT_ELASTIC_FAILED;
        e->is_ahead = is_ahead;
        if (is_ahead)
            setpriority(PRIO_PGRP, (id_t)e->dtc.pid, NICE);
        return DT_ELASTIC_BUSY;
    }
    if (!take_end(&e->dtc, false, out, ret_why))
        return DT_ELASTIC_BUSY;
    if (dt_status_ok(ret_why))
        *ret_why = note_plan(e);
    return dt_status_ok(ret_why) ? DT_ELASTIC_READY : DT_ELASTIC_FAILED;
}

uint64_t dt_elastic_digest(const DtElastic *e, uint32_t ranks) { return e->digests[ranks]; }

void dt_elastic_forget(DtElastic *e, uint32_t ranks) { e->digests[ranks] = 0; }
