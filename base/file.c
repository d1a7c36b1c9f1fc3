/* SPDX-License-Identifier: Apache-2.0 */
/* File access with one place for injected faults (DT_FAULT=kind:n, see file.h). */
#include "base/file.h"

#include "base/page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct {
    char kind[16];
    _Atomic long left; /* threads that write share it */
} plan; /* the fault that the environment asks for */

static void read_plan(void)
{
    const char *text = getenv("DT_FAULT");
    long left = 0;
    if (text && sscanf(text, "%15[a-z]:%ld", plan.kind, &left) != 2)
        plan.kind[0] = 0;
    plan.left = left;
}

/* Whether the environment asks for a fault of this kind. The first thread that comes here reads
 * what it asks for, and others wait until it has. */
static bool planned(const char *kind)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_plan);
    return strcmp(plan.kind, kind) == 0;
}

/* Whether this call of the kind is the one that the environment (DT_FAULT) asks to fail; then sets
 * errno. */
static bool fault(const char *kind, int error)
{
    if (!planned(kind) || --plan.left != 0)
        return false;
    errno = error;
    return true;
}

void dt_file_be_late(uint32_t rank)
{
    if (planned("late") && plan.left == (long)rank)
        usleep(1000000);
}

static DtStatus failed(const char *what, const char *path)
{
    const char *hint = errno == ENOSPC                     ? "; free some space on that disk"
                       : errno == EFBIG                    ? "; `ulimit -f` allows no larger files"
                       : errno == EACCES || errno == EPERM ? "; check the permissions"
                                                           : "";
    return dt_status_fail(DT_EXIT_IO, "cannot %s %s: %s%s", what, path, strerror(errno), hint);
}

static int open_regular(const char *path, struct stat *ret_stat, DtStatus *ret_status)
{
    int fd = fault("open", EACCES) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        *ret_status = failed("open", path);
        return -1;
    }
    if (fstat(fd, ret_stat) != 0 || !S_ISREG(ret_stat->st_mode)) {
        *ret_status = dt_status_fail(DT_EXIT_IO, "cannot read %s: not a regular file", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* Reads at most len bytes of an open file into *ret_text, with a zero after them. */
static DtStatus read_all(DtArena *arena, int fd, const char *path, size_t len, char **ret_text,
                         size_t *ret_len)
{
    char *text = dt_arena_alloc(arena, len + 1);
    size_t got = 0;
    while (got < len) {
        ssize_t n = fault("read", EIO) ? -1 : read(fd, text + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed("read", path);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    text[got] = 0;
    *ret_text = text;
    *ret_len = got;
    return DT_OK;
}

DtStatus dt_file_read(DtArena *arena, const char *path, size_t max, char **ret_text,
                      size_t *ret_len)
{
    struct stat stat;
    DtStatus status = DT_OK;
    int fd = open_regular(path, &stat, &status);
    if (fd < 0)
        return status;
    if ((uint64_t)stat.st_size > max) {
        close(fd);
        return dt_status_fail(DT_EXIT_IO, "%s has %lld bytes; at most %zu can be read", path,
                              (long long)stat.st_size, max);
    }
    status = read_all(arena, fd, path, (size_t)stat.st_size, ret_text, ret_len);
    close(fd);
    return status;
}

DtStatus dt_file_map(const char *path, DtFileView *ret_view)
{
    struct stat stat;
    DtStatus status = DT_OK;
    int fd = open_regular(path, &stat, &status);
    if (fd < 0)
        return status;
    *ret_view = (DtFileView){NULL, (size_t)stat.st_size};
    if (stat.st_size > 0) {
        void *at = fault("mmap", ENOMEM)
                       ? MAP_FAILED
                       : mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
            status = failed("map", path);
            ret_view->len = 0;
        } else {
            ret_view->at = at;
        }
    }
    close(fd);
    return status;
}

void dt_file_unmap(DtFileView *view)
{
    if (view->at)
        munmap((void *)(uintptr_t)view->at, view->len);
    *view = (DtFileView){0};
}

static DtStatus sync_folder_of(const char *path)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    const char *folder = dirname(copy);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed("open", folder);
    DtStatus status = DT_OK;
    if ((fault("fsync", EIO) || fsync(fd) != 0) && errno != EINVAL)
        status = failed("sync", folder);
    close(fd);
    return status;
}

/* Whether the path is neither a file nor a folder, but a device or a pipe. */
static bool is_device(const char *path)
{
    struct stat stat_of;
    return stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode) && !S_ISDIR(stat_of.st_mode);
}

DtStatus dt_file_writer_open(DtFileWriter *writer, const char *path)
{
    writer->fd = -1;
    if ((size_t)snprintf(writer->path, sizeof writer->path, "%s", path) >= sizeof writer->path ||
        (size_t)snprintf(writer->temporary, sizeof writer->temporary, "%s.XXXXXX", path) >=
            sizeof writer->temporary)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    if (is_device(path)) {
        writer->temporary[0] = 0;
        writer->fd = open(path, O_WRONLY | O_CLOEXEC);
        return writer->fd < 0 ? failed("open", path) : DT_OK;
    }
    writer->fd = fault("open", EACCES) ? -1 : mkostemp(writer->temporary, O_CLOEXEC);
    if (writer->fd < 0 && errno == ENOENT) {
        DtStatus status = dt_file_make_folder_of(path);
        if (!dt_status_ok(&status))
            return status;
        snprintf(writer->temporary, sizeof writer->temporary, "%s.XXXXXX", path);
        writer->fd = mkostemp(writer->temporary, O_CLOEXEC);
    }
    if (writer->fd < 0)
        return failed("create a file beside", path);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(writer->fd, 0666 & ~mask);
    return DT_OK;
}

static DtStatus write_all(int fd, const char *path, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = fault("write", ENOSPC) ? -1 : write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed("write", path);
        at += n;
        len -= (size_t)n;
    }
    return DT_OK;
}

