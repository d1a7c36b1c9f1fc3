#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes scikit-learn's handwritten digits as PNG files in folders of classes:

  digits.py FOLDER

FOLDER/train/3/0017.png is image 17, a three. Every fifth image is for the test: FOLDER/test/. Needs scikit-learn;
examples/digits.dsl trains on the files."""

import os
import struct
import sys
import zlib


def png(rows):
    """A grey PNG file of rows of bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes(row) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def write(folder, digits):
    for number, (image, digit) in enumerate(zip(digits.images, digits.target)):
        place = os.path.join(folder, "train" if number % 5 else "test", str(digit))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{number:04d}.png"), "wb") as file:
            file.write(png([[15 * int(value) for value in row] for row in image]))


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: digits.py FOLDER")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("digits.py: needs the Python package scikit-learn")
    write(arguments[0], load_digits())


if __name__ == "__main__":
    main(sys.argv[1:])
