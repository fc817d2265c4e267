# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: a folder of its own for each boot, kept under build/test for whoever must look."""
import re
import shutil

import pytest

import rig


@pytest.fixture
def folder(request):
    path = rig.BUILD / "test" / re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    yield path
    for disk in path.glob("*.img"):
        disk.unlink()


@pytest.fixture
def boot(folder):
    return lambda options="", **more: rig.boot(folder, options, **more)
