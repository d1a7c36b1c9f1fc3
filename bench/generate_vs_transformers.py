#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of --generate with a cache, without one, and of transformers with its cache, on one core:

    python3 bench/generate_vs_transformers.py DTC DTRUN [--prompt N] [--tokens N] [--layers N]

GPT-2 with random weights (124M parameters with the default of 12 layers), one row, a window of 1,024 positions. Times
are of processors, so that other work on the machine counts little: the difference of two runs, of few and of more
tokens, over the number of tokens in between. Without a cache a token takes seconds, so only 2 are timed."""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

PROGRAM = """include "models/gpt2.dsl"
dim batch = 1, layers = %d
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("none.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt2(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1%s
}
"""


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=dict(os.environ, OMP_NUM_THREADS="1"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(dtrun, plan, prompt, few, more):
    ask = [dtrun, plan, "--unproved", "--temperature", "0", "--generate", prompt, "--tokens"]
    return (seconds(ask + [str(more)]) - seconds(ask + [str(few)])) / (more - few)


def theirs(n_prompt, n, layers):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers)).eval()
    ids = torch.tensor([[37 * i % 50000 for i in range(n_prompt)]])
    with torch.no_grad():
        made = model(ids, use_cache=True)
        begun = time.process_time()
        for _ in range(n):
            made = model(made.logits[:, -1].argmax(-1, keepdim=True), past_key_values=made.past_key_values,
                         use_cache=True)
    return (time.process_time() - begun) / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dtc")
    parser.add_argument("dtrun")
    parser.add_argument("--prompt", type=int, default=900)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    dtc, dtrun = os.path.abspath(options.dtc), os.path.abspath(options.dtrun)
    prompt = " ".join(str(37 * i % 50000) for i in range(options.prompt))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, line in (("plain", ""), ("cached", "\n  generate = cached()")):
            with open(name + ".dsl", "w") as file:
                file.write(PROGRAM % (options.layers, line))
            subprocess.run([dtc, name + ".dsl", "-o", name + ".plan"], check=True, capture_output=True)
        plain = ours(dtrun, "plain.plan", prompt, 1, 3)
        cached = ours(dtrun, "cached.plan", prompt, 4, 4 + options.tokens)
        os.chdir("/")
    print("without a cache  %8.1f ms of a core for a token" % (plain * 1e3))
    print("with a cache     %8.1f ms, %.1f times as fast" % (cached * 1e3, plain / cached))
    try:
        other = theirs(options.prompt, options.tokens, options.layers)
    except ImportError:
        print("transformers     not installed: skipped")
        return 0
    print("transformers     %8.1f ms, %.2f of our speed" % (other * 1e3, cached / other))
    return 0


if __name__ == "__main__":
    sys.exit(main())
