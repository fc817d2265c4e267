# SPDX-License-Identifier: GPL-2.0-only
"""What a run must outlive: the plug pulled after any suite, no screen, no serial port, little memory;
and that nothing is drawn over the stream."""
import json

import pytest

import rig


def pull_after(count):
    """Pull the plug when `count` suites are finished and saved: the next one's first line."""
    seen = []

    def watch(line, event):
        if line.strip().startswith("# Subtest: "):
            seen.append(line.split()[-1])
        return rig.STOP if len(seen) > count else None
    watch.seen = seen
    return watch


def test_plug_pulled_after_each_suite(folder):
    """The files are whole up to the last finished suite, and the next run names what the dead one
    died in. One disk through all deaths, so that each boot is also the next run of the one before."""
    disk = folder / "disk.img"
    rig.make_disk(disk, "quick=1 bench=none exit=qemu")
    dead = None
    for count in range(1, 10):
        watch = pull_after(count)
        run = rig.boot(folder / str(count), disk=disk, smp=1, watch=watch)
        told_of(run, dead)
        if not run.stopped:
            break
        results = run.results()
        # More may have ended before the plug was out.
        assert {t["suite"] for t in results["tests"]} >= set(watch.seen[:-1])
        assert results["run"]["result"] == "error", "an unfinished run is an error"
        assert run.file("report.html").exists() and run.file("junit.xml").exists()
        dead = run.one("run")["id"]
    assert count >= 4 and run.result == "pass", run.tail()


def told_of(run, dead):
    if dead:
        said = [w["text"] for w in run.of("warn") if "did not finish" in w["text"]]
        assert said and dead in said[-1], run.of("warn")


def test_no_screen(boot):
    run = boot("suite=selftest", smp=1, extra=("-vga", "none"))
    assert run.code == rig.PASS and run.result == "pass", run.tail()


def test_no_serial(boot):
    run = boot("suite=selftest", smp=1, serial=False)
    assert run.code == rig.PASS
    assert not run.events
    assert run.results()["run"]["result"] == "pass"
    assert "KTAP version 1" in run.file("mcspin.log").read_text()


def test_little_memory(boot):
    """512 MiB carry a whole quick run; 128 are enough for the firmware and the self-test."""
    run = boot("quick=1", smp=1, memory="512M")
    assert run.code == rig.PASS and run.result == "pass", run.tail()


def test_stream_is_whole(boot):
    """Between the first line of the stream and the last there is nothing else on the serial line."""
    run = boot("suite=selftest,alternatives quick=1", smp=2)
    assert run.result == "pass", run.tail()
    lines = [line.strip() for line in run.lines]
    first = next(i for i, line in enumerate(lines) if line.endswith("KTAP version 1"))
    last = max(i for i, line in enumerate(lines) if '"event": "done"' in line)
    for line in lines[first + 1:last + 1]:
        known = line.startswith(("# ", "ok ", "not ok ", "1..")) or not line
        assert known and "\x1b" not in line, repr(line)
        if line.startswith("# mcspin "):
            json.loads(line[9:])


@pytest.mark.parametrize("words", ["help=1", "list=1"])
def test_one_screen(boot, words):
    """Each fits one screen of 80 by 25."""
    run = boot(words, smp=1)
    assert run.code == rig.PASS
    text = [line for line in run.lines if line.strip() and "\x1b" not in line and "BdsDxe" not in line]
    assert 5 < len(text) <= 24, f"{len(text)} lines"
    assert max(len(line) for line in text) < 80, max(text, key=len)
