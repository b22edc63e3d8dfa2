"""The benchmarks are scripts beside each other: here they can be imported."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))
