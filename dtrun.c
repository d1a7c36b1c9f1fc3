/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun: runs a plan. Without --rank it is the supervisor, which proves the plan and starts this
 * program again once per rank. */
#include "base/options.h"
#include "base/stack.h"
#include "runtime/dry_run.h"
#include "runtime/cluster.h"
#include "runtime/elastic.h"
#include "runtime/generate.h"
#include "runtime/prune.h"
#include "runtime/remote.h"
#include "runtime/runtime.h"
#include "runtime/tasks.h"
#include "runtime/trial.h"
#include "verify/file.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
#define O(ID, name, letter, value, group, help) OPTION_##ID,
#include "runtime/options.def"
#undef O
};

static const DtOptionRow rows[] = {
#define O(ID, name, letter, value, group, help) {OPTION_##ID, name, letter, value, group, help},
#include "runtime/options.def"
#undef O
};

enum { N_HIDDEN = 4 }; /* the last rows: --leash, --trial, --rank, --shared */

static const DtOptionTable table = {
    .program = "dtrun",
    .version = "0.1.0",
    .purpose = "trains the model of a plan that dtc compiled",
    .synopsis = "PLAN [--steps N] [--save DIR] [--log FILE]\n"
                "PLAN --resume DIR [--steps N]\n"
                "PLAN --import DIR [--steps N] [--save DIR] [--export DIR]\n"
                "PLAN --resume DIR --eval\n"
                "PLAN --resume DIR --generate TEXT [--tokens N] [--temperature T]\n"
                "PLAN --resume DIR --prompts FILE [--out FILE]",
    .epilogue =
        "All ranks of the plan run on this machine, one process each. Ctrl-C finishes the step, "
        "saves if "
        "--save or --resume names a folder, and says how to go on; a second Ctrl-C ends at once.\n"
        "Before ranks start, each supervisor proves the plan: it computes what the program in it "
        "says. "
        "A plan contains machine code, too, which is not proved: running it trusts its author as "
        "running any program does.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong command line, 4 does not fit into memory, 5 input "
        "or output, 75 "
        "failed but trying again may help, 130 interrupted.\n"
        "Example, with the manual as the text to learn from:\n"
        "  dtc examples/quickstart.dsl -o out/plan\n"
        "  dtrun out/plan --data 'fortunes.txt=docs/*.md' --steps 40 --save out/checkpoint --log "
        "out/log.jsonl\n"
        "  dtrun out/plan --resume out/checkpoint --generate \"Once\" --tokens 200\n",
    .rows = rows,
    .n_rows = DT_COUNT(rows),
};

/* The command line being read. */
typedef struct CommandLine {
    DtRunOptions run;
    int64_t rank, shared; /* -1: not given */
    int64_t samples;      /* --show-samples; -1: not given */
    const char *of_generate; /* an option that only --generate uses, or NULL */
    bool gpus;               /* --gpus */
    bool done;               /* --help and the like */
    DtLaunch by;             /* who started this process */
    DtStatus status;
} CommandLine;

static bool wrong(CommandLine *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(CommandLine *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line->status.code = DT_EXIT_USAGE;
    vsnprintf(line->status.message, sizeof line->status.message, format, args);
    va_end(args);
    return false;
}

static bool read_count(CommandLine *line, const char *name, const char *text, int64_t *ret_count)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0)
        return wrong(line, "--%s wants a number of at least 0, not `%.60s`", name, text);
    *ret_count = value;
    return true;
}

static bool read_real(CommandLine *line, const char *name, const char *text, double *ret_value)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0)
        return wrong(line, "--%s wants a number of at least 0, not `%.60s`", name, text);
    *ret_value = value;
    return true;
}

