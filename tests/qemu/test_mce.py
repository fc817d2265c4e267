# SPDX-License-Identifier: GPL-2.0-only
"""Machine checks that come from outside: raised by QEMU at the very load of a copy."""
import mmap
import struct
import threading
import time

import inject
import rig

# Something passed before: a crash is an error all the same.
FATAL = "suite=selftest,mce test=formatting,external_fatal inject=1 quick=1"


def external(boot, options, **more):
    injector = inject.Injector()
    run = boot(options, extra=injector.extra(), watch=injector.watch, timeout=280, **more)
    assert not injector.complaints, injector.complaints
    return run, injector


def test_every_load(boot):
    """At least 200 real machine checks, at every load that this processor can run, on both
    processors: each recovered with the right residue, each other kind ending as it must."""
    run, injector = external(boot, "suite=mce inject=1 quick=1")
    assert run.code == rig.PASS, run.tail()
    assert injector.hits >= 200, injector.hits
    assert {cpu for _, cpu in injector.places} == {0, 1}
    for name in ("external", "external_ap", "external_rep_movsb", "external_grades",
                 "external_corrected", "soft", "soft_ap", "repmov_quirk_soft"):
        assert run.one("test", name=name)["result"] == "pass", run.one("test", name=name)
    assert run.alone() < 300


def test_fatal(boot):
    """A corrupt processor context ends the run as an error, with the bank in words."""
    run, _ = external(boot, FATAL)
    assert run.tests("pass") and run.code == rig.FAIL, run.tail()
    crash = run.one("crash")
    assert crash["vector"] == "#MC" and crash["graded"] == "Processor context corrupt", crash
    words, = crash["banks"]
    for part in ("bank 2", "uncorrected", "processor context corrupt", "data load", "address 0x"):
        assert part in words, words
    assert run.one("done")["result"] == "error"


def test_no_machine_check_architecture(boot):
    """Without it every test that needs it is skipped, and says why; nothing fails."""
    run = boot("suite=mce quick=1", cpu="Cascadelake-Server,-mce")
    assert run.code == rig.PASS, run.tail()
    for name in ("soft", "external", "repmov_quirk_soft"):
        test = run.one("test", name=name)
        assert test["result"] == "skip", test
        assert "machine-check" in test["reason"], test


def test_hygon_rules(boot):
    """Dhyana has no recovery: its soft injections are graded by AMD's rules, and the platform's
    lack is a finding, not a failure."""
    run = boot("suite=mce,copy_mc quick=1", cpu="Dhyana")
    assert run.code == rig.PASS, run.tail()
    assert run.one("test", name="soft")["result"] == "pass"
    assert run.one("finding", name="no_recovery")
    assert run.one("test", name="copies_per_call")["result"] == "pass"


# The platform's registers, from the start of a memory device that the rig maps as well.
TYPES, BUSY, STATUS, EXECUTE, STATE, ADDRESS = 0x00, 0x08, 0x10, 0x18, 0x20, 0x40
DEVICE = 0x1_0000_0000  # above the 512 MiB of memory: the first byte of hot-plug memory of q35
MEMORY_UNCORRECTABLE = 0x10


def entry(action, instruction, register=0, width=64, value=0, mask=2 ** 64 - 1, flags=0):
    access = {8: 1, 16: 2, 32: 3, 64: 4}[width]
    return struct.pack("<BBBBBBBBQQQ", action, instruction, flags, 0, 0, width, 0, access,
                       DEVICE + register, value, mask)


def table(types_at=TYPES):
    """A sound EINJ table: reads, writes, and values of the instructions that ACPI has."""
    entries = [entry(0, 3, STATE, 8, 1, 0xff), entry(3, 0, types_at, 32, mask=0xffffffff),
               entry(8, 2, ADDRESS, 32), entry(5, 3, EXECUTE, 8, 1, 0xff),
               entry(6, 1, BUSY, 8, 1, 1), entry(7, 0, STATUS, 32, mask=0x1fe),
               entry(4, 3, STATE, 8, 2, 0xff)]
    body = struct.pack("<IBBBBI", 12, 0, 0, 0, 0, len(entries)) + b"".join(entries)
    head = struct.pack("<4sIBB6s8sI4sI", b"EINJ", 36 + len(body), 1, 0, b"MCSPIN", b"MADEUP  ", 1,
                       b"MCSP", 1)
    raw = bytearray(head + body)
    raw[9] = -sum(raw) & 0xff
    return bytes(raw)


class Platform(threading.Thread):
    """The firmware's part: when EXECUTE is written, be busy for a while, then report success."""

    def __init__(self, path, types):
        super().__init__(daemon=True)
        path.write_bytes(bytes(4096))
        with open(path, "r+b") as file:
            file.truncate(128 << 20)  # OVMF and QEMU agree on a memory device of whole 128 MiB
            self.memory = mmap.mmap(file.fileno(), 4096)
        self.memory[TYPES:TYPES + 4] = struct.pack("<I", types)
        self.poisoned, self.ended = [], False

    def run(self):
        while not self.ended:
            if self.memory[EXECUTE]:
                self.memory[BUSY] = 1
                self.memory[EXECUTE] = 0
                kind, _, flags, _, address, mask = struct.unpack(
                    "<IIIIQQ", self.memory[ADDRESS:ADDRESS + 32])
                self.poisoned.append((kind, flags, address, mask))
                time.sleep(0.1)
                self.memory[BUSY] = 0
            time.sleep(0.002)


def einj(boot, folder, types, options):
    platform = Platform(folder / "registers", types)
    (folder / "einj.aml").write_bytes(table())
    injector = inject.Injector()
    platform.start()
    try:
        run = boot("suite=mce test=einj quick=1 " + options, watch=injector.watch,
                   memory="512M,slots=2,maxmem=2G",
                   extra=[*injector.extra(), "-acpitable", f"file={folder / 'einj.aml'}",
                          "-object", "memory-backend-file,id=registers,share=on,size=128M,"
                          f"mem-path={folder / 'registers'}",
                          "-device", f"pc-dimm,memdev=registers,addr={DEVICE:#x}"])
    finally:
        platform.ended = True
        platform.join()
        (folder / "registers").unlink()
    return run, platform, injector


def test_einj(boot, folder):
    """The table's actions reach the platform; the copy consumes the poison and recovers."""
    run, platform, injector = einj(boot, folder, 0x38, "einj=on inject=1")
    assert run.code == rig.PASS, run.tail()
    assert run.one("test", name="einj")["result"] == "pass"
    assert injector.hits == 1
    (kind, flags, address, mask), = platform.poisoned
    assert kind == MEMORY_UNCORRECTABLE and flags == 2 and mask == 0xfffffffffffff000
    assert address % 4096 == 1024 and platform.memory[STATE] == 2


def test_einj_not_offered(boot, folder):
    """What the platform cannot do is said before anything is injected."""
    run, platform, _ = einj(boot, folder, 0x8, "einj=on")
    test = run.one("test", name="einj")
    assert test["result"] == "skip" and "types 0x8" in test["reason"], test
    assert not platform.poisoned


def test_einj_off(boot, folder):
    """Without einj=on no register is touched."""
    run, platform, _ = einj(boot, folder, 0x38, "")
    assert "einj=on" in run.one("test", name="einj")["reason"]
    assert not platform.poisoned and not platform.memory[STATE]
