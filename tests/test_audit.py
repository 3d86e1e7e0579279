"""The audit says what it knows, and what it does not."""

from __future__ import annotations

import pytest

from tests import audit

FINE = {"name": "torch", "version": "2.13.0", "vulns": []}
WEAK = {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"], "aliases": []}]}
UNKNOWN = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([FINE], 0, "1 of 1 packages were looked up; 0 known weaknesses."),
        ([FINE, WEAK], 1, "a 1: PYSEC-1, mended in 2\n2 of 2 packages were looked up; 1 known weaknesses."),
        ([FINE, UNKNOWN], 2, "1 of 2 packages were looked up; 0 known weaknesses.\nThe advisory database could not"),
        ([UNKNOWN, WEAK], 1, "a 1: PYSEC-1, mended in 2\n1 of 2 packages"),
    ],
)
def test_a_package_that_could_not_be_looked_up_is_never_counted_as_fine(found, status: int, said: str):
    code, words = audit.verdict({"dependencies": found}, len(found))
    assert code == status
    assert words.startswith(said)


def test_every_package_of_the_lock_is_asked_about():
    found = audit.packages()
    direct = (audit.LOCK.parents[1] / "requirements.txt").read_text(encoding="utf-8").lower().split()
    assert len(direct) > 5
    assert set(direct) <= set(found)
    assert len(found) > 40
