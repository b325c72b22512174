"""Writes components.md from the classes themselves: `python docs/generate_components.py`. A test fails if it is out of date."""

from __future__ import annotations

from pathlib import Path

from fusiest.components import Attribute, ComponentClass, all_classes, built_in
from fusiest.terminal.component_table import default_text

FILE = Path(__file__).parent / "components.md"
TEXT = Path(__file__).parent / "components.in.md"
"""What people write; the tables take the place of the lines `@classes` and `@library`."""


def page() -> str:
    """The whole page."""
    own = {one.name for one in built_in()}
    library = [one for one in all_classes() if one.name not in own and one.group != "Plug-in"]
    text = TEXT.read_text(encoding="utf-8")
    return text.replace("@classes\n", _classes(built_in())).replace("@library\n", _library(library))


def _classes(classes: list[ComponentClass]) -> str:
    lines: list[str] = []
    for group in dict.fromkeys(one.group for one in classes):
        lines += [f"### {group}", ""]
        for one in classes:
            if one.group == group:
                lines += _class(one)
    return "\n".join(lines)


def _class(one: ComponentClass) -> list[str]:
    per = "moves `width` bits" if one.moves_bits else "handles one value"
    actions = ", ".join(f"`{action}`" for action in one.actions)
    also = f" Also named {', '.join(f'`{alias}`' for alias in one.aliases)}." if one.aliases else ""
    lines = [f"#### {one.name}", "", f"{_sentence(one.meaning)} Actions: {actions}; one {per}.{also}", ""]
    lines += ["| attribute | default | values | meaning |", "| --- | --- | --- | --- |"]
    lines += [_attribute(attribute) for attribute in one.attributes]
    lines += ["", f"- Formula: {one.formula}", f"- Source: {one.source}", f"- Error: {one.error}", ""]
    return lines


def _attribute(attribute: Attribute) -> str:
    default = "required" if attribute.required else "" if attribute.default is None else f"`{default_text(attribute)}`"
    unit = f" {attribute.unit}" if attribute.unit and not attribute.choices else ""
    return f"| `{attribute.name}` | {default} | {attribute.range}{unit} | {attribute.meaning} |"


def _library(classes: list[ComponentClass]) -> str:
    lines = ["| parts of | classes |", "| --- | --- |"]
    for group in dict.fromkeys(one.group for one in classes):
        lines.append(f"| {group} | {', '.join(f'`{one.name}`' for one in classes if one.group == group)} |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
