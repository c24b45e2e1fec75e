"""One directory, and safe access to the files in it.

Read `directory.py` first: `Directory` is what the tools use to read, list and write files.

- A path never leaves the directory, whatever links and other programs do meanwhile: `openat.py`
  lets the kernel resolve it (`openat2`), or resolves it name by name.
- A write is atomic: `atomic_replace.py` writes a new file and renames it, and refuses a file that
  has changed since it was read.
- `walk.py` lists a tree; `gitignore.py`, `glob.py` and `gitignore_patterns.py` decide which entries
  are ignored or match, in bounded time: repositories and models write the patterns.
- Errors are messages for a model: `errors.py` has the sentence for each error number.

The code here knows descriptors and bytes. What is in a file (text, encodings, diffs) belongs into
`tools/files`, and starting a process into `tools/commands`.
"""
