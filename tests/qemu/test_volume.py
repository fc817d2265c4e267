# SPDX-License-Identifier: GPL-2.0-only
"""A volume that takes nothing costs the files, never the stream."""
import rig


def test_full_volume(folder):
    disk = folder / "disk.img"
    rig.make_disk(disk, "suite=selftest exit=qemu")
    free = folder / "fill"
    # Larger than what is free: mcopy stops when the volume is full and leaves what fitted.
    free.write_bytes(b"\0" * (64 << 20))
    rig.mtool("mcopy", "-o", "-i", f"{disk}{rig.ESP}", str(free), "::/fill", check=False)
    for size in (1 << 20, 1 << 16, 1 << 12, 512, 1):
        free.write_bytes(b"\0" * size)
        number = 0
        while rig.mtool("mcopy", "-i", f"{disk}{rig.ESP}", str(free), f"::/{size}-{number}",
                        check=False).returncode == 0:
            number += 1
    free.unlink()
    run = rig.boot(folder, disk=disk, smp=1, timeout=60)
    assert run.code == rig.FAIL and run.result == "error", run.tail()
    assert len(run.tests("pass")) >= 5, "the stream lost tests"
    assert any("could not be written" in w["text"] or "cannot be written" in w["text"]
               for w in run.of("warn"))
