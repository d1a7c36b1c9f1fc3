/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of launchers. Names and meanings: torchrun's manual ("Environment Variables"), Open MPI
 * ("Environmental variables" of mpirun), MPICH's Hydra (PMI 1), srun(1) of Slurm. */
#include "runtime/launch.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variables of one launcher; NULL: it has none of that kind. */
typedef struct Names {
    const char *by, *wish;
    const char *task, *tasks, *here, *on_host, *host, *hosts;
    const char *needs; /* counts only with this one */
} Names;

static const Names launchers[] = {
    {"torchrun", "env", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     NULL, NULL, NULL},
    {"Open MPI", "mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL, NULL},
    {"MPI", "mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL,
     "MPI_LOCALRANKID"},
    {"Slurm", "slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
     "SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"},
};

/* ---- one variable ---- */

static const char *value_of(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

/* Reads a count; missing: -1. */
static DtStatus read_count(const char *name, int64_t *ret_count)
{
    const char *value = value_of(name);
    char *end;
    *ret_count = -1;
    if (!value)
        return DT_OK;
    errno = 0;
    const long long count = strtoll(value, &end, 10);
    if (errno || *end || count < 0 || count > INT32_MAX)
        return dt_status_fail(DT_EXIT_USAGE, "%s=%.60s is no count: 0, 1, ...", name, value);
    *ret_count = count;
    return DT_OK;
}

static DtStatus contradiction(const char *a, int64_t x, const char *b, int64_t y, const char *why)
{
    return dt_status_fail(DT_EXIT_USAGE,
                          "%s=%lld and %s=%lld contradict each other: %s; --launch local starts "
                          "all ranks here",
                          a, (long long)x, b, (long long)y, why);
}

/* ---- a launcher ---- */

/* "n[001-004,7],m[1-2]" -> "n001": the first host of a list of Slurm's. Text behind a bracket is
 * part of the name. */
static void first_host(const char *list, char *ret_host, size_t size)
{
    size_t n = 0;
    bool in_brackets = false, past_first = false;
    for (; *list && (in_brackets || *list != ',') && n + 1 < size; list++) {
        if (*list == '[' || *list == ']') {
            in_brackets = *list == '[';
            past_first = false;
        } else if (in_brackets && (*list == '-' || *list == ','))
            past_first = true;
        else if (!past_first)
            ret_host[n++] = *list;
    }
    ret_host[n] = '\0';
}

/* "2(x3),1" -> the number of tasks on each node, or 0 if they differ. */
static int64_t equal_share(const char *text)
{
    int64_t share = 0;
    while (*text) {
        char *end;
        const long long n = strtoll(text, &end, 10);
        if (end == text || n <= 0 || (share && n != share))
            return 0;
        share = n;
        const char *closed = *end == '(' ? strchr(end, ')') : end - 1;
        if (!closed)
            return 0;
        end = (char *)closed + 1;
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return 0;
    }
    return share;
}

/* Sets the address at which hosts meet, as far as the environment has it. */
static DtStatus find_meet(const Names *names, DtLaunch *launch)
{
    const char *host = value_of("MASTER_ADDR"), *port = value_of("MASTER_PORT");
    const char *list = strcmp(names->wish, "slurm") == 0 ? value_of("SLURM_STEP_NODELIST") : NULL;
    char first[200] = "";
    int64_t number = -1, job = 0, step = 0;
    if (launch->hosts < 2)
        return DT_OK;
    DtStatus status = read_count("MASTER_PORT", &number);
    if (dt_status_ok(&status) && list && !host) {
        first_host(list, first, sizeof first);
        host = first;
        status = read_count("SLURM_JOB_ID", &job);
        if (dt_status_ok(&status))
            status = read_count("SLURM_STEP_ID", &step);
        if (number < 0) /* steps of a job, and jobs that share hosts, differ */
            number = 20000 + (job * 101 + step) % 10000;
    }
    if (!dt_status_ok(&status))
        return status;
    if (port && (number < 1 || number > 65535))
        return dt_status_fail(DT_EXIT_USAGE, "MASTER_PORT=%.60s is no port", port);
    if (host && number > 0)
        snprintf(launch->meet, sizeof launch->meet, strchr(host, ':') ? "[%.200s]:%d" : "%.200s:%d",
                 host, (int)number);
    return DT_OK;
}

/* How many tasks a host has, where the launcher says so in another way than by a number. */
static DtStatus find_share(const Names *names, DtLaunch *l)
{
    const char *shares =
        strcmp(names->wish, "slurm") == 0 ? value_of("SLURM_STEP_TASKS_PER_NODE") : NULL;
    if (shares) {
        l->on_host = equal_share(shares);
        return l->on_host ? DT_OK
                          : dt_status_fail(DT_EXIT_USAGE,
                                           "SLURM_STEP_TASKS_PER_NODE=%.100s: hosts have different "
                                           "numbers of tasks; --ntasks-per-node makes them equal",
                                           shares);
    }
    if (l->on_host >= 0)
        return DT_OK;
    if (l->here > 0)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%s=%lld without %s, which says how many tasks this host has",
                              names->here, (long long)l->here,
                              names->on_host ? names->on_host : "SLURM_STEP_TASKS_PER_NODE");
    l->on_host = 1; /* a task for each host */
    return DT_OK;
}

/* Checks the numbers, and computes those of hosts. */
static DtStatus check(const Names *names, DtLaunch *l)
{
    const char *on_host = names->on_host ? names->on_host : "SLURM_STEP_TASKS_PER_NODE";
    if (l->tasks < 1 || l->task >= l->tasks)
        return contradiction(names->task, l->task, names->tasks, l->tasks,
                             "tasks count from 0");
    if (l->here < 0)
        l->here = l->task % l->on_host;
    if (l->here >= l->on_host)
        return contradiction(names->here, l->here, on_host, l->on_host, "tasks count from 0");
    if (l->tasks % l->on_host)
        return contradiction(names->tasks, l->tasks, on_host, l->on_host,
                             "hosts have different numbers of tasks");
    if (l->task % l->on_host != l->here)
        return contradiction(names->task, l->task, names->here, l->here,
                             "tasks of a host must follow each other (mpirun --map-by slot, srun "
                             "--distribution=block)");
    const int64_t host = l->task / l->on_host, hosts = l->tasks / l->on_host;
    if (l->hosts >= 0 && l->hosts != hosts)
        return contradiction(names->tasks, l->tasks, names->hosts, l->hosts,
                             "hosts have different numbers of tasks");
    if (l->host >= 0 && l->host != host)
        return contradiction(names->task, l->task, names->host, l->host,
                             "tasks of a host must follow each other (srun --distribution=block)");
    l->host = host;
    l->hosts = hosts;
    return DT_OK;
}

static DtStatus read_launcher(const Names *names, DtLaunch *ret_launch)
{
    DtLaunch l = {.by = names->by, .rank_name = names->task};
    const struct {
        const char *name;
        int64_t *count;
    } counts[] = {{names->task, &l.task},       {names->tasks, &l.tasks}, {names->here, &l.here},
                  {names->on_host, &l.on_host}, {names->host, &l.host},   {names->hosts, &l.hosts}};
    DtStatus status = DT_OK;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && dt_status_ok(&status); i++)
        status = read_count(counts[i].name, counts[i].count);
    if (dt_status_ok(&status) && (l.task < 0 || l.tasks < 0))
        status = dt_status_fail(DT_EXIT_USAGE,
                                "%s is set and %s is not; --launch local starts all ranks here",
                                l.task < 0 ? names->tasks : names->task,
                                l.task < 0 ? names->task : names->tasks);
    if (dt_status_ok(&status))
        status = find_share(names, &l);
    if (dt_status_ok(&status) && l.on_host == 0)
        status = contradiction(names->tasks, l.tasks, names->on_host, l.on_host,
                               "a host has at least one task");
    if (dt_status_ok(&status))
        status = check(names, &l);
    if (dt_status_ok(&status))
        status = find_meet(names, &l);
    *ret_launch = l;
    return status;
}

