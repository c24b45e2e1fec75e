"""Live output: the deltas of running attempts, in memory, for readers that follow a chat.

Here live the buffer of each running attempt and its readers. Not here: anything durable. A delta
is shown and never stored as history; when its step is committed or fails, readers get an
`AttemptReset`.

Ideas:

- An attempt is named by (epoch, history version, attempt number), and its deltas are numbered from
  1 without a gap. A `LiveCursor` is an attempt and a number, so a reader can resume anywhere.
- Memory is bounded by merging deltas that continue each other and by shortening tool output, never
  by dropping text. A slow reader costs nothing while it is slow.
- A process can mirror an attempt that runs in another process, with the same numbers (`Tap` on one
  side, `Mirror` on the other); the server's relay does so.

Read `broadcast.py` first (`Live`, `DeltaWriter`, `DeltaReader`), then `buffer.py` (the deltas of
one attempt) and `delta_fragments.py` (what a delta may hold).
"""
