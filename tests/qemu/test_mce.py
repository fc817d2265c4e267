# SPDX-License-Identifier: GPL-2.0-only
"""Machine checks that come from outside: raised by QEMU at the very load of a copy."""
import inject
import rig

FATAL = "suite=mce test=external_fatal inject=1 quick=1"


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
    assert run.seconds < 300


def test_fatal(boot):
    """A corrupt processor context ends the run as an error, with the bank in words."""
    run, _ = external(boot, FATAL)
    assert run.code == rig.FAIL, run.tail()
    assert run.one("crash")["vector"] == "#MC"
    words = run.one("crash_bank", bank=2)["text"]
    for part in ("uncorrected", "processor context corrupt", "data load", "address 0x"):
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
