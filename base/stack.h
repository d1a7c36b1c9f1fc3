/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for work that recurses as deep as programs are long (stack.c). */
#ifndef DT_BASE_STACK_H
#define DT_BASE_STACK_H

#include <pthread.h>
#include <stdbool.h>

/* Starts run(data) in a thread with a stack of 1 GiB, or of less if the address space is limited
 * (ulimit -v). False if the system gives no thread. */
bool dt_stack_start(void *(*run)(void *data), void *data, pthread_t *ret_thread);

/* Runs work(data) in such a thread, or in the present one if the system gives none, and waits for
 * its end. */
void dt_stack_run(void (*work)(void *data), void *data);

#endif
