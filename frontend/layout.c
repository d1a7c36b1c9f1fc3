/* SPDX-License-Identifier: Apache-2.0 */
/* Turns raw tokens into the tokens of the grammar. Three things are decided here, by looking at
 * neighbouring tokens:
 *
 *   newlines   one becomes `;` when no `(` or `[` is open, the token before it can end a statement
 *              and the token after it can begin one (docs/language.md, "Lexical rules");
 *   brackets   whatever the source has, the grammar sees balanced ones: a missing closer is put in
 *              and reported at its opener, a closer without opener is reported and dropped;
 *   nesting    at most DT_MAX_NESTING brackets are open (E0110). */
#include "frontend/syntax.h"

#include "base/intern.h"
#include "dsl_parser.h"

enum { ENDS = 1, BEGINS = 2, KEYWORD = 4, STATEMENT = 8, ITEM = 16, OPENS = 32, CLOSES = 64 };

/* By token kind: its properties for layout and, for a keyword, a name to use instead. */
/* clang-format off */
static const struct { uint8_t flags; const char *other; } kinds[DT_TOK_LIMIT - DT_TOK_FIRST] = {
#define ROW(name) [DT_TOK_##name - DT_TOK_FIRST]
    ROW(ID) = {ENDS | BEGINS, NULL},
    ROW(INT) = {ENDS, NULL},
    ROW(FLOAT) = {ENDS, NULL},
    ROW(INDEX) = {ENDS, NULL},
    ROW(QUANTITY) = {ENDS, NULL},
    ROW(STRING) = {ENDS | BEGINS, NULL},
    ROW(DTYPE) = {ENDS | BEGINS, NULL},
    ROW(TRUE) = {ENDS | KEYWORD, "yes"},
    ROW(FALSE) = {ENDS | KEYWORD, "no"},
    ROW(INCLUDE) = {BEGINS | KEYWORD | ITEM, "included"},
    ROW(DIM) = {BEGINS | KEYWORD | ITEM, "extent"},
    ROW(AXIS) = {BEGINS | KEYWORD | ITEM, "along"},
    ROW(FN) = {BEGINS | KEYWORD | ITEM, "func"},
    ROW(LAYER) = {BEGINS | KEYWORD | ITEM, "block"},
    ROW(MODEL) = {BEGINS | KEYWORD | ITEM, "net"},
    ROW(TRAIN) = {BEGINS | KEYWORD | ITEM, "training_run"},
    ROW(CLUSTER) = {BEGINS | KEYWORD | ITEM, "machine"},
    ROW(PARALLEL) = {BEGINS | KEYWORD | ITEM, "par"},
    ROW(NAMES) = {BEGINS | KEYWORD | ITEM, "name_list"},
    ROW(DEVICE) = {BEGINS | ITEM, NULL}, /* item_kind decides whether it begins an item */
    ROW(STACK) = {BEGINS | ITEM, NULL},
    ROW(CONSTANT) = {BEGINS | ITEM, NULL},
    ROW(ON) = {KEYWORD, "over"},
    ROW(PARAM) = {BEGINS | KEYWORD | STATEMENT, "weight"},
    ROW(STATE) = {BEGINS | KEYWORD | STATEMENT, "memory"},
    ROW(REPEAT) = {BEGINS | KEYWORD | STATEMENT, "times"},
    ROW(IN) = {KEYWORD, "input"},
    ROW(IF) = {BEGINS | KEYWORD, "cond"},
    ROW(THEN) = {KEYWORD, "yes"},
    ROW(ELSE) = {KEYWORD, "no"},
    ROW(RETURN) = {BEGINS | KEYWORD | STATEMENT, "result"},
    ROW(CLAUSE) = {BEGINS, NULL}, /* begins_clause decides whether it begins a clause */
    ROW(AND) = {KEYWORD, "both"},
    ROW(OR) = {KEYWORD, "any"},
    ROW(NOT) = {KEYWORD, "negated"},
    ROW(LPAREN) = {OPENS, NULL},
    ROW(LBRACKET) = {OPENS, NULL},
    ROW(LBRACE) = {OPENS, NULL},
    ROW(RPAREN) = {ENDS | CLOSES, NULL},
    ROW(RBRACKET) = {ENDS | CLOSES, NULL},
    ROW(RBRACE) = {ENDS | BEGINS | CLOSES, NULL},
    ROW(COMMENT) = {0, NULL}, /* the last row only sets the size of the table */
#undef ROW
};
/* clang-format on */

