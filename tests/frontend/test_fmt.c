/* SPDX-License-Identifier: Apache-2.0 */
/* The formatter: what it writes for small texts. And for all programs: the tree stays the same;
 * formatting twice changes nothing more; if the spaces of a program are changed, the formatted text
 * differs only in alignment; and the examples and the library are already formatted. */
#include "syntax_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect_format(const char *text, const char *formatted)
{
    DtText out = format_bytes(text, strlen(text));
    cr_expect_str_eq(out.at, formatted);
    DtText again = format_bytes(out.at, out.len);
    cr_expect_str_eq(again.at, out.at);
    dt_text_free(&out);
    dt_text_free(&again);
}

Test(fmt, spaces)
{
    expect_format(
        "fn f [ a ] ( x[...,a ],i32 y=-3 )->[ ... ],f32[]{return- x**-2+x @a y@( a,b )-z,x [a->b,b "
        "->(c,d)].e(1)}",
        "fn f[a](x[..., a], i32 y = -3) -> [...], f32[] { return -x ** -2 + x @a y @(a, b) -z, "
        "x[a -> b, b -> (c, d)].e(1) }\n");
    expect_format("fn f(x){y=w : g[a](x)|>h;return x[a=0 ..8]@a(y)}",
                  "fn f(x) { y = w:g[a](x) |> h; return x[a = 0 .. 8] @a (y) }\n");
    expect_format("fn f(x){if not(x)and(y==3)or-z<0{}else{}}",
                  "fn f(x) { if not (x) and (y == 3) or -z < 0 {} else {} }\n");
    expect_format("parallel p on c{pipeline model on pipe(cuts=(1,2));mesh a=(2*3),b=4;x=f(3);zero "
                  "1(k=2);remat h}",
                  "parallel p on c { pipeline model on pipe (cuts = (1, 2)); mesh a = (2 * 3), b = "
                  "4; x = f(3); "
                  "zero 1 (k = 2); remat h }\n");
    expect_format("train{adapt \"*.wq\",\"*.wv\"=lora (rank=2)}",
                  "train { adapt \"*.wq\", \"*.wv\" = lora(rank = 2) }\n");
    expect_format("names hf on m{\"a.{h}\" [v,e]=w.x [a->b]}",
                  "names hf on m { \"a.{h}\"[v, e] = w.x[a -> b] }\n");
}

Test(fmt, lines)
{
    expect_format("\n\n\naxis a\n\n\n\naxis b\n# c\t\n\n", "axis a\n\naxis b\n# c\n");
    expect_format("fn f(x) {\nif x {\ny = 1\n}\nelse {\ny = 2\n}\n# end\n}\n",
                  "fn f(x) {\n  if x {\n    y = 1\n  }\n  else {\n    y = 2\n  }\n  # end\n}\n");
    expect_format("fn f(x) {\nreturn x\n|> g\n|> h\n}",
                  "fn f(x) {\n  return x\n      |> g\n      |> h\n}\n");
    expect_format("fn f(x) {\n    return x |> g\n             |> h\n}",
                  "fn f(x) {\n  return x |> g\n           |> h\n}\n");
    expect_format("fn f(x) {\n  return g( x ) |> g\n                |> h\n        |> k\n}",
                  "fn f(x) {\n  return g(x) |> g\n              |> h\n        |> k\n}\n");
    expect_format("train {\noptimizer = adamw(lr = 3,\nbeta = (1,\n2))\nx = f(\n1,\n2\n)\n}",
                  "train {\n  optimizer = adamw(lr = 3,\n                    beta = (1,\n          "
                  "                  2))\n"
                  "  x = f(\n      1,\n      2\n  )\n}\n");
    expect_format("train {\nx=f(\"\xC3\xA9\",g(1,\n2))\n}",
                  "train {\n  x = f(\"\xC3\xA9\", g(1,\n               2))\n}\n");
}

Test(fmt, comments)
{
    expect_format("dim a=1 # one\ndim bb=22# two\n\ndim c=3 #three\n#alone\n",
                  "dim a = 1    # one\ndim bb = 22  # two\n\ndim c = 3  #three\n#alone\n");
    expect_format("fn f(x # in\n, y) { # open\nreturn x # end\r\n}",
                  "fn f(x       # in\n     , y) {  # open\n  return x   # end\n}\n");
    expect_format("dim a = 1     # one\ndim bb = 22   # two\ndim c = 3 # three\n",
                  "dim a = 1    # one\ndim bb = 22  # two\ndim c = 3    # three\n");
    expect_format("dim a = 1     # one\ndim bb = 22   # two\ndim c = 3  # three\n",
                  "dim a = 1     # one\ndim bb = 22   # two\ndim c = 3  # three\n");
    expect_format("dim a = 1 # one\n", "dim a = 1 # one\n");
    expect_format("# \xE2\x88\x92\n", "# \xE2\x88\x92\n");
    expect_format("", "");
}

