# SPDX-License-Identifier: GPL-2.0-only
"""Under -icount the TSC counts instructions: two runs must agree to the instruction."""
import rig

COUNTED = ("-icount", "shift=7")


def counts(run):
    return {(b["name"], b["variant"], str(b["params"])): b["p50"]
            for b in run.of("bench") if b["unit"] == "instructions"}


def test_twice_the_same(folder):
    runs = [rig.boot(folder / str(i), "quick=1 icount=7", smp=1, extra=COUNTED, timeout=300)
            for i in range(2)]
    for run in runs:
        assert run.result == "pass", run.tail()
    first, second = map(counts, runs)
    assert first and first == second
    spins = {variant: n for (name, variant, _), n in first.items() if name == "spin"}
    assert spins["static_key"] < spins["linux"]
