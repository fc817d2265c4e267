# SPDX-License-Identifier: GPL-2.0-only
"""make plan over every dump, against what Debian's `cpuid -f` says of the same file, and over
damaged dumps, each of which must be refused with its line and a reason."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))
DUMPS = sorted((ROOT / "tests/data/cpuid").glob("*.cpuid"))


def plan(path, *words):
    return subprocess.run([BUILD / "host/plan", path, *words], capture_output=True, text=True,
                          timeout=20)


def decided(path, *words):
    done = plan(path, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def choices(result):
    return {site["name"]: site["choice"] for site in result["sites"]}


def cpuid_says(path):
    """The few facts to compare, as Debian's cpuid words them; a leaf that is not there is false."""
    text = subprocess.run(["cpuid", "-f", path], capture_output=True, text=True, timeout=20).stdout

    def word(pattern, default=None):
        found = re.search(pattern, text)
        return found[1] if found else default

    return {
        "vendor": word(r'vendor_id = "(.{12})"'),
        "family": int(word(r"\(family synth\)\s+= 0x\w+ \((\d+)\)")),
        "model": int(word(r"\(model synth\)\s+= 0x\w+ \((\d+)\)")),
        "stepping": int(word(r"stepping id\s+= 0x\w+ \((\d+)\)")),
        "ERMS": word(r"enhanced REP MOVSB/STOSB\s+= (\w+)") == "true",
        "FSRM": word(r"fast short REP MOV\s+= (\w+)") == "true",
        "SMAP": word(r"SMAP: supervisor mode access prevention\s+= (\w+)") == "true",
        "RDTSCP": word(r"RDTSCP\s+= (\w+)") == "true",
        "hypervisor": word(r"hypervisor guest status\s+= (\w+)") == "true",
        "signature": word(r'hypervisor_id \(0x40000000\) = "(.{12})"', ""),
        "invariant": word(r"TscInvariant\s+= (\w+)") == "true",
    }


@pytest.mark.parametrize("dump", DUMPS, ids=lambda p: p.stem)
def test_agrees_with_cpuid(dump):
    ours, theirs = decided(dump), cpuid_says(dump)
    machine, features = ours["machine"], ours["features"]

    for key in ("vendor", "family", "model", "stepping"):
        assert machine[key] == theirs[key], key
    for key in ("ERMS", "FSRM", "SMAP", "RDTSCP"):
        assert bool(features[key]) == theirs[key], key
    assert machine["hypervisor"]["present"] == theirs["hypervisor"]
    assert machine["hypervisor"]["signature"] == theirs["signature"]
    assert machine["tsc"]["invariant"] == theirs["invariant"]
    assert choices(ours)["rdtsc_ordered"] == ("rdtscp" if theirs["RDTSCP"] else "lfence_rdtsc")
    assert choices(ours)["copy_mc_generic"] == ("rep_movsb" if theirs["ERMS"] else "fragile")
    assert choices(ours)["stac"] == ("stac" if theirs["SMAP"] else "nop")


def test_all_dumps_are_there():
    assert len(DUMPS) == 18


def test_what_the_dumps_are_for():
    def of(stem):
        return decided(ROOT / f"tests/data/cpuid/{stem}.cpuid")

    hygon, xeon = of("hygon-c86-7185"), of("xeon-cascadelake-50657")
    assert hygon["machine"]["vendor"] == "HygonGenuine" and hygon["machine"]["family"] == 24
    assert choices(hygon)["copy_mc_generic"] == "fragile"
    assert choices(hygon)["memcpy"] == "rep_movsq"
    assert choices(xeon)["copy_mc_generic"] == "rep_movsb"
    for bare in (hygon, xeon):
        assert choices(bare)["vcpu_is_preempted"] == "false"
        assert choices(bare)["vcpu_argument"] == "nop"
        assert choices(bare)["smp_lock"] == "lock"
    # Hyper-V installs a function that always says false: call and argument stay.
    for stem in ("hyperv-amd-850f00", "hyperv-xeon-d-606c1"):
        guest = of(stem)
        assert choices(guest)["vcpu_is_preempted"] == "direct_call"
        assert choices(guest)["vcpu_argument"] == "load"
        assert "always says false" in guest["because"]["VCPUPREEMPT"]


