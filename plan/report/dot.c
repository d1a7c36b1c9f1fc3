/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as a graph for Graphviz: `dtc --report=dot | dot -Tsvg`. A training step:
 *
 *   a cluster for each stage           its memory; with a pipeline one node for forward, backward
 *                                      and gradients of each piece and one for the update; else the
 *                                      parts of the step one behind the other, those of a
 *                                      micro-batch in a cluster of their own
 *   arrows between stages              messages: bytes of a micro-batch
 *   a hexagon for each set of mesh axes in it: collectives, bytes that a rank receives in a step;
 *                                      dashed lines come from what runs them
 *   a table                            tensors that last, with placement and bytes (dot_stores.c)
 *
 * Of many stages the first and the last are drawn and what lies between them is one node, unless
 * details are asked for. All numbers are of one rank and one step. */
#include "plan/report/dot.h"

#include "plan/kinds.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>



/* The work of a node during a step, on one rank. */
typedef struct Work {
    int64_t products, kernels;
    double flops, seconds;
    double *received; /* bytes by group of the plan */
    /* a line of the program: file is a string of the plan; 0: none so far */
    uint32_t file, first_line, last_line;
} Work;

typedef struct Graph {
    const DtSummary *s;
    const DtPlan *plan;
    DtText *text;
    DtArena *arena;
    bool details;
    int64_t *items;   /* by item of the schedule: how often it runs on the stage being drawn */
    uint32_t stage, n_nodes;
    int64_t *kinds;   /* [group * DT_INST_KINDS + kind]: collectives of the stage */
} Graph;

/* ---- text ---- */

/* Appends text inside of quotes. */
static void add_words(DtText *text, const char *words)
{
    DtText shown = {0};
    dt_text_add_visible(&shown, words, strlen(words));
    for (const char *c = shown.at ? shown.at : ""; *c; c++) {
        if (*c == '"' || *c == '\\')
            dt_text_add(text, "\\");
        dt_text_add_n(text, c, 1);
    }
    dt_text_free(&shown);
}

static void add_mesh(const DtPlan *plan, uint32_t mask, DtText *text)
{
    const char *gap = "";
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (mask >> m & 1) {
            dt_text_add(text, gap);
            add_words(text, dt_plan_str(plan, plan->mesh[m].name));
            gap = " ";
        }
}

/* ---- work ---- */

static Work new_work(const Graph *g)
{
    return (Work){.received = DT_NEW_ARRAY(g->arena, double, g->plan->n_groups + 1)};
}

/* Adds to the work the line of the program (not of the library) from which the instruction comes,
 * if there is one. */
static void add_line(const Graph *g, const DtPlanInst *inst, Work *work)
{
    if (inst->span >= g->plan->n_spans || !g->plan->spans[inst->span].line)
        return;
    const DtPlanSpan *span = &g->plan->spans[inst->span];
    if (strcmp(dt_plan_str(g->plan, span->file), dt_plan_str(g->plan, g->plan->meta->source)) != 0)
        return;
    if (!work->file)
        work->first_line = work->last_line = span->line;
    work->file = span->file;
    work->first_line = span->line < work->first_line ? span->line : work->first_line;
    work->last_line = span->line > work->last_line ? span->line : work->last_line;
}

static void add_inst(Graph *g, const DtPlanInst *inst, int64_t runs, Work *work)
{
    const double times = (double)runs;
    if (inst->kind == DT_INST_GEMM) {
        work->products += runs;
        work->flops += times * dt_report_gemm_flops(&g->plan->gemms[inst->ref]);
    }
    work->kernels += inst->kind == DT_INST_KERNEL ? runs : 0;
    if (g->s->has_time)
        work->seconds += times * g->s->prices[g->stage][inst - g->plan->insts].seconds;
    if (dt_report_is_collective(inst)) {
        work->received[inst->ref] += times * dt_report_received(g->plan, inst);
        g->kinds[inst->ref * DT_INST_KINDS + inst->kind] += runs;
    }
    if (inst->kind != DT_INST_WAIT)
        add_line(g, inst, work);
}

