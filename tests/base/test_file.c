/* SPDX-License-Identifier: Apache-2.0 */
/* Every failure of a file operation leaves the old file as it was, no temporary behind, and a
 * message that names the file. Each test is its own process, so it may set DT_FAULT before the
 * first access. */
#include "base/file.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], target[96];

static void enter(void)
{
    snprintf(folder, sizeof folder, "/tmp/dt_file.XXXXXX");
    cr_assert_neq(mkdtemp(folder), NULL);
    snprintf(target, sizeof target, "%s/data", folder);
}

static int entries(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void leave(void)
{
    unlink(target);
    rmdir(folder);
}

static void plain_write(const char *text)
{
    FILE *file = fopen(target, "w");
    fputs(text, file);
    fclose(file);
}

static void expect_content(const char *want)
{
    char got[64] = {0};
    FILE *file = fopen(target, "r");
    cr_assert_not_null(file);
    cr_assert_eq(fread(got, 1, sizeof got - 1, file), strlen(want));
    fclose(file);
    cr_assert_str_eq(got, want);
}

static void expect_failed(DtStatus status, const char *said)
{
    cr_assert_eq(status.code, DT_EXIT_IO, "code %d", status.code);
    cr_assert(strstr(status.message, said), "message: %s", status.message);
    cr_assert(strstr(status.message, folder), "message: %s", status.message);
}

TestSuite(file, .init = enter, .fini = leave);

Test(file, write_read_map)
{
    DtArena *arena = dt_arena_new();
    char *text;
    size_t len;
    DtFileView view;
    DtStatus status = dt_file_write(target, "one\0two", 7);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(entries(), 1);
    status = dt_file_read(arena, target, 7, &text, &len);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(len == 7 && memcmp(text, "one\0two", 8) == 0);
    status = dt_file_map(target, &view);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(view.len == 7 && memcmp(view.at, "one\0two", 7) == 0);
    dt_file_unmap(&view);
    cr_assert_null(view.at);
    struct stat stat_of;
    stat(target, &stat_of);
    mode_t mask = umask(0);
    cr_assert_eq(stat_of.st_mode & 0777, 0666 & ~mask);
    dt_arena_free(arena);
}

Test(file, empty)
{
    DtFileView view = {(const uint8_t *)"x", 1};
    DtStatus status = dt_file_write(target, NULL, 0);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_file_map(target, &view);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(view.len == 0 && view.at == NULL);
    dt_file_unmap(&view);
}

Test(file, not_readable)
{
    DtArena *arena = dt_arena_new();
    char *text;
    size_t len;
    DtFileView view;
    expect_failed(dt_file_read(arena, target, 100, &text, &len), "No such file");
    expect_failed(dt_file_map(target, &view), "No such file");
    expect_failed(dt_file_read(arena, folder, 100, &text, &len), "not a regular file");
    cr_assert_eq(mkfifo(target, 0600), 0);
    expect_failed(dt_file_map(target, &view), "not a regular file");
    unlink(target);
    plain_write("12345");
    expect_failed(dt_file_read(arena, target, 4, &text, &len), "at most 4");
    dt_arena_free(arena);
}

static void write_with_fault(const char *fault, const char *said)
{
    plain_write("old");
    setenv("DT_FAULT", fault, 1);
    expect_failed(dt_file_write(target, "new text", 8), said);
    cr_assert_eq(entries(), 1, "%d files left", entries());
    expect_content("old");
}

Test(file, fault_open) { write_with_fault("open:1", "Permission denied"); }
Test(file, fault_write) { write_with_fault("write:1", "No space left"); }
Test(file, fault_fsync) { write_with_fault("fsync:1", "cannot sync"); }
Test(file, fault_rename) { write_with_fault("rename:1", "cannot put in place"); }

Test(file, fault_sync_of_folder)
{
    plain_write("old");
    setenv("DT_FAULT", "fsync:2", 1);
    expect_failed(dt_file_write(target, "new text", 8), "cannot sync");
    cr_assert_eq(entries(), 1);
    expect_content("new text"); /* the new file is in place, but a loss of power could still lose
                                 * it */
}

Test(file, fault_in_third_append)
{
    DtFileWriter writer;
    plain_write("old");
    setenv("DT_FAULT", "write:3", 1);
    DtStatus status = dt_file_writer_open(&writer, target);
    cr_assert(dt_status_ok(&status));
    status = dt_file_writer_append(&writer, "a", 1);
    cr_assert(dt_status_ok(&status));
    status = dt_file_writer_append(&writer, "b", 1);
    cr_assert(dt_status_ok(&status));
    expect_failed(dt_file_writer_append(&writer, "c", 1), "No space left");
    dt_file_writer_abandon(&writer);
    dt_file_writer_abandon(&writer); /* calling it twice is allowed */
    cr_assert_eq(entries(), 1);
    expect_content("old");
}

Test(file, fault_read)
{
    DtArena *arena = dt_arena_new();
    char *text;
    size_t len;
    plain_write("old");
    setenv("DT_FAULT", "read:1", 1);
    expect_failed(dt_file_read(arena, target, 100, &text, &len), "cannot read");
    dt_arena_free(arena);
}

Test(file, fault_mmap)
{
    DtFileView view;
    plain_write("old");
    setenv("DT_FAULT", "mmap:1", 1);
    expect_failed(dt_file_map(target, &view), "cannot map");
    cr_assert_null(view.at);
    cr_assert_eq(view.len, 0);
}

Test(file, writer_makes_folders)
{
    char path[128], in_the_way[160];
    struct stat made;
    snprintf(path, sizeof path, "%s/none/deep/data", folder);
    DtStatus written = dt_file_write(path, "x", 1);
    cr_assert(dt_status_ok(&written), "%s", written.message);
    cr_assert_eq(stat(path, &made), 0);
    snprintf(in_the_way, sizeof in_the_way, "%s/more", path);
    expect_failed(dt_file_write(in_the_way, "x", 1), "Not a directory");
    unlink(path);
    for (int up = 0; up < 2; up++) {
        *strrchr(path, '/') = 0;
        rmdir(path);
    }
    char lengthy[PATH_MAX + 10];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    DtStatus status = dt_file_write(lengthy, "x", 1);
    cr_assert(strstr(status.message, "too long"));
}

Test(file, folders)
{
    char path[128];
    snprintf(path, sizeof path, "%s/a/b//c/", folder);
    DtStatus status = dt_file_make_folder(path);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_file_make_folder(path);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    plain_write("a file");
    expect_failed(dt_file_make_folder(target), "something else has that name");
    snprintf(path, sizeof path, "%s/data/under", folder);
    expect_failed(dt_file_make_folder(path), "Not a directory");
    for (const char *part = "a/b/c"; part; part = strlen(part) > 3 ? "a/b" : part[1] ? "a" : NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, part);
        cr_assert_eq(rmdir(path), 0, "%s", path);
    }
}

