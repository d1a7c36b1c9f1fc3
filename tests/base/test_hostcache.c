/* SPDX-License-Identifier: Apache-2.0 */
/* All tests share the kernel cache and may run at the same time. When several processes keep and
 * find the same entry at once, each must get a whole entry. */
#include "base/hostcache.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 6, ROUNDS = 300, LONGEST = 40000 };

/* Returns the length of the entry that a process writes, whose bytes are its own number. */
static size_t length_of(int process) { return (size_t)(LONGEST / (process + 1)); }

static bool is_whole(const char *bytes, size_t len)
{
    const int process = bytes[0];
    if (process >= PROCESSES || len != length_of(process))
        return false;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != process)
            return false;
    return true;
}

/* Exits with 0 if at least one entry was found, and every entry found was whole. */
static void keep_and_find(int process, const uint8_t key[DT_DIGEST_BYTES])
{
    static char mine[LONGEST];
    const char *why, *bytes;
    size_t len;
    int folder, found = 0;
    memset(mine, process, sizeof mine);
    DtArena *arena = dt_arena_new();
    dt_hostcache_open(arena, &folder, &why);
    for (int i = 0; i < ROUNDS; i++) {
        dt_hostcache_keep(arena, folder, key, mine, length_of(process));
        if (!dt_hostcache_find(arena, folder, key, &bytes, &len))
            continue;
        if (!is_whole(bytes, len))
            _exit(2);
        found++;
    }
    dt_hostcache_close(folder);
    _exit(found == ROUNDS ? 0 : 1);
}

Test(hostcache, processes_that_keep_one_entry_find_whole_ones)
{
    char folder[] = "/tmp/dt_hostcacheXXXXXX", command[100];
    const uint8_t key[DT_DIGEST_BYTES] = {1, 2, 3};
    cr_assert(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int process = 0; process < PROCESSES; process++)
        if (fork() == 0)
            keep_and_find(process, key);
    for (int process = 0; process < PROCESSES; process++) {
        int state;
        cr_assert(wait(&state) > 0);
        cr_expect(WIFEXITED(state) && WEXITSTATUS(state) == 0, "a process ends with %d",
                  WEXITSTATUS(state));
    }
    snprintf(command, sizeof command, "ls -A %s/dtc | wc -l | grep -qx 1 && rm -r %s", folder,
             folder);
    cr_expect_eq(system(command), 0, "something beside the entry is left in %s", folder);
}
