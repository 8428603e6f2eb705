"""Scoring of trees against gold trees, by the rules of EVALB."""
