"""Lets the tests of this folder `import native`, the compile-and-run harness next to them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
