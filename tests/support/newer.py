"""A controller that is newer than its clients: whatever it says has fields that they do not know."""

_OF_OTHERS = {"artifacts", "data", "metadata", "skipped"}  # maps whose keys are no fields: paths and MIME types
_BY_PATH = "artifact_info"
_FIELDS = {"newer_flag": True, "newer_map": {"list": [1, None, {"text": "ü", "bytes": b"\xff"}]}}


def newer(body):
    """The same with more fields in each of its maps."""
    return {**{name: _inside(name, value) for name, value in body.items()}, **_FIELDS}


def _inside(name, value):
    if name in _OF_OTHERS:
        return value
    if name == _BY_PATH:
        return {path: newer(info) for path, info in value.items()}
    if isinstance(value, list):
        return [newer(item) if isinstance(item, dict) else item for item in value]
    return newer(value) if isinstance(value, dict) else value
