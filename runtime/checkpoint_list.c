/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run: step-00001000/, step-00002000/, ... and `latest`, the name of the newest for
 * people and scripts. A checkpoint comes into being by one rename, so a folder step-N without a
 * manifest is one whose removal was interrupted. Which one is the newest is told by serial numbers
 * and not by steps: a run that went back to an earlier checkpoint saves under smaller numbers than
 * what lies there already. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

DtStatus dt_checkpointlist_paths(const char *folder, int64_t steps, char ret_path[4096],
                                 char ret_temporary[4096])
{
    if (strlen(folder) > 3000)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", folder);
    snprintf(ret_path, 4096, "%s/step-%08lld", folder, (long long)steps);
    snprintf(ret_temporary, 4096, "%s/.step-%08lld.tmp", folder, (long long)steps);
    return DT_OK;
}

/* Sizes of the files against the manifest: cheap, and finds what was cut short. */
static DtStatus check_sizes(DtArena *arena, const char *path, const DtManifest *manifest)
{
    for (int f = 0; f < DT_SAVED_FILES; f++) {
        struct stat stat_of;
        const char *file = dt_arena_printf(arena, "%s/%s", path, dt_manifest_files[f]);
        if (stat(file, &stat_of) != 0)
            return dt_status_fail(DT_EXIT_IO, "%.300s: %s", file, strerror(errno));
        if (stat_of.st_size != manifest->files[f].id.bytes)
            return dt_status_fail(
                DT_EXIT_IO, "%.300s is damaged: it has %lld bytes instead of %lld", file,
                (long long)stat_of.st_size, (long long)manifest->files[f].id.bytes);
    }
    return DT_OK;
}

static DtCheckpointEntry look_at(DtArena *arena, const char *path)
{
    DtManifest manifest;
    DtCheckpointEntry entry = {.path = path};
    entry.why =
        dt_manifest_read(arena, dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), &manifest);
    if (dt_status_ok(&entry.why))
        entry.why = check_sizes(arena, path, &manifest);
    entry.good = dt_status_ok(&entry.why);
    entry.steps = manifest.steps;
    entry.serial = manifest.serial;
    return entry;
}

static bool has_manifest(DtArena *arena, const char *path)
{
    return access(dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), F_OK) == 0;
}

/* N of "step-N", or -1. */
static int64_t steps_of(const char *name)
{
    size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return digits > 0 && digits < 19 && name[5 + digits] == '\0' ? strtoll(name + 5, NULL, 10) : -1;
}

DtStatus dt_checkpointlist_read(DtArena *arena, const char *folder, DtCheckpointList *ret_list)
{
    DT_VEC(DtCheckpointEntry) entries = {0};
    *ret_list = (DtCheckpointList){0};
    if (has_manifest(arena, folder)) {
        DT_PUSH(arena, entries, look_at(arena, dt_arena_strndup(arena, folder, strlen(folder))));
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
        if (steps < 0 || !has_manifest(arena, path))
            continue;
        DtCheckpointEntry entry = look_at(arena, path);
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
            status = dt_file_remove_folder(dt_arena_printf(arena, "%s/%s", folder, found->d_name),
                                           DT_MANIFEST_NAME);
    }
    closedir(listing);
    return status;
}

DtStatus dt_checkpointlist_trim(DtArena *arena, const char *folder, int64_t keep)
{
    DtCheckpointList list;
    DtStatus status = keep > 0 ? dt_checkpointlist_read(arena, folder, &list) : DT_OK;
    if (keep <= 0 || !dt_status_ok(&status))
        return status;
    DtCheckpointEntry *newest;
    for (int64_t kept = 0;
         dt_status_ok(&status) && (newest = dt_checkpointlist_newest(&list)) != NULL; kept++) {
        newest->good = false; /* the next round finds the one before it */
        if (kept >= keep)
            status = dt_file_remove_folder(newest->path, DT_MANIFEST_NAME);
    }
    return status;
}
