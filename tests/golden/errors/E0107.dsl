# ---- return
names hf on m {
  "a\rb"[n] = w
  "\n\t\"\\"[n] = v
}
# ---- windows_path
train { data = bin("C:\corpus\new.bin", u16) }
