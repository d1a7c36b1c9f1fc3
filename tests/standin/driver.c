/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1: the stand-in for the driver (standin.h). */
#include "graph.h"
#include "kir/kir.h"

#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    OK,
    INVALID = 1,
    NO_MEMORY = 2,
    NO_DEVICE = 100,
    BAD_IMAGE = 200,
    ILLEGAL_ADDRESS = 700,
    NOT_FOUND = 500,
    NOT_READY = 600,
    STUB = 34,
    NOT_SUPPORTED = 801,
    RESOURCES = 701,
    WRONG_CONTEXT = 201,
    MOST = 4096
};

/* ---- the machine ---- */

long long standin_setting(const char *name, long long otherwise)
{
    const char *words = getenv("DT_STANDIN"), *at = words ? strstr(words, name) : NULL;
    return at ? atoll(at + strlen(name)) : otherwise;
}

int cuInit(unsigned flags)
{
    return flags ? INVALID : standin_setting("gpus=", 1) > 0 ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *ret_version)
{
    if (standin_setting("stub=", 0)) /* the toolkit's stub, which leaves the number as it was */
        return STUB;
    *ret_version = (int)standin_setting("driver=", 13000);
    return OK;
}

int cuGetErrorString(int error, const char **ret_text)
{
    *ret_text = error == NO_MEMORY             ? "out of memory"
                : error == NO_DEVICE           ? "no CUDA-capable device is detected"
                : error == BAD_IMAGE           ? "device kernel image is invalid"
                : error == NOT_FOUND           ? "named symbol not found"
                : error == CAPTURE_UNSUPPORTED ? "operation not permitted when stream is capturing"
                : error == CAPTURE_INVALIDATED
                    ? "operation failed due to a previous error during capture"
                : error == CAPTURE_UNJOINED ? "capturing stream has unjoined work"
                : error == ILLEGAL_ADDRESS  ? "an illegal memory access was encountered"
                                            : "invalid argument";
    return OK;
}

int cuDeviceGetCount(int *ret_count)
{
    *ret_count = (int)standin_setting("gpus=", 1);
    return OK;
}

int cuDeviceGet(int *ret_device, int ordinal)
{
    *ret_device = ordinal;
    return ordinal >= 0 && ordinal < standin_setting("gpus=", 1) ? OK : INVALID;
}

int cuDeviceGetName(char *ret_name, int bytes, int device)
{
    snprintf(ret_name, (size_t)bytes, "stand-in %d", device % (int)standin_setting("kinds=", 1));
    return OK;
}

int cuDeviceGetAttribute(int *ret_value, int attribute, int device)
{
    (void)device;
    *ret_value = attribute == 75   ? 9
                 : attribute == 97 ? (int)standin_setting("shared=", 232448)
                 : attribute == 16 ? 4
                 : attribute == 38 ? 1 << 20
                                   : 0;
    return OK;
}

static int contexts[64], retained[64], current; /* by device */

int cuDevicePrimaryCtxRetain(void **ret_context, int device)
{
    *ret_context = &contexts[device % 64];
    retained[device % 64]++;
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (device < 0 || !retained[device % 64])
        return INVALID;
    retained[device % 64]--;
    return OK;
}

int cuCtxSetCurrent(void *context)
{
    if (!context || !retained[(int *)context - contexts])
        return WRONG_CONTEXT;
    current = (int)((int *)context - contexts);
    return OK;
}

int standin_device(void) { return current; }

/* ---- memory: nobody can reach it at its address, and work that runs does at another one ---- */

static struct {
    char *at, *real;
    size_t bytes, mapped;
    unsigned number;
} held[MOST];
static size_t in_use;
static unsigned n_allocated;

int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    *ret_total = (size_t)standin_setting("memory=", 1ll << 32);
    *ret_free = *ret_total - in_use;
    return OK;
}

