/* SPDX-License-Identifier: Apache-2.0 */
/* For each host this program runs
 *
 *     CMD HOST 'exec sh -c "read DTRUN_KEY; cd FOLDER; exec dtrun PLAN .. --leash --nodes N ..."'
 *
 * and keeps the standard input of that command open, the *leash*: the key comes first (no command
 * line has it), then a letter for each signal. Its end, also if this program, ssh or the network
 * ends, ends the agent. Commands have process groups of their own, so that Ctrl-C in a terminal
 * reaches this program alone. */
#include "runtime/remote.h"

#include "base/digest.h"
#include "base/text.h"
#include "runtime/cluster.h"
#include "runtime/hostfile.h"
#include "runtime/key.h"
#include "runtime/runtime.h"
#include "runtime/say.h"
#include "runtime/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t AFTER_FAILURE_NS = 10000000000u, AGAIN_NS = 5000000000u;
enum { MOST_WORDS = 30, LOOK_MS = 200, MOST_LINE = 1 << 16 };

/* Signals and their letters. */
static const struct {
    int signal;
    char letter;
} letters[] = {{SIGINT, 'i'}, {SIGTERM, 't'}, {SIGHUP, 'h'}, {SIGUSR1, 'u'}};

/* ---- in the agent ---- */

bool dt_remote_has(void)
{
    struct pollfd look = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

int dt_remote_hear(void)
{
    char letter;
    if (!dt_remote_has())
        return 0;
    const ssize_t n = read(STDIN_FILENO, &letter, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    for (size_t i = 0; n == 1 && i < DT_COUNT(letters); i++)
        if (letters[i].letter == letter)
            return letters[i].signal;
    return n == 1 ? 0 : -1;
}

/* ---- commands ---- */

/* A stream of a command: the start of a line that is not complete yet. */
typedef struct Stream {
    int fd; /* -1: it has ended */
    DtText line;
} Stream;

typedef struct Host {
    const char *name;
    pid_t pid; /* 0: it has ended */
    int leash; /* -1: closed */
    int code;
    uint64_t again_ns; /* when the command is started again; 0: it is not */
    Stream out, err;
} Host;

typedef struct Remote {
    const DtRunOptions *options;
    DtArena *memory;
    DtHostFile file;
    Host *hosts;
    char key[DT_DIGEST_TEXT];
    int argc;
    char *const *argv;
    char meet[300];
    const char *words[MOST_WORDS + 3]; /* of --shell, then a host, a text and NULL */
    char program[PATH_MAX], folder[PATH_MAX];
    uint32_t n_words, n_alive;
    bool is_elastic; /* the run goes on without hosts but the first */
    int signals;
    /* when the first command ended badly, or, of an elastic run, that of the first host; 0: none */
    uint64_t failed_ns;
    int code;           /* of that one */
} Remote;

/* Adds a word as a shell reads it back. */
static void add_quoted(DtText *text, const char *word)
{
    dt_text_add(text, "'");
    for (const char *at = word; *at; at++)
        if (*at == '\'')
            dt_text_add(text, "'\\''");
        else
            dt_text_printf(text, "%c", *at);
    dt_text_add(text, "'");
}

/* Adds the words of the command line that the agents get. */
static void add_words(const Remote *r, DtText *text)
{
    for (int i = 1; i < r->argc; i++) {
        const char *word = r->argv[i];
        const bool is_ours = strcmp(word, "--hosts") == 0 || strcmp(word, "--shell") == 0;
        if (is_ours)
            i++; /* its value */
        if (is_ours || strncmp(word, "--hosts=", 8) == 0 || strncmp(word, "--shell=", 8) == 0 ||
            strncmp(word, "--meet=", 7) == 0)
            continue;
        if (strcmp(word, "--meet") == 0) {
            i++;
            continue;
        }
        dt_text_add(text, " ");
        add_quoted(text, word);
    }
}

/* What the shell of host number i runs. */
static char *make_text(const Remote *r, uint32_t i)
{
    DtText script = {0}, text = {0};
    dt_text_add(&script, "IFS= read -r DTRUN_KEY && export DTRUN_KEY && cd ");
    add_quoted(&script, r->folder);
    dt_text_add(&script, " && exec ");
    add_quoted(&script, r->program);
    add_words(r, &script);
    dt_text_printf(&script, " --leash --nodes %u --node %u --meet ", r->file.n, i);
    add_quoted(&script, r->meet);
    dt_text_add(&text, "exec sh -c ");
    add_quoted(&text, script.at);
    char *copy = dt_arena_strndup(r->memory, text.at, text.len);
    dt_text_free(&script);
    dt_text_free(&text);
    return copy;
}

/* ---- starting ---- */

static bool make_pipes(int pipes[3][2])
{
    for (int i = 0; i < 3; i++)
        pipes[i][0] = pipes[i][1] = -1;
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            return false;
    return true;
}

static void close_pipes(int pipes[3][2])
{
    for (int i = 0; i < 6; i++)
        if (pipes[i / 2][i % 2] >= 0)
            close(pipes[i / 2][i % 2]);
}

/* Starts the command with its three streams, in a process group of its own. */
static int spawn(const char *const *words, int pipes[3][2], pid_t *ret_pid)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, pipes[0][0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, pipes[1][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, pipes[2][1], STDERR_FILENO);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int error =
        posix_spawnp(ret_pid, words[0], &files, &how, (char *const *)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static bool tell(Host *host, const char *bytes, size_t n)
{
    return host->leash >= 0 && write(host->leash, bytes, n) == (ssize_t)n;
}

static DtStatus start_one(Remote *r, uint32_t i)
{
    Host *host = &r->hosts[i];
    int pipes[3][2];
    r->words[r->n_words] = host->name;
    r->words[r->n_words + 1] = make_text(r, i);
    int error = make_pipes(pipes) ? spawn(r->words, pipes, &host->pid) : errno;
    if (error) {
        host->pid = 0;
        close_pipes(pipes);
        return dt_status_fail(DT_EXIT_USAGE, "cannot start `%.100s` for host %.100s: %s",
                              r->words[0], host->name, strerror(error));
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    host->leash = pipes[0][1];
    host->out.fd = pipes[1][0];
    host->err.fd = pipes[2][0];
    fcntl(host->out.fd, F_SETFL, O_NONBLOCK);
    fcntl(host->err.fd, F_SETFL, O_NONBLOCK);
    r->n_alive++;
    tell(host, r->key, strlen(r->key));
    tell(host, "\n", 1);
    return DT_OK;
}

static DtStatus start_all(Remote *r)
{
    const ssize_t len = readlink("/proc/self/exe", r->program, sizeof r->program - 1);
    if (len <= 0 || !getcwd(r->folder, sizeof r->folder))
        return dt_status_fail(DT_EXIT_FAILED, "no path of this program or folder: %s",
                              strerror(errno));
    r->program[len] = '\0';
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < r->file.n && dt_status_ok(&status); i++)
        status = start_one(r, i);
    return status;
}

/* ---- lines ---- */

/* Prints a line of a host by one write, so that lines do not mix. */
static void print_line(const Host *host, int to, const char *line, size_t len)
{
    DtText text = {0};
    dt_text_printf(&text, "%s: %.*s\n", host->name, (int)len, line);
    for (size_t done = 0; done < text.len;) {
        const ssize_t n = write(to, text.at + done, text.len - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    dt_text_free(&text);
}

static void print_lines(const Host *host, Stream *stream, int to, bool all)
{
    size_t at = 0;
    for (;;) {
        const char *start = stream->line.at ? stream->line.at + at : NULL;
        const size_t left = stream->line.len - at;
        const char *end = left > 0 ? memchr(start, '\n', left) : NULL;
        const bool rest = !end && left > 0 && (all || left > MOST_LINE);
        if (!end && !rest)
            break;
        const size_t len = end ? (size_t)(end - start) : left;
        print_line(host, to, start, len);
        at += len + (end != NULL);
    }
    if (at > 0) {
        memmove(stream->line.at, stream->line.at + at, stream->line.len - at);
        stream->line.len -= at;
    }
}

static void read_stream(const Host *host, Stream *stream, int to)
{
    char bytes[4096];
    while (stream->fd >= 0) {
        const ssize_t n = read(stream->fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close(stream->fd);
            stream->fd = -1;
        } else
            dt_text_printf(&stream->line, "%.*s", (int)n, bytes);
        print_lines(host, stream, to, n <= 0);
    }
}

/* ---- the end ---- */

/* The exit code of a command: dtrun's, or 75 if that did not begin or end by itself. */
static int code_of(const Host *host, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code >= 0 && code != 255 && code != 126 && code != 127)
        return code;
    if (code == 126 || code == 127)
        dt_say("%s: the shell of this host does not find dtrun, or may not start it", host->name);
    else
        dt_say("%s: the command that starts dtrun there has failed, or was cut off", host->name);
    return DT_EXIT_RETRY;
}

static void close_leash(Host *host)
{
    if (host->leash >= 0)
        close(host->leash);
    host->leash = -1;
}

/* A command has ended. An elastic run ends with its first host. It goes on without others, and the
 * agent of a host that was lost is started again. */
static void note_end(Remote *r, uint32_t i, uint64_t now_ns)
{
    Host *host = &r->hosts[i];
    if (r->is_elastic && i > 0) {
        host->again_ns = host->code == DT_EXIT_RETRY ? now_ns + AGAIN_NS : 0;
        return;
    }
    if (r->failed_ns > 0 || (host->code == DT_EXIT_OK && !r->is_elastic))
        return;
    r->failed_ns = now_ns;
    r->code = host->code;
}

static void reap(Remote *r)
{
    for (uint32_t i = 0; i < r->file.n; i++) {
        Host *host = &r->hosts[i];
        int status;
        if (host->pid <= 0 || waitpid(host->pid, &status, WNOHANG) != host->pid)
            continue;
        host->pid = 0;
        host->code = code_of(host, status);
        close_leash(host);
        read_stream(host, &host->out, STDOUT_FILENO);
        read_stream(host, &host->err, STDERR_FILENO);
        r->n_alive--;
        note_end(r, i, dt_now_ns());
    }
}

/* Starts the agents again of hosts that an elastic run has lost. */
static void start_again(Remote *r, uint64_t now_ns)
{
    for (uint32_t i = 0; i < r->file.n; i++) {
        Host *host = &r->hosts[i];
        if (host->again_ns == 0 || now_ns < host->again_ns || r->failed_ns > 0)
            continue;
        const DtStatus status = start_one(r, i);
        host->again_ns = dt_status_ok(&status) ? 0 : now_ns + AGAIN_NS;
    }
}

/* After a failure agents end by themselves. Those that do not, since they wait for a host that
 * never began, lose the leash, and then their commands. */
static void press(Remote *r, uint64_t now_ns)
{
    if (r->failed_ns == 0 || now_ns < r->failed_ns + AFTER_FAILURE_NS)
        return;
    for (uint32_t i = 0; i < r->file.n; i++) {
        close_leash(&r->hosts[i]);
        if (r->hosts[i].pid > 0 && now_ns > r->failed_ns + 2 * AFTER_FAILURE_NS)
            kill(-r->hosts[i].pid, SIGKILL);
    }
}

static void hand_on_signals(Remote *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info)
        for (size_t k = 0; k < DT_COUNT(letters); k++)
            for (uint32_t i = 0; i < r->file.n && letters[k].signal == (int)info.ssi_signo; i++)
                if (i == 0 || r->options->dry_run) /* node 0 tells the others */
                    tell(&r->hosts[i], &letters[k].letter, 1);
}

static void relay(Remote *r)
{
    struct pollfd *polls = DT_NEW_ARRAY(r->memory, struct pollfd, 2 * r->file.n + 1);
    while (r->n_alive > 0) {
        nfds_t n = 0;
        polls[n++] = (struct pollfd){.fd = r->signals, .events = POLLIN};
        for (uint32_t i = 0; i < r->file.n; i++) {
            polls[n++] = (struct pollfd){.fd = r->hosts[i].out.fd, .events = POLLIN};
            polls[n++] = (struct pollfd){.fd = r->hosts[i].err.fd, .events = POLLIN};
        }
        poll(polls, n, LOOK_MS);
        hand_on_signals(r);
        for (uint32_t i = 0; i < r->file.n; i++) {
            read_stream(&r->hosts[i], &r->hosts[i].out, STDOUT_FILENO);
            read_stream(&r->hosts[i], &r->hosts[i].err, STDERR_FILENO);
        }
        reap(r);
        press(r, dt_now_ns());
        start_again(r, dt_now_ns());
    }
}

/* ---- all of it ---- */

/* A key and a place to meet, for this run. */
static DtStatus choose(Remote *r)
{
    uint8_t random[DT_DIGEST_BYTES];
    const char *given = dt_key_given(), *first = r->file.names[0], *at = strchr(first, '@');
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return dt_status_fail(DT_EXIT_RETRY, "no random key: %s", strerror(errno));
    dt_digest_text(random, r->key);
    if (given && (strlen(given) >= sizeof r->key || strchr(given, '\n')))
        return dt_status_fail(DT_EXIT_USAGE,
                              "DTRUN_KEY has more than %zu characters or several lines, and "
                              "--hosts hands a key on as one line: take a shorter one, or none, "
                              "and each run draws its own",
                              sizeof r->key - 1);
    if (given && *given)
        snprintf(r->key, sizeof r->key, "%s", given);
    const int port = 20000 + (random[0] * 256 + random[1]) % 10000;
    if (r->options->meet)
        snprintf(r->meet, sizeof r->meet, "%s", r->options->meet);
    else
        snprintf(r->meet, sizeof r->meet, "%.255s:%d", at ? at + 1 : first, port);
    return DT_OK;
}

/* Cuts the words of --shell, or of ssh that asks for no password. */
static DtStatus read_shell(Remote *r)
{
    const char *shell = r->options->shell ? r->options->shell : "ssh -o BatchMode=yes";
    char *rest = dt_arena_strndup(r->memory, shell, strlen(shell));
    for (char *word; (word = strtok_r(rest, " \t", &rest));) {
        if (r->n_words == MOST_WORDS)
            return dt_status_fail(DT_EXIT_USAGE, "--shell has more than %d words", MOST_WORDS);
        r->words[r->n_words++] = word;
    }
    return r->n_words > 0 ? DT_OK : dt_status_fail(DT_EXIT_USAGE, "--shell names no command");
}

static void block_signals(Remote *r)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < DT_COUNT(letters); i++)
        sigaddset(&set, letters[i].signal);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void say_who(const Remote *r)
{
    const long long slots = r->file.slots;
    const uint32_t used = r->file.n - (uint32_t)r->options->spares;
    for (uint32_t i = 0; i < used; i++)
        printf("%s: node %u, ranks %lld to %lld%s%s\n", r->file.names[i], i, i * slots,
               (i + 1) * slots - 1, i == 0 ? ", where the nodes meet: " : "",
               i == 0 ? r->meet : "");
    for (uint32_t i = used; i < r->file.n; i++)
        printf("%s: node %u, a spare\n", r->file.names[i], i);
    fflush(stdout);
}

/* The exit code: of the first failure; of a dry run 2 for any. */
static int end(const Remote *r)
{
    if (r->options->dry_run)
        return r->code == DT_EXIT_OK ? DT_EXIT_OK : DT_EXIT_USAGE;
    return r->code;
}

int dt_remote_run(const DtRunOptions *options, int64_t n_ranks, int argc, char *const *argv)
{
    Remote r = {.options = options, .memory = dt_arena_new(), .argc = argc, .argv = argv,
                .is_elastic = dt_cluster_is_elastic(options) && !options->dry_run};
    DtStatus status = dt_hostfile_read(r.memory, options->hosts, n_ranks, options->spares, &r.file);
    if (dt_status_ok(&status))
        status = read_shell(&r);
    if (dt_status_ok(&status))
        status = choose(&r);
    if (dt_status_ok(&status)) {
        r.hosts = DT_NEW_ARRAY(r.memory, Host, r.file.n);
        for (uint32_t i = 0; i < r.file.n; i++)
            r.hosts[i] = (Host){.name = r.file.names[i], .leash = -1, .out.fd = -1, .err.fd = -1};
        dt_socket_make_room(8 * r.file.n);
        block_signals(&r);
        if (options->dry_run)
            say_who(&r);
        status = start_all(&r);
        if (!dt_status_ok(&status)) {
            r.code = status.code;
            r.failed_ns = 1; /* those that have begun end at once */
            press(&r, dt_now_ns());
        }
        relay(&r);
    }
    if (!dt_status_ok(&status))
        dt_say("%s", status.message);
    const int code = dt_status_ok(&status) ? end(&r) : status.code;
    for (uint32_t i = 0; r.hosts && i < r.file.n; i++) {
        dt_text_free(&r.hosts[i].out.line);
        dt_text_free(&r.hosts[i].err.line);
    }
    dt_arena_free(r.memory);
    return code;
}
