/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2: communicators that do not block, by their documented meaning (standin.h). Ranks are
 * processes of one machine, which share a file in memory; a process that has the id finds the file.
 * A call is complete, and its work is on the stream, only after the caller has asked for the
 * communicator's state several times. A call before that is an error of the caller and is refused.
 * Work ends when all members have begun theirs, and after some more attempts. If members do not do
 * the same, they get an error.
 *
 * Every operation is messages: for each pair of ranks of a communicator there is a box that holds
 * one, and the sender has ended when it was taken. */
#include "standin.h"
#include "windows.h"

#include "base/half.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK, SYSTEM = 2, INTERNAL = 3, INVALID = 4, USAGE = 5, REMOTE = 6, PROGRESS = 7 };
enum { MOST = 8, REGIONS = 64, ROOM = 1 << 20, PARTS = 2 * MOST };
enum { ALL_REDUCE = 1, REDUCE_SCATTER, ALL_GATHER, MESSAGE };
enum { SUM, PROD, MAX, MIN };

/* ---- what processes share ---- */

typedef struct Box {
    _Atomic uint32_t sent, taken;
    int kind, type, op;
    size_t bytes;
    Where from_in, to_in;
    char data[ROOM];
} Box;

typedef struct Region { /* memory of a communicator, or of several communicators that have no member
                         * in common */
    _Atomic uint32_t came;
    _Atomic uint32_t met[MOST][MOST]; /* whether a rank has already exchanged messages with another
                                       * one */
    int color[MOST], key[MOST];
    Asks asks;
    Box boxes[MOST][MOST]; /* from, to: numbers of ranks in the whole run */
} Region;

typedef struct World {
    _Atomic uint32_t joined;
    int device[MOST];
    Region regions[REGIONS];
} World;

typedef struct Id {
    int pid, fd;
    char rest[120];
} Id;

typedef struct Config { /* of 2.18, up to `traffic`; of 2.28 */
    size_t size;
    unsigned magic, version;
    int blocking, cga, min, max;
    const char *net;
    int share, traffic;
    const char *name;
    int collnet, policy, shrink, nvls, channels, nvlink;
} Config;

typedef struct Op Op;
typedef struct Comm Comm;
struct Comm {
    World *world;
    Region *region;
    int n, me, ranks[MOST]; /* numbers of the ranks in the whole run */
    int state;              /* OK, PROGRESS, or an error */
    int polls;              /* how often PROGRESS is still returned */
    Op *begun;              /* work that then goes to the stream */
    Comm **split;           /* where the address of the communicator that is being made is stored */
    int n_split;            /* number of communicators that were made */
    int is_new, is_aborted, is_over;
    int policy, splits_policy; /* 2: copy engines gather; it belongs to the communicator that is
                                * being made */
    Windows windows;
};

typedef struct Part {
    int peer, sends, done;
    uint64_t at;
    size_t bytes;
    char *got;
} Part;

struct Op {
    Comm *comm;
    Stream *stream;
    int kind, type, op, tries, n;
    unsigned long long number; /* number of this process's operations */
    int is_resident, is_copied; /* copied: by a copy engine, without a kernel */
    uint64_t from, to;
    Where from_in, to_in;
    size_t count; /* elements: that a member receives; in an all-gather: that it sends */
    Part parts[PARTS];
};

/* Returns a small number of polls, or of attempts. */
static int some(void)
{
    static unsigned seed;
    seed = seed * 1664525u + 1013904223u + (unsigned)getpid();
    return (int)(seed >> 28) % 4;
}

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? sizes[type] : 0;
}

/* ---- sums: in the order of members, or as if a ring began elsewhere, rounding each time ---- */

