# SPDX-License-Identifier: Apache-2.0
"""Steps of ranks on processors of two hosts over a slow network:  step.py BUILD [MBIT [ROUNDS]]

Hosts are network namespaces (root) joined by veth, whose rate `tbf` limits (default 1000 Mbit/s). A rank of a GPT with 13 million
parameters runs on each, under ZeRO 1 and 3. Printed are milliseconds: a step of the two ranks on this machine alone (computing), the
bytes that the busier direction moved in a step over the rate (communicating), a step over the network, and its ratio to the longer of
the two. Medians of ROUNDS (default 3), in turn."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/runtime"))
import hosts  # noqa: E402

PROGRAM = """include "std.dsl"
dim batch = 16, seq = 64, kseq = seq, vocab = 2048, layers = 4, embed = 512, heads = 8, head = embed // heads, ffn = 4 * embed
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + (ln2:layernorm[embed](x) |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed])
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = 1e-3)
  steps = %d
}
cluster two { gpus = 2; gpu = "cpu" }
parallel p on two { mesh data = 2; shard batch on data; zero %d on data }
"""
STEPS = 8


def seconds(log):
    with open(log) as file:
        took = [line["seconds"] for line in map(json.loads, file) if line["event"] == "step"]
    return statistics.median(took[2:])


def sent(name):
    text = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "eth0"], capture_output=True, text=True).stdout
    return json.loads(text)[0]["stats64"]["tx"]["bytes"]


def main():
    build, mbit, rounds = os.path.abspath(sys.argv[1]), int((sys.argv[2:] or [1000])[0]), int((sys.argv[3:] or [3])[0])
    dtc, dtrun = os.path.join(build, "dtc"), os.path.join(build, "dtrun")
    with tempfile.TemporaryDirectory() as folder, hosts.hosts(2) as (names, address):
        os.chdir(folder)
        if names[0] is None:
            sys.exit(77)
        for name in names:
            subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "%dmbit" % mbit,
                            "burst", "256kb", "latency", "50ms"], check=True)
        print("%6s %10s %14s %8s %8s" % ("ZeRO", "computing", "communicating", "step", "ratio"))
        for zero in (1, 3):
            with open("p.dsl", "w") as file:
                file.write(PROGRAM % (STEPS, zero))
            subprocess.run([dtc, "p.dsl", "-o", "p.plan"], check=True, stdout=subprocess.DEVNULL)
            rows = []
            for _ in range(rounds):
                subprocess.run([dtrun, "p.plan", "--quiet", "--log", "one.log", "--overwrite"], check=True)
                before = [sent(name) for name in names]
                hosts.end("zero %d" % zero, hosts.start(dtrun, "p.plan", names, address, os.environ.get("COMM", "ucx"), "--log", "two.log",
                                                        "--overwrite"), [0, 0])
                moved = max(sent(name) - was for name, was in zip(names, before)) / STEPS
                rows.append((seconds("one.log") * 1e3, moved * 8e-3 / mbit, seconds("two.log") * 1e3))
            computing, communicating, step = (statistics.median(row[i] for row in rows) for i in range(3))
            print("%6d %10.1f %14.1f %8.1f %8.2f" % (zero, computing, communicating, step, step / max(computing, communicating)))


if __name__ == "__main__":
    main()
