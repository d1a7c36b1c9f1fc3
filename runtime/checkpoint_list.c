/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run: step-00001000/, step-00002000/, ... and `latest`, the name of the newest for
 * people and scripts. A checkpoint appears by one rename, and disappears by one, so a folder step-N
 * without a manifest is damaged. The newest checkpoint is the one with the largest serial number,
 * not that with the most steps: a run that went back to an earlier checkpoint may save under
 * smaller step numbers than those of older checkpoints. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

DtStatus dt_checkpointlist_paths(const char *folder, int64_t steps, uint32_t attempt,
                                 char ret_path[4096], char ret_temporary[4096])
{
    if (strlen(folder) > 3000)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", folder);
    snprintf(ret_path, 4096, "%s/step-%08lld", folder, (long long)steps);
    snprintf(ret_temporary, 4096, "%s/.step-%08lld.%u.tmp", folder, (long long)steps, attempt);
    return DT_OK;
}

/* Compares the sizes of the files with the manifest. This is cheap, and finds files that were cut
 * short. */
static DtStatus check_sizes(DtArena *arena, const char *path, bool weights_only,
                            const DtManifest *manifest)
{
    for (uint32_t f = 0; f < manifest->n_files; f++) {
        struct stat stat_of;
        const DtManifestFile *said = &manifest->files[f];
        const char *file = dt_arena_printf(arena, "%s/%s", path, said->name);
        const bool is_model = said->kind == DT_SAVED_MODEL;
        if (weights_only && !is_model)
            continue;
        if (stat(file, &stat_of) != 0)
            return dt_status_fail(DT_EXIT_IO, "%.300s: %s%s", file, strerror(errno),
                                  is_model ? "" : "; --weights begins anew with the parameters");
        if (stat_of.st_size != said->bytes)
            return dt_status_fail(
                DT_EXIT_IO, "%.300s is damaged: it has %lld bytes instead of %lld", file,
                (long long)stat_of.st_size, (long long)said->bytes);
    }
    return DT_OK;
}

static DtStatus look_once(DtArena *arena, const char *path, bool weights_only,
                          DtManifest *ret_manifest)
{
    DtStatus status =
        dt_manifest_read(arena, dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), ret_manifest);
    return dt_status_ok(&status) ? check_sizes(arena, path, weights_only, ret_manifest) : status;
}

/* Reads the manifest at path and checks the sizes of its files. False: the checkpoint is gone.
 * Another run that saves to the folder may remove or replace it during the check, so a checkpoint
 * that seems to be damaged is read again. */
static bool look_at(DtArena *arena, const char *path, bool weights_only,
                    DtCheckpointEntry *ret_entry)
{
    enum { LOOKS = 3 };
    DtManifest manifest;
    DtCheckpointEntry entry = {.path = path};
    for (int i = 0; i < LOOKS && !entry.good; i++) {
        entry.why = look_once(arena, path, weights_only, &manifest);
        entry.good = dt_status_ok(&entry.why);
        if (!entry.good && access(path, F_OK) != 0 && errno == ENOENT)
            return false;
    }
    entry.steps = manifest.steps;
    entry.serial = manifest.serial;
    *ret_entry = entry;
    return true;
}

static bool has_manifest(DtArena *arena, const char *path)
{
    return access(dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), F_OK) == 0;
}

/* Returns N of "step-N", or -1 for another name. */
static int64_t steps_of(const char *name)
{
    size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return digits > 0 && digits < 19 && name[5 + digits] == '\0' ? strtoll(name + 5, NULL, 10) : -1;
}

DtStatus dt_checkpointlist_read(DtArena *arena, const char *folder, bool weights_only,
                                DtCheckpointList *ret_list)
{
    DT_VEC(DtCheckpointEntry) entries = {0};
    DtCheckpointEntry entry;
    *ret_list = (DtCheckpointList){0};
    if (has_manifest(arena, folder)) {
        if (look_at(arena, dt_arena_strndup(arena, folder, strlen(folder)), weights_only, &entry))
            DT_PUSH(arena, entries, entry);
        *ret_list = (DtCheckpointList){entries.at, entries.n};
        return DT_OK;
    }
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return dt_status_fail(DT_EXIT_IO, "cannot open the folder %.300s: %s", folder,
                              strerror(errno));
    for (struct dirent *found; (found = readdir(listing)) != NULL;) {
        int64_t steps = steps_of(found->d_name);
        const char *path = dt_arena_printf(arena, "%s/%s", folder, found->d_name);
        if (steps < 0 || !look_at(arena, path, weights_only, &entry))
            continue;
        if (!entry.good)
            entry.steps = steps;
        DT_PUSH(arena, entries, entry);
    }
    closedir(listing);
    *ret_list = (DtCheckpointList){entries.at, entries.n};
    return DT_OK;
}

