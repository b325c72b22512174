"""Templates: the same text as Jinja2, the lines of the file, and neither escapes nor bombs."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from pathlib import Path

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.spec.reading.template import plain, render, undeclared

DEFINES: dict[str, object] = {"N": 3, "NAME": "abc", "TABLE": {"keep": "All", "may": ["A", 1]}, "FLAG": True}


def jinja(text: str) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(text).render(**DEFINES)


@pytest.mark.parametrize(
    "text",
    [
        "{% set M = M | default(128) %}{{M}} {{ N | default(1) }} {{ '' | default('x', true) }} {{ x | d }}",
        "{{ x is defined }} {{ N is defined }} {{ x is undefined }} {{ x is not defined }}",
        "{% for i in range(N) %}\n  n{{i}}: {{i + 1}}\n{% else %}none{% endfor %}",
        "{% for i in range(0) %}x{% else %}none{% endfor %}",
        "{%- for i in [1,2] -%}\n a\n {%- endfor %}\nb",
        "{% raw %}{{x}}\n{% endraw %}\n{# c\n c #}z",
        "{% if N > 2 and FLAG %}a{% elif N %}b{% else %}c{% endif %}{% if N == 1 %}d{% elif N == 3 %}e{% endif %}",
        "{% if 'keep' not in TABLE %}a{% endif %}{% for k, v in TABLE.items() %}{{k}}: {{v}}\n{% endfor %}",
        "{{ TABLE.keep }} {{ TABLE['may'][0] }} {{ TABLE.get('x', 4) }} {{ TABLE.keys()|list }} {{ TABLE|length }}",
        "{% set x = 1 %}{% for i in range(3) %}{{x}}{% set x = i %}{{x}}{% endfor %}{{x}}",
        "{% set x = 1 %}{% if FLAG %}{% set x = 2 %}{% endif %}{{x}}",
        "{% set a, b = 1, [2, 3] %}{{a}}{{b[1]}}{{b[-1]}}{{ b + [4] }}{{ (1, 2) }}",
        "{% for x in [1,2,3] if x != 2 %}{{loop.index}}/{{loop.length}}{{loop.first}}{{loop.last}}{% endfor %}",
        "{% for x in 'ab' %}{{loop.index0}}{{loop.revindex}}{{loop.revindex0}}{% endfor %}",
        "{{ [3,1]|max }} {{ [3,1]|min }} {{ [3,1]|sum }} {{ [3,1]|last }} {{ [3]|first }} {{ 'ab'|length }}",
        "{{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 4 }} {{ 2 ** 3 ** 2 }} {{ -3|abs }} {{ -N + +1 }} {{ 'x' ~ 1 ~ 2.5 ~ none }}",
        "{{ '3'|int + 1 }} {{ '2.5'|float }} {{ 2.567|round(1) }} {{ 3|string ~ 'a' }} {{ ['a', 1]|join('-') }}",
        "{{ 'A' if FLAG else 'B' }} {{ not FLAG }} {{ N or 5 }} {{ 0 and 1 }} {{ 1 < N <= 3 }} {{ N in [1, 3] }}",
        "{{ N is odd }} {{ N is even }} {{ N is divisibleby 3 }} {{ NAME is string }} {{ TABLE is mapping }}",
        "{{ NAME|upper }} {{ 'b' in NAME }} {{ dict(a=1).a }} {{ {'a': {'b': 2}}.a.b }} {{ NAME|replace('b', '') }} {{ [1]*3 }}",
        "a{# comment #}b\r\n{{ N }}\rc",
        "{{ true }} {{ none is none }} {{ 1e3 }} {{ 1_000 }} {{ 0x1F }} {{ 'a' 'b' }} {{ 'é' * 2 }}",
    ],
)
def test_renders_as_jinja_does(text: str) -> None:
    rendered = render(text, "f", DEFINES)
    assert rendered.text == jinja(text)
    assert len(rendered.sources) == rendered.text.count("\n") + 1


PIECES = st.sampled_from(
    ["{% for i in range(2) %}", "{%- for i in [1, 2] -%}", "{% endfor %}", "{%- endfor -%}", "{% if FLAG %}", "{% else %}",
     "{% endif %}", "{%- endif %}", "{% set x = N %}", "{% set x = [N, N] %}", "{{ x }}", "{{ N }}", "{{ i }}",
     "{{- N -}}", "\n", " ", "text", "{# c #}", "{#- c\n -#}", "{% raw %}", "{% endraw %}", "{{ x | default(N) }}",
     "{{ x == N }}", "{{ N in [1, N] }}", "{{ x ~ N }}", "{{ loop.index }}", "{% elif N > 1 %}"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_random_templates_render_as_jinja_does(text: str) -> None:
    try:
        ours: str | None = render(text, "f", DEFINES).text
    except SpecError:
        ours = None
    try:
        theirs: str | None = jinja(text)
    except (jinja2.TemplateError, RecursionError):
        theirs = None
    assert ours == theirs


BLOCKS = st.recursive(
    st.sampled_from(
        [["@"], ["", "@"], ["{% set a = 1 %}@"], ["{# c", "c #}"], ["{% raw %}@", "@{% endraw %}"], ["@ {{ N }}"]]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda blocks: [line for block in blocks for line in block]),
        inner.map(lambda body: ["{% for i in range(2) %}", *body, "{% endfor %}"]),
        inner.map(lambda body: ["{%- for i in range(2) -%}", *body, "{%- endfor +%}"]),
        inner.map(lambda body: ["  {%- if FLAG %}", *body, "{% endif -%}  "]),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(BLOCKS)
def test_every_line_knows_where_it_was_written(block: list[str]) -> None:
    text = "\n".join(line.replace("@", f"L{number};") for number, line in enumerate(block, 1))
    rendered = render(text, "f", DEFINES)
    for line, source in zip(rendered.text.split("\n"), rendered.sources, strict=True):
        if line.strip().startswith("L"):
            assert source.line == int(line.strip()[1:].split(";")[0])


def test_plain_text_is_returned_as_it_is() -> None:
    rendered = render("a: {b: 1}\n", "f", {})
    assert rendered.text == "a: {b: 1}\n"
    assert [str(source) for source in rendered.sources] == ["f:1", "f:2"]


def test_undeclared() -> None:
    text = """{% set M = M | default(1) %}{% for i in range(N) if i < L %}{{ loop.index + i + M }}{% endfor %}{{ i }}
    {{ Z | default(0) }}{% if P is defined %}{% set q = 1 %}{{ q }}{% endif %}{% assert A < B, C %}"""
    assert undeclared(text) == set("MNLiZPABCq")
    assert undeclared("a: 1") == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{ N_EINSUMS }}", "f:2: N_EINSUMS is not defined; give it with -D N_EINSUMS=VALUE"),
        ("\n\n{% for i in range(K) %}{% endfor %}", "f:3: K is not defined"),
        ("{{\n\n K + 1 }}", "f:3: K is not defined"),
        ("{% if K %}{% endif %}", "K is not defined"),
        ("{{ K == 1 }}", "K is not defined"),
        ("{{ K|upper }}", "K is not defined"),
        ("{{ K.a | default(1) }}", "K is not defined"),
        ("a\nb\n{{ 1 + }}", "f:3: the template is not valid Jinja: unexpected"),
        ("{% if %}", "f:1: the template is not valid Jinja"),
        ("{{", "f:1: the template is not valid Jinja"),
        ("{% for x in y %}", "the template is not valid Jinja"),
        ("{% do 1 %}", "unknown tag 'do'"),
        ("{% include 'x' %}", "'include' is not supported"),
        ("{% import 'x' as y %}", "'import' is not supported"),
        ("{% from 'x' import y %}", "'import' is not supported"),
        ("{% extends 'x' %}", "'extends' is not supported"),
        ("{% block a %}{% endblock %}", "'block' is not supported"),
        ("{% call x() %}{% endcall %}", "'call' is not supported"),
        ("{% autoescape true %}{% endautoescape %}", "f:1: 'autoescape' is not supported"),
        ("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "'recursive' is not supported"),
        ("{% macro m() %}{% endmacro %}", "'macro' is not supported"),
        ("{% set x %}{% endset %}", "'set block' is not supported"),
        ("{% with %}{% endwith %}", "'with' is not supported"),
        ("{% filter upper %}{% endfilter %}", "'filterblock' is not supported"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", "'+' cannot be applied to text and 1"),
        ("{{ 'a' < 1 }}", "text and 1 have no order"),
        ("{{ [1] == [1] }}", "a list and a list cannot be compared"),
        ("{{ 1 in 'a' }}", "1 cannot be looked for in text"),
        ("{{ [1]|uper }}", "there is no filter 'uper'; did you mean 'upper'?"),
        ("{{ 1 is od }}", "there is no test 'od'; did you mean 'odd'?"),
        ("{{ rnge(1) }}", "there is no function 'rnge'; did you mean 'range'?"),
        ("{{ 1|join(1, 2, 3) }}", "cannot take these arguments"),
        ("{{ dict(**{}) }}", "not supported"),
        ("{% set x.y = 1 %}", "'nsref' is not supported"),
        ("{% for a, b in [1] %}{% endfor %}", "f:1: "),
        ("{{ {[1]: 2} }}", "f:1: "),
        ("{{ [1][5] }}", "a list has no '5'"),
        ("{{ [1][0:1] }}", "'slice' is not supported"),
        ("{{ range(3) }}", "a range cannot be printed"),
        ("{{ [[1]] }}", "a list cannot be printed"),
        ("{{ 1 if false }}", "no else section"),
        ("{{ '\\x00' }}", "holds '\\x00'"),
        ("{{" + "9" * 5000 + "}}", "digits"),
        ("a\n{% assert 1 > 2, 'N is ' ~ 3 %}", "f:2: N is 3"),
        ("{% assert false %}", "an assertion fails"),
        ("{{ fail('no') }}", "f:1: no"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        render(text, "f", {})
    assert message in str(caught.value)
    assert str(caught.value).startswith("f:")
    assert "\n" not in str(caught.value)


def test_a_define_must_be_data() -> None:
    with pytest.raises(SpecError, match="more than 4,096 bits"):
        render("{{ N }}", "f", {"N": 1 << 5000})
    with pytest.raises(SpecError, match="the define X must be a number"):
        render("{{ X }}", "f", {"X": object()})
    assert plain((1, {"a": 2.5}), "X") == [1, {"a": 2.5}]


@pytest.mark.parametrize(
    "expression",
    [
        "cycler.__init__.__globals__", "().__class__.__base__.__subclasses__()", "''.format", "''.format(1)",
        "'{0.__class__}'.format(1)", "'%s'.__mod__", "1|attr('__class__')", "self.__dict__", "self", "lipsum.__globals__",
        "joiner.__init__", "loop", "loop.__class__", "range.__self__", "dict.__base__", "dict.mro()", "namespace.__init__",
        "namespace().__class__", "namespace()['__class__']", "NAME.__class__", "NAME['__class__']", "{}['__class__']",
        "[].append(1)", "[].__class__", "{}.pop('a')", "{}.setdefault('a', 1)", "NAME.encode()", "NAME.join([1])",
        "m", "m.__globals__", "m.name", "m._func", "m.__call__()", "caller()", "varargs", "request", "config", "eval('1')",
        "open('/etc/passwd')", "(1).real", "(1).__add__(1)", "none.__class__", "true.__class__.mro()", "range(3).start",
        "TABLE.items.__self__", "TABLE.items().__iter__", "TABLE.copy()", "[1]|map('upper')", "[1]|map(attribute='real')",
        "[1]|xmlattr", "NAME|format('%s')|attr('x')", "''|string.__class__", "get_flashed_messages.__globals__",
        "[[].__class__]", "dict(a=1)|tojson", "NAME.upper.__self__", "loop.items", "loop._length", "loop.depth0",
    ],
)  # fmt: skip
def test_nothing_escapes(expression: str) -> None:
    text = f"{{% for i in [1] %}}{{{{ {expression} }}}}{{% endfor %}}"
    with pytest.raises(SpecError) as caught:
        render(text, "f", {"NAME": "abc", "TABLE": {"a": 1}})
    assert "\n" not in str(caught.value)


FOR = "{% for i in range(100000) %}"
END = "{% endfor %}"
NS = "{% set n = namespace(x='a', l=[1], m=[2]) %}"
NEST = "{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, n.m] %}{% endfor %}"
MACRO = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% else %}WORD{% endif %}{% endmacro %}{{ m(30) }}"
BOMBS = {
    "range": "{% for i in range(10**9) %}" + END,
    "range of huge numbers": "{{ range(10**30)|list }}",
    "loops": FOR + FOR + END + END,
    "loops with output": FOR + FOR + "x" + END + END,
    "loops with a condition": FOR + "{% for j in range(100000) if false %}{% endfor %}" + END,
    "loops with a large body": FOR + "{% if i == -1 %}{% endif %}" * 1000 + END,
    "large text in a loop": FOR + "x" * 100_000 + END,
    "lines in a loop": FOR + "\n" * 1000 + END,
    "captured": "{% set a %}" + FOR + "x" * 100_000 + END + "{% endset %}",
    "filtered": "{% filter upper %}" + FOR + "x" * 100_000 + END + "{% endfilter %}",
    "power": "{{ 9**(9**9) }}",
    "product": "{% set n = namespace(x=2**1000) %}" + FOR + "{% set n.x = n.x * n.x %}" + END,
    "hexadecimal number": "{% set a = 0x" + "f" * 100_000 + " %}" + FOR + "{% if a // 3 == a %}{% endif %}" + END,
    "long hexadecimal number": "{{ 0x" + "f" * 15_000_000 + " }}",
    "long number": "{{ 1" + "_1" * 7_000_000 + " }}",
    "backslashes": "{{ '" + "\\a" * 7_000_000 + "' }}",
    "sum": "{% set n = namespace(x=2**2000) %}{% set n.x = n.x * n.x * 2**30 %}"
    + FOR
    + "{% set n.x = n.x + n.x %}"
    + END,
    "number from text": "{{ ('9' * 4000)|int > 1 }}",
    "repeated text": "{{ 'a' * 10**10 }}",
    "repeated list": "{{ ([1] * 10**10)|length }}",
    "doubling by ~": NS + FOR + "{% set n.x = n.x ~ n.x %}" + END,
    "doubling by +": NS + FOR + "{% set n.x = n.x + n.x %}" + END,
    "doubling lists": NS + FOR + "{% set n.l = n.l + n.l %}" + END,
    "doubling by capture": "{% set x = 'a' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
    "printing nested lists": NS + NEST + "{{ n.l }}",
    "joining nested lists": NS + NEST + "{{ n.l|join }}",
    "comparing nested lists": NS + NEST + "{{ n.l == n.m }}",
    "searching nested lists": NS + NEST + "{{ n.l in n.m }}",
    "deep lists": NS + FOR + "{% set n.l = [n.l] %}" + END + "{{ n.l }}",
    "macro without end": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro tree": MACRO.replace("WORD", ""),
    "macro tree with output": MACRO.replace("WORD", "x" * 50),
    "format width": "{{ '%1000000000d' % 1 }}",
    "format star": "{{ '%*d' % (1000000000, 1) }}",
    "format precision": "{{ '%.1000000000f'|format(1) }}",
    "center": "{{ 'a'|center(10**10) }}",
    "indent": "{{ 'a'|indent(10**10) }}",
    "join": "{{ (['a' * 1000000] * 10000)|join('x') }}",
    "join of a range": "{{ range(1000000)|join('a' * 1000) }}",
    "replace": "{{ 'x'|replace('', 'a' * 1000000)|replace('', 'a' * 1000000) }}",
    "round": "{{ 1|round(10**9) }}",
    "text compared in a loop": "{% set s = 'a' * 3000000 %}{% set t = s ~ '' %}" + FOR + "{{ s == t }}" + END,
    "text searched in a loop": "{% set s = 'a' * 3000000 %}" + FOR + "{{ 'b' in s }}" + END,
    "text cut in a loop": "{% set s = 'a' * 3000000 %}" + FOR + "{{ s[1:]|length }}" + END,
    "text split in a loop": "{% set s = 'a,' * 100000 %}" + FOR + "{{ s.split(',')|length }}" + END,
    "list sorted in a loop": "{% set l = range(100000)|list %}" + FOR + "{{ l|sort|length }}" + END,
    "list searched in a loop": "{% set l = range(100000)|list %}" + FOR + "{{ 'x' in l }}" + END,
    "many tags": "{{x}}" * 1_000_000,
    "many lines": "{{1}}" + "\n" * 15_000_000,
    "many braces": "{% raw %}" + "{%" * 5_000_000,
    "deep parentheses": "{{ " + "(" * 20_000,
    "deep negation": "{{ " + "not " * 20_000 + "1 }}",
    "deep attributes": "{{ " + "x." * 20_000 + "x }}",
    "doubling by statements": "{% set x = 'ab' %}" + "{% set x = x ~ x %}" * 60,
    "doubling lists by statements": "{% set x = [1] %}" + "{% set x = x + x %}" * 60,
    "nesting by statements": "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x|join }}",
    "comparing nested tables": "{% set x = [1] %}{% set y = [1] %}"
    + "{% set x = {1: x, 2: x} %}{% set y = {1: y, 2: y} %}" * 50
    + "{{ x == y }}",
    "text joined in a loop": "{% set s = 'a' * 3000000 %}" + FOR + "{{ (s ~ s)|length }}" + END,
    "many tables": FOR + "{% set t = {1: 1, 2: 2, 3: 3} %}" * 20 + END,
    "deep loops": "{% for i in [1] %}" * 90 + "{% endfor %}" * 90,
    "calls in a loop": "{% set l = range(90000)|list %}" + FOR + "{{ max(l) }}" + END,
    "deep blocks": "{% if 1 %}" * 5_000,
    "long sum": "{{ 1" + "+1" * 40_000 + " }}",
}
CHILD = """
import sys
from fusiest.base.errors import SpecError
from fusiest.spec.reading.template import render, undeclared
text = sys.stdin.read()
try:
    render(text, "f", {})
except SpecError as error:
    print(error)
try:
    undeclared(text)
except SpecError:
    pass
"""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_in_an_error(name: str) -> None:
    """Each in a process of its own with 5 s of processor time and 1 GiB of memory."""
    source = str(Path(sys.modules["fusiest.base.errors"].__file__ or "").parents[1])
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=BOMBS[name], env={"PYTHONPATH": source}, capture_output=True, text=True, check=False,
        preexec_fn=_limit,
    )  # fmt: skip
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.startswith("f:")
    assert child.stdout.count("\n") == 1


def test_bombs_end_in_a_thread_too() -> None:
    errors: list[SpecError] = []

    def work() -> None:
        try:
            render(BOMBS["loops"], "f", {})
        except SpecError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(600)
    assert len(errors) == 1
