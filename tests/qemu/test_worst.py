# SPDX-License-Identifier: GPL-2.0-only
"""Tests of mcspin that hang, overrun and crash on purpose (src/run/worst_tests.c). Each must end in a
report that names processor, test and cause within 20 s, with the machine given back."""
import pytest

import rig

# test: (processors, who, cause, exception)
CASES = [
    ("hang_on_ap", 2, 1, "pulled out by NMI", "NMI"),
    ("hang_on_control", 2, 0, "the control processor hung", "NMI"),
    ("hang_on_control", 1, 0, "the only processor hung", None),
    ("overrun_on_ap", 2, 1, "its stack was overrun", "#DF"),
    ("crash_in_contest", 4, 1, "an exception that nothing expected", "#UD"),
    ("crash_on_control", 1, 0, "an exception that nothing expected", "#UD"),
]
REPORT_WITHIN = 20


@pytest.mark.parametrize("test, smp, cpu, cause, vector", CASES)
def test_ends_in_a_report(boot, test, smp, cpu, cause, vector):
    run = boot(f"test={test} bench=none time=60", smp=smp, timeout=90)
    crash = run.one("crash")
    assert crash["cpu"] == cpu and cause in crash["why"] and crash["vector"] == vector, crash
    assert crash["doing"] == f"selftest.{test}"
    assert run.code == rig.FAIL and run.result == "error", run.tail()
    assert run.alone(run.one("done")["seconds"]) < REPORT_WITHIN
    if vector:
        assert crash["place"].startswith("mcspin.debug+0x") and crash["registers"]["rip"]
    results = run.results()
    assert results["run"]["result"] == "error" and results["crashes"], "the files know nothing of it"


def test_place_is_a_symbol(boot):
    """place=mcspin.debug+0x… is what addr2line takes."""
    import subprocess

    crash = boot("test=crash_on_control bench=none", smp=1).one("crash")
    name = subprocess.run(["addr2line", "-f", "-e", str(rig.BUILD / "mcspin.debug"),
                           crash["place"].split("+")[1]], capture_output=True, text=True, check=True)
    assert "crash_on_control" in name.stdout, name.stdout
