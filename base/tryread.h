/* SPDX-License-Identifier: Apache-2.0 */
/* Reading memory that is mapped from a file. If somebody cuts the file short meanwhile, the kernel
 * answers an access to a page after its new end with SIGBUS, which would end the process without
 * the file's name. */
#ifndef DT_BASE_TRYREAD_H
#define DT_BASE_TRYREAD_H

#include "base/file.h"

/* Calls read(context), which reads memory of the view and nothing else that could be missing, and
 * must hold nothing that would have to be given back. Returns NULL, or the address in the view that
 * could not be read; read() was left there. Other threads may do the same at the same time. */
const uint8_t *dt_tryread(const DtFileView *view, void (*read)(void *), void *context);
/* The same for a copy of len bytes of the view, which begin at `from`. */
const uint8_t *dt_tryread_copy(const DtFileView *view, void *to, const uint8_t *from, size_t len);

#endif
