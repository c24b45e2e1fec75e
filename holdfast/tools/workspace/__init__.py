"""The workspace of kind `directory`: one directory, and safe access to the files in it.

Read `directory_workspace.py` first: `DirectoryWorkspace` is what the tools use. It runs in threads
what `Directory` (`directory.py`) does.

- A path never leaves the directory, whatever links and other programs do meanwhile: `openat.py`
  lets the kernel resolve it (`openat2`), or resolves it name by name.
- A write is atomic: `atomic_replace.py` writes a new file and renames it, and refuses a file that
  has changed since it was read.
- `walk.py` lists the tree of a `Directory`, or of any workspace (`tree.py`, `walk_query.py`).
  `gitignore.py`, `glob.py` and `gitignore_patterns.py` decide which entries are ignored or match,
  in bounded time: repositories and models write the patterns.
- Errors are messages for a model: `errors.py` has the sentence for each error number.

The code here knows descriptors and bytes. What is in a file (text, encodings, diffs) belongs into
`tools/files`, and the processes of a command into `tools/commands`.
"""
