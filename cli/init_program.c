/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the program of `dtc init`: the model of the library with the sizes of config.json, the
 * data, a `train` block with values that are usual for further training, and layouts for one, two
 * and eight devices. On GPUs each layout is compiled as far as its memory, and gets the lines that
 * make it fit: from rematerialisation over micro-batches to sharded parameters. */
#include "cli/fit.h"
#include "cli/init.h"

#include "base/file.h"
#include "base/modelconfig.h"
#include "codegen/target.h"
#include "passes/passes.h"
#include "plan/read.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"
#include "tokenizer/tokenizer.h"

#include <glob.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH = 8, /* sequences of a step */
    MOST_SEQ = 1024,
    LEAST_SEQ = 16,
    BYTES_PER_TOKEN = 4, /* of text, with the tokenizer of a published model */
    EPOCHS = 3,
    LEAST_OFTEN = 10, /* steps from one evaluation to the next */
    USUAL_OFTEN = 100,
    MOST_OFTEN = 1000,
    EVAL_BATCHES = 20,
    ROWS = 4,   /* texts that are generated at the same time */
    CHUNK = 64, /* positions of a prompt that are read at a time */
    MOST_LOGITS = 1 << 28 /* bytes, on processors, whose memory is not known here */
};

static const double held_out = 0.1; /* part of the text that is not trained on */

/* What the text and the model say about a run. */
typedef struct Run {
    DtInitCommand *init;
    DtArena *arena;
    const char *source; /* text("a.txt", tokenizer = "qwen3", to which from or to is added; NULL:
                         * arrays, images */
    const char *model;  /* the model's folder as the program names it */
    const char *about;  /* what the text is, for the comment */
    bool is_bytes;      /* each byte is a token */
    double tokens;      /* about; 0: not known */
    int64_t seq, often;
    const char *loops; /* labels of the model's loops, for `remat` */
    bool is_gpu;
    const char *device;
} Run;

/* ---- lowering ---- */

DtProgram *dt_initprogram_lower(const DtInitCommand *init, DtArena *arena, DtDiags *diags,
                                const char *text, const char *parallel)
{
    const DtLowerOptions options = {.path = init->output,
                                    .library = init->library,
                                    .parallel = parallel,
                                    .synthetic = parallel != NULL,
                                    .replaced = init->output,
                                    .text = text,
                                    .text_len = strlen(text)};
    return dt_lower(arena, diags, &options);
}

/* ---- paths and data ---- */

static bool has_file(const Run *run, const char *name)
{
    return access(dt_arena_printf(run->arena, "%s/%s", run->init->folder, name), R_OK) == 0;
}

/* Returns the folder as the program's folder sees it. */
static const char *seen_folder(const Run *run, const char *folder)
{
    if (*folder == '/')
        return folder;
    return dt_cli_folder_from(run->arena, dt_arena_printf(run->arena, "%s/.", folder),
                              run->init->output);
}

/* Returns the pattern of files as the program's folder sees it. */
static const char *seen_files(const Run *run, const char *pattern)
{
    const char *special = strpbrk(pattern, "*?["), *name = pattern;
    for (const char *at = pattern; *at && (!special || at < special); at++)
        if (*at == '/')
            name = at + 1;
    if (*pattern == '/')
        return pattern;
    const char *folder = seen_folder(
        run,
        name > pattern ? dt_arena_strndup(run->arena, pattern, (size_t)(name - pattern)) : ".");
    return strcmp(folder, ".") ? dt_arena_printf(run->arena, "%s/%s", folder, name) : name;
}

