# SPDX-License-Identifier: GPL-2.0-only
"""One native run, and every number that mcspin derived worked out again: by other arithmetic, from the
samples' own summaries, and across all forms of the report."""
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from decimal import Decimal as D
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("BUILD", Path(__file__).resolve().parents[2] / "build")).resolve()
WORDS = ("quick=1", "suite=selftest", "time=20",
         "bench=control,copy_hot,dispatcher_time,dispatch,spin")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs by number, made when they are first asked for."""
    made = []

    def get(number):
        while len(made) <= number:
            made.append(one_run(tmp_path_factory.mktemp("numbers")))
        return made[number]
    return get


@pytest.fixture
def run(runs):
    return runs(0)


def holds(runs, check):
    """Medians that a busy machine pulled apart are taken again; what is worked out wrong stays wrong."""
    for number in range(3):
        try:
            return check(runs(number))
        except AssertionError:
            if number == 2:
                raise


def one_run(folder):
    done = subprocess.run([BUILD / "host/mcspin-host", f"out={folder}", *WORDS], capture_output=True,
                          text=True, timeout=180)
    assert done.returncode == 0, done.stdout[-500:]
    log = (folder / "mcspin.log").read_text()
    events = [json.loads(line[9:], parse_float=D) for line in log.splitlines()
              if line.startswith("# mcspin ")]
    results = json.loads((folder / "results.json").read_text(), parse_float=D)
    return {"folder": folder, "log": log, "events": events, "results": results}


def of(run, kind):
    return [{k: v for k, v in e.items() if k != "event"} for e in run["events"] if e["event"] == kind]


def p50(run, bench, variant, **params):
    found = [b for b in of(run, "bench") if (b["name"], b["variant"]) == (bench, variant) and
             params.items() <= b["params"].items()]
    assert len(found) == 1, (bench, variant, params)
    return found[0]["p50"]


def finding(run, name, words=""):
    found = [f for f in of(run, "finding") if f["name"] == name and words in f["text"]]
    assert len(found) == 1, name
    return found[0]


def test_summaries(run):
    for b in of(run, "bench"):
        assert 0 < b["min"] <= b["p50"] <= b["p95"] <= b["p99"] <= b["max"], b
        assert b["ci_low"] <= b["p50"] <= b["ci_high"] and b["spread"] <= b["max"] - b["min"], b
        assert b["noise"] * 2 + D("0.002") >= b["ci_high"] - b["ci_low"], b
        if "bytes_per_tick" in b:
            assert abs(b["params"]["length"] / b["p50"] - b["bytes_per_tick"]) <= D("0.001"), b


def near(a, b, times):
    return a / times <= b <= a * times


@pytest.mark.parametrize("words, length", [("2 MiB cold", 2 << 20), ("4 KiB hot", 4096)])
def test_time_ratio(runs, words, length):
    """The median of the pairs' ratios, beside the ratio of the medians; and the words round it."""
    holds(runs, lambda run: check_time_ratio(run, words, length))


def check_time_ratio(run, words, length):
    f = finding(run, "dispatcher_time_ratio", words)
    medians = [p50(run, "dispatcher_time", f"copy_mc_to_user.{form}", length=length)
               for form in ("regressed", "fixed")]
    assert near(f["ratio"], medians[0] / medians[1], D("1.4"))
    assert f"takes {f['ratio']:.2f} times" in f["text"] or f["ratio"] % D("0.01") == D("0.005")


def test_rates(runs):
    holds(runs, check_rates)


def check_rates(run):
    f = finding(run, "dispatch_rate_ratio")
    fixed, regressed = (p50(run, "dispatch", f"copy_mc_to_user.{form}")
                        for form in ("fixed", "regressed"))
    assert near(f["ratio"], regressed / fixed, D("1.4")) and regressed < fixed
    # As many as fit into a second, by the other bench's time of one (a core alone; both do no more
    # than twice as many).
    hz, cpus = run["results"]["machine"]["tsc"]["hz"], run["results"]["machine"]["cpus"]
    alone = hz / p50(run, "dispatcher_time", "copy_mc_to_user.fixed", length=2 << 20)
    assert near(alone * cpus, fixed, 8), (alone, fixed)


def test_spin(runs):
    """What the argument costs: a difference that can be read off the two benches."""
    holds(runs, check_spin)


def check_spin(run):
    words = re.search(r"and (-?[\d.]+) ticks", finding(run, "spin_argument")["text"])
    linux, key = (p50(run, "spin", v) for v in ("linux", "static_key"))
    assert words and abs(D(words[1]) - (linux - key)) <= max(D(1), abs(linux - key)), (linux, key)


def test_forms_agree(run):
    results, folder = run["results"], run["folder"]
    assert results["benches"] == of(run, "bench") and results["findings"] == of(run, "finding")
    tests = of(run, "test")
    totals = {word: sum(t["result"] == word for t in tests) for word in ("pass", "fail", "skip", "error")}
    assert results["run"]["totals"] == totals
    assert len(re.findall(r"^    (?:not )?ok \d+ ", run["log"], re.M)) == len(tests)
    suites = ET.parse(folder / "junit.xml").getroot()
    assert sum(int(s.get("tests")) for s in suites) == len(tests) + 1
    assert sum(int(s.get("skipped")) for s in suites) == totals["skip"]
    page = (folder / "report.html").read_text()
    assert (f"{totals['pass']} tests passed, {totals['fail']} failed, {totals['skip']} skipped, "
            f"{totals['error']} broke") in page
    for f in results["findings"]:
        assert f["ratio"] is None or re.search(rf">{f['ratio']} ?<", page), f["name"]
