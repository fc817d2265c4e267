# SPDX-License-Identifier: GPL-2.0-only
"""Every medium that mcspin starts from, each a real boot: stick, NVMe disk, CD, the ISO as a stick,
the UEFI Shell with arguments, and the network. Where nothing can be written, the serial stream
carries everything and the report forms are rebuilt from it."""
import functools
import http.server
import json
import struct
import subprocess
import threading
import uuid

import pytest

import rig

SHORT = "suite=selftest"


def whole(run):
    """The stream has its last word, and the run passed."""
    assert run.result == "pass", run.tail()
    assert not run.of("torn") and not run.of("crash"), run.tail()
    assert len(run.tests("pass")) >= 5, run.tail()


def tool(*command):
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def iso_with(folder, options):
    config = folder / "mcspin.cfg"
    config.write_text(options + "\n")
    tool("sh", str(rig.ROOT / "linker/iso.sh"), str(rig.BUILD / "mcspin.efi"), str(config),
         str(folder / "mcspin.iso"))
    return folder / "mcspin.iso"


def rebuilt(run, folder):
    """results.json and its sisters from the captured serial log alone."""
    out = folder / "rebuilt"
    out.mkdir()
    subprocess.run([str(rig.BUILD / "host/rebuild"), str(folder / "serial.log"), str(out)], check=True)
    results = json.loads((out / "results.json").read_text())
    assert results["run"]["result"] == run.result
    assert len(results["tests"]) == len(run.tests())
    assert "<testsuite" in (out / "junit.xml").read_text()
    assert "<html" in (out / "report.html").read_text()


def test_image_is_sound(tmp_path):
    image = rig.BUILD / "mcspin.img"
    assert "No problems found" in tool("sgdisk", "-v", str(image))
    table = tool("sgdisk", "-p", str(image))
    assert "EF00" in table and table.count("MCSPIN") == 1, table
    esp = tmp_path / "esp"
    with open(image, "rb") as f:
        f.seek(1 << 20)
        esp.write_bytes(f.read())
    tool("fsck.vfat", "-n", str(esp))
    listing = rig.mtool("mdir", "-/", "-b", "-i", f"{image}{rig.ESP}", "::").stdout
    for name in ("EFI/BOOT/BOOTX64.EFI", "EFI/BOOT/mcspin.cfg", "mcspin/"):
        assert name in listing, listing


@pytest.mark.parametrize("medium", ["usb", "nvme"])
def test_disk(boot, medium):
    run = boot(SHORT, drive=medium, smp=1)
    whole(run)
    assert run.code == rig.PASS
    assert run.results()["run"]["result"] == "pass"


@pytest.mark.parametrize("medium", ["cd", "usb"])
def test_iso(folder, medium):
    iso = iso_with(folder, SHORT + " exit=qemu")
    run = rig.boot(folder, disk=iso, drive=medium, read_only=True, smp=1)
    whole(run)
    assert run.code == rig.PASS, "a medium that cannot be written is no failure"
    assert any("no volume" in w["text"] for w in run.of("warn")), run.of("warn")
    rebuilt(run, folder)


def test_write_protected_stick(folder):
    disk = folder / "disk.img"
    rig.make_disk(disk, SHORT + " exit=qemu")
    run = rig.boot(folder, disk=disk, drive="usb", read_only=True, smp=1)
    whole(run)
    assert run.code == rig.PASS, "a write-protected stick is no failure"
    assert any("no volume" in w["text"] for w in run.of("warn")), run.of("warn")


SCRIPT = """@echo -off
fs0:
cd \\
mcspin.efi suite=selftest test=f* seed=41
echo FIRST-%lasterror%-
mcspin suite=selftest test=no_such_test
echo SECOND-%lasterror%-
mcspin.efi quick=1 suite=selftest,osq bench=none seed=43
echo THIRD-%lasterror%-
mcspin.efi cpus=banana
echo FOURTH-%lasterror%-
echo STILL-HERE
reset -s
"""


