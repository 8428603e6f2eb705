"""Tokenize English sentences.

The conventions are those of the Penn Treebank (R. MacIntyre, tokenizer.sed, 1995), corrected for
today's text:

- Punctuation, brackets, currency and per cent signs are separate tokens, except inside numbers
  (`3:30`, `1,000.50`), web and mail addresses, telephone numbers (`(713)853-7041`) and words such
  as `book(s)` and `Solano(r)`.
- Contractions are split before the clitic: `do n't`, `it 's`, `dogs '`, `can not`, `gon na`.
- Double quotation marks of any form become `` and '', single ones ` and '.
- A full stop is split from the last word, even from an abbreviation (`N.J .`, also before closing
  quotation marks or brackets), and from a word before a capital letter unless the word is an
  abbreviation.

Control characters and zero-width spaces count as white space; directional marks and soft hyphens
are ignored. Apart from these and the form of quotation marks, the tokens joined together are the
text.
"""

from __future__ import annotations

import re

_BLANK = re.compile("[\0-\x1f\x7f-\x9f\u200b\ufeff\ud800-\udfff]")
_NOTHING = re.compile("[\xad\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069]")

_SPECIAL = r"\s,;:?!()\[\]{}<>\"“”„‟«»‘’‚‛`'$£€¥#%—―…‹›″•"
_TOKEN = re.compile(
    rf"""
    (?P<whole>
        (?:https?|ftp)://[^\s<>"“”]*[^\s<>"“”.,;:?!')\]]     # addresses on the web
      | www\.[^\s<>"“”]*[^\s<>"“”.,;:?!')\]]
      | (?<!\w)[\w.+-]{{1,64}}@\w[\w-]*(?:\.\w[\w-]*)+        # and of mail
      | (?<!\w)(?:\+?\d{{1,3}}[-.]?)?\(\d{{3,4}}\)\d{{3,4}}[-.]\d{{3,4}}(?!\w)  # telephones
      | (?<!\w)(?:US|AU|CA|HK|NZ|A|C|S)\$                    # currencies
      | (?<!\w)['’]n['’](?!\w)                               # rock 'n' roll
      | (?<!\w)['’‘](?:[dmnst]|ll|re|ve|em|till?|cause|bout|round|\d\ds?)\b(?!['’]\w)
      | \#[^\W\d]\w*                                         # #hashtag
      | \.{{3}}(?=\.(?!\.)) | \.{{2,}} | -{{2,}}
    )
  | (?<!\w)(?P<tis>['’‘]t)(?=(?:is|was|were)\b)
  | (?P<double>``|''|["“”„‟])
  | (?P<single>[‘’‚‛`'])
  | (?P<word>
        (?:
            [^{_SPECIAL}.-]+
          | \.(?!\.) | -(?!-)
          | (?<=\d)(?:[,:](?=\d)|%(?=-\w))                   # 1,000 and 3:30, 62%-owned
          | (?<=\w)\((?:e?s|r|tm|c)\)(?!\w)                  # book(s), Solano(r)
          | (?<=\w)['’](?=\w)                                # it's, O'Neill
        )+
    )
  | (?P<sign>\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)

_CLITIC = re.compile(r"(?<=\w)(?:n't|'(?:s|d|m|ll|re|ve))$", re.IGNORECASE)
_LONGEST_CLITIC = 3
_FUSED = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "lemme": 3, "gimme": 3}

_OPENERS = frozenset("([{<«“‘„‚`\"'-—―–/")
_CLOSERS = "\"'”’»)\\]}?!"
_AFTER_STOP = re.compile(rf"(?P<close>[{_CLOSERS}]*)(?P<space>\s*)(?P<next>\S?)")
_AFTER_MARK = re.compile(rf"[{_CLOSERS}\s.,;:]|$")
_LETTERS = re.compile(r"(?:[^\W\d_]\.)+", re.IGNORECASE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = (
    _words("mr mrs ms dr prof messrs capt col lt maj sgt cpl adm gov sen supt jr sr st ste ph.d")
    | _words("inc corp ltd bros cos assn dept univ ave blvd")
    | _words("jan feb apr aug sept oct nov dec ala ariz ark calif colo conn fla ky mich minn neb")
    | _words("okla tenn tex va vt wis wyo vs etc approx nos vol pp cf viz")
)
# Abbreviations if capitalised or before a number; otherwise words that may end a sentence.
_ALSO_WORDS = _words(
    "no fig figs ext sec ed est rep gen rev hon pres co del ore ill ind mass wash miss mont pa ga "
    "mo la mar jun jul ft mt rd"
)


def tokenize(text: str) -> list[str]:
    """The unescaped tokens of one English sentence: brackets are `(`, not `-LRB-`.

    Text without visible characters has no tokens. Tokens joined by spaces give the same tokens
    again, except tokens that end in a full stop inside the sentence.

    Example:
        >>> tokenize('He said, "I can\\'t (really) go."')
        ['He', 'said', ',', '``', 'I', 'ca', "n't", '(', 'really', ')', 'go', '.', "''"]
    """
    return [token for token, _, _ in tokenize_with_offsets(text)]


def tokenize_with_offsets(text: str) -> list[tuple[str, int, int]]:
    """The tokens of `tokenize`, each with its first character and the one after its last.

    Characters that are ignored do not end a token: `text[start:end]` may contain a soft hyphen.
    """
    blank = _BLANK.sub(" ", text)
    shown = _NOTHING.sub("", blank)
    tokens: list[tuple[str, int, int]] = []
    open_quotes = 0
    for match in _TOKEN.finditer(shown):
        kind, piece, start = match.lastgroup, match[0], match.start()
        if kind == "word":
            for part in _split_word(piece.replace("’", "'"), shown, match.end()):
                tokens.append((part, start, start + len(part)))
                start += len(part)
            continue
        if kind == "double":
            opens = _opens(piece, shown, match, bool(open_quotes))
            open_quotes = max(0, open_quotes + (1 if opens else -1))
            piece = "``" if opens else "''"
        elif kind == "single":
            piece = "`" if _opens_single(piece, shown, match) else "'"
        elif piece[0] in "'’‘":
            piece = "'" + piece[1:].replace("’", "'")
        tokens.append((piece, start, match.end()))
    if len(shown) == len(text):
        return tokens
    place = [i for i, character in enumerate(blank) if not _NOTHING.match(character)]
    return [(token, place[start], place[end - 1] + 1) for token, start, end in tokens]


def _split_word(word: str, text: str, end: int) -> list[str]:
    """Split a full stop and clitics from a word that ends at `end`."""
    stop = []
    if len(word) > 1 and word.endswith(".") and _is_full_stop(word, text, end):
        word, stop = word[:-1], ["."]
    clitics: list[str] = []
    cut = len(word)
    # Search only the end each time: a word may be long and end in thousands of clitics.
    while match := _CLITIC.search(word, max(0, cut - _LONGEST_CLITIC), cut):
        cut = match.start()
        clitics.append(match[0])
    word = word[:cut]
    fused = _FUSED.get(word.lower())
    return ([word[:fused], word[fused:]] if fused else [word]) + clitics[::-1] + stop


def _is_full_stop(word: str, text: str, end: int) -> bool:
    """Whether the dot at the end of a word ends a sentence; otherwise it abbreviates the word."""
    after = _AFTER_STOP.match(text, end)
    assert after is not None  # the pattern matches the empty text
    following, stem = after["next"], word[:-1].lower()
    if not following:
        return True
    if not after["space"] or _LETTERS.fullmatch(word):
        return False  # "etc.,", "J. Smith"
    if following.islower() and not after["close"]:
        return False  # "vs. them"; but '"I go." and'
    if stem in _ALSO_WORDS:
        return not (word[0].isupper() or following.isdigit())
    return stem not in _ABBREVIATIONS


def _opens(mark: str, text: str, match: re.Match[str], inside: bool) -> bool:
    """Whether a double quotation mark opens: by its place or, if that is ambiguous, by its form.

    A straight mark between two blanks or two letters opens unless `inside` a quotation.
    """
    if mark == "``":
        return True
    starts = _may_open_after(text, match.start())
    ends = _AFTER_MARK.match(text, match.end()) is not None
    if starts != ends:
        return starts
    return not inside if mark == '"' else mark in "“„‟"


def _opens_single(mark: str, text: str, match: re.Match[str]) -> bool:
    if mark != "'":
        return mark != "’"
    end = match.end()
    return _may_open_after(text, match.start()) and end < len(text) and text[end].isalnum()


def _may_open_after(text: str, start: int) -> bool:
    return start == 0 or text[start - 1].isspace() or text[start - 1] in _OPENERS
