/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax tree of a .dsl program: exactly what was written, with a span on every node. Names are
 * interned. Nothing is resolved here: names.c and lower*.c give the meaning.
 * Grammar: docs/language.md section "Grammar". */
#ifndef DT_FRONTEND_AST_H
#define DT_FRONTEND_AST_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtExpr DtExpr;
typedef struct DtStmt DtStmt;

/* A name where it was written; `text` interned, NULL = absent. */
typedef struct DtName {
    const char *text;
    DtSpan span;
} DtName;

typedef DT_VEC(DtName) DtNames;
typedef DT_VEC(DtExpr *) DtExprs;
typedef DT_VEC(DtStmt *) DtStmts;

/* One entry of a type's axes: `batch`, `kh = k` (extent given), or `...`. */
typedef struct DtAstAxis {
    DtName name; /* text is "..." for the ellipsis */
    DtExpr *extent;
} DtAstAxis;

/* `f32[batch, seq]`. */
typedef struct DtAstType {
    const char *dtype; /* interned spelling, NULL if not written */
    DT_VEC(DtAstAxis) axes;
    bool has_axes; /* `f32[]` and `x[]` have axes, none of them */
    DtSpan span;
} DtAstType;

/* A name or a parenthesised list of names: `embed`, `(heads, head)`; after an arrow also `(height =
 * 4, width)`. */
typedef struct DtGroup {
    DtNames names;
    bool parens;
    DtSpan span;
    DtExprs extents; /* extents[i]: the extent of name i, NULL without one; n 0: no arrow is in
                      * front of the group */
} DtGroup;

/* One entry of square brackets after a value:
 *   axis argument or listed axes   group              `linear[embed, (heads, head)]`
 *   rename, split, merge           group -> to        `x[seq -> kseq]`, `x[h -> (g, p)]`
 *   index                          name = index       `x[vocab = ids]`
 *   range                          name = index .. end */
typedef enum DtSubKind { DT_SUB_GROUP, DT_SUB_RELABEL, DT_SUB_INDEX, DT_SUB_RANGE } DtSubKind;
typedef struct DtSub {
    DtSubKind kind;
    DtGroup from; /* INDEX and RANGE: one name */
    DtGroup to;   /* RELABEL */
    DtExpr *index, *end;
    DtSpan span;
} DtSub;

typedef struct DtArg {
    DtName name; /* text NULL if positional */
    DtExpr *value;
} DtArg;

typedef enum DtExprKind {
    DT_EXPR_INT,      /* integer */
    DT_EXPR_FLOAT,    /* number */
    DT_EXPR_QUANTITY, /* number, unit: 450GB/s -> 450, "GB/s" */
    DT_EXPR_STRING,   /* string (bytes, len) */
    DT_EXPR_BOOL,     /* integer 0 or 1 */
    DT_EXPR_DTYPE,    /* name: f32 ...; called it is a cast */
    DT_EXPR_NAME,     /* name; label when `label:name` */
    DT_EXPR_UNARY,    /* op; a */
    DT_EXPR_BINARY,   /* op; a, b */
    DT_EXPR_CONTRACT, /* a @group b */
    DT_EXPR_IF,       /* if a then b else c */
    DT_EXPR_PIPE,     /* a |> b; b is a postfix expression */
    DT_EXPR_SUBS,     /* a [ subs ] */
    DT_EXPR_CALL,     /* a ( args ) */
    DT_EXPR_FIELD,    /* a . name */
    DT_EXPR_TUPLE,    /* items; parentheses around several expressions, or an `exprs` list of
                       * several */
    DT_EXPR_PAREN,    /* ( a ) */
    DT_EXPR_ERROR     /* stands for an expression with a reported syntax error */
} DtExprKind;

typedef enum DtOperator {
    DT_OPR_ADD, DT_OPR_SUB, DT_OPR_MUL, DT_OPR_DIV, DT_OPR_FLOORDIV, DT_OPR_MOD, DT_OPR_POW,
    DT_OPR_LT, DT_OPR_LE, DT_OPR_GT, DT_OPR_GE, DT_OPR_EQ, DT_OPR_NE,
    DT_OPR_AND, DT_OPR_OR, DT_OPR_NOT, DT_OPR_NEG
} DtOperator;

struct DtExpr {
    DtExprKind kind;
    DtSpan span;    /* the whole expression */
    DtSpan op_span; /* the operator token of UNARY, BINARY, CONTRACT, PIPE */
    DtOperator op;
    int64_t integer;
    double number;
    const char *unit;
    const char *string;
    uint32_t string_len;
    DtName name;
    DtName label;
    DtExpr *a, *b, *c;
    DtGroup group;
    DT_VEC(DtSub) subs;
    DT_VEC(DtArg) args;
    DtExprs items;
    uint32_t height; /* levels of the tree, at most DT_MAX_HEIGHT (frontend/syntax.h) */
};

