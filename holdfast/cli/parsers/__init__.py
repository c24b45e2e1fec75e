"""Command-line parsers: the options and help of every verb, and the function each verb calls.

Each file holds one group of verbs and ends with its `Verb` values; `cli/command_line.py` puts them
into one table. Read `argument_parser.py` first: it is argparse with errors as exceptions.

- Importing this package is part of every start of the program, so nothing here imports more than
  argparse. A verb imports its implementation when it is called.
- Options shared by several verbs live in `shared_options.py`, so they read the same everywhere.
- Defaults from the environment are not applied here but in `holdfast/config.py`.
- Shell completion is generated from these parsers: a new option needs nothing else.
"""
