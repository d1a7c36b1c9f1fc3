#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a browser:  page.py DTC

Each page must be below 1 MB and mention no address outside of itself. With Chromium it is opened without a screen: no
message of an error, the script comes to its end, and the pictures have the colours of what they show. Without Chromium
that part is skipped, and said to be."""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = (
    ("examples/llama3_8b.dsl", "--parallel", "d3"),
    ("examples/gpt2.dsl",),
    ("examples/gpt_1t.dsl",),
    ("examples/quickstart.dsl", "--parallel", "two"),
)
FORWARD, BACKWARD = (0x44, 0x77, 0xAA), (0xEE, 0x66, 0x77)


def pixels(path):
    """Colours of a picture of 8 bits a channel, each with how often it is there."""
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


def show(browser, page, folder, draws):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + folder + "/profile",
             "--enable-logging=stderr", "--v=0", "--window-size=700,1100", "--virtual-time-budget=4000"]
    said = subprocess.run([browser, *flags, "--dump-dom", "file://" + page], capture_output=True, text=True, timeout=120)
    errors = [line for line in said.stderr.splitlines() if "CONSOLE" in line]
    assert not errors, errors[:3]
    assert 'data-done="yes"' in said.stdout, "the script did not come to its end"
    assert said.stdout.count("<tr>") > 5, "the tables are empty"
    if not draws:
        return None
    picture = folder + "/picture.png"
    subprocess.run([browser, *flags, "--screenshot=" + picture, "file://" + page], capture_output=True, timeout=120)
    return pixels(picture)


def main():
    dtc = os.path.abspath(sys.argv[1])
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    passed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (path, *options) in enumerate(PAGES):
            page = f"{folder}/page{number}.html"
            subprocess.run([dtc, os.path.join(ROOT, path), *options, "--report=html", "-o", page], check=True,
                           stderr=subprocess.DEVNULL)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            assert len(text) < 1000000, (path, len(text))
            assert not re.search(r"(src|href)=|https?://", text), path
            passed += 1
            if not browser:
                skipped += 1
                continue
            colors = show(browser, page, folder, number in (0, 2))
            assert not colors or colors.get(FORWARD, 0) > 300, (path, "no memory or pieces are drawn")
            assert not colors or colors.get(BACKWARD, 0) > 300, (path, "no backward pieces are drawn")
    if skipped:
        print("no Chromium on this machine: pages were made, not opened")
    print(f"{passed} passed, 0 failed, {skipped} skipped")


main()
