/* SPDX-License-Identifier: Apache-2.0 */
/* IR text: prints and reads back to the same text; the reader survives whatever it is given. */
#include "sample.h"
#include "texts.h"

#include "base/intern.h"
#include "base/philox.h"
#include "ir/irtext.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(irtext, sample_has_every_op)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = sample_module(arena);
    bool seen[DT_OP_COUNT] = {0};
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            seen[module->funcs.at[i]->ops.at[k]->kind] = true;
    }
    for (int i = 0; i < DT_OP_COUNT; i++)
        cr_expect(seen[i], "the sample lacks `%s`", dt_op_info[i].text);
    dt_arena_free(arena);
}

Test(irtext, round_trip)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    char *first = module_text(sample_module(arena));
    DtModule *again = dt_irtext_read(arena, diags, first, strlen(first));
    if (!again)
        dt_diag_print(diags, stderr, false);
    cr_assert(again);
    char *second = module_text(again);
    cr_assert_str_eq(second, first);
    free(first);
    free(second);
    dt_arena_free(arena);
}

/* Lines that the text of the sample must contain, one for each feature: printer and reader could
 * both have forgotten a feature, and then the text would still read back. */
Test(irtext, says_everything)
{
    static const char *const pieces[] = {
        "mesh micro=2 time, data.x=2, tensor=2\n",
        "store 0 : param f32[layers=2, a=3] path=h.up.w pattern=h.#.up.w loops=1 rank=1 "
        "init=const(1, 0) @1:2-3",
        "store 1 : grad f32[layers=2, a=3] path=h.up.w pattern=h.#.up.w loops=1 init=const(0, 0) "
        "of=0\n",
        "bf16[a=8/\"data.x\".tensor~]",
        "func \"layer one\" : layer fwd=kernel bwd=kernel bwd_x=block bwd_w=block @1:5-90 {\n",
        "arg %x.0 : f32[a=3, b=4]\n",
        "param %w.1 : f32[a=3] path=up.w pattern=up.w rank=1 init=normal(0.02, 0) @1:6-9\n",
        "param %mu.2 : f32[a=3] state path=mu pattern=mu init=uniform(-0.1, 1e-30)\n",
        "= neg(%x.0) : f32[a=3, b=4] path=attention.wq @1:7-8\n",
        "= cast(%x.0) : bf16[a=3, b=4]",
        "= relabel(%x.0) : f32[a=3, g=2, p=2, one=1] relabel(b -> g=2, p=2) relabel(-> one=1)",
        "relabel(g, p -> b=4) relabel(one ->)",
        "= slice[b](%x.0) : f32[a=3, b=2] ranges=(1 0 2 2)",
        "= pad[b](%x.0) : f32[a=3, b=13] ranges=(1 2 3 0) number=-inf",
        "= window[b, w](%x.0) : f32[a=3, b=2, w=3] ranges=(1 1 2 3) number=0.5",
        " : f32[a=3] reduce=max",
        "= scan[a, b](%x.0) : f32[a=3, b=4] reverse",
        "= scatter_add[e; c](",
        " : f32[a=4, b=6] number=6 @2",
        "write 1 = %",
        "arg %\"7 w\\\"\\\\\\x0a\".3 : f32[a=3]",
        "%17, %18 = loop(%14, %16, %15) : f32[a=3, b=4], f32[layers=2, a=3] func=block",
        "= terms[w](%5) : f32[w=2/\"data.x\", b=6]",
        " text=h func=\"layer one\"",
        "func user : fn fused=kernel {\n",
        "func fused : kernel {\n",
        "= exp(%0) : f32[a=3, b=4] final=7 over(%1=%0)\n",
        " lies(%1=[b, a])\n",
        " draws=4 text=dropout#0 anew",
        " func=fused lies(%1=[a; b 6])\n",
        "f32[b=6]{sum \"data.x\"}",
        " mesh={\"data.x\"}",
        "loop(label=h axis=layers count=2 reverse carried=1 invariant=1 stacked=1 stacked_out=1)",
        "text=h.up.w store=0",
        "func kernel.1 : model {\n",
        "library=gelu",
        "entry grad : grad {\n  result store=1 accumulate\n  result name=loss accumulate\n}\n",
        "@2:0-4000000000",
        "func fetch : branch {\n  arg %turn.0 : i32[]\n"
        "  arg %ringbuf.1 : u8[\"@ringbuf\"=2, \"@on.tensor\"=2/tensor, \"@slot\"=128]\n"
        "  arg %2 : f32[layers=2, a=3] final=9\n"
        "  %3 = at[layers](%2, %turn.0) : f32[a=3] ranges=(1 0 -1 0)\n"
        "  %4 = ringbuf_put(%ringbuf.1, %3) : ",
        " ranges=(0 0 0 2) func=fetch of(loop=13 turn=1 piece=2 kind=1)",
    };
    DtArena *arena = dt_arena_new();
    char *text = module_text(sample_module(arena));
    unsigned missing = 0;
    for (size_t i = 0; i < DT_COUNT(pieces); i++) {
        if (!strstr(text, pieces[i])) {
            missing++;
            cr_log_error("not in the text: %s", pieces[i]);
        }
    }
    cr_expect_eq(missing, 0, "%s", text);
    free(text);
    dt_arena_free(arena);
}