/* Reads a number of DtSampling. */
static bool read_sampling(CommandLine *line, const char *name, const char *text)
{
    char *end, *end_of_real;
    DtGivenNumber given = {.is_whole = true};
    line->of_generate = name;
    errno = 0;
    given.whole = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        given.is_whole = false;
        given.real = strtod(text, &end_of_real);
        if (end_of_real == text || *end_of_real)
            return wrong(line, "--%s wants a number, not `%.60s`", name, text);
    }
    const DtStatus status = dt_generatesample_set(&line->run.sampling, name, given);
    return dt_status_ok(&status) || wrong(line, "--%s, not `%.60s`", status.message, text);
}

static bool read_redirect(CommandLine *line, const char *text)
{
    DtRunOptions *run = &line->run;
    if (strcmp(text, "synthetic") == 0) {
        run->data_synthetic = true;
        return true;
    }
    char *copy = strdup(text), *equals = copy ? strchr(copy, '=') : NULL;
    if (equals == NULL || equals == copy || equals[1] == '\0') {
        free(copy);
        return wrong(line, "--data wants OLD=NEW or `synthetic`, not `%.60s`", text);
    }
    if (run->n_redirects == DT_COUNT(run->redirects)) {
        free(copy);
        return wrong(line, "--data occurs more than %zu times", DT_COUNT(run->redirects));
    }
    *equals = '\0';
    run->redirects[run->n_redirects++] =
        (DtRedirect){copy, equals + 1}; /* kept to the end of the process */
    return true;
}

static bool add_file(CommandLine *line, const char *name, const char *value,
                     const char *files[16], uint32_t *n)
{
    if (*n == 16)
        return wrong(line, "--%s occurs more than 16 times", name);
    files[(*n)++] = value;
    return true;
}

static bool add_stop(CommandLine *line, const char *text)
{
    DtRunOptions *run = &line->run;
    line->of_generate = "stop";
    if (!*text)
        return wrong(line, "--stop wants a text");
    if (run->n_stop == DT_MOST_STOPS)
        return wrong(line, "--stop occurs more than %d times", DT_MOST_STOPS);
    run->stop[run->n_stop++] = text;
    return true;
}

static bool read_gemm(CommandLine *line, const char *text)
{
    for (DtGemmKind kind = DT_GEMM_DEFAULT + 1; kind < DT_GEMM_KINDS; kind++)
        if (strcmp(dt_gemm_names[kind], text) == 0) {
            line->run.gemm = kind;
            return true;
        }
    return wrong(line, "--gemm wants onednn, openblas or plain, not `%.60s`", text);
}

static bool read_algorithms(CommandLine *line, const char *text)
{
    line->run.algorithms_given = true;
    line->run.algorithms_first = strcmp(text, "first") == 0;
    return line->run.algorithms_first || strcmp(text, "timed") == 0 ||
           wrong(line, "--algorithms wants timed or first, not `%.60s`", text);
}

static bool read_attention(CommandLine *line, const char *text)
{
    line->run.attention_given = true;
    line->run.attention = strcmp(text, "cudnn") == 0       ? DT_ATTENTION_CUDNN
                          : strcmp(text, "generated") == 0 ? DT_ATTENTION_GENERATED
                                                           : DT_ATTENTION_TIMED;
    return line->run.attention != DT_ATTENTION_TIMED || strcmp(text, "timed") == 0 ||
           wrong(line, "--attention wants timed, cudnn or generated, not `%.60s`", text);
}

static bool read_epilogues(CommandLine *line, const char *text)
{
    const bool is_timed = strcmp(text, "timed") == 0;
    line->run.epilogues_given = true;
    line->run.epilogues = strcmp(text, "all") == 0    ? DT_EPILOGUES_FUSED
                          : strcmp(text, "none") == 0 ? DT_EPILOGUES_APART
                                                      : DT_EPILOGUES_TIMED;
    return is_timed || line->run.epilogues != DT_EPILOGUES_TIMED ||
           wrong(line, "--epilogues wants all, none or timed, not `%.60s`", text);
}

