names hf on m {
  "a\rb"[n] = w
  "\n\t\"\\"[n] = v
}