/* Whether the environment has the launcher's variables. */
static bool is_there(const Names *names)
{
    if (names->needs && !value_of(names->needs))
        return false;
    return value_of(names->task) || value_of(names->tasks);
}

DtStatus dt_launch_find(const char *wish, DtLaunch *ret_launch)
{
    *ret_launch = (DtLaunch){.tasks = 1, .on_host = 1, .hosts = 1};
    if (wish && strcmp(wish, "local") == 0)
        return DT_OK;
    bool known = wish == NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const bool wished = !wish || strcmp(wish, launchers[i].wish) == 0;
        known = known || wished;
        if (wished && is_there(&launchers[i]))
            return read_launcher(&launchers[i], ret_launch);
    }
    if (!known)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--launch wants local, env, mpi or slurm, not `%.60s`", wish);
    if (!wish)
        return DT_OK;
    return dt_status_fail(DT_EXIT_USAGE,
                          "--launch %s: the environment has none of its variables (%s)", wish,
                          strcmp(wish, "env") == 0   ? "RANK, WORLD_SIZE"
                          : strcmp(wish, "mpi") == 0 ? "OMPI_COMM_WORLD_RANK, PMI_RANK"
                                                     : "SLURM_PROCID and SLURM_STEP_ID");
}

/* ---- the plan ---- */

DtStatus dt_launch_apply(const DtLaunch *launch, int64_t n_ranks, DtRunOptions *options)
{
    const long long tasks = launch->tasks, hosts = launch->hosts, here = launch->on_host,
                    spares = options->spares < hosts ? options->spares : 0, used = hosts - spares;
    char but[40] = "";
    if (launch->by == NULL || tasks == 1)
        return DT_OK;
    if (spares > 0)
        snprintf(but, sizeof but, ", of which %lld wait", spares);
    if (n_ranks % used || (here != 1 && here * used != n_ranks))
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has %lld ranks, and there are %lld tasks on %lld host%s%s, as the variables "
            "of %s say: start one task for each rank, or one for each host; --launch local starts "
            "all ranks here",
            (long long)n_ranks, tasks, hosts, hosts == 1 ? "" : "s", but, launch->by);
    if (hosts == 1)
        return DT_OK;
    if (!options->meet && !*launch->meet)
        return dt_status_fail(DT_EXIT_USAGE,
                              "there are tasks on %lld hosts, as the variables of %s say, and none "
                              "says where these meet: set MASTER_ADDR and MASTER_PORT to the first "
                              "host and a free port there (mpirun -x, srun --export), or give "
                              "--meet HOST:PORT",
                              hosts, launch->by);
    options->nodes = launch->hosts;
    options->node = launch->host;
    options->meet = options->meet ? options->meet : launch->meet;
    return DT_OK;
}
