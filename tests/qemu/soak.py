# SPDX-License-Identifier: GPL-2.0-only
"""make soak: what takes longer than make test may. At 64 processors a contest under TCG proves
arrival, not fairness."""
import pytest

import rig


def whole(run):
    bad = [(t["suite"], t["name"], t["reason"]) for t in run.tests("fail") + run.tests("error")]
    assert not bad, bad
    assert run.code == rig.PASS and run.result == "pass", run.tail()
    assert not run.of("torn") and not run.of("crash"), run.tail()


@pytest.mark.parametrize("smp", [16, 64])
def test_many_processors(boot, smp):
    """By the clock: most of QEMU's threads wait for each other here, however quiet the host is."""
    run = boot("quick=1", smp=smp, memory="2G", timeout=1800, stretch=1)
    whole(run)
    assert run.one("machine")["cpus"] == smp


@pytest.mark.parametrize("cpu", ["Haswell", "SandyBridge", "EPYC", "Dhyana", "Icelake-Server", "max"])
def test_whole_runs(boot, cpu):
    whole(boot("", cpu=cpu, smp=4, timeout=600))


def test_repeats(boot):
    whole(boot("quick=1 bench=none repeat=10", smp=2, timeout=900))
