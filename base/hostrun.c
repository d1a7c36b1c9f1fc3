/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two builds of one text compute the same. The text of a kernel fixes its bits
 * (docs/kernels.md), so a difference is a compiler's bug; only the bits of a NaN are open.
 *
 * * A child process loads both and calls each kernel three times: with plain numbers; with
 * numbers of all magnitudes, zeros, subnormals; and with infinities and NaN too. Long axes are
 * cut short (dt_most of the prelude), but strides and ranges are not. So ranges may be far
 * larger than the memory of this machine: they are address space, and only pages that a call
 * touches get memory. To find these, the plain build is called until it touches no more; then
 * they are filled, and the next call counts. Pages without access rights surround each piece of
 * memory. */
#include "base/hostrun.h"

#include "base/half.h"
#include "base/page.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_POINTERS = 256, MOST_TOUCHED = 1 << 29, TRIALS = 3, GROWTHS = 4, SHORT = 2,
       CRASHES = 4 };
static const int64_t most_bytes = (int64_t)1 << 40;
static uint64_t page_bytes; /* the page size of this machine */

typedef void Kernel(char *const *pointers, const int64_t *integers);
typedef enum Type { FLOAT, BF16, F16, INT, BOOL } Type;

/* ---- pieces of memory ---- */

typedef struct Piece {
    int64_t lo, hi;     /* bytes of the arena */
    uint32_t arena;
    bool written;
    Type type;
    /* the memory of the plain and of the fast build, with a page on either side; both share one
     * piece if the kernel writes nothing to it */
    char *maps[2];
    uint64_t n_pages;
    uint8_t *known;     /* by page: 1 if the page is in the list `pages` */
    uint32_t *pages, n, cap;
} Piece;

typedef struct Run {
    const DtHostCall *call;
    Kernel *kernels[2];
    Type types[MAX_POINTERS];
    Piece pieces[MAX_POINTERS];
    uint32_t n_pieces, n_pages;
    char *pointers[2][MAX_POINTERS];
    int trial;
} Run;

/* Returns where byte `at` of the arena is in the memory of build 0 (plain) or 1 (fast). */
static char *address(const Piece *piece, int build, int64_t at)
{
    const char *map = piece->maps[piece->written ? build : 0];
    return (char *)(uintptr_t)map + page_bytes + (uint64_t)piece->lo % page_bytes +
           (at - piece->lo);
}

static bool overlap(const Piece *piece, const DtHostRange *range)
{
    return piece->arena == range->arena && range->at < piece->hi &&
           piece->lo < range->at + range->bytes;
}

/* Unites ranges of the call's pointers that overlap, directly or through others, into pieces. */
static void find_pieces(Run *run)
{
    for (uint32_t i = 0; i < run->call->n_pointers; i++) {
        const DtHostRange *range = &run->call->pointers[i];
        Piece piece = {.lo = range->at, .hi = range->at + range->bytes, .arena = range->arena,
                       .written = range->written, .type = run->types[i]};
        for (uint32_t k = 0; k < run->n_pieces;) {
            const Piece *other = &run->pieces[k];
            const DtHostRange whole = {piece.arena, piece.written, piece.lo, piece.hi - piece.lo};
            if (!overlap(other, &whole)) {
                k++;
                continue;
            }
            piece.lo = other->lo < piece.lo ? other->lo : piece.lo;
            piece.hi = other->hi > piece.hi ? other->hi : piece.hi;
            piece.written |= other->written;
            piece.type = other->type;
            run->pieces[k] = run->pieces[--run->n_pieces];
            k = 0;
        }
        run->pieces[run->n_pieces++] = piece;
    }
}

static uint64_t map_bytes(const Piece *piece) { return (piece->n_pages + 2) * page_bytes; }

