"""What the search of tiers finds against exact optima, of steps too large to try all plans. They are solved by HiGHS (`pip install highspy`), which only this test needs."""
import importlib.util
import json

import pytest

import harness as h

GRAPHS, LIMITS, LAYERS = (300, 8, 6) if h.ALL else (6, 8, 5)
SECONDS = 60  # of the solver a step; where it has not proven its best by then, the bound that it has proven counts


@pytest.mark.skipif(not importlib.util.find_spec("highspy"), reason="needs highspy of PyPI, for exact optima")
def test_close_to_optimal():
    import tier_model  # which imports highspy

    lines = h.checked(h.BUILD / "bin" / "tier-steps", GRAPHS, 1, LAYERS).stdout.splitlines()
    above, proven, tried, same = [], 0, 0, 0
    for step in map(json.loads, lines):
        best, bound = tier_model.least_seconds(step, SECONDS)
        proven += bound >= best * (1 - 1e-4)
        if "best" in step:  # all plans were tried whose copies that start at one position start in the order of need
            assert bound <= step["best"] * (1 + 1e-5), step
            tried += 1
            same += best >= step["best"] * (1 - 1e-5)
        above.append(step["plan"] / bound - 1)
    print(f"{len(above)} steps, {proven} proven, {same} of {tried} as all plans say: mean {100 * sum(above) / len(above):.3f} %, worst {100 * max(above):.2f} % above")
    assert len(above) == GRAPHS * LIMITS and tried > len(above) // 15 and proven > 0.9 * len(above)
    assert same >= 0.9 * tried
    # The search leaves offloads that start at one position in the order of need, which costs the worst.
    assert sum(above) / len(above) <= 0.01 and max(above) <= 0.06