static void add_items(Graph *g, uint32_t first, uint32_t count, Work *work)
{
    for (uint32_t i = first; i < first + count; i++) {
        const DtPlanBody *body = g->items[i] ? &g->plan->bodies[g->plan->schedule[i].body] : NULL;
        for (uint32_t k = 0; body && k < body->n_insts; k++)
            add_inst(g, &g->plan->insts[body->first_inst + k], g->items[i], work);
    }
}

static bool is_idle(const Graph *g, const Work *work)
{
    bool idle = work->products + work->kernels == 0;
    for (uint32_t k = 0; k < g->plan->n_groups; k++)
        idle = idle && work->received[k] == 0;
    return idle;
}

/* ---- nodes ---- */

static void add_work(const Graph *g, const Work *work, DtText *text)
{
    char words[32];
    if (work->products)
        dt_text_printf(text, "\\n%lld products, %s", (long long)work->products,
                       dt_people_flops(words, work->flops));
    if (work->kernels)
        dt_text_printf(text, "\\n%lld kernels", (long long)work->kernels);
    if (g->s->has_time && work->seconds > 0)
        dt_text_printf(text, "\\n%s", dt_people_seconds(words, work->seconds));
    if (work->file && work->first_line == work->last_line)
        dt_text_printf(text, "\\nline %u", work->first_line);
    else if (work->file)
        dt_text_printf(text, "\\nlines %u to %u", work->first_line, work->last_line);
}

/* Draws dashed lines from a node to the hexagons of its collectives. */
static void add_collectives(const Graph *g, const char *node, const Work *work)
{
    char words[32];
    for (uint32_t k = 0; k < g->plan->n_groups; k++) {
        double received = work->received[k];
        bool repeated = false;
        for (uint32_t j = 0; j < g->plan->n_groups; j++) {
            if (j == k || g->plan->groups[j].mask != g->plan->groups[k].mask)
                continue;
            repeated = repeated || (j < k && work->received[j] > 0);
            received += work->received[j];
        }
        if (work->received[k] > 0 && !repeated)
            dt_text_printf(
                g->text,
                "  %s -> c%u_%x [style=dashed, color=\"#b07aa1\", dir=none, constraint=false, "
                "label=\"%s\"];\n",
                node, g->stage, g->plan->groups[k].mask, dt_people_bytes(words, received));
    }
}

static void add_node(Graph *g, const char *node, const char *title, const char *colour,
                     const Work *work)
{
    dt_text_printf(g->text, "    %s [fillcolor=\"%s\", label=\"", node, colour);
    DtText words = {0};
    add_work(g, work, &words);
    add_words(g->text, title);
    if (words.len)
        dt_text_add(g->text, words.at + (*title ? 0 : 2)); /* begins the first line with a break */
    dt_text_add(g->text, "\"];\n");
    dt_text_free(&words);
    add_collectives(g, node, work);
}

/* Draws the traffic of the stage over each set of mesh axes, by kind. */
static void add_hexagons(Graph *g, const double *received)
{
    const DtPlan *plan = g->plan;
    char words[32];
    for (uint32_t k = 0; k < plan->n_groups; k++) {
        int64_t runs[DT_INST_KINDS] = {0}, all = 0;
        double bytes = 0;
        bool repeated = false;
        for (uint32_t j = 0; j < plan->n_groups; j++) {
            if (plan->groups[j].mask != plan->groups[k].mask)
                continue;
            repeated = repeated || j < k;
            bytes += received[j];
            for (uint32_t i = 0; i < DT_INST_KINDS; i++) {
                runs[i] += g->kinds[j * DT_INST_KINDS + i];
                all += g->kinds[j * DT_INST_KINDS + i];
            }
        }
        if (repeated || all == 0)
            continue;
        dt_text_printf(g->text, "    c%u_%x [shape=hexagon, fillcolor=\"#f2e6f0\", label=\"over ",
                       g->stage, plan->groups[k].mask);
        add_mesh(plan, plan->groups[k].mask, g->text);
        for (uint32_t i = 0; i < DT_INST_KINDS; i++)
            if (runs[i])
                dt_text_printf(g->text, "\\n%lld %s", (long long)runs[i], dt_kinds_inst(i));
        dt_text_printf(g->text, "\\n%s received\"];\n", dt_people_bytes(words, bytes));
    }
}