static double load(int type, const char *at)
{
    float f;
    double d;
    int32_t i;
    uint32_t u;
    int64_t l;
    uint16_t h;
    switch (type) {
    case 1: return (unsigned char)*at;
    case 2: memcpy(&i, at, 4); return i;
    case 3: memcpy(&u, at, 4); return u;
    case 4: memcpy(&l, at, 8); return (double)l;
    case 6: memcpy(&h, at, 2); return (double)dt_half_from_f16(h);
    case 7: memcpy(&f, at, 4); return (double)f;
    case 9: memcpy(&h, at, 2); return (double)dt_half_from_bf16(h);
    default: memcpy(&d, at, 8); return d;
    }
}

static void store(int type, char *at, double value)
{
    const float f = (float)value;
    const int32_t i = type == 2 ? (int32_t)(uint32_t)(int64_t)value : 0;
    const uint32_t u = type == 3 ? (uint32_t)(int64_t)value : 0;
    const int64_t l = type == 4 ? (int64_t)value : 0;
    const uint16_t h = type == 6 ? dt_half_to_f16(f) : type == 9 ? dt_half_to_bf16(f) : 0;
    switch (type) {
    case 1: *(unsigned char *)at = (unsigned char)value; break;
    case 2: memcpy(at, &i, 4); break;
    case 3: memcpy(at, &u, 4); break;
    case 4: memcpy(at, &l, 8); break;
    case 6:
    case 9: memcpy(at, &h, 2); break;
    case 7: memcpy(at, &f, 4); break;
    default: memcpy(at, &value, 8); break;
    }
}

static double join(int op, double a, double b)
{
    return op == SUM ? a + b : op == PROD ? a * b : op == MAX ? (b > a ? b : a) : (b < a ? b : a);
}

/* Rounds a sum: f32 and 16-bit values are added in f32. */
static double round_sum(int type, double value)
{
    return type == 8 || type == 4 ? value : (double)(float)value;
}

static void reduce(const Op *op, char *to, const char *const *from)
{
    const size_t size = size_of(op->type);
    const int first = (int)standin_setting("order=", 0), n = op->comm->n;
    char step[8];
    for (size_t i = 0; i < op->count; i++) {
        double sum = load(op->type, from[first % n] + i * size);
        for (int m = 1; m < n; m++) {
            sum = round_sum(op->type,
                            join(op->op, sum, load(op->type, from[(first + m) % n] + i * size)));
            if (first) {
                store(op->type, step, sum);
                sum = load(op->type, step);
            }
        }
        store(op->type, to + i * size, sum);
    }
}

/* ---- work on the stream ---- */

static Box *box(const Comm *c, int from, int to)
{
    return &c->region->boxes[c->ranks[from]][c->ranks[to]];
}

static void send(const Op *op, Part *part)
{
    Box *b = box(op->comm, op->comm->me, part->peer);
    if (atomic_load(&b->sent) != atomic_load(&b->taken))
        return;
    b->kind = op->kind;
    b->type = op->type;
    b->op = op->op;
    b->bytes = part->bytes;
    b->from_in = op->from_in;
    b->to_in = op->to_in;
    memcpy(b->data, standin_memory(part->at, part->bytes), part->bytes);
    atomic_fetch_add(&b->sent, 1);
    part->done = 1;
}

static void receive(const Op *op, Part *part)
{
    Box *b = box(op->comm, part->peer, op->comm->me);
    if (atomic_load(&b->sent) == atomic_load(&b->taken))
        return;
    if (b->kind != op->kind || b->type != op->type || b->op != op->op || b->bytes != part->bytes) {
        fprintf(
            stderr,
            "stand-in NCCL: member %d does kind %d (%zu bytes), member %d kind %d (%zu bytes)\n",
            part->peer, b->kind, b->bytes, op->comm->me, op->kind, part->bytes);
        op->comm->state = INVALID;
        return;
    }
    if (!windows_agree(&op->from_in, &b->from_in) || !windows_agree(&op->to_in, &b->to_in)) {
        op->comm->state = USAGE;
        return;
    }
    part->got = malloc(part->bytes);
    memcpy(part->got, b->data, part->bytes);
    atomic_fetch_add(&b->taken, 1);
    part->done = 1;
}

