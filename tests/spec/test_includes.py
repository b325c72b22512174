"""What files may include: templates of other files, their nodes, whole files; and nothing outside of the project."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError, SpecWarning
from fusiest.spec.reading.includes import project_folder
from fusiest.spec.reading.loading import load_texts

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf}
  - !Compute {name: MAC, component_class: Dummy}
"""
WORKLOAD = """
workload:
  rank_sizes: {M: {{ M }}, K: {{ K | default(4) }}}
  bits_per_value: 8
  einsums: ["B[m] = A[m, k]"]
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def bounds(spec: fusiest.Spec, einsum: str = "B") -> dict[str, int]:
    return dict(spec.info.einsums[einsum].bounds)


def test_text_is_included_with_the_values_of_the_template(tmp_path: Path) -> None:
    write(tmp_path, a="{% set M = 3 %}\n{{ include_text('inner/b.yaml') }}", inner__b=WORKLOAD)
    assert bounds(fusiest.load(tmp_path / "a.yaml", K=5)) == {"m": 3, "k": 5}


def test_what_is_missing_is_named_where_it_is_needed(tmp_path: Path) -> None:
    """M is set from N, which nobody gives: that is what is missing, in the included file as well."""
    write(tmp_path, a="{% set M = N %}\n{{ include_text('b.yaml') }}", b=WORKLOAD)
    with pytest.raises(SpecError, match=r"b.yaml:3: N is not defined; give it with -D N=VALUE"):
        fusiest.load(tmp_path / "a.yaml")
    assert bounds(fusiest.load(tmp_path / "a.yaml", N=2))["m"] == 2


def test_nodes_are_included_by_path(tmp_path: Path) -> None:
    top = """
{{ add_to_path('../parts') }}
{% set PART = include('b.yaml', '') %}
workload:
  rank_sizes:
    <<<: [{{ PART }}.workload.rank_sizes, {M: 7, N: 2}]
    K: 9
  bits_per_value: {{ include('b.yaml', 'workload.bits_per_value') }}
  einsums:
  - {{ PART }}.workload.einsums
  - C[m, n] = B[m] * V[m, n]
"""
    write(tmp_path, top__a=top, parts__b=WORKLOAD)
    spec = fusiest.load(tmp_path / "top" / "a.yaml", M=3)
    assert bounds(spec) == {"m": 3, "k": 9}
    assert bounds(spec, "C") == {"m": 3, "n": 2}


def test_deep_merges_concatenate_lists(tmp_path: Path) -> None:
    text = """
definitions:
  one: &one {variables: {a: 1, list: [1, 2]}}
  two: &two {variables: {a: 2, b: 3, list: [4]}}
