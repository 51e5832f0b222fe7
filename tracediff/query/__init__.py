"""query: captures -> tables that a user may ask SQL of.

reference.py which tables there are: names, columns, types and comments, read from sql/query/*.sql
fill.py      one export -> rows of those tables in a database file
guard.py     a connection that can read those tables and nothing else; what its errors say
patience.py  waiting that Ctrl-C can break off
tables.py    `Tables`: one or two sides, filled and guarded
"""