static unsigned flags_of(int kind)
{
    return kind >= DT_TOK_FIRST && kind < DT_TOK_LIMIT ? kinds[kind - DT_TOK_FIRST].flags : 0;
}

bool dt_layout_is_keyword(int kind) { return flags_of(kind) & KEYWORD; }

bool dt_layout_is_item_keyword(int kind) { return flags_of(kind) & ITEM; }

const char *dt_layout_other_name(int kind)
{
    return dt_layout_is_keyword(kind) ? kinds[kind - DT_TOK_FIRST].other : NULL;
}

typedef struct Open {
    int kind; /* kind and place of the opener */
    DtSpan span;
} Open;

typedef struct Layout {
    DtArena *arena;
    DtDiags *diags;
    uint32_t file;
    DtTokens raw; /* tokens without comments */
    uint32_t at;  /* index in raw */
    DtTokens out;
    Open open[DT_MAX_NESTING];
    uint32_t n_open;
    uint16_t depth, nesting;
    bool config;    /* the present item is a configuration block */
    int head; /* keyword of the item or statement whose block has not begun yet; DT_TOK_END: none */
    bool after_cut; /* these closers belong to brackets inside an unterminated string */
    bool quiet;     /* the file ended inside brackets nested too deep, so open ones are not
                     * reported */
} Layout;

static int closer_of(int opener)
{
    return opener == DT_TOK_LPAREN     ? DT_TOK_RPAREN
           : opener == DT_TOK_LBRACKET ? DT_TOK_RBRACKET
                                       : DT_TOK_RBRACE;
}

static const char *spelling_of(int kind)
{
    switch (kind) {
    case DT_TOK_LPAREN: return "(";
    case DT_TOK_RPAREN: return ")";
    case DT_TOK_LBRACKET: return "[";
    case DT_TOK_RBRACKET: return "]";
    case DT_TOK_LBRACE: return "{";
    default: return "}";
    }
}

static bool in_parens(const Layout *l)
{
    return l->n_open && l->open[l->n_open - 1].kind != DT_TOK_LBRACE;
}

static void push(Layout *l, DtToken token)
{
    token.depth = l->depth;
    token.nesting = l->nesting;
    token.config = l->config;
    DT_PUSH(l->arena, l->out, token);
}

static void push_inserted(Layout *l, int kind)
{
    uint32_t at = l->out.n ? l->out.at[l->out.n - 1].span.hi : 0;
    push(l, (DtToken){.kind = kind,
                      .span = {l->file, at, at},
                      .inserted = true,
                      .reported = kind != DT_TOK_SEMI});
}

/* Appends the closer and takes the innermost bracket off the open ones. */
static void close_one(Layout *l, DtToken token)
{
    int opener = l->open[l->n_open - 1].kind;
    l->n_open--;
    if (opener == DT_TOK_LBRACE) {
        push(l, token);
        l->depth--;
    } else {
        l->nesting--;
        push(l, token);
    }
}

/* Reports the innermost bracket as never closed, and closes it; found: the token that shows that it
 * is not closed. */
