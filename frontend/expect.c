/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the messages of syntax errors, and decides where parsing resumes. The generated parser
 * knows which tokens it could take; a user wants a short list (`a value` rather than eleven
 * tokens), and, where the mistake is a common one, the way to write it. */
#include "frontend/foreign.h"
#include "frontend/syntax.h"

#include "base/intern.h"
#include "dsl_parser.h"

#include <stdlib.h>
#include <string.h>

#define HAS(kind) expected[DT_TOK_##kind - DT_TOK_FIRST]

static uint32_t item_start(const DtTokens *tokens, uint32_t at)
{
    const DtToken *t = tokens->at;
    uint16_t depth = t[at].depth;
    while (at > 0) {
        const DtToken *before = &t[at - 1];
        bool opens = before->kind == DT_TOK_LBRACE && before->depth + 1 == depth;
        bool ends = before->kind == DT_TOK_SEMI && before->depth == depth && before->nesting == 0;
        if (opens || ends)
            break;
        at--;
    }
    return at;
}

/* Whether parsing may resume at the block of a faulty part that begins with token `start`:
 * statements always, entries never, items if the error comes after the keyword that says which kind
 * of block it is. */
static bool resumes_at_block(const DtToken *start, const DtToken *faulty)
{
    if (faulty->depth)
        return !faulty->config;
    return start != faulty && dt_layout_is_item_keyword(start->kind) &&
           start->kind != DT_TOK_INCLUDE && start->kind != DT_TOK_DIM &&
           start->kind != DT_TOK_CONSTANT && start->kind != DT_TOK_AXIS;
}

uint32_t dt_expect_resume(const DtTokens *tokens, uint32_t at)
{
    const DtToken *t = tokens->at;
    uint16_t depth = t[at].depth;
    bool block = resumes_at_block(&t[item_start(tokens, at)], &t[at]);
    for (;; at++) {
        bool here = t[at].depth == depth && t[at].nesting == 0;
        if (t[at].kind == DT_TOK_END ||
            (here && (t[at].kind == DT_TOK_SEMI || t[at].kind == DT_TOK_RBRACE)) ||
            (here && block && t[at].kind == DT_TOK_LBRACE))
            return at;
    }
}

static const char *source_of(const DtDiags *diags, DtSpan span)
{
    size_t len;
    return dt_diag_source(diags, span.file, &len) + span.lo;
}

/* Adds what was found instead: "`foo`", "the keyword `in`", "the end of the line". */
static void add_found(const DtDiags *diags, const DtToken *token, DtText *text)
{
    int len = (int)(token->span.hi - token->span.lo);
    const char *cut = len > 40 ? "..." : "";
    if (len > 40)
        len = 40;
    switch (token->kind) {
    case DT_TOK_END: dt_text_add(text, "the end of the file"); break;
    case DT_TOK_STRING: dt_text_add(text, "a string"); break;
    case DT_TOK_SEMI: dt_text_add(text, token->inserted ? "the end of the line" : "`;`"); break;
    default:
        if (dt_layout_is_keyword(token->kind))
            dt_text_add(text, "the keyword ");
        dt_text_printf(text, "`%.*s%s`", len, source_of(diags, token->span), cut);
    }
}

/* Adds the expected tokens in a few words. Operators, and tokens that may follow any value, are
 * left out unless nothing else is expected. */
