# SPDX-License-Identifier: GPL-2.0-only
"""seed=: what a run chose by chance is told as events, and the same seed chooses it again."""
import rig


def choices(folder, options):
    run = rig.boot(folder, f"quick=1 bench=none test=first_in_first_out,waiters_leave {options}", smp=4)
    told = [{k: v for k, v in e.items() if k != "event"} for e in run.of("choice")]
    assert {"arrival", "dice"} == {c["what"] for c in told}, run.tail()
    # Every order is one of all three that wait, and chance is at work: not always the same.
    orders = [tuple(c["order"]) for c in told if c["what"] == "arrival"]
    assert {tuple(sorted(o)) for o in orders} == {(1, 2, 3)} and len(set(orders)) > 2
    return run.one("run")["seed"], told


def test_replay(folder):
    """A run's own seed, printed by it, replays the run; another seed does not."""
    seed, first = choices(folder / "first", "")
    assert choices(folder / "again", f"seed={seed}") == (seed, first)
    _, other = choices(folder / "other", f"seed={int(seed) ^ 0x5555}")
    assert other != first and len(other) == len(first)
    assert [c for c in other if c["what"] == "dice"] != [c for c in first if c["what"] == "dice"]
