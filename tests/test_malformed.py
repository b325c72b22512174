"""Every mistake ends in one line: where it is, what is wrong, what was meant. Never a traceback, never a guess.

A case replaces one piece of a good spec. The line that the error must name is marked `#!` in the replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import run

GOOD = """\
variables: {word: 8}
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: output, source: Outputs, expected_count: 1}
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    area: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions:
    - {name: read, energy: 2, throughput: 4}
    - {name: write, energy: 2, throughput: 4}
  - !Toll
    name: Link
    direction: up_and_down
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 1, throughput: inf}]
  - !Memory
    name: Buffer
    size: 100 * word
    leak_power: 0
    area: 0
    tensors: {keep: output}
    actions:
    - {name: read, energy: 1, throughput: inf}
    - {name: write, energy: 1, throughput: inf}
  - !Container
    name: Array
    spatial:
    - {name: X, fanout: 4}
    - {name: Y, fanout: 2}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{name: compute, energy: 1, throughput: 1}]
workload:
  rank_sizes: {M: 4, K: 4, N: 4, P: 4}
  bits_per_value: {All: word}
  einsums:
  - B[m, n] = A[m, k] * V[k, n]
  - name: C
    tensor_accesses:
    - {name: B, projection: [m, n]}
    - {name: W, projection: [n, p]}
    - {name: C, projection: [m, p], output: True}
mapping:
  nodes:
  - !Storage {tensors: [A, V, W, C], component: DRAM}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Storage {tensors: [B], component: Buffer}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Storage {tensors: [A, V], component: Buffer}
      - !Spatial {rank_variable: k, tile_shape: 2, component: Array, name: X}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: B, component: MAC}
    - !Nested
      nodes:
      - !Storage {tensors: [W, C], component: Buffer}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Compute {einsum: C, component: MAC}
