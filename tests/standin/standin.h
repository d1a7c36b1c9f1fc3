/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for CUDA's libraries: shared objects with their names and functions, whose device is this process. What is
 * begun on a stream runs late, when something waits for it, and not before. Memory of the
 * device lies at another place for such work: host code that follows an address of it ends.
 *
 * DT_STANDIN: words that change the machine: gpus=N, memory=BYTES, driver=VERSION, nccl=VERSION, order=1: sums between
 * ranks begin at another rank; fault=N, hang=N, die=N: the Nth kernel that a process begins touches what it may not,
 * never ends, ends the process; only=G: of processes that have GPU number G. */
#ifndef DT_TESTS_STANDIN_H
#define DT_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Stream Stream;

/* Work of a library on a stream: a copy of `bytes` bytes of context is kept until it runs. */
typedef void StandinWork(const void *context);
int standin_begin(Stream *stream, StandinWork *work, const void *context, size_t bytes);

/* Work that may have to be tried again: true when it has ended. What is behind it on the stream waits; time goes by
 * when somebody waits for a stream, or asks. */
typedef bool StandinTry(const void *context);
int standin_begin_try(Stream *stream, StandinTry *attempt, const void *context, size_t bytes);

int standin_device(void); /* of the context that is current */
/* The number behind such a word of DT_STANDIN ("gpus="). */
long long standin_setting(const char *name, long long otherwise);

/* The memory behind an address of the device, for work; ends the process if no allocation holds all of it. */
void *standin_memory(uint64_t at, size_t bytes);

#endif
