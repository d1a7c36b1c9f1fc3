/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char variable[] = "DTRUN_KEY";
static char *hidden; /* kept to the end of the process */
enum { SHORTEST = 16, LONGEST = 512 };

/* ---- the variable ---- */

void dt_key_hide(void)
{
    char *value = getenv(variable);
    if (!value || !(hidden = strdup(value)))
        return;
    explicit_bzero(value, strlen(value)); /* /proc shows the memory in which a program got it */
    unsetenv(variable);
}

const char *dt_key_given(void) { return hidden ? hidden : getenv(variable); }

/* ---- the file ---- */

/* Sets the folder of the file; makes it, and the one above it, if they are not there. */
static DtStatus find_folder(char ret_folder[PATH_MAX])
{
    const char *above = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char config[PATH_MAX - 8];
    const bool has = (above && *above) || (home && *home);
    const int n = above && *above ? snprintf(config, sizeof config, "%s", above)
                                  : snprintf(config, sizeof config, "%s/.config", has ? home : "");
    if (!has || n >= (int)sizeof config)
        return dt_status_fail(DT_EXIT_USAGE,
                              "several nodes need a key, which keeps out strangers: set %s to the "
                              "same text of at least %d characters on all of them, since HOME is "
                              "not set, where a file could have it",
                              variable, SHORTEST);
    snprintf(ret_folder, PATH_MAX, "%s/dtrun", config);
    mkdir(config, 0700);
    mkdir(ret_folder, 0700);
    return DT_OK;
}

static DtStatus cannot(const char *what, const char *path)
{
    return dt_status_fail(DT_EXIT_USAGE,
                          "several nodes need a key: cannot %s %.300s: %s; or set %s to the same "
                          "text on all of them",
                          what, path, strerror(errno), variable);
}

/* Writes a random key to a file of its own, and gives that the name `path` unless another node was
 * faster. */
static DtStatus write_key(const char *folder, const char *path)
{
    uint8_t random[DT_DIGEST_BYTES];
    char text[DT_DIGEST_TEXT], own[PATH_MAX + 32];
    snprintf(own, sizeof own, "%s/key.XXXXXX", folder);
    const int fd = mkostemp(own, O_CLOEXEC); /* only the owner may read it */
    if (fd < 0)
        return cannot("write", own);
    const bool drawn = getrandom(random, sizeof random, 0) == (ssize_t)sizeof random;
    dt_digest_text(random, text);
    const bool written = drawn && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 &&
                         fsync(fd) == 0;
    const bool closed = close(fd) == 0;
    const bool good = written && closed && (link(own, path) == 0 || errno == EEXIST);
    const DtStatus status = good ? DT_OK : cannot("write", path);
    unlink(own);
    return status;
}

static DtStatus check_file(int fd, const char *path)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return cannot("read", path);
    if (stat.st_uid != geteuid() || (stat.st_mode & 077) != 0 || !S_ISREG(stat.st_mode))
        return dt_status_fail(DT_EXIT_USAGE,
                              "the key of runs over several nodes, %.300s, is not a file that only "
                              "you may read: chmod 600, or a new one after its removal",
                              path);
    return DT_OK;
}

static DtStatus read_key(char ret_text[LONGEST + 1])
{
    char folder[PATH_MAX], path[PATH_MAX + 8];
    DtStatus status = find_folder(folder);
    if (!dt_status_ok(&status))
        return status;
    snprintf(path, sizeof path, "%s/key", folder);
    const int how = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, how);
    if (fd < 0 && errno == ENOENT) {
        status = write_key(folder, path);
        fd = dt_status_ok(&status) ? open(path, how) : -1;
    }
    if (!dt_status_ok(&status))
        return status;
    if (fd < 0)
        return cannot("read", path);
    status = check_file(fd, path);
    const ssize_t n = dt_status_ok(&status) ? read(fd, ret_text, LONGEST) : 0;
    ret_text[n > 0 ? n : 0] = '\0';
    close(fd);
    if (dt_status_ok(&status) && n < SHORTEST)
        return dt_status_fail(DT_EXIT_USAGE, "%.300s is no key: it has fewer than %d characters; "
                                             "remove it, and the next run writes a new one",
                              path, SHORTEST);
    return status;
}

/* ---- the key ---- */

static void digest_text(const char *text, uint8_t ret_key[DT_DIGEST_BYTES])
{
    DtDigest digest;
    dt_digest_begin(&digest);
    dt_digest_add(&digest, "dtrun key", 9);
    dt_digest_add(&digest, text, strcspn(text, "\n")); /* an editor ends a file with a line */
    dt_digest_end(&digest, ret_key);
}

DtStatus dt_key_find(uint8_t ret_key[DT_DIGEST_BYTES])
{
    char text[LONGEST + 1];
    const char *given = dt_key_given();
    DtStatus status = DT_OK;
    if (given && *given && strlen(given) < SHORTEST)
        return dt_status_fail(DT_EXIT_USAGE, "%s has fewer than %d characters: a stranger may "
                                             "guess it",
                              variable, SHORTEST);
    if (!given || !*given) {
        status = read_key(text);
        given = text;
    }
    if (dt_status_ok(&status))
        digest_text(given, ret_key);
    return status;
}

void dt_key_derive(const uint8_t key[DT_DIGEST_BYTES], const char *purpose, uint64_t number,
                   uint8_t ret_key[DT_DIGEST_BYTES])
{
    char text[64];
    const int n = snprintf(text, sizeof text, "%s %llu", purpose, (unsigned long long)number);
    dt_digest_keyed(key, text, (size_t)n, ret_key);
}
