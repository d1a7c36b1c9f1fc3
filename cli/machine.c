/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of --verify: compiles the program to a plan, whose machine code runs on real
 * ranks with dtrun, from the folder of this program. A kernel that is compiled wrongly ends a
 * process of its own, not this one.
 *
 * Plan and values are in memory with a descriptor, as are dtrun's messages. Checkpoints are in a
 * folder of $TMPDIR (cli/scratch.c). Nothing is left over however this ends: dtrun ends with the
 * process that started it (PR_SET_PDEATHSIG). */
#include "cli/machine.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/half.h"
#include "base/hostcc.h"
#include "plan/kinds.h"
#include "plan/read.h"
#include "plan/stages.h"
#include "plan/trial.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ranks are processes; and they share this machine's processors. */
enum { MOST_RANKS = 64 };
/* Limits of dtrun's command line. */
enum { MOST_WORDS = 64, MOST_REDIRECTS = 24 };
/* Operations of a step below which interpreting kernels is faster than compiling them. */
enum { LITTLE_WORK = 3000000 };

typedef struct Run {
    DtArena *arena;
    const DtPlan *plan; /* with one record per stage */
    DtTrialLayout layout;
    DtJudgeTrial *trial;
    int plan_fd, trial_fd, said_fd;
    const char *folder; /* of checkpoints; NULL: there are none */
    DT_VEC(const char *) redirects; /* NAME=FILE, of data */
    DtTrial *memory;
} Run;

static bool not_run(DtCliMachine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool not_run(DtCliMachine *machine, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    machine->why_not = dt_arena_vprintf(machine->cli->arena, format, args);
    va_end(args);
    return false;
}

/* ---- the plan ---- */

static bool compile(DtCliMachine *machine, DtArena *arena, const DtLowerOptions *options,
                    bool resumes, uint8_t **ret_bytes, size_t *ret_len)
{
    DtCli cli = *machine->cli;
    if (resumes && machine->interprets)
        cli.target = "interpreted";
    const DtStatus status =
        dt_cli_variant(&cli, arena, options, DT_VARIANT_KERNELS, ret_bytes, ret_len);
    return dt_status_ok(&status) || not_run(machine, "%s", status.message);
}

/* ---- values as bytes ---- */

static void encode(uint32_t dtype, double value, char *to)
{
    const int64_t integer = dtype < DT_PLAN_F16 ? (int64_t)value : 0;
    const float narrow = (float)value;
    const uint16_t half = dtype == DT_PLAN_BF16 ? dt_half_to_bf16(narrow) : dt_half_to_f16(narrow);
    switch (dtype) {
    case DT_PLAN_F64: memcpy(to, &value, 8); break;
    case DT_PLAN_F32: memcpy(to, &narrow, 4); break;
    case DT_PLAN_BF16:
    case DT_PLAN_F16: memcpy(to, &half, 2); break;
    default: memcpy(to, &integer, (size_t)dt_kinds_size(dtype)); break; /* low bytes first */
    }
}

static double decode(uint32_t dtype, const char *from)
{
    double wide = 0;
    float narrow;
    uint16_t half;
    int64_t integer = 0;
    int32_t signed_one;
    switch (dtype) {
    case DT_PLAN_F64: memcpy(&wide, from, 8); return wide;
    case DT_PLAN_F32: memcpy(&narrow, from, 4); return (double)narrow;
    case DT_PLAN_BF16: memcpy(&half, from, 2); return (double)dt_half_from_bf16(half);
    case DT_PLAN_F16: memcpy(&half, from, 2); return (double)dt_half_from_f16(half);
    case DT_PLAN_I32: memcpy(&signed_one, from, 4); return signed_one;
    default: memcpy(&integer, from, (size_t)dt_kinds_size(dtype)); return (double)integer;
    }
}

/* Returns the store of the serial program that a tensor of the plan is, found by kind, path and
 * extents; NULL: none. */
static const DtStore *store_of(const Run *run, const DtTrialTensor *tensor)
{
    const DtModule *serial = run->trial->serial;
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const DtStore *store = serial->stores.at[i];
        bool same = (uint32_t)store->kind == tensor->store->kind &&
                    (uint32_t)store->type->dtype == tensor->store->dtype &&
                    strcmp(store->path, dt_plan_str(run->plan, tensor->store->path)) == 0 &&
                    store->type->rank == tensor->store->n_axes;
        for (uint32_t a = 0; same && a < store->type->rank; a++) {
            const DtPlanAxis *axis = &run->plan->axes[tensor->store->first_axis + a];
            same = axis->extent == store->type->axes[a].extent &&
                   strcmp(dt_plan_str(run->plan, axis->name), store->type->axes[a].name) == 0;
        }
        if (same)
            return store;
    }
    return NULL;
}