static void folder_with(const char *name, const char *file)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    *strrchr(path, '/') = 0;
    cr_assert_eq(mkdir(path, 0777), 0);
    path[strlen(path)] = '/';
    fclose(fopen(path, "w"));
}

static bool there(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

Test(file, moves_folders_also_over_others)
{
    char from[96], to[96];
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/to", folder);
    folder_with("from", "first");
    DtStatus status = dt_file_move_folder(from, to);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(there("to/first") && !there("from"));
    folder_with("from", "second");
    status = dt_file_move_folder(from, to);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(there("to/second") && there("from/first"));
    status = dt_file_remove_folder(from);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    expect_failed(dt_file_move_folder(from, to), "cannot put in place");
    status = dt_file_remove_folder(from);
    cr_assert(dt_status_ok(&status), "a folder that is gone is removed");
    folder_with("to/deeper", "file");
    expect_failed(dt_file_remove_folder(to), "cannot remove");
    cr_assert(there("to/deeper/file"));
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", to);
    cr_assert_eq(system(command), 0);
}

/* The test writes to a pipe instead of /dev/null, because root could replace that device. */
Test(file, what_is_no_file_is_written_to)
{
    char got[8] = {0};
    struct stat stat_of;
    cr_assert_eq(mkfifo(target, 0600), 0);
    const int reader = open(target, O_RDONLY | O_NONBLOCK);
    cr_assert_geq(reader, 0);
    DtStatus status = dt_file_write(target, "plan", 4);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(read(reader, got, sizeof got), 4);
    cr_assert_str_eq(got, "plan");
    cr_assert(stat(target, &stat_of) == 0 && S_ISFIFO(stat_of.st_mode));
    DtFileWriter writer;
    status = dt_file_writer_open(&writer, target);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    dt_file_writer_abandon(&writer);
    cr_assert(stat(target, &stat_of) == 0 && S_ISFIFO(stat_of.st_mode));
    close(reader);
}

Test(file, one_holds_a_file)
{
    int first, second;
    plain_write("log");
    DtStatus status = dt_file_lock(target, &first);
    cr_assert(dt_status_ok(&status) && first >= 0, "%s", status.message);
    status = dt_file_lock(target, &second);
    cr_expect_eq(status.code, DT_EXIT_USAGE);
    cr_expect(strstr(status.message, "another run writes to"), "%s", status.message);
    close(first);
    status = dt_file_lock(target, &second);
    cr_expect(dt_status_ok(&status) && second >= 0, "%s", status.message);
    close(second);
    status = dt_file_lock("/dev/null", &second);
    cr_expect(dt_status_ok(&status) && second < 0, "a device is nobody's");
}

/* A process waits for a lock whose holder removes what it locked before it lets go. */
static void wait_for_removed(bool is_folder)
{
    int held, status_of;
    struct stat locked, named;
    DtStatus status = dt_file_make_lock(target, is_folder, &held);
    cr_assert(dt_status_ok(&status) && held >= 0, "%s", status.message);
    const pid_t waiting = fork();
    if (waiting == 0) {
        int own;
        close(held);
        status = dt_file_make_lock(target, is_folder, &own);
        _exit(!dt_status_ok(&status) || own < 0 || fstat(own, &locked) != 0 ||
              stat(target, &named) != 0 || locked.st_ino != named.st_ino);
    }
    usleep(150000); /* the process has opened what is removed now */
    cr_assert_eq(remove(target), 0);
    close(held);
    cr_assert_eq(waitpid(waiting, &status_of, 0), waiting);
    cr_expect(WIFEXITED(status_of) && WEXITSTATUS(status_of) == 0,
              "the lock is of a %s that was removed", is_folder ? "folder" : "file");
    cr_assert_eq(remove(target), 0);
}

Test(file, locks_what_has_the_name)
{
    int first, second;
    wait_for_removed(false);
    wait_for_removed(true);
    DtStatus status = dt_file_make_lock(target, true, &first);
    cr_assert(dt_status_ok(&status) && first >= 0, "%s", status.message);
    status = dt_file_make_lock(target, true, &second);
    cr_expect_eq(status.code, DT_EXIT_USAGE);
    close(first);
    cr_assert_eq(rmdir(target), 0);
    cr_assert_eq(symlink("nowhere", target), 0);
    status = dt_file_make_lock(target, false, &second);
    cr_expect_eq(status.code, DT_EXIT_IO);
}

Test(file, beside)
{
    DtArena *arena = dt_arena_new();
    cr_assert_str_eq(dt_file_beside(arena, "dir/model.dsl", "std.dsl"), "dir/std.dsl");
    cr_assert_str_eq(dt_file_beside(arena, "model.dsl", "std.dsl"), "std.dsl");
    cr_assert_str_eq(dt_file_beside(arena, "/model.dsl", "std.dsl"), "/std.dsl");
    cr_assert_str_eq(dt_file_beside(arena, "dir/model.dsl", "/lib/std.dsl"), "/lib/std.dsl");
    dt_arena_free(arena);
}
