# SPDX-License-Identifier: GPL-2.0-only
"""Deliberately broken builds. Each must make a run fail, with a message that names the break: a test
that no break can turn red proves nothing."""
import os
import subprocess

import pytest

import rig

# macro -> (words of the run, what a failed test's name or reason must hold)
IN_QEMU = {
    "MUTANT_ELSE": ("quick=1 suite=copy_mc test=copies* bench=none", "copies_per_call"),
    "MUTANT_CLAC": ("quick=1 suite=copy_mc test=smap bench=none", "smap"),
}
NATIVE = {
    "MUTANT_EXTABLE": ("quick=1 suite=copy_mc test=nfit_matrix bench=none", "copy_mc.nfit_matrix"),
    "MUTANT_RESIDUE": ("quick=1 suite=copy_mc test=nfit_matrix bench=none", "copy_mc.nfit_matrix"),
    "MUTANT_HANDOFF": ("quick=1 suite=osq bench=none", "osq."),
    "MUTANT_KVM_BYTE": ("quick=1 suite=osq bench=none", "osq."),
    "MUTANT_MCIP": ("quick=1 suite=mce bench=none", "mce."),
    "MUTANT_PCC": ("quick=1 suite=mce bench=none", "mce.severity"),
    "MUTANT_FIXUP": ("quick=1 suite=copy_mc test=nfit_matrix bench=none", "copy_mc.nfit_matrix"),
}


def build(macro, target):
    """A second build folder; only what differs from the first is the macro. Objects that do not
    know it are taken over."""
    folder = rig.BUILD / "mutants" / macro
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("core", "efi", "host"):
        subprocess.run(["cp", "-a", str(rig.BUILD / part), str(folder)], check=False)
    for source in list(rig.ROOT.glob("src/*/*.[ch]")) + list(rig.ROOT.glob("asm/*.[Sh]")):
        if macro not in source.read_text():
            continue
        # A header may be in anything.
        pattern = "**/*.o" if source.suffix == ".h" else f"core/**/{source.stem}.o"
        for item in folder.glob(pattern):
            item.unlink()
    make = ["make", "-s", "-j2", "-C", str(rig.ROOT), f"BUILD={folder}", f"EXTRA_CFLAGS=-D{macro}"]
    done = subprocess.run(make + [str(folder / target)], capture_output=True, text=True,
                          env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / target


@pytest.mark.parametrize("macro", IN_QEMU)
def test_broken_image_fails(macro, boot):
    words, named = IN_QEMU[macro]
    run = boot(words, smp=2, image=build(macro, "mcspin.img"), timeout=150)
    bad = [f"{t['suite']}.{t['name']}: {t['reason']}" for t in run.tests("fail") + run.tests("error")]
    assert run.code != rig.PASS, "the broken build passed"
    crash = [f"{c['doing']}: {c['why']}" for c in run.of("crash")]
    assert any(named in b for b in bad + crash), (bad, crash, run.tail())


@pytest.mark.parametrize("macro", NATIVE)
def test_broken_core_fails(macro):
    words, named = NATIVE[macro]
    program = build(macro, "host/mcspin-host")
    done = subprocess.run([str(program)] + words.split(), capture_output=True, text=True, timeout=200)
    assert done.returncode in (1, 3), done.stdout[-1500:]  # failed, or crashed
    bad = [line for line in (done.stdout + done.stderr).splitlines()
           if line.strip().startswith("not ok") or "while running" in line]
    assert any(named in line for line in bad), (bad, done.stderr)
