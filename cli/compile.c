/* SPDX-License-Identifier: Apache-2.0 */
/* From a checked program to a plan: passes, code generation, writing. The verifier runs after every
 * pass; a broken invariant is a bug of the compiler and ends the process with what it found. */
#include "cli/fit.h"

#include "base/gpucode.h"
#include "base/bug.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/stack.h"
#include "codegen/codegen.h"
#include "codegen/target.h"
#include "frontend/config.h"
#include "frontend/facts.h"
#include "passes/passes.h"
#include "passes/pipeline/schedule.h"
#include "plan/read.h"
#include "plan/report/device.h"
#include "plan/report/nodes.h"
#include "plan/report/report.h"
#include "plan/report/simulate.h"
#include "verify/file.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- passes ---- */

/* The proof that the placed program computes the serial one. It reads only texts. So it runs in a
 * thread during code generation, and nothing is written before it ends. */
typedef struct Proof {
    DtText serial, placed, final; /* with gradients; as ranks run it; with rings written out */
    DtText said;
    char *ring, *why; /* the function whose ring call computes another result, and the difference;
                       * NULL: the problem is another one */
    DtCertCounts counts;
    pthread_t thread;
    bool runs, good;
    double model_flops; /* of a step of the serial program */
} Proof;

typedef struct Watch {
    DtCli *cli;
    DtCliClock clock;
    DtText printed;
    Proof *proof; /* NULL: no proof is wanted */
    const DtTrainConfig *train;
    bool expands; /* the final program differs from the placed one: `expand` changed it */
} Watch;

void dt_cli_list_passes(DtText *ret_text)
{
    for (uint32_t i = 0; i < dt_n_passes; i++)
        dt_text_printf(ret_text, "%-16s %s\n", dt_passes[i].name, dt_passes[i].purpose);
}

static bool wants_print(const DtCli *cli, const char *pass)
{
    for (uint32_t i = 0; i < cli->print_after.n; i++)
        if (!strcmp(cli->print_after.at[i], pass) || !strcmp(cli->print_after.at[i], "all"))
            return true;
    return false;
}

/* Returns the operations of a step: the sum over its losses, each weighted by how often it is
 * minimised (1 / every). */
static double step_flops(const DtTrainConfig *train, const DtModule *module)
{
    double flops = 0;
    for (uint32_t i = 0; i < module->entries.n; i++) {
        const DtEntryPoint *entry = &module->entries.at[i];
        double every = 1;
        for (uint32_t k = 0; train && k < train->objectives.n; k++)
            if (train->objectives.at[k].name == entry->objective)
                every = (double)train->objectives.at[k].every;
        if (entry->kind == DT_ENTRY_GRAD || entry->kind == DT_ENTRY_UPDATE)
            flops += dt_func_flops(entry->func) / every;
    }
    return flops;
}

static void after_pass(void *data, const DtPass *pass, const DtModule *module, bool changed)
{
    Watch *watch = data;
    dt_cli_lap(watch->cli, &watch->clock, pass->name);
    if (changed)
        dt_verify_require(module, pass->name);
    if (wants_print(watch->cli, pass->name)) {
        dt_text_printf(&watch->printed, "# after %s\n", pass->name);
        dt_irtext_print(module, &watch->printed);
    }
    if (watch->proof && dt_pass_is_last(pass) && pass->proof == DT_PASS_MEANING)
        dt_irtext_print(module, &watch->proof->serial);
    /* nothing that is not used, nothing padded or computed again */
    if (watch->proof && pass->run == dt_pass_cse)
        watch->proof->model_flops = step_flops(watch->train, module);
    if (watch->proof && dt_pass_is_last(pass) && pass->proof == DT_PASS_PROVED)
        dt_irtext_print(module, &watch->proof->placed);
    if (watch->proof && pass->proof == DT_PASS_BOXED)
        watch->expands = watch->expands || changed;
    if (watch->proof && dt_pass_is_last(pass) && pass->proof == DT_PASS_BOXED) {
        if (watch->expands)
            dt_irtext_print(module, &watch->proof->final);
        else
            dt_text_add_n(&watch->proof->final, dt_cli_text(&watch->proof->placed),
                          watch->proof->placed.len);
    }
    watch->clock = dt_cli_clock(watch->cli);
}

