/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks for oneDNN without the allocator. Executing a primitive makes and drops a few C++
 * objects of at most 224 bytes each time; its C interface offers no way around that. So this
 * program supplies C++'s `operator new` and `operator delete` (replacing them is part of the C++
 * standard): blocks that were dropped wait in lists by size, per thread, and after the first steps
 * every request is served from them. Large blocks go to malloc. The program must export these
 * symbols (meson: export_dynamic). Sanitizers bring operators of their own; their builds use
 * those. */
#include "runtime/new_pool.h"

#include <stdio.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { STEP = 64, CLASSES = 16 }; /* up to 1024 bytes */

/* In front of each block; keeps blocks aligned to 16 bytes. */
typedef struct Head {
    struct Head *next;
    size_t class; /* CLASSES: from malloc, not kept */
} Head;

_Static_assert(sizeof(Head) == 16, "blocks stay aligned");

static _Thread_local Head *kept[CLASSES];

void *dt_new_pool_take(size_t bytes) __asm__("_Znwm");
void dt_new_pool_drop(void *block) __asm__("_ZdlPv");
void dt_new_pool_drop_sized(void *block, size_t bytes) __asm__("_ZdlPvm");

void *dt_new_pool_take(size_t bytes)
{
    size_t class = bytes == 0 ? 0 : (bytes - 1) / STEP;
    Head *head = class < CLASSES ? kept[class] : NULL;
    if (head) {
        kept[class] = head->next;
        return head + 1;
    }
    size_t room = class < CLASSES ? (class + 1) * STEP : bytes;
    head = room <= SIZE_MAX - sizeof *head ? malloc(room + sizeof *head) : NULL;
    if (head == NULL) {
        fputs("no memory left\n", stderr); /* C++ would throw; nobody here could catch */
        abort();
    }
    head->class = class < CLASSES ? class : CLASSES;
    return head + 1;
}

void dt_new_pool_drop(void *block)
{
    if (block == NULL)
        return;
    Head *head = (Head *)block - 1;
    if (head->class == CLASSES) {
        free(head);
        return;
    }
    head->next = kept[head->class];
    kept[head->class] = head;
}

void dt_new_pool_drop_sized(void *block, size_t bytes)
{
    (void)bytes;
    dt_new_pool_drop(block);
}

#endif

void dt_new_pool_link(void) {}
