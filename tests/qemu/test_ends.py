# SPDX-License-Identifier: GPL-2.0-only
"""How a run ends: the machine reset or switched off as exit= says, or a run that a key stops."""
import tempfile
import time

import pytest

import rig
from monitor import Monitor, connect

# What QEMU itself says of the guest's end; both end it, with the same status.
ENDS = {"reset": "guest-reset", "off": "guest-shutdown"}


class Qmp:
    """A monitor that is there from the first line on. A socket's path has 108 bytes: short names."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mcspin-")
        self.path, self.com1, self.monitor = f"{self.folder.name}/q", f"{self.folder.name}/1", None
        self.extra = ("-qmp", f"unix:{self.path},server=on,wait=off")

    def begin(self):
        self.monitor = self.monitor or Monitor(self.path)


@pytest.mark.parametrize("word", ENDS)
def test_exit(folder, word):
    """With the files written, and by the firmware's own service: the status of QEMU is 0, and its
    monitor says what the guest asked for."""
    disk, qmp = folder / "disk.img", Qmp()
    rig.make_disk(disk, f"suite=selftest hold=0 exit={word}")
    run = rig.boot(folder, disk=disk, smp=2, extra=qmp.extra, watch=lambda *_: qmp.begin())
    assert run.result == "pass" and run.code == 0 and not run.timed_out, run.tail()
    ends = [e["data"] for e in qmp.monitor.last_words() if e.get("event") == "SHUTDOWN"]
    assert [(e["guest"], e["reason"]) for e in ends] == [(True, ENDS[word])]
    assert run.results()["run"]["result"] == "pass"


def by_serial(qmp):
    """Half a second on the line: hanging up at once may lose the key, and not listening stops QEMU."""
    line, end = connect(qmp.com1), time.monotonic() + 0.5
    line.sendall(b"\x1b")
    while time.monotonic() < end:
        line.recv(65536)
    line.close()


def by_keyboard(qmp):
    qmp.monitor.ask("send-key", keys=[{"type": "qcode", "data": "esc"}])


# Early on the serial line: there firmware waits two seconds for what may follow an ESC.
@pytest.mark.parametrize("press, during", [(by_serial, "selftest"), (by_keyboard, "alternatives"),
                                           (by_keyboard, "bench")])
def test_escape(folder, press, during):
    """ESC ends the run at the next test or bench: what was done stays done, the rest is left out and
    said to be, the reports are written, the machine is given back. That is no pass."""
    disk, qmp, pressed = folder / "disk.img", Qmp(), []
    rig.make_disk(disk, "quick=1 exit=qemu hold=0")

    def watch(line, event):
        qmp.begin()
        if event and event["event"] in ("test", "bench_start") and not pressed:
            if during in (event["event"].split("_")[0], event.get("suite")):
                pressed.append(event["name"])
                press(qmp)

    run = rig.boot(folder, disk=disk, smp=2, watch=watch, serial=qmp.com1, extra=qmp.extra)
    assert pressed and run.code == rig.FAIL and run.result == "error", run.tail()
    assert len([w for w in run.of("warn") if "stopped by a key" in w["text"]]) == 1
    assert not run.of("crash") and not run.tests("fail") + run.tests("error"), run.tail()
    left = [t for t in run.tests("skip") if t["reason"] == "the run was stopped by a key"]
    skipped = [b for b in run.of("bench_skipped") if b["reason"] == "the run was stopped by a key"]
    assert run.tests("pass") and skipped
    # Everything before the key ran, nothing after it.
    assert bool(left) == (during != "bench")
    assert run.tests()[len(run.tests()) - len(left):] == left
    assert len(run.tests()) == run.one("plan")["tests"], "the report names every test"
    results = run.results()
    assert results["run"]["result"] == "error" and len(results["tests"]) == len(run.tests())
    assert run.file("report.html").exists() and run.file("junit.xml").exists()


def test_foreign_nmi(folder):
    """An NMI that mcspin did not send, as a BMC's button does: a crash report, not silence. It may come
    inside a firmware service, and then the files keep what they had."""
    disk, qmp, sent = folder / "disk.img", Qmp(), []
    rig.make_disk(disk, "quick=1 bench=none exit=qemu hold=0")

    def watch(line, event):
        qmp.begin()
        if event and event["event"] == "test" and not sent:
            sent.append(qmp.monitor.human("nmi"))

    run = rig.boot(folder, disk=disk, smp=1, extra=qmp.extra, watch=watch)
    crash = run.one("crash")
    assert crash["vector"] == "NMI" and "nothing expected" in crash["why"], crash
    assert run.code == rig.FAIL and run.result in (None, "error"), run.tail()
