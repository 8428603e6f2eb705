"""Optimisers for subgradient training."""
