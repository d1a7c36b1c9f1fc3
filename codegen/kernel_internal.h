/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by kernel.c (nodes, space, stores) and kernel_map.c (index maps of axis ops). */
#ifndef DT_CODEGEN_KERNEL_INTERNAL_H
#define DT_CODEGEN_KERNEL_INTERNAL_H

#include "base/intern.h"
#include "codegen/kernel.h"

typedef struct DtKKnown {
    const DtValue *value;
    uint32_t node;
} DtKKnown;

typedef struct DtKBuild {
    const DtKernelInput *in;
    DtKernel *k;
    const DtOp *op; /* being built: for messages and comments */
    DT_VEC(DtKKnown) known;
} DtKBuild;

_Noreturn void dt_kernel_fail(const DtKBuild *b, const DtOp *op, const char *why);
uint32_t dt_kernel_node(DtKBuild *b, DtKNode node);
uint32_t dt_kernel_value(DtKBuild *b, const DtValue *value);
uint32_t dt_kernel_map(DtKBuild *b, DtOpKind kind, DtDtype dtype, uint32_t n, const uint32_t *args);
uint32_t dt_kernel_number(DtKBuild *b, DtDtype dtype, double number);
int dt_kernel_axis(const DtKBuild *b, const char *axis);
DtKIndex dt_kernel_identity(const DtKBuild *b, const char *axis);
uint32_t dt_kernel_load(DtKBuild *b, const DtValue *value, const DtView *view,
                        const DtKIndex *indices, double outside);
/* The integer argument with the first local index of type's axis on this rank; DT_KNONE if it is
 * not split. */
uint32_t dt_kernel_base(DtKBuild *b, const DtType *type, const char *axis);

/* dt_kernel_pointer_in: the argument with the address of a value; dt_kernel_pointer_out: of an
 * output, with the value that is stored. */
uint32_t dt_kernel_pointer(DtKBuild *b, const DtValue *value, const DtView *view, bool written);
DtKStore dt_kernel_store(DtKBuild *b, const DtKOutput *out, uint32_t node);
/* The reduction of a node over all its axes but these. */
uint32_t dt_kernel_after_rows(DtKBuild *b, const DtOp *op, uint32_t arg, uint32_t axes);
/* kernel_pieces.c; pieces of rows have a multiple of so many elements */
void dt_kernel_pieces(DtKernel *k, int64_t unit);

void dt_kernel_price(DtKernel *k, const DtMesh *mesh);

/* kernel_attend.c: the kernel of attention; false: no kernel supports it. */
bool dt_kernel_attend(DtKBuild *b);
/* in attention, a sum over other axes than keys */
uint32_t dt_kernel_attend_total(DtKBuild *b, const DtOp *op, uint32_t arg);

/* relabel, slice, pad, window, concat, gather: a load of the operand with other indices. */
uint32_t dt_kernel_index_map(DtKBuild *b, const DtOp *op);
/* The element that window offset w adds to each element of a fold. */
uint32_t dt_kernel_fold(DtKBuild *b, const DtOp *op);

#endif
