"""What the tests of several folders share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "python" / "src"
EXAMPLES = ROOT / "examples"
