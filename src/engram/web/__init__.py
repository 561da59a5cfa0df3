"""The page of `engram serve`: its server, and in `static/` the page itself."""
