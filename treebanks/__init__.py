"""The embedded treebank (`train.mrg`, `dev.mrg`, `test.mrg`) and the grammar that generates it."""
