# SPDX-License-Identifier: GPL-2.0-only
"""Firmware that refuses: mcspin started from tests/hostile, which bends the services beneath it. Each
case ends in a right run or in one sentence, never in silence."""
import pytest

import rig

QUICK = "hold=0 quick=1 bench=none suite=selftest"
GONE = 0  # -no-reboot: a reset ends QEMU

# ways@which: (processors, words, result, exit code, what a warning must say, processors of the run)
CASES = {
    "named": (1, QUICK, "pass", rig.PASS, None, 1),
    "junk": (1, "", "pass", rig.PASS, "no text and were ignored", 1),
    # The boot processor waits in the firmware, processor 1 is the referee and contends with the rest.
    "mp-unsupported@4": (4, QUICK + ",osq", "pass", rig.PASS, "as referee", 4),
    "mp-unsupported@2": (2, QUICK + ",osq", "pass", rig.PASS, "nobody is left to contend", 2),
    "mp-not-ready": (2, QUICK, "pass", rig.PASS, "would not start the other processors", 2),
    "mp-lost": (3, QUICK, "error", GONE, "processor 2 (APIC id 2) is not used any more", 3),
    "mp-absent": (2, QUICK, "pass", rig.PASS, None, 1),
    "mp-error": (2, QUICK, "pass", rig.PASS, None, 1),
    "watchdog": (1, QUICK, "pass", rig.PASS, "watchdog could not be stopped", 1),
    "console": (1, QUICK, "pass", rig.PASS, None, 1),
    "acpi-none": (1, QUICK, "pass", rig.PASS, "offers no ACPI tables", 1),
    "acpi-root": (1, QUICK, "pass", rig.PASS, "root pointer's checksum is wrong", 1),
    "acpi-length": (1, QUICK, "pass", rig.PASS, "XSDT is damaged", 1),
    "acpi-empty": (1, QUICK, "pass", rig.PASS, None, 1),
    "acpi-tables": (1, QUICK, "pass", rig.PASS, "FACP is damaged", 1),
    "no-volume": (1, QUICK, "pass", rig.PASS, "the stream carries everything", 1),
}


def hostile_boot(folder, ways, words, smp, **more):
    """The stick with the hostile program in the boot path and mcspin beside it."""
    folder.mkdir(exist_ok=True)
    disk = folder / "disk.img"
    rig.copy(rig.BUILD / "mcspin.img", disk)
    cfg = folder / "hostile.cfg"
    cfg.write_text(f"ways {ways}\nwords {words}\n")
    esp = ("-o", "-i", f"{disk}{rig.ESP}")
    rig.mtool("mcopy", *esp, str(rig.BUILD / "hostile.efi"), "::/EFI/BOOT/BOOTX64.EFI")
    rig.mtool("mcopy", *esp, str(rig.BUILD / "mcspin.efi"), "::/EFI/BOOT/mcspin.efi")
    rig.mtool("mcopy", *esp, str(cfg), "::/EFI/BOOT/hostile.cfg")
    if not words:  # junk took the command line's place
        cfg.write_text(QUICK + "\n")
        rig.mtool("mcopy", *esp, str(cfg), "::/EFI/BOOT/mcspin.cfg")
    return rig.boot(folder, disk=disk, smp=smp, **more)


def given_back(run, smp):
    """Registers, tables, timers and pages, looked at before and after by the program outside."""
    told = [line for line in run.lines if "given back" in line]
    assert told and all("hostile: all given back" in line for line in told), told or run.tail()
    pages = int(told[0].split()[-1])
    assert pages * 4096 <= (64 << 20) + (64 << 10) * smp, f"{pages} pages were taken at a time"


@pytest.mark.parametrize("words, smp, result", [
    ("quick=1 bench=control", 2, "pass"),
    ("test=crash_on_control bench=none", 2, "error"),
    ("test=hang_on_ap bench=none", 2, "error"),
    ("colour=red", 1, None),
])
def test_given_back(folder, words, smp, result):
    """After a whole run, after a crash with a watchpoint armed and vector state on, after one was
    pulled out of a hang, and where nothing ran."""
    run = hostile_boot(folder, "plain", f"hold=0 {words}", smp, timeout=120)
    assert run.result == result, run.tail()
    given_back(run, smp)


