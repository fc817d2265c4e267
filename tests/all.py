#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make test: the unit tests, the core's suites natively, then the whole image in QEMU.

all.py BUILD UNIT…: prints what each part prints, and closes with `N passed, N failed, N skipped`
over all of them. A part that ends badly without a count is a failure of its own.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Total:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped):
        self.passed, self.failed, self.skipped = (
            self.passed + passed, self.failed + failed, self.skipped + skipped)


def part(name, command, count, total):
    """Run one part, show its output as it comes, count it."""
    print(f"== {name}", flush=True)
    start, lines = time.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", stdin=subprocess.DEVNULL,
                          env=dict(os.environ, PYTHONUNBUFFERED="1")) as process:
        for line in process.stdout:
            lines.append(line)
            if not line.startswith("# mcspin "):
                print(line, end="", flush=True)
    passed, failed, skipped = count(lines)
    if process.returncode and not failed:
        print(f"{name} ended with status {process.returncode}", flush=True)
        failed = 1
    if not passed + failed + skipped:
        print(f"{name} counted no test", flush=True)
        failed = 1
    total.add(passed, failed, skipped)
    print(f"== {name}: {passed} passed, {failed} failed, {skipped} skipped "
          f"({time.monotonic() - start:.0f} s)\n", flush=True)


def count_cmocka(lines):
    """cmocka marks each test that ended: [  OK  ] or [  FAILED  ] or [  SKIPPED ]."""
    text = "".join(lines)
    return (len(re.findall(r"^\[\s+OK \]", text, re.M)),
            len(re.findall(r"^\[  (?:FAILED|ERROR)\s+\] \w", text, re.M)),
            len(re.findall(r"^\[  SKIPPED \] \w", text, re.M)))


def count_ktap(lines):
    passed = failed = skipped = 0
    for line in lines:
        match = re.match(r"    (not )?ok \d+ \S+\.\S+( # SKIP)?", line)
        if match:
            failed += bool(match[1])
            skipped += bool(match[2])
            passed += not match[1] and not match[2]
    return passed, failed, skipped


def count_pytest(lines):
    for line in reversed(lines):
        if re.search(r"\d+ (passed|failed|skipped|error)", line):
            def number(word):
                found = re.search(rf"(\d+) {word}", line)
                return int(found[1]) if found else 0
            return number("passed"), number("failed") + number("error"), number("skipped")
    return 0, 0, 0


def main():
    build, units = Path(sys.argv[1]), sys.argv[2:]
    total = Total()
    for unit in units:
        part(Path(unit).name, [unit], count_cmocka, total)
    part("native suites", [str(build / "host/mcspin-host"), "bench=none", f"out={build}/host"],
         count_ktap, total)
    part("100,000 live flips natively", [str(build / "host/mcspin-host"), "cpus=2", "bench=none",
                                        "test=live_flips"], count_ktap, total)
    part("plans and mutants", [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q",
                               "--tb=short", str(HERE / "host")], count_pytest, total)
    part("QEMU", [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short",
                  "-x" if "--stop" in sys.argv else "--durations=10", str(HERE / "qemu")],
         count_pytest, total)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    sys.exit(1 if total.failed or not total.passed else 0)


if __name__ == "__main__":
    main()
