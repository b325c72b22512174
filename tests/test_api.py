"""What a user meets in Python: names that Tab finds, and objects that show themselves."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fusiest
from fusiest.mapper import Options, told

SOURCE = str(Path(fusiest.__file__).parents[1])


@pytest.fixture(scope="module")
def spec() -> fusiest.Spec:
    return fusiest.load("simple", "matmuls", "fused_matmuls_to_simple", M=16, KN=16)


def test_tab_finds_what_there_is() -> None:
    names = dir(fusiest)
    assert {"map", "Result", "Mapping", "NoMapping", "pmappings", "Options", "load", "evaluate", "dump"} <= set(names)
    assert not {"Any", "TYPE_CHECKING", "annotations", "typing"} & {*names, *vars(fusiest)}
    assert all(hasattr(fusiest, name) for name in names)
    with pytest.raises(AttributeError, match="module 'fusiest' has no attribute 'mapp'"):
        fusiest.mapp  # noqa: B018


def test_importing_loads_nothing() -> None:
    code = "import sys, fusiest; print(sorted(m for m in sys.modules if m.startswith(('fusiest', 'numpy', 'yaml', 'jinja2'))))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['fusiest']\n"


def test_objects_are_one_line(spec: fusiest.Spec) -> None:
    result = fusiest.map(spec, "energy", jobs=1)
    for thing in (spec, result, result.mappings[0], fusiest.evaluate(spec)):
        assert len(repr(thing).splitlines()) == 1
        assert len(repr(thing)) < 120
    assert repr(result).startswith("<Result: 1 mapping, proven optimal, least energy ")
    assert repr(spec) == "<Spec: an architecture of 3 nodes, 2 Einsums, a mapping>"
    assert repr(fusiest.Spec()) == "<Spec: empty>"


def test_printing_draws(spec: fusiest.Spec) -> None:
    assert "├─ for n0 (tile 1)" in str(spec.mapping)
    assert str(spec).startswith("Architecture\n")
    assert "Mapping\n" in str(spec)


def test_evaluations_show_themselves_in_notebooks(spec: fusiest.Spec) -> None:
    shown = fusiest.evaluate(spec)._repr_html_()
    assert "<td>Matmul1</td>" in shown
    assert "<td>GlobalBuffer</td>" in shown


def test_the_version_is_said_once() -> None:
    """In the package; what is installed, and what the project's file says, follow from it."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "fusiest.__version__"}


def test_a_name_in_place_of_a_spec() -> None:
    with pytest.raises(TypeError, match=r"map\(\) takes a spec: fusiest.load\('tpu_v4i', …\)"):
        fusiest.map("tpu_v4i", "energy")
    with pytest.raises(TypeError, match="has no option 'objectve'; did you mean 'objective'"):
        fusiest.map(objectve="energy")


def test_map_takes_the_options_of_a_search() -> None:
    """Each with its default, and with what the command line says of it."""
    parameters, defaults = inspect.signature(fusiest.map).parameters, Options()
    for name, said in told().items():
        assert said.text.replace("--", "") in (fusiest.map.__doc__ or "")
        assert parameters[name].default == (None if name == "windows" else getattr(defaults, name))
    assert {f.name for f in dataclasses.fields(Options)} - parameters.keys() == set()
