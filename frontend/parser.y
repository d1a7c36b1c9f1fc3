%code top {
/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of the language (docs/language.md), LALR(1) without conflicts, and the tree it
 * builds.
 *
 * Errors: a faulty item, statement or entry becomes an ERROR node and parsing continues after it,
 * so one run reports many errors. expect.c words the error and says at which token to resume
 * (p->resume); the error productions below then read on from there. If the faulty part has a block,
 * the block is parsed nevertheless.
 *
 * Height: every expression knows its height, and one higher than DT_MAX_HEIGHT becomes an ERROR
 * node, so that recursive walks of the tree are bounded. */
}

%define api.pure full
%define api.prefix {dt_parser_}
%define api.token.prefix {DT_TOK_}
%define api.location.type {DtSpan}
%define parse.error custom
%define parse.lac full
%define lr.default-reduction consistent
%locations
%param {DtParser *p}

%code requires {
#include "base/intern.h"
#include "frontend/syntax.h"

typedef struct DtParser {
    DtArena *arena;
    DtDiags *diags;
    const DtTokens *tokens;
    uint32_t next;   /* index of the token to read next */
    uint32_t resume; /* index at which to resume after the present error */
    uint32_t failed; /* index after the token of the last error */
    bool too_high;   /* E0110 was reported for this file */
    DtAst *ast;
} DtParser;

typedef DT_VEC(DtAstAxis) DtAxisList;
typedef DT_VEC(DtAstType) DtTypeList;
typedef DT_VEC(DtFormal) DtFormalList;
typedef DT_VEC(DtSub) DtSubList;
typedef DT_VEC(DtArg) DtArgList;
typedef DT_VEC(DtOperand) DtOperandList;
typedef DT_VEC(DtBind) DtBindList;
}

%code provides {
/* One past the last token kind; DT_TOK_ID is the first. */
enum { DT_TOK_FIRST = DT_TOK_ID, DT_TOK_LIMIT = DT_TOK_COMMENT + 1 };
}

%union {
    const DtToken *token;
    DtExpr *expr;
    DtStmt *stmt;
    DtItem *item;
    DtEntry *entry;
    DtDefKind def_kind;
    DtGroup *group;
    DtSub *sub;
    DtArg *arg;
    DtFormal *formal;
    DtAstAxis *axis;
    DtAstType *type;
    DtTarget *target;
    DtOperand *operand;
    DtBind *bind;
    DtNames names;
    DtExprs exprs;
    DtStmts stmts;
    DtEntries entries;
    DtTargets targets;
    DtAxisList axes;
    DtTypeList types;
    DtFormalList formals;
    DtSubList subs;
    DtArgList args;
    DtOperandList operands;
    DtBindList binds;
}

%token END 0
%token <token> ID INT FLOAT QUANTITY STRING DTYPE TRUE FALSE
%token <token> INCLUDE DIM AXIS FN LAYER MODEL TRAIN CLUSTER PARALLEL NAMES DEVICE STACK CONSTANT ON
%token <token> PARAM STATE REPEAT IN IF THEN ELSE RETURN CLAUSE AND OR NOT
%token <token> SEMI COMMA COLON LPAREN RPAREN LBRACKET RBRACKET LBRACE RBRACE
%token <token> ASSIGN ARROW PIPE ELLIPSIS RANGE DOT AT
%token <token> INDEX /* `.3` after a name */
%token <token> PLUS MINUS STAR POW FLOORDIV SLASH PERCENT CMP
%token BAD /* a word that scan.c has reported */
%token COMMENT

%type <item> item config_head
%type <token> hardware
%type <def_kind> def_word
%type <names> ids opt_axis_params opt_on path
%type <binds> binds
%type <bind> bind
%type <formals> opt_formals formals
%type <formal> formal
%type <types> opt_results types
%type <type> type axes file_axes
%type <axes> axis_list file_axis_list
%type <axis> axis file_axis
%type <stmts> block stmts opt_else
%type <stmt> stmt
%type <targets> targets params entry_targets strings
%type <target> target entry_target
%type <entries> config entries
%type <entry> entry
%type <operands> opt_operands operands
%type <operand> operand
%type <args> opt_entry_args opt_args args
%type <arg> arg
%type <exprs> exprs
%type <expr> expr pipe or and not cmp sum prod unary postfix primary operand_value tuple
%type <subs> subs
%type <sub> sub
%type <group> group target_group parts