Test(irtext, hand_written)
{
    static const char text[] = "func f : fn { # values may have any names\n"
                               "  arg %in : f32[x=2]\n arg %in.5 : f32[x=2]\n"
                               "  %sum = add(%in, %in.5) : f32[x=2]\n  return %sum }\n";
    static const char wanted[] = "func f : fn {\n  arg %in.0 : f32[x=2]\n  arg %in.1 : f32[x=2]\n"
                                 "  %sum.2 = add(%in.0, %in.1) : f32[x=2]\n  return %sum.2\n}\n";
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, text, sizeof text - 1);
    cr_assert(module);
    char *printed = module_text(module);
    cr_expect_str_eq(printed, wanted);
    free(printed);
    dt_arena_free(arena);
}

#define HANDLE                                                                               \
    "mesh t=2\nfunc f : fn { arg %a : f32[x=4]{sum t} %s = start all_reduce(%a) : f32[x=4] " \
    "mesh={t} "

/* Rings, conditions and starts that no pass would write. */
Test(irtext, hostile_rings)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"func f : branch { %t = const() : i32[] %x = rng() : f32[l=2] draws=1 text=s\n"
         "  %y = at[l](%x, %t) : f32[] ranges=(0 0 1 0) }",
         "no `when` has looked at"},
        {"func f : branch { %t = const() : i32[] %x = rng() : f32[l=2] draws=1 text=s\n"
         "  %y = at[l](%x, %t) : f32[] ranges=(0 0 1 0) }\n"
         "func g : fn { () = when() func=f }",
         "no `when` has looked at"},
        {"store 0 : ringbuf u8[\"@ringbuf\"=2, \"@slot\"=64] path=r pattern=r\n"
         "func f : entry { %a = param() : u8[\"@ringbuf\"=2, \"@slot\"=64] text=r store=0\n"
         "  %b = param() : u8[\"@ringbuf\"=2, \"@slot\"=64] text=r store=0\n"
         "  %c = ringbuf_turn(%a) : u8[\"@ringbuf\"=2, \"@slot\"=64] }",
         "is read twice"},
        {"func f : fn { %a = ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=64] %b = ringbuf_get(%a) : "
         "f32[x=4]\n"
         "  %c = ringbuf_turn(%a) : u8[\"@ringbuf\"=2, \"@slot\"=64] %d = exp(%b) : f32[x=4] }",
         "a ring buffer that has gone on"},
        {"func f : fn { %a = ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=64]\n"
         "  %b = ringbuf_turn(%a) : u8[\"@ringbuf\"=2, \"@slot\"=64] return %a }",
         "a ring buffer that has gone on"},
        {"func f : fn { %a = ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=64] return %a, %a }",
         "a ring buffer that has gone on"},
        {"func f : fn { %a = rng() : f32[x=4] draws=1 text=s %b = ringbuf_put(%a, %a) : f32[x=4] "
         "return %b }", "which is no ring buffer"},
        {HANDLE "%b = exp(%s) : f32[x=4] %c = done(%s) : f32[x=4] return %b, %c }",
         "`exp` reads what is not done"},
        {HANDLE "%c = done(%s) : f32[x=4] %d = done(%s) : f32[x=4] return %c, %d }",
         "is started and done 2 times"},
        {HANDLE "return %a }", "is started and done 0 times"},
        {HANDLE "return %s }", "result 0 is not done"},
        {HANDLE "%c = done(%a) : f32[x=4]{sum t} %d = done(%s) : f32[x=4] return %d }",
         "`done` of what was not started"},
        {"mesh t=2\nfunc b : branch { arg %r : u8[\"@ringbuf\"=2, \"@slot\"=64] arg %x : "
         "f32[x=4/t]\n"
         "  %g = start all_gather(%x) : f32[x=4] mesh={t}\n"
         "  %p = ringbuf_put(%r, %g) : u8[\"@ringbuf\"=2, \"@slot\"=64] return %p }\n"
         "func f : fn { %a = ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=64]\n"
         "  %b = ringbuf_get(%a) : f32[x=4] %d = exp(%b) : f32[x=4] return %d }",
         "`exp` reads what is not done"},
        {"func f : fn { arg %a : f32[x=4] %b = start exp(%a) : f32[x=4] return %b }",
         "`exp` has a start"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtArena *arena = dt_arena_new();
        DtDiags *diags = dt_diag_new(arena);
        cr_expect_null(dt_irtext_read(arena, diags, cases[i].text, strlen(cases[i].text)),
                       "case %zu", i);
        char *said = diags_text(diags);
        cr_expect(strstr(said, cases[i].said), "case %zu: %s", i, said);
        free(said);
        dt_arena_free(arena);
    }
}