"""


@dataclass(frozen=True)
class Case:
    """`old` becomes `new` in the good spec; the one line of the error has all the `words`."""

    name: str
    old: str
    new: str
    words: tuple[str, ...]
    status: int = 2


def case(name: str, old: str, new: str, *words: str, status: int = 2) -> Case:
    assert GOOD.count(old) >= 1, f"{name}: {old!r} is not in the good spec"
    return Case(name, old, new, words, status)


DRAM_READ = "    - {name: read, energy: 2, throughput: 4}\n"
DIMENSION = "    - {name: X, fanout: 4}\n"
SIZES = "  rank_sizes: {M: 4, K: 4, N: 4, P: 4}\n"
FIRST = "  - B[m, n] = A[m, k] * V[k, n]\n"
SECOND = "    - {name: W, projection: [n, p]}\n"
BITS = "  bits_per_value: {All: word}\n"
BUFFER_KEEP = "    tensors: {keep: output}\n"
HOLD_ALL = "  - !Storage {tensors: [A, V, W, C], component: DRAM}\n"
HOLD_B = "  - !Storage {tensors: [B], component: Buffer}\n"
HOLD_AV = "      - !Storage {tensors: [A, V], component: Buffer}\n"
LOOP_M = "  - !Temporal {rank_variable: m, tile_shape: 2}\n"
SPATIAL = "      - !Spatial {rank_variable: k, tile_shape: 2, component: Array, name: X}\n"
LOOP_P = "      - !Temporal {rank_variable: p, tile_shape: 1}\n"
COMPUTE_B = "      - !Compute {einsum: B, component: MAC}\n"
COMPUTE_C = "      - !Compute {einsum: C, component: MAC}\n"
DIRECTION = "    direction: up_and_down\n"
RENAME = "    - {name: output, source: Outputs, expected_count: 1}\n"
SIZE = "    size: 100 * word\n"
MAPPING_BODY = GOOD[GOOD.index("  - !Storage") :]
DRAM_AREA = "    area: 0\n    tensors: {keep: ~Intermediates, may_keep: All}\n"

SYNTAX = [
    case("misspelled section", "renames:\n", "rename: #!\n", "'rename'", "did you mean 'renames'?"),
    case("section without content", "variables: {word: 8}", "variables: #!", "variables", "nothing"),
    case("section of the wrong type", "variables: {word: 8}", "variables: [word, 8] #!", "variables", "a list"),
    case("duplicate key", SIZE, SIZE + "    size: 2 #!\n", "key 'size' appears twice"),
    case("duplicate section", "variables: {word: 8}\n", "variables: {word: 8}\nvariables: {} #!\n", "'variables'",
         "twice"),
    case("YAML: open bracket", SIZES, "  rank_sizes: {M: 4, K: 4\n  oops: ] #!\n", "not valid YAML"),
    case("YAML: tab", SIZE, "\tsize: 1 #!\n", "tab", "spaces"),
    case("YAML: colon in a value", SIZE, "    size: a: b #!\n", "not valid YAML"),
    case("YAML: alias without anchor", SIZE, "    size: *nobody #!\n", "nobody"),
    case("YAML: second document", "workload:\n", "---  #!\nworkload:\n", "---"),
    case("control character", SIZE, "    size: 1\x07 #!\n", "control character"),
    case("template: unclosed", SIZE, "    size: {{ 1 #!\n", "template"),
    case("template: unknown block", SIZE, "    size: 1 {% fro i %} #!\n", "template"),
    case("template: undefined name", SIZE, "    size: {{ BUFFER_BITS }} #!\n", "BUFFER_BITS"),
    case("template: code", SIZE, "    size: {{ ''.__class__ }} #!\n", "__class__"),
    case("template: include", SIZE, "    size: {% include '/etc/passwd' %} #!\n", "include"),
    case("template: include_text", SIZE, "    size: {{ include_text('/etc/passwd') }} #!\n", "not the relative path"),
    case("template: assert", SIZE, "    size: {% assert 1 == 2, 'ones' %} #!\n", "ones"),
    case("expression: syntax", SIZE, "    size: 100 * * word #!\n", "100 * * word", "expression"),
    case("expression: item of a number", SIZE, "    size: word[0] #!\n", "only a list has items"),
    case("expression: no such item", SIZE, "    size: \"[1, 2][2]\" #!\n", "no item 2"),
    case("expression: slice", SIZE, "    size: \"[1, 2][0:1]\" #!\n", "slice"),
    case("variables in a circle", "variables: {word: 8}", "variables: {word: 2 * bits, bits: word / 2} #!",
         "uses bits uses word"),
    case("list where a number is wanted", "variables: {word: 8}", "variables: {word: [8, 8]}", "must be a number",
         "a list"),
    case("expression: call", SIZE, "    size: __import__('os') #!\n", "__import__"),
    case("expression: attribute", SIZE, "    size: word.real #!\n", "real"),
    case("expression: lambda", SIZE, "    size: '(lambda: 1)()' #!\n", "only functions can be called"),
    case("expression: comparison of kinds", SIZE, "    size: All + 1 #!\n", "All + 1", "set"),
    case("expression: huge power", SIZE, "    size: 9 ** 9 ** 9 #!\n", "9 ** 9 ** 9"),
    case("Einsum: no equals sign", FIRST, "  - B[m, n] #!\n", "B[m, n]", "not an Einsum"),
    case("Einsum: two equals signs", FIRST, "  - B[m,n] = A[m,n] = V[m,n] #!\n", "not an Einsum"),
    case("Einsum: no brackets", FIRST, "  - B[m, n] = A * V[k, n] #!\n", "expected a tensor"),
    case("Einsum: bad operator", FIRST, "  - B[m, n] = A[m, k] % V[k, n] #!\n", "expected an operator", "'% V"),
    case("Einsum: operator without a tensor", FIRST, "  - B[m, n] = A[m, k] * V[k, n] + #!\n", "expected a tensor"),
    case("Einsum: bracket not closed", FIRST, "  - B[m, n] = exp(A[m, k] * V[k, n] #!\n", "expected ')'"),
    case("Einsum: no tensor on the right", FIRST, "  - B[m, n] = 2 * exp(3) #!\n", "reads at least one tensor"),
    case("Einsum: operation on the left", FIRST, "  - exp(B[m, n]) = A[m, k] * V[k, n] #!\n", "exactly one output"),
    case("Einsum: deep brackets", FIRST, f"  - B[m, n] = {'(' * 6000}A[m, k]{')' * 6000} * V[k, n] #!\n", "20 deep"),
    case("Einsum: many signs", FIRST, f"  - B[m, n] = {'-' * 9000}A[m, k] * V[k, n] #!\n", "expected a tensor"),
    case("Einsum: operation is no word", FIRST, "  - einsum: B[m, n] = A[m, k] * V[k, n]\n    operation: a b #!\n",
         "operation name 'a b' must be letters"),
    case("Einsum: copy that is none", FIRST, "  - einsum: B[m, n] = A[m, k] * V[k, n]\n    operation: copy #!\n",
         "is_copy_operation"),
    case("component named operation", "    name: Link\n", "    name: operation #!\n", "'operation' is a word"),
    case("Einsum: no quotes", FIRST, "  - {einsum: B[m, n] = A[m, K: k] * V[k, n]} #!\n", "not valid YAML"),
    case("Einsum: no quotes in a table", FIRST, "  - B[m, n] = exp('A[m, K: k] * V[k, n]) #!\n", "wants quotes"),
    case("Einsum: empty index", FIRST, "  - B[m, n] = A[m, ] * V[k, n] #!\n", "index is empty"),
    case("Einsum: nameless rank", FIRST, "  - B[m, n] = A[m, k+1] * V[k, n] #!\n", "'k+1'", "H: k+1"),
    case("Einsum: too long", FIRST, f"  - B[m, n] = {'A[m, k] * ' * 2500} V[k, n] #!\n", "20,000 characters"),
    case("Einsum: too many tensors", FIRST,
         f"  - B[m, n] = {' * '.join(f'A{i}[m]' for i in range(300))} * V[k, n] #!\n", "more than 256 tensors"),
    case("Einsum: tensor with a reserved name", FIRST, "  - B[m, n] = All[m, k] * V[k, n] #!\n", "tensor name 'All'"),
    case("Einsum: a letter that looks like another", FIRST, "  - B[m, n] = Aᵢ[m, k] * V[k, n] #!\n",
         "expected a tensor"),
    case("Einsum: a variable that looks like another", FIRST, "  - B[m, n] = A[m, kᵢ] * V[ki, n] #!\n", "kᵢ"),
    case("a name twice, before later Einsums are read", FIRST, FIRST + "  - B[m, n] = A[m] #!\n  - nonsense\n",
         "two Einsums are named B"),
    case("a very long name", FIRST, f"  - B[m, n] = {'A' * 201}[m, k] * V[k, n] #!\n", "longer than 200 characters"),
    case("expression: a letter that Python takes for another", SIZE, "    size: ｗord #!\n", "'ｗord' is not a name"),
    case("a name of two lines", "    name: Link\n", '    name: "my\\nlink" #!\n', "'my link' must be letters"),
    case("Einsum: two outputs", FIRST, "  - B[m, n] * D[m] = A[m, k] * V[k, n] #!\n", "exactly one output"),
    case("Einsum: product of variables", FIRST, "  - 'B[m, n] = A[m, K: k*n] * V[k, n]' #!\n", "affine"),
]  # fmt: skip

ARCHITECTURE = [
    case("misspelled field", BUFFER_KEEP, "    tensors: {kep: output} #!\n", "'kep'", "did you mean 'keep'?"),
    case("unknown field", SIZE, SIZE + "    colour: red #!\n", "'colour'", "Buffer"),
    case("misspelled tag", "  - !Toll\n", "  - !Tol #!\n", "!Tol", "did you mean '!Toll'?"),
    case("tag missing", "  - !Toll\n", "  -\n", "tag"),
    case("!Array", "  - !Container\n", "  - !Array #!\n", "!Array is not supported", "!Container"),
    case("!Network", "  - !Container\n", "  - !Network #!\n", "!Network is not supported", "!Toll"),
    case("tag on a field", "    spatial:\n", "    spatial: !Memory #!\n", "spatial takes no tag"),
    case("size negative", SIZE, "    size: -100 #!\n", "size must not be negative", "-100"),
    case("size negative by expression", SIZE, "    size: word - 100 #!\n", "size must not be negative", "-92"),
    case("size divides by zero", SIZE, "    size: 1 / (word - 8) #!\n", "division by zero"),
    case("size beyond all bounds", SIZE, "    size: 10**400 #!\n", "size is too large"),
    case("size is text", SIZE, "    size: big #!\n", "unknown name 'big'"),
    case("size is a list", SIZE, "    size: [1, 2] #!\n", "size must be a number", "a list"),
    case("size is true", SIZE, "    size: true #!\n", "size must be a number"),
    case("size is a set", SIZE, "    size: All #!\n", "size must be a number", "set of tensors"),
    case("size is nan", SIZE, "    size: .nan #!\n", "nan"),
    case("size missing", SIZE, "", "Buffer", "needs the field 'size'"),
    case("area infinite", DRAM_AREA, "    area: inf #!\n", "area must be finite"),
    case("throughput zero", DRAM_READ, "    - {name: read, energy: 2, throughput: 0} #!\n",
         "throughput must be positive"),
    case("throughput zero by expression", DRAM_READ, "    - {name: read, energy: 2, throughput: word - 8} #!\n",
         "throughput must be positive"),
    case("throughput_scale zero", DRAM_READ, "    - {name: read, energy: 2, throughput: 4, throughput_scale: 0} #!\n",
         "throughput_scale must be positive"),
    case("latency negative", DRAM_READ, "    - {name: read, energy: 2, latency: -1} #!\n", "latency must not be negative"),
    case("latency and throughput", DRAM_READ, "    - {name: read, energy: 2, latency: 1, throughput: 1} #!\n",
         "give either 'throughput' or 'latency'"),
    case("energy negative", DRAM_READ, "    - {name: read, energy: -2, throughput: 4} #!\n",
         "energy must not be negative"),
    case("energy infinite", DRAM_READ, "    - {name: read, energy: inf, throughput: 4} #!\n", "energy must be finite"),
    case("values_per_action negative in a table", DRAM_READ,
         "    - {name: read, energy: 2, throughput: 4,\n       values_per_action: {A: 1,\n         Other: -1}} #!\n",
         "values_per_action must be positive"),
    case("bits_per_action too small", DRAM_READ,
         "    - {name: read, energy: 2, throughput: 4, bits_per_action: 1e-323} #!\n", "bits_per_action is too small"),
    case("bits_per_action too small for a value", DRAM_READ,
         "    - {name: read, energy: 2, throughput: 4, bits_per_action: 1e-100} #!\n", "bits_per_action of DRAM read",
         "too small for A"),
    case("throughput too small", DRAM_READ, "    - {name: read, energy: 2, throughput: 1e-300} #!\n",
         "throughput is too small"),
    case("throughput too small with its scale", DRAM_READ,
         "    - {name: read, energy: 2, throughput: 1e-60, throughput_scale: 1e-60}\n", "throughput of DRAM read is too small"),
    case("energy too large with its scale", DRAM_READ,
         "    - {name: read, energy: 1e60, throughput: 4, energy_scale: 1e60}\n", "energy of DRAM read is too large"),
    case("many memories", "  - !Container\n", "".join(
        f"  - !Memory {{name: M{i}, size: 1, component_class: Dummy}}{' #!' * (i == 197)}\n" for i in range(2000)
    ) + "  - !Container\n", "may have 200 nodes"),
    case("unknown action", DRAM_READ, "    - {name: reed, energy: 2, throughput: 4} #!\n", "'reed'",
         "did you mean 'read'?"),
    case("action of another kind", DRAM_READ, "    - {name: compute, energy: 2, throughput: 4}\n", "DRAM needs",
         "read.energy"),
    case("action twice", DRAM_READ, DRAM_READ + DRAM_READ.rstrip() + " #!\n", "'read' twice", "DRAM"),
    case("actions not a list", "    actions: [{name: compute, energy: 1, throughput: 1}]\n",
         "    actions: {compute: 1} #!\n", "actions must be a list"),
    case("figure missing", DRAM_READ, "    - {name: read, energy: 2}\n", "DRAM needs", "read.throughput", "Dummy"),
    case("component_class without figures", "    leak_power: 0\n    area: 0\n    tensors: {keep: output}\n",
         "    component_class: SRAM #!\n    tensors: {keep: output}\n", "SRAM needs the attribute 'tech_node'"),
    case("duplicate component", "    name: Link\n", "    name: DRAM #!\n", "two nodes", "DRAM"),
    case("duplicate dimension", "    - {name: Y, fanout: 2}\n", "    - {name: X, fanout: 2} #!\n",
         "two fanout dimensions", "X"),
    case("component named as a tensor", "    name: Link\n", "    name: W #!\n",
         "W is the name of a component and of a tensor"),
    case("component named as a rename", "    name: Link\n", "    name: output #!\n", "a component and of a rename"),
    case("component with a reserved name", "    name: Link\n", "    name: All #!\n", "'All'"),
    case("component with a bad name", "    name: Link\n", "    name: my link #!\n", "'my link'"),
    case("tensor with a dash", SECOND, "    - {name: W-1, projection: [n, p]} #!\n", "'W-1' must be letters"),
    case("variable named as a tensor", "variables: {word: 8}", "variables: {word: 8, W: 1} #!",
         "W is the name of a variable"),
    case("variable named as a rank variable", "variables: {word: 8}", "variables: {word: 8, m: 1} #!",
         "m is the name of a variable and of a rank variable"),
    case("component named as a rank variable", "    name: Link\n", "    name: m #!\n", "a component and of a rank variable"),
    case("rename named as a rank variable", RENAME, RENAME + "    - {name: k, source: Inputs} #!\n",
         "a rename and of a rank variable"),
    case("tensor named as a rank variable", SECOND, SECOND + "    - {name: p, projection: [n]} #!\n",
         "a tensor and of a rank variable"),
    case("variable without a value", "variables: {word: 8}", "variables: {word: 8, other: word.real} #!",
         "a number has no attribute 'real'"),
    case("list for a number", SIZE, "    size: '[[1]][0]' #!\n", "size must be a number", "a list"),
    case("attribute of a component", SIZE, "    size: Array.fan #!\n", "component Array has no attribute 'fan'", "'fanout'"),
    case("fanout of itself", DIMENSION, "    - {name: X, fanout: Array.fanout} #!\n", "fanout"),
    case("variable of an unknown name", "variables: {word: 8}", "variables: {word: wrod} #!", "unknown name 'wrod'"),
    case("size too large", SIZE, f"    size: {10**400} #!\n", "size is too large"),
    case("fanout too large", DIMENSION, f"    - {{name: X, fanout: {10**400}}} #!\n", "fanout is too large"),
    case("fanout zero", DIMENSION, "    - {name: X, fanout: 0} #!\n", "fanout", "at least 1"),
    case("fanout fractional", DIMENSION, "    - {name: X, fanout: 2.5} #!\n", "whole number"),
    case("fanout infinite", DIMENSION, "    - {name: X, fanout: inf} #!\n", "whole number"),
    case("fanout fractional by expression", DIMENSION, "    - {name: X, fanout: word / 3} #!\n", "whole number"),
    case("fanout text", DIMENSION, "    - {name: X, fanout: many} #!\n", "unknown name 'many'"),
    case("min_usage above one", DIMENSION, "    - {name: X, fanout: 4, min_usage: 2} #!\n", "min_usage", "fraction"),
    case("min_usage above one by expression", DIMENSION, "    - {name: X, fanout: 4, min_usage: word} #!\n",
         "min_usage"),
    case("usage_scale zero", DIMENSION, "    - {name: X, fanout: 4, usage_scale: 0} #!\n",
         "usage_scale must be positive"),
    case("power_gateable not a boolean", DIMENSION, "    - {name: X, fanout: 4, power_gateable: yes} #!\n",
         "true or false"),
    case("may_reuse unknown", DIMENSION, "    - {name: X, fanout: 4, may_reuse: wieght} #!\n", "unknown name 'wieght'"),
    case("may_reuse of variables", DIMENSION, "    - {name: X, fanout: 4, may_reuse: m} #!\n", "may_reuse",
         "set of tensors"),
    case("may_reuse of a memory", DIMENSION, "    - {name: X, fanout: 4, may_reuse: Buffer | A} #!\n",
         "what Buffer holds is a choice", "'tensors'"),
    case("loop_bounds of a memory", DIMENSION,
         "    - {name: X, fanout: 4, loop_bounds: [{expression: DRAM.rank_variables, operator: <=, value: 2}]} #!\n",
         "what DRAM holds is a choice"),
    case("enabled by a memory", SIZE, SIZE + "    enabled: len(Above) > 0 #!\n", "what Above holds is a choice"),
    case("size by a memory in a loop", SIZE, "    size: sum(8 for t in All if t <= DRAM) #!\n",
         "what DRAM holds is a choice"),
    case("total_latency by a memory", SIZE, SIZE + "    total_latency: len(DRAM) #!\n", "what DRAM holds is a choice"),
    case("back of a Toll", "    direction: up_and_down\n", "    direction: up_and_down\n    tensors: {back: A} #!\n",
         "a Toll holds nothing, so that 'back' has no meaning"),
    case("tile_shape of a Toll", "    direction: up_and_down\n",
         "    direction: up_and_down\n    tensors: {tile_shape: [{expression: All, operator: <=, value: 2}]} #!\n", "a Toll holds nothing"),
    case("keep: what a Toll passes", BUFFER_KEEP, "    tensors: {keep: Link} #!\n", "'Link' is component Link"),
    case("reuse a number", DIMENSION, "    - {name: X, fanout: 4, reuse: 3} #!\n", "reuse must be text"),
    case("loop_bounds: bad operator", DIMENSION,
         "    - {name: X, fanout: 4, loop_bounds: [{expression: m, operator: =<, value: 2}]} #!\n", "'=<'", "<="),
    case("loop_bounds: unknown variable", DIMENSION,
         "    - {name: X, fanout: 4, loop_bounds: [{expression: ~zz, operator: <=, value: 2}]} #!\n",
         "unknown name 'zz'"),
    case("loop_bounds: a set of tensors", DIMENSION,
         "    - {name: X, fanout: 4, loop_bounds: [{expression: output, operator: <=, value: 2}]} #!\n",
         ".rank_variables"),
    case("loop_bounds: value missing", DIMENSION,
         "    - {name: X, fanout: 4, loop_bounds: [{expression: m, operator: <=}]} #!\n", "needs the field 'value'"),
    case("keep: unknown tensor", BUFFER_KEEP, "    tensors: {keep: ouptut} #!\n", "'ouptut'", "did you mean 'output'?"),
    case("keep: unknown memory", BUFFER_KEEP, "    tensors: {keep: ~DRAMM} #!\n", "'DRAMM'", "did you mean 'DRAM'?"),
    case("keep of variables", BUFFER_KEEP, "    tensors: {keep: output.rank_variables} #!\n", "keep of Buffer",
         "set of tensors"),
    case("keep a list", BUFFER_KEEP, "    tensors: {keep: [A]} #!\n", "keep must be text", "a list"),
    case("tensor_order_options overlap", BUFFER_KEEP,
         "    tensors: {tensor_order_options: [[output, All]]} #!\n", "tensor_order_options", "disjoint"),
    case("direction misspelled", DIRECTION, "    direction: dwon #!\n", "'dwon'", "up_and_down"),
    case("direction incomplete", DIRECTION, "    direction: {output: up} #!\n", "direction of Link", "Other"),
    case("direction not disjoint", DIRECTION, "    direction: {output: up, All: down} #!\n", "both hold"),
    case("direction missing", DIRECTION, "", "needs the field 'direction'"),
    case("enabled not a boolean", SIZE, SIZE + "    enabled: [true] #!\n", "enabled must be"),
    case("total_latency unknown name", SIZE, SIZE + "    total_latency: max(a.calls for a in actions) #!\n",
         "'calls'", "n_calls"),
    case("total_latency a set", SIZE, SIZE + "    total_latency: All #!\n", "total_latency of Buffer"),
    case("total_latency infinite", SIZE, SIZE + "    total_latency: inf + 0 #!\n", "total_latency of Buffer", "finite"),
    case("n_parallel_instances zero", SIZE, SIZE + "    n_parallel_instances: 0 #!\n",
         "n_parallel_instances must be positive"),
    case("bits_per_value not disjoint", SIZE, SIZE + "    bits_per_value: {All: 8, output: 4} #!\n", "both hold"),
    case("no compute", "  - !Compute\n    name: MAC\n    leak_power: 0\n    area: 0\n"
         "    actions: [{name: compute, energy: 1, throughput: 1}]\n", "", "no !Compute"),
    case("no memory outermost", "  - !Memory\n    name: DRAM\n",
         "  - !Compute\n    name: First #!\n    component_class: Dummy\n"
         "  - !Memory\n    name: DRAM\n", "above First, the outermost node must be a !Memory"),
    case("Hierarchical without nodes", "  - !Container\n",
         "  - !Hierarchical\n    nodules: [] #!\n    x: 1\n  - !Container\n",
         "'nodules'", "did you mean 'nodes'?"),
]  # fmt: skip

WORKLOAD = [
    case("misspelled field in the workload", SIZES, "  rank_size: {M: 4} #!\n", "'rank_size'",
         "did you mean 'rank_sizes'?"),
    case("misspelled field in an Einsum", "  - name: C\n", "  - nme: C #!\n", "'nme'", "did you mean 'name'?"),
    case("misspelled field in an access", SECOND, "    - {name: W, projektion: [n, p]} #!\n",
         "did you mean 'projection'?"),
    case("unknown variable", SIZES, SIZES + "  iteration_space_shape: {x: 0 <= x < 4} #!\n",
         "no Einsum has a rank variable x"),
    case("shape of another variable", SIZES, SIZES + "  iteration_space_shape: {m: 0 <= n < 4} #!\n",
         "says nothing of 'm'"),
    case("shape of variables of different Einsums", SIZES, SIZES + "  iteration_space_shape: ['k + p < 1'] #!\n",
         "'k + p < 1' bounds nothing", "no Einsum has all of k, p"),
    case("triangle", SIZES, SIZES + "  iteration_space_shape: [k <= m] #!\n", "'k <= m' cuts corners off", "Einsum B"),
    case("shape of nothing", SIZES, SIZES + "  iteration_space_shape: ['1 <= 0'] #!\n", "says nothing of any"),
    case("rename before it is defined", RENAME, "    - {name: output, source: late} #!\n" + RENAME.replace("output", "late"),
         "rename output uses late before it is defined; list late first"),
    case("rename of itself", RENAME, "    - {name: output, source: output | Outputs} #!\n",
         "rename output uses itself"),
    case("rename of an Einsum before it is defined", "  - name: C\n", "  - name: C\n    renames: {a: b, b: Outputs} #!\n",
         "rename a uses b before"),
    case("shape not a constraint", SIZES, SIZES + "  iteration_space_shape: {m: m + 4} #!\n", "not a constraint"),
    case("rank size negative", SIZES, "  rank_sizes: {M: -4, K: 4, N: 4, P: 4} #!\n", "at least 1", "-4"),
    case("rank size too large", SIZES, f"  rank_sizes: {{M: {10**400}}} #!\n", "too large"),
    case("too many points", SIZES, f"  rank_sizes: {{M: {10**9}, K: {10**9}, N: {10**9}, P: 4}}\n", "10^27 points",
         "2^62"),
    case("far too many points", FIRST, f"  - {{einsum: \"Q[{', '.join(f'q{i}' for i in range(99))}] = A[m, k]\", "
         f"iteration_space_shape: [{', '.join(f'0 <= q{i} < {2**60}' for i in range(99))}]}} #!\n" + FIRST, "10^1789 points"),
    case("shape too large", SIZES, f"  iteration_space_shape: {{m: 0 <= m < {10**400}}} #!\n", "too large"),
    case("constraints too intricate", SIZES,
         "  iteration_space_shape: [3*m + 5*n == 7*k + 1, 0 <= m + n - k < 3, 2*m == 2*k + 1 + 2*n,\n"
         "    0 <= m < 1000000007, 0 <= n < 1000000007, 0 <= k < 1000000007, 0 <= p < 4]\n", "too intricate"),
    case("Einsum named default", "  - name: C\n", "  - name: default #!\n", "default", "all Einsums"),
    case("rank size fractional", SIZES, "  rank_sizes: {M: 4.5, K: 4, N: 4, P: 4} #!\n", "whole number", "4.5"),
    case("rank sizes in a circle", SIZES, "  rank_sizes: {M: K, K: 2 * M, N: 4, P: 4} #!\n", "M uses K uses M"),
    case("rank size that is a list", SIZES, "  rank_sizes: {M: '[1, 2]', K: 4, N: 4, P: 4} #!\n", "size of rank M must be a number",
         "a list"),
    case("rank size fractional by expression", SIZES, "  rank_sizes: {M: N / 3, K: 4, N: 4, P: 4} #!\n", "whole number"),
    case("rank size of an Einsum", FIRST, "  - {einsum: 'B[m, n] = A[m, k] * V[k, n]', rank_sizes: {P: 4}} #!\n",
         "no tensor of Einsum B has a rank P"),
    case("tensor_accesses of no tensor", FIRST,
         "  - {einsum: 'B[m, n] = A[m, k] * V[k, n]', tensor_accesses: [{name: Q, persistent: true}]} #!\n", "has no tensor 'Q'"),
    case("bits of tensor_accesses beside the text", FIRST,
         "  - {einsum: 'B[m, n] = A[m, k] * V[k, n]', tensor_accesses: [{name: A, bits_per_value: -2}]} #!\n",
         "bits_per_value must be positive"),
    case("backing_storage_size_scale", SECOND, "    - {name: W, projection: [n, p], backing_storage_size_scale: 2} #!\n",
         "backing_storage_size_scale must be 1"),
    case("rank size text", SIZES, "  rank_sizes: {M: four, K: 4, N: 4, P: 4} #!\n", "four"),
    case("rank_sizes a list", SIZES, "  rank_sizes: [4, 4] #!\n", "rank_sizes must be a mapping"),
    case("unbounded variable", SIZES, "  rank_sizes: {M: 4, K: 4, N: 4}\n", "rank variable p of Einsum C has no bound"),
    case("empty iteration space", SIZES, SIZES + "  iteration_space_shape: {m: 5 <= m < 9}\n",
         "empty iteration space", "B"),
    case("no Einsums", GOOD[GOOD.index("  einsums:\n  - B"):GOOD.index("mapping:")], "  einsums: [] #!\n",
         "no Einsums"),
    case("Einsums not a list", GOOD[GOOD.index("  einsums:\n  - B"):GOOD.index("mapping:")],
         "  einsums: {B: A} #!\n", "einsums must be a list"),
    case("duplicate Einsum", "  - name: C\n", "  - name: B #!\n", "two Einsums are named B"),
    case("duplicate tensor", SECOND, "    - {name: B, projection: [n, p]} #!\n", "other ranks at its second place"),
    case("tensor read and written", SECOND, "    - {name: C, projection: [m, p]}\n", "reads and writes tensor C"),
    case("no output", "    - {name: C, projection: [m, p], output: True}\n",
         "    - {name: C, projection: [m, p]}\n", "0 outputs", "output: True"),
    case("output not a boolean", "output: True}\n", "output: yes} #!\n", "output must be true or false", "'yes'"),
    case("inconsistent ranks", "    - {name: B, projection: [m, n]}\n", "    - {name: B, projection: [n, p]} #!\n",
         "tensor B has ranks [M, N] in Einsum B but [N, P] in Einsum C"),
    case("rank twice", SECOND, "    - {name: W, projection: [n, n]} #!\n", "names a rank twice"),
    case("variable in two ranks", SECOND, "    - {name: W, projection: {N: n, P: n}} #!\n",
         "variable n is in two ranks of tensor W"),
    case("projection a string", SECOND, "    - {name: W, projection: np} #!\n", "projection must be a list"),
    case("output with a sum", "    - {name: C, projection: [m, p], output: True}\n",
         "    - {name: C, projection: {M: m, P: p + n}, output: True} #!\n",
         "output C has several variables in rank P"),
    case("read before write", FIRST, "  - D[m, n] = B[m, n] #!\n" + FIRST,
         "Einsum D reads B before Einsum B writes it", "list B first"),
    case("several producers", FIRST, FIRST + "  - {einsum: 'B[m, n] = U[m, n]', name: B2}\n",
         "tensor B is written by both B and B2"),
    case("cycle", FIRST, "  - 'B[m, n] = A[m, k] * V[k, n] * C[m, P: p]' #!\n", "cycle", "B -> C -> B"),
    case("copy of two inputs", FIRST, "  - {einsum: 'B[m, n] = A[m, k] * V[k, n]', is_copy_operation: True} #!\n",
         "copy Einsum B needs exactly one input"),
    case("tensor name reserved", SECOND, "    - {name: Nothing, projection: [n, p]} #!\n", "'Nothing'"),
    case("tensor name not a name", SECOND, "    - {name: 2W, projection: [n, p]} #!\n", "'2W'"),
    case("bits_per_value missing", BITS, "", "tensor A has no bits_per_value", "All: 8"),
    case("bits_per_value zero", BITS, "  bits_per_value: {All: 0} #!\n", "bits_per_value must be positive"),
    case("bits_per_value of an unknown tensor", BITS, "  bits_per_value: {Wx: 8, Other: 8} #!\n", "'Wx'",
         "did you mean 'W'?"),
    case("bits_per_value not disjoint", BITS, "  bits_per_value: {All: 8, W: 4} #!\n", "'All' and 'W' both hold W"),
    case("bits_per_value of one Einsum differ", "    - {name: B, projection: [m, n]}\n",
         "    - {name: B, projection: [m, n], bits_per_value: 3} #!\n", "8 bits per value in Einsum B but 3 in C"),
    case("persistent in one Einsum only", BITS, BITS + "  persistent_tensors: B & Outputs\n",
         "tensor B is persistent in Einsum B but not in C"),
    case("persistent variables", BITS, BITS + "  persistent_tensors: m #!\n", "persistent_tensors", "set of tensors"),
    case("persistent unknown", BITS, BITS + "  persistent_tensors: weights #!\n", "unknown name 'weights'"),
    case("n_instances zero", SIZES, SIZES + "  n_instances: 0 #!\n", "n_instances", "at least 1"),
    case("n_instances text", SIZES, SIZES + "  n_instances: twice #!\n", "twice"),
    case("is_copy_operation text", "  - name: C\n", "  - name: C\n    is_copy_operation: maybe #!\n", "true or false"),
    case("einsum and tensor_accesses", "  - name: C\n", "  - einsum: C[m] = B[m]\n",
         "how B is indexed is said by 'einsum'"),
    case("rename unknown tensor", RENAME, "    - {name: output, source: Z} #!\n", "unknown name 'Z'"),
    case("rename expected_count", RENAME, "    - {name: output, source: Inputs, expected_count: 1} #!\n",
         "output stands for 2 tensors", "expected 1"),
    case("rename named as a tensor", RENAME, RENAME + "    - {name: W, source: Inputs} #!\n",
         "rename W is also the name of a tensor"),
    case("rename of an unknown Einsum", "  - name: default\n", "  - name: Matmul #!\n", "no Einsum Matmul"),
    case("rename twice", RENAME, RENAME + RENAME.rstrip() + " #!\n", "rename output is given twice"),
    case("rename entry twice", RENAME, RENAME + "  - {name: default, tensor_accesses: []} #!\n",
         "default is listed twice"),
    case("rename field misspelled", RENAME, "    - {name: output, sourse: Outputs} #!\n", "did you mean 'source'?"),
]  # fmt: skip

MAPPING = [
    case("mapping field misspelled", LOOP_M, "  - !Temporal {rank_variable: m, tile_shpe: 2} #!\n",
         "did you mean 'tile_shape'?"),
    case("mapping tag misspelled", LOOP_M, "  - !Temproal {rank_variable: m, tile_shape: 2} #!\n",
         "did you mean '!Temporal'?"),
    case("!Pipeline", "  - !Sequential\n", "  - !Pipeline #!\n", "!Pipeline is not supported"),
    case("branch without !Nested",
         "    - !Nested\n      nodes:\n      - !Storage {tensors: [W, C], component: Buffer}\n",
         "    - !Sequential #!\n      nodes:\n      - !Storage {tensors: [W, C], component: Buffer}\n", "!Nested"),
    case("!Nested alone", LOOP_M, LOOP_M + "  - !Nested {nodes: []} #!\n", "!Nested", "!Sequential"),
    case("!Sequential empty", LOOP_M, LOOP_M + "  - !Sequential {nodes: []} #!\n", "nodes of !Sequential", "empty"),
    case("!Sequential not last", COMPUTE_C, COMPUTE_C + "  - !Temporal {rank_variable: m, tile_shape: 1}\n",
         "!Sequential must be the last"),
    case("!Compute not last", COMPUTE_B, COMPUTE_B.rstrip() + " #!\n" + LOOP_P, "!Compute must be the last"),
    case("branch without compute", COMPUTE_B, "", "end with !Compute"),
    case("tile_shape zero", LOOP_M, "  - !Temporal {rank_variable: m, tile_shape: 0} #!\n", "tile_shape", "at least 1"),
    case("tile_shape text", LOOP_M, "  - !Temporal {rank_variable: m, tile_shape: half} #!\n", "half"),
    case("tile_shape missing", LOOP_M, "  - !Temporal {rank_variable: m} #!\n", "needs the field 'tile_shape'"),
    case("tile too large", LOOP_M, "  - !Temporal {rank_variable: m, tile_shape: 8} #!\n", "tile_shape 8", "extent 4"),
    case("tile grows", LOOP_P, LOOP_P + LOOP_P.replace("1}\n", "2} #!\n"), "tile_shape 2", "extent 1"),
    case("loop does not end", LOOP_P, LOOP_P.replace("1}", "2}"), "Einsum C: rank variable p still has extent 2",
         "tile_shape 1"),
    case("loop missing", LOOP_P, "", "rank variable p still has extent 4"),
    case("unknown rank variable", LOOP_M, "  - !Temporal {rank_variable: mm, tile_shape: 2} #!\n",
         "no rank variable mm", "did you mean 'm'?"),
    case("rank variable of the other Einsum", LOOP_M, "  - !Temporal {rank_variable: p, tile_shape: 2} #!\n",
         "Einsum B has no rank variable p"),
    case("rank variable for one Einsum only", LOOP_M, "  - !Temporal {rank_variable: {B: m}, tile_shape: 2} #!\n",
         "names none for Einsum C"),
    case("loop over no variable of an Einsum", LOOP_M, "  - !Temporal {rank_variable: [k, p, n], tile_shape: 2} #!\n",
         "Einsum B has several of k, p, n"),
    case("loop over an empty list", LOOP_M, "  - !Temporal {rank_variable: [], tile_shape: 2} #!\n", "names no variable"),
    case("first tile larger than the extent", LOOP_M,
         "  - !Temporal {rank_variable: m, tile_shape: 2, initial_tile_shape: 300} #!\n", "initial_tile_shape 300"),
    case("steps of nothing", LOOP_M, "  - !Temporal {rank_variable: m, tile_shape: 2, step: 0} #!\n", "step must be a whole number"),
    case("tiles of an unknown Einsum", LOOP_M, "  - !Temporal {rank_variable: m, tile_shape: {X: 2}} #!\n", "no Einsum X"),
    case("rank variable for no Einsum", LOOP_M, "  - !Temporal {rank_variable: {}, tile_shape: 2} #!\n", "names no Einsum"),
    case("rank variable for an unknown Einsum", LOOP_M,
         "  - !Temporal {rank_variable: {B: m, C: m, D: m}, tile_shape: 2} #!\n", "no Einsum D"),
    case("unknown tensor", HOLD_B, "  - !Storage {tensors: [B, BB], component: Buffer} #!\n", "no tensor BB",
         "did you mean 'B'?"),
    case("tensor unused below", HOLD_AV, "      - !Storage {tensors: [A, V, W], component: Buffer} #!\n",
         "no Einsum below", "W"),
    case("tensor twice in a holder", HOLD_B, "  - !Storage {tensors: [B, B], component: Buffer} #!\n",
         "lists tensor B twice"),
    case("tensors not a list", HOLD_B, "  - !Storage {tensors: B, component: Buffer} #!\n", "tensors must be a list"),
    case("unknown memory", HOLD_B, "  - !Storage {tensors: [B], component: Bufer} #!\n", "Bufer",
         "did you mean 'Buffer'?"),
    case("holder in a compute", HOLD_B, "  - !Storage {tensors: [B], component: MAC} #!\n",
         "MAC is a compute, not a memory"),
    case("holder in a Toll", HOLD_B, "  - !Storage {tensors: [B], component: Link} #!\n",
         "Link is a toll, not a memory"),
    case("Toll in a memory", HOLD_AV, "      - !Toll {tensors: [A, V], component: Buffer} #!\n",
         "Buffer is a memory, not a toll"),
    case("Toll first", HOLD_B, "  - !Toll {tensors: [B], component: Link} #!\n" + HOLD_B,
         "tensor B passes Link before any memory holds it"),
    case("tensor held twice", HOLD_AV, HOLD_AV + HOLD_AV.rstrip() + " #!\n", "tensor A is held twice in Buffer"),
    case("held nowhere", HOLD_B, "", "tensor B is held nowhere"),
    case("wrong memory order", HOLD_B, HOLD_B + "  - !Storage {tensors: [B], component: DRAM} #!\n",
         "out of order: Buffer above DRAM"),
    case("recomputation", HOLD_B, "  - !Temporal {rank_variable: {B: k, C: p}, tile_shape: 2} #!\n" + HOLD_B,
         "B would be recomputed", "k"),
    case("shared tensor in two places", MAPPING_BODY, MAPPING_BODY.replace(HOLD_B, "").replace("[A, V], comp",
         "[A, V, B], comp")
         .replace("[W, C], component: Buffer}", "[W, C, B], component: Buffer} #!"),
         "Einsums B and C share tensor B", "different places", "above the split"),
    case("wrong order of Einsums", MAPPING_BODY, MAPPING_BODY.replace(COMPUTE_C,
         "").replace("einsum: B, component: MAC}", "einsum: C, component: MAC} #!")
         + COMPUTE_B, "Einsum C reads B before Einsum B writes it"),
    case("missing Einsum", MAPPING_BODY, HOLD_ALL.replace("W, C]", "B]").rstrip() + " #!\n" + "".join(
         f"  - !Temporal {{rank_variable: {v}, tile_shape: 1}}\n" for v in "mkn") + "  " + COMPUTE_B.lstrip()
         .replace("- ", "- ", 1),
         "does not compute Einsum C"),
    case("persistent below loops", HOLD_B, "  - !Storage {tensors: [B], component: Buffer, persistent: true} #!\n",
         "persistent tensor B must be held above all loops"),
    case("persistent inner holder", HOLD_AV,
         "      - !Storage {tensors: [A, V], component: Buffer, persistent: true} #!\n",
         "only the outermost holder of A"),
    case("persistent text", HOLD_B, "  - !Storage {tensors: [B], component: Buffer, persistent: 1} #!\n",
         "persistent must be true or false"),
    case("unknown Einsum", COMPUTE_C, "      - !Compute {einsum: CC, component: MAC} #!\n", "no Einsum CC",
         "did you mean 'C'?"),
    case("Einsum twice", COMPUTE_C, "      - !Compute {einsum: B, component: MAC} #!\n", "Einsum B is computed twice"),
    case("unknown compute", COMPUTE_C, "      - !Compute {einsum: C, component: MACC} #!\n", "no compute MACC",
         "did you mean 'MAC'?"),
    case("compute in a memory", COMPUTE_C, "      - !Compute {einsum: C, component: DRAM} #!\n", "no compute DRAM"),
    case("Spatial: unknown dimension", SPATIAL, SPATIAL.replace("X}\n", "Z} #!\n"), "Array has no fanout dimension Z"),
    case("Spatial: unknown component", SPATIAL, SPATIAL.replace("Array", "Aray").rstrip() + " #!\n", "Aray",
         "did you mean 'Array'?"),
    case("Spatial: no dimension", SPATIAL, SPATIAL.replace(", name: X", "").rstrip() + " #!\n",
         "needs the field 'name'"),
    case("Spatial: no fanout there", SPATIAL, SPATIAL.replace("Array", "Buffer").rstrip() + " #!\n",
         "Buffer has no fanout dimension X"),
    case("fanout exceeded", SPATIAL, SPATIAL.replace("2", "1").replace("X}\n", "Y} #!\n"), "Einsum B uses 4",
         "Array dimension Y", "fanout is 2", status=3),
    case("capacity exceeded", SIZE, "    size: 100\n", "Buffer holds", "more than its size of 100",
         "Einsum B", status=3),
    case("disabled compute", "    name: MAC\n", "    name: MAC\n    enabled: len(Inputs) == 1\n",
         "MAC is not enabled for Einsum B"),
    case("disabled memory", SIZE, SIZE + "    enabled: false\n", "Buffer is not enabled for Einsum B"),
    case("mapping empty", GOOD[GOOD.index("  nodes:\n  - !Storage"):], "  nodes: [] #!\n", "nodes of mapping", "empty"),
    case("mapping nodes misspelled", "mapping:\n  nodes:\n", "mapping:\n  nodez: #!\n", "did you mean 'nodes'?"),
]  # fmt: skip


def check(text: str, case: Case, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(text)
    status, out, err = run(capsys, "evaluate", str(path), str(path), str(path))
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert out == ""
    assert status == case.status
    line = err.removeprefix(f"{path}:").split(":")[0]
    assert err.startswith(f"{path}:")
    assert line.isdigit(), err
    marked = [str(i) for i, content in enumerate(text.splitlines(), 1) if "#!" in content]
    assert not marked or [line] == marked, err
    for word in case.words:
        assert word in err


def test_the_good_spec_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert run(capsys, "evaluate", str(path), str(path), str(path))[::2] == (0, "")


@pytest.mark.parametrize("case", [*SYNTAX, *ARCHITECTURE, *WORKLOAD, *MAPPING], ids=lambda case: case.name)
def test_one_line(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(GOOD.replace(case.old, case.new, 1), case, tmp_path / "spec.yaml", capsys)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DIMENSION, "    - {name: X, fanout: 4, power_gateable: LONG}\n"),
        (BUFFER_KEEP, "    tensors: {LONG: output}\n"),
        (HOLD_B, "  - !Storage {tensors: [LONG], component: Buffer}\n"),
        (HOLD_B, "  - !Storage {tensors: [B], component: LONG}\n"),
        ("variables:", "LONG:"),
        (FIRST, "  - LONG\n"),
    ],
)
def test_long_values_are_not_shown_whole(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.replace(old, new.replace("LONG", "x" * 20_000), 1))
    status, _, err = run(capsys, "evaluate", str(path), str(path), str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert len(err) < 1_200


OTHER_FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", ":1: the file is empty"),
    ("only a comment", b"# nothing\n", ":1: the file is empty"),
    ("junk", bytes(range(256)), "not UTF-8"),
    ("junk that is UTF-8", b"\x00\x01\x02", ":1: the file holds the control character"),
    ("latin-1", "arch:\n  # Gr\xf6\xdfe\n".encode("latin-1"), ":2: the file is not UTF-8"),
    ("a list", b"- 1\n- 2\n", ":1: the file must be a table of sections"),
    ("a word", b"hello\n", ":1: the file must be a table of sections"),
    ("billion laughs", b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 110)), "values, repetitions by aliases included"),
    ("deep", b"arch: " + b"[" * 5000, "deep"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words"), [row[1:] for row in OTHER_FILES], ids=[row[0] for row in OTHER_FILES])
def test_strange_files(content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    status, _, err = run(capsys, "show", str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(f"{path}:")
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.yaml"], "missing.yaml: no such file"),
        (["folder"], "folder: this is a directory"),
        (["folder/"], "this is a directory"),
        (["smple"], "no bundled spec 'smple'; did you mean 'simple'?"),
        ([""], "no file"),
        (["x" * 5000], "no bundled spec"),
        (["a\0b.yaml"], "not the name of a file"),
        (["simple", "-D", "GlobalBufferSize"], "-D GlobalBufferSize: expected NAME=VALUE"),
        (["simple", "-D", "=3"], "expected NAME=VALUE"),
        (["simple", "-D", "GlobalBufferSize=[1]"], "must be a number, true, false or text"),
        (["simple", "-D", "GlobalBufferSize=-1"], ": size must not be negative, but is -1"),
        (["good.yaml", "simple"], "the section 'arch:' is also in good.yaml:7"),
        (["good.yaml", "more.yaml"], "more.yaml:1: variable word is given twice, as 8 and as 9"),
        (["renames.yaml"], "nothing to show"),
    ],
)
def test_command_line_mistakes(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "more.yaml").write_text("variables: {word: 9}")
    (tmp_path / "renames.yaml").write_text("renames: {einsums: []}")
    status, _, err = run(capsys, "show", *arguments)
    assert (status, err.count("\n")) == (2, 1), err
    assert words in err


def test_a_section_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "evaluate", "simple", "matmuls", "matmuls")
    assert (status, err) == (2, "simple, matmuls: no section 'mapping:'\n")


def test_copies_in_one_memory_lie_under_the_same_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    arch = GOOD[: GOOD.index("workload:")].replace("keep: output", "keep: Nothing")
    text = f"""{arch}
workload:
  rank_sizes: {{M: 4}}
  bits_per_value: {{All: 8}}
  einsums:
  - {{einsum: "B[m] = A[m]", is_copy_operation: True}}
mapping:
  nodes:
  - !Storage {{tensors: [A], component: DRAM}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Storage {{tensors: [B], component: DRAM}} #!
  - !Compute {{einsum: B, component: MAC}}
"""
    check(text, Case("copies", "", "", ("copies A to B within DRAM", "same loops")), path, capsys)


@pytest.mark.parametrize("case", MAPPING, ids=lambda case: case.name)
def test_what_cannot_be_evaluated_can_be_shown_or_is_refused(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.replace(case.old, case.new, 1))
    for options in ([], ["--pseudocode", "--svg", str(tmp_path / "a.svg")]):
        status, out, err = run(capsys, "show", str(path), *options)
        assert (status, err) == (0, "") or (status, out, err.count("\n")) == (2, "", 1)
