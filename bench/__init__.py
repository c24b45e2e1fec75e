"""The benchmarks: what Holdfast costs, compared with a floor that is measured in the same run.

A *floor* is the least code that does the same work by hand, without durability or safety. Each
figure is printed next to its floor as a ratio, so that it can be compared between machines. Run
`make bench`, or `python -m bench --only steps` for one section. Read `__main__.py` first: it has
the sections and prints the tables.

- Each measured program runs in a process of its own and prints a line of JSON per size.
  `<section>_holdfast.py` is ours, `<section>_floor.py` the floor.
- Floor and ours take turns, because a machine has slow and fast minutes; the median of the ratios
  counts. `measure.py` takes CPU time, `durable_work.py` wall time of a real worker.
- Durable figures depend on the disk: `durable_disk.py` reports how long a sync takes.
- `peers/` has the same loop in other frameworks, each in an environment of its own.

Nothing in `holdfast/` imports this package. Of the tests, only
`tests/browser/test_frame_times.py` does:
it asserts the goals of the page.
"""
