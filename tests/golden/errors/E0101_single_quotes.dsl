include 'std.dsl'
train {
  data = bin('corpus/*.bin', u16)
}
