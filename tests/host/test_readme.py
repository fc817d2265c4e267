# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables say what the sources say: sites with their choices, options with their help."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_sites():
    source = (ROOT / "src/alt/sites.h").read_text()
    sites = dict(re.findall(r'SITE\(\w+, "(\w+)",\s*"([^"]+)"\)', source.replace("\\\n", "\n")))
    told = {name: re.sub(r"[` ]", "", choices) for name, choices in
            re.findall(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \|$", README, re.M)}
    assert len(sites) > 5
    assert told == sites


def test_options():
    source = (ROOT / "src/run/options.c").read_text()
    table = source[source.index("static const struct option table"):]
    table = table[:table.index("};")]
    keys = re.findall(r'\{"(\w+)", KIND_', table)
    assert len(keys) > 15
    rows = README[README.index("## Options"):README.index("## Comparing")]
    assert re.findall(r"^\| `(\w+)` \|", rows, re.M) == keys
    for key, row in re.findall(r"^\| `(\w+)` \| (.*) \|$", rows, re.M):
        assert row in re.sub(r'"\s+"', "", table), key


def test_commands_exist():
    known = set(re.findall(r"^(?:#help make )(\w+)", "".join(
        p.read_text() for p in [ROOT / "Makefile", *ROOT.glob("linker/*.mk"), ROOT / "tests/tests.mk"]),
        re.M))
    named = set(re.findall(r"\bmake (run|test|image|iso|sign|bench|plan|\w+)\b(?=[^\n]*`|  )", README))
    assert {"run", "test", "image", "iso", "sign", "bench", "plan"} <= known
    assert named - known <= {"it", "build", "help"}, named - known