/* Returns a name as a shell takes it. */
static const char *word(DtArena *arena, const char *name)
{
    DtText text = {0};
    dt_text_add_word(&text, name);
    const char *copy = dt_arena_strndup(arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

/* Returns a string of the language. */
static const char *quoted(DtArena *arena, const char *text)
{
    DtText out = {0};
    dt_text_add(&out, "\"");
    for (; *text; text++) {
        const char *escape = *text == '"'    ? "\\\""
                             : *text == '\\' ? "\\\\"
                             : *text == '\n' ? "\\n"
                             : *text == '\t' ? "\\t"
                                             : NULL;
        if (escape)
            dt_text_add(&out, escape);
        else
            dt_text_add_n(&out, text, 1);
    }
    dt_text_add(&out, "\"");
    const char *copy = dt_arena_strndup(arena, out.at, out.len);
    dt_text_free(&out);
    return copy;
}

/* Returns the bytes of the files that the pattern matches; -1: it matches none. */
static double bytes_of(const char *pattern)
{
    glob_t found;
    struct stat about;
    double bytes = 0;
    bool any = false;
    if (glob(pattern, 0, NULL, &found) != 0)
        return -1;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &about) == 0 && S_ISREG(about.st_mode)) {
            bytes += (double)about.st_size;
            any = true;
        }
    globfree(&found);
    return any ? bytes : -1;
}

static int64_t dim_of(const DtProgram *program, const char *name)
{
    for (uint32_t i = 0; i < program->dims.n; i++)
        if (!strcmp(program->dims.at[i].name, name))
            return program->dims.at[i].extent;
    return 0;
}

/* Returns why the tokenizer of the model cannot be used; NULL: it can. */
static const char *no_tokenizer(const Run *run)
{
    DtTokenizer *tokenizer;
    if (!has_file(run, "tokenizer.json"))
        return dt_arena_printf(run->arena, "%.200s has no tokenizer.json", run->init->folder);
    const DtStatus status = dt_tokenizer_open(run->init->folder, NULL, &tokenizer);
    if (!dt_status_ok(&status))
        return dt_arena_printf(run->arena, "%s", status.message);
    dt_tokenizer_close(tokenizer);
    return NULL;
}

/* Reports that the text cannot be read as tokens, with the command that makes them; returns the
 * exit code. */
static int refuse_text(const Run *run, const char *why, bool is_wide)
{
    return dt_cli_fail(
        DT_EXIT_USAGE,
        "%s. This writes the text's tokens, and init without --text a program that reads them: "
        "python3 -c 'import sys, glob, numpy, transformers as t; a = "
        "t.AutoTokenizer.from_pretrained(sys.argv[1]); numpy.concatenate([a(open(f).read())"
        "[\"input_ids\"] for f in sorted(glob.glob(sys.argv[2]))]).astype(\"u%d\")"
        ".tofile(sys.argv[3])' %s %s mine/tokens.bin",
        why, is_wide ? 4 : 2, word(run->arena, run->init->folder),
        word(run->arena, run->init->cli->text));
}

/* Sets how the text becomes tokens; returns an exit code. */
static int choose_source(Run *run)
{
    DtInitCommand *init = run->init;
    const int64_t vocab = dim_of(init->program, "vocab");
    const char *glob = init->cli->text ? seen_files(run, init->cli->text) : "mine/*.txt";
    const char *why = no_tokenizer(run);
    run->about = glob;
    if (!why) {
        run->source = dt_arena_printf(run->arena, "text(%s, tokenizer = %s",
                                      quoted(run->arena, glob), quoted(run->arena, run->model));
        return DT_EXIT_OK;
    }
    if (vocab == 256 && !has_file(run, "tokenizer.json")) {
        run->source = dt_arena_printf(run->arena, "text(%s", quoted(run->arena, glob));
        run->is_bytes = true;
        return DT_EXIT_OK;
    }
    if (init->cli->text)
        return refuse_text(run, why, vocab > 65536);
    if (has_file(run, "tokenizer.json"))
        init->note = dt_arena_printf(run->arena,
                                     "dtc: the program reads tokens that another program made, as "
                                     "tokenizer.json cannot be used: %s",
                                     why);
    run->about = "mine/*.bin";
    run->source =
        dt_arena_printf(run->arena, "bin(\"mine/*.bin\", %s", vocab > 65536 ? "u32" : "u16");
    return DT_EXIT_OK;
}

/* Rounds up to two digits. */
static int64_t round_up(double number)
{
    const double unit = number > 100 ? pow(10, floor(log10(number)) - 1) : 1;
    return (int64_t)(ceil(number / unit) * unit);
}

