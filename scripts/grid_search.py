#!/usr/bin/env python3
"""A grid search that explains: `rnnparse study run` as a script, with the same arguments."""

import sys

from rnnparse.cli import main

sys.exit(main(["study", "run", *sys.argv[1:]]))