/* Every name after --print-after is a pass. */
static int check_pass_names(const DtCli *cli)
{
    for (uint32_t i = 0; i < cli->print_after.n; i++) {
        const char *name = cli->print_after.at[i];
        if (!strcmp(name, "all") || dt_passes_find(name))
            continue;
        const char **names = DT_NEW_ARRAY(cli->arena, const char *, dt_n_passes);
        for (uint32_t k = 0; k < dt_n_passes; k++)
            names[k] = dt_passes[k].name;
        const char *nearest = dt_text_nearest(name, names, dt_n_passes);
        if (nearest)
            return dt_cli_fail(DT_EXIT_USAGE, "there is no pass %s; did you mean %s?", name,
                               nearest);
        return dt_cli_fail(DT_EXIT_USAGE, "there is no pass %s; --list-passes shows them", name);
    }
    return DT_EXIT_OK;
}

/* Proves that the placed program computes the serial one, in a thread. It uses an arena of its own,
 * since arenas are not thread-safe. */
static void prove(Proof *proof)
{
    DtArena *arena = dt_arena_new();
    const DtLogicalTexts texts = {.serial = dt_cli_text(&proof->serial),
                                  .placed = dt_cli_text(&proof->placed),
                                  .final = dt_cli_text(&proof->final)};
    proof->good = dt_certfile_programs(arena, &texts, &proof->counts, &proof->said);
    const DtCertCounts *counts = &proof->counts;
    proof->ring = counts->ring ? strndup(counts->ring, strcspn(counts->ring, ".#$")) : NULL;
    proof->why = counts->ring ? strdup(counts->why) : NULL;
    proof->counts.ring = proof->counts.why = NULL; /* of the arena */
    dt_arena_free(arena);
}

static void *prove_beside(void *data)
{
    prove(data);
    dt_intern_forget();
    return NULL;
}

static void begin_proof(Proof *proof)
{
    proof->runs = dt_stack_start(prove_beside, proof, &proof->thread);
    if (!proof->runs)
        prove(proof);
}

/* Waits until the thread that proves the layout ends. */
static void end_proof(Proof *proof)
{
    if (proof->runs)
        pthread_join(proof->thread, NULL);
    proof->runs = false;
}

static int certify(DtCli *cli, const char *path, Proof *proof)
{
    DtCliClock clock = dt_cli_clock(cli);
    int code = DT_EXIT_OK;
    end_proof(proof);
    dt_cli_lap(cli, &clock, "certificate");
    if (!proof->good && proof->ring && dt_cli_blame_stream(cli, path, proof->ring, proof->why)) {
        code = DT_EXIT_DIAGNOSTICS;
    } else if (!proof->good) {
        const char *why = proof->said.at ? proof->said.at : "";
        code = dt_cli_refuse(
            cli, DT_EXIT_FAILED,
            "internal error: the layout is not proved to compute what the program says: %s%s", why,
            dt_cli_position(cli, why));
    } else if (cli->verify) {
        DtText text = {0};
        dt_cli_say_proved(&proof->counts, &text);
        code = dt_cli_print(&text);
        dt_text_free(&text);
    }
    return code;
}

static void free_proof(Proof *proof)
{
    end_proof(proof);
    dt_text_free(&proof->serial);
    dt_text_free(&proof->placed);
    dt_text_free(&proof->final);
    dt_text_free(&proof->said);
    free(proof->ring);
    free(proof->why);
}

