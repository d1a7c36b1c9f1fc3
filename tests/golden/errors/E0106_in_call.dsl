train {
  data = text("corpus/*.txt)
  steps = 3
}
