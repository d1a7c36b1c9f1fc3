/* SPDX-License-Identifier: Apache-2.0 */
/* The parser: the values of tokens, the rule for newlines, precedence, spans, recovery after
 * errors, limits. tests/golden/errors tests the messages. */
#include "syntax_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void expect_tree(const char *text, const char *tree)
{
    Parsed p = parse_text(text);
    cr_expect_eq(dt_diag_errors(p.diags), 0, "%s", p.messages.at);
    cr_expect_str_eq(p.tree.at, tree);
    parsed_free(&p);
}

/* Checks that two texts give the same tree. */
static void expect_same(const char *a, const char *b)
{
    Parsed first = parse_text(a), second = parse_text(b);
    cr_expect_eq(dt_diag_errors(first.diags), 0, "%s", first.messages.at);
    cr_expect_eq(dt_diag_errors(second.diags), 0, "%s", second.messages.at);
    cr_expect_str_eq(first.tree.at, second.tree.at, "%s\n--- and ---\n%s", a, b);
    parsed_free(&first);
    parsed_free(&second);
}

static void expect_errors(const char *text, uint32_t n)
{
    Parsed p = parse_text(text);
    cr_expect_eq(dt_diag_errors(p.diags), n, "%u instead of %u in: %s\n%s", dt_diag_errors(p.diags),
                 n, text, p.messages.at);
    parsed_free(&p);
}

static void check_program(const char *path, const char *text, size_t len)
{
    Parsed p = parse_bytes(text, len);
    cr_expect_eq(dt_diag_errors(p.diags), 0, "%s: %s", path, p.messages.at);
    cr_expect_gt(p.ast->items.n, 2);
    parsed_free(&p);
}

Test(syntax, every_program_parses) { cr_assert_geq(each_program(check_program), 9); }

Test(syntax, values_of_words)
{
    expect_tree("dim a = 9_223_372_036_854_775_807, b = 1_0.2_5e-1, c = 1e3, d = 0.1",
                "dim\n"
                "  bind a\n    int 9223372036854775807\n  bind b\n    float 1.025\n"
                "  bind c\n    float 1e+03\n  bind d\n    float 0.1\n");
    expect_tree(
        "train { a = 450GB/s; b = 2us; c = 3GB / s; d = 80GiB; e = 1.5e3ms; f = 3GB/steps }",
        "train\n"
        "  entry\n    target a\n    quantity 4.5e+02 GB/s\n  entry\n    target b\n    quantity 2 "
        "us\n"
        "  entry\n    target c\n    /\n      quantity 3 GB\n      name s\n"
        "  entry\n    target d\n    quantity 8e+01 GiB\n  entry\n    target e\n    quantity "
        "1.5e+03 ms\n"
        "  entry\n    target f\n    /\n      quantity 3 GB\n      name steps\n");
    expect_tree("include \"a\\n\\t\\\"\\\\\xC3\xA9\"", "include \"a\\n\\t\\\"\\\\\xC3\xA9\"\n");
    expect_tree("\xEF\xBB\xBF"
                "axis a # \xE2\x88\x92\r\n\r\naxis b\r\n",
                "axis a\naxis b\n");
    expect_tree("", "");
    expect_tree("# only a comment", "");
    expect_tree("fn f(x) { return x[t = 0..8, u = 0 .. 8] }",
                "fn f\n  formal x\n  return\n    subs\n      name x\n"
                "      [t = ..]\n        int 0\n        end: int 8\n      [u = ..]\n        int "
                "0\n        end: int 8\n");
}

Test(syntax, newlines)
{
    expect_same("fn f(x) { a = x; return a }",
                "fn f(x)\n{\n\n  a =\n  x # one\n  # two\n\n  return\n  a\n}\n");
}

Test(syntax, lines_that_continue)
{
    expect_same("fn f(x) { return (x |> g(3)) - y @a z }",
                "fn f(x) {\n  return (x\n    |> g\n   (3))\n    - y\n  @a z\n}");
    expect_same("fn f(x) { if x { a = 1 } else { a = 2 }; return a }",
                "fn f(x) {\n if x {\n a = 1\n }\n else {\n a = 2\n }\n return a\n}");
    expect_same("fn f(x) { return g(x, y = 3)[a -> b] }",
                "fn f(x) {\n return g(\n x\n ,\n y\n =\n 3\n )[\n a\n -> b ] }");
    expect_same("axis a, b; axis c", "axis a,\n b\naxis c");
    expect_same("fn f[a](x[a]) -> [a], [] { return x, y }",
                "fn f\n[a]\n(x[a])\n -> [a],\n []\n{\n return x,\n y }");
    expect_same(
        "parallel p on c { pipeline model on pipe (cuts = (\"a\", \"b\")); zero 1 on data }",
        "parallel p on c {\n pipeline model on pipe\n  (cuts = (\"a\",\n \"b\"))\n zero 1 on "
        "data\n}");
}

