"""Reading, cleaning, binarizing and drawing trees.

Import from the modules: `brackets` (read and write), `cleaning`, `heads` (head tables), `binarize`,
`draw`, and `head_kernel` (heads on label ids, compiled). Nothing is imported here, so that what
needs no NLTK or numba does not wait for it.
"""