static char *map_piece(const Piece *piece)
{
    char *map =
        mmap(NULL, map_bytes(piece), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (piece->n_pages &&
        mprotect(map + page_bytes, piece->n_pages * page_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, map_bytes(piece));
        return NULL;
    }
    madvise(map, map_bytes(piece), MADV_NOHUGEPAGE);
    return map;
}

static bool map_pieces(Run *run)
{
    find_pieces(run);
    for (uint32_t i = 0; i < run->n_pieces; i++) {
        Piece *piece = &run->pieces[i];
        if (piece->hi - piece->lo > most_bytes)
            return false;
        const uint64_t bytes = (uint64_t)piece->lo % page_bytes + (uint64_t)(piece->hi - piece->lo);
        piece->n_pages = (bytes + page_bytes - 1) / page_bytes;
        piece->known = calloc(piece->n_pages + 1, 1);
        for (int build = 0; build < (piece->written ? 2 : 1); build++)
            if (!piece->known || !(piece->maps[build] = map_piece(piece)))
                return false;
    }
    for (uint32_t i = 0; i < run->call->n_pointers; i++)
        for (uint32_t k = 0; k < run->n_pieces; k++)
            if (overlap(&run->pieces[k], &run->call->pointers[i]) ||
                run->call->pointers[i].bytes == 0)
                for (int build = 0; build < 2; build++)
                    run->pointers[build][i] =
                        address(&run->pieces[k], build, run->call->pointers[i].at);
    return true;
}

static void unmap_pieces(Run *run)
{
    for (uint32_t i = 0; i < run->n_pieces; i++) {
        Piece *piece = &run->pieces[i];
        for (int build = 0; build < 2; build++)
            if (piece->maps[build])
                munmap(piece->maps[build], map_bytes(piece));
        free(piece->known);
        free(piece->pages);
    }
}

/* ---- pages that have been touched ---- */

static bool add_page(Run *run, Piece *piece, uint64_t page)
{
    piece->known[page] = 1;
    if (run->n_pages++ >= MOST_TOUCHED / page_bytes)
        return false;
    if (piece->n == piece->cap) {
        piece->cap = piece->cap ? 2 * piece->cap : 64;
        uint32_t *pages = realloc(piece->pages, piece->cap * sizeof *pages);
        if (!pages)
            return false;
        piece->pages = pages;
    }
    piece->pages[piece->n++] = (uint32_t)page;
    return true;
}

/* Adds pages that a build has touched to the lists of pages, if they are new; *ret_more: there were
 * some. False: there are too many. */
static bool find_touched(Run *run, int build, bool *ret_more)
{
    static unsigned char resident[1 << 16];
    for (uint32_t i = 0; i < run->n_pieces; i++) {
        Piece *piece = &run->pieces[i];
        const char *map = piece->maps[piece->written ? build : 0] + page_bytes;
        for (uint64_t first = 0; first < piece->n_pages; first += sizeof resident) {
            const uint64_t left = piece->n_pages - first,
                           n = left < sizeof resident ? left : sizeof resident;
            if (mincore((void *)(uintptr_t)(map + first * page_bytes), n * page_bytes, resident) !=
                0)
                return false;
            for (uint64_t k = 0; k < n; k++)
                if ((resident[k] & 1) && !piece->known[first + k]) {
                    *ret_more = true;
                    if (!add_page(run, piece, first + k))
                        return false;
                }
        }
    }
    return true;
}

/* ---- numbers ---- */

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64, Steele and others 2014 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0x1p-149f, -0x1p-149f, 0x1p-126f,
                              -0x1p-130f, 1e-30f, -1e-30f, 1e18f, -1e18f, 88.8f, -87.4f, 1.6e7f,
                              65504.0f, 65520.0f, 3e-8f, 2147483648.0f, -2147483904.0f,
                              0.70710677f};
static const float ends[] = {INFINITY, -INFINITY, NAN, -NAN, 0x1.fffffep+127f, -0x1.fffffep+127f};

static float any_float(uint64_t bits, int trial)
{
    const uint32_t which = (uint32_t)(bits >> 32) & 0xffff;
    const float plain = (float)(int32_t)(uint32_t)bits * 0x1p-30f;
    if (trial == 1 && which % 8 == 0)
        return edges[which / 8 % (sizeof edges / sizeof edges[0])];
    if (trial == 1)
        return ldexpf(plain, (int)(which / 8 % 40) - 20);
    if (trial == 2 && which % 64 == 0)
        return ends[which / 64 % (sizeof ends / sizeof ends[0])];
    return plain;
}

