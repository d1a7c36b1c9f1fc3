#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and loads of a checkpoint of 1 GB by four ranks:  bench/checkpoints.py [DTC [DTRUN [FOLDER]]]

Layouts: data, ZeRO 3, tensor and pipeline. Printed for each, medians of three runs of three saves:

  pause    for how long training stops, and its parts: comparing replicas, copying. Beside it the time in which four processes at
           once copy as many bytes as each rank holds, to memory that exists; and both on a processor, which other load hardly
           changes
  in all   from the copy until the checkpoint is there, while training goes on and, the last one, after it; beside `dd
           conv=fsync` of as many bytes into the same folder, before each run
  writers  the largest of their shares over the smallest, from the files and the rule of shares
  load     blocks that ranks read from the disk over the size of the checkpoint, after its pages were dropped

FOLDER is on the disk to measure (default: the present folder). Medians of this machine are in bench/RESULTS.md."""

import json
import multiprocessing
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

DTC = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/dtc")
DTRUN = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/release/dtrun")
FOLDER = os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else ".")
RANKS, SAVES, ROUNDS, CHUNK, SIZE = 4, 3, 3, 4 << 20, 1 << 30
PROGRAM = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 64, embed = 1024, mid = 4096, layers = 10
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + (up:linear[embed, mid](x) |> gelu |> down:linear[mid, embed]) }
  return out:linear[embed, vocab](x)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 1e-4)
  save = every(2, keep = 1)
  steps = %d
}
cluster here { gpus = %d; gpu = "cpu" }
""" % (2 * SAVES, RANKS)
# and how many parts the state has, of which each rank holds one
LAYOUTS = {
    "data": ("mesh data = 4; shard batch on data", 1),
    "zero 3": ("mesh data = 4; shard batch on data; zero 3 on data", 4),
    "tensor": ("mesh tensor = 4; shard mid on tensor", 4),
    "pipeline": ("mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; micro batch = 2", 2),
}


def copy_often(size, meet, times):
    """Copies as many bytes as a rank holds, to memory that was written before, when the other processes do."""
    source, target = bytearray(os.urandom(1 << 20) * (size >> 20)), bytearray(os.urandom(1 << 20) * (size >> 20))
    for _ in range(5):
        meet.wait()
        began, used = time.monotonic(), time.thread_time()
        memoryview(target)[:] = source
        times.put((time.monotonic() - began, time.thread_time() - used))


def seconds_of_copy(size):
    """Medians of the time that it takes, and of the time on a processor."""
    meet, times = multiprocessing.Barrier(RANKS), multiprocessing.Queue()
    copies = [multiprocessing.Process(target=copy_often, args=(size, meet, times)) for _ in range(RANKS)]
    for process in copies:
        process.start()
    got = [times.get() for _ in range(5 * RANKS)]
    for process in copies:
        process.join()
    return [statistics.median(column) for column in zip(*got)]


def seconds_of_dd(size):
    path = os.path.join(FOLDER, "dd.out")
    began = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", "of=" + path, "bs=4M", "count=%d" % (size // CHUNK), "conv=fsync"], check=True,
                   capture_output=True)
    took = time.monotonic() - began
    os.remove(path)
    return took


def shares(folder):
    """The rule of runtime/shares.h, from the files alone: bytes of each writer."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        sizes = [about["bytes"] for about in json.load(file)["files"].values()]
    starts = [0]
    total = sum(sizes)
    for writer in range(1, RANKS):
        number, before = total * writer // RANKS, 0
        for size in sizes:
            if number < before + size:
                starts.append(before + min(size, (number - before + CHUNK // 2) // CHUNK * CHUNK))
                break
            before += size
    return [end - begin for begin, end in zip(starts, starts[1:] + [total])], total


def blocks_read(command, folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before) * 512, time.monotonic() - began


def times_of(log):
    """By save: seconds of the pause, of the copy and on a processor; and from its end until the checkpoint is there."""
    copied, saved = {}, {}
    with open(log, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line.get("event") == "copied":
                copied[line["step"]] = [float(number) for number in re.findall(r"[0-9.]+(?= s)", line["text"])]
            if line.get("event") == "written":
                saved[line["step"]] = float(line["text"].split()[0])
    return [(*copied[step], saved[step]) for step in sorted(saved) if step in copied]


def main():
    os.chdir(FOLDER)
    shutil.rmtree("bench.checkpoints", ignore_errors=True)
    os.mkdir("bench.checkpoints")
    os.chdir("bench.checkpoints")
    for name, (layout, parts) in LAYOUTS.items():
        with open("p.dsl", "w", encoding="utf-8") as file:
            file.write(PROGRAM + "parallel it on here { %s }\n" % layout)
        subprocess.run([DTC, "p.dsl", "--parallel", "it", "-o", "p.plan"], check=True, capture_output=True)
        times, lasts, dds = [], [], []
        for _ in range(ROUNDS):
            dds.append(seconds_of_dd(SIZE))
            shutil.rmtree("saved", ignore_errors=True)
            subprocess.run([DTRUN, "p.plan", "-q", "--save", "saved", "--log", "log.jsonl", "--overwrite"], check=True,
                           capture_output=True)
            times += times_of("log.jsonl")
            lasts.append(times[-1][-1])
        folder = os.path.join("saved", open("saved/latest", encoding="utf-8").read().strip())
        each, total = shares(folder)
        pause, copying, processor, whole = (statistics.median(column) for column in zip(*times))
        read, took = blocks_read([DTRUN, "p.plan", "-q", "--resume", folder, "--save", "other", "--overwrite", "--steps", "7",
                                  "--set", "save.every=0"], folder)
        (copy, copy_processor), last = seconds_of_copy(total // parts), statistics.median(lasts)
        dd = statistics.median(dds) * total / SIZE
        print("%-9s %5.2f GB  pause %.3f s (%.3f comparing, %.3f copying), %.2f of a copy; on a processor %.3f s, %.2f of a copy  "
              "in all %.2f s, the last %.2f s (dd %.2f s: %.2f and %.2f of its rate)  writers %.3f  load %.2f of its bytes in %.1f s" %
              (name, total / 1e9, pause, pause - copying, copying, pause / copy, processor, processor / copy_processor, whole, last,
               dd, dd / whole, dd / last, max(each) / min(each), read / total, took), flush=True)
    os.chdir("..")
    shutil.rmtree("bench.checkpoints")


if __name__ == "__main__":
    main()