@pytest.mark.parametrize("smp", [1, 4])
def test_shell(folder, smp):
    """exit=shell: words after the name, a status for the script, and the Shell goes on. Twice and
    more on the same processors: what was borrowed was given back."""
    disk = folder / "disk.img"
    rig.make_disk(disk, "")
    esp = f"{disk}{rig.ESP}"
    script = folder / "startup.nsh"
    script.write_text(SCRIPT)
    rig.mtool("mdel", "-i", esp, "::/EFI/BOOT/BOOTX64.EFI", "::/EFI/BOOT/mcspin.cfg")
    rig.mtool("mcopy", "-i", esp, str(script), "::/startup.nsh")
    rig.mtool("mcopy", "-i", esp, str(rig.BUILD / "mcspin.efi"), "::/mcspin.efi")
    run = rig.boot(folder, disk=disk, smp=smp, timeout=100)
    text = "\n".join(run.lines)
    assert not run.timed_out and "STILL-HERE" in text, run.tail()
    assert [d["result"] for d in run.of("done")] == ["pass", "error", "pass"], run.tail()
    assert [r["seed"] for r in run.of("run")][::2] == ["41", "43"]
    # The third start holds all processors again, and they contend.
    assert {m["cpus"] for m in run.of("machine")} == {smp}
    assert f"by {smp} processor" in run.one("test", name="contest")["reason"]
    known = ("emulation", "no_such_test")
    assert all(any(k in w["text"] for k in known) for w in run.of("warn")), run.of("warn")
    for word, zero in (("FIRST", True), ("SECOND", False), ("THIRD", True), ("FOURTH", False)):
        assert (f"{word}-0x0-" in text) == zero, run.tail(40)
    assert "banana" in text


NET = ("-netdev", "user,id=net,tftp={tftp},bootfile={file}")


def network(folder, file, rom):
    args = [a.format(tftp=folder / "tftp", file=file) for a in NET]
    return args + ["-device", "virtio-net-pci,netdev=net" + rom]


def last_word(line, event):
    if event and event["event"] == "done":
        return rig.STOP
    return None


def test_pxe(folder):
    """OVMF's own PXE: the image alone, without a volume and without words."""
    (folder / "tftp").mkdir()
    rig.copy(rig.BUILD / "mcspin.efi", folder / "tftp/mcspin.efi")
    run = rig.boot(folder, drive=False, smp=1, extra=network(folder, "mcspin.efi", ",romfile="),
                   watch=last_word, timeout=150)
    whole(run)
    assert any("no volume" in w["text"] for w in run.of("warn")), run.of("warn")
    rebuilt(run, folder)


def test_ipxe(folder):
    """iPXE's option ROM and a script: words reach mcspin with its name in front."""
    (folder / "tftp").mkdir()
    rig.copy(rig.BUILD / "mcspin.efi", folder / "tftp/mcspin.efi")
    (folder / "tftp/boot.ipxe").write_text(
        "#!ipxe\nchain mcspin.efi suite=selftest seed=99 exit=qemu\n")
    run = rig.boot(folder, drive=False, smp=1, extra=network(folder, "boot.ipxe", ""), timeout=150)
    whole(run)
    assert run.code == rig.PASS
    assert run.one("run")["seed"] == "99", run.one("run")
    assert any("no volume" in w["text"] for w in run.of("warn")), run.of("warn")


GLOBAL = uuid.UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c").bytes_le


def variable(name, data):
    """One entry of OVMF's store: EDK II's AUTHENTICATED_VARIABLE_HEADER, name, data, padded to 4."""
    wide = (name + "\0").encode("utf-16-le")
    entry = struct.pack("<HBBIQ16xIII16s", 0x55AA, 0x3F, 0, 7, 0, 0, len(wide), len(data), GLOBAL)
    entry += wide + data
    return entry + b"\xff" * (-len(entry) % 4)


def boot_from(url, words):
    """OVMF's variables with a boot option that is a URL, to be taken at the next boot."""
    path = struct.pack("<BBH", 3, 24, 4 + len(url)) + url.encode() + b"\x7f\xff\x04\0"
    option = struct.pack("<IH", 1, len(path)) + "mcspin\0".encode("utf-16-le") + path
    option += (words + "\0").encode("utf-16-le")
    store = bytearray((rig.OVMF / "OVMF_VARS_4M.fd").read_bytes())
    at = struct.unpack_from("<H", store, 48)[0] + 28  # behind the headers of volume and store
    entries = variable("Boot0001", option) + variable("BootNext", b"\x01\0")
    assert store[at:at + len(entries)] == b"\xff" * len(entries), "the store is not empty"
    store[at:at + len(entries)] = entries
    return bytes(store)


def test_http(folder):
    """HTTP boot: OVMF fetches the image from a server, and the boot option's words reach it."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(args[1])

    handler = functools.partial(Handler, directory=str(rig.BUILD))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "http.fd").write_bytes(
            boot_from(f"http://10.0.2.2:{server.server_port}/mcspin.efi",
                      "suite=selftest seed=98 exit=qemu"))
        run = rig.boot(folder, drive=False, smp=1, variables=folder / "http.fd", timeout=150,
                       extra=network(folder, "", ",romfile="))
        server.shutdown()
    whole(run)
    assert run.code == rig.PASS and run.one("run")["seed"] == "98"
    assert any("GET /mcspin.efi" in line for line in asked), asked
    assert any("no volume" in w["text"] for w in run.of("warn")), run.of("warn")