static int32_t any_int(uint64_t bits, int trial)
{
    static const int32_t few[] = {-1, INT32_MIN, INT32_MAX, 0, 65536, -7};
    const uint32_t which = (uint32_t)(bits >> 32) & 0xffff;
    if (trial > 0 && which % 8 == 0)
        return few[which / 8 % (sizeof few / sizeof few[0])];
    /* indices, mostly small ones */
    return (int32_t)((uint32_t)bits & ((2u << (which / 8 % (which % 2 ? 20 : 4))) - 1));
}

static void fill_page(char *page, Type type, uint64_t seed, int trial)
{
    uint64_t state = seed;
    for (uint64_t i = 0; type <= INT && type != BF16 && type != F16 && i < page_bytes / 4; i++) {
        const uint64_t bits = next(&state);
        const uint32_t word = type == FLOAT ? dt_half_bits_of_float(any_float(bits, trial))
                                            : (uint32_t)any_int(bits, trial);
        memcpy(page + 4 * i, &word, sizeof word);
    }
    for (uint64_t i = 0; (type == BF16 || type == F16) && i < page_bytes / 2; i++) {
        const float value = any_float(next(&state), trial);
        const uint16_t half = type == BF16 ? dt_half_to_bf16(value) : dt_half_to_f16(value);
        memcpy(page + 2 * i, &half, sizeof half);
    }
    for (uint64_t i = 0; type == BOOL && i < page_bytes; i++)
        page[i] = next(&state) >> 63 ? 1 : 0;
}

static void fill(Run *run)
{
    for (uint32_t i = 0; i < run->n_pieces; i++) {
        Piece *piece = &run->pieces[i];
        for (uint32_t k = 0; k < piece->n; k++) {
            const uint64_t at = page_bytes * ((uint64_t)piece->pages[k] + 1);
            const uint64_t seed =
                ((uint64_t)run->trial << 56) + ((uint64_t)i << 40) + piece->pages[k];
            fill_page(piece->maps[0] + at, piece->type, seed * 0x2545F4914F6CDD1Du, run->trial);
            if (piece->written)
                memcpy(piece->maps[1] + at, piece->maps[0] + at, page_bytes);
        }
    }
}

/* ---- the same? ---- */

static bool is_nan(Type type, const char *at)
{
    uint32_t word = 0;
    memcpy(&word, at, type == FLOAT ? 4 : 2);
    switch (type) {
    case FLOAT: return (word & 0x7fffffff) > 0x7f800000;
    case BF16: return (word & 0x7fff) > 0x7f80;
    case F16: return (word & 0x7fff) > 0x7c00;
    default: return false;
    }
}

static bool same_page(Type type, const char *a, const char *b)
{
    const uint64_t step = type == FLOAT || type == INT ? 4 : type == BOOL ? 1 : 2;
    if (memcmp(a, b, page_bytes) == 0)
        return true;
    for (uint64_t i = 0; i < page_bytes; i += step)
        if (memcmp(a + i, b + i, step) != 0 &&
            (type == INT || type == BOOL || !is_nan(type, a + i) || !is_nan(type, b + i)))
            return false;
    return true;
}

static bool same(const Run *run)
{
    for (uint32_t i = 0; i < run->n_pieces; i++) {
        const Piece *piece = &run->pieces[i];
        for (uint32_t k = 0; piece->written && k < piece->n; k++) {
            const uint64_t at = page_bytes * ((uint64_t)piece->pages[k] + 1);
            if (!same_page(piece->type, piece->maps[0] + at, piece->maps[1] + at))
                return false;
        }
    }
    return true;
}

/* ---- one kernel ---- */

/* Fills ret_types with the types of pointers that the kernel's text declares: "const float *p0 =
 * ...". Sixteen bits are bf16 if the text of the kernel mentions that type. */
static void find_types(const DtHostPair *pair, const DtHostCall *call, Type *ret_types)
{
    char name[300];
    snprintf(name, sizeof name, "void %.200s(", call->symbol);
    const char *from = strstr(pair->text, name), *end = from ? strstr(from, "\n}\n") : NULL;
    const char *bf16 = from ? strstr(from, "_bf16(") : NULL;
    for (uint32_t i = 0; i < call->n_pointers; i++) {
        snprintf(name, sizeof name, " *p%u = ", i);
        const char *at = from ? strstr(from, name) : NULL;
        ret_types[i] = FLOAT;
        if (!at || !end || at > end)
            continue;
        if (at - from > 4 && !strncmp(at - 3, "int", 3))
            ret_types[i] = INT;
        else if (at - from > 4 && !strncmp(at - 4, "char", 4))
            ret_types[i] = BOOL;
        else if (at - from > 5 && !strncmp(at - 5, "short", 5))
            ret_types[i] = bf16 && bf16 < end ? BF16 : F16;
    }
}

