"""Specs from text, for tests that want to show what they load."""

from __future__ import annotations

import tempfile
from pathlib import Path
from textwrap import dedent

import fusiest


def load_text(*texts: str, **defines: object) -> fusiest.Spec:
    """Load texts as if each were a file a.yaml, b.yaml, …"""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{chr(97 + i)}.yaml" for i in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(dedent(text), encoding="utf-8")
        return fusiest.load(*files, defines=defines)