/* Every form of `means=`, and where it is left out. */
static const char meanings[] = "mesh m=2\n"
                               "func f : fn {\n"
                               "  arg %0 : f32[a=4]\n"
                               "  arg %1 : f32[a=4] means=4294967295\n"
                               "  %2 = add(%0, %1) : f32[a=4] means=12 path=h @1:2-3\n"
                               "  %3 = shard(%2) : f32[a=4/m] mesh={m}\n"
                               "  %4 = shard(%2) : f32[a=4/m] mesh={m} means=0\n"
                               "  %5, %6 = topk[a, c](%2) : f32[c=2], i32[c=2] means=7\n"
                               "  %7, %8 = topk[a, c](%2) : f32[c=2], i32[c=2] means=(7 3)\n"
                               "  %9, %10 = topk[a, c](%2) : f32[c=2], i32[c=2]\n"
                               "  return %3, %4\n"
                               "}\n";

Test(irtext, meanings)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, meanings, sizeof meanings - 1);
    cr_assert(module);
    cr_expect_eq(module->funcs.at[0]->ops.at[1]->out[0]->means, 12);
    cr_expect_eq(module->funcs.at[0]->ops.at[3]->out[1]->means, 8);
    char *printed = module_text(module);
    cr_expect_str_eq(printed, meanings);
    free(printed);
    dt_arena_free(arena);
}

/* Custom gradients: texts that can be read back, and texts that the reader or the verifier
 * refuses. */
static const struct {
    const char *what;
    const char *line, *inputs; /* lines of f, before its `return`; lines of its gradient */
    const char *wanted;        /* NULL: the text is right; else words of the diagnostic */
} stated[] = {
    {"gradient", "  gradient g(%1)\n", "arg %0 : f32[a=4]\n  arg %1 : f32[a=4]", NULL},
    {"surrogate", "  surrogate g()\n", "arg %0 : f32[a=4]", NULL},
    {"of no value", "  gradient g(%7)\n", "arg %0 : f32[a=4]\n  arg %1 : f32[a=4]", "%7"},
    {"twice", "  gradient g()\n  gradient g()\n", "arg %0 : f32[a=4]", "once"},
    {"of no function", "  gradient h()\n", "arg %0 : f32[a=4]", "h"},
    {"of other types", "  gradient g(%1)\n", "arg %0 : f32[a=4]\n  arg %1 : i32[a=4]",
     "as the gradient of `f`"},
    {"of more inputs", "  gradient g()\n", "arg %0 : f32[a=4]\n  arg %1 : f32[a=4]",
     "does not fit"},
    {"of fewer inputs", "  gradient g(%1)\n", "arg %0 : f32[a=4]", "does not fit"},
    {"its own", "  gradient f(%1)\n", "arg %0 : f32[a=4]", "does not fit"},
    {"cut off", "  gradient g(%1\n", "arg %0 : f32[a=4]", "expected"},
};

