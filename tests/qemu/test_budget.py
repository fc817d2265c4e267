# SPDX-License-Identifier: GPL-2.0-only
"""The judge of time, judged: waiting for the host's processors is forgiven, nothing else is."""
import os
import subprocess
import sys
import time

import pytest

import rig


def after_a_second(programs, processors):
    """Start them on these processors, and ask for each what it waited and worked after a second."""
    started = [subprocess.Popen([sys.executable, "-c", p],
                                preexec_fn=lambda: os.sched_setaffinity(0, processors))
               for p in programs]
    try:
        time.sleep(1.5)
        return [rig.waited(p.pid) for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel keeps no account")
def test_only_waiting_is_forgiven():
    one = {min(os.sched_getaffinity(0))}
    busy = after_a_second(["while True: pass"] * 3, one)
    assert min(busy) > 0.5, f"three on one processor, and they waited {busy}"
    asleep, = after_a_second(["import time; time.sleep(9)"], one)
    assert asleep < 0.5, "sleep is no waiting for a processor"
    run = rig.Run(".")
    run.seconds, run.waited = 50.0, 12.0
    assert run.alone() == 38.0 and run.alone(20.0) == 8.0