static void add_expected(const bool *expected, DtText *text)
{
    static const struct {
        int kind;
        const char *text;
    } rows[] = {{DT_TOK_ID, "a name"},       {DT_TOK_INT, "an integer"},
                {DT_TOK_STRING, "a string"}, {DT_TOK_DTYPE, "a dtype"},
                {DT_TOK_MODEL, NULL},        {DT_TOK_ELLIPSIS, "`...`"},
                {DT_TOK_ASSIGN, "`=`"},      {DT_TOK_ARROW, "`->`"},
                {DT_TOK_IN, "`in`"},         {DT_TOK_ON, "`on`"},
                {DT_TOK_THEN, "`then`"},     {DT_TOK_ELSE, "`else`"},
                {DT_TOK_RANGE, "`..`"},      {DT_TOK_LBRACKET, "`[`"},
                {DT_TOK_LPAREN, "`(`"},      {DT_TOK_COMMA, "`,`"},
                {DT_TOK_RPAREN, "`)`"},      {DT_TOK_RBRACKET, "`]`"},
                {DT_TOK_LBRACE, "`{`"},      {DT_TOK_SEMI, "a new line or `;`"}};
    const char *words[DT_COUNT(rows) + 2];
    uint32_t n = 0;
    bool value = HAS(INT) && HAS(FLOAT), operators = HAS(POW), statement = HAS(RETURN);
    if (HAS(ON) && HAS(ASSIGN) && HAS(INT)) { /* the error is after the first word of an entry */
        dt_text_add(text, "`=`, or what the directive is about");
        return;
    }
    if (value)
        words[n++] = "a value";
    if (statement)
        words[n++] = "a statement";
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        int kind = rows[i].kind;
        if (!rows[i].text || !expected[kind - DT_TOK_FIRST])
            continue;
        bool begins_value = kind == DT_TOK_ID || kind == DT_TOK_INT || kind == DT_TOK_STRING ||
                            kind == DT_TOK_DTYPE;
        if (value && (begins_value || kind == DT_TOK_LPAREN))
            continue;
        if (statement && (begins_value || kind == DT_TOK_SEMI))
            continue;
        if (operators && (kind == DT_TOK_LPAREN || kind == DT_TOK_LBRACKET))
            continue;
        words[n++] = rows[i].text;
    }
    if (n == 0 && operators)
        words[n++] = "an operator";
    if (n == 0)
        words[n++] = HAS(RBRACE) ? "`}`" : "the end of the file";
    for (uint32_t i = 0; i < n; i++)
        dt_text_printf(text, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", words[i]);
}

/* Words of other languages, and the words of this one that replace them. */
static const struct {
    const char *theirs, *ours;
} foreign_words[] = {{"def", "fn"},
                     {"func", "fn"},
                     {"function", "fn"},
                     {"class", "layer"},
                     {"module", "layer"},
                     {"import", "include"},
                     {"from", "include"},
                     {"use", "include"},
                     {"for", "repeat"},
                     {"while", "repeat"},
                     {"loop", "repeat"},
                     {"parameter", "param"},
                     {"buffer", "state"},
                     {"elif", "else { if ... }"},
                     {"elseif", "else { if ... }"},
                     {"mesh", "parallel"},
                     {"dims", "dim"},
                     {"axes", "axis"},
                     {"const", "constant"},
                     {"let", "constant"}};

/* Returns the keyword that the name is probably a misspelling of, or that means what it does in
 * other languages; or NULL. */
static const char *meant_keyword(const char *name, bool item)
{
    static const char *const items[] = {"include", "dim",   "axis",    "fn",       "layer",
                                        "model",   "train", "cluster", "parallel", "names"};
    static const char *const statements[] = {"param", "state", "repeat", "if", "return"};
    const char *near = item ? dt_text_nearest(name, items, DT_COUNT(items))
                            : dt_text_nearest(name, statements, DT_COUNT(statements));
    for (size_t i = 0; i < DT_COUNT(foreign_words); i++)
        if (!strcmp(foreign_words[i].theirs, name))
            return foreign_words[i].ours;
    return near;
}

static void help_dtype(DtDiag *d, const DtToken *token)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {{"float", "f32"},   {"float32", "f32"},   {"fp32", "f32"},     {"double", "f64"},
                {"float64", "f64"}, {"fp64", "f64"},      {"half", "f16"},     {"float16", "f16"},
                {"fp16", "f16"},    {"bfloat16", "bf16"}, {"int", "i32"},      {"int32", "i32"},
                {"long", "i64"},    {"int64", "i64"},     {"byte", "u8"},      {"uint8", "u8"},
                {"uint16", "u16"},  {"uint32", "u32"},    {"boolean", "bool"}, {"i16", "i32"},
                {"i8", "i32"},      {"u64", "i64"}};
    for (size_t i = 0; token->kind == DT_TOK_ID && i < DT_COUNT(rows); i++)
        if (!strcmp(rows[i].theirs, token->text))
            dt_diag_fix(d, token->span, rows[i].ours, "the dtype is called `%s`", rows[i].ours);
}