int64_t dt_initprogram_positions(const DtInitCommand *init, int64_t most)
{
    const json_t *found = dt_modelconfig_find(init->cli->arena, init->config,
                                              "max_position_embeddings, n_positions, "
                                              "max_target_positions, "
                                              "text_config.max_position_embeddings");
    const double positions = json_is_number(found) ? json_number_value(found) : 0;
    return positions < 1 ? 0 : positions < (double)most ? (int64_t)positions : most;
}

/* Returns the longest samples that the program takes: as many positions as config.json, or else the
 * library, gives the model, at most MOST_SEQ; 0: it has no dim `seq`. */
static int64_t most_positions(const DtInitCommand *init)
{
    const int64_t seq = dim_of(init->program, "seq");
    return seq < MOST_SEQ ? seq : MOST_SEQ;
}

/* Sets the length of samples and how often the run evaluates, from the size of the text if there is
 * one; returns an exit code. */
static int choose_length(Run *run)
{
    DtInitCommand *init = run->init;
    struct stat about;
    const double bytes = init->cli->text ? bytes_of(init->cli->text) : 0;
    if (bytes < 0 && stat(init->cli->text, &about) == 0 && S_ISDIR(about.st_mode))
        return dt_cli_fail(DT_EXIT_IO,
                           "--text: %.300s is a folder; --text '%.300s/*' names the files in it",
                           init->cli->text, init->cli->text);
    if (bytes < 0)
        return dt_cli_fail(DT_EXIT_IO,
                           "--text: no file matches %.300s; it takes the name of a file or a "
                           "pattern, such as 'mine/*.txt'",
                           init->cli->text);
    run->tokens = bytes / (run->is_bytes ? 1 : BYTES_PER_TOKEN);
    run->seq = most_positions(init);
    while (init->cli->text && run->seq / 2 >= LEAST_SEQ &&
           run->tokens * held_out < 4 * (double)run->seq)
        run->seq /= 2;
    const double steps = EPOCHS * run->tokens * (1 - held_out) / (double)(BATCH * run->seq);
    run->often = !init->cli->text           ? USUAL_OFTEN
                 : steps < 10 * LEAST_OFTEN ? LEAST_OFTEN
                 : steps < 10 * MOST_OFTEN  ? round_up(steps / 10)
                                            : MOST_OFTEN;
    return DT_EXIT_OK;
}

/* Returns the labels of the loops that have parameters, as `remat` takes them: "h". */
static const char *find_loops(DtArena *arena, const DtModule *module)
{
    const char *list = "";
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        const char *hash = store->n_loops ? strstr(store->pattern, ".#") : NULL;
        const char *label =
            hash ? dt_arena_strndup(arena, store->pattern, (size_t)(hash - store->pattern)) : NULL;
        if (label &&
            !strstr(dt_arena_printf(arena, ", %s,", list), dt_arena_printf(arena, ", %s,", label)))
            list = dt_arena_printf(arena, "%s%s%s", list, *list ? ", " : "", label);
    }
    return list;
}

/* ---- the parts of the program ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Adds a line of comment. Names of files may have any bytes. */
static void __attribute__((format(printf, 2, 3))) add_comment(DtText *text, const char *format, ...)
{
    DtText line = {0};
    va_list args;
    va_start(args, format);
    dt_text_vprintf(&line, format, args);
    va_end(args);
    dt_text_add(text, "# ");
    dt_text_add_escaped(text, line.at, line.len, false);
    dt_text_add(text, "\n");
    dt_text_free(&line);
}