/* ---- the trial ---- */

static bool fill(DtCliMachine *machine, Run *run)
{
    char *values = (char *)run->memory + run->layout.begin;
    for (uint32_t i = 0; i < run->layout.n; i++) {
        const DtTrialTensor *tensor = &run->layout.tensors[i];
        const DtStore *store = store_of(run, tensor);
        const DtTensor *from = store ? run->trial->initial[store->index] : NULL;
        if (!from) {
            machine->wrong = dt_arena_printf(machine->cli->arena,
                                             "the plan has `%s`, which the serial program has not",
                                             dt_plan_str(run->plan, tensor->store->path));
            return false;
        }
        for (int64_t k = 0; k < tensor->elements; k++)
            encode(tensor->store->dtype, from->at[k],
                   values + tensor->at + k * dt_kinds_size(tensor->store->dtype));
    }
    return true;
}

/* Returns a descriptor of new memory with these bytes (NULL: zeros), or -1. */
static int memory_with(const char *name, const void *bytes, uint64_t len)
{
    const int fd = memfd_create(name, MFD_CLOEXEC);
    bool good = fd >= 0 && (bytes || ftruncate(fd, (off_t)len) == 0);
    for (uint64_t done = 0; good && bytes && done < len;) {
        const ssize_t n = write(fd, (const char *)bytes + done, len - done);
        good = n > 0 || (n < 0 && errno == EINTR);
        done += n > 0 ? (uint64_t)n : 0;
    }
    if (good || fd < 0)
        return fd;
    close(fd);
    return -1;
}

static bool open_trial(DtCliMachine *machine, Run *run, const uint8_t *bytes, size_t len)
{
    if (!dt_trial_layout(run->arena, run->plan, run->trial->events, &run->layout))
        return not_run(machine, "its values are too many");
    run->plan_fd = memory_with("dtc-plan", bytes, len);
    run->trial_fd = memory_with("dtc-trial", NULL, run->layout.bytes);
    run->said_fd = memory_with("dtc-said", NULL, 0);
    if (run->plan_fd < 0 || run->trial_fd < 0 || run->said_fd < 0)
        return not_run(machine, "no memory for plan and values: %s", strerror(errno));
    run->memory =
        mmap(NULL, run->layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, run->trial_fd, 0);
    if (run->memory == MAP_FAILED)
        return not_run(machine, "no memory for its values: %s", strerror(errno));
    *run->memory = (DtTrial){.magic = DT_TRIAL_MAGIC,
                             .digest = run->plan->digest,
                             .bytes = run->layout.bytes,
                             .events = run->trial->events,
                             .held_out = run->trial->held_out,
                             .owner = (int32_t)getpid(),
                             .lr = run->trial->lr,
                             .is_life = run->trial->is_life};
    for (uint32_t i = 0; i < run->trial->events; i++) {
        static const DtTrialKind kinds[] = {[DT_JUDGE_TRAIN] = DT_TRIAL_TRAIN,
                                            [DT_JUDGE_EVALUATE] = DT_TRIAL_EVALUATE,
                                            [DT_JUDGE_SAVE] = DT_TRIAL_SAVE,
                                            [DT_JUDGE_RESUME] = DT_TRIAL_RESUME};
        const DtJudgeEvent *event = &run->trial->script[i];
        run->memory->script[i] = (DtTrialEvent){.kind = kinds[event->kind],
                                                .batches = event->batches,
                                                .number = event->number,
                                                .loss_scale = event->loss_scale,
                                                .good = event->good};
    }
    return fill(machine, run);
}