static bool read_dtype(CommandLine *line, const char *text)
{
    for (uint32_t d = 0; d < DT_PLAN_DTYPES; d++)
        if (dt_kinds_is_float(d) && strcmp(dt_kinds_name(d), text) == 0)
            line->run.export_dtype = (int)d;
    return line->run.export_dtype >= 0 ||
           wrong(line, "--dtype wants f32, bf16 or f16, not `%.60s`", text);
}

static bool print_table(CommandLine *line, int id)
{
    DtOptionTable shown = table;
    DtText text = {0};
    shown.n_rows -= N_HIDDEN;
    if (id == OPTION_HELP)
        dt_options_help(&shown, &text);
    else if (id == OPTION_MAN)
        dt_options_man(&shown, &text);
    else
        dt_text_printf(&text, "%s %s\n", table.program, table.version);
    fputs(text.at, stdout);
    dt_text_free(&text);
    line->done = true;
    return true;
}

static bool read_prune(CommandLine *line, const char *value)
{
    DtRunOptions *run = &line->run;
    const DtStatus status = dt_prune_check(value);
    if (!dt_status_ok(&status))
        return wrong(line, "%s", status.message);
    if (run->n_prune == DT_COUNT(run->prune))
        return wrong(line, "--prune occurs more than %zu times", DT_COUNT(run->prune));
    run->prune[run->n_prune++] = value;
    return true;
}

/* DIR, or LABEL=DIR for the instance of a model with that label. */
static bool read_import(CommandLine *line, const char *value)
{
    DtRunOptions *run = &line->run;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_";
    const size_t n = strspn(value, letters);
    if (n == 0 || value[n] != '=' || value[n + 1] == '\0') {
        run->import = value;
        return true;
    }
    if (run->n_imports == DT_COUNT(run->imports))
        return wrong(line, "--import LABEL=DIR occurs more than %zu times",
                     DT_COUNT(run->imports));
    run->imports[run->n_imports++] = value;
    return true;
}