int cuMemAlloc_v2(uint64_t *ret_at, size_t bytes)
{
    if (standin_is_capturing())
        return standin_spoil(CAPTURE_UNSUPPORTED);
    size_t left, total;
    cuMemGetInfo_v2(&left, &total);
    int slot = 0;
    while (slot < MOST && held[slot].at)
        slot++;
    if (bytes == 0 || slot == MOST)
        return INVALID;
    const size_t mapped = (bytes + 65535) / 65536 * 65536;
    const int fd = bytes > left ? -1 : memfd_create("device", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)mapped) != 0)
        return NO_MEMORY;
    char *at = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, fd, 0);
    char *real = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED || real == MAP_FAILED)
        return NO_MEMORY;
    memset(real, 0xcd, bytes); /* memory of a device is not cleared */
    held[slot].at = at;
    held[slot].real = real;
    held[slot].bytes = bytes;
    held[slot].mapped = mapped;
    held[slot].number = n_allocated++;
    in_use += bytes;
    *ret_at = (uint64_t)(uintptr_t)at;
    return OK;
}

/* Writes the contents of freed memory to a file, for DT_STANDIN_LEFT: the file's name consists of
 * that path, the GPU and the number of the allocation. */
static void leave(int i)
{
    char path[4200];
    const char *wanted = getenv("DT_STANDIN_LEFT");
    snprintf(path, sizeof path, "%s.%d.%u", wanted ? wanted : "", current, held[i].number);
    FILE *file = wanted ? fopen(path, "wb") : NULL;
    if (file) {
        fwrite(held[i].real, 1, held[i].bytes, file);
        fclose(file);
    }
}

int cuMemFree_v2(uint64_t at)
{
    if (standin_is_capturing())
        return standin_spoil(CAPTURE_UNSUPPORTED);
    for (int i = 0; i < MOST; i++)
        if (held[i].at && (uint64_t)(uintptr_t)held[i].at == at) {
            leave(i);
            munmap(held[i].at, held[i].mapped);
            munmap(held[i].real, held[i].mapped);
            held[i].at = NULL;
            in_use -= held[i].bytes;
            return OK;
        }
    return INVALID;
}

/* Host memory to which the device may write; the device sees it at another address. */
enum { SEEN = 8, PORTABLE = 1, DEVICE = 2, REGISTERED = 712 };
static const uint64_t elsewhere = 1ull << 62;
static struct {
    char *at;
    size_t bytes;
    bool is_mapped;
} seen[SEEN];

static int seen_at(const char *at, size_t bytes)
{
    for (int i = 0; i < SEEN; i++)
        if (seen[i].at && at >= seen[i].at && at + bytes <= seen[i].at + seen[i].bytes)
            return i;
    return -1;
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    int slot = 0;
    if (standin_setting("unseen=", 0))
        return INVALID;
    while (slot < SEEN && seen[slot].at)
        slot++;
    if (!at || !bytes || flags & ~(PORTABLE | DEVICE) || slot == SEEN)
        return INVALID;
    if (seen_at(at, 1) >= 0)
        return REGISTERED;
    seen[slot].at = at;
    seen[slot].bytes = bytes;
    seen[slot].is_mapped = flags & DEVICE;
    return OK;
}

int cuMemHostUnregister(void *at)
{
    const int slot = seen_at(at, 1);
    if (slot < 0 || seen[slot].at != at)
        return INVALID;
    seen[slot].at = NULL;
    return OK;
}

int cuMemHostGetDevicePointer_v2(uint64_t *ret_at, void *at, unsigned flags)
{
    const int slot = seen_at(at, 1);
    if (slot < 0 || !seen[slot].is_mapped || flags)
        return INVALID;
    *ret_at = (uint64_t)(uintptr_t)at | elsewhere;
    return OK;
}

int cuMemHostAlloc(void **ret_at, size_t bytes, unsigned flags)
{
    if (standin_is_capturing())
        return standin_spoil(CAPTURE_UNSUPPORTED);
    *ret_at = bytes && !flags ? malloc(bytes) : NULL;
    return bytes && !flags ? *ret_at ? OK : NO_MEMORY : INVALID;
}