Test(irtext, stated_gradients)
{
    for (size_t i = 0; i < DT_COUNT(stated); i++) {
        DtArena *arena = dt_arena_new();
        DtDiags *diags = dt_diag_new(arena);
        DtText text = {0}, problems = {0};
        dt_text_printf(
            &text,
            "func f : fn {\n  arg %%0 : f32[a=4]\n  %%1 = exp(%%0) : f32[a=4]\n%s  return %%1\n}\n"
            "func g : fn {\n  %s\n  return %%0\n}\n",
            stated[i].line, stated[i].inputs);
        DtModule *module = dt_irtext_read(arena, diags, text.at, text.len);
        char *said = diags_text(diags), *printed = module ? module_text(module) : NULL;
        const bool right = module && dt_verify_module(module, &problems);
        cr_expect_eq(right, !stated[i].wanted, "%s: %s%s", stated[i].what, said,
                     problems.at ? problems.at : "");
        if (stated[i].wanted)
            cr_expect(strstr(said, stated[i].wanted) ||
                          (problems.at && strstr(problems.at, stated[i].wanted)),
                      "%s: %s%s", stated[i].what, said, problems.at ? problems.at : "");
        else
            cr_expect_str_eq(printed, text.at);
        free(said);
        free(printed);
        dt_text_free(&text);
        dt_text_free(&problems);
        dt_arena_free(arena);
    }
}

/* Values are numbered through the whole text. A copy of an op has the number of the original op,
 * and a collective that of its operand. */
Test(irtext, meanings_begin)
{
    static const char text[] = "mesh m=2\n"
                               "func body : body {\n"
                               "  arg %0 : i32[]\n  arg %1 : f32[a=4]\n  arg %2 : f32[a=4]\n"
                               "  %3 = add(%1, %2) : f32[a=4]\n  return %3\n}\n"
                               "func f : fn {\n"
                               "  arg %0 : f32[a=4]\n"
                               "  %1 = const() : f32[] number=2\n"
                               "  %2 = mul(%0, %1) : f32[a=4]\n"
                               "  %3 = loop(%2, %0) : f32[a=4] func=body "
                               "loop(label=h axis=l count=3 carried=1 invariant=1)\n"
                               "  return %3\n}\n";
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, text, sizeof text - 1);
    cr_assert(module);
    dt_means_begin(module);
    const DtFunc *body = module->funcs.at[0];
    DtFunc *f = module->funcs.at[1];
    cr_expect_eq(body->inputs.at[0]->means, 0);
    cr_expect_eq(body->inputs.at[1]->means, 2);
    cr_expect_eq(body->inputs.at[2]->means, 0);
    cr_expect_eq(body->ops.at[0]->out[0]->means, 4);
    cr_expect_eq(f->ops.at[0]->out[0]->means, 0);
    cr_expect_eq(f->ops.at[1]->out[0]->means, 7);
    cr_expect_eq(f->ops.at[2]->out[0]->means, 0);
    DtBuilder b = {.func = f};
    const DtValue *copy = dt_graph_copy(&b, f->ops.at[1], f->ops.at[1]->in)->out[0];
    const DtAxis split = {.name = dt_intern("a"), .extent = 4, .n_split = 1};
    cr_expect_eq(copy->means, 7);
    DtValue *part =
        dt_graph_comm(&b, DT_OP_SHARD, f->ops.at[1]->out[0], 1, dt_type_plain(DT_F32, 1, &split));
    cr_expect_eq(part->means, 7);
    DtFunc *other = dt_graph_func(module, "other", DT_FUNC_BODY);
    cr_expect_eq(dt_graph_arg_like(other, body->inputs.at[1]->type, body->inputs.at[1])->means, 2);
    dt_arena_free(arena);
}

