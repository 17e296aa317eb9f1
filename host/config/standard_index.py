"""Prints what pip uses where nothing is configured, as pip itself has it: its index, and the host of its files."""

import glob
import sys

sys.path += sorted(glob.glob("/usr/share/python-wheels/pip-*.whl"))  # Debian's, where pip is not installed

from pip._internal.models.index import PyPI  # noqa: E402

print(PyPI.simple_url, f"https://{PyPI.file_storage_domain}")