%code {
#define YYLLOC_DEFAULT(ret, rhs, n)                                                                \
    do {                                                                                           \
        if (n) {                                                                                   \
            (ret).file = YYRHSLOC(rhs, 1).file;                                                    \
            (ret).lo = YYRHSLOC(rhs, 1).lo;                                                        \
            (ret).hi = YYRHSLOC(rhs, n).hi;                                                        \
        } else {                                                                                   \
            (ret).file = YYRHSLOC(rhs, 0).file;                                                    \
            (ret).lo = (ret).hi = YYRHSLOC(rhs, 0).hi;                                             \
        }                                                                                          \
    } while (0)

/* Copies a list into a field that has the same members but another (anonymous) type. */
#define MOVE(field, list) ((field).at = (list).at, (field).n = (list).n, (field).cap = (list).cap)

/* Continues after the faulty part. */
#define RESUME() do { yyerrok; yyclearin; p->next = p->resume; } while (0)

static int dt_parser_lex(YYSTYPE *ret_value, YYLTYPE *ret_span, DtParser *p);
static void dt_parser_error(YYLTYPE *span, DtParser *p, const char *message);

static DtName name_of(const DtToken *token)
{
    const bool is_string = token->kind == DT_TOK_STRING;
    return (DtName){is_string ? dt_intern_n(token->text, token->text_len) : token->text,
                    token->span};
}

static DtExpr *new_expr(DtParser *p, DtExprKind kind, DtSpan span)
{
    DtExpr *e = DT_NEW(p->arena, DtExpr);
    e->kind = kind;
    e->span = span;
    e->height = 1;
    return e;
}

/* Reports an expression that is too high (once per file), and replaces it by an ERROR node. */
static void limit_height(DtParser *p, DtExpr *e)
{
    if (e->height <= DT_MAX_HEIGHT)
        return;
    if (!p->too_high) {
        DtDiag *d = dt_diag_report(p->diags, E0110, (DtSpan){e->span.file, e->span.hi, e->span.hi},
                                   "this expression has more than %d levels", DT_MAX_HEIGHT);
        dt_diag_help(d, "give parts of it a name");
    }
    p->too_high = true;
    *e = (DtExpr){.kind = DT_EXPR_ERROR, .span = e->span, .height = 1};
}

static void raise_height(DtExpr *e, const DtExpr *child)
{
    if (child && child->height >= e->height)
        e->height = child->height + 1;
}

static DtExpr *new_tree(DtParser *p, DtExprKind kind, DtSpan span, DtExpr *a, DtExpr *b, DtExpr *c)
{
    DtExpr *e = new_expr(p, kind, span);
    e->a = a;
    e->b = b;
    e->c = c;
    raise_height(e, a);
    raise_height(e, b);
    raise_height(e, c);
    limit_height(p, e);
    return e;
}

static DtExpr *new_binary(DtParser *p, const DtToken *op, DtOperator which, DtSpan span, DtExpr *a,
                          DtExpr *b)
{
    DtExpr *e = new_tree(p, DT_EXPR_BINARY, span, a, b, NULL);
    e->op = which;
    e->op_span = op->span;
    return e;
}

static DtExpr *new_unary(DtParser *p, const DtToken *op, DtOperator which, DtSpan span, DtExpr *a)
{
    DtExpr *e = new_tree(p, DT_EXPR_UNARY, span, a, NULL, NULL);
    e->op = which;
    e->op_span = op->span;
    return e;
}

static DtExpr *new_literal(DtParser *p, const DtToken *token)
{
    static const DtExprKind kinds[] = {
        [DT_TOK_INT - DT_TOK_ID] = DT_EXPR_INT,
        [DT_TOK_FLOAT - DT_TOK_ID] = DT_EXPR_FLOAT,
        [DT_TOK_QUANTITY - DT_TOK_ID] = DT_EXPR_QUANTITY,
        [DT_TOK_STRING - DT_TOK_ID] = DT_EXPR_STRING,
        [DT_TOK_DTYPE - DT_TOK_ID] = DT_EXPR_DTYPE,
        [DT_TOK_TRUE - DT_TOK_ID] = DT_EXPR_BOOL,
        [DT_TOK_FALSE - DT_TOK_ID] = DT_EXPR_BOOL};
    DtExpr *e = new_expr(p, kinds[token->kind - DT_TOK_ID], token->span);
    e->integer = token->kind == DT_TOK_TRUE ? 1 : token->integer;
    e->number = token->kind == DT_TOK_INT ? (double)token->integer : token->number;
    if (e->kind == DT_EXPR_QUANTITY)
        e->unit = token->text;
    if (e->kind == DT_EXPR_DTYPE)
        e->name = name_of(token);
    if (e->kind == DT_EXPR_STRING) {
        e->string = token->text;
        e->string_len = token->text_len;
    }
    return e;
}

static DtExpr *new_subs(DtParser *p, DtSpan span, DtExpr *a, DtSubList subs)
{
    DtExpr *e = new_expr(p, DT_EXPR_SUBS, span);
    e->a = a;
    MOVE(e->subs, subs);
    raise_height(e, a);
    for (uint32_t i = 0; i < subs.n; i++) {
        raise_height(e, subs.at[i].index);
        raise_height(e, subs.at[i].end);
    }
    limit_height(p, e);
    return e;
}

static DtExpr *new_call(DtParser *p, DtSpan span, DtExpr *a, DtArgList args)
{
    DtExpr *e = new_expr(p, DT_EXPR_CALL, span);
    e->a = a;
    MOVE(e->args, args);
    raise_height(e, a);
    for (uint32_t i = 0; i < args.n; i++)
        raise_height(e, args.at[i].value);
    limit_height(p, e);
    return e;
}

static DtExpr *new_tuple(DtParser *p, DtSpan span, DtExprs items)
{
    DtExpr *e = new_expr(p, DT_EXPR_TUPLE, span);
    e->items = items;
    for (uint32_t i = 0; i < items.n; i++)
        raise_height(e, items.at[i]);
    limit_height(p, e);
    return e;
}

static DtStmt *new_stmt(DtParser *p, DtStmtKind kind, DtSpan span)
{
    DtStmt *s = DT_NEW(p->arena, DtStmt);
    s->kind = kind;
    s->span = span;
    return s;
}

static DtItem *new_item(DtParser *p, DtItemKind kind, DtSpan span)
{
    DtItem *item = DT_NEW(p->arena, DtItem);
    item->kind = kind;
    item->span = span;
    return item;
}

static DtItem *new_config(DtParser *p, DtItemKind kind, DtSpan span, const DtToken *name,
                          const DtToken *on)
{
    DtItem *item = new_item(p, kind, span);
    if (name)
        item->name = name_of(name);
    if (on)
        item->on = name_of(on);
    return item;
}

static DtFormal *new_formal(DtParser *p, DtSpan span, const DtTarget *target, DtExpr *init)
{
    DtFormal *formal = DT_NEW(p->arena, DtFormal);
    *formal = (DtFormal){.name = target->name, .type = target->type, .init = init, .span = span};
    return formal;
}

static DtAstType *new_axes(DtParser *p, DtSpan span, DtAxisList list)
{
    DtAstType *type = DT_NEW(p->arena, DtAstType);
    type->has_axes = true;
    type->span = span;
    MOVE(type->axes, list);
    return type;
}

static DtAstAxis *new_axis(DtParser *p, const DtToken *name, DtExpr *extent)
{
    DtAstAxis *axis = DT_NEW(p->arena, DtAstAxis);
    *axis = (DtAstAxis){name_of(name), extent};
    return axis;
}

/* A statement of targets = value. */
static DtStmt *new_binding(DtParser *p, DtStmtKind kind, DtSpan span, DtTargets targets,
                           DtExpr *value)
{
    DtStmt *s = new_stmt(p, kind, span);
    s->targets = targets;
    s->value = value;
    return s;
}

static DtExpr *new_name(DtParser *p, DtSpan span, const DtToken *label, const DtToken *name)
{
    DtExpr *e = new_expr(p, DT_EXPR_NAME, span);
    if (label)
        e->label = name_of(label);
    e->name = name_of(name);
    return e;
}

static DtGroup *new_group(DtParser *p, DtSpan span, DtNames names, bool parens)
{
    DtGroup *group = DT_NEW(p->arena, DtGroup);
    *group = (DtGroup){.names = names, .parens = parens, .span = span};
    return group;
}

static void add_part(DtParser *p, DtGroup *group, const DtToken *name, DtExpr *extent)
{
    DT_PUSH(p->arena, group->names, name_of(name));
    DT_PUSH(p->arena, group->extents, extent);
}

static DtNames one_name(DtParser *p, const DtToken *name)
{
    DtNames names = {0};
    DT_PUSH(p->arena, names, name_of(name));
    return names;
}

static DtSub *new_relabel(DtParser *p, DtSpan span, const DtGroup *from, const DtGroup *to)
{
    DtSub *sub = DT_NEW(p->arena, DtSub);
    sub->kind = to ? DT_SUB_RELABEL : DT_SUB_GROUP;
    sub->from = *from;
    if (to)
        sub->to = *to;
    sub->span = span;
    return sub;
}

static DtSub *new_index(DtParser *p, DtSpan span, const DtToken *name, DtExpr *index, DtExpr *end)
{
    DtSub *sub = DT_NEW(p->arena, DtSub);
    sub->kind = end ? DT_SUB_RANGE : DT_SUB_INDEX;
    sub->from = (DtGroup){.names = one_name(p, name), .span = name->span};
    sub->index = index;
    sub->end = end;
    sub->span = span;
    return sub;
}

static DtArg *new_arg(DtParser *p, const DtToken *name, DtExpr *value)
{
    DtArg *arg = DT_NEW(p->arena, DtArg);
    if (name)
        arg->name = name_of(name);
    arg->value = value;
    return arg;
}

static DtOperand *new_operand(DtParser *p, DtSpan span, DtNames path, DtExpr *value)
{
    DtOperand *operand = DT_NEW(p->arena, DtOperand);
    *operand = (DtOperand){.path = path, .value = value, .span = span};
    return operand;
}

static DtEntry *new_entry(DtParser *p, DtSpan span)
{
    DtEntry *entry = DT_NEW(p->arena, DtEntry);
    entry->span = span;
    return entry;
}

static DtTarget *new_target(DtParser *p, DtSpan span, const DtToken *dtype, const DtToken *name,
                            const DtAstType *axes)
{
    DtTarget *target = DT_NEW(p->arena, DtTarget);
    if (axes)
        target->type = *axes;
    target->type.span = span;
    target->type.dtype = dtype ? dtype->text : NULL;
    if (name->kind == DT_TOK_STRING) {
        target->string = name->text;
        target->string_len = name->text_len;
    }
    target->name = (DtName){name->kind == DT_TOK_STRING ? NULL : name->text, name->span};
    target->span = span;
    return target;
}

/* The spans of comparison operators are read from the source, since all six have one token kind. */
static DtOperator comparison(const DtToken *token)
{
    static const char *const texts[] = {"<", "<=", ">", ">=", "==", "!="};
    for (int i = 0; i < 6; i++)
        if (!strcmp(token->text, texts[i]))
            return (DtOperator)(DT_OPR_LT + i);
    abort();
}
}