static bool read_option(CommandLine *line, int id, const char *value)
{
    DtRunOptions *run = &line->run;
    switch (id) {
    case OPTION_STEPS: return read_count(line, "steps", value, &run->steps);
    case OPTION_SAVE: run->save = value; return true;
    case OPTION_RESUME: run->resume = value; return true;
    case OPTION_IMPORT: return read_import(line, value);
    case OPTION_ADAPTERS: run->adapters = value; return true;
    case OPTION_PEFT: run->peft = true; return true;
    case OPTION_AVERAGE:
        run->no_average = true;
        return strcmp(value, "none") == 0 ||
               wrong(line, "--average takes `none`: by default averages are used where the program "
                           "keeps them");
    case OPTION_NAMES: run->names = value; return true;
    case OPTION_EXPORT: run->export = value; return true;
    case OPTION_DTYPE: return read_dtype(line, value);
    case OPTION_LIKE: run->like = value; return true;
    case OPTION_WEIGHTS: run->weights = value; return true;
    case OPTION_ONLY:
        if (run->n_only == DT_COUNT(run->only))
            return wrong(line, "--only occurs more than %zu times", DT_COUNT(run->only));
        run->only[run->n_only++] = value;
        return true;
    case OPTION_PRUNE: return read_prune(line, value);
    case OPTION_OR_START: run->or_start = true; return true;
    case OPTION_DATA_CHANGED: run->data_changed = true; return true;
    case OPTION_OVERWRITE: run->overwrite = true; return true;
    case OPTION_DATA: return read_redirect(line, value);
    case OPTION_SET:
        if (run->n_settings == DT_COUNT(run->settings))
            return wrong(line, "--set occurs more than %zu times", DT_COUNT(run->settings));
        run->settings[run->n_settings++] = value;
        return true;
    case OPTION_SHOW_SAMPLES: return read_count(line, "show-samples", value, &line->samples);
    case OPTION_EVAL: run->eval = true; return true;
    case OPTION_QUANTIZED: run->quantized = true; return true;
    case OPTION_GENERATE: run->generate = value; return true;
    case OPTION_PROMPTS: run->prompts = value; return true;
    case OPTION_STOP: return add_stop(line, value);
    case OPTION_IGNORE_END:
        run->ignore_end = true;
        line->of_generate = "ignore-end";
        return true;
    case OPTION_RAW:
        run->raw = true;
        line->of_generate = "raw";
        return true;
    case OPTION_REFERENCE: run->reference = value; return true;
    case OPTION_PREDICT:
        return add_file(line, "predict", value, run->predict, &run->n_predict);
    case OPTION_OUT: return add_file(line, "out", value, run->out, &run->n_out);
    case OPTION_TOKENS: return read_sampling(line, "tokens", value);
    case OPTION_TEMPERATURE: return read_sampling(line, "temperature", value);
    case OPTION_TOP_K: return read_sampling(line, "top-k", value);
    case OPTION_TOP_P: return read_sampling(line, "top-p", value);
    case OPTION_MIN_P: return read_sampling(line, "min-p", value);
    case OPTION_REPETITION_PENALTY: return read_sampling(line, "repetition-penalty", value);
    case OPTION_SEED: return read_sampling(line, "seed", value);
    case OPTION_LOG: run->log = value; return true;
    case OPTION_TRACE: run->trace = value; return true;
    case OPTION_PROFILE: run->profile = true; return true;
    case OPTION_JSON: run->json = true; return true;
    case OPTION_RECORD: run->record = value; return true;
    case OPTION_COMPARE: run->compare = value; return true;
    case OPTION_QUIET: run->quiet = true; return true;
    case OPTION_DEVICE: run->device = value; return true;
    case OPTION_GPUS: line->gpus = true; return true;
    case OPTION_SHARE_GPU: run->share_gpu = true; return true;
    case OPTION_SYNC: run->sync = true; return true;
    case OPTION_COMM: run->comm = value; return true;
    case OPTION_WINDOWS: run->windows = true; return true;
    case OPTION_GEMM: return read_gemm(line, value);
    case OPTION_GRAPH: run->graph = true; return true;
    case OPTION_ALGORITHMS: return read_algorithms(line, value);
    case OPTION_ATTENTION: return read_attention(line, value);
    case OPTION_EPILOGUES: return read_epilogues(line, value);
    case OPTION_NODES: return read_count(line, "nodes", value, &run->nodes);
    case OPTION_NODE: return read_count(line, "node", value, &run->node);
    case OPTION_MEET: run->meet = value; return true;
    case OPTION_HOSTS: run->hosts = value; return true;
    case OPTION_SHELL: run->shell = value; return true;
    case OPTION_DRY_RUN: run->dry_run = true; return true;
    case OPTION_LEASH: run->leash = true; return true;
    case OPTION_LAUNCH: run->launch = value; return true;
    case OPTION_CHECK_REPLICAS:
        return read_count(line, "check-replicas", value, &run->check_replicas);
    case OPTION_MAX_RANKS: return read_count(line, "max-ranks", value, &run->max_ranks);
    case OPTION_UNPROVED: line->run.unproved = true; return true;
    case OPTION_REBUILD: run->rebuild = true; return true;
    case OPTION_RESTARTS: return read_count(line, "restarts", value, &run->restarts);
    case OPTION_ELASTIC:
        run->elastic = 1;
        return !value || (read_count(line, "elastic", value, &run->elastic) &&
                          (run->elastic > 0 || wrong(line, "--elastic wants at least 1 rank")));
    case OPTION_TIMEOUT: return read_real(line, "timeout", value, &run->timeout);
    case OPTION_TRIAL: run->trial = value; return true;
    case OPTION_RANK: return read_count(line, "rank", value, &line->rank);
    case OPTION_SHARED: return read_count(line, "shared", value, &line->shared);
    default: return print_table(line, id);
    }
}

/* A run that resumes one certain checkpoint saves next to it, not inside it. */
static void choose_save_folder(DtRunOptions *run)
{
    static char above[4096];
    if (run->save == NULL && run->resume != NULL && !run->eval && !dt_run_predicts(run) &&
        dt_checkpoint_above(run->resume, above))
        run->save = above;
}