static void close_trial(Run *run)
{
    if (run->memory && run->memory != MAP_FAILED)
        munmap(run->memory, run->layout.bytes);
    const int fds[] = {run->plan_fd, run->trial_fd, run->said_fd};
    for (size_t i = 0; i < DT_COUNT(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- dtrun ---- */

const char *dt_cli_dtrun(DtArena *arena)
{
    char self[4096];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    const char *path =
        slash ? dt_arena_printf(arena, "%.*s/dtrun", (int)(slash - self), self) : NULL;
    return path && access(path, X_OK) == 0 ? path : NULL;
}

/* Runs dtrun on the plan and the trial. Returns its exit code, 128 and more for the signal that
 * ended it, or -1 if it could not be started. */
static int run_dtrun(const Run *run, const char *path)
{
    extern char **environ;
    const char *plan = dt_arena_printf(run->arena, "/proc/self/fd/%d", run->plan_fd);
    const char *trial = dt_arena_printf(run->arena, "/proc/self/fd/%d", run->trial_fd);
    const char *most = dt_arena_printf(run->arena, "%d", MOST_RANKS);
    const char *argv[MOST_WORDS + 1] = {path,      plan,  "--trial",     trial, "--quiet",
                                        "--timeout", "100", "--max-ranks", most};
    uint32_t n = 9;
    if (run->folder) {
        argv[n++] = run->trial->is_resumed ? "--resume" : "--save";
        argv[n++] = run->folder;
    }
    for (uint32_t i = 0; i < run->redirects.n; i++) {
        argv[n++] = "--data";
        argv[n++] = run->redirects.at[i];
    }
    posix_spawn_file_actions_t files;
    pid_t pid = -1;
    int state;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, run->plan_fd, run->plan_fd); /* clears close-on-exec */
    posix_spawn_file_actions_adddup2(&files, run->trial_fd, run->trial_fd);
    posix_spawn_file_actions_adddup2(&files, run->said_fd, 1);
    posix_spawn_file_actions_adddup2(&files, run->said_fd, 2);
    const int error =
        posix_spawn(&pid, path, &files, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error) {
        errno = error;
        return -1;
    }
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* Returns what dtrun printed, without "dtrun: " before it. */
static const char *said(const Run *run)
{
    char text[2000];
    const ssize_t n = pread(run->said_fd, text, sizeof text - 1, 0);
    const char *at = text;
    text[n > 0 ? n : 0] = 0;
    if (strncmp(at, "dtrun: ", 7) == 0)
        at += 7;
    size_t len = strlen(at);
    while (len && at[len - 1] == '\n')
        len--;
    return dt_arena_strndup(run->arena, at, len);
}

/* ---- the results of the ranks ---- */

/* Names the value whose copies differ between ranks, such as "parameter `w`, element 12". */
static const char *copies_of(const Run *run, const DtTrialCopies *copies)
{
    if (copies->tensor < 0 || (uint64_t)copies->tensor >= run->layout.n) {
        const uint64_t metric = (uint64_t)copies->byte / 8;
        return metric < run->plan->n_metrics
                   ? dt_plan_str(run->plan, run->plan->metrics[metric].name)
                   : "a scalar";
    }
    const DtTrialTensor *tensor = &run->layout.tensors[copies->tensor];
    const DtStore *store = store_of(run, tensor);
    return dt_arena_printf(
        run->arena, "%s%s",
        store ? dt_judge_describe(run->arena, store) : dt_plan_str(run->plan, tensor->store->path),
        store ? dt_judge_coordinates(run->arena, store->type,
                                     copies->byte / dt_kinds_size(tensor->store->dtype))
              : "");
}

static bool scalar(const DtJudgeTrial *trial, uint32_t event, const char *entry, const char *name,
                   bool shown, double *ret_value)
{
    const Run *run = trial->data;
    const DtPlan *plan = run->plan;
    const char *at = (const char *)run->memory + dt_trial_scalars(&run->layout, event);
    const uint32_t first = shown ? plan->n_metrics : 0, n = shown ? plan->n_shows : plan->n_metrics;
    for (uint32_t i = 0; i < n; i++) {
        const char *value = at + (first + i) * 8;
        if (!value[run->layout.scalars] ||
            strcmp(dt_plan_str(plan, shown ? plan->shows[i].name : plan->metrics[i].name), name) !=
                0 ||
            strcmp(dt_plan_str(plan, shown ? plan->shows[i].entry : plan->metrics[i].entry),
                   entry) != 0)
            continue;
        memcpy(ret_value, value, 8);
        return true;
    }
    return false;
}

static bool collect_tensor(DtCliMachine *machine, Run *run, uint32_t event,
                           const DtTrialTensor *tensor)
{
    const DtStore *store = store_of(run, tensor);
    const int64_t size = dt_kinds_size(tensor->store->dtype);
    const char *from =
        (const char *)run->memory + dt_trial_values(&run->layout, event) + tensor->at;
    DtTensor *made = run->trial->after[event][store->index] = DT_NEW(run->arena, DtTensor);
    *made = (DtTensor){store->type, DT_NEW_ARRAY(run->arena, double, tensor->elements)};
    for (int64_t i = 0; i < tensor->elements; i++) {
        if (!from[run->layout.values + i * size]) {
            machine->wrong = dt_arena_printf(machine->cli->arena, "no rank of the plan holds %s%s",
                                             dt_judge_describe(run->arena, store),
                                             dt_judge_coordinates(run->arena, store->type, i));
            return false;
        }
        made->at[i] = decode(tensor->store->dtype, from + i * size);
    }
    return true;
}

static bool collect(DtCliMachine *machine, Run *run)
{
    const DtTrialCopies *copies = &run->memory->copies;
    DtJudgeTrial *trial = run->trial;
    if (run->memory->done != trial->events) {
        machine->wrong = "the ranks ended before their last step, without a word";
        return false;
    }
    if (copies->found) {
        machine->wrong = dt_arena_printf(
            machine->cli->arena,
            "step %lld: rank %u has another copy of %s than the ranks before it",
            (long long)run->memory->script[copies->event % DT_TRIAL_EVENTS].steps_after,
            copies->rank, copies_of(run, copies));
        return false;
    }
    for (uint32_t i = 0; i < trial->events; i++) {
        const DtTrialEvent *event = &run->memory->script[i];
        trial->script[i].loss_scale_after = event->loss_scale_after;
        trial->script[i].good_after = event->good_after;
        trial->script[i].steps_after = event->steps_after;
        memcpy(trial->script[i].updates_after, event->updates_after,
               sizeof trial->script[i].updates_after);
        trial->script[i].taken = event->taken;
        trial->script[i].skipped = event->skipped;
    }
    trial->ranks = run->plan->meta->n_ranks;
    trial->scalar = scalar;
    trial->data = run;
    trial->after = DT_NEW_ARRAY(run->arena, DtTensor **, trial->events + 1);
    for (uint32_t event = 0; event < trial->events; event++) {
        trial->after[event] = DT_NEW_ARRAY(run->arena, DtTensor *, trial->serial->stores.n + 1);
        for (uint32_t i = 0; i < run->layout.n; i++)
            if (!collect_tensor(machine, run, event, &run->layout.tensors[i]))
                return false;
    }
    return true;
}

/* Whether dtrun failed because this machine cannot run the plan, which may still be right: it ended
 * with such a code before a step began. */
static bool is_lack(const Run *run, int code)
{
    return !run->memory->began && (code == DT_EXIT_USAGE || code == DT_EXIT_DOES_NOT_FIT ||
                                   code == DT_EXIT_RETRY || code == DT_EXIT_IO);
}

static bool run_plan(DtCliMachine *machine, Run *run, const uint8_t *bytes, size_t len)
{
    const char *path = dt_cli_dtrun(run->arena);
    if (!path)
        return not_run(machine, "there is no dtrun beside dtc");
    if (run->plan->meta->n_ranks > MOST_RANKS)
        return not_run(machine, "%u ranks are more processes than the %d that it starts",
                       run->plan->meta->n_ranks, MOST_RANKS);
    if (!open_trial(machine, run, bytes, len))
        return false;
    const int code = run_dtrun(run, path);
    if (code < 0)
        return not_run(machine, "%s cannot be started: %s", path, strerror(errno));
    if (is_lack(run, code))
        return not_run(machine, "%s", said(run));
    if (code != DT_EXIT_OK) {
        machine->wrong = dt_arena_printf(machine->cli->arena, "the ranks failed: %s",
                                         code >= 128 ? strsignal(code - 128) : said(run));
        return false;
    }
    return collect(machine, run);
}

/* ---- checkpoints ---- */

/* Returns the folder of the trial's checkpoints, or NULL if it has none. Each trial that saves gets
 * a new folder; one that resumes has that of the trial before. */
static const char *folder_of(DtCliMachine *machine, const DtJudgeTrial *trial)
{
    bool saves = false;
    for (uint32_t i = 0; i < trial->events; i++)
        saves |= trial->script[i].kind == DT_JUDGE_SAVE;
    machine->saves += saves;
    return saves || trial->is_resumed ? dt_arena_printf(machine->cli->arena, "%s/%u",
                                                        machine->scratch.path, machine->saves)
                                      : NULL;
}

/* ---- files of data ---- */

/* Appends the header of an array of NumPy, version 1.0 of its format: the samples, and the axes of
 * one of them. */
static void add_array_header(const DtJudgeFile *file, DtText *text)
{
    enum { AHEAD = 10, ALIGN = 64 };
    const DtType *type = file->reader->types[0];
    DtText header = {0};
    dt_text_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,",
                   type->dtype == DT_BOOL   ? "|b1"
                   : file->dtype == DT_F32  ? "<f4"
                                            : "<i4",
                   (long long)(file->n / file->row));
    for (uint32_t a = 1; a < type->rank; a++)
        dt_text_printf(&header, " %lld,", (long long)type->axes[a].extent);
    dt_text_add(&header, "), }");
    while ((AHEAD + header.len + 1) % ALIGN != 0)
        dt_text_add(&header, " ");
    dt_text_add(&header, "\n");
    const char size[] = {(char)(header.len & 0xff), (char)(header.len >> 8)};
    dt_text_add_n(text, "\x93NUMPY\x01\x00", AHEAD - sizeof size);
    dt_text_add_n(text, size, sizeof size);
    dt_text_add_n(text, header.at, header.len);
    dt_text_free(&header);
}

static DtStatus write_file(const DtJudgeFile *file, const char *path)
{
    const int64_t size = dt_kinds_size(file->dtype);
    DtText text = {0};
    char bytes[sizeof(double)];
    if (file->reader->source.kind == DT_SOURCE_NPY)
        add_array_header(file, &text);
    for (int64_t i = 0; i < file->n; i++) {
        encode(file->dtype, file->numbers[i], bytes);
        dt_text_add_n(&text, bytes, (size_t)size);
    }
    const DtStatus status = dt_file_write(path, text.at, text.len);
    dt_text_free(&text);
    return status;
}

/* Writes the trial's held-out data to files and redirects the plan's sources there; all other data
 * is synthetic. */
static bool redirect(DtCliMachine *machine, Run *run)
{
    const DtJudgeTrial *trial = run->trial;
    for (uint32_t i = 0; i < trial->n_files; i++) {
        const char *path = dt_arena_printf(run->arena, "%s/data-%u", machine->scratch.path, i);
        const DtStatus status = write_file(&trial->files[i], path);
        if (!dt_status_ok(&status))
            return not_run(machine, "%s", status.message);
        DT_PUSH(run->arena, run->redirects,
                dt_arena_printf(run->arena, "%s=%s", trial->files[i].name, path));
    }
    for (uint32_t i = 0; trial->n_files && i < run->plan->n_readers; i++) {
        const char *name = dt_plan_str(run->plan, run->plan->readers[i].glob);
        bool has = !*name;
        for (uint32_t k = 0; k < run->redirects.n; k++)
            has |= strncmp(run->redirects.at[k], name, strlen(name)) == 0 &&
                   run->redirects.at[k][strlen(name)] == '=';
        if (!has)
            DT_PUSH(run->arena, run->redirects, dt_arena_printf(run->arena, "%s=synthetic", name));
        if (strchr(name, '=') || run->redirects.n > MOST_REDIRECTS)
            return not_run(machine, "names of data");
    }
    return true;
}

/* ---- trials ---- */

/* The plans of a program: of its layout, of two ranks that share samples, of one rank alone, and
 * with its own sources of data. */
typedef enum Image { OF_LAYOUT, OF_TWO, OF_ONE, OF_FILES } Image;

/* Two devices of the program's cluster, which share the samples: with `zero 1`, unless the
 * program's own layout has a `zero` line. False: the program has no such layout. */
static bool take_two(DtArena *arena, DtLowerOptions *options)
{
    const DtProgram *program = dt_lower(arena, dt_diag_new(arena), options);
    const DtTrainConfig *train = program ? program->train : NULL;
    if (!train || !program->cluster || !program->parallel || !train->readers.n ||
        !train->readers.at[0].types[0] || !train->readers.at[0].types[0]->rank)
        return false;
    const char *cluster = program->cluster->name;
    DtOption *sets = DT_NEW_ARRAY(arena, DtOption, options->n_sets + 2);
    for (uint32_t i = 0; i < options->n_sets; i++)
        sets[i] = options->sets[i];
    sets[options->n_sets++] = (DtOption){dt_arena_printf(arena, "%s.nodes", cluster), "1"};
    sets[options->n_sets++] = (DtOption){dt_arena_printf(arena, "%s.gpus", cluster), "2"};
    options->sets = sets;
    options->block = dt_arena_printf(
        arena, "parallel %s on %s {\n  mesh resumed = 2\n  shard %s on resumed\n%s}\n",
        program->parallel->name, cluster, train->readers.at[0].types[0]->axes[0].name,
        program->parallel->zeros.n ? "" : "  zero 1 on resumed\n");
    return true;
}

/* Returns the options that lower the program for this image; NULL: the program has no such
 * layout. */
static const DtLowerOptions *options_of(DtArena *arena, const DtLowerOptions *options, Image image)
{
    DtLowerOptions *changed = DT_NEW(arena, DtLowerOptions);
    *changed = *options;
    changed->synthetic = image != OF_FILES;
    if (image == OF_TWO && !take_two(arena, changed))
        return NULL;
    if (image == OF_ONE) {
        changed->block = NULL;
        changed->n_lines = 0;
        changed->parallel = "none";
    }
    return changed;
}

/* Compiles the image's plan unless that was done before; false: there is none. */
static bool has_image(DtCliMachine *machine, const DtLowerOptions *options, Image which)
{
    DtCliImage *image = &machine->images[which];
    if (image->plan)
        return true;
    const DtLowerOptions *changed = options_of(machine->cli->arena, options, which);
    return changed && compile(machine, machine->cli->arena, changed,
                              which == OF_TWO || which == OF_ONE, &image->plan, &image->len);
}

/* The layout, other than the program's own, that resumes its checkpoint: two ranks that share the
 * samples, or one rank if the program does not compile for two. */
static Image choose_other(DtCliMachine *machine, const DtLowerOptions *options)
{
    if (!machine->has_no_other && has_image(machine, options, OF_TWO))
        return OF_TWO;
    machine->has_no_other = true;
    machine->why_not = NULL;
    return OF_ONE;
}

static bool run_trial(DtJudgeRunner *runner, DtArena *arena, const DtLowerOptions *options,
                      DtJudgeTrial *trial)
{
    DtCliMachine *machine = (DtCliMachine *)runner;
    const Image which = trial->is_resumed ? choose_other(machine, options)
                        : trial->n_files  ? OF_FILES
                                          : OF_LAYOUT;
    DtCliImage *image = &machine->images[which];
    Run *run = DT_NEW(arena, Run);
    *run = (Run){.arena = arena, .trial = trial, .plan_fd = -1, .trial_fd = -1, .said_fd = -1};
    runner->failed = false;
    if (!has_image(machine, options, which))
        return false;
    DtPlan *plan = DT_NEW(arena, DtPlan);
    DtStatus status = dt_read_bytes(image->plan, image->len, plan);
    if (!dt_status_ok(&status))
        DT_BUG("the plan fails its checks: %s", status.message);
    run->plan = dt_stages_expand(arena, plan);
    run->folder = folder_of(machine, trial);
    DT_PUSH(machine->cli->arena, machine->runs, run);
    const bool good = redirect(machine, run) && run_plan(machine, run, image->plan, image->len);
    runner->failed = machine->wrong != NULL;
    return good;
}

DtJudgeVerdict dt_cli_machine(DtCli *cli, const DtJudgeProgram *task, const DtJudgement *judgement,
                              DtCliMachine *ret_machine, DtJudgeMachine *ret_judged)
{
    *ret_machine = (DtCliMachine){
        .runner = {.run = run_trial}, .cli = cli, .interprets = judgement->work < LITTLE_WORK};
    *ret_judged = (DtJudgeMachine){0};
    if (cli->no_kernels)
        not_run(ret_machine, "--no-kernels");
    else if (!dt_hostcc_runs(cli->target) && strcmp(cli->target, "interpreted") != 0)
        not_run(ret_machine, "this processor (%s) does not run code for %s", dt_hostcc_native(),
                cli->target);
    if (ret_machine->why_not)
        return DT_JUDGE_REJECTED;
    ret_machine->scratch = dt_cli_scratch_make(cli->arena);
    ret_machine->runner.saves = ret_machine->scratch.path != NULL;
    DtJudgeVerdict verdict =
        dt_judge_machine(cli->arena, task, judgement->options, &ret_machine->runner, ret_judged);
    for (uint32_t i = 0; i < ret_machine->runs.n; i++)
        close_trial(ret_machine->runs.at[i]);
    dt_cli_scratch_remove(&ret_machine->scratch);
    return verdict;
}
