# SPDX-License-Identifier: GPL-2.0-only
"""Secure Boot with the keys that Debian's OVMF ships for tests: signed starts, unsigned is refused."""
import subprocess

import pytest

import rig

SECURE = {
    "machine": "q35,accel=tcg,smm=on",
    "code": "OVMF_CODE_4M.secboot.fd",
    "variables": "OVMF_VARS_4M.snakeoil.fd",
    "extra": ("-global", "driver=cfi.pflash01,property=secure,value=on"),
}
SNAKEOIL = "/usr/share/ovmf/PkKek-1-snakeoil"


def refusal(line, event):
    return rig.STOP if "Access Denied" in line or event else None


def test_unsigned_is_refused(boot):
    run = boot("suite=selftest", smp=1, watch=refusal, **SECURE)
    assert not run.of("run"), "an unsigned image started"
    assert any("Access Denied" in line for line in run.lines), run.tail()


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """make sign with the snakeoil key, whose pass phrase is public."""
    key = tmp_path_factory.mktemp("key") / "snakeoil.key"
    subprocess.run(["openssl", "rsa", "-in", SNAKEOIL + ".key", "-passin", "pass:snakeoil",
                    "-out", str(key)], check=True, capture_output=True)
    subprocess.run(["make", "-s", "-C", str(rig.ROOT), f"BUILD={rig.BUILD}", "sign", f"KEY={key}",
                    f"CERT={SNAKEOIL}.pem"], check=True, capture_output=True)
    return rig.BUILD / "mcspin.signed.img"


def test_signed_starts(boot, signed):
    run = boot("suite=selftest,alternatives quick=1", smp=1, image=signed, **SECURE)
    assert run.result == "pass" and run.code == rig.PASS, run.tail()
    assert run.one("patching")["refused"] == 0
    assert "gaps between" not in subprocess.run(
        ["sbverify", "--list", str(rig.BUILD / "mcspin.signed.efi")], capture_output=True,
        text=True).stderr


def test_signed_cd_starts(tmp_path, signed):
    """What a BMC attaches; its first word is enough."""
    run = rig.boot(tmp_path, disk=signed.with_suffix(".iso"), drive="cd", read_only=True, smp=1,
                   watch=lambda line, event: rig.STOP if event else None, timeout=60, **SECURE)
    assert run.of("run"), run.tail()