static void close_missing(Layout *l, const DtToken *found)
{
    Open *open = &l->open[l->n_open - 1];
    const char *closer = spelling_of(closer_of(open->kind));
    if (!l->quiet && !l->after_cut) {
        DtDiag *d = dt_diag_report(l->diags, E0108, open->span, "this `%s` is never closed",
                                   spelling_of(open->kind));
        if (found->kind != DT_TOK_END)
            dt_diag_label(d, found->span, "`%s` expected before this", closer);
        else
            dt_diag_note(d, "the file ends before its `%s`", closer);
    }
    uint32_t at = l->out.at[l->out.n - 1].span.hi;
    close_one(l, (DtToken){.kind = closer_of(open->kind),
                           .span = {l->file, at, at},
                           .inserted = true,
                           .reported = true});
}

static int kind_at(const Layout *l, uint32_t at)
{
    return at < l->raw.n ? l->raw.at[at].kind : DT_TOK_END;
}

/* Whether the token, first on its line, is a keyword that begins a statement or item here. The
 * token after it tells whether the keyword is misused as a name. */
static bool begins_anew(const Layout *l, const DtToken *token, unsigned flag)
{
    if (!token->lines || !(flags_of(token->kind) & flag))
        return false;
    int next = kind_at(l, l->at + 1);
    if (token->kind == DT_TOK_RETURN)
        return next != DT_TOK_ASSIGN && next != DT_TOK_COMMA && next != DT_TOK_RPAREN &&
               next != DT_TOK_RBRACKET;
    return next == DT_TOK_ID || next == DT_TOK_DTYPE || next == DT_TOK_STRING ||
           (token->kind == DT_TOK_TRAIN && next == DT_TOK_LBRACE);
}

static void open_bracket(Layout *l, const DtToken *token)
{
    push(l, *token);
    l->open[l->n_open++] = (Open){token->kind, token->span};
    if (token->kind == DT_TOK_LBRACE)
        l->depth++;
    else
        l->nesting++;
}

/* Reports a bracket that is nested too deep and skips to its closer; an inserted token replaces the
 * skipped ones. */
static void skip_too_deep(Layout *l, const DtToken *token)
{
    DtDiag *d = dt_diag_report(l->diags, E0110, token->span, "more than %d brackets are open here",
                               DT_MAX_NESTING);
    dt_diag_help(d, "give the inner parts a name, or move them to a function");
    push(l, (DtToken){
                .kind = DT_TOK_BAD, .span = token->span, .lines = token->lines, .reported = true});
    for (uint32_t deep = 1; deep && l->at + 1 < l->raw.n;) {
        unsigned flags = flags_of(kind_at(l, ++l->at));
        deep += flags & OPENS ? 1 : 0;
        deep -= flags & CLOSES ? 1 : 0;
        l->quiet = deep && l->at + 1 >= l->raw.n;
    }
}

/* Handles a closer that does not match the innermost bracket: closes the brackets in between, takes
 * it for the intended closer, or drops it. */
static void close_other(Layout *l, DtToken token)
{
    uint32_t i = l->n_open;
    while (i && l->open[i - 1].kind != DT_TOK_LBRACE &&
           closer_of(l->open[i - 1].kind) != token.kind)
        i--;
    if (i && closer_of(l->open[i - 1].kind) == token.kind) {
        while (l->n_open > i)
            close_missing(l, &token);
        close_one(l, token);
        return;
    }
    const char *spelling = spelling_of(token.kind);
    if (!in_parens(l) || token.kind == DT_TOK_RBRACE) {
        DtDiag *d =
            dt_diag_report(l->diags, E0111, token.span, "this `%s` closes nothing", spelling);
        dt_diag_help(d, "delete it");
        return;
    }
    Open *open = &l->open[l->n_open - 1];
    int meant = closer_of(open->kind);
    DtDiag *d = dt_diag_report(l->diags, E0111, token.span, "`%s` cannot close `%s`", spelling,
                               spelling_of(open->kind));
    dt_diag_label(d, open->span, "opened here");
    if (kind_at(l, l->at + 1) == meant) {
        dt_diag_help(d, "delete it");
        return;
    }
    dt_diag_fix(d, token.span, spelling_of(meant), "write `%s`", spelling_of(meant));
    token.kind = meant;
    token.reported = true;
    close_one(l, token);
}

