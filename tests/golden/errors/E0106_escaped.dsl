train {
  data = text("C:\")
  steps = 3
}
