/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a plan: its pieces, and the messages between them. */
#include "plan/report/dot.h"

#include "plan/name.h"
#include "plan/report/people.h"

#include <stdlib.h>
#include <string.h>

bool dt_dot_draws(const DtPlan *plan, bool details, uint32_t stage)
{
    const uint32_t n = dt_plan_stages(plan);
    return n <= DT_DOT_ALL || details || stage < DT_DOT_ENDS || stage + DT_DOT_ENDS >= n;
}

/* Reads a name such as "grad.b3", "grad.b3.1"; false: the entry is no piece of a step. */
bool dt_dot_part(const DtPlan *plan, const DtPlanEntry *entry, DtDotPart *ret_part)
{
    const DtPlanName name = dt_plan_name(dt_plan_str(plan, entry->name));
    if (name.part < DT_PLAN_F)
        return false;
    *ret_part = (DtDotPart){(uint32_t)(entry->stage < 0 ? 0 : entry->stage), (uint32_t)name.number,
                            "fbw"[name.part - DT_PLAN_F]};
    return true;
}

void dt_dot_name_part(const DtDotPart *part, char node[DT_DOT_NAME])
{
    snprintf(node, DT_DOT_NAME, "p%c%u", part->kind, part->piece);
}

/* ---- messages ---- */

/* Finds the piece's part that sends the message of the body at `at`: of the channel's piece, the
 * part that was called last. */
static bool sender_of(const DtPlan *plan, const DtPlanEntry *step, uint32_t at, uint32_t to,
                      DtDotPart *ret_part)
{
    for (uint32_t i = at; i-- > step->first;) {
        const DtPlanSchedule *item = &plan->schedule[i];
        if (item->kind == DT_SCHED_CALL &&
            dt_dot_part(plan, &plan->entries[item->body], ret_part) &&
            (ret_part->kind == 'f' ? ret_part->piece + 1 == to
                                   : ret_part->kind == 'b' && ret_part->piece == to + 1))
            return true;
    }
    return false;
}

/* Finds the piece that receives from a channel: 12 in "grad.x.3@12". False: the name has no
 * piece. */
static bool receiver_of(const DtPlan *plan, const DtPlanChannel *channel, uint32_t *ret_piece)
{
    const char *at = strrchr(dt_plan_str(plan, channel->name), '@');
    *ret_piece = at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
    return at != NULL;
}

typedef struct Link {
    DtDotPart from;
    uint32_t to, to_stage, values;
    double bytes;
} Link;
typedef DT_VEC(Link) Links;

static void add_channel(DtArena *arena, const DtPlan *plan, const DtPlanEntry *step, uint32_t item,
                        uint32_t number, bool *seen, Links *links)
{
    const DtPlanChannel *channel = &plan->channels[number];
    Link link = {.to_stage = channel->to, .values = 1, .bytes = (double)channel->bytes};
    if (seen[number] || !receiver_of(plan, channel, &link.to) ||
        !sender_of(plan, step, item, link.to, &link.from))
        return;
    seen[number] = true;
    link.from.stage = channel->from;
    for (uint32_t i = 0; i < links->n; i++)
        if (links->at[i].to == link.to && links->at[i].from.kind == link.from.kind) {
            links->at[i].values++;
            links->at[i].bytes += link.bytes;
            return;
        }
    DT_PUSH(arena, *links, link);
}

static Links find_links(DtArena *arena, const DtPlan *plan)
{
    Links links = {0};
    bool *seen = DT_NEW_ARRAY(arena, bool, plan->n_channels + 1);
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *step = &plan->entries[e];
        for (uint32_t i = step->first;
             dt_plan_is_step(plan, step->name) && i < step->first + step->count; i++) {
            const DtPlanSchedule *item = &plan->schedule[i];
            const DtPlanBody *body = item->kind == DT_SCHED_RUN ? &plan->bodies[item->body] : NULL;
            for (uint32_t k = 0; body && k < body->n_insts; k++)
                if (plan->insts[body->first_inst + k].kind == DT_INST_SEND)
                    add_channel(arena, plan, step, i, plan->insts[body->first_inst + k].ref, seen,
                                &links);
        }
    }
    return links;
}

void dt_dot_links(DtArena *arena, const DtPlan *plan, bool details, DtText *text)
{
    const Links links = find_links(arena, plan);
    char words[32], from[DT_DOT_NAME], to[DT_DOT_NAME];
    for (uint32_t i = 0; i < links.n; i++) {
        const Link *link = &links.at[i];
        const DtDotPart part = {link->to_stage, link->to, link->from.kind};
        const bool forward = part.kind == 'f',
                   orders = forward && link->from.stage < link->to_stage;
        const bool begins = dt_dot_draws(plan, details, link->from.stage);
        const bool ends = dt_dot_draws(plan, details, part.stage);
        if (!begins && !ends)
            continue;
        dt_dot_name_part(&link->from, from);
        dt_dot_name_part(&part, to);
        dt_text_printf(text, "  %s -> %s [color=\"%s\", label=\"%s\"%s];\n", begins ? from : "rest",
                       ends ? to : "rest", forward ? "#4c78a8" : "#54a24b",
                       dt_people_bytes(words, link->bytes), orders ? "" : ", constraint=false");
    }
}

