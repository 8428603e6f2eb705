"""The syntactically untied recursive network and its batches."""
