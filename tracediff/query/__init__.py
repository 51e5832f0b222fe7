"""query: captures -> tables that a user may ask SQL of; sql/ holds the tables, guard.py what a user may do with them."""
