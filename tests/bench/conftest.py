"""The modules of the benchmark, as scripts/bench finds them."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
