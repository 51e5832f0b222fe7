"""load: an input file -> the canonical tables. The only room that knows the tables of nsys.

inputs.py      command-line words -> sides and their files
unpack.py      .xz, .nsys-rep and trace.json -> a plain .sqlite
kineto*.py     a trace of torch.profiler -> the tables of an nsys export
nsys_schema.py which tables and columns an export has; what is missing
database.py    DuckDB with the packaged, signature-checked SQLite scanner
recognise.py   what a file is, by what it holds
contents.py    what an export holds, without loading it
columnar.py    folders of Parquet or Arrow files, as nsys exports them
nsys_sqlite.py an export -> canonical tables (sql/load/*.sql)
capture.py     `Capture`: the canonical tables of one export and what it holds
"""
