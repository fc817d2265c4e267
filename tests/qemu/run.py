#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make run: boot mcspin in QEMU and show the run as it happens, drawn from its event stream."""
import argparse
import shutil
import sys
from pathlib import Path

import rig

MARK = {"pass": "ok  ", "skip": "skip", "fail": "FAIL", "error": "ERR "}

# The two regressions that mcspin was born from, shown once more at the end.
EXHIBITS = ("copies_per_call", "dispatcher_time_ratio", "spin_instructions",
            "spin_argument")


class View:
    """Plain lines, one for each thing worth knowing; nothing here is computed, only shown."""

    def __init__(self):
        self.counts = {}
        self.sites = {}
        self.suite = None
        self.exhibits, self.bad = [], []

    def line(self, text=""):
        print(text, flush=True)

    def __call__(self, raw, event):
        if event:
            getattr(self, "on_" + event["event"], lambda e: None)(event)

    def on_run(self, e):
        self.line(f"mcspin {e['version']}  run {e['id']}  options: {e['options']}")

    def on_machine(self, e):
        if self.suite is not None or e["tsc"]["skew"] is not None:
            return
        hv = e["hypervisor"]
        self.line(f"machine   {e['vendor']} {e['family']}/{e['model']}/{e['stepping']}  {e['brand']}")
        self.line(f"          {e['cpus']} processors, hypervisor {hv['name']}, {e['firmware']}, "
                  f"TSC {(e['tsc']['hz'] or 0) / 1e6:.1f} MHz by {e['tsc']['source']}")
        if e["emulated"]:
            self.line("          EMULATION: this run proves function; its times are no times")

    def on_site(self, e):
        key = (e["name"], e["choice"], e["because"], e["before"], e["after"])
        self.sites.setdefault(key[:3], []).append(e)

    def on_patching(self, e):
        self.line(f"patched   {e['replaced']} of {e['sites']} sites, {e['refused']} refused, text "
                  f"opened by: {e['way']}")
        for (name, choice, because), sites in self.sites.items():
            first = sites[0]
            count = f" x{len(sites)}" if len(sites) > 1 else ""
            self.line(f"  {name + count:<24} {choice:<14} {first['before'][:24]} -> "
                      f"{first['after'][:24]}")
            self.line(f"  {'':<24} because {because}")

    def on_test(self, e):
        if e["suite"] != self.suite:
            self.suite = e["suite"]
            self.line(f"check     {self.suite}")
        self.counts[e["result"]] = self.counts.get(e["result"], 0) + 1
        if e["result"] in ("fail", "error"):
            self.bad.append(f"{e['suite']}.{e['name']}: {e['reason']}")
        reason = f"  ({e['reason']})" if e["reason"] else ""
        self.line(f"  {MARK[e['result']]} {e['name']:<26} {e['sentence']}{reason}")

    def on_bench_start(self, e):
        self.line(f"time      {e['name']}")

    def on_bench_skipped(self, e):
        self.line(f"  skip {e['name']}: {e['reason']}")

    def on_bench(self, e):
        params = " ".join(f"{k}={v}" for k, v in e["params"].items())
        self.line(f"  {e['variant']:<30} {params:<28} {e['p50']:>12} {e['unit']} "
                  f"(p95 {e['p95']}, {e['samples']} samples)")

    def on_finding(self, e):
        if e["name"] in EXHIBITS:
            self.exhibits.append(e)
        ratio = f"  [{e['ratio']}]" if e["ratio"] is not None else ""
        self.line(f"finding   {e['name']}{ratio}: {e['text']}")

    def on_compare(self, e):
        self.line("compare   " + ", ".join(f"{k} {v}" for k, v in e.items() if k != "event"))

    def on_warn(self, e):
        self.line(f"note      {e['text']}")

    def on_crash(self, e):
        self.line(f"CRASH     processor {e['cpu']}: {e['why']} ({e['vector']}) at {e['place']} "
                  f"while {e['doing']}")

    def on_done(self, e):
        for finding in self.exhibits:
            self.line(f"exhibit   {finding['text']}")
            self.line(f"          proof: {', '.join(finding['evidence'])}")
        for sentence in self.bad:
            self.line(f"FAILED    {sentence}")
        counts = ", ".join(f"{n} {r}" for r, n in sorted(self.counts.items()))
        self.line(f"done      {e['result'].upper()} in {e['seconds']} s: {counts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", default="Cascadelake-Server")
    parser.add_argument("--smp", type=int, default=2)
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--options", default="")
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    run = rig.boot(args.folder, args.options, cpu=args.cpu, smp=args.smp, memory=args.memory,
                   timeout=args.timeout, watch=View())
    if not run.events:
        # Nothing of the stream: what it said instead (a refused option, a firmware that died).
        said = [line for line in run.lines if "mcspin" in line or "wanted" in line]
        print("\n".join(said) or "mcspin said nothing; the serial line:\n" + run.tail())
    if run.timed_out:
        print(f"QEMU was stopped after {args.timeout} s")
    for name in ("mcspin.log", "results.json", "junit.xml", "report.html"):
        if run.file(name).exists():
            print(f"          {args.folder / name}")
    print(f"          {run.seconds:.1f} s in all, boot included")
    sys.exit(0 if run.code == rig.PASS and run.result == "pass" else 1)


if __name__ == "__main__":
    main()
