"""A command whose options cannot swallow one another: `--profile --quiet` lacks a file, it does not name one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from fusiest.base.errors import SpecError

_PATHS = ("FILE", "DIR", "FOLDER")


class CheckedCommand(TyperCommand):
    """Refuses an option as the value of another, and a file or folder whose name begins with a dash."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does, then look at what each option took; `-` alone is stdout."""
        remaining: list[str] = super().parse_args(ctx, args)
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        names = {name for option in options for name in option.opts}
        for option in options:
            value = ctx.params.get(option.name)
            is_path = (option.metavar or "").startswith(_PATHS)
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if not isinstance(text, str) or not text.startswith("-") or text == "-":
                    continue
                if text in names or is_path:
                    hint = f"; what is really called so is ./{text}" if is_path else ""
                    raise SpecError(f"{option.opts[-1]} {text}: the value of {option.opts[-1]} is missing{hint}")
        return remaining