static bool check_combination(CommandLine *line)
{
    const DtRunOptions *run = &line->run;
    if (run->plan_path == NULL)
        return wrong(line, "which plan? (dtrun PLAN; `dtrun --help` says more)");
    if (run->eval + (run->generate != NULL) + (run->prompts != NULL) + (run->reference != NULL) +
            (run->n_predict > 0) > 1)
        return wrong(line, "--eval, --generate, --prompts, --reference and --predict exclude each "
                           "other");
    if (run->quantized && !run->eval)
        return wrong(line, "--quantized belongs to --eval; predictions and text read codes if the "
                           "program has `quantize`");
    if (run->prompts && run->n_out > 1)
        return wrong(line, "--prompts writes one file: --out occurs twice");
    if ((run->n_predict > 0) != (run->n_out > 0) && !run->prompts)
        return wrong(line, "--predict [NAME=]FILE and --out FILE belong together");
    if (line->samples >= 0 && (run->eval || dt_run_predicts(run)))
        return wrong(line, "--show-samples is a run of its own, without --eval, --generate, "
                           "--prompts, --reference and --predict");
    if ((run->eval || dt_run_predicts(run)) && run->save)
        return wrong(line, "--save belongs to training, not to --eval, --generate, --prompts, "
                           "--reference or --predict");
    if (run->or_start && (!run->resume || run->eval || dt_run_predicts(run)))
        return wrong(line, "--or-start belongs to --resume and training");
    if ((run->import || run->n_imports) && run->weights)
        return wrong(line, "--import and --weights exclude each other");
    const bool imports = run->import || run->n_imports;
    const char *begins = imports ? "import" : run->weights ? "weights" : "adapters";
    if ((imports || run->weights || run->adapters) && run->resume && !run->or_start &&
        !run->restarts && !run->elastic)
        return wrong(line, "--%s and --resume exclude each other, except with --or-start, which "
                           "uses --%s if there is no checkpoint yet",
                     begins, begins);
    if (run->names && !run->import && !run->adapters && !run->export)
        return wrong(line, "--names belongs to --import, --adapters and --export");
    if (run->export && (run->eval || dt_run_predicts(run) || run->trial))
        return wrong(line, "--export belongs to training (--steps 0: the parameters as they are)");
    if ((run->export_dtype >= 0 || run->like || run->peft) && !run->export)
        return wrong(line, "--%s belongs to --export",
                     run->like   ? "like"
                     : run->peft ? "peft"
                                 : "dtype");
    if (run->no_average && !run->export && !run->eval && !dt_run_predicts(run))
        return wrong(line, "--average belongs to --eval, --generate, --predict, --reference and "
                           "--export");
    if (run->n_only && !run->weights)
        return wrong(line, "--only belongs to --weights");
    if (run->n_prune && !run->weights && !run->resume)
        return wrong(line, "--prune belongs to --resume and --weights: save what is imported first "
                           "(--import DIR --steps 0 --save NEW)");
    if (run->trial && (imports || run->weights || run->adapters))
        return wrong(line, "--trial begins with the values of its file");
    if (run->data_changed && (!run->resume || run->eval || dt_run_predicts(run)))
        return wrong(line, "--data-changed belongs to --resume and training");
    if ((run->profile || run->record || run->compare) && (run->eval || dt_run_predicts(run)))
        return wrong(line, "--%s belongs to training, not to --eval, --generate, --prompts, "
                           "--reference or --predict",
                     run->profile ? "profile" : run->record ? "record" : "compare");
    if (run->record && run->compare)
        return wrong(line, "--record and --compare exclude each other");
    if (run->json && !run->profile && !run->generate)
        return wrong(line, "--json belongs to --profile, --gpus or --generate");
    if (line->of_generate && !run->generate && !run->prompts)
        return wrong(line, "--%s belongs to --generate and --prompts", line->of_generate);
    if ((line->rank < 0) != (line->shared < 0))
        return wrong(line, "--rank and --shared belong together");
    if (run->shell && !run->hosts)
        return wrong(line, "--shell belongs to --hosts");
    if (run->hosts && (run->nodes > 0 || run->node > 0 || run->trial || line->samples >= 0))
        return wrong(line, "--hosts is a run of its own over several hosts: without --nodes, "
                           "--node, --trial and --show-samples");
    if (run->elastic && (run->eval || dt_run_predicts(run) || run->trial))
        return wrong(line, "--elastic belongs to training");
    if (run->elastic && dt_cluster_several(run))
        return wrong(line, "--elastic goes on with fewer ranks of one machine, not with --nodes or "
                           "--hosts: compile for the ranks that are left with `dtc recompile`");
    if (run->trial && (run->eval || dt_run_predicts(run) || run->restarts))
        return wrong(line, "--trial is a run of its own: it is not tried again");
    choose_save_folder(&line->run);
    return true;
}