/* ---- a step without a pipeline ---- */

/* Returns the number of the item after the END of the LOOP at `at`. */
static uint32_t behind_loop(const DtPlan *plan, uint32_t at)
{
    uint32_t depth = 0;
    do {
        depth += plan->schedule[at].kind == DT_SCHED_LOOP;
        depth -= plan->schedule[at].kind == DT_SCHED_END;
        at++;
    } while (depth > 0);
    return at;
}

/* Adds one node for the items, and an arrow from the previous node. */
static void add_block(Graph *g, uint32_t first, uint32_t end, const char *title, double *received)
{
    char node[DT_DOT_NAME];
    Work work = new_work(g);
    add_items(g, first, end - first, &work);
    if (is_idle(g, &work))
        return;
    snprintf(node, sizeof node, "n%u_%u", g->stage, g->n_nodes);
    add_node(g, node, title, "#dbe9f6", &work);
    if (g->n_nodes > 0)
        dt_text_printf(g->text, "    n%u_%u -> %s;\n", g->stage, g->n_nodes - 1, node);
    g->n_nodes++;
    for (uint32_t k = 0; k < g->plan->n_groups; k++)
        received[k] += work.received[k];
}

/* Adds nodes for items, in order: one for each loop, and one for the items between loops. */
static void add_sequence(Graph *g, uint32_t first, uint32_t end, const char *name, double *received)
{
    const DtPlanSchedule *items = g->plan->schedule;
    uint32_t from = first;
    char title[64];
    for (uint32_t i = first; i < end;) {
        if (items[i].kind != DT_SCHED_LOOP) {
            i++;
            continue;
        }
        const uint32_t behind = behind_loop(g->plan, i);
        add_block(g, from, i, name, received);
        from = behind;
        if (items[i].reg == 0) {
            dt_text_printf(g->text,
                           "    subgraph cluster_micro%u_%u {\n    label=\"%d micro-batches\"; "
                           "bgcolor=\"#f7f7f7\";\n",
                           g->stage, g->n_nodes, items[i].count);
            add_sequence(g, i + 1, behind - 1, "", received);
            dt_text_add(g->text, "    }\n");
        } else {
            const char *order = items[i].step < 0 ? ", from the last" : "";
            snprintf(title, sizeof title, "%d iterations%s", items[i].count, order);
            add_block(g, i, behind, title, received);
        }
        i = behind;
    }
    add_block(g, from, end, name, received);
}

/* ---- pieces ---- */

/* Whether a step of the stage being drawn calls the entry. */
static bool is_called(const Graph *g, const DtPlanEntry *entry)
{
    for (uint32_t e = 0; e < g->plan->n_entries; e++) {
        const DtPlanEntry *step = &g->plan->entries[e];
        if (!dt_plan_is_step(g->plan, step->name) || !dt_plan_on_stage(step->stage, g->stage))
            continue;
        for (uint32_t i = step->first; i < step->first + step->count; i++)
            if (g->plan->schedule[i].kind == DT_SCHED_CALL &&
                &g->plan->entries[g->plan->schedule[i].body] == entry)
                return true;
    }
    return false;
}

