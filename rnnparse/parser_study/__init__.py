"""Studies of the parser: grids of its settings, run on forests that all trials share."""
