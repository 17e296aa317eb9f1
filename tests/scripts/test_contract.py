"""Each promise has tests by name, and tests/CONTRACT.md lists them; see scripts/documents/contract.py."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def contract():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from documents import contract
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return contract


def test_each_promise_has_a_test(contract):
    promises, proven = contract.promises(ROOT), {promise for promise, _, _ in contract.proofs(ROOT)}
    assert len(promises) == len(set(promises)), "two promises have one name"
    assert [promise for promise in promises if promise not in proven] == []


def test_marks_name_promises(contract):
    promises = set(contract.promises(ROOT))
    assert [(test, promise) for promise, test, _ in contract.proofs(ROOT) if promise not in promises] == []


def test_the_list_is_up_to_date(contract):
    assert (ROOT / "tests/CONTRACT.md").read_text() == contract.page(ROOT), "run scripts/generate-docs"
