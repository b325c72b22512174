"""Timeloop's architecture as a list of levels, outermost first: memories, places of a fanout, and the compute.

Two forms are read: nested `subtree` and `local` (version 0.3 and before, and what Timeloop's front end writes), and the list of
tagged `nodes` that users of version 0.4 write. Both count how many of each level there are; neighbours that differ make a fanout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.spec import NAME, RESERVED
from fusiest.timeloop.directives import Directive, read_directive
from fusiest.timeloop.sections import FileTable, name_in, number_of, table_in, table_of, tables_in, whole_of

_RANGE = re.compile(r"(.*?)\[\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*\]\Z", re.S)
_PLACE = re.compile(r"inter_(.+)_spatial\Z")
_WIDTHS = ("width", "memory_width")
_DEPTHS = ("depth", "memory_depth")
_BITS = ("word_bits", "datawidth")
NOTHING = "!Nothing"
_STORES = ("dram", "sram", "regfile", "buffer", "storage", "register", "memory", "cache", "spad", "latch")
_REFUSED = {"sparse_optimizations": None, "network_read": None, "network_fill": None, "network_drain": None,
            "network_update": None, "multiple_buffering": 1, "allow_overbooking": False}  # fmt: skip
"""Attributes that are not supported, and the value with which they say nothing."""


@dataclass(frozen=True, slots=True)
class TimeloopLevel:
    """One level. `mesh` is how many there are, along X and Y; `place` one that stores nothing and stands for a fanout."""

    name: str
    timeloop_name: str
    kind: str
    mesh: tuple[int, int]
    source: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def called(self, name: str) -> bool:
        """Whether a file means this level."""
        return name in (self.name, self.timeloop_name)

    def amount(self, names: tuple[str, ...]) -> int | float | None:
        """The first of these attributes that is given."""
        for name in names:
            if self.attributes.get(name) is not None:
                label = f"{self.name}: {name}"
                return number_of(self.attributes[name], label, self.attributes, self.source)
        return None

    @property
    def bits(self) -> int:
        """Bits of a value."""
        return int(self.amount(_BITS) or 16)

    @property
    def cluster(self) -> int:
        """Instances that share one wide access."""
        return int(self.amount(("cluster_size",)) or 1)

    @property
    def block(self) -> int:
        """Values that one access moves, of one instance."""
        words, width = self.amount(("block_size", "n_words")), self.amount(_WIDTHS)
        return int(words or max((width or 0) // (self.bits * self.cluster), 1))

    @property
    def values(self) -> int | None:
        """Values that it can hold; None for no limit."""
        depth, entries, size = self.amount(_DEPTHS), self.amount(("entries",)), self.amount(("sizeKB",))
        if depth is not None:
            return int(depth * self.block)
        if entries is not None:
            return int(entries)
        return None if size is None else int(size * 1024 * 8 // self.bits)


def read_levels(section: Any, variables: Mapping[str, object]) -> tuple[list[TimeloopLevel], list[Directive]]:
    """The section `architecture`: its levels, and the constraints that stand in it."""
    architecture = table_of(section, "architecture")
    if "nodes" in architecture:
        architecture.only("architecture", "version", "nodes")
        directives: list[Directive] = []
        levels = list(_from_nodes(architecture["nodes"], _Inherited(dict(variables), (1, 1)), directives, architecture))
    elif "subtree" in architecture:
        directives, levels = [], list(_from_subtree(architecture, dict(variables), 1))
    else:
        raise SpecError("architecture: expected 'nodes' or 'subtree'", architecture.source)
    return _checked(levels, architecture), directives


def find_level(levels: list[TimeloopLevel], name: str, at: Any, kind: str) -> int:
    """The level that a target means; what is said of the spatial loops of a component that is spread belongs above it."""
    for number, level in enumerate(levels):
        if kind == "spatial" and level.timeloop_name == f"inter_{name}_spatial":
            return number
    for number, level in enumerate(levels):
        if level.called(name):
            return number
    raise SpecError(f"there is no level '{shown(name)}'{did_you_mean(name, [level.name for level in levels])}", at)


def _from_subtree(table: FileTable, above: dict[str, Any], count: int) -> Iterator[TimeloopLevel]:
    """Nested form: `name[0..15]` says that there are 16 of it in its parent."""
    for entry in tables_in(table.get("local") or [], "local", table.source):
        entry.only(
            f"component {entry.get('name')}", "name", "class", "subclass", "attributes", "required_actions", "enabled"
        )
        if entry.get("enabled") is False:
            continue
        name, n = _counted(entry)
        own_attributes = table_in(entry, "attributes", f"attributes of {name}")
        attributes = {**above, **_named(own_attributes, above)}
        instances = own_attributes.get("instances")
        total = n * count if instances is None else whole_of(instances, f"{name}: instances", attributes, entry.source)
        mesh_x = whole_of(own_attributes.get("meshX", total), f"{name}: meshX", attributes, entry.source)
        if total % mesh_x:
            raise SpecError(f"{name}: meshX {mesh_x} does not divide its {total} instances", entry.source)
        yield _level(name, entry, attributes, (mesh_x, total // mesh_x))
    for entry in tables_in(table.get("subtree") or [], "subtree", table.source):
        entry.only(f"subtree {entry.get('name')}", "name", "attributes", "local", "subtree", "version", "class")
        _, n = _counted(entry)
        inherited = {k: v for k, v in (entry.get("attributes") or {}).items() if k not in ("meshX", "meshY")}
        yield from _from_subtree(entry, {**above, **_named(inherited, above)}, count * n)


def _named(attributes: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes, those that are another's name as that: `technology: technology`, where a variable has that name."""
    return {key: above.get(value, value) if isinstance(value, str) else value for key, value in attributes.items()}


