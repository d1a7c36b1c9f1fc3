/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host that the GPU reads and writes by itself (page-locked).
 *
 * A *ring* holds data for the GPU: a writer continues while its bytes are copied, and a piece of
 * the ring
 * is reused when its copy is done. *Cells* receive scalars from the GPU as soon as they are
 * computed, while
 * later instructions still run. Neither waits longer than necessary, so the GPU never runs out
 * of work. */
#ifndef DT_RUNTIME_CUDA_HOST_H
#define DT_RUNTIME_CUDA_HOST_H

#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

typedef struct DtCudaHost DtCudaHost;

/* stream: of all copies. lends: bytes that are lent at one time. The caller closes *ret_host after
 * a failure too. */
DtStatus dt_cuda_host_open(DtRank *rank, const DtCudaDriver *driver, DtCudaStream *stream,
                           int64_t lends, DtCudaHost **ret_host);
/* When nothing runs on the stream any more. */
void dt_cuda_host_close(DtCudaHost *host);

/* Copies the bytes before it returns; later work on the device sees them. False: the rank has
 * failed. */
bool dt_cuda_host_put(DtCudaHost *host, DtDeviceAt to, const void *from, int64_t bytes);

/* Room for bytes that are written there and then sent, or dropped. NULL: there is none now. */
char *dt_cuda_host_lend(DtCudaHost *host, int64_t bytes);
bool dt_cuda_host_send(DtCudaHost *host, char *lent, DtDeviceAt to, int64_t bytes);
void dt_cuda_host_drop(DtCudaHost *host, char *lent);

/* Cell `cell`, below DT_DEVICE_CELLS, gets up to 8 bytes when all that was begun before is done;
 * and waits for them. */
bool dt_cuda_host_note(DtCudaHost *host, uint32_t cell, DtDeviceAt from, int64_t bytes);
bool dt_cuda_host_noted(DtCudaHost *host, uint32_t cell, void *to, int64_t bytes);

#endif
