"""Pure functions on the content of files: decoding, editing, comparing.

Read `text_file.py` first: a `Document` is the text of a file and what is needed to write its bytes
back unchanged.

- `edits.py` applies replacements. `fuzzy_match.py` finds text that was not given exactly, and
  `suggestions.py` finds the most similar lines if there is no match.
- `diff.py` makes the diffs that people approve and models read. `planned_change.py` is a
  change before it is written: what was approved is planned again, and written only if the file is
  still the same.
- `read_versions.py` derives from the history which version of a file the model has read, so a file
  that it has not seen is never overwritten. `kind.py` names the kind of a binary file.

Only `planned_change.py` and `excerpt.py` read or write a file, of a workspace. Every search has a
limit: models choose the text, and a file may be large.
"""
