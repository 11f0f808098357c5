"""Tests that the simulator catches missing synchronisation: instructions deleted, moved or made wrong, one at a time.

Each mutant is caught, by a check or by wrong values, or a rule or an entry of the table says why it does no harm. `make
mutants` tests them all, compares rules and table with the simulator, and prints the rates; the tests here are the deletions,
of which there are fewer.
"""

from __future__ import annotations

import pytest

from . import table
from .mutants import Mutant, mutants_of
from .programs import PROGRAMS, Program
from .rules import Code
from .table import Entry, Excuses, Outcome, by_text, entries, outcomes

QUICK = (
    "described product, sm_90a, 8 warps", "product after a transposition, sm_90a, 8 warps", "transposition, sm_80, 1 warps",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("program", [each for each in PROGRAMS if str(each) in QUICK], ids=str)
def test_what_is_deleted_is_missed(program: Program) -> None:
    found = list(outcomes(program, "first deletions"))
    assert found
    assert not [str(each) for each in found if each.problem]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_no_deletion_passes_for_the_program(program: Program) -> None:
    found = list(outcomes(program, "deletions"))
    assert found
    assert not [str(each) for each in found if each.problem]


def test_the_table_has_reasons() -> None:
    names = [str(program) for program in PROGRAMS]
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(names)
    for entry in entries():
        assert set(entry.programs) <= set(names)
        assert "*" not in f"{entry.instruction}{entry.mutants}"
        assert len(entry.reason.split()) >= 6


NAMED = {name for entry in entries() for name in entry.programs}


@pytest.mark.slow
@pytest.mark.parametrize("program", [each for each in PROGRAMS if str(each) in NAMED], ids=str)
def test_the_table_is_about_instructions_that_are_there(program: Program) -> None:
    """Each entry is for one instruction, between those that it names, and for mutants that no rule covers."""
    wanted = {(entry.instruction, what) for entry in entries() if str(program) in entry.programs for what in entry.mutants}
    found = set()
    for launches in by_text(program.launches()):
        excuses = Excuses(program, launches[0].text)
        for mutant in mutants_of(launches[0].text):
            if excuses.entry(mutant.index, mutant.what) and not excuses.rule(mutant.index, mutant.what):
                found.add((mutant.instruction, mutant.what))
    assert found == wanted


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


def test_the_mutants_of_a_text() -> None:
    """A barrier is deleted, moved before the store and after the load, renamed, and given fewer or more threads; a polling loop
    is mutated too."""
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


def test_what_is_wrong_with_an_outcome() -> None:
    """A mutant is a problem if missed without a reason, caught in spite of one, or not reached by a launch."""
    mutant, program = next(mutants_of(TEXT)), PROGRAMS[0]

    def problem(caught: str, rule: str, executed: bool) -> str:
        return Outcome(program, mutant, caught, rule, None, executed).problem

    assert not problem("race", "", True)
    assert not problem("", "a rule", True)
    assert problem("", "", True) == "missed"
    assert "caught (race), though" in problem("race", "a rule", True)
    assert "no launch executes" in problem("", "a rule", False)


def test_an_entry_is_for_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry covers that instruction between these two, in that program, with the changes that it names."""
    program, other = PROGRAMS[:2]
    entry = Entry((str(program),), "bar #1", ("st.shared.b32", "ld.shared.b32"), ("deleted",), "because")
    monkeypatch.setattr(table, "entries", lambda: (entry,))
    place = next(each.index for each in mutants_of(TEXT))
    assert Excuses(program, TEXT).entry(place, "deleted") is entry
    assert Excuses(other, TEXT).entry(place, "deleted") is None
    assert Excuses(program, TEXT).entry(place, "swapped with the next") is None
    assert Excuses(program, TEXT.replace("ld.shared.b32", "ld.shared.b64")).entry(place, "deleted") is None


# -- rules


def rules_of(body: str) -> dict[str, str]:
    """Returns the rule for each mutant of a text, where one holds."""
    text = ".reqntid 64\n" + "\n".join(line.strip() for line in body.strip().split("\n"))
    excuses = Excuses(PROGRAMS[0], text)
    found: list[tuple[Mutant, str]] = [(each, excuses.rule(each.index, each.what)) for each in mutants_of(text)]
    return {mutant.name: rule for mutant, rule in found if rule}


def test_the_code_of_a_text() -> None:
    """Units before and after are found around a loop."""
    text = "a;\n$L0:\nb;\n@%p bra $L1;\nc;\nbra $L0;\n$L1:\nret;\nd;"
    code = Code.of(text)
    names = [unit.text for unit in code.units]
    assert {names[at] for at in code.before(names.index("b;"))} == {"a;", "$L0:", "b;", "@%p bra $L1;", "c;", "bra $L0;"}
    assert {unit.text for unit in code.after(names.index("c;"), lambda unit: unit.text == "b;")} == {"bra $L0;", "$L0:", "b;"}
    assert not code.before(names.index("d;"))


FIRST = """
    ld.global.b32 %r1, [%rd1];
    bar.sync 0;
    st.shared.b32 [%r2], %r1;
    bar.sync 0;
    ld.shared.b32 %r3, [%r4];
    st.global.b32 [%rd1], %r3;
    ret;
"""


def test_the_first_use_of_shared_memory() -> None:
    name, moved = "the first use of shared memory", "a move of what could be deleted"
    found = rules_of(FIRST)
    assert found["bar #1 deleted"] == name
    assert found["bar #1 swapped with the one before"] == found["bar #1 swapped with the next"] == moved
    assert "bar #2 deleted" not in found
    for old, new in (
        ("ld.global", "ld.shared.b32 %r9, [%r2];\nld.global"),  # used before
        ("ld.global", "st.b32 [%rd7], %r2;\nld.global"),  # perhaps
        ("ret;", "@%p1 bra $L0;\nret;"),  # in a loop
        ("st.shared.b32 [%r2], %r1;\n    bar.sync 0;\n", ""),  # global memory is read before and written behind
    ):
        text = FIRST.replace(old, new, 1)
        assert text != FIRST
        text = text.replace("ld.global", "$L0:\nld.global", 1) if "$L0" in new else text
        assert "bar #1 deleted" not in rules_of(text), new


def test_one_of_two_equal_barriers() -> None:
    body = "st.shared.b32 [%r2], %r1;\nbar.sync 0;\nadd.s32 %r5, %r5, 1;\nBETWEEN\nbar.sync 0;\nld.shared.b32 %r3, [%r4];"
    assert {"bar #1 deleted", "bar #2 deleted"} <= set(rules_of(body.replace("BETWEEN", "")))
    for between in ("ld.shared.b32 %r6, [%r7];", "$L1:", "bar.sync 1, 64;"):
        assert not {"bar #1 deleted", "bar #2 deleted"} & set(rules_of(body.replace("BETWEEN", between)))


def test_a_fence_that_has_nothing_to_show() -> None:
    fence = "fence.proxy.async.shared::cta;\nbar.sync 0;"
    init = "mbarrier.init.shared.b64 [jn_shared], 1;\nfence.mbarrier_init.release.cluster;\n"
    found = rules_of(init + fence)
    assert found["fence.proxy.async #1 deleted"] == "nothing to show to the asynchronous proxy"
    assert found["fence.proxy.async #1 of another space"] == "a weaker one where none would do"
    for before in ("st.shared.b32 [%r1], %r2;\n", init.split("\n")[0] + "\n", "cp.async.ca.shared.global [%r1], [%rd1], 4;\n"):
        assert "fence.proxy.async #1 deleted" not in rules_of(before + fence)


def test_two_that_have_nothing_in_common() -> None:
    name = "two that have nothing in common"
    for first, second in (
        ("bar.sync 0;", "wgmma.fence.sync.aligned;"),
        ("cp.async.wait_group 0;", "wgmma.wait_group.sync.aligned 0;"),
        ("mbarrier.init.shared.b64 [jn_shared], 1;", "mbarrier.init.shared.b64 [jn_shared+8], 1;"),
        ("mbarrier.arrive.shared.b64 %rd1, [jn_shared];", "mbarrier.arrive.shared.b64 %rd2, [jn_shared+8];"),
    ):
        assert name in rules_of(f"{first}\n{second}").values()
    for first, second in (
        ("bar.sync 0;", "fence.proxy.async;"),
        ("cp.async.wait_group 0;", "bar.sync 0;"),
        ("wgmma.fence.sync.aligned;", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 0;"),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "mbarrier.arrive.shared.b64 %rd2, [%r2];"),
        ("mbarrier.init.shared.b64 [jn_shared], 1;", "mbarrier.arrive.shared.b64 %rd2, [jn_shared+8];"),
    ):
        assert name not in rules_of(f"{first}\n{second}").values()


def test_groups_of_copies() -> None:
    name, commit = "a copy that joins the earlier group", "cp.async.commit_group;"
    assert name in rules_of(f"{commit}\ncp.async.cg.shared.global [%r1], [%rd1], 16;").values()
    assert name not in rules_of(f"{commit}\ncp.async.wait_group 0;").values()
    assert name not in rules_of(f"cp.async.cg.shared.global [%r1], [%rd1], 16;\n{commit}").values()


def test_a_name_of_a_barrier() -> None:
    name = "the same barrier under another name"
    assert rules_of("bar.sync 0;")["bar #1 on another barrier"] == name
    assert "bar #1 on another barrier" not in rules_of("bar.sync 0;\nbar.arrive 7, 64;")