static int run_passes(DtCli *cli, DtProgram *program, Proof *proof)
{
    DtPassContext context = {.train = program->train,
                             .parallel = program->parallel,
                             .cluster = program->cluster,
                             .target = dt_target_find(cli->target)->kind,
                             .epilogues = dt_cli_epilogues(cli),
                             .unfused = cli->unfused};
    Watch watch = {.cli = cli, .proof = proof, .train = program->train};
    dt_verify_require(program->module, "lowering");
    watch.clock = dt_cli_clock(cli);
    dt_passes_run(program->module, &context, after_pass, &watch);
    int code = dt_cli_print(&watch.printed);
    dt_text_free(&watch.printed);
    if (code == DT_EXIT_OK && dt_diag_errors(cli->diags))
        code = DT_EXIT_DIAGNOSTICS;
    if (code == DT_EXIT_OK && proof)
        begin_proof(proof);
    return code;
}

/* ---- code ---- */

/* Whether a plan, or something made from it, was requested. */
static bool writes_plan(const DtCli *cli)
{
    return cli->against || (cli->output && !cli->emit) || cli->report || cli->emit >= DT_EMIT_PLAN;
}

/* Whether the plan has machine code; --no-kernels leaves kernels as text only. */
static bool holds_code(const DtPlan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->n_codes; i++)
        any = any || plan->codes[i].binary_len > 0;
    return any;
}

/* Whether the output needs no machine code: reports and texts, and proofs of plans without any. */
bool dt_cli_no_kernels(const DtCli *cli)
{
    return cli->no_kernels || (cli->against && !holds_code(cli->against)) || cli->report ||
           cli->emit == DT_EMIT_C || cli->emit >= DT_EMIT_SCHEDULE;
}

/* Without --target a program is compiled for the devices of its cluster, or for processors if an
 * option requires that. */
static int choose_target(DtCli *cli, const DtProgram *program)
{
    const bool host = cli->emit == DT_EMIT_C || (cli->verify && !cli->no_kernels);
    if (cli->target)
        return DT_EXIT_OK;
    cli->target = host ? "cpu" : dt_fit_target(cli->arena, program);
    const char *lacks =
        host || dt_cli_no_kernels(cli) || !writes_plan(cli) ? NULL : dt_fit_lacks(program);
    if (!lacks)
        return DT_EXIT_OK;
    return dt_cli_fail(
        DT_EXIT_USAGE,
        "there is no code for the cluster's GPUs, `%s`: kernels are made for GPUs of "
        "NVIDIA of compute capability 8.0 and later, and for processors. --report says what a run "
        "would "
        "take, --no-kernels makes a plan without code, --target=sm_80 and the like one for other "
        "GPUs",
        lacks);
}

/* Returns the end of a message about code that cannot be made here: for GPUs the other targets to
 * use, else "". */
static const char *other_target(const DtCli *cli)
{
    static const char said[] =
        "; --target=cpu makes a plan for processors, --no-kernels one without code";
    return dt_target_is_cpu(cli->target) ? "" : said;
}

/* Refuses options that a plan for GPUs cannot have; returns an exit code. */
static int check_cuda(const DtCli *cli)
{
    if (cli->emit == DT_EMIT_C)
        return dt_cli_fail(DT_EXIT_USAGE, "--emit=cuda prints the kernels for %s", cli->target);
    if (cli->rows && !dt_target_cuda.has(cli->rows))
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "kernels for %s add up rows in the order of GPUs, not in that of %s; a plan "
            "for processors can have either",
            cli->target, cli->rows);
    if (!cli->verify || cli->no_kernels)
        return DT_EXIT_OK;
    return dt_cli_fail(
        DT_EXIT_USAGE,
        "--verify runs the plan's code on this machine's processors: with --target=%s "
        "add --no-kernels, which proves and evaluates only",
        cli->target);
}

static bool is_for_gpus(const DtCli *cli)
{
    return cli->emit == DT_EMIT_CUDA || !strncmp(cli->target, "sm_", 3) ||
           !strncmp(cli->target, "compute_", 8);
}

/* Returns the target that a misspelt --target most likely means: the nearest name or, for a GPU,
 * the one whose code runs there; NULL: none. */
