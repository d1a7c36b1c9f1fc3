/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics against golden texts (tests/golden/diag; DT_BLESS=1 rewrites them), and their
 * bounds. */
#include "base/diag.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static DtArena *arena;
static DtDiags *diags;

static void enter(void)
{
    arena = dt_arena_new();
    diags = dt_diag_new(arena);
}

static void leave(void) { dt_arena_free(arena); }

TestSuite(diag, .init = enter, .fini = leave);

/* Looks codes up by name, so that the test does not depend on the rows of diags.def after the
 * first. */
static DtDiagCode code(const char *name)
{
    DtDiagCode found = E0001;
    cr_assert(dt_diag_find(name, &found), "no row %s", name);
    return found;
}

/* Returns the span of the nth (from 1) occurrence of needle in the file. */
static DtSpan span_of(uint32_t file, const char *needle, int nth)
{
    size_t len;
    const char *text = dt_diag_source(diags, file, &len), *at = text;
    for (int i = 0; i < nth; i++) {
        at = strstr(i ? at + 1 : text, needle);
        cr_assert_not_null(at, "`%s` is not in the source", needle);
    }
    uint32_t lo = (uint32_t)(at - text);
    return (DtSpan){file, lo, lo + (uint32_t)strlen(needle)};
}

static DtSpan point(uint32_t file, uint32_t at) { return (DtSpan){file, at, at}; }

static char *rendered(bool color, bool json)
{
    static char *text;
    static size_t len;
    FILE *out = open_memstream(&text, &len);
    if (json)
        dt_diag_print_json(diags, out);
    else
        dt_diag_print(diags, out, color);
    fclose(out);
    return text;
}

static void expect_golden(const char *name, bool color)
{
    char path[128];
    char *got = rendered(color, false);
    snprintf(path, sizeof path, "tests/golden/diag/%s.txt", name);
    if (getenv("DT_BLESS")) {
        FILE *file = fopen(path, "w");
        cr_assert_not_null(file, "cannot write %s", path);
        fputs(got, file);
        fclose(file);
    }
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "cannot read %s (run from the root of the tree)", path);
    DtText want = {0};
    char buf[4096];
    for (size_t n; (n = fread(buf, 1, sizeof buf, file)) > 0;)
        dt_text_add_n(&want, buf, n);
    fclose(file);
    cr_assert_str_eq(got, want.at, "%s differs; it is now:\n%s", path, got);
    dt_text_free(&want);
    free(got);
}

static uint32_t add(const char *path, const char *text)
{
    return dt_diag_add_file(diags, path, text, strlen(text));
}

/* Reports the errors of the three examples in the language's description of diagnostics. */
static void add_examples(void)
{
    uint32_t gpt =
        add("gpt2.dsl",
            "include \"std.dsl\"\n"
            "dim batch = 512, seq = 1024, kseq = seq, vocab = 50257\n"
            "dim layers = 12, embed = 768, heads = 12, head = embed // heads\n"
            "\n"
            "layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {\n"
            "  q = wq:linear[embed, (heads, head)](x)\n"
            "  k = wk:linear[embed, (heads, head)](x)\n"
            "  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]\n"
            "  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] "
            "<= iota[seq])\n"
            "}\n"
            "parallel tp on dgx {\n"
            "  mesh tensor = 4\n"
            "  shard vocab on tensor\n"
            "}\n");
    DtSpan k = span_of(gpt, "k, v,", 1);
    k.hi = k.lo + 1;
    DtSpan given = span_of(gpt, "k = wk", 1);
    given.hi = given.lo + 1;
    DtDiag *diag = dt_diag_report(
        diags, E0001, k, "`attend` needs axis `kseq` on `k`, which is [batch, seq, heads, head]");
    dt_diag_caret(diag, "no axis `kseq`");
    dt_diag_label(diag, given, "`k` gets its axes here");
    dt_diag_note(diag, "keys need their own name, or queries would meet keys position by position");
    DtSpan end = span_of(gpt, "\n  v = wv", 1);
    dt_diag_fix(diag, point(gpt, end.lo), "[seq -> kseq]", "rename the axis");

    DtSpan vocab = span_of(gpt, "vocab", 2);
    diag = dt_diag_report(diags, E0001, vocab,
                          "`vocab` (50257) does not divide over `tensor` (4 ranks)");
    dt_diag_caret(diag, "split requested here");
    dt_diag_label(diag, span_of(gpt, "vocab = 50257", 1), "50257 = 29 x 1733");
    DtSpan line = span_of(gpt, "on tensor", 1);
    dt_diag_fix(diag, point(gpt, line.hi), " (pad = 128)",
                "pad with 47 masked rows (0.09%% of `wte`)");

    DtSpan mesh = span_of(gpt, "mesh tensor = 4", 1);
    diag = dt_diag_report(diags, E0001, mesh,
                          "each rank needs 134.6 GiB of state; an h100-sxm has 79.6 GiB");
    dt_diag_caret(diag, "every rank holds all 8,030,261,248 parameters");
    dt_diag_note(diag,
                 "bf16 params 15.0, f32 grads 29.9, f32 master copy 29.9, adam moments 59.8 GiB");
    dt_diag_fix(diag, point(gpt, mesh.hi + 1), "  zero 1 on data\n",
                "split optimiser state over `data`: 45.6 GiB");
}

