"""`python -m rnnparse` does what `rnnparse` does."""

import sys

from rnnparse.cli import main

sys.exit(main())
