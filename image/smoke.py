"""Smoke test of a sandbox image: runs inside it as the sandbox's user; the arguments are modules to import."""

import importlib
import importlib.metadata
import os
import socket
import sys
import time
import types
import warnings


def import_all(names):
    began = time.monotonic()
    for name in names:
        module = importlib.import_module(name)
        top = sys.modules[name.partition(".")[0]]
        version = getattr(top, "__version__", None) or getattr(module, "__version__", "")
        print(f"  {name:24} {version}")
    print(f"  {len(names)} modules imported in {time.monotonic() - began:.1f} s")


def check_bytecode():
    """A module without bytecode is compiled anew by every interpreter. Of plotly's validators few are ever loaded."""
    caches = {name: vars(module).get("__cached__") for name, module in sys.modules.items() if isinstance(module, types.ModuleType)}
    bare = [name for name, cached in caches.items() if isinstance(cached, str) and not os.path.exists(cached) and "plotly.validators" not in name]
    assert not bare, f"{len(bare)} modules without bytecode: {bare[:10]}"


def check_confinement():
    assert os.getuid() == os.getgid() == 20001, "not the sandbox's user"
    assert os.path.expanduser("~") == "/home/user"
    for path in ("/usr/probe", "/etc/probe", "/usr/lib/limpet/probe"):
        try:
            open(path, "w").close()
        except OSError:
            continue
        raise AssertionError(f"{path} could be written")
    assert [name for _, name in socket.if_nameindex()] in ([], ["lo"]), "there is a network"
    for path in ("/session", "/data", "/work", "/run/limpet"):
        assert os.path.isdir(path), f"{path} is missing"


def check_privileged_files():
    found = []
    for directory, _, names in os.walk("/usr"):
        for name in names:
            path = os.path.join(directory, name)
            if os.lstat(path).st_mode & 0o6000:
                found.append(path)
    assert not found, f"setuid or setgid files: {found}"


def draw_figure():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([1, 2, 3], [2, 3, 5])
    axes.set_title("smoke 销售额 東京 매출")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a letter that no font has
        figure.savefig("/session/figure.png")
    with open("/session/figure.png", "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def write_workbook():
    import pandas as pd

    table = pd.DataFrame({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]})
    table.to_excel("/session/table.xlsx", index=False)
    assert pd.read_excel("/session/table.xlsx").equals(table)


def write_parquet():
    import pandas as pd

    table = pd.DataFrame({"x": [1, 2, 3]})
    table.to_parquet("/session/table.parquet")
    assert pd.read_parquet("/session/table.parquet").equals(table)


def solve():
    import numpy as np

    matrix = np.random.default_rng(1).normal(size=(300, 300))
    assert np.allclose(matrix @ np.linalg.inv(matrix), np.eye(300), atol=1e-6)


def has(module):
    return importlib.util.find_spec(module) is not None


def main(names):
    print(f"  Python {sys.version.split()[0]}")
    check_confinement()
    check_privileged_files()
    import_all(names)
    for needed, check in (
        ("matplotlib", draw_figure),
        ("openpyxl", write_workbook),
        ("pyarrow", write_parquet),
        ("numpy", solve),
    ):
        if has(needed):
            began = time.monotonic()
            check()
            print(f"  {check.__name__.replace('_', ' '):24} {time.monotonic() - began:.2f} s")
    check_bytecode()
    print("smoke test passed")


main(sys.argv[1:])
