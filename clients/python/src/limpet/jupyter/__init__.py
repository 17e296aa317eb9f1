"""A Jupyter kernel whose cells run in a Limpet session.

pip install ipykernel nh3        # or the extra ``jupyter`` with the package itself
python -m limpet.jupyter install

Then choose "Limpet" in JupyterLab, Notebook or VS Code, or ``kernel_name="limpet"`` in nbclient and papermill.
"""

from __future__ import annotations

import importlib

NEEDED = ("ipykernel", "nh3")
INSTALL = "pip install ipykernel nh3"


def require() -> None:
    """Raises ImportError, with the line that installs what is missing."""
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f"limpet.jupyter needs {name} ({error}): {INSTALL}", name=name) from error
