# SPDX-License-Identifier: GPL-2.0-only
"""What the program's status and its last lines say when something in it went wrong."""
import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("BUILD", Path(__file__).resolve().parents[2] / "build")).resolve()


def run(*words):
    done = subprocess.run([BUILD / "host/mcspin-host", *words], capture_output=True, text=True,
                          timeout=120)
    return done.returncode, done.stdout


def test_a_later_pass_hides_no_failure():
    code, said = run("mutant=selftest", "bench=none", "suite=selftest,copy_mc",
                     "test=results_only_worsen,zero_length")
    assert "ok 1 copy_mc.zero_length" in said
    assert "\nnot ok 1 selftest\n" in said and "\nok 2 copy_mc\n" in said
    assert code == 1 and '"result": "fail"' in said.splitlines()[-1]


def test_a_bench_that_is_none():
    """Everything that ran passed; what was asked for did not run."""
    code, said = run("suite=selftest", "test=formatting", "bench=copy_hto")
    assert "ok 1 selftest.formatting" in said and "bench=copy_hto chooses no bench" in said
    assert code == 1 and '"result": "error"' in said.splitlines()[-1]


def test_globs_take_no_time():
    """Stars in plenty are matched at once, and match what they should."""
    code, said = run("suite=selftest", "test=" + "*?" * 40 + "x,*f?*mat*ing*", "bench=none")
    assert code == 0 and "ok 1 selftest.formatting" in said


def test_repeat_and_seed():
    code, said = run("suite=selftest", "test=formatting", "repeat=2", "seed=77", "bench=none")
    assert code == 0 and "\n1..2\n" in said and "\nok 2 selftest\n" in said
    assert '"seed": "77"' in said and said.count("ok 1 selftest.formatting") == 2
