"""The small grammar, for the decoder's tests too."""

from __future__ import annotations

from tests.grammar.conftest import grammar

__all__ = ["grammar"]
