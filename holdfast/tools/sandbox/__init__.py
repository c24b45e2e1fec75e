"""The rules of a sandbox for commands: which files, calls and hosts of the machine they may use.

Read `policy.py` first: a `SandboxPolicy` names what a command may use. All modules are pure:
`bubblewrap.py` makes a command line of it, `seccomp.py` a filter of system calls, and `landlock.py`
rights on files. No command is started with them yet: `execute` is not isolated.
"""
