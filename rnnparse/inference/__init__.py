"""Exact decoding: CKY, k-best lists, forests."""
