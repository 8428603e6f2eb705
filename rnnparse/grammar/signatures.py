"""Classes of unknown words, shared by the lexicon and by the word vectors.

The class of a word form says what can be seen of it without a dictionary: digits, capitals,
hyphens and the last letters (after the unknown-word models of the Stanford and Berkeley parsers).
Nothing in it is specific to English, so it serves other alphabets as well.
"""

from __future__ import annotations

SUFFIX_LENGTH = 2


def signature(word: str, first: bool = False) -> str:
    """Name the class of an unknown word.

    Args:
        word: the token as it stands in the text.
        first: whether it begins the sentence, where a capital says little.

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
