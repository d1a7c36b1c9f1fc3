/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host that the GPU reads and writes by itself (page-locked).
 *
 * A *ring* holds data for the GPU: a writer continues while its bytes are copied, and a piece of
 * the ring is reused when its copy is done. *Cells* receive scalars from the GPU as soon as they
 * are computed, while later instructions still run. Neither waits longer than necessary, so the
 * GPU never runs out of work. */
#ifndef DT_RUNTIME_CUDA_HOST_H
#define DT_RUNTIME_CUDA_HOST_H

#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

typedef struct DtCudaHost DtCudaHost;

/* stream: on which all copies run. lends: bytes that can be lent at the same time. The caller must
 * close *ret_host even after a failure. */
DtStatus dt_cuda_host_open(DtRank *rank, const DtCudaDriver *driver, DtCudaStream *stream,
                           int64_t lends, DtCudaHost **ret_host);
/* Called when no work is left on the stream. */
void dt_cuda_host_close(DtCudaHost *host);

/* Copies the bytes before it returns; later work on the device sees them. False: the rank has
 * failed. */
bool dt_cuda_host_put(DtCudaHost *host, DtDeviceAt to, const void *from, int64_t bytes);

/* Lends memory of the ring: the caller writes bytes there, then sends or drops them. NULL: none is
 * free now. */
char *dt_cuda_host_lend(DtCudaHost *host, int64_t bytes);
bool dt_cuda_host_send(DtCudaHost *host, char *lent, DtDeviceAt to, int64_t bytes);
void dt_cuda_host_drop(DtCudaHost *host, char *lent);

/* The first copies up to 8 bytes into a cell, whose number is below DT_DEVICE_CELLS, when all
 * earlier work is done. The second waits for that copy and reads the cell. */
bool dt_cuda_host_note(DtCudaHost *host, uint32_t cell, DtDeviceAt from, int64_t bytes);
bool dt_cuda_host_noted(DtCudaHost *host, uint32_t cell, void *to, int64_t bytes);

#endif
