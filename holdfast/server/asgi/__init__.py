"""The API as an ASGI application, to be mounted into a web application with users of its own.

Read `application.py` first. Operations, access policy, problems and streams are those of the
server: `dispatch.py` carries out a request, whichever server received it.

- `application.py` receives requests and sends what they are answered with.
- `asgi_request.py` is a request as operations read it; `router.py` finds its operation.
- `event_streams.py` sends streams, over SSE and WebSocket.
- `app_identity.py` asks the application who sends a request; `cross_site.py` refuses requests of
  pages of other sites.
- `mounted_operations.py` has the operations that are mounted, and their OpenAPI document.
- `shutdown_watch.py` notices that the web server stops, so that streams end before it waits for
  them.
"""
