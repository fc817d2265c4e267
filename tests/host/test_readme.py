# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables say what the code says: sites with their choices, options with their values."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
README = (ROOT / "README.md").read_text()


def table(first_header):
    """Rows of the table whose first column has this header: {first cell: other cells}."""
    text = README.split(f"| {first_header} |", 1)[1].split("\n\n", 1)[0]
    rows = [[c.strip().strip("`") for c in line.strip("|").split("|")]
            for line in text.splitlines()[2:] if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def test_sites():
    header = (ROOT / "src/alt/sites.h").read_text()
    code = dict(re.findall(r'SITE\(\w+, "(\w+)",\s*"([\w,]+)"\)', header.replace("\\\n", "\n")))
    assert len(code) > 5
    assert {name: cells[0] for name, cells in table("site").items()} == code


def test_options():
    said = subprocess.run([str(BUILD / "host/mcspin-host"), "help=1"], capture_output=True,
                          text=True, check=True).stdout
    code = dict(re.match(r"(\w+)=(.*?): ", line).groups() for line in said.splitlines())
    readme = {key: cells[0] for key, cells in table("key").items()}
    assert list(readme) == list(code)
    for key, values in code.items():
        listed = re.fullmatch(r"[\d-]+|[a-z]+(,[a-z]+)*", values)
        if listed and values != "number" and key != "console":
            assert readme[key] == values, key


def test_commands():
    """Every make target that it names exists."""
    rules = "\n".join(p.read_text() for p in (ROOT / "Makefile", ROOT / "tests/tests.mk",
                                              *ROOT.glob("linker/*.mk")))
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", README, re.M))
    assert {"run", "test", "image", "iso", "sign"} <= named
    for target in named:
        assert re.search(rf"^{target}:", rules, re.M), target


def test_own_test():
    """The test that the README shows compiles as it stands, warnings and all."""
    text = README.split("## Adding a test", 1)[1].split("\n\n    ", 1)[1].split("\n\nThe build", 1)[0]
    done = subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
                           "-ffreestanding", "-mgeneral-regs-only", "-fsyntax-only", "-iquote",
                           str(ROOT / "src/copy"), "-x", "c", "-"], input=text, text=True,
                          capture_output=True)
    assert "TEST(copy_mc" in text and not done.returncode, done.stderr
