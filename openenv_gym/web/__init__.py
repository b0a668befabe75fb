"""The web page of a server: a program of its own, beside the server, and a client of it.

`openenv_gym.server.web` starts it and hands it the connections of browsers; what it needs is the
extra ``web``. docs/web.md says what the page can do.
"""
