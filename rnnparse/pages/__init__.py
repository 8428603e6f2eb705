"""Pages for browsers: drawings of trees, and reports of errors. They work offline."""