Test(diag, examples)
{
    add_examples();
    expect_golden("examples", false);
}

Test(diag, color)
{
    add_examples();
    expect_golden("color", true);
}

Test(diag, two_files_and_same_line)
{
    uint32_t library =
        add("lib/std.dsl", "fn softmax[a](x[..., a]) -> [..., a] {\n  return x / sum[a](x)\n}\n");
    uint32_t user = add("user.dsl", "y = softmax[heads](x) + softmax[seq](z)\n");
    DtDiag *diag =
        dt_diag_report(diags, E0001, span_of(user, "softmax[seq](z)", 1), "`z` has no axis `seq`");
    dt_diag_label(diag, span_of(user, "softmax[heads](x)", 1), "this one is right");
    dt_diag_label(diag, span_of(library, "x[..., a]", 1), "`a` is needed here");
    dt_diag_label(diag, span_of(library, "sum[a](x)", 1), "and summed here");
    dt_diag_help(diag, "a help without a place");
    dt_diag_fix(diag, span_of(user, "seq", 1), "kseq", "there is an axis `kseq`");
    expect_golden("two_files", false);
}

Test(diag, tabs_utf8_controls_crlf)
{
    uint32_t file =
        add("odd.dsl",
            "a\t= \"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\" + \xff\x1b[31m + bad\r\nnext = bad\r\n");
    dt_diag_report(diags, E0001, span_of(file, "bad", 1), "a name with \x1b[0m escape");
    dt_diag_caret(dt_diag_report(diags, E0001, span_of(file, "\t", 1), "a tab"), "here");
    dt_diag_caret(dt_diag_report(diags, E0001,
                                 span_of(file, "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 1),
                                 "three characters"),
                  "three");
    expect_golden("odd_bytes", false);
    uint32_t line, column;
    dt_diag_position(diags, span_of(file, "bad", 1), &line, &column);
    cr_assert(line == 1 && column == 22, "%u:%u", line, column);
}

Test(diag, ends_of_files)
{
    uint32_t empty = add("empty.dsl", ""), open_end = add("open.dsl", "model m() {"),
             closed = add("closed.dsl", "x = 1\n");
    dt_diag_report(diags, E0001, point(empty, 0), "nothing here");
    dt_diag_report(diags, E0001, point(open_end, 11), "`}` is missing");
    dt_diag_report(diags, E0001, point(closed, 6), "after the last newline");
    dt_diag_report(diags, E0001, (DtSpan){closed, 4, 900000}, "a span beyond the end");
    dt_diag_report(diags, E0001, (DtSpan){open_end, 800000, 900000}, "a span outside");
    dt_diag_report(diags, E0001, (DtSpan){0, 0, 0}, "no place at all");
    dt_diag_report(diags, E0001, (DtSpan){77, 1, 2}, "an unknown file");
    expect_golden("ends", false);
}

Test(diag, span_over_lines)
{
    uint32_t file = add("lines.dsl", "train {\n  steps = 3\n}\n");
    dt_diag_caret(dt_diag_report(diags, E0001, (DtSpan){file, 0, 21}, "a block"), "all of it");
    expect_golden("span_over_lines", false);
}

/* Marks are under the marked text, also in a line that is cut; no output line is much longer than
 * the cut. */
Test(diag, long_lines)
{
    enum { LEN = 1 << 20 };
    char *text = malloc(LEN + 2);
    memset(text, 'x', LEN);
    strcpy(text + LEN, "\n");
    static const uint32_t places[] = {0, 5, 79, 80, 81, 199, 5000, LEN / 2, LEN - 81, LEN - 3};
    for (size_t i = 0; i < DT_COUNT(places); i++) {
        memcpy(text + places[i], "bad", 3);
        leave();
        enter();
        DtSpan span = {add("long.dsl", text), places[i], places[i] + 3};
        DtDiag *diag = dt_diag_report(diags, E0001, span, "here");
        dt_diag_fix(diag, span, "good", "say `good`");
        char *got = rendered(false, false), *context = NULL, *lines[16] = {0};
        int n = 0;
        for (char *line = strtok_r(got, "\n", &context); line && n < 16;
             line = strtok_r(NULL, "\n", &context))
            lines[n++] = line;
        cr_assert_eq(n, 9, "%d lines",
                     n); /* number of lines: header, arrow, bar, source, marks, help, fixed, plus
                          * signs, count */
        for (int j = 0; j < n; j++)
            cr_assert_leq(strlen(lines[j]), 200);
        size_t mark = strcspn(lines[4], "^"), plus = strcspn(lines[7], "+");
        cr_assert_str_eq(lines[4] + mark, "^^^");
        cr_assert_eq(strncmp(lines[3] + mark, "bad", 3), 0, "at %u: %s\n%s", places[i], lines[3],
                     lines[4]);
        cr_assert_str_eq(lines[7] + plus, "++++");
        cr_assert_eq(strncmp(lines[6] + plus, "good", 4), 0, "at %u: %s", places[i], lines[6]);
        free(got);
        memset(text + places[i], 'x', 3);
    }
    free(text);
}

Test(diag, long_line_of_wide_characters)
{
    DtText text = {0};
    for (int i = 0; i < 3000; i++)
        dt_text_add(&text, i == 1500 ? "bad" : "\xe2\x82\xac");
    uint32_t file = add("euro.dsl", text.at);
    dt_diag_report(diags, E0001, span_of(file, "bad", 1), "here");
    char *got = rendered(false, false);
    cr_assert_null(strchr(got, '?'), "a character was cut in two:\n%s", got);
    free(got);
    dt_text_free(&text);
}

Test(diag, a_span_longer_than_the_cut)
{
    char text[1000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;
    uint32_t file = add("span.dsl", text);
    dt_diag_report(diags, E0001, (DtSpan){file, 100, 900}, "long span");
    char *got = rendered(false, false);
    for (char *line = got; *line;) {
        size_t n = strcspn(line, "\n");
        cr_assert_leq(n, 200);
        line += n + (line[n] == '\n');
    }
    free(got);
}

Test(diag, order_and_equal_ones)
{
    uint32_t file = add("order.dsl", "one two three four\n");
    dt_diag_report(diags, E0001, span_of(file, "three", 1), "third");
    dt_diag_report(diags, E0001, span_of(file, "one", 1), "first");
    dt_diag_report(diags, E0001, span_of(file, "two", 1), "second");
    dt_diag_report(diags, E0001, span_of(file, "one", 1), "first, other reason");
    dt_diag_report(diags, E0001, span_of(file, "one", 1), "first");
    char *got = rendered(false, false);
    static const char *const want[] = {": first\n", ": first, other", ": second", ": third"};
    size_t last = 0;
    for (size_t i = 0; i < DT_COUNT(want); i++) {
        char *at = strstr(got, want[i]);
        cr_assert_not_null(at, "`%s` is missing in\n%s", want[i], got);
        cr_assert((size_t)(at - got) >= last, "`%s` comes too early", want[i]);
        last = (size_t)(at - got);
        cr_assert_null(strstr(at + 1, want[i]), "`%s` twice", want[i]);
    }
    cr_assert(strstr(got, "\n4 errors\n"), "%s", got);
    free(got);
}

Test(diag, many)
{
    uint32_t file = add("many.dsl", "x\n");
    for (uint32_t i = 0; i < 5000; i++)
        dt_diag_note(dt_diag_report(diags, E0001, point(file, 0), "number %u", i), "a note");
    cr_assert_eq(dt_diag_errors(diags), 5000);
    char *got = rendered(false, false);
    cr_assert(strstr(got, "number 99\n"));
    cr_assert_null(strstr(got, "number 100\n"));
    cr_assert(strstr(got, "\n5000 errors (4900 not shown)\n"), "%s", strrchr(got, ']'));
    free(got);
}

/* One error is printed even if there are very many warnings. */
Test(diag, lints_do_not_crowd_out_errors)
{
    DtDiagCode lint = E0001;
    for (DtDiagCode i = 0; i < DT_DIAG_COUNT; i++) {
        dt_diag_report(diags, i, (DtSpan){0}, "row %s", dt_diag_name(i));
        if (dt_diag_lints(diags)) {
            lint = i;
            break;
        }
    }
    if (lint == E0001)
        cr_skip_test("no row is a lint");
    uint32_t file = add("crowd.dsl", "x y\n"), before = dt_diag_errors(diags);
    for (int i = 0; i < 300; i++)
        dt_diag_report(diags, lint, point(file, 0), "lint %d", i);
    dt_diag_report(diags, E0001, point(file, 2), "the one error");
    char *got = rendered(false, false);
    cr_assert(before >= 100 || strstr(got, "the one error"));
    cr_assert(strstr(got, "warning["));
    cr_assert(strstr(got, "301 warnings"), "%s", got);
    free(got);
}

Test(diag, json)
{
    add_examples();
    DtDiag *diag = dt_diag_report(diags, E0001, (DtSpan){0}, "no place, bytes \xff\xfe");
    dt_diag_help(diag, "a help");
    char *got = rendered(false, true), *context = NULL;
    int n = 0;
    for (char *line = strtok_r(got, "\n", &context); line;
         line = strtok_r(NULL, "\n", &context), n++) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert_not_null(object, "not JSON: %s", line);
        const char *name = json_string_value(json_object_get(object, "code"));
        const char *file = json_string_value(json_object_get(object, "file"));
        json_int_t row = json_integer_value(json_object_get(object, "line"));
        json_int_t column = json_integer_value(json_object_get(object, "column"));
        cr_assert_str_eq(name, "E0001");
        cr_assert_str_eq(json_string_value(json_object_get(object, "severity")), "error");
        if (n == 0) {
            cr_assert_null(file);
            cr_assert_str_eq(json_string_value(json_object_get(object, "message")),
                             "no place, bytes ??");
        } else if (n == 1) {
            cr_assert_str_eq(file, "gpt2.dsl");
            cr_assert(row == 9 && column == 34, "%d:%d", (int)row, (int)column);
            cr_assert_eq(json_integer_value(json_object_get(object, "end_column")), 35);
            cr_assert_eq(json_array_size(json_object_get(object, "labels")), 1);
            json_t *help = json_array_get(json_object_get(object, "help"), 0);
            cr_assert_str_eq(json_string_value(json_object_get(help, "insert")), "[seq -> kseq]");
        }
        json_decref(object);
    }
    cr_assert_eq(n, 4, "%d objects", n);
    free(got);
}

Test(diag, rows)
{
    for (DtDiagCode i = 0; i < DT_DIAG_COUNT; i++) {
        const char *name = dt_diag_name(i);
        cr_assert(strlen(name) == 5 && (name[0] == 'E' || name[0] == 'L') &&
                      strspn(name + 1, "0123456789") == 4,
                  "%s", name);
        cr_assert_geq(strlen(dt_diag_title(i)), 5, "%s", name);
        cr_assert_geq(strlen(dt_diag_text(i)), 40, "%s has no real explanation", name);
        cr_assert_eq(code(name), i, "%s twice", name);
    }
    DtDiagCode none;
    cr_assert_not(dt_diag_find("E9999", &none));
}