static bool read_line(CommandLine *line, int argc, char **argv)
{
    DtOptions options;
    dt_options_open(&options, &table, argc, argv, 1);
    for (int id; (id = dt_options_next(&options)) != DT_OPTIONS_END && !line->done;) {
        if (id == DT_OPTIONS_WRONG)
            return wrong(line, "%s", options.message);
        if (id != DT_OPTIONS_WORD) {
            if (!read_option(line, id, options.value))
                return false;
        } else if (line->run.plan_path != NULL)
            return wrong(line, "one plan at a time: `%.100s` and `%.100s`", line->run.plan_path,
                         options.value);
        else
            line->run.plan_path = options.value;
    }
    if (line->gpus && !line->done) {
        line->done = true;
        line->status = dt_cuda_list(line->run.json, stdout);
    }
    return line->done ? dt_status_ok(&line->status) : check_combination(line);
}

static void say(const char *message)
{
    fputs("dtrun: ", stderr);
    dt_text_say(stderr, message);
}

static DtStatus look_ahead(const DtRunOptions *run, const DtPlan *plan, const DtPlanMeta *meta)
{
    DtText notes = {0};
    DtStatus status = dt_preflight_check(run, plan, meta, &notes);
    if (dt_status_ok(&status))
        dt_dryrun_note(run, plan, &notes);
    if (dt_status_ok(&status) && notes.len > 0 && !run->quiet)
        say(notes.at);
    dt_text_free(&notes);
    return status;
}

/* --show-samples: no rank starts, and no code of the plan runs. */
static int show_samples(const CommandLine *line)
{
    DtPlanFile file;
    DtText notes = {0};
    DtStatus status = dt_read_file(line->run.plan_path, &file);
    if (dt_status_ok(&status)) {
        status = dt_show_samples(&line->run, &file.plan, line->samples, &notes);
        dt_read_close(&file);
    }
    if (notes.len > 0 && !line->run.quiet)
        say(notes.at);
    if (!dt_status_ok(&status))
        say(status.message);
    dt_text_free(&notes);
    return status.code;
}

/* The words of the command line. */
typedef struct Words {
    int n;
    char **at;
} Words;

typedef struct Proof {
    const DtPlan *plan;
    bool good;
    DtText problem;
} Proof;

static void prove(void *data)
{
    Proof *proof = data;
    DtArena *arena = dt_arena_new();
    DtLogicalTexts texts;
    DtCertCounts counts;
    proof->good = dt_certfile_open(arena, proof->plan, &texts, &proof->problem) &&
                  dt_certfile_prove(arena, proof->plan, &texts, &counts, &proof->problem);
    dt_arena_free(arena);
}

/* Proves that the plan computes its program, whoever wrote it. That happens once per run and
 * machine: ranks compare digests of the plan, and so do supervisors of several nodes. The plan of a
 * trial is proved by the dtc that made it. */
