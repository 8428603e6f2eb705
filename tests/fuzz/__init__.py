"""Fuzzing of everything that reads input: mutate a good sample, read it, record what goes wrong.

    python -m tests.fuzz --seconds 60                 all targets, as make fuzz SECONDS=60 does
    python -m tests.fuzz --only vectors --seed 7      one target, other mutations
    python -m tests.fuzz --only vectors --case 7/123  one case again, in this process

A `Target` has three functions: `make` writes a good sample into an empty folder; `mutate` changes a
copy of it; `check` reads the copy, and checks what was read. A reader may accept the copy (`check`
returns) or refuse it (`check` raises an `RnnparseError`). Everything else is a failure: another
exception, a crash of the process, a case that takes too long or too much memory.

A failed case is kept in `fuzz-failures/TARGET-SEED-CASE`, with what happened in `failure.txt`.
Cases that fail at the same place count as one kind, of which the first is kept. The same seed and
case give the same mutation. To add a target, append it to `TARGETS` in `tests/fuzz/targets.py`.
What fuzzing finds becomes a small case among the ordinary tests.
"""
