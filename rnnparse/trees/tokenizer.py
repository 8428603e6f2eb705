"""From a sentence as people write it to tokens as treebanks of English have them.

The conventions are those of the Penn Treebank (R. MacIntyre, tokenizer.sed, 1995), with what the
script gets wrong on today's text mended:

- Punctuation, brackets, currency and per cent signs are tokens of their own, but not inside
  numbers (`3:30`, `1,000.50`), web and mail addresses, telephone numbers (`(713)853-7041`) and
  words such as `book(s)` and `Solano(r)`.
- Contractions are cut before the clitic: `do n't`, `it 's`, `dogs '`, `can not`, `gon na`.
- Double quotation marks become `` and '', single ones ` and ', however they were typed.
- A full stop is cut from the last word, whatever the word (`N.J .`, also before closing quotation
  marks or brackets), and from a word before a capital letter unless it is an abbreviation.

Characters without a shape (controls, zero-width spaces) count as white space, directional marks
and soft hyphens as nothing. Apart from these and the form of quotation marks, the tokens put
together are the text: nothing is lost, added or moved.
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
# Abbreviations with a capital, or before a number; else the last word of a sentence.
_ALSO_WORDS = _words(
    "no fig figs ext sec ed est rep gen rev hon pres co del ore ill ind mass wash miss mont pa ga "
    "mo la mar jun jul ft mt rd"
)


def tokenize(text: str) -> list[str]:
    """Tokens of one English sentence, in plain form: brackets are `(`, not `-LRB-`.

    Text without a visible character has no tokens. Tokens joined by spaces are tokenized to
    themselves, except where a token ends in a full stop that is not the sentence's.

    Example:
        >>> tokenize('He said, "I can\\'t (really) go."')
        ['He', 'said', ',', '``', 'I', 'ca', "n't", '(', 'really', ')', 'go', '.', "''"]
    """
    text = _NOTHING.sub("", _BLANK.sub(" ", text))
    tokens: list[str] = []
    open_quotes = 0
    for found in _TOKEN.finditer(text):
        kind, piece = found.lastgroup, found[0]
        if kind == "word":
            tokens += _split_word(piece.replace("’", "'"), text, found.end())
        elif kind == "double":
            opens = _opens(piece, text, found, bool(open_quotes))
            open_quotes = max(0, open_quotes + (1 if opens else -1))
            tokens.append("``" if opens else "''")
        elif kind == "single":
            tokens.append("`" if _opens_single(piece, text, found) else "'")
        elif piece[0] in "'’‘":
            tokens.append("'" + piece[1:].replace("’", "'"))
        else:
            tokens.append(piece)
    return tokens


def _split_word(word: str, text: str, end: int) -> list[str]:
    """Cut a full stop and clitics from a word that ends at `end`."""
    stop = []
    if len(word) > 1 and word.endswith(".") and _is_full_stop(word, text, end):
        word, stop = word[:-1], ["."]
    clitics: list[str] = []
    cut = len(word)
    # Only the end is searched each time: a word may be long and end in thousands of clitics.
    while found := _CLITIC.search(word, max(0, cut - _LONGEST_CLITIC), cut):
        cut = found.start()
        clitics.append(found[0])
    word = word[:cut]
    fused = _FUSED.get(word.lower())
    return ([word[:fused], word[fused:]] if fused else [word]) + clitics[::-1] + stop


def _is_full_stop(word: str, text: str, end: int) -> bool:
    """Whether the dot at the end of a word ends a sentence rather than abbreviates the word."""
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


def _opens(mark: str, text: str, found: re.Match[str], inside: bool) -> bool:
    """Whether a double quotation mark opens: by its place, and where that does not tell, its form.

    A straight mark between two blanks or two letters opens unless `inside` a quotation.
    """
    if mark == "``":
        return True
    starts = _may_open_after(text, found.start())
    ends = _AFTER_MARK.match(text, found.end()) is not None
    if starts != ends:
        return starts
    return not inside if mark == '"' else mark in "“„‟"


def _opens_single(mark: str, text: str, found: re.Match[str]) -> bool:
    if mark != "'":
        return mark != "’"
    end = found.end()
    return _may_open_after(text, found.start()) and end < len(text) and text[end].isalnum()


def _may_open_after(text: str, start: int) -> bool:
    return start == 0 or text[start - 1].isspace() or text[start - 1] in _OPENERS