static const char *meant(const DtCli *cli, const char *const *names, uint32_t n)
{
    int capability;
    char letter;
    bool is_text;
    if (!is_for_gpus(cli))
        return dt_text_nearest(cli->target, names, n);
    return dt_gpucode_read(cli->target, &capability, &letter, &is_text)
               ? dt_gpucode_for(capability / 10, capability % 10)
               : NULL;
}

static int no_target(const DtCli *cli, const char *const *names, uint32_t n)
{
    const char *nearest = meant(cli, names, n), *list = "";
    for (uint32_t i = 0; i < n; i++)
        list = dt_arena_printf(cli->arena, "%s%s%s", list, i ? ", " : "", names[i]);
    if (dt_target_find(cli->target) && cli->emit == DT_EMIT_CUDA)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--emit=cuda takes one of %s, or several, as --target, not %s", list,
                           cli->target);
    if (dt_target_find(cli->target))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "kernels for %s cannot be made on this machine; targets are %s",
                           cli->target, list);
    if (nearest)
        return dt_cli_fail(DT_EXIT_USAGE, "there is no target %s; did you mean %s?", cli->target,
                           nearest);
    if (is_for_gpus(cli))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "there is no target %s; for GPUs there are %s, or several of them",
                           cli->target, list);
    const char *gpus[DT_TARGET_NAMES], *more = "";
    const uint32_t n_gpus = dt_target_cuda.names(gpus);
    for (uint32_t i = 0; i < n_gpus; i++)
        more = dt_arena_printf(cli->arena, "%s%s%s", more, i ? ", " : "", gpus[i]);
    return dt_cli_fail(DT_EXIT_USAGE, "there is no target %s; targets are %s, and for GPUs %s",
                       cli->target, list, more);
}

static int check_target(const DtCli *cli)
{
    const bool cuda = is_for_gpus(cli);
    const DtTargetRow *row = cuda ? &dt_target_cuda : &dt_target_cpu;
    const bool is_interpreted = dt_target_find(cli->target) == &dt_target_cuda_interpreted;
    const char *names[DT_TARGET_NAMES + 1];
    uint32_t n = row->names(names);
    if (cuda && (row->has(cli->target) || is_interpreted)) /* including lists of several */
        return check_cuda(cli);
    if (!cuda)
        n += dt_target_cpu_interpreted.names(names + n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(cli->target, names[i]))
            return DT_EXIT_OK;
    return no_target(cli, names, n);
}

/* Returns a digest of all source texts in the order in which they were read. */
static uint64_t source_digest(const DtDiags *diags)
{
    uint64_t digest = 0;
    size_t len;
    for (uint32_t file = 1; file <= dt_diag_files(diags); file++) {
        const char *text = dt_diag_source(diags, file, &len);
        digest = dt_hash_bytes(text, len, digest);
    }
    return digest;
}

const char *dt_cli_folder_from(DtArena *arena, const char *program, const char *plan)
{
    char *from = realpath(dt_file_beside(arena, plan ? plan : "./plan", "."), NULL);
    char *to = realpath(dt_file_beside(arena, program, "."), NULL);
    const char *result = to ? dt_arena_strndup(arena, to, strlen(to)) : ".";
    if (from && to) {
        size_t i = 0, same = 0;
        for (; from[i] && from[i] == to[i]; i++)
            if (from[i] == '/')
                same = i;
        if ((!from[i] && (!to[i] || to[i] == '/')) || (!to[i] && from[i] == '/'))
            same = i;
        if (same > 0) {
            const char *up = "";
            for (const char *at = from + same; *at; at++)
                if (*at == '/')
                    up = dt_arena_printf(arena, "../%s", up);
            const char *down = to[same] ? to + same + 1 : "";
            result = dt_arena_printf(arena, "%s%s", up, down);
            if (!*result)
                result = ".";
        }
    }
    free(from);
    free(to);
    return result;
}

