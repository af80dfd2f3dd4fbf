"""Fixtures of the end-to-end tests."""
import os

import pytest

import harness


@pytest.fixture(scope="session")
def program(tmp_path_factory, worker_id):
    """program(variant, mesh, options): the compiled model, from a cache that all workers share."""
    base = tmp_path_factory.getbasetemp()
    return harness.Compiler((base if worker_id == "master" else base.parent) / "programs")


def pytest_collection_modifyitems(config, items):
    """Tests marked `whole` run only with --all, those marked `slurm` with --slurm."""
    left_out = [marker for marker, asked in (("whole", harness.ALL), ("slurm", os.environ.get("TESSERA_TEST_SLURM") == "1")) if not asked]
    skipped = [item for item in items if any(item.get_closest_marker(marker) for marker in left_out)]
    config.hook.pytest_deselected(items=skipped)
    items[:] = [item for item in items if item not in skipped]


def pytest_configure(config):
    config.addinivalue_line("markers", "slurm: starts a Slurm, run by tools/test --slurm only")
    config.addinivalue_line("markers", "whole: part of a large family, run by tools/test --all only")


def pytest_runtest_logreport(report):
    """Says what has failed at once: a run that is ended early has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid}: {str(report.longrepr)[-300:]}", flush=True)
