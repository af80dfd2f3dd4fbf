"""What has changed last passes clang-tidy (`.clang-tidy`); `tools/tidy` checks more."""
import shutil
import subprocess

import pytest

from harness import BUILD, ROOT

FOLDERS = ("dialects", "lib", "passes", "runtime", "tools")
MOST = 6  # files, some seconds each


def changed():
    """The sources that the newest commits and the working tree change, newest first."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    names = git("diff", "--name-only", "HEAD") + git("log", "-n", "20", "--format=", "--name-only")
    compiled = (BUILD / "compile_commands.json").read_text()
    return [name for name in dict.fromkeys(names)
            if name.endswith(".cpp") and name.startswith(FOLDERS) and (ROOT / name).exists()
            and f'{ROOT / name}"' in compiled]


def test_what_has_changed_passes_clang_tidy():
    tool = shutil.which("clang-tidy-22")
    assert tool, "clang-tidy-22 is not installed (tools/setup)"
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    for name in changed()[:MOST]:
        result = subprocess.run([tool, "-p", str(BUILD), "--quiet", name], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout
