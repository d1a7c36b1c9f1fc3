/* SPDX-License-Identifier: Apache-2.0 */
/* A loss of power at any moment. The calls of real saves are recorded; then states of the disk are
 * made in which each call that no fsync has settled may have been dropped, torn or overtaken by
 * later ones, and each is loaded:
 *
 *     what a save that had returned wrote, or something newer, loads, byte for byte
 *
 * What a file holds is settled by an fsync of that file, the names in a folder by an fsync of that
 * folder, and nothing else orders anything: less than any file system promises. A writer that
 * leaves out an fsync must be found out, so the same is done with the fsyncs of files, of folders,
 * and of the folder above the run's left out. */
#include "checkpoint_fixture.h"

#include "base/hash.h"
#include "base/philox.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATES = 10000, MAX_NODES = 512, MAX_OPS = 4096, MAX_NAMES = 64, NAME = 40 };

typedef enum OpKind { OP_SET, OP_UNSET, OP_RENAME, OP_WRITE, OP_SYNC, OP_SAVED } OpKind;

/* SET: `name` in folder `node` becomes x. UNSET: the name is removed. RENAME: x gets the name
 * `other` instead of `name`; what had that name before, y (-1: nothing), gets the old name or is
 * gone. */
typedef struct Op {
    OpKind kind;
    int node, x, y;
    char name[NAME], other[NAME];
    char *bytes; /* WRITE */
    size_t offset, len;
    int settled; /* number of the first op (an fsync) after which it is safe */
} Op;

static Op ops[MAX_OPS];
static int n_ops, n_nodes;
static ino_t inodes[MAX_NODES]; /* inode number of a node; a number may be used again, then the last
                                 * node with it is meant */
static bool is_folder[MAX_NODES];
static bool recording;
static bool in_shares; /* a thread writes, while the rank goes on */
static enum { SYNCS_ALL, WITHOUT_FILES, WITHOUT_FOLDERS, WITHOUT_ABOVE } syncs;

/* ---- recording ---- */

static int node_of(ino_t inode)
{
    for (int i = n_nodes; i-- > 0;)
        if (inodes[i] == inode)
            return i;
    return -1;
}

static int node_at(const char *path)
{
    struct stat stat_of;
    return lstat(path, &stat_of) == 0 ? node_of(stat_of.st_ino) : -1;
}

static int node_above(const char *path)
{
    char above[4096];
    snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash == NULL)
        return -1;
    *slash = 0;
    return node_at(above);
}

static int node_new(const char *path, bool folder)
{
    struct stat stat_of;
    cr_assert(lstat(path, &stat_of) == 0 && n_nodes < MAX_NODES);
    inodes[n_nodes] = stat_of.st_ino;
    is_folder[n_nodes] = folder;
    return n_nodes++;
}

static Op *op_new(OpKind kind, int node, const char *path)
{
    cr_assert_lt(n_ops, MAX_OPS);
    Op *op = &ops[n_ops++];
    *op = (Op){.kind = kind, .node = node, .x = -1, .y = -1};
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(op->name, sizeof op->name, "%s", slash ? slash + 1 : "");
    return op;
}

static void made(const char *path, bool folder)
{
    int above = recording ? node_above(path) : -1;
    if (above >= 0)
        op_new(OP_SET, above, path)->x = node_new(path, folder);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    int result = __real_mkdir(path, mode);
    if (result == 0)
        made(path, true);
    return result;
}

int __real_mkostemp(char *path, int flags);
int __wrap_mkostemp(char *path, int flags);
int __wrap_mkostemp(char *path, int flags)
{
    int fd = __real_mkostemp(path, flags);
    if (fd >= 0)
        made(path, false);
    return fd;
}

/* The name of the call in its variant with 64-bit offsets. */
int __wrap_mkostemp64(char *path, int flags);
int __wrap_mkostemp64(char *path, int flags) { return __wrap_mkostemp(path, flags); }

static void renamed(const char *from, const char *to, int x, int y)
{
    int above = recording ? node_above(to) : -1;
    if (above < 0)
        return;
    Op *op = op_new(OP_RENAME, above, from);
    snprintf(op->other, sizeof op->other, "%s", strrchr(to, '/') + 1);
    op->x = x;
    op->y = y;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    int x = node_at(from), result = __real_rename(from, to);
    if (result == 0)
        renamed(from, to, x, -1);
    return result;
}

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    int x = node_at(from), y = node_at(to), result = __real_renameat2(a, from, b, to, flags);
    if (result == 0)
        renamed(from, to, x, y);
    return result;
}

static void removed(const char *path, int node)
{
    int above = recording ? node_above(path) : -1;
    if (above >= 0)
        op_new(OP_UNSET, above, path)->x = node;
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    int node = node_at(path), result = __real_unlink(path);
    if (result == 0)
        removed(path, node);
    return result;
}

int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path)
{
    int node = node_at(path), result = __real_rmdir(path);
    if (result == 0)
        removed(path, node);
    return result;
}

int __real_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags)
{
    char path[4096], link[64], above[3000] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, above, sizeof above - 1);
    above[n > 0 ? n : 0] = 0;
    snprintf(path, sizeof path, "%s/%s", above, name);
    int node = node_at(path), result = __real_unlinkat(folder, name, flags);
    if (result == 0)
        removed(path, node);
    return result;
}

/* Records a write that has succeeded. */
static void written(int fd, off_t at, const void *bytes, ssize_t done)
{
    struct stat stat_of;
    int node = recording && fstat(fd, &stat_of) == 0 ? node_of(stat_of.st_ino) : -1;
    if (node < 0 || done <= 0)
        return;
    Op *op = op_new(OP_WRITE, node, NULL);
    op->offset = (size_t)at;
    op->len = (size_t)done;
    op->bytes = malloc(op->len);
    memcpy(op->bytes, bytes, op->len);
}

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    off_t at = recording ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t done = __real_write(fd, bytes, len);
    written(fd, at, bytes, done);
    return done;
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    ssize_t done = __real_pwrite(fd, bytes, len, at);
    written(fd, at, bytes, done);
    return done;
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
    return __wrap_pwrite(fd, bytes, len, at);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    struct stat stat_of;
    const bool is_new = (flags & O_CREAT) && lstat(path, &stat_of) != 0;
    int fd = __real_open(path, flags, mode);
    if (fd >= 0 && is_new)
        made(path, false);
    return fd;
}

int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode)
{
    return __wrap_open(path, flags, mode);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat stat_of;
    int node = recording && fstat(fd, &stat_of) == 0 ? node_of(stat_of.st_ino) : -1;
    bool left_out = node < 0 || (syncs == WITHOUT_FILES && !is_folder[node]) ||
                    (syncs == WITHOUT_FOLDERS && is_folder[node]) ||
                    (syncs == WITHOUT_ABOVE && node <= 1);
    if (!left_out)
        op_new(OP_SYNC, node, NULL);
    return 0; /* syncs nothing: the disk of this machine is not what is tested */
}

/* Nodes 0 and 1 are the folders above the folder of the run. */
static void record(int n_saves)
{
    char run[128];
    /* the run goes back once */
    static const int64_t steps[] = {1, 2, 3, 4, 5, 3, 4, 6, 7};
    snprintf(run, sizeof run, "%s/some/run", f.folder);
    f.rank.meta.save_keep = 2;
    cr_assert(!in_shares || fixture_shares());
    node_new(f.folder, true);
    recording = true;
    for (int i = 0; i < n_saves; i++) {
        fixture_fill((uint8_t)(i + 1));
        cr_assert(fixture_save(run, steps[i]), "%s", f.rank.failure.message);
        op_new(OP_SAVED, -1, NULL)->x = i + 1;
    }
    recording = false;
    for (int i = 0; i < n_ops; i++)
        for (ops[i].settled = i + 1; ops[i].settled < n_ops; ops[i].settled++)
            if (ops[ops[i].settled].kind == OP_SYNC && ops[ops[i].settled].node == ops[i].node)
                break;
}

/* ---- states of the disk ---- */

typedef struct Name {
    char name[NAME];
    int node;
} Name;

typedef struct Disk {
    Name names[MAX_NODES][MAX_NAMES]; /* the names in folders */
    int n_names[MAX_NODES];
    char *bytes[MAX_NODES]; /* the contents of files */
    size_t len[MAX_NODES];
} Disk;

