"""pip, as far as there is one in a sandbox: `python -m pip`."""

__version__ = "0"
