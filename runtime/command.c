/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the command line that continues a run, for messages that tell the user what to type
 * next. */
#include "runtime/command.h"

#include "plan/kinds.h"
#include "runtime/forms.h"

/* Adds `before`, then the word as a shell reads it. */
static void add_word(DtText *text, const char *before, const char *word)
{
    dt_text_add(text, before);
    dt_text_add_word(text, word);
}

void dt_command_resume(const DtRunOptions *options, const char *folder, int64_t steps, DtText *text)
{
    add_word(text, "dtrun ", options->plan_path);
    for (uint32_t i = 0; i < options->n_redirects; i++) {
        DtText redirect = {0};
        dt_text_printf(&redirect, "%s=%s", options->redirects[i].from, options->redirects[i].to);
        add_word(text, " --data ", redirect.at);
        dt_text_free(&redirect);
    }
    if (options->data_synthetic)
        dt_text_add(text, " --data synthetic");
    for (uint32_t i = 0; i < options->n_settings; i++)
        add_word(text, " --set ", options->settings[i]);
    if (steps >= 0)
        dt_text_printf(text, " --steps %lld", (long long)steps);
    if (options->device)
        add_word(text, " --device ", options->device);
    if (options->share_gpu)
        dt_text_add(text, " --share-gpu");
    if (options->comm)
        add_word(text, " --comm ", options->comm);
    if (options->windows)
        dt_text_add(text, " --windows");
    if (options->gemm != DT_GEMM_DEFAULT)
        dt_text_printf(text, " --gemm %s", dt_gemm_names[options->gemm]);
    /* The checkpoint contains the choices that these options make; so the options are left out. */
    if (options->algorithms_first)
        dt_text_add(text, " --algorithms first");
    if (options->attention != DT_ATTENTION_TIMED)
        dt_text_printf(text, " --attention %s",
                       options->attention == DT_ATTENTION_CUDNN ? "cudnn" : "generated");
    if (options->epilogues != DT_EPILOGUES_TIMED)
        dt_text_printf(text, " --epilogues %s", dt_forms_names[options->epilogues]);
    if (options->nodes > 1)
        dt_text_printf(text, " --nodes %lld --node %lld --meet %s", (long long)options->nodes,
                       (long long)options->node, options->meet);
    if (options->max_ranks > 0)
        dt_text_printf(text, " --max-ranks %lld", (long long)options->max_ranks);
    if (options->unproved)
        dt_text_add(text, " --unproved");
    add_word(text, " --resume ", folder);
}

void dt_command_export(const DtRunOptions *options, DtText *text)
{
    if (!options->export)
        return;
    add_word(text, " --export ", options->export);
    if (options->peft)
        dt_text_add(text, " --peft");
    if (options->no_average)
        dt_text_add(text, " --average none");
    if (options->names)
        add_word(text, " --names ", options->names);
    if (options->like)
        add_word(text, " --like ", options->like);
    if (options->export_dtype >= 0)
        dt_text_printf(text, " --dtype %s", dt_kinds_name((uint32_t)options->export_dtype));
}
