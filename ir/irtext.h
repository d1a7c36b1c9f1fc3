/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the printer and the reader of IR text, with entry points for special uses. */
#ifndef DT_IR_IRTEXT_H
#define DT_IR_IRTEXT_H

#include "ir/irtext_lex.h"
#include "ir/pipeline.h"

/* Names by the number of the enumerator. */
extern const char *const dt_irtext_func_kinds[7];
extern const char *const dt_irtext_store_kinds[16];
extern const char *const dt_irtext_reduces[3];
extern const char *const dt_irtext_inits[3];

/* Prints op as it is in func, without newline. */
void dt_irtext_print_op(const DtFunc *func, const DtOp *op, DtText *ret_text);

/* The `means` of a result of op whose line has none: for communication, that of its operand; else
 * 0. */
uint32_t dt_irtext_means(const DtOp *op);

/* Printer and reader of the pipeline of a module, if it has one; the reader begins after the word
 * `pipeline`. irtext_pipeline.c describes the form. */
void dt_irtext_print_pipeline(const DtModule *module, DtText *ret_text);
bool dt_irtext_read_pipeline(DtIrLex *lex, DtModule *module);

/* Like dt_irtext_read without the verifier: pointers, counts and references are right, but ops
 * may break the rules of ops.def. For tests of the verifier and for looking at what it refuses. */
DtModule *dt_irtext_parse(DtArena *arena, DtDiags *diags, const char *text, size_t len);

#endif
