#!/usr/bin/env python3
"""Train a parser: `rnnparse train` as a script, with the same arguments (see --help)."""

import sys

from rnnparse.cli import main

sys.exit(main(["train", *sys.argv[1:]]))
