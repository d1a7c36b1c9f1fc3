/* SPDX-License-Identifier: Apache-2.0 */
/* The first host makes a folder of a random name in the folder of checkpoints. The first rank of
 * each other host tries to make the same one, which must be there already, and then one of its own.
 * Making a folder asks the server of a file system; looking for one may be answered from a cache
 * that does not know it yet. The names are those of unfinished saves, which the next save
 * removes. */
#include "runtime/same_folder.h"

#include "base/digest.h"
#include "runtime/checkpoint.h"
#include "runtime/cluster.h"
#include "runtime/key.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Probe {
    const char *folder;
    char first[4096], own[4096 + 16]; /* of the first host, and of this one */
} Probe;

/* The key of the attempt's ranks gives the name. */
static DtStatus name_probe(const DtRank *rank, const char *folder, Probe *ret_probe)
{
    uint8_t digest[DT_DIGEST_BYTES];
    char text[DT_DIGEST_TEXT];
    dt_key_derive(rank->shared->meet_key, "folder", rank->shared->attempt, digest);
    dt_digest_text(digest, text);
    if (strlen(folder) > 3000)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", folder);
    ret_probe->folder = folder;
    snprintf(ret_probe->first, sizeof ret_probe->first, "%s/.step-%.16s", folder, text);
    snprintf(ret_probe->own, sizeof ret_probe->own, "%s.%u", ret_probe->first, rank->rank);
    return DT_OK;
}

static DtStatus begin(const Probe *probe)
{
    DtStatus status = dt_file_make_folder(probe->folder);
    if (dt_status_ok(&status) && mkdir(probe->first, 0777) != 0)
        status = dt_status_fail(DT_EXIT_IO, "cannot create %.300s: %s", probe->first,
                                strerror(errno));
    return status;
}

/* Whether the folder is there. One that was not is not left behind. */
static bool is_there(const char *folder)
{
    if (mkdir(folder, 0777) == 0) {
        rmdir(folder);
        errno = ENOENT;
        return false;
    }
    return errno == EEXIST;
}

static DtStatus look(const Probe *probe)
{
    if (!is_there(probe->folder) || !is_there(probe->first))
        return dt_status_fail(DT_EXIT_IO, "%.200s is not the folder of node 0", probe->folder);
    if (mkdir(probe->own, 0777) != 0)
        return dt_status_fail(DT_EXIT_IO, "cannot write to %.200s: %s", probe->folder,
                              strerror(errno));
    rmdir(probe->own);
    return DT_OK;
}

static void say(const DtStatus *why)
{
    DtText line = {0};
    dt_text_printf(&line,
                   "dtrun: note: %s, so node 0 writes all of each checkpoint. To go on from one, "
                   "every host must see it: name a folder that all hosts share, or copy it",
                   why->message);
    dt_text_say(stderr, line.at);
    dt_text_free(&line);
}

bool dt_samefolder_look(DtRank *rank, const char *folder, bool *ret_is_shared)
{
    Probe probe;
    DtStatus status = name_probe(rank, folder, &probe);
    const bool is_first = rank->rank == 0;
    if (dt_status_ok(&status) && is_first)
        status = begin(&probe);
    if (!rank->comm_ops->barrier(rank->comm, &rank->world))
        return false;
    if (dt_status_ok(&status) && !is_first && rank->local.me == 0)
        status = look(&probe);
    status = dt_checkpointshares_agree(rank, status);
    if (is_first)
        rmdir(probe.first);
    if (!dt_status_ok(&status) && status.code != DT_EXIT_IO)
        return false; /* the run is being ended */
    *ret_is_shared = dt_status_ok(&status);
    if (is_first && !*ret_is_shared)
        say(&status);
    return true;
}
