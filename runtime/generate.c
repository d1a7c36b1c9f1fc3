/* SPDX-License-Identifier: Apache-2.0 */
/* --generate: continues a prompt with the entry "predict", with the shapes of the plan. The prompt
 * is in row 0 of the batch. Each run of the entry gives the logits of the token after the last one.
 * When the row is full, the window moves by one token. Sampling draws one number of the counter
 * generator for each token, so equal seeds give equal texts. All ranks run the same number of
 * predictions. The rank that has row 0 of the result chooses the tokens and sends them to all
 * others. That is rank 0, or with a pipeline the first rank of the stage that computes the
 * result. */
#include "runtime/data.h"
#include "runtime/device.h"
#include "runtime/rank.h"

#include "base/hash.h"
#include "base/philox.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Generator {
    DtRank *rank;
    const DtRunOptions *options;
    const DtPlan *plan;
    uint32_t reader;            /* which fills the input in training */
    const DtPlanInput *input;   /* token ids, [batch, seq] */
    const DtPlanMetric *output; /* logits: the input's axes and the vocabulary's, in any order */
    int64_t window, vocab;
    int64_t position_stride, vocab_stride; /* elements of the output */
    int64_t *tokens;                       /* all tokens; the last of them fill a window */
    int64_t n_tokens;
    double *weights; /* one number for each entry of the vocabulary */
    int32_t *row;    /* a window of tokens, in the layout of the input */
    float *logits;   /* logits of one token */
    bool bytes;      /* whether tokens are bytes of text */
    DtTokenizer *tokenizer; /* of the text that the model was trained on; NULL: there was none */
    unsigned char held[4]; /* the first bytes of a UTF-8 character whose other bytes have not been
                            * chosen yet */
    uint32_t n_held;
} Generator;

static DtStatus find_input(Generator *g)
{
    const DtPlan *plan = g->plan;
    for (uint32_t i = 0; i < plan->n_readers && g->input == NULL; i++)
        if (!plan->readers[i].is_eval) {
            uint32_t source = plan->readers[i].source;
            g->input = &plan->inputs[plan->readers[i].first_input];
            g->reader = i;
            g->bytes = source == DT_PLAN_TEXT || source == DT_PLAN_SYNTHETIC; /* or words */
        }
    if (g->input == NULL || g->input->n_axes != 2 || g->input->dtype != DT_PLAN_I32)
        return dt_status_fail(DT_EXIT_USAGE,
                            "--generate needs a model whose first input is i32[batch, seq]");
    const DtPlanAxis *axis = &plan->axes[g->input->first_axis + 1];
    if (axis->local != axis->extent)
        return dt_status_fail(DT_EXIT_USAGE,
                            "--generate needs axis `%s` whole on each rank; this plan splits it",
                            dt_plan_str(plan, axis->name));
    g->window = axis->local;
    return DT_OK;
}

/* Checks that the prediction has the two axes of the input and one more. */
static DtStatus find_output(Generator *g)
{
    const DtPlan *plan = g->plan;
    const DtPlanAxis *in = plan->axes + g->input->first_axis;
    g->output = dt_exec_metric(plan, "predict", NULL);
    if (g->output == NULL || g->output->n_axes != 3 || g->output->dtype != DT_PLAN_F32)
        return dt_status_fail(DT_EXIT_USAGE,
                            "--generate needs a model whose result is f32[batch, seq, vocab]");
    const DtPlanAxis *out = plan->axes + g->output->first_axis;
    int64_t stride = 1;
    g->vocab = 0;
    for (uint32_t a = 3; a-- > 0; stride *= out[a].local) {
        const char *name = dt_plan_str(plan, out[a].name);
        if (strcmp(name, dt_plan_str(plan, in[1].name)) == 0)
            g->position_stride = stride;
        else if (strcmp(name, dt_plan_str(plan, in[0].name)) != 0) {
            g->vocab = out[a].extent;
            g->vocab_stride = stride;
            if (out[a].local < out[a].extent)
                return dt_status_fail(DT_EXIT_USAGE,
                                    "--generate needs axis `%s` whole on each rank; this plan "
                                    "splits it",
                                    name);
        }
    }
    if (g->vocab == 0 || g->position_stride == 0)
        return dt_status_fail(DT_EXIT_USAGE,
                            "--generate needs a model whose result is f32[batch, seq, vocab]");
    return DT_OK;
}

static void push_token(Generator *g, int64_t token)
{
    if (g->n_tokens == g->window)
        memmove(g->tokens, g->tokens + 1, (size_t)(--g->n_tokens) * sizeof g->tokens[0]);
    g->tokens[g->n_tokens++] = token;
}

/* Opens the tokenizer of the training data, if there is one. */
static DtStatus open_tokenizer(Generator *g, DtArena *memory)
{
    const char *path, *end = dt_plan_str(g->plan, g->plan->readers[g->reader].end);
    DtStatus status = dt_datapaths_tokenizer(memory, g->options, g->plan, g->reader, &path);
    if (dt_status_ok(&status) && path)
        status = dt_tokenizer_open(path, *end ? end : NULL, &g->tokenizer);
    return status;
}