%code top {
#include <stdlib.h>
#include <string.h>
}

%initial-action { @$ = (DtSpan){p->ast->file, 0, 0}; }

%%

file: items ;

items:
    item             { if ($1) DT_PUSH(p->arena, p->ast->items, $1); }
  | items SEMI item  { if ($3) DT_PUSH(p->arena, p->ast->items, $3); }
  ;

item:
    %empty          { $$ = NULL; }
  | INCLUDE STRING  { $$ = new_item(p, DT_ITEM_INCLUDE, @$); $$->name.span = @2;
                      $$->include = $2->text; $$->include_len = $2->text_len; }
  | DIM binds       { $$ = new_item(p, DT_ITEM_DIM, @$); MOVE($$->binds, $2); }
  | CONSTANT binds  { $$ = new_item(p, DT_ITEM_CONSTANT, @$); MOVE($$->binds, $2); }
  | AXIS ids        { $$ = new_item(p, DT_ITEM_AXIS, @$); $$->axes = $2; }
  | def_word ID opt_axis_params LPAREN opt_formals RPAREN opt_results block
                    { DtDef *def = DT_NEW(p->arena, DtDef);
                      def->kind = $1; def->name = name_of($2); def->axes = $3;
                      MOVE(def->formals, $5); MOVE(def->results, $7); def->body = $8;
                      def->span = @$; def->head = (DtSpan){@$.file, @1.lo, @6.hi};
                      $$ = new_item(p, DT_ITEM_DEF, @$); $$->name = def->name; $$->def = def; }
  | config_head config  { $$ = $1; $$->span = @$; $$->entries = $2; }
  | error               { RESUME(); $$ = new_item(p, DT_ITEM_ERROR, @$); }
  | def_word error      { RESUME(); $$ = new_item(p, DT_ITEM_ERROR, @$); }
  | def_word error { RESUME(); } block  { $$ = new_item(p, DT_ITEM_ERROR, @$); }
  | faulty_config_head         { $$ = new_item(p, DT_ITEM_ERROR, @$); }
  | faulty_config_head config  { $$ = new_item(p, DT_ITEM_ERROR, @$); }
  ;