static bool is_operator(int kind)
{
    return kind == DT_TOK_AT || kind == DT_TOK_PLUS || kind == DT_TOK_MINUS ||
           kind == DT_TOK_STAR || kind == DT_TOK_POW || kind == DT_TOK_FLOORDIV ||
           kind == DT_TOK_SLASH || kind == DT_TOK_PERCENT || kind == DT_TOK_CMP ||
           kind == DT_TOK_AND || kind == DT_TOK_OR;
}

/* Returns the first of the axes in brackets that the file writes after the name, before token `at`:
 * in a signature, or of a parameter. NULL if there are none. */
static const DtToken *axes_of(const DtTokens *tokens, uint32_t at, const char *name)
{
    const DtToken *t = tokens->at;
    for (uint32_t i = at; i > 0; i--)
        if (t[i].kind == DT_TOK_ID && t[i].text == name && t[i + 1].kind == DT_TOK_LBRACKET &&
            t[i + 2].kind == DT_TOK_ID &&
            (t[i - 1].kind == DT_TOK_LPAREN || t[i - 1].kind == DT_TOK_COMMA ||
             t[i - 1].kind == DT_TOK_PARAM || t[i - 1].kind == DT_TOK_DTYPE))
            return &t[i + 2];
    return NULL;
}

/* Adds help for `x @ w`, which lacks the axis that is summed: proposes the axis that both operands
 * have. */
static void help_product(DtDiag *d, const DtTokens *tokens, uint32_t at)
{
    const DtToken *t = tokens->at, *right = &t[at - 1], *left = at >= 3 ? &t[at - 3] : NULL;
    const DtToken *a = left && left->kind == DT_TOK_ID ? axes_of(tokens, at, left->text) : NULL;
    const DtToken *b = axes_of(tokens, at, right->text);
    dt_diag_help(d, "`@` names the axis that is summed, after it: `x @embed w`");
    for (const DtToken *x = a; a && b && x->kind != DT_TOK_RBRACKET && x->kind != DT_TOK_END; x++)
        for (const DtToken *y = b; y->kind != DT_TOK_RBRACKET && y->kind != DT_TOK_END; y++)
            if (x->kind == DT_TOK_ID && y->kind == DT_TOK_ID && x->text == y->text) {
                DtSpan span = {right->span.file, right->span.lo - 1, right->span.lo};
                span.lo = right[-1].span.hi;
                dt_diag_fix(d, span, dt_intern_printf("%s ", x->text),
                            "`%s` and `%s` both have `%s`", left->text, right->text, x->text);
                return;
            }
}

/* Whether the statement computes a value without giving it a name, as `dropout(x, 0.1)`, `y +
 * mlp(x)` or `print` would. */
static bool is_dropped_value(const DtTokens *tokens, uint32_t at, const bool *expected)
{
    const DtToken *found = &tokens->at[at], *start = &tokens->at[item_start(tokens, at)];
    return start->kind == DT_TOK_ID && !found->config && found->depth && HAS(ASSIGN) &&
           found != start &&
           (found->kind == DT_TOK_LPAREN || found->kind == DT_TOK_COLON ||
            found->kind == DT_TOK_PIPE || found->kind == DT_TOK_DOT || is_operator(found->kind));
}

