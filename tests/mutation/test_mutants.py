"""Whether the simulator misses what a device would: synchronising instructions deleted, moved or made wrong, one at a time.

Each mutant is caught, by a check or by wrong values, or the table says why it does no harm. `make mutants` prints the rates.
"""

from __future__ import annotations

import pytest

from .mutants import mutants_of
from .programs import PROGRAMS, Program
from .table import entries, outcomes

QUICK = (
    "described product, sm_90a, 8 warps", "product after a transposition, sm_90a, 8 warps", "transposition, sm_80, 1 warps",
)  # fmt: skip


@pytest.mark.parametrize("program", [each for each in PROGRAMS if str(each) in QUICK], ids=str)
def test_what_is_deleted_is_missed(program: Program) -> None:
    found = list(outcomes(program, only_first_deletions=True))
    assert found
    assert not [str(each) for each in found if each.is_missed]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_no_mutant_passes_for_the_program(program: Program) -> None:
    found = list(outcomes(program))
    assert found
    assert not [str(each) for each in found if each.is_missed]


def test_the_table_has_reasons() -> None:
    names = [str(program) for program in PROGRAMS]
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(names)
    for entry in entries():
        assert len(entry.reason.split()) >= 6


TEXT = """.reqntid 64
\tst.shared.b32 [%r1], %r2;
\tadd.s32 %r3, %r1, 4;
\tbar.sync \t0;
\tld.shared.b32 %r4, [%r3];
$L__BB0_1:
\tbar.sync \t1, 64;
\t{
.reg .pred done;
again:
mbarrier.try_wait.parity.shared::cta.b64 done, [%r5], %r6;
@!done bra.uni again;
}
\tret;"""


def test_mutants() -> None:
    """Of a barrier: without it, in front of the store, behind the load, elsewhere, for fewer or more; of a loop that polls."""
    found = {each.name: each.text for each in mutants_of(TEXT)}
    assert list(found) == [
        "bar #1 deleted", "bar #1 swapped with the one before", "bar #1 swapped with the next", "bar #1 on another barrier",
        "bar #1 with fewer threads", "bar #2 deleted", "bar #2 swapped with the next", "bar #2 on another barrier",
        "bar #2 with more threads", "bar #2 with fewer threads", "mbarrier.try_wait.parity #1 deleted",
        "mbarrier.try_wait.parity #1 at another mbarrier", "mbarrier.try_wait.parity #1 with the other parity",
    ]  # fmt: skip
    assert "bar" not in found["bar #1 deleted"].split("$L")[0]
    before = found["bar #1 swapped with the one before"]
    assert before.index("bar.sync") < before.index("st.shared") < before.index("ld.shared")
    after = found["bar #1 swapped with the next"]
    assert after.index("st.shared") < after.index("ld.shared") < after.index("bar.sync \t0")
    assert "bar.sync \t1, 96;" in found["bar #2 with more threads"]
    assert "again" not in found["mbarrier.try_wait.parity #1 deleted"]
    assert "done, [%r5+8], %r6" in found["mbarrier.try_wait.parity #1 at another mbarrier"]
    assert "xor.b32 other, %r6, 1" in found["mbarrier.try_wait.parity #1 with the other parity"]