/* Work on freed memory is dropped: nothing writes there any more. */
int cuMemFreeHost(void *at)
{
    free(at);
    return at ? OK : INVALID;
}

static char *find(uint64_t at, size_t bytes)
{
    if (at & elsewhere) {
        char *host = (char *)(uintptr_t)(at & ~elsewhere);
        return seen_at(host, bytes) >= 0 ? host : NULL;
    }
    char *place = (char *)(uintptr_t)at;
    for (int i = 0; i < MOST; i++)
        if (held[i].at && place >= held[i].at && place + bytes <= held[i].at + held[i].bytes)
            return held[i].real + (place - held[i].at);
    return NULL;
}

void *standin_memory(uint64_t at, size_t bytes)
{
    char *real = find(at, bytes);
    if (real)
        return real;
    fprintf(stderr, "stand-in driver: %zu bytes at %llx are no memory of the device\n", bytes,
            (unsigned long long)at);
    abort();
}

/* ---- streams ---- */

typedef struct Item {
    StandinWork *work; /* or: */
    StandinTry *attempt;
    struct Item *next;
    unsigned long long number; /* number of all work that was begun */
    max_align_t context[];
} Item;

struct Stream {
    Item *first, **last;
    struct Stream *next;
    Capture capture;
};
static Stream *streams; /* list of streams, the newest first */

int cuStreamCreate(Stream **ret_stream, unsigned flags)
{
    (void)flags;
    Stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NO_MEMORY;
    stream->last = &stream->first;
    stream->next = streams;
    *ret_stream = streams = stream;
    return OK;
}

static int fault; /* after an error nothing runs any more */

static int begin(Stream *stream, StandinWork *work, StandinTry *attempt, const void *context,
                 size_t bytes)
{
    if (fault)
        return fault;
    if (stream && stream->capture.graph)
        return standin_capture_add(&stream->capture, work, attempt, context, bytes);
    Item *item = malloc(sizeof *item + bytes);
    if (!stream || !item)
        return INVALID;
    static unsigned long long n_begun;
    item->work = work;
    item->attempt = attempt;
    item->next = NULL;
    item->number = ++n_begun;
    memcpy(item->context, context, bytes);
    *stream->last = item;
    stream->last = &item->next;
    return OK;
}

int standin_begin(Stream *stream, StandinWork *work, const void *context, size_t bytes)
{
    return begin(stream, work, NULL, context, bytes);
}

int standin_begin_try(Stream *stream, StandinTry *attempt, const void *context, size_t bytes)
{
    return begin(stream, NULL, attempt, context, bytes);
}

/* Runs one item, if it can end now. */
static bool advance(Stream *stream)
{
    Item *item = stream->first;
    if (!item || (!fault && item->attempt && !item->attempt(item->context)))
        return false;
    if (!fault && item->work)
        item->work(item->context);
    stream->first = item->next;
    if (!stream->first)
        stream->last = &stream->first;
    free(item);
    return true;
}

/* ---- which stream goes on (standin.h) ---- */

static bool advance_newest(void)
{
    for (Stream *stream = streams; stream; stream = stream->next)
        if (advance(stream))
            return true;
    return false;
}

static bool advance_oldest(Stream *stream)
{
    return stream && (advance_oldest(stream->next) || advance(stream));
}

static void advance_begun(void)
{
    Stream *first = NULL;
    for (Stream *stream = streams; stream; stream = stream->next)
        if (stream->first && (!first || stream->first->number < first->first->number))
            first = stream;
    if (first)
        advance(first);
}

/* Runs some items, as many as a random number says. */
static void advance_some(unsigned seed)
{
    static unsigned state;
    state = state ? state : seed * 2654435761u + (unsigned)current + 1;
    for (Stream *stream = streams; stream; stream = stream->next) {
        state = state * 1664525u + 1013904223u;
        for (unsigned n = (state >> 24) % 6; n > 2 && advance(stream); n--)
            ;
    }
}

