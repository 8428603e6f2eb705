"""From the tag states of tokens to their tags, as numba kernels."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit


@njit(nogil=True)
def coarse_emissions(lex_ptr, lex_symbol, lex_logp, coarse, state_weight):
    """The tags of each token with log P(word | tag), from its tag states.

    Args:
        lex_ptr [n+1], lex_symbol, lex_logp: see `rnnparse.grammar.Emissions`.
        coarse [S], state_weight [S]: of each symbol; see `coarse.CoarseGrammar`.

    Returns:
        The same three arrays for tags, in which each token has at most as many entries.
    """
    ptr, symbol = np.zeros_like(lex_ptr), np.empty_like(lex_symbol)
    logp, mass = np.empty_like(lex_logp), np.zeros(coarse.max() + 1)
    count = 0
    for i in range(lex_ptr.shape[0] - 1):
        top = -np.inf
        for t in range(lex_ptr[i], lex_ptr[i + 1]):
            top = max(top, lex_logp[t] + state_weight[lex_symbol[t]])
        for t in range(lex_ptr[i], lex_ptr[i + 1]):
            tag = coarse[lex_symbol[t]]
            if mass[tag] == 0.0:
                symbol[count] = tag
                count += 1
            # Underflow must not make an entry look new.
            mass[tag] += max(np.exp(lex_logp[t] + state_weight[lex_symbol[t]] - top), 1e-300)
        ptr[i + 1] = count
        for t in range(ptr[i], count):
            logp[t] = top + np.log(mass[symbol[t]])
            mass[symbol[t]] = 0.0
    return ptr, symbol[:count], logp[:count]


@njit(nogil=True)
def likeliest_tags(ptr, symbol, logp, tag_weight, tag_code):
    """[n] int64: the code of the most probable tag of each token, without regard to its neighbours.

    Args:
        ptr [n+1], symbol, logp: the result of `coarse_emissions`.
        tag_weight [N]: log of each tag's expected frequency.
        tag_code [N]: a number for each tag.
    """
    tags = np.empty(ptr.shape[0] - 1, np.int64)
    for i in range(tags.shape[0]):
        best, tag = -np.inf, symbol[ptr[i]]
        for t in range(ptr[i], ptr[i + 1]):
            if logp[t] + tag_weight[symbol[t]] > best:
                best, tag = logp[t] + tag_weight[symbol[t]], symbol[t]
        tags[i] = tag_code[tag]
    return tags