DtStatus dt_file_writer_append(DtFileWriter *writer, const void *bytes, size_t len)
{
    return write_all(writer->fd, writer->path, bytes, len);
}

DtStatus dt_file_writer_open_in_place(DtFileWriter *writer, const char *path, bool replaces)
{
    struct stat stat_of;
    writer->fd = -1;
    writer->temporary[0] = 0;
    if ((size_t)snprintf(writer->path, sizeof writer->path, "%s", path) >= sizeof writer->path)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    int fd = fault("open", EACCES) ? -1 : open(path, flags, 0666);
    if (fd < 0 && errno == ENOENT) {
        DtStatus status = dt_file_make_folder_of(path);
        if (!dt_status_ok(&status))
            return status;
        fd = open(path, flags, 0666);
    }
    if (fd < 0)
        return failed("create", path);
    const bool is_file = fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode);
    DtStatus status = DT_OK;
    if (is_file && stat_of.st_size > 0 && !replaces)
        status = dt_status_fail(DT_EXIT_USAGE,
                                "%.300s is there and not empty: --overwrite empties it, or name "
                                "another file",
                                path);
    else if (is_file && ftruncate(fd, 0) != 0)
        status = failed("empty", path);
    if (dt_status_ok(&status))
        writer->fd = fd;
    else
        close(fd);
    return status;
}

DtStatus dt_file_writer_append_whole(DtFileWriter *writer, const void *bytes, size_t len)
{
    const off_t before = lseek(writer->fd, 0, SEEK_CUR);
    DtStatus status = dt_file_writer_append(writer, bytes, len);
    /* what cannot be taken back was written to a pipe or a device */
    if (!dt_status_ok(&status) && before >= 0 && ftruncate(writer->fd, before) == 0)
        lseek(writer->fd, before, SEEK_SET);
    return status;
}

/* Gives the file its name: in place of another file, or only if there is none (EEXIST). File
 * systems that cannot rename so can usually link. */
