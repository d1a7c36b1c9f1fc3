/* SPDX-License-Identifier: Apache-2.0 */
/* Rematerialisation: the programs of examples/, shrunk, under many `remat` lines. Copies of the
 * same ops recompute values, so in double precision every result must be equal to the last bit. The
 * saved values must be those that the line says. */
#include "program_run.h"

#include "base/intern.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    Program program;
    char lines[100]; /* "h keep=wq,attend; g drop=mlp" */
    char saved
        [100]; /* the values that the forward loop saves without a line: their names, and the
                * elements of each */
} Case;

/* ---- lines ---- */

static void read_names(char *text, const char **ret_names, uint32_t *ret_n)
{
    for (char *name = text; name != NULL; (*ret_n)++) {
        char *comma = strchr(name, ',');
        if (comma != NULL)
            *comma = 0;
        ret_names[*ret_n] = dt_intern(name);
        name = comma != NULL ? comma + 1 : NULL;
    }
}

static DtParallelConfig *read_lines(DtArena *arena, const char *lines)
{
    DtParallelConfig *config = DT_NEW(arena, DtParallelConfig);
    char *text = dt_arena_strndup(arena, lines, strlen(lines)), *rest = text;
    config->micro = 1;
    for (char *line; (line = strtok_r(NULL, ";", &rest)) != NULL;) {
        DtRemat remat = {0};
        while (*line == ' ')
            line++;
        char *keep = strstr(line, " keep="), *drop = strstr(line, " drop=");
        if (keep != NULL)
            read_names(keep + 6, remat.keep, &remat.n_keep);
        if (drop != NULL)
            read_names(drop + 6, remat.drop, &remat.n_drop);
        line[strcspn(line, " ")] = 0;
        remat.loop = dt_intern(line);
        DT_PUSH(arena, config->remats, remat);
    }
    return config;
}

/* ---- saved values ---- */

static const DtOp *find_loop(const DtFunc *func, const char *label, bool reverse)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_LOOP)
            continue;
        if (strcmp(op->loop->label, label) == 0 && op->loop->reverse == reverse)
            return op;
        const DtOp *inner = find_loop(op->func, label, reverse);
        if (inner != NULL)
            return inner;
    }
    return NULL;
}

/* Returns the number of elements that one iteration of the loop saves. */
static int64_t handed_out(const DtOp *loop)
{
    int64_t n = 0;
    for (uint32_t i = loop->loop->n_carried; i < loop->n_out; i++)
        n += dt_type_elements(loop->out[i]->type) / loop->loop->count;
    return n;
}

/* Appends the saved values as text, "x:32 y:64", in order. */
static void list_saved(const DtOp *loop, DtText *text)
{
    for (uint32_t i = loop->loop->n_carried; i < loop->n_out; i++) {
        const DtValue *value = loop->func->results.at[i];
        dt_text_printf(text, "%s%s:%lld", text->len > 0 ? " " : "",
                       value->name != NULL ? value->name : "-",
                       (long long)dt_type_elements(value->type));
    }
}

/* ---- one case ---- */


static DtTensor **results_with(Run *run, const DtPassContext *context)
{
    dt_pass_differentiate(run->module, context);
    dt_pass_inline(run->module, context);
    dt_pass_cse(run->module, context);
    expect_valid(run->module);
    if (context->parallel != NULL) /* the other copy of the program shows all values that can be
                                    * saved */
        dt_pass_remat(run->module, context);
    expect_valid(run->module);
    init_stores(run);
    return evaluate(run, entry(run, "grad")->func, run->arena);
}

static void check_case(const Case *c, bool inline_streams)
{
    Run plain, run;
    run_begin(&plain, &c->program);
    run_begin(&run, &c->program);
    DtPassContext context = {
        .train = plain.program->train, .inline_streams = inline_streams};
    DtTensor **want = results_with(&plain, &context);
    context.train = run.program->train;
    context.parallel = read_lines(run.arena, c->lines);
    DtTensor **got = results_with(&run, &context);
    const DtEntryPoint *grad = entry(&run, "grad");
    for (uint32_t i = 0; i < grad->results.n; i++)
        cr_expect(max_difference(want[i], got[i]) == 0, "%s, remat %s: result %u (%s) differs",
                  c->program.path, c->lines, i,
                  grad->results.at[i].store != NULL ? grad->results.at[i].store->path : "-");
    const char *label = context.parallel->remats.at[0].loop;
    const DtOp *before = find_loop(entry(&plain, "grad")->func, label, false),
               *after = find_loop(grad->func, label, false);
    cr_assert(before != NULL && after != NULL, "%s has no loop %s", c->program.path, label);
    cr_expect(handed_out(after) < handed_out(before), "%s, remat %s: saves %lld, without %lld",
              c->program.path, c->lines, (long long)handed_out(after),
              (long long)handed_out(before));
    if (c->saved[0] != 0 && !inline_streams) {
        DtText text = {0};
        list_saved(after, &text);
        cr_expect(text.at != NULL && strcmp(text.at, c->saved) == 0, "%s, remat %s: saves %s",
                  c->program.path, c->lines, text.at != NULL ? text.at : "nothing");
        dt_text_free(&text);
    }
    run_end(&plain);
    run_end(&run);
}

#define GPT2                                                                       \
    {                                                                              \
        "examples/gpt2.dsl", "batch=2 seq=5 vocab=11 layers=2 embed=8 heads=2", 11 \
    }
