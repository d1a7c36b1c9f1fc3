/* SPDX-License-Identifier: Apache-2.0 */
/* A run owns its outputs from before the ranks start until the last of them has ended, over all
 * restarts: the folder of checkpoints and the log are locked, by descriptors that the ranks
 * inherit, and must not contain another run's data. If they do, an option says what happens to
 * it: --resume continues from it, --overwrite removes it. */
#include "runtime/outputs.h"

#include "runtime/checkpoint.h"
#include "runtime/foreign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *dt_outputs_folder(const DtRunOptions *options)
{
    return options->eval || dt_run_predicts(options) ? NULL
           : options->save                    ? options->save
                                              : options->resume;
}

static bool same_file(const char *x, const char *y)
{
    struct stat stat_x, stat_y;
    return stat(x, &stat_x) == 0 && stat(y, &stat_y) == 0 && stat_x.st_dev == stat_y.st_dev &&
           stat_x.st_ino == stat_y.st_ino;
}

/* Whether the run continues what is already in the folder. */
static bool is_resumed(const DtRunOptions *options, const char *folder)
{
    char above[4096];
    return options->resume != NULL &&
           (same_file(options->resume, folder) ||
            (dt_checkpoint_above(options->resume, above) && same_file(above, folder)));
}

/* Refuses a folder with checkpoints of another run, unless --overwrite is given. */
static DtStatus check_free(DtArena *memory, const DtRunOptions *options, const char *folder)
{
    DtCheckpointList list;
    char above[4096];
    DtStatus status = dt_checkpointlist_read(memory, folder, false, &list);
    if (!dt_status_ok(&status) || list.n == 0)
        return status;
    if (dt_checkpoint_above(folder, above))
        return dt_status_fail(DT_EXIT_USAGE,
                              "%.300s is a checkpoint; --save wants the folder of a run", folder);
    if (options->overwrite)
        return DT_OK;
    const DtCheckpointEntry *newest = dt_checkpointlist_newest(&list);
    return dt_status_fail(DT_EXIT_USAGE,
                          "%.200s holds the checkpoints of another run (%lld steps): --resume "
                          "%.100s goes on from it, "
                          "--overwrite removes them",
                          folder, (long long)(newest ? newest : &list.at[0])->steps, folder);
}

bool dt_outputs_continues(const DtRunOptions *options)
{
    const char *folder = dt_outputs_folder(options);
    return folder != NULL && is_resumed(options, folder);
}

static DtStatus hold_folder(const DtRunOptions *options, DtOutputs *outputs)
{
    const char *folder = dt_outputs_folder(options);
    if (folder == NULL)
        return DT_OK;
    if (dt_foreign_is(folder) && !dt_checkpoint_is_name(folder))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--save %.300s: the folder has a model that another program wrote; "
                              "name another for the checkpoints",
                              folder);
    DtStatus status = dt_file_make_folder(folder);
    if (dt_status_ok(&status))
        status = dt_file_lock(folder, &outputs->fds[DT_OUTPUT_FOLDER]);
    if (!dt_status_ok(&status) || is_resumed(options, folder))
        return status;
    DtArena *memory = dt_arena_new();
    status = check_free(memory, options, folder);
    dt_arena_free(memory);
    return status;
}

