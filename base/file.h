/* SPDX-License-Identifier: Apache-2.0 */
/* File input and output. All of the project's file access goes through here, so that tests can
 * inject faults (full disk, short read, failing fsync) in one place: set DT_FAULT=write:3 and the
 * third write of the process fails with ENOSPC; kinds are open, read, write, fsync, rename, mmap.
 * space:1: a disk seems to be full when it is asked the first time.
 * DT_FAULT=late:3 makes rank 3 late where dt_file_be_late is called. */
#ifndef DT_BASE_FILE_H
#define DT_BASE_FILE_H

#include "arena.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtFileView {
    const uint8_t *at; /* read-only; valid until dt_file_unmap */
    size_t len;
} DtFileView;

/* Reads a whole regular file of at most max bytes into the arena, with a NUL after it. */
DtStatus dt_file_read(DtArena *arena, const char *path, size_t max, char **ret_text,
                      size_t *ret_len);

/* Maps a regular file read-only. An empty file gives len 0 and at NULL. */
DtStatus dt_file_map(const char *path, DtFileView *ret_view);
void dt_file_unmap(DtFileView *view);

/* Writes path atomically: temporary file next to it, fsync, rename, fsync of the folder. A
 * device or a pipe is not replaced but written to. A missing folder is made. On failure the old
 * file is untouched and no temporary is left. (Only if syncing the folder, the last step, fails,
 * the new file is in place but might not survive a power failure.) */
DtStatus dt_file_write(const char *path, const void *bytes, size_t len);
/* The same for a file that must not exist (DT_EXIT_USAGE if it does); of two processes that write
 * one at once, one succeeds. */
DtStatus dt_file_write_new(const char *path, const void *bytes, size_t len);

/* Like dt_file_write, in pieces: open, append, then commit or abandon (unlinks the temporary). */
typedef struct DtFileWriter {
    int fd;
    char path[4096];
    char temporary[4096]; /* empty: path itself is written to */
} DtFileWriter;
DtStatus dt_file_writer_open(DtFileWriter *writer, const char *path);
DtStatus dt_file_writer_append(DtFileWriter *writer, const void *bytes, size_t len);
DtStatus dt_file_writer_commit(DtFileWriter *writer);
void dt_file_writer_abandon(DtFileWriter *writer);
/* Opens the path itself, so that what is appended is there at once and stays, whatever follows.
 * Makes a missing folder. Fails for a file that is not empty, unless `replaces`. */
DtStatus dt_file_writer_open_in_place(DtFileWriter *writer, const char *path, bool replaces);
/* Appends all bytes or, after a failure, none. */
DtStatus dt_file_writer_append_whole(DtFileWriter *writer, const void *bytes, size_t len);

/* A file of which several processes write parts, in a folder that is put in place when all have
 * synced it. open makes the file if there is none yet. close syncs it if the status is good; it
 * returns the status of all, and may be called after a failed open. */
typedef struct DtSharedFile {
    int fd;
    char path[4096];
} DtSharedFile;
DtStatus dt_file_shared_open(DtSharedFile *part, const char *path);
DtStatus dt_file_shared_write(DtSharedFile *part, int64_t at, const void *bytes, size_t len);
DtStatus dt_file_shared_close(DtSharedFile *part, DtStatus status);

/* The bytes that this user can still write on the disk of a file or folder. False: the system does
 * not say. */
bool dt_file_free(const char *path, int64_t *ret_bytes);
/* The same for a folder that may not be there yet: the disk of the nearest folder above it. */
bool dt_file_free_above(const char *folder, int64_t *ret_bytes);

/* Locks a file or folder that exists until ret_fd is closed or the process ends; a failure
 * (DT_EXIT_USAGE) if another process holds it for more than two seconds. ret_fd is -1, and
 * nothing is locked, for devices and pipes and where the file system has no locks. */
DtStatus dt_file_lock(const char *path, int *ret_fd);
/* Makes the file or folder if there is none, and locks it in the same way. It may be removed by
 * whoever holds the lock: then the lock of what was removed does not count, and another is made. */
DtStatus dt_file_make_lock(const char *path, bool is_folder, int *ret_fd);

/* Whether a file (or a folder) of that name could be written, with its parent folders, judging by
 * names and permissions; nothing is created. */
DtStatus dt_file_may_make(const char *path, bool folder);

/* A folder that only we can write: made (0700) if it does not exist, refused if it is a link,
 * belongs to another user, or lets others write. Files in it, by name: read only if they are our
 * own files, no links, and others cannot write them; written for us alone (0600), atomically,
 * not synced (for caches, whose content carries a digest). */
DtStatus dt_file_own_folder(const char *path, int *ret_folder);
DtStatus dt_file_own_read(DtArena *arena, int folder, const char *name, size_t max, char **ret_text,
                          size_t *ret_len);
DtStatus dt_file_own_write(int folder, const char *name, const void *bytes, size_t len);

/* mkdir -p; syncs the parents of new folders. */
DtStatus dt_file_make_folder(const char *path);
/* Like dt_file_make_folder, for the folder of the file. */
DtStatus dt_file_make_folder_of(const char *path);

/* Puts folder `from` in the place of `to`, which may be a folder that is not empty and is then
 * called `from`; syncs the folder above. If `to` existed, it exists at every moment (on file
 * systems that can exchange names; otherwise it is missing between two renames). */
DtStatus dt_file_move_folder(const char *from, const char *to);

/* Gives a folder another name, which no folder has but an empty one; syncs the folder above. */
DtStatus dt_file_name_folder(const char *from, const char *to);

/* Removes the files in a folder and the folder; not deeper. A folder that does not exist is removed
 * already. */
DtStatus dt_file_remove_folder(const char *path);

/* Returns path if it is absolute, else folder-of(base) + "/" + path. */
char *dt_file_beside(DtArena *arena, const char *base, const char *path);

/* Sleeps a second if the tests want this rank to be late. */
void dt_file_be_late(uint32_t rank);

#endif
