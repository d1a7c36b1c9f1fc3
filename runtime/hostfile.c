/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hostfile.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 24, MOST_NAME = 253 }; /* the longest name of a host (RFC 1035) */

typedef struct Line {
    const char *name;
    int64_t slots; /* 0: it does not say */
} Line;

/* Reads "=8" or ":8". False: it is no number of slots. */
static bool read_slots(const char *text, int64_t *ret_slots)
{
    char *end;
    const long slots = strtol(text, &end, 10);
    *ret_slots = slots;
    return end != text && *end == '\0' && slots > 0 && slots < 1000000;
}

/* Names and addresses have these characters only, so that a shell sees a word, and no option. */
static bool is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.@[]:%";
    const size_t n = strlen(name);
    return n > 0 && n <= MOST_NAME && name[0] != '-' && strspn(name, allowed) == n;
}

/* Reads one line, in place. False: it is wrong. A line without words has no name. */
static bool read_line(char *line, Line *ret_line)
{
    static const char blank[] = " \t\r";
    char *rest = NULL, *colon;
    line[strcspn(line, "#")] = '\0';
    char *name = strtok_r(line, blank, &rest);
    *ret_line = (Line){.name = name};
    if (!name)
        return true;
    for (char *word; (word = strtok_r(NULL, blank, &rest));) {
        if (strncmp(word, "max_slots=", 10) == 0 || strncmp(word, "max-slots=", 10) == 0)
            continue;
        if (strncmp(word, "slots=", 6) != 0 || !read_slots(word + 6, &ret_line->slots))
            return false;
    }
    colon = strrchr(name, ':');
    if (colon && colon == strchr(name, ':') && ret_line->slots == 0) { /* no address of IPv6 */
        if (!read_slots(colon + 1, &ret_line->slots))
            return false;
        *colon = '\0';
    }
    return is_name(name);
}

static DtStatus check(const DtHostFile *hosts, const char *name, int64_t n_ranks, int64_t spares)
{
    const long long n = hosts->n - spares, ranks = n_ranks, slots = hosts->slots;
    if (hosts->n == 0)
        return dt_status_fail(DT_EXIT_USAGE, "%.300s lists no host", name);
    if (n < 1)
        return dt_status_fail(DT_EXIT_USAGE, "%.300s lists no host but %lld spares", name,
                              (long long)spares);
    if (slots == 0 && ranks % n)
        return dt_status_fail(DT_EXIT_USAGE,
                              "the plan has %lld ranks, which are not the same number on each of "
                              "the %lld hosts in %.200s",
                              ranks, n, name);
    if (slots != 0 && slots * n != ranks)
        return dt_status_fail(DT_EXIT_USAGE,
                              "the plan has %lld ranks, and the %lld hosts in %.200s have %lld "
                              "slots each",
                              ranks, n, name, slots);
    return DT_OK;
}

DtStatus dt_hostfile_parse(DtArena *memory, const char *text, const char *name, int64_t n_ranks,
                           int64_t spares, DtHostFile *ret_hosts)
{
    char *copy = dt_arena_strndup(memory, text, strlen(text)), *rest = copy;
    size_t lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    *ret_hosts = (DtHostFile){.names = DT_NEW_ARRAY(memory, const char *, lines)};
    for (uint32_t number = 1; rest; number++) {
        Line line;
        char *start = strsep(&rest, "\n");
        if (!read_line(start, &line))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "%.200s, line %u, is no host: `name`, `name slots=8` or `name:8`",
                                  name, number);
        if (!line.name)
            continue;
        for (uint32_t i = 0; i < ret_hosts->n; i++)
            if (strcmp(ret_hosts->names[i], line.name) == 0)
                return dt_status_fail(DT_EXIT_USAGE, "%.200s lists %.100s twice, in line %u", name,
                                      line.name, number);
        if (ret_hosts->n > 0 && line.slots != ret_hosts->slots)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "%.200s, line %u: hosts have different numbers of slots", name,
                                  number);
        ret_hosts->slots = line.slots;
        ret_hosts->names[ret_hosts->n++] = line.name;
    }
    const DtStatus status = check(ret_hosts, name, n_ranks, spares);
    if (dt_status_ok(&status) && ret_hosts->slots == 0)
        ret_hosts->slots = n_ranks / (ret_hosts->n - spares);
    return status;
}

DtStatus dt_hostfile_read(DtArena *memory, const char *path, int64_t n_ranks, int64_t spares,
                          DtHostFile *ret_hosts)
{
    char *text;
    size_t len;
    const DtStatus status = dt_file_read(memory, path, MOST_BYTES, &text, &len);
    return dt_status_ok(&status) ? dt_hostfile_parse(memory, text, path, n_ranks, spares, ret_hosts)
                                 : dt_status_fail(DT_EXIT_USAGE, "--hosts: %.450s",
                                                  status.message);
}
