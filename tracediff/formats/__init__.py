"""formats: input files -> canonical tables. The only package that knows foreign tables."""