static void add_head(const Run *run, DtText *text)
{
    const DtInitCommand *init = run->init;
    const char *name = base_name(init->output);
    const char *dot = strrchr(name, '.');
    const int stem = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    add_comment(text, "Further training of %s on %s. In this folder:", run->model, run->about);
    const char *save = dt_arena_strndup(run->arena, name, (size_t)stem);
    const char *plan = word(run->arena, dt_arena_printf(run->arena, "%s.plan", save));
    const char *tuned = strcmp(run->model, "tuned") && strcmp(save, "tuned") ? "tuned" : "tuned2";
    if (!strcmp(save, run->model)) /* a folder holds a model or checkpoints */
        save = dt_arena_printf(run->arena, "%s-run", save);
    add_comment(text, "  dtc %s -o %s", word(run->arena, name), plan);
    add_comment(text, "  dtrun %s --import %s --save %s --export %s", plan,
                word(run->arena, run->model), word(run->arena, save), tuned);
    dt_text_printf(text, "include \"%s\"\ndim batch = %d", init->file, BATCH);
    const int64_t target = dt_initsamplers_target(init, run->seq);
    if (target)
        dt_text_printf(text, ", src = %lld", (long long)run->seq);
    if (run->seq)
        dt_text_printf(text, ", seq = %lld", (long long)(target ? target : run->seq));
    dt_text_add(text, "\n");
    dt_initlibrary_lines(run->arena, &init->values, text);
}

/* Returns the source of a part of the data, "to = 0.9" or "from = 0.9". */
static const char *source_of(const Run *run, const char *side, double part)
{
    const char *source = dt_arena_printf(run->arena, "%s, %s = %g)", run->source, side, part);
    return dt_initsamplers_call(run->init, source, !strncmp(source, "text", strlen("text")));
}

/* Adds the line with which text is generated with a cache, if each position of the model depends
 * on itself and on earlier ones. The pass that derives the entries decides that. text: the program
 * so far, in its train block. */
static void add_cache(const Run *run, DtText *text)
{
    DtArena *arena = dt_arena_child(run->arena);
    const int64_t chunk = run->seq < CHUNK ? run->seq : CHUNK;
    const char *line = dt_arena_printf(run->arena, "  generate = cached(rows = %d, chunk = %lld)\n",
                                       ROWS, (long long)chunk);
    const DtProgram *program =
        dt_initprogram_lower(run->init, arena, dt_diag_new(arena),
                             dt_arena_printf(arena, "%s%s}\n", text->at, line), NULL);
    const DtPassContext context = {.train = program ? program->train : NULL};
    if (program && dt_pass_decode(program->module, &context))
        dt_text_add(text, line);
    dt_arena_free(arena);
}

static void add_train(const Run *run, DtText *text)
{
    const bool is_small = run->init->parameters < 2e9;
    const double windows = run->seq ? run->tokens * held_out / (double)run->seq : 0;
    dt_text_add(text, "\ntrain {\n");
    dt_text_add(text, run->source
                          ? dt_initsamplers_train(run->init, source_of(run, "to", 1 - held_out))
                      : run->init->data == DT_INIT_IMAGES
                          ? dt_initimages_train(run->init, 1 - held_out)
                          : dt_initarrays_train(run->init, 1 - held_out));
    dt_text_printf(
        text,
        "  optimizer = adamw(lr = warmup_cosine(%s, warmup = steps // 20, total = steps, "
        "floor = %s),\n    betas = (0.9, 0.95), decay = 0.1, decay_if = rank > 1, clip = "
        "1.0)\n",
        is_small ? "2e-5" : "1e-5", is_small ? "2e-6" : "1e-6");
    if (run->is_gpu)
        dt_text_add(text, "  precision = mixed(compute = bf16, params = bf16, master = f32, grads "
                          "= f32, reduce = f32)\n");
    dt_text_printf(text, "  epochs = %d\n  eval = every(%lld, ", EPOCHS, (long long)run->often);
    if (run->tokens == 0 || windows > EVAL_BATCHES * BATCH)
        dt_text_printf(text, "steps = %d, ", EVAL_BATCHES);
    dt_text_printf(text, "data = %s)\n",
                   run->source ? source_of(run, "from", 1 - held_out)
                   : run->init->data == DT_INIT_IMAGES
                       ? dt_initimages_source(run->init, "from", 1 - held_out)
                       : dt_initarrays_held(run->init, 1 - held_out));
    dt_text_printf(text, "  save = every(%lld, keep = 2)\n", (long long)run->often);
    if (run->init->data == DT_INIT_NEXT)
        add_cache(run, text);
    dt_text_add(text, "  seed = 1\n}\n\n");
}

