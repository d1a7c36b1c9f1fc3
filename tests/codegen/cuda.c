/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for GPUs without one.
 *
 *   cuda shim [all]     every kernel of some programs, as CUDA text run by the shim (shim.c),
 *                       leaves the same bits as its C text (which other tests compare with the
 *                       interpreter), for plain numbers, edges, infinities, NaN; threads run in one
 *                       of three orders, `all`: in each
 *   cuda shim PART      only the programs whose paths contain PART, in each of the orders
 *   cuda interpreted [all]  every kernel as kernel IR that is interpreted (kir/kir.h) leaves the
 *                       same bits as its C text, with rows added up in the order of processors and
 *                       of GPUs, and touches nothing outside of its arguments; other texts are
 *                       noticed. `all`: of the other examples, too
 *   cuda planted [all]  a fault in the text is noticed: another order of lanes, rows that are none,
 *                       a warp that parts; every third, `all`: each
 *   cuda address        no kernel of some programs, attention included, touches what is not its
 *                       own: the shim's run of them under the address sanitizer
 *   cuda strays         which notices planted faults: behind a row, a block's memory, a workspace,
 *                       a tile
 *   cuda threads        nor do two threads touch the same at once, one of them writing: that run
 *                       under the thread sanitizer, which knows what is in order (shim.c)
 *   cuda races          which notices planted faults: threads that do not wait, blocks that write
 *                       one place
 *   cuda nvrtc [all]    NVRTC compiles them, and no register is spilled: those of one program for
 *                       each machine, `all`: of all; attention with long heads for sm_90a, long
 *                       rows for sm_80, too; skipped where there is no NVRTC
 *
 * All but `nvrtc` and `all` go through the commit's share of the cases (tests/share.h). */
#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"
#include "frontend/lower.h"
#include "kir/kir.h"
#include "passes/passes.h"
#include "plan/calls.h"

#include "base/file.h"
#include "base/nvrtc.h"
#include "tests/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Case {
    const char *path;
    DtOption dims[8];
    uint32_t n_dims;
    bool unfused;
} Case;


/* Extents that are no multiples of lanes, vectors or blocks. The last ones are multiples, so that
 * memory accesses are wide. */
static const Case cases[] = {
    {"examples/diffusion.dsl", {{"batch", "67"}, {"embed", "36"}, {"layers", "2"}}, 3, false},
    {"examples/quickstart.dsl",
     {{"batch", "3"}, {"seq", "21"}, {"vocab", "67"}, {"embed", "20"}, {"layers", "2"}}, 5, false},
    {"examples/quickstart.dsl",
     {{"batch", "3"}, {"seq", "21"}, {"vocab", "67"}, {"embed", "20"}, {"layers", "2"}}, 5, true},
    {"examples/gpt2.dsl",
     {{"batch", "2"}, {"seq", "19"}, {"vocab", "4200"}, {"embed", "36"}, {"heads", "3"},
      {"layers", "2"}}, 6, false}, /* a block handles two rows of the table */
    {"examples/vit.dsl",
     {{"batch", "2"}, {"gh", "3"}, {"ph", "5"}, {"embed", "132"}, {"heads", "2"}, {"layers", "2"}},
     6, false},
    {"examples/mamba.dsl",
     {{"batch", "2"}, {"seq", "9"}, {"vocab", "70"}, {"embed", "18"}, {"cell", "3"},
      {"layers", "2"}}, 6, false},
    {"examples/lstm.dsl",
     {{"batch", "3"}, {"seq", "7"}, {"vocab", "37"}, {"embed", "17"}, {"hidden", "19"}}, 5, false},
    {"examples/resnet.dsl", {{"batch", "3"}, {"side", "8"}, {"c0", "5"}}, 3, false},
    {"examples/byol.dsl", {{"batch", "5"}, {"side", "5"}, {"wide", "23"}, {"hidden", "24"}}, 4,
     false},
    {"examples/t5.dsl",
     {{"batch", "2"}, {"src", "11"}, {"tgt", "9"}, {"vocab", "70"}, {"embed", "20"}, {"ffn", "28"}},
     6, false},
    {"examples/gpt2.dsl",
     {{"batch", "64"}, {"seq", "32"}, {"vocab", "137"}, {"embed", "144"}, {"heads", "3"},
      {"layers", "2"}}, 6, false},
    {"examples/diffusion.dsl", {{"batch", "128"}, {"embed", "128"}, {"layers", "2"}}, 3, false},
    {"examples/diffusion.dsl", {{"batch", "300"}, {"embed", "36"}, {"layers", "2"}}, 3,
     false}, /* pieces of rows */
    /* rows that share lanes: 64 lanes, in pieces, and 32 lanes or rows that do not */
    {"tests/codegen/codes.dsl", {{"b", "5"}}, 1, false},
    {"tests/codegen/codes.dsl", {{"a", "16384"}, {"b", "1"}}, 2, false},
    {"tests/codegen/codes.dsl", {{"a", "192"}}, 1, false},
    /* keys of which a step writes the new ones alone, point by point and several at once */
    {"tests/passes/programs/decode.dsl", {{"seq", "13"}, {"embed", "5"}}, 2, false},
    {"tests/passes/programs/decode.dsl", {{"seq", "13"}, {"embed", "640"}}, 2, false},
    {"examples/quickstart.dsl",
     {{"batch", "701"}, {"seq", "3"}, {"vocab", "67"}, {"embed", "36"}, {"layers", "2"}}, 5,
     true}, /* sums whose rows are divided into pieces */
    /* values that a block keeps in its memory */
    {"tests/codegen/rows.dsl", {{"batch", "20"}}, 1, false},
    /* each thread computes four elements */
    {"tests/codegen/rows_mixed.dsl", {{"batch", "4"}}, 1, false},
};
/* The other examples, which are not part of the usual run; and a few rows that are as long as rows
 * can be, so that they are divided into pieces. */
