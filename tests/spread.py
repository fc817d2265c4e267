#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make spread: how far apart several runs put one median, on this machine, today.

    spread.py PROGRAM FOLDER [RUNS [OPTIONS]]

Runs the benches natively and lists each hot one whose medians differ by more than 3 %. A loop of ten
cycles can only gain or lose whole ones: those that differ by less than a tick are counted apart. So
are numbers that a run took on a shared core: that is the machine's company, not the bench's spread.
"""
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ASKED = 3.0
HOT = "control,lock_pair,copy_hot,copy_offsets,dispatcher_time"
LARGEST = 16384  # twice this is still in a first-level cache


def is_hot(bench):
    params = bench["params"]
    return (bench["unit"] == "ticks" and params.get("caches", "hot") == "hot" and
            params.get("length", 0) <= LARGEST)


def name_of(bench):
    params = "".join(f" {key} {value}" for key, value in bench["params"].items() if key != "caches")
    return f"{bench['name']} {bench['variant']}{params}"


def one_run(program, folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    # The same addresses each time: a loop's place is worth a cycle.
    with open(folder / "stream", "wb") as stream:
        subprocess.run(["setarch", "-R", program, f"out={folder}", "suite=selftest", f"bench={HOT}",
                        *options], stdout=stream, check=True, timeout=300)
    return json.loads((folder / "results.json").read_text())["benches"]


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    medians, shared = defaultdict(list), 0
    for run in range(runs):
        for bench in filter(is_hot, one_run(program, folder / str(run), sys.argv[4:])):
            if bench.get("shared_core"):
                shared += 1
            else:
                medians[name_of(bench)].append(bench["p50"])
    spreads = {name: 100 * (max(values) - min(values)) / sorted(values)[len(values) // 2]
               for name, values in medians.items() if len(values) > 1 and min(values)}
    over = {name: spread for name, spread in spreads.items() if spread > ASKED}
    cycle = {name for name in over if max(medians[name]) - min(medians[name]) < 1}
    for name in sorted(over, key=over.get):
        print(f"{over[name]:7.2f} %  {name}: " + ", ".join(f"{v:.3f}" for v in medians[name]))
    print(f"{runs} runs, {len(spreads)} hot benches: {len(spreads) - len(over)} agree within "
          f"{ASKED:.0f} %, {len(cycle)} more within one tick, {len(over) - len(cycle)} do not; "
          f"{shared} medians taken on a shared core left out")
    sys.exit(len(over) > len(cycle))


if __name__ == "__main__":
    main()
