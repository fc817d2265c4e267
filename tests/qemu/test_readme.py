# SPDX-License-Identifier: GPL-2.0-only
"""The README's tables say what the code says."""
import re
import subprocess

import rig

README = (rig.ROOT / "README.md").read_text()


def table(first_header):
    """Rows of the table whose first column has this header: {first cell: other cells}."""
    text = README.split(f"| {first_header} |", 1)[1].split("\n\n", 1)[0]
    rows = [[c.strip().strip("`") for c in line.strip("|").split("|")]
            for line in text.splitlines()[2:] if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def test_sites():
    header = (rig.ROOT / "src/alt/sites.h").read_text()
    code = dict(re.findall(r'SITE\(\w+, "(\w+)", "([\w,]+)"\)', header))
    assert {name: cells[0] for name, cells in table("site").items()} == code


def test_options():
    said = subprocess.run([str(rig.BUILD / "host/mcspin-host"), "help=1"], capture_output=True,
                          text=True, check=True).stdout
    code = dict(re.match(r"(\w+)=(.*?): ", line).groups() for line in said.splitlines())
    readme = {key: cells[0] for key, cells in table("key").items()}
    assert set(readme) == set(code)
    for key, values in code.items():
        if re.fullmatch(r"[\d-]+", values) or re.fullmatch(r"[a-z]+(,[a-z]+)+", values) and key != "console":
            assert readme[key] == values, key


def test_commands():
    """Every make target that it names exists."""
    rules = "\n".join(p.read_text() for p in (rig.ROOT / "Makefile", rig.ROOT / "tests/tests.mk",
                                              rig.ROOT / "linker/image.mk", rig.ROOT / "linker/core.mk"))
    for target in set(re.findall(r"`?make ([a-z]+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", rules, re.M), target