/* Proves that the plan computes the final program, for any output of code generation. It reads the
 * texts in the plan, which the other proof reads too. */
static int certify_plan(DtCli *cli, const DtPlan *plan, const Proof *proof)
{
    DtText said = {0};
    DtArena *arena = dt_arena_child(cli->arena);
    DtLogicalTexts texts;
    int code = DT_EXIT_OK;
    bool good = dt_certfile_open(arena, plan, &texts, &said) &&
                dt_certfile_plan(arena, plan, &texts, &said);
    if (good && (strcmp(texts.serial, dt_cli_text(&proof->serial)) ||
                 strcmp(texts.placed, dt_cli_text(&proof->placed)) ||
                 strcmp(texts.final, dt_cli_text(&proof->final)))) {
        dt_text_add(&said, "it has other programs than were proved");
        good = false;
    }
    if (!good) {
        code = dt_cli_refuse(
            cli, DT_EXIT_FAILED,
            "internal error: the plan is not proved to do what the program says: %s", said.at);
    } else if (cli->verify) {
        dt_text_printf(&said, "proved: the plan's %u instructions are the layout's ops\n",
                       plan->n_insts);
        code = dt_cli_print(&said);
    }
    dt_arena_free(arena);
    dt_text_free(&said);
    return code;
}

/* Builds the plan's bytes again, with the predicted time of a step on its device (section PRED). */
static void add_prediction(const DtCli *cli, const DtPlan *plan, const DtCostModel *model,
                           DtPlanBuilder *builder, uint8_t **bytes, size_t *len)
{
    DtArena *arena = dt_arena_child(cli->arena);
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    DtSimulation sim;
    dt_simulate(arena, plan, model, dt_price_plan(arena, plan, model), &options, &sim);
    if (sim.stuck)
        DT_BUG("a plan that is proved has stages that wait for each other for ever");
    const char *devices = model->n_kinds ? dt_nodes_say(arena, plan, model) : model->device->name;
    const DtPlanPrediction prediction = {.device = dt_write_str(builder, devices),
                                         .step = sim.seconds, .low = sim.low, .high = sim.high,
                                         .peak = dt_price_peak(plan, model, dt_price_dtype(plan))};
    DT_PUSH(builder->arena, builder->predictions, prediction);
    dt_write_bytes(builder, bytes, len);
    dt_arena_free(arena);
}

/* Whether the plan records its device. The library's "cpu" is no particular processor. */
static bool says_device(const DtCostModel *model)
{
    return model->device->is_gpu || strcmp(model->device->name, "cpu") != 0;
}

/* Writes the one result that was requested: the kernels, the plan as text, a report, or the plan
 * file. */
