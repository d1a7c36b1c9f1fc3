/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun: runs a plan. Without --rank it is the supervisor, which proves the plan and starts this
 * program again once per rank. */
#include "base/options.h"
#include "base/stack.h"
#include "runtime/dry_run.h"
#include "runtime/cluster.h"
#include "runtime/forms.h"
#include "runtime/generate.h"
#include "runtime/key.h"
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

/* What an option sets in the command line: a field at the offset `at`. */
typedef struct Setter {
    const char *name;
    bool (*set)(CommandLine *line, const struct Setter *setter, const char *value);
    size_t at;
    size_t at_n, most; /* of a list: the offset of its length, which is at most `most` */
    bool of_generate;  /* only --generate and --prompts use it */
} Setter;

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

/* ---- setters ---- */

static void *field(CommandLine *line, size_t at) { return (char *)line + at; }

static bool set_text(CommandLine *line, const Setter *setter, const char *value)
{
    *(const char **)field(line, setter->at) = value;
    return true;
}

static bool set_flag(CommandLine *line, const Setter *setter, const char *value)
{
    (void)value;
    *(bool *)field(line, setter->at) = true;
    return true;
}

static bool set_count(CommandLine *line, const Setter *setter, const char *value)
{
    char *end;
    errno = 0;
    const long long count = strtoll(value, &end, 10);
    if (end == value || *end || errno || count < 0)
        return wrong(line, "--%s wants a number of at least 0, not `%.60s`", setter->name, value);
    *(int64_t *)field(line, setter->at) = count;
    return true;
}

static bool set_real(CommandLine *line, const Setter *setter, const char *value)
{
    char *end;
    const double real = strtod(value, &end);
    if (end == value || *end || !isfinite(real) || real < 0)
        return wrong(line, "--%s wants a number of at least 0, not `%.60s`", setter->name, value);
    *(double *)field(line, setter->at) = real;
    return true;
}

/* Appends the value to a list of texts. */
static bool add_text(CommandLine *line, const Setter *setter, const char *value)
{
    const char **list = field(line, setter->at);
    uint32_t *n = field(line, setter->at_n);
    if (*n == setter->most)
        return wrong(line, "--%s occurs more than %zu times", setter->name, setter->most);
    list[(*n)++] = value;
    return true;
}

/* Sets a number of DtSampling. */
static bool set_sampling(CommandLine *line, const Setter *setter, const char *value)
{
    char *end, *end_of_real;
    DtGivenNumber given = {.is_whole = true};
    errno = 0;
    given.whole = strtoll(value, &end, 10);
    if (end == value || *end || errno) {
        given.is_whole = false;
        given.real = strtod(value, &end_of_real);
        if (end_of_real == value || *end_of_real)
            return wrong(line, "--%s wants a number, not `%.60s`", setter->name, value);
    }
    const DtStatus status = dt_generatesample_set(&line->run.sampling, setter->name, given);
    return dt_status_ok(&status) || wrong(line, "--%s, not `%.60s`", status.message, value);
}

/* OLD=NEW, or `synthetic`. */
static bool set_data(CommandLine *line, const Setter *setter, const char *value)
{
    DtRunOptions *run = &line->run;
    if (strcmp(value, "synthetic") == 0) {
        run->data_synthetic = true;
        return true;
    }
    char *copy = strdup(value), *equals = copy ? strchr(copy, '=') : NULL;
    if (equals == NULL || equals == copy || equals[1] == '\0') {
        free(copy);
        return wrong(line, "--%s wants OLD=NEW or `synthetic`, not `%.60s`", setter->name, value);
    }
    if (run->n_redirects == DT_COUNT(run->redirects)) {
        free(copy);
        return wrong(line, "--%s occurs more than %zu times", setter->name,
                     DT_COUNT(run->redirects));
    }
    *equals = '\0';
    run->redirects[run->n_redirects++] =
        (DtRedirect){copy, equals + 1}; /* kept to the end of the process */
    return true;
}

static bool add_stop(CommandLine *line, const Setter *setter, const char *value)
{
    return *value ? add_text(line, setter, value) : wrong(line, "--%s wants a text", setter->name);
}

static bool add_prune(CommandLine *line, const Setter *setter, const char *value)
{
    const DtStatus status = dt_prune_check(value);
    return dt_status_ok(&status) ? add_text(line, setter, value)
                                 : wrong(line, "%s", status.message);
}

/* DIR, or LABEL=DIR for the instance of a model with that label. */
static bool set_import(CommandLine *line, const Setter *setter, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_";
    const size_t n = strspn(value, letters);
    if (n > 0 && value[n] == '=' && value[n + 1] != '\0')
        return add_text(line, setter, value);
    line->run.import = value;
    return true;
}