static void call_kernel(Run *run, int build)
{
    run->kernels[build](run->pointers[build], run->call->integers[run->trial % DT_HOST_SETS]);
}

/* Calls the plain build, fills the pages that it touched for the first time, and repeats that until
 * there are none. The last call counts. False: too many pages. */
static bool settle(Run *run)
{
    bool more = true;
    for (int i = 0; more && i < GROWTHS; i++) {
        more = false;
        fill(run);
        call_kernel(run, 0);
        if (!find_touched(run, 0, &more))
            return false;
    }
    return true;
}

static DtHostVerdict try_all(Run *run, volatile uint8_t *stage)
{
    bool more = false;
    for (run->trial = 0; run->trial < TRIALS; run->trial++) {
        *stage = DT_HOST_FAULT;
        if (!settle(run))
            return DT_HOST_NO_ROOM;
        *stage = DT_HOST_DIFFERS;
        call_kernel(run, 1);
        if (!find_touched(run, 1, &more))
            return DT_HOST_NO_ROOM;
        if (!same(run))
            return DT_HOST_DIFFERS;
    }
    return DT_HOST_EQUAL;
}

/* Tries the kernel with one call on both builds and returns the verdict. *stage always has a valid
 * verdict, should the process end here. */
static DtHostVerdict try_call(const DtHostPair *pair, const DtHostCall *call, void *const *units,
                              volatile uint8_t *stage)
{
    static Run run;
    memset(&run, 0, sizeof run);
    run.call = call;
    *stage = DT_HOST_FAULT;
    if (call->n_pointers > MAX_POINTERS)
        return DT_HOST_NO_ROOM;
    for (int build = 0; build < 2; build++) {
        *(void **)&run.kernels[build] = dlsym(units[build], call->symbol);
        if (!run.kernels[build])
            return DT_HOST_DIFFERS;
    }
    find_types(pair, call, run.types);
    DtHostVerdict verdict = map_pieces(&run) ? try_all(&run, stage) : DT_HOST_NO_ROOM;
    unmap_pieces(&run);
    return verdict;
}

/* ---- the child ---- */

static void *load(const DtHostBytes *bytes)
{
    char name[64];
    int fd = memfd_create("dtc-compared", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes->at, bytes->len) != (ssize_t)bytes->len)
        return NULL;
    /* stays open: the loader knows libraries by name */
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *unit = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int64_t *most = unit ? dlsym(unit, "dt_most") : NULL;
    if (most)
        *most = SHORT;
    return unit;
}

enum { ENDED = 0, PLAIN_UNLOADABLE = 3, FAST_UNLOADABLE = 4 };

