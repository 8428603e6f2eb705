"""Structured losses with explicit subgradients."""
