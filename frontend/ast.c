/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax tree as indented text, one node a line: what `dtc --emit=ast` prints, and what tests
 * compare. Spans are left out, so that the text depends on the tokens only, not on their layout. */
#include "frontend/ast.h"

#include <inttypes.h>

typedef struct Printer {
    DtText *text;
    int level;
} Printer;

static void begin_line(Printer *p)
{
    for (int i = 0; i < p->level; i++)
        dt_text_add(p->text, "  ");
}

static void add_string(Printer *p, const char *bytes, size_t len)
{
    dt_text_add(p->text, "\"");
    for (size_t i = 0; i < len; i++) {
        switch (bytes[i]) {
        case '\n': dt_text_add(p->text, "\\n"); break;
        case '\t': dt_text_add(p->text, "\\t"); break;
        case '"': dt_text_add(p->text, "\\\""); break;
        case '\\': dt_text_add(p->text, "\\\\"); break;
        default: dt_text_add_n(p->text, bytes + i, 1);
        }
    }
    dt_text_add(p->text, "\"");
}

static void add_names(Printer *p, const DtNames *names)
{
    for (uint32_t i = 0; i < names->n; i++)
        dt_text_printf(p->text, "%s%s", i ? ", " : "", names->at[i].text);
}

static void add_group(Printer *p, const DtGroup *group)
{
    dt_text_add(p->text, group->parens ? "(" : "");
    for (uint32_t i = 0; i < group->names.n; i++)
        dt_text_printf(p->text, "%s%s%s", i ? ", " : "", group->names.at[i].text,
                       group->extents.n && group->extents.at[i] ? " =" : "");
    dt_text_add(p->text, group->parens ? ")" : "");
}

static void print_expr(Printer *p, const char *role, const DtExpr *e);

/* Prints the dtype and axes of a type, `f32[batch, seq]`, on the present line; extents that are
 * written follow on lines of their own. */
static void add_type(Printer *p, const DtAstType *type)
{
    dt_text_add(p->text, type->dtype ? type->dtype : "");
    if (!type->has_axes)
        return;
    dt_text_add(p->text, "[");
    for (uint32_t i = 0; i < type->axes.n; i++)
        dt_text_printf(p->text, "%s%s%s", i ? ", " : "", type->axes.at[i].name.text,
                       type->axes.at[i].extent ? " =" : "");
    dt_text_add(p->text, "]");
}

static void print_extents(Printer *p, const DtAstType *type)
{
    for (uint32_t i = 0; i < type->axes.n; i++)
        if (type->axes.at[i].extent)
            print_expr(p, "extent", type->axes.at[i].extent);
}

static const char *const operators[] = {
    [DT_OPR_ADD] = "+",       [DT_OPR_SUB] = "-",   [DT_OPR_MUL] = "*",  [DT_OPR_DIV] = "/",
    [DT_OPR_FLOORDIV] = "//", [DT_OPR_MOD] = "%",   [DT_OPR_POW] = "**", [DT_OPR_LT] = "<",
    [DT_OPR_LE] = "<=",       [DT_OPR_GT] = ">",    [DT_OPR_GE] = ">=",  [DT_OPR_EQ] = "==",
    [DT_OPR_NE] = "!=",       [DT_OPR_AND] = "and", [DT_OPR_OR] = "or",  [DT_OPR_NOT] = "not",
    [DT_OPR_NEG] = "negate"};

/* Prints the fields of the node itself, without its operands, on the present line. */
static void add_expr_head(Printer *p, const DtExpr *e)
{
    switch (e->kind) {
    case DT_EXPR_INT: dt_text_printf(p->text, "int %" PRId64, e->integer); break;
    case DT_EXPR_FLOAT:
        dt_text_add(p->text, "float ");
        dt_text_double(p->text, e->number);
        break;
    case DT_EXPR_QUANTITY:
        dt_text_add(p->text, "quantity ");
        dt_text_double(p->text, e->number);
        dt_text_printf(p->text, " %s", e->unit);
        break;
    case DT_EXPR_STRING:
        dt_text_add(p->text, "string ");
        add_string(p, e->string, e->string_len);
        break;
    case DT_EXPR_BOOL: dt_text_add(p->text, e->integer ? "true" : "false"); break;
    case DT_EXPR_DTYPE: dt_text_printf(p->text, "dtype %s", e->name.text); break;
    case DT_EXPR_NAME:
        dt_text_printf(p->text, "name %s%s%s", e->label.text ? e->label.text : "",
                       e->label.text ? ":" : "", e->name.text);
        break;
    case DT_EXPR_UNARY:
    case DT_EXPR_BINARY: dt_text_printf(p->text, "%s", operators[e->op]); break;
    case DT_EXPR_CONTRACT:
        dt_text_add(p->text, "contract @");
        add_group(p, &e->group);
        break;
    case DT_EXPR_IF: dt_text_add(p->text, "if"); break;
    case DT_EXPR_PIPE: dt_text_add(p->text, "pipe"); break;
    case DT_EXPR_SUBS: dt_text_add(p->text, "subs"); break;
    case DT_EXPR_CALL: dt_text_add(p->text, "call"); break;
    case DT_EXPR_FIELD: dt_text_printf(p->text, "field .%s", e->name.text); break;
    case DT_EXPR_TUPLE: dt_text_add(p->text, "tuple"); break;
    case DT_EXPR_PAREN: dt_text_add(p->text, "paren"); break;
    case DT_EXPR_ERROR: dt_text_add(p->text, "error"); break;
    }
}

