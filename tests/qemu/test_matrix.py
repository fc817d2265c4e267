# SPDX-License-Identifier: GPL-2.0-only
"""Whole-image runs. The matrix is declared: which processor model, how many processors, which words,
and what the run must then say of itself."""
import json
from dataclasses import dataclass, field

import pytest

import rig


@dataclass
class Case:
    cpu: str
    smp: int
    options: str
    vendor: str
    hypervisor: str
    choices: dict = field(default_factory=dict)
    memory: str = "512M"
    seconds: int = 40  # the budget on a quiet host, boot included


INTEL, HYGON, AMD = "GenuineIntel", "HygonGenuine", "AuthenticAMD"

MATRIX = {
    # Two whole runs; all others are quick.
    "cascadelake": Case("Cascadelake-Server", 2, "", INTEL, "TCG",
                        {"copy_mc_generic": "rep_movsb", "memcpy": "rep_movsb", "stac": "stac",
                         "smp_lock": "lock", "vcpu_is_preempted": "false",
                         "rdtsc_ordered": "rdtscp"}, seconds=90),
    "dhyana": Case("Dhyana", 2, "", HYGON, "TCG",
                   {"copy_mc_generic": "fragile", "memcpy": "rep_movsq", "stac": "stac",
                    "vcpu_is_preempted": "false"}, seconds=90),
    "max-bare": Case("max,-hypervisor", 2, "quick=1", AMD, "hidden",
                     {"vcpu_is_preempted": "false"}),
    "max-no-erms": Case("max,-erms", 4, "quick=1", AMD, "TCG",
                        {"copy_mc_generic": "fragile", "memcpy": "rep_movsq"}, seconds=60),
    "max-no-signature": Case("max,tcg-cpuid=off", 1, "quick=1", AMD, "unknown",
                             {"smp_lock": "ds_prefix"}),
    "haswell-one": Case("Haswell", 1, "quick=1", INTEL, "TCG", {"smp_lock": "ds_prefix"}),
    "high-memory": Case("Cascadelake-Server", 2, "quick=1", INTEL, "TCG", memory="6G"),
}


@pytest.mark.parametrize("name", MATRIX)
def test_run(name, boot):
    case = MATRIX[name]
    run = boot(case.options, cpu=case.cpu, smp=case.smp, memory=case.memory, timeout=180)
    bad = [(t["suite"], t["name"], t["reason"]) for t in run.tests("fail") + run.tests("error")]
    assert not bad, bad
    assert run.code == rig.PASS and run.result == "pass", run.tail()
    assert not run.of("torn") and not run.of("crash"), run.tail()
    machine = run.one("machine")
    assert machine["vendor"] == case.vendor
    assert machine["hypervisor"]["name"] == case.hypervisor
    assert machine["cpus"] == case.smp
    check_sites(run, case)
    check_files(run)
    assert run.alone() <= case.seconds, (f"{run.seconds:.1f} s, {run.waited:.1f} of them waiting for "
                                         f"the host; the budget is {case.seconds}")
    assert run.one("tables")["second_mapping"], "patched bytes were not read back through another mapping"
    if case.memory == "6G":
        assert run.one("tables")["above_4g"], "the tables were to lie above 4 GiB"


def check_sites(run, case):
    for name, choice in case.choices.items():
        sites = run.of("site", name=name)
        assert sites, name
        for site in sites:
            assert site["choice"] == choice, site
            assert site["because"] and not site["refused"]
            assert len(site["before"]) == len(site["after"])


def check_files(run):
    """The files are views of the stream: same result, same tests, same sites."""
    results = run.results()
    assert results["schema"] == "mcspin-results-1"
    assert results["run"]["result"] == run.result
    assert results["machine"]["vendor"] == run.one("machine")["vendor"]
    assert len(results["tests"]) == len(run.tests())
    assert len(results["sites"]) == len(run.of("site"))
    assert len(results["benches"]) == len(run.of("bench"))
    log = run.file("mcspin.log").read_text()
    assert log.startswith("KTAP version 1")
    events = [json.loads(line[9:]) for line in log.splitlines() if line.startswith("# mcspin {")]
    assert [e for e in events if e["event"] == "test"] == run.tests()
    assert run.file("junit.xml").exists() and run.file("report.html").exists()
