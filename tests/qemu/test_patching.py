# SPDX-License-Identifier: GPL-2.0-only
"""Static keys flipped while every processor runs through them, and a site that is not as built."""
import pytest

import rig


@pytest.mark.parametrize("smp, flips", [(2, 100000), (4, 2000)])
def test_live_flips(smp, flips, boot):
    run = boot("test=live_flips bench=none", cpu="Cascadelake-Server", smp=smp, timeout=270)
    assert run.code == rig.PASS and run.result == "pass", run.tail()
    story = run.one("key_flips")
    assert story["flips"] == flips and story["cpus"] == smp
    assert story["int3_hits"] > 0 and story["lost"] == 0
    assert not run.of("crash")


def test_corrupted_site(boot):
    """One original byte differs: that site is refused by name with both byte strings, every other
    one is written, and the run is an error."""
    run = boot("mutant=corrupt_site suite=selftest bench=none quick=1")
    assert run.result == "error" and run.code != rig.PASS, run.tail()
    bad = run.of("site", refused=True)
    assert len(bad) == 1 and bad[0]["name"] == "alternatives_test"
    assert "old bytes" in bad[0]["because"]
    assert bad[0]["expected"] != bad[0]["found"] and len(bad[0]["expected"]) == len(bad[0]["found"])
    patching = run.one("patching")
    assert patching["refused"] == 1 and patching["replaced"] > 10
    assert patching["hash_before"] == patching["hash_after"]
    assert all(t["result"] in ("pass", "skip") for t in run.tests())