static DtStatus check_proof(const CommandLine *line, const DtPlan *plan)
{
    Proof proof = {.plan = plan, .good = line->run.unproved || line->run.trial};
    if (!proof.good)
        dt_stack_run(prove, &proof);
    DtStatus status = DT_OK;
    if (!proof.good)
        status =
            dt_status_fail(DT_EXIT_FAILED,
                           "no rank is started, since %.100s is not proved to compute what its "
                           "program says (--unproved runs it all the same): %s",
                           line->run.plan_path, proof.problem.at ? proof.problem.at : "");
    dt_text_free(&proof.problem);
    return status;
}

/* Several tasks of a launcher are one run. In the first task of a host: sets the options, waits for
 * the host's other tasks, and adds to the words of the command line, which ranks get, at which of
 * several hosts they are. In another task: waits for the end of the run, whose exit code is in
 * ret_code then (else -1). */
static DtStatus launch(DtRunOptions *run, const DtLaunch *by, const DtPlan *plan, Words *words,
                       DtTasks **ret_tasks, int *ret_code)
{
    static char numbers[2][24];
    *ret_code = -1;
    const uint64_t hash = dt_supervisor_hash(run, words->n, words->at);
    DtStatus status = dt_launch_apply(by, plan->meta->n_ranks, run);
    if (!dt_status_ok(&status))
        return status;
    if (by->here > 0) {
        *ret_code = dt_tasks_follow(by, hash);
        return DT_OK;
    }
    if (by->on_host > 1)
        status = dt_tasks_gather(by, hash, ret_tasks);
    if (!dt_status_ok(&status) || by->hosts == 1)
        return status;
    char *const more[] = {"--nodes", numbers[0], "--node", numbers[1], "--meet", (char *)run->meet};
    snprintf(numbers[0], sizeof numbers[0], "%lld", (long long)run->nodes);
    snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)run->node);
    char **all = calloc((size_t)words->n + DT_COUNT(more) + 1, sizeof *all);
    if (!all)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for the command line");
    memcpy(all, words->at, (size_t)words->n * sizeof *all);
    memcpy(all + words->n, more, sizeof more);
    words->at = all; /* kept to the end of the process */
    words->n += (int)DT_COUNT(more);
    return DT_OK;
}

/* Says what a run would do here, if nothing is wrong so far. */
static int end_dry_run(const DtRunOptions *run, const DtPlan *plan, const DtStatus *before)
{
    const DtStatus status = dt_status_ok(before) ? dt_dryrun_say(run, plan, stdout) : *before;
    if (!dt_status_ok(&status))
        say(status.message);
    return dt_status_ok(&status) ? DT_EXIT_OK : DT_EXIT_USAGE;
}

/* --hosts: this process only starts agents and hands on what they print. */
static int start_hosts(const CommandLine *line, int argc, char **argv)
{
    DtPlanFile file;
    const DtStatus status = dt_read_file(line->run.plan_path, &file);
    if (!dt_status_ok(&status)) {
        say(status.message);
        return line->run.dry_run ? DT_EXIT_USAGE : status.code;
    }
    const int64_t n_ranks = file.plan.meta->n_ranks;
    dt_read_close(&file);
    return dt_remote_run(&line->run, n_ranks, argc, argv);
}

/* Whether a run can go on with fewer ranks, as it promises. */
static DtStatus check_elastic(const DtRunOptions *run, const DtPlan *plan, const DtTasks *tasks)
{
    DtElasticSizes sizes;
    if (!run->elastic)
        return DT_OK;
    if (tasks)
        return dt_status_fail(DT_EXIT_USAGE, "--elastic needs ranks that dtrun has started, not "
                                             "tasks of a launcher");
    const DtStatus status = dt_elastic_sizes(run->plan_path, NULL, &sizes);
    if (!dt_status_ok(&status))
        return dt_status_fail(DT_EXIT_USAGE, "--elastic: %.600s", status.message);
    const int64_t least = run->elastic > sizes.multiple ? run->elastic : sizes.multiple;
    if (plan->meta->n_ranks > least)
        return DT_OK;
    return dt_status_fail(DT_EXIT_USAGE, "--elastic: a plan of %u ranks cannot have fewer, but for "
                                         "at least %lld and multiples of %lld",
                          plan->meta->n_ranks, (long long)run->elastic,
                          (long long)sizes.multiple);
}

