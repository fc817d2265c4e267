# SPDX-License-Identifier: GPL-2.0-only
"""Boot mcspin in QEMU and bring back everything it said.

A run gets a copy of build/mcspin.img with its words in mcspin.cfg, boots it under OVMF without KVM,
follows the serial line while QEMU runs, and reads the report folder back with mtools. QEMU always
ends: by isa-debug-exit, by itself, or killed by its process id when the time is up.
"""
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
OVMF = Path("/usr/share/OVMF")
STOP = object()      # what `watch` returns to pull the plug
PASS, FAIL = 33, 35  # (v << 1) | 1 of the values that exit=qemu writes
ESP = "@@1M"         # where linker/image.mk puts the partition

EVENT = re.compile(r"# mcspin (\{.*\})\s*$")


class Run:
    """What one boot said: lines, events, files, exit code of QEMU, seconds it took."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.lines, self.events = [], []
        self.code, self.seconds, self.timed_out, self.stopped = None, 0.0, False, False
        self.waited = 0.0  # seconds for which the host kept one of QEMU's threads waiting for a processor

    def alone(self, seconds=None):
        """Seconds of this run, all of it unless said, as they would be on a host with nothing else to
        do. Work and idle waiting count in full, so a run that became slow stays slow."""
        return (self.seconds if seconds is None else seconds) - self.waited

    def take(self, line):
        self.lines.append(line)
        match = EVENT.search(line)
        if not match:
            return None
        try:
            event = json.loads(match.group(1))
        except ValueError:
            self.events.append({"event": "torn", "line": line})
            return None
        self.events.append(event)
        return event

    def of(self, kind, **fields):
        return [e for e in self.events
                if e["event"] == kind and all(e.get(k) == v for k, v in fields.items())]

    def one(self, kind, **fields):
        found = self.of(kind, **fields)
        assert found, f"no event {kind} {fields}\n{self.tail()}"
        return found[-1]

    @property
    def result(self):
        done = self.of("done")
        return done[-1]["result"] if done else None

    def tests(self, result=None):
        return [e for e in self.of("test") if result in (None, e["result"])]

    def file(self, name):
        return self.folder / name

    def results(self):
        return json.loads(self.file("results.json").read_text())

    def tail(self, count=25):
        return "\n".join(line[:300] for line in self.lines[-count:])


def words(cfg):
    return cfg if isinstance(cfg, str) else " ".join(cfg)


def make_disk(path, options, image=None):
    """A copy of the stick with these words in its mcspin.cfg."""
    copy(image or BUILD / "mcspin.img", path)
    cfg = path.with_suffix(".cfg")
    cfg.write_text(words(options) + "\n")
    mtool("mcopy", "-o", "-i", f"{path}{ESP}", str(cfg), "::/EFI/BOOT/mcspin.cfg")


def copy(source, path):
    """A copy that keeps the holes: of 64 MiB one is in use."""
    subprocess.run(["cp", "--sparse=always", str(source), str(path)], check=True)


def mtool(*command, check=True):
    env = dict(os.environ, MTOOLS_SKIP_CHECK="1")
    return subprocess.run(command, env=env, check=check, capture_output=True, text=True)


def fetch(disk, folder, run_id=None):
    """The newest run's files (or those of `run_id`) into `folder`; names, empty if there are none."""
    listing = mtool("mdir", "-b", "-i", f"{disk}{ESP}", "::/mcspin", check=False).stdout.split()
    runs = sorted(p.rstrip("/") for p in listing if p.endswith("/"))
    if run_id:
        runs = [p for p in runs if p.endswith("/" + run_id)]
    if not runs:
        return []
    mtool("mcopy", "-o", "-n", "-i", f"{disk}{ESP}", f"{runs[-1]}/*", str(folder), check=False)
    return [p.name for p in folder.iterdir()]


