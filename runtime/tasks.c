/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of a host find each other by a Unix socket in the abstract name space. Its name
 * contains the process that started them, which is the nearest ancestor without the variable that
 * numbers tasks, and MASTER_PORT, so that two runs on a host are apart. Only processes of the same
 * user are heard. */
#include "runtime/tasks.h"

#include "runtime/runtime.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HELLO = 1, REFUSED, SIGNAL, END }; /* kinds of messages */
enum { PATIENCE_S = 60, SAY_S = 5, LATE_S = 10, SILENT_S = 5, LOOK_MS = 100, MOST_SILENT = 256 };
static const uint64_t magic = 0x314b534154544400u; /* "\0DTTASK1" */
static const char devices_name[] = "CUDA_VISIBLE_DEVICES";
/* The fix, where the tasks may be those of two runs. */
static const char apart[] =
    "; two runs that one process starts at once need a MASTER_PORT each";

typedef struct Message {
    uint64_t magic, words;
    uint32_t kind;
    int32_t number; /* HELLO: number of the task on the host; SIGNAL: the signal; END: exit code */
    cpu_set_t processors;
    char text[512]; /* HELLO: CUDA_VISIBLE_DEVICES; REFUSED: why */
} Message;

struct DtTasks {
    const DtLaunch *launch;
    int64_t n;
    int *fds;             /* by number on the host; -1: none */
    cpu_set_t *processors;
    char (*devices)[512];
};

/* ---- the name of the socket ---- */

/* The parent of a process and the time of its start, in ticks since boot. False: it is gone. */
static bool read_process(pid_t pid, pid_t *ret_parent, unsigned long long *ret_start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* a name may contain anything */
    int parent;
    if (!at || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                              "%*d %*d %*d %llu", &parent, ret_start) != 2)
        return false;
    *ret_parent = parent;
    return true;
}

/* Whether the process is part of a task: its environment has the variable. */
static bool is_in_task(pid_t pid, const char *variable)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "r"); /* fails for a process of another user */
    char *text = NULL;
    size_t cap = 0;
    bool found = false;
    const size_t len = strlen(variable);
    while (file && !found && getdelim(&text, &cap, '\0', file) > 0)
        found = strncmp(text, variable, len) == 0 && text[len] == '=';
    free(text);
    if (file)
        fclose(file);
    return found;
}

static socklen_t address_of(const DtLaunch *launch, struct sockaddr_un *ret_address)
{
    pid_t pid = getppid(), parent;
    unsigned long long start = 0;
    while (pid > 1 && is_in_task(pid, launch->rank_name) && read_process(pid, &parent, &start))
        pid = parent;
    if (!read_process(pid, &parent, &start))
        start = 0;
    const char *port = getenv("MASTER_PORT");
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int n = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1,
                           "dtrun.%u.%d.%llu.%lld.%.12s", (unsigned)getuid(), (int)pid, start,
                           (long long)launch->host, port ? port : "");
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- messages ---- */

static Message message(uint32_t kind, int32_t number, uint64_t words)
{
    return (Message){.magic = magic, .words = words, .kind = kind, .number = number};
}