static void print_sub(Printer *p, const DtSub *sub)
{
    begin_line(p);
    dt_text_add(p->text, "[");
    add_group(p, &sub->from);
    if (sub->kind == DT_SUB_RELABEL) {
        dt_text_add(p->text, " -> ");
        add_group(p, &sub->to);
    }
    dt_text_add(p->text, sub->kind == DT_SUB_INDEX   ? " =]\n"
                         : sub->kind == DT_SUB_RANGE ? " = ..]\n"
                                                     : "]\n");
    p->level++;
    for (uint32_t i = 0; i < sub->to.extents.n; i++)
        if (sub->to.extents.at[i])
            print_expr(p, "extent", sub->to.extents.at[i]);
    if (sub->index)
        print_expr(p, NULL, sub->index);
    if (sub->end)
        print_expr(p, "end", sub->end);
    p->level--;
}

static void print_args(Printer *p, const DtArg *args, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        print_expr(p, args[i].name.text ? args[i].name.text : "arg", args[i].value);
}

/* Prints the expression and its operands, a line each. role: what the expression is to its parent,
 * printed in front of it; or NULL. */
static void print_expr(Printer *p, const char *role, const DtExpr *e)
{
    begin_line(p);
    if (role)
        dt_text_printf(p->text, "%s: ", role);
    add_expr_head(p, e);
    dt_text_add(p->text, "\n");
    p->level++;
    if (e->a)
        print_expr(p, NULL, e->a);
    if (e->b)
        print_expr(p, NULL, e->b);
    if (e->c)
        print_expr(p, NULL, e->c);
    for (uint32_t i = 0; i < e->subs.n; i++)
        print_sub(p, &e->subs.at[i]);
    print_args(p, e->args.at, e->args.n);
    for (uint32_t i = 0; i < e->items.n; i++)
        print_expr(p, NULL, e->items.at[i]);
    p->level--;
}

static void print_targets(Printer *p, const DtTargets *targets)
{
    for (uint32_t i = 0; i < targets->n; i++) {
        const DtTarget *target = &targets->at[i];
        begin_line(p);
        dt_text_add(p->text, "target ");
        if (target->string)
            add_string(p, target->string, target->string_len);
        else
            dt_text_add(p->text, target->name.text);
        if (target->type.dtype || target->type.has_axes)
            dt_text_add(p->text, " ");
        add_type(p, &target->type);
        dt_text_add(p->text, "\n");
        p->level++;
        print_extents(p, &target->type);
        p->level--;
    }
}

static void print_stmts(Printer *p, const DtStmts *stmts);

static void print_stmt(Printer *p, const DtStmt *stmt)
{
    static const char *const heads[] = {
        [DT_STMT_PARAM] = "param",   [DT_STMT_STATE] = "state", [DT_STMT_ASSIGN] = "assign",
        [DT_STMT_REPEAT] = "repeat", [DT_STMT_IF] = "if",       [DT_STMT_RETURN] = "return",
        [DT_STMT_CLAUSE] = "clause",
        [DT_STMT_ERROR] = "error"};
    begin_line(p);
    dt_text_printf(p->text, "%s%s%s\n", heads[stmt->kind], stmt->name.text ? " " : "",
                   stmt->name.text ? stmt->name.text : "");
    p->level++;
    print_targets(p, &stmt->targets);
    if (stmt->value)
        print_expr(p, NULL, stmt->value);
    print_stmts(p, &stmt->body);
    if (stmt->has_else) {
        begin_line(p);
        dt_text_add(p->text, "else\n");
        p->level++;
        print_stmts(p, &stmt->other);
        p->level--;
    }
    p->level--;
}

static void print_stmts(Printer *p, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++)
        print_stmt(p, stmts->at[i]);
}

