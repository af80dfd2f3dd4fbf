"""The sources are formatted as .clang-format says."""
import shutil
import subprocess

import pytest

from harness import ROOT


def sources():
    names = subprocess.run(["git", "ls-files", "-z", "*.cpp", "*.h", "*.c", "*.inc", "*.td"], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).exists()]


def test_sources_are_formatted():
    tool = shutil.which("clang-format-22")
    assert tool, "clang-format-22 is not installed (tools/setup)"
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    result = subprocess.run([tool, "--dry-run", "-Werror", *sources()], cwd=ROOT, capture_output=True, text=True)
    unformatted = sorted({line.split(":")[0] for line in result.stderr.splitlines() if ": error:" in line})
    assert result.returncode == 0 and not unformatted, f"clang-format-22 -i {' '.join(unformatted)}"