/* all forms of a piece's entry share one node */
static void add_part(Graph *g, const DtDotPart *part, double *received)
{
    static const struct { char kind; const char *name, *colour; } looks[] = {
        {'f', "forward", "#bcd4ea"}, {'b', "backward", "#c3e0c0"}, {'w', "gradients", "#fbd9b0"}};
    char node[DT_DOT_NAME], title[64];
    Work work = new_work(g);
    for (uint32_t e = 0; e < g->plan->n_entries; e++) {
        const DtPlanEntry *entry = &g->plan->entries[e];
        DtDotPart other;
        if (dt_plan_on_stage(entry->stage, g->stage) && dt_dot_part(g->plan, entry, &other) &&
            other.kind == part->kind && other.piece == part->piece)
            add_items(g, entry->first, entry->count, &work);
    }
    dt_dot_name_part(part, node);
    for (int i = 0; i < 3; i++)
        if (looks[i].kind == part->kind) {
            snprintf(title, sizeof title, "%s of piece %u", looks[i].name, part->piece);
            add_node(g, node, title, looks[i].colour, &work);
        }
    for (uint32_t k = 0; k < g->plan->n_groups; k++)
        received[k] += work.received[k];
}

static void add_parts(Graph *g, double *received)
{
    DT_VEC(DtDotPart) parts = {0};
    for (uint32_t e = 0; e < g->plan->n_entries; e++) {
        const DtPlanEntry *entry = &g->plan->entries[e];
        DtDotPart part;
        bool repeated = false;
        if (!dt_plan_on_stage(entry->stage, g->stage) || !dt_dot_part(g->plan, entry, &part) ||
            !is_called(g, entry))
            continue;
        for (uint32_t i = 0; i < parts.n; i++)
            repeated =
                repeated || (parts.at[i].kind == part.kind && parts.at[i].piece == part.piece);
        if (repeated)
            continue;
        DT_PUSH(g->arena, parts, part);
        add_part(g, &part, received);
    }
}

/* ---- stages ---- */

static bool runs_pieces(const Graph *g, const DtPlanEntry *entry)
{
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++)
        if (g->plan->schedule[i].kind == DT_SCHED_CALL)
            return true;
    return false;
}

static void add_update(Graph *g, const DtPlanEntry *entry, double *received)
{
    char node[DT_DOT_NAME];
    Work work = new_work(g);
    add_items(g, entry->first, entry->count, &work);
    snprintf(node, sizeof node, "u%u_%u", g->stage, (uint32_t)(entry - g->plan->entries));
    if (is_idle(g, &work))
        return;
    const bool around = runs_pieces(g, entry);
    add_node(g, node, around ? "between pieces" : dt_plan_str(g->plan, entry->name), "#eeeeee",
             &work);
    for (uint32_t k = 0; k < g->plan->n_groups; k++)
        received[k] += work.received[k];
}

static void add_stage_label(const Graph *g)
{
    DtMemory memory;
    char need[32];
    const uint32_t stages = dt_plan_stages(g->plan), ranks = g->plan->meta->n_ranks / stages;
    dt_memory_stage(g->plan, g->stage, g->s->is_gpu, &memory);
    if (stages > 1)
        dt_text_printf(g->text, "stage %u: ", g->stage);
    dt_text_printf(g->text, "%u rank%s, %s each", ranks, ranks == 1 ? "" : "s",
                   dt_people_bytes(need, (double)memory.reserved));
    if (!g->s->has_time || !g->s->model.n_kinds)
        return;
    DtArena *arena = dt_arena_new();
    dt_text_printf(g->text, ", %s", dt_nodes_say_stage(arena, g->plan, &g->s->model, g->stage));
    dt_arena_free(arena);
}

