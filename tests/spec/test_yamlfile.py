"""YAML files: scalars, lines, and everything that a file can be besides a spec."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.errors import Located, Source, SpecError
from fusiest.spec.language import fields
from fusiest.spec.reading import textfile, yamlfile
from fusiest.spec.reading.textfile import text_of_file
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode, load_nodes, parse_nodes


def data(node: YamlNode) -> object:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [data(item) for item in node.items]
    return {key.value: data(item) for key, item in node.items}


def load(text: str) -> MapNode:
    return load_nodes("spec.yaml", text, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-3", -3), ("+4", 4), ("010", 10), ("0x1F", 31), ("0o17", 15), ("1_000", "1_000"),
        ("1e15", 1e15), ("7.03e-12", 7.03e-12), (".5", 0.5), ("5.", 5.0), ("1E+3", 1000.0),
        ("inf", math.inf), (".inf", math.inf), ("-inf", -math.inf), ("-.INF", -math.inf), ("infinity", "infinity"),
        ("true", True), ("False", False), ("on", "on"), ("no", "no"), ("y", "y"),
        ("~", None), ("null", None), ("", None), ("~Intermediates", "~Intermediates"), ("none", "none"),
        ("8 * 614e9", "8 * 614e9"), ("1.2.3", "1.2.3"), ("2020-01-01", "2020-01-01"), ("1:30", "1:30"), ("=", "="),
        ("'1'", "1"), ('"true"', "true"), ("!!str 1", "1"), ("! 1", "1"), ("!!int 3", 3), ("!!null ''", ""),
        ("|\n  a\n  b", "a\nb\n"), ("n0", "n0"), ("-", None), ("weight - Intermediates", "weight - Intermediates"),
    ],
)  # fmt: skip
def test_scalar(text: str, value: object) -> None:
    if text == "-":
        assert data(load("a:\n- \n")) == {"a": [None]}
        return
    found = load(f"a: {text}\n").items[0][1]
    assert isinstance(found, ScalarNode)
    assert found.value == value
    assert type(found.value) is type(value) or isinstance(found.value, Located)
    assert found.quoted == (text[:1] in ("'", '"') or text.endswith("''"))


def test_tags_and_lines() -> None:
    root = load("a: !Memory {name: x}\nb:\n- !Fork\n- !Toll [1]\nc: !!python/object:os.system y\n")
    (_, a), (_, b), (_, c) = root.items
    assert isinstance(b, ListNode)
    assert [a.tag, b.tag, *(item.tag for item in b.items), c.tag] == [
        "!Memory", None, "!Fork", "!Toll", "!!python/object:os.system",
    ]  # fmt: skip
    assert [item.source.line for item in b.items] == [3, 4]
    assert isinstance(c, ScalarNode)
    assert isinstance(c.value, Located)
    assert str(c.value.source) == "spec.yaml:5"


def test_lines_of_a_template_are_those_of_the_file() -> None:
    text = "{% set N = 2 %}\na:\n{% for i in range(N) %}\n- {k: {{i}},\n   l: x}\n{% endfor %}\nb: 1\n"
    (_, a), (_, b) = load(text).items
    assert isinstance(a, ListNode)
    lines = [[node.source.line for _, node in item.items] for item in a.items if isinstance(item, MapNode)]
    assert lines == [[4, 5], [4, 5]]
    assert b.source.line == 7


def test_anchors_and_merges() -> None:
    text = "x: &x {p: 1, q: 2}\ny: {<<: *x, q: 3}\nz: {<<: [{p: 0}, *x]}\nl: [*x, &n 5, *n]\n'<<': 1\n"
    assert data(load(text)) == {
        "x": {"p": 1, "q": 2}, "y": {"p": 1, "q": 3}, "z": {"p": 0, "q": 2}, "l": [{"p": 1, "q": 2}, 5, 5], "<<": 1,
    }  # fmt: skip


BILLION = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
CHAIN = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 1000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the file is empty"),
        ("# nothing\n", "1: the file is empty"),
        ("---\n", "1: the file is empty"),
        ("a: 1\n---\nb: 2", "2: a second document"),
        ("- 1", "1: the file must be a table"),
        ("text", "1: the file must be a table"),
        ("a: 1\nb: 2\n'a': 3", "3: key 'a' appears twice: in line 1 and in line 3"),
        ("a: &x [*x]", "1: '*x' stands inside what it refers to"),
        ("a: 1\nb: *y", "2: no anchor '&y' above"),
        ("a:\n\tb: 1", "2: not valid YAML: found character that cannot start any token; a tab cannot indent"),
        ("a: b: c", "1: not valid YAML: mapping values are not allowed in this context; a ': '"),
        ("a: @b", "put the value in quotes"),
        ("a: [1,2", "check the indentation and the brackets"),
        ("a: 'x", "is a quote not closed?"),
        ("? [1]\n: 2", "1: a key must be plain text"),
        ("!t a: 1", "1: a key cannot have a tag"),
        ("<<: 3", "1: '<<' merges"),
        ("a: nan", "1: 'nan' is not a number"),
        ("a: -.NaN", "is not a number"),
        ("a: 1e999", "too large"),
        ("a: " + "9" * 5000, "a number of 5000 digits"),
        ("a\x01: 1", "control character '\\x01'"),
        ("a: \ud800", "control character"),
        ("a: 1\n{{ b }}: 2", "2: b is not defined; give it with -D b=VALUE"),
        ("%YAML 3.0\n---\na: 1", "not valid YAML"),
        ("a: " + "[" * 300 + "]" * 300, "nested more than 200 deep"),
        ("{a: " * 300, "nested more than 200 deep"),
        ("[" * 1_000_000, "nested more than 200 deep"),
        (BILLION, "values, repetitions by aliases included"),
        (CHAIN, "nested more than 200 deep"),
        ("- a\n" * 300_000, "values, repetitions by aliases included"),
        ("a: [&a " + "x" * 1_000_000 + ", *a" * 20 + "]", "values, repetitions by aliases included"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("spec.yaml:")
    assert "\n" not in str(caught.value)


def test_an_alias_of_a_text_is_not_a_copy() -> None:
    ((_, items),) = load("a: [&a text, *a]").items
    assert isinstance(items, ListNode)
    first, second = (fields.read_text(item, "a") for item in items.items)
    assert first is second


def test_unusual_line_breaks_do_not_shift_lines() -> None:
    root = load("a: x\u2028 y\u0085\r\nb: 1\rc: 2\n")
    assert [key.source.line for key, _ in root.items] == [1, 2, 3]


def test_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert data(load("a: [1, 'b', {c: ~}]")) == {"a": [1, "b", {"c": None}]}
    with pytest.raises(SpecError, match="nested more than 200"):
        load("[" * 1000)


def test_read_text(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_bytes("\ufeffa: é\r\nb: 1\r\n".encode())
    assert text_of_file(good) == "a: é\nb: 1\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.yaml", "missing.yaml: no such file"),
        (".", "this is a directory"),
        ("pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("a\0b", "is not the name of a file"),
        ("latin.yaml", "latin.yaml:2: the file is not UTF-8 text"),
        ("large.yaml", "larger than 16 MB"),
    ],
)
def test_unreadable(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(SpecError) as caught:
        text_of_file(str(tmp_path / name))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_binary_junk(tmp_path: Path) -> None:
    junk = tmp_path / "junk.yaml"
    junk.write_bytes(bytes(range(128)) * 10)
    with pytest.raises(SpecError, match="control character"):
        load_nodes(str(junk), text_of_file(junk), {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_no_permission(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("a: 1")
    secret.chmod(0)
    with pytest.raises(SpecError, match="permission denied"):
        text_of_file(secret)


SCALARS = st.one_of(st.integers(-(10**9), 10**9), st.booleans(), st.none(), st.text("ab~{%#:-, '\"\n", max_size=8))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("xyz", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("xyz", min_size=1), TREES, min_size=1, max_size=4), st.booleans())
def test_what_pyyaml_writes_is_read_back(tree: dict[str, object], flow: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, width=10_000)
    assert data(parse_nodes(text, [Source("f", i) for i in range(1, text.count("\n") + 2)])) == tree


PIECES = st.sampled_from(
    ["a", ":", " ", "\n", "- ", "{", "}", "[", "]", ",", "&x ", "*x", "<<", "!t ", "|", ">", "'", '"', "#", "? ", "~",
     "1", "\t", "---", "...", "%", "{{", "}}", "{%", "%}", "{#", "#}", "for i in x"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_is_a_tree_or_an_error(text: str) -> None:
    lines, message = [], "spec.yaml:1: "
    try:
        lines = [node.source.line for _, node in load(text).items]
    except SpecError as error:
        message = str(error)
    assert message.startswith("spec.yaml:")
    assert "\n" not in message
    assert all(1 <= line <= text.count("\n") + text.count("\r") + 1 for line in lines)


def test_limits_are_what_the_messages_say() -> None:
    assert (textfile.MAX_BYTES, yamlfile.MAX_DEPTH) == (16_000_000, 200)


@pytest.mark.parametrize(
    "line",
    [
        "- C[m, n] = A[m, K: k] * B[K: k, n]",
        "- C[M: m] = A[m]  # a comment: with a colon",
        "- einsum: C[m] = exp(A[M: m])",
        "-   C[m] = A[M: m]   ",
    ],
)
def test_einsums_need_no_quotes_in_a_list(line: str) -> None:
    found = parse_nodes(f"a: 1\nb:\n{line}\n", [Source("f", i) for i in range(1, 9)])
    assert isinstance(found, MapNode)
    items = found.items[1][1]
    assert isinstance(items, ListNode)
    item = items.items[0]
    scalar = item.items[0][1] if isinstance(item, MapNode) else item
    assert isinstance(scalar, ScalarNode)
    assert str(scalar.value).strip() == line.partition("#")[0].replace("einsum: ", "").strip("- ")
    assert str(scalar.source) == "f:3"