/* Reads a prompt in words. An empty one is what the tokenizer puts in front of a text, or else a
 * newline. */
static DtStatus read_words(Generator *g, const char *prompt)
{
    DtIds ids = {0};
    DtStatus status = dt_encode_prompt(g->tokenizer, prompt, &ids);
    if (dt_status_ok(&status) && ids.n == 0)
        status = dt_encode_prompt(g->tokenizer, "\n", &ids);
    for (size_t i = 0; i < ids.n && dt_status_ok(&status); i++) {
        if (ids.at[i] < g->vocab)
            push_token(g, ids.at[i]);
        else
            status = dt_status_fail(DT_EXIT_USAGE,
                                    "token %u of the prompt is outside the vocabulary of %lld",
                                    ids.at[i], (long long)g->vocab);
    }
    free(ids.at);
    return status;
}

/* Reads the prompt: words if there is a tokenizer, bytes, or for other tokenisations decimal
 * numbers. An empty prompt is replaced by a newline. */
static DtStatus read_prompt(Generator *g, const char *prompt)
{
    if (g->tokenizer)
        return read_words(g, prompt);
    if (g->bytes) {
        for (const char *at = prompt[0] ? prompt : "\n"; *at; at++) {
            if ((unsigned char)*at >= g->vocab)
                return dt_status_fail(DT_EXIT_USAGE,
                                    "byte %d of the prompt is outside the vocabulary of %lld",
                                    (unsigned char)*at, (long long)g->vocab);
            push_token(g, (unsigned char)*at);
        }
        return DT_OK;
    }
    for (const char *at = prompt; *at;) {
        char *end;
        errno = 0;
        long long token = strtoll(at, &end, 10);
        if (end == at || errno || token < 0 || token >= g->vocab)
            return dt_status_fail(DT_EXIT_USAGE,
                                "the model was trained on token numbers: write the prompt as "
                                "numbers below %lld, separated by spaces",
                                (long long)g->vocab);
        push_token(g, token);
        for (at = end; *at == ' ' || *at == ','; at++) {}
    }
    return g->n_tokens > 0 ? DT_OK : dt_status_fail(DT_EXIT_USAGE, "the prompt is empty");
}

/* Reads the options for the text to be generated, and checks that the plan has what they need. */
static DtStatus read_question(Generator *g, DtArena *memory, const char *prompt)
{
    DtStatus status = find_input(g);
    if (dt_status_ok(&status))
        status = find_output(g);
    if (dt_status_ok(&status))
        status = open_tokenizer(g, memory);
    if (!dt_status_ok(&status))
        return status;
    g->tokens = DT_NEW_ARRAY(memory, int64_t, g->window);
    return read_prompt(g, prompt);
}

DtStatus dt_generate_check(const DtRunOptions *options, const DtPlan *plan)
{
    DtArena *memory = dt_arena_new();
    Generator g = {.options = options, .plan = plan};
    DtStatus status = read_question(&g, memory, options->generate);
    dt_tokenizer_close(g.tokenizer);
    dt_arena_free(memory);
    return status;
}

static void write_input(const Generator *g)
{
    const int64_t bytes = g->window * (int64_t)sizeof *g->row;
    for (int64_t i = 0; i < g->window; i++)
        g->row[i] = i < g->n_tokens ? (int32_t)g->tokens[i] : 0;
    dt_device_put(g->rank, dt_device_place(g->rank, g->input->arena, g->input->offset, bytes),
                  g->row, bytes);
}

/* Reads the logits after the last token, in order of the vocabulary. */
static void read_logits(const Generator *g)
{
    const int64_t e = (int64_t)sizeof *g->logits, span = ((g->vocab - 1) * g->vocab_stride + 1) * e;
    const int64_t first = g->output->offset + (g->n_tokens - 1) * g->position_stride * e;
    DtLent lent = dt_device_lend(g->rank, dt_device_place(g->rank, g->output->arena, first, span));
    for (int64_t v = 0; v < g->vocab; v++)
        memcpy(&g->logits[v], lent.at + v * g->vocab_stride * e, sizeof g->logits[v]);
    dt_device_back(g->rank, &lent, false);
}

/* Chooses a token: inverts the distribution softmax(logits / temperature) at one uniform number.
 * Temperature 0: the token with the largest logit. */
