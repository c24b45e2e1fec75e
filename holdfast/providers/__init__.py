"""Providers: models behind the protocols of Anthropic, Google and OpenAI, and a demo model.

A provider converts a `Request` into an HTTP request, and the events of the response into deltas.
Nothing here decides what happens next: retries, tools and history belong to the kernel. No provider
imports another one; what they share is in the modules of this folder.

- **Encoder, stream, decoder.** In each package `request.py` encodes and `decoder.py` decodes, both
  pure; `http_stream.py` sends the request and feeds the decoder. Tests need no network.
- **Nothing is lost on the way back.** Whatever a provider wants to receive again is kept in the
  metadata of a part, under the provider's name. `foreign_messages.py` converts the history for
  another provider.
- **One table of errors.** `failure.py` reads the error forms of every provider and gateway;
  `http.py` converts connection errors.
- **Facts are data.** `profiles.json` has windows, prices and features of models;
  `provider_catalog.py` has addresses and keys of providers; `model_factory.py` resolves
  `provider:model` with both.

Read `http_stream.py` first, then `anthropic/__init__.py`. This file imports nothing, so that using
one provider loads the code of one.
"""
