"""The base PCFG: annotation, lexicon, rules."""