static void finish(Op *op)
{
    const char *from[MOST] = {0};
    const size_t bytes = op->count * size_of(op->type);
    for (int i = 0; i < op->n; i++)
        if (!op->parts[i].sends)
            from[op->parts[i].peer] = op->parts[i].got;
    if (op->kind == ALL_REDUCE || op->kind == REDUCE_SCATTER)
        reduce(op, standin_memory(op->to, bytes), from);
    for (int i = 0; i < op->n; i++) {
        const Part *p = &op->parts[i];
        if (!p->sends && op->kind != ALL_REDUCE && op->kind != REDUCE_SCATTER)
            memcpy(standin_memory(p->at, p->bytes), p->got, p->bytes);
        free(p->got);
    }
}

/* ---- which kernels run ---- */

static unsigned long long n_ops, n_launched; /* number of messages that the process has begun; that
                                              * the device has begun */
static int n_resident;

/* Whether kernels start in the order of calls: they do if the library was told to ensure that. */
static int keeps_order(void)
{
    const char *word = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return standin_setting("nccl=", 22809) >= 22600 && word && atoi(word) == 1;
}

/* Whether the operation's kernel is running, or can start now. */
static int has_room(Op *op)
{
    const int most = (int)standin_setting("resident=", 0);
    if (op->is_resident || op->is_copied)
        return 1;
    if ((keeps_order() && op->number != n_launched + 1) || (most && n_resident >= most))
        return 0;
    op->is_resident = 1;
    n_launched++;
    n_resident++;
    return 1;
}

/* Whether this message hangs, a fault that tests ask for. */
static int hangs(const Op *op)
{
    static long long n_messages;
    static const Op *hung;
    if (op->kind != MESSAGE || op->n != 1 ||
        standin_device() != standin_setting("only=", standin_device()))
        return 0;
    if (hung == op)
        return 1;
    n_messages += op->tries == 0; /* only once */
    if (op->tries == 0 && n_messages == standin_setting("message_dies=", 0))
        raise(SIGKILL);
    if (op->tries == 0 && n_messages == standin_setting("message_hangs=", 0))
        hung = op;
    return hung == op;
}

/* Makes a fault that tests ask for: the communicator has an error when the device has reached this
 * operation. */
static void upset(Op *op)
{
    if (op->number && op->number == (unsigned long long)standin_setting("upset=", 0) &&
        standin_device() == standin_setting("only=", standin_device()))
        op->comm->state = INTERNAL;
}

static void end(Op *op)
{
    n_launched += !op->is_resident && !op->is_copied;
    n_resident -= op->is_resident;
    free(op);
}

static bool attempt(const void *context)
{
    Op *op = *(Op *const *)context;
    int left = 0;
    if (op->comm->is_aborted) {
        for (int i = 0; i < op->n; i++)
            free(op->parts[i].got);
        end(op);
        return true;
    }
    if (!has_room(op) || hangs(op))
        return false;
    upset(op);
    if (op->comm->state > 0 && op->comm->state != PROGRESS)
        return false;
    if (op->tries-- > 0)
        return false;
    for (int i = 0; i < op->n; i++) {
        Part *p = &op->parts[i];
        if (!p->done)
            (p->sends ? send : receive)(op, p);
        if (p->sends && p->done) {
            const Box *b = box(op->comm, op->comm->me, p->peer);
            left += atomic_load(&b->sent) != atomic_load(&b->taken);
        }
        left += !p->done;
    }
    if (left)
        return false;
    finish(op);
    end(op);
    return true;
}

/* ---- calls ---- */

static int begin(Comm *c)
{
    c->state = PROGRESS;
    c->polls = some();
    return PROGRESS;
}

static Op *new_op(Comm *c, Stream *stream, int kind, int type, int op)
{
    Op *o = calloc(1, sizeof *o);
    *o = (Op){.comm = c, .stream = stream, .kind = kind, .type = type, .op = op, .tries = some()};
    return o;
}