static bool put_in_place(const DtFileWriter *writer, bool replaces)
{
    if (fault("rename", EIO))
        return false;
    if (replaces)
        return rename(writer->temporary, writer->path) == 0;
    if (renameat2(AT_FDCWD, writer->temporary, AT_FDCWD, writer->path, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    return link(writer->temporary, writer->path) == 0 && unlink(writer->temporary) == 0;
}

static DtStatus commit(DtFileWriter *writer, bool replaces)
{
    DtStatus status = DT_OK;
    const bool in_place = writer->temporary[0] == 0;
    if (!in_place && (fault("fsync", EIO) || fsync(writer->fd) != 0))
        status = failed("sync", writer->path);
    if (close(writer->fd) != 0 && dt_status_ok(&status))
        status = failed("close", writer->path);
    writer->fd = -1;
    if (in_place)
        return status;
    if (dt_status_ok(&status) && !put_in_place(writer, replaces))
        status = !replaces && errno == EEXIST
                     ? dt_status_fail(DT_EXIT_USAGE,
                                      "%.300s exists and is not overwritten: remove it, or name "
                                      "another file",
                                      writer->path)
                     : failed("put in place", writer->path);
    if (!dt_status_ok(&status)) {
        unlink(writer->temporary);
        return status;
    }
    return sync_folder_of(writer->path);
}

void dt_file_writer_abandon(DtFileWriter *writer)
{
    if (writer->fd < 0)
        return;
    close(writer->fd);
    writer->fd = -1;
    if (writer->temporary[0])
        unlink(writer->temporary);
}

DtStatus dt_file_writer_commit(DtFileWriter *writer) { return commit(writer, true); }

static DtStatus write_file(const char *path, const void *bytes, size_t len, bool replaces)
{
    DtFileWriter writer;
    DtStatus status = dt_file_writer_open(&writer, path);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&writer, bytes, len);
    if (dt_status_ok(&status))
        return commit(&writer, replaces);
    dt_file_writer_abandon(&writer);
    return status;
}

DtStatus dt_file_write(const char *path, const void *bytes, size_t len)
{
    return write_file(path, bytes, len, true);
}

DtStatus dt_file_write_new(const char *path, const void *bytes, size_t len)
{
    return write_file(path, bytes, len, false);
}

/* ---- parts ---- */

DtStatus dt_file_shared_open(DtSharedFile *part, const char *path)
{
    part->fd = -1;
    if ((size_t)snprintf(part->path, sizeof part->path, "%s", path) >= sizeof part->path)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    part->fd = fault("open", EACCES) ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return part->fd < 0 ? failed("create", path) : DT_OK;
}

/* Lets the disk begin to write these bytes. Otherwise most systems would keep them until the file
 * is synced, and the disk would have nothing to do until then. Only a hint: it may fail. */
static void begin_to_sync(int fd, int64_t at, size_t len)
{
    sync_file_range(fd, (off_t)at, (off_t)len, SYNC_FILE_RANGE_WRITE);
}

/* Chooses whether writes go past the system's cache (O_DIRECT). That saves a copy on the processor,
 * and large requests reach the disk as they are. Returns whether they do. */
static bool be_direct(int fd, bool wanted)
{
    const int flags = fcntl(fd, F_GETFL);
    const bool is_direct = flags >= 0 && (flags & O_DIRECT) != 0;
    return is_direct == wanted ||
                   fcntl(fd, F_SETFL, wanted ? flags | O_DIRECT : flags & ~O_DIRECT) != 0
               ? is_direct
               : wanted;
}

static bool is_aligned(int64_t at, const void *bytes, size_t len)
{
    const uint64_t page = dt_page_bytes();
    return ((uint64_t)at | (uint64_t)(uintptr_t)bytes | (uint64_t)len) % page == 0;
}

DtStatus dt_file_shared_write(DtSharedFile *part, int64_t at, const void *bytes, size_t len)
{
    const char *from = bytes;
    const int64_t first = at;
    bool may = true, is_direct = false;
    while (len > 0) {
        is_direct = be_direct(part->fd, may && is_aligned(at, from, len));
        const ssize_t n = fault("write", ENOSPC) ? -1 : pwrite(part->fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && is_direct && may) {
            may = false; /* the file system wants larger blocks, or has no such writes */
            continue;
        }
        if (n < 0)
            return failed("write", part->path);
        from += n;
        at += n;
        len -= (size_t)n;
    }
    if (!is_direct)
        begin_to_sync(part->fd, first, (size_t)(at - first));
    return DT_OK;
}

DtStatus dt_file_shared_close(DtSharedFile *part, DtStatus status)
{
    if (part->fd < 0)
        return status;
    if (dt_status_ok(&status) && (fault("fsync", EIO) || fsync(part->fd) != 0))
        status = failed("sync", part->path);
    if (close(part->fd) != 0 && dt_status_ok(&status))
        status = failed("close", part->path);
    part->fd = -1;
    return status;
}

bool dt_file_free(const char *path, int64_t *ret_bytes)
{
    struct statvfs about;
    *ret_bytes = errno = 0;
    if (fault("space", ENOSPC))
        return true;
    if (statvfs(path, &about) != 0 || about.f_blocks == 0 ||
        __builtin_mul_overflow(about.f_bavail, about.f_frsize, ret_bytes))
        return false;
    return true;
}

bool dt_file_free_above(const char *folder, int64_t *ret_bytes)
{
    char above[4096];
    if ((size_t)snprintf(above, sizeof above, "%s", folder) >= sizeof above)
        return false;
    while (!dt_file_free(above, ret_bytes)) {
        char *slash = strrchr(above, '/');
        if (errno != ENOENT || strcmp(above, ".") == 0 || slash == above)
            return false;
        if (slash)
            *slash = '\0';
        else
            strcpy(above, ".");
    }
    return true;
}

/* Locks an open file, which is closed where that fails or there are no locks. */
static DtStatus lock_open(int fd, const char *path, int *ret_fd)
{
    int tries = 40; /* two seconds: the system may release the lock of a killed process a moment
                     * late */
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK && tries-- > 0) {
            usleep(50000);
            continue;
        }
        const bool held = errno == EWOULDBLOCK;
        close(fd);
        return held ? dt_status_fail(DT_EXIT_USAGE,
                                     "another run writes to %.300s: wait for it, or name another",
                                     path)
                    : DT_OK;
    }
    *ret_fd = fd;
    return DT_OK;
}