static const Case others[] = {
    {"examples/bert.dsl",
     {{"batch", "3"}, {"seq", "11"}, {"vocab", "67"}, {"embed", "36"}, {"heads", "3"},
      {"head", "12"}, {"ffn", "28"}}, 7, false},
    {"examples/gan.dsl", {{"batch", "7"}, {"noise", "5"}, {"hidden", "19"}}, 3, false},
    {"examples/gpt_1t.dsl", {{"batch", "3"}, {"seq", "11"}, {"vocab", "67"}, {"embed", "20"},
                              {"heads", "2"}}, 5, false},
    {"examples/llama3_8b.dsl",
     {{"batch", "2"}, {"seq", "13"}, {"vocab", "71"}, {"embed", "36"}, {"ffn", "44"}, {"kv", "2"},
      {"group", "3"}, {"head", "10"}}, 8, false},
    {"examples/moe.dsl",
     {{"batch", "2"}, {"pool", "2"}, {"seq", "16"}, {"vocab", "71"}, {"embed", "36"}, {"ffn", "28"},
      {"kv", "2"}, {"head", "10"}}, 8, false},
    {"examples/shakespeare.dsl", {{"batch", "3"}, {"seq", "21"}, {"vocab", "67"}, {"embed", "20"}},
     4, false},
    {"examples/vgg16.dsl",
     {{"batch", "3"}, {"side", "32"}, {"c0", "3"}, {"classes", "11"}, {"fc", "17"}}, 5, false},
    {"tests/codegen/rows.dsl", {{"batch", "2"}, {"wide", "8192"}}, 2, false},
    {"tests/codegen/rows.dsl", {{"batch", "2"}, {"wide", "16384"}}, 2, false},
};
/* One kernel has this many of them. */
static const Case long_rows[] = {
    {"tests/codegen/rows.dsl", {{"batch", "600"}, {"wide", "8192"}}, 2, false},
    {"tests/codegen/rows.dsl", {{"batch", "600"}, {"wide", "16384"}}, 2, false},
};
/* Attention in bf16 with long heads (128 and 256 elements), whose sums fill the registers. */
static const Case long_heads[] = {
    {"examples/gpt2.dsl",
     {{"batch", "2"}, {"seq", "70"}, {"vocab", "133"}, {"embed", "256"}, {"heads", "2"},
      {"layers", "2"}}, 6, false},
    {"examples/gpt2.dsl",
     {{"batch", "2"}, {"seq", "70"}, {"vocab", "133"}, {"embed", "256"}, {"heads", "1"},
      {"layers", "2"}}, 6, false},
};
/* Attention with several tiles: in 16 bits, in f32, and with a bias. */
static const Case tiles[] = {
    {"examples/gpt2.dsl",
     {{"batch", "1"}, {"seq", "70"}, {"vocab", "70"}, {"embed", "36"}, {"heads", "3"},
      {"layers", "2"}}, 6, false},
    {"examples/quickstart.dsl",
     {{"batch", "1"}, {"seq", "70"}, {"vocab", "67"}, {"embed", "20"}, {"layers", "2"}}, 5, false},
    {"examples/t5.dsl",
     {{"batch", "2"}, {"src", "67"}, {"tgt", "69"}, {"vocab", "70"}, {"embed", "20"},
      {"ffn", "28"}}, 6, false},
};
static const char *const machines[] = {"sm_80", "sm_90a", "sm_100a"};

/* Cases with maps and short rows, with tables, with rows in pieces, with long rows. */
enum { SHIM_SHARED = 232448 }; /* symbols of shim.c */
enum { POINTS = 0, TABLES = 3, ATTENTION = 3, DRAWS = 10, KEPT = DT_COUNT(cases) - 4,
       PIECES = DT_COUNT(cases) - 3, ROWS = DT_COUNT(cases) - 2, TILES = DT_COUNT(cases) };

typedef struct Fault {
    const char *of, *from, *to;
    uint32_t seen_in; /* which of the cases have this kind */
} Fault;