/* Checks that the tree of `dim a = TEXT`, without its PAREN nodes, is the same as that of FULL. */
static void expect_grouping(const char *text, const char *full)
{
    char source[2][400], lines[2][4000];
    snprintf(source[0], sizeof source[0], "dim a = %s", text);
    snprintf(source[1], sizeof source[1], "dim a = %s", full);
    for (int i = 0; i < 2; i++) {
        Parsed p = parse_text(source[i]);
        cr_assert_eq(dt_diag_errors(p.diags), 0, "%s", p.messages.at);
        char *out = lines[i];
        *out = 0;
        int dropped[200] = {0}, n_dropped = 0; /* nesting levels of the PAREN nodes that are open */
        for (char *line = strtok(p.tree.at, "\n"); line; line = strtok(NULL, "\n")) {
            int level = (int)strspn(line, " ") / 2;
            while (n_dropped && dropped[n_dropped - 1] >= level)
                n_dropped--;
            if (!strcmp(line + 2 * level, "paren"))
                dropped[n_dropped++] = level;
            else
                out += sprintf(out, "%d %s\n", level - n_dropped, line + 2 * level);
        }
        parsed_free(&p);
    }
    cr_expect_str_eq(lines[0], lines[1], "%s and %s", text, full);
}

Test(syntax, grouping)
{
    expect_grouping("-b ** -c * d", "(-(b ** (-c))) * d");
    expect_grouping("a ** b ** c", "a ** (b ** c)");
    expect_grouping("a - b - c + d", "((a - b) - c) + d");
    expect_grouping("a / b * c // d % e", "(((a / b) * c) // d) % e");
    expect_grouping("a + b @x c * d", "a + ((b @x c) * d)");
    expect_grouping("a @(x, y) -b ** 2", "a @(x, y) (-(b ** 2))");
    expect_grouping("not a < b and c or d and not e", "((not (a < b)) and c) or (d and (not e))");
    expect_grouping("a + b < c * d", "(a + b) < (c * d)");
    expect_grouping("a or b |> f(1) |> g", "((a or b) |> f(1)) |> g");
    expect_grouping("if a then b else if c then d else e + 1",
                    "if a then b else (if c then d else (e + 1))");
    expect_grouping("if a then b else c |> f", "if a then b else (c |> f)");
    expect_grouping("l:f[a, (b, c)](x)[a -> b].size(2) ** 2",
                    "(((((l:f)[a, (b, c)])(x))[a -> b]).size)(2) ** 2");
}

/* The span of every node lies within that of its parent, and begins and ends at a token. */
static void check_span(const Parsed *p, const char *source, DtSpan outer, const DtExpr *e)
{
    cr_assert(outer.lo <= e->span.lo && e->span.lo < e->span.hi && e->span.hi <= outer.hi,
              "%u-%u in %u-%u", e->span.lo, e->span.hi, outer.lo, outer.hi);
    cr_assert(!strchr(" \n,", source[e->span.lo]) && !strchr(" \n,", source[e->span.hi - 1]),
              "%.*s", (int)(e->span.hi - e->span.lo), source + e->span.lo);
    if (e->kind == DT_EXPR_NAME)
        cr_assert(
            !strncmp(source + e->name.span.lo, e->name.text, e->name.span.hi - e->name.span.lo));
    const DtExpr *children[] = {e->a, e->b, e->c};
    for (int i = 0; i < 3; i++)
        if (children[i])
            check_span(p, source, e->span, children[i]);
    for (uint32_t i = 0; i < e->subs.n; i++)
        if (e->subs.at[i].index)
            check_span(p, source, e->subs.at[i].span, e->subs.at[i].index);
    for (uint32_t i = 0; i < e->args.n; i++)
        check_span(p, source, e->span, e->args.at[i].value);
    for (uint32_t i = 0; i < e->items.n; i++)
        check_span(p, source, e->span, e->items.at[i]);
}

static void check_stmts(const Parsed *p, const char *source, DtSpan outer, const DtStmts *stmts)
{
    for (uint32_t i = 0; i < stmts->n; i++) {
        const DtStmt *s = stmts->at[i];
        cr_assert(outer.lo < s->span.lo && s->span.lo < s->span.hi && s->span.hi < outer.hi);
        if (s->value)
            check_span(p, source, s->span, s->value);
        check_stmts(p, source, s->span, &s->body);
        check_stmts(p, source, s->span, &s->other);
    }
}

static void check_spans(const char *path, const char *text, size_t len)
{
    (void)path;
    Parsed p = parse_bytes(text, len);
    for (uint32_t i = 0; i < p.ast->items.n; i++) {
        const DtItem *item = p.ast->items.at[i];
        if (item->def)
            check_stmts(&p, text, item->span, &item->def->body);
        for (uint32_t k = 0; k < item->entries.n; k++)
            if (item->entries.at[k]->value)
                check_span(&p, text, item->entries.at[k]->span, item->entries.at[k]->value);
    }
    parsed_free(&p);
}

Test(syntax, spans) { cr_assert_geq(each_program(check_spans), 9); }