DtStatus dt_file_lock(const char *path, int *ret_fd)
{
    *ret_fd = -1;
    if (is_device(path))
        return DT_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? failed("open", path) : lock_open(fd, path, ret_fd);
}

/* Whether the path names the open file or folder. */
static bool is_named(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

DtStatus dt_file_make_lock(const char *path, bool is_folder, int *ret_fd)
{
    const int flags = O_RDONLY | O_CLOEXEC | (is_folder ? O_DIRECTORY : O_CREAT | O_NOFOLLOW);
    *ret_fd = -1;
    for (int tries = 0; tries < 10; tries++) {
        DtStatus status = is_folder ? dt_file_make_folder(path) : DT_OK;
        if (!dt_status_ok(&status))
            return status;
        const int fd = open(path, flags, 0600);
        if (fd < 0 && errno == ENOENT && is_folder)
            continue; /* removed since it was made */
        if (fd < 0)
            return failed("open", path);
        status = lock_open(fd, path, ret_fd);
        if (!dt_status_ok(&status) || *ret_fd < 0 || is_named(*ret_fd, path))
            return status;
        close(*ret_fd);
        *ret_fd = -1;
    }
    return dt_status_fail(DT_EXIT_RETRY, "other runs make and remove %.300s all the time", path);
}

/* Checks that an existing path can be written to: a folder (if one is required), or a file. */
static DtStatus may_write(const char *path, const struct stat *stat_of, bool folder)
{
    if (folder && !S_ISDIR(stat_of->st_mode))
        return dt_status_fail(DT_EXIT_IO,
                              "%.300s: something else has that name, a folder is wanted", path);
    if (!folder && S_ISDIR(stat_of->st_mode))
        return dt_status_fail(DT_EXIT_IO, "%.300s is a folder; name a file", path);
    return access(path, folder ? W_OK | X_OK : W_OK) == 0 ? DT_OK : failed("write to", path);
}

DtStatus dt_file_may_make(const char *path, bool folder)
{
    char above[4096];
    struct stat stat_of;
    if ((size_t)snprintf(above, sizeof above, "%s", path) >= sizeof above)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    if (!above[0])
        return dt_status_fail(DT_EXIT_IO, "wants a name");
    if (stat(above, &stat_of) == 0)
        return may_write(above, &stat_of, folder);
    do { /* finds the nearest folder above that exists; missing ones would be made */
        size_t len = strlen(above);
        while (len > 1 && above[len - 1] == '/')
            above[--len] = '\0';
        char *slash = strrchr(above, '/');
        if (slash == NULL)
            strcpy(above, ".");
        else
            slash[slash == above] = '\0';
        if (stat(above, &stat_of) == 0)
            return may_write(above, &stat_of, true);
    } while (errno == ENOENT);
    return failed("write to", path);
}

/* Makes a folder. It lasts once the folder above it is synced, which this does. */
static DtStatus make_one_folder(const char *path)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST ? DT_OK : failed("make the folder", path);
    DtStatus status = sync_folder_of(path);
    if (!dt_status_ok(&status))
        rmdir(path); /* so that the next attempt makes the folder and syncs its parent */
    return status;
}

