"""schemathesis: whatever is sent, the server never fails."""

from __future__ import annotations

import pytest

schemathesis = pytest.importorskip("schemathesis")

STREAMS = "/api/events"


def attack(address, examples):
    from hypothesis import HealthCheck, given, settings

    schema = schemathesis.openapi.from_url(f"{address}/api/openapi.json").exclude(path=STREAMS)
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case):
            answer = case.call(timeout=120)
            assert answer.status_code < 500, f"{case.method} {case.path}: {answer.text}"

        check()
    return len(operations)


@pytest.fixture
def address(site, live):
    """A server with something to ask for."""
    from salvit.projects import Change

    nose = site.project.add_keypoint("nose")
    site.project.mark([Change(site.project.picture(1)["objects"][0]["id"], nose, "placed", 60, 80)])
    return live


def test_no_call_fails(address):
    assert attack(address, examples=4) >= 20


@pytest.mark.slow
def test_no_call_fails_at_length(address):
    assert attack(address, examples=50) >= 20
