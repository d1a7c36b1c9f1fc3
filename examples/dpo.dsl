# SPDX-License-Identifier: Apache-2.0
# Direct preference optimisation (Rafailov et al., 2023): of two answers to one prompt, one was chosen and one rejected.
# The policy learns to make the chosen one more probable and the other one less, both beside a reference: the policy as
# it was when training began, which `copy` keeps. Its paths are `reference.*`; it is never changed. The answers are made
# here, so it needs no files: chosen is who goes on counting, rejected who says anything.
#
#   dtc examples/dpo.dsl --parallel none -o out/dpo.plan       (one rank; `--parallel two` for two)
#   dtrun out/dpo.plan
#
# `accuracy`, the share of pairs where the chosen answer has the larger reward, goes from 0 (a tie) to 1 in seconds. With
# `adapt "*.up" = lora(rank = 4)` only adapters train, and the reference is the same model without what they have learned:
# no parameter of the base is held twice. docs/finetuning.md has a program for a model and files of your own.
include "std.dsl"
dim batch = 64, pair = 2, seq = 15, long = seq + 1, vocab = 32, prompt = 4
dim embed = 32, ffn = 64, heads = 2, head = embed // heads, kseq = seq, layers = 2
constant beta = 0.1

model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  param wpe[seq, embed] = normal(0.1)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    n = rmsnorm[embed](x)
    q, k = wq:linear[embed, (heads, head)](n), wk:linear[embed, (heads, head)](n)[seq -> kseq]
    v = wv:linear[embed, (heads, head)](n)[seq -> kseq]
    o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
    x = x + wo:linear[(heads, head), embed](o)
    x = x + (n2:rmsnorm[embed](x) |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed])
  }
  return out:linear[embed, vocab](x)
}
# The logarithm of the probability of an answer: of its tokens, which are those with a label.
fn logp(z[batch, seq, vocab], i32 labels[batch, seq]) -> [batch] { return -sum[seq](xent[vocab](z, labels)) }

train {
  i32 start[batch] = synthetic(0, vocab)
  i32 noise[batch, long] = synthetic(0, vocab)
  counted = (start + iota[long]) % vocab
  said = stack[pair](counted, where(iota[long] < prompt, counted, noise))        # chosen, rejected
  tokens = said[long = iota[seq]]
  labels = where(iota[seq] + 1 < prompt, -1, said[long = iota[seq] + 1])
  policy = net
  reference = reference:copy(policy)
  chosen, rejected = tokens[pair = 0], tokens[pair = 1]
  of_chosen, of_rejected = labels[pair = 0], labels[pair = 1]
  reward_chosen = beta * (logp(policy(chosen), of_chosen) - logp(reference(chosen), of_chosen))
  reward_rejected = beta * (logp(policy(rejected), of_rejected) - logp(reference(rejected), of_rejected))
  loss = mean[batch](softplus(reward_rejected - reward_chosen))                  # -log sigmoid(chosen - rejected)
  accuracy = mean[batch](f32(reward_chosen > reward_rejected))
  margin = mean[batch](reward_chosen - reward_rejected)
  metrics = accuracy, margin
  optimizer = adamw(lr = 1e-3, decay = 0)
  steps = 100
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on laptop {
  mesh data = 2
  shard batch on data
  zero 3 on data                  # ranks share out the reference, too
}
