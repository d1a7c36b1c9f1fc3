/* SPDX-License-Identifier: Apache-2.0 */
/* Data of a program that `dtc init` writes for a model whose samples are not made of text, such as
 * one of images: an array of NumPy for each argument of the model, and one of labels.
 *
 *   model vit(pixel_values[batch, rgb, height = image, width = image]) -> [batch, classes]
 *
 *   pixel_values[batch, rgb, height = 224, width = 224] = npy("mine/pixel_values.npy", to = 0.9)
 *   i32 labels[batch] = npy("mine/labels.npy", to = 0.9)
 */
#include "cli/init.h"

#include <string.h>

#define LABELS "labels"

/* Returns the entry that computes the model's results; NULL: the program has none. */
static const DtFunc *find_entry(const DtProgram *program)
{
    for (uint32_t i = 0; i < program->module->entries.n; i++)
        if (program->module->entries.at[i].kind == DT_ENTRY_PREDICT)
            return program->module->entries.at[i].func;
    return NULL;
}

const DtType *dt_initarrays_type(const DtInitCommand *init, const char *name)
{
    const DtFunc *entry = find_entry(init->program);
    for (uint32_t i = 0; entry && i < entry->ops.n; i++)
        if (entry->ops.at[i]->kind == DT_OP_INPUT && !strcmp(entry->ops.at[i]->text, name))
            return entry->ops.at[i]->out[0]->type;
    return NULL;
}

static bool is_dim(const DtInitCommand *init, const char *name)
{
    for (uint32_t i = 0; i < init->program->dims.n; i++)
        if (!strcmp(init->program->dims.at[i].name, name))
            return true;
    return false;
}

static const char *copied(const DtInitCommand *init, DtText *text)
{
    const char *copy = dt_arena_strndup(init->cli->arena, text->at ? text->at : "", text->len);
    dt_text_free(text);
    return copy;
}

/* Adds "name[batch, height = 224]". */
static void add_input(const DtInitCommand *init, const DtFormal *formal, DtText *text)
{
    const DtType *type = dt_initarrays_type(init, formal->name.text);
    dt_text_printf(text, "%s%s%s[", formal->type.dtype ? formal->type.dtype : "",
                   formal->type.dtype ? " " : "", formal->name.text);
    for (uint32_t i = 0; i < formal->type.axes.n; i++) {
        const char *name = formal->type.axes.at[i].name.text;
        dt_text_printf(text, "%s%s", i ? ", " : "", name);
        if (type && !is_dim(init, name))
            dt_text_printf(text, " = %lld", (long long)dt_type_extent(type, name));
    }
    dt_text_add(text, "]");
}

/* Adds the axes of the labels: those of the result but for the last, the classes. */
static void add_over(const DtInitCommand *init, DtText *text)
{
    const DtAstType *result = &init->def->results.at[0];
    for (uint32_t i = 0; i + 1 < result->axes.n; i++)
        dt_text_printf(text, "%s%s", i ? ", " : "", result->axes.at[i].name.text);
}

const char *dt_initarrays_input(const DtInitCommand *init, const DtFormal *formal)
{
    DtText text = {0};
    add_input(init, formal, &text);
    return copied(init, &text);
}

const char *dt_initarrays_train(const DtInitCommand *init, double to)
{
    const DtDef *def = init->def;
    DtText text = {0}, over = {0};
    add_over(init, &over);
    for (uint32_t i = 0; i < def->formals.n; i++) {
        dt_text_add(&text, "  ");
        add_input(init, &def->formals.at[i], &text);
        dt_text_printf(&text, " = npy(\"mine/%s.npy\", to = %g)\n", def->formals.at[i].name.text,
                       to);
    }
    dt_text_printf(&text, "  i32 " LABELS "[%s] = npy(\"mine/" LABELS ".npy\", to = %g)\n", over.at,
                   to);
    dt_text_printf(&text, "  each = xent[%s](%s(",
                   def->results.at[0].axes.at[def->results.at[0].axes.n - 1].name.text,
                   init->model);
    for (uint32_t i = 0; i < def->formals.n; i++)
        dt_text_printf(&text, "%s%s", i ? ", " : "", def->formals.at[i].name.text);
    dt_text_printf(&text,
                   "), " LABELS ")\n  loss = sum[%s](each) / max(sum[%s](f32(" LABELS
                   " >= 0)), 1)\n",
                   over.at, over.at);
    dt_text_free(&over);
    return copied(init, &text);
}

const char *dt_initarrays_held(const DtInitCommand *init, double from)
{
    DtText text = {0};
    dt_text_add(&text, "(");
    for (uint32_t i = 0; i < init->def->formals.n; i++)
        dt_text_printf(&text, "npy(\"mine/%s.npy\", from = %g), ",
                       init->def->formals.at[i].name.text, from);
    dt_text_printf(&text, "npy(\"mine/" LABELS ".npy\", from = %g))", from);
    return copied(init, &text);
}

const char *dt_initarrays_files(const DtInitCommand *init)
{
    DtText text = {0};
    for (uint32_t i = 0; i < init->def->formals.n; i++)
        dt_text_printf(&text, "mine/%s.npy, ", init->def->formals.at[i].name.text);
    dt_text_add(&text, "mine/" LABELS ".npy");
    return copied(init, &text);
}

int dt_initarrays_check(const DtInitCommand *init)
{
    const DtDef *def = init->def;
    bool good = def->formals.n > 0 && def->results.n == 1 && def->results.at[0].axes.n >= 2;
    for (uint32_t i = 0; i < def->formals.n; i++)
        good &= def->formals.at[i].type.axes.n > 0 &&
                dt_initarrays_type(init, def->formals.at[i].name.text);
    if (!good)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "init writes programs for models that give classes of arrays, and `%s` "
                           "of %s is none: include the file and write the `train` block",
                           init->model, init->file);
    if (init->cli->text)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--text: no samples of text are known for `%s` of %s%s. Without --text "
                           "init writes a program that reads arrays of NumPy: %s",
                           init->model, init->file,
                           init->lacks_token ? " without a tokenizer.json that has a mask token or "
                                               "sentinels"
                                             : "",
                           dt_initarrays_files(init));
    return DT_EXIT_OK;
}
