"""What a process tells of itself: numbers, logs, traces, recordings. Nothing here decides."""