/* The supervisor reads the plan too, so that a damaged one is reported once and not by every rank.
 */
static int supervise(CommandLine *line, int argc, char **argv)
{
    DtRunOptions *run = &line->run;
    Words words = {argc, argv};
    DtTasks *tasks = NULL;
    DtPlanFile file;
    DtPlanMeta meta;
    DtRunSettings settings;
    if (run->trial)
        dt_trial_bind(run->trial);
    signal(SIGPIPE, SIG_IGN); /* here and in the ranks: a closed output does not end the run */
    signal(SIGXFSZ, SIG_IGN); /* and files that may not grow (ulimit -f) are a full disk */
    DtStatus status = dt_read_file(run->plan_path, &file);
    const bool is_read = dt_status_ok(&status);
    bool is_here = true; /* what is wrong is a fact of this machine's files */
    int code = -1;
    if (is_read)
        status = launch(run, &line->by, &file.plan, &words, &tasks, &code);
    if (code >= 0) {
        dt_read_close(&file);
        return code;
    }
    if (dt_status_ok(&status))
        status = check_proof(line, &file.plan);
    if (dt_status_ok(&status))
        status = check_elastic(run, &file.plan, tasks);
    if (dt_status_ok(&status)) {
        status = dt_settings_apply(run, &file.plan, &meta, &settings);
        is_here = dt_status_ok(&status);
    }
    if (dt_status_ok(&status))
        status = look_ahead(run, &file.plan, &meta);
    if (run->dry_run) {
        code = end_dry_run(run, &file.plan, &status);
    } else if (dt_status_ok(&status)) {
        code = dt_supervisor_run(run, &file.plan, words.n, words.at, tasks);
    } else {
        code = status.code;
        say(status.message);
        if (is_here || code != DT_EXIT_USAGE) /* the others have a wrong command line, too */
            dt_supervisor_refuse(run, is_read ? &file.plan : NULL, words.n, words.at, &status);
    }
    dt_tasks_end(tasks, code);
    if (is_read)
        dt_read_close(&file);
    return code;
}

/* Finds out who started this process; --nodes and --trial say it themselves. */
static bool find_launcher(CommandLine *line)
{
    DtRunOptions *run = &line->run;
    const bool says = run->nodes > 0 || run->trial || line->samples >= 0;
    if (says && run->launch && strcmp(run->launch, "local") != 0)
        return wrong(line, "--launch and --%s exclude each other",
                     run->nodes > 0 ? "nodes" : run->trial ? "trial" : "show-samples");
    line->status = dt_launch_find(says ? "local" : run->launch, &line->by);
    run->launched = line->by.by != NULL;
    return dt_status_ok(&line->status);
}

int main(int argc, char **argv)
{
    static CommandLine line = {
        .run = {.steps = -1, .export_dtype = -1,
                .sampling = DT_SAMPLING_DEFAULTS},
        .rank = -1,
        .shared = -1,
        .samples = -1};
    if (!read_line(&line, argc, argv)) {
        say(line.status.message);
        return line.status.code;
    }
    if (line.done)
        return fflush(stdout) == 0 ? DT_EXIT_OK : DT_EXIT_IO;
    if (line.run.hosts && line.rank < 0)
        return start_hosts(&line, argc, argv);
    if (line.rank < 0 && !find_launcher(&line)) {
        say(line.status.message);
        return line.status.code;
    }
    if (line.rank >= 0)
        return dt_train_rank(&line.run, (uint32_t)line.rank, (int)line.shared);
    return line.samples >= 0 ? show_samples(&line) : supervise(&line, argc, argv);
}
