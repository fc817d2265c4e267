#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make screenshot: the screen as somebody at the machine sees it, as a PNG, when the run is over.

    screenshot.py OUT.png [OPTIONS]
"""
import shutil
import sys
import tempfile
import time
from pathlib import Path

import rig
from monitor import Monitor


def screenshot(out, options="", **more):
    """Boot, wait for the last word, take the screen while the verdict stays on it."""
    folder = Path(tempfile.mkdtemp(prefix="mcspin-"))

    def watch(line, event):
        if not event or event["event"] != "done":
            return None
        time.sleep(2)  # the verdict is drawn after the last event
        Monitor(folder / "qmp").ask("screendump", filename=str(Path(out).absolute()), format="png")
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