/* Returns the number of the token that closes the bracket at token `at` of the source. */
static uint32_t end_of_brackets(const Layout *l, uint32_t at)
{
    int deep = 0;
    do {
        const unsigned flags = flags_of(kind_at(l, at));
        deep += (flags & OPENS ? 1 : 0) - (flags & CLOSES ? 1 : 0);
    } while (deep > 0 && ++at < l->raw.n);
    return at;
}

/* Whether the brackets at token `at`, perhaps followed by parentheses, precede an opening brace. */
static bool is_before_brace(const Layout *l, uint32_t at)
{
    at = end_of_brackets(l, at);
    if (kind_at(l, at + 1) == DT_TOK_LPAREN)
        at = end_of_brackets(l, at + 1);
    return kind_at(l, at + 1) == DT_TOK_LBRACE;
}

/* Whether a clause begins here: `gradient(dy) {`, `stream[t] {`, `stream[t](z) {` and the like at
 * the start of a statement. No other statement looks so; elsewhere these words are names. */
static bool begins_clause(const Layout *l, const DtToken *token)
{
    static const char *const words[] = {"gradient", "surrogate", "stream", "scan",
                                        "merge",    "neutral",   "emit",   "finish"};
    const int last = l->out.n ? l->out.at[l->out.n - 1].kind : DT_TOK_END,
              next = kind_at(l, l->at + 1);
    bool is_word = false;
    if (token->kind != DT_TOK_ID || !l->n_open || l->config ||
        (last != DT_TOK_SEMI && last != DT_TOK_LBRACE))
        return false;
    for (size_t i = 0; i < DT_COUNT(words); i++)
        is_word = is_word || token->text == dt_intern(words[i]);
    return is_word && (next == DT_TOK_LPAREN ||
                       (next == DT_TOK_LBRACKET && is_before_brace(l, l->at + 1)));
}

/* Whether `device NAME {`, `stack NAME {` or `constant NAME` begins here, at the start of an item;
 * elsewhere the words are names. */
static int item_kind(const Layout *l, const DtToken *token)
{
    const int next = kind_at(l, l->at + 1);
    if (token->kind != DT_TOK_ID || l->n_open || (l->out.n && !token->lines) ||
        (next != DT_TOK_ID && next != DT_TOK_STRING))
        return token->kind;
    if (token->text == dt_intern("constant"))
        return next == DT_TOK_ID ? DT_TOK_CONSTANT : token->kind;
    return token->text == dt_intern("device")  ? DT_TOK_DEVICE
           : token->text == dt_intern("stack") ? DT_TOK_STACK
                                               : token->kind;
}

/* Whether the keyword begins an item or statement here that has a block in braces. */
static bool has_block(const Layout *l, const DtToken *token)
{
    const int next = kind_at(l, l->at + 1);
    switch (token->kind) {
    case DT_TOK_FN:
    case DT_TOK_LAYER:
    case DT_TOK_MODEL:
    case DT_TOK_CLUSTER:
    case DT_TOK_PARALLEL: return l->n_open == 0 && next == DT_TOK_ID;
    case DT_TOK_TRAIN: return l->n_open == 0;
    case DT_TOK_REPEAT: return l->n_open > 0 && !l->config && next == DT_TOK_ID;
    default: return false;
    }
}

/* Inserts and reports a missing opening brace of an item or loop whose block begins on the next
 * line, so that the rest can be parsed. */
static void open_missing(Layout *l, const DtToken *token)
{
    const DtToken last = l->out.at[l->out.n - 1];
    const bool item = flags_of(token->kind) & ITEM;
    if (l->head == DT_TOK_END || !token->lines || in_parens(l) || item ||
        !(flags_of(token->kind) & BEGINS) || token->kind == DT_TOK_RBRACE ||
        !(flags_of(last.kind) & ENDS || last.kind == DT_TOK_TRAIN))
        return;
    DtDiag *d = dt_diag_report(l->diags, E0112, (DtSpan){l->file, last.span.hi, last.span.hi},
                               "expected `{`, found the end of the line");
    dt_diag_fix(d, (DtSpan){l->file, last.span.hi, last.span.hi}, " {", "a block stands in braces");
    open_bracket(l, &(DtToken){.kind = DT_TOK_LBRACE,
                               .span = {l->file, last.span.hi, last.span.hi},
                               .inserted = true,
                               .reported = true});
    l->head = DT_TOK_END;
}

