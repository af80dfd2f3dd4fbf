"""Fixtures of the end-to-end tests."""
import pytest

import harness


@pytest.fixture(scope="session")
def program(tmp_path_factory, worker_id):
    """program(variant, mesh, options): the compiled model, from a cache that all workers share."""
    base = tmp_path_factory.getbasetemp()
    return harness.Compiler((base if worker_id == "master" else base.parent) / "programs")


def pytest_collection_modifyitems(config, items):
    """Tests marked `whole` run only with --all."""
    if harness.ALL:
        return
    skipped = [item for item in items if item.get_closest_marker("whole")]
    config.hook.pytest_deselected(items=skipped)
    items[:] = [item for item in items if item not in skipped]


def pytest_configure(config):
    config.addinivalue_line("markers", "whole: part of a large family, run by tools/test --all only")
