# SPDX-License-Identifier: GPL-2.0-only
"""Reports: read by the readers that users have, equal to what the log alone yields, and compared.

One boot under plain emulation is looked at in every form; four short boots under -icount on one disk
are compared with each other, since instruction counts are the only times there that prove anything.
"""
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from decimal import Decimal
from html.parser import HTMLParser

import pytest

import rig
import screenshot

DATA = rig.ROOT / "tests/data"
FORMS = ("results.json", "junit.xml", "report.html")


@pytest.fixture(scope="module")
def emulated():
    run = rig.boot(rig.BUILD / "test/report", "quick=1", smp=2, timeout=150)
    assert run.result == "pass", run.tail()
    yield run
    (run.folder / "disk.img").unlink()


@pytest.fixture(scope="module")
def native():
    folder = rig.BUILD / "test/report-native"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([rig.BUILD / "host/mcspin-host", "suite=selftest,alternatives", "time=12",
                           "bench=control,copy_hot,dispatcher_time,contest", f"out={folder}"],
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    return folder


# ------------------------------------------------------------------ one log, every form

def rebuild(log, folder):
    folder.mkdir(exist_ok=True)
    subprocess.run([rig.BUILD / "host/rebuild", log, folder], check=True, timeout=60)


@pytest.mark.parametrize("source", ["mcspin.log", "serial.log"])
def test_log_alone_rebuilds_all(emulated, source):
    """The serial capture, with the firmware's noise in it, is as good as the file on the stick."""
    again = emulated.folder / f"again-{source}"
    rebuild(emulated.file(source), again)
    for form in FORMS:
        assert (again / form).read_bytes() == emulated.file(form).read_bytes(), form


def test_emulation_is_said_first(emulated):
    for form in FORMS:
        assert "emulation" in emulated.file(form).read_text()[:400].lower(), form
    assert any("under emulation" in e["text"] for e in emulated.of("warn"))


def test_emulated_time_gives_no_ratio(emulated):
    timed = [e for e in emulated.of("finding") if any("bench:" in x for x in e["evidence"])]
    assert timed
    for e in timed:
        assert e["ratio"] is None and e["text"].startswith("emulation"), e
    assert {e["ratio"] for e in emulated.of("finding") if e["name"] == "spin_instructions"} == {
        16, 15, 10}


def test_results_follow_the_schema(emulated):
    results = emulated.results()
    assert results["schema"] == "mcspin-results-1"
    assert {"id", "version", "options", "started", "seconds", "result"} <= set(results["run"])
    assert {"vendor", "family", "model", "stepping", "brand", "microcode", "cpus", "hypervisor",
            "emulated", "tsc", "firmware", "product", "fingerprint"} <= set(results["machine"])
    assert {"hz", "source", "invariant", "skew"} <= set(results["machine"]["tsc"])
    assert all(isinstance(v, bool) for v in results["features"].values())
    rows = {"sites": {"name", "address", "choice", "because", "before", "after"},
            "tests": {"suite", "name", "result", "reason"},
            "benches": {"name", "variant", "params", "unit", "samples", "min", "p50", "p95", "max",
                        "disturbed", "noise"},
            "findings": {"name", "text", "ratio", "evidence"}}
    for key, fields in rows.items():
        assert results[key], key
        for row in results[key]:
            assert fields <= set(row), (key, row)
    assert any(b["name"] == "control" for b in results["benches"])


def test_at_least_two_clocks_were_asked(emulated):
    sources = emulated.results()["machine"]["tsc"]["sources"]
    assert sum(s["credible"] for s in sources) >= 2, sources


# ------------------------------------------------------------------ standard readers

def tap(text):
    """Perl's own TAP parser: (plan, passed, failed, problems)."""
    script = ("use TAP::Parser; local $/; my $p = TAP::Parser->new({tap => scalar <STDIN>}); "
              "$p->run; print join(' ', $p->tests_planned // 'none', scalar $p->passed, "
              "scalar $p->failed, scalar $p->skipped), \"\\n\", join('; ', $p->parse_errors);")
    done = subprocess.run(["perl", "-e", script], input=text, capture_output=True, text=True,
                          check=True)
    counts, _, problems = done.stdout.partition("\n")
    return counts.split(), problems


def subtests(text):
    block = []
    for line in text.splitlines():
        if line.startswith("    # Subtest:") and block:
            yield "\n".join(block)
            block = []
        if line.startswith("    "):
            block.append(line[4:])
    yield "\n".join(block)


def test_log_is_tap(emulated):
    text = emulated.file("mcspin.log").read_text()
    assert text.startswith("KTAP version 1\n")
    (planned, passed, failed, _), problems = tap(text)
    assert not problems and planned == passed and failed == "0"
    total = skipped = 0
    for block in subtests(text):
        (planned, passed, failed, skips), problems = tap(block)
        assert not problems, (problems, block)
        assert planned == passed and failed == "0"
        total += int(passed)
        skipped += int(skips)
    assert total == len(emulated.tests()) and skipped == len(emulated.tests("skip"))


def test_junit_fits_the_schema(emulated):
    path = emulated.file("junit.xml")
    subprocess.run(["xmllint", "--noout", "--schema", DATA / "junit.xsd", path], check=True,
                   capture_output=True)
    suites = ElementTree.parse(path).getroot()
    cases = [c for c in suites.iter("testcase") if c.get("classname") != "mcspin.run"]
    assert len(cases) == len(emulated.tests())
    assert len(list(suites.iter("skipped"))) == len(emulated.tests("skip"))
    for suite in suites:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert suite.find("properties/property[@name='fingerprint']") is not None


# ------------------------------------------------------------------ the page

class Page(HTMLParser):
    """The text that a reader sees or hears, and the charts."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.said, self.plots, self.charts, self.scripts = [], [], 0, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("meta", "link", "br", "rect", "line", "circle", "polyline", "img", "input"):
            return
        self.stack.append((tag, attributes))
        if tag == "svg" and attributes.get("class") == "plot":
            self.charts.append({"role": attributes.get("role"), "title": "", "desc": ""})
        if tag == "script":
            self.scripts.append(attributes.get("type"))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self.stack]
        classes = " ".join(a.get("class") or "" for _, a in self.stack).split()
        if "svg" in tags and tags[-1] in ("title", "desc") and self.charts:
            self.charts[-1][tags[-1]] += data
        if not {"script", "style"} & set(tags) and "mono" not in classes:
            self.said.append(data)


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")


def numbers(text):
    return {Decimal(n).normalize() for n in NUMBER.findall(text)}


def chromium(page, *more):
    return subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                           "--hide-scrollbars", "--enable-logging=stderr", *more, f"file://{page}"],
                          capture_output=True, text=True, errors="replace", timeout=120)


def derived(results):
    """What the page says otherwise than the data: sites that are alike, lengths in KiB and MiB."""
    alike = Counter((s["name"], s["choice"], s["after"]) for s in results["sites"])
    lengths = [b["params"].get("length", 0) for b in results["benches"]]
    return set(map(Decimal, [*alike.values(), *(n >> 10 for n in lengths), *(n >> 20 for n in lengths)]))


@pytest.mark.parametrize("which", ["emulated", "native"])
def test_page_in_a_browser(which, request):
    folder = request.getfixturevalue(which)
    folder = getattr(folder, "folder", folder)
    done = chromium(folder / "report.html", "--dump-dom")
    assert "<main>" in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    page = Page(done.stdout)
    results = (folder / "results.json").read_text()
    assert page.scripts == ["application/json"]
    assert "http" not in (folder / "report.html").read_text().split("<script")[0]
    if which == "native":
        assert page.charts
    for chart in page.charts:
        assert chart["role"] == "img" and chart["title"] and "Highest" in chart["desc"]
    unknown = numbers("\n".join(page.said)) - numbers(results) - derived(json.loads(results))
    assert not unknown, f"on the page and not in results.json: {sorted(unknown)[:20]}"
    assert len(numbers("\n".join(page.said))) > 50


def test_page_embeds_the_results(native):
    text = (native / "report.html").read_text()
    data = re.search(r'<script type="application/json" id=results>(.*)</script>', text, re.S)[1]
    assert json.loads(data) == json.loads((native / "results.json").read_text())


LOOKS = {"light": ("1100,2400", "1"), "dark": ("1100,2400", "0"), "phone": ("500,2400", "1")}


@pytest.mark.parametrize("look", LOOKS)
def test_screenshot(native, look):
    """Artefacts for human eyes; a page that stays blank makes a tiny file."""
    size, scheme = LOOKS[look]
    picture = native / f"report-{look}.png"
    chromium(native / "report.html", f"--screenshot={picture}", f"--window-size={size}",
             f"--blink-settings=preferredColorScheme={scheme}")
    assert picture.stat().st_size > 60000


def test_screen_picture():
    """The screen itself, for human eyes as well. A console that stays black makes a tiny file."""
    picture = rig.BUILD / "test/screen.png"
    run = screenshot.screenshot(picture, "quick=1", timeout=200)
    assert run.result == "pass", run.tail()
    assert picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 8000


# ------------------------------------------------------------------ comparison

COUNTED = "quick=1 icount=7 suite=selftest bench=control,dispatcher_time"


# A BIOS update as vendors do it: the system table's revision stays, SMBIOS counts up.
UPDATED = ("-smbios", "type=0,vendor=Lab,version=2.07,date=11/30/2026")


def reboot(disk, folder, options, cpu="Cascadelake-Server", extra=()):
    """Another boot from the same disk, so that it finds the earlier run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cfg = folder / "mcspin.cfg"
    cfg.write_text(options + " exit=qemu\n")
    rig.mtool("mcopy", "-o", "-i", f"{disk}{rig.ESP}", str(cfg), "::/EFI/BOOT/mcspin.cfg")
    run = rig.boot(folder, disk=disk, cpu=cpu, smp=1, extra=("-icount", "shift=7", *extra),
                   timeout=200)
    assert run.result == "pass", run.tail()
    return run


@pytest.fixture(scope="module")
def compared():
    folder = rig.BUILD / "test/compared"
    folder.mkdir(parents=True, exist_ok=True)
    disk = folder / "disk.img"
    rig.make_disk(disk, "")
    before = reboot(disk, folder / "before", COUNTED)
    baseline = f"{COUNTED} baseline={before.one('run')['id']}"
    yield {
        "same": reboot(disk, folder / "same", baseline),
        "regressed": reboot(disk, folder / "regressed", baseline + " dispatcher=regressed"),
        "other": reboot(disk, folder / "other", baseline, cpu="Dhyana", extra=UPDATED),
    }
    disk.unlink()


def changes(run):
    return [e for e in run.of("finding") if e["name"] in ("regression", "improvement")]


def test_same_machine_finds_nothing(compared):
    run = compared["same"]
    compare = run.one("compare")
    assert compare["kind"] == "before-after" and compare["rows"] > 3, compare
    assert compare["changed"] == 0 and not changes(run), compare["verdict"]
    assert compare["control"]["moved"] is False
    assert all(row["change_percent"] == 0 for row in run.of("compare_row"))


def test_regressed_dispatcher_is_named(compared):
    run = compared["regressed"]
    found = changes(run)
    assert found and all(f["name"] == "regression" for f in found)
    rows = {(r["variant"], r["params"]["length"]): r for r in run.of("compare_row")
            if r["name"] == "dispatcher_time"}
    for finding in found:
        assert re.search(r"dispatcher_time copy_mc_to_user \(.*\): \+\d+\.\d\d %", finding["text"])
        assert finding["ratio"] > 1.05
    assert {row["verdict"] for key, row in rows.items() if key[0] == "copy_mc_to_user"} == {"worse"}
    assert {row["verdict"] for key, row in rows.items()
            if key[0] != "copy_mc_to_user"} == {"within noise"}


def test_other_machine_is_refused(compared):
    run = compared["other"]
    compare = run.one("compare")
    assert compare["kind"] == "refused" and "vendor (GenuineIntel, now " in compare["verdict"]
    assert not run.of("compare_row") and not changes(run)
    assert re.search(r"firmware \(EDK II \d\.\d.*, now EDK II \d\.\d, 2\.07 11/30/2026\)",
                     compare["verdict"]), compare["verdict"]


def test_missing_baseline_is_no_pass(tmp_path):
    """A comparison that was asked for and not made: one last word, and it is not a pass."""
    done = subprocess.run([rig.BUILD / "host/mcspin-host", "suite=selftest", "bench=none",
                           "baseline=nope", f"out={tmp_path}"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode
    assert re.findall(r'"event": "done".*"result": "(\w+)"', done.stdout) == ["error"]
    assert "no comparison: baseline nope/results.json cannot be read" in done.stdout