static void report_dropped_value(DtDiags *diags, const DtTokens *tokens, uint32_t at)
{
    const DtToken *start = &tokens->at[item_start(tokens, at)];
    DtDiag *d = dt_diag_report(diags, E0112, start->span, "this value is computed and dropped");
    if (dt_foreign_help(d, DT_FOREIGN_STATEMENT, (DtSpan){0}, start->text)) {
        const DtToken *last = &tokens->at[at];
        while (last->kind != DT_TOK_END && last[1].kind != DT_TOK_END &&
               !(last[1].kind == DT_TOK_SEMI && last[1].nesting == 0) &&
               !(last[1].kind == DT_TOK_RBRACE && last[1].depth == start->depth))
            last++;
        if (last->kind == DT_TOK_RPAREN)
            dt_diag_fix(d, (DtSpan){start->span.file, start->span.lo, last->span.hi}, "",
                        "leave it out");
        return;
    }
    dt_diag_note(d, "a statement binds a name, `y = ...`, or ends the body, `return ...`");
    dt_diag_fix(d, (DtSpan){start->span.file, start->span.lo, start->span.lo}, "return ",
                "did you mean to return it?");
}

static void help_comment(DtDiag *d, const DtToken *found)
{
    if (found->kind == DT_TOK_FLOORDIV)
        dt_diag_fix(d, found->span, "#", "a comment begins with `#`");
    else
        dt_diag_help(d, "a comment begins with `#`");
}

/* Adds help for `for h in range(n) {`, which is written `repeat h in n {`; false if the statement
 * is nothing like it. */
static bool help_loop(DtDiag *d, const DtTokens *tokens, uint32_t at)
{
    const DtToken *t = tokens->at, *start = &t[item_start(tokens, at)];
    if (start->kind != DT_TOK_ID || strcmp(start->text, "for") != 0 || start + 1 != &t[at] ||
        start[1].kind != DT_TOK_ID || start[2].kind != DT_TOK_IN)
        return false;
    const bool range = start[3].kind == DT_TOK_ID && !strcmp(start[3].text, "range") &&
                       start[4].kind == DT_TOK_LPAREN && start[5].kind == DT_TOK_ID &&
                       start[6].kind == DT_TOK_RPAREN;
    const char *over = start[range ? 5 : 3].kind == DT_TOK_ID ? start[range ? 5 : 3].text : NULL;
    dt_diag_help(d, "a loop is `repeat h in layers { ... }`, over a dim");
    if (over)
        dt_diag_fix(d, (DtSpan){start->span.file, start->span.lo, start[range ? 6 : 3].span.hi},
                    dt_intern_printf("repeat %s in %s", start[1].text, over),
                    "did you mean `repeat`?");
    return true;
}

/* Adds help and a fix for `param w[a]` without `= ...`. */
static void help_initial(DtDiag *d, const DtToken *start, const DtToken *before)
{
    const bool param = start->kind == DT_TOK_PARAM;
    dt_diag_help(d,
                 "a %s needs its initial value: `= normal(0.02)`, `= zeros`, `= ones`, `= "
                 "uniform(-0.1, 0.1)`",
                 param ? "parameter" : "state");
    dt_diag_fix(d, (DtSpan){before->span.file, before->span.hi, before->span.hi},
                param ? " = normal(0.02)" : " = zeros", param ? "small random numbers" : "zeros");
}

