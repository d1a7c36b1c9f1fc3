#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--generate: windows, positions, temperature and draws: generate.py DTC DTRUN

The model of this test has no trained weights: the likeliest next token is the sum of the last two,
modulo the vocabulary. So the text is known, also once the window is full and slides."""
import os
import subprocess
import sys
import tempfile

VOCAB, WINDOW = 13, 4
PROGRAM = """include "std.dsl"
dim batch = 2, seq = %d, vocab = %d
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param w[vocab] = zeros
  before = tokens[seq = max(iota[seq] - 1, 0)]
  next = (tokens + before) %% size[vocab]
  return where(iota[vocab] == next, 3.0, 0.0) + w
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel none on one { mesh data = 1 }
""" % (WINDOW, VOCAB)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, "%s: %s" % (" ".join(command), done.stdout + done.stderr)
    return done.stdout


def generated(dtrun, prompt, *options):
    said = run(dtrun, "plan", "--generate", prompt, *options)
    return [int(word) for word in said[len(prompt):].split()]


def sums(first, second, n):
    made = [first, second]
    while len(made) < n + 2:
        made.append((made[-1] + made[-2]) % VOCAB)
    return made[2:]


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("program.dsl", "w") as file:
            file.write(PROGRAM)
        with open("tokens.bin", "wb") as file:
            file.write(bytes(range(VOCAB)) * 10)
        run(dtc, "program.dsl", "--parallel", "none", "-o", "plan")
        wrong = []
        for temperature in ("0", "0.01"):
            for n in (1, WINDOW - 2, WINDOW - 1, 30):
                got = generated(dtrun, "1 2", "--tokens", str(n), "--temperature", temperature)
                if got != sums(1, 2, n):
                    wrong.append("%d tokens at temperature %s are %s" % (n, temperature, got))
        got = generated(dtrun, "1 2 3 4 5 6", "--tokens", "5", "--temperature", "0")
        if got != sums(5, 6, 5):
            wrong.append("behind a prompt longer than the window stands %s" % got)
        texts = [generated(dtrun, "1 2", "--tokens", "60", "--temperature", "1000", "--seed", seed) for seed in "112"]
        if len(set(texts[0])) < VOCAB // 2 or texts[0] != texts[1] or texts[0] == texts[2]:
            wrong.append("equal odds draw %s" % texts)
    for what in wrong:
        print("FAIL", what)
    print("10 passed, 0 failed" if not wrong else "%d failed" % len(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
