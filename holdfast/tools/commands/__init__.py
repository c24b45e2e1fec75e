"""Runs one command: its processes, its environment and its output.

Read `process.py` first: `CommandProcess` is a running command of this machine, from its start to
its exit code.

- Between us and the command is a supervisor process (`supervisor_process.py`). It stops everything
  that the command has started, also when our own process is killed.
- `environment.py` decides which variables a command gets: an allow-list, so no secret of this
  process reaches a command by accident. That is not isolation.
- `output.py` cleans the output as it arrives, keeps its beginning and its end for the model, and
  writes a long output to a file.

`supervisor_process.py` is run as a script: it imports almost nothing, and no other module of
Holdfast. The tool itself, with its schema and its time limits, is `tools/execute.py`.
"""