static int64_t choose(const Generator *g, int64_t number)
{
    const DtRunOptions *options = g->rank->options;
    const float *logits = g->logits;
    int64_t best = 0;
    read_logits(g);
    for (int64_t v = 1; v < g->vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    if (options->temperature <= 0)
        return best;
    double top = logits[best], total = 0;
    for (int64_t v = 0; v < g->vocab; v++)
        total += g->weights[v] = exp((logits[v] - top) / options->temperature);
    uint64_t key = dt_hash_text("generate", options->seed);
    double left = dt_philox_uniform(dt_philox(key, (uint64_t)number, 0, 0)) * total;
    for (int64_t v = 0; v < g->vocab; v++)
        if ((left -= g->weights[v]) < 0)
            return v;
    return best;
}

/* Sets token to the one that was chosen by the rank with row 0 of the result, on all ranks. */
static bool agree(const Generator *g, int64_t *token)
{
    DtRank *rank = g->rank;
    const DtPlan *plan = rank->plan;
    if (plan->meta->pipeline == 0)
        return true;
    bool chooses = dt_plan_on_stage(g->output->stage, rank->stage);
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        chooses = chooses && (m + 1 == plan->meta->pipeline || rank->coord[m] == 0);
    if (!chooses)
        *token = -1;
    DtPlaceAt place = dt_device_of_host(token, sizeof *token);
    return rank->comm_ops->all_reduce(rank->comm, &rank->world, place, place, 1, DT_PLAN_I64,
                                      DT_PLAN_MAX);
}

static bool flush(DtRank *rank)
{
    return fflush(stdout) == 0 ||
           dt_rank_fail(rank, DT_EXIT_IO, "cannot write the text: %s", strerror(errno));
}

/* The number of bytes of the UTF-8 character that begins with these n bytes (at least one); 0: no
 * character begins so. RFC 3629, table 3. */
static uint32_t character_length(const unsigned char *at, uint32_t n)
{
    const unsigned char c = at[0];
    const uint32_t len = c < 0x80   ? 1
                         : c < 0xc2 ? 0
                         : c < 0xe0 ? 2
                         : c < 0xf0 ? 3
                         : c < 0xf5 ? 4
                                    : 0;
    const unsigned char least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    for (uint32_t i = 1; i < n && i < len; i++)
        if (at[i] < (i == 1 ? least : 0x80) || at[i] > (i == 1 ? most : 0xbf))
            return 0;
    return len;
}

/* Writes the complete characters among the held bytes. A byte that belongs to no character is
 * written as \xHH. ends: no more bytes will come. */
static void write_held(Generator *g, bool ends)
{
    while (g->n_held) {
        const uint32_t len = character_length(g->held, g->n_held);
        if (len > g->n_held && !ends)
            return;
        const uint32_t n = len && len <= g->n_held ? len : 1;
        if (len && len <= g->n_held)
            fwrite(g->held, 1, n, stdout);
        else
            printf("\\x%02x", g->held[0]);
        g->n_held -= n;
        memmove(g->held, g->held + n, g->n_held);
    }
}

/* Shows a token that is no text (the vocabulary is larger than that of the tokenizer, or than 256)
 * as its number in brackets. */
static bool show(Generator *g, int64_t token)
{
    const unsigned char byte = (unsigned char)token;
    DtTokenBytes text = {.at = g->bytes && token < 256 ? &byte : NULL, .len = 1};
    if (g->tokenizer)
        text = dt_tokenizer_bytes(g->tokenizer, (uint32_t)token);
    for (uint32_t i = 0; text.at && i < text.len; i++) {
        g->held[g->n_held++] = text.at[i];
        write_held(g, false);
    }
    if (!text.at) {
        write_held(g, true);
        printf(g->bytes || g->tokenizer ? "<%lld>" : "%lld ", (long long)token);
    }
    return flush(g->rank);
}

/* Chooses and writes the tokens that the options ask for. */
static bool write_on(Generator *g)
{
    DtRank *rank = g->rank;
    const DtRunOptions *options = g->options;
    g->weights = DT_NEW_ARRAY(rank->memory, double, g->vocab);
    g->row = DT_NEW_ARRAY(rank->memory, int32_t, g->window);
    g->logits = DT_NEW_ARRAY(rank->memory, float, g->vocab);
    bool writes = rank->rank == 0;
    rank->evaluates = true;
    if (writes)
        fputs(options->generate, stdout);
    if (writes && !g->bytes && !g->tokenizer)
        putchar(' ');
    for (int64_t i = 0; i < options->tokens; i++) {
        write_input(g);
        rank->eval_batch = i;
        if (!dt_exec_entry(rank, "predict"))
            return false;
        int64_t token = dt_plan_on_stage(g->output->stage, rank->stage) ? choose(g, i) : -1;
        if (!agree(g, &token))
            return false;
        push_token(g, token);
        if (writes && !show(g, token))
            return false;
    }
    write_held(g, true);
    if (writes)
        putchar('\n');
    return flush(rank);
}

bool dt_generate_text(DtRank *rank)
{
    const DtRunOptions *options = rank->options;
    Generator g = {.rank = rank, .options = options, .plan = rank->plan};
    if (!dt_exec_has(rank, "predict"))
        return dt_rank_fail(rank, DT_EXIT_USAGE, "the plan has no entry `predict`");
    DtStatus status = read_question(&g, rank->memory, options->generate);
    const bool written = dt_status_ok(&status) ? write_on(&g) : dt_rank_fail_status(rank, &status);
    dt_tokenizer_close(g.tokenizer);
    return written;
}
