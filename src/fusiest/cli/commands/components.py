"""`fusiest components`: which component classes there are, what they take, what one of them costs."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from fusiest.base.errors import SpecError
from fusiest.cli.arguments import flag
from fusiest.cli.output import echo


def _complete(incomplete: str) -> list[str]:
    from fusiest.components import all_classes

    return [c.name for c in all_classes() if c.name.lower().startswith(incomplete.lower())]


def components_command(
    name: Annotated[
        str | None, typer.Argument(metavar="CLASS", help="a component class", autocompletion=_complete)
    ] = None,
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="its attributes: size=64KiB width=64")
    ] = None,
    json: Annotated[bool, flag("--json", "print the costs as JSON, in SI units")] = False,
) -> None:
    """List component classes, describe one, or estimate what a component costs."""
    from fusiest.components import all_classes, find_class
    from fusiest.terminal import class_text, classes_text, estimate_text

    if name is None:
        if json:
            raise SpecError("--json needs a class and its attributes")
        echo(classes_text(all_classes()))
        return
    component_class = find_class(name)
    texts = _read(attributes or [])
    component_class.check_units(texts)
    values = {attribute: _value(text) for attribute, text in texts.items()}
    if not values and not json:
        echo(class_text(component_class))
        return
    estimate = component_class.estimate(values)
    echo(json_format.dumps(estimate.as_json(), indent=2) if json else estimate_text(estimate))


def _read(pairs: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise SpecError(f"{pair}: expected NAME=VALUE")
        if name in texts:
            raise SpecError(f"{name} is given twice")
        texts[name] = text
    return texts


def _value(text: str) -> object:
    """A number with or without a unit, an expression, true or false, a list; anything else is text."""
    from fusiest.base.units import quantity
    from fusiest.spec import evaluate_expression

    number = quantity(text)
    if number is not None:
        return number
    try:
        return evaluate_expression(text, {})
    except SpecError:
        return text
