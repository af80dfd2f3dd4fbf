"""A sample of tools/chaos: real runs that are killed, stopped and damaged."""
import sys

import pytest

import harness as h


def chaos(*options):
    return h.run(sys.executable, h.ROOT / "tools" / "chaos.py", "--beside", *options, timeout=240)


@pytest.mark.parametrize("options,said", [
    (("--kills", "4", "--seed", "7"), "4 kills ("),
    (("--stops", "1", "--seed", "7"), "1 stops of a rank"),
    (("--hosts", "2", "--lose", "2", "--seed", "7"), "2 losses of one of 2 simulated hosts"),
    (("--resizes", "4", "--seed", "7", "--cases", "vit tcp"), "vit tcp: 4 wishes, "),
    (("--corrupt", "30", "--seed", "7"), "30 noticed and the one before gone on from, 0 not"),
])
def test_a_sample(options, said):
    result = chaos(*options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert said in result.stdout


def test_nothing_to_do():
    assert chaos().returncode == 2 and "nothing to do" in chaos().stderr