static const Fault faults[] = {
    {"lanes by another tree", "m = 1; m < group; m *= 2", "m = group / 2; m >= 1; m /= 2", POINTS},
    {"warps by another tree", "m = 1; m < warps; m *= 2", "m = 16; m >= 1; m /= 2", ROWS},
    {"what is in its place is written, and nothing else", "if (!n", "if (n", KEPT},
    {"a warp that is none counts", "if ((lane / m ^ 1) * m < warps) ", "", PIECES},
    {"warps do not wait for each other", "dt_block();\n            const float n", "const float n",
     ROWS},
    {"the next exchange overwrites one", "turn ^= 1;", "", ROWS},
    {"a row that the block holds is shifted", "dt_take(v0, h0 + j", "dt_take(v0, h0 + (j ^ 4)",
     ROWS},
    {"what is kept is another element's", "= c2[l];", "= c2[l ^ 1];", TABLES},
    {"rows that are none are stored", "if (here && ", "if (", POINTS},
    {"blocks leave items out", "DT_BLOCKS * 256", "DT_BLOCKS * 512", POINTS},
    {"a row's last elements are left out", "if (j < n) {", "if (j + 8 < n) {", POINTS},
    {"a thread takes its neighbours in another order", "(int)v[l]); }", "(int)v[l ^ 1]); }",
     POINTS},
    {"a load is not aligned", "dt_load(v + i / 4, (const char *)p + i",
     "dt_load(v + i / 4, (const char *)p + i + 4", POINTS},
    {"a warp parts", "    dt_warp();", "    if (DT_THREAD % 32 > 4) dt_warp();", POINTS},
    {"a thread ends before its warp exchanges lanes", "const int here = ",
     "if (DT_THREAD % 32 == 7) return; const int here = ", POINTS},
    {"rows have each other's draws", "[l], d);", "[l], d ^ 1);", DRAWS},
    {"pieces are left out", "; piece += 16", "; piece += 32", PIECES},
    {"pieces are in other lanes", "piece = DT_THREAD % 16",
     "piece = DT_THREAD % 16 / 2 + DT_THREAD % 2 * 8", PIECES},
    {"a piece begins where another does", ", from = 66 * piece", ", from = 65 * piece", PIECES},
    {"nothing is finished", "name##_finish(all, q);", "", PIECES},
    {"rows of the next piece are added, too", "; r1 < from + 16; r1++", "; r1 < to + 1; r1++",
     POINTS},
    {"sums of rows begin with what is there", "s1[l] = 0x0p+0f;", "", POINTS},
    {"points of other places are added, too", "if (to[x] != own) continue;",
     "if (to[x] > own) continue;", TABLES},
    {"threads write where others do", "counts[DT_THREAD] += before;",
     "counts[DT_THREAD] += before / 2;", TABLES},
    {"the last point of a piece is left out", "if (g >= last) break;", "if (g + 1 >= last) break;",
     PIECES},
    {"pieces of points are added to each other", "(piece * ", "(piece % 3 * ", PIECES},
    {"a list is read before it is written", "dt_block();\n            const int all",
     "const int all", TABLES},
    {"the last place of a block is another's", "own < high - low", "own < high - low - 1", TABLES},
};

/* Faults that an address sanitizer must notice: accesses beyond a row, shared memory, a
 * workspace. */
static const Fault strays[] = {
    {"rows are written beyond their end", "if (l < left) ((type *)p)[l]",
     "if (l <= left) ((type *)p)[l]", POINTS},
    {"a row that the block holds is longer than its memory", "dt_give(h14 + j",
     "dt_give(h14 + 8 + j", ROWS},
    {"a piece more than the workspace has", "for (long i = 0; i < bytes; i++)",
     "for (long i = 0; i <= bytes; i++)", PIECES},
    {"a tile of keys beyond the last one", "const int is = r < left", "const int is = r <= left",
     ATTENTION},
};

/* Faults that a thread sanitizer must notice. */
static const Fault races[] = {
    {"warps do not wait for each other", "dt_block();\n            const float n", "const float n",
     ROWS},
    {"the next exchange overwrites one", "turn ^= 1;", "", ROWS},
    {"a list is read before it is written", "dt_block();\n            const int all",
     "const int all", TABLES},
    {"blocks write each other's points", "DT_BLOCK * 256", "DT_BLOCK * 128", POINTS},
    {"a row is written before its warp has read it", "dt_warp();\n        if (here", "if (here",
     POINTS},
    {"rows that are none read what another warp writes", "(here) ? (", "(1) ? (", POINTS},
    {"sums are added to before they are zeros", "dt_warp();\n        for (int64_t r1",
     "for (int64_t r1", TILES},
    {"a tile is read before it is there", "dt_block();\n                DT_MADE", "DT_MADE", TILES},
    {"a tile is loaded over one that is being read", "dt_block();\n                dt_load",
     "dt_load", TILES},
    {"what scores become is read before it is there", "dt_warp();\n                dt_nn", "dt_nn",
     TILES + 1},
};

/* Options of the compiler for kernels and for the shim, and of the resulting program; a program
 * that tests the sanitizer, and its expected output; the beginning of a report. */
typedef struct Sanitizer {
    const char *kernels, *shim, *options, *probe, *proof, *report, *good;
} Sanitizer;

static const Sanitizer address = {"-O1 -DAPART -fsanitize=address",
                                  "-fsanitize=address -DDT_SHIM_ADDRESS",
                                  "ASAN_OPTIONS=detect_leaks=0:abort_on_error=0", "-", "grep fine",
                                  "ERROR: AddressSanitizer",
                                  "no access outside of what a kernel has"};
/* Compiled without optimisation, so that each thread executes every read of the text, even of a
 * value that it does not need. */
static const Sanitizer threads = {"-O0 -g -fsanitize=thread", "-DDT_SHIM_THREADS",
                                  "TSAN_OPTIONS=halt_on_error=1", "tests/codegen/fibers.c",
                                  "grep 'data race'", "WARNING: ThreadSanitizer: data race",
                                  "no two threads touch the same at once"};
static const char *compiler; /* the compiler that has the sanitizer */

static uint32_t passed, failed, skipped;

/* ---- texts ---- */

/* Returns a plan with the kernels of a program as the target prints them. loops: prints attention
 * as loops, which both targets have as kernels (tests/standin/attention.py compares these with the
 * other form). */