static void print_def(Printer *p, const DtDef *def)
{
    static const char *const heads[] = {
        [DT_DEF_FN] = "fn", [DT_DEF_LAYER] = "layer", [DT_DEF_MODEL] = "model"};
    begin_line(p);
    dt_text_printf(p->text, "%s %s", heads[def->kind], def->name.text);
    if (def->axes.n) {
        dt_text_add(p->text, "[");
        add_names(p, &def->axes);
        dt_text_add(p->text, "]");
    }
    dt_text_add(p->text, "\n");
    p->level++;
    for (uint32_t i = 0; i < def->formals.n; i++) {
        const DtFormal *formal = &def->formals.at[i];
        begin_line(p);
        dt_text_printf(p->text, "formal %s%s", formal->name.text,
                       formal->type.dtype || formal->type.has_axes ? " " : "");
        add_type(p, &formal->type);
        dt_text_add(p->text, "\n");
        p->level++;
        print_extents(p, &formal->type);
        if (formal->init)
            print_expr(p, "default", formal->init);
        p->level--;
    }
    for (uint32_t i = 0; i < def->results.n; i++) {
        begin_line(p);
        dt_text_add(p->text, "result ");
        add_type(p, &def->results.at[i]);
        dt_text_add(p->text, "\n");
        p->level++;
        print_extents(p, &def->results.at[i]);
        p->level--;
    }
    print_stmts(p, &def->body);
    p->level--;
}

static void print_operand(Printer *p, const DtOperand *operand)
{
    begin_line(p);
    dt_text_add(p->text, "operand ");
    if (!operand->path.n)
        dt_text_printf(p->text, "%" PRId64, operand->integer);
    for (uint32_t i = 0; i < operand->path.n; i++)
        dt_text_printf(p->text, "%s%s", i ? "." : "", operand->path.at[i].text);
    dt_text_add(p->text, "\n");
    p->level++;
    if (operand->value)
        print_expr(p, NULL, operand->value);
    p->level--;
}

static void print_entry(Printer *p, const DtEntry *entry)
{
    begin_line(p);
    if (entry->is_directive)
        dt_text_printf(p->text, "directive %s\n", entry->verb.text);
    else
        dt_text_add(p->text, "entry\n");
    p->level++;
    print_targets(p, &entry->targets);
    if (entry->value)
        print_expr(p, NULL, entry->value);
    for (uint32_t i = 0; i < entry->operands.n; i++)
        print_operand(p, &entry->operands.at[i]);
    if (entry->has_on) {
        begin_line(p);
        dt_text_add(p->text, "on ");
        add_names(p, &entry->on);
        dt_text_add(p->text, "\n");
    }
    print_args(p, entry->args.at, entry->args.n);
    p->level--;
}

static void print_config(Printer *p, const DtItem *item)
{
    static const char *const heads[] = {[DT_ITEM_TRAIN] = "train",
                                        [DT_ITEM_CLUSTER] = "cluster",
                                        [DT_ITEM_PARALLEL] = "parallel",
                                        [DT_ITEM_NAMES] = "names",
                                        [DT_ITEM_DEVICE] = "device",
                                        [DT_ITEM_STACK] = "stack"};
    dt_text_add(p->text, heads[item->kind]);
    if (item->name.text)
        dt_text_printf(p->text, " %s", item->name.text);
    if (item->on.text)
        dt_text_printf(p->text, " on %s", item->on.text);
    dt_text_add(p->text, "\n");
    p->level++;
    for (uint32_t i = 0; i < item->entries.n; i++)
        print_entry(p, item->entries.at[i]);
    p->level--;
}

static void print_binds(Printer *p, const DtItem *item)
{
    dt_text_add(p->text, item->kind == DT_ITEM_DIM ? "dim\n" : "constant\n");
    p->level++;
    for (uint32_t i = 0; i < item->binds.n; i++) {
        begin_line(p);
        dt_text_printf(p->text, "bind %s\n", item->binds.at[i].name.text);
        p->level++;
        if (item->binds.at[i].value)
            print_expr(p, NULL, item->binds.at[i].value);
        p->level--;
    }
    p->level--;
}

void dt_ast_print(const DtAst *ast, DtText *ret_text)
{
    Printer p = {ret_text, 0};
    for (uint32_t i = 0; i < ast->items.n; i++) {
        const DtItem *item = ast->items.at[i];
        switch (item->kind) {
        case DT_ITEM_INCLUDE:
            dt_text_add(ret_text, "include ");
            add_string(&p, item->include, item->include_len);
            dt_text_add(ret_text, "\n");
            break;
        case DT_ITEM_DIM:
        case DT_ITEM_CONSTANT: print_binds(&p, item); break;
        case DT_ITEM_AXIS:
            dt_text_add(ret_text, "axis ");
            add_names(&p, &item->axes);
            dt_text_add(ret_text, "\n");
            break;
        case DT_ITEM_DEF: print_def(&p, item->def); break;
        case DT_ITEM_ERROR: dt_text_add(ret_text, "error\n"); break;
        default: print_config(&p, item); break;
        }
    }
}
