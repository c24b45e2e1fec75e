"""Fake providers: servers that implement the real protocols, play a script, and fail on request.

A fake checks requests as strictly as the real provider, as far as its rules are documented or were
observed. It does not imitate a model: the script has every word of an answer.

- **One dialect per protocol.** A `FakeDialect` (`dialect_interface.py`) checks a request, encodes a
  refusal, and creates the encoder of an answer. `anthropic.py`, `google.py`, `openai_chat.py` and
  `openai_responses.py` each have one; the checks are in the `…_rules.py` next to them.
- **Faults concern the connection.** `faults.py` has them as items of a script; `provider.py`
  applies them to the encoded events, so every protocol has all of them.
- **A fake shares no protocol code with its provider**, otherwise both would make the same mistake:
  it imports nothing from a provider's package.

Read `provider.py` first: it plays a script, in memory or with `server.py` on loopback.
"""