static DtPlanBuilder *print_in_order(DtArena *arena, const Case *of, const char *target,
                                     const char *rows, bool loops, DtText *ret_text)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtLowerOptions lower = {.path = of->path, .library = "lib", .parallel = "none",
                                  .dims = of->dims, .n_dims = of->n_dims, .synthetic = true};
    DtProgram *program = dt_lower(arena, diags, &lower);
    const DtPassContext context = {.train = program ? program->train : NULL,
                                   .target = DT_TARGET_CUDA, .unfused = of->unfused};
    const DtCodegenOptions options = {.target = target, .source = of->path, .source_folder = ".",
                                      .compiler = "test", .no_kernels = true,
                                      .unfused = of->unfused, .loops = loops, .rows = rows,
                                      .ret_c = ret_text};
    DtPlanBuilder *builder = dt_write_new(arena);
    DtStatus status = DT_OK;
    if (program) {
        dt_passes_run(program->module, &context, NULL, NULL);
        status = dt_codegen_plan(program, &options, builder);
    }
    if (!program || !dt_status_ok(&status) || dt_diag_errors(diags)) {
        dt_diag_print(diags, stderr, false);
        fprintf(stderr, "%s: no kernels for %s\n", of->path, target);
        exit(1);
    }
    return builder;
}

static DtPlanBuilder *print(DtArena *arena, const Case *of, const char *target, bool loops,
                            DtText *ret_text)
{
    return print_in_order(arena, of, target, "sm_90a", loops, ret_text);
}

static void say(bool good, const Case *of, const char *what)
{
    passed += good;
    failed += !good;
    printf("%s %s%s: %s\n", good ? "ok  " : "FAIL", of->path, of->unfused ? " (unfused)" : "",
           what);
    fflush(stdout);
}

/* ---- shared objects ---- */

static const char *write_text(DtArena *arena, const char *folder, const char *name,
                              const char *text)
{
    const char *path = dt_arena_printf(arena, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file)
        fputs(text, file);
    if (!file || fclose(file) != 0)
        abort();
    return path;
}

static DtHostBytes build(DtArena *arena, const char *source, const char *more)
{
    const char *cc = getenv("CC"), *object = dt_arena_printf(arena, "%s.so", source);
    const char *command = dt_arena_printf(arena,
                                          "%s -x c -std=gnu11 -w -O0 -shared -fPIC -fno-math-errno "
                                          "-fno-trapping-math -ffp-contract=off %s -o %s %s",
                                          cc ? cc : "cc", source, object, more);
    DtHostBytes bytes = {NULL, 0};
    if (system(command) != 0)
        return bytes;
    FILE *file = fopen(object, "r");
    if (!file)
        return bytes;
    fseek(file, 0, SEEK_END);
    const long len = ftell(file);
    uint8_t *at = dt_arena_alloc(arena, (size_t)len + 1);
    rewind(file);
    if (len > 0 && fread(at, 1, (size_t)len, file) == (size_t)len)
        bytes = (DtHostBytes){at, (size_t)len};
    fclose(file);
    return bytes;
}

/* ---- the shim ---- */

static void find_calls(DtArena *arena, const DtPlanBuilder *b, DtHostCall **ret_calls,
                       uint32_t *ret_n)
{
    const DtPlan plan = {.meta = b->meta.at, .n_meta = b->meta.n, .mesh = b->mesh.at,
                         .n_mesh = b->mesh.n, .kernels = b->kernels.at, .n_kernels = b->kernels.n,
                         .args = b->args.at, .n_args = b->args.n, .insts = b->insts.at,
                         .n_insts = b->insts.n, .strings = b->strings.at,
                         .n_strings = b->strings.n};
    dt_calls_find(arena, &plan, ret_calls, ret_n);
    for (uint32_t i = 0; i < *ret_n; i++)
        (*ret_calls)[i].unit = 0;
}

/* Checks that both targets print the same kernels under the same names. */
static bool are_alike(const DtPlanBuilder *a, const DtPlanBuilder *b)
{
    if (a->kernels.n != b->kernels.n || a->args.n != b->args.n)
        return false;
    for (uint32_t i = 0; i < a->kernels.n; i++)
        if (strcmp(a->strings.at + a->kernels.at[i].name, b->strings.at + b->kernels.at[i].name) !=
            0)
            return false;
    return true;
}

/* Returns the text with each `from` replaced by `to`; NULL: the text has no `from`. */
static const char *planted(DtArena *arena, const char *text, const Fault *fault)
{
    DtText out = {0};
    bool any = false;
    for (const char *at = text, *next; at; at = next ? next + strlen(fault->from) : NULL) {
        next = strstr(at, fault->from);
        dt_text_add_n(&out, at, next ? (size_t)(next - at) : strlen(at));
        if (next)
            dt_text_add(&out, fault->to);
        any = any || next;
    }
    const char *copy = any ? dt_arena_strndup(arena, out.at, out.len) : NULL;
    dt_text_free(&out);
    return copy;
}

