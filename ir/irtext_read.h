/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the reader of IR text share: irtext_read.c (modules, functions),
 * irtext_read_op.c (ops) and irtext_read_type.c (types and other parts of a line). All take tokens
 * from the lexer, which reports the first problem; false or NULL: there was a problem, or the token
 * that begins an optional part did not come next. */
#ifndef DT_IR_IRTEXT_READ_H
#define DT_IR_IRTEXT_READ_H

#include "ir/ir.h"
#include "ir/irtext_lex.h"
#include "ir/map.h"

typedef struct DtIrReader {
    DtIrLex lex;
    DtModule *module;
    DtFunc *func;
    DtMap funcs;  /* functions by name, defined or only named so far */
    DtMap values; /* values of func, by the text of the token */
    DtMap kinds;  /* op names -> dt_op_info row */
    DT_VEC(DtFunc *) named;
    DT_VEC(int64_t) of, within, bucket; /* by store; -1: none */
} DtIrReader;

typedef DT_VEC(DtValue *) DtIrValues;

/* ---- irtext_read_type.c ---- */

bool dt_irread_span(DtIrLex *lex, DtSpan *ret_span); /* `@file:lo-hi`, optional */
bool dt_irread_init(DtIrLex *lex, DtInit *ret_init); /* `init=kind(a, b)`, optional */
const DtType *dt_irread_type(DtIrLex *lex, const DtMesh *mesh);
/* Mesh axes up to `}`, after the `{`. */
bool dt_irread_mesh_set(DtIrLex *lex, const DtMesh *mesh, uint16_t *ret_bits);

/* ---- irtext_read_op.c ---- */

DtValue *dt_irread_use(DtIrReader *p); /* the value of that name, which must be defined above */
/* Takes a value token and makes the value: result number `index` of op, or that input of the
 * function (op NULL). */
DtValue *dt_irread_define(DtIrReader *p, DtOp *op, uint32_t index);
/* Reads a list of values up to the closing mark, which is not taken. */
bool dt_irread_values(DtIrReader *p, char close, DtIrValues *ret_list);
/* Reads a line that is an op, and appends the op to the function. */
bool dt_irread_op(DtIrReader *p);

/* ---- irtext_read.c ---- */

/* `key=name` and `store=number`, optional. */
bool dt_irread_func_key(DtIrReader *p, const char *key, DtFunc **ret_func);
bool dt_irread_store_key(DtIrReader *p, DtStore **ret_store);

#endif
