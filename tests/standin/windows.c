/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include "standin.h"

#include <stdio.h>
#include <stdlib.h>

int cuMemAlloc_v2(uint64_t *ret_at, size_t bytes);
int cuMemFree_v2(uint64_t at);

enum { OK, CUDA = 1, INVALID = 4, PIECES = 64 };

struct Window {
    uint64_t at;
    size_t bytes;
    int flags, number;
    bool is_held;
    Window *next;
};

/* ---- memory ---- */

static struct {
    uint64_t at;
    size_t bytes;
    int windows; /* number of members that hold it */
} pieces[PIECES];

static int piece_of(uint64_t at, size_t bytes)
{
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].at && at >= pieces[i].at && at + bytes <= pieces[i].at + pieces[i].bytes)
            return i;
    return -1;
}

int ncclMemAlloc(uint64_t *ret_at, size_t bytes)
{
    int slot = 0;
    while (slot < PIECES && pieces[slot].at)
        slot++;
    if (slot == PIECES || bytes == 0)
        return INVALID;
    if (cuMemAlloc_v2(ret_at, bytes) != 0)
        return CUDA;
    pieces[slot].at = *ret_at;
    pieces[slot].bytes = bytes;
    return OK;
}

int ncclMemFree(uint64_t at)
{
    const int slot = piece_of(at, 1);
    if (slot < 0 || pieces[slot].at != at)
        return INVALID;
    if (pieces[slot].windows) {
        fprintf(stderr, "stand-in NCCL: memory is given back that has %d windows\n",
                pieces[slot].windows);
        abort();
    }
    pieces[slot].at = 0;
    return cuMemFree_v2(at) == 0 ? OK : CUDA;
}

/* ---- asking, all members the same ---- */

static bool ask(Windows *w, Window *window, Ask what)
{
    const int me = w->ranks[w->me];
    const uint32_t n = atomic_load(&w->asks->n[me]);
    if (n == WINDOWS_ASKS)
        return false;
    w->asks->at[me][n] = what;
    w->asked = window;
    atomic_store(&w->asks->n[me], n + 1);
    return true;
}

bool windows_ask(Windows *w, uint64_t at, size_t bytes, int flags, Window **ret_window)
{
    if (piece_of(at, bytes) < 0 || at % 4096 || bytes == 0 || (flags & ~WINDOWS_SYMMETRIC)) {
        fprintf(stderr, "stand-in NCCL: a window of %zu bytes that ncclMemAlloc did not make\n",
                bytes);
        return false;
    }
    Window *window = calloc(1, sizeof *window);
    *window = (Window){.at = at, .bytes = bytes, .flags = flags, .next = w->first,
                       .number = ++w->made};
    w->first = window;
    w->ret_asked = ret_window;
    return ask(w, window, (Ask){.bytes = bytes, .flags = flags});
}

bool windows_ask_back(Windows *w, Window *window)
{
    const Window *known = w->first;
    while (known && known != window)
        known = known->next;
    if (!known || !window->is_held) {
        fprintf(stderr, "stand-in NCCL: a window is given back that the communicator has not\n");
        return false;
    }
    w->ret_asked = NULL;
    return ask(w, window, (Ask){.number = window->number});
}

static const Ask *ask_of(const Windows *w, int member)
{
    return &w->asks->at[w->ranks[member]][atomic_load(&w->asks->n[w->ranks[w->me]]) - 1];
}

bool windows_wait(const Windows *w)
{
    const uint32_t n = atomic_load(&w->asks->n[w->ranks[w->me]]);
    for (int m = 0; w->asked && m < w->n; m++)
        if (atomic_load(&w->asks->n[w->ranks[m]]) < n)
            return true;
    return false;
}

bool windows_answer(Windows *w)
{
    Window *window = w->asked;
    if (!window)
        return true;
    const Ask *mine = ask_of(w, w->me);
    for (int m = 0; m < w->n; m++) {
        const Ask *other = ask_of(w, m);
        if (other->bytes == mine->bytes && other->flags == mine->flags &&
            other->number == mine->number)
            continue;
        fprintf(stderr,
                "stand-in NCCL: window %d has %zu bytes and flags %d on member %d, %zu and %d on "
                "member %d\n",
                window->number, mine->bytes, mine->flags, w->me, other->bytes, other->flags, m);
        return false;
    }
    const bool is_supported = standin_setting("windowless=", 0) == 0;
    window->is_held = w->ret_asked && is_supported;
    if (is_supported)
        pieces[piece_of(window->at, window->bytes)].windows += w->ret_asked ? 1 : -1;
    if (w->ret_asked)
        *w->ret_asked = is_supported ? window : NULL;
    w->asked = NULL;
    return true;
}

/* ---- collectives ---- */

bool windows_find(const Windows *w, uint64_t at, size_t bytes, Where *ret_where)
{
    *ret_where = (Where){0};
    for (const Window *window = w->first; window; window = window->next) {
        const uint64_t end = window->at + window->bytes;
        if (!window->is_held || at >= end || at + bytes <= window->at)
            continue;
        if (at < window->at || at + bytes > end) {
            fprintf(stderr, "stand-in NCCL: %zu bytes lie partly in window %d\n", bytes,
                    window->number);
            return false;
        }
        *ret_where = (Where){.number = window->number, .flags = window->flags,
                             .offset = at - window->at};
    }
    return true;
}

bool windows_agree(const Where *one, const Where *other)
{
    const bool is_one = one->number == other->number;
    if (is_one && (!(one->flags & WINDOWS_SYMMETRIC) || one->offset == other->offset))
        return true;
    fprintf(stderr,
            "stand-in NCCL: members are at byte %llu of window %d and byte %llu of window %d, "
            "symmetric %d\n",
            (unsigned long long)one->offset, one->number, (unsigned long long)other->offset,
            other->number, one->flags & WINDOWS_SYMMETRIC);
    return false;
}

void windows_drop(Windows *w)
{
    for (Window *window = w->first; window; window = window->next) {
        const int piece = window->is_held ? piece_of(window->at, window->bytes) : -1;
        if (piece >= 0)
            pieces[piece].windows--;
        window->is_held = false;
    }
}

bool windows_end(const Windows *w, int policy)
{
    const char *path = getenv("DT_STANDIN_WINDOWS");
    int symmetric = 0, others = 0;
    for (const Window *window = w->first; window; window = window->next) {
        symmetric += window->flags & WINDOWS_SYMMETRIC;
        others += !(window->flags & WINDOWS_SYMMETRIC);
        if (!window->is_held)
            continue;
        fprintf(stderr, "stand-in NCCL: window %d was never given back\n", window->number);
        return false;
    }
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d %d %d %d %d %d %d\n", w->n, policy, symmetric, others, w->inside,
                w->outside, w->copied);
        fclose(file);
    }
    return true;
}
