/* SPDX-License-Identifier: Apache-2.0 */
/* Several tasks of a launcher on one host (launch.h): the first one starts the ranks of the host,
 * the others wait until the run ends. So a host has one supervisor, whatever started it. A rank has
 * the processors of its task, and the host's ranks have the GPUs of all tasks. The tasks are
 * connected by sockets: each side notices when the other one ends. */
#ifndef DT_RUNTIME_TASKS_H
#define DT_RUNTIME_TASKS_H

#include "runtime/launch.h"

typedef struct DtTasks DtTasks;

/* In the first task: waits for the others of the host, and takes over their GPUs
 * (CUDA_VISIBLE_DEVICES). words: hash of the command line, which all must have. Fails if one does
 * not come within a minute, or has another command line. */
DtStatus dt_tasks_gather(const DtLaunch *launch, uint64_t words, DtTasks **ret_tasks);

/* In each of the others: waits for the end of the run, hands on signals, and returns the exit code
 * of the run. */
int dt_tasks_follow(const DtLaunch *launch, uint64_t words);

/* Around the start of rank number `rank` of this host: gives this process the processors of its
 * task, and its own back. tasks NULL: nothing. */
void dt_tasks_enter(const DtTasks *tasks, uint32_t rank);
void dt_tasks_leave(const DtTasks *tasks);

/* Returns without waiting: the number of a signal that a task has received; -1 if a task has ended,
 * whose number is then in ret_task; 0: nothing has happened. */
int dt_tasks_hear(DtTasks *tasks, int64_t *ret_task);

/* Tells the other tasks the exit code, and frees tasks. */
void dt_tasks_end(DtTasks *tasks, int code);

#endif