/* fault: NULL, or a change of the CUDA text, which must be noticed. */
static void compare(const Case *of, const char *folder, uint32_t order, const Fault *fault)
{
    DtArena *arena = dt_arena_new();
    DtText c = {0}, cuda = {0}, said = {0};
    const DtPlanBuilder *plain = print(arena, of, "cpu", true, &c),
                        *device = print(arena, of, "sm_90a", true, &cuda);
    const char *text = dt_arena_printf(arena, "%s%s%s%s%s%s", dt_cuda_host, dt_prelude_c,
                                       dt_cuda_lanes, dt_cuda_wide, dt_cuda_draws, cuda.at);
    if (fault)
        text = planted(arena, text, fault);
    DtHostCall *calls;
    uint32_t n, bad = 0;
    find_calls(arena, plain, &calls, &n);
    const char *more =
        dt_arena_printf(arena, "-DDT_STEP_BY_VALUE -DDT_SHIM_ORDER=%u tests/codegen/shim.c", order);
    DtHostPair pair = {.text = dt_arena_printf(arena, "%s%s", dt_prelude_c, c.at), .calls = calls,
                       .n_calls = n, .verdicts = dt_arena_alloc(arena, n + 1)};
    /* renames the variable by which the check of machine code shortens long loops: all their rounds
     * run */
    pair.plain = build(arena, write_text(arena, folder, "plain.c", pair.text), "-Ddt_most=dt_all");
    pair.fast = text ? build(arena, write_text(arena, folder, "cuda.c", text), more)
                     : (DtHostBytes){NULL, 0};
    const bool built = are_alike(plain, device) && pair.plain.at && pair.fast.at && n > 0;
    DtStatus status = built ? dt_hostrun_compare(&pair, 1) : DT_OK;
    /* the kernel may crash each time */
    const bool good = built && !pair.unloadable && (fault || dt_status_ok(&status));
    for (uint32_t i = 0; i < n; i++)
        if (pair.verdicts[i] != DT_HOST_EQUAL) {
            bad++;
            dt_text_printf(&said, " %s", calls[i].symbol);
        }
    if (pair.n_endless)
        dt_text_printf(&said, " (%u of them needed more than %d s)", pair.n_endless,
                       DT_HOST_SECONDS);
    const char *what =
        bad ? dt_arena_printf(arena, "%u of %u calls differ:%s", bad, n, said.at)
            : dt_arena_printf(arena, "%u calls of %u kernels, the same bits", n, plain->kernels.n);
    if (fault)
        what = dt_arena_printf(arena, "%s: %u of %u calls differ", fault->of, bad, n);
    say(good && (fault ? bad > 0 : !bad), of, what);
    dt_text_free(&c);
    dt_text_free(&cuda);
    dt_text_free(&said);
    dt_arena_free(arena);
}

/* ---- kernel IR ---- */

static const Fault other_texts[] = {
    {"lanes are others", "lanes 64 halves", "lanes 16 halves", POINTS},
    {"lanes are combined otherwise", "lanes 64 pairs", "lanes 64 halves", POINTS},
    {"a sum is a maximum", "reduce sum f32", "reduce max f32", POINTS},
    {"a product is a sum", "map mul f32", "map add f32", POINTS},
};

/* Called by the shared object that replaces compiled kernels. */
void dt_test_interpret(const char *path, const char *symbol, char *const *p, const long *q);
void dt_test_interpret(const char *path, const char *symbol, char *const *p, const long *q)
{
    static DtKirImage *image;
    char why[200];
    if (!image) {
        FILE *file = fopen(path, "r");
        char *text = NULL;
        size_t room = 0;
        const ssize_t len = file ? getdelim(&text, &room, 0, file) : 0;
        image = len > 0 ? dt_kir_read(text, (size_t)len, why, sizeof why) : NULL;
        free(text);
    }
    DtKirKernel *kernel = image ? dt_kir_find(image, symbol) : NULL;
    if (!kernel || !dt_kir_run(kernel, &(DtKirCall){.pointers = p, .integers = q}))
        abort();
}

/* Gives each call its own memory, exactly as long as the plan says, so that the sanitizer sees
 * accesses outside of it. */
static bool strays_from(DtArena *arena, const char *text, const DtHostCall *calls, uint32_t n)
{
    char why[200];
    bool any = false;
    DtKirImage *image = dt_kir_read(text, strlen(text), why, sizeof why);
    for (uint32_t i = 0; i < n && image; i++) {
        DtKirKernel *kernel = dt_kir_find(image, calls[i].symbol);
        char **at = DT_NEW_ARRAY(arena, char *, calls[i].n_pointers + 1);
        DtKirRange *ranges = DT_NEW_ARRAY(arena, DtKirRange, calls[i].n_pointers + 1);
        for (uint32_t k = 0; k < calls[i].n_pointers; k++) {
            ranges[k] = (DtKirRange){0, calls[i].pointers[k].bytes};
            at[k] = calloc(1, (size_t)ranges[k].to + 1);
            memset(at[k], (int)(i + k) % 5, (size_t)ranges[k].to);
        }
        const DtKirCall call = {.pointers = at, .integers = calls[i].integers[0], .ranges = ranges};
        any = any || !kernel || !dt_kir_run(kernel, &call);
        for (uint32_t k = 0; k < calls[i].n_pointers; k++)
            free(at[k]);
    }
    if (!image)
        printf("%s\n", why);
    dt_kir_free(image);
    return any || !image;
}

/* Makes a shared object that has a function for each kernel; the function has the kernel
 * interpreted. */