/* Opens and locks the log. Pipes and devices are left alone: they contain no data of other runs. */
static DtStatus hold_log(const DtRunOptions *options, DtOutputs *outputs)
{
    struct stat stat_of;
    int *fd = &outputs->fds[DT_OUTPUT_LOG];
    const bool was_there = options->log != NULL && stat(options->log, &stat_of) == 0;
    if (options->log == NULL || (was_there && !S_ISREG(stat_of.st_mode)))
        return DT_OK;
    int made = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (made < 0 && errno == ENOENT) {
        DtStatus folder = dt_file_make_folder_of(options->log);
        if (!dt_status_ok(&folder))
            return folder;
        made = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
    if (made < 0)
        return dt_status_fail(DT_EXIT_IO, "cannot write the log %.300s: %s", options->log,
                              strerror(errno));
    DtStatus status = dt_file_lock(options->log, fd);
    if (dt_status_ok(&status) && fstat(made, &stat_of) == 0 && stat_of.st_size > 0 &&
        !options->overwrite && !options->resume)
        status = dt_status_fail(
            DT_EXIT_USAGE,
            "the log %.300s is that of another run: --overwrite empties it, --resume adds to it",
            options->log);
    close(made);
    outputs->made_log = !was_there;
    return status;
}

/* ---- an export ---- */

/* Fails if the folder has files in it, or is a link to nothing. */
static DtStatus check_empty(const char *folder)
{
    struct stat stat_of;
    DIR *dir = opendir(folder);
    bool empty = true;
    if (dir == NULL) {
        const int error = errno;
        const bool is_other = error == ENOTDIR || error == ENOENT;
        if (lstat(folder, &stat_of) != 0 && errno == ENOENT)
            return DT_OK;
        return dt_status_fail(is_other ? DT_EXIT_USAGE : DT_EXIT_IO, "--export %.200s: %s", folder,
                              is_other ? "something else has that name; name a folder that is "
                                         "empty or does not exist"
                                       : strerror(error));
    }
    for (const struct dirent *entry; empty && (entry = readdir(dir)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(dir);
    return empty ? DT_OK
                 : dt_status_fail(DT_EXIT_USAGE,
                                  "--export %.300s: the folder is not empty, and nothing in it is "
                                  "overwritten; name another",
                                  folder);
}

/* Whether a folder that exists is the root of a file system, which no other folder can replace. */
static bool is_mounted(const char *folder)
{
    char above[4096];
    struct stat here, there;
    return (size_t)snprintf(above, sizeof above, "%s/..", folder) < sizeof above &&
           stat(folder, &here) == 0 && stat(above, &there) == 0 &&
           (here.st_dev != there.st_dev || here.st_ino == there.st_ino);
}

DtStatus dt_outputs_export(const char *folder, DtOutputsExport *ret_export)
{
    char *full = realpath(folder, NULL);
    const int n =
        snprintf(ret_export->folder, sizeof ret_export->folder, "%s", full ? full : folder);
    free(full);
    DtStatus status = check_empty(folder);
    if (!dt_status_ok(&status))
        return status;
    for (char *end = ret_export->folder + strlen(ret_export->folder);
         end > ret_export->folder + 1 && end[-1] == '/';)
        *--end = '\0';
    const char *slash = strrchr(ret_export->folder, '/'),
               *name = slash ? slash + 1 : ret_export->folder;
    if (n < 0 || n > 4000 || *name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return dt_status_fail(DT_EXIT_USAGE, "--export `%.200s` is no name of a folder", folder);
    if (is_mounted(ret_export->folder))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--export %.300s: a file system is mounted there; name a folder in "
                              "it",
                              folder);
    snprintf(ret_export->hold, sizeof ret_export->hold, "%.*s.%s.export",
             (int)(name - ret_export->folder), ret_export->folder, name);
    snprintf(ret_export->unfinished, sizeof ret_export->unfinished, "%.4050s/unfinished",
             ret_export->hold);
    return DT_OK;
}

static DtStatus hold_export(const DtRunOptions *options, DtOutputs *outputs)
{
    DtOutputsExport *export = &outputs->export;
    if (options->export == NULL)
        return DT_OK;
    DtStatus status = dt_outputs_export(options->export, export);
    if (!dt_status_ok(&status))
        return status;
    if (dt_outputs_folder(options) && same_file(dt_outputs_folder(options), export->folder))
        return dt_status_fail(DT_EXIT_USAGE, "--export %.300s: the run saves its checkpoints there",
                              options->export);
    status = dt_file_make_lock(export->hold, true, &outputs->fds[DT_OUTPUT_EXPORT]);
    outputs->made_export = dt_status_ok(&status);
    if (outputs->made_export) /* the run that had the lock before may have written it */
        return check_empty(options->export);
    return status.code == DT_EXIT_USAGE
               ? dt_status_fail(DT_EXIT_USAGE,
                                "another run exports to %.300s: wait for it, or name another",
                                options->export)
               : dt_status_fail(status.code, "--export %.450s", status.message);
}

DtStatus dt_outputs_hold(const DtRunOptions *options, DtOutputs *ret_outputs)
{
    for (int i = 0; i < DT_OUTPUTS; i++)
        ret_outputs->fds[i] = -1;
    ret_outputs->made_log = ret_outputs->made_export = false;
    DtStatus status = hold_log(options, ret_outputs);
    if (dt_status_ok(&status))
        status = hold_folder(options, ret_outputs);
    if (dt_status_ok(&status))
        status = hold_export(options, ret_outputs);
    if (!dt_status_ok(&status) && ret_outputs->made_log)
        unlink(options->log);
    if (!dt_status_ok(&status))
        dt_outputs_release(ret_outputs);
    return status;
}

DtStatus dt_outputs_overwrite(const DtRunOptions *options)
{
    const char *folder = dt_outputs_folder(options);
    if (folder == NULL || !options->overwrite || is_resumed(options, folder))
        return DT_OK;
    DtArena *memory = dt_arena_new();
    DtStatus status = dt_checkpointlist_remove_all(memory, folder);
    dt_arena_free(memory);
    return status;
}

void dt_outputs_release(DtOutputs *outputs)
{
    if (outputs->made_export) { /* while the lock is held */
        dt_file_remove_folder(outputs->export.unfinished);
        rmdir(outputs->export.hold);
    }
    outputs->made_export = false;
    for (int i = 0; i < DT_OUTPUTS; i++) {
        if (outputs->fds[i] >= 0)
            close(outputs->fds[i]);
        outputs->fds[i] = -1;
    }
}