/* Lets time pass, since a caller asks for the state. */
static void advance_all(void)
{
    const char *words = getenv("DT_STANDIN");
    const unsigned seed = (unsigned)standin_setting("chance=", 0);
    if (words && strstr(words, "oldest"))
        advance_oldest(streams);
    else if (words && strstr(words, "newest"))
        advance_newest();
    else if (words && strstr(words, "begun"))
        advance_begun();
    else if (seed)
        advance_some(seed);
    else
        for (Stream *stream = streams; stream; stream = stream->next)
            advance(stream);
}

int cuStreamBeginCapture_v2(Stream *stream, int mode)
{
    return mode >= 0 && mode <= 2 ? standin_capture_begin(&stream->capture) : INVALID;
}

int cuStreamEndCapture(Stream *stream, Graph **ret_graph)
{
    enum { STREAMS = 256 };
    Capture *captures[STREAMS];
    int n = 0;
    for (Stream *each = streams; each && n < STREAMS; each = each->next)
        captures[n++] = &each->capture;
    return standin_capture_end(&stream->capture, captures, n, ret_graph);
}

int cuStreamQuery(Stream *stream)
{
    if (stream->capture.graph)
        return standin_spoil(CAPTURE_UNSUPPORTED);
    advance_all();
    return fault ? fault : stream->first ? NOT_READY : OK;
}

static long long n_stream_waits;
long long standin_stream_waits(void) { return n_stream_waits; }

int cuStreamSynchronize(Stream *stream)
{
    n_stream_waits++;
    if (stream->capture.graph)
        return standin_spoil(CAPTURE_UNSUPPORTED);
    while (stream->first)
        advance_all();
    return fault;
}

int cuStreamDestroy_v2(Stream *stream)
{
    cuStreamSynchronize(stream);
    Stream **at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
    return OK;
}

/* ---- events: the time when the stream got there ---- */

typedef struct Event {
    struct timespec at;
    double spent;
    unsigned long long recorded, passed; /* it was recorded this many times */
    bool has_time;
    Graph *graph; /* when it was last recorded, its stream was captured: it belongs to this node */
    int node;
} Event;

typedef struct Mark { /* waits for an event that was recorded this many times */
    Event *event;
    unsigned long long number;
} Mark;

int cuEventCreate(Event **ret_event, unsigned flags)
{
    *ret_event = calloc(1, sizeof **ret_event);
    if (!*ret_event)
        return NO_MEMORY;
    **ret_event = (Event){.has_time = flags == 0};
    return flags & ~2u ? INVALID : OK;
}

int cuEventDestroy_v2(Event *event)
{
    if (event->passed == event->recorded) /* otherwise work still refers to it */
        free(event);
    return OK;
}

static double spent; /* seconds for which nobody has waited yet */

void standin_spend(double seconds) { spent += seconds; }

static void do_record(const void *context)
{
    const Mark *mark = context;
    clock_gettime(CLOCK_MONOTONIC, &mark->event->at);
    mark->event->spent = spent;
    if (mark->number > mark->event->passed)
        mark->event->passed = mark->number;
}

int cuEventRecord(Event *event, Stream *stream)
{
    event->graph = stream->capture.graph;
    event->node = stream->capture.tail;
    if (event->graph)
        return OK;
    return standin_begin(stream, do_record, &(Mark){event, ++event->recorded}, sizeof(Mark));
}

static bool has_passed(const void *context)
{
    const Mark *mark = context;
    return mark->event->passed >= mark->number;
}

/* Waits for what the event recorded; if nothing was recorded, the wait has no effect. */
int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags)
{
    static long long n_waits;
    const char *words = getenv("DT_STANDIN");
    n_waits += current == standin_setting("only=", current);
    if (flags)
        return INVALID;
    if (event->graph)
        return standin_capture_join(&stream->capture, event->graph, event->node);
    if (stream->capture.graph)
        return standin_spoil(CAPTURE_ISOLATION);
    if ((n_waits && n_waits == standin_setting("deaf=", 0)) ||
        (words && strstr(words, stream->next ? "deaf_others" : "deaf_oldest")))
        return OK;
    return standin_begin_try(stream, has_passed, &(Mark){event, event->recorded}, sizeof(Mark));
}

