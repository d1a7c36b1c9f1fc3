/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: how turns of a conversation are written as text. A row per template; the texts are
 * those that the models were published with. What is trained of a turn of the assistant is its text
 * and the token that ends it, since both are what the model has to write. */
#include "runtime/data_chat.h"

#include <string.h>

enum { ROLES = DT_CHAT_ASSISTANT + 1 };

/* What stands around the text of a turn. end: trained in turns of the assistant. */
typedef struct Around {
    const char *before, *end, *after;
} Around;

struct DtChatTemplate {
    const char *name;
    const char *begin;    /* in front of the first turn; NULL: as the tokenizer says */
    const char *preamble; /* the text of the system if it has none, or NULL */
    const char *again;    /* between a turn of the assistant and the next turn */
    bool joins_system;    /* its text is the first paragraph of the user's first turn */
    bool trims;           /* white space around the texts of turns */
    bool ends;            /* turns of the assistant end with the tokens after a document */
    bool takes_turns;     /* user and assistant, in turns */
    const char *before_input, *before_input_preamble;
    Around around[ROLES];
    const char *tokens[6];
    const char *mark; /* text by which it is recognised in a template of Jinja */
};

#define ALPACA(what)                                                                  \
    "Below is an instruction that describes a task" what ". Write a response that appropriately " \
    "completes the request."

