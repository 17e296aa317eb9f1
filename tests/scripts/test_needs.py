"""What a test makes of a program that it needs."""

import pytest

from tests.support import needs


def test_one_that_is_there_is_found():
    assert needs.need("sh", "shells").endswith("/sh")


def test_one_that_is_missing_is_an_error_that_says_how_to_go_on():
    with pytest.raises(pytest.fail.Exception, match="no-such-program is not in PATH.*--without shells"):
        needs.need("no-such-program", "shells")


def test_one_that_was_left_out_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(needs, "WITHOUT", ["docker", "shells"])
    with pytest.raises(pytest.skip.Exception, match="without shells"):
        needs.need("sh", "shells")
    assert needs.need("sh", "oci")
