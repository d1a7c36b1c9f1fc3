/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limit of a container is in files of its control group: memory.max if all controllers
 * share one tree (version 2), memory.limit_in_bytes if memory has its own tree (version 1). Groups
 * are nested, and each limits everything inside of it. Inside a container the kernel may tell names
 * as they are outside of it. So groups that are not found are skipped, and the root of the tree,
 * which is then the container's own group, is always read. */
#include "runtime/memory.h"

#include "base/page.h"
#include "runtime/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

/* Returns the number in root/tree/group/file; UINT64_MAX if there is none (it says "max", or there
 * is no file). */
static uint64_t limit_of(const char *root, const char *tree, const char *group, const char *file)
{
    char path[PATH], text[64];
    if (snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, tree, group, file) >=
        (int)sizeof path)
        return UINT64_MAX;
    FILE *from = fopen(path, "re");
    if (!from)
        return UINT64_MAX;
    const bool got = fgets(text, sizeof text, from) != NULL;
    fclose(from);
    char *end = text;
    const uint64_t bytes = got ? strtoull(text, &end, 10) : 0;
    return end == text || bytes == 0 ? UINT64_MAX : bytes;
}

/* Returns the smallest limit of a group and of the groups that contain it. */
static uint64_t limit_above(const char *root, const char *tree, char *group, const char *file)
{
    uint64_t least = limit_of(root, tree, "", file);
    for (char *slash; (slash = strrchr(group, '/')) != NULL; *slash = '\0') {
        const uint64_t here = limit_of(root, tree, group, file);
        least = here < least ? here : least;
    }
    return least;
}

/* Returns the limit that a line of /proc/self/cgroup leads to, such as "5:memory:/docker/0123" or
 * "0::/user.slice". */
static uint64_t limit_in(const char *root, char *line)
{
    char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
    if (!group)
        return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (kinds[1] == '\0')
        return limit_above(root, "", group, "memory.max");
    for (char *rest = NULL, *kind = strtok_r(kinds + 1, ",", &rest); kind;
         kind = strtok_r(NULL, ",", &rest))
        if (strcmp(kind, "memory") == 0)
            return limit_above(root, "/memory", group, "memory.limit_in_bytes");
    return UINT64_MAX;
}

uint64_t dt_memory_limit(const char *root, bool *ret_contained)
{
    char path[PATH], line[PATH];
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * dt_page_bytes();
    uint64_t least = machine;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *from = fopen(path, "re");
    while (from && fgets(line, sizeof line, from)) {
        const uint64_t limit = limit_in(root, line);
        least = limit < least ? limit : least;
    }
    if (from)
        fclose(from);
    *ret_contained = least < machine;
    return least;
}

uint64_t dt_memory_arenas(const DtRunOptions *options, const DtPlan *plan, uint32_t stage)
{
    uint64_t bytes = 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        bytes += dt_rank_arena(options, plan, a, stage);
    return bytes;
}
