/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR (codegen/kernel.h) as text, and an interpreter of it: the code of target `interpreted`,
 * and the slow, plain reference of the printers for processors and for GPUs, with the same bits.
 * docs/kernels.md has the grammar.
 *
 *   read.c     text -> DtKirKernel; the text is hostile: every number has bounds
 *   prepare.c  which nodes are evaluated where in the loops of a kernel; its scratch memory
 *   eval.c     nodes and stores of up to 64 neighbouring points; how lanes are combined
 *   run.c      the loops of rows, columns, scans, top-k and sums by index
 *   attend.c   attention
 *
 * A kernel has its own scratch memory, so one thread at a time runs it. Everything is plain C
 * without the rest of the compiler, so that a stand-in of a GPU's driver can have it, too. */
#ifndef DT_KIR_KIR_H
#define DT_KIR_KIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtKirImage DtKirImage;
typedef struct DtKirKernel DtKirKernel;

/* Reads all kernels of a text of len bytes. NULL after an error; then ret_why, of size bytes, has
 * the error and its line. */
DtKirImage *dt_kir_read(const char *text, size_t len, char *ret_why, size_t size);
void dt_kir_free(DtKirImage *image);

DtKirKernel *dt_kir_find(const DtKirImage *image,
                         const char *symbol); /* NULL: the text has no kernel of that name */
uint32_t dt_kir_pointers(const DtKirKernel *kernel);
uint32_t dt_kir_integers(const DtKirKernel *kernel);
/* "f32", "i32", ..: of what stands at that address */
const char *dt_kir_dtype(const DtKirKernel *kernel, uint32_t pointer);
bool dt_kir_is_in_pieces(const DtKirKernel *kernel); /* whether a GPU runs the kernel in two
                                                      * launches */

/* The memory that a kernel may access around an address, as offsets from there. */
typedef struct DtKirRange {
    int64_t from, to;
} DtKirRange;

typedef struct DtKirCall {
    char *const *pointers;
    const int64_t *integers;
    const DtKirRange *ranges; /* by pointer argument; NULL: accesses are not checked */
    bool step_lies_there;     /* the argument for the step's number is the address of that number */
    int64_t most; /* the most points and elements that the kernel may process; 0: no limit */
} DtKirCall;

/* Runs the kernel. False if it was stopped: by an access outside of the ranges (which was not
 * done), or after `most` points. */
bool dt_kir_run(DtKirKernel *kernel, const DtKirCall *call);

#endif
