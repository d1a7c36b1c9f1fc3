dim batch = 4, vocab = 10, embed = 16
fn embed_ids(w[vocab, embed], i32 ids[...]) -> [..., embed] { return w[vocab = ids] }
model m(ids[batch]) -> [batch, embed] {
  param w[vocab, embed] = normal(0.02)
  return embed_ids(w, ids)
}
