"""Runs a command so that it reaches one directory, and little else of the machine.

Read `policy.py` first: a `SandboxPolicy` names what a command may use.

- `command.py` turns a policy and a command into a plan, and opens what it needs. `mounts.py` finds
  the files; `bubblewrap.py`, `seccomp.py` and `landlock.py` are pure: a command line, a filter of
  system calls, rights on files.
- `launcher.py` carries the plan out, in the process that becomes the command. It imports no other
  module of Holdfast.
- `proxy.py` is the only way to hosts that the policy names; `egress.py` (pure) decides which.
- `support.py` tries which layers this machine has.
- `workspace.py` is the workspace of kind `sandbox`: the files of a directory, and such commands.
"""