/* A layout: its block and cluster, and how many devices it has. */
typedef struct Layout {
    const char *name, *cluster;
    int devices;
} Layout;
static const Layout layouts[] = {{"one", "here", 1}, {"two", "pair", 2}, {"eight", "node", 8}};

/* Lines that save memory, from none to all. */
typedef enum Saving { SAVE_NONE, SAVE_REMAT, SAVE_MICRO, SAVE_ZERO, SAVINGS } Saving;

/* Returns the bytes of the logits of a sequence and of their gradient. */
static double logits_of(const Run *run)
{
    return 2.0 * 4.0 * fmax((double)run->seq, 1) * (double)dim_of(run->init->program, "vocab");
}

static const char *block_of(const Run *run, const Layout *l, Saving saving, const char *more)
{
    const char *text = dt_arena_printf(run->arena, "parallel %s on %s {\n  mesh data = %d\n",
                                       l->name, l->cluster, l->devices);
    const int each = BATCH / l->devices;
    if (l->devices > 1)
        text = dt_arena_printf(run->arena, "%s  shard batch on data\n", text);
    if (each > 1 && (saving >= SAVE_MICRO || (!run->is_gpu && each * logits_of(run) > MOST_LOGITS)))
        text = dt_arena_printf(run->arena, "%s  micro batch = %d\n", text, each);
    if (l->devices > 1)
        text =
            dt_arena_printf(run->arena, "%s  zero %d on data\n", text, saving >= SAVE_ZERO ? 3 : 1);
    if (saving >= SAVE_REMAT && *run->loops)
        text = dt_arena_printf(run->arena, "%s  remat %s\n", text, run->loops);
    return dt_arena_printf(run->arena, "%s%s}\n", text, more);
}

static const char *clusters_of(const Run *run)
{
    const char *text = "";
    for (size_t i = 0; i < DT_COUNT(layouts); i++)
        text = dt_arena_printf(run->arena, "%scluster %s { gpus = %d; gpu = %s }\n", text,
                               layouts[i].cluster, layouts[i].devices,
                               quoted(run->arena, run->device));
    return text;
}

/* ---- memory ---- */

/* Whether a rank of the layout, alone after `head`, fits its device. False after an error, too. */
static bool fits(const Run *run, const char *head, const Layout *layout, const char *block)
{
    DtArena *arena = dt_arena_child(run->arena);
    DtCli cli = *run->init->cli;
    DtDiags *diags = dt_diag_new(arena);
    const char *text = dt_arena_printf(arena, "%s%s", head, block);
    DtProgram *program = dt_initprogram_lower(run->init, arena, diags, text, layout->name);
    const DtLowerOptions options = {.path = run->init->output,
                                    .library = run->init->library,
                                    .parallel = layout->name,
                                    .synthetic = true,
                                    .replaced = run->init->output,
                                    .text = text,
                                    .text_len = strlen(text)};
    DtCostModel model;
    DtPlan plan;
    DtMemory worst;
    uint8_t *image;
    size_t len;
    bool good = program && dt_fit_model(program, &model);
    if (good) {
        cli.target = dt_fit_target(arena, program);
        DtStatus status = dt_cli_variant(&cli, arena, &options, DT_VARIANT_STEP, &image, &len);
        if (dt_status_ok(&status))
            status = dt_read_bytes(image, len, &plan);
        good = dt_status_ok(&status);
    }
    if (good) {
        const DtDevice *device = dt_nodes_worst(&plan, &model, true, &worst);
        good = device->memory_bytes == 0 || (double)worst.reserved <= device->memory_bytes;
    }
    dt_arena_free(arena);
    return good;
}

/* Returns the least saving with which the layout fits; SAVINGS: none does. */
static Saving choose_saving(const Run *run, const char *head, const Layout *layout)
{
    Saving saving = SAVE_NONE;
    if (!run->is_gpu)
        return SAVE_NONE;
    while (saving < SAVINGS && !fits(run, head, layout, block_of(run, layout, saving, "")))
        saving++;
    return saving;
}