static _Noreturn void child(const DtHostPair *pair, uint32_t first, volatile uint8_t *verdicts,
                            pid_t parent)
{
    static const int ours[] = {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
                               SIGPROF};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        signal(ours[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    page_bytes = dt_page_bytes();
    void *units[2] = {load(&pair->plain), NULL};
    if (!units[0])
        _exit(PLAIN_UNLOADABLE);
    if (!(units[1] = load(&pair->fast)))
        _exit(FAST_UNLOADABLE);
    for (uint32_t i = first; i < pair->n_calls; i++)
        if (pair->calls[i].unit == pair->unit) {
            /* a build may loop without end */
            const struct itimerval most = {.it_value.tv_sec = DT_HOST_SECONDS};
            setitimer(ITIMER_PROF, &most, NULL);
            verdicts[i] = (uint8_t)try_call(pair, &pair->calls[i], units, &verdicts[i]);
        }
    _exit(ENDED);
}

typedef struct Child {
    pid_t pid;
    uint8_t *verdicts; /* shared with it */
    uint32_t crashes;
} Child;

static bool start(const DtHostPair *pair, uint32_t first, Child *to)
{
    const pid_t parent = getpid();
    to->pid = fork();
    if (to->pid == 0)
        child(pair, first, to->verdicts, parent);
    return to->pid > 0;
}

/* Returns the number of the next call to try: after the last one with a verdict. */
static uint32_t after_last(const DtHostPair *pair, const Child *of)
{
    uint32_t next_call = 0;
    for (uint32_t i = 0; i < pair->n_calls; i++)
        if (pair->calls[i].unit == pair->unit && of->verdicts[i] != DT_HOST_NOT_RUN)
            next_call = i + 1;
    return next_call;
}

/* Sets the verdict of a call that took too long. If its plain build was still running, the call is
 * only slow, since that build is not optimised: it is not compared. A fast build that needs longer
 * than the plain one does not end, and counts as endless. */
static void note_endless(DtHostPair *pair, uint8_t *verdict)
{
    if (*verdict == DT_HOST_FAULT)
        *verdict = DT_HOST_NO_ROOM;
    pair->n_endless += *verdict == DT_HOST_DIFFERS;
}

/* Waits until the child has tried all calls. If a call ends it, records that verdict and starts a
 * child for the calls after it. */
static DtStatus finish(DtHostPair *pair, Child *of)
{
    for (;;) {
        int state = 0;
        while (waitpid(of->pid, &state, 0) < 0)
            if (errno != EINTR)
                return dt_status_fail(DT_EXIT_FAILED,
                                      "cannot wait for the comparison of kernels: %s",
                                      strerror(errno));
        if (WIFEXITED(state) && WEXITSTATUS(state) == ENDED)
            return DT_OK;
        pair->unloadable = WIFEXITED(state) && WEXITSTATUS(state) == PLAIN_UNLOADABLE;
        if (pair->unloadable)
            return DT_OK;
        const uint32_t stopped = after_last(pair, of);
        /* by the system, for its memory */
        if (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL && stopped > 0)
            of->verdicts[stopped - 1] = DT_HOST_NO_ROOM;
        /* by DT_HOST_SECONDS */
        if (WIFSIGNALED(state) && WTERMSIG(state) == SIGPROF && stopped > 0)
            note_endless(pair, &of->verdicts[stopped - 1]);
        if (WIFEXITED(state) || ++of->crashes > CRASHES)
            return dt_status_fail(
                DT_EXIT_FAILED, "generated kernels cannot be %s",
                WIFEXITED(state) ? "loaded" : "compared: their machine code does not return");
        if (!start(pair, stopped, of))
            return dt_status_fail(DT_EXIT_RETRY, "cannot start a process that compares kernels: %s",
                                  strerror(errno));
    }
}

static DtStatus begin(const DtHostPair *pair, Child *ret_child)
{
    *ret_child = (Child){.pid = -1};
    ret_child->verdicts =
        mmap(NULL, pair->n_calls + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ret_child->verdicts == MAP_FAILED || !start(pair, 0, ret_child))
        return dt_status_fail(DT_EXIT_RETRY, "cannot start a process that compares kernels: %s",
                              strerror(errno));
    return DT_OK;
}

static DtStatus end(DtHostPair *pair, Child *of)
{
    DtStatus status = of->pid > 0 ? finish(pair, of) : DT_OK;
    for (uint32_t i = 0; of->verdicts != MAP_FAILED && i < pair->n_calls; i++)
        if (pair->calls[i].unit == pair->unit)
            pair->verdicts[i] = of->verdicts[i];
    if (of->verdicts != MAP_FAILED)
        munmap(of->verdicts, pair->n_calls + 1);
    return status;
}

DtStatus dt_hostrun_compare(DtHostPair *pairs, uint32_t n)
{
    DtStatus status = DT_OK, other;
    for (uint32_t i = 0; dt_status_ok(&status) && i < n; i += 2) {
        Child children[2];
        const uint32_t here = n - i < 2 ? 1 : 2;
        uint32_t started = 0;
        while (dt_status_ok(&status) && started < here) {
            status = begin(&pairs[i + started], &children[started]);
            started++;
        }
        for (uint32_t k = 0; k < started; k++) {
            other = end(&pairs[i + k], &children[k]);
            if (dt_status_ok(&status))
                status = other;
        }
    }
    return status;
}
