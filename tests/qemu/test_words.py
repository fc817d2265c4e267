# SPDX-License-Identifier: GPL-2.0-only
"""Options: refused before anything runs, with a sentence that names key and value."""
import pytest

import rig


@pytest.mark.parametrize("words, named", [
    ("cpus=banana", ["cpus", "banana"]),
    ("colour=red", ["colour", "red"]),
    ("quick", ["key=value", "quick"]),
])
def test_refused(boot, words, named):
    run = boot(words, smp=1, timeout=60)
    assert run.code == rig.FAIL
    assert not run.of("run"), "something ran"
    said = [line for line in run.lines if all(n in line for n in named)]
    assert said and "mcspin.cfg" in said[-1], run.tail()


def test_list_and_help(boot):
    run = boot("help=1 list=1 suite=selftest", smp=1, timeout=60)
    assert run.code == rig.PASS
    assert not run.of("run"), "something ran"
    text = "\n".join(run.lines)
    assert "cpus=1-1024" in text and "selftest.fault_recovered" in text


def test_choosing(boot):
    run = boot("suite=selftest test=f* seed=77", smp=1, timeout=60)
    assert run.result == "pass", run.tail()
    assert {t["name"] for t in run.tests()} == {"features_frozen", "formatting", "fault_recovered"}
    assert run.one("run")["seed"] == "77"
    assert not run.of("bench")


def test_nothing_chosen_is_no_pass(boot):
    run = boot("test=no_such_test", smp=1, timeout=60)
    assert run.code == rig.FAIL and run.result == "error"
