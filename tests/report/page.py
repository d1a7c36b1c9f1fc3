#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a browser:  page.py DTC

Each page must be below 1 MB and mention no address outside of itself, and say no more memory in use than there is. With
Chromium it is opened without a screen: no message of an error, the script comes to its end, no picture is empty, and
some have the colours of what they show. Without Chromium that part is skipped, and said to be.

With DT_SHARE=K/N in the environment (tests/share.py) one page of N is made."""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = (
    ("examples/llama3_8b.dsl", "--parallel", "d3"),
    ("examples/gpt2.dsl",),
    ("examples/gpt_1t.dsl",),
    ("examples/quickstart.dsl", "--parallel", "two"),
)
FORWARD, BACKWARD = (0x44, 0x77, 0xAA), (0xEE, 0x66, 0x77)


def pixels(path):
    """The colours of a picture with 8 bits a channel, and how many pixels have each."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, color = size
    assert depth == 8 and color in (2, 6), size
    step, raw = (3 if color == 2 else 4), zlib.decompress(packed)
    line, counts, last = width * step, {}, bytearray(width * step)
    for y in range(height):
        how, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1 : (y + 1) * (line + 1)])
        for i in range(line):
            left = row[i - step] if i >= step else 0
            above = last[i]
            if how == 1:
                row[i] = (row[i] + left) & 255
            elif how == 2:
                row[i] = (row[i] + above) & 255
            elif how == 3:
                row[i] = (row[i] + (left + above) // 2) & 255
            elif how == 4:
                corner = last[i - step] if i >= step else 0
                near = min((left, above, corner), key=lambda x: abs(left + above - corner - x))
                row[i] = (row[i] + near) & 255
        for i in range(0, line, step * 3):
            counts[tuple(row[i : i + 3])] = counts.get(tuple(row[i : i + 3]), 0) + 1
        last = row
    return counts


def log_of(path):
    """A log as dtrun writes it: of a run that was resumed at step 50, with a loss that is not a
    number."""
    lines = [{"event": "start", "step": 0, "model": "gpt", "ranks": 2}]
    for step in list(range(1, 71)) + list(range(50, 4001)):
        loss = None if step == 60 else 2 + 3 * math.exp(-step / 900) + 0.1 * math.sin(step)
        lines.append({"event": "step", "step": step, "loss": loss, "grad_norm": 1.0, "lr": 1e-3, "seconds": 0.05})
        if step % 500 == 0:
            lines.append({"event": "eval", "step": step, "loss": loss, "samples": 64, "metrics": {"accuracy": step / 8000}})
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def check_log(data):
    curves = {(one["kind"], one["name"]): one for one in data["logs"][0]["curves"]}
    loss = curves["loss", "loss"]
    steps = [point[0] for point in loss["points"]]
    assert loss["n"] == 3999 and loss["odd"] == 2 and len(steps) <= 1600, (loss["n"], loss["odd"], len(steps))
    assert steps == sorted(set(steps)) and steps[0] <= 6 and steps[-1] >= 3990, "steps that were done twice"
    assert len(curves["eval", "loss"]["points"]) == 8 and curves["seconds", "seconds"]["median"] == 0.05


def check_memory(plan, path):
    """Compares live memory with the size of the arena: it is never larger, and without a pipeline it
    is nearly as large at some time."""
    for stage in plan["stages"]:
        arena = stage["memory"]["activations"] + stage["memory"]["micro-batches in flight"]
        most = max(stage.get("use", [])[1::2], default=0)
        assert most <= arena, (path, most, arena)
        assert len(plan["stages"]) > 1 or not plan["time"] or most > 0.9 * arena, (path, most, arena)


def check_tensors(plan, path):
    """Checks that the parameters of a rank of each stage have the size of their arena, except for gaps
    of alignment."""
    for number, stage in enumerate(plan["stages"]):
        sums = [0, 0, 0]
        for tensor in plan["tensors"]:
            ends = tensor["stages"]
            if any(ends[i] <= number <= ends[i + 1] for i in range(0, len(ends), 2)):
                sums = [a + b for a, b in zip(sums, tensor["bytes"])]
        for kind, total in zip(("parameters", "gradients", "optimizer"), sums):
            assert abs(total - stage["memory"][kind]) <= 0.02 * stage["memory"][kind] + 4096, (path, number, kind, total)


def check_data(text, path):
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S).group(1))
    for plan in data["plans"]:
        check_memory(plan, path)
        check_tensors(plan, path)
    return data


def show(browser, page, folder, draws):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + folder + "/profile",
             "--enable-logging=stderr", "--v=0", "--window-size=900,2600", "--virtual-time-budget=4000"]
    said = subprocess.run([browser, *flags, "--dump-dom", "file://" + page + "#check"], capture_output=True, text=True, timeout=120)
    errors = [line for line in said.stderr.splitlines() if "CONSOLE" in line]
    assert not errors, errors[:3]
    assert 'data-done="yes"' in said.stdout, "the script did not come to its end"
    assert 'data-empty="0"' in said.stdout, "a picture is empty"
    assert said.stdout.count("<tr") > 5, "the tables are empty"
    if not draws:
        return None
    picture = folder + "/picture.png"
    subprocess.run([browser, *flags, "--screenshot=" + picture, "file://" + page], capture_output=True, timeout=120)
    return pixels(picture)


def make(dtc, folder):
    """The names of pages, and the arguments that make each."""
    pages = [(path, os.path.join(ROOT, path), *options, "--report=html") for path, *options in PAGES]
    log = os.path.join(folder, "log.jsonl")
    log_of(log)
    pages.append(("a run", os.path.join(ROOT, "examples/quickstart.dsl"), "--report=html", "--log", log))
    plans = [os.path.join(folder, name + ".plan") for name in ("one", "two")]
    for plan, batch in zip(plans, (256, 512)):
        subprocess.run([dtc, os.path.join(ROOT, "examples/llama3_8b.dsl"), "--parallel", "d3", "-D", f"batch={batch}",
                        "--no-kernels", "-o", plan], check=True, stderr=subprocess.DEVNULL)
    still = os.path.join(folder, "still.plan")
    subprocess.run([dtc, os.path.join(ROOT, "examples/quickstart.dsl"), "--no-kernels", "-o", still], check=True,
                   stderr=subprocess.DEVNULL)
    pages.append(("no device", "report", still, "--report=html"))
    pages.append(("two plans", "compare", *plans, "--report=html", "--log", log))
    return pages


def main():
    dtc = os.path.abspath(sys.argv[1])
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    passed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, *words) in share.of(enumerate(make(dtc, folder))):
            page = f"{folder}/page{number}.html"
            subprocess.run([dtc, *words, "-o", page], check=True, stderr=subprocess.DEVNULL)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            assert len(text) < 1000000, (name, len(text))
            assert not re.search(r"(src|href)=|https?://", text), name
            data = check_data(text, name)
            if data["logs"]:
                check_log(data)
            passed += 1
            if not browser:
                skipped += 1
                continue
            colors = show(browser, page, folder, number in (0, 2))
            assert not colors or colors.get(FORWARD, 0) > 300, (name, "no memory or pieces are drawn")
            assert not colors or colors.get(BACKWARD, 0) > 300, (name, "no backward pieces are drawn")
    if skipped:
        print("no Chromium on this machine: pages were made, not opened")
    print(f"{passed} passed, 0 failed, {skipped} skipped")


main()
