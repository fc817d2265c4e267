#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make screenshot: the screen as somebody at the machine sees it, as a PNG, when the run is over.

    screenshot.py OUT.png [OPTIONS]
"""
import json
import shutil
import socket
import struct
import sys
import tempfile
import time
import zlib
from pathlib import Path

import rig


def qmp(path, *commands):
    """Talk to a running QEMU: greeting, capabilities, then each command's answer."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(path))
        stream = s.makefile("rw")
        stream.readline()
        answers = []
        for command in ({"execute": "qmp_capabilities"}, *commands):
            stream.write(json.dumps(command) + "\n")
            stream.flush()
            while True:
                answer = json.loads(stream.readline())
                if "return" in answer or "error" in answer:
                    answers.append(answer)
                    break
        return answers[1:]


def png(ppm):
    """A binary PPM, as QEMU dumps it, to PNG."""
    magic, size, depth, pixels = ppm.split(b"\n", 3)
    assert magic == b"P6" and depth == b"255"
    width, height = map(int, size.split())
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) +
            chunk(b"IEND", b""))


def screenshot(out, options="", **more):
    """Boot, wait for the last word, take the screen while the verdict stays on it."""
    folder = Path(tempfile.mkdtemp(prefix="mcspin-"))
    shot = folder / "screen.ppm"

    def watch(line, event):
        if not event or event["event"] != "done":
            return None
        time.sleep(2)  # the verdict is drawn after the last event
        qmp(folder / "qmp", {"execute": "screendump", "arguments": {"filename": str(shot)}})
        return rig.STOP

    monitor = ("-qmp", f"unix:{folder / 'qmp'},server=on,wait=off")
    disk = folder / "disk.img"
    rig.make_disk(disk, f"exit=off hold=600 {options}")
    try:
        run = rig.boot(folder, disk=disk, watch=watch, extra=monitor, **more)
        if shot.exists():
            Path(out).write_bytes(png(shot.read_bytes()))
        return run
    finally:
        shutil.rmtree(folder)


def main():
    run = screenshot(sys.argv[1], " ".join(sys.argv[2:]), timeout=200)
    if not Path(sys.argv[1]).exists():
        sys.exit("no screen was taken: the run never ended\n" + run.tail())
    print(f"{sys.argv[1]}: the screen {run.seconds:.0f} s after power-on")


if __name__ == "__main__":
    main()