def _counted(entry: FileTable) -> tuple[str, int]:
    name = name_in(entry, "name", "a component")
    match = _RANGE.match(name)
    if not match:
        return str(name), 1
    first, last = int(match[2]), int(match[3])
    if last < first:
        raise SpecError(f"'{shown(name)}' has no instances", name)
    return match[1], last - first + 1


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What holds below a node: inherited attributes, and how many there are."""

    attributes: dict[str, Any]
    mesh: tuple[int, int]


def _from_nodes(
    nodes: Any, above: _Inherited, directives: list[Directive], parent: FileTable
) -> Iterator[TimeloopLevel]:
    """Tagged form: each node is the parent of the next."""
    for entry in tables_in(nodes, "nodes", parent.source):
        if entry.tag in ("!Parallel", "!Hierarchical", "!Pipelined"):
            inner: list[Directive] = []
            branches = list(_from_nodes(entry.get("nodes"), above, inner, entry))
            yield from branches
            directives += _in_one_branch(inner) if entry.tag == "!Parallel" else inner
            above = (
                _Inherited(above.attributes, branches[-1].mesh) if entry.tag == "!Hierarchical" and branches else above
            )
            continue
        if entry.tag == "!Nothing":  # a branch that stores nothing: what it keeps passes by the others
            _add(table_in(entry, "constraints", "constraints"), "dataspace", NOTHING, directives)
            continue
        if entry.tag not in ("!Component", "!Container"):
            raise SpecError(f"architecture: a node {entry.tag or 'without a tag'} is not supported", entry.source)
        name = name_in(entry, "name", "a node")
        if entry.get("enabled") is False:
            continue
        label = f"node {name}"
        entry.only(label, "name", "class", "subclass", "attributes", "spatial", "constraints", "required_actions", "enabled",
                   "power_gated_at", "area_scale", "energy_scale")  # fmt: skip
        for scale in ("area_scale", "energy_scale"):
            if entry.get(scale) not in (None, 1):
                raise SpecError(f"{label}: {scale} is not supported", entry.source)
        own_attributes = table_in(entry, "attributes", label)
        attributes = {**above.attributes, **_named(own_attributes, above.attributes)}
        mesh = _spread(entry, above, label)
        place = f"inter_{name}_spatial"
        constraints = table_in(entry, "constraints", f"constraints of {name}")
        constraints.only(f"constraints of {name}", "spatial", "temporal", "dataspace")
        if mesh != above.mesh:
            yield TimeloopLevel(
                str(name) if entry.tag == "!Container" else place, place, "place", above.mesh, entry.source
            )
            _add(constraints, "spatial", place, directives)
        if entry.tag == "!Component":
            yield _level(str(name), entry, attributes, mesh)
            _add(constraints, "temporal", str(name), directives)
            _add(constraints, "dataspace", str(name), directives)
        # What a container says is for all below it; a component's attributes are its own.
        above = _Inherited(attributes if entry.tag == "!Container" else above.attributes, mesh)


def _in_one_branch(directives: list[Directive]) -> list[Directive]:
    """What one of parallel memories must keep passes by the others."""
    keep = {d.target: d.keep for d in directives if d.kind == "dataspace"}
    narrowed = []
    for directive in directives:
        if directive.kind == "dataspace":
            elsewhere = {name for target, names in keep.items() if target != directive.target for name in names}
            bypass = {*directive.bypass, *elsewhere} - {*directive.keep}
            directive = replace(directive, bypass=tuple(sorted(bypass)))
        if directive.target != NOTHING:
            narrowed.append(directive)
    return narrowed


def _add(constraints: FileTable, kind: str, target: str, directives: list[Directive]) -> None:
    if constraints.get(kind):
        directives.append(read_directive(table_of(constraints[kind], kind), kind, target))


def _spread(entry: FileTable, above: _Inherited, label: str) -> tuple[int, int]:
    """How many there are of a node and of all below it."""
    spatial = table_in(entry, "spatial", f"{label}: spatial")
    spatial.only(f"{label}: spatial", "meshX", "meshY", "meshZ")
    x, y = (
        whole_of(spatial.get(key, 1), f"{label}: {key}", above.attributes, entry.source) for key in ("meshX", "meshY")
    )
    if spatial.get("meshZ", 1) != 1:
        raise SpecError(f"{label}: meshZ is not supported", entry.source)
    return above.mesh[0] * x, above.mesh[1] * y


def _level(name: str, entry: FileTable, attributes: dict[str, Any], mesh: tuple[int, int]) -> TimeloopLevel:
    class_name = str(entry.get("class", ""))
    for key, harmless in _REFUSED.items():
        value = attributes.get(key)
        if value not in (None, "null", harmless, {}, []):
            raise SpecError(f"{name}: {key} {shown(value)} is not supported", entry.source)
    if "noc" in class_name.lower() or "network" in class_name.lower():
        raise SpecError(f"{name}: networks ({class_name}) are not supported", entry.source)
    place = class_name.startswith("dummy")
    stripped = _PLACE.match(name) if place else None
    shown_name = stripped[1] if stripped else name
    return TimeloopLevel(
        shown_name,
        name,
        "place" if place else "memory",
        mesh,
        entry.source,
        {**attributes, "class": class_name, "subclass": entry.get("subclass")},
    )


def _checked(unchecked: list[TimeloopLevel], architecture: FileTable) -> list[TimeloopLevel]:
    """The innermost is the compute; names are different, and every fanout is whole."""
    if len(unchecked) < 2:
        raise SpecError("the architecture needs a memory and a compute", architecture.source)
    for level in unchecked[:-1]:
        class_name = str(level.attributes.get("class", ""))
        is_memory = (
            any(word in class_name.lower() for word in _STORES)
            or level.amount((*_DEPTHS, *_WIDTHS, "entries", "sizeKB")) is not None
        )
        if level.kind == "memory" and not is_memory:
            raise SpecError(f"{level.name}: the class '{shown(class_name)}' is not known to be a memory", level.source)
    levels = [*unchecked[:-1], replace(unchecked[-1], kind="compute")]
    if levels[0].kind != "memory":
        raise SpecError("the outermost level must be a memory", levels[0].source)
    names: list[str] = []
    for number, level in enumerate(levels):
        clash = level.kind == "place" and any(other.name == level.name for other in levels if other is not level)
        name = level.timeloop_name if clash else level.name
        if not NAME.match(name) or name in RESERVED:
            raise SpecError(f"'{shown(name)}' cannot be a component's name", level.source)
        if name in names:
            raise SpecError(f"two levels are called {name}", level.source)
        names.append(name)
        levels[number] = replace(level, name=name)
    for outer, inner in zip(levels, levels[1:], strict=False):
        if any(b % a for a, b in zip(outer.mesh, inner.mesh, strict=True)):
            raise SpecError(
                f"{inner.name}: its {inner.mesh} instances are no multiple of the {outer.mesh} above", inner.source
            )
    return levels


def fanout(levels: list[TimeloopLevel], number: int) -> tuple[int, int]:
    """How many of the next level there are for each of this one, along X and Y."""
    if number + 1 >= len(levels):
        return (1, 1)
    (x, y), (next_x, next_y) = levels[number].mesh, levels[number + 1].mesh
    return next_x // x, next_y // y
