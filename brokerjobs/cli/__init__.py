"""The command line: one file per noun.

Data goes to stdout, everything else to stderr.  Exit codes are in `failures`; nothing heavy is imported before a
command runs, so that `--help` and completion are quick.
"""
