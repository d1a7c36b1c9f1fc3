/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limit of control groups, in trees of files as kernels and containers show them. */
#include "runtime/memory.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64];

static void setup(void)
{
    strcpy(root, "/tmp/dt_cgroupXXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(container, .init = setup, .fini = teardown);

static void put(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    *strrchr(path, '/') = '\0';
    DtStatus status = dt_file_make_folder(path);
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (dt_status_ok(&status))
        status = dt_file_write(path, text, strlen(text));
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static void allows(uint64_t bytes)
{
    bool contained = false;
    cr_expect_eq(dt_memory_limit(root, &contained), bytes);
    cr_expect(contained);
}

static void allows_all(void)
{
    bool contained = true;
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    cr_expect_eq(dt_memory_limit(root, &contained), machine);
    cr_expect_not(contained);
}

Test(container, none)
{
    allows_all();
    put("proc/self/cgroup", "nonsense\n:\n\n0::\n1:memory\n");
    allows_all();
}

Test(container, one_tree)
{
    put("proc/self/cgroup", "0::/a.slice/b.scope\n");
    put("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    allows_all();
    put("sys/fs/cgroup/a.slice/b.scope/memory.max", "8388608\n");
    allows(8388608);
    put("sys/fs/cgroup/a.slice/memory.max", "4194304\n"); /* the group that contains it allows
                                                           * less */
    allows(4194304);
}

Test(container, a_tree_for_memory)
{
    put("proc/self/cgroup", "12:pids:/x\n5:cpu,memory:/docker/01\n0::/x\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    allows_all();
    put("sys/fs/cgroup/memory/docker/01/memory.limit_in_bytes", "1048576\n");
    allows(1048576);
}

Test(container, names_of_outside)
{
    put("proc/self/cgroup", "0::/../../kubepods/pod1\n");
    put("sys/fs/cgroup/memory.max", "2097152\n"); /* inside of a container its own group is the root
                                                   * of the tree */
    allows(2097152);
}