static Disk disk;

static uint64_t random_below(uint64_t n)
{
    static uint64_t count;
    return (uint64_t)(dt_philox_uniform(dt_philox(7, count++, 0, 0)) * (double)n) % n;
}

static void unset(int folder, const char *name, int node)
{
    for (int i = 0; i < disk.n_names[folder]; i++)
        if (strcmp(disk.names[folder][i].name, name) == 0 &&
            (node < 0 || disk.names[folder][i].node == node))
            disk.names[folder][i--] = disk.names[folder][--disk.n_names[folder]];
}

static void set(int folder, const char *name, int node)
{
    unset(folder, name, -1);
    cr_assert_lt(disk.n_names[folder], MAX_NAMES);
    Name *entry = &disk.names[folder][disk.n_names[folder]++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->node = node;
}

static void apply_write(const Op *op, bool torn)
{
    size_t end = op->offset + op->len, from = torn ? random_below(op->len + 1) : 0, to = op->len;
    if (torn && random_below(2)) /* the end or the beginning of the write is missing */
        to = from, from = 0;
    if (torn && to == op->len && random_below(2)) /* then the file was not made longer either */
        end = op->offset;
    if (end > disk.len[op->node]) {
        disk.bytes[op->node] = realloc(disk.bytes[op->node], end);
        memset(disk.bytes[op->node] + disk.len[op->node], 0, end - disk.len[op->node]);
        disk.len[op->node] = end;
    }
    if (op->offset + to <= disk.len[op->node])
        memcpy(disk.bytes[op->node] + op->offset + from, op->bytes + from, to - from);
}

static void apply(const Op *op, bool torn)
{
    if (op->kind == OP_SET)
        set(op->node, op->name, op->x);
    else if (op->kind == OP_UNSET)
        unset(op->node, op->name, op->x);
    else if (op->kind == OP_WRITE)
        apply_write(op, torn);
    else if (op->kind == OP_RENAME) {
        unset(op->node, op->name, op->x);
        set(op->node, op->other, op->x);
        if (op->y >= 0)
            set(op->node, op->name, op->y);
    }
}

/* The power is lost before op number `end`. Of the ops that no fsync has settled, some are lost:
 * according to a random mode all of them, one, all but one, or each with some probability. */
static void make_state(int end)
{
    const uint64_t mood = random_below(6), some = 1 + random_below(9);
    int pending = 0;
    for (int i = 0; i < end; i++)
        pending += ops[i].settled >= end;
    const int chosen = pending ? (int)random_below((uint64_t)pending) : 0;
    for (int i = 0; i < n_nodes; i++) {
        disk.n_names[i] = 0;
        disk.len[i] = 0;
    }
    for (int i = 0, at = 0; i < end; i++) {
        bool settled = ops[i].settled < end, torn = !settled && mood >= 4 && random_below(4) == 0;
        bool lost = !settled && (mood == 0   ? true
                                 : mood == 1 ? at == chosen
                                 : mood == 2 ? at != chosen
                                 : mood == 3 ? false
                                             : random_below(10) < some);
        at += !settled;
        if (!lost)
            apply(&ops[i], torn);
    }
}

static void join(char ret_path[4096], const char *folder, const char *name)
{
    cr_assert_lt(snprintf(ret_path, 4096, "%s/%s", folder, name), 4096);
}

static void write_out(int node, const char *path)
{
    char inner[4096];
    if (!is_folder[node]) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        cr_assert(fd >= 0 &&
                  __real_write(fd, disk.bytes[node], disk.len[node]) == (ssize_t)disk.len[node]);
        close(fd);
        return;
    }
    if (node > 0)
        cr_assert_eq(__real_mkdir(path, 0777), 0);
    for (int i = 0; i < disk.n_names[node]; i++) {
        join(inner, path, disk.names[node][i].name);
        write_out(disk.names[node][i].node, inner);
    }
}

static void remove_all(int node, const char *path)
{
    char inner[4096];
    if (!is_folder[node]) {
        __real_unlink(path);
        return;
    }
    for (int i = 0; i < disk.n_names[node]; i++) {
        join(inner, path, disk.names[node][i].name);
        remove_all(disk.names[node][i].node, inner);
    }
    if (node > 0)
        __real_rmdir(path);
}