/* Left side of an assignment or of a config entry: `x`, `i32 tokens[batch, seq]`, `"file.name"[a,
 * b]`. */
typedef struct DtTarget {
    DtAstType type; /* dtype and axes, if they are written */
    DtName name;    /* text NULL if it is a string */
    const char *string;
    uint32_t string_len;
    DtSpan span;
} DtTarget;
typedef DT_VEC(DtTarget) DtTargets;

typedef enum DtStmtKind {
    DT_STMT_PARAM,  /* param or state: targets (each with axes), value = initialiser */
    DT_STMT_STATE,
    DT_STMT_ASSIGN, /* targets = value (a TUPLE if several) */
    DT_STMT_REPEAT, /* repeat name in value { body } */
    DT_STMT_IF,     /* if value { body } else { other } */
    DT_STMT_RETURN, /* return value (a TUPLE if several) */
    DT_STMT_CLAUSE, /* a clause of a function: name(targets) { body } or name[axes = value] { body
                     * } */
    DT_STMT_ERROR
} DtStmtKind;

struct DtStmt {
    DtStmtKind kind;
    DtSpan span;
    DtTargets targets;
    DtName name; /* of repeat; the word of CLAUSE */
    DtNames axes;
    DtExpr *value;
    DtStmts body, other;
    bool has_else;
};

/* A formal argument: `x[..., d]`, `i32 y[...]`, `scale`, `bias = 0.0`. */
typedef struct DtFormal {
    DtName name;
    DtAstType type; /* has_axes false: takes any value, constant or function */
    DtExpr *init;   /* default, or NULL */
    DtSpan span;
} DtFormal;

typedef enum DtDefKind { DT_DEF_FN, DT_DEF_LAYER, DT_DEF_MODEL } DtDefKind;
typedef struct DtDef {
    DtDefKind kind;
    DtName name;
    DtNames axes; /* axis parameters */
    DT_VEC(DtFormal) formals;
    DT_VEC(DtAstType) results; /* empty: inferred */
    DtStmts body;
    DtSpan span;   /* all of it */
    DtSpan head;   /* `layer name[..](..)` */
} DtDef;

/* Configuration blocks. An entry is `targets = value`, or a directive:
 *   verb operand, operand on name, name (arg, ...)
 * such as `zero 1 on data`, `mesh data = 2, pipe = 4`. */
typedef struct DtOperand {
    DtNames path;   /* `attend.heads`; empty when it is a number */
    int64_t integer;
    DtExpr *value;  /* after `=` */
    DtSpan span;
} DtOperand;

typedef struct DtEntry {
    bool is_directive;
    DtTargets targets;
    DtExpr *value;
    DtName verb;
    DT_VEC(DtOperand) operands;
    DtNames on;
    bool has_on;
    DT_VEC(DtArg) args;
    DtSpan span;
} DtEntry;
typedef DT_VEC(DtEntry *) DtEntries;

typedef enum DtItemKind {
    DT_ITEM_INCLUDE, DT_ITEM_DIM, DT_ITEM_CONSTANT, DT_ITEM_AXIS, DT_ITEM_DEF, DT_ITEM_TRAIN,
    DT_ITEM_CLUSTER, DT_ITEM_PARALLEL, DT_ITEM_NAMES, DT_ITEM_DEVICE, DT_ITEM_STACK, DT_ITEM_ERROR
} DtItemKind;

/* One `name = expr` of a dim or constant line; value NULL: must come from -D. */
typedef struct DtBind {
    DtName name;
    DtExpr *value;
} DtBind;

typedef struct DtItem {
    DtItemKind kind;
    DtSpan span;
    DtName name;          /* of train (optional) or another block; include: its
                           * span is that of the path */
    DtName on;            /* cluster of parallel, model of names */
    const char *include;  /* path as written */
    uint32_t include_len;
    DT_VEC(DtBind) binds; /* dim, constant */
    DtNames axes;         /* axis */
    DtDef *def;
    DtEntries entries;    /* config blocks */
} DtItem;

/* One source file. Included files are not expanded here. */
typedef struct DtAst {
    uint32_t file;
    DT_VEC(DtItem *) items;
} DtAst;

/* Parses the registered source file; reports E01 diagnostics and returns the tree of everything
 * that could be read (never NULL). The depth of nesting is limited (E0110), so that no later
 * recursion can overflow. */
DtAst *dt_parse(DtArena *arena, DtDiags *diags, uint32_t file);

/* The tree as indented text, one node a line (`dtc --emit=ast`). */
void dt_ast_print(const DtAst *ast, DtText *ret_text);

/* Formats the program's text: two-space indent, one space around operators, comments and line
 * breaks kept, at most one blank line in a row; formatting twice changes nothing more. A file that
 * does not parse is refused, with diagnostics and false. */
bool dt_fmt(DtDiags *diags, uint32_t file, DtText *ret_text);

#endif
