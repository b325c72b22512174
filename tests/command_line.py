"""Runs the command line in this process."""

from __future__ import annotations

import sys
from unittest import mock

import pytest

from fusiest import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    status: object = 0
    capsys.readouterr()
    with mock.patch.object(sys, "argv", ["fusiest", *arguments]):
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code
    out, err = capsys.readouterr()
    assert isinstance(status, int)
    return status, out, err