/* Finds in which window the collective's memory is, and whether copy engines can do it; bytes:
 * those of a block. False: only one side's memory, or a part of it, is in a window. */
static int place(Op *o, size_t bytes)
{
    Windows *w = &o->comm->windows;
    const size_t all = bytes * (size_t)o->comm->n;
    const size_t from_bytes = o->kind == REDUCE_SCATTER ? all : bytes,
                 to_bytes = o->kind == ALL_GATHER ? all : bytes;
    if (!windows_find(w, o->from, from_bytes, &o->from_in) ||
        !windows_find(w, o->to, to_bytes, &o->to_in))
        return 0;
    if (!o->from_in.number != !o->to_in.number) {
        fprintf(stderr, "stand-in NCCL: windows %d and %d\n", o->from_in.number, o->to_in.number);
        return 0;
    }
    const int is_symmetric = (o->from_in.flags & o->to_in.flags & WINDOWS_SYMMETRIC) != 0;
    o->is_copied = o->kind == ALL_GATHER && o->comm->policy == 2 && is_symmetric;
    w->inside += o->from_in.number > 0;
    w->outside += o->from_in.number == 0;
    w->copied += o->is_copied;
    return 1;
}

static void add(Op *op, int sends, int peer, uint64_t at, size_t bytes)
{
    if (bytes > ROOM || op->n == PARTS) {
        fprintf(stderr, "stand-in NCCL: no room for %zu bytes, %d messages\n", bytes, op->n);
        abort();
    }
    op->parts[op->n++] = (Part){.peer = peer, .sends = sends, .at = at, .bytes = bytes};
}

static int may_begin(const Comm *c, size_t size)
{
    return c && !c->is_over && c->state == OK && size > 0;
}

static int collective(Comm *c, Stream *stream, int kind, uint64_t from, uint64_t to, size_t count,
                      int type, int op)
{
    const size_t bytes = count * size_of(type);
    if (!may_begin(c, size_of(type)) || op < SUM || op > MIN)
        return USAGE;
    Op *o = new_op(c, stream, kind, type, op);
    o->from = from;
    o->to = to;
    o->count = count;
    if (!place(o, bytes))
        return USAGE;
    o->number = o->is_copied ? 0 : ++n_ops;
    for (int m = 0; m < c->n; m++)
        add(o, 1, m, from + (kind == REDUCE_SCATTER ? (size_t)m * bytes : 0), bytes);
    for (int m = 0; m < c->n; m++)
        add(o, 0, m, kind == ALL_GATHER ? to + (size_t)m * bytes : to, bytes);
    c->begun = o;
    return begin(c);
}

int ncclAllReduce(uint64_t from, uint64_t to, size_t count, int type, int op, Comm *c,
                  Stream *stream)
{
    return collective(c, stream, ALL_REDUCE, from, to, count, type, op);
}

int ncclReduceScatter(uint64_t from, uint64_t to, size_t count, int type, int op, Comm *c,
                      Stream *stream)
{
    return collective(c, stream, REDUCE_SCATTER, from, to, count, type, op);
}

int ncclAllGather(uint64_t from, uint64_t to, size_t count, int type, Comm *c, Stream *stream)
{
    return collective(c, stream, ALL_GATHER, from, to, count, type, SUM);
}

static int depth;
static Op *grouped;

int ncclGroupStart(void)
{
    depth++;
    return OK;
}

int ncclGroupEnd(void)
{
    if (depth-- != 1 || !grouped)
        return depth < 0 ? USAGE : OK;
    Comm *c = grouped->comm;
    c->begun = grouped;
    grouped = NULL;
    return begin(c);
}