# How a medium is attached. The firmware tries whatever is there.
MEDIA = {
    "sata": ["-device", "ide-hd,drive=medium"],
    "usb": ["-device", "qemu-xhci", "-device", "usb-storage,drive=medium,removable=on"],
    "nvme": ["-device", "nvme,drive=medium,serial=mcspin"],
    "cd": ["-device", "ide-cd,drive=medium"],
}


def serial_line(folder, serial):
    """COM1 into serial.log; none; or, given a socket's path, with that socket to type into."""
    log = folder / "serial.log"
    if not serial:
        return ["-serial", "none"]
    if serial is True:
        return ["-serial", f"file:{log}"]
    return ["-chardev", f"socket,id=com1,path={serial},server=on,wait=off,logfile={log}",
            "-serial", "chardev:com1"]


def command_line(folder, disk, cpu, smp, memory, extra, drive, read_only=False, serial=True,
                 machine="q35,accel=tcg", code="OVMF_CODE_4M.fd", variables="OVMF_VARS_4M.fd"):
    shutil.copyfile(OVMF / variables, folder / "vars.fd")
    line = ["qemu-system-x86_64", "-machine", machine, "-cpu", cpu, "-smp", str(smp),
            "-m", memory, "-display", "none", "-no-reboot",
            "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={OVMF / code}",
            "-drive", f"if=pflash,format=raw,unit=1,file={folder / 'vars.fd'}",
            *serial_line(folder, serial),
            "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
    if "-netdev" not in extra:
        line += ["-net", "none"]
    if drive:
        medium = "sata" if drive is True else drive
        mode = "on" if read_only or medium == "cd" else "off"
        line += ["-drive", f"if=none,id=medium,format=raw,file={disk},readonly={mode}"]
        line += MEDIA[medium]
    return line + list(extra)


def waited(pid):
    """Seconds that the thread which waited longest was ready to run and not let, by the scheduler's
    own account; 0 where it keeps none, and then time is the clock's."""
    longest = 0
    for account in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            longest = max(longest, int(account.read_text().split()[1]))
        except (OSError, IndexError):  # the thread has ended
            pass
    return longest / 1e9


def follow(run, process, serial, timeout, watch, stretch):
    """Hand over each line as it comes; stop QEMU when the time is up or `watch` returns STOP. The time
    is what the run would take alone, but a busy host stretches it `stretch` times at most."""
    start, rest, turn = time.monotonic(), b"", 0
    with open(serial, "rb") as stream:
        while True:
            ended = process.poll() is not None
            rest += stream.read()
            *whole, rest = rest.split(b"\n")
            for raw in whole:
                line = raw.decode("utf-8", "replace").rstrip("\r")
                event = run.take(line)
                if watch and not run.stopped and watch(line, event) is STOP:
                    run.stopped = True
                    process.kill()
            if ended:
                break
            turn += 1
            if not turn % 5:
                run.waited = max(run.waited, waited(process.pid))
            run.seconds = time.monotonic() - start
            if run.alone() > timeout or run.seconds > stretch * timeout:
                run.timed_out = True
                process.kill()
            time.sleep(0.05)
    run.code, run.seconds = process.returncode, time.monotonic() - start


def boot(folder, options="", cpu="Cascadelake-Server", smp=2, memory="512M", extra=(), timeout=120,
         watch=None, image=None, disk=None, drive=True, stretch=4, **firmware):
    """One run from power-on to its end. `watch(line, event)` is called for each serial line and
    pulls the plug by returning STOP; `firmware` goes to command_line()."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder)
    if disk is None:
        disk = folder / "disk.img"
        make_disk(disk, "exit=qemu hold=0 " + words(options), image)
    serial = folder / "serial.log"
    serial.write_bytes(b"")
    line = command_line(folder, disk, cpu, smp, memory, extra, drive, **firmware)
    with open(folder / "qemu.txt", "w") as errors:
        process = subprocess.Popen(line, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL)
        try:
            follow(run, process, serial, timeout, watch, stretch)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if drive and firmware.get("read_only") is None and drive != "cd":
        fetch(disk, folder, run.of("run")[-1]["id"] if run.of("run") else None)
    return run
