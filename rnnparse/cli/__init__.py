"""The command `rnnparse`: `app` has the frame, and each command a module of its own."""

from rnnparse.cli.app import main

__all__ = ["main"]