/* All calls of a group use the same communicator and stream here. */
static int message(Comm *c, Stream *stream, int sends, uint64_t at, size_t count, int type,
                   int peer)
{
    if (!may_begin(c, size_of(type)) || peer < 0 || peer >= c->n)
        return USAGE;
    ncclGroupStart();
    if (!grouped) {
        grouped = new_op(c, stream, MESSAGE, type, SUM);
        grouped->number = ++n_ops;
    }
    if (grouped->comm != c || grouped->stream != stream)
        return USAGE;
    add(grouped, sends, peer, at, count * size_of(type));
    atomic_store(&c->region->met[c->ranks[c->me]][c->ranks[peer]], 1);
    return ncclGroupEnd();
}

/* Whether the library refuses this send: the Nth of a process (standin.h). */
static int is_refused(void)
{
    static long long n_sends;
    return ++n_sends == standin_setting("send_fails=", 0);
}

int ncclSend(uint64_t from, size_t count, int type, int peer, Comm *c, Stream *stream)
{
    if (is_refused())
        return INVALID;
    return message(c, stream, 1, from, count, type, peer);
}

int ncclRecv(uint64_t to, size_t count, int type, int peer, Comm *c, Stream *stream)
{
    return message(c, stream, 0, to, count, type, peer);
}

/* ---- communicators ---- */

int ncclGetVersion(int *ret_version)
{
    *ret_version = (int)standin_setting("nccl=", 22809);
    return OK;
}

int ncclGetUniqueId(Id *ret_id)
{
    const int fd = memfd_create("nccl", MFD_CLOEXEC);
    *ret_id = (Id){.pid = getpid(), .fd = fd};
    return fd >= 0 && ftruncate(fd, sizeof(World)) == 0 ? OK : SYSTEM;
}

/* Whether the library accepts such a config for a communicator that does not block; ret_policy: 0
 * if the config has no policy. */
static int reads(const Config *config, int *ret_policy)
{
    const int is_old = config->version == 21800 && config->size == offsetof(Config, name);
    const int is_new = config->version == 22800 && config->size == sizeof *config;
    const int is_known = is_old || (is_new && standin_setting("nccl=", 22809) >= 22800);
    *ret_policy = is_known && is_new && config->policy != INT_MIN ? config->policy : 0;
    return is_known && config->magic == 0xcafebeef && config->blocking == 0 && *ret_policy >= 0 &&
           *ret_policy <= 2;
}

static void open_windows(Comm *c)
{
    c->windows = (Windows){.asks = &c->region->asks, .ranks = c->ranks, .n = c->n, .me = c->me};
}

int ncclCommWindowRegister(Comm *c, uint64_t at, size_t bytes, Window **ret_window, int flags)
{
    return may_begin(c, 1) && windows_ask(&c->windows, at, bytes, flags, ret_window) ? begin(c)
                                                                                     : USAGE;
}

int ncclCommWindowDeregister(Comm *c, Window *window)
{
    return may_begin(c, 1) && windows_ask_back(&c->windows, window) ? begin(c) : USAGE;
}

int ncclCommInitRankConfig(Comm **ret_comm, int n, Id id, int me, Config *config)
{
    char path[64];
    int policy;
    if (n < 1 || n > MOST || me < 0 || me >= n || !reads(config, &policy))
        return INVALID;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", id.pid, id.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    World *world = fd < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (world == MAP_FAILED)
        return SYSTEM;
    close(fd);
    Comm *c = calloc(1, sizeof *c);
    *c = (Comm){.world = world, .region = &world->regions[0], .n = n, .me = me, .is_new = 1,
                .policy = policy};
    for (int m = 0; m < n; m++)
        c->ranks[m] = m;
    open_windows(c);
    /* whether ranks of several machines take part */
    world->device[me] = standin_device() + 100 * (int)standin_setting("host=", 0);
    atomic_fetch_add(&world->joined, 1);
    *ret_comm = c;
    return begin(c);
}