#define LLAMA                                                                      \
    {                                                                              \
        "examples/llama3_8b.dsl",                                                  \
            "batch=2 seq=4 vocab=9 layers=8 embed=8 kv=2 group=2 head=4 ffn=10", 9 \
    }
#define BERT                                                                                   \
    {                                                                                          \
        "examples/bert.dsl", "batch=2 seq=4 vocab=9 layers=2 embed=8 heads=2 head=4 ffn=10", 2 \
    }
#define VIT                                                                                   \
    {                                                                                         \
        "examples/vit.dsl",                                                                   \
            "batch=2 gh=2 gw=2 ph=2 pw=2 classes=5 layers=2 embed=8 heads=2 head=4 ffn=10", 5 \
    }
#define T5                                                                                       \
    {                                                                                            \
        "examples/t5.dsl",                                                                       \
            "batch=2 src=4 tgt=3 vocab=9 enc=2 dec=2 embed=8 heads=2 head=4 ffn=10 buckets=8", 9 \
    }
#define MOE                                                                                        \
    {                                                                                              \
        "examples/moe.dsl",                                                                        \
            "batch=4 seq=8 vocab=9 layers=4 pool=2 experts=4 embed=8 kv=2 group=2 head=4 ffn=6", 9 \
    }
#define LOOPS                                    \
    {                                            \
        "tests/passes/programs/loops.dsl", "", 3 \
    }
#define AGAIN                                    \
    {                                            \
        "tests/passes/programs/again.dsl", "", 9 \
    }
ParameterizedTestParameters(remat, lines)
{
    static Case cases[] = {
        {GPT2, "h", "x:80"},
        {GPT2, "h keep=wq,wk,wv", "x:80 y:80 y:80 y:80"},
        {GPT2, "h keep=attend", "x:80 o:80 -:20 -:20"},
        {GPT2, "h keep=attention.o,mlp", "x:80 y:320 -:320 o:80"},
        {GPT2, "h keep=q", "x:80 y:80"},
        {GPT2, "h keep=linear", "x:80 y:320 y:80 y:80 y:80 y:80"},
        {GPT2, "h drop=gelu_tanh", "x:80 -:80 x:80 -:80 y:320 y:80 y:80 y:80 o:80 -:20 -:20"},
        {GPT2, "h drop=attention.wq", "x:80 -:80 x:80 -:80 y:320 -:320 y:80 y:80 o:80 -:20 -:20"},
        {GPT2, "h drop=attention", "x:80 -:80 x:80 -:80 y:320 -:320"},
        {GPT2, "h drop=k,mlp.up", "x:80 -:80 x:80 -:80 -:320 y:80 y:80 o:80 -:20 -:20"},
        {LLAMA, "h keep=attend,gate,up", "x:64 y:80 y:80 o:128 -:32 -:32"},
        {LLAMA, "h drop=swiglu", ""},
        {BERT, "h", "x:64"},
        {BERT, "h keep=attend", "x:64 o:64 -:16 -:16"},
        {VIT, "h", "x:80"},
        {T5, "e", "x:64"},
        {T5, "d", "y:48"},
        {T5, "d keep=self.attend; e", "y:48 o:48 -:12 -:12"},
        {T5, "e drop=relu; d keep=cross", ""},
        {MOE, "h", "x:256"},
        {MOE, "h keep=moe.y,attend", "x:256 o:512 -:128 -:128 y:640"},
        {MOE, "h drop=silu", ""},
        {LOOPS, "h", "x:24"},
        {LOOPS, "g", "x:24"},
        {LOOPS, "h; g", "x:24"},
        {LOOPS, "g keep=tied; h keep=mlp", ""},
        {LOOPS, "h keep=g.tied", ""},
        {LOOPS, "h drop=gelu", ""},
        {AGAIN, "h keep=attend", "-:768 -:192 -:192 x:256"},
        {AGAIN, "h drop=attend", ""},
        {AGAIN, "h keep=att; g", ""},
        {AGAIN, "h keep=attend; g keep=q", ""},
    };
    return cr_make_param_array(Case, cases, DT_COUNT(cases));
}

ParameterizedTest(Case *c, remat, lines)
{
    check_case(c, true);
    check_case(c, false);
}

/* Without a layout nothing marks where layers begin, so equal ops of two instances are merged. The
 * merged op can be named by its names in both. */
Test(remat, merged_values_have_all_names)
{
    static const char *const lines[][2] = {{"h", "x:8"},
                                           {"h keep=a.y", "x:8 y:8"},
                                           {"h keep=b.y", "x:8 y:8"},
                                           {"h keep=b", "x:8 y:8 -:8"},
                                           {"h drop=b", "x:8"}};
    static const Program program = {"tests/passes/programs/merged.dsl", "", 3};
    for (size_t i = 0; i < DT_COUNT(lines); i++) {
        Run run;
        DtText text = {0};
        run_begin(&run, &program);
        DtPassContext context = {.train = run.program->train};
        dt_pass_differentiate(run.module, &context);
        dt_pass_inline(run.module, &context);
        dt_pass_cse(run.module, &context);
        context.parallel = read_lines(run.arena, lines[i][0]);
        dt_pass_remat(run.module, &context);
        list_saved(find_loop(entry(&run, "grad")->func, "h", false), &text);
        cr_expect_str_eq(text.at, lines[i][1], "remat %s: saves %s", lines[i][0], text.at);
        dt_text_free(&text);
        run_end(&run);
    }
}