static bool set_elastic(CommandLine *line, const Setter *setter, const char *value)
{
    line->run.elastic = 1;
    return !value || (set_count(line, setter, value) &&
                      (line->run.elastic > 0 || wrong(line, "--elastic wants at least 1 rank")));
}

/* The index of the value among three words, of which the last may be NULL; -1 after a message. */
static int find_word(CommandLine *line, const Setter *setter, const char *value,
                     const char *const words[3])
{
    for (int i = 0; i < 3 && words[i]; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    if (words[2])
        wrong(line, "--%s wants %s, %s or %s, not `%.60s`", setter->name, words[0], words[1],
              words[2], value);
    else
        wrong(line, "--%s wants %s or %s, not `%.60s`", setter->name, words[0], words[1], value);
    return -1;
}

static bool set_gemm(CommandLine *line, const Setter *setter, const char *value)
{
    const int i = find_word(line, setter, value, &dt_gemm_names[DT_GEMM_ONEDNN]);
    line->run.gemm = (DtGemmKind)(DT_GEMM_ONEDNN + i);
    return i >= 0;
}

static bool set_algorithms(CommandLine *line, const Setter *setter, const char *value)
{
    static const char *const words[] = {"timed", "first", NULL};
    const int i = find_word(line, setter, value, words);
    line->run.algorithms_given = true;
    line->run.algorithms_first = i == 1;
    return i >= 0;
}

static bool set_attention(CommandLine *line, const Setter *setter, const char *value)
{
    static const char *const words[] = {"timed", "cudnn", "generated"};
    const int i = find_word(line, setter, value, words);
    line->run.attention_given = true;
    line->run.attention = (DtAttention)i;
    return i >= 0;
}

static bool set_epilogues(CommandLine *line, const Setter *setter, const char *value)
{
    const int i = find_word(line, setter, value, dt_forms_names);
    line->run.epilogues_given = true;
    line->run.epilogues = (DtEpilogueWish)i;
    return i >= 0;
}

static bool set_dtype(CommandLine *line, const Setter *setter, const char *value)
{
    static const char *const words[] = {"f32", "bf16", "f16"};
    static const int dtypes[] = {DT_PLAN_F32, DT_PLAN_BF16, DT_PLAN_F16};
    const int i = find_word(line, setter, value, words);
    line->run.export_dtype = i < 0 ? -1 : dtypes[i];
    return i >= 0;
}

static bool set_average(CommandLine *line, const Setter *setter, const char *value)
{
    line->run.no_average = true;
    return strcmp(value, "none") == 0 ||
           wrong(line, "--%s takes `none`: by default averages are used where the program keeps "
                       "them",
                 setter->name);
}

static bool print_table(CommandLine *line, const Setter *setter, const char *value);

/* ---- the table ---- */

/* The offset of a field of CommandLine, which has this type. */
#define AT(type, member) _Generic(((CommandLine *)0)->member, type: offsetof(CommandLine, member))
#define FLAG(member) .set = set_flag, .at = AT(bool, member)
#define COUNT(member) .set = set_count, .at = AT(int64_t, member)
#define REAL(member) .set = set_real, .at = AT(double, member)
#define TEXT(member) .set = set_text, .at = AT(const char *, member)
#define LIST(member, n)                                         \
    .at = AT(const char *, member[0]), .at_n = AT(uint32_t, n), \
    .most = DT_COUNT(((CommandLine *)0)->member)
#define TEXTS(member, n) .set = add_text, LIST(member, n)
#define CALL(function) .set = function
#define OF_GENERATE .of_generate = true
#define INNER(...) __VA_ARGS__

static const Setter setters[] = {
#define O(title, letter, value, group, setter, help) {.name = title, INNER setter},
#include "runtime/options.def"
#undef O
};

static const DtOptionRow rows[] = {
#define O(name, letter, value, group, setter, help) {name, letter, value, group, help},
#include "runtime/options.def"
#undef O
};

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

static bool print_table(CommandLine *line, const Setter *setter, const char *value)
{
    DtText text = {0};
    (void)value;
    if (strcmp(setter->name, "help") == 0)
        dt_options_help(&table, &text);
    else if (strcmp(setter->name, "man") == 0)
        dt_options_man(&table, &text);
    else
        dt_text_printf(&text, "%s %s\n", table.program, table.version);
    fputs(text.at, stdout);
    dt_text_free(&text);
    line->done = true;
    return true;
}

static bool read_option(CommandLine *line, const Setter *setter, const char *value)
{
    if (setter->of_generate)
        line->of_generate = setter->name;
    return setter->set(line, setter, value);
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
    if (run->spares && (run->eval || dt_run_predicts(run) || run->trial))
        return wrong(line, "--spares belongs to training");
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
            if (!read_option(line, &setters[id], options.value))
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

static DtStatus look_ahead(DtRunOptions *run, const DtPlan *plan, const DtPlanMeta *meta)
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
    dt_key_hide();
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
