/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with large stacks. In a program of a hundred thousand statements, each of which uses the
 * one before, code that follows these uses recurses a hundred thousand calls deep. The stack costs
 * address space only: the system gives a page memory when it is first touched. */
#include "base/stack.h"

#include "base/intern.h"

#include <stddef.h>

bool dt_stack_start(void *(*run)(void *data), void *data, pthread_t *ret_thread)
{
    static const size_t sizes[] = {(size_t)1 << 30, (size_t)1 << 28, (size_t)1 << 26,
                                   (size_t)1 << 23};
    bool runs = false;
    for (size_t i = 0; !runs && i < sizeof sizes / sizeof sizes[0]; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        runs = pthread_attr_setstacksize(&attributes, sizes[i]) == 0 &&
               pthread_create(ret_thread, &attributes, run, data) == 0;
        pthread_attr_destroy(&attributes);
    }
    return runs;
}

typedef struct Deep {
    void (*work)(void *data);
    void *data;
} Deep;

static void *work_apart(void *data)
{
    const Deep *deep = data;
    deep->work(deep->data);
    dt_intern_forget(); /* each thread has its own names */
    return NULL;
}

void dt_stack_run(void (*work)(void *data), void *data)
{
    Deep deep = {work, data};
    pthread_t thread;
    if (dt_stack_start(work_apart, &deep, &thread))
        pthread_join(thread, NULL);
    else
        work(data);
}
