/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline of a module as text, after its entries:
 *
 *   pipeline "1f1b" mesh=pipe stages=(0, 1) micro=4 {
 *     run grad {
 *       piece 0 : f=grad.f0 b=grad.b0
 *       piece 1 : f=grad.f1 b=grad.b1
 *       channel 0 : 0 -> 1 slots=1 stores=(7)
 *       channel 1 : 1 -> 0 slots=1 stores=(9)
 *       stage 0 : "0F0 0SEND_F0 (0F1 0SEND_F1 0RECV_B0 0B0)*3+1 0RECV_B3 0B3"
 *       stage 1 : "(1RECV_F0 1F0 1B0 1SEND_B0)*4+1"
 *     }
 *   }
 *
 * stages: that of each piece. `run grad direct`: messages need no slots in transit (ir/pipeline.h).
 * The names of an entry's other twins follow its own name; an action `0F3.1` calls the first of
 * them. The number of stages is the size of the mesh axis. */
#include "ir/irtext.h"

#include "ir/irtext_lex.h"
#include "ir/quote.h"

#include <string.h>

/* ---- printing ---- */

static void print_piece(const DtModule *module, uint32_t piece, const DtPieceEntries *entries,
                        DtText *text)
{
    const struct {
        const char *key;
        int32_t entry;
    } parts[] = {{"f", entries->f}, {"b", entries->b}, {"w", entries->w}};
    dt_text_printf(text, "    piece %u :", piece);
    for (size_t i = 0; i < DT_COUNT(parts); i++) {
        if (parts[i].entry < 0 || (uint32_t)parts[i].entry >= module->entries.n)
            continue;
        dt_text_printf(text, " %s=", parts[i].key);
        dt_quote_add(text, module->entries.at[parts[i].entry].name);
        for (uint32_t k = 0; k < entries->twins[i].n; k++) {
            dt_text_printf(text, " %s=", parts[i].key);
            dt_quote_add(text, module->entries.at[entries->twins[i].at[k]].name);
        }
    }
    dt_text_add(text, "\n");
}

static void print_channel(uint32_t number, const DtChannel *channel, DtText *text)
{
    dt_text_printf(text, "    channel %u : %u -> %u slots=%lld stores=(", number,
                   channel->from_piece, channel->to_piece, (long long)channel->slots);
    for (uint32_t i = 0; i < channel->stores.n; i++)
        dt_text_printf(text, "%s%u", i ? ", " : "", channel->stores.at[i]->index);
    dt_text_add(text, ")\n");
}

static void print_run(const DtModule *module, const DtPipelineRun *run, DtText *text)
{
    const DtPipelineSchedule *pipeline = module->pipeline;
    dt_text_add(text, "  run ");
    dt_quote_add(text, dt_entry_kind_name(run->kind));
    dt_text_add(text, run->direct ? " direct {\n" : " {\n");
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        print_piece(module, i, &run->pieces[i], text);
    for (uint32_t i = 0; i < run->channels.n; i++)
        print_channel(i, &run->channels.at[i], text);
    for (uint32_t i = 0; i < pipeline->n_stages; i++) {
        dt_text_printf(text, "    stage %u : \"", i);
        dt_pipeline_print_actions(run, &run->stages[i], text);
        dt_text_add(text, "\"\n");
    }
    dt_text_add(text, "  }\n");
}

void dt_irtext_print_pipeline(const DtModule *module, DtText *ret_text)
{
    const DtPipelineSchedule *pipeline = module->pipeline;
    if (!pipeline)
        return;
    dt_text_printf(ret_text, "pipeline \"%s\" mesh=", pipeline->schedule);
    dt_quote_add(ret_text,
                 pipeline->mesh < module->mesh.n ? module->mesh.axes[pipeline->mesh].name : NULL);
    dt_text_add(ret_text, " stages=(");
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        dt_text_printf(ret_text, "%s%u", i ? ", " : "", pipeline->stage_of[i]);
    dt_text_printf(ret_text, ") micro=%lld {\n", (long long)pipeline->n_micro);
    for (uint32_t i = 0; i < pipeline->runs.n; i++)
        print_run(module, &pipeline->runs.at[i], ret_text);
    dt_text_add(ret_text, "}\n");
}