static const struct {
    const char *text, *message;
} faulty[] = {
    {"func f : fn { arg %0 : f32[] means=x }", "expected a number"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] means=(1 2) }", "expected `)`"},
    {"hello", "expected `mesh`, `padded`, `crossing`, `store`, `func`, `entry` or `pipeline`"},
    {"hello", "error[E0950]"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=3] }", "error[E0951]"},
    {"mesh a=0", "integer from 1"},
    {"mesh a=1, b", "expected `=`"},
    {"func f : fn {", "expected a value"},
    {"func f : thing { }", "kind of function"},
    {"func f : fn { } func f : fn { }", "defined twice"},
    {"func f : fn { %1 = frob() : f32[] }", "name of an operation"},
    {"func f : fn { %1 = exp(%0) : f32[] }", "not defined above"},
    {"func f : fn { %1 = exp(%1) : f32[] }", "uses its own result"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] over(%0=%0) }",
     "no result of the operation"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] over(%1=%2) }", "not defined above"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] over(%1=%1) }",
     "no value that was there before"},
    {"func f : fn { arg %0 : f32[a=2] %1 = reduce[a](%0) : f32[] over(%1=%0) }",
     "of a value of another type"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] over(%1=%0) %2 = stop(%0) : f32[] }",
     "read later"},
    {"func f : fn { arg %0 : f32[] %1 = stop(%0) : f32[] %2 = exp(%0) : f32[] over(%2=%0) %3 = "
     "exp(%1) : f32[] }", "read later"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] lies(%0=[a]) }",
     "no result of the operation"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[b]) }",
     "expected `,`"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[b, b]) }",
     "each once"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[b; c 4]) }",
     "each once"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[a; b 0]) }",
     "integer from 1"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[a; b 2]) }",
     "rows that overlap"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = exp(%0) : f32[a=2, b=3] lies(%1=[a; b "
     "2305843009213693951]) }", "too many bytes"},
    {"func f : fn { arg %0 : f32[a=2, b=3] %1 = stop(%0) : f32[a=2, b=3] lies(%1=[b, a]) }",
     "no memory of its own"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] at(%0=0) }", "no result of the operation"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] at(%1) }", "expected `=`"},
    {"func f : fn { arg %0 : f32[] %1 = exp(%0) : f32[] at(%1=-64) }", "integer from 0"},
    {"func f : fn frame=64 { arg %0 : f32[] %1 = exp(%0) : f32[] at(%1=64) }",
     "lies at 64 in a frame of 64 bytes"},
    {"func f : fn frame=0 { }", "integer from 1"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] holds(1) }", "integer from 0"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] %2 = exp(%1) : f32[a=2] holds(0) }",
     "holds no operand 0"},
    {"func f : fn { arg %0 : f32[a=2] %1 = concat[a](%0) : f32[a=2] holds(0) }",
     "nothing makes it"},
    {"func f : fn { arg %0 : f32[a=2] %1 = relabel(%0) : f32[b=2] relabel(a -> b=2) "
     "%2 = concat[b](%1) : f32[b=2] holds(0) }", "nothing makes it"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] %2 = concat[a](%1) : f32[a=2] "
     "holds(0) return %1 }", "read by others"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] %2 = pack(%1, %1) : "
     "f32[\"@bucket\"=4] holds(0, 1) }", "held twice"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=2] copies }",
     "no rename, product or exchange that copies"},
    {"func f : fn { arg %0 : f32[a=2] %1 = reduce[a](%0) : f32[] anew }", "`reduce` is not drawn"},
    {"func f : fn { arg %0 : f32[] arg %0 : f32[] }", "defined twice"},
    {"func f : fn { arg %0 : f31[] }", "expected a type"},
    {"func f : fn { arg %0 : f32[a=0] }", "integer from 1"},
    {"func f : fn { arg %0 : f32[a=2, a=2] }", "same name"},
    {"func f : fn { arg %0 : f32[a=99999999999999999999] }", "integer from 1"},
    {"func f : fn { arg %0 : f32[a=9223372036854775807, b=3] }", "more elements"},
    {"func f : fn { arg %0 : f32[a=2/none] }", "unknown mesh axis"},
    {"mesh m=2 func f : fn { arg %0 : f32[a=2/m]{sum m} }", "used twice"},
    {"func f : fn { arg %0 : "
     "f32[a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1] }",
     "more than 16 axes"},
    {"func f : fn { arg %0 : f32[a=2] return %0 } entry eval : g { result name=x }",
     "named but not defined"},
    {"func f : fn { %0 = param() : f32[] store=0 }", "not defined above"},
    {"store 1 : param f32[]", "numbered 0, 1"},
    {"store 0 : param f32[] path=a pattern=a of=4", "does not exist"},
    {"func f : fn { arg %0 : f32[a=4] %1 = slice[a](%0) : f32[a=2] ranges=(0 0 1 2, 0 0 1 2) }",
     "expected 1 ranges"},
    {"func f : fn { arg %0 : f32[a=4] } @1:2", "expected `mesh`"},
    {"func f : fn @1:2 { }", "expected a span"},
    {"func f : fn @1:2-99999999999 { }", "expected a span"},
    {"func \"f", "does not end"},
    {"func \"\\q\" : fn { }", "unknown escape"},
    {"func f : fn { arg %0 : f32[a=2] return %0 %2 = exp(%0) : f32[a=2] }", "after the results"},
    {"func f : fn { arg %0 : f32[a=2] %1 = exp(%0) : f32[a=3] }", "where its rule gives f32[a=2]"},
    {"func f : fn { arg %0 : f32[a=2] %1 = call(%0) : f32[a=2] func=f return %1 }", "calls itself"},
};