DtStatus dt_file_make_folder(const char *path)
{
    char copy[4096];
    DtStatus status = DT_OK;
    if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    if (!copy[0])
        return dt_status_fail(DT_EXIT_IO, "cannot make a folder without a name");
    for (char *at = copy + 1; *at && dt_status_ok(&status); at++)
        if (*at == '/') {
            *at = 0;
            status = make_one_folder(copy);
            *at = '/';
        }
    if (dt_status_ok(&status))
        status = make_one_folder(copy);
    struct stat stat_of;
    if (dt_status_ok(&status) && (stat(copy, &stat_of) != 0 || !S_ISDIR(stat_of.st_mode)))
        status = dt_status_fail(DT_EXIT_IO,
                                "cannot make the folder %s: something else has that name", copy);
    return status;
}

/* ---- folders that no other user can write to ---- */

static DtStatus not_alone(const char *path, const struct stat *stat_of)
{
    if (stat_of->st_uid != geteuid())
        return dt_status_fail(DT_EXIT_IO,
                              "%s belongs to another user (number %u, this is number %u)", path,
                              (unsigned)stat_of->st_uid, (unsigned)geteuid());
    if (stat_of->st_mode & 0022)
        return dt_status_fail(
            DT_EXIT_IO, "others may write to %s; look at what is in it, then remove it", path);
    return DT_OK;
}

DtStatus dt_file_own_folder(const char *path, int *ret_folder)
{
    struct stat stat_of;
    char above[4096];
    *ret_folder = -1;
    if ((size_t)snprintf(above, sizeof above, "%s", path) >= sizeof above)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    DtStatus status = dt_file_make_folder(dirname(above));
    if (!dt_status_ok(&status))
        return status;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return failed("make the folder", path);
    int folder =
        fault("open", EACCES) ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return errno == ELOOP || errno == ENOTDIR
                   ? dt_status_fail(DT_EXIT_IO, "%s is a link, or no folder", path)
                   : failed("open", path);
    status = fstat(folder, &stat_of) != 0 ? failed("look at", path) : not_alone(path, &stat_of);
    if (dt_status_ok(&status))
        *ret_folder = folder;
    else
        close(folder);
    return status;
}