static DtHostBytes build_interpreted(DtArena *arena, const char *folder, const DtPlanBuilder *b,
                                     const char *text)
{
    DtText c = {0};
    const char *path = write_text(arena, folder, "kernels.kir", text);
    dt_text_add(&c, "void dt_test_interpret(const char *path, const char *symbol, "
                    "char *const *p, const long *q);\n");
    for (uint32_t i = 0; i < b->kernels.n; i++) {
        const char *symbol = b->strings.at + b->kernels.at[i].symbol;
        dt_text_printf(&c, "void %s(char *const *p, const long *q)\n"
                           "{ dt_test_interpret(\"%s\", \"%s\", p, q); }\n", symbol, path, symbol);
    }
    const DtHostBytes bytes = build(arena, write_text(arena, folder, "interpreted.c", c.at), "");
    dt_text_free(&c);
    return bytes;
}

/* Runs the program with interpreted kernels. rows: the target in whose order rows are added up;
 * fault: NULL, or a change of the text, which must be noticed. */
static void interpret(const Case *of, const char *folder, const char *rows, const Fault *fault)
{
    DtArena *arena = dt_arena_new();
    DtText c = {0}, ir = {0};
    const DtPlanBuilder *plain = print_in_order(arena, of, "cpu", rows, true, &c),
                        *other = print_in_order(arena, of, "interpreted", rows, true, &ir);
    const char *text = fault ? planted(arena, ir.at, fault) : ir.at;
    DtHostCall *calls;
    uint32_t n, bad = 0;
    find_calls(arena, plain, &calls, &n);
    DtHostPair pair = {.text = dt_arena_printf(arena, "%s%s", dt_prelude_c, c.at),
                       .calls = calls,
                       .n_calls = n,
                       .verdicts = dt_arena_alloc(arena, n + 1)};
    const char *plain_path = write_text(arena, folder, "plain.c", pair.text);
    pair.plain = build(arena, plain_path, "-Ddt_most=dt_all");
    pair.fast = text ? build_interpreted(arena, folder, other, text) : (DtHostBytes){NULL, 0};
    const bool built = are_alike(plain, other) && pair.plain.at && pair.fast.at && n > 0;
    const DtStatus status = built ? dt_hostrun_compare(&pair, 1) : DT_OK;
    const bool good = built && !pair.unloadable && dt_status_ok(&status);
    for (uint32_t i = 0; i < n; i++)
        bad += pair.verdicts[i] != DT_HOST_EQUAL;
    const bool one_strays = !fault && good && strays_from(arena, text, calls, n);
    const char *what = dt_arena_printf(arena, "%s, order of %s: %u of %u calls differ%s",
                                       fault ? fault->of : "interpreted", rows ? rows : "cpu", bad,
                                       n, one_strays ? ", and one strays" : "");
    say(good && (fault ? bad > 0 : !bad && !one_strays), of, what);
    dt_text_free(&c);
    dt_text_free(&ir);
    dt_arena_free(arena);
}

/* ---- sanitizers ---- */

/* Returns the bytes of shared memory that a block needs. On a processor attention keeps in this
 * memory the tiles that a GPU keeps in registers. */
static int room_of(const DtPlanBuilder *b, const char *text, const char *symbol)
{
    char head[64];
    uint32_t k = 0;
    snprintf(head, sizeof head, "\nDT_KERNEL(%.40s,", symbol);
    const char *from = strstr(text, head), *end = from ? strstr(from, "\n}\n") : NULL;
    const char *shared = from ? strstr(from, "DT_SHARED") : NULL;
    if (sscanf(symbol, "dt_k%u", &k) != 1 || k >= b->launches.n)
        abort();
    return shared && shared < end ? SHIM_SHARED : (int)b->launches.at[k].shared;
}

/* Writes the text that shim_run.c includes. */
static const char *calls_text(DtArena *arena, const DtPlanBuilder *b, const char *text)
{
    DtHostCall *calls;
    uint32_t n;
    DtText out = {0};
    find_calls(arena, b, &calls, &n);
    dt_text_add(&out, "#define ALL_CALLS \\\n");
    for (uint32_t i = 0; i < n; i++) {
        dt_text_printf(&out, "    CALL(%s, %d, (", calls[i].symbol,
                       room_of(b, text, calls[i].symbol));
        for (uint32_t k = 0; k < calls[i].n_pointers; k++)
            dt_text_printf(&out, "{%u, %lld, %lld}, ", calls[i].pointers[k].arena,
                           (long long)calls[i].pointers[k].at,
                           (long long)calls[i].pointers[k].bytes);
        dt_text_add(&out, "{0, 0, -1}), (");
        for (uint32_t k = 0; k < calls[i].n_integers; k++)
            dt_text_printf(&out, "%lld, ", (long long)calls[i].integers[0][k]);
        dt_text_add(&out, "0)) \\\n");
    }
    dt_text_add(&out, "\n");
    const char *kept = dt_arena_strndup(arena, out.at, out.len);
    dt_text_free(&out);
    return kept;
}

static const char *said_in(DtArena *arena, const char *path)
{
    char *lines = dt_arena_alloc(arena, 1 << 14);
    FILE *file = fopen(path, "r");
    lines[file ? fread(lines, 1, (1 << 14) - 1, file) : 0] = 0;
    if (file)
        fclose(file);
    return lines;
}

/* Returns the line of the kernel, for example "`n4 = n0 + n3;'", after the words `what` in a
 * sanitizer's report; NULL: the report names none. */
