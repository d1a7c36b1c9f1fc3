/* SPDX-License-Identifier: Apache-2.0 */
/* A guard process waits for the end of a pipe that this process alone has open for writing. So the
 * folder is removed however this process ends, by SIGKILL too. */
#include "cli/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processes that end with this one may still make files for a moment. */
enum { TRIES = 50, MICROSECONDS = 20000, DEPTH = 8 };

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about, (void)type, (void)at;
    remove(path);
    return 0;
}

static _Noreturn void guard(const char *path, int lifeline)
{
    char byte;
    setsid(); /* Ctrl-C is for the others */
    /* So are signals to all processes of this name: the folder goes after the others have ended. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    while (read(lifeline, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < TRIES && access(path, F_OK) == 0; i++) {
        if (i)
            usleep(MICROSECONDS);
        nftw(path, remove_one, DEPTH, FTW_DEPTH | FTW_PHYS);
    }
    _exit(0);
}

DtCliScratch dt_cli_scratch_make(DtArena *arena)
{
    const char *above = getenv("TMPDIR");
    char *path = dt_arena_printf(arena, "%s/dtc-XXXXXX", above && *above ? above : "/tmp");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return (DtCliScratch){0};
    const pid_t pid = mkdtemp(path) ? fork() : -1;
    if (pid == 0) {
        close(ends[1]);
        guard(path, ends[0]);
    }
    close(ends[0]);
    if (pid > 0)
        return (DtCliScratch){path, ends[1], pid};
    close(ends[1]);
    rmdir(path);
    return (DtCliScratch){0};
}

void dt_cli_scratch_remove(const DtCliScratch *scratch)
{
    if (!scratch->path)
        return;
    close(scratch->lifeline);
    while (waitpid(scratch->guard, NULL, 0) < 0 && errno == EINTR)
        ;
}
