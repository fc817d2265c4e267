#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make screenshot: the screen as somebody at the machine sees it, as a PNG, when the run is over.

    screenshot.py OUT.png [OPTIONS]
"""
import json
import shutil
import socket
import sys
import tempfile
import time
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


def screenshot(out, options="", **more):
    """Boot, wait for the last word, take the screen while the verdict stays on it."""
    folder = Path(tempfile.mkdtemp(prefix="mcspin-"))

    def watch(line, event):
        if not event or event["event"] != "done":
            return None
        time.sleep(2)  # the verdict is drawn after the last event
        qmp(folder / "qmp", {"execute": "screendump",
                             "arguments": {"filename": str(Path(out).absolute()), "format": "png"}})
        return rig.STOP

    monitor = ("-qmp", f"unix:{folder / 'qmp'},server=on,wait=off")
    disk = folder / "disk.img"
    rig.make_disk(disk, f"exit=off hold=600 {options}")
    try:
        return rig.boot(folder, disk=disk, watch=watch, extra=monitor, **more)
    finally:
        shutil.rmtree(folder)


def main():
    run = screenshot(sys.argv[1], " ".join(sys.argv[2:]), timeout=200)
    if not Path(sys.argv[1]).exists():
        sys.exit("no screen was taken: the run never ended\n" + run.tail())
    print(f"{sys.argv[1]}: the screen {run.seconds:.0f} s after power-on")


if __name__ == "__main__":
    main()