Test(irtext, faulty_texts)
{
    for (size_t i = 0; i < DT_COUNT(faulty); i++) {
        DtArena *arena = dt_arena_new();
        DtDiags *diags = dt_diag_new(arena);
        cr_expect_null(dt_irtext_read(arena, diags, faulty[i].text, strlen(faulty[i].text)), "%s",
                       faulty[i].text);
        cr_expect_eq(dt_diag_errors(diags), 1, "%s", faulty[i].text);
        char *out = diags_text(diags);
        cr_expect(strstr(out, faulty[i].message), "%s\nwanted: %s\ngot: %s", faulty[i].text,
                  faulty[i].message, out);
        free(out);
        dt_arena_free(arena);
    }
}

/* ---- buckets ---- */

static const char in_bucket[] =
    "mesh data=2\n"
    "store 0 : param f32[l=2, a=3] path=h.w pattern=h.#.w loops=1 init=const(0, 0) bucket=2\n"
    "store 1 : param f32[l=2, b=2] path=h.b pattern=h.#.b loops=1 init=const(0, 0) bucket=2 at=3\n"
    "store 2 : param f32[l=2, \"@bucket\"=6/data] path=h.p pattern=h.#.p loops=1 init=const(0, 0)\n"
    "func e : entry {\n"
    "  %0 = param() : f32[l=2, \"@bucket\"=6/data] text=h.p store=2\n"
    "  return %0\n"
    "}\n"
    "entry update : e {\n"
    "  result store=2\n"
    "}\n";

Test(irtext, stores_in_buckets)
{
    static const char *const breaks[][3] = {
        {"at=3", "at=5", "`h.b` does not fit its bucket"},
        {"bucket=2 at=3", "bucket=0 at=3", "`h.b` does not fit its bucket"},
        {"bucket=2 at=3", "bucket=7 at=3", "one that does not exist"},
        {"param f32[l=2, b=2]", "param bf16[l=2, b=2]", "`h.b` does not fit its bucket"},
        {"%0 = param() : f32[l=2, \"@bucket\"=6/data] text=h.p store=2",
         "%0 = param() : f32[l=2, a=3] text=h.w store=0", "whose elements lie in a bucket"}};
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_irtext_read(arena, NULL, in_bucket, strlen(in_bucket));
    cr_assert(module);
    cr_expect_eq(module->stores.at[1]->bucket, module->stores.at[2]);
    cr_expect_eq(module->stores.at[1]->bucket_offset, 3);
    char *printed = module_text(module);
    cr_expect_str_eq(printed, in_bucket);
    free(printed);
    for (size_t i = 0; i < DT_COUNT(breaks); i++) {
        const char *at = strstr(in_bucket, breaks[i][0]);
        const char *text = dt_arena_printf(arena, "%.*s%s%s", (int)(at - in_bucket), in_bucket,
                                           breaks[i][1], at + strlen(breaks[i][0]));
        DtDiags *diags = dt_diag_new(arena);
        cr_expect_null(dt_irtext_read(arena, diags, text, strlen(text)), "%s", text);
        char *out = diags_text(diags);
        cr_expect(strstr(out, breaks[i][2]), "wanted: %s\ngot: %s", breaks[i][2], out);
        free(out);
    }
    dt_arena_free(arena);
}

/* ---- random changes ---- */

static uint32_t draw(uint32_t run, uint32_t *n) { return dt_philox(7, run, (*n)++, 0).word[0]; }