/* Adds help for common mistakes: how to write them. */
static void add_help(DtDiag *d, const DtTokens *tokens, uint32_t at, const bool *expected)
{
    const DtToken *found = &tokens->at[at], *before = at ? found - 1 : NULL;
    uint32_t first = item_start(tokens, at);
    const DtToken *start = &tokens->at[first];
    bool closes = found->kind == DT_TOK_RPAREN || found->kind == DT_TOK_RBRACKET;
    if (!before)
        return;
    if (help_loop(d, tokens, at))
        return;
    if (before->kind == DT_TOK_ID && at >= 2 && before[-1].kind == DT_TOK_AT && HAS(INT))
        help_product(d, tokens, at);
    else if ((start->kind == DT_TOK_PARAM || start->kind == DT_TOK_STATE) &&
             found->kind == DT_TOK_SEMI && HAS(ASSIGN))
        help_initial(d, start, before);
    else if (start->kind == DT_TOK_DIM && found->kind == DT_TOK_ID && HAS(POW) && !found->lines)
        dt_diag_fix(d, (DtSpan){before->span.file, before->span.hi, before->span.hi}, ",",
                    "a comma stands between two dims");
    else if (found->config && found->kind == DT_TOK_ASSIGN && before == start &&
             before->kind == DT_TOK_DTYPE)
        dt_foreign_help(d, DT_FOREIGN_SETTING, (DtSpan){0}, before->text);
    else if (closes && before->kind == DT_TOK_COMMA)
        dt_diag_fix(d, before->span, "", "no comma follows the last entry");
    else if (found->kind == DT_TOK_CMP && before->kind != DT_TOK_CMP && HAS(AND) && !HAS(CMP))
        dt_diag_help(d, "comparisons do not chain: write `a < b and b < c`");
    else if (found->kind == DT_TOK_IF && before->kind == DT_TOK_ELSE)
        dt_diag_help(d, "write `else { if ... { ... } }`");
    else if (found->kind == DT_TOK_ELSE && at == first)
        dt_diag_help(d, "an `else` follows the `}` of its `if` directly, with no `;` between");
    else if (found->kind == DT_TOK_CMP && HAS(ASSIGN) && !strcmp(found->text, "=="))
        dt_diag_fix(d, found->span, "=", "write `=`");
    else if (found->kind == DT_TOK_ASSIGN && HAS(CMP) && start->kind == DT_TOK_IF)
        dt_diag_fix(d, found->span, "==", "equality is written `==`");
    else if (found->kind == DT_TOK_ASSIGN && HAS(CMP))
        dt_diag_help(d, "a statement has one `=`; equality is written `==`");
    else if (HAS(PIPE) && !HAS(POW) && is_operator(found->kind))
        dt_diag_help(d, "`|>` binds loosest: write `(x |> f) + y`");
    else if (found->kind == DT_TOK_INT && before->kind == DT_TOK_LBRACKET)
        dt_diag_help(d, "an index names its axis: `x[axis = %lld]`", (long long)found->integer);
    else if ((found->kind == DT_TOK_FLOORDIV || found->kind == DT_TOK_SLASH) && at == first)
        help_comment(d, found);
    else if (found->kind == DT_TOK_COLON && (HAS(LBRACE) || HAS(ARROW)))
        dt_diag_fix(d, found->span, " {", "a block stands in braces");
    else if (found->config && HAS(COMMA) && before->kind != DT_TOK_COMMA &&
             start->kind == DT_TOK_ID && HAS(ON) &&
             (found->kind == DT_TOK_STAR || found->kind == DT_TOK_MINUS ||
              found->kind == DT_TOK_PLUS))
        dt_diag_help(d, "in a directive an expression stands in parentheses: `data = (2 * n)`");
    else if (start->kind == DT_TOK_ID && at == first + 1 && !found->config &&
             meant_keyword(start->text, false))
        dt_diag_help(d, "did you mean `%s`?", meant_keyword(start->text, false));
    else if (found->kind == DT_TOK_ID || found->kind == DT_TOK_LBRACKET)
        help_dtype(d, before->kind == DT_TOK_ID && found->kind == DT_TOK_ID ? before : start);
}

/* Adds a label for a line that ends in an operator, `y = x +`: the statement on the next line was
 * read as its operand. False if there is none. */
static bool add_continued(DtDiag *d, const DtTokens *tokens, uint32_t at)
{
    const DtToken *found = &tokens->at[at];
    if (found->kind != DT_TOK_ASSIGN || at < 2 || found[-1].kind != DT_TOK_ID || !found[-1].lines)
        return false;
    dt_diag_label(d, found[-2].span, "the statement goes on after this");
    return true;
}