static bool send_to(int fd, const Message *m)
{
    return send(fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *m;
}

/* Returns 1 after a message, 0 if there is none, -1 if the other side has ended or talks
 * nonsense. */
static int receive(int fd, Message *ret_message)
{
    ssize_t n;
    do
        n = recv(fd, ret_message, sizeof *ret_message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n != (ssize_t)sizeof *ret_message || ret_message->magic != magic)
        return -1;
    ret_message->text[sizeof ret_message->text - 1] = '\0';
    return 1;
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

static double seconds_since(uint64_t began) { return (double)(dt_now_ns() - began) * 1e-9; }

/* ---- the first task ---- */

static void refuse(int fd, const char *why)
{
    Message m = message(REFUSED, DT_EXIT_USAGE, 0);
    snprintf(m.text, sizeof m.text, "%s", why);
    send_to(fd, &m);
}

/* Takes a task that has said hello. */
static DtStatus take_task(DtTasks *tasks, int fd, const Message *hello, uint64_t words)
{
    char why[256];
    if (hello->kind != HELLO || hello->number < 1 || hello->number >= tasks->n)
        return dt_status_fail(DT_EXIT_USAGE, "a task says that its number on this host is %d",
                              hello->number);
    if (tasks->fds[hello->number] >= 0)
        snprintf(why, sizeof why, "two tasks have number %d on this host%s", hello->number, apart);
    else if (hello->words != words)
        snprintf(why, sizeof why,
                 "task %d of this host has another command line than task 0%s", hello->number,
                 apart);
    else {
        tasks->fds[hello->number] = fd;
        tasks->processors[hello->number] = hello->processors;
        memcpy(tasks->devices[hello->number], hello->text, sizeof hello->text);
        return DT_OK;
    }
    refuse(fd, why);
    return dt_status_fail(DT_EXIT_USAGE, "%s", why);
}

/* Processes that have connected and said nothing yet. The first descriptor is that on which this
 * process listens. */
typedef struct Newcomers {
    struct pollfd at[1 + MOST_SILENT];
    uint64_t came_ns[1 + MOST_SILENT];
    nfds_t n;
} Newcomers;

/* The others stay in the order in which they came. */
static void forget(Newcomers *c, nfds_t i)
{
    c->n--;
    memmove(&c->at[i], &c->at[i + 1], (c->n - i) * sizeof c->at[0]);
    memmove(&c->came_ns[i], &c->came_ns[i + 1], (c->n - i) * sizeof c->came_ns[0]);
}

/* If there are too many, the one that came first is disconnected: a task says hello at once. */
static void accept_one(Newcomers *c)
{
    const int fd = accept4(c->at[0].fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (!is_same_user(fd)) {
        close(fd);
        return;
    }
    if (c->n > MOST_SILENT) {
        close(c->at[1].fd);
        forget(c, 1);
    }
    c->at[c->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    c->came_ns[c->n++] = dt_now_ns();
}

/* Hears the newcomers, waiting a little, until one fails to become a task; counts those that have
 * said hello in ret_n, also if they are refused. */
static DtStatus hear_newcomers(DtTasks *tasks, Newcomers *c, uint64_t words, int64_t *ret_n)
{
    DtStatus status = DT_OK;
    const bool any = poll(c->at, c->n, LOOK_MS) > 0;
    for (nfds_t i = c->n; i-- > 1 && dt_status_ok(&status);) {
        const int fd = c->at[i].fd;
        const bool speaks = any && c->at[i].revents != 0;
        Message hello;
        if (!speaks && seconds_since(c->came_ns[i]) < SILENT_S)
            continue;
        const bool good = speaks && receive(fd, &hello) == 1;
        forget(c, i);
        if (good)
            status = take_task(tasks, fd, &hello, words);
        *ret_n += good;
        if (!good || !dt_status_ok(&status))
            close(fd);
    }
    if (any && c->at[0].revents != 0)
        accept_one(c);
    return status;
}

static DtTasks *new_tasks(const DtLaunch *launch)
{
    DtTasks *tasks = calloc(1, sizeof *tasks);
    const size_t n = (size_t)launch->on_host;
    if (!tasks)
        return NULL;
    *tasks = (DtTasks){.launch = launch, .n = launch->on_host, .fds = calloc(n, sizeof(int)),
                       .processors = calloc(n, sizeof(cpu_set_t)),
                       .devices = calloc(n, sizeof *tasks->devices)};
    for (int64_t i = 0; tasks->fds && i < tasks->n; i++)
        tasks->fds[i] = -1;
    if (tasks->fds && tasks->processors && tasks->devices)
        return tasks;
    dt_tasks_end(tasks, DT_EXIT_RETRY);
    return NULL;
}

/* If the tasks have different GPUs, the host's ranks have all of them, in the order of tasks. */
static void join_devices(const DtTasks *tasks)
{
    bool differ = false;
    DtText all = {0};
    for (int64_t i = 0; i < tasks->n; i++) {
        differ = differ || strcmp(tasks->devices[i], tasks->devices[0]) != 0;
        dt_text_printf(&all, "%s%s", i ? "," : "", tasks->devices[i]);
    }
    if (differ)
        setenv(devices_name, all.at, 1);
    dt_text_free(&all);
}

static int listen_here(const DtLaunch *launch)
{
    struct sockaddr_un address;
    const socklen_t size = address_of(launch, &address);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Waits until all tasks have come. If one is refused, those that come later must end as well: so it
 * goes on for a while. */
static DtStatus wait_for_tasks(DtTasks *tasks, int listener, uint64_t words)
{
    DtStatus status = DT_OK;
    uint64_t began = dt_now_ns();
    bool said = false;
    Newcomers newcomers = {.at = {{.fd = listener, .events = POLLIN}}, .n = 1};
    for (int64_t n = 1; n < tasks->n;) {
        const DtStatus came = hear_newcomers(tasks, &newcomers, words, &n);
        const long long missing = tasks->n - n;
        if (dt_status_ok(&status) && !dt_status_ok(&came)) {
            status = came;
            began = dt_now_ns();
        }
        if (missing == 0 || (!dt_status_ok(&status) && seconds_since(began) > LATE_S))
            break;
        if (dt_status_ok(&status) && seconds_since(began) > PATIENCE_S) {
            status = dt_status_fail(DT_EXIT_RETRY,
                                    "%lld of the %lld tasks of this host, as the variables of %s "
                                    "count them, have not come within %d s",
                                    missing, (long long)tasks->n, tasks->launch->by, PATIENCE_S);
            break;
        }
        if (!said && dt_status_ok(&status) && seconds_since(began) > SAY_S) {
            fprintf(stderr, "dtrun: waiting for %lld of the %lld tasks of this host\n", missing,
                    (long long)tasks->n);
            said = true;
        }
    }
    for (nfds_t i = 1; i < newcomers.n; i++)
        close(newcomers.at[i].fd);
    return status;
}

DtStatus dt_tasks_gather(const DtLaunch *launch, uint64_t words, DtTasks **ret_tasks)
{
    DtStatus status = DT_OK;
    *ret_tasks = NULL;
    DtTasks *tasks = new_tasks(launch);
    const int listener = tasks ? listen_here(launch) : -1;
    if (listener < 0) {
        const bool taken = errno == EADDRINUSE; /* close keeps errno: it does not fail */
        status = dt_status_fail(DT_EXIT_RETRY, "cannot wait for the other tasks of this host: %s%s",
                                taken ? "the first task of another run waits there"
                                      : strerror(errno),
                                taken ? apart : "");
        if (tasks)
            dt_tasks_end(tasks, status.code);
        return status;
    }
    sched_getaffinity(0, sizeof tasks->processors[0], &tasks->processors[0]);
    snprintf(tasks->devices[0], sizeof tasks->devices[0], "%s",
             getenv(devices_name) ? getenv(devices_name) : "");
    status = wait_for_tasks(tasks, listener, words);
    close(listener);
    if (!dt_status_ok(&status)) {
        dt_tasks_end(tasks, status.code);
        return status;
    }
    join_devices(tasks);
    *ret_tasks = tasks;
    return DT_OK;
}

void dt_tasks_enter(const DtTasks *tasks, uint32_t rank)
{
    if (tasks && rank < tasks->n)
        sched_setaffinity(0, sizeof tasks->processors[rank], &tasks->processors[rank]);
}

void dt_tasks_leave(const DtTasks *tasks)
{
    if (tasks)
        sched_setaffinity(0, sizeof tasks->processors[0], &tasks->processors[0]);
}

int dt_tasks_hear(DtTasks *tasks, int64_t *ret_task)
{
    for (int64_t i = 1; tasks && i < tasks->n; i++) {
        Message m;
        const int came = tasks->fds[i] >= 0 ? receive(tasks->fds[i], &m) : 0;
        if (came == 0)
            continue;
        *ret_task = tasks->launch->task + i;
        if (came == 1 && m.kind == SIGNAL)
            return m.number;
        close(tasks->fds[i]);
        tasks->fds[i] = -1;
        return -1;
    }
    return 0;
}

void dt_tasks_end(DtTasks *tasks, int code)
{
    const Message end = message(END, code, 0);
    for (int64_t i = 0; tasks && tasks->fds && i < tasks->n; i++)
        if (tasks->fds[i] >= 0) {
            send_to(tasks->fds[i], &end);
            close(tasks->fds[i]);
        }
    if (tasks) {
        free(tasks->fds);
        free(tasks->processors);
        free(tasks->devices);
    }
    free(tasks);
}

/* ---- the others ---- */

/* Connects with the first task, which may begin later than this one. */
static int connect_to_first(const DtLaunch *launch)
{
    struct sockaddr_un address;
    const socklen_t size = address_of(launch, &address);
    const uint64_t began = dt_now_ns();
    for (;;) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, (struct sockaddr *)&address, size) == 0 && is_same_user(fd))
            return fd;
        close(fd);
        if (seconds_since(began) > PATIENCE_S)
            return -1;
        poll(NULL, 0, LOOK_MS / 2);
    }
}

/* Waits for the exit code, and hands on signals. */
static int wait_for_end(const DtLaunch *launch, int fd, int signals)
{
    struct pollfd look[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        struct signalfd_siginfo info;
        Message m;
        if (poll(look, 2, -1) < 0 && errno != EINTR)
            return DT_EXIT_RETRY;
        if (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
            m = message(SIGNAL, (int32_t)info.ssi_signo, 0);
            send_to(fd, &m);
        }
        const int came = receive(fd, &m);
        if (came == 1 && m.kind == REFUSED) /* the first task says why */
            return m.number;
        if (came == 1 && m.kind == END)
            return m.number >= 0 && m.number < 256 ? m.number : DT_EXIT_FAILED;
        if (came < 0) {
            fprintf(stderr, "dtrun: task %lld: the first task of this host, number %lld, has ended "
                            "without a word\n",
                    (long long)launch->task, (long long)(launch->task - launch->here));
            return DT_EXIT_RETRY;
        }
    }
}

int dt_tasks_follow(const DtLaunch *launch, uint64_t words)
{
    sigset_t handed_on;
    sigemptyset(&handed_on);
    const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sigaddset(&handed_on, all[i]);
    const int fd = connect_to_first(launch);
    if (fd < 0) {
        fprintf(stderr, "dtrun: task %lld: the first task of this host, number %lld, has not come "
                        "within %d s\n",
                (long long)launch->task, (long long)(launch->task - launch->here), PATIENCE_S);
        return DT_EXIT_RETRY;
    }
    sigprocmask(SIG_BLOCK, &handed_on, NULL);
    const int signals = signalfd(-1, &handed_on, SFD_CLOEXEC | SFD_NONBLOCK);
    Message hello = message(HELLO, (int32_t)launch->here, words);
    const char *devices = getenv(devices_name);
    snprintf(hello.text, sizeof hello.text, "%s", devices ? devices : "");
    sched_getaffinity(0, sizeof hello.processors, &hello.processors);
    const int code = signals >= 0 && send_to(fd, &hello) ? wait_for_end(launch, fd, signals)
                                                         : DT_EXIT_RETRY;
    close(signals);
    close(fd);
    return code;
}