/* Returns a hash of names and bytes, in the order of creation, which mostly is the same for equal
 * states. */
static uint64_t digest_of(int node, uint64_t seed)
{
    if (!is_folder[node])
        return dt_hash_bytes(disk.bytes[node], disk.len[node], seed + 1);
    for (int i = 0; i < disk.n_names[node]; i++)
        seed = digest_of(disk.names[node][i].node, dt_hash_text(disk.names[node][i].name, seed));
    return dt_hash_bytes(&seed, sizeof seed, 2);
}

/* ---- the claim ---- */

/* Returns the number of the save that loads; 0 if none does; -1 if it does not have the bytes that
 * were saved. */
static int load_state(const char *base)
{
    char run[160];
    int64_t steps;
    int found = 0;
    snprintf(run, sizeof run, "%s/some/run", base);
    write_out(0, base);
    fixture_fill(200);
    f.rank.failure = DT_OK;
    atomic_store(&f.rank.has_failed, false);
    if (fixture_load(run, false, &steps)) {
        found = -1;
        for (int i = 1; i < n_ops && found < 0; i++)
            if (ops[i].kind == OP_SAVED && fixture_holds((uint8_t)ops[i].x))
                found = ops[i].x;
    }
    remove_all(0, base);
    return found;
}

/* Remembers by hash what each state loads, since most states occur again and again. */
static int loads(const char *base)
{
    static struct {
        uint64_t digest;
        int found;
    } known[1 << 15];
    uint64_t digest = digest_of(0, 0) | 1;
    uint32_t at = (uint32_t)(digest >> 20) % DT_COUNT(known);
    while (known[at].digest != digest && known[at].digest != 0)
        at = (at + 1) % DT_COUNT(known);
    if (known[at].digest == 0) {
        known[at].digest = digest;
        known[at].found = load_state(base);
    }
    return known[at].found;
}

/* Returns the number of states, out of STATES, that break the promise; stops at the first one if
 * that is enough. */
static int broken_states(bool first_only)
{
    char base[64]; /* in a folder in memory, if there is one */
    int broken = 0;
    snprintf(base, sizeof base, "%s/dt_crashXXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    cr_assert_not_null(mkdtemp(base));
    cr_assert_not_null(freopen("/dev/null", "w", stderr)); /* messages name the checkpoints that are
                                                            * skipped */
    for (int s = 0; s < STATES && !(first_only && broken); s++) {
        const int end = 1 + (int)random_below((uint64_t)n_ops);
        int promised = 0;
        for (int i = 0; i < end; i++)
            promised = ops[i].kind == OP_SAVED ? ops[i].x : promised;
        make_state(end);
        const int found = loads(base);
        if (found < promised) {
            broken++;
            if (!first_only && broken < 4)
                printf("state %d, before call %d of %d: save %d had returned, %d loads: %s\n", s,
                       end, n_ops, promised, found, f.rank.failure.message);
        }
    }
    __real_rmdir(base);
    return broken;
}

TestSuite(crash, .init = fixture_open, .fini = fixture_close);

static void expect_whole(void)
{
    record(9);
    cr_assert_gt(n_ops, 200, "only %d calls", n_ops);
    cr_assert_eq(broken_states(false), 0);
}

Test(crash, what_was_saved_loads_whatever_is_lost) { expect_whole(); }
Test(crash, what_was_saved_in_shares_loads_whatever_is_lost)
{
    in_shares = true;
    expect_whole();
}

static void expect_found_out(int without)
{
    syncs = without;
    record(5);
    cr_assert_gt(broken_states(true), 0, "nothing notices that fsyncs are missing");
}

Test(crash, a_thread_that_does_not_sync_files_is_found_out)
{
    in_shares = true;
    expect_found_out(WITHOUT_FILES);
}

Test(crash, a_writer_that_does_not_sync_files_is_found_out) { expect_found_out(WITHOUT_FILES); }
Test(crash, a_writer_that_does_not_sync_folders_is_found_out) { expect_found_out(WITHOUT_FOLDERS); }
Test(crash, a_writer_that_does_not_sync_above_a_new_folder_is_found_out)
{
    expect_found_out(WITHOUT_ABOVE);
}
