"""Run by test_gpu_benchmark.py: benchmarks/gpu.py on the fake driver.  CAPABILITY [broken] ARGUMENT …

"broken": what breaks on purpose, as a device would: "assembler" (no code loads), "attention" (the first kernel of attention
leaves its memory), "stalls" (that kernel does not end).
"""

from __future__ import annotations

import importlib
import sys
import time
import types
from pathlib import Path

from joinery.runtime.cuda import current

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parents[2] / "benchmarks"


def main() -> int:
    capability, broken, *arguments = sys.argv[1:]
    package = types.ModuleType("fakes")
    package.__path__ = [str(HERE)]
    sys.modules["fakes"] = package
    fake_driver = importlib.import_module("fakes.fake_driver")
    sys.path.insert(0, str(BENCHMARKS))
    bench = importlib.import_module("gpu")
    bench.STALL = 6.0

    class Driver(fake_driver.FakeDriver):
        def cuModuleLoadDataEx(self, image: bytes) -> int:
            if broken == "assembler":
                self.fail("cuModuleLoadDataEx", 218)
            self.is_first = b"attention" in image and "cuModuleGetFunction" not in self._counts
            return super().cuModuleLoadDataEx(image)

        def cuLaunchKernelEx(self, function: int, *rest: object) -> None:
            if self.is_first and broken in ("attention", "stalls") and not any("--without" in each for each in arguments):
                if broken == "stalls":
                    time.sleep(60)
                self.dead[0] = 700
            super().cuLaunchKernelEx(function, *rest)

    fake = Driver(capability=(int(capability) // 10, int(capability) % 10), memory=1 << 23)
    with current.installed(lambda: fake):
        return bench.main(arguments, [sys.executable, __file__, capability, broken])


if __name__ == "__main__":
    sys.exit(main())
