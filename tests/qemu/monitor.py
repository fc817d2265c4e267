# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's monitor, and connecting to the sockets that QEMU makes."""
import json
import socket
import time

PATIENCE = 10  # seconds for any answer


def connect(path):
    """QEMU makes its sockets before the guest runs, but not before Popen returns."""
    for _ in range(100):
        try:
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(PATIENCE)
            link.connect(str(path))
            return link
        except OSError:
            link.close()
            time.sleep(0.05)
    raise TimeoutError(f"{path} does not answer")


class Monitor:
    """QMP, and the human monitor behind it."""

    def __init__(self, path):
        self.link, self.events = connect(path), []
        self.file = self.link.makefile("rw")
        json.loads(self.file.readline())  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "return" in answer or "error" in answer:
                return answer
            self.events.append(answer)

    def last_words(self):
        """Every event up to the end of QEMU, which must have ended or be about to."""
        self.events += map(json.loads, self.file)
        return self.events

    def human(self, line):
        return self.ask("human-monitor-command", **{"command-line": line})["return"]