static void report_item(DtDiags *diags, const DtTokens *tokens, uint32_t at)
{
    const DtToken *found = &tokens->at[at];
    DtText text = {0};
    add_found(diags, found, &text);
    DtDiag *d = dt_diag_report(diags, E0113, found->span, "expected an item, found %s", text.at);
    const char *near = found->kind == DT_TOK_ID ? meant_keyword(found->text, true) : NULL;
    if (near)
        dt_diag_fix(d, found->span, near, "did you mean `%s`?", near);
    else if (found->kind == DT_TOK_FLOORDIV || found->kind == DT_TOK_SLASH)
        help_comment(d, found);
    else if (found->kind == DT_TOK_ID && found[1].kind == DT_TOK_ASSIGN)
        dt_diag_help(
            d, "an extent is declared with `dim %s = ...`; values belong into a fn, layer or model",
            found->text);
    else if (dt_layout_is_keyword(found->kind))
        dt_diag_help(d, "statements belong into the body of a fn, layer or model");
    dt_diag_note(d, "a file consists of include, dim, axis, fn, layer, model, train, cluster, "
                    "parallel and names");
    dt_text_free(&text);
}

static void report_keyword(DtDiags *diags, const DtToken *found)
{
    const char *keyword = found->text, *other = dt_layout_other_name(found->kind);
    DtDiag *d = dt_diag_report(diags, E0109, found->span, "`%s` is a keyword and cannot be a name",
                               keyword);
    dt_diag_fix(d, found->span, other, "another name, such as `%s`", other);
}

/* Reports a token after a complete statement on its line, with help. */
static void report_separator(DtDiags *diags, const DtTokens *tokens, uint32_t at,
                             const bool *expected)
{
    const DtToken *found = &tokens->at[at];
    DtText text = {0};
    add_found(diags, found, &text);
    DtDiag *d = dt_diag_report(diags, E0114, found->span, "expected %sa new line or `;`, found %s",
                               HAS(POW)     ? "an operator, "
                               : HAS(COMMA) ? "`,`, "
                                            : "",
                               text.at);
    if (!add_continued(d, tokens, at))
        add_help(d, tokens, at, expected);
    dt_text_free(&text);
}

void dt_expect_report(DtDiags *diags, const DtTokens *tokens, uint32_t at, const bool *expected)
{
    const DtToken *found = &tokens->at[at];
    if (found->reported)
        return;
    bool first = item_start(tokens, at) == at;
    if (found->depth && found->kind == DT_TOK_ASSIGN && dt_layout_is_keyword(found[-1].kind) &&
        item_start(tokens, at) == at - 1) {
        report_keyword(diags, found - 1);
        return;
    }
    if (found->depth == 0 && first && found->kind != DT_TOK_END) {
        report_item(diags, tokens, at);
        return;
    }
    if (is_dropped_value(tokens, at, expected) &&
        strcmp(tokens->at[item_start(tokens, at)].text, "for") != 0) {
        report_dropped_value(diags, tokens, at);
        return;
    }
    if (at && found[-1].kind == DT_TOK_COLON && found->lines) { /* `if x:` and a new line */
        DtDiag *d = dt_diag_report(diags, E0112, found[-1].span,
                                   "expected `{`, found `:` at the end of the line");
        dt_diag_fix(d, found[-1].span, " {", "a block stands in braces");
        return;
    }
    if (dt_layout_is_keyword(found->kind) && HAS(ID) &&
        !(found->lines && dt_layout_is_item_keyword(found->kind) && !first)) {
        report_keyword(diags, found);
        return;
    }
    if (HAS(SEMI) && !HAS(INT) && found->kind != DT_TOK_END) {
        report_separator(diags, tokens, at, expected);
        return;
    }
    DtText list = {0}, text = {0};
    add_expected(expected, &list);
    add_found(diags, found, &text);
    DtDiag *d =
        dt_diag_report(diags, E0112, found->span, "expected %s, found %s", list.at, text.at);
    add_help(d, tokens, at, expected);
    dt_text_free(&list);
    dt_text_free(&text);
}