Test(fmt, refuses_a_faulty_program)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    DtText out = {0};
    cr_expect_not(dt_fmt(diags, dt_diag_add_file(diags, "a.dsl", "axis = 3", 8), &out));
    cr_expect_eq(dt_diag_errors(diags), 1);
    cr_expect_eq(out.len, 0);
    dt_arena_free(arena);
}

static void check_same_tree(const char *path, const char *text, size_t len)
{
    DtText once = format_bytes(text, len), twice = format_bytes(once.at, once.len);
    cr_expect_str_eq(once.at, twice.at, "%s", path);
    Parsed before = parse_bytes(text, len), after = parse_bytes(once.at, once.len);
    cr_expect_str_eq(before.tree.at, after.tree.at, "%s", path);
    cr_expect_gt(before.tree.len, 100);
    parsed_free(&before);
    parsed_free(&after);
    dt_text_free(&once);
    dt_text_free(&twice);
}

Test(fmt, keeps_the_tree_of_every_program) { cr_assert_geq(each_program(check_same_tree), 9); }

/* Changes the spaces between tokens, but keeps line breaks. */
static DtText mangle(DtDiags *diags, uint32_t file, const DtTokens *raw, unsigned *seed)
{
    size_t len;
    const char *source = dt_diag_source(diags, file, &len);
    DtText out = {0};
    for (uint32_t i = 0; i < raw->n; i++) {
        const DtToken *t = &raw->at[i];
        uint32_t gap = i ? t->span.lo - raw->at[i - 1].span.hi : 0;
        for (uint32_t k = 0; k < t->lines; k++)
            dt_text_add(&out, rand_r(seed) % 2 ? "\n" : " \t\n");
        int spaces =
            rand_r(seed) % 4; /* at least one space where there was one, so that words stay
                               * separate */
        for (int k = gap && !t->lines && spaces == 0 ? -1 : 0; k < spaces; k++)
            dt_text_add(&out, rand_r(seed) % 5 ? " " : "\t");
        dt_text_add_n(&out, source + t->span.lo, t->span.hi - t->span.lo);
    }
    return out;
}

/* Returns the text with each run of spaces replaced by one space. */
static DtText squeezed(const DtText *text)
{
    DtText out = {0};
    for (size_t i = 0; i < text->len; i++)
        if (text->at[i] != ' ' || !i || (text->at[i - 1] != ' ' && text->at[i - 1] != '\n'))
            dt_text_add_n(&out, text->at + i, 1);
    return out;
}

static void check_mangled(const char *path, const char *text, size_t len)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    uint32_t file = dt_diag_add_file(diags, path, text, len);
    DtTokens raw = dt_scan_tokens(arena, diags, file);
    DtText formatted = format_bytes(text, len), wanted = squeezed(&formatted);
    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned state = seed;
        DtText other = mangle(diags, file, &raw, &state), again = format_bytes(other.at, other.len);
        DtText same = squeezed(&again), twice = format_bytes(again.at, again.len);
        cr_expect_str_eq(same.at, wanted.at, "%s, seed %u", path, seed);
        cr_expect_str_eq(twice.at, again.at, "%s, seed %u", path, seed);
        dt_text_free(&other);
        dt_text_free(&again);
        dt_text_free(&same);
        dt_text_free(&twice);
    }
    dt_text_free(&formatted);
    dt_text_free(&wanted);
    dt_arena_free(arena);
}

Test(fmt, does_not_depend_on_spaces) { cr_assert_geq(each_program(check_mangled), 9); }

static void check_unchanged(const char *path, const char *text, size_t len)
{
    DtText out = format_bytes(text, len);
    /* the library has lines that could be shorter */
    if (!strncmp(path, "examples/", 9))
        cr_expect(out.len == len && !memcmp(out.at, text, len), "%s", path);
    dt_text_free(&out);
}

Test(fmt, leaves_the_examples_as_they_are) { cr_assert_geq(each_program(check_unchanged), 17); }