static void lay_token(Layout *l, DtToken *token)
{
    token->kind = item_kind(l, token);
    l->after_cut = l->out.n && l->out.at[l->out.n - 1].cut;
    while (l->after_cut && in_parens(l))
        close_missing(l, token);
    l->after_cut = false;
    if (in_parens(l) && (token->kind == DT_TOK_LBRACE || token->kind == DT_TOK_RBRACE ||
                         token->kind == DT_TOK_END || begins_anew(l, token, STATEMENT | ITEM)))
        while (in_parens(l))
            close_missing(l, token);
    if (token->kind == DT_TOK_END || begins_anew(l, token, ITEM))
        while (l->n_open) {
            if (l->out.n && l->out.at[l->out.n - 1].kind != DT_TOK_LBRACE)
                push_inserted(l, DT_TOK_SEMI);
            close_missing(l, token);
        }
    if (l->out.n)
        open_missing(l, token);
    const DtToken *last = l->out.n ? &l->out.at[l->out.n - 1] : NULL;
    if (token->lines && last && !in_parens(l) && flags_of(last->kind) & ENDS &&
        flags_of(token->kind) & BEGINS) {
        push_inserted(l, DT_TOK_SEMI);
        last = &l->out.at[l->out.n - 1];
    }
    if (l->n_open == 0 && (!last || last->kind == DT_TOK_SEMI))
        l->config = token->kind == DT_TOK_TRAIN || token->kind == DT_TOK_CLUSTER ||
                    token->kind == DT_TOK_PARALLEL || token->kind == DT_TOK_NAMES ||
                    token->kind == DT_TOK_DEVICE || token->kind == DT_TOK_STACK;
    if (!last || last->kind == DT_TOK_SEMI || last->kind == DT_TOK_LBRACE)
        l->head = has_block(l, token) ? token->kind : DT_TOK_END;
    else if (token->kind == DT_TOK_LBRACE)
        l->head = DT_TOK_END;
    if (begins_clause(l, token))
        token->kind = DT_TOK_CLAUSE;
    unsigned flags = flags_of(token->kind);
    if (flags & OPENS && l->n_open == DT_MAX_NESTING)
        skip_too_deep(l, token);
    else if (flags & OPENS)
        open_bracket(l, token);
    else if (flags & CLOSES && l->n_open && closer_of(l->open[l->n_open - 1].kind) == token->kind)
        close_one(l, *token);
    else if (flags & CLOSES)
        close_other(l, *token);
    else
        push(l, *token);
}

DtTokens dt_layout_tokens(DtArena *arena, DtDiags *diags, uint32_t file, const DtTokens *raw)
{
    Layout *l = DT_NEW(arena, Layout);
    l->arena = arena;
    l->diags = diags;
    l->file = file;
    l->head = DT_TOK_END;
    uint32_t lines = 0; /* newlines of comments, which count for the token after them */
    for (uint32_t i = 0; i < raw->n; i++) {
        DtToken token = raw->at[i];
        lines += token.lines;
        if (token.kind == DT_TOK_COMMENT)
            continue;
        token.lines = lines;
        lines = 0;
        DT_PUSH(arena, l->raw, token);
    }
    for (; l->at < l->raw.n; l->at++)
        lay_token(l, &l->raw.at[l->at]);
    uint32_t end = l->raw.n ? l->raw.at[l->raw.n - 1].span.hi : 0;
    lay_token(l, &(DtToken){.kind = DT_TOK_END, .span = {file, end, end}, .lines = 1});
    return l->out;
}