static int write_results(DtCli *cli, const DtProgram *program, const char *path,
                         DtPlanBuilder *builder, const DtText *c_text, const Proof *proof)
{
    const DtModule *module = program->module;
    uint8_t *bytes;
    size_t len;
    DtPlan plan;
    DtText text = {0};
    int code = DT_EXIT_OK;
    if (cli->emit == DT_EMIT_C || cli->emit == DT_EMIT_CUDA)
        return dt_cli_write(cli, c_text);
    DtCostModel model;
    const bool has_model = dt_fit_model(program, &model);
    if (has_model && says_device(&model))
        dt_device_write(&model, builder);
    dt_write_bytes(builder, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    if (!dt_status_ok(&status))
        return dt_cli_refuse(cli, DT_EXIT_FAILED, "internal error: the plan fails its checks: %s",
                             status.message);
    code = certify_plan(cli, &plan, proof);
    if (code != DT_EXIT_OK)
        return code;
    if (cli->against)
        return dt_cli_compare(cli, &plan);
    if (cli->old && dt_cli_compare_old(cli, &plan) != DT_EXIT_OK)
        return DT_EXIT_FAILED;
    const bool fits = dt_fit_check(cli, program, path, &plan);
    /* these outputs show which parts do not fit */
    if (!fits && (cli->others || (!cli->report && !cli->emit)))
        return DT_EXIT_DOES_NOT_FIT;
    if (cli->emit == DT_EMIT_LAYOUT)
        dt_text_add(&text, cli->block);
    if (cli->emit == DT_EMIT_SCHEDULE_SVG)
        code = dt_cli_picture(cli, module, &plan, has_model ? &model : NULL);
    if (cli->emit == DT_EMIT_PLAN)
        dt_plantext_dump(&plan, &text);
    if (cli->emit == DT_EMIT_SCHEDULE && module->pipeline)
        dt_schedule_print(cli->arena, module->pipeline, &text);
    if (cli->emit == DT_EMIT_SCHEDULE)
        dt_report_schedule(&plan, &text);
    else if (cli->report)
        code = dt_cli_report_plan(cli, &plan, has_model ? &model : NULL, &text);
    if (code != DT_EXIT_OK) {
        dt_text_free(&text);
        return code;
    }
    if (text.len) {
        code = dt_cli_write(cli, &text);
    } else if (cli->output && !cli->emit) {
        if (has_model && says_device(&model))
            /* without a device the plan was built again only to be proved */
            add_prediction(cli, &plan, &model, builder, &bytes, &len);
        status = dt_file_write(cli->output, bytes, len);
        if (!dt_status_ok(&status))
            code = dt_cli_fail(status.code, "%s", status.message);
    }
    dt_text_free(&text);
    return code == DT_EXIT_OK && !fits ? DT_EXIT_DOES_NOT_FIT : code;
}

/* The path of the plan file, which may not be written yet. */
static const char *plan_path(const DtCli *cli)
{
    return cli->against ? cli->words.at[0] : cli->output;
}

/* Relative names of data count from the folder of the file that says them; the plan keeps that
 * folder as seen from its own, so that both may be moved together. */
static void place_readers(const DtCli *cli, DtReader *readers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        DtSource *source = &readers[i].source;
        const char *inside =
            dt_arena_printf(cli->arena, "%s/.", source->folder ? source->folder : ".");
        source->folder =
            cli->old ? dt_cli_old_folder(cli, source->folder ? source->folder : ".", plan_path(cli))
                     : dt_cli_folder_from(cli->arena, inside, plan_path(cli));
    }
}

/* The program's folder, as seen from the plan's. */
static const char *source_folder(const DtCli *cli, const char *path)
{
    if (cli->old)
        return dt_cli_old_folder(
            cli,
            dt_file_beside(cli->arena, cli->old_path,
                           dt_plan_str(cli->old, cli->old->meta->source_folder)),
            plan_path(cli));
    return dt_cli_folder_from(cli->arena, path, plan_path(cli));
}

/* Prints that there is no plan to prove: --verify proves the plan that would be written, and a
 * program that is not trained has none. */