/* Overwrites, removes, repeats or swaps random pieces of the text. */
static size_t mutate(char *text, size_t len, size_t cap, uint32_t run)
{
    static const char alphabet[] = "%(){}[]=:,.;@#\"\\~/- \n0123456789abfimrsux\xff";
    uint32_t n = 0, times = 1 + draw(run, &n) % 4;
    for (uint32_t t = 0; t < times && len > 1; t++) {
        size_t at = draw(run, &n) % len, from = draw(run, &n) % len, piece = 1 + draw(run, &n) % 30;
        switch (draw(run, &n) % 4) {
        case 0: text[at] = alphabet[draw(run, &n) % (sizeof alphabet - 1)]; break;
        case 1:
            piece = piece < len - at ? piece : len - at;
            memmove(text + at, text + at + piece, len - at - piece);
            len -= piece;
            break;
        case 2:
            piece = piece < len - from ? piece : len - from;
            if (len + piece > cap)
                break;
            memmove(text + at + piece, text + at, len - at);
            memmove(text + at,
                    text + (from < at            ? from
                            : from + piece < len ? from + piece
                                                 : from),
                    piece);
            len += piece;
            break;
        default:
            for (size_t i = at; i < len; i++) {
                if (text[i] >= '0' && text[i] <= '9') {
                    text[i] = (char)('0' + draw(run, &n) % 10);
                    break;
                }
            }
        }
    }
    return len;
}

/* The small text keeps runs short, and each run frees its memory. A text that is accepted must
 * print, and read back. */
Test(irtext, fuzz, .timeout = 600)
{
    DtArena *home = dt_arena_new();
    char *base = module_text(sample_module(home));
    static const char small[] =
        "mesh m=2 time, d=2\nstore 0 : param f32[l=2, a=3] path=h.w pattern=h.#.w loops=1 rank=1 "
        "init=const(0, 0)\n"
        "func b : body {\n arg %i : i32[]\n arg %x : f32[a=3, b=4/d]\n arg %w : f32[a=3]\n"
        " %y = mul(%x, %w) : f32[a=3, b=4/d] path=q @1:2-3\n"
        " %z = reduce[b](%y) : f32[a=3]{sum d}\n %r = all_reduce(%z) : f32[a=3] mesh={d}\n return "
        "%y, %r\n}\n"
        "func e : entry {\n %x = input() : f32[a=3, b=4/d] text=x\n %w = param() : f32[l=2, a=3] "
        "text=h.w store=0\n"
        " %y, %r = loop(%x, %w) : f32[a=3, b=4/d], f32[l=2, a=3] func=b loop(label=h axis=l "
        "count=2 carried=1 "
        "stacked=1 stacked_out=1)\n"
        " %s = relabel(%y) : f32[g=2/d, p=2, a=3] relabel(b -> g=2, p=2)\n"
        " %t = window[a, k](%s) : f32[g=2/d, p=2, a=2, k=3] ranges=(1 1 2 3) number=0.5\n return "
        "%r\n}\n"
        "entry grad : e {\n result store=0\n}\n";
    const char *texts[] = {small, base};
    uint32_t runs = 100000, read = 0;
    if (getenv("DT_FUZZ_RUNS"))
        runs = (uint32_t)strtoul(getenv("DT_FUZZ_RUNS"), NULL, 10);
    DtArena *arena = dt_arena_new();
    for (uint32_t run = 0; run < runs; run++) {
        const char *text = texts[run % 50 == 49];
        size_t len = strlen(text), cap = len + 200;
        char *copy = malloc(cap);
        memcpy(copy, text, len);
        if (run > 1)
            len = mutate(copy, len, cap, run);
        dt_arena_reset(arena);
        DtModule *module = dt_irtext_read(arena, run % 2 ? dt_diag_new(arena) : NULL, copy, len);
        cr_assert(module || run > 1, "the unchanged text is refused");
        if (module) {
            read++;
            char *first = module_text(module);
            DtModule *again = dt_irtext_read(arena, NULL, first, strlen(first));
            cr_assert(again, "run %u: what was printed is refused:\n%s", run, first);
            char *second = module_text(again);
            cr_assert_str_eq(second, first);
            free(first);
            free(second);
        }
        free(copy);
    }
    cr_expect_gt(read, runs / 100);
    free(base);
    dt_arena_free(arena);
    dt_arena_free(home);
}