static const char *line_behind(DtArena *arena, const char *text, const char *said, const char *what)
{
    const char *at = strstr(said, what);
    const char *kernel = at ? strstr(at, "_thread ") : NULL,
               *place = kernel ? strstr(kernel, "/cuda.c:") : NULL;
    int number = 0;
    if (!place || sscanf(place, "/cuda.c:%d", &number) != 1)
        return NULL;
    for (; number > 1 && (text = strchr(text, '\n')); number--)
        text++;
    if (!text)
        return NULL;
    text += strspn(text, " ");
    return dt_arena_printf(arena, "`%.*s'", (int)strcspn(text, "\n"), text);
}

/* Returns the two lines of a race that the report names; "" for other reports. */
static const char *lines_of(DtArena *arena, const char *text, const char *said)
{
    const char *one = line_behind(arena, text, said, "WARNING: ThreadSanitizer");
    const char *other = line_behind(arena, text, said, "Previous ");
    return one && other ? dt_arena_printf(arena, ": %s, %s", one, other) : "";
}

/* Compiles the text, with the shim and the calls of its kernels, to the program `run` in the
 * folder. False: it does not compile. */
static bool build_run(DtArena *arena, const Sanitizer *by, const char *folder, const char *text)
{
    const char *flags = "-std=gnu11 -w -fno-math-errno -fno-trapping-math -ffp-contract=off";
    write_text(arena, folder, "cuda.c", text);
    return system(dt_arena_printf(
               arena,
               "cd %s && %s %s -O1 %s -c -o shim.o $OLDPWD/tests/codegen/shim.c && "
               "%s %s %s -DDT_STEP_BY_VALUE -DCALLS='\"%s/calls.h\"' -o run cuda.c "
               "$OLDPWD/tests/codegen/shim_run.c shim.o -lm",
               folder, compiler, flags, by->shim, compiler, flags, by->kernels, folder)) == 0;
}

static void sanitize(const Sanitizer *by, const Case *of, const char *folder, const Fault *fault)
{
    DtArena *arena = dt_arena_new();
    DtText cuda = {0};
    const char *out = dt_arena_printf(arena, "%s/said", folder);
    const DtPlanBuilder *device = print(arena, of, "sm_90a", false, &cuda);
    const char *text =
        dt_arena_printf(arena, "%s%s%s%s%s%s%s", dt_cuda_host, dt_prelude_c, dt_cuda_lanes,
                        dt_cuda_wide, dt_cuda_draws, dt_cuda_attend, cuda.at);
    write_text(arena, folder, "calls.h", calls_text(arena, device, cuda.at));
    if (fault)
        text = planted(arena, text, fault);
    const bool built = text && build_run(arena, by, folder, text);
    const bool ran = built && system(dt_arena_printf(arena, "%s %s/run >%s 2>&1", by->options,
                                                     folder, out)) == 0;
    const char *said = said_in(arena, built ? out : "/dev/null");
    const bool noticed = strstr(said, by->report),
               good = fault ? noticed && !ran : ran && strstr(said, " calls\n");
    const char *lines = lines_of(arena, text ? text : "", said);
    say(good && (!fault || by != &threads || *lines), of,
        dt_arena_printf(arena, "%s%s", fault ? fault->of : by->good, lines));
    if (!good)
        printf("%.2000s\n", said);
    dt_text_free(&cuda);
    dt_arena_free(arena);
}

/* ---- NVRTC ---- */

static void compile(const Case *of, const char *machine)
{
    DtArena *arena = dt_arena_new();
    DtText cuda = {0};
    print(arena, of, machine, false, &cuda);
    const char *text =
        dt_arena_printf(arena, "%s%s%s%s%s%s%s", dt_cuda_device, dt_prelude_c, dt_cuda_lanes,
                        dt_cuda_wide, dt_cuda_draws, dt_cuda_attend, cuda.at);
    DtNvrtcResult result;
    DtStatus status = dt_nvrtc_compile(arena, text, machine, &result);
    uint32_t spilled = 0, most = 0;
    for (uint32_t i = 0; dt_status_ok(&status) && i < result.n_kernels; i++) {
        spilled += result.kernels[i].spilled > 0;
        most = result.kernels[i].registers > most ? result.kernels[i].registers : most;
    }
    const bool good = dt_status_ok(&status) && result.n_kernels > 0 && most > 0 && spilled == 0;
    say(good, of,
        !dt_status_ok(&status)
            ? status.message
            : dt_arena_printf(arena, "%s: %u kernels, at most %u registers, %u spill", machine,
                              result.n_kernels, most, spilled));
    dt_text_free(&cuda);
    dt_arena_free(arena);
}

static bool has_nvrtc(void)
{
    DtArena *arena = dt_arena_new();
    DtStatus status;
    const char *version = dt_nvrtc_version(arena, &status);
    printf("%s\n", version ? version : status.message);
    dt_arena_free(arena);
    return version;
}

/* COMPILED: the case that is compiled for each machine; the others only for sm_90a */
enum { ORDERS = 3, COMPILED = 1, USUAL = 1 };
enum { SOME = 3 }; /* in the usual run one of this many faults is planted */