DtStatus dt_file_own_read(DtArena *arena, int folder, const char *name, size_t max, char **ret_text,
                          size_t *ret_len)
{
    struct stat stat_of;
    int fd = fault("open", EACCES)
                 ? -1
                 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return failed("open", name);
    DtStatus status =
        fstat(fd, &stat_of) != 0 ? failed("look at", name) : not_alone(name, &stat_of);
    if (dt_status_ok(&status) && (!S_ISREG(stat_of.st_mode) || (uint64_t)stat_of.st_size > max))
        status = dt_status_fail(DT_EXIT_IO, "%s is no file of at most %zu bytes", name, max);
    if (dt_status_ok(&status))
        status = read_all(arena, fd, name, (size_t)stat_of.st_size, ret_text, ret_len);
    close(fd);
    return status;
}

DtStatus dt_file_own_write(int folder, const char *name, const void *bytes, size_t len)
{
    char temporary[300];
    static unsigned number;
    snprintf(temporary, sizeof temporary, ".%.200s.%ld.%u", name, (long)getpid(), number++);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = fault("open", EACCES) ? -1 : openat(folder, temporary, flags, 0600);
    if (fd < 0)
        return failed("create", name);
    DtStatus status = write_all(fd, name, bytes, len);
    if (close(fd) != 0 && dt_status_ok(&status))
        status = failed("close", name);
    if (dt_status_ok(&status) &&
        (fault("rename", EIO) || renameat(folder, temporary, folder, name) != 0))
        status = failed("put in place", name);
    if (!dt_status_ok(&status))
        unlinkat(folder, temporary, 0);
    return status;
}

DtStatus dt_file_make_folder_of(const char *path)
{
    char folder[4096];
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", path);
    return dt_file_make_folder(dirname(folder));
}

static int exchange(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return 0;
    char aside[4096];
    if ((errno != EINVAL && errno != ENOSYS) ||
        (size_t)snprintf(aside, sizeof aside, "%s.old", from) >= sizeof aside)
        return -1;
    if (rename(to, aside) != 0)
        return -1;
    if (rename(from, to) != 0) {
        int error = errno;
        if (rename(aside, to) == 0)
            errno = error;
        return -1;
    }
    return rename(aside, from);
}

DtStatus dt_file_move_folder(const char *from, const char *to)
{
    int error = fault("rename", EIO) ? -1 : rename(from, to);
    if (error != 0 && (errno == ENOTEMPTY || errno == EEXIST))
        error = exchange(from, to);
    return error == 0 ? sync_folder_of(to) : failed("put in place", to);
}

DtStatus dt_file_name_folder(const char *from, const char *to)
{
    const int error = fault("rename", EIO) ? -1 : rename(from, to);
    return error == 0 ? sync_folder_of(to) : failed("put in place", to);
}

/* Removes a file of the folder, or an empty folder in it, which another user may have made. False:
 * it could not. */
static bool remove_entry(int folder, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(folder, name, 0) == 0)
        return true;
    return (errno == EISDIR || errno == EPERM) && unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

DtStatus dt_file_remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return errno == ENOENT ? DT_OK : failed("open", path);
    DtStatus status = DT_OK;
    for (struct dirent *entry; dt_status_ok(&status) && (entry = readdir(folder)) != NULL;)
        if (!remove_entry(dirfd(folder), entry->d_name))
            status = failed("remove a file of", path);
    closedir(folder);
    if (dt_status_ok(&status) && rmdir(path) != 0)
        status = failed("remove", path);
    return status;
}

char *dt_file_beside(DtArena *arena, const char *base, const char *path)
{
    const char *slash = strrchr(base, '/');
    if (path[0] == '/' || !slash)
        return dt_arena_strndup(arena, path, strlen(path));
    return dt_arena_printf(arena, "%.*s/%s", (int)(slash - base), base, path);
}