@pytest.mark.parametrize("ways", CASES)
def test_firmware_refuses(folder, ways):
    smp, words, result, code, sentence, cpus = CASES[ways]
    ways = ways.split("@")[0]
    run = hostile_boot(folder, ways, words, smp, timeout=90)
    if run.result == "fail" and any("called out" in (t["reason"] or "") for t in run.tests("fail")):
        # Four processors on a busy host: one that slept through a contest's window proves nothing.
        run = hostile_boot(folder / "again", ways, words, smp, timeout=90)
    assert run.result == result, run.tail()
    assert run.code == code, run.tail()
    if sentence:
        assert any(sentence in w["text"] for w in run.of("warn")), run.of("warn")
    assert run.of("machine")[0]["cpus"] == cpus
    assert not run.of("crash") and not run.tests("fail")
    if "osq" in words:
        check_contests(run, smp - 1)
    if code != GONE:
        given_back(run, smp)
    if code != GONE and ways != "no-volume":
        assert run.results()["run"]["result"] == result, "the files say something else"


def check_contests(run, contestants):
    """The whole contest suite, on the processors that the firmware let go. One alone is in a contest
    as well; what needs a second one is left out by that name."""
    osq = {t["name"]: t for t in run.tests() if t["suite"] == "osq"}
    assert f"by {contestants} processor" in osq["contest"]["reason"], osq["contest"]
    for_two = {"handed_over", "first_in_first_out", "waiters_leave"}
    assert for_two | {"alone", "contest"} < set(osq)
    skipped = {name for name, t in osq.items() if t["result"] == "skip"}
    assert skipped == {"icount_agrees"} | (for_two if contestants == 1 else set()), skipped
    assert skipped | {n for n, t in osq.items() if t["result"] == "pass"} == set(osq), run.tail()


def test_referee_hangs(folder):
    """Its watch is the firmware's timer on the boot processor, also where nobody else is left."""
    run = hostile_boot(folder, "mp-unsupported", "hold=0 test=hang_on_control bench=none time=60", 2,
                       timeout=90)
    crash = run.one("crash")
    assert crash["cpu"] == 1 and "was pulled out" in crash["why"] and crash["vector"] == "NMI"
    assert run.result == "error" and run.code == rig.FAIL, run.tail()
    assert run.alone(run.one("done")["seconds"]) < 20


def test_five_levels(folder):
    """Page tables with five levels: mcspin's own top table, the arena, user pages and the second
    mapping of the text stand one level higher. (OVMF's other processors do not come along.)"""
    run = hostile_boot(folder, "la57", QUICK + ",alternatives,copy_mc", 1, cpu="max", timeout=120)
    assert "hostile: five levels 1" in run.lines, run.tail()
    assert run.result == "pass" and run.code == rig.PASS and not run.of("crash"), run.tail()
    for name in ("fault_recovered", "bytes_as_decided", "page_edges", "smap"):
        assert run.one("test", name=name)["result"] == "pass", run.one("test", name=name)


# How the text became writable, and what the protocol saw: nothing stays open.
@pytest.mark.parametrize("ways, way, calls", [
    ("ro", "CR0.WP", "opened 0 closed 0"),
    ("ro,memattr", "EFI_MEMORY_ATTRIBUTE_PROTOCOL", None),
    ("ro,memattr-refuses", "CR0.WP", None),
])
def test_read_only_text(folder, ways, way, calls):
    run = hostile_boot(folder, ways, QUICK + ",alternatives", 1, timeout=90)
    assert run.result == "pass" and run.code == rig.PASS, run.tail()
    assert run.one("patching")["way"] == way
    told = [line for line in run.lines if line.startswith("hostile: text")]
    assert told, run.tail()
    assert "first writable 0 last writable 0" in told[0], "the text was left writable: " + told[0]
    assert "strange 0" in told[0], told[0]
    number = dict(zip(told[0].split()[8::2], told[0].split()[9::2]))
    if calls:
        assert calls in told[0]
    if way.startswith("EFI"):
        assert number["opened"] == number["closed"] != "0", told[0]