/* Whether a caller that asks for an event is told that it has happened (hasty=1). */
static bool is_hasty(void) { return standin_setting("hasty=", 0) != 0; }

int cuEventQuery(const Event *event)
{
    if (event->graph)
        return standin_spoil(CAPTURED_EVENT);
    if (is_hasty())
        return OK;
    advance_all();
    return fault ? fault : event->passed == event->recorded ? OK : NOT_READY;
}

int cuEventSynchronize(const Event *event)
{
    if (event->graph)
        return standin_spoil(CAPTURED_EVENT);
    while (event->passed != event->recorded && !fault && !is_hasty())
        advance_all();
    return fault;
}

int cuEventElapsedTime(float *ret_ms, const Event *from, const Event *to)
{
    if (!from->has_time || !to->has_time)
        return INVALID;
    if (from->passed != from->recorded || to->passed != to->recorded)
        return NOT_READY;
    *ret_ms = (float)((to->spent - from->spent + (double)(to->at.tv_sec - from->at.tv_sec)) * 1e3 +
                      (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
    return OK;
}

/* ---- copies ---- */

typedef struct Move {
    uint64_t to, from;
    size_t bytes;
} Move;

static void do_put(const void *context)
{
    const Move *m = context;
    memcpy(standin_memory(m->to, m->bytes), (const void *)(uintptr_t)m->from, m->bytes);
}

static void do_get(const void *context)
{
    const Move *m = context;
    memcpy((void *)(uintptr_t)m->to, standin_memory(m->from, m->bytes), m->bytes);
}

static void do_copy(const void *context)
{
    const Move *m = context;
    char *to = standin_memory(m->to, m->bytes), *from = standin_memory(m->from, m->bytes);
    for (size_t i = m->bytes; i-- > 0;) /* copies that overlap give wrong results, as the driver
                                         * allows */
        to[i] = from[i];
}

static void do_set(const void *context)
{
    const Move *m = context;
    memset(standin_memory(m->to, m->bytes), (int)m->from, m->bytes);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *stream)
{
    return standin_begin(stream, do_put, &(Move){to, (uint64_t)(uintptr_t)from, bytes},
                         sizeof(Move));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *stream)
{
    return standin_begin(stream, do_get, &(Move){(uint64_t)(uintptr_t)to, from, bytes},
                         sizeof(Move));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream *stream)
{
    return standin_begin(stream, do_copy, &(Move){to, from, bytes}, sizeof(Move));
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream *stream)
{
    return standin_begin(stream, do_set, &(Move){to, value, bytes}, sizeof(Move));
}

static void do_write(const void *context)
{
    const Move *m = context;
    const uint32_t value = (uint32_t)m->from;
    memcpy(standin_memory(m->to, sizeof value), &value, sizeof value);
}

int cuStreamWriteValue32_v2(Stream *stream, uint64_t to, uint32_t value, unsigned flags)
{
    if (standin_setting("unwritten=", 0))
        return NOT_SUPPORTED;
    return flags || to % sizeof value
               ? INVALID
               : standin_begin(stream, do_write, &(Move){to, value, sizeof value}, sizeof(Move));
}

/* Copies rows between two places of the device, which do not overlap. */
typedef struct Side {
    size_t x, y;
    int kind;
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch;
} Side;
typedef struct Rows {
    Side from, to;
    size_t bytes, rows;
} Rows;

static void do_copy_rows(const void *context)
{
    const Rows *r = context;
    for (size_t i = 0; i < r->rows; i++)
        memcpy(standin_memory(r->to.device + i * r->to.pitch, r->bytes),
               standin_memory(r->from.device + i * r->from.pitch, r->bytes), r->bytes);
}

int cuMemcpy2DAsync_v2(const Rows *r, Stream *stream)
{
    const Side *sides[] = {&r->from, &r->to};
    for (int i = 0; i < 2; i++)
        if (sides[i]->kind != 2 || sides[i]->x || sides[i]->y || sides[i]->pitch < r->bytes)
            return INVALID;
    return standin_begin(stream, do_copy_rows, r, sizeof *r);
}

/* ---- kernels: an image is a shared object, whose functions take pointers and integers and do all
 * of a launch; or the text of kernel IR, which is interpreted (kir/kir.h) ---- */

typedef void Kernel(char *const *p, const long *q);

struct Module {
    void *handle;
    DtKirImage *text;
    int fd;
};

/* Returns the size of the image: up to the end of the section table, which linkers put last. */
static size_t length_of(const void *image)
{
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    return memcmp(head.e_ident, ELFMAG, SELFMAG) == 0
               ? head.e_shoff + (size_t)head.e_shnum * head.e_shentsize
               : 0;
}

int cuModuleLoadData(struct Module **ret_module, const void *image)
{
    if (standin_is_capturing())
        return standin_spoil(CAPTURE_UNSUPPORTED);
    if (standin_setting("old=", 0))
        return BAD_IMAGE;
    char name[64];
    const size_t bytes = length_of(image);
    struct Module *module = calloc(1, sizeof *module);
    if (!module)
        return NO_MEMORY;
    *ret_module = module;
    module->fd = -1;
    if (memcmp(image, "/* ", 3) == 0) {
        char why[200];
        module->text = dt_kir_read(image, strlen(image), why, sizeof why);
        if (!module->text)
            fprintf(stderr, "stand-in driver: %s\n", why);
        return module->text ? OK : BAD_IMAGE;
    }
    module->fd = memfd_create("image", MFD_CLOEXEC);
    snprintf(name, sizeof name, "/proc/self/fd/%d", module->fd);
    if (bytes && write(module->fd, image, bytes) == (ssize_t)bytes)
        module->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return module->handle ? OK : BAD_IMAGE;
}

int cuModuleUnload(struct Module *module)
{
    if (module->handle)
        dlclose(module->handle);
    if (module->fd >= 0)
        close(module->fd);
    dt_kir_free(module->text);
    free(module);
    return OK;
}

typedef struct Function {
    Kernel *kernel;
    DtKirKernel *text; /* if the kernel is interpreted, the first of its two launches does
                        * everything */
    bool is_second;
    int counts[2]; /* numbers of pointers and integers, which the image has as NAME_counts */
    int shared;    /* bytes of shared memory that its blocks may use beyond the default limit */
} Function;

/* Finds the text of a kernel. "dt_k3_pieces" and "dt_k3_finish" are the two launches of a kernel in
 * pieces; both get the address of a workspace. */
static int find_text(Function **ret_function, const struct Module *module, const char *name)
{
    char symbol[100];
    const char *suffix = strstr(name, "_pieces")   ? "_pieces"
                         : strstr(name, "_finish") ? "_finish"
                                                   : "";
    snprintf(symbol, sizeof symbol, "%.*s", (int)(strlen(name) - strlen(suffix)), name);
    DtKirKernel *kernel = dt_kir_find(module->text, symbol);
    const bool fits = kernel && dt_kir_is_in_pieces(kernel) == (*suffix != 0);
    Function *function = fits ? calloc(1, sizeof *function) : NULL;
    if (!function)
        return NOT_FOUND;
    function->text = kernel;
    function->is_second = strcmp(suffix, "_finish") == 0;
    function->counts[0] = (int)dt_kir_pointers(kernel) + (*suffix != 0);
    function->counts[1] = (int)dt_kir_integers(kernel);
    for (int i = 0; i < 2; i++) /* the struct has a member for each kind of argument */
        function->counts[i] += function->counts[i] == 0;
    *ret_function = function;
    return OK;
}

int cuModuleGetFunction(Function **ret_function, struct Module *module, const char *name)
{
    char counts[300];
    if (module->text)
        return find_text(ret_function, module, name);
    snprintf(counts, sizeof counts, "%s_counts", name);
    const int *n = dlsym(module->handle, counts);
    Function *function = calloc(1, sizeof *function);
    if (function)
        *(void **)&function->kernel = dlsym(module->handle, name);
    if (!function || !function->kernel || !n) {
        free(function);
        return NOT_FOUND;
    }
    memcpy(function->counts, n, sizeof function->counts);
    *ret_function = function; /* never freed: it lives as long as the process */
    return OK;
}

int cuFuncSetAttribute(Function *function, int attribute, int value)
{
    if (!function || attribute != 8 || value < 0 || value > standin_setting("shared=", 232448))
        return INVALID;
    function->shared = value;
    return OK;
}

enum { ARGUMENTS = 512, USUAL = 48 << 10 }; /* bytes of shared memory of a block; arguments have 4
                                             * KiB */
typedef struct Launch {
    Function function;
    uint64_t arguments[ARGUMENTS]; /* pointers first, then integers */
} Launch;

static void do_fault(const void *context)
{
    (void)context;
    fault = ILLEGAL_ADDRESS;
}

static bool do_hang(const void *context)
{
    (void)context;
    return false;
}

/* Returns the distances from the real address of an argument to both ends of the allocation that
 * contains it. */
static DtKirRange range_of(const char *real)
{
    for (int i = 0; i < MOST; i++)
        if (held[i].at && real >= held[i].real && real <= held[i].real + held[i].bytes)
            return (DtKirRange){held[i].real - real, held[i].real + held[i].bytes - real};
    return (DtKirRange){0, 0};
}

static void interpret(Launch *l)
{
    DtKirRange ranges[ARGUMENTS];
    char *const *pointers = (char *const *)(void *)l->arguments;
    for (uint32_t i = 0; i < dt_kir_pointers(l->function.text); i++)
        ranges[i] = range_of(pointers[i]);
    const uint64_t *integers = l->arguments + l->function.counts[0];
    const DtKirCall call = {.pointers = pointers,
                            .integers = (const int64_t *)(const void *)integers,
                            .ranges = ranges,
                            .step_lies_there = true};
    if (!l->function.is_second && !dt_kir_run(l->function.text, &call))
        fault = ILLEGAL_ADDRESS;
}

/* Launches a kernel. Integers may be addresses, too: that of the number of the step. */
static void do_launch(const void *context)
{
    Launch l = *(const Launch *)context;
    for (int i = 0; i < l.function.counts[0] + l.function.counts[1]; i++) {
        char *real = find(l.arguments[i], 0);
        /* for a kernel without any: nothing */
        l.arguments[i] = real ? (uint64_t)(uintptr_t)real : l.arguments[i];
    }
    const long long ms = standin_setting("sleeps=", 0);
    if (ms)
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    if (l.function.text) {
        interpret(&l);
        return;
    }
    l.function.kernel((char *const *)(void *)l.arguments,
                      (const long *)(void *)(l.arguments + l.function.counts[0]));
}

int cuLaunchKernel(Function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   Stream *stream, void **parameters, void **extra)
{
    const int n = function->counts[0] + function->counts[1];
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || extra || n > ARGUMENTS)
        return INVALID;
    if (shared_bytes > (unsigned)(function->shared > USUAL ? function->shared : USUAL))
        return INVALID; /* more than a block gets without asking for it */
    if (!retained[current])
        return WRONG_CONTEXT;
    if (standin_setting("registers=", 0) * block_x > 65536)
        return RESOURCES;
    static long long n_launches;
    Launch launch = {.function = *function};
    const bool is_concerned = current == standin_setting("only=", current);
    n_launches += is_concerned;
    if (is_concerned && n_launches == standin_setting("die=", 0))
        raise(SIGKILL);
    if (is_concerned && n_launches == standin_setting("hang=", 0))
        return standin_begin_try(stream, do_hang, &launch, sizeof launch);
    if (is_concerned && n_launches == standin_setting("fault=", 0))
        return standin_begin(stream, do_fault, &launch, sizeof launch);
    memcpy(launch.arguments, parameters[0], (size_t)n * sizeof launch.arguments[0]);
    return standin_begin(stream, do_launch, &launch, sizeof launch);
}