binds: bind             { $$ = (DtBindList){0}; DT_PUSH(p->arena, $$, *$1); }
     | binds COMMA bind { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
bind: ID              { $$ = DT_NEW(p->arena, DtBind); $$->name = name_of($1); }
    | ID ASSIGN expr  { $$ = DT_NEW(p->arena, DtBind); $$->name = name_of($1); $$->value = $3; } ;
ids: ID            { $$ = one_name(p, $1); }
   | ids COMMA ID  { $$ = $1; DT_PUSH(p->arena, $$, name_of($3)); } ;

def_word: FN { $$ = DT_DEF_FN; } | LAYER { $$ = DT_DEF_LAYER; } | MODEL { $$ = DT_DEF_MODEL; } ;
config_head: TRAIN              { $$ = new_config(p, DT_ITEM_TRAIN, @$, NULL, NULL); }
           | TRAIN ID           { $$ = new_config(p, DT_ITEM_TRAIN, @$, $2, NULL); }
           | CLUSTER ID         { $$ = new_config(p, DT_ITEM_CLUSTER, @$, $2, NULL); }
           | PARALLEL ID ON ID  { $$ = new_config(p, DT_ITEM_PARALLEL, @$, $2, $4); }
           | NAMES ID ON ID     { $$ = new_config(p, DT_ITEM_NAMES, @$, $2, $4); }
           | DEVICE hardware    { $$ = new_config(p, DT_ITEM_DEVICE, @$, $2, NULL); }
           | STACK hardware     { $$ = new_config(p, DT_ITEM_STACK, @$, $2, NULL); } ;
hardware: ID | STRING ;
faulty_config_head: faulty_config_word { RESUME(); } ;
faulty_config_word: TRAIN error | CLUSTER error | PARALLEL error | NAMES error
                  | DEVICE error | STACK error ;

opt_axis_params: %empty { $$ = (DtNames){0}; } | LBRACKET ids RBRACKET { $$ = $2; } ;
opt_formals: %empty { $$ = (DtFormalList){0}; } | formals ;
formals: formal                { $$ = (DtFormalList){0}; DT_PUSH(p->arena, $$, *$1); }
       | formals COMMA formal  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
formal: target              { $$ = new_formal(p, @$, $1, NULL); }
      | target ASSIGN expr  { $$ = new_formal(p, @$, $1, $3); } ;
opt_results: %empty { $$ = (DtTypeList){0}; } | ARROW types { $$ = $2; } ;
types: type              { $$ = (DtTypeList){0}; DT_PUSH(p->arena, $$, *$1); }
     | types COMMA type  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
type: axes | DTYPE axes { $$ = $2; $$->dtype = $1->text; $$->span = @$; } ;
axes: LBRACKET RBRACKET            { $$ = new_axes(p, @$, (DtAxisList){0}); }
    | LBRACKET axis_list RBRACKET  { $$ = new_axes(p, @$, $2); } ;
axis_list: axis                  { $$ = (DtAxisList){0}; DT_PUSH(p->arena, $$, *$1); }
         | axis_list COMMA axis  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
axis: ID              { $$ = new_axis(p, $1, NULL); }
    | ID ASSIGN expr  { $$ = new_axis(p, $1, $3); }
    | ELLIPSIS        { $$ = new_axis(p, $1, NULL); } ;

block: LBRACE stmts RBRACE { $$ = $2; } ;
stmts: stmt             { $$ = (DtStmts){0}; if ($1) DT_PUSH(p->arena, $$, $1); }
     | stmts SEMI stmt  { $$ = $1; if ($3) DT_PUSH(p->arena, $$, $3); } ;
stmt:
    %empty                      { $$ = NULL; }
  | PARAM params ASSIGN expr    { $$ = new_binding(p, DT_STMT_PARAM, @$, $2, $4); }
  | STATE params ASSIGN expr    { $$ = new_binding(p, DT_STMT_STATE, @$, $2, $4); }
  | targets ASSIGN tuple        { $$ = new_binding(p, DT_STMT_ASSIGN, @$, $1, $3); }
  | REPEAT ID IN expr block     { $$ = new_stmt(p, DT_STMT_REPEAT, @$);
                                  $$->name = name_of($2); $$->value = $4; $$->body = $5; }
  | IF expr block opt_else      { $$ = new_stmt(p, DT_STMT_IF, @$);
                                  $$->value = $2; $$->body = $3; $$->other = $4;
                                  $$->has_else = @4.hi > @4.lo; }
  | RETURN tuple                { $$ = new_stmt(p, DT_STMT_RETURN, @$); $$->value = $2; }
  | CLAUSE LPAREN targets RPAREN block
                                { $$ = new_stmt(p, DT_STMT_CLAUSE, @$);
                                  $$->name = name_of($1); $$->targets = $3; $$->body = $5; }
  | CLAUSE LPAREN RPAREN block  { $$ = new_stmt(p, DT_STMT_CLAUSE, @$);
                                  $$->name = name_of($1); $$->body = $4; }
  | CLAUSE LBRACKET ids ASSIGN expr RBRACKET block
                                { $$ = new_stmt(p, DT_STMT_CLAUSE, @$);
                                  $$->name = name_of($1); $$->axes = $3; $$->value = $5;
                                  $$->body = $7; }
  | CLAUSE LBRACKET ids RBRACKET block
                                { $$ = new_stmt(p, DT_STMT_CLAUSE, @$);
                                  $$->name = name_of($1); $$->axes = $3; $$->body = $5; }
  | CLAUSE LBRACKET ids RBRACKET LPAREN targets RPAREN block
                                { $$ = new_stmt(p, DT_STMT_CLAUSE, @$);
                                  $$->name = name_of($1); $$->axes = $3; $$->targets = $6;
                                  $$->body = $8; }
  | error                       { RESUME(); $$ = new_stmt(p, DT_STMT_ERROR, @$); }
  | error { RESUME(); } block opt_else  { $$ = new_stmt(p, DT_STMT_ERROR, @$); }
  ;
opt_else: %empty { $$ = (DtStmts){0}; } | ELSE block { $$ = $2; } ;
params: ID axes        { $$ = (DtTargets){0};
                         DT_PUSH(p->arena, $$, *new_target(p, @$, NULL, $1, $2)); }
      | DTYPE ID axes  { $$ = (DtTargets){0};
                         DT_PUSH(p->arena, $$, *new_target(p, @$, $1, $2, $3)); }
      | params COMMA ID axes  { $$ = $1;
                                DtSpan span = {@3.file, @3.lo, @4.hi};
                                DtTarget *target = new_target(p, span, NULL, $3, $4);
                                target->type.dtype = $1.at[0].type.dtype;
                                DT_PUSH(p->arena, $$, *target); } ;
targets: target                { $$ = (DtTargets){0}; DT_PUSH(p->arena, $$, *$1); }
       | targets COMMA target  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
target: ID             { $$ = new_target(p, @$, NULL, $1, NULL); }
      | ID axes        { $$ = new_target(p, @$, NULL, $1, $2); }
      | DTYPE ID       { $$ = new_target(p, @$, $1, $2, NULL); }
      | DTYPE ID axes  { $$ = new_target(p, @$, $1, $2, $3); } ;

exprs: expr              { $$ = (DtExprs){0}; DT_PUSH(p->arena, $$, $1); }
     | exprs COMMA expr  { $$ = $1; DT_PUSH(p->arena, $$, $3); } ;
tuple: exprs  { $$ = $1.n == 1 ? $1.at[0] : new_tuple(p, @$, $1); } ;
expr: pipe
    | IF expr THEN expr ELSE expr  { $$ = new_tree(p, DT_EXPR_IF, @$, $2, $4, $6); } ;
pipe: or
    | pipe PIPE postfix  { $$ = new_tree(p, DT_EXPR_PIPE, @$, $1, $3, NULL); $$->op_span = @2; } ;
or: and
  | or OR and    { $$ = new_binary(p, $2, DT_OPR_OR, @$, $1, $3); } ;
and: not
   | and AND not { $$ = new_binary(p, $2, DT_OPR_AND, @$, $1, $3); } ;
not: cmp
   | NOT not     { $$ = new_unary(p, $1, DT_OPR_NOT, @$, $2); } ;
cmp: sum
   | sum CMP sum { $$ = new_binary(p, $2, comparison($2), @$, $1, $3); } ;
sum: prod
   | sum PLUS prod   { $$ = new_binary(p, $2, DT_OPR_ADD, @$, $1, $3); }
   | sum MINUS prod  { $$ = new_binary(p, $2, DT_OPR_SUB, @$, $1, $3); } ;
prod: unary
    | prod STAR unary      { $$ = new_binary(p, $2, DT_OPR_MUL, @$, $1, $3); }
    | prod SLASH unary     { $$ = new_binary(p, $2, DT_OPR_DIV, @$, $1, $3); }
    | prod FLOORDIV unary  { $$ = new_binary(p, $2, DT_OPR_FLOORDIV, @$, $1, $3); }
    | prod PERCENT unary   { $$ = new_binary(p, $2, DT_OPR_MOD, @$, $1, $3); }
    | prod AT group unary  { $$ = new_tree(p, DT_EXPR_CONTRACT, @$, $1, $4, NULL);
                             $$->op_span = @2; $$->group = *$3; } ;
unary: postfix
     | postfix POW unary  { $$ = new_binary(p, $2, DT_OPR_POW, @$, $1, $3); }
     | MINUS unary        { $$ = new_unary(p, $1, DT_OPR_NEG, @$, $2); } ;
postfix: primary
       | postfix LBRACKET subs RBRACKET  { $$ = new_subs(p, @$, $1, $3); }
       | postfix LBRACKET RBRACKET       { $$ = new_subs(p, @$, $1, (DtSubList){0}); }
       | postfix LPAREN opt_args RPAREN  { $$ = new_call(p, @$, $1, $3); }
       | postfix DOT ID                  { $$ = new_tree(p, DT_EXPR_FIELD, @$, $1, NULL, NULL);
                                           $$->name = name_of($3); }
       | postfix INDEX                   { $$ = new_tree(p, DT_EXPR_FIELD, @$, $1, NULL, NULL);
                                           $$->name = name_of($2); } ;
primary: ID            { $$ = new_name(p, @$, NULL, $1); }
       | ID COLON ID   { $$ = new_name(p, @$, $1, $3); }
       | INT           { $$ = new_literal(p, $1); }
       | FLOAT         { $$ = new_literal(p, $1); }
       | QUANTITY      { $$ = new_literal(p, $1); }
       | STRING        { $$ = new_literal(p, $1); }
       | DTYPE         { $$ = new_literal(p, $1); }
       | TRUE          { $$ = new_literal(p, $1); }
       | FALSE         { $$ = new_literal(p, $1); }
       | LPAREN exprs RPAREN
           { $$ = $2.n == 1 ? new_tree(p, DT_EXPR_PAREN, @$, $2.at[0], NULL, NULL)
                            : new_tuple(p, @$, $2); } ;
group: ID                 { $$ = new_group(p, @$, one_name(p, $1), false); }
     | LPAREN ids RPAREN  { $$ = new_group(p, @$, $2, true); } ;
target_group: ID                  { $$ = new_group(p, @$, one_name(p, $1), false); }
            | LPAREN parts RPAREN { $$ = $2; $$->span = @$; } ;
parts: ID                        { $$ = new_group(p, @$, (DtNames){0}, true);
                                   add_part(p, $$, $1, NULL); }
     | ID ASSIGN expr             { $$ = new_group(p, @$, (DtNames){0}, true);
                                    add_part(p, $$, $1, $3); }
     | parts COMMA ID             { $$ = $1; add_part(p, $$, $3, NULL); }
     | parts COMMA ID ASSIGN expr { $$ = $1; add_part(p, $$, $3, $5); } ;
subs: sub             { $$ = (DtSubList){0}; DT_PUSH(p->arena, $$, *$1); }
    | subs COMMA sub  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
sub: group                      { $$ = new_relabel(p, @$, $1, NULL); }
   | group ARROW target_group   { $$ = new_relabel(p, @$, $1, $3); }
   | ID ASSIGN expr             { $$ = new_index(p, @$, $1, $3, NULL); }
   | ID ASSIGN expr RANGE expr  { $$ = new_index(p, @$, $1, $3, $5); } ;
opt_args: %empty { $$ = (DtArgList){0}; } | args ;
args: arg             { $$ = (DtArgList){0}; DT_PUSH(p->arena, $$, *$1); }
    | args COMMA arg  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
arg: expr            { $$ = new_arg(p, NULL, $1); }
   | ID ASSIGN expr  { $$ = new_arg(p, $1, $3); }
   | DIM ASSIGN expr  { $$ = new_arg(p, $1, $3); } /* `dim = -1`: see lower_call.c */
   | AXIS ASSIGN expr { $$ = new_arg(p, $1, $3); } ;

config: LBRACE entries RBRACE { $$ = $2; } ;
entries: entry               { $$ = (DtEntries){0}; if ($1) DT_PUSH(p->arena, $$, $1); }
       | entries SEMI entry  { $$ = $1; if ($3) DT_PUSH(p->arena, $$, $3); } ;
entry:
    %empty                      { $$ = NULL; }
  | entry_targets ASSIGN tuple  { $$ = new_entry(p, @$); $$->targets = $1; $$->value = $3; }
  | ID opt_operands opt_on opt_entry_args
                                { $$ = new_entry(p, @$);
                                  $$->is_directive = true; $$->verb = name_of($1);
                                  MOVE($$->operands, $2); MOVE($$->args, $4);
                                  $$->on = $3; $$->has_on = $3.n > 0; }
  | ID strings                  { $$ = new_entry(p, @$);
                                  $$->is_directive = true; $$->verb = name_of($1);
                                  $$->targets = $2; }
  | ID strings ASSIGN tuple     { $$ = new_entry(p, @$);
                                  $$->is_directive = true; $$->verb = name_of($1);
                                  $$->targets = $2; $$->value = $4; }
  | error                       { RESUME(); $$ = NULL; }
  ;
entry_targets:
    entry_target                      { $$ = (DtTargets){0}; DT_PUSH(p->arena, $$, *$1); }
  | entry_targets COMMA entry_target  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
entry_target: target
            | STRING       { $$ = new_target(p, @$, NULL, $1, NULL); }
            | STRING file_axes  { $$ = new_target(p, @$, NULL, $1, $2); } ;
strings: STRING                { $$ = (DtTargets){0};
                                 DT_PUSH(p->arena, $$, *new_target(p, @1, NULL, $1, NULL)); }
       | strings COMMA STRING  { $$ = $1;
                                 DT_PUSH(p->arena, $$, *new_target(p, @3, NULL, $3, NULL)); } ;
file_axes: LBRACKET RBRACKET                 { $$ = new_axes(p, @$, (DtAxisList){0}); }
         | LBRACKET file_axis_list RBRACKET  { $$ = new_axes(p, @$, $2); } ;
file_axis_list: file_axis                       { $$ = (DtAxisList){0};
                                                  DT_PUSH(p->arena, $$, *$1); }
              | file_axis_list COMMA file_axis  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
file_axis: axis
         | INT   { DtToken none = *$1;
                   none.text = "";
                   $$ = new_axis(p, &none, new_literal(p, $1)); } ;
opt_operands: %empty { $$ = (DtOperandList){0}; } | operands ;
operands: operand                 { $$ = (DtOperandList){0}; DT_PUSH(p->arena, $$, *$1); }
        | operands COMMA operand  { $$ = $1; DT_PUSH(p->arena, $$, *$3); } ;
operand: INT    { $$ = new_operand(p, @$, (DtNames){0}, NULL); $$->integer = $1->integer; }
       | path   { $$ = new_operand(p, @$, $1, NULL); }
       | MODEL  { $$ = new_operand(p, @$, one_name(p, $1), NULL); }
       | path ASSIGN operand_value  { $$ = new_operand(p, @$, $1, $3); } ;
operand_value: INT  { $$ = new_literal(p, $1); }
             | ID   { $$ = new_name(p, @$, NULL, $1); }
             | LPAREN expr RPAREN  { $$ = new_tree(p, DT_EXPR_PAREN, @$, $2, NULL, NULL); } ;
path: ID           { $$ = one_name(p, $1); }
    | path DOT ID  { $$ = $1; DT_PUSH(p->arena, $$, name_of($3)); } ;
opt_on: %empty { $$ = (DtNames){0}; } | ON ids { $$ = $2; } ;
opt_entry_args: %empty { $$ = (DtArgList){0}; } | LPAREN opt_args RPAREN { $$ = $2; } ;

%%

static int dt_parser_lex(YYSTYPE *ret_value, YYLTYPE *ret_span, DtParser *p)
{
    uint32_t at = p->next < p->tokens->n ? p->next++ : p->tokens->n - 1;
    ret_value->token = &p->tokens->at[at];
    *ret_span = p->tokens->at[at].span;
    return p->tokens->at[at].kind;
}

/* Only for an exhausted stack: syntax errors go to yyreport_syntax_error. */
static void dt_parser_error(YYLTYPE *span, DtParser *p, const char *message)
{
    (void)message;
    DtDiag *d = dt_diag_report(p->diags, E0110, *span, "this is nested too deeply");
    dt_diag_help(d, "give parts of it a name");
}

static int yyreport_syntax_error(const yypcontext_t *context, DtParser *p)
{
    bool expected[DT_TOK_LIMIT - DT_TOK_FIRST] = {false}, in_set[YYNTOKENS] = {false};
    yysymbol_kind_t set[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, set, YYNTOKENS);
    for (int i = 0; i < n; i++)
        in_set[set[i]] = true;
    for (int kind = DT_TOK_FIRST; kind < DT_TOK_LIMIT; kind++)
        expected[kind - DT_TOK_FIRST] = in_set[YYTRANSLATE(kind)];
    uint32_t at = p->next - 1;
    dt_expect_report(p->diags, p->tokens, at, expected);
    p->resume = dt_expect_resume(p->tokens, at);
    if (p->failed == at + 1 && p->resume == at) /* impossible, but parsing would not end */
        p->resume = at + 1;
    p->failed = at + 1;
    p->next = p->resume > at ? p->resume : p->next;
    return 0;
}

DtAst *dt_parse(DtArena *arena, DtDiags *diags, uint32_t file)
{
    DtAst *ast = DT_NEW(arena, DtAst);
    ast->file = file;
    DtArena *scratch = dt_arena_child(arena);
    DtTokens raw = dt_scan_tokens(scratch, diags, file);
    DtTokens tokens = dt_layout_tokens(scratch, diags, file, &raw);
    DtParser parser = {.arena = arena, .diags = diags, .tokens = &tokens, .ast = ast};
    dt_parser_parse(&parser);
    dt_arena_free(scratch);
    return ast;
}
