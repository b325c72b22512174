"""Runs the command line in this process."""

from __future__ import annotations

import sys
from unittest import mock

import pytest

from fusiest import cli

Capture = pytest.CaptureFixture[str]
MATMULS = ("simple", "matmuls", "fused_matmuls_to_simple")
TWO = ("map", "simple", "matmuls", "-D", "N_EINSUMS=2", "-D", "M=8", "-D", "KN=8", "--tree")


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
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
