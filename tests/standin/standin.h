/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for CUDA's libraries: shared objects with their names and functions, whose device is
 * this process. What is begun on a stream runs late, when something waits for it, and not before.
 * Memory of the device lies at another place for such work: host code that follows an address of it
 * ends.
 *
 * DT_STANDIN: words that change the machine: gpus=N, memory=BYTES, driver=VERSION, nccl=VERSION,
 * order=1: sums between ranks begin at another rank; fault=N, hang=N, die=N: the Nth kernel that a
 * process begins touches what it may not, never ends, ends the process; only=G: of processes that
 * have GPU number G.
 *
 * Streams take turns when somebody asks or waits; oldest: the oldest goes on as far as it can
 * before another does, so what waits for queues runs early; newest: the other way round, so queues
 * run early; chance=SEED: as it comes; begun: all work is done one by one in the order in which it
 * was begun, on whatever stream, as a device may that has one queue. resident=N: so many kernels of
 * NCCL, which wait for other ranks, leave no room for another one (0: any number has). deaf=N: the
 * Nth wait of a stream for an event is none; deaf_oldest, deaf_others: all of the oldest, of
 * others. fast=N, fastG=N: the algorithm of products that is the fastest, on GPU number G;
 * stubborn=G: that GPU takes it, whatever it is told; gone=N, goneG=N: it is none of that GPU's;
 * patch=N: of cuBLASLt's version; kinds=N: GPUs have N different names in turn.
 * refuses=E, refusesG=E: the epilogue (cublasLtEpilogue_t) that products cannot have; slow=E,
 * slowG=E: one that takes ten seconds; 4096: each that is more than nothing.
 * sleeps=MS: each kernel takes so many milliseconds more, in which the processor has nothing to do.
 * unseen=1: no memory of the host can be written by the device.
 * spills=BYTES: what kernels spill, as the compiler says.
 * units=1: code adds products of 16-bit tiles in another order, and its exponentials of them are
 * off by 2^-21, as those of another machine may be; units=2: a product of each sum is missing;
 * units=3: exponentials are off by 2^-7. upset=N: the communicator of the Nth collective, or group
 * of messages, of a process is in error when the device comes to it.
 * windowless=1: NCCL has no windows here. DT_STANDIN_WINDOWS=PATH: each communicator that is given
 * up adds a line: members, policy, windows whose flag is symmetric, others; collectives whose
 * memory is in windows, in none; of the first, those by copy engines.
 * DT_STANDIN_LEFT=PATH: what memory holds when it is given back is left in PATH.G.NUMBER of the
 * allocation. send_fails=N: the Nth send of a process is refused by NCCL. unwritten=1: the driver
 * has no stream memory operations. stub=1: the driver is the toolkit's stub. old=1: it loads no
 * code of the compiler. shared=BYTES: what a block's threads share at most, if asked for; 48 KiB if
 * not. registers=N: what a thread of each kernel has, of 65,536. message_dies=N, message_hangs=N:
 * the Nth message of a process ends it when the device has come to it, never ends. */
#ifndef DT_TESTS_STANDIN_H
#define DT_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Stream Stream;

/* Puts work of a library on a stream. A copy of `bytes` bytes of context is kept until it runs. */
typedef void StandinWork(const void *context);
int standin_begin(Stream *stream, StandinWork *work, const void *context, size_t bytes);

/* Work that may have to be tried several times: it returns true when it has ended. Until then, work
 * after it on the stream waits. Time passes when somebody waits for a stream, or asks for its
 * state. */
typedef bool StandinTry(const void *context);
int standin_begin_try(Stream *stream, StandinTry *attempt, const void *context, size_t bytes);

/* The work that is running takes this many seconds more, on the device's clock. */
void standin_spend(double seconds);

int standin_device(void); /* the GPU of the current context */
/* The number after such a word of DT_STANDIN ("gpus="). */
long long standin_setting(const char *name, long long otherwise);

/* The host memory behind an address of the device, for work; ends the process if no allocation
 * contains all of it. */
void *standin_memory(uint64_t at, size_t bytes);

#endif