/* Adds the layouts. The smallest one that fits is compiled by default. */
static void add_layouts(Run *run, DtText *text)
{
    DtInitCommand *init = run->init;
    const char *head = dt_arena_printf(run->arena, "%s%s", text->at, clusters_of(run));
    Saving savings[DT_COUNT(layouts)];
    size_t chosen = DT_COUNT(layouts) - 1;
    init->layouts = init->lacks = "";
    for (size_t i = 0; i < DT_COUNT(layouts); i++) {
        savings[i] = choose_saving(run, head, &layouts[i]);
        init->layouts =
            dt_arena_printf(run->arena, "%s%s%s", init->layouts, i ? ", " : "", layouts[i].name);
        if (savings[i] == SAVINGS)
            init->lacks = dt_arena_printf(run->arena, "%s%s%s", init->lacks,
                                          *init->lacks ? ", " : "", layouts[i].name);
        else if (i < chosen)
            chosen = i;
    }
    dt_text_add(text, clusters_of(run));
    for (size_t i = 0; i < DT_COUNT(layouts); i++) {
        dt_text_add(text, "\n");
        if (savings[i] == SAVINGS)
            add_comment(text, "Needs more memory than a device has: dtc %s --check --parallel %s",
                        base_name(init->output), layouts[i].name);
        dt_text_add(text, block_of(run, &layouts[i], savings[i] == SAVINGS ? SAVE_ZERO : savings[i],
                                   i == chosen ? "  default\n" : ""));
    }
}

/* ---- all of it ---- */

/* Formats the text as `dtc fmt` does, and compiles it as far as errors show. */
static int finish(const Run *run, const DtText *raw, DtText *ret_text)
{
    DtCli *cli = run->init->cli;
    cli->diags = dt_diag_new(run->arena);
    const uint32_t file = dt_diag_add_file(cli->diags, run->init->output, raw->at, raw->len);
    if (!dt_fmt(cli->diags, file, ret_text))
        return dt_cli_report(cli);
    cli->diags = dt_diag_new(run->arena);
    const char *text = dt_arena_strndup(run->arena, ret_text->at, ret_text->len);
    dt_initprogram_lower(run->init, run->arena, cli->diags, text, NULL);
    return dt_diag_errors(cli->diags) ? dt_cli_report(cli) : DT_EXIT_OK;
}

/* Whether the device is one of GPUs. The name was checked. */
static bool is_gpu(const Run *run)
{
    DtArena *arena = dt_arena_child(run->arena);
    const char *text = dt_arena_printf(arena, "%s", clusters_of(run));
    const DtProgram *program =
        dt_initprogram_lower(run->init, arena, dt_diag_new(arena), text, NULL);
    const bool gpu = program && program->clusters.n && program->clusters.at[0]->kinds[0].device &&
                     program->clusters.at[0]->kinds[0].device->is_gpu;
    dt_arena_free(arena);
    return gpu;
}

int dt_initprogram_write(DtInitCommand *init, DtText *ret_text)
{
    DtArena *arena = init->cli->arena;
    Run run = {.init = init,
               .arena = arena,
               .device = init->cli->device ? init->cli->device : "cpu",
               .loops = find_loops(arena, init->program->module)};
    DtText raw = {0};
    run.model = seen_folder(&run, init->folder);
    run.is_gpu = is_gpu(&run);
    if (has_file(&run, "tokenizer.json")) {
        const DtStatus status = dt_tokenizer_look(init->folder);
        if (!dt_status_ok(&status))
            return dt_cli_fail(status.code, "%s", status.message);
    }
    dt_initsamplers_choose(init);
    int code = init->data == DT_INIT_ARRAYS   ? dt_initarrays_check(init)
               : init->data == DT_INIT_IMAGES ? dt_initimages_read(init)
                                              : choose_source(&run);
    if (code == DT_EXIT_OK)
        code = choose_length(&run);
    if (code != DT_EXIT_OK)
        return code;
    if (!run.source)
        run.about =
            init->data == DT_INIT_IMAGES ? dt_initimages_files() : dt_initarrays_files(init);
    add_head(&run, &raw);
    add_train(&run, &raw);
    add_layouts(&run, &raw);
    code = finish(&run, &raw, ret_text);
    dt_text_free(&raw);
    return code;
}
