"""TensorFlow and Keras as this package uses them: quiet, and with threads that suit small kernels.

Every module of the package that needs TensorFlow and may be the first to import it takes it from
here. What a user has set in the environment stays as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Hold back what TensorFlow's C++ code writes to standard error while it is imported.

    Since 2.19 the messages on CUDA and oneDNN are written before any log level is obeyed. They
    are shown after all where the import fails, or where the user has asked for a log level.
    """
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:  # not an interruption
            held.seek(0)
            os.write(saved, held.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)


# Our operations are few and small: a second thread to run them beside each other finds nothing to
# do and waits actively, which costs a fifth more CPU time in a training step.
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

with _quiet_start():
    import keras
    import tensorflow as tf

__all__ = ["keras", "tf"]