static const DtChatTemplate templates[] = {
    {.name = "chatml",
     .begin = "",
     .around = {{"<|im_start|>system\n", "<|im_end|>", "\n"},
                {"<|im_start|>user\n", "<|im_end|>", "\n"},
                {"<|im_start|>assistant\n", "<|im_end|>", "\n"}},
     .tokens = {"<|im_start|>", "<|im_end|>"},
     .mark = "<|im_start|>"},
    {.name = "llama3",
     .begin = "<|begin_of_text|>",
     .trims = true,
     .around = {{"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", ""},
                {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", ""},
                {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ""}},
     .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .mark = "<|start_header_id|>"},
    {.name = "mistral",
     .begin = "<s>",
     .joins_system = true,
     .takes_turns = true,
     .around = {{"", "", ""}, {"[INST]", "[/INST]", ""}, {"", "</s>", ""}},
     .tokens = {"<s>", "</s>", "[INST]", "[/INST]"},
     .mark = "[INST]"},
    {.name = "gemma",
     .begin = "<bos>",
     .joins_system = true,
     .takes_turns = true,
     .trims = true,
     .around = {{"", "", ""},
                {"<start_of_turn>user\n", "<end_of_turn>", "\n"},
                {"<start_of_turn>model\n", "<end_of_turn>", "\n"}},
     .tokens = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .mark = "<start_of_turn>"},
    {.name = "alpaca",
     .preamble = ALPACA(""),
     .before_input = "\n\n### Input:\n",
     .before_input_preamble = ALPACA(", paired with an input that provides further context"),
     .again = "\n\n",
     .ends = true,
     .takes_turns = true,
     .around = {{"", "\n\n", ""},
                {"### Instruction:\n", "\n\n", ""},
                {"### Response:\n", "", ""}},
     .mark = "### Instruction:"},
};

const DtChatTemplate *dt_datachattemplate_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

const char *const *dt_datachattemplate_tokens(const DtChatTemplate *template)
{
    return template->tokens;
}

bool dt_datachattemplate_ends(const DtChatTemplate *template) { return template->ends; }

const char *dt_datachattemplate_end(const DtChatTemplate *template)
{
    return template->around[DT_CHAT_ASSISTANT].end;
}

const char *dt_datachattemplate_guess(const char *jinja)
{
    const char *found = NULL;
    for (size_t i = 0; i < DT_COUNT(templates); i++) {
        if (!strstr(jinja, templates[i].mark))
            continue;
        if (found)
            return NULL; /* one that writes both cannot be told */
        found = templates[i].name;
    }
    return found;
}

static void add(DtChatBatch *batch, const char *text, bool trained)
{
    if (text)
        dt_datachatline_text(batch, text, strlen(text), trained);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void add_text(DtChatBatch *batch, const DtChatTemplate *t, const char *text, size_t len,
                     bool trained)
{
    while (t->trims && len > 0 && is_space(text[0]))
        text++, len--;
    while (t->trims && len > 0 && is_space(text[len - 1]))
        len--;
    dt_datachatline_text(batch, text, len, trained);
}

/* Writes the text of a user's turn, with what its instruction is about. */
static void add_user(DtChatBatch *batch, const DtChatTemplate *t, const DtChatTurn *turn)
{
    add_text(batch, t, turn->text, turn->len, false);
    if (turn->input_len == 0)
        return;
    add(batch, t->before_input ? t->before_input : "\n", false);
    add_text(batch, t, turn->input, turn->input_len, false);
}

static void add_turn(DtChatBatch *batch, const DtChatTemplate *t, const DtChatTurn *turn,
                     const DtChatTurn *system, bool trained)
{
    const bool answers = turn->role == DT_CHAT_ASSISTANT && trained;
    const Around *around = &t->around[turn->role];
    add(batch, around->before, false);
    if (system) {
        add_text(batch, t, system->text, system->len, false);
        add(batch, "\n\n", false);
    }
    if (turn->role == DT_CHAT_USER)
        add_user(batch, t, turn);
    else
        add_text(batch, t, turn->text, turn->len, answers);
    add(batch, around->end, answers);
    if (turn->role == DT_CHAT_ASSISTANT && t->ends)
        dt_datachatline_around(batch, answers ? DT_CHAT_BACK : DT_CHAT_BETWEEN);
    add(batch, around->after, false);
}

static DtStatus check_order(const DtChatTemplate *t, const DtChatTurn *turns, size_t n)
{
    static const char *const names[] = {"system", "user", "assistant"};
    const size_t first = n > 0 && turns[0].role == DT_CHAT_SYSTEM;
    if (n == first)
        return dt_status_fail(DT_EXIT_IO, "the conversation has no turn");
    for (size_t i = first; i < n; i++) {
        const DtChatRole wanted = (i - first) % 2 ? DT_CHAT_ASSISTANT : DT_CHAT_USER;
        if (turns[i].role == DT_CHAT_SYSTEM)
            return dt_status_fail(DT_EXIT_IO, "turn %zu is of the system, which speaks first",
                                  i + 1);
        if (t->takes_turns && turns[i].role != wanted)
            return dt_status_fail(DT_EXIT_IO,
                                  "turn %zu is of the %s: in template %s user and assistant take "
                                  "turns",
                                  i + 1, names[turns[i].role], t->name);
    }
    return DT_OK;
}

DtStatus dt_datachattemplate_write(DtChatBatch *batch, const DtChatTemplate *template,
                                   const DtChatTurn *turns, size_t n, size_t trained)
{
    const DtChatTemplate *t = template;
    DtStatus status = check_order(t, turns, n);
    if (!dt_status_ok(&status))
        return status;
    const DtChatTurn *system = turns[0].role == DT_CHAT_SYSTEM ? turns : NULL;
    const DtChatTurn *joins = t->joins_system ? system : NULL;
    if (t->begin)
        add(batch, t->begin, false);
    else
        dt_datachatline_around(batch, DT_CHAT_FRONT);
    if (!system && t->preamble) {
        const bool has_input = turns[0].input_len > 0 && t->before_input_preamble;
        add(batch, has_input ? t->before_input_preamble : t->preamble, false);
        add(batch, t->around[DT_CHAT_SYSTEM].end, false);
    }
    for (size_t i = joins ? 1 : 0; i < n; i++) {
        if (i > 0 && turns[i - 1].role == DT_CHAT_ASSISTANT)
            add(batch, t->again, false);
        add_turn(batch, t, &turns[i], joins, i >= trained);
        joins = NULL;
    }
    return DT_OK;
}

DtStatus dt_datachattemplate_ask(DtChatBatch *batch, const DtChatTemplate *template,
                                 const DtChatTurn *turns, size_t n)
{
    DtStatus status = dt_datachattemplate_write(batch, template, turns, n, 0);
    if (dt_status_ok(&status) && turns[n - 1].role == DT_CHAT_ASSISTANT)
        return dt_status_fail(DT_EXIT_IO, "the last turn is of the assistant, who is to answer");
    if (dt_status_ok(&status))
        add(batch, template->around[DT_CHAT_ASSISTANT].before, false);
    return status;
}