/* ---- reading ---- */

static bool expect_key(DtIrLex *lex, const char *word)
{
    if (!dt_irlex_is_word(lex, word))
        return dt_irlex_fail(lex, "expected `%s=`", word);
    return dt_irlex_key(lex, word);
}

/* Reads `number :` after a word; the number must be `next`, the next one in order. */
static bool numbered(DtIrLex *lex, int64_t next)
{
    int64_t number;
    if (!dt_irlex_integer(lex, 0, UINT32_MAX, &number))
        return false;
    if (number != next)
        return dt_irlex_fail(lex, "pieces, channels and stages are numbered 0, 1, ...");
    return dt_irlex_expect(lex, ':');
}

static int32_t read_entry(DtIrLex *lex, const DtModule *module, const char *part)
{
    if (!dt_irlex_key(lex, part))
        return -1;
    const char *name = dt_irlex_name(lex);
    const DtEntryPoint *entry = name ? dt_entry_named(module, name) : NULL;
    if (entry)
        return (int32_t)(entry - module->entries.at);
    dt_irlex_fail(lex, "a piece names an entry that does not exist");
    return -1;
}

/* Reads the entries of a piece, each followed by its other twins. */
static void read_piece(DtIrLex *lex, DtModule *module, DtPieceEntries *entries)
{
    static const char *const keys[] = {"f", "b", "w"};
    int32_t *const main[] = {&entries->f, &entries->b, &entries->w};
    for (size_t k = 0; k < DT_COUNT(keys); k++) {
        *main[k] = read_entry(lex, module, keys[k]);
        for (int32_t twin; *main[k] >= 0 && (twin = read_entry(lex, module, keys[k])) >= 0;)
            DT_PUSH(module->arena, entries->twins[k], twin);
    }
}

static bool read_channel(DtIrLex *lex, DtModule *module, DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = module->pipeline;
    DtChannel channel = {0};
    int64_t from, to, store;
    if (!numbered(lex, run->channels.n) || !dt_irlex_integer(lex, 0, pipeline->n_pieces - 1, &from))
        return false;
    if (lex->token != DT_IR_ARROW)
        return dt_irlex_fail(lex, "expected `->`");
    dt_irlex_next(lex);
    if (!dt_irlex_integer(lex, 0, pipeline->n_pieces - 1, &to) || !expect_key(lex, "slots") ||
        !dt_irlex_integer(lex, 1, INT32_MAX, &channel.slots) || !expect_key(lex, "stores") ||
        !dt_irlex_expect(lex, '('))
        return false;
    channel.from_piece = (uint32_t)from;
    channel.to_piece = (uint32_t)to;
    channel.from = pipeline->stage_of[from];
    channel.to = pipeline->stage_of[to];
    do {
        if (!dt_irlex_integer(lex, 0, (int64_t)module->stores.n - 1, &store))
            return false;
        DT_PUSH(module->arena, channel.stores, module->stores.at[store]);
    } while (dt_irlex_take(lex, ','));
    DT_PUSH(module->arena, run->channels, channel);
    return dt_irlex_expect(lex, ')');
}

static bool read_stage(DtIrLex *lex, DtArena *arena, const DtPipelineRun *run, uint32_t stage)
{
    const char *problem;
    if (!numbered(lex, stage))
        return false;
    if (lex->token != DT_IR_NAME)
        return dt_irlex_fail(lex, "expected the actions of a stage as a string");
    if (!dt_pipeline_read_actions(arena, run, lex->name, &run->stages[stage], &problem))
        return dt_irlex_fail(lex, "%s", problem);
    dt_irlex_next(lex);
    return true;
}

