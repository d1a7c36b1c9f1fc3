# `vocab` is unused only because its one use is misspelt: the error alone is shown.
dim batch = 4, vocab = 10, embed = 8
model m(i32 tokens[batch]) -> [batch, embed] {
  param wte[vocabulary, embed] = normal(0.1)
  return wte[vocabulary = tokens]
}
