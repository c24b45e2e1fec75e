"""The command line: the `holdfast` program and its verbs.

Each verb has a parser in `parsers/` and a module here with a `main(options)` that returns an exit
code. Read `main.py` first, then `command_line.py` (the table of verbs) and the module of a verb.

- The command line adds no behaviour of its own: `run` drives an `Agent` in this process, `chat`
  is a client of a server, `serve` and `worker` assemble the server from its settings.
- Starting is fast: a verb imports what it needs when it is called.
- Errors are exceptions with a message for the user; `main.py` alone turns them into exit codes.
- Only `holdfast/config.py` reads the environment and the parsed options.
- Output for people goes through `view.py`, `transcript.py` and `output_stream.py`; text of models,
  tools and files is escaped before it reaches a terminal. `json_lines.py` serves programs.

No other package may import this one.
"""
