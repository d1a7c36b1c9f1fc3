# SPDX-License-Identifier: Apache-2.0
"""Bugs of the runtime for planted.py: (what is wrong, file, its text, the wrong text, what finds it).

The certificates cannot see these. What finds one is `--verify CASE`, where dtc --verify runs the
program of CASES on ranks, or the name of a test of the suites that ./check runs. The old text stands
once in its file.
"""

# A dynamic loss scale, two losses in turn, a schedule with a warm-up, optimizer states that are split.
LIFE = """include "std.dsl"
dim batch = 8, embed = 8, hidden = 8, layers = 2
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + (x |> up:linear[embed, hidden]() |> tanh |> down:linear[hidden, embed]()) }
  return x
}
model other(x[batch, embed]) -> [batch] {
  param w[embed] = normal(0.3)
  return x @embed w
}
train {
  x[batch, embed] = synthetic(-1, 1)
  near = mean[batch, embed]((f32(m(x)) - x) ** 2)
  far = mean[batch](f32(other(x)) ** 2)
  first = adamw(lr = warmup_cosine(0.02, warmup = 4, total = 12, floor = 0.001), loss = near,
                params = ("h.up.*", "h.down.*"), clip = 1.0)
  second = adamw(lr = warmup_linear(0.02, warmup = 4, total = 12), loss = far, every = 3, params = "w")
  precision = mixed(compute = f16, params = f32, grads = f32, loss_scale = dynamic)
  steps = 12
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data }
"""
TOKENS = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 12, embed = 8
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return dropout(wte[vocab = tokens], 0.1) |> out:linear[embed, vocab]
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.01)
  eval = every(1, steps = 1, data = next_token(synthetic(0, vocab)))
  steps = 4
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 3 on data }
"""
# Random draws in steps and in evaluations.
DRAWN = """include "std.dsl"
dim batch = 4, embed = 8, kembed = embed
model m(x[batch, embed]) -> [batch, kembed] {
  return (x + uniform[batch, embed](-0.5, 0.5)) |> out:linear[embed, kembed]() |> tanh
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, kembed]((f32(m(x)) - 0.5) ** 2)
  optimizer = adamw(lr = 0.01)
  eval = every(1, steps = 1, data = synthetic(-1, 1))
  steps = 4
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data }
"""
# The same with data from files.
FILES = TOKENS.replace("synthetic(0, vocab)", 'bin("held.bin", u16)')
FILES = FILES.replace('bin("held.bin", u16)', 'bin("train.bin", u16)', 1)
CASES = {"life": LIFE, "tokens": TOKENS, "drawn": DRAWN, "files": FILES}

BUGS = [
    # ---- the loss scale ----
    ("the scale grows an update too late", "runtime/scale.c", "++scale->good == PATIENCE",
     "scale->good++ == PATIENCE", "--verify life"),
    ("the scale grows too early after a skipped step", "runtime/scale.c",
     "    scale->good = 0;\n    scale->skipped++;", "    scale->skipped++;", "--verify life"),
    ("a skipped step takes a quarter of the scale", "runtime/scale.c", "scale->factor /= 2;",
     "scale->factor /= 4;", "--verify life"),
    ("the scale grows fourfold", "runtime/scale.c", "scale->factor *= 2;", "scale->factor *= 4;",
     "--verify life"),
    ("the scale never grows", "runtime/scale.c", "if (scale->factor < largest_factor)",
     "if (scale->factor < 2)", "--verify life"),
    ("a resumed run forgets its good updates", "runtime/scale.c", "scale->good = saved->good;",
     "scale->good = 0;", "runtime_checkpoint"),
    ("a resumed run begins with the first scale", "runtime/scale.c",
     "scale->factor = saved->factor;", "", "runtime_checkpoint"),
    ("a resumed run forgets what it skipped", "runtime/scale.c", "scale->skipped = saved->skipped;",
     "", "runtime_checkpoint"),
    ("the manifest has no good updates", "runtime/manifest.c", "(json_int_t)m->scale.good",
     "(json_int_t)0", "runtime_checkpoint"),
    # ---- steps ----
    ("a skipped update is counted", "runtime/train.c",
     "rank->updates[i] += !rank->scale.was_skipped;", "rank->updates[i]++;", "--verify life"),
    ("the number of the update is one too small", "runtime/train.c",
     "rank->updates[objective] + 1,", "rank->updates[objective],", "--verify life"),
    ("the schedule is a step ahead", "runtime/train.c", "&rank->settings, rank->step,",
     "&rank->settings, rank->step + 1,", "--verify life"),
    ("a loss has its turn a step too late", "runtime/train.c",
     "(rank->step + 1) % rank->plan->objectives[i].every == 0",
     "rank->step % rank->plan->objectives[i].every == 0", "--verify life"),
    ("the number of the update is that of the step", "runtime/settings.c",
     ".updates = (double)updates,", ".updates = (double)step + 1,", "--verify life"),
    ("gradients are scaled by 1", "runtime/settings.c", ".loss_scale = loss_scale,",
     ".loss_scale = 1 + 0 * loss_scale,", "--verify life"),
    # ---- sums ----
    ("sums in 16 bits are rounded after each rank", "runtime/reduce.c",
     "            reduce_f32(reduce, sum, next, some);\n",
     "            reduce_f32(reduce, sum, next, some);\n            "
     "dt_reduce_narrow(dtype, to + i, sum, some);\n            dt_reduce_widen(dtype, "
     "sum, to + i, some);\n", "runtime_comm"),
    ("a maximum loses what is not a number", "runtime/reduce.c",
     "b[i] > a[i] || b[i] != b[i] ? b[i]", "b[i] > a[i] ? b[i]", "runtime_comm"),
    ("hosts add from right to left", "runtime/hosts_sums.c",
     "        return visit_all(g, v);\n", "        return visit_all(g, g->n_hosts - 1 - v);\n", "runtime_comm"),
    ("a gathered block reaches one member of a host", "runtime/hosts_moves.c",
     "if (m != here->me && !j->stores_all)", "if (m != here->me)", "runtime_comm"),
    ("collectives of other instructions count as the same", "runtime/comm_mark.c",
     "a->stage != b->stage || a->inst == b->inst", "a->stage == b->stage || a->inst == b->inst", "runtime_comm"),
    ("a wait for a started collective waits for none", "runtime/hosts_thread.c",
     "wait_for(t, t->under[event], false)", "wait_for(t, 0, false)", "runtime_comm"),
    ("the last rank's numbers are left out", "runtime/reduce.c",
     "    for (uint32_t m = 1; m < n; m++)\n        functions[dtype]",
     "    for (uint32_t m = 1; m + 1 < n; m++)\n        functions[dtype]", "--verify life"),
    ("a product forgets what was there", "runtime/gemm_plain.c",
     "g->accumulate ? dt_gemm_get(c, to, g->dtype_c) : 0",
     "g->accumulate ? 0 * dt_gemm_get(c, to, g->dtype_c) : 0", "runtime_gemm"),
    ("a product adds up in float", "runtime/gemm_plain.c",
     "double sum = g->accumulate ?", "float sum = g->accumulate ? (float)", "runtime_gemm"),
    # ---- initial values ----
    ("all layers begin alike", "runtime/init.c", "dt_philox(store->key, element, 0, iteration)",
     "dt_philox(store->key, element, 0, 0 * iteration)", "runtime_rank"),
    ("initial values depend on the order of axes", "runtime/init.c",
     "dt_plan_str(plan, axes[a].name)) > 0)", "dt_plan_str(plan, axes[a].name)) < 0)",
     "runtime_rank"),
    ("a uniform value has another range", "runtime/init.c",
     "store->init_a + (store->init_b - store->init_a)", "store->init_a + store->init_b",
     "runtime_rank"),
    # ---- parts of tensors ----
    ("a rank's part of a tensor begins at 0", "runtime/pack.c",
     "index * p->extent[a] + p->start[a] + p->at[a]", "index * p->extent[a] + p->at[a]",
     "runtime_zero"),
    ("a bucket's part begins at its tensor's first element", "runtime/pack.c",
     "range.first = range.n ? from - pack->offset : 0;", "range.first = 0;", "--verify tokens"),
    ("a bucket's part begins where the rank's bucket does", "runtime/pack.c",
     "range.at = range.n ? from - lo : 0;", "range.at = 0;", "--verify life"),
    # ---- checkpoints ----
    ("the second moment is saved as the first", "runtime/wanted.c",
     "1 + (int)store->kind - DT_PLAN_MOMENT1", "1", "runtime_checkpoint"),
    ("a piece lacks the last element that a rank holds", "runtime/pack.c",
     "end = part_before(&part, piece.first + piece.n);",
     "end = part_before(&part, piece.first + piece.n) - 1;", "runtime_save_pieces"),
    ("an import begins at a tensor's first element", "runtime/import.c",
     "int64_t element = part->first, step", "int64_t element = 0, step", "runtime_import"),
    ("an import does not compare the copies of a weight", "runtime/import.c",
     "feed->differs = tensor;", "feed->differs = NULL;", "runtime_import"),
    ("an import takes a tensor of another shape", "runtime/import_names.c",
     "equal = found->extents[a] == extents[a];", "equal = true;", "runtime_import"),
    ("an import leaves out the last block of columns", "runtime/pack.c",
     "c + most < columns ? row + c + most : row + columns;", "c + most < columns ? row + c + most : row + c;",
     "runtime_import"),
    ("an import draws no initial value of a parameter that the file has in part", "runtime/import.c",
     "whole = part->count[a] >= plan->axes[like->first_axis + a].extent;", "whole = true;", "runtime_import"),
    ("a run that goes on forgets its epilogues", "runtime/forms.c",
     "set_all(rank, saved == DT_EPILOGUES_APART);", "set_all(rank, false);", "standin_forms"),
    ("of several records of a product a checkpoint knows the first form", "runtime/cuda_choose.c",
     "rank->chosen.at[k].second = rank->chosen.at[k].second || told[i].second;", "",
     "standin_forms"),
    ("machines do not compare their data", "runtime/data_same.c",
     "if (memcmp(&mine, there, sizeof mine) == 0)", "if (true)", "standin_cluster_failures"),
    ("moments are not loaded", "runtime/checkpoint.c",
     "take(wanted, &wanted->homes[i], &from)", "wanted->homes[i].store->kind >= DT_PLAN_MOMENT1 ? NULL : "
     "take(wanted, &wanted->homes[i], &from)", "runtime_checkpoint"),
    ("the digests of a checkpoint are not compared", "runtime/checkpoint_files.c",
     "if (memcmp(digest, files->said[f]->chunks[chunk], DT_DIGEST_BYTES) == 0)", "if (true)", "runtime_checkpoint"),
    ("hosts send each other parts from the beginning of the copy", "runtime/saver_links.c",
     "post->at = l->saver->copies + goal->at + goal->done;", "post->at = l->saver->copies + goal->at;",
     "runtime_hosts_saves_few"),
    ("a host with a folder of its own writes into it", "runtime/saver.c",
     "is_shared ? rank->n_ranks :", "true ? rank->n_ranks :", "runtime_hosts_saves_few"),
    ("of ranks that hold the same part each supplies all of it", "runtime/pack.c",
     "const int64_t each = range.n / n, rest = range.n % n;", "const int64_t each = range.n, rest = 0 * n;",
     "runtime_shares"),
    ("a share begins at a file's first chunk", "runtime/shares.c",
     "return file->at + chunk;", "return file->at;", "runtime_shares"),
    ("a share is written before all ranks have copied", "runtime/saver_write.c",
     "wait_for(saver, &common->copied, all)", "wait_for(saver, &common->copied, all - saver->n_here + 1)",
     "runtime_checkpoints_few"),
    ("a restart does not know a checkpoint of its last step", "runtime/save.c",
     "atomic_store(&shared->has_saved, 1);", "", "runtime_goodput"),
    ("a rank far from the writer supplies what the writer has", "runtime/pack.c",
     "return supply->rank == supply->writer;", "return supply->rank == 0;", "runtime_shares"),
    ("a rank takes of a chunk that another has found damaged", "runtime/checkpoint_shares.c",
     "if (code != DT_EXIT_OK)", "if (false)", "runtime_checkpoints_few"),
    ("a save in shares does not look at its numbers", "runtime/saver.c",
     "copy->sound = copy->sound && dt_save_is_sound(copy->store, at, n);", "", "runtime_checkpoint"),
    ("a parameter is not the rounding of the master copy that is loaded", "runtime/checkpoint.c",
     "if (missing || store->kind != DT_PLAN_MASTER)", "if (true)",
     "runtime_checkpoint"),
    ("a resumed loss has the updates of the last one", "runtime/resume.c",
     "found = &manifest->updates[k];", "found = &manifest->updates[manifest->n_updates - 1];",
     "runtime_losses"),
    ("a resumed run has an update too many", "runtime/resume.c", "rank->updates[i] = found->n;",
     "rank->updates[i] = found->n + 1;", "--verify life"),
    ("a resumed run repeats the last step", "runtime/resume.c", "*ret_steps = manifest.steps;",
     "*ret_steps = manifest.steps - 1;", "--verify life"),
    ("a resumed run skips a sample", "runtime/resume.c",
     "rank->ramp.samples = manifest->samples;",
     "rank->ramp.samples = manifest->samples + 1;",
     "--verify life"),
    # ---- data ----
    ("every epoch has the same order", "runtime/permutation.c", "(uint32_t)p->epoch, round)",
     "0, round)", "runtime_data_order"),
    ("every epoch has the same windows", "runtime/permutation.c", "| r.word[1]) % bound;",
     "| r.word[1]) % 1;", "runtime_data_order"),
    ("an order has a sample twice", "runtime/permutation.c", "while (index >= permutation->n);",
     "while (index > permutation->n);", "runtime_data_order"),
    ("labels are the tokens themselves", "runtime/data.c",
     "read_values(data, i, start + i, inputs[i]",
     "read_values(data, i, start, inputs[i]", "--verify files"),
    ("the last window of held-out data is left out", "runtime/data.c",
     "data->windows = (n - data->more) / data->row;",
     "data->windows = (n - data->more - 1) / data->row;", "--verify files"),
    ("held-out data have a window too many", "runtime/data.c",
     "data->windows = (n - data->more) / data->row;",
     "data->windows = n / data->row;", "--verify files"),
    ("behind the held-out data its first window comes again", "runtime/data.c",
     "sample = data->samples - 1;", "sample %= data->samples;", "runtime_data"),
    ("another batch size moves the position", "runtime/resume.c",
     "rank->ramp.samples = manifest->samples;",
     "rank->ramp.samples = manifest->steps * rank->meta.batch;", "runtime_position"),
    ("images and labels are cut at other samples", "runtime/data_pair.c",
     "tokens->first = first * data->row;", "tokens->first = first * data->row + 1;",
     "runtime_sources"),
    ("synthetic labels are the tokens themselves", "runtime/data.c", "sample, shifted ? i : 0,",
     "sample, 0,", "--verify tokens"),
    ("synthetic samples repeat", "runtime/synthetic.c", "(uint64_t)(first + i), (uint32_t)sample,",
     "(uint64_t)(first + i), (uint32_t)sample % 4,", "--verify tokens"),
    # ---- evaluation ----
    ("an evaluation draws as a step would", "runtime/exec.c",
     "return rank->evaluates ? DT_EVAL_DRAWS + rank->eval_batch : rank->step;",
     "return rank->step;", "--verify drawn"),
    ("all batches of an evaluation draw alike", "runtime/exec.c",
     "DT_EVAL_DRAWS + rank->eval_batch :", "DT_EVAL_DRAWS + 0 * rank->eval_batch :",
     "--verify drawn"),
    ("an evaluation divides by one batch", "runtime/evaluate.c",
     "run->sums[m] /= (double)covered.samples;", "run->sums[m] /= (double)rank->meta.batch;",
     "--verify tokens"),
    ("an evaluation reads the first batch again and again", "runtime/evaluate.c",
     "run->rank.eval_batch = batch;", "run->rank.eval_batch = 0 * batch;", "--verify tokens"),
    ("samples behind the last whole batch count twice", "runtime/evaluate.c", "rest - batch));",
     "2 * rest - batch));", "runtime_ratios"),
    ("held-out samples behind the last whole batch are left out", "runtime/evaluate.c",
     "c.rest = samples - c.whole * batch;", "c.rest = 0;", "runtime_ratios"),
    ("an evaluation leaves out its last batch", "runtime/evaluate.c",
     "i < covered.whole; i++)", "i + 1 < covered.whole; i++)", "--verify tokens"),
    # ---- text ----
    ("the window of a text does not slide", "runtime/generate_predict.c",
     "row->tokens[n - used + at]", "row->tokens[at]", "runtime_generate"),
    ("the next token is read one position too early once the window is full",
     "runtime/generate_predict.c", "(row->n < next->window ? row->n : next->window) - 1;",
     "(row->n < next->window ? row->n : next->window - 1) - 1;", "runtime_generate"),
    ("the temperature is turned over", "runtime/generate_sample.c",
     "(c->weights[v] - top) / s->temperature", "(c->weights[v] - top) * s->temperature",
     "runtime_generate"),
    ("every token takes the same random number", "runtime/generate_sample.c",
     "(uint64_t)choice->n,", "0 * (uint64_t)choice->n,", "runtime_generate"),
    ("top p leaves out the token that reaches p", "runtime/generate_sample.c",
     "n > 0 && before < s->top_p * mass;", "n > 0 && before + 1e-3 < s->top_p * mass * 0.9;",
     "runtime_sample"),
    ("an answer is asked for without the assistant's header", "runtime/data_chat_template.c",
     "add(batch, template->around[DT_CHAT_ASSISTANT].before, false);", "(void)0;",
     "runtime_prompts"),
    ("a stop text that begins in an earlier token is missed", "runtime/generate_stop.c",
     "old >= n ? old - n + 1 : 0;", "old;", "runtime_prompts"),
    ("completions are written in the order in which they end", "runtime/generate.c",
     "m->written < m->n && m->at[m->written].stop; m->written++)",
     "m->written < m->n && m->queue[m->written]->stop; m->written++)", "runtime_prompts"),
    # ---- averages, copies, codes, a growing batch ----
    ("a skipped update moves averages", "passes/grad/optimizer.c",
     "give(u, unless_skipped(u, result, one->average_value), one->average, NULL);",
     "give(u, result, one->average, NULL);", "runtime_average"),
    ("an average follows the parameter before the update", "passes/grad/optimizer.c",
     "average_one(u, one, next);",
     "average_one(u, one, one->master_value);", "runtime_average"),
    ("a copy has dropout", "frontend/lower_call.c",
     "if (instance && instance->original) /* a copy computes as in evaluation */",
     "if (instance && instance->original && !training)", "runtime_dpo"),
    ("a copy begins with initial values of its own", "codegen/entry.c",
     "dt_hash_text(store->path + store->copy, e->seed)",
     "dt_hash_text(store->path, e->seed)", "runtime_dpo"),
    ("the largest weight of a group has no code", "passes/codes/codes_value.c",
     "dt_graph_binary(b, DT_OP_DIV, largest, number(b, most(of)))",
     "dt_graph_binary(b, DT_OP_DIV, largest, number(b, most(of) + 1))", "runtime_quantize"),
    ("ties are rounded to odd codes", "passes/codes/codes_value.c",
     "dt_graph_binary(b, DT_OP_EQ, odd, number(b, 1))",
     "dt_graph_binary(b, DT_OP_EQ, odd, number(b, 0))", "runtime_quantize"),
    ("both halves of a byte are the first", "passes/codes/codes_value.c",
     "code_of(b, half_of_weight(b, of, weight, 1), of, scales)",
     "code_of(b, half_of_weight(b, of, weight, 0), of, scales)", "runtime_quantize"),
    ("a step of a ramp runs the first micro-batches", "runtime/exec.c",
     "for (int64_t i = is_micro ? exec->rank->left_out : 0; i < item->count; i++) {",
     "for (int64_t i = 0; i < item->count - (is_micro ? exec->rank->left_out : 0); i++) {", "runtime_ramp"),
    # ---- tokenizers ----
    ("of equal pairs the last is merged first", "tokenizer/bpe.c",
     "if (ranks[i] < ranks[best])", "if (ranks[i] <= ranks[best])", "tokenizer"),
    ("a unit keeps tokens of pieces that are none", "tokenizer/encode.c",
     "return unit->marks[lo].ids;", "return 0;", "tokenizer"),
    ("the end of a batch ends a piece", "tokenizer/units.c",
     "const bool ends = unit->closed && numbers->end == unit->visible;",
     "const bool ends = numbers->end == unit->visible;", "tokenizer"),
    ("an added token is missed at the end of a block", "tokenizer/fill.c",
     "if (closed || added->longest == 0)", "if (true || closed || added->longest == 0)", "tokenizer"),
    ("text is cut where a token reaches across", "tokenizer/bpe.c",
     "if (!is_joined(bpe, before, after))", "if (!is_joined(bpe, after, before))", "tokenizer"),
    ("of equal scores the path that was found last stays", "tokenizer/unigram.c",
     "path->first == SIZE_MAX || sum > path->score", "path->first == SIZE_MAX || sum >= path->score", "tokenizer"),
    ("the end of a block ends a grapheme", "tokenizer/norm.c",
     "if (end == len && !ends)", "if (false && end == len && !ends)", "tokenizer"),
    ("the first token of a text keeps its space", "tokenizer/decode.c",
     "else if (d->begun || !step->drops_first)", "else if (true || !step->drops_first)", "tokenizer"),
    ("marks are not put into order", "tokenizer/forms.c",
     "if (end - first > 1)", "if (end - first > 100)", "tokenizer_parts"),
    ("another tokenizer finds the ids of the first", "runtime/data_tokens.c",
     'begin_digest("ids", &digest);\n    dt_digest_add(&digest, tokenizer, DT_DIGEST_BYTES);',
     'begin_digest("ids", &digest);', "runtime_tokens"),
]
