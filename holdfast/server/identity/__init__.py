"""Identity: who a caller is, what they may do, and what protects the server from other callers.

Read `authenticator.py` first: it turns a request into an `ApiCaller`. What a caller may do is
decided one package up, in `server/access_policy.py`.

- **Credentials.** API tokens (`tokens.py`), browser sessions (`sessions.py`) and share links
  (`shares.py`) are random secrets, stored as hashes (`credential_format.py`). A lookup is cached
  for two seconds, so a revocation takes effect on every replica within that time.
- **Local and team.** A local server has one user, whose token is in a private file
  (`local_token.py`, `private_file.py`) and who can connect by a Unix socket (`local_socket.py`). A
  team server has `users.py`. Everything else is the same (`auth_config.py`).
- **Before authentication.** `request_protection.py` installs the check of `Host` and `Origin`
  (`origin_check.py`) and the recording of refused requests (`refusal_audit.py`); `slow_clients.py`
  limits how slowly a request may arrive; `client_address.py` reads the address behind proxies.
- **Records.** `audit.py` writes each change in the transaction that makes it;
  `encrypted_secrets.py` encrypts provider keys.

No route handlers here: those are in `server/routes`.
"""