static int says_no_plan(void)
{
    DtText text = {0};
    dt_text_add(&text, "no plan to prove: the program has no `train` block\n");
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

static int generate(DtCli *cli, DtProgram *program, const char *path, Proof *proof)
{
    if (program->train) {
        place_readers(cli, program->train->readers.at, program->train->readers.n);
        place_readers(cli, program->train->eval_readers.at, program->train->eval_readers.n);
    }
    DtText c_text = {0}, facts = {0};
    dt_facts_print(program, &facts);
    const DtLogicalTexts texts = {.serial = dt_cli_text(&proof->serial),
                                  .facts = dt_cli_text(&facts),
                                  .placed = dt_cli_text(&proof->placed),
                                  .final = dt_cli_text(&proof->final)};
    double host_seconds = 0;
    DtCodegenOptions options = {
        .target = cli->target,
        .source = cli->old ? dt_plan_str(cli->old, cli->old->meta->source) : path,
        .source_folder = source_folder(cli, path),
        .compiler = "dtc " DT_VERSION,
        .source_digest = source_digest(cli->diags),
        .model_flops = proof->model_flops,
        .no_kernels = dt_cli_no_kernels(cli) || !writes_plan(cli),
        .unfused = cli->unfused,
        .rows = cli->rows,
        .logical = &texts,
        .ret_c = cli->emit == DT_EMIT_C || cli->emit == DT_EMIT_CUDA ? &c_text : NULL,
        .ret_host_seconds = &host_seconds};
    DtPlanBuilder *builder = dt_write_new(cli->arena);
    DtCliClock clock = dt_cli_clock(cli);
    DtStatus status = dt_codegen_plan(program, &options, builder);
    if (dt_status_ok(&status))
        dt_cli_write_origin(cli, builder);
    dt_cli_lap_apart(cli, &clock, "emit", host_seconds,
                     options.no_kernels ? NULL : "host compiler");
    int code = certify(cli, path, proof);
    if (cli->report) { /* it is about the cluster, and shows itself where time is spent */
        dt_diag_drop(cli->diags, L0593);
        dt_diag_drop(cli->diags, L0589);
    }
    if (code == DT_EXIT_OK && dt_diag_errors(cli->diags))
        code = DT_EXIT_DIAGNOSTICS; /* a kernel that the target lacks */
    clock = dt_cli_clock(cli);
    if (code == DT_EXIT_OK)
        code = dt_status_ok(&status)
                   ? write_results(cli, program, path, builder, &c_text, proof)
                   : dt_cli_refuse(cli, status.code, "%s%s", status.message, other_target(cli));
    dt_cli_lap(cli, &clock, "write");
    dt_text_free(&c_text);
    dt_text_free(&facts);
    return code;
}

static bool only_checks(const DtCli *cli)
{
    return !writes_plan(cli) && !cli->verify && !cli->emit && !cli->print_after.n &&
           !cli->time_passes;
}

int dt_cli_compile(DtCli *cli, DtProgram *program, const char *path)
{
    Proof proof = {.good = false};
    const bool draws = cli->emit == DT_EMIT_SCHEDULE_SVG;
    if (cli->emit == DT_EMIT_LAYOUT && !cli->block)
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "--emit=layout prints what `auto` chose; this layout is written in full");
    bool makes_plan =
        (writes_plan(cli) && !(draws && !program->train)) || (cli->verify && program->train);
    int code = check_pass_names(cli);
    if (code == DT_EXIT_OK)
        code = choose_target(cli, program);
    if (code == DT_EXIT_OK)
        code = check_target(cli);
    if (code != DT_EXIT_OK)
        return code;
    if (makes_plan && !dt_configready_check(cli->diags, program, cli->parallel != NULL,
                                            is_for_gpus(cli)))
        return DT_EXIT_DIAGNOSTICS;
    code = dt_cli_check_clauses(cli, program->module, path);
    if (code == DT_EXIT_OK)
        code = dt_cli_check_gradients(cli, program->module);
    if (code != DT_EXIT_OK)
        return code;
    code = run_passes(cli, program, makes_plan || cli->verify ? &proof : NULL);
    if (code == DT_EXIT_OK && program->train && !dt_codegen_check(program->module))
        code = DT_EXIT_DIAGNOSTICS;
    if (code == DT_EXIT_OK && makes_plan)
        code = generate(cli, program, path, &proof);
    else if (code == DT_EXIT_OK && cli->verify)
        code = certify(cli, path, &proof);
    if (code == DT_EXIT_OK && cli->verify && !makes_plan)
        code = says_no_plan();
    if (code == DT_EXIT_OK && only_checks(cli) && !dt_fit_check_program(cli, program, path))
        code = DT_EXIT_DOES_NOT_FIT;
    if (code == DT_EXIT_OK && draws && !makes_plan)
        code = dt_cli_picture(cli, program->module, NULL, NULL);
    free_proof(&proof);
    if (cli->others && !cli->refused && code != DT_EXIT_OK && dt_diag_errors(cli->diags))
        cli->refused = dt_diag_first(cli->diags).message;
    return code;
}