static void add_stage(Graph *g, uint32_t stage)
{
    const DtPlan *plan = g->plan;
    double *received = DT_NEW_ARRAY(g->arena, double, plan->n_groups + 1);
    g->stage = stage;
    g->n_nodes = 0;
    memset(g->items, 0, plan->n_schedule * sizeof *g->items);
    memset(g->kinds, 0, plan->n_groups * DT_INST_KINDS * sizeof *g->kinds);
    for (uint32_t e = 0; e < plan->n_entries; e++)
        if (dt_plan_is_step(plan, plan->entries[e].name) &&
            dt_plan_on_stage(plan->entries[e].stage, stage))
            dt_report_add_items(plan, e, g->items);
    dt_text_printf(g->text, "  subgraph cluster_stage%u {\n    bgcolor=\"#fcfcfc\"; label=\"",
                   stage);
    add_stage_label(g);
    dt_text_add(g->text, "\";\n");
    add_parts(g, received);
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_plan_is_step(plan, entry->name) || !dt_plan_on_stage(entry->stage, stage))
            continue;
        if (dt_plan_stages(plan) > 1)
            add_update(g, entry, received);
        else
            add_sequence(g, entry->first, entry->first + entry->count,
                         dt_plan_str(plan, entry->name), received);
    }
    add_hexagons(g, received);
    dt_dot_stores(g->s, stage, g->details, g->text);
    dt_text_add(g->text, "  }\n");
}

/* ---- the graph ---- */

static void add_head(const DtSummary *s, DtText *text)
{
    const DtPlan *plan = s->plan;
    char words[32];
    dt_text_printf(
        text,
        "digraph plan {\n  graph [fontname=\"Helvetica\", rankdir=%s, labelloc=t, fontsize=16, "
        "label=\"",
        dt_plan_stages(plan) > 1 ? "TB" : "LR");
    add_words(text, dt_plan_str(plan, plan->meta->source));
    dt_text_printf(text, ": a training step on %u rank%s", plan->meta->n_ranks,
                   plan->meta->n_ranks == 1 ? "" : "s");
    for (uint32_t m = 0; m < plan->n_mesh; m++) {
        dt_text_add(text, m ? ", " : ": ");
        add_words(text, dt_plan_str(plan, plan->mesh[m].name));
        dt_text_printf(text, " %u", plan->mesh[m].size);
    }
    if (s->has_time)
        dt_text_printf(text, "; %s", dt_people_seconds(words, s->sim.seconds));
    dt_text_printf(
        text,
        "\\n%u micro-batch%s; numbers are of one rank and a whole step, messages of one micro-batch"
        "\"];\n",
        plan->meta->n_micro, plan->meta->n_micro == 1 ? "" : "es");
    dt_text_add(text,
                "  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"filled,rounded\", "
                "fillcolor=\"white\"];\n  edge [fontname=\"Helvetica\", fontsize=10];\n");
}

void dt_dot_report(const DtSummary *s, bool details, DtText *ret_text)
{
    const DtPlan *plan = s->plan;
    const uint32_t stages = dt_plan_stages(plan);
    Graph graph = {.s = s,
                   .plan = plan,
                   .text = ret_text,
                   .arena = dt_arena_new(),
                   .details = details},
          *g = &graph;
    g->items = DT_NEW_ARRAY(g->arena, int64_t, plan->n_schedule + 1);
    g->kinds = DT_NEW_ARRAY(g->arena, int64_t, plan->n_groups * DT_INST_KINDS + 1);
    add_head(s, ret_text);
    for (uint32_t stage = 0; stage < stages; stage++) {
        if (dt_dot_draws(g->plan, g->details, stage))
            add_stage(g, stage);
        else if (stage == DT_DOT_ENDS)
            dt_text_printf(
                ret_text,
                "  rest [shape=box3d, label=\"stages %u to %u\\nare drawn with --details\"];\n",
                DT_DOT_ENDS, stages - DT_DOT_ENDS - 1);
    }
    dt_dot_links(g->arena, plan, g->details, ret_text);
    dt_text_add(ret_text, "}\n");
    dt_arena_free(g->arena);
}
