"""The command line: one file a command; every command is imported only when it runs."""
