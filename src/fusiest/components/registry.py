"""Which classes there are: built in, of the library's files, and plug-ins by entry point `fusiest.components`.

A plug-in is a package that names a `ComponentClass`, or a list of them, under that entry point. Plug-ins are looked for
only when no other class has the name, so that one that is installed changes no file that worked without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from fusiest.base.errors import SpecError, closest, did_you_mean, shown
from fusiest.components import arithmetic, cells, converters, ladders, memories, wires
from fusiest.components.classes import ComponentClass, Estimate, key

ENTRY_POINT = "fusiest.components"


def built_in() -> list[ComponentClass]:
    """The classes that are code, in the documentation's order."""
    return [c for module in (memories, arithmetic, converters, wires, ladders, cells) for c in module.CLASSES]


def all_classes() -> list[ComponentClass]:
    """Every class that a file may name: built in, of the library, plug-ins."""
    return [*built_in(), *_provided(), *_plugins()]


def find_class(name: str, spec_classes: Mapping[str, ComponentClass] | None = None) -> ComponentClass:
    """The class of this name, case and underscores ignored; `spec_classes` are those of the spec at hand, by `key`.

    >>> find_class("smart_buffer_sram").name
    'SmartBufferSRAM'
    """
    class_key = key(name)
    if spec_classes and class_key in spec_classes:
        return spec_classes[class_key]
    if class_key in _built_in_by_key():
        return _built_in_by_key()[class_key]
    for source in (_provided, _plugins):
        found = _by_key(source()).get(class_key)
        if found is not None:
            return found
    names = [*(c.name for c in (spec_classes or {}).values()), *(c.name for c in all_classes())]
    raise SpecError(f"there is no component_class '{shown(name)}'{_meant(name, names)}", name)


def estimate(component_class: str | ComponentClass, **attributes: object) -> Estimate:
    """What a component costs: energy, throughput and latency of its actions, area, leakage, and their provenance.

    >>> mac = estimate("MAC", format="int8", tech_node=7e-9)
    >>> f"{mac.actions['compute'].energy:.3g}"
    '1e-13'
    """
    if isinstance(component_class, str):
        component_class = find_class(component_class)
    return component_class.estimate(attributes)


def _meant(name: str, names: list[str]) -> str:
    """A misspelling is found whatever its case."""
    by_key = {key(known): known for known in names}
    meant = closest(key(name), by_key)
    return f"; did you mean '{by_key[meant]}'?" if meant is not None else did_you_mean(name, names)


def _by_key(classes: Iterable[ComponentClass]) -> dict[str, ComponentClass]:
    classes_by_key: dict[str, ComponentClass] = {}
    for component_class in classes:
        for name in (component_class.name, *component_class.aliases):
            classes_by_key.setdefault(key(name), component_class)
    return classes_by_key


@lru_cache(maxsize=1)
def _built_in_by_key() -> dict[str, ComponentClass]:
    return _by_key(built_in())


@lru_cache(maxsize=1)
def _provided() -> tuple[ComponentClass, ...]:
    from fusiest.spec import library_classes

    return tuple(library_classes())


@lru_cache(maxsize=1)
def _plugins() -> tuple[ComponentClass, ...]:
    from importlib.metadata import entry_points

    classes: list[ComponentClass] = []
    for entry in entry_points(group=ENTRY_POINT):
        try:
            loaded = entry.load()
        except Exception as error:
            raise SpecError(f"the plug-in '{entry.name}' ({entry.value}) cannot be loaded: {shown(error)}") from None
        for component_class in (
            [loaded] if isinstance(loaded, ComponentClass) else loaded if isinstance(loaded, (list, tuple)) else [None]
        ):
            if not isinstance(component_class, ComponentClass):
                raise SpecError(
                    f"the plug-in '{entry.name}' ({entry.value}) must name a ComponentClass or a list of them"
                )
            classes.append(component_class)
    return tuple(classes)
