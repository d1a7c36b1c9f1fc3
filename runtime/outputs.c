/* SPDX-License-Identifier: Apache-2.0 */
/* A run owns its outputs from before the ranks start until the last of them has ended, over all
 * restarts: the folder of checkpoints and the log are locked, by descriptors that the ranks
 * inherit, and must not contain another run's data. If they do, an option says what happens to
 * it: --resume continues from it, --overwrite removes it. */
#include "runtime/outputs.h"

#include "runtime/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
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
    DtStatus status = dt_checkpointlist_read(memory, folder, &list);
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

static DtStatus hold_folder(const DtRunOptions *options, DtOutputs *outputs)
{
    const char *folder = dt_outputs_folder(options);
    if (folder == NULL)
        return DT_OK;
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

DtStatus dt_outputs_hold(const DtRunOptions *options, DtOutputs *ret_outputs)
{
    for (int i = 0; i < DT_OUTPUTS; i++)
        ret_outputs->fds[i] = -1;
    ret_outputs->made_log = false;
    DtStatus status = hold_log(options, ret_outputs);
    if (dt_status_ok(&status))
        status = hold_folder(options, ret_outputs);
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
    for (int i = 0; i < DT_OUTPUTS; i++) {
        if (outputs->fds[i] >= 0)
            close(outputs->fds[i]);
        outputs->fds[i] = -1;
    }
}