<<<: [*one, *two]
variables: {list: [0]}
"""
    spec = fusiest.load(*(write(tmp_path, a=text + ARCH) / name for name in ["a.yaml"]))
    assert spec.variables == {"a": 1, "b": 3, "list": (0, 1, 2, 4)}


def test_an_error_is_where_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="# 1\n{{ include_text('in/b.yaml') }}\n", in__b="\n\nworkload:\n  rank_size: {M: 3}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"^in/b\.yaml:4: unknown field 'rank_size'"):
        fusiest.load("a.yaml")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("include_text('/etc/passwd')", "not the relative path"),
        ("include_text('none.yaml')", "there is no 'none.yaml' to include"),
        ("include_text('notes.txt')", "only those can be included"),
        ("include_text('../' * 9 ~ 'etc/hosts.yaml')", "there is no"),
        ("include_text('a.yaml')", "more than 10 deep"),
        ("include_text('link.yaml')", "there is no 'link.yaml'"),
        ("include_text(3)", "not the relative path|not a YAML file"),
        ("add_to_path('../../../../..')", "there is no"),
        ("include('b.yaml', 'workload.nothing')", "what was included has no '.*nothing'"),
        ("include('empty.yaml')", r"empty\.yaml:1: the file is empty"),
        ("find_path('none.yaml')", "there is no 'none.yaml'"),
        ("include_text.__self__", "has no"),
    ],
)
def test_refused(call: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".git").mkdir()
    (tmp_path / "outside.yaml").write_text("variables: {x: 1}")
    folder = write(tmp_path / "project", a="v: {{ " + call + " }}", b=WORKLOAD, empty="")
    (folder / "notes.txt").write_text("x")
    os.symlink(tmp_path / "outside.yaml", folder / "link.yaml")
    with pytest.raises(SpecError, match=message) as caught:
        fusiest.load(folder / "a.yaml", M=3)
    assert "\n" not in str(caught.value)
    assert caught.value.source is not None


def test_text_that_is_no_file_includes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, b=WORKLOAD))
    with pytest.raises(SpecError, match="is no file, and can include none"):
        load_texts({"a.yaml": "{{ include_text('b.yaml') }}"}, {"M": 3})
    with pytest.raises(SpecError, match=r"must be a YAML file|there is no 'b\.yaml'"):
        load_texts({"a.yaml": "include: b.yaml"}, {"M": 3})


def test_paths_are_looked_for(tmp_path: Path) -> None:
    text = (
        "variables: {a: {{ path_exists('b.yaml') }}, b: {{ path_exists('c.yaml') }}, c: \"{{ find_path('b.yaml') }}\"}"
    )
    found = fusiest.load(write(tmp_path, a=text, b=WORKLOAD) / "a.yaml").variables
    assert (found["a"], found["b"]) == (True, False)
    assert str(found["c"]) == os.path.realpath(tmp_path / "b.yaml")


def test_the_project_ends_below_home_and_at_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "1" / "2" / "3" / "4" / "5"
    deep.mkdir(parents=True)
    real = Path(os.path.realpath(tmp_path))
    assert project_folder(str(deep / "a.yaml")) == str(real / "1" / "2")
    (deep.parent / ".git").mkdir()
    assert project_folder(str(deep / "a.yaml")) == str(real / "1" / "2" / "3" / "4")
    monkeypatch.setenv("HOME", str(deep.parents[2]))
    assert project_folder(str(deep.parents[1] / "a.yaml")) == str(real / "1" / "2" / "3")


def test_a_section_includes_files_and_the_library(tmp_path: Path) -> None:
    folder = write(
        tmp_path, a="include: [sub/arch.yaml, matvecs]\nvariables: {x: 1}", sub__arch="include: v.yaml\n" + ARCH
    )
    write(tmp_path / "sub", v="variables: {y: 2}")
    spec = fusiest.load(folder / "a.yaml")
    assert spec.arch is not None
    assert spec.workload is not None
    assert spec.variables == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("../outside.yaml", "must be a YAML file in the folder"),
        ("/etc/passwd", "must be a YAML file in the folder"),
        ("a.txt", "must be a YAML file in the folder"),
        ("none.yaml", "there is no 'none.yaml' beside"),
        ("matvec", "did you mean 'matvecs'"),
        ("{x: 1}", "include must be a list"),
        ("[[a]]", "include must be text"),
    ],
)
def test_the_section_refuses(entry: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        fusiest.load(write(tmp_path, a=f"variables: {{x: 1}}\ninclude: {entry}") / "a.yaml")
    assert str(caught.value.source).endswith("a.yaml:2")


def test_a_file_counts_once(tmp_path: Path) -> None:
    """Included twice, by two files, or named besides."""
    folder = write(tmp_path, a="include: [b.yaml, c.yaml]\n" + ARCH, b="include: c.yaml", c="variables: {x: 1}")
    for files in (["a"], ["a", "c"], ["c", "a"]):
        assert fusiest.load(*(folder / f"{name}.yaml" for name in files)).variables == {"x": 1}


def test_included_files_are_templates_with_the_same_defines(tmp_path: Path) -> None:
    folder = write(tmp_path, a="include: b.yaml\n" + ARCH, b=WORKLOAD)
    assert bounds(fusiest.load(folder / "a.yaml", M=3)) == {"m": 3, "k": 4}


@pytest.mark.parametrize("entry", ["a.yaml", "b.yaml"])
def test_a_file_that_includes_itself_is_refused(entry: str, tmp_path: Path) -> None:
    folder = write(tmp_path, a=f"include: {entry}\nvariables: {{x: 1}}", b="include: a.yaml\n" + ARCH)
    with pytest.raises(SpecError, match=r"a\.yaml includes (.*b\.yaml includes )?.*a\.yaml$") as caught:
        fusiest.load(folder / "a.yaml")
    assert caught.value.source is not None


def test_many_files_end(tmp_path: Path) -> None:
    files = {f"f{i}": f"include: [f{i + 1}.yaml]" for i in range(150)}
    with pytest.raises(SpecError, match="more than 100 files"):
        fusiest.load(write(tmp_path, a="include: f0.yaml\n" + ARCH, **files, f150="variables: {x: 1}") / "a.yaml")


def test_files_of_the_library_have_paths(tmp_path: Path) -> None:
    folder = write(tmp_path, a="include: [simple, workloads/matmuls.yaml]")
    assert fusiest.load(folder / "a.yaml", N_EINSUMS=1).info.einsums["Matmul0"].bounds["m"] == 128


def test_sections_that_are_options_here_are_named(tmp_path: Path) -> None:
    text = ARCH + "mapper:\n  metrics: ENERGY\n  tiling_coarseness: 2\nconfig: {}\n"
    with pytest.warns(SpecWarning) as caught:
        fusiest.load(write(tmp_path, a=text) / "a.yaml")
    lines = [str(pickle.loads(pickle.dumps(warning.message))) for warning in caught]  # as another process gets them
    assert [line.split("a.yaml:")[1] for line in lines] == [
        "7: mapper: metrics is not applied; say --objective",
        "8: mapper: tiling_coarseness is not applied",
    ]


def test_a_define_that_nothing_uses_is_a_warning(tmp_path: Path) -> None:
    folder = write(tmp_path, a="{{ include_text('b.yaml') }}", b=WORKLOAD)
    with pytest.warns(SpecWarning, match="-D KK: .*a.yaml use no such define; did you mean 'K'") as caught:
        fusiest.load(folder / "a.yaml", M=3, KK=4)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(90000) %}{{ include_text('b.yaml') }}{% endfor %}",
        "x: [{% for i in range(90000) %}{{ include('b.yaml') }},{% endfor %}]",
        "{% for i in range(90000) %}{{ path_exists('b.yaml') }}{% endfor %}",
    ],
)
def test_including_is_metered(text: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="more than 1,000,000 steps"):
        fusiest.load(write(tmp_path, a=text, b="variables: {x: [" + "1, " * 2000 + "]}") / "a.yaml")


def test_merging_is_metered(tmp_path: Path) -> None:
    text = "definitions:\n  a0: &a0 {l: [1, 2]}\n"
    text += "".join(
        f"  a{i + 1}: &a{i + 1} {{<<<: [*a{i}, {{l: [*a{i}]}}], k{i}: {{<<<: [*a{i}, *a{i}]}}}}\n" for i in range(40)
    )
    with pytest.raises(SpecError, match="more than 250,000 values"):
        fusiest.load(write(tmp_path, a=text + ARCH) / "a.yaml")


def test_what_an_including_template_sets_is_no_define(tmp_path: Path) -> None:
    part = "{% set DEPTH = DEPTH | default(3) %}\nvariables: {a: {{ WIDTH }}, b: {{ INNER }}, c: {{ DEPTH }}}\n"
    whole = "{% set WIDTH = WIDTH | default(8) %}{% set INNER = 2 * WIDTH %}{{ include_text('part.yaml') }}"
    folder = write(tmp_path, part=part, whole=whole)
    spec = fusiest.load(str(folder / "whole.yaml"), WIDTH=4)
    assert dict(spec.origin.values) == {"WIDTH": 4, "DEPTH": 3}
