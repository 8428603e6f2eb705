"""Studies of how training converges: grids of settings, run in parallel, each with its curve."""
