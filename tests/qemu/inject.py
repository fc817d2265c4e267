# SPDX-License-Identifier: GPL-2.0-only
"""Real machine checks at the very load that mcspin announced.

mcspin says in an event "inject" which load, and spins until the byte at `go` becomes 1. Here the
virtual machine is stopped through the gdb stub, a hardware breakpoint set at the load, `go` written,
and the machine continued. When the breakpoint is met, the monitor's `mce` command raises the check
on that processor, the breakpoint is removed, and the load is let run into it.
"""
import re
import tempfile

import capstone

from monitor import PATIENCE, Monitor, connect

DECODER = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
DECODER.detail = True
GENERAL = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
           "r13", "r14", "r15", "rip"]  # the order of gdb's amd64 register packet


class Gdb:
    """As much of gdb's remote protocol as stopping, watching and poking takes."""

    def __init__(self, path):
        self.link, self.rest = connect(path), b""  # the machine stops at that, and says so

    def read(self):
        """One packet's payload, acknowledged."""
        while True:
            match = re.search(rb"\$([^#]*)#..", self.rest)
            if match:
                self.rest = self.rest[match.end():]
                self.link.sendall(b"+")
                return match.group(1).decode()
            more = self.link.recv(65536)
            if not more:
                raise ConnectionError("the gdb stub is gone")
            self.rest += more

    def send(self, text):
        self.link.sendall(f"${text}#{sum(text.encode()) & 0xff:02x}".encode())

    def ask(self, text):
        """The answer. Stop replies on the way belong to something that is over."""
        self.send(text)
        while True:
            answer = self.read()
            if answer[:1] not in ("T", "S"):
                return answer

    def stop(self):
        self.link.sendall(b"\x03")
        return self.read()

    def go(self):
        self.send("c")

    def step(self):
        self.send("s")
        return self.read()

    def memory(self, address, size):
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def write(self, address, data):
        assert self.ask(f"M{address:x},{len(data):x}:{data.hex()}") == "OK"

    def breakpoint(self, address, on=True):
        answer = self.ask(f"{'Z' if on else 'z'}1,{address:x},1")
        assert answer == "OK", f"breakpoint at {address:#x}: {answer}"

    def registers(self):
        raw = bytes.fromhex(self.ask("g"))
        return {name: int.from_bytes(raw[8 * i:8 * i + 8], "little")
                for i, name in enumerate(GENERAL)}


def loaded_address(gdb, registers):
    """Where the instruction at rip reads."""
    code = gdb.memory(registers["rip"], 16)
    instruction = next(DECODER.disasm(code, registers["rip"], 1))
    if code[:2] == b"\xf3\xa4":  # rep movsb
        return registers["rsi"]
    for operand in reversed(instruction.operands):  # the source comes last in Intel's order
        if operand.type == capstone.x86.X86_OP_MEM:
            base = instruction.reg_name(operand.mem.base)
            return registers[base] + operand.mem.disp
    raise AssertionError(f"no memory operand in {instruction.mnemonic} {instruction.op_str}")


class Injector:
    """Give its watch() to rig.boot(), and its extra() to the command line."""

    def __init__(self):
        # A folder with a short name: a socket's path has 108 bytes.
        self.folder = tempfile.TemporaryDirectory(prefix="mcspin-")
        self.gdb_path, self.qmp_path = f"{self.folder.name}/gdb", f"{self.folder.name}/qmp"
        self.gdb = self.monitor = None
        self.hits, self.misses, self.places, self.complaints = 0, 0, set(), []

    def extra(self):
        return ["-chardev", f"socket,id=gdb,path={self.gdb_path},server=on,wait=off",
                "-gdb", "chardev:gdb",
                "-qmp", f"unix:{self.qmp_path},server=on,wait=off"]

    def watch(self, line, event):
        if event and event["event"] == "inject":
            if not self.gdb:
                self.gdb, self.monitor = Gdb(self.gdb_path), Monitor(self.qmp_path)
            else:
                self.gdb.stop()
            self.inject(event)

    def inject(self, event):
        """The machine is stopped. It runs when this returns."""
        load = int(event["address"], 16)
        self.gdb.breakpoint(load)
        self.gdb.write(int(event["go"], 16), b"\x01")
        self.gdb.go()
        if self.reached(load, event["skip"]):
            self.raise_check(event)
            self.hits += 1
            self.places.add((event["address"], event["cpu"]))
        else:
            self.misses += 1
        self.gdb.breakpoint(load, on=False)
        self.gdb.go()

    def reached(self, load, skip):
        """Wait for the breakpoint, letting it pass `skip` times. False: not in time; stopped then."""
        for left in range(skip, -1, -1):
            self.gdb.link.settimeout(0.3)
            try:
                self.gdb.read()
            except TimeoutError:
                self.gdb.link.settimeout(PATIENCE)
                self.gdb.stop()
                return False
            self.gdb.link.settimeout(PATIENCE)
            if left:
                self.gdb.breakpoint(load, on=False)
                self.gdb.step()
                self.gdb.breakpoint(load)
                self.gdb.go()
        return True

    def raise_check(self, event):
        registers = self.gdb.registers()
        address = loaded_address(self.gdb, registers)
        broadcast = "-b " if event["broadcast"] else ""
        said = self.monitor.human(f"mce {broadcast}{event['cpu']} {event['bank']} {event['status']} "
                                  f"{event['mcg_status']} {address:#x} 0x8c")
        if said.strip():
            self.complaints.append(said.strip())