def test_not_recorded_is_unknown(tmp_path):
    text = (ROOT / "tests/data/cpuid/xeon-skylake-50654.cpuid").read_text()
    short = tmp_path / "short.cpuid"
    short.write_text("".join(l for l in text.splitlines(True) if "0x00000007 0x00" not in l))
    assert decided(short)["features"]["ERMS"] is None
    assert "not recorded" in decided(short)["because"]["ERMS"]


def test_msrs():
    dump = ROOT / "tests/data/cpuid/xeon-cascadelake-50657.cpuid"
    assumed = {m["msr"]: m for m in decided(dump)["msrs"]}
    assert "assumed" in assumed["0x1a0"]
    slow = decided(dump, "0x1a0=0x0")
    assert slow["features"]["ERMS"] is False
    assert "fast strings" in slow["because"]["ERMS"]
    assert choices(slow)["copy_mc_generic"] == "fragile"
    assert choices(slow)["memcpy"] == "loop"
    assert {"msr": "0x1a0", "given": "0x0"} in slow["msrs"]


def test_many_processors(tmp_path):
    text = (ROOT / "tests/data/cpuid/xeon-ivybridge-306e4.cpuid").read_text()
    many = tmp_path / "many.cpuid"
    body = text.split("CPU 0:", 1)[1]
    many.write_text("".join(f"CPU {n}:{body}" for n in range(96)))
    result = decided(many)
    assert result["machine"]["cpus_in_dump"] == 96
    assert result["machine"]["cpus"] >= 96
    assert choices(result)["smp_lock"] == "lock"


LEAF = "   0x00000000 0x00: eax=0x0000000d ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n"


@pytest.mark.parametrize("text, line, reason", [
    ("CPU 0:\n   0x00000000 0x00: eax=0x0000000d ebx=0x756e ecx=0x6c65 ed=0x4965\n", 2, "edx"),
    ("CPU 0:\n" + LEAF + "   0x00000001 0x00: eax=0x000306zz ebx=0 ecx=0 edx=0\n", 3, "ebx"),
    ("CPU 0:\n" + LEAF + "   0x00000001 0x00: eax=0x000306f2 ebx=0x0\n", 3, "ecx"),
    ("CPU 0:\n" + LEAF + "   0x00000001: eax=0x000306f2\n", 3, "sub-leaf"),
    ("CPU 0:\n" + LEAF + LEAF, 3, "already"),
    ("CPU 0:\n" + LEAF.replace("49656e69", "49656e691"), 2, "edx"),
    ("CPU 0:\n" + LEAF.rstrip() + " eax=0x1\n", 2, "follows"),
    (LEAF, 1, "before the first"),
    ("CPU zero:\n" + LEAF, 1, "neither"),
    ("\x00\x01\x02binary\n", 1, "neither|first processor"),
    ("CPU 0:\n" + "x" * 300 + "\n", 2, "254"),
    ("CPU 0:\n", 1, "leaf 0"),
    ("", 0, "leaf 0"),
])
def test_damaged_dump(tmp_path, text, line, reason):
    path = tmp_path / "damaged.cpuid"
    path.write_text(text)
    done = plan(path)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert f"damaged.cpuid:{line}:" in done.stderr
    assert re.search(reason, done.stderr)


def test_no_dump(tmp_path):
    done = plan(tmp_path / "none.cpuid")
    assert done.returncode == 2 and "none.cpuid" in done.stderr
    assert plan("").returncode == 2
    assert plan(DUMPS[0], "0x1a0").returncode == 2


def test_through_make():
    done = subprocess.run(["make", "-s", "-C", ROOT, "plan", f"BUILD={BUILD}", f"DUMP={DUMPS[0]}"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "mcspin-results-1"
