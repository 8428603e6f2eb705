"""Classes of unknown words, shared by the lexicon and by the word vectors.

The class of a word form names its visible features: digits, capitals, hyphens and the last letters
(as in the unknown-word models of the Stanford and Berkeley parsers). It is not specific to English
and works for other alphabets.
"""

from __future__ import annotations

SUFFIX_LENGTH = 2


def signature(word: str, first: bool = False) -> str:
    """Name the class of an unknown word.

    Args:
        word: the token as in the text.
        first: whether it begins the sentence, so that a capital says little.

    Returns:
        A string that begins with `UNK`, such as `UNK-CAP-ed`; the same class for the same form.
    """
    parts = ["UNK"]
    if any(c.isdigit() for c in word):
        parts.append("NUM" if not any(c.isalpha() for c in word) else "DIGIT")
    upper = sum(c.isupper() for c in word)
    if upper:
        if upper > 1 and not any(c.islower() for c in word):
            parts.append("CAPS")
        elif word[0].isupper():
            parts.append("FIRST" if first else "CAP")
        else:
            parts.append("MIXED")
    if "-" in word[1:]:
        parts.append("DASH")
    if len(word) > SUFFIX_LENGTH + 1 and word[-1].isalpha():
        parts.append(word[-SUFFIX_LENGTH:].lower())
    return "-".join(parts)
