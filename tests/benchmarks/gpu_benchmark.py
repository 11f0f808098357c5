"""Run by test_gpu_benchmark.py: benchmarks/gpu.py on the fake driver.  CAPABILITY BROKEN ARGUMENT …

BROKEN: what goes wrong, as on a device: "kills:NAME", the first kernel of that name leaves its memory; "stalls:NAME", loading
it does not end; "loses:NAME", as "kills", but every one does.
"""

from __future__ import annotations

import importlib
import sys
import time
import types
from pathlib import Path

from joinery.runtime.cuda import current

TESTS = Path(__file__).resolve().parents[1]
BENCHMARKS = TESTS.parent / "benchmarks"


def main() -> int:
    capability, broken, *arguments = sys.argv[1:]
    package = types.ModuleType("fakes")
    package.__path__ = [str(TESTS / "support" / "cuda")]
    sys.modules["fakes"] = package
    fake_driver = importlib.import_module("fakes.fake_driver")
    sys.path.insert(0, str(BENCHMARKS))
    bench = importlib.import_module("gpu")
    how, _, name = broken.partition(":")
    if how == "stalls":
        bench.STALL = 10.0
    is_again = any("--without" in each for each in arguments)

    class Driver(fake_driver.FakeDriver):
        def cuModuleGetFunction(self, module: int, kernel: str) -> int:
            is_meant = bool(name) and name in kernel
            self.is_killed = is_meant and (how == "loses" or (how == "kills" and not is_again))
            if is_meant and how == "stalls" and not is_again:
                time.sleep(60)
            return super().cuModuleGetFunction(module, kernel)

        def cuLaunchKernelEx(self, *args: object) -> None:
            super().cuLaunchKernelEx(*args)
            if self.is_killed:
                self.dead[0] = 700

    fake = Driver(capability=(int(capability) // 10, int(capability) % 10), memory=1 << 23)
    with current.installed(lambda: fake):
        return bench.main(arguments, [sys.executable, __file__, capability, broken])


if __name__ == "__main__":
    sys.exit(main())