/* part: NULL, or a part of the paths of the programs that are tested. */
static void with_shim(bool all, bool faulty, const char *part)
{
    char folder[] = "/tmp/dt-cuda-XXXXXX", command[64];
    if (!mkdtemp(folder))
        abort();
    for (uint32_t i = 0; i < DT_COUNT(faults) && faulty; i += all ? 1 : SOME)
        if (share_has(i / SOME))
            compare(&cases[faults[i].seen_in], folder, 0, &faults[i]);
    for (uint32_t i = 0; i < DT_COUNT(cases) && !faulty; i++)
        for (uint32_t order = 0; order < ORDERS; order++)
            if (part  ? strstr(cases[i].path, part) != NULL
                : all ? true
                      : share_has(i) && order == i % ORDERS)
                compare(&cases[i], folder, order, NULL);
    for (uint32_t i = 0; i < DT_COUNT(others) && all && !faulty; i++)
        for (uint32_t order = 0; order < ORDERS; order++)
            compare(&others[i], folder, order, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    failed += system(command) != 0;
}

static void with_interpreter(bool all)
{
    char folder[] = "/tmp/dt-kir-XXXXXX", command[64];
    if (!mkdtemp(folder))
        abort();
    for (uint32_t i = 0; i < DT_COUNT(cases); i++) {
        if (!share_has(i))
            continue;
        interpret(&cases[i], folder, "sm_90a", NULL);
        if (all || i / 4 % 2 == 0) /* some of each share */
            interpret(&cases[i], folder, NULL, NULL);
    }
    for (uint32_t i = 0; i < DT_COUNT(others) && all; i++)
        interpret(&others[i], folder, i % 2 ? "sm_90a" : NULL, NULL);
    for (uint32_t i = 0; i < DT_COUNT(other_texts); i++)
        interpret(&cases[other_texts[i].seen_in], folder, i % 2 ? "sm_90a" : NULL, &other_texts[i]);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    failed += system(command) != 0;
}

/* Whether there is a compiler with this sanitizer. */
static bool has_sanitizer(const Sanitizer *by, const char *folder)
{
    const char *cc = getenv("CC"), *const some[] = {cc ? cc : "cc", "gcc", "clang"};
    char command[600];
    for (uint32_t i = 0; i < DT_COUNT(some) && !compiler; i++) {
        snprintf(command, sizeof command,
                 "(echo 'int main(void) { return 0; }' | %.99s %s -x c -o %s/run %s && %s/run && "
                 "echo fine) 2>&1 | "
                 "(%s) >/dev/null",
                 some[i], by->kernels, folder, by->probe, folder, by->proof);
        if (system(command) == 0)
            compiler = some[i];
    }
    printf("%s\n", compiler ? compiler : "no compiler has that sanitizer");
    return compiler;
}

static const Case *case_of(uint32_t number)
{
    return number < TILES ? &cases[number] : &tiles[number - TILES];
}

static void with_sanitizer(const Sanitizer *by, const Fault *planted, uint32_t n)
{
    static const uint32_t some[] = {POINTS, TABLES, 5, 9, 11, PIECES, ROWS, ROWS + 1, TILES,
                                    TILES + 1, TILES + 2};
    char folder[] = "/tmp/dt-cuda-XXXXXX", command[64];
    if (!mkdtemp(folder))
        abort();
    skipped = !has_sanitizer(by, folder);
    for (uint32_t i = 0; i < DT_COUNT(some) && !skipped && !planted; i++)
        sanitize(by, case_of(some[i]), folder, NULL);
    for (uint32_t i = 0; i < n && !skipped && planted; i++)
        if (share_has(i))
            sanitize(by, case_of(planted[i].seen_in), folder, &planted[i]);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    failed += system(command) != 0;
}

static void with_nvrtc(bool all)
{
    if (!has_nvrtc()) {
        skipped = 1;
        return;
    }
    for (uint32_t i = 0; i < DT_COUNT(cases); i++)
        for (uint32_t m = 0; m < DT_COUNT(machines); m++)
            if (all || i == COMPILED)
                compile(&cases[i], machines[m]);
    for (uint32_t i = 0; i < DT_COUNT(others) && all; i++)
        for (uint32_t m = 0; m < DT_COUNT(machines); m++)
            compile(&others[i], machines[m]);
    for (uint32_t i = 0; i < DT_COUNT(long_rows); i++)
        for (uint32_t m = 0; m < DT_COUNT(machines); m++)
            if (all || m <= USUAL)
                compile(&long_rows[i], machines[m]);
    for (uint32_t i = 0; i < DT_COUNT(long_heads); i++)
        for (uint32_t m = 0; m < DT_COUNT(machines); m++)
            if (all || m == USUAL)
                compile(&long_heads[i], machines[m]);
}

int main(int argc, char **argv)
{
    const bool all = argc == 3 && strcmp(argv[2], "all") == 0;
    const char *part = argc == 3 && !all && strcmp(argv[1], "shim") == 0 ? argv[2] : NULL;
    if (argc < 2 || argc > 2 + (all || part))
        return 2;
    if (strcmp(argv[1], "nvrtc") == 0)
        with_nvrtc(all);
    else if (strcmp(argv[1], "address") == 0)
        with_sanitizer(&address, NULL, 0);
    else if (strcmp(argv[1], "strays") == 0)
        with_sanitizer(&address, strays, DT_COUNT(strays));
    else if (strcmp(argv[1], "threads") == 0)
        with_sanitizer(&threads, NULL, 0);
    else if (strcmp(argv[1], "races") == 0)
        with_sanitizer(&threads, races, DT_COUNT(races));
    else if (strcmp(argv[1], "interpreted") == 0)
        with_interpreter(all);
    else
        with_shim(all, strcmp(argv[1], "planted") == 0, part);
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed || passed + skipped == 0 ? 1 : skipped ? 77 : 0;
}
