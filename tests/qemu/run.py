#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make run: boot mcspin in QEMU and show the run as it happens, drawn from its event stream."""
import argparse
import shutil
import sys
from pathlib import Path

import inject
import rig

MARK = {"pass": "ok  ", "skip": "skip", "fail": "FAIL", "error": "ERR "}

# The two regressions that mcspin was born from, shown once more at the end.
EXHIBITS = ("copies_per_call", "dispatcher_time_ratio", "spin_instructions",
            "spin_argument")
BYTES = 12  # of a site that are shown; the report has all


def some(code):
    return code[:2 * BYTES] + ("…" if len(code) > 2 * BYTES else "")


def number(value):
    """Rounded to what a reader takes in: 12,330,466 and 874 and 99.4."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}".removesuffix(".0")


def parameters(e):
    def one(key, value):
        if key != "length":
            return f"{key}={value}"
        shift, unit = next((s, u) for s, u in ((20, "MiB"), (10, "KiB"), (0, "bytes"))
                           if value % (1 << s) == 0)
        return f"{value >> shift} {unit}"
    return " ".join(one(k, v) for k, v in e["params"].items())


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
        self.line(f"patched   {e['replaced']} of {e['sites']} sites, {e['refused']} refused; the "
                  f"text's pages: {e['way']}")
        # The suite's own sites, made to be odd, behind those that matter.
        for (name, choice, because), sites in sorted(self.sites.items(), key=lambda item:
                                                     item[0][0] == "alternatives_test"):
            first = sites[0]
            count = f" x{len(sites)}" if len(sites) > 1 else ""
            self.line(f"  {name + count:<24} {choice:<14} {some(first['before'])} -> "
                      f"{some(first['after'])}")
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
        self.line(f"  {e['variant']:<29} {parameters(e):<32} {number(e['p50']):>11} {e['unit']} "
                  f"(p95 {number(e['p95'])}, {e['samples']} samples)")

    def on_finding(self, e):
        if e["name"] in EXHIBITS and e["ratio"] is not None:  # none: a time under emulation
            self.exhibits.append(e)
        self.line(f"finding   {e['name']}: {e['text']}")

    def on_compare(self, e):
        self.line(f"compare   {e['verdict']}")

    def on_compare_row(self, e):
        """Only what counts for something: the report has every row."""
        if e["verdict"] in ("worse", "better", "control moved"):
            self.line(f"  {e['verdict']:<6} {e['name']} {e['variant']} {parameters(e)}: "
                      f"{number(e['old'])} -> {number(e['new'])} {e['unit']}, "
                      f"{e['change_percent']:+.1f} % (noise {e['noise_percent']:.1f} %)")

    def on_warn(self, e):
        if "under emulation" not in e["text"]:  # the machine's lines said it
            self.line(f"note      {e['text']}")

    def on_crash(self, e):
        self.line(f"CRASH     processor {e['cpu']}: {e['why']} ({e['vector']}) at {e['place']} "
                  f"while {e['doing']}")

    def on_done(self, e):
        for k, finding in enumerate(self.exhibits):
            self.line(f"exhibit   {finding['text']}")
            # Once for those that share it.
            if [finding["evidence"]] != [f["evidence"] for f in self.exhibits[k + 1:k + 2]]:
                self.line(f"          proof: {', '.join(finding['evidence'])}")
        for sentence in self.bad:
            self.line(f"FAILED    {sentence}")
        counts = ", ".join(f"{n} {r}" for r, n in sorted(self.counts.items()))
        self.line(f"done      {e['result'].upper()} in {e['seconds']} s: {counts}")


def rig_for(options):
    """QEMU's side of the words that need one: more for its command line, and who injects."""
    said = dict(word.split("=", 1) for word in options.split() if "=" in word)
    extra, injector = [], None
    if said.get("inject") == "1":
        injector = inject.Injector()
        extra += injector.extra()
    if said.get("icount", "").isdigit():
        extra += ["-icount", f"shift={said['icount']}"]
    return extra, injector


def said_instead(run):
    """Nothing of the stream: a refused option, help=1, a firmware or a QEMU that did not start."""
    lines = run.lines
    for at, line in enumerate(run.lines):
        if "BdsDxe: starting" in line:
            lines = run.lines[at + 1:]
    if lines and lines is not run.lines:
        return "\n".join(lines)
    errors = [line for line in run.file("qemu.txt").read_text().splitlines() if "warning" not in line]
    return "\n".join(["mcspin said nothing", *errors[-5:], *run.lines[-10:]])


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
    extra, injector = rig_for(args.options)
    view = View()

    def watch(line, event):
        view(line, event)
        if injector:
            injector.watch(line, event)

    run = rig.boot(args.folder, args.options, cpu=args.cpu, smp=args.smp, memory=args.memory,
                   extra=extra, timeout=args.timeout, watch=watch)
    if not run.events:
        print(said_instead(run))
    if run.timed_out:
        print(f"QEMU was stopped after {args.timeout} s")
    if injector:
        print(f"          {injector.hits} machine checks were raised from outside")
    for name in ("mcspin.log", "results.json", "junit.xml", "report.html"):
        if run.file(name).exists():
            print(f"          {args.folder / name}")
    print(f"          {run.seconds:.1f} s in all, boot included")
    # help=1 and list=1 run nothing and say so by their status alone.
    sys.exit(0 if run.code == rig.PASS and (run.result == "pass" or not run.events) else 1)


if __name__ == "__main__":
    main()
