"""Stands in for IPython where it is not installed, for code that only wants to display things."""

__version__ = "8.0.0"
version_info = (8, 0, 0)


def get_ipython():
    """There is no IPython shell."""
    return None