int ncclCommSplit(Comm *c, int color, int key, Comm **ret_comm, Config *config)
{
    const int can_split = c->n_split + 1 < REGIONS && c->region == c->world->regions;
    if (!may_begin(c, 1) || !reads(config, &c->splits_policy) || !can_split)
        return USAGE;
    Region *region = &c->world->regions[++c->n_split];
    region->color[c->me] = color;
    region->key[c->me] = key;
    atomic_fetch_add(&region->came, 1);
    *ret_comm = NULL;
    c->split = ret_comm;
    return begin(c);
}

/* Returns the ranks of this rank's color, sorted by key. */
static Comm *part_of(const Comm *c)
{
    Region *region = &c->world->regions[c->n_split];
    Comm *part = calloc(1, sizeof *part);
    *part = (Comm){.world = c->world, .region = region, .policy = c->splits_policy};
    for (int m = 0; m < c->n; m++) {
        int at = part->n;
        if (region->color[m] != region->color[c->me])
            continue;
        for (; at > 0 && region->key[part->ranks[at - 1]] > region->key[m]; at--)
            part->ranks[at] = part->ranks[at - 1];
        part->ranks[at] = m;
        part->n++;
    }
    while (part->ranks[part->me] != c->me)
        part->me++;
    open_windows(part);
    begin(part);
    return part;
}

/* A first message between two ranks connects them; both ranks must call for that. */
static int is_alone(const Comm *c)
{
    for (int i = 0; c->begun && c->begun->kind == MESSAGE && i < c->begun->n; i++)
        if (!atomic_load(&c->region->met[c->ranks[c->begun->parts[i].peer]][c->ranks[c->me]]))
            return 1;
    return 0;
}

/* Whether what the communicator is doing depends on other ranks that have not called yet. */
static int waits(const Comm *c)
{
    return is_alone(c) || windows_wait(&c->windows) ||
           (c->is_new && atomic_load(&c->world->joined) < (uint32_t)c->n) ||
           (c->split && atomic_load(&c->world->regions[c->n_split].came) < (uint32_t)c->n);
}

static int check_devices(const Comm *c)
{
    for (int a = 0; a < c->n; a++)
        for (int b = 0; b < a; b++)
            if (c->world->device[a] == c->world->device[b])
                return USAGE;
    return OK;
}

int ncclCommGetAsyncError(Comm *c, int *ret_state)
{
    if (c->state == PROGRESS && !waits(c) && c->polls-- <= 0) {
        c->state = !windows_answer(&c->windows) ? USAGE : c->is_new ? check_devices(c) : OK;
        c->is_new = 0;
        if (c->split && c->world->regions[c->n_split].color[c->me] >= 0)
            *c->split = part_of(c);
        c->split = NULL;
        if (c->begun &&
            standin_begin_try(c->begun->stream, attempt, &c->begun, sizeof c->begun) != 0)
            c->state = 1;
        c->begun = NULL;
    }
    *ret_state = c->state;
    return OK;
}

int ncclCommFinalize(Comm *c)
{
    if (!may_begin(c, 1))
        return USAGE;
    c->is_over = 1;
    return begin(c);
}

/* Work may still refer to it, so it is kept until the process ends. */
int ncclCommDestroy(Comm *c)
{
    if (!windows_end(&c->windows, c->policy))
        abort();
    return c->is_over && c->state == OK ? OK : USAGE;
}

int ncclCommAbort(Comm *c)
{
    if (depth > 0) { /* NCCL would wait for ever for the end of the group */
        fprintf(stderr, "stand-in of NCCL: a communicator is aborted inside a group\n");
        _exit(70);
    }
    c->is_aborted = c->is_over = 1;
    windows_drop(&c->windows);
    return OK;
}

const char *ncclGetErrorString(int error)
{
    return error == USAGE     ? "invalid usage"
           : error == INVALID ? "invalid argument"
           : error == REMOTE  ? "remote error"
                              : "internal error";
}

const char *ncclGetLastError(Comm *c)
{
    (void)c;
    return "";
}
