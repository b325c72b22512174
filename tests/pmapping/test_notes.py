"""Notes on what a search leaves out, and on what makes it long."""

from __future__ import annotations

from fusiest.pmapping.explain.notes import ordered_by_chance, search_notes, spatial_notes
from tests.load_text import load_text
from tests.pmapping.test_parallel import FILES, PE, PRODUCT, beside, chain


def test_chains_of_disjoint_memories_are_noted() -> None:
    assert ordered_by_chance(chain(("IRF", "WRF", "ORF"))) == [("IRF", "WRF", "ORF")]
    assert ordered_by_chance(beside()) == []
    (note,) = search_notes(chain(("IRF", "ORF")), imperfect=False)
    assert note.startswith("IRF and ORF hold different tensors but stand in a chain")


def test_memories_that_may_hold_the_same_are_a_chain() -> None:
    texts = [FILES["IRF"].replace("keep: A", "keep: A, may_keep: B"), FILES["WRF"]]
    spec = load_text(PE % "\n  ".join(f"- !Memory {text}" for text in texts), PRODUCT)
    assert ordered_by_chance(spec) == []


def test_nodes_without_a_compute_below_are_noted() -> None:
    low = "- !Memory {name: Low, size: 8, component_class: Dummy}"
    notes = search_notes(load_text(f"{(PE % '').rstrip()}\n  {low}\n", PRODUCT), imperfect=True)
    assert notes == ("no !Compute stands below Low, so no data goes there",)
    assert search_notes(load_text(PE % low, PRODUCT), imperfect=True) == ()


def test_sizes_that_hardly_anything_divides_are_noted() -> None:
    spec = load_text(PE % "- !Container {name: C}", PRODUCT.replace("M: 8", "M: 197"))
    assert any("m = 197" in note and "--imperfect" in note for note in search_notes(spec, imperfect=False))
    assert search_notes(spec, imperfect=True) == ()


def test_fanouts_of_very_many_choices_are_noted() -> None:
    """60 = 2·2·3·5 points of each of three variables on two dimensions of 30 = 2·3·5 instances.

    Full, the two 2s go to the variables in 6 ways, two of three of them take a 3, and two a 5: 6 · 3 · 3.
    """
    array = "- !Container {name: C, spatial: [{name: Y, fanout: 30}, {name: Z, fanout: 30}]}"
    sizes = PRODUCT.replace("{M: 8, N: 4, K: 4}", "{M: 60, N: 60, K: 60}")
    (note,) = spatial_notes(load_text(PE % array, sizes))
    assert note.startswith("E1 on C: 1,101 choices")
    assert note.endswith(" leaves 54")
    assert spatial_notes(load_text(PE % array.replace("fanout: 30", "fanout: 30, min_usage: 1"), sizes)) == ()