static bool read_run(DtIrLex *lex, DtModule *module)
{
    const DtPipelineSchedule *pipeline = module->pipeline;
    DtEntryPoint of = {0};
    const char *name = dt_irlex_name(lex);
    if (name && (!dt_entry_read(name, &of) || of.part != DT_PART_WHOLE || of.number >= 0))
        return dt_irlex_fail(lex, "`%s` is no entry point that is cut", name);
    DtPipelineRun run = {.kind = of.kind};
    run.pieces = DT_NEW_ARRAY(module->arena, DtPieceEntries, pipeline->n_pieces);
    run.stages = DT_NEW_ARRAY(module->arena, DtStageActions, pipeline->n_stages);
    run.direct = dt_irlex_take_word(lex, "direct");
    if (!dt_irlex_expect(lex, '{'))
        return false;
    for (uint32_t i = 0; i < pipeline->n_pieces; i++) {
        if (!dt_irlex_take_word(lex, "piece") || !numbered(lex, i))
            return dt_irlex_fail(lex, "expected `piece %u`", i);
        read_piece(lex, module, &run.pieces[i]);
    }
    while (dt_irlex_take_word(lex, "channel"))
        if (!read_channel(lex, module, &run))
            return false;
    for (uint32_t i = 0; i < pipeline->n_stages; i++)
        if (!dt_irlex_take_word(lex, "stage") || !read_stage(lex, module->arena, &run, i))
            return dt_irlex_fail(lex, "expected `stage %u`", i);
    DT_PUSH(module->arena, module->pipeline->runs, run);
    return dt_irlex_expect(lex, '}');
}

static bool read_pieces(DtIrLex *lex, DtModule *module)
{
    DtPipelineSchedule *pipeline = module->pipeline;
    DT_VEC(uint32_t) stages = {0};
    int64_t stage;
    if (!expect_key(lex, "stages") || !dt_irlex_expect(lex, '('))
        return false;
    do {
        if (!dt_irlex_integer(lex, 0, (int64_t)pipeline->n_stages - 1, &stage))
            return false;
        DT_PUSH(module->arena, stages, (uint32_t)stage);
    } while (dt_irlex_take(lex, ','));
    pipeline->stage_of = stages.at;
    pipeline->n_pieces = stages.n;
    return dt_irlex_expect(lex, ')');
}

static bool read_mesh(DtIrLex *lex, DtModule *module)
{
    DtPipelineSchedule *pipeline = module->pipeline;
    if (!expect_key(lex, "mesh"))
        return false;
    const char *name = dt_irlex_name(lex);
    for (uint32_t i = 0; name && i < module->mesh.n; i++) {
        if (module->mesh.axes[i].name != name)
            continue;
        pipeline->mesh = (uint8_t)i;
        pipeline->n_stages = (uint32_t)module->mesh.axes[i].size;
        if (pipeline->n_stages > DT_PIPELINE_STAGES)
            return dt_irlex_fail(lex, "a pipeline has more than %d stages", DT_PIPELINE_STAGES);
        return true;
    }
    return dt_irlex_fail(lex, "unknown mesh axis");
}

bool dt_irtext_read_pipeline(DtIrLex *lex, DtModule *module)
{
    if (module->pipeline)
        return dt_irlex_fail(lex, "a module has one pipeline");
    DtPipelineSchedule *pipeline = module->pipeline = DT_NEW(module->arena, DtPipelineSchedule);
    pipeline->schedule = dt_irlex_name(lex);
    if (!read_mesh(lex, module) || !read_pieces(lex, module) || !expect_key(lex, "micro") ||
        !dt_irlex_integer(lex, 1, DT_PIPELINE_MICRO, &pipeline->n_micro) ||
        !dt_irlex_expect(lex, '{'))
        return false;
    while (dt_irlex_take_word(lex, "run"))
        if (!read_run(lex, module))
            return false;
    return dt_irlex_expect(lex, '}');
}