DtCheckpointEntry *dt_checkpointlist_newest(const DtCheckpointList *list)
{
    DtCheckpointEntry *newest = NULL;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].good && (newest == NULL || list->at[i].serial > newest->serial))
            newest = &list->at[i];
    return newest;
}

DtStatus dt_checkpointlist_clean(DtArena *arena, const char *folder)
{
    DtStatus status = DT_OK;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return dt_status_fail(DT_EXIT_IO, "cannot open the folder %.300s: %s", folder,
                              strerror(errno));
    for (struct dirent *found; dt_status_ok(&status) && (found = readdir(listing)) != NULL;) {
        if (strncmp(found->d_name, ".step-", 6) == 0)
            status = dt_file_remove_folder(dt_arena_printf(arena, "%s/%s", folder, found->d_name));
    }
    closedir(listing);
    return status;
}

/* Removes a checkpoint. A folder step-N is either whole or does not exist, at every moment, so it
 * is renamed before it is removed. */
static DtStatus remove_entry(const char *folder, const DtCheckpointEntry *entry)
{
    char aside[4096];
    if ((size_t)snprintf(aside, sizeof aside, "%s/.step-%08lld.old", folder,
                         (long long)entry->steps) >= sizeof aside)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", folder);
    const DtStatus status = dt_file_move_folder(entry->path, aside);
    return dt_status_ok(&status) ? dt_file_remove_folder(aside) : status;
}

DtStatus dt_checkpointlist_remove_all(DtArena *arena, const char *folder)
{
    DtCheckpointList list;
    DtStatus status = dt_checkpointlist_read(arena, folder, false, &list);
    for (uint32_t i = 0; i < list.n && dt_status_ok(&status); i++)
        status = remove_entry(folder, &list.at[i]);
    if (dt_status_ok(&status)) /* the name in it may become that of another checkpoint */
        unlink(dt_arena_printf(arena, "%s/best", folder));
    return dt_status_ok(&status) ? dt_checkpointlist_clean(arena, folder) : status;
}

/* The steps of the checkpoint that the file `best` names; -1: there is no such file. */
static int64_t named_best(DtArena *arena, const char *folder)
{
    char *name;
    size_t len;
    DtStatus status =
        dt_file_read(arena, dt_arena_printf(arena, "%s/best", folder), 64, &name, &len);
    if (!dt_status_ok(&status))
        return -1;
    name[strcspn(name, "\n")] = '\0';
    return steps_of(name);
}

DtStatus dt_checkpointlist_trim(DtArena *arena, const char *folder, int64_t keep, int64_t best)
{
    DtCheckpointList list;
    const int64_t named = best >= 0 ? named_best(arena, folder) : -1;
    DtStatus status = keep > 0 ? dt_checkpointlist_read(arena, folder, false, &list) : DT_OK;
    if (keep <= 0 || !dt_status_ok(&status))
        return status;
    DtCheckpointEntry *newest;
    for (int64_t kept = 0;
         dt_status_ok(&status) && (newest = dt_checkpointlist_newest(&list)) != NULL; kept++) {
        newest->good = false; /* the next iteration finds the previous checkpoint */
        if (kept >= keep && newest->steps != best && newest->steps != named)
            status = remove_entry(folder, newest);
    }
    return status;
}

bool dt_checkpoint_is_name(const char *path)
{
    char name[64];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    return (size_t)snprintf(name, sizeof name, "%.*s", (int)(len - from), path + from) <
               sizeof name &&
           steps_of(name) >= 0;
}

bool dt_checkpoint_above(const char *path, char ret_folder[4096])
{
    char manifest[4096];
    size_t len = strlen(path);
    if (len > 3000)
        return false;
    snprintf(manifest, sizeof manifest, "%s/" DT_MANIFEST_NAME, path);
    if (access(manifest, F_OK) != 0)
        return false;
    while (len > 1 && path[len - 1] == '/')
        len--;
    snprintf(ret_folder, 4096, "%.*s", (int)len, path);
    char *slash = strrchr(ret_folder, '/'), *name = slash ? slash + 1 : ret_folder;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        strcat(ret_folder, "/..");
    else if (slash == NULL)
        strcpy(ret_folder, ".");
    else
        slash[slash == ret_folder] = '\0';
    return true;
}