Test(syntax, each_faulty_statement_is_one_error)
{
    expect_errors("fn f(x) {\n a = = x\n b = x\n c = x +* x\n repeat h on x {\n d = )\n e = = x\n "
                  "}\n return x\n}\ndim = 3\nfn g() {}",
                  6);
    expect_errors("lyer f(x) {\n a = 3 3\n}\nfn f(x) { a = 3 3 }", 2);
    expect_errors("dim a = \nlyer f(x) -> [a] {\n y = 1\n}\n", 1);
    expect_errors("train { a = = 3; b = 3 }; train { b = * }", 2);
    expect_errors("fn f(x) { return g(x }\nfn g(x) { return x }", 1);
    expect_errors("fn f(x) {\n a = x\nfn g(x) {\n return x\n}\n", 1);
    expect_errors("fn f(x) { return 'a' }", 1);
    expect_errors("\"\n{{{\n}\n", 3);
}

/* Statements after an error are still in the tree. */
Test(syntax, goes_on_behind_errors)
{
    Parsed p = parse_text("fn f(x) {\n a = = x\n b = x\n}\nlyer g(x) { c = x }\naxis z");
    cr_expect_str_eq(
        p.tree.at,
        "fn f\n  formal x\n  error\n  assign\n    target b\n    name x\nerror\naxis z\n");
    parsed_free(&p);
}

static char *repeated(const char *head, const char *unit, size_t n, const char *tail)
{
    size_t step = strlen(unit), at = strlen(head);
    char *text = malloc(at + step * n + strlen(tail) + 1);
    strcpy(text, head);
    for (size_t i = 0; i < n; i++, at += step)
        memcpy(text + at, unit, step);
    strcpy(text + at, tail);
    return text;
}

Test(syntax, hostile_sizes)
{
    /* clang-format off */
    static const struct {
        const char *head, *unit;
        size_t n;
        const char *tail;
        uint32_t errors;
    } rows[] = {
        {"# ", "x", 1 << 20, "\naxis a", 0},         {"include \"", "x", 1 << 20, "\"", 0},
        {"axis ", "x", 1 << 20, "", 1},              {"dim a = ", "1", 1 << 20, "", 1},
        {"dim a = 0.", "1", 1 << 20, "", 1},         {"axis a", ", b", 300000, "", 0},
        {"dim a = ", "(", 100000, "", 1},            {"dim a = ", "-", 100000, "1", 1},
        {"dim a = 1", " + 1", 900, "", 0},           {"dim a = 1", " + 1", 200000, "", 1},
        {"dim a = ", "if 1 then 2 else ", 50000, "3", 1}, {"dim a = x", "[b]", 100000, "", 1},
        {"fn f(x) {", " repeat i in 3 {", 150, "", 151}, {"fn f(x) {", " if true {", 5000, "", 1},
        {"", "\n", 1 << 20, "", 0},                  {"", ";", 1 << 20, "", 0},
        {"", "}", 5000, "", 5000},                   {"dim a = 2", " ** 2", 3000, "", 1},
        {"dim a = ", "not ", 3000, "b", 1},          {"#", "x", DT_MAX_SOURCE, "", 1},
        {"dim a = b", "\n* c", 900, "", 0},          {"dim a = 1", " |> f", 3000, "", 1}};
    /* clang-format on */
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        char *text = repeated(rows[i].head, rows[i].unit, rows[i].n, rows[i].tail);
        Parsed p = parse_text(text);
        cr_expect_eq(dt_diag_errors(p.diags), rows[i].errors, "row %zu: %u errors: %.400s", i,
                     dt_diag_errors(p.diags), p.messages.at);
        parsed_free(&p);
        free(text);
    }
}

Test(syntax, height_is_bounded)
{
    char *text = repeated("fn f(x) { return ", "g(x[a = -(", 60, "x");
    char *whole = repeated(text, ")])", 60, " }");
    Parsed p = parse_text(whole);
    cr_expect_eq(dt_diag_errors(p.diags), 0, "%s", p.messages.at);
    uint32_t height = p.ast->items.at[0]->def->body.at[0]->value->height;
    cr_expect(height > 180 && height <= DT_MAX_HEIGHT, "%u", height);
    parsed_free(&p);
    free(text);
    free(whole);
}

Test(syntax, two_thousand_lines_in_milliseconds)
{
    char *text =
        repeated("fn f(x) {\n",
                 "  y = wq:linear[embed, (heads, head)](x)[seq -> kseq] + 3 * x @a y  # text\n",
                 2000, "}\n");
    clock_t start = clock();
    Parsed p = parse_text(text);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_expect_eq(dt_diag_errors(p.diags), 0);
    cr_expect_eq(p.ast->items.at[0]->def->body.n, 2000);
    cr_expect_lt(seconds, 0.5, "%g s",
                 seconds); /* takes about 0.02 s in an optimised build; the limit leaves room for
                            * sanitizers and a busy machine */
    parsed_free(&p);
    free(text);
}
