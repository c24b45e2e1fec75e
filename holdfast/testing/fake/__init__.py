"""Fake providers: servers that speak the real protocols, play a script, and fail on request."""
