#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many instructions kernels execute on a GPU, without that GPU: instructions.py PLAN [NAME]

Takes the code for NVIDIA GPUs out of a plan (dtc FILE --target=sm_90a -o PLAN) and counts the
instructions of each kernel's loops, with nvdisasm (of the CUDA toolkit, or PyPI's
nvidia-cuda-nvdisasm; $NVDISASM says where). NAME: only kernels whose name or symbol has this in it,
and the kinds of their instructions.

A multiprocessor of an H100 begins 4 warps' instructions a cycle, and reads or writes 13 bytes (3
TB/s, 132 of them at 1.75 GHz): so a kernel that moves b bytes for each element is bound by memory
only with fewer than 10 b instructions for it, and hides the memory's latency only well below
that."""

import collections
import os
import re
import struct
import subprocess
import sys
import tempfile


def sections(data):
    if data[:8] != b"DTPLAN\r\n":
        sys.exit("instructions.py: not a plan")
    n, found = struct.unpack_from("<I", data, 12)[0], {}
    for i in range(n):
        tag, _, _, size, count, offset, length, _ = struct.unpack_from("<4sHHIIQQQ", data, 64 + 40 * i)
        found[tag.decode()] = size, count, data[offset:offset + length]
    return found


def text_of(found, at):
    strings = found["STRS"][2]
    return strings[at:strings.index(b"\0", at)].decode()


def codes(found):
    size, count, records = found["CODE"]
    for i in range(count):
        target, _, binary, length = struct.unpack_from("<IIQQ", records, size * i)
        if length and text_of(found, target).startswith("sm_"):
            yield text_of(found, target), found["BLOB"][2][binary:binary + length]


def names(found):
    size, count, records = found["KERN"]
    pairs = (struct.unpack_from("<II", records, size * i) for i in range(count))
    return {text_of(found, symbol): text_of(found, name) for symbol, name in pairs}


def functions(cubin):
    """For each kernel its symbol, its instructions, and the first and the last instruction of each
    loop."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run([os.environ.get("NVDISASM", "nvdisasm"), "-c", file.name], capture_output=True, text=True)
    if said.returncode:
        sys.exit("instructions.py: " + said.stderr)
    for text in re.split(r"(?m)^\s*\.section\s+\.text\.", said.stdout)[1:]:
        kinds, labels, loops = [], {}, []
        for line in text.split("\n"):
            label = re.match(r"\s*(\.L_x?_?\w+):", line)
            found = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z0-9_]+)[^ ;]*(.*)", line)
            if label:
                labels[label.group(1)] = len(kinds)
            elif found:
                to = re.search(r"`\((\.L_x?_?\w+)\)", found.group(2))
                if found.group(1) == "BRA" and to and labels.get(to.group(1), len(kinds)) < len(kinds) - 2:
                    loops.append((labels[to.group(1)], len(kinds)))
                kinds.append(found.group(1))
        yield re.match(r"\w+", text).group(0), kinds, loops


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        found = sections(file.read())
    known = names(found)
    for target, cubin in codes(found):
        for symbol, kinds, loops in sorted(functions(cubin), key=lambda f: int(re.sub(r"\D", "", f[0]) or 0)):
            name = known.get(re.sub(r"_(pieces|finish)$", "", symbol), "")
            if len(sys.argv) == 3 and sys.argv[2] not in (symbol, name) and sys.argv[2] not in name:
                continue
            print("%-8s %-16s %6d  loops %-40s %.60s" % (target, symbol, len(kinds),
                  " ".join(str(last - first + 1) for first, last in loops), name))
            for first, last in loops if len(sys.argv) == 3 else ():
                mix = collections.Counter(kinds[first:last + 1]).most_common(12)
                print("    %5d: %s" % (last - first + 1, ", ".join("%s %d" % pair for pair in mix)))


main()
